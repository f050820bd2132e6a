"""Facts about each share partition, side by side: the numbers that decide about causes."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.beginning import lag_began
from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import PARTITION, Ends, known_ends, time_of
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.loads import exploded
from sharelag.metrics.observed import parts_of
from sharelag.model import DeliveryState, milliseconds
from sharelag.model.settings import each_in_force
from sharelag.model.settings.queues import Queues
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys
from sharelag.tables.reasons import NO_START_OFFSET

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Facts:
    """One row per share partition, in the order of the lag table.

    Numbers are NaN where unknown, so that no comparison with them is true.
    """

    evidence: Evidence
    patience_given: timedelta | None = None
    #: Of the patience: causes that have held for so long are found, too.
    part: float = 1.0

    @classmethod
    def of(cls, evidence: Evidence, patience: timedelta | None = None) -> Facts:
        """Return the facts of some evidence, which keeps what was worked out of it."""
        found: Facts = evidence.facts.setdefault(patience, cls(evidence, patience))
        return found

    def younger(self, part: float) -> Facts:
        """Return the same for a part of the patience; all else was worked out already."""
        other = copy(self)
        vars(other).pop("patience", None)
        vars(other)["part"] = part
        return other

    @cached_property
    def now(self) -> int:
        """The moment in milliseconds; brokers' clocks may be ahead of this machine's."""
        last = np.nanmax(self.observed("last_finished"), initial=0)
        return max(milliseconds(self.evidence.as_of), int(last))

    @cached_property
    def patience(self) -> Floats:
        """Milliseconds until something counts as stuck; by default the lock duration."""
        given = self.evidence.patience if self.patience_given is None else self.patience_given
        if given is not None:
            return np.full(len(self.groups), self.part * (given / timedelta(milliseconds=1)))
        return self.part * self.setting("share.record.lock.duration.ms")

    @cached_property
    def drain(self) -> NDArray[Any]:
        """The forecast (column ``drain``) of the progress table."""
        kinds: NDArray[Any] = flat(self._progress.column("drain")).to_numpy(zero_copy_only=False)
        return kinds

    def setting_text(self, name: str) -> NDArray[Any]:
        """Return a setting of each share partition's group as text."""
        names = [str(self._settings[group][name].value) for group in self._names]
        return np.array(names, object)[self._group]

    @cached_property
    def refusals(self) -> NDArray[Any]:
        """Why brokers write no letters to the dead-letter queue of each share partition's group."""
        said = Queues.of(self.evidence.settings).refusals(self._names)
        return np.array([said.get(group, "") for group in self._names], object)[self._group]

    def lag(self, name: str) -> Floats:
        """Return a column of the lag table."""
        return self._column("lag", self.evidence.lag, name)

    def progress(self, name: str) -> Floats:
        """Return a column of the progress table; times in milliseconds."""
        return self._column("progress", self._progress, name)

    def observed(self, name: str) -> Floats:
        """Return a column of the observed table; times in milliseconds."""
        return self._column("observed", self._observed, name)

    def observed_text(self, name: str) -> list[str]:
        """Return a column of the observed table as texts; empty where unknown."""
        found: list[str] = flat(self._observed.column(name)).fill_null("").to_pylist()
        return found

    def since_each_part(self, name: str) -> Floats:
        """Return how much was finished or released from each tenth of the span to its end.

        Parameters
        ----------
        name : {"finished_bins", "released_bins"}

        Returns
        -------
        numpy.ndarray
            ``[rows, BINS]``: the whole span in the first column, its last tenth in the last.
        """
        parts = parts_of(self._observed, name)
        return np.asarray(np.cumsum(parts[:, ::-1], axis=1)[:, ::-1])

    @cached_property
    def groups(self) -> NDArray[Any]:
        """The group of each share partition."""
        names: NDArray[Any] = flat(self.evidence.lag.column("group_id")).to_numpy(
            zero_copy_only=False
        )
        return names

    @cached_property
    def behind(self) -> Bools:
        """Whether there are unfinished records."""
        return self.lag("effective_lag") > 0

    # ---- what the group is allowed and made of

    def setting(self, name: str) -> Floats:
        """Return a setting of each share partition's group as a number."""
        return self._of_group(
            {group: _number(values[name].value) for group, values in self._settings.items()}
        )

    @cached_property
    def reads_committed(self) -> Bools:
        """Whether the group's isolation level is read_committed."""
        return np.isin(self.groups, sorted(self.evidence.reads_committed))

    @cached_property
    def members(self) -> Floats:
        """Number of members of the group; NaN without the group's own records."""
        table = self.evidence.groups
        columns = (table.column(name).to_pylist() for name in ("group_id", "members"))
        counts = dict(zip(*columns, strict=True))
        return self._of_group({group: _number(counts.get(group)) for group in self._names})

    @cached_property
    def assigned(self) -> Floats:
        """Number of members with the share partition; NaN without the group's own records."""
        _, places, _ = exploded(self.evidence.members, "assigned_partitions")
        found = pc.value_counts(places)
        counts = pa.table({"key": found.field("values"), "count": found.field("counts")})
        mine = counts.column("count").take(pc.index_in(self._keys, flat(counts.column("key"))))
        return np.where(np.isnan(self.members), np.nan, mine.fill_null(0).to_numpy().astype(float))

    @cached_property
    def emptied(self) -> Floats:
        """Time when the group's last member left, in milliseconds."""
        table = self.evidence.groups
        times = dict(
            zip(table.column("group_id").to_pylist(), _floats(table, "emptied"), strict=True)
        )
        return self._of_group({group: times.get(group, np.nan) for group in self._names})

    # ---- the log

    @cached_property
    def waiting(self) -> Floats:
        """Records of a share partition that was never fetched; NaN where that is not known.

        A group whose ``share.auto.offset.reset`` is not earliest may skip what is there.
        """
        there = np.maximum(self.lag("end_offset") - self.lag("log_start_offset"), 0)
        from_earliest = self.setting_text("share.auto.offset.reset") == "earliest"
        return np.where(self.never_fetched & ((there == 0) | from_earliest), there, np.nan)

    @cached_property
    def left(self) -> Floats:
        """Lag, or what waits in a share partition that was never fetched; NaN where unknown."""
        return np.where(np.isnan(self.lag("lag")), self.waiting, self.lag("lag"))

    @property
    def left_lag(self) -> pa.Table:
        """The lag table with `left` as its column ``lag``."""
        lag, left = self.evidence.lag, self.left
        place = lag.schema.get_field_index("lag")
        column = pa.array(np.nan_to_num(left).astype(np.int64), mask=np.isnan(left))
        return lag.set_column(place, lag.schema.field(place), column)

    @cached_property
    def never_fetched(self) -> Bools:
        """True where the group has not finished or given back any record of the share partition."""
        reason = flat(self.evidence.lag.column("lag_reason")).fill_null("")
        return np.asarray(pc.equal(reason, NO_START_OFFSET).to_numpy(zero_copy_only=False), bool)

    @cached_property
    def stable_end(self) -> Floats:
        """The last stable offset, the limit of a read_committed group."""
        return _floats(self._logs, "last_stable_offset")

    @cached_property
    def ends(self) -> Ends:
        """The known ends of the topic partitions until now."""
        return known_ends(self.evidence.lag, self.evidence.past_offsets, self.now)

    @cached_property
    def stable_since(self) -> Floats:
        """Estimated time when the open transaction started, in milliseconds."""
        time, known = time_of(self.ends, np.nan_to_num(self.stable_end).astype(np.int64))
        return np.where(known & ~np.isnan(self.stable_end), time.astype(float), np.nan)

    @cached_property
    def is_compacted(self) -> Bools:
        """Whether the topic's cleanup policy includes compact."""
        policy = flat(self._logs.column("cleanup_policy")).cast(pa.string())
        return np.asarray(
            pc.match_substring(policy, "compact").fill_null(False).to_numpy(zero_copy_only=False),
            bool,
        )

    @cached_property
    def next_record(self) -> tuple[Bools, Floats]:
        """Whether the first record from the oldest unfinished offset on was read; its offset."""
        return self._record_at("effective_start_offset")

    @cached_property
    def is_hole(self) -> Bools:
        """Whether no record is left between the effective start offset and the next known state."""
        requested, record = self.next_record
        end = self.lag("effective_start_offset") + self.head_length
        return np.asarray(requested & (np.nan_to_num(record, nan=np.inf) >= end), bool)

    @cached_property
    def nothing_unread(self) -> Bools:
        """Whether there is no record beyond the window, as far as it was looked up."""
        requested, record = self._record_at("window_end_offset")
        none = requested & (np.isnan(record) | (record >= self.lag("end_offset")))
        return np.asarray((self.lag("unread") == 0) | none, bool)

    def _record_at(self, offset: str) -> tuple[Bools, Floats]:
        names = ["topic_id", "partition", "asked_offset"]
        place = keys(
            self.evidence.lag.append_column("asked_offset", self.evidence.lag.column(offset)), names
        )
        every, committed = (
            beside(place, table, names) for table in (self.evidence.times, self.evidence.committed)
        )
        found = choose_rows(self.reads_committed, committed, every)
        requested = flat(found.column("asked_offset")).is_valid().to_numpy(zero_copy_only=False)
        return np.asarray(requested, bool), _floats(found, "offset")

    @cached_property
    def arrivals(self) -> Floats:
        """Records that arrived in each interval, [share partitions, intervals]; NaN if unknown."""
        past = self.evidence.past_offsets
        moments = np.unique(_floats(past, "as_of"))
        moments = moments[~np.isnan(moments)]
        ends = np.full((len(self.groups), len(moments) + 1), np.nan)
        place = pc.index_in(keys(past, PARTITION), pc.unique(keys(self.evidence.lag, PARTITION)))
        known = place.is_valid().to_numpy(zero_copy_only=False)
        rows = place.fill_null(-1).to_numpy()
        log = np.full((int(rows.max(initial=-1)) + 1, len(moments)), np.nan)
        log[rows[known], np.searchsorted(moments, _floats(past, "as_of")[known])] = _floats(
            past, "end_offset"
        )[known]
        mine = pc.index_in(
            keys(self.evidence.lag, PARTITION), pc.unique(keys(self.evidence.lag, PARTITION))
        ).to_numpy()
        there = mine < len(log)
        ends[there, :-1] = log[mine[there]]
        ends[:, -1] = self.lag("end_offset")
        return np.diff(ends, axis=1)

    @cached_property
    def arrived(self) -> Floats:
        """Records that arrived in the span; NaN if unknown."""
        known = ~np.isnan(self.arrivals)
        return np.where(known.any(axis=1), np.nansum(self.arrivals, axis=1), np.nan)

    @cached_property
    def lag_began(self) -> tuple[Floats, Bools]:
        """When the lag began, in milliseconds, and whether it may be older than that."""
        return lag_began(self.evidence.lag, self._observed, self.ends)

    @cached_property
    def sampled_holes(self) -> tuple[Floats, Floats]:
        """Number of unfinished offsets that were looked up, and of those without a record."""
        times = pa.concat_tables([self.evidence.times, self.evidence.committed])
        place = keys(times, PARTITION).dictionary_encode()
        codes = place.indices.to_numpy()
        requested, there = _floats(times, "asked_offset"), _floats(times, "offset")
        mine = pc.index_in(keys(self.evidence.lag, PARTITION), place.dictionary)
        sampled, gone = np.zeros(len(self.groups)), np.zeros(len(self.groups))
        for row in np.flatnonzero(
            self.is_compacted & self.behind & mine.is_valid().to_numpy(zero_copy_only=False)
        ):
            within = (codes == mine[row].as_py()) & (
                requested >= self.lag("effective_start_offset")[row]
            )
            sampled[row], gone[row] = within.sum(), (within & ~(there == requested)).sum()
        return sampled, gone

    def waiting_after(self, least: Floats) -> Floats:
        """Count offsets that wait for redelivery after at least ``least`` deliveries."""
        windows = beside(self._keys, self.evidence.windows, SHARE_PARTITION)
        return _offsets(windows, "runs", DeliveryState.AVAILABLE, least)

    def offsets_after(self, least: Floats, where: Bools) -> list[str]:
        """Return these offsets in some share partitions: the first twenty runs as text."""
        windows = beside(self._keys, self.evidence.windows, SHARE_PARTITION)
        listed = [""] * len(where)
        for row in np.flatnonzero(where):
            runs = windows.column("runs")[row].as_py() or []
            chosen = [r for r in runs if r["delivery_state"] == DeliveryState.AVAILABLE]
            chosen = [r for r in chosen if r["delivery_count"] >= least[row]]
            listed[row] = ",".join(
                str(r["first_offset"])
                + (f"-{r['last_offset']}" if r["last_offset"] > r["first_offset"] else "")
                for r in chosen[:20]
            )
        return listed

    @cached_property
    def given_up(self) -> Floats:
        """Offsets in the window that were archived at the group's delivery count limit."""
        limit = self.setting("share.delivery.count.limit")
        windows = beside(self._keys, self.evidence.windows, SHARE_PARTITION)
        return _offsets(windows, "batches", DeliveryState.ARCHIVED, limit)

    @cached_property
    def head_length(self) -> Floats:
        """Number of contiguous unfinished offsets at the effective start offset, by the window."""
        windows = beside(self._keys, self.evidence.windows, SHARE_PARTITION)
        runs = flat(windows.column("runs"))
        filled = pc.if_else(
            pc.greater(pc.list_value_length(runs), 0), runs, pa.scalar(None, runs.type)
        )
        first = pc.list_element(pc.drop_null(filled), 0)
        head, last = np.full(len(runs), np.nan), np.full(len(runs), np.nan)
        has_runs = filled.is_valid().to_numpy(zero_copy_only=False)
        head[has_runs] = pc.struct_field(first, 0).to_numpy()
        last[has_runs] = pc.struct_field(first, 1).to_numpy()
        start = self.lag("effective_start_offset")
        return np.where(head > start, head - start, last + 1 - head)

    @cached_property
    def topic_of_group(self) -> NDArray[Any]:
        """A number for each combination of group and topic."""
        codes: NDArray[Any] = (
            keys(self.evidence.lag, SHARE_PARTITION[:2]).dictionary_encode().indices.to_numpy()
        )
        return codes

    # ---- helpers

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = pc.unique(self.evidence.lag.column("group_id")).to_pylist()
        return names

    @cached_property
    def _group(self) -> NDArray[np.int64]:
        """Which of `_names` the group of each share partition is."""
        places = pc.index_in(
            flat(self.evidence.lag.column("group_id")), pa.array(self._names, pa.string())
        )
        return np.asarray(places.to_numpy(), np.int64)

    @cached_property
    def _settings(self) -> dict[str, dict[str, Any]]:
        return each_in_force(self.evidence.settings, self._names)

    @cached_property
    def _keys(self) -> pa.Array:
        return keys(self.evidence.lag, SHARE_PARTITION)

    @cached_property
    def _progress(self) -> pa.Table:
        return beside(self._keys, self.evidence.progress, SHARE_PARTITION)

    @cached_property
    def _observed(self) -> pa.Table:
        return beside(self._keys, self.evidence.observed, SHARE_PARTITION)

    @cached_property
    def _logs(self) -> pa.Table:
        return beside(keys(self.evidence.lag, PARTITION), self.evidence.logs, PARTITION)

    @cached_property
    def _columns(self) -> dict[tuple[str, str], Floats]:
        return {}

    def _column(self, which: str, table: Arrow, name: str) -> Floats:
        """Take a column as numbers, once: each of twenty causes looks at the same few."""
        if (which, name) not in self._columns:
            found = _floats(table, name)
            found.flags.writeable = False
            self._columns[which, name] = found
        return self._columns[which, name]

    def _of_group(self, values: dict[str, float]) -> Floats:
        return np.array([values[group] for group in self._names], float)[self._group]


def sums(values: Floats, of: NDArray[Any]) -> Floats:
    """Return for each row the sum over all rows with the same number, ignoring NaN."""
    return np.bincount(of, np.nan_to_num(values))[of] if len(of) else np.zeros(0)


def choose_rows(condition: Bools, one: pa.Table, other: pa.Table) -> pa.Table:
    """Return rows of one table where a condition is true, else the same rows of another."""
    place = np.arange(len(condition)) + np.where(condition, 0, len(condition))
    return pa.concat_tables([one, other]).take(pa.array(place))


def _offsets(windows: pa.Table, column: str, state: int, least: Floats) -> Floats:
    """Count the offsets of each window in a state with at least so many deliveries."""
    lists = flat(windows.column(column))
    counts = pc.list_value_length(lists).fill_null(0).to_numpy()
    batches = pc.list_flatten(lists)
    first, last, states, deliveries = (pc.struct_field(batches, i).to_numpy() for i in range(4))
    row = np.repeat(np.arange(len(counts)), counts)
    chosen = (states == state) & (deliveries >= least[row])
    return np.asarray(np.bincount(row[chosen], (last - first + 1)[chosen], len(counts)), float)


def _floats(table: pa.Table, name: str) -> Floats:
    column = flat(as_table(table).column(name))
    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False), float)
    values, known = numbers(table, name)
    return np.where(known, values.astype(float), np.nan)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int) else np.nan


def texts(values: Iterable[float]) -> list[str]:
    """Format numbers: integers without a point, others with three digits."""
    return [f"{value:.0f}" if value == int(value) else f"{value:.3g}" for value in values]
