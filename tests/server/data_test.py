#!/usr/bin/python3
"""Data as users bring them: `gradstream data pack`, `data show`, and gradstream-client --data with a table.

    data_test.py PROGRAM CLIENT
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
import unittest

PROGRAM = None
CLIENT = None
SECONDS_MAX = 60
OK, USAGE, FILE = 0, 2, 8

CONFIG_TEXT = """
[server]
listen = "127.0.0.1:0"
database = "{home}/test.db"
[run]
name = "test"
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
manifold = "stiefel"
rows = 3
cols = 1
direction_count = 2
device_count = 2
round_count = 1
"""


def run(*arguments):
    return subprocess.run([str(word) for word in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=SECONDS_MAX, check=False)


def npy(rows):
    """float32 in C order."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}\n".encode()
    return (b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header
            + b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows))


class DataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.out = self.home / "shards"

    def write(self, name, content):
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def pack(self, code, *arguments, words=()):
        done = run(PROGRAM, "data", "pack", *arguments, "--out-folder", self.out)
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)
        return done.stdout

    def refused(self, *arguments, words, code=FILE):
        """Nothing is written where a pack is refused."""
        before = sorted(self.out.rglob("*")) if self.out.exists() else None
        self.pack(code, *arguments, words=words)
        self.assertEqual(sorted(self.out.rglob("*")) if self.out.exists() else None, before)

    def test_floats(self):
        table = self.write("a.csv", "x;y\r\n1,5;2\r\n-3;4,25\r\n")
        array = self.write("b.npy", npy([[5, 6]]))
        said = self.pack(OK, table, array, words=("decimal=comma", "header=yes", "least=-3", "samples=1"))
        self.assertEqual(len(said.splitlines()), 2)
        self.assertEqual((self.out / "a.gsd").read_bytes(), struct.pack("<4sIII4f", b"GSD2", 2, 2, 0, 1.5, 2, -3, 4.25))
        self.assertEqual((self.out / "b.gsd").read_bytes(), struct.pack("<4sIII2f", b"GSD2", 1, 2, 0, 5, 6))
        self.refused(table, words=("a.gsd is there already", "--force"))
        self.write("a.csv", "1,2\n")
        self.pack(OK, table, "--force")
        self.assertEqual((self.out / "a.gsd").read_bytes(), struct.pack("<4sIII2f", b"GSD2", 1, 2, 0, 1, 2))
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["a.gsd", "b.gsd"])

    def test_bytes_share_one_scale(self):
        first = self.write("a.csv", "x,y,z\n0,10,1\n51,10,1\n")
        second = self.write("b.csv", "x,y,z\n255,20,1\n0,10,1\n")
        said = self.pack(OK, first, second, "--bytes", "--format", "json")
        lines = [json.loads(line) for line in said.splitlines()]
        self.assertEqual([line["format"] for line in lines], ["GSD1", "GSD1"])
        self.assertEqual([line["step"] for line in lines], [1, 1])
        self.assertEqual(lines[0]["constant"], ["y", "z"])
        self.assertEqual(lines[1]["coarse"], ["y"])
        self.assertEqual((self.out / "b.gsd").read_bytes(),
                         struct.pack("<4sIIf3f", b"GSD1", 2, 3, 1, 0, -10, -1) + bytes([255, 10, 0, 0, 0, 0]))
        self.refused(self.write("c.csv", "-3e38,3e38\n3e38,1\n"), "--bytes", words=("scale the data down",))
        self.refused(self.write("c.csv", "3.4e38,0\n3.4e38,3e38\n"), "--bytes", words=("scale the data down",))
        self.refused(self.write("c.csv", "0,1e-45\n1e-45,0\n"), "--bytes", words=("scale the data up",))
        self.refused(self.write("c.csv", "0,1\n0.5,2\n"), "--bytes", "--error", "1e-9", words=("--error allows",))

    def test_labels(self):
        first, second = self.write("a.csv", "k,x\nb,1\na,2\n"), self.write("b.csv", "k,x\nc,3\nb,4\n")
        said = self.pack(OK, first, second, "--label", "k")
        self.assertIn("class=a label=0 samples=1\nclass=b label=1 samples=2\nclass=c label=2 samples=1\n", said)
        self.assertEqual((self.out / "b.gsd").read_bytes(), struct.pack("<4sIII4f", b"GSD2", 2, 2, 0, 3, 2, 4, 1))
        self.pack(OK, first, second, "--label", "1", "--bytes", "--scale", "1", "--offset", "0", "--force")
        self.assertEqual((self.out / "b.gsd").read_bytes(),
                         struct.pack("<4sIIIff", b"GSD3", 2, 2, 3, 1, 0) + bytes([3, 2, 4, 1]))
        signs = self.write("s.csv", "1,-1\n2,1\n")
        self.refused(signs, "--label", "2", "--bytes", words=("sample 1 (from 1) has the label -1", "--map-labels"))
        self.pack(OK, signs, "--label", "2", "--bytes", "--map-labels", words=("class=-1 label=0", "class=1 label=1"))
        self.refused(self.write("t.csv", "1,3\n"), "--label", "2", "--classes", "3", words=("label 3", "0 to 2"))
        self.pack(OK, self.write("u.csv", "1,0.25\n"), "--label", "2")  # the target of a regression
        many = self.write("m.csv", "".join(f"1,w{i}\n" for i in range(257)))
        self.refused(many, "--label", "2", words=("257 different values", "256"))
        self.refused(first, "--map-labels", words=("--label",), code=USAGE)
        self.refused(first, "--scale", "1", words=("--bytes and --label",), code=USAGE)

    def test_labels_keep_their_digits(self):
        large = self.write("a.csv", "x,k\n1,100000001\n2,100000003\n3,100000002\n4,9007199254740993\n")
        self.refused(large, "--label", "k", words=("sample 1 (from 1)", "100000001", "16777216", "--map-labels"))
        self.pack(OK, large, "--label", "k", "--map-labels", words=(
            "class=100000001 label=0", "class=100000002 label=1", "class=100000003 label=2",
            "class=9007199254740993 label=3"))
        done = run(PROGRAM, "data", "show", large, "--label", "k")
        self.assertIn("class=100000002 samples=1\n", done.stdout)
        forms = self.write("b.csv", "x,k\n1,1\n2,1.0\n3,01\n")
        words = self.write("c.csv", "x,k\n1,a\n")
        self.pack(OK, forms, words, "--label", "k", words=("class=1 label=0 samples=3\nclass=a label=1 samples=1\n",))
        three = self.write("d.csv", "x,k\n1,a\n2,b\n3,c\n")
        self.refused(three, "--label", "k", "--classes", "2", words=("3 classes", "`c`", "--classes 3"))

    def test_columns_are_those_of_the_file(self):
        table = self.write("a.csv", "5,0,7,1\n5,0,7,2\n")
        said = self.pack(OK, table, "--label", "2")
        self.assertIn(" constant=1,3 ", said)
        done = run(PROGRAM, "data", "show", table, "--label", "2")
        self.assertIn(" constant=1,3 ", done.stdout)
        self.assertEqual(re.findall(r"^column=(\d)", done.stdout, re.MULTILINE), ["1", "3", "4", "2"])
        self.refused(self.write("c.csv", "x,k,y\n1,a,2\n"), self.write("d.csv", "x,k,z\n1,a,2\n"), "--label", "k",
                     words=("d.csv: column 3 is `z`", "`y`"))
        words = self.write("b.csv", "x,k\n1,a\n2,b\n")
        self.assertNotIn("constant=k", run(PROGRAM, "data", "show", words, "--label", "k").stdout)
        self.assertNotIn("constant=k", self.pack(OK, words, "--label", "k"))

    def test_numbers_of_options(self):
        table = self.write("a.csv", "1,0\n5,1\n")
        for name, value in (("--error", "nan"), ("--error", "-1"), ("--scale", "nan"), ("--offset", "nan"),
                            ("--offset", "inf"), ("--scale", "0")):
            self.refused(table, "--bytes", "--label", "2", f"{name}={value}", words=(name,), code=USAGE)
        for value in ("100", "-1000"):
            self.refused(table, "--bytes", "--label", "2", "--scale", "1", f"--offset={value}",
                         words=("all values, from 1 to 5, would become byte", "--offset", value))

    def test_decimal_signs(self):
        german = self.write("a.csv", "a;b\n999;5\n1.000;6\n12.345;7\n")
        self.refused(german, words=("a.csv, row 3, column 1 (`a`)", "`1.000`", "thousands", "--decimal point"))
        self.pack(OK, german, "--decimal", "point")
        self.pack(OK, self.write("f.csv", "3 x 4\na;b\n1,000;2\n12,345;3\n"), "--decimal=comma", "--skip-rows=1")
        self.refused(self.write("b.csv", "1,5;2\n"), self.write("c.csv", "1;2\n"), self.write("d.csv", "1.000;2\n"),
                     words=("d.csv has a point as the decimal sign", "b.csv has a comma", "one decimal sign"))
        one = [self.write(f"{name}.csv", f"999;{value}\n") for name, value in (("h", "1.000"), ("i", "12.345"))]
        self.refused(*one, words=("h.csv and ", "i.csv have a number each whose point", "--decimal point"))
        self.pack(OK, *one, self.write("j.csv", "1;0.5\n"))
        english = self.write("g.csv", "1.5,2\n")  # a point between commas is no thousand
        self.pack(OK, self.home / "b.csv", english)
        done = run(PROGRAM, "data", "show", self.write("e.csv", "150,4,setosa\n1,2,0\n3,4,1\n"), "--skip-rows", "1")
        self.assertIn("samples=2 dimension=3", done.stdout)

    def test_foreign_parts_stay(self):
        """What another has beside the shards is neither written, opened nor removed."""
        self.out.mkdir()
        mine = self.out / "a.gsd.part"
        mine.write_bytes(b"mine")
        os.mkfifo(self.out / "b.gsd.part")
        (self.out / "c.gsd.part").symlink_to(mine)
        files = [self.write(f"{name}.csv", "1,2\n") for name in "abc"]
        coarse = self.write("d.csv", "1,1000000\n1,777\n")
        self.refused(*files, coarse, "--bytes", "--error", "1e-9", words=("--error allows",))
        self.pack(OK, *files)
        self.assertEqual(mine.read_bytes(), b"mine")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()),
                         ["a.gsd", "a.gsd.part", "b.gsd", "b.gsd.part", "c.gsd", "c.gsd.part"])

    def test_all_or_none(self):
        good = self.write("a.csv", "x,y\n1,2\n")
        for name, text, words in (("b.csv", "x,y\n1,NA\n", ("b.csv, row 2, column 2 (`y`)", "missing", "nothing was")),
                                  ("b.csv", "1,2,3\n", ("b.csv has 3 columns", "a.csv has 2")),
                                  ("b.csv", "y,x\n1,2\n", ("b.csv: column 1", "`y`", "`x`", "one order")),
                                  ("b.csv", "", ("b.csv is empty",)),
                                  ("b.gsd", struct.pack("<4sIII", b"GSD2", 1, 1, 0), ("is a shard already",)),
                                  ("c/a.csv", "x,y\n1,2\n", ("would both become",))):
            self.refused(good, self.write(name, text), words=words, code=USAGE if "/" in name else FILE)
        nameless = self.write("0.csv", "1,2\n")
        self.refused(nameless, good, self.write("b.csv", "y,x\n1,2\n"), words=("b.csv: column 1", "a.csv", "one order"))
        self.refused(self.write("l.csv", b"Gr\xfc\xdfe,y\n1,2\n"), words=("l.csv, row 1: ", "CSV UTF-8"))
        self.refused(good, self.home / "none.csv", words=("none.csv cannot be read: No such file",))
        self.refused(good, "--delimiter", "|", words=("--delimiter '|'", "semicolon"), code=USAGE)
        self.refused(good, "--label", "", words=("--label", "empty"), code=USAGE)
        done = run(PROGRAM, "data", "pack", good, "--out-folder", "")
        self.assertEqual((done.returncode, "--out-folder" in done.stderr), (USAGE, True), done.stderr)
        self.out.write_bytes(b"a file")
        self.pack(FILE, good, words=("cannot write", "Not a directory", "nothing was written"))
        self.assertEqual(self.out.read_bytes(), b"a file")

    def test_show(self):
        table = self.write("a.csv", "x,y,k\n4,4,a\n-4,-4,b\n2,-2,a\n-2,2,a\n")
        done = run(PROGRAM, "data", "show", table, "--label", "k", "--format", "json")
        self.assertEqual(done.returncode, OK, done.stderr)
        head, x, _, k, a, b, spectrum = map(json.loads, done.stdout.splitlines())
        self.assertEqual((head["samples"], head["dimension"], head["least"], head["greatest"]), (4, 3, -4, 4))
        self.assertEqual((x["name"], x["mean"], x["constant"], k["label"]), ("x", 0, False, True))
        self.assertEqual((a["class"], a["samples"], b["samples"]), ("a", 3, 1))
        self.assertEqual(spectrum, {"eigenvalues_centred": [16, 4], "eigenvalues_raw": [16, 4]})
        self.pack(OK, table, "--label", "k")
        done = run(PROGRAM, "data", "show", self.out / "a.gsd", self.write("b.npy", npy([[1, 2]])))
        self.assertIn("format=GSD2 samples=4 dimension=3", done.stdout)
        self.assertIn("format=npy samples=1 dimension=2", done.stdout)
        done = run(PROGRAM, "data", "show", table)
        self.assertEqual(done.returncode, FILE)
        self.assertIn("row 2, column 3 (`k`): `a` is no number", done.stderr)

    def test_tables_train(self):
        """Two clients, one with CSV and one with .npy, and the same model as with shards of the same values."""
        rows = [[(7 * i + 3 * j) % 11 / 11 for j in range(3)] for i in range(12)]
        text = "a;b;c\n" + "".join(";".join(repr(value).replace(".", ",") for value in row) + "\n" for row in rows)
        table, array = self.write("one.csv", text), self.write("two.npy", npy(rows))
        self.pack(OK, table, array)
        digests = set()
        for data in ((table, array), (self.out / "one.gsd", self.out / "two.gsd")):
            digests.add(self.train(data))
        self.assertEqual(len(digests), 1, digests)

    def train(self, data):
        """The digest of version 1."""
        config = self.write("server.toml", CONFIG_TEXT.format(home=self.home))
        (self.home / "test.db").unlink(missing_ok=True)
        identities = [self.home / f"{name}.identity" for name in ("one", "two")]
        for identity in identities:
            identity.unlink(missing_ok=True)
            done = run(PROGRAM, "device", "add", identity.stem, "--config", config, "--out", identity)
            self.assertEqual(done.returncode, OK, done.stderr)
        server = subprocess.Popen([PROGRAM, "serve", "--config", config], stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(SECONDS_MAX, server.kill)
        watchdog.start()
        try:
            line = next(line for line in server.stderr if "event=listening" in line)
            address = "127.0.0.1:" + re.search(r"port=(\d+)", line)[1]
            clients = [subprocess.Popen([CLIENT, "--server", address, "--identity", identity, "--data", path,
                                         "--no-floors", "--until-finished"], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
                       for identity, path in zip(identities, data)]
            said = [client.communicate(timeout=SECONDS_MAX)[0] for client in clients]
            for client, text, path in zip(clients, said, data):
                self.assertEqual(client.returncode, OK, text)
                self.assertEqual("event=table samples=12 dimension=3" in text, path.suffix != ".gsd", text)
            return re.search(r"event=finished version=1 digest=(\w+)", said[0])[1]
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate()
            watchdog.cancel()


if __name__ == "__main__":
    PROGRAM, CLIENT = sys.argv[1:3]
    os.environ.pop("GRADSTREAM_CONFIG", None)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
