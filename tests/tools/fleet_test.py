#!/usr/bin/python3
"""A child's lines, as the tests and the tools read them while it goes on talking. Its listener. Ports for servers."""

import pathlib
import socket
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fleet  # noqa: E402

SECONDS_MAX = 60  # for any line of the child
PORTS = 40
ECHO = ["/usr/bin/python3", "-u", "-c", "import sys\nfor line in sys.stdin: print(line, end='')"]


def say(child, word):
    """Has the child say a word, and returns when the word is among its lines."""
    child.type(word + "\n")
    assert child.wait_for_line(word, SECONDS_MAX) == word, child.lines


def check_lines_while_others_come(child):
    """Who goes through the lines sees those of that moment, and a line that comes meanwhile does no harm."""
    say(child, "first")
    say(child, "second")
    seen = iter(child.lines)
    assert next(seen) == "first"
    say(child, "third")
    assert list(seen) == ["second"]
    assert child.lines == ["first", "second", "third"]


def check_forgotten_lines(child):
    """Behind forget_lines a line of before is not found again, and one that comes is."""
    say(child, "before")
    child.forget_lines()
    assert child.lines == [], child.lines
    assert child.wait_for_line("before", 0) is None
    say(child, "behind")
    assert child.lines == ["behind"]


def check_bound(child):
    """The last LINES_MAX lines are kept."""
    child.type("".join(f"line {number}.\n" for number in range(fleet.LINES_MAX + 5)))
    assert child.wait_for_line(f"line {fleet.LINES_MAX + 4}.", SECONDS_MAX)
    assert len(child.lines) == fleet.LINES_MAX
    assert child.lines[0] == "line 5."


def check_listener():
    """Who has waited for a line finds what the listener has made of it, however slow the listener is."""
    heard = []

    def hear(line):
        is_over.wait(0.05)
        heard.append(line)
    is_over = threading.Event()
    child = fleet.Process("echo", ECHO, hear)
    try:
        say(child, "line")
        assert heard == ["line"], heard
    finally:
        is_over.set()
        child.stop()


def check_ports():
    """A port is one call's alone, in this process and in others, and the kernel gives it to nobody."""
    begin, end = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    ports = {fleet.free_port() for _ in range(PORTS)}
    assert len(ports) == PORTS, "a port was given twice"
    assert begin <= fleet.PORT_MIN or not any(begin <= port <= end for port in ports), ports
    # Another process that may draw from these ports alone draws none.
    program = (f"import fleet\nfleet._ports = lambda: {sorted(ports)}\n"
               "try:\n    print(fleet.free_port())\nexcept RuntimeError as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-B", "-c", program], cwd=ROOT / "tools", stdout=subprocess.PIPE, text=True,
                          timeout=SECONDS_MAX, check=True)
    assert done.stdout.startswith("no port of 127.0.0.1 is free"), done.stdout
    with socket.create_server(("127.0.0.1", min(ports))):
        pass  # a server may have it


def check_port_in_use():
    """A port that somebody listens on is not drawn, whoever that is."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        drawn, fleet._ports = fleet._ports, lambda: [other.getsockname()[1]]
        try:
            fleet.free_port()
        except RuntimeError:
            return
        finally:
            fleet._ports = drawn
    raise AssertionError("a port was drawn that is in use")


def main():
    check_listener()
    check_ports()
    check_port_in_use()
    for check in (check_lines_while_others_come, check_forgotten_lines, check_bound):
        child = fleet.Process("echo", ECHO)
        try:
            check(child)
        finally:
            child.stop()


if __name__ == "__main__":
    main()
