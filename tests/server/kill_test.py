"""kill -9 of the real server, then of real clients, at seeded random moments of a run, and 50 half-open peers during a
run: the final model must be that of the run that nobody disturbed (everyone takes part, fixed K), with every device
counted in every round. The disturbed servers have two threads for sessions, the other one has none.

The moments are counted in lines of the server's log, so that they spread over the whole run on a machine of any speed.
Usage: kill_test.py [--kills N] [--seed S]       exit status 0: four runs, one digest
"""

import argparse
import contextlib
import os
import pathlib
import random
import socket
import sqlite3
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
DEVICES = 3
RUN_SECONDS_MAX = 240
RECORD_KIND_UPDATE = 2  # RecordKind::kUpdate in server/journal/store.h
ROUNDS_PER_KILL = 2  # a run has room for so many kills, and some rounds in peace at its end
CALM_ROUNDS = 5
# Between two kills, at most. A server has said three when it serves, so that three kill it in its start alone. By 18
# the run is over before all of its kills.
SERVER_LINES_MAX, DEVICE_LINES_MAX = 10, 3
HALF_OPEN_PEERS = 50
TLS_RECORD_HEADER = bytes([22, 3, 1, 1, 0])  # a handshake record of 256 bytes, which never come


class Run:
    """One run of a server and its devices in a folder of its own."""

    def __init__(self, home, rounds, shards, threads):
        self.home = home
        self.rounds = rounds
        self.port = fleet.free_port()
        self.lines_seen = 0
        self.version = 0
        self.news = threading.Condition()
        self.server = None
        self.devices = [None] * DEVICES
        self.config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home / "models", "run.round_count": rounds,
                           "run.device_count": DEVICES, "run.step_size": 0.28,
                           "server.limits.io_threads": threads}.items():
            self.config += ["--set", f"{key}={value}"]
        (home / "models").mkdir(parents=True)
        for index, pixels in enumerate(shards[0]):
            digits.write_shard(home / f"{index}.gsd", pixels, shards[1])
            fleet.command([fleet.SERVER, "device", "add", f"device-{index}", *self.config,
                           "--out", home / f"{index}.identity"], "enrolling a device")

    def on_server_line(self, line):
        with self.news:
            self.lines_seen += 1
            if "event=round_closed" in line:
                self.version = int(fleet.fields(line)["version"])
            self.news.notify_all()

    def start_server(self):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *self.config], self.on_server_line)

    def start_device(self, index):
        self.devices[index] = fleet.Process(f"device-{index}", [
            fleet.CLIENT, "--server", f"127.0.0.1:{self.port}", "--identity", self.home / f"{index}.identity",
            "--data", self.home / f"{index}.gsd", "--state", self.home / f"state-{index}", "--retry-ms", 10,
            "--no-floors", "--step-delay-ms", 1, "--until-finished"])

    def wait_for_news(self, line_count, deadline):
        """False when the run is near its end or the time is over."""
        with self.news:
            target = self.lines_seen + line_count
            while self.lines_seen < target and self.version < self.rounds - CALM_ROUNDS:
                if not self.news.wait(timeout=max(0.0, deadline - time.monotonic())):
                    return False
            return self.version < self.rounds - CALM_ROUNDS

    def play(self, disturb):
        """The whole run; disturb(run, deadline) acts in between. Returns (digests of the devices, disturbances)."""
        deadline = time.monotonic() + RUN_SECONDS_MAX
        self.start_server()
        for index in range(DEVICES):
            self.start_device(index)
        try:
            count = disturb(self, deadline)
            ends = [device.wait_for_line("event=finished", max(1, deadline - time.monotonic()))
                    for device in self.devices]
            if None in ends:
                silent = [self.devices[index] for index, end in enumerate(ends) if end is None]
                lines = [f"    {process.name}: {line}" for process in [self.server, *silent]
                         for line in process.lines[-12:]]
                raise SystemExit("FAIL: the run did not come to its end:\n" + "\n".join(lines))
        finally:
            for process in [*self.devices, self.server]:
                if process is not None:
                    process.stop()
        self.check_journal()
        return {fleet.fields(end)["digest"] for end in ends}, count

    def check_journal(self):
        """Every device counts exactly once in every version."""
        with contextlib.closing(sqlite3.connect(self.home / "gradstream.db")) as database:
            rows = database.execute("SELECT version, count(*), count(DISTINCT device) FROM journal WHERE kind = ? "
                                    "GROUP BY version ORDER BY version", (RECORD_KIND_UPDATE,)).fetchall()
        if rows != [(version, DEVICES, DEVICES) for version in range(1, self.rounds + 1)]:
            raise SystemExit(f"FAIL: the journal does not count every device once in every version: {rows}")


def kill_server(source, kills):
    def disturb(run, deadline):
        for done in range(kills):
            if not run.wait_for_news(source.randint(1, SERVER_LINES_MAX), deadline):
                return done
            time.sleep(source.random() * 0.01)  # inside a round, not only at its end
            run.server.kill()
            run.start_server()
        print(f"server: last killed in round {run.version}", flush=True)
        return kills
    return disturb


def kill_devices(source, kills):
    def disturb(run, deadline):
        for done in range(kills):
            if not run.wait_for_news(source.randint(1, DEVICE_LINES_MAX), deadline):
                return done
            time.sleep(source.random() * 0.01)
            index = source.randrange(DEVICES)
            run.devices[index].kill()
            run.start_device(index)
        return kills
    return disturb


@contextlib.contextmanager
def half_open_peers(run, count):
    """So many TCP peers that never finish their handshake: every other one sends a record header and stops."""
    with contextlib.ExitStack() as stack:
        for index in range(count):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", run.port), timeout=10))
            if index % 2 == 0:
                peer.sendall(TLS_RECORD_HEADER)
        yield


def stand_in_line(run, deadline):
    if run.server.wait_for_line("event=listening", max(1, deadline - time.monotonic())) is None:
        raise SystemExit("FAIL: the server does not listen:\n" + "\n".join(run.server.lines[-12:]))
    with half_open_peers(run, HALF_OPEN_PEERS):
        while run.wait_for_news(1, deadline):
            pass
    return HALF_OPEN_PEERS


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    shards = digits.shards(DEVICES)
    rounds = arguments.kills * ROUNDS_PER_KILL + CALM_ROUNDS
    cases = {"undisturbed": lambda run, deadline: 0,
             "server": kill_server(random.Random(arguments.seed), arguments.kills),
             "devices": kill_devices(random.Random(arguments.seed + 1), arguments.kills),
             "half-open": stand_in_line}
    digests = set()
    for name, disturb in cases.items():
        with tempfile.TemporaryDirectory(prefix="gradstream-kill-", dir=os.environ.get("TMPDIR")) as home:
            begin = time.monotonic()
            threads = 1 if name == "undisturbed" else 2
            found, count = Run(pathlib.Path(home), rounds, shards, threads).play(disturb)
            digests |= found
            print(f"{name}: disturbances {count}, rounds {rounds}, digest {' '.join(sorted(found))}, "
                  f"{time.monotonic() - begin:.1f} s", flush=True)
            if name in ("server", "devices") and count < arguments.kills:
                raise SystemExit(f"FAIL: only {count} of {arguments.kills} kills found their moment")
    print(f"result: digests={len(digests)} kills_server={arguments.kills} kills_devices={arguments.kills}")
    return 0 if len(digests) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
