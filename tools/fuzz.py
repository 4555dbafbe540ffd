"""./run fuzz SECONDS: libFuzzer on what peers send and what people write, for so many seconds in all, on two cores.

  frame        bytes -> frames -> messages, both directions
  client       the device's state machine against any server
  coordinator  frames of several devices -> coordinator -> fold -> journal, with a slow disk and crashes
  config       a file, a variable or --set -> TOML -> the configuration
  gsn          the file of a network -> its layers, or what is wrong with it

Starts from tests/corpus and from what earlier runs found (build/fuzz/corpus). An input that breaks a rule is kept in
build/fuzz/crashes, with the command that replays it.

--merge adds to tests/corpus the few inputs that reach code which its files do not.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

import fleet

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
SEEDS = ROOT / "tests" / "corpus"
CRASHES = BUILD / "crashes"
START_SECONDS_MAX = 60        # beyond its time: reading the corpus, one slow input, the end
SOAK_START_SECONDS_MAX = 300  # the same of a soak, whose corpus grows from soak to soak
FOUND_MAX = 500         # inputs kept from run to run, the newest ones: reading them takes of the time


class Target(NamedTuple):
    name: str
    size_max: int   # bytes of an input
    lane: int       # one of two processes at a time
    share: float    # of the lane's time

    @property
    def program(self):
        return BUILD / "tests" / "fuzz" / f"fuzz_{self.name}"

    @property
    def corpus(self):
        return BUILD / "corpus" / self.name

    @property
    def soaked(self):
        """What ./run soak fuzz has found: any number of inputs, merged at its end."""
        return BUILD / "soak" / self.name


TARGETS = [
    Target("coordinator", 400, 0, 1.0),
    Target("client", 400, 1, 0.5),
    Target("frame", 2048, 1, 0.2),
    Target("config", 600, 1, 0.2),
    Target("gsn", 1200, 1, 0.1),
]
INPUT_SECONDS_MAX = 20  # by the clock: a machine with 25 others at work makes 17 s of 0.2 s of processor
OPTIONS = ["-print_final_stats=1", f"-timeout={INPUT_SECONDS_MAX}", f"-report_slow_units={INPUT_SECONDS_MAX}",
           "-rss_limit_mb=2048", "-malloc_limit_mb=64", "-entropic=0"]
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "malloc_context_size=5:detect_leaks=1",
               "UBSAN_OPTIONS": "print_stacktrace=1"}


def build():
    try:
        fleet.build("fuzz", *(f"fuzz_{target.name}" for target in TARGETS))
    except RuntimeError as failure:
        print(f"fuzz: error: {failure}")
        return False
    return True


class Run(NamedTuple):
    target: Target
    executions: int
    coverage: int
    is_good: bool
    text: str  # what libFuzzer said last


def fuzz(target, seconds, is_soak):
    """One libFuzzer process; it stops at the first input that breaks a rule."""
    found = [target.soaked, target.corpus] if is_soak else [target.corpus]
    for folder in (*found, CRASHES):
        folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(target.corpus.iterdir(), key=lambda file: file.stat().st_mtime)[:-FOUND_MAX]:
        file.unlink()
    command = [target.program, f"-max_total_time={max(1, round(seconds))}", f"-max_len={target.size_max}",
               f"-artifact_prefix={CRASHES}/{target.name}-", *OPTIONS, *found, SEEDS / target.name]
    allowed = SOAK_START_SECONDS_MAX if is_soak else START_SECONDS_MAX
    try:
        done = subprocess.run(command, cwd=BUILD, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              timeout=seconds + allowed)
    except subprocess.TimeoutExpired as expired:
        said = (expired.output or b"").decode(errors="replace")
        return Run(target, 0, 0, False, f"no end {allowed} s after its time\n{said[-2000:]}")
    counts = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    coverage = re.findall(r"\bcov: (\d+)", done.stdout)
    executions = int(counts[-1]) if counts else 0
    return Run(target, executions, int(coverage[-1]) if coverage else 0, done.returncode == 0 and executions > 0,
               done.stdout[-4000:])


def fuzz_lane(lane, seconds, is_soak):
    return [fuzz(target, seconds * target.share, is_soak) for target in TARGETS if target.lane == lane]


def fuzz_lanes(seconds, is_soak=False):
    """All fuzzers, two at a time, in so many seconds."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return [run for lane in pool.map(lambda lane: fuzz_lane(lane, seconds, is_soak), (0, 1)) for run in lane]


def fuzz_all(seconds):
    begin = time.monotonic()
    runs = fuzz_lanes(seconds)
    for run in runs:
        print(f"{run.target.name}: {run.executions} executions, {run.coverage} edges, "
              f"{len(list(run.target.corpus.iterdir()))} inputs found" + ("" if run.is_good else ", BROKEN"))
        if not run.is_good:
            print(run.text)
            print(f"replay: {run.target.program.relative_to(ROOT)} "
                  f"{(CRASHES / run.target.name).relative_to(ROOT)}-*")
    executions = sum(run.executions for run in runs)
    crashes = sum(not run.is_good for run in runs)
    print(f"result: targets={len(TARGETS)} executions={executions} crashes={crashes} "
          f"seconds={time.monotonic() - begin:.0f}")
    return crashes == 0


def merge():
    for target in TARGETS:
        command = [target.program, "-set_cover_merge=1", "-use_counters=0", f"-max_len={target.size_max}", *OPTIONS,
                   SEEDS / target.name, target.corpus]
        subprocess.run(command, cwd=BUILD, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True)
        files = list((SEEDS / target.name).iterdir())
        print(f"{target.name}: {len(files)} files, {sum(file.stat().st_size for file in files)} bytes")
    return True


def main():
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=int, nargs="?", metavar="SECONDS")
    parser.add_argument("--merge", action="store_true")
    arguments = parser.parse_args()
    if not arguments.merge and (arguments.seconds is None or arguments.seconds < 1):
        parser.error("SECONDS: a number above 0")
    if not build():
        print(f"result: targets={len(TARGETS)} executions=0 crashes=0 error=build")
        return 1
    return 0 if (merge() if arguments.merge else fuzz_all(arguments.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
