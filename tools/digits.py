"""The demo's data: the Digits set cut into one shard a device, and what is exact about it.

A shard holds the pixels as bytes (0..16) with a scale of 1/16 and the global mean, so that a device with 13 KB of flash
holds 200 samples (firmware/shard.h has the format). Sorted by class before the cut: each device sees about one digit.

Usage: tools/digits.py DEVICES FOLDER       writes FOLDER/0.gsd, 1.gsd, ...
"""

import gzip
import pathlib
import struct
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "experiments" / "data" / "digits.csv.gz"


def load():
    """Pixels (samples x 64, uint8) in order of class (stable), and the mean of pixels / 16."""
    with gzip.open(DATA, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    pixels, labels = table[:, :-1].astype(np.uint8), table[:, -1]
    order = np.argsort(labels, kind="stable")
    return pixels[order], (pixels / 16.0).mean(axis=0).astype(np.float32)


def rows():
    """Rows of 64 pixels / 16 and the class, as they stand in the file."""
    with gzip.open(DATA, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return np.column_stack([table[:, :-1] / 16.0, table[:, -1]])


def labelled():
    """The same in order of class."""
    table = rows()
    return table[np.argsort(table[:, -1], kind="stable")]


def shards(device_count):
    """One array of pixels a device, sizes as equal as possible."""
    pixels, mean = load()
    return np.array_split(pixels, device_count), mean


def write_shard(path, pixels, mean):
    """Shard file: magic, count, dimension, scale, mean, bytes; little-endian."""
    count, dimension = pixels.shape
    with open(path, "wb") as out:
        out.write(struct.pack("<4sIIf", b"GSD1", count, dimension, 1.0 / 16.0))
        out.write(mean.astype("<f4").tobytes())
        out.write(pixels.astype(np.uint8).tobytes())


class ExactPca:
    """The optimum of f(X) = -1/2 tr(X' C X) over St(n, p): the p leading directions of C.

    C is the mean of the devices' covariances: every device weighs the same (fold_weight = "uniform").
    """

    def __init__(self, parts, mean, rank):
        samples = [part.astype(np.float64) / 16.0 - mean.astype(np.float64) for part in parts]
        self.covariance = sum(part.T @ part / len(part) for part in samples) / len(samples)
        values, vectors = np.linalg.eigh(self.covariance)
        self.largest = float(values[-1])
        self.optimum = float(-0.5 * values[-rank:].sum())
        self.basis = vectors[:, -rank:]

    def relative_gap(self, model):
        """(f(X) - f*) / |f*|."""
        value = -0.5 * np.sum(model * (self.covariance @ model))
        return float((value - self.optimum) / abs(self.optimum))

    def largest_angle(self, model):
        """Largest principal angle between span(X) and the exact subspace, radians; accurate for small angles."""
        orthonormal, _ = np.linalg.qr(model)
        rest = orthonormal - self.basis @ (self.basis.T @ orthonormal)
        return float(np.arcsin(min(1.0, np.linalg.norm(rest, 2))))


def main():
    if len(sys.argv) != 3 or not sys.argv[1].isdigit() or not 1 <= int(sys.argv[1]) <= 1797:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    parts, mean = shards(int(sys.argv[1]))
    for index, pixels in enumerate(parts):
        write_shard(folder / f"{index}.gsd", pixels, mean)
    return 0


if __name__ == "__main__":
    sys.exit(main())
