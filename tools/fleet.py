"""A server and its devices as processes: started, watched and ended by the demo and by the tests of real processes.

Every process is a child of this one, is ended by its own pid, and dies with its parent. All sockets are on 127.0.0.1.
"""

import collections
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("GS_BUILD_DIR", ROOT / "build" / "dev"))  # ctest names the tree under test
SERVER = BUILD / "server" / "gradstream"
CLIENT = BUILD / "boards" / "posix" / "gradstream-client"
LINES_MAX = 2000  # of a child's output that are kept: a test's whole, and a bound for a server that runs for days
BUILD_LINES_MAX = 60  # of a build that failed, as its message shows them
STOP_SECONDS = 10  # between SIGTERM and SIGKILL: the server drains, a device finishes its step
_LINE = re.compile(r'([a-z_0-9]+)=("[^"]*"|\S+)')
_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent():
    """SIGTERM to this process when its parent dies, so that a killed ./run leaves nothing behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def fields(line):
    """The key=value pairs of a log line."""
    return {key: value.strip('"') for key, value in _LINE.findall(line)}


def free_port():
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A child whose output lines are kept (the last LINES_MAX) and, if wanted, handed to a listener as they come."""

    def __init__(self, name, command, listener=None, cwd=ROOT):
        self.name = name
        self.command = [str(part) for part in command]
        self._lines = collections.deque(maxlen=LINES_MAX)
        self._listener = listener
        self._news = threading.Condition()
        self._ended = False  # no further line will come
        self._child = subprocess.Popen(
            self.command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", preexec_fn=_die_with_parent)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._child.stdout:
            line = line.rstrip("\n")
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
            if self._listener:
                self._listener(line)
        with self._news:
            self._ended = True
            self._news.notify_all()

    @property
    def lines(self):
        """The lines so far, as a list of the caller's own: a line that comes meanwhile changes nothing in it."""
        with self._news:
            return list(self._lines)

    def forget_lines(self):
        """Drops the lines so far, so that wait_for_line finds those alone that are yet to come."""
        with self._news:
            self._lines.clear()

    def type(self, text):
        """Hands text to its input."""
        self._child.stdin.write(text)
        self._child.stdin.flush()

    @property
    def pid(self):
        return self._child.pid

    @property
    def running(self):
        return self._child.poll() is None

    def wait(self, seconds):
        """Exit status, or None when it still runs after so long."""
        try:
            status = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(5)
        return status

    def kill(self):
        """SIGKILL now."""
        if self.running:
            self._child.kill()
        self._child.wait()
        self._reader.join(5)

    def stop(self):
        """SIGTERM, then SIGKILL after STOP_SECONDS; the exit status."""
        if self.running:
            self._child.terminate()
            if self.wait(STOP_SECONDS) is None:
                self.kill()
        self._reader.join(5)
        return self._child.returncode

    def wait_for_line(self, text, seconds):
        """The first line so far or to come that holds text; None after so many seconds or at the process's end."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                found = next((line for line in self._lines if text in line), None)
                left = deadline - time.monotonic()
                if found is not None or self._ended or left <= 0:
                    return found
                self._news.wait(left)


def build(preset, *targets):
    """Builds targets of a preset, all without any, and lets through how far it is. Raises RuntimeError with what the
    compilers said when it fails.
    """
    said = collections.deque(maxlen=BUILD_LINES_MAX)
    # On a terminal the progress is drawn on its error output; elsewhere it comes in lines, beside all others.
    errors = None if sys.stderr.isatty() else subprocess.STDOUT
    with subprocess.Popen([ROOT / "tools" / "build.sh", preset, *targets], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace") as child:
        for line in child.stdout:
            if line.startswith("build: "):
                print(line, end="", flush=True)
            else:
                said.append(line)
    if child.returncode != 0:
        raise RuntimeError(f"the build of {' and '.join([*targets, preset])} failed, and build/{preset}/build.log has "
                           f"all that it said; the end of it:\n{''.join(said)}")


def command(arguments, what, seconds=60):
    """Runs a command to its end; its output. Raises RuntimeError with the output when it fails or takes longer."""
    try:
        done = subprocess.run([str(part) for part in arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        said = late.output or ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else said  # bytes, whatever `text` says
        raise RuntimeError(f"{what} was not done within {seconds} s, and was ended: the machine is very busy, or it "
                           f"hangs:\n{said}") from late
    if done.returncode != 0:
        raise RuntimeError(f"{what} failed with exit status {done.returncode}:\n{done.stdout}")
    return done.stdout
