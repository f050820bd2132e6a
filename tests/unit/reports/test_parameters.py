"""Parameters of reports: common ones, wrong ones, from a file and the command line."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

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
        assert set(notebooks.declared(path)) >= {
            "bootstrap_server",
            "command_config",
            "capture",
            "as_of",
            "over",
            "previous",
        }
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
    ],
)
def test_parameters_that_cannot_be_given(
    given: dict[str, Any], result: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=result) as raised:
        report("daily", given, tmp_path)
    assert "hunter22" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_moment_is_a_time() -> None:
    """Offsets of state partitions, which other commands take, belong to one topic."""
    said = sharelag("report", "make", "--help").stdout
    assert "A time with its zone" in said
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
    from sharelag.cli.report import _given
    from sharelag.reports.job import as_word, from_word

    (tmp_path / "p.yaml").write_text("over: 60\ngroup: [a, b]\n")
    assert _given(tmp_path / "p.yaml", (("over", "30"), ("as_of", "2026-06-01T00:00:00Z"))) == {
        "over": 30,
        "group": ["a", "b"],
        "as_of": "2026-06-01T00:00:00Z",
    }
    for value in (
        "orders",
        "123",
        "null",
        "'",
        "a: b",
        "- x",
        '"q"',
        ["a", "1"],
        3,
        2.5,
        True,
        "2026-06-01T00:00:00Z",
        *("2026-02-30", "[" * 3000, "9" * 5000, "!!bool x", "!!timestamp x", "!!int x"),
    ):
        assert from_word(as_word(value)) == value
    (tmp_path / "p.yaml").write_text("as_of: 2026-06-01T02:00:00+02:00\n")
    daily = notebooks.notebook("daily")
    assert (
        notebooks.checked(daily, _given(tmp_path / "p.yaml", ()))["as_of"]
        == "2026-06-01T00:00:00.000Z"
    )
    assert notebooks.checked(daily, {"group": ("a", "b")})["group"] == ["a", "b"]
    for end in ("{hunter22", "2026-02-30", "[" * 3000, "9" * 5000, "!!bool hunter22"):
        (tmp_path / "p.yaml").write_text(f"password: {end}")
        with pytest.raises(InputError, match="is not valid YAML") as raised:
            _given(tmp_path / "p.yaml", ())
        assert "hunter22" not in str(raised.value)
