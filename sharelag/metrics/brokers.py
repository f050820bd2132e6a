"""The brokers around share partitions: leaders, replicas, racks, and both coordinators.

Kafka keeps the state of a share partition in the partition of ``__share_group_state`` that the
hash of its key chooses, and a group in that of ``__consumer_offsets`` that the hash of its name
chooses (``SharePartitionKey.asCoordinatorKey``, ``GroupCoordinatorService.partitionFor``). The
leaders of these partitions are the share coordinator and the group coordinator.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import PARTITION
from sharelag.metrics.health import partition_counts, state_partitions
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, beside, flat, keys, lists_of, rows_by_group, table_of
from sharelag.tables.words import percent
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: The share of a group's lag from which on one broker leads nearly all of it.
_NEARLY_ALL = 0.95


class Lead(NamedTuple):
    """A broker that leads all or nearly all of a group's lag."""

    broker: int
    rack: str | None
    part: float  # of the group's lag, at most 1

    def words(self) -> str:
        """Return ``all of it led by broker 3 (rack west)``."""
        return f"{self._much} of it led by {self._who}"

    def evidence(self) -> str:
        """Return ``broker 3 (rack west): all of the group's lag``."""
        return f"{self._who}: {self._much} of the group's lag"

    @property
    def _who(self) -> str:
        return f"broker {self.broker}" + (f" (rack {self.rack})" if self.rack else "")

    @property
    def _much(self) -> str:
        return "all" if self.part == 1 else percent(self.part)


def brokers(
    lag: Arrow, offsets: Arrow, leaders: Arrow, nodes: Arrow, partitions: int | None = None
) -> pa.Table:
    """Return the brokers around each row of ``lag``, as `sharelag.schemas.BROKERS`.

    ``offsets`` have the epochs of the leaders; ``leaders`` are those of the same topics and of the
    coordinators' topics; ``partitions``, of the state topic, are needed where its leaders are not
    known. What is not known is null.
    """
    table, leaders = as_table(lag), as_table(leaders)
    place = keys(table, PARTITION)
    led, ends = beside(place, leaders, PARTITION), beside(place, offsets, PARTITION)
    key = keys(table, SHARE_PARTITION)
    places = state_partitions(key, partition_counts(key, _size(leaders, STATE_TOPIC) or partitions))
    replicas = flat(led.column("replicas"))
    lengths = pc.list_value_length(replicas).fill_null(0).to_numpy()
    racks = lists_of(lengths, _racks(replicas.flatten(), nodes))
    leader = flat(led.column("leader_id"))
    columns = {name: table.column(name) for name in table.column_names} | {
        "leader_id": leader,
        "leader_rack": _racks(leader, nodes),
        "current_leader_epoch": pc.if_else(leader.is_valid(), ends.column("leader_epoch"), None),
        "replicas": replicas,
        "in_sync_replicas": led.column("in_sync_replicas"),
        "racks": pc.if_else(replicas.is_valid(), racks, pa.scalar(None, racks.type)),
        "state_partition": places,
        "share_coordinator": _leader_of(STATE_TOPIC, places, leaders),
        "group_coordinator": _group_coordinators(flat(table.column("group_id")), leaders),
        "as_of": led.column("as_of"),
    }
    return table_of(columns, schemas.BROKERS)


def leads(brokers: Arrow) -> dict[str, Lead]:
    """Return the broker that leads (nearly) all of each group's lag, if there is one.

    Groups whose partitions all have the same leader, or with lag in a partition without a known
    leader, are left out.
    """
    table = as_table(brokers)
    leaders = table.group_by("group_id").aggregate([("leader_id", "count_distinct")])
    several = leaders.filter(pc.greater(leaders.column("leader_id_count_distinct"), 1))
    behind = pc.and_kleene(
        pc.greater(table.column("lag"), 0),
        pc.is_in(table.column("group_id"), flat(several.column("group_id"))),
    )
    each = table.filter(behind).group_by(["group_id", "leader_id"])
    each = each.aggregate([("lag", "sum"), ("leader_rack", "max")])
    found = {}
    for group, rows in rows_by_group(each).items():
        most, total = max(rows, key=lambda row: row["lag_sum"]), sum(row["lag_sum"] for row in rows)
        is_known = all(row["leader_id"] is not None for row in rows)
        if is_known and most["lag_sum"] >= _NEARLY_ALL * total:
            found[group] = Lead(most["leader_id"], most["leader_rack_max"], most["lag_sum"] / total)
    return found


def _group_coordinators(groups: pa.Array, leaders: Arrow) -> pa.Array:
    table = as_table(leaders)
    counts = partition_counts(groups, _size(table, GROUP_TOPIC))
    return _leader_of(GROUP_TOPIC, state_partitions(groups, counts), table)


def coordinators(groups: pa.Array, leaders: Arrow, nodes: Arrow) -> pa.Array:
    """Return the coordinator of each group as ``kafka-share-groups.sh`` prints it.

    That is ``host:port (id)``; null where it is not known, or not in the cluster.
    """
    ids, table = _group_coordinators(groups, leaders), as_table(nodes)
    node = table.take(pc.index_in(ids, flat(table.column("broker_id")), skip_nulls=True))
    host, port, number = (
        flat(node.column(name)).cast(pa.string()) for name in ("host", "port", "broker_id")
    )
    return pc.binary_join_element_wise(host, ":", port, " (", number, ")", "")


def _racks(ids: pa.Array, nodes: Arrow) -> pa.Array:
    """Return the rack of each broker; null without a rack or outside of the cluster."""
    table = as_table(nodes)
    return flat(table.column("rack")).take(pc.index_in(ids, flat(table.column("broker_id"))))


def replica_racks(brokers: Arrow) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the known racks of each topic partition (topic id, number), each rack once."""
    rows = as_table(brokers).select(["topic_id", "partition", "racks"]).to_pylist()
    return {
        (row["topic_id"], row["partition"]): tuple(
            dict.fromkeys(rack for rack in row["racks"] or () if rack is not None)
        )
        for row in rows
    }


def _leader_of(topic: str, partitions: pa.Array, leaders: pa.Table) -> pa.Array:
    own = leaders.filter(pc.equal(leaders.column("topic"), topic))
    at = pc.index_in(partitions, flat(own.column("partition")), skip_nulls=True)
    return flat(own.column("leader_id")).take(at)


def _size(leaders: pa.Table, topic: str) -> int | None:
    """Return the number of partitions of a topic, by its leaders; None without any."""
    return pc.sum(pc.equal(leaders.column("topic"), topic)).as_py() or None
