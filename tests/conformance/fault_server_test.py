"""The fault server against the client in C++, and against the client in Python with faults planted: the first does
nothing wrong, and each fault is named. By default some scenarios and three faults; --all plays everything.
"""

import argparse
import contextlib
import os
import pathlib
import random
import select
import signal
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tools"))
import client_faults  # noqa: E402
import fault_play  # noqa: E402
import fault_run  # noqa: E402
import fault_scenarios  # noqa: E402
import fault_server  # noqa: E402
import fleet  # noqa: E402
from messages import VALUES  # noqa: E402

SOME = ("scalars", "encodings", "records", "record_digest", "lost_ack", "unknown_field", "cut_snapshot")
PLANTED = (client_faults.wrong_crc, client_faults.fused_dot, client_faults.changed_retry)
COMMON = "--server {server} --identity {identity} --data {data} --state {state} --retry-ms 50"
NATIVE = f"{fleet.CLIENT} {COMMON} --no-floors --power mains"
PYTHON = f"{sys.executable} -B {FOLDER / 'client.py'} {COMMON} --hold-ms 5000"


def find(fault):
    """True where the fault server names what is planted, and nothing without it."""
    name, wanted = client_faults.FOUND[fault]
    got, what = fault_server.play(name, f"{PYTHON} --plant {fault.__name__}")
    print(f"conformance: planted {fault.__name__}: fault={got}: {what}", flush=True)
    return got == wanted


# Programs that open a pipe, say so in it and sleep: by a child of their own, and themselves. Other braces stand beside.
SLEEP = 'exec 3> "$0"; echo "$1" >&3; exec sleep 60'
WRAPPER = f"sh -c '({SLEEP}) & wait' {{state}}/pipe {{other}}"
DIRECT = f"sh -c '{SLEEP}' {{state}}/pipe {{other}}"
PIPE_SECONDS = 20
BACK_OFF_MS = 400


def said(pipe):
    """What comes next in the pipe; empty: nobody holds it any more."""
    assert select.select([pipe], [], [], PIPE_SECONDS)[0], "the client program outlives its scenario"
    return os.read(pipe, 100)


def check_ends():
    """A client behind a wrapper ends with its scenario, and a client with a kit that is killed."""
    for command, end in ((WRAPPER, "kill"), (WRAPPER, "close"), (DIRECT, "parent")):
        play = fault_play.Play(command, 1)
        path = play.home / "state" / "pipe"
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        parent = os.fork() if end == "parent" else None
        if parent == 0:
            play.start()
            signal.pause()
        if parent is None:
            play.start()
        assert said(pipe) == b"{other}\n", "the kit changes braces that are not its own"
        if parent is None:
            getattr(play, end)()
        else:
            os.kill(parent, signal.SIGKILL)
            os.waitpid(parent, 0)
        assert said(pipe) == b"", end
        os.close(pipe)
        if end != "close":
            play.close()


def check_less():
    """What a client does not announce is skipped."""
    played = {"scalars": None, "manifolds": "skipped", "records": "skipped", "refuse": "skipped"}
    faults = {name: fault_server.play(name, f"{PYTHON} --plant euclidean_only")[0] for name in played}
    assert faults == played, faults
    asked, new_task = [], fault_play.Play.new_task
    fault_play.Play.new_task = lambda play, run, **more: asked.append(more["encoding"]) or new_task(play, run, **more)
    assert fault_server.play("encodings", f"{PYTHON} --encodings f32") == (None, "")
    assert asked == [VALUES["ENCODING_F32"]], f"a client of f32 alone is asked for the encodings {asked}"
    fault_play.Play.new_task = new_task


def check_stays_away():
    """The client in Python comes back in the window of a run that it cannot hold, and after a Refuse without one."""
    run, least = fault_run.Run(random.Random(1), "sphere"), {"min_ms": BACK_OFF_MS, "max_ms": 2 * BACK_OFF_MS}
    play = fault_play.Play(PYTHON.replace("--retry-ms 50", f"--retry-ms {BACK_OFF_MS}"), 1)
    with contextlib.closing(play):
        play.start()
        session = play.greet(run, manifold=VALUES["MANIFOLD_SPD"])
        session.receive("task_refused")
        since = time.monotonic()
        session.send("wait", cause=VALUES["WAIT_CAUSE_NOT_CHOSEN"], retry=fault_scenarios.WINDOW)
        session.expect_end("ignored_refuse", "a run that it cannot hold")
        session = play.accept()
        fault_play.check_window(since, session.receive("hello"), fault_scenarios.WINDOW, "ignored_wait")
        since = time.monotonic()
        session.send("refuse", reason=VALUES["REASON_OVERLOADED"])
        session.expect_end("ignored_refuse", "Refuse")
        session = play.accept()
        fault_play.check_window(since, session.receive("hello"), least, "ignored_wait")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all scenarios, both clients, all faults")
    options = parser.parse_args()
    check_ends()
    check_less()
    check_stays_away()
    scenarios = list(fault_scenarios.SCENARIOS) if options.all else SOME
    faults = fault_server.play_all(scenarios, NATIVE)
    if options.all:
        faults |= fault_server.play_all(scenarios, PYTHON)
    planted = list(client_faults.FOUND) if options.all else PLANTED
    missed = [fault.__name__ for fault in planted if not find(fault)]
    print(f"result: scenarios={len(scenarios)} faults={','.join(sorted(faults)) or 'none'} planted={len(planted)} "
          f"missed={','.join(missed) or 'none'}")
    return 1 if faults or missed else 0


if __name__ == "__main__":
    sys.exit(main())
