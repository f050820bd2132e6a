"""Parameters of reports: common ones, wrong ones, from a file and the command line."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from sharelag.errors import InputError
from sharelag.reports import notebooks, report
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow


# ---- which notebooks, which parameters -----------------------------------------------------------
def test_every_notebook_is_clean_and_takes_the_common_parameters() -> None:
    for name in notebooks.names():
        path = notebooks.notebook(name)
        cells = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path
        common = {"bootstrap_server", "command_config", "capture", "as_of", "over", "previous"}
        assert set(notebooks.read_parameters(path)) >= common
        assert notebooks.names()[name]


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"sasl_password": "hunter22"}, "looks like a secret"),
        ({"lag": 3}, "has no parameter 'lag'"),
        ({"over": float("nan")}, "'over' cannot be written as JSON"),
        ({"as_of": date(2026, 6, 1)}, "'as_of' cannot be written as JSON"),
        ({"over": "abc"}, "'over' must be a duration"),
        ({"over": True}, "'over' must be a duration"),
        ({"over": "366000d"}, "'over' must be a duration"),
        *(({name: 7}, f"'{name}' must be a text") for name in ("capture", "ledger", "as_of")),
    ],
)
def test_parameters_that_are_not_given(given: dict[str, Any], result: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=result) as raised:
        report("daily", given, tmp_path)
    assert "hunter22" not in str(raised.value)
    with pytest.raises(InputError, match="too long"):
        report("daily", {}, tmp_path, keep_days=1e12)
    assert not list(tmp_path.iterdir())


def test_a_moment_is_a_time() -> None:
    """Offsets of state partitions, which other commands take, belong to one topic."""
    said = sharelag("report", "make", "--help").stdout
    assert "As of this moment: a time with its zone" in said
    assert "offsets of state" not in said


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    done = sharelag("report", "weekly", "--engine", "local", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "choose one of capacity, daily, incident, proposal" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--capture", "nope"], "nope: create one with `sharelag capture`"),
        (["--raw", "no/such.parquet"], "cannot read Parquet from no/such.parquet"),
        (["--segments", "nope"], "give a broker's log directory"),
        ([], "choose one input: --bootstrap-server, --capture, --raw or --segments"),
        (["--capture", str(CAPTURE), "--as-of", "noon"], "invalid time 'noon': give one such as"),
        (["--capture", str(CAPTURE), "-p", "since", "3x"], "or a duration such as 30s, 5m or 2h"),
        (
            ["--capture", str(CAPTURE), "-p", "over", "90"],
            "the parameter 'over' is a duration and needs a",
        ),
        (["--capture", str(CAPTURE), "-p", "rules", "nope.yaml"], "nope.yaml"),
        (
            ["--capture", str(CAPTURE), "-p", "previous", "nope.json"],
            "not the verdict of an earlier report",
        ),
        (
            ["--capture", str(CAPTURE), "-p", "group", "a", "-p", "group", "b"],
            "the parameter 'group' is given twice: give it once, as -p or as an option",
        ),
        (
            ["--capture", str(CAPTURE), "-p", "capture", "saved"],
            "the parameter 'capture' is given twice: give it once, as -p or as an option",
        ),
    ],
)
def test_parameters_are_checked_before_a_kernel_starts(
    given: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharelag.reports.execute.execute", lambda *_, **__: pytest.fail("started"))
    done = sharelag("report", "incident", *given, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "report incident [OPTIONS]" in done.stderr
    assert not (tmp_path / "out").exists()


def test_parameters_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    from sharelag.cli.report import _read_given
    from sharelag.reports.schedules import as_word, from_word

    (tmp_path / "p.yaml").write_text("over: 60\ngroup: [a, b]\n")
    named = notebooks.texts(notebooks.notebook("daily"))
    typed = (("ledger", "7"), ("group", "2026"), ("topic", "[1]"), ("over", "30"))
    found = {"ledger": "7", "group": "2026", "topic": [1], "over": 30}
    assert _read_given(None, typed, named) == found
    found = _read_given(tmp_path / "p.yaml", (("over", "30"), ("as_of", "2026-06-01T00:00:00Z")))
    assert found == {"over": 30, "group": ["a", "b"], "as_of": "2026-06-01T00:00:00Z"}
    texts = ("orders", "123", "null", "'", "a: b", "- x", '"q"', "2026-06-01T00:00:00Z")
    odd = ("2026-02-30", "[" * 700, "9" * 5000, "!!bool x", "!!timestamp x", "!!int x")
    for value in (*texts, *odd, ["a", "1"], 3, 2.5, True):
        assert from_word(as_word(value)) == value
    (tmp_path / "p.yaml").write_text("as_of: 2026-06-01T02:00:00+02:00\n")
    daily = notebooks.notebook("daily")
    known = notebooks.check_parameters(daily, _read_given(tmp_path / "p.yaml", ()))
    assert known["as_of"] == "2026-06-01T00:00:00.000Z"
    assert notebooks.check_parameters(daily, {"group": ("a", "b")})["group"] == ["a", "b"]
    (tmp_path / "p.yaml").write_text("group: a\nover: 60\ngroup: b\n")
    with pytest.raises(InputError, match=r"'group' is given twice: give it once, in .*p\.yaml"):
        _read_given(tmp_path / "p.yaml", ())
    for end in ("{hunter22", "2026-02-30", "[" * 700, "9" * 5000, "!!bool hunter22"):
        (tmp_path / "p.yaml").write_text(f"password: {end}")
        with pytest.raises(InputError, match="is not valid YAML") as raised:
            _read_given(tmp_path / "p.yaml", ())
        assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"x"', '{"a": [1,', "\x00"])
def test_a_previous_verdict_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(text)
    given = ("--capture", str(CAPTURE), "--engine", "local", "-p", "previous", str(file))
    done = sharelag("report", "daily", *given, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"{file} is not the verdict of an earlier report" in said
    assert "report it" not in said


@pytest.mark.parametrize(
    "cell", ['{"tags": null}, "source": "x=1"', '{"tags": ["parameters"]}, "source": 5']
)
def test_a_notebook_of_odd_cells_is_no_defect_of_ours(cell: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.ipynb"
    file.write_text(
        f'{{"cells": [{{"cell_type": "code", "outputs": [], "metadata": {cell}}}],'
        '"nbformat": 4, "nbformat_minor": 5, "metadata": {}}'
    )
    done = sharelag("report", str(file), "-p", "x", "2", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "odd" in done.stderr
    assert "report it" not in done.stderr


# ---- a notebook of one's own ---------------------------------------------------------------------
#: As people got it from papermill, whose parameters may have annotations.
ANNOTATED = """tenant: str = "x"
country: str = "x"
window: str = "x"
filter: str = "a=b"
release: str = "1.0"
"""
SOURCES = {
    "annotated": (ANNOTATED, {"tenant", "country", "window", "filter", "release"}),
    "commented": ("n: int = 3  # how many\nrate = 0.5  # type: float a rate", {"n", "rate"}),
    "over lines": ("names = [\n    'a',  # first\n    'b, c',\n]\nx = 1", {"names", "x"}),
    "optional": (
        "from typing import Optional\nwho: Optional[str] = None\nm: dict[str, int] | None = None",
        {"who", "m"},
    ),
    "quoted types": ("n: 'int' = 3\nd: \"dict[str, list[int]]\" = {'a': [1, 2]}", {"n", "d"}),
    "computed": ("import os\nday = 24 * 3600\nhome = os.environ.get('HOME', '')", {"day", "home"}),
    "with magics": ("%load_ext autoreload\nn = 1\n!true", {"n"}),
    "in a block": ("if True:\n    n = 1\nelse:\n    n = 2", {"n"}),
    "bare": ("tenant: str\nn: int = -1", {"tenant", "n"}),
    "of two targets": ("a = b = 'x'", {"a", "b"}),
    "of a tuple": ("a, (b, *c) = 1, (2, 3)", {"a", "b", "c"}),
    "on one line": ("y = 1; x = 2", {"y", "x"}),
    "timed": ("%%time\nn = 3", {"n"}),
    "captured": ("%%capture out\nn = 3\nm: int = 4", {"n", "m"}),
    "literal": ("from typing import Literal\nwho: Literal['a', 'b'] = 'a'", {"who"}),
    "with dots": ("import datetime\nday: datetime.date | None = None", {"day"}),
    "with an equals sign": ("query = 'a=b'  # as in c=d", {"query"}),
    "of an element": ("d = {}\nd['x'] = 3", {"d"}),
    "lines of Windows": ("n = 3\r\nm = 4\r\n", {"n", "m"}),
    "another alphabet": ("gr\u00f6\u00dfe = 3", {"gr\u00f6\u00dfe"}),
}


def own(folder: Path, source: str, shows: str = "") -> Path:
    """Write a notebook whose parameters are assigned by this source."""
    cells = [new_code_cell(source, metadata={"tags": ["parameters"]}), new_code_cell(shows)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path = folder / "mine.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=kernel), path)
    return path


@pytest.mark.parametrize("name", SOURCES)
def test_parameters_are_those_of_papermill(name: str, tmp_path: Path) -> None:
    source, expected = SOURCES[name]
    path = own(tmp_path, source)
    assert set(notebooks.read_parameters(path)) == expected
    assert set(papermill.inspect_notebook(path)) <= expected
    for one in expected:
        same = notebooks.read_parameters(path)[one]
        given = 7 if isinstance(same, int) else 0.25 if isinstance(same, float) else ["other"]
        assert notebooks.check_parameters(path, {one: given}) == {one: given}
    with pytest.raises(InputError, match="has no parameter 'none': choose from"):
        notebooks.check_parameters(path, {"none": 1})


def test_what_is_typed_for_a_text_stays_a_text(tmp_path: Path) -> None:
    shows = "print(repr((tenant, country, window, filter, release)))"
    path, out = own(tmp_path, ANNOTATED, shows), tmp_path / "out"
    pairs = {"tenant": "abc", "country": "NO", "window": "1:30", "filter": "c=d", "release": "1.10"}
    typed = [word for name, text in pairs.items() for word in ("-p", name, text)]
    done = sharelag("report", str(path), *typed, "--no-figures", "--out", str(out))
    assert done.returncode == 0, done.stderr
    (ran,) = out.rglob("notebook.ipynb")
    assert "('abc', 'NO', '1:30', 'c=d', '1.10')" in ran.read_text()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("n = (", "is not Python"),
        ("pass", "has no parameter 'n': its cell tagged parameters assigns none"),
    ],
)
def test_a_notebook_without_what_was_given(source: str, says: str, tmp_path: Path) -> None:
    done = sharelag("report", str(own(tmp_path, source)), "-p", "n", "1", "--out", str(tmp_path))
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
