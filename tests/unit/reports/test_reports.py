"""Reports of many nights: ledger, retention, index, and what changed."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from sharelag.model import iso
from sharelag.reports import store
from sharelag.reports.execute import execute
from sharelag.version import __version__
from tests.support import nightly
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.made_runs import groups, made_run
from tests.support.nightly import HELD_FROM, HELD_TO, NIGHTS, daily, lag_of, night

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow
KEEP = 7


def _five_past(number: int) -> datetime:
    return night(number) + timedelta(minutes=5)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Where the reports of many nights on a growing archive lie, and what each of them was."""
    folder = tmp_path_factory.mktemp("month")
    archive, out, made = nightly.begin_archive(folder / "archive"), folder / "reports", []
    for number in range(NIGHTS):
        nightly.add_night(archive, number)
        made.append(daily(archive, out, keep=KEEP, now=partial(_five_past, number)))
    return out, made


@pytest.mark.exhaustive  # the ledger of these nights is read in each run
def test_every_night_has_kafkas_lag(month: tuple[Path, list[Any]]) -> None:
    for number, made in enumerate(month[1]):
        assert made.run.error is None
        found = {name: group["lag"] for name, group in groups(made.verdict).items()}
        assert found == {name: lag_of(name, number) for name in nightly.FINISHED}


def test_what_changed_since_the_night_before(month: tuple[Path, list[Any]]) -> None:
    assert month[1][0].verdict["changes"] is None
    for number, made in enumerate(month[1][1:], 1):
        changes = made.verdict["changes"]
        assert changes["since"] == month[1][number - 1].verdict["as_of"]
        rows = {row["group_id"]: row for row in changes["groups"]}
        for name in nightly.FINISHED:
            assert rows[name]["lag_change"] == lag_of(name, number) - lag_of(name, number - 1)
            # What arrived and is not lag was finished.
            assert rows[name]["finished"] == nightly.DAILY - rows[name]["lag_change"]
        told = [cause["cause"] for cause in changes["new_causes"]]
        assert told == ["head_of_line"] * (number == HELD_FROM)
        seen = [cause["cause"] for cause in changes["gone_causes"]]
        assert seen == ["head_of_line"] * (number == HELD_TO)
        assert len(changes["lasting_causes"]) == (HELD_FROM < number < HELD_TO)
    levels = [groups(made.verdict)["billing"]["level"] for made in month[1]]
    found = {number for number, level in enumerate(levels) if level == "warning" and number}
    assert found == set(range(HELD_FROM, HELD_TO))


def test_the_ledger_has_every_night_by_the_clock(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    runs = store.read(out)
    assert runs == [one.run for one in made]
    for number, run in enumerate(runs):
        assert run.started == iso(night(number) + timedelta(minutes=5))
        assert run.as_of == iso(night(number))
        assert (run.version, run.seconds > 0, len(run.notebook)) == (__version__, True, 64)
    assert len({run.run_id for run in runs}) == NIGHTS


def test_retention_keeps_the_newest_whole(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    there = sorted(place.name for place in (out / "daily" / "runs").iterdir())
    assert there == sorted(one.run.run_id for one in made[-KEEP:])
    assert (out / "daily" / "latest").resolve() == made[-1].folder.resolve()
    for one in made[-KEEP:]:
        names = {path.name for path in one.folder.iterdir()}
        assert names == {"report.html", "notebook.ipynb", "verdict.json", "mail.html", "run.json"}
        assert json.loads((one.folder / "verdict.json").read_text())["headline"] == one.run.headline
    assert not list((out / "daily").glob(".half-*"))


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name in ("href", "src")]


def test_the_index_has_every_night_and_links_what_is_there(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    text = (out / "index.html").read_text()
    links = Links(text[text.index('id="runs"') :]).found
    assert links == [f"daily/runs/{one.run.run_id}/report.html" for one in made[::-1][:KEEP]]
    assert all((out / link).is_file() for link in links)
    assert text.count('<th scope="row">') == NIGHTS
    assert "<script" not in text


@pytest.mark.exhaustive  # `test_run.py` has a report by papermill in each run
def test_papermill_and_this_process_agree(month: tuple[Path, list[Any]], tmp_path: Path) -> None:
    last = partial(_five_past, NIGHTS - 1)
    real: Any = daily(month[0].parent / "archive", tmp_path, now=last, run=execute)
    assert real.verdict["groups"] == month[1][-1].verdict["groups"]
    text = (real.folder / "notebook.ipynb").read_text()
    assert '"papermill"' in text
    assert nightly.TOPIC in text


def test_the_listing_has_reports_and_runs(month: tuple[Path, list[Any]]) -> None:
    done = sharelag("report", "list", "--out", str(month[0]))
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()[1:]]
    assert names == ["capacity", "daily", "incident", "proposal"]
    rows = sharelag("report", "list", "--out", str(month[0]), "-o", "json").stdout.splitlines()
    assert [json.loads(row)["kept"] for row in rows] == [True] * KEEP + [False] * (NIGHTS - KEEP)


def test_a_group_that_is_not_there_is_worded_as_by_other_commands(tmp_path: Path) -> None:
    """Only the requested one was read; seven others are there."""
    made = daily(CAPTURE, tmp_path, given={"group": ["nobody"]})
    assert "there is no state of share group 'nobody' in" in (made.run.error or "")
    said = sharelag("lag", "--capture", str(CAPTURE), "--group", "nobody").stderr
    assert (made.run.error or "").endswith(said.strip()[said.index(": its groups are ") :])
    made = daily(CAPTURE, tmp_path, given={"group": ["billing", "nobody"]})
    assert "there are billing" not in (made.run.error or "")


def test_kernels_leave_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has its sockets in a separate folder, so that two runs do not share them."""
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(place)
    cells = [
        new_code_cell("import os; print(os.listdir()); print(os.getcwd())"),
        new_code_cell(
            "import json, ipykernel; file = ipykernel.get_connection_file(); told = json.load(open(file))\n"
            "print(told['transport'], os.path.dirname(file) == os.path.dirname(told['ip']), os.path.dirname(file), "
            "oct(os.stat(os.path.dirname(file)).st_mode))"
        ),
    ]
    nbformat.write(new_notebook(cells=cells), tmp_path / "x.ipynb")
    ran = execute(tmp_path / "x.ipynb", tmp_path / "out" / "x.ipynb", {}, {}, frozenset())
    assert ran.error is None
    assert ran.notebook.cells[-2].outputs[0].text == f"[]\n{place}\n"
    transport, together, folder, mode = ran.notebook.cells[-1].outputs[0].text.split()
    # No port that everybody could connect to.
    assert (transport, together, mode[-3:]) == ("ipc", "True", "700")
    assert Path(folder).name.startswith(".k-")
    assert [*place.iterdir()] == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x.ipynb"]


def test_a_ledger_line_of_another_version_is_passed_over(tmp_path: Path) -> None:
    run = replace(made_run(tmp_path, 0), run_id="x")
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"run_id": "y", "of": "another version"}\nnot json\n')
    store.append(tmp_path, run)
    assert ([one.run_id for one in store.read(tmp_path)][-1], len(store.read(tmp_path))) == ("x", 2)
