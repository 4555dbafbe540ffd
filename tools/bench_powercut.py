"""./run bench powercut: the power of an emulated board is cut again and again while it trains.

Half of the cuts come at a random instruction (QEMU's -icount; rp2040js counts them), half inside a random call of the
flash, which leaves a torn word or a torn erase; with --instructions all come at an instruction, with --every N it is
each of a life's first N calls in turn. The board boots from its flash each time. It must end with the digest of a board
that nobody disturbed; the server must have counted it once in every version, refused nothing, and never have met two
contents of an upload under one task: it compares the checksum of each with the last one's.
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
CALM_ROUNDS = 4          # after the last cut
BOOT_SECONDS_MAX = 60    # without an end or a cut: the board hangs
ROUND_SECONDS_MAX = 3    # of a life that is not cut, on a machine that does other things too
SKIPPED = 77
RECORD_KIND_UPDATE = 2   # RecordKind::kUpdate in server/journal/journal_record.h
FAULTS = ("event=update_refused", "event=update_changed", "event=digest_mismatch")


class Board(NamedTuple):
    life_max: int         # a life that is cut at an instruction is cut within so many units after its start
    calls_max: int        # a life that is cut inside a call of the flash is cut in one of its first
    rounds_per_cut: int   # more than a life sees, on average
    calls_min: int        # of the flash in a round, at least
    cut: str              # the emulator's option for a cut at an instruction; "": a word to the image
    words: tuple = ()     # of the emulator
    task: dict = {}       # run parameters instead of the demo's


BOARDS = {
    # The unit is a tick of 40 ns, 40 instructions. The first 110 ms or so are the silence before a handshake, and the
    # handshake; then a round every 15 ms. A round has about 55 calls.
    "mps2-an386": Board(450 * 25000, 400, 8, 40, "", ("-icount", "shift=0")),
    # The unit is a tick of 100 ns, 100 instructions. Its floats are software: a round takes longer.
    "riscv-virt": Board(450 * 10000, 200, 6, 40, "", ("-icount", "shift=0"),
                        task={"run.local_step_count": 2, "run.direction_count": 4, "run.batch_size": 8}),
    # The unit is an instruction. A step of the demo takes it 36 million, 2 s or so, so these are smaller.
    "rp2040": Board(90000000, 100, 5, 30, "--cut-instruction",
                    task={"run.local_step_count": 2, "run.direction_count": 2, "run.batch_size": 8}),
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
            flash=home / "board.flash", forever=False, no_floors=True)
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *config], self.on_server_line)

    def on_server_line(self, line):
        self.wrong += [line] if any(fault in line for fault in FAULTS) else []
        if "event=counters" in line:
            self.resent = int(fleet.fields(line)["updates_duplicate"])

    def boot(self, point, call):
        """One life of the board, cut at that point or in that call, neither with 0: its exit status."""
        words = [f"cut-call={call}"] if call else [f"cut-tick={point}"] if point and not self.board.cut else []
        command = [*emulate.command(self.arguments, self.image, *words), *self.board.words]
        command += [self.board.cut, point] if point and self.board.cut else []
        seconds = BOOT_SECONDS_MAX + (0 if point or call else ROUND_SECONDS_MAX * self.rounds)
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
            point, call = plan[made] if made < len(plan) else (0, 0)
            if self.boot(point, calls + call if call else 0) == 0:
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


def random_plan(board, cuts, seed, instructions):
    """(point, 0) and (0, call of that life) in turn, or with `instructions` the former alone: where each life is
    cut."""
    source = random.Random(seed)
    return [(0, source.randint(1, board.calls_max)) if index % 2 and not instructions else
            (source.randint(1, board.life_max), 0) for index in range(cuts)]


def play(name, rounds, plan):
    with tempfile.TemporaryDirectory(prefix="gradstream-powercut-", dir=os.environ.get("TMPDIR")) as home:
        run = Run(name, pathlib.Path(home), rounds)
        begin = time.monotonic()
        try:
            made, digest = run.play(plan)
        except Failure as failure:
            lines = "\n".join(f"    server: {line}" for line in run.server.lines[-12:])
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
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--every", type=int, default=0, metavar="N", help="instead of --cuts: life after life is cut "
                       "in its first call of the flash, its second, to its Nth")
    kinds.add_argument("--instructions", action="store_true", help="no cuts inside calls of the flash")
    arguments = parser.parse_args()
    board = BOARDS[arguments.board]
    if not emulate.MACHINES[arguments.board].qemu and not emulate.RP2040JS.exists():
        print("SKIPPED: rp2040js is missing (install npm, then ./run setup)")
        return SKIPPED
    for preset, target in (("dev", "gradstream"), (arguments.board, TARGET)):
        if preset == "dev" and "GS_BUILD_DIR" in os.environ:
            continue  # a test, whose tree is built
        fleet.build(preset, target)
    cuts = arguments.every or arguments.cuts
    boards = min(arguments.boards, cuts)
    if arguments.every:
        plans = [[(0, call) for call in range(index + 1, cuts + 1, boards)] for index in range(boards)]
        rounds = max(sum(call for _, call in plan) for plan in plans) // board.calls_min + CALM_ROUNDS
    else:
        plans = [random_plan(board, len(range(index, cuts, boards)), arguments.seed + index, arguments.instructions)
                 for index in range(boards)]
        rounds = len(plans[0]) * board.rounds_per_cut + CALM_ROUNDS
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
