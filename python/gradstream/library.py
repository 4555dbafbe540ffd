"""The library of the package, libgradstream.so, as python/gradstream_python.h describes it."""

import array
import ctypes
import logging
import math
import os
import pathlib
import threading
from typing import Any

from gradstream.errors import DataError, OptionError, in_python

numpy: Any
try:
    import numpy
except ImportError:  # the package does without, but a Loss then gets memoryviews
    numpy = None

LOSS = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_uint32)
GRADIENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
LOGGER = logging.getLogger("gradstream")
LOGGER.addHandler(logging.NullHandler())  # nothing is printed unless the program asks logging for it
# Lines of devices that somebody should look at.
_WARNINGS = ("event=failed", "event=warning", "event=refused", "event=bad_sample", "event=link_lost", "event=deadline",
             "event=not_capable", "event=state_", "event=claim_refused", "event=claim_failed", "event=key_change_")


NO_MEMORY = 2**32 - 1  # GS_PY_NO_MEMORY


class Fault(ctypes.Structure):  # gs_py_fault
    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 1024)]


class Credentials(ctypes.Structure):  # gs_py_credentials
    _fields_ = [(name, ctypes.c_char_p) for name in ("identity", "identity_file", "certificate", "key", "authority",
                                                     "server_name")]


class Options(ctypes.Structure):  # gs_py_options
    _fields_ = [("size", ctypes.c_uint32), ("credentials", Credentials), ("server", ctypes.c_char_p),
                ("state", ctypes.c_char_p), ("problem", ctypes.c_char_p), ("samples", ctypes.c_void_p),
                ("sample_count", ctypes.c_uint32), ("dimension", ctypes.c_uint32), ("loss", LOSS),
                ("gradient", GRADIENT), ("rows", ctypes.c_uint32), ("cols", ctypes.c_uint32), ("log", LOG),
                ("run", ctypes.c_uint32), ("arena_bytes", ctypes.c_uint32), ("has_floors", ctypes.c_uint32)]


_KINDS: dict[str, Any] = {"digest": ctypes.c_uint64, "name": ctypes.c_char_p, "last_reason": ctypes.c_char_p,
                          "last_fault": ctypes.c_char_p}


class RawStatus(ctypes.Structure):  # gs_py_status
    _fields_ = [(name, _KINDS.get(name, ctypes.c_uint32))
                for name in ("has_model", "version", "digest", "rows", "cols", "run_finished", "connected", "sessions",
                             "connection_failures", "local_steps", "updates_folded", "updates_late", "updates_refused",
                             "tasks_refused", "digest_mismatches", "save_failures", "bytes_sent", "bytes_received",
                             "arena_high_water", "name", "last_reason", "last_fault")]


class ClaimOptions(ctypes.Structure):  # gs_py_claim
    _fields_ = [("file", ctypes.c_char_p), ("name", ctypes.c_char_p), ("identity_file", ctypes.c_char_p),
                ("server", ctypes.c_char_p), ("log", LOG), ("takes_unproven", ctypes.c_uint32),
                ("limit_ms", ctypes.c_uint32)]


def _load():
    library = ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / "lib" / "libgradstream.so"))
    device, fault = ctypes.c_void_p, ctypes.POINTER(Fault)
    for name, result, *arguments in (
            ("open", device, ctypes.POINTER(Options), fault), ("close", None, device),
            ("claim_identity", ctypes.c_int, ctypes.POINTER(ClaimOptions), fault),
            ("point", device, device), ("indices", device, device), ("gradient_values", device, device),
            ("poll", ctypes.c_uint32, device),
            ("wait", None, ctypes.POINTER(device), ctypes.c_uint32, ctypes.c_uint32),
            ("get_status", None, device, ctypes.POINTER(RawStatus)),
            ("get_model", ctypes.c_int, device, ctypes.c_void_p, ctypes.c_size_t),
            ("evaluate", ctypes.c_double, device, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32),
            ("call", None, LOSS, ctypes.c_uint32), ("version", ctypes.c_char_p)):
        function = getattr(library, f"gs_py_{name}")
        function.restype, function.argtypes = result, arguments
    return library


LIBRARY = _load()


def view(address, kind, count, shape=None):
    """The library's memory as an array of NumPy, or as a memoryview where there is no NumPy."""
    memory = (kind * count).from_address(address)
    if numpy is not None:
        flat = numpy.frombuffer(memory, dtype={ctypes.c_float: "f4", ctypes.c_uint16: "u2"}[kind])
        return flat.reshape(shape) if shape else flat
    code = {ctypes.c_float: "f", ctypes.c_uint16: "H"}[kind]
    flat = memoryview(memory).cast("B")
    return flat.cast(code, shape) if shape else flat.cast(code)


def text(path):
    """A path as C takes it."""
    return None if path is None else os.fsencode(path)


class _Here(threading.local):
    """Of a thread. client: the one whose loss it is in; None: it is in none. lines: (log, line), told to nobody yet."""

    def __init__(self):
        self.client, self.lines = None, []


HERE = _Here()


def log_to(log):
    """A LOG that keeps lines for tell_lines(), which hands them to log, or to the logger "gradstream" where that is
    None. The library calls it under its lock: a log that waits for a lock of its own there could wait for good."""
    return LOG(lambda line: HERE.lines.append((log, in_python(line.decode("utf-8", "replace")))))


def tell_lines():
    """Hands out what this thread's calls have logged, all of it; raises what a log raises first. Inside of a loss the
    lines stay for the call around it."""
    if HERE.client is not None or not HERE.lines:
        return
    failure = None
    lines, HERE.lines = HERE.lines, []
    for log, words in lines:
        try:
            if log is not None:
                log(words)
            else:
                LOGGER.log(logging.WARNING if words.startswith(_WARNINGS) else logging.INFO, "%s", words)
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure


def check_range(name, value, least, most):
    """Beyond 32 bits the library would see another number."""
    if not least <= value <= most:
        raise OptionError(f"{name} is {value}: give a whole number from {least} to {most}")


def rows_of(data):
    """(memory that holds floats row by row, rows, columns) of rows of numbers, or of any two-dimensional array."""
    if numpy is not None:
        rows = numpy.array(data, dtype="f4", order="C")  # a copy: who changes the data later changes nothing here
        if rows.ndim != 2:
            raise DataError(f"data has {rows.ndim} dimensions: give a sample a row, and a value a column")
        if not numpy.isfinite(rows).all():
            row = int(numpy.argwhere(~numpy.isfinite(rows))[0][0])
            raise DataError(f"data has a value that is NaN, infinite or too large for 32 bits in row {row} (from 0): "
                            "leave the row out, or put a number there")
        return rows, rows.ctypes.data, *rows.shape
    rows = [list(row) for row in data]
    columns = len(rows[0]) if rows else 0
    if any(len(row) != columns for row in rows):
        raise DataError("the rows of data have different lengths: give a value a column in each")
    values = array.array("f", (value for row in rows for value in row))
    if not all(map(math.isfinite, values)):
        raise DataError("data has a value that is NaN, infinite or too large for 32 bits")
    return values, values.buffer_info()[0], len(rows), columns
