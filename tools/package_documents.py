"""Documents of the tree as a package holds them, for tools/package.py: in one folder, no link of theirs leads out."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def gather(*sources):
    """name in the folder -> its bytes, of documents and pictures (their paths in the tree).

    A link from one to another stays one; a link to anything else of the tree becomes words that say where it is.
    Raises FileNotFoundError where a document links to what is not in the tree.
    """
    held = [(ROOT / source).resolve() for source in sources]

    def point(document, match):
        text, target, anchor = match.groups()
        path = (document.parent / target).resolve()
        if path in held:
            return f"[{text}]({path.name}{anchor or ''})"
        if not path.exists():
            raise FileNotFoundError(f"{document.relative_to(ROOT)} links to {target}, which is not there")
        name = str(path.relative_to(ROOT))
        return f"`{name}` of the sources" if text == name else f"{text} (`{name}` of the sources)"

    def content(path):
        if path.suffix != ".md":
            return path.read_bytes()
        pieces = re.split(r"(?ms)(^ *```.*?^ *```$)", path.read_text(encoding="utf-8"))
        pieces[::2] = [re.sub(r"\[([^\]]*)\]\((?!\w+:)([^)#]+)(#[^)]*)?\)", lambda match: point(path, match), text)
                       for text in pieces[::2]]  # code between them has no links
        return "".join(pieces).encode()

    return {path.name: content(path) for path in held}
