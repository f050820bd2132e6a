"""The facts of each share partition that decide about causes, and the form of a declaration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.age import Ends, known_ends, time_of
from sharelag.metrics.columns import PARTITION, Runs, codes, floats, mask, present
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.imbalance import explode_partitions
from sharelag.metrics.observed import parts_of, unambiguous
from sharelag.metrics.rates import lag_began
from sharelag.model import DeliveryState, milliseconds
from sharelag.model.defects import BY_CAUSE
from sharelag.model.settings import each_in_force
from sharelag.model.settings.queues import Queues
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.tables.arrow import Bools as Bools
from sharelag.tables.arrow import Floats as Floats
from sharelag.tables.arrow import Ints, beside, flat, keys, with_columns
from sharelag.tables.gaps import NO_START_OFFSET


@dataclass(frozen=True)
class CauseInputs:
    """One row per share partition, in the order of the lag table.

    Numbers are NaN where unknown, so that no comparison with them is true.
    """

    evidence: Evidence
    patience_given: timedelta | None = None
    #: The share of the patience after which causes are found.
    part: float = 1.0

    @classmethod
    def of(cls, evidence: Evidence, patience: timedelta | None = None) -> CauseInputs:
        """Return the facts of evidence, which caches them."""
        found: CauseInputs = evidence.cause_inputs.setdefault(patience, cls(evidence, patience))
        return found

    def younger(self, part: float) -> CauseInputs:
        """Return the facts for a part of the patience; all else stays cached."""
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

    @cached_property
    def from_earliest(self) -> Bools:
        """Whether the group starts at the earliest record of a share partition."""
        name = "share.auto.offset.reset"
        values = (self._settings[group][name].value for group in self.names)
        return np.array([value == "earliest" for value in values], bool)[self.group]

    @cached_property
    def refusals(self) -> NDArray[Any]:
        """Why brokers write no dead letters of each share partition's group."""
        by_group = Queues.of(self.evidence.settings).refusals(self.names)
        return np.array([by_group.get(group, "") for group in self.names], object)[self.group]

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
        """Return the offsets finished or released from each tenth of the span to its end.

        Of ``finished_bins`` or ``released_bins``, as ``[rows, BINS]``: the whole span in the first
        column, its last tenth in the last.
        """
        parts = parts_of(self._observed, name)
        return np.asarray(np.cumsum(parts[:, ::-1], axis=1)[:, ::-1])

    @cached_property
    def groups(self) -> NDArray[Any]:
        """The group of each share partition."""
        column = flat(self.evidence.lag.column("group_id"))
        names: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return names

    @cached_property
    def unknown(self) -> Floats:
        """NaN for every share partition."""
        return np.full(len(self.groups), np.nan)

    @cached_property
    def behind(self) -> Bools:
        """Whether there are unfinished records."""
        return self.lag("effective_lag") > 0

    def setting(self, name: str) -> Floats:
        """Return a setting of each share partition's group as a number."""
        values = (self._settings[group][name].value for group in self.names)
        numbers = [float(value) if isinstance(value, int) else np.nan for value in values]
        return np.array(numbers, float)[self.group]

    @cached_property
    def reads_committed(self) -> Bools:
        """Whether the group's isolation level is read_committed."""
        return np.isin(self.groups, sorted(self.evidence.reads_committed))

    @cached_property
    def members(self) -> Floats:
        """Number of members of the group; NaN without the group's own records."""
        return floats(self._groups.column("members"))

    @cached_property
    def assigned(self) -> Floats:
        """Number of members with the share partition; NaN without the group's own records."""
        _, places, _ = explode_partitions(self.evidence.members, "assigned_partitions")
        found = pc.value_counts(places)
        counts = pa.table({"key": found.field("values"), "count": found.field("counts")})
        mine = counts.column("count").take(pc.index_in(self._keys, flat(counts.column("key"))))
        return np.where(np.isnan(self.members), np.nan, mine.fill_null(0).to_numpy().astype(float))

    @cached_property
    def emptied(self) -> Floats:
        """Time when the group's last member left, in milliseconds."""
        return floats(self._groups.column("emptied"))

    @cached_property
    def waiting(self) -> Floats:
        """Records of a share partition that was never fetched; NaN where unknown.

        A group whose ``share.auto.offset.reset`` is not earliest may skip them.
        """
        there = np.maximum(self.lag("end_offset") - self.lag("log_start_offset"), 0)
        return np.where(self.never_fetched & ((there == 0) | self.from_earliest), there, np.nan)

    @cached_property
    def left(self) -> Floats:
        """Lag, or `waiting` in a share partition that was never fetched; NaN where unknown."""
        return np.where(np.isnan(self.lag("lag")), self.waiting, self.lag("lag"))

    @cached_property
    def ages(self) -> Floats:
        """Age of the oldest unfinished record; -inf without any record, NaN where unknown."""
        return np.where(self.waiting == 0, -np.inf, self.progress("age_ms"))

    @property
    def left_lag(self) -> pa.Table:
        """The lag table with `left` as its column ``lag``."""
        left = pa.array(np.nan_to_num(self.left).astype(np.int64), mask=np.isnan(self.left))
        return with_columns(self.evidence.lag, {"lag": left})

    @cached_property
    def never_fetched(self) -> Bools:
        """Whether the group has neither finished nor released any record of the share partition."""
        return mask(pc.equal(self.evidence.lag.column("lag_reason"), NO_START_OFFSET))

    @cached_property
    def stable_end(self) -> Floats:
        """The last stable offset, the limit of a read_committed group."""
        return floats(self._logs.column("last_stable_offset"))

    @cached_property
    def ends(self) -> Ends:
        """The known ends of the topic partitions until now."""
        return known_ends(self.evidence.lag, self.evidence.past_offsets, self.now)

    @cached_property
    def stable_since(self) -> Floats:
        """Estimated time when the open transaction started, in milliseconds."""
        if np.isnan(self.stable_end).all():
            return self.stable_end
        time, known = time_of(self.ends, np.nan_to_num(self.stable_end).astype(np.int64))
        return np.where(known & ~np.isnan(self.stable_end), time.astype(float), np.nan)

    @cached_property
    def is_compacted(self) -> Bools:
        """Whether the topic's cleanup policy includes compact."""
        policy = self._logs.column("cleanup_policy").cast(pa.string())
        return mask(pc.match_substring(policy, "compact"))

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
        """Whether no record lies beyond the window; False if unknown."""
        requested, record = self._record_at("window_end_offset")
        none = requested & (np.isnan(record) | (record >= self.lag("end_offset")))
        return np.asarray((self.lag("unread") == 0) | none, bool)

    def _record_at(self, offset: str) -> tuple[Bools, Floats]:
        place, names = keys(self.evidence.lag, (*PARTITION, offset)), (*PARTITION, "asked_offset")
        every, committed = (
            beside(place, table, names) for table in (self.evidence.times, self.evidence.committed)
        )
        rows = np.arange(len(place)) + np.where(self.reads_committed, 0, len(place))
        found = pa.concat_tables([committed, every]).take(pa.array(rows))
        return present(found, "asked_offset"), floats(found.column("offset"))

    @cached_property
    def arrivals(self) -> Floats:
        """Records that arrived in each interval, [share partitions, intervals]; NaN if unknown."""
        past, own = self.evidence.past_offsets, keys(self.evidence.lag, PARTITION)
        as_of, end = (floats(past.column(name)) for name in ("as_of", "end_offset"))
        moments = np.unique(as_of)
        moments = moments[~np.isnan(moments)]
        ends = np.full((len(self.groups), len(moments) + 1), np.nan)
        place = pc.index_in(keys(past, PARTITION), pc.unique(own))
        known = mask(place.is_valid())
        rows = place.fill_null(-1).to_numpy()
        log = np.full((int(rows.max(initial=-1)) + 1, len(moments)), np.nan)
        log[rows[known], np.searchsorted(moments, as_of[known])] = end[known]
        mine = pc.index_in(own, pc.unique(own)).to_numpy()
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
        """Number of unfinished offsets in the sample, and of those without a record."""
        times = pa.concat_tables([self.evidence.times, self.evidence.committed])
        requested, there = (floats(times.column(name)) for name in ("asked_offset", "offset"))
        place = keys(times, PARTITION).dictionary_encode()
        places = place.indices.to_numpy()
        counts = np.bincount(places, minlength=len(place.dictionary))
        each = np.split(np.argsort(places, kind="stable"), np.cumsum(counts)[:-1])
        mine = pc.index_in(keys(self.evidence.lag, PARTITION), place.dictionary)
        sampled, gone = np.zeros(len(self.groups)), np.zeros(len(self.groups))
        start = self.lag("effective_start_offset")
        for row in np.flatnonzero(self.is_compacted & self.behind & mask(mine.is_valid())):
            asked = each[mine[row].as_py()]
            left = asked[requested[asked] >= start[row]]
            sampled[row], gone[row] = len(left), (there[left] != requested[left]).sum()
        return sampled, gone

    def waiting_after(self, least: Floats) -> Floats:
        """Count offsets that wait for redelivery after at least ``least`` deliveries."""
        return _offsets(self._windows, "runs", DeliveryState.AVAILABLE, least)

    def offsets_after(self, least: Floats, where: Bools) -> list[str]:
        """Return these offsets of share partitions ``where``: the first twenty runs as text."""
        listed = [""] * len(where)
        for row in np.flatnonzero(where):
            runs = self._windows.column("runs")[row].as_py() or []
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
        return _offsets(self._windows, "batches", DeliveryState.ARCHIVED, limit)

    @cached_property
    def head_length(self) -> Floats:
        """Number of contiguous unfinished offsets at the effective start offset, by the window."""
        runs = Runs(flat(self._windows.column("runs")))
        has_runs = runs.at[:-1] < runs.at[1:]
        head, end = self.unknown.copy(), self.unknown.copy()
        head[has_runs] = runs.first[runs.at[:-1][has_runs]]
        end[has_runs] = runs.end[runs.at[:-1][has_runs]]
        start = self.lag("effective_start_offset")
        return np.where(head > start, head - start, end - head)

    @cached_property
    def topic_of_group(self) -> NDArray[Any]:
        """A number for each combination of group and topic."""
        return codes(keys(self.evidence.lag, SHARE_PARTITION[:2]))

    @cached_property
    def names(self) -> list[str]:
        """Each group once."""
        names: list[str] = pc.unique(self.evidence.lag.column("group_id")).to_pylist()
        return names

    @cached_property
    def group(self) -> Ints:
        """The index in `names` of each share partition's group."""
        group = flat(self.evidence.lag.column("group_id"))
        return np.asarray(pc.index_in(group, pa.array(self.names, pa.string())), np.int64)

    @cached_property
    def _settings(self) -> dict[str, dict[str, Any]]:
        return each_in_force(self.evidence.settings, self.names)

    @cached_property
    def _groups(self) -> pa.Table:
        group = flat(self.evidence.lag.column("group_id"))
        # Without topics, which would be repeated for each share partition of the group.
        groups = self.evidence.groups.select(["group_id", "members", "emptied"])
        return beside(group, groups, ["group_id"])

    @cached_property
    def _keys(self) -> pa.Array:
        return keys(self.evidence.lag, SHARE_PARTITION)

    @cached_property
    def _windows(self) -> pa.Table:
        return beside(self._keys, self.evidence.windows, SHARE_PARTITION)

    @cached_property
    def _progress(self) -> pa.Table:
        return beside(self._keys, self.evidence.progress, SHARE_PARTITION)

    @cached_property
    def _observed(self) -> pa.Table:
        return beside(self._keys, unambiguous(self.evidence.observed), SHARE_PARTITION)

    @cached_property
    def _logs(self) -> pa.Table:
        return beside(keys(self.evidence.lag, PARTITION), self.evidence.logs, PARTITION)

    @cached_property
    def _columns(self) -> dict[tuple[str, str], Floats]:
        return {}

    def _column(self, which: str, table: Arrow, name: str) -> Floats:
        """Return a column as numbers, cached because twenty causes use the same few."""
        if (which, name) not in self._columns:
            found = floats(table.column(name))
            found.flags.writeable = False
            self._columns[which, name] = found
        return self._columns[which, name]


def ages_by_group(evidence: Evidence) -> dict[str, list[float]]:
    """Return the `ages` of each group's share partitions."""
    found, facts = defaultdict[str, list[float]](list), CauseInputs.of(evidence)
    for group, age in zip(facts.groups, facts.ages.tolist(), strict=True):
        found[group].append(age)
    return found


def sums(values: Floats, of: NDArray[Any]) -> Floats:
    """Return for each row the sum over all rows with the same number, ignoring NaN."""
    return np.bincount(of, np.nan_to_num(values))[of] if len(of) else np.zeros(0)


def _offsets(windows: pa.Table, column: str, state: int, least: Floats) -> Floats:
    """Count the offsets of each window in a state with at least ``least`` deliveries."""
    lists = flat(windows.column(column))
    counts = pc.list_value_length(lists).fill_null(0).to_numpy()
    batches = pc.list_flatten(lists)
    first, last, states, deliveries = (pc.struct_field(batches, i).to_numpy() for i in range(4))
    row = np.repeat(np.arange(len(counts)), counts)
    chosen = (states == state) & (deliveries >= least[row])
    return np.asarray(np.bincount(row[chosen], (last - first + 1)[chosen], len(counts)), float)


# ---- causes --------------------------------------------------------------------------------------

#: Where commands in an advice name the group.
OF_GROUP = "--group GROUP"
#: Causes that follow where nothing is finished in the same share partition.
NOTHING_FINISHED = frozenset(
    {"head_of_line", "members_idle", "slow_consumers", "burst", "hot_partition"}
)
#: What-ifs of one click: more members, a lag-aware assignor, no stuck records at the head.
MEMBERS, LAG_AWARE, HEADS = WHAT_IFS = ("members", "lag-aware", "heads")


@dataclass(frozen=True)
class Found:
    """Where a cause applies, with its evidence: one value per share partition."""

    where: Bools
    held: Floats  # offsets of lag that it accounts for
    since: Floats  # milliseconds
    evidence: Mapping[str, Floats] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # evidence that is text


Finder: TypeAlias = Callable[[CauseInputs], Found]


@dataclass(frozen=True)
class Cause:
    """A cause of lag: its texts and the function that finds it."""

    name: str
    severity: str
    summary: str
    advice: str
    find: Finder
    #: Causes that this one explains in the same share partition.
    includes: AbstractSet[str] = frozenset()
    #: Arguments of ``sharelag`` that show more; ``{more}``: two members more.
    command: str = "history --events"
    #: The fitting one of `WHAT_IFS`; empty: none. `HEADS` means that one record blocks the others.
    what_if: str = MEMBERS
    #: Whether more members finish the offsets that it holds.
    members_help: bool = True
    #: Whether it needs the group's own records, which have its members.
    needs_members: bool = False


def cause(severity: str, summary: str, advice: str, **more: Any) -> Callable[[Finder], Cause]:
    """Declare the cause that a function finds; the function's name is the cause's name.

    Parameters
    ----------
    severity : {"critical", "warning", "note"}
    summary, advice : str
        The problem and its remedy; `OF_GROUP` in the advice becomes the group option.
    **more
        Other fields of `Cause`.
    """
    return lambda find: Cause(find.__name__, severity, summary, advice, find, **more)


def waits(given: CauseInputs) -> Bools:
    """Return whether the oldest unfinished record is older than patience; markers do not count."""
    return np.asarray(given.progress("age_ms") > given.patience, bool)


def nothing_happens(given: CauseInputs) -> Bools:
    """Return whether nothing was finished or released for too long; False if unknown."""
    last = np.fmax(given.observed("last_finished"), given.observed("last_released"))
    last = np.where(np.isnan(last), given.observed("begin"), last)
    return np.asarray(given.now - last > given.patience, bool)


def is_stuck(given: CauseInputs) -> Bools:
    """Return whether the effective start offset has not moved for longer than patience."""
    return np.asarray(given.now - given.observed("head_since") > given.patience, bool)


def has_lately_released(given: CauseInputs, within: Floats) -> Bools:
    """Return whether records were released within some milliseconds, or within patience."""
    ago = given.now - given.observed("last_released")
    return np.asarray(ago <= np.maximum(within, given.patience), bool)


def head(given: CauseInputs) -> dict[str, Floats]:
    """Return evidence on the record at the effective start offset."""
    is_older = np.where(given.observed("head_is_older") == 1, 1, np.nan)
    return {
        "offset": given.lag("effective_start_offset"),
        "stuck for ms": given.now - given.observed("head_since"),
        "deliveries": given.observed("head_delivery_count"),
        "since before the first record seen": is_older,
    }


def or_earlier(given: CauseInputs) -> dict[str, list[str]]:
    """Return evidence on lag that may have begun before the observed span."""
    words = "the beginning of what was observed, or earlier"
    return {"since": [words if is_older else "" for is_older in given.lag_began[1]]}


def defect(given: CauseInputs, cause_name: str, record: str) -> dict[str, list[str]]:
    """Return a defect of Kafka as evidence, and the last record that shows it."""
    found = BY_CAUSE[cause_name]
    words = f"{found.issue}, fixed in {found.fixed_in}"
    return {"record": given.observed_text(record), "defect": [words] * len(given.groups)}
