"""Columns of brokers: leaders, replicas, racks and coordinators."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "leader_id": Column(
        Format.ORDINAL,
        "broker that leads the partition; null: none, or not known",
        "LEADER",
    ),
    "leader_rack": Column(Format.TEXT, "broker.rack of that broker", "LEADER-RACK"),
    "current_leader_epoch": Column(
        Format.ORDINAL,
        "of the partition's leader now; above LEADER-EPOCH: it has not written the state yet",
    ),
    "replicas": Column(Format.LIST, "brokers that hold the partition, the preferred leader first"),
    "in_sync_replicas": Column(Format.LIST, "replicas that are in sync with the leader", "ISR"),
    "racks": Column(Format.LIST, "racks of the replicas, in their order; null: not set"),
    "state_partition": Column(
        Format.ORDINAL, "partition of __share_group_state that keeps the share partition"
    ),
    "share_coordinator": Column(
        Format.ORDINAL, "broker that leads the state partition, and so keeps the state"
    ),
    "group_coordinator": Column(
        Format.ORDINAL, "broker that keeps the members of the group and assigns partitions"
    ),
    "broker_id": Column(Format.ORDINAL, "node.id of the broker", "BROKER"),
    "host": Column(Format.TEXT, "address of the broker for clients"),
    "port": Column(Format.ORDINAL, "port of the broker for clients"),
    "rack": Column(Format.TEXT, "broker.rack of the broker; null: not set"),
}
