#!/usr/bin/python3
"""./run monitor on a pseudo-terminal that plays a board: what the board says is shown, what is typed arrives there."""

import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading

MONITOR = pathlib.Path(__file__).resolve().parents[2] / "tools" / "monitor.py"


def main():
    board, port = pty.openpty()
    path = os.ttyname(port)
    monitor = subprocess.Popen([sys.executable, "-B", "-u", MONITOR, path], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    guard = threading.Timer(20, monitor.kill)
    guard.start()
    try:
        first = monitor.stdout.readline()
        assert "status" in first and "Ctrl-C" in first, f"it does not say how to type: {first}"
        monitor.stdin.write("status\n")
        monitor.stdin.close()
        assert os.read(board, 100) == b"status\n", "what was typed does not arrive as it was"
        os.write(board, b"event=status device=kitchen\r\n")
        assert monitor.stdout.readline() == "event=status device=kitchen\n", "what the board says is not shown"
        monitor.send_signal(signal.SIGINT)
        rest = monitor.stdout.read()
        assert monitor.wait() == 0 and f"result: port={path} lines=1" in rest, rest
    finally:
        guard.cancel()
        monitor.kill()
    missing = subprocess.run([sys.executable, "-B", MONITOR, "/dev/no-such-port"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert missing.returncode == 1 and "result: error=port" in missing.stdout, missing.stdout


if __name__ == "__main__":
    main()
