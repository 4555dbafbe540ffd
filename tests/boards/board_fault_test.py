"""An emulated board fails while it trains: it hangs, its stack overflows, it faults, an assertion fails. Each time its
console names what happened, the board starts anew and says why, goes on with the run, and the server's status shows the
cause. Then its flash is spoilt: with both pages of the log torn it says so and trains on from nothing; with an identity
that does not parse it names the line and stops, and leaves the log alone.

Usage: board_fault_test.py BOARD...        exit status 77: the board's emulator is missing
"""

import json
import pathlib
import random
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import emulate  # noqa: E402
import fleet  # noqa: E402

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
SMALL_TASK = {"run.local_step_count": 1, "run.direction_count": 2, "run.batch_size": 8}
HANDSHAKE_MS_MAX = 60000  # as in mixed_fleet_test.py
SECONDS_MAX = 90          # the watchdog's 8, and a session that the board finds lost
STATUS_ROUNDS_MAX = 200   # until the server's status shows a Hello
SKIPPED = 77
IDENTITY_STATUS = 3       # kExitIdentity of firmware/client_main.h
SERVER_FAULTS = ("event=update_refused", "event=update_changed", "event=digest_mismatch")
TORN_SIZE = 64            # of a page's first bytes: its header, its commit word and a part of its first record
HUNG = "event=watchdog reason="
# What is typed, what the console says (the RP2040's watchdog warns nobody), the cause that console and server tell.
FAULTS = (("hang", HUNG, "watchdog"),
          ("overflow-stack", "event=fault reason=\"stack overflow", "software"),
          ("fault", "event=fault reason=\"a bad access or instruction", "software"),
          ("fail-assert", "event=assert_failed", "software"))


def fail(what, *processes):
    lines = [f"    {process.name}: {line}" for process in processes for line in process.lines[-20:]]
    raise SystemExit("\n".join([f"FAIL: {what}", *lines]))


class Trial:
    """A server whose only device is the board."""

    def __init__(self, home, name):
        self.name, self.home, self.flash = name, home, home / "flash"
        self.port, self.http_port = fleet.free_port(), fleet.free_port()
        config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.http_listen": f"127.0.0.1:{self.http_port}", "server.export_dir": home,
                           "server.limits.handshake_deadline_ms": HANDSHAKE_MS_MAX, "run.device_count": 1,
                           "run.round_count": 1000000, **SMALL_TASK}.items():
            config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", name, *config, "--out", home / "identity"], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "shard.gsd", parts[0], mean)
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *config])
        self.start("identity")

    def start(self, identity):
        self.board = fleet.Process(self.name, [
            fleet.ROOT / "tools" / "emulate.py", self.name, "--server", f"127.0.0.1:{self.port}", "--identity",
            self.home / identity, "--shard", self.home / "shard.gsd", "--flash", self.flash, "--reset-on-fault"])

    def expect(self, process, text):
        if process.wait_for_line(text, SECONDS_MAX) is None:
            fail(f"{process.name} does not say {text}", self.server, self.board)

    def wait_for_round(self):
        """The next one that closes."""
        versions = [int(fleet.fields(line)["version"]) for line in self.server.lines
                    if "event=round_closed " in line]
        self.expect(self.server, f"event=round_closed version={max(versions, default=0) + 1} ")

    def reset_cause(self):
        """As the server shows it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/status/devices", timeout=30) as answer:
            devices = json.load(answer)["devices"]
        return next(device["reset_cause"] for device in devices if device["device"] == self.name)

    def wait_for_cause(self, cause):
        for _ in range(STATUS_ROUNDS_MAX):
            self.wait_for_round()
            if self.reset_cause() == cause:
                return
        fail(f"the server shows {self.reset_cause()} of {self.name}, not {cause}", self.server, self.board)

    def play(self):
        self.expect(self.board, " reset=power_on ")
        self.expect(self.board, "event=connected ")
        self.wait_for_cause("power_on")
        for word, line, cause in FAULTS:
            if line == HUNG and self.name.startswith("riscv"):
                continue  # QEMU's machine has no watchdog
            self.board.forget_lines()
            self.board.type(word + "\n")
            if line != HUNG or self.name != "rp2040":
                self.expect(self.board, line)
            self.expect(self.board, f"event=started device={self.name} firmware=0.1.0 reset={cause} ")
            self.expect(self.board, "event=connected ")
            self.wait_for_cause(cause)
            print(f"{self.name}: {word}: {cause}", flush=True)

    def tear_log(self):
        """Its state is kept, then both pages are torn."""
        self.board.stop()
        noise, pages = random.Random(1), bytearray(self.flash.read_bytes())
        for page in (0, emulate.FLASH_PAGE_SIZE):
            pages[page:page + TORN_SIZE] = noise.randbytes(TORN_SIZE)
        self.flash.write_bytes(pages)
        self.start("identity")
        self.expect(self.board, "event=state_lost reason=\"neither page of the log")
        self.expect(self.board, f"event=started device={self.name} firmware=0.1.0 reset=power_on ")
        self.expect(self.board, " from=server")  # the model
        self.expect(self.board, "event=connected ")
        for _ in range(2):
            self.wait_for_round()
        if faults := [line for line in self.server.lines if any(name in line for name in SERVER_FAULTS)]:
            fail(f"after a lost state the server says {faults}", self.board)
        print(f"{self.name}: torn log: state_lost", flush=True)

    def spoil_identity(self):
        """A key with a letter that is no digit, where the identity's page was written badly."""
        lines = (self.home / "identity").read_text(encoding="ascii").splitlines(keepends=True)
        number = next(index for index, line in enumerate(lines, 1) if line.startswith("key"))
        lines[number - 1] = lines[number - 1].replace("\n", "\x80\n")
        (self.home / "spoilt").write_text("".join(lines), encoding="latin1")
        self.board.stop()
        kept = self.flash.read_bytes()
        self.start("spoilt")
        self.expect(self.board, "event=failed reason=\"the identity does not parse: ")
        self.expect(self.board, f" line={number}")
        if self.board.wait(SECONDS_MAX) != IDENTITY_STATUS or self.flash.read_bytes() != kept:
            fail(f"{self.name} goes on without an identity, or changes its log", self.board)
        print(f"{self.name}: spoilt identity: line {number}", flush=True)

    def stop(self):
        self.board.stop()
        self.server.stop()


def main():
    for name in sys.argv[1:]:
        if not emulate.MACHINES[name].qemu and not emulate.RP2040JS.exists():
            print(f"SKIPPED: {name}: rp2040js is missing (install npm, then ./run setup)")
            raise SystemExit(SKIPPED)
        fleet.command([fleet.ROOT / "tools" / "build.sh", name, "gradstream_client_emulator"], f"building {name}", 1800)
        with tempfile.TemporaryDirectory(prefix="gradstream-fault-") as home:
            trial = Trial(pathlib.Path(home), name)
            try:
                trial.play()
                trial.tear_log()
                trial.spoil_identity()
            finally:
                trial.stop()


if __name__ == "__main__":
    main()
