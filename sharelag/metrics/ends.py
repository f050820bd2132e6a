"""End offsets of topic partitions over time, interpolated between known ones.

The interpolation is linear. Before the first and after the last known end the end is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.columns import numbers
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat, keys

PARTITION = ("topic_id", "partition")


@dataclass(frozen=True)
class Ends:
    """Known end offsets, sorted by topic partition and time, and the topic partition of each row.

    ``place`` and ``rows`` use the same numbers for topic partitions, from 0.
    """

    place: NDArray[np.int64]  # [known ends]
    time: NDArray[np.int64]
    end: NDArray[np.int64]  # non-decreasing within a topic partition
    rows: NDArray[np.int64]  # [rows]

    @cached_property
    def by_time(self) -> _Steps:
        """The numbers to look a time up by."""
        return _number(self.place, self.time)

    @cached_property
    def by_end(self) -> _Steps:
        """The numbers to look an end offset up by."""
        return _number(self.place, self.end)


def known_ends(lag: Arrow, past_offsets: Arrow, until: int) -> Ends:
    """Return the known ends of the topic partitions in a lag table, including those of its rows.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    past_offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS` at any moments, in any order.
    until : int
        Milliseconds; later ends are ignored.
    """
    mine, past = keys(lag, PARTITION), keys(past_offsets, PARTITION)
    places = pc.index_in(pa.chunked_array([mine, past]), pc.unique(mine).drop_null())
    codes = flat(places).fill_null(-1).to_numpy().astype(np.int64)
    time, timed = _of_both(lag, past_offsets, "as_of")
    end, ended = _of_both(lag, past_offsets, "end_offset")
    is_past = np.arange(len(codes)) >= lag.num_rows
    used = np.flatnonzero(timed & ended & (codes >= 0) & (~is_past | (time <= until)))
    order = used[np.lexsort((end[used], time[used], codes[used]))]
    return Ends(codes[order], time[order], _risen(codes[order], end[order]), codes[: lag.num_rows])


def time_of(ends: Ends, offset: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Estimate when the end of each row's topic partition reached an offset.

    Returns
    -------
    int64[rows], bool[rows]
        Milliseconds, and whether they are known. If the end stayed there for some time, the last
        moment of that time.
    """
    return _between(ends, ends.by_end, ends.end, ends.time, offset)


def end_at(ends: Ends, time: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Estimate the end offset of each row's topic partition at a time.

    Parameters
    ----------
    ends : Ends
    time : int64[rows]
        Milliseconds.

    Returns
    -------
    int64[rows], bool[rows]
        Offsets, and whether they are known.
    """
    return _between(ends, ends.by_time, ends.time, ends.end, time)


def first_time(ends: Ends) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the first moment at which the end of each row's topic partition is known."""
    at = np.searchsorted(ends.place, ends.rows, side="left")
    known = at < np.searchsorted(ends.place, ends.rows, side="right")
    return np.append(ends.time, 0)[np.where(known, at, -1)], known


class _Steps(NamedTuple):
    """One ascending number for (topic partition, x), so that all rows are looked up at once."""

    values: NDArray[np.int64]  # of x, each once, ascending
    numbered: NDArray[np.int64]  # [known ends]


def _number(place: NDArray[np.int64], x: NDArray[np.int64]) -> _Steps:
    values = np.unique(x)
    return _Steps(values, place * (len(values) + 1) + np.searchsorted(values, x, side="right"))


def _between(
    ends: Ends,
    steps: _Steps,
    x: NDArray[np.int64],
    y: NDArray[np.int64],
    wanted: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Interpolate between the last point that is not beyond the target and the first that is."""
    if not len(x):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    values, numbered = steps
    sought = ends.rows * (len(values) + 1) + np.searchsorted(values, wanted, side="right")
    after = np.searchsorted(numbered, sought, side="right")
    known = (after > 0) & (after < len(x))
    after = np.where(known, after, 0)
    before = np.maximum(after - 1, 0)
    known &= (ends.place[before] == ends.rows) & (ends.place[after] == ends.rows)
    share = np.where(known, wanted - x[before], 0) / np.where(known, x[after] - x[before], 1)
    return y[before] + np.rint(share * (y[after] - y[before])).astype(np.int64), known


def _of_both(
    lag: Arrow, past_offsets: Arrow, name: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    (now, now_known), (past, past_known) = numbers(lag, name), numbers(past_offsets, name)
    return np.concatenate([now, past]), np.concatenate([now_known, past_known])


def _risen(place: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Raise ends that went back (an unclean election lost records) to the highest before."""
    steps, rank = np.unique(end, return_inverse=True)
    highest = np.maximum.accumulate(place * len(steps) + rank)
    return np.asarray(steps[highest - place * len(steps)] if len(steps) else end)
