"""Captures and archives of any size, of records such as a share coordinator writes.

They are made column by column, millions of records in seconds.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.inputs import CaptureInput
from sharelag.inputs.files import archive as views
from sharelag.inputs.files.archive import ArchiveInput, begin, write_parquet
from sharelag.inputs.files.captures import CaptureInfo, write_capture
from sharelag.inputs.kafka.config import client_config
from sharelag.model import SharePartition, topic_id_bytes, topic_id_text
from sharelag.wire import STATE_TOPIC, state_partition

BEGIN = datetime(2026, 11, 21, 11, tzinfo=UTC)
LASTS = timedelta(seconds=200)
STATE_PARTITIONS = 8
MOMENTS = 60
#: Updates between two snapshots of a share partition.
UPDATES = 50
#: Offsets that a share partition is past after each record.
STEP = 10
#: What is behind the last window of each share partition.
UNREAD = 100

_BATCH = [("first", ">i8"), ("last", ">i8"), ("state", "u1"), ("count", ">i2"), ("tags", "u1")]
_REST = [("batches", "u1"), ("batch", _BATCH, 3), ("tag", "u1", 3), ("complete", ">i4")]
_EPOCHS = [("version", ">i2"), ("snapshot_epoch", ">i4")]
_STATE, _TIMES = ("state_epoch", ">i4"), [("created", ">i8"), ("written", ">i8")]
_PLACE = [("leader_epoch", ">i4"), ("start", ">i8")]
_SNAPSHOT = np.dtype([*_EPOCHS, _STATE, *_PLACE, *_TIMES, *_REST])
_UPDATE = np.dtype([*_EPOCHS, *_PLACE, *_REST])


def capture_of(
    folder: Path, groups: int, partitions: int, per_partition: int, of_one: bool = False
) -> CaptureInput:
    """Write a capture: so many records a share partition, evenly over `LASTS`, some snapshots.

    Each group has a topic of its own, or with ``of_one`` one group has all topics. Every window has
    two offsets that were given back, three that are acknowledged, and two more that were given
    back.
    """
    names = [f"group-{0 if of_one else number:05d}" for number in range(groups)]
    ids = [topic_id_text(number.to_bytes(16, "big")) for number in range(1, groups + 1)]
    end = STEP * (per_partition - 1) + 7 + UNREAD

    def finish(_: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
        moments = [timedelta(seconds=LASTS.seconds * n // MOMENTS) for n in range(MOMENTS)]
        tables = {
            "offsets": _offsets(ids, partitions, [(BEGIN + LASTS, end)]),
            "past_offsets": _offsets(
                ids, partitions, [(BEGIN + at, int(end * (at / LASTS))) for at in moments]
            ),
        }
        return tables, CaptureInfo("synthetic", BEGIN + LASTS, {STATE_TOPIC: STATE_PARTITIONS})

    write_capture(folder, _records(names, ids, partitions, per_partition), finish)
    return CaptureInput(folder)


def archive_of(folder: Path, groups: int, partitions: int, days: int, a_day: int) -> ArchiveInput:
    """Write an archive that was followed into for days: so many records of each share partition.

    Each day has a file, with the records of the `LASTS` that begin at the hour of `BEGIN`. Share
    partitions go on from where they were the day before.
    """
    names = [f"group-{number:05d}" for number in range(groups)]
    ids = [topic_id_text(number.to_bytes(16, "big")) for number in range(1, groups + 1)]
    firsts = [0] * STATE_PARTITIONS
    begin(folder, "synthetic", {STATE_TOPIC: firsts}, client_config("synthetic:9092"))
    scratch = views.staging(folder, "synthetic")
    add = {}
    for number in range(days):
        day = BEGIN + timedelta(days=number)
        file = scratch / f"{number}.parquet"
        write_parquet(file, schemas.RAW, _records(names, ids, partitions, a_day, number))
        add[f"records/source={STATE_TOPIC}/day={day:%Y-%m-%d}/{number:012d}-00000.parquet"] = file
    end = STEP * (days * a_day - 1) + 7 + UNREAD
    last = BEGIN + timedelta(days=days - 1) + LASTS
    sample = scratch / "offsets.parquet"
    write_parquet(sample, schemas.OFFSETS, _offsets(ids, partitions, [(last, end)]).to_batches())
    add[f"offsets/day={last:%Y-%m-%d}/{0:020d}.parquet"] = sample
    views.commit(folder, add, batch=days - 1, day=f"{last:%Y-%m-%d}")
    return ArchiveInput(folder)


def _records(
    names: list[str], ids: list[str], partitions: int, count: int, day: int = 0
) -> Iterator[pa.RecordBatch]:
    """The raw records of a day, state partition by state partition, in the order of time."""
    named = zip(names, ids, strict=True)
    keys = [(name, topic_id, p) for name, topic_id in named for p in range(partitions)]
    place = np.array([state_partition(SharePartition(*key), STATE_PARTITIONS) for key in keys])
    for state in range(STATE_PARTITIONS):
        mine = np.flatnonzero(place == state)
        mine_keys = pa.array([_key(*keys[one]) for one in mine], pa.binary())
        offset = len(mine) * count * day
        for first in range(0, count if len(mine) else 0, 20):
            steps = np.arange(first, min(first + 20, count))
            step = np.repeat(steps, len(mine))
            key = mine_keys.take(pa.array(np.tile(np.arange(len(mine)), len(steps))))
            yield _batch(key, step, count, state, offset, day)
            offset += len(key)


def _batch(
    key: pa.Array, step: NDArray[np.int64], count: int, state: int, offset: int, day: int
) -> pa.RecordBatch:
    begun = round((BEGIN + timedelta(days=day)).timestamp() * 1000)
    time = begun + step * round(LASTS.total_seconds() * 1000) // count
    step = step + day * count
    is_snapshot = pa.array(step % UPDATES == 0)
    kind = pc.if_else(is_snapshot, pa.scalar(b"\0\0"), pa.scalar(b"\0\1"))
    values = [_values(of, step, time) for of in (_SNAPSHOT, _UPDATE)]
    return pa.RecordBatch.from_arrays(
        [
            pc.binary_join_element_wise(kind, key, pa.scalar(b"")),
            pc.if_else(is_snapshot, *values),
            pa.repeat(STATE_TOPIC, len(step)),
            pa.repeat(pa.scalar(state, pa.int32()), len(step)),
            pa.array(offset + np.arange(len(step))),
            pa.array(time).view(schemas.TIMESTAMP),
            pa.repeat(pa.scalar(0, pa.int32()), len(step)),
        ],
        schema=schemas.RAW,
    )


def _values(kind: np.dtype, step: NDArray[np.int64], time: NDArray[np.int64]) -> pa.Array:
    rows = np.zeros(len(step), kind)
    rows["snapshot_epoch"], rows["leader_epoch"] = step // UPDATES, 1
    rows["start"] = start = STEP * step
    if kind is _SNAPSHOT:
        rows["created"], rows["written"] = time[0], time
    rows["batches"], rows["tag"], rows["complete"] = 4, (1, 0, 4), 3
    for number, (first, last, state) in enumerate(((0, 1, 0), (2, 4, 2), (5, 6, 0))):
        batch = rows["batch"][:, number]
        batch["first"], batch["last"] = start + first, start + last
        batch["state"], batch["count"] = state, 1
    fixed = pa.binary(kind.itemsize)
    made = pa.FixedSizeBinaryArray.from_buffers(fixed, len(rows), [None, pa.py_buffer(rows)])
    return made.cast(pa.binary())


def _key(group: str, topic_id: str, partition: int) -> bytes:
    name = group.encode()
    begin = len(name).to_bytes(2, "big") + name
    return begin + topic_id_bytes(topic_id) + partition.to_bytes(4, "big")


def _offsets(ids: list[str], partitions: int, ends: list[tuple[datetime, int]]) -> pa.Table:
    size = len(ids) * partitions
    tables = [
        pa.table(
            {
                "topic": np.repeat(
                    [f"topic-{number:05d}" for number in range(len(ids))], partitions
                ),
                "topic_id": np.repeat(ids, partitions),
                "partition": np.tile(np.arange(partitions), len(ids)),
                "log_start_offset": np.zeros(size, np.int64),
                "end_offset": np.full(size, end),
                "leader_epoch": np.ones(size, np.int32),
                "as_of": [at] * size,
            }
        ).cast(schemas.OFFSETS)
        for at, end in ends
    ]
    return pa.concat_tables(tables)
