"""./run soak mutants: guards of the server and of the device are changed, one at a time, and the tests must notice.

A guard is an `if` whose body refuses or returns, a predicate that is returned, or a check whose status is handed on.
A mutant is the file with one change:

  drop     the guard never holds, or the check is not made
  negate   the guard holds when it should not
  swap     < becomes <=, > becomes >=, && becomes ||, and the reverse of each

Each mutant is compiled as one object, which is linked before the libraries into the test of its file, then into those
that read its header, then into those of its folder, until one test fails: the mutant is killed. No file of the tree
changes. Seed and sites give the same mutants in every run. One that does not compile is replaced by the next.

A survivor that no test can kill stands in tests/mutants_explained.txt with its reason. Any other is an error, with
its file, line and change.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import fleet

BUILD = fleet.ROOT / "build" / "quick"
EXPLAINED = fleet.ROOT / "tests" / "mutants_explained.txt"
COMPILE_SECONDS_MAX = 300
TEST_SECONDS_MIN = 20  # beside ten times what the test takes unchanged: a mutant that hangs is killed
MEMORY_BYTES_MAX = 4 << 30
SURVIVORS_MAX = 3      # of each 60 mutants


class Room(NamedTuple):
    """Files whose guards are changed, and tests beside those of the same folder that judge them."""
    sources: str  # stems
    tests: str


ROOMS = {
    "server/link": Room("client_hello credentials io_thread listener listener_accept lobby out_frame session "
                        "session_pool tls_fault tls_stream", "server head_key"),
    "server/coordinator": Room("attendance complaint coordinator coordinator_checkpoint coordinator_output "
                               "coordinator_pulls coordinator_rounds coordinator_sessions coordinator_stages "
                               "coordinator_stall coordinator_uploads device_ranks device_row device_rules "
                               "device_session fleet held_pulls intake ledger ledger_checkpoint ledger_end norm_book "
                               "quality run_ledger run_ledger_stages run_messages run_progress share_window stall "
                               "upload_rules", "pace sim lying_sim"),
    "server/program": Room("config config_source config_value head_key head_log key_changer keyring model_export "
                           "model_import model_npz network_file past_runs replay run_export run_head shard_writer "
                           "toml_document", "commands_exit server"),
    "runtime/link": Room("certificate client client_clock client_feedback client_fields client_line client_receive "
                         "client_record client_run client_save client_send client_slots client_snapshot "
                         "client_stage client_task key_agreement privacy task_terms tls",
                         "client_hold client_measurement client_privacy client_session device gradstream_device "
                         "completion"),
    "runtime/wire": Room("claim codec frame identity key_change server_address",
                         "bad_input client_receive generated_messages name_posix run_fields session"),
    "firmware": Room("console device flash_network float_shard key_change_posix name_posix network_posix shard "
                     "shard_fault_posix shell threshold", "gradstream_device client_run"),
}


class Mutant(NamedTuple):
    file: str  # from the root
    line: int
    begin: int  # what is replaced of the file's text
    end: int
    text: str
    name: str   # file and changed line, with a number from the second of the same name on


class Verdict(NamedTuple):
    mutant: Mutant
    killer: str  # name of the test; empty: survived; None: does not compile


SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&"}
_OPERATOR = re.compile(r"(?<=\s)(<=?|>=?|&&|\|\|)(?=\s)")
_IF = re.compile(r"^ *(?:\} else )?if \(", re.M)
_RETURNED = re.compile(r"^ *return ([^;\"]*?);$", re.M)
_CHECK = re.compile(r"^ *(?:GS_TRY|(?:check|verify)_\w+)\([^;]*\);$", re.M)
_REFUSAL = re.compile(r"\breturn\b|\brefuse|\breject|\bfail|\bdrop|\bclose|\bend_")
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*')


def end_of(text, begin):
    """Where the bracket at begin is closed; None where it is not."""
    closing = {"(": ")", "{": "}"}[text[begin]]
    depth = 0
    for place in range(begin, len(text)):
        depth += (text[place] == text[begin]) - (text[place] == closing)
        if depth == 0:
            return place
    return None


def condition_of(bare, match):
    """Begin and end of the condition of an `if` that guards a refusal; None of any other."""
    opening = match.end() - 1
    closing = end_of(bare, opening)
    if closing is None:
        return None
    body = closing + 2
    after = end_of(bare, body) if bare[body:body + 1] == "{" else bare.find(";", body)
    if not after or after < 0 or not _REFUSAL.search(bare[body:after]):
        return None
    begin = bare.rfind("; ", opening, closing)  # of a declaration before the condition
    return (begin + 2 if begin >= 0 else opening + 1), closing


def changes_of(text):
    """Begin, end and replacement of each change of a file's text, in no order of importance."""
    # Same length: quotes and comments hold brackets and operators of their own.
    bare = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
    spans = []
    for match in _IF.finditer(bare):
        span = condition_of(bare, match)
        if span:
            spans.append(span)
            yield *span, f"false && ({text[slice(*span)]})"
            yield *span, f"!({text[slice(*span)]})"
    spans += [match.span(1) for match in _RETURNED.finditer(bare)]
    for begin, end in spans:
        for match in _OPERATOR.finditer(bare, begin, end):
            yield *match.span(), SWAPS[match[0]]
    for match in _CHECK.finditer(bare):
        begin = match.start() + len(match[0]) - len(match[0].lstrip())
        yield begin, match.end(), f"if (false) {{ {text[begin:match.end()]} }}"


def mutants_of(file, text):
    """All mutants of a file whose text is given."""
    seen = collections.Counter()
    mutants = []
    for begin, end, new in sorted(changes_of(text)):
        first = text.rfind("\n", 0, begin) + 1
        last = text.find("\n", end)
        name = f"{file}: {' '.join((text[first:begin] + new + text[end:last]).split())}"
        seen[name] += 1
        mutants.append(Mutant(file, text.count("\n", 0, begin) + 1, begin, end, new,
                              name if seen[name] == 1 else f"{name} #{seen[name]}"))
    return mutants


@functools.lru_cache(maxsize=None)
def all_mutants(room):
    files = [f"{room}/{stem}.cc" for stem in ROOMS[room].sources.split()]
    return [mutant for file in files for mutant in mutants_of(file, (fleet.ROOT / file).read_text(encoding="utf-8"))]


def chosen(seed, rooms, files):
    """All mutants in the order of the seed, one of each room in turn. An edit elsewhere leaves the order as it is."""
    def rank(mutant):
        return hashlib.sha256(f"{seed}|{mutant.name}".encode()).digest()
    lanes = [sorted((mutant for mutant in all_mutants(room) if not files or mutant.file in files), key=rank)
             for room in rooms]
    return [mutant for turn in itertools.zip_longest(*lanes) for mutant in turn if mutant]


def explained(text):
    """Names of survivors with their reasons: a line for the name, one or more indented lines for why."""
    reasons = {}
    name = None
    for line in text.splitlines():
        if line.startswith("  ") and name:
            reasons[name] = f"{reasons[name]} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            name = line
            reasons[name] = ""
    return reasons


@contextlib.contextmanager
def new_folder():
    """A folder of its own, which is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="gs-mutants-") as folder:
        os.chmod(folder, 0o711)  # some tests look at their files as nobody
        yield folder


class Judge:
    """Compiles, links and runs. Reads the commands of the build once."""

    def __init__(self):
        self._compilations = collections.defaultdict(dict)  # file -> archive -> words
        for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
            words = shlex.split(entry["command"])
            folder, _, library = words[words.index("-o") + 1].partition("/CMakeFiles/")
            archive = f"{folder}/lib{library.partition('.dir/')[0]}.a"
            self._compilations[entry["file"]][archive] = words
        self._targets = {path.stem: path for path in (fleet.ROOT / "tests").glob("*/*_test.cc")}
        self._links = {}
        self._seconds = {}

    def tests_of(self, file):
        """Names of tests that judge a file: its own first, then those of its folder."""
        path = pathlib.PurePath(file)
        room = ROOMS[f"{path.parent}"]
        stems = [path.stem, *room.sources.split(), *room.tests.split()]
        return [name for name in dict.fromkeys(f"{stem}_test" for stem in stems) if name in self._targets]

    def prepare(self, names):
        """Builds tests and runs each once. Raises RuntimeError where one fails without any change."""
        fleet.build("quick", *names)
        said = fleet.command(["ninja", "-C", BUILD, "-t", "commands", *names], "the list of link commands")
        for line in said.splitlines():
            output = re.search(r" -o (tests/\S+/(\w+_test)) ", line)
            if output and output[2] in names:
                self._links[output[2]] = shlex.split(line)[2:-2]  # between ": &&" and "&& :"
        for name in names:
            begin = time.monotonic()
            program = BUILD / self._output(name)
            with new_folder() as folder:
                if not self._passes(program, folder, 600):
                    raise RuntimeError(f"{name} fails without any change: no mutant can be judged by it")
            self._seconds[name] = time.monotonic() - begin

    def judge(self, mutant):
        with new_folder() as folder:
            text = (fleet.ROOT / mutant.file).read_text(encoding="utf-8")
            source = pathlib.Path(folder, pathlib.PurePath(mutant.file).name)
            source.write_text(text[:mutant.begin] + mutant.text + text[mutant.end:], encoding="utf-8")
            objects = {}
            for name in self._order(mutant.file):
                archive = next((word for word in self._links[name] if word in self._of(mutant.file)), None)
                if archive is None:
                    continue
                if archive not in objects:
                    objects[archive] = self._compile(mutant.file, archive, source)
                if objects[archive] is None:
                    return Verdict(mutant, None)
                program = self._link(name, objects[archive], folder)
                if not self._passes(program, folder, TEST_SECONDS_MIN + 10 * self._seconds[name]):
                    return Verdict(mutant, name)
                program.unlink()
        return Verdict(mutant, "")

    def _order(self, file):
        own, *others = self.tests_of(file)
        return [own, *sorted(others, key=lambda name: (not self._reads(name, file), self._seconds[name]))]

    def _reads(self, name, file):
        header = f'#include "{pathlib.PurePath(file).with_suffix(".h")}"'
        return header in self._targets[name].read_text(encoding="utf-8")

    def _of(self, file):
        return self._compilations[f"{fleet.ROOT / file}"]

    def _output(self, name):
        words = self._links[name]
        return words[words.index("-o") + 1]

    def _compile(self, file, archive, source):
        words = list(self._of(file)[archive])
        output = source.with_suffix(f".{pathlib.PurePath(archive).stem}.o")
        words[words.index("-o") + 1] = f"{output}"
        words[words.index("-c") + 1] = f"{source}"
        done = subprocess.run([*words, "-w"], cwd=BUILD, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=COMPILE_SECONDS_MAX, check=False)
        return output if done.returncode == 0 else None

    def _link(self, name, changed, folder):
        # An object's symbols are found before those of the libraries, whose copy of the file is never looked at.
        words = list(self._links[name])
        program = pathlib.Path(folder, name)
        words[words.index("-o") + 1] = f"{program}"
        words.insert(words.index("-o"), f"{changed}")
        subprocess.run(words, cwd=BUILD, stdin=subprocess.DEVNULL, timeout=COMPILE_SECONDS_MAX, check=True)
        return program

    @staticmethod
    def _passes(program, folder, seconds):
        def bound():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            done = subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1"], cwd=folder, preexec_fn=bound,
                                  env={**os.environ, "TMPDIR": folder, "TEST_TMPDIR": folder},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def run(arguments, reasons):
    """Judges as many mutants as are asked for; the verdicts of those that compile."""
    judge = Judge()
    candidates = chosen(arguments.seed, arguments.rooms, arguments.files)
    print(f"mutants: {len(candidates)} sites, seed {arguments.seed}", flush=True)
    files = {mutant.file for mutant in candidates[:2 * arguments.mutants]}
    judge.prepare(sorted({name for file in files for name in judge.tests_of(file)}))
    verdicts = []
    waiting = iter([mutant for mutant in candidates if mutant.file in files])
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        running = set()
        while True:
            while len(running) < min(arguments.jobs, arguments.mutants - len(verdicts)):
                mutant = next(waiting, None)
                if mutant is None:
                    break
                running.add(pool.submit(judge.judge, mutant))
            if not running:
                return verdicts
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for verdict in (future.result() for future in done):
                if verdict.killer is None or len(verdicts) == arguments.mutants:
                    continue
                verdicts.append(verdict)
                name, line = verdict.mutant.name.split(": ", 1)[1], verdict.mutant.line
                end = (f"killed by {verdict.killer}" if verdict.killer
                       else f"SURVIVED, explained: {reasons[verdict.mutant.name]}" if verdict.mutant.name in reasons
                       else "SURVIVED")
                print(f"mutants: {len(verdicts)}/{arguments.mutants} {verdict.mutant.file}:{line}: {name}: {end}",
                      flush=True)


def parse(words):
    parser = argparse.ArgumentParser(prog="./run soak mutants", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=60, help="how many (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the sites (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="at a time (default 2)")
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS), metavar="FOLDER",
                        help="of the guards (default all: %(default)s)")
    parser.add_argument("--files", nargs="+", default=[], metavar="FILE", help="of these folders (default all)")
    return parser.parse_args(words)


def main():
    arguments = parse(None)
    begin = time.monotonic()
    reasons = explained(EXPLAINED.read_text(encoding="utf-8"))
    try:
        verdicts = run(arguments, reasons)
    except RuntimeError as failure:
        print(f"mutants: error: {failure}")
        print("result: mutants=0 error=build")
        return 1
    survivors = [verdict.mutant for verdict in verdicts if not verdict.killer]
    known = sum(mutant.name in reasons for mutant in survivors)
    for mutant in survivors:
        if mutant.name not in reasons:
            print(f"mutants: error: no test notices {mutant.file}:{mutant.line}, changed to\n  {mutant.name}")
    print(f"result: mutants={len(verdicts)} killed={len(verdicts) - len(survivors)} survived={len(survivors)} "
          f"explained={known} seconds={time.monotonic() - begin:.0f}")
    is_enough = len(verdicts) >= arguments.mutants
    return 0 if is_enough and known == len(survivors) <= max(1, SURVIVORS_MAX * len(verdicts) / 60) else 1


if __name__ == "__main__":
    sys.exit(main())
