"""Reports of thirty nights: ledger, retention, index, what changed; and two runs at once."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from sharelag.cli.demo import CAPTURE
from sharelag.errors import InputError
from sharelag.reports import cells, ledger, notebooks, report, store
from sharelag.reports.blocks import VERDICT_MIME, Block, Chart, table
from sharelag.reports.capacity import keeping_up, propose
from sharelag.reports.execute import execute
from sharelag.reports.findings import group_findings, ranges
from sharelag.reports.inputs import read
from sharelag.reports.ledger import Run, write_index
from sharelag.reports.unknown_lags import unknown_lags
from sharelag.reports.verdict import drain, verdict
from sharelag.version import __version__
from sharelag.workbench.investigate import gather
from tests.support import nightly
from tests.support.command import sharelag
from tests.support.nightly import HELD_FROM, HELD_TO, NIGHTS, lag_of, night, without_kernel
from tests.support.written_input import NOW, Write, WrittenInput

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow

KEEP = 7
#: So many of the nights, the last ones, are run by papermill.
REAL = 1


def _five_past(number: int) -> datetime:
    return night(number) + timedelta(minutes=5)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Where the reports of thirty nights on a growing archive lie, and what each of them was."""
    folder = tmp_path_factory.mktemp("month")
    archive, out, made = nightly.begin_archive(folder / "archive"), folder / "reports", []
    for number in range(NIGHTS):
        nightly.add_night(archive, number)
        made.append(
            report(
                "daily",
                {"capture": str(archive), "engine": "local"},
                out,
                keep=KEEP,
                figures=False,
                now=partial(_five_past, number),
                run=execute if number >= NIGHTS - REAL else without_kernel,
            )
        )
    return out, made


def groups(told: Any) -> dict[str, Any]:
    return {group["group_id"]: group for group in told["groups"]}


def test_every_night_has_kafkas_lag(month: tuple[Path, list[Any]]) -> None:
    for number, made in enumerate(month[1]):
        assert made.run.error is None
        assert {name: group["lag"] for name, group in groups(made.verdict).items()} == {
            name: lag_of(name, number) for name in nightly.FINISHED
        }


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
        assert [cause["cause"] for cause in changes["new_causes"]] == ["head_of_line"] * (
            number == HELD_FROM
        )
        assert [cause["cause"] for cause in changes["gone_causes"]] == ["head_of_line"] * (
            number == HELD_TO
        )
        assert len(changes["lasting_causes"]) == (HELD_FROM < number < HELD_TO)
    levels = [groups(made.verdict)["billing"]["level"] for made in month[1]]
    assert {number for number, level in enumerate(levels) if level == "warning" and number} == set(
        range(HELD_FROM, HELD_TO)
    )


def test_the_ledger_has_every_night_by_the_clock(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    runs = ledger.read(out)
    assert runs == [one.run for one in made]
    for number, run in enumerate(runs):
        assert run.started == (night(number) + timedelta(minutes=5)).isoformat(
            timespec="milliseconds"
        ).replace("+00:00", "Z")
        assert run.as_of == night(number).isoformat(timespec="milliseconds").replace("+00:00", "Z")
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


def test_papermill_and_this_process_say_the_same(month: tuple[Path, list[Any]]) -> None:
    real, quick = month[1][-1], month[1][NIGHTS - REAL - 1]
    assert set(real.verdict) == set(quick.verdict)
    text = (real.folder / "notebook.ipynb").read_text()
    assert '"papermill"' in text
    assert nightly.TOPIC in text


def test_the_listing_has_reports_and_runs(month: tuple[Path, list[Any]]) -> None:
    done = sharelag("report", "list", "--out", str(month[0]))
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()[1:]] == [
        "capacity",
        "daily",
        "incident",
        "proposal",
    ]
    rows = sharelag("report", "list", "--out", str(month[0]), "-o", "json").stdout.splitlines()
    assert [json.loads(row)["kept"] for row in rows] == [True] * KEEP + [False] * (NIGHTS - KEEP)


def test_a_group_that_is_not_there_is_worded_as_by_other_commands(tmp_path: Path) -> None:
    """Only the requested one was read; seven others are there."""
    made = report(
        "daily",
        {"capture": str(CAPTURE), "engine": "local", "group": ["nobody"]},
        tmp_path,
        figures=False,
        run=without_kernel,
    )
    assert "there is no state of share group 'nobody' in" in (made.run.error or "")
    said = sharelag("lag", "--capture", str(CAPTURE), "--group", "nobody").stderr
    assert (made.run.error or "").endswith(said.strip()[said.index(": there are ") :])
    made = report(
        "daily",
        {"capture": str(CAPTURE), "engine": "local", "group": ["billing", "nobody"]},
        tmp_path,
        figures=False,
        run=without_kernel,
    )
    assert "there are billing" not in (made.run.error or "")


# ---- what it says --------------------------------------------------------------------------------


def test_the_oldest_may_be_one_whose_age_is_not_known(tmp_path: Path) -> None:
    """Without times, share partitions of `billing` are drained or of unknown age."""
    shutil.copytree(
        CAPTURE, tmp_path, ignore=shutil.ignore_patterns("*times*", "past_*"), dirs_exist_ok=True
    )
    told = verdict(read(capture=str(tmp_path), engine="local"))
    ages = {name: group["age_ms"] for name, group in groups(told).items()}
    assert ages == dict.fromkeys(ages) | {"refunds": 0}  # to which nothing was ever sent


def test_a_lag_that_is_not_known_counts_by_its_reason(tmp_path: Path) -> None:
    whole = verdict(read(capture=str(CAPTURE), engine="local"))
    told = groups(whole)
    # To one group records came, and nobody fetched any; to the other nothing was ever sent.
    assert (told["analytics"]["level"], told["refunds"]["level"]) == ("warning", "ok")
    assert told["analytics"]["why"].startswith("records arrived, but none is")
    assert [(one["rule"], one["level"]) for one in told["analytics"]["rules"]] == [
        ("lag", "warning")
    ]
    assert told["refunds"]["why"] == "nothing to fetch has arrived yet (2 share partitions)"
    assert told["billing"]["why"] == "the group has no members"
    assert whole["headline"] == (
        "6 of 7 share groups need attention. notifications and 4 more: the group has no members."
    )

    shutil.copytree(CAPTURE.parent / "scenarios" / "healthy", tmp_path, dirs_exist_ok=True)
    assert verdict(read(capture=str(tmp_path), engine="local"))["level"] == "ok"
    offsets = pq.read_table(tmp_path / "offsets.parquet")
    odd = pa.array([n % 2 == 1 for n in offsets.column("partition").to_pylist()])
    ends = pc.if_else(odd, pa.scalar(None, pa.int64()), offsets.column("end_offset"))
    place = offsets.schema.get_field_index("end_offset")
    pq.write_table(offsets.set_column(place, "end_offset", ends), tmp_path / "offsets.parquet")
    half = verdict(read(capture=str(tmp_path), engine="local"))
    (group,) = half["groups"]
    assert (half["level"], group["level"]) == ("unknown", "unknown")
    assert group["why"].startswith(
        "lag: the end offset could not be read from the partition's leader ("
    )


def test_what_was_never_fetched_is_fine_only_where_nothing_came() -> None:
    def told(*writes: Write, reset: str = "latest", **more: Any) -> list[tuple[str, str]]:
        settings = {"share.auto.offset.reset": reset}
        source = WrittenInput(writes, partitions_of_topic=2, group_settings=settings, **more)
        return [
            (level, words.split(" (")[0])
            for level, words in unknown_lags(gather(source, "local")).get("billing", [])
        ]

    never, known = Write(600, -1, count=-1), Write(600, 6600, partition=1)
    assert told(known) == []
    came = ("warning", "records arrived, but none was ever fetched")
    assert told(never, known) == [came]  # a record a second arrives
    assert told(never, rate=0.0, reset="earliest") == [("ok", "nothing to fetch has arrived yet")]
    dark = told(never, known, unreachable=frozenset({0}))
    assert dark == [
        ("unknown", "nothing was ever fetched, and it is unknown whether records arrived")
    ]
    before = WrittenInput([never], rate=0.0).past_offsets(
        [], [NOW - timedelta(minutes=30), NOW - timedelta(minutes=1)]
    )
    with (
        pytest.MonkeyPatch.context() as patched
    ):  # nothing came until a minute ago; the leader is gone since
        patched.setattr(WrittenInput, "past_offsets", lambda *_: before)
        assert told(never, rate=0.0, unreachable=frozenset({0})) == dark
    unread = told(never, known, unreachable=frozenset({1}))
    assert unread == [
        came,
        ("unknown", "the end offset could not be read from the partition's leader"),
    ]


def test_there_is_no_forecast_where_nobody_works() -> None:
    """In no part of a report: verdict, table of progress, chart."""
    case = read(capture=str(CAPTURE), engine="local")
    told, alone = (
        verdict(case),
        {"billing", "clickstream", "fraud-check", "notifications", "shipping"},
    )
    assert {
        name for name, group in groups(told).items() if group["drain"] == "the group is empty"
    } == alone
    rows = [
        row
        for row in case.evidence.progress.to_pylist()
        if row["drain"] not in ("drained", "unknown")
    ]
    assert {
        (row["drain"], row["drain_ms"], row["drain_low_ms"], row["drain_high_ms"]) for row in rows
    } == {("nobody", None, None, None)}
    assert {row["group_id"] for row in rows} == alone
    nothing = '</td><td class="sr-n"><bdi>-</bdi>'
    assert (
        cells.progress(case).html.count(f"<bdi>nobody</bdi>{nothing}{nothing}") == len(rows) == 23
    )
    figure = cells.drain(case).light
    assert "there are no members in 23 of 32" in figure.layout.title.text
    assert figure.layout.yaxis.ticktext[0] == "billing: 6 share partitions"
    assert all(not len(trace.x) for trace in figure.data)  # no point, words instead
    assert figure.layout.annotations[0].text.startswith("nobody: the group has no members")
    # Who works, but has not for longer than a lock lasts, has no forecast either.
    steady = [Write(ago, 7000 - 2 * ago) for ago in range(3010, 0, -60)]
    for writes, words in ((steady, "in "), (steady[:-1], "paused"), (steady[:-8], "stalled")):
        assert drain(gather(WrittenInput(writes), "local").progress.to_pylist()).startswith(words)


def test_a_table_leaves_out_what_has_no_value() -> None:
    made = table(
        [{"a": "x", "b": None, "n": 1234}, {"a": None, "b": None, "n": None}],
        {"A": "a", "B": "b", "N": "n"},
        "c.",
        "",
    )
    assert "Empty columns, left out: B." in made.html
    headings = re.findall(r'<th scope="col"[^>]*>(\w)<', made.html)
    assert headings == ["A", "N"]
    assert made.html.count('<td class="sr-n">') == 2
    assert made.text.splitlines()[0].split() == ["A", "B", "N"]


def test_a_proposal_says_whether_it_is_enough() -> None:
    case = read(capture=str(CAPTURE.parent / "scenarios" / "slow"), over=3600, engine="local")
    made = propose(case, members=[4, 40], minutes=1, seeds=5)
    few, many = (
        next(row for row in made.rows if row["variant"] == f"{n} members") for n in (4, 40)
    )
    assert (few["drained"], many["drained"]) == ("0 of 5", "5 of 5")
    assert made.words.startswith("slow: choose 40 members, which beats all others tried: ")
    assert re.search(r": the p95 age of its oldest record is \S+ s instead of \S+ s\.$", made.words)
    assert re.fullmatch(r"-\S+ s ± \S+ s", many["age_p95_difference"])
    small = propose(case, members=[4], minutes=1, seeds=3)
    assert small.words.startswith("slow: choose 4 members, ")
    assert small.words.endswith(" None of its runs clears the lag within 1 min: try more members.")


def test_a_proposal_says_that_it_rests_on_an_assumption() -> None:
    """Without members the work of a record is not known; any member is better than none."""
    case = read(capture=str(CAPTURE), engine="local")
    made = propose(case, assignors=["lag-aware-sticky"], minutes=0.2, seeds=2)
    assert [row["variant"] for row in made.rows] == ["as it is", "1 member", "2 members"]
    assert [row["members"] for row in made.rows] == [0, 1, 2]
    assert made.words.startswith(
        "notifications: the result depends on an assumption (1 ms of work for each record). If it holds, "
    )
    assert "1 ms of work for each record, since the group has no members to measure" in made.assumed
    its = cells.only(case, made.group)
    told = cells.verdict(its)
    assert [group["group_id"] for group in told["groups"]] == ["notifications"]
    assert told["unknown"] == []
    assert "billing" not in cells.causes(told).html + cells.headroom(its).html


def test_what_is_wrong_in_many_groups_is_reported_once() -> None:
    told = verdict(read(capture=str(CAPTURE), engine="local"))
    shown, advice = cells.causes(told).html, "start consumers; kafka-share-groups.sh"
    assert (shown.count("the group has no members"), shown.count(advice)) == (1, 1)
    worst, deleted, never = group_findings(told["groups"])
    alone = ["notifications", "billing", "shipping", "clickstream", "fraud-check"]
    assert (worst["level"], [at["group_id"] for at in worst["places"]]) == ("critical", alone)
    assert all(f"<bdi>{name}</bdi></strong>" in shown for name in alone)
    assert "partitions 0-5; holds 2\u202f390 offsets" in shown
    assert (deleted["level"], deleted["title"]) == (
        "warning",
        "records were deleted before the group finished them",
    )
    # How bad that is says the report itself, and what to do the cause.
    assert (never["level"], never["title"][:25]) == ("warning", "records arrived, but none")
    rule = {
        "rule": "big",
        "level": "critical",
        "topic": "orders",
        "partition": 1,
        "summary": "lag 9 > 5",
    }
    own = rule | {"rule": "drain", "summary": "nothing is being finished", "is_own": True}
    many = group_findings([{"group_id": name, "causes": [], "rules": [rule, own]} for name in "ab"])
    assert [(one["title"], one["is_rule"], len(one["places"])) for one in many] == [
        ("big", True, 2),
        ("nothing is being finished", False, 2),
    ]
    changed = {
        "since": told["as_of"],
        "comparable": True,
        "groups": [],
        "new_causes": [],
        "gone_causes": [],
    }
    changed["lasting_causes"] = worst["places"]
    assert cells.changes({"changes": changed}).html.count("the group has no members") == 1
    assert [ranges(one) for one in ("0,1,2,5,7,8", "4", "0,1,2,...")] == [
        "0-2, 5, 7, 8",
        "4",
        "0-2, ...",
    ]


def test_a_review_of_capacity_says_who_keeps_up() -> None:
    case = read(capture=str(CAPTURE), engine="local")
    said = cells.keeping_up(case, verdict(case)).data[VERDICT_MIME]["headline"]
    assert said == (
        "1 of 7 share groups fell behind: notifications, finished 9.99 of 16.7 records/s. "
        "billing and 4 more have no members now and lag."
    )
    row = {
        "group_id": "g",
        "members": 2,
        "arrival_rate": 2.0,
        "completion_rate": 2.0,
        "lag": 3,
        "falls_behind": "no",
    }
    assert keeping_up([row]) == "The share group kept up."
    assert keeping_up([row, row]) == "All 2 share groups kept up."
    slow = row | {"completion_rate": 0.5, "falls_behind": "clearly"}
    assert keeping_up([slow]) == "g fell behind: it finished 0.5 of 2 records/s."
    assert keeping_up([slow, slow]).endswith(
        " fell behind: the worst, g, finished 0.5 of 2 records/s."
    )
    assert keeping_up([row | {"arrival_rate": None, "falls_behind": None}]).startswith(
        "The rates at which records arrive and are finished are unknown"
    )


def test_of_several_groups_the_members_of_the_one_with_most_lag_are_shown() -> None:
    """A matrix is of one group."""
    case = read(capture=str(CAPTURE.parent / "scenarios" / "slow"), engine="local")

    def renamed(table: pa.Table) -> pa.Table:
        other = table.set_column(0, "group_id", pa.array(["another"] * len(table), pa.string()))
        if "lag" in table.column_names:
            place = table.schema.get_field_index("lag")
            other = other.set_column(place, "lag", pc.add(other.column("lag"), 1))
        return pa.concat_tables([table, other])

    known = case.evidence
    both = replace(
        case, evidence=replace(known, lag=renamed(known.lag), members=renamed(known.members))
    )
    shown = cells.assignments(both)
    assert isinstance(shown, Chart)
    assert shown.light.layout.meta["title"].startswith("another: ")
    nobody = cells.assignments(read(capture=str(CAPTURE), engine="local"))
    assert isinstance(nobody, Block)
    assert nobody.text == "None of the groups has members."


# ---- the shelf -----------------------------------------------------------------------------------


def made_run(
    out: Path, number: int, error: str | None = None, cluster: str | None = None, **asked: Any
) -> Run:
    at = night(number)
    run = Run(
        f"{at:%Y%m%dT%H%M%S}000Z-{number:06x}",
        "daily",
        asked,
        "1",
        "",
        at.isoformat(),
        1.0,
        "ok",
        "",
        None,
        error,
    )
    run = replace(run, cluster_id=cluster)
    folder = out / "daily"
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    with store.scratch(folder) as half:
        (half / store.RUN).write_text(json.dumps(run.__dict__))
        store.publish(out, folder, half, run)
    return run


def kept(out: Path) -> list[str]:
    return [run.run_id for run in store.runs_of(out / "daily")]


def test_retention_by_days_and_by_number(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, number) for number in range(6)]
    gone = store.retain(tmp_path / "daily", night(5), None, 2.5)
    assert (gone, kept(tmp_path)) == (runs[:3][::-1], [run.run_id for run in runs[3:]])
    store.retain(tmp_path / "daily", night(5), 2, None)
    assert kept(tmp_path) == [run.run_id for run in runs[4:]]
    store.retain(tmp_path / "daily", night(300), None, 1)
    assert kept(tmp_path) == [runs[5].run_id]
    assert len(ledger.read(tmp_path)) == 6


def test_the_last_that_did_not_fail_is_never_removed(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, number, "no broker" if number else None) for number in range(4)]
    store.retain(tmp_path / "daily", night(9), 1, 1)
    assert kept(tmp_path) == [runs[0].run_id, runs[3].run_id]


def test_retention_counts_runs_with_the_same_parameters(tmp_path: Path) -> None:
    """Of a second group, and of another cluster, as many stay."""
    asked: list[dict[str, Any]] = [{"group": ["billing"]}, {"group": ["shipping"]}, {}]
    runs = [
        made_run(tmp_path, number, cluster="a", as_of=str(number), **asked[number % 3])
        for number in range(9)
    ]
    runs += [made_run(tmp_path, 9, cluster="b", capture="/b"), made_run(tmp_path, 10, "no broker")]
    store.retain(tmp_path / "daily", night(10), 2, None)
    # The failed one was asked as the last of cluster b, and the last good one of each stays anyway.
    assert kept(tmp_path) == [run.run_id for run in runs[3:]]
    store.retain(tmp_path / "daily", night(10), 1, None)
    assert kept(tmp_path) == [run.run_id for run in runs[6:]]


def test_a_clock_that_was_set_back_leaves_latest_whole(tmp_path: Path) -> None:
    for number in (5, 2):
        made_run(tmp_path, number)
        store.retain(tmp_path / "daily", night(number), 1, None)
    latest = tmp_path / "daily" / "latest"
    assert latest.exists()
    assert latest.resolve().name == kept(tmp_path)[0]
    with store.reserved(
        tmp_path, "daily", False, print
    ):  # the next run does not turn it to the later clock
        assert latest.resolve().name == kept(tmp_path)[0]


def test_nobody_else_looks_into_a_run_that_is_not_whole(tmp_path: Path) -> None:
    """A notebook holds what its cells said until it is searched for secrets."""
    (tmp_path / "daily" / "runs").mkdir(parents=True)
    with store.scratch(tmp_path / "daily") as half:
        assert half.stat().st_mode & 0o777 == 0o700
    run = made_run(tmp_path, 1)
    assert (tmp_path / "daily" / "runs" / run.run_id).stat().st_mode & 0o777 == 0o755


def test_what_a_killed_run_left_is_put_in_order(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, number) for number in range(3)]
    (tmp_path / "daily" / ".half-gone").mkdir()
    (tmp_path / "daily" / ".half-gone" / "report.html").write_text("<html>")
    store.point_latest(tmp_path / "daily", runs[1].run_id)
    lines = (tmp_path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:20])
    assert ledger.read(tmp_path) == runs[:2]
    with store.reserved(tmp_path, "daily", False, print):
        assert ledger.read(tmp_path) == runs
        assert (tmp_path / "daily" / "latest").resolve().name == runs[2].run_id
        assert not list((tmp_path / "daily").glob(".half-*"))


def test_an_index_of_nothing(tmp_path: Path) -> None:
    assert "There are no reports yet" in write_index(tmp_path).read_text()
    assert sharelag("report", "index", "--out", str(tmp_path / "none")).returncode == 1


def test_a_run_is_compared_to_one_with_the_same_parameters(tmp_path: Path) -> None:
    capture = nightly.record_nights(tmp_path / "capture")

    def made(number: int, **more: Any) -> Any:
        parameters = {
            "capture": str(capture),
            "engine": "local",
            "as_of": night(number).isoformat(),
            **more,
        }
        return report(
            "daily",
            parameters,
            tmp_path,
            figures=False,
            run=without_kernel,
            now=lambda: night(number),
        ).verdict

    first = made(3)
    assert made(4, group=["billing"])["changes"] is None
    assert made(5)["changes"]["since"] == first["as_of"]
    with pytest.raises(AssertionError, match="nothing"):
        assert made(2)["changes"]["comparable"], (
            "nothing to compare: the one before is of a later moment"
        )
    failed = report(
        "daily",
        {"capture": str(tmp_path / "none"), "engine": "local"},
        tmp_path,
        figures=False,
        run=without_kernel,
    )
    assert failed.run.error is not None
    other = shutil.copytree(capture, tmp_path / "other")
    about = (other / "capture.json").read_text()
    (other / "capture.json").write_text(about.replace("a-month", "another"))
    assert made(6, capture=str(other))["changes"] is None, "the same names in another cluster"
    named = min((tmp_path / "daily" / "runs").iterdir())
    told = made(6, capture=str(other), previous=f"{named}/verdict.json")["changes"]
    assert (told["comparable"], told["why"]) == (False, "it is about another cluster")
    assert made(6)["changes"]["since"] == night(5).isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )


def test_the_verdict_before_has_to_be_one(tmp_path: Path) -> None:
    capture = nightly.record_nights(tmp_path / "capture")
    made = report(
        "daily",
        {"capture": str(capture), "engine": "local"},
        tmp_path,
        figures=False,
        run=without_kernel,
    )
    given = {"capture": str(capture), "engine": "local", "previous": str(made.folder / "run.json")}
    failed = report("daily", given, tmp_path, figures=False, run=without_kernel)
    assert (failed.run.error or "").startswith("previous is not a verdict of this version")


# ---- two at once ---------------------------------------------------------------------------------

_HOLDER = """
import sys
from pathlib import Path
from sharelag.reports import report
from tests.support.nightly import without_kernel
def held(*given):
    print("begun", flush=True)
    sys.stdin.readline()
    return without_kernel(*given)
made = report("daily", {"capture": sys.argv[1], "engine": "local"}, sys.argv[2], figures=False, run=held)
print(made.run.run_id, flush=True)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of a report into ``tmp_path/out``."""
    capture = nightly.record_nights(tmp_path / "capture")
    command = [sys.executable, "-c", _HOLDER, str(capture), str(tmp_path / "out")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def test_of_two_at_once_one_says_so(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    command = (
        "report",
        "daily",
        "--capture",
        str(tmp_path / "capture"),
        "--out",
        str(tmp_path / "out"),
    )
    done = sharelag(*command, "--overlap", "fail")
    assert done.returncode == 1
    assert "another run of report 'daily' is under way" in done.stderr
    assert "Traceback" not in done.stderr


def test_of_two_at_once_one_waits(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    said: list[str] = []

    def tell(words: str) -> None:
        said.append(words)
        holder.communicate("go on\n")

    made = report(
        "daily",
        {"capture": str(tmp_path / "capture"), "engine": "local"},
        tmp_path / "out",
        figures=False,
        run=without_kernel,
        tell=tell,
    )
    assert said == [
        f"waiting for another run of report 'daily', which is under way in {tmp_path / 'out'}"
    ]
    runs = ledger.read(tmp_path / "out")
    assert len(runs) == 2
    assert runs[1] == made.run


def test_another_report_need_not_wait(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    made = report(
        "incident",
        {"capture": str(tmp_path / "capture"), "engine": "local"},
        tmp_path / "out",
        figures=False,
        run=without_kernel,
        wait=False,
    )
    assert made.run.error is None


def test_a_kernel_leaves_nothing_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (transport, together, mode[-3:]) == (
        "ipc",
        "True",
        "700",
    )  # no port that everybody could connect to
    assert Path(folder).name.startswith(".k-")
    assert ([*place.iterdir()], [path.name for path in (tmp_path / "out").iterdir()]) == (
        [],
        ["x.ipynb"],
    )


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
    ("given", "told"),
    [
        ({"sasl_password": "hunter22"}, "looks like a secret"),
        ({"lag": 3}, "has no parameter 'lag'"),
        ({"over": float("nan")}, "'over' cannot be written as JSON"),
        ({"as_of": date(2026, 6, 1)}, "'as_of' cannot be written as JSON"),
        ({"over": "abc"}, "'over' must be a duration"),
        ({"over": True}, "'over' must be a duration"),
    ],
)
def test_parameters_that_cannot_be_given(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told) as raised:
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
    ):
        assert from_word(as_word(value)) == value
    (tmp_path / "p.yaml").write_text("as_of: 2026-06-01T02:00:00+02:00\n")
    daily = notebooks.notebook("daily")
    assert (
        notebooks.checked(daily, _given(tmp_path / "p.yaml", ()))["as_of"]
        == "2026-06-01T00:00:00.000Z"
    )
    assert notebooks.checked(daily, {"group": ("a", "b")})["group"] == ["a", "b"]
    (tmp_path / "p.yaml").write_text("password: {hunter22")
    with pytest.raises(InputError, match="is not valid YAML") as raised:
        _given(tmp_path / "p.yaml", ())
    assert "hunter22" not in str(raised.value)


def test_a_ledger_line_of_another_version_is_passed_over(tmp_path: Path) -> None:
    run = replace(made_run(tmp_path, 0), run_id="x")
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"run_id": "y", "of": "another version"}\nnot json\n')
    ledger.append(tmp_path, run)
    assert [one.run_id for one in ledger.read(tmp_path)][-1] == "x"
    assert len(ledger.read(tmp_path)) == 2
