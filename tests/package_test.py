"""The Debian packages of the client: what is in them, what systemd says of the unit, that man page and completion have
the options that the program has, and the program of each trains under qemu-user against the real server, tells its
service manager that it lives, and needs no library but those that the package names.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402
import package  # noqa: E402  the tool under test

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
CROSS = {"arm64": ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
         "armhf": ["qemu-arm-static", "-L", "/usr/arm-linux-gnueabihf"]}
FILES = {"./usr/bin/gradstream-client": "-rwxr-xr-x", "./etc/gradstream/client.conf": "-rw-r--r--",
         "./lib/systemd/system/gradstream-client.service": "-rw-r--r--",
         "./usr/share/man/man1/gradstream-client.1.gz": "-rw-r--r--",
         "./usr/share/bash-completion/completions/gradstream-client": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/README.md": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/examples/digits.gsd": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/copyright": "-rw-r--r--",
         "./usr/share/doc/gradstream-client/changelog.gz": "-rw-r--r--"}
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}
ROUNDS = 3
SECONDS_MAX = 60


def read(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=True).stdout


def check_fields(path, architecture):
    fields = dict(line.split(": ", 1) for line in read("dpkg-deb", "--field", path).splitlines() if line[0] != " ")
    assert fields["Package"] == "gradstream-client" and fields["Version"] == package.version(), fields
    assert fields["Architecture"] == architecture, fields
    assert re.search(r"libc6 \(>= 2\.\d+\).*libstdc\+\+6 \(>= [\d.]+\).*adduser", fields["Depends"]), fields
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
    assert re.findall(r"(?m)^\.B (\d)$", man) == re.findall(r"(?:: |; )(\d) ", status), status
    assert not re.search(r"(?m)^\.(?!TH|SH|TP|B|BR|BI|RB|RI|br|PP|RS|RE|I\b)", man), man


def options_of(tree):
    """The options of the unit's ExecStart, the configuration's values filled in."""
    unit = (tree / "lib/systemd/system/gradstream-client.service").read_text(encoding="ascii")
    line = re.search(r"^ExecStart=/usr/bin/gradstream-client (.*)$", unit, re.M)[1]
    values = dict(re.findall(r"^(\w+)=(.*)$", (tree / "etc/gradstream/client.conf").read_text(encoding="ascii"), re.M))
    return re.sub(r"\$\{?(\w+)\}?", lambda match: values[match[1]], line).split()


class Server:
    """A server whose devices are the architectures."""

    def __init__(self, home):
        self.home, self.port = home, fleet.free_port()
        self.config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{self.port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.device_count": len(CROSS),
                           "run.round_count": ROUNDS}.items():
            self.config += ["--set", f"{key}={value}"]
        parts, mean = digits.shards(9)
        for index, name in enumerate(CROSS):
            fleet.command([fleet.SERVER, "device", "add", name, *self.config, "--out", home / f"{name}.identity"],
                          "enrolling")
            digits.write_shard(home / f"{name}.gsd", parts[index], mean)
        self.process = fleet.Process("server", [fleet.SERVER, "serve", *self.config])

    def start(self, name, tree, notify):
        """The packaged program with the unit's own options, those that name places changed."""
        options = options_of(tree)
        for option, value in {"--server": f"127.0.0.1:{self.port}", "--identity": self.home / f"{name}.identity",
                              "--data": self.home / f"{name}.gsd", "--state": self.home / f"{name}.state"}.items():
            options[options.index(option) + 1] = value
        return fleet.Process(name, ["env", f"NOTIFY_SOCKET={notify}", *CROSS[name], tree / "usr/bin/gradstream-client",
                                    *options, "--until-finished"])


def check_training(home, trees):
    server = Server(home)
    devices, digests = [], set()
    try:
        with contextlib.ExitStack() as stack:
            sockets = []
            for name, tree in trees.items():
                path = home / f"{name}.notify"
                sockets.append(stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
                sockets[-1].bind(str(path))
                sockets[-1].settimeout(SECONDS_MAX)
                devices.append(server.start(name, tree, path))
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


def main():
    done = subprocess.run([sys.executable, "-B", fleet.ROOT / "tools" / "package.py", *CROSS], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    with tempfile.TemporaryDirectory(prefix="gradstream-package-") as folder:
        home, trees = pathlib.Path(folder), {}
        for architecture in CROSS:
            path = package.OUT / f"gradstream-client_{package.version()}_{architecture}.deb"
            check_fields(path, architecture)
            check_contents(path)
            tree = trees[architecture] = home / architecture
            read("dpkg-deb", "--extract", path, tree)
            program = tree / "usr" / "bin" / "gradstream-client"
            dynamic = read("readelf", "-d", program)
            needed = {name for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic) if not name.startswith("ld-linux")}
            assert needed <= LIBRARIES, f"not in Depends: {needed - LIBRARIES}"
            check_unit(tree)
            check_words(tree, [*CROSS[architecture], program])
        check_training(home, trees)


if __name__ == "__main__":
    main()
