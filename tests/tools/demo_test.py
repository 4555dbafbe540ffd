"""The demo as the README shows it, with its own bars, and each of its modes for a few rounds: exit status, result line,
exported models, picture. In the short runs a mode must learn and end with one digest.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS_FULL = 300
ROUNDS_SHORT = 20
MODES = {
    "default": ["--board", "mps2-an386", "--rounds", str(ROUNDS_FULL)],
    "gradient stream": ["--solver", "gradient_stream"],
    "own directions": ["--groups", "9"],
    "three groups": ["--groups", "3"],
    "early trigger": ["--trigger", "7"],
    "partial work": ["--partial", "1"],
    "int8": ["--encoding", "int8"],
}
GAP_MAX = 0.2  # of 0.88 at the beginning: every mode is far below after 20 rounds if it learns at all


def run(options):
    board = [] if "--board" in options else ["--board", "none"]
    length = [] if "--rounds" in options else ["--rounds", str(ROUNDS_SHORT)]
    command = ["/usr/bin/python3", "-B", ROOT / "tools" / "demo.py", *length, *board, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def fault(mode, options):
    """Empty, or what is wrong."""
    rounds = ROUNDS_FULL if "--rounds" in options else ROUNDS_SHORT
    done = run(options)
    result = dict(re.findall(r"(\w+)=(\S+)", done.stdout.strip().splitlines()[-1]))
    print(f"{mode}: {done.stdout.strip().splitlines()[-1]}", flush=True)
    if done.returncode != 0:
        return f"exit status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    if result["digests"] != "1" or result["rounds"] != str(rounds) or result["devices"] != "9":
        return f"unexpected result {result}"
    if not float(result["relative_gap"]) < GAP_MAX:
        return f"relative gap {result['relative_gap']}, it learns nothing"
    progress = len(re.findall(r"^round ", done.stdout, re.MULTILINE))
    models = len(list((ROOT / "build" / "demo" / "models").glob("run1_v*.npy")))
    if progress != rounds + 1 or models != rounds + 1:
        return f"{progress} progress lines and {models} models for {rounds} rounds"
    if "<svg" not in (ROOT / "build" / "demo" / "curve.svg").read_text():
        return "no picture"
    return ""


def main():
    faults = {mode: text for mode, options in MODES.items() if (text := fault(mode, options))}
    refused = run(["--trigger", "some"])
    if refused.returncode == 0 or "--trigger" not in refused.stderr:
        faults["bad option"] = "a wrong --trigger is not refused by name"
    for mode, text in faults.items():
        print(f"FAIL: {mode}: {text}")
    print(f"result: modes={len(MODES) + 1} failed={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
