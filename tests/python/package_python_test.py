"""The wheel of Python: its size, and what its record says of its files. Its programs and its library need no library
but those of every Debian. It works from where pip would put it, without NumPy. `./run soak python` installs it.
"""

import base64
import configparser
import csv
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402
import package  # noqa: E402  the tool under test

BYTES_MAX = 8000000
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
SECONDS_MAX = 60
SCRIPT = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
import gradstream
print(gradstream.simulate(devices=3, rounds=2, seed=1)["digest"])
client = gradstream.Client("identity = a\\nkey = " + "5a" * 32 + "\\n", "127.0.0.1:1", [[1, 2], [3, 4]],
                           gradstream.Loss(lambda x, indices: x[0, 0] + len(indices), shape=(2, 1), count=2))
assert client.evaluate([[0.5], [2]], count=2) == 2.5 and client.model() is None
assert gradstream.__version__ == "{version}"
"""


def make_wheel():
    done = subprocess.run([sys.executable, "-B", fleet.ROOT / "tools" / "package.py", "python"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return pathlib.Path(fleet.ROOT, re.search(r"^package: (\S+\.whl), ", done.stdout, re.M)[1])


def check_record(archive, described):
    rows = {name: (digest, size) for name, digest, size in
            csv.reader(io.StringIO(archive.read(f"{described}/RECORD").decode()))}
    assert set(rows) == set(archive.namelist()), set(rows) ^ set(archive.namelist())
    for name, (digest, size) in rows.items():
        if name != f"{described}/RECORD":
            content = archive.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(content)), name


def check_contents(archive, described, tag):
    text = archive.read(f"{described}/METADATA").decode()
    assert f"\nVersion: {package.version()}\n" in text and "](../" not in text, "the page links to what is not there"
    assert f"\nTag: {tag}\n" in archive.read(f"{described}/WHEEL").decode()
    assert "Frank Denis" in archive.read(f"{described}/licences.txt").decode()
    commands = configparser.ConfigParser()
    commands.read_string(archive.read(f"{described}/entry_points.txt").decode())
    for command, place in commands["console_scripts"].items():
        module, function = place.split(":")
        source = archive.read(f"{module.replace('.', '/')}.py").decode()
        assert f"\ndef {function}(" in source, f"{command}: {place}"


def main():
    wheel = make_wheel()
    size = wheel.stat().st_size
    assert size <= BYTES_MAX, f"{size} bytes"
    name, version, *tag = wheel.stem.split("-")
    with tempfile.TemporaryDirectory(prefix="gradstream-wheel-") as folder, zipfile.ZipFile(wheel) as archive:
        described = f"{name}-{version}.dist-info"
        check_record(archive, described)
        check_contents(archive, described, "-".join(tag))
        for entry in archive.infolist():
            path = pathlib.Path(archive.extract(entry, folder))
            path.chmod(entry.external_attr >> 16 & 0o777)
        for path in [*pathlib.Path(folder, name, "bin").iterdir(), *pathlib.Path(folder, name, "lib").iterdir()]:
            dynamic = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
            assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) <= LIBRARIES, path
            assert path.stat().st_mode & 0o111 == 0o111, path
        done = subprocess.run([sys.executable, "-B", "-c", SCRIPT.replace("{version}", version)], cwd=folder,
                              stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS_MAX)
        assert re.fullmatch("[0-9a-f]{16}\n", done.stdout), done.stdout
    print(f"package_python: {wheel.name}, {size} bytes")


if __name__ == "__main__":
    main()
