"""The two programs start on other releases of Debian and Ubuntu than the one that built them: they need no shared
library but those of the compiler and the C library, and none of their symbols is younger than Ubuntu 22.04's.
"""

import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path(os.environ["GS_BUILD_DIR"])
PROGRAMS = (BUILD / "server" / "gradstream", BUILD / "boards" / "posix" / "gradstream-client")
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
# Of each library whose symbols have versions, the version that Ubuntu 22.04 has. It is the oldest of the systems that
# docs/how-to/install.md names.
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
# The C library of the machines that make the packages. A newer one gives its programs newer symbols.
PACKAGING_GLIBC = (2, 36)


def read(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True, text=True,
                          timeout=60).stdout


def numbers(text):
    return tuple(int(number) for number in text.split("."))


def needed_of(program):
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", read("readelf", "--dynamic", program)))


def newest_of(program):
    """library -> the newest version of a symbol that the program asks of it."""
    found = {}
    for library, version in re.findall(r"\(?\b([A-Z]+)_(\d+(?:\.\d+)+)\b", read("objdump", "--dynamic-syms", program)):
        found[library] = max(found.get(library, ()), numbers(version))
    return found


def main():
    own = numbers(os.confstr("CS_GNU_LIBC_VERSION").split()[1])
    for program in PROGRAMS:
        needed, newest = needed_of(program), newest_of(program)
        assert {"libc.so.6", "libstdc++.so.6"} <= needed and "GLIBC" in newest, f"readelf, objdump: {needed} {newest}"
        assert needed <= LIBRARIES, f"{program.name} needs {sorted(needed - LIBRARIES)}, which other systems lack"
        said = " ".join(f"{library}_{'.'.join(map(str, version))}" for library, version in sorted(newest.items()))
        if own > PACKAGING_GLIBC:
            print(f"{program.name}: {said}, not judged: this machine's C library is {'.'.join(map(str, own))}")
            continue
        young = {library: version for library, version in newest.items() if version > NEWEST[library]}
        assert not young, f"{program.name} asks for {young}, and Ubuntu 22.04 has {NEWEST}"
        print(f"{program.name}: {said}")


if __name__ == "__main__":
    main()
