#!/usr/bin/python3
"""What gradstream-load and real clients write down of a run is what a server has of it, though the server is killed
meanwhile. The checker gradstream-lineage folds each version again, and finds a record that lacks an Ack, or has one too
many.
"""

import contextlib
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import bench_server  # noqa: E402
import cluster_clients  # noqa: E402
import fleet  # noqa: E402

LINEAGE = fleet.BUILD / "bench" / "gradstream-lineage"
DEVICES, CLIENTS, VALUES = 20, 2, 16
SECONDS_MAX = 60
KILLED_AT, ENDED_AT = 5, 20  # versions at which the server is killed, and the clients end
LEAVING_SHARE = 0.1  # of the devices after an Ack, to dial anew
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/gradstream.db"
log_level = "info"
allow_psk_ke = true
[run]
name = "lineage"
""" + bench_server.MODEL + """round_count = 1000000
device_count = {devices}
update_goal = 12
late = "weight"
staleness_table = "polynomial"
staleness_max = 64
retry_min_ms = 5
retry_max_ms = 50
"""


def check(holds, what):
    if not holds:
        raise SystemExit("FAIL: " + what)


class Place:
    def __init__(self, home, stack):
        self.home, self.stack, self.port = home, stack, fleet.free_port()
        self.config = home / "server.toml"
        self.config.write_text(CONFIG.format(port=self.port, home=home, values=VALUES, devices=DEVICES + CLIENTS),
                               encoding="ascii")
        bench_server.write_identities(home / "identities.csv", DEVICES)
        fleet.command([fleet.SERVER, "device", "import", home / "identities.csv", "--config", self.config], "enrolling")
        self.clients = cluster_clients.Clients(home / "clients", stack, CLIENTS, VALUES, seed=1)
        self.clients.enrol(self.config)

    def serve(self):
        server = fleet.Process("server", [fleet.SERVER, "serve", "--config", self.config])
        self.stack.callback(server.kill)
        check(server.wait_for_line("event=listening", SECONDS_MAX), "\n".join(server.lines[-5:]))
        return server

    def load(self):
        """A run in which the server is killed once; its record."""
        server = self.serve()
        record = self.home / "record"
        load = fleet.Process("load", [bench_server.LOAD, "--server", f"127.0.0.1:{self.port}", "--record", record,
                                      "--identities", self.home / "identities.csv", "--devices", DEVICES,
                                      "--exchange", "psk_ke"])
        self.stack.callback(load.kill)
        check(load.wait_for_line("event=connected", SECONDS_MAX), "\n".join(load.lines))
        self.clients.start(f"127.0.0.1:{self.port}")
        load.type(f"until_told {LEAVING_SHARE}\n")
        self.wait_version(server, KILLED_AT)
        server.kill()
        server = self.serve()
        self.wait_version(server, ENDED_AT)
        self.clients.end()
        load.type(f"drain {SECONDS_MAX}\nquit\n")
        drained = load.wait_for_line("event=drained", 2 * SECONDS_MAX)
        check(drained and fleet.fields(drained)["pending"] == "0" and fleet.fields(drained)["recorded"] == "1",
              f"every update has an Ack: {drained}")
        check(server.stop() == 0, "the server ends")
        return [line for file in (record, *self.clients.records)
                for line in file.read_text(encoding="ascii").splitlines()]

    @staticmethod
    def wait_version(server, version):
        check(server.wait_for_line(f"event=round_closed version={version} ", SECONDS_MAX), "\n".join(server.lines[-5:]))

    def judge(self, lines):
        """(exit status, the fields of the result, all that was said) of the checker for these lines."""
        file = self.home / "judged"
        file.write_text("\n".join(lines) + "\n", encoding="ascii")
        told = subprocess.run([LINEAGE, self.home / "gradstream.db", file], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
        return told.returncode, fleet.fields(told.stdout.splitlines()[-1]), told.stdout


def check_whole(place, lines):
    status, result, said = place.judge(lines)
    check(status == 0, f"the record is whole:\n{said}")
    acks = [line for line in lines if line.startswith("event=ack")]
    # A client that was started anew may be told of its last update again.
    updates = {(ack["device"], ack["task_sequence"]) for ack in map(fleet.fields, acks)}
    check(int(result["acked"]) + int(result["refused"]) == len(updates) and int(result["acked"]) >= 60, said)
    check(int(result["versions"]) >= 5 and result["digests_wrong"] == "0", said)
    accepted = place.clients.read_accepted()
    check(len(accepted) == CLIENTS and all(count >= 2 for count in accepted.values()), f"clients train: {accepted}")
    check(any(line.startswith("event=lost") for line in lines), "the devices have lost their server")
    check(any(line.startswith("event=back") for line in lines), "and have found it again")


def check_faults(place, lines):
    """Of a record that was changed in one line, of an Ack in the midst."""
    index = [at for at, line in enumerate(lines) if line.startswith("event=ack") and " verdict=1 " in line][30]
    ack = fleet.fields(lines[index])
    version = int(ack["version"])
    status, result, said = place.judge(lines[:index] + lines[index + 1:])
    check(status == 1 and result["unrecorded"] == "1" and result["digests_wrong"] == "1", f"a line is gone:\n{said}")
    check(f"event=digest_wrong version={version} " in said, said)
    wrong = fleet.fields(next(line for line in said.splitlines() if "event=digest_wrong" in line))
    check(int(wrong["counted"]) == int(wrong["acked"]) + 1, said)

    status, result, said = place.judge(lines[:index + 1] + lines[index:])
    check(status == 1 and (result["doubled"], result["lost"], result["digests_wrong"]) == ("1", "1", "1"),
          f"a line stands twice:\n{said}")

    other = lines[index].replace(f" version={version} ", f" version={version + 1} ")
    status, result, said = place.judge(lines[:index] + [other] + lines[index + 1:])
    check(status == 1 and result["digests_wrong"] == "2", f"an update is said to be in the version behind:\n{said}")

    other = lines[index].replace(f"crc32c={ack['crc32c']}", "crc32c=00000000")
    status, result, said = place.judge(lines[:index] + [other] + lines[index + 1:])
    check(status == 1 and result["foreign"] == "1", f"the values are others:\n{said}")

    status, _, said = place.judge(lines[:index] + [lines[index][:40]] + lines[index + 1:])
    check(status == 2 and f"judged:{index + 1}: the line is torn" in said, said)


def check_client_faults(place, lines):
    """Of an Ack that a client has written down."""
    index = [at for at, line in enumerate(lines) if " verdict=1 " in line and " values=" in line][1]
    status, result, said = place.judge(lines[:index] + lines[index + 1:])
    check(status == 1 and (result["unrecorded"], result["digests_wrong"]) == ("1", "1"), f"a line is gone:\n{said}")

    ack = fleet.fields(lines[index])
    later = lines[index].replace(f" task_sequence={ack['task_sequence']} ", " task_sequence=999999 ")
    status, result, said = place.judge([*lines, later])
    check(status == 1 and (result["lost"], result["digests_wrong"]) == ("1", "1"), f"no version has an update:\n{said}")

    again = lines[index].replace(" duplicate=0 ", " duplicate=1 ")
    status, result, said = place.judge([*lines, again])
    check(status == 0, f"a client may ask for its answer once more:\n{said}")

    digit = "1" if lines[index][-1] == "0" else "0"
    status, result, said = place.judge(lines[:index] + [lines[index][:-1] + digit] + lines[index + 1:])
    check(status == 1 and result["foreign"] == "1", f"a value is another:\n{said}")

    status, _, said = place.judge(lines[:index] + [lines[index][:-1]] + lines[index + 1:])
    check(status == 2 and f"judged:{index + 1}: the line is torn" in said, said)


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-lineage-") as folder, contextlib.ExitStack() as stack:
        place = Place(pathlib.Path(folder), stack)
        lines = place.load()
        check_whole(place, lines)
        check_faults(place, lines)
        check_client_faults(place, lines)
        print(place.judge(lines)[2], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
