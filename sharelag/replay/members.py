"""Members and groups as Kafka's group coordinator has them: the consumers and their assignments.

The coordinator's state is the last record of each key (record types 10 to 15 of
``__consumer_offsets``, as ``GroupMetadataManager.replay`` reads them), so nothing is merged: the
last records are found for whole columns at once and joined by group and member.

The topic is compacted. The current state is complete. Records of earlier moments that were
overwritten since then are gone from the topic, and only an archive still has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model import GroupState
from sharelag.replay.columns import codes_of, one_code
from sharelag.replay.moment import Moment, up_to
from sharelag.replay.state import Count, latest
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import (
    ascending,
    batch_of,
    changes,
    each_offset,
    flat,
    lists_of,
    one_batch,
)
from sharelag.wire.decode import Decoded

#: Columns that identify a group, whose records are normally in one partition.
GROUP_KEY = ("topic", "record_partition", "group_id")
#: The columns that replay reads; the others may be missing.
REPLAYED = pa.schema([field for field in schemas.GROUP_RECORDS if field.name != "unknown_tags"])

_MEMBER, _GROUP, _ASSIGNMENT_EPOCH, _TARGET, _CURRENT, _TOPICS = range(10, 16)
#: The epoch of a member that is leaving (``LEAVE_GROUP_MEMBER_EPOCH``).
_NO_EPOCH = -1


def members_arrow(group_records: Arrow, as_of: Moment = None) -> pa.RecordBatch:
    """Return `sharelag.schemas.MEMBERS`: one row per member of a share group that has not left.

    Rows are sorted by group and member. Columns of a missing record are null; after a tombstone
    epochs are -1 and nothing is assigned. ``group_records`` are `sharelag.schemas.GROUP_RECORDS` in
    any order, ``as_of`` the last of them to include: a time, or offsets of ``__consumer_offsets``.
    """
    last = _replay(group_records, as_of)
    if last is None:
        return pa.RecordBatch.from_pylist([], schema=schemas.MEMBERS)
    member = np.flatnonzero(last.is_member)
    about, target, current = (last.of_member[kind][member] for kind in (_MEMBER, _TARGET, _CURRENT))
    newest = np.stack([about, target, current])
    newest = np.take_along_axis(newest, np.argmax(last.offset_of(newest), axis=0)[None], axis=0)[0]
    columns = {
        "group_id": last.column("group_id", newest),
        "member_id": last.column("member_id", newest),
        "assigned_partitions": last.column("assigned_partitions", current, []),
        "target_partitions": last.column("topic_partitions", target, []),
        "joined": last.column("timestamp", last.joined[member]),
        "changed": last.column("timestamp", newest),
    }
    for name in ("client_id", "client_host", "rack_id", "subscribed_topic_names"):
        columns[name] = last.column(name, about)
    for name in ("member_epoch", "previous_member_epoch"):
        columns[name] = last.column(name, current, _NO_EPOCH)
    return batch_of(columns, schemas.MEMBERS).sort_by(ascending("group_id", "member_id"))


def groups_arrow(group_records: Arrow, as_of: Moment = None) -> pa.RecordBatch:
    """Return `sharelag.schemas.GROUPS`, one row per share group that exists, sorted by group.

    Epochs are null if no record has them: Kafka then starts with a default that depends on its
    version (1 in 4.3). Parameters as for `members_arrow`.
    """
    last = _replay(group_records, as_of)
    if last is None:
        return pa.RecordBatch.from_pylist([], schema=schemas.GROUPS)
    group = np.flatnonzero(last.is_group)
    about, assignment, topics = (
        last.of_group[kind][group] for kind in (_GROUP, _ASSIGNMENT_EPOCH, _TOPICS)
    )
    members = np.bincount(last.group_of_member[last.is_member], minlength=len(last.is_group))[group]
    newest = last.newest_of_group[group]
    columns = {
        "group_id": last.column("group_id", newest),
        "state": pc.if_else(pa.array(members > 0), str(GroupState.STABLE), str(GroupState.EMPTY)),
        "group_epoch": last.column("epoch", about),
        "assignment_epoch": last.column("assignment_epoch", assignment),
        "assignment_timestamp": last.column("assignment_timestamp", assignment),
        "members": pa.array(members),
        "emptied": last.column("timestamp", np.where(members > 0, -1, last.last_leave[group])),
        "departures": last.departures(group),
        "changed": last.column("timestamp", newest),
    }
    for name in ("initialized_topics", "initializing_topics", "deleting_topics"):
        columns[name] = last.column(name, topics, [])
    return batch_of(columns, schemas.GROUPS).sort_by("group_id")


def drop_superseded_group_records(group_records: Arrow) -> pa.RecordBatch:
    """Drop the records that a later one of the same key replaces.

    Correct for any subset of the records, so each Spark task and each chunk can apply it. All
    records of type 10 are kept: the first of them shows when a member joined, and they are few.
    """
    table = one_batch(group_records)
    if table.num_rows == 0:
        return table
    rows = _Rows(table)
    keep = np.sort(np.append(rows.last_of_key(), np.flatnonzero(rows.kind == _MEMBER)))
    return table.take(pa.array(np.unique(keep)))


class GroupLog(NamedTuple):
    """The groups' records that no later one replaces, and counts of all."""

    latest: pa.RecordBatch
    records: int
    rejected: int  # could not be decoded


def read_group_log(found: Iterable[Decoded], schema: pa.Schema) -> GroupLog:
    """Read a stream, with at most about twice its superseding records in memory."""
    count = Count()

    def records() -> Iterator[pa.RecordBatch]:
        for one in found:
            count.add(one.records, one.rejects, one.records.column("timestamp"))
            yield one.records

    kept = latest(records(), schema, drop_superseded_group_records)
    return GroupLog(kept, count.records, count.rejected)


def find_deleted_groups(group_records: Arrow) -> list[str]:
    """Return the groups whose last records say that they were deleted."""
    last = _replay(group_records, None)
    if last is None:
        return []
    rows = last.deletions[(last.deletions >= 0) & ~last.is_group]
    return sorted(last.column("group_id", rows).to_pylist())


# ---- the last record of each key -----------------------------------------------------------------


def _replay(group_records: Arrow, as_of: Moment) -> _Last | None:
    schemas.require(group_records, REPLAYED, "group records")
    table = one_batch(up_to(group_records, as_of))
    return _Last(_Rows(table)) if table.num_rows else None


class _Rows:
    """The records as numbers: group, member, kind, and position in the log."""

    def __init__(self, table: pa.RecordBatch) -> None:
        self.table = table
        self.kind = np.asarray(table.column("record_type").to_numpy(), np.int64)
        self.offset: Ints = table.column("offset").to_numpy()
        self.tombstone: Bools = table.column("tombstone").to_numpy(zero_copy_only=False)
        self.group = _number(*(codes_of(table.column(name)) for name in GROUP_KEY))
        # Records of a whole group have no member; they share a number that no member has.
        self.member = _number(self.group, codes_of(table.column("member_id")))

    def last_of_key(self) -> Ints:
        """Return the last row of each group, kind and member."""
        order = np.lexsort((self.offset, self.member, self.kind))
        key = np.stack([self.kind[order], self.member[order]])
        return np.asarray(order[np.append(changes(*key)[1:], True)])


class _Last:
    """The row of the last valid record of each kind by group and member; -1 without one.

    A member that left and rejoined, or a group that was deleted and created again, has lost its
    earlier records: Kafka writes the other tombstones first and refuses to load a log in which
    they are missing.
    """

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        self._offsets = np.append(rows.offset, -1)  # row -1 precedes all others
        groups, members = int(rows.group.max()) + 1, int(rows.member.max()) + 1
        self.group_of_member = np.empty(members, np.int64)
        self.group_of_member[rows.member] = rows.group
        in_order = np.argsort(rows.offset, kind="stable")
        last = rows.last_of_key()

        # Everything up to a group's or a member's tombstone is deleted.
        deletes = last[(rows.kind[last] == _GROUP) & rows.tombstone[last]]
        self.deletions = _last(rows.group, deletes, groups)
        leaves = in_order[(rows.kind[in_order] == _MEMBER) & rows.tombstone[in_order]]
        deleted = self.offset_of(self.deletions)
        left = self.offset_of(_last(rows.member, leaves, members))
        left = np.maximum(left, deleted[self.group_of_member])
        since_deleted = last[rows.offset[last] > deleted[rows.group[last]]]
        since_left = last[rows.offset[last] > left[rows.member[last]]]

        self.of_group = {
            kind: _last(rows.group, which[rows.kind[which] == kind], groups)
            for kind, which in (
                (_GROUP, since_deleted),
                (_ASSIGNMENT_EPOCH, since_deleted),
                (_TOPICS, last),  # outlives the group in Kafka as well
            )
        }
        self.of_member = {
            kind: _last(rows.member, since_left[rows.kind[since_left] == kind], members)
            for kind in (_MEMBER, _TARGET, _CURRENT)
        }
        alive = since_left[~rows.tombstone[since_left]]
        makes_member = alive[np.isin(rows.kind[alive], (_MEMBER, _CURRENT))]
        self.is_member = _last(rows.member, makes_member, members) >= 0
        # Any record other than a tombstone creates the group if it does not exist.
        makes_group = since_deleted[~rows.tombstone[since_deleted]]
        self.is_group = _last(rows.group, makes_group, groups) >= 0
        joins = (rows.kind == _MEMBER) & (rows.offset > left[rows.member])
        self.joined = _last(rows.member, in_order[joins[in_order]][::-1], members)
        leaves = leaves[rows.offset[leaves] > deleted[rows.group[leaves]]]
        self.last_leave = _last(rows.group, leaves, groups)
        gone = _last(rows.member, leaves, members)
        self._gone = gone[(gone >= 0) & ~self.is_member]
        self.newest_of_group = _last(rows.group, in_order, groups)

    def offset_of(self, row: Ints) -> Ints:
        """Return the offsets of rows; -1 for row -1."""
        return np.asarray(self._offsets[row])

    def departures(self, groups: Ints) -> pa.ListArray:
        """Return the departed members of each group, in order of departure."""
        order = np.lexsort((self.rows.offset[self._gone], self.rows.group[self._gone]))
        of = self.rows.group[self._gone][order]
        starts = np.searchsorted(of, groups, "left")
        ends = np.searchsorted(of, groups, "right")
        rows = self._gone[order][each_offset(starts, ends - 1)[1]]
        times = flat(self.column("timestamp", rows)).cast(pa.int64())
        found = pa.StructArray.from_arrays(
            [self.column("member_id", rows), times], ["member_id", "left_ms"]
        )
        return lists_of(ends - starts, found)

    def column(self, name: str, row: Ints, after_tombstone: object = None) -> pa.Array:
        """Return a column at these rows: null at row -1, ``after_tombstone`` at a tombstone."""
        values = flat(self.rows.table.column(name)).take(pa.array(row, mask=row < 0))
        if after_tombstone is None:
            return values
        emptied = pa.array((row >= 0) & self.rows.tombstone[row])
        return pc.if_else(emptied, pa.scalar(after_tombstone, values.type), values)


def _last(code: Ints, rows: Ints, size: int) -> Ints:
    found = np.full(size, -1, np.int64)
    found[code[rows]] = rows
    return found


def _number(*codes: Ints) -> Ints:
    """Return a consecutive number from 0 for each combination of codes."""
    return np.unique(one_code([*codes]), return_inverse=True)[1].astype(np.int64)
