"""What Kafka's rules say of requests, checked in a broker's log of them.

Each check is a function of tables of `sharelag.schemas.requests.REQUEST_TABLES` and gives rows of
`REQUEST_FINDINGS`. A log has the requests of the time in which it was written: what is not in it is
never a finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.request_errors import failed
from sharelag.metrics.request_rows import integers, series
from sharelag.model.kafka_errors import ERRORS, in_words
from sharelag.model.request_errors import ANSWERS
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.requests import INSTANT, REQUEST_FINDINGS

_SHARE_PARTITION = ("group_id", "topic_id", "partition")
_MEMBER = ("group_id", "member_id")
_SESSION = ("broker", *_MEMBER)
_RECORD = ("record_topic", "record_partition", "record_offset")
_FENCED = [
    code
    for code, error in ERRORS.items()
    if error.name in ("FENCED_LEADER_EPOCH", "FENCED_STATE_EPOCH")
]
#: After the largest session epoch the next is 1: 0 opens a session.
_LARGEST = 2**31 - 1
#: Microseconds by which the times of a log of requests and of records may differ.
_SLACK = 100_000


def check_requests(tables: Mapping[str, Arrow], history: Arrow | None = None) -> pa.Table:
    """Return what is wrong in a log of requests.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        `sharelag.schemas.requests.REQUEST_TABLES` by name.
    history : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.HISTORY` of the same cluster, to find the record of every write.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.REQUEST_FINDINGS`, by time.
    """
    found = [
        session_epochs(as_table(tables["requests"])),
        member_epochs(as_table(tables["heartbeats"])),
        group_states(as_table(tables["descriptions"])),
        assignment_epochs(as_table(tables["descriptions"])),
        leader_epochs(as_table(tables["state_calls"])),
        fenced(as_table(tables["state_calls"])),
        partial_deletes(as_table(tables["state_calls"])),
        unlisted_errors(tables),
    ]
    if history is not None:
        found.append(unrecorded_writes(tables, history))
    return pa.concat_tables(found).sort_by([("timestamp", "ascending"), ("finding", "ascending")])


def session_epochs(requests: pa.Table) -> pa.Table:
    """Find gaps in the epochs of share sessions (KIP-932, "ShareFetch": FET-03).

    A member opens a session with a broker at epoch 0, each ShareFetch or ShareAcknowledge has the
    next one, and -1 closes it. Requests that failed as a whole do not count.
    """
    counts = pc.and_(
        pc.equal(requests.column("error_code"), 0), requests.column("session_epoch").is_valid()
    )
    # The sessions of a draft of KIP-932 have no member.
    counts = pc.and_not(counts, requests.column("legacy"))
    rows, first = series(requests.filter(counts.fill_null(False)), _SESSION)
    epoch = integers(rows, "session_epoch")
    before = np.roll(epoch, 1)
    expected = np.where(before == _LARGEST, 1, before + 1)
    # What a closed session may begin again with is 0 alone.
    expected[before == -1] = 0
    bad = ~first & (epoch != expected) & (epoch != 0) & (epoch != -1)
    words = [
        f"session epoch {now} follows {then}: a request is missing or was sent twice"
        for now, then in zip(epoch[bad].tolist(), before[bad].tolist(), strict=True)
    ]
    return _findings("session epoch gap", rows.filter(pa.array(bad)), words)


def member_epochs(heartbeats: pa.Table) -> pa.Table:
    """Find members whose epoch went back without leaving or joining again."""
    good = heartbeats.filter(pc.equal(heartbeats.column("error_code"), 0).fill_null(False))
    rows, first = series(good, _MEMBER)
    epoch, asked = integers(rows, "answered_epoch"), integers(rows, "member_epoch")
    before = np.roll(epoch, 1)
    bad = ~first & (epoch < before) & (asked > 0)
    words = _fell("member epoch", before[bad], epoch[bad])
    return _findings("member epoch went back", rows.filter(pa.array(bad)), words)


def group_states(descriptions: pa.Table) -> pa.Table:
    """Find groups that went from Stable to Dead at once (GRP-15).

    A group is Empty or Stable, and Dead once it was deleted, which only an empty group can be.
    """
    rows, first = series(descriptions, ("group_id",))
    state = np.asarray(flat(rows.column("group_state")).fill_null("").to_pylist(), dtype=object)
    before = np.roll(state, 1)
    bad = ~first & (before == "Stable") & (state == "Dead")
    words = ["Stable, then Dead: it was not seen Empty, which comes between"] * int(bad.sum())
    return _findings("group state", rows.filter(pa.array(bad, pa.bool_())), words)


def assignment_epochs(descriptions: pa.Table) -> pa.Table:
    """Find assignment epochs that went back, which they must not at a fail-over (GRP-18)."""
    rows, first = series(descriptions, ("group_id",))
    epoch = integers(rows, "assignment_epoch")
    dead = np.asarray(
        pc.equal(flat(rows.column("group_state")), "Dead").fill_null(True).to_numpy(False), bool
    )
    before = np.roll(epoch, 1)
    bad = ~first & (epoch < before) & ~dead & ~np.roll(dead, 1)
    words = _fell("assignment epoch", before[bad], epoch[bad])
    return _findings("assignment epoch went back", rows.filter(pa.array(bad)), words)


def leader_epochs(calls: pa.Table) -> pa.Table:
    """Find writes that were taken although another leader had written before (PSS-05)."""
    good = pc.and_(pc.equal(calls.column("call"), "write"), pc.equal(calls.column("error_code"), 0))
    return _leaders_back(calls.filter(good.fill_null(False)), ("source", "position"))


def leader_epochs_of_records(history: Arrow) -> pa.Table:
    """Find records of an older leader after those of a newer one (PSS-05).

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`.
    """
    table = as_table(history)
    kept = table.filter(table.column("leader_epoch").is_valid())
    times = kept.column("record_timestamp").cast(INSTANT)
    return _leaders_back(kept.append_column("timestamp", times), _RECORD)


def _leaders_back(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    rows, first = series(rows, _SHARE_PARTITION, order)
    epoch, state = integers(rows, "leader_epoch"), integers(rows, "state_epoch")
    before = np.roll(epoch, 1)
    # A state that was created anew begins with its leader's epoch.
    bad = ~first & (epoch < before) & (state == np.roll(state, 1))
    words = _fell("leader epoch", before[bad], epoch[bad])
    return _findings("leader epoch went back", rows.filter(pa.array(bad)), words)


def fenced(calls: pa.Table) -> pa.Table:
    """Find calls that the coordinator refused because they came from an older leader or state."""
    codes = calls.column("error_code")
    rows = calls.filter(pc.is_in(codes, pa.array(_FENCED, pa.int16())))
    words = [
        f"{row['call']} with leader epoch {row['leader_epoch']} and state epoch "
        f"{row['state_epoch']} was refused: {ERRORS[row['error_code']].meaning}"
        for row in rows.select(["call", "leader_epoch", "state_epoch", "error_code"]).to_pylist()
    ]
    return _findings("fenced", rows, words)


def unlisted_errors(tables: Mapping[str, Arrow]) -> pa.Table:
    """Find answers with an error that Kafka does not give to that request (SEC-05).

    What answers it is then no Kafka broker, one with a defect, or one that is newer than this.
    """
    found = []
    for rows, api, code in failed(tables):
        pairs = pc.binary_join_element_wise(api, code.cast(pa.string()), " ")
        unlisted = pc.and_not(pc.is_in(api, pa.array(list(ANSWERS))), pc.is_in(pairs, _listed()))
        words = [
            f"{asked} was answered with {in_words(number)}, which Kafka does not list for it"
            for asked, number in zip(
                api.filter(unlisted).to_pylist(), code.filter(unlisted).to_pylist(), strict=True
            )
        ]
        found.append(_findings("unlisted error", rows.filter(unlisted), words))
    return pa.concat_tables(found)


def partial_deletes(calls: pa.Table) -> pa.Table:
    """Find topics of which the state of some partitions was deleted, and of others not (ADM-01).

    Leaders delete states one by one, so this may also be a deletion that goes on.
    """
    good = pc.equal(calls.column("error_code"), 0)
    kinds = pc.is_in(calls.column("call"), pa.array(["initialize", "write", "delete"]))
    rows, first = series(calls.filter(pc.and_(good, kinds).fill_null(False)), _SHARE_PARTITION)
    # The last call of each share partition says whether it has a state.
    last = rows.filter(pa.array(np.append(first[1:], len(first) > 0)[: len(first)]))
    gone = pc.equal(last.column("call"), "delete")
    return _partial(last.select([*_SHARE_PARTITION, "timestamp"]), gone)


def partial_deletes_of_records(history: Arrow) -> pa.Table:
    """Find the same by tombstones in the state topic.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`.
    """
    rows, first = series(
        as_table(history),
        _SHARE_PARTITION,
        _RECORD,
    )
    last = rows.filter(pa.array(np.append(first[1:], len(first) > 0)[: len(first)]))
    gone = pc.equal(last.column("record_kind"), "tombstone")
    times = last.column("record_timestamp").cast(INSTANT)
    return _partial(last.select(list(_SHARE_PARTITION)).append_column("timestamp", times), gone)


def _partial(last: pa.Table, gone: pa.Array) -> pa.Table:
    table = last.append_column("gone", flat(gone).cast(pa.int64()))
    topics = table.group_by(["group_id", "topic_id"]).aggregate(
        [("gone", "sum"), ("gone", "count"), ("timestamp", "max")]
    )
    some = pc.and_(
        pc.greater(topics.column("gone_sum"), 0),
        pc.less(topics.column("gone_sum"), topics.column("gone_count")),
    )
    rows = topics.filter(some).rename_columns(
        ["group_id", "topic_id", "deleted", "all", "timestamp"]
    )
    words = [
        f"the state of {deleted} of {count} partitions was deleted: the deletion goes on, or "
        "stopped halfway"
        for deleted, count in zip(
            rows.column("deleted").to_pylist(), rows.column("all").to_pylist(), strict=True
        )
    ]
    return _findings("partial delete", rows, words)


def unrecorded_writes(tables: Mapping[str, Arrow], history: Arrow) -> pa.Table:
    """Find writes that a coordinator confirmed, and no record in the state topic.

    Only writes after the first record of their share partition are looked for, since the topic is
    pruned, and only those before the last record of all, since the log may go on after the history
    was read.
    """
    calls, requests = as_table(tables["state_calls"]), as_table(tables["requests"])
    good = pc.and_(pc.equal(calls.column("call"), "write"), pc.equal(calls.column("error_code"), 0))
    writes = calls.filter(good.fill_null(False))
    line = ("source", "position")
    of = pc.index_in(keys(writes, line), keys(requests, line))
    began = integers(requests.take(of), "began") - _SLACK
    ended = integers(writes, "timestamp") + _SLACK
    records = as_table(history)
    at = 1000 * integers(records, "record_timestamp")
    names = pa.concat_arrays([keys(part, _SHARE_PARTITION) for part in (writes, records)])
    codes = names.dictionary_encode().indices.to_numpy().astype(np.int64)
    mine, theirs = codes[: writes.num_rows], codes[writes.num_rows :]
    moments = np.unique(np.concatenate([began, ended, at]))
    step = len(moments) + 1
    have = np.sort(theirs * step + np.searchsorted(moments, at))
    # A record has its time in milliseconds: it may seem older than what made it.
    low = np.searchsorted(have, mine * step + np.searchsorted(moments, began))
    high = np.searchsorted(have, mine * step + np.searchsorted(moments, ended), side="right")
    is_known = np.searchsorted(have, mine * step) < low
    is_read = ended < at.max(initial=0)
    bad = (low == high) & is_known & is_read
    words = ["the coordinator confirmed a write, and the state topic has no record of it"]
    return _findings("write without a record", writes.filter(pa.array(bad)), words * int(bad.sum()))


# ---- rows ----------------------------------------------------------------------------------------


def _fell(what: str, before: NDArray[Any], now: NDArray[Any]) -> list[str]:
    pairs = zip(before.tolist(), now.tolist(), strict=True)
    return [f"{what} {new} after {old}: it never goes back" for old, new in pairs]


def _findings(name: str, rows: pa.Table, words: Sequence[str]) -> pa.Table:
    there = set(rows.column_names)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in there - {"finding", "summary"}
        else pa.nulls(rows.num_rows, field.type)
        for field in REQUEST_FINDINGS
    ]
    columns[0] = pa.repeat(pa.scalar(name), rows.num_rows)
    columns[-1] = pa.array(words, pa.string())
    return pa.table(columns, schema=REQUEST_FINDINGS)


@cache
def _listed() -> pa.Array:
    """Requests with the errors that Kafka lists for them; pyarrow loads pandas to make it."""
    return pa.array(
        [
            f"{api} {code}"
            for api, names in ANSWERS.items()
            for code in (0, *(code for code, error in ERRORS.items() if error.name in names))
        ]
    )
