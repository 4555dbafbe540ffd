"""simulate() in virtual time: samples, losses and aggregations of the user's under the simulator's schedules."""

import pathlib
import signal
import tempfile
import unittest

import numpy
from module_support import gradstream, samples

SHARDS = [samples(seed, 24) for seed in range(4)]
DIRECTION = numpy.array([0.8, 0.6, 0, 0])
ROUNDS = 8
GRADIENTS = {"stream": "tangent", "step_size": 0.2}


def loss(x, rows):
    return -0.5 * numpy.mean((rows @ x) ** 2)


def grad(x, rows):
    return -rows.T @ (rows @ x) / len(rows)


def mean(x, updates):
    weights = [update.weight for update in updates]
    return numpy.average([update.values for update in updates], axis=0, weights=weights)


def median(x, updates):
    return numpy.median([update.values for update in updates], axis=0)


def play(**options):
    return gradstream.simulate(SHARDS, clock="virtual", **{"rounds": ROUNDS, "seed": 3, **options})


def cosine(run):
    return abs(run["model"][:, 0] @ DIRECTION)


class Losses(unittest.TestCase):
    def test_one_seed_is_one_digest_whatever_goes_wrong(self):
        for more in ({"loss": loss, "step_size": 0.1}, {"loss": loss, "grad": grad, **GRADIENTS}):
            calm = play(**more)
            self.assertEqual((calm["version"], calm["broken"], calm["lineage"]), (ROUNDS, 0, "replayable"))
            self.assertEqual(calm["model"].shape, (4, 1))
            stormy = play(**more, faults="all", schedules=3)
            self.assertEqual((stormy["digest"], stormy["digests"], stormy["broken"]), (calm["digest"], 1, 0))
            self.assertGreater(sum(stormy[name] for name in ("loss", "delay", "device_crash")), 0)
            self.assertNotEqual(play(**more, seed=4)["digest"], calm["digest"])
        self.assertGreater(cosine(play(loss=loss, grad=grad, **{**GRADIENTS, "rounds": 40})), 0.99)

    def test_stragglers(self):
        found = [play(loss=loss, stragglers=True, schedules=2, faults="delay,loss") for _ in range(2)]
        for run in found:
            run.pop("model")
        self.assertEqual(found[0], found[1], "the same seed, twice")
        self.assertEqual(found[0]["broken"], 0)

    def test_a_loss_of_the_library_over_shards(self):
        own, known = play(loss=loss, grad=grad, **GRADIENTS), play(loss="kpca", **GRADIENTS)
        numpy.testing.assert_allclose(own["model"], known["model"], atol=1e-4)
        self.assertEqual(play(**GRADIENTS)["digest"], known["digest"], "kpca is the default")

    def test_the_digest_is_that_of_the_program(self):
        options = {"devices": 5, "rounds": 8, "seed": 3, "stream": "tangent", "faults": "delay,loss"}
        program = gradstream.simulate(**options)
        here = gradstream.simulate(clock="virtual", loss="kpca", **options)
        self.assertEqual({name: here[name] for name in program}, program)
        self.assertEqual(here["model"].shape, (16, 2))

    def test_what_a_loss_raises_ends_it(self):
        def broken(x, rows):
            raise KeyError("no such column")

        def interrupted(x, rows):
            signal.raise_signal(signal.SIGINT)
            return 0.0
        with self.assertRaisesRegex(KeyError, "no such column"):
            play(loss=broken)
        with self.assertRaises(KeyboardInterrupt):
            play(loss=interrupted)
        with self.assertRaisesRegex(ValueError, r"shape \(2,\): give one of \(4, 1\)"):
            play(loss=loss, grad=lambda x, rows: numpy.zeros(2), **GRADIENTS)
        with self.assertRaisesRegex(ValueError, "read-only"):
            play(loss=lambda x, rows: x.fill(0))


class Aggregations(unittest.TestCase):
    def test_the_mean_is_the_runs_own(self):
        ours, own = (play(loss=loss, grad=grad, **GRADIENTS, **more) for more in ({}, {"aggregate": mean}))
        numpy.testing.assert_allclose(own["model"], ours["model"], atol=1e-5)

    def test_it_is_marked_and_the_mark_stays(self):
        run = play(loss=loss, grad=grad, aggregate=median, **GRADIENTS)
        self.assertEqual(run["lineage"], "not replayable: the Python function median combined the updates")
        stormy = play(loss=loss, grad=grad, aggregate=median, faults="all", schedules=3, **GRADIENTS)
        self.assertEqual((stormy["digest"], stormy["digests"], stormy["broken"]), (run["digest"], 1, 0))
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, "robust.npz")
            gradstream.save_model(run, file)
            read = gradstream.read_model(file)
            self.assertEqual((str(read["lineage"]), str(read["digest"])), (run["lineage"], run["digest"]))
            numpy.testing.assert_array_equal(read["model"], run["model"])
            with self.assertRaisesRegex(gradstream.NotReplayable, "function median.*ends with .npz"):
                gradstream.save_model(read, file.with_suffix(".npy"))
            with self.assertRaisesRegex(gradstream.OptionError, "ends with .npz or .npy"):
                gradstream.save_model(run, file.with_suffix(".txt"))
            gradstream.save_model(play(), file.with_suffix(".npy"))
            self.assertEqual(gradstream.read_model(file.with_suffix(".npy"))["model"].shape, (4, 1))
            server = gradstream.Server(settings={"first_model": file}, problem="kpca", rows=4, cols=1, device_count=1)
            with self.assertRaisesRegex(gradstream.ProgramFailed, "robust.npz"):
                server.start()

    def test_what_it_gets(self):
        seen = []

        def look(x, updates):
            seen.append((x.copy(), updates))
            return mean(x, updates)
        play(loss=loss, grad=grad, aggregate=look, **GRADIENTS)
        x, updates = seen[0]
        self.assertEqual([update.device for update in updates], [0, 1, 2, 3])
        self.assertEqual({(update.base_version, update.steps_done) for update in updates}, {(0, 2)})
        for update in updates:
            self.assertEqual((update.weight, update.values.shape), (24, (4, 1)))
            self.assertLess(abs(float((x.T @ update.values)[0, 0])), 1e-5, "a tangent")

    def test_what_it_may_not_return(self):
        for made, words in ((lambda x, updates: [1.0], r"shape \(1,\): give one of \(4, 1\)"),
                            (lambda x, updates: x * numpy.nan, "version 0 has a value that is NaN")):
            with self.assertRaisesRegex(gradstream.OptionError, words):
                play(aggregate=made)


class Refusals(unittest.TestCase):
    def test_words(self):
        for words, options in (("give clock=.virtual.", {"clock": None, "aggregate": mean}),
                               ("clock is 'slow'", {"clock": "slow"}),
                               ("no_such is no option of the simulator and no key of a run", {"no_such": 3}),
                               ("manifold has no value 'cube'", {"manifold": "cube"}),
                               ("problem is 'kpcb': give a loss, or one of kpca", {"loss": "kpcb"}),
                               ("solver gradient_stream", {"aggregate": mean, "stream": "scalar"}),
                               ("no fault is called 'rain'", {"faults": "rain"})):
            with self.assertRaisesRegex(gradstream.OptionError, words):
                gradstream.simulate(SHARDS, **{"clock": "virtual", **options})
        bad = SHARDS[1].copy()
        bad[2, 1] = numpy.nan
        with self.assertRaisesRegex(gradstream.DataError, "shard 1 .from 0. has a value that is NaN"):
            gradstream.simulate([SHARDS[0], bad], clock="virtual")
        for words, more in (("goes with a loss of yours", {"grad": grad}), ("each shard is a device", {"devices": 4}),
                            ("takes no model of 5 rows", {"rows": 5}), ("centre", {"centre": "federated"})):
            with self.assertRaisesRegex(gradstream.OptionError, words):
                play(**more)
        with self.assertRaisesRegex(gradstream.OptionError, "wants shards"):
            gradstream.simulate(loss=loss, devices=3)
        with self.assertRaisesRegex(gradstream.OptionError, "shard 1 is 0"):
            gradstream.simulate([SHARDS[0], SHARDS[0][:0]], clock="virtual")


if __name__ == "__main__":
    unittest.main()
