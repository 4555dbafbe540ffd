"""Writes networks as files (*.gsn) that devices and the server read: docs/network.md, "The file". Plain Python.

    import gsn
    layers = [gsn.dense(64, 16, weights, biases, activation=gsn.RELU),      # frozen
              gsn.dense(16, 10, trained=gsn.DENSE)]                         # trained, from any start
    open("digits.gsn", "wb").write(gsn.network((1, 1, 64), layers, scale=1 / 16))

Numbers are given as a flat sequence, or as bytes that are little-endian already, such as array.astype("<f4").tobytes().
Weights of a dense layer stand input by input; those of a convolution as (out channel, in channel, row, column).
"""

import struct
from typing import NamedTuple, Optional

SOFTMAX, SQUARED_ERROR, LOGISTIC = 1, 2, 3
NONE, RELU, RELU6 = 0, 1, 2
FLOAT, INT8, INT8_PER_CHANNEL = 0, 1, 2
FROZEN, DENSE, FACTORED = 0, 1, 2
ADD_INPUT = 255
HEAD_SIZE, RECORD_SIZE = 32, 48  # bytes
FNV_START, FNV_FACTOR, WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


class Layer(NamedTuple):
    """One layer. shape: what it puts out, (height, width, channels); None: the shape that comes in. inputs: how many
    values are to come in; None: however many do.
    """
    kind: int
    shape: Optional[tuple] = None
    weights: object = None
    biases: object = None
    scales: object = None
    form: int = FLOAT
    trained: int = FROZEN
    activation: int = NONE
    window: tuple = (0, 0, 0, 0, 0, 0)  # kernel height and width, stride height and width, border above and left
    rank: int = 0
    add_from: int = 0
    inputs: Optional[int] = None


def dense(inputs, outputs, weights=None, biases=None, **others):
    """inputs: network() refuses another number than the layer before puts out."""
    return Layer(1, (1, 1, outputs), weights, biases, inputs=inputs, **others)


def window_of(kernel, stride, border):
    return (*kernel, *stride, *border)


def conv2d(shape, kernel, weights, biases=None, stride=(1, 1), border=(0, 0), **others):
    return Layer(2, shape, weights, biases, window=window_of(kernel, stride, border), **others)


def depthwise_conv2d(shape, kernel, weights, biases=None, stride=(1, 1), border=(0, 0), **others):
    return Layer(3, shape, weights, biases, window=window_of(kernel, stride, border), **others)


def max_pool(shape, kernel, stride, border=(0, 0)):
    return Layer(4, shape, window=window_of(kernel, stride, border))


def average_pool(shape, kernel, stride, border=(0, 0)):
    return Layer(5, shape, window=window_of(kernel, stride, border))


def relu():
    return Layer(6)


def relu6():
    return Layer(7)


def flatten(size):
    return Layer(8, (1, 1, size))


def add(layer):
    """layer: from 0, or ADD_INPUT."""
    return Layer(9, add_from=layer)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def numbers(values, code):
    """As bytes; code: of struct."""
    if values is None:
        return b""
    return bytes(values) if isinstance(values, (bytes, bytearray)) else struct.pack(f"<{len(values)}{code}", *values)


def network(shape, layers, loss=SOFTMAX, scale=1.0, offset=0.0):
    """The file. shape: of the input, (height, width, channels); the first layer sees scale value + offset.
    ValueError: a layer's inputs are not what comes in. `gradstream network show` looks at all else.
    """
    head = struct.pack("<I3HBBff", len(layers), *shape, loss, 0, scale, offset)
    records, data = b"", b""
    begin = HEAD_SIZE + RECORD_SIZE * len(layers)
    before = tuple(shape)
    for index, layer in enumerate(layers):
        height, width, channels = before
        if layer.inputs not in (None, height * width * channels):
            raise ValueError(f"layer {index} (from 0) is given {layer.inputs} inputs, and {height * width * channels} "
                             f"values come in ({height}x{width}x{channels}): name that number, or mend the layer "
                             "before")
        out = layer.shape or before
        records += struct.pack("<4B6H8B", layer.kind, layer.activation, layer.form, layer.trained, *before, *out,
                               *layer.window, layer.rank, layer.add_from)
        for values, code in ((layer.weights, "f" if layer.form == FLOAT else "b"), (layer.biases, "f"),
                             (layer.scales, "f")):
            array = numbers(values, code)
            records += struct.pack("<II", begin + len(data) if array else 0, len(array))
            data += array + b"\0" * (-len(array) % 4)
        before = out
    rest = struct.pack("<I", begin + len(data)) + head + records + data
    return b"GSN1" + struct.pack("<I", crc32c(rest)) + rest


def is_network(path):
    with open(path, "rb") as file:
        return file.read(4) == b"GSN1"


def check(file):
    """ValueError: the bytes are cut, changed or no network. `gradstream network show` looks at all of it."""
    if file[:4] != b"GSN1":
        raise ValueError("this is no network, which begins with GSN1: docs/network.md shows how one is written")
    size = int.from_bytes(file[8:12], "little")
    if len(file) < HEAD_SIZE + RECORD_SIZE or size > len(file):
        raise ValueError(f"the network has {len(file)} bytes and promises {size}: copy it again")
    checksum = int.from_bytes(file[4:8], "little")
    if crc32c(file[8:size]) != checksum:
        raise ValueError("the network's checksum does not hold: copy it again")


def shard_size(shard):
    """Bytes of a shard, as firmware/shard.h and firmware/float_shard.h lay them out."""
    if len(shard) < 16 or shard[:4] not in (b"GSD1", b"GSD2", b"GSD3"):
        raise ValueError("this is no shard, which begins with GSD1, GSD2 or GSD3: docs/data.md tells the format")
    count, dimension = struct.unpack_from("<II", shard, 4)
    if shard[:4] == b"GSD1":
        return 16 + 4 * dimension + count * dimension
    if shard[:4] == b"GSD3":
        return 24 + count * dimension
    return 16 + 4 * struct.unpack_from("<I", shard, 12)[0] + 4 * count * dimension


def behind_shard(shard, file):
    """What a board has in its shard's region: the network stands behind the shard, at the next multiple of 4."""
    check(file)
    size = shard_size(shard)
    if size > len(shard):
        raise ValueError(f"the shard has {len(shard)} bytes and promises {size}: copy it again")
    return shard[:size] + b"\0" * (-size % 4) + file


def digest(file):
    """What Hello and Welcome carry: of all but the trained numbers."""
    count = struct.unpack_from("<I", file, 12)[0]
    counted = file[12:HEAD_SIZE]
    for at in range(HEAD_SIZE, HEAD_SIZE + RECORD_SIZE * count, RECORD_SIZE):
        pairs = struct.unpack_from("<6I", file, at + 24)
        if file[at + 3] != FROZEN:
            pairs = (0,) * 6
        counted += file[at:at + 24] + struct.pack("<3I", *pairs[1::2])
        for offset, size in zip(pairs[::2], pairs[1::2]):
            counted += file[offset:offset + size]
    value = FNV_START
    for byte in counted:
        value = (value ^ byte) * FNV_FACTOR & WORD
    return value or 1
