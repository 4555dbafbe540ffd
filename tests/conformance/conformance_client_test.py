"""The client in Python beside two in C++, at the real server: one digest on all of them, and every update counts.

Each form is a run of its own: an encoding of uploads and records, or the memory form. In each something happens that
the client has to come through: it enrols itself by a claim, its Acks are lost, it is killed and starts again from what
it has stored, or the server goes away by a Drain and comes back.
"""

import argparse
import contextlib
import pathlib
import random
import struct
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tools"))
import fleet  # noqa: E402

COUNT, ROWS, COLS = 40, 6, 2  # samples of a device, their values, columns of the model
SECONDS_MAX = 60
CLIENT = [sys.executable, "-B", "-u", FOLDER / "client.py"]
CONFIG = """[server]
listen = "127.0.0.1:{port}"
database = "{home}/gradstream.db"
export_dir = "{home}"
[run]
name = "conformance"
problem = "kpca"
manifold = "{manifold}"
rows = {rows}
cols = {cols}
device_count = 3
round_count = {rounds}
local_step_count = 2
direction_count = 4
batch_size = 16
step_size = 0.1
smoothing = 0.01
centre = "none"
scale = "none"
retry_min_ms = 1
retry_max_ms = 20
upload_encoding = "{encoding}"
record_encoding = "{encoding}"
correction_form = "{correction}"
"""
# name: manifold, encoding, correction, what happens
FORMS = {"f32": ("stiefel", "f32", "local", "claim"), "bf16": ("sphere", "bf16", "local", "kill"),
         "int8": ("stiefel", "int8", "local", "drain"), "memory": ("stiefel", "f32", "memory", "acks")}


def check(holds, what):
    if not holds:
        raise RuntimeError(what)


def write_shard(path, seed):
    """Bytes (GSD1) of few directions, as docs/data.md has them."""
    draw = random.Random(seed)
    data = bytearray()
    for _ in range(COUNT):
        a, b = draw.gauss(0, 50), draw.gauss(0, 25)
        for column in range(ROWS):
            value = 128 + a * (column < 2) + b * (column == 3) + draw.gauss(0, 8)
            data.append(min(255, max(0, round(value))))
    path.write_bytes(struct.pack("<4sIIf", b"GSD1", COUNT, ROWS, 1 / 64) + struct.pack(f"<{ROWS}f", *[2.0] * ROWS)
                     + bytes(data))


class Form:
    """One run: the server, two clients in C++, one in Python."""

    def __init__(self, name, rounds, home):
        manifold, encoding, correction, self.incident = FORMS[name]
        self.home, self.rounds, self.port, self.processes = home, rounds, fleet.free_port(), {}
        self.words = ["--config", home / "fleet.toml"]
        (home / "fleet.toml").write_text(CONFIG.format(
            port=self.port, home=home, rounds=rounds, manifold=manifold, rows=ROWS, cols=COLS, encoding=encoding,
            correction=correction), encoding="utf-8")
        self.options = ["--hold-ms", "5000", "--retry-ms", "50", "--state", home, "--until-finished"]
        for index, device in enumerate(("a", "b", "python")):
            write_shard(home / f"{device}.gsd", index)
            if device != "python" or self.incident != "claim":
                self.verb("device", "add", device, "--out", home / f"{device}.id")
        if self.incident == "claim":
            self.verb("claim", "add", "batch", "--out", home / "batch.id")
            self.options += ["--claim", home / "batch.id", "--name", "python"]
        if self.incident == "acks":
            self.options += ["--drop-acks", "4", "--seed", "1"]

    def verb(self, *words):
        fleet.command([fleet.SERVER, *words, *self.words], " ".join(map(str, words[:2])))

    def serve(self):
        server = fleet.Process("server", [fleet.SERVER, "serve", *self.words])
        self.processes["server"] = server
        check(server.wait_for_line("event=listening", 30), "\n".join(server.lines))

    def start(self, device, program, *options):
        self.processes[device] = fleet.Process(device, [
            *program, "--server", f"127.0.0.1:{self.port}", "--identity", self.home / f"{device}.id",
            "--data", self.home / f"{device}.gsd", *options])

    def interrupt(self):
        """At a third of the rounds."""
        version = max(1, self.rounds // 3)
        check(self.processes["server"].wait_for_line(f"event=round_closed version={version} ", SECONDS_MAX),
              f"no version {version}")
        if self.incident == "kill":
            self.processes["python"].kill()
            self.start("python", CLIENT, *self.options)
            check(self.processes["python"].wait_for_line("event=resumed", 30), "nothing was stored")
        elif self.incident == "drain":
            self.processes["server"].stop()
            self.serve()

    def play(self):
        """The Python client's last line as fields, and how many digests there are."""
        self.serve()
        for device in ("a", "b"):
            self.start(device, [fleet.CLIENT], "--no-floors", "--retry-ms", "50", "--until-finished")
        self.start("python", CLIENT, *self.options)
        if self.incident in ("kill", "drain"):
            self.interrupt()
        ends = {}
        for device in ("a", "b", "python"):
            line = self.processes[device].wait_for_line("event=finished", SECONDS_MAX)
            check(line, f"{device} does not finish")
            ends[device] = fleet.fields(line)
        digests = {(end["version"], end["digest"]) for end in ends.values()}
        mine = ends["python"]
        check(mine["version"] == str(self.rounds), f"the client ends at version {mine['version']}")
        check(mine["malformed"] == mine["refused"] == "0", f"the client met what it does not take: {mine}")
        # An Ack that was lost is given again, and the client that was killed counts from 0 again.
        if self.incident != "kill":
            check(int(mine["folded"]) + int(mine["late"]) == self.rounds, f"not every update counts: {mine}")
        if self.incident == "claim":
            check(self.processes["python"].wait_for_line("event=claimed name=python", 1), "no claim")
        if self.incident == "acks":
            check(int(mine["duplicates"]) == 4, f"4 Acks were lost, and {mine['duplicates']} were given again")
        return mine, len(digests)

    def stop(self):
        for process in self.processes.values():
            process.stop()

    def last_lines(self):
        return "\n".join(f"    {name}: {line}" for name, process in self.processes.items()
                         for line in process.lines[-8:])


def play(name, rounds):
    """The client's end and the number of digests. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="gradstream-conformance-") as folder, contextlib.ExitStack() as stack:
        form = Form(name, rounds, pathlib.Path(folder))
        stack.callback(form.stop)
        try:
            end, digests = form.play()
        except RuntimeError as error:
            raise RuntimeError(f"{name}: {error}\n{form.last_lines()}") from error
    print(f"conformance: {name:7} {form.incident:6} version={end['version']} digest={end['digest']} "
          f"folded={end['folded']} late={end['late']} records={end['records']} snapshots={end['snapshots']} "
          f"sessions={end['sessions']} mismatches={end['mismatches']} digests={digests}", flush=True)
    return end, digests


def play_all(names, rounds):
    """True where every form ends with one digest."""
    digests, mismatches, is_whole = 0, 0, True
    for name in names:
        try:
            end, of_form = play(name, rounds)
        except RuntimeError as error:
            print(f"FAIL: {error}")
            is_whole = False
            continue
        digests, mismatches = max(digests, of_form), mismatches + int(end["mismatches"])
    print(f"result: rounds={rounds} encodings={','.join(names)} digests={digests} mismatches={mismatches}", flush=True)
    return is_whole and digests == 1 and mismatches == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--forms", nargs="+", default=["f32", "memory"], choices=list(FORMS))
    options = parser.parse_args()
    return 0 if play_all(options.forms, options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
