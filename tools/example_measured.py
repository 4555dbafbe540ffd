"""./run example measured: a loss that is measured. Three emulated boards train a point of the sphere by a noisy plant.

Each board has a plant behind a hardware timer: it answers x' A_i x and noise of deviation sigma, some time after the
question. The loss is the mean of the plants. How near the run comes to the best point is decided by that noise:

    q    = sigma^2 D / (2 m n mu^2)                     the noise of each number of the devices' mean estimate
    b    = sum_j  eta h_j / (2 - eta h_j (1 - 1/m))     what the directions themselves add
    gap  = sum_j  eta q / (1 - b/m) / (2 (2 - eta h_j (1 - 1/m)))

D numbers of a point, m directions, n devices, mu the smoothing, eta the step, h_j = 2 (lambda_j - lambda_1) the
curvatures at the best point. examples/measured/README.md derives it. The example holds where the mean gap of the last
rounds is within a factor of two of that, for each noise. All settings stand in examples/measured/run.toml.
"""

import argparse
import struct
import sys
import time
import tomllib

import numpy as np

import demo_run
import fleet

CONFIG = fleet.ROOT / "examples" / "measured" / "run.toml"
HOME = fleet.ROOT / "build" / "example_measured"
BOARD = "mps2-an386"
FACTOR_MAX = 2   # between measured and predicted gap, either way
PLANT_SEED = 3   # of the plants' matrices


def parse_arguments(words, settings):
    parser = argparse.ArgumentParser(prog="./run example measured", description=__doc__.split("\n\n", maxsplit=1)[0])
    own, run = settings["demo"], settings["run"]
    parser.add_argument("--noise", type=float, nargs="+", metavar="SIGMA", default=own["noises"],
                        help=f"deviations of the plants' noise, a run each (default {own['noises']})")
    parser.add_argument("--rounds", type=int, default=run["round_count"], metavar="R",
                        help=f"of each run; the gap is judged after round {own['settled_rounds']} "
                        f"(default {run['round_count']})")
    parser.add_argument("--seed", type=int, default=run["seed"], help="of directions, model and noise (default 1)")
    arguments = parser.parse_args(words)
    demo_run.check_ranges(parser, arguments, (("rounds", own["settled_rounds"] + 10, 10**5),
                                              ("seed", 0, demo_run.SEED_MAX)))
    if not all(0 < noise < 1 for noise in arguments.noise):
        parser.error(f"--noise takes numbers above 0 and below 1, not {arguments.noise}")
    if len(set(arguments.noise)) < len(arguments.noise):
        parser.error(f"--noise takes each number once, not {arguments.noise}")
    return arguments


def plants(own, count):
    """The boards' matrices, whose mean has the eigenvalues of the settings."""
    dice = np.random.default_rng(PLANT_SEED)
    size = len(own["eigenvalues"])
    basis, _ = np.linalg.qr(dice.normal(size=(size, size)))
    parts = own["own_scale"] * dice.normal(size=(count, size, size))
    parts = (parts + parts.transpose(0, 2, 1)) / 2
    return basis @ np.diag(own["eigenvalues"]) @ basis.T + parts - parts.mean(axis=0)


def predicted_gap(run, eigenvalues, noise):
    """The mean gap where noise and descent are in balance; the formula at this file's head."""
    m, eta = run["direction_count"], run["step_size"]
    h = 2 * (np.sort(eigenvalues)[1:] - min(eigenvalues))
    q = noise**2 * run["rows"] / (2 * m * run["device_count"] * run["smoothing"]**2)
    width = 2 - eta * h * (1 - 1 / m)
    return float(np.sum(eta * q / (1 - np.sum(eta * h / width) / m) / (2 * width)))


class MeasuredRun(demo_run.DemoRun):
    """One run, at one level of noise."""

    CONFIG = CONFIG
    HOME = HOME
    IMAGE = "gradstream_client_measured_emulator"

    def __init__(self, arguments, settings, noise):
        super().__init__(arguments, settings["run"]["device_count"])
        self.home = HOME / f"noise_{noise:g}"
        self.own = settings["demo"]
        self.noise = noise
        self.matrices = plants(self.own, self.count)
        self.mean = self.matrices.mean(axis=0)
        self.least = float(np.linalg.eigvalsh(self.mean)[0])
        self.gaps = []

    def name(self, index):
        return f"board-{index}"

    def device_command(self, index):
        image = fleet.ROOT / "build" / BOARD / "boards" / BOARD.replace("-", "_") / f"{self.IMAGE}.elf"
        return [fleet.ROOT / "tools" / "emulate.py", BOARD, "--image", image, "--server", f"127.0.0.1:{self.port}",
                "--identity", self.identity(index), "--shard", self.shard(index)]

    def overrides(self):
        return self.words_of({})

    def write_shard(self, index):
        """A shard of floats: the plant's matrix, then noise, time and seed."""
        size = len(self.mean)
        seed = (self.arguments.seed * self.count + index) % 2**24  # a float holds it
        settings = [self.noise, self.own["plant_time_ms"], seed] + [0] * (size - 3)
        rows = np.vstack([self.matrices[index], settings]).astype("<f4")
        self.shard(index).write_bytes(b"GSD2" + struct.pack("<3I", *rows.shape, 0) + rows.tobytes())

    def judge(self, version, model):
        x = model.ravel()
        self.gaps.append(float(x @ self.mean @ x - self.least))
        if version % 20 == 0:
            print(f"noise {self.noise:g}  round {version:4d}  gap {self.gaps[-1]:9.3e}", flush=True)

    def mean_gap(self):
        return float(np.mean(self.gaps[1 + self.own["settled_rounds"]:]))


def end_of(run, settings):
    """Follows a run that has started; (mean gap, predicted gap, digests at the end)."""
    run.watch()
    digests = run.digests(run.finish())
    predicted = predicted_gap(settings["run"], settings["demo"]["eigenvalues"], run.noise)
    print(f"noise {run.noise:g}: gap {run.mean_gap():.3e}, predicted {predicted:.3e}", flush=True)
    return run.mean_gap(), predicted, digests


def play(arguments, settings):
    """All runs, side by side, since their boards mostly wait; the exit status."""
    demo_run.build(BOARD, MeasuredRun.IMAGE)
    begin = time.monotonic()
    runs = []
    try:
        for index, noise in enumerate(arguments.noise):
            seed = (arguments.seed + index) % (demo_run.SEED_MAX + 1)  # each run has its own
            runs.append(MeasuredRun(argparse.Namespace(**vars(arguments) | {"seed": seed}), settings, noise))
            runs[-1].start()
        ends = [end_of(run, settings) for run in runs]
    finally:
        for run in runs:
            run.stop()
    checks = [(f"noise {noise:g}: the gap {gap:.3e} is within a factor {FACTOR_MAX} of the predicted {predicted:.3e}",
               predicted / FACTOR_MAX <= gap <= predicted * FACTOR_MAX)
              for noise, (gap, predicted, _) in zip(arguments.noise, ends)]
    digests = max(end[2] for end in ends)
    checks.append(("one digest on server and boards", digests == 1))
    gaps, predictions, _ = zip(*ends)
    result = {"name": "measured", "noise": ",".join(f"{noise:g}" for noise in arguments.noise),
              "gap": ",".join(f"{gap:.3e}" for gap in gaps),
              "predicted": ",".join(f"{gap:.3e}" for gap in predictions), "digests": digests,
              "seconds": f"{time.monotonic() - begin:.1f}"}
    return demo_run.end_with_result(result, checks)


def main(words):
    with open(CONFIG, "rb") as file:
        settings = tomllib.load(file)
    arguments = parse_arguments(words, settings)
    return demo_run.guarded(HOME, lambda: play(arguments, settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
