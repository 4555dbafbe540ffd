#!/usr/bin/python3
"""Makes the tables of six pumps: examples/vibration/make_data.py FOLDER [--seed N].

A window of a pump is a second of its vibration: 24 energies of bands in decibels, 8 bands of each of 3 axes. A healthy
pump varies in three ways, which are the same for all pumps: speed, load and temperature. Each column has a level of its
own, each axis a gain, each pump a place where it runs most. A fault of the bearing raises bands as no healthy way does.

    pump-1.csv .. pump-6.csv   healthy windows, 120 to 500 of them: what the pumps train on
    faulty.csv                 100 windows of a pump with the fault
    sensor.csv                 what the sensor of pump 6 measures: its table, 120 healthy windows more, the faulty ones

The numbers follow from the seed alone.
"""

import argparse
import csv
import math
import pathlib
import random

AXES = "xyz"
BANDS = 8
COLUMNS = len(AXES) * BANDS
WINDOWS = {"pump-1": 500, "pump-2": 420, "pump-3": 340, "pump-4": 260, "pump-5": 180, "pump-6": 120}
NEW_WINDOWS = 120             # healthy ones that the sensor of pump 6 measures after its table
FAULTY_WINDOWS = 100
WAYS = 3                      # of a healthy pump to vary
WAY_DEVIATIONS = (24, 18, 13)  # decibels, of a way over all columns together
PLACE_DEVIATION = 0.5         # of a pump's place, in deviations of a way
NOISE = 1.0                   # decibels, of a band
AXIS_GAINS = (1.0, 0.8, 1.2)
LEVELS = (-70, -20)           # decibels, of a column
FAULT = (6.0, 12.0)         # decibels over all columns together, the least and the most severe
DIGITS = 3                    # behind the point; a sensor of 16 bits has no more


def unit_vectors(dice, count):
    """So many orthogonal directions of COLUMNS numbers, by Gram and Schmidt."""
    found = []
    while len(found) < count:
        row = [dice.gauss(0, 1) for _ in range(COLUMNS)]
        for other in found:
            share = sum(a * b for a, b in zip(row, other))
            row = [a - share * b for a, b in zip(row, other)]
        length = math.sqrt(sum(a * a for a in row))
        found.append([a / length for a in row])
    return found


class Pumps:
    """What the pumps have in common, and the dice that their windows are drawn with."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.levels = [self.dice.uniform(*LEVELS) for _ in range(COLUMNS)]
        *self.ways, self.fault = unit_vectors(self.dice, WAYS + 1)

    def place(self):
        return [self.dice.gauss(0, PLACE_DEVIATION) for _ in range(WAYS)]

    def window(self, place, fault=0.0):
        """The 24 energies of a window; fault: its severity in decibels."""
        shares = [deviation * self.dice.gauss(middle, 1) for deviation, middle in zip(WAY_DEVIATIONS, place)]
        row = []
        for column in range(COLUMNS):
            value = sum(share * way[column] for share, way in zip(shares, self.ways))
            value += fault * self.fault[column] + self.dice.gauss(0, NOISE)
            row.append(self.levels[column] + AXIS_GAINS[column // BANDS] * value)
        return row


def write_table(path, rows):
    with open(path, "w", encoding="ascii", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(f"{axis}{band}" for axis in AXES for band in range(1, BANDS + 1))
        table.writerows([f"{value:.{DIGITS}f}" for value in row] for row in rows)


def write_all(folder, seed):
    folder.mkdir(parents=True, exist_ok=True)
    pumps = Pumps(seed)
    for name, count in WINDOWS.items():
        place = pumps.place()
        rows = [pumps.window(place) for _ in range(count)]
        write_table(folder / f"{name}.csv", rows)
    healthy = [pumps.window(place) for _ in range(NEW_WINDOWS)]
    faulty = [pumps.window(place, pumps.dice.uniform(*FAULT)) for _ in range(FAULTY_WINDOWS)]
    write_table(folder / "faulty.csv", faulty)
    write_table(folder / "sensor.csv", rows + healthy + faulty)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write_all(arguments.folder, arguments.seed)


if __name__ == "__main__":
    main()
