#!/usr/bin/python3
"""Prose does not get worse: measures the sentences of documents and comments, file by file.

    prose_test.py                            check the tree that this file stands in
    prose_test.py --self-test                plant one violation of each kind and demand that it is found
    prose_test.py --record                   take what became better into the list; refused if anything became worse
    prose_test.py --record --moved OLD NEW   the same, after a file moved; a folder's name ends with '/'
    prose_test.py --show PATH                print a file's figures and its longest sentences

Figures of a file: the mean, the 90th percentile and the longest of its sentences in words, and the longest line of a
Markdown file in characters. Tables, code blocks and the addresses of links are left out; inline code is one word.
A file keeps to LIMITS. The files that do not, yet, stand in prose_list.txt beside this file, with the figures that
they must not exceed. A figure there that the file no longer needs is itself a violation, so the list only shrinks.
Without a list, --record writes one of the whole tree.
"""

import ast
import itertools
import math
import os
import posixpath
import re
import sys
from typing import Iterator, NamedTuple, Optional

SKIPPED_FOLDERS = {".git", "build", "third_party", "__pycache__"}
ROOT_MARK = "CMakePresets.json"
LIST_NAME = "prose_list.txt"
LIST_HEAD = """\
# Files whose prose exceeds the limits of prose_test.py, and the figures that they must not exceed.
# PATH, then words a sentence: MEAN P90 MAX, then characters a line of Markdown: LINE_MAX; '-' keeps to the limit.
# `python3 tests/prose_test.py --record` takes improvements in; nothing adds a line or raises a figure but an editor.
"""

SLASH_COMMENTS = (".h", ".cc", ".c", ".proto")
HASH_COMMENTS = (".sh", ".cmake", "CMakeLists.txt")
PROGRAMS = ("run", ".ci/run")

FEW_SENTENCES = 10  # below, mean and percentile say nothing


class Figures(NamedTuple):
    """None: not measured, or (in the list) within the limit."""
    mean: Optional[float]
    p90: Optional[int]
    max: Optional[int]
    line_max: Optional[int]


LIMITS = Figures(18.0, 30, 45, 160)
SLACK = Figures(0.5, 1, 2, 10)  # by so much the list may be worse than the file before it must be tightened
UNITS = Figures("words a sentence on average", "words a sentence at p90", "words in a sentence", "characters in a line")


class Sentence(NamedTuple):
    line: int
    words: int
    text: str


class Violation(NamedTuple):
    kind: str  # a figure's name, "tighten", "gone" or "list"
    path: str
    line: int
    text: str


# ---- Reading ----


def is_measured(path: str) -> bool:
    return path.endswith((".md", ".py") + SLASH_COMMENTS + HASH_COMMENTS) or path in PROGRAMS


def read_tree(root: str) -> dict:
    """The files that are measured: path from the root -> content."""
    files = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        for name in sorted(names):
            path = posixpath.relpath(posixpath.join(folder, name), root)
            if is_measured(path):
                with open(posixpath.join(folder, name), encoding="utf-8") as file:
                    files[path] = file.read()
    return files


# ---- Sentences of a piece of text ----

INLINE_CODE = re.compile(r"(`+)(.+?)\1", re.S)
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)\s]*(?:\s+\"[^\"]*\")?\)|\[[^\]]*\])")
ADDRESS = re.compile(r"<?\bhttps?://[^\s<>]*[^\s<>.,;:!?)\"']>?")
WORD = re.compile(r"\S*?[^\W_]\S*")  # a token with a letter or a figure
TAG = re.compile(r"</?(?:a|b|br|code|details|div|i|img|kbd|p|source|picture|sub|summary|sup)\b[^<>]*>")
SENTENCE_END = re.compile(r"[.!?]+[)\]\"'*_”’]*(?=\s)")
NEVER_AN_END = {"e.g.", "i.e.", "cf.", "vs.", "fig.", "eq.", "sec.", "ch.", "dr."}
SELDOM_AN_END = {"etc.", "al.", "approx.", "ca.", "incl.", "max.", "min.", "no.", "p.", "pp.", "resp.", "vol."}


def newlines_of(text: str) -> str:
    return "\n" * text.count("\n")


def without_marks(text: str) -> str:
    """Each inline code is one word, a link is its text, an address is nothing; every word keeps its line."""
    text = INLINE_CODE.sub(lambda m: "`" + re.sub(r"\s+", "_", m[2].strip()) + "`" + newlines_of(m[2]), text)
    text = LINK.sub(lambda m: m[1] + newlines_of(m[0][len(m[1]):]), text)
    text = ADDRESS.sub("", text)
    return TAG.sub(lambda m: newlines_of(m[0]), text)


def is_end(text: str, match) -> bool:
    """Whether the full stop ends a sentence, and not an abbreviation."""
    word = text[:match.end()].split()[-1].lstrip("([\"'*_“‘").rstrip(")]\"'*_”’").lower()
    following = text[match.end():].lstrip()[:1]
    if word in NEVER_AN_END:
        return False
    if word in SELDOM_AN_END or word.endswith(".."):
        return following.isupper()
    return True


def count_words(text: str) -> int:
    return len(WORD.findall(text))


def sentences_of(first_line: int, text: str) -> Iterator[Sentence]:
    text = without_marks(text)
    ends = [match.end() for match in SENTENCE_END.finditer(text) if is_end(text, match)]
    for start, end in itertools.pairwise([0] + ends + [len(text)]):
        words = count_words(text[start:end])
        if words:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            yield Sentence(first_line + text.count("\n", 0, start), words, " ".join(text[start:end].split()))


# ---- Pieces: text that belongs together, as (first line, text) ----

BULLET = re.compile(r"\s*(?:[-*+•]|\(?\d{1,2}[.)]|\([a-z]\))\s+(?=\S)")


class Pieces:
    """Gathers lines that follow each other; end() closes a piece."""

    def __init__(self):
        self.done = []
        self._lines = []
        self._first = 0

    def add(self, number: int, text: str) -> None:
        if not self._lines:
            self._first = number
        self._lines.append(text)

    def end(self) -> None:
        if self._lines:
            self.done.append((self._first, "\n".join(self._lines)))
            self._lines = []

    @property
    def is_open(self) -> bool:
        return bool(self._lines)


# ---- Markdown ----

FENCE = re.compile(r"\s*(?:>\s*)*(```+|~~~+)")
TABLE_ROW = re.compile(r"\s*(?:>\s*)*\|")
NO_SENTENCE = re.compile(r"\s*(?:#{1,6}\s|[-=*_]{3,}\s*$|\[[^\]]+\]:\s)")


def markdown_lines(text: str) -> Iterator[tuple]:
    """(number, line) outside of code blocks, tables and HTML comments; these are blank lines here."""
    text = re.sub(r"<!--.*?-->", lambda m: newlines_of(m[0]), text, flags=re.S)
    fence, in_list, after_blank = "", False, True
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        is_code = bool(fence) or bool(match)
        if match and (not fence or match[1].startswith(fence)):
            fence = "" if fence else match[1]
        if BULLET.match(line):
            in_list = True
        elif line.strip() and not line.startswith((" ", "\t")) and after_blank:
            in_list = False
        if line.startswith(("    ", "\t")) and after_blank and not in_list:
            is_code = True
        elif not is_code:
            after_blank = not line.strip()
        yield number, "" if is_code or TABLE_ROW.match(line) else line


def markdown_pieces(text: str) -> list:
    pieces = Pieces()
    for number, line in markdown_lines(text):
        if not line.strip() or NO_SENTENCE.match(line):
            pieces.end()
            continue
        line = re.sub(r"^\s*(?:>\s?)+", "", line)
        if BULLET.match(line):
            pieces.end()
            line = BULLET.sub("", line, count=1)
        pieces.add(number, line)
        if line.endswith("  "):
            pieces.end()
    pieces.end()
    return pieces.done


def longest_line(text: str) -> tuple:
    """(characters, number) of the longest line of Markdown, the addresses of links left out."""
    lengths = [(0, 1)]
    for number, line in markdown_lines(text):
        line = re.sub(r"\]\([^)\s]*(?:\s+\"[^\"]*\")?\)", "]", line)
        lengths.append((len(ADDRESS.sub("", line).rstrip()), number))
    return max(lengths, key=lambda length: length[0])


# ---- Comments ----


class CommentLine(NamedTuple):
    number: int
    column: int  # where the comment starts in its line
    has_code: bool  # before it in the same line
    text: str  # with its indentation inside of the comment


CPP_TOKENS = re.compile(
    r'(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|R"(\w*)\(.*?\)\3"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)
PYTHON_TOKENS = re.compile(
    r"(?P<line>\#[^\n]*)|(?P<block>(?!))|"
    r'"""(?:\\.|[^\\])*?"""|' r"'''(?:\\.|[^\\])*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'", re.S)
SHELL_TOKENS = re.compile(
    r"(?P<line>(?<![^\s])\#[^\n]*)|(?P<block>(?!))|\\.|" r'"(?:\\.|[^"\\])*"|' r"'[^']*'", re.S)
INLINE_BLOCK = re.compile(r"/\*(\s*[\w.:]*\s*=\s*|\w*)\*/$")  # names an argument
TO_TOOLS = re.compile(r"\s*(NOLINT|clang-format |namespace\b|extern \"C\"|pylint:|noqa|SPDX-|IWYU|!/|-\*-|shellcheck )")
RULER = re.compile(r"\s*[-=~*#/]{3,}")
ALIGNED = re.compile(r"[^\s.:!?]\s{2,}\S|\S\s{3,}\S")
WRAPPED_COLUMNS = 90  # a shorter line of a table or an indented block ended on purpose


def comment_lines(text: str, tokens: re.Pattern) -> Iterator[CommentLine]:
    number, counted = 1, 0
    for match in tokens.finditer(text):
        if match["line"] is None and match["block"] is None:
            continue
        number += text.count("\n", counted, match.start())
        counted = match.start()
        line_start = text.rfind("\n", 0, counted) + 1
        column, has_code = counted - line_start, bool(text[line_start:counted].strip())
        if match["line"] is not None:
            yield CommentLine(number, column, has_code, re.sub(r"^(//[/!]*<?|#+)", "", match[0]))
        elif not INLINE_BLOCK.match(match[0]):
            for index, line in enumerate(match[0][2:-2].split("\n")):
                yield CommentLine(number + index, column, has_code and not index, re.sub(r"^\s*\*+", "", line))


def comment_blocks(lines: Iterator[CommentLine]) -> Iterator[list]:
    """Lines one below the other in one column; what stands behind code begins a block."""
    block = []
    for line in lines:
        below = block and line.number == block[-1].number + 1 and line.column == block[-1].column
        if block and (line.has_code or not below):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def block_pieces(block: list) -> list:
    """Pieces of one comment or docstring, given as CommentLines."""
    pieces = Pieces()
    indents = [len(line.text) - len(line.text.lstrip()) for line in block if line.text.strip()]
    base = min(indents, default=0)
    in_block, row_indent, is_row, before = False, None, False, ""
    for line in block:
        text = line.text.rstrip()
        indent = len(text) - len(text.lstrip())
        if not text.strip() or RULER.match(text) or TO_TOOLS.match(text):
            pieces.end()
            in_block, row_indent = indent > base and in_block, None
            continue
        is_short = line.column + len(before) < WRAPPED_COLUMNS
        opens = before.endswith(":") or not pieces.is_open
        was_block, in_block = in_block, indent >= base + 2 and (in_block or opens)
        if BULLET.match(text):
            pieces.end()
            in_block, row_indent, is_row = False, indent, False
            text = BULLET.sub("", text, count=1)
        elif ALIGNED.search(text.strip()):
            pieces.end()
            row_indent, is_row = indent, True
        elif row_indent is not None and indent > row_indent:
            if is_row and is_short:
                pieces.end()  # else the last cell, or the point of a list, goes on
        elif row_indent is not None or was_block and not in_block or in_block and is_short:
            pieces.end()
            row_indent = None
        pieces.add(line.number, text.strip())
        before = text
    pieces.end()
    return pieces.done


def statement_lists(node: ast.AST) -> Iterator[tuple]:
    """(node, its statements), and those of the blocks in it."""
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        statements = getattr(node, block, None)
        if isinstance(statements, list):
            if block == "body":
                yield node, statements
            for statement in statements:
                yield from statement_lists(statement)


def docstrings(text: str, path: str) -> Iterator[list]:
    for node, statements in statement_lists(ast.parse(text, path)):
        if statements and isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = getattr(statements[0], "value", None) if isinstance(statements[0], ast.Expr) else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                lines = first.value.expandtabs().split("\n")
                indent = min((len(x) - len(x.lstrip()) for x in lines[1:] if x.strip()), default=0)
                lines = [lines[0].strip()] + [x[indent:] for x in lines[1:]]
                yield [CommentLine(first.lineno + i, indent, False, x) for i, x in enumerate(lines)]


def pieces_of(path: str, text: str) -> list:
    if path.endswith(".md"):
        return markdown_pieces(text)
    tokens = CPP_TOKENS if path.endswith(SLASH_COMMENTS) else PYTHON_TOKENS if path.endswith(".py") else SHELL_TOKENS
    blocks = list(comment_blocks(comment_lines(text, tokens)))
    if path.endswith(".py"):
        blocks += docstrings(text, path)
    return [piece for block in blocks for piece in block_pieces(block)]


# ---- Figures ----


class Measured(NamedTuple):
    figures: Figures
    sentences: list  # longest first
    longest_line: int  # its number


def measure(path: str, text: str) -> Measured:
    sentences = [s for first, piece in pieces_of(path, text) for s in sentences_of(first, piece)]
    sentences.sort(key=lambda s: (-s.words, s.line))
    counts = [s.words for s in reversed(sentences)]
    line_max, line = longest_line(text) if path.endswith(".md") else (None, 1)
    mean = p90 = None
    if len(counts) >= FEW_SENTENCES:
        mean, p90 = round(sum(counts) / len(counts), 1), counts[math.ceil(0.9 * len(counts)) - 1]
    return Measured(Figures(mean, p90, counts[-1] if counts else None, line_max), sentences, line)


def above_limits(figures: Figures) -> Figures:
    """What the list must say of such a file: its figures beyond the limits."""
    return Figures(*(f if f is not None and f > limit else None for f, limit in zip(figures, LIMITS)))


# ---- The list ----


def format_list(entries: dict) -> str:
    lines = [" ".join([path] + ["-" if f is None else str(f) for f in entry]) for path, entry in entries.items()]
    return LIST_HEAD + "".join(line + "\n" for line in sorted(lines, key=lambda line: line.split()[0]))


def parse_list(text: str) -> tuple:
    """(entries, violations); each line is checked for its form and its place."""
    entries, violations, last = {}, [], ""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) (-|\d+\.\d) (-|\d+) (-|\d+) (-|\d+)", line)
        if not match or match[1] <= last:
            wanted = "PATH MEAN P90 MAX LINE_MAX, '-' for none; sorted by path, each path once"
            violations.append(Violation("list", LIST_NAME, number, f"wanted: {wanted}"))
            continue
        last = match[1]
        figures = [None if f == "-" else float(f) if "." in f else int(f) for f in match.groups()[1:]]
        entries[last] = Figures(*figures)
    return entries, violations


def worse_figures(path: str, measured: Measured, entry: Optional[Figures]) -> Iterator[Violation]:
    """A violation for each figure that exceeds its bound: the entry's, or the limit where the entry has none."""
    longest = measured.sentences[0] if measured.sentences else None
    listed_figures = entry or (None,) * len(LIMITS)
    for name, figure, limit, listed, unit in zip(Figures._fields, measured.figures, LIMITS, listed_figures, UNITS):
        bound = limit if listed is None else max(listed, limit)
        if figure is None or figure <= bound:
            continue
        text = f"{figure} {unit}, at most {bound}"
        if name == "line_max":
            yield Violation(name, path, measured.longest_line, text)
        else:
            text += f"; the longest here has {longest.words}: {excerpt(longest)}"
            yield Violation(name, path, longest.line, text)


def is_loose(measured: Figures, entry: Figures) -> bool:
    """Whether the entry allows more than the file needs, by more than the slack."""
    wanted = above_limits(measured)
    return any(listed is not None and (need is None or listed > need + slack)
               for listed, need, slack in zip(entry, wanted, SLACK))


def excerpt(sentence: Sentence) -> str:
    words = sentence.text.split()
    return " ".join(words) if len(words) <= 12 else " ".join(words[:10]) + " ..."


def check(files: dict, list_text: str) -> list:
    entries, violations = parse_list(list_text)
    for path, text in files.items():
        measured, entry = measure(path, text), entries.get(path)
        violations += worse_figures(path, measured, entry)
        if entry is not None and is_loose(measured.figures, entry):
            violations.append(Violation("tighten", path, 1, "became better than its entry; take it into the list with "
                                        "`prose_test.py --record`"))
    for path in entries.keys() - files.keys():
        violations.append(Violation("gone", path, 1, "is no file of the tree; after a move say "
                                    f"`prose_test.py --record --moved {path} NEW`, else `prose_test.py --record`"))
    return violations


def moved(path: str, moves: list) -> str:
    for old, new in moves:
        if path == old or old.endswith("/") and path.startswith(old):
            path = new + path[len(old):]
    return path


def record(files: dict, list_text: Optional[str], moves: list) -> tuple:
    """(the new list, what was refused). With a list, only what is better than it is taken."""
    if list_text is None:
        entries = {path: above_limits(measure(path, text).figures) for path, text in files.items()}
        return format_list({path: entry for path, entry in entries.items() if any(entry)}), []
    old, refused = parse_list(list_text)
    old = {moved(path, moves): entry for path, entry in old.items()}
    entries = {}
    for path, text in files.items():
        measured, entry = measure(path, text), old.get(path)
        refused += worse_figures(path, measured, entry)
        if entry is not None:
            needed = above_limits(measured.figures)
            kept = Figures(*(None if a is None or b is None else min(a, b) for a, b in zip(entry, needed)))
            if any(kept):
                entries[path] = kept
    return format_list(entries), refused


# ---- The checker's own test ----


def words(count: int, end: str = ".") -> str:
    return "Word" + " word" * (count - 1) + end


SHORT = " ".join([words(8)] * 12)  # a dozen sentences of eight words
MEAN_20 = " ".join([words(20)] * 12)

# (path, text, words of its sentences in order)
SENTENCES = [
    ("a.md", "One two three. Four five.\n", [3, 2]),
    ("a.md", "Say it, e.g. so, or i.e. so. See Fig. 3 (cf. p. 4), min. 5, no. 6, etc. Two more.\n", [7, 11, 2]),
    ("a.md", "Version 1.2.3 of a.h has 2.5 bytes in main.cc. And so on... it goes on.\n", [9, 6]),
    ("a.md", "Is it? Yes! (It is so.) \"Well.\" **Bold.** End\n", [2, 1, 3, 1, 1, 1]),
    ("a.md", "`a b. c d` is one word, ``x ` y`` too. `a.` is. It is `a`. So\n", [6, 2, 3, 1]),
    ("a.md", "`code over\ntwo lines` is one. Next here.\n", [3, 2]),
    ("a.md", "A [link of four words](https://example.org/a.b?c=d) here. See https://example.org/x. End.\n", [6, 1, 1]),
    ("a.md", "# A heading. Of two\n\nText\n----\n\n<!-- a note. -->\nLast <b class=\"x\">line</b> with <s, t>\n",
     [1, 5]),
    ("a.md", "Before\n| a | b. c |\n|---|---|\nafter\n\n```c\nint a. b\n```\n~~~\nx\n```\ny\n~~~\nend\n", [1, 1, 1]),
    ("a.md", "Before:\n\n    code of. mine\n\n- one\n  goes on\n\n      two of it\n- three\n1. four five\n",
     [1, 3, 3, 1, 2]),
    ("a.md", "> quoted text\n> goes on\n\nhard break  \nnext\n", [4, 2, 1]),
    ("a.cc", "// One two\n// three. Four\n//\n// five\nint a;\n// six\n", [3, 1, 1, 1]),
    ("a.cc", "int a;  // one\nint b;  // two\n        // goes on\n// three\n", [1, 3, 1]),
    ("a.cc", 'auto s = "// no"; auto r = R"(// no)"; char c = \'"\'; f(/*name=*/1); // 1\'000 yes\n', [2]),
    ("a.cc", "/* One two\n * three. */\n/** Four. */\nint a; /* five */\n", [3, 1, 1]),
    ("a.cc", "// ---- A heading ----\n// - one\n//   two\n// - three\n// 1. four\n// * five\n", [2, 1, 1, 1]),
    ("a.cc", "// Layout:\n//   four bytes magic\n//   then more\n// And text\n// goes on\n", [1, 3, 2, 4]),
    ("a.cc", "// Layout:\n//   " + words(20, "") + "\n//   goes on\n", [1, 22]),
    ("a.cc", f"// Codes\n// kOk     {words(20, '')}\n//         well\n// kBad    not\n//         so\n// Then text\n",
     [1, 22, 2, 1, 2]),
    ("a.cc", "}  // namespace gs\nint a;  // NOLINT(x)\n#endif  // two words\n", [2]),
    ("a.h", "/// One.\n//! Two.\n//< Three.\n", [1, 1, 1]),
    ("a.proto", "// One two.\n", [2]),
    ("a.py", '#!/usr/bin/python3\n"""One two.\n\n    a.py        usage of it\n    a.py --b    other\n\nThree.\n"""\n'
             's = "# no"\nt = """# no"""\n# four\n# five\ndef f():\n    """Six."""\n    return 1  # seven\n',
     [2, 1, 2, 4, 3, 1, 1]),
    ("a.py", "class A:\n    if b:\n        pass\n    else:\n        def f():\n            '''One.'''\n"
             "            '''no docstring'''\n        x = '''no, neither'''\n", [1]),
    ("a.sh", "#!/bin/bash\n# One two\n# three\nx=${y#z}; echo $# 'a # b' \"c # d\" # four\n", [3, 1]),
    ("a.cmake", "# One\nset(a \"# no\") # two\n", [1, 1]),
    ("b/CMakeLists.txt", "# One\n", [1]),
    ("run", "#!/bin/bash\n# One two\n", [2]),
]

GOOD = {"docs/a.md": f"# Title\n\n{SHORT[:150]}\n", "server/b.cc": f"// {words(45)}\n// {SHORT}\n",
        "server/old.cc": f"// {words(60)}\n// {SHORT}\n"}
GOOD_LIST = "# a comment\nserver/old.cc - - 60 -\n"

# (kind, path, files to add or to replace, the list)
PLANTED = [
    ("max", "docs/a.md", {"docs/a.md": words(46)}, GOOD_LIST),
    ("max", "docs/a.md", {"docs/a.md": f"- {words(46)}"}, GOOD_LIST),
    ("max", "server/b.cc", {"server/b.cc": f"// {words(40, '')}\n// {words(6)}\n"}, GOOD_LIST),
    ("max", "server/b.h", {"server/b.h": f"int a;  // {words(46)}\n"}, GOOD_LIST),
    ("max", "server/b.c", {"server/b.c": f"/* {words(46)} */\n"}, GOOD_LIST),
    ("max", "tools/a.py", {"tools/a.py": f'"""{words(46)}"""\n'}, GOOD_LIST),
    ("max", "tools/a.py", {"tools/a.py": f"def f():\n    '''x\n    {words(46)}'''\n"}, GOOD_LIST),
    ("max", "tools/a.py", {"tools/a.py": f"x = '#'  # {words(46)}\n"}, GOOD_LIST),
    ("max", "tools/a.sh", {"tools/a.sh": f"# {words(46)}\n"}, GOOD_LIST),
    ("max", "cmake/a.cmake", {"cmake/a.cmake": f"# {words(46)}\n"}, GOOD_LIST),
    ("max", "a/CMakeLists.txt", {"a/CMakeLists.txt": f"# {words(46)}\n"}, GOOD_LIST),
    ("max", "run", {"run": f"# {words(46)}\n"}, GOOD_LIST),
    ("max", "server/old.cc", {"server/old.cc": f"// {words(61)}\n// {SHORT}\n"}, GOOD_LIST),
    ("max", "server/new.cc", {"server/new.cc": f"// {words(60)}\n"}, GOOD_LIST),
    ("mean", "docs/a.md", {"docs/a.md": MEAN_20}, GOOD_LIST),
    ("mean", "server/b.cc", {"server/b.cc": f"// {MEAN_20}\n"}, GOOD_LIST),
    ("mean", "server/old.cc", {"server/old.cc": f"// {words(60)} {MEAN_20}\n"}, GOOD_LIST),
    ("mean", "server/old.cc", {"server/old.cc": f"// {MEAN_20}\n"}, "server/old.cc 19.9 - - -\n"),
    ("p90", "docs/a.md", {"docs/a.md": f"{SHORT} {words(31)} {words(31)}"}, GOOD_LIST),
    ("p90", "server/old.cc", {"server/old.cc": f"// {SHORT} {words(33)} {words(33)}"}, "server/old.cc - 32 - -\n"),
    ("line_max", "docs/a.md", {"docs/a.md": "x" * 161}, GOOD_LIST),
    ("line_max", "docs/a.md", {"docs/a.md": "x" * 180}, "docs/a.md - - - 179\n" + GOOD_LIST),
    ("tighten", "server/old.cc", {"server/old.cc": f"// {words(57)}\n// {SHORT}\n"}, GOOD_LIST),
    ("tighten", "server/old.cc", {"server/old.cc": f"// {words(45)}\n// {SHORT}\n"}, GOOD_LIST),
    ("tighten", "server/old.cc", {"server/old.cc": "int a;\n"}, GOOD_LIST),
    ("tighten", "server/old.cc", {"server/old.cc": f"// {MEAN_20}\n"}, "server/old.cc 20.6 - - -\n"),
    ("tighten", "server/old.cc", {}, "server/old.cc 18.5 - 60 -\n"),
    ("tighten", "docs/a.md", {"docs/a.md": "x" * 180}, "docs/a.md - - - 191\n" + GOOD_LIST),
    ("gone", "server/moved.cc", {}, "server/moved.cc - - 60 -\n" + GOOD_LIST),
    ("list", LIST_NAME, {}, "server/old.cc - - 60\n"),
    ("list", LIST_NAME, {}, "server/old.cc - - many -\n"),
    ("list", LIST_NAME, {}, GOOD_LIST + "server/b.cc - - 50 -\n"),
    ("list", LIST_NAME, {}, GOOD_LIST + "server/old.cc - - 60 -\n"),
]

NOT_PLANTED = [
    ({}, GOOD_LIST),
    ({"server/old.cc": f"// {words(58)}\n// {SHORT}\n"}, GOOD_LIST),
    ({"server/old.cc": f"// {MEAN_20}\n"}, "server/old.cc 20.5 - - -\n"),
    ({"docs/a.md": " ".join([words(30)] * (FEW_SENTENCES - 1)).replace(". ", ".\n")}, GOOD_LIST),
    ({"docs/a.md": "| " + "x " * 200 + "|\n\n```\n" + "x " * 200 + "\n```\n[a](https://x.org/" + "x" * 200 + ")\n"},
     GOOD_LIST),
    ({"docs/a.md": f"See [a](docs/{'x' * 160}.md) and https://x.org/{'x' * 160}.\n"}, GOOD_LIST),
    ({"server/b.cc": f"// {words(30)}\n//\n// {words(30)}\n// - {words(30)}\n// - {words(30)}\nint a;\n"}, GOOD_LIST),
    ({"server/b.cc": f'const char* a = "{words(60)}";\n'}, GOOD_LIST),
]

# (files, list or None, moves, lines of the new list, number of refusals)
RECORDED = [
    (GOOD, None, [], ["server/old.cc - - 60 -"], 0),
    (GOOD, GOOD_LIST, [], ["server/old.cc - - 60 -"], 0),
    ({**GOOD, "server/old.cc": f"// {words(59)}\n// {SHORT}\n"}, GOOD_LIST, [], ["server/old.cc - - 59 -"], 0),
    ({**GOOD, "server/old.cc": f"// {words(61)}\n// {SHORT}\n"}, GOOD_LIST, [], ["server/old.cc - - 60 -"], 1),
    ({**GOOD, "server/new.cc": f"// {words(61)}\n"}, GOOD_LIST, [], ["server/old.cc - - 60 -"], 1),
    ({**GOOD, "server/old.cc": f"// {SHORT}\n"}, GOOD_LIST, [], [], 0),
    ({"server/new.cc": GOOD["server/old.cc"]}, GOOD_LIST, [("server/old.cc", "server/new.cc")],
     ["server/new.cc - - 60 -"], 0),
    ({"server/run/old.cc": GOOD["server/old.cc"]}, GOOD_LIST, [("server/", "server/run/")],
     ["server/run/old.cc - - 60 -"], 0),
    ({"server/new.cc": GOOD["server/old.cc"]}, GOOD_LIST, [], [], 1),
    ({"docs/a.md": " ".join([words(50)] * 12)}, None, [], ["docs/a.md 50.0 50 50 3011"], 0),
]


def self_test() -> int:
    failures = []
    for path, text, wanted in SENTENCES:
        found = [s.words for first, piece in pieces_of(path, text) for s in sentences_of(first, piece)]
        if found != wanted:
            failures.append(f"{path} {text!r}: wanted {wanted}, found {found}")
    for kind, path, files, list_text in PLANTED:
        violations = check({**GOOD, **files}, list_text)
        if not any(v.kind == kind and v.path == path for v in violations):
            failures.append(f"not found: {kind} planted in {path}; found {violations}")
    for files, list_text in NOT_PLANTED:
        failures += [f"found in a clean tree: {v}" for v in check({**GOOD, **files}, list_text)]
    for files, list_text, moves, wanted, refusals in RECORDED:
        text, refused = record(files, list_text, moves)
        lines = [line for line in text.split("\n") if line and not line.startswith("#")]
        if lines != wanted or len(refused) != refusals:
            failures.append(f"recorded {lines}, refused {refused}; wanted {wanted} and {refusals}")
        if not refusals and check(files, text):
            failures.append(f"the recorded list does not fit its tree: {check(files, text)}")
    print("\n".join(failures), end="\n" if failures else "")
    print(f"{len(SENTENCES)} texts, {len(PLANTED)} planted violations of {len({kind for kind, *_ in PLANTED})} kinds, "
          f"{len(NOT_PLANTED)} clean trees, {len(RECORDED)} lists, {len(failures)} failures")
    return 1 if failures else 0


# ---- The command line ----


def find_root() -> str:
    folder = posixpath.dirname(posixpath.abspath(__file__))
    while not posixpath.exists(posixpath.join(folder, ROOT_MARK)):
        folder = posixpath.dirname(folder)
    return folder


def show(files: dict, path: str) -> int:
    measured = measure(path, files[path])
    print(path, *("-" if f is None else f for f in measured.figures))
    for sentence in measured.sentences[:20]:
        print(f"{path}:{sentence.line}: {sentence.words}: {sentence.text}")
    return 0


def print_violations(violations: list) -> None:
    for v in sorted(violations, key=lambda v: (v.path, v.line)):
        print(f"{v.path}:{v.line}: [{v.kind}] {v.text}")


def main() -> int:
    args = sys.argv[1:]
    if args == ["--self-test"]:
        return self_test()
    files = read_tree(find_root())
    list_path = posixpath.join(posixpath.dirname(posixpath.abspath(__file__)), LIST_NAME)
    list_text = None
    if posixpath.exists(list_path):
        with open(list_path, encoding="utf-8") as file:
            list_text = file.read()
    if len(args) == 2 and args[0] == "--show" and args[1] in files:
        return show(files, args[1])
    if args[:1] == ["--record"] and all(arg == "--moved" for arg in args[1::3]) and len(args) % 3 == 1:
        text, refused = record(files, list_text, list(zip(args[2::3], args[3::3])))
        print_violations(refused)
        if refused:
            print(f"{len(refused)} figures are worse than the list allows; {LIST_NAME} stays as it was")
            return 1
        with open(list_path, "w", encoding="utf-8") as file:
            file.write(text)
        print(f"{text.count(chr(10)) - LIST_HEAD.count(chr(10))} entries in {LIST_NAME}")
        return 0
    if args:
        print(__doc__, file=sys.stderr)
        return 2
    violations = check(files, list_text or "")
    print_violations(violations)
    print(f"{len(files)} files, {len(violations)} violations; limits: mean {LIMITS.mean} words, p90 {LIMITS.p90}, "
          f"max {LIMITS.max}, {LIMITS.line_max} characters a line of Markdown")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
