#!/usr/bin/python3
"""House rules: reads the project's files and fails on any that breaks a rule of the design.

    house_rules_test.py               check the tree that this file stands in
    house_rules_test.py --self-test   plant one violation of each kind and demand that it is found

Exceptions stand in house_rules_allow.txt, each with its reason; one that excuses nothing is itself a violation.
A rule is a function from a Tree to violations; RULES at the end lists them.
"""

import ast
import functools
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from typing import Callable, Iterator, NamedTuple

ROOT = posixpath.dirname(posixpath.dirname(posixpath.abspath(__file__)))
ALLOW_FILE = "tests/house_rules_allow.txt"
SKIPPED_FOLDERS = {".git", "build", "third_party", "__pycache__"}
LINE_LENGTH_MAX = 120
FUNCTION_LINES_MAX = 70

CPP = (".h", ".cc", ".c")
CODE = CPP + (".S", ".ld", ".py", ".sh", ".cmake", ".proto", ".options")


class Violation(NamedTuple):
    rule: str
    path: str
    line: int
    item: str  # what exactly: a word, a header, a function; exceptions may name it
    text: str


class Tree:
    """The project's text files: path from the root -> content."""

    def __init__(self, files: dict):
        self.files = files
        self._stripped = {}

    @staticmethod
    def read(root: str) -> "Tree":
        files = {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
            for name in sorted(names):
                path = posixpath.join(folder, name)
                try:
                    with open(path, encoding="utf-8") as file:
                        files[posixpath.relpath(path, root)] = file.read()
                except (UnicodeDecodeError, FileNotFoundError):
                    pass  # pictures and packets have no text to judge
        return Tree(files)

    def select(self, *folders: str, ends: tuple = CPP) -> list:
        return [p for p in self.files if p.endswith(ends) and (not folders or p.startswith(folders))]

    def stripped(self, path: str) -> str:
        """C++ without comments and the content of literals; every line keeps its number."""
        if path not in self._stripped:
            self._stripped[path] = strip_cpp(self.files[path])
        return self._stripped[path]

    def includes(self, path: str) -> tuple:
        """(line, header, is_quoted) of every include."""
        return includes_of(self.files[path])

    def chains(self, path: str, into: Callable[[str], bool] = lambda header: True) -> dict:
        """Every header that path reaches by project includes -> the shortest chain of headers that ends in it.

        A chain goes on behind a header of the project for which into() holds.
        """
        chains, front = {}, [(path, ())]
        while front:
            following = []
            for at, chain in front:
                for _, header, _ in self.includes(at):
                    if header not in chains and header != path:
                        chains[header] = chain + (header,)
                        if header in self.files and into(header):
                            following.append((header, chains[header]))
            front = following
        return chains

    def line_of(self, path: str, header: str) -> int:
        return next(line for line, included, _ in self.includes(path) if included == header)


@functools.cache
def includes_of(text: str) -> tuple:
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            found.append((number, match[2], match[1] == '"'))
    return tuple(found)


CPP_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)


def strip_cpp(text: str) -> str:
    def blank(match):
        token = match[0]
        newlines = "\n" * token.count("\n")
        return newlines or " " if token.startswith("/") else token[0] + newlines + token[-1]
    return CPP_TOKENS.sub(blank, text)


def is_code(path: str) -> bool:
    return path.endswith(CODE) or posixpath.basename(path) in ("CMakeLists.txt", "run")


# ---- Include arrows ----

BASE, MANIFOLD, PROBLEM, TRAINING, WIRE, LINK = (
    "runtime/base/", "runtime/manifold/", "runtime/problem/", "runtime/training/", "runtime/wire/", "runtime/link/")
# The part of training that both ends compute with or name: no problem, no solver.
SHARED_TRAINING = ("runtime/training/clip.h", "runtime/training/curve.h", "runtime/training/encoding.h",
                   "runtime/training/secant.h", "runtime/training/stream.h", "runtime/training/task.h")
# What both programs need of the Linux process that they are.
HOST_ROOM = "host/"
SERVER_MAY = (BASE, MANIFOLD, *SHARED_TRAINING, WIRE)
PURE_ROOMS = ("server/run/", "server/rules/", "server/journal/", "server/coordinator/", "server/engine/")
# The pure part of server/base/: its other headers stand for sockets, files and the log, whatever they include.
PURE_BASE = ("server/base/enum_names.h", "server/base/event_catalogue.h", "server/base/fields.h",
             "server/base/objection.h", "server/base/rate_limit.h", "server/base/recycled_queue.h",
             "server/base/refusal_catalogue.h", "server/base/session_id.h", "server/base/sha256.h",
             "server/base/state_archive.h")

# What a room may reach of the project, by an include or by a chain of them: prefixes of paths. Rooms that are not named
# may reach everything.
ARROWS = {
    BASE: (BASE,),
    MANIFOLD: (BASE, MANIFOLD),
    PROBLEM: (BASE, MANIFOLD, PROBLEM),
    TRAINING: (BASE, MANIFOLD, PROBLEM, TRAINING),
    WIRE: (BASE, MANIFOLD, *SHARED_TRAINING, WIRE),
    LINK: (BASE, MANIFOLD, PROBLEM, TRAINING, WIRE, LINK),
    # The client's side of a handshake, as devices link it.
    "server/program/doctor.": SERVER_MAY + ("server/", "runtime/link/certificate.h", "runtime/link/tls.h",
                                            "runtime/link/transport.h", "host/shown.h"),
    HOST_ROOM: (BASE, HOST_ROOM),
    "server/base/": (BASE, HOST_ROOM, "server/base/"),
    "server/run/": SERVER_MAY + (*PURE_BASE, "server/run/"),
    "server/rules/": SERVER_MAY + (*PURE_BASE, "server/run/", "server/rules/"),
    "server/journal/": (BASE, "server/base/sha256.h", "server/journal/"),
    "server/coordinator/": SERVER_MAY + (*PURE_BASE, "server/run/", "server/rules/", "server/journal/",
                                         "server/coordinator/"),
    # A front judges by the coordinator's rules, which know no engine.
    "server/engine/": SERVER_MAY + (*PURE_BASE, "server/run/", "server/rules/", "server/journal/",
                                    "server/coordinator/", "server/engine/"),
    "server/postgresql/": SERVER_MAY + (*PURE_BASE, "server/base/asio_alias.h", "server/journal/",
                                        "server/coordinator/device_row.h", "server/engine/", "server/postgresql/"),
    "server/store/": SERVER_MAY + (HOST_ROOM, "server/base/", "server/journal/", "server/store/"),
    # One check of certificates serves both ends; credentials.h holds what it parses.
    "server/link/": SERVER_MAY + ("server/base/", "server/link/", "runtime/link/certificate.h", "host/shown.h"),
    # The page shows the coordinator's counts and the run's keys: coordinator.h is made of the headers that stand last.
    "server/watch/": SERVER_MAY + ("server/base/", "server/coordinator/", "server/link/shell_counters.h",
                                   "server/watch/", "server/journal/checkpoint.h", "server/journal/journal_chain.h",
                                   "server/journal/journal_head.h", "server/journal/journal_record.h",
                                   "server/journal/store.h",
                                   "server/journal/update_notes.h", "server/rules/model_average.h",
                                   "server/rules/progress_watch.h", "server/rules/smoothing_check.h", "server/run/",
                                   "host/shown.h"),
    # The certificate as server/link/credentials.h holds it.
    # The memory of a network on a device, by the tables that devices compute with.
    "server/program/network_memory.": SERVER_MAY + (PROBLEM, TRAINING, "server/program/network_memory."),
    # Shards are read as devices read them.
    "server/program/data_summary.": (BASE, HOST_ROOM, "firmware/shard.h", "firmware/float_shard.h",
                                     "firmware/shard_fault_posix.h", "server/base/objection.h",
                                     "server/program/data_summary."),
    # Networks are read as devices read them. network_memory.h stands for the tables behind it.
    # The server's end of a claim is what devices have, with the other secret.
    "server/program/": SERVER_MAY + (PROBLEM, HOST_ROOM, "server/", "runtime/link/certificate.h",
                                     "runtime/link/key_agreement.h"),
    # The verbs beside those of server/program, by the same configuration.
    "server/cluster/": SERVER_MAY + (HOST_ROOM, "server/", "runtime/link/certificate.h"),
    "sim/main.": ("runtime/", "sim/", HOST_ROOM, *PURE_ROOMS, *PURE_BASE),
    "sim/": ("runtime/", "sim/", *PURE_ROOMS, *PURE_BASE),
    "boards/posix/": (BASE, "runtime/link/port.h", "runtime/link/transport.h", "runtime/wire/server_address.h",
                      "include/gradstream/port.h", "include/gradstream/posix.h", "boards/", HOST_ROOM),
    "boards/": (BASE, "runtime/link/port.h", "runtime/link/transport.h", "include/gradstream/port.h", "boards/"),
    "include/": ("runtime/", "include/"),
    # The self-test times the X25519 of a handshake.
    "firmware/self_test.": ("runtime/", "include/", "boards/", "firmware/", "cmake/x25519_driver.h"),
    "firmware/": ("runtime/", "include/", "boards/", "firmware/", HOST_ROOM),
    "python/gradstream_simulation.": ("runtime/", "sim/", "python/", *PURE_ROOMS, *PURE_BASE),
    "python/": ("runtime/", "include/", "boards/posix/", "firmware/", "python/"),
}

RUNTIME_HEADERS = set(
    "algorithm array bit cfloat climits cmath compare concepts cstddef cstdint cstring initializer_list iterator "
    "limits numbers numeric optional span string_view tuple type_traits utility version "
    "stdbool.h stddef.h stdint.h".split())
# What the pure part of the server may include besides: no socket, disk, thread, clock or source of randomness.
PURE_HEADERS = RUNTIME_HEADERS | set("charconv deque functional list map memory set string vector".split())
PURE_LIBRARY, PURE_CMAKE = "gs_coordinator", "server/CMakeLists.txt"
NANOPB = re.compile(r"pb(_\w+)?\.h$|.*\.pb\.h$")
MBEDTLS = re.compile(r"(mbedtls|psa)/")


def is_generated(header: str) -> bool:
    return header.startswith("proto/") and header.endswith(".pb.h")


def room_of(path: str) -> str:
    return next((room for room in ARROWS if path.startswith(room)), "")


# Folders whose every file stands in a room of ARROWS.
ROOMED = ("runtime/", "server/", HOST_ROOM)
INCLUDE_LINE = re.compile(r"^\s*(?:#|%:)\s*(?:include|include_next|import)\b|^\s*import\s*[<\"]")
PLAIN_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^<>"]+)>|"([^<>"]+)")')


def include_forms(tree: Tree) -> Iterator[Violation]:
    """What the other rules cannot read: an include that is spelt otherwise, or by a path with . or .. in it."""
    for path in tree.select():
        text = re.sub(r"/\*.*?\*/", lambda m: " " + "\n" * m[0].count("\n"), tree.files[path], flags=re.S)
        for number, line in enumerate(text.replace("\\\n", " ").split("\n"), 1):
            if INCLUDE_LINE.match(line):
                match = PLAIN_INCLUDE.match(line)
                name = (match[1] or match[2]) if match else line.strip().split("//")[0].strip()
                if not match or name.startswith(("./", "../", "/")) or "/./" in name or "/../" in name:
                    yield Violation("include_form", path, number, name,
                                    'write #include <path> or "path from the root"')


def file_kinds(tree: Tree) -> Iterator[Violation]:
    """Files that the rules for code would pass over."""
    for path in tree.files:
        if re.search(r"\.(cpp|cxx|c\+\+|cppm|ixx|hpp|hxx|hh|h\+\+|inc|inl|ipp|tcc|tpp)$", path):
            yield Violation("file_kind", path, 1, "", "code ends with .h, .cc or .c, so that the rules read it")


def include_arrows(tree: Tree) -> Iterator[Violation]:
    for path in tree.select():
        room = room_of(path)
        if path.startswith(ROOMED) and not room:
            yield Violation("no_room", path, 1, "", "ARROWS has no room for it: name the room and what it may reach")
        for line, header, quoted in tree.includes(path):
            if quoted and not is_generated(header) and header not in tree.files:
                yield Violation("include_path", path, line, header,
                                f'"{header}" is no path from the project\'s root; headers of others take <>')
        if room:
            yield from chains_beyond(tree, path, room)


def chains_beyond(tree: Tree, path: str, room: str) -> Iterator[Violation]:
    """The first header of every chain that the room must not reach. Headers of its own are judged by themselves."""
    def is_allowed(header):
        return header not in tree.files or header.startswith(ARROWS[room])
    for header, chain in tree.chains(path, lambda header: is_allowed(header) and room_of(header) != room).items():
        if not is_allowed(header):
            yield Violation("include_arrow", path, tree.line_of(path, chain[0]), header,
                            f"{room} must not reach {' -> '.join(chain)}")


def library_sources(tree: Tree, cmake: str, library: str) -> set:
    """Paths of the sources that a CMake file gives to a library; variables are those that it sets."""
    text = re.sub(r"#[^\n]*", "", tree.files.get(cmake, ""))
    variables = {name: words.split() for name, words in re.findall(r"\bset\(\s*(\w+)\s+([^)]*)\)", text)}
    sources = set()
    for words in re.findall(rf"\b(?:add_library|target_sources)\(\s*{library}\s+([^)]*)\)", text):
        for word in words.split():
            variable = re.fullmatch(r"\$\{(\w+)\}", word)
            sources.update(variables.get(variable[1], [word]) if variable else [word])
    keywords = {"STATIC", "OBJECT", "PRIVATE", "PUBLIC", "INTERFACE", "EXCLUDE_FROM_ALL"}
    return {posixpath.normpath(posixpath.join(posixpath.dirname(cmake), source)) for source in sources - keywords}


def pure_sources(tree: Tree) -> set:
    """The files of the pure rooms, and every source of the pure library in whatever room."""
    return set(tree.select(*PURE_ROOMS)) | library_sources(tree, PURE_CMAKE, PURE_LIBRARY)


def pure_coordinator(tree: Tree) -> Iterator[Violation]:
    if PURE_CMAKE in tree.files and not library_sources(tree, PURE_CMAKE, PURE_LIBRARY):
        yield Violation("pure_coordinator", PURE_CMAKE, 1, PURE_LIBRARY, f"no source of {PURE_LIBRARY} is found here")
    for path in sorted(pure_sources(tree)):
        if path not in tree.files:
            yield Violation("pure_coordinator", PURE_CMAKE, 1, path, f"{PURE_LIBRARY} has no file of this name: {path}")
            continue
        for header, chain in tree.chains(path).items():
            if header not in tree.files and header not in PURE_HEADERS and not NANOPB.match(header):
                yield Violation("pure_coordinator", path, tree.line_of(path, chain[0]), header,
                                f"a pure part of the server reaches {' -> '.join(chain)}")


def runtime_headers(tree: Tree) -> Iterator[Violation]:
    for path in tree.select():
        in_runtime = path.startswith("runtime/")
        is_codec = re.match(r"runtime/wire/codec\.(h|cc)$", path)
        is_product = path.startswith(("runtime/", "server/", "sim/", "firmware/", "include/", "boards/", HOST_ROOM))
        for line, header, quoted in tree.includes(path):
            if NANOPB.match(header):
                if is_product and not is_codec:
                    yield Violation("nanopb", path, line, header, "only runtime/wire/codec.* includes nanopb")
            elif in_runtime and MBEDTLS.match(header):
                if not re.match(r"runtime/link/tls\.(h|cc)$", path):
                    yield Violation("mbedtls", path, line, header, "only runtime/link/tls.* includes Mbed TLS")
            elif in_runtime and not quoted and header not in RUNTIME_HEADERS:
                yield Violation("runtime_header", path, line, header,
                                f"<{header}> is not among the standard headers of the runtime")


# ---- No heap, exceptions, RTTI on a device ----

DEVICE_WORDS = re.compile(
    r"\b(new|delete|malloc|calloc|realloc|free|throw|try|catch|dynamic_cast|typeid)\b|"
    r"\bstd::(vector|string|map|set|multimap|unordered_map|unordered_set|deque|list|function|any|variant|"
    r"unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|thread|mutex|cout|cerr|to_string)\b")
DEVICE_HEADERS = set(
    "vector string map set unordered_map unordered_set deque list forward_list queue stack memory functional any "
    "variant iostream sstream fstream iomanip thread mutex future regex filesystem stdexcept exception typeinfo "
    "memory_resource format locale".split())


def device_words(tree: Tree) -> Iterator[Violation]:
    for path in tree.select("runtime/", "firmware/", "include/", "boards/", HOST_ROOM):
        for number, line in enumerate(tree.stripped(path).split("\n"), 1):
            if line.lstrip().startswith("#"):
                continue
            for match in DEVICE_WORDS.finditer(re.sub(r"=\s*delete\b", "", line)):
                yield Violation("device_word", path, number, match[0], f"'{match[0]}' has no place on a device")
        for line, header, quoted in tree.includes(path):
            if not quoted and header in DEVICE_HEADERS:
                yield Violation("device_word", path, line, f"<{header}>", f"<{header}> has no place on a device")


# A compiler of C++20 may drop such a loop, and what follows it.
EMPTY_LOOP = re.compile(r"\b(for\s*\(\s*;\s*;\s*\)|while\s*\(\s*(true|1)\s*\))\s*\{\s*\}")


def empty_loops(tree: Tree) -> Iterator[Violation]:
    for path in tree.select("runtime/", "firmware/", "include/", "boards/", HOST_ROOM):
        text = tree.stripped(path)
        for match in EMPTY_LOOP.finditer(text):
            yield Violation("empty_loop", path, text.count("\n", 0, match.start()) + 1, "",
                            "a loop for ever without an effect is undefined: call halt() of boards/halt.h")


# ---- Size ----

def line_length(tree: Tree) -> Iterator[Violation]:
    for path, text in tree.files.items():
        if is_code(path):
            for number, line in enumerate(text.split("\n"), 1):
                if len(line) > LINE_LENGTH_MAX:
                    yield Violation("line_length", path, number, "", f"{len(line)} columns, at most {LINE_LENGTH_MAX}")


SCOPE_HEAD = re.compile(r'\b(namespace|class|struct|union|enum)\b|\bextern\s*""')
FUNCTION_TAIL = re.compile(r"\)\s*((const|noexcept|override|final|mutable|&|&&)\s*)*(->.*|requires\b.*)?$", re.S)
INITIALISER_TAIL = re.compile(r"\).*(?<!:):(?!:)(.*,)?\s*[\w:<>]+$", re.S)


def blank_preprocessor(text: str) -> str:
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.M)


def cpp_functions(stripped: str) -> Iterator[tuple]:
    """(name, first line, last line) of every function body outside other functions."""
    text = blank_preprocessor(stripped)
    kinds, head, line, head_line, parens = [], "", 1, 1, 0
    for char in text:
        inside = bool(kinds) and kinds[-1][0] != "scope"
        if char == "\n":
            line += 1
        if char == "{":
            kind = "nested" if inside or parens else classify_head(head.strip())
            kinds.append((kind, head, head_line, parens))
            parens = 0
            head = ""
        elif char == "}" and kinds:
            kind, opened_head, first, parens = kinds.pop()
            if kind == "function":
                names = re.findall(r"([~\w:]+)\s*\(", opened_head)
                yield (names[0] if names else "?", first, line)
            head = opened_head + "{}" if kind in ("initialiser", "nested") else ""
            head_line = first if head else line
        elif not inside and char == ";" and not parens:
            head = ""
        elif not inside:
            parens += {"(": 1, ")": -1}.get(char, 0)
            if not head.strip():
                head, head_line = "", line
            head += char


def classify_head(head: str) -> str:
    head = re.sub(r"\{\}$", "", head) if head.endswith("{}") and not INITIALISER_TAIL.search(head[:-2]) else head
    if re.search(r"\bconcept\b", head):
        return "initialiser"
    if SCOPE_HEAD.search(head) and not FUNCTION_TAIL.search(head):
        return "scope"
    if INITIALISER_TAIL.search(head):
        return "initialiser"
    return "function" if ")" in head else "initialiser"


def function_length(tree: Tree) -> Iterator[Violation]:
    for path in tree.files:
        for name, first, last in functions_of(tree, path):
            lines = last - first + 1
            if lines > FUNCTION_LINES_MAX:
                yield Violation("function_length", path, first, name,
                                f"{name} has {lines} lines, at most {FUNCTION_LINES_MAX}")


def functions_of(tree: Tree, path: str) -> list:
    if path.endswith(CPP):
        return list(cpp_functions(tree.stripped(path)))
    if path.endswith(".py"):
        return [(node.name, node.lineno, node.end_lineno) for node in ast.walk(ast.parse(tree.files[path], path))
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if path.endswith(".sh") or path == "run":
        text = tree.files[path]
        return [(m[1], text.count("\n", 0, m.start()) + 1, text.count("\n", 0, m.end()) + 1)
                for m in re.finditer(r"^(\w+)\(\) \{\n.*?^\}", text, re.M | re.S)]
    return []


# ---- Format ----

FORMAT_FILE = ".clang-format"
CLANG_FORMAT, CLANG_FORMAT_VERSION = "clang-format", 14


def clang_format_fault() -> str:
    """Why the formatter cannot judge: every major version formats in its own way."""
    try:
        text = subprocess.run([CLANG_FORMAT, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return f"version {CLANG_FORMAT_VERSION} of clang-format is needed, and none runs ({error}): run ./run setup"
    found = re.search(r"version (\d+)", text)
    if not found or int(found[1]) != CLANG_FORMAT_VERSION:
        return f"version {CLANG_FORMAT_VERSION} of clang-format is needed, this is: {text.strip()}"
    return ""


def formatted(tree: Tree) -> Iterator[Violation]:
    if FORMAT_FILE not in tree.files:
        yield Violation("format", FORMAT_FILE, 1, "", f"{FORMAT_FILE} is missing")
        return
    fault = clang_format_fault()
    if fault:
        yield Violation("format", FORMAT_FILE, 1, "clang-format", fault)
        return
    paths = tree.select()
    with tempfile.TemporaryDirectory() as root:
        for path in paths + [FORMAT_FILE]:
            os.makedirs(posixpath.dirname(posixpath.join(root, path)), exist_ok=True)
            with open(posixpath.join(root, path), "w", encoding="utf-8") as file:
                file.write(tree.files[path])
        count = os.cpu_count() or 1
        runs = [subprocess.Popen([CLANG_FORMAT, "--dry-run", "-Werror", *paths[first::count]], cwd=root, text=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for first in range(min(count, len(paths)))]
        for run in runs:
            said = run.communicate()[1]
            places = dict(reversed(re.findall(r"^([^:\n]+):(\d+):\d+: error", said, re.M)))  # the first of each file
            for path, line in places.items():
                yield Violation("format", path, int(line), "", f"{CLANG_FORMAT} -i {path} would change it")
            if run.returncode and not places:
                yield Violation("format", FORMAT_FILE, 1, "clang-format", f"it failed: {said.strip()}")


# ---- Arithmetic of which every replica has the same bits ----

NO_CONTRACTION = "runtime/base/no_contraction.h"


def no_contraction(tree: Tree) -> Iterator[Violation]:
    for path in tree.select("runtime/", "server/rules/", ends=(".cc", ".c")):
        directive = re.search(r"^[ \t]*#", tree.stripped(path), re.M)
        first = tree.stripped(path).count("\n", 0, directive.start()) + 1 if directive else 1
        if (first, NO_CONTRACTION, True) not in tree.includes(path):
            yield Violation("no_contraction", path, first, "", f'its first line of code: #include "{NO_CONTRACTION}"')


# ---- One name, one header ----

NAMING = ("runtime/", "server/", "sim/", "firmware/", "include/", "boards/", "experiments/", HOST_ROOM)
NAMESPACE_HEAD = re.compile(r'^(inline\s+)?namespace\b|^extern\s*""$')
TYPE_HEAD = re.compile(r"^(?:typedef\s+)?(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
                       r"(?:alignas\s*\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*(\w+)\s*(?:final\s*)?(?::(?!:).*)?$", re.S)
TEMPLATE_HEAD = re.compile(r"^template\s*<(?:[^<>]|<[^<>]*>)*>\s*(?:requires\s+[\w:]+(?:<[^<>]*>)?\s*)?")


def name_of_statement(head: str, is_block: bool) -> str:
    """The type, alias or constant that a statement at namespace scope defines, or ''; {} stands for its blocks."""
    head = TEMPLATE_HEAD.sub("", head)
    if is_block:
        match = TYPE_HEAD.match(head)
        return match[1] if match else ""
    if re.fullmatch(r"typedef\s+\w+\s+(\w+)\s+\1", head):
        return ""  # C's forward declaration
    for pattern in (r"using\s+(\w+)\s*=", r"typedef\b.*?(\w+)$", r"concept\s+(\w+)\s*=",
                    r"(?:(?:inline|static)\s+)*constexpr\b[^=({]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|\{\}|$)",
                    r"(?:(?:inline|static)\s+)*constexpr\b[^=({]*?\b(k[A-Z]\w*)\s*\("):
        match = re.match(pattern, head, re.S)
        if match:
            return match[1]
    return ""


def names_at_namespace_scope(stripped: str) -> Iterator[tuple]:
    """(name, line) of every class, struct, union, enum, alias, concept and constant that a header defines."""
    text = blank_preprocessor(stripped)
    depth, head, head_line, line = 0, "", 1, 1  # depth: of braces that are no namespace
    scopes = []
    for char in text:
        line += char == "\n"
        if char == "{":
            is_namespace = not depth and bool(NAMESPACE_HEAD.match(head.strip()))
            if not depth and not is_namespace:
                name = name_of_statement(head.strip(), True)
                if name:
                    yield name, head_line
            scopes.append(is_namespace)
            depth += not is_namespace
            head = "" if is_namespace else head
        elif char == "}" and scopes:
            is_namespace = scopes.pop()
            depth -= not is_namespace
            if not depth:
                is_over = is_namespace or classify_head(head.strip()) == "function"
                head = "" if is_over else head + "{}"
        elif not depth and char == ";":
            name = name_of_statement(head.strip(), False)
            if name:
                yield name, head_line
            head = ""
        elif not depth:
            if not head.strip():
                head, head_line = "", line
            head += char


def one_name(tree: Tree) -> Iterator[Violation]:
    """Each port has its own board_config.h by design: the build takes one of them, and they define the same names."""
    homes = {}
    for path in tree.select(*NAMING, ends=(".h",)):
        if path.startswith("boards/") and path.endswith("/board_config.h"):
            continue
        for name, line in names_at_namespace_scope(tree.stripped(path)):
            home = homes.setdefault(name, path)
            if home != path:
                yield Violation("one_name", path, line, name, f"{name} is defined in {home} already")


# ---- Nothing dead, nothing untested, nothing left over ----

def listed_in_cmake(tree: Tree) -> set:
    """Every path that a CMake file names: relative to its folder, to the root, or by gs_test's stem."""
    listed = set()
    for path, text in tree.files.items():
        if not path.endswith((".cmake", "CMakeLists.txt", "CMakePresets.json")):
            continue
        folder = posixpath.dirname(path)
        text = re.sub(r"#[^\n]*", "", text)
        for token in re.split(r'[\s()"]+', text):
            token = re.sub(r"^\$\{GS_TEST_SUPPORT\}/", "${}/tests/support/", token)
            token = re.sub(r"^\$\{\w*\}/", "", token)
            listed.update((posixpath.normpath(posixpath.join(folder, token)), posixpath.normpath(token)))
        for stem in re.findall(r"\bgs_test(?:_f64)?\(\s*(\w+)", text):
            listed.add(f"{folder}/{stem}_test.cc")
        for variable, stems in re.findall(r"\bforeach\(\s*(\w+)\s+([^)]*)\)", text):
            if re.search(rf"\bgs_test(?:_f64)?\(\s*\$\{{{variable}\}}", text):
                listed.update(f"{folder}/{stem}_test.cc" for stem in stems.split())
        for module in re.findall(r"\binclude\(\s*(\w+)\s*\)", text):
            listed.add(f"cmake/{module}.cmake")
    return listed


def dead_files(tree: Tree) -> Iterator[Violation]:
    included = {header for path in tree.select() for _, header, quoted in tree.includes(path) if quoted}
    listed = listed_in_cmake(tree)
    verbs = re.search(r"VERBS=\(([^)]*)\)", tree.files.get("run", "VERBS=()"))[1].split()
    for path in tree.select(ends=CODE):
        stem, name = posixpath.splitext(posixpath.basename(path))[0], posixpath.basename(path)
        alive = path in included or path in listed
        if path.endswith((".py", ".sh")):
            alive = alive or path in (f"tools/{stem}.py", f"tools/{stem}.sh") and stem in verbs
            module = posixpath.basename(posixpath.dirname(path)) if stem == "__init__" else stem
            use = rf"(?<!\w){re.escape(name)}|\bimport {module}\b|\bfrom (?:\w+\.)*{module} import\b"
            alive = alive or any(re.search(use, text) for other, text in tree.files.items()
                                 if other != path and module in text)
        elif path.endswith(".options"):
            alive = alive or path[:-len("options")] + "proto" in listed
        if not alive:
            yield Violation("dead_file", path, 1, "", "nobody includes it, lists it in CMake or calls it")


def stem_tests(tree: Tree) -> Iterator[Violation]:
    stems = {}
    for path in tree.select("runtime/", "server/", HOST_ROOM):
        stems.setdefault(posixpath.splitext(path)[0], path)
    for stem, path in stems.items():
        test = f"tests/{stem.split('/')[0]}/{posixpath.basename(stem)}_test.cc"
        if test not in tree.files:
            yield Violation("stem_test", path, 1, "", f"{test} is missing")


def leftovers(tree: Tree) -> Iterator[Violation]:
    words = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    for path, text in tree.files.items():
        for number, line in enumerate(text.split("\n"), 1):
            match = words.search(line)
            if match:
                yield Violation("leftover", path, number, match[0], f"'{match[0]}': do it or file it")


FILE_LINES_MAX, TEST_LINES_MAX = 700, 900  # a file of more lines is two files


def file_length(tree: Tree) -> Iterator[Violation]:
    for path in tree.select(ends=(".h", ".cc")):
        limit = TEST_LINES_MAX if path.startswith("tests/") else FILE_LINES_MAX
        lines = tree.files[path].count("\n")
        if lines > limit:
            yield Violation("file_length", path, 1, "", f"{lines} lines, at most {limit}")


MEMBERS_MAX = 30  # a type of more members is several: nobody holds the states of all of them in the head at once
MEMBERS_HEAD = re.compile(r"^( *)(?:struct|class) (?:alignas\([^)]*\) )?([\w:]+)[^;]*\{$")
NO_MEMBER = re.compile(r"(?:using|friend|static|return|typedef|enum|explicit|virtual|template|struct|class|~)\b|~")


def is_member(statement: str) -> bool:
    """Of a line at the indentation of a type's members: a variable of it, and no function."""
    head = re.split(r"[={]", re.sub(r"<.*>", "", statement))[0]
    return statement.endswith(";") and statement[0] not in "})" and not NO_MEMBER.match(statement) and "(" not in head


def member_count(tree: Tree) -> Iterator[Violation]:
    for path in tree.select(ends=(".h", ".cc")):
        lines = [line.rstrip() for line in tree.stripped(path).split("\n")]
        for first, line in enumerate(lines, 1):
            head = MEMBERS_HEAD.match(line)
            if head is None:
                continue
            indent, count = head[1] + "  ", 0
            for inner in lines[first:]:
                if inner.startswith(head[1] + "}"):
                    break
                is_own = inner.startswith(indent) and inner[len(indent):len(indent) + 1] not in ("", " ")
                count += is_own and is_member(inner[len(indent):])
            if count > MEMBERS_MAX:
                yield Violation("member_count", path, first, head[2], f"{count} members, at most {MEMBERS_MAX}")


ROW_ROOMS = ("server/journal/", "server/store/")  # where a column of a record may be named
RECORD_ROW = re.compile(r"\bJournalRow\b|\brow\(\)")


def journal_rows(tree: Tree) -> Iterator[Violation]:
    """A column of a record has several meanings; what reads one by its name alone takes another kind's for its own."""
    for path in tree.select("server/", "sim/", "bench/", "experiments/"):
        if not path.startswith(ROW_ROOMS):
            for number, line in enumerate(tree.stripped(path).split("\n"), 1):
                match = RECORD_ROW.search(line)
                if match:
                    yield Violation("journal_row", path, number, match[0],
                                    "only stores know the columns of a record; use the makers and readers of its kind")


# Rooms whose libraries have precompiled headers (gs_precompile), which the compiler reads whether a file includes them
# or not. Of each such header, the names that it alone stands for.
PRECOMPILED_ROOMS = ("server/", "sim/", "experiments/", "bench/", "host/")
HEADER_NAMES = {
    "algorithm": r"\bstd::(?:ranges::)?(?:sort|stable_sort|find_if|find|count_if|all_of|any_of|none_of|fill|copy|"
                 r"lower_bound|upper_bound|clamp|min_element|max_element|reverse|remove_if|equal|transform)\(",
    "cmath": r"\bstd::(?:sqrt|exp|log|log10|log2|pow|sin|cos|isfinite|isnan|floor|ceil|fabs|hypot|lround)\(",
    "cstdint": r"\bu?int(?:8|16|32|64)_t\b",
    "functional": r"\bstd::function\b",
    "limits": r"\bstd::numeric_limits\b",
    "map": r"\bstd::(?:multi)?map\b",
    "memory": r"\bstd::(?:make_(?:unique|shared)|(?:unique|shared|weak)_ptr)\b",
    "optional": r"\bstd::(?:optional|nullopt|make_optional)\b",
    "span": r"\bstd::span\b",
    "string": r"\bstd::(?:string|to_string)\b",
    "utility": r"\bstd::(?:move|pair|exchange|swap|as_const|make_pair|forward)\b",
    "vector": r"\bstd::vector\b",
    "nlohmann/json.hpp": r"\bnlohmann::",
    "server/base/asio_alias.h": r"\basio::",
    "Eigen/Core": r"\bEigen::",
}
# What includes them, the standard's own guarantees among it.
HEADER_PARENTS = {"string": ("filesystem", "iostream", "sstream", "fstream"), "Eigen/Core": ("Eigen/",)}


def hidden_includes(tree: Tree) -> Iterator[Violation]:
    """A header whose names a file uses, and that no include of it brings."""
    for path in tree.select(*PRECOMPILED_ROOMS, ends=(".h", ".cc")):
        reached = set(tree.chains(path)) | {path}
        for header, names in HEADER_NAMES.items():
            parents = HEADER_PARENTS.get(header, ())
            if header in reached or any(name.startswith(parents) for name in reached if parents):
                continue
            for number, line in enumerate(tree.stripped(path).split("\n"), 1):
                if re.search(names, line):
                    yield Violation("hidden_include", path, number, header,
                                    f"#include <{header}>: only a precompiled header brings it")
                    break


RULES = (include_forms, file_kinds, file_length, member_count, include_arrows, pure_coordinator, runtime_headers,
         device_words, empty_loops, line_length, function_length, formatted, no_contraction, one_name, journal_rows,
         hidden_includes, dead_files, stem_tests, leftovers)


# ---- Exceptions ----

def check(tree: Tree, rules: tuple = RULES) -> list:
    """Violations that no exception excuses, and exceptions that excuse nothing or give no reason."""
    found = [violation for rule in rules for violation in rule(tree)]
    excused, remaining = set(), []
    for number, line in enumerate(tree.files.get(ALLOW_FILE, "").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        entry, _, reason = line.partition(" # ")
        fields = entry.split()
        if len(fields) not in (2, 3) or not reason.strip():
            remaining.append(Violation("allow_list", ALLOW_FILE, number, "", "wanted: RULE PATH [ITEM] # reason"))
            continue
        matches = {v for v in found if fields[:2] == [v.rule, v.path] and fields[2:] in ([], [v.item])}
        if not matches:
            remaining.append(Violation("allow_list", ALLOW_FILE, number, entry.strip(), f"excuses nothing: {entry}"))
        excused |= matches
    return [v for v in found if v not in excused] + remaining


# ---- The checker's own test ----

EXACT = f'#include "{NO_CONTRACTION}"\n'
GOOD = {
    "CMakeLists.txt": "add_library(a runtime/base/a.cc runtime/wire/codec.cc server/coordinator/coordinator.cc "
                      "sim/sim.cc)\n",
    "tests/runtime/CMakeLists.txt": "gs_test(a gs_runtime)\ngs_test(codec)\ngs_test(no_contraction)\n",
    "tests/server/CMakeLists.txt": "gs_test(coordinator)\n",
    "runtime/base/a.h": "#include <cstdint>\n// new and try in a comment\n",
    "runtime/base/a.cc": '// #\n' + EXACT + '#include "runtime/base/a.h"\n'
                         'struct A { A(const A&) = delete; };\nconst char* text = "malloc";\n',
    "runtime/base/no_contraction.h": "",
    "runtime/wire/codec.cc": EXACT + '#include "proto/gradstream.pb.h"\n',
    "server/coordinator/coordinator.h": '#include "runtime/base/a.h"\n',
    "server/coordinator/coordinator.cc": '#include "server/coordinator/coordinator.h"\n',
    "sim/sim.cc": '#include "server/coordinator/coordinator.h"\n',
    "tests/runtime/a_test.cc": '#include "runtime/base/a.h"\n#include <vector>\n',
    "tests/runtime/codec_test.cc": "",
    "tests/runtime/no_contraction_test.cc": "",
    "tests/server/coordinator_test.cc": "",
}
FORMATTED = {
    FORMAT_FILE: "BasedOnStyle: Google\nIncludeCategories:\n  - {Regex: no_contraction, Priority: -1}\n"
                 "  - {Regex: ^<, Priority: 1}\n  - {Regex: ^, Priority: 2}\n",
    "runtime/wire/codec.cc": EXACT + '\n#include "proto/gradstream.pb.h"\n',
    "runtime/base/a.cc": EXACT + '\n#include "runtime/base/a.h"\nstruct A {\n  A(const A&) = delete;\n};\n'
                         'const char* text = "malloc";\n',
    "tests/runtime/a_test.cc": '#include "runtime/base/a.h"\n\n#include <vector>\n',
}
LONG_BODY = "  int a;\n" * 70
BASE_H = EXACT + '#include "runtime/base/a.h"\n'

# (rule, item, files to add or to replace)
PLANTED = [
    ("include_form", "../x/y.h", {"server/run/a.h": "#include <../x/y.h>\n"}),
    ("include_form", "server/../runtime/problem/p.h", {"server/run/a.h": "#include <server/../runtime/problem/p.h>\n"}),
    ("include_form", "#include NAME", {"server/run/a.h": "#include NAME\n"}),
    ("include_form", "#import <chrono>", {"server/run/a.h": "#import <chrono>\n"}),
    ("include_form", "%:include <chrono>", {"server/run/a.h": "%:include <chrono>\n"}),
    ("file_kind", "", {"server/run/a.inc": ""}),
    ("file_kind", "", {"runtime/base/a.cpp": ""}),
    ("file_length", "", {"server/run/long.h": "\n" * 701}),
    ("file_length", "", {"tests/server/long_test.cc": "\n" * 901}),
    ("member_count", "X", {"server/run/a.h": "struct X {\n" + "  int a = f();  // why\n" * 31 + "};\n"}),
    ("member_count", "Y", {"server/run/a.h": "struct X {\n  class Y final : public Z {\n    int f();\n   private:\n"
                                             + "    std::map<int, void()> a_;\n" * 31 + "  };\n};\n"}),
    ("no_room", "", {"server/loose.h": ""}),
    ("no_room", "", {"server/misc/loose.h": ""}),
    ("include_arrow", "server/base/log.h", {"server/coordinator/coordinator.cc": '#include "server/base/log.h"\n',
                                            "server/base/log.h": ""}),
    ("include_arrow", "server/base/notify.h", {"server/run/pace.h": '#include "server/base/notify.h"\n',
                                               "server/base/notify.h": ""}),
    ("include_arrow", "server/coordinator/coordinator.h",
     {"runtime/base/a.cc": BASE_H + '#include "server/coordinator/coordinator.h"\n'}),
    ("include_arrow", "runtime/link/x.h", {"runtime/training/y.h": '#include "runtime/link/x.h"\n',
                                           "runtime/link/x.h": ""}),
    ("include_arrow", "runtime/manifold/m.h", {"runtime/base/a.h": '#include "runtime/manifold/m.h"\n',
                                               "runtime/manifold/m.h": ""}),
    ("include_arrow", "runtime/problem/p.h", {"server/coordinator/coordinator.cc": '#include "runtime/problem/p.h"\n',
                                              "runtime/problem/p.h": ""}),
    ("include_arrow", "boards/posix/b.h", {"server/coordinator/coordinator.cc": '#include "boards/posix/b.h"\n',
                                           "boards/posix/b.h": ""}),
    ("include_arrow", "firmware/f.h", {"boards/posix/b.cc": '#include "firmware/f.h"\n', "firmware/f.h": ""}),
    ("include_arrow", "server/link/session.h", {"sim/sim.cc": '#include "server/link/session.h"\n',
                                           "server/link/session.h": "#include <asio.hpp>\n"}),
    ("include_arrow", "runtime/training/solver.h",
     {"server/coordinator/coordinator.cc": '#include "runtime/wire/codec.h"\n',
      "runtime/wire/codec.h": '#include "runtime/training/solver.h"\n',
      "runtime/training/solver.h": '#include "runtime/problem/p.h"\n', "runtime/problem/p.h": ""}),
    ("include_arrow", "runtime/problem/p.h",
     {"server/link/session.h": '#include "runtime/training/stream.h"\n',
      "runtime/training/stream.h": "#include <runtime/problem/p.h>\n", "runtime/problem/p.h": ""}),
    ("include_arrow", "server/base/log.h", {"boards/x/b.h": '#include "boards/x/c.h"\n', "server/base/log.h": "",
                                            "boards/x/c.h": '#include "server/base/log.h"\n'}),
    ("include_arrow", "server/base/log.h",
     {"boards/x/b.h": '#include "runtime/link/port.h"\n', "server/base/log.h": "",
      "runtime/link/port.h": '#include "runtime/base/a.h"\n', "runtime/base/a.h": '#include "server/base/log.h"\n'}),
    ("include_arrow", "boards/x/b.h", {"runtime/link/x.h": '#include "boards/x/b.h"\n', "boards/x/b.h": ""}),
    ("include_arrow", "firmware/f.h", {"runtime/problem/p.cc": '#include "runtime/training/y.h"\n',
                                       "runtime/training/y.h": '#include "firmware/f.h"\n', "firmware/f.h": ""}),
    ("include_arrow", "server/base/log.h",
     {"sim/sim.h": '#include "server/run/r.h"\n', "server/run/r.h": '#include "server/base/log.h"\n',
      "server/base/log.h": ""}),
    ("include_arrow", "server/store/s.h", {"sim/sim.h": '#include "server/store/s.h"\n', "server/store/s.h": ""}),
    ("include_arrow", "server/program/p.h", {"firmware/f.h": '#include "server/program/p.h"\n',
                                             "server/program/p.h": ""}),
    ("include_path", "a.h", {"runtime/base/a.cc": '#include "a.h"\n'}),
    ("pure_coordinator", "chrono", {"server/coordinator/coordinator.h": "#include <chrono>\n"}),
    ("pure_coordinator", "asio.hpp", {"server/rules/fold.cc": '#include "server/other.h"\n',
                                      "server/other.h": "#include <asio.hpp>\n"}),
    ("pure_coordinator", "sqlite3.h", {"server/journal/store.h": "#include <sqlite3.h>\n"}),
    ("pure_coordinator", "sys/time.h", {"server/journal/store.h": "#include <sys/time.h>\n"}),
    ("pure_coordinator", "fstream", {"server/base/f.cc": "#include <fstream>\n", PURE_CMAKE:
        "set(core\n  base/f.cc  # fields\n)\nadd_library(gs_coordinator STATIC ${core})\n"}),
    ("pure_coordinator", "ctime", {"server/base/f.cc": "#include <ctime>\n", PURE_CMAKE:
        "add_library(gs_coordinator STATIC run/r.cc)\ntarget_sources(gs_coordinator PRIVATE base/f.cc)\n"}),
    ("pure_coordinator", "server/base/gone.cc", {PURE_CMAKE: "add_library(gs_coordinator STATIC base/gone.cc)\n"}),
    ("pure_coordinator", "gs_coordinator", {PURE_CMAKE: "add_library(gs_core STATIC base/f.cc)\n"}),
    ("runtime_header", "cstdio", {"runtime/base/a.h": "#include <cstdio>\n"}),
    ("runtime_header", "Eigen/Core", {"runtime/base/a.h": "#include <Eigen/Core>\n"}),
    ("nanopb", "pb_decode.h", {"runtime/wire/frame.cc": "#include <pb_decode.h>\n"}),
    ("nanopb", "proto/gradstream.pb.h", {"server/coordinator/fleet.cc": '#include "proto/gradstream.pb.h"\n'}),
    ("journal_row", "JournalRow", {"server/coordinator/a.cc": "void f() { JournalRow row; }\n"}),
    ("journal_row", "row()", {"sim/a.cc": "int f() { return record.row().detail; }\n"}),
    ("hidden_include", "vector", {"server/run/a.h": "void f(std::vector<int> a);\n"}),
    ("hidden_include", "optional", {"host/a.h": "void f(std::optional<int> a);\n"}),
    ("hidden_include", "algorithm", {"sim/a.cc": "#include <vector>\nvoid f() { std::sort(a, b); }\n"}),
    ("mbedtls", "mbedtls/ssl.h", {"runtime/link/client.cc": "#include <mbedtls/ssl.h>\n"}),
    ("device_word", "new", {"runtime/base/a.cc": BASE_H + "int* p = new int;\n"}),
    ("device_word", "throw", {"firmware/f.cc": "void f() { throw 1; }\n"}),
    ("device_word", "std::function", {"boards/x/b.cc": "std::function<void()> f;\n"}),
    ("device_word", "<vector>", {"boards/x/b.cc": "#include <vector>\n"}),
    ("device_word", "dynamic_cast", {"runtime/base/a.cc": "/* free */ auto* p = dynamic_cast<A*>(q);\n"}),
    ("device_word", "delete", {"runtime/base/a.cc": "void f(int* p) { delete p; }\n"}),
    ("empty_loop", "", {"boards/x/b.cc": "void f() {\n  for (;;) {\n  }\n}\n"}),
    ("empty_loop", "", {"firmware/f.cc": "void f() { while (true) { /* ever */ } }\n"}),
    ("line_length", "", {"runtime/base/a.cc": "//" + "x" * 119 + "\n"}),
    ("line_length", "", {"tools/x.sh": "#" + "x" * 120 + "\n"}),
    ("function_length", "f", {"server/x.cc": "namespace a {\nint f(int b = {}) {\n" + LONG_BODY + "}\n}\n"}),
    ("function_length", "X::X", {"server/x.cc": "X::X(int a) : a_{a}, b_(1), c_{2} {\n" + LONG_BODY + "}\n"}),
    ("function_length", "g", {"server/x.h": "class X : public Y {\n  int a_{1};\n  void g() const {\n"
                                            + LONG_BODY + "  }\n};\n"}),
    ("function_length", "TEST", {"tests/runtime/a_test.cc": "TEST(A, B) {\n" + LONG_BODY + "}\n"}),
    ("function_length", "f", {"tools/x.py": "def f():\n" + "    a = 1\n" * 70}),
    ("function_length", "f", {"tools/x.sh": "f() {\n" + "  a\n" * 70 + "}\n"}),
    ("format", "", {"runtime/base/a.cc": BASE_H + "int  a;\n"}),
    ("format", "", {"tests/runtime/a_test.cc": '#include <vector>\n#include "runtime/base/a.h"\n'}),
    ("format", "", {"firmware/f.h": "struct A\n{\n};\n"}),
    ("no_contraction", "", {"runtime/base/a.cc": '#include "runtime/base/a.h"\n'}),
    ("no_contraction", "", {"runtime/base/a.cc": '#include "runtime/base/a.h"\n' + EXACT}),
    ("no_contraction", "", {"runtime/base/a.cc": "#if 0\n" + EXACT + "#endif\n"}),
    ("no_contraction", "", {"runtime/training/y.cc": "/*\n" + EXACT + "*/\n"}),
    ("no_contraction", "", {"server/rules/fold.cc": "int a;\n"}),
    ("one_name", "A", {"runtime/base/a.h": "namespace gradstream {\nclass A : B {};\n}\n",
                       "server/x.h": "namespace gradstream {\ninline int f() { return 1; }\nstruct A {};\n}\n"}),
    ("one_name", "A", {"runtime/base/a.h": "enum class A : uint8_t { kB };\n", "sim/x.h": "union A { int a; };\n"}),
    ("one_name", "A", {"runtime/base/a.h": "using A = int;\n",
                       "firmware/f.h": "template <typename T, int N>\nclass [[nodiscard]] A final : B<T> {\n};\n"}),
    ("one_name", "kA", {"runtime/base/a.h": "inline constexpr int kA = 1;\n",
                        "boards/x/b.h": "constexpr std::array<A, 2> kA[kB]{1};\n"}),
    ("one_name", "kA", {"runtime/base/a.h": "constexpr A kA(1);\n",
                        "experiments/x.h": "X::X() : a{1} {}\nstatic constexpr auto kA = f(1);\n"}),
    ("one_name", "gs_a", {"runtime/base/a.h": "typedef struct { int a; } gs_a;\n",
                          "firmware/f.h": 'extern "C" {\nstruct gs_a { int a; };\n}\n'}),
    ("one_name", "A", {"runtime/base/a.h": "template <typename T>\nconcept A = requires(T a) { a.f(); };\n",
                       "server/x.h": "namespace {\ntemplate <typename T>\n  requires B<T>\nstruct A {};\n}\n"}),
    ("dead_file", "", {"runtime/base/dead.h": ""}),
    ("dead_file", "", {"server/dead.cc": ""}),
    ("dead_file", "", {"tests/server/dead_test.cc": ""}),
    ("dead_file", "", {"tools/dead.py": ""}),
    ("dead_file", "", {"cmake/dead.cmake": ""}),
    ("stem_test", "", {"server/untested.cc": ""}),
    ("leftover", "TO" + "DO", {"docs/x.md": "TO" + "DO later\n"}),
    ("leftover", "FIX" + "ME", {"runtime/base/a.h": "// FIX" + "ME\n"}),
    ("allow_list", "", {ALLOW_FILE: "line_length runtime/base/a.cc\n"}),
    ("allow_list", "line_length runtime/base/a.cc", {ALLOW_FILE: "line_length runtime/base/a.cc # why\n"}),
]

NOT_PLANTED = [
    {},
    {"tests/runtime/CMakeLists.txt": "foreach(stem a codec\n    no_contraction)\n"
                                     "  gs_test(${stem} gs_runtime)\nendforeach()\n"},
    {"server/link/x.cc": "int f() {\n" + "  int a;\n" * 68 + "}\nint g() {\n" + "  int a;\n" * 68 + "}\n",
     "CMakeLists.txt": GOOD["CMakeLists.txt"] + "add_library(x server/link/x.cc)\n",
     "tests/server/x_test.cc": "",
     "tests/server/CMakeLists.txt": GOOD["tests/server/CMakeLists.txt"] + "gs_test(x)\n"},
    {"runtime/base/a.cc": BASE_H + "constexpr int kTable[] = {\n" + "  1,\n" * 100 + "};\n"},
    {"runtime/base/a.cc": BASE_H + "constexpr auto kMax = f(1,\n  2);\nconstexpr char c = '{';\nint n = 1'000'000;\n"},
    {"runtime/base/a.h": "namespace a {\nclass A {\n  struct State;\n  using B = int;\n"
                         "  static constexpr int kC = 1;\n};\n}\n",
     "tests/support/x.h": "struct A {};\n", "boards/x/board_config.h": "constexpr int kC = 1;\n",
     "boards/y/board_config.h": "constexpr int kC = 2;\n",
     "server/coordinator/coordinator.h":
         "class A;\nstruct A::State { int a; };\nenum class B : int;\ntemplate <>\nstruct C<A> {};\n"
         "using std::size_t;\ntypedef struct D D;\nconstexpr int f(int a) { return a; }\nextern const A kC;\n",
     "sim/sim.h": "struct B {};\nclass C {};\nstruct D {};\nconstexpr int f(char a) { return a; }\n",
     "sim/sim.cc": '#include "sim/sim.h"\n',
     "tests/runtime/a_test.cc": '#include "boards/x/board_config.h"\n#include "boards/y/board_config.h"\n'
                                '#include "tests/support/x.h"\n'},
    {"bench/b.cc": '#include "server/link/s.h"\n#include "runtime/problem/p.h"\n#include "firmware/f.h"\n',
     "experiments/b.cc": '#include "bench/b.cc"\n', "tests/runtime/a_test.cc": '#include "experiments/b.cc"\n',
     "server/link/s.h": "#include <asio.hpp>\n", "runtime/problem/p.h": "", "firmware/f.h": "",
     "tests/server/s_test.cc": "", "tests/runtime/p_test.cc": "",
     "tests/runtime/CMakeLists.txt": GOOD["tests/runtime/CMakeLists.txt"] + "gs_test(p)\n",
     "tests/server/CMakeLists.txt": GOOD["tests/server/CMakeLists.txt"] + "gs_test(s)\n"},
    {"runtime/base/a.cc": BASE_H + "//" + "x" * 119 + "\n",
     ALLOW_FILE: "# comment\nline_length runtime/base/a.cc # a line of a table\n"},
]


# One each in turn in every pure source of this tree.
IMPURE_HEADERS = ("chrono", "thread", "fstream", "mutex", "cstdio", "asio.hpp")


def missed_plants(tree: Tree) -> Iterator[str]:
    """Every impure include that stands in a pure source of the real tree and is not found."""
    for path in sorted(pure_sources(tree)):
        for header in IMPURE_HEADERS:
            planted = Tree({**tree.files, path: f"#include <{header}>\n" + tree.files[path]})
            if not any(v.path == path and v.item == header for v in pure_coordinator(planted)):
                yield f"not found: <{header}> planted in {path}"


def missed_formatters() -> Iterator[str]:
    """Every formatter that is none, fails or has another version, and is taken for a good one."""
    global CLANG_FORMAT
    usual = CLANG_FORMAT
    with tempfile.TemporaryDirectory() as folder:
        for name, script in (("missing", ""), ("other", "echo clang-format version 15.0.1"), ("failing", "exit 1"),
                             ("killed", '[ "$1" = --version ] || exit 1; echo clang-format version 14.0.6')):
            CLANG_FORMAT = posixpath.join(folder, name)
            if script:
                with open(CLANG_FORMAT, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(CLANG_FORMAT, 0o755)
            if not any(v.item == "clang-format" for v in check(Tree({**GOOD, **FORMATTED}), (formatted,))):
                yield f"not found: a formatter that is {name}"
    CLANG_FORMAT = usual
    if not list(formatted(Tree(GOOD))):
        yield f"not found: a tree without {FORMAT_FILE}"


def self_test() -> int:
    tree = Tree.read(ROOT)
    faults = [*missed_plants(tree), *missed_formatters()]
    for fault in faults:
        print(fault)
    failures = len(faults)
    print(f"{len(IMPURE_HEADERS)} impure headers planted in each of {len(pure_sources(tree))} pure sources, "
          f"{failures} missed")
    unformatted = tuple(rule for rule in RULES if rule is not formatted)  # what is planted looks as it likes
    for rule, item, files in PLANTED:
        if rule == "format":
            violations = check(Tree({**GOOD, **FORMATTED, **files}), (formatted,))
        else:
            violations = check(Tree({**GOOD, **files}), unformatted)
        if not any(v.rule == rule and v.item == item and v.path in files for v in violations):
            print(f"not found: {rule} '{item}' planted in {', '.join(files)}; found {violations}")
            failures += 1
    for files in NOT_PLANTED + [FORMATTED]:
        for violation in check(Tree({**GOOD, **files}), RULES if files is FORMATTED else unformatted):
            print(f"found in a clean tree: {violation}")
            failures += 1
    planted_rules = {rule for rule, _, _ in PLANTED}
    print(f"{len(PLANTED)} planted violations of {len(planted_rules)} rules, {len(NOT_PLANTED) + 1} clean trees, "
          f"{failures} failures")
    return 1 if failures else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print(f"unknown option {sys.argv[1]} (known: --self-test)", file=sys.stderr)
        return 2
    tree = Tree.read(ROOT)
    violations = check(tree)
    for v in sorted(violations, key=lambda v: (v.path, v.line)):
        print(f"{v.path}:{v.line}: [{v.rule}] {v.text}")
    print(f"{len(tree.files)} files, {len(violations)} violations; an exception goes into {ALLOW_FILE} with its reason")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
