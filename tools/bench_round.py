"""./run bench round: how long a round takes where the devices' work is nothing, and what it costs on the wire.

Nine native clients train the demo's model over TLS on 127.0.0.1, with the server's default windows and a durable
journal. Turns of two kinds alternate: clients on mains power, which leave their Pulls with the server, and clients on
batteries, which poll. A round's time is the median over the turns. The bytes are those of a client's connections, both
ways, handshake and first model included, for each round.

Then one client is 8 times as slow as the others: what do those send while they wait? And one client waits two minutes
for a second one that never comes: what goes over its connection?

At last 60 clients wait for another one that never comes, once on batteries and once on mains power: what does a device
take of the server's heap that waits for its window, and one whose Pull the server holds?
"""

import argparse
import math
import os
import pathlib
import re
import secrets
import signal
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

import digits
import fleet
import link_proxy

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
DEVICES = 9
# What the demo sets otherwise: the defaults.
DEFAULTS = {"server.limits.store_delay_ms": 2, "run.retry_min_ms": 200, "run.retry_max_ms": 1000}
STEP = 0.02  # run.step_size; the rounds of a bench need not converge well
ROUNDS = {"mains": 300, "battery": 12}  # of a turn
WARM_ROUNDS = {"mains": 20, "battery": 2}  # not counted: handshakes, the first model
SLOW_ROUNDS = 12
QUICK_ROUNDS = 60  # of --quick
STEP_DELAY_MS = (5, 40)  # of a fast client and of the slow one
LISTEN_SECONDS_MAX = 30
ROUND_SECONDS_MAX = 10
FINISH_SECONDS_MAX = 30
IDLE_SECONDS = 120       # that the waiting client is looked at
IDLE_SETTLE_SECONDS = 3  # without a byte: it is held
IDLE_LOOK_SECONDS = 0.25
HELD_DEVICES = 60
HELD_SECONDS_MAX = 120
HELD_SETTLE_SECONDS = 3  # the snapshot for readers is of each second
# Goals.
MS_PER_ROUND_MAX = 10
POLLING_SHARE_MAX = 1 / 50
WIRE_BYTES_MAX = 960
SLOW_WIRE_BYTES_MAX = 2048
SILENCE_SECONDS_MIN = 55  # one exchange a minute
IDLE_BYTES_MAX = 400      # a minute: a Pull and its Wait, about 180 bytes, and room for one more
HELD_GROWTH_MAX = 0.01    # of the heap of a device that waits, where the server holds its Pull


class Failure(Exception):
    """What does not work, with the last lines of those who know."""


def last_lines(*processes):
    return "\n".join(f"    {process.name}: {line}" for process in processes for line in process.lines[-8:])


class Run:
    """A server and its clients in a folder of their own."""

    def __init__(self, home, devices, rounds):
        self.home, self.devices, self.rounds = home, devices, rounds
        self.port, self.http_port = fleet.free_port(), fleet.free_port()
        self.closed = {}  # version -> when its line came
        self.server, self.clients = None, []
        values = DEFAULTS | {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                             "server.http_listen": f"127.0.0.1:{self.http_port}",
                             "server.export_dir": "", "run.device_count": devices, "run.round_count": rounds,
                             "run.step_size": STEP}
        self.config = ["--config", CONFIG, *(part for key, value in values.items()
                                             for part in ("--set", f"{key}={value}"))]

    def start_server(self):
        keys = {f"d{index}": secrets.token_hex(32) for index in range(self.devices)}
        table = self.home / "identities.csv"
        table.touch(mode=0o600)  # the server takes no keys that others can read
        table.write_text("".join(f"{name},{key}\n" for name, key in keys.items()), encoding="ascii")
        for name, key in keys.items():
            identity = self.home / f"{name}.identity"
            identity.touch(mode=0o600)
            identity.write_text(f"identity = {name}\nkey = {key}\n", encoding="ascii")
        fleet.command([fleet.SERVER, "device", "import", table, *self.config], "enrolling")
        fleet.command([fleet.SERVER, "run", "start", *self.config], "starting the run")
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *self.config], self._note)
        if self.server.wait_for_line("event=listening", LISTEN_SECONDS_MAX) is None:
            raise Failure("the server does not listen:\n" + last_lines(self.server))

    def _note(self, line):
        if "event=round_closed" in line:
            self.closed[int(fleet.fields(line)["version"])] = time.monotonic()

    def start_client(self, index, power, delay_ms=0, port=None):
        name = f"d{index}"
        self.clients.append(fleet.Process(name, [
            fleet.CLIENT, "--server", f"127.0.0.1:{port or self.port}", "--identity", self.home / f"{name}.identity",
            "--data", self.home.parent / f"{index % DEVICES}.gsd", "--power", power, "--step-delay-ms", delay_ms,
            "--no-floors", "--until-finished"]))

    def play(self):
        """Until each client has said its last line; the fields of these."""
        ends = []
        seconds = FINISH_SECONDS_MAX + self.rounds * ROUND_SECONDS_MAX
        for client in self.clients:
            line = client.wait_for_line("event=finished", seconds)
            if line is None:
                raise Failure("the run does not end:\n" + last_lines(self.server, client))
            ends.append(fleet.fields(line))
        if len({end["digest"] for end in ends}) != 1:
            raise Failure("the clients end with different models:\n" + last_lines(*self.clients))
        return ends

    def processor_seconds(self):
        """Of all threads of the server."""
        tasks = pathlib.Path(f"/proc/{self.server._child.pid}/task").iterdir()  # pylint: disable=protected-access
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9

    def metric(self, name):
        """The server's gauge or counter of this name."""
        url = f"http://127.0.0.1:{self.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=HELD_SECONDS_MAX) as answer:
            return float(re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)[1])

    def stop(self):
        for process in [*self.clients, self.server]:
            if process is not None:
                process.stop()


def wire_bytes(end):
    return int(end["sent"]) + int(end["received"])


class Bench:
    """All turns of one call, in a folder with the shards."""

    def __init__(self, home):
        self.home = home
        self._run_count = 0
        parts, mean = digits.shards(DEVICES)
        for index, pixels in enumerate(parts):
            digits.write_shard(home / f"{index}.gsd", pixels, mean)

    def run(self, devices, rounds):
        self._run_count += 1
        folder = self.home / f"run{self._run_count}"
        folder.mkdir()
        return Run(folder, devices, rounds)

    def turn(self, power, rounds):
        """(ms a round, wire bytes a client and round, processor of the server in us for each update)."""
        warm = WARM_ROUNDS[power]
        run = self.run(DEVICES, rounds)
        try:
            run.start_server()
            for index in range(DEVICES):
                run.start_client(index, power)
            ends = run.play()
            spent = run.processor_seconds()
            # A client may have its end before the server's log has the line.
            run.server.wait_for_line(f"event=round_closed version={rounds} ", LISTEN_SECONDS_MAX)
            missing = {warm, rounds} - run.closed.keys()
            if missing:
                raise Failure(f"the server says nothing of the rounds {sorted(missing)}:\n" + last_lines(run.server))
            return (1000 * (run.closed[rounds] - run.closed[warm]) / (rounds - warm),
                    statistics.mean(map(wire_bytes, ends)) / rounds, 1e6 * spent / (rounds * DEVICES))
        finally:
            run.stop()

    def slow(self):
        """Wire bytes of a client that waits for the slow one, for each round: the largest of them."""
        run = self.run(DEVICES, SLOW_ROUNDS)
        try:
            run.start_server()
            for index in range(DEVICES):
                run.start_client(index, "mains", STEP_DELAY_MS[index == DEVICES - 1])
            return max(map(wire_bytes, run.play()[:-1])) / SLOW_ROUNDS
        finally:
            run.stop()

    def heap_of_waiting(self, power):
        """Bytes of the server's heap for each device that has answered, and waits for one that never comes."""
        run = self.run(HELD_DEVICES + 1, SLOW_ROUNDS)
        waiting = "gradstream_held" if power == "mains" else "gradstream_updates_folded_total"
        try:
            run.start_server()
            time.sleep(HELD_SETTLE_SECONDS)
            before = run.metric("gradstream_heap_bytes")
            for index in range(HELD_DEVICES):
                run.start_client(index, power)
            deadline = time.monotonic() + HELD_SECONDS_MAX
            while run.metric(waiting) < HELD_DEVICES:
                if time.monotonic() > deadline:
                    raise Failure(f"of {HELD_DEVICES} devices {run.metric(waiting):.0f} wait:\n" +
                                  last_lines(run.server))
                time.sleep(IDLE_LOOK_SECONDS)
            time.sleep(HELD_SETTLE_SECONDS)
            return (run.metric("gradstream_heap_bytes") - before) / HELD_DEVICES
        finally:
            run.stop()


class Idle(threading.Thread):
    """One client that waits for a second one, which never comes. bytes_per_min, silence_s, problem: what was seen."""

    def __init__(self, run, seconds):
        super().__init__(daemon=True)
        self._run, self._seconds = run, seconds
        self.bytes_per_min, self.silence_s, self.problem = math.nan, math.nan, ""

    def run(self):
        proxy = None
        try:
            self._run.start_server()
            proxy = link_proxy.LinkProxy(self._run.port)
            self._run.start_client(0, "mains", port=proxy.port)
            self._look(proxy)
        except (Failure, RuntimeError, OSError) as failure:
            self.problem = str(failure)
        finally:
            self._run.stop()
            if proxy is not None:
                proxy.close()

    def _look(self, proxy):
        count, changed = proxy.byte_count, time.monotonic()
        deadline = changed + LISTEN_SECONDS_MAX
        while count == 0 or time.monotonic() - changed < IDLE_SETTLE_SECONDS:
            if time.monotonic() > deadline:
                raise Failure("the client that waits does not come to rest:\n" + last_lines(*self._run.clients))
            time.sleep(IDLE_LOOK_SECONDS)
            if proxy.byte_count != count:
                count, changed = proxy.byte_count, time.monotonic()
        begin, first = changed, count
        while time.monotonic() < begin + self._seconds:
            time.sleep(IDLE_LOOK_SECONDS)
            if proxy.byte_count != count:
                count = proxy.byte_count
                self.silence_s = time.monotonic() - begin if math.isnan(self.silence_s) else self.silence_s
        self.silence_s = self._seconds if math.isnan(self.silence_s) else self.silence_s
        self.bytes_per_min = (count - first) * 60 / self._seconds


def judge_quick(turn):
    """As judge(), of one turn on mains power: its bytes alone, since the machine has other work."""
    ms_per_round, sent, _ = turn
    holds = sent <= WIRE_BYTES_MAX
    print(f"{'holds' if holds else 'FAILS'}: at most {WIRE_BYTES_MAX} bytes a client and round")
    print(f"result: ms_per_round={ms_per_round:.1f} wire_bytes={sent:.0f} held_idle_bytes_per_min=not_measured",
          flush=True)
    return 0 if holds else 1


def judge(turns, slow_bytes, idle, heap):
    """Prints each goal and the result line; the exit status."""
    ms = {power: statistics.median(turn[0] for turn in turns[power]) for power in turns}
    sent = {power: statistics.median(turn[1] for turn in turns[power]) for power in turns}
    goals = [(f"a round takes at most {MS_PER_ROUND_MAX} ms, or 1/{1 / POLLING_SHARE_MAX:.0f} of polling",
              ms["mains"] <= max(MS_PER_ROUND_MAX, POLLING_SHARE_MAX * ms["battery"])),
             (f"at most {WIRE_BYTES_MAX} bytes a client and round", sent["mains"] <= WIRE_BYTES_MAX),
             (f"at most {SLOW_WIRE_BYTES_MAX} bytes a round of a client that waits for a slow one",
              slow_bytes <= SLOW_WIRE_BYTES_MAX),
             (f"a held device takes at most {100 * HELD_GROWTH_MAX:.0f} % more of the server's heap than a waiting one",
              heap["mains"] <= (1 + HELD_GROWTH_MAX) * heap["battery"])]
    if idle is not None:
        goals += [(f"no byte for {SILENCE_SECONDS_MIN} s while a Pull is held: {idle.silence_s:.0f} s",
                   idle.silence_s >= SILENCE_SECONDS_MIN),
                  (f"at most {IDLE_BYTES_MAX} bytes a minute then", idle.bytes_per_min <= IDLE_BYTES_MAX)]
    for what, holds in goals:
        print(f"{'holds' if holds else 'FAILS'}: {what}")
    idle_bytes = "not_measured" if idle is None else f"{idle.bytes_per_min:.0f}"
    print(f"result: ms_per_round={ms['mains']:.1f} wire_bytes={sent['mains']:.0f} held_idle_bytes_per_min={idle_bytes} "
          f"polling_ms_per_round={ms['battery']:.1f} polling_wire_bytes={sent['battery']:.0f} "
          f"slow_wire_bytes={slow_bytes:.0f} heap_bytes_per_held_device={heap['mains']:.0f} "
          f"heap_bytes_per_waiting_device={heap['battery']:.0f}", flush=True)
    return 0 if all(holds for _, holds in goals) else 1


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run bench round", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=5, help="of each kind (default 5)")
    parser.add_argument("--no-idle", action="store_true", help="leave out the client that waits two minutes")
    parser.add_argument("--quick", action="store_true",
                        help=f"one turn of {QUICK_ROUNDS} rounds on mains power, of which only the bytes are judged")
    arguments = parser.parse_args()
    if not 1 <= arguments.turns <= 99:
        parser.error(f"--turns takes 1 to 99, not {arguments.turns}")
    return arguments


def measure(arguments, home):
    bench = Bench(home)
    head = "| power | ms a round | bytes a client and round | server us an update |\n|---|---|---|---|"
    if arguments.quick:
        found = bench.turn("mains", QUICK_ROUNDS)
        print(f"{head}\n| mains | {found[0]:.1f} | {found[1]:.0f} | {found[2]:.0f} |")
        return judge_quick(found)
    idle = None if arguments.no_idle else Idle(bench.run(2, ROUNDS["mains"]), IDLE_SECONDS)
    turns = {power: [] for power in ROUNDS}
    if idle is not None:
        idle.start()
    print(head)
    for _ in range(arguments.turns):
        for power, found in turns.items():
            found.append(bench.turn(power, ROUNDS[power]))
            print(f"| {power} | {found[-1][0]:.1f} | {found[-1][1]:.0f} | {found[-1][2]:.0f} |", flush=True)
    slow_bytes = bench.slow()
    heap = {power: bench.heap_of_waiting(power) for power in turns}
    print(f"heap of the server for each device: {heap['battery']:.0f} bytes while it waits, {heap['mains']:.0f} while "
          "its Pull is held", flush=True)
    if idle is not None:
        print("the client that waits is looked at", flush=True)
        idle.join()
        if idle.problem:
            raise Failure(idle.problem)
    return judge(turns, slow_bytes, idle, heap)


def main():
    arguments = parse_arguments()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if "GS_BUILD_DIR" not in os.environ:  # else a tree that is built
            fleet.build("dev", "gradstream", "gradstream-client")
        with tempfile.TemporaryDirectory(prefix="gradstream-bench-", ignore_cleanup_errors=True) as folder:
            return measure(arguments, pathlib.Path(folder))
    except (Failure, RuntimeError, OSError) as failure:  # OSError: a server that has ended answers nothing
        print(f"bench: error: {failure}", file=sys.stderr, flush=True)
        print("result: error=failed", flush=True)
    except KeyboardInterrupt:
        print("bench: error: interrupted; all that it started is ended", file=sys.stderr, flush=True)
        print("result: error=interrupted", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
