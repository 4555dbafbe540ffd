#!/usr/bin/python3
"""The boards' images keep within their bars and link no allocator, exceptions or semihosting: ./run footprint."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import footprint  # noqa: E402  the tool under test


def main():
    for name in ("_sbrk", "malloc", "_malloc_r", "_Znwj", "_Znaj", "_ZdlPv", "_ZdlPvj", "__cxa_throw"):
        assert footprint.FORBIDDEN.match(name), f"{name} would pass"
    for name in ("main", "mbedtls_calloc", "_ZN10gradstream6Client4pollEy", "buffer_alloc_free"):
        assert not footprint.FORBIDDEN.match(name), f"{name} would not pass"
    assert footprint.stack_fault(1499, 1000) and not footprint.stack_fault(1500, 1000)
    done = subprocess.run([ROOT / "tools" / "footprint.py", "--barred"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    result = dict(re.findall(r"(\w+)=(\d+)", done.stdout.strip().splitlines()[-1]))
    assert done.returncode == 0, "an image is over a bar"
    assert int(result["smallest_flash_bytes"]) > 50000, "not all flash is counted"
    assert int(result["smallest_ram_bytes"]) > 20000, "not all RAM is counted"
    for image in footprint.IMAGES:
        row = re.search(rf"^ +(\d+) +(\d+) +(\d+) +[\d.]+ +\d+ +\d+  {image.preset}$", done.stdout, re.M)
        assert (row is None) == (image.flash_max is None), f"{image.preset} has no row, or is not asked for"
        assert row is None or int(row[3]) > 1000, f"{image.preset}'s stack was not measured"
    dhe = int(result["smallest_dhe_flash_bytes"]) - int(result["smallest_flash_bytes"])
    assert 5000 < dhe < 30000, "the smallest image has x25519, or that with psk_dhe_ke has none"
    rows = re.findall(r"^ +(\d+) +\d+  .+ \d+ x \d+$", done.stdout, re.M)
    assert len(rows) == len(footprint.MANIFOLDS), "not all manifolds have a row"
    assert all(300 < int(flash) < 20000 for flash in rows), "a manifold's flash is not its own"
    twins = {image.preset: image.twin for image in footprint.IMAGES}
    for emulator in (twins["mps2-an386"], twins["riscv-virt"]):
        assert footprint.calls_emulator(emulator), "the search for semihosting finds none where there is some"
        assert footprint.EMULATOR_WORD in emulator.read_bytes(), "the search for the emulator's words finds none"
    others = [(preset, footprint.TARGET) for preset in footprint.SILICON]
    for preset, target in [*others, ("stm32f405", f"{footprint.TARGET}_{footprint.CRYSTALS[0]}")]:
        assert f"==== {preset}, {target}: " in done.stdout, f"{target} of {preset} is not checked"


if __name__ == "__main__":
    main()
