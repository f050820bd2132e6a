"""What a dead-letter queue (KIP-1191) holds, by its headers, and which offsets were archived."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.errors import InputError
from sharelag.model import DeliveryState
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, flat
from sharelag.schemas.dead_letters import ARCHIVED_RUNS, COUNTED_LETTERS, LETTERS

#: Headers of a record of a queue, by Kafka's ``ShareGroupDLQStateManager``.
PREFIX = "__dlq.errors."
_NEEDED = {"group": "group_id", "topic": "topic", "partition": "partition", "offset": "offset"}
_HEADERS = _NEEDED | {"delivery.count": "delivery_count", "message": "message"}
#: A window has at most 10,000 offsets, and what lies between them; a longer batch is damaged.
_LONGEST = 10_000_000
#: Keys of the markers that end a transaction (``ControlRecordType``), and how their values
#: (``EndTransactionMarker``) begin and how long they are.
_MARKERS = pa.array([b"\0\0\0\0", b"\0\0\0\1"])  # it was aborted, it was committed
_MARKED, _MARKER_SIZE = b"\0\0", 6
_ARCHIVED, _ARCHIVING = int(DeliveryState.ARCHIVED), int(DeliveryState.ARCHIVING)


def letters_arrow(raw: Arrow) -> pa.Table:
    """Read the headers of records of a queue.

    Parameters
    ----------
    raw : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.dead_letters.WITH_HEADERS`.

    Returns
    -------
    pyarrow.Table
        `LETTERS`, a row a record. Of a header that is there twice the last counts.
    """
    table = as_table(raw)
    rows = table.num_rows
    lists = flat(table.column("headers"))
    parents = pc.list_parent_indices(lists).to_numpy()
    headers = pc.list_flatten(lists)
    names = pc.struct_field(headers, ["key"])
    values = pc.struct_field(headers, ["value"])
    texts = {name: _header(names, values, parents, rows, key) for key, name in _HEADERS.items()}
    key, value = flat(table.column("key")), flat(table.column("value"))
    copied = pc.or_(pc.is_valid(key), pc.is_valid(value))
    is_marker = pc.and_(
        pc.is_in(key, _MARKERS),
        pc.and_(pc.equal(pc.binary_length(value), _MARKER_SIZE), pc.starts_with(value, _MARKED)),
    ).fill_null(False)
    columns = {
        "queue": flat(table.column("topic")),
        "queue_partition": flat(table.column("partition")),
        "queue_offset": flat(table.column("offset")),
        "timestamp": flat(table.column("timestamp")),
        "copied": copied,
        "marker": pc.if_else(copied, is_marker, None),
        **texts,
    }
    for name in ("partition", "offset", "delivery_count"):
        kind = LETTERS.field(name).type
        columns[name] = _whole(texts[name], kind)
    wrong = pa.nulls(rows, pa.string())
    for key, name in _NEEDED.items():
        is_missing, is_bad = pc.is_null(texts[name]), pc.is_null(columns[name])
        said = pc.if_else(is_missing, f"no header {PREFIX}{key}", f"{PREFIX}{key} is not a number")
        wrong = pc.if_else(pc.and_(pc.is_null(wrong), is_bad), said, wrong)
    is_fine = pc.is_null(wrong)
    for name in _NEEDED.values():
        columns[name] = pc.if_else(is_fine, columns[name], None)
    columns["problem"] = wrong
    return pa.table({name: columns[name] for name in LETTERS.names}).cast(LETTERS)


def topic_ids_of(lag: Arrow) -> dict[str, str]:
    """Return the id of each topic that share partitions are of, where its name is known."""
    table = as_table(lag)
    names, ids = (table.column(name).to_pylist() for name in ("topic", "topic_id"))
    return {name: one for name, one in zip(names, ids, strict=True) if name is not None}


def counted_letters(
    letters: Arrow, names: Mapping[str, str], groups: frozenset[str] = frozenset()
) -> pa.Table:
    """Find the share partitions of letters, and put those with the same problem together.

    Parameters
    ----------
    letters : pyarrow.RecordBatch or pyarrow.Table
        `LETTERS`.
    names : mapping of str to str
        Topic to topic id; a letter of another topic has its name, which is an id where a broker
        did not know the name.
    groups : frozenset of str
        Only letters of these; empty: of all.

    Returns
    -------
    pyarrow.Table
        `COUNTED_LETTERS`.
    """
    table = as_table(letters)
    is_fine = pc.is_null(table.column("problem"))
    fine = table.filter(is_fine)
    if groups:
        wanted = pa.array(sorted(groups), pa.string())
        fine = fine.filter(pc.is_in(fine.column("group_id"), wanted))
    topics = flat(fine.column("topic"))
    at = pc.index_in(topics, pa.array(list(names), pa.string()))
    ids = pc.coalesce(pa.array(list(names.values()), pa.string()).take(at), topics)
    fine = fine.append_column("topic_id", ids)
    fine = fine.append_column("records", pa.array(np.ones(fine.num_rows, np.int64)))
    sums = (
        table.filter(pc.invert(is_fine))
        .group_by(["queue", "queue_partition", "problem"])
        .aggregate([("queue_offset", "min"), ("queue_offset", "count")])
        .rename_columns(["queue", "queue_partition", "problem", "queue_offset", "records"])
    )
    missing = [field for field in COUNTED_LETTERS if field.name not in sums.column_names]
    for field in missing:
        sums = sums.append_column(field, pa.nulls(sums.num_rows, field.type))
    parts = [fine, sums.select(COUNTED_LETTERS.names)]
    return pa.concat_tables([part.cast(COUNTED_LETTERS) for part in parts])


def _header(
    names: pa.Array, values: pa.Array, parents: NDArray[np.int64], rows: int, key: str
) -> pa.Array:
    """Return the last value of a header of each record; null where there is none in UTF-8."""
    chosen = pc.equal(names, PREFIX + key).fill_null(False).to_numpy(zero_copy_only=False)
    place = np.full(rows, -1, np.int64)
    place[parents[chosen]] = np.flatnonzero(chosen)
    found = values.take(pa.array(place, mask=place < 0))
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:  # hostile bytes in some of them
        texts = [_text(value) for value in found.to_pylist()]
        return pa.array(texts, pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _whole(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read whole numbers that are not negative; null where it is anything else."""
    digits = pc.match_substring_regex(texts, r"^[0-9]{1,18}$").fill_null(False)
    numbers = pc.if_else(digits, texts, None).cast(pa.int64())
    most = np.iinfo(kind.to_pandas_dtype()).max
    return pc.if_else(pc.less_equal(numbers, int(most)), numbers, None).cast(kind)


def archived_arrow(records: Arrow) -> pa.Table:
    """Return the offsets that a history has as archived, or as on their way there.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`: all of some share partitions, in log order.

    Returns
    -------
    pyarrow.Table
        `ARCHIVED_RUNS`. An offset that was archived once counts as archived, since when first.

    Raises
    ------
    InputError
        A state batch is longer than a window can be.
    """
    table = as_table(records)
    lists = flat(table.column("state_batches"))
    parents = pc.list_parent_indices(lists)
    batches = pc.list_flatten(lists)
    states = pc.struct_field(batches, ["delivery_state"])
    kept = pc.is_in(states, pa.array([_ARCHIVED, _ARCHIVING], states.type))
    batches, parents = batches.filter(kept), parents.filter(kept)
    if not len(batches):
        return ARCHIVED_RUNS.empty_table()
    first, last, state, count = (
        pc.struct_field(batches, [name]).to_numpy().astype(np.int64)
        for name in ("first_offset", "last_offset", "delivery_state", "delivery_count")
    )
    rows = table.take(parents)
    length = last - first + 1
    if length.max() > _LONGEST:
        at = int(length.argmax())
        where = [rows.column(name)[at].as_py() for name in ("record_partition", "offset")]
        raise InputError(
            f"the state record {where[0]}:{where[1]} has a batch of {length[at]:,} offsets, more "
            "than a window can have: it is damaged, so there is no ledger of its group"
        )
    length = np.maximum(length, 0)
    share = codes_of([flat(rows.column(name)) for name in SHARE_PARTITION])
    which = np.repeat(np.arange(len(first)), length)
    offset = np.repeat(first - (np.cumsum(length) - length), length) + np.arange(len(which))
    # Log order is kept among equals: the last state of an offset, and since when it has it.
    is_done = state[which] == _ARCHIVED
    order = np.lexsort((np.arange(len(which)), ~is_done, offset, share[which]))
    begins = np.ones(len(order), bool)
    ordered = share[which][order], offset[order]
    begins[1:] = (np.diff(ordered[0]) != 0) | (np.diff(ordered[1]) != 0)
    chosen = order[begins]  # the first that archived it, else the first that archives it
    which, offset = which[chosen], offset[chosen]
    changes = np.ones(len(which), bool)
    same = [share[which], which]
    changes[1:] = np.logical_or.reduce([np.diff(one) != 0 for one in same])
    changes[1:] |= np.diff(offset) != 1
    starts = np.flatnonzero(changes)
    ends = np.append(starts[1:], len(which)) - 1
    of = pa.array(which[starts])
    place = [flat(rows.column(name)).cast(pa.string()) for name in ("record_partition", "offset")]
    found = {name: flat(rows.column(name)).take(of) for name in SHARE_PARTITION} | {
        "first_offset": offset[starts],
        "last_offset": offset[ends],
        "delivery_state": state[which[starts]],
        "delivery_count": count[which[starts]],
        "since": flat(rows.column("timestamp")).take(of),
        "record": pc.binary_join_element_wise(*place, ":").take(of),
    }
    return pa.table(found).select(ARCHIVED_RUNS.names).cast(ARCHIVED_RUNS)


def codes_of(columns: list[pa.Array]) -> NDArray[np.int64]:
    """Return one number for each combination of values."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = column.dictionary_encode(null_encoding="encode")
        more = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(values.dictionary) + 1) + more, return_inverse=True)
    return codes
