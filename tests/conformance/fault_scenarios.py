"""What the fault server plays: each function is one scenario, and its first line says what the client has to do.

A scenario raises Fault with the name of what the client did wrong, or Skipped where the client does not announce what
it is about. docs/wire.md says what is right; the sections are named.
"""

import struct
import time

import messages
import wire_reference as wire
from fault_play import Closed, Fault, RETRY, check_window, require
from fault_run import FAR_STEP_SCALES, SAMPLE_COUNT, SCALAR_ERROR_MAX, Run
from messages import VALUES

WINDOW = {"min_ms": 400, "max_ms": 700}
HELD_SECONDS = 1.0
SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def wait(session, cause="WAIT_CAUSE_NOT_CHOSEN", retry=RETRY):
    session.send("wait", cause=VALUES[cause], retry=retry)


def to_task(play, run, session, **more):
    """Answers a Pull by a new task."""
    task = play.new_task(run, **more)
    session.send("task", **task)
    return task


def model_and_task(play, run, **more):
    """A new session, its client given the model and a task."""
    session, _ = play.first_pull(run)
    session.send_pieces("snapshot_chunk", run.snapshot())
    return session, to_task(play, run, session, **more)


def check_exact(play, run, task, data, piece):
    """The update of one local step on the Euclidean space, to the last bit."""
    scalars, before, after = run.path(task, play.samples)
    wanted = wire.encode(task["encoding"], [wire.f32(value) for value in scalars])
    got = wire.decode(task["encoding"], len(scalars), data)
    name = "scalars" if task["encoding"] == wire.F32 else "encoding"
    require(data == wanted, name, "an update has %s ..., and its losses make %s ..." % (
        [f"{value:.7g}" for value in got[:4]], [f"{value:.7g}" for value in scalars[:4]]))
    play.check_losses(piece, before, after)


def one_round(play, run, **more):
    session, task = model_and_task(play, run, **more)
    data, piece, _ = play.update(session, task, run)
    return session, task, data, piece


# ---- What a client says and computes ----


@scenario
def hello(play):
    """says Hello, StatusReport and Pull in this order, each with what it holds (3, 4)"""
    session, pull = play.first_pull(Run(play.draw, "sphere"))
    require(not pull["has_model"] and pull["digest"] == 0, "pull", "the first Pull says a model, and there was none")
    wait(session)
    session.receive("pull", name="pull")


@scenario
def scalars(play):
    """sends the scalars of its losses, by shared and by its own directions, to the last bit (6, 8)"""
    for shared in (True, False):
        run = Run(play.draw, "euclidean", shared=shared)
        session, task, data, piece = one_round(play, run)
        check_exact(play, run, task, data, piece)
        play.acknowledge(session, task, run)
        session.receive("pull", name="pull")
        session.drop()


@scenario
def two_sided(play):
    """sends the scalars of the two-sided estimator (6)"""
    run = Run(play.draw, "euclidean")
    session, _ = play.first_pull(run)
    play.require_bits("estimators", "ESTIMATOR_PROJECTION_TWO_SIDED")
    session.send_pieces("snapshot_chunk", run.snapshot())
    task = to_task(play, run, session, estimator=VALUES["ESTIMATOR_PROJECTION_TWO_SIDED"])
    data, piece, _ = play.update(session, task, run)
    check_exact(play, run, task, data, piece)


@scenario
def minibatch(play):
    """draws the samples of a batch by the shared random stream (8)"""
    run = Run(play.draw, "euclidean")
    session, task, data, piece = one_round(play, run, batch_size=SAMPLE_COUNT // 2)
    check_exact(play, run, task, data, piece)


@scenario
def manifolds(play):
    """sends the scalars of points on the sphere and on Stiefel, within what rounding leaves (6, 10)"""
    for manifold in ("sphere", "stiefel"):
        run = Run(play.draw, manifold)
        session, task, data, piece = one_round(play, run)
        wanted, here = run.scalars(task, play.samples, run.model, 0)
        for j, (got, value) in enumerate(zip(wire.decode(wire.F32, run.m, data), wanted, strict=True)):
            require(abs(got - value) <= SCALAR_ERROR_MAX, "scalars",
                    f"scalar {j} on {manifold} is {got:.7g}, and its losses make {value:.7g}")
        play.check_losses(piece, here, here)
        session.drop()


@scenario
def encodings(play):
    """encodes an update as the task says, bit for bit, in pieces of whole blocks (3, 7)"""
    for name, encoding in (("F32", wire.F32), ("BF16", wire.BF16), ("INT8", wire.INT8)):
        if play.capabilities is not None and not play.capabilities["encodings"] >> encoding & 1:
            continue  # the first round has told the capabilities; each client has F32
        run = Run(play.draw, "euclidean", m=256 if encoding == wire.F32 else 60)
        session, task, data, piece = one_round(play, run, encoding=encoding)
        check_exact(play, run, task, data, piece)
        session.drop()


@scenario
def correction(play):
    """corrects its later local steps by the record that its update went into (11)"""
    run = Run(play.draw, "euclidean")
    session, task, data, _ = one_round(play, run)
    own = run.tensor(task["version"], wire.decode(wire.F32, run.m, data))
    play.acknowledge(session, task, run)
    session.receive("pull", name="pull")
    pieces = run.advance()
    folded = [0.0] * len(own)
    for block in {piece["block_index"]: piece for piece in pieces}:
        values = [value for piece in pieces if piece["block_index"] == block
                  for value in wire.decode(wire.F32, len(piece["values"]) // 4, piece["values"])]
        owner = run.group
        run.group = pieces[-1]["owner"] if block else owner
        folded = [a + b for a, b in zip(folded, run.tensor(task["version"], values), strict=True)]
        run.group = owner
    session.send_pieces("log_chunk", pieces)
    task = to_task(play, run, session, local_step_count=2)
    data, piece, _ = play.update(session, task, run)
    c = [a - b for a, b in zip(folded, own, strict=True)]
    wanted = run.path(task, play.samples, c)[0]
    for q, value in enumerate(wire.decode(wire.F32, len(wanted), data)):
        require(abs(value - wanted[q]) <= SCALAR_ERROR_MAX * max(1, abs(wanted[q])), "correction",
                f"scalar {q} of two steps is {value:.7g}, and a path with the correction has {wanted[q]:.7g}")


@scenario
def records(play):
    """rebuilds each version from its record, in each encoding it announces (9, 10)"""
    for manifold in ("sphere", "stiefel"):
        run = Run(play.draw, manifold)
        session = play.with_model(run)
        for encoding in (wire.F32, wire.BF16, wire.INT8):
            if not play.capabilities["encodings"] >> encoding & 1:
                continue
            for _ in range(4):  # a fused sum does not differ in each of them
                session.send_pieces("log_chunk", run.advance(encoding))
                wait(session)
                play.pull_of(run, session)
        session.drop()


@scenario
def far_records(play):
    """rebuilds versions from records that lead far from Stiefel (10)"""
    run = Run(play.draw, "stiefel")
    session = play.with_model(run)
    for _ in range(4):
        session.send_pieces("log_chunk", run.advance(step_scales=FAR_STEP_SCALES))
        wait(session)
        play.pull_of(run, session)


@scenario
def memory(play):
    """holds a mean beside the model, and rebuilds both from whole numbers (9)"""
    run = Run(play.draw, "stiefel", memory=True)
    session, _ = play.first_pull(run)
    play.require_bits("features", "FEATURE_MEMORY")
    session.send_pieces("snapshot_chunk", run.snapshot())
    wait(session)
    play.pull_of(run, session)
    for _ in range(4):
        session.send_pieces("log_chunk", run.advance())
        wait(session)
        play.pull_of(run, session)


# ---- Digests ----


@scenario
def record_digest(play):
    """drops its model where its digest differs from a record's, and ends the session at a second one (4)"""
    run = Run(play.draw, "sphere")
    session = play.with_model(run)
    pieces = run.advance()
    pieces[-1]["digest"] ^= 1
    session.send_pieces("log_chunk", pieces)
    wait(session)
    pull = session.receive("pull", name="wrong_digest")
    require(not pull["has_model"], "wrong_digest", "the client keeps a model whose digest is not the record's")
    pieces = run.snapshot()
    for piece in pieces:
        piece["digest"] ^= 1
    session.send_pieces("snapshot_chunk", pieces)
    wait(session)
    session.expect_end("wrong_digest", "a second digest that differs")


@scenario
def task_digest(play):
    """trains on no model whose digest is not the task's (4)"""
    run = Run(play.draw, "sphere")
    session = play.with_model(run)
    to_task(play, run, session, digest=run.digest ^ 1)
    message = session.receive("pull", "update_scalars", "task_refused", name="wrong_digest")
    require(message.kind == "pull" and not message["has_model"], "wrong_digest",
            f"the client answers a task of another digest by {message.kind}, not by a Pull without a model")


# ---- Exactly once ----


@scenario
def lost_ack(play):
    """sends the very same bytes again where no Ack has come (6)"""
    run = Run(play.draw, "euclidean", m=256)
    session, task = model_and_task(play, run)
    first = play.update(session, task, run)[2]
    session.drop()
    session = play.greet(run)
    require(session.hello["pending_task_sequence"] == task["task_sequence"], "changed_retry",
            f"Hello says pending_task_sequence {session.hello['pending_task_sequence']}, and {task['task_sequence']} "
            "has no Ack")
    again = play.update(session, task, run)[2]
    require(again == first, "changed_retry", "an update is not sent again as it was")
    play.acknowledge(session, task, run, duplicate=True)
    session.receive("pull", name="pull")


@scenario
def try_later(play):
    """keeps an update that is not judged, and sends the same bytes inside the window (6)"""
    run = Run(play.draw, "euclidean")
    session, task = model_and_task(play, run)
    first = play.update(session, task, run)[2]
    since = time.monotonic()
    play.acknowledge(session, task, run, verdict=VALUES["VERDICT_TRY_LATER"], retry=WINDOW)
    message = session.receive("update_scalars", name="changed_retry")
    check_window(since, message, WINDOW, "ignored_wait")
    require(play.update(session, task, run, message)[2] == first, "changed_retry",
            "an update is not sent again as it was")


@scenario
def task_again(play):
    """does a task that comes again with the same result (5)"""
    run = Run(play.draw, "stiefel")
    session, task, first, _ = one_round(play, run, local_step_count=2)
    play.acknowledge(session, task, run, verdict=VALUES["VERDICT_REFUSED"], reason=VALUES["REASON_STORAGE"])
    session.receive("pull", name="pull")
    session.send("task", **task)
    data, _, _ = play.update(session, task, run)
    require(data == first, "changed_task", "the same task from the same model gives other scalars")


def without_digest(update):
    """An update's pieces but for base_digest: 0 is allowed there after a restart (6)."""
    bodies = [messages.read_body("DeviceMessage", payload)[1] for payload in update[2]]
    return [{name: value for name, value in body.items() if name != "base_digest"} for body in bodies]


@scenario
def restart(play):
    """sends the stored update after a power cut, or says honestly that it has none (4, 5)"""
    run = Run(play.draw, "euclidean")
    session, task = model_and_task(play, run)
    first = play.update(session, task, run)
    play.kill()
    session.drop()
    play.start()
    session = play.greet(run, abandoned=True)
    if not play.has_state:
        require(not session.hello["has_model"] and not session.hello["pending_task_sequence"], "hello",
                "a client without a state folder says that it holds something")
        return
    if session.hello["has_model"]:
        require(session.hello["digest"] == run.digest, "digest", "Hello's digest is not that of the model")
    require(session.hello["pending_task_sequence"] == task["task_sequence"], "changed_retry",
            "the update was sent before it was stored")
    again = play.update(session, task, run)
    require(without_digest(again) == without_digest(first), "changed_retry", "a stored update is not sent as it was")


# ---- Windows ----


@scenario
def wait_window(play):
    """asks again inside the window of a Wait (4)"""
    run = Run(play.draw, "sphere")
    session, _ = play.first_pull(run)
    for _ in range(2):
        since = time.monotonic()
        wait(session, "WAIT_CAUSE_STALLED", WINDOW)
        check_window(since, session.receive("pull", name="pull"), WINDOW, "ignored_wait")


@scenario
def drain(play):
    """closes after Drain, and comes back inside its window (4)"""
    run = Run(play.draw, "euclidean")
    session, task = model_and_task(play, run)
    play.update(session, task, run)
    play.acknowledge(session, task, run, retry={"min_ms": 1500, "max_ms": 1800})
    since = time.monotonic()
    session.send("drain", retry=WINDOW)
    session.expect_end("ignored_drain", "Drain")
    session = play.accept()
    check_window(since, session.receive("hello", name="hello"), WINDOW, "ignored_wait")


@scenario
def refuse(play):
    """closes after Refuse, and stays away for its window (4)"""
    run = Run(play.draw, "sphere")
    session = play.accept()
    play.check_hello(session.receive("hello", name="hello"))
    play.require_run(run)
    since = time.monotonic()
    session.send("refuse", reason=VALUES["REASON_OVERLOADED"], retry=WINDOW)
    session.expect_end("ignored_refuse", "Refuse")
    session = play.accept()
    check_window(since, session.receive("hello", name="hello"), WINDOW, "ignored_wait")
    session.send("welcome", **run.welcome())
    session.receive("pull", name="pull")


@scenario
def hold(play):
    """says nothing but a StatusReport while its Pull is held (4)"""
    run = Run(play.draw, "sphere")
    session, pull = play.first_pull(run)
    play.require_bits("features", "FEATURE_HELD_PULL")
    if not pull["hold_max_ms"]:
        raise Skipped("the client sets no Pull.hold_max_ms")
    session.expect_silence(HELD_SECONDS, "broke_hold", "while its Pull is held")
    session.send_pieces("snapshot_chunk", run.snapshot())
    task = to_task(play, run, session)
    play.update(session, task, run)
    play.acknowledge(session, task, run, hold=True, retry={"min_ms": 8000, "max_ms": 9000})
    try:
        message = session.read(HELD_SECONDS)
    except Closed as closed:
        raise Fault("broke_hold", "the client ends the session after an Ack that holds its Pull") from closed
    if message is not None:
        require(message.kind == "pull", "broke_hold", f"the client sends {message.kind} after an Ack with hold")
    session.send_pieces("log_chunk", run.advance())
    task = to_task(play, run, session)
    play.update(session, task, run)


@scenario
def finished(play):
    """does not come again after the end of a run whose window says never (4)"""
    run = Run(play.draw, "sphere")
    session = play.with_model(run)
    wait(session, "WAIT_CAUSE_FINISHED", {"min_ms": 0, "max_ms": 0})
    session.expect_end("ignored_end", "the run's end")
    try:
        play.accept(seconds=2)
    except Fault as fault:
        if fault.name == "connect":
            return
        raise
    raise Fault("ignored_end", "the client comes again after a window of 0, which means never")


# ---- What does not belong here ----


@scenario
def unknown_field(play):
    """skips fields of a later version (2)"""
    run = Run(play.draw, "euclidean")
    tag = messages.varint
    later = (tag(900 << 3) + tag(7) + tag(901 << 3 | 1) + bytes(8) + tag(902 << 3 | 2) + tag(3) + b"abc"
             + tag(903 << 3 | 5) + bytes(4))

    def send(session, kind, fields):
        number = next(field.number for field in messages.MESSAGES["ServerMessage"] if field.name == kind)
        inner = messages.encode({"welcome": "Welcome", "task": "Task"}[kind], fields) + later
        session.send_bytes(messages.frame(later + tag(number << 3 | 2) + tag(len(inner)) + inner))

    session = play.accept()
    play.check_hello(session.receive("hello", name="hello"))
    play.require_run(run)
    send(session, "welcome", run.welcome())
    session.receive("pull", name="unknown_field")
    session.send_pieces("snapshot_chunk", run.snapshot())
    task = play.new_task(run)
    send(session, "task", task)
    message = session.receive("update_scalars", name="unknown_field")
    data, piece, _ = play.update(session, task, run, message)
    check_exact(play, run, task, data, piece)


def bad(play, run, name, why, send):
    """A client that has run's model ends the session, keeps the model, and comes again."""
    session = play.with_model(run)
    send(session)
    session.expect_end(name, why)
    session = play.greet(run)
    require(session.hello["has_model"] and session.hello["version"] == run.version
            and session.hello["digest"] == run.digest, "lost_model",
            f"the client does not hold version {run.version} any more after {why}")
    session.drop()


@scenario
def unknown_message(play):
    """ends the session at a message without a body that it knows (2)"""
    bad(play, Run(play.draw, "sphere"), "unknown_message", "a message of an unknown kind",
        lambda session: session.send_bytes(messages.frame(messages.varint(15 << 3 | 2) + messages.varint(0))))


@scenario
def bad_frame(play):
    """ends the session at bytes that are no frame (2)"""
    run = Run(play.draw, "sphere")
    for why, data in (("a frame without its magic", b"GX\1\0\0"), ("a frame of length 0", b"GS\0\0"),
                      ("a frame of 997 bytes", b"GS" + struct.pack("<H", 997) + bytes(200))):
        bad(play, run, "bad_frame", why, lambda session, data=data: session.send_bytes(data))


@scenario
def bad_message(play):
    """ends the session at a message that does not decode, or has a value out of bounds (3)"""
    run = Run(play.draw, "sphere")

    def task(**more):
        return lambda session: session.send("task", **play.new_task(run, **more))

    for why, send in (("a message that is cut off", lambda session: session.send_bytes(messages.frame(b"\x32\x7f"))),
                      ("a window that ends before it begins",
                       lambda session: wait(session, retry={"min_ms": 9, "max_ms": 1})),
                      ("a step size that is no number", task(step_size=float("nan"))),
                      ("a solver that nobody knows", task(solver=77)),
                      ("a message out of place", lambda session: session.send("welcome", **run.welcome()))):
        bad(play, run, "bad_message", why, send)


@scenario
def bad_record(play):
    """abandons a record that is too long, out of order or of another version, and keeps its model (9, 12)"""
    run = Run(play.draw, "sphere")

    def record(change):
        def send(session):
            model, version = run.model, run.version
            pieces = run.advance()
            run.model, run.version = model, version
            change(pieces)
            session.send_pieces("log_chunk", pieces)
        return send

    def longer(pieces):
        pieces[1]["values"] += wire.f32_bytes([1.0])

    def of_a_later_version(pieces):
        for piece in pieces:
            piece["version"] += 1

    def of_the_held_version(pieces):
        for piece in pieces:
            piece["version"] -= 1

    def not_finite(pieces):
        pieces[0]["values"] = wire.f32_bytes([float("nan")]) + pieces[0]["values"][4:]

    for why, change in (("a record that is longer than it says", longer),
                        ("a record out of order", lambda pieces: pieces.pop(0)),
                        ("a record of a later version", of_a_later_version),
                        ("a record of the version held", of_the_held_version),
                        ("a record that is not finite", not_finite)):
        bad(play, run, "bad_record", why, record(change))


@scenario
def cut_snapshot(play):
    """holds no half of a snapshot that was cut off or is out of order (12)"""
    run = Run(play.draw, "stiefel")
    session = play.with_model(run)
    held = (run.version, run.digest)
    run.version += 1
    run.move()

    def check(hello):
        is_honest = not hello["has_model"] or (hello["version"], hello["digest"]) == held
        require(is_honest, "cut_snapshot", "Hello says a model of which a part has come")

    session.send_pieces("snapshot_chunk", run.snapshot(16)[:2])
    session.drop()
    session = play.greet(run)
    check(session.hello)
    session.receive("pull", name="pull")
    pieces = run.snapshot(16)
    session.send_pieces("snapshot_chunk", [pieces[0], pieces[2]])
    session.expect_end("cut_snapshot", "a piece out of order")
    session = play.greet(run)
    check(session.hello)
    session.receive("pull", name="pull")
    session.send_pieces("snapshot_chunk", run.snapshot(16))
    wait(session)
    play.pull_of(run, session, "cut_snapshot")


@scenario
def refused_task(play):
    """answers a task that it cannot do by TaskRefused, and goes on (3, 4)"""
    run = Run(play.draw, "euclidean")
    session, task = model_and_task(play, run, problem="no_such")
    for reason in ("REASON_TASK_UNIMPLEMENTED", "REASON_MALFORMED"):
        message = session.receive("task_refused", name="refused_task")
        require(message["task_sequence"] == task["task_sequence"] and message["reason"] == VALUES[reason],
                "refused_task", f"TaskRefused says task {message['task_sequence']} and "
                f"{messages.name_of('Reason', message['reason'])}, not {reason}")
        wait(session)
        session.receive("pull", name="refused_task")
        task = to_task(play, run, session, **({"local_step_count": 0, "steps_min": 0} if reason != "REASON_MALFORMED"
                                              else {}))
    data, piece, _ = play.update(session, task, run)
    check_exact(play, run, task, data, piece)


@scenario
def slow_frame(play):
    """ends the session at a frame that does not get complete (2)"""
    run = Run(play.draw, "sphere")
    bad(play, run, "slow_frame", "half of a frame", lambda session: session.send_bytes(b"GS\x20\0\x32"))


@scenario
def another_run(play):
    """drops everything where the Welcome is of another run (4)"""
    play.with_model(Run(play.draw, "sphere")).drop()
    run = Run(play.draw, "sphere")
    session, pull = play.first_pull(run)
    require(not pull["has_model"], "another_run", "a Pull says the model of another run")
    session.send_pieces("snapshot_chunk", run.snapshot())
    wait(session)
    play.pull_of(run, session)
