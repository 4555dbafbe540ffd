"""Devices in this process: each has its own identity, data, loss and connection."""

import array
import contextlib
import ctypes
import math
import pathlib
import threading
import time
from typing import NamedTuple

try:
    import numpy
except ImportError:  # all of this file does without, but a Loss then gets memoryviews
    numpy = None

PROBLEMS = ("kpca", "brockett", "spd_mean", "hyperbolic", "least_squares", "completion", "logistic")
ARENA_BYTES = 8 << 20
ROWS_MAX = 65535  # samples of a device

_LOSS = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_uint32)
_GRADIENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


class _Options(ctypes.Structure):  # gs_py_options of python/gradstream_python.h
    _fields_ = [("size", ctypes.c_uint32), ("identity", ctypes.c_char_p), ("server", ctypes.c_char_p),
                ("problem", ctypes.c_char_p), ("samples", ctypes.c_void_p), ("sample_count", ctypes.c_uint32),
                ("dimension", ctypes.c_uint32), ("loss", _LOSS), ("gradient", _GRADIENT), ("rows", ctypes.c_uint32),
                ("cols", ctypes.c_uint32), ("log", _LOG), ("run", ctypes.c_uint32), ("arena_bytes", ctypes.c_uint32),
                ("has_floors", ctypes.c_uint32)]


class _Status(ctypes.Structure):  # gs_py_status
    _fields_ = [(name, {"digest": ctypes.c_uint64, "last_reason": ctypes.c_char_p,
                        "last_fault": ctypes.c_char_p}.get(name, ctypes.c_uint32))
                for name in ("has_model", "version", "digest", "rows", "cols", "run_finished", "connected", "sessions",
                             "connection_failures", "local_steps", "updates_folded", "updates_late", "updates_refused",
                             "tasks_refused", "digest_mismatches", "bytes_sent", "bytes_received", "arena_high_water",
                             "last_reason", "last_fault")]


class Status(NamedTuple):
    """What a device has done. digest: of the model held, 16 hexadecimal digits; "": there is none yet."""
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
    bytes_sent: int
    bytes_received: int
    arena_high_water: int
    last_reason: str
    last_fault: str


def _load():
    library = ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / "lib" / "libgradstream.so"))
    device = ctypes.c_void_p
    for name, result, *arguments in (
            ("open", device, ctypes.POINTER(_Options), ctypes.POINTER(ctypes.c_char_p)), ("close", None, device),
            ("point", device, device), ("indices", device, device), ("gradient_values", device, device),
            ("poll", ctypes.c_uint32, device),
            ("wait", None, ctypes.POINTER(device), ctypes.c_uint32, ctypes.c_uint32),
            ("get_status", None, device, ctypes.POINTER(_Status)),
            ("get_model", ctypes.c_int, device, ctypes.c_void_p, ctypes.c_size_t),
            ("evaluate", ctypes.c_double, device, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32),
            ("call", None, _LOSS, ctypes.c_uint32), ("version", ctypes.c_char_p)):
        function = getattr(library, f"gs_py_{name}")
        function.restype, function.argtypes = result, arguments
    return library


LIBRARY = _load()
_inside = threading.local()


def _view(address, kind, count, shape=None):
    """The library's memory as an array of NumPy, or as a memoryview where there is no NumPy."""
    memory = (kind * count).from_address(address)
    if numpy is not None:
        flat = numpy.frombuffer(memory, dtype={ctypes.c_float: "f4", ctypes.c_uint16: "u2"}[kind])
        return flat.reshape(shape) if shape else flat
    code = {ctypes.c_float: "f", ctypes.c_uint16: "H"}[kind]
    view = memoryview(memory).cast("B")
    return view.cast(code, shape) if shape else view.cast(code)


def _check_range(name, value, least, most):
    """Beyond 32 bits the library would see another number."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}: give a whole number from {least} to {most}")


class Loss:
    """A loss of your own, and its gradient where it has one.

    f(x, indices) is the mean loss at x over the samples that `indices` names: x is rows x cols floats, indices whole
    numbers from 0 to count - 1. Both are views of memory that the next call overwrites and Client.close() frees: copy
    what you keep. f returns a number; an exception of it comes out of the call that trains. grad(x,
    indices) is the Euclidean gradient of that mean, rows x cols numbers. Without it forward passes alone train the
    model. shape: (rows, cols) of the run's model. count: samples of the device. name: the run's `problem`.
    """

    def __init__(self, f, grad=None, *, shape, count, name="own"):
        self.f, self.grad, self.shape, self.count, self.name = f, grad, tuple(shape), count, name
        if len(self.shape) != 2:
            raise ValueError(f"shape is {shape}: give (rows, cols) of the run's model")
        _check_range("count", count, 1, ROWS_MAX)


class _Views(dict):
    """The first `count` indices, by count: each view is made once."""

    def __init__(self, indices):
        super().__init__()
        self.indices = indices

    def __missing__(self, count):
        self[count] = view = self.indices[:count]
        return view


def _rows_of(data):
    """(memory that holds floats row by row, rows, columns) of rows of numbers, or of any two-dimensional array."""
    if numpy is not None:
        rows = numpy.array(data, dtype="f4", order="C")  # a copy: who changes the data later changes nothing here
        if rows.ndim != 2:
            raise ValueError(f"data has {rows.ndim} dimensions: give a sample a row, and a value a column")
        if not numpy.isfinite(rows).all():
            raise ValueError("data has a value that is NaN, infinite or too large for 32 bits")
        return rows, rows.ctypes.data, *rows.shape
    rows = [list(row) for row in data]
    columns = len(rows[0]) if rows else 0
    if any(len(row) != columns for row in rows):
        raise ValueError("the rows of data have different lengths")
    values = array.array("f", (value for row in rows for value in row))
    if not all(map(math.isfinite, values)):
        raise ValueError("data has a value that is NaN, infinite or too large for 32 bits")
    return values, values.buffer_info()[0], len(rows), columns


class _Calls:
    """A Loss as the library calls it: with as little between both as can be."""

    def __init__(self, loss):
        self.failure, self.shape = None, loss.shape
        f, grad, point, views, gradient = loss.f, loss.grad, None, None, None

        def check_shape(shape):
            if shape != loss.shape:
                raise ValueError(f"a gradient has the shape {shape}: give one of {loss.shape}, that of the model")

        def evaluate(count):
            try:
                value = f(point, views[count])
                return value if type(value) is float else float(value)
            except BaseException as failure:  # C cannot pass it on: Client.poll() does
                self.failure = failure
                return math.nan

        def differentiate(count):
            try:
                values = grad(point, views[count])
                if numpy is not None:
                    values = numpy.asarray(values)
                    check_shape(values.shape)
                    gradient[...] = values
                else:
                    rows = [list(row) for row in values]
                    check_shape((len(rows), *sorted({len(row) for row in rows})))
                    for row, numbers in enumerate(rows):
                        for col, number in enumerate(numbers):
                            gradient[row, col] = number
                return 0
            except BaseException as failure:
                self.failure = failure
                return 1

        def show(handle):
            nonlocal point, views, gradient
            size = math.prod(loss.shape)
            point = _view(LIBRARY.gs_py_point(handle), ctypes.c_float, size, loss.shape)
            views = _Views(_view(LIBRARY.gs_py_indices(handle), ctypes.c_uint16, loss.count))
            gradient = _view(LIBRARY.gs_py_gradient_values(handle), ctypes.c_float, size, loss.shape)

        self.show = show
        self.loss = _LOSS(evaluate)
        self.gradient = _GRADIENT(differentiate) if grad is not None else _GRADIENT()


class Client:
    """A device in this process.

    identity: the path of the file that `gradstream device add` wrote, or its text. server: "HOST:PORT". data: rows of
    numbers, a sample each; they are copied. problem: a Loss, or one of PROBLEMS over data. log: called with each line
    of the device's log. floors: False puts floors under nothing that a run may learn of the samples: for data that
    may be known. run: the number of a run; 0: whichever active one the device is enrolled in.
    Raises ValueError with what is wrong, OSError where the identity cannot be read.
    """

    def __init__(self, identity, server, data=None, problem="kpca", *, log=None, floors=True, run=0,
                 arena_bytes=ARENA_BYTES):
        self._handle = self._calls = self._log = self._log_failure = None
        self._lock = threading.RLock()  # no thread closes what another one polls
        _check_range("run", run, 0, 2**32 - 1)
        _check_range("arena_bytes", arena_bytes, 1, 2**32 - 1)
        is_text = isinstance(identity, str) and "\n" in identity
        text = identity if is_text else pathlib.Path(identity).read_text(encoding="ascii")
        options = _Options(size=ctypes.sizeof(_Options), identity=text.encode(), server=server.encode(), run=run,
                           arena_bytes=arena_bytes, has_floors=1 if floors else 0)
        if isinstance(problem, Loss):
            if 4 * math.prod(problem.shape) > arena_bytes:
                raise ValueError(f"a model of {problem.shape} is larger than arena_bytes, {arena_bytes}: raise it")
            self._calls = _Calls(problem)
            options.problem, options.sample_count = problem.name.encode(), problem.count
            options.rows, options.cols = problem.shape
            options.loss, options.gradient = self._calls.loss, self._calls.gradient
        else:
            self._data, options.samples, count, options.dimension = _rows_of([] if data is None else data)
            options.problem, options.sample_count = problem.encode(), min(count, ROWS_MAX + 1)
        if log is not None:
            def show(line):
                try:
                    log(line.decode("utf-8", "replace"))
                except BaseException as failure:  # C cannot pass it on: poll() does
                    self._log_failure = failure

            options.log = self._log = _LOG(show)
        why = ctypes.c_char_p()
        self._handle = LIBRARY.gs_py_open(ctypes.byref(options), ctypes.byref(why))
        if not self._handle:
            raise ValueError(why.value.decode())
        if self._calls is not None:
            self._calls.show(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        """Ends the connection. What the server has not acknowledged is lost, as with a device that is reset."""
        if getattr(self, "_handle", None):
            if getattr(_inside, "client", None) is self:
                raise RuntimeError("a loss cannot close its device: it is called from inside of it")
            with self._lock:
                handle, self._handle = self._handle, None
                if handle:
                    LIBRARY.gs_py_close(handle)

    @property
    def handle(self):
        if not self._handle:
            raise ValueError("the client is closed")
        return self._handle

    def _call(self, work):
        """What work() returns, which calls the loss; raises what the loss or the log has raised meanwhile."""
        if getattr(_inside, "client", None) is not None:
            raise RuntimeError("a loss cannot use a device so: it is called from inside of one")
        with self._lock:
            _inside.client = self
            try:
                value = work()
            finally:
                _inside.client = None
            failure, self._log_failure = self._log_failure, None
            if self._calls is not None and self._calls.failure is not None:
                failure, self._calls.failure = self._calls.failure, None
        if failure is not None:
            raise failure
        return value

    def poll(self):
        """Does what is due: at most one local step. Seconds until the next call at the latest. Raises what the loss
        has raised."""
        return self._call(lambda: LIBRARY.gs_py_poll(self.handle)) / 1000

    def _raw_status(self):
        raw = _Status()
        with self._lock:
            LIBRARY.gs_py_get_status(self.handle, ctypes.byref(raw))
        return raw

    def status(self):
        """A Status."""
        raw = self._raw_status()
        values = {name: getattr(raw, name) for name in Status._fields}
        values.update(digest=f"{raw.digest:016x}" if raw.has_model else "", run_finished=bool(raw.run_finished),
                      connected=bool(raw.connected), last_reason=raw.last_reason.decode(),
                      last_fault=raw.last_fault.decode())
        return Status(**values)

    def model(self):
        """The model held, rows x cols numbers: an array of NumPy, or without NumPy a list of rows. None: there is none
        yet. Where the run takes units out, it belongs to samples without them (docs/use_model.md)."""
        raw = self._raw_status()
        values = (ctypes.c_float * max(1, raw.rows * raw.cols))()
        with self._lock:
            if not raw.has_model or LIBRARY.gs_py_get_model(self.handle, values, len(values)) != 0:
                return None
        if numpy is not None:
            return numpy.frombuffer(values, dtype="f4").reshape(raw.rows, raw.cols).copy()
        return [list(values[row * raw.cols:(row + 1) * raw.cols]) for row in range(raw.rows)]

    def evaluate(self, x, count=1, times=1):
        """The own loss at x over the first `count` samples, as training asks for it. Raises what the loss raises."""
        _, address, rows, cols = kept = _rows_of(x)
        if self._calls is None or (rows, cols) != self.shape():
            raise ValueError("evaluate() takes a device with a Loss, and a point of its shape")
        value = self._call(lambda: LIBRARY.gs_py_evaluate(self.handle, address, count, times))
        del kept
        return value

    def shape(self):
        """(rows, cols) of the own loss, or of the model held; None: there is none yet."""
        raw = self._raw_status()
        if self._calls is not None:
            return self._calls.shape
        return (raw.rows, raw.cols) if raw.has_model else None


def _trouble(status):
    """The last refusal and the link's last fault, for people."""
    words = [word for word in (status.last_reason, status.last_fault) if word not in ("", "none")]
    return ", ".join(words) or "no fault"


def train(clients, *, seconds=None, until=None):
    """Lets the devices train, in this thread, until each holds the last version of its finished run.

    until: a function without arguments; training also ends when it says so, which it is asked at least once a second.
    seconds: TimeoutError after so long. Raises what a loss has raised.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not all(client.status().run_finished for client in clients) and not (until is not None and until()):
        if time.monotonic() > end:
            raise TimeoutError(f"the run is not finished after {seconds} s; the server's log says why. Of the devices: "
                               + "; ".join(_trouble(client.status()) for client in clients))
        wait = min(client.poll() for client in clients)
        if wait > 0:
            with contextlib.ExitStack() as held:
                for client in sorted(clients, key=id):  # one order, so that two threads never hold one lock each
                    held.enter_context(client._lock)
                handles = (ctypes.c_void_p * len(clients))(*(client.handle for client in clients))
                LIBRARY.gs_py_wait(handles, len(clients), int(1000 * min(wait, 1)))
