"""The Debian package of the library for hosts, for tools/package.py: what `cmake --install` puts in place, below /usr.

cmake/install.cmake says what that is. Its paths carry the project's name: none is one of Debian's libmbedtls-dev.
"""

import gzip
import pathlib

import fleet
import package_documents
import package_needs
import package_sbom

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = package_sbom.LIBRARY
TARGET = "gradstream-dev"  # of the build: the archives; and the component that is installed
ARCHITECTURE = "amd64"
CALLBACKS = "gs_port_"  # of include/gradstream/port.h: the program defines them
DOCUMENTS = ("docs/how-to/library.md", "docs/own_loss.md", "docs/use_model.md", "docs/data.md", "docs/rtos.md")
EXAMPLES = ("linux_client.c", "several_devices.c", "super_loop.c")  # of tests/consume
COPYRIGHT = b"""gradstream and Mbed TLS: Apache-2.0, /usr/share/common-licenses/Apache-2.0.
libsodium: ISC, nanopb: Zlib:
"""
DESCRIPTION = """\
federated learning: a device as a library
 Headers, archives and files for CMake and pkg-config, for an application that
 trains a model on its own data and sends gradient streams to an aggregation
 server over TLS 1.3. The interface is in C. The archives have an Mbed TLS of
 their own in them, beside which a program links no other."""


def contents():
    """path in the package -> its bytes, of what the build does not install."""
    documents = f"usr/share/doc/{NAME}"
    return {
        **{f"{documents}/{name}": content for name, content in package_documents.gather(*DOCUMENTS).items()},
        **{f"{documents}/examples/{name}": (ROOT / "tests" / "consume" / name).read_bytes() for name in EXAMPLES},
        f"{documents}/sbom.cdx.json": package_sbom.render(NAME),
        f"{documents}/copyright": COPYRIGHT + package_documents.licences(),
        f"{documents}/changelog.gz": gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0),
    }


def fill(tree, version, maintainer, put, run):
    """The package's tree, with its DEBIAN folder."""
    run("cmake", "--install", fleet.BUILD, "--component", TARGET, "--prefix", tree / "usr")
    archives = sorted(tree.rglob("*.a"))
    for archive in archives:
        run("strip", "--strip-debug", "--enable-deterministic-archives", archive)
    for path, content in contents().items():
        put(tree / path, content)
    files = [path for path in tree.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(0o644)
        path.touch()  # dpkg-deb gives one time to what is newer than the sources, and the build's files may be older
    size = sum(path.stat().st_size for path in files)
    control = {"Package": NAME, "Version": version, "Architecture": ARCHITECTURE, "Maintainer": maintainer,
               "Installed-Size": (size + 1023) // 1024, "Depends": package_needs.depends(archives, CALLBACKS),
               "Suggests": "cmake, pkg-config",
               "Section": "libdevel", "Priority": "optional", "Description": DESCRIPTION}
    put(tree / "DEBIAN" / "control", "".join(f"{key}: {value}\n" for key, value in control.items()).encode())
