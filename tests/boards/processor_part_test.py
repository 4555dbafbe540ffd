"""The extensions that an image for RISC-V asks of its processor, as boards/riscv/riscv.cmake finds them in -march."""

import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 20
SCRIPT = """set(PROJECT_SOURCE_DIR {root})
set(GS_CPU_FLAGS "{flags}")
include({root}/boards/riscv/riscv.cmake)
gs_processor_part(part)
message("part=${{part}}")
"""
WIDTH = 1 << 30


def part_of(flags, folder):
    """What CMake says: the bits of misa, or its error."""
    script = folder / "part.cmake"
    script.write_text(SCRIPT.format(root=ROOT, flags=flags), encoding="utf-8")
    done = subprocess.run(["cmake", "-P", script], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False, timeout=SECONDS_MAX)
    return int(done.stderr.partition("part=")[2].rstrip("U\n"), 16) if done.returncode == 0 else done.stderr


def bits(letters):
    return WIDTH | sum(1 << ord(letter) - ord("a") for letter in letters)


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-part-") as name:
        folder = pathlib.Path(name)
        for march, letters in (("rv32imc", "imc"), ("rv32imafc", "imafc"), ("rv32gc", "imafdc"), ("rv32g_zba", "imafd"),
                               ("rv32emc_zicsr", "emc")):
            found = part_of(f"-march={march} -mabi=ilp32", folder)
            assert found == bits(letters), f"{march}: {found}, wanted {bits(letters)}"
        said = part_of("-mcpu=cortex-m3", folder)
        assert isinstance(said, str) and "names no processor" in said, said
    print("processor_part: 5 processors")


if __name__ == "__main__":
    main()
