"""One history of a share partition, written in each generation of the format."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.model import StateBatch
from sharelag.replay import combine, replay_arrow
from sharelag.wire import STATE_TOPIC, decode_arrow, encode
from tests.support.records import KEY

#: A start offset, -1: unchanged, and batches.
Written = tuple[int, Sequence[tuple[int, int, int, int]]]
#: The first control record of a history.
FIRST_OFFSET = 130
TODAY = 4


def records(writes: Iterable[Written], generation: int, most_updates: int = 500) -> pa.RecordBatch:
    """Return writes as records: a snapshot or checkpoint, then updates and snapshots.

    Deltas of G0 and G1 have no start offset: where it moves, a checkpoint is written, as the drafts
    allow.
    """
    rows = _rows(writes, generation, most_updates, FIRST_OFFSET)
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RECORDS)


def records_of_many(
    histories: Sequence[tuple[Sequence[Written], int]], generation: int
) -> pa.RecordBatch:
    """Return the records of histories with their numbers of updates, one after another.

    Each is of a group of its own.
    """
    rows: list[dict[str, Any]] = []
    for number, (writes, most_updates) in enumerate(histories):
        found = _rows(writes, generation, most_updates, FIRST_OFFSET + len(rows))
        rows += [row | {"group_id": f"G{number}"} for row in found]
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RECORDS)


def _rows(
    writes: Iterable[Written], generation: int, most_updates: int, first: int
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    batches: list[StateBatch] = []
    start, epoch, updates = 0, -1, 0
    for offset, (moved, written) in enumerate(writes, first):
        start = start if moved == -1 else moved
        batches = combine(batches, [StateBatch(*batch) for batch in written], start)
        whole = not rows or updates == most_updates or (moved != -1 and generation < 2)
        epoch, updates = (epoch + 1, 0) if whole else (epoch, updates + 1)
        row = _row(generation, offset, epoch, whole)
        row["start_offset"] = start if whole else moved if moved != -1 else None
        row["state_batches"] = [StateBatch(*b)._asdict() for b in (batches if whole else written)]
        if generation == 0 and not whole:
            row["older_fields"] = [("back_offset", offset - 1)]
        if generation == 2 and not whole:
            row["older_fields"] = [("delta_index", (offset - first) % 256)]
        rows.append(row)
    return rows


def _row(generation: int, offset: int, epoch: int, whole: bool) -> dict[str, Any]:
    row = KEY._asdict() | {
        "topic": "orders" if generation < 2 else STATE_TOPIC,
        "record_partition": 0,
        "offset": offset,
        "record_type": 0 if whole else 1,
        "tombstone": False,
        "snapshot_epoch": epoch,
        "generation": None if generation == TODAY else generation,
        "unknown_tags": [],
    }
    if generation >= 3:
        row |= {"state_epoch": 1, "leader_epoch": 2}
    if generation == TODAY:
        row |= {"create_timestamp": 5, "write_timestamp": 5}
    return row


def raw_of(writes: Iterable[Written], generation: int, most_updates: int = 500) -> pa.RecordBatch:
    """Return the same as raw records."""
    return encode(records(writes, generation, most_updates))


def window(raw: pa.RecordBatch, generation: int | None = None) -> dict[str, Any] | None:
    """Return the window of the one share partition that raw records are of; None: it has none."""
    found = replay_arrow(decode_arrow(raw, generation=generation).records).to_pylist()
    return found[0] if found else None


def state(
    raw: pa.RecordBatch, generation: int | None = None
) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    """Return where the window begins and ends, and its runs."""
    row = window(raw, generation)
    assert row is not None
    start = row["effective_start_offset"]
    runs = [tuple(run.values()) for run in row["runs"] if run["last_offset"] >= start]
    return start, row["window_end_offset"], runs
