"""Findings and histories from the tables of `sharelag.schemas.REQUEST_TABLES`.

Findings: each check of Kafka's rules returns rows of `REQUEST_FINDINGS`. A log covers only a span
of time, so a request that is missing from it is never a finding.

Memberships: a heartbeat carries only changes; without a subscription or an assignment the previous
one holds (KIP-932, "ShareGroupHeartbeat"). A member joins with epoch 0 and leaves with -1.

Share sessions: a session begins at epoch 0, contains each partition that a fetch adds until a fetch
forgets it, and ends at epoch -1 (KIP-932, "ShareFetch").

Batching: acknowledgements of whole batches cost least; a batch that is acknowledged in parts is
tracked record by record from then on (KIP-932, "Batching").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import codes, mask, series
from sharelag.model.kafka_errors import ANSWERS, ERRORS, in_words
from sharelag.schemas import INSTANT, SHARE_PARTITION, Arrow, Bools, Ints
from sharelag.tables.arrow import (
    as_table,
    ascending,
    beside,
    changes,
    flat,
    integers,
    keys,
    lists_of,
    table_of,
)

_GROUP_DENIED = "GROUP_AUTHORIZATION_FAILED"
#: The position of a request in the log.
_LINE = ("source", "position")
#: Requests by their names in tables.
_CALLS = {
    "initialize": "InitializeShareGroupState",
    "read": "ReadShareGroupState",
    "write": "WriteShareGroupState",
    "delete": "DeleteShareGroupState",
    "summary": "ReadShareGroupStateSummary",
    "describe offsets": "DescribeShareGroupOffsets",
    "alter offsets": "AlterShareGroupOffsets",
    "delete offsets": "DeleteShareGroupOffsets",
    "delete group": "DeleteGroups",
}


def _codes_of(*names: str) -> pa.Array:
    """Return Kafka's codes of errors."""
    return pa.array([code for code, one in ERRORS.items() if one.name in names], pa.int16())


def find_failures(tables: Mapping[str, Arrow]) -> Iterator[tuple[pa.Table, pa.Array, pa.Array]]:
    """Yield the rows of each of `REQUEST_TABLES` that were answered with an error.

    A request that failed as a whole is a row of ``requests`` only, not of each partition. Each
    table comes with the name of each row's request in Kafka's message schemas, and its error code.
    """
    whole = pa.array([], pa.string())
    names = {"requests": "api", "acknowledgements": "api"}
    for name, column in (names | {"state_calls": "call", "offset_calls": "call"}).items():
        table = as_table(tables[name])
        code = flat(table.column("error_code"))
        line = keys(table, _LINE)
        bad = pc.and_not(pc.not_equal(code, 0).fill_null(False), pc.is_in(line, whole))
        rows = table.filter(bad)
        if name == "requests":
            whole = flat(line.filter(bad))
        api = flat(rows.column(column))
        if column == "call":
            at = pc.index_in(api, pa.array(list(_CALLS)))
            api = pa.array(list(_CALLS.values())).take(at)
        yield rows, api, flat(rows.column("error_code"))


def request_errors(tables: Mapping[str, Arrow]) -> pa.Table:
    """Count the errors of requests by group, request and error.

    The result is `sharelag.schemas.REQUEST_ERRORS`, the most frequent first.
    Acknowledgements are counted by runs of offsets.
    """
    by = ["group_id", "api", "error_code"]
    found = []
    for rows, api, code in find_failures(tables):
        each = [flat(rows.column("group_id")), api, code, rows.column("timestamp")]
        found.append(pa.table(each, [*by, "timestamp"]))
    sums = [("timestamp", how) for how in ("count", "min", "max")]
    counted = pa.concat_tables(found).group_by(by).aggregate(sums)
    known = [ERRORS.get(code) for code in counted.column("error_code").to_pylist()]
    groups = counted.column("group_id").to_pylist()
    advice = [
        one and one.what_to_do(group if group and one.name == _GROUP_DENIED else "NAME")
        for one, group in zip(known, groups, strict=True)
    ]
    columns = {
        **{name: counted.column(name) for name in by},
        "error_name": pa.array([one and one.name for one in known], pa.string()),
        "answers": counted.column("timestamp_count"),
        "first_answer": counted.column("timestamp_min"),
        "last_answer": counted.column("timestamp_max"),
        "meaning": pa.array([one and one.meaning for one in known], pa.string()),
        "advice": pa.array(advice, pa.string()),
    }
    order = [("answers", "descending"), *ascending(*by)]
    return table_of(columns, schemas.REQUEST_ERRORS).sort_by(order)


_MEMBER = ("group_id", "member_id")
_SESSION = ("broker", *_MEMBER)
_RECORD = ("record_topic", "record_partition", "record_offset")
_FENCED = _codes_of("FENCED_LEADER_EPOCH", "FENCED_STATE_EPOCH")
#: Errors of a coordinator that does not have the member, or not with this epoch.
_REMOVED = _codes_of("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH")
#: The largest session epoch is followed by 1, because 0 opens a session.
_LARGEST = 2**31 - 1
#: Tolerance between the times of a request log and of records, in microseconds.
_SLACK = 100_000


def check_requests(tables: Mapping[str, Arrow], history: Arrow | None = None) -> pa.Table:
    """Return violations of Kafka's rules in a request log, by time.

    ``tables`` are `sharelag.schemas.REQUEST_TABLES` by name; with a ``history`` of the same
    cluster, writes without a record are found, too. The result is
    `sharelag.schemas.REQUEST_FINDINGS`.
    """
    calls = as_table(tables["state_calls"])
    found = [
        session_epochs(as_table(tables["requests"])),
        member_epochs(as_table(tables["heartbeats"])),
        *(find(as_table(tables["descriptions"])) for find in (group_states, assignment_epochs)),
        *(find(calls) for find in (leader_epochs, find_fenced_calls, partial_deletes)),
        find_unlisted_errors(tables),
    ]
    if history is not None:
        found.append(find_unrecorded_writes(tables, history))
    return pa.concat_tables(found).sort_by(ascending("timestamp", "finding"))


def session_epochs(requests: pa.Table) -> pa.Table:
    """Find gaps in the epochs of share sessions (KIP-932, "ShareFetch": FET-03).

    A member opens a session with a broker at epoch 0, each ShareFetch or ShareAcknowledge
    increments it, and -1 closes it. Requests that failed as a whole do not count.
    """
    is_of_session = requests.column("session_epoch").is_valid()
    counts = pc.and_(pc.equal(requests.column("error_code"), 0), is_of_session)
    # Sessions of a KIP-932 draft have no member.
    counts = pc.and_not(counts, requests.column("legacy"))
    rows, first = series(requests.filter(counts), _SESSION)
    epoch = integers(rows, "session_epoch")
    before = np.roll(epoch, 1)
    expected = np.where(before == _LARGEST, 1, before + 1)
    # A closed session can only begin again at 0.
    expected[before == -1] = 0
    bad = ~first & (epoch != expected) & (epoch != 0) & (epoch != -1)
    words = "session epoch {now} follows {then}: a request is missing or was sent twice"
    return _epochs("session epoch gap", rows, epoch, bad, words)


def member_epochs(heartbeats: pa.Table) -> pa.Table:
    """Find members whose epoch went back without leaving or joining again."""
    good = heartbeats.filter(pc.equal(heartbeats.column("error_code"), 0))
    rows, first = series(good, _MEMBER)
    stays = integers(rows, "member_epoch") > 0
    return _went_back("member epoch", rows, "answered_epoch", ~first & stays)


def group_states(descriptions: pa.Table) -> pa.Table:
    """Find groups that went directly from Stable to Dead (GRP-15).

    Only an Empty group can be deleted, and so become Dead.
    """
    rows, first = series(descriptions, ("group_id",))
    stable, dead = (mask(pc.equal(rows.column("group_state"), name)) for name in ("Stable", "Dead"))
    bad = ~first & np.roll(stable, 1) & dead
    words = ["Stable, then Dead: it was not seen Empty, which comes between"] * int(bad.sum())
    return _findings("group state", rows.filter(pa.array(bad, pa.bool_())), words)


def assignment_epochs(descriptions: pa.Table) -> pa.Table:
    """Find assignment epochs that went back, which they must not after a failover (GRP-18)."""
    rows, first = series(descriptions, ("group_id",))
    lives = mask(pc.not_equal(rows.column("group_state"), "Dead"))
    both = ~first & lives & np.roll(lives, 1)
    return _went_back("assignment epoch", rows, "assignment_epoch", both)


def leader_epochs(calls: pa.Table) -> pa.Table:
    """Find writes that were accepted after a newer leader had written (PSS-05)."""
    return _leaders_back(calls.filter(_writes(calls)), _LINE)


def leader_epochs_of_records(history: Arrow) -> pa.Table:
    """Find records of an older leader after those of a newer one in the history (PSS-05)."""
    table = _put_times(history)
    return _leaders_back(table.filter(table.column("leader_epoch").is_valid()), _RECORD)


def _leaders_back(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    rows, first = series(rows, SHARE_PARTITION, order)
    state = integers(rows, "state_epoch")
    # A new state starts with its leader's epoch.
    return _went_back("leader epoch", rows, "leader_epoch", ~first & (state == np.roll(state, 1)))


def _went_back(what: str, rows: pa.Table, column: str, follows: Bools) -> pa.Table:
    """Find rows with a lower epoch than the row before, where ``follows`` is true."""
    epoch = integers(rows, column)
    bad = follows & (epoch < np.roll(epoch, 1))
    words = f"{what} {{now}} after {{then}}: it never goes back"
    return _epochs(f"{what} went back", rows, epoch, bad, words)


def _epochs(name: str, rows: pa.Table, epoch: Ints, bad: Bools, words: str) -> pa.Table:
    pairs = zip(epoch[bad].tolist(), np.roll(epoch, 1)[bad].tolist(), strict=True)
    sentences = [words.format(now=now, then=then) for now, then in pairs]
    return _findings(name, rows.filter(pa.array(bad)), sentences)


def find_fenced_calls(calls: pa.Table) -> pa.Table:
    """Find calls that the coordinator fenced: of an older leader or state epoch."""
    rows = calls.filter(pc.is_in(calls.column("error_code"), _FENCED))
    words = [
        f"{row['call']} with leader epoch {row['leader_epoch']} and state epoch "
        f"{row['state_epoch']} was refused: {ERRORS[row['error_code']].meaning}"
        for row in rows.select(["call", "leader_epoch", "state_epoch", "error_code"]).to_pylist()
    ]
    return _findings("fenced", rows, words)


def find_unlisted_errors(tables: Mapping[str, Arrow]) -> pa.Table:
    """Find responses with an error that Kafka does not return for that request (SEC-05).

    They come from another server than Kafka, a defective broker, or a newer version.
    """
    codes = {api: (0, *_codes_of(*names).to_pylist()) for api, names in ANSWERS.items()}
    listed = pa.array([f"{api} {code}" for api, some in codes.items() for code in some])
    found = []
    for rows, api, code in find_failures(tables):
        pairs = pc.binary_join_element_wise(api, code.cast(pa.string()), " ")
        unlisted = pc.and_not(pc.is_in(api, pa.array(list(ANSWERS))), pc.is_in(pairs, listed))
        lost = (column.filter(unlisted).to_pylist() for column in (api, code))
        words = [
            f"{asked} was answered with {in_words(number)}, which Kafka does not list for it"
            for asked, number in zip(*lost, strict=True)
        ]
        found.append(_findings("unlisted error", rows.filter(unlisted), words))
    return pa.concat_tables(found)


def partial_deletes(calls: pa.Table) -> pa.Table:
    """Find topics whose state was deleted for some partitions but not for others (ADM-01).

    Leaders delete states one by one, so the deletion may still be in progress.
    """
    good = pc.equal(calls.column("error_code"), 0)
    kinds = pc.is_in(calls.column("call"), pa.array(["initialize", "write", "delete"]))
    rows, first = series(calls.filter(pc.and_(good, kinds)), SHARE_PARTITION)
    return _partial(rows, first, "call", "delete")


def partial_deletes_of_records(history: Arrow) -> pa.Table:
    """Find partial deletions by the tombstones in the history."""
    rows, first = series(_put_times(history), SHARE_PARTITION, _RECORD)
    return _partial(rows, first, "record_kind", "tombstone")


def _partial(rows: pa.Table, first: Bools, column: str, deletes: str) -> pa.Table:
    # The last row of each share partition decides whether it has a state.
    last = rows.filter(pa.array(np.append(first[1:], True)[: len(first)]))
    deleted = flat(pc.equal(last.column(column), deletes)).cast(pa.int64())
    topics = last.append_column("deleted", deleted).group_by(["group_id", "topic_id"])
    topics = topics.aggregate([("deleted", "sum"), ("deleted", "count"), ("timestamp", "max")])
    topics = topics.rename_columns(["group_id", "topic_id", "deleted", "all", "timestamp"])
    some, every = topics.column("deleted"), topics.column("all")
    found = topics.filter(pc.and_(pc.greater(some, 0), pc.less(some, every)))
    words = [
        f"the state of {row['deleted']} of {row['all']} partitions was deleted: the deletion is "
        "still running, or stopped halfway"
        for row in found.select(["deleted", "all"]).to_pylist()
    ]
    return _findings("partial delete", found, words)


def find_unrecorded_writes(tables: Mapping[str, Arrow], history: Arrow) -> pa.Table:
    """Find confirmed writes without a record in the state topic.

    Writes before the first record of their share partition do not count, because the topic is
    pruned; neither do those after the last record, because the log may go on after the history was
    read.
    """
    calls, requests = as_table(tables["state_calls"]), as_table(tables["requests"])
    writes = calls.filter(_writes(calls))
    began = integers(beside(keys(writes, _LINE), requests, _LINE), "began") - _SLACK
    ended = integers(writes, "timestamp") + _SLACK
    records = as_table(history)
    at = 1000 * integers(records, "record_timestamp")
    places = codes(pa.concat_arrays([keys(part, SHARE_PARTITION) for part in (writes, records)]))
    mine, theirs = places[: writes.num_rows], places[writes.num_rows :]
    moments = np.unique(np.concatenate([began, ended, at]))
    step = len(moments) + 1
    have = np.sort(theirs * step + np.searchsorted(moments, at))
    # Records have milliseconds, so they may seem older than their request.
    low = np.searchsorted(have, mine * step + np.searchsorted(moments, began))
    high = np.searchsorted(have, mine * step + np.searchsorted(moments, ended), side="right")
    is_known = np.searchsorted(have, mine * step) < low
    is_read = ended < at.max(initial=0)
    bad = (low == high) & is_known & is_read
    words = ["the coordinator confirmed a write, and the state topic has no record of it"]
    return _findings("write without a record", writes.filter(pa.array(bad)), words * int(bad.sum()))


def _writes(calls: pa.Table) -> pa.ChunkedArray:
    """Return which calls are accepted writes."""
    return pc.and_(pc.equal(calls.column("call"), "write"), pc.equal(calls.column("error_code"), 0))


def _put_times(history: Arrow) -> pa.Table:
    """Return a history with the times of its records in the type of a request log."""
    table = as_table(history)
    return table.append_column("timestamp", table.column("record_timestamp").cast(INSTANT))


def _findings(name: str, rows: pa.Table, words: Sequence[str]) -> pa.Table:
    columns = {column: rows.column(column) for column in rows.column_names}
    columns["finding"] = pa.repeat(pa.scalar(name), rows.num_rows)
    columns["summary"] = pa.array(words, pa.string())
    return table_of(columns, schemas.REQUEST_FINDINGS, pad=True)


#: Fields that a heartbeat omits if they have not changed.
_KEPT = ("rack_id", "subscribed_topic_names", "assigned_partitions")
_JOINS, _LEAVES = 0, -1
_MEMBER_ENDS = ["removed", "left", "joined again", "changed"]


def memberships(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return the periods of members with their subscriptions and assignments.

    ``tables`` has all ``requests`` and ``heartbeats`` of the groups. The result is
    `sharelag.schemas.MEMBERSHIPS`, by group, member and time. A member that is silent until its
    session times out has no end, because no request reports it.
    """
    beats = as_table(tables["heartbeats"])
    code = beats.column("error_code")
    removed = pc.is_in(code, _REMOVED)
    is_known = pc.or_(pc.equal(code, 0).fill_null(False), removed)
    rows, first = series(beats.filter(is_known), _MEMBER)
    if not rows.num_rows:
        return schemas.MEMBERSHIPS.empty_table()
    asked, removed = integers(rows, "member_epoch"), integers(rows, "error_code") != 0
    joins, leaves = (asked == _JOINS) & ~removed, (asked == _LEAVES) & ~removed
    ends = removed | leaves
    begins = first | joins | np.append(False, ends[:-1])
    place = np.arange(rows.num_rows)
    life = np.maximum.accumulate(np.where(begins, place, 0))
    kept = {name: _kept(rows.column(name), ~ends, life) for name in _KEPT}
    epoch = integers(rows, "answered_epoch")
    changed = changes(epoch, *(codes(_texts(column)) for column in kept.values()))
    # Of a member that leaves with its first request in the log, only the end is known.
    opens = (~ends & (begins | changed)) | (ends & first)
    events = np.flatnonzero(opens | ends)
    mine = np.flatnonzero(opens[events])
    # The row that opens each span, and the row of the same member that ends it; -1: none.
    at, after = events[mine], np.append(events, -1)[mine + 1]
    is_over = ends[at]
    until = np.where(is_over, at, np.where((after >= 0) & first[after], -1, after))
    why = np.select([removed[until], ends[until], joins[until]], _MEMBER_ENDS[:3], _MEMBER_ENDS[3])
    times = flat(rows.column("timestamp"))
    stop, beats = np.append(at[1:], len(times)), np.append(0, np.cumsum(~ends))
    columns = {name: _at(flat(rows.column(name)), at) for name in _MEMBER} | {
        "since": _at(times, np.where(is_over, -1, at)),
        "until": _at(times, until),
        "ended_by": pa.array(why, pa.string(), mask=until < 0),
        "joined": _at(times, np.where(joins[life[at]], life[at], -1)),
        "member_epoch": pa.array(epoch[at], pa.int32(), mask=is_over),
        # without the one that ends the span
        "heartbeats": pa.array(beats[stop] - beats[at]),
    }
    columns |= {name: _at(column, at) for name, column in kept.items()}
    return table_of(columns, schemas.MEMBERSHIPS)


def _kept(column: pa.ChunkedArray, counts: Bools, life: Ints) -> pa.Array:
    """Return the value in force at each row: its own, or the last one of the same life."""
    values = flat(column)
    place = np.arange(len(values))
    says = mask(values.is_valid()) & counts
    last = np.maximum.accumulate(np.where(says, place, -1))
    return _at(values, np.where(last >= life, last, -1))


def _at(values: pa.Array, rows: Ints) -> pa.Array:
    """Take values of rows, null where a row is negative."""
    return values.take(pa.array(rows, mask=rows < 0))


def _texts(values: pa.Array) -> pa.Array:
    """Return equal texts for equal values, with separators that topic names cannot contain."""
    if not pa.types.is_list(values.type):
        return values.cast(pa.string())
    items = pc.list_flatten(values)
    if pa.types.is_struct(items.type):
        parts = pc.struct_field(items, "partitions")
        numbers = pc.binary_join(pc.cast(parts, pa.list_(pa.string())), ",")
        items = pc.binary_join_element_wise(pc.struct_field(items, "topic_id"), numbers, ":")
    sizes = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    joined = pc.binary_join(lists_of(sizes, items), "\0")
    # An empty list of topics differs from null.
    marked = pc.binary_join_element_wise("=", joined, "")
    return pc.if_else(values.is_valid(), marked, pa.scalar(None, pa.string()))


_OPENS, _CLOSES = 0, -1
_SESSION_ENDS = ["session opened anew", "session closed", "forgotten"]
_NEVER = np.iinfo(np.int64).max


def sessions(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return the partitions of each share session over time, as `SESSIONS`, sorted.

    ``tables`` has ``requests`` and ``session_partitions``. Requests that failed as a whole do not
    count.
    """
    requests = as_table(tables["requests"])
    of_sessions = requests.column("session_epoch").is_valid()
    good = pc.and_(pc.equal(requests.column("error_code"), 0), of_sessions)
    made, first = series(requests.filter(good), _SESSION)
    named = as_table(tables["session_partitions"])
    line = pc.index_in(keys(named, _LINE), keys(made, _LINE))
    named = named.filter(line.is_valid())
    if not named.num_rows:
        return schemas.SESSIONS.empty_table()
    epoch = integers(made, "session_epoch")
    begins = first | (epoch == _OPENS) | np.append(False, epoch[:-1] == _CLOSES)
    number = np.cumsum(begins)
    of = number[np.asarray(line.drop_null().to_numpy(), np.int64)]
    end, why = _ends(made, first, begins, epoch)
    named = named.append_column("session", pa.array(of))
    rows, is_first = series(named, ("session", "topic_id", "partition"))
    gone = np.asarray(rows.column("forgotten").to_numpy(), bool)
    opens = ~gone & (is_first | np.append(False, gone[:-1]))
    at, times = np.flatnonzero(opens), integers(rows, "timestamp")
    # The next row of the same partition and session that forgets it.
    forgets = np.flatnonzero(gone)
    after = np.append(forgets, len(gone))[np.searchsorted(forgets, at)]
    run = np.cumsum(is_first)
    mine = (after < len(gone)) & (run[np.minimum(after, len(gone) - 1)] == run[at])
    session = integers(rows, "session")[at]
    until = np.where(mine, times[np.minimum(after, len(gone) - 1)], end[session])
    cause = np.where(mine, _SESSION_ENDS.index("forgotten"), why[session])
    known = rows.take(pa.array(at))
    ended = until != _NEVER
    columns = {name: flat(known.column(name)) for name in known.column_names} | {
        "since": flat(known.column("timestamp")),
        "until": pa.array(until, mask=~ended).cast(schemas.SESSIONS.field("until").type),
        "ended_by": pa.array(_SESSION_ENDS).take(pa.array(cause, mask=~ended)),
    }
    order = ascending("group_id", "member_id", "broker", "topic_id", "partition", "since")
    return table_of(columns, schemas.SESSIONS).sort_by(order)


def _ends(made: pa.Table, first: Bools, begins: Bools, epoch: Ints) -> tuple[Ints, Ints]:
    """Return the end of each session, numbered from 1, and its reason (of `_SESSION_ENDS`)."""
    times, starts = integers(made, "timestamp"), np.flatnonzero(begins)
    end, why = (np.full(len(starts) + 1, value, np.int64) for value in (_NEVER, 0))
    following = starts[1:]
    same = ~first[following]
    end[1:-1][same] = times[following[same]]
    last = np.append(following, len(epoch)) - 1
    closed = epoch[last] == _CLOSES
    end[1:][closed], why[1:][closed] = times[last[closed]], _SESSION_ENDS.index("session closed")
    return end, why


_MEMBER_KEY = (*SHARE_PARTITION, "member_id")
_RENEW = 4


def batching(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return the number of acknowledged runs that cover whole acquired runs.

    ``tables`` has ``acquisitions`` and ``acknowledgements``. The result is
    `sharelag.schemas.BATCHING`, sorted. A run is whole if its ends are ends of runs that the member
    acquired, because clients merge adjacent acknowledgements. Renewals and refused acknowledgements
    do not count; ``whole_ratio`` is null without acknowledgements.
    """
    acquired = as_table(tables["acquisitions"])
    acknowledged = as_table(tables["acknowledgements"])
    good = pc.equal(acknowledged.column("error_code"), 0)
    counts = pc.and_not(good, pc.equal(acknowledged.column("acknowledge_type"), _RENEW))
    counts = pc.and_not(counts, acknowledged.column("legacy"))
    acknowledged = acknowledged.filter(counts.fill_null(False))
    begins, ends = (
        pc.is_in(keys(acknowledged, (*_MEMBER_KEY, name)), keys(acquired, (*_MEMBER_KEY, name)))
        for name in ("first_offset", "last_offset")
    )
    whole = pc.and_(begins, ends)
    each = [_count(acquired, "acquired"), _count(acknowledged, "acknowledged", whole)]
    both = pa.concat_tables(each, promote_options="default")
    names = [name for name in schemas.BATCHING.names if name not in (*_MEMBER_KEY, "whole_ratio")]
    summed = both.group_by(list(_MEMBER_KEY)).aggregate([(name, "sum") for name in names])
    columns = {name: flat(summed.column(name)) for name in _MEMBER_KEY}
    columns |= {name: flat(summed.column(f"{name}_sum")).fill_null(0) for name in names}
    runs = columns["acknowledged_runs"]
    runs = pc.if_else(pc.equal(runs, 0), pa.scalar(None, pa.int64()), runs)
    columns["whole_ratio"] = pc.divide(columns["whole_runs"].cast(pa.float64()), runs)
    return table_of(columns, schemas.BATCHING).sort_by(ascending(*_MEMBER_KEY))


def _count(rows: pa.Table, name: str, whole: pa.Array | None = None) -> pa.Table:
    size = pc.add(pc.subtract(rows.column("last_offset"), rows.column("first_offset")), 1)
    counted = {
        **{key: rows.column(key) for key in _MEMBER_KEY},
        f"{name}_runs": pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows),
        f"{name}_offsets": size,
    }
    return pa.table(counted if whole is None else counted | {"whole_runs": whole.cast(pa.int64())})
