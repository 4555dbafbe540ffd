#!/usr/bin/python3
"""The server's web page in a headless browser, over a real run: tests/server/page_test.mjs looks, this starts and ends
what it looks at. Without chromium, node or what set-up fetches for it with npm it is skipped, and says so.

Usage: page_test.py [--pictures FOLDER]       --pictures: draws the documentation's pictures instead, from a longer run
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402

CONFIG = ROOT / "experiments" / "demo.toml"
MODULES = ROOT / "third_party" / "page" / "node_modules"
SECONDS_MAX = 60
SKIPPED = 77
TOKEN = "0123456789abcdef0123456789abcdef"
# Two of three close a round, the third is late and still counts, and a device sends what it has after 30 ms.
SHORT = {"run.name": "page", "run.device_count": 3, "run.update_goal": 2, "run.late": "weight", "run.steps_min": 1,
         "run.task_deadline_ms": 30, "run.round_count": 30, "run.report_deadline_ms": 1500}
DELAYS_MS = (0, 4, 12)
# All of twelve are waited for, and one of them falls silent: from then on each version takes its whole deadline.
PICTURED = {**SHORT, "run.name": "digits in twelve rooms", "run.device_count": 12, "run.update_goal": "all",
            "run.update_min": 8, "run.task_deadline_ms": 120, "run.round_count": 120, "run.holdout_share": 0.2,
            "run.evaluation_period": 4}
PICTURED_DELAYS_MS = (2, 2, 2, 3, 3, 4, 4, 6, 9, 14, 26, 30)
PICTURED_VERSIONS = 70  # with the silent one, and WAITED_VERSIONS after it
WAITED_VERSIONS = 16
ROOMS = ("attic", "balcony", "bath", "cellar", "garage", "garden", "hall", "kitchen", "lab", "office", "roof", "shed")


def missing():
    """What stands in the way, as a sentence; empty: nothing."""
    for program in ("chromium", "node"):
        if shutil.which(program) is None:
            return f"no {program}: ./run setup installs it"
    for name in ("playwright-core", "axe-core", "uplot"):
        if not (MODULES / name).is_dir():
            return f"no {name} in third_party/page: ./run setup fetches it with npm"
    return ""


class Run:
    """A server with its HTTP port, and its clients."""

    def __init__(self, home, settings, delays):
        self.home = home
        self.delays = delays
        self.ports = fleet.free_port(), fleet.free_port()
        self.config = ["--config", CONFIG]
        values = {"server.listen": f"127.0.0.1:{self.ports[0]}", "server.http_listen": f"127.0.0.1:{self.ports[1]}",
                  "server.database": home / "gradstream.db", "server.export_dir": home, "run.step_size": 0.28,
                  **settings}
        for key, value in values.items():
            self.config += ["--set", f"{key}={value}"]
        self.processes = []
        self.server = None

    def serve(self, *more):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", "--create", *self.config, *more])
        self.processes.append(self.server)
        assert self.server.wait_for_line("event=http_listening", SECONDS_MAX) is not None, self.server.lines

    def start_devices(self):
        parts, mean = digits.shards(len(self.delays))
        for index, delay in enumerate(self.delays):
            name, files = ROOMS[index], self.home / ROOMS[index]
            digits.write_shard(f"{files}.gsd", parts[index], mean)
            fleet.command([fleet.SERVER, "device", "add", name, *self.config, "--out", f"{files}.identity"],
                          "enrolling")
            self.processes.append(fleet.Process(name, [
                fleet.CLIENT, "--server", f"127.0.0.1:{self.ports[0]}", "--identity", f"{files}.identity",
                "--data", f"{files}.gsd", "--state", "none", "--no-floors",
                "--step-delay-ms", delay]))

    def be_refused(self):
        """A peer without TLS, a name that nobody enrolled, another key, and a path that is not there."""
        with socket.create_connection(("127.0.0.1", self.ports[0]), timeout=SECONDS_MAX) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while peer.recv(1024):
                pass
        for name in ("nobody", ROOMS[0]):
            identity = self.home / f"{name}.wrong"
            identity.write_text(f"identity = {name}\nkey = {'00' * 32}\n", encoding="ascii")
            identity.chmod(0o600)
            subprocess.run([fleet.SERVER, "doctor", f"127.0.0.1:{self.ports[0]}", "--identity", identity],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS_MAX, check=False)
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}/../keys", timeout=SECONDS_MAX).close()
        kinds = ("plain_text_peers", "unknown_identities", "wrong_keys")
        self.wait_until(lambda status: all(status["counters"][kind] > 0 for kind in kinds) and
                        any(status["http"]["refusals"].values()), "four refusals")

    def status(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}/status", timeout=SECONDS_MAX) as answer:
            return json.loads(answer.read())

    def wait_until(self, holds, what):
        deadline = time.monotonic() + SECONDS_MAX
        while not holds(self.status()):
            assert time.monotonic() < deadline, f"{what}: not within {SECONDS_MAX} s: {self.server.lines[-5:]}"
            time.sleep(0.1)

    def stop(self):
        for process in reversed(self.processes):
            process.stop()


class Browser:
    """tests/server/page_test.mjs, which does one part after the other as they are named to it."""

    def __init__(self, run, *arguments):
        self.process = fleet.Process("browser", [
            "node", ROOT / "tests" / "server" / "page_test.mjs", MODULES, shutil.which("chromium"),
            f"http://127.0.0.1:{run.ports[1]}/", *arguments])

    def part(self, name):
        self.process.type(f"{name}\n")
        line = self.process.wait_for_line(f"done {name}", SECONDS_MAX)
        assert line is not None, "\n".join(self.process.lines)


def check(home):
    """A run from nobody enrolled to its end, then a server that is gone, then one with a token."""
    run = Run(home, SHORT, DELAYS_MS)
    browser = None
    try:
        run.serve()
        browser = Browser(run)
        browser.part("waiting")
        run.start_devices()
        run.wait_until(lambda status: status["run"]["state"] == "finished", "the run's end")
        run.be_refused()
        browser.part("finished")
        browser.part("keyboard")
        browser.part("layout")
        browser.part("accessibility")
        browser.part("large")
        browser.part("attention")
        browser.part("pace")
        browser.part("runs")
        browser.part("nodes")
        run.stop()
        browser.part("gone")
        token = home / "token"
        token.write_text(f"{TOKEN}\n", encoding="ascii")
        token.chmod(0o600)
        run.serve("--set", f"server.http_token_file={token}")
        browser.part(f"token {TOKEN}")
        browser.process.type("end\n")
        assert browser.process.wait(SECONDS_MAX) == 0, "\n".join(browser.process.lines)
        assert TOKEN not in "".join(run.server.lines)
    finally:
        run.stop()
        if browser is not None:
            browser.process.stop()
    print("\n".join(line for line in browser.process.lines if line.startswith("figure ")))


def draw(home, folder):
    run = Run(home, PICTURED, PICTURED_DELAYS_MS)
    browser = None
    try:
        run.serve()
        run.start_devices()
        browser = Browser(run, folder)
        run.wait_until(lambda status: status["run"]["version"] > PICTURED_VERSIONS, "the first versions")
        run.processes[4].stop()  # the cellar falls silent
        wanted = PICTURED_VERSIONS + WAITED_VERSIONS
        run.wait_until(lambda status: status["run"]["version"] > wanted, "enough versions")
        browser.part("pictures")
        browser.process.type("end\n")
        assert browser.process.wait(SECONDS_MAX) == 0, "\n".join(browser.process.lines)
    finally:
        run.stop()
        if browser is not None:
            browser.process.stop()
    for line in browser.process.lines:
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    problem = missing()
    if problem:
        print(f"skipped: {problem}")
        return SKIPPED
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gradstream-page-") as folder:
        if arguments.pictures:
            draw(pathlib.Path(folder), arguments.pictures.resolve())
        else:
            check(pathlib.Path(folder))
    print(f"result: seconds={time.monotonic() - begin:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
