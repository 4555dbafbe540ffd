"""A fleet on this machine: the simulator of `./run simulate` in virtual time, or devices with samples of your own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gradstream import virtual
from gradstream.device import Client, train
from gradstream.errors import DataError, OptionError
from gradstream.files import _numpy, read_model
from gradstream.loss import Loss
from gradstream.programs import ask
from gradstream.server import Server

SECONDS_MAX = 600


def simulate(shards: Any = None, *, clock: str | None = None, loss: Callable[[Any, Any], float] | str | None = None,
             grad: Callable[[Any, Any], Any] | None = None,
             aggregate: Callable[[Any, list], Any] | None = None, **options: Any) -> dict[str, Any]:
    """A whole fleet on this machine; what became of it as a dict.

    simulate(devices=5, rounds=10, seed=3) is `./run simulate --devices 5 --rounds 10 --seed 3`, in virtual time over
    samples that it draws: the fields of its last line, such as digest or events. An option's dashes are underscores
    here, and True stands for an option without a value. gradstream-sim --help names the options.

    simulate(shards, loss=f, clock="virtual", rounds=10, seed=3, stragglers=True, faults="all", step_size=0.1) plays the
    same schedules over your samples and your loss: delays, losses, crashes and stragglers, from one seed. One seed is
    one digest. What is no option of the simulator is a key of the run, such as cols, manifold, step_size, batch_size,
    local_step_count or smoothing. The dict has model (rows x cols), version and lineage besides.

    simulate(shards, loss=f, round_count=10) trains in real time, over TLS, against a server of its own; options are
    keys of the run. floors and seconds are as of Client and train(). The dict has what read_model() has, and digest,
    version and history (columns).

    shards: arrays with a sample a row and the same columns, one for each device. loss(x, samples): the mean loss of
    your own at x (rows x cols) over these rows of a shard, or the name of one of PROBLEMS. grad(x, samples): its
    Euclidean gradient, rows x cols numbers. aggregate(x, updates), in virtual time alone: what takes the place of the
    weighted mean of a version's updates at its model x, rows x cols numbers; each is an Update. It must be
    a function of its arguments: a server that crashed asks again. No journal leads to
    such a model without the function: lineage then says "not replayable" with its name.

    Raises OptionError, DataError, ProgramFailed where an invariant is broken, and what your functions raise.
    """
    if clock not in (None, "real", "virtual"):
        raise OptionError(f"clock is {clock!r}: give \"real\" or \"virtual\"")
    if aggregate is not None and clock != "virtual":
        raise OptionError("an aggregation of yours is for virtual time alone, as no server takes a rule that cannot be "
                          "replayed: give clock=\"virtual\"")
    if grad is not None and not callable(loss):
        raise OptionError("a grad of yours goes with a loss of yours alone: give both as functions, or leave grad out")
    if shards is not None:
        if "devices" in options:
            raise OptionError("devices is for samples that the simulator draws: leave it out, each shard is a device")
        shards = _arrays(shards)
        own = {"loss": loss, "grad": grad}
        return (virtual.play(shards, **own, aggregate=aggregate, **options) if clock == "virtual" else
                train_shards(shards, **own, **options))
    if clock == "real":
        raise OptionError("clock is \"real\", which wants shards: give one array for each device")
    if clock == "virtual" or loss is not None:
        if isinstance(loss, str) and loss != "kpca":
            raise OptionError(f"loss is {loss!r}: the samples that the simulator draws are of kpca; give shards")
        return virtual.play([], loss=loss if callable(loss) else None, aggregate=aggregate, **options)
    return virtual.fields_of(ask("gradstream-sim", *virtual.option_words(options)).rstrip().splitlines()[-1])


def _arrays(shards):
    numpy = _numpy()
    shards = [numpy.asarray(shard, dtype="f4") for shard in shards]
    if not shards or any(shard.ndim != 2 or shard.shape[1] != shards[0].shape[1] for shard in shards):
        raise DataError("shards are arrays of two dimensions with the same columns, one for each device: these have "
                        f"the shapes {', '.join(str(shard.shape) for shard in shards[:4]) or 'of none'}")
    for index, shard in enumerate(shards):
        if not numpy.isfinite(shard).all():
            raise DataError(f"shard {index} (from 0) has a value that is NaN, infinite or too large for 32 bits: leave "
                            "its row out, or put a number there")
    return shards


def train_shards(shards, *, loss=None, grad=None, floors=True, seconds=SECONDS_MAX, **run):
    """simulate() in real time: arrays, each with a device of this process, against a server of its own. rows is the
    number of columns where it is not among the keys of the run. Raises TrainingTimeout too."""
    is_own = callable(loss)
    run = {"rows": shards[0].shape[1], "cols": 1, "device_count": len(shards),
           "problem": "own" if is_own else loss or "kpca", **run}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(**run))
        clients = []
        for index, shard in enumerate(shards):
            problem = _loss_over(shard, loss, grad, run) if is_own else run["problem"]
            clients.append(stack.enter_context(
                Client(server.enrol(f"shard-{index}"), server.address, shard, problem, floors=floors)))
        train(clients, seconds=seconds)
        status = clients[0].status()
        return {**read_model(server.config), "digest": status.digest, "version": status.version,
                "history": server.history()}


def _loss_over(shard, loss, grad, run):
    return Loss(lambda x, indices: loss(x, shard[indices]),
                None if grad is None else lambda x, indices: grad(x, shard[indices]),
                shape=(run["rows"], run["cols"]), count=len(shard), name=run["problem"])
