"""./run bench powercut: the power of an emulated board is cut again and again while it trains.

Half of the cuts come at a random instruction (QEMU's -icount), half inside a random call of the flash, which leaves a
torn word or a torn erase; with --every N it is each of a life's first N calls in turn. The board boots from its flash
each time. It must end with the digest of a board that nobody
disturbed; the server must have counted it once in every version, refused nothing, and never have met two contents of an
upload under one task: it compares the checksum of each with the last one's.
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
from typing import NamedTuple

import digits
import emulate
import fleet

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
TARGET = "gradstream_client_emulator"
TICKS_PER_MS = 25000
# A life is cut within this time after its start: the first 250 ms or so are the silence before a handshake, and the
# handshake; then a round every 15 ms.
LIFE_MS_MAX = 600
CALLS_MAX = 400          # of the flash in a life, where one of them is cut; a round has about 55
ROUNDS_PER_CUT = 8       # more than a life sees, on average
CALM_ROUNDS = 10
BOOT_SECONDS_MAX = 60    # without an end or a cut: the board hangs
ROUND_SECONDS_MAX = 3    # of a life that is not cut, on a machine that does other things too
RECORD_KIND_UPDATE = 2   # RecordKind::kUpdate in server/store.h
FAULTS = ("event=update_refused", "event=update_changed", "event=digest_mismatch")


class Board(NamedTuple):
    calls_min: int        # of the flash in a round, at least
    words: tuple = ()     # of the emulator
    task: dict = {}       # run parameters instead of the demo's
    cuts_ticks: bool = True


BOARDS = {
    "mps2-an386": Board(40, ("-icount", "shift=0")),
    # A step of the demo takes it 36 million instructions, 2 s or so.
    "rp2040": Board(30, task={"run.local_step_count": 2, "run.direction_count": 4, "run.batch_size": 8},
                    cuts_ticks=False),
}


class Failure(Exception):
    """What does not hold, with the last lines of those who know."""


class Run:
    """A server and one board, in a folder of their own."""

    def __init__(self, name, home, rounds):
        self.home, self.rounds, self.port = home, rounds, fleet.free_port()
        self.board = BOARDS[name]
        self.image = fleet.ROOT / "build" / name / "boards" / name.replace("-", "_") / f"{TARGET}.elf"
        self.lines = []
        self.resumed = self.resent = 0
        self.wrong = []  # what the server had against the board
        config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.limits.handshake_deadline_ms": BOOT_SECONDS_MAX * 1000,
                           "server.export_dir": home, "run.round_count": rounds, "run.device_count": 1,
                           "run.step_size": 0.28, **self.board.task}.items():
            config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", home / "board.identity"], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "board.gsd", parts[0], mean)
        self.arguments = types.SimpleNamespace(
            board=name, server=f"127.0.0.1:{self.port}", identity=home / "board.identity", shard=home / "board.gsd",
            flash=home / "board.flash", forever=False)
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *config], self.on_server_line)

    def on_server_line(self, line):
        self.wrong += [line] if any(fault in line for fault in FAULTS) else []
        if "event=counters" in line:
            self.resent = int(fleet.fields(line)["updates_duplicate"])

    def boot(self, *words):
        """One life of the board: its exit status."""
        command = [*emulate.command(self.arguments, self.image, *words), *self.board.words]
        seconds = BOOT_SECONDS_MAX + (0 if words else ROUND_SECONDS_MAX * self.rounds)
        try:
            done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired as expired:
            raise Failure(f"the board hangs: {expired.stdout}") from expired
        self.lines = done.stdout.splitlines()
        self.resumed += sum(line.startswith("event=resumed") for line in self.lines)
        if done.returncode not in (0, emulate.POWER_CUT_STATUS):
            raise Failure(f"the board ended with status {done.returncode}:\n{done.stdout}")
        return done.returncode

    def play(self, plan):
        """Boots until the run is finished, cutting each life as the plan says; (cuts made, digest)."""
        made = 0
        while True:
            calls = emulate.flash_counters(emulate.make_flash(self.arguments.flash))[3]
            tick, call = plan[made] if made < len(plan) else (0, 0)
            words = [f"cut-tick={tick}"] if tick else [f"cut-call={calls + call}"] if call else []
            if self.boot(*words) == 0:
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
        if self.wrong:
            raise Failure("\n".join(["the server refused:", *self.wrong]))


def random_plan(cuts, seed):
    """(tick, 0) and (0, call of that life) in turn: where each life is cut."""
    source = random.Random(seed)
    return [(0, source.randint(1, CALLS_MAX)) if index % 2 else (source.randint(1, LIFE_MS_MAX * TICKS_PER_MS), 0)
            for index in range(cuts)]


def play(name, rounds, plan):
    with tempfile.TemporaryDirectory(prefix="gradstream-powercut-", dir=os.environ.get("TMPDIR")) as home:
        run = Run(name, pathlib.Path(home), rounds)
        begin = time.monotonic()
        try:
            made, digest = run.play(plan)
        except Failure as failure:
            lines = "\n".join(f"    server: {line}" for line in list(run.server.lines)[-12:])
            raise Failure(f"{failure}\n{lines}") from failure
        finally:
            run.server.stop()
        run.check()
        erases = emulate.flash_counters(run.arguments.flash)
        print(f"cuts {made}, rounds {rounds}, digest {digest}, resumed amid a task {run.resumed} times, "
              f"sent again {run.resent} times, flash: {erases[2] // rounds} bytes and {erases[3] // rounds} calls "
              f"a round, erases {erases[0]} and {erases[1]}, {time.monotonic() - begin:.1f} s", flush=True)
        return made, digest, run.resumed, run.resent


def main():
    parser = argparse.ArgumentParser(prog="./run bench powercut", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--boards", type=int, default=4, help="that share the cuts, each with a server of its own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--board", choices=BOARDS, default="mps2-an386")
    parser.add_argument("--every", type=int, default=0, metavar="N", help="instead of --cuts: life after life is cut "
                        "in its first call of the flash, its second, to its Nth; the only way of the rp2040")
    arguments = parser.parse_args()
    board = BOARDS[arguments.board]
    if arguments.every == 0 and not board.cuts_ticks:
        parser.error(f"{arguments.board} is cut with --every alone")
    for preset, target in (("dev", "gradstream"), (arguments.board, TARGET)):
        if preset == "dev" and "GS_BUILD_DIR" in os.environ:
            continue  # a test, whose tree is built
        fleet.command([fleet.ROOT / "tools" / "build.sh", preset, target], f"building {target}", 1800)
    cuts = arguments.every or arguments.cuts
    boards = min(arguments.boards, cuts)
    if arguments.every:
        plans = [[(0, call) for call in range(index + 1, cuts + 1, boards)] for index in range(boards)]
        rounds = max(sum(call for _, call in plan) for plan in plans) // board.calls_min + CALM_ROUNDS
    else:
        plans = [random_plan(len(range(index, cuts, boards)), arguments.seed + index) for index in range(boards)]
        rounds = len(plans[0]) * ROUNDS_PER_CUT + CALM_ROUNDS
    try:
        with concurrent.futures.ThreadPoolExecutor(boards + 1) as pool:
            calm = pool.submit(play, arguments.board, rounds, [])
            runs = [pool.submit(play, arguments.board, rounds, plan) for plan in plans]
            expected = calm.result()[1]
            made, digests, resumed, resent = zip(*(run.result() for run in runs))
    except Failure as failure:
        print(f"powercut: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    if sum(made) < cuts:
        print(f"powercut: error: the runs were over after {sum(made)} cuts", file=sys.stderr)
    digest_count = len({expected, *digests})
    # play() has found every version's update in the journal once: none is lost, none is doubled. Nor has any changed.
    print(f"result: cuts={sum(made)} lost=0 doubled=0 changed=0 boards={boards} rounds={rounds} "
          f"resumed={sum(resumed)} resent={sum(resent)} digests={digest_count}")
    return 0 if digest_count == 1 and sum(made) == cuts else 1


if __name__ == "__main__":
    sys.exit(main())
