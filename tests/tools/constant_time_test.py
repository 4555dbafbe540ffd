"""X25519 (cmake/x25519_driver.h) takes the same way through its code for every private key.

On this machine clang's memory sanitizer looks for branches and addresses that depend on a key, in both forms of the
field's arithmetic. On three processors, by QEMU, the instructions of four keys are the same. Cycles are not looked at:
a Cortex-M3's long multiplication takes 3 to 5 of them, depending on its operands.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SODIUM = ROOT / "third_party" / "libsodium" / "src" / "libsodium"
SOURCE = ROOT / "tests" / "runtime" / "x25519_constant_time.c"
INCLUDES = [f"-I{ROOT}", f"-I{ROOT}/third_party/mbedtls/include", f"-isystem{SODIUM}",
            f"-isystem{SODIUM}/include/sodium", "-Wno-unused-function"]
SECONDS_MAX = 120  # of a compiler or an emulator on a machine that does much else
BOARDS = {"cortex-m0plus": ("-mcpu=cortex-m0plus", "mps2-an385"), "cortex-m3": ("-mcpu=cortex-m3", "mps2-an385"),
          "cortex-m4": ("-mcpu=cortex-m4", "mps2-an386")}
TICKS_MIN = 10000  # of SysTick, 40 instructions each: less is no X25519
LAYOUT = """
MEMORY { code (rx) : ORIGIN = 0, LENGTH = 1M  data (rwx) : ORIGIN = 0x20000000, LENGTH = 256K }
stack_end = 0x20040000;
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > code
  .data : { *(.data*) } > data AT > code
  .bss : { *(.bss*) *(COMMON) } > data
}
"""


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS_MAX,
                          check=False)


def compile_with(*words):
    done = run(*words)
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stderr}"


def look_on_this_machine(folder):
    for name, flags in {"limbs of 51 bits": [], "limbs of 25.5 bits": ["-DGS_TEST_SHORT_LIMBS=1"]}.items():
        program = folder / "watched"
        compile_with("clang", "-O2", "-g", "-fsanitize=memory",
                     f'-DMBEDTLS_CONFIG_FILE="{ROOT}/cmake/mbedtls_config_board.h"', *flags, *INCLUDES, SOURCE,
                     "-o", program)
        done = run(program)
        assert done.returncode == 0, f"{name}: exit status {done.returncode}\n{done.stderr}"
        for fault in ("branch", "index"):
            done = run(program, fault)
            assert done.returncode not in (0, 3, 4) and "use-of-uninitialized-value" in done.stderr, \
                f"{name}: a planted {fault} that depends on a secret is not found: {done.returncode}\n{done.stderr}"


def count_on(folder, name):
    flags, machine = BOARDS[name]
    image, layout = folder / f"{name}.elf", folder / "layout.ld"
    layout.write_text(LAYOUT, encoding="ascii")
    compile_with("arm-none-eabi-gcc", flags, "-mthumb", "-Os", "-ffunction-sections", "-fdata-sections",
                 "-DGS_COUNTS=1", f'-DMBEDTLS_CONFIG_FILE="{ROOT}/cmake/mbedtls_config_board.h"',
                 *INCLUDES, SOURCE, ROOT / "cmake" / "long_multiplication.c", "-nostartfiles", "--specs=nano.specs",
                 f"-Wl,-T,{layout}", "-Wl,--gc-sections", "-o", image)
    done = run("qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "none",
               "-semihosting-config", "enable=on,target=native", "-icount", "shift=0", "-kernel", image)
    counts = [int(word) for word in (done.stdout + done.stderr).split()]
    assert done.returncode == 0 and len(counts) == 4, f"{name}: exit status {done.returncode}: {counts}"
    # The clock reads to one tick.
    assert max(counts) - min(counts) <= 1 and min(counts) >= TICKS_MIN, f"{name}: instructions / 40: {counts}"
    return counts[0]


def main():
    for program in ("clang", "arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            sys.exit(f"constant_time_test: {program} is not installed: run ./run setup")
    with tempfile.TemporaryDirectory(prefix="gradstream-constant-") as name:
        folder = pathlib.Path(name)
        look_on_this_machine(folder)
        found = {board: 40 * count_on(folder, board) for board in BOARDS}
    print("instructions of a key pair and an agreement:", found)


if __name__ == "__main__":
    main()
