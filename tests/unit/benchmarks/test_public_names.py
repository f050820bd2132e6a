"""What is measured is what a user can call: benchmarks know no internals of ours."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
FILES = sorted(FOLDER.rglob("*.py"))
#: Modules whose names are public: all that they list, or else all that do not begin with `_`.
PUBLIC = {
    *("sharelag", "sharelag.model", "sharelag.engine.spark", "sharelag.replay", "sharelag.schemas"),
    *("sharelag.stream", "sharelag.whatif", "sharelag_widgets", "sharelag_widgets.dashboards"),
}
#: Of this module only these are.
WIRE = {"decode_arrow", "encode", "state_partition"}
#: What else a file imports; none of it is measured.
_SHORTCUT = "the rival is the measured command without one of its shortcuts"
EXCEPTIONS = {
    ("rows/interactive.py", "sharelag.cli"): _SHORTCUT,
    ("rows/interactive.py", "sharelag.cli.output"): _SHORTCUT,
    ("rows/scale.py", "sharelag.cli.main"): "the command itself, in one process of which memory is",
    ("rows/cluster.py", "sharelag.cli.main"): "the command itself",
    ("sessions.py", "._gateway"): "pyspark's, which alone knows the process of its JVM",
}
#: Private by their names alone.
DOCUMENTED = {"._asdict", "._fields", "._repr_html_"}
#: Attributes of a workbench that are the engines behind it.
BEHIND = {".reading", ".evidence"}


def test_only_public_names_are_called_and_every_exception_is_still_one() -> None:
    found = {
        (str(path.relative_to(FOLDER)), used)
        for path in FILES
        for used in uses(path.read_text())
        if not is_public(used)
    }
    assert found == set(EXCEPTIONS)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from sharelag.engine.spark.reading import SparkReading", "sharelag.engine.spark.reading"),
        ("import sharelag.engine.local", "sharelag.engine.local"),
        ("import sharelag\nsharelag.engine.local.QuickReading", "sharelag.engine"),
        ("import sharelag\nsharelag.open('demo').reading", ".reading"),
        ("def f():\n    from sharelag.wire import decode_columns", "sharelag.wire.decode_columns"),
        ("CODE = 'from sharelag.cli import output'", "sharelag.cli.output"),
        ("board._read(1)", "._read"),
    ],
)
def test_internals_are_found_wherever_they_are(code: str, found: str) -> None:
    assert [used for used in uses(code) if used.startswith(found) and not is_public(used)]


def is_public(name: str) -> bool:
    """Whether a dotted name, or an attribute with its point, is one for users."""
    if name.startswith("."):
        return name in DOCUMENTED or not (name in BEHIND or name.startswith("._"))
    module, _, last = name.rpartition(".")
    if name in PUBLIC or not module:
        return True
    if module == "sharelag.wire":
        return last in WIRE
    return module in PUBLIC and last in names_of(module)


def names_of(module: str) -> set[str]:
    """Return the names for users in a module."""
    if module == "sharelag.stream":
        module = "sharelag.engine.spark.stream"
    found = import_module(module)
    listed = getattr(found, "__all__", None)
    if module == "sharelag" or listed is None:
        listed = [name for name in dir(found) if not name.startswith("_")]
    return {*listed, "__file__", "__version__"}


def uses(code: str) -> Iterator[str]:
    """Yield what code uses of ours, and private attributes; also of code in its texts."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if _is_ours(module):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Import():
                yield from (alias.name for alias in node.names if _is_ours(alias.name))
            case ast.Attribute(value=ast.Name(id="sharelag"), attr=name):
                yield f"sharelag.{name}"
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if not name.startswith("__"):
                yield f".{name}"
            case ast.Constant(value=str(text)) if "import" in text or "._" in text:
                yield from _of_text(text)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("sharelag", "sharelag_widgets")


def _of_text(text: str) -> Iterator[str]:
    """Yield what a text uses if it is Python."""
    try:
        ast.parse(text.replace("{change}", ""))
    except SyntaxError:
        return
    yield from uses(text.replace("{change}", ""))
