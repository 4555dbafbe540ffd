"""./run monitor PORT: a board's console, at 115,200 baud, until Ctrl-C. What is typed goes to the board line by line.

The board does not echo: the terminal shows and edits the line, and Enter sends it. `help` names the commands of its
shell; `status`, `test` and `reset identity` are there.
"""

import argparse
import glob
import os
import select
import sys
import termios

CANDIDATES = ("/dev/ttyACM*", "/dev/ttyUSB*", "/dev/serial/by-id/*")


def open_port(path):
    """The port's descriptor: raw, 8N1."""
    port = os.open(path, os.O_RDWR | os.O_NOCTTY)
    settings = termios.tcgetattr(port)
    settings[0] = settings[1] = 0                          # input and output as they come
    settings[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
    settings[3] = 0                                        # no echo, no lines
    settings[4] = settings[5] = termios.B115200
    settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
    termios.tcsetattr(port, termios.TCSANOW, settings)
    return port


def copy(port):
    """Yields what the board says and sends what is typed, until either the port or the user ends it."""
    sources = [port, 0]
    while True:
        for source in select.select(sources, [], [])[0]:
            data = os.read(source, 256)
            if source == port and not data:
                return
            if source == port:
                yield data
            elif data:
                os.write(port, data)
            else:
                sources.remove(0)  # the end of a file; the board may still speak


def main():
    parser = argparse.ArgumentParser(prog="./run monitor", description=__doc__)
    parser.add_argument("port", nargs="?", help="such as /dev/ttyUSB0; the first serial port otherwise")
    arguments = parser.parse_args()
    found = sorted(path for pattern in CANDIDATES for path in glob.glob(pattern))
    path = arguments.port or (found[0] if found else None)
    if path is None:
        print(f"monitor: no serial port (looked for {' '.join(CANDIDATES)}): plug the board's console in")
        print("result: missing=port")
        return 1
    lines = 0
    try:
        port = open_port(path)
        print(f"monitor: {path}; type a command of the board's shell (status, test, help) and Enter; Ctrl-C ends")
        for data in copy(port):
            lines += data.count(b"\n")
            sys.stdout.write(data.decode(errors="replace"))
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except (OSError, termios.error) as error:
        print(f"monitor: error: {path}: {error}", file=sys.stderr)
        print("result: error=port")
        return 1
    print(f"\nresult: port={path} lines={lines}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
