#!/usr/bin/python3
"""The program `gradstream` as a user meets it: verbs, exit codes, files, signals, and peers that speak something else.

    commands_test.py PROGRAM CLIENT [PART OF]    of OF parts, which run side by side, the PART-th; from 1
"""

import fcntl
import json
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
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tools")]
import fleet  # noqa: E402
from row_sums import row_crc  # noqa: E402

HOW_TO = ROOT / "docs" / "how-to"
REFERENCE = ROOT / "docs" / "reference"
COUNTER_HEADERS = ("link/shell_counters.h", "watch/watch.h")
PROMTOOL = ROOT / "third_party" / "prometheus" / "promtool"
PROGRAM = None
CLIENT = None
PART, PARTS = 0, 1
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))  # of 8 rows
OK, USAGE, CONFIG, DATABASE, NETWORK, FROZEN, NOT_FOUND, FILE, ARITHMETIC, TEMPORARY = 0, 2, 3, 4, 5, 6, 7, 8, 9, 10
FLUSH_TO_ZERO = os.environ.get("GS_FLUSH_TO_ZERO")  # a library that sets that mode when it is preloaded
PAUSE_SECONDS = 0.05  # between two questions
SECONDS_MAX = 60  # of one wait; a loaded machine under a sanitizer takes 20 for some of them

CONFIG_TEXT = """
[server]
listen = "127.0.0.1:0"
database = "{home}/test.db"
export_dir = "{home}/models"
[server.limits]
close_deadline_ms = 300
[run]
name = "test"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = 4
device_count = 2
round_count = 3
"""


class Server:
    """`gradstream serve` until its port is known; lines of its log."""

    def __init__(self, *arguments, prefix=()):
        self.child = subprocess.Popen([*prefix, PROGRAM, "serve", "--create", *arguments], stderr=subprocess.PIPE,
                                      text=True)
        self.lines = []
        self.listening = self.wait_for("event=listening")
        self.port = int(re.search(r"port=(\d+)", self.listening)[1])

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
        """Its exit status; a server that does not end is killed after SECONDS_MAX, and has that status."""
        watchdog = threading.Timer(SECONDS_MAX, self.child.kill)
        watchdog.start()
        self.child.send_signal(number)
        self.lines += self.child.stderr.readlines()
        watchdog.cancel()
        self.child.stderr.close()
        return self.child.wait(SECONDS_MAX)


# Run with two threads for sessions: signals, sessions that end, keys and the port for monitors cross from one thread to
# another there. (server_test and listener_test run both ways.)
THREADED = ("test_a_server_goes_over_to_the_next_run", "test_hangup_reloads_devices_and_log_level",
            "test_a_service_manager_hears_that_the_server_lives",
            "test_a_disabled_device_loses_its_live_session_and_comes_back",
            "test_a_claim_becomes_an_identity_of_its_own", "test_certificates_and_keys_train_one_model",
            "test_kill_leaves_a_database_that_serves_again")


def sign_runs(database):
    """After an edit that a release could have made: the rows fit their checksums again."""
    columns = "id,name,parameters,source,digest,state,created_ms,run_nonce"
    for row in database.execute(f"SELECT {columns} FROM runs").fetchall():
        database.execute("UPDATE runs SET crc32c = ? WHERE id = ?", (row_crc(row), row[0]))


def until(ask, holds):
    """What is answered once that holds, or after SECONDS_MAX. A server publishes its state once a second."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds(said := ask()) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return said


class Commands(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gradstream_"))
        self.addCleanup(shutil.rmtree, self.home)
        (self.home / "models").mkdir()
        self.config = self.home / "test.toml"
        text = CONFIG_TEXT.format(home=self.home)
        if self._testMethodName in THREADED:
            text = text.replace("[server.limits]\n", "[server.limits]\nio_threads = 2\n")
        self.config.write_text(text)

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

    def test_a_run_of_an_earlier_release_keeps_the_defaults_of_its_time(self):
        """The run has the values that a configuration without these keys had then, and they are no difference now."""
        self.verb("run", "start")
        text = self.config.read_text()
        for line in ('centre = "none"\n', 'scale = "none"\n', "step_size = 0.1\n"):
            self.assertIn(line, text)
            text = text.replace(line, "")
        self.config.write_text(text)
        self.assertIn("# default for problem kpca", self.verb("serve", "--print-config"))
        self.verb("serve", "--check-config")
        self.assertIn("differs in: run.scale;", self.verb("serve", "--check-config", "--set", "run.scale=range",
                                                          code=FROZEN))
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertEqual(server.stop(), OK)
        self.assertIn("differs in: run.centre;", self.verb("serve", "--set", "run.centre=federated", code=FROZEN))

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

    def test_a_verb_that_is_none_is_named(self):
        for words, named in (
                (("statsu",), "gradstream: unknown verb statsu; the nearest known one is status"),
                (("create",), "gradstream: unknown verb create; known: "),
                (("--config", "c.toml", "serve"), "gradstream: --config stands before the verb; options stand behind"),
                (("device", "ad", "x"), "gradstream device: unknown verb ad; the nearest known one is add"),
                (("device", "--al"), "gradstream device: unknown option --al"),
                (("device",), "A subcommand is required")):
            self.assertIn(named, self.run_program(*words, code=USAGE))

    def test_output_that_nobody_gets_is_an_error(self):
        self.enrol()
        self.verb("run", "start")
        config = ("--config", self.config)
        verbs = [("status", *config), ("status", "--format", "json", *config), ("device", "list", *config),
                 ("run", "list", *config), ("run", "keys"), ("run", "keys", "--markdown"),
                 ("explain",), ("explain", "--markdown"),
                 ("serve", "--check-config", *config), ("serve", "--print-config", *config),
                 ("doctor", "127.0.0.1:1"), ("--help",), ("serve", "--help"), ("--version",),
                 ("device", "add", "c", "--out", self.home / "c.id", *config)]
        for words in verbs:
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PROGRAM, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=SECONDS_MAX, check=False)
            self.assertEqual(done.returncode, NETWORK if words[0] == "doctor" else TEMPORARY, f"{words}: {done.stderr}")
            said = [] if words[0] == "doctor" else [
                "gradstream: error: standard output cannot be written: the disk is full; free space on it; the command "
                "has done its work, and its output is incomplete"]
            self.assertEqual(done.stderr.splitlines(), said, words)
        self.assertIn("device=c", self.verb("device", "list"), "the sentence says the truth")
        closed = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', PROGRAM, "status", *map(str, config)],
                                capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(closed.returncode, FILE, closed.stderr)
        self.assertIn("standard output cannot be written: it is closed", closed.stderr)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([CLIENT, "--version"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, TEMPORARY, done.stderr)
        self.assertIn("standard output cannot be written", done.stderr)

    def test_no_run_is_begun_whose_number_cannot_be_told(self):
        self.enrol()
        lock = self.home / "test.db.lock"
        lock.unlink(missing_ok=True)
        lock.symlink_to(lock)
        said = self.verb("run", "start", code=DATABASE)
        self.assertIn(f"cannot read {lock}: Too many levels of symbolic links; check its permissions", said)
        lock.unlink()
        self.assertEqual(self.verb("run", "list"), "")
        self.assertIn("run=1 ", self.verb("run", "start"))

    def test_what_is_not_printable_reaches_no_terminal(self):
        escape, shown = "\x1b[31mx\u009b1m", "\\x1b[31mx\\xc2\\x9b1m"
        for words, code in ((("device", "add", escape, "--out", self.home / "x"), USAGE),
                            (("claim", "add", escape, "--out", self.home / "x"), USAGE),
                            (("device", "add", "x", "--out", f"{self.home}/{escape}/x"), FILE),
                            (("device", "enable", escape), NOT_FOUND), (("claim", "end", escape), NOT_FOUND),
                            (("device", "import", escape), FILE), (("restore", escape), DATABASE),
                            (("model", "export", "--out", "m", "--version", escape), USAGE),
                            (("run", "export", "--out", escape), USAGE), (("status", escape), USAGE),
                            (("status", "--set", escape), CONFIG), (("status", "--run", escape), USAGE)):
            if words[1] == "enable":
                self.verb("device", "add", "x", "--out", self.home / "y")
            said = self.verb(*words, code=code)
            self.assertNotIn("\x1b", said, words)
            self.assertNotIn("\u009b", said, words)
            self.assertIn(shown, said, words)
        said = self.run_program(escape, code=USAGE)
        self.assertIn("unknown verb " + shown, said)
        self.assertIn(shown, self.run_program("doctor", escape, code=USAGE))
        self.assertIn(shown, self.run_program("status", "--config", escape, code=CONFIG))
        said = self.verb("device", "add", escape, "--out", self.home / "x", code=USAGE)
        self.assertIn("expected 1 to 56 printable ASCII characters", said)

    def test_what_is_wrong_has_the_remedy_that_helps(self):
        self.enrol()
        plain = self.home / "plain"
        plain.write_text("")
        for words, code, text in (
                (("device", "add", "x", "--out", ""), USAGE, "--out '': expected the path of the file to write"),
                (("device", "rotate", "a", "--out", ""), USAGE, "--out '': expected"),
                (("claim", "add", "x", "--out", ""), USAGE, "--out '': expected"),
                (("model", "export", "--out", ""), USAGE, "--out '': expected"),
                (("run", "export", "--out", ""), USAGE, "--out '': expected"),
                (("backup", ""), USAGE, "backup '': expected"), (("restore", ""), USAGE, "restore '': expected"),
                (("device", "import", ""), USAGE, "device import '': expected"),
                (("device", "add", "x", "--out", self.home), USAGE, "this is a folder; name a file in it"),
                (("backup", self.home), USAGE, "this is a folder; name a file in it"),
                (("claim", "add", "x", "--window-s", "0", "--out", self.home / "x"), USAGE,
                 "--window-s 0: expected 1 to 4294967295 s"),
                (("serve", "--set", f"server.export_dir={plain}"), FILE, "is no folder; set server.export_dir to one"),
                (("serve", "--set", f"server.export_dir={plain}/x"), FILE,
                 "Not a directory; correct server.export_dir"),
                (("serve", "--set", f"server.database={plain}/x.db"), DATABASE, "is no folder; set server.database")):
            said = self.verb(*words, code=code)
            self.assertIn(text, said, words)
            self.assertNotIn("mkdir", said, words)
            self.assertFalse((self.home / "x").exists(), words)
        self.assertIn("count_max=1", self.verb("claim", "add", "x", "--window-s", "1", "--out", self.home / "x"))

    def test_what_stands_in_conf_d(self):
        folder = self.home / "conf.d"
        folder.mkdir()
        (folder / "run.conf").write_text("[run]\nseed = 7\n")
        (folder / ".run.toml.swp").write_text("")
        said = self.verb("serve", "--check-config", "--create")
        self.assertIn("event=file_ignored", said)
        self.assertIn("run.conf is not read, as its name does not end with .toml; rename it", said)
        self.assertNotIn(".swp", said)
        (folder / "sub.toml").mkdir()
        said = self.verb("serve", "--check-config", "--create", code=CONFIG)
        self.assertIn("sub.toml cannot be read: it is a folder; put a TOML file", said)
        self.assertNotIn("--config", said)

    def test_a_check_answers_as_serve_does(self):
        """What --check-config takes `serve` takes, and what `serve` refuses it refuses, with the same sentence."""
        plain = self.home / "plain"
        plain.write_text("")
        without_run = self.home / "no_run.toml"
        without_run.write_text(self.config.read_text().split("[run]")[0])
        cases = [(("--config", without_run), CONFIG, "has no section [run]"),
                 (("--config", self.config), DATABASE, "does not exist; if there was one"),
                 (("--config", self.config, "--set", f"server.database={plain}"), DATABASE, "is an empty file"),
                 (("--config", self.config, "--create", "--set", f"server.export_dir={plain}"), FILE, "is no folder"),
                 (("--config", self.config, "--create", "--set", "server.listen=192.0.2.7:7433"), NETWORK,
                  "an address of this machine"),
                 (("--config", self.config, "--create", "--set", "server.http_listen=192.0.2.7:7434", "--set",
                   f"server.http_token_file={plain}"), FILE, "http_token_file")]
        for listen, http in (("127.0.0.1:7433", "127.0.0.1:7433"), ("0.0.0.0:7433", "127.0.0.1:7433"),
                             ("[::]:7433", "127.0.0.1:7433")):
            cases.append((("--config", self.config, "--create", "--set", f"server.listen={listen}", "--set",
                           f"server.http_listen={http}"), CONFIG, "server.http_listen"))
        for words, code, text in cases:
            for check in ((), ("--check-config",)):
                said = self.run_program("serve", *check, *words, code=code)
                self.assertIn(text, said, words)
            self.assertFalse((self.home / "test.db").exists(), words)
        self.verb("serve", "--check-config", "--create")
        self.assertFalse((self.home / "test.db").exists(), "a check makes none")
        self.enrol()
        self.verb("run", "start")
        self.verb("serve", "--check-config")
        for check in ((), ("--check-config",)):
            said = self.verb("serve", *check, "--set", "run.seed=99", code=FROZEN)
            self.assertIn("differs in: run.seed; restore these keys", said)
        server = self.serve()
        self.verb("serve", "--check-config")  # beside a live server
        self.assertEqual(server.stop(), OK)

    def test_check_config(self):
        advised = self.run_program(
            "serve", "--check-config", self.config, "--set", "run.smoothness=2", "--set", "run.solver=gradient_stream",
            "--set", "run.estimator=analytic_gradient", "--set", "run.correction_form=none", "--create")
        self.assertIn("# advice: 2 L^2 alpha^2 = ", advised)
        create = "--create"  # there is none
        text = self.run_program("serve", "--check-config", self.config, "--set", "run.seed=77", create)
        self.assertIn("seed = 77", text)
        self.assertIn("[server.limits]", text)
        again = self.home / "again.toml"
        again.write_text(text)
        self.assertEqual(self.verb("serve", "--check-config", "--set", "run.seed=77", create), text)
        self.assertEqual(self.run_program("serve", "--check-config", again, create), text)
        self.assertIn("the nearest known one is seed", self.verb("serve", "--set", "run.sead=1", code=CONFIG))
        for key in ("http_token_file", "export_dir", "first_model"):
            wrong = ("--set", f"server.{key}=/nonexistent", "--set", "server.http_listen=127.0.0.1:0")
            for verb in (("serve", "--check-config"), ("serve",)):
                self.assertIn("/nonexistent", self.verb(*verb, *wrong, code=FILE))
        for database in ("/nonexistent/fleet.db", self.config):
            wrong = ("--set", f"server.database={database}", create)
            self.assertIn(str(database), self.verb("serve", "--check-config", *wrong, code=DATABASE))
        conflict = self.verb("serve", "--check-config", "--set", "run.cols=9", code=CONFIG)
        self.assertIn("--set run.cols=9: [run]", conflict)
        self.assertIn("0 to 65535", self.verb("serve", "--set", "server.listen=localhost:1", code=CONFIG))
        self.assertIn("cannot be read", self.run_program("status", "--config", self.home / "none.toml", code=CONFIG))

    def test_the_origin_of_each_value_is_printed(self):
        (self.home / "conf.d").mkdir()
        (self.home / "conf.d" / "seed.toml").write_text("[run]\nseed = 5\n")
        os.environ["GRADSTREAM_SERVER_LOG_LEVEL"] = "warn"
        self.addCleanup(os.environ.pop, "GRADSTREAM_SERVER_LOG_LEVEL")
        text = self.verb("serve", "--print-config", "--set", "run.cols=3")
        for line in (f"seed = 5  # {self.home}/conf.d/seed.toml:2", "cols = 3  # --set",
                     "store_retry_ms = 1000  # default",
                     'log_level = "warn"  # GRADSTREAM_SERVER_LOG_LEVEL', f"rows = 8  # {self.config}:10"):
            self.assertIn(line + "\n", text)
        os.environ["GRADSTREAM_SERVER_LOG_LEVEL"] = "loud"
        self.assertIn("GRADSTREAM_SERVER_LOG_LEVEL: server.log_level", self.verb("status", code=CONFIG))
        os.environ["GRADSTREAM_SERVER_LOG_LEVEL"] = "info"
        os.environ["GRADSTREAM_CONFIG"] = str(self.config)
        self.addCleanup(os.environ.pop, "GRADSTREAM_CONFIG", None)
        self.assertIn("seed = 5\n", self.run_program("serve", "--check-config", "--create"))
        del os.environ["GRADSTREAM_CONFIG"]
        self.assertEqual(self.run_program("serve", "--print-config", self.config, "--set", "run.cols=3"),
                         text.replace('"warn"', '"info"'))

    def test_the_programs_say_their_version(self):
        version = re.search(r"project\(gradstream VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.run_program("--version"), f"gradstream {version}\n")
        done = subprocess.run([CLIENT, "--version"], capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
        self.assertEqual(done.stdout, f"gradstream-client {version}\n")
        server = self.serve()
        self.assertIn(f" version={version} ", server.listening)
        self.assertEqual(server.stop(), OK)

    def test_the_document_tells_every_exit_code(self):
        source = (ROOT / "server" / "program" / "commands.h").read_text()
        codes = re.findall(r"(?m)^  kExit\w+ = (\d+),", source)
        said = re.findall(r"(?m)^  (\d+)  (.+)$", self.run_program("--help"))
        self.assertEqual([code for code, _ in said], codes)
        table = re.search(r"(?m)^\| code \|.*\n\|.*\n((?:\|.*\n)+)", (REFERENCE / "exit_codes.md").read_text())[1]
        self.assertEqual(re.findall(r"(?m)^\| (\d+) \| (.+?) \|$", table), said)

    def test_the_keys_of_a_run(self):
        rows = [json.loads(line) for line in self.run_program("run", "keys", "--format", "json").splitlines()]
        keys = [line.split(" = ")[0] for line in self.run_program(
            "serve", "--print-config", "--config", self.config).split("[run]\n")[1].splitlines()
                if not line.startswith("#")]
        self.assertEqual([row["key"] for row in rows], keys)
        share = next(row for row in rows if row["key"] == "weight_share_max")
        self.assertEqual((share["group"], share["default"], share["takes"]), ("Fold", "1", "above 0 to 1"))
        self.assertIn("\nkey=weight_share_max group=Fold default=1 ", self.run_program("run", "keys"))
        self.assertIn(self.run_program("run", "keys", "--markdown"), (REFERENCE / "keys.md").read_text())

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
        self.assertRegex(listed, r"device=b index=1 state=active")
        self.assertNotIn(key, listed)

    def test_run_life(self):
        self.verb("status", code=DATABASE)
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertIn("state=active version=0", self.verb("status"))
        self.assertIn("\nprogress=starting promise_ratio=0 kept=0 drifts=0\n", self.verb("status"))
        self.assertIn("served=yes", self.verb("status"))
        self.assertIn("served by another server", self.verb("serve", code=DATABASE))
        self.assertIn("is active", self.verb("run", "start", code=NOT_FOUND))
        self.assertIn("stop requested", self.verb("run", "stop"))
        server.wait_for("event=run_stopped")
        self.assertEqual(server.stop(), OK)
        self.assertIn('state=stopped', self.verb("run", "list"))
        frozen = self.verb("serve", "--set", "run.step_size=0.5", "--set", "run.seed=9", code=FROZEN)
        self.assertIn("run.seed, run.step_size", frozen)
        self.assertIn("run start", frozen)
        self.assertIn("run=2", self.verb("run", "start", "--set", "run.seed=9"))
        self.verb("serve", code=FROZEN)
        again = self.serve("--set", "run.seed=9")
        self.assertEqual(again.stop(signal.SIGINT), OK)

    def test_the_documents_keys_are_all_there_are(self):
        text = "".join((REFERENCE / name).read_text() for name in ("configuration.md", "keys.md"))
        self.config.write_text(re.search(r"```toml\n(.*?)```", text, re.S)[1])
        shown = dict(re.findall(r"(?m)^(\w+) = (.+)$", self.verb("serve", "--check-config", "--create")))
        tables = "".join(re.findall(r"(?m)^\| key (?:of|\| default) .*\n(?:\|.*\n)+", text))
        told = dict(re.findall(r"(?m)^\| `(\w+)` \| (.+?) \|", tables))
        self.assertEqual(sorted(told), sorted(shown))
        section = re.search(r"(?ms)^## Defaults that follow from other keys$(.*?)^#", text)[1]
        follow = set(re.findall(r"(?m)^\| `(\w+)` \| (`.+?`) \|", section))
        self.assertLess(5, len(follow))
        for key, default in told.items():
            if default != "needed" and key != "update_goal":  # "all" is stored as 0
                self.assertIn((key, f"`{shown[key]}`"), follow | {(key, default)})
        for key in (key for key, default in told.items() if default == "needed"):
            self.assertRegex(self.config.read_text(), rf"(?m)^{key} = ")

    def test_every_event_has_a_row_and_every_row_an_event(self):
        """An event without a row does not compile; this finds the rows that no source says, and a stale document."""
        sources = "".join(path.read_text() for path in sorted((ROOT / "server").rglob("*.*"))
                          if path.suffix in (".cc", ".h"))
        sources = re.sub(r"(?m)^ *//.*$", "", sources)  # an example in a comment is no event
        said = set(re.findall(r'"(\w+)"_event', sources))
        self.assertGreater(len(said), 100)
        rows = [json.loads(line) for line in self.run_program("explain", "--format", "json").splitlines()]
        self.assertEqual({row["event"] for row in rows if "level" in row}, said)
        text = (REFERENCE / "events.md").read_text()
        self.assertIn(self.run_program("explain", "--markdown"), text)
        for page in {row["page"] for row in rows if "page" in row}:
            self.assertTrue((ROOT / page.partition("#")[0]).is_file(), page)

    def test_the_page_and_the_catalogue_have_the_same_words(self):
        page = (ROOT / "server" / "watch" / "page" / "page.js").read_text()
        rows = [json.loads(line) for line in self.run_program("explain", "--format", "json").splitlines()]
        for name, kind in (("REASONS", "work"), ("PEERS", "peer")):
            table = re.search(rf"(?ms)^const {name} = \{{$(.*?)^\}};$", page)[1]
            self.assertEqual({key: text[1:-1] for key, text in re.findall(r"(?m)^  (\w+): (.*),$", table)},
                             {row["refusal"]: row["meaning"] for row in rows if row.get("of") == kind}, name)

    def test_one_device_is_shown_in_full(self):
        self.enrol()
        told = self.verb("device", "show", "a")
        self.assertRegex(told, r'^device=a index=0 state=active created_ms=\d+ created="20\d\d-\d\d-\d\d .* UTC" '
                               r'generation=0 told_by_server=no why="server.http_listen is not set, .*"\n$')
        address = "127.0.0.1:1"
        self.assertRegex(self.verb("device", "show", "a", "--set", f"server.http_listen={address}"),
                         f'told_by_server=no why="no server answers at server.http_listen {address}; ')
        self.assertIn("no device nobody", self.verb("device", "show", "nobody", code=NOT_FOUND))
        server, port = self.serve_watched()
        server.wait_for("event=version version=0")
        lines = until(lambda: [json.loads(line) for line in self.verb(
            "device", "show", "a", "--set", f"server.http_listen=127.0.0.1:{port}", "--format", "json").splitlines()],
                      lambda lines: len(lines) == 2)
        self.assertEqual([lines[0]["told_by_server"], lines[1]["connected"], lines[1]["folded"]], [True, False, 0])
        self.assertEqual((lines[1]["device"], lines[1]["last_reason"]), ("a", "none"))
        self.assertEqual(server.stop(), OK)

    def test_a_name_is_explained(self):
        self.assertRegex(self.run_program("explain", "wrong_shape"),
                         r'^event=wrong_shape of=client .*\nrefusal=wrong_shape of=work meaning=".*"\n$')
        self.assertRegex(self.run_program("explain", "draining"), r"^event=draining level=info ")
        self.assertIn("no event and no refusal is called drainin; the nearest name is draining",
                      self.run_program("explain", "drainin", code=NOT_FOUND))

    def test_a_server_goes_over_to_the_next_run(self):
        self.enrol()
        server, port = self.serve_watched()
        server.wait_for("event=version version=0")
        self.assertIn("stop requested", self.verb("run", "stop"))
        server.wait_for("event=run_stopped")
        self.wait_for_state("stopped")
        self.assertIn("served=yes", self.verb("status"))
        begun = self.verb("run", "start", "--set", "run.cols=3")
        self.assertIn(f"the server (process {server.child.pid}) goes over to it", begun)
        self.assertIn("run=2 served=1", server.wait_for("event=next_run"))
        self.assertIn(f"port={server.port} run=2", server.wait_for("event=listening"))
        server.wait_for("event=version version=0")
        self.assertRegex(self.verb("status"), r"run=2 .* served=yes")
        self.assertEqual(self.diagnose(server.port, "a", OK), "none")
        number = until(lambda: json.loads(self.http(port, "/status")[1])["run"]["number"], lambda number: number == 2)
        self.assertEqual(number, 2)
        (self.home / "a.gsd").write_bytes(SHARD)
        self.assertIn("event=", self.run_once(server, 0, options=("--retry-ms", "20")))
        self.assertEqual(server.stop(), OK)
        self.assertEqual("".join(server.lines).count("event=stopped"), 2)
        with sqlite3.connect(self.home / "test.db") as database:
            updates = database.execute("SELECT count(*) FROM journal WHERE run=2 AND kind=2").fetchone()
        database.close()
        self.assertEqual(updates, (1,))

    def test_hangup_reloads_devices_and_log_level(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        text = self.config.read_text()
        self.config.write_text(text.replace("[server]\n", '[server]\nlog_level = "debug"\nallow_psk_ke = true\n'))
        server.child.send_signal(signal.SIGHUP)
        line = server.wait_for("event=reloaded")
        self.assertIn("log_level=debug needs_restart=server.allow_psk_ke http_token=none", line)
        self.assertEqual(self.diagnose(server.port, "a", OK), "none")
        server.wait_for(" debug ")
        self.config.write_text(text + "colls = 3\n")
        server.child.send_signal(signal.SIGHUP)
        self.assertIn("unknown key run.colls", server.wait_for("event=reload_failed"))
        self.assertEqual(self.diagnose(server.port, "a", OK), "none")
        self.assertEqual(server.stop(), OK)

    def test_hangup_drops_no_session_and_revocation_ends_one(self):
        self.enrol()
        server = self.serve("--set", "server.log_level=debug")  # session_left is of that level
        self.train(server, "a")  # its round waits for the other device
        server.wait_for("event=session_established")
        self.verb("device", "add", "later", "--out", self.home / "later.id")
        server.child.send_signal(signal.SIGHUP)
        server.wait_for("event=reloaded")
        self.assertEqual(self.diagnose(server.port, "later", OK), "none")
        of_a = [line for line in server.lines if "event=session_" in line and "device=a" in line]
        self.assertEqual(len(of_a), 1, of_a)
        self.assertIn("event=session_established", of_a[0])
        self.verb("device", "revoke", "a")
        server.wait_for("event=device_revoked device=a")
        self.assertIn("identity=a", server.wait_for("event=tls_revoked_identity"), "its session ended: it dials again")
        self.assertEqual(server.stop(), OK)

    def test_a_service_manager_hears_that_the_server_lives(self):
        self.enrol()
        path = self.home / "notify"
        os.environ["NOTIFY_SOCKET"] = str(path)
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(path))
            manager.settimeout(SECONDS_MAX)
            server = self.serve()
            self.assertEqual(manager.recv(100), b"READY=1\nWATCHDOG=1")
            self.assertEqual(server.stop(), OK)
            while (word := manager.recv(100)) != b"STOPPING=1":
                self.assertEqual(word, b"READY=1\nWATCHDOG=1")

    def test_a_run_is_begun_at_once_after_another_one_was_stopped_or_paused(self):
        self.enrol()
        server = self.serve()
        for run, verb in enumerate(("stop", "pause", "stop"), 1):
            server.wait_for("event=version version=0")
            self.assertIn(f"run={run} ", self.verb("run", verb))
            begun = self.verb("run", "start", "--set", f"run.seed={run + 10}")
            self.assertIn(f"run={run + 1} ", begun)
            self.assertIn(f"run={run + 1} served={run}", server.wait_for("event=next_run"))
        server.wait_for("event=version version=0")
        self.verb("run", "pause")
        self.assertIn('run=2 state=active', self.verb("run", "resume", "--run", "2"))
        server.wait_for("event=next_run run=2")
        server.wait_for("event=listening")
        self.verb("run", "stop")
        server.stop(signal.SIGKILL)  # perhaps before it took note: nobody is left to wait for
        self.assertIn("run=5 ", self.verb("run", "start"))
        states = re.findall(r'run=(\d) .* state="?([a-z ]+?)"? created_ms', self.verb("run", "list"))
        self.assertEqual(states, [("1", "stopped"), ("2", "stopped"), ("3", "stopped"), ("4", "paused"),
                                  ("5", "active")])

    def wait_for_text(self, text, *verb):
        """The line in the log comes before the journal and the state in the database."""
        self.assertIn(text, until(lambda: self.verb(*verb), lambda said: text in said), verb)

    def wait_for_state(self, state):
        self.wait_for_text(f'state={state}', "run", "list")

    def test_pause_and_resume_of_a_served_run(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertIn('note="run 1 is active already; nothing was changed"', self.verb("run", "resume"))
        self.assertIn('run=1 state="pause requested"', self.verb("run", "pause"))
        server.wait_for("event=run_paused version=0")
        self.wait_for_state("paused")
        self.assertIn('state=paused note="run 1 is paused already', self.verb("run", "pause"))
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
        self.assertIn("only an active run can be paused", self.verb("run", "pause", code=NOT_FOUND))
        self.assertIn('state=stopped note="run 1 is stopped already; nothing was changed"', self.verb("run", "stop"))
        self.assertEqual(server.stop(), OK)

    def test_a_kill_in_each_state_of_a_run(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        server.stop(signal.SIGKILL)
        # Nobody serves it: the next server makes it so.
        self.assertIn('run=1 state=paused', self.verb("run", "pause"))
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
        self.assertRegex(self.verb("run", "list"), 'state=("pause requested"|paused)')
        self.assertIn('run=1 state=active', self.verb("run", "resume"))
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
        self.wait_for_text('state=paused', "status", "--run", "2")  # run 1 is so too
        # The older one goes on, and the server goes over to it.
        self.assertIn('run=1 state=active', self.verb("run", "resume", "--run", "1"))
        self.assertIn("run=1 served=2", server.wait_for("event=next_run"))
        server.wait_for("event=run_resumed version=0")
        self.assertRegex(self.verb("status"), r"run=1 .* served=yes")
        self.assertRegex(self.verb("status", "--run", "2"), r"run=2 .*paused.* served=no")
        self.assertIn('run=2 state=stopped', self.verb("run", "stop", "--run", "2"))
        self.assertEqual(server.stop(), OK)

    def run_once(self, server, code, shard=SHARD, options=()):
        """A client of device a with --once; its output."""
        (self.home / "a.gsd").write_bytes(shard)
        words = [CLIENT, "--server", f"127.0.0.1:{server.port}", "--identity", self.home / "a.id", "--data",
                 self.home / "a.gsd", "--no-floors", "--once", *options]
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
        self.assertIn("with --problem, or begin a run with another run.problem", self.run_once(server, 9))
        line = server.wait_for("event=device_not_capable")
        for word in ("lacks=problem:own_loss", "--problem", "run.problem"):
            self.assertIn(word, line)
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
        self.wait_for_text("round=0 state=stalled answers=0 wanted=2 missing=a,b", "status")
        first, second = [json.loads(line) for line in self.verb("status", "--format", "json").splitlines()[:2]]
        self.assertIs(first["served"], True)
        self.assertEqual(second["missing"], ["a", "b"])
        self.verb("serve", "--format", "json", code=USAGE)
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

    def test_status_names_nobody_who_has_answered(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.train(server, "a")
        self.wait_for_text("round=0 state=active answers=1 wanted=2 missing=b", "status")
        self.assertEqual(server.stop(), OK)

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

    def train(self, server, *names):
        """Clients of these devices, until the test ends; what they say is in NAME.log."""
        for name in names:
            (self.home / f"{name}.gsd").write_bytes(SHARD)
            words = [CLIENT, "--server", f"127.0.0.1:{server.port}", "--identity", self.home / f"{name}.id", "--data",
                     self.home / f"{name}.gsd", "--no-floors", "--retry-ms", "20"]
            with open(self.home / f"{name}.log", "wb") as log:
                client = subprocess.Popen(words, stderr=log)
            self.addCleanup(client.wait)
            self.addCleanup(client.kill)

    def hurry(self, rounds):
        """A run without waits."""
        text = self.config.read_text().replace("round_count = 3", f"round_count = {rounds}")
        self.config.write_text(text + "retry_min_ms = 1\nretry_max_ms = 5\n")

    def test_run_export(self):
        self.hurry(3)
        lineage, model = self.home / "m.json", self.home / "m.npy"
        self.verb("run", "export", "--out", self.home / "m.npy", code=USAGE)
        self.enrol()
        self.verb("run", "start")
        self.assertIn("no version yet", self.verb("run", "export", "--out", lineage, code=NOT_FOUND))
        server = self.serve()
        server.wait_for("event=version version=0")
        self.train(server, "a", "b")
        server.wait_for("event=version version=3 ")  # durable
        self.assertIn("the latest is 3", self.verb("run", "export", "--version", "9", "--out", lineage, code=NOT_FOUND))
        self.assertIn("version=2", self.verb("run", "export", "--version", "2", "--out", lineage))
        self.assertEqual(server.stop(), OK)
        told = json.loads(lineage.read_text())
        self.assertEqual((told["run"], told["version"], told["model_file"]), (1, 2, "m.npy"))
        self.assertEqual([v["version"] for v in told["versions"]], [0, 1, 2])
        for version in told["versions"][1:]:
            self.assertEqual(sorted(u["device"] for u in version["from"]), ["a", "b"])
            self.assertEqual({u["base_version"] for u in version["from"]}, {version["version"] - 1})
        self.assertEqual(told["versions"][2]["digest"], told["model"]["digest"])
        self.assertEqual(model.read_bytes(), (self.home / "models" / "run1_v000002.npy").read_bytes())
        digest = 0xcbf29ce484222325  # the recomputation that docs/how-to/trace.md gives
        for byte in model.read_bytes()[-told["model"]["rows"] * told["model"]["cols"] * 4:]:
            digest = (digest ^ byte) * 0x100000001b3 % 2**64
        self.assertEqual(f"{digest:016x}", told["model"]["values_digest"])
        self.assertIn("state=proven", self.verb("run", "export", "--check", "--out", lineage))
        text = lineage.read_text()
        lineage.write_text(text.replace('"device":"a"', '"device":"b"', 1))
        line = 1 + text[:text.index('"device":"a"')].count("\n")
        self.assertIn(f"m.json:{line} differs", self.verb("run", "export", "--check", "--out", lineage, code=FILE))
        lineage.write_text(text + " ")
        self.verb("run", "export", "--check", "--out", lineage, code=FILE)
        lineage.write_text(text)
        model.write_bytes(model.read_bytes()[:-1] + b"\x00")
        self.assertIn("m.npy differs", self.verb("run", "export", "--check", "--out", lineage, code=FILE))
        lineage.write_text("{}\n")
        self.assertIn("no lineage", self.verb("run", "export", "--check", "--out", lineage, code=FILE))
        self.assertIn("cannot read", self.verb("run", "export", "--check", "--out", self.home / "x.json", code=FILE))
        self.verb("run", "export", "--out", self.home / "none" / "m.json", code=FILE)
        self.assertIn("state=written", self.verb("run", "export", "--format", "csv", "--out", self.home / "c.json"))
        self.assertEqual(len((self.home / "c.csv").read_text().splitlines()), 8)
        self.assertIn("state=proven", self.verb("run", "export", "--check", "--out", self.home / "c.json"))

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

    def test_a_run_begins_at_what_people_write(self):
        """`run start` takes what `serve` takes, and freezes nothing that it does not."""
        self.enrol()
        rows = ["1,0", "0,1"] + ["0,0"] * 6
        path = self.home / "first"
        words = "--set", f"server.first_model={path}"
        for text, message in (("a,b\n" + "\n".join(rows), "line 1, column 1: `a` is no number; remove the head line"),
                              ("\n".join(rows).replace(",", ";"), "line 1, column 1: `1;0`: values are separated by"),
                              ("\n".join(rows[1:]), "ends in line 7 after 7 rows; the run's model has 8 rows of 2"),
                              ("\n".join(rows).replace("1", "nan"), "line 1, column 1: `nan` is no finite number"),
                              ("PK\x03\x04", "is a zip archive")):
            path.write_text(text, encoding="utf-8")
            for verb in (("run", "start"), ("serve", "--create"), ("serve", "--check-config")):
                self.assertIn(f"server.first_model {path}: {message}", self.verb(*verb, *words, code=FILE))
            self.assertEqual("", self.verb("run", "list"), "a run was frozen")
        text = "\ufeff" + "\r\n".join(rows).replace(",", " , ") + "\r\n \r\n"
        path.write_bytes(text.encode())
        self.assertIn("run=1", self.verb("run", "start", *words))
        server = self.serve(*words)
        server.wait_for("event=version version=0")
        self.assertEqual(server.stop(), OK)
        self.verb("model", "export", "--out", path)  # .npy, by default
        self.verb("model", "export", "--format", "csv", "--out", self.home / "first.csv")
        self.assertEqual((self.home / "first.csv").read_text().splitlines(), rows)
        self.verb("run", "stop")
        self.assertIn("run=2", self.verb("run", "start", *words))
        server = self.serve(*words)
        server.wait_for("event=version version=0")
        self.assertEqual(server.stop(), OK)
        self.verb("model", "export", "--out", self.home / "again.npy")
        self.assertEqual((self.home / "again.npy").read_bytes(), path.read_bytes())
    def test_a_first_model_is_on_its_manifold_before_a_run_begins(self):
        start = self.home / "start.csv"
        words = ["--set", f"server.first_model={start}"]
        rows = [[0.0, 0.0] for _ in range(8)]
        rows[0][0], rows[1][1] = 1, 2

        def write():
            start.write_text("".join(f"{a},{b}\n" for a, b in rows))
        write()
        for verb in (("run", "start"), ("serve", "--create"), ("serve", "--check-config")):
            text = self.verb(*verb, *words, code=FILE)
            self.assertRegex(text, r"start.csv: stiefel 8x2 is off its manifold by 0.447, at most 0.001 .*export")
        self.assertFalse((self.home / "test.db").exists(), "nothing is frozen")
        rows[1][1] = 1.0005
        write()
        self.assertRegex(self.verb("run", "start", *words), r"warning: .*start.csv is moved .*: stiefel 8x2 by 0.00035")
        self.enrol()
        server = self.serve(*words)
        self.assertRegex("".join(server.lines), r"event=first_model_projected .*stiefel 8x2 by 0.00035")
        server.wait_for("event=version version=0")
        self.assertEqual(server.stop(), OK)
        self.verb("model", "export", "--version", "0", "--out", self.home / "zero.csv")
        self.assertEqual((self.home / "zero.csv").read_text().split()[:3], ["1,0", "0,1", "0,0"])
        rows[1][1] = 2  # a run that has a version keeps it
        write()
        self.assertEqual(self.serve(*words).stop(), OK)

    def test_a_run_that_would_not_be_begun_any_more_goes_on(self):
        rounds = self.config.read_text()
        for name in "abc":
            self.verb("device", "add", name, "--out", self.home / f"{name}.id")
        text = rounds.replace("direction_count = 4\ndevice_count = 2\n", """device_count = 3
solver = "gradient_stream"
estimator = "analytic_gradient"
correction_form = "none"
late = "weight"
buffer_size = 1
delay_rule = "asgd"
fold_weight = "uniform"
staleness_max = STALENESS
""")
        self.config.write_text(text.replace("STALENESS", "2"))
        server = self.serve()
        server.wait_for("event=version version=0")
        self.assertEqual(server.stop(), OK)
        # As a release without the bound left it.
        with sqlite3.connect(self.home / "test.db") as database:
            for column in ("parameters", "source"):
                changed = database.execute(f"UPDATE runs SET {column} = replace({column}, 'staleness_max = 2', "
                                           "'staleness_max = 1') RETURNING id").fetchall()
                self.assertEqual(changed, [(1,)])
            sign_runs(database)
        database.close()
        self.config.write_text(text.replace("STALENESS", "1"))
        server = self.serve()
        self.assertRegex(self.verb("status"), r"run=1 .* served=yes")
        self.assertEqual(server.stop(), OK)
        self.verb("model", "export", "--out", self.home / "kept.npy")
        self.verb("run", "stop")
        self.assertIn("raise staleness_max (at most 1024) or buffer_size", self.verb("run", "start", code=CONFIG))
        self.assertIn("raise staleness_max", self.run_program("serve", "--check-config", self.config, code=CONFIG))

    def test_a_missing_database_is_named_and_made_only_when_told(self):
        database = self.home / "test.db"
        for make in (lambda: None, database.touch):
            make()
            said = self.verb("serve", code=DATABASE)
            self.assertIn("check server.database and that its disk is mounted", said)
            self.assertIn("`serve --create`", said)
            self.assertFalse(database.exists() and database.stat().st_size > 0)
        database.unlink()
        self.assertEqual(self.serve().stop(), OK)
        self.assertGreater(database.stat().st_size, 0)

    def test_the_line_of_a_new_run_comes_before_what_is_known_of_its_devices(self):
        self.enrol()
        lines = self.verb("run", "start").splitlines()
        self.assertRegex(lines[0], "^run=1 name=.* state=active next=")
        self.assertRegex(lines[1], "^run=1 devices=[0-9]+ have_trained=0$")
        self.assertEqual(len(lines), 2)

    def test_a_damaged_number_of_the_database_is_named_by_every_verb(self):
        self.enrol()
        self.verb("run", "start")
        with sqlite3.connect(self.home / "test.db") as database:
            database.execute("UPDATE meta SET value = value + 1 WHERE key = 'change_count'")
        database.close()
        out = ("--out", self.home / "out.json")
        for words in (("serve",), ("serve", "--check-config"), ("status",), ("device", "list"),
                      ("device", "add", "c", *out), ("device", "rotate", "a", *out), ("device", "disable", "a"),
                      ("claim", "list"),
                      ("claim", "add", "c", *out), ("run", "list"), ("run", "start"), ("run", "stop"),
                      ("model", "export", *out), ("run", "export", *out), ("backup", self.home / "copy.db")):
            said = self.verb(*words, code=DATABASE)
            self.assertIn("row change_count of table meta does not fit its checksum; restore the file", said, words)
        self.assertFalse((self.home / "out.json").exists())
        self.assertEqual(list(self.home.glob("copy.db*")), [])

    def test_a_database_that_is_moved_away_under_a_live_server(self):
        self.enrol()
        server, port = self.serve_watched("--set", "server.limits.store_retry_ms=100")
        server.wait_for("event=version version=0")
        database, away = self.home / "test.db", self.home / "away.db"
        for replace in (False, True):
            database.rename(away)
            if replace:
                shutil.copy(away, database)
            server.wait_for("event=database_moved")
            code, text = until(lambda: self.http(port, "/readyz"), lambda answer: answer[0] == 503)
            self.assertEqual(code, 503)
            self.assertIn("put the file back", text)
            out = self.home / "c.id"
            for words in (("status",), ("device", "list"), ("device", "add", "c", "--out", out), ("run", "start"),
                          ("claim", "add", "c", "--out", out), ("backup", self.home / "copy.db"),
                          ("serve", "--check-config")):
                said = self.verb(*words, code=DATABASE)
                self.assertIn(f"process {server.child.pid}, has another file open", said, words)
                self.assertIn("put that file back", said, words)
            self.assertFalse(out.exists())
            self.assertEqual(database.exists(), replace, "no stub")
            away.rename(database)
            server.wait_for("event=database_back")
            self.assertEqual(until(lambda: self.http(port, "/readyz")[0], lambda code: code == 200), 200)
        self.assertRegex(self.verb("status"), "served=yes")
        self.hurry(3)
        self.train(server, "a", "b")  # nothing of before was lost
        server.wait_for("event=run_finished")
        self.wait_for_state("finished")
        self.assertIn('state=finished note="run 1 is finished already; nothing was', self.verb("run", "stop"))
        self.assertEqual(server.stop(), OK)

    def test_a_log_that_is_removed_under_a_live_server(self):
        self.enrol()
        for number, end in enumerate(("-wal", "-shm")):
            server = self.serve()
            server.wait_for("event=version version=0")
            lost = self.home / f"test.db{end}"
            lost.unlink()
            self.assertIn(f"{end} was removed", server.wait_for("event=database_moved"))
            for words in (("device", "list"), ("device", "add", "c", "--out", self.home / "c.id")):
                said = self.verb(*words, code=DATABASE)
                self.assertIn(f"process {server.child.pid}, uses them; stop that server and start it again", said)
            self.assertFalse(lost.exists(), "no command makes another one")
            lost.touch()
            self.assertIn("nothing else mends that", server.wait_for("event=database_moved"))
            self.assertEqual(server.stop(), OK)
            self.assertNotIn("event=database_back", "".join(server.lines))
            self.verb("device", "add", f"d{number}", "--out", self.home / f"d{number}.id")
            self.assertEqual(len(self.verb("device", "list").splitlines()), 3 + number, "nothing was lost")

    def test_no_record_is_acknowledged_that_a_moved_database_would_lose(self):
        self.hurry(1000)
        self.enrol()
        server = self.serve("--set", "server.limits.store_retry_ms=100")
        self.train(server, "a", "b")
        server.wait_for("event=version version=3 ")
        database, away = self.home / "test.db", self.home / "away.db"
        database.rename(away)
        self.assertIn("removed or replaced", server.wait_for("event=store_failed"))
        away.rename(database)
        server.wait_for("event=store_recovered")
        server.wait_for("event=version version=")
        self.assertEqual(server.stop(), OK)
        self.verb("run", "export", "--out", self.home / "m.json")
        self.assertIn("state=proven", self.verb("run", "export", "--check", "--out", self.home / "m.json"))

    def test_a_failed_command_leaves_no_database(self):
        database = self.home / "test.db"
        (self.home / "names").write_text("x\n")
        wrong = self.home / "none" / "x.id"
        for words, code in ((("device", "add", "x", "--out", wrong), FILE),
                            (("claim", "add", "x", "--out", wrong), FILE),
                            (("device", "import", self.home / "names", "--out-folder", wrong), FILE)):
            self.verb(*words, code=code)
            self.assertEqual(list(self.home.glob("test.db*")), [], words)
        for words in (("device", "list"), ("status",), ("run", "list"), ("claim", "list"), ("device", "enable", "x"),
                      ("backup", self.home / "copy.db")):
            self.verb(*words, code=DATABASE)
            self.assertFalse(database.exists(), words)

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
        self.assertRegex(text, r"event=journal_broken run=1 sequence=1 remedy=.*back_up\.md")
        self.verb("status", code=DATABASE)
        content = bytearray((self.home / "test.db").read_bytes())
        content[:100] = os.urandom(100)
        (self.home / "test.db").write_bytes(content)
        self.assertIn("restore the file", self.verb("serve", code=DATABASE))

    def test_peers_that_speak_something_else(self):
        server = self.serve("--set", "server.limits.handshake_deadline_ms=2000")
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

    def doctor(self, target, code=NETWORK, *arguments):
        text = self.run_program("doctor", target, "--format", "json", *arguments, code=code)
        told = json.loads(text.splitlines()[0])  # a warning may follow
        self.assertTrue(told["cause"] == "none" or told["remedy"], text)
        return told["cause"]

    def diagnose(self, port, name, code=NETWORK):
        return self.doctor(f"127.0.0.1:{port}", code, "--identity", self.home / f"{name}.id")

    def test_a_session_by_a_key_that_a_rotation_has_ended_ends_too(self):
        self.enrol()
        server = self.serve("--set", "server.limits.refusal_retry_min_ms=1", "--set",
                            "server.limits.refusal_retry_max_ms=20")
        (self.home / "a.gsd").write_bytes(SHARD)
        words = [CLIENT, "--server", f"127.0.0.1:{server.port}", "--identity", self.home / "a.id", "--data",
                 self.home / "a.gsd", "--retry-ms", "20"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as client:
            guard = threading.Timer(SECONDS_MAX, client.kill)
            guard.start()
            self.assertTrue(any("event=connected" in line for line in client.stderr))
            self.verb("device", "rotate", "a", "--out", self.home / "a1.id", "--window-s", "0")
            self.assertTrue(any("wrong key" in line for line in client.stderr), "it waits by the old key for days")
            guard.cancel()
            client.kill()
        self.assertIn("identity=a", server.wait_for("event=tls_expired_key"))
        self.assertEqual(server.stop(), OK)

    def test_a_rotated_key_and_the_states_of_an_identity(self):
        self.enrol()
        server = self.serve()
        port = server.port
        self.assertEqual(self.diagnose(port, "a", OK), "none")
        text = self.verb("device", "rotate", "a", "--out", self.home / "a1.id")
        self.assertIn("identity=a~1", text)
        self.assertEqual(stat.S_IMODE((self.home / "a1.id").stat().st_mode), 0o600)
        self.assertEqual(self.diagnose(port, "a1", OK), "none")
        self.assertEqual(self.diagnose(port, "a", OK), "none", "within the window")
        self.verb("device", "rotate", "a", "--out", self.home / "a2.id", "--window-s", "0")
        self.assertEqual(self.diagnose(port, "a2", OK), "none")
        for name in ("a", "a1"):
            self.assertEqual(self.diagnose(port, name), "wrong_key")
            self.assertIn("device rotate", server.wait_for("event=tls_expired_key"))
        self.verb("device", "rotate", "a", "--out", self.home / "a2.id", code=FILE)
        self.verb("device", "rotate", "nobody", "--out", self.home / "n.id", code=NOT_FOUND)
        self.assertFalse((self.home / "n.id").exists())
        self.verb("device", "disable", "a")
        server.wait_for("event=device_state device=a state=disabled")
        self.assertEqual(self.diagnose(port, "a2"), "not_active")
        self.assertIn("device enable", server.wait_for("event=tls_inactive_identity"))
        self.verb("device", "enable", "a")
        server.wait_for("event=device_restored device=a")
        self.assertEqual(self.diagnose(port, "a2", OK), "none")
        self.verb("device", "add", "late", "--out", self.home / "late.id", "--pending")
        self.assertEqual(self.diagnose(port, "late"), "not_active")
        self.verb("device", "enable", "late")
        self.assertEqual(self.diagnose(port, "late", OK), "none")
        self.verb("device", "revoke", "a")
        self.assertEqual(self.diagnose(port, "a2"), "not_active")
        self.assertIn("for good", self.verb("device", "enable", "a", code=NOT_FOUND))
        self.assertEqual(server.stop(), OK)
        log = "".join(server.lines)
        for path in self.home.glob("*.id"):
            self.assertNotIn(re.search(r"^key = (.*)$", path.read_text(), re.M)[1], log)
        listed = [json.loads(line) for line in self.verb("device", "list", "--format", "json").splitlines()]
        self.assertEqual([(d["device"], d["state"], d["generation"]) for d in listed],
                         [("a", "revoked", 2), ("b", "active", 0), ("late", "active", 0)])

    def test_a_disabled_device_loses_its_live_session_and_comes_back(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        self.train(server, "a")
        server.wait_for("event=device_report device=a")
        self.verb("device", "disable", "a")
        server.wait_for("event=device_state device=a state=disabled")
        server.wait_for("event=tls_inactive_identity")
        told = (self.home / "a.log").read_text()
        self.assertIn("reason=inactive", told)
        self.assertNotIn("reason=revoked", told)
        self.verb("device", "enable", "a")
        server.wait_for("event=device_restored device=a")
        server.wait_for("event=device_report device=a")
        self.assertEqual(server.stop(), OK)

    def test_many_devices_from_a_file(self):
        names, folder = self.home / "names.csv", self.home / "ids"
        key = "0123456789abcdefABCDEF" + "00" * 21
        names.write_text(f"\ufeffname,key\nn1\nn2,{key}\n\n# a comment\nn3\r\n", encoding="utf-8")
        names.chmod(0o644)
        self.assertIn("chmod 600", self.verb("device", "import", names, "--out-folder", folder, code=FILE))
        names.chmod(0o600)
        self.assertIn("--out-folder", self.verb("device", "import", names, code=USAGE))
        said = self.verb("device", "import", names, "--out-folder", folder, "--pending")
        self.assertIn("devices=3 identity_files=2 state=pending", said)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["n1.identity", "n3.identity"])
        self.assertEqual(stat.S_IMODE((folder / "n1.identity").stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        (self.home / "n2.id").write_text(f"identity = n2\nkey = {key.lower()}\n")
        self.verb("device", "enable", "n2")
        server = self.serve()
        self.assertEqual(self.diagnose(server.port, "n2", OK), "none")
        self.assertEqual(server.stop(), OK)
        for text, message in ((f"x\nn2,{key}\n", "n2 is enrolled already; nothing"),
                              ("x\nx\n", ":2: x stands here twice, first in line 1"),
                              (f"x,{'00' * 32}\n", ":1: key: all of its digits are the same"),
                              (f"x,{'12' * 32}\ny\nz,{'12' * 32}\n", ":3: z has the key of x in line 1"),
                              (f"x,{key}\n", "x has the key of the enrolled device n2; give"),
                              (f"x;{key}\n", ":1: column 1: values are separated by semicolons"),
                              ("device,secret\nx\n", "head line"),
                              ("x\ny,12\n", ":2: key: expected 64"), ("a b\n", ":1: name: expected"),
                              ("a~1\n", ":1: name: expected"), ("", "names no device")):
            names.write_text(text)
            code = NOT_FOUND if "already" in message or "enrolled" in message else FILE
            said = self.verb("device", "import", names, "--out-folder", self.home / "new", code=code)
            self.assertIn(message, said)
            self.assertFalse((self.home / "new").exists())
            self.assertNotIn("y,12", said)
            self.assertNotIn(key, said)
        self.assertEqual(len(self.verb("device", "list").splitlines()), 3)
        names.write_text("x\n")
        said = self.verb("device", "import", names, "--out-folder", self.home / "no" / "new", code=FILE)
        self.assertIn(f"--out-folder {self.home}/no/new cannot be made: No such file or directory; nothing was", said)
        said = self.verb("device", "import", names, "--out-folder", names, code=FILE)
        self.assertIn("x.identity cannot be created: Not a directory; check its folder", said)

    def claim(self, server, name, stem=None, claim="batch", code=OK):
        """A client that has nothing but a claim: its output. server: None is nobody."""
        (self.home / "a.gsd").write_bytes(SHARD)
        port = server.port if server else 1
        words = [CLIENT, "--server", f"127.0.0.1:{port}", "--identity", self.home / f"{stem or name}.id",
                 "--claim", self.home / f"{claim}.id", "--name", name, "--data", self.home / "a.gsd", "--no-floors",
                 "--once", "--retry-ms", "20"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_a_claim_becomes_an_identity_of_its_own(self):
        self.enrol()
        said = self.verb("claim", "add", "batch", "--out", self.home / "batch.id", "--count-max", "2")
        self.assertIn("count_max=2", said)
        self.assertEqual(stat.S_IMODE((self.home / "batch.id").stat().st_mode), 0o600)
        self.assertIn("there already", self.verb("claim", "add", "batch", "--out", self.home / "x.id", code=NOT_FOUND))
        self.verb("claim", "add", "a~b", "--out", self.home / "x.id", code=USAGE)
        self.assertFalse((self.home / "x.id").exists())
        self.claim(None, "c", code=7)
        drawn = self.home / "drawn"
        shutil.copy(self.home / "c.id.claimed", drawn)
        server = self.serve()
        self.assertIn("event=claimed device=c", self.claim(server, "c"))
        server.wait_for("event=claim_granted device=c claim=1")
        own = self.home / "c.id"
        self.assertEqual(stat.S_IMODE(own.stat().st_mode), 0o600)
        self.assertFalse((self.home / "c.id.claimed").exists())
        self.assertEqual(self.diagnose(server.port, "c", OK), "none")
        self.assertIn("event=claim_refused reason=claim_used", self.claim(server, "c", "other", code=3),
                      "the name has a key already")
        shutil.copy(drawn, self.home / "again.id.claimed")  # the answer was lost
        self.claim_only(server, "c", "again")
        self.assertEqual((self.home / "again.id").read_text(), own.read_text())
        self.assertIn('state="open" count_used=1', self.verb("claim", "list"), "a repetition counts once")
        self.assertIn("event=claimed device=d", self.claim(server, "d"))
        self.assertIn('state="used up" count_used=2', self.verb("claim", "list"))
        self.assertRegex(self.claim(server, "e", code=3), 'claim_refused reason=claim_ended remedy=".*claim add NAME')
        words = ("--server", "127.0.0.1:1", "--identity", self.home / "batch.id", "--data", self.home / "a.gsd")
        wrong = subprocess.run([CLIENT, *words], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual(wrong.returncode, 3)
        self.assertIn("batch.id is a claim: give it as --claim", wrong.stderr)
        server.wait_for("event=claim_refused device=e claim=1 reason=claim_ended")
        self.assertIn("state=ended", self.verb("claim", "end", "batch"))
        shutil.copy(drawn, self.home / "late.id.claimed")
        self.claim_only(server, "c", "late")
        server.wait_for("event=tls_claim_ended")
        self.assertIn("event=claim_refused reason=claim_ended", self.claim(server, "f", code=3))
        told = self.run_program("doctor", f"127.0.0.1:{server.port}", "--identity", self.home / "batch.id",
                                code=NETWORK)
        self.assertIn("`claim add`", told)
        self.run_program("doctor", "127.0.0.1:1", "--identity", own, "--certificate", own, "--key", own, "--server-ca",
                         own, code=USAGE)
        self.verb("claim", "end", "nobody", code=NOT_FOUND)
        names = re.findall(r"device=(\w+)", self.verb("device", "list"))
        self.assertEqual(names, ["a", "b", "c", "d"])
        self.assertEqual(server.stop(), OK)
        log = "".join(server.lines)
        for path in self.home.glob("*.id*"):
            self.assertNotIn(re.search(r"^key = (.*)$", path.read_text(), re.M)[1], log)

    def claim_only(self, server, name, stem):
        """As claim(), of a device that has answered already: until it is claimed."""
        words = [CLIENT, "--server", f"127.0.0.1:{server.port}", "--identity", self.home / f"{stem}.id", "--claim",
                 self.home / "batch.id", "--name", name, "--data", self.home / "a.gsd", "--retry-ms", "20"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as client:
            try:
                self.assertIn("event=claimed", client.stderr.readline())
            finally:
                client.kill()

    def test_a_claim_that_waits_for_the_server_tells_the_service_manager_that_it_lives(self):
        self.enrol()
        self.verb("claim", "add", "batch", "--out", self.home / "batch.id")
        (self.home / "a.gsd").write_bytes(SHARD)
        with socket.socket() as nobody, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            nobody.bind(("127.0.0.1", 0))  # and does not listen
            manager.bind(str(self.home / "notify"))
            manager.settimeout(SECONDS_MAX)
            words = [CLIENT, "--server", f"127.0.0.1:{nobody.getsockname()[1]}", "--identity", self.home / "c.id",
                     "--claim", self.home / "batch.id", "--name", "c", "--data", self.home / "a.gsd"]
            environment = {**os.environ, "NOTIFY_SOCKET": str(self.home / "notify")}
            with subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment) as client:
                try:
                    self.assertEqual(manager.recv(100), b"READY=1\nWATCHDOG=1")
                finally:
                    client.kill()

    def test_claims_that_cannot_be(self):
        self.enrol()
        self.verb("claim", "add", "p", "--out", self.home / "p.id", "--pending")
        server = self.serve()
        self.assertIn("event=claimed", self.claim(server, "f", claim="p", code=7), "and then it is not let in")
        self.assertIn("device=f index=2 state=pending", self.verb("device", "list"))
        self.assertIn("expected 1 to 56", self.claim(server, "a b", "g", claim="p", code=2))
        self.assertIn("is no claim", self.claim(server, "g", claim="a", code=3))
        self.assertIn("cannot read", self.claim(server, "g", claim="nobody", code=3))
        (self.home / "h.id.claimed").write_text((self.home / "a.id").read_text())
        self.assertIn("under the name a", self.claim(server, "h", claim="p", code=3))
        text = (self.home / "p.id").read_text()
        (self.home / "p.id").write_text(re.sub("key = .*", "key = " + "00" * 32, text))
        self.assertIn("a key that nobody has drawn", self.claim(server, "k", claim="p", code=3))
        self.assertFalse((self.home / "k.id.claimed").exists(), "nothing is kept of a claim that none can use")
        (self.home / "p.id").write_text(re.sub("key = .*", "key = " + "11" * 32, text))
        self.claim(server, "k", claim="p", code=3)
        server.wait_for("event=tls_wrong_key")
        self.assertEqual(server.stop(), OK)
        self.assertEqual(len(self.verb("device", "list").splitlines()), 3)
        self.claim(server, "k", claim="p", code=7)  # nobody there
        self.assertTrue((self.home / "k.id.claimed").exists(), "the secret that it goes on with")

    def test_the_doctor_names_what_is_no_address(self):
        for target, part in (("https://h:7433", "'https://'"), ("h:0", "'0'"), ("h:99999", "'99999'"),
                             ("::1", "brackets"), ("[::1]", "port"), (":7433", "host"), (" h:7433", "blank")):
            said = self.run_program("doctor", target, code=USAGE)
            self.assertIn("HOST:PORT", said)
            self.assertIn(part, said)

    def test_the_doctor_names_each_cause(self):
        self.enrol()
        server, http_port = self.serve_watched("--set", "server.log_level=debug")  # session_left is of that level
        target = f"127.0.0.1:{server.port}"
        self.assertEqual(self.doctor(target), "unknown_identity")
        self.assertEqual(self.doctor(f"127.0.0.1:{http_port}"), "plain_text", "the server's own port for people")
        self.assertEqual(self.doctor(target, NETWORK, "--identity", self.home / "a.id", "--psk-ke"), "key_exchange")
        (self.home / "bad.id").write_text("identity = a\nkey = " + "00" * 32 + "\n")
        self.assertEqual(self.diagnose(server.port, "bad"), "wrong_key")
        (self.home / "bad.id").write_text("identity = a\nkey = 00\n")
        self.assertEqual(self.diagnose(server.port, "bad", FILE), "identity_file")
        self.assertEqual(self.diagnose(server.port, "none", FILE), "identity_file")
        self.assertEqual(server.stop(), OK)
        self.assertEqual(self.doctor(target), "nothing_listening")
        (self.home / "a.id").chmod(0o644)
        said = self.run_program("doctor", target, "--identity", self.home / "a.id", code=NETWORK)
        self.assertIn(f"warning: others may read the key in {self.home}/a.id: chmod 600", said)
        self.assertEqual(self.doctor("name.invalid:7433"), "dns")
        self.assertNotIn("event=session_left", "".join(server.lines))
        for wrong in ("here", "here:", ":7433", "::1:7433", "here:70000", "here:x"):
            self.run_program("doctor", wrong, code=USAGE)
        for answer, cause in ((b"SSH-2.0-x\r\n", "plain_text"), (b"", "closed"),
                              (b"\x15\x03\x03\x00\x02\x02\x46", "tls_version"),
                              (b"\x16\x03\x03\x40\x00" + bytes(2000), "record_too_large"), (None, "no_answer")):
            with socket.create_server(("127.0.0.1", 0)) as peer:
                thread = threading.Thread(target=self.answer_once, args=(peer, answer))
                thread.start()
                # The one that says nothing costs the whole deadline; the others need time to speak.
                deadline = ("--deadline-ms", "300") if answer is None else ()
                found = self.doctor(f"127.0.0.1:{peer.getsockname()[1]}", NETWORK, *deadline)
                thread.join()
                self.assertEqual(found, cause)

    @staticmethod
    def answer_once(peer, answer):
        """Takes one connection, says the answer and closes; None: says nothing until the other end closes."""
        with peer.accept()[0] as connection:
            connection.settimeout(SECONDS_MAX)
            connection.recv(4096)
            if answer is None:
                connection.recv(4096)
            else:
                connection.sendall(answer)

    def test_backup_and_restore(self):
        self.enrol()
        server = self.serve()
        server.wait_for("event=version version=0")
        copy, database = self.home / "copy.db", self.home / "test.db"
        self.assertIn(f"file={copy}", self.verb("backup", copy))
        self.assertEqual(stat.S_IMODE(copy.stat().st_mode), 0o600)
        self.assertEqual(copy.read_bytes()[18:20], b"\1\1", "no write-ahead log: its folder may be one to read only")
        self.assertEqual(list(self.home.glob("copy.db*")), [copy])
        self.assertIn("exists already", self.verb("backup", copy, code=FILE))
        self.verb("backup", self.home / "none" / "copy.db", code=FILE)
        self.assertIn("served by another server", self.verb("restore", copy, "--replace", code=DATABASE))
        self.assertEqual(server.stop(), OK)
        digest = re.search(r"digest=(\w+)", self.verb("status"))[1]
        self.verb("device", "add", "later", "--out", self.home / "later.id")
        self.assertIn("--replace", self.verb("restore", copy, code=DATABASE))
        self.refuse_what_is_no_copy(copy)
        self.assertIn("before=", self.verb("restore", copy, "--replace"))
        self.assertNotIn("device=later", self.verb("device", "list"))
        self.assertEqual(len(list(self.home.glob("test.db.before-*"))), 1)
        self.assertIn(f"digest={digest}", self.verb("status"))
        self.assertEqual(self.serve().stop(), OK)
        database.unlink()
        self.verb("restore", copy)
        self.assertIn("device=a", self.verb("device", "list"))

    def refuse_what_is_no_copy(self, copy):
        """What cannot be restored is named, and replaces nothing."""
        bad, whole = self.home / "bad.db", copy.read_bytes()
        with sqlite3.connect(self.home / "foreign.db") as foreign:
            foreign.execute("CREATE TABLE t (a)")
        foreign.close()
        for content, cause in ((b"no database" * 1000, "file is not a database"), (b"no", "file is not a database"),
                               (b"", "is empty"), (whole[:5000], "malformed|read ptrmap"), (whole[:50], "malformed"),
                               (whole[:4096] + bytes(4096) + whole[8192:], "malformed|read ptrmap"),
                               ((self.home / "foreign.db").read_bytes(), "belongs to another program")):
            bad.write_bytes(content)
            said = self.verb("restore", bad, "--replace", code=DATABASE)
            self.assertRegex(said, rf"{bad}\b.*({cause}).*; use another copy, one that `gradstream backup`")
            self.assertEqual(sorted(path.name for path in self.home.glob("test.db*")), ["test.db", "test.db.lock"])
        self.assertIn("cannot be read", self.verb("restore", self.home / "none.db", "--replace", code=FILE))
        self.assertIn("device=later", self.verb("device", "list"))

    def test_devices_come_back_to_a_copy_that_is_older_than_they_are(self):
        self.hurry(40)
        self.enrol()
        listen = ("--set", f"server.listen=127.0.0.1:{fleet.free_port()}")  # nobody takes it between two servers
        server = self.serve(*listen)
        self.train(server, "a", "b")
        server.wait_for("event=version version=10 ")
        copy, lineage = self.home / "copy.db", self.home / "m.json"
        self.verb("backup", copy)
        server.wait_for("event=version version=30 ")
        server.stop(signal.SIGKILL)  # without the windows of a drain
        self.verb("restore", copy, "--replace")
        again = self.serve(*listen)
        again.wait_for("event=device_ahead")
        again.wait_for("event=run_finished")
        self.assertEqual(again.stop(), OK)
        with sqlite3.connect(self.home / "test.db") as database:
            twice = database.execute("SELECT count(*) FROM journal WHERE kind=2 GROUP BY device, task_sequence "
                                     "HAVING count(*) > 1").fetchall()
            counted = database.execute("SELECT count(*) FROM journal WHERE kind=2").fetchone()
        database.close()
        self.assertEqual((twice, counted), ([], (80,)), "forty versions of two updates, each once")
        self.verb("run", "export", "--out", lineage)
        self.assertIn("state=proven", self.verb("run", "export", "--check", "--out", lineage))

    def test_a_database_of_the_first_release_goes_on(self):
        """tests/server/format_1.sql: a finished run, and one whose server was killed in its fourth round of six."""
        path, lineage = self.home / "test.db", self.home / "m.json"
        with sqlite3.connect(path) as database:
            database.executescript((ROOT / "tests" / "server" / "format_1.sql").read_text())
            digests = database.execute("SELECT run, version, digest FROM journal WHERE kind=4").fetchall()
            keys = dict(database.execute("SELECT name, key FROM devices"))
        database.close()
        path.chmod(0o600)
        for name in ("a", "b"):
            (self.home / f"{name}.id").write_text(f"identity = {name}\nkey = {keys[name].hex()}\n")
        head = self.config.read_text().split("[run]")[0]
        self.config.write_text(head + """[run]
name = "streams"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = 2
local_step_count = 2
device_count = 2
round_count = 6
retry_min_ms = 1
retry_max_ms = 5
""")
        for run, version, digest in digests:
            said = self.verb("run", "export", "--run", run, "--version", version, "--out", lineage)
            self.assertIn("state=written", said)
            model = json.loads(lineage.read_text())["model"]
            self.assertEqual(model["digest"], f"{digest % 2**64:016x}", f"run {run} version {version}")
        server = self.serve()
        self.assertIn("version=3", server.wait_for("event=run_recovered"))
        self.train(server, "a", "b")
        server.wait_for("event=run_finished")
        self.assertEqual(server.stop(), OK)
        self.verb("run", "export", "--out", lineage)
        versions = json.loads(lineage.read_text())["versions"]
        self.assertEqual([version["version"] for version in versions], list(range(7)))
        self.assertEqual([version["digest"] for version in versions[:4]],
                         [f"{digest % 2**64:016x}" for run, _, digest in digests if run == 2])
        self.assertIn(("a", 19), [(update["device"], update["sequence"]) for update in versions[4]["from"]],
                      "what the first release had taken in counts")
        with sqlite3.connect(path) as database:
            weights = database.execute("SELECT version, weight FROM journal WHERE run=2 AND kind=2 AND version>3 "
                                       "ORDER BY sequence").fetchall()
            clips = database.execute("SELECT count(*) FROM journal WHERE run=2 AND kind=4 "
                                     "AND length(notes)>0").fetchone()
        database.close()
        self.assertEqual(weights, [(version, 4) for version in (4, 5, 6) for _ in "ab"], "as many as it has samples")
        self.assertEqual(clips, (0,), "no version has a clip")
        self.verb("run", "export", "--check", "--out", lineage)

    def test_the_wall_clock_is_read_in_four_places(self):
        """All else is by the steady clock: a system clock that jumps ends no session, deadline or window."""
        readers = [path.name for folder in ("server", "runtime", "firmware", "boards")
                   for path in sorted((ROOT / folder).rglob("*.cc"))
                   if re.search(r"system_clock|CLOCK_REALTIME|\btime\(", path.read_text())]
        self.assertEqual(readers, ["engine_findings.cc", "commands.cc", "server.cc", "console.cc"])
        findings = (ROOT / "server" / "postgresql" / "engine_findings.cc").read_text()
        self.assertEqual(findings.count("system_clock"), 1, "compared with the engine's, for people")
        console = (ROOT / "boards" / "posix" / "console.cc").read_text()
        self.assertEqual(console.count("CLOCK_REALTIME"), 1, "of log lines, and of nothing else")
        server = (ROOT / "server" / "program" / "server.cc").read_text()
        self.assertEqual(server.count("system_clock"), 1, "once, at the start")

    def http(self, port, path, headers=None):
        """Status and text of a GET."""
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def serve_watched(self, *arguments):
        server = self.serve("--set", "server.http_listen=127.0.0.1:0", *arguments)
        return server, int(re.search(r" port=(\d+)", server.wait_for("event=http_listening"))[1])

    def test_what_the_http_port_shows(self):
        self.enrol()
        server, port = self.serve_watched()
        server.wait_for("event=version version=0")
        for path, expected in (("/healthz", "ok\n"), ("/readyz", "ready\n")):
            self.assertEqual(self.http(port, path), (200, expected))
        status = until(lambda: json.loads(self.http(port, "/status")[1]), lambda status: status["run"]["has_version"])
        self.assertEqual((status["run"]["state"], status["run"]["version"]), ("active", 0))
        self.assertEqual(status["devices"], {"pending": 0, "active": 2, "disabled": 0, "revoked": 0})
        devices = json.loads(self.http(port, "/status/devices")[1])["devices"]
        self.assertEqual([device["device"] for device in devices], ["a", "b"])
        self.assertEqual(self.http(port, "/test.db")[0], 404)
        key = re.search(r"^key = (.*)$", (self.home / "a.id").read_text(), re.M)[1]
        told = "".join(self.http(port, path)[1] for path in ("/metrics", "/status", "/status/devices"))
        self.assertNotIn(key, told)
        asked = ("status", "--alive", "--set", f"server.http_listen=127.0.0.1:{port}")
        self.assertEqual(self.verb(*asked), f'address="127.0.0.1:{port}" alive=yes\n')
        self.assertEqual(server.stop(), OK)
        self.assertIn("no server answers /healthz", self.verb(*asked, code=NETWORK))
        self.assertIn("asks the port of server.http_listen", self.verb("status", "--alive", code=CONFIG))

    def test_http_and_devices_share_a_small_limit_of_open_files(self):
        self.enrol()
        self.hurry(3)
        server = Server("--config", str(self.config), "--set", "server.http_listen=127.0.0.1:0",
                        prefix=("prlimit", "--nofile=30"))
        self.addCleanup(lambda: server.child.poll() is None and server.child.kill())
        short = [line for line in server.lines if "event=descriptors_short" in line]
        self.assertEqual(len(short), 1, server.lines)
        self.assertIn("limit=30", short[0])
        self.assertEqual(len([line for line in server.lines if "event=fleet_over_cap" in line]), 1, server.lines)
        port = int(re.search(r" port=(\d+)", server.wait_for("event=http_listening"))[1])
        silent = [socket.create_connection(("127.0.0.1", server.port), SECONDS_MAX) for _ in range(20)]
        for peer in silent:
            self.addCleanup(peer.close)
        for _ in range(3):
            self.assertEqual(self.http(port, "/healthz")[0], 200)
        self.train(server, "a", "b")
        server.wait_for("event=run_finished")
        self.assertEqual(server.stop(), OK)
        self.assertIn(" accept_failures=0 ", "".join(server.lines))

    def test_devices_train_through_a_flood_that_says_nothing_at_few_descriptors(self):
        self.enrol()
        self.hurry(3)
        server = Server("--config", str(self.config), prefix=("prlimit", "--nofile=40"))
        self.addCleanup(lambda: server.child.poll() is None and server.child.kill())
        is_over = threading.Event()

        def flood():
            held = []
            while not is_over.is_set():
                peer = socket.socket()
                peer.setblocking(False)
                peer.connect_ex(("127.0.0.1", server.port))
                held.append(peer)
                if len(held) > 300:
                    held.pop(0).close()
                is_over.wait(0.001)
            for peer in held:
                peer.close()
        pouring = threading.Thread(target=flood)
        pouring.start()
        try:
            self.train(server, "a", "b")
            server.wait_for("event=run_finished")
        finally:
            is_over.set()
            pouring.join()
        self.assertEqual(server.stop(), OK)
        log = "".join(server.lines)
        self.assertIn(" accept_failures=0 ", log)
        self.assertNotIn("raise server.limits.handshake_count_max", log)

    def test_the_http_port_beyond_loopback_needs_a_token(self):
        text = self.verb("serve", "--set", "server.http_listen=0.0.0.0:0", code=CONFIG)
        self.assertIn("server.http_token_file", text)
        token = self.home / "token"
        token.write_text("0123456789abcdef0123\n")
        words = ("--set", "server.http_listen=0.0.0.0:0", "--set", f"server.http_token_file={token}")
        token.chmod(0o644)
        self.assertIn("chmod 600", self.verb("serve", *words, code=FILE))
        token.chmod(0o600)
        server, port = self.serve_watched(*words)
        self.assertEqual(self.http(port, "/metrics")[0], 401)
        self.assertEqual(self.http(port, "/metrics", {"Authorization": "Bearer 0123456789abcdef0124"})[0], 401)
        self.assertEqual(self.http(port, "/healthz", {"Authorization": "Bearer 0123456789abcdef0123"})[0], 200)
        token.write_text("another-token-of-20c\n")
        server.child.send_signal(signal.SIGHUP)
        self.assertIn("http_token=read", server.wait_for("event=reloaded"))
        self.assertEqual(self.http(port, "/healthz", {"Authorization": "Bearer 0123456789abcdef0123"})[0], 401)
        self.assertEqual(self.http(port, "/healthz", {"Authorization": "Bearer another-token-of-20c"})[0], 200)
        token.write_text("short\n")
        server.child.send_signal(signal.SIGHUP)
        self.assertIn("16 to 200", server.wait_for("event=reload_failed"))
        self.assertIn("http_token=kept", server.wait_for("event=reloaded"))
        self.assertEqual(self.http(port, "/healthz", {"Authorization": "Bearer another-token-of-20c"})[0], 200)
        self.assertEqual(server.stop(), OK)
        self.assertIn("event=http_refused reason=token", "".join(server.lines))
        self.assertNotIn("0123456789abcdef0123", "".join(server.lines))
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            text = self.verb("serve", "--set", f"server.http_listen=127.0.0.1:{port}", code=NETWORK)
        self.assertIn("set server.http_listen to another one", text)

    def test_the_operators_files_name_metrics_that_exist(self):
        self.enrol()
        server, port = self.serve_watched()
        code, text = until(lambda: self.http(port, "/metrics"), lambda answer: answer[0] == 200)
        self.assertEqual(code, 200)
        self.assertEqual(server.stop(), OK)
        there = set(re.findall(r"(?m)^# TYPE (\w+) ", text))
        later = {"gradstream_version_timestamp_seconds", "gradstream_round_loss",  # of the first round that closes
                 "gradstream_quality", "gradstream_quality_loss", "gradstream_quality_version",  # of an evaluation
                 "gradstream_quality_devices", "gradstream_quality_samples"}
        told = set(re.findall(r"(?m)^\| `(\w+)(?:\{\w+\})?` \|", (REFERENCE / "metrics.md").read_text()))
        told &= there | later
        self.assertGreater(len(told), 15)
        sources = "".join((ROOT / "server" / name).read_text() for name in COUNTER_HEADERS)
        counters = {f"gradstream_{key}_total" for key in re.findall(r'visit\("(\w+)"', sources)}
        self.assertEqual((there | later) - counters - told, set(), "not told by docs/reference/metrics.md")
        self.assertEqual(counters - there, set())
        dashboard = json.loads((ROOT / "operations" / "grafana_dashboard.json").read_text())
        alerts = (ROOT / "operations" / "prometheus_alerts.yaml").read_text()
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        expressions += re.findall(r"(?m)^        expr: >-\n          (.+)$", alerts)
        self.assertEqual(len(re.findall("- alert:", alerts)), len(re.findall("expr:", alerts)))
        self.assertGreater(len(expressions), 30)
        for expression in expressions:
            names = set(re.findall(r"\b((?:gradstream|process)_\w+)", expression))
            self.assertEqual(names - there - later, set(), expression)
            self.assertTrue(names or "up{" in expression, expression)
            for state in re.findall(r'state="(\w+)"', expression):
                self.assertIn(f'state="{state}"', text)
            for word in "|".join(re.findall(r'\bid!~"([\w|]+)"', expression)).split("|"):
                self.assertTrue(not word or f'id="{word}"' in text, word)
            for reason in re.findall(r'reason=~"([\w|]+)"', expression):
                for word in reason.split("|"):
                    self.assertIn(f'reason="{word}"', text)
            self.assertEqual([expression.count(c) for c in "({["], [expression.count(c) for c in ")}]"])

    def test_the_page_shows_every_refusal_of_a_peer(self):
        counters = set()
        for header in COUNTER_HEADERS:
            counters |= set(re.findall(r'visit\("(\w+)"', (ROOT / "server" / header).read_text()))
        page = (ROOT / "server" / "watch" / "page" / "page.js").read_text()
        peers = set(re.findall(r"(?m)^  (\w+): '", re.search(r"const PEERS = \{(.*?)\n\};", page, re.S)[1]))
        # What is no refusal of a peer: work done, bytes, the server's own troubles; updates and tasks have the list of
        # reasons.
        others = {"connections_accepted", "accept_failures", "sessions_established", "devices_registered",
                  "frames_received", "frames_sent", "wire_bytes_received", "wire_bytes_sent", "store_failures",
                  "fault_lines_dropped", "places_yielded", "sessions_renewed", "balancer_checks",
                  "claims_granted", "keys_changed",
                  "updates_folded", "updates_late", "updates_partial", "updates_refused",
                  "updates_without_time", "updates_loss_not_finite", "updates_clipped", "lines_not_finite",
                  "evaluations_not_finite", "updates_still", "steps_clamped",
                  "curves_antiparallel", "updates_duplicate", "updates_superseded", "tasks_issued", "tasks_abandoned",
                  "tasks_refused", "rounds_closed", "rounds_extended", "snapshots_sent", "records_sent", "steps_failed",
                  "lines_dropped", "drifts"}
        self.assertEqual(peers & others, set())
        self.assertEqual(peers | others, counters)

    @unittest.skipUnless(PROMTOOL.exists(), "no promtool in third_party/prometheus: ./run setup fetches it")
    def test_prometheus_own_tool_takes_the_operators_files_and_the_metrics(self):
        def promtool(*words, **options):
            done = subprocess.run([PROMTOOL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=SECONDS_MAX, check=False, **options)
            return done.returncode, done.stdout

        alerts = ROOT / "operations" / "prometheus_alerts.yaml"
        count = len(re.findall("- alert:", alerts.read_text()))
        code, said = promtool("check", "rules", alerts)
        self.assertEqual((code, f"SUCCESS: {count} rules found" in said), (0, True), said)
        # A dashboard's expressions, with Grafana's variables filled in, as rules: what Prometheus would be asked.
        dashboard = json.loads((ROOT / "operations" / "grafana_dashboard.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        rules = self.home / "dashboard.json"  # JSON is YAML
        rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": [
            {"record": f"panel:{i}", "expr": expression.replace("$__rate_interval", "5m")}
            for i, expression in enumerate(expressions)]}]}))
        code, said = promtool("check", "rules", rules)
        self.assertEqual((code, f"SUCCESS: {len(expressions)} rules found" in said), (0, True), said)
        self.enrol()
        server, port = self.serve_watched()
        server.wait_for("event=version version=0")
        code, text = self.http(port, "/metrics")
        self.assertEqual(code, 200)
        self.assertEqual(promtool("check", "metrics", input=text), (0, ""))
        wrong = text.replace("_total", "_sum")  # a tool that is happy with anything would be no test
        self.assertNotEqual(promtool("check", "metrics", input=wrong)[0], 0)
        self.assertEqual(server.stop(), OK)

    def openssl(self, *words):
        words = ["openssl", *map(str, words)]
        subprocess.run(words, cwd=self.home, capture_output=True, timeout=SECONDS_MAX, check=True)

    def make_certificates(self):
        """As docs/how-to/certificates.md says it: a CA, the server's certificate and that of the device `kitchen`."""
        commands = re.search(r"```\n(openssl ecparam.*?)```", (HOW_TO / "certificates.md").read_text(), re.S)[1]
        subprocess.run(["sh", "-ec", commands.replace("DNS:HOST", "DNS:localhost")], cwd=self.home, capture_output=True,
                       timeout=SECONDS_MAX, check=True)
        self.set_server_keys(device_ca_file="ca.pem", certificate_file="server.pem", certificate_key_file="server.key")

    def set_server_keys(self, **files):
        lines = "".join(f'{key} = "{self.home / name}"\n' for key, name in files.items())
        self.config.write_text(self.config.read_text().replace("[server]\n", "[server]\n" + lines))

    def sign(self, name, begin="20200101000000Z", end="20991231235959Z", authority="ca"):
        """A certificate with dates, for the device kitchen's key."""
        (self.home / "index.txt").write_text("")
        (self.home / "ca.cnf").write_text("[ca]\ndefault_ca = one\n[one]\ndatabase = index.txt\nnew_certs_dir = .\n"
                                          "rand_serial = yes\ndefault_md = sha256\npolicy = any\n[any]\n"
                                          "commonName = supplied\n")
        self.openssl("ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", f"{authority}.pem", "-keyfile",
                     f"{authority}.key", "-in", "kitchen.csr", "-startdate", begin, "-enddate", end, "-out",
                     f"{name}.pem")

    def renew(self, host):
        """Another key and certificate of the server, for this name."""
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "server.key")
        self.openssl("req", "-new", "-key", "server.key", "-subj", "/CN=server", "-addext",
                     f"subjectAltName=DNS:{host}", "-addext", "keyUsage=digitalSignature", "-addext",
                     "extendedKeyUsage=serverAuth", "-out", "server.csr")
        self.openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                     "-days", "825", "-copy_extensions", "copy", "-out", "server.pem")

    def certificate(self, name="kitchen"):
        return ("--certificate", self.home / f"{name}.pem", "--key", self.home / "kitchen.key", "--server-ca",
                self.home / "ca.pem", "--server-name", "localhost")

    def start_client(self, server, *identity):
        (self.home / "a.gsd").write_bytes(SHARD)
        words = [CLIENT, "--server", f"127.0.0.1:{server.port}", "--data", self.home / "a.gsd", "--until-finished",
                 "--no-floors", "--retry-ms", "20", *identity]
        client = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: client.poll() is None and client.kill())
        return client

    @unittest.skipUnless(shutil.which("openssl"), "needs the openssl program")
    def test_certificates_and_keys_train_one_model(self):
        self.make_certificates()
        self.verb("device", "add", "a", "--out", self.home / "a.id")
        server = self.serve()
        target = f"localhost:{server.port}"
        self.assertEqual(self.doctor(target, NETWORK, *self.certificate()), "not_active")
        self.assertIn("device=kitchen index=1 state=pending", server.wait_for("event=device_registered"))
        self.assertIn("state=pending", self.verb("device", "list"))
        self.verb("device", "enable", "kitchen")
        server.wait_for("event=device_restored")
        self.assertEqual(self.doctor(target, OK, *self.certificate()), "none")
        clients = [self.start_client(server, "--identity", self.home / "a.id"),
                   self.start_client(server, *self.certificate())]
        digest = re.search(r"digest=(\w+)", server.wait_for("event=round_closed version=3"))[1]
        for client, tls in zip(clients, ("psk_dhe_ke", "certificate")):
            said = client.communicate(timeout=SECONDS_MAX)[1]
            self.assertIn(f"event=finished version=3 digest={digest}", said)
            self.assertIn(f"event=connected tls={tls}", said)
        self.verb("device", "revoke", "kitchen")
        server.wait_for("event=device_state device=kitchen state=revoked")
        self.assertEqual(self.doctor(target, NETWORK, *self.certificate()), "not_active")
        self.assertIn("identity=kitchen", server.wait_for("event=tls_revoked_identity"))
        self.assertEqual(server.stop(), OK)

    @unittest.skipUnless(shutil.which("openssl"), "needs the openssl program")
    def test_certificates_that_are_refused(self):
        self.make_certificates()
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                     "foreign.key", "-subj", "/CN=foreign", "-out", "foreign.pem")
        self.sign("expired", end="20210101000000Z")
        self.sign("early", begin="20980101000000Z")
        self.sign("foreign_device", authority="foreign")
        self.enrol()
        server = self.serve("--set", "server.limits.registration_device_count_max=2")
        target = f"localhost:{server.port}"
        for name, cause, event in (("expired", "certificate_expired", "tls_certificate_expired"),
                                   ("early", "certificate_expired", "tls_certificate_not_yet_valid"),
                                   ("foreign_device", "certificate_foreign", "tls_certificate_foreign"),
                                   ("kitchen", "registration_limit", "tls_registration_limit")):
            self.assertEqual(self.doctor(target, NETWORK, *self.certificate(name)), cause)
            self.assertIn("identity=kitchen", server.wait_for(f"event={event}"))
        with self.start_client(server, *self.certificate("expired")) as client:
            said = iter(client.stderr.readline, "")
            self.assertIn("has expired", next(line for line in said if "event=link_lost" in line))
            client.kill()
        self.assertEqual(self.doctor(target, NETWORK, *self.certificate()[:-1], "elsewhere"), "server_certificate")
        server.wait_for("event=tls_server_untrusted")
        (self.home / "server.key").write_text((self.home / "kitchen.key").read_text())
        server.child.send_signal(signal.SIGHUP)
        self.assertIn("server.key is not the key of the certificate", server.wait_for("event=reload_failed"))
        self.assertIn("certificates=kept", server.wait_for("event=reloaded"))
        self.assertIn("server.key is not the key", self.verb("serve", "--check-config", code=FILE))
        self.assertIn("server.key is not the key", self.verb("serve", code=FILE))
        renewed = (*self.certificate()[:-1], "renewed")
        self.assertEqual(self.doctor(target, NETWORK, *renewed), "server_certificate")
        self.renew("renewed")
        (self.home / "server.key").chmod(0o640)
        server.child.send_signal(signal.SIGHUP)
        self.assertIn("server.key can be read by others", server.wait_for("event=reload_failed"))
        self.assertIn("certificates=kept", server.wait_for("event=reloaded"))
        self.assertIn("chmod 600", self.verb("serve", "--check-config", code=FILE))
        self.assertIn("chmod 600", self.verb("serve", code=FILE))
        (self.home / "server.key").chmod(0o600)
        server.child.send_signal(signal.SIGHUP)
        self.assertIn("certificates=read", server.wait_for("event=reloaded"))
        self.assertEqual(self.doctor(target, NETWORK, *renewed), "registration_limit", "the new certificate counts")
        self.assertEqual(server.stop(), OK)
        counted = r"certificates_expired=[2-9]\d* certificates_early=1 certificates_foreign=1"
        self.assertRegex("".join(server.lines), counted)
        self.assertEqual(self.doctor(target, FILE, *self.certificate("nothing")), "certificate_file")
        told = self.verb("serve", "--check-config", "--set", 'server.certificate_file=""', code=CONFIG)
        self.assertIn("belong together", told)
        self.assertIn("off, pending or active",
                      self.verb("serve", "--check-config", "--set", "server.device_registration=on", code=CONFIG))

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


def load_tests(loader, _tests, _pattern):
    """What unittest runs. Neighbours resemble each other and take about as long: each part has every PARTS-th."""
    return unittest.TestSuite(map(Commands, loader.getTestCaseNames(Commands)[PART::PARTS]))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    CLIENT = sys.argv.pop(1)
    if sys.argv[1:2] and sys.argv[1].isdigit():
        PART, PARTS = int(sys.argv.pop(1)) - 1, int(sys.argv.pop(1))
        assert 0 <= PART < PARTS, "PART is from 1 to OF"
    unittest.main()
