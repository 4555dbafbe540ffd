"""Documents of the tree as a package holds them, for tools/package.py: no link of theirs leads out of its folder."""

import os.path
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ROOT / "docs"


def version():
    """Of gradstream."""
    return re.search(r"project\(gradstream VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="ascii"))[1]


def licences(*packages):
    """Texts of what a program has in it, since each asks to be in copies: libsodium, nanopb, and Debian's packages."""
    third_party, debian = ROOT / "third_party", pathlib.Path("/usr/share/doc")
    paths = [third_party / "libsodium" / "LICENSE", third_party / "nanopb" / "LICENSE.txt",
             *(debian / package / "copyright" for package in packages)]
    return b"".join(b"\n" + path.parent.name.encode() + b":\n\n" + path.read_bytes() for path in paths)


def path_in_package(path):
    """A document of docs/ keeps its folder below that one; any other stands at the top."""
    return path.relative_to(DOCUMENTS) if path.is_relative_to(DOCUMENTS) else pathlib.PurePath(path.name)


def gather(*patterns):
    """path in the package's folder -> its bytes, of the documents and pictures that the patterns name in the tree.

    A link from one to another stays one; a link to anything else of the tree becomes words that say where it is.
    Raises FileNotFoundError where a document links to what is not in the tree, or where a pattern names nothing.
    """
    held = {}
    for pattern in patterns:
        found = {path.resolve(): path_in_package(path) for path in sorted(ROOT.glob(pattern))}
        if not found:
            raise FileNotFoundError(f"no file of the tree is {pattern}")
        held |= found

    def address(document, target):
        path = (document.parent / target).resolve()
        return os.path.relpath(held[path], held[document].parent) if path in held else None

    def point(document, match):
        text, target, anchor = match.groups()
        within = address(document, target)
        if within:
            return f"[{text}]({within}{anchor or ''})"
        path = (document.parent / target).resolve()
        if not path.exists():
            raise FileNotFoundError(f"{document.relative_to(ROOT)} links to {target}, which is not there")
        name = str(path.relative_to(ROOT))
        return f"`{name}` of the sources" if text == name else f"{text} (`{name}` of the sources)"

    def prose(document, text):
        text = re.sub(r'src="(.*?)"', lambda match: f'src="{address(document, match[1])}"', text)
        return re.sub(r"\[([^\]]*)\]\((?!\w+:)([^)#]+)(#[^)]*)?\)", lambda match: point(document, match), text)

    def content(path):
        if path.suffix != ".md":
            return path.read_bytes()
        pieces = re.split(r"(?ms)(^ *```.*?^ *```$)", path.read_text(encoding="utf-8"))
        pieces[::2] = [prose(path, text) for text in pieces[::2]]  # code between them has no links
        return "".join(pieces).encode()

    return {str(name): content(path) for path, name in held.items()}
