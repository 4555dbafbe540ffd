"""The simulator's schedules in virtual time, over samples, a loss and an aggregation of the user's."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

from gradstream.errors import OptionError, ProgramFailed, of_fault
from gradstream.files import _numpy, number_or_text
from gradstream.library import LIBRARY, check_range, numpy
from gradstream.loss import SAMPLES_MAX, put_gradient

# Of gradstream-sim, what goes with samples of the user's; all else that simulate() gets are keys of the run.
OPTIONS = frozenset(("devices", "rounds", "seed", "schedules", "schedule", "faults", "lies", "byzantine", "clip",
                     "stream", "correction", "encoding", "feedback", "solver", "participation", "stragglers", "timed",
                     "hold", "arrival_rate", "buffer", "seen_versions", "share_max", "weigh_samples"))
FLOATS = ctypes.POINTER(ctypes.c_float)
REPLAYABLE = "replayable"


class Update(NamedTuple):
    """What an aggregation gets of one device: its number from 0, the version that it trained from, local steps, weight,
    and the tangent by a step at the open version's model, rows x cols."""
    device: int
    base_version: int
    steps_done: int
    weight: int
    values: Any


class _Update(ctypes.Structure):  # gs_py_update
    _fields_ = [("device", ctypes.c_uint32), ("base_version", ctypes.c_uint32), ("steps_done", ctypes.c_uint32),
                ("weight", ctypes.c_uint32), ("values", FLOATS)]


_LOSS = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_uint32, ctypes.c_uint32)
_GRADIENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32)
_AGGREGATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, FLOATS, ctypes.POINTER(_Update), ctypes.c_uint32, FLOATS)
_SAY = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_MODEL = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, FLOATS)
_IS_ENDED = ctypes.CFUNCTYPE(ctypes.c_int)


class _Simulation(ctypes.Structure):  # gs_py_simulation
    _fields_ = [("size", ctypes.c_uint32), ("arguments", ctypes.POINTER(ctypes.c_char_p)),
                ("argument_count", ctypes.c_uint32), ("keys", ctypes.POINTER(ctypes.c_char_p)),
                ("key_count", ctypes.c_uint32), ("sample_counts", ctypes.POINTER(ctypes.c_uint32)),
                ("device_count", ctypes.c_uint32), ("samples", ctypes.POINTER(FLOATS)), ("dimension", ctypes.c_uint32),
                ("loss", _LOSS), ("gradient", _GRADIENT), ("aggregate", _AGGREGATE), ("point", FLOATS),
                ("gradient_values", FLOATS), ("value_count", ctypes.c_size_t),
                ("indices", ctypes.POINTER(ctypes.c_uint16)), ("say", _SAY), ("on_model", _MODEL),
                ("is_ended", _IS_ENDED)]


LIBRARY.gs_py_simulate.argtypes, LIBRARY.gs_py_simulate.restype = (ctypes.POINTER(_Simulation),), ctypes.c_int


def _texts(words):
    return (ctypes.c_char_p * max(1, len(words)))(*(word.encode() for word in words)), len(words)


def _plain(value):
    """A truth value of NumPy as Python's."""
    return value.item() if numpy is not None and isinstance(value, numpy.bool_) else value


def option_words(options):
    """The words of a command line: dashes for underscores, True for an option without a value."""
    words = []
    for name, value in options.items():
        value = _plain(value)
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words


def fields_of(line):
    """The numbers of a line "result: name=value ..."; a digest has 16 digits, which may all be decimal, and stays a
    text."""
    pairs = (word.split("=", 1) for word in line.removeprefix("result: ").split())
    return {key: text if len(text) == 16 and "." not in text else number_or_text(text) for key, text in pairs}


def _key_text(value):
    value = _plain(value)
    return "true" if value is True else "false" if value is False else str(value)


class _Play:
    """One call of the simulator: what it calls back, and what became of it."""

    def __init__(self, shards, shape):
        self.numpy = _numpy()
        self.shards, self.shape, self.failure, self.lines, self.model = shards, shape, None, [], None
        self.point = self.numpy.zeros(shape, "f4")
        self.gradient = self.numpy.zeros(shape, "f4")
        self.indices = self.numpy.zeros(max((len(shard) for shard in shards), default=1), "u2")

    def guard(self, work, failed):
        """work, which returns `failed` where it raises: C cannot pass it on."""
        def call(*arguments):
            try:
                return work(*arguments)
            except BaseException as failure:
                self.failure = self.failure or failure
                return failed
        return call

    def evaluate(self, loss):
        x = self.point.view()
        x.flags.writeable = False  # a loss that writes to x would train another point
        return _LOSS(self.guard(lambda device, count: float(loss(x, self.shards[device][self.indices[:count]])),
                                math.nan))

    def differentiate(self, grad):
        def work(device, count):
            put_gradient(grad(self.point.copy(), self.shards[device][self.indices[:count]]), self.gradient, self.shape)
            return 0
        return _GRADIENT(self.guard(work, 1))

    def combine(self, aggregate):
        def work(version, model, updates, count, out):
            array, shape = self.numpy.ctypeslib.as_array, self.shape
            given = [Update(raw.device, raw.base_version, raw.steps_done, raw.weight, array(raw.values, shape).copy())
                     for raw in (updates[index] for index in range(count))]
            found = self.numpy.asarray(aggregate(array(model, shape).copy(), given), dtype="f4")
            if found.shape != shape:
                raise OptionError(f"the aggregation of version {version} has the shape {found.shape}: give one of "
                                  f"{shape}, that of the model")
            if not self.numpy.isfinite(found).all():
                raise OptionError(f"the aggregation of version {version} has a value that is NaN or infinite: give "
                                  "finite numbers")
            array(out, shape)[...] = found
            return 0
        return _AGGREGATE(self.guard(work, 1))

    def keep_model(self, version, rows, cols, values):
        self.model = self.numpy.ctypeslib.as_array(values, (rows, cols)).copy(), version


def play(shards, *, loss=None, grad=None, aggregate=None, **settings):
    """simulate() in virtual time; its docstring has what all are. shards: arrays of f4, or none."""
    _numpy()
    options = {name: value for name, value in settings.items() if name in OPTIONS}
    keys = {name: value for name, value in settings.items() if name not in OPTIONS}
    if shards:
        options["devices"] = len(shards)
        keys = {"rows": shards[0].shape[1], "cols": 1, "problem": "own" if callable(loss) else loss or "kpca", **keys}
        for index, shard in enumerate(shards):
            check_range(f"the number of samples of shard {index}", len(shard), 1, SAMPLES_MAX)
    elif callable(loss):
        raise OptionError("a loss of yours wants shards: give one array for each device")
    if aggregate is not None:
        options = {"stream": "tangent", **options}
    shape = (int(keys.get("rows", 16)), int(keys.get("cols", 2)))
    game = _Play(shards, shape)
    arguments, argument_count = _texts(option_words(options))
    words, word_count = _texts([f"{name}={_key_text(value)}" for name, value in keys.items()])
    simulation = _Simulation(
        size=ctypes.sizeof(_Simulation), arguments=arguments, argument_count=argument_count, keys=words,
        key_count=word_count, say=_SAY(lambda line: game.lines.append(line.decode("utf-8", "replace"))),
        on_model=_MODEL(game.guard(game.keep_model, None)),
        is_ended=_IS_ENDED(game.guard(lambda: 0 if game.failure is None else 1, 1)))
    if shards:
        rows = [numpy.ascontiguousarray(shard, dtype="f4") for shard in shards]
        simulation.sample_counts = (ctypes.c_uint32 * len(rows))(*map(len, rows))
        simulation.device_count, simulation.dimension = len(rows), rows[0].shape[1]
        simulation.samples = (FLOATS * len(rows))(*(shard.ctypes.data_as(FLOATS) for shard in rows))
    if callable(loss):
        simulation.loss = game.evaluate(loss)
        simulation.gradient = game.differentiate(grad) if grad is not None else _GRADIENT()
        simulation.point = game.point.ctypes.data_as(FLOATS)
        simulation.gradient_values = game.gradient.ctypes.data_as(FLOATS)
        simulation.value_count = game.point.size
        simulation.indices = game.indices.ctypes.data_as(ctypes.POINTER(ctypes.c_uint16))
    if aggregate is not None:
        simulation.aggregate = game.combine(aggregate)
    code = LIBRARY.gs_py_simulate(ctypes.byref(simulation))
    if game.failure is not None:
        raise game.failure
    said = "\n".join(game.lines)
    if code in (2, 6):
        raise of_fault(code, said.strip())
    if code != 0 or game.model is None:
        raise ProgramFailed(said)
    name = getattr(aggregate, "__name__", type(aggregate).__name__)
    return {**fields_of(game.lines[-1]), "model": game.model[0], "version": game.model[1],
            "lineage": REPLAYABLE if aggregate is None else f"not replayable: the Python function {name} combined the "
                                                            "updates"}
