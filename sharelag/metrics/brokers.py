"""The brokers around share partitions: leaders, replicas, racks, and both coordinators.

Kafka keeps the state of a share partition in the partition of ``__share_group_state`` that the
hash of its key chooses, and a group in that of ``__consumer_offsets`` that the hash of its name
chooses (``SharePartitionKey.asCoordinatorKey``, ``GroupCoordinatorService.partitionFor``). The
leaders of these partitions are the share coordinator and the group coordinator.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.placement import partition_counts, state_partitions
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

_PARTITION = ("topic_id", "partition")


def brokers(
    lag: Arrow, offsets: Arrow, leaders: Arrow, nodes: Arrow, partitions: int | None = None
) -> pa.Table:
    """Return the brokers around each share partition.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS` of the same topics, for the epochs of the leaders.
    leaders : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LEADERS` of the same topics and of the coordinators' topics.
    nodes : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.NODES`.
    partitions : int, optional
        The number of partitions of the state topic, where its leaders are not known.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.BROKERS`, in the order of ``lag``. What is not known is null.
    """
    table, leaders = as_table(lag), as_table(leaders)
    place = keys(table, _PARTITION)
    led, ends = beside(place, leaders, _PARTITION), beside(place, offsets, _PARTITION)
    key = keys(table, SHARE_PARTITION)
    counts = partition_counts(key, _size(leaders, STATE_TOPIC) or partitions)
    places = state_partitions(key, counts)
    columns = {name: table.column(name) for name in table.column_names} | {
        "leader_id": led.column("leader_id"),
        "leader_rack": racks_of(flat(led.column("leader_id")), nodes),
        "current_leader_epoch": pc.if_else(
            led.column("leader_id").is_valid(), ends.column("leader_epoch"), None
        ),
        "replicas": led.column("replicas"),
        "in_sync_replicas": led.column("in_sync_replicas"),
        "racks": _racks_in_lists(flat(led.column("replicas")), nodes),
        "state_partition": places,
        "share_coordinator": _leader_of(STATE_TOPIC, places, leaders),
        "group_coordinator": group_coordinators(flat(table.column("group_id")), leaders),
        "as_of": led.column("as_of"),
    }
    arrays = [columns[field.name].cast(field.type) for field in schemas.BROKERS]
    return pa.table(arrays, schema=schemas.BROKERS)


def group_coordinators(groups: pa.Array, leaders: Arrow) -> pa.Array:
    """Return the broker that coordinates each group; null where that is not known."""
    table = as_table(leaders)
    counts = partition_counts(groups, _size(table, GROUP_TOPIC))
    return _leader_of(GROUP_TOPIC, state_partitions(groups, counts), table)


def coordinators(groups: pa.Array, leaders: Arrow, nodes: Arrow) -> pa.Array:
    """Return the coordinator of each group as ``kafka-share-groups.sh`` prints it.

    That is ``host:port (id)``; null where it is not known, or not in the cluster.
    """
    ids, table = group_coordinators(groups, leaders), as_table(nodes)
    node = table.take(pc.index_in(ids, flat(table.column("broker_id")), skip_nulls=True))
    host, port, number = (
        flat(node.column(name)).cast(pa.string()) for name in ("host", "port", "broker_id")
    )
    return pc.binary_join_element_wise(host, ":", port, " (", number, ")", "")


def racks_of(ids: pa.Array, nodes: Arrow) -> pa.Array:
    """Return the rack of each broker; null where it has none or is not in the cluster."""
    table = as_table(nodes)
    return flat(table.column("rack")).take(pc.index_in(ids, flat(table.column("broker_id"))))


def _racks_in_lists(replicas: pa.Array, nodes: Arrow) -> pa.Array:
    racks = racks_of(replicas.flatten(), nodes)
    lengths = pc.fill_null(pc.list_value_length(replicas), 0).to_numpy()
    ends = [0, *lengths.cumsum()]
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), racks, mask=pc.is_null(replicas))


def _leader_of(topic: str, partitions: pa.Array, leaders: pa.Table) -> pa.Array:
    own = leaders.filter(pc.equal(leaders.column("topic"), topic))
    at = pc.index_in(partitions, flat(own.column("partition")), skip_nulls=True)
    return flat(own.column("leader_id")).take(at)


def _size(leaders: pa.Table, topic: str) -> int | None:
    """Return the number of partitions of a topic, by its leaders; None without any."""
    return pc.sum(pc.equal(leaders.column("topic"), topic)).as_py() or None
