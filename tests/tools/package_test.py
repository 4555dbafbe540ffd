"""The Debian packages of the client: what is in them, what systemd says of the unit, that man page and completion have
the options that the program has, and the program of each trains under qemu-user against the real server, tells its
service manager that it lives, and needs no library but those that the package names. Between them they use every line
of credentials that the configuration offers.

package_test.py [KIND...]: of these packages, arm64 and armhf otherwise. `./run soak armv6` is the same for armv6, whose
program is static: it must find names without the system's libraries.
"""

import contextlib
import gzip
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402
import package  # noqa: E402  the tool under test

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
CROSS = {"arm64": ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
         "armhf": ["qemu-arm-static", "-L", "/usr/arm-linux-gnueabihf"],
         "armv6": ["qemu-arm-static", "-cpu", "arm1176"]}
KINDS = sys.argv[1:] or ["arm64", "armhf"]
FILES = {"./usr/bin/gradstream-client": "-rwxr-xr-x", "./etc/gradstream/client.conf": "-rw-r--r--",
         "./lib/systemd/system/gradstream-client.service": "-rw-r--r--",
         "./usr/share/man/man1/gradstream-client.1.gz": "-rw-r--r--",
         "./usr/share/bash-completion/completions/gradstream-client": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/README.md": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/data.md": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/use_model.md": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/trust.md": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/how-to/power.md": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/examples/digits.gsd": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/sbom.cdx.json": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/copyright": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/changelog.gz": "-rw-r--r--"}
# Devices by what tells who they are, in the order of the lines CREDENTIALS in client.conf.
DEVICES = {"by_identity": KINDS[0], "by_claim": KINDS[-1], "by_certificate": KINDS[0]}
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}
ROUNDS = 3
SECONDS_MAX = 60
STATIC_BYTES_MAX = 3000000


def read(*words, **options):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=True, **options).stdout


def check_fields(path, target):
    fields = dict(line.split(": ", 1) for line in read("dpkg-deb", "--field", path).splitlines() if line[0] != " ")
    assert fields["Package"] == "gradstream-client" and fields["Version"] == package.version(), fields
    assert fields["Architecture"] == target.architecture, fields
    depends = "adduser" if target.is_static else r"libc6 \(>= 2\.\d+\).*libstdc\+\+6 \(>= [\d.]+\).*adduser"
    assert re.fullmatch(depends, fields["Depends"]), fields
    text = read("dpkg-deb", "--info", path)
    assert "warning" not in text and "conffiles" in text and "postinst" in text, text


def check_contents(path):
    found = {}
    for line in read("dpkg-deb", "--contents", path).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        assert owner == "root/root", line
        if not mode.startswith("d"):
            found[name] = mode
    assert found == FILES, found


def check_documents(tree):
    documents = tree / "usr/share/doc/gradstream-client"
    licences = (documents / "copyright").read_text(encoding="utf-8")
    for words in ("Frank Denis", "Permission to use, copy, modify", "Petteri Aimonen", "University of Cincinnati"):
        assert words in licences, words
    for path in documents.glob("*.md"):
        links = re.findall(r"\]\((?!\w+:)(.*?)(?:#.*?)?\)", path.read_text(encoding="utf-8"))
        missing = [link for link in links if link and not (documents / link).is_file()]  # empty: a place of the page
        assert not missing, f"{path.name}: the package lacks {missing}"


def check_unit(tree):
    """As far as systemd is here to judge; nothing is started."""
    unit = tree / "lib" / "systemd" / "system" / "gradstream-client.service"
    if shutil.which("systemd-analyze") is None:
        print("the unit is not verified: systemd-analyze is missing")
        return
    for target in ("basic", "sysinit", "shutdown", "network-online", "multi-user"):
        (unit.parent / f"{target}.target").write_text("[Unit]\n", encoding="ascii")
    (unit.parent / "system.slice").write_text("[Unit]\n", encoding="ascii")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={tree}", unit], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and "gradstream-client" not in done.stdout, done.stdout


def completions(tree, *words):
    """What the shell offers behind these words, the last of which is being typed."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gradstream_client; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    path = tree / "usr/share/bash-completion/completions/gradstream-client"
    return set(read("bash", "-c", script, "bash", path, "gradstream-client", *words).split())


def check_words(tree, command):
    """Man page and completion against the program's own help."""
    said = read(*command, "--help")
    options = set(re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", said))
    assert {"--server", "--until-finished", "--help"} <= options, said
    assert completions(tree, "--") == options, completions(tree, "--") ^ options
    for option, words in re.findall(r"(?m)^  (--[\w-]+) TEXT:\{(.*?)\}", said):
        assert completions(tree, option, "") == set(words.split(",")), option
    man = gzip.decompress((tree / "usr/share/man/man1/gradstream-client.1.gz").read_bytes()).decode("ascii")
    described = re.findall(r"(?m)^\.TP\n\.B[IR]? (?:\\-h \", \" )?(\\-\\-[\w\\-]+)", man)
    assert {option.replace("\\", "") for option in described} == options, described
    status = said[said.index("exit status:"):].replace("\n", " ")
    assert re.findall(r"(?m)^\.B (\d+)$", man) == re.findall(r"(?:: |; )(\d+) ", status), status
    assert not re.search(r"(?m)^\.(?!TH|SH|TP|B|BR|BI|RB|RI|br|PP|RS|RE|I\b)", man), man


def unit_and_configuration(tree):
    return [(tree / path).read_text(encoding="ascii") for path in
            ("lib/systemd/system/gradstream-client.service", "etc/gradstream/client.conf")]


def options_of(unit, configuration):
    """The options of the unit's ExecStart, as systemd makes words of them: the configuration's values go over the
    unit's own, ${NAME} is one word, $NAME as many as it has.
    """
    line = re.search(r"^ExecStart=/usr/bin/gradstream-client (.*)$", unit, re.M)[1]
    values = dict(re.findall(r'^Environment="(\w+)=(.*)"$', unit, re.M))
    values.update(re.findall(r"^(\w+)=(.*)$", configuration, re.M))
    words = []
    for word in line.split():
        name = re.fullmatch(r"\$(?:\{(\w+)\}|(\w+))", word)
        words += [word] if name is None else [values[name[1]]] if name[1] else values[name[2]].split()
    return words


def check_credentials(tree):
    """The configuration's lines for them, each as a configuration, and what has to know of their files."""
    unit, configuration = unit_and_configuration(tree)
    lines = re.findall(r"^#(CREDENTIALS=.*)$", configuration, re.M)
    assert len(lines) == len(DEVICES), lines
    assert options_of(unit, configuration) == options_of(unit, f"{configuration}{lines[0]}\n"), "it says: without any"
    conditions = set(re.findall(r"^ConditionPathExists=\|(.*)$", unit, re.M))
    assert set(re.findall(r"^Condition.*=(.*)$", unit, re.M)) == {f"|{path}" for path in conditions}, unit
    assert {line.split()[1] for line in lines} <= conditions, "the unit would not start"
    files = {word for line in lines for word in line.split() if word.startswith("/")}
    assert conditions <= files, "nobody puts a file there"
    assert all(pathlib.PurePath(path).parent in map(pathlib.PurePath, ("/etc/gradstream", "/var/lib/gradstream"))
               for path in files), files
    man = gzip.decompress((tree / "usr/share/man/man1/gradstream-client.1.gz").read_bytes()).decode("ascii")
    for name in {pathlib.PurePath(path).name for path in files}:
        assert name.replace("-", "\\-") in man[man.index(".SH FILES"):], name
    return [f"{configuration}{line}\n" for line in lines]


def make_certificates(folder):
    """As docs/how-to/certificates.md says it: a CA, the server's certificate for 127.0.0.1, and that of a device."""
    text = (fleet.ROOT / "docs" / "how-to" / "certificates.md").read_text(encoding="utf-8")
    commands = re.search(r"```\n(openssl ecparam.*?)```", text, re.S)[1]
    for word, value in (("DNS:HOST", "IP:127.0.0.1"), ("kitchen", "by_certificate")):
        assert word in commands
        commands = commands.replace(word, value)
    read("bash", "-euc", commands, cwd=folder)


class Server:
    """A server, and for each device a folder in place of its machine's root."""

    def __init__(self, home):
        self.home, self.port = home, fleet.free_port()
        self.config = ["--config", CONFIG]
        make_certificates(home)
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.device_count": len(DEVICES), "run.round_count": ROUNDS,
                           "server.device_ca_file": home / "ca.pem", "server.certificate_file": home / "server.pem",
                           "server.certificate_key_file": home / "server.key",
                           "server.device_registration": "active"}.items():
            self.config += ["--set", f"{key}={value}"]
        for name in DEVICES:
            (home / name / "etc" / "gradstream").mkdir(parents=True)
            (home / name / "var" / "lib" / "gradstream").mkdir(parents=True)
        for verb, name, file in (("device", "by_identity", "identity"), ("claim", "by_claim", "claim")):
            out = home / name / "etc" / "gradstream" / file
            fleet.command([fleet.SERVER, verb, "add", name, *self.config, "--out", out], "enrolling")
        for source, file in (("by_certificate.pem", "client.pem"), ("by_certificate.key", "client.key"),
                             ("ca.pem", "server-ca.pem")):
            shutil.copy(home / source, home / "by_certificate" / "etc" / "gradstream" / file)
        parts, mean = digits.shards(9)
        for index, name in enumerate(DEVICES):
            digits.write_shard(home / name / "var/lib/gradstream/samples.gsd", parts[index], mean)
        self.process = fleet.Process("server", [fleet.SERVER, "serve", *self.config])

    def start(self, name, tree, configuration, notify):
        """The packaged program with the unit's own options, below the device's folder."""
        options = options_of(unit_and_configuration(tree)[0], f"{configuration}SERVER=127.0.0.1:{self.port}\n")
        options = [f"{self.home}/{name}{word}" if word.startswith("/") else word for word in options]
        return fleet.Process(name, ["env", f"NOTIFY_SOCKET={notify}", *CROSS[DEVICES[name]],
                                    tree / "usr/bin/gradstream-client", *options, "--until-finished"])


def check_training(home, trees, configurations):
    server = Server(home)
    devices, digests = [], set()
    try:
        with contextlib.ExitStack() as stack:
            sockets = []
            for name, configuration in zip(DEVICES, configurations):
                path = home / f"{name}.notify"
                sockets.append(stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
                sockets[-1].bind(str(path))
                sockets[-1].settimeout(SECONDS_MAX)
                devices.append(server.start(name, trees[DEVICES[name]], configuration, path))
            for device in devices:
                line = device.wait_for_line("event=finished", SECONDS_MAX)
                assert line is not None, "\n".join([*device.lines, *server.process.lines])
                digests.add(fleet.fields(line)["digest"])
            for end in sockets:
                assert end.recv(100) == b"READY=1\nWATCHDOG=1"
    finally:
        for process in [*devices, server.process]:
            process.stop()
    assert len(digests) == 1, digests
    assert (home / "by_claim/var/lib/gradstream/identity").exists(), "the claim's identity is not kept with the state"


def check_libraries(program, target):
    dynamic = read("readelf", "-d", program)
    needed = {name for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic) if not name.startswith("ld-linux")}
    allowed = set() if target.is_static else LIBRARIES
    assert needed <= allowed, f"not in Depends: {needed - allowed}"
    if target.is_static:
        processor = re.search(r"Tag_CPU_arch: (\S+)", read("readelf", "-A", program))[1]
        assert re.match(r"v5TE|v6", processor), f"made for {processor}"
        size = program.stat().st_size
        assert size <= STATIC_BYTES_MAX, f"{size} bytes"
        print(f"package: {program.name}: {size} bytes, for {processor}, no library needed")


def check_names(home, program):
    """A static program asks the files and name servers of /etc by itself, and passes over modules that it cannot load.

    In a network and mounts of its own, with a name server that knows a.test alone."""
    if subprocess.run(["unshare", "--net", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("package: names are not looked up: unshare --net --mount is not permitted")
        return
    texts = {"hosts": "127.0.0.1 localhost in-a-file\n", "resolv.conf": "nameserver 127.0.0.1\n",
             "nsswitch.conf": "hosts: files mdns4_minimal [NOTFOUND=return] dns\n"}  # as Raspberry Pi OS has it
    script = "ip link set lo up\n"
    for name, text in texts.items():
        (home / name).write_text(text, encoding="ascii")
        script += f'mount --bind "{home}/{name}" /etc/{name}\n'
    script += 'exec "$@"\n'
    client = [*CROSS["armv6"], program, "--identity", home / "by_identity/etc/gradstream/identity",
              "--data", home / "by_identity/var/lib/gradstream/samples.gsd"]
    for host, is_found in (("127.0.0.1", True), ("in-a-file", True), ("a.test", True), ("b.test", False)):
        process = fleet.Process(host, ["unshare", "--net", "--mount", "bash", "-euc", script, "bash", sys.executable,
                                       "-B", fleet.ROOT / "tests/support/name_server.py", "a.test", *client,
                                       "--server", f"{host}:9"])
        try:
            line = process.wait_for_line("event=link_lost", SECONDS_MAX)
        finally:
            process.stop()
        assert line is not None, "\n".join(process.lines)
        assert ("name has no address" in line) != is_found, f"{host}: {line}"


def main():
    done = subprocess.run([sys.executable, "-B", fleet.ROOT / "tools" / "package.py", *KINDS], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    with tempfile.TemporaryDirectory(prefix="gradstream-package-") as folder:
        home, trees = pathlib.Path(folder), {}
        for kind in KINDS:
            path, target = package.OUT / f"gradstream-client_{package.version()}_{kind}.deb", package.TARGETS[kind]
            check_fields(path, target)
            check_contents(path)
            tree = trees[kind] = home / kind
            read("dpkg-deb", "--extract", path, tree)
            program = tree / "usr" / "bin" / "gradstream-client"
            check_libraries(program, target)
            check_documents(tree)
            check_unit(tree)
            check_words(tree, [*CROSS[kind], program])
        configurations = [check_credentials(tree) for tree in trees.values()]
        check_training(home, trees, configurations[0])
        if "armv6" in KINDS:
            check_names(home, trees["armv6"] / "usr/bin/gradstream-client")


if __name__ == "__main__":
    main()
