"""Requests as tables: acquisitions, acknowledgements, heartbeats, and calls of the coordinators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.schemas import requests as schemas
from sharelag.wire.requests import drafts
from sharelag.wire.requests.lines import Completed, Lines
from sharelag.wire.requests.nested import Nested, Placed, all_of, keys_of, placed, spread

_FETCH, _ACKNOWLEDGE = "ShareFetch", "ShareAcknowledge"
#: How calls of share coordinators are named in `sharelag.schemas.requests.STATE_CALLS`.
_STATE_CALLS = {
    "InitializeShareGroupState": "initialize",
    "ReadShareGroupState": "read",
    "WriteShareGroupState": "write",
    "DeleteShareGroupState": "delete",
    "ReadShareGroupStateSummary": "summary",
}
#: Those of which the answer has the state, not the request.
_ANSWERED = ("read", "summary")
_BATCHES = schemas.STATE_CALLS.field("state_batches").type

#: Errors with which an answer names the leader: NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
#: (``KafkaApis.processShareFetchResponse``). In other answers the field means nothing.
_LEADER_ERRORS = (6, 74)

#: ``AuthorizedOperations`` where the client did not ask for them.
_NOT_ASKED = -(2**31)
#: A connection is the broker's address, the client's, and two numbers.
_BROKER = r"^(?P<broker>.*?:\d+)-"

_Columns = dict[str, Any]


def tables_of(lines: Lines) -> dict[str, pa.RecordBatch]:
    """Return what lines tell as tables.

    Returns
    -------
    dict
        `sharelag.schemas.requests.REQUEST_TABLES` by name, each in the order of its lines.
    """
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in schemas.REQUEST_TABLES}
    found["rejects"].append(lines.rejects)
    for one in lines.requests:
        for name, batch in _of_kind(one):
            found[name].append(batch)
    return {name: _ordered(found[name], schema) for name, schema in schemas.REQUEST_TABLES.items()}


def _ordered(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, schema).sort_by("position").combine_chunks()
    parts = table.to_batches()
    return parts[0] if parts else pa.RecordBatch.from_pylist([], schema)


def _of_kind(one: Completed) -> Iterable[tuple[str, pa.RecordBatch]]:
    log = _Log(one)
    yield "requests", log.requests()
    name = one.api.name
    if one.api is drafts.ACKNOWLEDGE:
        yield "acknowledgements", log.drafted_acknowledgements()
    elif name in (_FETCH, _ACKNOWLEDGE):
        yield "acknowledgements", log.acknowledgements()
        yield "current_leaders", log.current_leaders()
    if name == _FETCH:
        yield "acquisitions", log.acquisitions()
        yield "session_partitions", log.named_partitions()
        yield "session_partitions", log.forgotten_partitions()
    elif name == "ShareGroupHeartbeat":
        yield "heartbeats", log.heartbeats()
    elif name in _STATE_CALLS:
        yield "state_calls", log.state_calls(_STATE_CALLS[name])
    elif name == "ShareGroupDescribe":
        yield "descriptions", log.descriptions()
        yield "described_members", log.described_members()
    elif name == "ListGroups":
        yield "listings", log.listings()
    elif name in _OFFSET_CALLS:
        call, columns = _OFFSET_CALLS[name]
        row, values = columns(log)
        yield "offset_calls", log.made(schemas.OFFSET_CALLS, row, {"call": call} | values)


class _Log:
    """Requests of one kind, and the moments of what happened in them."""

    def __init__(self, one: Completed) -> None:
        self.one = one
        self.is_draft = one.api is drafts.ACKNOWLEDGE
        self.request = all_of(_column(one.rows, "request"))
        self.response = all_of(_column(one.rows, "response"))
        completed = one.completed.cast(pa.int64()).to_numpy()
        spans = {
            name: pc.fill_null(_column(one.rows, f"{name}TimeMs"), 0.0).to_numpy()
            for name in ("total", "requestQueue", "responseQueue", "send")
        }
        micros = {name: (1000 * span).astype(np.int64) for name, span in spans.items()}
        connection = _column(one.rows, "connection")
        self.broker = pc.struct_field(pc.extract_regex(connection, _BROKER), "broker")
        self.completed = completed
        self.began = completed - micros["total"]
        #: When the broker began to work on it, which is when acknowledgements count.
        self.handled = self.began + micros["requestQueue"]
        #: When the answer was there, which is when records are acquired and locks begin.
        self.answered = completed - micros["responseQueue"] - micros["send"]

    def made(
        self,
        schema: pa.Schema,
        row: pa.Array,
        columns: _Columns,
        at: NDArray[np.int64] | None = None,
    ) -> pa.RecordBatch:
        """Return rows of a table: the columns of their lines, and these; others are null."""
        moments = pa.array(self.completed if at is None else at).cast(schemas.INSTANT)
        line = {"position": self.one.position.take(row), "timestamp": moments.take(row)}
        line["broker"] = self.broker.take(row)
        line["source"] = self.one.source
        arrays = []
        for field in schema:
            value = (line | columns).get(field.name)
            if not isinstance(value, pa.Array):
                value = pa.repeat(pa.scalar(value, field.type), len(row))
            arrays.append(value.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def asked(self, name: str, row: pa.Array | None = None) -> pa.Array:
        """Return a field of requests, by row."""
        values = self.request.of(name)
        return values if row is None else values.take(row)

    # ---- tables ----------------------------------------------------------------------------------

    def requests(self) -> pa.RecordBatch:
        header = _column(self.one.rows, "requestHeader")
        names = {
            "group_id": "groupId",
            "member_id": "memberId",
            "session_epoch": "sessionEpoch" if self.is_draft else "shareSessionEpoch",
            "session_id": "sessionId",
        }
        there = {part.json_name for part in self.one.api.request}
        answered = {part.json_name for part in self.one.api.response}
        columns: _Columns = {
            "api": self.one.api.name,
            "api_version": pc.struct_field(header, "requestApiVersion"),
            "client_id": pc.struct_field(header, "clientId"),
            "connection": _column(self.one.rows, "connection"),
            "began": pa.array(self.began).cast(schemas.INSTANT),
            "legacy": self.is_draft,
        }
        columns |= {name: self.asked(asked) for name, asked in names.items() if asked in there}
        if "errorCode" in answered:
            columns["error_code"] = self.response.of("errorCode")
        return self.made(schemas.REQUESTS, self.request.row, columns)

    def acquisitions(self) -> pa.RecordBatch:
        at = placed(self.response, "responses")
        parent, runs = at.partitions.into("acquiredRecords")
        row = runs.row
        columns = {
            "group_id": self.asked("groupId", row),
            "member_id": self.asked("memberId", row),
            "topic_id": at.topic.take(parent),
            "partition": at.partitions.of("partitionIndex").take(parent),
            "first_offset": runs.of("firstOffset"),
            "last_offset": runs.of("lastOffset"),
            "delivery_count": runs.of("deliveryCount"),
            "lock_ms": _positive(self.response.of("acquisitionLockTimeoutMs").take(row)),
        }
        return self.made(schemas.ACQUISITIONS, row, columns, self.answered)

    def named_partitions(self) -> pa.RecordBatch:
        at = placed(self.request)
        return self._of_session(
            at.partitions.row, at.topic, at.partitions.of("partitionIndex"), False
        )

    def forgotten_partitions(self) -> pa.RecordBatch:
        _, topics = self.request.into("forgottenTopicsData")
        parent, partitions = topics.into("partitions")
        topic = topics.of("topicId").take(parent)
        return self._of_session(partitions.row, topic, partitions.items, True)

    def _of_session(
        self, row: pa.Array, topic: pa.Array, partition: pa.Array, forgotten: bool
    ) -> pa.RecordBatch:
        columns = {
            "group_id": self.asked("groupId", row),
            "member_id": self.asked("memberId", row),
            "topic_id": topic,
            "partition": partition,
            "session_epoch": self.asked("shareSessionEpoch", row),
            "forgotten": pa.repeat(pa.scalar(forgotten), len(row)),
        }
        return self.made(schemas.SESSION_PARTITIONS, row, columns, self.handled)

    def acknowledgements(self) -> pa.RecordBatch:
        at = placed(self.request)
        parent, batches = at.partitions.into("acknowledgementBatches")
        first, last = batches.of("firstOffset"), batches.of("lastOffset")
        types = batches.of("acknowledgeTypes")
        one = pc.equal(pc.list_value_length(types), 1)
        # One type stands for the whole batch, several for an offset each.
        batch, runs, kinds = spread(first, types)
        index = pa.array(batch)
        last_of_run = pc.if_else(one.take(index), last.take(index), pc.struct_field(runs, "last"))
        place = parent.take(index)
        row = batches.row.take(index)
        columns = {
            "group_id": self.asked("groupId", row),
            "member_id": self.asked("memberId", row),
            "topic_id": at.topic.take(place),
            "partition": at.partitions.of("partitionIndex").take(place),
            "first_offset": pc.struct_field(runs, "first"),
            "last_offset": last_of_run,
            "acknowledge_type": kinds,
            "acknowledge_word": _word(kinds),
            "legacy": False,
            "api": self.one.api.name,
            "error_code": self._acknowledge_errors(at).take(place),
            "lock_ms": _positive(self.response.of("acquisitionLockTimeoutMs").take(row)),
        }
        return self.made(schemas.ACKNOWLEDGEMENTS, row, columns, self.handled)

    def drafted_acknowledgements(self) -> pa.RecordBatch:
        at = placed(self.request)
        parent, batches = at.partitions.into("acknowledgementBatches")
        of, first, last, is_gap = drafts.split_at_gaps(
            batches.of("startOffset"), batches.of("lastOffset"), batches.of("gapOffsets")
        )
        codes, words = drafts.numbers_and_words(batches.of("acknowledgeType"))
        place, row = parent.take(of), batches.row.take(of)
        columns = {
            "topic_id": at.topic.take(place),
            "partition": at.partitions.of("partitionIndex").take(place),
            "first_offset": first,
            "last_offset": last,
            "acknowledge_type": _only_where(pc.invert(is_gap), codes.take(of)),
            "acknowledge_word": pc.if_else(is_gap, drafts.GAP, words.take(of)),
            "legacy": True,
            "api": self.one.api.name,
            "error_code": self._acknowledge_errors(at).take(place),
        }
        return self.made(schemas.ACKNOWLEDGEMENTS, row, columns, self.handled)

    def current_leaders(self) -> pa.RecordBatch:
        at = placed(self.response, "responses")
        names = ["errorCode", *(["acknowledgeErrorCode"] if self.one.api.name == _FETCH else [])]
        codes = [at.partitions.of(name).cast(pa.int16()) for name in names]
        wrong = [pc.is_in(code, pa.array(_LEADER_ERRORS, pa.int16())) for code in codes]
        error = pc.coalesce(*map(_only_where, wrong, codes))
        leader = at.partitions.of("currentLeader")
        row = at.partitions.row
        columns = {
            "group_id": self.asked("groupId", row),
            "topic_id": at.topic,
            "partition": at.partitions.of("partitionIndex"),
            "member_id": self.asked("memberId", row),
            "leader_id": _positive(pc.struct_field(leader, "leaderId"), 0),
            "current_leader_epoch": _positive(pc.struct_field(leader, "leaderEpoch"), 0),
            "api": self.one.api.name,
            "error_code": error,
        }
        every = self.made(schemas.CURRENT_LEADERS, row, columns, self.answered)
        return every.filter(error.is_valid())

    def _acknowledge_errors(self, at: Placed) -> pa.Array:
        """Return the error of each partition's acknowledgements; 0 where the answer omits it."""
        code = "acknowledgeErrorCode" if self.one.api.name == _FETCH else "errorCode"
        answer = placed(self.response, "responses")
        where = pc.index_in(keys_of(at, "partitionIndex"), keys_of(answer, "partitionIndex"))
        found = answer.partitions.of(code).take(where)
        whole = self.response.of("errorCode").take(at.partitions.row)
        # The answer to a fetch names partitions with records or an error alone.
        return pc.if_else(pc.not_equal(whole, 0), whole, pc.coalesce(found, whole))

    def heartbeats(self) -> pa.RecordBatch:
        assignment = self.response.of("assignment")
        partitions = pc.struct_field(assignment, "topicPartitions")
        columns = {
            "group_id": self.asked("groupId"),
            "member_id": self.asked("memberId"),
            "member_epoch": self.asked("memberEpoch"),
            "rack_id": self.asked("rackId"),
            "subscribed_topic_names": self.asked("subscribedTopicNames"),
            "error_code": self.response.of("errorCode"),
            "answered_epoch": self.response.of("memberEpoch"),
            "heartbeat_interval_ms": self.response.of("heartbeatIntervalMs"),
            "assigned_partitions": _renamed(
                partitions, schemas.HEARTBEATS.field("assigned_partitions").type
            ),
        }
        return self.made(schemas.HEARTBEATS, self.request.row, columns)

    def state_calls(self, call: str) -> pa.RecordBatch:
        asked, answered = placed(self.request), placed(self.response, "results")
        where = pc.index_in(keys_of(asked, "partition"), keys_of(answered, "partition"))
        results = Nested(asked.partitions.row, answered.partitions.items.take(where))
        state = results if call in _ANSWERED else asked.partitions
        there = {field.name for field in state.items.type}
        row = asked.partitions.row
        columns: _Columns = {
            "call": call,
            "group_id": self.asked("groupId", row),
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
            columns["start_offset"] = _positive(state.of("startOffset"), least=0)
        if "deliveryCompleteCount" in there:
            columns["delivery_complete_count"] = _positive(
                state.of("deliveryCompleteCount"), least=0
            )
        if "stateBatches" in there:
            columns["state_batches"] = _renamed(state.of("stateBatches"), _BATCHES)
        return self.made(schemas.STATE_CALLS, row, columns, self.answered)

    def descriptions(self) -> pa.RecordBatch:
        _, groups = self.response.into("groups")
        columns = {
            "group_id": groups.of("groupId"),
            "group_state": groups.of("groupState"),
            "group_epoch": groups.of("groupEpoch"),
            "assignment_epoch": groups.of("assignmentEpoch"),
            "assignor_name": groups.of("assignorName"),
            "members": pc.list_value_length(groups.of("members")),
            "authorized_operations": _positive(groups.of("authorizedOperations"), _NOT_ASKED + 1),
            "error_code": groups.of("errorCode"),
        }
        return self.made(schemas.DESCRIPTIONS, groups.row, columns)

    def listings(self) -> pa.RecordBatch:
        """Groups of coordinators, and a row without one for each that answered with an error."""
        _, groups = self.response.into("groups")
        errors = self.response.of("errorCode")
        failed = pa.array(np.flatnonzero(pc.not_equal(errors, 0).to_numpy(zero_copy_only=False)))

        def beside(values: pa.Array) -> pa.Array:
            return pa.concat_arrays([values, pa.nulls(len(failed), values.type)])

        row = pa.concat_arrays([groups.row, failed.cast(groups.row.type)])
        columns = {
            "group_id": beside(groups.of("groupId")),
            "type": beside(_capital(groups.of("groupType"))),
            "group_state": beside(groups.of("groupState")),
            "error_code": errors.take(row),
        }
        return self.made(schemas.LISTINGS, row, columns)

    def described_members(self) -> pa.RecordBatch:
        _, groups = self.response.into("groups")
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
            "assigned_partitions": _renamed(partitions, kind),
        }
        return self.made(schemas.DESCRIBED_MEMBERS, members.row, columns)


# ---- offsets of groups ---------------------------------------------------------------------------


def _described(log: _Log) -> tuple[pa.Array, _Columns]:
    _, groups = log.response.into("groups")
    of_group, topics = groups.into("topics")
    of_topic, partitions = topics.into("partitions")
    return partitions.row, {
        "group_id": groups.of("groupId").take(of_group).take(of_topic),
        "topic": topics.of("topicName").take(of_topic),
        "topic_id": topics.of("topicId").take(of_topic),
        "partition": partitions.of("partitionIndex"),
        "start_offset": _positive(partitions.of("startOffset"), least=0),
        "leader_epoch": partitions.of("leaderEpoch"),
        "lag": _positive(partitions.of("lag"), least=0),
        "error_code": partitions.of("errorCode"),
        "error_message": partitions.of("errorMessage"),
    }


def _altered(log: _Log) -> tuple[pa.Array, _Columns]:
    asked = placed(log.request, topic="topicName")
    answered = placed(log.response, "responses", "topicName")
    where = pc.index_in(keys_of(asked, "partitionIndex"), keys_of(answered, "partitionIndex"))
    row = asked.partitions.row
    whole = log.response.of("errorCode").take(row)
    return row, {
        "group_id": log.asked("groupId", row),
        "topic": asked.topic,
        "partition": asked.partitions.of("partitionIndex"),
        "start_offset": _positive(asked.partitions.of("startOffset"), least=0),
        "error_code": pc.coalesce(answered.partitions.of("errorCode").take(where), whole),
        "error_message": answered.partitions.of("errorMessage").take(where),
    }


def _forgotten(log: _Log) -> tuple[pa.Array, _Columns]:
    _, topics = log.response.into("responses")
    return topics.row, {
        "group_id": log.asked("groupId", topics.row),
        "topic": topics.of("topicName"),
        "topic_id": topics.of("topicId"),
        "error_code": topics.of("errorCode"),
        "error_message": topics.of("errorMessage"),
    }


def _deleted(log: _Log) -> tuple[pa.Array, _Columns]:
    _, groups = log.response.into("results")
    return groups.row, {
        "group_id": groups.of("groupId"),
        "error_code": groups.of("errorCode"),
    }


_OFFSET_CALLS = {
    "DescribeShareGroupOffsets": ("describe offsets", _described),
    "AlterShareGroupOffsets": ("alter offsets", _altered),
    "DeleteShareGroupOffsets": ("delete offsets", _forgotten),
    "DeleteGroups": ("delete group", _deleted),
}


# ---- columns -------------------------------------------------------------------------------------


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _word(types: pa.Array) -> pa.Array:
    """Return what Kafka's numbers of acknowledgements mean; an unknown one says so."""
    known = pc.is_in(types, pa.array(range(len(schemas.ACKNOWLEDGE_WORDS)), types.type))
    word = pa.array(schemas.ACKNOWLEDGE_WORDS).take(_only_where(known, types))
    unknown = pc.binary_join_element_wise("unknown", types.cast(pa.string()), " ")
    return pc.coalesce(word, unknown)


def _capital(values: pa.Array) -> pa.Array:
    """Return types of groups as Kafka's tools print them; null where unknown."""
    return pc.if_else(pc.equal(values, ""), None, pc.utf8_capitalize(values))


def _only_where(condition: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _positive(values: pa.Array, least: int = 1) -> pa.Array:
    """Return numbers; null for those that stand for what is not known."""
    return pc.if_else(pc.greater_equal(values, least), values, pa.scalar(None, values.type))


def _renamed(lists: pa.Array, kind: pa.ListType) -> pa.Array:
    """Return lists of structs under our names for the same fields, nulls kept."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    items = pc.list_flatten(lists)
    fields = [
        pc.struct_field(items, _json_name(field.name)).cast(field.type) for field in kind.value_type
    ]
    values = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values, type=kind, mask=lists.is_null())


def _json_name(column: str) -> str:
    first, *others = column.split("_")
    return first + "".join(word.capitalize() for word in others)
