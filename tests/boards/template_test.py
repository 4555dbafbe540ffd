"""The board to copy, boards/template, builds for a Cortex-M3 and a Cortex-M4F: its images for silicon link within the
memory of its linker script. Its registers are no chip's, so they run nowhere. But a client in its memory runs on an
emulated Cortex-M3, and trains to the server's digest: what the image loads leaves the page behind its flash alone.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import digits  # noqa: E402
import emulate  # noqa: E402
import fleet  # noqa: E402

SECONDS_MAX = 120
VERSIONS = 5
LAYOUT = "template-layout"
CONFIG = ROOT / "experiments" / "demo.toml"


def run(*command):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL: {command[0]}:\n{done.stdout[-4000:]}")
    return done.stdout


def origin_of(region):
    """Address of a region in the template's linker script."""
    script = (ROOT / "boards" / "template" / "template.ld").read_text(encoding="ascii")
    return int(re.search(rf"(?m)^  {region} .*ORIGIN = (0x[0-9A-F]+)", script)[1], 16)


def check_loaded(image):
    """Nothing that the image loads or names lies in the flash behind it: a loader takes such a segment for bytes."""
    identity = origin_of("IDENTITY")
    for line in run("arm-none-eabi-readelf", "--segments", "--wide", image).splitlines():
        match = re.match(r"\s+LOAD\s+0x\w+ 0x\w+ (0x\w+) 0x\w+ (0x\w+)", line)
        if match:
            begin, size = int(match[1], 16), int(match[2], 16)
            assert begin >= origin_of("RAM") or begin + size <= identity, f"{image} reaches into the identity: {line}"


def train(image, home):
    port = fleet.free_port()
    config = ["--config", CONFIG, "--set", f"server.listen=127.0.0.1:{port}", "--set", "server.allow_psk_ke=true",
              "--set", f"server.database={home / 'gradstream.db'}", "--set", f"server.export_dir={home}",
              "--set", "run.device_count=1", "--set", f"run.round_count={VERSIONS}"]
    fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", home / "identity"], "enrolling")
    parts, mean = digits.shards(9)
    digits.write_shard(home / "shard.gsd", parts[0], mean)
    emulate.MACHINES[LAYOUT] = emulate.Machine("mps2-an385", "Cortex-M3", origin_of("SHARD"), 128 * 1024,
                                               origin_of("IDENTITY"))
    arguments = argparse.Namespace(board=LAYOUT, server=f"127.0.0.1:{port}", shard=home / "shard.gsd",
                                   identity=home / "identity", flash=None, forever=False, no_floors=True)
    server = fleet.Process("server", [fleet.SERVER, "serve", *config])
    board = fleet.Process("board", emulate.command(arguments, image))
    try:
        done = board.wait_for_line("event=finished", SECONDS_MAX)
        closed = server.wait_for_line(f"event=round_closed version={VERSIONS} ", SECONDS_MAX)
    finally:
        board.stop()
        server.stop()
    lines = "\n".join([*server.lines, *board.lines])
    assert done is not None and closed is not None, f"the board did not finish:\n{lines}"
    digest = fleet.fields(closed)["digest"]
    assert fleet.fields(done)["digest"] == digest, f"another digest than the server's {digest}:\n{lines}"
    print(f"template: {VERSIONS} versions, digest {digest}")


def main():
    run(ROOT / "tools" / "build.sh", "mps2-an386", "template_gradstream_client")
    run(ROOT / "tools" / "build.sh", "mps2-an385", "template_gradstream_client", "template_layout_emulator")
    boards = ROOT / "build" / "mps2-an385" / "boards"
    check_loaded(boards / "template" / "template_gradstream_client.elf")
    layout = boards / "mps2_an385" / "template_layout_emulator.elf"
    check_loaded(layout)
    with tempfile.TemporaryDirectory(prefix="gradstream-template-") as folder:
        train(layout, pathlib.Path(folder))
    marks = (ROOT / "boards" / "template" / "board.cc").read_text(encoding="ascii").count("PORT")
    assert marks >= 5, "nothing tells a porter what to write"


if __name__ == "__main__":
    main()
