"""What reports say of a group: age, unknown lags, forecasts, proposals, findings."""

import re
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nbformat.v4 import new_output

from sharelag import gather, schemas
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.inputs.recorded import folder_of
from sharelag.reports import cells, report
from sharelag.reports.blocks import VERDICT_MIME, Block, Chart, group_findings, ranges, table
from sharelag.reports.capacity import propose
from sharelag.reports.case import read, verdict
from sharelag.reports.execute import Executed
from sharelag.wire import STATE_TOPIC
from sharelag.workbench.verdicts import forecast, judge_groups, unknown_lags
from tests.support.captures import half_known
from tests.support.chapters import CAPTURE
from tests.support.made_runs import groups
from tests.support.readings import open_once
from tests.support.records import with_column
from tests.support.written_input import NOW, Write, WrittenInput

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow


# ---- what it says --------------------------------------------------------------------------------
def test_the_oldest_may_be_one_whose_age_is_not_known(tmp_path: Path) -> None:
    """Without times, share partitions of `billing` are drained or of unknown age."""
    shutil.copytree(
        CAPTURE, tmp_path, ignore=shutil.ignore_patterns("*times*", "past_*"), dirs_exist_ok=True
    )
    found = verdict(read(capture=str(tmp_path), engine="local"))
    ages = {name: group["age_ms"] for name, group in groups(found).items()}
    assert ages == dict.fromkeys(ages) | {"refunds": 0}  # to which nothing was ever sent


def test_records_that_lack_some_are_never_fine(tmp_path: Path) -> None:
    """A report says of the same records what `lag` and `check` say, and ends like them."""
    records = pq.read_table(folder_of("healthy") / "records").cast(schemas.RAW)
    state = records.filter(pc.equal(records.column("topic"), STATE_TOPIC))
    kept = pc.invert(pc.is_in(state.column("offset"), pa.array([5, 6], pa.int64())))
    for name, some in {"whole": state, "part": state.filter(kept)}.items():
        pq.write_table(some, tmp_path / f"{name}.parquet")
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("whole", "part")}
    found = {name: verdict(read(raw=file, engine="local")) for name, file in files.items()}
    assert [found[name]["complete"] for name in found] == [True, False]
    missing = [rule for rule in found["part"]["rules"] if rule["rule"] == "completeness"]
    assert [rule["level"] for rule in missing] == ["unknown"]
    assert "whose records are missing" in found["part"]["headline"]
    assert not found["whole"]["rules"]

    def ran(path: Path, out: Path, *_: Any) -> Executed:
        done = nbformat.read(path, as_version=4)
        done.cells[-1].outputs = [new_output("display_data", {VERDICT_MIME: found["part"]})]
        nbformat.write(done, out)
        return Executed(done, None)

    made = report("daily", {"capture": "demo"}, out=tmp_path / "out", figures=False, run=ran)
    assert (made.in_part, made.run.error) == (True, None)


def test_a_lag_that_is_not_known_counts_by_its_reason(tmp_path: Path) -> None:
    whole = verdict(read(capture=str(CAPTURE), engine="local"))
    found = groups(whole)
    # To one group records came, and nobody fetched any; to the other nothing was ever sent.
    assert (found["analytics"]["level"], found["refunds"]["level"]) == ("warning", "ok")
    assert found["analytics"]["why"].startswith("records arrived, but none is")
    told = [(one["rule"], one["level"]) for one in found["analytics"]["rules"]]
    assert told == [("lag", "warning")]
    assert found["refunds"]["why"] == "nothing to fetch has arrived yet (2 share partitions)"
    assert found["billing"]["why"] == "the group has no members"
    assert whole["headline"] == (
        "6 of 7 share groups need attention. notifications and 4 more: the group has no members."
    )

    healthy = CAPTURE.parent / "scenarios" / "healthy"
    assert verdict(read(capture=str(healthy), engine="local"))["level"] == "ok"
    capture = half_known(healthy, tmp_path / "half")
    half = verdict(read(capture=str(capture), engine="local"))
    (group,) = half["groups"]
    assert (half["level"], group["level"]) == ("unknown", "unknown")
    assert group["why"].startswith(
        "lag: the end offset could not be read from the partition's leader ("
    )


def test_what_was_never_fetched_is_fine_only_where_nothing_came() -> None:
    def found(*writes: Write, reset: str = "latest", **more: Any) -> list[tuple[str, str]]:
        settings = {"share.auto.offset.reset": reset}
        source = WrittenInput(writes, partitions_of_topic=2, group_settings=settings, **more)
        said = unknown_lags(gather(source, "local")).get("billing", [])
        return [(level, words.split(" (")[0]) for level, words in said]

    never, known = Write(600, -1, count=-1), Write(600, 6600, partition=1)
    assert found(known) == []
    came = ("warning", "records have arrived, but none has been finished or released yet")
    assert found(never, known) == [came]  # a record a second arrives
    assert found(never, rate=0.0, reset="earliest") == [("ok", "nothing to fetch has arrived yet")]
    dark = found(never, known, unreachable=frozenset({0}))
    words = "nothing has been finished or released yet; whether records arrived is unknown"
    expected = [("unknown", words)]
    assert dark == expected
    before = WrittenInput([never], rate=0.0).past_offsets(
        [], [NOW - timedelta(minutes=30), NOW - timedelta(minutes=1)]
    )
    # Nothing came until a minute ago; the leader is gone since.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(WrittenInput, "past_offsets", lambda *_: before)
        assert found(never, rate=0.0, unreachable=frozenset({0})) == dark
    unread = found(never, known, unreachable=frozenset({1}))
    said = "the end offset could not be read from the partition's leader"
    assert unread == [came, ("unknown", said)]


def test_there_is_no_forecast_where_nobody_works() -> None:
    """In no part of a report: verdict, table of progress, chart."""
    case = read(capture=str(CAPTURE), engine="local")
    alone = {"billing", "clickstream", "fraud-check", "notifications", "shipping"}
    drains = {name: group["drain"] for name, group in groups(verdict(case)).items()}
    assert {name for name, drain in drains.items() if drain == "the group is empty"} == alone
    progress = case.evidence.progress.to_pylist()
    rows = [row for row in progress if row["drain"] not in ("drained", "unknown")]
    drain = ("drain", "drain_ms", "drain_low_ms", "drain_high_ms")
    assert {tuple(row[name] for name in drain) for row in rows} == {("nobody", None, None, None)}
    assert {row["group_id"] for row in rows} == alone
    none = '</td><td class="sr-n"><bdi>-</bdi>'
    assert cells.progress(case).html.count(f"<bdi>nobody</bdi>{none}{none}") == len(rows) == 23
    said = cells.drain(case)  # no point, so a sentence and no chart
    assert isinstance(said, Block)
    assert "there are no members in 23 of 32 share partitions." in said.text
    assert "billing: 6 share partitions: nobody, the group has no members" in said.text
    # Who works, but has not for longer than a lock lasts, has no forecast either.
    steady = [Write(ago, 7000 - 2 * ago) for ago in range(3010, 0, -60)]
    for writes, words in ((steady, "in "), (steady[:-1], "paused"), (steady[:-8], "stalled")):
        ahead = forecast(gather(WrittenInput(writes), "local").progress.to_pylist())
        assert ahead.words.startswith(words)


def test_a_table_leaves_out_what_has_no_value() -> None:
    rows: list[Any] = [{"a": "x", "b": None, "n": 1234}, {"a": None, "b": None, "n": None}]
    made = table(rows, {"A": "a", "B": "b", "N": "n"}, "c.", "")
    assert "Left out, as they are empty: B." in made.html
    headings = re.findall(r'<th scope="col"[^>]*>(\w)<', made.html)
    assert (headings, made.html.count('<td class="sr-n">')) == (["A", "N"], 2)
    assert made.text.splitlines()[0].split() == ["A", "B", "N"]


def test_a_proposal_says_whether_it_is_enough() -> None:
    case = read(capture=str(CAPTURE.parent / "scenarios" / "slow"), over=3600, engine="local")
    made = propose(case, assignors=[], members=[4, 40], minutes=1, seeds=7)
    found = {row["members"]: row for row in made.clearing.cells.to_pylist()}
    assert [(found[n]["drained"], found[n]["runs"]) for n in (4, 40)] == [(0, 7), (7, 7)]
    assert re.fullmatch(
        r"slow: simple with 40 members clears the lag: drained in \S+ s, p95 age .+; as it is "
        r"\(simple, 2 members\): not drained within 1m, lag grows to 1,\d+, p95 age .+; no "
        r"assignor does with 4 members\.",
        made.words,
    )
    drains = [row["drain_ms"] for row in made.clearing.comparison.decision()]
    assert drains == [None, None, found[40]["drain_ms"]]
    shown = cells.compared(made)
    # That of a notebook, whose verdict is about the variants: here the headline says it.
    of_notebook = made.clearing.comparison._repr_mimebundle_()
    rows = re.compile("<tbody>.*?</tbody>", re.DOTALL)
    assert rows.findall(shown.html) == rows.findall(of_notebook["text/html"])
    assert "not in 1m" in shown.html
    best = re.findall(r'<bdi class="best">([^<]+)</bdi>', shown.html)
    assert duration(found[40]["drain_ms"]) in best
    assert "not in 1m" not in best
    assert shown.html.count("<svg") == 2  # of the variants; there is none of the group as it is
    assert "<summary>All measures</summary>" in shown.html
    drawn = cells.clearing(made).light.layout.meta["title"]
    assert drawn.startswith("simple with 40 members clears the lag in ")
    for wrong in ({"minutes": "1"}, {"minutes": 0}, {"seeds": 1.5}, {"seeds": 0}):
        (name,) = wrong
        with pytest.raises(InputError, match=f"'{name}' must be a number above 0"):
            propose(case, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"limit of 2e\+07: give fewer minutes"):
        propose(case, minutes=1e6)
    small = propose(case, assignors=[], members=[4], minutes=1, seeds=3)
    assert small.words == (
        "slow: as it is (simple, 2 members) does not clear the lag within 1m, nor does simple "
        "with up to 4 members."
    )


def test_a_proposal_finds_what_clears_the_lag_of_the_demo() -> None:
    case = read(capture=str(folder_of("demo")), group=["fulfilment"], over=3600, engine="local")
    made = propose(case, assignors=["lag-aware-sticky"], seeds=2)
    members = made.clearing.cells["members"].unique().to_pylist()
    assert (members, made.clearing.horizon_ms) == ([3, 5, 7, 9], 600_000)
    (answer,) = made.clearing.answers
    assert answer["variant"] == "lag-aware-sticky \u00b7 9 members"
    assert answer["drain_ms"] == pytest.approx(462_000, rel=0.01)  # 7m 42s
    assert made.words.startswith(
        "fulfilment: lag-aware-sticky with 9 members clears the lag: drained in 7m "
    )


def test_a_proposal_says_nothing_of_work_that_is_not_known() -> None:
    case = read(capture=str(CAPTURE), engine="local")
    # Nor is it known who left, of whose work their records would tell.
    gone = case.evidence.groups.drop_columns(["emptied"])
    gone = gone.add_column(
        case.evidence.groups.column_names.index("emptied"),
        case.evidence.groups.schema.field("emptied"),
        pa.nulls(len(gone), case.evidence.groups.schema.field("emptied").type),
    )
    case = replace(case, evidence=replace(case.evidence, groups=gone))
    made = propose(case, assignors=["lag-aware-sticky"], members=[1, 2], minutes=0.2, seeds=2)
    assert made.clearing.cells["members"].unique().to_pylist() == [1, 2]
    assert made.clearing.answers == []
    assert made.words.startswith("notifications: not known: ")
    assert "the time that a record takes is not known" in made.words
    assert "1 ms of work per record, since the group has no members to measure" in made.assumed
    its = cells.only(case, made.group)
    found = cells.verdict(its)
    assert [group["group_id"] for group in found["groups"]] == ["notifications"]
    assert found["unknown"] == []
    assert "billing" not in cells.causes(found).html + cells.headroom(its).html


def test_what_is_wrong_in_many_groups_is_reported_once() -> None:
    found = verdict(read(capture=str(CAPTURE), engine="local"))
    shown, advice = cells.causes(found).html, "start consumers; kafka-share-groups.sh"
    assert (shown.count("the group has no members"), shown.count(advice)) == (1, 1)
    worst, deleted, never = group_findings(found["groups"])
    alone = ["notifications", "billing", "shipping", "clickstream", "fraud-check"]
    assert (worst["level"], [at["group_id"] for at in worst["places"]]) == ("critical", alone)
    assert all(f"<bdi>{name}</bdi></strong>" in shown for name in alone)
    assert "partitions 0-5; holds 2,390 offsets" in shown
    told = (deleted["level"], deleted["title"])
    assert told == ("warning", "records were deleted before the group finished them")
    # How bad that is says the report itself, and what to do the cause.
    assert (never["level"], never["title"][:25]) == ("warning", "records arrived, but none")
    rule = {"rule": "big", "level": "critical", "topic": "orders", "partition": 1, "summary": "lag"}
    own = rule | {"rule": "drain", "summary": "nothing is being finished", "is_own": True}
    many = group_findings([{"group_id": name, "causes": [], "rules": [rule, own]} for name in "ab"])
    seen = [(one["title"], one["is_rule"], len(one["places"])) for one in many]
    assert seen == [("big", True, 2), ("nothing is being finished", False, 2)]
    changed = {"since": found["as_of"], "comparable": True, "lasting_causes": worst["places"]}
    changed |= {name: [] for name in ("groups", "new_causes", "gone_causes")}
    assert cells.changes({"changes": changed}).html.count("the group has no members") == 1
    given = ("0,1,2,5,7,8", "4", "0,1,2,...")
    assert [ranges(one) for one in given] == ["0-2, 5, 7, 8", "4", "0-2, ..."]


def test_a_review_of_capacity_says_who_keeps_up() -> None:
    case = read(capture=str(CAPTURE), engine="local")
    said = cells.keeping_up(case, verdict(case)).data[VERDICT_MIME]["headline"]
    assert said == (
        "1 of 7 share groups fell behind: notifications, finished 9.99 of 16.7 records/s. "
        "billing and 4 more have no members now and lag."
    )


def test_of_several_groups_the_members_of_the_one_with_most_lag_are_shown() -> None:
    """A matrix is of one group."""
    case = read(capture=str(CAPTURE.parent / "scenarios" / "slow"), engine="local")

    def renamed(table: pa.Table) -> pa.Table:
        other = table.set_column(0, "group_id", pa.array(["another"] * len(table), pa.string()))
        if "lag" in table.column_names:
            other = with_column(other, "lag", pc.add(other.column("lag"), 1))
        return pa.concat_tables([table, other])

    now = case.evidence
    both = replace(case, evidence=replace(now, lag=renamed(now.lag), members=renamed(now.members)))
    shown = cells.assignments(both)
    assert isinstance(shown, Chart)
    assert shown.light.layout.meta["title"].startswith("another: ")
    nobody = cells.assignments(read(capture=str(CAPTURE), engine="local"))
    assert isinstance(nobody, Block)
    assert nobody.text == "None of the groups has members."


def test_lag_that_nobody_can_read_is_not_called_none() -> None:
    """An open transaction holds all that a group of read_committed lags behind."""
    (found,) = judge_groups(open_once("open_transaction").evidence())
    assert found["lag"] > 0
    assert found["drain"] == "stalled"
    assert 5_000 < found["age_ms"] < 7_000  # since the transaction began
    (done,) = judge_groups(open_once("healthy").evidence())
    assert (done["lag"], done["drain"], done["age_ms"]) == (0, "no lag", 0)
