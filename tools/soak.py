"""./run soak [PART...]: the long forms of what the tests do for seconds; an hour or so for all of them, and one more
each for the fleet and for the fuzzers.

Each part is a command of its own; its lines are shown, and its exit status counts. 77 means skipped, for want of a
tool; so does this command's, when no part failed.
"""

import argparse
import subprocess
import sys
import time

import fleet

SKIPPED = 77
PYTHON = ["/usr/bin/python3", "-B", "-u"]
PARTS = {
    "simulate": ("1,000 schedules of lost messages, crashes and flipped bits",
                 [fleet.ROOT / "tools" / "simulate.sh", "--schedules", "1000"]),
    **{f"day{seed}": (f"10,000 devices for a virtual day, under the oracle, seed {seed}",
                      [fleet.ROOT / "tools" / "simulate.sh", "--fleet", "10000", "--days", "1", "--seed", f"{seed}"])
       for seed in (1, 2, 3)},
    "powercut": ("1,000 power cuts of an emulated board",
                 [*PYTHON, fleet.ROOT / "tools" / "bench_powercut.py", "--cuts", "1000"]),
    "powercut_rp2040": ("100 of the emulated RP2040", [*PYTHON, fleet.ROOT / "tools" / "bench_powercut.py",
                                                       "--board", "rp2040", "--cuts", "100", "--boards", "2"]),
    "powercut_riscv": ("1,000 of the emulated RISC-V", [*PYTHON, fleet.ROOT / "tools" / "bench_powercut.py",
                                                        "--board", "riscv-virt", "--cuts", "1000"]),
    "board_fault_riscv": ("faults of the emulated RISC-V, each of which it names and starts anew after",
                          [*PYTHON, fleet.ROOT / "tests" / "boards" / "board_fault_test.py", "riscv-virt"]),
    "digest": ("the replicated arithmetic on every processor, those that the tests leave out too",
               [*PYTHON, fleet.ROOT / "tools" / "digest.py"]),
    "linkdrop": ("a UART that drops at every byte of a session, a server restarted 20 times amid noise",
                 [*PYTHON, fleet.ROOT / "tools" / "bench_linkdrop.py"]),
    "linkdrop_ethernet": ("the same by Ethernet",
                          [*PYTHON, fleet.ROOT / "tools" / "bench_linkdrop.py", "--link", "ethernet"]),
    "reconnect": ("every kind of device on noisy links to a server that is restarted 20 times",
                  [*PYTHON, fleet.ROOT / "tests" / "boards" / "mixed_fleet_test.py", "--rounds", "126",
                   "--restarts", "20", "--noise-gap", "30000"]),
    "sockets": ("an application in C over the sockets of lwIP, against a server that is restarted",
                [*PYTHON, fleet.ROOT / "tools" / "soak_sockets.py"]),
    "fuzz": ("an hour of libFuzzer on what peers send and people write; what it finds stays for the next hour",
             [*PYTHON, fleet.ROOT / "tools" / "soak_fuzz.py"]),
    "mutants": ("60 guards of the server and the device are changed, one at a time: which do the tests miss?",
                [*PYTHON, fleet.ROOT / "tools" / "soak_mutants.py"]),
    "config": ("2,000 spoilt configurations, for the program and for a live server",
               [*PYTHON, fleet.ROOT / "tests" / "server" / "config_edits_test.py"]),
    "install": ("both packages installed and served on a Debian 12 and a Debian 13 of debootstrap",
                [*PYTHON, fleet.ROOT / "tools" / "soak_install.py"]),
    "armv6": ("the package for the first Raspberry Pi, Zero and Zero W, trained on an emulated ARM1176",
              [*PYTHON, fleet.ROOT / "tests" / "tools" / "package_test.py", "armv6"]),
    "python": ("the wheel installed on a Debian 12 and a Debian 13, without root, and its demo there",
               [*PYTHON, fleet.ROOT / "tools" / "soak_python.py"]),
    "consume": ("projects of users that compile the tree, here and for boards, and boards outside the tree; one trains",
                [*PYTHON, fleet.ROOT / "tools" / "soak_consume.py"]),
    "conformance": ("a client in Python at one digest with those in C++; a server that plays faults to both",
                    [*PYTHON, fleet.ROOT / "tools" / "soak_conformance.py"]),
    "image": ("the server's image made twice, its compose.yaml played in it, and packages signed",
              [*PYTHON, fleet.ROOT / "tests" / "tools" / "image_test.py"]),
    "fleet": ("an hour of virtual fleet days on the real server: memory, descriptors, one digest",
              [*PYTHON, fleet.ROOT / "tools" / "soak_fleet.py"]),
    "cluster": ("three nodes of one run under 50 kills, 10 fail-overs of PostgreSQL, 10 partitions and 2 upgrades",
                [*PYTHON, fleet.ROOT / "tools" / "soak_cluster.py"]),
    "cluster_asynchronous": ("the same checker on a standby that loses commits, which it must find",
                             [*PYTHON, fleet.ROOT / "tools" / "soak_cluster.py", "--asynchronous"]),
    "tidy": ("clang-tidy with the path-sensitive analyzer at full depth over everything, tests too",
             [*PYTHON, fleet.ROOT / "tests" / "clang_tidy_test.py", fleet.ROOT / "build" / "dev", "--tests",
              "--deep"]),
}
# Options of this command that are a part's.
OPTIONS = {"fleet": ["minutes"], "fuzz": ["minutes"], "mutants": ["mutants", "seed"], "conformance": ["client"],
           "cluster": ["kills", "devices", "clients", "seed"], "cluster_asynchronous": ["seed"]}
OWN_BUILDS = {"fuzz", "mutants"}  # parts that build another preset than dev, and nothing of dev


def play(parts):
    """Runs parts, each a name, what it is and a command, one after the other; the exit status of all."""
    begin, failed, skipped = time.monotonic(), [], []
    for name, what, words in parts:
        print(f"==== {name}: {what}", flush=True)
        since = time.monotonic()
        status = subprocess.run(words, cwd=fleet.ROOT, stdin=subprocess.DEVNULL, check=False).returncode
        end = "was skipped" if status == SKIPPED else f"ended with exit status {status}"
        print(f"soak: {name} {end} after {time.monotonic() - since:.0f} s", flush=True)
        (skipped if status == SKIPPED else failed).extend([name] if status else [])
    print(f"result: parts={len(parts)} failed={','.join(failed) or 'none'} skipped={','.join(skipped) or 'none'} "
          f"seconds={time.monotonic() - begin:.0f}")
    return 1 if failed else SKIPPED if skipped else 0


def shown(value):
    """An option's value as a word of a command."""
    return value if isinstance(value, str) else f"{value:g}"


def main():
    parts = "\n".join(f"  {name:20} {what}" for name, (what, _) in PARTS.items())
    parser = argparse.ArgumentParser(prog="./run soak", description=f"{__doc__}\n{parts}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", metavar="PART", help="all of them otherwise")
    parser.add_argument("--minutes", type=float, default=60, help="of the parts fleet and fuzz (default 60)")
    parser.add_argument("--mutants", type=int, default=60, help="of the part mutants, how many (default 60)")
    parser.add_argument("--seed", type=int, default=1,
                        help="of the parts mutants and cluster, of what comes when (default 1)")
    parser.add_argument("--kills", type=int, default=50, help="of the part cluster, of its nodes (default 50)")
    parser.add_argument("--devices", type=int, default=1000, help="of the part cluster (default 1000)")
    parser.add_argument("--clients", type=int, default=300,
                        help="of the part cluster, gradstream-client processes (default 300)")
    parser.add_argument("--client", metavar="COMMAND",
                        help="of the part conformance: the program that the fault server plays to, in place of ours")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.part if name not in PARTS]
    if unknown:
        print(f"soak: error: unknown part {unknown[0]} (known: {' '.join(PARTS)})", file=sys.stderr)
        print("result: error=usage")
        return 2
    names = arguments.part or list(PARTS)
    is_for_others = names == ["conformance"] and arguments.client  # whose program is not built here
    if not is_for_others and not OWN_BUILDS.issuperset(names):
        fleet.build("dev", "gradstream", "gradstream-client")
    options = {name: [word for option in OPTIONS.get(name, []) if getattr(arguments, option) is not None
                      for word in (f"--{option}", shown(getattr(arguments, option)))] for name in names}
    return play([(name, PARTS[name][0], [*PARTS[name][1], *options[name]]) for name in names])


if __name__ == "__main__":
    sys.exit(main())
