"""./run provision BOARD DEVICE --config FILE: enrols a device, writes its identity and samples beside the image.

One image serves all units; what differs is a page with the identity's text and a region with the shard. Without tool or
board it says what it would run, and the files wait in build/provision.
"""

import argparse
import pathlib
import re
import sys

import flash
import fleet
import rp2040_image

PAGE_SIZE = 4096


def identity_of(arguments, folder):
    """The identity's file, made by the server's command unless it is there."""
    path = folder / f"{arguments.device}.identity"
    if path.exists():
        print(f"provision: {path.relative_to(fleet.ROOT)} is there already: the device keeps its key")
        return path
    if arguments.config is None:
        raise flash.Failure(f"{path} is missing: name the server's configuration with --config, to enrol the device")
    fleet.command([fleet.ROOT / "tools" / "build.sh", "dev", "gradstream"], "building the server", 1800)
    fleet.command([fleet.SERVER, "device", "add", arguments.device, "--config", arguments.config, "--out", path],
                  "enrolling the device")
    return path


def page_of(path):
    """The page as it stands in flash: the text, then erased bytes."""
    text = path.read_bytes()
    if not 0 < len(text) <= PAGE_SIZE:
        raise flash.Failure(f"the identity {path} has {len(text)} bytes, 1 to {PAGE_SIZE} fit its page")
    page = path.with_suffix(".page.bin")
    page.touch(mode=0o600)
    page.write_bytes(text + b"\xff" * (PAGE_SIZE - len(text)))
    return page


def main():
    parser = argparse.ArgumentParser(prog="./run provision", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("board", help=" or ".join(flash.BOARDS))
    parser.add_argument("device", help="the device's name, as `gradstream device add` takes it")
    parser.add_argument("--config", type=pathlib.Path, help="the server's configuration file")
    parser.add_argument("--shard", type=pathlib.Path, help="samples of the device (*.gsd)")
    arguments = parser.parse_args()
    folder = fleet.ROOT / "build" / "provision"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        board = flash.board_of(arguments.board)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", arguments.device):
            raise flash.Failure(f"a device's name has letters, digits, dots and dashes, not {arguments.device}")
        parts = {board.identity_address: page_of(identity_of(arguments, folder))}
        if arguments.shard is not None:
            if not arguments.shard.is_file():
                raise flash.Failure(f"cannot read the shard {arguments.shard}")
            parts[board.shard_address] = arguments.shard.resolve()
        uf2 = folder / f"{arguments.device}.uf2"
        uf2.touch(mode=0o600)
        uf2.write_bytes(rp2040_image.uf2({address: path.read_bytes() for address, path in parts.items()}))
        missing = ""
        for address, path in parts.items():
            missing = missing or flash.write(board, f"{path} {address:#x} verify", uf2)
            if not board.openocd:
                break  # one UF2 file has all of them
    except (flash.Failure, RuntimeError) as failure:
        print(f"provision: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"result: board={arguments.board} device={arguments.device} written={'no' if missing else 'yes'}"
          + (f" missing={missing}" if missing else ""))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
