#!/usr/bin/python3
"""docs/tutorial_vibration.md as it stands: ./run example vibration plays its commands, and what they print is what the
page shows. What the page says is refused, is refused; and the example's own checks, where they can be wrong.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import example_vibration as example  # noqa: E402  the tool under test
import fleet  # noqa: E402

SECONDS_MAX = 280
BOARD_SECONDS_MAX = 30
IMAGE = ROOT / "build" / "mps2-an386" / "boards" / "mps2_an386" / f"{example.IMAGE}.elf"
DATA_REFUSED, IDENTITY_REFUSED = 4, 3  # of application.c and gradstream-client
RESULT = re.compile(r"result: name=vibration commands=5 gap=\S+ auc=\S+ auc_board=\S+ seconds=\S+")


# ---- What the page shows ----

def is_shown(shown, printed):
    """Whether a word of the page is that of the program; a number as far as the page gives its digits."""
    if shown == printed:
        return True
    parts, others = shown.split(","), printed.split(",")
    if len(parts) > 1:
        return len(parts) == len(others) and all(map(is_shown, parts, others))
    key, _, value = shown.rpartition("=")
    other_key, _, other = printed.rpartition("=")
    if key != other_key or not re.fullmatch(r"-?\d+\.\d+", value) or not re.fullmatch(r"-?\d+(\.\d+)?", other):
        return False
    return abs(float(value) - float(other)) <= 0.6 * 10.0 ** -len(value.rpartition(".")[2])


def holds_line(shown, printed):
    """Whether the words of the page's line stand in the program's line, in their order."""
    words = iter(printed.split())
    return all(any(is_shown(word, other) for other in words) for word in shown.split())


def faults_of_page(text, printed):
    """Lines of the page that the commands did not print. printed: all, with each command behind `$ `."""
    parts = re.split(r"^\$ ", printed, flags=re.M)[1:]
    faults = []
    blocks = example.blocks(text)
    assert len(parts) == len(blocks), f"{len(parts)} commands were run, and the page has {len(blocks)}"
    for block, part in zip(blocks, parts):
        lines = iter(part.splitlines())
        faults += [f"`{block.command}` did not print: {shown}" for shown in block.output.splitlines()
                   if not any(holds_line(shown, line) for line in lines)]
    return faults


def check_reader():
    text = ("## A\n\n```sh\nfirst\n```\n\n```text\nx=1.25 y\n```\n\n"
            "## Train it\n\n1. Do\n\n   ```sh\n   second \\\n     more\n   ```\n")
    assert example.blocks(text) == [("## A", "first", "x=1.25 y\n"), ("## Train it", "second \\\n  more", "")]
    assert holds_line("x=1.25 y", "a=2 x=1.254 b y") and not holds_line("x=1.25", "x=1.26")
    assert not holds_line("x=1.25 y", "y x=1.25") and not holds_line("x=7", "x=8")
    assert not holds_line("x=1.25", "z=1.25")
    assert holds_line("e=6.5,1.6", "e=6.51,1.57") and not holds_line("e=6.5,1.6", "e=6.5")
    assert not faults_of_page(text, "$ first\nx=1.251 y\n$ second\n")
    assert len(faults_of_page(text, "$ first\nx=1.3 y\n$ second\n")) == 1


def check_suggestion(text, folder):
    """The command that the page names for other tables suggests the run of its file."""
    command, = re.findall(r"`gradstream (run suggest --data own.csv [^`]*) > own.toml`", text)
    command = command.replace("own.csv", "pump-1.csv")
    suggested = tomllib.loads(subprocess.run([fleet.SERVER, *command.split()], cwd=folder, check=True, text=True,
                                             stdout=subprocess.PIPE, timeout=SECONDS_MAX).stdout)["run"]
    run = tomllib.loads((folder / "pumps.toml").read_text(encoding="utf-8"))["run"]
    own = {"name", "round_count", "holdout_share", "evaluation_period"}
    assert {key: suggested[key] for key in run if key not in own} == {key: run[key] for key in run if key not in own}
    assert (suggested["centre"], suggested["scale"], suggested["step_size"]) == ("federated", "common", "auto")


# ---- The example's own checks ----

def check_numpy():
    assert example.auc(np.array([1.0, 2.0]), np.array([2.0, 3.0])) == 0.875  # a tie counts half
    held = example.held_out(100, 0.2)
    assert held[0] and 15 <= held.sum() <= 25 and not example.held_out(100, 0).any()


def check_tables(folder):
    """The tables follow from their seed, and are those that the page lists."""
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert example.main(["--tables", str(folder / name), "--seed", seed]) == 0
    names = sorted(path.name for path in (folder / "a").iterdir())
    assert names == ["faulty.csv", *(f"pump-{n}.csv" for n in range(1, 7)), "pumps.toml", "sensor.csv"], names
    same, other = ((folder / name / "pump-1.csv").read_bytes() for name in "bc")
    assert (folder / "a" / "pump-1.csv").read_bytes() == same != other
    counts = [len(example.read_table(folder / "a" / f"pump-{n}.csv")) for n in range(1, 7)]
    assert counts[0] == 500 and counts[-1] == 120 and sorted(counts, reverse=True) == counts, counts


def check_planted_faults(text):
    """Each bar fails where the files of a run that holds are spoilt, and no other bar does."""
    played = [(block, []) for block in example.blocks(text)]
    extra = example.Block(example.TRAINING, "true", "")
    spoilt = [("board.log", r"(event=auc .*value=)\S+", r"\g<1>0.999700", "the board's AUC"),
              ("board.log", r"(event=score window=200 value=)\S+", r"\g<1>0.9", "scores and threshold"),
              ("board.log", r"event=score window=340 .*", "", "scores and threshold"),
              ("board.log", r"(event=threshold value=)\S+", r"\g<1>0.18", "scores and threshold"),
              ("board.log", r"event=alarm .*", "", "one alarm"),
              ("board.log", r"(event=alarm window=)\d+", r"\g<1>230", "one alarm"),
              ("scores.csv", r"\n50,[^,]*", r"\n50,0.9", "scores and alarms on Linux"),
              ("scores.csv", r"\n50,([^,]*),\d", r"\n50,\g<1>,0", "scores and alarms on Linux"),
              ("scores.csv", r"\n100,.*\n", r"\n", "scores and alarms on Linux"),
              ("history.csv", r"(,explained_variance,0.9)", r"\g<1>7", "the quality"),
              ("pump-3.log", r"(event=finished .*digest=)\w+", r"\g<1>0", "one digest")]
    with tempfile.TemporaryDirectory() as home:
        for name, pattern, words, bar in spoilt:
            folder = pathlib.Path(home) / "spoilt"
            shutil.copytree(example.HOME, folder)
            before = (folder / name).read_text(encoding="utf-8")
            (folder / name).write_text(re.sub(pattern, words, before), encoding="utf-8")
            failed = [what for what, holds in example.checks_of(example.Outcome(folder), played)[0] if not holds]
            assert len(failed) == 1 and bar in failed[0], f"{name}, {pattern}: {failed}"
            shutil.rmtree(folder)
    outcome = example.Outcome(example.HOME)
    for commands in (played + [(extra, [])], played + [(extra._replace(section="", command="python3 x"), [])]):
        failed = [what for what, holds in example.checks_of(outcome, commands)[0] if not holds]
        assert len(failed) == 1 and "commands lead" in failed[0], failed
    outcome.model = example.Model(min(example.HOME.glob("model_?.npz")))  # an early version
    failed = " ".join(what for what, holds in example.checks_of(outcome, played)[0] if not holds)
    assert "the gap" in failed and "the AUC" in failed, failed


# ---- What is refused ----

def check_pack(folder):
    lines = (folder / "a" / "pump-2.csv").read_text(encoding="ascii").splitlines(keepends=True)
    cases = {"narrow": ("".join(line.rpartition(",")[0] + "\n" for line in lines), "has 23 columns", "has 24"),
             "renamed": (lines[0].replace("x2", "x9") + "".join(lines[1:]), "column 2 is `x9`", "it is `x2`"),
             "swapped": (lines[0].replace("x1,x2", "x2,x1") + "".join(lines[1:]), "column 1 is `x2`", "it is `x1`"),
             "empty": ("", "is empty", "a sample a row"), "header": (lines[0], "a header line", "no sample")}
    for name, (text, *words) in cases.items():
        (folder / f"{name}.csv").write_text(text, encoding="ascii")
        done = subprocess.run([fleet.SERVER, "data", "pack", folder / "a" / "pump-1.csv", folder / f"{name}.csv",
                               "--out-folder", folder / "refused"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=SECONDS_MAX)
        assert done.returncode == 8 and all(word in done.stdout for word in [f"{name}.csv", *words]), done.stdout
    (folder / "pump.identity").write_text(f"identity = pump\nkey = {'1f' * 32}\n", encoding="ascii")
    for name, words in (("empty", "is empty"), ("header", "no sample")):
        client = fleet.Process("client", [fleet.CLIENT, "--server", "127.0.0.1:9", "--identity",
                                          folder / "pump.identity", "--data", folder / f"{name}.csv"])
        ended = client.wait(BOARD_SECONDS_MAX)
        client.stop()
        assert ended == DATA_REFUSED, f"{name}: {ended}\n{client.lines}"
        assert any(f"{name}.csv" in line and words in line for line in client.lines), client.lines


def check_board(folder):
    """A recording that the application does not know, and a board without identity."""
    sensor = (folder / "a" / "sensor.csv").read_text(encoding="ascii").splitlines(keepends=True)
    wide = [sensor[0].replace("\n", ",z9\n"), *(line.replace("\n", ",1\n") for line in sensor[1:])]
    (folder / "wide.csv").write_text("".join(wide), encoding="ascii")
    (folder / "short.csv").write_text("".join(sensor[:101]), encoding="ascii")
    (folder / "whole.csv").write_text("".join(sensor), encoding="ascii")
    (folder / "none.identity").write_text("# nothing\n", encoding="ascii")
    for name, status, words in (("wide", DATA_REFUSED, "columns=25"), ("short", DATA_REFUSED, "windows=100"),
                                ("whole", IDENTITY_REFUSED, "no identity")):
        fleet.command([fleet.SERVER, "data", "pack", folder / f"{name}.csv", "--out-folder", folder], "packing")
        board = fleet.Process("board", [ROOT / "tools" / "emulate.py", "mps2-an386", "--image", IMAGE, "--server",
                                        "127.0.0.1:9", "--identity", folder / "none.identity", "--shard",
                                        folder / f"{name}.gsd"])
        ended = board.wait(BOARD_SECONDS_MAX)
        board.stop()
        assert ended == status and any(words in line for line in board.lines), f"{name}: {ended}\n{board.lines}"


def main():
    check_reader()
    check_numpy()
    text = example.TUTORIAL.read_text(encoding="utf-8")
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        check_tables(folder)
        check_suggestion(text, folder / "a")
        check_pack(folder)
        check_board(folder)
    finally:
        shutil.rmtree(folder)
    assert "./run example vibration --tables build/pumps\n" in text, "the page does not say how its tables are made"
    done = subprocess.run(["/usr/bin/python3", "-B", ROOT / "tools" / "example.py", "vibration"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS_MAX, check=False)
    print(done.stdout)
    assert done.returncode == 0, "the example does not hold"
    assert RESULT.fullmatch(done.stdout.splitlines()[-1]), "another result"
    faults = faults_of_page(text, done.stdout)
    assert not faults, "\n".join(faults)
    check_planted_faults(text)


if __name__ == "__main__":
    main()
