"""Devices in this process: each has its own identity, data, loss and connection."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pathlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gradstream.credentials import Certificate, Claim, Path, open_credentials
from gradstream.errors import OptionError, OutOfMemory, TrainingTimeout, in_python, of_fault
from gradstream.library import (HERE, LIBRARY, NO_MEMORY, Fault, Options, RawStatus, check_range, log_to, numpy,
                                rows_of, tell_lines, text)
from gradstream.loss import SAMPLES_MAX, Calls, Loss

PROBLEMS = ("kpca", "brockett", "spd_mean", "hyperbolic", "least_squares", "completion", "logistic")
ARENA_BYTES = 8 << 20


class Status(NamedTuple):
    """What a device has done. name: of its identity, with ~1 and so on after a change of its key. version, digest: of
    the model held; the digest has 16 hexadecimal digits, "": there is no model yet. save_failures: times that the state
    could not be stored. bytes_sent, bytes_received: on the wire, TLS included. arena_high_water: most bytes of
    arena_bytes ever in use. last_reason: why a session or task ended last; last_fault: of the link, in words with the
    remedy, "": none."""
    name: str
    version: int
    digest: str
    run_finished: bool
    connected: bool
    sessions: int
    connection_failures: int
    local_steps: int
    updates_folded: int
    updates_late: int
    updates_refused: int
    tasks_refused: int
    digest_mismatches: int
    save_failures: int
    bytes_sent: int
    bytes_received: int
    arena_high_water: int
    last_reason: str
    last_fault: str


def _state_folder(state):
    """Makes it; what cannot be written is an OSError."""
    if state is None:
        return None
    folder = pathlib.Path(state)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"cannot keep state in {folder}: name a folder that can be written")
    return text(folder.resolve())


class Client:
    """A device in this process.

    identity: the path of the file that `gradstream device add` wrote, or its text; or a Certificate, or a Claim.
    server: "HOST:PORT". data: rows of numbers, a sample each, 1 to 65,535 of them; they are copied. problem: a Loss,
    or one of PROBLEMS over data. state: the folder for what survives the process, made where it is not there; with it
    a device that is closed, ended or killed and started again goes on where it was. None: it keeps nothing. log: called
    with each line of the device's log, in place of the logger "gradstream". floors: False puts floors under nothing
    that a run may learn of the samples: for data that may be known. run: the number of a run; 0: whichever active one
    the device is enrolled in. arena_bytes: for model and training.

    Raises OptionError, IdentityError, DataError, OutOfMemory, ProcessUnfit, and with a claim what claim_identity()
    raises; OSError where a file or folder cannot be used.
    """

    def __init__(self, identity: Path | Certificate | Claim, server: str, data: Any = None,
                 problem: str | Loss = "kpca", *, state: Path | None = None,
                 log: Callable[[str], object] | None = None, floors: bool = True, run: int = 0,
                 arena_bytes: int = ARENA_BYTES) -> None:
        self._handle = self._calls = None
        self._lock = threading.RLock()  # no thread closes what another one polls
        if not isinstance(server, str):
            raise OptionError(f"the server is of type {type(server).__name__}: give a text, HOST:PORT")
        if not isinstance(problem, (str, Loss)):
            raise OptionError(f"the problem is of type {type(problem).__name__}: give a Loss, or one of "
                              + ", ".join(PROBLEMS))
        check_range("run", run, 0, 2**32 - 1)
        check_range("arena_bytes", arena_bytes, 1, 2**32 - 1)
        options = Options(size=ctypes.sizeof(Options), server=server.encode(), run=run, arena_bytes=arena_bytes,
                          has_floors=1 if floors else 0)
        if isinstance(problem, Loss):
            if 4 * math.prod(problem.shape) > arena_bytes:
                raise OptionError(f"a model of {problem.shape} is larger than arena_bytes, {arena_bytes}: raise it")
            self._calls = Calls(problem)
            options.problem, options.sample_count = problem.name.encode(), problem.count
            options.rows, options.cols = problem.shape
            options.loss, options.gradient = self._calls.loss, self._calls.gradient
        else:
            self._data, options.samples, count, options.dimension = rows_of([] if data is None else data)
            options.problem, options.sample_count = problem.encode(), min(count, SAMPLES_MAX + 1)
        options.state = _state_folder(state)
        options.log = self._log = log_to(log)
        options.credentials = open_credentials(identity, server, log)
        fault = Fault()
        self._handle = LIBRARY.gs_py_open(ctypes.byref(options), ctypes.byref(fault))
        try:
            tell_lines()
        except BaseException:
            self.close()
            raise
        if not self._handle:
            raise of_fault(fault.code, fault.text.decode("utf-8", "replace"))
        if self._calls is not None:
            self._calls.show(self._handle)

    def __repr__(self) -> str:
        if not self._handle:
            return "<gradstream.Client closed>"
        now = self.status()
        return f"<gradstream.Client {now.name} version={now.version} digest={now.digest or 'none'}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self) -> None:
        """Ends the connection. With a state the device stores it once more. Without, what the server has not
        acknowledged is lost, as with a device that is reset."""
        if getattr(self, "_handle", None):
            if HERE.client is self:
                raise RuntimeError("a loss cannot close its device: it is called from inside of it")
            with self._held():
                handle, self._handle = self._handle, None
                if handle:
                    LIBRARY.gs_py_close(handle)
            tell_lines()

    @property
    def handle(self):
        if not self._handle:
            raise OptionError("the client is closed: open another one")
        return self._handle

    @contextlib.contextmanager
    def _held(self):
        """The device's lock, for which a loss does not wait: whoever holds it may wait for the loss to end."""
        if not self._lock.acquire(blocking=HERE.client is None):
            raise RuntimeError("a loss cannot use a device that another thread is using: use it outside of the loss")
        try:
            yield
        finally:
            self._lock.release()

    def _call(self, work):
        """What work() returns, which calls the loss; raises what the loss or the log has raised meanwhile."""
        if HERE.client is not None:
            raise RuntimeError("a loss cannot use a device so: it is called from inside of one")
        failure = None
        with self._lock:
            HERE.client = self
            try:
                value = work()
            finally:
                HERE.client = None
            if self._calls is not None:
                failure, self._calls.failure = self._calls.failure, None
        try:
            tell_lines()
        finally:
            if failure is not None:
                raise failure
        return value

    def poll(self) -> float:
        """Does what is due: at most one local step. Seconds until the next call at the latest. Raises what the loss
        has raised, and OutOfMemory; the client is then of no use but to close() it."""
        wait = self._call(lambda: LIBRARY.gs_py_poll(self.handle))
        if wait == NO_MEMORY:
            raise OutOfMemory("the process had no more memory within a poll: close this client, and open it anew with "
                              "more memory")
        return wait / 1000

    def _raw_status(self):
        raw = RawStatus()
        with self._held():
            LIBRARY.gs_py_get_status(self.handle, ctypes.byref(raw))
        return raw

    def status(self) -> Status:
        """What the device has done so far."""
        with self._held():  # a poll of another thread may change the name
            raw = self._raw_status()
            values = {name: getattr(raw, name) for name in Status._fields}
        values.update(digest=f"{raw.digest:016x}" if raw.has_model else "", run_finished=bool(raw.run_finished),
                      connected=bool(raw.connected), name=values["name"].decode(),
                      last_reason=raw.last_reason.decode(), last_fault=in_python(raw.last_fault.decode()))
        return Status(**values)

    def model(self) -> Any:
        """The model held, rows x cols numbers: an array of NumPy, or without NumPy a list of rows. None: there is none
        yet. Where the run takes units out, it belongs to samples without them (docs/use_model.md)."""
        raw = self._raw_status()
        values = (ctypes.c_float * max(1, raw.rows * raw.cols))()
        with self._held():
            if not raw.has_model or LIBRARY.gs_py_get_model(self.handle, values, len(values)) != 0:
                return None
        if numpy is not None:
            return numpy.frombuffer(values, dtype="f4").reshape(raw.rows, raw.cols).copy()
        return [list(values[row * raw.cols:(row + 1) * raw.cols]) for row in range(raw.rows)]

    def evaluate(self, x: Any, count: int = 1, times: int = 1) -> float:
        """The own loss at x (rows x cols) over the first `count` samples, as training asks for it, so many times; the
        last value. Raises what the loss raises."""
        check_range("count", count, 1, SAMPLES_MAX)
        check_range("times", times, 1, 2**32 - 1)
        _, address, rows, cols = kept = rows_of(x)
        if self._calls is None or (rows, cols) != self.shape():
            raise OptionError(f"evaluate() got a point of shape {(rows, cols)}: it takes a device with a Loss, and a "
                              f"point of its shape, {self.shape()}")
        value = self._call(lambda: LIBRARY.gs_py_evaluate(self.handle, address, count, times))
        del kept
        return value

    def shape(self) -> tuple[int, int] | None:
        """(rows, cols) of the own loss, or of the model held; None: there is none yet."""
        raw = self._raw_status()
        if self._calls is not None:
            return self._calls.shape
        return (raw.rows, raw.cols) if raw.has_model else None


def _trouble(status):
    """The last refusal and the link's last fault, for people."""
    words = [word for word in (status.last_reason, status.last_fault) if word not in ("", "none")]
    return ", ".join(words) or "no fault"


def train(clients: Iterable[Client], *, seconds: float | None = None,
          until: Callable[[], bool] | None = None) -> None:
    """Lets the devices train, in this thread, until each holds the last version of its finished run.

    until: a function without arguments; training also ends when it says so, which it is asked at least once a second.
    seconds: TrainingTimeout after so long. Raises what a loss has raised. Ctrl-C ends it with KeyboardInterrupt, and
    each device can go on by another call; those of a `with` are closed, and store their state.
    """
    clients = list(clients)
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not all(client.status().run_finished for client in clients) and not (until is not None and until()):
        if time.monotonic() > end:
            raise TrainingTimeout(f"the run is not finished after {seconds} s; the server's log says why. Of the "
                                  "devices: " + "; ".join(_trouble(client.status()) for client in clients))
        wait = min(client.poll() for client in clients)
        if wait > 0:
            with contextlib.ExitStack() as held:
                for client in sorted(clients, key=id):  # one order, so that two threads never hold one lock each
                    held.enter_context(client._lock)
                handles = (ctypes.c_void_p * len(clients))(*(client.handle for client in clients))
                LIBRARY.gs_py_wait(handles, len(clients), int(1000 * min(wait, 1)))
