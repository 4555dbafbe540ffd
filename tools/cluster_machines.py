"""The machines of a cluster under test: a network namespace each, on one bridge, or ports of 127.0.0.1.

Namespaces take root. isolated() calls a program once more, in a network, a mount table and a table of processes of its
own. Whatever that program starts or makes there ends with it, however it ends. Its own network is where the bridge is.
"""

import os
import pathlib
import subprocess
import sys

import fleet

NETWORK = "10.99.0"  # of the bridge; nobody outside sees it
INSIDE = "GS_CLUSTER_INSIDE"  # in the environment of the program that was called once more: its folder
COMMAND_SECONDS_MAX = 30


def why_no_namespaces():
    """Why this process cannot make them; None: it can."""
    if os.geteuid() != 0:
        return "namespaces take root"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "add", "name", "b", "type",
                            "bridge"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return None if tried.returncode == 0 else f"this machine makes no namespaces: {tried.stdout.strip()}"


def isolated(arguments, folder):
    """The exit status of a script with these arguments, alone in new namespaces. The folder is the caller's."""
    child = subprocess.Popen(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", sys.executable, "-B",
         "-u", *map(str, arguments)], stdin=subprocess.DEVNULL, env={**os.environ, INSIDE: str(folder)},
        preexec_fn=fleet.die_with_parent)
    try:
        return child.wait()
    finally:
        child.kill()
        child.wait()


def folder_inside():
    """That of a script that isolated() has called; None: nobody has."""
    return os.environ.get(INSIDE)


class Loopback:
    """All machines are this one. There are no links to cut."""

    can_cut = False

    def __init__(self, names):
        self._ports = {name: {} for name in names}

    def address(self, _):
        return "127.0.0.1"

    def port(self, name, service):
        """Of a service, by its usual number."""
        return self._ports[name].setdefault(service, fleet.free_port())

    def on(self, _, command):
        """The command, as it is called on this machine."""
        return list(command)


class Namespaces:
    """A machine for each name, at NETWORK.(10 + its place). This process is at NETWORK.1."""

    can_cut = True

    def __init__(self, names):
        self._names = list(names)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)  # in this mount table alone
        pathlib.Path("/run/netns").mkdir()
        self._ip("link set lo up")
        self._ip("link add name gs type bridge")
        self._ip(f"addr add {NETWORK}.1/24 dev gs")
        self._ip("link set gs up")
        for name in self._names:
            self._ip(f"netns add {name}")
            self._ip(f"link add name {name} type veth peer name eth0 netns {name}")
            self._ip(f"link set {name} master gs up")
            self._ip(f"-n {name} addr add {self.address(name)}/24 dev eth0")
            self._ip(f"-n {name} link set eth0 up")
            self._ip(f"-n {name} link set lo up")

    def _ip(self, words):
        fleet.command(["ip", *words.split()], f"ip {words}", COMMAND_SECONDS_MAX)

    def address(self, name):
        return f"{NETWORK}.{10 + self._names.index(name)}"

    def port(self, _, service):
        return service

    def on(self, name, command):
        return ["ip", "netns", "exec", name, *command]

    def cut(self, name):
        """Nothing reaches the machine or leaves it, and nobody is told."""
        self._ip(f"link set {name} down")

    def mend(self, name):
        self._ip(f"link set {name} up")
