"""The start of an image and what boards/bare/processor.h says of the processor, under QEMU: an image of start_image.cc
for each family, with floats and without. Resets start it eight times, and its exit status is the line of what did not
hold. An image that is built for another processor finds that out.
"""

import pathlib
import subprocess
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("tests/boards/start_image.cc", "boards/bare/start.cc")
SECONDS_MAX = 60
COMMON = ("-std=gnu++20", "-Os", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-fno-rtti", "-ffunction-sections",
          "-DGS_EMULATOR=1", "-DGS_BARE_METAL=1", "-nostartfiles", "-I.", "-L.", "-Wl,--gc-sections",
          "-Wl,--fatal-warnings")
# As cmake/toolchain_*.cmake has it for the boards' images.
ARM = ("arm-none-eabi-g++", "-mthumb", "--specs=nano.specs", "boards/cortex_m/startup.cc", "-Tboards/mps2/mps2.ld")
HEADERS = max(pathlib.Path("/usr/include/newlib/c++").glob("12*"), default=pathlib.Path("/usr/include/newlib/c++/12"))
RISCV = ("riscv64-unknown-elf-g++", "--specs=picolibc.specs", "-isystem", HEADERS, "-isystem",
         HEADERS / "arm-none-eabi", "-nodefaultlibs", "boards/riscv/startup.cc", "-Tboards/riscv_virt/riscv_virt.ld")
RISCV_LIBRARIES = ("-Wl,--start-group", "-lc", "-lgcc", "-Wl,--end-group")
QEMU = ("-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native",
        "-kernel")
QEMU_RISCV = ("qemu-system-riscv32", "-M", "virt", "-m", "16M", "-bios", "none", "-cpu")


class Image(NamedTuple):
    words: tuple      # of the compiler
    libraries: tuple  # behind the sources
    part: str         # GS_PROCESSOR_PART of the machine's processor, as gs_processor_part() of the family has it
    other: str        # that of another one
    machine: tuple


IMAGES = {
    "Cortex-M3": Image((*ARM, "-mcpu=cortex-m3", "-mfloat-abi=soft"), (), "0xC23", "0xC24",
                       ("qemu-system-arm", "-M", "mps2-an385")),
    "Cortex-M4F": Image((*ARM, "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"), (), "0xC24", "0xC23",
                        ("qemu-system-arm", "-M", "mps2-an386")),
    # misa has 32 bits, and I, M and C; the other processor has floats, or floats of 64 bits.
    "rv32imc": Image((*RISCV, "-march=rv32imc", "-mabi=ilp32"), RISCV_LIBRARIES, "0x40001104U", "0x40001124U",
                     (*QEMU_RISCV, "rv32,a=false,f=false,d=false")),
    "rv32imafc": Image((*RISCV, "-march=rv32imafc", "-mabi=ilp32f"), RISCV_LIBRARIES, "0x40001125U", "0x4000112DU",
                       (*QEMU_RISCV, "rv32,d=false")),
}


def play(image, program, *definitions):
    """The exit status of the image, which is built with these definitions."""
    subprocess.run([*image.words, *COMMON, *definitions, *SOURCES, *image.libraries, "-o", program], cwd=ROOT,
                   check=True, timeout=SECONDS_MAX)
    return subprocess.run([*image.machine, *QEMU, program], stdin=subprocess.DEVNULL, check=False,
                          timeout=SECONDS_MAX).returncode


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-start-") as folder:
        program = pathlib.Path(folder) / "start.elf"
        for name, image in IMAGES.items():
            line = play(image, program, f"-DGS_PROCESSOR_PART={image.part}")
            assert line == 0, f"{name}: {SOURCES[0]}:{line} does not hold"
            line = play(image, program, f"-DGS_PROCESSOR_PART={image.other}", "-DGS_TEST_OTHER_PROCESSOR=1")
            assert line == 0, f"{name}: takes the machine for another processor, {SOURCES[0]}:{line}"
    print(f"start: {len(IMAGES)} processors, 8 starts each")


if __name__ == "__main__":
    main()
