"""The log of a topic partition, drawn for the whole run in advance.

Producers do not react to consumers, so all future record batches are drawn at once, in steps
between which the simulation can be cancelled: those of a busy day take a while.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sharelag.errors import InputError
from sharelag.whatif.scenario import PartitionStart, Producer, Scenario
from sharelag.whatif.simulation.clock import check
from sharelag.whatif.simulation.streams import ARRIVALS, Longs, generator

_HOUR_MS = 3_600_000
#: The time at which records behind an open transaction become readable.
_NEVER = np.iinfo(np.int64).max
#: Record batches that one process can hold, and draws in minutes.
_MOST_BATCHES = 200_000_000


class Log:
    """The log of one topic partition.

    ``bases`` are the base offsets of the record batches, and the end offset of the last. ``times``
    are the append times in microseconds, ascending, negative before the start. ``readable`` are the
    times from which fetches can read the record batches. ``missing`` are offsets without a record,
    ascending: compacted ones, which are also in ``removed``, and transaction markers. ``aborted``
    are base offsets of record batches that fetches skip. ``start`` is the current log start offset.
    From ``modelled_until`` on, the backlog is a single record batch, which is not read.
    """

    def __init__(
        self,
        bases: Longs,
        times: Longs,
        start: int = 0,
        removed: Sequence[int] = (),
        markers: Sequence[int] = (),
        readable: Longs | None = None,
        aborted: Sequence[int] = (),
        keys: Longs | None = None,
        modelled_until: int | None = None,
    ) -> None:
        # Memory views, because single elements are read, and they return Python's integers.
        self.bases: memoryview[int] = memoryview(bases)  # type: ignore[arg-type]
        self.times: memoryview[int] = memoryview(times)  # type: ignore[arg-type]
        self.readable: memoryview[int] = (
            self.times if readable is None else memoryview(readable)  # type: ignore[arg-type]
        )
        self.missing = sorted({*removed, *markers})
        self.aborted, self.removed, self.start = frozenset(aborted), sorted(removed), start
        self._keys, self.modelled_until = keys, modelled_until
        self._at = self._readable_at = 0

    def end(self, now: int) -> int:
        """Return the end offset (the high watermark) at a time; times must not decrease."""
        at, times = self._at, self.times
        if at < len(times) and times[at] <= now:
            self._at = at = bisect_right(times, now, at)
        return self.bases[at]

    def fetch_end(self, now: int) -> int:
        """Return the end of readable records: the last stable offset for ``read_committed``."""
        if self.readable is self.times:
            end = self.end(now)
            self._readable_at = self._at
            return end
        at, times = self._readable_at, self.readable
        if at < len(times) and times[at] <= now:
            self._readable_at = at = bisect_right(times, now, at)
        return self.bases[at]

    @property
    def known_end(self) -> int:
        """The end offset at the time of the last call."""
        return self.bases[self._at]

    def end_then(self, time: int) -> int:
        """Return the end offset at an earlier time."""
        return self.bases[bisect_right(self.times, time)]

    def next_readable(self) -> int | None:
        """Return when fetches can read more than at the last call; None: never."""
        if self._readable_at == len(self.readable):
            return None
        due = self.readable[self._readable_at]
        return None if due == _NEVER else due

    def batches(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the offset ranges of the readable record batches within ``first..last``."""
        begin = max(bisect_right(self.bases, first) - 1, 0)
        end = min(bisect_right(self.bases, last, begin), self._readable_at)
        return [(base, after - 1) for base, after in pairwise(self.bases[begin : end + 1])]

    def compact(self, now: int) -> None:
        """Remove records with a later record of the same key, except from the latest batch."""
        closed = bisect_right(self.times, now) - 1
        if self._keys is None or closed < 1:
            return
        known, bases = self._keys[:closed], np.array(self.bases[: closed + 1])
        mine = np.flatnonzero(known >= 0)
        _, from_behind = np.unique(known[mine][::-1], return_index=True)
        # The last record of the last record batch with a key stays.
        kept = bases[1:][mine[len(mine) - 1 - from_behind]] - 1
        batch = np.repeat(mine, np.diff(bases)[mine])
        offsets = np.arange(len(batch)) - np.searchsorted(batch, batch) + bases[batch]
        removed = np.setdiff1d(offsets[offsets >= self.start], kept).tolist()
        self.removed = sorted({*self.removed, *removed})
        self.missing = sorted({*self.missing, *removed})

    def append_time(self, offset: int) -> int:
        """Return when the record at an offset was appended."""
        return self.times[min(max(bisect_right(self.bases, offset) - 1, 0), len(self.times) - 1)]

    def gaps(self, first: int, last: int) -> list[int]:
        """Return the offsets in ``first..last`` without a record."""
        if not self.missing:
            return []
        return self.missing[bisect_left(self.missing, first) : bisect_right(self.missing, last)]


class _Appended(NamedTuple):
    """Appends of producers to one partition, with one entry per record batch and marker."""

    times: Longs
    sizes: Longs
    ends: Longs  # the end of the transaction
    is_marker: NDArray[np.bool_]
    is_aborted: NDArray[np.bool_]
    keys: Longs  # -1 without


_NOTHING = _Appended(*(np.zeros(0, kind) for kind in ("i8", "i8", "i8", "?", "?", "i8")))


def logs(scenario: Scenario, seed: int, modelled: int | None = None) -> list[list[Log]]:
    """Return the logs of all topics by partition, with at most ``modelled`` backlog records each.

    Logs have the whole backlog if it matters for committed reads, keys, or retention.
    """
    sizes = (expect_records(one, scenario)[1][-1] / one.batch_records for one in scenario.producers)
    if (batches := sum(sizes)) > _MOST_BATCHES:
        raise InputError(
            f"producers would append some {batches:,.0f} record batches: give a lower rate, more "
            f"batch_records, or less time, so that they are at most {_MOST_BATCHES:,}"
        )
    committed = scenario.settings.isolation_level == "read_committed"
    found, of_topic = [], defaultdict[str, list[tuple[int, Producer]]](list)
    for which, producer in enumerate(scenario.producers):
        of_topic[producer.topic].append((which, producer))
    for number, topic in enumerate(scenario.topics):
        arriving: list[list[_Appended]] = [[] for _ in topic.starts]
        for which, producer in of_topic[topic.name]:
            chance = generator(seed, ARRIVALS, number, which)
            times = _draw_times(producer, scenario, chance)
            there = np.searchsorted(np.array(topic.there_from()) * 1000, times, side="right")
            places, keys = _draw_places(producer, there, chance)
            # Sorted once, by small integers: a mask per place would read all batches each time.
            order = np.argsort(places.astype(np.min_scalar_type(len(arriving))), kind="stable")
            edges = np.searchsorted(places[order], np.arange(len(arriving) + 1))
            for place, mine in enumerate(arriving):
                own = order[edges[place] : edges[place + 1]]
                mine.append(_append(producer, times[own], keys[own], chance))
        is_whole = committed or topic.compact_ms is not None
        kept_ms = inf if topic.retention_ms is None else topic.retention_ms - scenario.duration_ms
        starts = zip(topic.starts, arriving, strict=True)
        upto = None if is_whole else modelled
        found.append([_build_log(one, mine, committed, upto, kept_ms) for one, mine in starts])
    return found


def _build_log(
    start: PartitionStart,
    arriving: list[_Appended],
    committed: bool,
    modelled: int | None,
    kept_ms: float,
) -> Log:
    check()
    known = start.window is not None and start.window.start_offset >= 0
    # No fetch needs earlier records; from there on, whole record batches follow each other.
    first = max(start.log_start_offset, start.window.start_offset if start.window and known else 0)
    end, each = start.end_offset, start.batch_records
    first -= (first - start.log_start_offset) % each
    open_from, modelled_until = start.open_from if committed else None, None
    if modelled is not None and known:
        upto = first + -(-modelled // each) * each
        # Like an open transaction. If members get near it, the run starts again with more records.
        if upto < end and (end - upto) / (end - first) * start.oldest_age_ms < kept_ms:
            open_from = modelled_until = upto
    bases = np.arange(first, modelled_until or end, each, dtype=np.int64)
    if open_from is not None and first < open_from < end:
        bases = np.union1d(bases, [open_from])  # a record batch belongs to one transaction
    parts = np.clip((end - bases) / max(end - first, 1), 0, 1)
    past = -np.rint(parts * start.oldest_age_ms * 1000).astype(np.int64)
    read = past if open_from is None else np.where(bases < open_from, past, _NEVER)
    later = _merge(arriving or [_NOTHING])
    edges = end + np.concatenate([[0], np.cumsum(later.sizes)])
    # Records behind an open transaction become readable when it ends.
    ends = later.ends if open_from is None else np.full_like(later.ends, _NEVER)
    readable = np.maximum.accumulate(ends)
    return Log(
        np.concatenate([bases, edges]).astype(np.int64),
        np.concatenate([past, later.times]),
        start.log_start_offset,
        start.missing,
        edges[:-1][later.is_marker].tolist(),
        None if open_from is None and not committed else np.concatenate([read, readable]),
        edges[:-1][later.is_aborted].tolist() if committed else (),
        np.concatenate([np.full(len(bases), -1), later.keys]),
        modelled_until,
    )


def _merge(arriving: Sequence[_Appended]) -> _Appended:
    if len(arriving) == 1 and not arriving[0].is_marker.any():
        return arriving[0]  # in order already
    order = np.argsort(np.concatenate([one.times for one in arriving]), kind="stable")
    return _Appended(*(np.concatenate(column)[order] for column in zip(*arriving, strict=True)))


def _append(producer: Producer, times: Longs, keys: Longs, chance: Generator) -> _Appended:
    """Return the record batches of one partition, and the markers of their transactions."""
    check()
    count, each = len(times), producer.transaction_batches
    sizes, no = np.full(count, producer.batch_records, np.int64), np.zeros(count, np.bool_)
    if not each or not count:
        return _Appended(times, sizes, times, no, no, keys)
    transaction = np.arange(count) // each
    last = np.minimum((np.arange(transaction[-1] + 1) + 1) * each, count) - 1
    ends = times[last] + round(producer.transaction_ms * 1000)
    aborted = chance.random(len(ends)) < producer.abort_share
    ones, yes = np.ones(len(ends), np.int64), np.ones(len(ends), np.bool_)
    return _Appended(
        np.concatenate([times, ends]),
        np.concatenate([sizes, ones]),
        np.concatenate([ends[transaction], ends]),
        np.concatenate([no, yes]),
        np.concatenate([aborted[transaction], ~yes]),
        # Aborted records and markers replace no others.
        np.concatenate([np.where(aborted[transaction], -1, keys), np.full(len(ends), -1)]),
    )


def _draw_times(producer: Producer, scenario: Scenario, chance: Generator) -> Longs:
    edges, passed = expect_records(producer, scenario)
    total = passed[-1] / producer.batch_records
    if producer.pattern == "steady":
        counts = np.arange(1, int(total) + 1, dtype=np.float64)
    else:
        counts = np.cumsum(chance.standard_exponential(int(total + 6 * total**0.5 + 20)))
        counts = counts[counts <= total]
    times = np.interp(counts * producer.batch_records, passed, edges)
    return np.rint(times * 1000).astype(np.int64)


def expect_records(
    producer: Producer, scenario: Scenario
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected records until the bounds (ms) of spans with a constant rate."""
    begin = producer.begin_ms
    end = max(scenario.duration_ms if producer.end_ms is None else producer.end_ms, begin)
    cuts = {begin, end} | {edge for one in producer.bursts for edge in (one.begin_ms, one.end_ms)}
    if producer.day:
        hour = -(scenario.begins_ms % _HOUR_MS)
        cuts |= set(range(hour, end + _HOUR_MS, _HOUR_MS))
    edges = sorted(cut for cut in cuts if begin <= cut <= end)
    factors = []
    for left in edges[:-1]:
        factor = producer.day[(scenario.begins_ms + left) // _HOUR_MS % 24] if producer.day else 1.0
        for burst in producer.bursts:
            factor *= burst.factor if burst.begin_ms <= left < burst.end_ms else 1.0
        factors.append(factor)
    amounts = np.diff(edges) * np.array(factors) * producer.rate / 1000
    return np.array(edges, np.float64), np.concatenate([[0.0], np.cumsum(amounts)])


def _draw_places(producer: Producer, there: Longs, chance: Generator) -> tuple[Longs, Longs]:
    """Return the partition and key of each record batch; ``there`` counts partitions by then."""
    check()
    count = len(there)
    none = np.full(count, -1, np.int64)
    if producer.keys:
        ranks = np.arange(1, producer.keys + 1, dtype=np.float64) ** -producer.key_skew
        hashes = np.array([zlib.crc32(str(key).encode()) for key in range(producer.keys)])
        keys = chance.choice(producer.keys, size=count, p=ranks / ranks.sum())
        return (hashes[keys] % there).astype(np.int64), keys.astype(np.int64)
    if producer.weights:
        shares = np.array(producer.weights) / sum(producer.weights)
        return chance.choice(len(shares), size=count, p=shares).astype(np.int64) % there, none
    return np.arange(count, dtype=np.int64) % there, none
