"""Who was a member of which group from when to when, by the heartbeats in a log of requests.

A heartbeat says only what has changed: without a subscription or an assignment the one before holds
(KIP-932, "ShareGroupHeartbeat"). A member joins with epoch 0 and leaves with -1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.request_rows import integers, series
from sharelag.model.kafka_errors import ERRORS
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat
from sharelag.schemas.requests import MEMBERSHIPS

_Ints: TypeAlias = NDArray[np.int64]
_Flags: TypeAlias = NDArray[np.bool_]
#: What a heartbeat may leave out, since it is as before.
_KEPT = ("rack_id", "subscribed_topic_names", "assigned_partitions")
#: With these the coordinator says that it does not have the member, or not with this epoch.
_REMOVED = [
    code
    for code, error in ERRORS.items()
    if error.name in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH")
]
_JOINS, _LEAVES = 0, -1
_ENDS = ["removed", "left", "joined again", "changed"]


def memberships(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return who was a member, and what each had subscribed to and was assigned.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        ``requests`` and ``heartbeats`` of `sharelag.schemas.requests.REQUEST_TABLES`: all of the
        groups that are wanted.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.MEMBERSHIPS`, by group, member and time. A member that is
        silent until its session times out does not end: no request says that it is gone.
    """
    beats = as_table(tables["heartbeats"])
    code = beats.column("error_code")
    removed = pc.is_in(code, pa.array(_REMOVED, pa.int16()))
    told = pc.or_(pc.equal(code, 0).fill_null(False), removed)
    rows, first = series(beats.filter(told), ("group_id", "member_id"))
    if not rows.num_rows:
        return MEMBERSHIPS.empty_table()
    asked, removed = integers(rows, "member_epoch"), integers(rows, "error_code") != 0
    joins, leaves = (asked == _JOINS) & ~removed, (asked == _LEAVES) & ~removed
    ends = removed | leaves
    begins = first | joins | np.append(False, ends[:-1])
    place = np.arange(rows.num_rows)
    life = np.maximum.accumulate(np.where(begins, place, 0))
    kept = {name: _kept(rows.column(name), ~ends, life) for name in _KEPT}
    state = [_code(_texts(kept[name])) for name in _KEPT]
    state.append(integers(rows, "answered_epoch"))
    changed = np.append(False, np.any([one[1:] != one[:-1] for one in state], axis=0))
    # Of a member that is gone where the log begins, nothing but its end is known.
    opens = (~ends & (begins | changed)) | (ends & first)
    events = np.flatnonzero(opens | ends)
    mine = np.flatnonzero(opens[events])
    return _spans(rows, kept, _Events(events[mine], _after(events, mine), first, joins, ends, life))


class _Events:
    """Rows at which spans open, and the row of the same member that ends each; -1: none."""

    def __init__(
        self, at: _Ints, after: _Ints, first: _Flags, joins: _Flags, ends: _Flags, life: _Ints
    ) -> None:
        gone = ends[at]
        other = (after >= 0) & first[after]
        self.at, self.joins, self.ends = at, joins, ends
        self.is_over = gone
        self.until = np.where(gone, at, np.where(other, -1, after))
        self.joined = np.where(joins[life[at]], life[at], -1)


def _after(events: _Ints, mine: _Ints) -> _Ints:
    """Return the event after each of some; -1 after the last."""
    return np.append(events, -1)[mine + 1]


def _spans(rows: pa.Table, kept: Mapping[str, pa.Array], found: _Events) -> pa.Table:
    until = found.until
    refused = integers(rows, "error_code")[until] != 0
    why = np.select(
        [found.ends[until] & refused, found.ends[until], found.joins[until]], [0, 1, 2], 3
    )
    ended = pa.array(_ENDS).take(pa.array(why, mask=until < 0))
    taken = rows.take(pa.array(found.at))
    times = flat(rows.column("timestamp"))
    epochs = integers(rows, "answered_epoch")[found.at]
    columns = {name: flat(taken.column(name)) for name in ("group_id", "member_id")} | {
        "since": _at(times, np.where(found.is_over, -1, found.at)),
        "until": _at(times, until),
        "ended_by": ended,
        "joined": _at(times, found.joined),
        "member_epoch": pa.array(epochs, pa.int32(), mask=found.is_over),
        "heartbeats": pa.array(_beats(found, len(times))),
    }
    columns |= {name: column.take(pa.array(found.at)) for name, column in kept.items()}
    return pa.table([columns[field.name] for field in MEMBERSHIPS], schema=MEMBERSHIPS)


def _beats(found: _Events, rows: int) -> _Ints:
    """Return how many heartbeats each span has, without the one that ends it."""
    stop = np.append(found.at[1:], rows)
    good = np.append(0, np.cumsum(~found.ends))
    return np.asarray(good[stop] - good[found.at], np.int64)


def _kept(column: pa.ChunkedArray, counts: _Flags, life: _Ints) -> pa.Array:
    """Return what holds at each row: its own value, or the last one of the same life."""
    values = flat(column)
    place = np.arange(len(values))
    says = values.is_valid().to_numpy(zero_copy_only=False) & counts
    last = np.maximum.accumulate(np.where(says, place, -1))
    return _at(values, np.where(last >= life, last, -1))


def _at(values: pa.Array, rows: _Ints) -> pa.Array:
    """Take values of rows, null where a row is negative."""
    return values.take(pa.array(rows, mask=rows < 0))


def _texts(values: pa.Array) -> pa.Array:
    """Return a text for each value, the same for the same value; topics have no such characters."""
    if not pa.types.is_list(values.type):
        return values.cast(pa.string())
    items = pc.list_flatten(values)
    if pa.types.is_struct(items.type):
        parts = pc.struct_field(items, "partitions")
        numbers = pc.binary_join(pc.cast(parts, pa.list_(pa.string())), ",")
        items = pc.binary_join_element_wise(pc.struct_field(items, "topic_id"), numbers, ":")
    sizes = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, items), "\0")
    # No topics and no word of topics are two things.
    marked = pc.binary_join_element_wise("=", joined, "")
    return pc.if_else(values.is_valid(), marked, pa.scalar(None, pa.string()))


def _code(texts: pa.Array) -> _Ints:
    encoded = texts.dictionary_encode(null_encoding="encode").indices
    return np.asarray(encoded.to_numpy(zero_copy_only=False), np.int64)
