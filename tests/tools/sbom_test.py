#!/usr/bin/python3
"""The list of what is in server, engine's program, client and library (tools/package_sbom.py).

It is compared with what was compiled and linked.
Ninja knows of each of them every source, header and archive behind it. dpkg, or a folder of third_party, says whose
each is. A component that is missing in the list is a fault, and so is one too many. The same holds for shared
libraries, by NEEDED of the program; archives have none. Faults of each kind are planted, and must be found.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import package_sbom  # noqa: E402  the tool under test

BUILD = pathlib.Path(os.environ["GS_BUILD_DIR"])
PROGRAMS = {package_sbom.SERVER: "server/gradstream", package_sbom.ENGINE: "server/gradstream-engine",
            package_sbom.CLIENT: "boards/posix/gradstream-client",
            package_sbom.LIBRARY: "gradstream-dev"}
SECONDS_MAX = 60
SKIPPED = 77
# Headers that declare a shared library or the kernel's calls. The libraries are judged by NEEDED.
INTERFACES = re.compile(r"libc6-dev|libpq-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev|linux-libc-dev")


def read(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True, text=True,
                          timeout=SECONDS_MAX).stdout


def headers_by_object():
    """object -> the files that its compiler read, of the whole build."""
    found, files = {}, []
    for line in read("ninja", "-C", BUILD, "-t", "deps").splitlines():
        if line.startswith(" "):
            files.append(line.strip())
        elif line:
            files = found.setdefault(line.partition(":")[0], [])
    return found


def files_of(target, headers):
    inputs = read("ninja", "-C", BUILD, "-t", "inputs", target).splitlines()
    return set(inputs).union(*(headers.get(name, ()) for name in inputs))


def owners_of(files):
    """Folders of third_party, and packages of Debian. A file of the system that no package owns is a fault."""
    folders = {match[1] for match in (re.search(r"/third_party/([^/]+)/", name) for name in files) if match}
    system = sorted(name for name in files if name.startswith("/usr/") and "/third_party/" not in name)
    owned = read("dpkg", "-S", *system)
    return folders, {re.split(r"[:,]", line)[0] for line in owned.splitlines()}


def needed_by(program):
    """Names of shared libraries."""
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", read("readelf", "--dynamic", program)))


def faults_of(program, components, folders, packages, needed):
    """What the list says against what the build has: folders of third_party, packages, and names of NEEDED."""
    told = {"third_party": {package_sbom.NPM_FOLDERS.get(component.package, component.package)
                            for component in components if component.kind in ("source", "npm")},
            "Debian": {component.package for component in components if component.kind == "static"},
            "shared": {component.package for component in components if component.kind == "shared"}}
    sonames = {name: component.package for component in components for name in component.sonames}
    built = {"third_party": folders, "Debian": {name for name in packages if not INTERFACES.fullmatch(name)},
             "shared": {sonames.get(name, name) for name in needed}}
    for kind, names in told.items():
        yield from (f"{program}: {name} ({kind}) is built in, and the list lacks it"
                    for name in sorted(built[kind] - names))
        yield from (f"{program}: {name} ({kind}) is in the list, and nothing of it is built in"
                    for name in sorted(names - built[kind]))


def check_document(program):
    text = package_sbom.render(program)
    assert text == package_sbom.render(program), "the same packages give other bytes"
    document = json.loads(text)
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.5", 1), document
    references = [entry["bom-ref"] for entry in document["components"]]
    assert len(set(references)) == len(references) and document["dependencies"][0]["dependsOn"] == references
    for entry in document["components"]:
        assert entry["version"] and (entry["licenses"][0].get("expression") or entry["licenses"][0]["license"]), entry
        assert re.fullmatch(r"pkg:(deb/debian|npm)/[\w.%+-]+@[\w.%+~-]+(\?arch=\w+)?", entry["purl"]), entry
    return len(references)


def main():
    if shutil.which("dpkg-query") is None:
        print("no dpkg: whose the build's files are is not known")
        return SKIPPED
    headers, faults = headers_by_object(), []
    for program, target in PROGRAMS.items():
        if program == package_sbom.ENGINE and not (BUILD / target).exists():
            print(f"{program} is not built: libpq-dev is missing, or nobody asked for it")
            continue
        folders, packages = owners_of(files_of(target, headers))
        parts = (folders, packages, set() if program == package_sbom.LIBRARY else needed_by(BUILD / target))
        listed = package_sbom.components_of(program)
        faults += faults_of(program, listed, *parts)
        for component in package_sbom.COMPONENTS:  # planted: one is forgotten, or is one too many
            others = [other for other in listed if other != component]
            if component not in listed:
                others.append(component)
            if not list(faults_of(program, others, *parts)):
                faults.append(f"{program}: the test does not notice a fault of {component.name}")
        print(f"{program}: {check_document(program)} components, {len(packages)} packages, {len(parts[2])} libraries")
    print("\n".join(faults) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
