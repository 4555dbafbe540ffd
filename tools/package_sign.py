"""Checksums of what tools/package.py has made, signed by minisign: SHA256SUMS and SHA256SUMS.minisig beside it."""

import hashlib
import shutil
import subprocess

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.minisig"
KINDS = (".deb", ".tar", ".json", ".whl", ".zip", ".gz")


class Failure(Exception):
    """What is wrong, with the remedy."""


def minisign(*words):
    """Its output is the user's, and so is its input: it may ask for the key's password."""
    if shutil.which("minisign") is None:
        raise Failure("minisign is missing: apt-get install minisign brings it")
    return subprocess.run(["minisign", *map(str, words)], check=False).returncode


def packages_in(folder):
    return sorted(path for path in folder.glob("*") if path.is_file() and path.suffix in KINDS)


def digest(path):
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def read_sums(folder):
    """name -> digest, of a file whose signature holds."""
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    return {name: value for value, name in (line.split("  ", 1) for line in lines)}


def check_key(path, option, made_by):
    if path is None or not path.is_file():
        raise Failure(f"{option} {path or 'FILE'}: there is no such file; `{made_by}` makes a pair of keys")


def sign(folder, key):
    """Writes both files, of every package in the folder; words for the result line."""
    check_key(key, "--key", "minisign -G")
    packages = packages_in(folder)
    if not packages:
        raise Failure(f"{folder} holds no package: ./run package makes them")
    (folder / SUMS).write_text("".join(f"{digest(path)}  {path.name}\n" for path in packages), encoding="utf-8")
    (folder / SIGNATURE).unlink(missing_ok=True)
    if minisign("-S", "-s", key, "-m", folder / SUMS, "-x", folder / SIGNATURE) != 0:
        raise Failure(f"minisign did not sign with {key}: see what it said above")
    return f"signed={len(packages)}"


def verify(folder, public):
    """Demands that the signature is of this key, that each package has its sum, and that none is without one."""
    check_key(public, "--public", "minisign -G")
    for name in (SUMS, SIGNATURE):
        if not (folder / name).is_file():
            raise Failure(f"{folder / name} is missing: `./run package sign --key FILE` writes it")
    if minisign("-V", "-q", "-p", public, "-m", folder / SUMS, "-x", folder / SIGNATURE) != 0:
        raise Failure(f"{SUMS} is not signed by the key in {public}: get it anew, or trust none of the packages")
    sums = read_sums(folder)
    found = {path.name: digest(path) for path in packages_in(folder)}
    for name in sorted(sums.keys() | found.keys()):
        if name not in sums:
            raise Failure(f"{name} has no line in {SUMS}: it is not signed")
        if name not in found:
            raise Failure(f"{name} is signed, and is not in {folder}")
        if found[name] != sums[name]:
            raise Failure(f"{name} is not what was signed: its SHA-256 is {found[name]}, and was {sums[name]}")
    return f"verified={len(sums)}"
