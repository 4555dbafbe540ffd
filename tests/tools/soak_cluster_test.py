#!/usr/bin/python3
"""What the soak of a cluster makes of its devices' record: how long a device was away beyond its back-off, after which
fault, and when the first Ack came. And whom the checker's findings fail.
"""

import argparse
import math
import pathlib
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import soak_cluster  # noqa: E402
from soak_cluster import Fault  # noqa: E402

# Device 1 dials twice in vain, 2 is back at once, 3 loses its session in a pause, and 4 does not come back.
RECORD = """\
event=ack device=1 task_sequence=1 base_version=0 version=1 verdict=1 duplicate=0 steps=1 crc32c=00000000 at_ms=900
event=lost device=1 at_ms=1000 wait_ms=1500
event=lost device=2 at_ms=1010 wait_ms=1000
event=lost device=4 at_ms=1020 wait_ms=1000
event=back device=2 at_ms=2030
event=lost device=1 at_ms=2600 wait_ms=2000
event=back device=1 at_ms=4700
event=ack device=1 task_sequence=1 base_version=0 version=1 verdict=1 duplicate=1 steps=1 crc32c=00000000 at_ms=4750
event=lost device=3 at_ms=6000 wait_ms=1000
event=back device=3 at_ms=9000
"""
FAULTS = [Fault("kill", 0.99), Fault("pause", 5)]
FOUND = {"acked": "2", "refused": "0", "versions": "1", "lost": "0", "doubled": "0", "unrecorded": "0", "foreign": "0",
         "digests_wrong": "0"}


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAIL: {what}")


def check_record(path):
    acks, returns = soak_cluster.read_record(path)
    check(acks == [0.9, 4.75] and soak_cluster.count_acks(path) == 2, f"Acks: {acks}")
    rounded = sorted((one.begin, one.end, round(one.late, 3)) for one in returns)
    check(rounded == [(1.0, 4.7, 0.2), (1.01, 2.03, 0.02), (6.0, 9.0, 2.0)], f"returns: {rounded}")
    kill = soak_cluster.longest_return(returns, FAULTS, "kill")
    check(math.isclose(kill, 0.2, abs_tol=1e-6), f"after the kill: {kill}")
    check(soak_cluster.longest_return(returns, FAULTS, "failover") == 0, "no failover")
    soon = [FAULTS[0], Fault("kill", 3)]  # while device 1 dials: its return says nothing of either fault
    check(sum(soak_cluster.is_cut(one, soon) for one in returns) == 1, "one return is cut")
    kill = soak_cluster.longest_return(returns, [FAULTS[0], Fault("pause", 3)], "kill")
    check(math.isclose(kill, 0.02, abs_tol=1e-6), f"a return that was cut is left out: {kill}")
    silence = soak_cluster.longest_silence(acks, [0.5, 4])
    check(math.isclose(silence, 0.75), f"until the next Ack: {silence}")
    check(soak_cluster.longest_silence(acks, [5]) == math.inf, "no Ack comes after the last one")


def check_devices(path):
    """Of a record that grows, and whose last line is half there at first."""
    lines = RECORD.splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:20], encoding="ascii")
    devices = soak_cluster.Devices(path)
    check(devices.lost_before(1.005) == ["1"], "device 1 was lost by then")
    check(devices.lost_before(2) == ["1", "2"], "device 4 has no whole line yet")
    path.write_text("".join(lines[:6]), encoding="ascii")
    check(devices.lost_before(2) == ["1", "4"], "device 2 is back, and 1 was lost at its first loss")
    path.write_text(RECORD, encoding="ascii")
    check(devices.lost_before(9) == ["4"], "device 4 does not come back")


def judged(path, found=None, drained=None, leader_back_s=1.0, differing=(), accepted=(3, 2), faults=tuple(FAULTS),
           **asked):
    """As judge() of a play with this record."""
    clients = types.SimpleNamespace(read_accepted=lambda: dict(enumerate(accepted)))
    cluster = types.SimpleNamespace(record=path, clients=clients,
                                    versions=types.SimpleNamespace(differing=list(differing)),
                                    network=types.SimpleNamespace(can_cut=True))
    play = types.SimpleNamespace(cluster=cluster, faults=faults, leader_back_s=[leader_back_s], engine_back_from=[4])
    arguments = argparse.Namespace(devices=4, clients=2, seed=1, asynchronous=False, judge_times=False)
    vars(arguments).update(asked)
    return soak_cluster.judge(play, arguments, {"pending": "0", "recorded": "1", **(drained or {})},
                              {**FOUND, **(found or {})})


def check_judge(path):
    is_well, text = judged(path)
    check(is_well and "kills=1" in text and "pauses=1" in text and "wrong=none" in text, text)
    check("node_back_ms=200 leader_back_ms=1000 engine_back_ms=750 returns=3 returns_cut=0 late=none" in text, text)
    for name in ("lost", "doubled", "unrecorded", "foreign", "digests_wrong"):
        is_well, text = judged(path, {name: "1"})
        check(not is_well and f"wrong={name}" in text, text)
    for drained in ({"pending": "1"}, {"recorded": "0"}):
        check(not judged(path, drained=drained)[0], f"{drained}")
    check(not judged(path, differing=["event=version"])[0], "nodes differ")
    check("clients=2 clients_acked=5 " in judged(path)[1], "what clients were told counts")
    is_well, text = judged(path, accepted=(3, 0))
    check(not is_well and "wrong=clients_idle" in text, text)
    is_well, text = judged(path, leader_back_s=9)
    check(is_well and "late=leader_back_ms" in text, text)
    check(not judged(path, leader_back_s=9, judge_times=True)[0], "what is late counts where it is asked for")
    check(judged(path, {"lost": "7", "digests_wrong": "1"}, asynchronous=True)[0], "losses that were found")
    check(not judged(path, asynchronous=True)[0], "no loss of an asynchronous standby is found")


def check_cut(path):
    """Returns that the next fault cut are in no time, so that a tenth of them at most may be cut."""
    for cut, whole in ((1, 9), (2, 9)):
        lines = [f"event=lost device={device} at_ms=1000 wait_ms=0\nevent=back device={device} at_ms={at}\n"
                 for device, at in enumerate([4000] * cut + [1100] * whole)]
        acks = [line for line in RECORD.splitlines(keepends=True) if line.startswith("event=ack")]
        path.write_text("".join([acks[0], *lines, acks[1]]), encoding="ascii")
        faults = (FAULTS[0], Fault("pause", 3))
        is_well, text = judged(path, faults=faults, judge_times=True)
        check(f" returns={cut + whole} returns_cut={cut} " in text, text)
        check(is_well == (cut == 1) and ("late=returns_cut" in text) == (cut == 2), text)
        check(judged(path, faults=faults)[0], "they fail where times are judged alone")


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-soak-cluster-") as folder:
        path = pathlib.Path(folder) / "record"
        path.write_text(RECORD, encoding="ascii")
        check_devices(path)
        check_record(path)
        check_judge(path)
        check_cut(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
