"""The identity of an emulated board changes while its flash stays. A board that was killed with an upload of one device
comes back as another: it sends nothing of the first. Then an operator wipes the identity by the board's shell: without
a yes nothing happens; after it the page and the log in flash are erased, and the board starts without TLS until it is
given an identity again.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import digits  # noqa: E402
import emulate  # noqa: E402
import fleet  # noqa: E402

CONFIG = fleet.ROOT / "experiments" / "demo.toml"
BOARD = "mps2-an386"
SECONDS_MAX = 30
OTHER_IDENTITY = 'reason="the saved state is of another identity; starting afresh"'
IDENTITY_STATUS = 3  # exit status of an image without an identity


def expect(board, text):
    if board.wait_for_line(text, SECONDS_MAX) is None:
        raise SystemExit("\n".join([f"FAIL: no line with {text}:", *board.lines]))


def wait_for_version(server, version):
    if server.wait_for_line(f"event=round_closed version={version} ", SECONDS_MAX) is None:
        raise SystemExit("\n".join(["FAIL: the board does not train:", *server.lines[-20:]]))


def last_version(server):
    return max(int(fleet.fields(line)["version"]) for line in server.lines if "event=round_closed" in line)


def main():
    fleet.command([fleet.ROOT / "tools" / "build.sh", BOARD, "gradstream_client_emulator"], f"building {BOARD}", 1800)
    with tempfile.TemporaryDirectory(prefix="gradstream-reset-") as folder:
        home, port = pathlib.Path(folder), fleet.free_port()
        config = ["--config", CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.device_count": 1, "run.round_count": 100000}.items():
            config += ["--set", f"{key}={value}"]
        first, identity, flash = home / "first", home / "identity", home / "flash"
        fleet.command([fleet.SERVER, "device", "add", "first", *config, "--out", first], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "shard.gsd", parts[0], mean)
        server = fleet.Process("server", [fleet.SERVER, "serve", *config])
        words = [fleet.ROOT / "tools" / "emulate.py", BOARD, "--server", f"127.0.0.1:{port}", "--shard",
                 home / "shard.gsd", "--flash", flash, "--identity"]
        board = fleet.Process("first", [*words, first])
        words.append(identity)
        try:
            wait_for_version(server, 5)
            board.kill()  # what the flash keeps is its last task's upload
            fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", identity], "enrolling")
            fleet.command([fleet.SERVER, "device", "revoke", "first", *config], "revoking")
            board = fleet.Process("board", words)
            expect(board, f"event=state_dropped {OTHER_IDENTITY}")
            expect(board, "event=started device=board firmware=")
            expect(board, "event=connected")
            wait_for_version(server, last_version(server) + 5)
            refused = [line for line in server.lines if "event=update_refused" in line]
            assert not refused, "\n".join(["an upload of the first device came from the other:", *refused])
            board.type("test\nreset identity\nno\nwipe\n" + 100 * "x" + "\n")
            for text in ("event=test random=ok arithmetic=ok flash=ok result=ok", "event=identity_kept",
                         "event=unknown_command", "event=line_too_long"):
                expect(board, text)
            board.type("reset identity\nyes\n")
            expect(board, "event=identity_reset")
            assert board.wait(SECONDS_MAX) == IDENTITY_STATUS, "\n".join(["the board goes on:", *board.lines])
        finally:
            board.stop()
            server.stop()
        assert identity.read_bytes() == b"\xff" * emulate.IDENTITY_SIZE, "the identity's page is not erased"
        assert set(flash.read_bytes()[:2 * emulate.FLASH_PAGE_SIZE]) == {0xFF}, "the log is not erased"
        again = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
        assert again.returncode == IDENTITY_STATUS and "no identity" in again.stdout, again.stdout


if __name__ == "__main__":
    main()
