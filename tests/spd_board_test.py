"""RFedSVRG-2BB on SPD matrices, 3 x 3, by an emulated Cortex-M4F board and a native client together, over TLS: an image
with every manifold and solver linked. Both end with one digest, and both are folded in every version.
"""

import pathlib
import random
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import fleet  # noqa: E402

BOARD = "mps2-an386"
TARGET = "gradstream_client_all_emulator"
ROUNDS = 4
SAMPLES = 6  # of each device
SECONDS_MAX = 120
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/test.db"
export_dir = "{home}"
[server.limits]
handshake_deadline_ms = 60000
[run]
name = "spd"
manifold = "spd"
rows = 3
cols = 3
problem = "spd_mean"
solver = "svrg"
estimator = "analytic_gradient"
correction_form = "none"
barzilai_borwein = "first"
batch_mode = "all"
local_step_count = 3
step_rule = "fixed"
step_size = 0.1
device_count = 2
round_count = {rounds}
retry_min_ms = 5
retry_max_ms = 15
"""


def shard(dice):
    """SPD matrices A A' + I as a shard of floats (firmware/float_shard.h)."""
    values = []
    for _ in range(SAMPLES):
        a = [[dice.gauss(0, 0.5) for _ in range(3)] for _ in range(3)]
        values += [sum(a[i][k] * a[j][k] for k in range(3)) + (i == j) for i in range(3) for j in range(3)]
    return b"GSD2" + struct.pack("<3I", SAMPLES, 9, 0) + struct.pack(f"<{len(values)}f", *values)


def play(home):
    """The closing line of server and devices, by name."""
    port = fleet.free_port()
    config = home / "spd.toml"
    config.write_text(CONFIG.format(home=home, port=port, rounds=ROUNDS), encoding="ascii")
    processes = {"server": fleet.Process("server", [fleet.SERVER, "serve", "--config", config])}
    image = fleet.ROOT / "build" / BOARD / "boards" / BOARD.replace("-", "_") / f"{TARGET}.elf"
    dice = random.Random(1)
    try:
        for name in ("board", "native"):
            (home / f"{name}.gsd").write_bytes(shard(dice))
            files = {kind: home / f"{name}.{kind}" for kind in ("gsd", "identity")}
            fleet.command([fleet.SERVER, "device", "add", name, "--config", config, "--out", files["identity"]],
                          "enrolling a device")
            if name == "board":
                words = [fleet.ROOT / "tools" / "emulate.py", BOARD, "--image", image, "--shard", files["gsd"]]
            else:
                words = [fleet.CLIENT, "--data", files["gsd"], "--problem", "spd_mean", "--retry-ms", 100,
                         "--until-finished", "--state", "none"]
            processes[name] = fleet.Process(name, [*words, "--server", f"127.0.0.1:{port}",
                                                   "--identity", files["identity"]])
        ends = {name: processes[name].wait_for_line("event=finished", SECONDS_MAX) for name in ("board", "native")}
        if None in ends.values():
            lines = [f"{name}: {line}" for name, process in processes.items() for line in list(process.lines)[-8:]]
            raise SystemExit("FAIL: without an end:\n" + "\n".join(lines))
        return {name: fleet.fields(end) for name, end in ends.items()}, list(processes["server"].lines)
    finally:
        for process in processes.values():
            process.stop()


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, TARGET], "building the image", 600)
    with tempfile.TemporaryDirectory(prefix="gradstream-spd-") as home:
        ends, server_lines = play(pathlib.Path(home))
    rounds = [fleet.fields(line) for line in server_lines if "event=round_closed" in line]
    digests = {(end["version"], end["digest"]) for end in ends.values()}
    folded = [row.get("folded") for row in rounds]
    print(f"result: digests={len(digests)} versions={len(rounds)} version={ends['board']['version']} "
          f"digest={ends['board']['digest']} folded={','.join(map(str, folded))}")
    return 0 if len(digests) == 1 and ends["board"]["version"] == str(2 * ROUNDS) else 1


if __name__ == "__main__":
    sys.exit(main())
