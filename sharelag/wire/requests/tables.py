"""Requests as tables: acquisitions, acknowledgements, heartbeats, and calls of coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.tables.arrow import batch_of, one_batch
from sharelag.wire.requests.lines import GAP, Completed, Lines, numbers_and_words, split_at_gaps

#: A connection id has the broker's address, the client's, and two numbers.
_BROKER = r"^(?P<broker>.*?:\d+)-"
#: Bytes of a log per microsecond added to a line's time: fewer than a line has.
_LINE = 512
_RUN = pa.struct([("first", pa.int64()), ("last", pa.int64())])

Columns: TypeAlias = dict[str, Any]


class Nested(NamedTuple):
    """Items of all requests in order."""

    row: pa.Array  # the request of each item
    items: pa.Array

    def of(self, name: str) -> pa.Array:
        """Return a field of each item."""
        return pc.struct_field(self.items, name)

    def columns(self, *columns: str) -> Columns:
        """Return fields of each item by our column names."""
        return {name: self.of(json_name(name)) for name in columns}

    def into(self, name: str) -> tuple[pa.Array, Nested]:
        """Return the elements of a list in each item, with the item of each element."""
        lists = self.of(name)
        parent = pc.list_parent_indices(lists)
        return parent, Nested(self.row.take(parent), pc.list_flatten(lists))


class Placed(NamedTuple):
    """Partitions of all requests, with their topics."""

    topic: pa.Array
    partitions: Nested
    number: str  # Kafka's name of the field with a partition's number

    def columns(self, place: pa.Array | None = None) -> Columns:
        """Return the columns of all these partitions, or of some by their indices."""
        columns = {"topic_id": self.topic, "partition": self.partitions.of(self.number)}
        return columns if place is None else {k: v.take(place) for k, v in columns.items()}


def place_partitions(bodies: Nested, topics: str = "topics", topic: str = "topicId") -> Placed:
    """Return the partitions in the topics of requests or responses."""
    _, found = bodies.into(topics)
    parent, partitions = found.into("partitions")
    has_index = partitions.items.type.get_field_index("partitionIndex") >= 0
    number = "partitionIndex" if has_index else "partition"
    return Placed(found.of(topic).take(parent), partitions, number)


def keys_of(at: Placed) -> pa.Array:
    """Return one text per partition, to look it up in the response to the same request."""
    columns = (at.partitions.row, at.topic, at.partitions.of(at.number))
    texts = [pc.coalesce(column.cast(pa.string()), "") for column in columns]
    return pc.binary_join_element_wise(*texts, ":")


def spread(first: pa.Array, types: pa.Array) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """Assign types to the offsets of batches, and join consecutive offsets with the same type.

    Return the batch of each run, its first and last offsets as a struct, and its type. ``first`` is
    null if the line lacks it; ``types`` has one type per offset.
    """
    batch = np.asarray(pc.list_parent_indices(types), np.int64)
    values = pc.list_flatten(types)
    number = np.arange(len(batch))
    at = np.asarray(pc.fill_null(first, 0))[batch] + number - np.searchsorted(batch, batch)
    unknown = np.asarray(first.is_null())[batch]
    kinds = np.asarray(values)
    is_new = np.ones(len(batch), bool)
    is_new[1:] = (batch[1:] != batch[:-1]) | (kinds[1:] != kinds[:-1])
    begins = np.flatnonzero(is_new)
    ends = np.append(begins, len(batch))[1:] - 1
    sides = [pa.array(at[side], mask=unknown[side]) for side in (begins, ends)]
    runs = pa.StructArray.from_arrays(sides, fields=list(_RUN))
    return batch[begins], runs, values.take(pa.array(begins))


class Log:
    """Requests of one kind, and the moments of their events."""

    def __init__(self, one: Completed) -> None:
        self.one = one
        row = pa.array(np.arange(len(one.position)))
        self.request = Nested(row, column(one.rows, "request"))
        self.response = Nested(row, column(one.rows, "response"))
        completed = one.completed.at.cast(pa.int64()).to_numpy()
        spans = {
            name: pc.fill_null(column(one.rows, f"{name}TimeMs"), 0.0).to_numpy()
            for name in ("total", "requestQueue", "responseQueue", "send")
        }
        micros = {name: (1000 * span).astype(np.int64) for name, span in spans.items()}
        connection = column(one.rows, "connection")
        self.broker = pc.struct_field(pc.extract_regex(connection, _BROKER), "broker")
        # In a log without fractions of seconds, only the order within a second is known.
        is_exact = np.asarray(one.completed.is_exact)
        line = np.minimum(one.position.to_numpy() // _LINE, 999_999)
        self.completed = completed = completed + np.where(is_exact, 0, line)
        self.began = completed - micros["total"]
        #: When the broker started to process it, which is when acknowledgements take effect.
        self.handled = np.where(is_exact, self.began + micros["requestQueue"], completed)
        #: When the response was ready, which is when records are acquired and locks start.
        self.answered = completed - is_exact * (micros["responseQueue"] + micros["send"])

    def rows(
        self,
        schema: pa.Schema,
        row: pa.Array,
        columns: Columns,
        at: NDArray[np.int64] | None = None,
    ) -> pa.RecordBatch:
        """Return rows of a table with the columns of their lines, and the given ones, else null."""
        moments = pa.array(self.completed if at is None else at).cast(schemas.INSTANT)
        line = {"position": self.one.position.take(row), "timestamp": moments.take(row)}
        columns = line | {"broker": self.broker.take(row), "source": self.one.source} | columns
        return batch_of(columns, schema, pad=True)

    def request_columns(self, row: pa.Array, *columns: str) -> Columns:
        """Return fields of some rows' requests by our column names."""
        return {name: found.take(row) for name, found in self.request.columns(*columns).items()}


# ---- our names and types -------------------------------------------------------------------------


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def only_where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """Return values, null where a condition does not hold."""
    return pc.if_else(condition, values, None)


def positive(values: pa.Array, least: int = 1) -> pa.Array:
    """Return numbers; null for sentinels below a minimum."""
    return only_where(pc.greater_equal(values, least), values)


def rename_fields(lists: pa.Array, kind: pa.ListType) -> pa.Array:
    """Return lists of structs with our names of the same fields; nulls stay."""
    lengths = pc.list_value_length(lists).fill_null(0)
    items = pc.list_flatten(lists)
    inner = list(kind.value_type)
    fields = [pc.struct_field(items, json_name(one.name)).cast(one.type) for one in inner]
    values = pa.StructArray.from_arrays(fields, fields=inner)
    ends = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    return pa.ListArray.from_arrays(ends, values, type=kind, mask=lists.is_null())


def json_name(column: str) -> str:
    """Return the name of a column in Kafka's JSON."""
    first, *others = column.split("_")
    return first + "".join(word.capitalize() for word in others)


_FETCH = "ShareFetch"
#: Errors with which a response names the leader: NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
#: (``KafkaApis.processShareFetchResponse``). In other responses the field has no meaning.
_LEADER_ERRORS = (6, 74)
#: ``AuthorizedOperations`` if the client did not request them.
_NOT_REQUESTED = -(2**31)


def tables_of(lines: Lines) -> dict[str, pa.RecordBatch]:
    """Return `sharelag.schemas.REQUEST_TABLES` by name, each in the order of its lines."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in schemas.REQUEST_TABLES}
    found["rejects"].append(lines.rejects)
    for one in lines.requests:
        for name, batch in _tables_of_kind(one):
            found[name].append(batch)
    return {
        name: one_batch(pa.Table.from_batches(found[name], schema).sort_by("position"))
        for name, schema in schemas.REQUEST_TABLES.items()
    }


def _tables_of_kind(one: Completed) -> Iterator[tuple[str, pa.RecordBatch]]:
    log, name = Log(one), one.api.name
    yield "requests", _requests(log)
    if one.api.is_draft:
        yield "acknowledgements", _drafted_acknowledgements(log)
    elif name in _STATE_CALLS:
        yield "state_calls", _state_calls(log, _STATE_CALLS[name])
    elif name in _OFFSET_CALLS:
        call, columns = _OFFSET_CALLS[name]
        row, values = columns(log)
        yield "offset_calls", log.rows(schemas.OFFSET_CALLS, row, {"call": call} | values)
    else:
        for table, function in _TABLES[name]:
            yield table, function(log)


def _requests(log: Log) -> pa.RecordBatch:
    header, api = column(log.one.rows, "requestHeader"), log.one.api
    names = {
        "group_id": "groupId",
        "member_id": "memberId",
        "session_epoch": "sessionEpoch" if api.is_draft else "shareSessionEpoch",
        "session_id": "sessionId",
    }
    there = {field.name for field in api.request}
    columns: Columns = {
        "api": api.name,
        "api_version": pc.struct_field(header, "requestApiVersion"),
        "client_id": pc.struct_field(header, "clientId"),
        "connection": column(log.one.rows, "connection"),
        "began": pa.array(log.began).cast(schemas.INSTANT),
        "legacy": api.is_draft,
    }
    columns |= {name: log.request.of(asked) for name, asked in names.items() if asked in there}
    if api.response.get_field_index("errorCode") >= 0:
        columns["error_code"] = log.response.of("errorCode")
    return log.rows(schemas.REQUESTS, log.request.row, columns)


# ---- fetches and acknowledgements of members -----------------------------------------------------


def _lock_ms(log: Log, row: pa.Array) -> pa.Array:
    return positive(log.response.of("acquisitionLockTimeoutMs").take(row))


def _acquisitions(log: Log) -> pa.RecordBatch:
    at = place_partitions(log.response, "responses")
    parent, runs = at.partitions.into("acquiredRecords")
    columns = {
        **log.request_columns(runs.row, "group_id", "member_id"),
        **at.columns(parent),
        **runs.columns("first_offset", "last_offset", "delivery_count"),
        "lock_ms": _lock_ms(log, runs.row),
    }
    return log.rows(schemas.ACQUISITIONS, runs.row, columns, log.answered)


def _named_partitions(log: Log) -> pa.RecordBatch:
    at = place_partitions(log.request)
    return _of_session(log, at.partitions.row, at.columns() | {"forgotten": False})


def _forgotten_partitions(log: Log) -> pa.RecordBatch:
    _, topics = log.request.into("forgottenTopicsData")
    parent, partitions = topics.into("partitions")
    at = {"topic_id": topics.of("topicId").take(parent), "partition": partitions.items}
    return _of_session(log, partitions.row, at | {"forgotten": True})


def _of_session(log: Log, row: pa.Array, columns: Columns) -> pa.RecordBatch:
    columns |= log.request_columns(row, "group_id", "member_id")
    columns["session_epoch"] = log.request.of("shareSessionEpoch").take(row)
    return log.rows(schemas.SESSION_PARTITIONS, row, columns, log.handled)


def _acknowledgements(log: Log) -> pa.RecordBatch:
    at = place_partitions(log.request)
    parent, batches = at.partitions.into("acknowledgementBatches")
    last, types = batches.of("lastOffset"), batches.of("acknowledgeTypes")
    one = pc.equal(pc.list_value_length(types), 1)
    # One type applies to the whole batch, several to one offset each.
    batch, runs, kinds = spread(batches.of("firstOffset"), types)
    index = pa.array(batch)
    last_of_run = pc.if_else(one.take(index), last.take(index), pc.struct_field(runs, "last"))
    place, row = parent.take(index), batches.row.take(index)
    known = pc.is_in(kinds, pa.array(range(len(schemas.ACKNOWLEDGE_WORDS)), kinds.type))
    word = pa.array(schemas.ACKNOWLEDGE_WORDS).take(only_where(known, kinds))
    unknown = pc.binary_join_element_wise("unknown", kinds.cast(pa.string()), " ")
    columns = {
        **log.request_columns(row, "group_id", "member_id"),
        **at.columns(place),
        "first_offset": pc.struct_field(runs, "first"),
        "last_offset": last_of_run,
        "acknowledge_type": kinds,
        "acknowledge_word": pc.coalesce(word, unknown),
        "legacy": False,
        "api": log.one.api.name,
        "error_code": _acknowledge_errors(log, at).take(place),
        "lock_ms": _lock_ms(log, row),
    }
    return log.rows(schemas.ACKNOWLEDGEMENTS, row, columns, log.handled)


def _drafted_acknowledgements(log: Log) -> pa.RecordBatch:
    """Return acknowledgements of a draft, whose requests have a session instead of a member."""
    at = place_partitions(log.request)
    parent, batches = at.partitions.into("acknowledgementBatches")
    of, first, last, is_gap = split_at_gaps(
        batches.of("startOffset"), batches.of("lastOffset"), batches.of("gapOffsets")
    )
    codes, words = numbers_and_words(batches.of("acknowledgeType"))
    place, row = parent.take(of), batches.row.take(of)
    columns = {
        **at.columns(place),
        "first_offset": first,
        "last_offset": last,
        "acknowledge_type": only_where(pc.invert(is_gap), codes.take(of)),
        "acknowledge_word": pc.if_else(is_gap, GAP, words.take(of)),
        "legacy": True,
        "api": log.one.api.name,
        "error_code": _acknowledge_errors(log, at).take(place),
    }
    return log.rows(schemas.ACKNOWLEDGEMENTS, row, columns, log.handled)


def _acknowledge_errors(log: Log, at: Placed) -> pa.Array:
    """Return the error of each partition's acknowledgements; 0 if the response omits it."""
    code = "acknowledgeErrorCode" if log.one.api.name == _FETCH else "errorCode"
    answer = place_partitions(log.response, "responses")
    where = pc.index_in(keys_of(at), keys_of(answer))
    found = answer.partitions.of(code).take(where)
    whole = log.response.of("errorCode").take(at.partitions.row)
    # The response to a fetch only names partitions with records or an error.
    return pc.if_else(pc.not_equal(whole, 0), whole, pc.coalesce(found, whole))


def _current_leaders(log: Log) -> pa.RecordBatch:
    """Return leaders that a broker named to members that sent a request to the wrong one."""
    at = place_partitions(log.response, "responses")
    api, row = log.one.api.name, at.partitions.row
    names = ["errorCode", *(["acknowledgeErrorCode"] if api == _FETCH else [])]
    codes = [at.partitions.of(name).cast(pa.int16()) for name in names]
    wrong = [pc.is_in(code, pa.array(_LEADER_ERRORS, pa.int16())) for code in codes]
    error = pc.coalesce(*map(only_where, wrong, codes))
    leader = at.partitions.of("currentLeader")
    columns = {
        **log.request_columns(row, "group_id", "member_id"),
        **at.columns(),
        "leader_id": positive(pc.struct_field(leader, "leaderId"), 0),
        "current_leader_epoch": positive(pc.struct_field(leader, "leaderEpoch"), 0),
        "api": api,
        "error_code": error,
    }
    every = log.rows(schemas.CURRENT_LEADERS, row, columns, log.answered)
    return every.filter(error.is_valid())


# ---- heartbeats, and groups as their coordinators describe and list them -------------------------


def _heartbeats(log: Log) -> pa.RecordBatch:
    kind = schemas.HEARTBEATS.field("assigned_partitions").type
    partitions = pc.struct_field(log.response.of("assignment"), "topicPartitions")
    columns = {
        **log.request.columns("group_id", "member_id", "member_epoch", "rack_id"),
        **log.request.columns("subscribed_topic_names"),
        **log.response.columns("error_code", "heartbeat_interval_ms"),
        "answered_epoch": log.response.of("memberEpoch"),
        "assigned_partitions": rename_fields(partitions, kind),
    }
    return log.rows(schemas.HEARTBEATS, log.request.row, columns)


def _descriptions(log: Log) -> pa.RecordBatch:
    _, groups = log.response.into("groups")
    columns = {
        **groups.columns("group_id", "group_state", "group_epoch", "assignment_epoch"),
        **groups.columns("assignor_name", "error_code"),
        "members": pc.list_value_length(groups.of("members")),
        "authorized_operations": positive(groups.of("authorizedOperations"), _NOT_REQUESTED + 1),
    }
    return log.rows(schemas.DESCRIPTIONS, groups.row, columns)


def _described_members(log: Log) -> pa.RecordBatch:
    _, groups = log.response.into("groups")
    parent, members = groups.into("members")
    kind = schemas.DESCRIBED_MEMBERS.field("assigned_partitions").type
    partitions = pc.struct_field(members.of("assignment"), "topicPartitions")
    columns = {
        "group_id": groups.of("groupId").take(parent),
        **members.columns("member_id", "client_id", "client_host", "rack_id", "member_epoch"),
        **members.columns("subscribed_topic_names"),
        "assigned_partitions": rename_fields(partitions, kind),
    }
    return log.rows(schemas.DESCRIBED_MEMBERS, members.row, columns)


def _listings(log: Log) -> pa.RecordBatch:
    """Return groups of coordinators, and a row without a group for each error."""
    _, groups = log.response.into("groups")
    errors = log.response.of("errorCode")
    failed = pa.array(np.flatnonzero(pc.not_equal(errors, 0)))

    def beside(values: pa.Array) -> pa.Array:
        return pa.concat_arrays([values, pa.nulls(len(failed), values.type)])

    row = pa.concat_arrays([groups.row, failed.cast(groups.row.type)])
    kind = groups.of("groupType")
    named = groups.columns("group_id", "group_state")
    columns = {name: beside(found) for name, found in named.items()} | {
        "type": beside(only_where(pc.not_equal(kind, ""), pc.utf8_capitalize(kind))),
        "error_code": errors.take(row),
    }
    return log.rows(schemas.LISTINGS, row, columns)


# ---- calls of coordinators -----------------------------------------------------------------------


def _state_calls(log: Log, call: str) -> pa.RecordBatch:
    """Return the calls of share coordinators by leaders, one row per share partition."""
    asked, answered = place_partitions(log.request), place_partitions(log.response, "results")
    where = pc.index_in(keys_of(asked), keys_of(answered))
    row = asked.partitions.row
    results = Nested(row, answered.partitions.items.take(where))
    # The results of these are in the response.
    state = results if call in ("read", "summary") else asked.partitions
    columns = {
        "call": call,
        **log.request_columns(row, "group_id"),
        **asked.columns(),
        "error_code": results.of("errorCode"),
    }
    for items in (asked.partitions, state):
        there = items.items.type
        for name in ("leader_epoch", *(("state_epoch",) if items is state else ())):
            if there.get_field_index(json_name(name)) >= 0:
                columns |= items.columns(name)
    for name in ("start_offset", "delivery_complete_count"):
        if state.items.type.get_field_index(json_name(name)) >= 0:
            columns[name] = positive(state.of(json_name(name)), least=0)
    if state.items.type.get_field_index("stateBatches") >= 0:
        kind = schemas.STATE_CALLS.field("state_batches").type
        columns["state_batches"] = rename_fields(state.of("stateBatches"), kind)
    return log.rows(schemas.STATE_CALLS, row, columns, log.answered)


def _described_offsets(log: Log) -> tuple[pa.Array, Columns]:
    _, groups = log.response.into("groups")
    of_group, topics = groups.into("topics")
    of_topic, partitions = topics.into("partitions")
    return partitions.row, {
        "group_id": groups.of("groupId").take(of_group).take(of_topic),
        "topic": topics.of("topicName").take(of_topic),
        "topic_id": topics.of("topicId").take(of_topic),
        "partition": partitions.of("partitionIndex"),
        "start_offset": positive(partitions.of("startOffset"), least=0),
        "lag": positive(partitions.of("lag"), least=0),
        **partitions.columns("leader_epoch", "error_code", "error_message"),
    }


def _altered_offsets(log: Log) -> tuple[pa.Array, Columns]:
    requested = place_partitions(log.request, topic="topicName")
    answered = place_partitions(log.response, "responses", "topicName")
    where = pc.index_in(keys_of(requested), keys_of(answered))
    row = requested.partitions.row
    whole = log.response.of("errorCode").take(row)
    return row, {
        **log.request_columns(row, "group_id"),
        "topic": requested.topic,
        "partition": requested.partitions.of("partitionIndex"),
        "start_offset": positive(requested.partitions.of("startOffset"), least=0),
        "error_code": pc.coalesce(answered.partitions.of("errorCode").take(where), whole),
        "error_message": answered.partitions.of("errorMessage").take(where),
    }


def _forgotten_offsets(log: Log) -> tuple[pa.Array, Columns]:
    _, topics = log.response.into("responses")
    return topics.row, {
        **log.request_columns(topics.row, "group_id"),
        "topic": topics.of("topicName"),
        **topics.columns("topic_id", "error_code", "error_message"),
    }


def _deleted_groups(log: Log) -> tuple[pa.Array, Columns]:
    _, groups = log.response.into("results")
    return groups.row, groups.columns("group_id", "error_code", "error_message")


_TABLES: dict[str, tuple[tuple[str, Callable[[Log], pa.RecordBatch]], ...]] = {
    _FETCH: (
        ("acknowledgements", _acknowledgements),
        ("current_leaders", _current_leaders),
        ("acquisitions", _acquisitions),
        ("session_partitions", _named_partitions),
        ("session_partitions", _forgotten_partitions),
    ),
    "ShareAcknowledge": (
        ("acknowledgements", _acknowledgements),
        ("current_leaders", _current_leaders),
    ),
    "ShareGroupHeartbeat": (("heartbeats", _heartbeats),),
    "ShareGroupDescribe": (
        ("descriptions", _descriptions),
        ("described_members", _described_members),
    ),
    "ListGroups": (("listings", _listings),),
}
#: Names of calls of share coordinators in `sharelag.schemas.STATE_CALLS`.
_STATE_CALLS = {
    "InitializeShareGroupState": "initialize",
    "ReadShareGroupState": "read",
    "WriteShareGroupState": "write",
    "DeleteShareGroupState": "delete",
    "ReadShareGroupStateSummary": "summary",
}
_OFFSET_CALLS = {
    "DescribeShareGroupOffsets": ("describe offsets", _described_offsets),
    "AlterShareGroupOffsets": ("alter offsets", _altered_offsets),
    "DeleteShareGroupOffsets": ("delete offsets", _forgotten_offsets),
    "DeleteGroups": ("delete group", _deleted_groups),
}
