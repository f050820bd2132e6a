"""Groups and members in one row each, as ``kafka-share-groups.sh`` describes them, and their lag.

The groups' own records say what the group coordinator knows. The state topic adds share partitions
and lag, and groups that the coordinator has deleted but whose state is still there.

A member receives its target assignment with its next heartbeat and then takes over the group's
assignment epoch (KIP-932, "Member epoch"): seconds of drift are normal, minutes are not. Partitions
of topics that a member no longer subscribes to can remain in its target; Kafka omits them from the
heartbeat response.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.brokers import coordinators
from sharelag.metrics.columns import mask
from sharelag.metrics.imbalance import explode_partitions, names_of
from sharelag.metrics.lag import rollup_arrow
from sharelag.model import GroupState
from sharelag.replay.moment import Choice
from sharelag.schemas import GROUP_STATES, MEMBER_ROWS, SHARE, TIMESTAMP, Arrow, Ints
from sharelag.tables.arrow import as_table, ascending, beside, flat, keys, one_batch, table_of


def group_states(
    groups: Arrow,
    lag: Arrow,
    is_complete: bool = False,
    leaders: Arrow | None = None,
    nodes: Arrow | None = None,
    deleted: Collection[str] = (),
) -> pa.Table:
    """Return one row per group: its state and epochs, and the sums of its lag.

    ``is_complete``: ``groups`` has all groups that exist. A group with lag that is not in it was
    then deleted, and is ``Dead``, as ``AdminClient.describeShareGroups`` calls a group that the
    coordinator does not have; otherwise its state is null, unless it is one of those that their
    records say were ``deleted``. Without ``leaders`` and ``nodes`` the
    coordinators are null. The result is `sharelag.schemas.GROUP_STATES`, sorted by group. A group
    without share partitions has 0 of them, and a null lag.
    """
    schemas.require(groups, schemas.GROUPS, "groups")
    table = as_table(groups)
    sums = as_table(rollup_arrow(as_table(lag), "group"))
    names = pc.unique(pa.concat_arrays([flat(t.column("group_id")) for t in (table, sums)]))
    names = names.take(pc.sort_indices(names))
    own, sums = beside(names, table, ["group_id"]), beside(names, sums, ["group_id"])
    topics = as_table(lag).group_by("group_id").aggregate([("topic_id", "count_distinct")])
    is_dead = pc.or_(pc.is_in(names, pa.array(sorted(deleted), pa.string())), is_complete)
    state = pc.coalesce(own.column("state"), pc.if_else(is_dead, str(GroupState.DEAD), None))
    topics = beside(names, topics, ["group_id"]).column("topic_id_count_distinct")
    leaders = schemas.LEADERS.empty_table() if leaders is None else leaders
    nodes = schemas.NODES.empty_table() if nodes is None else nodes
    columns = {name: own.column(name) for name in own.column_names} | {
        "group_id": names,
        "type": pa.repeat(SHARE, len(names)),
        "state": state,
        "topics": topics.fill_null(0),
        "coordinator": coordinators(names, leaders, nodes),
        "partitions": sums.column("partitions").fill_null(0),
        "lag": sums.column("lag"),
        "unknown_lags": sums.column("unknown_lags").fill_null(0),
        "as_of": sums.column("as_of"),
    }
    return table_of(columns, GROUP_STATES, pad=True)


def member_rows(members: Arrow, groups: Arrow, lag: Arrow) -> pa.Table:
    """Return one row per member, with its assignment as Kafka's command prints it, in their order.

    The groups and ``lag``, of which ``topic_id topic`` alone will do, have the names of the topics.
    The id of a topic stands in for a name that neither has.
    """
    schemas.require(members, schemas.MEMBERS, "members")
    table = as_table(members)
    row, _, partitions = explode_partitions(table, "assigned_partitions")
    names = _name_topics(pc.struct_field(partitions, "topic_id"), as_table(groups), lag)
    pairs = {"row": row, "topic": names, "partition": pc.struct_field(partitions, "partition")}
    topics = pa.table(pairs).sort_by(ascending("row", "topic", "partition"))
    topics = topics.group_by(["row", "topic"], use_threads=False)
    topics = topics.aggregate([("partition", "list"), ("partition", "count")])
    lists = topics.column("partition_list").cast(pa.list_(pa.string()))
    texts = pc.binary_join_element_wise(topics.column("topic"), pc.binary_join(lists, ","), ":")
    each = topics.append_column("text", texts).group_by("row", use_threads=False)
    each = each.aggregate([("text", "list"), ("partition_count", "sum")])
    at = pc.index_in(pa.array(range(table.num_rows), pa.int64()), flat(each.column("row")))
    known = table.column("assigned_partitions").is_valid()
    assigned = each.column("partition_count_sum").take(at).fill_null(0)
    assignment = pc.binary_join(each.column("text_list").take(at), ";")
    columns = {name: table.column(name) for name in table.column_names} | {
        "assigned": pc.if_else(known, assigned, None),
        "assignment": pc.if_else(known, pc.fill_null(assignment, ""), None),
    }
    return table_of(columns, MEMBER_ROWS, pad=True)


def of_topics(members: Arrow, names: pa.Table, choice: Choice) -> pa.Table:
    """Return the members that have selected partitions, or subscribe to a whole selected topic.

    ``names`` has the ``topic_id topic`` that are known. Without chosen topics all members are
    returned.
    """
    table = as_table(members)
    if not choice.topics:
        return table
    row, _, partitions = explode_partitions(table, "assigned_partitions")
    ids = pc.struct_field(partitions, "topic_id")
    topic = flat(names.column("topic")).take(pc.index_in(ids, flat(names.column("topic_id"))))
    numbers = pc.struct_field(partitions, "partition")
    pairs = pa.table({"row": pa.array(row), "topic": topic, "topic_id": ids, "partition": numbers})
    subscribed = flat(table.column("subscribed_topic_names"))
    whole = pa.array([name for name, some in choice.topics.items() if not some], pa.string())
    subscribes = pc.is_in(pc.list_flatten(subscribed), value_set=whole)
    assigned = flat(choice.of(pairs).column("row"))
    subscribed = pc.list_parent_indices(subscribed).filter(subscribes)
    chosen = pa.concat_arrays([one.cast(pa.int64()) for one in (assigned, subscribed)])
    return table.filter(pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=chosen))


def _name_topics(ids: pa.Array, groups: pa.Table, lag: Arrow) -> pa.Array:
    """Return the names of topics by their ids; the ids where they are not known."""
    topics = pc.list_flatten(flat(groups.column("initialized_topics")))
    known = [pc.struct_field(topics, "topic_id"), names_of(topics)]
    of_lag = [flat(lag.column(name)) for name in ("topic_id", "topic")]
    found, names = (pa.concat_arrays(pair) for pair in zip(known, of_lag, strict=True))
    has_name = names.is_valid()
    found, names = found.filter(has_name), names.filter(has_name)
    return pc.coalesce(names.take(pc.index_in(ids, found)), ids)


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
    """Return the members that differ from their target assignments, as `DRIFT`, in their order."""
    schemas.require(members, schemas.MEMBERS, "members")
    schemas.require(groups, schemas.GROUPS, "groups")
    table, group = as_table(members), as_table(groups)
    position = pc.index_in(flat(table.column("group_id")), flat(group.column("group_id")))
    epoch = flat(group.column("assignment_epoch")).take(position)
    columns = {name: table.column(name) for name in ("group_id", "member_id", "member_epoch")} | {
        "assignment_epoch": epoch,
        "missing": _difference(table, "target_partitions", "assigned_partitions"),
        "surplus": _difference(table, "assigned_partitions", "target_partitions"),
        "since": flat(group.column("assignment_timestamp")).take(position),
    }
    rows = table_of(columns, DRIFT)
    behind = pc.less(columns["member_epoch"], epoch).fill_null(False)
    differs = pc.greater(pc.add(columns["missing"], columns["surplus"]), 0)
    return one_batch(rows.filter(pc.or_(behind, differs)))


def _difference(table: pa.Table, of: str, without: str) -> pa.Array:
    """Count the partitions of each row that are in one list and not in the other."""
    row, _, partitions = explode_partitions(table, of)
    other_row, _, others = explode_partitions(table, without)
    alone = ~mask(pc.is_in(_texts(row, partitions), _texts(other_row, others)))
    return pa.array(np.bincount(row[alone], minlength=table.num_rows))


def _texts(row: Ints, partitions: pa.Array) -> pa.Array:
    each = {name: pc.struct_field(partitions, name) for name in ("topic_id", "partition")}
    return keys(pa.table({"row": row} | each), ["row", *each])
