"""./run soak python: the wheel installed on a Debian 12 and a Debian 13 by a user who is not root, and its demo there.

Of each, debootstrap makes the smallest file system with Python's venv, as ./run soak install does. pip installs the
wheel without an index, and `gradstream demo` ends with one digest. Before that the module's tests run here, and a call
of a loss in Python may take at most twice the time of an empty callback of ctypes: the least of several tries.

Skipped (exit status 77), with the reason, without root, debootstrap or a mirror.
"""

import re
import shutil
import subprocess
import sys

import fleet
import package
import soak_install

TEST = fleet.ROOT / "tests" / "python" / "python_test.py"
SECONDS_MAX = 300
RATIO_MAX, TRIES_MAX = 2.0, 5
# As root of a file system and processes of its own; then as nobody, who has number 65534 on Debian.
SCRIPT = """
set -eu
mount -t proc proc /proc
export HOME=/tmp/try
rm -rf /tmp/try
install -d -o 65534 -g 65534 /tmp/try
exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -euc '
  python3 -m venv /tmp/try/venv
  /tmp/try/venv/bin/pip install --quiet --no-index /tmp/wheels/*.whl
  cd /tmp/try
  id -u
  venv/bin/gradstream --version
  venv/bin/gradstream demo'
"""


def call_ratio():
    """The least of some tries: a machine that does other work only adds."""
    ratios = []
    while len(ratios) < TRIES_MAX and min(ratios, default=RATIO_MAX + 1) > RATIO_MAX:
        done = subprocess.run([sys.executable, "-B", TEST], cwd=fleet.ROOT, stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
        if done.returncode != 0:
            raise package.Failure(done.stdout)
        ratios.append(float(re.search(r"ratio=([\d.]+)", done.stdout)[1]))
    return min(ratios)


def play(suite, wheel):
    """What the demo says on this release."""
    root = soak_install.make_machine(suite, "python-", "python3-venv")
    wheels = root / "tmp" / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir()
    shutil.copy(wheel, wheels)
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", root, "sh", "-c", SCRIPT],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=SECONDS_MAX)
    found = re.search(r"^result: .* digests=1 .*$", done.stdout, re.M)
    if done.returncode != 0 or found is None or not done.stdout.startswith("65534\n"):
        raise package.Failure(f"{suite}: exit status {done.returncode}:\n{done.stdout}")
    return found[0].removeprefix("result: ")


def main():
    if lack := soak_install.why_not():
        print(f"python: skipped: {lack}")
        return soak_install.SKIPPED
    try:
        wheel = package.make(package.PYTHON)
        ratio = call_ratio()
        print(f"python: a call of a loss takes {ratio:.2f} times an empty callback, at most {RATIO_MAX:g}")
        for suite in soak_install.SUITES:
            print(f"python: {suite}: {play(suite, wheel)}", flush=True)
    except (package.Failure, subprocess.SubprocessError) as failure:
        print(f"python: {failure}")
        return 1
    print(f"python: {wheel.name}, {wheel.stat().st_size} bytes")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
