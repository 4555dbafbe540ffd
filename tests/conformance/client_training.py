"""What a device does with a Task: local steps of k-PCA by losses alone, and the scalars that they leave.

Only the scalars' meaning is the wire's (docs/wire.md, section 6); their arithmetic is the device's own. Losses are
computed in binary64, points of the manifold by wire_reference.py. X is a list of rows * cols numbers, row by row.
"""

import math
import struct
import time

import wire_reference as wire
from messages import VALUES

PROBLEM = "kpca"
ONE_SIDED, TWO_SIDED = VALUES["ESTIMATOR_PROJECTION_ONE_SIDED"], VALUES["ESTIMATOR_PROJECTION_TWO_SIDED"]
ENCODINGS = (wire.F32, wire.BF16, wire.INT8)
STEP_COUNT_MAX = 256


def read_shard(path):
    """Samples as lists of numbers, of a shard GSD1 (bytes) or GSD2 (floats): docs/data.md. Raises ValueError."""
    with open(path, "rb") as file:
        data = file.read()
    magic, count, dimension = struct.unpack_from("<4sII", data)
    if magic == b"GSD1":
        scale = struct.unpack_from("<f", data, 12)[0]
        mean = struct.unpack_from(f"<{dimension}f", data, 16)
        values = data[16 + 4 * dimension :]
        flat = [wire.f32(byte * scale - mean[i % dimension]) for i, byte in enumerate(values)]
    elif magic == b"GSD2":
        flat = list(struct.unpack_from(f"<{count * dimension}f", data, 16))
    else:
        raise ValueError(f"{path} is no shard of form GSD1 or GSD2")
    if len(flat) != count * dimension or not flat:
        raise ValueError(f"{path} has {len(flat)} values, and promises {count * dimension}")
    return [flat[i : i + dimension] for i in range(0, len(flat), dimension)]


def loss(samples, indices, cols, point):
    """-|X'z|^2 / 2, the mean over the samples of the indices."""
    of = [point[column::cols] for column in range(cols)]
    total = 0.0
    for index in indices:
        z = samples[index]
        for column in of:
            total += sum(a * b for a, b in zip(z, column, strict=True)) ** 2
    return -0.5 * total / len(indices)


def why_not(task, run):
    """The Reason for which this client refuses a task; 0: it takes it."""
    known = (task["solver"] == VALUES["SOLVER_PROJECTION"] and task["estimator"] in (ONE_SIDED, TWO_SIDED)
             and task["encoding"] in ENCODINGS and task["problem"] == PROBLEM and task["proximal"] == 0
             and task["proximal_form"] == 0 and task["stage"] == VALUES["STAGE_TRAIN"]
             and task["local_retraction"] in (0, run["retraction"]))
    if not known:
        return VALUES["REASON_TASK_UNIMPLEMENTED"]
    in_bounds = (1 <= task["local_step_count"] <= STEP_COUNT_MAX and task["steps_min"] <= task["local_step_count"]
                 and task["smoothing"] > 0 and task["step_size"] >= 0
                 and (task["batch_mode"] != VALUES["BATCH_MODE_COMMON"] or task["batch_size"] or task["batch_sizes"])
                 and task["batch_mode"] != VALUES["BATCH_MODE_NONE"])
    return 0 if in_bounds else VALUES["REASON_MALFORMED"]


def nearest(manifold, rows, cols, z):
    """The point of the manifold next to z. Raises ArithmeticError where it is not unique."""
    point = wire.projected(manifold, rows, cols, [wire.f32(value) for value in z])
    if point is None:
        raise ArithmeticError("a point whose nearest one is not unique")
    return point


class Path:
    """The local path of one task. step() does one local step; scalars grow by m."""

    def __init__(self, replica, task, samples, client_index, group, correction):
        self.replica, self.task, self.samples, self.correction = replica, task, samples, correction
        self.client_index = client_index
        self.owner = group if replica.run["shared_directions"] else client_index
        self.point, self.scalars = replica.model[:], []
        self.steps_done, self.loss_before, self.loss_after = 0, 0.0, 0.0
        self.seconds = 0.0

    def _nearest(self, z):
        return nearest(self.replica.manifold, self.replica.run["rows"], self.replica.run["cols"], z)

    def _batch(self, step):
        task, n = self.task, len(self.samples)
        if task["batch_mode"] == VALUES["BATCH_MODE_ALL"]:
            return list(range(n))
        sizes = task["batch_sizes"] or [task["batch_size"]]
        return wire.minibatch(self.replica.run["seed"], task["version"], self.client_index, step, n,
                              sizes[min(step, len(sizes) - 1)])

    def _scalar(self, direction, batch, here):
        task, cols = self.task, self.replica.run["cols"]
        mu, unit = task["smoothing"], 1 / math.sqrt(self.replica.size)

        def at(side):
            z = [x + side * mu * unit * sign for x, sign in zip(self.point, direction, strict=True)]
            return loss(self.samples, batch, cols, self._nearest(z))

        if task["estimator"] == TWO_SIDED:
            return wire.f32((at(1) - at(-1)) / (2 * mu))
        return wire.f32((at(1) - here) / mu)

    def step(self):
        """Raises ArithmeticError where a point leaves the manifold's neighbourhood."""
        begin = time.monotonic()
        run, task, t = self.replica.run, self.task, self.steps_done
        m, size = run["direction_count"], self.replica.size
        per_direction = task["batch_mode"] == VALUES["BATCH_MODE_PER_DIRECTION"]
        batch = [] if per_direction else self._batch(t)
        here, at_start = loss(self.samples, batch, run["cols"], self.point) if batch else 0.0, 0.0
        tensor = [0.0] * size
        for j in range(m):
            if per_direction:
                batch = [wire.sample_of_direction(run["seed"], task["version"], self.client_index, t, j,
                                                  len(self.samples))]
                here = loss(self.samples, batch, run["cols"], self.point)
            at_start += here / m
            direction = wire.signs(run["seed"], self.replica.domain, task["version"], self.owner, t, j, size)
            s = self._scalar(direction, batch, here)
            self.scalars.append(s)
            for e, sign in enumerate(direction):
                tensor[e] += s * sign
        factor = size / m / math.sqrt(size)
        correction = self.correction or [0.0] * size
        z = [x - task["step_size"] * (factor * value + c)
             for x, value, c in zip(self.point, tensor, correction, strict=True)]
        self.point = self._nearest(z)
        if t == 0:
            self.loss_before = at_start
        self.loss_after = at_start
        self.steps_done += 1
        self.seconds += time.monotonic() - begin

    def run_all(self):
        """All steps, or fewer where the deadline would pass within the next one."""
        task = self.task
        while self.steps_done < task["local_step_count"]:
            per_step = self.seconds / self.steps_done if self.steps_done else 0.0
            is_late = task["deadline_ms"] and (self.seconds + per_step) * 1000 > task["deadline_ms"]
            if is_late and self.steps_done >= max(1, task["steps_min"]):
                break
            self.step()


def own_mean(replica, update):
    """Gbar of an own update, from its scalars as encoded and decoded; with Ack.clip_scale what the clip left of it."""
    run, m, size = replica.run, replica.run["direction_count"], replica.size
    unit, k, out = 1 / math.sqrt(size), update["steps_done"], [0.0] * size
    for q, s in enumerate(update["scalars"]):
        part = wire.clipped(s / k, run["fold_scale_log2"], update.get("clip_scale", 0))
        step, j = divmod(q, m)
        signs = wire.signs(run["seed"], replica.domain, update["base_version"], update["owner"], step, j, size)
        for e, sign in enumerate(signs):
            out[e] += part * unit * sign
    return [size / m * value for value in out]


def local_correction(replica, update):
    """c = d - Gbar, after the record whose sum is replica.sums. docs/wire.md, section 11."""
    factor = replica.size / replica.run["direction_count"]
    return [factor * value - own for value, own in zip(replica.sums, own_mean(replica, update), strict=True)]


def memory_correction(replica, accepted, stamp):
    """c = h - h_i of a task; None where it is 0."""
    update = next((one for one in accepted if one["base_version"] + 1 == stamp), None) if stamp else None
    if update is None:
        return None
    factor = replica.size / replica.run["direction_count"]
    held = wire.exact_tensor(replica.mean, replica.run["fold_scale_log2"])
    return [factor * value - own for value, own in zip(held, own_mean(replica, update), strict=True)]
