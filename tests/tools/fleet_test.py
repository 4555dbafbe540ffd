#!/usr/bin/python3
"""A child's lines, as the tests and the tools read them while it goes on talking."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fleet  # noqa: E402

SECONDS_MAX = 60  # for any line of the child
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


def main():
    for check in (check_lines_while_others_come, check_forgotten_lines, check_bound):
        child = fleet.Process("echo", ECHO)
        try:
            check(child)
        finally:
            child.stop()


if __name__ == "__main__":
    main()
