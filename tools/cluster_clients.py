"""Real `gradstream-client` processes in a cluster under test, each of which trains on data of its own.

Each keeps its state in a folder, and writes down what it was told of its updates and which values they had, for the
checker of the lineage. At the end all get SIGTERM, whatever they are at. Then each is started once more, until one more
update was answered: that is the one under way, which its state has.
"""

import os
import random
import signal

import cluster_postgres
import fleet

SECONDS_MAX = 60      # of one wait, on a machine with much else to do
LAST_TRIES_MAX = 9    # of a client to have its last answer
ARENA_KIB = 256       # of each client, whose model is a few numbers
AT_ONCE = 50          # that begin before the next ones do: handshakes that wait for each other end by a deadline
SAMPLES = 12          # of each client
RETRY_MS = 200        # of a client whose session failed, at first
EXIT_SESSION = 7      # of --once: the session failed, and the next one may do better
ACCEPTED = ("1", "2")  # verdicts of an update that is in a version: folded, late

Failure = cluster_postgres.Failure


class Clients:
    """home: a folder that is made for them. value_count: numbers of the run's model."""

    def __init__(self, home, stack, count, value_count, seed):
        self._home, self._stack, self._value_count = home, stack, value_count
        self.names = [f"client-{index:05d}" for index in range(count)]
        self._random = random.Random(seed)
        self._server = None
        self._processes = []
        home.mkdir()

    @property
    def records(self):
        """A file of each client that was told of an update."""
        files = [self._home / f"{name}.record" for name in self.names]
        return [file for file in files if file.exists() and file.stat().st_size > 0]

    def enrol(self, config):
        """Into the database of a run that has no engine yet."""
        if self.names:
            (self._home / "names.csv").write_text("".join(f"{name}\n" for name in self.names), encoding="ascii")
            fleet.command([fleet.SERVER, "device", "import", self._home / "names.csv", "--config", config,
                           "--out-folder", self._home / "identities"], "enrolling clients", SECONDS_MAX)

    def start(self, server):
        """server: HOST:PORT. Raises Failure where one does not connect."""
        self._server = server
        for first in range(0, len(self.names), AT_ONCE):
            begun = []
            for name in self.names[first:first + AT_ONCE]:
                self._write_samples(name)
                begun.append(self._begin(name))
            for process in begun:
                if process.wait_for_line("event=connected", SECONDS_MAX) is None:
                    raise Failure(f"{process.name} does not connect:\n" + "\n".join(process.lines[-9:]))
            self._processes += begun

    def _write_samples(self, name):
        rows = ([self._random.uniform(-1, 1) for _ in range(self._value_count + 1)] for _ in range(SAMPLES))
        (self._home / f"{name}.csv").write_text(
            "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in rows), encoding="ascii")
        (self._home / name).mkdir(mode=0o700)

    def _begin(self, name, *more):
        process = fleet.Process(name, [
            fleet.CLIENT, "--server", self._server, "--identity", self._home / "identities" / f"{name}.identity",
            "--data", self._home / f"{name}.csv", "--problem", "least_squares", "--state", self._home / name,
            "--record", self._home / f"{name}.record", "--key-exchange", "psk_ke", "--retry-ms", RETRY_MS,
            "--arena-kib", ARENA_KIB, "--no-floors", *more])
        self._stack.callback(process.kill)
        return process

    def check(self):
        """Raises Failure where one has ended."""
        for process in self._processes:
            if not process.running:
                raise Failure(f"{process.name} has ended:\n" + "\n".join(process.lines[-9:]))

    def end(self):
        """Each ends, and has an answer to its last update. The cluster serves, and its run goes on."""
        self.check()
        for process in self._processes:
            os.kill(process.pid, signal.SIGTERM)
        for process in self._processes:
            if process.wait(SECONDS_MAX) != 0:
                raise Failure(f"{process.name} does not end by SIGTERM:\n" + "\n".join(process.lines[-9:]))
        self._processes = []
        waiting = self.names
        for _ in range(LAST_TRIES_MAX):
            waiting = [name for first in range(0, len(waiting), AT_ONCE)
                       for name in self._take_answers(waiting[first:first + AT_ONCE])]
            if not waiting:
                return
        raise Failure(f"{waiting[0]} has no answer to its last update, as {len(waiting)} clients have none")

    def _take_answers(self, names):
        """Those who have to try it again."""
        begun = [self._begin(name, "--once") for name in names]
        statuses = [process.wait(SECONDS_MAX) for process in begun]
        for process, status in zip(begun, statuses):
            if status not in (0, EXIT_SESSION):
                raise Failure(f"{process.name} ends with {status}:\n" + "\n".join(process.lines[-9:]))
        return [process.name for process, status in zip(begun, statuses) if status == EXIT_SESSION]

    def read_accepted(self):
        """How many updates of each client are in, as it was told; of one that it was told twice, one."""
        counts = dict.fromkeys(self.names, 0)
        for file in self.records:
            acks = map(fleet.fields, file.read_text(encoding="ascii").splitlines())
            counts[file.stem] = len({ack["task_sequence"] for ack in acks if ack["verdict"] in ACCEPTED})
        return counts
