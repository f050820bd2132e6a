"""The notebooks as files: one question each, parameters, no outputs, links that work."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest

import sharelag
from sharelag.engine.spark.reading import TABLES
from tests.support.notebooks.shipped import FOLDER, NAMES, read

#: Functions of DataFrames, of files; the others look at whatever can be opened, as of any moment.
OF_FILES = "11_dataframes_and_sql"
_LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def sources(name: str, kind: str) -> list[str]:
    return [cell.source for cell in read(name).cells if cell.cell_type == kind]


def parameters(name: str) -> dict[str, Any]:
    (cell,) = [cell for cell in read(name).cells if "parameters" in cell.metadata.get("tags", [])]
    return {
        target.id: ast.literal_eval(line.value)
        for line in ast.parse(cell.source).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    }


def test_they_are_numbered_without_a_gap() -> None:
    assert [int(name[:2]) for name in NAMES] == list(range(12))


@pytest.mark.parametrize("name", NAMES)
def test_no_run_left_anything_in_it(name: str) -> None:
    notebook = read(name)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
        folded = {"source_hidden": True} if name == "00_start_here" else None  # its first screen
        assert cell.metadata.get("jupyter") in (None, folded)
        assert set(cell.metadata) <= {"tags", "jupyter"}
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 12_000


@pytest.mark.parametrize("name", NAMES)
def test_one_cell_says_what_is_looked_at(name: str) -> None:
    given = parameters(name)
    assert {"where"} if name == OF_FILES else {"where", "command_config", "as_of"} <= set(given)
    assert given.get("command_config") is None
    code = [cell for cell in read(name).cells if cell.cell_type == "code"]
    assert "parameters" in code[0].metadata.tags
    for text in code[1:]:
        assigned = set(assigned_names(text.source))
        assert not assigned & set(given)


def assigned_names(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_story_with_one_title_and_no_magic(name: str) -> None:
    words = sources(name, "markdown")
    titles = [line for text in words for line in text.splitlines() if line.startswith("# ")]
    assert len(titles) == 1
    assert words[0].startswith(titles[0])
    assert name == "00_start_here" or re.search(r"^\*\*.+\?\*\*$", words[0], re.MULTILINE)
    for code in sources(name, "code"):
        ast.parse(code)  # neither %%time nor a shell command


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files_that_are_there(name: str) -> None:
    links = [link for text in sources(name, "markdown") for link in _LINK.findall(text)]
    assert not [link for link in links if link.startswith("http") or not (FOLDER / link).is_file()]
    assert links or name == "10_your_own_cluster"


@pytest.mark.parametrize("name", NAMES)
def test_it_says_which_tables_it_stands_on(name: str) -> None:
    words = sources(name, "markdown")
    # The first begins with a dashboard, and a sentence above it.
    said = " ".join((" ".join(words) if name == NAMES[0] else words[0]).split())
    (result,) = re.findall(r"[^.]* `bench\.frames[^:]*", said.partition("**")[2])
    named = set(re.findall(r"`(?:bench\.frames\.)?(\w+)`", result))
    assert named & set(TABLES) or name in (OF_FILES, "10_your_own_cluster")


def test_the_first_begins_with_the_dashboard_of_what_is_worst() -> None:
    title, given, opened, *_ = read(NAMES[0]).cells
    assert "parameters" in given.metadata.tags
    assert len(title.source.splitlines()) <= 4
    assert opened.source.splitlines()[-1] == "bench.dashboard()"


@pytest.mark.parametrize("name", [name for name in NAMES if name[:2] not in ("09", "10", "11")])
def test_it_is_about_the_demo_and_a_group_of_it(name: str) -> None:
    given = parameters(name)
    assert given["where"] == "demo"
    assert given.get("group") in {None, *sharelag.open("demo", engine="local").groups}


def test_the_first_leads_to_all_others() -> None:
    found = {f"{name}.ipynb" for name in NAMES[1:]}
    assert found <= set(_LINK.findall("".join(sources(NAMES[0], "markdown"))))
