"""Find phrases that a native engineer would not write, in the texts that people read.

``python tools/words.py`` prints each with its place, and fails when there is one.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parent.parent

#: Phrases to avoid, and what to write instead.
PHRASES = {
    r"\b(is|are) told\b": "is reported, is shown",
    r"\btold as such\b": "is reported as such",
    r"\btells? (nothing|of)\b": "does not say, says about",
    r"(?<!there )\b(is|are) (?-i:none)\b": "the rule that it breaks",
    r"\bfor (whom|want of)\b": "name the person, or the reason",
    r"\bwhoever\b": "anyone who, or the role",
    r"\bwho asks?\b": "clients, requests",
    r"\bof all chance\b": "random seed",
    r"\bheld against\b": "compared with",
    r"\bof (ours|one's own)\b": "name the owner",
    r"\bheeds?\b(?! :| is deprecated)": "uses",
    r"\bas it likes\b": "freely, or leave it out",
    r"\bbe had\b": "be obtained",
    r"\bthereof\b": "of it",
    r"(?<!there )\bis no (?!longer\b|more\b)": "is not a ...",
    r"(?<!there )\bare no (?!longer\b|more\b)": "are not ...",
    r"\bcrowds?\b": "is concentrated",
    r"\bcannot tell\b": "is not known",
    r"\b(goes|go) on to\b": "continues to, keeps",
    r"\b(surely|% sure)\b": "with 95 % confidence",
    r"\b(is|are) of (?!type|another|different|others|an older)\b": "belongs to, describes",
    r"(?<!{{ )(?<!for )(?<!`)\btold\b": "reported, shown, written",
    r"\ba name of its own\b": "its own name",
    r"\bnobody is\b": "there are no members",
    r"\bat the (least|most)\b": "at least, at most; lower bound, upper bound",
    r"\b(ran|run|runs) out\b": "expired, expires",
    r"\bwhose lock ends?\b": "whose lock expires",
    r"\btaken for granted\b": "assumed",
    r"\bso far as\b": "as far as",
    r"\bthe same at the\b": "name it",
    r"\bof (its|their|his) own\b": "its own ..., a separate ...",
    r"\balike\b": "the same, equally, both",
    r"\b(was|were|is|are) asked\b(?! for)": "was requested, was read, is called",
    r"\basked for\b": "requested, given, chosen",
    r"(?<![\w.<])\d[\d.]*%(?![\w\"]|, \d+px)": "95 %; without a space in goals alone",
}


_ANY = re.compile("|".join(PHRASES), re.IGNORECASE)


class Text(NamedTuple):
    """A text for readers, and its place."""

    place: str
    words: str


def texts() -> Iterator[Text]:
    """Yield all texts for readers except results: pages, help, texts of the code, notebooks."""
    yield from _pages()
    yield from _help()
    yield from _of_code()
    yield from _notebooks()


def found(some: Iterable[Text]) -> Iterator[tuple[str, str, str]]:
    """Yield place, phrase and replacement of all phrases in some texts."""
    # One search for all patterns costs as much as one for a single pattern: most texts have none.
    for text in some:
        words = " ".join(text.words.split())
        if not _ANY.search(words):
            continue
        for pattern, instead in PHRASES.items():
            for hit in re.finditer(pattern, words, re.IGNORECASE):
                around = words[max(hit.start() - 40, 0) : hit.end() + 30]
                yield text.place, f"... {around} ...", instead


def _pages() -> Iterator[Text]:
    for page in sorted(
        {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("data/**/*.md")}
    ):
        name = str(page.relative_to(ROOT))
        if name in ("CHANGELOG.md", "DECISIONS.md"):  # history is not rewritten
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


def _of_code() -> Iterator[Text]:
    """Yield texts of the code: strings, docstrings, comments, and stories of recordings.

    A value inserted into a string is read as ``x``. Strings of stories are data.
    """
    ours = _code()
    for path in [*ours, *sorted(ROOT.glob("tools/record/stories*.py"))]:
        place, text = path.relative_to(ROOT), path.read_text("utf-8")
        tree = ast.parse(text)
        if path in ours:
            yield from (Text(f"{place}:{node.lineno}", words) for node, words in _texts_of(tree))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                for part in (ast.get_docstring(node) or "").split("\n\n"):
                    yield Text(f"{place}:{getattr(node, 'lineno', 1)}", part)
        comments: list[str] = []
        for number, line in enumerate([*text.splitlines(), ""], 1):
            comment = re.search(r"(?:^|  ) *#:? (.*)", line) if "#" in line else None
            if comment and line.lstrip()[0] != "#":
                yield Text(f"{place}:{number}", comment[1])
            elif comment:
                comments.append(comment[1])
            elif comments:
                yield Text(f"{place}:{number - len(comments)}", " ".join(comments))
                comments = []


def _code() -> list[Path]:
    return sorted({*ROOT.glob("sharelag/**/*.py"), *ROOT.glob("widgets/sharelag_widgets/**/*.py")})


def _texts_of(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield every string in a tree with its text, except docstrings."""
    todo = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, ast.JoinedStr):
                yield node, "".join(_part(part) for part in node.values)
                # Inserted values may contain texts.
                todo += [one for one in node.values if isinstance(one, ast.FormattedValue)]
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str) and " " in node.value:
                    yield node, node.value
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                todo.append(node)


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "x"


def _notebooks() -> Iterator[Text]:
    for path in sorted(ROOT.glob("notebooks/**/*.ipynb")):
        place = str(path.relative_to(ROOT))
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                yield Text(place, source)
                continue
            comments = (line.partition("#")[2] for line in source.splitlines())
            yield from (Text(place, comment) for comment in comments if comment)
            for output in cell.get("outputs", ()):
                shown = output.get("text") or output.get("data", {}).get("text/plain") or ()
                yield from (Text(place, line) for line in shown)


def main() -> int:
    """Print the phrases found."""
    hits = list(found(texts()))
    for place, phrase, instead in hits:
        print(f"{place}: {phrase}\n    write: {instead}")
    return int(bool(hits))


if __name__ == "__main__":
    sys.exit(main())
