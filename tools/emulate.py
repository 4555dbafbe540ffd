#!/usr/bin/python3
"""./run emulate BOARD: a board's client image in QEMU (the RP2040's in rp2040js), its link joined to a server.

What is typed goes to the board's shell line by line (`help` names its commands).

The image is the same for all units. Identity and samples are loaded into pages of its flash, as a programmer would
write them (boards/README.md). The board's console is this command's output.
"""

import argparse
import ctypes
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from typing import NamedTuple

import fleet
import gsn
import network_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
QEMU = "qemu-system-arm"
QEMU_RISCV = "qemu-system-riscv32"
RP2040JS = ROOT / "third_party" / "rp2040js" / "node_modules" / "rp2040js"
IDENTITY_SIZE = 1024
NETWORK_SIZE = 2048  # boards/mps2_an386_eth/mps2_an386_eth.ld
FLASH_PAGE_SIZE = 16 * 1024  # of boards/bare/emulated_flash.cc, as the layout of the file
FLASH_COUNTERS = "<4I"       # erases of page 0, of page 1, bytes programmed, calls
POWER_CUT_STATUS = 75        # exit status of an image whose power was cut
WORDS_SIZE_MAX = 318         # of all words, as boards/bare/emulator.cc takes them
_PR_SET_PDEATHSIG = 1


class Machine(NamedTuple):
    qemu: str               # QEMU's name of it; "": rp2040js runs it
    what: str
    shard_address: int      # of its linker script, as the next two
    shard_size: int
    identity_address: int
    console: int = 0        # which of its serial ports, in QEMU's order
    link: int = 1
    network_address: int = 0  # of the network settings' page; 0: no Ethernet
    extensions: str = ""      # of a RISC-V: those of rv32ima... that QEMU's processor is to have; "": a Cortex-M


def mps(qemu, what, **others):
    return Machine(qemu, what, 0x40000, 252 * 1024, 0x7F000, **others)  # boards/mps2/mps2.ld


def virt(what, extensions):
    return Machine("virt", what, 0x80040000, 252 * 1024, 0x8007F000, extensions=extensions)  # riscv_virt.ld


MACHINES = {
    "mps2-an385": mps("mps2-an385", "Cortex-M3"),
    "mps2-an386": mps("mps2-an386", "Cortex-M4F"),
    "mps2-an386-eth": mps("mps2-an386", "Cortex-M4F, by Ethernet", network_address=0x7F800),
    "mps2-an500": mps("mps2-an500", "Cortex-M7"),
    "mps3-an547": mps("mps3-an547", "Cortex-M55"),
    "riscv-virt": virt("RISC-V, rv32imc", "imc"),
    "riscv-virt-f": virt("RISC-V with floats, rv32imafc", "imafc"),
    "rp2040": Machine("", "Raspberry Pi Pico, Cortex-M0+", 0x10100000, 512 * 1024, 0x101DF000),
    "stm32f405": Machine("netduinoplus2", "STM32F405, Cortex-M4F", 0x08040000, 256 * 1024, 0x08020000, link=5),
}

APPLICATIONS = {"vibration": "mps2-an386"}  # of examples/, each with the board that has its image


class Failure(Exception):
    """What went wrong, with the remedy."""


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run emulate", description=__doc__.split("\n\n")[0])
    boards = ", ".join(f"{name} ({machine.what})" for name, machine in MACHINES.items())
    parser.add_argument("board", help=boards, type=lambda name: name.replace("_", "-"))
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="where `gradstream serve` listens")
    parser.add_argument("--identity", required=True, type=pathlib.Path, help="file that `gradstream device add` wrote")
    parser.add_argument("--shard", required=True, type=pathlib.Path, help="samples (*.gsd; firmware/shard.h)")
    parser.add_argument("--network", type=pathlib.Path, action="append", default=[],
                        help="network that the board trains (*.gsn; docs/network.md), behind its shard. Of a board "
                        "with Ethernet also its network settings (boards/mps2_an386_eth/README.md), instead of those "
                        "that lead to the server")
    parser.add_argument("--forever", action="store_true", help="go on after the run is finished")
    parser.add_argument("--no-floors", action="store_true", help="refuse nothing and tell everything of the samples, "
                        "for demos and tests (docs/trust.md)")
    parser.add_argument("--flash", type=pathlib.Path, help="file that plays the flash pages of the client's state, "
                        "made when missing; without it the board forgets all at a reset")
    parser.add_argument("--reset-on-fault", action="store_true", help="a fault resets the board, as it does one of "
                        "silicon, instead of ending the emulation")
    parser.add_argument("--application", choices=APPLICATIONS, help="an example's application in place of the client: "
                        + ", ".join(f"{name}, on {board}" for name, board in APPLICATIONS.items()))
    parser.add_argument("--image", type=pathlib.Path, help="another image; nothing is built then")
    arguments = parser.parse_args()
    wanted = APPLICATIONS.get(arguments.application, arguments.board)
    if wanted != arguments.board:
        parser.error(f"--application {arguments.application} is for {wanted}, not for {arguments.board}")
    trained = [path for path in arguments.network if path.is_file() and gsn.is_network(path)]
    settings = [path for path in arguments.network if path not in trained]
    arguments.trained = trained[0] if trained else None
    arguments.network = settings[0] if settings else None
    if len(trained) > 1 or len(settings) > 1 or (settings and not MACHINES[arguments.board].network_address):
        parser.error(f"--network {(trained[1:] + settings)[0]}: name one network (*.gsn), which begins with GSN1, and "
                     "of a board with Ethernet one file of settings")
    return arguments


def with_network(shard, network, size_max):
    """The file of the shard's region: the shard itself, or with the network behind it."""
    if network is None:
        return shard
    try:
        both = gsn.behind_shard(shard.read_bytes(), network.read_bytes())
    except ValueError as error:
        raise Failure(f"{shard} and {network}: {error}") from error
    if len(both) > size_max:
        raise Failure(f"{shard} and {network} have {len(both)} bytes, and {size_max} fit the flash region of the "
                      "shard: give the board fewer samples or a smaller network")
    path = ROOT / "build" / "emulate" / f"{os.getpid()}.gsd"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(both)
    return path


def page(path, size_max, what, remedy):
    """The file as QEMU gets it, when it is readable and fits its page."""
    try:
        size = len(path.read_bytes())
    except OSError as error:
        raise Failure(f"cannot read the {what} {path} ({error.strerror}): {remedy}") from error
    if not 0 < size <= size_max:
        raise Failure(f"the {what} {path} has {size} bytes, 1 to {size_max} fit its flash page: {remedy}")
    return path.resolve()


def image_of(board, trains_network=False, application=None, preset=None):
    """Builds the emulator's image of the board, by the preset of its name unless another one is given."""
    kind = f"{application}_" if application else "gsn_" if trains_network else ""
    target = f"gradstream_client_{kind}emulator"
    try:
        fleet.build(preset or board, target)
    except RuntimeError as failure:
        raise Failure(str(failure)) from failure
    return ROOT / "build" / (preset or board) / "boards" / board.replace("-", "_") / f"{target}.elf"


def make_flash(path):
    """Erased pages and counters of nothing, unless the file is there."""
    if not path.exists():
        path.write_bytes(b"\xff" * (2 * FLASH_PAGE_SIZE) + bytes(struct.calcsize(FLASH_COUNTERS)))
    return path.resolve()


def flash_counters(path):
    """(erases of page 0, erases of page 1, bytes programmed, calls) so far."""
    return struct.unpack(FLASH_COUNTERS, path.read_bytes()[2 * FLASH_PAGE_SIZE:])


def network_file(host, port):
    """A file with the settings that lead from QEMU's own network, 10.0.2.0/24, to the server. There 10.0.2.2 is this
    machine's 127.0.0.1; other addresses are reached through this machine."""
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        raise Failure(f"{host} has no IPv4 address ({error.strerror})") from error
    if address.startswith("127.") and address != "127.0.0.1":
        raise Failure(f"QEMU's network leads to 127.0.0.1 of this machine, not to {address}")
    address = "10.0.2.2" if address == "127.0.0.1" else address
    text = network_page.text_of("10.0.2.15/24", f"{address}:{port}", "10.0.2.2")
    path = ROOT / "build" / "emulate" / f"{address}-{port}.network"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")  # others may write the same
    unfinished.write_text(text, encoding="ascii")
    unfinished.rename(path)
    return path


def ethernet(machine, arguments, host, port):
    """QEMU's words for the board's Ethernet; [] for a board without."""
    if not machine.network_address:
        return []
    path = getattr(arguments, "network", None) or network_file(host, port)
    path = page(path, NETWORK_SIZE, "network settings", "boards/mps2_an386_eth/README.md tells their form")
    return ["-nic", "user,id=net0,model=lan9118,ipv6=off",
            "-device", f"loader,file={path},addr={machine.network_address:#x},force-raw=on"]


def emulator(machine):
    """QEMU and its words for the processor. A RISC-V has what the image was compiled for and no more."""
    if not machine.extensions:
        return [QEMU, "-M", machine.qemu]
    lacking = "".join(f",{letter}=false" for letter in "afd" if letter not in machine.extensions)
    return [QEMU_RISCV, "-M", machine.qemu, "-cpu", f"rv32{lacking}", "-m", "16M", "-bios", "none"]


def command(arguments, image, *words):
    """QEMU's command line; words go to the image, beside those of the arguments."""
    match = re.fullmatch(r"(.+):(\d+)", arguments.server)
    if not match or "," in match[1]:
        raise Failure(f"--server wants HOST:PORT, not {arguments.server}")
    machine = MACHINES[arguments.board]
    shard = page(arguments.shard, machine.shard_size, "shard", "name a shard with --shard")
    shard = with_network(shard, getattr(arguments, "trained", None), machine.shard_size)
    identity = page(arguments.identity, IDENTITY_SIZE, "identity", "`gradstream device add` writes one")
    network = ethernet(machine, arguments, match[1], match[2])
    # nodelay: 40 to 95 ms a round trip otherwise. reconnect: the chardev dials again when the server was gone.
    link = f"socket,id=link,host={match[1].strip('[]')},port={match[2]},nodelay=on,reconnect=1"
    words = ["client", f"identity={identity}", *words] + ([] if arguments.forever else ["until-finished"])
    words += ["reset-on-fault"] * getattr(arguments, "reset_on_fault", False)
    words += ["no-floors"] * getattr(arguments, "no_floors", False)
    if arguments.flash:
        words.append(f"flash={make_flash(arguments.flash)}")
    if len(" ".join(words)) > WORDS_SIZE_MAX:
        raise Failure("the paths of identity and flash are too long: name files in a folder nearer to the root")
    if not machine.qemu:
        if not RP2040JS.exists():
            raise Failure("rp2040js is missing: install npm, then ./run setup fetches it")
        return ["node", ROOT / "tools" / "rp2040.mjs", "--image", image, "--link", arguments.server,
                "--words", " ".join(words), "--load", f"{shard}@{machine.shard_address:#x}",
                "--load", f"{identity}@{machine.identity_address:#x}"]
    semihosting = ",".join(["enable=on,target=native", *(f"arg={word}" for word in words)])
    ports = {machine.console: "chardev:console"}
    if machine.extensions:  # its only UART is the console
        network = ["-chardev", link, "-device", "pci-serial,addr=1,chardev=link"]
    elif not network:
        ports[machine.link] = "chardev:link"
        network = ["-chardev", link]
    serial = [word for port in range(max(ports) + 1) for word in ("-serial", ports.get(port, "none"))]
    return [*emulator(machine), "-display", "none", "-monitor", "none",
            "-chardev", "stdio,id=console,signal=off", *network, *serial,
            "-semihosting-config", semihosting, "-kernel", image,
            "-device", f"loader,file={shard},addr={machine.shard_address:#x},force-raw=on",
            "-device", f"loader,file={identity},addr={machine.identity_address:#x},force-raw=on"]


def copy_lines(out):
    """What is typed, to the board's console; the terminal itself edits and shows the line."""
    try:
        while data := os.read(0, 4096):
            out.write(data)
            out.flush()
    except OSError:
        pass  # the board is gone, or this runs in the terminal's background


def run(arguments):
    """Copies the console until the image exits; its exit status and the fields of its closing line."""
    image = arguments.image or image_of(arguments.board, arguments.trained is not None, arguments.application)
    child = subprocess.Popen(
        command(arguments, image), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, lambda *_: child.terminate())
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    threading.Thread(target=copy_lines, args=(child.stdin.buffer,), daemon=True).start()
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
        if arguments.board not in MACHINES:
            raise Failure(f"unknown board {arguments.board} (known: {' '.join(MACHINES)})")
        status, finished = run(arguments)
    except Failure as failure:
        print(f"emulate: error: {failure}", file=sys.stderr)
        print("result: error=usage")
        return 2
    except FileNotFoundError as missing:
        print(f"emulate: error: {missing.filename} is missing: ./run setup installs it", file=sys.stderr)
        print("result: error=qemu")
        return 2
    finished.pop("event", None)
    fields = " ".join(f"{key}={value}" for key, value in finished.items())
    print(f"result: board={arguments.board} finished={'yes' if finished else 'no'} {fields} exit={status}")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
