"""Rank the causes of the lag of each group, the most important first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.brokers import leads
from sharelag.metrics.causes import CAUSES, OF_GROUP, Cause, Found, known_causes
from sharelag.metrics.causes.inputs import CauseInputs
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.holders import held_by, lines_of_places
from sharelag.metrics.measured import describe_measured
from sharelag.model import milliseconds
from sharelag.schemas import Bools, Ints
from sharelag.tables.level import rank
from sharelag.tables.words import number, shell_word, spell_out

#: Maximum number of partitions listed by name.
_NAMED = 20
#: The share of the patience from which on a cause is suspected.
YOUNG = 1 / 3


class Suspicion(NamedTuple):
    """A condition that becomes a cause of a group's lag if it persists."""

    cause: str
    lasted_ms: float | None  # None: unknown
    patience_ms: float  # from here on it counts as the cause

    def words(self) -> str:
        """Return ``suspected: window full for 12.6 s; stuck from 30 s on``."""
        lasted = "" if self.lasted_ms is None else f" for {duration(self.lasted_ms)}"
        name = spell_out(self.cause)
        return f"suspected: {name}{lasted}; stuck from {duration(self.patience_ms)} on"


def explain(evidence: Evidence, patience: timedelta | None = None) -> pa.RecordBatch:
    """Explain why share groups lag, as `sharelag.schemas.CAUSES`.

    There is one row per group, topic and cause, ranked within the group by severity, then by the
    offsets it accounts for. ``partition`` is set if the cause applies to a single partition. A
    group without rows has no known problem. ``patience`` is how long something may take before it
    counts as stuck; by default that of the evidence, else the group's lock duration.
    """
    return _rank_causes(CauseInputs.of(evidence, patience))


def suspect(evidence: Evidence, patience: timedelta | None = None) -> dict[str, Suspicion]:
    """Return the most severe suspicion of each group without a cause, by group.

    Parameters as for `explain`.
    """
    facts = CauseInputs.of(evidence, patience)
    known = set(_rank_causes(facts).column("group_id").to_pylist())
    is_open = np.array([name not in known for name in facts.names], bool)
    found: dict[str, Suspicion] = {}
    if not is_open.any():
        return found
    # A cause that holds for the whole span is as old as the record that waits longest.
    oldest, patiences = np.zeros((2, len(facts.names)))
    np.fmax.at(oldest, facts.group[facts.behind], facts.progress("age_ms")[facts.behind])
    patiences[facts.group] = facts.patience
    place = {name: at for at, name in enumerate(facts.names)}
    for row in _rank_causes(facts.younger(YOUNG), is_open[facts.group]).to_pylist():
        if (group := row["group_id"]) in found:
            continue
        age, patience_ms = float(oldest[place[group]]), float(patiences[place[group]])
        since = np.nan if row["since"] is None else facts.now - milliseconds(row["since"])
        lasted = float(np.fmin(since, age or np.nan))
        is_young = lasted < patience_ms
        found[group] = Suspicion(row["cause"], lasted if is_young else None, patience_ms)
    return found


def _rank_causes(facts: CauseInputs, among: Bools | bool = True) -> pa.RecordBatch:
    causes = known_causes()
    if causes != CAUSES:
        return _rank(facts, causes, among)  # packages' causes may differ next time
    # Which groups are meant follows from these.
    kept, key = facts.evidence.ranked, (facts.patience_given, facts.part)
    if key not in kept:
        kept[key] = _rank(facts, causes, among)
    return kept[key]


def _rank(facts: CauseInputs, causes: Sequence[Cause], among: Bools | bool) -> pa.RecordBatch:
    evidence = facts.evidence
    found = {cause.name: cause.find(facts) for cause in causes}
    explained = {cause.name: np.zeros(evidence.lag.num_rows, bool) for cause in causes}
    lag = facts.lag("effective_lag")
    for cause in causes:
        # A cause of a small part of the lag does not hide a cause of a larger part.
        mine = found[cause.name]
        most = mine.where & ~explained[cause.name] & ~(2 * mine.held < lag)
        for name in cause.includes & explained.keys():  # packages may not be installed
            explained[name] |= most
    applies = [
        (cause, rows)
        for cause in causes
        for rows in _by_topic(facts, found[cause.name].where & ~explained[cause.name] & among)
    ]
    context = _Context.of(evidence) if applies else _Context([], {}, {}, {})
    rows = [_row(cause, found[cause.name], where, context) for cause, where in applies]
    order = {cause.name: place for place, cause in enumerate(causes)}
    rows.sort(key=lambda row: (-(row["held"] or 0), order[row["cause"]], row["topic"] or ""))
    rows.sort(key=lambda row: (row["group_id"], -rank(row["severity"])))
    ranks: dict[str, int] = {}
    for row in rows:
        row["rank"] = ranks[row["group_id"]] = ranks.get(row["group_id"], 0) + 1
    return pa.RecordBatch.from_pylist(rows, schema=schemas.CAUSES)


class _Context(NamedTuple):
    """Sentences about share partitions and groups, whatever the cause."""

    places: list[dict[str, Any]]  # by row of the lag table
    holders: dict[tuple[Any, ...], str]  # who holds offsets of each share partition
    measured: dict[tuple[Any, ...], str]  # what brokers measured of it
    led: dict[str, str]  # the broker that leads nearly all lag of each group

    @classmethod
    def of(cls, evidence: Evidence) -> _Context:
        led = {group: lead.evidence() for group, lead in leads(evidence.brokers).items()}
        places = evidence.lag.select(["group_id", "topic", "topic_id", "partition"]).to_pylist()
        return cls(places, held_by(evidence.holders), describe_measured(evidence.measured), led)


def _by_topic(facts: CauseInputs, where: Bools) -> list[Ints]:
    """Return the rows to which a cause applies, by group and topic."""
    hit = np.flatnonzero(where)
    if not len(hit):
        return []
    topics = facts.topic_of_group[hit]
    order = np.argsort(topics, kind="stable")
    return np.split(hit[order], np.flatnonzero(np.diff(topics[order])) + 1)


def _row(cause: Cause, found: Found, rows: Ints, context: _Context) -> dict[str, Any]:
    held, since = found.held[rows], found.since[rows]
    # The numbers are from the share partition with the most affected offsets; holders of all.
    worst = int(rows[np.argmax(np.nan_to_num(held, nan=-1))])
    place, places = context.places[worst], [context.places[row] for row in rows.tolist()]
    numbers = {name: values[worst] for name, values in found.evidence.items()}
    evidence = {name: value for name, value in numbers.items() if not np.isnan(value)}
    named = ",".join(str(one["partition"]) for one in places[:_NAMED])
    where = {"partitions": named + (",..." if len(rows) > _NAMED else "")}
    words = {name: values[worst] for name, values in found.texts.items() if values[worst]}
    share_partition = tuple(place[name] for name in schemas.SHARE_PARTITION)
    if context.holders and (lines := lines_of_places(places, context.holders)):
        words["held_by"] = context.holders[share_partition] if len(rows) == 1 else "; ".join(lines)
    if share_partition in context.measured:
        words["measured"] = context.measured[share_partition]
    if lead := context.led.get(place["group_id"]):
        words["led_by"] = lead
    figures = zip(evidence, map(number, evidence.values()), strict=True)
    shown = [*where.items(), *words.items(), *figures]
    began = None if np.isnan(since).all() else float(np.nanmin(since)) / 1000
    return {
        **place,
        "partition": place["partition"] if len(rows) == 1 else None,
        "cause": cause.name,
        "severity": cause.severity,
        "held": None if np.isnan(held).all() else int(np.nansum(held)),
        "since": None if began is None else datetime.fromtimestamp(began, UTC),
        "summary": cause.summary,
        "advice": cause.advice.replace(OF_GROUP, f"--group {shell_word(place['group_id'])}"),
        "evidence": [{"name": name, "value": value} for name, value in shown],
    }
