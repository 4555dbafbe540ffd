"""./run bench server: what a device, a handshake and an update cost the aggregation server, beside an MQTT broker.

For 100, 1,000 and 10,000 devices, all over TLS 1.3 with pre-shared keys on 127.0.0.1: memory of an idle device (what
the process has resident, and what malloc has given out: gradstream_heap_bytes, which the broker does not tell),
handshakes and updates for each second of the server's processor, and the time from an update to its Ack. An update is
200 floats; it is pulled for, trained on nowhere, decoded, folded and durable before its Ack. Updates a second come from
64 exchanges at once; the time to the Ack is that of updates that arrive at 30 % of this rate for ten seconds, and once
more while somebody asks the HTTP port for /metrics, /status and /status/devices each second. mosquitto, where it is
installed, gets as many devices and messages of the same size with QoS 1, which it keeps in memory only. Handshakes are
held against a bare Mbed TLS server that accepts a connection, shakes hands on it and closes it; the server's also have
their Hello and Welcome. Bare Mbed TLS shows modes that the server does not offer too, in memory and, those that need no
session before, over TCP. The largest fleet is held against it: it runs before each of the server's rows of that fleet.
Clients run on this machine too: what counts is the server's processor time.

--io-threads takes numbers of threads for TLS and frames, each of which gets rows of its own. Where the clients run on
the same cores, handshakes a second of wall time show what threads do for a server that has processors to spare, not
what it would reach: that takes another machine for the clients. The processor second of a handshake or update shows
what handing over from thread to thread costs.

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
import sys
import tempfile
import threading
import time
import urllib.request

import fleet

LOAD = fleet.BUILD / "bench" / "gradstream-load"
FLEETS = (100, 1000, 10000)
HANDSHAKES = fleet.BUILD / "bench" / "gradstream-handshakes"
BARE_HANDSHAKES = 500
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
"""
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
http_listen = "127.0.0.1:{http}"
database = "{home}/gradstream.db"
log_level = "warn"
allow_psk_ke = true
device_ca_file = "{home}/ca.pem"
certificate_file = "{home}/server.pem"
certificate_key_file = "{home}/server.key"
[server.limits]
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

    def __init__(self, name, command, listener=None):
        self.process = fleet.Process(name, command, listener)
        self.pid = self.process._child.pid  # pylint: disable=protected-access
        self.http_port = None

    def processor_seconds(self):
        """Of all its threads. In nanoseconds, where /proc/PID/stat counts hundredths of a second."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9

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


def start_server(home, identities, count, retry_ms=(IDLE_MS, IDLE_MS), handshakes=64, threads=1):
    port, http_port = fleet.free_port(), fleet.free_port()
    config = home / "server.toml"
    config.write_text(CONFIG.format(port=port, http=http_port, home=home, devices=count, connections=count + 50,
                                    values=UPDATE_VALUES, buffer=math.ceil(BUFFER_SHARE * count), retry_ms=retry_ms,
                                    handshakes=handshakes, threads=threads),
                      encoding="ascii")
    fleet.command([HANDSHAKES, "--certificates", home, count], "making certificates", 120)
    fleet.command([fleet.SERVER, "device", "import", identities, "--config", config], "enrolling")
    server = launch(home)
    server.http_port = http_port
    return server, port


def launch(home):
    server = Peer("server", [fleet.SERVER, "serve", "--config", home / "server.toml", "--set", "server.log_level=info"])
    if not server.process.wait_for_line("event=listening", 60):
        raise Failure("the server does not listen:\n" + "\n".join(list(server.process.lines)[-5:]))
    return server


def start_broker(home, identities, _):
    port = fleet.free_port()
    (home / "psk").write_text(identities.read_text(encoding="ascii").replace(",", ":"), encoding="ascii")
    config = home / "mosquitto.conf"
    config.write_text(BROKER_CONFIG.format(port=port, home=home), encoding="ascii")
    broker = Peer("mosquitto", [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", config])
    if not broker.process.wait_for_line("running", 30):
        raise Failure("mosquitto does not run:\n" + "\n".join(list(broker.process.lines)[-5:]))
    return broker, port


def measure(start, count, exchange, is_mqtt):
    """One fleet against one peer, from its first handshake."""
    with tempfile.TemporaryDirectory(prefix="gradstream-bench-") as folder, contextlib.ExitStack() as stack:
        home = pathlib.Path(folder)
        write_identities(home / "identities.csv", count)
        peer, port = start(home, home / "identities.csv", count)
        stack.callback(peer.stop)
        time.sleep(SETTLE_SECONDS)
        resident, heap = peer.resident_bytes(), peer.heap_bytes()
        command = [LOAD, "--port", port, "--identities", home / "identities.csv", "--devices", count, "--exchange",
                   exchange] + (["--mqtt"] if is_mqtt else [])
        command += ["--certificates", home] if exchange == "certificate" else []

        def answer(load, event, seconds):
            line = load.wait_for_line(event, seconds)
            if line is None:
                raise Failure(f"{event} did not come:\n" + "\n".join([*load.lines, *list(peer.process.lines)[-5:]]))
            load.lines.clear()
            found = fleet.fields(line)
            if int(found["lost"]) > 0 or int(found.get("refused", 0)) > 0:
                raise Failure(f"devices were lost or refused: {line}")
            return found

        processor, coordinator = peer.processor_seconds(), peer.coordinator_seconds()
        connected = answer(fleet.Process("storm", [*command, "--storm"]), "event=connected", CONNECT_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        processor = peer.processor_seconds() - processor
        result = {"handshakes_per_cpu_s": count / processor, "handshakes_per_s": count / float(connected["seconds"]),
                  "handshake_share": (peer.coordinator_seconds() - coordinator) / processor}
        load = fleet.Process("load", command)
        stack.callback(load.stop)
        answer(load, "event=connected", CONNECT_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        result["rss_per_device"] = (peer.resident_bytes() - resident) / count
        result["heap_per_device"] = (peer.heap_bytes() - heap) / count
        processor, coordinator = peer.processor_seconds(), peer.coordinator_seconds()
        load.type(f"closed {CLOSED_SECONDS} {min(CLOSED_COUNT, count)}\n")
        found = answer(load, "event=load", CLOSED_SECONDS + 60)
        processor = peer.processor_seconds() - processor
        result["updates_per_cpu_s"] = int(found["exchanges"]) / processor
        result["update_share"] = (peer.coordinator_seconds() - coordinator) / processor
        result["updates_per_s"] = int(found["exchanges"]) / float(found["seconds"])
        load.type(f"open {OPEN_SECONDS} {OPEN_SHARE * result['updates_per_s']:.0f}\n")
        found = answer(load, "event=load", OPEN_SECONDS + 60)
        result["p50_ms"], result["p99_ms"] = float(found["latency_p50_ms"]), float(found["latency_p99_ms"])
        if peer.http_port is not None:
            with Watchers(peer.http_port) as watchers:
                load.type(f"open {OPEN_SECONDS} {OPEN_SHARE * result['updates_per_s']:.0f}\n")
                found = answer(load, "event=load", OPEN_SECONDS + 60)
            if watchers.problem or watchers.answers == 0:
                raise Failure(f"the HTTP port does not answer: {watchers.problem}")
            result["watched_p99_ms"], result["watch_s"] = float(found["latency_p99_ms"]), watchers.slowest_s
        load.type("quit\n")
        load.wait(30)
        return result


def restart(count, threads):
    """What became of a fleet whose server was killed and started again."""
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        identities = home / "identities.csv"
        write_identities(identities, count)
        # A fleet that dials within a second or two has most of its handshakes in progress at once.
        server, port = start_server(home, identities, count, RETRY_MS, count, threads)
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
            raise Failure("the fleet says nothing:\n" + "\n".join(list(load.lines)[-5:]))
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
        for line in fleet.command([HANDSHAKES, BARE_HANDSHAKES], "handshakes", 120).splitlines():
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
    print("| peer | devices | handshakes/CPU s | by the first thread, % | handshakes/s | RSS per idle device, KiB "
          "| heap, KiB | updates/CPU s | by the first thread, % | updates/s | to Ack p50, ms | p99, ms "
          "| p99 watched, ms | slowest HTTP answer, ms |")
    print("|---" * 14 + "|")


def name_of(exchange, threads):
    return f"gradstream, {exchange}" + ("" if threads == 1 else f", {threads} threads")


def judge(arguments, found, bare, restart_words):
    """Prints each goal of the largest fleet and the result line; whether all goals are met.

    found: the rows by name and count; bare: handshakes of Mbed TLS alone for each second, by mode, over TCP.
    """
    threads, largest = arguments.io_threads[0], max(arguments.devices)
    ours = found[name_of("psk_ke", threads), largest]
    broker = found.get(("mosquitto, psk_dhe_ke", largest))
    smallest = found[name_of("psk_ke", threads), min(arguments.devices)]
    ratio = ours["updates_per_cpu_s"] / broker["updates_per_cpu_s"] if broker else float("nan")
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
             ("updates beside mosquitto", ratio >= 1 if broker else None))
    for name, held in goals:
        print(f"goal: {name}: {'not measured' if held is None else 'met' if held else 'not met'}")
    print(f"result: devices={largest} rss_bytes_per_idle_device={ours['rss_per_device']:.0f} "
          f"heap_bytes_per_idle_device={ours['heap_per_device']:.0f} p99_ack_ms={p99_ms['psk_ke']:.2f} "
          f"p99_ack_ms_psk_dhe_ke={p99_ms['psk_dhe_ke']:.2f} p99_ack_ms_certificate={p99_ms['certificate']:.2f} "
          f"p99_ack_ms_watched={ours['watched_p99_ms']:.2f} updates_per_cpu_s_vs_mosquitto={ratio:.2f} "
          f"handshakes_vs_bare_psk_ke={shares['psk_ke']:.2f} handshakes_vs_bare_psk_dhe_ke={shares['psk_dhe_ke']:.2f} "
          f"handshakes_vs_bare_mutual_ecdsa={shares['certificate']:.2f} "
          f"update_cost_growth={growth:.2f} {restart_words}")
    return all(held is not False for _, held in goals)


def main():
    parser = argparse.ArgumentParser(prog="./run bench server", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=FLEETS, help=f"fleets (default {FLEETS})")
    parser.add_argument("--io-threads", type=int, nargs="+", default=[1], metavar="N",
                        help="io_threads of the server (default 1)")
    parser.add_argument("--restart", action="store_true", help="the restart of the largest fleet alone")
    arguments = parser.parse_args()
    largest = max(arguments.devices)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files != resource.RLIM_INFINITY and files < FILES_PER_DEVICE * largest + FILES_BESIDE:
        print(f"bench: error: {largest} devices need as many open files, and this shell may have {files}: raise its "
              "hard limit (ulimit -Hn)", file=sys.stderr)
        print("result: error=files")
        return 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    programs = ("gradstream", "gradstream-load", "gradstream-handshakes")
    fleet.command([fleet.ROOT / "tools" / "build.sh", "dev", *programs], "building", 3600)
    has_broker = (shutil.which("mosquitto") or os.access("/usr/sbin/mosquitto", os.X_OK))
    if not has_broker:
        print("bench: mosquitto is not installed (apt-get install mosquitto): its columns stay empty")
    try:
        if arguments.restart:
            is_met, words = measure_restart(largest, arguments.io_threads[0])
            print(f"result: {words}")
            return 0 if is_met else 1
        bare = Bare()
        print_head()
        found = {}
        cases = [(name_of(exchange, threads), functools.partial(start_server, threads=threads), exchange, False)
                 for exchange in EXCHANGES for threads in arguments.io_threads]
        cases += [("mosquitto, psk_dhe_ke", start_broker, "psk_dhe_ke", True)] if has_broker else []
        for count in arguments.devices:
            for name, start, exchange, is_mqtt in cases:
                if count == largest and not is_mqtt:
                    bare.measure()  # in the same minutes
                row = found[name, count] = measure(start, count, exchange, is_mqtt)
                heap = "" if math.isnan(row["heap_per_device"]) else f"{row['heap_per_device'] / 1024:.1f}"
                watched = f"{row['watched_p99_ms']:.2f} | {1000 * row['watch_s']:.0f}" if "watch_s" in row else " | "
                print(f"| {name} | {count} | {row['handshakes_per_cpu_s']:.0f} | "
                      f"{100 * row['handshake_share']:.0f} | {row['handshakes_per_s']:.0f} | "
                      f"{row['rss_per_device'] / 1024:.1f} | {heap} | "
                      f"{row['updates_per_cpu_s']:.0f} | {100 * row['update_share']:.0f} | "
                      f"{row['updates_per_s']:.0f} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {watched} |",
                      flush=True)
        bare.print()
        is_restart_met, restart_words = measure_restart(largest, arguments.io_threads[0])
    except (Failure, RuntimeError) as failure:
        print(f"bench: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    return 0 if judge(arguments, found, bare.rates("tcp"), restart_words) and is_restart_met else 1


if __name__ == "__main__":
    sys.exit(main())
