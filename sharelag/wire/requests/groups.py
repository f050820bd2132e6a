"""Heartbeats of members, and groups as their coordinators describe and list them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import requests as schemas
from sharelag.wire.requests.log import Log
from sharelag.wire.requests.values import capital, positive, renamed

#: ``AuthorizedOperations`` where the client did not ask for them.
_NOT_ASKED = -(2**31)


def heartbeats(log: Log) -> pa.RecordBatch:
    """Heartbeats, with the epochs asked and answered."""
    assignment = log.response.of("assignment")
    partitions = pc.struct_field(assignment, "topicPartitions")
    columns = {
        "group_id": log.asked("groupId"),
        "member_id": log.asked("memberId"),
        "member_epoch": log.asked("memberEpoch"),
        "rack_id": log.asked("rackId"),
        "subscribed_topic_names": log.asked("subscribedTopicNames"),
        "error_code": log.response.of("errorCode"),
        "answered_epoch": log.response.of("memberEpoch"),
        "heartbeat_interval_ms": log.response.of("heartbeatIntervalMs"),
        "assigned_partitions": renamed(
            partitions, schemas.HEARTBEATS.field("assigned_partitions").type
        ),
    }
    return log.made(schemas.HEARTBEATS, log.request.row, columns)


def descriptions(log: Log) -> pa.RecordBatch:
    """Groups as their coordinator described them."""
    _, groups = log.response.into("groups")
    columns = {
        "group_id": groups.of("groupId"),
        "group_state": groups.of("groupState"),
        "group_epoch": groups.of("groupEpoch"),
        "assignment_epoch": groups.of("assignmentEpoch"),
        "assignor_name": groups.of("assignorName"),
        "members": pc.list_value_length(groups.of("members")),
        "authorized_operations": positive(groups.of("authorizedOperations"), _NOT_ASKED + 1),
        "error_code": groups.of("errorCode"),
    }
    return log.made(schemas.DESCRIPTIONS, groups.row, columns)


def listings(log: Log) -> pa.RecordBatch:
    """Groups of coordinators, and a row without one for each that answered with an error."""
    _, groups = log.response.into("groups")
    errors = log.response.of("errorCode")
    failed = pa.array(np.flatnonzero(pc.not_equal(errors, 0).to_numpy(zero_copy_only=False)))

    def beside(values: pa.Array) -> pa.Array:
        return pa.concat_arrays([values, pa.nulls(len(failed), values.type)])

    row = pa.concat_arrays([groups.row, failed.cast(groups.row.type)])
    columns = {
        "group_id": beside(groups.of("groupId")),
        "type": beside(capital(groups.of("groupType"))),
        "group_state": beside(groups.of("groupState")),
        "error_code": errors.take(row),
    }
    return log.made(schemas.LISTINGS, row, columns)


def described_members(log: Log) -> pa.RecordBatch:
    """Members of described groups."""
    _, groups = log.response.into("groups")
    parent, members = groups.into("members")
    kind = schemas.DESCRIBED_MEMBERS.field("assigned_partitions").type
    partitions = pc.struct_field(members.of("assignment"), "topicPartitions")
    columns = {
        "group_id": groups.of("groupId").take(parent),
        "member_id": members.of("memberId"),
        "client_id": members.of("clientId"),
        "client_host": members.of("clientHost"),
        "rack_id": members.of("rackId"),
        "member_epoch": members.of("memberEpoch"),
        "subscribed_topic_names": members.of("subscribedTopicNames"),
        "assigned_partitions": renamed(partitions, kind),
    }
    return log.made(schemas.DESCRIBED_MEMBERS, members.row, columns)
