"""./run bench device: instructions that a client takes on Cortex-M boards, counted by QEMU (-icount).

Those of its arithmetic repeat to 40 instructions. Those of a TLS handshake and of a whole round are the client image's,
against the real server, over all polls that did something: the least of some runs, since a handshake's inversions take
what its random keys make of them. bench/device_budget.txt holds them: growth over 2 % fails. They are instructions, not
cycles: no flash wait states, no pipeline. --update writes the budget anew.
"""

import argparse
import concurrent.futures
import pathlib
import re
import sys
import tempfile
import types

import digest
import digits
import emulate
import fleet

BUDGET = fleet.ROOT / "bench" / "device_budget.txt"
GROWTH_MAX = 1.02
LEAN_GROWTH_MAX = 1.10  # of a perceptron's step: the lean form over tensors, on a Cortex-M4F
EVALUATIONS = 17  # of a one-sided estimate with 16 directions
RATIOS = (  # of a zeroth-order step: estimator (7) has +-1 directions, (6) tangent normals and a retraction
    ("a step with (7) over its bare losses", "{:.2f}",
     lambda found: found["step_projection_m16"] / (EVALUATIONS * found["loss_batch_32"])),
    ("the losses' share of it", "{:.0%}",
     lambda found: EVALUATIONS * found["loss_batch_32"] / found["step_projection_m16"]),
    ("a step with (6), exponential, over one with (7)", "{:.2f}",
     lambda found: found["step_tangent_exponential_m16"] / found["step_projection_m16"]),
    ("the same if (7) were its losses alone", "{:.2f}",
     lambda found: found["step_tangent_exponential_m16"] / (EVALUATIONS * found["loss_batch_32"])),
    ("a step with (6), polar, over one with (7)", "{:.2f}",
     lambda found: found["step_tangent_polar_m16"] / found["step_projection_m16"]),
    ("the same two without their losses", "{:.2f}",
     lambda found: above_losses(found, "step_tangent_polar_m16") / above_losses(found, "step_projection_m16")),
    ("an Iris estimate with (6), polar, over one with (7)", "{:.2f}",
     lambda found: found["estimate_iris_tangent_polar"] / found["estimate_iris_projection"]),
    ("a Digits estimate with (6), polar, over one with (7)", "{:.2f}",
     lambda found: found["estimate_digits_tangent_polar"] / found["estimate_digits_projection"]),
    ("a step of a perceptron in the lean form over one with tensors", "{:.2f}",
     lambda found: lean_growth(found)),
)
ENTRY = "bench/device_main.cc"
MORE_SOURCES = ["firmware/shard.cc", "runtime/problem/perceptron.cc", "runtime/training/estimator_gradient.cc",
                "runtime/training/estimator_projection_tangent.cc", "runtime/training/estimator_retraction.cc",
                "runtime/training/lean.cc", "runtime/training/solver_gradient_stream.cc", ENTRY]


IMAGES = {"cortex-m0plus": "mps2-an385", "cortex-m3": "mps2-an385", "cortex-m4f": "mps2-an386",
          "cortex-m7": "mps2-an500"}
PRESETS = {"cortex-m0plus": "mps2-an385-m0plus"}  # where it is not the board's own: a Cortex-M3 runs the code of an M0+
RESULTS = (("handshake", "tls_handshake"), ("round", "round"))  # fields of the last line, and their cases
RESULT_MACHINES = ("m4f", "m3", "m0plus")
CONFIG = fleet.ROOT / "experiments" / "demo.toml"
INSTRUCTIONS_PER_TICK = 40   # of boards/mps2/instruction_count.h
TRIALS = 5
TRIAL_ROUNDS = (1, 3)        # of two runs, whose difference is what rounds take
TRIAL_SECONDS_MAX = 60
HANDSHAKE_MS_MAX = 60000


def above_losses(found, case):
    return found[case] - EVALUATIONS * found["loss_batch_32"]


def lean_growth(found):
    return found["step_network_lean_m16"] / found["step_network_tensors_m16"]


def builds():
    """The boards of the digest, compiled as the product is: -Os."""
    for build in digest.BUILDS:
        if build.family == "cortex_m" and build.machine != "cortex-m55":  # its SysTick has another clock
            emulator = (*build.emulator[:-1], "-icount", "shift=0", build.emulator[-1])
            yield build._replace(name=f"bench-{build.machine}", flags=build.flags.replace("-O2", "-Os"),
                                 emulator=emulator)


def measure():
    """{machine: {case: instructions}}."""
    sources = [path for path in digest.SOURCES if not path.startswith("server/") and path != digest.ENTRY]
    chosen = list(builds())
    digest.compile_all(chosen, "bench", sources + MORE_SOURCES)
    counts = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:  # the clock decides none of these counts
        runs = list(pool.map(digest.execute, chosen))
    for build, (status, _, output) in zip(chosen, runs):
        found = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", output, re.M)}
        if status != 0 or not found:
            raise digest.Failure(f"{build.name}: exit status {status}:\n{output}")
        counts[build.machine] = found
    return counts


def trial(board, image, rounds):
    """(instructions from the start to a session, from there to the run's end) of a board's whole life; None when the
    session was lost, as on a machine that does too much else."""
    with tempfile.TemporaryDirectory(prefix="gradstream-bench-") as folder:
        home, port = pathlib.Path(folder), fleet.free_port()
        config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{port}", "server.database": home / "gradstream.db",
                           "server.limits.handshake_deadline_ms": HANDSHAKE_MS_MAX, "server.export_dir": home,
                           "run.device_count": 1, "run.round_count": rounds, "run.step_size": 0.28}.items():
            config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", home / "identity"], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "shard.gsd", parts[0], mean)
        arguments = types.SimpleNamespace(board=board, server=f"127.0.0.1:{port}", identity=home / "identity",
                                          shard=home / "shard.gsd", flash=None, forever=False, no_floors=True)
        server = fleet.Process("server", [fleet.SERVER, "serve", *config])
        life = fleet.Process("board", [*emulate.command(arguments, image, "count-instructions"),
                                       "-icount", "shift=0"])
        try:
            status = life.wait(TRIAL_SECONDS_MAX)
        finally:
            life.stop()
            server.stop()
    text = "\n".join(life.lines)
    found = {event: int(ticks) * INSTRUCTIONS_PER_TICK
             for event, ticks in re.findall(r"event=(connected|finished) .*\nevent=awake ticks=(\d+)", text)}
    if status not in (0, None) and "event=deadline" not in text:
        raise digest.Failure(f"the image of {board} ended with {status}:\n{text}")
    is_calm = len(found) == 2 and "event=deadline" not in text and "event=link_lost" not in text
    return (found["connected"], found["finished"] - found["connected"]) if is_calm else None


def measure_image(machine):
    """{case: instructions} of a machine's image."""
    board = IMAGES[machine]
    image = emulate.image_of(board, preset=PRESETS.get(machine))
    short, long = ([life for _ in range(TRIALS) if (life := trial(board, image, rounds))] for rounds in TRIAL_ROUNDS)
    if not short or not long:
        raise digest.Failure(f"{board} lost its session in each of {TRIALS} runs: the machine does too much else")
    least = [min(life for _, life in lives) for lives in (short, long)]
    return {"tls_handshake": min(session for session, _ in short + long),
            "round": (least[1] - least[0]) // (TRIAL_ROUNDS[1] - TRIAL_ROUNDS[0])}


def read_budget():
    if not BUDGET.exists():
        return {}
    lines = [line.split() for line in BUDGET.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return {(machine, case): int(count) for machine, case, count in lines}


def write_budget(counts):
    lines = ["# Instructions of ./run bench device: machine, case, count. What growth fails: tools/bench_device.py."]
    lines += [f"{machine} {case} {count}" for machine, found in counts.items() for case, count in found.items()]
    BUDGET.write_text("\n".join(lines) + "\n", encoding="ascii")


def print_table(counts):
    machines = list(counts)
    print("| instructions | " + " | ".join(machines) + " |")
    print("|---|" + "---|" * len(machines))
    for case in counts["cortex-m4f"]:
        cells = (f"{counts[machine][case]:,}" if case in counts[machine] else "" for machine in machines)
        print(f"| {case} | " + " | ".join(cells) + " |")
    for what, form, ratio in RATIOS:
        print(f"| {what} | " + " | ".join(form.format(ratio(found)) for found in counts.values()) + " |")


def main():
    parser = argparse.ArgumentParser(prog="./run bench device", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--update", action="store_true", help="write bench/device_budget.txt anew")
    arguments = parser.parse_args()
    try:
        counts = measure()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for machine, found in zip(IMAGES, pool.map(measure_image, IMAGES)):
                counts[machine].update(found)
    except (digest.Failure, emulate.Failure) as failure:
        print(f"bench: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print_table(counts)
    if arguments.update:
        write_budget(counts)
    budget = read_budget()
    faults = []
    for machine, found in counts.items():
        for case, count in found.items():
            limit = budget.get((machine, case))
            if limit is None:
                faults.append(f"{machine} {case} has no budget: --update")
            elif count > limit * GROWTH_MAX:
                faults.append(f"{machine} {case} takes {count}, {count / limit - 1:.1%} over its budget of {limit}")
    if lean_growth(counts["cortex-m4f"]) > LEAN_GROWTH_MAX:
        faults.append(f"cortex-m4f step_network_lean_m16 takes {lean_growth(counts['cortex-m4f']):.2f} times the "
                      f"instructions of step_network_tensors_m16, limit {LEAN_GROWTH_MAX}: docs/algorithms.md")
    for fault in faults:
        print(f"bench: error: {fault}", file=sys.stderr)
    figures = " ".join(f"{field}_{machine}={counts[f'cortex-{machine}'][case]}"
                       for field, case in RESULTS for machine in RESULT_MACHINES)
    print(f"result: {figures} machines={len(counts)} cases={len(budget)} over_budget={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
