"""Calls of coordinators: the state of share partitions, and offsets of groups."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import requests as schemas
from sharelag.wire.requests.log import Columns, Log
from sharelag.wire.requests.nested import Nested, keys_of, placed
from sharelag.wire.requests.values import positive, renamed

#: How calls of share coordinators are named in `sharelag.schemas.requests.STATE_CALLS`.
STATE_CALLS = {
    "InitializeShareGroupState": "initialize",
    "ReadShareGroupState": "read",
    "WriteShareGroupState": "write",
    "DeleteShareGroupState": "delete",
    "ReadShareGroupStateSummary": "summary",
}
#: Those of which the answer has the state, not the request.
_ANSWERED = ("read", "summary")
_BATCHES = schemas.STATE_CALLS.field("state_batches").type


def state_calls(log: Log, call: str) -> pa.RecordBatch:
    """What leaders asked of share coordinators, a row a share partition."""
    asked, answered = placed(log.request), placed(log.response, "results")
    where = pc.index_in(keys_of(asked, "partition"), keys_of(answered, "partition"))
    results = Nested(asked.partitions.row, answered.partitions.items.take(where))
    state = results if call in _ANSWERED else asked.partitions
    there = {field.name for field in state.items.type}
    row = asked.partitions.row
    columns: Columns = {
        "call": call,
        "group_id": log.asked("groupId", row),
        "topic_id": asked.topic,
        "partition": asked.partitions.of("partition"),
        "error_code": results.of("errorCode"),
    }
    if "stateEpoch" in there:
        columns["state_epoch"] = state.of("stateEpoch")
    leader = state if "leaderEpoch" in there else asked.partitions
    if any(field.name == "leaderEpoch" for field in leader.items.type):
        columns["leader_epoch"] = leader.of("leaderEpoch")
    if "startOffset" in there:
        columns["start_offset"] = positive(state.of("startOffset"), least=0)
    if "deliveryCompleteCount" in there:
        columns["delivery_complete_count"] = positive(state.of("deliveryCompleteCount"), least=0)
    if "stateBatches" in there:
        columns["state_batches"] = renamed(state.of("stateBatches"), _BATCHES)
    return log.made(schemas.STATE_CALLS, row, columns, log.answered)


# ---- offsets of groups ---------------------------------------------------------------------------


def _described(log: Log) -> tuple[pa.Array, Columns]:
    _, groups = log.response.into("groups")
    of_group, topics = groups.into("topics")
    of_topic, partitions = topics.into("partitions")
    return partitions.row, {
        "group_id": groups.of("groupId").take(of_group).take(of_topic),
        "topic": topics.of("topicName").take(of_topic),
        "topic_id": topics.of("topicId").take(of_topic),
        "partition": partitions.of("partitionIndex"),
        "start_offset": positive(partitions.of("startOffset"), least=0),
        "leader_epoch": partitions.of("leaderEpoch"),
        "lag": positive(partitions.of("lag"), least=0),
        "error_code": partitions.of("errorCode"),
        "error_message": partitions.of("errorMessage"),
    }


def _altered(log: Log) -> tuple[pa.Array, Columns]:
    asked = placed(log.request, topic="topicName")
    answered = placed(log.response, "responses", "topicName")
    where = pc.index_in(keys_of(asked, "partitionIndex"), keys_of(answered, "partitionIndex"))
    row = asked.partitions.row
    whole = log.response.of("errorCode").take(row)
    return row, {
        "group_id": log.asked("groupId", row),
        "topic": asked.topic,
        "partition": asked.partitions.of("partitionIndex"),
        "start_offset": positive(asked.partitions.of("startOffset"), least=0),
        "error_code": pc.coalesce(answered.partitions.of("errorCode").take(where), whole),
        "error_message": answered.partitions.of("errorMessage").take(where),
    }


def _forgotten(log: Log) -> tuple[pa.Array, Columns]:
    _, topics = log.response.into("responses")
    return topics.row, {
        "group_id": log.asked("groupId", topics.row),
        "topic": topics.of("topicName"),
        "topic_id": topics.of("topicId"),
        "error_code": topics.of("errorCode"),
        "error_message": topics.of("errorMessage"),
    }


def _deleted(log: Log) -> tuple[pa.Array, Columns]:
    _, groups = log.response.into("results")
    return groups.row, {
        "group_id": groups.of("groupId"),
        "error_code": groups.of("errorCode"),
    }


OFFSET_CALLS = {
    "DescribeShareGroupOffsets": ("describe offsets", _described),
    "AlterShareGroupOffsets": ("alter offsets", _altered),
    "DeleteShareGroupOffsets": ("delete offsets", _forgotten),
    "DeleteGroups": ("delete group", _deleted),
}
