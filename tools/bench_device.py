"""./run bench device: instructions that the client's arithmetic takes on Cortex-M boards, counted by QEMU (-icount).

The counts repeat to 40 instructions, so that bench/device_budget.txt can hold them: growth over 2 % fails. They are
instructions, not cycles: no flash wait states, no pipeline. --update writes the budget anew.
"""

import argparse
import re
import sys

import digest
import fleet

BUDGET = fleet.ROOT / "bench" / "device_budget.txt"
GROWTH_MAX = 1.02
EVALUATIONS = 17  # of a one-sided estimate with 16 directions
RATIOS = (  # of a zeroth-order step: estimator (7) has +-1 directions, (6) tangent normals and a retraction
    ("a step with (7) over its bare losses", "{:.2f}",
     lambda found: found["step_projection_m16"] / (EVALUATIONS * found["loss_batch_32"])),
    ("the losses' share of it", "{:.0%}",
     lambda found: EVALUATIONS * found["loss_batch_32"] / found["step_projection_m16"]),
    ("a step with (6), exponential, over one with (7)", "{:.2f}",
     lambda found: found["step_tangent_exponential_m16"] / found["step_projection_m16"]),
    ("a step with (6), polar, over one with (7)", "{:.2f}",
     lambda found: found["step_tangent_polar_m16"] / found["step_projection_m16"]),
    ("the same two without their losses", "{:.2f}",
     lambda found: above_losses(found, "step_tangent_polar_m16") / above_losses(found, "step_projection_m16")),
)
ENTRY = "bench/device_main.cc"
MORE_SOURCES = ["runtime/training/estimator_gradient.cc", "runtime/training/estimator_retraction.cc",
                "runtime/training/proximal.cc", "runtime/training/solver_gradient_stream.cc", ENTRY]


def above_losses(found, case):
    return found[case] - EVALUATIONS * found["loss_batch_32"]


def builds():
    """The boards of the digest, compiled as the product is: -Os."""
    for build in digest.BUILDS:
        if build.is_board and build.machine != "cortex-m55":  # its SysTick has another clock
            emulator = (*build.emulator[:-1], "-icount", "shift=0", build.emulator[-1])
            yield build._replace(name=f"bench-{build.machine}", flags=build.flags.replace("-O2", "-Os"),
                                 emulator=emulator)


def measure():
    """{machine: {case: instructions}}."""
    sources = [path for path in digest.SOURCES if path not in ("server/fold.cc", "tests/digest_main.cc")]
    chosen = list(builds())
    digest.compile_all(chosen, "bench", sources + MORE_SOURCES)
    counts = {}
    for build in chosen:
        status, _, output = digest.execute(build)
        found = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", output, re.M)}
        if status != 0 or not found:
            raise digest.Failure(f"{build.name}: exit status {status}:\n{output}")
        counts[build.machine] = found
    return counts


def read_budget():
    if not BUDGET.exists():
        return {}
    lines = [line.split() for line in BUDGET.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return {(machine, case): int(count) for machine, case, count in lines}


def write_budget(counts):
    lines = ["# Instructions of ./run bench device: machine, case, count. Growth over 2 % fails; --update writes anew."]
    lines += [f"{machine} {case} {count}" for machine, found in counts.items() for case, count in found.items()]
    BUDGET.write_text("\n".join(lines) + "\n", encoding="ascii")


def print_table(counts):
    machines = list(counts)
    print("| instructions | " + " | ".join(machines) + " |")
    print("|---|" + "---|" * len(machines))
    for case in counts[machines[0]]:
        print(f"| {case} | " + " | ".join(f"{counts[machine][case]:,}" for machine in machines) + " |")
    for what, form, ratio in RATIOS:
        print(f"| {what} | " + " | ".join(form.format(ratio(found)) for found in counts.values()) + " |")


def main():
    parser = argparse.ArgumentParser(prog="./run bench device", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--update", action="store_true", help="write bench/device_budget.txt anew")
    arguments = parser.parse_args()
    try:
        counts = measure()
    except digest.Failure as failure:
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
    for fault in faults:
        print(f"bench: error: {fault}", file=sys.stderr)
    print(f"result: machines={len(counts)} cases={len(budget)} over_budget={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
