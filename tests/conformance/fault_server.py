"""Plays a server to a client program, by a script with faults, and says by name what the client does wrong.

  fault_server.py --client 'my-client --server {server} --identity {identity} --data {data} --state {state}'

{server} is HOST:PORT; {host} and {port} stand for its parts. {identity} is a file as `gradstream device add` writes it,
{data} a shard of floats (GSD2, docs/data.md) with 32 samples of 8 values, {state} a folder for what survives a restart.
A client without a {state} is not asked what it has stored. The client trains problem kpca. It runs once for each
scenario, and is ended by SIGTERM. docs/wire.md says what is right; docs/conformance.md has the scenarios.

A line for each scenario: ok, skipped (the client does not announce what it needs), or FAIL with the fault's name.
Exit status: 0 all hold, 1 the client did something wrong, 2 usage.
"""

import argparse
import shlex
import shutil
import sys
import time

import fault_scenarios
from fault_play import Closed, Fault, Play, Skipped

SEED = 1


def play(name, command, seed=SEED, log=None):
    """(None, "") or the fault's name and sentence; "skipped" is no fault."""
    stage = Play(command, seed)
    try:
        stage.start()
        fault_scenarios.SCENARIOS[name](stage)
        stage.check_alive()
        return None, ""
    except Skipped as skipped:
        return "skipped", str(skipped)
    except Closed:
        return "closed", "the client ends the session where it has no reason to"
    except Fault as fault:
        if log is not None:
            log.extend(stage.log_end())
        return fault.name, str(fault)
    finally:
        stage.close()


def play_all(names, command, seed=SEED):
    """Prints a line for each; {scenario: fault's name} of those that failed."""
    faults, skipped = {}, 0
    for name in names:
        since, log = time.monotonic(), []
        fault, what = play(name, command, seed, log)
        seconds = time.monotonic() - since
        about = (fault_scenarios.SCENARIOS[name].__doc__ or "").strip()
        if fault is None:
            print(f"conformance: {name:16} ok       {seconds:4.1f} s  the client {about}", flush=True)
        elif fault == "skipped":
            skipped += 1
            print(f"conformance: {name:16} skipped  {seconds:4.1f} s  {what}", flush=True)
        else:
            faults[name] = fault
            print(f"conformance: {name:16} FAIL     {seconds:4.1f} s  fault={fault}: {what}", flush=True)
            for line in log:
                print(f"    client: {line}")
    print(f"result: scenarios={len(names)} failed={len(faults)} skipped={skipped} "
          f"faults={','.join(sorted(set(faults.values()))) or 'none'}", flush=True)
    return faults


def main():
    known = list(fault_scenarios.SCENARIOS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", required=True, metavar="COMMAND")
    parser.add_argument("--scenario", nargs="+", default=known, choices=known, metavar="NAME", help=" ".join(known))
    parser.add_argument("--seed", type=int, default=SEED, help=f"of models, records and data (default {SEED})")
    options = parser.parse_args()
    program = (shlex.split(options.client) or [""])[0]
    if shutil.which(program) is None:
        print(f"conformance: error: --client begins with '{program}', which is no program here; give its path",
              file=sys.stderr)
        print("result: error=usage")
        return 2
    return 1 if play_all(options.scenario, options.client, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
