"""An image on another board than its own: it says so on the console and stops, before it trains or faults. The boards
are such as the image starts on at all, since their memory and console are at the same addresses.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import emulate  # noqa: E402
import fleet  # noqa: E402

SECONDS_MAX = 30
WRONG_BOARD = 10  # kStopWrongBoard in boards/board.h
NO_IDENTITY = 3
REASON = 'event=failed reason="image of another board'
# Image, the machine that it is not for, the machine's options for its console.
PAIRS = (("mps2-an386", "mps2-an385"),  # floating point instructions without a unit for them
         ("mps2-an385", "mps2-an386"),  # which would run well, and slowly
         ("stm32f405", "netduino2"))    # an STM32F205, Cortex-M3
OTHER_CHIP = "0x10004927"  # what the RP2350 calls itself


def run(command, what):
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"FAIL: {what} does not stop:\n{error.stdout}") from error
    return done.returncode, done.stdout


def image_of(name):
    fleet.command([fleet.ROOT / "tools" / "build.sh", name, "gradstream_client_emulator"], f"building {name}", 1800)
    return fleet.ROOT / "build" / name / "boards" / name.replace("-", "_") / "gradstream_client_emulator.elf"


def qemu(machine, image):
    return [emulate.QEMU, "-M", machine, "-display", "none", "-monitor", "none", "-serial", "stdio",
            "-semihosting-config", "enable=on,target=native,arg=client", "-kernel", image]


def check(what, answer, status):
    found, output = answer
    if found != status or (REASON in output) != (status == WRONG_BOARD):
        raise SystemExit(f"FAIL: {what}: exit status {found}, {status} is wanted:\n{output}")
    print(f"{what}: exit status {found}")


def main():
    for name, other in PAIRS:
        image = image_of(name)
        check(f"{name} on {other}", run(qemu(other, image), other), WRONG_BOARD)
        own = emulate.MACHINES[name].qemu
        # Without identity and shard the image ends on its own board too, by another reason.
        _, output = run(qemu(own, image), own)
        if REASON in output or "event=failed" not in output:
            raise SystemExit(f"FAIL: {name} does not know its own board:\n{output}")
    if not emulate.RP2040JS.exists():
        print("SKIPPED: rp2040: rp2040js is missing (install npm, then ./run setup)")
        raise SystemExit(77)
    command = ["node", fleet.ROOT / "tools" / "rp2040.mjs", "--image", image_of("rp2040"), "--link",
               f"127.0.0.1:{fleet.free_port()}", "--words", "client"]
    check("rp2040 on another chip", run([*command, "--chip", OTHER_CHIP], "rp2040"), WRONG_BOARD)
    _, output = run(command, "rp2040")
    if REASON in output or "event=failed" not in output:
        raise SystemExit(f"FAIL: the RP2040's image does not know its chip:\n{output}")


if __name__ == "__main__":
    main()
