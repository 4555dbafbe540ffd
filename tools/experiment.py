"""The papers' experiments: builds the program, runs it, draws its pictures.

Usage: tools/experiment.py NAME|all [--precision float|double] [--network [--rounds R]] [OPTION...]
Options besides these: gradstream-experiment --help

--network trains the first R rounds (default 50) of every case a second time, by the server and native clients as
processes of their own over TLS on 127.0.0.1, and holds the last model's digest to the simulator's.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import fleet

NETWORK_HOME = fleet.ROOT / "build" / "experiment"
NETWORK_ROUNDS = 50
START_SECONDS_MAX = 60
CASE_SECONDS_MAX = 600
CASE_LINE = re.compile(r"network case=(\S+) folder=(\S+) devices=(\d+) problem=(\S+) ridge=(\S+) digest=([0-9a-f]+)")


def build(*targets: str) -> bool:
    try:
        fleet.build("dev", *targets)
    except RuntimeError as failure:
        print(f"experiment: error: {failure}")
        print("result: verb=experiment error=build")
        return False
    return True


def draw(results: pathlib.Path, begin: float) -> bool:
    """A picture for every script that the program wrote since begin, seconds of the clock."""
    drawn = True
    for script in sorted(results.rglob("*.gp")):
        if script.stat().st_mtime >= begin:
            drawn = subprocess.run(["gnuplot", script.name], cwd=script.parent, check=False).returncode == 0 and drawn
    return drawn


def run_program(command: list) -> tuple:
    """Exit status, the last line, and all lines that speak of the network; prints all but the last line."""
    cases, last = [], ""
    with subprocess.Popen([str(part) for part in command], cwd=fleet.ROOT, stdout=subprocess.PIPE,
                          text=True) as program:
        for line in program.stdout:
            if last:
                print(last, end="", flush=True)
            last = line
            if match := CASE_LINE.match(line):
                cases.append(match.groups())
    return program.returncode, last, cases


class NetworkCase:
    """One case over TLS: its files, the server and the clients."""

    def __init__(self, case: tuple):
        self.key, folder, devices, problem, ridge, self.digest = case
        self.problem_options = ["--problem", problem] + (["--ridge", ridge] if float(ridge) > 0 else [])
        self.folder = pathlib.Path(folder)
        self.port = fleet.free_port()
        self.count = int(devices)
        self.processes = []

    def configuration(self) -> pathlib.Path:
        path = self.folder / "server.toml"
        server = (f'[server]\nlisten = "127.0.0.1:{self.port}"\ndatabase = "{self.folder}/gradstream.db"\n'
                  f'first_model = "{self.folder}/start.csv"\nlog_level = "info"\n[server.limits]\nstore_delay_ms = 1\n')
        path.write_text(server + (self.folder / "run.toml").read_text(encoding="ascii"), encoding="ascii")
        return path

    def run(self) -> bool:
        """Whether server and every device end with the simulator's digest."""
        config = ["--config", self.configuration()]
        identity = [self.folder / f"{index}.identity" for index in range(self.count)]
        for index in range(self.count):
            fleet.command([fleet.SERVER, "device", "add", f"d{index}", *config, "--out", identity[index]], "enrolling")
        fleet.command([fleet.SERVER, "run", "start", *config], "starting the run")
        try:
            return self.train(config, identity)
        finally:
            for process in reversed(self.processes):
                process.stop()

    def train(self, config: list, identity: list) -> bool:
        server = fleet.Process("server", [fleet.SERVER, "serve", *config])
        self.processes.append(server)
        if server.wait_for_line("event=listening", START_SECONDS_MAX) is None:
            print("\n".join(server.lines))
            return False
        for index in range(self.count):
            self.processes.append(fleet.Process(f"d{index}", [
                fleet.CLIENT, "--server", f"127.0.0.1:{self.port}", "--identity", identity[index], "--data",
                self.folder / f"{index}.gsd", *self.problem_options, "--state", "none", "--retry-ms", "20",
                "--no-floors", "--until-finished"]))
        digests = set()
        for process in self.processes[1:]:
            line = process.wait_for_line("event=finished", CASE_SECONDS_MAX)
            digests.add(fleet.fields(line)["digest"] if line else f"{process.name} {process.lines[-2:]}")
        holds = digests == {self.digest}
        verdict = "holds          " if holds else "DOES NOT HOLD  "
        print(f"network    {verdict}{self.key}: over TLS {' '.join(digests)}, simulated {self.digest}, "
              f"{self.count} devices", flush=True)
        return holds


def with_network(last: str, rounds: int, held: list) -> str:
    """The program's result line, with what the runs over TLS came to: passed only if they had the same models."""
    words = [word for word in last.split() if not word.startswith("passed=")]
    passed = "passed=1" in last.split() and bool(held) and all(held)
    words[3:3] = [f"passed={int(passed)}"]
    return " ".join([*words, f"network_rounds={rounds}", f"network_cases={len(held)}", f"same_models={sum(held)}\n"])


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--precision", choices=("float", "double"), default="float")
    parser.add_argument("--results", default="results")
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--rounds", type=int)
    try:
        known, rest = parser.parse_known_args()
        if known.network and known.precision == "double":
            parser.error("--network runs the product, which is float: leave --precision out")
    except SystemExit:
        print("result: verb=experiment error=usage")
        return 2
    fleet.end_with_parent()
    target = "gradstream-experiment" + ("-f64" if known.precision == "double" else "")
    if not build(target, *(["gradstream", "gradstream-client"] if known.network else [])):
        return 1
    results = pathlib.Path(os.path.abspath(known.results))
    options = ["--results", results]
    if known.network:
        shutil.rmtree(NETWORK_HOME, ignore_errors=True)
        options += ["--network-folder", NETWORK_HOME]
        known.rounds = known.rounds or NETWORK_ROUNDS
    if known.rounds:
        options += ["--rounds", known.rounds]
    begin = time.time() - 1  # a file system's clock may lag
    status, last, cases = run_program([fleet.BUILD / "experiments" / target, *options, *rest])
    if results.is_dir() and not draw(results, begin) and status == 0:
        print("experiment: error: gnuplot drew not every picture", file=sys.stderr)
        status = 1
    if known.network and status != 2:
        held = [NetworkCase(case).run() for case in cases]
        status = status or (0 if cases and all(held) else 1)
        last = with_network(last, known.rounds, held)
    print(last, end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
