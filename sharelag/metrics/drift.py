"""Members whose current assignment differs from their target assignment.

A member receives its target with its next heartbeat and then takes over the group's assignment
epoch (KIP-932, "Member epoch"): seconds of drift are normal, minutes are not. Partitions of topics
that a member no longer subscribes to can remain in its target; Kafka omits them from the heartbeat
response.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.loads import exploded
from sharelag.schemas import TIMESTAMP, Arrow
from sharelag.schemas.arrow import as_table, flat, one_batch

#: One row per member whose current assignment is not its target, or has an earlier epoch.
DRIFT = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("member_epoch", pa.int32()),
        ("assignment_epoch", pa.int32()),  # of the group; null: unknown
        ("missing", pa.int64()),  # partitions of its target that it does not have yet
        ("surplus", pa.int64()),  # partitions that it has but that are not in its target
        ("since", TIMESTAMP),  # when the target was computed; null: unknown (before 4.3)
    ]
)


def drift_arrow(members: Arrow, groups: Arrow) -> pa.RecordBatch:
    """Return the members that differ from their targets.

    Parameters
    ----------
    members : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.MEMBERS`.
    groups : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.GROUPS` of the same records.

    Returns
    -------
    pyarrow.RecordBatch
        `DRIFT`, one row per such member, in the order of the members.
    """
    schemas.require(members, schemas.MEMBERS, "members")
    schemas.require(groups, schemas.GROUPS, "groups")
    table, group = as_table(members), as_table(groups)
    position = pc.index_in(flat(table.column("group_id")), flat(group.column("group_id")))
    epoch = flat(group.column("assignment_epoch")).take(position)
    columns = {
        name: flat(table.column(name)) for name in ("group_id", "member_id", "member_epoch")
    } | {
        "assignment_epoch": epoch,
        "missing": _difference(table, "target_partitions", "assigned_partitions"),
        "surplus": _difference(table, "assigned_partitions", "target_partitions"),
        "since": flat(group.column("assignment_timestamp")).take(position),
    }
    rows = pa.table([columns[field.name].cast(field.type) for field in DRIFT], schema=DRIFT)
    behind = pc.less(columns["member_epoch"], epoch).fill_null(False)
    differs = pc.greater(pc.add(columns["missing"], columns["surplus"]), 0)
    return one_batch(rows.filter(pc.or_(behind, differs)))


def _difference(table: pa.Table, of: str, without: str) -> pa.Array:
    """Count the partitions of each row that are in one list and not in the other."""
    row, _, partitions = exploded(table, of)
    other_row, _, others = exploded(table, without)
    alone = pc.invert(pc.is_in(_texts(row, partitions), _texts(other_row, others)))
    return pa.array(
        np.bincount(row[alone.to_numpy(zero_copy_only=False)], minlength=table.num_rows)
    )


def _texts(row: NDArray[np.int64], partitions: pa.Array) -> pa.Array:
    numbers = [pa.array(row), pc.struct_field(partitions, "partition")]
    return pc.binary_join_element_wise(
        pc.struct_field(partitions, "topic_id"),
        *[number.cast(pa.string()) for number in numbers],
        ":",
    )
