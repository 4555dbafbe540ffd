#!/usr/bin/python3
"""The pages of the tree: each link and anchor leads somewhere, each page is in the index, and what they name exists.
So does each page that a source names, in a message or a comment.

    documents_test.py               check the tree that this file stands in
    documents_test.py --self-test   plant one fault of each kind and demand that it is found

Commands are those of code blocks and inline code. Their verbs and options are compared with `run`, the tools behind it
and the bash completions, which other tests compare with the programs. RUN_BY says of every block of commands on a page
for newcomers or operators which test runs it, or why none does.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED_FOLDERS = {".git", "build", "third_party", "__pycache__", "results", "node_modules"}
README_LINES_MAX = 90  # a stranger reads no more
INDEX = "docs/index.md"
NOT_INDEXED = {INDEX, "tools/source_package/README.md"}  # which goes into the package
SOURCES = {".cc", ".h", ".c", ".py", ".sh", ".js", ".html", ".proto", ".toml", ".yaml", ".cmake", ".txt", ".1", ".bash"}
PLANTING = {f"tests/{name}_test.py" for name in ("documents", "house_rules", "prose")}  # they name pages of their own

# A page holds the figure that is true, and not what an older release had. The changelog is what tells that.
HISTORY = re.compile(r"\b(?:an|the) (?:earlier|older) (?:one|run|figure) (?:had|found|took|made)\b|\bolder runs? had\b|"
                     r"\bused to (?:be|take|have)\b|\ba later one,? (?:had|since)\b|, since which\b", re.I)
MAY_TELL_HISTORY = {"CHANGELOG.md"}

# Pages whose blocks of commands must be run by a test: (page, the block's first command) -> the test, or the reason.
# An empty command stands for every block of the page.
RUN_BY = {
    ("README.md", "./run demo"): "tests/tools/demo_test.py",
    ("docs/contributing.md", "./run build dev"): "it builds this tree, and runs this test",
    ("docs/how-to/audit.md", "gradstream run head-key"): "tests/server/how_to_test.py",
    ("docs/how-to/audit.md", "openssl dgst"): "tests/server/how_to_test.py",
    ("docs/how-to/certificates.md", "openssl ecparam"): "tests/server/how_to_test.py",
    ("docs/how-to/certificates.md", "gradstream-client --server"): "tests/server/how_to_test.py",
    ("docs/how-to/container.md", ""): "tests/tools/image_test.py",
    ("docs/how-to/enrol.md", "gradstream device add"): "tests/server/how_to_test.py",
    ("docs/how-to/enrol.md", "gradstream claim add"): "tests/server/how_to_test.py",
    ("docs/how-to/engine.md", "./run package server engine"): "tests/tools/package_server_test.py",
    ("docs/how-to/engine.md", "gradstream engine"): "tests/server/engine_commands_test.cc",
    ("docs/how-to/engine.md", "gradstream device add"): "tests/server/engine_fleet_test.cc",
    ("docs/how-to/engine.md", "gradstream run pause"): "tests/server/engine_run_state_test.cc",
    ("docs/how-to/install.md", "./run package server"): "tests/tools/install_test.py",
    ("docs/how-to/library.md", "./run build dev"): "tests/consume/consume_test.py",
    ("docs/how-to/library.md", "./run package library"): "tests/tools/package_library_test.py",
    ("docs/how-to/report.md", "./run build stm32f405"): "for a board; tests/boards/self_test_board_test.py",
    ("docs/how-to/report.md", "./run report make"): "tests/tools/report_test.py",
    ("docs/how-to/report.md", "./run report check"): "tests/tools/report_test.py",
    ("docs/how-to/run.md", "gradstream serve --check-config"): "tests/server/how_to_test.py",
    ("docs/how-to/set_up.md", "./run demo"): "tests/tools/setup_test.py",
    ("docs/how-to/source_package.md", "./run package"): "it takes minutes and tries itself; source_package_test.py",
    ("docs/how-to/simulate.md", "./run simulate --fleet"): "tests/sim/simulate_fleet_test.py",
    ("docs/how-to/simulate.md", "./run simulate --devices"): "tests/sim/simulate_fleet_test.py",
    ("docs/how-to/simulate.md", "./run simulate --fronts"): "tests/sim/cluster_test.cc",
    ("docs/how-to/simulate.md", "./run simulate --schedules 1000 --lies"): "tests/sim/lying_sim_test.cc",
    ("docs/how-to/simulate.md", "./run simulate --schedules 1000 --byzantine"): "tests/sim/byzantine_test.cc",
    ("docs/how-to/watch.md", "gradstream serve --config"): "tests/server/how_to_test.py",
    ("docs/how-to/watch.md", "curl http"): "tests/server/how_to_test.py",
    ("docs/tutorial_vibration.md", ""): "tests/tools/example_vibration_test.py",
    ("docs/own_data.md", "gradstream run suggest"): "tests/server/own_data_test.py",
    ("docs/own_data.md", "gradstream data pack"): "tests/server/own_data_test.py",
    ("docs/own_data.md", "gradstream device add"): "tests/server/own_data_test.py",
    ("docs/own_data.md", "gradstream serve --config"): "tests/server/own_data_test.py",
    ("docs/own_data.md", "gradstream-client --server"): "tests/server/own_data_test.py",
    ("docs/own_data.md", "gradstream model export"): "tests/server/own_data_test.py",
    ("docs/use_model.md", "gradstream-client --identity"): "tests/firmware/score_client_test.py",
}
FOLLOWED = re.compile(r"README\.md|docs/(?:contributing|demo|own_data|use_model|tutorial_\w+|how-to/\w+)\.md")
COMMAND = re.compile(r"(?:\./run|gradstream|gradstream-client) |(?:sudo|curl|openssl|journalctl) ")


def read_tree():
    """path -> text, of pages and of sources that may name them; None for other targets of links."""
    found = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            is_read = path.suffix in {".md", *SOURCES}
            found["/".join(path.relative_to(ROOT).parts)] = path.read_text(encoding="utf-8") if is_read else None
    return found


# ---- Links -----------------------------------------------------------------------------------------------------------


def without_code(text):
    return re.sub(r"(?s)(`+)(?!`).*?(?<!`)\1(?!`)", "``", re.sub(r"(?ms)^ *```.*?^ *```$", "", text))


def anchors(text):
    """What a link to a heading ends with, by GitHub's rule; the second of one name has -1 behind it."""
    counts, found = {}, set()
    for heading in re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^ *```.*?^ *```$", "", text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{name}-{counts[name]}" if name in counts else name)
        counts[name] = counts.get(name, 0) + 1
    return found


def resolve(page, target):
    """The path in the tree that a relative link leads to; "" where it leaves the tree."""
    parts = page.split("/")[:-1]
    for part in target.split("/"):
        if part == ".." and not parts:
            return ""
        parts = parts[:-1] if part == ".." else parts + [part] * (part not in ("", "."))
    return "/".join(parts)


def links(text):
    prose = without_code(text)
    yield from re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", prose)
    yield from ((picture, "") for picture in re.findall(r'src="(?!\w+:)([^"]*)"', prose))


def check_links(files):
    folders = {path.rpartition("/")[0] for path in files}
    folders |= {"/".join(folder.split("/")[:i]) for folder in folders for i in range(1, folder.count("/") + 1)}
    for page, text in pages(files):
        for target, anchor in links(text):
            path = resolve(page, target) if target else page
            if path not in files and path not in folders:
                yield f"{page}: the link to {target} leads nowhere"
            elif anchor and path.endswith(".md") and anchor not in anchors(files[path]):
                yield f"{page}: {path} has no heading #{anchor}"


def pages(files):
    return ((path, text) for path, text in files.items() if path.endswith(".md"))


def check_sources(files):
    for path, text in files.items():
        if text is not None and not path.endswith(".md") and path not in PLANTING:
            for page in re.findall(r"(?<![\w/.-])(?:docs|boards|examples|experiments)/[\w/-]+\.md", text):
                if page not in files:
                    yield f"{path}: it names {page}, which is not there"


def check_index(files):
    linked = {resolve(INDEX, target) for target, _ in links(files[INDEX])}
    for page, _ in pages(files):
        if page not in linked | NOT_INDEXED:
            yield f"{page}: {INDEX} has no row for it"


def check_words(files):
    lines = files["README.md"].count("\n")
    if lines > README_LINES_MAX:
        yield f"README.md: {lines} lines, at most {README_LINES_MAX}: a page of docs/ has room"
    for page, text in pages(files):
        match = None if page in MAY_TELL_HISTORY else HISTORY.search(" ".join(text.split()))
        if match:
            yield f"{page}: `{match[0]}`: say what holds, and leave what was to CHANGELOG.md"


# ---- Commands --------------------------------------------------------------------------------------------------------


def blocks(text):
    """The code of a page, a list of lines for each block: between fences, or indented by four below a blank line."""
    for block in re.findall(r"(?ms)^ *```\w*\n(.*?)^ *```$", text):
        yield [line.strip() for line in block.splitlines()]
    rest = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    for block in re.findall(r"(?m)(?:^\n|\A)((?:^    .*\n)+)", rest):
        yield [line.strip() for line in block.splitlines()]


def commands(text):
    """Every command of a page's code, as words: without comments, and nothing behind a pipe or an arrow."""
    found = [line for block in blocks(text) for line in block]
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    found += [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)]
    for line in found:
        line = re.sub(r"^(?:\(|sudo (?:-u \S+ )?|\$ )", "", line)
        line = re.split(r"\s#|[|>;]|&&|\\$| \.\.\.", line)[0]
        if not re.match(r"(?:\./run|gradstream|gradstream-client) \S", line):
            continue
        try:
            yield shlex.split(line)
        except ValueError:
            yield line.split()


def options_of(words):
    return [re.split(r"[=|\]]", word.lstrip("["))[0] for word in words if re.match(r"\[?--\w", word)]


class Known:
    """Verbs and options that there are, by the sources."""

    def __init__(self):
        door = (ROOT / "run").read_text(encoding="utf-8")
        self.verbs = set(re.search(r"(?s)readonly VERBS=\((.*?)\)", door)[1].split())
        self.texts = {}
        self.offered = {}

    def text_behind(self, verb, name):
        """The sources that take a verb's options."""
        places = {"simulate": ["tools/simulate.sh", "sim/*.cc"], "bench": [f"tools/bench_{name}.*", "tools/bench_*.py"],
                  "experiment": ["tools/experiment.py", "experiments/*.cc", "experiments/harness/*.cc"],
                  "demo": ["tools/demo*.py"], "example": ["tools/example*.py"], "soak": ["tools/soak*.py"],
                  "package": ["tools/package.py"]}.get(verb, [f"tools/{verb}.*"])
        key = tuple(places)
        if key not in self.texts:
            self.texts[key] = "".join(path.read_text(encoding="utf-8") for place in places
                                      for path in sorted(ROOT.glob(place)) if path.is_file())
        return self.texts[key]

    def completions(self, script, words):
        """What the shell offers behind these words."""
        key = (script, *words)
        if key not in self.offered:
            name = "_" + re.search(r"complete -F _(\w+)", (ROOT / script).read_text(encoding="utf-8"))[1]
            program = (f'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {name}; '
                       'printf "%s\\n" "${COMPREPLY[@]}"')
            done = subprocess.run(["bash", "-c", program, "bash", ROOT / script, *words], text=True, check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.offered[key] = set(done.stdout.split())
        return self.offered[key]

    def faults_of_run(self, words):
        verb = words[1]
        if verb not in self.verbs:
            yield "unknown verb"
            return
        name = next((word for word in words[2:] if not word.startswith(("-", "["))), "")
        yield from (f"unknown option {option}" for option in options_of(words)
                    if option != "--help" and not re.search(rf"{option}(?![\w-])", self.text_behind(verb, name)))
        for kind, pattern in (("bench", "tools/bench_{}.*"), ("example", "examples/{}")):
            if verb == kind and re.fullmatch(r"[a-z]\w*", name) and not list(ROOT.glob(pattern.format(name))):
                yield f"unknown {kind} {name}"

    def faults_of_server(self, words):
        script, verb = "operations/debian/gradstream.bash", words[1]
        if verb.startswith("--") or verb == "demo":  # the wheel's own: python/gradstream/demo.py
            return
        if verb not in self.completions(script, ("gradstream", "")):
            yield "unknown verb"
            return
        inner = self.completions(script, ("gradstream", verb, "")) if verb != "data" else {"pack", "show"}
        inner = {word for word in inner if re.fullmatch(r"[a-z][a-z-]*", word)} if verb in self.groups() else set()
        named = words[1:3] if inner else words[1:2]
        if inner and len(named) == 2 and named[1] not in inner:
            yield "unknown verb"
        elif not inner or len(named) == 2:
            offered = self.completions(script, ("gradstream", *named, "--"))
            yield from (f"unknown option {option}" for option in options_of(words) if option not in offered)

    def groups(self):
        return {"device", "claim", "run", "model", "network", "data", "engine"}

    def faults_of_client(self, words):
        offered = self.completions("boards/posix/debian/gradstream-client.bash", ("gradstream-client", "--"))
        yield from (f"unknown option {option}" for option in options_of(words) if option not in offered)

    def faults(self, words):
        return {"./run": self.faults_of_run, "gradstream": self.faults_of_server,
                "gradstream-client": self.faults_of_client}[words[0]](words)


def check_commands(files):
    known = Known()
    for page, text in pages(files):
        if page != "CHANGELOG.md":
            for words in commands(text):
                yield from (f"{page}: `{' '.join(words)}`: {fault}" for fault in known.faults(words))


def check_runs(files, run_by):
    there = set()
    for page, text in pages(files):
        if not FOLLOWED.fullmatch(page):
            continue
        for block in blocks(text):
            first = next((line for line in block if COMMAND.match(line)), None)
            if first is None:
                continue
            entry = next((key for key in run_by if key[0] == page and first.startswith(key[1])), None)
            if entry is None:
                yield f"{page}: no test runs `{first}`; RUN_BY wants its name, or the reason"
            else:
                there.add(entry)
    for page, first in run_by.keys() - there:
        yield f"{page}: RUN_BY names a block that begins with `{first}`, and there is none"
    for (page, _), test in run_by.items():
        if re.fullmatch(r"tests/\S+", test):
            text = (ROOT / test).read_text(encoding="utf-8") if (ROOT / test).is_file() else ""
            if page.rpartition("/")[2] not in text and page != "README.md":
                yield f"{test}: RUN_BY says that it runs commands of {page}, which it does not name"


def check(files, run_by=None):
    return [*check_links(files), *check_sources(files), *check_index(files), *check_words(files),
            *check_commands(files), *check_runs(files, RUN_BY if run_by is None else run_by)]


# ---- The checker's own test ------------------------------------------------------------------------------------------

CLEAN = {"README.md": "# A\n\n[The index](docs/index.md#all), `./run demo --seed 1`, `gradstream device add NAME`.\n",
         "docs/index.md": "# All\n\n[A](../README.md) [B](how-to/b.md)\n", "docs/a.svg": None,
         "server/b.h": "// docs/how-to/b.md\n",
         "docs/how-to/b.md": "# B\n\n![a](../a.svg) [folder](../how-to) [up](#b)\n\n```\ngradstream status\n```\n"}
CLEAN_RUNS = {("docs/how-to/b.md", "gradstream status"): "a reason"}
PLANTED = {
    "leads nowhere": {"README.md": "[a](docs/none.md)"},
    "leads nowhere ": {"docs/how-to/b.md": '<img src="none.png">'},
    "has no heading": {"README.md": "[a](docs/how-to/b.md#c)"},
    "it names": {"server/a.cc": '  fail("look at docs/how-to/c.md");\n'},
    "has no row": {"docs/c.md": "# C\n"},
    "lines, at most": {"README.md": "\n" * 91},
    "leave what was": {"docs/how-to/b.md": "It takes 3 s. An earlier\none had 5 s.\n"},
    "unknown verb": {"README.md": "`./run fly`"},
    "unknown option --sed": {"README.md": "    ./run demo --sed 1\n"},
    "unknown bench": {"README.md": "`./run bench nothing`"},
    "unknown verb ": {"README.md": "`gradstream device ad kitchen`"},
    "unknown option --ot": {"README.md": "```\nsudo -u a gradstream device add kitchen --ot x  # --none\n```\n"},
    "unknown option --datum": {"README.md": "`gradstream-client --datum x`"},
    "no test runs": {"docs/how-to/b.md": "```\ngradstream status\n```\n\n    curl http://127.0.0.1:7434/status\n"},
    "there is none": {"docs/how-to/b.md": "nothing\n"},
}


def self_test():
    failures = [f"found in a clean tree: {fault}" for fault in check(CLEAN, CLEAN_RUNS)]
    for wanted, planted in PLANTED.items():
        found = check({**CLEAN, **planted}, CLEAN_RUNS)
        if not any(wanted.strip() in fault for fault in found):
            failures.append(f"not found: {wanted} of {planted}; found {found}")
    print("\n".join(failures), end="\n" if failures else "")
    print(f"{len(PLANTED)} planted faults, {len(failures)} failures")
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    files = read_tree()
    faults = check(files)
    print("\n".join(faults), end="\n" if faults else "")
    print(f"{len(list(pages(files)))} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
