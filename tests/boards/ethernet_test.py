"""The board by Ethernet where something is wrong: no server, a cable out, a server that goes, a network page that does
not parse or leads nowhere. Each says in words what it is, and where it can be mended while the board runs, the run goes
on.

Usage: ethernet_test.py       exit status 0: every line came, and the run ended with the server's digest
"""

import concurrent.futures
import contextlib
import pathlib
import socket
import sys
import tempfile
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import emulate  # noqa: E402
import fleet  # noqa: E402
import network_page  # noqa: E402

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
BOARD = "mps2-an386-eth"
IMAGE = fleet.ROOT / "build" / BOARD / "boards" / "mps2_an386_eth" / "gradstream_client_emulator.elf"
LINE_SECONDS_MAX = 120  # on a machine that does other things too
OWN, GATEWAY = "10.0.2.15/24", "10.0.2.2"  # in the network that QEMU makes
REFUSED = 'reason="the server refuses the connection'
NOBODY = "reason=\"nobody in the network has the server's address"
UNPLUGGED = 'reason="the network cable leads nowhere'
# lwIP counts in 32 bits of milliseconds, 49.7 days. The board starts shortly before they wrap: each of the three faults
# that it meets costs it a second of waiting at least.
CLOCK_WRAP_MS = 1 << 32
BEFORE_WRAP_MS = 3000
NO_SETTINGS = 'reason="no network settings'


class Bench:
    """A server that is not started, and boards."""

    def __init__(self, home, rounds):
        self.home, self.port = home, fleet.free_port()
        self.processes = {}
        self.config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.device_count": 1, "run.round_count": rounds}.items():
            self.config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *self.config, "--out", home / "board.identity"],
                      "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "board.gsd", parts[0], mean)

    def start_server(self):
        self.processes["server"] = fleet.Process("server", [fleet.SERVER, "serve", *self.config])

    def start_board(self, name, settings, *own_words):
        network = self.home / f"{name}.network"
        network.write_text(settings, encoding="ascii")
        arguments = types.SimpleNamespace(
            board=BOARD, server=f"127.0.0.1:{self.port}", identity=self.home / "board.identity",
            shard=self.home / "board.gsd", network=network, flash=None, forever=False)
        words = [*emulate.command(arguments, IMAGE, *own_words),
                 "-qmp", f"unix:{self.home / name}.qmp,server=on,wait=off"]
        self.processes[name] = fleet.Process(name, words)

    def plug(self, name, is_in):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as monitor:
            monitor.connect(f"{self.home / name}.qmp")
            words = monitor.makefile("rw")
            words.readline()  # its greeting
            for command in ('{"execute": "qmp_capabilities"}',
                            '{"execute": "set_link", "arguments": {"name": "net0", "up": %s}}' % str(is_in).lower()):
                words.write(command)
                words.flush()
                answer = words.readline()
                while '"event"' in answer:  # QEMU says at any moment what has happened
                    answer = words.readline()
                assert '"return"' in answer, answer

    def expect(self, name, *texts):
        """The lines come, in this order, after those that were expected before; the last of them."""
        process = self.processes[name]
        deadline = time.monotonic() + LINE_SECONDS_MAX
        seen = getattr(process, "seen", 0)
        for text in texts:
            while not any(text in line for line in process.lines[seen:]):
                if time.monotonic() > deadline or not process.running:
                    lines = [f"    {other}: {line}" for other, process in self.processes.items()
                             for line in process.lines[-12:]]
                    raise SystemExit("\n".join([f"FAIL: {name} does not say {text}", *lines]))
                time.sleep(0.05)
            lines = process.lines
            seen = process.seen = next(i for i in range(seen, len(lines)) if text in lines[i]) + 1
        return process.lines[seen - 1]

    def stop(self):
        for process in self.processes.values():
            process.stop()


@contextlib.contextmanager
def bench(rounds):
    with tempfile.TemporaryDirectory(prefix="gradstream-ethernet-") as home:
        made = Bench(pathlib.Path(home), rounds)
        try:
            yield made
        finally:
            made.stop()


def mend(rounds=80):
    """The server is down at first, then the cable comes out and goes in again, then the server goes and comes back."""
    with bench(rounds) as unit:
        settings = network_page.text_of(OWN, f"10.0.2.2:{unit.port}", GATEWAY, "02:00:00:00:00:01")
        unit.start_board("board", settings, f"uptime-ms={CLOCK_WRAP_MS - BEFORE_WRAP_MS}")
        unit.expect("board", "event=started", "event=ethernet cable=in", REFUSED)
        unit.start_server()
        unit.expect("board", "event=connected")
        unit.expect("server", "event=round_closed version=3 ")
        unit.plug("board", False)
        unit.expect("board", "event=ethernet cable=out", UNPLUGGED)
        unit.plug("board", True)
        unit.expect("board", "event=ethernet cable=in", "event=connected")
        unit.processes["server"].kill()
        unit.expect("board", "event=link_lost", REFUSED)
        unit.start_server()
        end = fleet.fields(unit.expect("board", "event=connected", "event=finished"))
        report = fleet.fields(unit.expect("server", "event=device_report"))
        assert int(report["uptime_s"]) >= CLOCK_WRAP_MS // 1000, f"the board's clock did not pass 2^32 ms: {report}"
        run = fleet.fields(unit.expect("server", f"event=round_closed version={rounds} "))
        assert end["digest"] == run["digest"] and end["mismatches"] == "0", f"{end} is not {run}"
        return int(end["sessions"])


def wrong_settings():
    """Pages that no running board can mend."""
    with bench(3) as unit:
        pages = {"empty": "", "no_server": "address = 10.0.2.15/24\n", "garbage": "# mine\n\naddress = 10.0.2.256/24\n",
                 "nobody": network_page.text_of(OWN, "10.0.2.77:7433", GATEWAY),
                 "no_gateway": "address = 10.0.2.15/24\nserver = 192.0.2.1:7433\n"}
        for name, page in pages.items():
            unit.start_board(name, page or "\n")
        for name in ("empty", "no_server", "no_gateway"):
            unit.expect(name, "event=started", NO_SETTINGS)
        unit.expect("garbage", "event=failed reason=\"the network page does not parse\" line=3", "event=started",
                    NO_SETTINGS)
        unit.expect("nobody", "event=ethernet cable=in", NOBODY)
        return len(pages)


def refused_pages():
    """What ./run provision does not write."""
    wrong = ((OWN[:-3], "10.0.2.2:1"), ("10.0.2.15/31", "10.0.2.2:1"), ("224.0.0.1/24", "10.0.2.2:1"),
             (OWN, "10.0.2.2"), (OWN, "fleet.example:7433"), (OWN, "10.0.2.2:65536"), (OWN, "192.0.2.1:1"),
             (OWN, "192.0.2.1:1", "10.0.3.1"), (OWN, "10.0.2.2:1", "10.0.2"), (OWN, "10.0.2.2:1", None, "01:0:0:0:0:1"),
             (OWN, "10.0.2.2:1", None, "03:00:00:00:00:01"))
    for page in wrong:
        try:
            text = network_page.text_of(*page)
        except ValueError:
            continue
        raise SystemExit(f"FAIL: a page was written of {page}:\n{text}")


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, "gradstream_client_emulator"], f"building {BOARD}", 1800)
    refused_pages()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        stories = [pool.submit(mend), pool.submit(wrong_settings)]
        sessions, pages = [story.result() for story in stories]
    print(f"result: sessions={sessions} pages={pages}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
