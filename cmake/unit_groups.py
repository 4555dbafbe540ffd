#!/usr/bin/python3
"""Which sources of a library the compiler may take as one file, so that it reads and instantiates their headers once.

    unit_groups.py SIZE FILE...    prints the groups, at most SIZE sources each: a|b;c|d
    unit_groups.py --self-test     plants what must stand alone or apart

What a source has for itself has a name that the others of its file do not use and their headers do not declare: they
would not compile, or would mean the first's. A source with a macro or with a weak symbol stands alone. What stands
alone is in no group.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

DECLARES = "#define|struct|class|union|enum class|enum|template .*> class|namespace"
ALONE = re.compile(r"^\s*#\s*(?:define|undef)\b|\[\[gnu::(?:weak|used)\]\]|^int main\(", re.M)


def reached(path: str, seen: dict) -> dict:
    """Contents of the file and of the project's headers that it reaches."""
    if path not in seen and os.path.isfile(os.path.join(ROOT, path)):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            seen[path] = file.read()
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', seen[path], re.M):
            reached(header, seen)
    return seen


def margin_names(lines) -> set:
    """What these lines declare, if they stand at the margin. A word too many costs little, one that is overlooked is an
    error that names it."""
    names = set()
    for line in lines:
        if match := re.match(rf"(?:{DECLARES}) (\w+)", line):
            names.add(match[1])
        elif re.match(r"(?!static_assert|__attribute__)\w", line):
            names.update(re.findall(r"\b([A-Za-z_]\w*)\s*$", re.split(r"[(={;\[]", line)[0]))
    return names - {"struct"}


def own_names(text: str) -> set:
    """Of what is unnamed, static or a macro: names that two units may both have, but not in one file."""
    own, is_inside = [], False
    for line in text.splitlines():
        if line in ("namespace {", "}  // namespace"):
            is_inside = line == "namespace {"
        elif is_inside or line.startswith(("static ", "#define ", "int main(")):
            own.append(line)
    return margin_names(own)


def used_names(text: str) -> set:
    """Words of the code that are no members: a name too many only costs a place in a file."""
    code = re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"', "", text)
    return set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", code))


def groups_of(texts: dict, size: int, declared: dict) -> list:
    """Lists of paths: each source in the first group that can take it. declared: path -> names of its headers."""
    groups = []  # (paths, their own names, all that they use)
    for path, text in texts.items():
        if ALONE.search(text):
            continue
        own, used = own_names(text), used_names(text) | declared.get(path, set())
        for paths, others_own, others_used in groups:
            if len(paths) < size and not others_own & used and not own & others_used:
                paths.append(path)
                others_own |= own
                others_used |= used
                break
        else:
            groups.append(([path], own, used))
    return [paths for paths, _, _ in groups if len(paths) > 1]


def self_test() -> int:
    def unit(name):
        return f"namespace {{\nint {name}() {{ return 1; }}\n}}  // namespace\n"

    cases = [
        ({"a": unit("f"), "b": unit("g"), "c": unit("h")}, {}, [["a", "b", "c"]]),
        ({"a": unit("f"), "b": unit("g"), "c": unit("h"), "d": unit("i")}, {}, [["a", "b", "c"]]),
        ({"a": unit("f"), "b": unit("f"), "c": unit("g"), "d": unit("h")}, {}, [["a", "c", "d"]]),
        ({"a": unit("f"), "b": "#define F 1\n" + unit("g"), "c": unit("h")}, {}, [["a", "c"]]),
        ({"a": unit("f"), "b": "[[gnu::weak]] void g();\n", "c": "int main() {}\n"}, {}, []),
        ({"a": "static int f;\n", "b": "static int f;\n"}, {}, []),
        ({"a": "int g() { return f(); }\n", "b": unit("f"), "c": "int h() { return f(); }\n"}, {}, [["a", "c"]]),
        ({"a": "int g() { return x.f; }  // f\n", "b": unit("f")}, {}, [["a", "b"]]),
        ({"a": unit("f"), "b": unit("g"), "c": unit("h")}, {"a": {"g"}}, [["a", "c"]]),
    ]
    faults = [(found, wanted) for texts, declared, wanted in cases
              if (found := groups_of(texts, 3, declared)) != wanted]
    print(f"{len(cases)} libraries, {len(faults)} faults", *faults, sep="\n")
    return 1 if faults else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    texts, declared, margins = {}, {}, {}
    for path in sys.argv[2:]:
        files = reached(path, {})
        texts[path] = files.pop(path)
        for header, text in files.items():
            if header not in margins:
                margins[header] = margin_names(text.splitlines())
        declared[path] = set().union(*(margins[header] for header in files))
    print(";".join("|".join(paths) for paths in groups_of(texts, int(sys.argv[1]), declared)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
