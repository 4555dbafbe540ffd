#!/usr/bin/python3
"""Networks as users bring them: `gradstream network show`, run.network, and gradstream-client --network.

    network_test.py PROGRAM CLIENT
"""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gsn  # noqa: E402  (the writer is a tool)

PROGRAM = None
CLIENT = None
SECONDS_MAX = 60
OK, USAGE, CONFIG, FROZEN, FILE = 0, 2, 3, 6, 8

CONFIG_TEXT = """
[server]
listen = "127.0.0.1:0"
database = "{home}/test.db"
[run]
name = "test"
problem = "network"
network = "{network}"
centre = "none"
scale = "none"
step_size = 0.1
manifold = "product"
parts = "euclidean 4x3, euclidean 3x1"
direction_count = 4
device_count = {devices}
round_count = 3
smoothing = 0.01
"""


def small_network(weight=0.5):
    """6 inputs, 4 frozen features, 3 classes that are trained."""
    return gsn.network((1, 1, 6), [
        gsn.dense(6, 4, [weight * (i % 5 - 2) for i in range(24)], [0.1] * 4, activation=gsn.RELU),
        gsn.dense(4, 3, trained=gsn.DENSE)])


def shard(samples=12):
    values = []
    for i in range(samples):
        values += [((i * 7 + j * 3) % 11) / 11 for j in range(6)] + [i % 3]
    return struct.pack("<4sIII", b"GSD2", samples, 7, 0) + struct.pack(f"<{len(values)}f", *values)


def run(*arguments):
    return subprocess.run([str(word) for word in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=SECONDS_MAX, check=False)


class Server:
    """`gradstream serve` until its port is known; lines of its log."""

    def __init__(self, config):
        self.child = subprocess.Popen([PROGRAM, "serve", "--create", "--config", config], stderr=subprocess.PIPE,
                                      text=True)
        self.lines = []
        self.port = int(re.search(r"port=(\d+)", self.wait_for("event=listening"))[1])

    def wait_for(self, text):
        watchdog = threading.Timer(SECONDS_MAX, self.child.kill)
        watchdog.start()
        try:
            for line in self.child.stderr:
                self.lines.append(line)
                if text in line:
                    return line
        finally:
            watchdog.cancel()
        raise AssertionError(f"no {text!r} in:\n" + "".join(self.lines))

    def stop(self):
        watchdog = threading.Timer(SECONDS_MAX, self.child.kill)
        watchdog.start()
        self.child.send_signal(signal.SIGTERM)
        self.lines += self.child.stderr.readlines()
        watchdog.cancel()
        self.child.stderr.close()
        return self.child.wait(SECONDS_MAX)


class Networks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.network = self.home / "head.gsn"
        self.network.write_bytes(small_network())

    def configure(self, network=None, devices=1, **keys):
        text = CONFIG_TEXT.format(home=self.home, network=network or self.network, devices=devices)
        for key, value in keys.items():
            text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.M)
            text += "" if count else f"{key} = {value}\n"
        path = self.home / "fleet.toml"
        path.write_text(text, encoding="utf-8")
        return path

    # ---- The verb ----

    def test_show_tells_what_the_file_holds(self):
        shown = run(PROGRAM, "network", "show", self.network)
        self.assertEqual(shown.returncode, OK, shown.stderr)
        digest = f"{gsn.digest(self.network.read_bytes()):016x}"
        for words in (f"digest={digest}", "input=1x1x6", "layers=2", "frozen_in_front=1", "scores=3", "trained=15",
                      "layer=0 kind=dense in=1x1x6 out=1x1x4 weights=24", "activation=relu",
                      "layer=1 kind=dense in=1x1x4 out=1x1x3 weights=12 biases=3 form=float trained=dense",
                      "batch=32", 'problem = "network"', f'network = "{self.network}"', 'manifold = "product"',
                      'parts = "euclidean 4x3, euclidean 3x1"'):
            self.assertIn(words, shown.stdout)
        lines = run(PROGRAM, "network", "show", self.network, "--format", "json", "--batch", 16).stdout.splitlines()
        objects = [json.loads(line) for line in lines]
        self.assertEqual(objects[0]["trained"], 15)
        self.assertEqual(objects[0]["digest"], digest)
        self.assertEqual(objects[1]["kind"], "dense")
        self.assertEqual(objects[-2]["batch"], 16)
        self.assertGreater(objects[-2]["arena"], 15 * 4)
        self.assertEqual(objects[-1]["parts"], "euclidean 4x3, euclidean 3x1")

    def test_show_refuses_with_layer_byte_value_limit_and_remedy(self):
        good = self.network.read_bytes()
        bad = self.home / "bad.gsn"
        bad.write_bytes(good[:-1])
        cut = run(PROGRAM, "network", "show", bad)
        self.assertEqual(cut.returncode, FILE)
        self.assertEqual(cut.stdout, "")
        self.assertIn(f"{bad}: byte 8: the size is {len(good)} bytes, and {len(good) - 1} are there", cut.stderr)
        self.assertIn("copy the file again", cut.stderr)
        bad.write_bytes(gsn.network((1, 1, 6), [gsn.dense(6, 4, [0.5] * 24), gsn.Layer(77)]))
        kind = run(PROGRAM, "network", "show", bad)
        self.assertEqual(kind.returncode, FILE)
        self.assertIn(f"{bad}: layer 1, byte 80: the kind is 77; known are 1 to 9", kind.stderr)
        bad.write_bytes(b"")
        self.assertIn("there are 0 bytes", run(PROGRAM, "network", "show", bad).stderr)
        for what, words in ((self.home / "none.gsn", "cannot be read"), (self.home, "is a folder")):
            refused = run(PROGRAM, "network", "show", what)
            self.assertEqual(refused.returncode, FILE, refused.stderr)
            self.assertIn(words, refused.stderr)
        self.assertEqual(run(PROGRAM, "network", "show").returncode, USAGE)
        self.assertEqual(run(PROGRAM, "network", "show", self.network, "--batch", 0).returncode, USAGE)

    def test_a_network_that_no_run_takes_is_refused_before_memory_is_taken(self):
        self.network.write_bytes(gsn.network((1, 1, 4096), [gsn.dense(4096, 4096, trained=gsn.DENSE)
                                                            for _ in range(64)]))
        self.assertLess(self.network.stat().st_size, 4096)
        shown = run(PROGRAM, "network", "show", self.network)
        self.assertEqual(shown.returncode, OK, shown.stderr)
        numbers = 64 * (4096 * 4096 + 4096)
        self.assertIn(f"no run takes a point of {numbers} numbers, and {1 << 24} are the most", shown.stdout)
        self.assertNotIn("parts = ", shown.stdout)
        self.enrol(self.configure(), "a")
        words = self.words("a", 9, "--network", self.network, "--once")
        (self.home / "data.gsd").write_bytes(struct.pack("<4sIII", b"GSD2", 1, 4097, 0) + bytes(4 * 4097))
        refused = run(*words)
        told = refused.stdout + refused.stderr
        self.assertEqual(refused.returncode, 6, told)
        self.assertIn(f"it trains {numbers} numbers, and a run takes {1 << 24} at most; train fewer layers", told)
        # Few numbers may take a large search as well.
        self.network.write_bytes(gsn.network((2048, 1024, 2), [
            gsn.Layer(6, (2048, 1024, 2)), gsn.dense(1 << 22, 2, trained=gsn.DENSE)]))
        shown = run(PROGRAM, "network", "show", self.network, "--batch", 4096, "--samples", 65535)
        self.assertEqual(shown.returncode, OK, shown.stderr)
        self.assertIn("batch=4096 samples=65535", shown.stdout)

    def test_show_says_where_a_product_has_no_room_for_the_parts(self):
        layers = []
        for _ in range(5):
            layers += [gsn.dense(6, 6, trained=gsn.FACTORED, rank=2)]
        self.network.write_bytes(gsn.network((1, 1, 6), layers))
        sentence = "the point has 10 parts, and a product has at most 8: factor fewer layers"
        shown = run(PROGRAM, "network", "show", self.network)
        self.assertEqual(shown.returncode, OK, shown.stderr)
        self.assertIn(sentence, shown.stdout)
        self.assertNotIn("parts = ", shown.stdout)
        shown = run(PROGRAM, "network", "show", self.network, "--format", "json")
        self.assertIn(sentence, json.loads(shown.stdout.splitlines()[-1])["note"])
        refused = run(PROGRAM, "serve", "--check-config", self.configure())
        self.assertEqual(refused.returncode, CONFIG)
        self.assertIn(sentence, refused.stderr)
        self.assertNotIn("set run.manifold", refused.stderr)

    def test_show_joins_parts_that_a_product_has_no_room_for(self):
        layers = [gsn.dense(6, 6, trained=gsn.DENSE) for _ in range(5)]
        self.network.write_bytes(gsn.network((1, 1, 6), layers))
        shown = run(PROGRAM, "network", "show", self.network)
        self.assertIn('parts = "euclidean 210x1"', shown.stdout)
        self.network.write_bytes(gsn.network((1, 1, 6), [
            gsn.dense(6, 5, trained=gsn.FACTORED, rank=2), gsn.dense(5, 3, trained=gsn.DENSE)]))
        shown = run(PROGRAM, "network", "show", self.network)
        self.assertIn('parts = "fixed_rank 6x5 2, euclidean 5x1, euclidean 5x3, euclidean 3x1"', shown.stdout)
        self.assertIn('board_note="an STM32F405 trains no factored layers: ', shown.stdout)

    # ---- A run ----

    def test_a_run_keeps_the_digest(self):
        config = self.configure()
        start = run(PROGRAM, "run", "start", "--config", config)
        self.assertEqual(start.returncode, OK, start.stderr)
        check = run(PROGRAM, "serve", "--check-config", config)
        self.assertEqual(check.returncode, OK, check.stderr)
        self.assertIn(f'network = "{self.network}"', check.stdout)
        digest = f"{gsn.digest(self.network.read_bytes()):016x}"
        # The file may go: nothing that reads the run asks for it, and its digest stands for it.
        self.network.unlink()
        self.assertEqual(run(PROGRAM, "status", "--config", config).returncode, OK)
        self.assertEqual(run(PROGRAM, "run", "list", "--config", config).returncode, OK)
        missing = run(PROGRAM, "serve", "--config", config)
        self.assertEqual(missing.returncode, FILE, missing.stderr)
        self.assertIn(f"run.network {self.network} cannot be read", missing.stderr)
        self.assertIn("digest", missing.stderr)
        server = Server(self.configure(network=digest))
        self.assertEqual(server.stop(), OK)
        # Another network is another run.
        self.network.write_bytes(small_network(0.25))
        changed = run(PROGRAM, "serve", "--config", self.configure())
        self.assertEqual(changed.returncode, FROZEN, changed.stderr)
        self.assertIn("run.network", changed.stderr)
        # New numbers of trained layers are the same network.
        self.network.write_bytes(gsn.network((1, 1, 6), [
            gsn.dense(6, 4, [0.5 * (i % 5 - 2) for i in range(24)], [0.1] * 4, activation=gsn.RELU),
            gsn.dense(4, 3, [1.0] * 12, trained=gsn.DENSE)]))
        server = Server(self.configure())
        self.assertEqual(server.stop(), OK)

    def first_model(self, config):
        """The numbers of version 0."""
        server = Server(config)
        server.wait_for("event=version")
        self.assertEqual(server.stop(), OK)
        out = self.home / "first.csv"
        done = run(PROGRAM, "model", "export", "--config", config, "--version", 0, "--format", "csv", "--out", out)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [float(word) for word in out.read_text().replace(",", " ").split()], server.lines

    def with_start(self, weights, biases=(0.5, 0, -0.5)):
        self.network.write_bytes(gsn.network((1, 1, 6), [
            gsn.dense(6, 4, [0.5] * 24), gsn.dense(4, 3, weights, biases, trained=gsn.DENSE)]))

    def test_a_run_begins_at_the_numbers_that_the_trained_layers_hold(self):
        start = [0.25 * i for i in range(12)]
        self.with_start(start)
        config = self.configure()
        self.enrol(config, "a")
        self.assertEqual(run(PROGRAM, "run", "start", "--config", config).returncode, OK)
        model, lines = self.first_model(config)
        self.assertEqual(model, [*start, 0.5, 0, -0.5])
        self.assertIn(f"event=first_model key=run.network file={self.network} numbers=15", "".join(lines))
        # A run that has a version keeps it.
        self.with_start([9.0] * 12)
        model, lines = self.first_model(config)
        self.assertEqual(model, [*start, 0.5, 0, -0.5])
        self.assertNotIn("event=first_model ", "".join(lines))

    def test_the_next_run_of_a_server_begins_at_what_the_file_then_holds(self):
        self.with_start([1.0] * 12)
        config = self.configure()
        self.enrol(config, "a")
        server = Server(config)
        server.wait_for("event=version")

        def begin_next():
            self.assertEqual(run(PROGRAM, "run", "stop", "--config", config).returncode, OK)
            begun = run(PROGRAM, "run", "start", "--config", config)
            self.assertEqual(begun.returncode, OK, begun.stderr)

        self.with_start([7.0] * 12)
        begin_next()
        server.wait_for(f"event=first_model key=run.network file={self.network} numbers=15")
        server.wait_for("event=version")
        # Numbers off the manifold of the run before are good ones of the next run, and the other way round.
        stiefel = [1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
        self.with_start(stiefel)
        self.configure(parts='"stiefel 4x3, euclidean 3x1"')
        begin_next()
        server.wait_for("event=first_model key=run.network")
        server.wait_for("event=version")
        out = self.home / "next.csv"
        self.assertEqual(server.stop(), OK)
        done = run(PROGRAM, "model", "export", "--config", config, "--version", 0, "--format", "csv", "--out", out)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual([float(word) for word in out.read_text().replace(",", " ").split()], [*stiefel, 0.5, 0, -0.5])

    def test_a_first_model_that_is_named_goes_before_the_numbers_of_the_file(self):
        self.with_start([1.0] * 12)
        named = self.home / "start.csv"
        named.write_text("2\n" * 15)
        config = self.configure()
        config.write_text(config.read_text().replace("[run]", f'first_model = "{named}"\n[run]'))
        self.enrol(config, "a")
        self.assertEqual(self.first_model(config)[0], [2.0] * 15)

    def test_a_start_is_settled_as_a_first_model_is(self):
        stiefel = [1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
        config = self.configure(parts='"stiefel 4x3, euclidean 3x1"')
        verbs = (("serve", "--check-config", config), ("run", "start", "--config", config),
                 ("serve", "--create", "--config", config))
        self.with_start([2 * value for value in stiefel])
        for verb in verbs:
            refused = run(PROGRAM, *verb)
            self.assertEqual(refused.returncode, FILE, refused.stderr)
            self.assertIn(f"run.network {self.network}: part 1 (stiefel 4x3) is off its manifold by", refused.stderr)
        self.with_start([1.0001 * value for value in stiefel])
        begun = run(PROGRAM, "run", "start", "--config", config)
        self.assertEqual(begun.returncode, OK, begun.stderr)
        self.assertIn(f"run.network {self.network} is moved onto its manifold: part 1 (stiefel 4x3) by", begun.stderr)
        self.enrol(config, "a")
        model, lines = self.first_model(config)
        for value, wanted in zip(model, stiefel):
            self.assertAlmostEqual(value, wanted, delta=1e-6)
        self.assertRegex("".join(lines), r"event=first_model_projected .*stiefel 4x3")

    def test_numbers_of_some_trained_layers_alone_are_refused(self):
        self.network.write_bytes(gsn.network((1, 1, 6), [
            gsn.dense(6, 4, [0.5] * 24, trained=gsn.DENSE), gsn.dense(4, 3, trained=gsn.DENSE)]))
        config = self.configure(parts='"euclidean 6x4, euclidean 4x1, euclidean 4x3, euclidean 3x1"')
        for verb in (("serve", "--check-config", config), ("run", "start", "--config", config),
                     ("serve", "--create", "--config", config)):
            refused = run(PROGRAM, *verb)
            self.assertEqual(refused.returncode, FILE, refused.stderr)
            self.assertIn("trained layer 1 holds no weights to begin at", refused.stderr)
            self.assertIn("server.first_model", refused.stderr)

    def test_parts_that_lie_elsewhere_are_refused_by_name(self):
        config = self.configure(parts='"euclidean 3x1, euclidean 4x3"')
        for verb in (("serve", "--check-config", config), ("run", "start", "--config", config)):
            refused = run(PROGRAM, *verb)
            self.assertEqual(refused.returncode, CONFIG, refused.stderr)
            self.assertIn("part 1 of the run is euclidean 3x1, the numbers 0 to 2 of the point, and part 1 of the "
                          "network is euclidean 4x3, the numbers 0 to 11: the weights of layer 1", refused.stderr)
            self.assertIn('run.parts = "euclidean 4x3, euclidean 3x1"', refused.stderr)

    def test_a_file_that_cannot_be_trained_is_refused_by_every_verb(self):
        good = self.network.read_bytes()
        frozen = gsn.network((1, 1, 6), [gsn.dense(6, 3, [0.5] * 18)])
        wide = gsn.network((1, 1, 6), [gsn.dense(6, 5, trained=gsn.DENSE)])
        for content, code, words in ((good[:-4], FILE, "copy the file again"), (frozen, CONFIG, "trains nothing"),
                                     (wide, CONFIG, 'run.parts = "euclidean 6x5, euclidean 5x1"')):
            self.network.write_bytes(content)
            config = self.configure()
            for verb in (("serve", "--check-config", config), ("run", "start", "--config", config),
                         ("serve", "--create", "--config", config)):
                refused = run(PROGRAM, *verb)
                self.assertEqual(refused.returncode, code, refused.stderr)
                self.assertIn(words, refused.stderr)
                self.assertIn(str(self.network), refused.stderr)

    def test_problem_and_network_belong_together(self):
        refused = run(PROGRAM, "serve", "--check-config", self.configure(problem='"kpca"'))
        self.assertEqual(refused.returncode, CONFIG)
        self.assertIn("network, problem", refused.stderr)
        refused = run(PROGRAM, "serve", "--check-config", self.configure(network=""), "--set", "run.network=")
        self.assertEqual(refused.returncode, CONFIG)
        self.assertIn("gradstream network show", refused.stderr)

    # ---- Devices ----

    def enrol(self, config, *names):
        for name in names:
            done = run(PROGRAM, "device", "add", name, "--config", config, "--out", self.home / f"{name}.identity")
            self.assertEqual(done.returncode, OK, done.stderr)

    def wait_for_status(self, config, text):
        """What `status` says once it says text: the record is durable a moment after the log has it."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            done = run(PROGRAM, "status", "--config", config)
            if text in done.stdout or time.monotonic() > deadline:
                self.assertIn(text, done.stdout)
                return done.stdout

    def words(self, name, port, *more):
        data = self.home / "data.gsd"
        data.write_bytes(shard())
        return [CLIENT, "--server", f"127.0.0.1:{port}", "--identity", self.home / f"{name}.identity", "--data", data,
                "--no-floors", "--retry-ms", 50, *more]

    def test_a_network_is_trained_to_one_digest(self):
        config = self.configure(devices=2)
        self.enrol(config, "a", "b")
        server = Server(config)
        clients = [subprocess.Popen([str(word) for word in self.words(name, server.port, "--network", self.network,
                                                                      "--until-finished")],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name in "ab"]
        texts = []
        for client in clients:
            texts.append(client.communicate(timeout=SECONDS_MAX)[0])
            self.assertEqual(client.returncode, OK, texts[-1])
        digests = {re.search(r"event=finished version=3 digest=(\w+)", text)[1] for text in texts}
        self.assertEqual(len(digests), 1, texts)
        self.assertEqual(server.stop(), OK)

    def test_gradients_train_a_convolution_behind_which_layers_are_frozen(self):
        path = self.home / "convolution.gsn"
        path.write_bytes(gsn.network((1, 6, 1), [
            gsn.conv2d((1, 6, 2), (1, 3), None, border=(0, 1), activation=gsn.RELU, trained=gsn.DENSE),
            gsn.dense(12, 3, [0.1 * (i % 7 - 3) for i in range(36)])]))
        config = self.configure(path, parts='"euclidean 2x3, euclidean 2x1"', estimator='"analytic_gradient"',
                                solver='"gradient_stream"', correction_form='"none"')
        self.enrol(config, "a")
        server = Server(config)
        trained = run(*self.words("a", server.port, "--network", path, "--until-finished"))
        self.assertEqual(server.stop(), OK)
        self.assertEqual(trained.returncode, OK, trained.stdout + trained.stderr)
        self.assertIn("event=finished version=3", trained.stdout + trained.stderr)

    def test_features_are_given_up_where_the_arena_has_no_room_for_them(self):
        """A client says so once, and comes to the digest of one that keeps them."""
        self.network.write_bytes(gsn.network((1, 1, 6), [
            gsn.dense(6, 300, [0.01 * (i % 7 - 3) for i in range(1800)], activation=gsn.RELU),
            gsn.dense(300, 3, trained=gsn.DENSE)]))
        shown = json.loads(run(PROGRAM, "network", "show", self.network, "--samples", 12, "--batch", 12, "--format",
                               "json").stdout.splitlines()[-2])
        self.assertLessEqual(shown["board_arena_least"], shown["board_arena"] - shown["features"])
        config = self.configure(devices=2, parts='"euclidean 300x3, euclidean 3x1"', local_step_count=1,
                                correction_form='"none"', smoothing=0.1, step_size=0.01)
        self.enrol(config, "a", "b")
        server = Server(config)
        short = (shown["arena"] - shown["features"]) // 1024 + 2
        self.assertLess(1024 * short, shown["arena"] - 4096, "too much for the case")
        clients = [subprocess.Popen([str(word) for word in self.words(
            name, server.port, "--network", self.network, "--arena-kib", size, "--until-finished")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name, size in (("a", short), ("b", 1024))]
        texts = [client.communicate(timeout=SECONDS_MAX)[0] for client in clients]
        self.assertEqual([client.returncode for client in clients], [OK, OK], texts)
        digests = {re.search(r"event=finished version=3 digest=(\w+)", text)[1] for text in texts}
        self.assertEqual(len(digests), 1, texts)
        self.assertEqual([text.count("event=features_not_kept") for text in texts], [1, 0], texts)
        self.assertEqual(server.stop(), OK)

    def test_a_device_with_another_network_is_refused_at_both_ends(self):
        config = self.configure()
        self.enrol(config, "a")
        server = Server(config)
        other = self.home / "other.gsn"
        other.write_bytes(small_network(0.25))
        wanted, has = (f"{gsn.digest(path.read_bytes()):016x}" for path in (self.network, other))
        refused = run(*self.words("a", server.port, "--network", other, "--once"))
        self.assertEqual(refused.returncode, 9, refused.stdout + refused.stderr)
        told = refused.stdout + refused.stderr
        self.assertIn(f"event=not_capable network={has} wanted={wanted}", told)
        self.assertIn("--network", told)
        line = server.wait_for("event=device_not_capable")
        self.assertIn(f"lacks=network:{wanted} has=network:{has}", line)
        server.wait_for("event=run_stalled")
        status = self.wait_for_status(config, "not_capable")
        self.assertIn(f"network:{wanted}", status)
        # Without the network the device has not even the problem.
        without = run(*self.words("a", server.port, "--problem", "logistic", "--once"))
        self.assertEqual(without.returncode, 9, without.stdout)
        # With the right one the run goes on by itself.
        good = run(*self.words("a", server.port, "--network", self.network, "--once"))
        self.assertEqual(good.returncode, OK, good.stdout + good.stderr)
        self.assertEqual(server.stop(), OK)

    def test_state_of_another_network_is_not_continued(self):
        config = self.configure(local_step_count=1)
        self.enrol(config, "a")
        server = Server(config)
        state = self.home / "state"
        first = run(*self.words("a", server.port, "--network", self.network, "--state", state, "--once"))
        self.assertEqual(first.returncode, OK, first.stdout + first.stderr)
        other = self.home / "other.gsn"
        other.write_bytes(small_network(0.25))
        second = run(*self.words("a", server.port, "--network", other, "--state", state, "--once"))
        self.assertIn("of another identity or network; starting afresh", second.stdout + second.stderr)
        self.assertEqual(second.returncode, 9, second.stdout)
        self.assertEqual(server.stop(), OK)

    def test_the_client_refuses_what_cannot_be_before_it_starts(self):
        config = self.configure()
        self.enrol(config, "a")
        good = self.network.read_bytes()
        bad = self.home / "bad.gsn"
        for content, code, words in (
                (good[:-4], 4, "byte 8: the size is"),
                (gsn.network((1, 1, 6), [gsn.dense(6, 3, [0.5] * 18)]), 4, "trains nothing"),
                (gsn.network((1, 1, 5), [gsn.dense(5, 3, trained=gsn.DENSE)]), 4, "takes 5 inputs and behind them 1"),
                (gsn.network((1, 1, 6), [gsn.dense(6, 2, trained=gsn.DENSE)]), 4, "from 0 to 1"),
                (gsn.network((1, 1, 6), [gsn.dense(6, 2, trained=gsn.DENSE)]), 4, "sample 3 (from 1) has the"),
                (gsn.network((1, 1, 6), [gsn.dense(6, 3000, trained=gsn.DENSE)]), 6, "--arena-kib")):
            bad.write_bytes(content)
            refused = run(*self.words("a", 9, "--network", bad, "--arena-kib", 64, "--once"))
            told = refused.stdout + refused.stderr
            self.assertEqual(refused.returncode, code, told)
            self.assertIn(words, told)
            if code == 6:
                self.assertIn("trains 21000 numbers", told)
                self.assertIn("65536 are given", told)
        for words, told in ((("--network", self.home / "none.gsn"), "none.gsn"),
                            (("--problem", "network"), "--network FILE"),
                            (("--problem", "kpca", "--network", self.network), "--problem network")):
            refused = run(*self.words("a", 9, *words))
            self.assertEqual(refused.returncode, 4 if "none" in told else USAGE, refused.stdout + refused.stderr)
            self.assertIn(told, refused.stdout + refused.stderr)


if __name__ == "__main__":
    PROGRAM, CLIENT = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
