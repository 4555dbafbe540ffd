"""The Debian package of the library, as docs/how-to/library.md makes it: its files are those of the tree and of the
build, all of one time, at paths and names that an Mbed TLS of the system does not have. What its headers include is
there, no folder is empty, and the documents' links lead somewhere. Unpacked into a folder, it serves the projects of
tests/consume that have find_package() and pkg-config, and these run. Nothing is installed. What it depends on follows
from the symbols that its archives leave open, and no file tells where it was built.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "consume")]
import consume_test  # noqa: E402
import fleet  # noqa: E402
import package  # noqa: E402  the tool under test
import package_library  # noqa: E402
import package_needs  # noqa: E402

SECONDS_MAX = 60
ARCHIVES = {f"libgs_{name}.a" for name in ("firmware", "c_port", "board_posix", "host", "link", "tls", "wire",
                                           "runtime", "proto")}
ARCHIVES |= {f"libgradstream_{name}.a" for name in ("mbedtls", "mbedx509", "mbedcrypto")}
CMAKE_FILES = {"gradstreamConfig.cmake", "gradstreamConfigVersion.cmake", "gradstreamTargets.cmake",
               "gradstreamTargets-relwithdebinfo.cmake"}
HEADER_FOLDERS = ("include", "runtime", "firmware", "boards/posix", "host")  # which keep their path
MADE_HEADERS = {"proto/gradstream.pb.h", "gradstream_mbedtls_config.h", "pb.h", "pb_common.h", "pb_decode.h",
                "pb_encode.h"}


def read(*words):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=True, timeout=SECONDS_MAX).stdout


def headers():
    """Below the folder of the release."""
    mbedtls = ROOT / "third_party" / "mbedtls" / "include"
    return (MADE_HEADERS | {path.relative_to(mbedtls).as_posix() for path in mbedtls.rglob("*.h")}
            | {path.relative_to(ROOT).as_posix() for folder in HEADER_FOLDERS
               for path in (ROOT / folder).rglob("*.h")}) - {"firmware/self_test.h"}


def wanted_files():
    return {f"usr/include/gradstream-{package.version()}/{name}" for name in headers()} | {
        *(f"usr/lib/gradstream/{name}" for name in ARCHIVES),
        *(f"usr/lib/cmake/gradstream/{name}" for name in CMAKE_FILES),
        "usr/lib/pkgconfig/gradstream.pc", *package_library.contents()}


def check_package(path):
    fields = dict(line.split(": ", 1) for line in read("dpkg-deb", "--field", path).splitlines() if line[0] != " ")
    assert fields["Package"] == "libgradstream-dev" and fields["Version"] == package.version(), fields
    assert fields["Architecture"] == "amd64" and fields["Section"] == "libdevel", fields
    libc, libstdcxx = fields["Depends"].split(", ")
    assert re.fullmatch(r"libc6-dev \(>= 2\.\d+\)", libc), fields
    assert re.fullmatch(r"libstdc\+\+-\d+-dev \| g\+\+ \(>= 4:\d+\)", libstdcxx), fields
    found, folders, times = set(), set(), set()
    for line in read("dpkg-deb", "--contents", path).splitlines():
        mode, owner, _, date, time, name = line.split(None, 5)
        assert owner == "root/root" and mode in ("drwxr-xr-x", "-rw-r--r--"), line
        times.add((date, time))
        if mode[0] == "-":
            found.add(name[2:])
        else:
            folders.add(name[2:].rstrip("/"))
    wanted = wanted_files()
    assert found == wanted, f"lacking: {sorted(wanted - found)}, unknown: {sorted(found - wanted)}"
    empty = folders - {str(parent) for name in found for parent in pathlib.PurePosixPath(name).parents} - {""}
    assert not empty, f"empty folders: {sorted(empty)}"
    assert len(times) == 1, f"the times of the build are in it: {sorted(times)}"


def check_documents(folder):
    for words in ("Frank Denis", "Petteri Aimonen"):
        assert words in (folder / "copyright").read_text(encoding="utf-8"), words
    for path in folder.rglob("*.md"):
        prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\((?!\w+:)([^)#]+)", prose):
            assert (path.parent / link).is_file(), f"{path.name} links to {link}, which is not in the package"
    listed = json.loads((folder / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert {entry["name"] for entry in listed["components"]} == {"Mbed TLS", "nanopb", "libsodium"}, listed


def check_includes(folder):
    """Our headers name their includes from the folder of the release, and each is there."""
    for path in (path for place in HEADER_FOLDERS for path in (folder / place).rglob("*.h")):
        for name in re.findall(r'(?m)^#include "([^"]+)"', path.read_text(encoding="utf-8")):
            assert (folder / name).is_file(), f"{path.relative_to(folder)} includes {name}, which is not in the package"


def check_paths(folder):
    """Assertions say their files from the root of the tree, on whichever machine the archives were made."""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for place in {str(ROOT), str(fleet.BUILD.resolve())}:
                assert place.encode() not in content, f"{path.relative_to(folder)} tells where it was built: {place}"


def archive_of(folder, name, text):
    """One of this source."""
    source, made = folder / name, folder / f"{name}.a"
    source.write_text(text, encoding="ascii")
    read("g++" if name.endswith("cc") else "gcc", "-c", source, "-o", folder / f"{name}.o")
    read("ar", "rcs", made, folder / f"{name}.o")
    return made


def check_needs(folder):
    """By symbols whose first release is known: arc4random() is of glibc 2.36, from_chars() of floats of GCC 11."""
    folder.mkdir()
    old = archive_of(folder, "old.c", "int gs_port_read(void);\nint f(void) { return gs_port_read(); }\n")
    new = archive_of(folder, "new.c", "#include <stdlib.h>\nunsigned g(void) { return arc4random(); }\n")
    cxx = archive_of(folder, "cxx.cc", "#include <charconv>\nint f();\nint h(const char* a, double& x) {\n"
                     "  return f() + (std::from_chars(a, a + 1, x).ptr == a);\n}\nint f() { return 1; }\n")
    other = archive_of(folder, "other.c", "int sodium_init(void);\nint f(void) { return sodium_init(); }\n")
    compiler = read("g++", "-dumpversion").strip().partition(".")[0]
    for archives, libc, gcc in (([old], "2.0", "10"), ([old, new], "2.36", "10"), ([cxx], r"2\.\d+", "11")):
        words = package_needs.depends(archives, "gs_port_")
        wanted = rf"libc6-dev \(>= {libc}\), libstdc\+\+-{compiler}-dev \| g\+\+ \(>= 4:{gcc}\)"
        assert re.fullmatch(wanted, words), (archives, words)
    for archives, callbacks, name in (([other], "gs_port_", "sodium_init"), ([old], "", "gs_port_read")):
        try:
            package_needs.depends(archives, callbacks)
        except RuntimeError as refused:
            assert name in str(refused), refused
        else:
            raise AssertionError(f"{name} is in no library that the package names")


def check_projects(prefix, work):
    """One by CMake and one by make, whose linker first finds archives under the names of Debian's libmbedtls-dev."""
    shutil.copytree(consume_test.HERE, work)
    assert consume_test.find_package(prefix, work).keys() == consume_test.PROBES
    others = work / "others"
    others.mkdir()
    for name in ("mbedtls", "mbedx509", "mbedcrypto"):
        read("ar", "rcs", others / f"lib{name}.a")
    consume_test.pkg_config(prefix, work, f"CC=cc -L{others}")


def main():
    path = package.OUT / f"libgradstream-dev_{package.version()}_amd64.deb"
    read(sys.executable, "-B", ROOT / "tools" / "package.py", "library")
    with tempfile.TemporaryDirectory(prefix="gradstream-library-") as name:
        folder = pathlib.Path(name)
        check_package(path)
        read("dpkg-deb", "--extract", path, folder / "root")
        check_documents(folder / "root" / "usr" / "share" / "doc" / "libgradstream-dev")
        check_includes(folder / "root" / "usr" / "include" / f"gradstream-{package.version()}")
        check_paths(folder / "root")
        check_needs(folder / "needs")
        check_projects(folder / "root" / "usr", folder / "work")
    print(f"package_library: {path.stat().st_size} bytes, {len(wanted_files())} files")


if __name__ == "__main__":
    main()
