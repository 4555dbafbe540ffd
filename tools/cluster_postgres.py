"""A PostgreSQL primary and its standby on two machines, and what a manager does when the primary dies.

The standby becomes the primary, and a new standby is copied from it onto the other machine. All servers run as another
user where this is root, since PostgreSQL refuses root.
"""

import os
import shutil
import signal
import time

import durable_peers
import fleet

PORT = 5432
SECONDS_MAX = 60  # of one wait, on a machine with much else to do
SETTINGS = """
listen_addresses = '*'
unix_socket_directories = ''
max_wal_senders = 8
max_connections = 60
shared_buffers = 32MB
wal_retrieve_retry_interval = 100ms
wal_receiver_timeout = 5s
wal_sender_timeout = 5s
"""
HOSTS = "host all all samenet trust\nhost replication all samenet trust\n"


class Failure(Exception):
    """What does not work, with the last lines of those who know."""


class Pair:
    """is_synchronous: a commit waits for the standby."""

    def __init__(self, network, home, stack, is_synchronous=True):
        self._network, self._home = network, home
        self._is_synchronous = is_synchronous
        self._programs, _ = durable_peers.find_postgresql()
        self._user = durable_peers.unprivileged_user()
        self._servers = {}
        self.primary, self.standby = "db1", "db2"
        stack.callback(self.stop)
        home.mkdir(mode=0o755)
        if self._user is not None:
            os.chown(home, self._user.pw_uid, self._user.pw_gid)
        self._run("db1", *durable_peers.initdb_command(self._programs, home / "db1"), "--no-sync")
        names = "*" if is_synchronous else ""
        with open(home / "db1" / "postgresql.conf", "a", encoding="ascii") as settings:
            settings.write(f"{SETTINGS}synchronous_standby_names = '{names}'\n")
        with open(home / "db1" / "pg_hba.conf", "a", encoding="ascii") as hosts:
            hosts.write(HOSTS)
        self._start("db1")
        self._build_standby()

    @property
    def address(self):
        """Of both, of which libpq takes the one that can be written."""
        both = ["db1", "db2"]
        return (f"host={','.join(self._network.address(name) for name in both)} "
                f"port={','.join(str(self._network.port(name, PORT)) for name in both)} user={durable_peers.ROLE} "
                "dbname=postgres target_session_attrs=read-write sslmode=disable connect_timeout=5")

    def pid(self, name):
        """Of the process that has started all others of this machine's server."""
        return self._servers[name].pid

    def _one(self, name):
        return (f"host={self._network.address(name)} port={self._network.port(name, PORT)} user={durable_peers.ROLE} "
                "dbname=postgres connect_timeout=5")

    def _run(self, name, *command):
        fleet.command(self._network.on(name, durable_peers.as_user(command, self._user)), str(command[0]), SECONDS_MAX)

    def ask(self, statement, name=None):
        """What the primary, or the machine of that name, answers."""
        return fleet.command([self._programs / "psql", "-d", self._one(name or self.primary), "-Atc", statement],
                             statement, SECONDS_MAX).strip()

    def _wait(self, statement, answer, name=None):
        """Each question takes a connection, so that they do not come thick and fast."""
        deadline = time.monotonic() + SECONDS_MAX
        said = None
        while time.monotonic() < deadline:
            try:
                said = self.ask(statement, name)
            except RuntimeError as away:
                said = str(away)
            if said == answer:
                return
        raise Failure(f"{name or self.primary} does not answer {answer} to {statement}, but {said}")

    def _start(self, name):
        self._servers[name] = server = durable_peers.PostgreSql(name, self._network.on(name, durable_peers.as_user(
            [self._programs / "postgres", "-D", self._home / name, "-p", self._network.port(name, PORT)],
            self._user)), cwd=self._home)
        if not server.wait_for_line("ready to accept", SECONDS_MAX):
            raise Failure(f"{name} does not start:\n" + "\n".join(server.lines[-9:]))

    def _build_standby(self):
        """A copy of the primary follows it, and is synchronous where that is wanted."""
        shutil.rmtree(self._home / self.standby, ignore_errors=True)
        self._run(self.standby, self._programs / "pg_basebackup", "-d", self._one(self.primary), "-D",
                  self._home / self.standby, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self._start(self.standby)
        state = "sync" if self._is_synchronous else "async"
        self._wait("SELECT count(*) FROM pg_stat_replication "
                   f"WHERE sync_state = '{state}' AND state = 'streaming'", "1")

    def _kill(self, name):
        """SIGKILL to all of its processes. None of them can start another one meanwhile."""
        server = self._servers[name]
        os.kill(server.pid, signal.SIGSTOP)
        for pid in durable_peers.walk(server.pid):
            os.kill(pid, signal.SIGKILL)
        server.kill()

    def stall_standby(self):
        """The standby takes nothing more from the primary, which does not wait for it."""
        pid = self.ask("SELECT pid FROM pg_stat_wal_receiver", self.standby)
        os.kill(int(pid), signal.SIGSTOP)

    def fail_over(self, is_stalled=False):
        """The primary dies, and the standby takes its place. is_stalled: stall_standby() was called; what the standby
        had not taken is lost then. Returns when there is a standby again: the time of the death, of the promotion and
        of that.
        """
        died = time.monotonic()
        self._kill(self.primary)
        if is_stalled:  # what the kernel still holds for it goes too
            self._kill(self.standby)
            self._start(self.standby)
        if self.ask("SELECT pg_promote(true, 30)", self.standby) != "t":
            raise Failure(f"{self.standby} is not promoted:\n" + "\n".join(self._servers[self.standby].lines[-9:]))
        promoted = time.monotonic()
        self.primary, self.standby = self.standby, self.primary
        self._build_standby()
        return died, promoted, time.monotonic()

    def stop(self):
        for server in self._servers.values():
            server.stop()
