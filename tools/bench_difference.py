"""./run bench difference: what float32 does to the scalars of estimator (7), s = (f(x+) - f(x)) / mu, of k-PCA.

Four ways to compute a scalar at the same points, each in float32 and in the runtime's order of operations, against
double: the difference of two losses (what runtime/training/estimator_projection.cc does), the sum of the differences of
each sample's losses, the same from differences of products (q.(p+ + p), q = z'(x+ - x)), and, as the bound of them all,
exact arithmetic at the rounded point x+. Beside them what the estimate owes to its own terms, in double: the smoothing
(against the derivative along the direction) and the minibatch (against all samples). All are root mean squares over
directions of +-1, as a part of the scalar's.
"""

import argparse
import csv
import sys

import numpy as np

import digits
import fleet

SINGLE = np.float32
LANES = 4  # LossSum in runtime/problem/problem.h
COLUMNS = 4
USUAL_SMOOTHING = 1e-2  # of the demo
ROUNDING_MAX = 1e-3     # of the error of two losses, there, in units of the smoothing's: else the form would matter


def iris():
    with open(fleet.ROOT / "experiments" / "data" / "iris.csv", encoding="ascii") as file:
        rows = list(csv.reader(file))[1:]
    values = np.array([[float(value) for value in row[:4]] for row in rows])
    return values - values.mean(axis=0)


def polar(matrix):
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


def products(samples, x):
    """z'x of each sample, row by row of x as runtime/problem/kpca.cc."""
    sums = np.zeros((len(samples), x.shape[1]), SINGLE)
    for row in range(x.shape[0]):
        sums += samples[:, row:row + 1] * x[row]
    return sums


def dots(a, b):
    """Of each sample, column by column."""
    sums = np.zeros(len(a), SINGLE)
    for column in range(a.shape[1]):
        sums += a[:, column] * b[:, column]
    return sums


def mean(values):
    sums = np.zeros(LANES, SINGLE)
    for begin in range(0, len(values), LANES):
        part = values[begin:begin + LANES]
        sums[:len(part)] += part
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) / SINGLE(len(values))


def exact(samples, plus, x, smoothing):
    samples = samples.astype(float)
    return -0.5 * np.mean(((samples @ plus) ** 2 - (samples @ x) ** 2).sum(axis=1)) / smoothing


def derivative(samples, x, direction):
    """Along the direction's tangent part, which is where P_M takes x + mu u for a small mu."""
    inner = x.T @ direction
    tangent = direction - x @ (inner + inner.T) / 2
    return -np.mean(((samples @ x) * (samples @ tangent)).sum(axis=1))


def errors(data, x, direction, batch, smoothing):
    """(scalar, {what: its error})."""
    samples, base = data[batch].astype(SINGLE), x.astype(SINGLE)
    start, mu, half = base.astype(float), SINGLE(smoothing), SINGLE(-0.5)
    displaced = polar(start + smoothing * direction)
    plus = displaced.astype(SINGLE)
    at_plus, at_base, moved = products(samples, plus), products(samples, base), products(samples, plus - base)
    losses = [half * mean(dots(p, p)) for p in (at_plus, at_base)]
    by_samples = half * mean(dots(at_plus, at_plus) - dots(at_base, at_base))
    by_products = half * mean(dots(moved, at_plus + at_base))
    ideal, at_float = exact(samples, displaced, start, smoothing), exact(samples, plus.astype(float), start, smoothing)
    smoothed = exact(data[batch], polar(x + smoothing * direction), x, smoothing)
    return ideal, {
        "losses": (losses[0] - losses[1]) / mu - ideal, "samples": by_samples / mu - ideal,
        "products": by_products / mu - ideal, "point": at_float - ideal,
        "smoothing": smoothed - derivative(data[batch], x, direction),
        "batch": smoothed - exact(data, polar(x + smoothing * direction), x, smoothing)}


def row(data, rank, batch_size, smoothing, is_optimum, draws, source):
    scalars, found = [], {}
    optimum = np.linalg.eigh(data.T @ data)[1][:, -rank:]
    for _ in range(draws):
        x = optimum if is_optimum else polar(source.standard_normal((data.shape[1], rank)))
        direction = source.choice([-1.0, 1.0], size=x.shape)
        batch = source.choice(len(data), batch_size, replace=False)
        scalar, of_draw = errors(data, x, direction, batch, smoothing)
        scalars.append(scalar)
        for what, error in of_draw.items():
            found.setdefault(what, []).append(float(error))
    size = np.sqrt(np.mean(np.square(scalars)))
    return {what: np.sqrt(np.mean(np.square(values))) / size for what, values in found.items()}


def main():
    parser = argparse.ArgumentParser(prog="./run bench difference", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=100, help="points and directions of a row")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    source = np.random.default_rng(arguments.seed)
    pixels = digits.load()[0] / 16.0
    names = ("losses", "samples", "products", "point", "smoothing", "batch")
    print("data    rank  mu     at       " + " ".join(f"{name:>10}" for name in names))
    worst = 0.0
    for name, data, rank in (("iris", iris(), 2), ("digits", pixels - pixels.mean(axis=0), COLUMNS)):
        for smoothing in (USUAL_SMOOTHING, 1e-3, 1e-4):
            for is_optimum in (False, True):
                found = row(data, rank, arguments.batch, smoothing, is_optimum, arguments.draws, source)
                worst = max(worst, found["losses"] / found["smoothing"]) if smoothing == USUAL_SMOOTHING else worst
                print(f"{name:7} {rank:4}  {smoothing:<6g} {'optimum' if is_optimum else 'start':8} "
                      + " ".join(f"{found[what]:10.1e}" for what in names), flush=True)
    print(f"result: draws={arguments.draws} batch={arguments.batch} losses_over_smoothing_max={worst:.1e}")
    return 0 if worst < ROUNDING_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
