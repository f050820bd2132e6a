"""Groups and members in one row each, as ``kafka-share-groups.sh`` describes them, and their lag.

The groups' own records say what the group coordinator knows. The state topic adds share partitions
and lag, and groups that the coordinator has deleted but whose state is still there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.brokers import coordinators
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.loads import exploded
from sharelag.model.group_state import GroupState
from sharelag.replay.moment import Choice
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, beside, flat
from sharelag.schemas.membership import GROUP_STATES, MEMBER_ROWS, SHARE


def group_states(
    groups: Arrow,
    lag: Arrow,
    is_complete: bool = False,
    leaders: Arrow | None = None,
    nodes: Arrow | None = None,
) -> pa.Table:
    """Return one row a group: its state and epochs, and the sums of its lag.

    Parameters
    ----------
    groups : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.GROUPS`.
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` of the same groups.
    is_complete : bool
        Whether ``groups`` has all groups that exist. A group with lag that is not in it was then
        deleted, and is ``Dead``, as ``AdminClient.describeShareGroups`` calls a group that the
        coordinator does not have; otherwise its state is null.
    leaders, nodes : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.LEADERS` and `NODES`: without them the coordinators are null.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.membership.GROUP_STATES`, sorted by group. A group without share
        partitions has 0 of them, and a null lag.
    """
    schemas.require(groups, schemas.GROUPS, "groups")
    table = as_table(groups)
    sums = as_table(rollup_arrow(as_table(lag), "group"))
    names = pc.unique(pa.concat_arrays([flat(t.column("group_id")) for t in (table, sums)]))
    names = names.take(pc.sort_indices(names))
    own, sums = beside(names, table, ["group_id"]), beside(names, sums, ["group_id"])
    topics = as_table(lag).group_by("group_id").aggregate([("topic_id", "count_distinct")])
    state = own.column("state")
    columns = {name: own.column(name) for name in GROUP_STATES.names if name in own.column_names}
    columns |= {
        "group_id": names,
        "type": pa.repeat(SHARE, len(names)),
        "state": pc.fill_null(state, GroupState.DEAD) if is_complete else state,
        "topics": _count(beside(names, topics, ["group_id"]).column("topic_id_count_distinct")),
        "coordinator": coordinators(
            names,
            schemas.LEADERS.empty_table() if leaders is None else leaders,
            schemas.NODES.empty_table() if nodes is None else nodes,
        ),
        "partitions": _count(sums.column("partitions")),
        "lag": sums.column("lag"),
        "unknown_lags": _count(sums.column("unknown_lags")),
        "as_of": sums.column("as_of"),
    }
    return _in_schema(columns, GROUP_STATES, len(names))


def member_rows(members: Arrow, groups: Arrow, lag: Arrow) -> pa.Table:
    """Return one row a member, with its assignment as Kafka's command prints it.

    Parameters
    ----------
    members, groups : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.MEMBERS` and `GROUPS` of the same records.
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`, or its ``topic_id topic`` alone; it and the groups have the names of
        the topics. The id of a topic stands in for a name that neither has.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.membership.MEMBER_ROWS`, in the order of the members.
    """
    schemas.require(members, schemas.MEMBERS, "members")
    table = as_table(members)
    row, _, partitions = exploded(table, "assigned_partitions")
    pairs = pa.table(
        {
            "row": pa.array(row),
            "topic": _named(pc.struct_field(partitions, "topic_id"), as_table(groups), lag),
            "partition": pc.struct_field(partitions, "partition"),
        }
    ).sort_by([(name, "ascending") for name in ("row", "topic", "partition")])
    pairs = pairs.set_column(2, "partition", pairs.column("partition").cast(pa.string()))
    topics = pairs.group_by(["row", "topic"], use_threads=False).aggregate(
        [("partition", "list"), ("partition", "count")]
    )
    texts = pc.binary_join_element_wise(
        topics.column("topic"), pc.binary_join(topics.column("partition_list"), ","), ":"
    )
    each = (
        topics.append_column("text", texts)
        .group_by("row", use_threads=False)
        .aggregate([("text", "list"), ("partition_count", "sum")])
    )
    at = pc.index_in(pa.array(range(table.num_rows), pa.int64()), flat(each.column("row")))
    known = table.column("assigned_partitions").is_valid()
    assigned = _count(each.column("partition_count_sum").take(at))
    assignment = pc.binary_join(each.column("text_list").take(at), ";")
    columns = {name: table.column(name) for name in table.column_names} | {
        "assigned": pc.if_else(known, assigned, None),
        "assignment": pc.if_else(known, pc.fill_null(assignment, ""), None),
    }
    return _in_schema(columns, MEMBER_ROWS, table.num_rows)


def of_topics(members: Arrow, names: pa.Table, choice: Choice) -> pa.Table:
    """Return the members that have selected partitions, or subscribe to a whole selected topic.

    Parameters
    ----------
    members : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.MEMBERS`.
    names : pyarrow.Table
        ``topic_id topic`` of the topics, as far as they are known.
    choice : Choice
        Without topics all members are returned.
    """
    table = as_table(members)
    if not choice.topics:
        return table
    row, _, partitions = exploded(table, "assigned_partitions")
    ids = pc.struct_field(partitions, "topic_id")
    topic = flat(names.column("topic")).take(pc.index_in(ids, flat(names.column("topic_id"))))
    numbers = pc.struct_field(partitions, "partition")
    pairs = pa.table({"row": pa.array(row), "topic": topic, "topic_id": ids, "partition": numbers})
    subscribed = flat(table.column("subscribed_topic_names"))
    whole = pa.array([name for name, some in choice.topics.items() if not some], pa.string())
    subscribes = pc.is_in(pc.list_flatten(subscribed), value_set=whole)
    chosen = pa.concat_arrays(
        [
            flat(choice.of(pairs).column("row")).cast(pa.int64()),
            pc.list_parent_indices(subscribed).filter(subscribes).cast(pa.int64()),
        ]
    )
    return table.filter(pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=chosen))


def _named(ids: pa.Array, groups: pa.Table, lag: Arrow) -> pa.Array:
    """Return the names of topics by their ids; the ids where they are not known."""
    topics = pc.list_flatten(flat(groups.column("initialized_topics")))
    known = [pc.struct_field(topics, name) for name in ("topic_id", "topic_name")]
    of_lag = [flat(lag.column(name)) for name in ("topic_id", "topic")]
    found, names = (pa.concat_arrays(pair) for pair in zip(known, of_lag, strict=True))
    has_name = names.is_valid()
    found, names = found.filter(has_name), names.filter(has_name)
    return pc.coalesce(names.take(pc.index_in(ids, found)), ids)


def _count(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(column, 0)


def _in_schema(columns: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.Table:
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)
