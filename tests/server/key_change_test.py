"""Keys that devices draw, between real programs: each is killed before each of its steps, and ends with one key.

usage: key_change_test.py GRADSTREAM GRADSTREAM_CLIENT     with GS_KILL_SHIM: tests/support/kill_at.cc, built
"""

import contextlib
import os
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402

SHIM = os.environ.get("GS_KILL_SHIM")
PROGRAM, CLIENT = None, None
SECONDS_MAX = 30
NOBODY = 65534
STEPS_MAX = 60  # of a program, in calls that the shim counts, from the request to the change
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))
CONFIG_TEXT = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/gs.db"
export_dir = "{home}"
allow_psk_ke = true
[run]
name = "test"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = 4
device_count = 1000
round_count = 3
"""


def field(path, name):
    return re.search(rf"^{name} = (.*)$", path.read_text(), re.M)[1]


class Process:
    """A program whose log is read line by line."""

    def __init__(self, words, kill_at=None, user=None):
        environment = os.environ | ({"LD_PRELOAD": SHIM, "GS_KILL_AT": str(kill_at)} if kill_at else {})
        self.child = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True, env=environment,
                                      user=user)
        self.lines, self.is_over, self.news = [], False, threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.child.stderr:
            with self.news:
                self.lines.append(line)
                self.news.notify_all()
        with self.news:
            self.is_over = True
            self.news.notify_all()

    def wait_for(self, pattern, count=1):
        """The line with the pattern, or None where the process ends before it."""
        def find():
            found = [line for line in self.lines if re.search(pattern, line)]
            return found[count - 1:] or (self.is_over and [None])
        with self.news:
            found = self.news.wait_for(find, SECONDS_MAX)
        assert found, f"no {pattern} in {SECONDS_MAX} s:\n" + "".join(self.lines)
        return found[0]

    def end(self, kill=True):
        if self.child.poll() is None:
            self.child.kill() if kill else self.child.terminate()
        self.child.wait(SECONDS_MAX)
        self.reader.join(SECONDS_MAX)
        self.child.stderr.close()
        return "".join(self.lines)


class KeyChange(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gradstream_"))
        self.addCleanup(shutil.rmtree, self.home)
        (self.home / "a.gsd").write_bytes(SHARD)
        self.identity = self.home / "a.id"
        self.next = self.home / "a.id.next"
        self.port = fleet.free_port()  # of each server: nobody takes it between the end of one and the next one
        self.server = self.serve()
        self.verb("device", "add", "a", "--out", self.identity)

    def serve(self, kill_at=None):
        """The server; None where it is killed before it listens."""
        config = self.home / "test.toml"
        config.write_text(CONFIG_TEXT.format(home=self.home, port=self.port))
        server = Process([PROGRAM, "serve", "--create", "--config", config], kill_at)
        self.addCleanup(server.end)
        return None if server.wait_for("event=listening") is None else server

    def verb(self, *words):
        return subprocess.run([PROGRAM, *map(str, words), "--config", self.home / "test.toml"], check=True,
                              capture_output=True, text=True, timeout=SECONDS_MAX).stdout

    def client(self, *more, kill_at=None, identity=None, user=None):
        client = Process([CLIENT, "--server", f"127.0.0.1:{self.port}", "--identity", identity or self.identity,
                          "--data", self.home / "a.gsd", "--retry-ms", "10", *more], kill_at, user)
        self.addCleanup(client.end)
        return client

    def row(self, columns="key, previous_key, generation, key_change_since_ms, key_change_secret"):
        with contextlib.closing(sqlite3.connect(self.home / "gs.db")) as database:
            return database.execute(f"SELECT {columns} FROM devices WHERE name='a'").fetchone()

    def ask(self, *more):
        """Until the server knows; what the command says."""
        said = self.verb("device", "rotate", "a", "--by-device", *more)
        self.server.wait_for(f"event=key_change_asked device=a since_ms={re.search('since_ms=([0-9]+)', said)[1]}")
        return said

    def expect_changed(self, generation=1):
        """Once a client connects, both ends have one key, and nothing else is left."""
        is_done = field(self.identity, "identity") == f"a~{generation}"
        client = self.client()
        self.assertIsNotNone(client.wait_for("event=connected" if is_done else "event=key_changed"), client.lines)
        client.end()
        self.assertEqual(field(self.identity, "identity"), f"a~{generation}")
        self.assertFalse(self.next.exists())
        key, _, counted, since, secret = self.row()
        self.assertEqual(counted, generation)
        self.assertEqual(field(self.identity, "key"), key.hex())
        self.assertEqual((since, secret), (0, None), "the server's secret is gone")
        self.assertEqual(self.identity.stat().st_mode & 0o777, 0o600)

    def test_the_device_draws_a_key_and_nobody_carries_a_file(self):
        before = field(self.identity, "key")
        said = self.ask()
        self.assertIn("key_change=waiting since_ms=", said)
        self.assertIn("identity=a~1", said)
        self.assertRegex(self.verb("device", "list"), r"device=a .*generation=0 key_change=waiting since_ms=\d+")
        client = self.client()
        self.assertRegex(client.wait_for("event=key_changed"), rf"identity=a~1 generation=1 file={self.identity}")
        self.server.wait_for("event=key_changed device=a generation=1 previous_until_ms=")
        client.end()
        self.expect_changed()
        key, previous, *_ = self.row()
        self.assertEqual(previous.hex(), before, "which counts for its window")
        self.assertNotEqual(key.hex(), before)
        self.assertNotIn("key_change", self.verb("device", "list"))
        self.ask("--window-s", "0")
        self.expect_changed(generation=2)

    def test_a_device_that_is_connected_is_asked_at_once(self):
        client = self.client()
        client.wait_for("event=connected")
        self.ask()
        client.wait_for("event=key_changed")
        client.wait_for("event=connected", count=2)

    @unittest.skipUnless(SHIM, "needs the library that the build makes")
    def test_a_client_that_is_killed_before_any_of_its_steps_has_one_key(self):
        states = set()
        for step in range(1, STEPS_MAX):
            self.ask()
            generation = self.row()[2] + 1
            client = self.client(kill_at=step)
            is_killed = client.wait_for("event=key_changed") is None
            client.end()
            states.add((self.next.exists(), self.row()[2] == generation,
                        field(self.identity, "identity") == f"a~{generation}"))
            self.expect_changed(generation)
            if not is_killed:
                break  # it had no step left
        else:
            self.fail(f"more than {STEPS_MAX} steps")
        # Drawn, counts at the server, counts at the device: nothing; drawn; the answer is lost; done, a file is left.
        self.assertLessEqual({(False, False, False), (True, False, False), (True, True, False), (True, True, True)},
                             states)

    @unittest.skipUnless(SHIM, "needs the library that the build makes")
    def test_a_server_that_is_killed_before_any_of_its_steps_leaves_one_key(self):
        states = set()
        for step in range(1, STEPS_MAX):
            self.server.end()
            self.server = self.serve()
            self.ask()
            generation = self.row()[2] + 1
            self.server.end()
            server = self.serve(kill_at=step)
            if server is None:
                continue  # before it listens
            self.server = server
            client = self.client()
            is_killed = "link_lost" in client.wait_for("event=(key_changed|link_lost)")
            client.end()
            self.server.end()
            states.add((self.next.exists(), self.row()[2] == generation))
            self.server = self.serve()
            self.expect_changed(generation)
            if not is_killed:
                break
        else:
            self.fail(f"more than {STEPS_MAX} steps")
        # Drawn, counts at the server: neither; both, and the answer is lost.
        self.assertLessEqual({(False, False), (True, True)}, states)

    def test_two_devices_with_one_file_have_one_key_between_them(self):
        copy = self.home / "copy" / "a.id"
        copy.parent.mkdir()
        shutil.copy(self.identity, copy)
        self.ask()
        client = self.client()
        client.wait_for("event=key_changed")
        client.end()
        other = self.client(identity=copy)  # by the key before, within its window
        other.wait_for("event=connected")
        other.end()
        self.assertEqual(field(copy, "identity"), "a", "it is not asked")
        self.ask()
        other = self.client(identity=copy)
        self.assertIn("remedy=", other.wait_for("event=key_change_failed generation=2"))
        other.end()
        self.assertFalse((copy.parent / "a.id.next").exists())
        self.expect_changed(generation=2)

    def test_a_device_that_cannot_keep_a_key_is_named(self):
        """Its user may read the identity, and not write its folder."""
        closed = self.home / "closed"
        closed.mkdir()
        shutil.copy(self.identity, closed / "a.id")
        self.home.chmod(0o755)
        (closed / "a.id").chmod(0o644)
        closed.chmod(0o555)
        self.ask()
        client = self.client(identity=closed / "a.id", user=NOBODY if os.geteuid() == 0 else None)
        self.assertIsNotNone(client.wait_for("event=connected"), client.lines)
        self.assertIn("device=a", self.server.wait_for("event=key_change_waits"))
        client.end()
        closed.chmod(0o755)
        self.assertEqual(self.row()[2], 0)


if __name__ == "__main__":
    CLIENT, PROGRAM = sys.argv.pop(), sys.argv.pop()
    unittest.main()
