"""Reports of an incident and of capacity: how the lag moved, the first sign, what is not known."""

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

from sharelag import gather, samples, schemas
from sharelag.errors import InputError
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.events import first_trouble
from sharelag.replay.moment import Choice
from sharelag.reports import capacity, cells, incident, notebooks
from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.case import Case, read, verdict
from sharelag.reports.incident import (
    MOST_WORDS,
    _describe_beginning,
    _describe_lag,
    describe_events,
    headline,
)
from sharelag.tables.lines import plain_rows
from sharelag.workbench import Workbench
from tests.support.captures import VARIED
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.records import with_column
from tests.support.written_input import Write, WrittenInput

HEALTHY = CAPTURE.parent / "scenarios" / "healthy"
NOTHING = "o offset was released or archived, and no share partition was reset. "
AS_FAR = "As far as the records show, "
BEGIN = datetime(2026, 11, 21, 11, 0, tzinfo=UTC)
HOSTILE = "<img src=x onerror=1>"
#: A record a second into each of two partitions, 7,200 by now.
WRITES = (Write(600, 6600, group=HOSTILE), Write(600, 7000), Write(600, 6900, partition=1))


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
    said = describe_events(late, verdict(late))
    words = f"the lag of no share group with a known lag grew; that of 2 is unknown. N{NOTHING}"
    assert words in said
    assert said.endswith(verdict(late)["headline"]), "nothing began since then"
    reset = read(capture=str(CAPTURE), group=["shipping"], engine="local")
    told = describe_events(reset, verdict(reset))
    assert "First sign at 11:44:04 UTC: orders-0 of shipping was reset. " in told
    figures = [cells.window_heat(case), cells.deliveries(case), cells.lag_over_time(case)]
    found = {one.light.layout.meta["facts"][0][:29] for one in figures}
    assert found == {"As of 2026-11-21 11:45:03 UTC"}
    assert "4 deliveries below the limit" in figures[1].light.layout.meta["title"]
    shown = cells.signs(case).html
    assert "Times are UTC on 2026-11-21." in shown
    assert "<bdi>11:43:34</bdi>" in shown
    assert "trial" not in shown, "nothing of it happened there"


def test_since_a_moment_of_records_that_ended_long_ago() -> None:
    since = datetime(2026, 11, 21, 11, 44, 30, tzinfo=UTC)
    raw = str(CAPTURE / "records")
    case = read(raw=raw, since=since.isoformat(), engine="local")
    assert case.begin == since
    with pytest.raises(InputError, match="must be earlier than the moment of the report"):
        read(raw=raw, since="2026-11-21T12:00:00Z", engine="local")
    with pytest.raises(InputError, match="no share partition of nope was found"):
        read(raw=raw, topic="nope", engine="local")


# ---- how the lag moved ---------------------------------------------------------------------------
UNKNOWN = "it is unknown how the lag changed"
#: Share partitions, or two groups, whose lag is known from a moment on.
YOUNG = (("g", 0, [7, 7, 7, 7, 7]), ("g", 1, ["-", "-", "-", 5000, 5010]))
NEW_GROUP = (("g", 0, ["-", "-", "-", 5000, 5010]), ("h", 0, [1, 1, 1, 1, 1]))
STEADY, DARK = ("g", 0, [10, 10, 10]), ("h", 0, [None, None, None])
DELETED = ("g", 1, [100, 900, "-"])
SINCE = "(since 11:03:00 UTC, when it was first known)"


@pytest.mark.parametrize(
    ("lags", "born", "said"),
    [
        # What is not known now has not grown; nor has what is known only once.
        ([("g", 0, [100, 900, None])], [], UNKNOWN),
        ([("g", 0, [100, 900, 900]), ("g", 1, [1, 1, None])], [], UNKNOWN),
        ([("g", 0, [None, None, 900])], [], UNKNOWN),
        ([("g", 0, [None, None, None])], [], UNKNOWN),
        # What is gone is no lag any more.
        ([STEADY, DELETED], [], "the lag of no share group grew"),
        ([("g", 0, [10, 10, 200]), DELETED], [], "the lag of g grew by 90 to 200"),
        # What is born begins without lag; of what was not seen to be created, records are gone.
        (YOUNG, [("g", 1)], "the lag of g grew by 5,010 to 5,017"),
        (YOUNG, [], f"the lag of g grew by 10 to 5,017 {SINCE}"),
        # A group that was not there had no lag, rather than none left.
        (NEW_GROUP, [("g", 0)], f"the lag of g grew by 10 to 5,010 {SINCE}"),
        # Groups of unknown lag are counted.
        ([STEADY, DARK], [], "the lag of no share group with a known lag grew; that of 1 is unknown"),
        ([("g", 0, [10, 10, 12]), DARK], [], "the lag of g grew by 2 to 12; that of 1 is unknown"),
        ([STEADY], [], "the lag of no share group grew"),
        # Since when a lag is known.
        ([("g", 0, [3, 3, 3, 3, 3]), ("h", 0, [None, None, None, 5, 5])], [],
         "the lag of no share group grew since it was first known"),
        ([("g", 0, [0, 3, 3, 3, 9]), ("h", 0, [None, None, None, 5, 6])], [],
         "the lag of g grew by 9 to 9, and that of 1 more, since it was first known"),
    ],
)  # fmt: skip
def test_how_the_lag_moved(lags: Any, born: list[tuple[str, int]], said: str) -> None:
    assert moved(*lags, born=born) == said


def test_what_share_partitions_that_are_gone_were_before_is_not_looked_at() -> None:
    lags = (("g", 0, ["-", 0, 3, 3, 9]), ("g", 1, [900, "-", "-", "-", "-"]))
    said = moved(*lags, born=[("g", 0)], begin=BEGIN + timedelta(minutes=1))
    assert said == "the lag of g grew by 9 to 9"


def moved(
    *lags: tuple[str, int, Sequence[object]],
    born: Sequence[tuple[str, int]] = (),
    begin: datetime = BEGIN,
) -> str:
    """Lags of share partitions minute by minute; a dash: it is not there."""
    rows = [
        {"group_id": group, "topic_id": "T", "partition": partition, "lag": lag}
        | {"as_of": BEGIN + timedelta(minutes=n)}
        for group, partition, known in lags
        for n, lag in enumerate(known)
        if lag != "-"
    ]
    keys = pa.Table.from_pylist(
        [{"group_id": group, "topic_id": "T", "partition": number} for group, number in born],
        schema=pa.schema([schemas.TIMELINE.field(name) for name in incident.KEY]),
    )
    names = sorted({group for group, *_ in lags})
    return _describe_lag(pa.Table.from_pylist(rows, schema=schemas.TIMELINE), names, keys, begin)


# ---- the first sign, and that there was none -----------------------------------------------------
def kept(folder: Path, of: Path, keep: Callable[[pa.Table], Any]) -> Case:
    """A capture of which only some records of the state topic are left."""
    shutil.copytree(of, folder)
    for path in (folder / "records").iterdir():
        records = pq.read_table(path)
        is_state = pc.equal(records.column("topic"), "__share_group_state")
        pq.write_table(records.filter(pc.or_(pc.invert(is_state), keep(records))), path)
    return read(capture=str(folder), engine="local")


def test_windows_are_those_of_moments_over_the_whole_span() -> None:
    case = read(capture=str(CAPTURE), engine="local")
    keys = case.evidence.lag.select(schemas.SHARE_PARTITION).to_pylist()
    found = incident.windows_at(case, [tuple(key.values()) for key in keys], 4)
    moments = sorted(found.column("as_of").unique().to_pylist())
    step = case.known_span / 3
    assert moments == [case.evidence.as_of - n * step for n in (3, 2, 1, 0)]


def test_nothing_happened_only_where_all_is_known(tmp_path: Path) -> None:
    whole = read(capture=str(HEALTHY), engine="local")
    assert f" N{NOTHING}" in describe_events(whole, verdict(whole))
    assert AS_FAR not in cells.signs(whole).html
    missing = {
        "gap": lambda records: pc.not_equal(records.column("offset"), 10),
        # One share partition is seen later than the others, and not from its beginning on.
        "pruned": lambda records: pc.or_(
            pc.not_equal(records.column("partition"), 3), pc.greater(records.column("offset"), 5)
        ),
    }
    for name, keep in missing.items():
        case = kept(tmp_path / name, HEALTHY, keep)
        assert bool(case.evidence.gaps.num_rows) == (name == "gap")
        assert f" {AS_FAR}n{NOTHING}" in describe_events(case, verdict(case)), name
        assert f"{AS_FAR}no offset was released or archived" in cells.signs(case).html, name


def test_a_step_that_is_not_known_may_be_a_sign() -> None:
    def steps_of(case: Case) -> tuple[pa.Table, datetime]:
        since = case.evidence.as_of - case.known_span
        return case.bench.history(since=since).table.select(schemas.HISTORY.names), since

    def without(name: str, values: Any) -> pa.Table:
        return with_column(steps, name, values)

    case = read(capture=str(HEALTHY), engine="local")
    steps, since = steps_of(case)
    count = steps.num_rows
    assert incident.is_whole(case, first_trouble(steps, since))
    assert incident.is_whole(case, incident.signs(case))
    for changed in (
        without("released", pa.nulls(count, pa.int64())),
        without("follows", pa.repeat(pa.scalar(False), count)),
    ):
        assert not incident.is_whole(case, first_trouble(changed, since))
    # Nothing of a share partition need come after a gap.
    place = {"topic": "t", "partition": 0, "first_offset": 1, "end_offset": 2}
    for lacking in ({"rejected": 1}, {"gaps": pa.Table.from_pylist([place], schemas.GAPS)}):
        part = replace(case, evidence=replace(case.evidence, **lacking))
        assert not incident.is_whole(part, first_trouble(steps, since))
    # Before its first write there is no start offset, and nothing that could be given back.
    never = read(capture=str(CAPTURE), group=["refunds"], engine="local")
    steps, since = steps_of(never)
    assert incident.is_whole(never, first_trouble(steps, since))
    assert incident.is_whole(never, first_trouble(steps.slice(1), since)), "the same is no news"


def test_a_first_sign_is_the_first_that_is_known(tmp_path: Path) -> None:
    whole = kept(
        tmp_path / "whole", CAPTURE, lambda records: pc.greater_equal(records.column("offset"), 0)
    )
    assert " First sign at 11:43:34 UTC" in describe_events(whole, verdict(whole))
    shown = cells.signs(whole)
    assert " None of this happened in " in shown.html
    later = datetime(2026, 11, 21, 11, 44, 10, tzinfo=UTC)
    pruned = kept(
        tmp_path / "pruned",
        CAPTURE,
        lambda records: pc.greater_equal(records.column("timestamp"), pa.scalar(later)),
    )
    assert " First known sign at 11:4" in describe_events(pruned, verdict(pruned))
    assert f" {AS_FAR}none of this happened in " in cells.signs(pruned).html
    # The first snapshot that is left is no reset; those of shipping were before.
    found = incident.signs(pruned)
    assert found.column("first_reset").null_count == found.num_rows
    assert set(incident.born(found).column("group_id").to_pylist()) == {"clickstream"}


def test_a_state_that_was_created_is_no_reset() -> None:
    found = incident.signs(read(capture=str(CAPTURE), engine="local"))
    rows = plain_rows(found)
    resets = {(row["group_id"], row["partition"]) for row in rows if row["first_reset"]}
    assert resets == {("shipping", partition) for partition in range(6)}
    assert {row["group_id"] for row in rows} > {"shipping", "billing"}
    first = [
        min(r[n] or "9" for n in ("first_released", "first_archived", "first_reset")) for r in rows
    ]
    assert first == sorted(first)
    assert incident.born(found).num_rows == len(rows), "the recording begins before the first group"


# ---- what began ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("begun", "said"),
    [
        ("a 10:59, b 11:05", "Since 11:05:00 UTC, b: {}"),
        ("a, b 11:05", "Since 11:05:00 UTC, b: {}"),
        ("a, b 10:05", None),
        ("a 11:05, b 11:05, c 11:05", "Since 11:05:00 UTC, a and 2 more: {}"),
        ("a 11:06, b 11:05", "From 11:05:00 UTC on, first b, then 1 more: {}"),
        ("a 11:05, b 11:05, c 11:06", "From 11:05:00 UTC on, first a and 1 more, then 1 more: {}"),
        # The worst first, however late it began.
        ("a 11:01 warning, b 11:05", "Since 11:05:00 UTC, b: {}"),
    ],
)
def test_what_began_since_then_and_where(begun: str, said: str | None) -> None:
    words = "the group has no members"
    groups = []
    for group, *rest in map(str.split, begun.split(", ")):
        is_slow = rest[1:] == ["warning"]
        one = {"cause": "x", "severity": "warning" if is_slow else "critical", "advice": None}
        one["summary"] = "slow" if is_slow else words
        one["since"] = f"2026-11-21T{rest[0]}:00Z" if rest else None
        groups.append({"group_id": group, "causes": [one], "rules": []})
    found = _describe_beginning({"groups": groups, "rules": []}, BEGIN)
    assert found == (said and said.format(words))


def test_a_cause_that_is_older_elsewhere() -> None:
    case = read(capture=str(CAPTURE), since="2026-11-21T11:44:20Z", engine="local")
    said = describe_events(case, verdict(case))
    # Of clickstream everybody left at 11:44:17.
    assert said.endswith(
        " From 11:44:32 UTC on, first billing, then 3 more: the group has no members."
    )


@pytest.mark.parametrize("name", few_of(sorted(samples()), VARIED))
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


def case(*writes: Write, choice: Choice | None = None, **more: Any) -> Case:
    source = WrittenInput(writes or WRITES, partitions_of_topic=2, **more)
    bench = Workbench(source, choice=choice or Choice(), engine="local")
    return Case(bench, gather(source, "local", None, choice))


def test_the_group_that_holds_most_comes_last_and_names_are_escaped() -> None:
    shown = cells.reclaimable(case())
    names = ("partition", "groups", "group_id", "reclaimable")
    rows = [tuple(row[name] for name in names) for row in capacity.reclaimable(case())]
    assert rows == [(1, 1, "billing", 6900), (0, 2, HOSTILE, 6600)]
    assert "6900" in shown.text
    assert "<img" not in shown.html
    assert "&lt;img" in shown.html


def test_what_is_not_known_comes_last() -> None:
    rows = capacity.reclaimable(case(Write(600, -1, count=-1), Write(600, 0, partition=1)))
    assert [(row["partition"], row["reclaimable"]) for row in rows] == [(1, 0), (0, None)]


def test_it_says_who_else_may_read_the_topic() -> None:
    words = "use this for topics that only share groups read"
    assert words in cells.reclaimable(case()).html
    assert "another one may be further back" not in cells.reclaimable(case()).html
    chosen = case(choice=Choice(frozenset({"billing"})))
    assert [row["reclaimable"] for row in capacity.reclaimable(chosen)] == [7000, 6900]
    said = cells.reclaimable(chosen).html
    assert "Only the chosen groups are considered: another one may be further back." in said
    nothing = cells.reclaimable(case(Write(600, 0))).text
    assert nothing == "Share groups still need every log from its start."
    # Unknown is said, not left out.
    assert "-" in cells.reclaimable(case(Write(600, -1, count=-1))).text


def test_what_a_record_ttl_would_archive_of_each_group() -> None:
    """The source knows where the logs ended 300.5 s ago, at 6,899: nothing is estimated."""
    (first, second) = capacity.estimate_archived(case(), timedelta(seconds=300.5))
    assert (first["group_id"], first["effective_lag"]) == (HOSTILE, 600)
    assert second["effective_lag"] == 500
    assert (first["archived"], first["archived_low"], first["archived_high"]) == (299, 299, 299)
    assert second["archived"] == 0  # it has finished all that is so old
    shown = cells.archived(case(), 300.5)
    assert "at least 5m old. Kafka has no such setting yet" in " ".join(shown.html.split())


def test_a_sum_with_something_unknown_is_unknown_and_at_least_what_is_known() -> None:
    blind = case(*WRITES, unreachable=frozenset({1}))
    first, second = capacity.estimate_archived(blind, timedelta(seconds=100.5))
    assert (first["group_id"], first["archived"], first["archived_high"]) == (HOSTILE, 499, 499)
    assert (second["group_id"], second["effective_lag"], second["archived"], second["archived_high"]) == (
        "billing", None, None, None
    )  # fmt: skip
    assert second["archived_low"] == 99


def test_times_of_records_count_as_the_group_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read_committed group has its own times; no earlier end is known."""
    monkeypatch.setattr(WrittenInput, "past_offsets", lambda *_: schemas.OFFSETS.empty_table())
    for level in ("read_uncommitted", "read_committed"):
        found = case(Write(600, 6600), group_settings={"share.isolation.level": level})
        (row,) = capacity.estimate_archived(found, timedelta(seconds=601))
        assert (row["archived"], row["archived_low"], row["archived_high"]) == (0, 0, 0)


def test_the_capacity_report_takes_the_ttl_and_nothing_else_does() -> None:
    assert notebooks.read_parameters(notebooks.notebook("capacity"))["record_ttl"] == "24h"
    with pytest.raises(InputError, match="the parameter 'record_ttl' must be a duration"):
        notebooks.check_parameters(notebooks.notebook("capacity"), {"record_ttl": "soon"})
    with pytest.raises(InputError, match="must be positive"):
        cells.archived(case(), 0)
    declared = {n: notebooks.read_parameters(notebooks.notebook(n)) for n in notebooks.names()}
    assert [name for name, known in declared.items() if "record_ttl" in known] == ["capacity"]
    text = Path(notebooks.notebook("capacity")).read_text()
    assert "cells.reclaimable(case)" in text
    assert "cells.archived(case, record_ttl)" in text
