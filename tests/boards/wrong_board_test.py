"""An image on another board than its own: it says so on the console and stops, before it trains or faults. The boards
are such as the image starts on at all, since their memory and console are at the same addresses.

And an image for silicon on a board that has no random numbers: it says that, and sends nothing.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import emulate  # noqa: E402
import fleet  # noqa: E402

SECONDS_MAX = 30
WRONG_BOARD = 10  # kStopWrongBoard in boards/board.h
NO_IDENTITY = 3
REASON = 'event=failed reason="image of another board'
NO_SHARD = 'event=failed reason="no shard'
# Image, the machine that it is not for, the machine's options for its console.
PAIRS = (("mps2-an386", "mps2-an385"),  # floating point instructions without a unit for them
         ("mps2-an385", "mps2-an386"),  # which would run well, and slowly
         ("stm32f405", "netduino2"))    # an STM32F205, Cortex-M3
OTHER_CHIP = "0x10004927"  # what the RP2350 calls itself
BARREN = "mps2-an386"
NO_RANDOM_NUMBERS = 'event=failed reason="no random numbers'


def run(command, what):
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"FAIL: {what} does not stop:\n{error.stdout}") from error
    return done.returncode, done.stdout


def image_of(name, target="gradstream_client_emulator"):
    fleet.command([fleet.ROOT / "tools" / "build.sh", name, target], f"building {name}", 1800)
    return fleet.ROOT / "build" / name / "boards" / name.replace("-", "_") / f"{target}.elf"


def qemu(machine, image):
    return [emulate.QEMU, "-M", machine, "-display", "none", "-monitor", "none", "-serial", "stdio",
            "-semihosting-config", "enable=on,target=native,arg=client", "-kernel", image]


def check(what, answer, status):
    found, output = answer
    if found != status or (REASON in output) != (status == WRONG_BOARD):
        raise SystemExit(f"FAIL: {what}: exit status {found}, {status} is wanted:\n{output}")
    print(f"{what}: exit status {found}")


def check_barren():
    """The image for silicon has an identity and samples; it waits for ever, since nothing that it could do helps."""
    image = image_of(BARREN, "gradstream_client")
    with tempfile.TemporaryDirectory(prefix="gradstream-barren-") as folder:
        home = pathlib.Path(folder)
        (home / "identity").write_text(f"identity = board\nkey = {'5a' * 32}\n", encoding="ascii")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "shard", parts[0], mean)
        machine = emulate.MACHINES[BARREN]
        pages = [(home / "identity", machine.identity_address), (home / "shard", machine.shard_address)]
        words = [word for path, address in pages
                 for word in ("-device", f"loader,file={path},addr={address:#x},force-raw=on")]
        board = fleet.Process(BARREN, [
            emulate.QEMU, "-M", machine.qemu, "-display", "none", "-monitor", "none", "-serial", "stdio", "-serial",
            f"file:{home / 'link'}", *words, "-kernel", image])
        try:
            found = board.wait_for_line(NO_RANDOM_NUMBERS, SECONDS_MAX)
            if found is None or not board.running or (home / "link").stat().st_size > 0:
                raise SystemExit("\n".join([f"FAIL: without random numbers {BARREN} does not stop:", *board.lines]))
        finally:
            board.stop()
    print(f"{BARREN} without random numbers: {found}")


def main():
    check_barren()
    for name, other in PAIRS:
        image = image_of(name)
        check(f"{name} on {other}", run(qemu(other, image), other), WRONG_BOARD)
        own = emulate.MACHINES[name].qemu
        # Without identity and shard the image ends on its own board too, by another reason.
        _, output = run(qemu(own, image), own)
        if REASON in output or NO_SHARD not in output:
            raise SystemExit(f"FAIL: {name} does not know its own board:\n{output}")
    if not emulate.RP2040JS.exists():
        print("SKIPPED: rp2040: rp2040js is missing (install npm, then ./run setup)")
        raise SystemExit(77)
    command = ["node", fleet.ROOT / "tools" / "rp2040.mjs", "--image", image_of("rp2040"), "--link",
               f"127.0.0.1:{fleet.free_port()}", "--words", "client"]
    check("rp2040 on another chip", run([*command, "--chip", OTHER_CHIP], "rp2040"), WRONG_BOARD)
    _, output = run(command, "rp2040")
    if REASON in output or NO_SHARD not in output:
        raise SystemExit(f"FAIL: the RP2040's image does not know its chip:\n{output}")


if __name__ == "__main__":
    main()
