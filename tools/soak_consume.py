"""./run soak consume: projects of users that compile the tree themselves, in an empty folder each.

On this host by add_subdirectory() and by FetchContent from an archive, with an Mbed TLS of the project's own, and for a
Cortex-M4F as a super loop that is linked; a board outside the tree is built for a Cortex-M3. Meanwhile the headers and
sources of what a device does not need are hidden: SQLite, spdlog, fmt, JSON, TOML, CLI11, Asio, Nettle, Eigen and
GoogleTest. None of these projects has a test of ours.

Skipped (exit status 77), with the reason, without root, the cross compiler or the sources of third_party/.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import fleet

SKIPPED = 77
PROJECTS = fleet.ROOT / "tests" / "consume"
SECONDS_MAX = 1800  # of one build, of which C++ takes the most
HIDDEN_FOLDERS = ("spdlog", "fmt", "nlohmann", "toml++", "CLI", "asio", "nettle", "eigen3", "gtest", "gmock")
HIDDEN_FILES = ("sqlite3.h", "asio.hpp")
SOURCES = ("mbedtls", "libsodium", "nanopb")  # of third_party/, which a device is made of
ARM = [f"-DCMAKE_TOOLCHAIN_FILE={fleet.ROOT}/cmake/toolchain_arm_none_eabi.cmake", "-DCMAKE_BUILD_TYPE=MinSizeRel"]
M4F = [*ARM, "-DGS_CPU_FLAGS=-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"]
M3 = [*ARM, "-DGS_CPU_FLAGS=-mcpu=cortex-m3 -mfloat-abi=soft"]


def why_not():
    """What this machine lacks; empty: nothing."""
    if os.geteuid() != 0:
        return "only root can hide folders from the projects"
    if shutil.which("arm-none-eabi-g++") is None:
        return "arm-none-eabi-g++ is missing (./run setup build)"
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


def build(name, source, folder, target, *options):
    """Builds one target in an empty folder. The number of its compilations and links."""
    work = folder / name
    fleet.command(["cmake", "-G", "Ninja", "-S", source, "-B", work, *options], f"the configuration of {name}", 120)
    listed = fleet.command(["ctest", "--test-dir", work, "-N"], f"the tests of {name}")
    if "Total Tests: 0" not in listed:
        raise RuntimeError(f"{name} has tests of ours in its ctest:\n{listed}")
    said = fleet.command(["ninja", "-C", work, "-j", "2", target], f"the build of {name}", SECONDS_MAX)
    if "warning:" in said:
        raise RuntimeError(f"the build of {name} warns:\n{said[-4000:]}")
    count = sum(line.startswith("[") for line in said.splitlines())
    print(f"consume: {name}: {count} steps", flush=True)
    return work


def archive(folder):
    """An archive of the tree with what a device is made of, as a user would publish it."""
    file = folder / "gradstream.tar.gz"
    names = fleet.command(["git", "ls-files"], "the list of files").split("\n")
    tracked = sorted({name.split("/")[0] for name in names if name})
    fleet.command(["tar", "-czf", file, "-C", fleet.ROOT, *tracked, *(f"third_party/{name}" for name in SOURCES)],
                  "the archive", 300)
    return file


def play(folder):
    projects = folder / "projects"
    shutil.copytree(PROJECTS, projects)
    tree = f"-DGRADSTREAM_SOURCE={fleet.ROOT}"
    for name, options in (("add_subdirectory", [tree]), ("own_mbedtls", [tree]),
                          ("fetch_content", [f"-DGRADSTREAM_ARCHIVE=file://{archive(folder)}"])):
        work = build(name, projects / name, folder, "product", *options)
        fleet.command([work / "product"], f"the program of {name}")
    build("super_loop", projects / "add_subdirectory", folder, "product", tree, *M4F)
    board = folder / "mychip"
    shutil.copytree(fleet.ROOT / "boards" / "template", board)
    lists = board / "CMakeLists.txt"
    lists.write_text(lists.read_text(encoding="utf-8").replace("boards/template/", "${CMAKE_CURRENT_LIST_DIR}/"),
                     encoding="utf-8")
    build("board", fleet.ROOT, folder, "gradstream_client", f"-DGRADSTREAM_BOARD_DIR={board}", *M3)


def main():
    if sys.argv[1:] != ["--hidden"]:
        reason = why_not()
        if reason:
            print(f"consume: skipped: {reason}\nresult: skipped=1")
            return SKIPPED
        return subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, "-B", __file__,
                               "--hidden"], stdin=subprocess.DEVNULL, check=False).returncode
    hide()
    with tempfile.TemporaryDirectory(prefix="gradstream-consume-") as folder:
        try:
            play(pathlib.Path(folder))
        except RuntimeError as error:
            print(f"consume: FAIL: {error}\nresult: projects=5 failed=1")
            return 1
    print("result: projects=5 failed=0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
