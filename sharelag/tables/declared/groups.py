"""Groups and members, brokers with their figures, settings and rights."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.declared.records import PARTITION, TOPIC, TOPIC_PARTITIONS
from sharelag.tables.table import Column, Own, Table, declare, view
from sharelag.tables.table import Format as F

declare(Column("broker", F.TEXT, "address of the broker that answered"))

MEMBERS = Table(
    "members", "a member of a share group",
    "group_id member_id client_id client_host rack_id subscribed_topic_names member_epoch",
    "previous_member_epoch assigned_partitions",
    Column("target_partitions", F.LIST, "partitions that the assignor chose for it",
           type=TOPIC_PARTITIONS),
    Column("joined", F.TIME, "first record seen of the member, which may be older"),
    Column("changed", F.TIME, "last record of the member"),
)  # fmt: skip

MEMBER_ROWS = Table(
    "member_rows", "a member of a share group with the size of its assignment",
    MEMBERS,
    Column("assigned", F.COUNT, "topic partitions assigned to the member"),
    Column("assignment", F.TEXT, "topics and partitions that the member was assigned, as "
           "topic:0,1;other:2"),
    view="group_id member_id client_id client_host rack_id member_epoch assigned assignment",
)  # fmt: skip

GROUPS = Table(
    "groups", "a share group",
    "group_id",
    Own("state", "Stable, or Empty without members"),
    Column("group_epoch", F.ORDINAL, "grows when members or subscriptions change"),
    "assignment_epoch assignment_timestamp",
    Column("members", F.COUNT, "members of the group", "#MEMBERS", type=pa.int32()),
    "initialized_topics initializing_topics deleting_topics",
    Column("emptied", F.TIME, "when the last member left; null while there are members, or when "
           "not seen"),
    # in that order; Spark would keep microseconds here
    Column("departures", F.LIST, "members that left, and when (epoch milliseconds), as far as "
           "the topic still says so",
           type=pa.list_(pa.struct([("member_id", pa.string()), ("left_ms", pa.int64())]))),
    Own("changed", "last record of the group"),
)  # fmt: skip

GROUP_STATES = Table(
    "group_states",
    "a share group as Kafka's commands describe it; null where no source says",
    "group_id",
    Column("type", F.TEXT, "type of the group: Share, Consumer, Classic or Streams"),
    "state",  # of `sharelag.model`
    "group_epoch assignment_epoch",
    Column("coordinator", F.TEXT, "broker that coordinates the group, and its id"),
    "members",
    Column("topics", F.COUNT, "topics with share partitions that have state", "#TOPICS"),
    "partitions",
    Own("lag", "sum of the lags that are known"),
    "unknown_lags emptied changed",
    Own("as_of", "when the end offsets were read"),
    view="group_id type state group_epoch assignment_epoch coordinator members topics "
         "partitions lag",
)  # fmt: skip

NODES = Table(
    "nodes", "a broker of the cluster, with its rack",
    Column("broker_id", F.ORDINAL, "node.id of the broker", "BROKER"),
    Column("host", F.TEXT, "address of the broker for clients"),
    Column("port", F.ORDINAL, "port of the broker for clients"),
    Column("rack", F.TEXT, "broker.rack of the broker; null: not set"),
    Own("as_of", "when it was read"),
)  # fmt: skip

LEADERS = Table(
    "leaders", "a topic partition with its leader and replicas, the coordinators' as well",
    TOPIC, "topic_id", PARTITION,
    Column("leader_id", F.ORDINAL, "broker that leads the partition; null: none, or not known",
           "LEADER"),
    Column("replicas", F.LIST, "brokers that hold the partition, the preferred leader first",
           type=pa.list_(pa.int32())),
    Column("in_sync_replicas", F.LIST, "replicas that are in sync with the leader", "ISR",
           type=pa.list_(pa.int32())),
    Own("as_of", "when it was read"),
)  # fmt: skip

#: Null if the input does not know a value.
BROKERS = Table(
    "brokers", "a share partition with its leader, replicas and coordinators",
    "group_id topic topic_id partition lag leader_id",
    Column("leader_rack", F.TEXT, "broker.rack of that broker"),
    Column("current_leader_epoch", F.ORDINAL, "epoch of the partition's current leader; above "
           "LEADER-EPOCH: it has not written the state yet"),
    "leader_epoch replicas in_sync_replicas",
    Column("racks", F.LIST, "racks of the replicas, in their order; null: not set"),
    Column("state_partition", F.ORDINAL, "partition of __share_group_state that keeps the share "
           "partition"),
    Column("share_coordinator", F.ORDINAL, "broker that leads the state partition, and so keeps "
           "the state"),
    Column("group_coordinator", F.ORDINAL, "broker that keeps the members of the group and "
           "assigns partitions"),
    Own("as_of", "when the leaders were read; null where they are not known"),
    view="group_id topic partition lag leader_id leader_rack current_leader_epoch leader_epoch "
         "replicas state_partition share_coordinator group_coordinator",
)  # fmt: skip

#: A metric that is unknown to Kafka keeps its name, without an MBean.
BROKER_METRICS = Table(
    "broker_metrics", "a figure at one moment",
    Own("as_of", "when it was read from its source"),
    Column("read_from", F.TEXT, "file or address that a figure was read from", "FROM"),
    Own("broker", "as the user, a label or the source itself names it"),
    Column("mbean", F.TEXT, "domain and type of Kafka's MBean; null: not a known one"),
    Column("metric", F.TEXT, "name of the metric, as Kafka calls it"),
    Column("attribute", F.TEXT, "attribute of the MBean: Value, Count, OneMinuteRate ..."),
    "group_id topic partition",
    Column("ack_type", F.TEXT, "accept, release, reject or renew; null where the metric has none"),
    Column("client_instance_id", F.TEXT, "id of the client that measured it, by KIP-714"),
    Column("tags", F.LIST, "the other labels, as name=value"),
    Column("figure", F.RATIO, "the number; null where it is NaN"),
    Column("legacy", F.FLAG, "whether it follows KIP-932 before it was adopted: a metric with "
           "another name, a request with a session instead of a member"),
    view="as_of broker group_id topic partition metric ack_type tags attribute figure",
)  # fmt: skip

MEASURED = Table(
    "measured", "a share partition with what brokers' metrics say about it, beside its lag",
    "group_id topic_id partition",
    Column("in_flight_offsets", F.OFFSETS, "length of the window in the leader's memory, including "
           "finished offsets; null if no broker's metrics of the moment have it, or if they may be "
           "from an earlier load"),
    Column("in_flight_batches", F.COUNT, "batches in the leader's memory"),
    Column("acquired_low", F.OFFSETS, "at least this many offsets without a persisted state are "
           "acquired"),
    Column("acquired_high", F.OFFSETS, "at most this many offsets without a persisted state are "
           "acquired"),
    Column("never_delivered_low", F.OFFSETS, "at least this many offsets are beyond the window in "
           "the leader's memory"),
    Column("never_delivered_high", F.OFFSETS, "at most this many offsets are beyond the window in "
           "the leader's memory"),
    Column("lock_timeouts", F.COUNT, "acquisition locks that expired since the leader loaded the "
           "share partition"),
    Column("lock_timeout_rate", F.RATE, "acquisition locks that expired per second, between two "
           "readings of the same broker", "TIMEOUTS/S"),
)  # fmt: skip

SETTINGS = Table(
    "settings", "a setting in force of a group, a topic or the brokers",
    Column("scope", F.TEXT, "group, topic or broker"),
    Column("entity", F.TEXT, "name of the group or topic; null for the brokers"),
    Column("name", F.TEXT, "name of the setting, as in kafka-configs.sh"),
    Own("value", "in force; null where not known, or secret"),
    Column("source", F.TEXT, "where it comes from: group, topic, broker or default; assumed: not "
           "known; given: --set; missing: there is no such topic; feature: a level of the "
           "cluster"),
)  # fmt: skip

IN_FORCE = Table(
    "in_force", "a setting of a group, or of the brokers, where group_id is null",
    Own("group_id", "share group; null for the brokers", in_view=True),
    "name value source",
    Column("default", F.TEXT, "Kafka's default of the setting"),
    Column("range", F.TEXT, "what Kafka accepts, within the bounds that brokers set"),
    Column("problem", F.TEXT, "what Kafka refuses or ignores, or what will not work"),
    Column("hint", F.TEXT, "what to do instead"),
    view="group_id name value source default range problem hint",
)  # fmt: skip

LINT = Table(
    "lint", "a property of a consumer that share consumers refuse or ignore",
    "name value problem hint",
    view=view("name value problem hint", {"name": "of the consumer's property"}),
)  # fmt: skip

SETTINGS_DRIFT = Table(
    "settings_drift", "a setting of a group or of the brokers that has changed",
    Own("group_id", "share group; null for the brokers", in_view=True),
    "name",
    Column("value_before", F.TEXT, "value of the setting at the earlier moment"),
    "value",
    Column("source_before", F.TEXT, "where it came from then"),
    "source",
    view="group_id name value_before value source_before source",
)  # fmt: skip

ASKED_RIGHTS = Table(
    "asked_rights", "a right, and whether a broker allows it",
    Column("operation", F.TEXT, "operation, as Kafka's authorizer calls it"),
    Column("resource_type", F.TEXT, "TOPIC, GROUP or CLUSTER", "TYPE"),
    Column("resource", F.TEXT, "name of the topic or group; null: every one"),
    Column("allowed", F.FLAG, "whether the broker allows it; null: it does not say"),
)  # fmt: skip

ACLS = Table(
    "acls", "an ACL of the cluster's authorizer, as kafka-acls.sh --list shows it",
    Column("principal", F.TEXT, "who the ACL is about, such as User:alice; User:* is everyone"),
    Column("acl_host", F.TEXT, "address that the ACL is for; * is any", "HOST"),
    "operation",
    Column("permission", F.TEXT, "ALLOW, or DENY, which takes precedence"),
    "resource_type",
    Column("pattern_type", F.TEXT, "LITERAL, or PREFIXED: the resource is a prefix of names"),
    "resource",
)  # fmt: skip

RIGHTS = Table(
    "rights", "a right on one resource, with what needs it",
    "operation resource_type resource",
    Column("granted", F.TEXT, "yes, no, or unknown if the cluster does not say"),
    Column("needed_by", F.LIST, "commands that fail without it"),
    Column("used_by", F.LIST, "commands that leave something unknown without it"),
    Column("purpose", F.TEXT, "what it is for"),
    Column("grant", F.TEXT, "the command that grants it; null: it is granted, or no client ever "
           "gets it"),
    view="granted operation resource_type resource purpose grant",
)  # fmt: skip
