"""./run soak conformance: the second implementation of the wire, and the server that plays faults.

300 rounds of the client in Python beside two in C++, of each form of uploads and records: one digest. Then a server
with faults plays to both clients, and to the one in Python with each fault planted, which it has to name. With
--client COMMAND that server plays to another program instead (docs/conformance.md).
"""

import argparse
import subprocess
import sys

import fleet

TESTS = fleet.ROOT / "tests" / "conformance"
PYTHON = [sys.executable, "-B", "-u"]
ROUNDS = 300
SECONDS_MAX = 1800  # of one part


def run(*words):
    """The exit status, its lines shown."""
    return subprocess.run([*PYTHON, *map(str, words)], cwd=fleet.ROOT, stdin=subprocess.DEVNULL, check=False,
                          timeout=SECONDS_MAX).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", metavar="COMMAND")
    options = parser.parse_args()
    if options.client:
        return run(TESTS / "fault_server.py", "--client", options.client)
    named = run(TESTS / "fault_server_test.py", "--all")
    digests = run(TESTS / "conformance_client_test.py", "--rounds", ROUNDS, "--forms", "f32", "bf16", "int8", "memory")
    return 1 if named or digests else 0


if __name__ == "__main__":
    sys.exit(main())
