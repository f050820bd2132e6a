"""Charts of time and of parts: lag, rates, heat, windows, members, and what is unknown in them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sharelag
from sharelag import charts, explain, schemas
from sharelag.charts import palette, text
from sharelag.errors import InputError
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import DRAINED, DRAINS, NOBODY, STALLED, UNCERTAIN, UNKNOWN
from sharelag.replay.history import history_arrow
from sharelag.wire import SHARE_SNAPSHOT, decode_arrow, encode_record
from tests.support.charts import (
    CAUSES,
    NOW,
    TOPIC_ID,
    evidence,
    health,
    history,
    lag_rows,
    moments,
    renamed,
    row_of,
    timeline,
)
from tests.support.readings import open_once
from tests.support.records import raw, with_column
from tests.support.records import row as state_row


# ---- lag and age over time -----------------------------------------------------------------------
def moment_row(second: int, head: int | None, end: int | None, **more: Any) -> dict[str, Any]:
    lag = None if head is None or end is None else end - head
    offsets = {"start_offset": head, "effective_start_offset": head, "end_offset": end}
    offsets |= {"delivery_complete_count": 0, "lag": lag}
    at = NOW + timedelta(seconds=second)
    return row_of(schemas.TIMELINE, as_of=at) | offsets | more


def test_age_is_when_the_end_passed_the_oldest_unfinished_offset() -> None:
    schema = schemas.TIMELINE
    table = pa.Table.from_pylist(
        [
            *(moment_row(0, 50, 100), moment_row(10, 100, 200), moment_row(20, 150, 200)),
            *(moment_row(30, 200, 200), moment_row(40, None, 300, lag_reason="no_start_offset")),
        ],
        schema=schema,
    )
    made = charts.lag_over_time_records(table).to_pylist()
    assert [row["lag"] for row in made] == [50, 100, 50, 0, None]
    # 50 was there before the first moment; 100 came at 0 s, 150 half way between 0 s and 10 s.
    assert [row["age_ms"] for row in made] == [None, 10_000, 15_000, 0, None]
    assert [row["age_at_least_ms"] for row in made] == [0, None, None, None, None]
    figure = charts.lag_over_time_figure(charts.lag_over_time_records(table))
    assert list(figure.data[0].y) == [50, 100, 50, 0, None]
    assert list(figure.data[1].y) == [None, 10, 15, 0, None]
    said = "1 lag of 5: shaded; 1 age: a gap; 1 age older than the first"
    assert said in figure.layout.meta["facts"][1]
    assert figure.layout.meta["title"] == (
        "g: no lag was left at 2026-11-21 03:10:30 UTC; "
        "the most was 100 offsets, t-0 at 2026-11-21 03:10:10 UTC"
    )
    why = "no record has been finished or released yet, so the start<br />offset is unknown"
    assert figure.data[0].hovertext[4].endswith(f"lag not known: {why}<br>age not known")


def test_lines_step_between_known_ends_and_are_shaded_where_nothing_is_known() -> None:
    """An end that was asked only every second moment leaves no gap; a missing one does."""
    requested = {"lag_reason": "no_end_offset_then"}
    rows = [
        moment_row(0, 50, 100),
        moment_row(10, 60, None, **requested),
        moment_row(20, 60, 200),
        moment_row(30, 70, 250, lag=None, lag_reason="records_missing"),
        moment_row(40, 70, 260, lag=None, lag_reason="records_missing"),
        moment_row(50, 90, 300),
        moment_row(60, 90, None, **requested),  # nothing is known after it
    ]
    table = pa.Table.from_pylist(rows, schema=schemas.TIMELINE)
    figure = charts.lag_over_time_figure(charts.lag_over_time_records(table))
    assert list(figure.data[0].y) == [50, 140, None, None, 210, None]
    assert figure.data[0].line.shape == "hv"
    shaded = [(one.x0[11:19], one.x1[11:19]) for one in figure.layout.shapes]
    assert shaded == [("03:10:20", "03:10:50"), ("03:10:50", "03:11:00")]
    assert figure.layout.meta["facts"][1].startswith("Not known: 3 lags of 6: shaded;")
    found = charts.rates_over_time_records(table).to_pylist()
    assert (found[0]["arrived"], found[0]["finished"]) == (100, 10)
    whole = charts.lag_over_time_records(timeline("window_full"))
    figure = charts.lag_over_time_figure(whole)
    assert None not in figure.data[0].y
    assert not figure.layout.shapes
    assert "shaded" not in " ".join(figure.layout.meta["facts"])


def test_no_lag_is_not_reported_as_the_most_lag() -> None:
    table = pa.Table.from_pylist([moment_row(0, 5, 5), moment_row(1, 9, 9)], schemas.TIMELINE)
    figure = charts.lag_over_time_figure(charts.lag_over_time_records(table))
    assert figure.layout.meta["title"] == "g: no lag at any of the moments at which it is known"


def test_lines_are_the_worst_of_each_group_by_their_lag_now() -> None:
    def lags(group: str, partition: int, *lags: int | None) -> list[dict[str, Any]]:
        rows = [moment_row(n, 0, lag, lag=lag, group_id=group) for n, lag in enumerate(lags)]
        return [row | {"partition": partition} for row in rows]

    rows = lags("a", 0, 900, 900, 500) + lags("a", 1, 5, 5, 600)
    rows += lags("b", 0, 1, 2, 3) + lags("b", 1, 99, 9, None)
    rows += lags("gone", 0, 7777, 7777) + lags("dark", 0, None, None, None)
    table = charts.lag_over_time_records(pa.Table.from_pylist(rows, schema=schemas.TIMELINE))
    figure = charts.lag_over_time_figure(table, most=2)
    assert [trace.name for trace in figure.data[::3]] == ["a: t-1", "b: t-1"]
    assert list(figure.data[3].y) == [99, 9, None]
    assert figure.layout.meta["title"] == "a: t-1 has the most lag, 600 offsets, +595 in 2\u00a0s"
    assert (
        "Not drawn: 4 share partitions with less lag than another of their group, or of "
        "groups with less; 2 of them are gone or without a known lag at the last moment."
        in figure.layout.meta["facts"]
    )
    names = [trace.name for trace in charts.lag_over_time_figure(table, most=4).data[::3]]
    assert names == ["a: t-1", "a: t-0", "b: t-1", "b: t-0"]


def test_lines_are_those_with_the_most_lag() -> None:
    table = charts.lag_over_time_records(timeline("hot_partition"))
    figure = charts.lag_over_time_figure(table, most=2)
    assert (len(figure.data), figure.data[0].name) == (6, "hot-partition-orders-3")
    known = [one for one in figure.data[0].y if one is not None]
    most = pc.max(evidence("hot_partition").lag.column("lag")).as_py()
    assert known[-1] == most == pytest.approx(702, abs=50)
    assert "Not drawn: 4 share partitions with less lag." in figure.layout.meta["facts"]


# ---- windows -------------------------------------------------------------------------------------
def test_heat_ends_with_the_windows_as_they_are_now() -> None:
    table = charts.window_heat_records(history("poison"), "deliveries")
    last = {(row["topic_id"], row["partition"]): row["value"] for row in table.to_pylist()}
    seen = evidence("poison").observed.to_pylist()
    observed = {(r["topic_id"], r["partition"]): r["max_delivery_count"] for r in seen}
    assert (last, max(last.values())) == (observed, 4)
    spans = charts.window_heat_records(history("chapters"))
    lag = evidence("chapters").lag.to_pylist()
    known = {(r["group_id"], r["topic_id"], r["partition"]): r for r in lag}
    now = {(row["group_id"], row["topic_id"], row["partition"]): row for row in spans.to_pylist()}
    for place, row in known.items():
        if row["start_offset"] is None:
            assert now[place]["value"] is None
        else:
            assert now[place]["value"] == row["window_available"] + row["window_unknown"] + max(
                row["window_complete"] - (row["effective_start_offset"] - row["start_offset"]), 0
            )


def test_heat_is_not_known_before_the_first_record_and_after_a_tombstone() -> None:
    table = charts.window_heat_records(history("chapters"))
    trial = table.filter(
        pc.and_(pc.equal(table.column("group_id"), "trial"), pc.equal(table.column("partition"), 0))
    )
    known = trial.slice(0, 120).column("value").is_valid().to_pylist()
    assert (known[0], any(known), known[-1]) == (False, True, False)
    figure = charts.window_heat_figure(table)
    heat, gaps = figure.data
    unknown = sum(value is None for line in heat.z for value in line)
    width = sum(gaps.x) / unknown
    last, begin = pc.max(table["as_of"]).as_py(), pc.min(table["begin"]).as_py()
    step = (last - begin).total_seconds() * 1000 / 120
    assert (width, gaps.marker.pattern.shape) == (pytest.approx(step, rel=0.01), "\\")
    assert "Not known: the hatched stretches" in figure.layout.meta["facts"][1]
    now = pc.max(table.column("as_of")).as_py() + timedelta(seconds=30)
    later = charts.window_heat_records(history("chapters"), as_of=now)
    facts = charts.window_heat_figure(later).layout.meta["facts"]
    assert facts[0].startswith(f"As of {text.moment(now)}. ")
    last = slice(119, None, 120)
    assert later.column("value").to_pylist()[last] == table.column("value").to_pylist()[last]
    with pytest.raises(InputError, match="unknown measure 'width'"):
        charts.window_heat_records(history("chapters"), "width")


def test_heat_of_several_states_is_that_of_the_one_that_kafka_read() -> None:
    """The coordinator of the former state partition, 9, still rewrites its snapshot."""
    wide = [(10, 19, 0, 1)]
    states = [state_row(10, [], create_timestamp=2_000), *[state_row(10, wide)] * 2]
    states = [one | {"snapshot_epoch": n, "write_timestamp": n} for n, one in enumerate(states)]
    records = pa.table(raw([encode_record(SHARE_SNAPSHOT, one) for one in states]))
    records = with_column(records, "partition", pa.array([3, 9, 9], pa.int32()))
    times = pa.array([2_000, 1_000, 3_000]).cast(schemas.TIMESTAMP)
    table = history_arrow(decode_arrow(with_column(records, "timestamp", times)).records)
    assert pc.sum(table.column("rewritten")).as_py() == 1
    for begin in (None, datetime.fromtimestamp(1.5, UTC)):
        heat = charts.window_heat_records(table, stretches=4, begin=begin)
        assert heat.column("value").to_pylist() == [10, 0, 0, 0]


def test_rates_over_time_add_up_to_what_moved() -> None:
    table = timeline("hot_partition")
    made = charts.rates_over_time_records(table)
    for partition in range(6):
        mine = table.filter(
            pc.and_(pc.equal(table["partition"], partition), table["end_offset"].is_valid())
        )
        ends = mine.column("end_offset").to_pylist()
        moved = made.filter(pc.equal(made.column("partition"), partition))
        assert pc.sum(moved.column("arrived")).as_py() == ends[-1] - ends[0]
    figure = charts.rates_over_time_figure(made)
    assert "lag grows since 2026-11-21 " in figure.layout.meta["title"]
    gaps = [sum(value is None for value in trace.y) for trace in figure.data]
    assert figure.layout.meta["facts"][1].startswith(
        f"Not known: {gaps[0]} arrival and {gaps[1]} completion rates"
    )


def test_rates_over_many_moments_are_pooled_to_what_can_be_seen() -> None:
    """Two offsets arrive and one is finished every other span; the unknown is a gap."""
    known = [moment_row(n, n // 2, 2 * (n // 2)) for n in range(161)]
    gone = [row | {"end_offset": None} if 40 <= n <= 43 else row for n, row in enumerate(known)]
    for rows, gaps in ((known, 0), (gone, 1)):
        made = charts.rates_over_time_records(pa.Table.from_pylist(rows, schema=schemas.TIMELINE))
        figure = charts.rates_over_time_figure(made)
        arrivals, completions = (list(trace.y) for trace in figure.data)
        middle = NOW + timedelta(seconds=2)  # of the first four spans
        assert {trace.x[0] for trace in figure.data} == {f"{middle:%F %T}.000"}
        assert (len(arrivals), arrivals.count(None)) == (40, gaps)
        found = {rate for rate in arrivals if rate is not None}
        assert found == {1.0} | ({2 / 3} if gaps else set())
        assert set(completions) == {0.5}


def test_the_title_is_of_the_rates_since_they_last_changed() -> None:
    """For 80 s lag grows, then it shrinks: on average it grew, which is no longer true."""
    rows = [moment_row(n, 10 * n if n <= 80 else 800 + 70 * (n - 80), 60 * n) for n in range(121)]
    grows = rows[:81]
    titles = [
        charts.rates_over_time_figure(
            charts.rates_over_time_records(pa.Table.from_pylist(some, schema=schemas.TIMELINE))
        ).layout.meta["title"]
        for some in (grows, rows)
    ]
    begin, since = (text.moment(rows[at]["as_of"]) for at in (0, 84))
    assert titles == [
        f"g: lag grows since {begin}: 60 offsets per second arrive, 10 are finished",
        f"g: lag shrinks since {since}: 70 offsets per second are finished, 60 arrive",
    ]


@pytest.mark.parametrize("story", ["burst", "slow", "keeping_up", "hot_partition", "idle_members"])
def test_the_title_agrees_with_the_forecast(story: str) -> None:
    """What grows in the title does not drain in the forecast, and the other way round."""
    bench = sharelag.open(story, engine="local")
    made = charts.rates_over_time_records(bench.timeline().table)
    title = charts.rates_over_time_figure(made).layout.meta["title"]
    total = bench.progress().table
    arriving, finishing = (
        pc.sum(total.column(name)).as_py() for name in ("arrival_rate", "completion_rate")
    )
    # The chart has other moments than the forecast, so rates that are nearly equal may differ.
    assert "lag grows" in title or "lag shrinks" in title
    assert not ("lag grows" in title and 1.1 * arriving < finishing), title
    assert not ("lag shrinks" in title and arriving > 1.1 * finishing), title


def test_a_count_that_fell_is_not_a_rate() -> None:
    offsets = ((0, 50, 100), (10, 80, 150), (20, 10, 160), (30, 20, 160))
    rows = [moment_row(*one) for one in offsets]
    table = pa.Table.from_pylist(rows, schema=schemas.TIMELINE)
    made = charts.rates_over_time_records(table).to_pylist()
    rates = [(row["arrival_rate"], row["completion_rate"]) for row in made]
    assert rates == [(5, 3), (1, None), (0, 1)]


def progress_row(partition: int, drain: str, **more: Any) -> dict[str, Any]:
    return row_of(schemas.PROGRESS, partition=partition, drain=drain) | more


PROGRESS = pa.Table.from_pylist(
    [
        progress_row(0, DRAINED, arrival_rate=1.0, completion_rate=1.0),
        progress_row(1, DRAINS, arrival_rate=1.0, completion_rate=3.0)
        | {"drain_ms": 60_000, "drain_low_ms": 30_000, "drain_high_ms": 180_000},
        progress_row(2, DRAINS, arrival_rate=2.0, completion_rate=2.5)
        | {"drain_ms": 120_000, "drain_low_ms": 60_000},
        progress_row(3, UNCERTAIN, arrival_rate=4.0, completion_rate=2.0)
        | {"drain_low_ms": 90_000, "breaks": 1},
        progress_row(4, STALLED, arrival_rate=4.0, completion_rate=0.0),
        progress_row(5, UNKNOWN),
    ],
    schema=schemas.PROGRESS,
)


def test_the_forecast_has_its_interval_and_one_without_a_time_is_a_sentence() -> None:
    made = charts.drain_records(PROGRESS)
    assert made.column("partition").to_pylist() == [4, 3, 2, 1, 5, 0]
    figure = charts.drain_figure(made)
    points, never = figure.data
    assert (list(points.x), list(points.y)) == ([2, 1], [0, 1])  # minutes
    assert list(figure.layout.yaxis.ticktext) == ["t-2", "t-1"]
    assert points.error_x.array[1] == pytest.approx(2)
    assert list(points.error_x.arrayminus) == [1, 0.5]
    assert (list(never.y), never.x[0]) == ([0], pytest.approx(2 + points.error_x.array[0]))
    assert not figure.layout.annotations
    facts = figure.layout.meta["facts"]
    assert facts[1] == "Not known: the forecast of 1 share partition."
    assert facts[2:] == [
        "t-4: stalled, nothing is being finished.",
        (
            "t-3: uncertain, arrivals and finished records differ by no more than chance: "
            "the lag may or may not go away (at best in 1m\u00a030s)."
        ),
        "t-5: unknown, too little is known about what arrived and what was finished.",
        "t-0: drained, nothing is left to do.",
    ]
    assert "at 2026-11-21 03:12:00 UTC" in points.hovertext[0]
    assert figure.layout.meta["title"] == "g: nothing is finished in 1 of 6 share partitions"


def test_share_partitions_without_a_time_to_drain_are_reported_together() -> None:
    """Thirty times the same sentence says no more than once, and nothing is drawn of it."""
    alone = [progress_row(n, NOBODY) | {"group_id": g} for g in "abcdefgh" for n in range(40)]
    timed = [
        progress_row(n, DRAINS, drain_ms=1000, drain_low_ms=500, drain_high_ms=9000)
        | {"group_id": "z"}
        for n in range(2)
    ]
    table = pa.Table.from_pylist(alone + timed, schema=schemas.PROGRESS)
    figure = charts.drain_figure(charts.drain_records(table), most=1)
    assert list(figure.layout.yaxis.ticktext) == ["z: t-0"]
    facts = figure.layout.meta["facts"]
    words = "nobody, the group has no members, so nothing will be finished."
    assert facts[1:7] == [f"{group}: 40 share partitions: {words}" for group in "abcdef"]
    assert facts[7:] == [
        "And 80 more share partitions without a time to drain.",
        "Not drawn: 1 share partition with less urgency.",
    ]
    none = charts.drain_figure(charts.drain_records(table.slice(0, len(alone))))
    assert not none.data
    assert none.layout.annotations[0].text == "No share partition has a time to drain"


def test_an_unknown_rate_is_no_point_at_zero() -> None:
    made = charts.rates_records(PROGRESS)
    figure = charts.rates_figure(made)
    assert [sum(value is None for value in trace.x) for trace in figure.data[1:]] == [1, 1, 6]
    found = [note.text for note in figure.layout.annotations]
    assert found == ["? arrival and completion rate not known"]
    told = figure.layout.meta["title"]
    assert told == "g: more arrives than is finished in 2 of 5 share partitions"
    said = figure.layout.meta["facts"]
    assert "Records are missing for 1 share partition, so the rates are lower bounds." in said


def test_words_for_an_unknown_rate_stand_where_no_mark_is() -> None:
    table = with_column(PROGRESS, "arrival_rate", [None] * len(PROGRESS))
    rates = charts.rates_records(table).slice(0, 1)
    for completion, redelivery, place in ((9.0, 0.5, 0.5), (3.0, 2.5, 0.0), (0.0, None, 0.0)):
        for name, value in (("completion_rate", completion), ("redelivery_rate", redelivery)):
            rates = with_column(rates, name, [value])
        figure = charts.rates_figure(rates)
        (note,) = figure.layout.annotations
        assert (note.text, note.x) == ("? arrival rate not known", place)
        assert figure.layout.meta["title"] == "g: how fast records arrive is not known"
        said = "Not known: arrival rate of 1 share partition; marked with ?."
        assert said in figure.layout.meta["facts"]


# ---- causes --------------------------------------------------------------------------------------
def test_causes_last_from_their_beginning_and_are_open_where_it_is_not_known() -> None:
    figure = charts.cause_figure(charts.cause_records(CAUSES, NOW))
    bar, mark = figure.data
    assert (bar.name, mark.name, mark.marker.symbol) == ("critical", "note", "diamond-open")
    assert (list(bar.base), list(bar.x)) == (["2026-11-21 03:00:00.000"], [600_000])
    assert (list(bar.y), list(mark.x)) == ([0], ["2026-11-21 03:10:00.000"])
    named = ["no members, g: orders:0,1", "not started, h: A-topic:3"]
    assert list(figure.layout.yaxis.ticktext) == named
    held = [note.text for note in figure.layout.annotations]
    assert held == ["holds 1,234 offsets", "holds ? offsets"]
    much = with_column(CAUSES, "held", [10**12, None])
    ends = [charts.cause_figure(charts.cause_records(one, NOW)) for one in (CAUSES, much)]
    assert ends[0].layout.xaxis.range[1] < ends[1].layout.xaxis.range[1]  # room for the number
    assert figure.layout.meta["title"] == "g: the group has no members, and 1 other cause"
    assert figure.layout.meta["facts"][1] == (
        "Not known: the beginning of 1 cause, an open mark at the moment of judging; "
        "how much 1 cause holds."
    )
    none = charts.cause_figure(charts.cause_records(schemas.CAUSES.empty_table(), NOW), as_of=NOW)
    assert none.layout.meta["title"] == "Nothing wrong was found"
    assert none.layout.meta["facts"][0].startswith("As of 2026-11-21 03:10:00 UTC.")


def test_causes_of_a_capture_are_all_drawn() -> None:
    known = evidence("chapters")
    causes = explain(known)
    figure = charts.cause_figure(charts.cause_records(causes, known.as_of))
    assert len(figure.layout.yaxis.ticktext) == causes.num_rows > 0
    assert sum(len(trace.y) for trace in figure.data) == causes.num_rows


# ---- decomposition -------------------------------------------------------------------------------
def test_parts_add_up_to_the_distance() -> None:
    lag = evidence("chapters").lag
    parts = charts.decomposition_records(lag).column("offsets").to_pylist()
    for n, row in enumerate(lag.to_pylist()):
        mine = parts[4 * n : 4 * n + 4]
        if row["start_offset"] is None:
            assert mine == [None] * 4
        else:
            assert sum(mine) == row["end_offset"] - row["start_offset"]


@pytest.mark.parametrize("by", ["group", "topic"])
def test_sums_are_those_of_the_roll_up(by: str) -> None:
    lag = evidence("chapters").lag
    table = charts.decomposition_records(lag, by)
    rolled = rollup_arrow(lag, by).to_pylist()
    unread = table.filter(pc.equal(table.column("part"), "unread")).to_pylist()
    assert [
        (row["group_id"], row["topic"], row["offsets"], row["unknown_lags"]) for row in unread
    ] == [(row["group_id"], row["topic"], row["unread"], row["unknown_lags"]) for row in rolled]
    figure = charts.decomposition_figure(table)
    assert len(figure.layout.yaxis.ticktext) == len(rolled)
    assert ("billing" in figure.layout.yaxis.ticktext) == (by == "group")
    said = figure.layout.meta["facts"]
    assert "Not known: the lag of 5 share partitions; marked with ?, never counted as 0." in said
    found = len([note for note in figure.layout.annotations if note.text.startswith("?")])
    assert found == sum(row["lag"] is None and row["unread"] is None for row in rolled)


def test_parts_of_an_unknown_lag_are_no_finding() -> None:
    """Zeros of the windows, which are known, say nothing of the unknown records behind them."""
    none = dict.fromkeys(("window_available", "window_unknown", "window_complete"), 0)
    unknown = lag_rows({"lag": None, "unread": None, "lag_reason": "no_end_offset"} | none)
    figure = charts.decomposition_figure(charts.decomposition_records(unknown))
    assert re.fullmatch("What the lag of .+ consists of is not known", figure.layout.meta["title"])


def run(first: int, last: int, state: int, count: int) -> dict[str, int]:
    names = schemas.WINDOWS.field("runs").type.value_type.names
    return dict(zip(names, (first, last, state, count), strict=True))


WINDOW_TABLE = pa.Table.from_pylist(
    [
        row_of(schemas.WINDOWS, effective_start_offset=10, window_end_offset=30)
        | {"runs": [run(10, 12, 0, 2), run(20, 24, 2, 1), run(28, 29, 9, 1)]},
        row_of(schemas.WINDOWS, partition=1, effective_start_offset=5, window_end_offset=6)
        | {"runs": [run(5, 5, 0, 2)]},
        row_of(schemas.WINDOWS, partition=2),
    ],
    schema=schemas.WINDOWS,
)


def test_delivery_counts_are_of_every_offset_in_the_windows() -> None:
    made = charts.delivery_count_records(WINDOW_TABLE).to_pylist()
    names = ("delivery_state", "delivery_count", "offsets", "share_partitions")
    result = [tuple(r[name] for name in names) for r in made]
    assert result == [(0, 2, 4, 2), (2, 1, 5, 1), (9, 1, 2, 1), (None, None, 10, 1)]
    figure = charts.delivery_count_figure(charts.delivery_count_records(WINDOW_TABLE), limit=5)
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in figure.data] == [
        ("Available", [2], [4]), ("Acknowledged", [1], [5]), ("Another state", [1], [2]),
    ]  # fmt: skip
    assert figure.layout.meta["title"] == (
        "g: 4 offsets given back and waiting; the highest delivery count is 2 (4 offsets), "
        "3 deliveries below the limit"
    )
    assert "state and delivery count of 10 offsets" in figure.layout.meta["facts"][1]
    # Two states share the count 1; alone, a bar stands over its count.
    assert [(t.offset[0], t.width[0]) for t in figure.data] == [(-0.4, 0.8), (-0.4, 0.4), (0, 0.4)]
    known = evidence("lock_expiry")
    none = charts.delivery_count_records(known.windows).filter(pc.field("delivery_state").is_null())
    found = pc.sum(none.column("offsets")).as_py() or 0
    assert found == pc.sum(known.lag.column("window_unknown")).as_py()


def test_window_states_cover_the_window_without_a_hole() -> None:
    made = charts.window_state_records(WINDOW_TABLE).to_pylist()
    whole = [r for r in made if r["partition"] == 0]
    first = [(r["first_offset"], r["last_offset"], r["delivery_state"]) for r in whole]
    assert first == [(10, 12, 0), (13, 19, None), (20, 24, 2), (25, 27, None), (28, 29, 9)]
    assert [(r["first_offset"], r["last_offset"]) for r in made if r["partition"] == 1] == [(5, 5)]
    assert all(r["until"] - r["as_of"] == timedelta(seconds=1) for r in made)
    with pytest.raises(InputError, match="belong to 2: filter them"):
        charts.window_state_figure(charts.window_state_records(WINDOW_TABLE))


def test_window_states_follow_each_other_in_time() -> None:
    windows, at = moments("head_of_line")
    made = charts.window_state_records(windows, at)
    made = made.filter(pc.equal(made.column("partition"), 0))
    times = sorted(set(made.column("as_of").to_pylist()))
    assert {row["until"] for row in made.to_pylist() if row["as_of"] == times[0]} == {times[1]}
    figure = charts.window_state_figure(made)
    assert "its head, offset 6 (available)" in figure.layout.meta["title"]
    offsets = sum(trace.y.sum() for trace in figure.data)
    assert offsets == sum(r["last_offset"] - r["first_offset"] + 1 for r in made.to_pylist())


def test_offsets_on_their_last_delivery_are_apart_from_others_that_are_available() -> None:
    made = charts.window_state_records(WINDOW_TABLE)
    made = made.filter(pc.equal(made.column("partition"), 0))
    counts = {
        r["first_offset"]: r["delivery_count"] for r in made.to_pylist() if r["delivery_state"] == 0
    }
    ((first, count),) = counts.items()
    for limit, words in ((count + 1, palette.LAST.words), (count + 2, "Available")):
        drawn = {t.name: list(t.base) for t in charts.window_state_figure(made, limit=limit).data}
        assert drawn[words] == [first - 0.5]
        assert ({palette.LAST.words, "Available"} & set(drawn)) == {words}


def test_a_full_window_reaches_its_limit() -> None:
    known = evidence("window_full")
    made = charts.window_span_records(known.lag, known.settings)
    (row,) = made.to_pylist()
    assert (row["span"] >= row["limit"] == 100, row["limit_from"]) == (True, "group")
    figure = charts.window_span_figure(made)
    assert "the window is full" in figure.layout.meta["title"]
    assert list(figure.data[1].x) == [100]
    assumed = charts.window_span_records(evidence("chapters").lag, schemas.SETTINGS.empty_table())
    assert set(assumed.column("limit_from").to_pylist()) == {"assumed"}
    figure = charts.window_span_figure(assumed)
    assert "Not known: the span of 5 windows, marked with ?." in figure.layout.meta["facts"]
    said = figure.layout.meta["facts"]
    assert "The limit is Kafka's default: the settings in force are not known." in said
    assert sum(value is None for value in figure.data[0].x) == len(figure.layout.annotations) > 0


# ---- spread, members, rates ----------------------------------------------------------------------
def test_the_area_above_the_curve_is_the_gini_coefficient() -> None:
    made = charts.lorenz_records(evidence("chapters").lag)
    for group in pc.unique(made.column("group_id")).to_pylist():
        mine = made.filter(pc.equal(made.column("group_id"), group)).to_pylist()
        if mine[0]["gini"] is None:
            continue
        x, y = ([0.0, *(row[name] for row in mine)] for name in ("item_share", "value_share"))
        assert (x[-1], y[-1], y) == (pytest.approx(1), pytest.approx(1), sorted(y))
        assert 1 - 2 * np.trapezoid(y, x) == pytest.approx(mine[0]["gini"])
    demo = open_once("demo").lag().table
    for records, title in (
        (charts.lorenz_records(evidence("hot_partition").lag),
         "hot-partition: all of the lag is in 1 of 6 share partitions (Gini 0.83)"),
        (made, "billing: half of the lag is in 3 of 10 share partitions (Gini 0.42)"),
        (charts.lorenz_records(demo),
         "fulfilment: nearly all of the lag is in 1 of 6 share partitions (Gini 0.83)"),
    ):  # fmt: skip
        assert charts.lorenz_figure(records).layout.meta["title"] == title
    with pytest.raises(InputError, match="no column 'lags'"):
        charts.lorenz_records(evidence("chapters").lag, "lags")


def test_a_table_of_a_chart_may_lack_the_topic_and_no_other_key() -> None:
    lag = evidence("chapters").lag
    unnamed = charts.lorenz_records(lag.drop_columns("topic"))
    assert unnamed.column("topic").null_count == len(unnamed) > 0
    with pytest.raises(KeyError, match="topic_id"):
        charts.lorenz_records(lag.drop_columns("topic_id"))


def test_share_partitions_of_unknown_lag_are_not_on_the_curve() -> None:
    lag = evidence("chapters").lag
    made = charts.lorenz_records(lag)
    assert len(made) == len(lag) - lag.column("lag").null_count
    assert "analytics" not in made.column("group_id").to_pylist()


def member(name: str, *partitions: int) -> dict[str, Any]:
    assigned = [{"topic_id": TOPIC_ID, "partitions": list(partitions)}] if partitions else []
    about = {"member_id": name, "client_id": f"client-{name}", "assigned_partitions": assigned}
    return row_of(schemas.MEMBERS, **about)


def test_members_stand_beside_their_share_partitions() -> None:
    lag = lag_rows(*({"partition": n, "lag": lag} for n, lag in enumerate((5, None, 7))))
    people = pa.Table.from_pylist(
        [member("a", 0, 1), member("b", 0), member("idle")], schema=schemas.MEMBERS
    )
    made = charts.assigned_records(people, lag)
    result = [(r["member_id"], r["topic"], r["partition"], r["lag"]) for r in made.to_pylist()]
    assert result == [
        *(("a", "t", 0, 5), ("a", "t", 1, None), ("b", "t", 0, 5), (None, "t", 2, 7)),
        ("idle", None, None, None),
    ]
    figure = charts.assigned_figure(made)
    heat, unknown = figure.data
    named = ["no member", "client-a a", "client-b b", "client-idle idle"]
    assert list(figure.layout.yaxis.ticktext) == named
    assert list(figure.layout.xaxis.ticktext) == ["t-2", "t-0", "t-1"]
    found = list(map(list, heat.z))
    assert found == [*([7, None, None], [None, 5, None], [None, 5, None], [None, None, None])]
    assert (list(unknown.x), unknown.marker.pattern.shape) == ([2], "\\")
    assert figure.layout.meta["title"] == "g: 1 share partition with lag and no member"
    assert figure.layout.meta["facts"][1] == "Not known: the lag of 1 cell, hatched."
    two_groups = pa.concat_tables([made, renamed(made, "other")])
    with pytest.raises(InputError, match="these records belong to 2"):
        charts.assigned_figure(two_groups)


def test_a_member_of_share_partitions_that_are_not_drawn_does_not_seem_idle() -> None:
    lag = lag_rows(*({"partition": n, "lag": lag} for n, lag in enumerate((5, 1, 7, 6))))
    people = [member("a", 0, 2), member("b", 1), member("c", 3), member("idle")]
    made = charts.assigned_records(pa.Table.from_pylist(people, schemas.MEMBERS), lag)
    figure = charts.assigned_figure(made, most=3)
    rows = ["client-a a", "client-c c", "client-idle idle"]
    assert list(figure.layout.yaxis.ticktext) == rows
    assert figure.layout.meta["title"] == "g: 1 of 4 members have nothing to fetch"
    assert figure.layout.meta["facts"][1:] == [
        "Not drawn: 1 share partition with less lag.",
        "Not drawn: 1 member with fewer share partitions drawn.",
    ]


def test_kinds_of_state_records_add_up_and_prunable_ones_are_reported() -> None:
    known = health("chapters")
    made = charts.state_record_records(known)
    assert made.column("partition").to_pylist() == [n for n in range(4) for _ in range(4)]
    assert pc.sum(made.column("records")).as_py() == pc.sum(known.column("records")).as_py() > 100
    figure = charts.state_record_figure(made)
    # Nothing was rejected.
    assert [trace.name for trace in figure.data] == ["Snapshots", "Updates", "Tombstones"]
    assert list(figure.data[0].x) == known.sort_by("partition").column("snapshots").to_pylist()
    prunable = pc.sum(known.column("prunable")).as_py()
    assert figure.layout.meta["title"].endswith(f"may prune {text.number(prunable)} of them")
    unknown = made.set_column(4, "prunable", pa.nulls(len(made), pa.int64()))
    result = charts.state_record_figure(unknown).layout.meta
    records = text.number(pc.sum(known.column("records")).as_py())
    assert result["title"] == f"{records} records in 4 partitions of the state topic"
    assert "Not known: what may be pruned of 4 partitions." in result["facts"]
    said = charts.state_record_figure(made, most=2).layout.meta["facts"]
    assert "Not drawn: 2 partitions with higher numbers." in said
    told = charts.state_record_figure(made.slice(0, 0)).layout.annotations[0].text
    assert "has any group consumed?" in told
