#!/usr/bin/python3
"""./run example NAME: plays an example of examples/, a folder each with its own README.md.

measured   a loss that is measured: three emulated boards with a noisy plant behind a timer, over TLS
tables     tables as they come: six clients train on them, with nothing set but name, problem and size
vibration  six pumps, one of them a board in C: from tables to a model, a score and an alarm
"""

import signal
import sys

import example_measured
import example_tables
import example_vibration
import fleet

EXAMPLES = {"measured": example_measured, "tables": example_tables, "vibration": example_vibration}


def main():
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        print("\nOptions of each: ./run example NAME --help")
        return 0 if words else 2
    if words[0] not in EXAMPLES:
        print(f"example: error: unknown example '{words[0]}' (known: {' '.join(EXAMPLES)})", file=sys.stderr)
        print("result: verb=example error=usage")
        return 2
    return EXAMPLES[words[0]].main(words[1:])


if __name__ == "__main__":
    sys.exit(main())
