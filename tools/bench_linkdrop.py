"""./run bench linkdrop: a board's link drops at every byte of a session, and its server is restarted amid noise.

A session is the handshake, Hello to Task, and rounds from Update to Ack. A proxy between the emulated board and the
server drops it after byte 1 of the first session, byte 2 of the second, and so on: by UART the board is not told, by
Ethernet its connection is gone. Beside that the server is killed and started again while the proxy changes, loses and
inserts bytes. In every version the digest must be that of a native client that nobody disturbed, on server and board;
the server must have counted the board once in every version, and refused nothing. --part 3/8 is the third of eight
parts, which together drop at every byte.

What makes it affordable weakens nothing: the image is the one for the emulator, and its deadlines are those of
runtime/base/config.h, but while the board sleeps after a drop its clock is taken on (boards/mps2/board.cc), so that
waiting takes no time; its local work is small; and a run is stopped when its last drop is met.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import resource
import sqlite3
import sys
import tempfile
import threading
import time
import types

import digits
import emulate
import fleet
import link_proxy

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
BOARDS = {"uart": "mps2-an386", "ethernet": "mps2-an386-eth"}
TARGET = "gradstream_client_emulator"
SMALL_TASK = {"run.local_step_count": 1, "run.batch_size": 8}
SESSION_ROUNDS = 2           # of the undisturbed session whose bytes are counted
RESTART_ROUNDS = 10          # between two restarts of the server
CALM_ROUNDS = 3              # after the last drop or restart
ROUNDS_MAX = 1 << 30         # more than any run here sees: it is stopped
RECOVERY_SECONDS_MAX = 40    # from a drop to the next: deadlines of 10 s, on a machine that does other things too
NATIVE_SECONDS_MAX = 120     # of the undisturbed client
NOISE_GAP_BYTES = 3000       # between two bytes that the wire spoils, on average
CLOCK_SKIP = "\x16"          # kSkipByte in boards/mps2/board.cc
RECORD_KIND_UPDATE = 2       # RecordKind::kUpdate in server/journal/journal_record.h


class Failure(Exception):
    """What does not hold, with the last lines of those who know."""


class Run:
    """A server and devices in a folder of their own; without rounds to be done the run goes on until finish()."""

    def __init__(self, home, rounds=ROUNDS_MAX):
        self.home, self.port = home, fleet.free_port()
        self.config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": '""', "run.round_count": rounds, "run.device_count": 1,
                           "run.step_size": 0.28, **SMALL_TASK}.items():
            self.config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *self.config, "--out", home / "board.identity"],
                      "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "board.gsd", parts[0], mean)
        self.refused, self.is_stopped = [], False
        self.digests = {}  # by version, of the server
        self.news = threading.Condition()
        self.server = self.device = self.proxy = None

    def start_server(self):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *self.config], self.look)

    def look(self, line):
        if "event=run_stopped" in line:
            self.is_stopped = True  # an update that was on its way then is refused, as it should be
        elif "event=digest_mismatch" in line or ("event=update_refused" in line and not self.is_stopped):
            self.refused.append(line)
        elif "event=round_closed" in line:
            with self.news:
                found = fleet.fields(line)
                self.digests[int(found["version"])] = found["digest"]
                self.news.notify_all()

    def start_board(self, board, plan=(), noise=None):
        self.start_server()
        self.proxy = link_proxy.LinkProxy(self.port, plan, noise, keeps_device=board == BOARDS["uart"],
                                          on_idle=self.skip_time)
        arguments = types.SimpleNamespace(
            board=board, server=f"127.0.0.1:{self.proxy.port}", identity=self.home / "board.identity",
            shard=self.home / "board.gsd", flash=None, forever=False,
            no_floors=True)
        image = fleet.ROOT / "build" / board / "boards" / board.replace("-", "_") / f"{TARGET}.elf"
        self.device = fleet.Process("board", emulate.command(arguments, image))

    def start_native(self):
        self.start_server()
        self.device = fleet.Process("native client", [
            fleet.CLIENT, "--data", self.home / "board.gsd", "--identity", self.home / "board.identity",
            "--server", f"127.0.0.1:{self.port}", "--state", "none", "--no-floors",
            "--until-finished"])

    def skip_time(self):
        with contextlib.suppress(OSError):  # it has ended
            self.device.type(CLOCK_SKIP)

    def version(self):
        return max(self.digests, default=0)

    def wait_for_version(self, version, seconds):
        with self.news:
            if not self.news.wait_for(lambda: self.version() >= version, seconds):
                raise Failure(f"no version {version} within {seconds} s")

    def finish(self):
        """Stops the run, some versions later."""
        self.wait_for_version(self.version() + CALM_ROUNDS, RECOVERY_SECONDS_MAX * 3)
        fleet.command([fleet.SERVER, "run", "stop", *self.config], "stopping the run")
        self.end("event=stopped", RECOVERY_SECONDS_MAX * 3)

    def end(self, event, seconds):
        """The device's closing line has come, with the server's digest of that version."""
        line = self.device.wait_for_line(event, seconds)
        if line is None:
            raise Failure(f"the {self.device.name} does not end within {seconds} s")
        found = fleet.fields(line)
        self.wait_for_version(int(found["version"]), RECOVERY_SECONDS_MAX)  # its line comes by another way
        if self.digests.get(int(found["version"])) != found["digest"]:
            raise Failure(f"the {self.device.name} and the server disagree: {line}")

    def stop(self):
        for part in (self.device, self.server):
            if part is not None:
                part.stop()
        if self.proxy is not None:
            self.proxy.close()

    def check(self):
        with contextlib.closing(sqlite3.connect(self.home / "gradstream.db")) as database:
            rows = database.execute("SELECT version, count(*) FROM journal WHERE kind = ? GROUP BY version "
                                    "ORDER BY version", (RECORD_KIND_UPDATE,)).fetchall()
        if rows != [(version, 1) for version in range(1, self.version() + 1)]:
            raise Failure(f"the journal does not count the board once in every version: {rows}")
        if self.refused:
            raise Failure("\n".join(["the server refused:", *self.refused]))


def play(story, rounds=ROUNDS_MAX):
    """What story(run) returns, of a run that is checked at its end; and the digests of its versions."""
    with tempfile.TemporaryDirectory(prefix="gradstream-linkdrop-", dir=os.environ.get("TMPDIR")) as home:
        run = Run(pathlib.Path(home), rounds)
        try:
            result = story(run)
        except Failure as failure:
            drops = f" ({run.proxy.drops} drops, {run.proxy.byte_count} bytes)" if run.proxy else ""
            lines = [f"    {process.name}: {line}" for process in (run.device, run.server)
                     for line in process.lines[-10:]]
            raise Failure("\n".join([f"{failure}{drops}", *lines])) from failure
        finally:
            run.stop()
        run.check()
        return result, run.digests


def measure(board):
    """(bytes that go over its link in an undisturbed session of SESSION_ROUNDS, digests)."""
    def story(run):
        run.start_board(board)
        run.end("event=finished", RECOVERY_SECONDS_MAX)
        return run.proxy.byte_count
    return play(story, SESSION_ROUNDS)


def drop(board, plan):
    """(None, digests) of a run whose link drops at those bytes."""
    def story(run):
        run.start_board(board, plan)
        for count in range(1, len(plan) + 1):
            if not run.proxy.wait_for_drop(count, RECOVERY_SECONDS_MAX):
                raise Failure(f"no session reached byte {plan[count - 1]} within {RECOVERY_SECONDS_MAX} s")
        run.finish()
    return play(story)


def restart(board, count, seed):
    """(bytes spoilt, digests) of a run whose server is killed `count` times, with noise on the link meanwhile."""
    noise = link_proxy.Noise(seed, NOISE_GAP_BYTES)

    def story(run):
        run.start_board(board, noise=noise)
        for index in range(1, count + 1):
            run.wait_for_version(index * RESTART_ROUNDS, RECOVERY_SECONDS_MAX * 3)
            run.server.kill()
            run.start_server()
        run.finish()
        return noise.count
    return play(story)


def undisturbed(rounds):
    """Digests of the first versions, by a native client."""
    def story(run):
        run.start_native()
        run.end("event=finished", NATIVE_SECONDS_MAX)
    return play(story, rounds)[1]


def processor_seconds():
    """Of this process and its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def shares(points, count):
    """The points in at most `count` parts, each of neighbours, so that first sessions are dropped all over."""
    size = -(-len(points) // count)
    return [points[begin:begin + size] for begin in range(0, len(points), size)]


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
    parser.add_argument("--boards", type=int, default=8, help="that share the drops, at once")
    parser.add_argument("--restarts", type=int, default=20, help="of the server, with noise on the link")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    board = BOARDS[arguments.link]
    for preset, target in (("dev", ("gradstream", "gradstream-client")), (board, (TARGET,))):
        if preset == "dev" and "GS_BUILD_DIR" in os.environ:
            continue  # a test, whose tree is built
        fleet.build(preset, *target)
    begin, used = time.monotonic(), processor_seconds()
    try:
        size, digests = measure(board)
        points = list(range(1, size + 1, arguments.stride))[arguments.part[0] - 1::arguments.part[1]]
        plans = shares(points, arguments.boards)
        with concurrent.futures.ThreadPoolExecutor(arguments.boards + 1) as pool:
            noisy = pool.submit(restart, board, arguments.restarts, arguments.seed) if arguments.restarts else None
            runs = [pool.submit(drop, board, plan) for plan in plans]
            for done, run in enumerate(concurrent.futures.as_completed(runs), 1):
                run.result()
                print(f"{done} of {len(runs)} boards met their drops, {time.monotonic() - begin:.0f} s", flush=True)
            found = [digests, *(run.result()[1] for run in runs)]
            spoilt = 0
            if noisy:
                spoilt, digests = noisy.result()
                found.append(digests)
        native = undisturbed(max(map(max, found)))
        for digests in found:
            if not digests.items() <= native.items():
                wrong = min(version for version, digest in digests.items() if native.get(version) != digest)
                raise Failure(f"the digest of version {wrong} is not that of the undisturbed client")
    except Failure as failure:
        print(f"linkdrop: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    used = processor_seconds() - used
    print(f"a session of {size} bytes, dropped at {len(points)} of them on {len(runs)} boards; {arguments.restarts} "
          f"restarts of the server with {spoilt} bytes spoilt; {time.monotonic() - begin:.0f} s, "
          f"{used / (len(points) or 1):.2f} s of processor a drop")
    print(f"result: link={arguments.link} drops={len(points)} bytes={size} restarts={arguments.restarts} "
          f"spoilt={spoilt} versions={sum(map(len, found))} cpu_s={used:.1f} digests=1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
