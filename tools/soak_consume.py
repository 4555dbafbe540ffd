"""./run soak consume: projects of users that compile the tree themselves, or find it installed, each in a new folder.

By find_package(), and by make with pkg-config. By add_subdirectory(), by FetchContent from an archive, and with an
Mbed TLS of the project's own: on this host, and for a Cortex-M4F as a super loop that is linked (with -flto, as the
toolchain file says). A board outside the tree is built for a Cortex-M3, and one for a RISC-V. Meanwhile the headers and
sources of what a device does not need are hidden: SQLite, spdlog, fmt, JSON, TOML, CLI11, Asio, Nettle, Eigen and
GoogleTest. None of these projects has a test of ours, and the state of a device has one size in their files and in the
library's. The program in C of a Linux project then trains 10 rounds against the server of build/dev on 127.0.0.1.

Skipped (exit status 77), with the reason, without root, a cross compiler or the sources of third_party/.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import fleet

PROJECTS = fleet.ROOT / "tests" / "consume"
sys.path.append(str(PROJECTS))
import consume_test  # noqa: E402  of the same projects, as far as seconds last

SKIPPED = 77
INSTALLED = "gradstream-dev"  # what the build makes and installs for other projects
SECONDS_MAX = 1800  # of one build, of which C++ takes the most
HIDDEN_FOLDERS = ("spdlog", "fmt", "nlohmann", "toml++", "CLI", "asio", "nettle", "eigen3", "gtest", "gmock")
HIDDEN_FILES = ("sqlite3.h", "asio.hpp")
SOURCES = ("mbedtls", "libsodium", "nanopb")  # of third_party/, which a device is made of
COMPILERS = ("arm-none-eabi-g++", "riscv64-unknown-elf-g++")
ARM = [f"-DCMAKE_TOOLCHAIN_FILE={fleet.ROOT}/cmake/toolchain_arm_none_eabi.cmake"]
M4F = [*ARM, "-DGS_CPU_FLAGS=-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"]
M3 = [*ARM, "-DGS_CPU_FLAGS=-mcpu=cortex-m3 -mfloat-abi=soft"]
RISCV = [f"-DCMAKE_TOOLCHAIN_FILE={fleet.ROOT}/cmake/toolchain_riscv_unknown_elf.cmake",
         "-DGS_CPU_FLAGS=-march=rv32imc -mabi=ilp32"]
BOARDS = {"template": M3, "riscv_virt": RISCV}  # that are copied out of the tree
ROUNDS = 10
SERVER_SECONDS = 10
TRAIN_SECONDS = 90  # the program itself gives up after a minute
CONFIG = """[server]
listen = "127.0.0.1:{port}"
database = "{home}/gs.db"
[run]
name = "consume"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
step_size = 0.1
device_count = 1
round_count = {rounds}
"""


def why_not():
    """What this machine lacks; empty: nothing."""
    if os.geteuid() != 0:
        return "only root can hide folders from the projects"
    for name in COMPILERS:
        if shutil.which(name) is None:
            return f"{name} is missing (./run setup build)"
    missing = [name for name in SOURCES if not (fleet.ROOT / "third_party" / name).is_dir()]
    return f"third_party/{missing[0]} is missing (./run setup build)" if missing else ""


def hide():
    """In this mount namespace alone. What stood open before stays so."""
    include = pathlib.Path("/usr/include")
    for folder in (*(include / name for name in HIDDEN_FOLDERS), pathlib.Path("/usr/src/googletest")):
        if folder.is_dir():
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
            assert not any(folder.iterdir()), folder
    for name in HIDDEN_FILES:
        file = include / name
        if file.is_file():
            subprocess.run(["mount", "--bind", "/dev/null", file], check=True)


def use_cache():
    """Compilers behind ccache, where there is one: these projects have many objects in common. Their folder has another
    name each time, so that all paths count from it."""
    if shutil.which("ccache"):
        os.environ.update(CCACHE_DIR=str(fleet.ROOT / "build" / "ccache"), CCACHE_BASEDIR="/", CCACHE_NOHASHDIR="1",
                          CCACHE_SLOPPINESS="include_file_mtime,include_file_ctime", CMAKE_C_COMPILER_LAUNCHER="ccache",
                          CMAKE_CXX_COMPILER_LAUNCHER="ccache")


def build(name, source, folder, targets, *options):
    """Builds these targets in an empty folder, which it returns. Says the number of its compilations and links."""
    work = folder / name
    fleet.command(["cmake", "-G", "Ninja", "-S", source, "-B", work, *options], f"the configuration of {name}", 120)
    listed = fleet.command(["ctest", "--test-dir", work, "-N"], f"the tests of {name}")
    if "Total Tests: 0" not in listed:
        raise RuntimeError(f"{name} has tests of ours in its ctest:\n{listed}")
    said = fleet.command(["ninja", "-C", work, "-j", "2", *targets], f"the build of {name}", SECONDS_MAX)
    if "warning:" in said:
        raise RuntimeError(f"the build of {name} warns:\n{said[-4000:]}")
    count = sum(line.startswith("[") for line in said.splitlines())
    print(f"consume: {name}: {count} steps", flush=True)
    return work


def sizes(work, source, nm):
    """{symbol: bytes} of sizes.cc, compiled as the file `source` of the project's build is."""
    listed = fleet.command(["ninja", "-C", work, "-t", "commands", "product"], "the list of commands")
    words = shlex.split(next(line for line in listed.splitlines() if line.endswith(source)))
    root = pathlib.Path(words[-1]).parents[1]  # of the tree, for a file of the library
    made = work / "sizes.o"
    words[words.index("-o") + 1] = made
    fleet.command(["env", "-C", work, *words[:-1], PROJECTS / "sizes.cc", "-fno-lto", f"-I{root}/include"], "sizes.cc")
    return consume_test.probe_sizes(nm, made)


def check_sizes(name, work, nm="nm"):
    """The state of a device has one size in the user's files and in the library's."""
    user, library = sizes(work, "/sizes.cc", nm), sizes(work, "/firmware/device.cc", nm)
    if user != library or library.keys() != consume_test.PROBES:
        raise RuntimeError(f"{name}: the user's files see {user}, and the library's {library}")


def play_installed(folder):
    """Projects that find what the build installs; their number."""
    prefix, work = folder / "prefix", folder / "installed"
    fleet.command(["cmake", "--install", fleet.BUILD, "--component", INSTALLED, "--prefix", prefix], "the installation")
    shutil.copytree(PROJECTS, work)
    consume_test.find_package(prefix, work)
    consume_test.pkg_config(prefix, work)
    print("consume: find_package and pkg-config", flush=True)
    return 2


def archive(folder):
    """An archive of the tree with what a device is made of, as a user would publish it."""
    file = folder / "gradstream.tar.gz"
    names = fleet.command(["git", "ls-files"], "the list of files").split("\n")
    tracked = sorted({name.split("/")[0] for name in names if name})
    fleet.command(["tar", "-czf", file, "-C", fleet.ROOT, *tracked, *(f"third_party/{name}" for name in SOURCES)],
                  "the archive", 300)
    return file


def train(folder, program):
    """A program in C beside a server of one run, which is over after some rounds."""
    home = folder / "server"
    home.mkdir()
    port, identity = fleet.free_port(), home / "kitchen.identity"
    config = home / "gradstream.toml"
    config.write_text(CONFIG.format(port=port, home=home, rounds=ROUNDS), encoding="utf-8")
    fleet.command([fleet.SERVER, "device", "add", "kitchen", "--out", identity, "--config", config], "the enrolment")
    server = fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config", config])
    try:
        if server.wait_for_line("event=listening", SERVER_SECONDS) is None:
            raise RuntimeError("the server does not listen:\n" + "\n".join(server.lines))
        words = [program, f"127.0.0.1:{port}", identity, home / "kitchen.state"]
        said = fleet.command(words, "the program in C", TRAIN_SECONDS)
    finally:
        server.stop()
    last = said.splitlines()[-1]
    if last != f"version={ROUNDS} folded={ROUNDS} finished=1":
        raise RuntimeError(f"the program in C has not trained {ROUNDS} rounds:\n{said}")
    print(f"consume: trained: {last}", flush=True)


def copy_board(name, folder):
    """A board of this tree as one outside it, whose folder has another name."""
    board = folder / f"my_{name}"
    shutil.copytree(fleet.ROOT / "boards" / name, board)
    lists = board / "CMakeLists.txt"
    lists.write_text(lists.read_text(encoding="utf-8").replace(f"boards/{name}/", "${CMAKE_CURRENT_LIST_DIR}/"),
                     encoding="utf-8")
    return board


def play(folder):
    """The number of projects."""
    count = play_installed(folder)
    projects = folder / "projects"
    shutil.copytree(PROJECTS, projects)
    tree = f"-DGRADSTREAM_SOURCE={fleet.ROOT}"
    options = {"add_subdirectory": tree, "own_mbedtls": tree,
               "fetch_content": f"-DGRADSTREAM_ARCHIVE=file://{archive(folder)}"}
    clients = {"add_subdirectory": ["linux_client"]}  # for Linux alone
    for name, option in options.items():
        work = build(name, projects / name, folder, ["product", *clients.get(name, [])], option)
        fleet.command([work / "product"], f"the program of {name}")
        check_sizes(name, work)
        for client in clients.get(name, []):
            train(folder, work / client)
        work = build(f"{name}_m4f", projects / name, folder, ["product"], option, *M4F)
        check_sizes(f"{name}_m4f", work, "arm-none-eabi-nm")
        count += 2
    for name, flags in BOARDS.items():
        build(f"board_{name}", fleet.ROOT, folder, ["gradstream_client"],
              f"-DGRADSTREAM_BOARD_DIR={copy_board(name, folder)}", *flags)
        count += 1
    return count


def main():
    if sys.argv[1:] != ["--hidden"]:
        reason = why_not()
        if reason:
            print(f"consume: skipped: {reason}\nresult: skipped=1")
            return SKIPPED
        if "GS_BUILD_DIR" not in os.environ:
            fleet.build("dev", INSTALLED)
        return subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-B", __file__,
                               "--hidden"], stdin=subprocess.DEVNULL, check=False).returncode
    hide()
    use_cache()
    with tempfile.TemporaryDirectory(prefix="gradstream-consume-") as folder:
        try:
            count = play(pathlib.Path(folder))
        except (RuntimeError, SystemExit) as error:  # which ends consume_test.py
            print(f"consume: FAIL: {error}\nresult: failed=1")
            return 1
    print(f"result: projects={count} failed=0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
