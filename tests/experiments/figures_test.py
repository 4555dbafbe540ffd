#!/usr/bin/python3
"""docs/experiments.md begins with a table of every figure and table of the works: each has an experiment, or a reason.

A row is: work | figure or table | what it shows | experiment | state | verdict, or why not. State is `in full` (every
panel is computed and has a verdict), `in part`, `none`, or `no result` (a drawing, a list of letters).
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/experiments.md"
PAPERS = ROOT / "experiments/papers"
HEADING = "## Every figure and table of the works"

# What the works print. A figure with panels of different kinds has a row for each kind.
WANTED = {
    "000": ["fig. 1a-c", "fig. 1d-f", "fig. 2", "fig. 3", "table 1", "table 2"],
    "001": ["fig. 1", "fig. 2, 3, 4", "tables 1, 2"],
    "002": ["fig. 1a", "fig. 1b", "fig. 1c", "fig. 2", "fig. 3a, 4a, 5a", "fig. 3b, 4b, 5b", "fig. 3c/d, 4c/d, 5c/d",
            "fig. 6", "table 1"],
    "003": ["fig. 1", "fig. 2", "fig. 3", "fig. 4", "fig. 5", "fig. 6", "fig. 7", "fig. 8", "fig. 9", "table 1"],
    "004": ["fig. 1", "fig. 2", "fig. 3", "Q"],
    "later": ["MNIST: shares", "MNIST: biased weights", "MNIST: splits", "MNIST: K", "MNIST: four algorithms",
              "MNIST: lazy devices", "MNIST: decaying steps", "WordNet: three algorithms", "WordNet: ball and distance",
              "Stiefel, SPD and Grassmann"],
}
STATES = ("in full", "in part", "none", "no result")
VERDICTS = ("confirmed", "no claim")
REASON_WORDS_MIN = 3
NUMBERS = range(1, 17)  # X1 to X16


def section(text):
    start = text.index(HEADING)
    end = text.find("\n## ", start + 1)
    return text[start:end if end >= 0 else len(text)]


def rows_of(text):
    rows = []
    for line in section(text).splitlines():
        if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows[1:]  # without the heads of the columns


def registered(sources):
    return set(re.findall(r"const Experiment k\w+ = \{\s*\"(\w+)\"", sources))


def faults_of(text, names):
    """What is wrong with the table and the sections of this document, a sentence each."""
    faults = []
    seen = []
    rows = rows_of(text)
    for row in rows:
        if len(row) != 6:
            faults.append(f"{row[:2]} has {len(row)} columns, 6 are wanted")
            continue
        work, figure, _, experiment, state, last = row
        seen.append((work, figure))
        named = re.findall(r"\bX\d+\b|\b(?:d_zofl|completion|online)\b", experiment)
        what = f"{work} {figure}"
        faults += [f"{what} names {name}, which is no experiment" for name in named if name not in names]
        if state not in STATES:
            faults.append(f"{what} is '{state}', which is none of {', '.join(STATES)}")
        if state in ("in full", "in part") and not named:
            faults.append(f"{what} is {state} and names no experiment")
        if state == "in full" and not any(word in last for word in VERDICTS):
            faults.append(f"{what} is in full and has no verdict")
        if state != "in full" and len(last.split()) < REASON_WORDS_MIN:
            faults.append(f"{what} has no reason")
    wanted = [(work, figure) for work, figures in WANTED.items() for figure in figures]
    faults += [f"{work} {figure} has no row" for work, figure in wanted if (work, figure) not in seen]
    faults += [f"{work} {figure} has a row, but is no figure of the works" for work, figure in seen
               if (work, figure) not in wanted]
    faults += [f"{work} {figure} has more than one row" for work, figure in set(seen) if seen.count((work, figure)) > 1]
    for number in NUMBERS:
        name = f"X{number}"
        is_excused = any(row[3] == name and row[4] == "none" for row in rows if len(row) == 6)
        if name not in names and not is_excused:
            faults.append(f"{name} is no experiment, and no row says why")
        if name in names and not re.search(rf"^## {name}: ", text, re.MULTILINE):
            faults.append(f"{name} has no section")
    return faults


class Table(unittest.TestCase):
    def setUp(self):
        self.text = DOCUMENT.read_text()
        self.names = registered("".join(path.read_text() for path in sorted(PAPERS.glob("*.cc"))))

    def test_every_figure_has_an_experiment_or_a_reason(self):
        self.assertEqual(faults_of(self.text, self.names), [])

    def test_stands_first(self):
        self.assertEqual(re.findall(r"^## .*", self.text, re.MULTILINE)[0], HEADING)

    def planted(self, old, new, names=None):
        part = section(self.text)
        self.assertIn(old, part)
        text = self.text.replace(part, part.replace(old, new, 1))
        return " ".join(faults_of(text, self.names if names is None else names))

    def test_finds_what_is_planted(self):
        row = next(line for line in section(self.text).splitlines() if line.startswith("| 000 | fig. 2 |"))
        self.assertIn("000 fig. 2 has no row", self.planted(row + "\n", ""))
        self.assertIn("more than one row", self.planted(row + "\n", row + "\n" + row + "\n"))
        self.assertIn("names X99", self.planted("| X5 |", "| X99 |"))
        self.assertIn("names no experiment", self.planted("| X5 |", "| - |"))
        self.assertIn("no verdict", self.planted(row, "| 000 | fig. 2 | a | X5 | in full | good |"))
        self.assertIn("has no reason", self.planted(row, "| 000 | fig. 2 | a | X5 | in part | |"))
        self.assertIn("is 'nearly'", self.planted(row, "| 000 | fig. 2 | a | X5 | nearly | confirmed |"))
        self.assertIn("X5 is no experiment", self.planted(row, row, self.names - {"X5"}))


if __name__ == "__main__":
    sys.exit(unittest.main())
