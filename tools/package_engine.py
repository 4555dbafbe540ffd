"""The Debian package of `gradstream engine` and of a node, for tools/package.py: the one program that links libpq.

It is a package of its own, so that who runs a single server installs neither libpq nor what that brings.
"""

import gzip
import pathlib

import fleet
import package_documents
import package_sbom
import package_server

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "gradstream-engine"
PROGRAM = fleet.BUILD / "server" / NAME
COPYRIGHT = b"""PostgreSQL's libpq, which the program loads: the PostgreSQL Licence, /usr/share/doc/libpq5/copyright.
The text of uPlot stands in front of the /uplot.js that gradstream serves; it is not served by this program.
"""
DESCRIPTION = """\
federated learning: several nodes on a PostgreSQL database
 A node, which gradstream serve becomes with an engine.address, and the verbs
 of gradstream engine: they make the tables of a cluster, show whether its
 server loses nothing, and take a run of SQLite there and back.
 Those of gradstream device and claim change its fleet by this program.
 The page is /usr/share/doc/gradstream/how-to/engine.md."""


def contents():
    """path in the package -> its bytes."""
    documents = f"usr/share/doc/{NAME}"
    return {
        f"{documents}/sbom.cdx.json": package_sbom.render(package_sbom.ENGINE),
        f"{documents}/copyright": package_server.COPYRIGHT + COPYRIGHT
        + package_documents.licences(*package_server.LINKED),
        f"{documents}/changelog.gz": gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0),
    }


def fill(tree, version, maintainer, put, run):
    """The package's tree, with its DEBIAN folder."""
    program = tree / "usr" / "bin" / NAME
    program.parent.mkdir(parents=True)
    run("strip", "-o", program, PROGRAM)
    program.chmod(0o755)
    for path, content in contents().items():
        put(tree / path, content)
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    needs = package_server.depends(tree, program, run).removesuffix(", adduser")
    control = {"Package": NAME, "Version": version, "Architecture": package_server.ARCHITECTURE,
               "Maintainer": maintainer, "Installed-Size": (size + 1023) // 1024,
               "Depends": f"{needs}, {package_server.NAME} (= {version})", "Section": "science",
               "Priority": "optional", "Description": DESCRIPTION}
    put(tree / "DEBIAN" / "control", "".join(f"{key}: {value}\n" for key, value in control.items()).encode())
