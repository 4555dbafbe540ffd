"""What every demo is: a server and its devices, native clients and one emulated board, that train one run over TLS on
127.0.0.1 in a folder of their own. The server knows no data: a demo judges the model that it exports for each version.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time

import numpy as np

import fleet

BOARDS = ("mps2-an386", "none")
ROUND_SECONDS_MAX = 30   # no new version for so long: the demo gives up and shows who is missing
LINE_SECONDS_MAX = 5     # the server exports a model, and then says what it was made of
START_SECONDS_MAX = 60   # server listening, devices joined, version 0 published
FINISH_SECONDS_MAX = 60  # devices fetch the last version and end
SEED_MAX = 2**32 - 1


class Failure(Exception):
    """Something that the user must see in one sentence."""


def check_ranges(parser, arguments, ranges):
    """Ends with the parser's error where an option is given and not within its (name, low, high)."""
    for name, low, high in ranges:
        value = getattr(arguments, name)
        if value is not None and not low <= value <= high:
            parser.error(f"--{name} takes {low} to {high}, not {value}")


@contextlib.contextmanager
def only_one(home):
    """A demo's folder belongs to one demo at a time; a second one would read the first one's models."""
    home.parent.mkdir(exist_ok=True)
    with open(home.with_suffix(".lock"), "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Failure("another demo runs in this tree: wait for its end, or use another clone") from error
        yield


def build(board, image):
    """Server and client of this checkout, unless GS_BUILD_DIR names a tree that has them; and the board's image."""
    wanted = [] if "GS_BUILD_DIR" in os.environ else [("dev", "gradstream", "gradstream-client")]
    if board != "none":
        wanted.append((board, image))
    for preset, *targets in wanted:
        print(f"demo: building {' and '.join(targets)} ({preset})", flush=True)
        done = subprocess.run([fleet.ROOT / "tools" / "build.sh", preset, *targets], cwd=fleet.ROOT, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"the build of {preset} failed:\n{done.stdout[-4000:]}")


class DemoRun:
    """One run of a demo: its folder, processes, and what the watcher has seen. A demo is a class over it that says what
    the devices hold (write_shard), how the run is set (overrides, native_options) and what a model is worth (judge).
    """

    CONFIG = None  # the TOML file
    HOME = None    # the folder, which is emptied first
    IMAGE = "gradstream_client_emulator"

    def __init__(self, arguments, device_count):
        self.arguments = arguments
        self.count = device_count
        self.home = self.HOME
        self.port = fleet.free_port()
        self.server = None
        self.devices = []
        self.rounds = {}    # version -> fields of the server's round_closed line

    def overrides(self):
        """--set KEY=VALUE of what the configuration's file does not say, as words."""
        raise NotImplementedError

    def native_options(self, index):
        """Words for the client `index` beside those of all demos."""
        raise NotImplementedError

    def write_shard(self, index):
        """Writes what device `index` holds to self.shard(index)."""
        raise NotImplementedError

    def judge(self, version, model):
        """Takes the model of a version, and prints a line of it."""
        raise NotImplementedError

    def words_of(self, values):
        """The overrides of {key: value} and of what all demos set."""
        common = {"server.listen": f"127.0.0.1:{self.port}", "server.database": self.home / "gradstream.db",
                  "server.export_dir": self.home / "models", "run.seed": self.arguments.seed,
                  "run.round_count": self.arguments.rounds}
        return [part for key, value in (common | values).items() for part in ("--set", f"{key}={value}")]

    def start(self):
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "models").mkdir(parents=True)
        config = ["--config", self.CONFIG, *self.overrides()]
        for index in range(self.count):
            self.write_shard(index)
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
        board = self.arguments.board
        if self.name(index) == board:
            image = fleet.ROOT / "build" / board / "boards" / board.replace("-", "_") / f"{self.IMAGE}.elf"
            return [fleet.ROOT / "tools" / "emulate.py", board, "--image", image, "--server", server, *files,
                    "--shard", self.shard(index)]
        return [fleet.CLIENT, "--server", server, *files, "--data", self.shard(index), "--state", "none",
                *self.native_options(index), "--until-finished"]

    def on_server_line(self, line):
        if "event=round_closed" in line:
            values = fleet.fields(line)
            self.rounds[int(values["version"])] = values

    def last_lines(self, process, count=15):
        return "\n".join(f"    {process.name}: {line}" for line in list(process.lines)[-count:])

    def watch(self):
        """Judges the model of every version as it appears."""
        for version in range(self.arguments.rounds + 1):
            path = self.home / "models" / f"run1_v{version:06d}.npy"
            patience = START_SECONDS_MAX if version == 0 else ROUND_SECONDS_MAX
            deadline = time.monotonic() + patience
            while not path.exists():
                if time.monotonic() > deadline:
                    raise Failure(self.why_stuck(version, patience))
                self.check_alive()
                time.sleep(0.005)
            if version > 0:
                self.wait_for_round(version)
            self.judge(version, np.load(path).astype(np.float64))

    def wait_for_round(self, version):
        """Until the server's line of a version is there; a version without one is judged all the same."""
        deadline = time.monotonic() + LINE_SECONDS_MAX
        while version not in self.rounds and self.server.running and time.monotonic() < deadline:
            time.sleep(0.001)

    def traffic(self, version):
        """A version's payload, in words."""
        values = self.rounds.get(version, {})
        up, down = (int(values.get(key, 0)) for key in ("upload_bytes", "record_bytes"))
        return f"payload up {up / self.count:5.0f} B, down {down:5d} B a device"

    def check_alive(self):
        if not self.server.running:
            raise Failure("the server ended; its last lines:\n" + self.last_lines(self.server))
        for device in self.devices:
            if not device.running and (status := device.wait(0)) != 0:
                raise Failure(f"{device.name} ended with exit status {status} before the run was over; its last "
                              "lines:\n" + self.last_lines(device))

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

    def digests(self, ends):
        """How many digests devices and server end with; 1 is right."""
        return len({end["digest"] for end in ends} | {self.rounds[self.arguments.rounds]["digest"]})

    def stop(self):
        for process in [*self.devices, self.server]:
            if process is not None:
                process.stop()


def draw(program):
    """A picture by gnuplot."""
    subprocess.run(["gnuplot"], input=program, text=True, check=True, timeout=60)


def end_with_result(result, checks):
    """The last lines: what holds, and the result. Returns the exit status."""
    for what, holds in checks:
        print(f"{'holds' if holds else 'FAILS'}: {what}")
    print("result: " + " ".join(f"{key}={value}" for key, value in result.items()), flush=True)
    return 0 if all(holds for _, holds in checks) else 1


def guarded(home, play):
    """play()'s exit status, alone in its folder. What goes wrong is a sentence, a result line and a status."""
    try:
        with only_one(home):
            return play()
    except (Failure, RuntimeError) as failure:
        print(f"demo: error: {failure}", file=sys.stderr, flush=True)
        print("result: error=failed", flush=True)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; all its processes have ended", file=sys.stderr, flush=True)
        print("result: error=interrupted", flush=True)
        return 130
