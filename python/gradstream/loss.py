"""A loss of the user's, and how the library calls it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from gradstream.errors import OptionError
from gradstream.library import GRADIENT, LIBRARY, LOSS, check_range, numpy, view

SAMPLES_MAX = 65535  # of a device


class Loss:
    """A loss of your own, and its gradient where it has one.

    f(x, indices) is the mean loss at x over the samples that `indices` names: x is rows x cols floats, indices whole
    numbers from 0 to count - 1. Both are views of memory that the next call overwrites and Client.close() frees: copy
    what you keep. Indices are read-only. f returns a number; an exception of it comes out of the call that trains.
    grad(x, indices) is the Euclidean gradient of that mean, rows x cols numbers. Without it forward passes alone train
    the model. shape: (rows, cols) of the run's model. count: samples of the device, 1 to 65,535. name: the run's
    `problem`, 1 to 15 characters. Raises OptionError.
    """

    def __init__(self, f: Callable[[Any, Any], float], grad: Callable[[Any, Any], Any] | None = None, *,
                 shape: tuple[int, int], count: int, name: str = "own") -> None:
        self.f, self.grad, self.shape, self.count, self.name = f, grad, tuple(shape), count, name
        if len(self.shape) != 2:
            raise OptionError(f"shape is {shape}: give (rows, cols) of the run's model")
        check_range("count", count, 1, SAMPLES_MAX)


class _Views(dict):
    """The first `count` indices, by count: each view is made once."""

    def __init__(self, indices):
        super().__init__()
        self.indices = indices

    def __missing__(self, count):
        self[count] = found = self.indices[:count]
        return found


def put_gradient(values, gradient, shape):
    """Copies what a gradient returned to the library's memory. Raises ValueError where it has another shape."""
    def check(found):
        if found != shape:
            raise ValueError(f"a gradient has the shape {found}: give one of {shape}, that of the model")
    if numpy is not None:
        values = numpy.asarray(values)
        check(values.shape)
        gradient[...] = values
        return
    rows = [list(row) for row in values]
    check((len(rows), *sorted({len(row) for row in rows})))
    for row, numbers in enumerate(rows):
        for col, number in enumerate(numbers):
            gradient[row, col] = number


class Calls:
    """A Loss as the library calls it: with as little between both as can be."""

    def __init__(self, loss):
        self.failure, self.shape = None, loss.shape
        f, grad, point, views, gradient = loss.f, loss.grad, None, None, None

        def evaluate(count):
            try:
                value = f(point, views[count])
                return value if type(value) is float else float(value)
            except BaseException as failure:  # C cannot pass it on: Client.poll() does
                self.failure = failure
                return math.nan

        def differentiate(count):
            try:
                put_gradient(grad(point, views[count]), gradient, loss.shape)
                return 0
            except BaseException as failure:
                self.failure = failure
                return 1

        def show(handle):
            nonlocal point, views, gradient
            size = math.prod(loss.shape)
            point = view(LIBRARY.gs_py_point(handle), ctypes.c_float, size, loss.shape)
            indices = view(LIBRARY.gs_py_indices(handle), ctypes.c_uint16, loss.count)
            if numpy is not None:
                indices.flags.writeable = False  # a full batch is not written anew for each call
            views = _Views(indices if numpy is not None else indices.toreadonly())
            gradient = view(LIBRARY.gs_py_gradient_values(handle), ctypes.c_float, size, loss.shape)

        self.show = show
        self.loss = LOSS(evaluate)
        self.gradient = GRADIENT(differentiate) if grad is not None else GRADIENT()
