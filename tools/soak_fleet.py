"""./run soak fleet: virtual days of a fleet on the real server, at full speed, for an hour or --minutes.

A day is one version: every device pulls, answers and is told when to come again; a quarter of them then leaves and
dials anew. Everyone takes part and a device's answer follows from its index and the version, so that the digest of each
version is one, whoever answers when. Two servers do half of the time each, with other draws of who leaves when; each is
started once more at its end and reads its journal again. Held to:

  memory       the server's highest resident size ever: in the last third of the time it grows by at most 1 %. What is
               resident at a moment is shown, and goes up and down with what the allocator has given back; not judged
               below 5 minutes
  descriptors  as many at the last look as at the first
  digests      of both servers the same at every version that both reached, and the last one again after the restart
  devices      no session lost, no answer late, no update refused, no deadline of the server's
"""

import argparse
import collections
import contextlib
import os
import pathlib
import resource
import sys
import tempfile
import time
import urllib.request

import bench_server
import fleet

DEVICES = 200
VALUES = 16        # of the model: a small journal, which an hour makes some GB long
LEAVING_SHARE = 0.25
LOOKS = 12         # at a server's memory and descriptors, each with nobody connected
# Shorter ones have three looks, and no verdict on memory: what a server keeps of its last versions is filling.
JUDGED_MINUTES_MIN = 5
SETTLE_SECONDS = 1
SETTLES_MAX = 30  # of a busy machine; a descriptor that is never closed is found by the next look
GROWTH_MAX = 0.01
END_SECONDS_MAX = 120  # from the end of a look's days until all devices have left
# An update and its task in the journal and its log, beside other work. Reason: a full disk would end the soak late.
BYTES_PER_SECOND = 4 << 20

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
http_listen = "127.0.0.1:{http_port}"
database = "{home}/gradstream.db"
log_level = "info"
allow_psk_ke = true
[run]
name = "soak"
""" + bench_server.MODEL + """round_count = 100000000
device_count = {devices}
retry_min_ms = 5
retry_max_ms = 50
"""


class Failure(Exception):
    """What was not held, or does not work."""


Look = collections.namedtuple("Look", "resident peak files")


class Life:
    """One server with its database, and all digests that it named."""

    def __init__(self, home, identities):
        self.home = home
        self.port, self.http_port = fleet.free_port(), fleet.free_port()
        self.digests = {}
        self.recovered = None
        self.config = home / "server.toml"
        self.config.write_text(CONFIG.format(port=self.port, http_port=self.http_port, home=home, values=VALUES,
                                             devices=DEVICES), encoding="ascii")
        fleet.command([fleet.SERVER, "device", "import", identities, "--config", self.config], "enrolling")
        self.server = None

    def start(self, seconds=60):
        self.server = bench_server.Peer(fleet.Process("server", [fleet.SERVER, "serve", "--config", self.config],
                                                      self._hear))
        if not self.server.process.wait_for_line("event=listening", seconds):
            raise Failure("the server does not listen:\n" + "\n".join(self.server.process.lines[-5:]))

    def _hear(self, line):
        if "event=round_closed" in line:
            found = fleet.fields(line)
            self.digests[int(found["version"])] = found["digest"]
        elif "event=run_recovered" in line:
            self.recovered = fleet.fields(line)

    def look(self):
        """Resident bytes now and at most, and open descriptors, after a look at what the web page would fetch."""
        for path in ("/metrics", "/status"):
            urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10).read()
        files = self.settled_files()
        return Look(self.server.resident_bytes(), self.server.resident_bytes("VmHWM"), files)

    def settled_files(self):
        """Open descriptors, once the server has closed those of the sessions that have ended."""
        files = len(os.listdir(f"/proc/{self.server.pid}/fd"))
        for _ in range(SETTLES_MAX):
            before = files
            time.sleep(SETTLE_SECONDS)
            files = len(os.listdir(f"/proc/{self.server.pid}/fd"))
            if files == before:
                break
        return files

    def stop(self):
        """The counters that it named at its end."""
        self.server.stop()
        line = next((line for line in reversed(self.server.process.lines) if "event=counters" in line), None)
        if line is None:
            raise Failure("the server did not end:\n" + "\n".join(self.server.process.lines[-5:]))
        return fleet.fields(line)


def live(life, seed, seconds, look_count, identities):
    """One server's half. What it did, and its looks."""
    life.start()
    load = fleet.Process("load", [bench_server.LOAD, "--port", life.port, "--identities", identities, "--devices",
                                  DEVICES, "--seed", seed, "--exchange", "psk_ke"])
    total = {"exchanges": 0, "dials": 0}
    looks = []
    try:
        if load.wait_for_line("event=connected", 120) is None:
            raise Failure("the fleet does not connect:\n" + "\n".join(load.lines[-3:]))
        for _ in range(look_count):
            load.forget_lines()
            load.type(f"days {seconds / look_count:.1f} {LEAVING_SHARE}\n")
            line = load.wait_for_line("event=load", seconds / look_count + END_SECONDS_MAX)
            if line is None:
                raise Failure("the fleet says nothing:\n" + "\n".join(life.server.process.lines[-5:]))
            found = fleet.fields(line)
            if int(found["lost"]) > 0 or int(found["refused"]) > 0:
                raise Failure(f"sessions lost or updates refused: {line}")
            total = {key: value + int(found[key]) for key, value in total.items()}
            looks.append(life.look())
            print(f"soak: version {max(life.digests, default=0)}, {total['exchanges']} updates, {total['dials']} "
                  f"dials, {looks[-1].resident / 1024:.0f} KiB, at most {looks[-1].peak / 1024:.0f}, "
                  f"{looks[-1].files} descriptors", flush=True)
        load.type("quit\n")
        load.wait(30)
    finally:
        load.stop()
    counters = life.stop()
    late = {key: value for key, value in counters.items() if key.startswith("deadline_") and int(value) > 0}
    if late:
        raise Failure(f"deadlines of the server's: {late}")
    return total, looks


def check_journal(life):
    """Reads the journal again: it must come to the digest that was said last."""
    life.start(1800)
    life.stop()
    version = max(life.digests)
    if life.recovered is None or int(life.recovered["version"]) != version \
            or life.recovered["digest"] != life.digests[version]:
        raise Failure(f"version {version} was {life.digests[version]}, its journal says {life.recovered}")


def growth_of(looks):
    """Of the peak, in the last third."""
    return looks[-1].peak / looks[2 * len(looks) // 3 - 1].peak - 1


def main():
    parser = argparse.ArgumentParser(prog="./run soak fleet", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="of both servers together (default 60)")
    arguments = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if "GS_BUILD_DIR" not in os.environ:  # else a test, whose tree is built
        fleet.build("dev", "gradstream", "gradstream-load")
    seconds = 60 * arguments.minutes / 2
    is_judged = arguments.minutes >= JUDGED_MINUTES_MIN
    lives, failed = [], []
    try:
        with contextlib.ExitStack() as stack:
            home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradstream-soak-")))
            space = os.statvfs(home)
            if space.f_bavail * space.f_frsize < 2 * seconds * BYTES_PER_SECOND:
                raise Failure(f"{home} has too little space for two journals: name a larger disk in TMPDIR")
            identities = home / "identities.csv"
            bench_server.write_identities(identities, DEVICES)
            for seed in (1, 2):
                folder = home / str(seed)
                folder.mkdir()
                life = Life(folder, identities)
                stack.callback(lambda life=life: life.server and life.server.stop())
                total, looks = live(life, seed, seconds, LOOKS if is_judged else 3, identities)
                check_journal(life)
                lives.append((life, total, looks))
                growth, files = growth_of(looks), [looks[0].files, looks[-1].files]
                for name, is_held in ((f"memory grew by {100 * growth:.2f} %", growth <= GROWTH_MAX or not is_judged),
                                      (f"descriptors {files[0]}, then {files[1]}", files[0] == files[1])):
                    is_open = name.startswith("memory") and not is_judged
                    verdict = "too short to judge" if is_open else "held" if is_held else "not held"
                    print(f"soak: server {seed}: {name}: {verdict}", flush=True)
                    failed += [] if is_held else [name]
        versions = set(lives[0][0].digests) & set(lives[1][0].digests)
        other = [version for version in versions if lives[0][0].digests[version] != lives[1][0].digests[version]]
        print(f"soak: {len(versions)} versions of both servers, {len(other)} with two digests")
        failed += ["digests"] if other or not versions else []
    except (Failure, RuntimeError, OSError) as failure:
        print(f"soak: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"result: minutes={arguments.minutes:g} days={sum(max(life.digests) for life, _, _ in lives)} "
          f"updates={sum(total['exchanges'] for _, total, _ in lives)} "
          f"dials={sum(total['dials'] for _, total, _ in lives)} "
          f"memory_growth_percent={100 * max(growth_of(looks) for _, _, looks in lives):.2f} "
          f"memory_judged={int(is_judged)} "
          f"descriptors_leaked={max(looks[-1].files - looks[0].files for _, _, looks in lives)} "
          f"digests_compared={len(versions)} digests_that_differ={len(other)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
