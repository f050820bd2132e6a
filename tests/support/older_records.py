"""Records of the older designs, as the drafts print them: rows, and raw records of these."""

from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.wire import STATE_TOPIC, encode
from tests.support.records import KEY
from tests.support.walk import RECOVERED

#: The deltas of the control-record run at offsets 131 to 137.
DELTAS = [
    (100, 109, 2, 1),
    (110, 110, 0, 1),
    [(111, 118, 0, 0), (119, 119, 2, 1)],
    (111, 112, 0, 1),
    (113, 118, 2, 1),
    (110, 110, 2, 2),
    (111, 112, 2, 2),
]
#: Start, end and runs after each of the records 130 to 137.
DURABLE: list[tuple[int, int, list[tuple[int, int, int, int]]]] = [
    (start, runs[-1][1] + 1 if runs else start, list(runs)) for start, runs in RECOVERED.values()
]


def control(generation: int, start: int = 100) -> list[dict[str, Any]]:
    """The checkpoint and deltas that the drafts print, as rows."""
    rows = [row(generation, 130, 0, start, [])]
    for offset, delta in enumerate(DELTAS, 131):
        batches = delta if isinstance(delta, list) else [delta]
        rows.append(row(generation, offset, 1, None, batches))
    return rows


def row(
    generation: int,
    offset: int,
    record_type: int,
    start: int | None,
    batches: Any,
    epoch: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    own = {0: [("back_offset", offset - 1)], 2: [("delta_index", offset % 256)]}
    older = own.get(generation) if record_type else None
    return (
        KEY._asdict()
        | {"topic": STATE_TOPIC if generation > 1 else "orders", "record_partition": 0}
        | {"offset": offset, "record_type": record_type, "tombstone": False}
        | {"snapshot_epoch": epoch, "start_offset": start, "generation": generation}
        | {"state_batches": [dict(zip(names, batch, strict=True)) for batch in batches]}
        | {"older_fields": older, "unknown_tags": []}
        | changes
    )


def raw(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return encode(pa.RecordBatch.from_pylist(rows, schema=schemas.RECORDS))


def keyed() -> list[dict[str, Any]]:
    """C(0), C(1), D(0, e1), C(2), D(1, e2), D(2, e2) of one key."""

    def delta(offset: int, index: int, epoch: int, batch: tuple[int, int, int, int]) -> Any:
        changes = {"older_fields": [("delta_index", index)]}
        return row(2, offset, 1, None, [batch], epoch, **changes)

    return [
        row(2, 0, 0, 0, [], 0),
        row(2, 1, 0, 0, [(0, 4, 0, 1)], 1),
        delta(2, 0, 1, (0, 4, 4, 2)),
        row(2, 3, 0, 5, [(5, 9, 0, 1)], 2),
        delta(4, 1, 2, (5, 6, 2, 1)),
        delta(5, 2, 2, (8, 9, 0, 2)),
    ]
