"""What happened to the share partitions of a group: resets, new leaders, archived records, members.

Each event is a row that a chart can mark and people can read; of many within a step, the first
stands for all, with how many there were.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.signs import is_reset
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

ARCHIVED, NEW_LEADER, RESET = "records archived", "new leader", "reset"
JOINED, DEPARTED, EMPTIED = "member joined", "member left", "last member left"

_STEP, _BEFORE = "_step", "leader_epoch_before"


def events_arrow(history: Arrow, since: datetime, every: timedelta) -> pa.Table:
    """Return the events of share partitions since a moment.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`: all rows of some share partitions, each in log order.
    since : datetime
        Earlier rows are ignored.
    every : timedelta
        Events of one kind within such a step are one row, at the time of the first.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.EVENTS` without topics, members and brokers.
    """
    schemas.require(history, schemas.HISTORY, "history")
    table = as_table(history)
    epoch = flat(table.column("leader_epoch"))
    before = pa.concat_arrays([pa.nulls(min(len(table), 1), epoch.type), epoch[: len(table) - 1]])
    table = table.append_column(_BEFORE, before)
    later = pc.greater_equal(table.column("record_timestamp"), pa.scalar(since))
    table = table.filter(later)
    archived = pc.greater(table.column("archived"), 0)
    found = [
        _rows(table, archived, ARCHIVED, every, "archived"),
        _rows(table, table.column("leader_changed"), NEW_LEADER, every, epochs=True),
        _rows(table, is_reset(table), RESET, every),
    ]
    return pa.concat_tables(found)


def with_leaders(events: pa.Table, brokers: pa.Table) -> pa.Table:
    """Return events with the broker of each new leader that leads still, by its epoch.

    Parameters
    ----------
    events : pyarrow.Table
        `sharelag.schemas.EVENTS`.
    brokers : pyarrow.Table
        `sharelag.schemas.BROKERS`: who leads now. Of earlier leaders nothing keeps the broker.
    """
    now = beside(keys(events, SHARE_PARTITION), brokers, SHARE_PARTITION)
    leads = pc.equal(events.column("leader_epoch"), now.column("current_leader_epoch"))
    leader = pc.if_else(leads.fill_null(False), now.column("leader_id"), None)
    index = events.schema.get_field_index("leader_id")
    return events.set_column(index, events.schema.field(index), leader)


def member_events(members: Arrow, groups: Arrow, since: datetime) -> pa.Table:
    """Return when members joined and left, and groups lost their last one, since a moment.

    Parameters
    ----------
    members, groups : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.MEMBERS` and `sharelag.schemas.GROUPS`. Of members that have left Kafka
        keeps a while that they are gone, and not when they joined.
    since : datetime

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.EVENTS`.
    """
    found = [
        _of_groups(members, "joined", JOINED, since),
        _of_groups(_departures(groups), "left", DEPARTED, since),
        _of_groups(groups, "emptied", EMPTIED, since),
    ]
    return pa.concat_tables(found)


def _rows(
    table: pa.Table,
    where: Arrow,
    event: str,
    every: timedelta,
    count: str | None = None,
    epochs: bool = False,
) -> pa.Table:
    """The rows where something happened, many within a step as one."""
    chosen = table.filter(where.fill_null(False))
    times = flat(chosen.column("record_timestamp")).cast(pa.int64())
    step = pc.divide(times, max(round(every / timedelta(milliseconds=1)), 1))
    chosen = chosen.append_column(_STEP, step)
    summed = [(count, "sum")] if count else [("record_timestamp", "count")]
    # Threads would change the order.
    sums = chosen.group_by([*SHARE_PARTITION, _STEP], use_threads=False).aggregate(
        [("record_timestamp", "min"), *summed, (_BEFORE, "first"), ("leader_epoch", "last")]
    )
    columns = {name: sums.column(name) for name in SHARE_PARTITION}
    columns["happened_at"] = sums.column("record_timestamp_min")
    columns["event"] = pa.repeat(pa.scalar(event), len(sums))
    columns["occurrences"] = sums.column("_".join(summed[0]))
    if epochs:
        columns[_BEFORE] = sums.column(f"{_BEFORE}_first")
        columns["leader_epoch"] = sums.column("leader_epoch_last")
    return _conformed(columns, len(sums))


def _departures(groups: Arrow) -> pa.Table:
    """A row for each member that left: its group, its id, and when."""
    lists = flat(groups.column("departures"))
    each = lists.flatten()
    return pa.table(
        {
            "group_id": flat(groups.column("group_id")).take(pc.list_parent_indices(lists)),
            "member_id": pc.struct_field(each, "member_id"),
            "left": pc.struct_field(each, "left_ms").cast(schemas.TIMESTAMP),
        }
    )


def _of_groups(table: Arrow, time: str, event: str, since: datetime) -> pa.Table:
    rows = as_table(table)
    at = flat(rows.column(time)).cast(pa.int64())
    rows = rows.filter(pc.greater_equal(at, milliseconds(since)).fill_null(False))
    columns = {"group_id": rows.column("group_id"), "happened_at": rows.column(time)}
    if "member_id" in rows.schema.names:
        columns["member_id"] = rows.column("member_id")
    columns["event"] = pa.repeat(pa.scalar(event), len(rows))
    columns["occurrences"] = pa.repeat(pa.scalar(1), len(rows))
    return _conformed(columns, len(rows))


def _conformed(columns: dict[str, pa.ChunkedArray], rows: int) -> pa.Table:
    """Columns as `sharelag.schemas.EVENTS`; null where there are none."""
    arrays = [
        flat(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in schemas.EVENTS
    ]
    return pa.Table.from_arrays(arrays, schema=schemas.EVENTS)
