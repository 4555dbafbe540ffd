"""A device of Python over its life: by claim and by certificate, with a state that survives its end, and what it says
when it is interrupted or has something to refuse.
"""

import contextlib
import inspect
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy
from module_support import FOLDER, IDENTITY, SECONDS, ZEROTH_ORDER, gradstream, kpca_loss, samples

from gradstream import errors  # noqa: E402  of the folder that module_support has filled

RUN = {**ZEROTH_ORDER, "problem": "kpca", "manifold": "stiefel", "rows": 4, "cols": 1, "seed": 7, "device_count": 2,
       "retry_min_ms": 20, "retry_max_ms": 60}
ROUNDS = 10
# A device in a process that is killed as soon as it holds version 6.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import gradstream, numpy
rows = numpy.load(sys.argv[2])
client = gradstream.Client(sys.argv[3], sys.argv[4], rows, floors=False, state=sys.argv[5])
gradstream.train([client], until=lambda: client.status().version >= 6, seconds=60)
os.kill(os.getpid(), signal.SIGKILL)
"""
# What wants more memory than a process has, and a device of the process that then is well.
NO_MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import gradstream
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), resource.RLIM_INFINITY))
def refused(work):
    try:
        work()
    except MemoryError as error:
        print(type(error).__name__, error)
def open_device(rows, cols, **more):
    return gradstream.Client(sys.argv[2], "127.0.0.1:1", problem=gradstream.Loss(sum, shape=(rows, cols), count=1),
                             state=sys.argv[3], **more)
refused(lambda: open_device(16384, 4096, arena_bytes=1 << 30))
refused(lambda: gradstream.simulate(clock="virtual", devices=131072, rounds=1, seed=3))
with open_device(4, 1) as client:
    client.poll()
    print(client.status().name)
"""


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(folder):
    """A CA, and of it the server's certificate and that of the device "kitchen", as docs/how-to/certificates.md has
    it."""
    for name in ("ca", "server", "kitchen"):
        openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")
    openssl(folder, "req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=fleet CA", "-days", "30", "-out", "ca.pem")
    for name, use, more in (("server", "serverAuth", ["-addext", "subjectAltName=IP:127.0.0.1"]),
                            ("kitchen", "clientAuth", [])):
        openssl(folder, "req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", *more, "-addext",
                "keyUsage=digitalSignature", "-addext", f"extendedKeyUsage={use}", "-out", f"{name}.csr")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "30", "-copy_extensions", "copy", "-out", f"{name}.pem")
    for path in folder.glob("*.key"):
        path.chmod(0o600)


class State(unittest.TestCase):
    def digest(self, play, **options):
        """Of the run's end. play(server, first, folder): what becomes of the first of two devices; returns it anew."""
        with gradstream.Server(**RUN, round_count=ROUNDS) as server, contextlib.ExitStack() as stack:
            second = stack.enter_context(gradstream.Client(server.enrol("b"), server.address, samples(1),
                                                           floors=False))
            server.enrol("a")
            first = stack.enter_context(play(server, second, server.folder / "state"))
            gradstream.train([first, second], seconds=SECONDS)
            ends = first.status(), second.status()
            self.assertEqual([(end.version, end.digest_mismatches, end.updates_refused) for end in ends],
                             [(ROUNDS, 0, 0)] * 2)
            self.assertEqual(ends[0].digest, ends[1].digest)
            return ends[0].digest

    def open(self, server, folder):
        return gradstream.Client(server.folder / "a.identity", server.address, samples(0), floors=False, state=folder)

    def end_twice(self, server, second, folder):
        """Closed at version 3, and then in a process that is killed at version 6."""
        first = self.open(server, folder)
        gradstream.train([first, second], until=lambda: first.status().version >= 3, seconds=SECONDS)
        with self.assertRaisesRegex(gradstream.OptionError, "a.state is of a device that is open in this process"):
            self.open(server, folder)
        held, model = first.status(), first.model()
        first.close()
        with self.open(server, folder) as again:
            self.assertEqual((again.status().version, again.status().digest), (held.version, held.digest))
            numpy.testing.assert_array_equal(again.model(), model)
        rows = server.folder / "rows.npy"
        numpy.save(rows, samples(0))
        process = subprocess.Popen([sys.executable, "-B", "-c", KILLED, FOLDER.name, rows,
                                    server.folder / "a.identity", server.address, folder])
        gradstream.train([second], until=lambda: process.poll() is not None, seconds=SECONDS)
        self.assertEqual(process.wait(), -signal.SIGKILL)
        last = self.open(server, folder)
        self.assertGreaterEqual(last.status().version, 5)  # what was durable when the signal came
        return last

    def test_a_device_goes_on_where_it_was(self):
        whole = self.digest(lambda server, second, folder: self.open(server, None))
        self.assertEqual(self.digest(self.end_twice), whole)

    def test_a_loss_may_close_another_device(self):
        """As Python itself does with one that nobody holds any more, whenever it likes."""
        with tempfile.TemporaryDirectory() as folder, gradstream.Server(
                **{**RUN, "device_count": 2}, round_count=4) as server:
            other = gradstream.Client(server.enrol("b"), server.address, samples(1), floors=False, state=folder)
            whole = kpca_loss(samples(0), False)

            def f(x, indices):
                other.close()
                return whole.f(x, indices)
            problem = gradstream.Loss(f, shape=(4, 1), count=48, name="kpca")
            with gradstream.Client(server.enrol("a"), server.address, problem=problem, floors=False) as client:
                end = time.monotonic() + SECONDS
                while "closed" not in repr(other):
                    self.assertLess(time.monotonic(), end)
                    other.poll()
                    client.poll()
            self.assertTrue(pathlib.Path(folder, "b.state").exists())

    def test_what_cannot_be_taken_up_is_dropped_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.state").write_bytes(b"no state")
            lines = []
            with gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1), state=folder, log=lines.append) as client:
                self.assertIsNone(client.model())
            self.assertRegex("\n".join(lines), "event=state_dropped reason=.*damaged")
            pathlib.Path(folder, "file").touch()
            with self.assertRaises(OSError):
                gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1), state=pathlib.Path(folder, "file"))


class Memory(unittest.TestCase):
    def test_a_process_without_memory_raises_and_lives_on(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", "-c", NO_MEMORY, FOLDER.name, IDENTITY, folder], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = "OutOfMemory the process has no more memory"
        self.assertRegex(done.stdout, rf"^{words}: give it more.*\n{words}.*\na\n$")


class Credentials(unittest.TestCase):
    def train(self, server, credentials):
        with gradstream.Client(credentials, server.address, samples(1), floors=False) as client:
            gradstream.train([client], seconds=SECONDS)
            end = client.status()
            self.assertEqual((end.version, end.updates_folded, end.digest_mismatches), (4, 4, 0))
            return end.name

    def test_claim(self):
        with gradstream.Server(**{**RUN, "device_count": 1}, round_count=4) as server:
            file, identity = server.folder / "spring.identity", server.folder / "kitchen.identity"
            server.ask("claim", "add", "spring", "--out", file)
            claim = gradstream.Claim(file, "kitchen", identity)
            self.assertEqual(self.train(server, claim), "kitchen")
            made = identity.read_text(encoding="ascii")
            self.assertEqual(gradstream.claim_identity(claim, "127.0.0.1:1"), identity, "nothing is asked")
            self.assertEqual(identity.read_text(encoding="ascii"), made)
            taken = claim._replace(identity=server.folder / "other.identity")
            with self.assertRaisesRegex(gradstream.ClaimRefused, "claim_used: another device has this name"):
                gradstream.claim_identity(taken, server.address)
            with self.assertRaisesRegex(gradstream.IdentityError, "kitchen.identity is no claim"):
                gradstream.claim_identity(taken._replace(file=identity), server.address)
            with self.assertRaisesRegex(gradstream.ServerUnreachable, "within 0 s.*address and port right"):
                gradstream.claim_identity(claim._replace(identity=server.folder / "c", seconds=0), "127.0.0.1:1")
            with self.assertRaisesRegex(gradstream.IdentityError, "is a claim: give it as the file of a Claim, with"):
                gradstream.Client(file, server.address, samples(1))

    def test_a_remedy_names_arguments(self):
        """The words are those of gradstream-client, whose options a program in Python does not have."""
        with gradstream.Server(**{**RUN, "device_count": 1}, round_count=4) as server:
            file, identity, lines = server.folder / "spring.identity", server.folder / "kitchen.identity", []
            server.ask("claim", "add", "spring", "--out", file)
            claim = gradstream.Claim(file, "kitchen", identity)
            gradstream.claim_identity(claim, server.address)
            other = claim._replace(identity=server.folder / "other.identity")
            with self.assertRaisesRegex(gradstream.ClaimRefused, "give it another name, or ask .* rotate NAME --out "):
                gradstream.claim_identity(other, server.address, log=lines.append)
            self.assertRegex(lines[-1], "give it another name, or")
            text = file.read_text(encoding="ascii")
            file.write_text(text[:text.index("server =")], encoding="ascii")
            with self.assertRaisesRegex(gradstream.ClaimRefused, "reads the key, with unproven=True$"):
                gradstream.claim_identity(other, server.address)
            for option, words in (("check --server, and", "check the argument server, and"),
                                  ("compare --server-ca with", "compare server_ca with"),
                                  ("a path a--name, or --state none", "a path a--name, or state=None"),
                                  ("--names", "--names")):
                self.assertEqual(errors.in_python(option), words)

    def test_a_claim_waits_no_longer_than_its_seconds(self):
        """For a server that takes the connection and says nothing; an attempt alone would take 10 s."""
        with gradstream.Server(**{**RUN, "device_count": 1}, round_count=4) as server, \
                socket.create_server(("127.0.0.1", 0)) as silent:
            file = server.folder / "spring.identity"
            server.ask("claim", "add", "spring", "--out", file)
            claim = gradstream.Claim(file, "kitchen", server.folder / "kitchen.identity", seconds=1)
            begun = time.monotonic()
            with self.assertRaisesRegex(gradstream.ServerUnreachable, "within 1 s"):
                gradstream.claim_identity(claim, f"127.0.0.1:{silent.getsockname()[1]}")
            self.assertLess(time.monotonic() - begun, 8)

    def test_a_path_that_cannot_be_looked_at_is_an_error(self):
        """A link to itself is one for every user."""
        with tempfile.TemporaryDirectory() as folder:
            loop = pathlib.Path(folder, "loop")
            loop.symlink_to(loop)
            with self.assertRaisesRegex(gradstream.IdentityError, "cannot look for .*/loop: "):
                gradstream.claim_identity(gradstream.Claim(IDENTITY, "kitchen", loop, seconds=0), "127.0.0.1:1")

    def test_a_key_that_the_server_asks_for(self):
        with gradstream.Server(**{**RUN, "device_count": 1}, round_count=100000) as server:
            server.enrol("a")
            file = server.folder / "a.identity"
            server.ask("device", "rotate", "a", "--by-device")
            with gradstream.Client(file, server.address, samples(1), floors=False) as client:
                self.assertEqual(client.status().name, "a")
                gradstream.train([client], until=lambda: "identity = a~1\n" in file.read_text(encoding="ascii"),
                                 seconds=SECONDS)
                self.assertEqual(client.status().name, "a~1")
            with gradstream.Client(file, server.address, samples(1), floors=False) as client:
                gradstream.train([client], until=lambda: client.status().version >= 1, seconds=SECONDS)
                self.assertEqual(client.status().name, "a~1")

    def test_certificate(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_certificates(folder)
            settings = {"device_ca_file": folder / "ca.pem", "certificate_file": folder / "server.pem",
                        "certificate_key_file": folder / "server.key"}
            with gradstream.Server(settings=settings, **{**RUN, "device_count": 1}, round_count=4) as server:
                kitchen = gradstream.Certificate(folder / "kitchen.pem", folder / "kitchen.key", folder / "ca.pem")
                self.assertEqual(self.train(server, kitchen), "kitchen")
            with self.assertRaisesRegex(gradstream.IdentityError, "server.key|belong|key"):
                gradstream.Client(kitchen._replace(key=folder / "server.key"), "127.0.0.1:1", samples(1))
            with self.assertRaisesRegex(gradstream.IdentityError, "cannot read .*/none.pem: "):
                gradstream.Client(kitchen._replace(certificate=folder / "none.pem"), "127.0.0.1:1", samples(1))


class Help(unittest.TestCase):
    def test_every_public_name_says_what_it_is_and_takes(self):
        """A docstring each, and a type for each argument and result, which py.typed promises."""
        for name in gradstream.__all__:
            value = getattr(gradstream, name)
            if not callable(value):
                continue
            self.assertTrue(value.__doc__, name)
            members = [(name, value)] if not inspect.isclass(value) else [
                (f"{name}.{word}", member) for word, member in vars(value).items()
                if inspect.isfunction(member) and not word.startswith("_")]
            for path, member in members:
                self.assertTrue(member.__doc__, path)
                signature = inspect.signature(member)
                self.assertIsNot(signature.return_annotation, signature.empty, path)
                for argument in signature.parameters.values():
                    self.assertTrue(argument.name == "self" or argument.annotation is not signature.empty,
                                    f"{path}: {argument}")
        self.assertTrue(pathlib.Path(gradstream.__file__).with_name("py.typed").exists())


class Words(unittest.TestCase):
    def test_an_interrupt_ends_the_call_and_not_the_device(self):
        rows, is_due = samples(1), [True]
        whole = kpca_loss(rows, False)

        def f(x, indices):
            if is_due and is_due.pop():
                signal.raise_signal(signal.SIGINT)
            return whole.f(x, indices)
        problem = gradstream.Loss(f, shape=(4, 1), count=len(rows), name="kpca")
        with gradstream.Server(**{**RUN, "device_count": 1}, round_count=4) as server, \
                gradstream.Client(server.enrol("a"), server.address, problem=problem, floors=False) as client:
            with self.assertRaises(KeyboardInterrupt):
                gradstream.train([client], seconds=SECONDS)
            gradstream.train([client], seconds=SECONDS)
            self.assertEqual(client.status().version, 4)

    def test_lines_go_to_logging(self):
        with self.assertLogs("gradstream", logging.INFO) as kept, \
                gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1)) as client:
            gradstream.train([client], until=lambda: client.status().connection_failures > 0, seconds=SECONDS)
        self.assertIn("event=link_lost", kept.records[0].getMessage())
        self.assertEqual(kept.records[0].levelno, logging.WARNING)
        done = subprocess.run([sys.executable, "-B", "-c",
                               f"import gradstream; gradstream.Client({IDENTITY!r}, '127.0.0.1:1', [[1.0]]).poll()"],
                              env={**os.environ, "PYTHONPATH": FOLDER.name}, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.stdout, "", "who asks for no lines gets none")

    def test_what_a_log_raises_comes_out(self):
        def refuse(line):
            raise KeyError(line)
        with gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1), log=refuse) as client:
            with self.assertRaisesRegex(KeyError, "link_lost"):
                gradstream.train([client], seconds=SECONDS)

    def test_a_log_is_called_outside_of_the_library(self):
        """Else a log that waits for a lock waits for good, where the thread that holds it waits for the library."""
        found = []

        def log(line):
            other = threading.Thread(target=lambda: found.append(client.status().connection_failures))
            other.start()
            other.join(SECONDS)
            self.assertFalse(other.is_alive(), line)
        with gradstream.Client(IDENTITY, "127.0.0.1:1", samples(1), log=log) as client:
            gradstream.train([client], until=lambda: found != [], seconds=SECONDS)
        self.assertEqual(found[0], 1)

    def test_errors_name_value_limit_and_remedy(self):
        rows = samples(1)
        for found, words, arguments in (
                (gradstream.OptionError, "the server is 'here': write HOST:PORT", (IDENTITY, "here", rows)),
                (gradstream.OptionError, "name, 'kpcb': give a Loss, or one of kpca, brockett",
                 (IDENTITY, "127.0.0.1:1", rows, "kpcb")),
                (gradstream.OptionError, "of type int: give a path", (3, "127.0.0.1:1", rows)),
                (gradstream.IdentityError, "line 2: key: .*gradstream device add",
                 ("identity = a\nkey = 5\n", "127.0.0.1:1", rows)),
                (gradstream.DataError, "in row 1 .from 0.: leave the row out",
                 (IDENTITY, "127.0.0.1:1", [[1, 2], [3, float("nan")]]))):
            with self.assertRaisesRegex(found, words) as caught:
                gradstream.Client(*arguments)
            self.assertIsInstance(caught.exception, gradstream.Error)


if __name__ == "__main__":
    unittest.main()
