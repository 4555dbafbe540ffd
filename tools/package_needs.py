"""What archives need of a machine on which programs are linked with them: the Depends of a package that holds them.

An archive names no library. Its open symbols say what it needs, by the versions that the libraries of the machine that
compiled it give to these symbols.
"""

import re
import subprocess

# The first release of GCC whose libstdc++ has a version of its symbols, from GCC 5 on: GLIBCXX_3.4.N and CXXABI_1.3.N.
LIBSTDCXX = {("GLIBCXX", 21): 5, ("GLIBCXX", 22): 6, ("GLIBCXX", 23): 7, ("GLIBCXX", 24): 7, ("GLIBCXX", 25): 8,
             ("GLIBCXX", 26): 9, ("GLIBCXX", 27): 9, ("GLIBCXX", 28): 9, ("GLIBCXX", 29): 11, ("GLIBCXX", 30): 12,
             ("CXXABI", 9): 5, ("CXXABI", 10): 6, ("CXXABI", 11): 7, ("CXXABI", 12): 9, ("CXXABI", 13): 11}
OLDEST = {"GLIBCXX": 20, "CXXABI": 8}  # versions up to here are older than GCC 5
# The headers of the C++ side include <span> and <concepts>, which libstdc++ has from this release of GCC on.
HEADERS_NEED = 10
LINKER_NAMES = {"_GLOBAL_OFFSET_TABLE_", "__dso_handle"}
SECONDS_MAX = 60


def _read(*words):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True, timeout=SECONDS_MAX).stdout


def _file_of_compiler(name):
    return _read("gcc", f"-print-file-name={name}").strip()


def open_symbols(archives):
    """The names that the archives want and none of them defines. Weak ones are not wanted."""
    wanted, defined = set(), set()
    for archive in archives:
        for name, kind in re.findall(r"(?m)^(\S+) (\w)(?: |$)", _read("nm", "-P", archive)):
            if kind == "U":
                wanted.add(name)
            elif kind not in "vw":
                defined.add(name)
    return wanted - defined - LINKER_NAMES


def _versions(library):
    """name -> its version, such as GLIBC_2.34, of what a program is linked with today."""
    return dict(re.findall(r"(?m)^\S+ \w (\S+)@@(\S+)$", _read("nm", "-D", "--with-symbol-versions", library)))


def release_of(version):
    """The first GCC of a symbol's version in libstdc++. RuntimeError: the table above does not know it."""
    family, number = re.fullmatch(r"(\w+?)_[\d.]*?(\d+)", version).groups()
    if int(number) <= OLDEST.get(family, -1):
        return 0
    if (family, int(number)) not in LIBSTDCXX:
        raise RuntimeError(f"no libstdc++ is known to have {version}: add it to LIBSTDCXX in tools/package_needs.py")
    return LIBSTDCXX[family, int(number)]


def depends(archives, callbacks=""):
    """Packages of Debian by which a program is linked with the archives. callbacks: how the names begin that the
    program defines. RuntimeError: a symbol is in no library of them.

    libstdc++ has a package for each release of GCC. Named are that of the compiler at work, and in its place any
    release from the one on that archives and headers need: g++ brings the newest.
    """
    libc = {**_versions(_file_of_compiler("libm.so.6")), **_versions(_file_of_compiler("libc.so.6"))}
    libstdcxx = _versions(_file_of_compiler("libstdc++.so.6"))
    with_every_compiler = set(re.findall(r"(?m)^(\S+) [A-Z] ", _read("nm", "-P", _file_of_compiler("libgcc.a"))))
    wanted = open_symbols(archives)
    unknown = sorted(name for name in wanted - libc.keys() - libstdcxx.keys() - with_every_compiler
                     if not (callbacks and name.startswith(callbacks)))
    if unknown:
        raise RuntimeError(f"the archives want {' '.join(unknown)}, which is in no library of C or C++: install the "
                           "archive that has it too, or name its package in tools/package_needs.py")
    newest = max((tuple(map(int, re.findall(r"\d+", libc[name]))) for name in wanted & libc.keys()), default=(2, 0))
    release = max((release_of(libstdcxx[name]) for name in wanted & libstdcxx.keys() - libc.keys()), default=0)
    compiler = _read("g++", "-dumpversion").strip().partition(".")[0]
    return (f"libc6-dev (>= {'.'.join(map(str, newest))}), "
            f"libstdc++-{compiler}-dev | g++ (>= 4:{max(release, HEADERS_NEED)})")
