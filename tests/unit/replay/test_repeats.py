"""Raw records that a sink wrote more than once count once; different ones at a place do not pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.replay.repeats import LogOrder, drop_repeats
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC


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
