"""A claim: a device enrols itself once by the credential of a batch. docs/wire.md, section 1, Claims."""

import hashlib
import hmac
import json
import os
import pathlib

PRIME = 2**255 - 19


class NotProven(Exception):
    """What answered is not the claim's server."""


def x25519(scalar, point):
    """RFC 7748: 32 bytes of two others, which are little-endian."""
    k = int.from_bytes(scalar, "little") & ~7 & (1 << 255) - 1 | 1 << 254
    u = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swapped = 1, 0, u, 1, 0
    for i in reversed(range(255)):
        bit = k >> i & 1
        if swapped ^ bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swapped = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % PRIME, b * b % PRIME, d * a % PRIME, c * b % PRIME
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % PRIME, u * (da - cb) ** 2 % PRIME
        x2, z2 = aa * bb % PRIME, e * (aa + 121665 * e) % PRIME
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


BASE_POINT = (9).to_bytes(32, "little")


def hkdf(secret, salt, info):
    """HKDF-SHA256 of 32 bytes."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\1", "sha256")


class Claim:
    """Both ends' keys of one request."""

    def __init__(self, claim, key, server_public, name, secret):
        self.device_public = x25519(secret, BASE_POINT)
        shared = x25519(secret, server_public)
        if not any(shared):
            raise NotProven("the claim's file names a server without a key")
        salt = hashlib.sha256(b"gradstream claim 2" + bytes([len(claim)]) + claim.encode() + bytes([len(name)])
                              + name.encode() + server_public + self.device_public).digest()
        self.device_key = hkdf(shared + key, salt, b"device key")
        self._confirm = hkdf(shared + key, salt, b"confirm")

    def confirm(self, word):
        return hmac.digest(self._confirm, word, "sha256")[:16]


def read_identity(path):
    """The fields of an identity's or a claim's file."""
    lines = pathlib.Path(path).read_text(encoding="ascii").splitlines()
    return dict(line.split(" = ", 1) for line in lines if line and not line.startswith("#"))


def write_durably(path, text):
    path = pathlib.Path(path)
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def request_of(claim_file, identity_file, name):
    """The Claim of this device; its secret is drawn once, and stored before anything is sent."""
    claim = read_identity(claim_file)
    if "server" not in claim:
        raise NotProven("the claim's file names no server: server_not_named")
    pending = pathlib.Path(f"{identity_file}.drawn")
    if not pending.exists():
        write_durably(pending, json.dumps({"name": name, "secret": os.urandom(32).hex()}))
    drawn = json.loads(pending.read_text(encoding="utf-8"))
    return Claim(claim["identity"], bytes.fromhex(claim["key"]), bytes.fromhex(claim["server"]), drawn["name"],
                 bytes.fromhex(drawn["secret"])), drawn["name"]


def take_answer(claim, name, identity_file, answer):
    """True: the identity is this device's from now on. False: it comes again. Raises NotProven, or PermissionError
    with the reason's number.
    """
    may_be_unproven = answer["reason"] in (17, 18, 20)  # DEADLINE, OVERLOADED, STORAGE
    word = b"server" if answer["reason"] == 0 else b"refused"
    if not hmac.compare_digest(answer["confirm"], claim.confirm(word)):
        if may_be_unproven:
            return False
        pathlib.Path(f"{identity_file}.drawn").unlink()
        raise NotProven("server_not_proven")
    if answer["reason"] != 0:
        if may_be_unproven:
            return False
        raise PermissionError(answer["reason"])
    write_durably(identity_file, f"identity = {name}\nkey = {claim.device_key.hex()}\n")
    pathlib.Path(f"{identity_file}.drawn").unlink()
    return True
