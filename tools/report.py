#!/usr/bin/python3
"""./run report: makes the report of a board's self-test, and accepts or refuses one.

    ./run report nonce                    a number for who is to test a board
    ./run report make BOARD [--out FILE]  the report of an emulated board, or of this machine (posix)
    ./run report check FILE...            accepts or refuses, with a reason for each line that is wrong

FILE is a log of the board's console with the report in it. With --nonce, check refuses the report of another day or
board: one that does not answer this nonce. docs/how-to/report.md says what a report proves, and what it does not.
"""

import argparse
import functools
import math
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
from typing import NamedTuple

import emulate
import fleet

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORTS = ROOT / "boards" / "reports"
DIGESTS = REPORTS / "digests.txt"
SELF_TEST = fleet.BUILD / "boards" / "posix" / "gradstream-selftest"
FORMS = {"1"}
NONCE_END = 1_000_000_000  # as the image takes it: nine digits
MAKE_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 120
LINES_MAX = 100_000  # of a log

# What the report of each board has, in any order; what stands behind | is there unless the word before it is `none`.
COMMON = ("form version sources board emulated cycle_counter|cycles_per_second subnormals fused digest nonce challenge "
          "step_us record_us x25519_us x25519 flash|flash_page_size|flash_power|flash_erase_ms|flash_program_us|"
          "flash_read_back|flash_slot entropy|entropy_bytes|entropy_most_common|entropy_longest_run|entropy_health "
          "arena_used stack|stack_used|ram|ram_used|image|image_used").split()
MAY_LACK = {words.split("|")[0] for words in COMMON if "|" in words}  # these alone may be `none`
PROCESSOR = ({"cpuid"}, {"misa", "mvendorid", "marchid", "mimpid"}, set())  # Cortex-M, RISC-V, a process

# Of min-entropy in a raw byte, bits: what boards/entropy_health.h takes a source to have (1/8 bit a bit).
ENTROPY_BITS_MIN = 1.0
# NIST SP 800-90B 6.3.1: the upper end of the interval of 99 % around the share of the most common value.
Z_99 = 2.576
# An agreement of X25519, cycles, on silicon. Reason: it takes 1,162,000 instructions on a Cortex-M4F (measured), and
# the widest processor here, a Cortex-M7, does at most two a cycle.
X25519_CYCLES_MIN = 500_000
# An erase of a page of flash, ms, on silicon. Reason: the fastest NOR flash of a microcontroller takes more.
ERASE_MS_MIN = 1


class Reason(NamedTuple):
    name: str
    words: str


class Failure(Exception):
    """Something that the user must see in one sentence."""


# ---- Reading ----

def crc32c(data):
    """Castagnoli's, as runtime/base/crc32c.h."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def report_lines(text):
    """The own lines of the last report of a console's log: a board that was reset begins anew."""
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    lines = [line for line in lines if line.startswith("report ")]
    begins = [index for index, line in enumerate(lines) if line.startswith("report form=")]
    return lines[begins[-1]:] if begins else lines


def parse(text):
    """({name: value}, [Reason])."""
    lines = report_lines(text)
    if not lines:
        return {}, [Reason("missing", "the file has no line `report ...`")]
    fields, reasons = {}, []
    *body, last = lines
    end = re.fullmatch(r"report end crc=([0-9a-f]{8})", last)
    if not end:
        body = lines
        reasons.append(Reason("missing", "the report has no last line `report end crc=...`"))
    elif int(end[1], 16) != (crc := crc32c("".join(f"{line}\n" for line in body).encode())):
        reasons.append(Reason("crc", f"crc={end[1]}, and the lines have {crc:08x}: a line was lost or changed"))
    for line in body:
        match = re.fullmatch(r"report ([a-z0-9_]+)=(\S+)", line)
        if not match:
            reasons.append(Reason("line", f"no line of a report: {line}"))
        elif match[1] in fields:
            reasons.append(Reason("double", f"{match[1]} stands there twice"))
        else:
            fields[match[1]] = match[2]
    return fields, reasons


def names_of(fields):
    """The names that a report with these fields must have."""
    wanted = set()
    for words in COMMON:
        first, *rest = words.split("|")
        wanted.add(first)
        if fields.get(first) != "none":
            wanted.update(rest)
    is_process = fields.get("stack") == "none"
    processor = next((names for names in PROCESSOR if names & fields.keys()), set() if is_process else PROCESSOR[0])
    return wanted | processor


# ---- Judging ----

def digests_of_releases():
    """{version: digest of the arithmetic}."""
    lines = [line.split() for line in DIGESTS.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return {version: digest for version, digest in lines}


def boards():
    """Names of the boards of the tree, as reports have them."""
    return {path.parent.name.replace("_", "-") for path in (ROOT / "boards").glob("*/CMakeLists.txt")}


def entropy_bits(count, most_common):
    """Min-entropy of a sample, bits, by its most common value."""
    share = most_common / count
    return -math.log2(min(1.0, share + Z_99 * math.sqrt(share * (1 - share) / max(count - 1, 1))))


@functools.cache
def own_version():
    """Of this tree."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(gradstream VERSION (\S+)", text)[1]


def is_answer_known(fields):
    """Whether this tree computes the challenge as the release of the report does: another's arithmetic may differ."""
    return fields["version"] == own_version()


@functools.cache
def self_test():
    """This tree's program, as its sources are now; a build that GS_BUILD_DIR names is taken as it is."""
    if "GS_BUILD_DIR" not in os.environ:
        fleet.build("dev", "gradstream-selftest")
    if not SELF_TEST.exists():
        raise Failure(f"{SELF_TEST} is missing: build gradstream-selftest there, or unset GS_BUILD_DIR")
    return SELF_TEST


@functools.cache
def answer(nonce):
    """The challenge's hash of this nonce, as this tree computes it."""
    said = fleet.command([self_test(), "--answer", f"{nonce}"], "the self-test of this machine", ANSWER_SECONDS_MAX)
    return dict(line.split() for line in said.splitlines())["challenge"]


def arithmetic_reasons(fields, nonce):
    """Whether the chip computes what others compute, and did so for this nonce."""
    known = digests_of_releases()
    if fields["fused"] != "0":
        yield Reason("fused", "the image fuses multiplications with additions: build it with -ffp-contract=off")
    if fields["subnormals"] != "1":
        yield Reason("subnormals", "the processor flushes subnormal numbers to zero")
    if fields["version"] not in known:
        yield Reason("version", f"version {fields['version']} is no release (known: {' '.join(known)})")
    elif fields["digest"] != known[fields["version"]]:
        yield Reason("digest", f"digest {fields['digest']}, and release {fields['version']} has "
                     f"{known[fields['version']]}")
    given = int(fields["nonce"])
    if nonce is not None and given != nonce:
        yield Reason("nonce", f"the report answers nonce {given}, and {nonce} was asked: it is of another day or board")
    if given >= NONCE_END:
        yield Reason("nonce", f"nonce {given} has more than nine digits")
    elif is_answer_known(fields) and fields["challenge"] != (wanted := answer(given)):
        yield Reason("challenge", f"challenge {fields['challenge']} is not the answer to nonce {given}, {wanted}")


def size_reasons(numbers, fields):
    if fields["stack"] == "none":
        return
    for part, whole in (("stack_used", "stack"), ("stack", "ram"), ("ram_used", "ram"), ("image_used", "image")):
        if not 0 < numbers[part] <= numbers[whole]:
            yield Reason("impossible", f"{part}={numbers[part]} of {whole}={numbers[whole]}")


def time_reasons(numbers, fields):
    is_silicon = fields["emulated"] == "0"
    for name in ("step_us", "record_us", "x25519_us"):
        if numbers[name] == 0:
            yield Reason("impossible", f"{name}=0: nothing takes no time")
    if fields["cycle_counter"] == "none":
        return
    if numbers["cycles_per_second"] == 0:
        yield Reason("impossible", "cycles_per_second=0: the processor's clock stands still")
    cycles = numbers["x25519_us"] * numbers["cycles_per_second"] / 1e6
    if is_silicon and cycles < X25519_CYCLES_MIN:
        yield Reason("impossible", f"x25519_us={numbers['x25519_us']} is {cycles:.0f} cycles, below any processor's "
                     f"{X25519_CYCLES_MIN}")


def part_reasons(numbers, fields):
    """Flash, X25519 and random numbers."""
    if fields["x25519"] != "ok":
        yield Reason("x25519", "X25519 has another secret than RFC 7748, section 6.1")
    if fields["flash"] != "none":
        for name, good in (("flash_read_back", "ok"), ("flash_slot", "found"), ("flash_power", "good")):
            if fields[name] != good:
                yield Reason("flash", f"{name}={fields[name]}")
        if fields["emulated"] == "0" and numbers["flash_erase_ms"] < ERASE_MS_MIN:
            yield Reason("impossible", f"flash_erase_ms={numbers['flash_erase_ms']}, below {ERASE_MS_MIN}")
    if fields["entropy"] == "none":
        return
    if fields["entropy"] == "emulator" and fields["emulated"] == "0":
        yield Reason("entropy", "entropy=emulator on silicon: that source is an emulator's")
    if fields["entropy_health"] != "ok":
        yield Reason("entropy", "the health tests of the source failed")
    count, most = numbers["entropy_bytes"], numbers["entropy_most_common"]
    if not 0 < most <= count:
        yield Reason("impossible", f"entropy_most_common={most} of entropy_bytes={count}")
    elif (bits := entropy_bits(count, most)) < ENTROPY_BITS_MIN:
        yield Reason("entropy", f"{bits:.2f} bits of min-entropy a byte, below {ENTROPY_BITS_MIN}")


TEXTS = {"version", "sources", "board", "cycle_counter", "digest", "challenge", "x25519", "flash_power",
         "flash_read_back", "flash_slot", "entropy", "entropy_health", "cpuid", "misa", "mvendorid", "marchid",
         "mimpid"}


def value_reasons(fields, names):
    """What stands where a number must."""
    for name in sorted(names - TEXTS):
        value = fields[name]
        if name == "emulated" and value not in ("0", "1"):
            yield Reason("line", f"emulated={value} is neither 0 nor 1")
        elif not re.fullmatch(r"[0-9]{1,15}", value) and (value != "none" or name not in MAY_LACK):
            yield Reason("line", f"{name}={value} is no number")


def check(text, nonce=None):
    """({name: value}, [Reason]): no reason is acceptance."""
    fields, reasons = parse(text)
    if fields and fields.get("form") not in FORMS:
        return fields, [*reasons, Reason("form", f"form {fields.get('form')} is unknown (known: {' '.join(FORMS)})")]
    wanted = names_of(fields)
    reasons += [Reason("missing", f"the line {name} is missing") for name in sorted(wanted - fields.keys())]
    reasons += [Reason("unknown", f"the line {name} is unknown") for name in sorted(fields.keys() - wanted)]
    bad = [*value_reasons(fields, wanted & fields.keys())]
    reasons += bad
    if wanted - fields.keys() or bad:
        return fields, reasons
    numbers = {name: int(fields[name]) for name in wanted - TEXTS if fields[name] != "none"}
    if fields["board"] not in boards():
        reasons.append(Reason("board", f"{fields['board']} is no folder of boards/"))
    reasons += [*arithmetic_reasons(fields, nonce), *size_reasons(numbers, fields), *time_reasons(numbers, fields),
                *part_reasons(numbers, fields)]
    return fields, reasons


def kind_of(fields):
    """silicon, emulated, or a process of Linux."""
    if fields.get("stack") == "none":
        return "process"
    return {"0": "silicon", "1": "emulated"}.get(fields.get("emulated"), "unknown")


def check_file(path, nonce):
    """Whether the report is accepted; says why not."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Failure(f"cannot read {path} ({error.strerror})") from error
    fields, reasons = check(text, nonce)
    for reason in reasons:
        print(f"report: {path}: refused: {reason.name}: {reason.words}")
    if not reasons:
        print(f"report: {path}: accepted: board={fields['board']} kind={kind_of(fields)} version={fields['version']} "
              f"sources={fields['sources']} digest={fields['digest']} "
              f"challenge={'right' if is_answer_known(fields) else 'unchecked'}")
    return not reasons


# ---- Making ----

def command_of(board, image, flash):
    """The emulator's command line: a console, and a link with nobody at its end."""
    machine = emulate.MACHINES[board]
    words = ["self-test", f"flash={emulate.make_flash(flash)}"]
    if not machine.qemu:
        return ["node", ROOT / "tools" / "rp2040.mjs", "--image", image, "--link", "127.0.0.1:1",
                "--words", " ".join(words)]
    ports = {machine.console: "chardev:console"}
    serial = [word for port in range(max(ports) + 1) for word in ("-serial", ports.get(port, "none"))]
    link = ["-chardev", "null,id=link", "-device", "pci-serial,addr=1,chardev=link"] if machine.extensions else []
    return [*emulate.emulator(machine), "-display", "none", "-monitor", "none", "-icount", "shift=0",
            "-chardev", "stdio,id=console,signal=off", *serial, *link, "-semihosting-config",
            ",".join(["enable=on,target=native", *(f"arg={word}" for word in words)]), "-kernel", image]


def make(board, nonce):
    """The text of the report."""
    if board == "posix":
        return fleet.command([self_test(), f"{nonce}"], "the self-test of this machine", MAKE_SECONDS_MAX)
    if board not in emulate.MACHINES:
        raise Failure(f"no emulator runs {board} (known: posix {' '.join(emulate.MACHINES)}); a board on your desk: "
                      "docs/how-to/report.md")
    fleet.build(board, "gradstream_selftest_emulator")
    image = ROOT / "build" / board / "boards" / board.replace("-", "_") / "gradstream_selftest_emulator.elf"
    with tempfile.TemporaryDirectory(prefix="gradstream-report-") as folder:
        flash = pathlib.Path(folder) / "flash"
        try:
            done = subprocess.run(command_of(board, image, flash), input=f"{nonce}\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=MAKE_SECONDS_MAX,
                                  check=False)
        except FileNotFoundError as missing:
            raise Failure(f"{missing.filename} is missing, which runs the image of {board}: ./run setup report "
                          "installs it") from missing
        except subprocess.TimeoutExpired as late:
            said = (late.output or b"")[-2000:].decode(errors="replace")
            raise Failure(f"the self-test of {board} was not done within {MAKE_SECONDS_MAX} s, and was ended:\n"
                          f"{said}") from late
    lines = report_lines(done.stdout)
    if done.returncode != 0 or not lines:
        raise Failure(f"the self-test of {board} ended with status {done.returncode}:\n{done.stdout[-2000:]}")
    return "".join(f"{line}\n" for line in lines)


def run_make(arguments):
    text = make(arguments.board.replace("_", "-"), arguments.nonce or 0)
    fields, reasons = check(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="ascii")
    else:
        print(text, end="")
    for reason in reasons:
        print(f"report: refused: {reason.name}: {reason.words}")
    print(f"result: board={fields.get('board')} kind={kind_of(fields)} refused={len(reasons)}")
    return 1 if reasons else 0


def run_check(arguments):
    accepted = [check_file(path, arguments.nonce) for path in arguments.files]
    print(f"result: accepted={sum(accepted)} refused={len(accepted) - sum(accepted)}")
    return 0 if all(accepted) else 1


def run_nonce(_):
    print(f"result: nonce={secrets.randbelow(NONCE_END - 1) + 1}")
    return 0


def number(text):
    value = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text} is no nonce: a number from 1 to {NONCE_END - 1}")
    return value


def main():
    parser = argparse.ArgumentParser(prog="./run report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make")
    making.add_argument("board", metavar="BOARD", help="posix, or an emulated board")
    making.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the report's file, in place of the console")
    checking = verbs.add_parser("check")
    checking.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="a console's log")
    for verb in (making, checking):
        verb.add_argument("--nonce", type=number, metavar="N", help="that the report answers")
    verbs.add_parser("nonce")
    arguments = parser.parse_args()
    try:
        return {"make": run_make, "check": run_check, "nonce": run_nonce}[arguments.verb](arguments)
    except (Failure, RuntimeError) as failure:
        print(f"report: error: {failure}", file=sys.stderr)
        print("result: error=failed")
        return 2


if __name__ == "__main__":
    sys.exit(main())
