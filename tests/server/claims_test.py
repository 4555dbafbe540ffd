"""Claims between real programs: a client that is killed before each of its steps, and others who hold the claim's file.

usage: claims_test.py GRADSTREAM GRADSTREAM_CLIENT     with GS_KILL_SHIM: tests/support/kill_at.cc, built
"""

import contextlib
import os
import pathlib
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tools")]
import row_sums  # noqa: E402
from fleet import free_port  # noqa: E402

SHIM = os.environ.get("GS_KILL_SHIM")
PROGRAM, CLIENT = None, None
SECONDS_MAX = 30
STEPS_MAX = 100  # of a client, in calls that the shim counts; it makes about 15
REFUSED, NOT_PROVEN = 3, 5
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))
CONFIG_TEXT = """
[server]
listen = "127.0.0.1:0"
database = "{home}/gs.db"
export_dir = "{home}"
allow_psk_ke = true
[run]
name = "test"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
direction_count = 4
device_count = 1000
round_count = 3
"""


class Fleet:
    """A server with a database of its own."""

    def __init__(self, home):
        self.home = home
        home.mkdir()
        self.config = home / "test.toml"
        self.config.write_text(CONFIG_TEXT.format(home=home))
        self.child, self.port, self.lines = None, None, []

    def verb(self, *words):
        return subprocess.run([PROGRAM, *map(str, words), "--config", self.config], check=True, capture_output=True,
                              text=True, timeout=SECONDS_MAX).stdout

    def start(self):
        self.child = subprocess.Popen([PROGRAM, "serve", "--create", "--config", self.config], stderr=subprocess.PIPE,
                                      text=True)
        watchdog = threading.Timer(SECONDS_MAX, self.child.kill)
        watchdog.start()
        for line in self.child.stderr:
            if "event=listening" in line:
                break
        watchdog.cancel()
        self.port = int(re.search(r" port=(\d+)", line)[1])

    def stop(self):
        """Its log."""
        self.child.terminate()
        said = self.child.communicate(timeout=SECONDS_MAX)[1]
        assert self.child.returncode == 0, said
        return said

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.communicate()

    def rows(self, sql):
        with contextlib.closing(sqlite3.connect(self.home / "gs.db")) as database:
            return database.execute(sql).fetchall()

    def keys(self):
        return {name: key.hex() for name, key in self.rows("SELECT name, key FROM devices")}


def field(path, name):
    return re.search(rf"^{name} = (.*)$", path.read_text(), re.M)[1]


class ClaimCase(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gradstream_"))
        self.addCleanup(shutil.rmtree, self.home)
        (self.home / "a.gsd").write_bytes(SHARD)
        self.fleet = self.serve("true")
        self.claim = self.home / "batch.id"
        self.fleet.verb("claim", "add", "batch", "--out", self.claim, "--count-max", STEPS_MAX)

    def serve(self, name):
        fleet = Fleet(self.home / name)
        fleet.start()
        self.addCleanup(fleet.end)
        return fleet

    def words(self, name, port, *more):
        return [CLIENT, "--server", f"127.0.0.1:{port}", "--identity", self.home / f"{name}.id", "--claim", self.claim,
                "--name", name, "--data", self.home / "a.gsd", "--retry-ms", "10", *more]

    def run_client(self, name, port, *more, environment=None):
        """Until it has an identity, or ends: its exit status, or None, and its log."""
        with subprocess.Popen(self.words(name, port, *more), stderr=subprocess.PIPE, text=True,
                              env=os.environ | (environment or {})) as client:
            watchdog = threading.Timer(SECONDS_MAX, client.kill)
            watchdog.start()
            try:
                said = ""
                for line in client.stderr:
                    said += line
                    if re.search("event=(claimed|boot|connected) ", line):
                        client.kill()
                        return None, said
                return client.wait(SECONDS_MAX), said
            finally:
                watchdog.cancel()

    def pending(self, name):
        return self.home / f"{name}.id.claimed"

    def expect_claimed(self, name, port, *more):
        code, said = self.run_client(name, port, *more)
        self.assertIsNone(code, said)
        self.assertEqual(self.fleet.keys()[name], field(self.home / f"{name}.id", "key"))

    def expect_not_proven(self, name, port):
        code, said = self.run_client(name, port)
        self.assertEqual(code, NOT_PROVEN, said)
        self.assertIn("event=claim_refused reason=server_not_proven remedy=", said)
        self.assertFalse((self.home / f"{name}.id").exists())
        self.assertFalse(self.pending(name).exists(), "what was drawn is erased")


class Claims(ClaimCase):
    def test_the_claims_file_names_the_server_and_the_secret_stays_in_the_database(self):
        (secret, key), = self.fleet.rows("SELECT server_secret, key FROM claims")
        text = self.claim.read_text()
        self.assertEqual(field(self.claim, "key"), key.hex())
        self.assertEqual(len(field(self.claim, "server")), 64)
        self.assertNotIn(secret.hex(), text)
        self.assertIn("server=proven", self.fleet.verb("claim", "list"))
        self.expect_claimed("kitchen", self.fleet.port)
        self.assertIn("claim_granted device=kitchen", self.fleet.stop())

    @unittest.skipUnless(SHIM, "needs the library that the build makes")
    def test_a_client_that_is_killed_before_any_of_its_steps_gets_one_identity(self):
        states = set()
        for step in range(1, STEPS_MAX):
            name = f"k{step}"
            code, said = self.run_client(name, self.fleet.port,
                                         environment={"LD_PRELOAD": SHIM, "GS_KILL_AT": str(step)})
            if code is None and not self.pending(name).exists():
                break  # it had no step left
            states.add((self.pending(name).exists(), name in self.fleet.keys(), (self.home / f"{name}.id").exists()))
            self.expect_claimed(name, self.fleet.port)
            again, said = self.run_client(name, self.fleet.port)
            self.assertIsNone(again, said)
            self.assertFalse(self.pending(name).exists(), f"step {step}: what was drawn is gone")
        else:
            self.fail(f"more than {STEPS_MAX} steps")
        # Pending, enrolled, own: nothing; drawn; enrolled and not known; known, and what was drawn is still there.
        self.assertLessEqual({(False, False, False), (True, False, False), (True, True, False), (True, True, True)},
                             states)
        (used,), = self.fleet.rows("SELECT count_used FROM claims")
        self.assertEqual(used, len(self.fleet.keys()), "each is counted once")

    # A server that hides identities says after the handshake that the claim has ended: whoever was granted it looks for
    # its identity then, as where it is said at once.
    @unittest.skipUnless(SHIM, "needs the library that the build makes")
    def test_who_lost_the_answer_of_a_claim_that_has_ended_has_its_identity(self):
        self.fleet.stop()
        text = self.fleet.config.read_text()
        for hides in ("false", "true"):
            self.fleet.config.write_text(text.replace("[run]", f"hide_identities = {hides}\n[run]"))
            self.fleet.start()
            self.claim = self.home / f"{hides}.id"
            self.fleet.verb("claim", "add", hides, "--out", self.claim, "--count-max", STEPS_MAX)
            for step in range(1, STEPS_MAX):
                name = f"{hides}{step}"
                self.run_client(name, self.fleet.port, environment={"LD_PRELOAD": SHIM, "GS_KILL_AT": str(step)})
                if name in self.fleet.keys() and not (self.home / f"{name}.id").exists():
                    break
            else:
                self.fail(f"nobody is enrolled before it knows it, in {STEPS_MAX} steps")
            self.fleet.verb("claim", "end", hides)
            self.expect_claimed(name, self.fleet.port)
            self.assertIn("tls_claim_ended", self.fleet.stop())
        self.fleet.start()

    def test_a_server_with_the_claims_key_alone_is_not_proven(self):
        """Defect: it was the server for whoever claimed, and read the new key."""
        false = self.serve("false")
        false.verb("claim", "add", "batch", "--out", self.home / "false.id")
        with contextlib.closing(sqlite3.connect(false.home / "gs.db")) as database, database:
            columns = ("id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended,server_secret")
            row = list(database.execute(f"SELECT {columns} FROM claims").fetchone())
            row[2] = bytes.fromhex(field(self.claim, "key"))
            database.execute("UPDATE claims SET key = ?, crc32c = ?", (row[2], row_sums.row_crc(row)))
        self.expect_not_proven("kitchen", false.port)
        self.assertEqual(false.keys(), {})
        self.assertIn("claim_refused device=kitchen claim=1 reason=device_not_proven", false.stop())
        self.expect_claimed("kitchen", self.fleet.port)
        # It says yes to whoever sends a key in the open, as servers did: to its own claim of an older release.
        with contextlib.closing(sqlite3.connect(false.home / "gs.db")) as database, database:
            row[9] = None
            database.execute("UPDATE claims SET server_secret = NULL, crc32c = ?", (row_sums.row_crc(row),))
        false.start()
        self.expect_not_proven("cellar", false.port)
        self.assertEqual(false.keys(), {})
        self.assertIn("server=unproven", false.verb("claim", "list"))
        self.assertIn("reason=server_unproven", false.stop())

    def test_a_claim_that_names_no_server_is_taken_on_demand(self):
        """One release long: the file and the claim of an older one."""
        whole = self.claim.read_text()
        self.claim.write_text(re.sub("server = .*\n", "", whole))
        code, said = self.run_client("kitchen", self.fleet.port)
        self.assertEqual(code, REFUSED, said)
        self.assertIn("event=claim_refused reason=server_not_named remedy=", said)
        self.assertFalse(self.pending("kitchen").exists(), "nothing was drawn")
        code, said = self.run_client("kitchen", self.fleet.port, "--claim-unproven")
        self.assertEqual(code, REFUSED, said)
        self.assertRegex(said, 'claim_refused reason=server_not_named remedy="the server proves itself .*claim add')
        self.assertIn("no server", self.refused_as_another_attempt(whole))
        self.assertEqual(self.fleet.keys(), {})
        self.assertIn("reason=server_not_named", self.fleet.stop())
        with contextlib.closing(sqlite3.connect(self.fleet.home / "gs.db")) as database, database:
            columns = "id,name,key,count_max,count_used,expires_ms,device_state,created_ms,is_ended"
            row = database.execute(f"SELECT {columns} FROM claims").fetchone()
            database.execute("UPDATE claims SET server_secret = NULL, crc32c = ?", (row_sums.row_crc((*row, None)),))
        self.fleet.start()
        listed = self.fleet.verb("claim", "list")
        self.assertIn("server=unproven remedy=", listed)
        self.expect_claimed("kitchen", self.fleet.port, "--claim-unproven")

    def refused_as_another_attempt(self, whole):
        """What is said of the pending file of an attempt that sent its key, beside a claim that proves its server."""
        sent = self.claim.read_text()
        self.claim.write_text(whole)
        code, said = self.run_client("kitchen", self.fleet.port)
        self.claim.write_text(sent)
        self.assertEqual(code, REFUSED, said)
        return said

    def test_a_claim_of_another_server_is_unknown(self):
        other = self.serve("other")
        for hides in ("false", "true"):
            other.stop()
            text = other.config.read_text()
            other.config.write_text(text.replace("[run]", f"hide_identities = {hides}\n[run]", 1))
            other.start()
            other.config.write_text(text)
            code, said = self.run_client("kitchen", other.port)
            self.assertEqual(code, REFUSED, said)
            self.assertIn('event=claim_refused reason=claim_unknown remedy="this server has no such claim', said)
        self.expect_claimed("kitchen", self.fleet.port)

    def test_a_claim_that_nobody_has_drawn_leaves_nothing_behind(self):
        """Defect: a secret was drawn and stored first."""
        whole = self.claim.read_text()
        for name, byte in (("key", "00"), ("server", "00"), ("key", "ff")):
            self.claim.write_text(re.sub(f"^{name} = .*$", f"{name} = {byte * 32}", whole, flags=re.M))
            code, said = self.run_client("kitchen", self.fleet.port)
            self.assertEqual(code, REFUSED, said)
            self.assertIn("holds a key that nobody has drawn", said)
            self.assertFalse(self.pending("kitchen").exists(), f"{name} of {byte}")
        self.claim.write_text(whole)
        self.expect_claimed("kitchen", self.fleet.port)

    def test_no_claim_goes_over_psk_ke(self):
        code, said = self.run_client("kitchen", self.fleet.port, "--key-exchange", "psk_ke")
        self.assertEqual(code, REFUSED, said)
        self.assertIn("event=claim_refused reason=psk_ke remedy=", said)
        self.assertFalse(self.pending("kitchen").exists())
        self.expect_claimed("kitchen", self.fleet.port)
        code, said = self.run_client("kitchen", self.fleet.port, "--key-exchange", "psk_ke")
        self.assertIsNone(code, said)  # it has its identity, which may


REASON_CLAIM_USED = b"\x08\x19"  # field 1 of ClaimAnswer
CONFIRM_FIELD_SIZE = 2 + 16  # field 3, which is the last one


def changed(frame, change):
    """The frame with another payload."""
    magic, size = frame[:2], struct.unpack_from("<H", frame, 2)[0]
    assert magic == b"GS" and len(frame) == 4 + size, frame
    payload = change(frame[4:])
    return magic + struct.pack("<H", len(payload)) + payload


class Middle:
    """Between a client and a server with the claim's key, as both of them take it to be the other: all that is said in
    plain, and a change of it."""

    def __init__(self, claim, port, change):
        self.port = free_port()
        keys = ["-psk", field(claim, "key"), "-psk_identity", "~batch", "-tls1_3", "-quiet", "-ciphersuites",
                "TLS_AES_128_GCM_SHA256"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "bufsize": 0}
        here = f"127.0.0.1:{self.port}"
        self.front = subprocess.Popen(["openssl", "s_server", "-accept", here, "-nocert", "-naccept", "1", *keys],
                                      **pipes)
        self.back = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *keys], **pipes)
        self.said = {"device": b"", "server": b""}
        self.threads = [threading.Thread(target=self.pass_on, args=("device", self.front, self.back, lambda b: b)),
                        threading.Thread(target=self.pass_on, args=("server", self.back, self.front, change))]
        for thread in self.threads:
            thread.start()

    def pass_on(self, whose, source, target, change):
        while piece := source.stdout.read(4096):
            self.said[whose] += piece
            with contextlib.suppress(BrokenPipeError):
                target.stdin.write(change(piece))

    def end(self):
        for process in (self.front, self.back):
            process.kill()
            process.wait()
        for thread in self.threads:
            thread.join(SECONDS_MAX)
        for process in (self.front, self.back):
            process.stdin.close()
            process.stdout.close()


@unittest.skipUnless(shutil.which("openssl"), "needs the openssl program")
class InTheMiddle(ClaimCase):
    """Who holds the claim's file stands between device and server."""

    def stand_between(self, change):
        middle = Middle(self.claim, self.fleet.port, change)
        self.addCleanup(middle.end)
        return middle

    def test_who_passes_all_on_learns_no_key(self):
        middle = self.stand_between(lambda piece: piece)
        self.expect_claimed("kitchen", middle.port)
        middle.end()
        heard = middle.said["device"] + middle.said["server"]
        self.assertIn(b"kitchen", heard)
        self.assertNotIn(bytes.fromhex(field(self.home / "kitchen.id", "key")), heard)

    def test_an_answer_that_was_changed_is_no_servers(self):
        """The name is taken then, by a key that nobody has: it costs the device its name, and no key."""
        def flip(payload):  # a bit of the confirm
            return payload[:-1] + bytes([payload[-1] ^ 1])

        def refuse(payload):  # a grant, whose reason of 0 has no bytes
            return REASON_CLAIM_USED + payload

        def grant(payload):
            self.assertTrue(payload.startswith(REASON_CLAIM_USED))
            return payload[len(REASON_CLAIM_USED):]

        def strip(payload):  # the confirm
            return payload[:-CONFIRM_FIELD_SIZE]

        for name, change in (("kitchen", flip), ("kitchen", grant), ("cellar", refuse), ("attic", strip)):
            self.expect_not_proven(name, self.stand_between(lambda frame, to=change: changed(frame, to)).port)
        self.assertEqual(list(self.fleet.keys()), ["kitchen", "cellar", "attic"])
        code, said = self.run_client("kitchen", self.fleet.port)
        self.assertEqual(code, REFUSED, said)
        self.assertRegex(said, 'event=claim_refused reason=claim_used remedy=".*device rotate')


if __name__ == "__main__":
    CLIENT, PROGRAM = sys.argv.pop(), sys.argv.pop()
    unittest.main()
