"""./run package [ARCHITECTURE|server|engine|library|python|image|source...]: Debian packages of the Linux client, the
server and the library for applications, and a wheel for Python, in build/package; the server's image for containers;
the sources of a device for other builds.
`./run package sign --key FILE` signs what stands there, and `./run package verify --public FILE` proves it.

The client's are named by their architecture: arm64 and armhf are for the Raspberry Pi, and armv6 is armhf's for the
first Pi, Zero and Zero W. boards/posix/README.md says how to install one, boards/posix/debian holds its unit,
configuration and scripts. The server's is for amd64 (docs/how-to/install.md, operations/debian), and so is the image
(docs/how-to/container.md, operations/container). So is the library (docs/how-to/library.md, cmake/install.cmake), and
so is the program that links libpq (docs/how-to/engine.md). The
wheel has both programs, the simulator and a module, for x86-64 (docs/python.md, python/). The sources are one zip, and
a second one has them compiled for microcontrollers; both are tried on every compiler here, which takes minutes
(docs/how-to/source_package.md, tools/source_package).
"""

import argparse
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import digest
import digits
import fleet
import package_documents
import package_engine
import package_image
import package_library
import package_python
import package_sbom
import package_server
import package_sign
import package_source
import package_source_trial
from package_documents import version

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN = ROOT / "boards" / "posix" / "debian"
OUT = ROOT / "build" / "package"
NAME = "gradstream-client"
MAINTAINER = "gradstream <gradstream@localhost>"
SERVER = "server"
LIBRARY = "library"
PYTHON = "python"
IMAGE = "image"  # only when it is asked for: it takes buildah and root
ENGINE = "engine"  # only when it is asked for: it takes libpq
SOURCE = "source"  # the same: it tries what it has made, for minutes
SIGN, VERIFY = "sign", "verify"


class Target(NamedTuple):
    preset: str
    tools: str  # prefix of its binutils
    architecture: str  # as Debian calls it
    is_static: bool = False


TARGETS = {"amd64": Target("dev", "", "amd64"), "arm64": Target("rpi-arm64", "aarch64-linux-gnu-", "arm64"),
           "armhf": Target("rpi-armhf", "arm-linux-gnueabihf-", "armhf"),
           # What dpkg of Raspberry Pi OS installs is armhf, whatever processor the code is for.
           "armv6": Target("rpi-armv6", "arm-linux-gnueabi-", "armhf", is_static=True)}
DEFAULT = [*TARGETS, SERVER, LIBRARY, PYTHON]  # without a name on the command line
# The first libstdc++6 of Debian that has a version of its symbols.
LIBSTDCXX = {21: "5.2", 22: "6", 23: "7", 24: "7", 25: "8", 26: "9", 27: "9", 28: "9", 29: "11", 30: "12"}
DESCRIPTION = """\
federated learning: the device's client
 Trains a model on a device's own data and sends gradient streams to an
 aggregation server over TLS 1.3. The unit gradstream-client.service runs it
 once /etc/gradstream/identity is there."""


class Failure(Exception):
    """What went wrong, with the remedy."""


def run(*words):
    done = subprocess.run([str(word) for word in words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{words[0]} failed with exit status {done.returncode}:\n{done.stdout}")
    return done.stdout


def depends(target, program):
    """What the program's symbols ask of the system's libraries; nothing of a program that has them inside."""
    if target.is_static:
        return "adduser"
    text = run(f"{target.tools}objdump", "-T", program)
    libc = max((tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d+\.\d+)", text)))
    cxx = max(int(found) for found in re.findall(r"GLIBCXX_3\.4\.(\d+)", text))
    if cxx not in LIBSTDCXX:
        raise Failure(f"no libstdc++6 is known to have GLIBCXX_3.4.{cxx}: add it to LIBSTDCXX in tools/package.py")
    return f"libc6 (>= {libc[0]}.{libc[1]}), libgcc-s1, libstdc++6 (>= {LIBSTDCXX[cxx]}), adduser"


def put(path, content, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def copyrights(target):
    text = (b"gradstream and Mbed TLS: Apache-2.0, /usr/share/common-licenses/Apache-2.0.\n"
            b"libsodium: ISC, nanopb: Zlib, CLI11: BSD-3-Clause:\n" + package_documents.licences("libcli11-dev"))
    if target.is_static:
        text += (b"\nThe program also has the GNU C library in it: LGPL-2.1, /usr/share/common-licenses/LGPL-2.1.\n"
                 b"It has GCC's libraries in it: GPL-3 with the GCC Runtime Library Exception.\n"
                 b"Both are those of Debian's cross compiler for armel.\n"
                 b"`./run package armv6` in the sources links the program anew.\n")
    return text


def fill(tree, kind):
    """The package's tree, with its DEBIAN folder."""
    target = TARGETS[kind]
    program = tree / "usr" / "bin" / NAME
    program.parent.mkdir(parents=True)
    run(f"{target.tools}strip", "-o", program, ROOT / "build" / target.preset / "boards" / "posix" / NAME)
    program.chmod(0o755)
    put(tree / "lib" / "systemd" / "system" / f"{NAME}.service", (DEBIAN / f"{NAME}.service").read_bytes())
    put(tree / "etc" / "gradstream" / "client.conf", (DEBIAN / "client.conf").read_bytes())
    share = tree / "usr" / "share"
    put(share / "man" / "man1" / f"{NAME}.1.gz", gzip.compress((DEBIAN / f"{NAME}.1").read_bytes(), mtime=0))
    put(share / "bash-completion" / "completions" / NAME, (DEBIAN / f"{NAME}.bash").read_bytes())
    documents = share / "doc" / NAME
    pages = package_documents.gather("boards/posix/README.md", "docs/data.md", "docs/use_model.md",
                                    "docs/how-to/power.md", "docs/trust.md")
    for name, content in pages.items():
        put(documents / name, content)
    (documents / "examples").mkdir()
    pixels, mean = digits.shards(1)
    digits.write_shard(documents / "examples" / "digits.gsd", pixels[0], mean)
    (documents / "examples" / "digits.gsd").chmod(0o644)
    put(documents / "sbom.cdx.json", package_sbom.render(package_sbom.CLIENT))
    put(documents / "copyright", copyrights(target))
    put(documents / "changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    control = {"Package": NAME, "Version": version(), "Architecture": target.architecture, "Maintainer": MAINTAINER,
               "Installed-Size": (size + 1023) // 1024, "Depends": depends(target, program), "Section": "science",
               "Priority": "optional", "Description": DESCRIPTION}
    put(tree / "DEBIAN" / "control", "".join(f"{key}: {value}\n" for key, value in control.items()).encode())
    put(tree / "DEBIAN" / "conffiles", b"/etc/gradstream/client.conf\n")
    for script in ("postinst", "prerm", "postrm"):
        put(tree / "DEBIAN" / script, (DEBIAN / script).read_bytes(), 0o755)


def build(preset, *programs):
    if preset != "dev" or "GS_BUILD_DIR" not in os.environ:  # else a test, whose tree is built
        fleet.build(preset, *programs)


def source_time():
    """Seconds of the newest commit or, of a tree without git or outside a repository, of its change log."""
    try:
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        if done.returncode == 0 and (ROOT / ".git").exists():  # else the folder lies in a repository of its user's
            return int(done.stdout)
    except FileNotFoundError:
        pass
    return int((ROOT / "CHANGELOG.md").stat().st_mtime)


def list_components(program):
    """Writes what is inside the program beside its package, for who reads it before installing."""
    put(OUT / f"{program}_{version()}.cdx.json", package_sbom.render(program))


def make_image():
    """Builds both programs and the image; the archive's path."""
    build("dev", package_server.NAME)
    build("dev", NAME)
    path = OUT / f"{package_server.NAME}_{version()}_{package_server.ARCHITECTURE}.oci.tar"
    OUT.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(source_time()))
    package_image.make(OUT / IMAGE, path, version(), put, run)
    list_components(package_server.NAME)
    return path


def make_source():
    """Writes both zips and tries them; the path of the first, and the words of the result line."""
    build("dev", package_server.NAME, NAME)
    work = ROOT / "build" / SOURCE
    path, files = package_source.make(work, OUT, version(), source_time())
    return path, package_source_trial.trial(path, files, work, version(), source_time())


def make(kind):
    """Builds the program and the package; the package's path."""
    if kind == IMAGE:
        return make_image()
    tree = OUT / kind
    shutil.rmtree(tree, ignore_errors=True)
    if kind == PYTHON:
        build("dev", *package_python.TARGETS)
        wheel = package_python.make(tree, OUT, version(), source_time(), run)
        shutil.rmtree(tree)
        return wheel
    if kind == SERVER:
        build("dev", package_server.NAME)
        package_server.fill(tree, version(), MAINTAINER, put, run)
        package = OUT / f"{package_server.NAME}_{version()}_{package_server.ARCHITECTURE}.deb"
    elif kind == ENGINE:
        build("dev", package_engine.NAME)
        package_engine.fill(tree, version(), MAINTAINER, put, run)
        package = OUT / f"{package_engine.NAME}_{version()}_{package_server.ARCHITECTURE}.deb"
    elif kind == LIBRARY:
        build("dev", package_library.TARGET)
        package_library.fill(tree, version(), MAINTAINER, put, run)
        package = OUT / f"{package_library.NAME}_{version()}_{package_library.ARCHITECTURE}.deb"
    else:
        build(TARGETS[kind].preset, NAME)
        fill(tree, kind)
        package = OUT / f"{NAME}_{version()}_{kind}.deb"
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    # The same bytes for the same sources: dpkg-deb takes the times of files that are newer from here.
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(source_time()))
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, package)
    shutil.rmtree(tree)
    if kind != ENGINE:  # it is the server's code, and libpq
        list_components({SERVER: package_server.NAME, LIBRARY: package_library.NAME}.get(kind, NAME))
    return package


def make_all(kinds):
    """Makes the packages; the words of the result line."""
    known, packages, tried = [*DEFAULT, ENGINE, IMAGE, SOURCE], [], ""
    for kind in kinds or DEFAULT:
        if kind not in known:
            raise Failure(f"unknown package {kind} (known: {' '.join(known)})")
        if kind == SOURCE:
            path, tried = make_source()
        else:
            path = make(kind)
        packages.append(path)
        print(f"package: {path.relative_to(ROOT)}, {path.stat().st_size} bytes")
    if kinds == [SOURCE]:
        return tried
    return f"packages={len(packages)} version={version()} {tried}".strip()


def main():
    parser = argparse.ArgumentParser(prog="./run package", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("package", nargs="*",
                        help=f"{', '.join(DEFAULT)}; all of them otherwise; {ENGINE}; {IMAGE}; {SOURCE}; "
                        f"or {SIGN}, or {VERIFY}")
    parser.add_argument("--key", type=pathlib.Path, metavar="FILE", help=f"of {SIGN}: minisign's secret key")
    parser.add_argument("--public", type=pathlib.Path, metavar="FILE", help=f"of {VERIFY}: minisign's public key")
    arguments = parser.parse_args()
    try:
        if arguments.package == [SIGN]:
            said = package_sign.sign(OUT, arguments.key)
        elif arguments.package == [VERIFY]:
            said = package_sign.verify(OUT, arguments.public)
        elif arguments.key or arguments.public:
            raise Failure(f"--key is of `./run package {SIGN}` alone, and --public of `./run package {VERIFY}`")
        else:
            said = make_all(arguments.package)
    except (Failure, package_image.Failure, package_sign.Failure, package_source.Failure, digest.Failure,
            subprocess.SubprocessError, FileNotFoundError, RuntimeError) as failure:
        print(f"package: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 1
    print(f"result: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
