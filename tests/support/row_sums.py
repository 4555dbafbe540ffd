"""Rows of a database that a test has changed, as the server signs them (server/store/row_checks.cc)."""

import struct


def row_crc(values):
    """The checksum of a row."""
    types = {int: 1, str: 3, bytes: 4, type(None): 5}
    data = b""
    for value in values:
        data += struct.pack("<Q", types[type(value)])
        if value is not None:
            text = value.encode() if isinstance(value, str) else value
            data += struct.pack("<q", value) if isinstance(value, int) else struct.pack("<Q", len(text)) + text
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
