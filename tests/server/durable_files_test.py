"""What the programs call done survives a power cut: files are synced before they get their name, folders after.

usage: durable_files_test.py GRADSTREAM GRADSTREAM_CLIENT     with GS_SYNC_SHIM: tests/support/sync_log.cc, built
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

SHIM = os.environ["GS_SYNC_SHIM"]
PROGRAM, CLIENT = None, None
SECONDS_MAX = 30
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))
CONFIG_TEXT = """
[server]
listen = "127.0.0.1:0"
database = "{home}/gs/test.db"
export_dir = "{home}/models"
[run]
name = "test"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = 4
device_count = 1
round_count = 3
"""


class Events:
    """What became durable: the size and time of each file at its last sync, and whether its name is."""

    def __init__(self, lines):
        self.synced = {}
        self.named = {}  # path: whether its folder has been synced since it got that name
        for line in lines:
            kind, *paths, size, mtime = line.split()
            if kind == "connect":
                continue
            if kind == "rename":
                source, target = paths
                was_synced = self.synced.pop(source, None) == (size, mtime)
                self.synced[target] = (size, mtime) if was_synced else None
                self.named[target] = False
            elif os.path.isdir(paths[0]):
                self.named |= {path: True for path in self.named if os.path.dirname(path) == paths[0]}
            else:
                self.synced[paths[0]] = (size, mtime)
                self.named.setdefault(paths[0], False)

    def fault(self, path):
        """Why a power cut may take the file back; None: it may not."""
        info = os.stat(path)
        if self.synced.get(path) != (str(info.st_size), str(info.st_mtime_ns)):
            return "its content was not synced before it had its name, or was written later"
        return None if self.named[path] else "its folder was not synced after it had its name"


class DurableFiles(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(os.path.realpath(tempfile.mkdtemp(prefix="gradstream_")))
        self.addCleanup(shutil.rmtree, self.home)
        for folder in ("gs", "models", "keys", "state", "copies"):
            (self.home / folder).mkdir()
        self.config = self.home / "test.toml"
        self.config.write_text(CONFIG_TEXT.format(home=self.home))
        self.log = self.home / "sync.log"
        self.environment = os.environ | {"LD_PRELOAD": SHIM, "GS_SYNC_LOG": str(self.log)}

    def run_program(self, program, *words):
        done = subprocess.run([program, *map(str, words)], env=self.environment, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def verb(self, *words):
        self.run_program(PROGRAM, *words, "--config", self.config)

    def assert_durable(self, *names):
        events = Events(self.log.read_text().splitlines())
        for name in names:
            path = str(self.home / name)
            self.assertTrue(os.path.exists(path), path)
            self.assertIsNone(events.fault(path), path)

    def train(self, *client_words):
        """A server, and one client until its first update is acknowledged."""
        with subprocess.Popen([PROGRAM, "serve", "--config", self.config], env=self.environment, stderr=subprocess.PIPE,
                              text=True) as server:
            watchdog = threading.Timer(SECONDS_MAX, server.kill)
            watchdog.start()
            for line in server.stderr:
                if "event=listening" in line:
                    break
            port = line.partition(" port=")[2].split()[0]
            self.run_program(CLIENT, "--server", f"127.0.0.1:{port}", *client_words, "--data", self.home / "a.gsd",
                             "--state", self.home / "state", "--no-floors", "--once", "--retry-ms", "20")
            server.terminate()
            server.stderr.read()
            self.assertEqual(server.wait(SECONDS_MAX), 0)
            watchdog.cancel()

    def test_all_that_is_left_is_durable(self):
        (self.home / "a.gsd").write_bytes(SHARD)
        self.verb("device", "add", "b", "--out", self.home / "keys" / "b.id")
        self.verb("claim", "add", "batch", "--out", self.home / "keys" / "batch.id")
        self.assert_durable("keys/b.id", "keys/batch.id")
        self.verb("device", "disable", "b")
        self.train("--identity", self.home / "keys" / "a.id", "--claim", self.home / "keys" / "batch.id", "--name", "a")
        self.assert_durable("keys/a.id", "state/a.state", "models/run1_v000000.npy")
        lines = self.log.read_text().splitlines()
        before = Events(lines[:lines.index("connect 0 0")])
        drawn = str(self.home / "keys" / "a.id.claimed")
        self.assertTrue(before.synced.get(drawn) and before.named[drawn], "a client sent before its secret was durable")
        self.verb("device", "rotate", "a", "--by-device")
        self.train("--identity", self.home / "keys" / "a.id")
        events = Events(self.log.read_text().splitlines())
        drawn = str(self.home / "keys" / "a.id.next")
        self.assertTrue(events.synced.get(drawn) and events.named[drawn], "the secret of a new key was not durable")
        self.assert_durable("keys/a.id")
        self.verb("backup", self.home / "copies" / "gs.db")
        self.verb("model", "export", "--out", self.home / "copies" / "m.npy")
        self.verb("run", "export", "--out", self.home / "copies" / "run.json")
        self.assert_durable("copies/gs.db", "copies/m.npy", "copies/run.json")
        self.verb("restore", self.home / "copies" / "gs.db", "--replace")
        self.assert_durable("gs/test.db")

    def test_the_judge_finds_what_is_missing(self):
        path, folder = str(self.home / "keys" / "x"), str(self.home / "keys")
        pathlib.Path(path).write_text("abc")
        info = os.stat(path)
        state = f"{info.st_size} {info.st_mtime_ns}"
        folder_synced = f"sync {folder} 1 1"
        renamed = [f"sync {path}.part {state}", f"rename {path}.part {path} {state}", folder_synced]
        self.assertIsNone(Events(renamed).fault(path))
        self.assertIsNone(Events([f"sync {path} {state}", folder_synced]).fault(path))
        self.assertIn("content", Events(renamed[1:]).fault(path))
        self.assertIn("content", Events([f"sync {path}.part 1 1", *renamed[1:]]).fault(path))
        self.assertIn("content", Events([f"sync {path} 1 1", folder_synced]).fault(path))
        self.assertIn("content", Events([]).fault(path))
        self.assertIn("folder", Events(renamed[:2]).fault(path))
        self.assertIn("folder", Events([renamed[0], folder_synced, renamed[1]]).fault(path))


if __name__ == "__main__":
    CLIENT, PROGRAM = sys.argv.pop(), sys.argv.pop()
    unittest.main()
