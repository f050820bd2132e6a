"""The counts of the state topic add up, and what is wrong with it is named."""

from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.inputs import CaptureInput
from sharelag.metrics.health import (
    findings,
    gather,
    health_arrow,
    health_counts,
    in_words,
    state_partitions,
)
from sharelag.replay import replay_arrow
from sharelag.wire import (
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_TOPIC,
    decode_arrow,
    encode_record,
    state_partition,
)
from sharelag.wire.placement import abs_hash
from tests.support.chapters import CAPTURE
from tests.support.records import KEY, assert_fields, row

_UNKNOWN_KIND = (b"\x00\x07", b"")  # skipped, as Kafka does
_BAD = (b"\x00\x00", b"")
#: Its hash in Java is the least integer, which has no absolute value, and counts as 0.
LEAST = "polygenelubricants"


def state(
    *records: tuple[bytes | None, bytes | None], partition: int = 0, first: int = 0
) -> pa.RecordBatch:
    place = {"topic": STATE_TOPIC, "partition": partition}
    rows = [
        place | {"key": key, "value": value, "offset": n, "timestamp": 1000 * n}
        for n, (key, value) in enumerate(records, first)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def snapshot(partition: int = 0, **changes: Any) -> tuple[bytes, bytes | None]:
    return encode_record(SHARE_SNAPSHOT, row(0, [], partition=partition) | changes)


def update(partition: int = 0, **changes: Any) -> tuple[bytes, bytes | None]:
    return encode_record(SHARE_UPDATE, row(-1, [], partition=partition) | changes)


def tombstone(partition: int = 0) -> tuple[bytes, None]:
    return snapshot(partition)[0], None


def health(*batches: pa.RecordBatch, **more: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = health_arrow(gather(batches), **more).to_pylist()
    return rows


def test_every_column_of_a_worked_example() -> None:
    records = [snapshot(0), snapshot(1, delivery_complete_count=-1), update(0), update(1)]
    records += [update(0), snapshot(0), snapshot(2), update(2), tombstone(2)]
    records += [_BAD, _UNKNOWN_KIND, update(0)]
    size = sum(len(key or b"") + len(value or b"") for key, value in records)
    place, counts = {"record_topic": STATE_TOPIC}, ((0, None), (0, 3), (0, 4), (7, 1))
    finished = [place | {"record_partition": p, "finished": count} for p, count in counts]
    history = pa.Table.from_pylist(finished, schema=schemas.HISTORY)
    assert health(state(*records, first=100), partitions=1, history=history) == [
        {
            "topic": STATE_TOPIC,
            "partition": 0,
            "first_offset": 100,
            "end_offset": 112,
            "first_timestamp": datetime.fromtimestamp(100, UTC),
            "last_timestamp": datetime.fromtimestamp(111, UTC),
            "records": 10,
            "snapshots": 4,
            "updates": 5,
            "tombstones": 1,
            "rejects": 1,
            "bytes": size,
            "missing": 0,
            "share_partitions": 2,
            "updates_per_snapshot": 5 / 4,
            "finished": 7,
            "bytes_per_finished": size / 7,
            "misplaced": 0,
            "needed_from": 101,  # 1 is cold: its first snapshot is its last
            "prunable": 1,
            "pinned_by": f"{KEY.group_id}:{KEY.topic_id}:1",
            "generations": [
                *("snapshot v0", "snapshot v0 with count", "update v0 with count", "tombstone")
            ],
        }
    ]


def test_what_is_not_known_is_null() -> None:
    (line,) = health(state(update(0), update(1)))
    assert_fields(line, updates_per_snapshot=None, finished=None, bytes_per_finished=None)
    assert_fields(line, misplaced=None, needed_from=None, prunable=None, pinned_by=None)
    assert line["share_partitions"] == 2
    (gap,) = health(state(update(0), update(0)), state(snapshot(0), first=5))
    assert_fields(gap, missing=3, needed_from=5, prunable=None)
    assert health() == health(state()) == []
    assert health_arrow(gather([]), 4, schemas.HISTORY.empty_table()).schema == schemas.HEALTH


def test_with_no_share_partition_left_the_last_tombstone_is_needed() -> None:
    (line,) = health(state(snapshot(0), snapshot(1), tombstone(0), tombstone(1), update(0)))
    assert_fields(line, needed_from=3, prunable=3, pinned_by=None, share_partitions=1)


def test_the_pieces_add_up_however_they_are_cut() -> None:
    source = CaptureInput(CAPTURE)
    both = (source.batches(topic) for topic in (STATE_TOPIC, GROUP_TOPIC))
    raw = pa.concat_tables(map(pa.Table.from_batches, both)).combine_chunks()
    whole = health_arrow(health_counts(raw), 4)
    assert whole.num_rows == 4
    of_state = pc.sum(pc.equal(raw.column("topic"), STATE_TOPIC)).as_py()
    assert 0 < sum(whole.column("records").to_pylist()) == of_state < raw.num_rows
    random = Random("pieces")
    mixed = raw.take(random.sample(range(raw.num_rows), raw.num_rows))
    cuts = sorted(random.sample(range(raw.num_rows), 60))
    pieces = [mixed.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, raw.num_rows], strict=True)]
    assert health_arrow(gather(pieces), 4).equals(whole)
    # Uncombined counts of some pieces, and combined ones of others, are as good.
    parts = pa.concat_tables([health_counts(piece) for piece in pieces[:9]] + [gather(pieces[9:])])
    assert health_arrow(parts, 4).equals(whole)


@pytest.mark.row("PSC-04")
def test_all_records_of_a_key_are_on_one_partition() -> None:
    """C(0), C(1), D(1), C(2), D(2), D(2): once where the hash puts them, once beside it."""
    walk = [snapshot(), snapshot(snapshot_epoch=1), update(snapshot_epoch=1)]
    walk += [snapshot(snapshot_epoch=2), *[update(snapshot_epoch=2)] * 2]
    home = state_partition(KEY, 50)
    right = state(*walk, partition=home)
    (line,) = health(right, partitions=50)
    assert_fields(line, records=6, misplaced=0, share_partitions=1)
    assert found_in(right).num_rows == 0

    wrong = state(*walk, partition=home + 1)
    (line,) = health(wrong, partitions=50)
    assert_fields(line, records=6, misplaced=6)
    (found,) = found_in(wrong).to_pylist()
    assert found == {
        "finding": "misplaced",
        **KEY._asdict(),
        "record_topic": STATE_TOPIC,
        "record_partition": home + 1,
        "belongs": home,
        "summary": f"its coordinator reads it from partition {home}, not from {home + 1}",
    }
    assert found_in(wrong, partitions=None).num_rows == 0  # how many there are is not known
    assert health(wrong, partitions={STATE_TOPIC: 50, "other": 1})[0]["misplaced"] == 6
    assert health(wrong, partitions={"other": 50})[0]["misplaced"] is None


def windows(*batches: pa.RecordBatch) -> pa.RecordBatch:
    return replay_arrow(decode_arrow(pa.Table.from_batches(batches)).records)


def found_in(*batches: pa.RecordBatch, partitions: int | None = 50) -> pa.Table:
    return findings(health_arrow(gather(batches), 50), windows(*batches), partitions)


@pytest.mark.row("RST-13")
def test_a_state_that_kafka_never_writes_is_kept_and_found() -> None:
    odd = [(0, 4, 1, 1), (5, 6, 2, 1), (7, 7, 1, 2), (8, 8, 9, 1)]
    home = state_partition(KEY, 50)
    batch = state(encode_record(SHARE_SNAPSHOT, row(0, odd)), partition=home)
    assert [tuple(run.values()) for run in windows(batch).to_pylist()[0]["batches"]] == odd
    found = found_in(batch)
    told = [(one["finding"], one["group_id"]) for one in found.to_pylist()]
    assert told == [("non_durable_state", KEY.group_id)] * 2
    place = f"state partition {home}, {KEY.group_id}:{KEY.topic_id}:{KEY.partition}"
    assert in_words(found) == [f"{place}: non-durable state code {code}" for code in (1, 9)]
    durable = row(0, [(0, 1, 0, 1), (2, 3, 2, 1), (4, 5, 4, 1)])
    fine = state(encode_record(SHARE_SNAPSHOT, durable), partition=home)
    assert found_in(fine).num_rows == 0


def test_what_keeps_kafka_from_loading_or_pruning_is_found() -> None:
    broken = state(snapshot(0), _BAD, update(0))
    found_there = found_in(broken, partitions=None)
    assert found_there.column("finding").to_pylist() == ["undecodable"]
    assert in_words(found_there) == [
        "state partition 0: 1 record cannot be decoded; Kafka would fail to load this partition"
    ]
    gap = [state(snapshot(0)), state(update(0), first=9)]
    (found,) = found_in(*gap, partitions=None).to_pylist()
    assert_fields(found, finding="missing", summary="8 offsets are missing from 0 to 9")
    # The records are a second apart, the snapshot is of 5 ms: 600 s later it should have been
    # renewed.
    assert found_in(state(snapshot(0), *[update(0)] * 600), partitions=None).num_rows == 0
    (line,) = found_in(state(snapshot(0), *[update(0)] * 602), partitions=None).to_pylist()
    said = "its last snapshot is 10m 1s older than the last record, so 603 records cannot be"
    assert_fields(line, finding="holds_pruning", summary=f"{said} pruned")
    assert found_in(state()).num_rows == 0


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_the_hash_of_a_column_is_the_hash_of_each(texts: list[str]) -> None:
    texts = [*texts, LEAST]
    ours = state_partitions(pa.array(texts), pa.repeat(pa.scalar(1 << 30, pa.int32()), len(texts)))
    assert ours.to_pylist() == [abs_hash(text) % (1 << 30) for text in texts]
    assert abs_hash(LEAST) == ours[-1].as_py() == 0
