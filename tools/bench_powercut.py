"""./run bench powercut: the power of an emulated board is cut again and again while it trains.

Half of the cuts come at a random instruction (QEMU's -icount), half inside a random call of the flash, which leaves a
torn word or a torn erase. The board boots from its flash each time. It must end with the digest of a board that nobody
disturbed; the server must have counted it once in every version, and refused nothing.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import types

import digits
import emulate
import fleet

BOARD = "mps2-an386"
CONFIG = fleet.ROOT / "experiments" / "demo.toml"
IMAGE = fleet.ROOT / "build" / BOARD / "boards" / "mps2_an386" / "gradstream_client_emulator.elf"
TICKS_PER_MS = 25000
# A life is cut within this time after its start: the first 250 ms or so are the silence before a handshake, and the
# handshake; then a round every 15 ms.
LIFE_MS_MAX = 600
CALLS_MAX = 400          # of the flash in a life, where one of them is cut; a round has about 100
ROUNDS_PER_CUT = 8       # more than a life sees, on average
CALM_ROUNDS = 10
BOOT_SECONDS_MAX = 60    # without an end or a cut: the board hangs
ROUND_SECONDS_MAX = 2    # of a life that is not cut, on a machine that does other things too
RECORD_KIND_UPDATE = 2   # RecordKind::kUpdate in server/store.h


class Failure(Exception):
    """What does not hold, with the last lines of those who know."""


class Run:
    """A server and one board, in a folder of their own."""

    def __init__(self, home, rounds):
        self.home, self.rounds, self.port = home, rounds, fleet.free_port()
        self.lines = []
        self.resumed = 0
        config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.limits.handshake_deadline_ms": BOOT_SECONDS_MAX * 1000,
                           "server.export_dir": home, "run.round_count": rounds, "run.device_count": 1,
                           "run.step_size": 0.28}.items():
            config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", home / "board.identity"], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "board.gsd", parts[0], mean)
        self.arguments = types.SimpleNamespace(
            board=BOARD, server=f"127.0.0.1:{self.port}", identity=home / "board.identity", shard=home / "board.gsd",
            flash=home / "board.flash", forever=False)
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *config])

    def boot(self, *words):
        """One life of the board: its exit status."""
        command = emulate.command(self.arguments, IMAGE, *words)
        seconds = BOOT_SECONDS_MAX + (0 if words else ROUND_SECONDS_MAX * self.rounds)
        try:
            done = subprocess.run([*map(str, command), "-icount", "shift=0"], stdin=subprocess.DEVNULL, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=seconds)
        except subprocess.TimeoutExpired as expired:
            raise Failure(f"the board hangs: {expired.stdout}") from expired
        self.lines = done.stdout.splitlines()
        self.resumed += sum(line.startswith("event=resumed") for line in self.lines)
        if done.returncode not in (0, emulate.POWER_CUT_STATUS):
            raise Failure(f"the board ended with status {done.returncode}:\n{done.stdout}")
        return done.returncode

    def play(self, cuts, source):
        """Boots until the run is finished; (cuts made, digest)."""
        made = 0
        while True:
            calls = emulate.flash_counters(emulate.make_flash(self.arguments.flash))[3]
            if made >= cuts:
                word = []
            elif made % 2 == 0:
                word = [f"cut-tick={source.randint(1, LIFE_MS_MAX * TICKS_PER_MS)}"]
            else:
                word = [f"cut-call={calls + source.randint(1, CALLS_MAX)}"]
            if self.boot(*word) == 0:
                break
            made += 1
        end = next(line for line in self.lines if line.startswith("event=finished"))
        return made, fleet.fields(end)["digest"]

    def check(self):
        with contextlib.closing(sqlite3.connect(self.home / "gradstream.db")) as database:
            rows = database.execute("SELECT version, count(*) FROM journal WHERE kind = ? GROUP BY version "
                                    "ORDER BY version", (RECORD_KIND_UPDATE,)).fetchall()
        if rows != [(version, 1) for version in range(1, self.rounds + 1)]:
            raise Failure(f"the journal does not count the board once in every version: {rows}")
        faults = ("event=update_refused", "event=digest_mismatch")
        wrong = [line for line in self.server.lines if any(fault in line for fault in faults)]
        if wrong:
            raise Failure("\n".join(["the server refused:", *wrong]))


def play(rounds, cuts, seed):
    with tempfile.TemporaryDirectory(prefix="gradstream-powercut-", dir=os.environ.get("TMPDIR")) as home:
        run = Run(pathlib.Path(home), rounds)
        begin = time.monotonic()
        try:
            made, digest = run.play(cuts, random.Random(seed))
        except Failure as failure:
            lines = "\n".join(f"    server: {line}" for line in list(run.server.lines)[-12:])
            raise Failure(f"{failure}\n{lines}") from failure
        finally:
            run.server.stop()
        run.check()
        erases = emulate.flash_counters(run.arguments.flash)
        print(f"cuts {made}, rounds {rounds}, digest {digest}, resumed amid a task {run.resumed} times, "
              f"flash: {erases[2] // rounds} bytes a round, erases {erases[0]} and {erases[1]}, "
              f"{time.monotonic() - begin:.1f} s", flush=True)
        return made, digest, run.resumed


def main():
    parser = argparse.ArgumentParser(prog="./run bench powercut", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--boards", type=int, default=4, help="that share the cuts, each with a server of its own")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for preset, target in (("dev", "gradstream"), (BOARD, "gradstream_client_emulator")):
        if preset == "dev" and "GS_BUILD_DIR" in os.environ:
            continue  # a test, whose tree is built
        fleet.command([fleet.ROOT / "tools" / "build.sh", preset, target], f"building {target}", 1800)
    boards = min(arguments.boards, arguments.cuts)
    cuts = [len(range(index, arguments.cuts, boards)) for index in range(boards)]
    rounds = cuts[0] * ROUNDS_PER_CUT + CALM_ROUNDS
    try:
        with concurrent.futures.ThreadPoolExecutor(boards + 1) as pool:
            calm = pool.submit(play, rounds, 0, arguments.seed)
            runs = [pool.submit(play, rounds, count, arguments.seed + index) for index, count in enumerate(cuts)]
            _, expected, _ = calm.result()
            made, digests, resumed = zip(*(run.result() for run in runs))
    except Failure as failure:
        print(f"powercut: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    if sum(made) < arguments.cuts:
        print(f"powercut: error: the runs were over after {sum(made)} cuts", file=sys.stderr)
    digest_count = len({expected, *digests})
    # play() has found every version's update in the journal once: none is lost, none is doubled.
    print(f"result: cuts={sum(made)} lost=0 doubled=0 boards={boards} rounds={rounds} resumed={sum(resumed)} "
          f"digests={digest_count}")
    return 0 if digest_count == 1 and sum(made) == arguments.cuts else 1


if __name__ == "__main__":
    sys.exit(main())
