#!/usr/bin/python3
"""Several devices in one process, by the C interface on Linux, against a server on 127.0.0.1.

    several_devices_test.py PROGRAM SEVERAL_DEVICES

Two and eight devices of one process reach the digest that two and eight processes reach. A ninth one beside the eight,
whom the server does not know, is refused with words and does not touch them.
"""

import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM = None
DEVICES = None
SECONDS_MAX = 60
ROUNDS = 4
NAMES = [f"unit-{letter}" for letter in "abcdefgh"]
CONFIG = """[server]
listen = "127.0.0.1:0"
database = "{home}/gs.db"
limits.store_delay_ms = 1
[run]
name = "several"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
seed = 11
device_count = {count}
round_count = {rounds}
retry_min_ms = 5
retry_max_ms = 15
"""


def program(*words):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class SeveralDevices(unittest.TestCase):
    def train(self, count, groups, stranger=False):
        """{name: (version, updates, digest, finished, fault)} of devices in processes of their own, group by group."""
        names = NAMES[:count]
        with tempfile.TemporaryDirectory(prefix="gradstream-several-") as folder:
            home = pathlib.Path(folder)
            config = home / "run.toml"
            config.write_text(CONFIG.format(home=home, count=count, rounds=ROUNDS), encoding="utf-8")
            for name in names:
                program(PROGRAM, "device", "add", name, "--config", config, "--out", home / name)
            if stranger:
                text = (home / names[0]).read_text(encoding="utf-8")
                (home / "stranger").write_text(text.replace(names[0], "stranger"), encoding="utf-8")
            server = subprocess.Popen([PROGRAM, "serve", "--create", "--config", config], stderr=subprocess.PIPE,
                                      text=True)
            watchdog = threading.Timer(SECONDS_MAX, server.kill)
            watchdog.start()
            reader = threading.Thread(target=lambda: None)
            try:
                line = next(line for line in server.stderr if "event=listening" in line)
                reader = threading.Thread(target=server.stderr.read)
                address = "127.0.0.1:" + re.search(r"port=(\d+)", line)[1]
                processes = [subprocess.Popen(
                    [DEVICES, address, *(home / name for name in group), *([home / "stranger"] if stranger else [])],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for group in groups(names)]
                reader.start()
                said = [process.communicate(timeout=SECONDS_MAX)[0] for process in processes]
                self.assertEqual([process.returncode for process in processes], [0] * len(processes), said)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(SECONDS_MAX)
                watchdog.cancel()
                if reader.ident is not None:
                    reader.join()
                server.stderr.close()
        found = re.findall(r'^device=(\S+) version=(\d+) folded=(\d+) digest=(\S+) finished=(\d) fault="(.*)"$',
                           "".join(said), re.M)
        return {name: tuple(rest) for name, *rest in found}

    def test_digests_are_those_of_separate_processes(self):
        for count in (2, 8):
            together = self.train(count, lambda names: [names], stranger=count == 8)
            apart = self.train(count, lambda names: [[name] for name in names])
            if count == 8:
                refused = together.pop("stranger")
                self.assertEqual(refused[:4], ("0", "0", "0" * 16, "0"))
                self.assertIn("identity", refused[4])
            self.assertEqual(sorted(apart), NAMES[:count])
            self.assertEqual(together, apart)
            digests = {rest[2] for rest in apart.values()}
            self.assertEqual(len(digests), 1, apart)
            self.assertEqual({rest[:2] for rest in apart.values()}, {(str(ROUNDS), str(ROUNDS))}, apart)

    def test_usage(self):
        done = subprocess.run([DEVICES], stderr=subprocess.PIPE, text=True, check=False, timeout=SECONDS_MAX)
        self.assertEqual((done.returncode, done.stderr), (2, "usage: several_devices HOST:PORT IDENTITY...\n"))
        done = subprocess.run([DEVICES, "nowhere", "none"], stderr=subprocess.PIPE, text=True, check=False,
                              timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    PROGRAM, DEVICES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
