"""./run shard: tables become shards of floats or of bytes with labels, and a bad table is refused by its place."""

import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(folder, table, *options):
    """The tool's exit status, all that it says, and the shard."""
    (folder / "table.csv").write_text(table, encoding="utf-8")
    out = folder / "out.gsd"
    out.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, "-B", ROOT / "tools" / "shard.py", folder / "table.csv", out, *options],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout, out.read_bytes() if out.exists() else None


def expect_refused(folder, table, words, *options):
    code, said, shard = run(folder, table, *options)
    assert code == 1 and shard is None, said
    for word in words:
        assert word in said, (word, said)


def check_floats(folder):
    code, said, shard = run(folder, "x,y\n1,2.5\n-3,4\n", "--header")
    assert code == 0 and "samples=2 values=2" in said, said
    assert shard == struct.pack("<4sIII4f", b"GSD2", 2, 2, 0, 1, 2.5, -3, 4)


def check_labelled(folder):
    code, said, shard = run(folder, "0,127.5,1\n255,51,0\n", "--kind", "labelled", "--scale", "1", "--offset", "0")
    assert code == 0 and "error=0.5" in said, said
    assert shard == struct.pack("<4sIIIff", b"GSD3", 2, 3, 2, 1, 0) + bytes([0, 128, 1, 255, 51, 0])
    code, said, shard = run(folder, "-1,1,7\n0,0.5,3\n", "--kind", "labelled")
    assert code == 0, said
    count, dimension, classes, scale, offset = struct.unpack("<IIIff", shard[4:24])
    assert (count, dimension, classes, offset) == (2, 3, 8, -1), said
    values = [byte * scale + offset for byte in shard[24:26]]
    assert abs(values[0] + 1) < 1e-6 and abs(values[1] - 1) < 1e-6 and shard[26] == 7
    code, said, shard = run(folder, "2,2,0\n2,2,1\n", "--kind", "labelled")  # a table of one value
    assert code == 0 and shard[24:] == bytes([0, 0, 0, 0, 0, 1]), said


def check_faults(folder):
    expect_refused(folder, "1,2\n3\n", ("row 2 has 1 values", "have 2"))
    expect_refused(folder, "1,2\n3,\n", ("row 2, column 2", "no finite float"))
    expect_refused(folder, "1,nan\n", ("row 1, column 2", "fill the gap"))
    expect_refused(folder, "1,1e39\n", ("row 1, column 2",))
    expect_refused(folder, "", ("0 samples", "1 to 65535"))
    expect_refused(folder, "1,2.5\n", ("sample 1", "label 2.5", "relabel"), "--kind", "labelled")
    expect_refused(folder, "1,0\n1,-1\n", ("sample 2", "label -1"), "--kind", "labelled")
    expect_refused(folder, "1,0\n1,256\n", ("label 256", "0 to 255"), "--kind", "labelled")
    expect_refused(folder, "1,0\n1,3\n", ("label 3", "0 to 2"), "--kind", "labelled", "--classes", "3")
    expect_refused(folder, "1,0\n", ("--classes 300", "2 to 256"), "--kind", "labelled", "--classes", "300")
    expect_refused(folder, "1\n", ("2 values at least",), "--kind", "labelled")
    expect_refused(folder, "0,100,1\n", ("up to", "--error allows"), "--kind", "labelled", "--scale", "10", "--offset",
                   "5", "--error", "0.1")
    expect_refused(folder, "-3e38,3e38,1\n", ("byte 255",), "--kind", "labelled", "--scale", "3e38")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_floats(folder)
        check_labelled(folder)
        check_faults(folder)


if __name__ == "__main__":
    main()
