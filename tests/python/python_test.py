"""The module of Python, as the wheel has it, with the library and the programs of the build.

Devices of one process train by losses in NumPy, with a gradient and without. They come to one digest with clients of
their own. The rest is files, history, the simulator, FederatedPCA, and what is refused. Printed is what a call of a
loss costs over an empty callback of ctypes.
"""

import contextlib
import csv
import io
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest

import numpy
from module_support import IDENTITY, SECONDS, ZEROTH_ORDER, gradstream, kpca_loss, package, samples

from gradstream import demo, library, loss  # noqa: E402  of the folder that module_support has filled


@contextlib.contextmanager
def fleet(make_problem, **run):
    """A server and three devices of one process that have trained."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(gradstream.Server(manifold="stiefel", rows=4, cols=1, device_count=3, **run))
        clients = [stack.enter_context(gradstream.Client(server.enrol(f"d{index}"), server.address, samples(index),
                                                         make_problem(samples(index)), floors=False))
                   for index in range(3)]
        gradstream.train(clients, seconds=SECONDS)
        yield server, clients


class Training(unittest.TestCase):
    def check_ends(self, clients, rounds):
        ends = [client.status() for client in clients]
        self.assertEqual(len({end.digest for end in ends}), 1)
        for end in ends:
            self.assertEqual((end.version, end.updates_folded, end.digest_mismatches), (rounds, rounds, 0))
        cosine = abs(clients[0].model()[:, 0] @ [0.8, 0.6, 0, 0])
        self.assertGreater(cosine, 0.99)
        return ends[0].digest

    def test_own_loss_without_gradient(self):
        with fleet(lambda rows: kpca_loss(rows, False, name="mine"), problem="mine", round_count=60,
                   **ZEROTH_ORDER) as (_, clients):
            self.check_ends(clients, 60)

    def test_own_loss_with_gradient_and_the_files(self):
        run = {**ZEROTH_ORDER, "solver": "gradient_stream", "estimator": "analytic_gradient"}
        del run["direction_count"], run["smoothing"]
        with fleet(lambda rows: kpca_loss(rows, True, name="mine"), problem="mine", round_count=30,
                   **run) as (server, clients):
            digest = self.check_ends(clients, 30)
            for source in (server.config, server.folder / "gradstream.db"):
                read = gradstream.read_model(source)
                self.assertEqual((str(read["digest"]), int(read["version"])), (digest, 30))
                numpy.testing.assert_array_equal(read["model"], clients[0].model())
                self.assertEqual(gradstream.history(source)["version"], list(range(31)))
            columns = gradstream.history(server.url)
            self.assertEqual((columns["version"], columns["folded"]), (list(range(1, 31)), [3] * 30))

    def test_devices_and_programs_have_one_digest(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(demo.main([]), 0, out.getvalue())
        self.assertIn(f"rounds={demo.ROUNDS} digests=1 ", out.getvalue())

    def test_shards_with_a_loss(self):
        shards = [samples(seed) for seed in range(3)]
        found = gradstream.simulate(shards, loss=lambda x, rows: -0.5 * numpy.mean((rows @ x) ** 2), floors=False,
                                    seconds=SECONDS, manifold="stiefel", round_count=60, **ZEROTH_ORDER)
        self.assertGreater(abs(found["model"][:, 0] @ [0.8, 0.6, 0, 0]), 0.99)
        self.assertEqual((found["version"], found["history"]["folded"][-1]), (60, 3))
        with self.assertRaisesRegex(ValueError, "same columns"):
            gradstream.simulate([shards[0], shards[1][:, :2]])

    def test_pca(self):
        shards = [samples(seed) for seed in range(3)]
        fitted = gradstream.FederatedPCA(1, rounds=60, floors=False, seconds=SECONDS).fit(shards)
        z = (numpy.concatenate(shards) - fitted.mean_) * fitted.scale_
        exact = numpy.linalg.svd(z, full_matrices=False)[2][0]
        self.assertGreater(abs(fitted.components_[0] @ exact), 0.98)
        self.assertEqual(fitted.transform(shards[0]).shape, (48, 1))
        self.assertEqual(fitted.inverse_transform(fitted.transform(shards[0])).shape, (48, 4))
        self.assertEqual(fitted.history_["folded"][-1], 3)
        self.assertRegex(fitted.digest_, "^[0-9a-f]{16}$")
        self.assertEqual(fitted.set_params(rounds=3).get_params()["rounds"], 3)

    def test_a_loss_that_raises_ends_the_training_with_its_error(self):
        def broken(x, indices):
            raise KeyError("no such column")
        with self.assertRaisesRegex(KeyError, "no such column"):
            with fleet(lambda rows: gradstream.Loss(broken, shape=(4, 1), count=48, name="mine"), problem="mine",
                       round_count=2, **ZEROTH_ORDER):
                pass


class Page(unittest.TestCase):
    def test_its_code_runs(self):
        """docs/python.md, block after block, as one program."""
        text = (package.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        blocks, names, out = re.findall(r"```python\n(.*?)```", text, re.S), {}, io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(out):
            numpy.savetxt("readings.txt", numpy.random.default_rng(1).normal(size=(100, 8)))
            pathlib.Path("kitchen.identity").write_text(IDENTITY, encoding="ascii")
            for block in blocks:
                exec(block, names)
        self.assertRegex(out.getvalue(), r"\[0, 3, 3, ")  # what each version folded
        self.assertEqual(names["coordinates"].shape, (200, 2))
        names["client"].close()


class Calls(unittest.TestCase):
    def test_what_the_loss_sees(self):
        seen = []

        def f(x, indices):
            seen.append((x.copy(), indices.copy()))
            return x.sum()
        with gradstream.Client(IDENTITY, "127.0.0.1:1", problem=gradstream.Loss(f, shape=(2, 3), count=9)) as client:
            x = numpy.arange(6, dtype="f4").reshape(2, 3)
            self.assertEqual(client.evaluate(x, count=4), 15)
            numpy.testing.assert_array_equal(seen[0][0], x)
            numpy.testing.assert_array_equal(seen[0][1], [0, 1, 2, 3])
            self.assertTrue(numpy.isnan(client.evaluate(x, count=10)))  # of nine samples
            self.assertEqual(len(seen), 1)
            for more in ({"count": 2**32 + 1}, {"times": 2**32 + 1}):
                with self.assertRaisesRegex(gradstream.OptionError, "4294967297: give a whole number from 1"):
                    client.evaluate(x, **more)

    def test_what_is_no_number_is_an_error(self):
        for said, error in ((None, TypeError), ("a", ValueError), (1j, TypeError), (numpy.ones(3), TypeError)):
            problem = gradstream.Loss(lambda x, indices, said=said: said, shape=(2, 1), count=3)
            with gradstream.Client(IDENTITY, "127.0.0.1:1", problem=problem) as client:
                with self.assertRaises(error):
                    client.evaluate(numpy.zeros((2, 1)))
                self.assertEqual(client.status().connected, False)
                client.poll()  # the error was told once

    def test_a_loss_leaves_its_device_alone(self):
        found = []

        def f(x, indices):
            for use in (client.close, client.poll):
                with self.assertRaisesRegex(RuntimeError, "called from inside"):
                    use()
            found.append(client.status().connected)
            return 1.0
        with gradstream.Client(IDENTITY, "127.0.0.1:1", problem=gradstream.Loss(f, shape=(2, 1), count=3)) as client:
            self.assertEqual(client.evaluate(numpy.zeros((2, 1))), 1)
        self.assertEqual(found, [False])

    def test_a_loss_does_not_wait_for_another_thread(self):
        """That thread may hold the other device, and wait for this loss to end."""
        words = []

        def f(x, indices):
            holder.start()
            is_held.wait(SECONDS)
            for use in (other.status, other.model, other.close):
                with self.assertRaisesRegex(RuntimeError, "that another thread is using") as caught:
                    use()
                words.append(str(caught.exception))
            is_done.set()
            return 1.0

        def hold():
            with other._lock:
                is_held.set()
                is_done.wait(SECONDS)
        is_held, is_done, holder = threading.Event(), threading.Event(), threading.Thread(target=hold)
        with gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1)) as other, \
                gradstream.Client(IDENTITY, "127.0.0.1:1", problem=gradstream.Loss(f, shape=(2, 1), count=3)) as client:
            client.evaluate(numpy.zeros((2, 1)))
            holder.join()
        self.assertEqual(len(words), 3)

    def test_a_loss_cannot_change_the_indices(self):
        def f(x, indices):
            indices[:] = 0
            return 1.0
        with gradstream.Client(IDENTITY, "127.0.0.1:1", problem=gradstream.Loss(f, shape=(2, 1), count=3)) as client:
            with self.assertRaisesRegex(ValueError, "read-only"):
                client.evaluate(numpy.zeros((2, 1)), count=3)

    def test_data_are_copied(self):
        rows = numpy.ones((4, 2), "f4")
        with gradstream.Client(IDENTITY, "127.0.0.1:1", rows) as client:
            self.assertFalse(numpy.shares_memory(client._data, rows))

    def test_a_gradient_of_another_shape_is_an_error(self):
        calls = loss.Calls(gradstream.Loss(lambda x, indices: 0.0, lambda x, indices: numpy.zeros(2), shape=(8, 2),
                                           count=3))
        with gradstream.Client(IDENTITY, "127.0.0.1:1", problem=gradstream.Loss(sum, shape=(8, 2), count=3)) as client:
            calls.show(client.handle)
            self.assertEqual(calls.gradient(2), 1)
        self.assertRegex(str(calls.failure), r"shape \(2,\): give one of \(8, 2\)")

    def test_what_a_call_costs(self):
        """Printed alone: ./run soak python compares both."""
        empty = library.LOSS(lambda count: 0.0)
        x, times = numpy.zeros((64, 4), "f4"), 20000
        problem = gradstream.Loss(lambda x, indices: 0.0, shape=x.shape, count=32)
        with gradstream.Client(IDENTITY, "127.0.0.1:1", problem=problem) as client:
            def seconds(call):
                """The least of nine: what disturbs only adds."""
                found = []
                for _ in range(9):
                    begin = time.process_time()
                    call()
                    found.append(time.process_time() - begin)
                return min(found) / times
            bare = seconds(lambda: library.LIBRARY.gs_py_call(empty, times))
            whole = seconds(lambda: client.evaluate(x, 32, times))
        print(f"python: a loss call {1e9 * whole:.0f} ns, an empty callback {1e9 * bare:.0f} ns, "
              f"ratio={whole / bare:.2f}")


class Files(unittest.TestCase):
    def test_shards(self):
        with tempfile.TemporaryDirectory() as folder:
            home, rows = pathlib.Path(folder), samples(1)
            gradstream.to_gsd(rows, home / "array.gsd")
            numpy.save(home / "table.npy", rows)
            with open(home / "table.csv", "w", encoding="ascii", newline="") as out:
                csv.writer(out).writerows(rows.tolist())
            for table in ("table.npy", "table.csv"):
                gradstream.to_gsd(home / table, home / "other.gsd")
                self.assertEqual((home / "other.gsd").read_bytes(), (home / "array.gsd").read_bytes(), table)
            content = (home / "array.gsd").read_bytes()
            self.assertEqual(content[:4], b"GSD2")
            numpy.testing.assert_array_equal(numpy.frombuffer(content[-rows.nbytes:], "<f4").reshape(rows.shape), rows)
            rows[3, 1] = numpy.nan
            with self.assertRaisesRegex(gradstream.ProgramFailed, "row 4"):
                gradstream.to_gsd(rows, home / "bad.gsd")
            with self.assertRaisesRegex(ValueError, "ends with .gsd"):
                gradstream.to_gsd(rows, home / "bad.csv")

    def test_simulation(self):
        said = subprocess.run([gradstream.program("gradstream-sim"), "--devices", "5", "--rounds", "8", "--seed", "3",
                               "--stream", "tangent"], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = gradstream.simulate(devices=5, rounds=8, seed=3, stream="tangent", verbose=False, clip=None)
        self.assertIn(f" digest={found['digest']} ", said.splitlines()[-1])
        self.assertEqual(found["broken"], 0)
        with self.assertRaisesRegex(gradstream.ProgramFailed, "no-such"):
            gradstream.simulate(no_such=3)


class Refusals(unittest.TestCase):
    def test_words(self):
        rows = samples(1)
        for words, arguments in (
                ("identity does not parse", ("identity = a\nkey = 5\n", "127.0.0.1:1", rows)),
                ("HOST:PORT", (IDENTITY, "127.0.0.1", rows)),
                ("server is of type NoneType", (IDENTITY, None, rows)),
                ("problem is of type NoneType", (IDENTITY, "127.0.0.1:1", rows, None)),
                ("no problem of this name", (IDENTITY, "127.0.0.1:1", rows, "kpcb")),
                ("1 to 15 characters", (IDENTITY, "127.0.0.1:1", rows, "k" * 16)),
                ("1 to 65,535 samples", (IDENTITY, "127.0.0.1:1", numpy.zeros((65536, 2)))),
                ("1 to 65,535 samples", (IDENTITY, "127.0.0.1:1", numpy.zeros((0, 2)))),
                ("NaN, infinite", (IDENTITY, "127.0.0.1:1", [[1, numpy.inf]])),
                ("1 dimensions", (IDENTITY, "127.0.0.1:1", [1, 2])),
                ("shape of the loss", (IDENTITY, "127.0.0.1:1", None,
                                       gradstream.Loss(sum, shape=(0, 1), count=1)))):
            with self.assertRaisesRegex(ValueError, words):
                gradstream.Client(*arguments)
        with self.assertRaises(FileNotFoundError):
            gradstream.Client("/no/such.identity", "127.0.0.1:1", rows)
        for words, more in (("run is -1", {"run": -1}), ("arena_bytes is 8589934592", {"arena_bytes": 8 << 30})):
            with self.assertRaisesRegex(ValueError, words):
                gradstream.Client(IDENTITY, "127.0.0.1:1", rows, **more)
        with self.assertRaisesRegex(ValueError, "larger than arena_bytes"):
            gradstream.Client(IDENTITY, "127.0.0.1:1", problem=gradstream.Loss(sum, shape=(32768, 32768), count=1))
        for words, arguments in (("give .rows, cols.", {"shape": (8,), "count": 1}),
                                 ("count is 65536", {"shape": (8, 1), "count": 65536})):
            with self.assertRaisesRegex(ValueError, words):
                gradstream.Loss(sum, **arguments)

    def test_a_configuration_of_somebody_else_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "gradstream.toml"
            config.write_text("[run]\n", encoding="utf-8")
            with self.assertRaisesRegex(FileExistsError, "another folder"):
                gradstream.Server(folder)
            self.assertEqual(config.read_text(encoding="utf-8"), "[run]\n")
            config.unlink()
            for _ in range(2):
                gradstream.Server(folder, name='a"b')

    def test_a_servers_ports_are_none_that_the_kernel_hands_out(self):
        """Else a program beside it may have one of them when the server comes to it."""
        begin, end = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        with tempfile.TemporaryDirectory() as folder:
            server = gradstream.Server(folder)
        ports = [int(address.rpartition(":")[2]) for address in (server.address, server.url)]
        self.assertNotEqual(*ports)
        if begin > 20000:  # a machine that hands out nearly all of them has none to spare
            self.assertFalse([port for port in ports if begin <= port <= end])

    def test_a_closed_client(self):
        client = gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1))
        self.assertEqual((client.model(), client.status().digest), (None, ""))
        self.assertEqual(repr(client), "<gradstream.Client a version=0 digest=none>")
        client.close()
        self.assertEqual(repr(client), "<gradstream.Client closed>")
        with self.assertRaisesRegex(ValueError, "closed"):
            client.poll()


if __name__ == "__main__":
    unittest.main()
