#!/usr/bin/env python3
"""What commands and a server say of a run whose journal was cut: true figures, and in words what is not there.

history_test.py: tools/bench_restart.py's program makes the database of a run with 4,000 updates, of which the journal
keeps 500. The programs are those of GS_BUILD_DIR.
"""

import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import bench_restart  # noqa: E402
import bench_server  # noqa: E402
import fleet  # noqa: E402

UPDATES, KEPT, DEVICES = 4000, 500, 10


class History(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.home = pathlib.Path(cls.folder.name)
        cls.config = cls.home / "server.toml"
        cls.config.write_text(bench_restart.CONFIG.format(
            port=fleet.free_port(), home=cls.home, devices=DEVICES, keep=f"{KEPT} updates",
            values=bench_server.UPDATE_VALUES), encoding="ascii")
        cls.made = bench_restart.make(cls.config, UPDATES)
        with sqlite3.connect(cls.home / "gradstream.db") as database:
            cls.first, cls.rows = database.execute("SELECT min(sequence),count(*) FROM journal").fetchone()
            cls.base = database.execute("SELECT min(version) FROM checkpoints").fetchone()[0]
        cls.last = int(cls.made["version"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def say(self, *words):
        return subprocess.run([fleet.SERVER, *map(str, words), "--config", self.config], capture_output=True, text=True,
                              check=False, timeout=60)

    def test_the_journal_was_cut(self):
        self.assertGreater(self.first, 1)
        self.assertGreater(self.base, 0)
        self.assertLess(self.rows, UPDATES)

    def test_model_export_names_a_version_that_is_gone(self):
        gone = self.say("model", "export", "--version", self.base - 1, "--out", self.home / "gone.npy")
        self.assertEqual(gone.returncode, 7, gone.stderr)
        self.assertIn(f"version {self.base - 1} of run 1 was dropped, with all records before version {self.base}",
                      gone.stderr)
        self.assertIn("server.journal_keep", gone.stderr)
        for version in (self.base, self.base + 1, self.last):
            done = self.say("model", "export", "--version", version, "--out", self.home / "model.npy")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"digest={self.made['digest']}", done.stdout)

    def test_a_lineage_begins_where_the_journal_does(self):
        out = self.home / "lineage.json"
        gone = self.say("run", "export", "--version", self.base, "--out", out)
        self.assertEqual(gone.returncode, 7, gone.stderr)
        self.assertIn(f"the lineage of version {self.base} of run 1 was dropped", gone.stderr)
        done = self.say("run", "export", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        head = out.read_text(encoding="utf-8").splitlines()[0]
        self.assertIn(f'"dropped":{{"before_version":{self.base},"records":{self.first - 1}', head)
        self.assertEqual(self.say("run", "export", "--check", "--out", out).returncode, 0)
        out.write_text(out.read_text(encoding="utf-8").replace(f'"records":{self.first - 1}', '"records":2', 1),
                       encoding="utf-8")
        check = self.say("run", "export", "--check", "--out", out)
        self.assertEqual(check.returncode, 7)
        self.assertIn(f"cannot be proven: the records before version {self.base} of run 1 were dropped", check.stderr)

    def test_history_says_what_its_table_lacks(self):
        done = self.say("history")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"history up to version {self.base} of run 1 was dropped", done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[1].split(",")[0], str(self.base + 1))
        self.assertEqual(lines[1].split(",")[3], str(DEVICES))
        self.assertEqual(len(lines), 1 + self.last - self.base)

    def test_status_counts_what_was_dropped(self):
        done = self.say("status")
        self.assertEqual(done.returncode, 0, done.stderr)
        devices = [fleet.fields(line) for line in done.stdout.splitlines() if line.startswith("device=")]
        self.assertEqual(len(devices), DEVICES)
        for device in devices:
            self.assertEqual(device["folded"], str(UPDATES // DEVICES))
            self.assertEqual(device["tasks"], str(UPDATES // DEVICES))
        self.assertIn(f"version={self.last}", done.stdout)

    def test_a_server_begins_at_the_checkpoint(self):
        seconds, digest = bench_restart.start(self.config)
        self.assertGreater(seconds, 0)
        self.assertEqual(digest, self.made["digest"])


if __name__ == "__main__":
    unittest.main()
