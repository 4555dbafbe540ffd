#!/usr/bin/python3
"""docs/own_data.md as it stands: from tables to a model and its score, and what `run suggest` says and refuses.

    own_data_test.py PROGRAM CLIENT
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "own_data.md"
PROGRAM = None
CLIENT = None
SECONDS_MAX = 100
OK, USAGE, FILE = 0, 2, 8
ROUNDS = 60
SCORE_MAX = 0.2  # samples have a length of 1 without their units, of which a model of chance leaves three quarters
# The page's commands use defaults. A test has no place for the port, and no time for the windows and the rounds.
SETTINGS = {"GRADSTREAM_SERVER_LISTEN": "127.0.0.1:0", "GRADSTREAM_SERVER_LIMITS_STORE_DELAY_MS": "1",
            "GRADSTREAM_RUN_ROUND_COUNT": str(ROUNDS), "GRADSTREAM_RUN_RETRY_MIN_MS": "5",
            "GRADSTREAM_RUN_RETRY_MAX_MS": "15"}


def blocks(language=""):
    """The code blocks of the page, without the blanks that a list puts before them."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return ["".join(line[len(indent):] + "\n" for line in text.splitlines()) for indent, text in found]


def pump(offset, count=40):
    """A table with a plane of two dimensions in five columns, as it is measured: means of 7 to 1,000."""
    rows = []
    for i in range(count):
        a, b = (7 * i + offset) % 13 - 6, (5 * i + 3 * offset) % 11 - 5
        noise = ((3 * i + offset) % 7 - 3) / 50
        rows.append((1000 + 10 * a, 500 + 9 * b, 20 + 8 * (a + b) + noise, 300 + 7 * (a - b), 7 + noise))
    return "flow,wear,heat,power,noise\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)


class OwnData(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        (self.home / "pumps").mkdir()
        for offset, name in enumerate("abc"):
            (self.home / "pumps" / f"{name}.csv").write_text(pump(offset), encoding="utf-8")
        (self.home / "bin").mkdir()
        (self.home / "bin" / "gradstream").symlink_to(PROGRAM)
        (self.home / "bin" / "gradstream-client").symlink_to(CLIENT)
        self.environment = dict(os.environ, PATH=f"{self.home / 'bin'}:{os.environ['PATH']}") | SETTINGS
        self.environment.pop("GRADSTREAM_CONFIG", None)

    def shell(self, text):
        done = subprocess.run(["/bin/sh", "-e", "-c", text], cwd=self.home, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        return done.stdout

    def suggest(self, code, *arguments, words=()):
        done = subprocess.run([PROGRAM, "run", "suggest", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False, cwd=self.home)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)
        return done.stdout

    def write(self, name, text):
        (self.home / name).write_text(text, encoding="utf-8")
        return name

    def best(self, text):
        return float(re.search(r"^# best_loss = ([-\d.e]+)", text, re.M)[1])

    # ---- The page ----

    def test_the_page_leads_from_tables_to_a_score(self):
        suggest, pack, enrol, serve, train, export = blocks()
        self.shell(suggest)
        self.shell(pack)
        self.shell(enrol)
        self.assertEqual(serve, "gradstream serve --config pumps.toml\n")
        server = subprocess.Popen([PROGRAM, "serve", "--config", "pumps.toml"], cwd=self.home, env=self.environment,
                                  stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(SECONDS_MAX, server.kill)
        watchdog.start()
        reader = None
        try:
            line = next(line for line in server.stderr if "event=listening" in line)
            reader = threading.Thread(target=server.stderr.read)
            reader.start()
            port = re.search(r"port=(\d+)", line)[1]
            clients = [subprocess.Popen(words.replace(":7433", ":" + port).split(), cwd=self.home, text=True,
                                        env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                       for words in train.splitlines()]
            said = [client.communicate(timeout=SECONDS_MAX)[0] for client in clients]
            self.assertEqual([client.returncode for client in clients], [OK] * 3, said[0][-3000:])
            self.assertEqual(len({re.search(r"event=finished .*digest=(\w+)", text)[1] for text in said}), 1)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(SECONDS_MAX)
            watchdog.cancel()
            if reader is not None:
                reader.join()
            server.stderr.close()
        self.assertIn("file=model.npz", self.shell(export))
        score, = blocks("python")
        self.write("score.py", score)
        if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("NumPy is not installed for /usr/bin/python3: the model was made, and not read")
        self.assertLess(float(self.shell("/usr/bin/python3 score.py")), SCORE_MAX)

    # ---- run suggest ----

    def test_a_suggestion_is_a_configuration(self):
        text = self.suggest(OK, "--data", "pumps/a.csv", "--data", "pumps/b.csv", "--problem", "kpca", "--cols", 2,
                            "--devices", 6,
                            words=("# 80 samples of 5 values from 2 files", "# Rounding in float32 moves a loss",
                                   "an estimate errs least at smoothing = "))
        run = tomllib.loads(text)["run"]
        self.assertEqual((run["centre"], run["scale"], run["upload_stream"]), ("federated", "common", "tangent"))
        self.assertEqual((run["name"], run["rows"], run["cols"], run["device_count"]), ("a", 5, 2, 6))
        self.write("run.toml", text)
        self.shell("gradstream serve --check-config run.toml --create > /dev/null")

    def test_least_squares_by_qr(self):
        """The residual of y = 0.6 x + 0.8 e, with x and e of variance 1, is known."""
        table = self.write("line.csv", "x,y\n1,1.4\n1,-0.2\n-1,0.2\n-1,-1.4\n")
        text = self.suggest(OK, "--data", table, "--problem", "least_squares", "--cols", 1, "--devices", 2)
        self.assertAlmostEqual(self.best(text), 0.32, places=5)
        self.assertEqual(tomllib.loads(text)["run"]["manifold"], "euclidean")

    def test_logistic_by_newton_steps(self):
        mixed = "".join(f"{x},{'ab'[x > 4 if x % 3 else x < 4]}\n" for x in range(9))
        table = self.write("mixed.csv", "x,kind\n" + mixed)
        text = self.suggest(OK, "--data", table, "--problem", "logistic", "--label", "kind", "--devices", 2,
                            words=("# label 0 is `a`", "data pack --label"))
        self.assertTrue(0.1 < self.best(text) < 0.6931, text)
        self.assertEqual(tomllib.loads(text)["run"]["cols"], 1)
        self.write("apart.csv", "x,kind\n" + "".join(f"{x},{int(x > 0)}\n" for x in (-4, -3, -2, -1, 1, 2, 3, 4)))
        self.suggest(OK, "--data", "apart.csv", "--problem", "logistic", "--label", "2", "--devices", 2,
                     words=("# best_loss = 0: the classes can be told apart",))
        three = self.write("three.csv", "".join(f"{x % 5},{x % 7},{x % 3}\n" for x in range(30)))
        text = self.suggest(OK, "--data", three, "--problem", "logistic", "--label", "3", "--devices", 2)
        self.assertEqual(tomllib.loads(text)["run"]["cols"], 3)
        self.assertLess(self.best(text), 1.0987)

    def test_what_is_refused(self):
        def refused(text, *arguments, words, code=FILE, problem="kpca", cols=1, devices=2):
            table = self.write("t.csv", text)
            self.suggest(code, "--data", table, "--problem", problem, "--cols", cols, "--devices", devices, *arguments,
                         words=words)

        good = "a,b\n1,2\n3,5\n"
        refused("a,b\n1,2\n", words=("t.csv has 1 sample", "2 at least"))
        refused("a,b\n", words=("t.csv", "no "))
        refused("", words=("t.csv is empty",))
        refused("a,b\n1,2\n1,2\n", words=("all 2 columns are constant", "nothing to learn"))
        refused(good, cols=3, code=USAGE, words=("--cols 3", "2 values a sample", "2 components at most"))
        refused(good, cols=0, code=USAGE, words=("--cols 0",))
        refused(good, cols=2, problem="least_squares", code=USAGE, words=("--cols 2", "1 targets"))
        refused(good, devices=0, code=USAGE, words=("--devices 0", "1 to 2147483648"))
        refused(good, problem="pca", code=USAGE, words=("--problem pca", "kpca"))
        refused(good, problem="perceptron", code=USAGE, words=("expected kpca, least_squares or logistic",))
        refused(good, "--label", "b", code=USAGE, words=("kpca has no labels",))
        refused("a,b\n1,x\n2,y\n", words=("row 2, column 2", "`x` is no number"))
        refused("a,b\n1,0.5\n2,1\n", "--label", "b", problem="logistic",
                words=("sample 1 (from 1) has the label 0.5", "--map-labels"))
        refused("a,b\n1,0\n2,1\n3,2\n", "--label", "b", problem="logistic", code=USAGE,
                words=("--cols 1 tells 2 classes apart", "--cols 3"))
        refused("a,b\n1,0\n2,0\n", "--label", "b", problem="logistic", words=("one class alone",))
        self.write("wide.csv", "a,b,c\n1,2,3\n4,5,7\n")
        self.write("t.csv", good)
        self.suggest(FILE, "--data", "t.csv", "--data", "wide.csv", "--problem", "kpca", "--cols", 1, "--devices", 2,
                     words=("wide.csv has 3 columns, and t.csv has 2",))
        self.write("bare.csv", "1,2\n3,5\n")
        for swapped in ("b,a\n1,2\n3,5\n", "a,c\n1,2\n3,5\n"):
            self.write("swapped.csv", swapped)
            for first in (("bare.csv", "t.csv"), ("t.csv", "bare.csv")):
                files = [word for name in (*first, "swapped.csv") for word in ("--data", name)]
                self.suggest(FILE, *files, "--problem", "kpca", "--cols", 1, "--devices", 2, words=(
                    "swapped.csv: column", "in t.csv it is", "bring the columns into one order"))
        self.suggest(FILE, "--data", "none.csv", "--problem", "kpca", "--cols", 1, "--devices", 2, words=("none.csv",))


if __name__ == "__main__":
    PROGRAM, CLIENT = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
