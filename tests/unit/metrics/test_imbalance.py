"""Figures of inequality equal their closed forms, and each imbalance has its reason."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.imbalance import (
    ASSIGNMENT_SKEW,
    DATA_SKEW,
    EVEN,
    FIGURES,
    NO_LAG,
    NO_MEMBERS,
    SKEW,
    STARVATION,
    UNEVEN,
    VERDICTS,
    imbalance_arrow,
    skew_arrow,
    spread_columns,
    trend,
)
from sharelag.tables.arrow import with_columns
from tests.support.records import TEXTS, assert_fields, with_texts

NOW = datetime(2026, 11, 21, 3, tzinfo=UTC)
ORDERS, RETURNS = "o" * 22, "r" * 22
NAMES = {ORDERS: "orders", RETURNS: "returns"}
RATIOS = ("max_mean", "gini", "cv", "top_share", "top3_share", "jain", "hoover")

Lags = Sequence[int | None]


def lag_table(groups: dict[str, dict[str, Lags]], end: int = 1000) -> pa.Table:
    rows = [
        {"group_id": group, "topic": NAMES[topic_id], "topic_id": topic_id, "partition": n}
        | {"lag": lag, "end_offset": end, "as_of": NOW}
        for group, topics in groups.items()
        for topic_id, lags in topics.items()
        for n, lag in enumerate(lags)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.LAG)


def member_table(group: str, *assigned: dict[str, list[int]]) -> pa.Table:
    lists = [
        [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in topics.items()]
        for topics in assigned
    ]
    rows = [
        {"group_id": group, "member_id": f"m{n}", "assigned_partitions": mine}
        for n, mine in enumerate(lists)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.MEMBERS)


def group_table(group: str, **topics: int) -> pa.Table:
    ids = {name: topic_id for topic_id, name in NAMES.items()}
    listed = [
        {"topic_id": ids[n], "topic_name": n, "partitions": list(range(count))}
        for n, count in topics.items()
    ]
    row = {"group_id": group, "initialized_topics": listed}
    return pa.Table.from_pylist([row], schema=schemas.GROUPS)


def past_table(ends: dict[str, Lags]) -> pa.Table:
    rows = [
        {"topic_id": topic_id, "topic": NAMES[topic_id], "partition": n, "end_offset": end}
        for topic_id, offsets in ends.items()
        for n, end in enumerate(offsets)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


def row_of(
    table: pa.RecordBatch, over: str, measure: str, topic_id: str | None = None, group: str = "g"
) -> Any:
    wanted = {"group_id": group, "topic_id": topic_id, "over": over, "measure": measure}
    (row,) = [row for row in table.to_pylist() if wanted.items() <= row.items()]
    return row


# ---- figures -------------------------------------------------------------------------------------
def spread(*values: float) -> dict[str, float]:
    whole = spread_columns(np.array(values, float), np.zeros(len(values), np.int64), 1)
    return {name: figure[0] for name, figure in whole.items()}


def closed_forms(x: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    """As the textbooks have them, one by one."""
    mean, n = x.mean(), len(x)
    largest = sorted(x, reverse=True)
    return {
        "items": n,
        "unknown": 0,
        "total": x.sum(),
        "mean": mean,
        "min": x.min(),
        "max": x.max(),
        "max_mean": x.max() / mean,
        "gini": np.abs(x[:, None] - x[None, :]).mean() / (2 * mean),
        "cv": x.std() / mean,
        "top_share": largest[0] / x.sum(),
        "top3_share": sum(largest[:3]) / x.sum(),
        "jain": x.sum() ** 2 / (n * (x**2).sum()),
        "hoover": np.abs(x - mean).sum() / (2 * x.sum()),
    }


@pytest.mark.row("ASG-09")
def test_even_lags_have_a_ratio_of_one_and_one_lagging_partition_of_three() -> None:
    table = imbalance_arrow(lag_table({"even": {ORDERS: [7, 7, 7]}, "one": {ORDERS: [21, 0, 0]}}))
    even, one = (row_of(table, "partition", "lag", group=group) for group in ("even", "one"))
    assert_fields(even, max_mean=1.0, gini=0.0, cv=0.0, jain=1.0)
    assert_fields(one, max_mean=3.0, top_share=1.0, top3_share=1.0)
    assert (one["gini"], one["cv"], one["jain"]) == pytest.approx((2 / 3, 2**0.5, 1 / 3))
    assert_fields(one, total=21, mean=7, min=0, max=21, as_of=NOW)


_VALUES = st.lists(st.one_of(st.integers(0, 2**40), st.floats(1e-3, 1e12)), min_size=1, max_size=40)


@given(st.lists(_VALUES, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_many_segments_equal_the_closed_forms(groups: list[list[float]], random: Any) -> None:
    pairs = [(value, n) for n, values in enumerate(groups) for value in values]
    random.shuffle(pairs)
    values, segment = np.array(pairs, float).T
    figures = spread_columns(values, segment.astype(np.int64), len(groups))
    for n, numbers in enumerate(groups):
        x = np.array(numbers, float)
        if x.sum() == 0:
            assert all(np.isnan(figures[name][n]) for name in RATIOS)
            assert figures["total"][n] == figures["mean"][n] == figures["max"][n] == 0
            assert figures["items"][n] == len(x)
            continue
        for name, expected in closed_forms(x).items():
            assert figures[name][n] == pytest.approx(expected, rel=1e-9, abs=1e-9), name


def test_what_is_unknown_is_counted_and_not_taken_for_zero() -> None:
    known = closed_forms(np.array([4.0, 4.0])) | {"items": 3, "unknown": 1}
    assert spread(4, 4, np.nan) == pytest.approx(known)
    beside = spread(0, 0, np.nan)
    assert_fields(beside, items=3, unknown=1, min=0)
    assert all(np.isnan(beside[name]) for name in ("total", "mean", "max", "max_mean"))
    assert spread(0, 0)["total"] == 0
    none = spread(np.nan)
    assert_fields(none, items=1, unknown=1)
    assert all(np.isnan(none[name]) for name in FIGURES)
    empty = spread_columns(np.array([]), np.array([], np.int64), 2)
    assert empty["items"].tolist() == [0, 0]
    assert np.isnan(empty["total"]).all()


@pytest.mark.parametrize("wrong", [-1.0, np.inf])
def test_a_number_that_has_no_share_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite and at least 0"):
        spread(1.0, wrong)


def test_figures_hold_for_the_smallest_and_for_very_large_numbers() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert spread(5e-324, 0)["gini"] == 0.5
        assert spread(1e300, 0, 1e300)["jain"] == pytest.approx(2 / 3)
    past = past_table({ORDERS: [2**62, 0]})
    table = imbalance_arrow(lag_table({"g": {ORDERS: [2**62 + 1, 0]}}), past=past)
    assert_fields(row_of(table, "partition", "lag"), max=2**62, total=2**62)


# ---- spreads of a group --------------------------------------------------------------------------
def test_each_measure_over_partitions_topics_and_members() -> None:
    lag = lag_table({"g": {ORDERS: [30, 10, 0], RETURNS: [None, 20]}})
    members = member_table("g", {ORDERS: [0, 1], RETURNS: [1]}, {ORDERS: [0]}, {}, {RETURNS: [0]})
    past = past_table({ORDERS: [900, 1000, 2000], RETURNS: [400]})
    span = {"group_id": "g", "topic_id": ORDERS, "begin": NOW, "end": NOW + timedelta(minutes=30)}
    seen = [span | {"partition": n, "finished": count} for n, count in enumerate([50, 0, None])]
    observed = pa.Table.from_pylist(seen, schema=schemas.OBSERVED)
    table = imbalance_arrow(lag, members, group_table("g", orders=3, returns=3), observed, past)
    for over, measure, topic_id, expected in (
        ("partition", "lag", None, {"items": 6, "unknown": 2, "total": 60, "max": 30}),
        ("partition", "lag", ORDERS, {"topic": "orders", "items": 3, "unknown": 0, "total": 40}),
        ("topic", "lag", None, {"items": 2, "total": 60, "max": 40, "topic": None}),
        # Partition 0 of orders has two members, which carry half of its 30 each; the lag of
        # returns 0 is not known.
        ("member", "lag", None, {"items": 4, "unknown": 1, "total": 60, "max": 45, "min": 0}),
        ("member", "partitions", None, {"items": 4, "total": 5, "max": 3, "min": 0}),
        # Two members, one, none; one, one, and none for the partition that has no state yet.
        ("partition", "members", None, {"items": 6, "unknown": 0, "total": 5, "max": 2, "min": 0}),
        # An end offset that went back, or that was unknown then, gives no arrivals.
        ("partition", "arrived", None, {"items": 6, "unknown": 3, "total": 700, "max": 600}),
        ("topic", "arrived", None, {"max": 600}),
        ("partition", "finished", ORDERS, {"items": 3, "unknown": 1, "total": 100, "mean": 50}),
    ):
        assert_fields(row_of(table, over, measure, topic_id), **expected)


def test_rows_are_sorted_and_only_of_what_is_given() -> None:
    lag = lag_table({"g": {ORDERS: [1, 2], RETURNS: [3]}, "<b>:&'\n": {ORDERS: [1]}})
    table = imbalance_arrow(lag)
    assert table.schema.equals(schemas.IMBALANCE)
    assert set(table.column("measure").to_pylist()) == {"lag"}
    rows = table.select(["group_id", "topic", "over"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        *(("<b>:&'\n", None, "partition"), ("<b>:&'\n", None, "topic")),
        *(("<b>:&'\n", "orders", "partition"), ("g", None, "partition"), ("g", None, "topic")),
        *(("g", "orders", "partition"), ("g", "returns", "partition")),
    ]
    assert {row["over"] for row in imbalance_arrow(lag, by="topic").to_pylist()} == {"topic"}
    words = "cannot show an imbalance by 'group': choose one of partition, topic, member"
    with pytest.raises(InputError, match=words):
        imbalance_arrow(lag, by="group")


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_texts_of_another_type_have_the_same_imbalance(kind: pa.DataType) -> None:
    lag, groups = lag_table({"g": {ORDERS: [1, 2], RETURNS: [3]}}), group_table("g", orders=3)
    members, other = member_table("g", {ORDERS: [0]}), with_texts(lag, kind)
    for others in ((), (members,), (members, groups)):
        assert imbalance_arrow(other, *others).equals(imbalance_arrow(lag, *others))
        assert skew_arrow(other, *others).equals(skew_arrow(lag, *others))


def test_groups_whose_names_run_together_stay_apart() -> None:
    lag = lag_table({"g": {ORDERS: [8, 0]}, "0:g": {ORDERS: [0, 4]}, f"{ORDERS} g": {ORDERS: [1]}})
    table = imbalance_arrow(lag, member_table("0:g", {ORDERS: [1]}))
    for group, over, measure, total in (
        *(("g", "partition", "lag", 8), ("0:g", "partition", "lag", 4)),
        *((f"{ORDERS} g", "partition", "lag", 1), ("0:g", "partition", "members", 1)),
        *(("g", "partition", "members", 0), ("0:g", "member", "lag", 4)),
    ):
        assert row_of(table, over, measure, group=group)["total"] == total


def test_a_group_of_which_no_member_records_are_there_has_unknown_members() -> None:
    lag = lag_table({"g": {ORDERS: [8, 0]}, "h": {ORDERS: [4]}})
    table = imbalance_arrow(lag, member_table("g", {ORDERS: [1]}), group_table("g", orders=2))
    assert row_of(table, "partition", "members", group="h")["unknown"] == 1
    assert row_of(table, "partition", "members", group="g")["unknown"] == 0
    first, second = skew_arrow(lag, member_table("x"), group_table("g")).to_pylist()
    assert_fields(first, group_id="g", verdict=NO_MEMBERS, members=0)
    assert_fields(second, group_id="h", verdict=EVEN, members=None)


def test_nothing_gives_nothing() -> None:
    empty = schemas.LAG.empty_table()
    assert (
        imbalance_arrow(empty).num_rows == trend(empty).num_rows == skew_arrow(empty).num_rows == 0
    )
    members, groups = member_table("g", {ORDERS: [0]}), group_table("g", orders=2)
    only_groups = imbalance_arrow(empty, members, groups)
    assert row_of(only_groups, "partition", "members")["max_mean"] == 2
    assert row_of(only_groups, "member", "partitions")["total"] == 1


def test_the_trend_has_each_moment_and_what_arrived_in_between() -> None:
    moments = [NOW + timedelta(hours=n) for n in range(3)]
    shapes = [([5, 5], 100), ([10, 0], 150), ([30, 10], 150)]
    lags = [
        with_columns(lag_table({"g": {ORDERS: lag}}, end), {"as_of": moment})
        for moment, (lag, end) in zip(moments, shapes, strict=True)
    ]
    rows = trend(pa.concat_tables(reversed(lags))).to_pylist()
    whole = [row for row in rows if row["over"] == "partition" and row["topic_id"] is None]
    result = [(row["as_of"], row["measure"], row["total"], row["max_mean"]) for row in whole]
    assert result == [
        *((moments[0], "lag", 10, 1.0), (moments[1], "arrived", 100, 1.0)),
        *((moments[1], "lag", 10, 2.0), (moments[2], "arrived", 0, None)),
        (moments[2], "lag", 40, 1.5),
    ]
    with pytest.raises(InputError, match="over time by member: past members and leaders are not"):
        trend(pa.concat_tables(lags), "member")


# ---- what it is that skews -----------------------------------------------------------------------
def verdict(lags: Lags, *assigned: list[int], arrived: Sequence[int] = ()) -> dict[str, Any]:
    members = member_table("g", *({ORDERS: numbers} if numbers else {} for numbers in assigned))
    past = past_table({ORDERS: [1000 - n for n in arrived]}) if arrived else None
    (row,) = skew_arrow(lag_table({"g": {ORDERS: lags}}), members, past=past).to_pylist()
    return dict(row)


EACH_ITS_OWN = ([0], [1], [2], [3])


def test_more_arrivals_where_the_lag_is_are_data_skew() -> None:
    row = verdict([90, 5, 5, 0], *EACH_ITS_OWN, arrived=[700, 100, 100, 100])
    assert_fields(row, verdict=DATA_SKEW, findings=[DATA_SKEW])
    assert_fields(row, busy_partitions=0.25, busy_arrived=0.7, busy_lag=0.9)
    assert (row["lag_max_mean"], row["lag_hoover"]) == (pytest.approx(3.6), pytest.approx(0.65))
    # Arrivals that differ by nothing to speak of explain nothing, nor do those that go elsewhere.
    for arrived in ([101, 100, 100, 99], [100, 700, 100, 100]):
        assert verdict([90, 5, 5, 0], *EACH_ITS_OWN, arrived=arrived)["verdict"] == UNEVEN
    assert verdict([90, 5, 5, 0], *EACH_ITS_OWN)["busy_lag"] is None


def test_lag_where_fewer_members_are_is_starvation() -> None:
    row = verdict([0, 2, 0, 98], [0], [1], [2], arrived=[100] * 4)
    assert_fields(row, verdict=STARVATION, findings=[STARVATION])
    assert_fields(row, unattended_partitions=1, starved_partitions=0.25, starved_lag=0.98)
    fewer = verdict([5, 5, 90, 0], [0, 1, 2, 3], [0, 1, 3], [0, 1, 3], arrived=[100] * 4)
    assert_fields(fewer, verdict=STARVATION, unattended_partitions=0, starved_lag=0.9)


def test_lag_with_members_that_have_more_partitions_is_assignment_skew() -> None:
    row = verdict([30, 30, 30, 1], [0, 1, 2], [3], [], arrived=[100] * 4)
    assert_fields(row, verdict=ASSIGNMENT_SKEW, findings=[ASSIGNMENT_SKEW])
    assert_fields(row, members=3, idle_members=1, max_partitions=3)
    assert row["loaded_members"] == pytest.approx(1 / 3)
    assert row["loaded_lag"] == pytest.approx(90 / 91)
    # One partition more or less is what dividing leaves over.
    assert verdict([30, 30, 1], [0, 1], [2], arrived=[100] * 3)["verdict"] != ASSIGNMENT_SKEW


def test_several_reasons_are_all_given_and_the_clearest_first() -> None:
    row = verdict([96, 2, 1, 1], [1, 2], [2, 3], [3, 1], arrived=[400, 300, 100, 100])
    assert (row["findings"], row["verdict"]) == ([STARVATION, DATA_SKEW], STARVATION)


def test_even_lag_and_no_lag_differ_from_unknown_lag() -> None:
    assert verdict([7, 7, 7, 7], *EACH_ITS_OWN, arrived=[700, 1, 1, 1])["verdict"] == EVEN
    assert verdict([0, 0, 0, 0], *EACH_ITS_OWN)["verdict"] == NO_LAG
    assert verdict([9, 0, 0, 0])["verdict"] == NO_MEMBERS
    unknown = verdict([None, None], [0])
    assert_fields(unknown, verdict=None, unknown_lags=2, lag=None)
    beside = verdict([0, None], [0])
    assert_fields(beside, verdict=None, unknown_lags=1, lag=None)
    part = verdict([40, None, 40, 40], [0, 1], [2, 3], arrived=[100, 900, 100, 100])
    assert_fields(part, verdict=EVEN, unknown_lags=1)


def test_without_members_or_arrivals_nothing_is_made_up() -> None:
    (row,) = skew_arrow(lag_table({"g": {ORDERS: [9, 0, 0]}})).to_pylist()
    assert_fields(row, verdict=UNEVEN, findings=[])
    assert_fields(row, members=None, idle_members=None, unattended_partitions=None)
    assert_fields(row, starved_lag=None, loaded_lag=None, busy_arrived=None)
    reasons = {STARVATION, ASSIGNMENT_SKEW, DATA_SKEW}
    assert set(VERDICTS) == reasons | {NO_MEMBERS, UNEVEN, EVEN, NO_LAG}
    assert skew_arrow(lag_table({"g": {ORDERS: [1]}})).schema.equals(SKEW)
