"""Lag older than a record TTL: between two bounds, and exact where all is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.ttl import ARCHIVED, archived_by_ttl
from sharelag.replay import replay_arrow
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT
from sharelag.workbench import investigate
from tests.support import generators
from tests.support.progress_rows import ID, MINUTE, MS, NOON, PLACE, ago, end, time
from tests.support.records import raw
from tests.support.records import row as snapshot
from tests.support.written_input import NOW, Write, WrittenInput

SIX_MINUTES = timedelta(minutes=6)


def windows(*states: dict[str, Any]) -> pa.RecordBatch:
    return replay_arrow(
        decode_arrow(raw([encode_record(SHARE_SNAPSHOT, state) for state in states])).records
    )


def archived(
    state: pa.RecordBatch,
    end_offset: int | None,
    ends: list[dict[str, Any]],
    times: list[dict[str, Any]],
    ttl: timedelta = SIX_MINUTES,
    log_start: int = 0,
) -> tuple[int | None, int | None, int | None]:
    """About, at least, at most."""
    now = PLACE | {"end_offset": end_offset, "log_start_offset": log_start, "as_of": NOON}
    lag = lag_arrow(state, pa.Table.from_pylist([now], schemas.OFFSETS))
    past, of_records = (
        pa.Table.from_pylist(ends, schemas.OFFSETS),
        pa.Table.from_pylist(times, schemas.TIMES),
    )
    table = archived_by_ttl(lag, state, past, of_records, NOON, ttl)
    assert table.schema.equals(ARCHIVED)
    (line,) = table.to_pylist()
    assert (line["group_id"], line["topic_id"], line["as_of"]) == ("G1", ID, NOON)
    assert line["effective_lag"] == lag.to_pylist()[0]["effective_lag"]
    return line["archived"], line["archived_low"], line["archived_high"]


THREE = [time(offset, offset, ago(minutes * MINUTE)) for offset, minutes in enumerate((9, 5, 1))]


@pytest.mark.row("FUT-04")
def test_of_three_records_one_is_too_old() -> None:
    state = windows(snapshot(0, []))
    assert archived(state, 3, [], THREE) == (1, 1, 1)
    assert archived(state, 3, [], THREE, timedelta(minutes=10)) == (0, 0, 0)
    assert archived(state, 3, [], THREE, timedelta(seconds=30)) == (3, 3, 3)
    assert archived(state, 3, [], THREE, timedelta(minutes=5)) == (2, 2, 2)  # as old as that
    # What is finished is no lag, however old; what the log has deleted is gone already.
    assert archived(windows(snapshot(0, [(0, 0, 2, 1)])), 3, [], THREE) == (0, 0, 0)
    assert archived(windows(snapshot(0, [(1, 1, 2, 1)])), 3, [], THREE, timedelta(minutes=2)) == (
        1,
        1,
        1,
    )
    assert archived(state, 3, [], THREE, timedelta(minutes=2), log_start=1) == (1, 1, 1)


def test_between_known_times_it_is_between_two_numbers() -> None:
    state = windows(snapshot(0, [(10, 19, 2, 1)]))
    ends = [end(40, 8 * MINUTE), end(80, 4 * MINUTE)]
    assert archived(state, 100, ends, []) == (50, 30, 70)
    assert archived(state, 100, [*ends, end(52, 6 * MINUTE)], []) == (42, 42, 42)
    assert archived(state, 100, [*ends, end(45, 6 * MINUTE), end(52, 6 * MINUTE)], []) == (
        42,
        42,
        42,
    )
    # A record that is fetched narrows it.
    assert archived(state, 100, ends, [time(50, 50, ago(7 * MINUTE))])[1:] == (41, 70)
    assert archived(state, 100, ends, [time(50, 53, ago(5 * MINUTE))])[1:] == (30, 43)


def test_of_one_millisecond_there_may_be_more_records_than_the_known_one() -> None:
    state, now = windows(snapshot(0, [])), 6 * MINUTE
    assert archived(state, 9, [], [time(3, 3, ago(now))])[1:] == (4, 9)
    assert archived(state, 9, [], [time(3, 3, ago(now - 1))])[1:] == (None, 3)


def test_an_end_that_is_older_than_the_state() -> None:
    """Offsets 5 to 9 are in the window, and the end that was read was 5."""
    state = windows(snapshot(0, [(5, 9, 0, 1)]))
    assert archived(state, 5, [], [time(7, 7, ago(9 * MINUTE))]) == (8, 8, 8)


def test_what_is_not_known_of_one_partition_is_not_taken_from_another() -> None:
    state = windows(snapshot(0, [], partition=0), snapshot(50, [], partition=1))
    now = [
        PLACE | {"partition": p, "end_offset": 100, "log_start_offset": 0, "as_of": NOON}
        for p in (0, 1)
    ]
    lag = lag_arrow(state, pa.Table.from_pylist(now, schemas.OFFSETS))
    past = pa.Table.from_pylist([end(80, 8 * MINUTE), end(90, 4 * MINUTE)], schemas.OFFSETS)
    young = pa.Table.from_pylist([time(50, 50, ago(MINUTE), partition=1)], schemas.TIMES)
    first, second = archived_by_ttl(lag, state, past, young, NOON, SIX_MINUTES).to_pylist()
    assert (first["archived"], first["archived_low"], first["archived_high"]) == (85, 80, 90)
    assert (second["archived"], second["archived_low"], second["archived_high"]) == (0, 0, 0)
    columns = ("archived", "archived_low", "archived_high")
    (_, second) = archived_by_ttl(
        lag, state, past, young.slice(0, 0), NOON, SIX_MINUTES
    ).to_pylist()
    assert [second[name] for name in columns] == [None, None, 50]


def test_what_is_not_known() -> None:
    state = windows(snapshot(0, []))
    assert archived(state, 100, [], []) == (None, None, 100)
    assert archived(state, 100, [end(80, 4 * MINUTE)], []) == (None, None, 80)
    young = [time(0, 0, ago(MINUTE))]  # the oldest is young: so are all others
    assert archived(state, 100, [], young) == (0, 0, 0)
    assert archived(state, 100, [end(80, 7 * MINUTE, partition=1), end(None, 7 * MINUTE)], []) == (
        None,
        None,
        100,
    )
    assert archived(state, 100, [], [time(0, None, None)]) == (None, None, 100)
    before_time = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # -1: the record has none
    assert archived(state, 100, [], [time(0, 0, before_time), time(1, 1, None)]) == (
        None,
        None,
        100,
    )
    assert archived(state, None, [end(80, 7 * MINUTE)], []) == (None, None, None)
    assert archived(windows(snapshot(100, [])), 100, [], []) == (0, 0, 0)  # no lag
    never = windows(snapshot(-1, [], delivery_complete_count=-1))
    assert archived(never, 100, [], THREE) == (None, None, None)
    with pytest.raises(InputError, match="must be positive"):
        archived(state, 100, [], [], timedelta())


def test_a_share_partition_with_two_states_is_not_known() -> None:
    state = windows(snapshot(0, []))
    now = PLACE | {"end_offset": 100, "log_start_offset": 0, "as_of": NOON}
    lag = lag_arrow(state, pa.Table.from_pylist([now], schemas.OFFSETS))
    twice = pa.concat_tables([pa.Table.from_batches([state])] * 2)
    nothing = schemas.OFFSETS.empty_table(), pa.Table.from_pylist(THREE, schemas.TIMES)
    (line,) = archived_by_ttl(lag, twice, *nothing, NOON, SIX_MINUTES).to_pylist()
    assert (line["effective_lag"], line["archived"], line["archived_high"]) == (100, None, None)
    assert archived_by_ttl(lag.slice(0, 0), state, *nothing, NOON, SIX_MINUTES).num_rows == 0


@given(st.integers(0, 10**6))
def test_the_two_numbers_hold_what_going_through_the_offsets_gives(seed: int) -> None:
    random = Random(seed)
    start, end_offset, log_start = (
        random.randint(0, 30),
        random.randint(40, 70),
        random.choice([0, 20]),
    )
    batches = generators.state_batches(random)
    states: dict[int, int] = {}
    for batch in sorted(batches, key=lambda b: (b.delivery_count, b.delivery_state)):
        states |= dict.fromkeys(
            range(batch.first_offset, batch.last_offset + 1), batch.delivery_state
        )
    state = windows(snapshot(start, batches))
    end_offset = (
        max(end_offset, *(batch.last_offset + 1 for batch in batches), 0) if batches else end_offset
    )
    came = sorted(
        (random.randint(1, 500) for _ in range(end_offset)), reverse=True
    )  # milliseconds ago
    ttl = random.randint(1, 520)
    truth = sum(
        came[offset] >= ttl and states.get(offset) not in (2, 4)
        for offset in range(max(start, log_start), end_offset)
    )
    known = random.sample(range(end_offset), random.choice([0, 1, 5, end_offset]))
    times = [time(offset, offset, ago(came[offset])) for offset in known]
    ends = [
        end(sum(one >= then for one in came), then)
        for then in random.sample(range(1, 600), random.choice([0, 3]))
    ]
    about, low, high = archived(state, end_offset, ends, times, ttl * MS, log_start)
    assert high is not None
    assert (low or 0) <= truth <= high
    if about is not None:
        assert low is not None
        assert low <= about <= high
    exact = end(sum(one >= ttl for one in came), ttl)
    assert archived(state, end_offset, [*ends, exact], times, ttl * MS, log_start) == (truth,) * 3
    if len(known) == end_offset and len(set(came)) == end_offset:
        assert (low or 0) == high == truth


def test_of_what_is_gathered_of_a_group() -> None:
    """A record a second; the last 600 are unfinished, and ends are known every six minutes."""
    evidence = investigate.gather(WrittenInput([Write(600, 6600)]), "local")
    tables = (evidence.lag, evidence.windows, evidence.past_offsets, evidence.times)
    (line,) = archived_by_ttl(*tables, NOW, timedelta(seconds=299.5)).to_pylist()
    assert line["effective_lag"] == 600
    assert line["archived_low"] <= 301 <= line["archived_high"] < 600
    assert abs(line["archived"] - 301) <= 1
    (line,) = archived_by_ttl(*tables, NOW, timedelta(seconds=601)).to_pylist()
    assert (line["archived"], line["archived_high"]) == (0, 0)  # the oldest is 600 s old
