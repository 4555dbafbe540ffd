#!/usr/bin/python3
"""The boards' images keep within their bars and link no allocator, exceptions or semihosting: ./run footprint."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import footprint  # noqa: E402  the tool under test


def main():
    for name in ("_sbrk", "malloc", "_malloc_r", "_Znwj", "_Znaj", "_ZdlPv", "_ZdlPvj", "__cxa_throw"):
        assert footprint.FORBIDDEN.match(name), f"{name} would pass"
    for name in ("main", "mbedtls_calloc", "_ZN10gradstream6Client4pollEy", "buffer_alloc_free"):
        assert not footprint.FORBIDDEN.match(name), f"{name} would not pass"
    done = subprocess.run([ROOT / "tools" / "footprint.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    print(done.stdout)
    result = dict(re.findall(r"(\w+)=(\d+)", done.stdout.strip().splitlines()[-1]))
    assert done.returncode == 0, "an image is over a bar"
    assert int(result["smallest_flash_bytes"]) > 50000, "not all flash is counted"
    assert int(result["smallest_ram_bytes"]) > 20000, "not all RAM is counted"
    rows = re.findall(r"^ +(\d+) +\d+  .+ \d+ x \d+$", done.stdout, re.M)
    assert len(rows) == len(footprint.MANIFOLDS), "not all manifolds have a row"
    assert all(300 < int(flash) < 20000 for flash in rows), "a manifold's flash is not its own"
    emulator = footprint.IMAGES[0].twin
    listing = subprocess.run(["arm-none-eabi-objdump", "-d", emulator], stdout=subprocess.PIPE, text=True, check=True)
    assert re.search(r"\bbkpt\s+0x00ab", listing.stdout), "the search for semihosting finds none where there is some"
    assert footprint.EMULATOR_WORD in emulator.read_bytes(), "the search for the emulator's words finds none"
    for preset, _ in footprint.FLASHED:
        assert f"==== {preset}, the image that is flashed: " in done.stdout, f"{preset} is not checked"


if __name__ == "__main__":
    main()
