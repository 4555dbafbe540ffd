#!/usr/bin/python3
"""Debian's HAProxy before the devices' port, as docs/how-to/balancer.md configures both: a device trains through it.
The log has a peer's own address. The balancer's looks at the port are no faults. Without `balancers` its connections
are refused by name, and so is a balancer that sends no header. Everything listens on 127.0.0.1. Without haproxy it is
skipped, and says so.
"""

import contextlib
import pathlib
import re
import shutil
import socket
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402

SKIPPED = 77
SECONDS_MAX = 60
# Sixteen samples of eight numbers: docs/data.md, GSD1.
SHARD = struct.pack("<4sIIf", b"GSD1", 16, 8, 1 / 256) + struct.pack("<8f", *[0] * 8) + bytes(range(128))
STRANGER = "127.0.0.9"
# One process in the foreground, without a privilege.
HAPROXY = """
global
  log stderr format raw local0
defaults
  timeout connect 10s
  timeout client 30s
  timeout server 30s
"""
RUN = """
[run]
name = "balancer"
problem = "kpca"
rows = 8
cols = 2
centre = "none"
scale = "none"
step_size = 0.1
device_count = 1
direction_count = 4
round_count = 3
retry_min_ms = 10
retry_max_ms = 50
"""


def check(holds, what):
    if not holds:
        raise SystemExit("FAIL: " + what)


def documented(language):
    """What the page shows in that language."""
    page = (fleet.ROOT / "docs" / "how-to" / "balancer.md").read_text(encoding="utf-8")
    return re.search(rf"```{language}\n(.*?)```", page, re.S)[1]


def wait(process, event):
    line = process.wait_for_line(f"event={event}", SECONDS_MAX)
    check(line is not None, f"{process.name} says no {event}:\n" + "\n".join(process.lines[-20:]))
    return fleet.fields(line)


class Place:
    """A server, a balancer before it and one device, in a folder."""

    def __init__(self, home, stack):
        self.home, self.stack = home, stack
        self.config = home / "fleet.toml"
        self.port = self.server = None

    def serve(self, balancers):
        self.config.write_text(f'[server]\nlisten = "127.0.0.1:0"\ndatabase = "{self.home}/gradstream.db"\n'
                               f"{balancers}\n{RUN}")
        self.server = fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config", self.config])
        self.stack.callback(self.server.stop)
        self.port = wait(self.server, "listening")["port"]

    def balance(self, with_header=True, with_checks=True):
        """The page's file for the ports of this test; the balancer's own port."""
        port = fleet.free_port()
        text, count = re.subn(r"bind \S+", f"bind 127.0.0.1:{port}", documented("haproxy"))
        text, servers = re.subn(r"server node1 \S+", f"server node1 127.0.0.1:{self.port}", text)
        check((count, servers) == (1, 1), "the page's file has one bind and one server")
        if not with_header:
            text, count = re.subn(" send-proxy-v2", "", text)
            check(count == 1, "the page's file sends the header")
        if not with_checks:
            text, count = re.subn(" check inter 2s", "", text)
            check(count == 1, "the page's file looks at the port")
        (self.home / "haproxy.cfg").write_text(HAPROXY + text)
        balancer = fleet.Process("haproxy", ["haproxy", "-db", "-f", self.home / "haproxy.cfg"])
        self.stack.callback(balancer.stop)
        return port

    def connect(self, port):
        (self.home / "data.gsd").write_bytes(SHARD)
        device = fleet.Process("device", [
            fleet.CLIENT, "--server", f"127.0.0.1:{port}", "--identity", self.home / "identity", "--data",
            self.home / "data.gsd", "--state", "none", "--retry-ms", 10])
        self.stack.callback(device.stop)
        return device


def check_training(place, balancers):
    place.serve(balancers)
    port = place.balance()
    device = place.connect(port)
    check(place.server.wait_for_line("event=version version=3 ", SECONDS_MAX),
          "the device trains:\n" + "\n".join([*device.lines, *place.server.lines]))
    with socket.create_connection(("127.0.0.1", int(port)), SECONDS_MAX, (STRANGER, 0)) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        address = f"{STRANGER}:{stranger.getsockname()[1]}"
        peer = wait(place.server, "tls_plain_text_peer")["peer"]
    check(peer == address, f"the log has the stranger's own address {address}: {peer}")
    status = place.server.stop()
    lines = "\n".join(place.server.lines)
    check(status == 0 and "event=balancer_" not in lines, lines)
    counters = fleet.fields([line for line in place.server.lines if "event=counters" in line][-1])
    check(int(counters["balancer_checks"]) >= 1, f"HAProxy looks at the port: {counters['balancer_checks']}")
    check(counters["plain_text_peers"] == "1", lines)
    for fault in ("tls_other_faults", "deadline_handshake", "balancers_refused"):
        check(counters[fault] == "0", f"{fault}={counters[fault]}\n{lines}")


def check_refusals(place, balancers):
    place.serve("")
    place.connect(place.balance(with_checks=False))  # a check has a header as well
    refused = wait(place.server, "balancer_not_named")
    check(refused["peer"].startswith("127.0.0.1:") and refused["key"] == "server.balancers", str(refused))
    place.server.stop()
    place.serve(balancers)
    place.connect(place.balance(with_header=False))
    check("send-proxy-v2" in wait(place.server, "balancer_silent")["remedy"], "the remedy names HAProxy's word")


def main():
    if shutil.which("haproxy") is None:
        print("balancer: skipped: haproxy is missing (apt-get install haproxy)")
        return SKIPPED
    balancers = re.search(r"balancers = .*", documented("toml"))[0]
    with tempfile.TemporaryDirectory(prefix="gradstream-balancer-") as folder:
        home = pathlib.Path(folder)
        with contextlib.ExitStack() as stack:
            place = Place(home, stack)
            place.config.write_text(f'[server]\ndatabase = "{home}/gradstream.db"\n{RUN}')
            fleet.command([fleet.SERVER, "device", "add", "kitchen", "--config", place.config, "--out",
                           home / "identity"], "enrolling")
            check_refusals(place, balancers)
        with contextlib.ExitStack() as stack:
            place.stack = stack
            check_training(place, balancers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
