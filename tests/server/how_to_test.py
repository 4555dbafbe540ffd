#!/usr/bin/python3
"""The commands of docs/how-to/ as they stand there: enrol.md, certificates.md, run.md, watch.md, connect.md,
quality.md, trace.md, audit.md and back_up.md.

    how_to_test.py PROGRAM CLIENT

A command is looked up on its page, so that one that a page no longer has fails. Host, ports and folders are put in.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "how-to"
PROGRAM = None
CLIENT = None
SECONDS_MAX = 60
# 32 samples of 8 values: enough for the floors of a client.
SHARD = struct.pack("<4sIIf", b"GSD1", 32, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32)) * 8
FLEET = """
[server]
listen = "127.0.0.1:0"
database = "{home}/fleet.db"
[server.limits]
close_deadline_ms = 300
[run]
name = "fleet"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = 4
device_count = 1
round_count = 3
retry_min_ms = 5
retry_max_ms = 15
"""


def block(page, first):
    """The lines of the page's block of code that begins with these words; without comments."""
    for text in re.findall(r"(?ms)^```\w*\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8")):
        if text.startswith(first):
            return [line.split("  #")[0].strip() for line in text.splitlines()]
    raise AssertionError(f"{page} has no block that begins with `{first}`")


class Program:
    """One that goes on until it is ended; lines of its log."""

    def __init__(self, test, command):
        self.child = subprocess.Popen(shlex.split(command), cwd=test.home, env=test.environment, text=True,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        test.addCleanup(self.end)

    def wait_for(self, text):
        watchdog = threading.Timer(SECONDS_MAX, self.child.kill)
        watchdog.start()
        seen = []
        try:
            for line in self.child.stderr:
                seen.append(line)
                if text in line:
                    return line
        finally:
            watchdog.cancel()
        raise AssertionError(f"no {text!r} in:\n" + "".join(seen))

    def port(self, event):
        return re.search(r"port=(\d+)", self.wait_for(f"event={event} "))[1]

    def end(self):
        if not self.child.stderr.closed:
            self.child.send_signal(signal.SIGTERM)
            self.child.communicate(timeout=SECONDS_MAX)
        return self.child.returncode


class HowTo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        (self.home / "bin").mkdir()
        (self.home / "bin" / "gradstream").symlink_to(PROGRAM)
        (self.home / "bin" / "gradstream-client").symlink_to(CLIENT)
        (self.home / "fleet.toml").write_text(FLEET.format(home=self.home), encoding="utf-8")
        (self.home / "kitchen.gsd").write_bytes(SHARD)
        self.environment = {"PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
                            "GRADSTREAM_CONFIG": str(self.home / "fleet.toml")}
        self.environment |= {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}

    def provide_xxd(self):
        """What the page does with it, where the machine has none."""
        if not shutil.which("xxd"):
            (self.home / "bin" / "xxd").write_text(
                "#!/usr/bin/python3\nimport sys\nsys.stdout.buffer.write(bytes.fromhex(sys.stdin.read()))\n",
                encoding="utf-8")
            (self.home / "bin" / "xxd").chmod(0o755)

    def shell(self, command):
        done = subprocess.run(["/bin/sh", "-e", "-c", command], cwd=self.home, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX, check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")
        return done.stdout

    def told(self, page, command, **values):
        """Runs a command that stands within a sentence or a table of the page."""
        text = " ".join((PAGES / page).read_text(encoding="utf-8").split())
        self.assertIn(f"`{command}`", text, page)
        for name, value in values.items():
            command = command.replace(name, str(value))
        return self.shell(command)

    def test_from_nothing_to_a_run_and_its_model(self):
        check, add, start, serve, train = block("run.md", "gradstream serve --check-config")
        for command in (check, add, start):
            self.shell(command)
        server = Program(self, serve)
        address = f"127.0.0.1:{server.port('listening')}"
        self.assertIn(" HOST:7433 ", train)
        self.told("connect.md", "gradstream doctor HOST:PORT --identity kitchen.identity", **{"HOST:PORT": address})
        client = Program(self, train.replace("HOST:7433", address).replace("/var/lib", str(self.home)))
        server.wait_for("event=run_finished")
        self.assertEqual(client.end(), 0)
        self.assertIn("served=yes", self.told("watch.md", "gradstream status --config fleet.toml"))
        self.told("watch.md", "gradstream run list --config fleet.toml")
        self.assertIn("quality_loss", self.told("quality.md", "gradstream history"))
        self.told("trace.md", "gradstream run export --out first.json")
        self.told("trace.md", "gradstream run export --check --out first.json")
        self.told("run.md", "gradstream model export --config fleet.toml --version latest --format npy --out model.npy")
        self.assertGreater((self.home / "model.npy").stat().st_size, 8 * 2 * 4)
        self.told("back_up.md", "gradstream backup FILE", FILE="copy.db")
        self.assertEqual(server.end(), 0)
        (self.home / "fleet.db").unlink()
        self.told("back_up.md", "gradstream restore FILE", FILE="copy.db")
        self.assertIn("state=finished", self.told("watch.md", "gradstream status --config fleet.toml"))

    def test_the_life_of_a_run_and_its_port_for_monitors(self):
        self.shell("gradstream device add kitchen --out kitchen.identity")
        for verb in ("start", "pause", "resume"):
            self.told("run.md", f"gradstream run {verb}")
        serve, = block("watch.md", "gradstream serve --config")
        ask, = block("watch.md", "curl http")
        server = Program(self, serve.replace("127.0.0.1:7434", "127.0.0.1:0"))
        port = server.port("http_listening")
        if shutil.which("curl"):
            status = json.loads(self.shell(f"{ask.replace(':7434', ':' + port)} --silent"))
            self.assertEqual(status["run"]["name"], "fleet")
        self.told("run.md", "gradstream run stop")
        server.wait_for("event=run_stopped")

    def test_a_journal_that_is_proven_and_a_device_that_is_forgotten(self):
        self.shell("gradstream device add kitchen --out kitchen.identity")
        server = Program(self, "gradstream serve")
        client = Program(self, f"gradstream-client --server 127.0.0.1:{server.port('listening')} --identity "
                               "kitchen.identity --data kitchen.gsd --state kitchen")
        server.wait_for("event=run_finished")
        self.assertEqual(client.end(), 0)
        for command in block("audit.md", "gradstream run head-key"):
            self.shell(command)
        verify = "gradstream run verify --head kept.head --public head.key.pub"
        self.assertIn("state=contained", self.told("audit.md", verify))
        self.provide_xxd()
        self.assertIn("Verified OK", self.shell("\n".join(block("audit.md", "sed 's/ signature"))))
        self.assertEqual(server.end(), 0)
        self.assertIn("forgotten=3 ", self.told("audit.md", "gradstream run forget --device NAME", NAME="kitchen"))
        proven = self.told("audit.md", verify)
        self.assertIn("state=contained", proven)
        self.assertIn("checkpoints=1 forgotten=3 forgotten_devices=kitchen", proven)
        for verb in ("run export --out gone.json", "model export --version 0 --out gone.npy"):
            done = subprocess.run(shlex.split(f"gradstream {verb}"), cwd=self.home, env=self.environment,
                                  check=False, text=True, stderr=subprocess.PIPE, timeout=SECONDS_MAX)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn("were forgotten (gradstream run forget)", done.stderr)
        # A run whose state is made of last updates keeps them, and no other run waits for it.
        self.shell("gradstream run start --set run.correction_form=memory --set run.clip_norm=none")
        done = subprocess.run(shlex.split("gradstream run forget --device kitchen"), cwd=self.home, check=False,
                              env=self.environment, text=True, capture_output=True, timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("run=1 device=kitchen forgotten=0", done.stdout)
        self.assertIn("run 2 has correction_form memory", done.stderr)
        with contextlib.closing(sqlite3.connect(self.home / "fleet.db")) as database, database:
            database.execute("DELETE FROM journal WHERE sequence=(SELECT max(sequence) FROM journal)")
        done = subprocess.run(shlex.split(verify), cwd=self.home, env=self.environment, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 12, done.stdout)

    def test_one_device_or_a_list(self):
        (self.home / "names.csv").write_text(f"cellar\nroof,{'5a' * 32}\n", encoding="utf-8")
        (self.home / "names.csv").chmod(0o600)
        (self.home / "identities").mkdir()
        said = [self.shell(command) for command in block("enrol.md", "gradstream device add")]
        states = {row["device"]: row["state"] for row in map(json.loads, said[-2].splitlines())}
        self.assertEqual(states, {"kitchen": "disabled", "cellar": "active", "roof": "active"})
        self.assertIn("device=kitchen index=0 state=disabled", said[-1])
        self.assertIn("kitchen~", (self.home / "kitchen.new").read_text(encoding="utf-8"))
        self.told("certificates.md", "gradstream device enable kitchen")
        self.told("certificates.md", "gradstream device revoke kitchen")

    def test_certificates(self):
        make = block("certificates.md", "openssl ecparam")
        self.shell("\n".join(make).replace("DNS:HOST", "DNS:localhost"))
        (self.home / "server.key").chmod(0o600)
        keys = "\n".join(block("certificates.md", "device_ca_file")).replace("/etc/gradstream", str(self.home))
        text = FLEET.format(home=self.home).replace("[server]\n", f"[server]\n{keys}\n", 1)
        (self.home / "fleet.toml").write_text(text, encoding="utf-8")
        self.shell("gradstream device add kitchen --out unused.identity")
        train, = block("certificates.md", "gradstream-client --server")
        server = Program(self, "gradstream serve")
        client = Program(self, train.replace("HOST:7433", f"localhost:{server.port('listening')}"))
        server.wait_for("event=round_closed version=1")
        self.assertEqual(client.end(), 0)

    def test_a_batch_that_enrols_itself(self):
        add, join, show, end = block("enrol.md", "gradstream claim add")
        self.shell(add)
        server = Program(self, "gradstream serve")
        client = Program(self, join.replace("HOST:7433", f"127.0.0.1:{server.port('listening')}"))
        server.wait_for("event=claim_granted")
        server.wait_for("event=round_closed version=1")
        self.assertEqual(client.end(), 0)
        self.assertIn("spring", self.shell(show))
        self.shell(end)
        self.assertTrue((self.home / "kitchen.identity").is_file())


if __name__ == "__main__":
    PROGRAM, CLIENT = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
