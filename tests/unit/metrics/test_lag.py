"""The worked examples of KIP-1226 come out, and every term means what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.metrics.lag import lag_arrow, rollup_arrow
from sharelag.model import DeliveryState
from sharelag.replay import replay_arrow
from sharelag.tables import reasons
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT
from tests.support import generators
from tests.support.records import offsets, raw, row
from tests.support.walk import RECOVERED, WALK, walk_records

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def lag_of(snapshot: dict[str, Any], end: int | None, log_start: int | None = 0) -> dict[str, Any]:
    """The lag row of one share partition whose whole state is a snapshot."""
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, snapshot)])).records
    line: dict[str, Any] = lag_arrow(replay_arrow(records), offsets(end, log_start)).to_pylist()[0]
    return line


@pytest.mark.row("LAG-01", "LAG-02", "LAG-03", "LAG-04", "LAG-12")
def test_the_example_of_the_kip() -> None:
    # 2 and 4 are acquired: not persisted with their state, so 2 and 4 are unknown or available at
    # count 0.
    batches = [
        (2, 2, AVAILABLE, 0),
        (3, 3, AVAILABLE, 2),
        (4, 4, AVAILABLE, 0),
        (5, 5, ACKNOWLEDGED, 1),
    ]
    batches += [(6, 6, ARCHIVED, 1), (7, 9, AVAILABLE, 0)]
    line = lag_of(row(2, batches, delivery_complete_count=2), end=11)
    assert line["lag"] == line["effective_lag"] == 7
    assert (
        line["unread"],
        line["window_available"],
        line["window_unknown"],
        line["window_complete"],
    ) == (
        1,
        6,
        0,
        2,
    )
    assert line["lag_reason"] is None
    assert line["notes"] == []


def test_only_what_is_durable_is_known() -> None:
    batches = [(3, 3, AVAILABLE, 2), (5, 5, ACKNOWLEDGED, 1), (6, 6, ARCHIVED, 1)]
    line = lag_of(row(2, batches, delivery_complete_count=2), end=9)
    assert line["lag"] == 5
    assert (
        line["unread"],
        line["window_available"],
        line["window_unknown"],
        line["window_complete"],
    ) == (
        2,
        1,
        2,
        2,
    )


#: The count that is right for the start offset that is persisted after each write of the
#: walk.
COUNTS_AND_LAGS = {
    0: (0, 21),
    2: (0, 11),
    4: (0, 11),
    5: (1, 10),
    7: (1, 10),
    8: (7, 4),
    10: (8, 3),
    11: (0, 1),
}


@pytest.mark.row("LAG-02", "LAG-10")
@pytest.mark.parametrize("step", COUNTS_AND_LAGS)
def test_lag_along_the_walk(step: int) -> None:
    count, lag = COUNTS_AND_LAGS[step]
    *before, (_, key, _) = walk_records(step)
    start, batches = WALK[step]
    kind = decode_arrow(raw([(key, None)])).records.to_pylist()[0]["record_type"]
    from sharelag.wire.fields import STATE_KINDS

    last = encode_record(STATE_KINDS[kind], row(start, batches, delivery_complete_count=count))
    records = decode_arrow(raw([r[1:] for r in before] + [last])).records
    line = lag_arrow(replay_arrow(records), offsets(121)).to_pylist()[0]
    assert (line["lag"], line["effective_lag"], line["notes"]) == (lag, lag, [])
    assert line["effective_start_offset"] == RECOVERED[step][0]


@pytest.mark.row("LAG-02")
def test_the_trap_is_noticed() -> None:
    """A count of 7 belongs to start offset 111, but 110 is what is persisted."""
    records = [r[1:] for r in walk_records(8)]
    trap = encode_record(
        SHARE_SNAPSHOT,
        row(110, [(110, 110, 2, 2), (111, 112, 0, 1), (113, 119, 2, 1)], delivery_complete_count=7),
    )
    line = lag_arrow(
        replay_arrow(decode_arrow(raw([*records, trap])).records), offsets(121)
    ).to_pylist()[0]
    assert (line["lag"], line["effective_lag"], line["notes"]) == (4, 3, [reasons.COUNT_DIFFERS])


@pytest.mark.row("LAG-13")
def test_what_is_not_known_is_null_with_a_reason() -> None:
    assert lag_of(row(121, []), end=121)["lag"] == 0
    no_count = lag_of(row(2, [], delivery_complete_count=-1), end=11)
    assert (no_count["lag"], no_count["lag_reason"], no_count["effective_lag"]) == (
        None,
        reasons.NO_COMPLETE_COUNT,
        9,
    )
    no_start = lag_of(row(-1, [], delivery_complete_count=-1), end=11)
    assert (no_start["lag"], no_start["lag_reason"], no_start["unread"]) == (
        None,
        reasons.NO_START_OFFSET,
        None,
    )
    no_end = lag_of(row(2, []), end=None)
    assert (no_end["lag"], no_end["lag_reason"], no_end["unread"]) == (
        None,
        reasons.NO_END_OFFSET,
        None,
    )
    elsewhere = lag_of(row(2, [], topic_id="B" * 22), end=11)
    assert (elsewhere["lag"], elsewhere["lag_reason"], elsewhere["topic"]) == (
        None,
        reasons.UNKNOWN_TOPIC,
        None,
    )
    stale = lag_of(row(50, []), end=40)
    assert (stale["lag"], stale["lag_reason"]) == (None, reasons.NEGATIVE_LAG)
    beyond = lag_of(row(5000, []), end=100)
    assert (beyond["lag"], beyond["lag_reason"]) == (None, reasons.NEGATIVE_LAG)
    assert (beyond["effective_lag"], lag_of(row(100, []), end=100)["effective_lag"]) == (None, 0)
    assert lag_of(row(40, []), end=40)["lag"] == 0


@pytest.mark.row("WIN-10")
def test_deleted_records_are_lag_to_kafka_but_not_effectively() -> None:
    line = lag_of(row(100, []), end=200, log_start=150)
    assert (line["lag"], line["effective_lag"], line["notes"]) == (
        100,
        50,
        [reasons.START_BELOW_LOG_START],
    )
    assert (line["start_offset"], line["effective_start_offset"]) == (100, 150)


@pytest.mark.row("LAG-08")
def test_a_window_beyond_a_stale_end_offset_is_still_to_do() -> None:
    """Of a capture or a stream, ends may be older than windows; a start alone says nothing."""
    line = lag_of(row(20, [(20, 25, AVAILABLE, 1)]), end=10)
    assert (line["lag"], line["effective_lag"], line["unread"]) == (None, 6, 0)
    line = lag_of(row(20, []), end=10)
    assert (line["lag"], line["effective_lag"]) == (None, None)


def test_a_gap_acknowledgement_takes_its_offsets_out() -> None:
    assert lag_of(row(0, []), end=10)["lag"] == 10
    gaps = [(3, 4, ARCHIVED, 1)]
    assert lag_of(row(0, gaps, delivery_complete_count=2), end=10)["lag"] == 8
    assert lag_of(row(10, []), end=10)["lag"] == 0


def test_a_state_that_is_not_terminal_stays_lag() -> None:
    archiving = [(0, 4, int(DeliveryState.ARCHIVING), 3), (5, 6, int(DeliveryState.TX_PENDING), 1)]
    line = lag_of(row(0, archiving), end=10)
    assert (
        line["lag"],
        line["window_unknown"],
        line["unread"],
        line["effective_start_offset"],
        line["notes"],
    ) == (10, 7, 3, 0, [reasons.ARCHIVING])


def test_a_lag_of_ten_thousand_million_is_exact() -> None:
    assert lag_of(row(7, []), end=10**10 + 7)["lag"] == 10**10


@given(st.integers(0, 10**6))
def test_the_terms_add_up_and_equal_a_count_of_the_offsets(seed: int) -> None:
    random = Random(seed)
    start, end, log_start = random.randint(0, 30), random.randint(50, 70), random.randint(0, 45)
    batches = generators.state_batches(random)
    snapshot = row(start, batches)
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, snapshot)])).records
    window = replay_arrow(records).to_pylist()[0]
    end = max(
        end, window["window_end_offset"]
    )  # else the ends were read before the window, and nothing is unread
    line = lag_arrow(replay_arrow(records), offsets(end, log_start)).to_pylist()[0]
    states: dict[int, int] = {}
    for batch in sorted(batches, key=lambda b: (b.delivery_count, b.delivery_state)):
        states |= dict.fromkeys(
            range(batch.first_offset, batch.last_offset + 1), batch.delivery_state
        )
    inside = range(start, window["window_end_offset"])
    complete = [offset for offset in inside if states.get(offset) in (ACKNOWLEDGED, ARCHIVED)]
    assert line["window_complete"] == len(complete)
    assert line["window_available"] == sum(states.get(offset) == AVAILABLE for offset in inside)
    terms = ("unread", "window_available", "window_unknown", "window_complete")
    assert sum(line[term] for term in terms) == end - start
    left = [offset for offset in range(max(start, log_start), end) if offset not in complete]
    assert line["effective_lag"] == len(left)


@pytest.mark.row("LAG-13")
def test_roll_ups_count_what_is_unknown_and_never_sum_it_as_zero() -> None:
    def share(group: str, partition: int, **changes: Any) -> dict[str, Any]:
        empty: dict[str, Any] = dict.fromkeys(schemas.LAG.names)
        return (
            empty
            | {"group_id": group, "topic": "t", "topic_id": "A" * 22, "partition": partition}
            | changes
        )

    newer, older = datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    table = pa.Table.from_pylist(
        [
            share("g", 0, lag=7, unread=5, as_of=newer),
            share("g", 1, as_of=older),
            share("g", 2, lag=3, unread=1),
            share("h", 0),
            share("k", 0, lag=0),
            share("k", 1),
            share("z", 0, lag=0),
        ],
        schema=schemas.LAG,
    )
    for by in ("group", "topic"):
        first, second, third, last = rollup_arrow(table, by).to_pylist()
        # Of 0 and something unknown it is not known that nothing waits.
        assert (third["lag"], third["max_lag"], third["unknown_lags"]) == (None, None, 1)
        assert (last["lag"], last["max_lag"], last["unknown_lags"]) == (0, 0, 0)
        assert (first["partitions"], first["unknown_lags"], first["lag"], first["max_lag"]) == (
            3,
            1,
            10,
            7,
        )
        assert (second["partitions"], second["unknown_lags"], second["lag"], second["unread"]) == (
            1,
            1,
            None,
            None,
        )
        assert first["topic"] == (None if by == "group" else "t")
        assert first["as_of"] == older


def test_no_windows_no_rows() -> None:
    empty = replay_arrow(schemas.RECORDS.empty_table())
    assert lag_arrow(empty, offsets(1)).num_rows == 0
    assert rollup_arrow(lag_arrow(empty, offsets(1)), "group").num_rows == 0
