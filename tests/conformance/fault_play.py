"""One scenario between the fault server and a client program: the listener, the program, sessions, and what is checked
of everything that the client sends. Each wait has a limit, and what goes wrong has a name: Fault.
"""

import contextlib
import ctypes
import os
import pathlib
import random
import re
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import time

import fault_run
import messages
import tls_psk
import wire_reference as wire
from messages import VALUES

CONNECT_SECONDS = 20  # to the next session: a back-off after some failures is at most 8 s, by default
MESSAGE_SECONDS = 15  # to the next message: beyond the 10 s for which a device waits itself
CLOSE_SECONDS = 8     # to the end of a session: beyond the 5 s of a frame, below the 10 s of any answer
STOP_SECONDS = 5
RETRY = {"min_ms": 10, "max_ms": 50}
LATE_SECONDS = 2.5    # after a window: of a busy machine
EARLY_SECONDS = 0.02  # before a window: of clocks
NAME = "conformance"
PR_SET_PDEATHSIG = 1  # of Linux's prctl()
VALUE_SIZE = {wire.F32: 4, wire.BF16: 2}
UPDATE_FIELDS = ("task_sequence", "base_version", "steps_done", "direction_count", "encoding", "value_count", "crc32c",
                 "loss_before", "loss_after", "step_time_us", "base_digest")


class Fault(Exception):
    """The client did something wrong. name is short, and the same in every run."""

    def __init__(self, name, what):
        super().__init__(what)
        self.name = name


class Skipped(Exception):
    """The client does not announce what the scenario is about."""


class Closed(Exception):
    """The client has ended the session."""


def require(holds, name, what):
    if not holds:
        raise Fault(name, what)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Message:
    def __init__(self, kind, body, payload):
        self.kind, self.body, self.payload, self.at = kind, body, payload, time.monotonic()

    def __getitem__(self, name):
        return self.body[name]


class Session:
    """One session of the client, after its handshake."""

    def __init__(self, link):
        self._link, self._frames = link, messages.FrameReader()
        self.hello, self.status_count = None, 0

    def read(self, seconds=MESSAGE_SECONDS):
        """The next message but a StatusReport. Raises Closed; None after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                payload = self._frames.next()
                if payload is None:
                    data = self._link.read(deadline)
                    if data is None:
                        return None
                    if not data:
                        raise Closed
                    self._frames.feed(data)
                    continue
                message = Message(*messages.read_body("DeviceMessage", payload), payload)
            except messages.Malformed as error:
                raise Fault("malformed", f"the client sends what is no message: {error}") from error
            except tls_psk.TlsError as error:
                raise Closed from error
            if message.kind != "status_report":
                return message
            self.status_count += 1
            require(self.status_count == 1, "status", "the client sends a second StatusReport in a session")

    def receive(self, *kinds, seconds=MESSAGE_SECONDS, name="silence"):
        """The next message, of one of the kinds."""
        try:
            message = self.read(seconds)
        except Closed as closed:
            raise Fault(name, f"the client ends the session, where {' or '.join(kinds)} is due") from closed
        require(message is not None, name, f"no {' or '.join(kinds)} within {seconds:g} s")
        require(message.kind in kinds, "unexpected_message" if name == "silence" else name,
                f"the client sends {message.kind}, where {' or '.join(kinds)} is due")
        return message

    def expect_end(self, name, why):
        """The client ends the session, and says nothing before."""
        try:
            message = self.read(CLOSE_SECONDS)
        except Closed:
            self.drop()
            return
        said = "nothing" if message is None else message.kind
        raise Fault(name, f"the client has to end the session after {why}; within {CLOSE_SECONDS} s it sends {said}")

    def expect_silence(self, seconds, name, why):
        try:
            message = self.read(seconds)
        except Closed as closed:
            raise Fault(name, f"the client ends the session {why}") from closed
        require(message is None, name, f"the client sends {message and message.kind} {why}")

    def send(self, kind, **fields):
        self.send_bytes(messages.framed("ServerMessage", kind, **fields))

    def send_bytes(self, data):
        with contextlib.suppress(tls_psk.TlsError):  # the client's end shows where something is expected
            self._link.write(data)

    def send_pieces(self, kind, pieces):
        for piece in pieces:
            self.send(kind, **piece)

    def drop(self):
        """As a link that breaks."""
        self._link.close(notify=False)


class Play:
    """The client program in a folder of its own, and the sessions that it opens.

    command is a line for people: {host}, {port}, {server} (HOST:PORT), {identity}, {data} and {state} stand for the
    address, the files and a folder for what survives a restart. All other braces stay as they are. The program and what
    it starts are one process group, which is ended as a whole; the program also ends with this process.
    """

    def __init__(self, command, seed):
        self.command, self.draw = command, random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(prefix="gradstream-conformance-")
        self.home = pathlib.Path(self._folder.name)
        self.key = self.draw.randbytes(tls_psk.KEY_SIZE)
        self.samples = fault_run.samples_of(seed)
        (self.home / "identity").write_text(f"identity = {NAME}\nkey = {self.key.hex()}\n", encoding="ascii")
        (self.home / "identity").chmod(0o600)
        (self.home / "data.gsd").write_bytes(fault_run.shard(self.samples))
        (self.home / "state").mkdir()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._child, self._sessions, self.sequence = None, [], 0
        self.capabilities = None

    @property
    def has_state(self):
        return "{state}" in self.command

    def start(self):
        host, port = self._listener.getsockname()
        known = {"host": host, "port": port, "server": f"{host}:{port}", "identity": self.home / "identity",
                 "data": self.home / "data.gsd", "state": self.home / "state"}
        words = [re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), word)
                 for word in shlex.split(self.command)]
        with open(self.home / "log", "ab") as log:
            self._child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0,
                                           preexec_fn=die_with_parent)

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):  # all of the group have ended
            os.killpg(self._child.pid, number)

    def kill(self):
        self._signal(signal.SIGKILL)
        self._child.wait()

    def check_alive(self):
        status = self._child.poll()
        require(status is None or status == 0, "crash", f"the client has ended with exit status {status}")

    def log_end(self):
        lines = (self.home / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-6:]

    def close(self):
        for session in self._sessions:
            session.drop()
        if self._child is not None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_SECONDS)
            self.kill()
        self._listener.close()
        self._folder.cleanup()

    # ---- Sessions ----

    def accept(self, seconds=CONNECT_SECONDS):
        """The next session, its handshake done."""
        deadline = time.monotonic() + seconds
        while not select.select([self._listener], [], [], 0.1)[0]:
            self.check_alive()
            require(time.monotonic() < deadline, "connect", f"the client does not connect within {seconds:g} s")
        link, _ = self._listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = tls_psk.Tls(link, key_of={NAME: self.key}.get)
        try:
            tls.handshake()
        except tls_psk.TlsError as error:
            raise Fault("tls", f"no TLS 1.3 by the identity's key: {error}") from error
        session = Session(tls)
        self._sessions.append(session)
        return session

    def greet(self, run, session=None, **welcome):
        """A session up to the Welcome. session.hello is what the client said."""
        session = session or self.accept()
        session.hello = session.receive("hello", name="hello")
        self.check_hello(session.hello)
        self.require_run(run)
        session.send("welcome", **run.welcome(**welcome))
        return session

    def check_hello(self, hello):
        require(hello["protocol_version"] == 1, "hello", f"protocol_version is {hello['protocol_version']}, not 1")
        require(hello["has_model"] or (hello["version"] == 0 and hello["digest"] == 0), "hello",
                "a Hello without a model says version or digest of one")
        told = hello["sample_count"]
        count = fault_run.SAMPLE_COUNT
        require(told in (1, count), "hello", f"sample_count is {told}, of {count} samples")
        self.capabilities = hello["capabilities"]
        require(self.capabilities is not None and "kpca" in self.capabilities["problems"], "hello",
                "the capabilities have no problem kpca, which the kit plays")

    def require_bits(self, field, *names):
        for name in names:
            if not self.capabilities[field] >> VALUES[name] & 1:
                raise Skipped(f"the client announces no {name}")

    def require_run(self, run):
        """What each task of a run asks of a client."""
        self.require_bits("manifolds", f"MANIFOLD_{run.manifold.upper()}")
        self.require_bits("solvers", "SOLVER_PROJECTION")
        self.require_bits("estimators", "ESTIMATOR_PROJECTION_ONE_SIDED")

    def first_pull(self, run, **welcome):
        """A new session up to its Pull, of a client that owes nothing."""
        session = self.greet(run, **welcome)
        pull = session.receive("pull", name="pull")
        require(session.status_count == 1, "status", "the client sends no StatusReport after the Welcome")
        return session, pull

    def with_model(self, run):
        """A session whose client has the model of run.version, and waits inside RETRY."""
        session, _ = self.first_pull(run)
        session.send_pieces("snapshot_chunk", run.snapshot())
        session.send("wait", cause=VALUES["WAIT_CAUSE_NOT_CHOSEN"], retry=RETRY)
        self.pull_of(run, session)
        return session

    def pull_of(self, run, session, name="record_arithmetic"):
        """The next Pull, which has to name the model of run.version."""
        pull = session.receive("pull", name="pull")
        require(pull["has_model"], name, f"the client drops the model of version {run.version}: its own digest differs")
        require(pull["version"] == run.version, "pull", f"version {pull['version']} in a Pull, {run.version} was sent")
        require(pull["digest"] == run.digest, "digest",
                f"a Pull says digest {pull['digest']:016x}; that of version {run.version} is {run.digest:016x}")
        return pull

    # ---- Tasks and updates ----

    def new_task(self, run, **more):
        self.sequence += 1
        return run.task(self.sequence, **more)

    def update(self, session, task, run, first=None):
        """All pieces of the update that answers a task: (values' bytes, the last piece, payloads)."""
        pieces = [first or session.receive("update_scalars", name="update")]
        self._check_fields(pieces[0], task, run)
        count, data = task["local_step_count"] * run.m, pieces[0]["values"]
        while len(data) < encoded_size(task["encoding"], count):
            piece = session.receive("update_scalars", name="pieces")
            done = values_in(task["encoding"], data)
            require(piece["first_value"] == done and data and piece["values"], "pieces",
                    f"a piece begins at value {piece['first_value']}, and {done} have come")
            require(done % wire.INT8_BLOCK == 0, "pieces", "a piece but the last holds no multiple of 32 values")
            require(all(piece[name] == pieces[0][name] for name in UPDATE_FIELDS), "pieces",
                    "the pieces of an update differ in their update's fields")
            pieces.append(piece)
            data += piece["values"]
        require(len(data) == encoded_size(task["encoding"], count), "pieces",
                f"an update of {count} values has {len(data)} bytes")
        require(pieces[0]["crc32c"] == wire.crc32c(data), "wrong_crc",
                f"crc32c is {pieces[0]['crc32c']:08x}, and that of the values is {wire.crc32c(data):08x}")
        return data, pieces[-1], [piece.payload for piece in pieces]

    @staticmethod
    def _check_fields(piece, task, run):
        wanted = {"task_sequence": task["task_sequence"], "base_version": task["version"],
                  "steps_done": task["local_step_count"], "direction_count": run.m, "encoding": task["encoding"],
                  "value_count": task["local_step_count"] * run.m, "first_value": 0}
        for name, value in wanted.items():
            require(piece[name] == value, "update", f"{name} of the update is {piece[name]}, not {value}")
        if piece["base_digest"]:
            require(piece["base_digest"] == run.digest ^ run.welcome()["run_nonce"], "update",
                    "base_digest is not the model's digest XOR run_nonce")

    def check_losses(self, piece, before, after):
        hides = self.capabilities["features"] >> VALUES["FEATURE_NO_LOSSES"] & 1
        for name, value in (("loss_before", before), ("loss_after", after)):
            value = 0.0 if hides else value
            require(abs(piece[name] - value) <= 1e-5 + 1e-4 * abs(value), "losses",
                    f"{name} is {piece[name]:.9g}, not {value:.9g}")

    def acknowledge(self, session, task, run, **more):
        session.send("ack", **({"task_sequence": task["task_sequence"], "verdict": VALUES["VERDICT_FOLDED"],
                                "version": run.version + 1, "staleness_weight": 1.0, "retry": RETRY} | more))


def encoded_size(encoding, count):
    if encoding == wire.INT8:
        return count + 2 * -(-count // wire.INT8_BLOCK)
    return count * VALUE_SIZE[encoding]


def values_in(encoding, data):
    if encoding == wire.INT8:
        blocks, rest = divmod(len(data), 2 + wire.INT8_BLOCK)
        return blocks * wire.INT8_BLOCK + max(0, rest - 2)
    return len(data) // VALUE_SIZE[encoding]


def check_window(since, message, window, name):
    """A message has to come inside a window that began at `since`."""
    waited = message.at - since
    least, most = window["min_ms"] / 1000 - EARLY_SECONDS, window["max_ms"] / 1000 + LATE_SECONDS
    require(waited >= least, name, f"the client comes after {waited:.2f} s, and was to wait for {least:.2f} s at least")
    require(waited <= most, name, f"the client comes after {waited:.2f} s, and was to wait for {most:.2f} s at most")
