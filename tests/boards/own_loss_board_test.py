"""The loss in Eigen of docs/own_loss.md on an emulated Cortex-M4F board, beside the same loss in C on another board and
a native client with the library's own kpca: the three train one run over TLS, by forward passes and by gradients.
Server and devices end with one digest, and every device is folded in every version. With native clients in the boards'
places the losses are the same but for rounding.

The image with Eigen has no symbol of an allocator. Flash and stack that it takes beyond the image with the loss in C
are bounded.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402

BOARD = "mps2-an386"
FOLDER = fleet.ROOT / "build" / BOARD
TARGETS = {name: f"gradstream_client_own_{name}_emulator" for name in ("eigen", "c")}
SOURCES = {"eigen": "own_loss_example_eigen.cc", "c": "kpca_by_c.c"}
ALLOCATORS = re.compile(r"\b(_?(malloc|calloc|realloc|free)(_r)?|_?sbrk(_r)?|operator (new|delete).*)$")
ENTRIES = re.compile(r"_FUN\(|:(loss|gradient)$")  # functions that a table of a problem names
FLASH_MAX = 2560  # bytes of the image, beyond that with the loss in C
STACK_MAX = 512   # bytes, as above, that the two runs used
# Bytes, as above, of all frames of the loss. Functions that are called once are not inlined, and no two of Eigen's
# stand at once: the sum is more than a run uses.
FRAMES_MAX = 768
ROUNDS = 6
SAMPLES = 40  # of each device
SECONDS_MAX = 120
LOSS_ERROR_MAX = 1e-3  # relative; differences of losses are uploaded, divided by the smoothing
COMMON = {"name": "test", "problem": "kpca", "manifold": "stiefel", "rows": 64, "cols": 4, "round_count": ROUNDS,
          "device_count": 3, "retry_min_ms": 5, "retry_max_ms": 15, "local_step_count": 3, "batch_mode": "common",
          "batch_size": 8, "correction_form": "none", "fold_weight": "uniform", "clip_norm": "none", "step_size": 0.05,
          "centre": "none", "scale": "none"}
ALL = ("eigen", "c", "native")
CASES = {  # the run's keys, and the devices; a loss in C takes no units out
    "forward passes": ({"direction_count": 8}, ALL),
    "gradients": ({"solver": "gradient_stream", "estimator": "analytic_gradient"}, ALL),
    "units": ({"direction_count": 8, "centre": "federated", "scale": "common"}, ("eigen", "native", "native")),
}


def image(name):
    return FOLDER / "boards" / BOARD.replace("-", "_") / f"{TARGETS[name]}.elf"


def write_shards(folder):
    """folder/0.gsd ..: rows of Digits less their mean, as floats; each device has other classes."""
    parts, mean = digits.shards(3)
    for device, part in enumerate(parts):
        rows = (part[:SAMPLES] / 16.0 - mean).astype("<f4")
        header = b"GSD2" + len(rows).to_bytes(4, "little") + rows.shape[1].to_bytes(4, "little") + bytes(4)
        (folder / f"{device}.gsd").write_bytes(header + rows.tobytes())


def write_config(home, port, keys):
    lines = ["[server]", f'listen = "127.0.0.1:{port}"', f'database = "{home}/test.db"', "[server.limits]",
             "handshake_deadline_ms = 60000", "[run]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    path = home / "test.toml"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def play(folder, home, keys, kinds):
    """(closing lines of the devices, those of the server's rounds), each as its fields. kinds: a device's kind each."""
    port = fleet.free_port()
    config = write_config(home, port, COMMON | keys)
    processes = {"server": fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config", config])}
    try:
        for device, kind in enumerate(kinds):
            name, identity = f"device{device}", home / f"{device}.identity"
            shared = ["--server", f"127.0.0.1:{port}", "--identity", identity, "--no-floors"]
            fleet.command([fleet.SERVER, "device", "add", name, "--config", config, "--out", identity], "enrolling")
            if kind == "native":
                words = [fleet.CLIENT, "--data", folder / f"{device}.gsd", "--retry-ms", 100, "--until-finished",
                         "--state", "none"]
            else:
                words = [fleet.ROOT / "tools" / "emulate.py", BOARD, "--image", image(kind), "--shard",
                         folder / f"{device}.gsd"]
            processes[name] = fleet.Process(name, [*words, *shared])
        ends = [processes[f"device{device}"].wait_for_line("event=finished", SECONDS_MAX) for device in range(3)]
        if None in ends:
            lines = [f"{name}: {line}" for name, process in processes.items() for line in process.lines[-8:]]
            raise SystemExit("FAIL: without an end:\n" + "\n".join(lines))
        # A device may have its end before the server's log has the line.
        last = f"event=round_closed version={fleet.fields(ends[0])['version']} "
        if processes["server"].wait_for_line(last, SECONDS_MAX) is None:
            raise SystemExit(f"FAIL: no line {last}")
        rounds = [line for line in processes["server"].lines if "event=round_closed" in line]
        return [fleet.fields(end) for end in ends], [fleet.fields(line) for line in rounds]
    finally:
        for process in processes.values():
            process.stop()


def faults_of(name, folder):
    """What of a case does not hold; a line for each."""
    runs, faults = [], []
    keys, own = CASES[name]
    for kinds in (own, ("native",) * 3):
        with tempfile.TemporaryDirectory(prefix="gradstream-own-") as home:
            runs.append(play(folder, pathlib.Path(home), keys, kinds))
    for ends, rounds in runs:
        digests = {(end["version"], end["digest"]) for end in (*ends, rounds[-1])}
        if len(digests) != 1 or {row["folded"] for row in rounds} != {"3"} or len(rounds) < ROUNDS:
            faults.append(f"{name}: more than one digest, or not all in every version: {sorted(digests)}, {rounds}")
    losses = [[float(row["loss_after"]) for row in rounds[-ROUNDS:]] for _, rounds in runs]
    error = max(abs(one / other - 1) for one, other in zip(*losses))
    (eigen, other, _), _ = runs[0]
    print(f"{name}: version {eigen['version']}, digest {eigen['digest']}, losses {losses[0][0]} to {losses[0][-1]}, "
          f"within {error:.1e} of native clients'; stack in all: {eigen['stack']} with Eigen, {other['stack']} of "
          f"{own[1]}", flush=True)
    if not (error <= LOSS_ERROR_MAX and losses[0][-1] < losses[0][0]):
        faults.append(f"{name}: the losses are not those of native clients, or did not fall: {losses}")
    if own == ALL and int(eigen["stack"]) > int(other["stack"]) + STACK_MAX:
        faults.append(f"{name}: {eigen['stack']} bytes of stack, {other['stack']} with the loss in C")
    return faults


def output_of(*words):
    return subprocess.run([str(word) for word in words], cwd=fleet.ROOT, stdin=subprocess.DEVNULL, check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def frames(name, folder):
    """Bytes of stack of the loss's source: of its largest entry, and of all functions that it may call."""
    commands = json.loads((FOLDER / "compile_commands.json").read_text(encoding="utf-8"))
    entry = next(entry for entry in commands if entry["file"].endswith(SOURCES[name]))
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if "arm-none-eabi" in word):]  # without ccache
    words[words.index("-o") + 1] = folder / f"{name}.o"
    subprocess.run([str(word) for word in [*words, "-fno-lto", "-fstack-usage"]], cwd=entry["directory"], check=True)
    sizes = [line.split("\t") for line in (folder / f"{name}.su").read_text(encoding="utf-8").splitlines()]
    entries = [int(size) for place, size, _ in sizes if ENTRIES.search(place)]
    return max(entries) + sum(int(size) for place, size, _ in sizes if not ENTRIES.search(place))


def faults_of_images(folder):
    """What of the images does not hold: their symbols, flash and stack."""
    symbols = [line for line in output_of("arm-none-eabi-nm", "-C", image("eigen")).splitlines()
               if ALLOCATORS.search(line)]
    # text, data and bss of `size`: the first two stand in flash.
    sizes = {name: output_of("arm-none-eabi-size", image(name)).splitlines()[1].split() for name in TARGETS}
    flash = {name: int(words[0]) + int(words[1]) for name, words in sizes.items()}
    stack = {name: frames(name, folder) for name in TARGETS}
    print(f"flash: {flash['eigen']} bytes with Eigen, {flash['c']} in C; stack of the loss: {stack['eigen']} at most "
          f"with Eigen, {stack['c']} in C", flush=True)
    faults = [f"the image with Eigen has an allocator: {line}" for line in symbols]
    if flash["eigen"] > flash["c"] + FLASH_MAX:
        faults.append(f"Eigen takes {flash['eigen'] - flash['c']} bytes of flash more, at most {FLASH_MAX}")
    if stack["eigen"] > stack["c"] + FRAMES_MAX:
        faults.append(f"Eigen takes {stack['eigen'] - stack['c']} bytes of frames more, at most {FRAMES_MAX}")
    return faults


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, *TARGETS.values()], "building the images", 600)
    with tempfile.TemporaryDirectory(prefix="gradstream-own-") as name:
        folder = pathlib.Path(name)
        write_shards(folder)
        faults = faults_of_images(folder)
        faults += [fault for case in CASES for fault in faults_of(case, folder)]
    for fault in faults:
        print(f"FAIL: {fault}")
    print(f"result: cases={len(CASES)} faults={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
