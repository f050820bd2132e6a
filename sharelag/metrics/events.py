"""Events of a group: resets, deletions, new leaders, archived records, members.

`first_trouble` returns the first times of trouble in a span; `events_arrow` returns each event as a
row. Several events of one kind within a step are one row, with their number.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import STATE, begins
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, SHARE_PARTITION_COLUMNS, TIMESTAMP, Arrow
from sharelag.tables.arrow import as_table, beside, flat, keys, table_of, with_columns

_TIMES = ("first_released", "first_archived", "first_reset", "last_finished")
_SUMS = ("released", "archived", "finished")

#: Events of one share partition since a moment, as times; null: none.
SIGNS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        *[(name, pa.int64()) for name in _SUMS],  # offsets; null where unknown
        *[(name, TIMESTAMP) for name in _TIMES],
        ("first_record", TIMESTAMP),
        ("last_record", TIMESTAMP),
        ("is_born", pa.bool_()),  # created by the first record in the span
        # records with others possibly missing before them, or with unknown changes
        ("missing", pa.int64()),
    ]
)


def first_trouble(history: Arrow, since: datetime) -> pa.Table:
    """Summarize the events of each share partition since a moment, as `SIGNS`.

    ``history`` has all rows of some share partitions, each in log order. There is one row per share
    partition with records in the span.
    """
    schemas.require(history, schemas.HISTORY, "history")
    table = as_table(history).select(schemas.HISTORY.names).cast(schemas.HISTORY)
    table = table.filter(pc.greater_equal(table.column("record_timestamp"), pa.scalar(since)))
    time = table.column("record_timestamp")
    happened = {
        "first_released": pc.greater(table.column("released"), 0),
        "first_archived": pc.greater(table.column("archived"), 0),
        "first_reset": is_reset(table),
        "last_finished": pc.greater(table.column("finished"), 0),
    }
    for name, where in happened.items():
        table = table.append_column(name, pc.if_else(where.fill_null(False), time, None))
    table = table.append_column("missing", _is_missing(table, since).cast(pa.int64()))
    ends = [(name, "max" if name == "last_finished" else "min") for name in _TIMES]
    spans = [("record_timestamp", "min"), ("record_timestamp", "max")]
    sums = [(name, "sum") for name in (*_SUMS, "missing")]
    # Born only if all of its states are.
    born = pc.and_(table.column("replaced"), pc.equal(table.column("snapshot_epoch"), 0))
    born = pc.if_else(pa.array(begins(table)), born.fill_null(False), None)
    table = table.append_column("is_born", born)
    # Threads would change the order.
    found = table.group_by(list(SHARE_PARTITION), use_threads=False)
    found = found.aggregate([*sums, *ends, *spans, ("is_born", "all")])
    columns = {name: found.column(name) for name in SHARE_PARTITION}
    columns["is_born"] = found.column("is_born_all")
    columns |= {name: found.column(f"{name}_{how}") for name, how in (*sums, *ends)}
    columns["first_record"] = found.column("record_timestamp_min")
    columns["last_record"] = found.column("record_timestamp_max")
    return table_of(columns, SIGNS)


def is_reset(history: pa.Table) -> pa.ChunkedArray:
    """Return whether a state was replaced; unknown for the first record of a share partition."""
    # A share partition starts with epoch 0.
    later = pc.greater(history.column("snapshot_epoch"), 0)
    return pc.and_(pc.and_(history.column("replaced"), history.column("follows")), later)


def _is_missing(history: pa.Table, begin: datetime) -> pa.ChunkedArray:
    """Return whether records may be missing before a row of the span, or changes are unknown."""
    later = pc.greater(history.column("record_timestamp"), pa.scalar(begin))
    exists = pc.not_equal(history.column("record_kind"), "tombstone")
    # Changes are unknown before the first remaining record of a share partition, and while a state
    # is partial.
    missing = pc.invert(pc.and_(history.column("follows"), history.column("from_snapshot")))
    # Without a start offset nothing was fetched yet, so replacing the state releases nothing.
    counts = pc.and_not(history.column("start_offset").is_valid(), history.column("replaced"))
    changes = pc.and_(history.column("released").is_valid(), history.column("archived").is_valid())
    found = pc.or_(missing, pc.and_not(counts, changes))
    return pc.and_(pc.and_(later, exists), found)


ARCHIVED, NEW_LEADER, RESET = "records archived", "new leader", "reset"
DELETED = "state deleted"
JOINED, DEPARTED, EMPTIED = "member joined", "member left", "last member left"

_STEP, _BEFORE = "_step", "leader_epoch_before"


def events_arrow(history: Arrow, since: datetime, every: timedelta) -> pa.Table:
    """Return the events of share partitions since a moment, without topics, members and brokers.

    ``history`` has all rows of some share partitions, each in log order. Events of one kind within
    a step of ``every`` are one row, at the time of the first.
    """
    schemas.require(history, schemas.HISTORY, "history")
    table = as_table(history)
    epoch = flat(table.column("leader_epoch"))
    before = pa.concat_arrays([pa.nulls(min(len(table), 1), epoch.type), epoch[: len(table) - 1]])
    table = table.append_column(_BEFORE, before)
    table = table.filter(pc.greater_equal(table.column("record_timestamp"), pa.scalar(since)))
    archived = pc.greater(table.column("archived"), 0)
    found = [
        _rows(table, archived, ARCHIVED, every, "archived"),
        _rows(table, table.column("leader_changed"), NEW_LEADER, every),
        _rows(table, is_reset(table), RESET, every),
        _rows(table, pc.equal(table.column("record_kind"), "tombstone"), DELETED, every),
    ]
    return pa.concat_tables(found)


def add_leaders(events: pa.Table, brokers: pa.Table) -> pa.Table:
    """Add brokers to the events of new leaders that still lead, by their epoch.

    ``brokers`` has the present leaders; the brokers of earlier ones are unknown.
    """
    now = beside(keys(events, SHARE_PARTITION), brokers, SHARE_PARTITION)
    leads = pc.equal(events.column("leader_epoch"), now.column("current_leader_epoch"))
    leader = pc.if_else(leads.fill_null(False), now.column("leader_id"), None)
    return with_columns(events, {"leader_id": leader})


def member_events(members: Arrow, groups: Arrow, since: datetime) -> pa.Table:
    """Return when members joined and left, and groups lost their last one, since a moment.

    For members that have left, Kafka keeps a tombstone for a while, but not when they joined. The
    result is `sharelag.schemas.EVENTS`.
    """
    lists = flat(groups.column("departures"))
    departures = pa.table(
        {
            "group_id": flat(groups.column("group_id")).take(pc.list_parent_indices(lists)),
            "member_id": pc.struct_field(lists.flatten(), "member_id"),
            "left": pc.struct_field(lists.flatten(), "left_ms").cast(schemas.TIMESTAMP),
        }
    )
    found = [
        _of_groups(members, "joined", JOINED, since),
        _of_groups(departures, "left", DEPARTED, since),
        _of_groups(groups, "emptied", EMPTIED, since),
    ]
    return pa.concat_tables(found)


def _rows(
    table: pa.Table, where: Arrow, event: str, every: timedelta, count: str | None = None
) -> pa.Table:
    """Return the rows with an event, several within a step as one."""
    chosen = table.filter(where)
    times = flat(chosen.column("record_timestamp")).cast(pa.int64())
    step = pc.divide(times, max(round(every / timedelta(milliseconds=1)), 1))
    chosen = chosen.append_column(_STEP, step)
    summed = [(count, "sum")] if count else [("record_timestamp", "count")]
    # Threads would change the order.
    sums = chosen.group_by([*STATE, _STEP], use_threads=False).aggregate(
        [("record_timestamp", "min"), *summed, (_BEFORE, "first"), ("leader_epoch", "last")]
    )
    columns = {name: sums.column(name) for name in SHARE_PARTITION}
    columns["happened_at"] = sums.column("record_timestamp_min")
    columns["event"] = pa.repeat(event, len(sums))
    columns["occurrences"] = sums.column("_".join(summed[0]))
    if event == NEW_LEADER:
        columns[_BEFORE] = sums.column(f"{_BEFORE}_first")
        columns["leader_epoch"] = sums.column("leader_epoch_last")
    return table_of(columns, schemas.EVENTS, pad=True)


def _of_groups(table: Arrow, time: str, event: str, since: datetime) -> pa.Table:
    rows = as_table(table)
    at = flat(rows.column(time)).cast(pa.int64())
    rows = rows.filter(pc.greater_equal(at, milliseconds(since)).fill_null(False))
    columns = {"group_id": rows.column("group_id"), "happened_at": rows.column(time)}
    if "member_id" in rows.schema.names:
        columns["member_id"] = rows.column("member_id")
    columns |= {"event": pa.repeat(event, len(rows)), "occurrences": pa.repeat(1, len(rows))}
    return table_of(columns, schemas.EVENTS, pad=True)
