#!/usr/bin/python3
"""gradstream-client as a process: bad input gets a clear error, its own exit status, and no stack trace.

Usage: posix_client_test.py CLIENT [EMULATOR...]
"""

import datetime
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402

CLIENT = sys.argv[1:2]
EMULATOR = sys.argv[2:]
FLOAT_SHARD = struct.pack("<4sIII", b"GSD2", 4, 3, 0) + struct.pack("<12f", *range(12))
GROUPED_SHARD = struct.pack("<4sIII2I", b"GSD2", 4, 3, 2, 2, 4) + struct.pack("<12f", *range(12))
IDENTITY = "identity = device-1\nkey = " + "07" * 32 + "\n"
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 2, 0.5) + struct.pack("<2f", 0, 0) + bytes(range(8))


def run(arguments, seconds=60):
    return subprocess.run([*EMULATOR, *CLIENT, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds)


class Files:
    """Good files in a folder of their own, and the arguments that name them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.identity = self.write("identity", IDENTITY.encode(), 0o600)
        self.data = self.write("data.gsd", SHARD)

    def write(self, name, content, mode=0o644):
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def arguments(self, **changes):
        chosen = {"server": "127.0.0.1:9", "identity": self.identity, "data": self.data} | changes
        return [part for key, value in chosen.items() if value is not None for part in (f"--{key}", value)]


def expect(done, status, *words):
    assert done.returncode == status, f"exit status {done.returncode}, not {status}:\n{done.stdout}"
    for word in words:
        assert word in done.stdout, f"'{word}' is missing in:\n{done.stdout}"


def check_command_line(files):
    expect(run(["--help"]), 0, "--identity", "exit status")
    expect(run(files.arguments(server=None)), 2, "--server")
    expect(run(files.arguments() + ["--nonsense"]), 2, "--nonsense")
    for server, part in (("localhost", "port"), (":1", "host"), ("host:", "port"), ("host:port", "'port'"),
                         ("host:70000", "'70000'"), ("host:0", "'0'"), ("host:-1", "'-1'"), ("host:1x", "'1x'"),
                         ("host:99999999999999999999", "65535"), ("https://host:7433", "'https://'"),
                         ("::1", "brackets"), ("[::1]", "port"), (" host:7433", "blank"), ("300.1.1.1:1", "IPv4")):
        expect(run(files.arguments(server=server)), 2, "HOST:PORT", server, part)
    for log_time in ("on", "off"):
        expect(run(files.arguments(server="host", **{"log-time": log_time})), 2)
    expect(run(files.arguments(**{"log-time": "never"})), 2, "never")
    expect(run(files.arguments(problem="magic")), 2, "magic")
    expect(run(files.arguments(**{"key-exchange": "rsa"})), 2, "rsa")
    expect(run(files.arguments(power="solar")), 2, "solar", "mains", "battery")
    for number in (0, -1, 65536, "many"):
        expect(run(files.arguments(**{"batch-size-min": number})), 2, "batch-size-min", str(number))
    expect(run(files.arguments(**{"sample-count": "half"})), 2, "half", "bucket", "exact", "none")


def check_files(files):
    expect(run(files.arguments(identity=files.folder / "none")), 3, "none", "No such file", "device add")
    expect(run(files.arguments(identity=files.folder)), 3, "Is a directory", "device add")
    bad = files.write("bad", b"identity = device-1\nkey = 12\n", 0o600)
    expect(run(files.arguments(identity=bad)), 3, "line 2", "device add")
    for text, words in ((IDENTITY.encode("utf-16"), ("UTF-16", "UTF-8")), (b"", ("empty",)),
                        (IDENTITY.replace("device-1", "k\u00fcche").encode(), ("line 1", "ASCII")),
                        (IDENTITY.encode() + b"key = 12\n", ("line 3", "twice"))):
        expect(run(files.arguments(identity=files.write("bad", text, 0o600))), 3, "bad", "device add", *words)
    for text in ("\ufeff" + IDENTITY, IDENTITY.replace("\n", "\r\n"), IDENTITY.replace("\n", "\r"),
                 IDENTITY.replace("\n", " \n\n"), IDENTITY.rstrip()):
        good = files.write("good", text.encode(), 0o600)
        expect(run(files.arguments(identity=good) + ["--once"]), 7, "event=started device=device-1")
    short = files.write("short", b"# nothing\n", 0o600)
    expect(run(files.arguments(identity=short)), 3, "lacks")
    expect(run(files.arguments(data=files.folder / "none.gsd")), 4, "none.gsd", "No such file")
    for content in (b"", b"GSD1", SHARD[:-1], b"PNG" + SHARD):
        expect(run(files.arguments(data=files.write("bad.gsd", content))), 4, "shard", "bad.gsd")
    for content, words in ((b"a,b\n1,x\n", ("row 2, column 2 (`b`)", "`x` is no number")),
                           (b"a,b\n1,\n", ("row 2, column 2 (`b`)", "the value is empty")),
                           (b"a,b\n", ("header line in row 1 and no sample",)),
                           ("a,b\n1,2\n".encode("utf-16"), ("is text in UTF-16; save it as UTF-8",)),
                           ("a,b\n1,2\n".encode("utf-16-le"), ("row 1", "byte 0", "save it as UTF-8")),
                           (b"a,b\n1,\0\n", ("row 2", "byte 0", "save it as UTF-8")),
                           (b"a,b\n1,\xfc\n", ("row 2", "CSV UTF-8")),
                           (b"PK\x03\x04" + bytes(30), (".npz", "numpy.save")),
                           (b"\x1f\x8b" + bytes(30), ("gunzip",)),
                           (b"PAR1" + bytes(30), ("Parquet", "write it as CSV")),
                           (b"\x93NUMPY\x01\0v\0" + bytes(118), (".npy with a header that does not parse",)),
                           (b"\x93NUMPY\x01\0v" + bytes(9), ("truncated .npy",)),
                           (SHARD[:4] + struct.pack("<I", 70000) + SHARD[8:], ("70000", "65535", "fewer")),
                           (SHARD[:4] + struct.pack("<I", 0) + SHARD[8:], ("0 samples", "65535"))):
        expect(run(files.arguments(data=files.write("bad.gsd", content))), 4, "bad.gsd", *words)
    check_float_data(files)
    check_tables(files)
    expect(run(files.arguments(state=files.identity)), 2, "state")
    expect(run(files.arguments(**{"arena-kib": "0"})), 2, "arena-kib")


def check_float_data(files):
    """Float shards: what is wrong with them, and which problem takes which."""
    plain, grouped = files.write("plain.gsd", FLOAT_SHARD), files.write("grouped.gsd", GROUPED_SHARD)
    expect(run(files.arguments(data=files.write("bad.gsd", FLOAT_SHARD[:-1]))), 4, "truncated", "63 bytes", "64")
    bad = FLOAT_SHARD[:16] + struct.pack("<f", float("nan")) + FLOAT_SHARD[20:]
    expect(run(files.arguments(data=files.write("bad.gsd", bad))), 4, "NaN", "sample 1", "value 1")
    bad = FLOAT_SHARD[:4] + struct.pack("<I", 0) + FLOAT_SHARD[8:]
    expect(run(files.arguments(data=files.write("bad.gsd", bad))), 4, "limit")
    expect(run(files.arguments(data=plain, problem="multitask")), 4, "groups", "task")
    expect(run(files.arguments(data=files.data, problem="multitask")), 4, "groups", "task")
    expect(run(files.arguments(data=grouped, problem="kpca")), 4, "only multitask")
    expect(run(files.arguments(data=grouped, problem="multitask", ridge=-1)), 2, "ridge")
    # Labels that no run takes: told to a server that can be reached, and to the user in any case.
    labelled = struct.pack("<4sIII", b"GSD2", 3, 2, 0) + struct.pack("<6f", 1, 0, 2, 1, 3, -1)
    data = files.write("labelled.gsd", labelled)
    named = "sample 3 (from 1) has the label -1"
    expect(run(files.arguments(data=data, problem="logistic")), 4, named, "whole numbers from 0")
    expect(run(files.arguments(data=data, problem="perceptron", widths="1,2")), 4, named, "0 to 1")
    # Bytes with labels: the label is one more value.
    labelled = struct.pack("<4sIIIff", b"GSD3", 3, 3, 4, 0.5, -1) + bytes([255, 0, 3, 1, 2, 0, 5, 6, 1])
    data = files.write("bytes.gsd", labelled)
    expect(run(files.arguments(data=data, problem="perceptron", widths="2,4") + ["--once"]), 7, "samples=3 dimension=3")
    expect(run(files.arguments(data=data, problem="perceptron", widths="3,4")), 4, "3 inputs and the label")
    expect(run(files.arguments(data=data, problem="perceptron", widths="2,3")), 4, "sample 1 (from 1) has the label 3",
           "0 to 2")
    expect(run(files.arguments(data=data, problem="multitask")), 4, "groups", "task")
    expect(run(files.arguments(data=files.write("bad.gsd", labelled[:-1]))), 4, "truncated", "32 bytes", "33")
    bad = labelled[:-1] + bytes([4])
    expect(run(files.arguments(data=files.write("bad.gsd", bad))), 4, "label 4", "sample 3", "4 classes")
    # Good ones get as far as the server, which nobody is.
    for problem in ("kpca", "brockett", "spd_mean", "hyperbolic", "least_squares", "completion", "logistic"):
        expect(run(files.arguments(data=plain, problem=problem) + ["--once"]), 7, "samples=4 dimension=3")
    expect(run(files.arguments(data=grouped, problem="multitask", ridge=0.1) + ["--once"]), 7, "samples=4 dimension=3")


def check_tables(files):
    """Tables in place of shards: words for labels, options of tables alone, and a limit."""
    table = files.write("t.csv", b"k;x;y\n0;1,5;7\n1;2;7\n")
    expect(run(files.arguments(data=table) + ["--once"]), 7, "event=table samples=2 dimension=3 header=yes "
           "delimiter=semicolon decimal=comma", "the same value in column 3 (`y`)", "samples=2 dimension=3")
    expect(run(files.arguments(data=table, label="k", problem="logistic") + ["--once"]), 7, "samples=2 dimension=3")
    expect(run(files.arguments(data=table, label="z")), 4, "t.csv has no column `z`", "`k`, `x`, `y`")
    expect(run(files.arguments(data=table, delimiter="comma")), 4, "t.csv, row 2")
    expect(run(files.arguments(data=table, delimiter="|")), 2, "--delimiter '|'", "semicolon")
    expect(run(files.arguments(data=table, label="x") + ["--once"]), 7, "the same value in column 3 (`y`)")
    one_class = files.write("o.csv", b"k,x\n1,2\n1,3\n")
    said = run(files.arguments(data=one_class, label="k", problem="logistic") + ["--once"])
    expect(said, 7, "samples=2 dimension=2")
    assert "the same value" not in str(said), said
    expect(run(files.arguments(data=files.write("i.csv", b"x,k\n1,16777217\n"), label="k")), 4, "row 2, column 2 (`k`)",
           "16777217", "--map-labels")
    thousands = files.write("n.csv", b"2\ta\tb\nx\ty\tz\n1,000\t2\t3\n12,345\t3\t4\n")
    expect(run(files.arguments(data=thousands) + ["--skip-rows", "1"]), 4, "row 3, column 1 (`x`)", "--decimal comma")
    expect(run(files.arguments(data=thousands) + ["--skip-rows", "1", "--decimal", "comma", "--once"]), 7,
           "samples=2 dimension=3")
    expect(run(files.arguments() + ["--skip-rows", "1"]), 4, "data.gsd is no table", "--skip-rows")
    words = files.write("w.csv", b"x,k\n1,a\n")
    expect(run(files.arguments(data=words, label="k")), 4, "row 2, column 2 (`k`)", "`a` is a word", "data pack")
    expect(run(files.arguments(data=table, label="")), 2, "--label", "empty")
    expect(run(files.arguments(label="k")), 4, "data.gsd is no table", "leave them out")
    with open(files.folder / "large.csv", "wb") as file:
        file.write(b"1\n")
        file.truncate((64 << 20) + 1)  # a hole: no disk is used
        file.seek(0)
        file.write(b"1\n" * 2048)
    expect(run(files.arguments(data=files.folder / "large.csv")), 4, "67108865 bytes, and the limit is 67108864",
           "data pack")


def large_shard(count):
    """Images of 784 floats and a label."""
    return struct.pack("<4sIII", b"GSD2", count, 785, 0) + struct.pack("<785f", *[0.5] * 784, 3) * count


def check_large_data(files):
    """Data of more than a MiB are mapped: refused as small ones are, and held to what they were."""
    lenet = {"problem": "lenet", "widths": 10, "retry-ms": 20}
    path = files.write("large.gsd", large_shard(400))
    assert path.stat().st_size > 1 << 20
    expect(run(files.arguments(data=path, **lenet) + ["--once"]), 7, "samples=400 dimension=785")
    short = files.write("short.gsd", large_shard(400)[:-1])
    expect(run(files.arguments(data=short, **lenet) + ["--once"]), 4, "truncated", "short.gsd")
    with open(short, "r+b") as file:
        file.write(b"PNG")
    expect(run(files.arguments(data=short, **lenet) + ["--once"]), 4, "shard", "short.gsd")
    client = subprocess.Popen([*EMULATOR, *CLIENT, *map(str, files.arguments(data=path, **lenet))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in client.stdout:
        if "event=started" in line:
            break
    if not EMULATOR:
        maps = pathlib.Path(f"/proc/{client.pid}/maps").read_text(encoding="utf-8").splitlines()
        assert any(str(path) in line and " r--s " in line for line in maps), "the data are not mapped"
    files.write("next.gsd", large_shard(500)).rename(path)
    assert client.poll() is None, "another file in its place is no change of what is mapped"
    client.terminate()
    client.communicate(timeout=60)
    client = subprocess.Popen([*EMULATOR, *CLIENT, *map(str, files.arguments(data=path, **lenet))],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in client.stdout:
        if "event=started" in line:
            break
    with open(path, "ab") as file:
        file.write(b"more")
    output, _ = client.communicate(timeout=60)
    assert client.returncode == 4 and "large.gsd was changed while it was in use" in output, output


def check_servers(files):
    """Nobody there; a plain-text peer; a peer that hangs up."""
    free = f"127.0.0.1:{fleet.free_port()}"
    expect(run(files.arguments(server=free) + ["--once"]), 7, "cannot be reached", f'" server={free}\n')
    expect(run(files.arguments(server="no-such-host.invalid:1") + ["--once"]), 7, "has no address",
           '" server=no-such-host.invalid:1\n')
    for answer, word in ((b"220 mail ready\r\n", "no TLS"), (b"", "closed the connection"),
                         (bytes([0x15, 3, 3, 0, 2, 2, 70]), "not TLS 1.3")):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = f"127.0.0.1:{listener.getsockname()[1]}"
            client = subprocess.Popen([*EMULATOR, *CLIENT, *map(str, files.arguments(server=server)), "--once"],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            listener.settimeout(30)
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)
            output, _ = client.communicate(timeout=60)
            assert client.returncode == 7 and word in output, f"exit {client.returncode}, '{word}' in:\n{output}"
    state = files.folder / "state"
    state.mkdir()
    (state / "device-1.state").write_bytes(b"SGSS" + bytes(400))
    expect(run(files.arguments(server=free, state=state) + ["--once"]), 7, "state_dropped", "damaged")
    readable = files.write("readable", IDENTITY.encode(), 0o644)
    expect(run(files.arguments(server=free, identity=readable) + ["--once"]), 7, "chmod 600")


LINE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z event=\w+")


def check_log_time(files):
    """Each line has its time, unless journald notes it or the option says otherwise."""
    def lines(journal, *options):
        environment = {**os.environ, "JOURNAL_STREAM": journal}
        if journal is None:
            del environment["JOURNAL_STREAM"]
        done = subprocess.run([*EMULATOR, *CLIENT, *map(str, files.arguments()), "--once", *options], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env=environment, timeout=60, check=False)
        assert done.returncode == 7 and "event=boot" in done.stderr, done.stderr
        return done.stderr.splitlines()

    for timed in (lines(None), lines(None, "--log-time", "on"), lines("8:1", "--log-time", "on")):
        assert all(LINE_TIME.match(line) for line in timed), timed
    before = datetime.datetime.utcnow().isoformat(timespec="milliseconds")
    told = lines(None)[0].split("Z ")[0]
    assert before <= told <= datetime.datetime.utcnow().isoformat(timespec="milliseconds"), f"{told} is not UTC"
    for bare in (lines("8:1"), lines(None, "--log-time", "off")):
        assert all(line.startswith("event=") for line in bare), bare


def check_names(files):
    """A name that no device can have ends the client before a claim is used."""
    claim = files.write("claim", (IDENTITY.replace("device-1", "~batch") + f"server = {'09' * 32}\n").encode(), 0o600)
    for name, word in (("k\u00fcche", "ASCII"), ("a b", "spaces"), ("{machine_id}", "{machine-id}")):
        arguments = files.arguments(identity=files.folder / "new", claim=claim, name=name)
        expect(run(arguments), 2, "--name", word)
    arguments = files.arguments(identity=files.folder / "new", claim=claim, name="{hostname}")
    done = run(arguments + ["--once"])
    pending = files.folder / "new.claimed"
    assert done.returncode != 7 or f"identity = {os.uname().nodename}\n" in pending.read_text("ascii"), done.stdout


def check_arithmetic(files):
    """A library that makes the processor flush subnormal numbers to zero."""
    library = os.environ.get("GS_FLUSH_TO_ZERO")
    if library:
        done = subprocess.run([*CLIENT, *map(str, files.arguments()), "--once"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "LD_PRELOAD": library}, text=True,
                              timeout=60)
        expect(done, 8, "-ffast-math")


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        check_command_line(files)
        check_files(files)
        check_large_data(files)
        check_servers(files)
        check_log_time(files)
        check_names(files)
        check_arithmetic(files)


if __name__ == "__main__":
    main()
