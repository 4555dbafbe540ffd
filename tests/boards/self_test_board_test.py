"""The self-test's image of an emulated board makes the report of boards/reports, but for what is measured."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import report  # noqa: E402

BOARD = "mps2-an386"
NONCE = 20261127
# What another compiler, another emulator or a change of the sources may move.
MEASURED = {"sources", "nonce", "challenge", "cycles_per_second", "step_us", "record_us", "x25519_us", "flash_erase_ms",
            "flash_program_us", "entropy_most_common", "entropy_longest_run", "arena_used", "stack_used", "ram_used",
            "image_used"}


def main():
    text = report.make(BOARD, NONCE)
    fields, reasons = report.check(text, NONCE)
    assert not reasons, f"{reasons}\n{text}"
    stored, _ = report.parse((report.REPORTS / f"{BOARD}.txt").read_text(encoding="ascii"))
    differing = [name for name in fields.keys() | stored.keys() - MEASURED if name not in MEASURED
                 and fields.get(name) != stored.get(name)]
    assert not differing, f"boards/reports/{BOARD}.txt differs in {' '.join(differing)}: make it anew\n{text}"
    print(f"self-test of {BOARD}: {len(fields)} lines, digest {fields['digest']}")


if __name__ == "__main__":
    main()
