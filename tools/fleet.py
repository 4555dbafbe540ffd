"""A server and its devices as processes: started, watched and ended by the demo and by the tests of real processes.

Every process is a child of this one, is ended by its own pid, and dies with its parent. All sockets are on 127.0.0.1.
"""

import collections
import ctypes
import os
import pathlib
import random
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
PORT_MIN, PORT_END = 10240, 65536  # below it services have ports of their own
PORT_TRIES_MAX = 1000  # draws of a port, of which nearly each is free
_PORT_RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
_LINE = re.compile(r'([a-z_0-9]+)=("[^"]*"|\S+)')
_PR_SET_PDEATHSIG = 1
_claims = []  # sockets whose names say which ports are this process's, until it ends


def die_with_parent():
    """SIGKILL to the process that calls this when its parent dies; of a child, before it becomes its program."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent():
    """SIGTERM to this process when its parent dies, so that a killed ./run leaves nothing behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def fields(line):
    """The key=value pairs of a log line."""
    return {key: value.strip('"') for key, value in _LINE.findall(line)}


def _claim(port):
    """Whether no other process has claimed the port: the name of a socket is taken once in a network namespace."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0gradstream-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _ports():
    """Those to draw from: what the kernel hands out to nobody, or all where that is next to nothing."""
    begin, end = map(int, _PORT_RANGE.read_text(encoding="ascii").split())
    kept = [port for port in range(PORT_MIN, PORT_END) if not begin <= port <= end]
    return kept if len(kept) >= PORT_TRIES_MAX else range(PORT_MIN, PORT_END)


def free_port():
    """A port of 127.0.0.1 that is free, and that no other call gets as long as this process lives.

    So a server comes back to its port after its end. The kernel hands the ports of a range of its own out, to whoever
    connects and to whoever binds port 0. One of these may be taken before a server is there, and this is none of them.
    Raises RuntimeError where none is found.
    """
    ports, draw = _ports(), random.SystemRandom()
    for _ in range(PORT_TRIES_MAX):
        port = draw.choice(ports)
        if _is_free(port) and _claim(port):
            return port
    raise RuntimeError(f"no port of 127.0.0.1 is free, of {PORT_TRIES_MAX} from {PORT_MIN} to {PORT_END - 1}")


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
            text=True, errors="replace", preexec_fn=die_with_parent)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._child.stdout:
            line = line.rstrip("\n")
            if self._listener:
                self._listener(line)  # first: who waits for the line finds what the listener has made of it
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
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
