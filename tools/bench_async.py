"""./run bench async: a fleet of unequal speed, by rounds that wait for all and without rounds, to the same loss.

Sixteen native clients train PCA of Digits on iid shards, by TLS on 127.0.0.1. After each local step a client sleeps 1,
2, 4 or 8 units, which dominates what it computes. Synchronous: a version when all have answered. Asynchronous: a
version with every update, weighed alike however old. Both make the same single steps of minibatches, each at its own
best step from the grid that is printed. Throughput limits the speed-up to 2.31 for 5, 6 and 5 devices at 1:2:4, and to
3.75 for 4 each at 1:2:4:8.
"""

import argparse
import json
import os
import pathlib
import resource
import sys
import tempfile
import time

import numpy as np

import digits
import fleet

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
DEVICES = 16
RANK = 4
BATCH = 2
FLEETS = {"124": [1] * 5 + [2] * 6 + [4] * 5, "1248": [1] * 4 + [2] * 4 + [4] * 4 + [8] * 4}
SPEEDUP_MIN = {"124": 2.0, "1248": 3.0}
GRID = (0.2, 0.24, 0.28, 0.34, 0.4)  # step_size times the largest eigenvalue, of a round or of DEVICES updates
ROUNDS = 60
VERSIONS = 1000  # without rounds, at most
LOOK_SECONDS = 0.2
START_SECONDS_MAX = 30
RUN_SECONDS_MAX = 300
ASYNCHRONOUS = {"run.buffer_size": 1, "run.late": "weight", "run.staleness_table": "constant",
                "run.staleness_max": 64, "run.device_share_max": 1.0,
                "run.delay_rule": "asgd", "run.server_step": 1 / DEVICES,
                "run.retry_min_ms": 0, "run.retry_max_ms": 1}


class Failure(Exception):
    """What does not work, with the last lines of those who know."""


class Data:
    """Shards that are drawn from all classes, and the loss."""

    def __init__(self, home, seed):
        self.home, self.seed = home, seed
        pixels, mean = digits.load()
        pixels = pixels[np.random.RandomState(seed).permutation(len(pixels))]
        parts = np.array_split(pixels, DEVICES)
        self.exact = digits.ExactPca(parts, mean, RANK)
        for index, part in enumerate(parts):
            digits.write_shard(home / f"{index}.gsd", part, mean)


class Run:
    """One run over TLS."""

    def __init__(self, data, home, step, delays_ms, versions, settings):
        self.data, self.home, self.delays_ms, self.versions = data, home, delays_ms, versions
        home.mkdir()
        self.port = fleet.free_port()
        values = {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                  "server.export_dir": home, "run.seed": data.seed, "run.round_count": versions,
                  "run.device_count": DEVICES, "run.cols": RANK, "run.solver": "gradient_stream",
                  "run.estimator": "analytic_gradient", "run.correction_form": "none", "run.local_step_count": 1,
                  "run.batch_size": BATCH, "run.step_decay": 0, "run.step_size": step / data.exact.largest,
                  **settings}
        self.config = ["--config", CONFIG]
        for key, value in values.items():
            self.config += ["--set", f"{key}={value}"]
        self.server, self.clients, self.begin = None, [], 0.0
        self.points = {}  # of the curve, by file

    def play(self, is_enough):
        """Until the last version, or is_enough(curve)."""
        for index in range(DEVICES):
            fleet.command([fleet.SERVER, "device", "add", f"d{index}", *self.config, "--out",
                           self.home / f"{index}.identity"], "enrolling")
        fleet.command([fleet.SERVER, "run", "start", *self.config], "starting the run")
        try:
            self.start()
            deadline = time.monotonic() + RUN_SECONDS_MAX
            last = f"event=version version={self.versions} "  # its file is there
            while self.server.wait_for_line(last, LOOK_SECONDS) is None and not is_enough(self.curve()):
                if self.server.running and time.monotonic() < deadline:
                    continue
                raise Failure(f"no end, or none within {RUN_SECONDS_MAX} s; the server's last lines:\n" +
                              "\n".join(self.server.lines[-15:]))
        finally:
            for process in [*self.clients, *([self.server] if self.server else [])]:
                process.stop()

    def start(self):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *self.config])
        if self.server.wait_for_line("event=listening", START_SECONDS_MAX) is None:
            raise Failure("the server does not listen:\n" + "\n".join(self.server.lines))
        self.begin = time.time()
        for index, delay_ms in enumerate(self.delays_ms):
            self.clients.append(fleet.Process(f"d{index}", [
                fleet.CLIENT, "--server", f"127.0.0.1:{self.port}", "--identity", self.home / f"{index}.identity",
                "--data", self.data.home / f"{index}.gsd", "--state", "none", "--step-delay-ms", delay_ms,
                "--no-floors", "--until-finished"]))

    def refused(self):
        """Updates that were refused; raises Failure where a device never counted."""
        lines = fleet.command([fleet.SERVER, "status", "--format", "json", *self.config], "reading the updates")
        devices = [line for line in map(json.loads, lines.splitlines()) if "device" in line]
        absent = [line["device"] for line in devices if line["folded"] + line["late"] == 0]
        if len(devices) != DEVICES or absent:
            raise Failure(f"of {len(devices)} devices these never counted: {absent}")
        return sum(line["refused"] for line in devices)

    def path(self, version):
        return self.home / f"run1_v{version:06d}.npy"

    def model(self, version):
        return np.load(self.path(version)).astype(np.float64)

    def seconds_of(self, version):
        """Since the first client's start."""
        return self.path(version).stat().st_mtime - self.begin

    def last(self):
        """The newest version that has a file."""
        return max((int(path.stem[-6:]) for path in self.points), default=0)

    def round_to(self, gap):
        """The first version that has the gap; infinite: none."""
        for version in range(self.versions + 1):
            if self.path(version).exists() and self.data.exact.relative_gap(self.model(version)) <= gap:
                return version
        return np.inf

    def curve(self):
        """(seconds, relative gap) of the versions that have files: of those that become durable at once the last."""
        for path in sorted(self.home.glob("run1_v*.npy")):
            if path not in self.points:
                gap = self.data.exact.relative_gap(np.load(path).astype(np.float64))
                self.points[path] = (path.stat().st_mtime - self.begin, gap)
        return np.array(sorted(self.points.values())).reshape(-1, 2)


def seconds_to(curve, gap, hold):
    """When the gap is first reached, and its mean over the `hold` seconds from then on is below it too."""
    times, gaps = curve.T
    if len(times) == 0:
        return np.inf
    for begin in np.flatnonzero((gaps <= gap) & (times + hold <= times[-1])):
        if gaps[(times >= times[begin]) & (times < times[begin] + hold)].mean() <= gap:
            return times[begin]
    return np.inf


class Bench:
    """All runs of one call, and what they say."""

    def __init__(self, arguments, home):
        self.arguments, self.home = arguments, home
        self.data = []
        for seed in range(1, arguments.seeds + 1):
            (home / f"seed{seed}").mkdir()
            self.data.append(Data(home / f"seed{seed}", seed))
        self.run_count = 0

    def run(self, data, step, delays_ms, versions, settings, is_enough=lambda curve: False):
        self.run_count += 1
        run = Run(data, data.home / f"run{self.run_count}", step, delays_ms, versions, settings)
        begin, cpu = time.monotonic(), children_seconds()
        run.play(is_enough)
        print(f"    version {run.last()}, {time.monotonic() - begin:.1f} s, processor "
              f"{children_seconds() - cpu:.1f} s, updates_refused={run.refused()}", flush=True)
        return run

    def synchronous_step(self):
        """(step, the round of each seed in which it reaches the gap, those runs), of the step with the least rounds.

        Without delays: the model of a round is the same whoever is slow.
        """
        best = None
        for step in self.arguments.steps:
            runs = [self.run(data, step, [0] * DEVICES, ROUNDS, {}) for data in self.data]
            rounds = [run.round_to(self.arguments.gap) for run in runs]
            print(f"synchronous, step {step:g}/L: gap {self.arguments.gap:g} in rounds {rounds}", flush=True)
            if best is None or sum(rounds) < sum(best[1]):
                best = (step, rounds, runs)
        if np.inf in best[1]:
            raise Failure("no step of the grid gets there: is the gap below the floor of the minibatches?")
        return best

    def synchronous_seconds(self, name, chosen):
        step, rounds, undelayed = chosen
        delays_ms = [speed * self.arguments.unit_ms for speed in FLEETS[name]]
        seconds = []
        for data, last, calm in zip(self.data, rounds, undelayed):
            run = self.run(data, step, delays_ms, last, {})
            if not np.array_equal(run.model(last), calm.model(last)):
                raise Failure(f"round {last} has another model with delays than without")
            seconds.append(run.seconds_of(last))
        return seconds

    def asynchronous_seconds(self, name):
        """(step, seconds of each seed) of the fastest step."""
        delays_ms = [speed * self.arguments.unit_ms for speed in FLEETS[name]]
        best = None

        def reached(curve):
            return seconds_to(curve, self.arguments.gap, max(delays_ms) / 1000)

        for step in self.arguments.steps:
            seconds = [reached(self.run(data, step, delays_ms, VERSIONS, ASYNCHRONOUS,
                                        lambda curve: reached(curve) < np.inf).curve()) for data in self.data]
            print(f"asynchronous {name}, step {step:g}/L: gap {self.arguments.gap:g} in {texts(seconds)} s", flush=True)
            if best is None or sum(seconds) < sum(best[1]):
                best = (step, seconds)
        if np.inf in best[1]:
            raise Failure(f"without rounds no step of the grid gets there in {VERSIONS} versions")
        return best

    def speedup(self, name, chosen):
        synchronous = self.synchronous_seconds(name, chosen)
        step, asynchronous = self.asynchronous_seconds(name)
        ratio = sum(synchronous) / sum(asynchronous)
        print(f"delays {':'.join(name)}: synchronous, step {chosen[0]:g}/L, {texts(synchronous)} s; asynchronous, step "
              f"{step:g}/L, {texts(asynchronous)} s; speed-up {ratio:.2f}", flush=True)
        return ratio


def texts(values):
    return " ".join(f"{value:.2f}" for value in values)


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run bench async", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--unit-ms", type=int, default=100, help="delay of the fastest client's step (default 100)")
    parser.add_argument("--seeds", type=int, default=3, help="of data, model and minibatches; times are means")
    parser.add_argument("--steps", type=float, nargs="+", default=GRID, metavar="STEP",
                        help="that each way chooses from, times the largest eigenvalue (default " +
                        " ".join(f"{step:g}" for step in GRID) + ")")
    parser.add_argument("--gap", type=float, default=0.02, help="relative, to the exact PCA (default 0.02)")
    parser.add_argument("--fleet", choices=FLEETS, action="append", help="only this one")
    parser.add_argument("--speedup-min", type=float, help="instead of " + " and ".join(
        f"{least:g} for {name}" for name, least in SPEEDUP_MIN.items()))
    arguments = parser.parse_args()
    for step in arguments.steps:
        if not 0 < step <= 1:
            parser.error(f"--steps takes numbers above 0 and at most 1, not {step:g}")
    for name, low, high in (("unit_ms", 1, 10000), ("seeds", 1, 20), ("gap", 1e-6, 0.5)):
        if not low <= getattr(arguments, name) <= high:
            parser.error(f"--{name.replace('_', '-')} takes {low:g} to {high:g}, not {getattr(arguments, name):g}")
    return arguments


def main():
    arguments = parse_arguments()
    if "GS_BUILD_DIR" not in os.environ:  # else a test, whose tree is built
        fleet.build("dev", "gradstream", "gradstream-client")
    begin = time.monotonic()
    names = arguments.fleet or list(FLEETS)
    try:
        with tempfile.TemporaryDirectory(prefix="gradstream-async-", dir=os.environ.get("TMPDIR")) as home:
            bench = Bench(arguments, pathlib.Path(home))
            chosen = bench.synchronous_step()
            ratios = {name: bench.speedup(name, chosen) for name in names}
    except (Failure, RuntimeError) as failure:
        print(f"async: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"{bench.run_count} runs, {time.monotonic() - begin:.0f} s")
    print("result: " + " ".join(f"speedup_{name}={ratio:.2f}" for name, ratio in ratios.items()))
    return 0 if all(ratio >= (arguments.speedup_min or SPEEDUP_MIN[name]) for name, ratio in ratios.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
