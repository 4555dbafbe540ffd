#!/usr/bin/python3
"""Three nodes of one run, on PostgreSQL with a synchronous standby and behind HAProxy, with twelve devices.

The node that leads is killed in mid-run, the primary is restarted, and another node gets SIGTERM. Their devices dial
again, and the last node takes the run to its end. Everyone takes part in each round. So the digest of each version must
be that of one server with the same devices, which nobody disturbed. Verbs pause the run and let it go on, and revoke a
device, and the nodes hear of it. Keys end by the engine's clock. Then the engine lacks what it has said, which the node
notices. The run goes back into a file. Another run is stopped.

Everything listens on 127.0.0.1. Without PostgreSQL or haproxy it is skipped, and says so.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import balancer_test  # noqa: E402
import durable_peers  # noqa: E402
import fleet  # noqa: E402

SKIPPED = 77
SECONDS_MAX = 60  # of one wait, on a machine with much else to do
DEVICES, NODES, ROUNDS = 12, 3, 30
EARLY = "early"  # in place of a number: the node that started before its engine, and has ended
KILL_AT, STOP_AFTER = 3, 3  # versions, the latter behind the one at which the leader was killed
WINDOW_SECONDS = 600  # of a key that was replaced: far less than clocks differ
CALM_ROUNDS = 3  # behind the last disturbance, at least
EXIT_CONFIG, EXIT_DATABASE, EXIT_NOT_FOUND = 3, 4, 7
POSTGRESQL = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
synchronous_standby_names = '*'
max_wal_senders = 4
shared_buffers = 16MB
wal_retrieve_retry_interval = 100ms
"""
HAPROXY = """
global
  log stderr format raw local0
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option redispatch
  retries 3
listen gradstream
  mode tcp
  balance roundrobin
  bind 127.0.0.1:{port}
"""
RUN = f"""
[run]
name = "cluster"
problem = "kpca"
rows = 8
cols = 2
centre = "none"
scale = "none"
step_size = 0.1
participation = "all"
update_goal = "all"
clip_norm = "none"
seen_versions = 0
device_share_max = 1
device_count = {DEVICES}
direction_count = 4
round_count = {ROUNDS}
report_deadline_ms = 300000
retry_min_ms = 10
retry_max_ms = 50
"""
LIMITS = """
[server.limits]
refusal_retry_min_ms = 10
refusal_retry_max_ms = 50
drain_deadline_ms = 5000
"""
check = balancer_test.check


class Database:
    """A primary and its standby, as users have them."""

    def __init__(self, home, stack):
        self.programs, _ = durable_peers.find_postgresql()
        self.home, self.stack = home, stack
        self.user = durable_peers.unprivileged_user()
        home.mkdir(mode=0o755)
        if self.user is not None:
            os.chown(home, self.user.pw_uid, self.user.pw_gid)
        self.port, standby_port = fleet.free_port(), fleet.free_port()
        self._run(*durable_peers.initdb_command(self.programs, home / "primary"), "--no-sync")
        with open(home / "primary" / "postgresql.conf", "a", encoding="ascii") as settings:
            settings.write(POSTGRESQL)
        self.primary = self._start("primary", self.port)
        self._run(self.programs / "pg_basebackup", "-h", "127.0.0.1", "-p", self.port, "-U", durable_peers.ROLE, "-D",
                  home / "standby", "-R", "-X", "stream", "-c", "fast", "--no-sync")
        standby = self._start("standby", standby_port)
        check(standby.wait_for_line("started streaming WAL", SECONDS_MAX), "\n".join(standby.lines[-9:]))
        self.address = f"host=127.0.0.1 port={self.port} user={durable_peers.ROLE} dbname=postgres"
        self._wait_for_standby()

    def _run(self, *command):
        fleet.command(durable_peers.as_user(command, self.user), str(command[0]), SECONDS_MAX)

    def _start(self, name, port):
        server = durable_peers.PostgreSql(name, durable_peers.as_user(
            [self.programs / "postgres", "-D", self.home / name, "-p", port], self.user), cwd=self.home)
        self.stack.callback(server.stop)
        check(server.wait_for_line("ready to accept", SECONDS_MAX), "\n".join(server.lines[-9:]))
        return server

    def restart(self):
        """The primary is away for as long as it takes to start; the standby finds it by itself."""
        self.primary.stop()
        self.primary = self._start("primary", self.port)
        self._wait_for_standby()

    def set_clock_back(self, interval):
        """For connections from now on. None: they see the machine's clock again."""
        if interval is None:
            self.ask("ALTER DATABASE postgres RESET search_path")
            return
        self.ask("CREATE SCHEMA late; CREATE FUNCTION late.clock_timestamp() RETURNS timestamptz LANGUAGE sql "
                 f"AS $$SELECT pg_catalog.clock_timestamp() - interval '{interval}'$$")
        self.ask("ALTER DATABASE postgres SET search_path = late, pg_catalog")

    def _wait_for_standby(self):
        """Until the primary counts it as synchronous, which is later than the standby's own line says."""
        end = time.monotonic() + SECONDS_MAX
        count = "SELECT count(*) FROM pg_stat_replication WHERE sync_state='sync' AND state='streaming'"
        while self.ask(count).strip() != "1":
            check(time.monotonic() < end, "the standby did not become synchronous")

    def ask(self, statement):
        return fleet.command([self.programs / "psql", "-d", self.address, "-Atc", statement], statement)


class Versions:
    """Digests by version, as lines event=version of any node tell them. Nodes must not differ."""

    def __init__(self):
        self.digests, self.faults = {}, []
        self._news = threading.Condition()

    def note(self, line):
        if "event=version " in line:
            said = fleet.fields(line)
            with self._news:
                known = self.digests.setdefault(int(said["version"]), said["digest"])
                if known != said["digest"]:
                    self.faults.append(line)
                self._news.notify_all()

    def wait(self, version):
        with self._news:
            return self._news.wait_for(lambda: max(self.digests, default=0) >= version, SECONDS_MAX)


class Place:
    def __init__(self, home, stack):
        self.home, self.stack = home, stack
        self.config = home / "fleet.toml"
        self.config.write_text(f'[server]\nlisten = "127.0.0.1:0"\ndatabase = "{home}/gradstream.db"\n{LIMITS}{RUN}')

    def serve(self, name, *more, listener=None):
        server = fleet.Process(name, [fleet.SERVER, "serve", "--config", self.config, *more], listener)
        self.stack.callback(server.stop)
        return server

    def begin(self):
        """Twelve devices, and a run that has begun."""
        (self.home / "names.csv").write_text("".join(f"device-{index}\n" for index in range(DEVICES)))
        fleet.command([fleet.SERVER, "device", "import", self.home / "names.csv", "--config", self.config,
                       "--out-folder", self.home / "identities"], "enrolling")
        server = self.serve("server")
        balancer_test.wait(server, "version")
        check(server.stop() == 0, "\n".join(server.lines))
        for index in range(DEVICES):
            samples = bytes((index * 37 + at * (index + 3)) % 256 for at in range(128))
            (self.home / f"{index}.gsd").write_bytes(balancer_test.SHARD[:-128] + samples)

    def connect(self, port):
        return [self.dial(f"device-{index}", f"{index}.gsd", port) for index in range(DEVICES)]

    def dial(self, name, shard, port):
        device = fleet.Process(name, [
            fleet.CLIENT, "--server", f"127.0.0.1:{port}", "--identity", self.home / "identities" / f"{name}.identity",
            "--data", self.home / shard, "--state", "none", "--retry-ms", 10, "--no-floors", "--until-finished"])
        self.stack.callback(device.stop)
        return device

    def finish(self, devices, servers):
        """The digest that all of them end with."""
        ends = [device.wait_for_line("event=finished", SECONDS_MAX) for device in devices]
        check(None not in ends, "devices end:\n" + "\n".join(
            f"{process.name}: {line}" for process in [*devices, *servers] for line in process.lines[-9:]))
        digests = {fleet.fields(end)["digest"] for end in ends}
        check(len(digests) == 1, f"devices end with one model: {digests}")
        return digests.pop()

    def play_alone(self):
        """The digest of each version that one server makes."""
        shutil.copy(self.home / "gradstream.db", self.home / "alone.db")
        versions = Versions()
        server = self.serve("alone", "--set", f"server.database={self.home}/alone.db", listener=versions.note)
        last = self.finish(self.connect(balancer_test.wait(server, "listening")["port"]), [server])
        check(server.stop() == 0, "\n".join(server.lines))
        check(versions.digests[ROUNDS] == last, f"{versions.digests} ends with {last}")
        return versions.digests


class Node:
    def __init__(self, place, database, number, versions):
        self.port, self.http = fleet.free_port(), fleet.free_port()
        self.name = f"node-{number}"
        self.process = place.serve(self.name, "--set", f"server.listen=127.0.0.1:{self.port}", "--set",
                                   f"server.http_listen=127.0.0.1:{self.http}", "--set",
                                   "server.balancers=[\"127.0.0.1\"]", "--set", f"engine.node={self.name}", "--set",
                                   f"engine.address={database}", listener=versions.note)

    def get(self, path):
        """Status and text."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=SECONDS_MAX) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def leads(self):
        said = [line for line in self.process.lines if "event=leader_" in line]
        return bool(said) and "event=leader_won" in said[-1]


def refuse(place, code, words, *more):
    server = place.serve("refused", *more)
    status = server.wait(SECONDS_MAX)
    said = "\n".join(server.lines)
    check(status == code and words in said, f"exit status {status} in place of {code}, or not '{words}':\n{said}")


def check_start(place, database):
    """What a node says of an engine that is refused, and of one that is away."""
    refuse(place, EXIT_DATABASE, "has no schema gradstream", "--set", f"engine.address={database.address}")
    refuse(place, EXIT_CONFIG, "server.export_dir", "--set", f"engine.address={database.address}", "--set",
           f"server.export_dir={place.home}")
    refuse(place, EXIT_CONFIG, "without a blank", "--set", f"engine.address={database.address}", "--set",
           'engine.node="an import"')
    refuse(place, EXIT_CONFIG, "30000 ms at most", "--set", f"engine.address={database.address}", "--set",
           "engine.deadline_ms=30001")
    away = Node(place, f"host=127.0.0.1 port={fleet.free_port()}", 0, Versions())
    balancer_test.wait(away.process, "engine_away")
    deadline = time.monotonic() + SECONDS_MAX
    while away.get("/healthz")[0] != 200 and time.monotonic() < deadline:
        pass  # the snapshot follows the line at once
    status, cause = away.get("/readyz")
    check(status == 503 and "without a connection to the engine" in cause, f"{status} {cause}")
    check(away.process.stop() == 0, "a signal ends a node that waits:\n" + "\n".join(away.process.lines))


def start_balancer(place, port, servers):
    (place.home / "haproxy.cfg").write_text(HAPROXY.format(port=port) + servers)
    balancer = fleet.Process("haproxy", ["haproxy", "-db", "-f", place.home / "haproxy.cfg"])
    place.stack.callback(balancer.stop)


def balance(place, nodes):
    port = fleet.free_port()
    servers = "".join(f"  server {node.name} 127.0.0.1:{node.port} check inter 200ms fall 1 rise 1 send-proxy-v2\n"
                      for node in nodes)
    start_balancer(place, port, servers)
    return port


def check_early_hangup(place, database):
    """What SIGHUP asks of a node that waits for its engine is done once it serves."""
    port = fleet.free_port()
    node = Node(place, f"host=127.0.0.1 port={port} user={durable_peers.ROLE} dbname=postgres", EARLY, Versions())
    balancer_test.wait(node.process, "engine_away")
    os.kill(node.process.pid, signal.SIGHUP)
    start_balancer(place, port, f"  server engine 127.0.0.1:{database.port}\n")
    balancer_test.wait(node.process, "node_joined")
    balancer_test.wait(node.process, "reloaded")
    check(node.process.stop() == 0, "\n".join(node.process.lines[-20:]))


def check_cluster(place, database, alone):
    engine = ["--config", place.config, "--set", f"engine.address={database.address}"]
    fleet.command([fleet.SERVER, "engine", "init", *engine], "engine init")
    fleet.command([fleet.SERVER, "engine", "import", *engine, "--from", place.home / "gradstream.db"], "engine import")
    versions = Versions()
    check_early_hangup(place, database)
    nodes = [Node(place, database.address, number, versions) for number in range(1, NODES + 1)]
    for node in nodes:
        balancer_test.wait(node.process, "node_joined")
        check(node.get("/readyz") == (200, "ready\n"), "a balancer sends devices to who has joined")
    check_status(nodes, engine)
    check_watch(nodes)
    port = balance(place, nodes)
    devices = place.connect(port)
    check(versions.wait(KILL_AT), "the run trains:\n" + "\n".join(nodes[0].process.lines[-20:]))
    check_pause(nodes, engine, versions)
    leader = next((node for node in nodes if node.leads()), None)
    check(leader is not None, "one node leads")
    leader.process.kill()
    killed_at = max(versions.digests)
    stopped, last = [node for node in nodes if node is not leader]
    check(versions.wait(killed_at + STOP_AFTER), "another node leads:\n" + "\n".join(last.process.lines[-20:]))
    database.restart()
    for node in (stopped, last):
        balancer_test.wait(node.process, "engine_away")
        balancer_test.wait(node.process, "engine_back")
    check(versions.wait(max(versions.digests) + STOP_AFTER), "\n".join(last.process.lines[-20:]))
    status = stopped.process.stop()
    stopped_at = max(versions.digests)
    check(stopped_at <= ROUNDS - CALM_ROUNDS, f"too late for a disturbance: {killed_at}, {stopped_at}")
    counters = fleet.fields([line for line in stopped.process.lines if "event=counters" in line][-1])
    check(int(counters["updates_accepted"]) > 0, f"devices are spread over the nodes: {counters}")
    check(status == 0, f"SIGTERM ends a node with status {status}:\n" + "\n".join(stopped.process.lines[-20:]))
    deadline = time.monotonic() + SECONDS_MAX
    while last.get("/readyz")[0] != 200 and time.monotonic() < deadline:
        pass  # with the next snapshot
    check(last.get("/readyz") == (200, "ready\n"), str(last.get("/readyz")))
    digest = place.finish(devices, [last.process])
    check(versions.wait(ROUNDS) and not versions.faults, f"nodes differ: {versions.faults}")
    check_metrics(last)
    check_end(last, nodes, digest)
    check(last.leads(), "the last node leads")
    check_fleet(place, last, engine, port, digest)
    check_clock(place, database, engine, digest)
    check_trouble(last, database)
    made = {version: alone[version] for version in versions.digests}
    check(versions.digests == made, f"one server makes {made}, nodes made {versions.digests}")
    check(set(range(1, ROUNDS + 1)) <= set(made) and digest == alone[ROUNDS], f"{sorted(made)}, {digest}")
    export(place, database, engine, digest)
    print(f"cluster: devices={DEVICES} versions={ROUNDS} killed_at={killed_at} stopped_at={stopped_at} digests_wrong=0")


def check_status(nodes, engine):
    """Each node tells the engine which release it is of: an upgrade is watched by that."""
    release = fleet.command([fleet.SERVER, "--version"], "version").split()[-1]
    lines = fleet.command([fleet.SERVER, "engine", "status", *engine], "engine status").splitlines()
    told = {said["node"]: said["release"] for said in map(fleet.fields, lines) if "node" in said}
    check(all(told.get(node.name) == release for node in nodes), f"{told} in place of {release}")


def run_verb(verb, engine):
    return fleet.fields(fleet.command([fleet.SERVER, "run", verb, *engine], f"run {verb}"))


def run_line(engine):
    """What the engine says of its run."""
    lines = fleet.command([fleet.SERVER, "engine", "status", *engine], "engine status").splitlines()
    return next(said for said in map(fleet.fields, lines) if "open_version" in said and "node" not in said)


def check_pause(nodes, engine, versions):
    """No version comes from when a verb has paused the run, but one that was closed before."""
    check(run_verb("pause", engine)["state"] == "paused", "the verb says what is in")
    for node in nodes:
        balancer_test.wait(node.process, "run_paused")
        check(node.get("/readyz") == (200, "ready\n"), "a node of a paused run is ready")
        watch(node, lambda said: said["run"]["state"] == "paused")
    end = time.monotonic() + SECONDS_MAX
    while (now := run_line(engine))["sealed"] == "yes":
        check(time.monotonic() < end, "what is closed is published")
    check(now["state"] == "paused" and now["leader"] != "none", str(now))
    check("already" in run_verb("pause", engine)["note"], "a second pause changes nothing")
    check(versions.wait(int(now["open_version"])), "nodes read the last version")
    later = run_line(engine)
    check(later["open_version"] == now["open_version"] == str(max(versions.digests)), f"{now}, {later}")
    check(run_verb("resume", engine)["state"] == "active", "the verb says what is in")
    for node in nodes:
        balancer_test.wait(node.process, "run_resumed")
    check(versions.wait(max(versions.digests) + 1), "it goes on:\n" + "\n".join(nodes[0].process.lines[-20:]))


def check_stop(place, database):
    """A stopped run is over: devices hear of it, the node stays, and an export has it stopped."""
    database.ask("CREATE DATABASE stopped")
    address = database.address.replace("dbname=postgres", "dbname=stopped")
    engine = ["--config", place.config, "--set", f"engine.address={address}"]
    fleet.command([fleet.SERVER, "engine", "init", *engine], "engine init")
    fleet.command([fleet.SERVER, "engine", "import", *engine, "--from", place.home / "gradstream.db"], "engine import")
    versions = Versions()
    node = Node(place, address, NODES + 1, versions)
    balancer_test.wait(node.process, "node_joined")
    devices = place.connect(balance(place, [node]))
    check(versions.wait(1), "the run trains:\n" + "\n".join(node.process.lines[-20:]))
    check(run_verb("stop", engine)["state"] == "stopped", "the verb says what is in")
    balancer_test.wait(node.process, "run_stopped")
    for device in devices:
        balancer_test.wait(device, "stopped")
    check(node.get("/readyz") == (200, "ready\n"), "the node stays")
    refused = subprocess.run([fleet.SERVER, "run", "resume", *engine], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
    check(refused.returncode == EXIT_NOT_FOUND and "is stopped" in refused.stdout, refused.stdout)
    check(node.process.stop() == 0, "\n".join(node.process.lines[-20:]))
    back = place.home / "stopped.db"
    end_lease(database, address)
    fleet.command([fleet.SERVER, "engine", "export", *engine, "--to", back, "--close"], "engine export")
    said = fleet.fields(fleet.command([fleet.SERVER, "run", "list", "--config", place.config, "--set",
                                       f"server.database={back}"], "run list"))
    check(said["state"] == "stopped", str(said))


def watch(node, holds):
    """What the node's /status says once this holds of it."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        status, text = node.get("/status")
        said = json.loads(text) if status == 200 else {}
        if said and said["cluster"] and holds(said):
            return said
        check(time.monotonic() < deadline, f"{node.name}: {status} {text}")


def check_watch(nodes):
    """Any node shows them all, who leads, and where the run stands; and it has the page."""
    names = [*(node.name for node in nodes), f"node-{EARLY}"]
    for node in nodes:
        said = watch(node, lambda said: said["cluster"]["lease_ms"] > 0)
        cluster = said["cluster"]
        leaders = [one["name"] for one in cluster["nodes"] if one["leads"]]
        check([one["name"] for one in cluster["nodes"]] == names, str(cluster))
        check(leaders == [cluster["leader"]] and cluster["term"] > 0, f"exactly one leads: {cluster}")
        check(said["node"]["name"] == node.name and said["ready"] and not said["attention"], str(said["node"]))
        check(said["run"]["name"] == "cluster" and said["devices"]["active"] == DEVICES, str(said["run"]))
        check(said["run"]["round"]["wanted"] == DEVICES, str(said["run"]["round"]))
        check(said["run"]["version"] == cluster["open_version"] == 0 and said["run"]["has_version"], str(said["run"]))
        check("<!doctype html>" in node.get("/")[1] and node.get("/page.js")[0] == 200, "a node has the page")
        check(node.get("/status/devices")[0] == 404, "a node lists no devices")


def text_of(said):
    return json.dumps(said)[-2000:]


def check_end(node, nodes, digest):
    """The run is over: its model, and whom the engine has seen."""
    said = watch(node, lambda said: said["run"]["state"] == "finished" and said["cluster"]["open_version"] == ROUNDS
                 and said["cluster"]["lease_ms"] > 0)
    check((said["run"]["version"], said["run"]["digest"]) == (ROUNDS, digest), str(said["run"]))
    check(said["rounds"][-1]["version"] == ROUNDS, text_of(said))
    check([one["name"] for one in said["cluster"]["nodes"]] == [*(one.name for one in nodes), f"node-{EARLY}"],
          str(said["cluster"]))
    check([one["name"] for one in said["cluster"]["nodes"] if one["leads"]] == [node.name], str(said["cluster"]))


def check_metrics(node):
    metrics = dict(line.rsplit(" ", 1) for line in node.get("/metrics")[1].splitlines() if not line.startswith("#"))
    for key in ("gradstream_batches_committed_total", "gradstream_versions_published_total",
                "gradstream_tasks_issued_total", "gradstream_sessions_established_total",
                "gradstream_engine_connected", "gradstream_node_leads"):
        check(float(metrics[key]) > 0, f"{key} {metrics[key]}")
    check(metrics["gradstream_node_trouble"] == "0", "no trouble")


def check_fleet(place, node, engine, port, digest):
    """What a verb changes beside the engine comes to a node that runs."""
    fleet.command([fleet.SERVER, "device", "revoke", "device-0", *engine], "device revoke")
    said = balancer_test.wait(node.process, "device_state")
    check((said["device"], said["state"]) == ("device-0", "revoked"), str(said))
    identity = place.home / "identities" / "late.identity"
    fleet.command([fleet.SERVER, "device", "add", "late", "--out", identity, *engine], "device add")
    said = balancer_test.wait(node.process, "device_added")
    check((said["device"], said["index"]) == ("late", str(DEVICES)), str(said))
    check(place.finish([place.dial("late", "0.gsd", port)], [node.process]) == digest, "who is new has the model")


def check_clock(place, database, engine, digest):
    """A window of keys ends by the engine's clock, which is an hour behind that of the node's machine."""
    database.set_clock_back("1 h")
    fleet.command([fleet.SERVER, "device", "rotate", "device-1", "--window-s", WINDOW_SECONDS, "--out",
                   place.home / "device-1.new", *engine], "device rotate")
    node = Node(place, database.address, NODES + 1, Versions())
    balancer_test.wait(node.process, "node_joined")
    late = place.dial("device-1", "1.gsd", balance(place, [node]))
    check(place.finish([late], [node.process]) == digest, "the key before lets its device in")
    check(node.process.stop() == 0, "\n".join(node.process.lines[-20:]))
    database.set_clock_back(None)


def check_trouble(node, database):
    """An engine that lacks what it has said: the node serves no more, and stays until it is ended."""
    database.ask("UPDATE gradstream.run SET term = term - 1")
    cause = balancer_test.wait(node.process, "node_trouble")["cause"]
    check("restored to an earlier time" in cause, cause)
    deadline = time.monotonic() + SECONDS_MAX
    while node.get("/readyz")[0] != 503 and time.monotonic() < deadline:
        pass  # with the next snapshot
    status, text = node.get("/readyz")
    check(status == 503 and cause in text and node.get("/healthz")[0] == 200, f"{status} {text}")
    needs = [need["id"] for need in json.loads(node.get("/status")[1])["attention"]]
    check(needs[0] == "node_trouble", str(needs))
    status = node.process.stop()
    check(status == EXIT_DATABASE, f"a node in trouble ends with {status}:\n" + "\n".join(node.process.lines[-20:]))


def end_lease(database, address):
    """As after the 10 s in which a node might come back."""
    fleet.command([database.programs / "psql", "-d", address, "-Atc",
                   "UPDATE gradstream.run SET lease_until = clock_timestamp() - interval '1 min'"], "ending a lease")


def export(place, database, engine, digest):
    end_lease(database, database.address)
    said = fleet.fields(fleet.command([fleet.SERVER, "engine", "export", *engine, "--to", place.home / "back.db"],
                                      "engine export"))
    check((said["version"], said["digest"]) == (str(ROUNDS), digest), str(said))


def main():
    for why in (durable_peers.find_postgresql()[1],
                None if shutil.which("haproxy") else "haproxy is missing (apt-get install haproxy)",
                None if (fleet.SERVER.parent / "gradstream-engine").exists() else "gradstream-engine is not built"):
        if why:
            print(f"cluster: skipped: {why}")
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="gradstream-cluster-") as folder, contextlib.ExitStack() as stack:
        home = pathlib.Path(folder)
        home.chmod(0o755)  # PostgreSQL runs as another user where this is root
        database = Database(home / "postgresql", stack)
        place = Place(home, stack)
        place.begin()
        check_start(place, database)
        check_cluster(place, database, place.play_alone())
        check_stop(place, database)
    return 0


if __name__ == "__main__":
    sys.exit(main())
