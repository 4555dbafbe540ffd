#!/usr/bin/python3
"""The program `gradstream` as a user meets it: verbs, exit codes, files, signals, and peers that speak something else.

    commands_test.py PROGRAM CLIENT
"""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATING = ROOT / "docs" / "operating.md"
PROGRAM = None
CLIENT = None
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))  # of 8 rows
OK, USAGE, CONFIG, DATABASE, NETWORK, FROZEN, NOT_FOUND, FILE, ARITHMETIC = 0, 2, 3, 4, 5, 6, 7, 8, 9
FLUSH_TO_ZERO = os.environ.get("GS_FLUSH_TO_ZERO")  # a library that sets that mode when it is preloaded
SECONDS_MAX = 20

CONFIG_TEXT = """
[server]
listen = "127.0.0.1:0"
database = "{home}/test.db"
export_dir = "{home}/models"
[server.limits]
handshake_deadline_ms = 300
close_deadline_ms = 300
[run]
name = "test"
rows = 8
cols = 2
problem = "kpca"
direction_count = 4
device_count = 2
round_count = 3
"""


class Server:
    """`gradstream serve` until its port is known; lines of its log."""

    def __init__(self, *arguments):
        self.child = subprocess.Popen([PROGRAM, "serve", *arguments], stderr=subprocess.PIPE, text=True)
        self.lines = []
        line = self.wait_for("event=listening")
        self.port = int(re.search(r"port=(\d+)", line)[1])

    def wait_for(self, text):
        """Reads the log up to the first line that holds text; a server that hangs is ended by a watchdog."""
        watchdog = threading.Timer(SECONDS_MAX, self.child.kill)
        watchdog.start()
        try:
            return self._read_to(text)
        finally:
            watchdog.cancel()

    def _read_to(self, text):
        for line in self.child.stderr:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"no {text!r} in:\n" + "".join(self.lines))

    def stop(self, number=signal.SIGTERM):
        self.child.send_signal(number)
        self.lines += self.child.stderr.readlines()
        self.child.stderr.close()
        return self.child.wait(SECONDS_MAX)


class Commands(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gradstream_"))
        self.addCleanup(shutil.rmtree, self.home)
        (self.home / "models").mkdir()
        self.config = self.home / "test.toml"
        self.config.write_text(CONFIG_TEXT.format(home=self.home))

    def run_program(self, *arguments, code=OK):
        words = [PROGRAM, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def verb(self, *arguments, code=OK):
        return self.run_program(*arguments, "--config", self.config, code=code)

    def serve(self, *arguments):
        server = Server("--config", str(self.config), *arguments)
        self.addCleanup(lambda: server.child.poll() is None and server.child.kill())
        return server

    def enrol(self):
        """The two devices that the run waits for."""
        for name in ("a", "b"):
            self.verb("device", "add", name, "--out", self.home / f"{name}.id")

    def test_usage(self):
        self.assertIn("exit codes", self.run_program("--help"))
        self.run_program(code=USAGE)
        self.run_program("fly", code=USAGE)
        self.run_program("serve", code=USAGE)
        self.run_program("status", code=USAGE)
        self.verb("device", "add", "two words", "--out", self.home / "x", code=USAGE)
        self.verb("model", "export", "--version", "last", "--out", self.home / "x", code=USAGE)
        self.verb("model", "export", "--format", "xml", "--out", self.home / "x", code=USAGE)

    @unittest.skipUnless(FLUSH_TO_ZERO, "needs the library that the build makes")
    def test_flush_to_zero_is_refused(self):
        done = subprocess.run([PROGRAM, "--help"], env={**os.environ, "LD_PRELOAD": FLUSH_TO_ZERO},
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, ARITHMETIC, done.stderr)
        self.assertIn("-ffast-math", done.stderr)

    def test_check_config(self):
        advised = self.run_program(
            "serve", "--check-config", self.config, "--set", "run.smoothness=2", "--set", "run.solver=gradient_stream",
            "--set", "run.estimator=analytic_gradient", "--set", "run.correction_form=none")
        self.assertIn("# advice: 2 L^2 alpha^2 = ", advised)
        text = self.run_program("serve", "--check-config", self.config, "--set", "run.seed=77")
        self.assertIn("seed = 77", text)
        self.assertIn("[server.limits]", text)
        again = self.home / "again.toml"
        again.write_text(text)
        self.assertEqual(self.verb("serve", "--check-config", "--set", "run.seed=77"), text)
        self.assertEqual(self.run_program("serve", "--check-config", again), text)
        self.assertIn("the nearest known one is seed", self.verb("serve", "--set", "run.sead=1", code=CONFIG))
        conflict = self.verb("serve", "--check-config", "--set", "run.cols=9", code=CONFIG)
        self.assertIn("--set run.cols=9: [run]", conflict)
        self.assertIn("0 to 65535", self.verb("serve", "--set", "server.listen=localhost:1", code=CONFIG))
        self.assertIn("cannot be read", self.run_program("status", "--config", self.home / "none.toml", code=CONFIG))

    def test_devices(self):
        out = self.home / "a.id"
        text = self.verb("device", "add", "a", "--out", out)
        identity = out.read_text()
        key = re.search(r"^key = ([0-9a-f]{64})$", identity, re.M)[1]
        self.assertRegex(identity, r"(?m)^identity = a$")
        self.assertNotIn(key, text)
        self.assertIn(f"database={self.home}/test.db", text)
        self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE((self.home / "test.db").stat().st_mode), 0o600)
        self.assertIn("exists already", self.verb("device", "add", "b", "--out", out, code=FILE))
        self.assertEqual(out.read_text(), identity)
        other = self.home / "other.id"
        self.assertIn("enrolled already", self.verb("device", "add", "a", "--out", other, code=NOT_FOUND))
        self.assertFalse(other.exists())
        self.verb("device", "add", "b", "--out", other)
        self.assertNotIn(key, other.read_text())
        self.verb("device", "revoke", "a")
        self.verb("device", "revoke", "c", code=NOT_FOUND)
        listed = self.verb("device", "list")
        self.assertRegex(listed, r"device=a index=0 state=revoked")
        self.assertRegex(listed, r"device=b index=1 state=enrolled")
        self.assertNotIn(key, listed)

    def test_run_life(self):
        self.verb("status", code=DATABASE)
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertIn("state=\"active\" version=0", self.verb("status"))
        self.assertIn("served=yes", self.verb("status"))
        self.assertIn("served by another server", self.verb("serve", code=DATABASE))
        self.assertIn("is active", self.verb("run", "start", code=NOT_FOUND))
        self.assertIn("stop requested", self.verb("run", "stop"))
        server.wait_for("event=run_stopped")
        self.assertEqual(server.stop(), OK)
        self.assertIn('state="stopped"', self.verb("run", "list"))
        frozen = self.verb("serve", "--set", "run.step_size=0.5", "--set", "run.seed=9", code=FROZEN)
        self.assertIn("run.seed, run.step_size", frozen)
        self.assertIn("run start", frozen)
        self.assertIn("run=2", self.verb("run", "start", "--set", "run.seed=9"))
        self.verb("serve", code=FROZEN)
        again = self.serve("--set", "run.seed=9")
        self.assertEqual(again.stop(signal.SIGINT), OK)

    def test_the_documents_keys_are_all_there_are(self):
        text = OPERATING.read_text()
        self.config.write_text(re.search(r"```toml\n(.*?)```", text, re.S)[1])
        shown = dict(re.findall(r"(?m)^(\w+) = (.+)$", self.verb("serve", "--check-config")))
        tables = "".join(re.findall(r"(?m)^\| key of .*\n(?:\|.*\n)+", text))
        told = dict(re.findall(r"(?m)^\| `(\w+)` \| (.+?) \|", tables))
        self.assertEqual(sorted(told), sorted(shown))
        for key, default in told.items():
            if default != "needed" and key != "update_goal":  # "all" is stored as 0
                self.assertEqual(default, f"`{shown[key]}`", key)
        for key in (key for key, default in told.items() if default == "needed"):
            self.assertRegex(self.config.read_text(), rf"(?m)^{key} = ")

    def test_the_document_tells_every_event(self):
        sources = "".join(path.read_text() for path in sorted((ROOT / "server").glob("*.cc")))
        events = set(re.findall(r'log(?:_event|_cap)?\(\s*(?:LogLevel::k\w+,\s*)?"([a-z_]+)"', sources))
        events |= set(re.findall(r'RunEvent::k\w+\s*\? "(\w+)"', sources)) | {"run_stopped"}
        self.assertGreater(len(events), 30)
        text = OPERATING.read_text()
        told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\| (`.*?) \|", text))))
        self.assertEqual(events - told, set())

    def test_a_server_keeps_to_its_run(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertIn("stop requested", self.verb("run", "stop"))
        server.wait_for("event=run_stopped")
        server.wait_for("event=counters")
        for _ in range(100):  # the line in the log comes before the state in the database
            if 'state="stopped"' in self.verb("run", "list"):
                break
        self.assertIn("served=yes", self.verb("status"))
        begun = self.verb("run", "start")
        self.assertIn(f"stop the server of run 1 (process {server.child.pid})", begun)
        self.assertIn("run=2 served=1", server.wait_for("event=newer_run"))
        self.assertRegex(self.verb("status"), r"run=2 .* served=no")
        self.assertIn('run=2 state="stopped"', self.verb("run", "stop"))
        self.assertEqual(server.stop(), OK)
        self.verb("run", "start")
        again = self.serve()
        self.assertRegex(self.verb("status"), r"run=3 .* served=yes")
        self.assertEqual(again.stop(), OK)

    def wait_for_text(self, text, *verb):
        """The line in the log comes before the journal and the state in the database."""
        for _ in range(200):
            said = self.verb(*verb)
            if text in said:
                return
            time.sleep(0.05)
        self.fail(f"{verb} never says {text}: {said}")

    def wait_for_state(self, state):
        self.wait_for_text(f'state="{state}"', "run", "list")

    def test_pause_and_resume_of_a_served_run(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertIn("only a paused run can be resumed", self.verb("run", "resume", code=NOT_FOUND))
        self.assertIn('run=1 state="pause requested"', self.verb("run", "pause"))
        server.wait_for("event=run_paused version=0")
        self.wait_for_state("paused")
        self.assertIn("only an active run can be paused", self.verb("run", "pause", code=NOT_FOUND))
        self.assertIn("round=0 state=paused", self.verb("status"))
        self.assertIn('run=1 state="resume requested"', self.verb("run", "resume"))
        server.wait_for("event=run_resumed version=0")
        self.wait_for_state("active")
        self.verb("run", "pause")
        server.wait_for("event=run_paused")
        self.verb("run", "stop")
        server.wait_for("event=run_stopped")
        self.wait_for_state("stopped")
        self.assertIn("only a paused run", self.verb("run", "resume", code=NOT_FOUND))
        self.assertIn("is stopped already", self.verb("run", "stop", code=NOT_FOUND))
        self.assertEqual(server.stop(), OK)

    def test_a_kill_in_each_state_of_a_run(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        server.stop(signal.SIGKILL)
        # Nobody serves it: the next server makes it so.
        self.assertIn('run=1 state="paused"', self.verb("run", "pause"))
        server = self.serve()
        server.wait_for("event=run_paused version=0")
        server.stop(signal.SIGKILL)
        # Paused in the journal and in the database.
        server = self.serve()
        server.wait_for("event=run_recovered")
        self.wait_for_text("round=0 state=paused", "status")
        self.verb("run", "resume")
        server.wait_for("event=run_resumed version=0")
        server.stop(signal.SIGKILL)
        # Perhaps before the journal or the database has it: the wish is still there.
        server = self.serve()
        server.wait_for("event=run_recovered")
        self.wait_for_state("active")
        self.verb("run", "pause")
        server.wait_for("event=run_paused version=0")
        server.stop(signal.SIGKILL)
        self.assertRegex(self.verb("run", "list"), 'state="(pause requested|paused)"')
        self.assertIn('run=1 state="active"', self.verb("run", "resume"))
        server = self.serve()
        server.wait_for("event=run_recovered")
        self.wait_for_text("round=0 state=active", "status")
        self.verb("run", "stop")
        server.wait_for("event=run_stopped")
        server.stop(signal.SIGKILL)
        server = self.serve()
        server.wait_for("event=run_recovered")
        self.wait_for_state("stopped")
        self.assertEqual(server.stop(), OK)

    def test_one_active_run_of_several(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertIn("keep it for later with `gradstream run pause`", self.verb("run", "start", code=NOT_FOUND))
        self.verb("run", "pause")
        self.wait_for_state("paused")
        self.assertEqual(server.stop(), OK)
        self.assertIn("run=2", self.verb("run", "start"))
        self.assertIn("run 2 (", self.verb("run", "resume", "--run", "1", code=NOT_FOUND))
        server = self.serve()
        self.assertRegex(self.verb("status"), r"run=2 .* served=yes")
        self.verb("run", "pause")
        server.wait_for("event=run_paused")
        self.wait_for_state("paused")
        # The older one goes on, and is the one to serve.
        self.assertIn('run=1 state="active"', self.verb("run", "resume", "--run", "1"))
        self.assertIn("run=1 served=2", server.wait_for("event=newer_run"))
        self.assertEqual(server.stop(), OK)
        server = self.serve()
        server.wait_for("event=run_resumed version=0")
        self.assertRegex(self.verb("status"), r"run=1 .* served=yes")
        self.assertRegex(self.verb("status", "--run", "2"), r"run=2 .*paused.* served=no")
        self.assertIn('run=2 state="stopped"', self.verb("run", "stop", "--run", "2"))
        self.assertEqual(server.stop(), OK)

    def run_once(self, server, code, shard=SHARD, options=()):
        """A client of device a with --once; its output."""
        (self.home / "a.gsd").write_bytes(shard)
        words = [CLIENT, "--server", f"127.0.0.1:{server.port}", "--identity", self.home / "a.id", "--data",
                 self.home / "a.gsd", "--once", *options]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_once_ends_when_there_is_no_task(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.verb("run", "stop")
        server.wait_for("event=run_stopped")
        over = self.run_once(server, 9)
        self.assertIn("event=stopped version=", over)
        self.assertNotIn("event=finished", over)
        self.assertEqual(server.stop(), OK)
        self.verb("run", "start", "--set", "run.problem=own_loss")
        server = self.serve("--set", "run.problem=own_loss")
        server.wait_for("event=version version=0")
        self.assertIn("event=not_capable", self.run_once(server, 9))
        self.assertIn("lacks=problem:own_loss", server.wait_for("event=device_not_capable"))
        self.assertEqual(server.stop(), OK)

    def test_data_or_memory_that_do_not_fit(self):
        self.enrol()
        server = self.serve("--set", "run.direction_count=100")
        server.wait_for("event=version version=0")
        shard = struct.pack("<4sIIf", b"GSD1", 4, 2, 0.5) + struct.pack("<2f", 0, 0) + bytes(8)
        self.assertIn("dimension=2 rows=8", self.run_once(server, 7, shard))
        self.assertIn("--arena-kib", self.run_once(server, 6, options=("--arena-kib", "1")))
        self.assertIn("reason=wrong_shape", server.wait_for("event=task_refused"))
        self.assertEqual(server.stop(), OK)
        log = "".join(server.lines)
        self.assertNotIn("event=update_refused", log)
        self.assertIn("updates_refused=0", log)

    def test_status_names_the_missing(self):
        self.enrol()
        quick = ("--set", "run.report_deadline_ms=50", "--set", "run.extension_count_max=1")
        server = self.serve(*quick)
        server.wait_for("event=run_stalled")
        text = self.verb("status")
        for _ in range(100):  # the line in the log comes before the record in the database
            text = self.verb("status") if "state=stalled" not in text else text
        self.assertIn("round=0 state=stalled answers=0 wanted=2 missing=a,b", text)
        self.verb("device", "revoke", "a")
        server.wait_for("event=device_revoked")
        self.assertIn("wanted=1 missing=b", self.verb("status"))
        self.assertIn("devices=1 revoked=1 served=yes", self.verb("status"))
        self.assertIn("stop requested", self.verb("run", "stop"))
        server.wait_for("event=run_stopped")
        self.assertEqual(server.stop(), OK)
        self.assertIn("round=0 state=stopped\n", self.verb("status"))
        self.verb("run", "start")
        self.assertIn("round=0 state=waiting answers=0 wanted=1 missing=b", self.verb("status"))
        again = self.serve()
        self.assertEqual(again.stop(), OK)
        self.assertNotIn("event=device_revoked", "".join(again.lines), "old news")

    def test_kill_leaves_a_database_that_serves_again(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        server.stop(signal.SIGKILL)
        again = self.serve()
        again.wait_for("event=version version=0")
        self.assertEqual(again.stop(), OK)

    def test_a_probe_of_the_lock_does_not_stop_a_server_from_starting(self):
        self.enrol()
        with open(self.home / "test.db.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            release = threading.Timer(0.3, fcntl.flock, (lock, fcntl.LOCK_UN))
            release.start()
            server = self.serve()
            release.join()
        self.assertEqual(server.stop(), OK)

    def test_model_export(self):
        self.verb("device", "add", "first", "--out", self.home / "first.id")
        self.verb("run", "start")
        early = self.verb("model", "export", "--out", self.home / "early.npy", code=NOT_FOUND)
        self.assertRegex(early, r"run 1 has no version yet: .* 2 devices are enrolled; 1 are")
        self.verb("run", "stop")
        averaged = ("--set", "run.device_count=3", "--set", "run.average_period=1")
        self.verb("run", "start", *averaged)
        self.enrol()
        server = self.serve(*averaged)
        server.wait_for('average="the mean of 1 versions')
        self.assertEqual(server.stop(), OK)
        npy, csv = self.home / "m.npy", self.home / "m.csv"
        self.assertIn("version=0", self.verb("model", "export", "--out", npy))
        model = npy.read_bytes()
        self.assertEqual(model, (self.home / "models" / "run2_v000000.npy").read_bytes())
        self.assertEqual(model, (self.home / "models" / "run2_v000000_average.npy").read_bytes())
        self.assertIn('average="the mean of 1 versions, one of every 1 from 0 to 0"',
                      self.verb("model", "export", "--average", "--out", npy))
        self.assertEqual(npy.read_bytes(), model, "of one version")
        self.verb("model", "export", "--version", "0", "--out", csv)
        rows = csv.read_text().splitlines()
        self.assertEqual([len(row.split(",")) for row in rows], [2] * 8)
        self.assertIn("the latest is 0", self.verb("model", "export", "--version", "7", "--out", csv, code=NOT_FOUND))
        self.verb("model", "export", "--out", self.home / "none" / "m.npy", code=FILE)
        self.verb("run", "stop")
        self.verb("run", "start")
        self.verb("model", "export", "--out", npy, code=NOT_FOUND)
        self.assertIn("run=2 version=0", self.verb("model", "export", "--run", "2", "--out", npy))
        self.assertIn("run=2 ", self.verb("status", "--run", "2"))
        self.assertIn("run=3 ", self.verb("status"))
        self.assertIn("no run 4", self.verb("status", "--run", "4", code=NOT_FOUND))

    def test_what_cannot_start_says_why(self):
        self.enrol()
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            text = self.verb("serve", "--set", f"server.listen=127.0.0.1:{port}", code=NETWORK)
            self.assertIn(f"127.0.0.1:{port}", text)
            self.assertNotIn("run=", self.verb("run", "list"))
        self.assertIn("mkdir -p", self.verb("serve", "--set", "server.export_dir=/nonexistent/x", code=FILE))
        self.assertIn("model export", self.verb("serve", "--set", "server.first_model=/nonexistent/x", code=FILE))
        self.assertIn("folder", self.verb("serve", "--set", "server.database=/nonexistent/x.db", code=DATABASE))
        (self.home / "text.db").write_text("not a database " * 500)
        text = self.verb("serve", "--set", f"server.database={self.home}/text.db", code=DATABASE)
        self.assertIn("no SQLite database", text)

    def test_a_damaged_database_is_named(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertEqual(server.stop(), OK)
        with sqlite3.connect(self.home / "test.db") as database:
            database.execute("UPDATE journal SET payload = zeroblob(length(payload))")
        database.close()
        text = self.verb("serve", code=DATABASE)
        self.assertRegex(text, r"journal of run 1 is damaged at sequence 1; restore")
        self.verb("status", code=DATABASE)
        content = bytearray((self.home / "test.db").read_bytes())
        content[:100] = os.urandom(100)
        (self.home / "test.db").write_bytes(content)
        self.assertIn("restore the file", self.verb("serve", code=DATABASE))

    def test_peers_that_speak_something_else(self):
        server = self.serve()
        with socket.create_connection(("127.0.0.1", server.port), 10) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(peer.recv(100), b"")
        self.assertIn("GET / HTTP", server.wait_for("event=tls_plain_text_peer"))
        with socket.create_connection(("127.0.0.1", server.port), 10) as peer:
            peer.sendall(b"\x16\x03\x01\x00\xf0\x01\x00")
            self.assertEqual(peer.recv(100), b"")
        self.assertIn("handshake_deadline_ms", server.wait_for("event=deadline"))
        self.assertEqual(server.stop(), OK)
        self.assertIn("plain_text_peers=1", "".join(server.lines))

    @unittest.skipUnless(shutil.which("openssl"), "needs the openssl program")
    def test_openssl_as_a_peer(self):
        self.verb("device", "add", "a", "--out", self.home / "a.id")
        key = re.search(r"^key = (.*)$", (self.home / "a.id").read_text(), re.M)[1]
        server = self.serve()

        def connect(*arguments):
            words = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-quiet", *arguments]
            return subprocess.run(words, input=b"", capture_output=True, timeout=SECONDS_MAX, check=False)

        connect("-tls1_2")
        self.assertIn("remedy=", server.wait_for("event=tls_version"))
        connect("-tls1_3")
        self.assertIn("psk_dhe_ke", server.wait_for("event=tls_no_psk"))
        connect("-tls1_3", "-psk_identity", "nobody", "-psk", key)
        self.assertIn("identity=nobody", server.wait_for("event=tls_unknown_identity"))
        connect("-tls1_3", "-psk_identity", "a", "-psk", "00" * 32)
        self.assertIn("identity=a", server.wait_for("event=tls_wrong_key"))
        connect("-tls1_3", "-psk_identity", "a", "-psk", key, "-ciphersuites", "TLS_AES_128_GCM_SHA256")
        self.assertEqual(server.stop(), OK)
        self.assertIn("sessions_established=1", "".join(server.lines))
        self.assertNotIn(key, "".join(server.lines))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    CLIENT = sys.argv.pop(1)
    unittest.main()
