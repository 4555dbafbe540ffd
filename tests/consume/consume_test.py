"""Projects of users, from what this build installs: each finds headers and libraries, is linked, and runs.

As docs/how-to/library.md says, `cmake --install` puts the component gradstream-dev into an empty folder. There a
project with find_package() and one with a Makefile and pkg-config build super_loop.c, whose two devices start and send
their first handshake. The C headers compile as C11, C++17 and C++20. The state of a device has the same size in a file
of the library and in one of the user. A project with add_subdirectory() configures, and has no test of ours; ./run soak
consume builds it. An Mbed TLS of the user's own whose configuration lacks something is refused with words, and one that
has its own memory and platform keeps them. Programs in C for Linux, with one device and with several, are linked;
./run soak consume has the one train.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS_MAX = 100
BUILD_FILE_LINES_MAX = 20
PROBES = {"device_shell", "device_object", "device_config", "linked_problem"}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False, timeout=SECONDS_MAX, **options)
    if done.returncode != 0:
        sys.exit(f"FAIL: {' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def probe_sizes(nm, file):
    """{symbol: bytes} of the arrays of sizes.cc."""
    return {name: int(size, 16) for size, name in re.findall(r"^\w+ (\w+) [BbDd] (\w+)$", run(nm, "-S", file), re.M)
            if name in PROBES}


def command_of(build, file):
    """The command that compiled a file of the library, without its input and output."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    command = next(entry["command"] for entry in commands if entry["file"] == str(ROOT / file))
    return [word for word in shlex.split(command)
            if word not in ("-o", "-c") and not word.endswith((".cc", ".cc.o", ".cc.o.d"))]


def library_sizes(build, folder):
    """Sizes as a file of the library has them: sizes.cc by the command that compiled firmware/device.cc."""
    words = [word for word in command_of(build, "firmware/device.cc") if word not in ("-MD", "-MT", "-MF")]
    run(*words, "-I", ROOT / "include", "-c", HERE / "sizes.cc", "-o", folder / "library.o")
    return probe_sizes("nm", folder / "library.o")


def check_mbedtls(build, folder):
    """The TLS of a device over the configuration that Mbed TLS comes with, and over that and what a device asks for."""
    words = [word for word in command_of(build, "runtime/link/tls.cc")
             if word not in ("-MD", "-MT", "-MF") and "MBEDTLS_CONFIG_FILE" not in word]
    check = [*words, "-fsyntax-only", ROOT / "runtime" / "link" / "tls.cc"]
    done = subprocess.run(check, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=SECONDS_MAX)
    assert done.returncode != 0 and "define MBEDTLS_SSL_RECORD_SIZE_LIMIT" in done.stderr, done.stderr
    own = HERE / "own_mbedtls" / "mbedtls_user_config.h"
    own = ["-DGS_OWN_MBEDTLS=1", f'-DMBEDTLS_USER_CONFIG_FILE="{own}"']
    run(*check, *own)
    for lacking, told in (("-DGS_TLS_CONTEXTS_SIZE=64", "set GS_TLS_CONTEXTS_SIZE"),
                          ("-DGS_TEST_WITHOUT_X25519", "Mbed TLS lacks X25519")):
        done = subprocess.run([*check, *own, lacking], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=SECONDS_MAX)
        assert done.returncode != 0 and told in done.stderr, done.stderr
    check_platform([*words, *own, "-DGS_TEST_OWN_PLATFORM", "-c", ROOT / "runtime" / "link" / "tls.cc"], folder)


def check_platform(compile_tls, folder):
    """The project's own memory of Mbed TLS is left alone, and its own functions may take the place of ours."""
    run(*compile_tls, "-o", folder / "tls.o")
    symbols = run("nm", folder / "tls.o")
    for name in ("mbedtls_hardware_poll", "mbedtls_platform_zeroize"):
        assert re.search(rf" W {name}$", symbols, re.M), f"{name} is not weak"
    assert "mbedtls_memory_buffer_alloc_init" not in symbols


def check_headers(headers):
    for name in ("device", "port", "posix"):
        for language, standard in (("c", "c11"), ("c++", "c++17"), ("c++", "c++20")):
            file = headers / f"{name}_{standard}.txt"
            file.write_text(f"#include <gradstream/{name}.h>\n", encoding="utf-8")
            run("c++" if language == "c++" else "cc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror",
                "-pedantic", "-fsyntax-only", "-I", headers / "include", file)


def find_package(prefix, work):
    """The sizes that a user's file sees."""
    run("cmake", "-G", "Ninja", "-S", work / "find_package", "-B", work / "found", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("ninja", "-C", work / "found")
    run(work / "found" / "product")
    done = subprocess.run([work / "found" / "linux_client", "nowhere", "-", "-"], stderr=subprocess.PIPE, text=True,
                          check=False, timeout=SECONDS_MAX)
    assert done.returncode == 2 and done.stderr.startswith("usage: "), done
    done = subprocess.run([work / "found" / "several_devices"], stderr=subprocess.PIPE, text=True, check=False,
                          timeout=SECONDS_MAX)
    assert done.returncode == 2 and done.stderr.startswith("usage: "), done
    return probe_sizes("nm", work / "found" / "product")


def pkg_config(prefix, work, *words):
    """words: of make."""
    package = next(prefix.rglob("gradstream.pc"))
    run("make", "-C", work / "makefile", *words, env={**os.environ, "PKG_CONFIG_PATH": str(package.parent)})
    run(work / "makefile" / "product")


def add_subdirectory(work):
    run("cmake", "-G", "Ninja", "-S", work / "add_subdirectory", "-B", work / "added", f"-DGRADSTREAM_SOURCE={ROOT}")
    listed = run("ctest", "--test-dir", work / "added", "-N")
    assert "Total Tests: 0" in listed, listed


def main():
    build = pathlib.Path(sys.argv[1])
    for file in (*HERE.rglob("CMakeLists.txt"), *HERE.rglob("Makefile")):
        count = len(file.read_text(encoding="utf-8").splitlines())
        assert count <= BUILD_FILE_LINES_MAX, f"{file}: {count} lines"
    with tempfile.TemporaryDirectory(prefix="gradstream-consume-") as name:
        folder = pathlib.Path(name)
        prefix, work = folder / "prefix", folder / "work"
        shutil.copytree(HERE, work)
        run("cmake", "--install", build, "--component", "gradstream-dev", "--prefix", prefix)
        inside = sorted({path.relative_to(prefix).parts[0] for path in prefix.rglob("*")})
        assert inside == ["include", "lib"], inside
        check_headers(next((prefix / "include").iterdir()))
        found, library = find_package(prefix, work), library_sizes(build, folder)
        assert found == library and library.keys() == PROBES, f"the user's {found}, the library's {library}"
        pkg_config(prefix, work)
        check_mbedtls(build, folder)
        add_subdirectory(work)
    print(f"consume: {library}")


if __name__ == "__main__":
    main()
