"""./run example vibration: six pumps learn what healthy vibration is; one of them is a board, and raises an alarm.

The commands are those of docs/tutorial_vibration.md, block by block, in one shell. Each is printed as it is run; a free
port takes the place of 7433. Then models, scores and quality are held against numpy:

    gap  = (F - F*) / |F*|     F = -|Z X|^2 / (2 N) of the windows that the pumps train on, F* its least value
    auc  = share of pairs, a healthy window and a faulty one, whose faulty one has the higher score |z - X X'z|

The exit status is 0 where all that `holds:` lines say is true.
"""

import argparse
import csv
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import numpy as np

import demo_run
import fleet

EXAMPLE = fleet.ROOT / "examples" / "vibration"
HOME = fleet.ROOT / "build" / "example_vibration"
TUTORIAL = fleet.ROOT / "docs" / "tutorial_vibration.md"
IMAGE = "gradstream_client_vibration_emulator"
PORT = "7433"              # of the tutorial
TRAINING = "## Train"      # the section whose commands lead from tables to a model
COMMAND_SECONDS_MAX = 240  # the board trains for the whole run

PUMPS = 6
OWN_WINDOWS, FAULT_BEGIN = 120, 240  # of sensor.csv, as application.c has them
THRESHOLD_QUANTILE = 0.99            # of application.c, and of the page's command on Linux
SCORE_ERROR_MAX = 1e-4
COMMANDS_MAX = 5
GAP_MAX = 2e-3
ROUNDS = 100
AUC_MIN = 0.99
AUC_ERROR_MAX = 1e-4
QUALITY_ERROR_MAX = 1e-3
ALARM_WITHIN = 10          # windows after the fault has begun


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="./run example vibration", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1, help="of the tables (default 1)")
    parser.add_argument("--tables", type=pathlib.Path, metavar="FOLDER", help="write the tables and pumps.toml "
                        "there, and do no more: the tutorial goes on from them")
    arguments = parser.parse_args(words)
    demo_run.check_ranges(parser, arguments, (("seed", 0, demo_run.SEED_MAX),))
    return arguments


# ---- The tutorial ----

class Block(NamedTuple):
    section: str
    command: str
    output: str  # what the page shows of it; "": nothing


def blocks(text):
    """The commands of the page with what they print, in their order: a block `sh`, perhaps followed by one `text`."""
    found, section = [], ""
    pattern = r"^(## [^\n]*)$|^( *)```(sh|text)\n(.*?)^ *```$"
    for heading, indent, language, body in re.findall(pattern, text, re.M | re.S):
        section = heading or section
        body = "".join(line[len(indent):] + "\n" for line in body.splitlines())
        if language == "sh":
            found.append(Block(section, body.rstrip("\n"), ""))
        elif language == "text":
            found[-1] = found[-1]._replace(output=body)
    return found


class Shell:
    """One bash, which a user would type into. All that it starts is in its session, and is ended with it."""

    END = "end-of-command"

    def __init__(self, folder):
        programs = [str(fleet.SERVER.parent), str(fleet.CLIENT.parent)]
        environment = dict(os.environ, PATH=os.pathsep.join([*programs, os.environ["PATH"]]))
        environment.pop("GRADSTREAM_CONFIG", None)
        self.lines = []
        self.news = threading.Condition()
        # Not by standard input: the emulator hands that to the board's console.
        script, typed = os.pipe()
        self.typed = os.fdopen(typed, "w", encoding="utf-8")
        self.child = subprocess.Popen(
            ["/bin/bash", f"/dev/fd/{script}"], cwd=folder, env=environment, pass_fds=[script], text=True,
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        os.close(script)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()

    def run(self, command):
        """Its output; a Failure where it fails."""
        begin = len(self.lines)
        self.typed.write(f"{command}\nprintf '\\n{self.END} %d\\n' $?\n")
        self.typed.flush()
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        with self.news:
            while not (self.lines and self.lines[-1].startswith(self.END) and len(self.lines) > begin):
                left = deadline - time.monotonic()
                if left <= 0 or self.child.poll() is not None:
                    raise demo_run.Failure(f"`{command}` does not end:\n" + "\n".join(self.lines[begin:][-20:]))
                self.news.wait(min(left, 1))
            *output, end = self.lines[begin:]
        output = output[:-1] if output and not output[-1] else output  # the empty line before the end
        if end != f"{self.END} 0":
            raise demo_run.Failure(f"`{command}` ended with exit status {end.split()[-1]}:\n" + "\n".join(output[-20:]))
        return output

    def stop(self):
        """Ends what is still there: SIGTERM, then SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.child.pid, number)
            except ProcessLookupError:
                break
            try:
                self.child.wait(fleet.STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        self.child.wait()
        self.typed.close()
        self.reader.join(fleet.STOP_SECONDS)


def write_tables(folder, seed, port=PORT):
    folder.mkdir(parents=True, exist_ok=True)
    fleet.command([sys.executable, "-B", EXAMPLE / "make_data.py", folder, "--seed", seed], "making the tables")
    text = (EXAMPLE / "pumps.toml").read_text(encoding="utf-8")
    (folder / "pumps.toml").write_text(text.replace(f":{PORT}", f":{port}"), encoding="utf-8")


def last_lines(folder):
    """Of what ran in the background, where a command has failed."""
    parts = []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        parts += [f"    {path.name}: {line}" for line in lines[-5:]]
    return "\n".join(parts)


def play_tutorial(folder, seed):
    """Runs all commands of the page; [(block, its output)]."""
    port = fleet.free_port()
    write_tables(folder, seed, port)
    shell = Shell(folder)
    played = []
    try:
        for block in blocks(TUTORIAL.read_text(encoding="utf-8")):
            command = block.command.replace(f":{PORT}", f":{port}")
            print("$ " + command.replace("\n", "\n> "), flush=True)
            output = shell.run(command)
            print("".join(f"{line}\n" for line in output), end="", flush=True)
            played.append((block, output))
    except demo_run.Failure as failure:
        raise demo_run.Failure(f"{failure}\n{last_lines(folder)}") from failure
    finally:
        shell.stop()
    return played


# ---- By numpy ----

def read_table(path):
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)


def auc(healthy, faulty):
    difference = faulty[:, None] - healthy[None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def held_out(count, share):
    """Which of a pump's windows it holds out of training (docs/wire.md)."""
    numbers = (np.arange(count, dtype=np.uint64) * 2654435769) % 2**32 >> 16
    return numbers < int(share * 65536 + 0.5)


def told_count(rows):
    """What a client tells of how many samples there are: by default the greatest power of two that is not above it."""
    return 1 << (len(rows).bit_length() - 1)


class Model:
    """model.npz, in double precision."""

    def __init__(self, path):
        with np.load(path) as file:
            self.x = file["model"].astype(np.float64)
            self.mean, self.scale = file["mean"].astype(np.float64), file["scale"].astype(np.float64)
            self.digest, self.version = str(file["digest"]), int(file["version"])

    def units(self, rows):
        return (rows - self.mean) * self.scale

    def scores(self, rows):
        z = self.units(rows)
        return np.linalg.norm(z - z @ self.x @ self.x.T, axis=1)

    def gap(self, rows):
        z = self.units(rows)
        best = -np.linalg.eigvalsh(z.T @ z / len(z))[-self.x.shape[1]:].sum() / 2
        return (-np.square(z @ self.x).sum() / (2 * len(z)) - best) / abs(best)

    def quality(self, parts):
        """The mean over the devices of what the model explains there, each by what it tells of its samples held out."""
        shares = [np.square(z @ self.x).sum() / np.square(z).sum() for z in map(self.units, parts)]
        return np.average(shares, weights=[told_count(rows) for rows in parts])


class Outcome:
    """What a played tutorial has left in its folder."""

    def __init__(self, folder):
        self.folder = folder
        self.model = Model(folder / "model.npz")
        self.pumps = [read_table(folder / f"pump-{number}.csv") for number in range(1, PUMPS + 1)]
        self.faulty = read_table(folder / "faulty.csv")
        self.sensor = read_table(folder / "sensor.csv")
        self.console = [fleet.fields(line) for line in self.text("board.log").splitlines() if "event=" in line]
        self.keys = dict(re.findall(r"^(\w+) = (\S+)", (EXAMPLE / "pumps.toml").read_text(encoding="utf-8"), re.M))
        share = float(self.keys["holdout_share"])
        self.held = [rows[held_out(len(rows), share)] for rows in self.pumps]
        self.trained = np.vstack([rows[~held_out(len(rows), share)] for rows in self.pumps])

    def text(self, name):
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def told(self, event):
        """The board's lines of an event."""
        return [line for line in self.console if line["event"] == event]

    def told_value(self, event, key):
        """Of the board's one line of an event."""
        lines = self.told(event)
        if len(lines) != 1 or key not in lines[0]:
            raise demo_run.Failure(f"the board said event={event} {key}=... {len(lines)} times, and not once")
        return lines[0][key]

    def auc(self):
        return auc(self.model.scores(np.vstack(self.pumps)), self.model.scores(self.faulty))

    def board_auc(self):
        """(as the board says, by numpy)"""
        scores = self.model.scores(self.sensor)
        return float(self.told_value("auc", "value")), auc(scores[OWN_WINDOWS:FAULT_BEGIN], scores[FAULT_BEGIN:])

    def board_score_error(self):
        """The largest of scores and threshold; infinite where a window has none."""
        scores = self.model.scores(self.sensor)
        told = {int(line["window"]): float(line["value"]) for line in self.told("score")}
        if set(told) != set(range(OWN_WINDOWS + 1, len(scores) + 1)):
            return float("inf")
        wanted = np.quantile(scores[:OWN_WINDOWS], THRESHOLD_QUANTILE, method="higher")
        errors = [abs(value - scores[window - 1]) for window, value in told.items()]
        return max(*errors, abs(float(self.told_value("threshold", "value")) - wanted))

    def linux_score_error(self):
        """The largest; infinite where a window has no score, or an alarm that its score does not give."""
        with open(self.folder / "scores.csv", encoding="ascii", newline="") as file:
            rows = list(csv.DictReader(file))
        scores = self.model.scores(self.faulty)
        limit = np.quantile(self.model.scores(self.pumps[0]), THRESHOLD_QUANTILE, method="higher")
        alarms = [row["alarm"] == "1" for row in rows]
        if len(rows) != len(scores) or alarms != [float(row["score"]) > limit for row in rows]:
            return float("inf")
        return max(abs(float(row["score"]) - score) for row, score in zip(rows, scores))

    def alarms(self):
        """Windows, from 1, at which the board raised it."""
        return [int(line["window"]) for line in self.told("alarm")]

    def quality_errors(self):
        """Of each version that the pumps evaluated, by its model. A line has the quality of the version before."""
        errors = []
        with open(self.folder / "history.csv", encoding="ascii", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["quality"]]
        for row in rows:
            version = int(row["version"]) - 1
            path = self.folder / f"model_{version}.npz"
            if not path.exists():
                fleet.command([fleet.SERVER, "model", "export", "--config", self.folder / "pumps.toml", "--set",
                               f"server.database={self.folder}/gradstream.db", "--version", version, "--out", path],
                              "exporting a model")
            is_whole = int(row["held_out"]) == sum(map(told_count, self.held))
            errors.append(abs(float(row["quality"]) - Model(path).quality(self.held)) if is_whole else 1)
        return errors

    def digests(self):
        """The pumps' and the exported model's: one is right."""
        ends = [re.search(r"event=finished .*digest=(\w+)", self.text(f"pump-{number}.log"))
                for number in range(1, PUMPS)]
        return {self.model.digest, self.told_value("finished", "digest"), *(end[1] if end else "none" for end in ends)}


def checks_of(outcome, played):
    """[(what, whether it holds)], and the figures of the result line."""
    commands = [block.command for block, _ in played if block.section.startswith(TRAINING)]
    gap, whole_auc, (board_auc, numpy_auc) = outcome.model.gap(outcome.trained), outcome.auc(), outcome.board_auc()
    board_error, linux_error = outcome.board_score_error(), outcome.linux_score_error()
    quality = outcome.quality_errors()
    alarms = outcome.alarms()
    checks = [
        (f"{len(commands)} commands lead from tables to a model, at most {COMMANDS_MAX}; none of the page is Python",
         0 < len(commands) <= COMMANDS_MAX and not any("python" in block.command for block, _ in played)),
        (f"the gap {gap:.2e} is at most {GAP_MAX:g} in {outcome.keys['round_count']} rounds",
         gap <= GAP_MAX and int(outcome.keys["round_count"]) == ROUNDS),
        (f"the AUC {whole_auc:.6f} of all pumps is at least {AUC_MIN}", whole_auc >= AUC_MIN),
        (f"the board's AUC {board_auc:.6f} is numpy's {numpy_auc:.6f} within {AUC_ERROR_MAX:g}, and at least {AUC_MIN}",
         abs(board_auc - numpy_auc) <= AUC_ERROR_MAX and board_auc >= AUC_MIN),
        (f"scores and threshold of the board are numpy's within {SCORE_ERROR_MAX:g} (largest error {board_error:.1e})",
         board_error <= SCORE_ERROR_MAX),
        (f"scores and alarms on Linux are numpy's within {SCORE_ERROR_MAX:g} (largest error {linux_error:.1e})",
         linux_error <= SCORE_ERROR_MAX),
        (f"the quality of {len(quality)} versions is numpy's within {QUALITY_ERROR_MAX:g} (largest error "
         f"{max(quality, default=1):.1e})", bool(quality) and max(quality) <= QUALITY_ERROR_MAX),
        (f"the board raises one alarm within {ALARM_WITHIN} windows of the fault ({alarms})",
         len(alarms) == 1 and FAULT_BEGIN < alarms[0] <= FAULT_BEGIN + ALARM_WITHIN),
        ("server, clients and board end with one digest", len(outcome.digests()) == 1),
    ]
    figures = {"commands": len(commands), "gap": f"{gap:.2e}", "auc": f"{whole_auc:.6f}",
               "auc_board": f"{board_auc:.6f}"}
    return checks, figures


def play(arguments):
    demo_run.build("mps2-an386", IMAGE)
    shutil.rmtree(HOME, ignore_errors=True)
    begin = time.monotonic()
    played = play_tutorial(HOME, arguments.seed)
    checks, figures = checks_of(Outcome(HOME), played)
    return demo_run.end_with_result({"name": "vibration"} | figures | {"seconds": f"{time.monotonic() - begin:.1f}"},
                                    checks)


def main(words):
    arguments = parse_arguments(words)
    if arguments.tables is not None:
        return write_only(arguments)
    return demo_run.guarded(HOME, lambda: play(arguments))


def write_only(arguments):
    try:
        write_tables(arguments.tables, arguments.seed)
    except OSError as error:
        print(f"example: error: {arguments.tables}: {error.strerror}: name a folder that can be written",
              file=sys.stderr)
        print("result: name=vibration error=failed")
        return 1
    print(f"result: name=vibration tables={arguments.tables}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
