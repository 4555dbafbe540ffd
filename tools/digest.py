"""./run digest: the replicated arithmetic, built for and run on every processor; one digest is right.

tests/digest/digest_main.cc prints a hash for each part (directions, encodings, fold, model step, projections, 200
rounds of replay, ...). This tool builds it with one compiler call a source file (ninja, in build/digest), runs it
natively, under user-mode emulation and on emulated Cortex-M and RISC-V boards, and compares. Always
-ffp-contract=off. Builds that compile by the same command share their objects.

--without MACHINE leaves out a machine, and may be given again. Each machine takes a quarter to half a minute of a
processor.

--self-test shows that the comparison can fail: builds with contraction on, with another constant and with
flush-to-zero must all be told from the others.
"""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "digest"
PROGRESS_SECONDS = 8  # between two lines that say how far the build is
RUN_SECONDS_MAX = 120

ENTRY = "tests/digest/digest_main.cc"
SOURCES = [
    "firmware/digest_parts.cc",
    "runtime/base/arena.cc", "runtime/base/arithmetic.cc", "runtime/base/crc32c.cc",
    "runtime/base/decompositions.cc", "runtime/base/equations.cc", "runtime/base/factors.cc",
    "runtime/base/products.cc", "runtime/base/random.cc", "runtime/base/status.cc", "runtime/base/units.cc",
    "runtime/base/wide.cc",
    "runtime/manifold/euclidean.cc", "runtime/manifold/fixed_rank.cc", "runtime/manifold/grassmann.cc",
    "runtime/manifold/hyperbolic.cc", "runtime/manifold/manifold.cc", "runtime/manifold/oblique.cc",
    "runtime/manifold/product.cc", "runtime/manifold/smooth_transport.cc", "runtime/manifold/spd.cc",
    "runtime/manifold/sphere.cc", "runtime/manifold/stiefel.cc", "runtime/problem/byte_products.cc",
    "runtime/problem/kpca.cc", "runtime/problem/kpca_along.cc", "runtime/problem/problem.cc",
    "runtime/problem/sign_products.cc",
    "runtime/training/clip.cc", "runtime/training/encoding.cc", "runtime/training/estimator.cc",
    "runtime/training/estimator_projection.cc", "runtime/training/proximal.cc", "runtime/training/solver.cc",
    "runtime/training/solver_path.cc", "runtime/training/solver_projection.cc", "runtime/training/stream.cc",
    "server/rules/fold.cc", "server/rules/norm_clip.cc", ENTRY,
]
START = "tests/digest/digest_"  # with a family behind it: start-up (.cc) and linker script (.ld) of its boards
HOST_SOURCES = ["tests/digest/digest_linux.cc", "tests/support/host_assert.cc"]

COMMON = "-std=c++20 -g0 -Wall -Wextra -Werror -I. -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-math-errno"
BOARD = "-O2 -ffunction-sections -fdata-sections -fno-use-cxa-atexit"
BOARD_LINK = ("--specs=nano.specs -nostartfiles -Wl,--gc-sections -Wl,--fatal-warnings "
              "-Wl,-T,tests/digest/digest_cortex_m.ld")
# Debian has no C++ library for this compiler: the headers are those for arm-none-eabi (set-up brings them), and nothing
# is linked from one. The folder is named by the version, which is 12.2.1 in Debian 12; the newest counts.
CXX_HEADERS = max(pathlib.Path("/usr/include/newlib/c++").glob("[0-9]*"), default="/usr/include/newlib/c++/12.2.1",
                  key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])
RISCV_CXX = f"-isystem {CXX_HEADERS} -isystem {CXX_HEADERS}/arm-none-eabi"
RISCV = f"--specs=picolibc.specs -mcmodel=medany {BOARD} {RISCV_CXX}"
RISCV_LINK = ("-nostartfiles -nodefaultlibs -Wl,--gc-sections -Wl,--fatal-warnings "
              "-Ttests/digest/digest_riscv.ld")
CONTRACT_OFF = "-ffp-contract=off -DGS_CONTRACTION_OFF=1"
CONTRACT_FAST = "-ffp-contract=fast -DGS_CONTRACTION_OFF=1"  # which claims what it does not do


class Build(NamedTuple):
    machine: str   # what the result counts
    name: str      # machine and what is special about this build; also its folder
    compiler: str
    flags: str
    emulator: tuple = ()
    link: str = ""
    contract: str = CONTRACT_OFF
    entry: str = ""  # flags of ENTRY alone
    libraries: str = ""  # behind the objects

    @property
    def family(self):
        """Of a processor without an operating system: cortex_m or riscv; None: it has Linux."""
        return {"arm-none-eabi-g++": "cortex_m", "riscv64-unknown-elf-g++": "riscv"}.get(self.compiler)

    @property
    def program(self):
        return BUILD / self.name / "digest"


def board(machine, cpu, qemu_machine):
    emulator = ("qemu-system-arm", "-M", qemu_machine, "-nographic", "-monitor", "none", "-serial", "none",
                "-semihosting-config", "enable=on,target=native", "-kernel")
    return Build(machine, machine, "arm-none-eabi-g++", f"{cpu} -mthumb {BOARD}", emulator, BOARD_LINK)


def riscv(machine, calls, processor):
    """calls: the calling convention; processor: QEMU's, which has the machine's extensions and no more."""
    emulator = (f"qemu-system-riscv{processor[2:4]}", "-M", "virt", "-cpu", processor, "-m", "16M", "-bios", "none",
                "-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config",
                "enable=on,target=native", "-kernel")
    return Build(machine, machine, "riscv64-unknown-elf-g++", f"-march={machine} -mabi={calls} {RISCV}", emulator,
                 RISCV_LINK, libraries="-Wl,--start-group -lm -lc -lgcc -Wl,--end-group")


AARCH64 = Build("aarch64", "aarch64", "aarch64-linux-gnu-g++", "-O2", ("qemu-aarch64-static",), "-static")
ARMV7 = Build("armv7", "armv7", "arm-linux-gnueabihf-g++", "-O2 -Wno-psabi", ("qemu-arm-static",), "-static")
ARMV6 = Build("armv6", "armv6", "arm-linux-gnueabi-g++", "-O2 -mcpu=arm1176jzf-s -mfloat-abi=softfp -Wno-psabi",
              ("qemu-arm-static", "-cpu", "arm1176"), "-static -Wl,--vfp11-denorm-fix=scalar")
CORTEX_M4F = board("cortex-m4f", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "mps2-an386")
RV32IMAFC = riscv("rv32imafc", "ilp32f", "rv32,d=false")
X86 = Build("x86-64", "x86-64-O0", "g++", "-O0")
X86_NATIVE = Build("x86-64", "x86-64-native", "g++", "-O3 -march=native")
BUILDS = [
    X86,
    X86._replace(name="x86-64-sse2", flags="-O2 -DGS_NO_WIDE=1"),
    X86_NATIVE,
    X86_NATIVE._replace(name="x86-64-native-clang", compiler="clang++"),
    AARCH64,
    ARMV7,
    ARMV7._replace(name="armv7-neon", flags="-O3 -mfpu=neon -Wno-psabi"),
    ARMV6,
    # QEMU has no board with a Cortex-M0+ and enough memory: a Cortex-M3 executes its instructions, which are a subset.
    board("cortex-m0plus", "-mcpu=cortex-m0plus -mfloat-abi=soft", "mps2-an385"),
    board("cortex-m3", "-mcpu=cortex-m3 -mfloat-abi=soft", "mps2-an385"),
    CORTEX_M4F,
    board("cortex-m7", "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16", "mps2-an500"),
    board("cortex-m55", "-mcpu=cortex-m55+nomve -mfloat-abi=hard", "mps3-an547"),
    riscv("rv32imc", "ilp32", "rv32,a=false,f=false,d=false"),
    riscv("rv32imac", "ilp32", "rv32,f=false,d=false"),
    RV32IMAFC,
    riscv("rv64gc", "lp64d", "rv64"),
]
# Each must differ from the first: what the comparison is there to find.
PLANTED = [
    AARCH64._replace(name="planted-aarch64-contract", contract=CONTRACT_FAST),
    CORTEX_M4F._replace(name="planted-cortex-m4f-contract", contract=CONTRACT_FAST),
    RV32IMAFC._replace(name="planted-rv32imafc-contract", contract=CONTRACT_FAST),
    X86._replace(name="planted-constant", entry="-DGS_DIGEST_STEP=0x1.47ae16p-7F"),
]
# GCC's -ffast-math at the link makes the program's start-up code flush subnormal numbers to zero.
FLUSHING = X86._replace(name="planted-flush-to-zero", link="-ffast-math")


class Failure(Exception):
    """Something that the user must see in one sentence."""


def ninja_text(builds, sources):
    """One rule a build; every object names what it includes, so that a second run compiles only what changed. An
    object lies in the folder of the first build that compiles it by this command."""
    lines = ["builddir = build/digest"]
    made = {}  # (compiler, flags, source) -> object
    for build in builds:
        rule = build.name.replace("-", "_")
        flags = f"{COMMON} {build.flags} {build.contract}"
        lines += [f"rule cxx_{rule}", f"  command = {build.compiler} {flags} $own -MMD -MF $out.d -c $in -o $out",
                  "  depfile = $out.d", "  deps = gcc", f"  description = {build.name} $in",
                  f"rule link_{rule}",
                  f"  command = {build.compiler} {flags} {build.link} $in -o $out {build.libraries}",
                  f"  description = {build.name} link"]
        objects = []
        for source in sources + ([f"{START}{build.family}.cc"] if build.family else HOST_SOURCES):
            own = build.entry if source == ENTRY else ""
            key = (build.compiler, flags, own, source)
            if key not in made:
                made[key] = f"build/digest/{build.name}/{source}.o"
                lines += [f"build {made[key]}: cxx_{rule} {source}", f"  own = {own}"]
            objects.append(made[key])
        script = f" | {START}{build.family}.ld" if build.family else ""
        lines.append(f"build build/digest/{build.name}/digest: link_{rule} {' '.join(objects)}{script}")
    return "\n".join(lines) + "\n"


def compile_all(builds, name, sources):
    BUILD.mkdir(parents=True, exist_ok=True)
    ninja_file = BUILD / f"{name}.ninja"
    text = ninja_text(builds, sources)
    if not ninja_file.exists() or ninja_file.read_text(encoding="ascii") != text:
        ninja_file.write_text(text, encoding="ascii")
    said, shown_at = [], time.monotonic()
    with subprocess.Popen(["ninja", "-C", ROOT, "-f", ninja_file, "-j", "2"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        for line in child.stdout:
            said.append(line)
            if line.startswith("[") and time.monotonic() - shown_at >= PROGRESS_SECONDS:
                shown_at = time.monotonic()
                print(f"digest: compiling {line.split()[0]}", flush=True)
    if child.returncode != 0:
        raise Failure(f"the build failed:\n{''.join(said)[-4000:]}")


def execute(build):
    """(exit status, {name: hash}, output)."""
    try:
        done = subprocess.run([*build.emulator, build.program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=RUN_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failure(f"{build.name}: no end after {RUN_SECONDS_MAX} s") from expired
    fields = [line.split() for line in done.stdout.splitlines()]
    return done.returncode, dict(pair for pair in fields if len(pair) == 2), done.stdout


def hashes_of(build):
    status, hashes, output = execute(build)
    if status != 0 or "total" not in hashes:
        raise Failure(f"{build.name}: exit status {status}:\n{output}")
    return hashes


def run_all(builds):
    """{build name: hashes}, in the order of builds."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip([build.name for build in builds], pool.map(hashes_of, builds)))


def differing(reference, hashes):
    """Names of the hashes that must agree and do not."""
    return [name for name in {**reference, **hashes}
            if not name.startswith("~") and reference.get(name) != hashes.get(name)]


def print_table(results):
    """A line a hash: the value, then the builds that have another one."""
    reference = next(iter(results.values()))
    width = max(map(len, reference))
    columns = [max(8, len(name)) for name in results]
    print(" " * (width + 18) + "  ".join(name.rjust(size) for name, size in zip(results, columns)))
    for name, value in reference.items():
        cells = ["same" if hashes.get(name) == value else "DIFFERS" for hashes in results.values()]
        if name.startswith("~"):
            cells = [cell.lower() for cell in cells]
        print(f"{name:{width}} {value} " + "  ".join(cell.rjust(size) for cell, size in zip(cells, columns)))
    for build, hashes in results.items():
        for name in differing(reference, hashes):
            print(f"differs: {build} {name} {hashes.get(name)} instead of {reference.get(name)}")
    print("~ a device's own path: may differ, not in the total")


def compare(left_out):
    builds = [build for build in BUILDS if build.machine not in left_out]
    compile_all(builds, "build", SOURCES)
    results = run_all(builds)
    print_table(results)
    totals = {hashes["total"] for hashes in results.values()}
    digest = totals.pop() if len(totals) == 1 else "none"
    digest_count = len({hashes["total"] for hashes in results.values()})
    machine_count = len({build.machine for build in builds})
    print(f"result: digests={digest_count} machines={machine_count} builds={len(builds)} digest={digest}")
    return digest_count == 1


def self_test():
    compile_all([X86, *PLANTED, FLUSHING], "self_test", SOURCES)
    results = run_all([X86, *PLANTED])
    reference = results[X86.name]
    missed = []
    for build in PLANTED:
        found = differing(reference, results[build.name])
        print(f"{build.name}: {len(found)} hashes differ: {' '.join(found)}")
        if "total" not in found or "replay_stiefel" not in found:
            missed.append(build.name)
    status, _, output = execute(FLUSHING)
    print(f"{FLUSHING.name}: exit status {status}: {output.strip().splitlines()[-1]}")
    if status != 1 or "flushes subnormal" not in output:
        missed.append(FLUSHING.name)
    print(f"result: planted={len(PLANTED) + 1} missed={len(missed)}")
    return not missed


def main():
    parser = argparse.ArgumentParser(prog="./run digest", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", metavar="MACHINE", action="append", default=[],
                        choices=sorted({build.machine for build in BUILDS}))
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    try:
        return 0 if (self_test() if arguments.self_test else compare(arguments.without)) else 1
    except Failure as failure:
        print(f"digest: error: {failure}")
        print("result: digests=0 error=failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
