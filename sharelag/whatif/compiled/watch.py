"""The lag and age of a share group for an autoscaler, from written records, without stuck offsets.

`sharelag export` determines stuck offsets from the records of a cluster; here they follow from the
writes to the share coordinator and the log. The rules are those of `sharelag.metrics.causes`; a
test compares both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from sharelag.model import TERMINAL_STATES, DeliveryState, StateBatch, Window
from sharelag.whatif.autoscale import Metric
from sharelag.whatif.compiled.brokers import Brokers
from sharelag.whatif.compiled.outcome import Writes
from sharelag.whatif.scenario import Scenario, Settings
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.tables import Tally

_AVAILABLE, _ARCHIVED = int(DeliveryState.AVAILABLE), int(DeliveryState.ARCHIVED)


def stuck(
    window: Window, log: Log, settings: Settings, since: int, now: int, is_compacted: bool
) -> int:
    """Return the offsets of a share partition that more members would not finish, at most its lag.

    The window is as persisted. An offset that has not moved for longer than a lock lasts is stuck.
    ``since`` is when the first unfinished offset became the first, in microseconds like ``now``.
    """
    effective, runs = window.effective_start_offset, window.runs
    if effective is None:
        return 0
    limits, patience = settings.limits, settings.limits.lock_duration_ms * MS
    end = log.end(now)
    stable = log.fetch_end(now) if settings.isolation_level == "read_committed" else end
    head = max(effective, log.start)
    window_end = max((one.last_offset + 1 for one in window.batches), default=window.start_offset)
    lag = end - window.start_offset - window.delivery_complete_count
    complete = _size(runs, _is_terminal) + effective - window.start_offset
    left = max(end, window_end) - head - _size(runs, _is_terminal, head)
    if lag <= 0 or left <= 0:
        return 0
    first = runs[0].first_offset if runs else head
    head_length = first - head if first > head else runs[0].last_offset + 1 - head if runs else 0
    unread_from = max(window_end, window.start_offset)
    unread = max(end - unread_from, 0)
    least = max(limits.delivery_count_limit - 1, 2)  # delivery count before the last attempt
    last_try = _size(
        runs, lambda run: run.delivery_state == _AVAILABLE and run.delivery_count >= least
    )
    given_up = any(
        run.delivery_state == _ARCHIVED and run.delivery_count >= limits.delivery_count_limit
        for run in window.batches
    )
    is_same = now - since > patience
    next_record = _next_record(log, head, stable, end)
    is_hole = next_record >= head + head_length
    nothing = next_record >= end or (
        is_hole
        and (unread == 0 or _next_record(log, unread_from, stable, end) >= end)
        and not _size(runs, lambda run: run.delivery_state == _AVAILABLE)
    )
    is_open = stable < end and now - log.append_time(stable) > patience
    gone = len(log.gaps(head, end - 1)) if is_compacted else 0
    lost = max(end, window_end) - window.start_offset - complete - left
    held = {
        "poison_records": last_try or (head_length if given_up else 0),
        "head_of_line": head_length
        if complete > head - window.start_offset and is_same and not is_hole
        else 0,
        "window_full": unread if window_end - head >= limits.max_record_locks and is_same else 0,
        "open_transaction": end - max(stable, head) if is_open else 0,
        "markers": left if nothing and stable >= end and not is_compacted else 0,
        "compaction_holes": gone if 2 * gone >= left else 0,
        "records_deleted": 0 if lost <= 1 and end == log.start else lost,
    }
    return min(max(0, *held.values()), lag)


def _is_terminal(run: StateBatch) -> bool:
    return run.delivery_state in TERMINAL_STATES


def _size(runs: Iterable[StateBatch], chosen: Callable[[StateBatch], bool], start: int = 0) -> int:
    return sum(
        max(run.last_offset - max(run.first_offset, start) + 1, 0) for run in runs if chosen(run)
    )


def _next_record(log: Log, offset: int, stable: int, end: int) -> int:
    """Return the first offset from ``offset`` on with a record for the group, or the end offset."""
    while offset < stable:
        if log.gaps(offset, offset):
            offset += 1
        else:
            batch = bisect_right(log.bases, offset) - 1
            if log.bases[batch] not in log.aborted:
                return offset
            offset = log.bases[batch + 1]
    return end


class Watch:
    """The view of a share group that an autoscaler has."""

    def __init__(
        self, scenario: Scenario, clock: Clock, brokers: Brokers, states: Writes, tally: Tally
    ) -> None:
        self._settings, self._clock, self._brokers = scenario.settings, clock, brokers
        self._states, self._tally = states, tally
        starts = [(topic, start) for topic in scenario.topics for start in topic.starts]
        self._compacted = [
            topic.compact_ms is not None or bool(start.missing) for topic, start in starts
        ]

    def lag_and_age(self, metric: Metric) -> tuple[int | None, int]:
        """Return lag and age; ``lag_excluding_stuck`` excludes the offsets of `stuck`."""
        now, brokers = self._clock.now, self._brokers
        ends = [log.end(now) for log in brokers.logs]
        ages = [
            max(now - log.append_time(brokers.start_offset(place)), 0) // MS
            for place, log in enumerate(brokers.logs)
            if brokers.lag(place) > 0
        ]
        known = ((place, end, self._states.written(place)) for place, end in enumerate(ends))
        lags = {place: max(end - sum(one), 0) for place, end, one in known if one is not None}
        if metric == "lag_excluding_stuck":
            windows = {place: self._states.window(place) for place, lag in lags.items() if lag}
            there = {place: window for place, window in windows.items() if window is not None}
            since = self._heads_since(there)
            for place, window in there.items():
                log, is_compacted = brokers.logs[place], self._compacted[place]
                held = stuck(window, log, self._settings, since[place], now, is_compacted)
                lags[place] -= min(held, lags[place])
        return sum(lags.values()) if lags else None, max(ages, default=0)

    def _heads_since(self, windows: Mapping[int, Window]) -> list[int]:
        """Return when the last offset before each head was finished, in microseconds."""
        heads, since = np.full(len(self._compacted), -1), np.zeros(len(self._compacted), np.int64)
        for place, window in windows.items():
            heads[place] = -1 if (head := window.effective_start_offset) is None else head
        rows = self._tally.list_finished()
        before = rows[rows[:, 1] < heads[rows[:, 0]]]
        np.maximum.at(since, before[:, 0], before[:, 3])
        return since.tolist()
