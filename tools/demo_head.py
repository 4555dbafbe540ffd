"""./run demo --network --head: the head of a network is trained behind layers that stay as they are, on native clients
and one board.

A network 64-32-10 learns digits beforehand, in this program. Then the devices see the digits turned by 35 degrees, and
the network knows less than half of them. Its first layer stays frozen, in int8 or in float, in the board's flash. Five
devices train the last layer, 330 numbers, over TLS by forward passes alone: 64 numbers, 256 bytes, a device and round.
Then native clients train the same head on the same samples by gradients, as many rounds. Both accuracies are of samples
that no device holds. All settings stand in experiments/demo_head.toml.
"""

import argparse
import itertools
import struct
import time
import tomllib

import numpy as np

import demo_run
import digits
import fleet
import gsn
import picture

CONFIG = fleet.ROOT / "experiments" / "demo_head.toml"
HOME = fleet.ROOT / "build" / "demo_head"
# What must hold. A zeroth-order head is at most so far below the first-order one, as a share of the test samples.
BELOW_MAX = 0.03
ROUND_BYTES_UP_MAX = 256  # of a device and round
# From so many rounds on the accuracy itself is judged, too: the head begins at 0.46.
JUDGED_ROUNDS = 100
ACCURACY_MIN = 0.78
SHOWN_ROUNDS = 10  # one line for so many
MODES = ("--network", "--network --head --frozen float")
SHUFFLE_SEED = 1   # of the samples: which are kept to test does not depend on the run's seed
FACTORY_SEED = 1   # of the training beforehand
INT8_MAX = 127


def parse_arguments(words, settings):
    parser = argparse.ArgumentParser(prog="./run demo --network --head",
                                     description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--frozen", choices=("int8", "float"), default="int8",
                        help="how the frozen weights stand in the network's file (default int8)")
    parser.add_argument("--seed", type=int, default=1, help="of directions and minibatches (default 1)")
    parser.add_argument("--rounds", type=int, default=settings["run"]["round_count"], metavar="R",
                        help=f"of both runs; the accuracy itself is judged from {JUDGED_ROUNDS} on "
                        f"(default {settings['run']['round_count']})")
    parser.add_argument("--board", choices=demo_run.BOARDS, default=demo_run.BOARDS[0],
                        help="the emulated board, or none: a fifth native client in its place")
    demo_run.add_stay(parser)
    arguments = parser.parse_args(words)
    demo_run.check_ranges(parser, arguments, (("seed", 0, demo_run.SEED_MAX), ("rounds", 1, 10**6)))
    return arguments


def turning(degrees):
    """The matrix T of 64 x 64 with pixels @ T = the pixels turned about the middle, between pixels bilinear."""
    sine, cosine = np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))
    out = np.zeros((64, 64))
    for row, column in itertools.product(range(8), repeat=2):
        down, right = row - 3.5, column - 3.5
        at = (cosine * down + sine * right + 3.5, -sine * down + cosine * right + 3.5)
        first = [int(np.floor(place)) for place in at]
        for steps in itertools.product((0, 1), repeat=2):
            source = [begin + step for begin, step in zip(first, steps)]
            if all(0 <= place < 8 for place in source):
                share = np.prod([1 - abs(exact - place) for exact, place in zip(at, source)])
                out[source[0] * 8 + source[1], row * 8 + column] += share
    return out


class Factory:
    """The network as it leaves the factory: trained by gradients on upright digits, then its first layer is frozen."""

    def __init__(self, rows, settings, form):
        inputs, hidden, classes = settings["widths"]
        dice = np.random.default_rng(FACTORY_SEED)
        self.weights = [dice.normal(size=(inputs, hidden)) * np.sqrt(2 / inputs),
                        dice.normal(size=(hidden, classes)) * np.sqrt(1 / hidden)]
        self.biases = [np.zeros(hidden), np.zeros(classes)]
        self.train(rows, dice, settings["factory_steps"], settings["factory_step_size"])
        self.form = form
        self.scales = np.abs(self.weights[0]).max(axis=0) / INT8_MAX
        self.levels = np.round(self.weights[0] / self.scales).astype("<i1")
        if form == "int8":
            self.weights[0] = self.levels * self.scales

    def train(self, rows, dice, steps, step_size, batch=32):
        """Plain descent by minibatches."""
        for _ in range(steps):
            picked = rows[dice.integers(0, len(rows), batch)]
            inputs, classes = picked[:, :-1], picked[:, -1].astype(int)
            features = self.features(inputs)
            error = probabilities(features @ self.weights[1] + self.biases[1])
            error[np.arange(batch), classes] -= 1
            error /= batch
            back = (error @ self.weights[1].T) * (features > 0)
            for layer, (values, gradient) in enumerate(((inputs, back), (features, error))):
                self.weights[layer] -= step_size * values.T @ gradient
                self.biases[layer] -= step_size * gradient.sum(axis=0)

    def features(self, inputs):
        return np.maximum(inputs @ self.weights[0] + self.biases[0], 0)

    def file(self):
        """The network as *.gsn: the first layer frozen, the head trained from the factory's numbers."""
        frozen = {"weights": self.levels.tobytes(), "scales": floats(self.scales), "form": gsn.INT8_PER_CHANNEL}
        if self.form == "float":
            frozen = {"weights": floats(self.weights[0])}
        (inputs, hidden), classes = self.weights[0].shape, len(self.biases[1])
        return gsn.network((1, 1, inputs), [
            gsn.dense(inputs, hidden, biases=floats(self.biases[0]), activation=gsn.RELU, **frozen),
            gsn.dense(hidden, classes, floats(self.weights[1]), floats(self.biases[1]), trained=gsn.DENSE)])

    def accuracy(self, model, rows):
        """Share of rows (inputs, class) whose class has the largest score with this head."""
        hidden, classes = self.weights[1].shape
        scores = self.features(rows[:, :-1]) @ model[:hidden * classes].reshape(hidden, classes)
        return float(np.mean((scores + model[hidden * classes:]).argmax(axis=1) == rows[:, -1]))


def probabilities(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def floats(values):
    return np.asarray(values).astype("<f4").tobytes()


class Task:
    """What both runs share: the network's file, the devices' samples and those to test."""

    def __init__(self, arguments, settings):
        rows = digits.rows()
        rows = rows[np.random.default_rng(SHUFFLE_SEED).permutation(len(rows))]
        upright, rows = np.split(rows, [settings["factory_count"]])
        self.factory = Factory(upright, settings, arguments.frozen)
        turned = np.column_stack([rows[:, :-1] @ turning(settings["turned_degrees"]), rows[:, -1]])
        self.test, self.train = np.split(turned, [settings["test_count"]])
        self.network = HOME / "head.gsn"
        HOME.mkdir(parents=True, exist_ok=True)
        self.network.write_bytes(self.factory.file())


class HeadDemo(demo_run.DemoRun):
    """One run of the two."""

    CONFIG = CONFIG
    IMAGE = "gradstream_client_gsn_emulator"

    def __init__(self, arguments, settings, task, home, title, keys):
        super().__init__(arguments, settings["run"]["device_count"])
        self.home = HOME / home
        self.task = task
        self.title = title
        self.keys = keys
        self.stays = False  # the server, at the end of play()
        self.curve = []     # (version, accuracy)

    def overrides(self):
        return self.words_of({"run.network": self.task.network, **self.keys})

    def write_shard(self, index):
        rows = self.task.train[index::self.count]
        self.shard(index).write_bytes(b"GSD2" + struct.pack("<3I", *rows.shape, 0) + floats(rows))

    def native_options(self, index):
        return []

    def device_command(self, index):
        return [*super().device_command(index), "--network", self.task.network]

    def judge(self, version, model):
        self.curve.append((version, self.task.factory.accuracy(model.ravel(), self.task.test)))
        if self.is_shown(version, SHOWN_ROUNDS):
            print(f"{self.title}: round {version:4d}  accuracy {self.curve[-1][1]:.3f}  {self.traffic(version)}",
                  flush=True)

    def bytes_up(self):
        """The most that a device sent in a round."""
        return max(int(fields["upload_bytes"]) for fields in self.rounds.values()) // self.count

    def play(self):
        """The run from start to end: what each device said last."""
        try:
            self.start()
            self.watch()
            return self.finish()
        finally:
            if self.stays:
                for device in self.devices:
                    device.stop()
            else:
                self.stop()

    def found(self, ends, seconds, gradients):
        """What the run found beside that by gradients, in six sentences."""
        head = self.task.factory.weights[1].size + self.task.factory.biases[1].size
        return [f"{demo_run.in_words(self.count).capitalize()} devices taught {head} numbers of a network, its last "
                "layer, to read digits that are turned; the first layer stayed as it was.",
                f"It reads {100 * self.curve[-1][1]:.1f} % of {len(self.task.test)} images that no device holds, and "
                f"began at {100 * self.curve[0][1]:.1f} %; by gradients it reads "
                f"{100 * gradients.curve[-1][1]:.1f} %, for {gradients.bytes_up():,} bytes a round.",
                *self.closing_words(ends, seconds)]


def draw(demos):
    """The accuracies as SVG."""
    for demo in demos:
        with open(demo.home / "curve.csv", "w", encoding="ascii") as out:
            out.write("round,accuracy\n")
            out.writelines(f"{version},{accuracy:.9g}\n" for version, accuracy in demo.curve)
    drawn = HOME / "curve.svg"
    picture.draw(drawn, f"Accuracy of a head behind frozen layers, {demos[0].count} devices", "round",
                 [(f"{demo.title}, {demo.bytes_up()} bytes a round", demo.curve) for demo in demos],
                 limits=(0.0, 1.0), height=420)
    return drawn


def play(arguments, settings):
    """The whole demo; the exit status."""
    demo_run.build(arguments.board, HeadDemo.IMAGE)
    task = Task(arguments, settings["demo"])
    native = argparse.Namespace(**(vars(arguments) | {"board": "none"}))
    begin = time.monotonic()
    scalars = HeadDemo(arguments, settings, task, "scalars", "by forward passes", {})
    scalars.stays = arguments.stay
    try:
        ends = scalars.play()
        gradients = HeadDemo(native, settings, task, "gradients", "by gradients", {
            "run.solver": "gradient_stream", "run.estimator": "analytic_gradient"})
        native_ends = gradients.play()
        seconds = time.monotonic() - begin
        result, checks = summarise(scalars, gradients, ends, native_ends)
        demo_run.say_found(scalars.found(ends, seconds, gradients),
                           f"The picture: {draw([scalars, gradients]).relative_to(fleet.ROOT)}   network: "
                           f"{task.network.relative_to(fleet.ROOT)}, models: build/demo_head/scalars/models/", MODES)
        print(f"{int(ends[-1]['arena']):,} bytes of arena on {scalars.name(scalars.count - 1)} hold the head, its "
              f"features and its training; {seconds:.1f} s", flush=True)
        return demo_run.end_with_result(result, checks, scalars if arguments.stay else None)
    finally:
        scalars.stop()


def summarise(scalars, gradients, ends, native_ends):
    """The result's keys, and what must hold, of both runs."""
    accuracy, first_order = scalars.curve[-1][1], gradients.curve[-1][1]
    rounds = scalars.arguments.rounds
    result = {"accuracy": f"{accuracy:.4f}", "first_order": f"{first_order:.4f}", "bytes_up": scalars.bytes_up(),
              "first_order_bytes_up": gradients.bytes_up(), "rounds": max(scalars.rounds, default=0),
              "digests": scalars.digests(ends)}
    checks = [("one digest on server and devices of each run",
               result["digests"] == gradients.digests(native_ends) == 1),
              ("every device counted in every round",
               min(int(end["folded"]) for end in [*ends, *native_ends]) == rounds),
              (f"at most {ROUND_BYTES_UP_MAX} bytes up a device and round: {scalars.bytes_up()}",
               scalars.bytes_up() <= ROUND_BYTES_UP_MAX),
              (f"accuracy at most {BELOW_MAX:.2f} below the first-order head's: {accuracy:.3f} against "
               f"{first_order:.3f}, which takes {gradients.bytes_up()} bytes", accuracy >= first_order - BELOW_MAX)]
    if rounds >= JUDGED_ROUNDS:
        checks.append((f"accuracy at least {ACCURACY_MIN:.2f} on samples that no device holds; it began at "
                       f"{scalars.curve[0][1]:.3f}", accuracy >= ACCURACY_MIN))
    return result, checks


def main(words):
    with open(CONFIG, "rb") as file:
        settings = tomllib.load(file)
    arguments = parse_arguments(words, settings)
    return demo_run.guarded(HOME, lambda: play(arguments, settings))
