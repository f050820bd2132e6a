"""One row says of a span of time what thousands of rows of history say."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.observed import BINS, HISTORY_COLUMNS, observe
from sharelag.wire import STATE_TOPIC
from tests.support.records import assert_fields

MS = timedelta(milliseconds=1)
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
END, OVER = MIDNIGHT + 1000 * MS, 1000 * MS
CHANGES = ("finished", "archived", "released", "redelivered")
CREATED = {"replaced": True} | dict.fromkeys(CHANGES)
FIRST_SEEN = {"follows": False} | dict.fromkeys(CHANGES)


def at(millisecond: int) -> datetime:
    return MIDNIGHT + millisecond * MS


def line(
    millisecond: int, start: int | None = 0, head: int | None = None, **changes: Any
) -> dict[str, Any]:
    """A row of history that follows the one before and changes nothing but what is said."""
    return {
        "group_id": "G1",
        "topic_id": "A" * 22,
        "partition": 0,
        "record_topic": STATE_TOPIC,
        "record_partition": 0,
        "record_offset": millisecond,
        "record_timestamp": at(millisecond),
        "record_kind": "update",
        "snapshot_epoch": 0,
        "start_offset": start,
        "effective_start_offset": start if head is None else head,
        **dict.fromkeys(("delivery_complete_count", "max_delivery_count"), 0),
        **dict.fromkeys(("head_delivery_count", *CHANGES), 0),
        "replaced": False,
        "from_snapshot": True,
        "follows": True,
    } | changes


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schemas.HISTORY)


def only(*rows: dict[str, Any], end: datetime = END, over: timedelta = OVER) -> dict[str, Any]:
    (row,) = observe(table(list(rows)), end, over).to_pylist()
    return dict(row)


# ---- what each column means ----------------------------------------------------------------------
def test_sums_are_of_the_span_alone() -> None:
    rows = [line(0, **CREATED), line(500, finished=7, archived=1)]
    rows += [line(501, finished=10, archived=2, released=3, redelivered=4)]
    rows += [line(1000, finished=20, released=5), line(1001, finished=40)]
    row = only(*rows, over=500 * MS)
    assert_fields(row, finished=30, archived=2, released=8, redelivered=4)
    assert_fields(row, begin=at(500), end=at(1000), records=2, breaks=0)
    assert row["finished_bins"] == [10, 0, 0, 0, 0, 0, 0, 0, 0, 20]
    assert_fields(row, last_finished=at(1000), last_released=at(1000))
    quiet = only(*rows, end=at(5000), over=100 * MS)
    assert_fields(quiet, records=0, finished=0, last_finished=at(1001))
    assert quiet["last_released"] == at(1000)


def test_a_state_without_its_snapshot_is_unknown_until_the_next() -> None:
    blind = {"from_snapshot": False} | dict.fromkeys(CHANGES)
    rows = [line(100, **blind | {"follows": False}), line(200, **blind)]
    rows.append(line(300, **dict.fromkeys(CHANGES)))
    row = only(*rows, line(400, finished=5))
    assert_fields(row, begin=at(300), finished=5, breaks=0, records=4)
    later = only(line(50, **CREATED), *rows, line(400, finished=5))
    assert_fields(later, begin=at(50), finished=5, breaks=2)  # what they changed is missing


def test_a_tombstone_takes_the_share_partition_away_and_a_snapshot_brings_it_back() -> None:
    nothing = {"record_kind": "tombstone", "snapshot_epoch": None} | dict.fromkeys(CHANGES)
    gone = line(300, None, from_snapshot=False, **nothing)
    rows = [line(0, **CREATED), line(200, finished=5), gone]
    assert observe(table(rows), END, OVER).num_rows == 0
    assert only(*rows, end=at(299))["finished"] == 5
    again = only(*rows, line(400, **CREATED), line(500, 3, finished=2))
    assert_fields(again, finished=7, replacements=1, head_since=at(500))
    assert_fields(again, breaks=0, start_back=0)


def test_how_often_offsets_are_given_back() -> None:
    times = [line(0, **CREATED), *(line(ms, released=1) for ms in (100, 130, 190))]
    for rows, over, every in (
        (times[:3], OVER, None),
        (times, OVER, 45),
        ([*times, line(1000, released=9)], OVER, 60),
        ([*times, line(195)], 900 * MS, None),  # one is before
    ):
        assert only(*rows, over=over)["release_every_ms"] == every


@pytest.mark.parametrize(
    ("rows", "since", "is_older"),
    [
        ([line(100, 4, **FIRST_SEEN), line(200, 4)], 100, True),
        ([line(100, 4, **FIRST_SEEN), line(200, 5)], 200, False),
        ([line(100, 4, **CREATED), line(200, 4, follows=False), line(300, 4)], 200, True),
        ([line(100, 4, **CREATED), line(200, 4, **CREATED), line(300, 4)], 200, False),
        ([line(100, 4, **CREATED), line(200, 4)], 100, False),
        ([line(100, None, **CREATED)], None, None),
        ([line(0, 0, **CREATED), line(100, 0, 4), line(200, 2, 4), line(300, 4, 4)], 100, False),
    ],
)
def test_since_when_the_head_stands(
    rows: list[dict[str, Any]], since: int | None, is_older: bool | None
) -> None:
    row = only(*rows, over=100 * MS)
    assert_fields(row, head_since=None if since is None else at(since), head_is_older=is_older)
    assert row["head_offset"] == rows[-1]["effective_start_offset"]


def test_what_went_back_is_noticed_unless_it_was_reset() -> None:
    rows = [line(0, 10, **CREATED), line(100, 20, delivery_complete_count=5)]
    start = only(*rows, line(200, 18, finished=None, delivery_complete_count=7), line(300, 19))
    assert_fields(start, start_back=1, start_back_at=at(200), start_back_record="0:200", breaks=0)
    # 18 + 7 to 19 + 0
    assert_fields(start, count_back=1, count_back_at=at(300), count_back_record="0:300")
    for excuse in (CREATED, FIRST_SEEN):
        row = only(*rows, line(200, 3, **excuse))
        assert_fields(row, start_back=0, count_back=0, count_back_at=None)
    later = [line(200, 20, delivery_complete_count=None), line(300, 20, delivery_complete_count=1)]
    unknown = only(*rows, *later)
    assert_fields(unknown, count_back=0, start_back_at=None)


def test_a_row_that_a_clock_dates_later_is_missing() -> None:
    row = only(line(0, **CREATED), line(1500, 5, finished=5), line(900, 6, finished=1))
    assert_fields(row, finished=1, breaks=1, head_since=at(900), head_is_older=True)


def test_an_empty_span_is_refused_and_no_history_is_no_rows() -> None:
    with pytest.raises(InputError, match="at least one millisecond"):
        observe(table([]), END, timedelta())
    assert observe(table([]), END, OVER).num_rows == 0
    assert observe(table([line(2000, **CREATED)]), END, OVER).num_rows == 0
    with pytest.raises(InputError, match="follows"):
        observe(table([]).drop_columns(["follows"]), END, OVER)


# ---- any history ---------------------------------------------------------------------------------
CHANGE = st.one_of(st.none(), st.integers(0, 9))
ROW = st.fixed_dictionaries(
    {
        "step": st.integers(-20, 300),
        "start": st.one_of(st.none(), st.integers(0, 5)),
        "head": st.integers(0, 2),
        "delivery_complete_count": st.one_of(st.none(), st.integers(0, 3)),
        "gone": st.sampled_from([False, False, False, True]),
        "replaced": st.sampled_from([False, False, True]),
        "from_snapshot": st.sampled_from([True, True, False]),
        "follows": st.sampled_from([True, True, False]),
        "head_delivery_count": st.integers(0, 5),
        "max_delivery_count": st.integers(0, 5),
        **dict.fromkeys(CHANGES, CHANGE),
    }
)


def rows_of(share: int, drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Histories of one share partition; the fourth has moved to another state partition."""
    place = {"group_id": f"g:{share % 3}", "record_partition": share // 3}
    rows, now = [], 0
    for values in drawn:
        values = dict(values)
        now += values.pop("step")
        start, head, gone = values.pop("start"), values.pop("head"), values.pop("gone")
        if gone:
            values |= {"record_kind": "tombstone", "snapshot_epoch": None, **dict.fromkeys(CHANGES)}
            start = None
        rows.append(line(now, start, None if start is None else start + head, **values, **place))
    return rows


HISTORIES = st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=4).map(
    lambda shares: [rows_of(share, drawn) for share, drawn in enumerate(shares)]
)


def lead_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row after which it is known what happened."""
    lead = rows[0]
    for row in rows:
        begins_whole = row["replaced"] and row["start_offset"] is not None
        if row["finished"] is not None or begins_whole or row["snapshot_epoch"] is None:
            break
        lead = row
    return lead


def by_hand(rows: list[dict[str, Any]], end: datetime, over: timedelta) -> dict[str, Any] | None:
    """The same row by row: a small machine that reads a history as a person would."""
    seen: list[dict[str, Any]] = []
    skipped = False
    for number, row in enumerate(rows):
        if row["record_timestamp"] > end:
            skipped = True
            continue
        seen.append(
            row | {"follows": row["follows"] and not skipped, "first": not seen, "number": number}
        )
        skipped = False
    if not seen or seen[-1]["snapshot_epoch"] is None:
        return None
    lead = lead_of(seen)
    begin = max(end - over, lead["record_timestamp"])
    span = [row for row in seen if row["record_timestamp"] > end - over]
    after = [row for row in span if row["number"] > lead["number"]]
    bins, back = [0] * BINS, [0] * BINS
    ends = [begin + (i + 1) * ((end - begin) / BINS) for i in range(BINS - 1)]
    for row in span:
        at_part = sum(row["record_timestamp"] > part_end for part_end in ends)
        bins[at_part] += row["finished"] or 0
        back[at_part] += row["released"] or 0
    given_back = [row["record_timestamp"] for row in span if row["released"]]
    distances = [abs(b - a) // MS for a, b in pairwise(given_back)]
    head = [seen[-1]]
    for earlier, later in pairwise(seen[::-1]):
        if earlier["replaced"] or not earlier["follows"]:
            break
        if later["effective_start_offset"] != earlier["effective_start_offset"]:
            break
        head.append(later)
    known = seen[-1]["effective_start_offset"] is not None
    fell: dict[str, list[tuple[datetime, str]]] = {"start": [], "count": []}
    for before, row in pairwise(seen):
        if row["record_timestamp"] <= end - over or row["replaced"] or not row["follows"]:
            continue
        starts = (before["start_offset"], row["start_offset"])
        counts = (before["delivery_complete_count"], row["delivery_complete_count"])
        where = f"{row['record_partition']}:{row['record_offset']}"
        if None not in starts and starts[1] < starts[0]:
            fell["start"].append((row["record_timestamp"], where))
        if None not in starts + counts and starts[1] + counts[1] < starts[0] + counts[0]:
            fell["count"].append((row["record_timestamp"], where))

    def last(name: str) -> datetime | None:
        return next((row["record_timestamp"] for row in seen[::-1] if row[name]), None)

    kept = ("group_id", "topic_id", "partition", "max_delivery_count", "head_delivery_count")
    is_older = not head[-1]["replaced"] and (head[-1]["first"] or not head[-1]["follows"])
    back_at = {name: found[-1] if found else (None, None) for name, found in fell.items()}
    return {
        **{name: seen[-1][name] for name in kept},
        "begin": begin,
        "end": end,
        "records": len(span),
        "breaks": sum(
            not row["follows"] or not (row["from_snapshot"] or row["snapshot_epoch"] is None)
            for row in after
        ),
        "replacements": sum(row["replaced"] for row in span),
        **{name: sum(row[name] or 0 for row in span) for name in CHANGES},
        "finished_bins": bins,
        "released_bins": back,
        "last_finished": last("finished"),
        "last_released": last("released"),
        "release_every_ms": int(median(distances)) if len(distances) > 1 else None,
        "head_offset": seen[-1]["effective_start_offset"],
        "head_since": head[-1]["record_timestamp"] if known else None,
        "head_is_older": is_older if known else None,
        **{f"{name}_back": len(found) for name, found in fell.items()},
        **{f"{name}_back_at": found[0] for name, found in back_at.items()},
        **{f"{name}_back_record": found[1] for name, found in back_at.items()},
    }


@given(HISTORIES, st.integers(0, 2000), st.integers(1, 400).map(lambda tenth: tenth * 10))
def test_any_history_of_any_rows(shares: list[list[dict[str, Any]]], end: int, over: int) -> None:
    expected = [by_hand(rows, at(end), over * MS) for rows in shares]
    whole = table([row for rows in shares for row in rows])
    ours = observe(whole, at(end), over * MS)
    assert ours.to_pylist() == [row for row in expected if row is not None]
    chunked = pa.concat_tables([whole.slice(i, 1) for i in range(len(whole))])
    for same in (chunked, whole.select(HISTORY_COLUMNS)):
        assert observe(same, at(end), over * MS).equals(ours)
