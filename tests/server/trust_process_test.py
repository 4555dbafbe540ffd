#!/usr/bin/python3
"""Floors of a device's owner, by real programs: a task for one sample is refused by name in every place that tells of
it, and a run of defaults trains on devices that keep their losses.

Usage: trust_process_test.py       exit status 0: all of that holds
"""

import json
import pathlib
import random
import tempfile

from stall_process_test import DEVICES, Fleet, check, machine_rows, shard

# The attack of docs/trust.md: from 512 scalars of one sample at one model its values follow.
ONE_SAMPLE = {"manifold": "stiefel", "rows": 4, "cols": 2, "problem": "kpca", "batch_mode": "common", "batch_size": 1,
              "local_step_count": 1, "direction_count": 512, "correction_form": "none"}
ROUNDS = 40  # the judgement of a run begins after 30


def small_rows(source):
    return [[value / 1000 for value in row] for row in machine_rows(source)]


def check_one_sample(home):
    source = random.Random(11)
    rows = [shard(small_rows(source)) for _ in range(DEVICES)]
    with Fleet(home, **ONE_SAMPLE) as run:
        run.serve()
        clients = [run.start_device(index, rows[index]) for index in range(DEVICES)]
        for client in clients:
            line = run.expect(client, "event=refused reason=privacy")
            check("floor=batch_size value=1 least=8" in line, line)
        line = run.expect(run.server, "event=task_refused")
        check("reason=privacy floor=batch_size value=1 least=8" in line, line)
        stall = run.expect_cause("privacy", "by the floor batch_size of their owners",
                                 " has 1 and the least is 8", "--batch-size-min")
        check("a larger batch_size" in stall["remedy"], stall["remedy"])
        devices = json.loads(run.get("/status/devices")[1])["devices"]
        check({device["last_floor"] for device in devices} == {"batch_size"}, f"/status/devices has {devices}")
        for client in clients:
            client.stop()
        # Other floors, which the next command line names, let the batch pass and refuse the scalars.
        one = run.start_device(0, rows[0], "--batch-size-min", 1)
        line = run.expect(one, "event=refused reason=privacy")
        check("floor=scalars_per_sample value=512 least=0 most=8" in line, line)
        one.stop()
        for index in range(DEVICES):
            run.start_device(index, rows[index], "--no-floors")
        run.expect_progress(3)


def check_least_configuration(home):
    """What `run suggest` leaves to defaults, with samples held out: units, a step that the run finds, and no loss."""
    source = random.Random(12)
    keys = {"problem": "kpca", "rows": 4, "cols": 2, "round_count": ROUNDS, "holdout_share": 0.25,
            "evaluation_period": 1, "centre": "federated", "scale": "common", "step_size": "auto"}
    with Fleet(home, **keys) as run:
        run.serve()
        clients = [run.start_device(index, shard(machine_rows(source)), "--until-finished") for index in range(DEVICES)]
        run.expect(run.server, "event=run_finished")
        closed = [line for line in run.server.lines if "event=round_closed" in line]
        check(len(closed) >= ROUNDS, f"{len(closed)} rounds")
        check(not any("loss_before" in line for line in closed), "a device has told its losses:\n" + closed[-1])
        check(all("quality=" in line for line in closed[-ROUNDS + 1:]), "no evaluation:\n" + closed[-1])
        check(not any("event=task_refused" in line for line in run.server.lines), "a task of a default run is refused")
        run.wait_until(lambda: json.loads(run.get("/status")[1])["run"]["progress"]["state"] != "starting",
                       "the samples held out judge no run")
        devices = json.loads(run.get("/status/devices")[1])["devices"]
        check({device["sample_count"] for device in devices} == {32}, "60 samples are not told as 32")
        for client in clients:
            check(client.wait(60) == 0, "\n".join(client.lines))


def main():
    with tempfile.TemporaryDirectory(prefix="gs_trust_") as folder:
        for name, case in {"one_sample": check_one_sample, "least": check_least_configuration}.items():
            home = pathlib.Path(folder) / name
            home.mkdir()
            case(home)
            print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main()
