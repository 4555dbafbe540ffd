#!/usr/bin/python3
"""./run example tables on one table, and what it holds models against: exact solutions, units, tables as people have
them.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import example_tables as example  # noqa: E402  the tool under test

SECONDS_MAX = 100
KPCA_UNITS = {"centre": "federated", "scale": "common"}
DEVIATIONS = {"centre": "federated", "scale": "deviation"}


def check_units(z):
    assert np.array_equal(example.in_units(z, {}, "kpca"), z)
    common = example.in_units(z, KPCA_UNITS, "kpca")
    assert np.allclose(common.mean(axis=0), 0) and np.isclose(common.var(axis=0).sum(), 1)
    labelled = np.column_stack([z, np.ones(len(z)), np.arange(len(z)) % 3])  # an intercept, and classes
    units = example.in_units(labelled, DEVIATIONS, "logistic")
    assert np.allclose(units[:, :-2].std(axis=0), 1), "a deviation is not 1"
    assert np.array_equal(units[:, -2:], labelled[:, -2:]), "an intercept or a label has changed"


def check_exact(z, dice):
    """No point near the best one is better; of logistic that is all that can be said."""
    for problem, cols, labels in (("kpca", 2, z[:, 0]), ("least_squares", 1, z @ dice.normal(size=z.shape[1]) + 1),
                                  ("logistic", 1, dice.integers(0, 2, len(z))),
                                  ("logistic", 3, dice.integers(0, 3, len(z)))):
        rows = np.column_stack([z, labels]) if problem != "kpca" else z
        exact = example.Exact(problem, rows, cols)
        for _ in range(20):
            model = dice.normal(size=(z.shape[1], cols))
            if problem == "kpca":
                model, _ = np.linalg.qr(model)
            assert exact.loss(model) >= exact.best - 1e-9, f"{problem}: a random model is better than the best one"
    vectors = np.linalg.eigh(z.T @ z)[1][:, -2:]
    assert abs(example.Exact("kpca", z, 2).gap(vectors, None)) < 1e-9
    model = np.zeros((z.shape[1], 1))
    logistic = example.Exact("logistic", np.column_stack([z, dice.integers(0, 2, len(z))]), 1)
    for _ in range(50):
        model -= logistic.newton_step(model)
    assert abs(logistic.gap(model, np.zeros_like(model))) < 1e-6


def check_tables():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "own.csv"
        for text, columns, label, wanted in (("a,b,kind\n1,2,0\n3,4,1\n", ["a", "b", "kind"], "kind", 2),
                                             ("a,b,kind\n1,2,0\n3,4,1\n", ["a", "b", "kind"], None, -1),
                                             ("1,2,0\n3,4,1\n", ["1", "2", "3"], "2", 1),
                                             ("2,2,no,yes\n1,2,0\n3,4,1\n", ["1", "2", "3"], None, 2)):
            path.write_text(text, encoding="utf-8")
            table = example.read_table(path, label)
            assert (table.columns, table.rows, table.label) == (columns, [["1", "2", "0"], ["3", "4", "1"]], wanted)


def main():
    dice = np.random.default_rng(1)
    z = dice.normal(size=(60, 4)) * [1, 3, 0.2, 10] + [5, -2, 0, 100]
    check_units(z)
    check_exact(z - z.mean(axis=0), dice)
    check_tables()
    # The step by hand: 0.2 / L of this table.
    command = ["/usr/bin/python3", "-B", ROOT / "tools" / "example.py", "tables", ROOT / "experiments/data/iris.csv",
               "--rounds", "150", "--set", "step_size=0.01"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=SECONDS_MAX, check=False)
    print(done.stdout)
    assert done.returncode == 0, "the example does not hold"
    assert done.stdout.splitlines()[-1].startswith("result: name=tables problem=kpca tables=iris gap="), done.stdout


if __name__ == "__main__":
    main()
