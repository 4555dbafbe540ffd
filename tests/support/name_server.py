"""name_server.py NAME COMMAND...: runs the command beside a name server on 127.0.0.1 that knows NAME alone."""

import os
import socket
import sys

IPV4, NO_ERROR, NO_SUCH_NAME = 1, b"\x81\x80", b"\x81\x83"
HEADER_BYTES = 12


def labels_of(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def answer(query, name):
    """By RFC 1035, for a question with one name: 127.0.0.1 for an IPv4 address of NAME."""
    end = query.index(b"\0", HEADER_BYTES) + 5
    question, is_known = query[HEADER_BYTES:end], query[HEADER_BYTES:end - 4].lower() == labels_of(name)
    has_address = is_known and query[end - 4:end - 2] == IPV4.to_bytes(2, "big")
    address = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1" if has_address else b""
    counts = bytes([0, 1, 0, int(has_address), 0, 0, 0, 0])
    return query[:2] + (NO_ERROR if is_known else NO_SUCH_NAME) + counts + question + address


def serve(end, name, command):
    """Until the process of the command has ended."""
    end.settimeout(0.2)
    while os.getppid() == command:
        try:
            query, sender = end.recvfrom(512)
        except TimeoutError:
            continue
        end.sendto(answer(query, name), sender)


def main():
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("127.0.0.1", 53))
    command = os.getpid()
    if os.fork() == 0:
        serve(end, sys.argv[1], command)
    else:
        os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
