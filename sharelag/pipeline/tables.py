"""The tables that `sharelag.pipeline.frames.Frames` has: their schemas, and what one row is."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from sharelag import schemas
from sharelag.metrics.lag import BRIEF


class Table(NamedTuple):
    """One table."""

    schema: pa.Schema
    row: str  # what one row is


TABLES = {
    "raw": Table(
        schemas.RAW, "a Kafka record of the state topic or the groups' topic, of any group and time"
    ),
    "records": Table(schemas.RECORDS, "a decoded record of __share_group_state"),
    "rejects": Table(
        schemas.REJECTS,
        "a record that could not be decoded, with the reason, of any group and time",
    ),
    "windows": Table(schemas.WINDOWS, "a share partition with its state"),
    "history": Table(schemas.HISTORY, "a share partition after one record, and what that changed"),
    "observed": Table(
        schemas.OBSERVED, "a share partition, summed up over the span before the moment"
    ),
    "snapshots": Table(
        schemas.SNAPSHOTS, "a share partition with its last snapshot, and how many updates followed"
    ),
    "group_records": Table(
        schemas.GROUP_RECORDS, "a decoded share-group record of __consumer_offsets, of any time"
    ),
    "members": Table(schemas.MEMBERS, "a member of a share group"),
    "groups": Table(schemas.GROUPS, "a share group"),
    "offsets": Table(schemas.OFFSETS, "a topic partition with its log start and end offset"),
    "past_offsets": Table(schemas.OFFSETS, "a topic partition at one moment of the span"),
    "logs": Table(schemas.LOGS, "a topic partition with its last stable offset and retention"),
    "leaders": Table(
        schemas.LEADERS, "a topic partition with its leader and replicas, the coordinators' as well"
    ),
    "nodes": Table(schemas.NODES, "a broker of the cluster, with its rack"),
    "brokers": Table(
        schemas.BROKERS, "a share partition with its leader, replicas and coordinators"
    ),
    "times": Table(schemas.TIMES, "an offset that was looked up, with the time of its record"),
    "settings": Table(schemas.SETTINGS, "a setting in force of a group, a topic or the brokers"),
    "gaps": Table(
        schemas.GAPS, "a range of the state topic's offsets that is missing, of any time"
    ),
    "health": Table(schemas.HEALTH, "a partition of the state topic, as of its last record"),
    "lag": Table(schemas.LAG, "a share partition with every term of its lag"),
    "brief_lag": Table(
        BRIEF, "a share partition with its lag alone, which costs less: no window is replayed"
    ),
    "progress": Table(schemas.PROGRESS, "a share partition with age, rates and forecast"),
    "imbalance": Table(
        schemas.IMBALANCE, "a measure and how it is spread over a group or a topic of it"
    ),
}
