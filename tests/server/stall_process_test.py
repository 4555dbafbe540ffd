"""What can never work says so at once, by real programs: data as they are measured, labels that the problem does not
take, and a problem that no device has. The run stalls with its cause in the log, in `status`, at /readyz and /status
and at the device; what the remedy names then works.

Usage: stall_process_test.py       exit status 0: all of that holds
"""

import json
import pathlib
import random
import re
import struct
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402

STALL_SECONDS_MAX = 60  # of a loaded machine; the rounds below are a second long
DEVICES = 2


def check(holds, what):
    if not holds:
        raise SystemExit("FAIL: " + what)


def shard(rows):
    return struct.pack("<4sIII", b"GSD2", len(rows), len(rows[0]), 0) + b"".join(
        struct.pack(f"<{len(row)}f", *row) for row in rows)


def machine_rows(source):
    """As a table of machines has them: power, weight, speed and a ratio, each in its own unit."""
    return [[source.gauss(110, 35), source.gauss(2900, 800), source.gauss(95, 12), source.gauss(0.4, 0.1)]
            for _ in range(60)]


def labelled_rows(source, labels):
    return [[source.gauss(0, 1), source.gauss(0, 1), source.choice(labels)] for _ in range(40)]


class Fleet:
    """A server and its devices in a folder of their own."""

    def __init__(self, home, **run):
        self.home = home
        self.port, self.http = fleet.free_port(), fleet.free_port()
        keys = {"name": "stall", "device_count": DEVICES, "round_count": 1000, "report_deadline_ms": 1000,
                "retry_min_ms": 10, "retry_max_ms": 50, "update_goal": "all", "centre": "none", "scale": "none",
                "step_size": 0.1} | run
        text = (f'[server]\nlisten = "127.0.0.1:{self.port}"\nhttp_listen = "127.0.0.1:{self.http}"\n'
                f'database = "{home}/gradstream.db"\n[run]\n')
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        self.config = home / "fleet.toml"
        self.config.write_text(text)
        for index in range(DEVICES):
            fleet.command([fleet.SERVER, "device", "add", f"d{index}", "--config", self.config,
                           "--out", home / f"d{index}.identity"], "enrolling a device")
        self.server = None
        self.devices = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.devices, self.server]:
            if process is not None:
                process.stop()

    def serve(self, *more):
        self.server = fleet.Process("server", [fleet.SERVER, "serve", "--config", self.config, *more])

    def start_device(self, index, content, *more):
        data = self.home / f"d{index}.gsd"
        data.write_bytes(content)
        self.devices.append(fleet.Process(f"d{index}", [
            fleet.CLIENT, "--server", f"127.0.0.1:{self.port}", "--identity", self.home / f"d{index}.identity",
            "--data", data, "--state", "none", "--retry-ms", 10, *more]))
        return self.devices[-1]

    def expect(self, process, text):
        line = process.wait_for_line(text, STALL_SECONDS_MAX)
        check(line is not None, f"{process.name} never says {text}:\n" + "\n".join(process.lines[-20:]))
        return line

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait_until(self, holds, what):
        """Polls the server's state, which is published once a second."""
        for _ in range(STALL_SECONDS_MAX * 10):
            if holds():
                return
            self.server.wait(0.1)
        raise SystemExit(f"FAIL: {what}; the server said\n" + "\n".join(self.server.lines[-20:]))

    def expect_cause(self, cause, *words):
        """In the four places of the server."""
        self.expect(self.server, "event=run_stalled")
        self.wait_until(lambda: self.get("/readyz")[0] == 503 and all(word in self.get("/readyz")[1] for word in words),
                        f"/readyz does not say {words}")
        check(f"cause={cause}" in self.get("/readyz")[1], "/readyz has another cause")
        run = json.loads(self.get("/status")[1])["run"]
        check(run["state"] == "stalled" and run["stall"]["cause"] == cause, f"/status has another stall: {run}")
        status = fleet.command([fleet.SERVER, "status", "--config", self.config], "status")
        check("state=stalled" in status and cause in status, "status does not say it:\n" + status)
        for word in words:
            check(word in status, f"status does not say {word}:\n{status}")
            check(any(word in line for line in self.server.lines if "run_stalled" in line), f"the log lacks {word}")
        return run["stall"]

    def stop_run(self):
        """Until its end is in the database, where the next run looks."""
        fleet.command([fleet.SERVER, "run", "stop", "--config", self.config], "run stop")

        def is_over():
            listed = fleet.command([fleet.SERVER, "run", "list", "--config", self.config], "run list")
            return "requested" not in listed and not re.search('state="?active', listed)
        self.wait_until(is_over, "the run does not stop")

    def expect_progress(self, version):
        self.expect(self.server, f"event=round_closed version={version} ")
        self.wait_until(lambda: self.get("/readyz")[0] == 200, "/readyz is not ready again")


def check_raw_data(home):
    """Values of some thousands: the fold takes none of them, and the proposed keys train."""
    source = random.Random(7)
    rows = [shard(machine_rows(source)) for _ in range(DEVICES)]
    with Fleet(home, manifold="stiefel", rows=4, cols=2, problem="kpca") as run:
        run.serve()
        clients = [run.start_device(index, rows[index], "--send-losses") for index in range(DEVICES)]
        line = run.expect(clients[0], "event=refused reason=out_of_range")
        check(all(word in line for word in ("value=", "limit=128", "remedy=", "fold_scale_log2", "step_size")), line)
        stall = run.expect_cause("out_of_range", "fold_scale_log2 = 24", "below 128")
        run.server.stop()
        run.serve()
        run.expect(run.server, "event=http_listening")
        run.wait_until(lambda: "cause=out_of_range" in run.get("/readyz")[1], "a restart loses the cause")
        keys = dict(re.findall(r"(fold_scale_log2|step_size) = ([-+.e0-9]+)", stall["remedy"]))
        check(len(keys) == 2, f"the remedy names no keys: {stall}")
        run.stop_run()
        run.server.stop()
        more = [part for key, value in keys.items() for part in ("--set", f"run.{key}={value.rstrip('.,')}")]
        began = fleet.command([fleet.SERVER, "run", "start", "--config", run.config, *more], "run start")
        check(f"devices={DEVICES} have_trained=0" in began, "run start does not say who can do it: " + began)
        for client in clients:
            client.stop()
        run.serve(*more)
        for index in range(DEVICES):
            run.start_device(index, rows[index], "--send-losses")
        run.expect_progress(60)
        closed = [fleet.fields(line) for line in run.server.lines if "event=round_closed" in line]
        first, last = float(closed[0]["loss_before"]), float(closed[59]["loss_before"])
        samples = [struct.unpack_from("<4f", content, 16 + 16 * i) for content in rows for i in range(60)]
        best = -0.5 * sum(value * value for sample in samples for value in sample) / len(samples)
        gap = (last - best) / abs(best)
        check(last < first and gap < 0.05, f"the proposed keys do not train: {first} to {last}, {best} is the bound")


def check_negative_labels(home):
    """-1 and 1, which no run takes: the device knows at its start, tells the server if there is one, and ends."""
    source = random.Random(10)
    with Fleet(home, manifold="euclidean", rows=2, cols=1, problem="logistic") as run:
        for is_served in (False, True):
            if is_served:
                run.serve()
                run.expect(run.server, "event=listening")
            for index in range(DEVICES):
                client = run.start_device(index, shard(labelled_rows(source, [-1, 1])), "--problem", "logistic")
                check(client.wait(STALL_SECONDS_MAX) == 4, "a label below 0 does not end the client with 4")
                check(any("has the label -1; logistic takes" in line for line in client.lines), "\n".join(client.lines))
        run.expect_cause("out_of_range", "has -1, allowed are 0 to 1")


def check_labels(home):
    """1 and 2 in place of 0 and 1: the device ends by itself, and one with other labels ends the stall."""
    source = random.Random(8)
    with Fleet(home, manifold="euclidean", rows=2, cols=1, problem="logistic") as run:
        run.serve()
        for index in range(DEVICES):
            client = run.start_device(index, shard(labelled_rows(source, [1, 2])), "--problem", "logistic")
            check(client.wait(STALL_SECONDS_MAX) == 4, "a label beyond the classes does not end the client with 4")
            run.expect(client, "event=bad_sample")
            check(any("has the label 2; logistic takes whole numbers from 0 to 1" in line for line in client.lines),
                  "the client does not name the label:\n" + "\n".join(client.lines))
        run.expect_cause("out_of_range", "sample ", "allowed are 0 to 1")
        for index in range(DEVICES):
            run.start_device(index, shard(labelled_rows(source, [0, 1])), "--problem", "logistic")
        run.expect_progress(3)
        run.stop_run()
        for problem, words in {"kpca": f"none of the {DEVICES} devices has trained kpca so far, {DEVICES} have trained "
                                       "logistic", "logistic": f"have_trained={DEVICES}"}.items():
            began = fleet.command([fleet.SERVER, "run", "start", "--force", "--config", run.config, "--set",
                                   f"run.problem={problem}"], "run start")
            check(words in began, f"run start does not say who has trained {problem}: {began}")
            run.stop_run()


def check_problem(home):
    """A problem that no image has: known when the first device has said what it can do."""
    source = random.Random(9)
    with Fleet(home, manifold="stiefel", rows=4, cols=2, problem="pca") as run:
        text = fleet.command([fleet.SERVER, "serve", "--check-config", "--config", run.config], "--check-config")
        check("the nearest one is kpca" in text, "--check-config does not name the nearest problem")
        run.serve()
        for index in range(DEVICES):
            run.start_device(index, shard(machine_rows(source)))
        run.expect_cause("not_capable", "problem:pca", "the nearest one is kpca")
        run.wait_until(lambda: f"{DEVICES} of {DEVICES} devices" in run.get("/readyz")[1], "not all devices are named")
        told = sum("event=device_not_capable" in line for line in run.server.lines)
        check(told == DEVICES, f"device_not_capable is logged {told} times for {DEVICES} devices")


def main():
    with tempfile.TemporaryDirectory(prefix="gs_stall_") as folder:
        cases = {"raw": check_raw_data, "labels": check_labels, "negative": check_negative_labels,
                 "problem": check_problem}
        for name, case in cases.items():
            home = pathlib.Path(folder) / name
            home.mkdir()
            case(home)
            print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main()
