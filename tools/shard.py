"""./run shard TABLE.csv OUT.gsd: writes a table with a sample a row as a device's shard (docs/data.md).

--kind floats (default) keeps every value as a float. --kind labelled takes a quarter of that: the last column is a
class from 0, and each other value becomes a byte of a common scale and offset. Without --scale and --offset these are
of the table's least and largest value. It says how far a byte is from its value at most, and refuses more than --error.
"""

import argparse
import math
import pathlib
import struct
import sys

SAMPLE_MAX = 65535  # kSampleCountMax of runtime/base/config.h: an index has 16 bits
VALUE_MAX = 32768  # kDimensionMax, the same
CLASS_MAX = 256  # kLabelClassMax of firmware/float_shard.h: a label is one byte
BYTE_MAX = 255
FLOAT_MAX = 3.4028234663852886e38


class Fault(Exception):
    """What is wrong with the table, with its place and the remedy."""


def number_of(word, row, column):
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not abs(value) <= FLOAT_MAX:  # NaN is not
        raise Fault(f"row {row}, column {column} (from 1): {word.strip()[:40]!r} is no finite float; leave the row "
                    "out, or fill the gap")
    return value


def read_table(path, has_header):
    """The rows of the file, all of one length."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"cannot read it: {error}; name a CSV file") from error
    lines = [line for line in text.splitlines() if line.strip()]
    rows = []
    for number, line in enumerate(lines[1:] if has_header else lines, 2 if has_header else 1):
        words = line.split(",")
        if rows and len(words) != len(rows[0]):
            raise Fault(f"row {number} has {len(words)} values, and those before it have {len(rows[0])}; mend the row")
        rows.append([number_of(word, number, column) for column, word in enumerate(words, 1)])
    if not 1 <= len(rows) <= SAMPLE_MAX:
        raise Fault(f"it has {len(rows)} samples, and the limit is 1 to {SAMPLE_MAX}; share them among devices")
    if len(rows[0]) > VALUE_MAX:
        raise Fault(f"a sample has {len(rows[0])} values, and the limit is {VALUE_MAX}; give each sample fewer values")
    return rows


def float_shard(rows):
    return (struct.pack("<4sIII", b"GSD2", len(rows), len(rows[0]), 0)
            + b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows))


def class_count_of(rows, wanted):
    """The number of classes: that of the option, or one more than the largest label."""
    for number, row in enumerate(rows, 1):
        most = min(wanted or CLASS_MAX, CLASS_MAX) - 1
        if not (row[-1].is_integer() and 0 <= row[-1] <= most):
            raise Fault(f"sample {number} has the label {row[-1]:g}, its last value; labels are whole numbers from 0 "
                        f"to {most} here: relabel the data, or use --kind floats")
    return wanted or max(2, int(max(row[-1] for row in rows)) + 1)


def labelled_shard(rows, arguments):
    """The bytes of the shard, and how far a byte's value is from its own at most."""
    if len(rows[0]) < 2:
        raise Fault("a labelled sample has 2 values at least, the label among them; put the label into the last column")
    if arguments.classes is not None and not 2 <= arguments.classes <= CLASS_MAX:
        raise Fault(f"--classes {arguments.classes}: 2 to {CLASS_MAX} fit a label of one byte; use --kind floats")
    class_count = class_count_of(rows, arguments.classes)
    low = min(min(row[:-1]) for row in rows)
    high = max(max(row[:-1]) for row in rows)
    offset = low if arguments.offset is None else arguments.offset
    scale = ((high - offset) / BYTE_MAX or 1.0) if arguments.scale is None else arguments.scale
    if not (abs(scale) <= FLOAT_MAX and abs(offset) <= FLOAT_MAX and abs(BYTE_MAX * scale + offset) <= FLOAT_MAX):
        raise Fault("by its scale and offset byte 255 is no finite float; scale the data down")
    scale, offset = struct.unpack("<2f", struct.pack("<2f", scale, offset))
    if scale == 0:
        raise Fault("the scale is 0 as a float: its values lie too near to each other; scale the data up")
    out, worst = [struct.pack("<4sIIIff", b"GSD3", len(rows), len(rows[0]), class_count, scale, offset)], 0.0
    for row in rows:
        values = [min(max(round((value - offset) / scale), 0), BYTE_MAX) for value in row[:-1]]
        worst = max(worst, *(abs(byte * scale + offset - value) for byte, value in zip(values, row)))
        out.append(bytes([*values, int(row[-1])]))
    return b"".join(out), worst


def main():
    parser = argparse.ArgumentParser(prog="./run shard", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("table", type=pathlib.Path, help="a CSV file with a sample a row")
    parser.add_argument("out", type=pathlib.Path, help="the shard to write (*.gsd)")
    parser.add_argument("--kind", choices=("floats", "labelled"), default="floats")
    parser.add_argument("--header", action="store_true", help="the first row names the columns")
    parser.add_argument("--classes", type=int, help="of labelled: the number of classes, by default as the labels say")
    parser.add_argument("--scale", type=float, help="of labelled: a value is byte * scale + offset")
    parser.add_argument("--offset", type=float)
    parser.add_argument("--error", type=float, default=math.inf,
                        help="of labelled: how far a byte may be from its value")
    arguments = parser.parse_args()
    try:
        rows = read_table(arguments.table, arguments.header)
        shard, worst = labelled_shard(rows, arguments) if arguments.kind == "labelled" else (float_shard(rows), 0.0)
        if not worst <= arguments.error:
            raise Fault(f"a byte is up to {worst:g} from its value, and --error allows {arguments.error:g}; use --kind "
                        "floats, or give --scale and --offset that fit")
        arguments.out.write_bytes(shard)
    except (Fault, OSError) as fault:
        print(f"shard: error: {arguments.table}: {fault}", file=sys.stderr)
        print("result: verb=shard error=failed")
        return 1
    print(f"result: verb=shard samples={len(rows)} values={len(rows[0])} kind={arguments.kind} bytes={len(shard)} "
          f"error={worst:.3g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
