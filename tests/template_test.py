"""The board to copy, boards/template, builds: its image for silicon links within the memory of its linker script."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "template"
CPU = "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"


def run(*command):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL: {command[0]}:\n{done.stdout[-4000:]}")


def main():
    run("cmake", "--preset", "mps2-an386", "-B", TREE, "-DGS_BOARD=template", f"-DGS_CPU_FLAGS={CPU}")
    run("cmake", "--build", TREE, "--parallel", "2", "--target", "gradstream_client")
    marks = (ROOT / "boards" / "template" / "board.cc").read_text(encoding="ascii").count("PORT")
    assert marks >= 5, "nothing tells a porter what to write"


if __name__ == "__main__":
    main()
