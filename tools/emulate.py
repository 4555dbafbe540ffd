#!/usr/bin/python3
"""./run emulate BOARD: a board's client image in QEMU, its link UART joined to a server's TCP port.

The image is the same for all units. Identity and samples are loaded into pages of its flash, as a programmer would
write them (boards/README.md). The board's console is this command's output.
"""

import argparse
import ctypes
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
QEMU = "qemu-system-arm"
# Addresses and sizes of boards/mps2/mps2.ld.
SHARD_ADDRESS, SHARD_SIZE = 0x40000, 252 * 1024
IDENTITY_ADDRESS, IDENTITY_SIZE = 0x7F000, 1024
_PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """What went wrong, with the remedy."""


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run emulate", description=__doc__.split("\n\n")[0])
    parser.add_argument("board", help="mps2-an385 (Cortex-M3), mps2-an386 (M4F) or mps2-an500 (M7)")
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="where `gradstream serve` listens")
    parser.add_argument("--identity", required=True, type=pathlib.Path, help="file that `gradstream device add` wrote")
    parser.add_argument("--shard", required=True, type=pathlib.Path, help="samples (*.gsd; firmware/shard.h)")
    parser.add_argument("--forever", action="store_true", help="go on after the run is finished")
    parser.add_argument("--image", type=pathlib.Path, help="another image; nothing is built then")
    return parser.parse_args()


def page(path, size_max, what, remedy):
    """The file as QEMU gets it, when it is readable and fits its page."""
    try:
        size = len(path.read_bytes())
    except OSError as error:
        raise Failure(f"cannot read the {what} {path} ({error.strerror}): {remedy}") from error
    if not 0 < size <= size_max:
        raise Failure(f"the {what} {path} has {size} bytes, 1 to {size_max} fit its flash page: {remedy}")
    return path.resolve()


def image_of(board):
    """Builds the emulator's image of the board."""
    preset = board.replace("_", "-")
    folder = board.replace("-", "_")
    if not (ROOT / "boards" / folder / "CMakeLists.txt").exists():
        known = sorted(path.parent.name.replace("_", "-") for path in ROOT.glob("boards/mps2_*/CMakeLists.txt"))
        raise Failure(f"unknown board {board} (known: {' '.join(known)})")
    done = subprocess.run([ROOT / "tools" / "build.sh", preset, "gradstream_client_emulator"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failure(f"the image of {board} does not build:\n{done.stdout}")
    return ROOT / "build" / preset / "boards" / folder / "gradstream_client_emulator.elf"


def command(arguments, image):
    match = re.fullmatch(r"(.+):(\d+)", arguments.server)
    if not match or "," in match[1]:
        raise Failure(f"--server wants HOST:PORT, not {arguments.server}")
    shard = page(arguments.shard, SHARD_SIZE, "shard", "name a shard with --shard")
    identity = page(arguments.identity, IDENTITY_SIZE, "identity", "`gradstream device add` writes one")
    # nodelay: 40 to 95 ms a round trip otherwise. reconnect: the chardev dials again when the server was gone.
    link = f"socket,id=link,host={match[1].strip('[]')},port={match[2]},nodelay=on,reconnect=1"
    words = "target=native,arg=client" + ("" if arguments.forever else ",arg=until-finished")
    return [QEMU, "-M", arguments.board.replace("_", "-"), "-display", "none", "-monitor", "none",
            "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
            "-chardev", link, "-serial", "chardev:link",
            "-semihosting-config", f"enable=on,{words}", "-kernel", image,
            "-device", f"loader,file={shard},addr={SHARD_ADDRESS:#x},force-raw=on",
            "-device", f"loader,file={identity},addr={IDENTITY_ADDRESS:#x},force-raw=on"]


def run(arguments):
    """Copies the console until the image exits; its exit status and the fields of its closing line."""
    child = subprocess.Popen(
        command(arguments, arguments.image or image_of(arguments.board)), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, lambda *_: child.terminate())
    finished = {}
    for line in child.stdout:
        line = line.rstrip()
        print(line, flush=True)
        if line.startswith("event=finished"):
            finished = dict(re.findall(r"(\w+)=(\S+)", line))
    return child.wait(), finished


def main():
    arguments = parse_arguments()
    try:
        status, finished = run(arguments)
    except Failure as failure:
        print(f"emulate: error: {failure}", file=sys.stderr)
        print("result: error=usage")
        return 2
    except FileNotFoundError:
        print(f"emulate: error: {QEMU} is missing: ./run setup installs it", file=sys.stderr)
        print("result: error=qemu")
        return 2
    finished.pop("event", None)
    fields = " ".join(f"{key}={value}" for key, value in finished.items())
    print(f"result: board={arguments.board} finished={'yes' if finished else 'no'} {fields} exit={status}")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
