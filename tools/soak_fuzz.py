"""./run soak fuzz: every fuzzer of ./run fuzz in turn, for as long as is wanted, again and again.

A turn is at most ten minutes. A fuzzer that found a crash goes on in its next turn, since it stops at each. Inputs
that reach new code stay in build/fuzz/soak, from soak to soak. At the end each corpus is merged: only inputs that
reach what no other of it does are kept. Each crash is kept in build/fuzz/crashes, with the command that replays it.

A fuzzer takes at most 2 GiB, and is ended 300 s after its turn.
"""

import argparse
import shutil
import subprocess
import sys
import time

import fleet
import fuzz

TURN_SECONDS_MAX = 600
MERGE_SECONDS_MAX = 600  # of one corpus
RUNS_EMPTY_MAX = 3       # turns without an execution, after which the soak ends: the machine cannot do it


def names_of(folder):
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def crashes_of(target):
    return {name for name in names_of(fuzz.CRASHES) if name.startswith(f"{target.name}-")}


def replay_of(target, name):
    return (f"{target.program.relative_to(fleet.ROOT)} {' '.join(fuzz.OPTIONS)} "
            f"{(fuzz.CRASHES / name).relative_to(fleet.ROOT)}")


def merged(target):
    """Whether the corpus was put down to what reaches code that nothing else of it does. It stays whole otherwise."""
    kept = target.soaked.with_name(f"{target.name}.merged")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    command = [target.program, "-merge=1", f"-max_len={target.size_max}", *fuzz.OPTIONS, kept, target.soaked]
    try:
        done = subprocess.run(command, cwd=fuzz.BUILD, env=fuzz.ENVIRONMENT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=MERGE_SECONDS_MAX,
                              check=False)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode != 0:
        print(f"soak: {target.name}: the corpus was not merged, and stays as it is")
        return False
    shutil.rmtree(target.soaked)
    kept.rename(target.soaked)
    return True


def turns(seconds):
    """Runs of all fuzzers, turn by turn, until the time is over. Prints each crash when its turn ends."""
    end = time.monotonic() + seconds
    known = names_of(fuzz.CRASHES)
    runs = []
    while (left := end - time.monotonic()) > 1:
        turn = fuzz.fuzz_lanes(min(left, TURN_SECONDS_MAX), is_soak=True)
        runs += turn
        for run in turn:
            print(f"soak: {run.target.name}: {run.executions} executions, {run.coverage} edges, "
                  f"{len(names_of(run.target.soaked))} inputs", flush=True)
            fresh = crashes_of(run.target) - known
            known |= fresh
            for name in sorted(fresh):
                print(f"soak: crash {name}\nreplay: {replay_of(run.target, name)}")
            if not run.is_good:
                print(run.text, flush=True)
        if sum(run.executions == 0 for run in runs) >= RUNS_EMPTY_MAX:
            break
    return runs


def main():
    parser = argparse.ArgumentParser(prog="./run soak fuzz", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="in all (default 60)")
    arguments = parser.parse_args()
    if not fuzz.build():
        print(f"result: fuzzers={len(fuzz.TARGETS)} executions=0 crashes=0 error=build")
        return 1
    begin = time.monotonic()
    before = {target.name: names_of(target.soaked) for target in fuzz.TARGETS}
    runs = turns(arguments.minutes * 60)
    minutes = (time.monotonic() - begin) / 60
    is_merged = all([merged(target) for target in fuzz.TARGETS])
    fresh = sum(len(names_of(target.soaked) - before[target.name]) for target in fuzz.TARGETS)
    crashes = sum(not run.is_good for run in runs)
    print(f"result: fuzzers={len(fuzz.TARGETS)} minutes={minutes:.1f} "
          f"executions={sum(run.executions for run in runs)} crashes={crashes} new_units={fresh}")
    return 0 if runs and crashes == 0 and is_merged else 1


if __name__ == "__main__":
    sys.exit(main())
