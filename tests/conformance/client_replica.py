"""What a device holds of a run: the model X, the mean H where replicas have one, and how records and snapshots change
them. From docs/wire.md, sections 9 and 10; the arithmetic is wire_reference.py's.
"""

import struct

import wire_reference as wire
from messages import VALUES

MANIFOLDS = {VALUES["MANIFOLD_EUCLIDEAN"]: "euclidean", VALUES["MANIFOLD_SPHERE"]: "sphere",
             VALUES["MANIFOLD_STIEFEL"]: "stiefel"}
PART_MODEL, PART_MEAN = VALUES["MODEL_PART_MODEL"], VALUES["MODEL_PART_MEAN"]
# Fields of a Welcome in which all state is of one run.
RUN_FIELDS = ("run", "parameters_digest", "manifold", "retraction", "transport", "rows", "cols", "stream", "directions",
              "shared_directions", "seed", "direction_count", "correction", "fold_scale_log2", "model_parts")


class Abandoned(Exception):
    """A record or snapshot that is not as announced; the session ends."""


class DigestDiffers(Exception):
    """Of a version, by this device's own arithmetic."""


def run_of(welcome):
    return {name: welcome[name] for name in RUN_FIELDS}


class Record:
    """The record that is being received."""

    def __init__(self, version, block_count):
        self.version, self.block_count, self.blocks = version, block_count, []


class Replica:
    """One device's copy. sums holds what the last record added up, as its sum or D: corrections need it."""

    def __init__(self, run):
        self.run = run
        self.size = run["rows"] * run["cols"]
        self.manifold = MANIFOLDS[run["manifold"]]
        self.domain = wire.DOMAIN_SHARED if run["shared_directions"] else wire.DOMAIN_OWN
        self.has_memory = run["correction"] == VALUES["CORRECTION_MEMORY"]
        self.drop()

    def drop(self):
        self.model, self.mean, self.version, self.sums = None, None, 0, None
        self.cancel()

    def cancel(self):
        """Nothing is kept of a half-received record or snapshot."""
        self._record, self._parts = None, None

    @property
    def digest(self):
        return wire.digest(self.model, self.mean or ()) if self.model is not None else 0

    def check_digest(self, digest):
        if self.digest != digest:
            raise DigestDiffers(f"version {self.version} has digest {self.digest:016x} here, {digest:016x} there")

    # ---- Records ----

    def add_chunk(self, chunk):
        """True when the record is whole and applied."""
        if self.model is None or chunk["version"] != self.version + 1:
            raise Abandoned(f"a record of version {chunk['version']}, and version {self.version} is held")
        if self._record is None:
            self._record = Record(chunk["version"], chunk["block_count"])
            self._record.from_zero, self._record.step_scale = chunk["from_zero"], chunk["step_scale"]
        record = self._record
        if chunk["first_value"] == 0:
            record.blocks.append({"version": chunk["base_version"], "owner": chunk["owner"], "domain": self.domain,
                                  "count": chunk["value_count"], "values": [], "after_step": chunk["after_step"]})
        block = record.blocks[-1] if record.blocks else None
        encoding = wire.FIXED if self.has_memory else chunk["encoding"]
        if (block is None or chunk["block_index"] != len(record.blocks) - 1 or chunk["encoding"] != encoding
                or chunk["block_count"] != record.block_count or chunk["block_index"] >= record.block_count
                or chunk["first_value"] != len(block["values"]) or chunk["value_count"] != block["count"]
                or chunk["step_scale"] != record.step_scale):
            raise Abandoned("a record's piece out of order")
        block["values"] += decoded(chunk["encoding"], chunk["values"], block["count"] - len(block["values"]))
        if len(block["values"]) < block["count"] or len(record.blocks) < record.block_count:
            return False
        self._record = None
        self._apply(record)
        self.check_digest(chunk["digest"])
        return True

    def _apply(self, record):
        seed, m = self.run["seed"], self.run["direction_count"]
        if not self.has_memory:
            tensor = wire.record_sum(seed, m, record.blocks, self.size)
        else:
            words = [0] * self.size if record.from_zero else self.mean[:]
            for block in record.blocks:
                if not block["after_step"]:
                    wire.add_words(seed, m, block, words)
            tensor = wire.exact_tensor(words, self.run["fold_scale_log2"])
        self.model = self._projected(wire.stepped(self.model, record.step_scale, m, tensor))
        if self.has_memory:
            for block in record.blocks:
                if block["after_step"]:
                    wire.add_words(seed, m, block, words)
            self.mean = words
        self.version, self.sums = record.version, tensor

    def _projected(self, z):
        point = wire.projected(self.manifold, self.run["rows"], self.run["cols"], z)
        if point is None or not all(abs(value) < float("inf") for value in point):
            raise Abandoned("a record whose step leaves the manifold")
        return point

    # ---- Snapshots ----

    def add_piece(self, chunk):
        """True when the snapshot is whole. The model is not held any more from its first piece on."""
        wanted = [PART_MODEL, PART_MEAN] if self.has_memory else [PART_MODEL]
        if self._parts is None:
            self.drop()
            self._parts = {"version": chunk["version"], "digest": chunk["digest"], "left": wanted, "data": b"",
                           "done": []}
        parts = self._parts
        if (not parts["left"] or chunk["part"] != parts["left"][0] or chunk["offset"] != len(parts["data"])
                or chunk["total"] != 4 * self.size or chunk["version"] != parts["version"]
                or chunk["digest"] != parts["digest"]
                or chunk["parts"] not in (0, sum(1 << part for part in wanted))):
            raise Abandoned("a snapshot's piece out of order")
        parts["data"] += chunk["values"]
        if len(parts["data"]) > chunk["total"]:
            raise Abandoned("a snapshot that is too long")
        if len(parts["data"]) < chunk["total"]:
            return False
        parts["done"].append(parts["data"])
        parts["left"], parts["data"] = parts["left"][1:], b""
        if parts["left"]:
            return False
        self._parts = None
        self.model = list(struct.unpack(f"<{self.size}f", parts["done"][0]))
        self.mean = list(struct.unpack(f"<{self.size}i", parts["done"][1])) if self.has_memory else None
        self.version = parts["version"]
        self.check_digest(chunk["digest"])
        return True


def decoded(encoding, data, left):
    """All values of a piece. Raises Abandoned: more than are left, or what section 7 refuses."""
    if encoding == wire.INT8:
        blocks, rest = divmod(len(data), 2 + wire.INT8_BLOCK)
        count = blocks * wire.INT8_BLOCK + max(0, rest - 2)
        is_whole = rest != 1 and rest != 2
    else:
        size = {wire.F32: 4, wire.FIXED: 4, wire.BF16: 2}.get(encoding)
        if size is None:
            raise Abandoned(f"a record in encoding {encoding}")
        count, is_whole = len(data) // size, len(data) % size == 0
    if not is_whole or count > left or (count < left and count % wire.INT8_BLOCK != 0) or count == 0:
        raise Abandoned(f"a piece of {len(data)} bytes where {left} values are left")
    values = wire.decode(encoding, count, data)
    if not all(abs(value) <= wire.FLOAT_MAX for value in values):
        raise Abandoned("a record with a value that is not finite")
    return values
