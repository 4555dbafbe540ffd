"""What include/gradstream/eigen.h refuses does not compile, and the compiler says why in a sentence.

Usage: eigen_refused_test.py SOURCE BUILD [EIGEN...]

SOURCE has the cases: each is compiled for this machine, and for a Cortex-M4F where its compiler is there. BUILD has the
code that is generated from the messages. EIGEN: the folders of Eigen/Core, /usr/include/eigen3 where none is named.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMON = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-DGS_CONTRACTION_OFF=1", "-Wall",
          "-Wextra", "-Wfatal-errors", "-Wno-unused-variable", "-Wno-unused-but-set-variable"]
COMPILERS = {
    "host": ["g++", "-O0"],
    "M4F": ["arm-none-eabi-g++", "-O2", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16",
            "-DGS_BARE_METAL=1"],
}
HEAP = "this expression of Eigen takes memory from the heap, and a device has none: give its result a bounded size"
STACK = "an object of this expression of Eigen has more bytes than GS_EIGEN_STACK_SIZE_MAX"
# (compilers, case, further options, the sentence; "": it compiles)
CASES = [
    ("host M4F", 0, [], ""),
    ("host M4F", 1, [], HEAP),
    ("host", 2, [], HEAP),
    ("host", 3, [], HEAP),
    ("M4F", 4, [], HEAP),
    ("host", 5, [], HEAP),
    ("M4F", 6, [], HEAP),
    ("host", 10, [], STACK),
    ("host", 11, [], "include <gradstream/eigen.h> before all headers of Eigen"),
    ("host", 12, [], "a manifold by Eigen is for hosts: define GS_EIGEN_HEAP before the include"),
    ("host", 1, ["-DGS_EIGEN_HEAP"], ""),
    ("M4F", 0, ["-DGS_EIGEN_HEAP"], "GS_EIGEN_HEAP is for hosts: a board has no heap"),
]


def fault_of(compiler, eigen, case, options, sentence, folder):
    """The empty text, or what a compiler should have done."""
    command = [*COMPILERS[compiler], *COMMON, *options, f"-DCASE={case}", f"-I{ROOT}", f"-I{sys.argv[2]}/generated",
               "-isystem", eigen, "-c", sys.argv[1], "-o", pathlib.Path(folder) / "refused.o"]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if (done.returncode == 0) == (sentence == "") and sentence in done.stdout:
        return ""
    wanted = f"says: {sentence}" if sentence else "compiles"
    return (f"case {case} {' '.join(options)} by {compiler} with {eigen} does not answer as it should, "
            f"which {wanted}\n{done.stdout[:3000]}")


def main():
    eigens = sys.argv[3:]
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for compiler, words in COMPILERS.items():
            if shutil.which(words[0]) is None:
                print(f"{words[0]} is not there: its cases are left out")
                continue
            for eigen in eigens or ["/usr/include/eigen3"]:
                for compilers, case, options, sentence in CASES:
                    if compiler not in compilers.split():
                        continue
                    count += 1
                    fault = fault_of(compiler, eigen, case, options, sentence, folder)
                    faults += [fault] if fault else []
    for fault in faults:
        print(f"FAIL: {fault}")
    print(f"result: cases={count} faults={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
