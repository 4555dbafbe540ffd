"""./run demo: one model, a server, native clients of unequal speed and one emulated board, over TLS, on real data.

All settings stand in experiments/demo.toml: [server] and [run] are the server's, [demo] is this tool's. The server
knows no data; gap and picture come from here, from the model that it exports for each version.
"""

import argparse
import signal
import sys
import time
import tomllib

import demo_head
import demo_network
import demo_run
import digits
import fleet
import picture

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
HOME = fleet.ROOT / "build" / "demo"
# What must hold at the end (an independent implementation ends at 5e-4 to 6e-4, and at 5e-5 to 1e-4).
BOARDS = ("mps2-an386", "riscv-virt", "none")
SHOWN_ROUNDS = 25  # one line for so many
GAP_MAX = {"projection": 2e-3, "gradient_stream": 2e-4}

LEGEND = ("gap: the share of the exact answer that is missing; angle: between both; folded: devices that counted in "
          "the round, of them late or with part of the steps")
MODES = ("--network", "--network --head", "--solver gradient_stream", "--groups 9", "--trigger 7", "--partial 1")


def parse_arguments(settings):
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--network", action="store_true", help="train a small network by forward passes alone instead; "
                        "its options: ./run demo --network --help")
    parser.add_argument("--head", action="store_true", help="with --network: train the head of a network behind frozen "
                        "layers, and by gradients beside it; its options: ./run demo --network --head --help")
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
    demo_run.add_stay(parser)
    arguments = parser.parse_args()
    devices, steps = settings["run"]["device_count"], settings["run"]["local_step_count"]
    if arguments.trigger != "all" and not (arguments.trigger.isdigit() and 1 <= int(arguments.trigger) <= devices):
        parser.error(f"--trigger takes 'all' or 1 to {devices} devices, not '{arguments.trigger}'")
    demo_run.check_ranges(parser, arguments, (("groups", 1, devices), ("partial", 1, steps),
                                              ("seed", 0, demo_run.SEED_MAX), ("rounds", 1, 10**6)))
    return arguments


class Demo(demo_run.DemoRun):
    """Federated PCA on Digits, whose classes are dealt so that a device sees about one."""

    CONFIG = CONFIG
    HOME = HOME

    def __init__(self, arguments, settings):
        super().__init__(arguments, len(settings["demo"]["speeds"]) + 1)
        self.settings = settings["demo"]
        self.parts, self.mean = digits.shards(self.count)
        self.exact = digits.ExactPca(self.parts, self.mean, settings["run"]["cols"])
        self.curve = []     # (version, relative gap, angle)

    def overrides(self):
        chosen = self.arguments
        step = self.settings["step_over_largest_eigenvalue"][chosen.solver] / self.exact.largest
        values = {"run.step_size": f"{step:.9g}", "run.upload_encoding": chosen.encoding}
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
        return self.words_of(values)

    def write_shard(self, index):
        digits.write_shard(self.shard(index), self.parts[index], self.mean)

    def native_options(self, index):
        speeds = self.settings["speeds"]
        return ["--step-delay-ms", speeds[index] * self.settings["step_delay_ms"] if index < len(speeds) else 0]

    def judge(self, version, model):
        gap, angle = self.exact.relative_gap(model), self.exact.largest_angle(model)
        self.curve.append((version, gap, angle))
        if not self.is_shown(version, SHOWN_ROUNDS):
            return
        values = self.rounds.get(version, {})
        shares = " ".join(f"{key} {values.get(key, '0')}" for key in ("folded", "late", "partial"))
        print(f"round {version:4d}  gap {gap:9.3e}  angle {angle:8.2e} rad  {shares}  {self.traffic(version)}",
              flush=True)

    def draw(self):
        """The curve as SVG."""
        table = self.home / "curve.csv"
        with open(table, "w", encoding="ascii") as out:
            out.write("round,relative_gap,angle_rad\n")
            out.writelines(f"{version},{gap:.9g},{angle:.9g}\n" for version, gap, angle in self.curve)
        drawn = self.home / "curve.svg"
        picture.draw(drawn, f"federated PCA on Digits, {self.count} devices, {self.arguments.solver}", "round",
                     [("relative gap to the exact PCA", [(version, gap) for version, gap, _ in self.curve]),
                      ("largest principal angle, rad", [(version, angle) for version, _, angle in self.curve])],
                     logarithmic=True)
        return drawn

    def found(self, ends, seconds):
        """What the run found, in six sentences."""
        _, gap, _ = self.curve[-1]
        images = sum(len(part) for part in self.parts)
        components = demo_run.in_words(self.exact.basis.shape[1])
        return [f"{demo_run.in_words(self.count).capitalize()} devices learnt the {components} main strokes of "
                "handwritten digits without sending an image.",
                f"Their model is worth {100 * max(0.0, 1 - gap):.2f} % of the exact answer, which takes all "
                f"{images:,} images in one place.", *self.closing_words(ends, seconds)]


def summarise(demo, ends, seconds):
    arguments = demo.arguments
    _, gap, angle = demo.curve[-1]
    totals = {key: sum(int(end[field]) for end in ends)
              for key, field in (("bytes_up", "sent"), ("bytes_down", "received"))}
    result = {
        "relative_gap": f"{gap:.3e}", "angle_rad": f"{angle:.3e}", "rounds": max(demo.rounds, default=0),
        "devices": demo.count, "min_folded_per_device": min(int(end["folded"]) for end in ends),
        "digests": demo.digests(ends),
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
    which = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    which.add_argument("--network", action="store_true")
    which.add_argument("--head", action="store_true")
    known, rest = which.parse_known_args()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if known.head:
        return demo_head.main(rest)
    if known.network:
        return demo_network.main(rest)
    with open(CONFIG, "rb") as file:
        settings = tomllib.load(file)
    arguments = parse_arguments(settings)
    return demo_run.guarded(HOME, lambda: play(arguments, settings))


def play(arguments, settings):
    """The whole demo; the exit status."""
    demo = None
    try:
        demo_run.build(arguments.board, Demo.IMAGE)
        demo = Demo(arguments, settings)
        begin = time.monotonic()
        demo.start()
        print(f"The server's page while this runs: http://127.0.0.1:{demo.page_port}/\n{LEGEND}", flush=True)
        demo.watch()
        ends = demo.finish()
        seconds = time.monotonic() - begin
        result, checks = summarise(demo, ends, seconds)
        demo_run.say_found(demo.found(ends, seconds), f"The picture: {demo.draw().relative_to(fleet.ROOT)}   figures: "
                           "build/demo/curve.csv, models: build/demo/models/, database: build/demo/gradstream.db",
                           MODES)
        return demo_run.end_with_result(result, checks, demo if arguments.stay else None)
    finally:
        if demo is not None:
            demo.stop()


if __name__ == "__main__":
    sys.exit(main())
