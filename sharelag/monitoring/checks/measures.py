"""The measures of rules, one plain function each; larger is worse, so margins are negated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.engine import Reading
from sharelag.metrics.causes import known_causes
from sharelag.metrics.causes.declared import poison_records
from sharelag.metrics.causes.inputs import Bools, CauseInputs, Floats
from sharelag.metrics.columns import PARTITION, numbers
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.metrics.observed import observe
from sharelag.metrics.progress import progress_of
from sharelag.metrics.rates import DRAINED, DRAINS, NEVER, NOBODY, STALLED, UNCERTAIN
from sharelag.model import milliseconds
from sharelag.monitoring.checks.rules import Rule
from sharelag.schemas import SHARE_PARTITION
from sharelag.tables.arrow import as_table, beside, flat, keys, rows_by_group
from sharelag.tables.gaps import NO_END_OFFSET_THEN, REASONS
from sharelag.workbench.questions.timeline import known_moments, lags_at


@dataclass(frozen=True)
class Series:
    """The values of one rule: a row per item, a column per moment; the last moment is now."""

    group: NDArray[Any]  # None: no group
    topic: NDArray[Any]  # None: the whole group
    partition: NDArray[Any]  # None: several
    at: NDArray[np.int64]  # [moments], milliseconds
    values: Floats  # [rows, moments]; NaN: unknown, -inf: nothing there yet
    is_exact: Bools  # likewise; false: a lower bound
    reason: Sequence[str | None]  # [rows]: why the last value is unknown
    not_started: Bools  # [rows]: never fetched, and of the level that the rule has for these
    # [rows], milliseconds: the start, where a cause knows it better than the past values
    since: Floats | None = None
    # [rows]: whether that start is where the records begin, so that it may be an earlier one
    is_older: Bools | None = None

    @classmethod
    def of_groups(
        cls, groups: NDArray[Any], at: NDArray[np.int64], values: Floats, **more: Any
    ) -> Series:
        """Return a series of whole groups; exact where known, unless ``more`` says otherwise."""
        nowhere, count = np.full(len(groups), None, object), len(groups)
        given: dict[str, Any] = {"topic": nowhere, "partition": nowhere, "reason": [None] * count}
        given |= {"is_exact": ~np.isnan(values)} | more
        return cls(group=groups, at=at, values=values, not_started=np.zeros(count, bool), **given)


def series(rule: Rule, moments: Sequence[Then]) -> Series:
    """Measure a rule at some moments, ascending; the last one is now.

    This covers all measures but ``state_topic``, which concerns no group, and ``cause``.
    """
    facts = moments[-1].facts
    mine = matches(facts.groups, rule.groups) & matches(
        _objects(facts.evidence.lag, "topic"), rule.topics
    )
    never = mine & _apart(rule, facts)
    if rule.measure == "imbalance":
        found = _imbalances(rule, moments, mine & ~never)
    else:
        found = _of_partitions(rule, moments, mine & ~never)
        if rule.measure == "lag" and rule.per == "group":
            found = _sum_groups(found)
    return _with_never_fetched(found, facts, never)


def of_causes(rule: Rule, causes: pa.RecordBatch, now: Then) -> Series:
    """Measure a rule by the causes it names, as `explain` found them, one row per group."""
    is_chosen = matches(now.facts.groups, rule.groups)
    is_chosen &= matches(_objects(now.facts.evidence.lag, "topic"), rule.topics)
    groups = np.array(sorted(set(now.facts.groups[is_chosen])), object)
    by_group = rows_by_group(causes)
    mine = [
        [
            row | {"topic": row["topic"] or row["topic_id"]}
            for row in by_group[group]
            if row["cause"] in (rule.causes or ())
            and any(fnmatchcase(row["topic"] or "", pattern) for pattern in rule.topics)
        ]
        for group in groups
    ]
    # Unknown values neither show a cause nor exclude one.
    unsure = _unsure(rule, now.facts)
    # A cause of unknown size counts anyway, and one without offsets as if it held one.
    held = [
        sum(np.inf if row["held"] is None else max(row["held"], 1) for row in some) for some in mine
    ]
    latest = [max((row for row in some if row["since"]), key=_since, default=None) for some in mine]
    since = [np.nan if row is None else _since(row) for row in latest]
    topics, partitions = (
        np.array([some[0][name] if len(some) == 1 else None for some in mine], object)
        for name in ("topic", "partition")
    )
    found = Series.of_groups(
        groups,
        np.array([now.at]),
        np.array(held, float)[:, None],
        topic=topics,
        partition=partitions,
        is_exact=np.array([group not in unsure for group in groups], bool)[:, None],
        reason=[unsure.get(group) for group in groups],
        since=np.array(since, float),
        is_older=np.array([row is not None and _is_older(row) for row in latest], bool),
    )
    return _with_never_fetched(found, now.facts, is_chosen & _apart(rule, now.facts))


def _since(cause: Mapping[str, Any]) -> float:
    return float(cause["since"].timestamp() * 1000)


def _is_older(cause: Mapping[str, Any]) -> bool:
    """Return whether a cause itself says that it may have begun before the observed span."""
    return any(one["name"] == "since" for one in cause["evidence"])


def matches(names: Iterable[Any], patterns: Sequence[str]) -> Bools:
    """Return which names match; an unknown name matches only the pattern *."""
    found = {name: any(fnmatchcase(name or "", one) for one in patterns) for name in set(names)}
    return np.array([found[name] for name in names], bool)


# ---- of share partitions


def _of_partitions(rule: Rule, moments: Sequence[Then], chosen: Bools) -> Series:
    measure = _MEASURES[rule.measure]
    used = moments[-1:] if rule.measure == "poison" else moments
    facts = moments[-1].facts
    values = np.stack([np.where(one.absent, -np.inf, measure(one.facts)) for one in used], axis=1)
    bounded = np.stack([then.bounded for then in used], axis=1)
    if rule.measure not in _BOUNDED:
        values[bounded] = np.nan
    return Series(
        *_places(facts, chosen),
        np.array([then.at for then in used]),
        values[chosen],
        (~np.isnan(values) & ~bounded)[chosen],
        _reasons(facts, chosen, _UNKNOWN[rule.measure]),
        np.zeros(int(chosen.sum()), bool),
        poison_records.find(facts).since[chosen] if rule.measure == "poison" else None,
    )


def _apart(rule: Rule, facts: CauseInputs) -> Bools:
    """Return which share partitions get the rule's own level regardless of its measure."""
    return facts.never_fetched & (rule.not_started is not None)


def _with_never_fetched(found: Series, facts: CauseInputs, chosen: Bools) -> Series:
    """Append share partitions that were never fetched, without values."""
    count, (group, topic, partition) = int(chosen.sum()), _places(facts, chosen)
    nothing = np.full((count, len(found.at)), np.nan)
    more = {
        "group": group,
        "topic": topic,
        "partition": partition,
        "values": nothing,
        "is_exact": np.zeros(nothing.shape, bool),
        "not_started": np.ones(count, bool),
        "since": np.full(count, np.nan),
        "is_older": np.zeros(count, bool),
    }
    longer = {
        name: np.concatenate([getattr(found, name), values])
        for name, values in more.items()
        if getattr(found, name) is not None
    }
    return replace(found, **longer, reason=[*found.reason, *_reasons(facts, chosen, "")])


def _places(facts: CauseInputs, chosen: Bools) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    lag = facts.evidence.lag
    topics = _objects(lag, "topic", "topic_id")[chosen]
    return facts.groups[chosen], topics, _objects(lag, "partition")[chosen]


def _drain(facts: CauseInputs) -> Floats:
    kind = facts.drain
    values = np.select(
        [kind == DRAINED, kind == DRAINS, kind == UNCERTAIN],
        # A lag that may drain raises no alarm, unless draining takes too long even at best.
        [0.0, facts.progress("drain_ms"), facts.progress("drain_low_ms")],
        np.nan,
    )
    never = np.isin(kind, [NEVER, STALLED, NOBODY]) | ((kind == UNCERTAIN) & np.isnan(values))
    return np.where(never, np.inf, values)


def _window(facts: CauseInputs) -> Floats:
    """Return the part of the lock limit in use, by offsets spanned or acquired, if more."""
    span = facts.lag("window_end_offset") - facts.lag("effective_start_offset")
    taken = np.fmax(span, facts.lag("window_unknown"))
    return np.maximum(taken, 0) / facts.setting("share.partition.max.record.locks")


def _retention(facts: CauseInputs) -> Floats:
    policy = beside(keys(facts.evidence.lag, PARTITION), facts.evidence.logs, PARTITION).column(
        "cleanup_policy"
    )
    deletes = pc.match_substring_regex(flat(policy).cast(pa.string()), r"\bdelete\b")
    keeps = flat(pc.invert(deletes)).fill_null(False).to_numpy(zero_copy_only=False)
    nothing = (facts.progress("age_ms") == 0) | (facts.waiting == 0)
    for_ever = keeps | (facts.progress("retention_ms") < 0) | nothing
    return np.where(for_ever, -np.inf, -facts.progress("margin_ms"))


def _poison(facts: CauseInputs) -> Floats:
    found = poison_records.find(facts)
    # Do not judge an unknown window. A failed delivery would have been written.
    unknown = np.isnan(facts.lag("effective_lag")) & ~facts.never_fetched
    return np.where(found.where, np.fmax(found.held, 1), np.where(unknown, np.nan, 0))


_MEASURES: dict[str, Callable[[CauseInputs], Floats]] = {
    "lag": lambda facts: facts.left,
    "age": lambda facts: np.where(facts.waiting == 0, 0, facts.progress("age_ms")),
    "drain": lambda facts: np.where(facts.waiting == 0, 0, _drain(facts)),
    "window": lambda facts: np.where(facts.waiting == 0, 0, _window(facts)),
    "retention": _retention,
    "poison": _poison,
}
#: Measures with a known lower bound if the records do not go back far enough.
_BOUNDED = ("lag", "age", "retention")
_UNKNOWN = {
    "lag": "the lag is unknown",
    "age": "the time of the oldest unfinished record is unknown or in the future",
    "drain": "the rates are not known yet, or nothing was finished lately",
    "window": "the window is unknown",
    "retention": "the retention or the time of the oldest unfinished record is unknown",
    "poison": "the window is unknown",
}


def _reasons(facts: CauseInputs, chosen: Bools, otherwise: str) -> list[str]:
    reasons: list[str | None] = _objects(facts.evidence.lag, "lag_reason")[chosen].tolist()
    return [REASONS.get(reason or "", otherwise) for reason in reasons]


def _objects(table: pa.Table, *names: str) -> NDArray[Any]:
    """Return a column's values, replacing unknown ones by those of the next column."""
    values = pc.coalesce(*map(table.column, names))
    return np.array([*values.to_pylist(), None], object)[:-1]


# ---- of groups


def _unsure(rule: Rule, facts: CauseInputs) -> dict[str, str]:
    """Return the groups that may have hidden causes, and why."""
    mine = matches(_objects(facts.evidence.lag, "topic"), rule.topics) & (facts.waiting != 0)
    mine &= ~_apart(rule, facts)
    dark = mine & np.isnan(facts.lag("effective_lag"))
    found = dict(zip(facts.groups[dark], _reasons(facts, dark, _UNKNOWN["lag"]), strict=True))
    if any(one.needs_members and one.name in (rule.causes or ()) for one in known_causes()):
        alone = mine & np.isnan(facts.members)
        found |= dict.fromkeys(
            facts.groups[alone], "the members are unknown: the group's own records are missing"
        )
    return found


def _sum_groups(found: Series) -> Series:
    """Sum the values of each group; an unknown value makes the sum a lower bound."""
    groups, of = np.unique(found.group.astype(str), return_inverse=True)
    size = (len(groups), len(found.at))
    values, parts, known, made = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    nothing = np.isneginf(found.values)
    np.add.at(values, of, np.where(nothing, 0, np.nan_to_num(found.values)))
    np.add.at(known, of, ~np.isnan(found.values))
    np.add.at(parts, of, 1)
    np.add.at(made, of, ~nothing)
    exact = np.ones(size, bool)
    np.logical_and.at(exact, of, found.is_exact)
    values = np.where(known == 0, np.nan, np.where(made == 0, -np.inf, values))
    reasons: list[str | None] = [None] * len(groups)
    for row in np.flatnonzero(np.isnan(found.values[:, -1])).tolist():
        reasons[of[row]] = reasons[of[row]] or found.reason[row]
    return Series.of_groups(groups.astype(object), found.at, values, is_exact=exact, reason=reasons)


def _imbalances(rule: Rule, moments: Sequence[Then], chosen: Bools) -> Series:
    groups = np.array(sorted(set(moments[-1].facts.groups[chosen])), object)
    of_group = {group: at for at, group in enumerate(groups)}
    values = np.full((len(groups), len(moments)), np.nan)
    for place, then in enumerate(moments):
        known = pa.array(chosen & ~then.bounded & ~then.absent)
        found = imbalance_arrow(then.facts.left_lag.filter(known), by="partition")
        of_lag = pc.and_(
            found.column("topic_id").is_null(), pc.equal(found.column("measure"), "lag")
        )
        for row in found.filter(of_lag).to_pylist():
            if (at := of_group.get(row["group_id"])) is None:
                continue
            # Little lag counts as even, unless an unknown lag may be most of it.
            is_little = not row["unknown"] and (row["total"] or 0) <= rule.min_lag
            value = np.nan if row[rule.figure] is None or row["unknown"] else row[rule.figure]
            values[at, place] = -np.inf if is_little else value
    reason = ["the lag of some share partitions is unknown"] * len(groups)
    return Series.of_groups(groups, np.array([then.at for then in moments]), values, reason=reason)


_STATE = (
    *("start_offset", "effective_start_offset", "window_end_offset", "delivery_complete_count"),
    *("window_available", "window_complete"),
)


@dataclass(frozen=True)
class Then:
    """One moment, with a row per share partition, in the order of the current lag table."""

    facts: CauseInputs
    bounded: Bools  # lag and age are lower bounds: past records or log starts are unknown
    absent: Bools  # known: the share partition did not exist yet

    @property
    def at(self) -> int:
        """The moment in milliseconds."""
        return milliseconds(self.facts.evidence.as_of)


def as_of_now(evidence: Evidence) -> Then:
    """Return the moment that the evidence was gathered for."""
    nowhere = np.zeros(evidence.lag.num_rows, bool)
    return Then(CauseInputs(evidence), nowhere, nowhere)


def past(
    reading: Reading, moments: Sequence[datetime], over: timedelta, rates: bool = True
) -> list[Then]:
    """Gather the evidence of moments before that of a reading: one per moment, ascending, distinct.

    If the input recorded end offsets at other moments, the last one before each is used. Rates are
    measured ``over`` a span before each moment; if needed, they take one more pass per moment.
    """
    evidence = reading.evidence
    ids = sorted(pc.unique(evidence.lag.column("topic_id")).to_pylist())
    if not moments or not ids:
        return []
    ends = reading.source.past_offsets(ids, [min(moments) - over, *moments])
    chosen = known_moments(ends, moments)
    observed = schemas.OBSERVED.empty_table()
    if rates:
        observed = reading.over_history(
            partial(_observe, moments=chosen, over=over), schemas.OBSERVED
        )
    timeline = lags_at(reading, ends, chosen)
    first = reading.over_history(_first, schemas.HISTORY)
    found = []
    for at in chosen:
        seen = observed.filter(pc.equal(observed.column("end"), pa.scalar(at, schemas.TIMESTAMP)))
        found.append(_then(evidence, timeline, first, ends, at, seen, over))
    return found


def _observe(history: pa.RecordBatch, moments: Sequence[datetime], over: timedelta) -> pa.Table:
    """Observe the spans before several moments; the column ``end`` names the moment."""
    return pa.Table.from_batches([observe(history, at, over) for at in moments], schemas.OBSERVED)


def _then(
    evidence: Evidence,
    timeline: pa.Table,
    first: pa.Table,
    ends: pa.Table,
    at: datetime,
    observed: pa.Table,
    over: timedelta,
) -> Then:
    mine = keys(evidence.lag, SHARE_PARTITION)
    here = timeline.filter(pc.equal(timeline.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
    known = beside(mine, here, SHARE_PARTITION)
    is_known = flat(known.column("group_id")).is_valid().to_numpy(zero_copy_only=False)
    windows = beside(mine, evidence.windows, SHARE_PARTITION)
    made, has_made = numbers(windows, "create_timestamp")
    absent = np.asarray(~is_known & has_made & (made > milliseconds(at)), bool)
    lag, bounded = _lag(
        evidence.lag, known, beside(mine, first, SHARE_PARTITION), _ends(evidence.lag, ends, at), at
    )
    earlier = ends.filter(pc.less_equal(ends.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
    earlier = earlier.filter(
        pc.greater_equal(earlier.column("as_of"), pa.scalar(at - over, schemas.TIMESTAMP))
    )
    known_then = {"as_of": at, "lag": lag, "observed": observed, "past_offsets": earlier}
    # Groups without members both now and then; earlier members are unknown.
    groups = evidence.groups
    emptied = pc.less_equal(groups.column("emptied"), pa.scalar(at, schemas.TIMESTAMP))
    empty = groups.filter(pc.and_(pc.equal(groups.column("members"), 0), emptied))
    moment = Evidence(
        **known_then,
        progress=progress_of(replace(evidence, **known_then, groups=empty)),
        settings=evidence.settings,
        logs=evidence.logs,
        engine=evidence.engine,
        patience=evidence.patience,
    )
    return Then(CauseInputs(moment), np.asarray(bounded & ~absent, bool), absent)


def _lag(
    now: pa.Table, known: pa.Table, first: pa.Table, end: pa.Array, at: datetime
) -> tuple[pa.Table, Bools]:
    """Compute the lag at a moment; unknown states are replaced by the first one known since."""
    is_known = flat(known.column("group_id")).is_valid()
    columns: dict[str, pa.Array] = {}
    for name in _STATE:
        columns[name] = pc.if_else(is_known, flat(known.column(name)), flat(first.column(name)))
    columns["end_offset"] = pc.if_else(is_known, flat(known.column("end_offset")), end)
    table = pa.table(columns)
    (start, a), (count, b), (stop, c) = (
        numbers(table, name) for name in ("start_offset", "delivery_complete_count", "end_offset")
    )
    (window_end, _), (complete, d), (waiting, _) = (
        numbers(table, name)
        for name in ("window_end_offset", "window_complete", "window_available")
    )
    # A log's start never goes back: there were records at least from the current start on.
    columns["log_start_offset"] = flat(now.column("log_start_offset"))
    log_start, _ = numbers(now, "log_start_offset")
    was_known = is_known.to_numpy(zero_copy_only=False)
    bound = pa.array(np.maximum(stop - start - count, 0), mask=~(a & b & c))
    columns["lag"] = pc.if_else(is_known, flat(known.column("lag")), bound)
    # The window may have been narrower then than in the first known state.
    reach = np.where(was_known, np.maximum(stop, window_end), stop)
    columns["effective_lag"] = pa.array(np.maximum(reach - start - complete, 0), mask=~(a & c & d))
    columns["unread"] = pa.array(np.maximum(stop - np.maximum(window_end, start), 0), mask=~(a & c))
    held = np.maximum(window_end - start, 0) - waiting - complete
    columns["window_unknown"] = pa.array(held, mask=~(a & d & was_known))
    for name in ("window_end_offset", "window_available", "window_complete"):
        columns[name] = pc.if_else(is_known, columns[name], pa.scalar(None, columns[name].type))
    columns["as_of"] = pa.array([at] * now.num_rows, schemas.TIMESTAMP)
    columns["lag_reason"] = pc.if_else(
        is_known, flat(known.column("lag_reason")), pa.scalar(NO_END_OFFSET_THEN, pa.string())
    )
    columns |= {
        name: flat(now.column(name)) for name in ("group_id", "topic", "topic_id", "partition")
    }
    empty = pa.nulls(now.num_rows)
    arrays = [columns.get(field.name, empty).cast(field.type) for field in schemas.LAG]
    bounded = np.where(was_known, ~a & (log_start > 0), a & b & c)
    return pa.Table.from_arrays(arrays, schema=schemas.LAG), np.asarray(bounded, bool)


def _first(history: pa.RecordBatch) -> pa.Table:
    """Select each share partition's first row that is a complete state."""
    whole = pc.and_(
        history.column("from_snapshot"), pc.not_equal(history.column("record_kind"), "tombstone")
    )
    rows = history.filter(whole)
    codes = keys(rows, SHARE_PARTITION).dictionary_encode().indices.to_numpy()
    first = pa.array(np.unique(codes, return_index=True)[1])
    return as_table(rows).take(first).select(schemas.HISTORY.names)


def _ends(lag: pa.Table, ends: pa.Table, at: datetime) -> pa.Array:
    then = ends.filter(pc.equal(ends.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
    return flat(beside(keys(lag, PARTITION), then, PARTITION).column("end_offset"))


def before(evidence: Evidence, spans: Sequence[timedelta], parts: int) -> list[datetime]:
    """Return evenly spaced moments within spans before now, their beginnings included."""
    return sorted(
        {evidence.as_of - span * n / parts for span in spans if span for n in range(1, parts + 1)}
    )
