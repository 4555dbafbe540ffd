"""The Debian package of the server: what is in it, what systemd says of the unit, that the man page and the completion
know every verb and option of the program, and that the program in it serves with the configuration in it, tells its
service manager so, and needs no library but those that the package names; that what this configuration offers in
comments is what the program does without them, and that the documents' links lead somewhere. Nothing is installed.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402
import package  # noqa: E402  the tool under test
import package_engine  # noqa: E402
import package_server  # noqa: E402

SECONDS_MAX = 60
VERBS = ("serve", "device add", "device import", "device rotate", "device list", "device show", "device enable",
         "device disable", "device revoke", "claim add", "claim list", "claim end", "run start", "run keys",
         "run list", "run pause", "run resume", "run suggest", "run stop", "run export", "run head", "run head-key",
         "run verify", "run forget", "model export", "network show", "data pack", "data show", "history", "status",
         "backup", "restore", "doctor", "explain", "engine init", "engine status", "engine doctor", "engine migrate",
         "engine import", "engine export")


def read(*words, **options):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=True, timeout=SECONDS_MAX, **options).stdout


def check_package(path):
    fields = dict(line.split(": ", 1) for line in read("dpkg-deb", "--field", path).splitlines() if line[0] != " ")
    assert fields["Package"] == "gradstream" and fields["Version"] == package.version(), fields
    needed = {name.split()[0] for name in fields["Depends"].split(", ")}
    assert needed == {"libc6", "libgcc-s1", "libstdc++6", "adduser"}, fields
    found = {}
    for line in read("dpkg-deb", "--contents", path).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        assert owner == "root/root", line
        if not mode.startswith("d"):
            found[name[2:]] = mode
    assert found.pop("usr/bin/gradstream") == "-rwxr-xr-x", found
    assert found == {name: "-rw-r--r--" for name in package_server.contents()}, found


def check_scripts(path, home):
    read("dpkg-deb", "--control", path, home / "control")
    assert (home / "control" / "conffiles").read_text(encoding="ascii") == "/etc/gradstream/gradstream.toml\n"
    for name in ("postinst", "prerm", "postrm"):
        read("sh", "-n", home / "control" / name)


def check_unit(tree):
    """As far as systemd is here to judge; nothing is started."""
    unit = tree / "lib" / "systemd" / "system" / "gradstream.service"
    if shutil.which("systemd-analyze") is None:
        print("the unit is not verified: systemd-analyze is missing")
        return
    stubs = [unit.parent / f"{name}.target" for name in
             ("basic", "sysinit", "shutdown", "network-online", "multi-user")] + [unit.parent / "system.slice"]
    for stub in stubs:
        stub.write_text("[Unit]\n", encoding="ascii")
    shell = tree / "bin" / "sh"
    shell.parent.mkdir()
    shell.touch(mode=0o755)  # of ExecReload
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={tree}", unit], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    assert done.returncode == 0 and "gradstream.service" not in done.stdout, done.stdout


def anchors_of(text):
    """What a link to a heading of the document ends with."""
    headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_documents(folder):
    """Every link of theirs that does not name a host leads to a file of the package, and to a heading in it."""
    licences = (folder / "copyright").read_text(encoding="utf-8")
    for words in ("Frank Denis", "Petteri Aimonen", *package_server.LINKED):
        assert words in licences, words
    folder = folder.resolve()
    documents = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}
    names = {str(path.relative_to(folder)) for path in documents}
    assert {"operating.md", "reliability.md", "how-to/install.md", "reference/events.md"} <= names, names
    for name, text in documents.items():
        prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
        links = re.findall(r"\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)", prose)
        for target, anchor in [*links, *((picture, "") for picture in re.findall(r'src="(.*?)"', text))]:
            path = (name.parent / target).resolve() if target else name
            is_there = path.is_file() and path.is_relative_to(folder)
            assert is_there, f"{name} links to {target}, which is not in the package"
            assert not anchor or anchor in anchors_of(documents[path]), f"{name}: {target}#{anchor}"


def completions(tree, *words):
    """What the shell offers behind these words, the last of which is being typed."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gradstream; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    path = tree / "usr/share/bash-completion/completions/gradstream"
    return set(read("bash", "-c", script, "bash", path, "gradstream", *words).split())


def options_of(text):
    """The long options in the help of a verb."""
    return set(re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", text))


def check_words(tree, program):
    man = gzip.decompress((tree / "usr/share/man/man1/gradstream.1.gz").read_bytes()).decode()
    codes = re.findall(r"(?m)^  (\d+)  ", read(program, "--help"))
    assert re.findall(r"(?m)^\.B (\d+)$", man) == codes, man
    assert not re.search(r"(?m)^\.(?!TH|SH|TP|B|BR|BI|RB|RI|br|PP|RS|RE|I\b)", man), man
    told = set()
    for part in re.findall(r"\.B gradstream (\w+(?: export)?)\n(?:\.RB \{ (.*) \})?", man):
        told |= {f"{part[0]} {word}" for word in part[1].split(" | ")} if part[1] else {part[0]}
    assert told == set(VERBS), told ^ set(VERBS)
    groups = {verb.split()[0] for verb in VERBS}
    assert completions(tree, "") == groups | {"--help", "--version"}
    for group in ("device", "claim", "run", "model", "network", "data", "engine"):
        assert completions(tree, group, "") == {verb.split()[1] for verb in VERBS if verb.startswith(group)}
    for verb in VERBS:
        there = options_of(read(program, *verb.split(), "--help"))
        assert completions(tree, *verb.split(), "--") == there, (verb, there ^ completions(tree, *verb.split(), "--"))
        help_of_group = read(program, *verb.split()[:-1], "--help")
        assert re.search(rf"(?m)^  {verb.split()[-1]} ", help_of_group), help_of_group


def configuration_of(path, program):
    """key -> value and where that is from, as the server would use the file."""
    text = read(program, "serve", "--print-config", "--config", path)
    return {key: (value, origin) for key, value, origin in re.findall(r"(?m)^(\w+) = (.*)  # (.*)$", text)}


def check_configuration(tree, program, home):
    """A key that the file offers in a comment stands in its section, with the value that it has without the line."""
    path, opened = tree / "etc" / "gradstream" / "gradstream.toml", home / "opened.toml"
    text = path.read_text(encoding="ascii")
    offered = re.findall(r"(?m)^#(\w+) = ", text)
    assert {"allow_psk_ke", "handshake_count_max"} <= set(offered), offered
    opened.write_text(re.sub(r"(?m)^#(?=\w+ = )", "", text), encoding="ascii")
    shut, there = configuration_of(path, program), configuration_of(opened, program)
    for key in offered:
        assert shut[key][1] == "default" and there[key][1].startswith(f"{opened}:"), (key, shut[key], there[key])
        assert shut[key][0] == there[key][0], (key, shut[key], there[key])


def check_service(tree, program, home):
    unit = (tree / "lib/systemd/system/gradstream.service").read_text(encoding="ascii")
    line = re.search(r"^ExecStart=/usr/bin/gradstream (.*)$", unit, re.M)[1]
    words = [word.replace("/etc/gradstream", str(tree / "etc/gradstream")) for word in line.split()]
    fragments = tree / "etc" / "gradstream" / "conf.d"
    shutil.copy(tree / "usr/share/doc/gradstream/examples/run.toml", fragments)
    ports = [fleet.free_port(), fleet.free_port()]
    (fragments / "test.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{ports[0]}"\nhttp_listen = "127.0.0.1:{ports[1]}"\n'
        f'database = "{home}/gradstream.db"\n', encoding="ascii")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(home / "notify"))
        manager.settimeout(SECONDS_MAX)
        os.environ["NOTIFY_SOCKET"] = str(home / "notify")
        server = fleet.Process("server", [program, *words, "--create"])  # no device is enrolled
        try:
            assert manager.recv(100) == b"READY=1\nWATCHDOG=1"
            assert server.wait_for_line("event=http_listening", SECONDS_MAX) is not None, server.lines
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/status", timeout=SECONDS_MAX) as answer:
                assert json.loads(answer.read())["run"]["name"] == "first"
        finally:
            server.stop()
    assert "event=stopped" in "".join(server.lines), server.lines


def check_engine(tree, home):
    """The program that links libpq, in a package of its own (docs/how-to/engine.md); where this build has it."""
    if not package_engine.PROGRAM.exists():
        print("gradstream-engine is not built: libpq-dev is missing, or nobody asked for it")
        return
    done = subprocess.run([sys.executable, "-B", fleet.ROOT / "tools" / "package.py", "engine"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    path = package.OUT / f"gradstream-engine_{package.version()}_amd64.deb"
    needs = read("dpkg-deb", "--field", path, "Depends")
    assert "libpq5" in needs and f"gradstream (= {package.version()})" in needs, needs
    found = {line.split()[5][2:] for line in read("dpkg-deb", "--contents", path).splitlines() if line[0] != "d"}
    assert found == {"usr/bin/gradstream-engine", *package_engine.contents()}, found
    (home / "empty.toml").write_text("", encoding="ascii")
    words = [tree / "usr" / "bin" / "gradstream", "engine", "status", "--config", home / "empty.toml"]
    alone = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert alone.returncode == 8 and "install the package gradstream-engine" in alone.stdout, alone
    read("dpkg-deb", "--extract", path, tree)
    both = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert both.returncode == 3 and "engine.address is empty" in both.stdout, both


def main():
    done = subprocess.run([sys.executable, "-B", fleet.ROOT / "tools" / "package.py", "server"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    path = package.OUT / f"gradstream_{package.version()}_amd64.deb"
    check_package(path)
    with tempfile.TemporaryDirectory(prefix="gradstream-package-") as folder:
        home = pathlib.Path(folder)
        check_scripts(path, home)
        tree = home / "tree"
        read("dpkg-deb", "--extract", path, tree)
        program = tree / "usr" / "bin" / "gradstream"
        check_words(tree, program)
        check_documents(tree / "usr" / "share" / "doc" / "gradstream")
        check_configuration(tree, program, home)
        check_service(tree, program, home)
        check_unit(tree)
        check_engine(tree, home)


if __name__ == "__main__":
    main()
