"""The packages on a machine: the five minutes of docs/how-to/install.md letter by letter, then what systemd and apt do
with them.

The machine is made of namespaces: an overlay over this one's file system, kept in memory, with processes, mounts and a
network of its own, and systemd as its first process. Nothing that happens in it reaches this machine.
Skips (77) where that cannot be had: without root, systemd, or the namespaces and overlays that it takes to start it.

Usage: tests/tools/install_test.py [--root FOLDER]
FOLDER: the file system of another machine, instead of this one's
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
MACHINE_SECONDS_MAX = 180
COMMAND_SECONDS_MAX = 60
TRIAL = "gradstream-trial"
BOOTED = "machine: booted"
STATUS = "http://127.0.0.1:7434"
SETTINGS = pathlib.Path("/etc/gradstream")

# Mounts the machine below FOLDER and becomes its systemd. $1: its root; $2: an empty folder; $3: what is to be run in
# it; $4: where its console goes. cgroups: systemd's own hierarchy only, of whatever version this kernel offers.
MACHINE = r"""
set -e
mount -t tmpfs -o size=2g tmpfs "$2"
cd "$2"
mkdir upper work root
mount -t overlay -o lowerdir="$1",upperdir=upper,workdir=work overlay root
mkdir -p root/proc root/sys root/dev root/run "root$5"
mount --bind "$5" "root$5"
mount -t proc proc root/proc
mount -t sysfs sysfs root/sys
mount -t tmpfs tmpfs root/sys/fs/cgroup
mkdir root/sys/fs/cgroup/systemd root/sys/fs/cgroup/unified
if mount -t cgroup -o none,name=systemd cgroup root/sys/fs/cgroup/systemd 2>/dev/null; then
  mount -t cgroup2 cgroup2 root/sys/fs/cgroup/unified
else
  umount root/sys/fs/cgroup
  mount -t cgroup2 cgroup2 root/sys/fs/cgroup
fi
mount -t tmpfs tmpfs root/run
mount -t tmpfs tmpfs root/dev
mkdir root/dev/shm root/dev/pts
ln -s /proc/self/fd root/dev/fd
ln -s pts/ptmx root/dev/ptmx
for device in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
  mknod -m 666 "root/dev/${device%% *}" c ${device#* }
done
: >"$4"
touch root/dev/console
mount --bind "$4" root/dev/console
cp "$3" "root/etc/systemd/system/"
cd root
mkdir .before
pivot_root . .before
umount -l .before
exec /usr/bin/env -i container=trial PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit="${3##*/}" --log-target=journal
"""

UNIT = """\
[Unit]
After=systemd-journald.socket
Wants=systemd-journald.socket
SuccessAction=exit-force
FailureAction=exit-force
SuccessActionExitStatus=0
FailureActionExitStatus=1

[Service]
Type=oneshot
WorkingDirectory={root}
ExecStart=/usr/bin/python3 -B {script} --inside
StandardOutput=append:/dev/console
StandardError=append:/dev/console
TimeoutStartSec={seconds}
"""

# Where there is none: the machine's user is root.
SUDO = """\
#!/bin/sh
if [ "$1" = -u ]; then
  user=$2
  shift 2
  exec runuser -u "$user" -- "$@"
fi
exec "$@"
"""


def read(*words, code=0):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=COMMAND_SECONDS_MAX)
    assert done.returncode == code, f"{words}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


# ---- In the machine -------------------------------------------------------------------------------------------------


def five_minutes():
    """The commands of that page's section, but the one that makes the packages."""
    text = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    section = text[text.index("\n## In five minutes\n"):]
    block = re.search(r"```\n(.*?)```", section, re.S)[1]
    lines = [line for line in block.splitlines() if line]
    assert lines[0].startswith("./run package"), lines
    return lines[1:]


def device_standing(name):
    """What the page's picture of the fleet is made from; None: not there yet."""
    try:
        with urllib.request.urlopen(f"{STATUS}/status/devices", timeout=COMMAND_SECONDS_MAX) as answer:
            found = json.loads(answer.read())["devices"]
    except (OSError, http.client.HTTPException):  # the server may be killed in the midst of its answer
        return None
    return next((device for device in found if device["device"] == name), None)


def wait_until(what, is_so):
    deadline = time.monotonic() + COMMAND_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def has_trained(name):
    """And was heard since the server began. Its run may be over by then: such a device comes and goes."""
    device = device_standing(name)
    return device is not None and device["last_seen_ms"] > 0 and device["folded"] > 0


def unit(name, key):
    return read("systemctl", "show", "--property", key, "--value", name).strip()


def journal(name):
    return read("journalctl", "--no-pager", "--output=cat", f"--unit={name}")


def check_services():
    for name in ("gradstream", "gradstream-client"):
        assert unit(name, "ActiveState") == "active" and unit(name, "NRestarts") == "0", journal(name)
        process = pathlib.Path("/proc", unit(name, "MainPID"))
        assert process.owner() == unit(name, "User") != "root", name
        status = (process / "status").read_text(encoding="ascii")
        assert re.search(r"^CapEff:\t0+$", status, re.M) and "NoNewPrivs:\t1" in status, status
    wanted = min(21000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])  # this machine's own limit may be lower
    limits = pathlib.Path("/proc", unit("gradstream", "MainPID"), "limits").read_text(encoding="ascii")
    assert re.search(rf"^Max open files +{wanted} ", limits, re.M), limits
    with urllib.request.urlopen(f"{STATUS}/", timeout=COMMAND_SECONDS_MAX) as answer:
        assert b"<title>" in answer.read()


def check_claim():
    """The client goes on as attic, one of a batch: its unit lets it write the identity where client.conf says."""
    own, claim, configuration = (pathlib.Path("/var/lib/gradstream/identity"), SETTINGS / "claim",
                                 SETTINGS / "client.conf")
    operator = ("sudo", "-u", "gradstream-server", "gradstream")
    read(*operator, "claim", "add", "batch", "--out", "/var/lib/gradstream-server/claim")
    read(*operator, "device", "disable", "kitchen")
    (SETTINGS / "identity").unlink()
    read("systemctl", "restart", "gradstream-client")
    assert unit("gradstream-client", "ConditionResult") == "no", "started with nothing to show"
    text, count = re.subn(r"(?m)^#(CREDENTIALS=--claim .*--name )kitchen", r"\1attic",
                          configuration.read_text(encoding="ascii"))
    assert count == 1, text
    text, count = re.subn("--retry-ms 1000", "--retry-ms 100", text)  # the server is away a few times from here on
    assert count == 1, text
    configuration.write_text(text, encoding="ascii")
    read("install", "-o", "gradstream", "-m", "600", "/var/lib/gradstream-server/claim", claim)
    read("systemctl", "start", "gradstream-client")
    wait_until("the device that claimed its identity did not train", lambda: has_trained("attic"))
    assert own.owner() == "gradstream" and own.stat().st_mode & 0o777 == 0o600
    claim.unlink()
    read("systemctl", "restart", "gradstream-client")
    assert unit("gradstream-client", "ActiveState") == "active", journal("gradstream-client")


def check_day_two(package):
    main = unit("gradstream", "MainPID")
    read("systemctl", "reload", "gradstream")
    wait_until("no reload in the journal", lambda: "event=reloaded" in journal("gradstream"))
    assert unit("gradstream", "MainPID") == main
    read("systemctl", "kill", "--signal=KILL", "gradstream")
    wait_until("the killed server did not come back",
               lambda: unit("gradstream", "NRestarts") == "1" and has_trained("attic"))
    main = unit("gradstream", "MainPID")
    read("apt-get", "install", "--reinstall", "-y", package)  # an upgrade: what ran goes on with the new program
    wait_until("the server is gone after an upgrade",
               lambda: unit("gradstream", "ActiveState") == "active" and unit("gradstream", "MainPID") != main)
    read("systemctl", "stop", "gradstream")
    assert unit("gradstream", "Result") == "success", journal("gradstream")
    # journald writes a line down when it comes to it, which may be after the process has ended.
    wait_until("the last line is not in the journal", lambda: "event=stopped" in journal("gradstream"))


def check_removal():
    state = pathlib.Path("/var/lib/gradstream-server")
    for name in re.findall(r"/etc/gradstream/(\S+)", (SETTINGS / "client.conf").read_text(encoding="ascii")):
        (SETTINGS / name).touch()
    read("apt-get", "remove", "-y", "gradstream", "gradstream-client")
    assert unit("gradstream-client", "ActiveState") == "inactive"
    assert (state / "gradstream.db").exists() and (SETTINGS / "gradstream.toml").exists()
    assert not pathlib.Path("/usr/bin/gradstream").exists()
    (SETTINGS / "conf.d" / "run.toml").unlink()  # the operator's own file stays for the operator
    read("apt-get", "purge", "-y", "gradstream", "gradstream-client")
    assert not state.exists() and not pathlib.Path("/var/lib/gradstream").exists() and not SETTINGS.exists()


def inside():
    print(BOOTED, flush=True)
    if shutil.which("sudo") is None:
        sudo = pathlib.Path("/usr/local/bin/sudo")
        sudo.write_text(SUDO, encoding="ascii")
        sudo.chmod(0o755)
    pathlib.Path("/etc/apt/apt.conf.d/99trial").write_text('APT::Get::Assume-Yes "true";\n', encoding="ascii")
    os.environ.update(PATH="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", DEBIAN_FRONTEND="noninteractive")
    begin = time.monotonic()
    for line in five_minutes():
        print(f"$ {line}")
        print(read("bash", "-euc", line), end="", flush=True)
    wait_until("the device did not train", lambda: has_trained("kitchen"))
    print(f"machine: trained_after_s={time.monotonic() - begin:.1f}")
    check_services()
    check_claim()
    check_day_two(next((ROOT / "build" / "package").glob("gradstream_*_amd64.deb")))
    check_removal()
    print("machine: passed")


# ---- Around it ------------------------------------------------------------------------------------------------------


def why_not():
    """What this machine lacks; empty: nothing."""
    if os.geteuid() != 0:
        return "it takes root"
    if not pathlib.Path("/lib/systemd/systemd").exists():
        return "it takes the package systemd"
    probe = ("d=$(mktemp -d) && mount -t tmpfs tmpfs $d && mkdir $d/u $d/w $d/m && "
             "mount -t overlay -o lowerdir=/,upperdir=$d/u,workdir=$d/w overlay $d/m; s=$?; umount -R $d; "
             "rmdir $d; exit $s")
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--net", "bash", "-c",
                           probe], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return f"no namespaces or overlays: {done.stdout.strip()}" if done.returncode != 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("/"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        try:
            inside()
        finally:
            print(f"{journal('gradstream')}\n{journal('gradstream-client')}", flush=True)
        return 0
    if lack := why_not():
        print(f"install: skipped: {lack}")
        return SKIPPED
    made = subprocess.run([sys.executable, "-B", ROOT / "tools" / "package.py", "server", "amd64"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert made.returncode == 0, made.stdout
    with tempfile.TemporaryDirectory(prefix="gradstream-install-") as folder:
        home = pathlib.Path(folder)
        (home / "machine").mkdir()
        service, console = home / f"{TRIAL}.service", home / "console"
        service.write_text(UNIT.format(root=ROOT, script=pathlib.Path(__file__).resolve(),
                                       seconds=MACHINE_SECONDS_MAX), encoding="ascii")
        done = subprocess.run(
            ["timeout", "--signal=KILL", str(MACHINE_SECONDS_MAX + 20), "unshare", "--kill-child", "--fork", "--pid",
             "--mount", "--uts", "--ipc", "--cgroup", "--net", "bash", "-c", MACHINE, "machine", arguments.root,
             home / "machine", service, console, ROOT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        said = done.stdout + (console.read_text(errors="replace") if console.exists() else "")
    print(said)
    if BOOTED not in said:  # this says nothing of the packages
        print(f"install: skipped: systemd does not start in namespaces here (exit status {done.returncode})")
        return SKIPPED
    assert "machine: passed\n" in said, f"exit status {done.returncode}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
