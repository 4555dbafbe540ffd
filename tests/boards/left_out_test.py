"""The smallest image leaves features out (runtime/base/features.h). The server names what a run would need of it, the
board says that it is not capable, and no task is sent.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import fleet  # noqa: E402

SECONDS_MAX = 60
CONFIG = fleet.ROOT / "experiments" / "demo.toml"
IMAGE = fleet.ROOT / "build" / "smallest" / "boards" / "mps2_an385" / "gradstream_client_emulator.elf"
# Keys of a run, and what the image lacks for it.
RUNS = (
    ({"correction_form": "none", "upload_stream": "tangent", "upload_encoding": "int8", "error_feedback": "true",
      "centre": "federated"}, "encoding:int8,upload_stream:tangent,feature:error_feedback,feature:units"),
    ({"correction_form": "memory"}, "feature:memory"),
    ({"record_encoding": "bf16"}, "encoding:bf16"),
)


def check(keys, lacks, home, shard):
    port = fleet.free_port()
    config = ["--config", CONFIG, "--set", f"server.listen=127.0.0.1:{port}", "--set", "server.allow_psk_ke=true",
              "--set", f"server.database={home / 'gradstream.db'}", "--set", f"server.export_dir={home}",
              "--set", "run.device_count=1"]
    for key, value in keys.items():
        config += ["--set", f"run.{key}={value}"]
    fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", home / "identity"], "enrolling")
    server = fleet.Process("server", [fleet.SERVER, "serve", *config])
    board = fleet.Process("board", [
        fleet.ROOT / "tools" / "emulate.py", "mps2-an385", "--image", IMAGE, "--server", f"127.0.0.1:{port}",
        "--identity", home / "identity", "--shard", shard])
    try:
        told = server.wait_for_line("event=device_not_capable", SECONDS_MAX)
        said = board.wait_for_line("event=not_capable", SECONDS_MAX)
    finally:
        board.stop()
        server.stop()
    lines = "\n".join([*server.lines, *board.lines])
    assert told is not None and fleet.fields(told)["lacks"] == lacks, f"{keys}: {lacks} is not named:\n{lines}"
    assert said is not None, f"{keys}: the board is silent:\n{lines}"
    assert "event=update" not in lines and "event=finished" not in lines, f"{keys}: a task was sent:\n{lines}"
    print(f"{keys}: {lacks}")


def main():
    fleet.build("smallest", "gradstream_client_emulator")
    with tempfile.TemporaryDirectory(prefix="gradstream-left-out-") as folder:
        parts, mean = digits.shards(9)
        shard = pathlib.Path(folder) / "shard.gsd"
        digits.write_shard(shard, parts[0], mean)
        for number, (keys, lacks) in enumerate(RUNS):
            home = pathlib.Path(folder) / str(number)
            home.mkdir()
            check(keys, lacks, home, shard)


if __name__ == "__main__":
    main()
