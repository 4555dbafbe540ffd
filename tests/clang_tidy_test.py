#!/usr/bin/python3
"""clang-tidy over every translation unit of the product that a build tree compiles, and of its tests with --tests.

    clang_tidy_test.py BUILD_FOLDER [--tests] [--deep]

The path-sensitive analyzer looks at what boards run with all its depth. At the host's programs it looks in its shallow
mode, which inlines small functions only: in depth it spends two thirds of the whole check on the insides of Asio and
Eigen, longer than a test run has. --deep looks at everything in depth; `./run soak tidy` does that.

Without batches three quarters of the time went into the headers that a unit includes. Units that are compiled by the
same command are therefore checked in batches, one after the other in one file. What two units would both call by one
name, each for itself, is given the unit's number there where that is safe, or the units go into two batches; a
finding names the unit and its line all the same. What is left is mostly the analyzer's: seven tenths of a batch of
the host's.

A unit that is compiled more than once, a second time with doubles say, is checked as it is compiled first. A batch that
was clean is not checked again until one of its units, a header of the project that they reach, the compile command or
.clang-tidy changes. Tests are left out of ./run test, which has to end in time on a bare machine; where they are
checked they go without the path-sensitive analyzer, because GoogleTest's macros cost it a minute a file, and may leave
the members of their tables to aggregate initialisation.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "cmake"))

from unit_groups import margin_names, own_names, reached  # noqa: E402

SKIPPED = ("third_party/", "build/")
ON_BOARDS = ("runtime/", "firmware/", "boards/")
# Nodes are states of a function: beyond them the analyzer leaves it. The mode's own 75,000 take twice the time.
SHALLOW = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow,max-nodes=20000")]
# More save little, and leave the last batch to one processor. In depth the analyzer has budgets a file.
BATCH_UNITS_MAX = {"deep": 8, "shallow": 24}
NUMBER = "OfUnit"
# Of a compile command: outputs, the unit, precompiled headers, which are GCC's, and what is optimised less.
NOT_CHECKED = r" (?:-o|-MF|-MT) \S+| -c \S+| -Winvalid-pch| -include \S+/cmake_pch\.hxx| -O1\b"
# What the headers are behind a #define is the unit's own, and what is weak is defined once more in another unit.
ALONE = "alone in its file"
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


def numbered(path: str, number: int) -> tuple:
    """(the unit's text with the names of its own numbered, those that keep their form because they may mean something
    else too: what a header declares, and members)."""
    files = dict(reached(path, {}))
    text = files.pop(path)
    if re.search(r"^#define .*^#include", text, re.M | re.S) or re.search(r"\[\[gnu::(weak|used)\]\]", text):
        return text, {ALONE}
    names = own_names(text)
    kept = names & ({"main"} | set(re.findall(r"(?:\.|->|::)\s*(\w+)(?! =)\b", text)) |
                    margin_names("\n".join(files.values()).splitlines()))
    text = re.sub(r"(?<!\.)(?<!->)(?<!::)\b\w+",
                  lambda match: match[0] + (f"{NUMBER}{number}" if match[0] in names - kept else ""), text)
    return text, kept


class Batch(NamedTuple):
    """Units that one file may hold."""
    command: str    # of the compiler, without the unit
    options: list   # of clang-tidy
    suffix: str
    units: list     # their paths
    parts: list     # their texts
    names: set      # that no other unit may have

    def text(self) -> str:
        return "\n".join(self.parts)

    def place_of(self, line: int) -> str:
        """unit:line of a line of text()."""
        for path, part in zip(self.units, self.parts):
            count = part.count("\n") + 1
            if line <= count:
                return f"{path}:{line}"
            line -= count
        return f"{self.units[-1]}:{line}"

    def digest(self) -> str:
        with open(os.path.join(ROOT, ".clang-tidy"), encoding="utf-8") as file:
            parts = [self.command, *self.options, file.read()]
        seen = {}
        for path in self.units:
            reached(path, seen)
        for name, text in [*sorted(seen.items()), *((path, "") for path in self.units)]:
            parts += [name, text]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def batches_of(units: dict, deep: bool) -> list:
    """Each unit in the first batch that can take it."""
    batches = []
    for number, (path, entry) in enumerate(units.items()):
        command = re.sub(NOT_CHECKED, "", entry["command"])
        options, suffix = options_for(path, deep), os.path.splitext(path)[1]
        unit_max = BATCH_UNITS_MAX["shallow" if SHALLOW[0] in options else "deep"]
        text, names = numbered(path, number)
        for batch in batches:
            if (batch.command, batch.options, batch.suffix) == (command, options, suffix) and \
                    len(batch.units) < unit_max and not batch.names & names and ALONE not in names | batch.names:
                break
        else:
            batch = Batch(command, options, suffix, [], [], set())
            batches.append(batch)
        batch.units.append(path)
        batch.parts.append(text)
        batch.names.update(names)
    return batches


def options_for(path: str, deep: bool) -> list:
    options = ["--extra-arg=-Wno-unknown-warning-option"]  # commands are GCC's
    if path.startswith("tests/"):
        options.append("--checks=" + TESTS_WITHOUT)
    elif not deep and not path.startswith(ON_BOARDS):
        options += SHALLOW
    return options


def check(database: str, file: str, batch: Batch) -> str:
    """What clang-tidy has to say of a batch, which is one file of the database, or '' if it is clean."""
    config = f"--config-file={os.path.join(ROOT, '.clang-tidy')}"
    done = subprocess.run(["clang-tidy", "--quiet", config, "-p", database, *batch.options, file], text=True,
                          capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    complaint = re.sub(re.escape(file) + r":(\d+)", lambda match: batch.place_of(int(match[1])),
                       done.stdout or done.stderr)
    return re.sub(NUMBER + r"\d+", "", complaint)


def main() -> int:
    build = os.path.abspath(sys.argv[1])
    clean = os.path.join(build, "clang_tidy_clean")
    os.makedirs(clean, exist_ok=True)
    with_tests, deep = "--tests" in sys.argv[2:], "--deep" in sys.argv[2:]
    units = {path: command for path, command in project_units(build).items()
             if with_tests or not path.startswith("tests/")}
    batches = {batch.digest(): batch for batch in batches_of(units, deep)}
    wanted = {name: batch for name, batch in batches.items() if not os.path.exists(os.path.join(clean, name))}
    files = {name: os.path.join(clean, f"batch_{index}{batch.suffix}") for index, (name, batch) in
             enumerate(wanted.items())}
    database = []
    for name, batch in wanted.items():
        with open(files[name], "w", encoding="utf-8") as file:
            file.write(batch.text())
        database.append({"directory": build, "file": files[name], "command": f"{batch.command} -c {files[name]}"})
    with open(os.path.join(clean, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(database, file)
    failures = 0
    # Those with the most units begin, so that all processors end at about the same time.
    names = sorted(wanted, key=lambda name: len(wanted[name].units), reverse=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = pool.map(lambda name: check(clean, files[name], wanted[name]), names)
        for name, complaint in zip(names, complaints):
            batch = wanted[name]
            if complaint:
                print(f"{' '.join(batch.units)}:\n{complaint}")
                failures += 1
            else:
                open(os.path.join(clean, name), "w", encoding="utf-8").close()
    print(f"{len(units)} units in {len(batches)} batches, {len(wanted)} checked anew, {failures} with findings")
    return 1 if failures or not units else 0


if __name__ == "__main__":
    sys.exit(main())
