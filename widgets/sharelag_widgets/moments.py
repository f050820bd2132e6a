"""Windows at many moments as the columns that `WindowStrip` draws.

A moment is one row: where the window begins and ends, and its runs, if the table has them.
`sharelag.schemas.WINDOWS` has; `sharelag.schemas.HISTORY` has numbers only, which are shown as
numbers, without a place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.errors import InputError

from .columns import LARGEST, Column, smallest
from .selection import Key, isolate, key_text, keys_of

#: What says when a row was true; the first that the table has.
_TIMES = ("as_of", "record_timestamp", "write_timestamp")
_NEEDED = ("start_offset", "window_end_offset")
_RUN_FIELDS = ("first_offset", "last_offset", "delivery_state", "delivery_count")


class End(NamedTuple):
    """The log end of a share partition, and its time in milliseconds; NaN where not known."""

    offset: float
    time: float


_NO_END = End(np.nan, np.nan)


class Moments(NamedTuple):
    """Windows by share partition and time.

    ``at`` are the first rows of each share partition; ``times`` are milliseconds; ``runs_at`` are
    the first runs of each row, and ``runs`` are first offset, last offset, delivery state, delivery
    count.
    """

    keys: tuple[Key, ...]
    labels: tuple[str, ...]
    at: NDArray[np.int64]
    numbers: dict[str, NDArray[np.float64]]  # a value a row, NaN is unknown
    itemised: bool
    runs_at: NDArray[np.int64]
    runs: NDArray[np.int64]  # runs x 4

    def runs_of(self, row: int) -> NDArray[np.int64]:
        """Return the runs of a row."""
        return self.runs[self.runs_at[row] : self.runs_at[row + 1]]


def moments_of(
    rows: pa.Table, keys: tuple[str, ...], labels: Mapping[Key, str], ends: Mapping[Key, End]
) -> Moments:
    """Return the moments in a table, each share partition's sorted by time.

    Rows are `sharelag.schemas.WINDOWS` or `HISTORY`, also with ``end_offset`` and ``topic`` beside;
    a share partition, the values of ``keys``, is called by its label, else by topic (or topic id),
    partition and group. ``ends`` are for tables without them: one of a time after its share
    partition's last record makes a separate moment, since that record knew nothing of it; else it
    is that of the last moment.
    """
    if missing := [name for name in _NEEDED if name not in rows.schema.names]:
        raise InputError(
            f"the table has no column {', '.join(missing)}: give windows or a history, as "
            "sharelag.windows and "
            "sharelag.history return them"
        )
    by_row = keys_of(rows, keys)
    time = next((name for name in _TIMES if name in rows.schema.names), None)
    times = numbers_of(rows, time)
    chosen = tuple(dict.fromkeys(by_row))
    place = {key: n for n, key in enumerate(chosen)}
    codes = np.array([place[key] for key in by_row], np.int64)
    order = np.lexsort((times, codes))
    known_ends = [ends.get(key, _NO_END) for key in chosen]
    lacking = np.isnan(numbers_of(rows, "end_offset"))[order]
    order, now = _with_now(order, codes[order], np.where(lacking, times[order], np.inf), known_ends)
    times = np.where(now, [known_ends[code].time for code in codes[order]], times[order])
    rows = rows.take(pa.array(order))
    itemised = "runs" in rows.schema.names and pa.types.is_list(rows.schema.field("runs").type)
    runs_at, runs = (
        _runs(rows) if itemised else (np.zeros(len(rows) + 1, np.int64), np.zeros((0, 4), np.int64))
    )
    names = {
        "start": "start_offset",
        "head": "effective_start_offset",
        "window_end": "window_end_offset",
    }
    names |= {"end": "end_offset", "available": "window_available", "complete": "window_complete"}
    numbers = {ours: numbers_of(rows, theirs) for ours, theirs in names.items()} | {"time": times}
    numbers["head"] = np.where(np.isnan(numbers["head"]), numbers["start"], numbers["head"])
    if any(np.nanmax(values, initial=0) > LARGEST for values in numbers.values()):
        raise InputError("an offset is beyond 2^53, which a browser cannot show exactly")
    found = {key: _label(row, key) for key, row in _first_rows(rows, keys)} if len(rows) else {}
    words = tuple(labels.get(key, found.get(key, "")) for key in chosen)
    at = np.searchsorted(codes[order], np.arange(len(chosen) + 1))
    last = at[1:] - 1
    offsets = np.array([end.offset for end in known_ends], np.float64)
    numbers["end"][last] = np.where(np.isnan(numbers["end"][last]), offsets, numbers["end"][last])
    return Moments(chosen, words, at, numbers, itemised, runs_at, runs)


def _with_now(
    order: NDArray[np.int64],
    codes: NDArray[np.int64],
    times: NDArray[np.float64],
    ends: Sequence[End],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the last row of each share partition again, where its log end has a later time."""
    last = np.searchsorted(codes, np.arange(len(ends)), side="right") - 1
    later = last[np.array([end.time for end in ends], np.float64) > times[last]]
    place = later + 1
    return np.insert(order, place, order[later]), np.insert(np.zeros(len(order), bool), place, True)


def moment_columns(moments: Moments) -> dict[str, Column]:
    """Return the same as columns for the browser; runs are relative to their start offset."""
    start = np.nan_to_num(moments.numbers["start"]).astype(np.int64)
    of_run = np.repeat(np.arange(len(start)), np.diff(moments.runs_at))
    first, last, state, count = moments.runs.T
    numbers = {
        name: Column(values, "time" if name == "time" else "number")
        for name, values in moments.numbers.items()
    }
    return numbers | {
        "key": Column(
            np.arange(len(moments.keys), dtype=np.int32), "text", tuple(map(key_text, moments.keys))
        ),
        "label": Column(np.arange(len(moments.keys), dtype=np.int32), "text", moments.labels),
        "at": Column(moments.at.astype(np.uint32)),
        "runs_at": Column(moments.runs_at.astype(np.uint32)),
        "run_first": Column(smallest(first - start[of_run])),
        "run_length": Column(smallest(last + 1 - first)),
        "run_state": Column(np.clip(state, 0, 255).astype(np.uint8)),
        "run_count": Column(np.clip(count, 0, 65535).astype(np.uint16)),
        "itemised": Column(np.array([moments.itemised], np.uint8)),
    }


def numbers_of(rows: pa.Table, name: str | None) -> NDArray[np.float64]:
    """Return a column as numbers, times as milliseconds; NaN where null, or without the column."""
    if name is None or name not in rows.schema.names:
        return np.full(len(rows), np.nan)
    column = rows.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _runs(rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Runs that have an end before the start offset are clipped by who made the table, not here."""
    column = rows.column("runs").combine_chunks()
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(column)
    fields = [
        pc.struct_field(flat, [name]).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in _RUN_FIELDS
    ]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), np.stack(fields, axis=1)


def _first_rows(rows: pa.Table, keys: tuple[str, ...]) -> list[tuple[Key, dict[str, Any]]]:
    seen: dict[Key, int] = {}
    for n, key in enumerate(keys_of(rows, keys)):
        seen.setdefault(key, n)
    names = [
        name for name in ("topic", "topic_id", "partition", "group_id") if name in rows.schema.names
    ]
    first = (
        rows.select(names).take(pa.array(list(seen.values()), pa.int64())).to_pylist()
        if names
        else [{}] * len(seen)
    )
    return list(zip(seen, first, strict=True))


def _label(row: dict[str, Any], key: Key) -> str:
    topic = row.get("topic") or row.get("topic_id")
    if topic is None or row.get("partition") is None:
        return " / ".join(map(str, key))
    group = f" in {isolate(row['group_id'])}" if row.get("group_id") else ""
    return f"{isolate(topic)}-{row['partition']}{group}"
