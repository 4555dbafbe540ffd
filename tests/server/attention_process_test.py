"""What needs attention, by real programs: /status and `gradstream status` say the same sentences, the command that a
sentence names mends what it tells, and a run that begins after another one soon has its first version. Beside them the
past runs and the model for a download.

Usage: attention_process_test.py       exit status 0: all of that holds
"""

import io
import json
import pathlib
import random
import shlex
import socket
import sys
import tempfile
import zipfile

import stall_process_test as stall
from stall_process_test import check, fleet

# Devices of an ended run once stayed away for 30 to 60 s. A loaded machine makes a first version in less.
BACK_SECONDS_MAX = 25
ANSWERING = 2  # devices that run; a third one is enrolled and never comes


class Fleet(stall.Fleet):
    def attention(self, name):
        """The sentence of that id that the server has now, or None."""
        code, text = self.get("/status")
        entries = json.loads(text)["attention"] if code == 200 else []
        return next((entry for entry in entries if entry["id"] == name), None)

    def expect_attention(self, name, *words):
        """There and in `gradstream status`, on top."""
        self.wait_until(lambda: self.attention(name), f"/status never says {name}")
        entry = self.attention(name)
        check(entry and all(word in entry["text"] for word in words), f"{entry} lacks {words}")
        lines = self.verb("status").splitlines()
        line = next((line for line in lines if line.startswith(f"attention={name} ")), "")
        check(line and all(word in line for word in words), f"`status` does not say {name}:\n" + "\n".join(lines))
        check(lines.index(line) < next(i for i, text in enumerate(lines) if text.startswith("run=")), "not on top")
        return entry

    def verb(self, *words):
        return fleet.command([fleet.SERVER, *words, "--config", self.config], " ".join(map(str, words)))

    def wait_for_device(self):
        """Each version waits for a device that never comes, until it is disabled by the command that is proposed."""
        self.expect_attention("waits_for_fleet", "begins with 3 active devices", "there are 2.")
        check(self.get("/status/model.npz")[0] == 404, "a model before the first version")
        check("no model yet" in self.get("/status/model.npz")[1], self.get("/status/model.npz")[1])
        self.verb("device", "add", "d2", "--out", self.home / "d2.identity")
        source = random.Random(7)
        for index in range(ANSWERING):
            rows = [[*(source.gauss(0, 1) for _ in range(3)), source.choice((0, 1))] for _ in range(40)]
            self.start_device(index, stall.shard(rows), "--problem", "any", "--no-floors")
            self.expect(self.devices[-1], "event=problems names=kpca,logistic,least_squares")
        entry = self.expect_attention("waits_for_device", "Each version waits ", " for d2, not heard of since")
        check(entry["level"] == "slows" and "update_goal below 3" in entry["remedy"], entry)
        check(entry["command"] == "gradstream device disable d2", entry)
        options = shlex.split(json.loads(self.get("/status")[1])["command_options"])
        check(options == ["--config", str(pathlib.Path(self.config).resolve())], options)
        fleet.command([fleet.SERVER, *shlex.split(entry["command"])[1:], *options], "the proposed command")
        self.wait_until(lambda: not self.attention("waits_for_device"), "a disabled device is still waited for")
        self.wait_until(lambda: json.loads(self.get("/status")[1])["pace"]["versions_per_minute"], "no pace")

    def refuse_peers(self):
        for _ in range(6):
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
                peer.recv(100)
        self.expect_attention("connections_refused", "connections were refused", "plain_text_peers")

    def begin_again(self):
        """`run stop; run start` as a script has it, and devices that have been told of the end."""
        self.verb("run", "stop")
        for device in self.devices:
            self.expect(device, "event=stopped")
        self.compare_model()
        self.config.write_text(self.config.read_text().replace("device_count = 3", "device_count = 2"))
        self.verb("run", "start")
        for _ in range(BACK_SECONDS_MAX * 10):
            if self.has_next_version():
                break
            self.server.wait(0.1)
        check(self.has_next_version(),
              f"run 2 has no version after {BACK_SECONDS_MAX} s:\n" + "\n".join(self.server.lines[-20:]))
        self.wait_until(lambda: json.loads(self.get("/status")[1])["run"]["number"] == 2, "run 2 is not served")
        runs = json.loads(self.get("/status/runs")[1])
        check([run["number"] for run in runs["runs"]] == [1, 2] and runs["served"] == 2, runs)
        first = runs["runs"][0]
        check(first["state"] == "stopped" and first["versions"] > 0 and first["ended_ms"] >= first["began_ms"], first)
        check(first["loss"] is not None and first["problem"] == "kpca", first)
        listed = self.verb("run", "list")
        check(f"versions={first['versions']}" in listed and ' UTC"' in listed, listed)

    def has_next_version(self):
        lines = self.server.lines
        begin = next((i for i, line in enumerate(lines) if "event=next_run" in line), len(lines))
        return any("event=round_closed version=1 " in line for line in lines[begin:])

    def compare_model(self):
        """What the port gives is what the command writes."""
        self.wait_until(lambda: "requested" not in self.verb("run", "list"), "the run does not stop")
        out = self.home / "model.npz"
        self.verb("model", "export", "--out", out)
        with fleet_request(self.http, "/status/model.npz") as answer:
            given = answer.read()
            check("attachment" in answer.headers["Content-Disposition"], str(answer.headers))
        check(given == out.read_bytes(), "the port gives another model than the command")
        check("model.npy" in zipfile.ZipFile(io.BytesIO(given)).namelist(), "no numpy archive")

    def change_problem(self):
        """The same devices, which take any problem that their samples fit."""
        text = self.config.read_text().replace('"kpca"', '"logistic"').replace("cols = 2", "cols = 1")
        self.config.write_text(text.replace('"stiefel"', '"euclidean"').replace("rows = 4", "rows = 3"))
        self.verb("run", "stop")
        self.verb("run", "start")
        self.wait_until(lambda: json.loads(self.get("/status")[1])["run"]["number"] == 3, "run 3 is not served")
        self.wait_until(lambda: json.loads(self.get("/status")[1])["run"]["version"] > 0, "nobody does logistic")

    def find_nobody(self):
        """A problem that no device has."""
        self.wait_until(lambda: self.get("/status/devices")[1].count('"problems":"kpca,logistic') == ANSWERING,
                        "no device says what it can do")
        text = self.config.read_text().replace('"logistic"', '"brockett"').replace("rows = 3", "rows = 2")
        self.config.write_text(text.replace('"euclidean"', '"stiefel"'))
        self.verb("run", "stop")
        try:
            self.verb("run", "start")
            check(False, "a run begins that nobody can do")
        except RuntimeError as error:
            text = str(error)
            check("0 of 2 devices have said that they can do brockett" in text and "--force" in text, text)
        began = self.verb("run", "start", "--force")
        check("warning: 0 of 2 devices" in began and "state=active" in began, began)
        entry = self.expect_attention("nobody_capable", "None of 2 devices can do this run", "the problem brockett")
        check(entry["level"] == "stops" and "--problem brockett" in entry["remedy"], entry)
        told = [line for line in self.server.lines if "event=device_not_capable" in line]
        check(len(told) <= ANSWERING, "a device says more than once what it lacks:\n" + "\n".join(told))


def fleet_request(port, path):
    return stall.urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)


def main():
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        with Fleet(home, manifold="stiefel", rows=4, cols=2, problem="kpca", update_goal="all", update_min=2,
                   report_deadline_ms=1500, device_count=3) as run:
            run.serve()
            run.expect(run.server, "event=http_listening")
            run.wait_until(lambda: run.get("/status")[0] == 200, "/status never comes")
            run.wait_for_device()
            run.refuse_peers()
            run.begin_again()
            run.change_problem()
            run.find_nobody()
            check(run.server.stop() == 0, "the server does not end in order")
            text = run.verb("status")
            check(text.startswith("attention=not_served level=stops "), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
