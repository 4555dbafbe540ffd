#!/usr/bin/python3
"""clang-tidy over every translation unit of the product that a build tree compiles, and of its tests with --tests.

    clang_tidy_test.py BUILD_FOLDER [--tests] [--deep]
    clang_tidy_test.py --self-test    plants commands and units that may not share a file

The path-sensitive analyzer looks at what boards run with all its depth. At the host's programs it looks in its shallow
mode, which inlines small functions only: in depth it spends two thirds of the whole check on the insides of Asio and
Eigen, longer than a test run has. --deep looks at everything in depth; `./run soak tidy` does that.

Without batches three quarters of the time went into the headers that a unit includes. Units are therefore checked in
batches, one after the other in one file. The commands of a batch differ only in what no unit of it sees. That is how
much the compiler optimises, its warnings, folders of headers, and macros that the others' files do not name. What two
units would both call by one name, each for itself, is given the unit's number there where that is safe, or the units go
into two batches. A finding names the unit and its line all the same. What is left is mostly the analyzer's and that of
checks that look at each node of the headers.

A unit that is compiled more than once, a second time with doubles say, is checked as it is compiled first. A batch that
was clean is not checked again until one of its units, a header of the project that they reach, the compile command or
.clang-tidy changes. Tests are left out of ./run test, which has to end in time on a bare machine. Where they are
checked they go without the path-sensitive analyzer, because GoogleTest's macros cost it a minute a file. They may leave
the members of their tables to aggregate initialisation.
"""

import collections
import concurrent.futures
import dataclasses
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
# Of a compile command: outputs, the unit, precompiled headers, which are GCC's, and what decides on machine code.
NOT_CHECKED = (r" (?:-o|-MF|-MT) \S+| -c \S+| -Winvalid-pch| -include \S+/cmake_pch\.hxx| -O\w*| -g\d?(?= )| -fPIC\b|"
               r" -fmacro-prefix-map=\S+| -D\w+_EXPORTS\b")
# The analyzer undoes -Werror, and .clang-tidy lists none of the compiler's warnings: of the product they are not shown.
WARNINGS = r" -W\S+"
# What the headers are behind a #define is the unit's own.
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


def without_attributes(text: str) -> str:
    return re.sub(r"\[\[[^\]]*\]\] ?", "", text)


def defined_names(text: str) -> set:
    """Functions that the unit defines for others, and some that it declares."""
    bare = without_attributes(text)
    return set(re.findall(r'^(?:extern "C" )?\w[\w:<>,*& ]*[ *&](\w+)\(', bare, re.M)) - own_names(bare)


def enumerators(text: str) -> dict:
    """Name -> all of the enumeration, of those whose names stand in no scope of their own."""
    blocks = re.findall(r"^enum (?!class|struct)[^;{]*\{.*?^\};", text, re.M | re.S)
    return {name: block for block in blocks for name in re.findall(r"^\s+(k\w+)", block, re.M)}


def numbered(text: str, headers: str, number: int, twice: set) -> tuple:
    """(the unit's text with the names of its own numbered, those that keep their form because they may mean something
    else too: what a header declares, members, and functions of which each program has one of several)."""
    if re.search(r"^#define .*^#include", text, re.M | re.S):
        return text, {ALONE}
    bare = without_attributes(text)
    names = own_names(bare)
    kept = names & ({"main"} | set(re.findall(r"(?:\.|->|::)\s*(\w+)(?! =)\b", text)) |
                    margin_names(headers.splitlines()))
    text = re.sub(r"(?<!\.)(?<!->)(?<!::)\b\w+",
                  lambda match: match[0] + (f"{NUMBER}{number}" if match[0] in names - kept else ""), text)
    return text, kept | twice & defined_names(bare)


class Command(NamedTuple):
    """Of the compiler, without the unit, and what its units see of it."""
    flags: str      # all but macros and folders
    macros: dict    # name -> "" or "=value"
    folders: dict   # option and folder of headers -> None, in order
    named: set      # macros of the project that the units and their headers name
    headers: set    # all that they include, in lower case
    enumerators: dict

    @staticmethod
    def of(path: str, words: str, text: str) -> "Command":
        words = re.sub(NOT_CHECKED, "", words)
        if not path.startswith("tests/"):
            words = re.sub(WARNINGS, "", words)
        macros = dict(re.findall(r" -D(\w+)(\S*)", words))
        folders = dict.fromkeys(re.findall(r" (-I ?\S+|-isystem \S+)", words))
        flags = " ".join(re.sub(r" (?:-D\S+|-I ?\S+|-isystem \S+)", "", words).split())
        included = set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', text.lower(), re.M))
        return Command(flags, macros, folders, set(re.findall(r"\bGS_\w+", text)), included, enumerators(text))

    def sees(self, macro: str) -> bool:
        """Whether it may matter to the units: they name it, or include a library whose macros begin so."""
        library = macro.split("_")[0].lower()
        return macro in self.named if library == "gs" else any(library in header for header in self.headers)

    def agrees(self, other: "Command") -> bool:
        """Whether the units of both may be compiled by one command."""
        lacking = [self.sees(name) for name in other.macros.keys() - self.macros.keys()]
        lacking += [other.sees(name) for name in self.macros.keys() - other.macros.keys()]
        pairs = ((self.macros, other.macros), (self.enumerators, other.enumerators))
        return self.flags == other.flags and not any(lacking) and \
            all(ours[name] == theirs[name] for ours, theirs in pairs for name in ours.keys() & theirs.keys())

    def add(self, other: "Command") -> "Command":
        return Command(self.flags, {**self.macros, **other.macros}, {**self.folders, **other.folders},
                       self.named | other.named, self.headers | other.headers,
                       {**self.enumerators, **other.enumerators})

    def line(self) -> str:
        return " ".join([self.flags, *(f"-D{name}{value}" for name, value in self.macros.items()), *self.folders])


@dataclasses.dataclass
class Batch:
    """Units that one file may hold."""
    command: Command
    options: list   # of clang-tidy
    suffix: str
    units: list     # their paths
    parts: list     # their texts
    names: set      # that no other unit may have

    def can_take(self, other: "Batch", names: set) -> bool:
        """names: those of the other's that no other unit may have."""
        unit_max = BATCH_UNITS_MAX["shallow" if SHALLOW[0] in self.options else "deep"]
        return (self.options, self.suffix) == (other.options, other.suffix) and len(self.units) < unit_max and \
            not self.names & names and ALONE not in names | self.names and self.command.agrees(other.command)

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
            parts = [self.command.line(), *self.options, file.read()]
        seen = {}
        for path in self.units:
            reached(path, seen)
        for name, text in [*sorted(seen.items()), *((path, "") for path in self.units)]:
            parts += [name, text]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def batches_of(units: dict, deep: bool) -> list:
    """Each unit in the batch that can take it and has most of its headers."""
    reach = {}
    for path in units:
        files = reached(path, {})
        reach[path] = files.pop(path), "\n".join(files.values())
    count = collections.Counter(name for text, _ in reach.values() for name in defined_names(text))
    twice = {name for name in count if count[name] > 1}
    batches = []
    for number, (path, entry) in enumerate(units.items()):
        text, headers = reach[path]
        command = Command.of(path, entry["command"], text + "\n" + headers)
        text, names = numbered(text, headers, number, twice)
        batch = Batch(command, options_for(path, deep), os.path.splitext(path)[1], [], [], set())
        fit = [other for other in batches if other.can_take(batch, names)]
        if fit:
            batch = min(fit, key=lambda other: len(command.headers - other.command.headers))
            batch.command = batch.command.add(command)
        else:
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


def self_test() -> int:
    plain, words = "int a;\n", "/usr/bin/g++ -std=c++20"
    commands = [  # what two units' commands add, their texts, whether they share a file
        (" -O2 -g1 -Wall -Iroot", plain, " -O1 -fPIC -Wshadow -isystem other", plain, True),
        (" -fno-rtti", plain, "", plain, False),
        (" -DGS_ALL=1", "#if GS_ALL\n", "", plain, True),
        (" -DGS_ALL=1", "#if GS_ALL\n", "", "#ifndef GS_ALL\n", False),
        (" -DGS_ALL=1", plain, " -DGS_ALL=2", plain, False),
        (" -DASIO_ALONE", '#include "asio.hpp"\n', "", "#include <vector>\n", True),
        (" -DASIO_ALONE", '#include "asio.hpp"\n', "", "#include <asio/ip/tcp.hpp>\n", False),
        ("", "enum Exit : int {\n  kOk = 0,\n};\n", "", "enum Exit : int {\n  kOk = 0,\n};\n", True),
        ("", "enum Exit : int {\n  kOk = 0,\n};\n", "", "enum ExitCode {\n  kOk = 0,\n};\n", False),
        ("", "enum class A : int {\n  kOk = 0,\n};\n", "", "enum class B {\n  kOk = 0,\n};\n", True),
    ]
    faults = []
    for one, one_text, other, other_text, wanted in commands:
        first = Command.of("server/a.cc", words + one, one_text)
        second = Command.of("server/b.cc", words + other, other_text)
        if (first.agrees(second), second.agrees(first)) != (wanted, wanted):
            faults.append(f"'{one}' and '{other}' share a file: {not wanted}")
        wanted_words = sorted(f"{words}{one}{other}".split())
        if wanted and sorted(first.add(second).line().split()) != [word for word in wanted_words if not
                                                                   re.fullmatch(r"-O\d|-g1|-fPIC|-W\w+", word)]:
            faults.append(f"the command of '{one}' and '{other}' is {first.add(second).line()}")
    twice = defined_names("[[gnu::weak]] bool f(int) {\n") & defined_names("bool f(int) {\n")
    units = [  # a text, and names that no other unit of its file may have
        ("bool f(int) {\n}\n", {"f"}),
        ("namespace {\n[[gnu::used]] int f() { return 1; }\n}  // namespace\n", set()),
        ("int main() {\n}\n", {"main"}),
        ('#define F 1\n#include "f.h"\n', {ALONE}),
        ("namespace {\nconst char text[] = R(\nDEFAULT 0;\n)\";\n}  // namespace\nint f() { return 0; }\n", {"f"}),
    ]
    faults += [f"{text!r} keeps {names}" for text, wanted in units
               if (names := numbered(text, "", 1, twice)[1]) != wanted]
    faults += [f"{text!r} becomes {other!r}" for text, _ in units
               if re.search(rf"\b\d+{NUMBER}", other := numbered(text, "", 1, twice)[0])]
    print(f"{len(commands)} pairs of commands and {len(units)} units, {len(faults)} faults", *faults, sep="\n")
    return 1 if faults else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
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
        command = f"{batch.command.line()} -c {files[name]}"
        database.append({"directory": build, "file": files[name], "command": command})
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
