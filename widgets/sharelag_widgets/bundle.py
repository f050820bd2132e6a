"""Concatenate JavaScript modules, because anywidget takes only one.

anywidget loads a view's module from a blob, where `import "./shared/dom.js"` does not resolve. The
files stay plain modules with plain imports, for node's test runner; here the imports between them
are removed, and every file appears once, before those that use it. They share one scope, so a name
may be declared once. Comments and indents are removed, also from style sheets, because a saved
notebook contains the result once per view.

A browser keeps every module as long as the page is open, and each view adds one, also when its cell
runs again. So the code is in a function that only the first of equal modules calls; the others are
never compiled.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from sharelag.errors import SetupError

_HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|let|class)", re.M)
_COMMENT = re.compile(r"^\s*//.*\n|^\s*/\*\*(?:[^*]|\*(?!/))*\*/\n", re.M)
_STYLE_COMMENT = re.compile(r"/\*[^*]*\*/")
_STYLE_SPACE = re.compile(r"\s*([{};])\s*")
_INDENT = re.compile(r"^[ ]+", re.M)
_DECLARED = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.M)


@cache
def script(name: str) -> str:
    """Return a module of this folder, such as ``window_strip.js``, bundled with its imports."""
    parts: dict[Path, str] = {}
    _add(_HERE / name, parts)
    code, _, exported = "".join(parts.values()).rpartition("export default ")
    known = hashlib.sha256(f"{code}{exported}".encode()).hexdigest()[:16]
    return (
        f"const made = () => {{\n{code}return {exported}}};\n"
        f'export default (globalThis.sharelagScripts ??= {{}})["{known}"] ??= made();\n'
    )


@cache
def style(*names: str) -> str:
    """Return the style sheet of a view, after the common one."""
    sheets = ((_HERE / name).read_text("utf-8") for name in ("shared/base.css", *names))
    return _STYLE_SPACE.sub(r"\1", _STYLE_COMMENT.sub("", "".join(sheets)))


def _add(path: Path, parts: dict[Path, str]) -> None:
    if path in parts:
        return
    text = path.read_text("utf-8")
    for imported in _IMPORT.findall(text):
        _add((path.parent / imported).resolve(), parts)
    if any(line.count("`") % 2 for line in text.splitlines()):
        raise SetupError(
            f"{path.name} has a template text of several lines, whose indents would be lost: "
            "split it"
        )
    _no_name_twice(path, text, parts)
    parts[path] = _INDENT.sub("", _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", text))))


def _no_name_twice(path: Path, text: str, parts: dict[Path, str]) -> None:
    mine = set(_DECLARED.findall(_EXPORT.sub("", text)))
    for other in parts:
        if both := mine & set(_DECLARED.findall(_EXPORT.sub("", other.read_text("utf-8")))):
            raise SetupError(
                f"{other.name} and {path.name} both declare {', '.join(sorted(both))}: rename "
                "one of them"
            )
