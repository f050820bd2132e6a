"""An incident report: how the lag moved, the first sign, what began, what is not known."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.metrics.signs import signs_arrow
from sharelag.reports import cells, history
from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.incident import MOST_WORDS, _began, _moved, happened, headline
from sharelag.reports.inputs import Case, read
from sharelag.reports.verdict import verdict
from sharelag.sources.recorded import folder_of, samples
from sharelag.tables.lines import plain_rows
from tests.support.chapters import CAPTURE

HEALTHY = CAPTURE.parent / "scenarios" / "healthy"
NOTHING = "o offset was released or archived, and no share partition was reset. "
AS_FAR = "As far as the records show, "
BEGIN = datetime(2026, 11, 21, 11, 0, tzinfo=UTC)


def test_an_incident_is_what_has_happened_since() -> None:
    case = read(capture=str(CAPTURE), engine="local")
    result = verdict(case)
    block = cells.happened(case, result)
    assert block.data[VERDICT_MIME]["headline"] == (
        "clickstream and 4 more: the group has no members since 2026-11-21 11:44:17 UTC; "
        "start consumers."
    )
    said = block.data[VERDICT_MIME]["story"]
    assert said in block.html
    assert said == (
        "Since 2026-11-21 11:43:29 UTC (1m 34s) the lag of notifications grew by 1,092 to 2,882 "
        "(since 11:43:52 UTC, when it was first known), and that of 1 more, too; that of 2 is "
        "unknown. First sign at 11:43:34 UTC: billing released offsets of orders-4. From 11:44:17 "
        "UTC on, first clickstream, then 4 more: the group has no members."
    )
    mine = case.evidence.lag.filter(pc.equal(case.evidence.lag.column("group_id"), "notifications"))
    assert pc.sum(mine.column("lag")).as_py() == 2882
    late = read(capture=str(CAPTURE), since="2026-11-21T11:44:50Z", engine="local")
    said = happened(late, verdict(late))
    assert (
        f"the lag of no share group with a known lag grew; that of 2 is unknown. N{NOTHING}" in said
    )
    assert said.endswith(verdict(late)["headline"]), "nothing began since then"
    reset = read(capture=str(CAPTURE), group=["shipping"], engine="local")
    assert "First sign at 11:44:04 UTC: orders-0 of shipping was reset. " in happened(
        reset, verdict(reset)
    )
    figures = [cells.window_heat(case), cells.deliveries(case), cells.lag_over_time(case)]
    assert {one.light.layout.meta["facts"][0][:29] for one in figures} == {
        "As of 2026-11-21 11:45:03 UTC"
    }
    assert "4 deliveries below the limit" in figures[1].light.layout.meta["title"]
    shown = cells.signs(case).html
    assert "Times are UTC on 2026-11-21." in shown
    assert "<bdi>11:43:34</bdi>" in shown
    assert "trial" not in shown, "nothing of it happened there"


# ---- how the lag moved ---------------------------------------------------------------------------


def moved(
    *lags: tuple[str, int, Sequence[object]],
    born: tuple[tuple[str, int], ...] = (),
    begin: datetime = BEGIN,
) -> str:
    """Lags of share partitions minute by minute; a dash: it is not there."""
    rows = [
        {
            "group_id": group,
            "topic_id": "T",
            "partition": partition,
            "as_of": BEGIN + timedelta(minutes=n),
            "lag": lag,
        }
        for group, partition, known in lags
        for n, lag in enumerate(known)
        if lag != "-"
    ]
    named = [
        {"group_id": group, "topic_id": "T", "partition": partition} for group, partition in born
    ]
    keys = pa.Table.from_pylist(
        named, schema=pa.schema([schemas.TIMELINE.field(name) for name in history.KEY])
    )
    names = sorted({group for group, *_ in lags})
    return _moved(pa.Table.from_pylist(rows, schema=schemas.TIMELINE), names, keys, begin)


def test_a_lag_that_is_not_known_now_has_not_grown() -> None:
    assert moved(("g", 0, [100, 900, None])) == "it is unknown how the lag changed"
    assert (
        moved(("g", 0, [100, 900, 900]), ("g", 1, [1, 1, None]))
        == "it is unknown how the lag changed"
    )
    assert moved(("g", 0, [None, None, 900])) == "it is unknown how the lag changed", (
        "known only once"
    )
    assert moved(("g", 0, [None, None, None])) == "it is unknown how the lag changed"


def test_what_is_gone_is_no_lag_any_more() -> None:
    deleted = ("g", 1, [100, 900, "-"])
    assert moved(("g", 0, [10, 10, 10]), deleted) == "the lag of no share group grew"
    assert moved(("g", 0, [10, 10, 200]), deleted) == "the lag of g grew by 90 to 200"


def test_what_is_born_begins_without_lag() -> None:
    lags = (("g", 0, [7, 7, 7, 7, 7]), ("g", 1, ["-", "-", "-", 5000, 5010]))
    assert moved(*lags, born=(("g", 1),)) == "the lag of g grew by 5,010 to 5,017"
    # Not seen to be created: its records before are gone.
    assert (
        moved(*lags)
        == "the lag of g grew by 10 to 5,017 (since 11:03:00 UTC, when it was first known)"
    )
    whole = (("g", 0, ["-", "-", "-", 5000, 5010]), ("h", 0, [1, 1, 1, 1, 1]))
    new = "the lag of g grew by 10 to 5,010 (since 11:03:00 UTC, when it was first known)"
    assert moved(*whole, born=(("g", 0),)) == new, (
        "a group that was not there had no lag, rather than none left"
    )


def test_groups_of_unknown_lag_are_named() -> None:
    steady, dark = ("g", 0, [10, 10, 10]), ("h", 0, [None, None, None])
    assert (
        moved(steady, dark)
        == "the lag of no share group with a known lag grew; that of 1 is unknown"
    )
    assert (
        moved(("g", 0, [10, 10, 12]), dark) == "the lag of g grew by 2 to 12; that of 1 is unknown"
    )
    assert moved(steady) == "the lag of no share group grew"


def test_a_report_says_since_when_a_lag_is_known() -> None:
    late = ("h", 0, [None, None, None, 5, 5])
    assert (
        moved(("g", 0, [3, 3, 3, 3, 3]), late)
        == "the lag of no share group grew since it was first known"
    )
    grew = ("h", 0, [None, None, None, 5, 6])
    two = "the lag of g grew by 9 to 9, and that of 1 more, since it was first known"
    assert moved(("g", 0, [0, 3, 3, 3, 9]), grew) == two
    # What share partitions that are gone were before is not looked at.
    gone = ("g", 1, [900, "-", "-", "-", "-"])
    begin = BEGIN + timedelta(minutes=1)
    assert (
        moved(("g", 0, ["-", 0, 3, 3, 9]), gone, born=(("g", 0),), begin=begin)
        == "the lag of g grew by 9 to 9"
    )


# ---- the first sign, and that there was none -----------------------------------------------------


def kept(folder: Path, of: Path, keep: Callable[[pa.Table], Any]) -> Case:
    """A capture of which only some records of the state topic are left."""
    shutil.copytree(of, folder)
    for path in (folder / "records").iterdir():
        records = pq.read_table(path)
        is_state = pc.equal(records.column("topic"), "__share_group_state")
        pq.write_table(records.filter(pc.or_(pc.invert(is_state), keep(records))), path)
    return read(capture=str(folder), engine="local")


def state_partition(records: pa.Table, partition: int) -> pa.ChunkedArray:
    return pc.equal(records.column("partition"), partition)


def test_nothing_happened_only_where_all_is_known(tmp_path: Path) -> None:
    whole = read(capture=str(HEALTHY), engine="local")
    assert f" N{NOTHING}" in happened(whole, verdict(whole))
    assert AS_FAR not in cells.signs(whole).html
    missing = {
        "gap": lambda records: pc.not_equal(records.column("offset"), 10),
        # One share partition is seen later than the others, and not from its beginning on.
        "pruned": lambda records: pc.or_(
            pc.invert(state_partition(records, 3)), pc.greater(records.column("offset"), 5)
        ),
    }
    for name, keep in missing.items():
        case = kept(tmp_path / name, HEALTHY, keep)
        assert bool(case.evidence.gaps.num_rows) == (name == "gap")
        assert f" {AS_FAR}n{NOTHING}" in happened(case, verdict(case)), name
        assert f"{AS_FAR}no offset was released or archived" in cells.signs(case).html, name


def test_a_step_that_is_not_known_may_be_a_sign() -> None:
    case = read(capture=str(HEALTHY), engine="local")
    since = case.evidence.as_of - case.known_span
    steps = case.bench.history(since=since).table.select(schemas.HISTORY.names)

    def signs(steps: pa.Table) -> pa.Table:
        return signs_arrow(steps, since)

    assert history.is_whole(case, signs(steps))
    assert history.is_whole(case, history.signs(case))
    place = steps.schema.get_field_index("released")
    blind = steps.set_column(place, "released", pa.nulls(steps.num_rows, pa.int64()))
    assert not history.is_whole(case, signs(blind))
    place = steps.schema.get_field_index("follows")
    after = steps.set_column(place, "follows", pa.repeat(pa.scalar(False), steps.num_rows))
    assert not history.is_whole(case, signs(after))
    assert not history.is_whole(
        replace(case, evidence=replace(case.evidence, rejected=1)), signs(steps)
    )
    # Nothing of a share partition need come after a gap.
    gap = pa.Table.from_pylist(
        [{"topic": "t", "partition": 0, "first_offset": 1, "end_offset": 2}], schemas.GAPS
    )
    assert not history.is_whole(
        replace(case, evidence=replace(case.evidence, gaps=gap)), signs(steps)
    )
    # Before its first write there is no start offset, and nothing that could be given back.
    never = read(capture=str(CAPTURE), group=["refunds"], engine="local")
    since = never.evidence.as_of - never.known_span
    steps = never.bench.history(since=since).table.select(schemas.HISTORY.names)
    assert history.is_whole(never, signs(steps))
    assert history.is_whole(never, signs(steps.slice(1))), "a snapshot of the same is no news"


def test_a_first_sign_is_the_first_that_is_known(tmp_path: Path) -> None:
    whole = kept(
        tmp_path / "whole", CAPTURE, lambda records: pc.greater_equal(records.column("offset"), 0)
    )
    assert " First sign at 11:43:34 UTC" in happened(whole, verdict(whole))
    shown = cells.signs(whole)
    assert " None of this happened in " in shown.html
    later = datetime(2026, 11, 21, 11, 44, 10, tzinfo=UTC)
    pruned = kept(
        tmp_path / "pruned",
        CAPTURE,
        lambda records: pc.greater_equal(records.column("timestamp"), pa.scalar(later)),
    )
    assert " First known sign at 11:4" in happened(pruned, verdict(pruned))
    assert f" {AS_FAR}none of this happened in " in cells.signs(pruned).html
    # The first snapshot that is left is no reset; those of shipping were before.
    found = history.signs(pruned)
    assert found.column("first_reset").null_count == found.num_rows
    assert set(history.born(found).column("group_id").to_pylist()) == {"clickstream"}


def test_a_state_that_was_created_is_no_reset() -> None:
    found = history.signs(read(capture=str(CAPTURE), engine="local"))
    rows = plain_rows(found)
    resets = {(row["group_id"], row["partition"]) for row in rows if row["first_reset"]}
    assert resets == {("shipping", partition) for partition in range(6)}
    assert {row["group_id"] for row in rows} > {"shipping", "billing"}
    first = [
        min(row[n] or "9" for n in ("first_released", "first_archived", "first_reset"))
        for row in rows
    ]
    assert first == sorted(first)
    assert history.born(found).num_rows == len(rows), "the recording begins before the first group"


# ---- what began ----------------------------------------------------------------------------------


def cause(
    group: str,
    since: str | None,
    severity: str = "critical",
    words: str = "the group has no members",
) -> Any:
    one = {"cause": "x", "severity": severity, "summary": words, "advice": None, "since": since}
    return {"group_id": group, "causes": [one], "rules": []}


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        (
            [cause("a", "2026-11-21T10:59:00Z"), cause("b", "2026-11-21T11:05:00Z")],
            "Since 11:05:00 UTC, b: {}",
        ),
        ([cause("a", None), cause("b", "2026-11-21T11:05:00Z")], "Since 11:05:00 UTC, b: {}"),
        ([cause("a", None), cause("b", "2026-11-21T10:05:00Z")], None),
        (
            [cause(name, "2026-11-21T11:05:00Z") for name in "abc"],
            "Since 11:05:00 UTC, a and 2 more: {}",
        ),
        (
            [cause("a", "2026-11-21T11:06:00Z"), cause("b", "2026-11-21T11:05:00Z")],
            "From 11:05:00 UTC on, first b, then 1 more: {}",
        ),
        (
            [
                cause(name, f"2026-11-21T11:0{minute}:00Z")
                for name, minute in (("a", 5), ("b", 5), ("c", 6))
            ],
            "From 11:05:00 UTC on, first a and 1 more, then 1 more: {}",
        ),
        # The worst first, however late it began.
        (
            [
                cause("a", "2026-11-21T11:01:00Z", "warning", "slow"),
                cause("b", "2026-11-21T11:05:00Z"),
            ],
            "Since 11:05:00 UTC, b: {}",
        ),
    ],
)
def test_what_began_since_then_and_where(causes: list[Any], said: str | None) -> None:
    assert _began({"groups": causes, "rules": []}, BEGIN) == (
        said and said.format("the group has no members")
    )


def test_a_cause_that_is_older_elsewhere() -> None:
    case = read(capture=str(CAPTURE), since="2026-11-21T11:44:20Z", engine="local")
    said = happened(case, verdict(case))
    # Of clickstream everybody left at 11:44:17.
    assert said.endswith(
        " From 11:44:32 UTC on, first billing, then 3 more: the group has no members."
    )


@pytest.mark.parametrize("name", sorted(samples()))
def test_a_headline_is_short(name: str) -> None:
    case = read(capture=str(folder_of(name)), engine="local")
    result = verdict(case)
    words = headline(case, result)
    assert len(words.split()) <= MOST_WORDS
    if words != result["headline"]:  # something began: since when, and what to do
        assert re.fullmatch(r".+: .+ since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; .+\.", words)


def test_what_began_has_its_short_name_where_the_sentence_would_be_too_long() -> None:
    case = read(capture=str(folder_of("demo")), group="invoicing", engine="local")
    assert headline(case, verdict(case)) == (
        "invoicing: open transaction since 2026-11-23 12:23:08 UTC; "
        "find and abort it with kafka-transactions.sh."
    )
