"""The server's image for containers (OCI), for tools/package.py: server and Linux client on an empty base, by buildah.

It holds both programs, the five files of the C and C++ libraries that they need, the licences, and a configuration that
listens to other machines. There is no shell in it. Its user is 7433, which owns /data, a volume, and /claims. The
archive is the same bytes for the same sources, packages and SOURCE_DATE_EPOCH.
"""

import json
import os
import pathlib
import re
import shutil
import tarfile

import fleet
import package_documents
import package_sbom
import package_server

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATIONS = ROOT / "operations" / "container"
NAME = package_server.NAME
USER = 7433  # number of its user and group, without a name on the host
DATA, CLAIMS = "data", "claims"
PROGRAMS = (package_server.PROGRAM, fleet.BUILD / "boards" / "posix" / package_sbom.CLIENT)
PORT = "7433/tcp"
SIZE_MAX = 15_000_000  # bytes of the archive: what a small machine fetches
LOADER = "lib64/ld-linux-x86-64.so.2"  # the address that the program names
LIBRARIES = "lib/x86_64-linux-gnu"     # where this loader looks by itself
# Debian's package of each file -> the text of its licence. Files of one source package share one.
LICENCES = {"libc6": "libc6", "libstdc++6": "gcc-12-base|gcc-14-base", "libgcc-s1": "gcc-12-base|gcc-14-base"}
COMMON_LICENCES = ("Apache-2.0", "GPL-2", "GPL-3", "LGPL-2.1", "LGPL-3")
PASSWD = f"root:x:0:0:root:/:/nonexistent\n{NAME}:x:{USER}:{USER}:{NAME}:/{DATA}:/nonexistent\n"
GROUP = f"root:x:0:\n{NAME}:x:{USER}:\n"
SOURCES = """The C and C++ libraries in this image are those of Debian, as sbom.cdx.json lists them with their versions.
Their sources are Debian's source packages glibc and gcc, which snapshot.debian.org keeps for each version.
The other files of an image are in /usr/share/doc/gradstream/copyright.
"""


class Failure(Exception):
    """What went wrong, with the remedy."""


def shared_files(programs, run):
    """name -> path on this machine, of the libraries that the loader finds for the programs, and of the loader."""
    found = {}
    for name, path in re.findall(r"(?m)^\s*(\S+)(?: => (\S+))? \(0x", run("ldd", *programs)):
        if name != "linux-vdso.so.1":
            found[pathlib.PurePath(name).name] = pathlib.Path(path or name).resolve()
    allowed = {soname for component in package_sbom.COMPONENTS for soname in component.sonames}
    if set(found) != allowed:
        raise Failure(f"the programs need {sorted(found)} and the list of components has {sorted(allowed)}: "
                      "mend tools/package_sbom.py")
    return found


def documentation(package):
    """The text of a package's licence, of whichever release of Debian this is."""
    for name in LICENCES[package].split("|"):
        path = pathlib.Path("/usr/share/doc") / name / "copyright"
        if path.is_file():
            return path.read_bytes()
    raise Failure(f"/usr/share/doc has no copyright of {package}: reinstall the package on a machine that keeps "
                  "documents (see path-exclude in /etc/dpkg/dpkg.cfg.d)")


def contents():
    """path in the image -> its bytes, of all but the program and the libraries."""
    documents = f"usr/share/doc/{NAME}"
    held = {"etc/passwd": PASSWD.encode(), "etc/group": GROUP.encode(),
            "etc/gradstream/gradstream.toml": (OPERATIONS / "gradstream.toml").read_bytes(),
            f"{documents}/sbom.cdx.json": package_sbom.render(package_sbom.SERVER),  # the client has less
            f"{documents}/copyright": package_server.COPYRIGHT
            + package_documents.licences(*package_server.LINKED),
            f"{documents}/libraries": SOURCES.encode()}
    held |= {f"usr/share/doc/{package}/copyright": documentation(package) for package in LICENCES}
    held |= {f"usr/share/common-licenses/{name}": pathlib.Path("/usr/share/common-licenses", name).read_bytes()
             for name in COMMON_LICENCES}
    return held


def fill(tree, put, run):
    """The image's file system. The folders of its user stay out: they have another owner."""
    (tree / "usr" / "bin").mkdir(parents=True)
    for source in PROGRAMS:
        program = tree / "usr" / "bin" / source.name
        run("strip", "-o", program, source)
        program.chmod(0o755)
    for name, path in shared_files(PROGRAMS, run).items():
        put(tree / (LOADER if name == pathlib.PurePath(LOADER).name else f"{LIBRARIES}/{name}"), path.read_bytes(),
            0o755)
    for path, content in contents().items():
        put(tree / path, content)
    (tree / "etc" / "gradstream" / "conf.d").mkdir()
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)


def buildah(folder, run, *words):
    """Its images and containers stay in the folder: this machine's own are neither seen nor changed."""
    return run("buildah", "--storage-driver", "vfs", "--root", folder / "storage", "--runroot", folder / "run", *words)


def lay_out(folder, tree, version, seconds, run):
    """The image as a folder of OCI's layout; its path."""
    empty, layout = folder / "empty", folder / "layout"
    empty.mkdir()
    container = buildah(folder, run, "from", "--quiet", "scratch").strip()
    buildah(folder, run, "copy", "--quiet", "--chown", "0:0", container, tree, "/")
    for name in (DATA, CLAIMS):
        buildah(folder, run, "copy", "--quiet", "--chown", f"{USER}:{USER}", container, empty, f"/{name}")
    buildah(folder, run, "config", "--user", f"{USER}:{USER}", "--workingdir", f"/{DATA}", "--volume", f"/{DATA}",
            "--port", PORT, "--entrypoint", json.dumps([f"/usr/bin/{NAME}"]), "--cmd", "serve --create",
            "--stop-signal", "SIGTERM", "--label", f"org.opencontainers.image.title={NAME}",
            "--label", f"org.opencontainers.image.version={version}",
            "--label", "org.opencontainers.image.licenses=Apache-2.0", container)
    buildah(folder, run, "commit", "--quiet", "--format", "oci", "--timestamp", seconds,
            "--disable-compression=false", container, f"oci:{layout}:{NAME}:{version}")
    return layout


def archive(layout, path, seconds):
    """The layout as one archive (oci-archive): its files by name, of owner 0, at the time of the sources."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for file in sorted(file for file in layout.rglob("*") if file.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(layout)))
            entry.size, entry.mtime, entry.mode = file.stat().st_size, seconds, 0o644
            with open(file, "rb") as content:
                out.addfile(entry, content)


def make(folder, path, version, put, run):
    """Writes the archive from the program that is built. Works in `folder`, which it deletes before and after."""
    if shutil.which("buildah") is None:
        raise Failure("buildah is missing: ./run setup package image brings it")
    if os.geteuid() != 0:
        raise Failure("buildah takes root here, to give files their owners: sudo ./run package image")
    shutil.rmtree(folder, ignore_errors=True)
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    tree = folder / "tree"
    fill(tree, put, run)
    archive(lay_out(folder, tree, version, seconds, run), path, seconds)
    shutil.rmtree(folder)
    if path.stat().st_size > SIZE_MAX:
        raise Failure(f"{path} has {path.stat().st_size} bytes, and at most {SIZE_MAX} are wanted")
