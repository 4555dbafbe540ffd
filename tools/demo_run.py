"""What every demo is: a server and its devices, native clients and one emulated board, that train one run over TLS on
127.0.0.1 in a folder of their own. The server knows no data: a demo judges the model that it exports for each version.
"""

import contextlib
import fcntl
import os
import shutil
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
SILENCE_SECONDS_MAX = 8  # a round that is not shown for its number is shown then
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
OWN_DATA = "docs/own_data.md"


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
        fleet.build(preset, *targets)


def add_stay(parser):
    parser.add_argument("--stay", action="store_true",
                        help="at the end, server and web page stay up until Ctrl-C; the status is the result's")


def in_words(count):
    """A whole number as in a sentence."""
    return NUMBERS[count] if 0 <= count < len(NUMBERS) else f"{count:,}"


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
        self.page_port = self.port
        while self.page_port == self.port:
            self.page_port = fleet.free_port()
        self.shown_at = 0.0
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
                  "server.http_listen": f"127.0.0.1:{self.page_port}",
                  "server.export_dir": self.home / "models", "run.seed": self.arguments.seed,
                  "run.round_count": self.arguments.rounds}
        return [part for key, value in (common | values).items() for part in ("--set", f"{key}={value}")]

    def start(self):
        print(f"demo: starting a server and {self.count} devices", flush=True)
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "models").mkdir(parents=True)
        config = ["--config", self.CONFIG, *self.overrides()]
        for index in range(self.count):
            self.write_shard(index)
            fleet.command([fleet.SERVER, "device", "add", self.name(index), *config, "--out", self.identity(index)],
                          "enrolling a device")
        fleet.command([fleet.SERVER, "run", "start", *config], "starting the run")
        self.server = fleet.Process("server", [fleet.SERVER, "serve", *config], self.on_server_line)
        # Its page comes last: who reads the address that follows may ask for it at once.
        if self.server.wait_for_line("event=http_listening", START_SECONDS_MAX) is None:
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
                    "--shard", self.shard(index), "--no-floors"]
        return [fleet.CLIENT, "--server", server, *files, "--data", self.shard(index), "--state", "none",
                *self.native_options(index), "--no-floors", "--until-finished"]

    def on_server_line(self, line):
        if "event=round_closed" in line:
            values = fleet.fields(line)
            self.rounds[int(values["version"])] = values

    def last_lines(self, process, count=15):
        return "\n".join(f"    {process.name}: {line}" for line in process.lines[-count:])

    def watch(self):
        """Judges the model of every version as it appears."""
        for version in range(self.arguments.rounds + 1):
            path = self.home / "models" / f"run1_v{version:06d}.npy"
            patience = START_SECONDS_MAX if version == 0 else ROUND_SECONDS_MAX
            begin = said_at = time.monotonic()
            while not path.exists():
                now = time.monotonic()
                if now > begin + patience:
                    raise Failure(self.why_stuck(version, patience))
                if now - said_at > SILENCE_SECONDS_MAX:
                    said_at = now
                    print(f"waiting for version {version}: {now - begin:.0f} of {patience} s", flush=True)
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

    def is_shown(self, version, every):
        """Whether a round gets its line: the first two, each so many, the last, and where there was none for long."""
        now = time.monotonic()
        if version > 1 and version % every != 0 and version != self.arguments.rounds and \
                now - self.shown_at < SILENCE_SECONDS_MAX:
            return False
        self.shown_at = now
        return True

    def closing_words(self, ends, seconds):
        """Four sentences that are true of every demo, from what the devices said last."""
        sent, received = (sum(int(end[key]) for end in ends) / self.count / 1000 for key in ("sent", "received"))
        rounds = max(self.rounds, default=0)
        upload = int(self.rounds.get(rounds, {}).get("upload_bytes", 0)) / self.count
        last = self.name(self.count - 1)
        memory = f"{int(ends[-1]['arena']) / 1000:.1f} kB of memory for the model and its training"
        where = f"One device is an emulated microcontroller, {last}: it has {memory}."
        if last == f"native-{self.count - 1}":
            where = f"A device has {memory}. Without `--board none` one is an emulated microcontroller."
        folded = [int(end["folded"]) for end in ends]
        counted = f"each of the {rounds}"
        if min(folded) < rounds:
            counted = f"{min(folded)} to {max(folded)} of the {rounds}"
        digests = self.digests(ends)
        same = "The server and all devices hold the same model, bit for bit"
        if digests != 1:
            same = f"Server and devices hold {digests} different models"
        return [f"A device sent {sent:.0f} kB and received {received:.0f} kB in all; the work of one round is "
                f"{upload:.0f} bytes.", where,
                f"A device's work counted in {counted} rounds, however slow the device is.",
                f"{same}. It took {seconds:.1f} s."]

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


def say_found(sentences, files, modes):
    """What the run found, a sentence a line; where its files are; what to do next."""
    print("\n" + "\n".join(sentences) + f"\n\n{files}\nTry next:\n"
          f"  your own data     {OWN_DATA}: from a table to a trained model\n"
          "  the web page      ./run demo --stay keeps it up\n"
          "  a board           boards/README.md, then ./run flash BOARD\n"
          f"  other ways        {' | '.join(f'./run demo {mode}' for mode in modes)}", flush=True)


def stay(run):
    """Until Ctrl-C or SIGTERM; raises Failure where the server ends before."""
    try:  # who reads the line may send the signal at once
        print(f"The page: http://127.0.0.1:{run.page_port}/ stays until Ctrl-C.", flush=True)
        while run.server.running:
            time.sleep(0.1)
    except KeyboardInterrupt:
        return
    raise Failure("the server ended; its last lines:\n" + run.last_lines(run.server))


def end_with_result(result, checks, staying=None):
    """The last lines: what holds, and the result. Returns the exit status. Between both the run `staying` stays up."""
    for what, holds in checks:
        print(f"{'holds' if holds else 'FAILS'}: {what}", flush=True)
    if staying is not None:
        stay(staying)
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
