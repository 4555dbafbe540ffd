#!/usr/bin/python3
"""House rules: reads the project's files and fails on any that breaks a rule of the design.

    house_rules_test.py               check the tree that this file stands in
    house_rules_test.py --self-test   plant one violation of each kind and demand that it is found

Exceptions stand in house_rules_allow.txt, each with its reason; one that excuses nothing is itself a violation.
A rule is a function from a Tree to violations; RULES at the end lists them.
"""

import ast
import os
import posixpath
import re
import sys
from typing import Iterator, NamedTuple

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

    def includes(self, path: str) -> list:
        """(line, header, is_quoted) of every include."""
        found = []
        for number, line in enumerate(self.files[path].split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if match:
                found.append((number, match[2], match[1] == '"'))
        return found


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
SHARED_TRAINING = ("runtime/training/curve.h", "runtime/training/encoding.h", "runtime/training/secant.h",
                   "runtime/training/stream.h", "runtime/training/task.h")
SERVER_MAY = (BASE, MANIFOLD, *SHARED_TRAINING, WIRE)

# What a room may include of the project: prefixes of paths. Rooms that are not named may include everything.
ARROWS = {
    BASE: (BASE,),
    MANIFOLD: (BASE, MANIFOLD),
    PROBLEM: (BASE, MANIFOLD, PROBLEM),
    TRAINING: (BASE, MANIFOLD, PROBLEM, TRAINING),
    WIRE: (BASE, MANIFOLD, *SHARED_TRAINING, WIRE),
    LINK: (BASE, MANIFOLD, PROBLEM, TRAINING, WIRE, LINK),
    # The client's side of a handshake, as devices link it.
    "server/program/doctor": SERVER_MAY + ("server/", "runtime/link/tls.h", "runtime/link/transport.h"),
    "server/base/": (BASE, "server/base/"),
    "server/run/": SERVER_MAY + ("server/base/", "server/run/"),
    "server/rules/": SERVER_MAY + ("server/run/", "server/rules/"),
    "server/journal/": (BASE, "server/journal/"),
    "server/coordinator/": SERVER_MAY + ("server/base/", "server/run/", "server/rules/", "server/journal/",
                                         "server/coordinator/"),
    "server/store/": SERVER_MAY + ("server/base/", "server/journal/", "server/store/"),
    "server/link/": SERVER_MAY + ("server/base/", "server/link/"),
    "server/watch/": SERVER_MAY + ("server/base/", "server/coordinator/", "server/link/shell_counters.h",
                                   "server/watch/"),
    "server/program/": SERVER_MAY + ("server/",),
    "sim/": ("runtime/", "sim/"),  # and the pure part of server/, see PURE_STEMS
    "boards/": (BASE, "runtime/link/port.h", "runtime/link/transport.h", "boards/"),
    "firmware/": ("runtime/", "boards/", "firmware/"),
}

# The coordinator and its neighbours: no sockets, disk, threads or clock, whatever they include.
PURE_STEMS = re.compile(r"server/(run|rules|journal|coordinator)/\w+\.(h|cc)$")
IMPURE_HEADER = re.compile(
    r"(asio|spdlog|mbedtls|psa|sys|netinet|arpa)(/|\.hpp)|sqlite3\.h|(unistd|fcntl|time|pthread|poll)\.h|"
    r"(thread|chrono|filesystem|fstream|iostream|mutex|shared_mutex|condition_variable|future|random|ctime|cstdio|"
    r"stop_token|semaphore|latch|barrier)$")

RUNTIME_HEADERS = set(
    "algorithm array bit cfloat climits cmath compare concepts cstddef cstdint cstring initializer_list iterator "
    "limits numbers numeric optional span string_view tuple type_traits utility version "
    "stdbool.h stddef.h stdint.h".split())
NANOPB = re.compile(r"pb(_\w+)?\.h$|.*\.pb\.h$")
MBEDTLS = re.compile(r"(mbedtls|psa)/")


def is_generated(header: str) -> bool:
    return header.startswith("proto/") and header.endswith(".pb.h")


def room_of(path: str) -> str:
    return next((room for room in ARROWS if path.startswith(room)), "")


def reach_impure(tree: Tree, path: str, seen: set) -> str:
    """The chain of includes from path to an impure header, or ''."""
    seen.add(path)
    for _, header, quoted in tree.includes(path):
        if IMPURE_HEADER.match(header):
            return header
        if quoted and header in tree.files and header not in seen:
            chain = reach_impure(tree, header, seen)
            if chain:
                return f"{header} -> {chain}"
    return ""


def include_arrows(tree: Tree) -> Iterator[Violation]:
    for path in tree.select():
        room = room_of(path)
        for line, header, quoted in tree.includes(path):
            if not quoted or is_generated(header):
                continue
            if header not in tree.files:
                yield Violation("include_path", path, line, header,
                                f'"{header}" is no path from the project\'s root; headers of others take <>')
                continue
            if not room or header.startswith(ARROWS[room]):
                continue
            if room == "sim/" and header.startswith("server/") and not reach_impure(tree, header, set()):
                continue
            yield Violation("include_arrow", path, line, header, f"{room} must not include {header}")


def pure_coordinator(tree: Tree) -> Iterator[Violation]:
    for path in tree.select("server/"):
        if PURE_STEMS.match(path):
            chain = reach_impure(tree, path, set())
            if chain:
                yield Violation("pure_coordinator", path, 1, chain.split(" -> ")[-1],
                                f"a pure part of the server reaches {chain}")


def runtime_headers(tree: Tree) -> Iterator[Violation]:
    for path in tree.select():
        in_runtime = path.startswith("runtime/")
        is_codec = re.match(r"runtime/wire/codec\.(h|cc)$", path)
        is_product = path.startswith(("runtime/", "server/", "sim/", "firmware/", "boards/"))
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
    for path in tree.select("runtime/", "firmware/", "boards/"):
        for number, line in enumerate(tree.stripped(path).split("\n"), 1):
            if line.lstrip().startswith("#"):
                continue
            for match in DEVICE_WORDS.finditer(re.sub(r"=\s*delete\b", "", line)):
                yield Violation("device_word", path, number, match[0], f"'{match[0]}' has no place on a device")
        for line, header, quoted in tree.includes(path):
            if not quoted and header in DEVICE_HEADERS:
                yield Violation("device_word", path, line, f"<{header}>", f"<{header}> has no place on a device")


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
            alive = alive or any(re.search(rf"(?<!\w){re.escape(name)}|\bimport {stem}\b|\bfrom {stem} import\b", text)
                                 for other, text in tree.files.items() if other != path)
        elif path.endswith(".options"):
            alive = alive or path[:-len("options")] + "proto" in listed
        if not alive:
            yield Violation("dead_file", path, 1, "", "nobody includes it, lists it in CMake or calls it")


def stem_tests(tree: Tree) -> Iterator[Violation]:
    stems = {}
    for path in tree.select("runtime/", "server/"):
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


RULES = (include_arrows, pure_coordinator, runtime_headers, device_words, line_length, function_length, dead_files,
         stem_tests, leftovers)


# ---- Exceptions ----

def check(tree: Tree) -> list:
    """Violations that no exception excuses, and exceptions that excuse nothing or give no reason."""
    found = [violation for rule in RULES for violation in rule(tree)]
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

GOOD = {
    "CMakeLists.txt": "add_library(a runtime/base/a.cc runtime/wire/codec.cc server/coordinator/coordinator.cc "
                      "sim/sim.cc)\n",
    "tests/runtime/CMakeLists.txt": "gs_test(a gs_runtime)\ngs_test(codec)\n",
    "tests/server/CMakeLists.txt": "gs_test(coordinator)\n",
    "runtime/base/a.h": "#include <cstdint>\n// new and try in a comment\n",
    "runtime/base/a.cc": '#include "runtime/base/a.h"\nstruct A { A(const A&) = delete; };\n'
                         'const char* text = "malloc";\n',
    "runtime/wire/codec.cc": '#include "proto/gradstream.pb.h"\n',
    "server/coordinator/coordinator.h": '#include "runtime/base/a.h"\n',
    "server/coordinator/coordinator.cc": '#include "server/coordinator/coordinator.h"\n',
    "sim/sim.cc": '#include "server/coordinator/coordinator.h"\n',
    "tests/runtime/a_test.cc": '#include "runtime/base/a.h"\n#include <vector>\n',
    "tests/runtime/codec_test.cc": "",
    "tests/server/coordinator_test.cc": "",
}
LONG_BODY = "  int a;\n" * 70
BASE_H = '#include "runtime/base/a.h"\n'

# (rule, item, files to add or to replace)
PLANTED = [
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
    ("include_path", "a.h", {"runtime/base/a.cc": '#include "a.h"\n'}),
    ("pure_coordinator", "chrono", {"server/coordinator/coordinator.h": "#include <chrono>\n"}),
    ("pure_coordinator", "asio.hpp", {"server/rules/fold.cc": '#include "server/other.h"\n',
                                      "server/other.h": "#include <asio.hpp>\n"}),
    ("pure_coordinator", "sqlite3.h", {"server/journal/store.h": "#include <sqlite3.h>\n"}),
    ("runtime_header", "cstdio", {"runtime/base/a.h": "#include <cstdio>\n"}),
    ("runtime_header", "Eigen/Core", {"runtime/base/a.h": "#include <Eigen/Core>\n"}),
    ("nanopb", "pb_decode.h", {"runtime/wire/frame.cc": "#include <pb_decode.h>\n"}),
    ("nanopb", "proto/gradstream.pb.h", {"server/coordinator/fleet.cc": '#include "proto/gradstream.pb.h"\n'}),
    ("mbedtls", "mbedtls/ssl.h", {"runtime/link/client.cc": "#include <mbedtls/ssl.h>\n"}),
    ("device_word", "new", {"runtime/base/a.cc": BASE_H + "int* p = new int;\n"}),
    ("device_word", "throw", {"firmware/f.cc": "void f() { throw 1; }\n"}),
    ("device_word", "std::function", {"boards/x/b.cc": "std::function<void()> f;\n"}),
    ("device_word", "<vector>", {"boards/x/b.cc": "#include <vector>\n"}),
    ("device_word", "dynamic_cast", {"runtime/base/a.cc": "/* free */ auto* p = dynamic_cast<A*>(q);\n"}),
    ("device_word", "delete", {"runtime/base/a.cc": "void f(int* p) { delete p; }\n"}),
    ("line_length", "", {"runtime/base/a.cc": "//" + "x" * 119 + "\n"}),
    ("line_length", "", {"tools/x.sh": "#" + "x" * 120 + "\n"}),
    ("function_length", "f", {"server/x.cc": "namespace a {\nint f(int b = {}) {\n" + LONG_BODY + "}\n}\n"}),
    ("function_length", "X::X", {"server/x.cc": "X::X(int a) : a_{a}, b_(1), c_{2} {\n" + LONG_BODY + "}\n"}),
    ("function_length", "g", {"server/x.h": "class X : public Y {\n  int a_{1};\n  void g() const {\n"
                                            + LONG_BODY + "  }\n};\n"}),
    ("function_length", "TEST", {"tests/runtime/a_test.cc": "TEST(A, B) {\n" + LONG_BODY + "}\n"}),
    ("function_length", "f", {"tools/x.py": "def f():\n" + "    a = 1\n" * 70}),
    ("function_length", "f", {"tools/x.sh": "f() {\n" + "  a\n" * 70 + "}\n"}),
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
    {"tests/runtime/CMakeLists.txt": "foreach(stem a\n    codec)\n  gs_test(${stem} gs_runtime)\nendforeach()\n"},
    {"server/x.cc": "int f() {\n" + "  int a;\n" * 68 + "}\nint g() {\n" + "  int a;\n" * 68 + "}\n",
     "CMakeLists.txt": GOOD["CMakeLists.txt"] + "add_library(x server/x.cc)\n",
     "tests/server/x_test.cc": "",
     "tests/server/CMakeLists.txt": GOOD["tests/server/CMakeLists.txt"] + "gs_test(x)\n"},
    {"runtime/base/a.cc": BASE_H + "constexpr int kTable[] = {\n" + "  1,\n" * 100 + "};\n"},
    {"runtime/base/a.cc": BASE_H + "constexpr auto kMax = f(1,\n  2);\nconstexpr char c = '{';\nint n = 1'000'000;\n"},
    {"runtime/base/a.cc": BASE_H + "//" + "x" * 119 + "\n",
     ALLOW_FILE: "# comment\nline_length runtime/base/a.cc # a line of a table\n"},
]


def self_test() -> int:
    failures = 0
    for rule, item, files in PLANTED:
        violations = check(Tree({**GOOD, **files}))
        if not any(v.rule == rule and v.item == item and v.path in files for v in violations):
            print(f"not found: {rule} '{item}' planted in {', '.join(files)}; found {violations}")
            failures += 1
    for files in NOT_PLANTED:
        for violation in check(Tree({**GOOD, **files})):
            print(f"found in a clean tree: {violation}")
            failures += 1
    planted_rules = {rule for rule, _, _ in PLANTED}
    print(f"{len(PLANTED)} planted violations of {len(planted_rules)} rules, {len(NOT_PLANTED)} clean trees, "
          f"{failures} failures")
    return 1 if failures else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        print(f"unknown option {sys.argv[1]} (known: --self-test)", file=sys.stderr)
        return 2
    tree = Tree.read(posixpath.dirname(posixpath.dirname(posixpath.abspath(__file__))))
    violations = check(tree)
    for v in sorted(violations, key=lambda v: (v.path, v.line)):
        print(f"{v.path}:{v.line}: [{v.rule}] {v.text}")
    print(f"{len(tree.files)} files, {len(violations)} violations; an exception goes into {ALLOW_FILE} with its reason")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
