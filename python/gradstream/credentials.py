"""By what a device proves who it is: an identity, a certificate, or a claim that becomes an identity."""

from __future__ import annotations

import ctypes
import os
import pathlib
import random
import time
from collections.abc import Callable
from typing import NamedTuple, Union

from gradstream.errors import OptionError, ServerUnreachable, of_fault
from gradstream.library import LIBRARY, ClaimOptions, Credentials, Fault, log_to, tell_lines, text

Path = Union[str, "os.PathLike[str]"]
CLAIM_SECONDS = 60
ATTEMPT_SECONDS_MAX = 30  # by then an attempt is over anyhow: a handshake, an answer, and a handshake by its own key
RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 8.0  # between two attempts, as the client has it


class Certificate(NamedTuple):
    """The paths of PEM files, as docs/how-to/certificates.md makes them. server_ca: the CA that has signed the server's
    certificate. server_name: that it is for, where that is not the HOST that is dialled."""
    certificate: Path
    key: Path
    server_ca: Path
    server_name: str | None = None


class Claim(NamedTuple):
    """A claim of a batch, of which the device gets an identity of its own (docs/how-to/enrol.md).

    file: that `gradstream claim add` wrote. name: that the device is to have; {hostname} and {machine-id} stand for
    this machine's. identity: where its identity is to be kept; a file that is there counts, and nothing is asked.
    seconds: the server has so long to answer; an attempt that is under way then ends. Until then a server that cannot
    be reached is tried again. The look-up of a name alone may take longer, as long as the system's resolver waits.
    Other devices of the process wait during an attempt, which takes 30 s at most. unproven: take the file of an older
    release too, which names no server.
    """
    file: Path
    name: str
    identity: Path
    seconds: float = CLAIM_SECONDS
    unproven: bool = False


def claim_identity(claim: Claim, server: str, *, log: Callable[[str], object] | None = None) -> pathlib.Path:
    """Gets the identity of a claim from the server, "HOST:PORT"; its path.

    A process that ends anywhere in between goes on with the same key. Raises ClaimRefused, ServerNotProven,
    ServerUnreachable after claim.seconds, IdentityError, FileUnusable.
    """
    end = time.monotonic() + claim.seconds
    line = log_to(log)
    options = ClaimOptions(file=text(claim.file), name=claim.name.encode(), identity_file=text(claim.identity),
                           server=server.encode(), log=line, takes_unproven=1 if claim.unproven else 0)
    wait = RETRY_SECONDS
    while True:
        fault = Fault()
        options.limit_ms = int(1000 * min(max(end - time.monotonic(), 0), ATTEMPT_SECONDS_MAX))
        code = LIBRARY.gs_py_claim_identity(ctypes.byref(options), ctypes.byref(fault))
        tell_lines()
        if code == 0:
            return pathlib.Path(claim.identity)
        failure = of_fault(code, fault.text.decode("utf-8", "replace"))
        if not isinstance(failure, ServerUnreachable):
            raise failure
        if time.monotonic() + wait > end:
            raise ServerUnreachable(f"{server} has not answered the claim within {claim.seconds} s: {failure}; is the "
                                    "server running, and are address and port right?")
        time.sleep(wait * random.uniform(0.5, 1))  # a batch is switched on at one moment
        wait = min(2 * wait, RETRY_SECONDS_MAX)


def open_credentials(credentials, server, log):
    """Credentials of the library, for what Client takes; claims what is one."""
    if isinstance(credentials, Certificate):
        return Credentials(certificate=text(credentials.certificate), key=text(credentials.key),
                           authority=text(credentials.server_ca), server_name=text(credentials.server_name))
    if isinstance(credentials, Claim):
        credentials = claim_identity(credentials, server, log=log)
    if isinstance(credentials, str) and "\n" in credentials:
        return Credentials(identity=credentials.encode())
    if not isinstance(credentials, (str, os.PathLike)):
        raise OptionError(f"the identity is of type {type(credentials).__name__}: give a path, a text, a Certificate "
                          "or a Claim")
    with open(credentials, "rb"):  # what is not there is an OSError of its own
        return Credentials(identity_file=text(credentials))
