"""The documentation site: what is made for it is complete, and nothing is loaded from a network."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath

import pytest
from griffe import Docstring

from sharelag.cli import cli
from sharelag.metrics.causes import CAUSES
from sharelag.whatif import ASSIGNORS
from tools.docs.links import BrokenLinkError, rewrite
from tools.docs.reference import MODULES, commands, pages, tables
from tools.docs.remote import remote_resources
from tools.docs.stage import places, stage

ROOT = Path(__file__).parents[2]
MADE = dict(pages())
# Of when the pages were made: other tests add assignors.
SHIPPED = tuple(ASSIGNORS)


def test_every_page_has_its_place_and_its_links(tmp_path: Path) -> None:
    nav = str(stage(tmp_path))
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/*.md")}
    assert written == set(MADE) | {name for name in places().values() if name.endswith(".md")}
    assert [name for name in written if f"'{name}'" not in nav] == []
    assert {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")} <= set(places())


def test_every_command_has_its_options() -> None:
    for path, command in commands(cli, "sharelag"):
        page = MADE[f"reference/cli/{path.replace(' ', '-')}.md"]
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        options = {name for one in shown for name in one.opts if name.startswith("-")}
        assert [name for name in options if name not in page] == [], path


def test_every_column_of_every_table_has_a_meaning() -> None:
    page = MADE["reference/tables.md"]
    for name, table in tables().items():
        assert f"\n## {name}\n\nOne row is {table.row}." in page
        assert [one.name for one in table.columns if f"| `{one.name}` |" not in page] == []
        assert all(one.meaning for one in table.columns)


def test_every_cause_assignor_and_public_name_is_there() -> None:
    assert all(f"## {cause.name}\n" in MADE["reference/causes.md"] for cause in CAUSES)
    assert all(f"heading: '{name}'" in MADE["reference/assignors.md"] for name in SHIPPED)
    for module in MODULES:
        page = MADE[f"reference/api/{module}.md"]
        for name in import_module(module).__all__:
            one = getattr(import_module(module), name)
            if inspect.ismodule(one):  # its page is linked
                assert one.__name__ in MODULES
                assert one.__all__
            has_docstring = inspect.isclass(one) or inspect.isfunction(one)
            assert f"heading: '{name}'" in page or not has_docstring


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    for module in MODULES:
        for name in import_module(module).__all__:
            one = getattr(import_module(module), name)
            if inspect.isfunction(one):
                yield f"{module}.{name}", one
            elif inspect.isclass(one) and one.__module__.startswith("sharelag"):
                for method, found in vars(one).items():
                    function = getattr(found, "__func__", found)
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{module}.{name}.{method}", function


def test_every_public_function_describes_what_it_takes_and_says_what_it_returns() -> None:
    """One parameter may be what the summary is about; what another function describes is named."""
    for name, function in dict(public_functions()).items():
        is_described(name, function)


def is_described(name: str, function: Callable[..., object]) -> None:
    text = inspect.getdoc(function) or ""
    sections = {one.kind.value: one.value for one in Docstring(text).parse("numpy", warnings=False)}
    found = inspect.signature(function)
    taken = [one for one in found.parameters if one not in ("self", "cls")]
    described = {
        one.strip(" *") for row in sections.get("parameters", ()) for one in row.name.split(",")
    }
    left = [one for one in taken if one not in described and f"``{one}``" not in text]
    is_short = "parameters" not in sections
    assert text, name
    is_told = is_short and (len(left) == 1 or re.search(r"(as for|see) `", text))
    assert not left or is_told, (name, left)
    assert found.return_annotation != "Any" or "returns" in sections, name


def test_a_link_to_nothing_fails() -> None:
    page, pages = PurePosixPath("docs/page.md"), {"README.md": "index.md"}
    found = rewrite("[home](../README.md#see)", page, "a/page.md", pages)
    assert found == "[home](../index.md#see)"
    assert rewrite("[law](../LICENSE)", page, "page.md", pages) == "law (`LICENSE`)"
    assert rewrite("    [code](nowhere.md)\n", page, "page.md", pages) == "    [code](nowhere.md)\n"
    with pytest.raises(BrokenLinkError, match=r"nowhere\.md"):
        rewrite("[gone](nowhere.md)", page, "page.md", pages)


def test_what_a_browser_would_load_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://a.example/">link</a><link rel="canonical" href="https://b.example/">'
        '<script src="//c.example/x.js"></script><img src="here.png">'
        '<style>@import "https://d.example/x.css";</style>'
    )
    (tmp_path / "x.css").write_text("@font-face { src: url(https://e.example/f.woff2) }")
    found = [place.partition("//")[2][0] for place in remote_resources(tmp_path)]
    assert found == ["c", "d", "e"]


@pytest.mark.exhaustive
def test_the_site_is_built_without_a_warning() -> None:
    build = [sys.executable, "-m", "tools.docs"]
    answer = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
