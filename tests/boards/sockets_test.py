"""Two devices in C over the sockets port (boards/sockets) train against the real server, which is killed and started
again in between. They end at its digest: sockets_test.py CLIENT. The client's sockets are the host's or lwIP's.
"""

import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import fleet  # noqa: E402

VERSIONS = 24
RESTART_AT = 8
ROUND_MS = 250  # at least: from version 8 to the last one there are 4 s, in which the server is killed
SECONDS_MAX = 60


def main():
    client = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="gradstream-sockets-") as folder:
        home, port = pathlib.Path(folder), fleet.free_port()
        config = ["--config", ROOT / "experiments" / "demo.toml"]
        for key, value in {"server.listen": f"127.0.0.1:{port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "run.rows": 8, "run.cols": 2, "run.device_count": 2,
                           "run.round_count": VERSIONS, "run.step_size": 0.05,
                           "run.retry_min_ms": ROUND_MS, "run.retry_max_ms": ROUND_MS + 50}.items():
            config += ["--set", f"{key}={value}"]
        for index in (0, 1):
            fleet.command([fleet.SERVER, "device", "add", f"device-{index}", *config, "--out", home / f"{index}"],
                          "enrolling")
        serve = [fleet.SERVER, "serve", *config]
        server = fleet.Process("server", serve)
        devices = [fleet.Process(f"device-{index}", [client, "127.0.0.1", port, home / f"{index}", index])
                   for index in (0, 1)]
        processes = [server, *devices]
        try:
            is_half = server.wait_for_line(f"event=round_closed version={RESTART_AT} ", SECONDS_MAX) is not None
            server.kill()
            server = fleet.Process("server", serve)
            processes.append(server)
            closed = server.wait_for_line(f"event=round_closed version={VERSIONS} ", SECONDS_MAX)
            done = [device.wait_for_line("event=finished", SECONDS_MAX) for device in devices]
        finally:
            for process in processes:
                process.stop()
        lines = "\n".join(line for process in processes for line in process.lines)
        assert is_half and closed is not None and None not in done, f"a run that did not finish:\n{lines}"
        digest = fleet.fields(closed)["digest"]
        for line in done:
            found = fleet.fields(line)
            assert found["digest"] == digest and found["mismatches"] == "0", f"the server has {digest}:\n{lines}"
            assert int(found["sessions"]) >= 2, f"no second session after the server came back: {line}"
        print(f"sockets: {VERSIONS} versions, one restart, digest {digest}")


if __name__ == "__main__":
    main()
