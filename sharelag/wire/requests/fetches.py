"""What members fetch and acknowledge: ShareFetch and ShareAcknowledge as tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import requests as schemas
from sharelag.wire.requests import drafts
from sharelag.wire.requests.log import Log
from sharelag.wire.requests.nested import Placed, keys_of, placed, spread
from sharelag.wire.requests.values import only_where, positive, word_of

FETCH, ACKNOWLEDGE = "ShareFetch", "ShareAcknowledge"
#: Errors with which an answer names the leader: NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
#: (``KafkaApis.processShareFetchResponse``). In other answers the field means nothing.
_LEADER_ERRORS = (6, 74)


def acquisitions(log: Log) -> pa.RecordBatch:
    """Runs of offsets that fetches acquired."""
    at = placed(log.response, "responses")
    parent, runs = at.partitions.into("acquiredRecords")
    row = runs.row
    columns = {
        "group_id": log.asked("groupId", row),
        "member_id": log.asked("memberId", row),
        "topic_id": at.topic.take(parent),
        "partition": at.partitions.of("partitionIndex").take(parent),
        "first_offset": runs.of("firstOffset"),
        "last_offset": runs.of("lastOffset"),
        "delivery_count": runs.of("deliveryCount"),
        "lock_ms": positive(log.response.of("acquisitionLockTimeoutMs").take(row)),
    }
    return log.made(schemas.ACQUISITIONS, row, columns, log.answered)


def named_partitions(log: Log) -> pa.RecordBatch:
    """Partitions that fetches add to their share sessions."""
    at = placed(log.request)
    return _of_session(log, at.partitions.row, at.topic, at.partitions.of("partitionIndex"), False)


def forgotten_partitions(log: Log) -> pa.RecordBatch:
    """Partitions that fetches remove from their share sessions."""
    _, topics = log.request.into("forgottenTopicsData")
    parent, partitions = topics.into("partitions")
    topic = topics.of("topicId").take(parent)
    return _of_session(log, partitions.row, topic, partitions.items, True)


def _of_session(
    log: Log, row: pa.Array, topic: pa.Array, partition: pa.Array, forgotten: bool
) -> pa.RecordBatch:
    columns = {
        "group_id": log.asked("groupId", row),
        "member_id": log.asked("memberId", row),
        "topic_id": topic,
        "partition": partition,
        "session_epoch": log.asked("shareSessionEpoch", row),
        "forgotten": pa.repeat(pa.scalar(forgotten), len(row)),
    }
    return log.made(schemas.SESSION_PARTITIONS, row, columns, log.handled)


def acknowledgements(log: Log) -> pa.RecordBatch:
    """Runs of offsets that were acknowledged in one way."""
    at = placed(log.request)
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
        "group_id": log.asked("groupId", row),
        "member_id": log.asked("memberId", row),
        "topic_id": at.topic.take(place),
        "partition": at.partitions.of("partitionIndex").take(place),
        "first_offset": pc.struct_field(runs, "first"),
        "last_offset": last_of_run,
        "acknowledge_type": kinds,
        "acknowledge_word": word_of(kinds),
        "legacy": False,
        "api": log.one.api.name,
        "error_code": _acknowledge_errors(log, at).take(place),
        "lock_ms": positive(log.response.of("acquisitionLockTimeoutMs").take(row)),
    }
    return log.made(schemas.ACKNOWLEDGEMENTS, row, columns, log.handled)


def drafted_acknowledgements(log: Log) -> pa.RecordBatch:
    """The same of a draft, whose requests have a session in place of a member."""
    at = placed(log.request)
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
        "acknowledge_type": only_where(pc.invert(is_gap), codes.take(of)),
        "acknowledge_word": pc.if_else(is_gap, drafts.GAP, words.take(of)),
        "legacy": True,
        "api": log.one.api.name,
        "error_code": _acknowledge_errors(log, at).take(place),
    }
    return log.made(schemas.ACKNOWLEDGEMENTS, row, columns, log.handled)


def current_leaders(log: Log) -> pa.RecordBatch:
    """Leaders that a broker named to members that asked the wrong one."""
    at = placed(log.response, "responses")
    names = ["errorCode", *(["acknowledgeErrorCode"] if log.one.api.name == FETCH else [])]
    codes = [at.partitions.of(name).cast(pa.int16()) for name in names]
    wrong = [pc.is_in(code, pa.array(_LEADER_ERRORS, pa.int16())) for code in codes]
    error = pc.coalesce(*map(only_where, wrong, codes))
    leader = at.partitions.of("currentLeader")
    row = at.partitions.row
    columns = {
        "group_id": log.asked("groupId", row),
        "topic_id": at.topic,
        "partition": at.partitions.of("partitionIndex"),
        "member_id": log.asked("memberId", row),
        "leader_id": positive(pc.struct_field(leader, "leaderId"), 0),
        "current_leader_epoch": positive(pc.struct_field(leader, "leaderEpoch"), 0),
        "api": log.one.api.name,
        "error_code": error,
    }
    every = log.made(schemas.CURRENT_LEADERS, row, columns, log.answered)
    return every.filter(error.is_valid())


def _acknowledge_errors(log: Log, at: Placed) -> pa.Array:
    """Return the error of each partition's acknowledgements; 0 where the answer omits it."""
    code = "acknowledgeErrorCode" if log.one.api.name == FETCH else "errorCode"
    answer = placed(log.response, "responses")
    where = pc.index_in(keys_of(at, "partitionIndex"), keys_of(answer, "partitionIndex"))
    found = answer.partitions.of(code).take(where)
    whole = log.response.of("errorCode").take(at.partitions.row)
    # The answer to a fetch names partitions with records or an error alone.
    return pc.if_else(pc.not_equal(whole, 0), whole, pc.coalesce(found, whole))
