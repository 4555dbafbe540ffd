#!/usr/bin/python3
"""The door to the verbs, as far as it answers by itself: help for each of them, and wrong command lines. And how soak
tells parts that passed, failed and were skipped.
"""

import contextlib
import io
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import soak  # noqa: E402

RUN = ROOT / "run"
# What the help of each verb must say, without anything set up: tests/tools/help_test.py reads all of it.
HELP = {"setup": "goes on where it stopped", "demo": "--solver", "simulate": "--days", "monitor": "port",
        "build": "presets:", "test": "quick", "emulate": "--identity", "digest": "digest",
        "footprint": "flash and RAM", "fuzz": "seconds", "package": "Debian packages", "soak": "linkdrop",
        "example": "measured"}
WRONG = (["fly"], ["build"], ["build", "nothing"], ["emulate", "nothing"], ["footprint", "--all"], ["fuzz", "0"],
         ["test", "slow"], ["example"], ["example", "nothing"], ["test", "quick", "again"], ["setup", "nothing"],
         ["demo", "--rnds", "3"], ["demo", "--network", "--solver=projection"], ["example", "vibration", "--table"],
         ["simulate", "--device", "3"], ["bench", "server", "--nothing"], ["digest", "--all"], ["fuzz", "--merges"])
# Words before --help, and what the help of these says and that of the verb alone does not.
FORMS = {("demo", "--network"): "a small network that learns digits",
         ("demo", "--head", "--network"): "--frozen", ("bench", "server"): "MQTT", ("example", "tables"): "--",
         ("emulate", "mps2-an386"): "--identity", ("bench",): "powercut", ("package", "server"): "Debian packages"}


def run(*arguments):
    return subprocess.run([RUN, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)


def fault_of(done, status, words):
    lines = done.stdout.splitlines()
    if done.returncode != status or not lines or not lines[-1].startswith("result: "):
        return f"{done.args[1:]}: exit status {done.returncode}, not {status}:\n{done.stdout}"
    return "" if words in done.stdout else f"{done.args[1:]}: '{words}' is missing in:\n{done.stdout}"


def soak_fault(statuses, status, words):
    """Of parts that end with these statuses."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        found = soak.play([(f"part{end}", "a part", ["sh", "-c", f"exit {end}"]) for end in statuses])
    return "" if found == status and words in out.getvalue() else f"soak: exit status {found}:\n{out.getvalue()}"


def main():
    faults = [fault_of(run("help"), 0, "presets:")]
    faults += [fault_of(run(verb, option), 0, words) for verb, words in HELP.items() for option in ("--help", "-h")]
    faults += [fault_of(run(*words, "--help"), 0, text) for words, text in FORMS.items()]
    faults += [fault_of(run(*arguments), 2, "run: error: ") for arguments in WRONG]
    faults += [soak_fault((0,), 0, "failed=none skipped=none"),
               soak_fault((0, 77), 77, "failed=none skipped=part77"),
               soak_fault((77, 1, 2), 1, "failed=part1,part2 skipped=part77")]
    faults = [fault for fault in faults if fault]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
