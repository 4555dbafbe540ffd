#!/usr/bin/python3
"""Puts several tests into one file for the compiler, which then reads and instantiates their headers once.

    group_tests.py --plain FILE...   prints those of the tests that may stand in one file with others
    group_tests.py OUT FILE...       writes them into OUT
    group_tests.py --self-test       plants what must stand alone

A plain test keeps all that is its own in one unnamed namespace. In OUT each of these gets a namespace around it, named
after the file, so that two tests may use one name. Lines keep the number and the file that they have in the test. What
a test defines elsewhere, a function of C or a macro say, would be there for all the others: it stands alone.
"""

import os
import re
import sys

OPENS, CLOSES = "namespace {", "}  // namespace"
# Outside of the unnamed namespace.
HARMLESS = re.compile(
    r'#include [<"]|namespace gradstream \{$|\}  // namespace gradstream$|using (?:namespace )?[\w:]+;$')


def why_alone(text: str) -> str:
    """The line that keeps a test from a file with others, or ''."""
    lines = re.sub(r"//(?! namespace).*", "", text).split("\n")
    lines = [line.rstrip() for line in lines]
    if lines.count(OPENS) != 1 or lines.count(CLOSES) != 1:
        return f"not one '{OPENS}' and one '{CLOSES}'"
    first, last = lines.index(OPENS), lines.index(CLOSES)
    outside = [line for line in lines[:first] + lines[last + 1:] if line and not HARMLESS.match(line)]
    macros = [line for line in lines if re.match(r"\s*#\s*(?:define|undef|pragma)", line)]
    return (outside + macros + [""])[0]


def with_namespace(path: str, text: str) -> str:
    # GoogleTest's names begin with capitals. A header of another test may declare gradstream::testing.
    text = re.sub(r"(?<![\w:])testing::(?=[A-Z]|internal)", "::testing::", text)
    name = "in_" + re.sub(r"\W", "_", os.path.basename(path))
    lines = [{OPENS: f"namespace {name} {{ {OPENS}", CLOSES: "}" + CLOSES}.get(line, line) for line in text.split("\n")]
    return "\n".join([f'#line 1 "{path}"', *lines])


PLAIN = ('#include "a.h"\n\nnamespace gradstream {\nnamespace {\nTEST(A, B) {}\n}  // namespace\n'
         "}  // namespace gradstream\n")
ALONE = ("#define A 1\n" + PLAIN, PLAIN.replace("TEST", "#define A\nTEST"), PLAIN + "int a;\n", PLAIN + PLAIN,
         PLAIN.replace("namespace {\n", 'extern "C" int f() {}\nnamespace {\n'), "TEST(A, B) {}\n",
         "using A = int;\n" + PLAIN)


def self_test() -> int:
    faults = [text for text in ALONE if not why_alone(text)] + [why_alone(PLAIN)] * bool(why_alone(PLAIN))
    lines = with_namespace("/x/a_test.cc", PLAIN).split("\n")
    if lines[0] != '#line 1 "/x/a_test.cc"' or lines[5] != "TEST(A, B) {}" or len(lines) != PLAIN.count("\n") + 2 or \
            lines[4] != "namespace in_a_test_cc { namespace {" or lines[6] != "}}  // namespace":
        faults.append("\n".join(lines))
    print(f"{len(ALONE)} tests that stand alone, {len(faults)} faults", *faults, sep="\n")
    return 1 if faults else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    out, paths = sys.argv[1], sys.argv[2:]
    texts = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            texts[path] = file.read()
    alone = {path: why_alone(text) for path, text in texts.items()}
    if out == "--plain":
        print(";".join(path for path in paths if not alone[path]))
        return 0
    for path in filter(alone.get, paths):
        print(f"{path}: '{alone[path]}' stands outside of its unnamed namespace, so the test may not share a file; "
              "run cmake for this build once more, and it stands alone", file=sys.stderr)
    if any(alone.values()):
        return 1
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(with_namespace(path, text) for path, text in texts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
