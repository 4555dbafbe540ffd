"""./run soak install: the packages of server and client on other releases of Debian than the one that built them.

For each of Debian 12 and 13 debootstrap makes a machine's file system in build/soak, from this machine's own mirror or
GS_DEBIAN_MIRROR: the smallest one, with systemd, python3 and adduser. tests/tools/install_test.py then installs both
packages there, follows docs/how-to/install.md, and serves, trains, reloads, kills, upgrades and purges under systemd.

Skipped (exit status 77), with the reason, without root, debootstrap, a mirror, or what that test needs.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import fleet

SKIPPED = 77
SUITES = ("bookworm", "trixie")
TEST = fleet.ROOT / "tests" / "tools" / "install_test.py"
FOLDER = fleet.ROOT / "build" / "soak"
# Beside minbase: what the machine's first process and the test in it are, and what the packages' scripts call.
PACKAGES = "systemd,python3,adduser"
MAKING_SECONDS_MAX = 1800  # of a slow mirror: 200 MB


def mirror():
    """The address of a Debian mirror; empty: apt names none. As tools/setup.sh finds it."""
    if "GS_DEBIAN_MIRROR" in os.environ:
        return os.environ["GS_DEBIAN_MIRROR"]
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
                           "Created-By: Packages"], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return next((uri for origin, uri, suite, component in rows
                 if origin == "Debian" and component == "main" and suite in (*SUITES, "stable", "oldstable")), "")


def why_not():
    """What this machine lacks; empty: nothing. The test itself says what it needs beside."""
    if os.geteuid() != 0:
        return "it takes root"
    if shutil.which("debootstrap") is None:
        return "it takes the package debootstrap"
    if not mirror():
        return "apt knows no Debian mirror: GS_DEBIAN_MIRROR=ADDRESS names one"
    return ""


def make_machine(suite, prefix="", packages=PACKAGES):
    """The folder of its file system, which is kept for the next time."""
    root = FOLDER / f"{prefix}{suite}"
    if not root.exists():
        unfinished = FOLDER / f".{root.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        print(f"soak: debootstrap makes a {root.name}", flush=True)
        with open(FOLDER / f"{root.name}.log", "wb") as log:
            # In mounts of its own: debootstrap may leave its /proc mounted, and the folder could not be removed.
            subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={packages}", suite,
                            unfinished, mirror()], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True,
                           timeout=MAKING_SECONDS_MAX)
        unfinished.rename(root)
    return root


def main():
    if lack := why_not():
        print(f"install: skipped: {lack}")
        return SKIPPED
    passed = []
    for suite in SUITES:
        try:
            root = make_machine(suite)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
            print(f"install: debootstrap failed for {suite} ({failure}); it says why in {FOLDER / suite}.log")
            return 1
        version = pathlib.Path(root, "etc", "debian_version").read_text(encoding="ascii").strip()
        status = subprocess.run([sys.executable, "-B", "-u", TEST, "--root", root], cwd=fleet.ROOT,
                                stdin=subprocess.DEVNULL, check=False).returncode
        if status != 0:
            print(f"install: {suite} (Debian {version}) ended with exit status {status}")
            return status
        passed.append(f"{suite} (Debian {version})")
    print(f"install: passed on {', '.join(passed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
