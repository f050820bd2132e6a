"""Find phrases that a native engineer would not write, in the texts that people read.

``python tools/words.py`` prints each with its place, and fails when there is one.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parent.parent

#: Phrases that no text has, and what to write instead.
PHRASES = {
    r"\b(is|are) told\b": "is reported, is shown",
    r"\btold as such\b": "is reported as such",
    r"\btells? (nothing|of)\b": "does not say, says about",
    r"(?<!there )\b(is|are) none\b": "the rule that it breaks",
    r"\bfor (whom|want of)\b": "name the person, or the reason",
    r"\bwhoever\b": "anyone who, or the role",
    r"\bwho asks?\b": "clients, requests",
    r"\bof all chance\b": "random seed",
    r"\bheld against\b": "compared with",
    r"\bof (ours|one's own)\b": "name the owner",
    r"\bheeds?\b": "uses",
    r"\bas it likes\b": "freely, or leave it out",
    r"\bbe had\b": "be obtained",
    r"\bthereof\b": "of it",
    r"(?<!there )\bis no (?!longer\b|more\b)": "is not a ...",
    r"(?<!there )\bare no (?!longer\b|more\b)": "are not ...",
}


class Text(NamedTuple):
    """A text that people read, and where it stands."""

    place: str
    words: str


def texts() -> Iterator[Text]:
    """Everything that people read but results: pages, help, errors, notebooks."""
    yield from _pages()
    yield from _help()
    yield from _errors()
    yield from _notebooks()


def found() -> Iterator[tuple[str, str, str]]:
    """Place, phrase and what to write instead."""
    for text in texts():
        words = " ".join(text.words.split())
        for pattern, instead in PHRASES.items():
            for hit in re.finditer(pattern, words, re.IGNORECASE):
                around = words[max(hit.start() - 40, 0) : hit.end() + 30]
                yield text.place, f"... {around} ...", instead


def _pages() -> Iterator[Text]:
    for page in sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")}):
        name = str(page.relative_to(ROOT))
        if name in ("CHANGELOG.md", "DECISIONS.md"):  # what was said then
            continue
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        yield from (Text(name, part) for part in text.split("\n\n"))


def _help() -> Iterator[Text]:
    from sharelag.cli import cli

    todo: list[tuple[str, click.Command]] = [("sharelag", cli)]
    while todo:
        name, command = todo.pop(0)
        yield Text(f"{name} --help", command.help or "")
        for option in command.params:
            yield Text(f"{name} {option.opts[0]}", getattr(option, "help", None) or "")
        if isinstance(command, click.Group):
            todo += [(f"{name} {one}", child) for one, child in command.commands.items()]


def _errors() -> Iterator[Text]:
    for path in sorted(
        {*ROOT.glob("sharelag/**/*.py"), *ROOT.glob("widgets/sharelag_widgets/**/*.py")}
    ):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                words = "".join(
                    part.value if isinstance(part, ast.Constant) else "x"
                    for part in _parts(node.exc)
                    if isinstance(getattr(part, "value", None), str | ast.AST)
                )
                yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", words)


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """Constants and placeholders of the texts in an expression, in their order."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.FormattedValue | ast.Constant):
            yield one
        else:
            yield from _parts(one)


def _notebooks() -> Iterator[Text]:
    for path in sorted(ROOT.glob("notebooks/**/*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                yield Text(str(path.relative_to(ROOT)), "".join(cell["source"]))


def main() -> int:
    """Print what was found."""
    hits = list(found())
    for place, phrase, instead in hits:
        print(f"{place}: {phrase}\n    write: {instead}")
    return int(bool(hits))


if __name__ == "__main__":
    sys.exit(main())
