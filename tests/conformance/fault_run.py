"""The run that the fault server plays: its model by the arithmetic of docs/wire.md, and what it says of it.

All runs have models of 8 x 2 numbers and samples of 8. On the Euclidean space everything of a first local step is a
small whole number over a power of two. Sums then have no rounding in any order, and an update is right to the last bit.
"""

import math
import random
import struct

import wire_reference as wire
from messages import VALUES

ROWS, COLS, SAMPLE_COUNT = 8, 2, 32
SIZE = ROWS * COLS
SCALE_LOG2 = 20
PIECE_VALUES = 32  # of a record's pieces here
MANIFOLDS = {"euclidean": VALUES["MANIFOLD_EUCLIDEAN"], "sphere": VALUES["MANIFOLD_SPHERE"],
             "stiefel": VALUES["MANIFOLD_STIEFEL"]}
STEP_SIZE = 0.0625
# Of records; the far ones leave Stiefel so far that the projection goes by an eigen-decomposition.
STEP_SCALES, FAR_STEP_SCALES = (0.001, 0.02), (0.5, 2.0)
SMOOTHING, SMOOTHING_CURVED = 0.25, 0.0625  # the latter keeps displaced points where the nearest one is unique
# Of a scalar where the manifold's projection rounds: losses of about 1 over the smoothing, with margin.
SCALAR_ERROR_MAX = 1e-3


def samples_of(seed):
    draw = random.Random(seed)
    return [[float(draw.randint(-1, 1)) for _ in range(ROWS)] for _ in range(SAMPLE_COUNT)]


def shard(samples):
    """The bytes of a file GSD2 (docs/data.md)."""
    return struct.pack("<4sIII", b"GSD2", len(samples), ROWS, 0) + b"".join(wire.f32_bytes(one) for one in samples)


def loss(samples, point):
    of = [point[column::COLS] for column in range(COLS)]
    total = sum(sum(a * b for a, b in zip(z, column, strict=True)) ** 2 for z in samples for column in of)
    return -0.5 * total / len(samples)


class Run:
    """Version `version` of a run, of which the server has the model and, with a memory, the mean."""

    def __init__(self, draw, manifold, *, m=4, shared=True, memory=False):
        self.draw, self.manifold, self.m, self.shared, self.memory = draw, manifold, m, shared, memory
        self.smoothing = SMOOTHING if manifold == "euclidean" else SMOOTHING_CURVED
        self.seed, self.client_index, self.group = draw.randrange(2**32), draw.randrange(100), draw.randrange(100)
        self.parameters_digest, self.version = draw.randrange(1, 2**64), 0
        self.mean = [draw.randrange(-(2**16), 2**16) for _ in range(SIZE)] if memory else None
        self.move()

    def move(self):
        """Another model, as a snapshot may bring it."""
        self.model = [self.draw.randint(-2, 2) / 4 for _ in range(SIZE)]
        if self.manifold != "euclidean":
            z = [wire.f32(value + self.draw.gauss(0, 0.05)) for value in (1, 0, 0, 1, *[0] * 12)]
            self.model = wire.projected(self.manifold, ROWS, COLS, z)

    @property
    def digest(self):
        return wire.digest(self.model, self.mean or ())

    @property
    def domain(self):
        return wire.DOMAIN_SHARED if self.shared else wire.DOMAIN_OWN

    @property
    def owner(self):
        return self.group if self.shared else self.client_index

    def welcome(self, **more):
        return {"server_time_ms": 1795000000000, "run": 1, "run_state": VALUES["RUN_STATE_ACTIVE"],
                "parameters_digest": self.parameters_digest, "version": self.version,
                "manifold": MANIFOLDS[self.manifold], "rows": ROWS, "cols": COLS,
                "stream": VALUES["STREAM_KIND_SCALAR"], "directions": VALUES["DIRECTIONS_SIGN"],
                "shared_directions": self.shared, "seed": self.seed, "direction_count": self.m,
                "client_index": self.client_index, "group": self.group,
                "correction": VALUES["CORRECTION_MEMORY" if self.memory else "CORRECTION_LOCAL"],
                "fold_scale_log2": SCALE_LOG2, "run_nonce": self.parameters_digest ^ 1} | more

    def task(self, sequence, **more):
        return {"task_sequence": sequence, "version": self.version, "digest": self.digest,
                "solver": VALUES["SOLVER_PROJECTION"], "estimator": VALUES["ESTIMATOR_PROJECTION_ONE_SIDED"],
                "encoding": wire.F32, "local_step_count": 1, "steps_min": 1, "step_size": STEP_SIZE,
                "smoothing": self.smoothing, "batch_mode": VALUES["BATCH_MODE_COMMON"], "batch_size": SAMPLE_COUNT,
                "use_correction": True, "deadline_ms": 60000, "problem": "kpca"} | more

    def snapshot(self, piece_size=896):
        """Its pieces."""
        parts = [(VALUES["MODEL_PART_MODEL"], wire.f32_bytes(self.model))]
        if self.memory:
            parts.append((VALUES["MODEL_PART_MEAN"], struct.pack(f"<{SIZE}i", *self.mean)))
        return [{"version": self.version, "part": part, "offset": at, "total": len(data), "digest": self.digest,
                 "values": data[at : at + piece_size]}
                for part, data in parts for at in range(0, len(data), piece_size)]

    def advance(self, encoding=wire.F32, step_scales=STEP_SCALES):
        """To the next version, by a record of two blocks: its pieces."""
        encoding = wire.FIXED if self.memory else encoding
        blocks, step_scale = [], wire.f32(self.draw.uniform(*step_scales))
        for owner, steps, is_after in ((self.owner, 10, False), (self.owner + 1, 1, self.memory)):
            count = steps * self.m
            if self.memory:
                values = [self.draw.randrange(-(2**12), 2**12) for _ in range(count)]
                data = struct.pack(f"<{count}i", *values)
            else:
                data = wire.encode(encoding, [wire.f32(self.draw.gauss(0, 0.3)) for _ in range(count)])
                values = wire.decode(encoding, count, data)
            blocks.append({"version": self.version, "owner": owner, "domain": self.domain, "values": values,
                           "data": data, "after_step": is_after})
        self._apply(blocks, step_scale)
        pieces = []
        for index, block in enumerate(blocks):
            count, at = len(block["values"]), 0
            for first in range(0, count, PIECE_VALUES):
                of = min(PIECE_VALUES, count - first)
                size = {wire.F32: 4 * of, wire.BF16: 2 * of, wire.INT8: 2 + of, wire.FIXED: 4 * of}[encoding]
                pieces.append({"version": self.version, "step_scale": step_scale, "block_index": index,
                               "block_count": 2, "base_version": block["version"], "owner": block["owner"],
                               "first_value": first, "value_count": count, "encoding": encoding,
                               "values": block["data"][at : at + size], "after_step": block["after_step"]})
                at += size
        pieces[-1]["digest"] = self.digest
        return pieces

    def _apply(self, blocks, step_scale):
        if self.memory:
            words = self.mean[:]
            for block in blocks:
                if not block["after_step"]:
                    wire.add_words(self.seed, self.m, block, words)
            tensor = wire.exact_tensor(words, SCALE_LOG2)
        else:
            tensor = wire.record_sum(self.seed, self.m, blocks, SIZE)
        z = wire.stepped(self.model, step_scale, self.m, tensor)
        self.model = wire.projected(self.manifold, ROWS, COLS, z)
        if self.memory:
            for block in blocks:
                if block["after_step"]:
                    wire.add_words(self.seed, self.m, block, words)
            self.mean = words
        self.version += 1

    # ---- What an update has to say ----

    def directions(self, version, step):
        return [wire.signs(self.seed, self.domain, version, self.owner, step, j, SIZE) for j in range(self.m)]

    def _at(self, samples, point, direction, side):
        z = [x + side * self.smoothing / math.sqrt(SIZE) * sign for x, sign in zip(point, direction, strict=True)]
        if self.manifold != "euclidean":
            z = wire.projected(self.manifold, ROWS, COLS, [wire.f32(value) for value in z])
        return loss(samples, z)

    def scalars(self, task, samples, point, step):
        """Those of one local step at a point, and F there, in binary64."""
        order = wire.minibatch(self.seed, task["version"], self.client_index, step, len(samples), task["batch_size"])
        batch = [samples[index] for index in order]
        here, out = loss(batch, point), []
        for direction in self.directions(task["version"], step):
            ahead = self._at(batch, point, direction, 1)
            if task["estimator"] == VALUES["ESTIMATOR_PROJECTION_TWO_SIDED"]:
                out.append((ahead - self._at(batch, point, direction, -1)) / (2 * self.smoothing))
            else:
                out.append((ahead - here) / self.smoothing)
        return out, here

    def tensor(self, version, scalars):
        """(pr / m) sum_q s[q] u[q] / k of an update, or of the sum of a record that has k = 1 and more steps."""
        out = [0.0] * SIZE
        for step in range(len(scalars) // self.m):
            for s, direction in zip(scalars[step * self.m :], self.directions(version, step), strict=False):
                for e, sign in enumerate(direction):
                    out[e] += SIZE / self.m * s * sign / math.sqrt(SIZE)
        return out

    def path(self, task, samples, correction=None):
        """All scalars of a task on the Euclidean space, and F at the beginning of the first and of the last step."""
        point, out, losses = self.model[:], [], []
        for step in range(task["local_step_count"]):
            of_step, here = self.scalars(task, samples, point, step)
            out, losses = out + of_step, [*losses, here]
            moved = [0.0] * SIZE
            for s, direction in zip(of_step, self.directions(task["version"], step), strict=True):
                for e, sign in enumerate(direction):
                    moved[e] += SIZE / self.m * s * sign / math.sqrt(SIZE)
            point = [x - task["step_size"] * (g + c)
                     for x, g, c in zip(point, moved, correction or [0.0] * SIZE, strict=True)]
        return out, losses[0], losses[-1]
