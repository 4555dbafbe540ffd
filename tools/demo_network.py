"""./run demo --network: a small network that learns digits by forward passes alone, on native clients and one board.

A perceptron 64-16-10 is trained by five devices over TLS; none computes a gradient. A device sends 128 numbers a round,
differences of losses along directions that a seed gives. The accuracy is of samples that no device holds. All settings
stand in experiments/demo_network.toml.
"""

import argparse
import http.server
import struct
import threading
import time
import tomllib

import numpy as np

import demo_run
import digits
import fleet
import picture

CONFIG = fleet.ROOT / "experiments" / "demo_network.toml"
HOME = fleet.ROOT / "build" / "demo_network"
# What must hold from round 60 on. Of the seeds that were looked at, docs name the figures: a network's start and its
# directions are drawn from the seed.
JUDGED_ROUNDS = 60
SHOWN_ROUNDS = 10  # one line for so many
ACCURACY_MIN = {1: 0.90}
ACCURACY_MIN_OTHERS = 0.88
MODES = ("--network --head", "--network --seed 2")
SHUFFLE_SEED = 1  # of the samples: which are kept to test does not depend on the run's seed


def parse_arguments(words, settings):
    parser = argparse.ArgumentParser(prog="./run demo --network", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--head", action="store_true", help="train the head of a network behind frozen layers instead, "
                        "and by gradients beside it; its options: ./run demo --network --head --help")
    parser.add_argument("--seed", type=int, default=1, help="of directions, minibatches and first model (default 1)")
    parser.add_argument("--rounds", type=int, default=settings["run"]["round_count"], metavar="R",
                        help=f"the accuracy is judged from {JUDGED_ROUNDS} on (default {JUDGED_ROUNDS})")
    parser.add_argument("--board", choices=demo_run.BOARDS, default=demo_run.BOARDS[0],
                        help="the emulated board, or none: a fifth native client in its place")
    demo_run.add_stay(parser)
    arguments = parser.parse_args(words)
    demo_run.check_ranges(parser, arguments, (("seed", 0, demo_run.SEED_MAX), ("rounds", 1, 10**6)))
    return arguments


class Perceptron:
    """What a model is worth: its numbers in the order of runtime/problem/problem.h, a forward pass in numpy."""

    def __init__(self, widths):
        self.layers = list(zip(widths, widths[1:]))

    def start(self, seed):
        """Normals of deviation sqrt(2 / inputs), of the last layer sqrt(1 / inputs); biases 0."""
        dice = np.random.default_rng(seed)
        parts = []
        for index, (inputs, outputs) in enumerate(self.layers):
            gain = 1 if index == len(self.layers) - 1 else 2
            parts += [dice.normal(size=inputs * outputs) * np.sqrt(gain / inputs), np.zeros(outputs)]
        return np.concatenate(parts)

    def accuracy_and_loss(self, model, rows):
        """Share of rows (inputs, class) whose class has the largest score, and -mean ln of its probability."""
        values, at = rows[:, :-1], 0
        for index, (inputs, outputs) in enumerate(self.layers):
            weights = model[at:at + inputs * outputs].reshape(inputs, outputs)
            at += (inputs + 1) * outputs
            values = values @ weights + model[at - outputs:at]
            if index < len(self.layers) - 1:
                values = np.maximum(values, 0)
        classes = rows[:, -1].astype(int)
        values = values - values.max(axis=1, keepdims=True)
        losses = np.log(np.exp(values).sum(axis=1)) - values[np.arange(len(classes)), classes]
        return float(np.mean(values.argmax(axis=1) == classes)), float(np.mean(losses))


class FiguresPage:
    """The accuracy beside the server's page, which cannot show it: a page of the demo's own on 127.0.0.1, while it
    runs. It is made anew for each question, and asks again by itself.
    """

    def __init__(self, demo):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = figures_text(demo).encode("ascii")
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=us-ascii")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass  # the terminal is for the rounds

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def figures_text(demo):
    """The page: the newest round's accuracy in a sentence, all rounds in a table, the newest first."""
    curve = list(demo.curve)
    newest = f"accuracy {curve[-1][1]:.3f} in round {curve[-1][0]}" if curve else "no round yet"
    rows = "".join(f"<tr><td>{version}<td>{accuracy:.3f}<td>{loss:.4f}" for version, accuracy, loss in reversed(curve))
    return (f'<!DOCTYPE html><html lang="en"><meta http-equiv="refresh" content="2"><title>{newest}</title>'
            f"<h1>{newest}</h1><p>Of {len(demo.test)} samples that no device holds. "
            f'<a href="http://127.0.0.1:{demo.page_port}/">The server\'s page</a> shows the loss of the devices.'
            f"<table><tr><th>round<th>accuracy<th>loss{rows}</table></html>\n")


class NetworkDemo(demo_run.DemoRun):
    """Digits by a perceptron: shuffled, some kept to test, the others dealt in turn."""

    CONFIG = CONFIG
    HOME = HOME
    IMAGE = "gradstream_client_network_emulator"

    def __init__(self, arguments, settings):
        super().__init__(arguments, settings["run"]["device_count"])
        self.widths = settings["demo"]["widths"]
        self.network = Perceptron(self.widths)
        rows = digits.rows()
        rows = rows[np.random.default_rng(SHUFFLE_SEED).permutation(len(rows))]
        self.test, self.train = np.split(rows, [settings["demo"]["test_count"]])
        self.curve = []  # (version, accuracy, loss of the test samples)

    def overrides(self):
        return self.words_of({"server.first_model": self.home / "start.csv"})

    def write_shard(self, index):
        if index == 0:  # the server reads it with the first command
            np.savetxt(self.home / "start.csv", self.network.start(self.arguments.seed).reshape(-1, 1), fmt="%.9g")
        rows = self.train[index::self.count]
        self.shard(index).write_bytes(b"GSD2" + struct.pack("<3I", *rows.shape, 0) + rows.astype("<f4").tobytes())

    def native_options(self, index):
        return ["--problem", "perceptron", "--widths", ",".join(map(str, self.widths))]

    def judge(self, version, model):
        accuracy, loss = self.network.accuracy_and_loss(model.ravel(), self.test)
        self.curve.append((version, accuracy, loss))
        if not self.is_shown(version, SHOWN_ROUNDS):
            return
        own = self.rounds.get(version, {}).get("loss_before", "")
        own = f"devices' loss {float(own):6.4f}  " if own else ""
        print(f"round {version:4d}  accuracy {accuracy:.3f}  loss {loss:6.4f}  {own}{self.traffic(version)}",
              flush=True)

    def draw(self):
        """The accuracy as SVG."""
        table = self.home / "curve.csv"
        with open(table, "w", encoding="ascii") as out:
            out.write("round,accuracy,loss\n")
            out.writelines(f"{version},{accuracy:.9g},{loss:.9g}\n" for version, accuracy, loss in self.curve)
        drawn = self.home / "curve.svg"
        title = f"{'-'.join(map(str, self.widths))} on Digits by forward passes alone, {self.count} devices"
        points = [(version, accuracy) for version, accuracy, _ in self.curve]
        picture.draw(drawn, title, "round", [(f"accuracy on {len(self.test)} samples of no device", points)],
                     limits=(0.0, 1.0), height=420)
        return drawn

    def found(self, ends, seconds):
        """What the run found, in six sentences."""
        numbers = sum((inputs + 1) * outputs for inputs, outputs in self.network.layers)
        return [f"{demo_run.in_words(self.count).capitalize()} devices taught a network of {numbers:,} numbers to read "
                "digits, by forward passes alone.",
                f"It reads {100 * self.curve[-1][1]:.1f} % of {len(self.test)} images that no device holds, and began "
                f"at {100 * self.curve[0][1]:.1f} %.", *self.closing_words(ends, seconds)]


def play(arguments, settings):
    """The whole demo; the exit status."""
    demo = page = None
    try:
        demo_run.build(arguments.board, NetworkDemo.IMAGE)
        demo = NetworkDemo(arguments, settings)
        page = FiguresPage(demo)
        begin = time.monotonic()
        demo.start()
        print(f"The server's page: http://127.0.0.1:{demo.page_port}/ has the devices' loss. It has no samples, so it "
              f"knows no accuracy.\nThe accuracy: here, and at http://127.0.0.1:{page.port}/, while this runs.",
              flush=True)
        demo.watch()
        ends = demo.finish()
        seconds = time.monotonic() - begin
        result, checks = summarise(demo, ends)
        demo_run.say_found(demo.found(ends, seconds), f"The picture: {demo.draw().relative_to(fleet.ROOT)}   figures: "
                           "build/demo_network/curve.csv, models: build/demo_network/models/", MODES)
        arena, last = int(ends[-1]["arena"]), demo.name(demo.count - 1)
        print(f"{arena:,} bytes of arena on {last} hold the model and its training; {seconds:.1f} s", flush=True)
        return demo_run.end_with_result(result, checks, demo if arguments.stay else None)
    finally:
        if page is not None:
            page.stop()
        if demo is not None:
            demo.stop()


def summarise(demo, ends):
    """The result's keys, and what must hold."""
    arguments, accuracy = demo.arguments, demo.curve[-1][1]
    result = {"accuracy": f"{accuracy:.4f}", "rounds": max(demo.rounds, default=0),
              "bytes_up": sum(int(end["sent"]) for end in ends), "digests": demo.digests(ends)}
    folded = min(int(end["folded"]) for end in ends)
    checks = [("one digest on server and devices", result["digests"] == 1),
              ("every device counted in every round", folded == arguments.rounds)]
    if arguments.rounds >= JUDGED_ROUNDS:
        least = ACCURACY_MIN.get(arguments.seed, ACCURACY_MIN_OTHERS)
        checks.append((f"accuracy at least {least:.2f} on samples that no device holds", accuracy >= least))
    return result, checks


def main(words):
    with open(CONFIG, "rb") as file:
        settings = tomllib.load(file)
    arguments = parse_arguments(words, settings)
    return demo_run.guarded(HOME, lambda: play(arguments, settings))
