"""An emulated Cortex-M4F with a network in flash behind its samples trains a head in factors behind frozen layers, by
forward passes alone, beside a native client with the same file. Both are folded in every version and end with one
digest, and the loss falls. A board with another network, or with a damaged one, says so, and the server names it.
"""

import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402
import gsn  # noqa: E402

BOARD = "mps2-an386"
TARGET = "gradstream_client_gsn_emulator"
IMAGE = fleet.ROOT / "build" / BOARD / "boards" / BOARD.replace("-", "_") / f"{TARGET}.elf"
ROUNDS = 6
SAMPLES = 60  # of each device
FEATURES = 12
SECONDS_MAX = 120
ARENA_MAX = 4300  # bytes, of the 10,240 of the board
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/test.db"
[server.limits]
handshake_deadline_ms = 60000
[run]
name = "test"
problem = "network"
network = "{network}"
centre = "none"
scale = "none"
manifold = "product"
parts = "fixed_rank 12x10 4, euclidean 10x1"
round_count = {rounds}
device_count = {devices}
direction_count = 16
local_step_count = 1
batch_size = 16
smoothing = 0.01
step_size = 0.5
step_rule = "fixed"
correction_form = "none"
fold_weight = "uniform"
clip_norm = "none"
retry_min_ms = 5
retry_max_ms = 15
"""


def network(seed):
    """64 pixels, frozen random features in int8, and a head of rank 4 that is trained in its factors."""
    dice = random.Random(seed)
    weights = [dice.randrange(-127, 128) for _ in range(64 * FEATURES)]
    return gsn.network((8, 8, 1), [
        gsn.dense(64, FEATURES, weights, [0.1] * FEATURES, scales=[0.002], form=gsn.INT8, activation=gsn.RELU),
        gsn.dense(FEATURES, 10, trained=gsn.FACTORED, rank=4)])


def shard(device):
    rows = digits.labelled()[device::23][:SAMPLES]
    head = b"GSD2" + len(rows).to_bytes(4, "little") + rows.shape[1].to_bytes(4, "little") + bytes(4)
    return head + rows.astype("<f4").tobytes()


class Fleet:
    """A server, and devices that are started one after the other."""

    def __init__(self, home, devices, rounds=ROUNDS):
        self.home = pathlib.Path(home)
        self.network = self.home / "digits.gsn"
        self.network.write_bytes(network(1))
        self.port = fleet.free_port()
        self.config = self.home / "test.toml"
        self.config.write_text(CONFIG.format(port=self.port, home=home, network=self.network, rounds=rounds,
                                             devices=devices), encoding="ascii")
        self.processes = {"server": fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config",
                                                             self.config])}

    def start(self, name, words):
        identity = self.home / f"{name}.identity"
        fleet.command([fleet.SERVER, "device", "add", name, "--config", self.config, "--out", identity],
                      "enrolling a device")
        self.processes[name] = fleet.Process(name, [*words, "--server", f"127.0.0.1:{self.port}",
                                                    "--identity", identity, "--no-floors"])
        return self.processes[name]

    def start_board(self, name, data, trained):
        return self.start(name, [sys.executable, fleet.ROOT / "tools" / "emulate.py", BOARD, "--image", IMAGE,
                                 "--shard", data, "--network", trained])

    def wait(self, name, text):
        line = self.processes[name].wait_for_line(text, SECONDS_MAX)
        if line is None:
            lines = [f"{who}: {line}" for who, process in self.processes.items() for line in process.lines[-8:]]
            raise SystemExit(f"FAIL: {name} never said {text}:\n" + "\n".join(lines))
        return line

    def stop(self):
        for process in self.processes.values():
            process.stop()


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAIL: {what}")


def train(home):
    """The board and a native client, to the end of a run."""
    for device in range(2):
        (home / f"{device}.gsd").write_bytes(shard(device))
    run = Fleet(home, 2)
    try:
        run.start_board("board", home / "0.gsd", run.network)
        run.start("client", [fleet.CLIENT, "--data", home / "1.gsd", "--network", run.network, "--state", "none",
                             "--retry-ms", 100, "--until-finished"])
        ends = [fleet.fields(run.wait(name, "event=finished")) for name in ("board", "client")]
        run.wait("server", f"event=round_closed version={ROUNDS} ")  # a device may have its end before
        rounds = [fleet.fields(line) for line in run.processes["server"].lines if "event=round_closed" in line]
    finally:
        run.stop()
    check(len({(end["version"], end["digest"]) for end in ends}) == 1, f"more than one digest: {ends}")
    check([row["folded"] for row in rounds] == ["2"] * ROUNDS, f"not both in every version: {rounds}")
    losses = [float(rounds[0]["loss_before"]), *(float(row["loss_after"]) for row in rounds)]
    check(losses[-1] < 0.9 * losses[0], f"the loss does not fall: {losses}")
    arena = int(ends[0]["arena"])
    check(arena <= ARENA_MAX, f"the board's arena held {arena} bytes, and {ARENA_MAX} are pinned")
    print(f"trained: loss {losses[0]:.4f} to {losses[-1]:.4f} in {ROUNDS} rounds, arena {arena} bytes")


def refuse(home):
    """A board with another network, and one with a damaged one."""
    (home / "0.gsd").write_bytes(shard(0))
    run = Fleet(home, 1)
    try:
        other, bad = home / "other.gsn", home / "bad.gsn"
        other.write_bytes(network(2))
        run.start_board("other", home / "0.gsd", other)
        wanted, has = (f"{gsn.digest(path.read_bytes()):016x}" for path in (run.network, other))
        run.wait("server", f"lacks=network:{wanted} has=network:{has}")
        run.wait("other", f"event=not_capable network={has} wanted={wanted}")
        broken = bytearray(run.network.read_bytes())
        broken[gsn.HEAD_SIZE] = 77  # the first layer's kind, under a checksum that holds
        broken[4:8] = gsn.crc32c(bytes(broken[8:])).to_bytes(4, "little")
        bad.write_bytes(broken)
        run.start_board("bad", home / "0.gsd", bad)
        line = run.wait("bad", "event=failed")
        check("layer=0 byte=32 value=77" in line, line)
    finally:
        run.stop()
    print("refused: another network at both ends, a damaged one by layer and byte")


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, TARGET], "building the image", 600)
    for play in (train, refuse):
        with tempfile.TemporaryDirectory(prefix="gradstream-network-") as home:
            play(pathlib.Path(home))
    print("result: network_board=ok")


if __name__ == "__main__":
    main()
