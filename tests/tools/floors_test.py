#!/usr/bin/python3
"""What is linked is not older than the floors of docs/advisories.md, and the switches that its rows rely on are off.

    floors_test.py                check the tree that this file stands in
    floors_test.py --self-test    plant one fault of each kind and demand that it is found

Versions are Debian's, compared by dpkg: of a source package in third_party/ by its own changelog, of an installed one
by dpkg-query. A package that is not installed is left out, because this machine then builds nothing with it.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/advisories.md"
SOURCES = {"mbedtls", "libsodium", "nanopb", "lwip"}
# What the host's part of cmake/host_packages.cmake and the server's headers bring.
PACKAGES = {"libsqlite3-dev", "libasio-dev", "libtomlplusplus-dev", "libspdlog-dev", "libfmt-dev", "libcli11-dev",
            "nlohmann-json3-dev", "nettle-dev", "libeigen3-dev"}
CODE_FOLDERS = ("boards", "cmake", "firmware", "host", "proto", "runtime", "server")
SKIPPED = 77


def floors(page):
    """package -> floor, of the table behind the heading Floors."""
    table = re.search(r"(?ms)^## Floors$(.*?)^## ", page)
    rows = re.findall(r"(?m)^\|[^|]+\| `([^`]+)` \| `([^`]+)` \|", table[1] if table else "")
    return dict(rows)


def version_in_use(package):
    """Of the package as this tree builds with it, or None."""
    if package in SOURCES:
        changelog = ROOT / "third_party" / package / "debian/changelog"
        match = changelog.is_file() and re.match(r"\S+ \(([^)]+)\)", changelog.read_text(encoding="utf-8"))
        return match[1] if match else None
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    status, _, version = done.stdout.partition(" ")
    return version if status == "installed" else None


def is_older(version, floor):
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", floor], check=False, timeout=60).returncode == 0


def check_versions(page, find=version_in_use):
    named = floors(page)
    yield from (f"{PAGE}: no floor for {package}" for package in sorted((SOURCES | PACKAGES) - named.keys()))
    yield from (f"{PAGE}: a floor for {package}, which is not linked"
                for package in sorted(named.keys() - SOURCES - PACKAGES))
    for package, floor in sorted(named.items()):
        version = find(package)
        if version is not None and is_older(version, floor):
            yield (f"{package} {version} is below its floor {floor}: "
                   f"./run setup brings a newer one, or apt-get install {package}")


# ---- Switches and names that are off ---------------------------------------------------------------------------------


def needs_of_unreached(page):
    """What the rows need that say "no: off", "no: ... called nowhere" or "no: not compiled": (kind, name)."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) < 3 or not cells[-1].startswith("no: "):
            continue
        names = re.findall(r"`([^`]+)`", cells[-2]) + re.findall(r"`(mbedtls_\w+)` is called nowhere", cells[-1])
        kind = next((word for word in ("off", "called nowhere", "not compiled", "no statement")
                     if word in cells[-1]), None)
        if kind is not None:
            yield from ((kind, name) for name in names)


def read_code(root):
    """All code that is linked, and all that CMake reads of it, each as one text without comments."""
    paths = [path for folder in CODE_FOLDERS for path in sorted((root / folder).rglob("*"))]
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths
                     if path.suffix in {".h", ".cc", ".c", ".options"})
    build = "\n".join(path.read_text(encoding="utf-8") for path in [root / "CMakeLists.txt", *paths]
                      if path.suffix == ".cmake" or path.name == "CMakeLists.txt")
    return re.sub(r"//[^\n]*|(?s:/\*.*?\*/)", "", code), re.sub(r"#[^\n]*", "", build)


def is_used(kind, name, code, build):
    if kind == "not compiled":
        return re.search(rf"\b{re.escape(name.removeprefix('src/'))}/", build) is not None
    if kind == "off":
        return re.search(rf"#\s*define\s+{re.escape(name)}\b", code) is not None or re.search(
            rf"\b{re.escape(name)}\b", build) is not None
    return re.search(rf"\b{re.escape(name)}\b", code, re.I if kind == "no statement" else 0) is not None


def check_switches(page, code, build):
    needs = list(needs_of_unreached(page))
    if not needs:
        yield f"{PAGE}: no row says what an advisory needs"
    for kind, name in needs:
        if is_used(kind, name, code, build):
            yield f"{PAGE}: a row says that {name} is {kind}, and it is in use: judge its advisories anew"


# ---- The checker's own test ------------------------------------------------------------------------------------------


def self_test(page, code, build):
    old = {"mbedtls": "3.6.5-0.1"}
    planted = {
        "is below its floor": check_versions(page, lambda package: old.get(package)),
        "no floor for lwip": check_versions(page.replace("`lwip` | `2", "`lwi` | `2"), lambda _: None),
        "which is not linked": check_versions(page.replace("`lwip` | `2", "`lwi` | `2"), lambda _: None),
        "no row says": check_switches("", code, build),
        "MBEDTLS_RSA_C is off": check_switches(page, code + "\n#define MBEDTLS_RSA_C\n", build),
        "PB_ENABLE_MALLOC is off": check_switches(page, code, build + " PB_ENABLE_MALLOC=1"),
        "mbedtls_ssl_conf_sig_algs is called nowhere": check_switches(page, code + "mbedtls_ssl_conf_sig_algs(", build),
        "mbedtls_ssl_conf_sni is called nowhere": check_switches(page, code + "mbedtls_ssl_conf_sni(", build),
        "src/apps/mqtt is not compiled": check_switches(page, code, build + " apps/mqtt/mqtt.c"),
        "FTS5 is no statement": check_switches(page, code + '"CREATE VIRTUAL TABLE t USING fts5(x)"', build),
    }
    missed = [text for text, found in planted.items() if not any(text in fault for fault in found)]
    for text in missed:
        print(f"planted and not found: {text}")
    print(f"{len(planted)} planted, {len(missed)} missed")
    return 1 if missed else 0


def main():
    if shutil.which("dpkg") is None or shutil.which("dpkg-query") is None:
        print("no dpkg: the versions of packages cannot be compared")
        return SKIPPED
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    code, build = read_code(ROOT)
    if sys.argv[1:] == ["--self-test"]:
        return self_test(page, code, build)
    faults = [*check_versions(page), *check_switches(page, code, build)]
    for fault in faults:
        print(fault)
    in_use = {package: version_in_use(package) for package in floors(page)}
    print(f"{sum(version is not None for version in in_use.values())} versions, "
          f"{len(list(needs_of_unreached(page)))} switches and names, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
