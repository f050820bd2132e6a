"""Figures of inequality equal their closed forms, and each imbalance has its reason."""

from __future__ import annotations

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
from sharelag.metrics.imbalance import imbalance_arrow, trend
from sharelag.metrics.skew import (
    ASSIGNMENT_SKEW,
    DATA_SKEW,
    EVEN,
    NO_LAG,
    NO_MEMBERS,
    SKEW,
    STARVATION,
    UNEVEN,
    VERDICTS,
    skew_arrow,
)
from sharelag.metrics.spread import Spread, spread_columns

NOW = datetime(2026, 11, 21, 3, tzinfo=UTC)
ORDERS, RETURNS = "o" * 22, "r" * 22
NAMES = {ORDERS: "orders", RETURNS: "returns"}
RATIOS = ("max_mean", "gini", "cv", "top_share", "top3_share", "jain", "hoover")

Lags = Sequence[int | None]


def lag_table(groups: dict[str, dict[str, Lags]], end: int = 1000) -> pa.Table:
    """Lag by group, topic id and partition."""
    rows = [
        {
            "group_id": group,
            "topic": NAMES[topic_id],
            "topic_id": topic_id,
            "partition": n,
            "lag": lag,
        }
        | {"end_offset": end, "as_of": NOW}
        for group, topics in groups.items()
        for topic_id, lags in topics.items()
        for n, lag in enumerate(lags)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.LAG)


def member_table(group: str, *assigned: dict[str, list[int]]) -> pa.Table:
    rows = [
        {
            "group_id": group,
            "member_id": f"m{n}",
            "assigned_partitions": [
                {"topic_id": t, "partitions": numbers} for t, numbers in topics.items()
            ],
        }
        for n, topics in enumerate(assigned)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.MEMBERS)


def group_table(group: str, **topics: int) -> pa.Table:
    ids = {name: topic_id for topic_id, name in NAMES.items()}
    listed = [
        {"topic_id": ids[n], "topic_name": n, "partitions": list(range(count))}
        for n, count in topics.items()
    ]
    return pa.Table.from_pylist(
        [{"group_id": group, "initialized_topics": listed}], schema=schemas.GROUPS
    )


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
    return {name: figure[0] for name, figure in whole._asdict().items()}


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
    assert (even["max_mean"], even["gini"], even["cv"], even["jain"]) == (1.0, 0.0, 0.0, 1.0)
    assert (one["max_mean"], one["top_share"], one["top3_share"]) == (3.0, 1.0, 1.0)
    assert (one["gini"], one["cv"], one["jain"]) == pytest.approx((2 / 3, 2**0.5, 1 / 3))
    assert (one["total"], one["mean"], one["min"], one["max"], one["as_of"]) == (21, 7, 0, 21, NOW)


_NUMBERS = st.lists(
    st.one_of(st.integers(0, 2**40), st.floats(1e-3, 1e12)), min_size=1, max_size=40
)


@given(st.lists(_NUMBERS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_many_segments_at_once_equal_the_closed_forms_one_by_one(
    groups: list[list[float]], random: Any
) -> None:
    pairs = [(value, n) for n, values in enumerate(groups) for value in values]
    random.shuffle(pairs)
    values, segment = (
        np.array([v for v, _ in pairs], float),
        np.array([n for _, n in pairs], np.int64),
    )
    figures = spread_columns(values, segment, len(groups))
    for n, numbers in enumerate(groups):
        x = np.array(numbers, float)
        if x.sum() == 0:
            assert all(np.isnan(getattr(figures, name)[n]) for name in RATIOS)
            assert (figures.total[n], figures.mean[n], figures.max[n], figures.items[n]) == (
                0,
                0,
                0,
                len(x),
            )
            continue
        for name, expected in closed_forms(x).items():
            assert getattr(figures, name)[n] == pytest.approx(expected, rel=1e-9, abs=1e-9), name


@given(
    _NUMBERS.filter(any),
    st.randoms(use_true_random=False),
    st.sampled_from([1e-6, 3.0, 1000.0]),
    st.integers(2, 5),
)
def test_neither_unit_nor_order_nor_repetition_changes_the_ratios(
    x: Any, random: Any, unit: float, times: int
) -> None:
    same = spread(*x)
    scaled, shuffled, repeated = (
        spread(*np.array(x, float) * unit),
        spread(*random.sample(x, len(x))),
        spread(*x * times),
    )
    for name in RATIOS:
        assert scaled[name] == pytest.approx(same[name], abs=1e-9), name
        assert shuffled[name] == pytest.approx(same[name], abs=1e-9), name
        if "share" not in name:
            assert repeated[name] == pytest.approx(same[name], abs=1e-9), name
    assert repeated["top_share"] == pytest.approx(same["top_share"] / times)
    assert 0 <= same["gini"] <= 1 - 1 / len(x) + 1e-12
    assert 1 / len(x) - 1e-12 <= same["jain"] <= 1 + 1e-12


def test_what_is_unknown_is_counted_and_not_taken_for_zero() -> None:
    assert spread(4, 4, np.nan) == pytest.approx(
        closed_forms(np.array([4.0, 4.0])) | {"items": 3, "unknown": 1}
    )
    beside = spread(0, 0, np.nan)
    assert (beside["items"], beside["unknown"], beside["min"]) == (3, 1, 0)
    assert all(np.isnan(beside[name]) for name in ("total", "mean", "max", "max_mean"))
    assert spread(0, 0)["total"] == 0
    none = spread(np.nan)
    assert (none["items"], none["unknown"]) == (1, 1)
    assert all(np.isnan(none[name]) for name in Spread._fields[2:])
    empty = spread_columns(np.array([]), np.array([], np.int64), 2)
    assert empty.items.tolist() == [0, 0]
    assert np.isnan(empty.total).all()


@pytest.mark.parametrize("wrong", [-1.0, np.inf])
def test_a_number_that_has_no_share_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite and at least 0"):
        spread(1.0, wrong)


def test_figures_hold_for_the_smallest_and_for_very_large_numbers() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert spread(5e-324, 0)["gini"] == 0.5
        assert spread(1e300, 0, 1e300)["jain"] == pytest.approx(2 / 3)


# ---- spreads of a group --------------------------------------------------------------------------


def test_each_measure_over_partitions_topics_and_members() -> None:
    lag = lag_table({"g": {ORDERS: [30, 10, 0], RETURNS: [None, 20]}})
    members = member_table("g", {ORDERS: [0, 1], RETURNS: [1]}, {ORDERS: [0]}, {}, {RETURNS: [0]})
    past = past_table({ORDERS: [900, 1000, 2000], RETURNS: [400]})
    observed = pa.Table.from_pylist(
        [
            {
                "group_id": "g",
                "topic_id": ORDERS,
                "partition": n,
                "begin": NOW,
                "end": NOW + timedelta(minutes=30),
            }
            | {"finished": finished}
            for n, finished in enumerate([50, 0, None])
        ],
        schema=schemas.OBSERVED,
    )
    table = imbalance_arrow(lag, members, group_table("g", orders=3, returns=3), observed, past)

    whole = row_of(table, "partition", "lag")
    assert (whole["items"], whole["unknown"], whole["total"], whole["max"]) == (6, 2, 60, 30)
    orders = row_of(table, "partition", "lag", ORDERS)
    assert (orders["topic"], orders["items"], orders["unknown"], orders["total"]) == (
        "orders",
        3,
        0,
        40,
    )
    topics = row_of(table, "topic", "lag")
    assert (topics["items"], topics["total"], topics["max"], topics["topic"]) == (2, 60, 40, None)

    # Partition 0 of orders has two members, which carry half of its 30 each; the lag of returns 0
    # is not known.
    lags = row_of(table, "member", "lag")
    assert (lags["items"], lags["unknown"], lags["total"], lags["max"], lags["min"]) == (
        4,
        1,
        60,
        45,
        0,
    )
    shares = row_of(table, "member", "partitions")
    assert (shares["items"], shares["total"], shares["max"], shares["min"]) == (4, 5, 3, 0)
    # Two members, one, none; one, one, and none for the partition that has no state yet.
    counts = row_of(table, "partition", "members")
    assert (counts["items"], counts["unknown"], counts["total"], counts["max"], counts["min"]) == (
        6,
        0,
        5,
        2,
        0,
    )

    # An end offset that went back, or that was unknown then, gives no arrivals.
    arrived = row_of(table, "partition", "arrived")
    assert (arrived["items"], arrived["unknown"], arrived["total"], arrived["max"]) == (
        6,
        3,
        700,
        600,
    )
    assert row_of(table, "topic", "arrived")["max"] == 600
    finished = row_of(table, "partition", "finished", ORDERS)
    assert (finished["items"], finished["unknown"], finished["total"], finished["mean"]) == (
        3,
        1,
        100,
        50,
    )


def test_rows_are_sorted_and_only_of_what_is_given() -> None:
    lag = lag_table({"g": {ORDERS: [1, 2], RETURNS: [3]}, "<b>:&'\n": {ORDERS: [1]}})
    table = imbalance_arrow(lag)
    assert table.schema.equals(schemas.IMBALANCE)
    result = [
        (row["group_id"], row["topic"], row["over"], row["measure"]) for row in table.to_pylist()
    ]
    assert result == [
        ("<b>:&'\n", None, "partition", "lag"),
        ("<b>:&'\n", None, "topic", "lag"),
        ("<b>:&'\n", "orders", "partition", "lag"),
        ("g", None, "partition", "lag"),
        ("g", None, "topic", "lag"),
        ("g", "orders", "partition", "lag"),
        ("g", "returns", "partition", "lag"),
    ]
    assert {row["over"] for row in imbalance_arrow(lag, by="topic").to_pylist()} == {"topic"}
    with pytest.raises(
        InputError,
        match="cannot show an imbalance by 'group': choose one of partition, topic, member",
    ):
        imbalance_arrow(lag, by="group")


def test_groups_whose_names_run_together_stay_apart() -> None:
    lag = lag_table({"g": {ORDERS: [8, 0]}, "0:g": {ORDERS: [0, 4]}, f"{ORDERS} g": {ORDERS: [1]}})
    table = imbalance_arrow(lag, member_table("0:g", {ORDERS: [1]}))
    assert [
        row_of(table, "partition", "lag", group=g)["total"] for g in ("g", "0:g", f"{ORDERS} g")
    ] == [8, 4, 1]
    assert row_of(table, "partition", "members", group="0:g")["total"] == 1
    assert row_of(table, "partition", "members", group="g")["total"] == 0
    assert row_of(table, "member", "lag", group="0:g")["total"] == 4


def test_a_group_of_which_no_member_records_are_there_has_unknown_members() -> None:
    lag = lag_table({"g": {ORDERS: [8, 0]}, "h": {ORDERS: [4]}})
    table = imbalance_arrow(lag, member_table("g", {ORDERS: [1]}), group_table("g", orders=2))
    assert row_of(table, "partition", "members", group="h")["unknown"] == 1
    assert row_of(table, "partition", "members", group="g")["unknown"] == 0
    verdicts = {
        row["group_id"]: row
        for row in skew_arrow(lag, member_table("x"), group_table("g")).to_pylist()
    }
    assert (verdicts["g"]["verdict"], verdicts["g"]["members"]) == (NO_MEMBERS, 0)
    assert (verdicts["h"]["verdict"], verdicts["h"]["members"]) == (EVEN, None)


def test_nothing_gives_nothing() -> None:
    empty = schemas.LAG.empty_table()
    assert imbalance_arrow(empty).num_rows == trend({}).num_rows == skew_arrow(empty).num_rows == 0
    only_groups = imbalance_arrow(
        empty, member_table("g", {ORDERS: [0]}), group_table("g", orders=2)
    )
    assert row_of(only_groups, "partition", "members")["max_mean"] == 2
    assert row_of(only_groups, "member", "partitions")["total"] == 1


def test_the_trend_has_each_moment_and_what_arrived_in_between() -> None:
    moments = [NOW + timedelta(hours=n) for n in range(3)]
    shapes = [([5, 5], 100), ([10, 0], 150), ([30, 10], 150)]
    lags = {
        moment: lag_table({"g": {ORDERS: lag}}, end)
        for moment, (lag, end) in zip(moments, shapes, strict=True)
    }
    rows = trend(
        dict(reversed(lags.items())), {moments[2]: member_table("g", {ORDERS: [0]})}
    ).to_pylist()
    whole = [row for row in rows if row["over"] == "partition" and row["topic_id"] is None]
    result = [(row["as_of"], row["measure"], row["total"], row["max_mean"]) for row in whole]
    assert result == [
        (moments[0], "lag", 10, 1.0),
        (moments[1], "arrived", 100, 1.0),
        (moments[1], "lag", 10, 2.0),
        (moments[2], "arrived", 0, None),
        (moments[2], "lag", 40, 1.5),
        (moments[2], "members", 1, 2.0),
    ]
    assert [row["as_of"] for row in rows if row["over"] == "member"] == [moments[2]] * 2


# ---- what it is that skews -----------------------------------------------------------------------


def verdict(lags: Lags, *assigned: list[int], arrived: Lags | None = None) -> dict[str, Any]:
    members = member_table("g", *({ORDERS: numbers} if numbers else {} for numbers in assigned))
    past = (
        past_table({ORDERS: [None if n is None else 1000 - n for n in arrived]})
        if arrived
        else None
    )
    (row,) = skew_arrow(lag_table({"g": {ORDERS: lags}}), members, past=past).to_pylist()
    return dict(row)


EACH_ITS_OWN = ([0], [1], [2], [3])


def test_more_arrivals_where_the_lag_is_are_data_skew() -> None:
    row = verdict([90, 5, 5, 0], *EACH_ITS_OWN, arrived=[700, 100, 100, 100])
    assert (row["verdict"], row["findings"]) == (DATA_SKEW, [DATA_SKEW])
    assert (row["busy_partitions"], row["busy_arrived"], row["busy_lag"]) == (0.25, 0.7, 0.9)
    assert row["lag_max_mean"] == pytest.approx(3.6)
    assert row["lag_hoover"] == pytest.approx(0.65)
    # Arrivals that differ by nothing to speak of explain nothing, nor do those that go elsewhere.
    assert verdict([90, 5, 5, 0], *EACH_ITS_OWN, arrived=[101, 100, 100, 99])["verdict"] == UNEVEN
    assert verdict([90, 5, 5, 0], *EACH_ITS_OWN, arrived=[100, 700, 100, 100])["verdict"] == UNEVEN
    assert verdict([90, 5, 5, 0], *EACH_ITS_OWN)["busy_lag"] is None


def test_lag_where_fewer_members_are_is_starvation() -> None:
    row = verdict([0, 2, 0, 98], [0], [1], [2], arrived=[100] * 4)
    assert (row["verdict"], row["findings"]) == (STARVATION, [STARVATION])
    assert (row["unattended_partitions"], row["starved_partitions"], row["starved_lag"]) == (
        1,
        0.25,
        0.98,
    )
    fewer = verdict([5, 5, 90, 0], [0, 1, 2, 3], [0, 1, 3], [0, 1, 3], arrived=[100] * 4)
    assert (fewer["verdict"], fewer["unattended_partitions"], fewer["starved_lag"]) == (
        STARVATION,
        0,
        0.9,
    )


def test_lag_with_members_that_have_more_partitions_is_assignment_skew() -> None:
    row = verdict([30, 30, 30, 1], [0, 1, 2], [3], [], arrived=[100] * 4)
    assert (row["verdict"], row["findings"]) == (ASSIGNMENT_SKEW, [ASSIGNMENT_SKEW])
    assert (row["members"], row["idle_members"], row["max_partitions"]) == (3, 1, 3)
    assert row["loaded_members"] == pytest.approx(1 / 3)
    assert row["loaded_lag"] == pytest.approx(90 / 91)
    # One partition more or less is what dividing leaves over.
    assert verdict([30, 30, 1], [0, 1], [2], arrived=[100] * 3)["verdict"] != ASSIGNMENT_SKEW


def test_several_reasons_are_all_given_and_the_clearest_first() -> None:
    row = verdict([96, 2, 1, 1], [1, 2], [2, 3], [3, 1], arrived=[400, 300, 100, 100])
    assert row["findings"] == [STARVATION, DATA_SKEW]
    assert row["verdict"] == STARVATION


def test_even_lag_and_no_lag_differ_from_unknown_lag() -> None:
    assert verdict([7, 7, 7, 7], *EACH_ITS_OWN, arrived=[700, 1, 1, 1])["verdict"] == EVEN
    assert verdict([0, 0, 0, 0], *EACH_ITS_OWN)["verdict"] == NO_LAG
    assert verdict([9, 0, 0, 0])["verdict"] == NO_MEMBERS
    unknown = verdict([None, None], [0])
    assert (unknown["verdict"], unknown["unknown_lags"], unknown["lag"]) == (None, 2, None)
    beside = verdict([0, None], [0])
    assert (beside["verdict"], beside["unknown_lags"], beside["lag"]) == (None, 1, None)
    part = verdict([40, None, 40, 40], [0, 1], [2, 3], arrived=[100, 900, 100, 100])
    assert (part["verdict"], part["unknown_lags"]) == (EVEN, 1)


def test_without_members_or_arrivals_nothing_is_made_up() -> None:
    (row,) = skew_arrow(lag_table({"g": {ORDERS: [9, 0, 0]}})).to_pylist()
    assert (row["verdict"], row["findings"]) == (UNEVEN, [])
    for name in (
        "members",
        "idle_members",
        "unattended_partitions",
        "starved_lag",
        "loaded_lag",
        "busy_arrived",
    ):
        assert row[name] is None
    assert set(VERDICTS) == {
        NO_MEMBERS,
        STARVATION,
        ASSIGNMENT_SKEW,
        DATA_SKEW,
        UNEVEN,
        EVEN,
        NO_LAG,
    }
    assert skew_arrow(lag_table({"g": {ORDERS: [1]}})).schema.equals(SKEW)
