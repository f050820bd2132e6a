"""Reclaimable is what every share group has passed, and the group that holds the rest is named."""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.reclaim import RECLAIMABLE, reclaimable_arrow
from sharelag.sources.inputs import CaptureInput
from sharelag.workbench import engine
from tests.support.chapters import CAPTURE
from tests.support.progress_rows import NOON
from tests.support.progress_rows import lag as lag_row


def share(group: str, start: int | None, **changes: Any) -> dict[str, Any]:
    return lag_row(group_id=group, start_offset=start, **changes)


def reclaimable(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    table = reclaimable_arrow(pa.Table.from_pylist(list(rows), schemas.LAG))
    assert table.schema.equals(RECLAIMABLE)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def only(*rows: dict[str, Any]) -> dict[str, Any]:
    (row,) = reclaimable(*rows)
    return row


@pytest.mark.row("FUT-03")
def test_the_group_that_is_furthest_back_holds_the_log() -> None:
    row = only(share("G1", 120), share("G2", 90))
    assert (row["reclaimable"], row["start_offset"], row["group_id"], row["groups"]) == (
        90,
        90,
        "G2",
        2,
    )
    assert (row["topic"], row["partition"], row["log_start_offset"], row["as_of"]) == (
        "orders",
        0,
        0,
        NOON,
    )
    assert only(share("G1", 120))["reclaimable"] == 120
    assert (
        only(share("G1", 120, log_start_offset=70), share("G2", 90, log_start_offset=70))[
            "reclaimable"
        ]
        == 20
    )
    # Retention was faster than the second group.
    assert (
        only(share("G1", 120, log_start_offset=100), share("G2", 90, log_start_offset=100))[
            "reclaimable"
        ]
        == 0
    )


def test_what_is_not_known_could_hold_everything() -> None:
    """One group has fetched nothing yet, or the leader of the partition does not answer."""
    row = only(share("G1", 120), share("G2", None))
    assert (row["reclaimable"], row["start_offset"], row["group_id"], row["groups"]) == (
        None,
        None,
        None,
        2,
    )
    row = only(share("G1", 120, log_start_offset=None), share("G2", 90, log_start_offset=None))
    assert (row["reclaimable"], row["start_offset"], row["group_id"]) == (None, 90, "G2")
    assert reclaimable() == []
    with pytest.raises(InputError, match=r"lag: .*start_offset"):
        reclaimable_arrow(pa.table({"topic": ["t"]}))


@given(st.integers(0, 10**6))
def test_each_topic_partition_by_itself(seed: int) -> None:
    random = Random(seed)
    names = ["", "a:b", "<b>", "グループ", "a"]
    rows = [
        share(
            group, random.choice([None, 0, 5, 7, 30]), topic=topic, topic_id=topic * 22, partition=partition,
            log_start_offset=3 * partition,
        )
        for group in names
        for topic in ("t", "u")
        for partition in range(2)
        if random.random() < 0.7
    ]  # fmt: skip
    random.shuffle(rows)
    expected = []
    place = ("topic", "partition")
    for key, found in groupby(
        sorted(rows, key=lambda row: [row[n] for n in place]), lambda row: [row[n] for n in place]
    ):
        mine = sorted(found, key=lambda row: (row["start_offset"] or 0, row["group_id"]))
        starts = [row["start_offset"] for row in mine]
        low = None if None in starts else min(starts)
        reclaim = None if low is None else max(low - 3 * key[1], 0)
        expected.append(
            (*key, len(mine), low, None if low is None else mine[0]["group_id"], reclaim)
        )
    columns = (*place, "groups", "start_offset", "group_id", "reclaimable")
    assert [tuple(row[name] for name in columns) for row in reclaimable(*rows)] == expected


def test_the_recorded_cluster() -> None:
    lag = engine.lag(CaptureInput(CAPTURE), "local").table
    rows = reclaimable_arrow(lag).to_pylist()
    assert len(rows) == len({(row["topic_id"], row["partition"]) for row in lag.to_pylist()})
    for row in rows:
        starts = [
            line["start_offset"]
            for line in lag.to_pylist()
            if (line["topic_id"], line["partition"]) == (row["topic_id"], row["partition"])
        ]
        assert row["groups"] == len(starts)
        assert row["reclaimable"] == (
            None if None in starts else min(starts) - row["log_start_offset"]
        )
    assert {row["reclaimable"] is None for row in rows} == {True, False}
