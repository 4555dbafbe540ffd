#!/usr/bin/python3
"""Puts the CRC of the second boot stage into an RP2040 image and writes it as UF2.

Usage: rp2040_image.py IMAGE.elf OUT.uf2 [FILE@ADDRESS...]      FILE: raw bytes for another region, such as the identity

The ROM takes a second stage whose last word is the CRC-32 of the 252 bytes before it (RP2040 data sheet 2.8.1.3.1:
polynomial 0x04C11DB7, not reflected, begun with ones). UF2: 512-byte blocks of 256 bytes each.
"""

import pathlib
import struct
import sys

FLASH_BEGIN, FLASH_END = 0x10000000, 0x10200000
BOOT2_SIZE = 256
BLOCK_SIZE = 256
UF2_MAGICS = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
UF2_HAS_FAMILY = 0x2000
RP2040_FAMILY = 0xE48BFF56


def crc32(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc & 0x80000000 else 0)) & 0xFFFFFFFF
    return crc


def segments(elf):
    """(physical address, offset in the file, size) of what is loaded into flash."""
    header = struct.unpack_from("<4sBBB9xHHIIIIIHHHHHH", elf)
    if header[0] != b"\x7fELF" or header[1] != 1:
        raise SystemExit("rp2040_image: error: this is no 32-bit ELF image")
    offset, size, count = header[8], header[12], header[13]
    for index in range(count):
        kind, at, _, address, length = struct.unpack_from("<5I", elf, offset + index * size)
        if kind == 1 and length and FLASH_BEGIN <= address < FLASH_END:
            yield address, at, length


def seal(elf):
    """Writes the CRC behind the second boot stage."""
    at = next((at for address, at, length in segments(elf) if address == FLASH_BEGIN and length >= BOOT2_SIZE), None)
    if at is None:
        raise SystemExit("rp2040_image: error: the image has no second boot stage")
    struct.pack_into("<I", elf, at + BOOT2_SIZE - 4, crc32(elf[at:at + BOOT2_SIZE - 4]))


def uf2(parts):
    """UF2 blocks of {address: bytes}."""
    pages = {}
    for address, data in parts.items():
        for index, byte in enumerate(data):
            place = address + index
            page = pages.setdefault(place // BLOCK_SIZE * BLOCK_SIZE, bytearray(b"\xff" * BLOCK_SIZE))
            page[place % BLOCK_SIZE] = byte
    out = bytearray()
    for number, (address, page) in enumerate(sorted(pages.items())):
        out += struct.pack("<8I", UF2_MAGICS[0], UF2_MAGICS[1], UF2_HAS_FAMILY, address, BLOCK_SIZE, number, len(pages),
                           RP2040_FAMILY)
        out += bytes(page) + bytes(476 - BLOCK_SIZE) + struct.pack("<I", UF2_MAGICS[2])
    return bytes(out)


def main():
    if len(sys.argv) < 3:
        print(__doc__.strip().split("\n\n")[1], file=sys.stderr)
        return 2
    image = pathlib.Path(sys.argv[1])
    elf = bytearray(image.read_bytes())
    seal(elf)
    image.write_bytes(elf)
    parts = {address: bytes(elf[at:at + length]) for address, at, length in segments(elf)}
    for word in sys.argv[3:]:
        path, _, address = word.rpartition("@")
        parts[int(address, 0)] = pathlib.Path(path).read_bytes()
    pathlib.Path(sys.argv[2]).write_bytes(uf2(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
