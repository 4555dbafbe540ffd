"""A fleet on this machine: the simulator of `./run simulate` in virtual time, or devices with samples of your own."""

import contextlib

from gradstream.device import Client, train
from gradstream.files import _numpy, number_or_text, read_model
from gradstream.loss import Loss
from gradstream.programs import ask
from gradstream.server import Server

SECONDS_MAX = 600


def simulate(shards=None, **options):
    """Without shards: the fields of the simulator's last line, such as digest or events; numbers are numbers.

    simulate(devices=5, rounds=10, seed=3) is `./run simulate --devices 5 --rounds 10 --seed 3`: an option's dashes
    are underscores here, and True stands for an option without a value. gradstream-sim --help names the options.
    Raises ProgramFailed where an invariant is broken or an option is none.

    With shards, one array for each device: as train_shards().
    """
    if shards is not None:
        return train_shards(shards, **options)
    words = []
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    line = ask("gradstream-sim", *words).rstrip().splitlines()[-1]
    pairs = (word.split("=", 1) for word in line.removeprefix("result: ").split())
    return {key: _number(value) for key, value in pairs}


def _number(text):
    """A digest has 16 digits, which may all be decimal: it stays a text."""
    return text if len(text) == 16 and "." not in text else number_or_text(text)


def train_shards(shards, *, loss=None, grad=None, floors=True, seconds=SECONDS_MAX, **run):
    """Trains one device of this process for each shard, against a server of its own; in real time, over TLS.

    shards: arrays with a sample a row and the same columns. loss(x, samples) is the mean loss of your own over these
    rows of a shard, and grad its gradient, as of Loss; without it the run's problem is one of PROBLEMS. run: the keys
    of the run, such as rows, cols and round_count; rows is the number of columns where it is not there. floors: as of
    Client. Returns a dict: digest, version, history (columns), and what read_model() has, model among it. Raises
    ProgramFailed, TimeoutError, and what the loss raises.
    """
    numpy = _numpy()
    shards = [numpy.asarray(shard, dtype="f4") for shard in shards]
    if not shards or any(shard.ndim != 2 or shard.shape[1] != shards[0].shape[1] for shard in shards):
        raise ValueError("shards are arrays of two dimensions with the same columns, one for each device")
    run = {"rows": shards[0].shape[1], "cols": 1, "device_count": len(shards),
           "problem": "kpca" if loss is None else "own", **run}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(**run))
        clients = []
        for index, shard in enumerate(shards):
            problem = run["problem"] if loss is None else _loss_over(shard, loss, grad, run)
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
