"""./run flash BOARD: builds the board's image for silicon and writes it with the tool that the board's users have.

The RP2040 takes a UF2 file on its USB drive (hold BOOTSEL while plugging it in); an STM32F405 is programmed by openocd
through an ST-Link, with the image for its crystal (--crystal). Without tool or board it says what it would run.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

import fleet
import gsn

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICO_VOLUME = "RPI-RP2"


class Board(NamedTuple):
    identity_address: int  # of its linker script, as the next one
    shard_address: int
    openocd: tuple = ()    # configuration files; empty: UF2
    network_address: int = 0  # of the network settings' page; 0: a serial link
    crystals: tuple = ()   # (MHz, the boards that have it); the first one's image is gradstream_client


BOARDS = {
    "rp2040": Board(0x101DF000, 0x10100000),
    "stm32f405": Board(0x08020000, 0x08040000, ("interface/stlink.cfg", "target/stm32f4x.cfg"),
                       crystals=((25, "Netduino Plus 2"), (12, "Feather STM32F405"), (8, "Olimex STM32-H405"))),
}


class Failure(Exception):
    """What went wrong, with the remedy."""


def check_network(path):
    """Failure: the file is no network."""
    try:
        gsn.check(path.read_bytes())
    except OSError as error:
        raise Failure(f"cannot read the network {path} ({error.strerror})") from error
    except ValueError as error:
        raise Failure(f"{path}: {error}") from error


def board_of(name):
    board = BOARDS.get(name.replace("_", "-"))
    if board is None:
        raise Failure(f"{name} cannot be flashed (known: {' '.join(BOARDS)}); emulated boards: ./run emulate")
    return board


def target_of(name, board, crystal, trains_network=False):
    """The CMake target of the image for that crystal, MHz; None: the first one's. Says which board it is for."""
    if trains_network:
        if crystal not in (None, *(mhz for mhz, _ in board.crystals[:1])):
            raise Failure(f"--crystal {crystal}: the image that trains networks is for the board's first crystal")
        return "gradstream_client_gsn"
    known = ", ".join(f"{mhz} ({who})" for mhz, who in board.crystals)
    if not board.crystals:
        if crystal is not None:
            raise Failure(f"{name} has one crystal: leave --crystal out")
        return "gradstream_client"
    mhz = board.crystals[0][0] if crystal is None else crystal
    who = dict(board.crystals).get(mhz)
    if who is None:
        raise Failure(f"--crystal {mhz}: there is no image for it (MHz: {known})")
    print(f"flash: the image for a crystal of {mhz} MHz ({who})"
          + (f"; the crystals of other boards: --crystal, MHz: {known}" if crystal is None else ""), flush=True)
    return "gradstream_client" if mhz == board.crystals[0][0] else f"gradstream_client_{mhz}mhz"


def build(name, target):
    """The image for silicon."""
    try:
        fleet.build(name, target)
    except RuntimeError as failure:
        raise Failure(str(failure)) from failure
    return ROOT / "build" / name / "boards" / name.replace("-", "_") / f"{target}.elf"


def pico_volume():
    """Where the RP2040's USB drive is mounted, or None."""
    places = [pathlib.Path("/media"), pathlib.Path("/run/media"), pathlib.Path("/Volumes")]
    return next((path for place in places for path in place.glob(f"**/{PICO_VOLUME}") if path.is_dir()), None)


def openocd_command(board, program):
    configuration = [word for file in board.openocd for word in ("-f", file)]
    return ["openocd", *configuration, "-c", f"program {program} reset exit"]


def write(board, program, uf2):
    """program: openocd's words, for example "image.elf verify"; uf2: the same as a file. Returns what was missing."""
    if not board.openocd:
        volume = pico_volume()
        print(f"flash: cp {uf2} {volume or f'.../{PICO_VOLUME}'}/", flush=True)
        if volume is None:
            print(f"flash: no {PICO_VOLUME} drive is mounted: hold BOOTSEL while plugging the board in, and mount it")
            return "drive"
        shutil.copy(uf2, volume)
        os.sync()
        return ""
    command = openocd_command(board, program)
    print("flash: " + " ".join(f"'{word}'" if " " in word else word for word in command), flush=True)
    if shutil.which("openocd") is None:
        print("flash: openocd is missing: apt-get install openocd")
        return "openocd"
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        print("flash: openocd did not reach the board: plug the ST-Link in, and give the board power")
        return "board"
    return ""


def main():
    parser = argparse.ArgumentParser(prog="./run flash", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("board", help=" or ".join(BOARDS))
    parser.add_argument("--crystal", type=int, metavar="MHZ", help="of the board's crystal: " + "; ".join(
        f"{name}: " + ", ".join(f"{mhz} ({who})" for mhz, who in board.crystals)
        for name, board in BOARDS.items() if board.crystals))
    parser.add_argument("--network", type=pathlib.Path, metavar="FILE", help="a network that the board is to train "
                        "(*.gsn): builds the image for it. `./run provision` writes the network behind the shard")
    arguments = parser.parse_args()
    try:
        board = board_of(arguments.board)
        if arguments.network is not None:
            check_network(arguments.network)
        image = build(arguments.board, target_of(arguments.board, board, arguments.crystal,
                                                 arguments.network is not None))
        missing = write(board, f"{image} verify", image.with_suffix(".uf2"))
    except Failure as failure:
        print(f"flash: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"result: board={arguments.board} image_bytes={image_size(image)} flashed={'no' if missing else 'yes'}"
          + (f" missing={missing}" if missing else ""))
    return 1 if missing else 0


def image_size(image):
    """Bytes that go into flash."""
    listing = subprocess.run(["arm-none-eabi-size", image], stdout=subprocess.PIPE, text=True, check=True).stdout
    text, data = listing.splitlines()[1].split()[:2]
    return int(text) + int(data)


if __name__ == "__main__":
    sys.exit(main())
