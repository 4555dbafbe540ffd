"""./run soak sockets: what tests/boards/sockets_test.py does over the host's sockets, over those of lwIP.

lwIP runs in the process of the device, in a thread of its own (NO_SYS=0, lwIP's port for Unix). Its interface is its
own loopback: a second thread leads a connection from there to the server.
"""

import subprocess
import sys

import fleet

TARGET = "sockets_lwip_client"


def main():
    fleet.build("dev", TARGET)
    client = fleet.ROOT / "build" / "dev" / "tests" / "boards" / TARGET
    test = fleet.ROOT / "tests" / "boards" / "sockets_test.py"
    return subprocess.run(["/usr/bin/python3", "-B", test, client], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
