"""Quality by real programs: what devices say of samples held out is what plain Python computes of the exported model,
and status, history, metrics and exports say it. A device with one sample is named with the number that it needs.

Usage: quality_process_test.py       exit status 0: all of that holds
"""

import csv
import io
import json
import pathlib
import random
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402
from stall_process_test import Fleet, check, shard  # noqa: E402

SHARE = 0.25
ROUNDS = 5


def is_held_out(number):
    return ((number * 2654435769 & 0xffffffff) >> 16) < round(SHARE * 65536)


def rows_of(seed, count):
    source = random.Random(seed)
    rows = [[source.gauss(0, 3), source.gauss(0, 1), source.gauss(0, 0.5), source.gauss(0, 0.25)] for _ in range(count)]
    return [list(struct.unpack("<4f", struct.pack("<4f", *row))) for row in rows]


def explained(rows, model):
    """Share of the held-out variance, the mean loss, and the number of these samples."""
    held = [row for number, row in enumerate(rows) if is_held_out(number)]
    part = sum(sum(z * line[c] for z, line in zip(row, model)) ** 2 for row in held for c in range(len(model[0])))
    whole = sum(z * z for row in held for z in row)
    return part / whole, -0.5 * part / len(held), len(held)


def check_quality(home):
    data = [rows_of(1, 200), rows_of(2, 77)]
    with Fleet(home, manifold="stiefel", rows=4, cols=2, problem="kpca", round_count=ROUNDS, holdout_share=SHARE,
               evaluation_period=2) as run:
        run.serve()
        for index, rows in enumerate(data):
            run.start_device(index, shard(rows), "--no-floors")
        run.expect(run.server, "event=run_finished")
        run.wait_until(lambda: "gradstream_quality_version 4\n" in run.get("/metrics")[1], "no quality in /metrics")
        told = json.loads(run.get("/status")[1])["run"]["quality"]
        check(told["version"] == 4 and told["metric"] == "explained_variance" and told["devices"] == 2, str(told))
        text = fleet.command([fleet.SERVER, "history", "--config", run.config], "history")
        lines = list(csv.DictReader(io.StringIO(text)))
        check([line["version"] for line in lines] == [str(v) for v in range(ROUNDS + 1)], text)
        for line in lines:
            version = int(line["version"]) - 1  # that was evaluated
            is_evaluated = version >= 0 and version % 2 == 0
            check((line["quality"] != "") == is_evaluated, f"quality in the wrong line:\n{text}")
            if not is_evaluated:
                continue
            out = home / f"v{version}.csv"
            fleet.command([fleet.SERVER, "model", "export", "--config", run.config, "--version", version, "--out", out],
                          "model export")
            model = [[float(value) for value in row.split(",")] for row in out.read_text().split()]
            figures = [explained(rows, model) for rows in data]
            count = sum(n for _, _, n in figures)
            metric = sum(m * n for m, _, n in figures) / count
            loss = sum(f * n for _, f, n in figures) / count
            check(int(line["held_out"]) == count and int(line["evaluated"]) == 2, text)
            check(abs(float(line["quality"]) - metric) < 1e-3, f"{line['quality']} for {metric}")
            check(abs(float(line["quality_loss"]) - loss) < 1e-3 * abs(loss), f"{line['quality_loss']} for {loss}")
        check(abs(told["value"] - float(lines[-1]["quality"])) < 1e-4, str(told))
        status = fleet.command([fleet.SERVER, "status", "--config", run.config], "status")
        check(f'text="quality {100 * told["value"]:.1f} %" evaluated=4' in status, status)
        lineage = home / "lineage.json"
        fleet.command([fleet.SERVER, "run", "export", "--config", run.config, "--out", lineage], "run export")
        versions = json.loads(lineage.read_text())["versions"]
        check(abs(versions[5]["quality_before"]["value"] - told["value"]) < 1e-4, str(versions[5]))
        check("quality_before" not in versions[4], str(versions[4]))


def check_one_sample(home):
    with Fleet(home, manifold="stiefel", rows=4, cols=2, problem="kpca", holdout_share=SHARE) as run:
        run.serve()
        for index in range(2):
            client = run.start_device(index, shard(rows_of(3 + index, 1)))
        run.expect(client, "no sample is left to train on")
        run.expect_cause("all_held_out", "holds 1, and holdout_share = 0.25", "give these devices 2 samples or more")


def main():
    for part in (check_quality, check_one_sample):
        with tempfile.TemporaryDirectory() as home:
            part(pathlib.Path(home))
    print("ok")


if __name__ == "__main__":
    main()
