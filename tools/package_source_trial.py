"""What `./run package source` proves of the zip that it has written (tools/package_source.py), from an unpacked copy.

- Every compiler of the matrix takes all sources with -Os, gnu++20, -Wall and -Wextra alone: no -D, no -f, no error, no
  warning. g++ does so through the CMakeLists.txt of the package, clang++ and the compiler for Cortex-M3 through the
  Makefile of its example.
- The program of ./run digest has the one digest on an emulated Cortex-M4F and an rv32imafc, though compiled with
  -ffp-contract=fast. An image that has lost the pragma as well is refused by gs_init().
- A super loop in C11 links with each precompiled archive and the headers in C alone, and runs in the emulator.
- PlatformIO builds the example for Linux by library.json, which trains 30 rounds beside a client of this tree.
"""

import os
import re
import shutil
import subprocess
import zipfile

import digest
import package_platformio
import package_precompiled
import package_source
from package_precompiled import COMMON_CXX, CORES, WARNINGS, Core
from package_source import NAME, ROOT, Failure

GXX, CLANG = Core("g++", "gcc", "g++"), Core("clang++", "clang", "clang++")
GS_FUSES = 12  # include/gradstream/device.h
CROSS = next(core for core in CORES if core.name == "cortex-m3")  # by make: the command of the page
CROSS_LINK = "--specs=nosys.specs -Wl,--gc-sections"
BUILD_SECONDS_MAX = 3600  # of one build by CMake or make
FUSING = "-ffp-contract=fast"
ZIP_BYTES_MAX = 2_500_000


def unpack(path, folder):
    """The folder of the package in it."""
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder / NAME


def say(text):
    print(f"package: source: {text}", flush=True)


# ---- Every compiler ----

def command(words, folder):
    """Runs a build that is to succeed; what it said."""
    done = subprocess.run([str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=BUILD_SECONDS_MAX,
                          env=package_precompiled.environment())
    return package_source.with_status(done, words[0])


def execute_product(program):
    """Runs what a build made; what it said. A build that failed made none, and its compilers have said why."""
    return command([program], program.parent) if program.is_file() else f"\nerror: {program.name} was not built\n"


def by_cmake(core, package, work):
    """All of the package by its own CMakeLists.txt, as a project that adds it would have it."""
    work.mkdir()
    (work / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(product C CXX)\nadd_subdirectory({package} package)\n"
        f"add_executable(product {package}/examples/super_loop/super_loop.c)\n"
        "target_link_libraries(product PRIVATE gradstream)\n", encoding="utf-8")
    flags = f"-Os {WARNINGS}"
    chosen = {"C_COMPILER": core.cc, "CXX_COMPILER": core.cxx, "C_FLAGS": flags, "CXX_FLAGS": flags}
    launcher = package_precompiled.cached("").strip()
    chosen |= {"C_COMPILER_LAUNCHER": launcher, "CXX_COMPILER_LAUNCHER": launcher}
    options = [f"-DCMAKE_{name}={value}" for name, value in chosen.items()]
    return (command(["cmake", "-G", "Ninja", "-S", work, "-B", work / "build", *options], work)
            + command(["ninja", "-C", work / "build", "-j", "2", "-k", "0"], work)
            + execute_product(work / "build" / "product"))


def by_make(core, package, work, *more):
    """All of the package by the Makefile of its example, with a copy of the example elsewhere. A program of this
    machine also runs."""
    shutil.copytree(package / "examples" / "super_loop", work)
    cc, cxx = (package_precompiled.cached(compiler) for compiler in (core.cc, core.cxx))
    said = command(["make", "-k", "-j2", f"PACKAGE={package}", f"CC={cc}", f"CXX={cxx}", f"CFLAGS=-Os {WARNINGS}",
                    f"CXXFLAGS=-Os -std=gnu++20 {WARNINGS}", *more], work)
    return said if core.flags else said + execute_product(work / "product")


# What ESP-IDF would do with a component, as far as the package asks for it.
STAND_IN = """\
cmake_minimum_required(VERSION 3.16)
project(component C CXX)
set(ESP_PLATFORM 1)
set(COMPONENT_LIB component)
function(idf_component_register)
  cmake_parse_arguments(arg "" "" "SRCS;INCLUDE_DIRS" ${{ARGN}})
  add_library(${{COMPONENT_LIB}} STATIC ${{arg_SRCS}})
  target_include_directories(${{COMPONENT_LIB}} PUBLIC ${{arg_INCLUDE_DIRS}})
endfunction()
add_subdirectory({package} package)
"""


def check_component(package, work, count):
    """The branch for ESP-IDF names all sources; nothing is compiled."""
    work.mkdir()
    (work / "CMakeLists.txt").write_text(STAND_IN.format(package=package), encoding="utf-8")
    package_source.run("cmake", "-G", "Ninja", "-S", work, "-B", work / "build")
    named = len(re.findall(r"(?m)^build \S+\.o: ", (work / "build" / "build.ninja").read_text(encoding="utf-8")))
    if named != count:
        raise Failure(f"the component of ESP-IDF has {named} sources, and the package {count}")


def matrix(package, work):
    """(compilers, errors, warnings)"""
    source = package / "src"
    files = package_precompiled.sources_in(source)
    said = {core.name: package_precompiled.compile_all(
        work / core.name, package_precompiled.edges_of(core, files, source, f"-Os {WARNINGS}"), keep_going=True)
        for core in CORES if core != CROSS}
    said[GXX.name] = by_cmake(GXX, package, work / "cmake")
    said[CLANG.name] = by_make(CLANG, package, work / "make")
    said[CROSS.name] = by_make(CROSS, package, work / "cross", f"CPU={CROSS.flags}", f"LDFLAGS={CROSS_LINK}")
    check_component(package, work / "component", len(files))
    counts = [0, 0]
    for name, text in said.items():
        errors, warnings = (len(re.findall(rf"\b{word}: ", text)) for word in ("error", "warning"))
        say(f"{name}: {len(files)} files, {errors} errors, {warnings} warnings")
        counts = [counts[0] + errors, counts[1] + warnings]
        if errors or warnings:
            print("\n".join(line for line in text.splitlines() if re.search(r"\b(error|warning): ", line))[:4000])
    return len(said), *counts


# ---- The one digest, and the build that has lost it ----

def machine(name):
    return next(build for build in digest.BUILDS if build.name == name)


def link(build, objects, program, *more):
    """A program for an emulated board, with the start of tests/digest."""
    start = program.with_suffix(".start.o")
    package_source.run(build.compiler, *digest.COMMON.split(), *build.flags.split(), *digest.CONTRACT_OFF.split(),
                       "-c", f"{digest.START}{build.family}.cc", "-o", start)
    package_source.run(build.compiler, *build.flags.split(), *build.link.split(), start, *objects, *more, "-o", program,
                       *build.libraries.split())
    return program


def execute(build, program):
    """(exit status, output)"""
    try:
        done = subprocess.run([*build.emulator, program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=digest.RUN_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failure(f"{program}: no end after {digest.RUN_SECONDS_MAX} s") from late
    return done.returncode, done.stdout


def core_of(name):
    return next(core for core in CORES if core.name == name)


def digest_of(name, package, work):
    """What the program of ./run digest says, of the package's sources, compiled to fuse."""
    core, build, source = core_of(name), machine(name), package / "src"
    flags = f"-Os {FUSING} -ffunction-sections -fdata-sections"
    own = [source / path for path in digest.SOURCES if path.startswith("runtime/")]
    others = [ROOT / path for path in digest.SOURCES if not path.startswith("runtime/")]
    edges = package_precompiled.edges_of(core, own, source, flags, COMMON_CXX)
    not_fusing = flags.replace(FUSING, digest.CONTRACT_OFF)  # what makes the inputs is no part of the package
    edges += package_precompiled.edges_of(core, others, ROOT, f"{not_fusing} -I{source}", COMMON_CXX, "tree/")
    package_precompiled.compile_all(work / name, edges)
    program = link(build, [work / name / made for made, _, _ in edges], work / f"{name}.elf")
    status, said = execute(build, program)
    found = re.search(r"(?m)^total (\w+)$", said)
    if status != 0 or not found:
        raise Failure(f"{program}: exit status {status}:\n{said}")
    return found[1]


def digests(package, work):
    """How many different digests there are: of this tree and of the package on two processors."""
    digest.compile_all([digest.X86], "source", digest.SOURCES)
    totals = {"tree": digest.hashes_of(digest.X86)["total"]}
    totals |= {name: digest_of(name, package, work) for name in ("cortex-m4f", "rv32imafc")}
    for name, total in totals.items():
        say(f"digest {total}: {name}")
    return len(set(totals.values()))


def check_refusal(name, package, objects, work):
    """An image whose sources forbid nothing, compiled to fuse, is refused. objects: those of the archive, a folder."""
    core, build, source = core_of(name), machine(name), package / "src"
    planted = package_precompiled.edges_of(core, [source / "runtime" / "base" / "fusing.cc"], source,
                                           f"-Os {FUSING} -DGS_TEST_CONTRACTION=1", COMMON_CXX)
    loop = package_precompiled.edges_of(core, [package / "examples" / "super_loop" / "super_loop.c"], package,
                                        f"-Os -std=c11 -I{source}")
    package_precompiled.compile_all(work / name, planted + loop)
    replaced = {objects / "runtime/base/fusing.cc.o", objects / "boards/c_port/assert.cc.o"}  # the start has an assert
    kept = [path for path in sorted(objects.rglob("*.c.o")) + sorted(objects.rglob("*.cc.o")) if path not in replaced]
    program = link(build, [work / name / made for made, _, _ in planted + loop] + kept, work / f"{name}.elf")
    status, said = execute(build, program)
    if status != GS_FUSES:
        raise Failure(f"{name}: gs_init() of an image that fuses answered {status}, not GS_FUSES ({GS_FUSES}): {said}")
    say(f"{name}: an image that fuses is refused by gs_init()")


# ---- The archives ----

def check_archive(core, archive, package, work):
    """A super loop in C11 over the headers in C alone: linked, and run in the emulator."""
    build = machine(core.name)
    work.mkdir(parents=True, exist_ok=True)
    made = work / f"{core.name}.o"
    package_source.run(core.cc, *core.flags.split(), "-Os", "-std=c11", *WARNINGS.split(), "-pedantic", "-Werror",
                       f"-I{package / 'src'}", "-c", package / "examples" / "super_loop" / "super_loop.c", "-o", made)
    status, said = execute(build, link(build, [made], work / f"{core.name}.elf", archive, "-lm"))
    if status != 0:
        raise Failure(f"{core.name}: the super loop over {archive} ended with {status}: {said}")


def archives(path, files, work, version, seconds):
    """Makes the precompiled zip of the source package at path; the most symbols that an archive leaves open."""
    source = unpack(path, work / "sources") / "src"
    made = {core: package_precompiled.make_archive(core, source, work / "objects") for core in CORES if core.folder}
    names = package_precompiled.interface(source)
    counts = {core: package_precompiled.check_symbols(core, archive, names) for core, archive in made.items()}
    second = package_precompiled.make(files, {core.folder: archive for core, archive in made.items()}, path.parent,
                                      version, seconds)
    package = unpack(second, work / "precompiled")
    for core in made:
        archive = package / "src" / core.folder / f"lib{NAME}.a"
        check_archive(core, archive, package, work / "loops")
        text = package_source.run(package_precompiled.binutils(core, "size"), archive).splitlines()[1].split()
        say(f"{core.name}: archive of {text[0]} B text, {int(text[1]) + int(text[2])} B data, {counts[core]} symbols "
            "left open; a super loop in C11 runs over it")
    print(f"package: {second.relative_to(ROOT)}, {second.stat().st_size} bytes")
    return max(counts.values())


def trial(path, files, work, version, seconds):
    """All of it, of the zip at path with these files in it; the words of the result line. Raises Failure."""
    size = path.stat().st_size
    if size > ZIP_BYTES_MAX:
        raise Failure(f"{path.name} has {size} bytes, at most {ZIP_BYTES_MAX}")
    package = unpack(path, work / "trial")
    shutil.rmtree(work / "matrix", ignore_errors=True)
    (work / "matrix").mkdir(parents=True)
    compilers, errors, warnings = matrix(package, work / "matrix")
    if errors or warnings:
        raise Failure(f"the package does not compile everywhere: errors={errors} warnings={warnings}")
    symbols = archives(path, files, work, version, seconds)
    count = digests(package, work / "digest")
    if count != 1:
        raise Failure(f"the package computes otherwise: digests={count}")
    for name in ("cortex-m4f", "rv32imafc"):
        check_refusal(name, package, work / "objects" / name, work / "refused")
    word = package_platformio.trial(path, work)
    return (f"compilers={compilers} errors={errors} warnings={warnings} digests={count} zip_bytes={size} "
            f"archive_symbols={symbols} platformio={word}")
