"""What a server and its devices keep in files, as arrays and columns."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pathlib
import tempfile
import urllib.request
from typing import Any

from gradstream.credentials import Path
from gradstream.errors import NotReplayable, OptionError
from gradstream.programs import ask

STATUS_BYTES_MAX = 16 << 20  # reason: 512 versions have a hundredth of it
HTTP_SECONDS_MAX = 30


def _numpy():
    try:
        import numpy
    except ImportError as failure:
        raise ImportError("this function needs NumPy: pip install numpy") from failure
    return numpy


@contextlib.contextmanager
def _settings(source):
    """The options that name a server's files: of a configuration (*.toml), or of a database. A database is asked with
    no other configuration."""
    if str(source).endswith(".toml"):
        yield ["--config", str(source)]
    else:
        with tempfile.TemporaryDirectory(prefix="gradstream-") as folder:
            config = pathlib.Path(folder) / "gradstream.toml"
            config.write_text("", encoding="ascii")
            yield ["--config", str(config), "--set", f"server.database={pathlib.Path(source).resolve()}"]


def read_model(source: Path, *, run: int | None = None, version: int | str = "latest") -> dict[str, Any]:
    """A trained model as a dict of arrays: model, and what samples need besides (docs/own_data.md, "Use the model").

    source: a file *.npz or *.npy that a server wrote, a server's database, or its configuration (*.toml). run and
    version choose in a database. Raises ProgramFailed, OSError; ImportError without NumPy.
    """
    numpy = _numpy()
    if str(source).endswith(".npy"):
        return {"model": numpy.load(source)}
    if str(source).endswith(".npz"):
        with numpy.load(source) as archive:
            return dict(archive)
    with _settings(source) as settings, tempfile.TemporaryDirectory(prefix="gradstream-") as folder:
        out = pathlib.Path(folder) / "model.npz"
        ask("gradstream", "model", "export", *settings, *([] if run is None else ["--run", run]), "--version", version,
            "--out", out)
        with numpy.load(out) as archive:
            return dict(archive)


def save_model(run: dict[str, Any], out: Path) -> None:
    """Writes what simulate() or read_model() returned as a file that read_model() reads. *.npz has its numbers and
    texts, the mark of a model that cannot be replayed among them; *.npy has the model alone. Raises NotReplayable where
    a *.npy would lose that mark."""
    numpy = _numpy()
    out = pathlib.Path(out)
    lineage = str(run.get("lineage", ""))
    if out.suffix == ".npy":
        if lineage.startswith("not replayable"):
            raise NotReplayable(f"{out}: the model is {lineage}, and a .npy has no room for this mark: give a name "
                                "that ends with .npz")
        numpy.save(out, run["model"])
        return
    if out.suffix != ".npz":
        raise OptionError(f"{out}: a model's name ends with .npz or .npy")
    numpy.savez(out, **{name: value for name, value in run.items() if not isinstance(value, (dict, list))})


def history(source: Path, *, run: int | None = None, token: str | None = None) -> dict[str, list]:
    """A run's versions, their losses and quality, as columns: a dict of lists, which pandas.DataFrame() takes.

    source: a server's database or its configuration (*.toml): the columns are those of `gradstream history`. Or the
    address of its HTTP port, "http://HOST:PORT": the columns of /status, of the served run's last 512 versions; token
    is what the port asks for. What is not known is None. Raises ProgramFailed, OSError.
    """
    if str(source).startswith(("http://", "https://")):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{str(source).rstrip('/')}/status", headers=headers)
        with urllib.request.urlopen(request, timeout=HTTP_SECONDS_MAX) as answer:
            rounds = json.loads(answer.read(STATUS_BYTES_MAX))["rounds"]
        return {name: [row.get(name) for row in rounds] for name in (rounds[-1] if rounds else ())}
    with _settings(source) as settings:
        text = ask("gradstream", "history", *settings, *([] if run is None else ["--run", run]))
    names, *rows = csv.reader(io.StringIO(text))
    return {name: [number_or_text(row[index]) if row[index] else None for row in rows]
            for index, name in enumerate(names)}


def number_or_text(text):
    """A whole number, else a float, else the text as it is."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def to_gsd(source: Any, out: Path, *, label: str | int | None = None, as_bytes: bool = False) -> None:
    """Writes samples as a shard for a device (docs/data.md). Raises ProgramFailed with what is wrong with them.

    source: rows of numbers, or the path of a table (CSV, .npy). out: the path, which ends with .gsd. label: the column
    that becomes the last value, by its name, or by its number from 1. as_bytes: a byte a value, as boards read them.
    """
    out = pathlib.Path(out)
    if out.suffix != ".gsd":
        raise OptionError(f"{out}: a shard's name ends with .gsd")
    options = [*([] if label is None else ["--label", label]), *(["--bytes"] if as_bytes else [])]
    with tempfile.TemporaryDirectory(prefix="gradstream-", dir=out.resolve().parent) as folder:
        if not isinstance(source, (str, pathlib.Path)):
            table = pathlib.Path(folder) / f"{out.stem}.npy"
            _numpy().save(table, _numpy().ascontiguousarray(source))
            options += ["--header", "no"]
        else:
            table = pathlib.Path(source)
        ask("gradstream", "data", "pack", table, *options, "--out-folder", folder)
        (pathlib.Path(folder) / f"{table.stem}.gsd").replace(out)
