"""The messages of proto/gradstream.proto as Python dictionaries, and their frames: read from the file itself, without
protoc. A field that is absent has its default: 0, empty, False, or None where it is a message. docs/wire.md, section 2.
"""

import pathlib
import re
import struct

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "proto"
MAGIC = b"GS"
MESSAGE_SIZE_MAX = 996  # kMessageSizeMax
PAYLOAD_SIZE_MAX = 896
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SCALARS = {"uint32": _VARINT, "uint64": _VARINT, "bool": _VARINT, "fixed64": _FIXED64, "fixed32": _FIXED32,
            "float": _FIXED32, "string": _BYTES, "bytes": _BYTES}
_FORMATS = {"fixed64": "<Q", "fixed32": "<I", "float": "<f"}


class Malformed(ValueError):
    """Bytes that are no message, or a field out of its bounds."""


class Field:
    def __init__(self, kind, name, number, repeated):
        self.kind, self.name, self.number, self.repeated = kind, name, number, repeated

    def default(self):
        if self.repeated:
            return []
        return {"string": "", "bytes": b"", "bool": False, "float": 0.0}.get(
            self.kind, 0 if self.kind in _SCALARS or self.kind in ENUMS else None)


def _read_proto(text):
    """Messages as {name: [Field]}, enums as {name: {value's name: number}}."""
    text = re.sub(r"//[^\n]*", "", text)
    messages, enums = {}, {}
    for kind, name, body in re.findall(r"(message|enum)\s+(\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}", text):
        if kind == "enum":
            enums[name] = {value: int(number) for value, number in re.findall(r"(\w+)\s*=\s*(\d+)\s*;", body)}
        else:
            found = re.findall(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)\s*;", body)
            messages[name] = [Field(of, field, int(number), bool(many)) for many, of, field, number in found]
    return messages, enums


def _read_bounds(text):
    """{(message, field): {"max_size": n, ...}} of proto/gradstream.options."""
    bounds = {}
    for message, field, rest in re.findall(r"(?m)^gs\.(\w+)\.(\w+)\s+(.*)$", text):
        bounds[message, field] = {key: int(value) for key, value in re.findall(r"(max_size|max_count):(\d+)", rest)}
    return bounds


MESSAGES, ENUMS = _read_proto((FOLDER / "gradstream.proto").read_text(encoding="utf-8"))
BOUNDS = _read_bounds((FOLDER / "gradstream.options").read_text(encoding="utf-8"))
VALUES = {name: number for values in ENUMS.values() for name, number in values.items()}


def name_of(enum, number):
    return next((name for name, value in ENUMS[enum].items() if value == number), str(number))


# ---- Writing ----


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _value_bytes(field, value):
    if field.kind in _FORMATS:
        return struct.pack(_FORMATS[field.kind], value)
    if field.kind in MESSAGES or field.kind in ("string", "bytes"):
        if field.kind in MESSAGES:
            data = encode(field.kind, value)
        else:
            data = value.encode() if field.kind == "string" else value
        return varint(len(data)) + data
    return varint(int(value))


def _wire_type(field):
    return _BYTES if field.kind in MESSAGES else _SCALARS.get(field.kind, _VARINT)


def encode(message, values):
    """The bytes of a message; fields in the file's order, defaults left out."""
    unknown = set(values) - {field.name for field in MESSAGES[message]}
    if unknown:
        raise KeyError(f"{message} has no field {sorted(unknown)}")
    out = b""
    for field in sorted(MESSAGES[message], key=lambda field: field.number):
        value = values.get(field.name)
        if value is None or (value == field.default() and not (field.kind == "float" and str(value) == "-0.0")):
            continue
        if field.repeated and _wire_type(field) == _VARINT:
            packed = b"".join(varint(one) for one in value)
            out += varint(field.number << 3 | _BYTES) + varint(len(packed)) + packed
            continue
        for one in value if field.repeated else [value]:
            out += varint(field.number << 3 | _wire_type(field)) + _value_bytes(field, one)
    return out


def frame(payload):
    return MAGIC + struct.pack("<H", len(payload)) + payload


def framed(message, kind, **values):
    """One frame of a DeviceMessage or ServerMessage whose body is `kind`."""
    return frame(encode(message, {kind: values}))


# ---- Reading ----


def _read_varint(data, at):
    value, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number that does not end")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def _read_raw(data, at, wire_type):
    if wire_type == _VARINT:
        return _read_varint(data, at)
    if wire_type == _BYTES:
        size, at = _read_varint(data, at)
    else:
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire_type)
        if size is None:
            raise Malformed(f"wire type {wire_type}")
    if at + size > len(data):
        raise Malformed("a field that is longer than its message")
    return data[at : at + size], at + size


def _checked(message, field, raw):
    """A raw value as the field's kind."""
    where = f"{message}.{field.name}"
    if field.kind in MESSAGES:
        return decode(field.kind, raw)
    if field.kind in _FORMATS:
        value = struct.unpack(_FORMATS[field.kind], raw)[0]
        if field.kind == "float" and not abs(value) < float("inf") and not field.name.startswith("loss_"):
            raise Malformed(f"{where} is {value}, which is not finite")
        return value
    if field.kind in ("string", "bytes"):
        size = BOUNDS.get((message, field.name), {}).get("max_size", MESSAGE_SIZE_MAX)
        if len(raw) > size - (field.kind == "string"):
            raise Malformed(f"{where} has {len(raw)} bytes, beyond its bound {size - (field.kind == 'string')}")
        try:
            return raw.decode() if field.kind == "string" else raw
        except UnicodeDecodeError as error:
            raise Malformed(f"{where} is no UTF-8") from error
    if field.kind in ENUMS and raw not in ENUMS[field.kind].values():
        raise Malformed(f"{where} is {raw}, which no {field.kind} has")
    if field.kind == "uint32" and raw > 0xFFFFFFFF:
        raise Malformed(f"{where} is {raw}, beyond 32 bits")
    return bool(raw) if field.kind == "bool" else raw


def _unpacked(raw):
    out, at = [], 0
    while at < len(raw):
        value, at = _read_varint(raw, at)
        out.append(value)
    return out


def decode(message, data):
    """The message's fields, defaults included. Raises Malformed. Fields that the file does not have are skipped."""
    fields = {field.number: field for field in MESSAGES[message]}
    out, at = {field.name: field.default() for field in MESSAGES[message]}, 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag >> 3 == 0:
            raise Malformed("a field of number 0")
        raw, at = _read_raw(data, at, tag & 7)
        field = fields.get(tag >> 3)
        if field is None:
            continue
        is_packed = field.repeated and tag & 7 == _BYTES and _wire_type(field) == _VARINT
        if tag & 7 != _wire_type(field) and not is_packed:
            raise Malformed(f"{message}.{field.name} has wire type {tag & 7}")
        if field.repeated:
            out[field.name] += _unpacked(raw) if is_packed else [_checked(message, field, raw)]
            if len(out[field.name]) > BOUNDS.get((message, field.name), {}).get("max_count", len(data)):
                raise Malformed(f"{message}.{field.name} has {len(out[field.name])} values, beyond its bound")
        else:
            out[field.name] = _checked(message, field, raw)
    return out


def read_body(message, payload):
    """(kind, fields) of a DeviceMessage or ServerMessage. Raises Malformed without a body that the file knows."""
    bodies = [(kind, body) for kind, body in decode(message, payload).items() if body is not None]
    if len(bodies) != 1:
        raise Malformed("a message without a body that is known")
    return bodies[0]


class FrameReader:
    """Cuts frames from a stream of bytes, however records cut it."""

    def __init__(self):
        self._data = b""

    def feed(self, data):
        self._data += data

    @property
    def has_begun(self):
        return bool(self._data)

    def next(self):
        """The payload of the next whole frame, or None. Raises Malformed."""
        if self._data[:2] != MAGIC[: len(self._data)]:
            raise Malformed(f"no frame begins with {self._data[:2].hex()}")
        if len(self._data) < 4:
            return None
        size = struct.unpack_from("<H", self._data, 2)[0]
        if not 1 <= size <= MESSAGE_SIZE_MAX:
            raise Malformed(f"a frame's length is {size}, and 1 to {MESSAGE_SIZE_MAX} are allowed")
        if len(self._data) < 4 + size:
            return None
        payload, self._data = self._data[4 : 4 + size], self._data[4 + size :]
        return payload
