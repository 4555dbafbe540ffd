"""./run provision BOARD DEVICE --config FILE: enrols a device, writes its identity and samples beside the image.

One image serves all units; what differs is a page with the identity's text, of a board with Ethernet a page with its
address and its server's, and a region with the shard. Without tool or board it says what it would run, and the files
wait in build/provision.
"""

import argparse
import pathlib
import re
import sys

import flash
import emulate
import fleet
import gsn
import network_page
import rp2040_image

PAGE_SIZE = 4096
# Boards that no tool here writes: their pages are made, and run under the emulator.
UNWRITTEN = {"mps2-an386-eth": flash.Board(0x7F000, 0x40000, network_address=0x7F800)}


def is_written(name):
    """Whether a tool here writes the board of this name."""
    return name.replace("_", "-") not in UNWRITTEN


def identity_of(arguments, folder):
    """The identity's file, made by the server's command unless it is there."""
    path = folder / f"{arguments.device}.identity"
    if path.exists():
        print(f"provision: {path.relative_to(fleet.ROOT)} is there already: the device keeps its key")
        return path
    if arguments.config is None:
        raise flash.Failure(f"{path} is missing: name the server's configuration with --config, to enrol the device")
    fleet.build("dev", "gradstream")
    fleet.command([fleet.SERVER, "device", "add", arguments.device, "--config", arguments.config, "--out", path],
                  "enrolling the device")
    return path


def network_of(arguments, board, folder):
    """The file of the network settings, made from the options unless it is there and they are not; None: no network."""
    words = (arguments.address, arguments.server, arguments.gateway, arguments.mac)
    if not board.network_address:
        if any(words):
            raise flash.Failure(f"{arguments.board} has a serial link: the host's end of it leads to the server")
        return None
    path = folder / f"{arguments.device}.network"
    if not any(words) and path.exists():
        print(f"provision: {path.relative_to(fleet.ROOT)} is there already and stays")
        return path
    if arguments.address is None or arguments.server is None:
        raise flash.Failure(f"{arguments.board} has a network: name its --address, as in 192.168.1.20/24, and its "
                            "--server, as in 192.168.1.5:7433")
    try:
        path.write_text(network_page.text_of(*words), encoding="ascii")
    except ValueError as error:
        raise flash.Failure(str(error)) from error
    return path


def page_of(path, size):
    """The page as it stands in flash: the text, then erased bytes."""
    text = path.read_bytes()
    if not 0 < len(text) <= size:
        raise flash.Failure(f"{path} has {len(text)} bytes, 1 to {size} fit its page")
    page = path.with_suffix(path.suffix + ".page.bin")
    page.touch(mode=0o600)
    page.write_bytes(text + b"\xff" * (size - len(text)))
    return page


def shard_of(arguments, folder):
    """The file of the shard's region: the shard, and behind it the network where one is given."""
    if arguments.network is None:
        return arguments.shard.resolve()
    flash.check_network(arguments.network)
    try:
        both = gsn.behind_shard(arguments.shard.read_bytes(), arguments.network.read_bytes())
    except ValueError as error:
        raise flash.Failure(f"{arguments.shard}: {error}") from error
    size_max = emulate.MACHINES[arguments.board.replace("_", "-")].shard_size
    if len(both) > size_max:
        raise flash.Failure(f"{arguments.shard} and {arguments.network} have {len(both)} bytes, and {size_max} fit "
                            "the flash region of the shard: give the board fewer samples or a smaller network")
    path = folder / f"{arguments.device}.gsd"
    path.write_bytes(both)
    if is_written(arguments.board):  # in QEMU, ./run emulate builds the image for it
        print("provision: the network needs the image for it: "
              f"./run flash {arguments.board} --network {arguments.network}")
    return path.resolve()


def make_parts(arguments, board, folder):
    """{address: file} of what belongs in the unit's flash beside the image; the two texts it was made of."""
    identity, network = identity_of(arguments, folder), network_of(arguments, board, folder)
    size = board.network_address - board.identity_address if network else PAGE_SIZE
    parts = {board.identity_address: page_of(identity, size)}
    if network:
        parts[board.network_address] = page_of(network, size)
    if arguments.shard is not None:
        if not arguments.shard.is_file():
            raise flash.Failure(f"cannot read the shard {arguments.shard}")
        with open(arguments.shard, "rb") as shard:
            if shard.read(4) not in (b"GSD1", b"GSD2", b"GSD3"):
                raise flash.Failure(f"{arguments.shard} is no shard, which begins with GSD1 to GSD3; "
                                    "`gradstream data pack` makes one of a table: docs/data.md")
        parts[board.shard_address] = shard_of(arguments, folder)
    elif arguments.network is not None:
        raise flash.Failure("--network stands behind the samples: name them too, with --shard")
    return parts, identity, network


def write(arguments, board, parts, folder):
    """What was missing, or nothing."""
    uf2 = folder / f"{arguments.device}.uf2"
    uf2.touch(mode=0o600)
    uf2.write_bytes(rp2040_image.uf2({address: path.read_bytes() for address, path in parts.items()}))
    missing = ""
    for address, path in parts.items():
        missing = missing or flash.write(board, f"{path} {address:#x} verify", uf2)
        if not board.openocd:
            break  # one UF2 file has all of them
    return missing


def tell(arguments, parts, identity, network):
    """Where the pages belong, of a board that no tool here writes."""
    for address, path in parts.items():
        print(f"provision: {path.relative_to(fleet.ROOT) if path.is_relative_to(fleet.ROOT) else path} belongs at "
              f"{address:#010x}, beside the image: load both with the board's own loader")
    text = network.read_text(encoding="ascii")
    server = re.search(r"^server = (\S+)$", text, re.M)
    trained = f" --network {arguments.network}" if arguments.network else ""
    print(f"provision: in QEMU: ./run emulate {arguments.board} --server {server[1] if server else 'HOST:PORT'} "
          f"--identity {identity} --network {network} --shard {arguments.shard or 'SAMPLES.gsd'}{trained}")
    return "loader"


def main():
    parser = argparse.ArgumentParser(prog="./run provision", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("board", help=" or ".join([*flash.BOARDS, *UNWRITTEN]))
    parser.add_argument("device", help="the device's name, as `gradstream device add` takes it")
    parser.add_argument("--config", type=pathlib.Path, help="the server's configuration file")
    parser.add_argument("--shard", type=pathlib.Path, help="samples of the device (*.gsd)")
    parser.add_argument("--network", type=pathlib.Path, metavar="FILE", help="network that the board trains (*.gsn), "
                        "written behind its samples")
    parser.add_argument("--address", metavar="A/N", help="of a board with Ethernet: its own, and its network's bits")
    parser.add_argument("--server", metavar="A:PORT", help="of a board with Ethernet: the server's address, in numbers")
    parser.add_argument("--gateway", metavar="A", help="needed when the server is in another network")
    parser.add_argument("--mac", help="needed when the Ethernet controller's EEPROM has none")
    arguments = parser.parse_args()
    folder = fleet.ROOT / "build" / "provision"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        board = UNWRITTEN.get(arguments.board.replace("_", "-")) or flash.board_of(arguments.board)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", arguments.device):
            raise flash.Failure(f"a device's name has letters, digits, dots and dashes, not {arguments.device}")
        parts, identity, network = make_parts(arguments, board, folder)
        if not is_written(arguments.board):
            missing = tell(arguments, parts, identity, network)
        else:
            missing = write(arguments, board, parts, folder)
    except (flash.Failure, RuntimeError) as failure:
        print(f"provision: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"result: board={arguments.board} device={arguments.device} written={'no' if missing else 'yes'}"
          + (f" missing={missing}" if missing else ""))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
