"""./run soak cluster: a run on three nodes, and any part of it is killed, stopped, cut off or changed at any time.

Each machine is a network namespace on one bridge: three nodes, a PostgreSQL primary and its synchronous standby, and
HAProxy, which sees by /readyz who serves. The devices of gradstream-load dial HAProxy, and so do real clients
(gradstream-client), which train on their own data. All keep an update until it has an Ack, and write each Ack down, the
clients with the values that they have sent. The faults come one after the other, in an order that --seed draws. Each
begins when all nodes serve again, each device is back that had lost its session, and the run goes on:

  kill       SIGKILL to a node, two in five to the one that leads; it is started again once there is a version
  pause      SIGSTOP to a node, for up to four seconds
  partition  the link of a node or of the standby is cut, for up to four seconds
  failover   SIGKILL to the primary; the standby is promoted, and a new standby is copied from it
  upgrade    each node in turn gets SIGTERM, and is started again

At the end every update is sent until it has an Ack. gradstream-engine-lineage folds each version again from what the
devices were told, by the rules of one server. It compares digests, and what each device's row counts. The result:

  clients_acked      updates of the clients that are in a version, by their own records; each client has one at least
  lost, doubled      updates that were acknowledged and are in no version, or in two
  unrecorded         updates in a version that no device was told of
  digests_wrong      versions that one server would make otherwise
  node_back_ms       from the end of a device's session with a dead node to its next answer, without its back-off; the
                     longest
  leader_back_ms     from the death of a leader to the next version, the longest
  engine_back_ms     from the moment when there are a primary and a standby again to the next Ack, the longest
  returns, returns_cut
                     returns of devices, and those of them that had not come when the next fault did. These are in no
                     time above

Without root, or where no namespaces can be made, everything listens on 127.0.0.1, and nothing is cut off. Times count
on a quiet machine alone, and are judged by --judge-times. It also fails a soak that cut more than a tenth of the
returns.

--asynchronous takes an asynchronous standby, whose receiver stands still before the primary dies. Acknowledged updates
are lost then, and the checker must find them.
"""

import argparse
import collections
import contextlib
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.request

import bench_server
import cluster_clients
import cluster_machines
import cluster_postgres
import durable_peers
import fleet

SKIPPED = 77
SECONDS_MAX = 60  # of one wait, on a machine with much else to do
LINEAGE = fleet.BUILD / "bench" / "gradstream-engine-lineage"
ENGINE = fleet.SERVER.parent / "gradstream-engine"
NODES = ("n1", "n2", "n3")
MACHINES = ("db1", "db2", *NODES, "lb")
PORT, HTTP = 7433, 7480
VALUES = 16            # of the model
LEADER_SHARE = 0.4     # of the kills
LEAVING_SHARE = 0.05   # of the devices after an Ack, to dial anew when their window is over
ABSENT_SECONDS = (0.5, 4)  # of a pause or a partition
STALL_ACKS = 20        # behind a standby that stands still, before the primary dies
DRAIN_SECONDS = 120
LOOK_SECONDS = 0.05    # between two looks at a port
TOKEN = "0123456789abcdef" * 4  # of the HTTP ports, which nobody outside sees
LEASE_SECONDS = 10     # that an export waits for a leader to come back
NODE_BACK_MS_MAX, LEADER_BACK_MS_MAX, ENGINE_BACK_MS_MAX = 2000, 4000, 2000
CUT_SHARE_MAX = 0.1    # of the returns; beyond it node_back_ms is of too few of them to be judged
HAPROXY = """
global
  log stderr format raw local0
  maxconn {connections}
defaults
  timeout connect 1s
  timeout client 10m
  timeout server 10m
  option redispatch
  retries 3
listen gradstream
  mode tcp
  balance roundrobin
  bind {address}:{port}
  option httpchk
  http-check send meth GET uri /readyz hdr Authorization "Bearer {token}"
  default-server inter 200ms fastinter 200ms downinter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
"""
CONFIG = """
[server]
listen = "127.0.0.1:0"
database = "{home}/gradstream.db"
log_level = "info"
allow_psk_ke = true
[server.limits]
connection_count_max = {connections}
device_messages_per_s_max = 0
refusal_retry_min_ms = 200
refusal_retry_max_ms = 1000
drain_deadline_ms = 5000
[run]
name = "cluster"
""" + bench_server.MODEL + """round_count = 1000000
device_count = {devices}
update_goal = {goal}
update_min = 1
report_deadline_ms = 5000
late = "weight"
staleness_table = "polynomial"
staleness_max = 64
retry_min_ms = {retry_ms[0]}
retry_max_ms = {retry_ms[1]}
"""

Failure = cluster_postgres.Failure
Fault = collections.namedtuple("Fault", "kind at")  # seconds of the monotonic clock
Return = collections.namedtuple("Return", "begin end late")  # of a device: both times, and seconds beyond its back-off


# ---- The parts of the cluster ----

class Versions:
    """When the first node said that it follows a version. Two nodes must not name two digests."""

    def __init__(self):
        self.times, self.digests, self.differing = {}, {}, []
        self._news = threading.Condition()

    def note(self, line):
        if "event=version " in line:
            said = fleet.fields(line)
            version = int(said["version"])
            with self._news:
                self.times.setdefault(version, time.monotonic())
                if self.digests.setdefault(version, said["digest"]) != said["digest"]:
                    self.differing.append(line)
                self._news.notify_all()

    def latest(self):
        with self._news:
            return max(self.times, default=0)

    def wait(self, version, seconds=SECONDS_MAX):
        """When it was there. Raises Failure where it does not come."""
        with self._news:
            if not self._news.wait_for(lambda: max(self.times, default=0) >= version, seconds):
                raise Failure(f"version {version} does not come within {seconds} s, after {max(self.times, default=0)}")
            return min(at for number, at in self.times.items() if number >= version)


class Node:
    """A machine's `gradstream serve`, each time that it is started."""

    def __init__(self, name, cluster):
        self.name, self._cluster = name, cluster
        self.process = None

    def start(self):
        cluster, network = self._cluster, self._cluster.network
        settings = {"server.listen": f"{network.address(self.name)}:{network.port(self.name, PORT)}",
                    "server.http_listen": f"{network.address(self.name)}:{network.port(self.name, HTTP)}",
                    "server.http_token_file": cluster.home / "token",
                    "engine.node": self.name,
                    "engine.address": cluster.engine.address,
                    "engine.durability": "standby" if cluster.is_synchronous else "storage"}
        if cluster.is_balanced:
            settings["server.balancers"] = f'["{network.address("lb")}"]'
        words = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        self.process = fleet.Process(self.name, network.on(self.name, [
            fleet.SERVER, "serve", "--config", cluster.config, *words]), cluster.versions.note)
        cluster.stack.callback(self.process.kill)

    def wait_ready(self):
        """Until /readyz says so, as the balancer asks."""
        deadline = time.monotonic() + SECONDS_MAX
        while not self._is_ready():
            if self.process.wait(LOOK_SECONDS) is not None or time.monotonic() > deadline:
                raise Failure(f"{self.name} is not ready:\n" + "\n".join(self.process.lines[-9:]))

    def _is_ready(self):
        network = self._cluster.network
        request = urllib.request.Request(
            f"http://{network.address(self.name)}:{network.port(self.name, HTTP)}/readyz",
            headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return answer.status == 200
        except OSError:  # urllib's errors are of this kind, as that of status 503
            return False

    def leads(self):
        said = [line for line in self.process.lines if "event=leader_" in line]
        return bool(said) and "event=leader_won" in said[-1] and self.process.running

    def signal(self, number):
        os.kill(self.process.pid, number)


class Cluster:
    """All of it, in a folder. Whoever has made it calls start()."""

    is_balanced = True

    def __init__(self, home, stack, arguments):
        self.home, self.stack, self.arguments = home, stack, arguments
        self.is_synchronous = not arguments.asynchronous
        self.network = (cluster_machines.Namespaces if cluster_machines.folder_inside() else
                        cluster_machines.Loopback)(MACHINES)
        self.versions = Versions()
        self.config, self.record = home / "fleet.toml", home / "record"
        self.engine = self.balancer = self.load = None
        self.devices = Devices(self.record)
        self.clients = cluster_clients.Clients(home / "clients", stack, arguments.clients, VALUES, arguments.seed)
        self.nodes = {name: Node(name, self) for name in NODES}

    def start(self):
        self._begin_run()
        self.engine = cluster_postgres.Pair(self.network, self.home / "postgres", self.stack, self.is_synchronous)
        self.command("init")
        self.command("import", "--from", self.home / "gradstream.db")
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_ready()
        self._balance()
        self._dial()
        self.versions.wait(1)

    def _begin_run(self):
        load, devices = self.arguments.devices, self.arguments.devices + self.arguments.clients
        token = self.home / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN + "\n", encoding="ascii")
        self.config.write_text(CONFIG.format(home=self.home, devices=devices, goal=math.ceil(devices / 2),
                                             connections=devices + 100, values=VALUES,
                                             retry_ms=self.arguments.retry_ms),
                               encoding="ascii")
        bench_server.write_identities(self.home / "identities.csv", load)
        fleet.command([fleet.SERVER, "device", "import", self.home / "identities.csv", "--config", self.config],
                      "enrolling", SECONDS_MAX)
        self.clients.enrol(self.config)
        server = fleet.Process("server", [fleet.SERVER, "serve", "--config", self.config])
        self.stack.callback(server.kill)
        if not server.wait_for_line("event=version ", SECONDS_MAX) or server.stop() != 0:
            raise Failure("the run does not begin:\n" + "\n".join(server.lines[-9:]))

    def command(self, verb, *words):
        durability = "standby" if self.is_synchronous else "storage"
        return fleet.command([fleet.SERVER, "engine", verb, "--config", self.config, "--set",
                              f"engine.address={self.engine.address}", "--set", f"engine.durability={durability}",
                              *words], f"engine {verb}", SECONDS_MAX)

    def _balance(self):
        network = self.network
        address, port = network.address("lb"), network.port("lb", PORT)
        connections = 2 * (self.arguments.devices + self.arguments.clients)
        text = HAPROXY.format(address=address, port=port, token=TOKEN, connections=connections)
        for name in NODES:
            text += (f"  server {name} {network.address(name)}:{network.port(name, PORT)} check port "
                     f"{network.port(name, HTTP)} send-proxy-v2\n")
        (self.home / "haproxy.cfg").write_text(text, encoding="ascii")
        command = network.on("lb", [haproxy(), "-db", "-f", self.home / "haproxy.cfg"])
        self.balancer = balancer = fleet.Process("haproxy", command)
        self.stack.callback(balancer.stop)
        deadline = time.monotonic() + SECONDS_MAX
        while not is_open(address, port):
            if not balancer.running or time.monotonic() > deadline:
                raise Failure("haproxy does not listen:\n" + "\n".join(balancer.lines[-9:]))

    def _dial(self):
        server = f"{self.network.address('lb')}:{self.network.port('lb', PORT)}"
        self.load = fleet.Process("load", [
            bench_server.LOAD, "--server", server, "--record", self.record, "--identities",
            self.home / "identities.csv", "--devices", self.arguments.devices, "--seed", self.arguments.seed,
            "--exchange", "psk_ke"])
        self.stack.callback(self.load.kill)
        line = self.load.wait_for_line("event=connected", SECONDS_MAX)
        if line is None or fleet.fields(line)["lost"] != "0":
            raise Failure("the devices do not connect:\n" + "\n".join([*self.load.lines, *self.balancer.lines[-9:]]))
        self.load.type(f"until_told {LEAVING_SHARE}\n")
        self.clients.start(server)

    def hold(self, seconds):
        """So long, as the devices go on."""
        if self.load.wait(seconds) is not None:
            raise Failure("the devices have ended:\n" + "\n".join(self.load.lines[-9:]))

    def settle(self, versions):
        """All nodes serve, who had lost its session is back, and so many versions have come meanwhile."""
        for node in self.nodes.values():
            node.wait_ready()
        self.wait_returns()
        self.clients.check()
        self.versions.wait(self.versions.latest() + versions)
        self.wait_returns()  # a balancer may cut sessions late

    def wait_returns(self):
        """Until each device that has lost its session by now has an answer: the next fault is no matter of theirs."""
        asked = time.monotonic()
        deadline = asked + SECONDS_MAX
        while missing := self.devices.lost_before(asked):
            if time.monotonic() > deadline:
                raise Failure(f"device {missing[0]} is not back within {SECONDS_MAX} s, as {len(missing)} are not")
            self.hold(LOOK_SECONDS)

    def end(self):
        """Every update has an Ack; the nodes end; the fields of the load's last line."""
        self.clients.end()
        self.load.type(f"drain {DRAIN_SECONDS}\n")
        line = self.load.wait_for_line("event=drained", DRAIN_SECONDS + SECONDS_MAX)
        if line is None:
            raise Failure("the devices do not drain:\n" + "\n".join(self.load.lines[-9:]))
        self.load.type("quit\n")
        for node in self.nodes.values():
            if node.process.stop() != 0:
                raise Failure(f"{node.name} does not end by SIGTERM:\n" + "\n".join(node.process.lines[-9:]))
        return fleet.fields(line)

    def export(self):
        """The run as a file of one server, as after the seconds in which a leader might come back."""
        self.engine.ask(f"UPDATE gradstream.run SET lease_until = clock_timestamp() - interval '{LEASE_SECONDS + 1} s'")
        self.command("export", "--to", self.home / "back.db", "--close")

    def check(self):
        """(the fields of the checker's result, its findings)."""
        checker = fleet.Process("lineage", [LINEAGE, self.engine.address, self.record, *self.clients.records])
        status = checker.wait(SECONDS_MAX)
        lines = checker.lines
        if status not in (0, 1) or not lines or not lines[-1].startswith("result:"):
            raise Failure(f"the checker ends with {status}:\n" + "\n".join(lines[-9:]))
        return fleet.fields(lines[-1]), lines[:-1]


def is_open(address, port):
    with socket.socket() as link:
        return link.connect_ex((address, port)) == 0


def haproxy():
    return shutil.which("haproxy") or "/usr/sbin/haproxy"


# ---- The faults ----

class Play:
    """Faults of a cluster, in the order that the seed draws, and when they were."""

    def __init__(self, cluster, arguments):
        self.cluster = cluster
        self.random = random.Random(arguments.seed)
        kinds = {"kill": arguments.kills, "failover": arguments.failovers, "partition": arguments.partitions,
                 "pause": arguments.pauses, "upgrade": arguments.upgrades}
        self.order = [kind for kind, count in kinds.items() for _ in range(count)]
        self.random.shuffle(self.order)
        self.faults = []
        self.leader_back_s, self.engine_back_from = [], []

    def run(self):
        for number, kind in enumerate(self.order, 1):
            self.cluster.settle(self.random.randint(1, 2))
            begin = time.monotonic()
            self.faults.append(Fault(kind, begin))
            what = getattr(self, f"_{kind}")()
            print(f"soak: {number} of {len(self.order)}: {kind} {what}, version {self.cluster.versions.latest()} after "
                  f"{time.monotonic() - begin:.1f} s", flush=True)
        self.cluster.settle(2)

    def _node(self):
        """One that leads, or any."""
        nodes = list(self.cluster.nodes.values())
        leaders = [node for node in nodes if node.leads()]
        return self.random.choice(leaders if leaders and self.random.random() < LEADER_SHARE else nodes)

    def _kill(self):
        node = self._node()
        is_leader = node.leads()
        before, begin = self.cluster.versions.latest(), time.monotonic()
        node.process.kill()
        at = self.cluster.versions.wait(before + 1)
        if is_leader:
            self.leader_back_s.append(at - begin)
        node.start()
        return f"{node.name}{', which led' if is_leader else ''}"

    def _pause(self):
        node, seconds = self._node(), self.random.uniform(*ABSENT_SECONDS)
        node.signal(signal.SIGSTOP)
        try:
            self.cluster.hold(seconds)
        finally:
            node.signal(signal.SIGCONT)
        return f"{node.name} for {seconds:.1f} s"

    def _partition(self):
        name = self.random.choice([*NODES, self.cluster.engine.standby])
        seconds = self.random.uniform(*ABSENT_SECONDS)
        self.cluster.network.cut(name)
        self.cluster.hold(seconds)
        self.cluster.network.mend(name)
        return f"{name} for {seconds:.1f} s"

    def _failover(self):
        name = self.cluster.engine.primary
        died, promoted, back = self.cluster.engine.fail_over()
        self.engine_back_from.append(back)
        return f"{name}, promoted after {promoted - died:.2f} s, a standby after {back - died:.2f} s"

    def _upgrade(self):
        for node in self.cluster.nodes.values():
            status = node.process.stop()
            if status != 0:
                raise Failure(f"{node.name} ends with {status} by SIGTERM:\n" + "\n".join(node.process.lines[-9:]))
            node.start()
            self.cluster.settle(1)
        return "of all nodes, one after the other"

    def lose(self):
        """What an asynchronous standby has not taken is lost with the primary."""
        cluster = self.cluster
        cluster.settle(2)
        acks = count_acks(cluster.record)
        cluster.engine.stall_standby()
        deadline = time.monotonic() + SECONDS_MAX
        while count_acks(cluster.record) < acks + STALL_ACKS and time.monotonic() < deadline:
            cluster.hold(0.1)
        cluster.engine.fail_over(is_stalled=True)
        self.faults.append(Fault("failover", time.monotonic()))
        # A node that had heard of more than the engine knows now serves no more.
        for node in cluster.nodes.values():
            node.process.kill()
            node.start()
        for node in cluster.nodes.values():
            node.wait_ready()
        cluster.hold(ABSENT_SECONDS[1])


# ---- What the devices saw ----

class Devices:
    """Who of them has lost its session, by their record, which is still written."""

    def __init__(self, record):
        self._record, self._read = record, 0
        self._lost = {}  # when, seconds, by the name of the device

    def lost_before(self, moment):
        """Those who had lost it by then, and have no answer yet."""
        with open(self._record, encoding="ascii") as lines:
            lines.seek(self._read)
            text = lines.read()
        whole = text[:text.rfind("\n") + 1]  # the last line may be half there
        self._read += len(whole)
        for said in map(fleet.fields, whole.splitlines()):
            if said["event"] == "lost":
                self._lost.setdefault(said["device"], int(said["at_ms"]) / 1000)
            else:
                self._lost.pop(said["device"], None)
        return [device for device, at in self._lost.items() if at <= moment]


def count_acks(record):
    with open(record, encoding="ascii") as lines:
        return sum(line.startswith("event=ack") for line in lines)


def read_record(record):
    """(seconds of each Ack, in order; each return of a device, from its first loss on)."""
    acks, returns, lost = [], [], {}
    with open(record, encoding="ascii") as lines:
        for line in lines:
            said = fleet.fields(line)
            at = int(said["at_ms"]) / 1000
            if said["event"] == "ack":
                acks.append(at)
            elif said["event"] == "lost":
                begin, waited = lost.get(said["device"], (at, 0))
                lost[said["device"]] = begin, waited + int(said["wait_ms"]) / 1000
            elif said["device"] in lost:
                begin, waited = lost.pop(said["device"])
                returns.append(Return(begin, at, at - begin - waited))
    return sorted(acks), returns


def is_cut(one, faults):
    """Whether the next fault came before the device was back: its return is then no matter of one fault."""
    return any(one.begin < fault.at < one.end for fault in faults)


def longest_return(returns, faults, kind):
    """Of the devices that lost their session after a fault of this kind, and were back before the next one; seconds."""
    longest = 0
    ends = [fault.at for fault in faults[1:]] + [math.inf]
    for fault, end in zip(faults, ends):
        if fault.kind == kind:
            longest = max([longest, *(one.late for one in returns if fault.at <= one.begin and one.end <= end)])
    return longest


def longest_silence(acks, moments):
    """From each moment to the next Ack; seconds."""
    return max((min((ack for ack in acks if ack >= moment), default=math.inf) - moment for moment in moments),
               default=0)


def judge(play, arguments, drained, found):
    """(whether all is well, the fields of the result)."""
    acks, returns = read_record(play.cluster.record)
    times = {"node_back_ms": (1000 * longest_return(returns, play.faults, "kill"), NODE_BACK_MS_MAX),
             "leader_back_ms": (1000 * max(play.leader_back_s, default=0), LEADER_BACK_MS_MAX),
             "engine_back_ms": (1000 * longest_silence(acks, play.engine_back_from), ENGINE_BACK_MS_MAX)}
    late = [name for name, (value, most) in times.items() if value > most]
    cut = sum(is_cut(one, play.faults) for one in returns)
    late += ["returns_cut"] if cut > CUT_SHARE_MAX * len(returns) else []
    wrong = [name for name in ("lost", "doubled", "unrecorded", "foreign", "digests_wrong") if found[name] != "0"]
    wrong += ["pending"] if drained["pending"] != "0" or drained["recorded"] != "1" else []
    accepted = play.cluster.clients.read_accepted()
    wrong += ["clients_idle"] if 0 in accepted.values() else []
    wrong += ["differing"] if play.cluster.versions.differing else []
    if arguments.asynchronous:
        wrong = [] if int(found["lost"]) > 0 else ["nothing_lost"]
    counts = collections.Counter(fault.kind for fault in play.faults)
    text = " ".join(f"{kind}s={counts[kind]}" for kind in ("kill", "failover", "partition", "pause", "upgrade"))
    text += f" devices={arguments.devices} clients={arguments.clients} clients_acked={sum(accepted.values())}"
    text += f" seed={arguments.seed} pending={drained['pending']} "
    text += " ".join(f"{name}={found[name]}" for name in ("acked", "refused", "versions", "lost", "doubled",
                                                          "unrecorded", "foreign", "digests_wrong"))
    text += "".join(f" {name}={value:.0f}" for name, (value, _) in times.items())
    text += f" returns={len(returns)} returns_cut={cut}"
    text += f" late={','.join(late) or 'none'} namespaces={int(play.cluster.network.can_cut)}"
    is_well = not wrong and not (late and arguments.judge_times)
    return is_well, f"{text} wrong={','.join(wrong) or 'none'}"


def soak(home, arguments):
    """The exit status."""
    with contextlib.ExitStack() as stack:
        cluster = Cluster(home, stack, arguments)
        play = None
        try:
            cluster.start()
            play = Play(cluster, arguments)
            play.lose() if arguments.asynchronous else play.run()
            drained = cluster.end()
            found, findings = cluster.check()
            for finding in findings[:20]:
                print(f"soak: {finding}")
            is_well, text = judge(play, arguments, drained, found)
            if not arguments.asynchronous:
                cluster.export()
        except (Failure, RuntimeError, OSError) as failure:
            print(f"soak: error: {failure}", file=sys.stderr)
            for node in cluster.nodes.values():
                for line in node.process.lines[-9:] if node.process else []:
                    print(f"soak: {node.name}: {line}", file=sys.stderr)
            print("result: error=failed")
            return 1
        print(f"result: {text}")
        return 0 if is_well else 1


# ---- The command ----

def why_skipped():
    for why in (durable_peers.find_postgresql()[1],
                None if os.access(haproxy(), os.X_OK) else "haproxy is missing (apt-get install haproxy)",
                None if ENGINE.exists() else f"{ENGINE} is not built: -DGS_ENGINE_POSTGRESQL=ON",
                None if fleet.CLIENT.exists() else f"{fleet.CLIENT} is not built",
                None if LINEAGE.exists() else f"{LINEAGE} is not built: -DGS_ENGINE_POSTGRESQL=ON"):
        if why:
            return why
    return None


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run soak cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="of nodes (default 50)")
    parser.add_argument("--failovers", type=int, help="of the engine (default: a fifth of the kills)")
    parser.add_argument("--partitions", type=int, help="(default: a fifth of the kills)")
    parser.add_argument("--pauses", type=int, help="of nodes (default: a fifth of the kills)")
    parser.add_argument("--upgrades", type=int, default=2, help="of all nodes (default 2)")
    parser.add_argument("--devices", type=int, default=1000, help="of gradstream-load (default 1000)")
    parser.add_argument("--clients", type=int, default=300, help="gradstream-client processes (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the faults (default 1)")
    parser.add_argument("--asynchronous", action="store_true", help="one failover of an engine that loses commits")
    parser.add_argument("--judge-times", action="store_true", help="what is late fails the soak")
    arguments = parser.parse_args()
    for name in ("failovers", "partitions", "pauses"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, math.ceil(arguments.kills / 5))
    arguments.clients = 0 if arguments.asynchronous else arguments.clients  # they outlive no engine that goes back
    arguments.retry_ms = (200, 1000) if arguments.devices >= 500 else (50, 200)
    return arguments


def prepare_and_play(arguments):
    """In new namespaces, or on 127.0.0.1; the exit status."""
    if "GS_BUILD_DIR" not in os.environ:  # else a tree that is built
        fleet.build("dev", "gradstream", "gradstream-client", "gradstream-engine", "gradstream-load",
                    "gradstream-engine-lineage")
    why = why_skipped()
    if why:
        print(f"soak: cluster skipped: {why}")
        print("result: skipped=1")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=LINEAGE.parent, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)  # where this is root, PostgreSQL runs as another user
        why = cluster_machines.why_no_namespaces()
        if not why:
            return cluster_machines.isolated([__file__, *sys.argv[1:]], folder)
        print(f"soak: no partitions, and everything on 127.0.0.1: {why}", flush=True)
        arguments.partitions = 0
        return soak(pathlib.Path(folder), arguments)


def main():
    arguments = parse_arguments()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # all processes and folders end as by Ctrl-C
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    try:
        folder = cluster_machines.folder_inside()
        return soak(pathlib.Path(folder), arguments) if folder else prepare_and_play(arguments)
    except (Failure, RuntimeError, OSError) as failure:
        print(f"soak: error: {failure}", file=sys.stderr)
        print("result: error=failed")
    except KeyboardInterrupt:
        print("soak: error: interrupted; all that it started is ended", file=sys.stderr)
        print("result: error=interrupted")
    return 1


if __name__ == "__main__":
    sys.exit(main())
