"""./run bench server: what a device, a handshake and an update cost the aggregation server, beside its peers.

For 100, 1,000 and 10,000 devices, all over TLS 1.3 with pre-shared keys on 127.0.0.1: memory of an idle device (what
the process has resident, and what malloc has given out: gradstream_heap_bytes, which the broker does not tell),
handshakes and updates for each second of the server's processor, and the time from an update to its Ack. An update is
200 floats; it is pulled for, trained on nowhere, decoded, folded and durable before its Ack. Updates a second come from
64 exchanges at once; the time to the Ack is that of updates that arrive at 30 % of this rate for ten seconds, and once
more while somebody asks the HTTP port for /metrics, /status and /status/devices each second. mosquitto, an MQTT broker,
where it is installed, gets as many devices and messages of the same size with QoS 1. It keeps them in memory only: its
rate of messages is shown, and no goal. Its handshakes are one (psk_dhe_ke). Handshakes are also held against a bare
Mbed TLS server that accepts a connection, shakes hands on it and closes it; the server's also have their Hello and
Welcome. Bare Mbed TLS shows modes that the server does not offer too, in memory and, those that need no session before,
over TCP. The largest fleet is held against it: it runs before each of the server's rows of that fleet.
Clients run on this machine too: what counts is the server's processor time.

--io-threads takes numbers of threads for TLS and frames, each of which gets rows of its own. Where the clients run on
the same cores, handshakes a second of wall time show what threads do for a server that has processors to spare, not
what it would reach: that takes another machine for the clients. The processor second of a handshake or update shows
what handing over from thread to thread costs.

--durable-peers sets two servers beside it that have a message on the disk before they answer: PostgreSQL, with one
INSERT a commit over a socket of this machine, without TLS; and NATS JetStream with `sync_interval: always`, over TLS.
Both take messages of the same size from 64 clients. Set-up brings PostgreSQL, mosquitto, and where it finds a Go that
is new enough, NATS. In each of five turns the server, mosquitto and both run for five seconds each, and ratios are of
one turn. The medians count. The processor time is that of all of a peer's processes. A peer that is not there is named
(`nats=absent`) and not judged.

At last the largest fleet, all with live psk_ke sessions, loses its server: that is killed and started again at once,
and the devices dial as the client does. How long after the server listens until the last one has its Welcome and its
task again, and how many deadlines ended something meanwhile. --restart does this alone.
"""

import argparse
import contextlib
import functools
import http.client
import math
import os
import pathlib
import re
import resource
import secrets
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from typing import NamedTuple

import durable_peers
import fleet

LOAD = fleet.BUILD / "bench" / "gradstream-load"
FLEETS = (100, 1000, 10000)
HANDSHAKES = fleet.BUILD / "bench" / "gradstream-handshakes"
BARE_HANDSHAKES = 500
BARE_SECONDS_MAX, CERTIFICATES_SECONDS_MAX = 900, 600  # alone some 15 and 10
# That the server offers, and what bare Mbed TLS calls them.
EXCHANGES = {"psk_ke": "psk_ke", "psk_dhe_ke": "psk_dhe_ke", "certificate": "mutual_ecdsa"}
UPDATE_VALUES = 200
BUFFER_SHARE = 1 / 40  # of the fleet's updates make a version, so that a task of an idle device stays young enough
IDLE_MS = 3600000   # an idle device was told to wait so long
RETRY_MS = (200, 1000)  # the run's default: what a device that loses its server was told
RETURN_SECONDS_MAX = 60  # beyond that the restart has failed
CLOSED_SECONDS, CLOSED_COUNT = 10, 64   # as many exchanges at once as there are
OPEN_SECONDS, OPEN_SHARE = 10, 0.3      # of what closed reached: a server that is not saturated
SETTLE_SECONDS = 2
START_SECONDS_MAX = 60
TURNS, TURN_SECONDS = 5, 5  # with --durable-peers
CONNECT_SECONDS_MAX = 650
METRICS_SECONDS_MAX = 10
WATCH_SECONDS = 1  # between two looks of whoever watches: as the page does, oftener than a Prometheus
FILES_PER_DEVICE, FILES_BESIDE = 1, 200
# Goals.
RSS_PER_DEVICE_MAX = 12.5 * 1024
P99_ACK_MS_MAX = 100
BARE_SHARE_MIN = 0.8
RETURN_SECONDS_GOAL = 10
COST_GROWTH_MAX = 1.2  # of an update's processor time from the smallest fleet to the largest
# Of a figure in the result line: what it is, and the least that is wanted.
PEER_GOALS = {"psk_dhe_ke_vs_mosquitto": ("handshakes beside mosquitto's, psk_dhe_ke", 1.2),
              "updates_per_cpu_s_vs_postgresql": ("updates beside PostgreSQL's commits, which are without TLS", 1.0),
              "updates_per_cpu_s_vs_nats_always": ("updates beside NATS JetStream's messages, on the disk each", 2.5)}
BROKER_NAME = "mosquitto, psk_dhe_ke"

# Keys of [run]: dense updates of {values} numbers, with next to no arithmetic on either side.
MODEL = """\
manifold = "euclidean"
rows = {values}
cols = 1
problem = "least_squares"
centre = "none"
scale = "none"
solver = "gradient_stream"
estimator = "analytic_gradient"
upload_stream = "tangent"
correction_form = "none"
local_step_count = 1
step_size = 1e-3
fold_weight = "uniform"
clip_norm = "none"
"""
CERTIFICATES = """\
device_ca_file = "{home}/ca.pem"
certificate_file = "{home}/server.pem"
certificate_key_file = "{home}/server.key"
"""
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
http_listen = "127.0.0.1:{http}"
database = "{home}/gradstream.db"
log_level = "warn"
allow_psk_ke = true
{certificates}[server.limits]
io_threads = {threads}
connection_count_max = {connections}
handshake_count_max = {handshakes}
device_messages_per_s_max = 0
[run]
name = "bench"
""" + MODEL + """round_count = 1000000
device_count = {devices}
buffer_size = {buffer}
late = "weight"
staleness_table = "constant"
staleness_max = 64
device_share_max = 1.0
retry_min_ms = {retry_ms[0]}
retry_max_ms = {retry_ms[1]}
"""
BROKER_CONFIG = """
listener {port} 127.0.0.1
psk_hint gradstream
psk_file {home}/psk
allow_anonymous true
user root
sys_interval 0
"""


class Failure(Exception):
    """What does not work, with the last lines of those who know."""


class Peer:
    """The process under test, and what it has taken so far."""

    def __init__(self, process):
        self.process = process
        self.http_port = None

    @property
    def pid(self):
        return self.process.pid

    def processor_seconds(self):
        """Of all its threads. In nanoseconds, where /proc/PID/stat counts hundredths of a second."""
        nanoseconds = 0
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
                nanoseconds += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        return nanoseconds / 1e9

    def coordinator_seconds(self):
        """Of its first thread, on which the server decides, and does all else where it has io_threads = 1."""
        return int(pathlib.Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9

    def resident_bytes(self, field="VmRSS"):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024

    def heap_bytes(self):
        """What malloc has given out; NaN of a process that does not tell."""
        if self.http_port is None:
            return math.nan
        url = f"http://127.0.0.1:{self.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=METRICS_SECONDS_MAX) as answer:
            return float(re.search(r"^gradstream_heap_bytes (\S+)$", answer.read().decode(), re.MULTILINE)[1])

    def wait_until_ready(self, text, seconds):
        """Until it says this. Raises Failure with its last lines where it does not, and ends it."""
        try:
            if not self.process.wait_for_line(text, seconds):
                raise Failure(f"{self.process.name} does not say '{text}' within {seconds} s:\n" +
                              "\n".join(self.process.lines[-5:]))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self.process.stop()


class Watchers:
    """A monitor and a page that is open: what they ask the server for, each second."""

    PATHS = ("metrics", "status", "status/devices")

    def __init__(self, http_port):
        self._port = http_port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.answers = 0
        self.slowest_s = 0.0  # of one answer
        self.problem = ""

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _ask(self):
        while not self._is_over.wait(WATCH_SECONDS):
            for path in self.PATHS:
                begin = time.monotonic()
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/{path}",
                                                timeout=METRICS_SECONDS_MAX) as answer:
                        answer.read()
                except (OSError, http.client.HTTPException) as error:
                    self.problem = f"/{path}: {error}"
                    return
                self.answers += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - begin)


def write_identities(path, count):
    """NAME,KEY for each device."""
    lines = [f"d{index:05d},{secrets.token_hex(32)}" for index in range(count)]
    path.touch(mode=0o600)  # the server takes no keys that others can read
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def start_server(home, identities, count, retry_ms=(IDLE_MS, IDLE_MS), handshakes=64, threads=1, certificates=True):
    """(the server, its port). Certificates want gradstream-handshakes, which ./run test does not build."""
    port, http_port = fleet.free_port(), fleet.free_port()
    config = home / "server.toml"
    config.write_text(CONFIG.format(port=port, http=http_port, home=home, devices=count, connections=count + 50,
                                    values=UPDATE_VALUES, buffer=math.ceil(BUFFER_SHARE * count), retry_ms=retry_ms,
                                    handshakes=handshakes, threads=threads,
                                    certificates=CERTIFICATES.format(home=home) if certificates else ""),
                      encoding="ascii")
    if certificates:
        fleet.command([HANDSHAKES, "--certificates", home, count], "making certificates", CERTIFICATES_SECONDS_MAX)
    fleet.command([fleet.SERVER, "device", "import", identities, "--config", config], "enrolling")
    server = launch(home)
    server.http_port = http_port
    return server, port


def launch(home):
    server = Peer(fleet.Process("server", [fleet.SERVER, "serve", "--config", home / "server.toml", "--set",
                                           "server.log_level=info"]))
    server.wait_until_ready("event=listening", START_SECONDS_MAX)
    return server


def find_mosquitto():
    """(its program, None), or (None, why there is none)."""
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    return (program, None) if os.access(program, os.X_OK) else (None, "it is not installed (apt-get install mosquitto)")


def start_broker(home, identities, _):
    port = fleet.free_port()
    (home / "psk").write_text(identities.read_text(encoding="ascii").replace(",", ":"), encoding="ascii")
    config = home / "mosquitto.conf"
    config.write_text(BROKER_CONFIG.format(port=port, home=home), encoding="ascii")
    broker = Peer(fleet.Process("mosquitto", [find_mosquitto()[0], "-c", config]))
    broker.wait_until_ready("running", START_SECONDS_MAX)
    return broker, port


def start_nats(home, _, count):
    fleet.command([HANDSHAKES, "--certificates", home, count], "making certificates", CERTIFICATES_SECONDS_MAX)
    process, port = durable_peers.start_nats(home)
    return Peer(process), port


def answer(load, peer, event, seconds):
    """The fields of the load's line. Raises Failure where it does not come, or where devices are lost or refused."""
    line = load.wait_for_line(event, seconds)
    if line is None:
        raise Failure(f"{event} did not come:\n" + "\n".join([*load.lines, *peer.lines[-5:]]))
    load.forget_lines()
    found = fleet.fields(line)
    if int(found["lost"]) > 0 or int(found.get("refused", 0)) > 0:
        raise Failure(f"devices were lost or refused: {line}")
    return found


def load_command(home, port, count, exchange, protocol):
    """protocol: an option of gradstream-load, or none for the server's own."""
    return [LOAD, "--port", port, "--identities", home / "identities.csv", "--devices", count, "--exchange", exchange,
            *([protocol] if protocol else []), *(["--certificates", home] if exchange == "certificate" else [])]


def measure(start, count, exchange, protocol):
    """One fleet against one peer, from its first handshake."""
    with tempfile.TemporaryDirectory(prefix="gradstream-bench-") as folder, contextlib.ExitStack() as stack:
        home = pathlib.Path(folder)
        write_identities(home / "identities.csv", count)
        peer, port = start(home, home / "identities.csv", count)
        stack.callback(peer.stop)
        time.sleep(SETTLE_SECONDS)
        resident, heap = peer.resident_bytes(), peer.heap_bytes()
        command = load_command(home, port, count, exchange, protocol)
        processor, coordinator = peer.processor_seconds(), peer.coordinator_seconds()
        storm = fleet.Process("storm", [*command, "--storm"])
        stack.callback(storm.stop)
        connected = answer(storm, peer.process, "event=connected", CONNECT_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        processor = peer.processor_seconds() - processor
        result = {"handshakes_per_cpu_s": count / processor, "handshakes_per_s": count / float(connected["seconds"]),
                  "handshake_share": (peer.coordinator_seconds() - coordinator) / processor}
        load = fleet.Process("load", command)
        stack.callback(load.stop)
        answer(load, peer.process, "event=connected", CONNECT_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        result["rss_per_device"] = (peer.resident_bytes() - resident) / count
        result["heap_per_device"] = (peer.heap_bytes() - heap) / count
        processor, coordinator = peer.processor_seconds(), peer.coordinator_seconds()
        load.type(f"closed {CLOSED_SECONDS} {min(CLOSED_COUNT, count)}\n")
        found = answer(load, peer.process, "event=load", CLOSED_SECONDS + 60)
        processor = peer.processor_seconds() - processor
        result["updates_per_cpu_s"] = int(found["exchanges"]) / processor
        result["update_share"] = (peer.coordinator_seconds() - coordinator) / processor
        result["updates_per_s"] = int(found["exchanges"]) / float(found["seconds"])
        load.type(f"open {OPEN_SECONDS} {OPEN_SHARE * result['updates_per_s']:.0f}\n")
        found = answer(load, peer.process, "event=load", OPEN_SECONDS + 60)
        result["p50_ms"], result["p99_ms"] = float(found["latency_p50_ms"]), float(found["latency_p99_ms"])
        if peer.http_port is not None:
            with Watchers(peer.http_port) as watchers:
                load.type(f"open {OPEN_SECONDS} {OPEN_SHARE * result['updates_per_s']:.0f}\n")
                found = answer(load, peer.process, "event=load", OPEN_SECONDS + 60)
            if watchers.problem or watchers.answers == 0:
                raise Failure(f"the HTTP port does not answer: {watchers.problem}")
            result["watched_p99_ms"], result["watch_s"] = float(found["latency_p99_ms"]), watchers.slowest_s
        load.type("quit\n")
        load.wait(30)
        return result


def measure_turn(start, count, exchange, protocol):
    """(handshakes, exchanges) a second of all the processor that the peer's processes take."""
    with tempfile.TemporaryDirectory(prefix="gradstream-bench-") as folder, contextlib.ExitStack() as stack:
        home = pathlib.Path(folder)
        write_identities(home / "identities.csv", count)
        peer, port = start(home, home / "identities.csv", count)
        stack.callback(peer.stop)
        command = load_command(home, port, count, exchange, protocol)
        time.sleep(SETTLE_SECONDS)
        begin = peer.processor_seconds()  # finer than that of all processes, and a storm is short
        storm = fleet.Process("storm", [*command, "--storm"])
        stack.callback(storm.stop)
        answer(storm, peer.process, "event=connected", CONNECT_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        handshakes = count / (peer.processor_seconds() - begin)
        load = fleet.Process("load", command)
        stack.callback(load.stop)
        answer(load, peer.process, "event=connected", CONNECT_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        begin = durable_peers.processor_seconds(peer.pid)
        load.type(f"closed {TURN_SECONDS} {min(CLOSED_COUNT, count)}\n")
        found = answer(load, peer.process, "event=load", TURN_SECONDS + 60)
        exchanges = int(found["exchanges"]) / (durable_peers.processor_seconds(peer.pid) - begin)
        load.type("quit\n")
        load.wait(30)
        return handshakes, exchanges


def restart(count, threads):
    """What became of a fleet whose server was killed and started again."""
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        identities = home / "identities.csv"
        write_identities(identities, count)
        # A fleet that dials within a second or two has most of its handshakes in progress at once.
        server, port = start_server(home, identities, count, RETRY_MS, count, threads, certificates=False)
        stack.callback(server.stop)
        load = fleet.Process("load", [LOAD, "--port", port, "--identities", identities, "--devices", count,
                                      "--exchange", "psk_ke"])
        stack.callback(load.stop)
        connected = load.wait_for_line("event=connected", CONNECT_SECONDS_MAX)
        if connected is None or int(fleet.fields(connected)["lost"]) > 0:
            raise Failure(f"the fleet did not connect: {connected}")
        load.type(f"return {RETURN_SECONDS_MAX}\n")
        if load.wait_for_line("event=waiting", 10) is None:
            raise Failure("the fleet does not wait")
        killed = time.monotonic()
        server.process.kill()
        again = launch(home)
        stack.callback(again.stop)
        listening = time.monotonic()
        line = load.wait_for_line("event=returned", RETURN_SECONDS_MAX + 30)
        if line is None:
            raise Failure("the fleet says nothing:\n" + "\n".join(load.lines[-5:]))
        found = fleet.fields(line)
        processor = again.processor_seconds()
        load.type("quit\n")
        load.wait(30)
        time.sleep(SETTLE_SECONDS)  # nobody is left to drain, so that a deadline is one of the restart
        again.stop()
        counters = fleet.fields(next(line for line in again.process.lines if "event=counters" in line))
        return {"back": int(found["back"]), "seconds": float(found["at_s"]) - listening, "away": listening - killed,
                "dials": int(found["dials"]), "unreached": int(found["unreached"]), "processor": processor,
                "over_cap": int(counters["handshakes_over_cap"]),
                "timeouts": int(found["timeouts"]) + sum(int(value) for key, value in counters.items()
                                                         if key.startswith("deadline_"))}


def measure_restart(count, threads):
    """Prints it; whether the goal is met, and its part of the result line."""
    found = restart(count, threads)
    print(f"restart with {count} live devices, psk_ke: {found['back']} back {found['seconds']:.1f} s after the server "
          f"listened, which was {found['away']:.1f} s after it was killed; {found['dials']} dials, "
          f"{found['unreached']} in vain, {found['over_cap']} handshakes over the cap, {found['timeouts']} timeouts, "
          f"{found['processor']:.1f} s of the new server's processor", flush=True)
    is_timed = count >= max(FLEETS)  # the goal's time is that of a large fleet; of a small one it says nothing
    is_met = (found["back"] == count and found["timeouts"] == 0
              and (found["seconds"] <= RETURN_SECONDS_GOAL or not is_timed))
    within = f" within {RETURN_SECONDS_GOAL} s of a restart" if is_timed else ""
    print(f"goal: all back{within}, without a timeout: {'met' if is_met else 'not met'}")
    return is_met, (f"restart_devices={count} restart_back={found['back']} restart_s={found['seconds']:.1f} "
                    f"restart_timeouts={found['timeouts']}")


class Bare:
    """Handshakes of Mbed TLS alone, by link and mode, for each second of the server's end."""

    def __init__(self):
        self._spent = {}  # (link, mode): handshakes, seconds

    def measure(self):
        """Once more: a machine's speed differs from minute to minute, and the server is held against the mean."""
        said = fleet.command([HANDSHAKES, BARE_HANDSHAKES], "handshakes of bare Mbed TLS", BARE_SECONDS_MAX)
        for line in said.splitlines():
            found = fleet.fields(line)
            count, seconds = self._spent.get((found["link"], found["mode"]), (0, 0))
            self._spent[found["link"], found["mode"]] = (count + int(found["handshakes"]),
                                                         seconds + float(found["processor_s"]))

    def rates(self, link):
        return {mode: count / seconds for (of, mode), (count, seconds) in self._spent.items() if of == link}

    def print(self):
        for link in ("memory", "tcp"):
            print(f"bare Mbed TLS, {link}, handshakes for each second of the server's end: " +
                  ", ".join(f"{mode} {rate:.0f}" for mode, rate in self.rates(link).items()))


def print_head():
    print("| peer | durable | TLS | devices | handshakes/CPU s | by the first thread, % | handshakes/s "
          "| RSS per idle device, KiB | heap, KiB | updates/CPU s | by the first thread, % | updates/s "
          "| to Ack p50, ms | p99, ms | p99 watched, ms | slowest HTTP answer, ms |")
    print("|---" * 16 + "|")


def print_row(name, count, row):
    heap = "" if math.isnan(row["heap_per_device"]) else f"{row['heap_per_device'] / 1024:.1f}"
    watched = f"{row['watched_p99_ms']:.2f} | {1000 * row['watch_s']:.0f}" if "watch_s" in row else " | "
    print(f"| {name} | {'no' if name == BROKER_NAME else 'yes'} | yes | {count} | {row['handshakes_per_cpu_s']:.0f} | "
          f"{100 * row['handshake_share']:.0f} | {row['handshakes_per_s']:.0f} | "
          f"{row['rss_per_device'] / 1024:.1f} | {heap} | "
          f"{row['updates_per_cpu_s']:.0f} | {100 * row['update_share']:.0f} | "
          f"{row['updates_per_s']:.0f} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {watched} |",
          flush=True)


def name_of(exchange, threads):
    return f"gradstream, {exchange}" + ("" if threads == 1 else f", {threads} threads")


# ---- Durable peers ----

class Kind(NamedTuple):
    """A peer of the turns: how its row begins, and what it is."""

    label: str
    durable: str
    tls: str


KINDS = {
    "gradstream": Kind("gradstream, psk_dhe_ke, Pull and update", "yes", "yes"),
    "mosquitto": Kind("mosquitto, psk_dhe_ke, QoS 1", "no", "yes"),
    "postgresql": Kind("PostgreSQL, one INSERT a commit", "yes", "no"),
    "nats": Kind("NATS JetStream, sync_interval: always", "yes", "yes"),
}


def measure_turns(count, turns, threads, absent):
    """Prints rows; for each turn {peer: (handshakes, updates) a second of its processor}, without those absent."""
    print(f"| turn | peer | durable | TLS | psk_dhe_ke handshakes/CPU s of {count} devices | updates/CPU s | us |")
    print("|---" * 7 + "|")
    clients = min(count, durable_peers.CLIENTS)
    measures = {
        "gradstream": lambda: measure_turn(functools.partial(start_server, threads=threads), count, "psk_dhe_ke", ""),
        "mosquitto": lambda: measure_turn(start_broker, count, "psk_dhe_ke", "--mqtt"),
        "postgresql": lambda: (math.nan, durable_peers.measure_postgresql(durable_peers.find_postgresql()[0],
                                                                          TURN_SECONDS)),
        "nats": lambda: (math.nan, measure_turn(start_nats, clients, "certificate", "--nats")[1]),
    }
    found = []
    for turn in range(1, turns + 1):
        found.append({})
        for name, kind in KINDS.items():
            if name in absent:
                continue
            handshakes, updates = found[-1][name] = measures[name]()
            shakes = "" if math.isnan(handshakes) else f"{handshakes:.0f}"
            print(f"| {turn} | {kind.label} | {kind.durable} | {kind.tls} | {shakes} | {updates:.0f} | "
                  f"{1e6 / updates:.1f} |", flush=True)
    return found


def figures_of_turns(turns):
    """{name in the result line: median}, None where the peer was absent. Each ratio is of one turn."""
    def ratio(peer, index):
        return statistics.median(turn["gradstream"][index] / turn[peer][index] for turn in turns) \
            if peer in turns[0] else None
    return {"psk_dhe_ke_per_cpu_s": statistics.median(turn["gradstream"][0] for turn in turns),
            "psk_dhe_ke_vs_mosquitto": ratio("mosquitto", 0),
            "updates_per_cpu_s_vs_postgresql": ratio("postgresql", 1),
            "updates_per_cpu_s_vs_nats_always": ratio("nats", 1)}


def figures_of_rows(ours, broker):
    """The same of one row of each at the largest fleet, where there were no turns; broker: None where it is absent."""
    return {"psk_dhe_ke_per_cpu_s": ours["handshakes_per_cpu_s"],
            "psk_dhe_ke_vs_mosquitto": ours["handshakes_per_cpu_s"] / broker["handshakes_per_cpu_s"] if broker
                                       else None}


def judge(arguments, found, figures, bare, last_words):
    """Prints each goal of the largest fleet and the result line; whether all goals are met.

    found: the rows by name and count; figures: of figures_of_turns() or figures_of_rows(); bare: handshakes of Mbed TLS
    alone for each second, by mode, over TCP.
    """
    threads, largest = arguments.io_threads[0], max(arguments.devices)
    ours = found[name_of("psk_ke", threads), largest]
    smallest = found[name_of("psk_ke", threads), min(arguments.devices)]
    growth = smallest["updates_per_cpu_s"] / ours["updates_per_cpu_s"]
    shares = {exchange: found[name_of(exchange, threads), largest]["handshakes_per_cpu_s"] / bare[mode]
              for exchange, mode in EXCHANGES.items()}
    p99_ms = {exchange: found[name_of(exchange, threads), largest]["p99_ms"] for exchange in EXCHANGES}
    goals = (("memory of an idle device", ours["rss_per_device"] <= RSS_PER_DEVICE_MAX),
             *((f"time to the Ack, {exchange}", p99 < P99_ACK_MS_MAX) for exchange, p99 in p99_ms.items()),
             ("time to the Ack while the HTTP port is asked", ours["watched_p99_ms"] < P99_ACK_MS_MAX),
             ("handshakes beside bare Mbed TLS, psk_ke", shares["psk_ke"] >= BARE_SHARE_MIN),
             ("handshakes beside bare Mbed TLS, psk_dhe_ke", shares["psk_dhe_ke"] >= BARE_SHARE_MIN),
             ("handshakes beside bare Mbed TLS, mutual ECDSA", shares["certificate"] >= BARE_SHARE_MIN),
             ("cost of an update in the largest fleet beside the smallest", growth <= COST_GROWTH_MAX),
             *((what, None if figures[name] is None else figures[name] >= least)
               for name, (what, least) in PEER_GOALS.items() if name in figures))
    for name, held in goals:
        print(f"goal: {name}: {'not judged, the peer is absent' if held is None else 'met' if held else 'not met'}")
    words = " ".join(f"{name}=" + ("absent" if value is None else f"{value:.0f}" if name.endswith("_s")
                                   else f"{value:.2f}") for name, value in figures.items())
    print(f"result: devices={largest} rss_bytes_per_idle_device={ours['rss_per_device']:.0f} "
          f"p99_ack_ms={p99_ms['psk_ke']:.2f} {words} "
          f"heap_bytes_per_idle_device={ours['heap_per_device']:.0f} "
          f"p99_ack_ms_psk_dhe_ke={p99_ms['psk_dhe_ke']:.2f} p99_ack_ms_certificate={p99_ms['certificate']:.2f} "
          f"p99_ack_ms_watched={ours['watched_p99_ms']:.2f} "
          f"handshakes_vs_bare_psk_ke={shares['psk_ke']:.2f} handshakes_vs_bare_psk_dhe_ke={shares['psk_dhe_ke']:.2f} "
          f"handshakes_vs_bare_mutual_ecdsa={shares['certificate']:.2f} "
          f"update_cost_growth={growth:.2f} {last_words}")
    return all(held is not False for _, held in goals)


def absent_peers(with_durable):
    """{peer: why it is absent}, and a line for each."""
    finders = {"mosquitto": find_mosquitto, "postgresql": durable_peers.find_postgresql,
               "nats": durable_peers.find_nats}
    absent = {name: why for name, find in finders.items() if (name == "mosquitto" or with_durable)
              for program, why in [find()] if program is None}
    for name, why in absent.items():
        print(f"bench: {name}=absent, and nothing is judged by it: {why}", flush=True)
    return absent


def measure_fleets(arguments, has_broker, bare):
    """Prints rows; {(name, devices): row}."""
    largest = max(arguments.devices)
    print_head()
    found = {}
    cases = [(name_of(exchange, threads), functools.partial(start_server, threads=threads), exchange, "")
             for exchange in EXCHANGES for threads in arguments.io_threads]
    cases += [(BROKER_NAME, start_broker, "psk_dhe_ke", "--mqtt")] if has_broker else []
    for count in arguments.devices:
        for name, start, exchange, protocol in cases:
            if count == largest and name != BROKER_NAME:
                bare.measure()  # in the same minutes
            found[name, count] = measure(start, count, exchange, protocol)
            print_row(name, count, found[name, count])
    return found


def measure_all(arguments):
    """Prints all; the exit status."""
    largest, threads = max(arguments.devices), arguments.io_threads[0]
    if arguments.restart:
        is_met, words = measure_restart(largest, threads)
        print(f"result: {words}")
        return 0 if is_met else 1
    absent = absent_peers(arguments.durable_peers)
    bare = Bare()
    found = measure_fleets(arguments, "mosquitto" not in absent, bare)
    bare.print()
    if arguments.durable_peers:
        figures = figures_of_turns(measure_turns(largest, arguments.turns, threads, absent))
    else:
        figures = figures_of_rows(found[name_of("psk_dhe_ke", threads), largest], found.get((BROKER_NAME, largest)))
    is_restart_met, words = measure_restart(largest, threads)
    words = " ".join([*(f"{name}=absent" for name in absent), words])
    return 0 if judge(arguments, found, figures, bare.rates("tcp"), words) and is_restart_met else 1


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run bench server", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=FLEETS, help=f"fleets (default {FLEETS})")
    parser.add_argument("--io-threads", type=int, nargs="+", default=[1], metavar="N",
                        help="io_threads of the server (default 1)")
    parser.add_argument("--durable-peers", action="store_true",
                        help="turns beside PostgreSQL, NATS JetStream and mosquitto, with the largest fleet")
    parser.add_argument("--turns", type=int, metavar="N",
                        help=f"with --durable-peers (default {TURNS}); the medians count")
    parser.add_argument("--restart", action="store_true", help="the restart of the largest fleet alone")
    arguments = parser.parse_args()
    if arguments.restart and arguments.durable_peers:
        parser.error("--restart measures the restart alone: leave --durable-peers out, or --restart")
    if arguments.turns is not None and not arguments.durable_peers:
        parser.error(f"--turns {arguments.turns} is of --durable-peers, which is missing")
    arguments.turns = TURNS if arguments.turns is None else arguments.turns
    for name, least in (("--turns", arguments.turns), ("--devices", min(arguments.devices)),
                        ("--io-threads", min(arguments.io_threads))):
        if least < 1:
            parser.error(f"{name} {least}: at least 1 is needed")
    return arguments


def main():
    arguments = parse_arguments()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended as by Ctrl-C
    largest = max(arguments.devices)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files != resource.RLIM_INFINITY and files < FILES_PER_DEVICE * largest + FILES_BESIDE:
        print(f"bench: error: {largest} devices need as many open files, and this shell may have {files}: raise its "
              "hard limit (ulimit -Hn)", file=sys.stderr)
        print("result: error=files")
        return 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    try:
        if "GS_BUILD_DIR" not in os.environ:  # else a tree that is built
            fleet.build("dev", "gradstream", "gradstream-load", "gradstream-handshakes")
        return measure_all(arguments)
    except (Failure, RuntimeError, OSError) as failure:  # OSError: a peer that has ended answers nothing
        print(f"bench: error: {failure}", file=sys.stderr)
        print("result: error=failed")
    except KeyboardInterrupt:
        print("bench: error: interrupted; all that it started is ended", file=sys.stderr)
        print("result: error=interrupted")
    return 1


if __name__ == "__main__":
    sys.exit(main())
