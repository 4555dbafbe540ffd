"""The Debian package of the server, for tools/package.py: operations/debian holds what is not built."""

import gzip
import pathlib
import re
import shutil

import fleet
import package_documents
import package_sbom

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN = ROOT / "operations" / "debian"
NAME = "gradstream"
ARCHITECTURE = "amd64"
PROGRAM = fleet.BUILD / "server" / NAME
# For operators, and what these refer them to.
DOCUMENTS = ("docs/operating.md", "docs/page.png", "docs/page_fleet.png", "docs/page_phone.png",
             "docs/reliability.md", "docs/trust.md", "docs/advisories.md", "SECURITY.md",
             "docs/algorithms.md", "docs/data.md", "docs/own_data.md",
             "docs/use_model.md", "docs/tutorial_vibration.md", "docs/own_loss.md", "docs/wire.md", "docs/glossary.md",
             "docs/how-to/*.md", "docs/reference/*.md")
COPYRIGHT = b"""gradstream and Mbed TLS: Apache-2.0, /usr/share/common-licenses/Apache-2.0.
libsodium: ISC; nanopb: Zlib; CLI11: BSD-3-Clause; Asio: BSL-1.0; toml++, spdlog, fmt, JSON for Modern C++, uPlot: MIT.
Eigen: MPL-2.0; its source is Debian's package eigen3. SQLite: public domain. Nettle, linked as an archive:
LGPL-3.0-or-later; its source is Debian's package nettle, and gradstream's own source links the program anew.
The text of uPlot stands in front of the /uplot.js that the program serves; the others:
"""
LINKED = ("libasio-dev", "libcli11-dev", "libeigen3-dev", "libfmt-dev", "libspdlog-dev", "libsqlite3-dev",
          "libtomlplusplus-dev", "nettle-dev", "nlohmann-json3-dev")
CONFFILES = ("/etc/gradstream/gradstream.toml",)
DESCRIPTION = """\
federated learning: the aggregation server
 Trains one model over many devices, microcontrollers among them, that keep
 their data: they send gradient streams over TLS 1.3, and a journal in SQLite
 survives a power cut. The unit gradstream.service serves the run that a file
 in /etc/gradstream/conf.d describes."""


def exit_codes():
    """The table of docs/reference/exit_codes.md, which a test compares with the program, as a list of the man page."""
    text = (ROOT / "docs" / "reference" / "exit_codes.md").read_text(encoding="utf-8")
    table = text[text.index("| code | meaning |"):].partition("\n\n")[0]
    rows = re.findall(r"(?m)^\| (\d+) \| (.+?) \|$", table)
    return "\n".join(f".TP\n.B {code}\n{meaning}" for code, meaning in rows).replace("--", "\\-\\-")


def depends(tree, program, run):
    """What dpkg-shlibdeps finds in the program; it wants a source package around it."""
    (tree / "debian").mkdir()
    (tree / "debian" / "control").write_text(f"Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n",
                                             encoding="ascii")
    text = run("env", "-C", tree, "dpkg-shlibdeps", "-O", program)
    shutil.rmtree(tree / "debian")
    return re.search(r"^shlibs:Depends=(.*)$", text, re.M)[1] + ", adduser"


def contents():
    """path in the package -> its bytes."""
    man = (DEBIAN / "gradstream.1").read_text(encoding="ascii").replace("@EXIT_CODES@", exit_codes())
    documents = f"usr/share/doc/{NAME}"
    return {
        "lib/systemd/system/gradstream.service": (DEBIAN / "gradstream.service").read_bytes(),
        "etc/gradstream/gradstream.toml": (DEBIAN / "gradstream.toml").read_bytes(),
        "usr/share/man/man1/gradstream.1.gz": gzip.compress(man.encode(), mtime=0),
        "usr/share/bash-completion/completions/gradstream": (DEBIAN / "gradstream.bash").read_bytes(),
        f"{documents}/examples/run.toml": (DEBIAN / "run.toml").read_bytes(),
        f"{documents}/examples/grafana_dashboard.json": (DEBIAN.parent / "grafana_dashboard.json").read_bytes(),
        f"{documents}/examples/prometheus_alerts.yaml": (DEBIAN.parent / "prometheus_alerts.yaml").read_bytes(),
        **{f"{documents}/{name}": content for name, content in package_documents.gather(*DOCUMENTS).items()},
        f"{documents}/sbom.cdx.json": package_sbom.render(package_sbom.SERVER),
        f"{documents}/copyright": COPYRIGHT + package_documents.licences(*LINKED),
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
    (tree / "etc" / "gradstream" / "conf.d").mkdir()
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    control = {"Package": NAME, "Version": version, "Architecture": ARCHITECTURE, "Maintainer": maintainer,
               "Installed-Size": (size + 1023) // 1024, "Depends": depends(tree, program, run), "Section": "science",
               "Priority": "optional", "Description": DESCRIPTION}
    put(tree / "DEBIAN" / "control", "".join(f"{key}: {value}\n" for key, value in control.items()).encode())
    put(tree / "DEBIAN" / "conffiles", "".join(f"{path}\n" for path in CONFFILES).encode())
    for script in ("postinst", "prerm", "postrm"):
        put(tree / "DEBIAN" / script, (DEBIAN / script).read_bytes(), 0o755)
