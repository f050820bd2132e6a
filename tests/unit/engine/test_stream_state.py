"""A stream's state after any micro-batches says what a replay of all records says."""

from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.engine.spark import stream
from sharelag.engine.spark.stream import changes
from sharelag.engine.spark.stream.changes import REPLAYED, State
from sharelag.errors import InputError
from sharelag.replay import replay_arrow
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, decode_arrow, encode_record
from tests.support import generators, older_records
from tests.support.cases import Cases
from tests.support.records import raw, row, state_records

_PLACES = ("group_id", "topic_id", "partition")


def _apply(
    kept: State, batch: pa.RecordBatch, version: str | None = None
) -> tuple[State, pa.RecordBatch]:
    records = decode_arrow(batch).records.select(REPLAYED.names)
    after, changed = kept.apply(records, batch.column("offset").to_numpy(), version)
    return State.from_bytes(after.to_bytes()), changed


def _tables(
    batches: Iterable[pa.RecordBatch], version: str | None = None
) -> Iterable[tuple[State, pa.Table]]:
    """Yield the state and the table that the changes make, after each micro-batch."""
    kept, table = State.begin(), schemas.WINDOWS.empty_table()
    for batch in batches:
        kept, changed = _apply(kept, batch, version)
        table = stream.updated(table, changed)
        yield kept, table


def _rows(table: schemas.Arrow) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda r: [r[name] for name in _PLACES])


def _replayed(batch: pa.RecordBatch, version: str | None = None) -> list[dict[str, Any]]:
    return _rows(replay_arrow(decode_arrow(batch).records, version))


def _cuts(count: int, random: Random) -> list[int]:
    return [0, *sorted(random.choices(range(count), k=6)), count]


def _log(random: Random, length: int = 60) -> pa.RecordBatch:
    return raw(generators.sequence(random, keys=4, length=length))


def test_each_micro_batch_in_order_and_again(cases: Cases) -> None:
    for seed in range(cases(5, 150)):
        random = Random(seed)
        log = _log(random)
        cuts = _cuts(log.num_rows, random)
        # Some of what came before comes again with the next ones.
        starts = [max(0, cut - random.randrange(20)) for cut in cuts[:-1]]
        pieces = [log.slice(a, b - a) for a, b in zip(starts, cuts[1:], strict=True)]
        for end, (_, table) in zip(cuts[1:], _tables(pieces), strict=True):
            assert _rows(table) == _replayed(log.slice(0, end))


def test_version_boundaries(cases: Cases) -> None:
    apart = 0
    for seed in range(cases(8, 400)):
        random = Random(f"version {seed}")
        log = raw(state_records(generators.ordered_sequence(random)))
        pieces = [log.slice(a, b - a) for a, b in pairwise(_cuts(log.num_rows, random))]
        (*_, (_, old)), (*_, (_, new)) = (_tables(pieces, each) for each in ("4.3.1", "4.4"))
        assert _rows(old) == _replayed(log, "4.3.1")
        assert _rows(new) == _replayed(log, "4.4") == _replayed(log)
        apart += old != new
    assert apart > 0


def test_records_in_any_order(cases: Cases) -> None:
    for seed in range(cases(5, 150)):
        random = Random(f"any order {seed}")
        log = _log(random)
        order = list(range(log.num_rows)) + random.choices(range(log.num_rows), k=20)
        random.shuffle(order)
        cuts = _cuts(len(order), random)
        pieces = [log.take(pa.array(order[a:b], pa.int64())) for a, b in pairwise(cuts)]
        for end, (_, table) in zip(cuts[1:], _tables(pieces), strict=True):
            came = log.take(pa.array(sorted(set(order[:end])), pa.int64()))
            assert _rows(table) == _replayed(came)


def test_the_state_grows_with_share_partitions_and_not_with_records() -> None:
    made = (row(n, [(n, n + 4, 2, 1)], partition=n % 5) for n in range(5000))
    updates = [encode_record(SHARE_UPDATE, one) for one in made]
    first = [encode_record(SHARE_SNAPSHOT, row(0, [], partition=n)) for n in range(5)]
    log = raw(first + updates)
    pieces = (log.slice(a, 1001) for a in range(0, 5005, 1001))
    sizes = [(kept.records.num_rows, len(kept.to_bytes())) for kept, _ in _tables(pieces)]
    assert {rows for rows, _ in sizes} == {5}
    assert max(size for _, size in sizes) < 1.2 * min(size for _, size in sizes)


def test_records_that_cannot_be_replayed_are_counted_over_micro_batches() -> None:
    endless = encode_record(SHARE_UPDATE, row(-1, [(1, 10, 0, 1), (5, 3, 0, 2)]))
    snapshot, update = (
        encode_record(kind, row(0, [(1, 10, 0, 1)])) for kind in (SHARE_SNAPSHOT, SHARE_UPDATE)
    )
    log = raw([snapshot, endless, update, endless, update, snapshot])
    tables = _tables(log.slice(place, 1) for place in range(log.num_rows))
    rejected = [table.column("rejected_records").to_pylist() for _, table in tables]
    assert rejected == [[0], [1], [1], [2], [2], [0]]


def test_what_is_too_late_is_an_error_without_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "WAITING", 8)
    log = raw([encode_record(SHARE_UPDATE, row(n, [])) for n in range(40)])
    kept, _ = _apply(State.begin(), log.slice(0, 5))
    kept, _ = _apply(kept, log.slice(8))  # 5 to 7 are missing
    assert kept.records.num_rows == 1
    again, changed = _apply(kept, log.slice(20, 10))
    assert (again.to_bytes(), changed.num_rows) == (kept.to_bytes(), 0)
    with pytest.raises(InputError, match=r"partition 3: the record at offset 106 came after more"):
        _apply(kept, log.slice(6, 1))
    reset = raw([*[(b"", b"")] * 40, encode_record(SHARE_SNAPSHOT, row(50, []))]).slice(40)
    kept, _ = _apply(kept, reset)
    kept, changed = _apply(kept, log.slice(5, 3))
    assert changed.num_rows == 0
    assert np.array_equal(kept.seen, [[100, 141]])


def test_as_many_records_wait_for_earlier_ones_as_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "WAITING", 8)
    updates = [encode_record(SHARE_UPDATE, row(n, [])) for n in range(12)]
    log = raw([encode_record(SHARE_SNAPSHOT, row(0, [])), *updates])
    kept, _ = _apply(State.begin(), log.slice(0, 3))
    kept, _ = _apply(kept, log.slice(5))  # 3 and 4 are missing
    assert kept.records.num_rows == 1 + 8
    kept, changed = _apply(kept, log.slice(3, 2))
    assert (kept.records.num_rows, _rows(changed.drop_columns("deleted"))) == (1, _replayed(log))


def test_what_comes_late_brings_nothing_deleted_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "WAITING", 8)
    update = encode_record(SHARE_UPDATE, row(3, []))
    others = [encode_record(SHARE_UPDATE, row(n, [], partition=1)) for n in range(20)]
    tombstone = (encode_record(SHARE_SNAPSHOT, row(0, []))[0], None)
    log = raw([update, tombstone, *others, update])
    kept, changed = _apply(State.begin(), log.slice(1, 1))
    assert changed.column("deleted").to_pylist() == [True]
    _, changed = _apply(kept, log.slice(0, 1))  # while the tombstone waits
    assert changed.num_rows == 0
    kept, _ = _apply(kept, log.slice(2, 20))
    with pytest.raises(InputError, match="the record at offset 100 came after more than 8 later"):
        _apply(kept, log.slice(0, 1))
    _, changed = _apply(kept, log.slice(22))  # created again
    assert changed.column("deleted").to_pylist() == [False]


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_records_of_older_generations(generation: int) -> None:
    """Their rules look at the records before, so these stay."""
    log = older_records.raw(older_records.control(generation))
    kept, table = State.begin(), schemas.WINDOWS.empty_table()
    for place in range(log.num_rows):
        batch = log.slice(place, 1)
        records = decode_arrow(batch, generation=generation).records.select(REPLAYED.names)
        kept, changed = kept.apply(records, batch.column("offset").to_numpy())
        table = stream.updated(table, changed)
        came = decode_arrow(log.slice(0, place + 1), generation=generation).records
        assert _rows(table) == _rows(replay_arrow(came))


def test_a_state_of_another_version_is_an_error() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schemas.RECORDS) as writer:
        writer.write_table(schemas.RECORDS.empty_table())
    with pytest.raises(InputError, match="another version of sharelag wrote"):
        State.from_bytes(sink.getvalue().to_pybytes())
