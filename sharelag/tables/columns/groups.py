"""Columns of groups and their members, and of what a cluster knows of its topics."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "member_id": Column(Format.TEXT, "member of the group", "MEMBER"),
    "client_id": Column(Format.TEXT, "client.id of the member", "CLIENT"),
    "client_host": Column(Format.TEXT, "address of the member, as the coordinator saw it", "HOST"),
    "rack_id": Column(Format.TEXT, "client.rack of the member", "RACK"),
    "member_epoch": Column(Format.ORDINAL, "of the member's assignment", "EPOCH"),
    "previous_member_epoch": Column(Format.ORDINAL, "previous epoch of the member"),
    "assigned": Column(Format.COUNT, "topic partitions assigned to the member"),
    "assigned_partitions": Column(Format.LIST, "partitions that the member was assigned"),
    "target_partitions": Column(Format.LIST, "partitions that the assignor chose for it"),
    "topic_partitions": Column(Format.LIST, "target assignment of the member"),
    "subscribed_topic_names": Column(Format.LIST, "topics that the member subscribes to"),
    "joined": Column(Format.TIME, "first record of the member that was seen; it may be older"),
    "changed": Column(Format.TIME, "last record of the member"),
    "assignment": Column(
        Format.TEXT, "topics and partitions that the member was assigned, as topic:0,1;other:2"
    ),
    "type": Column(Format.TEXT, "type of the group: Share, Consumer, Classic or Streams"),
    "state": Column(
        Format.TEXT,
        "Stable with members, Empty without; Dead: deleted, with state left in the state topic; "
        "Unknown: a name that Kafka 4.3 does not use for share groups",
    ),
    "coordinator": Column(Format.TEXT, "broker that coordinates the group, and its id"),
    "topics": Column(Format.COUNT, "topics with share partitions that have state", "#TOPICS"),
    "epoch": Column(Format.ORDINAL, "epoch of the group"),
    "group_epoch": Column(Format.ORDINAL, "grows when members or subscriptions change"),
    "metadata_hash": Column(Format.TEXT, "of the topics that the group reads"),
    "assignment_epoch": Column(Format.ORDINAL, "group epoch that the target assignment belongs to"),
    "assignment_timestamp": Column(
        Format.TIME, "when the target assignment was computed, since Kafka 4.3"
    ),
    "members": Column(Format.COUNT, "members of the group", "#MEMBERS"),
    "initialized_topics": Column(
        Format.LIST, "topics and partitions whose state is there: they can be assigned"
    ),
    "initializing_topics": Column(
        Format.LIST, "topics and partitions whose state is being created"
    ),
    "deleting_topics": Column(Format.LIST, "topics whose state is being deleted"),
    "emptied": Column(
        Format.TIME,
        "when the last member left; null while there are members, or when not seen",
    ),
    "departures": Column(
        Format.LIST,
        "members that left, and when (epoch milliseconds), as far as the topic still says so",
    ),
    "last_stable_offset": Column(
        Format.OFFSET,
        "end for groups that read committed records; below the end: open transactions",
    ),
    "cleanup_policy": Column(Format.TEXT, "delete, compact, or both"),
    "retention_ms": Column(Format.DURATION, "retention of the topic; -1: no limit"),
    "retention_bytes": Column(
        Format.BYTES, "retention of each partition of the topic; -1: no limit"
    ),
    "asked_offset": Column(Format.OFFSET, "offset that was looked up"),
    "scope": Column(Format.TEXT, "group, topic or broker"),
    "entity": Column(Format.TEXT, "name of the group or topic; null for the brokers"),
    "name": Column(Format.TEXT, "name of the setting, as in kafka-configs.sh"),
    "value": Column(Format.TEXT, "value of the setting"),
    "source": Column(
        Format.TEXT,
        "where it comes from: group, topic, broker or default; assumed: not known; given: --set; "
        "missing: there is no such topic; feature: a level of the cluster",
    ),
    "value_before": Column(Format.TEXT, "value of the setting at the earlier moment"),
    "source_before": Column(Format.TEXT, "where it came from then"),
    "default": Column(Format.TEXT, "Kafka's default of the setting"),
    "range": Column(Format.TEXT, "what Kafka accepts, within the bounds that brokers set"),
    "problem": Column(Format.TEXT, "what Kafka refuses or ignores, or what will not work"),
    "hint": Column(Format.TEXT, "what to do instead"),
}
