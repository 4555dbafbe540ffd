"""./run monitor PORT: a board's console, at 115,200 baud, until Ctrl-C."""

import argparse
import glob
import sys
import termios

CANDIDATES = ("/dev/ttyACM*", "/dev/ttyUSB*", "/dev/serial/by-id/*")


def open_port(path):
    """The port, raw, 8N1."""
    port = open(path, "rb", buffering=0)
    settings = termios.tcgetattr(port)
    settings[0] = 0                                        # input as it comes
    settings[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
    settings[3] = 0                                        # no echo, no lines
    settings[4] = settings[5] = termios.B115200
    settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
    termios.tcsetattr(port, termios.TCSANOW, settings)
    return port


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
        with open_port(path) as port:
            while data := port.read(256):
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
