#!/usr/bin/python3
"""clang-tidy over every translation unit of the product that a build tree compiles, and of its tests with --tests.

    clang_tidy_test.py BUILD_FOLDER [--tests] [--deep]

The path-sensitive analyzer looks at what boards run with all its depth. At the host's programs it looks in its shallow
mode, which inlines small functions only: in depth it spends two thirds of the whole check on the insides of Asio and
Eigen, longer than a test run has. --deep looks at everything in depth; `./run soak tidy` does that.

A unit that is compiled more than once, a second time with doubles say, is checked as it is compiled first. One that was
clean is not checked again until it, a header of the project that it reaches, its compile command or .clang-tidy
changes. Tests are left out of ./run test, which has to end in time on a bare machine; where they are checked they go
without the path-sensitive analyzer, because GoogleTest's macros cost it a minute a file, and may leave the members of
their tables to aggregate initialisation.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = ("third_party/", "build/")
ON_BOARDS = ("runtime/", "firmware/", "boards/")
SHALLOW = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")]
TESTS_WITHOUT = "-clang-analyzer-*,-cppcoreguidelines-pro-type-member-init"


def project_units(build: str) -> dict:
    """path from the root -> entry of the compilation database; a source that is compiled twice counts once."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    units = {}
    for command in commands:
        path = os.path.relpath(command["file"], ROOT)
        if not path.startswith(("..",) + SKIPPED):
            units.setdefault(path, command)
    return units


def reached(path: str, seen: dict) -> dict:
    """Contents of the file and of the project's headers that it reaches."""
    if path not in seen and os.path.isfile(os.path.join(ROOT, path)):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            seen[path] = file.read()
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', seen[path], re.M):
            reached(header, seen)
    return seen


def digest_of(path: str, command: str, options: list) -> str:
    with open(os.path.join(ROOT, ".clang-tidy"), encoding="utf-8") as file:
        parts = [command, *options, file.read()]
    for name, text in sorted(reached(path, {}).items()):
        parts += [name, text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def options_for(path: str, deep: bool) -> list:
    options = ["--extra-arg=-Wno-unknown-warning-option"]  # commands are GCC's
    if path.startswith("tests/"):
        options.append("--checks=" + TESTS_WITHOUT)
    elif not deep and not path.startswith(ON_BOARDS):
        options += SHALLOW
    return options


def check(database: str, path: str, options: list) -> str:
    """What clang-tidy has to say, or '' for a clean unit."""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", database, *options, os.path.join(ROOT, path)], text=True,
                          capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    return done.stdout or done.stderr


def main() -> int:
    build = os.path.abspath(sys.argv[1])
    clean = os.path.join(build, "clang_tidy_clean")
    os.makedirs(clean, exist_ok=True)
    with_tests, deep = "--tests" in sys.argv[2:], "--deep" in sys.argv[2:]
    units = {path: command for path, command in project_units(build).items()
             if with_tests or not path.startswith("tests/")}
    # clang-tidy checks a file once for every command that its database has for it.
    with open(os.path.join(clean, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(list(units.values()), file)
    stamps = {path: os.path.join(clean, digest_of(path, entry["command"], options_for(path, deep)))
              for path, entry in units.items()}
    wanted = [path for path in units if not os.path.exists(stamps[path])]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, complaint in zip(wanted, pool.map(lambda path: check(clean, path, options_for(path, deep)), wanted)):
            if complaint:
                print(f"{path}:\n{complaint}")
                failures += 1
            else:
                open(stamps[path], "w", encoding="utf-8").close()
    print(f"{len(units)} units, {len(wanted)} checked anew, {failures} with findings")
    return 1 if failures or not units else 0


if __name__ == "__main__":
    sys.exit(main())
