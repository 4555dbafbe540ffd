"""./run bench engine: what an engine on PostgreSQL costs, beside a bare loop of libpq with the same statements.

gradstream-engine-bench starts a primary and a synchronous standby of its own, with PostgreSQL's own settings, in a
folder of the build. Two fronts commit to them in turns of a tenth of a second, each with 16,384 devices. One does it by
PostgresEngine, the other one by libpq alone, whose parameters are made before the clock starts. An update is a task and
a verdict. A batch of 64 is 64 tasks, or the 64 verdicts on them with a sum of 1,600 bytes. Each front has one batch
under way.

Each number is the median of the rounds, and a ratio is of one round. The bars hold for batches of 64:

  ratio        updates a second of the engine, over those of the bare loop
  p50_ms       of a commit with verdicts: at most 1.5 times the engine's own commit without a device, and 1 ms more
  primary_us   processor time of the primary, all of its processes, for each update

The machine is quiet where other programs had at most a tenth of its processors while the fronts committed. Where it is
not, the result says which bars are missed, and the exit status is 0 all the same.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile

import fleet

PROGRAM = fleet.BUILD / "bench" / "gradstream-engine-bench"
BATCHES = (8, 64, 256)
BAR_BATCH = 64
RATIO_MIN = 0.65
EMPTY_FACTOR, EMPTY_MORE_MS = 1.5, 1
PRIMARY_US_MAX = 60
OTHERS_MAX = 0.1  # of the processors
SIDES = ("engine", "bare")
START_SECONDS_MAX = 180  # both servers, and a row for each device
LATE_FACTOR = 4  # of a turn: the commits before its clock, and a machine with other work
TURN_MORE_SECONDS = 20


class Failure(Exception):
    """What does not work, with what the program said."""


def parse_turn(line):
    """(batch, side, {name: number}) of a program's line; None: it is another one."""
    if not line.startswith("turn: "):
        return None
    found = fleet.fields(line)
    numbers = {key: float(value) for key, value in found.items() if key not in ("batch", "side")}
    return int(found["batch"]), found["side"], numbers


def medians(turns):
    """{batch: {name: median}} of the program's turns, in their order. Raises Failure where a turn has no pair, or none
    is there.
    """
    rows = {}
    if BAR_BATCH not in {batch for batch, _, _ in turns}:
        raise Failure(f"gradstream-engine-bench: no turn with batches of {BAR_BATCH}")
    for batch in sorted({batch for batch, _, _ in turns}):
        engine, bare = ([numbers for of, name, numbers in turns if (of, name) == (batch, side)] for side in SIDES)
        if len(engine) != len(bare):
            raise Failure(f"batches of {batch} have {len(engine)} turns of the engine and {len(bare)} of the bare loop")
        rates = [[turn["updates"] / turn["seconds"] for turn in side] for side in (engine, bare)]
        median = lambda name, side: statistics.median(turn[name] for turn in side)
        rows[batch] = {"ratio": statistics.median(mine / other for mine, other in zip(*rates)),
                       "updates_per_s": statistics.median(rates[0]), "bare_per_s": statistics.median(rates[1]),
                       "bare_p50_ms": median("p50_ms", bare),
                       **{name: median(name, engine) for name in ("p50_ms", "empty_ms", "primary_us", "standby_us",
                                                                   "front_us")},
                       "others": statistics.mean(turn["others"] for turn in engine + bare)}
    return rows


def judge(row):
    """(the bars that are missed, whether the machine was quiet, the fields of the result)."""
    p50_ms_max = EMPTY_FACTOR * row["empty_ms"] + EMPTY_MORE_MS
    missed = [name for name, holds in (("ratio", row["ratio"] >= RATIO_MIN), ("p50_ms", row["p50_ms"] <= p50_ms_max),
                                       ("primary_us", row["primary_us"] <= PRIMARY_US_MAX)) if not holds]
    is_quiet = row["others"] <= OTHERS_MAX
    return missed, is_quiet, (f"batch={BAR_BATCH} ratio={row['ratio']:.2f} ratio_min={RATIO_MIN} "
                              f"updates_per_s={row['updates_per_s']:.0f} p50_ms={row['p50_ms']:.2f} "
                              f"p50_ms_max={p50_ms_max:.2f} primary_us={row['primary_us']:.1f} "
                              f"primary_us_max={PRIMARY_US_MAX} missed={','.join(missed) or 'none'} "
                              f"others={row['others']:.2f} quiet={int(is_quiet)}")


def play(rounds, seconds):
    """The turns of the program."""
    turns = []

    def take(line):
        turn = parse_turn(line)
        if turn:
            turns.append(turn)
            print(f"batch {turn[0]:3} {turn[1]:6} {turn[2]['updates'] / turn[2]['seconds']:8.0f} updates/s", flush=True)

    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="engine-", dir=PROGRAM.parent, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)  # where this is root, PostgreSQL runs as another user
        words = [PROGRAM, "--rounds", rounds, "--seconds", seconds, "--batch", ",".join(map(str, BATCHES))]
        program = fleet.Process("gradstream-engine-bench", words, take, cwd=folder)
        try:
            turn_seconds = LATE_FACTOR * seconds + TURN_MORE_SECONDS
            status = program.wait(START_SECONDS_MAX + rounds * len(BATCHES) * len(SIDES) * turn_seconds)
            if status != 0:
                raise Failure(f"gradstream-engine-bench: exit status {status}:\n" +
                              "\n".join(program.lines[-20:]))
        finally:
            program.stop()
    return turns


def print_rows(rows):
    print("| batch | updates/s | bare loop | ratio | commit p50, ms | bare loop | without a device, ms "
          "| primary us | standby us | front us |")
    print("|---" * 10 + "|")
    for batch, row in rows.items():
        print(f"| {batch} | {row['updates_per_s']:,.0f} | {row['bare_per_s']:,.0f} | {row['ratio']:.2f} | "
              f"{row['p50_ms']:.2f} | {row['bare_p50_ms']:.2f} | {row['empty_ms']:.2f} | {row['primary_us']:.1f} | "
              f"{row['standby_us']:.1f} | {row['front_us']:.1f} |")


def measure(rounds, seconds):
    """Whether the exit status is 0."""
    rows = medians(play(rounds, seconds))
    print_rows(rows)
    missed, is_quiet, result = judge(rows[BAR_BATCH])
    if not is_quiet:
        print(f"other programs had {100 * rows[BAR_BATCH]['others']:.0f} % of the processors, and "
              f"{100 * OTHERS_MAX:.0f} % is the most on a quiet machine: nothing is judged by the bars")
    print(f"result: {result}")
    return not missed or not is_quiet


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run bench engine", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of both fronts with each batch (default 5)")
    parser.add_argument("--seconds", type=float, default=1, help="of each front in a round (default 1)")
    arguments = parser.parse_args()
    for name, low, high in (("rounds", 1, 1000), ("seconds", 0.1, 600)):
        if not low <= getattr(arguments, name) <= high:
            parser.error(f"--{name} takes {low:g} to {high:g}, not {getattr(arguments, name):g}")
    return arguments


def main():
    arguments = parse_arguments()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers and their folder end as by Ctrl-C
    try:
        if "GS_BUILD_DIR" not in os.environ:  # else a tree that is built
            fleet.build("dev", "gradstream-engine-bench")
        return 0 if measure(arguments.rounds, arguments.seconds) else 1
    except (Failure, RuntimeError, OSError) as failure:
        print(f"bench: error: {failure}", file=sys.stderr)
        print("result: error=failed")
    except KeyboardInterrupt:
        print("bench: error: interrupted; all that it started is ended", file=sys.stderr)
        print("result: error=interrupted")
    return 1


if __name__ == "__main__":
    sys.exit(main())
