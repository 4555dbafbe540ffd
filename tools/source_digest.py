#!/usr/bin/python3
"""A digest of the sources that an image of a board is made of, as a header: tools/source_digest.py FILE.

A report of a self-test carries it (docs/how-to/report.md). Two trees with the same digest have the same files in
FOLDERS. The header is written only where it changed.
"""

import hashlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("boards", "cmake", "firmware", "include", "proto", "runtime")
SUFFIXES = {".c", ".cc", ".cmake", ".h", ".ld", ".options", ".proto", ".txt"}
DIGIT_COUNT = 12  # enough to tell trees apart; nobody forges this one


def source_digest(root=ROOT):
    """Over names and contents, in the order of the names."""
    digest = hashlib.sha256()
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*")
             if path.suffix in SUFFIXES and path.is_file() and "reports" not in path.relative_to(root).parts]
    for path in sorted(paths, key=lambda path: path.relative_to(root).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:DIGIT_COUNT]


def main():
    header = pathlib.Path(sys.argv[1])
    text = f'// Made by tools/source_digest.py.\n#define GS_SOURCES_DIGEST "{source_digest()}"\n'
    if not header.exists() or header.read_text(encoding="ascii") != text:
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
