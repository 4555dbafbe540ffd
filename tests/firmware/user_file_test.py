"""A file that links gs_firmware sees the types and the arithmetic that the library itself was compiled with.

user_file/ is a project that adds this one. Its probe is compiled as a file of the library, as a file of a user who
links the library, and with no flag but the paths of headers. The first two objects must be alike. The third one must
differ, or the comparison could not fail. Only these objects are built.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = pathlib.Path(__file__).resolve().parent / "user_file"
# (options of the build, what a build without the library's flags gets wrong)
M4F = ["-DGS_BOARD=mps2_an386", "-DGS_CPU_FLAGS=-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"]
M3 = ["-DGS_BOARD=mps2_an385", "-DGS_CPU_FLAGS=-mcpu=cortex-m3 -mfloat-abi=soft", "-DGS_PSK_KE_ONLY=ON"]
BUILDS = [
    (M4F, {"device_shell", "device_config", "tls_session", "input_stream", "host_members", "product_and_sum"}),
    (M3, {"device_shell", "device_config", "tls_session", "input_stream", "host_members", "ephemeral_keys"}),
]


def run(*command):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL: {' '.join(map(str, command))}:\n{done.stdout[-4000:]}")
    return done.stdout


def read_probe(file):
    """{symbol: its size in bytes, or the instructions of the function}"""
    sizes = re.findall(r"^\w+ (\w+) [BD] (\w+)$", run("arm-none-eabi-nm", "-S", file), re.M)
    code = run("arm-none-eabi-objdump", "-d", "--no-show-raw-insn", file)
    code = code[code.index("<product_and_sum>:"):]
    return {**{name: int(size, 16) for size, name in sizes}, "product_and_sum": re.sub(r"\s+", " ", code)}


def differing(a, b):
    return {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


def values(probes, names):
    return {name: {library: probe.get(name) for library, probe in probes.items()} for name in sorted(names)}


def judge(options, wanted, folder):
    machine_code = [f"-DCMAKE_{language}_FLAGS_MINSIZEREL=-Os" for language in ("C", "CXX")]  # not that of -flto
    run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", folder, f"-DGS_ROOT={ROOT}", "-DCMAKE_BUILD_TYPE=MinSizeRel",
        *machine_code,
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchain_arm_none_eabi.cmake", *options)
    targets = run("ninja", "-C", folder, "-t", "targets", "all")
    objects = {library: path for path, library in re.findall(r"^(\S+/(\w+)\.dir/\S*probe\.cc\.obj):", targets, re.M)}
    # The user's first: with it comes the code that is generated from the messages.
    for library in ("user", "gs_firmware", "stranger"):
        run("ninja", "-C", folder, "-j", "2", objects[library])
    probes = {library: read_probe(folder / file) for library, file in objects.items()}
    missing = (wanted | {"product_and_sum"}) - probes["gs_firmware"].keys()
    if missing:
        sys.exit(f"FAIL: the probe does not show {sorted(missing)}")
    faults = differing(probes["gs_firmware"], probes["user"])
    if faults:
        sys.exit(f"FAIL: a file that links gs_firmware differs from the library: {values(probes, faults)}")
    unseen = wanted - differing(probes["gs_firmware"], probes["stranger"])
    if unseen:
        sys.exit(f"FAIL: the library's flags should decide what is alike without them: {values(probes, unseen)}")
    print(f"{options[0]}: {len(probes['user'])} alike, {len(wanted)} decided by the flags")


def main():
    for options, wanted in BUILDS:
        with tempfile.TemporaryDirectory() as folder:
            judge(options, wanted, pathlib.Path(folder))


if __name__ == "__main__":
    main()
