"""The demo of a network: a short form by native clients alone, twice, which must learn and come to one digest with the
same accuracy each time; its two pages; its end by SIGTERM and by a client that dies; wrong options by their names.
With `board`: the form of docs/demo.md, with an emulated board and its own bars.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHORT = ["--network", "--board", "none", "--rounds", "10"]
FULL = ["--network", "--board", "mps2-an386"]
ROUNDS_FULL = 60
ACCURACY_MIN = 0.5  # after ten rounds, of 0.1 by chance: far above if it learns at all
WRONG = {"--seed": ["--seed", "-1"], "--rounds": ["--rounds", "0"], "--board": ["--board", "rp2040"],
         "--solver": ["--solver", "projection"]}


def run(options, seconds=240):
    command = ["/usr/bin/python3", "-B", ROOT / "tools" / "demo.py", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)


def result_of(done):
    lines = done.stdout.strip().splitlines() or [""]
    return dict(re.findall(r"(\w+)=(\S+)", lines[-1]))


def fault(done, rounds, accuracy_min):
    """Empty, or what is wrong with a run that was to work."""
    result = result_of(done)
    print(f"result of {rounds} rounds: {result}", flush=True)
    if done.returncode != 0:
        return f"exit status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    if list(result) != ["accuracy", "rounds", "bytes_up", "digests"]:
        return f"the result has other words: {result}"
    if result["digests"] != "1" or result["rounds"] != str(rounds) or int(result["bytes_up"]) <= 0:
        return f"unexpected result {result}"
    if not float(result["accuracy"]) >= accuracy_min:
        return f"accuracy {result['accuracy']}, it learns nothing"
    lines = re.findall(r"^round +(\d+)  accuracy [0-9.]+  loss", done.stdout, re.MULTILINE)
    if not {0, 1, *range(10, rounds + 1, 10)} <= set(map(int, lines)):
        return f"progress lines of {lines} for {rounds} rounds"
    if "devices taught a network of 1,210 numbers" not in done.stdout:
        return "the end does not say what was found"
    return "" if "<svg" in (ROOT / "build" / "demo_network" / "curve.svg").read_text() else "no picture"


def fault_of_pages(lines):
    """Asks both pages that the demo's first lines name; while it runs, since they end with it."""
    for line in lines:
        if match := re.search(r"page: (http://127\.0\.0\.1:\d+/)", line):
            if "gradstream" not in urllib.request.urlopen(match[1], timeout=20).read().decode():
                return "the server's page is another"
        elif match := re.search(r"accuracy: here, and at (http://127\.0\.0\.1:\d+/)", line):
            text = urllib.request.urlopen(match[1], timeout=20).read().decode()
            return "" if re.search(r"accuracy 0\.\d{3} in round \d+|no round yet", text) else f"no accuracy in {text}"
    return "the demo names no page for the accuracy"


def end_itself(demo):
    demo.terminate()


def kill_a_client(demo):
    """One of the demo's own children, by its pid."""
    listed = ["ps", "-ww", "--ppid", str(demo.pid), "-o", "pid=,args="]
    children = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    client, = [line.split()[0] for line in children if "gradstream-client" in line and "native-1.gsd" in line]
    os.kill(int(client), signal.SIGKILL)


def faults_of_ended(how, status, words):
    """A long run whose pages are looked at, and which then ends by something: soon, and with these words."""
    options = ["--network", "--board", "none", "--rounds", "100000"]
    command = ["/usr/bin/python3", "-B", ROOT / "tools" / "demo.py", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        text = fault_of_pages(demo.stdout)
        for line in demo.stdout:
            if re.match(r"round +1 ", line):
                break
        how(demo)
        rest = demo.stdout.read()
    missing = [word for word in words if word not in rest]
    if demo.returncode != status or missing:
        return [text, f"{how.__name__}: exit status {demo.returncode}, without {missing} in {rest[-600:]}"]
    return [text]


def faults_of_short():
    runs = [run(SHORT) for _ in range(2)]
    faults = [fault(done, 10, ACCURACY_MIN) for done in runs]
    accuracies = {result_of(done).get("accuracy") for done in runs}
    if len(accuracies) != 1:
        faults.append(f"the same seed comes to different accuracies: {sorted(map(str, accuracies))}")
    faults += faults_of_ended(end_itself, 130, ["result: error=interrupted"])
    faults += faults_of_ended(kill_a_client, 1, ["native-1 ended with exit status -9", "result: error=failed"])
    for word, options in WRONG.items():
        refused = run(["--network", *options])
        if refused.returncode != 2 or word not in refused.stderr:
            faults.append(f"{' '.join(options)} is not refused by name: {refused.returncode}, {refused.stderr[-300:]}")
    return faults


def main():
    faults = [fault(run(FULL), ROUNDS_FULL, 0.9)] if sys.argv[1:] == ["board"] else faults_of_short()
    faults = [text for text in faults if text]
    for text in faults:
        print(f"FAIL: {text}")
    print(f"result: failed={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
