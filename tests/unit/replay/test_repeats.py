"""Raw records that a sink wrote more than once count once; different ones at a place do not pass."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.model import StateBatch
from sharelag.replay import combine, replay
from sharelag.replay.history import history_arrow
from sharelag.replay.repeats import LogOrder, drop_repeats
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from tests.support import generators
from tests.support.cases import Cases
from tests.support.columns import with_column
from tests.support.records import KEY, decode, row, state_records


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
    (t, p, o) for t in (GROUP_TOPIC, STATE_TOPIC) for p in (0, 3, 49) for o in range(3, 40, 2)
]


def test_records_in_order_are_given_back_as_they_are() -> None:
    # partitions may alternate; only the offsets of each have to ascend
    raw = _raw(sorted(_PLACES, key=lambda place: place[2] or 0))
    kept, repeats = drop_repeats(raw)
    assert kept is raw
    assert (repeats, drop_repeats(raw.slice(0, 0))[1]) == (0, 0)


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
    other = with_column(raw.slice(30, 1), name, [None])
    offset = raw.column("offset")[30].as_py()
    with pytest.raises(InputError) as caught:
        drop_repeats(pa.concat_tables([raw, other]))
    assert f"offset {offset} of partition 3 of {GROUP_TOPIC}" in str(caught.value)
    assert "Give the records of one cluster" in str(caught.value)


def test_records_without_a_place_repeat_none() -> None:
    raw = _raw([(STATE_TOPIC, 1, None), (STATE_TOPIC, 1, None), (None, 1, 4), (None, 1, 4)])
    kept, repeats = drop_repeats(raw)
    assert (kept.num_rows, repeats) == (4, 0)


def test_names_of_topics_as_a_dictionary() -> None:
    raw = _raw(_PLACES[::-1] + _PLACES[:2])
    encoded = with_column(raw, "topic", raw.column("topic").dictionary_encode())
    kept, repeats = drop_repeats(encoded)
    assert repeats == 2
    assert kept.cast(schemas.RAW).equals(_raw(_PLACES))


def test_order_is_told_across_batches() -> None:
    def goes_on(*batches: list[tuple[str, int, int]]) -> bool:
        order = LogOrder()
        return all(order.continues(_raw(batch)) for batch in batches)

    assert goes_on([(STATE_TOPIC, 0, 1), (STATE_TOPIC, 1, 0)], [(STATE_TOPIC, 1, 1)])
    assert not goes_on([(STATE_TOPIC, 0, 1)], [(STATE_TOPIC, 0, 1)])
    assert not goes_on([(STATE_TOPIC, 0, 5), (STATE_TOPIC, 1, 9)], [(STATE_TOPIC, 0, 4)])
    assert goes_on([(STATE_TOPIC, 0, 5)], [(GROUP_TOPIC, 0, 4)])


# ---- merging around the new batches alone gives what merging whole lists gives -------------------
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0", None])
def test_long_sequences_merge_as_whole_lists_do(version: str | None, cases: Cases) -> None:
    """In every third of them some writes have batches out of order."""
    random, count = Random("merge"), cases(150, 400)
    unmerged = 0
    for number in range(count):
        disorder = 0.2 if number % 3 == 0 else 0
        writes = [
            (start, generators.state_batches(random) if random.random() < disorder else batches)
            for start, batches in generators.ordered_sequence(random)
        ]
        expected: list[StateBatch] = []
        start = 0
        for moved, batches in writes:
            start = start if moved == -1 else moved
            expected = combine(expected, batches, start, version)
        records = [(at, key, value) for at, (key, value) in enumerate(state_records(writes))]
        assert list(replay(records, kafka_version=version)[KEY].batches) == expected
        unmerged += _has_a_seam(expected)
    # Equal neighbours that Kafka 4.3 leaves apart were among them, and Kafka 4.4 leaves none.
    assert unmerged > count // 40 if version == "4.3.1" else unmerged == 0


def test_a_record_that_replay_refuses_changes_nothing() -> None:
    out_of_order = [(20, 29, 4, 1), (0, 9, 4, 2)]
    key, value = encode_record(SHARE_SNAPSHOT, row(0, out_of_order))
    update_tombstone = (b"\0\1" + key[2:], None)
    kept, refused = history_arrow(decode([(key, value), update_tombstone])).to_pylist()
    assert (kept["window_complete"], refused["window_complete"]) == (20, 20)
    assert refused["record_kind"] == "rejected"
    assert [refused[name] for name in ("finished", "archived", "redelivered")] == [0, 0, 0]


def _has_a_seam(batches: list[StateBatch]) -> bool:
    return any(a.last_offset + 1 == b.first_offset and a[2:] == b[2:] for a, b in pairwise(batches))
