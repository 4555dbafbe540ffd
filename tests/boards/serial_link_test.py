"""A board's UART as a serial port of a host, and what operations/serial joins it to the server with: ser2net, and socat
as its systemd unit runs it. The server is killed and started again, then the board (its port goes and comes, as that of
an adapter which is unplugged): the board finishes its run with the digest of the server.

Usage: serial_link_test.py        exit status 0: by both
"""

import concurrent.futures
import pathlib
import re
import sys
import tempfile
import threading
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import emulate  # noqa: E402
import fleet  # noqa: E402

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
RECIPES = fleet.ROOT / "operations" / "serial"
BOARD = "mps2-an386"
IMAGE = fleet.ROOT / "build" / BOARD / "boards" / "mps2_an386" / "gradstream_client_emulator.elf"
ROUNDS = 60  # of 0.08 s or so: the server is killed after a third of them and the board after two, long before the end
SECONDS_MAX = 120
CLOCK_SKIP = "\x16"  # takes a sleeping board's clock a second further (boards/mps2/board.cc)
SKIPS = 12           # past the deadline of an answer
SKIP_SECONDS = 0.02  # between two: the board falls asleep again
ADAPTER = "/dev/ttyUSB0"


def replaced(text, *pairs):
    for old, new in pairs:
        if text.count(old) != 1:
            raise Failure(f"'{old}' stands {text.count(old)} times in\n{text}")
        text = text.replace(old, str(new))
    return text


class Failure(Exception):
    """What does not hold, with the last lines of those who know."""


class Ser2net:
    """ser2net with the recipe's block."""

    def __init__(self, home, adapter, server_port):
        config = home / "ser2net.yaml"
        text = (RECIPES / "ser2net.yaml").read_text()
        config.write_text(replaced(text, (ADAPTER, adapter), ("127.0.0.1,7433", f"127.0.0.1,{server_port}")))
        self.process = fleet.Process("ser2net", ["/usr/sbin/ser2net", "-n", "-d", "-c", config, "-P", home / "pid"])

    def stop(self):
        self.process.stop()


class SocatUnit:
    """What systemd does with the unit: its command, again and again."""

    def __init__(self, home, adapter, server_port):
        text = (RECIPES / "gradstream-serial@.service").read_text()
        for line in ("StartLimitIntervalSec=0", "Restart=always"):
            if f"\n{line}\n" not in text:
                raise Failure(f"{line} is missing in the unit")
        self._seconds = float(re.search(r"^RestartSec=(\d+)$", text, re.M)[1])
        command = replaced(re.search(r"^ExecStart=(.+)$", text, re.M)[1], ("/dev/%I", adapter),
                           ("${SERVER}", f"127.0.0.1:{server_port}"))
        self._command = command.split()
        unit = home / "gradstream-serial@ttyUSB0.service"
        unit.write_text(text)
        fleet.command(["systemd-analyze", "verify", unit], "verifying the unit")
        self._over = threading.Event()
        self._child = None
        self._thread = threading.Thread(target=self._supervise)
        self._thread.start()

    def _supervise(self):
        while not self._over.is_set():
            self._child = fleet.Process("socat", self._command)
            while self._child.running and not self._over.wait(SKIP_SECONDS):
                pass
            self._child.stop()
            self._over.wait(self._seconds)

    def stop(self):
        self._over.set()
        self._thread.join()


class Host:
    """A server, a board and its port on the host."""

    def __init__(self, home):
        self.home, self.port, self.adapter = home, fleet.free_port(), home / "ttyUSB0"
        self.config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.device_count": 1, "run.round_count": ROUNDS}.items():
            self.config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *self.config, "--out", home / "identity"], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "shard.gsd", parts[0], mean)
        self.server = self.board = None

    def start_server(self):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *self.config])
        self.expect(self.server, "event=listening")

    def start_board(self):
        arguments = types.SimpleNamespace(board=BOARD, server=f"127.0.0.1:{self.port}", shard=self.home / "shard.gsd",
                                          identity=self.home / "identity", flash=self.home / "flash", forever=False)
        command = [str(word) for word in emulate.command(arguments, IMAGE)]
        command = ["pty,id=link" if word.startswith("socket,id=link,") else word for word in command]
        self.board = fleet.Process("board", command)
        port = re.search(r"/dev/pts/\d+", self.expect(self.board, "redirected to"))[0]
        self.adapter.unlink(missing_ok=True)
        self.adapter.symlink_to(port)

    def expect(self, process, text):
        line = process.wait_for_line(text, SECONDS_MAX)
        if line is None:
            lines = [f"    {one.name}: {line}" for one in (self.board, self.server) for line in one.lines[-8:]]
            raise Failure("\n".join([f"the {process.name} does not say {text}", *lines]))
        return line

    def play(self, relay_type):
        self.start_board()
        self.start_server()
        relay = relay_type(self.home, self.adapter, self.port)
        try:
            self.expect(self.server, f"event=round_closed version={ROUNDS // 3} ")
            self.server.kill()
            reached = max(int(fleet.fields(line)["version"]) for line in self.server.lines
                          if "event=round_closed" in line)
            self.start_server()
            for _ in range(SKIPS):
                self.board.type(CLOCK_SKIP)
                time.sleep(SKIP_SECONDS)
            # The rounds went on until the server was killed, and it says no round twice.
            self.expect(self.server, f"event=round_closed version={max(2 * ROUNDS // 3, reached + 1)} ")
            self.board.kill()
            self.start_board()
            end = self.expect(self.board, "event=finished")
            closed = self.expect(self.server, f"event=round_closed version={ROUNDS} ")
            return fleet.fields(end)["digest"], fleet.fields(closed)["digest"]
        finally:
            self.board.stop()
            self.server.stop()
            relay.stop()


def try_out(relay_type):
    """What is wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="gradstream-serial-") as home:
        begin = time.monotonic()
        try:
            of_board, of_server = Host(pathlib.Path(home)).play(relay_type)
        except Failure as failure:
            return f"FAIL: {relay_type.__name__}: {failure}"
    print(f"{relay_type.__name__}: digest {of_board}, {time.monotonic() - begin:.1f} s", flush=True)
    return "" if of_board == of_server else f"FAIL: {relay_type.__name__}: the server has {of_server}"


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, "gradstream_client_emulator"], f"building {BOARD}", 1800)
    with concurrent.futures.ThreadPoolExecutor() as pool:  # nearly all of it is waiting
        for fault in pool.map(try_out, (Ser2net, SocatUnit)):
            if fault:
                raise SystemExit(fault)


if __name__ == "__main__":
    main()
