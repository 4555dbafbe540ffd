"""The wheel of Python for tools/package.py: python/ holds its files, and the build its library and programs.

It is written here and not by a builder of wheels: the library is called through ctypes and belongs to no version of
Python, so that one wheel serves all of them, and nothing is fetched.
"""

import base64
import hashlib
import os
import pathlib
import re
import time
import zipfile

import package_documents
import package_server

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "python" / "gradstream"
BUILD = pathlib.Path(os.environ.get("GS_BUILD_DIR", ROOT / "build" / "dev"))
NAME = "gradstream"
TARGETS = ("gradstream", "gradstream-client", "gradstream-sim", "gradstream_python")
BINARIES = {"bin/gradstream": "server/gradstream", "bin/gradstream-client": "boards/posix/gradstream-client",
            "bin/gradstream-sim": "sim/gradstream-sim", "lib/libgradstream.so": "python/libgradstream.so"}
COMMANDS = {"gradstream": "server", "gradstream-client": "client", "gradstream-sim": "simulator"}
METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Federated learning that fits on a microcontroller: server, devices in a process of Python, simulator
License: Apache-2.0
Keywords: federated learning,microcontroller,embedded,zeroth-order optimisation,manifold
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Requires-Python: >=3.11
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

"""


def fill(tree, run):
    """The package's folder below tree, with the library and the programs of the build."""
    package = tree / NAME
    for path, source in BINARIES.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        run("strip", "-o", package / path, BUILD / source)
        (package / path).chmod(0o755)
    for path in sorted([*SOURCES.glob("*.py"), SOURCES / "py.typed"]):
        (package / path.name).write_bytes(path.read_bytes())
    return package


def platform(package, run):
    """The tag of the oldest C library that all binaries run with."""
    text = "".join(run("objdump", "-T", package / path) for path in BINARIES)
    newest = max(tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d+\.\d+)", text))
    return f"manylinux_{newest[0]}_{newest[1]}_x86_64"


def information(version, tag):
    """path in the wheel -> its bytes, of the folder that describes it."""
    folder = f"{NAME}-{version}.dist-info"
    scripts = "".join(f"{command} = {NAME}.programs:{function}\n" for command, function in COMMANDS.items())
    page = package_documents.gather("docs/python.md")["python.md"]
    licences = (package_server.COPYRIGHT
                + b"\nThe library for Python has GCC's libraries in it: GPL-3 with the GCC Runtime Library Exception.\n"
                + package_documents.licences(*package_server.LINKED))
    return {f"{folder}/METADATA": METADATA.format(name=NAME, version=version).encode() + page,
            f"{folder}/WHEEL": f"Wheel-Version: 1.0\nGenerator: gradstream\nRoot-Is-Purelib: false\nTag: {tag}\n"
            .encode(),
            f"{folder}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
            f"{folder}/LICENSE": (ROOT / "LICENSE").read_bytes(), f"{folder}/licences.txt": licences}, folder


def write(path, files, seconds):
    """files: path in the archive -> (its bytes, mode). The same bytes for the same files."""
    when = time.gmtime(max(seconds, 315532800))[:6]  # a ZIP archive knows no time before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def make(tree, out, version, seconds, run):
    """Fills the tree, and writes the wheel to the folder out; its path."""
    package = fill(tree, run)
    tag = f"py3-none-{platform(package, run)}"
    described, folder = information(version, tag)
    files = {str(path.relative_to(tree)): (path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
             for path in sorted(package.rglob("*")) if path.is_file()}
    files |= {name: (content, 0o644) for name, content in described.items()}
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},"
        f"{len(content)}\n" for name, (content, _) in files.items())
    files[f"{folder}/RECORD"] = (f"{record}{folder}/RECORD,,\n".encode(), 0o644)
    wheel = out / f"{NAME}-{version}-{tag}.whl"
    write(wheel, files, seconds)
    return wheel
