"""./run bench restart: how long a server takes to listen on the database of a long run, and how long that file is.

gradstream-restart makes the database: 100 devices, a model of 200 numbers, and as many accepted updates as --updates
says, by the real coordinator and the real store, with journal_keep as a server has it by default. While it is made,
nothing waits for the disk: ten million updates are 200,000 commits. A server is then started on it three times. The
time from its start to its line `listening` counts, the check of every page included, and the least of the three is
told: the machine is shared. The digest is that of the run as it was made.

The file is held against its newest checkpoint and the records that journal_keep names. Both are taken at the bytes that
a record of this file has on its pages.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sqlite3
import sys
import tempfile
import time

import bench_server
import fleet

PROGRAM = fleet.BUILD / "bench" / "gradstream-restart"
DEVICES = 100
KEPT_UPDATES = 100_000  # the default of server.journal_keep
STARTS = 3
LISTENING_SECONDS_MAX = 2
FILE_RATIO_MAX = 1.5
WAIT_SECONDS = 600
MAKING_SECONDS_MAX = 36_000
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
database = "{home}/gradstream.db"
journal_keep = "{keep}"
[run]
name = "restart"
""" + bench_server.MODEL + """round_count = 1000000000
device_count = {devices}
"""


class Failure(Exception):
    """What does not work, with what the programs said."""


def make(config, updates):
    """The fields of the line that tells what was made."""
    def show(line):
        if line.startswith("making:"):
            print(line, flush=True)

    program = fleet.Process("gradstream-restart", [PROGRAM, "--config", config, "--updates", updates], show)
    try:
        made = program.wait_for_line("made:", MAKING_SECONDS_MAX)
        if made is None or program.wait(WAIT_SECONDS) != 0:
            raise Failure(f"the journal is not made ({MAKING_SECONDS_MAX} s at most):\n" +
                          "\n".join(program.lines[-20:]))
        return fleet.fields(made)
    finally:
        program.kill()


def start(config):
    """Seconds until the server listens, and the digest that it recovered."""
    began = time.monotonic()
    server = fleet.Process("server", [fleet.SERVER, "serve", "--config", config])
    try:
        if not server.wait_for_line("event=listening", WAIT_SECONDS):
            raise Failure("\n".join(server.lines[-20:]))
        seconds = time.monotonic() - began
        recovered = server.wait_for_line("event=run_recovered", WAIT_SECONDS)
        if not recovered:
            raise Failure("\n".join(server.lines[-20:]))
        return seconds, fleet.fields(recovered)["digest"]
    finally:
        server.stop()


def measure_file(path, keep):
    """Bytes of the file, and of the newest checkpoint with the records that are named to be kept."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        number = lambda sql: database.execute(sql).fetchone()[0]
        page_size, pages, empty = (number(f"PRAGMA {name}") for name in ("page_size", "page_count", "freelist_count"))
        checkpoints = number("SELECT coalesce(sum(length(bytes)),0) FROM checkpoint_pieces")
        newest = number("SELECT coalesce((SELECT size FROM checkpoints ORDER BY sequence DESC LIMIT 1),0)")
        updates = number("SELECT count(*) FROM journal WHERE kind=2")
    bytes_an_update = ((pages - empty) * page_size - checkpoints) / updates
    return pages * page_size, newest + bytes_an_update * min(updates, keep), bytes_an_update


def measure(updates, keep):
    """Whether the goals are met."""
    with tempfile.TemporaryDirectory(prefix="gradstream-restart-") as folder:
        home = pathlib.Path(folder)
        config = home / "server.toml"
        config.write_text(CONFIG.format(port=fleet.free_port(), home=home, devices=DEVICES, keep=f"{keep} updates",
                                        values=bench_server.UPDATE_VALUES),
                          encoding="ascii")
        made = make(config, updates)
        starts = [start(config) for _ in range(STARTS)]
        length, kept, bytes_an_update = measure_file(home / "gradstream.db", keep)
    listening = min(seconds for seconds, _ in starts)
    is_same = all(digest == made["digest"] for _, digest in starts)
    ratio = length / kept
    is_met = listening <= LISTENING_SECONDS_MAX and is_same and ratio <= FILE_RATIO_MAX
    print(f"result: updates={made['updates']} listening_s={listening:.2f} digest={made['digest']} "
          f"same_digest={int(is_same)} file_bytes={length} file_ratio={ratio:.2f} "
          f"bytes_an_update={bytes_an_update:.0f} made_s={made['seconds']} complete={int(is_met)}")
    return is_met


def main():
    parser = argparse.ArgumentParser(prog="./run bench restart", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=1_000_000, help="of the run (default 1000000)")
    parser.add_argument("--keep", type=int, default=KEPT_UPDATES,
                        help=f"updates that journal_keep names (default {KEPT_UPDATES})")
    arguments = parser.parse_args()
    fleet.end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the server and the file end as by Ctrl-C
    try:
        if "GS_BUILD_DIR" not in os.environ:  # else a tree that is built
            fleet.build("dev", "gradstream", "gradstream-restart")
        return 0 if measure(arguments.updates, arguments.keep) else 1
    except (Failure, RuntimeError) as failure:
        print(failure)
        print("result: complete=0")
    except KeyboardInterrupt:
        print("bench: error: interrupted; all that it started is ended", file=sys.stderr)
        print("result: error=interrupted")
    return 1


if __name__ == "__main__":
    sys.exit(main())
