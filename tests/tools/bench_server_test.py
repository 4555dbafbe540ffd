#!/usr/bin/python3
"""The benchmark of the server beside its peers, without a peer: what it parses, the commands that it builds, the goals
that it judges, and a peer that is absent. Of processes, only whose processor time it counts, and that it ends them.
"""

import argparse
import contextlib
import io
import math
import os
import pathlib
import pwd
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import bench_server as bench  # noqa: E402
import durable_peers as peers  # noqa: E402
import fleet  # noqa: E402

HOME = pathlib.Path("/home/of/it")
WAIT_SECONDS_MAX = 30
# A child that works for some time and ends, then one that works when it is told to, and stays: both count for the first
# process.
WORK = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
TREE = f"sh -c '{WORK}'; echo ended; sh -c 'read go; {WORK}; echo works; read wait'; exit 0"

INTERRUPTED = """\
import sys
import bench_server
import fleet


def measure_all(_):
    peer = bench_server.Peer(fleet.Process("mute", ["sleep", "600"]))
    print(peer.pid, flush=True)
    peer.wait_until_ready("ready", 600)


bench_server.measure_all = measure_all
sys.exit(bench_server.main())
"""


def check(is_true, what):
    if not is_true:
        raise AssertionError(what)


def demand_error(part, call, *arguments):
    try:
        call(*arguments)
    except RuntimeError as error:
        check(part in str(error), f"'{error}' does not hold '{part}'")
    else:
        raise AssertionError(f"no error with '{part}'")


def test_stat():
    ticks = peers.TICKS_PER_SECOND
    text = f"7 (a (b) c) S 3 7 7 0 -1 4194560 1 2 3 4 {ticks} {2 * ticks} {4 * ticks} {8 * ticks} 20 0 1 0"
    check(peers.parse_stat(text) == (3, 15), peers.parse_stat(text))


def test_tree():
    tree = fleet.Process("tree", ["sh", "-c", TREE])
    try:
        check(tree.wait_for_line("ended", WAIT_SECONDS_MAX), "the first child does not end")
        ended = peers.processor_seconds(tree.pid)
        check(ended > 0, "the time of a child that has ended is lost")
        tree.type("\n")
        check(tree.wait_for_line("works", WAIT_SECONDS_MAX), "the second child does not work")
        check(peers.processor_seconds(tree.pid) > ended, "the time of a child that lives does not count")
        check(peers.processor_seconds(os.getpid()) > ended, "the time of a child's child does not count")
        tree.type("\n")
        check(tree.wait(WAIT_SECONDS_MAX) == 0, "the tree does not end")
    finally:
        tree.kill()
    check(peers.processor_seconds(tree.pid) == 0, "a process that is gone has a time")


def test_pgbench():
    line = "progress: 3.0 s, 8123.5 tps, lat 7.868 ms stddev 2.150, 0 failed"
    check(peers.parse_progress(line) == (3.0, 8123.5, 0), peers.parse_progress(line))
    check(peers.parse_progress(line.replace(" 0 failed", " 12 failed"))[2] == 12, "failures are not seen")
    check(peers.parse_progress("progress: 1.0 s, 8.0 tps, lat 7.868 ms stddev 2.150") == (1.0, 8, 0), "no failures")
    check(peers.parse_progress("tps = 8123.5 (without initial connection time)") is None, "another line")
    marks = [(1.0, 50.0, 10.0), (2.0, 100.0, 10.5), (3.5, 200.0, 11.0), (4.5, 1e9, 99.0)]
    check(peers.commits_per_cpu_s(marks, 2) == 400.0, peers.commits_per_cpu_s(marks, 2))
    demand_error("pgbench told of 4 s", peers.commits_per_cpu_s, marks, 4)
    demand_error("pgbench told of 0 s", peers.commits_per_cpu_s, [], 2)


def words_of(command):
    return " ".join(str(part) for part in command)


def test_commands():
    programs = pathlib.Path("/programs")
    text = words_of(peers.postgres_command(programs, HOME))
    for part in ("-D /home/of/it/data", "-c fsync=on", "-c synchronous_commit=on", "-c listen_addresses= ",
                 "-c unix_socket_directories=/home/of/it"):
        check(part in text, f"no '{part}' in: {text}")
    text = words_of(peers.pgbench_command(programs, HOME, 7))
    for part in ("--protocol prepared", "--client 64", "--time 7", "--progress 1", "body=" + "Z" * 980 + " postgres"):
        check(part in text, f"no '{part}' in: {text}")
    check("--auth trust" in words_of(peers.initdb_command(programs, HOME)), "initdb asks for a password")
    user = pwd.struct_passwd(("nobody", "x", 77, 78, "", "/", "/bin/false"))
    check(words_of(peers.as_user(["a"], user)) == "setpriv --reuid=77 --regid=78 --clear-groups --pdeathsig QUIT -- a",
          words_of(peers.as_user(["a"], user)))
    check(words_of(peers.as_user(["a"], None)) == "setpriv --pdeathsig QUIT -- a", "the user changes")
    text = words_of(bench.load_command(HOME, 5, 64, "certificate", "--nats"))
    check(text.endswith("--port 5 --identities /home/of/it/identities.csv --devices 64 --exchange certificate --nats "
                        "--certificates /home/of/it"), text)
    check("--mqtt" not in words_of(bench.load_command(HOME, 5, 64, "psk_ke", "")), "the server's own peer")


def test_stream():
    config = peers.NATS_CONFIG.format(port=5, home=HOME)
    for part in ('listen: "127.0.0.1:5"', "sync_interval: always", "handshake_first: true", 'store_dir: "/home/of/it/'):
        check(part in config, f"no '{part}' in: {config}")
    request = peers.stream_request()
    size, body = request.split(b" made ")[-1].split(b"\r\n")[:2]
    check(int(size) == len(body) and b'"storage": "file"' in body, request)
    body = b'{"type":"it","error":{"code":500}}'
    said = b"INFO {}\r\nMSG made 1 %d\r\n%s\r\n" % (len(body), body)
    check(peers.stream_answer(said)["error"]["code"] == 500, "the answer is not read")
    check(all(peers.stream_answer(said[:size]) is None for size in range(len(said) - 2)), "a part is taken for all")


def row(**values):
    return {"handshakes_per_cpu_s": 5000.0, "updates_per_cpu_s": 18000.0, "rss_per_device": 10000.0,
            "heap_per_device": 9000.0, "p99_ms": 5.0, "watched_p99_ms": 6.0, **values}


def judged(figures, words=""):
    """What judge() prints, and whether all goals are met."""
    arguments = argparse.Namespace(io_threads=[1], devices=[100, 10000])
    found = {(bench.name_of(exchange, 1), count): row() for exchange in bench.EXCHANGES for count in arguments.devices}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        is_met = bench.judge(arguments, found, figures, {mode: 5000.0 for mode in bench.EXCHANGES.values()}, words)
    return out.getvalue(), is_met


def test_figures():
    turns = [{"gradstream": (6000.0, 20000.0), "mosquitto": (4000.0, 60000.0), "postgresql": (math.nan, rate),
              "nats": (math.nan, 5000.0)} for rate in (16000.0, 25000.0, 10000.0)]
    figures = bench.figures_of_turns(turns)
    text, is_met = judged(figures)
    check(is_met and "result: devices=10000 rss_bytes_per_idle_device=10000 p99_ack_ms=5.00 psk_dhe_ke_per_cpu_s=6000 "
          "psk_dhe_ke_vs_mosquitto=1.50 updates_per_cpu_s_vs_postgresql=1.25 updates_per_cpu_s_vs_nats_always=4.00 "
          in text, text)
    for name, (what, least) in bench.PEER_GOALS.items():
        text, is_met = judged({**figures, name: least - 0.01})
        check(not is_met and f"goal: {what}: not met\n" in text, text)
        text, is_met = judged({**figures, name: None})
        check(is_met and f"goal: {what}: not judged, the peer is absent\n" in text and f"{name}=absent" in text, text)
    for turn in turns:
        del turn["nats"], turn["mosquitto"]
    figures = bench.figures_of_turns(turns)
    check(figures["updates_per_cpu_s_vs_nats_always"] is None and figures["psk_dhe_ke_vs_mosquitto"] is None, figures)
    figures = bench.figures_of_rows(row(), row(handshakes_per_cpu_s=2500.0))
    text, is_met = judged(figures, "mosquitto=absent")
    check(is_met and "psk_dhe_ke_vs_mosquitto=2.00" in text and "postgresql" not in text, text)
    check(text.endswith("mosquitto=absent\n"), text)
    check(bench.figures_of_rows(row(), None)["psk_dhe_ke_vs_mosquitto"] is None, "a ratio without a broker")


def test_arguments():
    old = sys.argv
    try:
        for words, part in ((["--turns", "2"], "--turns 2 is of --durable-peers"),
                            (["--durable-peers", "--turns", "0"], "--turns 0: at least 1"),
                            (["--devices", "5", "0"], "--devices 0: at least 1"),
                            (["--io-threads", "-1"], "--io-threads -1: at least 1"),
                            (["--restart", "--durable-peers"], "leave --durable-peers out")):
            sys.argv = ["bench_server", *words]
            said = io.StringIO()
            with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
                bench.parse_arguments()
            check(part in said.getvalue(), f"{words}: {said.getvalue()}")
        sys.argv = ["bench_server", "--durable-peers"]
        check(bench.parse_arguments().turns == bench.TURNS, "the number of turns")
    finally:
        sys.argv = old


def test_absent():
    peers.NATS_SERVER, peers.POSTGRESQL_FOLDERS = ROOT / "third_party" / "nowhere" / "nats-server", "/nowhere"
    peers.find_postgresql.cache_clear()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        absent = bench.absent_peers(True)
        beside = bench.absent_peers(False)
    check({"postgresql", "nats"} <= set(absent) and set(beside) <= {"mosquitto"}, (absent, beside))
    for part in ("bench: nats=absent, and nothing is judged by it: third_party/nowhere/nats-server is not there",
                 "Go 1.26", "bench: postgresql=absent", "apt-get install postgresql"):
        check(part in out.getvalue(), f"no '{part}' in: {out.getvalue()}")


def test_end():
    """A peer that never gets ready is ended; so is PostgreSQL's first process, which takes SIGINT for its end."""
    peer = bench.Peer(fleet.Process("mute", ["sleep", "600"]))
    try:
        peer.wait_until_ready("ready", 0.1)
        raise AssertionError("sleep is ready")
    except bench.Failure as failure:
        check("mute does not say 'ready'" in str(failure) and not peer.process.running, failure)
    demand_error("sleeping was not done within 0.1 s", fleet.command, ["sleep", "600"], "sleeping", 0.1)
    server = peers.PostgreSql("server", ["sh", "-c", "trap 'exit 3' INT; echo up; while :; do sleep 0.05; done"])
    check(server.wait_for_line("up", WAIT_SECONDS_MAX) and server.stop() == 3, "SIGINT does not end it")


def test_interrupted():
    """SIGTERM while a peer is started: the benchmark ends what it started, and says so."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "interrupted.py"
        program.write_text(INTERRUPTED, encoding="utf-8")
        with subprocess.Popen([sys.executable, "-B", program, "--devices", "1"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "GS_BUILD_DIR": folder, "PYTHONPATH": str(ROOT / "tools")}) as child:
            pid = int(child.stdout.readline())
            child.terminate()
            said, _ = child.communicate(timeout=WAIT_SECONDS_MAX)
        check(child.returncode == 1 and said.endswith("result: error=interrupted\n"), (child.returncode, said))
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while pathlib.Path(f"/proc/{pid}").exists():
            check(time.monotonic() < deadline, f"process {pid} is still there")
            time.sleep(0.01)


def test_lost():
    """A peer that ends under the benchmark is an error with a result line, and no traceback."""
    peer, measure_all, old = bench.Peer(None), bench.measure_all, sys.argv
    peer.http_port = fleet.free_port()
    out, errors = io.StringIO(), io.StringIO()
    os.environ.setdefault("GS_BUILD_DIR", "/nowhere")  # nothing is built
    try:
        bench.measure_all, sys.argv = lambda _: peer.heap_bytes(), ["bench_server", "--devices", "1"]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = bench.main()
    finally:
        bench.measure_all, sys.argv = measure_all, old
    check(status == 1 and out.getvalue() == "result: error=failed\n" and "bench: error: " in errors.getvalue(),
          (status, out.getvalue(), errors.getvalue()))


def main():
    for test in (test_stat, test_tree, test_pgbench, test_commands, test_stream, test_figures, test_arguments,
                 test_absent, test_end, test_lost, test_interrupted):
        test()
        print(f"{test.__name__}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
