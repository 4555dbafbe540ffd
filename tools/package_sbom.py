"""What is in a program or library that gradstream ships, as CycloneDX 1.5 (sbom.cdx.json), for tools/package.py.

Licences are those of docs/licences.md. Versions are Debian's, as in docs/advisories.md: of a source package in
third_party/ by its own change log, of an installed one by dpkg-query. What npm brings says its version itself.
tests/tools/sbom_test.py compares all that with what the build has compiled and linked. The same sources and packages
give the same bytes: there is no time and no random number in them.
"""

import json
import pathlib
import re
import subprocess
import urllib.parse
from typing import NamedTuple

import package_documents

ROOT = pathlib.Path(__file__).resolve().parent.parent
THIRD_PARTY = ROOT / "third_party"
SPECIFICATION = "1.5"
SERVER, ENGINE, CLIENT, LIBRARY = "gradstream", "gradstream-engine", "gradstream-client", "libgradstream-dev"


class Component(NamedTuple):
    name: str          # as docs/licences.md has it
    package: str       # the folder of third_party, the folder's package of npm, or the package of Debian
    kind: str          # "source": third_party; "npm"; "static": headers and archives of Debian; "shared"
    programs: tuple    # that hold it, LIBRARY among them
    sonames: tuple = ()  # of what is shared


SERVERS, BOTH = (SERVER, ENGINE), (SERVER, ENGINE, CLIENT)
ALL = (*BOTH, LIBRARY)
COMPONENTS = (
    Component("Asio", "libasio-dev", "static", SERVERS),
    Component("CLI11", "libcli11-dev", "static", BOTH),
    Component("Eigen", "libeigen3-dev", "static", SERVERS),
    Component("fmt", "libfmt-dev", "static", SERVERS),
    Component("glibc", "libc6", "shared", BOTH, ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2")),
    Component("JSON for Modern C++", "nlohmann-json3-dev", "static", SERVERS),
    Component("libgcc", "libgcc-s1", "shared", BOTH, ("libgcc_s.so.1",)),
    Component("libpq", "libpq5", "shared", (ENGINE,), ("libpq.so.5",)),
    Component("libsodium", "libsodium", "source", ALL),
    Component("libstdc++", "libstdc++6", "shared", BOTH, ("libstdc++.so.6",)),
    Component("Mbed TLS", "mbedtls", "source", ALL),
    Component("nanopb", "nanopb", "source", ALL),
    Component("Nettle", "nettle-dev", "static", SERVERS),
    Component("spdlog", "libspdlog-dev", "static", SERVERS),
    Component("SQLite", "libsqlite3-dev", "static", SERVERS),
    Component("toml++", "libtomlplusplus-dev", "static", SERVERS),
    Component("uPlot", "uplot", "npm", SERVERS),
)
NPM_FOLDERS = {"uplot": "page"}


def licences():
    """name -> licence, of the table of docs/licences.md."""
    text = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    found = {}
    for names, licence in re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|", text):
        for name in names.partition(":")[0].split(", "):
            found[name] = licence
    return found


def npm_folder(component):
    return THIRD_PARTY / NPM_FOLDERS[component.package] / "node_modules" / component.package


def components_of(program):
    """Without what npm could not bring: the program is then built without it, as server/CMakeLists.txt says."""
    return [component for component in COMPONENTS if program in component.programs
            and (component.kind != "npm" or npm_folder(component).is_dir())]


def version_of(component):
    """Raises FileNotFoundError or RuntimeError, with the remedy, where set-up has not brought it."""
    remedy = f"{component.package} is missing: ./run setup package server brings it"
    if component.kind == "source":
        path = THIRD_PARTY / component.package / "debian" / "changelog"
        found = path.is_file() and re.match(r"\S+ \(([^)]+)\)", path.read_text(encoding="utf-8"))
        if not found:
            raise FileNotFoundError(remedy)
        return found[1]
    if component.kind == "npm":
        return json.loads((npm_folder(component) / "package.json").read_text(encoding="utf-8"))["version"]
    # A machine of several architectures may have a package more than once.
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}\n", component.package], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=60)
    found = re.search(r"(?m)^installed (\S+)$", done.stdout)
    if not found:
        raise RuntimeError(remedy)
    return found[1]


def package_address(component, version):
    """A package URL (purl). Debian's has the source or the binary package that the version is of. It names no
    architecture: the client is built for three.
    """
    quoted = urllib.parse.quote(version, safe="")
    if component.kind == "npm":
        return f"pkg:npm/{component.package}@{quoted}"
    address = f"pkg:deb/debian/{urllib.parse.quote(component.package, safe='')}@{quoted}"
    return f"{address}?arch=source" if component.kind == "source" else address


def licence_entry(text):
    """Of a licence as the page writes it: an SPDX expression, or a name where SPDX has no identifier."""
    if text == "public domain":
        return [{"license": {"name": text}}]
    return [{"expression": text.replace(" or ", " OR ").replace(" with ", " WITH ")}]


def render(program):
    """The bytes of sbom.cdx.json of the program: SERVER, ENGINE, CLIENT or LIBRARY."""
    known, entries, version = licences(), [], package_documents.version()
    for component in components_of(program):
        if component.name not in known:
            raise RuntimeError(f"docs/licences.md has no row of {component.name}: say its licence there")
        its_version = version_of(component)
        address = package_address(component, its_version)
        entries.append({"type": "library", "bom-ref": address, "name": component.name, "version": its_version,
                        "licenses": licence_entry(known[component.name]), "purl": address,
                        "properties": [{"name": "gradstream:linked",
                                        "value": "shared" if component.kind == "shared" else "static"}]})
    own = f"pkg:generic/{program}@{version}"
    document = {
        "bomFormat": "CycloneDX", "specVersion": SPECIFICATION, "version": 1,
        "metadata": {"component": {"type": "library" if program == LIBRARY else "application", "bom-ref": own,
                                   "name": program, "version": version, "licenses": licence_entry("Apache-2.0"),
                                   "purl": own}},
        "components": entries,
        "dependencies": [{"ref": own, "dependsOn": [entry["bom-ref"] for entry in entries]}],
    }
    return (json.dumps(document, indent=1) + "\n").encode()
