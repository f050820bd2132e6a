"""Raw records that a sink wrote more than once count once; different ones at a place do not pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.model import StateBatch
from sharelag.replay import combine, replay, replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.positions import POSITIONS, latest_positions
from sharelag.replay.repeats import LogOrder, drop_repeats
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_KINDS, STATE_TOPIC
from tests.support import generators
from tests.support.cases import Cases
from tests.support.records import KEY, decode, raw, row, state_records


def _raw(places: Sequence[tuple[str | None, int | None, int | None]]) -> pa.Table:
    """Records whose bytes follow from their places."""
    rows = [
        {
            "key": f"{topic}-{partition}".encode(),
            "value": f"{offset}".encode() if offset is None or offset % 7 else None,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": 1_700_000_000_000 + (offset or 0),
            "timestampType": 0,
        }
        for topic, partition, offset in places
    ]
    return pa.Table.from_pylist(rows, schema=schemas.RAW)


_PLACES = [
    (topic, partition, offset)
    for topic in (GROUP_TOPIC, STATE_TOPIC)
    for partition in (0, 3, 49)
    for offset in range(3, 40, 2)
]


def test_records_in_order_are_given_back_as_they_are() -> None:
    # partitions may alternate; only the offsets of each have to ascend
    raw = _raw(sorted(_PLACES, key=lambda place: place[2] or 0))
    kept, repeats = drop_repeats(raw)
    assert kept is raw
    assert repeats == 0
    assert drop_repeats(raw.slice(0, 0))[1] == 0


@pytest.mark.parametrize("seed", range(5))
def test_repeats_are_dropped_in_any_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(_PLACES), 200)
    rows = random.permutation(np.append(np.arange(len(_PLACES)), drawn))
    raw = _raw(_PLACES).take(pa.array(rows))
    kept, repeats = drop_repeats(raw)
    assert repeats == 200
    assert kept.equals(_raw(_PLACES))
    batch, repeats = drop_repeats(raw.combine_chunks().to_batches()[0])
    assert repeats == 200
    assert batch.equals(_raw(_PLACES).combine_chunks().to_batches()[0])


@pytest.mark.parametrize("name", ["key", "value", "timestamp"])
def test_different_records_at_one_place_are_an_error_that_names_it(name: str) -> None:
    raw = _raw(_PLACES)
    other = raw.slice(30, 1)
    at = raw.schema.get_field_index(name)
    changed = pa.array([None], schemas.RAW.field(name).type)
    other = other.set_column(at, schemas.RAW.field(name), changed)
    offset = raw.column("offset")[30].as_py()
    with pytest.raises(InputError) as caught:
        drop_repeats(pa.concat_tables([raw, other]))
    assert f"offset {offset} of partition 3 of {GROUP_TOPIC}" in str(caught.value)
    assert "Give the records of one cluster" in str(caught.value)


def test_records_without_a_place_repeat_none() -> None:
    raw = _raw([(STATE_TOPIC, 1, None), (STATE_TOPIC, 1, None), (None, 1, 4), (None, 1, 4)])
    kept, repeats = drop_repeats(raw)
    assert kept.num_rows == 4
    assert repeats == 0


def test_names_of_topics_as_a_dictionary() -> None:
    raw = _raw(_PLACES[::-1] + _PLACES[:2])
    at = raw.schema.get_field_index("topic")
    encoded = raw.set_column(at, "topic", raw.column("topic").dictionary_encode())
    kept, repeats = drop_repeats(encoded)
    assert repeats == 2
    assert kept.cast(schemas.RAW).equals(_raw(_PLACES))


def test_order_is_told_across_batches() -> None:
    def goes_on(*batches: list[tuple[str, int, int]]) -> bool:
        order = LogOrder()
        return all(order.goes_on(_raw(batch)) for batch in batches)

    assert goes_on([(STATE_TOPIC, 0, 1), (STATE_TOPIC, 1, 0)], [(STATE_TOPIC, 1, 1)])
    assert not goes_on([(STATE_TOPIC, 0, 1)], [(STATE_TOPIC, 0, 1)])
    assert not goes_on([(STATE_TOPIC, 0, 5), (STATE_TOPIC, 1, 9)], [(STATE_TOPIC, 0, 4)])
    assert goes_on([(STATE_TOPIC, 0, 5)], [(GROUP_TOPIC, 0, 4)])


# ---- merging around the new batches alone gives what merging whole lists gives -------------------


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0", None])
def test_long_sequences_merge_as_whole_lists_do(version: str | None, cases: Cases) -> None:
    random, count = Random("merge"), cases(150, 400)
    unmerged = 0
    for _ in range(count):
        writes = generators.ordered_sequence(random)
        expected: list[StateBatch] = []
        start = 0
        for moved, batches in writes:
            start = start if moved == -1 else moved
            expected = combine(expected, batches, start, version)
        assert list(_replayed(writes, version)) == expected
        unmerged += _has_a_seam(expected)
    # Equal neighbours that Kafka 4.3 leaves apart were among them, and Kafka 4.4 leaves none.
    assert unmerged > count // 40 if version == "4.3.1" else unmerged == 0


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_batches_out_of_order_among_ordered_ones_merge_as_whole_lists_do(
    version: str, cases: Cases
) -> None:
    random = Random("mixed")
    for _ in range(cases(80, 300)):
        writes = [
            (start, generators.state_batches(random) if random.random() < 0.2 else batches)
            for start, batches in generators.ordered_sequence(random)
        ]
        expected: list[StateBatch] = []
        start = 0
        for moved, batches in writes:
            start = start if moved == -1 else moved
            expected = combine(expected, batches, start, version)
        assert list(_replayed(writes, version)) == expected


def test_a_record_that_replay_refuses_changes_nothing() -> None:
    out_of_order = [(20, 29, 4, 1), (0, 9, 4, 2)]
    key, value = encode_record(SHARE_SNAPSHOT, row(0, out_of_order))
    update_tombstone = (b"\0\1" + key[2:], None)
    kept, refused = history_arrow(decode([(key, value), update_tombstone])).to_pylist()
    assert (kept["window_complete"], refused["window_complete"]) == (20, 20)
    assert refused["record_kind"] == "rejected"
    assert [refused[name] for name in ("finished", "archived", "redelivered")] == [0, 0, 0]


def _replayed(
    writes: list[tuple[int, list[StateBatch]]], version: str | None
) -> tuple[StateBatch, ...]:
    records = [(at, key, value) for at, (key, value) in enumerate(state_records(writes))]
    return replay(records, kafka_version=version)[KEY].batches


def _has_a_seam(batches: list[StateBatch]) -> bool:
    return any(a.last_offset + 1 == b.first_offset and a[2:] == b[2:] for a, b in pairwise(batches))


# ---- share partitions are at the positions that the replay of all their batches gives ------------


def replayed(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the same columns of the windows."""
    records = decode_arrow(pa.Table.from_batches(batches)).records
    return replay_arrow(records).select(POSITIONS.names)


def spread(batch: pa.RecordBatch, random: Random) -> pa.RecordBatch:
    """Let each share partition's records lie in a separate state partition."""
    places = {key: random.randrange(4) for key in set(batch.column("key").to_pylist())}
    # Snapshots and updates differ in the first two bytes of their keys.
    by_name = {key[2:]: place for key, place in places.items()}
    column = [by_name[key[2:]] for key in batch.column("key").to_pylist()]
    return batch.set_column(3, "partition", pa.array(column, pa.int32()))


def odd(random: Random, key: bytes, value: bytes | None) -> generators.Record:
    """Return a record that the compiled pass cannot read, or the same record."""
    if value is None or random.random() < 0.6:
        return key, value
    cut = value[: random.randrange(len(value))]
    known, size = (1, 7) if value[-7:-4] == b"\1\0\4" else (0, 1)
    tagged = value[:-size] + bytes([known + 1]) + value[len(value) - size + 1 :] + b"\7\1x"
    return key, random.choice([cut, tagged, b"\0\1" + value[2:], value + b"!"])


def positions(batches: list[pa.RecordBatch], threads: int | None = None) -> pa.RecordBatch:
    """Return where share partitions stand, which must be known without their batches."""
    found = latest_positions(iter(batches), threads)
    assert found is not None, "replayed"
    assert found.rejected == sum(decode_arrow(batch).rejects.num_rows for batch in batches)
    return found.table


def test_random_records_stand_where_their_replay_says() -> None:
    for seed in range(60):
        random = Random(seed)
        batch = spread(raw(generators.sequence(random, keys=5, length=80)), random)
        cut = random.randrange(batch.num_rows + 1)
        batches = [batch.slice(0, cut), batch.slice(cut)]
        for threads in (1, 3):
            assert positions(batches, threads).equals(replayed(batches))


def test_odd_records_and_rejects_are_read_as_by_the_interpreter() -> None:
    random = Random(1)
    records = generators.sequence(random, keys=4, length=400)
    records = [odd(random, key, value) for key, value in records]
    records += [(b"", None), (b"\0\1", b""), (b"\0\7", b"")]
    batch = raw(records)
    assert positions([batch], 1).equals(replayed([batch]))


def test_recorded_clusters_stand_where_their_replay_says() -> None:
    captures = Path(__file__).parents[3] / "data" / "captures"
    found = 0
    for path in captures.glob("**/records/*.parquet"):
        batches = pq.read_table(path).cast(schemas.RAW).to_batches()
        stand = positions(batches)
        assert stand.equals(replayed(batches))
        found += stand.num_rows
    assert found


def test_what_needs_the_batches_is_not_known() -> None:
    random = Random(2)
    batch = raw([generators.record(random, STATE_KINDS[n % 2]) for n in range(300)])
    assert latest_positions([batch]) is None, "batches that end before they begin"
    ordered = raw(generators.sequence(random, keys=2, length=200))
    backward = ordered.take(pa.array(np.arange(len(ordered))[::-1]))
    assert latest_positions([backward]) is None, "another order"
    moved = ordered.set_column(3, "partition", pa.array([n % 2 for n in range(len(ordered))], "i4"))
    assert latest_positions([moved], 1) is None, "in two state partitions"
    topics = pa.array([("eu." if n % 2 else "") + STATE_TOPIC for n in range(len(ordered))])
    mixed = ordered.set_column(2, "topic", topics)
    assert latest_positions([mixed]) is None, "of two topics"


def test_no_records_no_positions() -> None:
    assert positions([]).num_rows == 0
    assert positions([raw([(b"", b"")], GROUP_TOPIC)]).num_rows == 0
