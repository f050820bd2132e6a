"""The costs of a recorded history of share state in different designs of that state.

A design is a generation of the format (`sharelag.wire.generations`), today's with snapshots alone,
or G2 by the rule of its draft: a checkpoint is written when the start offset moves and nothing is
in flight, since it is small then. Designs that keep the state in the user's topic have no start
offset in their deltas, so they write a checkpoint whenever it moves. Where the history has no whole
window, the runs of the replayed window are assumed, merged as far as possible.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.columns import mask
from sharelag.replay.columns import by_share_partition
from sharelag.replay.history import history_arrow
from sharelag.schemas import SHARE_PARTITION_COLUMNS
from sharelag.tables.arrow import changes, one_batch
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE, RecordKind
from sharelag.wire.generations import layout_of

Integers: TypeAlias = NDArray[np.int64]

SNAPSHOT, TOMBSTONE = "snapshot", "tombstone"

#: The costs of one design for one share partition.
DESIGN_COSTS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        # G0 to G4, G2 with checkpoints preferred, or G4 with snapshots alone
        ("design", pa.string()),
        ("user_topic_records", pa.int64()),
        ("state_topic_records", pa.int64()),
        ("snapshots", pa.int64()),  # records with the whole window: snapshots, checkpoints
        ("key_bytes", pa.int64()),
        ("value_bytes", pa.int64()),
        ("replayed_records", pa.int64()),  # by a new leader: from the last whole window on
        ("scanned_from", pa.int64()),  # end of the window then; null: state is not among records
    ]
)
SNAPSHOTS_ALONE = "G4, snapshots alone"
CHECKPOINTS_PREFERRED = "G2, checkpoints preferred"


class _Design(NamedTuple):
    name: str
    whole: RecordKind
    part: RecordKind
    in_user_topic: bool = False
    snapshots_alone: bool = False
    prefers_whole: bool = False


def _older(generation: int) -> _Design:
    whole, part = (layout_of(generation, kind.type).kind for kind in (SHARE_SNAPSHOT, SHARE_UPDATE))
    return _Design(f"G{generation}", whole, part, in_user_topic=generation < 2)


DESIGNS = (
    *(_older(generation) for generation in range(3)),
    _older(2)._replace(name=CHECKPOINTS_PREFERRED, prefers_whole=True),
    _older(3),
    _Design("G4", SHARE_SNAPSHOT, SHARE_UPDATE),
    _Design(SNAPSHOTS_ALONE, SHARE_SNAPSHOT, SHARE_UPDATE, snapshots_alone=True),
)


def design_costs(records: schemas.Arrow) -> pa.Table:
    """Count the records and bytes of a history in each design, as `DESIGN_COSTS`.

    ``records`` are `sharelag.schemas.RECORDS` of whole share partitions, in any order. Bytes
    exclude the overhead of record batches, which is the same in all designs.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return DESIGN_COSTS.empty_table()
    order, bounds = by_share_partition(table)
    begin, total = bounds[:-1], np.diff(bounds)
    table, history = table.take(pa.array(order)), history_arrow(table)
    names = [name for name, _ in SHARE_PARTITION_COLUMNS]
    keys_of = history.take(pa.array(begin)).select(names)
    gone = mask(pc.equal(history.column("record_kind"), TOMBSTONE))
    recorded = mask(pc.equal(history.column("record_kind"), SNAPSHOT)) | gone
    moves = changes(_integers(history.column("start_offset"), -1))
    has_count = mask(pc.is_valid(table.column("delivery_complete_count")))
    runs = _integers(history.column("runs"))
    written = _integers(pc.list_value_length(table.column("state_batches")))
    window_end = _integers(history.column("window_end_offset"), -1)
    group_bytes = np.repeat(_integers(pc.binary_length(keys_of.column("group_id"))), total)

    def costs(design: _Design) -> pa.Table:
        whole = recorded.copy()
        if design.snapshots_alone:
            whole[:] = True
        elif design.in_user_topic:
            whole |= moves
        elif design.prefers_whole:
            whole |= moves & (runs == 0)
        # A snapshot was recorded with its own batches; other whole windows are those of the replay.
        batches = np.where(whole & ~recorded, runs, written)
        keys, values = (np.zeros(len(whole), np.int64) for _ in range(2))
        for kind, here in ((design.whole, whole), (design.part, ~whole)):
            size, group = _sizes(kind), group_bytes[here]
            keys[here] = size.key + size.group_in_key * group
            values[here] = size.value + size.batch * batches[here] + size.group_in_value * group
            if kind.flexible:
                # The length of a compact array is an unsigned varint of the length plus one.
                values[here] += (batches[here] >= 127).astype(np.int64) + (batches[here] >= 16_383)
            values[here] += size.completed * has_count[here]
        values[gone] = 0
        last = np.maximum.reduceat(np.where(whole, np.arange(len(whole)), -1), begin)
        first = np.where(last < 0, begin, last)
        scanned = window_end[first]
        unknown = (scanned < 0) | gone[first] if design.in_user_topic else scanned < np.inf
        snapshots = (whole & ~gone).astype(np.int64)
        columns = {
            "design": pa.repeat(design.name, len(total)),
            "user_topic_records": total * design.in_user_topic,
            "state_topic_records": total * (not design.in_user_topic),
            "snapshots": np.add.reduceat(snapshots, begin),
            "key_bytes": np.add.reduceat(keys, begin),
            "value_bytes": np.add.reduceat(values, begin),
            "replayed_records": np.where(gone[first], 0, bounds[1:] - first),
            "scanned_from": pa.array(scanned, pa.int64(), mask=unknown),
        }
        known = dict(zip(names, keys_of.columns, strict=True))
        return pa.table(known | columns, DESIGN_COSTS)

    return pa.concat_tables(map(costs, DESIGNS))


class _Size(NamedTuple):
    """Bytes of a record kind: fixed ones, per batch, of the count, per byte of the group id."""

    key: int
    value: int
    batch: int
    group_in_key: int
    group_in_value: int
    completed: int


@cache
def _sizes(kind: RecordKind) -> _Size:
    """Measure encoded records; the key of a control record has no topic id."""
    (key, value), (_, batch), (group_in_key, group_in_value), (_, completed) = (
        [len(part or b"") for part in encode_record(kind, _sample(*given))]
        for given in (("", 0, None), ("", 1, None), ("g", 0, None), ("", 0, 1))
    )
    of_topic = 16 if any(field.column == "control_type" for field in kind.key) else 0
    more = (batch - value, group_in_key - key, group_in_value - value, completed - value)
    return _Size(key - of_topic, value, *more)


def _sample(group: str, batches: int, count: int | None) -> dict[str, Any]:
    batch = {"first_offset": 0, "last_offset": 0, "delivery_state": 0, "delivery_count": 1}
    numbers = (
        "partition snapshot_epoch state_epoch leader_epoch start_offset create_timestamp "
        "write_timestamp control_type end_offset back_offset delta_index"
    )
    return dict.fromkeys(numbers.split(), 1) | {
        "group_id": group,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "state_batches": [batch] * batches,
        "delivery_complete_count": count,
    }


def _integers(column: pa.Array, unknown: int = 0) -> Integers:
    return np.asarray(pc.fill_null(column, unknown).to_numpy(zero_copy_only=False), np.int64)
