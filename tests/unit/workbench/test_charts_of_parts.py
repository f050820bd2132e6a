"""Charts of parts: what lag consists of, windows, members, and the state topic."""

import re
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sharelag
from sharelag import charts, schemas
from sharelag.charts import palette, text
from sharelag.errors import InputError
from sharelag.metrics.lag import rollup_arrow
from tests.support.charts import TOPIC_ID, evidence, health, lag_rows, moments, renamed, row_of


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
        "g: 4 offsets given back and waiting; the highest delivery count is 2 (4 offsets), 3 deliveries below the limit"
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
    demo = sharelag.open("demo", engine="local").lag().table
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
    assert (
        result["title"]
        == f"{text.number(pc.sum(known.column('records')).as_py())} records in 4 partitions of the state topic"
    )
    assert "Not known: what may be pruned of 4 partitions." in result["facts"]
    said = charts.state_record_figure(made, most=2).layout.meta["facts"]
    assert "Not drawn: 2 partitions with higher numbers." in said
    told = charts.state_record_figure(made.slice(0, 0)).layout.annotations[0].text
    assert "has any group consumed?" in told
