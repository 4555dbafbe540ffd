"""What can go wrong, a class a cause. Each message names the thing, its value, the limit and what helps."""

import re


class Error(Exception):
    """The base of all below."""


class OptionError(Error, ValueError):
    """An argument is none that can work."""


class IdentityError(Error, ValueError):
    """An identity, a certificate or a claim cannot be used."""


class DataError(Error, ValueError):
    """The samples cannot be used."""


class ClaimRefused(Error):
    """The server has refused a claim; the message has its reason, such as claim_used."""


class ServerNotProven(Error):
    """What answered a claim is not the server that made it."""


class ServerUnreachable(Error, ConnectionError):
    """No server has answered in the time given."""


class TrainingTimeout(Error, TimeoutError):
    """A run did not end in the time given."""


class OutOfMemory(Error, MemoryError):
    """arena_bytes, or the memory of the process, is too small."""


class ProcessUnfit(Error):
    """This process has no random numbers, or computes in a way that would make the model drift from the server's."""


class FileUnusable(Error, OSError):
    """A file or folder cannot be used now, but may be later."""


class ProgramFailed(Error):
    """A program of the package ended with an error; its text is what the program said."""


class NotReplayable(Error):
    """A result that no journal leads to was given where one is wanted that can be replayed."""


# By the exit status that gradstream-client would end with (docs/reference/exit_codes.md).
_CLASSES = {2: OptionError, 3: IdentityError, 4: DataError, 5: ProcessUnfit, 6: OutOfMemory, 7: ServerUnreachable,
            8: ProcessUnfit, 10: FileUnusable}


# What a remedy for users of gradstream-client calls by an option, and the argument that takes its place here.
_ARGUMENTS = {"--claim-unproven": "unproven=True", "--claim": "the file of a Claim", "--name": "name",
              "--identity": "the argument identity", "--server": "the argument server", "--server-ca": "server_ca",
              "--server-name": "server_name", "--state none": "state=None", "--state": "the argument state",
              "start gradstream-client with --problem": "open the Client with another problem"}
_OPTIONS = re.compile("(?<![^ ('])(?:" + "|".join(_ARGUMENTS) + r")(?![\w-])")


def in_python(text: str) -> str:
    """A line or sentence of the client with the names of arguments in place of those of its options."""
    return _OPTIONS.sub(lambda found: _ARGUMENTS[found[0]], text)


def of_fault(code: int, text: str) -> Error:
    """The error of a gs_py_fault."""
    text = in_python(text)
    refused = re.search(r'event=claim_refused reason=(\S+) remedy="(.*)"', text)
    if refused:
        found = ServerNotProven if refused[1] == "server_not_proven" else ClaimRefused
        return found(f"{refused[1]}: {refused[2]}")
    said = re.search(r'^event=\w+ reason="(.*)"$', text)
    return _CLASSES.get(code, Error)(said[1] if said else text)
