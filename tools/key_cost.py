#!/usr/bin/env python3
"""Counts what a change of each group of a run's keys compiles anew: sources that reach its header, by their includes.

    tools/key_cost.py [GROUP]     a line a group; with GROUP, such as `fold`, its sources too

Exit status 1 when a group reaches SOURCES_MAX sources. A source that is compiled twice, in float and in double, counts
once.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES_MAX = 40  # sources. Reason: a new key must not cost more than two minutes of a small machine
FOLDERS = "bench boards experiments firmware host runtime server sim tests".split()
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def sources_of_headers():
    """{header: the sources that include it, through other headers too}."""
    includes = {str(path.relative_to(ROOT)): INCLUDE.findall(path.read_text())
                for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cc", ".c")}
    found = collections.defaultdict(set)
    for source in (path for path in includes if path.endswith((".cc", ".c"))):
        open_paths, seen = [source], {source}
        while open_paths:
            for header in includes[open_paths.pop()]:
                if header in includes and header not in seen:
                    seen.add(header)
                    open_paths.append(header)
                    found[header].add(source)
    return found


def main():
    sources = sources_of_headers()
    counts = []
    for path in sorted((ROOT / "server/run").glob("*_keys.h")):
        if "kTitle" not in path.read_text():
            continue  # visit_keys.h, which has all groups
        group, found = path.stem.removesuffix("_keys"), sources[str(path.relative_to(ROOT))]
        counts.append(len(found))
        print(f"group={group} sources={len(found)}")
        if group in sys.argv[1:]:
            print(*sorted(found), sep="\n")
    most = max(counts)
    print(f"result: groups={len(counts)} sources_most={most} sources_max={SOURCES_MAX}")
    return 1 if most >= SOURCES_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
