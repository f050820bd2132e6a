"""Share partitions are at the positions that the replay of all their batches gives."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.replay import replay_arrow
from sharelag.replay.positions import POSITIONS, latest_positions
from sharelag.wire import decode_arrow
from sharelag.wire.fields import GROUP_TOPIC, STATE_KINDS, STATE_TOPIC
from tests.support import generators
from tests.support.records import raw


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
