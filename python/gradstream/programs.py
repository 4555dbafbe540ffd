"""The programs of the package: gradstream (the server and its verbs), gradstream-client, gradstream-sim."""

import os
import pathlib
import subprocess
import sys

from gradstream.errors import ProgramFailed

FOLDER = pathlib.Path(__file__).resolve().parent


def program(name: str) -> str:
    """The path of gradstream, gradstream-client or gradstream-sim."""
    return str(FOLDER / "bin" / name)


def ask(name, *arguments):
    """What the program prints. Raises ProgramFailed."""
    done = subprocess.run([program(name), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise ProgramFailed((done.stderr or done.stdout).strip() or f"{name} ended with {done.returncode}")
    return done.stdout


def server():
    """The command gradstream: `gradstream demo` is of this package, all other verbs are the program's."""
    if sys.argv[1:2] == ["demo"]:
        from gradstream import demo
        return demo.main(sys.argv[2:])
    return os.execv(program("gradstream"), ["gradstream", *sys.argv[1:]])


def client():
    """The command gradstream-client."""
    os.execv(program("gradstream-client"), ["gradstream-client", *sys.argv[1:]])


def simulator():
    """The command gradstream-sim."""
    os.execv(program("gradstream-sim"), ["gradstream-sim", *sys.argv[1:]])
