"""The archives for tools/package_source.py: a device as one object for each processor, for toolchains without C++20.

They are compiled from the source package. `ld -r` joins a processor's objects, and drops what the interface in C never
reaches. objcopy makes all other symbols local, so that the program may have an Mbed TLS or a nanopb of its own. A
second zip has them where Arduino's `precompiled=full` looks for them, with the headers in C.
"""

import os
import re
import shutil
import subprocess
from typing import NamedTuple

import digest
import package_source
from package_source import NAME, ROOT, Failure

# Symbols that an archive leaves to the program: its port, the C library and libm. Reason: each is one that a toolchain
# may lack. Routines of the compiler, such as those for floats on a Cortex-M0+, come with the compiler.
SYMBOLS_MAX = 45
COMPILE_SECONDS_MAX = 3600
WARNINGS = "-Wall -Wextra"
COMMON = ("-Os -ffunction-sections -fdata-sections -fno-common -ffp-contract=off -DGS_CONTRACTION_OFF=1 "
          "-DGS_PRECOMPILED=1")
COMMON_CXX = "-fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit -fno-math-errno"


class Core(NamedTuple):
    """A processor and its compiler."""

    name: str         # as tools/digest.py calls its machine
    cc: str
    cxx: str
    flags: str = ""
    folder: str = ""  # of its archive, below src/ of the precompiled package; empty: it has none
    cxx_flags: str = ""


def arm(name, flags, folder=""):
    return Core(name, "arm-none-eabi-gcc", "arm-none-eabi-g++", f"{flags} -mthumb", folder)


def riscv(name, calls):
    return Core(name, "riscv64-unknown-elf-gcc", "riscv64-unknown-elf-g++",
                f"-march={name} -mabi={calls} -mcmodel=medany --specs=picolibc.specs", name, digest.RISCV_CXX)


# Folders of Cortex-M are {build.mcu} of an Arduino core and, where its flags name them, {build.fpu}-{build.float-abi}.
CORES = (
    arm("cortex-m0plus", "-mcpu=cortex-m0plus -mfloat-abi=soft", "cortex-m0plus"),
    arm("cortex-m3", "-mcpu=cortex-m3 -mfloat-abi=soft", "cortex-m3"),
    arm("cortex-m4f", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "cortex-m4/fpv4-sp-d16-hard"),
    arm("cortex-m7", "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16", "cortex-m7/fpv5-d16-hard"),
    arm("cortex-m55", "-mcpu=cortex-m55+nomve -mfloat-abi=hard"),
    riscv("rv32imc", "ilp32"),
    riscv("rv32imafc", "ilp32f"),
)
# What an archive may leave open beside gs_port_*: the C library's, its libm's, the compiler's own.
C_NAMES = set("abort memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp strnlen".split())
LIBM_NAMES = set("acosf acoshf asinf asinhf atan2f atanf atanhf ceilf cosf coshf expf expm1f fabsf floorf fmaxf fminf "
                 "fmodf frexpf ldexpf log1pf logf lroundf powf roundf sinf sinhf sqrt sqrtf tanf tanhf".split())
COMPILER_NAMES = re.compile(r"__(aeabi|gnu_thumb1_case|riscv_(save|restore))_\w+|__[a-z]+([sdt][fi]){1,2}[23]?")


def cached(compiler):
    """The compiler behind ccache, where there is one: what is tried again after a mend compiles the rest from it."""
    return f"ccache {compiler}" if shutil.which("ccache") else compiler


def environment():
    """Of a build with cached() compilers."""
    return dict(os.environ, CCACHE_DIR=str(ROOT / "build" / "ccache"), CCACHE_BASEDIR=str(ROOT), CCACHE_NOHASHDIR="1",
                CCACHE_SLOPPINESS="include_file_mtime,include_file_ctime", LC_ALL="C")


def compile_all(folder, edges, keep_going=False):
    """edges: (object below folder, source, command) of each compilation. What the compilers said; with keep_going a
    line `error: ` ends it where ninja failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = ["rule compile", "  command = $words", "  description = $out"]
    for made, source, words in edges:
        lines += [f"build {made}: compile {source}", f"  words = {words} -c {source} -o {made}"]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(["ninja", "-C", folder, "-j", "2", *(["-k", "0"] if keep_going else [])], env=environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=COMPILE_SECONDS_MAX)
    if done.returncode != 0 and not keep_going:
        raise Failure(f"{folder.name}: the compiler failed:\n{done.stdout[-4000:]}")
    return package_source.with_status(done, "ninja")


def edges_of(core, sources, base, flags, cxx_flags="", prefix=""):
    """The compilations of sources below the folder base; core.cc or core.cxx by the name."""
    edges = []
    for source in sources:
        is_cxx = source.suffix == ".cc"
        own = f"{core.cxx} {core.flags} {core.cxx_flags} -std=gnu++20" if is_cxx else f"{core.cc} {core.flags}"
        words = f"{cached(own)} {flags} {cxx_flags if is_cxx else ''} -I{base}"
        edges.append((f"{prefix}{source.relative_to(base)}.o", source, words))
    return edges


def sources_in(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".cc"))


def interface(headers):
    """Names of the functions and objects that the headers in C declare."""
    names = []
    for name in ("device.h", "port.h"):
        text = re.sub(r"/\*.*?\*/", "", (headers / NAME / name).read_text(encoding="utf-8"), flags=re.S)
        names += re.findall(r"(?m)^[a-z][\w *]*[ *](gs_\w+)\(", text)
        names += re.findall(r"(?m)^extern const \w+ (gs_\w+);", text)
    return names


def binutils(core, name):
    return core.cc.removesuffix("gcc") + name


def run(*words):
    return package_source.run(*words)


def undefined(core, archive):
    return set(re.findall(r"(?m)^\s+[Uw] (\S+)$", run(binutils(core, "nm"), "-u", archive)))


def check_symbols(core, archive, names):
    """How many symbols the archive leaves open that are not the compiler's own. Refuses one that is none of those that
    any toolchain of C has."""
    left = {name for name in undefined(core, archive) if not COMPILER_NAMES.fullmatch(name)}
    known = C_NAMES | LIBM_NAMES | {name for name in names if name.startswith("gs_port_")}
    others = sorted(left - known)
    if others:
        raise Failure(f"{core.name}: the archive wants {' '.join(others)}, which no toolchain of C promises")
    if len(left) > SYMBOLS_MAX:
        raise Failure(f"{core.name}: the archive leaves {len(left)} symbols open, at most {SYMBOLS_MAX}: "
                      f"{' '.join(sorted(left))}")
    shown = run(binutils(core, "nm"), "-g", "--defined-only", archive)
    defined = set(re.findall(r"(?m)^[0-9a-f]+ [A-Z] (\S+)$", shown))
    if defined - set(names):
        raise Failure(f"{core.name}: the archive shows {sorted(defined - set(names))[0]} beside the interface in C")
    return len(left)


def make_archive(core, source, work):
    """src/ of the unpacked source package to libgradstream.a of this processor; its path."""
    folder = work / core.name
    edges = edges_of(core, sources_in(source), source, f"{COMMON} -ffile-prefix-map={source}/=", COMMON_CXX)
    compile_all(folder, edges)
    names = interface(source)
    joined, kept, archive = folder / f"{NAME}.o", folder / "interface.txt", folder / f"lib{NAME}.a"
    kept.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    roots = [f"-Wl,-u,{name}" for name in names]
    machine = [word for word in core.flags.split() if not word.startswith("--specs")]  # which bring a program's script
    run(core.cc, *machine, "-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,--force-group-allocation", *roots,
        *(folder / made for made, _, _ in edges), "-o", joined)
    run(binutils(core, "objcopy"), f"--keep-global-symbols={kept}", joined)
    run(binutils(core, "ar"), "rcsD", archive, joined)
    return archive


def headers(source_files):
    """Places in the package of the interface in C and of all that it includes there, such as the configuration."""
    found, waiting = set(), [f"src/{NAME}.h"]
    while waiting:
        place = waiting.pop()
        if place in source_files and place not in found:  # else it is the compiler's
            found.add(place)
            waiting += [f"src/{quoted or angled}"
                        for _, quoted, angled in package_source.INCLUDE.findall(source_files[place])]
    return found


def make(source_files, archives, out, version, seconds):
    """source_files: of the source package; archives: folder -> path. Writes the second zip; its path."""
    kept = {"README.md", "LICENSE", "examples/super_loop/super_loop.c"} | headers(source_files)
    files = {name: text for name, text in source_files.items() if name in kept or name.startswith("licences/")}
    files["library.properties"] = source_files["library.properties"] + f"precompiled=full\nldflags=-l{NAME}\n"
    files |= {f"src/{folder}/{path.name}": path.read_bytes() for folder, path in archives.items()}
    path = out / f"{NAME}-{version}-precompiled.zip"
    package_source.write(path, files, seconds)
    return path
