"""./run bench linkdrop: a board's link drops at every byte of a session, and its server is restarted amid noise.

A session is the handshake, Hello to Task, and two rounds. A proxy between the emulated board and the server closes both
ends after byte 1 of the first session, byte 2 of the second, and so on: by UART the board is not told, by Ethernet its
connection is gone. Beside that the server is killed and started again while the proxy changes, loses and inserts bytes.
Each time the board must end with the digest of a board that nobody disturbed; the server must have counted it once in
every version, and refused nothing. A whole run is long: --part 3/8 is the third of eight parts, which together drop at
every byte.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import sqlite3
import sys
import tempfile
import time
import types

import digits
import emulate
import fleet
import link_proxy

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
BOARDS = {"uart": "mps2-an386", "ethernet": "mps2-an386-eth"}
TARGET = "gradstream_client_emulator"
SESSION_ROUNDS = 2
CALM_ROUNDS = 10
QUIET_ROUNDS_MAX = 2000      # of a run whose server is restarted: more than it sees
RECOVERY_SECONDS_MAX = 40    # from a drop to the next: deadlines of 10 s, on a machine that does other things too
NOISE_GAP_BYTES = 10000      # between two bytes that the wire spoils, on average
RECORD_KIND_UPDATE = 2       # RecordKind::kUpdate in server/store.h


class Failure(Exception):
    """What does not hold, with the last lines of those who know."""


class Run:
    """A server, a proxy and one board, in a folder of their own."""

    def __init__(self, home, board, rounds):
        self.home, self.kind, self.rounds, self.port = home, board, rounds, fleet.free_port()
        self.config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.round_count": rounds, "run.device_count": 1,
                           "run.step_size": 0.28}.items():
            self.config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *self.config, "--out", home / "board.identity"],
                      "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "board.gsd", parts[0], mean)
        self.refused = []
        self.server = self.board = self.proxy = None

    def start_server(self):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *self.config], self.look)

    def look(self, line):
        if "event=update_refused" in line or "event=digest_mismatch" in line:
            self.refused.append(line)

    def start(self, plan=(), noise=None):
        self.start_server()
        self.proxy = link_proxy.LinkProxy(self.port, plan, noise)
        arguments = types.SimpleNamespace(
            board=self.kind, server=f"127.0.0.1:{self.proxy.port}", identity=self.home / "board.identity",
            shard=self.home / "board.gsd", flash=None, forever=False)
        image = fleet.ROOT / "build" / self.kind / "boards" / self.kind.replace("-", "_") / f"{TARGET}.elf"
        self.board = fleet.Process("board", emulate.command(arguments, image))

    def wait_for_version(self, version, seconds):
        if self.server.wait_for_line(f"event=round_closed version={version} ", seconds) is None:
            raise Failure(f"no version {version} within {seconds} s")

    def end(self, seconds):
        """The digest that the board itself computed."""
        line = self.board.wait_for_line("event=finished", seconds)
        if line is None:
            raise Failure(f"the board does not finish within {seconds} s")
        return fleet.fields(line)["digest"]

    def stop(self):
        self.board.stop()
        self.proxy.close()
        self.server.stop()

    def check(self):
        with contextlib.closing(sqlite3.connect(self.home / "gradstream.db")) as database:
            rows = database.execute("SELECT version, count(*) FROM journal WHERE kind = ? GROUP BY version "
                                    "ORDER BY version", (RECORD_KIND_UPDATE,)).fetchall()
        if rows != [(version, 1) for version in range(1, self.rounds + 1)]:
            raise Failure(f"the journal does not count the board once in every version: {rows}")
        if self.refused:
            raise Failure("\n".join(["the server refused:", *self.refused]))


def play(board, rounds, story, plan=(), noise=None):
    """What story(run) returns, of a run that is checked at its end."""
    with tempfile.TemporaryDirectory(prefix="gradstream-linkdrop-", dir=os.environ.get("TMPDIR")) as home:
        run = Run(pathlib.Path(home), board, rounds)
        try:
            run.start(plan, noise)
            result = story(run)
        except Failure as failure:
            lines = [f"    {process.name}: {line}" for process in (run.board, run.server)
                     for line in list(process.lines)[-10:]]
            raise Failure("\n".join([f"{failure} ({run.proxy.drops} drops, {run.proxy.byte_count} bytes)", *lines])
                          ) from failure
        finally:
            run.stop()
        run.check()
        return result


def measure(board, rounds):
    """(digest, bytes that went over its link) of an undisturbed run, which is one session."""
    def story(run):
        return run.end(RECOVERY_SECONDS_MAX + rounds), run.proxy.byte_count
    return play(board, rounds, story)


def drop(board, rounds, plan):
    """The digest of a run whose link drops at those bytes."""
    def story(run):
        digest = run.end(RECOVERY_SECONDS_MAX * (len(plan) + 1) + rounds)
        if run.proxy.drops != len(plan):
            raise Failure(f"the run was over after {run.proxy.drops} of {len(plan)} drops")
        return digest
    return play(board, rounds, story, plan)


def restart(board, rounds, count, seed):
    """(digest, bytes spoilt) of a run whose server is killed `count` times, with noise on the link meanwhile."""
    noise = link_proxy.Noise(seed, NOISE_GAP_BYTES)

    def story(run):
        for index in range(1, count + 1):
            run.wait_for_version(index * (rounds - CALM_ROUNDS) // count, RECOVERY_SECONDS_MAX * 3)
            run.server.kill()
            run.start_server()
        digest = run.end(RECOVERY_SECONDS_MAX * 3 + rounds)
        return digest, noise.count
    return play(board, rounds, story, noise=noise)


def part_of(text):
    """(3, 8) of "3/8"."""
    part, count = map(int, text.split("/"))
    if not 1 <= part <= count:
        raise ValueError(text)
    return part, count


def main():
    parser = argparse.ArgumentParser(prog="./run bench linkdrop", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--link", choices=BOARDS, default="uart", help="of the board (default: uart)")
    parser.add_argument("--stride", type=int, default=1, help="drop at every so many bytes")
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="I/N", help="of the bytes: every N-th")
    parser.add_argument("--boards", type=int, default=16, help="that share the drops, at once")
    parser.add_argument("--restarts", type=int, default=20, help="of the server, with noise on the link")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    board = BOARDS[arguments.link]
    for preset, target in (("dev", "gradstream"), (board, TARGET)):
        if preset == "dev" and "GS_BUILD_DIR" in os.environ:
            continue  # a test, whose tree is built
        fleet.command([fleet.ROOT / "tools" / "build.sh", preset, target], f"building {target}", 1800)
    begin = time.monotonic()
    try:
        _, size = measure(board, SESSION_ROUNDS)
        points = list(range(1, size + 1, arguments.stride))[arguments.part[0] - 1::arguments.part[1]]
        plans = [points[index::arguments.boards] for index in range(arguments.boards)]
        # A session that is not dropped before its end sees two rounds or so; the last one goes on to the run's end.
        rounds = 2 * SESSION_ROUNDS * len(plans[0]) + CALM_ROUNDS
        with concurrent.futures.ThreadPoolExecutor(arguments.boards + 1) as pool:
            noisy = None
            if arguments.restarts:
                noisy = pool.submit(restart, board, rounds, arguments.restarts, arguments.seed)
            runs = [pool.submit(drop, board, rounds, plan) for plan in plans if plan]
            for done, _ in enumerate(concurrent.futures.as_completed(runs), 1):
                print(f"{done} of {len(runs)} boards met their drops, {time.monotonic() - begin:.0f} s", flush=True)
            digests = {run.result() for run in runs} | {measure(board, rounds)[0]}
            spoilt = 0
            if noisy:
                digest, spoilt = noisy.result()
                digests.add(digest)
    except Failure as failure:
        print(f"linkdrop: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"a session of {size} bytes, dropped at {len(points)} of them on {len(runs)} boards; {arguments.restarts} "
          f"restarts of the server with {spoilt} bytes spoilt; {time.monotonic() - begin:.0f} s")
    print(f"result: link={arguments.link} drops={len(points)} bytes={size} restarts={arguments.restarts} "
          f"spoilt={spoilt} rounds={rounds} digests={len(digests)}")
    return 0 if len(digests) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
