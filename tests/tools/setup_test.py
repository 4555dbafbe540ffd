#!/usr/bin/python3
"""Set-up on machines that do not exist: a copy of it with an apt, a dpkg and a disk of the test's own.

What each verb installs; a set-up that is cut and goes on; a full disk, before and while packages come; systems that are
known, untried and unknown; how far a set-up and a build say that they are; a package without git.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import package  # noqa: E402

COPIED = ("run", "CMakePresets.json", "tools/setup.sh", "tools/progress.sh", "tools/packages.txt", "tools/build.sh",
          "tools/help.txt", "cmake/toolchain_rpi_arm64.cmake", "tools/page/package.json",
          "tools/page/package-lock.json", "tools/rp2040js/package.json", "tools/rp2040js/package-lock.json")

# $STATE/mode says what goes wrong: cut, full, or nopromtool; $STATE/calls has every call.
APT_GET = r"""
echo "apt-get $*" >>"$STATE/calls"
mode=$(cat "$STATE/mode")
words=()
for word in "$@"; do case $word in -*|*=*|/*) ;; *) words+=("$word") ;; esac; done
case "${words[0]} $*" in
  update*) exit 0 ;;
  indextargets*) echo "Debian|http://mirror.test/debian|bookworm|main" ;;
  source*) name=${words[1]%%/*}
    [[ $mode != "no $name" ]] || { echo "E: connection reset"; exit 100; }
    mkdir -p "$name-1.0/generator/proto"
    touch -d 2020-01-01 "$name-1.0/old" ;;
  download*) : >prometheus_1_amd64.deb ;;
  install*--print-uris*)
    echo "'http://mirror.test/a.deb' a.deb 5 SHA256:0"
    echo "0 upgraded, $((${#words[@]} - 1)) newly installed, 0 to remove and 0 not upgraded."
    echo "Need to get 12.6 MB/123 MB of archives."
    echo "After this operation, 510 MB of additional disk space will be used." ;;
  install*)
    [[ $mode != full ]] || { echo "E: write error - write (28: No space left on device)"; exit 100; }
    for name in "${words[@]:1}"; do
      echo "pmstatus:$name:50.0:Unpacking $name" >&3
      echo "$name" >>"$STATE/installed"
      [[ $mode != cut ]] || kill -KILL $$
    done ;;
esac
"""
FAKES = {
    "apt-get": APT_GET,
    "apt-cache": '[[ $2 != libclang-rt-14-dev ]]',
    "dpkg-query": r"""shift 3; for name in "$@"; do
  if grep -Fxq -- "$name" "$STATE/installed"; then echo "$name installed"; fi; done""",
    "dpkg": r"""echo "dpkg $*" >>"$STATE/calls"
[[ $1 != --audit ]] || cat "$STATE/audit" 2>/dev/null""",
    "dpkg-deb": r"""mkdir -p "$STATE/deb/usr/bin"; : >"$STATE/deb/usr/bin/promtool"; tar -c -C "$STATE/deb" ./usr""",
    "df": 'echo Avail; cat "$STATE/free"',
    "protoc": "exit 0",
    "npm": 'echo "npm $*" >>"$STATE/calls"',
    "node": "exit 0",
    "go": r"""echo "go $* $GOTOOLCHAIN" >>"$STATE/calls"
case $1 in env) cat "$STATE/go" ;; install) [[ -s $STATE/module ]] && : >"$GOBIN/nats-server" ;; esac""",
    "sudo": 'exec "$@"',
}
SYSTEM = 'ID=debian\nVERSION_ID="12"\n'


class Machine:
    """A tree with set-up in it, and what it takes for the machine."""

    def __init__(self, folder):
        self.tree, self.state = folder / "tree", folder / "state"
        for name in COPIED:
            target = self.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        text = (self.tree / "tools" / "setup.sh").read_text(encoding="utf-8")
        for path, own in (("/etc/os-release", self.state / "system"), ("/var/lib/dpkg", self.state),
                          ("/usr/local/go/bin/go", self.state / "no-go"),
                          ("/usr/share/keyrings/debian-archive-keyring.gpg", self.state / "system")):
            assert path in text, path
            text = text.replace(path, str(own))
        (self.tree / "tools" / "setup.sh").write_text(text, encoding="utf-8")
        (self.state / "bin").mkdir(parents=True)
        for name, script in FAKES.items():
            program = self.state / "bin" / name
            program.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
        self.set(mode="ok", installed="", calls="", system=SYSTEM, free="90000\n", go="go1.26.3\n", module="it\n")

    def set(self, **files):
        for name, text in files.items():
            (self.state / name).write_text(text, encoding="utf-8")

    def calls(self, *words):
        """The calls so far that hold all the words, and forgets them all."""
        text = (self.state / "calls").read_text(encoding="utf-8")
        self.set(calls="")
        return [line for line in text.splitlines() if all(word in line for word in words)]

    def run(self, *words):
        environment = {**os.environ, "STATE": str(self.state),
                       "PATH": f"{self.state / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"}
        environment.pop("GS_DEBIAN_MIRROR", None)
        done = subprocess.run([str(word) for word in words], cwd=self.tree, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    def setup(self, *words):
        return self.run("./run", "setup", *words)

    def brought(self, *words):
        """What a set-up for these words installs, the sources that it fetches, and what it has npm fetch."""
        self.set(installed="")
        shutil.rmtree(self.tree / "third_party", ignore_errors=True)
        self.calls()
        status, output = self.setup(*words)
        assert status == 0, output
        text = self.calls()
        installs = [line for line in text if " install " in line and "--print-uris" not in line]
        packages = {word for line in installs for word in line.split() if word[0] not in "-/" and "=" not in word}
        sources = {match[1] for line in text if (match := re.search(r" (?:source|download) (\w+)/", line))}
        return packages - {"apt-get", "install"}, sources, [line for line in text if line.startswith("npm")]


def faults_of_needs(machine):
    """(words, packages that must come, packages that must not, sources, whether npm brings something)"""
    host, arm, test = "g++", "gcc-arm-none-eabi", "libgtest-dev"
    sources = {"mbedtls", "nanopb", "libsodium"}
    cases = (
        (("demo", "--board", "none"), {host, "cmake", "python3-numpy"},
         {arm, test, "chromium", "gnuplot-nox", "clang", "npm"}, sources, False),
        (("demo", "--network", "--board=none"), {host}, {arm}, sources, False),
        (("demo",), {host, arm, "qemu-system-arm"}, {test, "chromium"}, sources | {"lwip"}, False),
        (("demo", "--board", "none", "--stay"), {host}, {arm, test, "chromium"}, sources, True),
        (("monitor",), {"python3"}, {host, "cmake"}, set(), False),
        (("digest",), {arm, "g++-arm-linux-gnueabihf", "clang"}, {test}, sources | {"lwip"}, False),
        (("emulate", "rp2040"), {arm}, {host}, sources | {"lwip"}, True),
        (("footprint",), {host, arm, "python3-numpy"}, {test}, sources | {"lwip"}, True),
        (("fuzz", "5"), {"clang", "libclang-rt-19-dev", test}, {arm, "libclang-rt-14-dev"}, sources, False),
        (("package", "server"), {host}, {"g++-aarch64-linux-gnu", arm}, sources, True),
        (("package", "server", "image"), {host, "buildah"}, {arm, "minisign"}, sources, True),
        (("package", "source"), {host, arm, "gcc-riscv64-unknown-elf", "clang", "python3-venv"}, {"minisign", test},
         sources | {"lwip"}, False),
        (("package", "sign", "--key", "k"), {"python3-numpy", "minisign"}, {host, "buildah"}, set(), False),
        (("bench", "server"), {host}, {test, "mosquitto", "postgresql-15"}, sources, False),
        (("bench", "server", "--durable-peers"), {host, "mosquitto", "postgresql-15"}, {test, arm}, sources, False),
        (("bench", "engine"), {host, "libpq-dev", "postgresql-15"}, {test, arm, "mosquitto"}, sources, False),
        (("test", "quick"), {host, test}, {arm, "chromium"}, sources, False),
        ((), {host, arm, test, "chromium", "clang-tidy", "gnuplot-nox", "libpq-dev", "postgresql-15"},
         {"mosquitto", "buildah"},
         sources | {"lwip", "prometheus"}, True))
    faults = []
    for words, needed, unwanted, wanted_sources, by_npm in cases:
        packages, fetched, npm = machine.brought(*words)
        if not needed <= packages or unwanted & packages or fetched != wanted_sources or bool(npm) != by_npm:
            faults.append(f"set-up of {words}: {sorted(packages)}, sources {sorted(fetched)}, npm {npm}; missing: "
                          f"{sorted(needed - packages)}, too many: {sorted(unwanted & packages)}")
    machine.calls()
    status, output = machine.setup()
    if status != 0 or machine.calls("apt-get") or not output.startswith("result: packages="):
        faults.append(f"set-up is done, and does something: {output}")
    return faults


def fault(what, found, status, *texts):
    """Empty, or how the found (status, output) differs."""
    missing = [text for text in texts if text not in found[1]]
    return f"{what}: exit status {found[0]}, without {missing}:\n{found[1]}" if found[0] != status or missing else ""


def faults_of_cut(machine):
    words = ("demo", "--board", "none")
    packages, _, _ = machine.brought(*words)
    shutil.rmtree(machine.tree / "third_party")
    machine.set(mode="cut", installed="", audit="")
    machine.calls()
    faults = [fault("cut", machine.setup(*words), 1, "run ./run setup demo --board none again", "goes on where")]
    first = (machine.state / "installed").read_text(encoding="utf-8").split()
    machine.set(mode="no nanopb", audit="g++ is half configured\n")
    machine.calls()
    faults.append(fault("cut in the sources", machine.setup(*words), 1, "was cut before", "nanopb/bookworm could not"))
    calls = machine.calls()
    again = [line for line in calls if " install " in line and "--print-uris" not in line]
    if len(first) != 1 or "dpkg --configure -a" not in calls or len(again) != 1 or \
            set(again[0].split()) & packages != packages - set(first):
        faults.append(f"after a cut with {first} set-up asks for {calls}")
    machine.set(mode="ok", audit="")
    faults.append(fault("the third time", machine.setup(*words), 0, "third_party/nanopb is", "fetched=2"))
    if machine.calls(" source mbedtls") or machine.calls(" install "):
        faults.append("what was there came again")
    files = [machine.tree / "third_party" / name / "old" for name in ("mbedtls", "nanopb", "libsodium")]
    faults += [f"{file} is older than what was built before" for file in files
               if time.time() - file.stat().st_mtime > 600]
    return faults


def faults_of_full_disk(machine):
    machine.set(installed="", free="300\n")
    machine.calls()
    faults = [fault("no room", machine.setup("simulate"), 1, "has 300 MB free, and set-up needs 673 MB: 13 MB to ",
                    "510 MB for", "Free 373 MB, then run ./run setup simulate again")]
    if machine.calls("Status-Fd"):
        faults.append("apt-get was asked to install on a disk without room")
    machine.set(mode="full", free="5000\n")
    faults.append(fault("full", machine.setup("simulate"), 1, "the disk is full", "No space left on device",
                        "at least 673 MB", "run ./run setup simulate again"))
    machine.set(mode="ok", free="90000\n")
    faults.append(fault("with room", machine.setup("simulate"), 0, "13 MB to fetch, 510 MB on the disk", "result: "))
    return faults


def faults_of_systems(machine):
    cases = (("ID=debian\nVERSION_ID=13", 0, "installing"), ("ID=raspbian\nVERSION_ID='12'", 0, "installing"),
             ("ID=raspbian\nVERSION_ID=13", 0, "installing"),
             ("ID=ubuntu\nVERSION_ID='24.04'", 0, "this is Ubuntu 24.04, on which set-up is untried"),
             ("ID=debian\nVERSION_ID=11", 1, "this is debian 11, and set-up knows the packages of Debian 12 and 13"),
             ("ID=fedora\nVERSION_ID=40", 1, "this is fedora 40"), ("ID=debian", 1, "this is debian, and set-up"),
             ("", 1, "this is unknown"))
    faults = []
    for system, status, text in cases:
        machine.set(installed="", system=system + "\n")
        faults.append(fault(system, machine.setup("monitor"), status, text))
    machine.set(installed="", system="ID=fedora\n")
    faults.append(fault("a verb on an unknown system", machine.run("./run", "build", "dev"), 1, "Use a machine, a",
                        "result: verb=build error=setup"))
    faults.append(fault("its help there", machine.run("./run", "demo", "--network", "--help"), 0, "--rounds"))
    machine.set(system=SYSTEM)
    return faults


def faults_of_progress(machine):
    """Of the lines for a pipe, and of the time left; bash counts SECONDS from what is put there."""
    script = """. tools/progress.sh
progress_begin it 1; progress early; SECONDS=9; progress late; progress again; SECONDS=20; progress '30 %'; progress x
time_left 0 100 50; time_left 50 100 2; time_left 50 100 30; echo; time_left 25 100 60; echo
printf 'one\\ntwo' | each_line echo true"""
    status, output = machine.run("bash", "-uc", script)
    if (status, output) != (0, "it: late\nit: 30 %\n, less than 1 min left\n, about 3 min left\none\ntwo\n"):
        return [f"progress: {status} {output}"]
    cmake = machine.state / "bin" / "cmake"
    cmake.write_text("#!/bin/bash\n"
                     'case "$*" in --fresh*) echo "-- found it" ;; *) printf "[1/2] compiling a\\n'
                     '[2/2] compiling b\\nb: warning\\n"; exit "$(cat "$STATE/mode")" ;; esac\n', encoding="utf-8")
    cmake.chmod(0o755)
    faults = []
    for status in (0, 1):
        machine.set(mode=str(status))
        shown = machine.run("tools/build.sh", "dev", "target")
        log = (machine.tree / "build" / "dev" / "build.log").read_text(encoding="utf-8")
        if shown[0] != status or not shown[1].startswith("b: warning\n") or "compiling" in shown[1] or \
                ("result: preset=dev" in shown[1]) != (status == 0) or "[2/2] compiling b" not in log:
            faults.append(f"a build of status {status}: {shown}, log: {log}")
    return faults


def faults_of_page(machine):
    """Of the commands of docs/how-to/set_up.md."""
    block = re.search(r"```\n(\./run .*?)```", (ROOT / "docs/how-to/set_up.md").read_text(encoding="utf-8"), re.S)[1]
    machine.set(installed="")
    faults = [fault(line, machine.run("bash", "-c", line), 0, "\nresult: " if "--help" in line else "result: packages=")
              for line in block.splitlines()]
    return faults if len(faults) == 3 else [f"another block of commands than this test knows: {block}"]


def faults_of_nats(machine):
    """NATS comes with the benchmark that wants it, once, and where there is a Go that is new enough."""
    words, faults = ("bench", "server", "--durable-peers"), []
    machine.brought(*words)
    folder = machine.tree / "third_party" / "nats"
    for version, module, is_tried, is_there in (("go1.19.8", "it", False, False), ("", "it", False, False),
                                                ("go1.26", "", True, False), ("go1.27rc1", "it", True, True),
                                                ("go1.27rc1", "it", False, True)):
        if not is_there:
            shutil.rmtree(folder, ignore_errors=True)
        machine.set(go=version + "\n", module=module)
        machine.calls()
        status, output = machine.setup(*words)
        tries = machine.calls("go install github.com/nats-io/nats-server/v2@v", " local")
        if status != 0 or bool(tries) != is_tried or (folder / "nats-server").exists() != is_there or \
                ("warning: NATS's server could not be built" in output) != (is_tried and not is_there):
            faults.append(f"NATS with Go '{version}' and module '{module}': {status} {tries}\n{output}")
    machine.set(installed="")
    machine.setup("simulate")
    if machine.calls("go install"):
        faults.append("a verb that needs no NATS has it built")
    return faults


def faults_of_git(folder):
    """A tree that came as an archive has no repository; a machine may have no git."""
    faults, path, root = [], os.environ["PATH"], package.ROOT
    package.ROOT = folder
    (folder / "CHANGELOG.md").write_text("\n", encoding="ascii")
    os.utime(folder / "CHANGELOG.md", (1234567890, 1234567890))
    for words in (path, str(folder)):
        os.environ["PATH"] = words
        if (time := package.source_time()) != 1234567890:
            faults.append(f"a package of a tree without git is of {time}")
    os.environ["PATH"], package.ROOT = path, root
    return faults


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-setup-") as folder:
        home = pathlib.Path(folder)
        machine = Machine(home)
        faults = [*faults_of_needs(machine), *faults_of_cut(machine), *faults_of_full_disk(machine),
                  *faults_of_systems(machine), *faults_of_page(machine), *faults_of_nats(machine),
                  *faults_of_progress(machine),
                  *faults_of_git(home)]
    faults = [text for text in faults if text]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
