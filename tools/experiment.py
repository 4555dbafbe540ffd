"""The papers' experiments: builds the program, runs it, draws its pictures.

Usage: tools/experiment.py NAME|all [--precision float|double] [OPTION...]   options: gradstream-experiment --help
"""
import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def draw(results: str) -> None:
    """A picture for every script that the program wrote."""
    for folder, _, names in os.walk(results):
        if "picture.gp" in names:
            subprocess.run(["gnuplot", "picture.gp"], cwd=folder, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--precision", choices=("float", "double"), default="float")
    parser.add_argument("--results", default="results")
    try:
        known, rest = parser.parse_known_args()
    except SystemExit:
        print("result: verb=experiment error=usage")
        return 2
    target = "gradstream-experiment" + ("-f64" if known.precision == "double" else "")
    built = subprocess.run(["tools/build.sh", "dev", target], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        print(built.stdout)
        print("result: verb=experiment error=build")
        return 1
    results = os.path.abspath(known.results)
    command = [os.path.join(ROOT, "build/dev/experiments", target), "--results", results, *rest]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        last = ""
        for line in program.stdout:
            if last:
                print(last, end="", flush=True)
            last = line
    if os.path.isdir(results):
        draw(results)
    print(last, end="")
    return program.returncode


if __name__ == "__main__":
    sys.exit(main())
