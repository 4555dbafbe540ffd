"""vectors.json is what docs/wire.md says, worked out by the second implementation beside this file. The runtime is held
to the same file by tests/conformance/wire_vectors_test.cc.

  vectors_test.py              compares
  vectors_test.py --record     writes vectors.json
  vectors_test.py --seed N     prints vectors of other numbers, for who tries an implementation of their own
"""

import argparse
import json
import pathlib
import random
import sys

import client_claim
import wire_reference as wire

FILE = pathlib.Path(__file__).resolve().parent / "vectors.json"
SEED = 1
ENCODINGS = {"f32": wire.F32, "bf16": wire.BF16, "int8": wire.INT8}
# manifold, rows, cols, m
RUNS = [("euclidean", 3, 2, 3), ("sphere", 5, 1, 2), ("sphere", 37, 1, 4), ("stiefel", 6, 2, 3), ("stiefel", 33, 3, 2)]
# Of records that lead so far from Stiefel that its projection goes by an eigen-decomposition.
FAR_RUNS = [("stiefel", 6, 2, 3), ("stiefel", 33, 3, 2), ("stiefel", 12, 5, 4)]
STEP_SCALES, FAR_STEP_SCALES = (0.001, 0.02), (0.5, 2.0)
SCALE_LOG2 = 20


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAIL: {what}")


def hexed(values):
    return wire.f32_bytes(values).hex()


def random_values(draw, count, size=1.0):
    return [wire.f32(draw.gauss(0, size)) for _ in range(count)]


def point(draw, manifold, rows, cols):
    """A model: what a projection leaves of a matrix whose columns are nearly orthonormal."""
    out = []
    for _ in range(cols):
        column = [draw.gauss(0, 1) for _ in range(rows)]
        for other in out:
            along = sum(a * b for a, b in zip(column, other, strict=True))
            column = [a - along * b for a, b in zip(column, other, strict=True)]
        length = sum(a * a for a in column) ** 0.5
        out.append([a / length for a in column])
    z = [wire.f32(value) for value in wire.flat(wire.columns(out))]
    return wire.projected(manifold, rows, cols, z)


def random_parts(draw):
    def u32():
        return draw.randrange(2**32)

    counters = [[u32() for _ in range(4)] for _ in range(4)]
    keys = [[u32(), draw.randrange(7)] for _ in range(4)]
    out = {"philox": [], "signs": [], "minibatches": [], "samples_of_directions": [], "iterates": []}
    for counter, key in zip(counters, keys, strict=True):
        out["philox"].append({"counter": counter, "key": key, "words": wire.philox_block(counter, key)})
    for domain, (_, rows, cols, m) in zip((4, 5, 4, 5, 5), RUNS, strict=True):
        case = {"seed": u32(), "domain": domain, "version": u32(), "owner": u32(), "step": draw.randrange(256)}
        case |= {"j": m - 1, "rows": rows, "cols": cols}
        signs = wire.signs(case["seed"], domain, case["version"], case["owner"], case["step"], m - 1, rows * cols)
        out["signs"].append(case | {"signs": "".join("+" if sign > 0 else "-" for sign in signs)})
    for n, size in ((10, 4), (1, 1), (300, 32), (7, 7), (5, 9)):
        case = {"seed": u32(), "version": u32(), "client": draw.randrange(1000), "step": draw.randrange(256)}
        of = (case["seed"], case["version"], case["client"], case["step"])
        out["minibatches"].append(case | {"n": n, "size": size, "indices": wire.minibatch(*of, n, size)})
        indices = [wire.sample_of_direction(*of, j, n) for j in range(5)]
        out["samples_of_directions"].append(case | {"n": n, "indices": indices})
        steps = draw.randrange(1, 257)
        out["iterates"].append(case | {"step_count": steps, "iterate": wire.iterate(*of[:3], steps)})
    return out


def encodings(draw):
    out = []
    for name, encoding in ENCODINGS.items():
        for values in (random_values(draw, 40), random_values(draw, 32, 1e-30), [0.0, -0.0, 1.0, -127.0], [0.0] * 33):
            data = wire.encode(encoding, values)
            decoded = wire.decode(encoding, len(values), data)
            out.append({"encoding": name, "values": hexed(values), "bytes": data.hex(), "decoded": hexed(decoded)})
            out[-1]["crc32c"] = wire.crc32c(data)
    return out


def block(draw, version, m, encoding, values):
    data = wire.encode(encoding, values)
    out = {"domain": draw.choice((4, 5)), "version": version - draw.randrange(2), "owner": draw.randrange(100)}
    return out | {"bytes": data.hex(), "values": wire.decode(encoding, len(values), data)}


def records(draw, runs, step_scales):
    out = []
    for manifold, rows, cols, m in runs:
        for name, encoding in ENCODINGS.items():
            before, seed, version = point(draw, manifold, rows, cols), draw.randrange(2**32), draw.randrange(1, 10**6)
            blocks = [block(draw, version, m, encoding, random_values(draw, k * m, 0.1)) for k in (2, 1)]
            step_scale = wire.f32(draw.uniform(*step_scales))
            tensor = wire.record_sum(seed, m, blocks, rows * cols)
            z = wire.stepped(before, step_scale, m, tensor)
            if runs is FAR_RUNS:
                a = [z[row * cols : (row + 1) * cols] for row in range(rows)]
                check(wire.polar_factor_near(a) is None, "a record that is meant to lead far does not")
            after = wire.projected(manifold, rows, cols, z)
            case = {"manifold": manifold, "rows": rows, "cols": cols, "m": m, "seed": seed, "encoding": name}
            case |= {"step_scale": hexed([step_scale]), "before": hexed(before), "after": hexed(after)}
            case |= {"blocks": [{key: one[key] for key in one if key != "values"} for one in blocks]}
            out.append(case | {"digest": f"{wire.digest(after):016x}"})
    return out


def memory_records(draw):
    out = []
    for (manifold, rows, cols, m), is_from_zero in zip(RUNS[1:], (False, True, False, True), strict=True):
        before, seed, size = point(draw, manifold, rows, cols), draw.randrange(2**32), rows * cols
        mean = [draw.randrange(-(2**18), 2**18) for _ in range(size)]
        blocks = []
        for is_after in (False, False, True):
            words = [draw.randrange(-(2**14), 2**14) for _ in range(2 * m)]
            one = {"domain": draw.choice((4, 5)), "version": draw.randrange(10**6), "owner": draw.randrange(100)}
            blocks.append(one | {"words": words, "after_step": is_after})
        step_scale = wire.f32(draw.uniform(0.001, 0.02))
        held = [0] * size if is_from_zero else mean[:]
        for one in blocks[:2]:
            wire.add_words(seed, m, one | {"values": one["words"]}, held)
        tensor = wire.exact_tensor(held, SCALE_LOG2)
        after = wire.projected(manifold, rows, cols, wire.stepped(before, step_scale, m, tensor))
        wire.add_words(seed, m, blocks[2] | {"values": blocks[2]["words"]}, held)
        case = {"manifold": manifold, "rows": rows, "cols": cols, "m": m, "seed": seed, "fold_scale_log2": SCALE_LOG2}
        case |= {"step_scale": hexed([step_scale]), "from_zero": is_from_zero, "before": hexed(before), "mean": mean}
        case |= {"blocks": blocks, "after": hexed(after), "mean_after": held}
        out.append(case | {"digest": f"{wire.digest(after, held):016x}"})
    return out


def clips(draw):
    out = []
    for r in (0, 1, 2**30, draw.randrange(2**31), 2**31 - 1, 2**31):
        values = random_values(draw, 8)
        left = [wire.clipped(value, SCALE_LOG2, r) for value in values]
        out.append({"fold_scale_log2": SCALE_LOG2, "clip_scale": r, "values": hexed(values), "left": hexed(left)})
    return out


def vectors(seed):
    draw = random.Random(seed)
    about = "docs/wire.md, sections 7 to 11. Numbers of binary32 stand as their little-endian bytes, in hexadecimal."
    out = {"about": about} | random_parts(draw)
    out |= {"encodings": encodings(draw), "records": records(draw, RUNS, STEP_SCALES),
            "memory_records": memory_records(draw), "clips": clips(draw)}
    out["records"] += records(draw, FAR_RUNS, FAR_STEP_SCALES)
    return out


def text_of(seed):
    return json.dumps(vectors(seed), indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    # Known answers of others, so that the file is not right by agreement with itself alone.
    check(wire.crc32c(b"123456789") == 0xE3069283, "CRC-32C")
    check(wire.philox_block([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], "Philox4x32-10")
    of_rfc_7748 = client_claim.x25519(
        bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
        bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"))
    check(of_rfc_7748.hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552", "x25519")
    if options.seed is not None:
        print(text_of(options.seed), end="")
        return 0
    if options.record:
        FILE.write_text(text_of(SEED))
        return 0
    if FILE.read_text() != text_of(SEED):
        print("FAIL: vectors.json is not what wire_reference.py works out; --record writes it")
        return 1
    print("vectors.json: %d records" % len(vectors(SEED)["records"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
