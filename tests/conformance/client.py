"""A gradstream client in Python: the second implementation of the device's end, written from docs/wire.md and the two
files of proto/ alone. It trains k-PCA by losses, on the Euclidean space, the sphere and Stiefel. It needs Python 3.11
and libssl 3, and no other package.

It is made to be read, and to be held against the client in C++ (tests/conformance). It is no product: it is slow, and
what it stores it writes whole for each task.

Last line: event=finished version= digest= folded= late= refused= mismatches= malformed= sessions= ...
Exit status: 0 the run is over; 3 no identity; 5 what answered a claim is not its server; 7 too many failed sessions.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import sys
import time

import client_claim
import client_faults
import client_training as training
import messages
import tls_psk
import wire_reference as wire
from client_replica import MANIFOLDS, Abandoned, DigestDiffers, Replica, run_of
from messages import VALUES

ANSWER_SECONDS, FRAME_SECONDS = 10, 5  # kAnswerDeadlineMs, kFrameDeadlineMs
SESSION_KEEP_SECONDS = 2               # kSessionKeepMs
WINDOW_MS_MAX = 24 * 3600 * 1000
SHIFT_MAX = 3                          # of the back-off: at most 8 t
RECORD_FIELDS = ("journal_sequence", "journal_chain")
ACCEPTED_MAX = 3                       # updates that the memory may mean
BYTES_A_VALUE = {wire.F32: 4, wire.BF16: 2}


def bits(*names):
    return sum(1 << VALUES[name] for name in names)


def piece_counts(encoding, count):
    """How many values each piece of an update holds: a multiple of 32 in every one but the last."""
    if encoding == wire.INT8:
        most = messages.PAYLOAD_SIZE_MAX // (2 + wire.INT8_BLOCK) * wire.INT8_BLOCK
    else:
        most = messages.PAYLOAD_SIZE_MAX // BYTES_A_VALUE[encoding] // 32 * 32
    return [min(most, count - first) for first in range(0, count, most)]


class SessionOver(Exception):
    """The session ended in good order; the window says when to come back. None or up to 0: after a back-off."""

    def __init__(self, window):
        super().__init__()
        self.window = window


class RunOver(Exception):
    """The server will have no more tasks."""


class Client:
    """The device: what it holds over sessions, and one session at a time."""

    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.identity = client_claim.read_identity(options.identity)
        self.samples = training.read_shard(options.data)
        self.replica, self.nonce = None, 0
        self.correction = None        # of CORRECTION_LOCAL
        self.upload = None            # not yet acknowledged
        self.awaited = None           # an accepted update whose record has not come
        self.accepted = []            # the last ones, for CORRECTION_MEMORY
        self.journal = {"parameters_digest": 0, **dict.fromkeys(RECORD_FIELDS, 0)}
        self.counts = dict.fromkeys(("folded", "late", "refused", "duplicates", "mismatches", "malformed", "sessions",
                                     "snapshots", "records", "tasks", "failures"), 0)
        self.failures_in_a_row, self.dropped_acks = 0, options.drop_acks
        # Of one session.
        self.link, self.frames, self.mismatches_here = None, None, 0
        self.client_index, self.group = 0, 0

    def say(self, event, **fields):
        print(f"event={event} " + " ".join(f"{key}={value}" for key, value in fields.items()), flush=True)

    # ---- What survives a restart ----

    @property
    def state_file(self):
        return pathlib.Path(self.options.state) / "state.json" if self.options.state else None

    def save(self):
        """Model, correction, upload and accepted updates, before the upload is sent."""
        if self.state_file is None:
            return
        held = self.replica
        state = {"identity": self.identity, "run": held.run, "version": held.version, "mean": held.mean,
                 "model": None if held.model is None else wire.f32_bytes(held.model).hex(), "nonce": self.nonce,
                 "correction": self.correction, "upload": self.upload, "awaited": self.awaited,
                 "accepted": self.accepted, "journal": self.journal}
        text = json.dumps(state)
        client_claim.write_durably(self.state_file, f"{wire.crc32c(text.encode()):08x}\n{text}")

    def load(self):
        """Whatever is damaged, or of another identity, is as though it were not there."""
        if self.state_file is None or not self.state_file.exists():
            return
        checksum, _, text = self.state_file.read_text(encoding="utf-8").partition("\n")
        if checksum != f"{wire.crc32c(text.encode()):08x}":
            return
        state = json.loads(text)
        if state["identity"] != self.identity:
            return
        self.replica = Replica(state["run"])
        self.replica.version, self.replica.mean = state["version"], state["mean"]
        if state["model"] is not None:
            data = bytes.fromhex(state["model"])
            self.replica.model = wire.decode(wire.F32, len(data) // 4, data)
        for name in ("nonce", "correction", "upload", "awaited", "accepted", "journal"):
            setattr(self, name, state[name])
        self.say("resumed", version=self.replica.version, pending=self.pending)

    @property
    def pending(self):
        return self.upload["task_sequence"] if self.upload else 0

    # ---- Frames ----

    def send(self, kind, **values):
        self.link.write(messages.framed("DeviceMessage", kind, **values))

    def receive(self, seconds=ANSWER_SECONDS):
        """(kind, fields) of the next message. Raises TlsError without one, Malformed."""
        deadline = time.monotonic() + seconds
        while True:
            payload = self.frames.next()
            if payload is not None:
                return self.checked(*messages.read_body("ServerMessage", payload))
            until = min(deadline, time.monotonic() + FRAME_SECONDS) if self.frames.has_begun else deadline
            data = self.link.read(until)
            if not data:
                raise tls_psk.TlsError("no answer" if data is None else "closed")
            self.frames.feed(data)

    def checked(self, kind, body):
        """What is checked before anything else, and what may come at any time."""
        window = body.get("retry")
        if window and window["min_ms"] > window["max_ms"]:
            raise messages.Malformed("a window that ends before it begins")
        if kind == "refuse":
            self.say("refused", reason=messages.name_of("Reason", body["reason"]))
            raise SessionOver(window)
        if kind == "drain":
            raise SessionOver(window)
        return kind, body

    def expect(self, *kinds):
        kind, body = self.receive()
        if kind not in kinds:
            raise messages.Malformed(f"{kind} in place of {' or '.join(kinds)}")
        return kind, body

    # ---- A session ----

    def hello(self):
        held = self.replica
        has_model = held is not None and held.model is not None
        encodings = bits(*(f"ENCODING_{name.upper()}" for name in self.options.encodings), "ENCODING_FIXED")
        features = ["FEATURE_MEMORY", "FEATURE_BATCH_SIZES", "FEATURE_CLIP_SCALE", "FEATURE_JOURNAL_HEAD"]
        if self.options.hold_ms:
            features += ["FEATURE_HELD_PULL", "FEATURE_SINGLE_FLIGHT"]
        capabilities = {
            "manifolds": sum(1 << manifold for manifold in MANIFOLDS), "solvers": bits("SOLVER_PROJECTION"),
            "estimators": 1 << training.ONE_SIDED | 1 << training.TWO_SIDED, "encodings": encodings,
            "arena_size": 1 << 20, "problems": [training.PROBLEM], "features": bits(*features)}
        return {"protocol_version": 1, "firmware_version": "conformance", "capabilities": capabilities,
                "run": self.options.run, "has_model": has_model, "version": held.version if has_model else 0,
                "digest": held.digest if has_model else 0, "pending_task_sequence": self.pending,
                "sample_count": len(self.samples), "board": "python", **self.journal}

    def greet(self):
        self.send("hello", **self.hello())
        _, welcome = self.expect("welcome")
        run = run_of(welcome)
        if welcome["manifold"] not in MANIFOLDS or welcome["stream"] != VALUES["STREAM_KIND_SCALAR"]:
            self.send("task_refused", reason=VALUES["REASON_TASK_UNIMPLEMENTED"])
            raise SessionOver(self.expect("wait")[1]["retry"])
        if self.replica is None or self.replica.run != run:
            self.replica = Replica(run)
            self.correction, self.upload, self.awaited, self.accepted = None, None, None, []
        self.client_index, self.group, self.nonce = welcome["client_index"], welcome["group"], welcome["run_nonce"]
        self.note_journal(welcome)
        self.send("status_report", uptime_s=int(time.monotonic()), sessions=self.counts["sessions"],
                  digest_mismatches=self.counts["mismatches"], snapshots=self.counts["snapshots"],
                  tasks_done=self.counts["tasks"])

    def note_journal(self, message):
        if message["journal_sequence"]:
            self.journal = {name: message[name] for name in RECORD_FIELDS}
            self.journal["parameters_digest"] = self.replica.run["parameters_digest"]

    def session(self):
        """Until it ends by an exception."""
        host, _, port = self.options.server.rpartition(":")
        link = socket.create_connection((host, int(port)), tls_psk.HANDSHAKE_SECONDS)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = tls_psk.Tls(link, identity=self.identity["identity"], key=bytes.fromhex(self.identity["key"]))
        self.frames = messages.FrameReader()
        self.counts["sessions"] += 1
        self.mismatches_here = 0
        self.link.handshake()
        self.greet()
        is_held = False
        while True:
            while self.upload is not None:
                is_held = self.deliver()
            if not is_held:
                self.pull()
            is_held = False
            kind, body = self.synchronise()
            if kind == "wait":
                self.end_of_run(body)
                self.wait(body["retry"])
            elif kind == "task":
                self.do(body)

    def pull(self):
        held = self.replica
        has_model = held.model is not None
        self.send("pull", has_model=has_model, version=held.version, digest=held.digest,
                  hold_max_ms=self.options.hold_ms)

    def synchronise(self):
        """The Task or Wait at the end of an answer."""
        skips, seconds = False, ANSWER_SECONDS + self.options.hold_ms / 1000
        while True:
            kind, body = self.receive(seconds)
            seconds = ANSWER_SECONDS
            if kind not in ("log_chunk", "snapshot_chunk", "task", "wait"):
                raise messages.Malformed(f"{kind} in an answer to Pull")
            is_end = kind in ("task", "wait")
            try:
                if not skips:
                    self.take(kind, body)
            except DigestDiffers as error:
                self.count_mismatch(error)
                skips = True
            if is_end and skips:
                self.pull()
                skips = False
            elif is_end:
                self.failures_in_a_row = 0
                return kind, body

    def take(self, kind, body):
        if kind == "log_chunk" and self.replica.add_chunk(body):
            self.counts["records"] += 1
            if self.awaited and self.awaited["accepted_in"] == self.replica.version:
                if not self.replica.has_memory:
                    self.correction = training.local_correction(self.replica, self.awaited)
                self.awaited = None
        elif kind == "snapshot_chunk" and self.replica.add_piece(body):
            self.counts["snapshots"] += 1
            if self.awaited and self.awaited["accepted_in"] <= self.replica.version:
                self.correction, self.awaited = None, None
        elif kind == "task":
            if self.replica.model is None or body["version"] != self.replica.version:
                raise Abandoned(f"a task of version {body['version']}, and {self.replica.version} is held")
            self.replica.check_digest(body["digest"])

    def count_mismatch(self, error):
        self.say("digest_differs", what=f'"{error}"')
        self.counts["mismatches"] += 1
        self.mismatches_here += 1
        self.replica.drop()
        if self.mismatches_here > 1:
            raise Abandoned("a second digest that differs in a session")

    def end_of_run(self, body):
        """Of a Wait."""
        is_over = body["cause"] in (VALUES["WAIT_CAUSE_FINISHED"], VALUES["WAIT_CAUSE_STOPPED"])
        if is_over and (self.options.until_finished or body["retry"] is None or body["retry"]["max_ms"] == 0):
            raise RunOver
        if is_over:
            raise SessionOver(body["retry"])

    def wait(self, window):
        seconds = self.drawn(window)
        if seconds > SESSION_KEEP_SECONDS:
            raise SessionOver({"min_ms": int(seconds * 1000), "max_ms": int(seconds * 1000)})
        self.listen(seconds)

    def listen(self, seconds):
        """Waits in the open session: a Drain or Refuse may come, and nothing else does."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            payload = self.frames.next()
            data = self.link.read(time.monotonic() + left) if payload is None else None
            if payload is not None:
                self.checked(*messages.read_body("ServerMessage", payload))
                raise messages.Malformed("a message to who waits")
            if data == b"":
                raise tls_psk.TlsError("closed")
            self.frames.feed(data or b"")

    def drawn(self, window):
        window = window or {"min_ms": 0, "max_ms": 0}
        most = min(window["max_ms"], WINDOW_MS_MAX)
        return self.random.uniform(min(window["min_ms"], most), most) / 1000

    # ---- Tasks and uploads ----

    def do(self, task):
        self.note_journal(task)
        reason = training.why_not(task, self.replica.run)
        path = None
        if not reason:
            correction = self.correction
            if self.replica.has_memory:
                correction = training.memory_correction(self.replica, self.accepted, task["memory_stamp"])
            path = training.Path(self.replica, task, self.samples, self.client_index, self.group,
                                 correction if task["use_correction"] else None)
            try:
                path.run_all()
            except ArithmeticError:
                reason = VALUES["REASON_SINGULAR"]
        if reason:
            self.send("task_refused", task_sequence=task["task_sequence"], reason=reason)
            kind, body = self.expect("wait", "task")
            self.do(body) if kind == "task" else self.wait(body["retry"])
            return
        self.counts["tasks"] += 1
        self.upload = self.encoded(path)
        self.save()

    def encoded(self, path):
        """An update, encoded once: its frames, and what corrections need of it."""
        task, count = path.task, len(path.scalars)
        data = wire.encode(task["encoding"], path.scalars)
        base_digest = self.replica.digest ^ self.nonce if self.options.hold_ms else 0
        frames, first, at = [], 0, 0
        for values in piece_counts(task["encoding"], count):
            size = len(wire.encode(task["encoding"], [0.0] * values))
            frames.append(messages.framed(
                "DeviceMessage", "update_scalars", task_sequence=task["task_sequence"], base_version=task["version"],
                steps_done=path.steps_done, direction_count=self.replica.run["direction_count"],
                encoding=task["encoding"], first_value=first, value_count=count, values=data[at : at + size],
                crc32c=wire.crc32c(data), loss_before=path.loss_before, loss_after=path.loss_after,
                step_time_us=max(1, int(path.seconds / path.steps_done * 1e6)), base_digest=base_digest).hex())
            first, at = first + values, at + size
        return {"task_sequence": task["task_sequence"], "base_version": task["version"], "frames": frames,
                "steps_done": path.steps_done, "owner": path.owner,
                "scalars": wire.decode(task["encoding"], count, data)}

    def deliver(self):
        """Sends the upload, takes its Ack. True: the Ack stands for the next Pull."""
        for frame in self.upload["frames"]:
            self.link.write(bytes.fromhex(frame))
        _, ack = self.expect("ack")
        if ack["task_sequence"] != self.upload["task_sequence"] or ack["clip_scale"] > 2**31:
            raise messages.Malformed("an Ack of another update, or with more than all of it")
        if self.dropped_acks > 0 and self.random.random() < 0.5:
            self.dropped_acks -= 1
            raise tls_psk.TlsError("an Ack that is thrown away, as though it had been lost")
        self.failures_in_a_row = 0
        self.judge(ack)
        if ack["hold"] and self.options.hold_ms:
            return self.upload is None
        self.wait(ack["retry"])
        return False

    def judge(self, ack):
        verdict, update = ack["verdict"], self.upload
        self.counts["duplicates"] += ack["duplicate"]
        if verdict == VALUES["VERDICT_TRY_LATER"]:
            return
        self.upload = None
        if verdict in (VALUES["VERDICT_FOLDED"], VALUES["VERDICT_LATE"]):
            self.counts["folded" if verdict == VALUES["VERDICT_FOLDED"] else "late"] += 1
        else:
            self.say("not_folded", verdict=messages.name_of("Verdict", verdict),
                     reason=messages.name_of("Reason", ack["reason"]))
            self.counts["refused"] += 1
        if verdict in (VALUES["VERDICT_FOLDED"], VALUES["VERDICT_LATE"], VALUES["VERDICT_SUPERSEDED"]):
            kept = {name: update[name] for name in ("base_version", "steps_done", "owner", "scalars")}
            kept |= {"clip_scale": ack["clip_scale"], "accepted_in": ack["version"]}
            self.accepted = [*self.accepted, kept][-ACCEPTED_MAX:]
            self.awaited = kept
        if verdict not in (VALUES["VERDICT_FOLDED"], VALUES["VERDICT_LATE"]):
            self.correction, self.awaited = None, None

    # ---- Sessions in a row ----

    def back_off(self):
        t = self.options.retry_ms / 1000
        self.failures_in_a_row += 1
        self.counts["failures"] += 1
        time.sleep(self.random.uniform(t, t * (1 << min(SHIFT_MAX, self.failures_in_a_row))))

    def run(self):
        """The exit status."""
        self.load()
        while self.failures_in_a_row < self.options.failures_max:
            try:
                self.session()
            except SessionOver as over:
                self.finish_session()
                if over.window and over.window["max_ms"] > 0:
                    time.sleep(self.drawn(over.window))
                else:
                    self.back_off()
            except RunOver:
                self.end()
                return 0
            except (messages.Malformed, Abandoned) as error:
                self.counts["malformed"] += 1
                self.say("malformed", what=f'"{error}"')
                self.finish_session()
                self.back_off()
            except (tls_psk.TlsError, OSError) as error:
                self.say("session_failed", what=f'"{error}"')
                self.finish_session()
                self.back_off()
        return 7

    def finish_session(self):
        if self.replica is not None:
            self.replica.cancel()
        if self.link is not None:
            self.link.close()
            self.link = None

    def end(self):
        self.finish_session()
        held = self.replica
        self.say("finished", version=held.version, digest=f"{held.digest:016x}", **self.counts)


def enrol(options):
    """By a claim, once. True when there is an identity."""
    claim, name = client_claim.request_of(options.claim, options.identity, options.name)
    keys = client_claim.read_identity(options.claim)
    host, _, port = options.server.rpartition(":")
    while True:
        link = tls_psk.Tls(socket.create_connection((host, int(port)), tls_psk.HANDSHAKE_SECONDS),
                           identity=keys["identity"], key=bytes.fromhex(keys["key"]))
        link.handshake()
        link.write(messages.frame(messages.encode("ClaimRequest", {
            "name": name, "device_public": claim.device_public, "confirm": claim.confirm(b"device")})))
        reader, payload, deadline = messages.FrameReader(), None, time.monotonic() + ANSWER_SECONDS
        while payload is None and (data := link.read(deadline)):
            reader.feed(data)
            payload = reader.next()
        link.close()
        if payload is None:
            raise tls_psk.TlsError("a claim without an answer")
        answer = messages.decode("ClaimAnswer", payload)
        if client_claim.take_answer(claim, name, options.identity, answer):
            return
        time.sleep((answer["retry"] or {"max_ms": 1000})["max_ms"] / 1000)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, metavar="HOST:PORT")
    parser.add_argument("--identity", required=True, help="file of `gradstream device add`")
    parser.add_argument("--data", required=True, help="a shard, *.gsd of form GSD1 or GSD2")
    parser.add_argument("--claim", help="file of `gradstream claim add`, where there is no identity yet")
    parser.add_argument("--name", help="that the device is to have, with --claim")
    parser.add_argument("--state", help="folder for what survives a restart")
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--encodings", nargs="+", default=["f32", "bf16", "int8"], choices=["f32", "bf16", "int8"])
    parser.add_argument("--hold-ms", type=int, default=0, help="let the server hold a Pull for so long")
    parser.add_argument("--retry-ms", type=int, default=1000, help="wait after a failed session")
    parser.add_argument("--failures-max", type=int, default=20, help="failed sessions in a row before it gives up")
    parser.add_argument("--drop-acks", type=int, default=0, help="throw so many Acks away, as though they were lost")
    parser.add_argument("--seed", type=int, help="of its waits; without it they differ from start to start")
    parser.add_argument("--until-finished", action="store_true", help="end when the run is over")
    parser.add_argument("--plant", choices=sorted(client_faults.FAULTS), help="do one thing wrong, for the kit's tests")
    return parser.parse_args(words)


def main(words=None):
    options = parse(words)
    try:
        if options.claim and not os.path.exists(options.identity):
            enrol(options)
            print(f"event=claimed name={options.name}", flush=True)
        client = Client(options)
    except client_claim.NotProven as error:
        print(f"event=claim_refused reason={error}")
        return 5
    except (OSError, KeyError, PermissionError, tls_psk.TlsError) as error:
        print(f"event=failed what={error!r}")
        return 3
    if options.plant:
        client_faults.FAULTS[options.plant](client)
    return client.run()


if __name__ == "__main__":
    sys.exit(main())
