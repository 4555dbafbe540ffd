#!/usr/bin/python3
"""The benchmark of an engine on PostgreSQL, without a server: what it reads, its medians, the bars that it judges, and
a program that fails or is ended.
"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import bench_engine as bench  # noqa: E402

LINE = ("turn: batch=64 side=engine updates=640 seconds=0.5000 p50_ms=0.8000 empty_ms=0.4000 primary_us=20.00 "
        "standby_us=5.00 front_us=3.00 others=0.020")


def check(is_true, what):
    if not is_true:
        raise AssertionError(what)


def turn(side, batch=64, **more):
    return batch, side, {"updates": 640, "seconds": 0.5, "p50_ms": 0.8, "empty_ms": 0.4, "primary_us": 20,
                         "standby_us": 5, "front_us": 3, "others": 0.02, **more}


def test_lines():
    check(bench.parse_turn(LINE) == turn("engine"), bench.parse_turn(LINE))
    check(bench.parse_turn("servers: release=15.5 devices=32768") is None, "another line is a turn")


def test_medians():
    """A ratio is of one round's two turns, so that a slow minute of the machine is in both."""
    turns = [turn("engine", seconds=1.0), turn("bare", seconds=0.5, others=0.08), turn("bare", seconds=4.0),
             turn("engine", seconds=8.0), turn("engine", seconds=0.25), turn("bare", seconds=0.2),
             turn("bare", batch=8), turn("engine", batch=8)]
    rows = bench.medians(turns)
    check(list(rows) == [8, 64], rows)
    check(rows[64]["ratio"] == 0.5 and rows[64]["updates_per_s"] == 640 and rows[64]["bare_per_s"] == 1280, rows)
    check(abs(rows[64]["others"] - 0.03) < 1e-9 and rows[8]["ratio"] == 1, rows)
    try:
        bench.medians(turns[1:])
    except bench.Failure as failure:
        check("2 turns of the engine and 3 of the bare loop" in str(failure), failure)
    else:
        raise AssertionError("a turn without its pair is taken")


def row(**more):
    return {**bench.medians([turn("engine"), turn("bare")])[64], **more}


def test_bars():
    missed, is_quiet, text = bench.judge(row())
    check(not missed and is_quiet and text == (
        "batch=64 ratio=1.00 ratio_min=0.65 updates_per_s=1280 p50_ms=0.80 p50_ms_max=1.60 primary_us=20.0 "
        "primary_us_max=60 missed=none others=0.02 quiet=1"), text)
    for name, value, is_missed in (("ratio", 0.65, False), ("ratio", 0.64, True), ("p50_ms", 1.6, False),
                                   ("p50_ms", 1.61, True), ("primary_us", 60, False), ("primary_us", 60.1, True)):
        missed, _, text = bench.judge(row(**{name: value}))
        check(missed == [name] * is_missed and f"missed={name if is_missed else 'none'} " in text, text)
    check(bench.judge(row(others=0.1))[1] and not bench.judge(row(others=0.11))[1], "the bound of a quiet machine")


def played(program, *words):
    """(exit status, standard output, error output) of the benchmark with a shell script in place of its program."""
    folder = pathlib.Path(tempfile.mkdtemp())
    out, errors, old = io.StringIO(), io.StringIO(), (bench.PROGRAM, sys.argv)
    try:
        bench.PROGRAM, sys.argv = folder / "program", ["bench_engine", *words]
        bench.PROGRAM.write_text(f"#!/bin/sh\n{program}\n", encoding="ascii")
        bench.PROGRAM.chmod(0o755)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = bench.main()
        check([entry.name for entry in folder.iterdir()] == ["program"], "its folder is left behind")
    finally:
        bench.PROGRAM.unlink()
        folder.rmdir()
        bench.PROGRAM, sys.argv = old
    return status, out.getvalue(), errors.getvalue()


def test_program():
    """The exit status is that of the bars on a quiet machine, and 0 on another one."""
    bare = LINE.replace("side=engine", "side=bare")
    for ratio, others, status in (("1.00", "0.020", 0), ("0.50", "0.020", 1), ("0.50", "0.500", 0)):
        engine = LINE.replace("seconds=0.5000", f"seconds={0.5 / float(ratio)}").replace("others=0.020",
                                                                                      f"others={others}")
        found, said, _ = played(f"echo '{engine}'\necho '{bare.replace('0.020', others)}'")
        last = said.splitlines()[-1]
        check(found == status and last.startswith(f"result: batch=64 ratio={ratio} "), (found, said))
        check(("nothing is judged by the bars" in said) == (others == "0.500"), said)
    found, said, errors = played("echo nothing works >&2; exit 1")
    check(found == 1 and said == "result: error=failed\n" and "nothing works" in errors, (found, said, errors))
    found, said, errors = played("exit 0")
    check(found == 1 and "no turn" in errors, (found, said, errors))


def test_arguments():
    old = sys.argv
    try:
        for words, part in ((["--rounds", "0"], "--rounds takes 1 to 1000, not 0"),
                            (["--seconds", "0"], "--seconds takes 0.1 to 600, not 0")):
            sys.argv = ["bench_engine", *words]
            said = io.StringIO()
            with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
                bench.parse_arguments()
            check(part in said.getvalue(), f"{words}: {said.getvalue()}")
    finally:
        sys.argv = old


def main():
    os.environ.setdefault("GS_BUILD_DIR", "/nowhere")  # nothing is built
    for test in (test_lines, test_medians, test_bars, test_program, test_arguments):
        test()
        print(f"{test.__name__}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
