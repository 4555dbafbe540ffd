#!/usr/bin/python3
"""./run example measured in its cheap form, one level of noise. Its formula, against the algorithm itself in numpy."""

import pathlib
import subprocess
import sys
import tomllib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import example_measured as example  # noqa: E402  the tool under test

ROUNDS = 100  # 50 of them are judged
SECONDS_MAX = 240
COMPUTED_ROUNDS = 2000  # of the check in numpy: its gap is known to some percent
FORMULA_ERROR_MAX = 0.1


def computed_gap(settings, noise, seed):
    """The mean gap of the algorithm itself, without boards: normals for noise, long after it has settled."""
    run, own = settings["run"], settings["demo"]
    n, m, mu, size = run["device_count"], run["direction_count"], run["smoothing"], run["rows"]
    matrices = example.plants(own, n)
    mean = matrices.mean(axis=0)
    values, vectors = np.linalg.eigh(mean)
    dice = np.random.default_rng(seed)
    x, gaps = vectors[:, 0], []
    for _ in range(COMPUTED_ROUNDS):
        u = dice.choice([-1, 1], size=(m, size)) / np.sqrt(size)
        losses = []
        for sign in (1, -1):
            points = x + sign * mu * u
            points /= np.linalg.norm(points, axis=1, keepdims=True)
            losses.append(np.einsum("ja,iab,jb->ij", points, matrices, points) + noise * dice.normal(size=(n, m)))
        scalars = (losses[0] - losses[1]).mean(axis=0) / (2 * mu)
        x = x - run["step_size"] * size / m * scalars @ u
        x /= np.linalg.norm(x)
        gaps.append(x @ mean @ x - values[0])
    return float(np.mean(gaps[200:]))


def main():
    with open(example.CONFIG, "rb") as file:
        settings = tomllib.load(file)
    for noise in settings["demo"]["noises"]:
        predicted = example.predicted_gap(settings["run"], settings["demo"]["eigenvalues"], noise)
        computed = computed_gap(settings, noise, 1)
        error = abs(computed / predicted - 1)
        print(f"noise {noise}: computed {computed:.3e}, predicted {predicted:.3e}")
        assert error < FORMULA_ERROR_MAX, f"the formula is off by {error:.0%}"
    command = ["/usr/bin/python3", "-B", ROOT / "tools" / "example.py", "measured"]
    done = subprocess.run([*command, "--noise", "0.04", "--rounds", str(ROUNDS)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX,
                          check=False)
    print(done.stdout)
    assert done.returncode == 0, "the example does not hold"
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("result: name=measured ") and " digests=1 " in last, last


if __name__ == "__main__":
    main()
