"""PlatformIO builds the source package for this machine, and the program trains: for tools/package_source_trial.py.

PlatformIO and SCons come from the index of Python's packages into a folder of their own. What PlatformIO would fetch
from its own registry stands here: a platform `native` of three files, and SCons as the tool that it looks for.
"""

import json
import os
import shutil
import subprocess
import sys

import fleet
import package_source
from package_source import NAME, Failure

PACKAGES = ("platformio==6.2.0", "scons==4.11.1")
UNREACHABLE = "after connection broken by"  # pip says so of each dial that it tries again, whatever broke it
INSTALL_SECONDS_MAX, BUILD_SECONDS_MAX, TRAIN_SECONDS_MAX = 300, 3600, 120
ROUNDS = 30
DIMENSION, SAMPLES = 16, 64  # of examples/linux/linux.c
RUN = {"name": "source", "problem": "kpca", "manifold": "stiefel", "rows": DIMENSION, "cols": 2, "centre": "none",
       "scale": "none", "solver": "projection", "direction_count": 8, "local_step_count": 4, "batch_size": 16,
       "step_size": 0.01, "round_count": ROUNDS, "device_count": 2, "update_goal": "all", "seen_versions": 0,
       "retry_min_ms": 5, "retry_max_ms": 15}
PLATFORM = {
    "platform.json": json.dumps({"name": "native", "title": "Native", "version": "1.0.0", "packages": {}}),
    "platform.py": "from platformio.public import PlatformBase\n\n\nclass NativePlatform(PlatformBase):\n    pass\n",
    "builder/main.py": "from SCons.Script import Default, DefaultEnvironment\n\nDefault(DefaultEnvironment()"
                       ".BuildProgram())\n",
}
PROJECT = """\
[env:native]
platform = native
lib_deps = file://{package}
"""


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def make_venv(folder):
    """Python of a new folder of packages; pip is in it."""
    package_source.run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def pip_install(python, packages=PACKAGES):
    """False: the index cannot be reached. Raises Failure where pip fails for any other reason."""
    words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2", *packages]
    try:
        done = subprocess.run(words, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=INSTALL_SECONDS_MAX)
    except subprocess.TimeoutExpired as late:
        raise Failure(f"pip has not installed {' '.join(packages)} in {INSTALL_SECONDS_MAX} s") from late
    if done.returncode != 0 and UNREACHABLE not in done.stdout:
        raise Failure(f"pip cannot install {' '.join(packages)}:\n{done.stdout[-4000:]}")
    return done.returncode == 0


def stand_in(core, python):
    """What PlatformIO's registry would send, in the folder that it keeps such things in."""
    put(core / "platforms" / "native", PLATFORM)
    script = ("import json, SCons; from platformio.dependencies import get_core_dependencies as known; "
              "print(json.dumps([known()['tool-scons'].strip('~'), SCons.__path__[0]]))")
    done = subprocess.run([python, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=True, timeout=INSTALL_SECONDS_MAX)
    version, module = json.loads(done.stdout)
    tool = core / "packages" / "tool-scons"
    shutil.rmtree(tool, ignore_errors=True)
    described = {"name": "tool-scons", "version": version}
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    put(tool, {"package.json": json.dumps(described), ".piopm": json.dumps({"type": "tool", **described, "spec": spec}),
               "scons.py": "import SCons.Script\n\nSCons.Script.main()\n"})
    shutil.copytree(module, tool / "SCons")


def build(python, core, package, work):
    """The example's program, as a project of PlatformIO builds it from the zip `package`; its path."""
    project = work / "project"
    shutil.rmtree(project, ignore_errors=True)
    put(project, {"platformio.ini": PROJECT.format(package=package)})
    (project / "src").mkdir()
    shutil.copy(work / "trial" / NAME / "examples" / "linux" / "linux.c", project / "src")
    environment = dict(os.environ, PLATFORMIO_CORE_DIR=str(core), PLATFORMIO_SETTING_ENABLE_TELEMETRY="no",
                       PLATFORMIO_NO_ANSI="true", PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL="0")
    done = subprocess.run([python, "-m", "platformio", "run", "-j", "2", "-d", project], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=BUILD_SECONDS_MAX)
    program = project / ".pio" / "build" / "native" / "program"
    if done.returncode != 0 or not program.is_file():
        raise Failure(f"`pio run` ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return program


def train(program, home):
    """The program and a client of this tree train one run; the program's last words."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    port = fleet.free_port()
    run = "".join(f"{key} = {json.dumps(value)}\n" for key, value in RUN.items())
    put(home, {"fleet.toml": f'[server]\nlisten = "127.0.0.1:{port}"\ndatabase = "{home}/gradstream.db"\n'
                             f"[server.limits]\nstore_delay_ms = 1\n[run]\n{run}"})
    config = ["--config", home / "fleet.toml"]
    rows = [[(7 * i + 3 * j) % 11 - 5 for j in range(DIMENSION)] for i in range(SAMPLES)]
    (home / "native.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    for name in ("package", "native"):
        fleet.command([fleet.SERVER, "device", "add", name, *config, "--out", home / f"{name}.identity"], "enrolling")
    fleet.command([fleet.SERVER, "run", "start", *config], "starting the run")
    processes = [fleet.Process("server", [fleet.SERVER, "serve", *config])]
    try:
        processes.append(fleet.Process("package", [program, home / "package.identity", "127.0.0.1", port]))
        processes.append(fleet.Process("native", [
            fleet.CLIENT, "--server", f"127.0.0.1:{port}", "--identity", home / "native.identity", "--data",
            home / "native.csv", "--state", "none", "--until-finished"]))
        _, ours, native = processes
        status = ours.wait(TRAIN_SECONDS_MAX), native.wait(TRAIN_SECONDS_MAX)
        said = ours.lines[-1] if ours.lines else ""
        digest = fleet.fields(said).get("digest", "none")
        same = any(f"digest={digest}" in line for line in native.lines)
        if status != (0, 0) or f"version={ROUNDS} folded={ROUNDS} mismatches=0 " not in said or not same:
            tails = ["\n".join(process.lines[-12:]) for process in processes]
            raise Failure(f"the program of PlatformIO did not train {ROUNDS} rounds (exit status {status}):\n"
                          + "\n--\n".join(tails))
        return said
    finally:
        for process in reversed(processes):
            process.stop()


def trial(package, work):
    """Builds and trains; the word of the result line: how long, or `absent` where pip reaches no index."""
    python = make_venv(work / "venv")
    if not pip_install(python):
        print("package: source: PlatformIO is not tried, as pip reaches no index here", flush=True)
        return "absent"
    core = work / "platformio"
    stand_in(core, python)
    said = train(build(python, core, package, work), work / "run")
    print(f"package: source: PlatformIO's program trained: {said}", flush=True)
    return f"{ROUNDS}_rounds"
