"""An aggregation server as a child of this process, for experiments on one machine."""

from __future__ import annotations

import atexit
import contextlib
import json
import numbers
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

from gradstream.credentials import Path
from gradstream.errors import ProgramFailed
from gradstream.files import history
from gradstream.programs import ask, program

MARK = "# Written by gradstream.Server, which writes it anew.\n"
START_SECONDS_MAX = 30
PORT_MIN, PORT_END = 10240, 65536  # below it services have ports of their own
PORT_TRIES_MAX = 1000  # draws of a port, of which nearly each is free
PORT_RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
STOP_SECONDS_MAX = 15


def _ports():
    """Those to draw from. The kernel hands out the ports of a range of its own, to whoever connects and to whoever
    binds port 0: one of these may be taken before the server is there."""
    try:
        begin, end = map(int, PORT_RANGE.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # a system without the file
        return range(PORT_MIN, PORT_END)
    kept = [port for port in range(PORT_MIN, PORT_END) if not begin <= port <= end]
    return kept if len(kept) >= PORT_TRIES_MAX else range(PORT_MIN, PORT_END)


def _free_addresses(count):
    """Of ports that nobody listens on."""
    ports, draw, found = _ports(), random.SystemRandom(), set()
    for _ in range(PORT_TRIES_MAX):
        port = draw.choice(ports)
        with socket.socket() as end, contextlib.suppress(OSError):  # it is taken: the next one
            end.bind(("127.0.0.1", port))
            found.add(port)
        if len(found) == count:
            return [f"127.0.0.1:{port}" for port in found]
    raise ProgramFailed(f"of {PORT_TRIES_MAX} ports of 127.0.0.1 fewer than {count} are free: end programs that listen")


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (numbers.Integral, numbers.Real)):  # NumPy's too
        return repr(int(value) if isinstance(value, numbers.Integral) else float(value))
    return json.dumps(str(value))  # quoted as TOML's basic strings are


def _lines(keys):
    return [f"{key} = {_toml(value)}" for key, value in keys.items()]


class Server:
    """A server on 127.0.0.1 with a run of these keys (docs/reference/keys.md), such as problem="kpca", cols=4.

    folder: where database, configuration and log stand; without it a folder that goes with the server. settings: keys
    of the section [server] (docs/reference/configuration.md), such as {"device_ca_file": "ca.pem"}. Used with `with`,
    the server ends at the end of the block. address: for Client. url: of its web page.
    """

    def __init__(self, folder: Path | None = None, *, settings: dict[str, Any] | None = None, **run: Any) -> None:
        self._is_temporary = folder is None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradstream-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.address, page = _free_addresses(2)
        self.url = f"http://{page}"
        self.config = self.folder / "gradstream.toml"
        own = {"listen": self.address, "http_listen": page, "database": self.folder / "gradstream.db",
               "device_registration": "active", **(settings or {})}
        lines = ["[server]", *_lines(own), "", "[server.limits]", "store_delay_ms = 1", "", "[run]",
                 *_lines({"name": "python", **run})]
        if self.config.exists() and not self.config.read_text(encoding="utf-8").startswith(MARK):
            raise FileExistsError(f"{self.config} is a configuration of your own: give another folder")
        self.config.write_text(MARK + "\n".join(lines) + "\n", encoding="utf-8")
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def ask(self, *words: object) -> str:
        """What a verb of the server prints, such as ask("status"). Raises ProgramFailed."""
        return ask("gradstream", *words, "--config", self.config)

    def enrol(self, name: str) -> str:
        """The identity of a device, for Client; it is made where its file is not there yet."""
        out = self.folder / f"{name}.identity"
        if out.exists():
            return out.read_text(encoding="ascii")
        self.ask("device", "add", name, "--out", out)
        return out.read_text(encoding="ascii")

    def history(self) -> dict[str, list]:
        """As gradstream.history()."""
        return history(self.config)

    def log(self) -> str:
        """Its log so far."""
        return (self.folder / "server.log").read_text(encoding="utf-8")

    def start(self) -> None:
        """Returns when devices can connect. Raises ProgramFailed with the server's words."""
        with open(self.folder / "server.log", "ab") as log:
            atexit.register(self.stop)  # a script that ends takes its server with it
            process = subprocess.Popen([program("gradstream"), "serve", "--create", "--config", str(self.config)],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self._process = process
        host, port = self.address.split(":")
        end = time.monotonic() + START_SECONDS_MAX
        while process.poll() is None and time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.02)
        said = self.log()
        self.stop()
        raise ProgramFailed(said)

    def stop(self) -> None:
        """Ends it. A temporary folder goes as well."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        atexit.unregister(self.stop)
        if self._is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
