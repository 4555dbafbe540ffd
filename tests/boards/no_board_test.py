"""A bare-metal build may have no board: whether GS_BOARD is empty or not given, CMake configures, and says that the
libraries alone are built. A board that is not there is named. Nothing is compiled.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SECONDS_MAX = 120


def configure(*options):
    """What CMake says of a Cortex-M3 with these options."""
    with tempfile.TemporaryDirectory(prefix="gradstream-no-board-") as build:
        done = subprocess.run(
            ["cmake", "-S", str(ROOT), "-B", build, "-G", "Ninja", "-DGS_CPU_FLAGS=-mcpu=cortex-m3 -mfloat-abi=soft",
             f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'toolchain_arm_none_eabi.cmake'}", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            timeout=SECONDS_MAX)
        is_described = (pathlib.Path(build) / "build.ninja").exists()
    assert done.returncode == 0 and is_described, f"{options}: exit status {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


def main():
    if shutil.which("arm-none-eabi-gcc") is None:
        print("no_board: skipped: arm-none-eabi-gcc is missing (./run setup build)")
        return SKIPPED
    for options in (("-DGS_BOARD=",), ()):
        said = configure(*options)
        assert "building the libraries only" in said and "Warning" not in said, said
    said = " ".join(configure("-DGS_BOARD=no_such_board").split())
    assert "boards/no_such_board is missing: building the libraries only" in said, said
    return 0


if __name__ == "__main__":
    sys.exit(main())
