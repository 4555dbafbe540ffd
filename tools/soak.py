"""./run soak [PART...]: the long forms of what the tests do for seconds; an hour or so for all of them, and one more
for the fleet.

Each part is a command of its own; its lines are shown, and its exit status counts.
"""

import argparse
import subprocess
import sys
import time

import fleet

PYTHON = ["/usr/bin/python3", "-B", "-u"]
PARTS = {
    "simulate": ("1,000 schedules of lost messages, crashes and flipped bits",
                 [fleet.ROOT / "tools" / "simulate.sh", "--schedules", "1000"]),
    **{f"day{seed}": (f"10,000 devices for a virtual day, under the oracle, seed {seed}",
                      [fleet.ROOT / "tools" / "simulate.sh", "--fleet", "10000", "--days", "1", "--seed", f"{seed}"])
       for seed in (1, 2, 3)},
    "powercut": ("1,000 power cuts of an emulated board",
                 [*PYTHON, fleet.ROOT / "tools" / "bench_powercut.py", "--cuts", "1000"]),
    "linkdrop": ("a UART that drops at every byte of a session, a server restarted 20 times amid noise",
                 [*PYTHON, fleet.ROOT / "tools" / "bench_linkdrop.py"]),
    "linkdrop_ethernet": ("the same by Ethernet",
                          [*PYTHON, fleet.ROOT / "tools" / "bench_linkdrop.py", "--link", "ethernet"]),
    "reconnect": ("every kind of device on noisy links to a server that is restarted 20 times",
                  [*PYTHON, fleet.ROOT / "tests" / "mixed_fleet_test.py", "--rounds", "126", "--restarts", "20",
                   "--noise-gap", "30000"]),
    "fleet": ("an hour of virtual fleet days on the real server: memory, descriptors, one digest",
              [*PYTHON, fleet.ROOT / "tools" / "soak_fleet.py"]),
    "tidy": ("clang-tidy with the path-sensitive analyzer at full depth over everything, tests too",
             [*PYTHON, fleet.ROOT / "tests" / "clang_tidy_test.py", fleet.ROOT / "build" / "dev", "--tests",
              "--deep"]),
}


def main():
    parts = "\n".join(f"  {name:17} {what}" for name, (what, _) in PARTS.items())
    parser = argparse.ArgumentParser(prog="./run soak", description=f"{__doc__}\n{parts}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", metavar="PART", help="all of them otherwise")
    parser.add_argument("--minutes", type=float, default=60, help="of the part fleet (default 60)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.part if name not in PARTS]
    if unknown:
        print(f"soak: error: unknown part {unknown[0]} (known: {' '.join(PARTS)})", file=sys.stderr)
        print("result: error=usage")
        return 2
    fleet.command([fleet.ROOT / "tools" / "build.sh", "dev", "gradstream", "gradstream-client"], "building", 3600)
    begin, failed = time.monotonic(), []
    for name in arguments.part or PARTS:
        what, words = PARTS[name]
        print(f"==== {name}: {what}", flush=True)
        words = [*words, "--minutes", f"{arguments.minutes:g}"] if name == "fleet" else words
        since = time.monotonic()
        status = subprocess.run(words, cwd=fleet.ROOT, stdin=subprocess.DEVNULL, check=False).returncode
        print(f"soak: {name} ended with exit status {status} after {time.monotonic() - since:.0f} s", flush=True)
        failed += [name] if status else []
    print(f"result: parts={len(arguments.part or PARTS)} failed={','.join(failed) or 'none'} "
          f"seconds={time.monotonic() - begin:.0f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
