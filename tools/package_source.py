"""The source package for tools/package.py: all that a device is made of in one zip, for builds that are not this one.

Nothing here lists a source. The bare-metal build is configured, and CMake's file API says which sources the library of
a device has, with those of Mbed TLS and nanopb. What these include comes with them. A build passes definitions;
src/gradstream_config.h has them instead, and a definition that it lacks is refused here. Includes are written so
that src/ alone is the path of headers.

LEFT_OUT names each source that the package goes without, and why. tools/source_package/ has what only the package has.
"""

import json
import pathlib
import re
import subprocess

import package_python

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN_FILES = ROOT / "tools" / "source_package"
EXAMPLE = ROOT / "tests" / "consume" / "super_loop.c"
THIRD_PARTY = ROOT / "third_party"
MBEDTLS, NANOPB = THIRD_PARTY / "mbedtls", THIRD_PARTY / "nanopb"
SODIUM = THIRD_PARTY / "libsodium" / "src" / "libsodium"
SOCKETS = ROOT / "boards" / "sockets"
NAME = "gradstream"  # the folder in the zip, and the library for those who look for one
CONFIG = "gradstream_config.h"
CONFIGURE_SECONDS_MAX = 120

LIBRARIES = ("gs_firmware", "gs_c_port")  # what a program in C links; the rest is what these depend on
LEFT_OUT = {
    "firmware/client_main.cc": "the main loop of this tree's images",
    "firmware/console.cc": "the console of these images",
    "firmware/shell.cc": "the commands of that console",
    "firmware/shard.cc": "how these images find samples in flash; an application hands its own to gs_init()",
    "firmware/float_shard.cc": "the same, of floats",
    "firmware/flash_network.cc": "how these images find a network in flash",
}
# Definitions of the build: where the package has them, or why it needs none.
DEFINITIONS = {
    "GS_BARE_METAL": CONFIG, "PB_BUFFER_ONLY": CONFIG, "PB_NO_ERRMSG": CONFIG,
    "GS_CONTRACTION_OFF": "without it the pragma of runtime/base/no_contraction.h stands in each source",
    "MBEDTLS_CONFIG_FILE": "mbedtls/mbedtls_config.h is that file, and the name that Mbed TLS looks for by itself",
    "GS_VERSION": "of firmware/client_main.cc, which is left out",
}
LICENCES = {"mbedtls": "LICENSE", "nanopb": "LICENSE.txt", "libsodium": "LICENSE"}  # of the folders of third_party

INCLUDE = re.compile(r'(?m)^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)')
READS_CONFIG = re.compile(r"(?m)^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b.*\b(?:GS_\w+|PB_BUFFER_ONLY|PB_NO_ERRMSG)\b")
PSA_CONFIG = "#define MBEDTLS_PSA_CRYPTO_CONFIG_FILE MBEDTLS_CONFIG_FILE"


class Failure(Exception):
    """What is wrong, with the remedy."""


def run(*words):
    done = subprocess.run([str(word) for word in words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=CONFIGURE_SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"{words[0]} failed with exit status {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def with_status(done, program):
    """What a finished build said, with a line `error: ` where it failed: a compiler that is missing says none."""
    failed = f"\nerror: {program} failed with exit status {done.returncode}\n" if done.returncode != 0 else ""
    return done.stdout + failed


def configure(build):
    """Configures the libraries for a Cortex-M in the folder build, and has the messages' code made."""
    query = build / ".cmake" / "api" / "v1" / "query" / "codemodel-v2"
    query.parent.mkdir(parents=True, exist_ok=True)
    query.touch()
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DGS_CPU_FLAGS=-mcpu=cortex-m3",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchain_arm_none_eabi.cmake")
    run("ninja", "-C", build, "generated/proto/gradstream.pb.c")


class Library:
    """A library of the build, as CMake's file API tells it."""

    def __init__(self, described):
        self.name = described["name"]
        self.needs = [needed["id"] for needed in described.get("dependencies", ())]
        self.sources = [(ROOT / source["path"]).resolve() for source in described["sources"]
                        if "compileGroupIndex" in source]
        self.definitions = {definition["define"].partition("=")[0] for group in described.get("compileGroups", ())
                            for definition in group.get("defines", ())}


def libraries(build):
    """[Library] of what a device is made of, those of LIBRARIES and what they depend on, by the configured build."""
    reply = build / ".cmake" / "api" / "v1" / "reply"

    def read(name):
        return json.loads((reply / name).read_text(encoding="utf-8"))

    index = read(max(path.name for path in reply.glob("index-*.json")))
    model = read(index["reply"]["codemodel-v2"]["jsonFile"])
    files = {target["id"]: target["jsonFile"] for target in model["configurations"][0]["targets"]}
    waiting = [target["id"] for target in model["configurations"][0]["targets"] if target["name"] in LIBRARIES]
    found = {}
    while waiting:
        number = waiting.pop()
        if number not in found:
            described = read(files[number])
            found[number] = Library({**described, "sources": described.get("sources", [])})
            waiting += found[number].needs
    return sorted((library for library in found.values() if library.sources), key=lambda library: library.name)


def check_definitions(found):
    """Refuses a definition of the build that the package does not know: its sources would be compiled otherwise."""
    for library in found:
        unknown = library.definitions - set(DEFINITIONS)
        if unknown:
            raise Failure(f"{library.name} is compiled with {sorted(unknown)[0]}: src/{CONFIG} must have it, "
                          "and DEFINITIONS in tools/package_source.py says so")


class Gatherer:
    """Files of the tree and of a configured build, at their places in the package."""

    def __init__(self, build):
        build = build.resolve()
        drivers = build / "mbedtls_drivers"  # copies of Mbed TLS's files that call X25519
        # A folder's place; the first that holds a file counts.
        self.places = [(build / "generated", ""), (drivers, "mbedtls_library"), (MBEDTLS / "include", ""),
                       (MBEDTLS / "library", "mbedtls_library"), (MBEDTLS / "3rdparty", "mbedtls_3rdparty"),
                       (NANOPB, ""), (SODIUM, "libsodium"), (ROOT / "cmake", "x25519"), (ROOT / "include", ""),
                       (ROOT, "")]
        self.roots = (ROOT, ROOT / "include", build / "generated", drivers, MBEDTLS / "include", MBEDTLS / "library",
                      NANOPB, SODIUM, SODIUM / "include" / "sodium")
        self.swapped = {MBEDTLS / "include" / "mbedtls" / "mbedtls_config.h": ROOT / "cmake" / "mbedtls_config_board.h"}
        self.files = {}    # path below src/ -> text
        self.origins = {}  # path below src/ -> where it comes from

    def place(self, path, is_included=False):
        """Where a file goes, below src/. A .c file that others include must not be compiled by itself."""
        if path in self.swapped.values():
            return next(f"mbedtls/{old.name}" for old, new in self.swapped.items() if new == path)
        folder, below = next((folder, below) for folder, below in self.places if path.is_relative_to(folder))
        to = pathlib.PurePosixPath(below) / path.relative_to(folder).as_posix()
        return str(to.with_suffix(".inc") if is_included and path.suffix == ".c" else to)

    def find(self, name, quoted, path):
        """The file that an include of `path` names; None: it is the compiler's, or no build of ours has it."""
        for root in ((path.parent,) if quoted else ()) + self.roots:
            found = (root / name).resolve()
            if found.is_file():
                return self.swapped.get(found, found)
        return None

    def add(self, path, is_included=False):
        """Takes a file and all that it includes; its place."""
        to = self.place(path, is_included)
        if self.origins.setdefault(to, path) != path:
            raise Failure(f"{path} and {self.origins[to]} both want to be src/{to}: see the places in "
                          "tools/package_source.py")
        if to in self.files:
            return to
        self.files[to] = ""  # a header may include itself by way of others
        text = path.read_text(encoding="utf-8")

        def rewritten(match):
            name = match[2] or match[3]
            found = self.find(name, match[2] is not None, path)
            if found is None:
                return match[0]
            at = self.add(found, is_included=True)
            near = str(pathlib.PurePosixPath(to).parent / name)
            return match[0] if at in (name, near if match[2] else name) else f'{match[1]}"{at}"'

        text = INCLUDE.sub(rewritten, text)
        if path in self.swapped.values():
            if text.count(PSA_CONFIG) != 1:
                raise Failure(f"{path} does not say `{PSA_CONFIG}` once")
            text = text.replace(PSA_CONFIG, PSA_CONFIG.replace(" MBEDTLS_CONFIG_FILE", f' "{to}"'))
        self.files[to] = f'#include "{CONFIG}"\n{text}' if READS_CONFIG.search(text) else text
        return to


def is_left_out(path):
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).as_posix() in LEFT_OUT


def missing(found, places):
    """Sources of these libraries that stand at no place of the package and are not named as left out."""
    return [path for library in found for path in library.sources if path not in places and not is_left_out(path)]


def check_left_out(found):
    """Refuses what LEFT_OUT names in vain."""
    sources = {path.relative_to(ROOT).as_posix() for library in found for path in library.sources
               if path.is_relative_to(ROOT)}
    for name in sorted(set(LEFT_OUT) - sources):
        raise Failure(f"{name} is left out by tools/package_source.py, and no library of a device has it: take it out")


def own_files(version):
    """path in the package -> text, of what only the package has."""
    files = {path.relative_to(OWN_FILES).as_posix(): path.read_text(encoding="utf-8").replace("@VERSION@", version)
             for path in sorted(OWN_FILES.rglob("*")) if path.is_file() and "__pycache__" not in path.parts}
    files["examples/super_loop/super_loop.c"] = EXAMPLE.read_text(encoding="utf-8")
    return files


def licences(origins):
    """path in the package -> text: that of gradstream, and of each folder of third_party that a file comes from."""
    files = {"LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8")}
    inside = {path.relative_to(THIRD_PARTY).parts[0] for path in origins if path.is_relative_to(THIRD_PARTY)}
    for name in sorted(inside):
        if name not in LICENCES:
            raise Failure(f"third_party/{name} goes into the source package: name its licence in "
                          "tools/package_source.py and in docs/licences.md")
        files[f"licences/{name}.txt"] = (THIRD_PARTY / name / LICENCES[name]).read_text(encoding="utf-8")
    return files


def gather(build, version):
    """path in the package -> text, of a build that configure() made."""
    found = libraries(build)
    check_definitions(found)
    check_left_out(found)
    gatherer = Gatherer(build)
    for library in found:
        for path in library.sources:
            if not is_left_out(path):
                gatherer.add(path)
    for path in sorted((ROOT / "include" / "gradstream").glob("*.h")):
        gatherer.add(path)
    lacking = missing(found, set(gatherer.origins.values()))
    if lacking:
        raise Failure(f"{lacking[0]} is a source of the library, and the package lacks it")
    link = gatherer.add(SOCKETS / "link.c")
    gatherer.add(SOCKETS / "sockets.h")
    files = {f"src/{to}": text for to, text in gatherer.files.items()}
    files["sockets/link.c"] = files.pop(f"src/{link}")  # a build compiles all of src/, and a program may have a link
    for to, text in (own_files(version) | licences(gatherer.origins.values())).items():
        if to in files:
            raise Failure(f"{to} stands in tools/source_package, and in the tree at the same place")
        files[to] = text
    return files


def write(path, files, seconds):
    """Writes path in the package -> text or bytes as a zip with one folder in it. The same bytes for the same files."""
    content = {f"{NAME}/{name}": (text.encode() if isinstance(text, str) else text, 0o644)
               for name, text in sorted(files.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    package_python.write(path, content, seconds)


def make(work, out, version, seconds):
    """Configures in the folder work, and writes the zip to the folder out; its path, and what is in it."""
    configure(work / "list")
    files = gather(work / "list", version)
    path = out / f"{NAME}-{version}.zip"
    write(path, files, seconds)
    return path, files
