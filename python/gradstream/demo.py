"""gradstream demo: three devices of this process and two clients of their own train one model. It needs no root, and no
other package."""

import argparse
import random
import subprocess
import sys
import time

from gradstream.device import Client, train
from gradstream.errors import Error
from gradstream.loss import Loss
from gradstream.programs import program
from gradstream.server import Server

DIRECTION = (0.8, 0.6, 0.0)  # what the readings agree on
DEVICES, PROGRAMS, SAMPLES, ROUNDS = 3, 2, 64, 60
SECONDS_MAX = 120
COSINE_MIN = 0.99
END_SECONDS_MAX = 10


def readings(seed):
    """Noise around a line through zero."""
    draw = random.Random(seed)
    lengths = [draw.gauss(0, 1) for _ in range(SAMPLES)]
    return [[length * value + draw.gauss(0, 0.1) for value in DIRECTION] for length in lengths]


def own_loss(rows):
    """What the problem kpca computes, in plain Python: -1/2 of the mean of (z'x)^2."""
    def f(x, indices):
        total = 0.0
        for index in indices:
            row = rows[index]
            total += sum(value * x[place, 0] for place, value in enumerate(row)) ** 2
        return -0.5 * total / len(indices)
    return Loss(f, shape=(3, 1), count=len(rows), name="kpca")


def start_program(server, name, rows):
    table = server.folder / f"{name}.csv"
    table.write_text("".join(",".join(f"{value:.9g}" for value in row) + "\n" for row in rows), encoding="ascii")
    server.enrol(name)
    return subprocess.Popen([program("gradstream-client"), "--server", server.address, "--identity",
                             str(server.folder / f"{name}.identity"), "--data", str(table), "--until-finished"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def play():
    """(rounds, digests, cosine of the model's direction and the readings')."""
    clients, programs = [], []
    with Server(problem="kpca", manifold="stiefel", rows=3, cols=1, device_count=DEVICES + PROGRAMS,
                round_count=ROUNDS, centre="none", scale="none", solver="projection",
                estimator="projection_one_sided", direction_count=4, local_step_count=2, batch_size=32,
                step_size=0.1, smoothing=0.01) as server:
        print(f"demo: a server on {server.address}, {DEVICES} devices in this process, {PROGRAMS} programs", flush=True)
        try:
            for index in range(PROGRAMS):
                programs.append(start_program(server, f"program-{index}", readings(index)))
            for index in range(DEVICES):
                rows = readings(PROGRAMS + index)
                # The last device computes the loss itself: the run's problem is one by its name.
                problem = own_loss(rows) if index == DEVICES - 1 else "kpca"
                clients.append(Client(server.enrol(f"python-{index}"), server.address, rows, problem))
            train(clients, seconds=SECONDS_MAX)
            digests = {client.status().digest for client in clients}
            digests |= {end_digest(process) for process in programs}
            x = [row[0] for row in clients[0].model()]
            return clients[0].status().version, digests, abs(sum(a * b for a, b in zip(x, DIRECTION)))
        finally:
            for client in clients:
                client.close()
            for process in programs:
                process.kill()
                process.wait()


def end_digest(process):
    """Of the model that a program ended with."""
    _, said = process.communicate(timeout=END_SECONDS_MAX)
    line = next((line for line in said.splitlines() if "event=finished" in line), "")
    return dict(word.split("=", 1) for word in line.split() if "=" in word).get("digest", "none")


def main(words):
    argparse.ArgumentParser(prog="gradstream demo", description=__doc__).parse_args(words)
    begin = time.monotonic()
    try:
        rounds, digests, cosine = play()
    except Error as failure:
        print(f"demo: error: {failure}", file=sys.stderr)
        return 1
    holds = len(digests) == 1 and cosine >= COSINE_MIN
    print(f"result: rounds={rounds} digests={len(digests)} digest={min(digests)} cosine={cosine:.4f} "
          f"seconds={time.monotonic() - begin:.1f}")
    return 0 if holds else 1
