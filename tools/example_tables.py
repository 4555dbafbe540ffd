"""./run example tables: tables as they come train by themselves. Nothing is set but name, problem and size.

A table is sorted by its label, or by its first column, and cut into one file a device: no device has what another one
has. `gradstream data pack` makes shards of the files as they are. A server whose [run] has a name, a problem and a size
trains native clients on them. The last model is then held against the exact solution of the same data, in the units
that the run took out of them:

    gap = (F - F*) / |F*|         kpca
    gap = (F - F*) / (F_0 - F*)   least_squares, logistic; F_0 at the first model

The example holds where every gap is at most GAP_MAX, and devices and server end with one digest.
"""

import argparse
import csv
import json
import pathlib
import re
import shutil
import sys
import time
from typing import NamedTuple

import numpy as np

import demo_run
import fleet

HOME = fleet.ROOT / "build" / "example_tables"
DATA = fleet.ROOT / "experiments" / "data"
GAP_MAX = 5e-2
DEVICES = 6
ROUNDS = 300         # of the server's default
START_SECONDS = 60   # until the server listens
STALL_SECONDS = 60   # no new version for so long: the run stands still
STALLED_SECONDS = 5  # the same, where the server says so itself
NEWTON_STEPS_MAX = 100
PROBLEMS = ("kpca", "least_squares", "logistic")


class Table(NamedTuple):
    name: str
    columns: list     # their names
    rows: list        # of the words of a row, as the file has them
    label: int        # the label's column; -1: there is none


def read_table(path, label):
    """A CSV file with a header line; or one of scikit-learn's, whose first line counts samples and names classes."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        head, *rows = [row for row in csv.reader(file) if row]
    is_counted = head[0] == str(len(rows)) and len(head) != len(rows[0])
    is_header = not is_counted and not all(re.fullmatch(r"[-+.0-9eE]+", word) for word in head)
    columns = head if is_header else [str(number) for number in range(1, len(rows[0]) + 1)]
    rows = rows if is_header or is_counted else [head, *rows]
    if label is not None:
        at = columns.index(label) if label in columns else int(label) - 1
    else:
        at = len(columns) - 1 if is_counted else -1
    return Table(pathlib.Path(path).stem, columns, rows, at)


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="./run example tables", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE",
                        help="tables of your own (CSV with a header line); without one iris, wine, breast cancer, cars")
    parser.add_argument("--problem", choices=PROBLEMS, default="kpca")
    parser.add_argument("--label", help="the label's column, by name or number from 1: what logistic and least_squares "
                        "learn; kpca leaves it out")
    parser.add_argument("--cols", type=int, default=2, help="columns of the model of kpca (default 2)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the run, such as "
                        "step_size=0.01, to compare")
    arguments = parser.parse_args(words)
    demo_run.check_ranges(parser, arguments, (("cols", 1, 64), ("rounds", 1, 10**5)))
    if arguments.problem != "kpca" and not arguments.files:
        parser.error(f"--problem {arguments.problem} needs a FILE, and --label where its first line counts no samples")
    for path in arguments.files:
        if not path.is_file():
            parser.error(f"{path} is no file: name a table in CSV")
    return arguments


# ---- What is exact ----

class Exact:
    """The loss of a problem over all rows, and its least value. z: rows in the run's units, a label last."""

    def __init__(self, problem, z, cols):
        self.problem = problem
        self.z = z
        self.a, self.y = z[:, :-1], z[:, -1]
        self.best = {"kpca": self.best_kpca, "least_squares": self.best_squares, "logistic": self.best_logistic}[
            problem](cols)

    def loss(self, model):
        if self.problem == "kpca":
            return -np.square(self.z @ model).sum() / (2 * len(self.z))
        if self.problem == "least_squares":
            return np.square(self.a @ model[:, 0] - self.y).mean() / 2
        return self.log_loss(model)

    def log_loss(self, model):
        scores = self.a @ model
        if model.shape[1] == 1:
            return (np.logaddexp(0, scores[:, 0]) - self.y * scores[:, 0]).mean()
        top = scores.max(axis=1)
        sums = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return (sums - scores[np.arange(len(self.y)), self.y.astype(int)]).mean()

    def best_kpca(self, cols):
        return -np.linalg.eigvalsh(self.z.T @ self.z / len(self.z))[-cols:].sum() / 2

    def best_squares(self, _):
        model = np.linalg.lstsq(self.a, self.y, rcond=None)[0]
        return self.loss(model[:, None])

    def best_logistic(self, cols):
        """Newton's method with half steps back; classes that a plane tells apart have no best point, and 0."""
        model = np.zeros((self.a.shape[1], cols))
        for _ in range(NEWTON_STEPS_MAX):
            change = self.newton_step(model)
            size = 1.0
            while self.loss(model - size * change) > self.loss(model) and size > 1e-8:
                size /= 2
            model = model - size * change
        return self.loss(model)

    def newton_step(self, model):
        d, k = model.shape
        scores = self.a @ model
        if k == 1:
            p = np.exp(-np.logaddexp(0, -scores))
            slope, curves = p - self.y[:, None], (p * (1 - p))[:, :, None]
        else:
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            slope = p - np.eye(k)[self.y.astype(int)]
            curves = p[:, :, None] * np.eye(k) - p[:, :, None] * p[:, None, :]
        n = len(self.a)
        hessian = np.einsum("na,nij,nb->aibj", self.a, curves, self.a).reshape(d * k, d * k) / n
        gradient = (self.a.T @ slope / n).reshape(d * k)
        return np.linalg.lstsq(hessian + 1e-9 * np.eye(d * k), gradient, rcond=None)[0].reshape(d, k)

    def gap(self, model, first):
        whole = abs(self.best) if self.problem == "kpca" else self.loss(first) - self.best
        return (self.loss(model) - self.best) / whole


def in_units(z, keys, problem):
    """The rows in the units that a run with these keys takes out of them (docs/wire.md)."""
    z = z.astype(np.float64)
    count = z.shape[1] - (problem == "logistic")
    columns = z[:, :count]
    mean = columns.mean(axis=0)
    variance = np.square(columns - mean).mean(axis=0)
    factor = np.ones(count)
    scale = keys.get("scale", "none")
    if scale == "common" and variance.sum() > 0:
        factor[:] = 1 / np.sqrt(variance.sum())
    elif scale in ("deviation", "range"):
        spread = np.sqrt(variance) if scale == "deviation" else np.ptp(columns, axis=0)
        factor = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 1)
    if keys.get("centre", "none") == "none":
        mean = np.zeros(count)
    elif problem != "kpca":
        mean = np.where(variance > 0, mean, 0)  # a column of ones goes on to be an intercept
    z[:, :count] = (columns - mean) * factor
    return z


# ---- A run ----

class TableRun:
    """One table's run: its folder, its processes, and what they end with."""

    def __init__(self, arguments, table):
        self.arguments = arguments
        self.table = table
        self.home = HOME / f"{table.name}_{arguments.problem}"
        self.config = self.home / "run.toml"
        self.port = fleet.free_port()
        self.processes = []

    def kept_columns(self):
        """Columns of a sample: without the label for kpca, else with the label last."""
        features = [at for at in range(len(self.table.columns)) if at != self.table.label]
        return features if self.arguments.problem == "kpca" else [*features, self.table.label]

    def check_words(self, kept):
        """Names what is no number, and a table of too few rows for the devices."""
        table = self.table
        if len(table.rows) < DEVICES:
            raise demo_run.Failure(f"{table.name} has {len(table.rows)} rows, and {DEVICES} devices need one each at "
                                   "least: name a table with more")
        for number, row in enumerate(table.rows, 1):
            for at in kept:
                word = row[at] if at < len(row) else ""
                try:
                    float(word)
                except ValueError:
                    raise demo_run.Failure(f"{table.name}, sample {number}, column {at + 1} ({table.columns[at]}): "
                                           f"`{word}` is no number; mend the row, or leave the column out") from None

    def write_files(self):
        """device0.csv .. as the table has its words; and the same rows as numbers."""
        kept = self.kept_columns()
        self.check_words(kept)
        key = max(self.table.label, 0)
        rows = sorted(self.table.rows, key=lambda row: float(row[key]))
        ends = [len(rows) * device // DEVICES for device in range(DEVICES + 1)]
        parts = [rows[begin:end] for begin, end in zip(ends, ends[1:])]
        for device, part in enumerate(parts):
            with open(self.home / f"device{device}.csv", "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([[row[at] for at in kept] for row in part])
        return np.array([[float(row[at]) for at in kept] for row in rows]).astype(np.float32)

    def sizes(self, z):
        """The size of the model: the keys of [run] that say it."""
        if self.arguments.problem == "kpca":
            return {"rows": z.shape[1], "cols": self.arguments.cols}
        classes = len(set(z[:, -1])) if self.arguments.problem == "logistic" else 2
        return {"manifold": "euclidean", "rows": z.shape[1] - 1, "cols": 1 if classes == 2 else classes}

    def write_config(self, sizes):
        run = {"name": self.table.name, "problem": self.arguments.problem, **sizes, "device_count": DEVICES}
        # Of time alone: on one machine a version lasts milliseconds.
        pace = {"retry_min_ms": 5, "retry_max_ms": 15, "round_count": self.arguments.rounds}
        keys = run | pace
        lines = ["[server]", f'listen = "127.0.0.1:{self.port}"', f'database = "{self.home}/run.db"', "[server.limits]",
                 "store_delay_ms = 1", "[run]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()),
                 *(text.replace("=", " = ", 1) for text in self.arguments.set)]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def keys(self):
        """The run's keys as the server takes them, with its defaults."""
        text = fleet.command([fleet.SERVER, "serve", "--config", self.config, "--print-config"], "reading the run")
        return dict(re.findall(r'^(\w+) = "?([^"#\n]*?)"?\s*(?:#.*)?$', text, re.M))

    def start(self):
        files = [self.home / f"device{device}.csv" for device in range(DEVICES)]
        fleet.command([fleet.SERVER, "data", "pack", *files, "--out-folder", self.home, "--header", "no"], "packing")
        names = self.home / "names.csv"
        names.write_text("".join(f"device{device}\n" for device in range(DEVICES)), encoding="ascii")
        server = fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config", self.config])
        self.processes.append(server)
        if server.wait_for_line("event=listening", START_SECONDS) is None:
            raise demo_run.Failure("the server does not listen; its last lines:\n" + "\n".join(server.lines))
        fleet.command([fleet.SERVER, "device", "import", names, "--config", self.config, "--out-folder", self.home],
                      "enrolling the devices")
        for device in range(DEVICES):
            words = [fleet.CLIENT, "--server", f"127.0.0.1:{self.port}", "--identity",
                     self.home / f"device{device}.identity", "--data", self.home / f"device{device}.gsd", "--problem",
                     self.arguments.problem, "--retry-ms", 100, "--state", "none", "--no-floors",
                     "--until-finished"]
            self.processes.append(fleet.Process(f"device{device}", words))

    def wait(self):
        """The devices' closing lines; None where the run stands still."""
        seen, is_stalled, deadline = 0, False, time.monotonic() + STALL_SECONDS
        while time.monotonic() < deadline:
            if self.processes[1].wait_for_line("event=finished", 0.5) is not None:
                ends = [device.wait_for_line("event=finished", STALL_SECONDS) for device in self.processes[1:]]
                return None if None in ends else [fleet.fields(end) for end in ends]
            events = [line for line in self.processes[0].lines if re.search("event=(round_closed|run_stalled)", line)]
            count = sum("event=round_closed" in line for line in events)
            stalled = bool(events) and "event=run_stalled" in events[-1]
            if count > seen or stalled != is_stalled:
                seen, is_stalled = count, stalled
                deadline = time.monotonic() + (STALLED_SECONDS if stalled else STALL_SECONDS)
        return None

    def model(self, version):
        path = self.home / f"model_{version}.npy"
        fleet.command([fleet.SERVER, "model", "export", "--config", self.config, "--version", version, "--out", path],
                      "exporting the model")
        return np.load(path).astype(np.float64)

    def why(self):
        """Lines of the server that say why a run stands still."""
        lines = self.processes[0].lines
        found = [line for line in lines if re.search("warning|refused|stalled|outlier|diverged", line)]
        return "\n".join(f"    {line}" for line in (found or lines)[-6:])

    def play(self):
        """(gap, count of digests); a gap of None: the run stands still."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        z = self.write_files()
        self.write_config(self.sizes(z))
        keys = self.keys()
        exact = Exact(self.arguments.problem, in_units(z, keys, self.arguments.problem), self.sizes(z)["cols"])
        self.start()
        ends = self.wait()
        units = f"centre={keys.get('centre', 'none')} scale={keys.get('scale', 'none')} step_size={keys['step_size']}"
        if ends is None:
            print(f"{self.table.name}: {units}: the run stands still:\n{self.why()}", flush=True)
            return None, 0
        gap = exact.gap(self.model("latest"), self.model(0))
        digests = len({(end["version"], end["digest"]) for end in ends})
        print(f"{self.table.name}: {units} versions={ends[0]['version']} gap={gap:.2e} digests={digests}", flush=True)
        return gap, digests

    def stop(self):
        for process in reversed(self.processes):
            process.stop()


def play(arguments):
    demo_run.build("none", "")
    begin = time.monotonic()
    if arguments.files:
        tables = [read_table(path, arguments.label) for path in arguments.files]
    else:
        tables = [read_table(DATA / f"{name}.csv", None) for name in ("iris", "wine_data", "breast_cancer", "cars")]
    checks, gaps = [], []
    for table in tables:
        run = TableRun(arguments, table)
        try:
            gap, digests = run.play()
        finally:
            run.stop()
        gaps.append("none" if gap is None else f"{gap:.2e}")
        checks.append((f"{table.name}: a gap of {gaps[-1]} is at most {GAP_MAX:g}, with one digest",
                       gap is not None and gap <= GAP_MAX and digests == 1))
    result = {"name": "tables", "problem": arguments.problem, "tables": ",".join(table.name for table in tables),
              "gap": ",".join(gaps), "seconds": f"{time.monotonic() - begin:.1f}"}
    return demo_run.end_with_result(result, checks)


def main(words):
    arguments = parse_arguments(words)
    return demo_run.guarded(HOME, lambda: play(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
