#!/usr/bin/python3
"""The server's image (tools/package_image.py), the commands of operations/container/compose.yaml in it, and signatures.

It does what docs/how-to/container.md says. The archive is the same bytes twice. Unpacked, it serves as the image's
user: with the health check, the claim and the device of compose.yaml, and two native clients beside it. Then the
packages are signed, and what was changed is refused.

./run soak image runs it. Skipped (exit status 77), with the reason, without root, buildah or minisign.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402
import package  # noqa: E402
import package_image  # noqa: E402  the tool under test
import package_sign  # noqa: E402

SKIPPED = 77
SECONDS_MAX = 120
ROUNDS = 10
DEVICES = ("device1", "device2", "device3")
RUN = f'''[run]
name = "first"
problem = "kpca"
rows = 64
cols = 4
device_count = {len(DEVICES)}
round_count = {ROUNDS}
retry_min_ms = 5
retry_max_ms = 15
'''


def why_not():
    """What this machine lacks; empty: nothing."""
    if os.geteuid() != 0:
        return "it takes root"
    return next((f"it takes the package {name}" for name in ("buildah", "minisign") if not shutil.which(name)), "")


def unpack(archive, folder):
    """The image's configuration, and the folder of its file system."""
    name = package_image.buildah(folder, package.run, "from", "--quiet", f"oci-archive:{archive}").split()[-1]
    told = json.loads(package_image.buildah(folder, package.run, "inspect", name))
    root = pathlib.Path(package_image.buildah(folder, package.run, "mount", name).strip())
    return told["OCIv1"]["config"], root


def check_image(archive, config, root):
    assert archive.stat().st_size <= package_image.SIZE_MAX, archive.stat().st_size
    user = f"{package_image.USER}:{package_image.USER}"
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == (user, ["/usr/bin/gradstream"],
                                                                     ["serve", "--create"]), config
    assert list(config["Volumes"]) == ["/data"] and list(config["ExposedPorts"]) == [package_image.PORT], config
    owners = {str(path.relative_to(root)) for path in root.rglob("*") if path.lstat().st_uid != 0}
    assert owners == {package_image.DATA, package_image.CLAIMS}, owners
    document = json.loads((root / "usr/share/doc/gradstream/sbom.cdx.json").read_text(encoding="utf-8"))
    libraries = {entry["name"] for entry in document["components"]}
    assert {"glibc", "libstdc++", "Mbed TLS", "SQLite", "Eigen"} <= libraries, libraries
    texts = {str(path.relative_to(root)) for path in root.rglob("usr/share/*/*/*")}
    assert {f"usr/share/doc/{name}/copyright" for name in package_image.LICENCES} <= texts, texts


def commands_of_compose():
    """service -> its words: compose.yaml writes each list of them as JSON, on one line or two."""
    text = (package_image.OPERATIONS / "compose.yaml").read_text(encoding="ascii")
    found = re.findall(r"(?ms)^  (\w+):\n(?:(?!^  \w).)*?^    command: (\[.*?\])$", text)
    commands = {name: json.loads(words) for name, words in found}
    commands["health"] = json.loads(re.search(r"(?m)^      test: (\[.*\])$", text)[1])[1:]
    assert set(commands) == {"server", "enrol", "health", *DEVICES}, commands
    return commands


class Container:
    """The image's file system, in which words are run as its user."""

    def __init__(self, root, ports):
        self.root = root
        self.variables = [f"GRADSTREAM_SERVER_LISTEN=127.0.0.1:{ports[0]}",
                          f"GRADSTREAM_SERVER_HTTP_LISTEN=127.0.0.1:{ports[1]}"]

    def words(self, *words):
        user = f"{package_image.USER}:{package_image.USER}"
        return ["env", "-i", *self.variables, shutil.which("chroot"), f"--userspec={user}", str(self.root), *words]

    def run(self, *words):
        return subprocess.run(self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=SECONDS_MAX)


def train(root, home):
    """One device of compose.yaml, which has no volumes here: its files lie in /data beside the server's."""
    ports, commands = (fleet.free_port(), fleet.free_port()), commands_of_compose()
    container = Container(root, ports)
    (root / "etc/gradstream/conf.d/run.toml").write_text(RUN, encoding="ascii")
    pixels, mean = digits.shards(len(DEVICES))
    for index, name in enumerate(DEVICES):
        digits.write_shard(home / f"{name}.gsd", pixels[index], mean)
    shutil.copy(home / "device1.gsd", root / "samples.gsd")
    (root / "samples.gsd").chmod(0o644)
    before = container.run(*commands["health"])
    assert before.returncode == 5, before.stdout
    with contextlib.ExitStack() as ending:
        server = fleet.Process("server", container.words("/usr/bin/gradstream", *commands["server"]))
        ending.callback(server.kill)
        assert server.wait_for_line("event=http_listening", SECONDS_MAX), server.lines
        health = container.run(*commands["health"])
        assert health.returncode == 0 and "alive=yes" in health.stdout, health.stdout
        claim = container.run("/usr/bin/gradstream", *commands["enrol"])
        assert claim.returncode == 0, claim.stdout
        first = [word.replace("server:7433", f"127.0.0.1:{ports[0]}") for word in commands["device1"]]
        clients = [fleet.Process("device1", container.words("/usr/bin/gradstream-client", *first, "--until-finished"))]
        for name in DEVICES[1:]:
            clients.append(fleet.Process(name, [
                fleet.BUILD / "boards/posix/gradstream-client", "--server", f"127.0.0.1:{ports[0]}", "--claim",
                root / "claims/first.claim", "--name", name, "--identity", home / f"{name}.identity", "--data",
                home / f"{name}.gsd", "--until-finished"]))
        for client in clients:
            ending.callback(client.kill)
        for client in clients:
            assert client.wait(SECONDS_MAX) == 0, (client.name, client.lines[-20:], server.lines[-20:])
        assert server.wait_for_line(f"event=version version={ROUNDS} ", SECONDS_MAX), server.lines[-20:]
        assert server.stop() == 0, server.lines[-20:]
    assert container.run(*commands["health"]).returncode == 5, "it is alive after its end"


def refusal(folder, public):
    """Why verify() refuses; empty: it does not."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            package_sign.verify(folder, public)
    except package_sign.Failure as failure:
        return str(failure)
    return ""


def check_signature(archive, home):
    folder = home / "signed"
    folder.mkdir()
    copy = pathlib.Path(shutil.copy(archive, folder))
    for name in ("own", "other"):
        package.run("minisign", "-G", "-W", "-p", home / f"{name}.pub", "-s", home / f"{name}.key")
    assert package_sign.sign(folder, home / "own.key") == "signed=1"
    public = home / "own.pub"
    assert refusal(folder, public) == ""
    assert "is not signed by the key" in refusal(folder, home / "other.pub")
    (folder / "late.deb").write_bytes(b"")
    assert "late.deb has no line" in refusal(folder, public)
    (folder / "late.deb").unlink()
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    assert "is not what was signed" in refusal(folder, public)
    sums = folder / package_sign.SUMS
    sums.write_text(f"{package_sign.digest(copy)}  {copy.name}\n", encoding="utf-8")
    assert "is not signed by the key" in refusal(folder, public)
    copy.unlink()
    assert "holds no package" in sign_fault(folder, home / "own.key")


def sign_fault(folder, key):
    try:
        package_sign.sign(folder, key)
    except package_sign.Failure as failure:
        return str(failure)
    return ""


def main():
    if lack := why_not():
        print(f"image: skipped: {lack}")
        return SKIPPED
    archives = []
    for _ in range(2):
        archives.append(package.make_image().read_bytes())
    assert archives[0] == archives[1], "the same sources gave other bytes"
    archive = package.OUT / f"gradstream_{package.version()}_amd64.oci.tar"
    with tempfile.TemporaryDirectory(prefix="gradstream-image-") as folder:
        home = pathlib.Path(folder)
        config, root = unpack(archive, home / "buildah")
        check_image(archive, config, root)
        train(root, home)
        check_signature(archive, home)
        package_image.buildah(home / "buildah", package.run, "umount", "--all")
    print(f"image: {len(archives[0])} bytes, the same twice; {len(DEVICES)} devices, {ROUNDS} rounds; signature holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
