#!/usr/bin/python3
"""tools/help.txt says of each verb what its tool says itself, for machines that have neither Python nor a build yet.

Usage: tests/tools/help_test.py [--record]     --record writes the file anew
The help of programs comes from the build tree that GS_BUILD_DIR names. Without them, their parts of the file
are taken as they stand.
"""

import contextlib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
BUILD = pathlib.Path(os.environ.get("GS_BUILD_DIR", ROOT / "build" / "dev"))
FILE = TOOLS / "help.txt"
COLUMNS = 110
BY_COMMENT = {"setup", "build", "test"}  # ./run shows the comment at the head of the script
BY_DOCSTRING = {"experiment", "footprint"}  # tools without an option of their own
# Sections besides one for each tool of a verb: the tool and the words before --help.
FORMS = {"demo_network": ("demo", "--network"), "demo_head": ("demo", "--network", "--head"),
         **{path.stem: ("example", path.stem.removeprefix("example_")) for path in sorted(TOOLS.glob("example_*.py"))}}
PROGRAMS = {"simulate": BUILD / "sim" / "gradstream-sim",
            "experiment": BUILD / "experiments" / "gradstream-experiment",
            "bench_parameters": BUILD / "bench" / "gradstream-parameters"}


def told(tool, *words):
    """What the Python tool says to --help."""
    out = io.StringIO()
    arguments, path = sys.argv, list(sys.path)
    sys.argv = [tool, *words, "--help"]
    sys.path.insert(0, str(TOOLS))
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(TOOLS / f"{tool}.py"), run_name="__main__")
    except SystemExit as end:
        assert not end.code, f"{tool}: exit status {end.code}"
    finally:
        sys.argv, sys.path = arguments, path
    return "\n".join(line for line in out.getvalue().splitlines() if not line.startswith("result: "))


def comment_of(path):
    """The comment at the head of a script."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return "\n".join(re.sub("^# ?", "", line) for line in lines[:next(i for i, line in enumerate(lines)
                                                                      if not line.startswith("#"))])


def docstring_of(path):
    return re.search(r'^"""(.*?)"""', path.read_text(encoding="utf-8"), re.M | re.S)[1].strip()


def program_help(path):
    done = subprocess.run([path, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("result: ")]
    return "\n".join(lines).replace(str(path), path.name)


def benches():
    """A line for each benchmark."""
    lines = ["./run bench NAME [OPTION...]: measures; ./run bench NAME --help says what it takes", ""]
    for path in sorted(TOOLS.glob("bench_*")):
        text = docstring_of(path) if path.suffix == ".py" else comment_of(path)
        first = re.sub(r"^\./run bench \w+[^:]*: ", "", " ".join(text.split("\n\n")[0].split()))
        lines.append(f"  {path.stem.removeprefix('bench_'):12} {first}")
    return "\n".join(lines)


def sections(old):
    """{name: text} of the whole file, in its order; of a program that is not built, the old text."""
    verbs = re.search(r"VERBS=\(([^)]*)\)", (ROOT / "run").read_text(encoding="utf-8"))[1].split()
    names = [verb for verb in verbs if verb not in BY_COMMENT | {"help", "bench"}]
    names += sorted(path.stem for path in TOOLS.glob("bench_*"))
    found = {"bench": benches()}
    for name in [*names, *FORMS]:
        script, tool = TOOLS / f"{name}.sh", TOOLS / f"{name}.py"
        if name in FORMS:
            found[name] = told(*FORMS[name])
        elif script.exists():
            found[name] = comment_of(script)
        elif name in BY_DOCSTRING:
            found[name] = docstring_of(tool)
        else:
            found[name] = told(name)
        if name in PROGRAMS:
            built = PROGRAMS[name].exists()
            found[name] = f"{found[name]}\n\n{program_help(PROGRAMS[name])}" if built else old.get(name, "")
    return found


def read():
    if not FILE.exists():
        return {}
    parts = re.split(r"^==== (\w+)\n", FILE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2])))


def main():
    os.environ["COLUMNS"] = str(COLUMNS)
    old = read()
    new = {name: "\n".join(line.rstrip() for line in text.strip().splitlines()) for name, text in sections(old).items()}
    if sys.argv[1:] == ["--record"]:
        FILE.write_text("".join(f"==== {name}\n{text}\n\n" for name, text in new.items()).rstrip() + "\n",
                        encoding="utf-8")
    else:  # another Python breaks lines elsewhere
        wrong = [name for name in {**old, **new} if old.get(name, "").split() != new.get(name, "").split()]
        if wrong:
            print(f"tools/help.txt is another than the tools say of: {', '.join(wrong)}\n"
                  "Write it anew: tests/tools/help_test.py --record")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
