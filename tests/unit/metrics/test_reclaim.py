"""Reclaimable is what every share group has passed, and the group that holds the rest is named.

Lag older than a record TTL: between two bounds, and exact where all is known.
"""

from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.reclaim import archived_by_ttl, reclaimable_arrow
from sharelag.replay import replay_arrow
from sharelag.wire import SHARE_SNAPSHOT, decode_arrow, encode_record
from tests.support import generators
from tests.support.fields import assert_fields
from tests.support.progress_rows import ID, MINUTE, MS, NOON, PLACE, ago, end, time
from tests.support.progress_rows import lag as lag_row
from tests.support.records import raw
from tests.support.records import row as snapshot
from tests.support.written_input import NOW, Write, WrittenInput


def share(group: str, start: int | None, **changes: Any) -> dict[str, Any]:
    return lag_row(group_id=group, start_offset=start, **changes)


def reclaimable(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    table = reclaimable_arrow(pa.Table.from_pylist(list(rows), schemas.LAG))
    assert table.schema.equals(schemas.RECLAIMABLE)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def only(*rows: dict[str, Any]) -> dict[str, Any]:
    (row,) = reclaimable(*rows)
    return row


@pytest.mark.row("FUT-03")
def test_the_group_that_is_furthest_back_holds_the_log() -> None:
    row = only(share("G1", 120), share("G2", 90))
    assert_fields(row, reclaimable=90, start_offset=90, group_id="G2", groups=2)
    assert_fields(row, topic="orders", partition=0, log_start_offset=0, as_of=NOON)
    assert only(share("G1", 120))["reclaimable"] == 120
    for log_start, left in ((70, 20), (100, 0)):  # retention was faster than the second group
        log = {"log_start_offset": log_start}
        assert only(share("G1", 120, **log), share("G2", 90, **log))["reclaimable"] == left


def test_what_is_not_known_could_hold_everything() -> None:
    """One group has fetched nothing yet, or the leader of the partition does not answer."""
    row = only(share("G1", 120), share("G2", None))
    assert_fields(row, reclaimable=None, start_offset=None, group_id=None, groups=2)
    row = only(share("G1", 120, log_start_offset=None), share("G2", 90, log_start_offset=None))
    assert_fields(row, reclaimable=None, start_offset=90, group_id="G2")
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
    wanted = []
    place = ("topic", "partition")
    for key, found in groupby(
        sorted(rows, key=lambda row: [row[n] for n in place]), lambda row: [row[n] for n in place]
    ):
        mine = sorted(found, key=lambda row: (row["start_offset"] or 0, row["group_id"]))
        starts = [row["start_offset"] for row in mine]
        low = None if None in starts else min(starts)
        reclaim = None if low is None else max(low - 3 * key[1], 0)
        wanted.append((*key, len(mine), low, None if low is None else mine[0]["group_id"], reclaim))
    columns = (*place, "groups", "start_offset", "group_id", "reclaimable")
    assert [tuple(row[name] for name in columns) for row in reclaimable(*rows)] == wanted


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
    past = pa.Table.from_pylist(ends, schemas.OFFSETS)
    of_records = pa.Table.from_pylist(times, schemas.TIMES)
    table = archived_by_ttl(lag, state, past, of_records, NOON, ttl)
    assert table.schema.equals(schemas.ARCHIVED)
    (line,) = table.to_pylist()
    assert_fields(line, group_id="G1", topic_id=ID, as_of=NOON)
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
    two, second = timedelta(minutes=2), windows(snapshot(0, [(1, 1, 2, 1)]))
    assert archived(second, 3, [], THREE, two) == (1, 1, 1)
    assert archived(state, 3, [], THREE, two, log_start=1) == (1, 1, 1)


def test_between_known_times_it_is_between_two_numbers() -> None:
    state = windows(snapshot(0, [(10, 19, 2, 1)]))
    ends = [end(40, 8 * MINUTE), end(80, 4 * MINUTE)]
    assert archived(state, 100, ends, []) == (50, 30, 70)
    for exact in ([end(52, 6 * MINUTE)], [end(45, 6 * MINUTE), end(52, 6 * MINUTE)]):
        assert archived(state, 100, [*ends, *exact], []) == (42, 42, 42)
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
    known = PLACE | {"end_offset": 100, "log_start_offset": 0, "as_of": NOON}
    now = [known | {"partition": p} for p in (0, 1)]
    lag = lag_arrow(state, pa.Table.from_pylist(now, schemas.OFFSETS))
    past = pa.Table.from_pylist([end(80, 8 * MINUTE), end(90, 4 * MINUTE)], schemas.OFFSETS)
    young = pa.Table.from_pylist([time(50, 50, ago(MINUTE), partition=1)], schemas.TIMES)
    first, second = archived_by_ttl(lag, state, past, young, NOON, SIX_MINUTES).to_pylist()
    assert_fields(first, archived=85, archived_low=80, archived_high=90)
    assert_fields(second, archived=0, archived_low=0, archived_high=0)
    nothing = young.slice(0, 0)
    _, second = archived_by_ttl(lag, state, past, nothing, NOON, SIX_MINUTES).to_pylist()
    assert_fields(second, archived=None, archived_low=None, archived_high=50)


def test_what_is_not_known() -> None:
    state = windows(snapshot(0, []))
    never = windows(snapshot(-1, [], delivery_complete_count=-1))
    before_time = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # -1: the record has none
    useless = [end(80, 7 * MINUTE, partition=1), end(None, 7 * MINUTE)]
    for of, end_offset, ends, times, expected in (
        (state, 100, [], [], (None, None, 100)),
        (state, 100, [end(80, 4 * MINUTE)], [], (None, None, 80)),
        (state, 100, useless, [], (None, None, 100)),
        # The oldest is young: so are all others.
        (state, 100, [], [time(0, 0, ago(MINUTE))], (0, 0, 0)),
        (state, 100, [], [time(0, None, None)], (None, None, 100)),
        (state, 100, [], [time(0, 0, before_time), time(1, 1, None)], (None, None, 100)),
        (state, None, [end(80, 7 * MINUTE)], [], (None, None, None)),
        (windows(snapshot(100, [])), 100, [], [], (0, 0, 0)),  # no lag
        (never, 100, [], THREE, (None, None, None)),
    ):
        assert archived(of, end_offset, ends, times) == expected
    with pytest.raises(InputError, match="must be positive"):
        archived(state, 100, [], [], timedelta())


def test_without_share_partitions_there_are_no_rows() -> None:
    state = windows(snapshot(0, []))
    now = PLACE | {"end_offset": 100, "log_start_offset": 0, "as_of": NOON}
    lag = lag_arrow(state, pa.Table.from_pylist([now], schemas.OFFSETS))
    nothing = schemas.OFFSETS.empty_table(), pa.Table.from_pylist(THREE, schemas.TIMES)
    assert archived_by_ttl(lag.slice(0, 0), state, *nothing, NOON, SIX_MINUTES).num_rows == 0


@given(st.integers(0, 10**6))
def test_the_two_numbers_hold_what_going_through_the_offsets_gives(seed: int) -> None:
    random = Random(seed)
    start, end_offset = random.randint(0, 30), random.randint(40, 70)
    log_start = random.choice([0, 20])
    batches = generators.state_batches(random)
    states = generators.state_by_offset(batches)
    state = windows(snapshot(start, batches))
    end_offset = max([end_offset, *(batch.last_offset + 1 for batch in batches)])
    # Milliseconds ago.
    came = sorted((random.randint(1, 500) for _ in range(end_offset)), reverse=True)
    ttl = random.randint(1, 520)
    truth = sum(
        came[offset] >= ttl and states.get(offset) not in (2, 4)
        for offset in range(max(start, log_start), end_offset)
    )
    known = random.sample(range(end_offset), random.choice([0, 1, 5, end_offset]))
    times = [time(offset, offset, ago(came[offset])) for offset in known]
    moments = random.sample(range(1, 600), random.choice([0, 3]))
    ends = [end(sum(one >= then for one in came), then) for then in moments]
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
    evidence = engines.gather(WrittenInput([Write(600, 6600)]), "local")
    tables = (evidence.lag, evidence.windows, evidence.past_offsets, evidence.times)
    (line,) = archived_by_ttl(*tables, NOW, timedelta(seconds=299.5)).to_pylist()
    assert line["effective_lag"] == 600
    assert line["archived_low"] <= 301 <= line["archived_high"] < 600
    assert abs(line["archived"] - 301) <= 1
    (line,) = archived_by_ttl(*tables, NOW, timedelta(seconds=601)).to_pylist()
    assert (line["archived"], line["archived_high"]) == (0, 0)  # the oldest is 600 s old
