"""The load of each partition, topic, member and broker: the input of the imbalance.

Each measure is a column of float64, null where unknown. Members come from the group records, the
others from the lag table, the history and the offsets; they are joined here by group, topic id and
partition.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import PARTITION, floats, mask
from sharelag.schemas import SHARE_PARTITION, Arrow, Floats, Ints
from sharelag.tables.arrow import as_table, beside, flat, keys, table_of

#: What identifies the rows of `partition_loads`.
KEYS = ["group_id", "topic", "topic_id", "partition"]


def _columns(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


#: The columns that are read from each table; the others may be missing.
NEEDED = {
    "lag": _columns(schemas.LAG, *KEYS, "as_of", "lag", "end_offset"),
    "members": _columns(schemas.MEMBERS, "group_id", "member_id", "assigned_partitions"),
    "groups": _columns(schemas.GROUPS, "group_id", "initialized_topics"),
    "observed": _columns(schemas.OBSERVED, *SHARE_PARTITION, "begin", "end", "finished"),
    "brokers": _columns(schemas.BROKERS, *SHARE_PARTITION, "leader_id"),
    "past": _columns(schemas.OFFSETS, *PARTITION, "end_offset"),
}
#: Measures of partitions that are summed over those of a topic or a broker.
_SUMMED = ("lag", "arrived", "finished")
_MS_AN_HOUR = 3_600_000


def partition_loads(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
) -> pa.Table:
    """Return the load of each share partition.

    ``groups`` adds the initialized partitions without a lag row; the members of groups that are not
    in it are unknown. ``past`` has earlier ends by ``topic_id`` and ``partition``, of `OFFSETS` or
    of an earlier lag table. The result has `KEYS`, ``as_of``, and as float64: ``lag``; ``arrived``
    since ``past``; ``finished`` per hour, as observed; ``members``, how many are assigned to it.
    Null where unknown.
    """
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed, "past": past}
    for name, rows in given.items():
        if rows is not None:
            schemas.require(rows, NEEDED[name], name)
    table = as_table(lag).select(NEEDED["lag"].names)
    if groups is not None:
        table = _with_initialized(table, as_table(groups))
    place = keys(table, SHARE_PARTITION)
    columns = {name: table.column(name) for name in (*KEYS, "as_of")}
    columns |= {"lag": table.column("lag").cast(pa.float64()), "arrived": _arrived(table, past)}
    assigned = _member_counts(place, flat(table.column("group_id")), members, groups)
    return pa.table(columns | {"finished": _finished(place, observed), "members": assigned})


def member_loads(partitions: pa.Table, members: Arrow) -> pa.Table:
    """Return the load of each member, of `partition_loads` for the same members.

    The columns are ``group_id``, ``member_id``, ``as_of`` of its group, and as float64
    ``partitions`` assigned to it and ``lag``, where a partition's lag is divided equally among its
    members. An idle member has lag 0; null if no lag of its partitions is known.
    """
    table, size = as_table(members), members.num_rows
    row, place, _ = explode_partitions(table, "assigned_partitions")
    lags, shared_by = (floats(partitions.column(name)) for name in ("lag", "members"))
    position = pc.index_in(place, keys(partitions, SHARE_PARTITION))
    part = np.append(lags / np.maximum(shared_by, 1), np.nan)[position.fill_null(-1).to_numpy()]
    lag, counts = known_sums(part, row, size), np.bincount(row, minlength=size)
    lag[(lag == 0) & (np.bincount(row[np.isnan(part)], minlength=size) > 0)] = np.nan
    moments = partitions.group_by("group_id").aggregate([("as_of", "min")])
    moments = beside(flat(table.column("group_id")), moments, ["group_id"])
    columns = {name: table.column(name) for name in ("group_id", "member_id")} | {
        "as_of": moments.column("as_of_min"),
        "partitions": pa.array(counts, pa.float64()),
        "lag": pa.array(np.where(counts == 0, 0.0, lag), from_pandas=True),
    }
    return pa.table(columns)


def topic_loads(partitions: pa.Table) -> pa.Table:
    """Return the load of each topic of a group: sums over its partitions as far as known.

    A sum of 0 beside unknown ones is unknown. Columns are ``group_id``, ``topic``, ``topic_id``,
    ``as_of``, and as float64 ``lag``, ``arrived`` and ``finished``.
    """
    return _sum_groups(partitions, "topic_id").drop_columns("partitions")


def _sum_groups(partitions: pa.Table, by: str) -> pa.Table:
    """Sum loads up within groups; a sum of 0 beside unknown numbers is unknown."""
    known = pc.ScalarAggregateOptions(min_count=1)
    summed = partitions.group_by(["group_id", by]).aggregate(
        [
            *(("topic", "max"), ("as_of", "min"), ("partition", "count")),
            *((name, "sum", known) for name in _SUMMED),
            *((name, "count") for name in _SUMMED),
        ]
    )
    columns = {name: summed.column(name) for name in ("group_id", by)}
    columns |= {"topic": summed.column("topic_max"), "as_of": summed.column("as_of_min")}
    count = summed.column("partition_count")
    columns["partitions"] = count.cast(pa.float64())
    for name in _SUMMED:
        sums = summed.column(f"{name}_sum")
        is_open = pc.and_(pc.equal(sums, 0), pc.less(summed.column(f"{name}_count"), count))
        columns[name] = pc.if_else(is_open.fill_null(False), None, sums)
    return pa.table(columns)


def broker_loads(partitions: pa.Table, brokers: Arrow) -> pa.Table:
    """Return the load of each broker: sums over the partitions that it leads, as far as known.

    ``brokers`` has ``leader_id`` by share partition. The columns are those of `topic_loads`, with
    ``leader_id`` and ``partitions`` in place of the topic. Share partitions without a known leader
    are in none of the rows.
    """
    schemas.require(brokers, NEEDED["brokers"], "brokers")
    led = beside(keys(partitions, SHARE_PARTITION), brokers, SHARE_PARTITION)
    table = partitions.append_column("leader_id", led.column("leader_id"))
    led_by_some = table.filter(table.column("leader_id").is_valid())
    return _sum_groups(led_by_some, "leader_id").drop_columns("topic")


def known_sums(values: Floats, code: Ints, size: int) -> Floats:
    """Return sums of the known values of each code; NaN if none is known."""
    known = ~np.isnan(values)
    sums = np.bincount(code[known], values[known], size)
    return np.where(np.bincount(code[known], minlength=size) > 0, sums, np.nan)


def explode_partitions(table: pa.Table, column: str) -> tuple[Ints, pa.Array, pa.Array]:
    """Return each partition in the lists of a column such as ``assigned_partitions``.

    Each list has topics with ``topic_id`` and ``partitions``. The result is the table row that
    lists each partition, a key for each share partition, and the topic's fields, with ``partition``
    in place of ``partitions``.
    """
    lists = flat(table.column(column))
    topics = pc.list_flatten(lists)
    partitions = pc.struct_field(topics, "partitions")
    topic = pc.list_parent_indices(partitions)
    row = pc.list_parent_indices(lists).take(topic)
    names = [field.name for field in topics.type if field.name != "partitions"]
    fields = {name: pc.struct_field(topics, name).take(topic) for name in names}
    fields["partition"] = pc.list_flatten(partitions)
    each = pa.table({"group_id": flat(table.column("group_id")).take(row), **fields})
    found = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return row.to_numpy(), keys(each, SHARE_PARTITION), found


def count_stateless(groups: pa.Table, states: Arrow) -> int:
    """Return how many share partitions their groups have initialized and have no state.

    A group's coordinator notes them as initialized once their state was written: records of the
    state topic are missing. ``states`` has the ``group_id topic_id partition`` of those with one.
    """
    _, place, _ = explode_partitions(groups, "initialized_topics")
    return int(pc.sum(pc.invert(pc.is_in(place, keys(states, SHARE_PARTITION)))).as_py() or 0)


def name_topics(table: pa.Table, groups: pa.Table) -> pa.Table:
    """Return a table of share partitions with the names of topics that only their groups know."""
    _, place, topics = explode_partitions(groups, "initialized_topics")
    names = _names_of(topics).take(pc.index_in(keys(table, SHARE_PARTITION), place))
    topic = pc.coalesce(flat(table.column("topic")), names)
    return table.set_column(table.column_names.index("topic"), "topic", topic)


def _names_of(topics: pa.StructArray) -> pa.Array:
    names = pc.struct_field(topics, "topic_name")
    return pc.if_else(pc.equal(names, "<UNKNOWN>"), None, names)


def _with_initialized(table: pa.Table, groups: pa.Table) -> pa.Table:
    """Add initialized partitions without a state, and topic names known only from the group."""
    row, place, topics = explode_partitions(groups, "initialized_topics")
    names, have = _names_of(topics), keys(table, SHARE_PARTITION)
    table = name_topics(table, groups)
    new = {name: pc.struct_field(topics, name) for name in ("topic_id", "partition")}
    new |= {"group_id": flat(groups.column("group_id")).take(pa.array(row)), "topic": names}
    missing = pc.invert(pc.is_in(place, have))
    return pa.concat_tables([table, table_of(new, table.schema, pad=True).filter(missing)])


def _arrived(table: pa.Table, past: Arrow | None) -> pa.Array:
    if past is None:
        return pa.nulls(table.num_rows, pa.float64())
    now = flat(table.column("end_offset"))
    before = beside(keys(table, PARTITION), past, PARTITION).column("end_offset")
    growth = pc.subtract(now, flat(before)).cast(pa.float64())
    # An end offset that went back is from a truncated log or another topic: do not count it.
    return pc.if_else(pc.less(growth, 0), pa.scalar(None, pa.float64()), growth)


def _finished(place: pa.Array, observed: Arrow | None) -> pa.Array:
    """Return finished offsets per hour over the observed span."""
    if observed is None:
        return pa.nulls(len(place), pa.float64())
    table = as_table(observed)
    begin, end, finished = (floats(table.column(name)) for name in ("begin", "end", "finished"))
    hours = np.where(end > begin, end - begin, np.nan) / _MS_AN_HOUR
    rate = pa.array(finished / hours, from_pandas=True)
    return rate.take(pc.index_in(place, keys(table, SHARE_PARTITION)))


def _member_counts(
    place: pa.Array, group_id: pa.Array, members: Arrow | None, groups: Arrow | None
) -> pa.Array:
    if members is None:
        return pa.nulls(len(place), pa.float64())
    encoded = place.dictionary_encode()
    _, assigned, _ = explode_partitions(as_table(members), "assigned_partitions")
    at = pc.index_in(assigned, encoded.dictionary).drop_null().to_numpy()
    counts = np.bincount(at, minlength=len(encoded.dictionary))[encoded.indices.to_numpy()]
    known = np.ones(len(place), bool)
    if groups is not None:
        known = mask(pc.is_in(group_id, flat(groups.column("group_id"))))
    return pa.array(counts.astype(np.float64), mask=~known)
