#!/usr/bin/python3
"""Both programs as processes: what a supervisor, a container or a full disk does to them.

    process_test.py PROGRAM CLIENT

Descriptors that are closed, signals in every state (as process 1 of a container too), a log that nobody reads, files
that cannot be used now. Waits are for a state, with a bound that no working program comes near.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fleet  # noqa: E402

PROGRAM, CLIENT = None, None
SECONDS_MAX = 30  # of every wait
PAUSE_SECONDS = 0.005  # between two looks at a state that tells no news of its own
NETWORK, TEMPORARY = 5, 10  # both are started again
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))  # of 8 rows
CONFIG_TEXT = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/gs.db"
[server.limits]
close_deadline_ms = 300
[run]
name = "test"
rows = {rows}
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = {directions}
local_step_count = 2
retry_min_ms = 1
retry_max_ms = 5
device_count = {devices}
round_count = {rounds}
"""


@functools.cache
def is_permitted(*words):
    """Whether unshare can do that here."""
    return subprocess.run(["unshare", *words, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def needs(*words):
    return unittest.skipUnless(is_permitted(*words), f"process: skipped: unshare {' '.join(words)} is not permitted")


def wait_for(what, state):
    """What state() gives once that is true."""
    end = time.monotonic() + SECONDS_MAX
    while not (found := state()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(PAUSE_SECONDS)
    return found


def open_files(pid):
    """What a process has open now, as the links of its descriptors say; nothing of one that has ended."""
    files = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # it was closed meanwhile
                files.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return files


def child_of(pid, name):
    """The child of this name; None: it is not there yet, or has ended."""
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{child}/comm").read_text() == name + "\n":
                return int(child)
    return None


def is_open_elsewhere(path):
    """Whether another process than this one has the file open."""
    return any(path in open_files(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


class Child:
    """A process, its log in a pipe. as_first: it is process 1 of a container of its own."""

    def __init__(self, words, as_first=False, closed=(), **options):
        def close():
            for file in closed:
                os.close(file)
        self.words = [str(word) for word in words]
        first = ["unshare", "--pid", "--fork", "--kill-child"] if as_first else []
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | options
        self.child = subprocess.Popen(first + self.words, preexec_fn=close, **options)
        self.pid = self.child.pid
        if as_first:
            name = pathlib.Path(self.words[0]).name[:15]
            self.pid = wait_for("the first process of the container", lambda: child_of(self.child.pid, name))
        self.log = ""

    def read_to(self, text):
        """Reads the log up to this text."""
        end = time.monotonic() + SECONDS_MAX
        file = self.child.stderr.fileno()
        while text not in self.log:
            ready, _, _ = select.select([file], [], [], max(0, end - time.monotonic()))
            said = os.read(file, 65536) if ready else b""
            assert said, f"no {text!r} in:\n{self.log}"
            self.log += said.decode(errors="replace")

    def send(self, *numbers):
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self):
        """Its exit status."""
        try:
            _, said = self.child.communicate(timeout=SECONDS_MAX)
            self.log += (said or b"").decode(errors="replace")
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"does not end: {self.words}\n{self.log}") from None
        return self.child.returncode

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.communicate()

    def cpu_ticks(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])


class Process(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gradstream_process_"))
        self.addCleanup(shutil.rmtree, self.home)
        self.port = fleet.free_port()
        (self.home / "data.gsd").write_bytes(SHARD)
        self.configure()

    def configure(self, rows=8, directions=4, devices=1, rounds=3, more=""):
        text = CONFIG_TEXT.format(home=self.home, port=self.port, rows=rows, directions=directions, devices=devices,
                                  rounds=rounds)
        (self.home / "test.toml").write_text(text.replace("[server.limits]", more + "[server.limits]"))

    def start(self, words, **options):
        child = Child(words, **options)
        self.addCleanup(child.kill)
        return child

    def enrol(self, name="a"):
        subprocess.run([PROGRAM, "device", "add", name, "--out", self.home / f"{name}.id", "--config",
                        self.home / "test.toml"], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)

    def server_words(self):
        return [PROGRAM, "serve", "--create", "--config", self.home / "test.toml"]

    def client_words(self, *more, **changes):
        chosen = {"server": f"127.0.0.1:{self.port}", "identity": self.home / "a.id", "data": self.home / "data.gsd",
                  "retry-ms": 20} | changes
        return [CLIENT, *[part for key, value in chosen.items() for part in (f"--{key}", value)], "--no-floors", *more]

    def identity(self):
        path = self.home / "a.id"
        path.write_text("identity = a\nkey = " + "07" * 32 + "\n")
        path.chmod(0o600)

    # ---- Descriptors ----

    def test_every_combination_of_closed_descriptors_trains(self):
        self.enrol()
        database = (self.home / "gs.db").read_bytes()
        for count in (1, 2, 3):
            for closed in itertools.combinations(range(3), count):
                with self.subTest(closed=closed):
                    for path in self.home.glob("gs.db*"):
                        path.unlink()
                    (self.home / "gs.db").write_bytes(database)
                    (self.home / "gs.db").chmod(0o600)
                    server = self.start(self.server_words(), closed=closed, stderr=subprocess.DEVNULL)
                    client = self.start(self.client_words("--until-finished"), closed=closed,
                                        stderr=subprocess.DEVNULL)
                    self.assertEqual(client.end(), 0)
                    self.assertRegex((self.home / "gs.db.lock").read_text(), r"\A\d+ \d+\n\Z")
                    server.send(signal.SIGTERM)
                    self.assertEqual(server.end(), 0)

    # ---- Signals of the client ----

    def end_client(self, client, *numbers):
        """SIGHUP is no end; what follows it is."""
        client.send(signal.SIGHUP, *numbers)
        self.assertEqual(client.end(), 0, client.log)
        self.assertIn("event=ended", client.log)

    def each_end(self, is_slow=False):
        """Keyword arguments of start(), and the signal that is to end it; is_slow: one of two pairs."""
        yield {}, signal.SIGTERM
        if not is_slow:
            yield {}, signal.SIGINT
        if is_permitted("--pid", "--fork"):
            if not is_slow:
                yield {"as_first": True}, signal.SIGTERM
            yield {"as_first": True}, signal.SIGINT
        else:
            print("process: skipped: as process 1: unshare --pid --fork is not permitted")

    @needs("--mount")
    def test_the_client_ends_while_it_looks_a_name_up(self):
        self.identity()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.settimeout(SECONDS_MAX)
            address = f"127.{random.randrange(1, 255)}.{random.randrange(255)}.{random.randrange(1, 255)}"
            try:
                silent.bind((address, 53))
            except OSError as error:
                self.skipTest(f"process: skipped: port 53: {error}")
            resolver = self.home / "resolv.conf"
            resolver.write_text(f"nameserver {address}\noptions timeout:30 attempts:5\n")
            words = self.client_words(server="gradstream-test.example:7433")
            words = ["unshare", "--mount", "sh", "-c",
                     f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh", *words]
            for number in (signal.SIGTERM, signal.SIGINT):
                client = self.start(words)
                silent.recvfrom(4096)
                self.end_client(client, number)
                silent.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while silent.recvfrom(4096):  # its other questions
                        pass
                silent.settimeout(SECONDS_MAX)

    def test_the_client_ends_while_it_connects(self):
        self.identity()
        with socket.socket() as full, contextlib.ExitStack() as stack:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            for _ in range(8):  # more than the queue holds: the kernel answers no further one
                peer = stack.enter_context(socket.socket())
                peer.setblocking(False)
                peer.connect_ex(("127.0.0.1", port))

            def is_connecting(client):
                files = open_files(client.pid)
                rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
                return any(row[2].endswith(f":{port:04X}") and row[3] == "02" and f"socket:[{row[9]}]" in files
                           for row in rows)
            for options, number in self.each_end():
                client = self.start(self.client_words(server=f"127.0.0.1:{port}"), **options)
                wait_for("a connection on its way", functools.partial(is_connecting, client))
                self.end_client(client, number)

    def end_in_handshake(self, words):
        for options, number in self.each_end():
            with socket.create_server(("127.0.0.1", self.port)) as silent:
                silent.settimeout(SECONDS_MAX)
                client = self.start(words, **options)
                peer, _ = silent.accept()
                with peer:
                    peer.settimeout(SECONDS_MAX)
                    self.assertTrue(peer.recv(4096))
                    self.end_client(client, number)

    def test_the_client_ends_in_a_handshake(self):
        self.identity()
        self.end_in_handshake(self.client_words())

    def claim_words(self, **changes):
        path = self.home / "claim"
        path.write_text("identity = ~batch\nkey = " + "07" * 32 + "\nserver = " + "09" * 32 + "\n")
        path.chmod(0o600)
        return self.client_words(claim=path, name="a", **changes)

    def test_the_client_ends_in_a_claim(self):
        self.end_in_handshake(self.claim_words())
        for options, number in self.each_end():
            client = self.start(self.claim_words(**{"retry-ms": 3600000}), **options)
            client.read_to("event=claim_failed")
            self.end_client(client, number)

    def test_the_client_ends_while_it_backs_off(self):
        self.identity()
        for options, number in self.each_end():
            client = self.start(self.client_words(**{"retry-ms": 3600000}), **options)
            client.read_to("event=link_lost")
            self.end_client(client, number)

    def serve(self, **options):
        server = self.start(self.server_words(), **options)
        server.read_to("event=listening")
        return server

    def test_the_client_ends_while_it_waits(self):
        self.configure(devices=2)
        self.enrol()
        server = self.serve()
        for options, number in self.each_end():
            client = self.start(self.client_words(), **options)
            client.read_to("event=connected")
            self.end_client(client, number)
        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 0)

    def test_the_client_ends_in_a_long_step(self):
        rows, count = 784, 40000
        self.configure(rows=rows, directions=1024, rounds=1000)
        (self.home / "data.gsd").write_bytes(struct.pack("<4sIIf", b"GSD1", count, rows, 0.01) + bytes(4 * rows) +
                                             bytes(range(256)) * (rows * count // 256))
        self.enrol()
        self.serve()
        for options, number in self.each_end(is_slow=True):
            client = self.start(self.client_words(), **options)
            client.read_to("event=model")
            ticks = client.cpu_ticks()
            wait_for("a step", lambda seen=ticks, of=client: of.cpu_ticks() > seen + 10)
            self.end_client(client, number)

    def test_the_client_ends_while_it_saves(self):
        self.configure(rounds=1000)
        self.enrol()
        self.serve()
        state = self.home / "state"
        state.mkdir()
        os.mkfifo(state / "a.state.new")  # opening it for writing waits for a reader, as a slow disk does
        for options, number in self.each_end(is_slow=True):
            client = self.start(self.client_words(state=state), **options)
            client.read_to("event=connected")
            wchan = pathlib.Path(f"/proc/{client.pid}/wchan")
            wait_for("a save", lambda path=wchan: path.read_text() in ("wait_for_partner", "fifo_open"))
            self.end_client(client, number)

    # ---- Signals of the server ----

    def test_signals_beside_its_end_do_not_end_the_server_otherwise(self):
        """SIGTERM, then SIGHUP or SIGTERM at every moment until it is gone."""
        self.enrol()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            for options, _ in itertools.islice(self.each_end(), 1, 3):
                server = self.serve(**options)
                client = self.start(self.client_words())
                client.read_to("event=connected")
                server.send(signal.SIGTERM, number)
                while server.child.poll() is None:
                    server.send(number)
                self.assertEqual(server.end(), 0, server.log)
                self.assertIn("event=stopped", server.log)
                client.send(signal.SIGTERM)
                self.assertEqual(client.end(), 0)

    def test_a_signal_before_the_server_serves_counts(self):
        self.enrol()
        for options, number in self.each_end(is_slow=True):
            with open(self.home / "gs.db.lock", "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                server = self.start(self.server_words(), **options)
                wait_for("the server at the lock", lambda: is_open_elsewhere(lock.name))
                server.send(signal.SIGHUP, number)
                self.assertEqual(server.end(), 0, server.log)

    # ---- The reader of the log ----

    def train(self, errors):
        server = self.start(self.server_words(), stderr=errors)
        client = self.start(self.client_words("--until-finished"), stderr=errors)
        self.assertEqual(client.end(), 0)
        return server

    def test_a_lost_log_reader_ends_nothing(self):
        self.enrol()
        reader, writer = os.pipe()
        os.close(reader)
        server = self.train(writer)
        os.close(writer)
        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 0)

    def test_a_log_reader_that_stands_still_stops_nothing_and_learns_what_it_missed(self):
        self.configure(rounds=50)
        self.enrol()
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 64)
        os.set_blocking(writer, True)
        server = self.train(writer)
        # A client that has lost the line of its first session when it dials again.
        with socket.create_server(("127.0.0.1", 0)) as closing:
            closing.settimeout(SECONDS_MAX)
            client = self.start(self.client_words(server=f"127.0.0.1:{closing.getsockname()[1]}"), stderr=writer)
            for _ in range(2):
                closing.accept()[0].close()
        os.close(writer)
        os.set_blocking(reader, False)
        said = b""
        for child in (client, server):
            with contextlib.suppress(BlockingIOError):
                said += os.read(reader, 1 << 20)
            child.send(signal.SIGTERM)
            self.assertEqual(child.end(), 0)
        said += os.read(reader, 1 << 20)
        os.close(reader)
        text = said.decode().lstrip("x")
        self.assertRegex(text, r"(?m)^\S+Z event=log_lines_lost count=[1-9]\d*\n\S+Z event=\w+")
        self.assertRegex(text, r"(?m)^\S+ warning event=log_lines_lost count=[1-9]\d+ remedy=.+\n.+ event=draining")

    # ---- What mends by itself ----

    def run_on(self, mount, folder, words):
        """Exit status and log of a program to which `folder` is another file system."""
        done = subprocess.run(["unshare", "--mount", "sh", "-c", f'{mount} {folder} && exec "$@"', "sh",
                               *map(str, words)], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        return done.returncode, done.stderr

    @needs("--mount")
    def test_a_state_folder_that_cannot_be_written_now(self):
        self.identity()
        disk = self.home / "disk"
        disk.mkdir()
        for state in (disk, disk / "state"):
            code, said = self.run_on("mount -t tmpfs -o ro tmpfs", disk, self.client_words(state=state))
            self.assertEqual(code, TEMPORARY, said)
            self.assertIn("the file system is read-only", said)
            self.assertNotIn("owner", said)
        code, said = self.run_on("mount -t tmpfs -o nr_inodes=1 tmpfs", disk, self.client_words(state=disk / "state"))
        self.assertEqual(code, TEMPORARY, said)
        self.assertIn("the disk is full", said)
        words = self.claim_words(identity=disk / "a.id")
        code, said = self.run_on("mount -t tmpfs -o ro tmpfs", disk, words)
        self.assertEqual(code, TEMPORARY, said)
        self.assertIn("the file system is read-only", said)

    def test_a_file_whose_disk_is_not_there_yet(self):
        self.identity()
        (self.home / "mount").mkdir()
        (self.home / "later").symlink_to(self.home / "none")
        for changes in ({"data": self.home / "none" / "data.gsd"}, {"data": self.home / "mount" / "data.gsd"},
                        {"identity": self.home / "mount" / "a.id"}, {"state": self.home / "later"}):
            client = self.start(self.client_words(**changes))
            self.assertEqual(client.end(), TEMPORARY, client.log)
        for code, changes in ((4, {"data": self.home / "none.gsd"}), (3, {"identity": self.home / "none.id"}),
                              (2, {"state": self.home / "data.gsd"})):
            client = self.start(self.client_words(**changes))
            self.assertEqual(client.end(), code, client.log)

    @needs("--mount")
    def test_a_database_that_cannot_be_written_now(self):
        disk = self.home / "disk"
        disk.mkdir()
        path = self.home / "test.toml"
        path.write_text(path.read_text().replace("gs.db", "disk/gs.db"))
        code, said = self.run_on("mount -t tmpfs -o ro tmpfs", disk, self.server_words())
        self.assertEqual(code, TEMPORARY, said)
        self.assertIn("the file system is read-only", said)
        code, said = self.run_on("mount -t tmpfs -o nr_inodes=1 tmpfs", disk, self.server_words())
        self.assertEqual(code, TEMPORARY, said)
        self.assertIn("the disk is full", said)
        code, said = self.run_on("mount -t tmpfs -o size=16k tmpfs", disk, self.server_words())
        self.assertEqual(code, TEMPORARY, said)
        self.assertRegex(said, "full")
        self.configure(more=f'export_dir = "{disk}"\n')
        code, said = self.run_on("mount -t tmpfs -o ro tmpfs", disk, self.server_words())
        self.assertEqual(code, TEMPORARY, said)
        self.assertIn("the file system is read-only", said)
        # A database that was made before its disk became read-only, as the tools beside the server see it.
        self.configure()
        self.enrol()
        # What is written to a full disk beside it.
        at = ("--config", self.home / "test.toml")
        for words in (("backup", disk / "copy.db"), ("device", "add", "c", "--out", disk / "c.id"),
                      ("claim", "add", "c", "--out", disk / "c.id"), ("device", "rotate", "a", "--out", disk / "c.id")):
            code, said = self.run_on("mount -t tmpfs -o size=4k,nr_inodes=8 tmpfs", disk,
                                     ["sh", "-c", f'head -c 4096 /dev/zero >{disk}/all; exec "$@"', "sh", PROGRAM,
                                      *words, *at])
            self.assertEqual(code, TEMPORARY, said)
            self.assertIn("the disk is full; free space on it", said)
        for end in ("", "-wal", "-shm"):
            (self.home / f"gs.db{end}").unlink(missing_ok=True) if end else (self.home / "gs.db").rename(disk / "gs.db")
        self.configure()
        path.write_text(path.read_text().replace("gs.db", "disk/gs.db"))
        adding = [PROGRAM, "device", "add", "b", "--out", self.home / "b.id", "--config", path]
        for words in (self.server_words(), adding):
            code, said = self.run_on(f"mount --bind {disk} {disk} && mount -o remount,bind,ro", disk, words)
            self.assertEqual(code, TEMPORARY, said)
            self.assertIn("read-only", said)

    @unittest.skipIf(os.environ.get("GS_SANITIZED"), "a sanitizer needs descriptors of its own")
    def test_too_few_descriptors_are_told(self):
        """Each number of descriptors: the server tells what it lacks, or serves."""
        said = ""
        for count in range(4, 24):
            server = self.start(["prlimit", f"--nofile={count}", *self.server_words()])
            server.log += os.read(server.child.stderr.fileno(), 65536).decode()
            server.send(signal.SIGTERM)
            code = server.end()
            said += server.log
            self.assertIn(code, (0, NETWORK, TEMPORARY), f"{count}: {server.log}")
            self.assertNotIn("terminate called", server.log)
        self.assertRegex(said, "LimitNOFILE")
        self.assertNotIn("set server.listen", said)

    def test_the_units_start_again_what_mends_by_itself(self):
        for unit in ("boards/posix/debian/gradstream-client.service", "operations/debian/gradstream.service"):
            text = (ROOT / unit).read_text(encoding="ascii")
            self.assertIn("Restart=on-failure\n", text)
            never = re.search(r"(?m)^RestartPreventExitStatus=(.*)$", text)[1].split()
            self.assertNotIn(str(TEMPORARY), never)


if __name__ == "__main__":
    PROGRAM, CLIENT = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
