"""Rows of share partitions: their order, their topics' names, and which of them are chosen."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.replay.moment import Choice
from sharelag.tables.arrow import flat, keys

#: Sort order of tables of share partitions.
ORDER = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]

#: Sort order of histories.
HISTORY_ORDER = [*ORDER, ("record_offset", "ascending")]


def add_topic_names(table: pa.Table, offsets: pa.Table) -> pa.Table:
    """Add the topic's name to its id, null where it is unknown."""
    position = pc.index_in(table.column("topic_id"), flat(offsets.column("topic_id")))
    return table.append_column("topic", flat(offsets.column("topic")).take(position))


def rows_of(rows: schemas.Arrow, wanted: pa.Table) -> schemas.Arrow:
    """Return the rows of some share partitions."""
    names = ("group_id", "topic_id", "partition")
    return rows.filter(pc.is_in(keys(rows, names), keys(wanted, names)))


def from_time(history: schemas.Arrow, since: datetime | None) -> schemas.Arrow:
    """Return the rows of a history from a time on; None: all."""
    if since is None:
        return history
    return history.filter(pc.greater_equal(history.column("record_timestamp"), pa.scalar(since)))


def latest(history: pa.Table, most: int | None) -> pa.Table:
    """Return the latest rows of a history, at most so many; None: all, in their order."""
    if most is None or len(history) <= most:
        return history
    order = [("record_timestamp", "descending"), ("record_offset", "descending")]
    return history.sort_by(order).slice(0, most)


def chosen_partitions(groups: pa.Table, choice: Choice) -> pa.Table:
    """Return groups without the initialized partitions that are not selected."""
    if not choice.topics:
        return groups
    rows = groups.to_pylist()
    for row in rows:
        row["initialized_topics"] = [
            topic | {"partitions": kept}
            for topic in row["initialized_topics"] or []
            if (
                kept := [
                    p
                    for p in topic["partitions"]
                    if choice.has(topic["topic_name"] or topic["topic_id"], p)
                ]
            )
        ]
    return pa.Table.from_pylist(rows, schema=groups.schema)


def earliest(past_offsets: pa.Table) -> pa.Table:
    """Return the first known end of each topic partition."""
    known = past_offsets.filter(past_offsets.column("end_offset").is_valid())
    first = known.group_by(["topic_id", "partition"]).aggregate([("end_offset", "min")])
    return first.rename_columns(["topic_id", "partition", "end_offset"])
