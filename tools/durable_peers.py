"""PostgreSQL and NATS JetStream beside the server, for ./run bench server --durable-peers: both keep what they answer.

Each runs on this machine in a folder of its own, and has a message on its disk before it answers (fsync = on,
sync_interval: always). Messages are as long as an update. They come from CLIENTS clients, each of which waits for its
answer. The processor time of all of a peer's processes counts, that of those that have ended too. Where a peer cannot
be had, find_postgresql() and find_nats() say why.
"""

import functools
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import ssl
import tempfile

import fleet

CLIENTS = 64      # exchanges at once, as the server's have
BODY_BYTES = 980  # of a message; with what is around it, an update on the wire
WARM_SECONDS = 1  # while the clients connect and prepare
NATS_SERVER = fleet.ROOT / "third_party" / "nats" / "nats-server"
POSTGRESQL_FOLDERS = "/usr/lib/postgresql"
POSTGRESQL_PROGRAMS = ("initdb", "postgres", "pgbench", "psql")
UNPRIVILEGED = ("postgres", "nobody")  # one of them runs PostgreSQL where this is root
ROLE = "bench"
CONNECTIONS_BESIDE = 16  # of PostgreSQL: its own, and psql
START_SECONDS_MAX = 60
FAST_STOP_SECONDS, IMMEDIATE_STOP_SECONDS = 20, 5
LATE_SECONDS_MAX = 60  # of pgbench beyond its own time
ANSWER_SECONDS_MAX = 10
WALKS_MAX = 20
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

TABLE = "CREATE TABLE updates (sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, device integer, body bytea)"
INSERT = "INSERT INTO updates (device, body) VALUES (:client_id, :body);\n"
NATS_CONFIG = """\
listen: "127.0.0.1:{port}"
server_name: bench
tls {{
  cert_file: "{home}/server.pem"
  key_file: "{home}/server.key"
  handshake_first: true
  timeout: 30
}}
jetstream {{
  store_dir: "{home}/jetstream"
  sync_interval: always
}}
"""
STREAM = {"name": "updates", "subjects": ["u.>"], "storage": "file", "retention": "limits", "discard": "old",
          "num_replicas": 1, "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0}


# ---- Processor time ----

def parse_stat(text):
    """Of /proc/PID/stat: the parent, and seconds of the process with its children that have ended."""
    values = text.rpartition(")")[2].split()  # a name may hold anything
    return int(values[1]), sum(int(value) for value in values[11:15]) / TICKS_PER_SECOND


def walk(pid):
    """{pid: seconds} of a process and all below it."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found[int(entry)] = parse_stat(pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="utf-8",
                                                                                            errors="replace"))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
    members, new = set(), {pid} & set(found)
    while new:
        members |= new
        new = {child for child, (parent, _) in found.items() if parent in members} - members
    return {member: found[member][1] for member in members}


def processor_seconds(pid):
    """Of a process and all below it, those that have ended included."""
    before = walk(pid)
    for _ in range(WALKS_MAX):
        now = walk(pid)
        if set(now) == set(before):  # else one may have ended between two looks, and be counted twice or not at all
            break
        before = now
    return sum(now.values())


# ---- PostgreSQL ----

def unprivileged_user():
    """Who runs PostgreSQL, which refuses root; None: whoever runs this."""
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError(f"PostgreSQL does not run as root, and there is no user {' or '.join(UNPRIVILEGED)} here: run "
                       "the benchmark as another user")


def as_user(command, user):
    """The command as this user, None for the present one. It gets SIGQUIT when its parent dies: PostgreSQL then ends
    all of its processes. A change of the user clears what was asked of the kernel before, so that setpriv asks again.
    """
    change = [] if user is None else [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *change, "--pdeathsig", "QUIT", "--", *command]


def initdb_command(programs, data):
    return [programs / "initdb", "--pgdata", data, "--username", ROLE, "--auth", "trust", "--no-locale", "--encoding",
            "UTF8"]


def postgres_command(programs, home):
    """It listens on a socket in `home` alone. What makes it durable is named, though it is the default."""
    settings = {"listen_addresses": "", "unix_socket_directories": home, "fsync": "on", "synchronous_commit": "on",
                "max_connections": CLIENTS + CONNECTIONS_BESIDE}
    return [programs / "postgres", "-D", home / "data",
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]


def pgbench_command(programs, home, seconds):
    """Prints a line of progress each second."""
    return [programs / "pgbench", "-h", home, "-U", ROLE, "--no-vacuum", "--protocol", "prepared", "--client", CLIENTS,
            "--jobs", 2, "--time", seconds, "--progress", 1, "--file", home / "insert.sql", "--define",
            f"body={'Z' * BODY_BYTES}", "postgres"]


def parse_progress(line):
    """(seconds since the start, commits a second since the last line, failed) of a line of pgbench, or None."""
    found = re.match(r"progress: ([0-9.]+) s, ([0-9.]+) tps(?:.*, ([0-9]+) failed)?", line)
    return (float(found[1]), float(found[2]), int(found[3] or 0)) if found else None


def commits_per_cpu_s(marks, seconds):
    """Of marks (seconds since the start, commits a second since the last mark, processor seconds so far), after
    WARM_SECONDS and for so many seconds. Raises RuntimeError where they do not reach so far.
    """
    counted = [mark for mark in marks if mark[0] > WARM_SECONDS - 0.5][:seconds + 1]
    if len(counted) < seconds + 1 or counted[-1][2] <= counted[0][2]:
        raise RuntimeError(f"pgbench told of {len(marks)} s, and {WARM_SECONDS + seconds} are needed")
    commits = sum(rate * (now - before) for (before, _, _), (now, rate, _) in zip(counted, counted[1:]))
    return commits / (counted[-1][2] - counted[0][2])


class PostgreSql(fleet.Process):
    """The server's first process; its end is that of all."""

    def stop(self):
        for number, seconds in ((signal.SIGINT, FAST_STOP_SECONDS), (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS)):
            if self.running:
                self._child.send_signal(number)
                self.wait(seconds)
        self.kill()
        return self._child.returncode


def measure_postgresql(programs, seconds):
    """Commits of one INSERT a second of its processor."""
    user = unprivileged_user()
    with tempfile.TemporaryDirectory(prefix="gradstream-bench-") as folder:
        home = pathlib.Path(folder)
        (home / "insert.sql").write_text(INSERT, encoding="ascii")
        if user is not None:
            os.chown(home, user.pw_uid, user.pw_gid)
        fleet.command(as_user(initdb_command(programs, home / "data"), user), "initdb", START_SECONDS_MAX)
        server = PostgreSql("postgresql", as_user(postgres_command(programs, home), user), cwd=home)
        try:
            if not server.wait_for_line("ready to accept connections", START_SECONDS_MAX):
                raise RuntimeError("PostgreSQL does not run:\n" + "\n".join(server.lines[-5:]))
            fleet.command([programs / "psql", "-h", home, "-U", ROLE, "-q", "-c", TABLE, "postgres"], "CREATE TABLE")
            return _drive(programs, home, server.pid, seconds)
        finally:
            server.stop()


def _drive(programs, home, pid, seconds):
    marks = []

    def take(line):
        found = parse_progress(line)
        if found and found[2] == 0:
            marks.append((found[0], found[1], processor_seconds(pid)))

    all_seconds = WARM_SECONDS + seconds + 1
    load = fleet.Process("pgbench", pgbench_command(programs, home, all_seconds), take)
    try:
        if load.wait(all_seconds + LATE_SECONDS_MAX) != 0:
            raise RuntimeError("pgbench failed:\n" + "\n".join(load.lines[-5:]))
        return commits_per_cpu_s(marks, seconds)
    finally:
        load.kill()


# ---- NATS ----

def start_nats(home):
    """(process, port) of a server with a stream for subjects u.>, whose certificate `home` holds."""
    port = fleet.free_port()
    config = home / "nats.conf"
    config.write_text(NATS_CONFIG.format(port=port, home=home), encoding="ascii")
    server = fleet.Process("nats", [NATS_SERVER, "-c", config])
    try:
        if not server.wait_for_line("Server is ready", START_SECONDS_MAX):
            raise RuntimeError("NATS does not run:\n" + "\n".join(server.lines[-5:]))
        create_stream(port, home / "ca.pem")
    except BaseException:
        server.stop()
        raise
    return server, port


def stream_request():
    """What asks a server of NATS for STREAM, with the answer to go to the subject `made`."""
    body = json.dumps(STREAM)
    return ('CONNECT {"verbose":false,"tls_required":true}\r\nSUB made 1\r\n'
            f"PUB $JS.API.STREAM.CREATE.{STREAM['name']} made {len(body)}\r\n{body}\r\n").encode("ascii")


def stream_answer(said):
    """What `said` holds of the answer, parsed; None while it is not whole."""
    found = re.search(rb"\r\nMSG made 1 (?:\S+ )?(\d+)\r\n", said)
    if not found or len(said) < found.end() + int(found[1]):
        return None
    return json.loads(said[found.end():found.end() + int(found[1])])


def create_stream(port, authority):
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX) as plain, \
            context.wrap_socket(plain, server_hostname="server") as link:
        link.sendall(stream_request())
        said, answer = b"", None
        while answer is None:
            more = link.recv(4096)
            said += more
            answer = stream_answer(said)
            if not more and answer is None:
                raise RuntimeError(f"NATS made no stream, and said: {said.decode(errors='replace')}")
    if "error" in answer:
        raise RuntimeError(f"NATS made no stream: {answer['error']}")


# ---- What there is ----

@functools.cache
def find_postgresql():
    """(folder of its programs, None), or (None, why there is none)."""
    versions = [path for path in pathlib.Path(POSTGRESQL_FOLDERS).glob("*/bin") if path.parent.name.isdigit()]
    for folder in sorted(versions, key=lambda path: int(path.parent.name), reverse=True):
        if all(os.access(folder / name, os.X_OK) for name in POSTGRESQL_PROGRAMS):
            return folder, None
    return None, (f"no folder of {POSTGRESQL_FOLDERS} holds {', '.join(POSTGRESQL_PROGRAMS)} (apt-get install "
                  "postgresql)")


def find_nats():
    """(its server, None), or (None, why there is none)."""
    if os.access(NATS_SERVER, os.X_OK):
        return NATS_SERVER, None
    return None, (f"{NATS_SERVER.relative_to(fleet.ROOT)} is not there: set-up builds it where it finds Go 1.26 or "
                  "newer, in PATH or in /usr/local/go")
