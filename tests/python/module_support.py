"""The module of Python as the wheel has it, with the library and the programs of the build, for the tests here."""

import pathlib
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import package  # noqa: E402
import package_python  # noqa: E402

FOLDER = tempfile.TemporaryDirectory(prefix="gradstream-python-")
package_python.fill(pathlib.Path(FOLDER.name), package.run)
sys.path.insert(0, FOLDER.name)
import gradstream  # noqa: E402

SECONDS = 60
IDENTITY = "identity = a\nkey = " + "5a" * 32 + "\n"
ZEROTH_ORDER = {"solver": "projection", "estimator": "projection_one_sided", "direction_count": 4, "batch_size": 16,
                "local_step_count": 2, "step_size": 0.1, "smoothing": 0.01, "centre": "none", "scale": "none"}


def samples(seed, count=48):
    draw = numpy.random.default_rng(seed)
    return (draw.normal(size=(count, 1)) * [0.8, 0.6, 0, 0] + 0.1 * draw.normal(size=(count, 4))).astype("f4")


def kpca_loss(rows, has_gradient, **options):
    def f(x, indices):
        return -0.5 * numpy.mean((rows[indices] @ x) ** 2)

    def grad(x, indices):
        batch = rows[indices]
        return -batch.T @ (batch @ x) / len(batch)
    return gradstream.Loss(f, grad if has_gradient else None, shape=(4, 1), count=len(rows), **options)
