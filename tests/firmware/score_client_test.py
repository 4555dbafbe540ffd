#!/usr/bin/python3
"""gradstream-client --score: the scores of a table by the model in the state are numpy's by the exported model.

    score_client_test.py PROGRAM CLIENT
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "use_model.md"
PROGRAM = None
CLIENT = None
SECONDS_MAX = 100
OK, USAGE, IDENTITY, DATA, NO_TASK = 0, 2, 3, 4, 9
SETTINGS = {"GRADSTREAM_SERVER_LISTEN": "127.0.0.1:0", "GRADSTREAM_SERVER_LIMITS_STORE_DELAY_MS": "1",
            "GRADSTREAM_RUN_ROUND_COUNT": "8", "GRADSTREAM_RUN_RETRY_MIN_MS": "5", "GRADSTREAM_RUN_RETRY_MAX_MS": "15"}
RELATIVE_MAX = 1e-5
QUANTILE = 0.9


def pump(offset, count=40):
    """A table with a plane of two dimensions in five columns, as it is measured: means of 7 to 1,000."""
    rows = []
    for i in range(count):
        a, b = (7 * i + offset) % 13 - 6, (5 * i + 3 * offset) % 11 - 5
        noise = ((3 * i + offset) % 7 - 3) / 5
        rows.append((1000 + 10 * a, 500 + 9 * b, 20 + 8 * (a + b) + noise, 300 + 7 * (a - b), 7 + noise))
    return "flow,wear,heat,power,noise\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)


class ScoreClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.home = pathlib.Path(folder.name)
        cls.environment = {name: value for name, value in os.environ.items() if name != "GRADSTREAM_CONFIG"} | SETTINGS
        for offset, name in enumerate("ab"):
            cls.write(f"{name}.csv", pump(offset))
        cls.write("new.csv", pump(5, 25).replace("7.0\n", "9.5\n"))
        text = cls.program("run", "suggest", "--data", "a.csv", "--problem", "kpca", "--cols", "2", "--devices", "2")
        cls.write("run.toml", text)
        for name in "ab":
            cls.program("device", "add", name, "--config", "run.toml", "--out", f"{name}.identity")
        cls.train()
        cls.program("model", "export", "--config", "run.toml", "--out", "model.npz")

    @classmethod
    def write(cls, name, text):
        (cls.home / name).write_text(text, encoding="utf-8")

    @classmethod
    def program(cls, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=cls.home, env=cls.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
        assert done.returncode == OK, done.stdout + done.stderr
        return done.stdout

    @classmethod
    def train(cls):
        server = subprocess.Popen([PROGRAM, "serve", "--config", "run.toml"], cwd=cls.home, env=cls.environment,
                                  stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(SECONDS_MAX, server.kill)
        watchdog.start()
        reader = None
        try:
            line = next(line for line in server.stderr if "event=listening" in line)
            reader = threading.Thread(target=server.stderr.read)
            reader.start()
            address = "127.0.0.1:" + re.search(r"port=(\d+)", line)[1]
            clients = [subprocess.Popen(
                [CLIENT, "--server", address, "--identity", f"{name}.identity", "--data", f"{name}.csv", "--state",
                 "state", "--until-finished"], cwd=cls.home, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT) for name in "ab"]
            said = [client.communicate(timeout=SECONDS_MAX)[0] for client in clients]
            assert [client.returncode for client in clients] == [OK] * 2, said[0][-3000:]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(SECONDS_MAX)
            watchdog.cancel()
            if reader is not None:
                reader.join()
            server.stderr.close()

    def score(self, code, *arguments, words=(), identity="a", state="state"):
        """What is printed."""
        done = subprocess.run([CLIENT, "--identity", f"{identity}.identity", "--state", state, *map(str, arguments)],
                              cwd=self.home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        if code != OK:
            self.assertEqual(done.stdout, "")
        return done.stdout

    def rows(self, text, header):
        lines = text.splitlines()
        self.assertEqual(lines[0], header)
        found = [line.split(",") for line in lines[1:]]
        self.assertEqual([int(row[0]) for row in found], list(range(1, len(found) + 1)))
        return found

    def test_scores_are_those_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        run = numpy.load(self.home / "model.npz")
        self.assertEqual(str(run["problem"]), "kpca")
        self.assertEqual(set(run.files), {"model", "mean", "scale", "problem", "digest", "run", "version"})

        def scores_of(name):
            samples = numpy.loadtxt(self.home / name, delimiter=",", skiprows=1, ndmin=2)
            z = (samples - run["mean"]) * run["scale"]
            return numpy.linalg.norm(z - z @ run["model"] @ run["model"].T, axis=1)

        wanted = scores_of("new.csv")
        found = self.rows(self.score(OK, "--score", "new.csv"), "row,score")
        self.assertEqual(len(found), 25)
        for row, score in zip(found, wanted):
            self.assertLessEqual(abs(float(row[1]) - score), RELATIVE_MAX * score, row)
        threshold = numpy.quantile(scores_of("a.csv"), QUANTILE, method="higher")
        text = self.score(OK, "--score", "new.csv", "--threshold", QUANTILE, "--data", "a.csv",
                          words=("event=threshold quantile=0.9 value=",))
        found = self.rows(text, "row,score,alarm")
        self.assertEqual([int(row[2]) for row in found], [int(score > threshold) for score in wanted])
        self.assertTrue(0 < sum(wanted > threshold) < len(wanted), "some alarms, and not all")

    def test_the_page(self):
        """Its commands, and its lines for NumPy."""
        text = PAGE.read_text(encoding="utf-8")
        commands, = re.findall(r"(?ms)^```\n(gradstream-client .*?)^```$", text)
        (self.home / "bin").mkdir()
        (self.home / "bin" / "gradstream-client").symlink_to(CLIENT)
        path = f"{self.home / 'bin'}:{os.environ['PATH']}"
        subprocess.run(["/bin/sh", "-e", "-c", commands], cwd=self.home, env=dict(os.environ, PATH=path), check=True,
                       stderr=subprocess.DEVNULL, timeout=SECONDS_MAX)
        scores = self.rows((self.home / "scores.csv").read_text(encoding="utf-8"), "row,score")
        alarms = self.rows((self.home / "alarms.csv").read_text(encoding="utf-8"), "row,score,alarm")
        self.assertEqual([row[:2] for row in alarms], scores)
        script, = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
        done = subprocess.run([sys.executable, "-c", script], cwd=self.home, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
        if "No module named 'numpy'" in done.stderr:
            self.skipTest("NumPy is not installed")
        for line, row in zip(done.stdout.splitlines(), scores, strict=True):
            self.assertLessEqual(abs(float(line.split(",")[1]) - float(row[1])), RELATIVE_MAX * float(row[1]), row)

    def test_no_model(self):
        self.score(NO_TASK, "--score", "new.csv", state="elsewhere", words=("a.state is not there", "--state"))
        self.score(USAGE, "--score", "new.csv", state="none", words=("--score wants --state",))
        (self.home / "stolen").mkdir()
        shutil.copy(self.home / "state" / "a.state", self.home / "stolen" / "b.state")
        self.score(NO_TASK, "--score", "new.csv", identity="b", state="stolen",
                   words=("of another identity", "has no model"))
        state = bytearray((self.home / "state" / "a.state").read_bytes())
        state[40] ^= 1
        (self.home / "stolen" / "a.state").write_bytes(state)
        self.score(NO_TASK, "--score", "new.csv", state="stolen", words=("is damaged", "has no model"))

    def test_other_data(self):
        self.write("narrow.csv", "x,y\n1,2\n3,4\n")
        self.score(DATA, "--score", "narrow.csv", words=("5 rows and 2 columns", "samples of 2 values"))
        self.score(DATA, "--score", "narrow.csv", "--data", "a.csv", "--threshold", 0.5,
                   words=("narrow.csv has samples of 2 values", "have 5"))
        self.write("nan.csv", "a,b,c,d,e\n1,2,3,4,5\n1,nan,3,4,5\n")
        self.score(DATA, "--score", "nan.csv", words=("row 3, column 2",))
        self.write("large.csv", "a,b,c,d,e\n1,2,3,4,5\n1,3e38,3,4,5\n")
        self.score(DATA, "--score", "large.csv", words=("sample 2 (from 1) has no score",))
        self.score(DATA, "--score", "none.csv", words=("none.csv",))
        self.write("turned.csv", "wear,flow,heat,power,noise\n1,2,3,4,5\n1,3,3,4,5\n")
        self.score(DATA, "--score", "turned.csv", "--data", "a.csv", "--threshold", 0.5,
                   words=("turned.csv has the column `wear` where a.csv has `flow`",))

    def test_another_problem(self):
        """A table that fits by its length: five features and a label, or two targets."""
        self.write("labels.csv", "a,b,c,d,e,label\n1,2,3,4,5,1\n1,2,3,4,6,0\n")
        self.score(DATA, "--score", "labels.csv", "--problem", "logistic", words=("no model of logistic", "--problem"))
        self.write("targets.csv", "a,b,c,d,e,y,z\n1,2,3,4,5,1,2\n")
        self.score(DATA, "--score", "targets.csv", "--problem", "least_squares", words=("no model of least_squares",))
        self.score(DATA, "--score", "new.csv", "--problem", "least_squares", words=("no model of least_squares",))

    def test_command_line(self):
        self.score(USAGE, "--score", "new.csv", "--threshold", 0.9, words=("--threshold wants --data",))
        self.score(USAGE, "--score", "new.csv", "--threshold", 1.5, "--data", "a.csv", words=("--threshold",))
        self.score(USAGE, "--threshold", 0.5, "--data", "a.csv", words=("--score",))
        self.score(USAGE, "--score", "new.csv", "--threshold", 0, "--data", "a.csv", words=("a quantile above 0",))
        self.score(USAGE, "--score", "new.csv", "--server", "127.0.0.1:9", words=("--score",))
        self.score(IDENTITY, "--score", "new.csv", identity="nobody", words=("nobody.identity",))


if __name__ == "__main__":
    PROGRAM, CLIENT = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
