"""./run demo: one model, a server, native clients of unequal speed and one emulated board, over TLS, on real data.

All settings stand in experiments/demo.toml: [server] and [run] are the server's, [demo] is this tool's. The server
knows no data; gap and picture come from here, from the model that it exports for each version.
"""

import argparse
import contextlib
import fcntl
import shutil
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np

import digits
import fleet

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
HOME = fleet.ROOT / "build" / "demo"
BOARDS = ("mps2-an386", "none")
# What must hold at the end (an independent implementation ends at 5e-4 to 6e-4, and at 5e-5 to 1e-4).
GAP_MAX = {"projection": 2e-3, "gradient_stream": 2e-4}
ROUND_SECONDS_MAX = 30   # no new version for so long: the demo gives up and shows who is missing
START_SECONDS_MAX = 60   # server listening, devices joined, version 0 published
FINISH_SECONDS_MAX = 60  # devices fetch the last version and end


class Failure(Exception):
    """Something that the user must see in one sentence."""


def parse_arguments(settings):
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--solver", choices=sorted(GAP_MAX), default="projection",
                        help="projection: zeroth order, scalars both ways (default); gradient_stream: RFedAGS")
    parser.add_argument("--groups", type=int, metavar="N", help="directions shared inside N groups (default 1: by all)")
    parser.add_argument("--trigger", metavar="K", default="all", help="close a round when K devices have answered")
    parser.add_argument("--partial", type=int, metavar="STEPS",
                        help="accept work from STEPS local steps on; devices send what they have at the deadline")
    parser.add_argument("--encoding", choices=("f32", "bf16", "int8"), default="f32",
                        help="of what travels, up and down (default f32)")
    parser.add_argument("--seed", type=int, default=1, help="of directions, minibatches and first model (default 1)")
    parser.add_argument("--rounds", type=int, default=settings["run"]["round_count"], metavar="R")
    parser.add_argument("--board", choices=BOARDS, default=BOARDS[0],
                        help="the emulated board, or none: a ninth native client in its place")
    arguments = parser.parse_args()
    devices, steps = settings["run"]["device_count"], settings["run"]["local_step_count"]
    if arguments.trigger != "all" and not (arguments.trigger.isdigit() and 1 <= int(arguments.trigger) <= devices):
        parser.error(f"--trigger takes 'all' or 1 to {devices} devices, not '{arguments.trigger}'")
    ranges = (("groups", 1, devices), ("partial", 1, steps), ("seed", 0, 2**32 - 1), ("rounds", 1, 10**6))
    for name, low, high in ranges:
        value = getattr(arguments, name)
        if value is not None and not low <= value <= high:
            parser.error(f"--{name} takes {low} to {high}, not {value}")
    return arguments


@contextlib.contextmanager
def only_one():
    """The demo's folder belongs to one demo at a time; a second one would read the first one's models."""
    HOME.parent.mkdir(exist_ok=True)
    with open(HOME.parent / "demo.lock", "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Failure("another demo runs in this tree: wait for its end, or use another clone") from error
        yield


def build(board):
    """Server and client of this checkout, and the board's image."""
    wanted = [("dev", "gradstream", "gradstream-client")]
    if board != "none":
        wanted.append((board, "gradstream_client_emulator"))
    for preset, *targets in wanted:
        print(f"demo: building {' and '.join(targets)} ({preset})", flush=True)
        done = subprocess.run([fleet.ROOT / "tools" / "build.sh", preset, *targets], cwd=fleet.ROOT, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"the build of {preset} failed:\n{done.stdout[-4000:]}")


class Demo:
    """One run of the demo: its folder, processes, and what the watcher has seen."""

    def __init__(self, arguments, settings):
        self.arguments = arguments
        self.settings = settings["demo"]
        self.count = len(self.settings["speeds"]) + 1
        self.home = HOME
        self.port = fleet.free_port()
        self.parts, self.mean = digits.shards(self.count)
        self.exact = digits.ExactPca(self.parts, self.mean, settings["run"]["cols"])
        self.server = None
        self.devices = []
        self.rounds = {}    # version -> fields of the server's round_closed line
        self.curve = []     # (version, relative gap, angle)

    def overrides(self):
        chosen = self.arguments
        step = self.settings["step_over_largest_eigenvalue"][chosen.solver] / self.exact.largest
        values = {"server.listen": f"127.0.0.1:{self.port}", "server.database": self.home / "gradstream.db",
                  "server.export_dir": self.home / "models", "run.seed": chosen.seed, "run.round_count": chosen.rounds,
                  "run.step_size": f"{step:.9g}", "run.upload_encoding": chosen.encoding}
        if chosen.solver == "gradient_stream":
            values |= {"run.solver": "gradient_stream", "run.estimator": "analytic_gradient", "run.batch_mode": "all",
                       "run.correction_form": "none"}
        else:
            values["run.record_encoding"] = chosen.encoding
        if chosen.groups is not None:
            values["run.group_count"] = chosen.groups
        if chosen.trigger != "all":
            values |= {"run.update_goal": chosen.trigger, "run.late": "weight"}
        if chosen.partial is not None:
            values |= {"run.steps_min": chosen.partial,
                       "run.task_deadline_ms": self.settings["partial_deadline_ms"]}
        return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]

    def start(self):
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "models").mkdir(parents=True)
        config = ["--config", CONFIG, *self.overrides()]
        for index, pixels in enumerate(self.parts):
            digits.write_shard(self.shard(index), pixels, self.mean)
            fleet.command([fleet.SERVER, "device", "add", self.name(index), *config, "--out", self.identity(index)],
                          "enrolling a device")
        fleet.command([fleet.SERVER, "run", "start", *config], "starting the run")
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *config], self.on_server_line)
        if self.server.wait_for_line("event=listening", START_SECONDS_MAX) is None:
            raise Failure("the server does not listen; its last lines:\n" + self.last_lines(self.server))
        for index in range(self.count):
            self.devices.append(fleet.Process(self.name(index), self.device_command(index)))

    def name(self, index):
        on_board = self.arguments.board != "none" and index == self.count - 1
        return self.arguments.board if on_board else f"native-{index}"

    def shard(self, index):
        return self.home / f"{self.name(index)}.gsd"

    def identity(self, index):
        return self.home / f"{self.name(index)}.identity"

    def device_command(self, index):
        server = f"127.0.0.1:{self.port}"
        files = ["--identity", self.identity(index)]
        if self.name(index) == self.arguments.board:
            return [fleet.ROOT / "tools" / "emulate.py", self.arguments.board, "--server", server, *files,
                    "--shard", self.shard(index)]
        speeds = self.settings["speeds"]
        delay = speeds[index] * self.settings["step_delay_ms"] if index < len(speeds) else 0
        return [fleet.CLIENT, "--server", server, *files, "--data", self.shard(index), "--state", "none",
                "--step-delay-ms", delay, "--until-finished"]

    def on_server_line(self, line):
        if "event=round_closed" in line:
            values = fleet.fields(line)
            self.rounds[int(values["version"])] = values

    def last_lines(self, process, count=15):
        return "\n".join(f"    {process.name}: {line}" for line in list(process.lines)[-count:])

    def watch(self):
        """Reads the model of every version as it appears; prints one line each."""
        for version in range(self.arguments.rounds + 1):
            path = self.home / "models" / f"run1_v{version:06d}.npy"
            patience = START_SECONDS_MAX if version == 0 else ROUND_SECONDS_MAX
            deadline = time.monotonic() + patience
            while not path.exists():
                if time.monotonic() > deadline:
                    raise Failure(self.why_stuck(version, patience))
                self.check_alive()
                time.sleep(0.005)
            model = np.load(path).astype(np.float64)
            gap, angle = self.exact.relative_gap(model), self.exact.largest_angle(model)
            self.curve.append((version, gap, angle))
            self.print_progress(version, gap, angle)

    def print_progress(self, version, gap, angle):
        values = self.rounds.get(version, {})
        shares = " ".join(f"{key} {values.get(key, '0')}" for key in ("folded", "late", "partial"))
        up, down = (int(values.get(key, 0)) for key in ("upload_bytes", "record_bytes"))
        traffic = f"payload up {up / self.count:5.0f} B, down {down:5d} B a device"
        print(f"round {version:4d}  gap {gap:9.3e}  angle {angle:8.2e} rad  {shares}  {traffic}", flush=True)

    def check_alive(self):
        if not self.server.running:
            raise Failure("the server ended; its last lines:\n" + self.last_lines(self.server))

    def why_stuck(self, version, patience):
        ended = [device for device in self.devices if not device.running]
        parts = [f"no version {version} within {patience} s; the server's last lines:", self.last_lines(self.server)]
        for device in ended:
            parts += [f"{device.name} has ended; its last lines:", self.last_lines(device)]
        return "\n".join(parts)

    def finish(self):
        """Waits until every device holds the last version and has said its digest."""
        ends = [device.wait_for_line("event=finished", FINISH_SECONDS_MAX) for device in self.devices]
        missing = [device.name for device, end in zip(self.devices, ends) if end is None]
        if missing:
            details = "\n".join(self.last_lines(device) for device in self.devices if device.name in missing)
            raise Failure(f"no last version on: {', '.join(missing)}\n{details}")
        return [fleet.fields(end) for end in ends]

    def stop(self):
        for process in [*self.devices, self.server]:
            if process is not None:
                process.stop()

    def draw(self):
        """The curve as SVG, by gnuplot."""
        table = self.home / "curve.csv"
        with open(table, "w", encoding="ascii") as out:
            out.write("round,relative_gap,angle_rad\n")
            out.writelines(f"{version},{gap:.9g},{angle:.9g}\n" for version, gap, angle in self.curve)
        picture = self.home / "curve.svg"
        program = f"""
            set terminal svg size 900,540 font 'sans-serif,14' background '#ffffff'
            set output '{picture}'
            set datafile separator ','
            set logscale y
            set format y '10^{{%L}}'
            set grid
            set xlabel 'round'
            set title 'federated PCA on Digits, {self.count} devices, {self.arguments.solver}' noenhanced
            plot '{table}' skip 1 using 1:2 with lines lw 2 title 'relative gap to the exact PCA', \\
                 '' skip 1 using 1:3 with lines lw 2 title 'largest principal angle, rad'
        """
        subprocess.run(["gnuplot"], input=program, text=True, check=True, timeout=60)
        return picture


def summarise(demo, ends, seconds):
    arguments = demo.arguments
    _, gap, angle = demo.curve[-1]
    totals = {key: sum(int(end[field]) for end in ends)
              for key, field in (("bytes_up", "sent"), ("bytes_down", "received"))}
    result = {
        "relative_gap": f"{gap:.3e}", "angle_rad": f"{angle:.3e}", "rounds": max(demo.rounds, default=0),
        "devices": demo.count, "min_folded_per_device": min(int(end["folded"]) for end in ends),
        "digests": len({end["digest"] for end in ends} | {demo.rounds[arguments.rounds]["digest"]}),
        "snapshots": sum(int(end["snapshots"]) for end in ends), **totals, "seconds": f"{seconds:.1f}"}
    everyone = arguments.trigger == "all" and arguments.partial is None
    scalars_down = arguments.solver == "projection" and arguments.groups in (None, 1)
    checks = [("one digest on server and devices", result["digests"] == 1)]
    if everyone:
        checks.append(("every device counted in every round", result["min_folded_per_device"] == arguments.rounds))
    if everyone and scalars_down:
        checks.append(("one snapshot a device, at joining", result["snapshots"] == demo.count))
    if everyone and arguments.groups in (None, 1) and arguments.rounds >= 300:
        limit = GAP_MAX[arguments.solver]
        checks.append((f"relative gap at most {limit:g}", gap <= limit))
    return result, checks


def main():
    with open(CONFIG, "rb") as file:
        settings = tomllib.load(file)
    arguments = parse_arguments(settings)
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with only_one():
            return play(arguments, settings)
    except (Failure, RuntimeError) as failure:
        print(f"demo: error: {failure}", file=sys.stderr, flush=True)
        print("result: error=failed", flush=True)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; all its processes have ended", file=sys.stderr, flush=True)
        print("result: error=interrupted", flush=True)
        return 130


def play(arguments, settings):
    """The whole demo; the exit status."""
    demo = None
    try:
        build(arguments.board)
        demo = Demo(arguments, settings)
        begin = time.monotonic()
        demo.start()
        demo.watch()
        ends = demo.finish()
        result, checks = summarise(demo, ends, time.monotonic() - begin)
    finally:
        if demo is not None:
            demo.stop()
    print(f"\nThe picture: {demo.draw().relative_to(fleet.ROOT)}   figures: build/demo/curve.csv, "
          "models: build/demo/models/, database: build/demo/gradstream.db")
    for what, holds in checks:
        print(f"{'holds' if holds else 'FAILS'}: {what}")
    print("Try next: ./run demo --solver gradient_stream | ./run demo --groups 9 | ./run demo --trigger 7 | "
          "./run demo --partial 1 | ./run digest")
    print("result: " + " ".join(f"{key}={value}" for key, value in result.items()), flush=True)
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
