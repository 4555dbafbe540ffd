#!/usr/bin/python3
"""The commands of docs/how-to/report.md: ./run report check accepts the reports of boards/reports and this machine's
own, and refuses others by name. Forged reports have a right CRC. The fused one is what gradstream-selftest said when
its sources were compiled with -mfma -ffp-contract=fast.
"""

import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import report  # noqa: E402
import source_digest  # noqa: E402

FUSED = pathlib.Path(__file__).with_name("report_fused.txt")
EMULATED = "mps2-an386"
SILICON = {"emulated": 0, "entropy": "generator", "flash_erase_ms": 100, "x25519_us": 10 ** 6}


def sealed(text):
    """The lines with the CRC that they have now."""
    lines = [line for line in report.report_lines(text) if not line.startswith("report end ")]
    crc = report.crc32c("".join(f"{line}\n" for line in lines).encode())
    return "\n".join([*lines, f"report end crc={crc:08x}", ""])


def with_value(text, **values):
    """The report with these values and a right CRC; None: without the line."""
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^report {name}=.*\n", "" if value is None else f"report {name}={value}\n", text)
        assert count == 1, f"{name} stands {count} times in the report"
    return sealed(text)


def reasons(text, nonce=None):
    return {reason.name for reason in report.check(text, nonce)[1]}


def forgeries(good):
    """(what, text, names of the reasons)."""
    yield "another digest", with_value(good, digest="f77afe3da43e3931"), {"digest"}
    yield "another nonce", with_value(good, nonce=12), {"challenge"}
    yield "a changed challenge", with_value(good, challenge="0" * 16), {"challenge"}
    yield "a nonce too long", with_value(good, nonce=10 ** 9), {"nonce"}
    yield "fused", with_value(good, fused=1), {"fused"}
    yield "flushing", with_value(good, subnormals=0), {"subnormals"}
    yield "no release", with_value(good, version="9.9.9"), {"version"}
    yield "no board", with_value(good, board="toaster"), {"board"}
    yield "another form", with_value(good, form=2), {"form"}
    yield "a time of 0", with_value(good, step_us=0), {"impossible"}
    yield "a clock that stands", with_value(good, cycles_per_second=0), {"impossible"}
    yield "a stack beyond itself", with_value(good, stack_used=5000), {"impossible"}
    yield "a stack beyond the RAM", with_value(good, stack=10 ** 6), {"impossible"}
    yield "an image beyond the flash", with_value(good, image_used=10 ** 7), {"impossible"}
    yield "a slot that is lost", with_value(good, flash_slot="lost"), {"flash"}
    yield "a flash that reads otherwise", with_value(good, flash_read_back="wrong"), {"flash"}
    yield "a stuck source", with_value(good, entropy_most_common=8192), {"entropy"}
    yield "a poor source", with_value(good, entropy_most_common=4000), {"entropy"}
    yield "a failed source", with_value(good, entropy_health="failed"), {"entropy"}
    yield "more bytes than there are", with_value(good, entropy_most_common=9000), {"impossible"}
    yield "a wrong secret", with_value(good, x25519="wrong"), {"x25519"}
    yield "silicon that is too fast", with_value(good, **{**SILICON, "x25519_us": 1}), {"impossible"}
    yield "an erase in no time", with_value(good, **{**SILICON, "flash_erase_ms": 0}), {"impossible"}
    yield "random numbers of an emulator", with_value(good, **{**SILICON, "entropy": "emulator"}), {"entropy"}
    yield "a missing line", with_value(good, step_us=None), {"missing"}
    yield "no number", with_value(good, ram="much"), {"line"}
    for name in ("step_us", "entropy_bytes", "stack_used", "nonce", "emulated", "image"):
        yield f"{name} that is none", with_value(good, **{name: "none"}), {"line"}
    yield "neither silicon nor emulated", with_value(good, emulated=2), {"line"}
    yield "an unknown line", sealed(good + "report weather=fine\n"), {"unknown"}
    yield "a line twice", sealed(good + "report fused=0\n"), {"double"}
    yield "a changed value and the old crc", re.sub(r"step_us=(\d+)", r"step_us=1\1", good), {"crc"}
    yield "a lost end", re.sub(r"report end .*\n", "", good), {"missing"}
    yield "nothing", "event=boot\n", {"missing"}


def check_logs(good):
    """A console's log has a report in it, and after a reset another: the last one counts."""
    console = "event=boot\r\n" + good.replace("\n", "\r\n") + "event=idle\r\n"
    assert reasons(console) == set(), "a console's log with a report in it"
    assert reasons(console + console) == set(), "two reports"
    assert reasons(console[:len(console) // 2] + "\r\n" + console) == set(), "one that a reset cut, and a whole one"
    assert "missing" in reasons(console + console[:len(console) // 2]), "a whole report, and one that a reset cut"


def check_other_release(good):
    """Another release's challenge is not this tree's to judge; its digest is."""
    with tempfile.TemporaryDirectory(prefix="gradstream-report-") as folder:
        stored, report.DIGESTS = report.DIGESTS, pathlib.Path(folder) / "digests.txt"
        try:
            report.DIGESTS.write_text("0.0.9 0123456789abcdef\n", encoding="ascii")
            other = with_value(good, version="0.0.9", digest="0123456789abcdef", challenge="0" * 16)
            assert reasons(other) == set(), report.check(other)[1]
            assert reasons(with_value(other, digest="0" * 16)) == {"digest"}
        finally:
            report.DIGESTS = stored


def check_failure():
    """A self-test that fails is a sentence."""
    stored, report.self_test = report.self_test, lambda: "/bin/false"
    try:
        report.make("posix", 4711)
        raise AssertionError("/bin/false made a report")
    except RuntimeError as failure:
        assert "the self-test of this machine failed" in str(failure), failure
    finally:
        report.self_test = stored


def check_emulator_that_hangs():
    """It is ended, and that is a sentence."""
    stored = report.fleet.build, report.command_of, report.MAKE_SECONDS_MAX
    report.fleet.build = lambda *_: None
    report.command_of, report.MAKE_SECONDS_MAX = lambda *_: ["/bin/sleep", "60"], 0.2
    try:
        report.make(EMULATED, 4711)
        raise AssertionError("a report of nothing")
    except report.Failure as failure:
        assert "was not done within 0.2 s" in str(failure), failure
    finally:
        report.fleet.build, report.command_of, report.MAKE_SECONDS_MAX = stored


def check_emulator_that_is_missing():
    """Its name and what installs it, in a sentence."""
    stored = report.fleet.build, report.command_of
    report.fleet.build, report.command_of = lambda *_: None, lambda *_: ["gradstream-no-emulator"]
    try:
        report.make(EMULATED, 4711)
        raise AssertionError("a report of nothing")
    except report.Failure as failure:
        assert str(failure).startswith("gradstream-no-emulator is missing"), failure
        assert "./run setup report" in str(failure), failure
    finally:
        report.fleet.build, report.command_of = stored


def check_source_digest():
    """The reports are left out of the digest, and the folders that the tree stands in count for nothing."""
    with tempfile.TemporaryDirectory(prefix="gradstream-reports-") as folder:
        digests = []
        for name in ("reports", "tree"):
            boards = pathlib.Path(folder) / name / "boards"
            (boards / "reports").mkdir(parents=True)
            (boards / "reports" / "one.txt").write_text(name, encoding="ascii")
            (boards / "board.h").write_text("1", encoding="ascii")
            digests.append(source_digest.source_digest(boards.parent))
        assert digests[0] == digests[1], "the same sources below a folder named reports"
        (boards / "board.h").write_text("2", encoding="ascii")
        assert source_digest.source_digest(boards.parent) != digests[1], "other sources"


def main():
    good = (report.REPORTS / f"{EMULATED}.txt").read_text(encoding="ascii")
    stored = sorted(path for path in report.REPORTS.glob("*.txt") if path != report.DIGESTS)
    for path in stored:
        found, faults = report.check(path.read_text(encoding="ascii"))
        assert not faults, f"{path}: {faults}"
        assert path.stem.startswith(found["board"]), f"{path} is a report of {found['board']}"
    check_logs(good)
    check_other_release(good)
    check_failure()
    check_emulator_that_hangs()
    check_emulator_that_is_missing()
    check_source_digest()
    for what, text, wanted in forgeries(good):
        assert (found := reasons(text)) == wanted, f"{what}: refused for {found}, not for {wanted}"
    assert {"fused", "digest"} <= reasons(FUSED.read_text(encoding="ascii")), "the report of a fused image"
    own = report.make("posix", 4711)
    assert reasons(own, 4711) == set(), report.check(own, 4711)[1]
    assert reasons(own, 4712) == {"nonce"}, "the report of another day"
    assert (version := report.own_version()) in report.digests_of_releases(), f"no row of {version}: {report.DIGESTS}"
    assert report.crc32c(b"123456789") == 0xE3069283
    print(f"report: {len(stored)} reports accepted, {sum(1 for _ in forgeries(good)) + 2} refused")


if __name__ == "__main__":
    main()
