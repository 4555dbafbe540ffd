"""./run bench cluster: what three nodes on an engine cost, beside one server on SQLite with the same load.

All run on this machine: three nodes, a PostgreSQL primary and its synchronous standby; and then the server alone. The
devices of gradstream-load have TLS sessions by psk_dhe_ke, and share themselves out over the nodes. First all shake
hands at once and leave. Then 64 exchanges are always under way, which is the full rate. Then exchanges begin at 30 % of
this rate, at random times. An update is 200 floats, and it is durable before its Ack. The bars:

  p99_ms          from an update to its Ack at 30 % of the full rate: at most 15 ms, or 3 times the single server's
  full_us         processor time of the nodes and the primary for an update at the full rate: at most 160
  part_us         the same at 30 % of it: at most 260
  psk_dhe_ke      handshakes a second of a node's processor over those of the single server: at least 0.95

The standby's processor time is shown, and no bar holds for it. The clients take this machine's processors too. It is
quiet where other programs had at most a tenth of them. Where it is not, the result says which bars are missed, and the
exit status is 0 all the same.
"""

import argparse
import contextlib
import math
import os
import pathlib
import resource
import signal
import sys
import tempfile
import time

import bench_server
import cluster_machines
import cluster_postgres
import durable_peers
import fleet
import soak_cluster

P99_MS_MAX, P99_FACTOR = 15, 3
FULL_US_MAX, PART_US_MAX = 160, 260
HANDSHAKES_MIN = 0.95
OTHERS_MAX = 0.1  # of the processors
SECONDS_MAX = 60  # of one wait beyond its own time
SKIPPED = 77
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)  # of the first line of /proc/stat: idle, and waiting for the disk
BUSY_FIELDS_MAX = 8   # what follows counts a guest's time once more

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/gradstream.db"
log_level = "info"
allow_psk_ke = true
[server.limits]
connection_count_max = {connections}
device_messages_per_s_max = 0
[run]
name = "bench"
""" + bench_server.MODEL + """round_count = 1000000
device_count = {devices}
update_goal = {goal}
update_min = 1
report_deadline_ms = 5000
late = "weight"
staleness_table = "polynomial"
staleness_max = 64
"""

Failure = cluster_postgres.Failure


class Cluster:
    """Three nodes and their engine, in a folder, without a balancer. soak_cluster.Node reads most of it."""

    is_balanced = False
    is_synchronous = True

    def __init__(self, home, stack, devices):
        self.home, self.stack = home, stack
        self.network = cluster_machines.Loopback(soak_cluster.MACHINES)
        self.versions = soak_cluster.Versions()
        self.config = home / "server.toml"
        self._begin_run(devices)
        self.engine = cluster_postgres.Pair(self.network, home / "postgres", stack)
        for words in (["init"], ["import", "--from", home / "gradstream.db"]):
            fleet.command([fleet.SERVER, "engine", words[0], "--config", self.config, "--set",
                           f"engine.address={self.engine.address}", *words[1:]], f"engine {words[0]}", SECONDS_MAX)
        self.nodes = [soak_cluster.Node(name, self) for name in soak_cluster.NODES]
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_ready()

    def _begin_run(self, devices):
        """Version 0 and the devices, as a single server makes them."""
        token = self.home / "token"
        token.touch(mode=0o600)
        token.write_text(soak_cluster.TOKEN + "\n", encoding="ascii")
        server, _ = start_server(self.home, devices)
        try:
            server.wait_until_ready("event=version ", SECONDS_MAX)
        finally:
            server.stop()

    @property
    def servers(self):
        return [f"127.0.0.1:{self.network.port(node.name, soak_cluster.PORT)}" for node in self.nodes]

    @property
    def pids(self):
        """By whose processor time counts."""
        return {"nodes": [node.process.pid for node in self.nodes], "primary": [self.engine.pid(self.engine.primary)],
                "standby": [self.engine.pid(self.engine.standby)]}


def start_server(home, devices):
    """(a server on SQLite, its port). Nodes take no buffer_size, so that a version has a goal here."""
    port = fleet.free_port()
    (home / "server.toml").write_text(CONFIG.format(
        port=port, home=home, devices=devices, connections=devices + 50, values=bench_server.UPDATE_VALUES,
        goal=math.ceil(bench_server.BUFFER_SHARE * devices)), encoding="ascii")
    fleet.command([fleet.SERVER, "device", "import", home / "identities.csv", "--config", home / "server.toml"],
                  "enrolling", SECONDS_MAX)
    return bench_server.launch(home), port


class Meter:
    """Processor seconds since it was made, by part, and what other programs had meanwhile."""

    def __init__(self, pids):
        self._pids = pids
        self._began = time.monotonic(), busy_seconds(), durable_peers.processor_seconds(os.getpid()), self._read()

    def _read(self):
        return {part: sum(map(durable_peers.processor_seconds, pids)) for part, pids in self._pids.items()}

    def seconds(self):
        return {part: now - self._began[3][part] for part, now in self._read().items()}

    def others(self):
        """The share of this machine's processors that neither the bench nor what it started had."""
        elapsed = time.monotonic() - self._began[0]
        mine = durable_peers.processor_seconds(os.getpid()) - self._began[2]
        return max(0, (busy_seconds() - self._began[1] - mine) / (elapsed * os.cpu_count()))


def busy_seconds():
    """Of all processors, since this machine started."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:1 + BUSY_FIELDS_MAX]]
    return sum(count for field, count in enumerate(ticks) if field not in IDLE_FIELDS) / TICKS_PER_SECOND


def measure(identities, count, servers, pids, peer):
    """One fleet, from its first handshake. peer: the process whose last lines tell of a failure."""
    command = [bench_server.LOAD, "--identities", identities, "--devices", count, "--exchange", "psk_dhe_ke"]
    command += [word for server in servers for word in ("--server", server)]
    with contextlib.ExitStack() as stack:
        time.sleep(bench_server.SETTLE_SECONDS)
        meter = Meter(pids)
        storm = fleet.Process("storm", [*command, "--storm"])
        stack.callback(storm.stop)
        bench_server.answer(storm, peer, "event=connected", bench_server.CONNECT_SECONDS_MAX)
        time.sleep(bench_server.SETTLE_SECONDS)
        row = {"handshakes_per_cpu_s": count / meter.seconds()["nodes"]}
        load = fleet.Process("load", command)
        stack.callback(load.stop)
        bench_server.answer(load, peer, "event=connected", bench_server.CONNECT_SECONDS_MAX)
        time.sleep(bench_server.SETTLE_SECONDS)
        seconds, meter = bench_server.CLOSED_SECONDS, Meter(pids)
        load.type(f"closed {seconds} {min(bench_server.CLOSED_COUNT, count)}\n")
        found = bench_server.answer(load, peer, "event=load", seconds + SECONDS_MAX)
        row["updates_per_s"] = int(found["exchanges"]) / float(found["seconds"])
        row["full"], row["others"] = cost(meter, found), meter.others()
        seconds, meter = bench_server.OPEN_SECONDS, Meter(pids)
        load.type(f"open {seconds} {math.ceil(bench_server.OPEN_SHARE * row['updates_per_s'])}\n")
        found = bench_server.answer(load, peer, "event=load", seconds + SECONDS_MAX)
        row["part"], row["others"] = cost(meter, found), max(row["others"], meter.others())
        row["p50_ms"], row["p99_ms"] = float(found["latency_p50_ms"]), float(found["latency_p99_ms"])
        load.type("quit\n")
        load.wait(SECONDS_MAX)
    return row


def cost(meter, found):
    """Microseconds of the processor for an update, by part."""
    return {part: 1e6 * seconds / max(1, int(found["exchanges"])) for part, seconds in meter.seconds().items()}


def counted(costs):
    """What the bars are about: all but the standby."""
    return sum(us for part, us in costs.items() if part != "standby")


def judge(devices, cluster, single):
    """(the bars that are missed, whether the machine was quiet, the fields of the result)."""
    p99_ms_max = max(P99_MS_MAX, P99_FACTOR * single["p99_ms"])
    ratio = cluster["handshakes_per_cpu_s"] / single["handshakes_per_cpu_s"]
    full_us, part_us = counted(cluster["full"]), counted(cluster["part"])
    missed = [name for name, holds in (("p99_ms", cluster["p99_ms"] <= p99_ms_max), ("full_us", full_us <= FULL_US_MAX),
                                       ("part_us", part_us <= PART_US_MAX), ("psk_dhe_ke", ratio >= HANDSHAKES_MIN))
              if not holds]
    others = max(cluster["others"], single["others"])
    is_quiet = others <= OTHERS_MAX
    return missed, is_quiet, (f"devices={devices} p50_ms={cluster['p50_ms']:.2f} p99_ms={cluster['p99_ms']:.2f} "
                              f"p99_ms_max={p99_ms_max:.2f} full_us={full_us:.1f} full_us_max={FULL_US_MAX} "
                              f"part_us={part_us:.1f} part_us_max={PART_US_MAX} psk_dhe_ke={ratio:.2f} "
                              f"psk_dhe_ke_min={HANDSHAKES_MIN} updates_per_s={cluster['updates_per_s']:.0f} "
                              f"missed={','.join(missed) or 'none'} others={others:.2f} quiet={int(is_quiet)}")


def print_rows(rows):
    print("| peer | handshakes/CPU s | updates/s | us an update: nodes | primary | standby | at 30 %: nodes | primary "
          "| standby | to Ack p50, ms | p99, ms |")
    print("|---" * 11 + "|")
    for name, row in rows:
        costs = [f"{row[rate].get(part, 0):.1f}" for rate in ("full", "part") for part in ("nodes", "primary",
                                                                                           "standby")]
        print(f"| {name} | {row['handshakes_per_cpu_s']:.0f} | {row['updates_per_s']:.0f} | {' | '.join(costs)} | "
              f"{row['p50_ms']:.2f} | {row['p99_ms']:.2f} |", flush=True)


def measure_both(folder, devices):
    """Whether the exit status is 0."""
    homes = [folder / name for name in ("cluster", "single")]
    for home in homes:
        home.mkdir(mode=0o711)
        bench_server.write_identities(home / "identities.csv", devices)
    with contextlib.ExitStack() as stack:
        cluster = Cluster(homes[0], stack, devices)
        ours = measure(homes[0] / "identities.csv", devices, cluster.servers, cluster.pids, cluster.nodes[0].process)
    with contextlib.ExitStack() as stack:
        server, port = start_server(homes[1], devices)
        stack.callback(server.stop)
        single = measure(homes[1] / "identities.csv", devices, [f"127.0.0.1:{port}"], {"nodes": [server.pid]},
                         server.process)
    print_rows([("three nodes", ours), ("one server", single)])
    missed, is_quiet, result = judge(devices, ours, single)
    if not is_quiet:
        print("other programs had more of the processors than on a quiet machine: nothing is judged by the bars")
    print(f"result: {result}")
    return not missed or not is_quiet


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run bench cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=10000, help="of gradstream-load (default 10000)")
    arguments = parser.parse_args()
    if arguments.devices < 1:
        parser.error(f"--devices {arguments.devices}: at least 1 is needed")
    return arguments


def main():
    arguments = parse_arguments()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers and their folder end as by Ctrl-C
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    try:
        if "GS_BUILD_DIR" not in os.environ:  # else a tree that is built
            fleet.build("dev", "gradstream", "gradstream-engine", "gradstream-load")
        why = durable_peers.find_postgresql()[1]
        if why:
            print(f"bench: cluster skipped: {why}\nresult: skipped=1")
            return SKIPPED
        with tempfile.TemporaryDirectory(prefix="cluster-", dir=bench_server.LOAD.parent,
                                         ignore_cleanup_errors=True) as folder:
            os.chmod(folder, 0o711)  # where this is root, PostgreSQL runs as another user
            return 0 if measure_both(pathlib.Path(folder), arguments.devices) else 1
    except (Failure, bench_server.Failure, RuntimeError, OSError) as failure:
        print(f"bench: error: {failure}", file=sys.stderr)
        print("result: error=failed")
    except KeyboardInterrupt:
        print("bench: error: interrupted; all that it started is ended", file=sys.stderr)
        print("result: error=interrupted")
    return 1


if __name__ == "__main__":
    sys.exit(main())
