"""The further algorithms, and a perceptron, on an emulated Cortex-M4F board: an image with all that a host links
takes part beside a native client, over TLS. So does an image for a network of 7,690 numbers, by scalars; its RAM is
bounded. Board, client and server end with one digest, and both devices are folded in every version. The same run with
a native client in the board's place ends with that digest too where the local work is reproducible. Where it calls libm
(logarithms of SPD matrices, normal directions, softmax) it comes to the same losses. What the board's arena held is
pinned.
"""

import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import numpy as np  # noqa: E402

import digits  # noqa: E402
import fleet  # noqa: E402

BOARD = "mps2-an386"
TARGET = "gradstream_client_all_emulator"
LARGE_TARGET = "gradstream_client_perceptron_emulator"
LARGE_RAM_MAX = 64 * 1024  # data, arena and stack of that image
ROUNDS = 4
SAMPLES = 40  # of each device
SPD_SAMPLES = 6
SECONDS_MAX = 120
WIDTHS = [64, 4, 10]  # of the perceptron that the image links
LARGE_WIDTHS = [196, 32, 32, 10]
CLIENT_WORDS = {"spd": ["--problem", "spd_mean"], "kpca": [],
                "network": ["--problem", "perceptron", "--widths", ",".join(map(str, WIDTHS))],
                "large": ["--problem", "perceptron", "--widths", ",".join(map(str, LARGE_WIDTHS))]}


def size_of(widths):
    return sum((a + 1) * b for a, b in zip(widths, widths[1:]))


COMMON = {"rounds": {"round_count": ROUNDS, "device_count": 2, "retry_min_ms": 5, "retry_max_ms": 15,
                     "local_step_count": 3, "correction_form": "none", "step_rule": "fixed", "fold_weight": "uniform",
                     "clip_norm": "none", "centre": "none", "scale": "none"},
          "spd": {"manifold": "spd", "rows": 3, "cols": 3, "problem": "spd_mean", "estimator": "analytic_gradient",
                  "batch_mode": "all", "step_size": 0.1},
          "kpca": {"manifold": "stiefel", "rows": 64, "cols": 4, "problem": "kpca", "batch_mode": "common",
                   "batch_size": 8, "direction_count": 8, "step_size": 0.05},
          "network": {"manifold": "euclidean", "rows": size_of(WIDTHS), "cols": 1,
                      "problem": "perceptron", "solver": "gradient_stream", "estimator": "analytic_gradient",
                      "batch_mode": "common", "batch_size": 8, "step_size": 0.2},
          "large": {"manifold": "euclidean", "rows": size_of(LARGE_WIDTHS), "cols": 1, "problem": "perceptron",
                    "solver": "projection", "estimator": "projection_one_sided", "direction_count": 64,
                    "local_step_count": 1, "batch_mode": "common", "batch_size": 16, "step_size": 0.2}}
SVRG = {"solver": "svrg", "barzilai_borwein": "first"}
GRADIENTS = {"estimator": "analytic_gradient"}
FEEDBACK = {**GRADIENTS, "solver": "gradient_stream", "upload_encoding": "int8", "error_feedback": True}
SCALARS = {"solver": "projection", "estimator": "projection_one_sided", "direction_count": 32, "round_count": 12}
# Relative. Over bytes a point is rounded to 16 bits, so that the last bit of a float may change a word.
LOSS_ERROR_MAX = 5e-5
# Where differences of losses are uploaded, divided by the smoothing: of the first rounds, since each one magnifies it.
SCALARS_ERROR_MAX, SCALARS_ROUNDS = 1e-3, 4
CASES = {  # the data, the run's keys, most bytes of the board's arena in use, whether its local work is reproducible
    "RFedAvg": ("spd", {"solver": "tangent_mean"}, 536, False),
    "RFedProx": ("spd", {"solver": "tangent_mean", "proximal": 0.1}, 536, False),
    "RFedSVRG": ("spd", {"solver": "svrg"}, 624, False),
    "RFedSVRG-2BB": ("spd", SVRG, 672, False),
    "RFedSVRG-2BBS": ("spd", {**SVRG, "step_rule": "barzilai_borwein", "step_min": 0.001, "step_max": 0.1}, 672, False),
    "A9, memory": ("kpca", {"correction_form": "memory"}, 9336, True),
    "A10, memory": ("kpca", {**GRADIENTS, "correction_form": "memory", "cols": 2}, 6240, True),
    "RFedAGS, estimator (6)": ("kpca", {"solver": "gradient_stream", "estimator": "tangent_retraction"}, 9896, False),
    "RFedAGS of a perceptron": ("network", {}, 9200, False),
    "A9 of a perceptron": ("network", SCALARS, 6232, False),
    "A9 of a perceptron 196-32-32-10": ("large", {"round_count": 12}, 39472, False),
    "RFedAGS, int8 with error feedback": ("kpca", FEEDBACK, 10168, True),
}


def spd_shard(dice):
    """SPD matrices A A' + I as a shard of floats (firmware/float_shard.h)."""
    values = []
    for _ in range(SPD_SAMPLES):
        a = [[dice.gauss(0, 0.5) for _ in range(3)] for _ in range(3)]
        values += [sum(a[i][k] * a[j][k] for k in range(3)) + (i == j) for i in range(3) for j in range(3)]
    return b"GSD2" + struct.pack("<3I", SPD_SAMPLES, 9, 0) + struct.pack(f"<{len(values)}f", *values)


def labelled_shard(rows):
    """Rows of Digits, pixels / 16 and the class, as a shard of floats."""
    return b"GSD2" + struct.pack("<3I", *rows.shape, 0) + rows.astype("<f4").tobytes()


def enlarged(rows):
    """Labelled rows of 8 x 8 pixels as such rows of 14 x 14, each pixel repeated."""
    places = np.arange(14) * 8 // 14
    images = rows[:, :64].reshape(-1, 8, 8)[:, places][:, :, places]
    return np.hstack([images.reshape(len(rows), 196), rows[:, 64:]])


def write_shards(folder):
    """folder/KIND0.gsd and KIND1.gsd for each kind."""
    dice = random.Random(1)
    parts, mean = digits.shards(2)
    for device in range(2):
        (folder / f"spd{device}.gsd").write_bytes(spd_shard(dice))
        digits.write_shard(folder / f"kpca{device}.gsd", parts[device][:SAMPLES], mean)
        # Every class: each 22nd sample of all in their order.
        (folder / f"network{device}.gsd").write_bytes(labelled_shard(digits.labelled()[device::22][:2 * SAMPLES]))
        (folder / f"large{device}.gsd").write_bytes(labelled_shard(enlarged(digits.labelled()[device::22])))


def toml_of(value):
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def write_start(path):
    """Weights of the large network that keep the size of what goes through it, and no biases."""
    dice = np.random.default_rng(1)
    layers = [np.vstack([dice.normal(0, (2 / a) ** 0.5, (a, b)), np.zeros((1, b))])
              for a, b in zip(LARGE_WIDTHS, LARGE_WIDTHS[1:])]
    np.save(path, np.concatenate([layer.reshape(-1, 1) for layer in layers]).astype("<f4"))


def write_config(home, port, kind, keys):
    run = {"name": "test", **COMMON["rounds"], **COMMON[kind], **keys}
    start = []
    if kind == "large":
        write_start(home / "start.npy")
        start = [f'first_model = "{home}/start.npy"']
    lines = ["[server]", f'listen = "127.0.0.1:{port}"', f'database = "{home}/test.db"', *start, "[server.limits]",
             "handshake_deadline_ms = 60000", "[run]", *(f"{key} = {toml_of(value)}" for key, value in run.items())]
    path = home / "test.toml"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def version_count_of(keys):
    return keys.get("round_count", ROUNDS) * (2 if keys.get("solver") == "svrg" else 1)


def play(folder, home, kind, keys, has_board):
    """(closing lines of the two devices, those of the server's rounds), each as its fields."""
    port = fleet.free_port()
    config = write_config(home, port, kind, keys)
    processes = {"server": fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config", config])}
    image = fleet.ROOT / "build" / BOARD / "boards" / BOARD.replace("-", "_") / (
        f"{LARGE_TARGET if kind == 'large' else TARGET}.elf")
    try:
        for device in range(2):
            name, identity, shard = f"device{device}", home / f"{device}.identity", folder / f"{kind}{device}.gsd"
            fleet.command([fleet.SERVER, "device", "add", name, "--config", config, "--out", identity],
                          "enrolling a device")
            if has_board and device == 0:
                words = [fleet.ROOT / "tools" / "emulate.py", BOARD, "--image", image, "--shard", shard]
            else:
                words = [fleet.CLIENT, "--data", shard, "--retry-ms", 100, "--until-finished", "--state", "none",
                         *CLIENT_WORDS[kind]]
            processes[name] = fleet.Process(name, [*words, "--server", f"127.0.0.1:{port}", "--identity", identity,
                                                   "--no-floors"])
        ends = [processes[f"device{device}"].wait_for_line("event=finished", SECONDS_MAX) for device in range(2)]
        if None in ends:
            lines = [f"{name}: {line}" for name, process in processes.items() for line in process.lines[-8:]]
            raise SystemExit("FAIL: without an end:\n" + "\n".join(lines))
        # A device may have its end before the server's log has the line.
        last = f"event=round_closed version={version_count_of(keys)} "
        if processes["server"].wait_for_line(last, SECONDS_MAX) is None:
            raise SystemExit(f"FAIL: no line {last}")
        rounds = [line for line in processes["server"].lines if "event=round_closed" in line]
        return [fleet.fields(end) for end in ends], [fleet.fields(line) for line in rounds]
    finally:
        for process in processes.values():
            process.stop()


def faults_of_run(name, ends, rounds):
    """What of one run does not hold; a line for each."""
    version_count = version_count_of(CASES[name][1])
    digests = {(end["version"], end["digest"]) for end in (*ends, rounds[-1])}
    faults = []
    if len(digests) != 1:
        faults.append(f"{name}: more than one digest: {sorted(digests)}")
    if [row["folded"] for row in rounds] != ["2"] * version_count:
        faults.append(f"{name}: not both in every version: {rounds}")
    return faults


def faults_of(name, folder):
    """What of a case does not hold, with the board and with a native client in its place."""
    kind, keys, arena, is_reproducible = CASES[name]
    runs, faults = [], []
    for has_board in (True, False):
        with tempfile.TemporaryDirectory(prefix="gradstream-algorithm-") as home:
            ends, rounds = play(folder, pathlib.Path(home), kind, keys, has_board)
        runs.append((ends[0], rounds))
        faults += faults_of_run(name, ends, rounds)
    (board, with_board), (native, with_native) = runs
    losses = [[float(row["loss_after"]) for row in rounds] for rounds in (with_board, with_native)]
    by_scalars = {**COMMON[kind], **keys}.get("estimator") == "projection_one_sided"
    error = max(abs(one - other) / max(abs(other), 1e-6) for one, other in
                list(zip(*losses))[:SCALARS_ROUNDS if by_scalars else None])
    print(f"{name}: version {board['version']}, digest {board['digest']}, losses within {error:.1e} of a native "
          f"client's, {board['arena']} bytes of arena", flush=True)
    if is_reproducible and board["digest"] != native["digest"]:
        faults.append(f"{name}: with a native client in the board's place the digest is {native['digest']}")
    if not error <= (SCALARS_ERROR_MAX if by_scalars else LOSS_ERROR_MAX):
        faults.append(f"{name}: losses differ from a native client's by {error:.1e}: {losses}")
    if kind in ("network", "large") and not losses[0][-1] < 0.9 * float(with_board[0]["loss_before"]):
        faults.append(f"{name}: the network learnt nothing: {losses[0]}")
    if int(board["arena"]) != arena:
        faults.append(f"{name}: {board['arena']} bytes of the board's arena were in use, not {arena}")
    return faults


def faults_of_memory():
    """What the image for the large network takes of RAM, by its sections, which hold arena and stack too."""
    image = fleet.ROOT / "build" / BOARD / "boards" / BOARD.replace("-", "_") / f"{LARGE_TARGET}.elf"
    text = subprocess.run(["arm-none-eabi-size", "-A", image], stdout=subprocess.PIPE, text=True, check=True).stdout
    sections = re.findall(r"^(\.\S+) +(\d+) +(\d+)$", text, re.M)
    ram = sum(int(size) for _, size, address in sections if 0x20000000 <= int(address) < 0x30000000)
    print(f"{LARGE_TARGET}: {ram} bytes of RAM", flush=True)
    return [] if 0 < ram <= LARGE_RAM_MAX else [f"{LARGE_TARGET} takes {ram} bytes of RAM, at most {LARGE_RAM_MAX}"]


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, TARGET, LARGE_TARGET], "building the images", 600)
    with tempfile.TemporaryDirectory(prefix="gradstream-algorithm-") as folder:
        write_shards(pathlib.Path(folder))
        faults = faults_of_memory()
        faults += [fault for name in CASES for fault in faults_of(name, pathlib.Path(folder))]
    for fault in faults:
        print(f"FAIL: {fault}")
    print(f"result: algorithms={len(CASES)} faults={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
