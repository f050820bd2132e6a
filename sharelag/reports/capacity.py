"""Capacity: whether groups keep up, what Kafka retains needlessly, and simulated variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.metrics.imbalance import verdict_words
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import NEVER, NOBODY, STALLED, UNKNOWN
from sharelag.metrics.reclaim import archived_by_ttl, reclaimable_arrow
from sharelag.reports.case import Case
from sharelag.tables.arrow import rows_by_group, sum_known
from sharelag.tables.lines import plain_rows
from sharelag.tables.words import THOUSANDS, number, pluralize
from sharelag.whatif.clearing import ASSIGNORS, Clearing, search, what_clears
from sharelag.whatif.comparison.rows import unknown_work
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.horizon import require_end

_SUMS = ("effective_lag", "archived", "archived_low", "archived_high")
#: Degrees of certainty that less was finished than arrived.
_NO, _MAYBE, _CLEARLY = "no", "maybe", "clearly"


def reclaimable(case: Case) -> list[dict[str, Any]]:
    """List topic partitions by the offsets that all share groups have passed; unknown ones last."""
    rows = plain_rows(pa.Table.from_batches([reclaimable_arrow(case.evidence.lag)]))
    return sorted(rows, key=lambda row: (row["reclaimable"] is None, -(row["reclaimable"] or 0)))


def estimate_archived(case: Case, ttl: timedelta) -> list[dict[str, Any]]:
    """Estimate what a record TTL would archive, by group, the largest lag first.

    These are sums over share partitions. The estimate and the upper bound are unknown if one of
    their terms is; the lower bound counts known terms.
    """
    evidence = case.evidence
    ids = sorted(set(evidence.lag.column("topic_id").to_pylist()))
    # A cluster knows past ends of its logs, and a capture may have recorded them.
    then = case.bench.source.past_offsets(ids, [evidence.as_of - ttl])
    found = archived_by_ttl(
        evidence.lag,
        evidence.windows,
        pa.concat_tables([evidence.past_offsets, then]),
        pa.concat_tables([evidence.times, evidence.committed]),
        evidence.as_of,
        ttl,
    )
    totals = [
        (name, "sum", pc.ScalarAggregateOptions(skip_nulls=name == "archived_low"))
        for name in _SUMS
    ]
    sums = pa.Table.from_batches([found]).group_by("group_id").aggregate(totals)
    names = [name.removesuffix("_sum") for name in sums.schema.names]
    rows = sums.rename_columns(names).to_pylist()
    return sorted(rows, key=lambda row: (-(row["effective_lag"] or 0), row["group_id"]))


def headroom(case: Case) -> list[dict[str, Any]]:
    """Collect each group's rates, members and where its lag is concentrated; None if unknown.

    The group with the highest arrival rate comes first. Rates are records per second, summed over
    the share partitions; unknown if one of them is. ``falls_behind`` is "no", "maybe" (by chance,
    or what arrived cannot be delivered), "clearly", or None if it is not known.
    """
    evidence = case.evidence
    members = {row["group_id"]: row["members"] for row in evidence.groups.to_pylist()}
    skew = {row["group_id"]: row for row in case.bench.skew().to_pylist()}
    progress = rows_by_group(evidence.progress)
    rows = []
    for row in rollup_arrow(evidence.lag, "group").to_pylist():
        group, mine = row["group_id"], progress[row["group_id"]]
        completion, count = sum_known(mine, "completion_rate"), members.get(group)
        arrival = sum_known(mine, "arrival_rate")
        each = completion / count if count and completion is not None else None
        words = verdict_words(skew[group]) if group in skew else None
        known = {name: row[name] for name in ("group_id", "partitions", "lag")}
        known |= {"members": count, "arrival_rate": arrival, "completion_rate": completion}
        behind = _falls_behind(arrival, completion, mine)
        rows.append(known | {"falls_behind": behind, "per_member": each, "skew": words})
    return sorted(rows, key=lambda row: (-(row["arrival_rate"] or 0), row["group_id"]))


def keeping_up(rows: list[dict[str, Any]], wrong: str | None = None) -> str:
    """Write the headline of a capacity report: groups that fall behind or have no members.

    ``rows`` are those of `headroom`; ``wrong``, another problem in a sentence, is used if the
    report itself finds none.
    """
    known = [row for row in rows if row["falls_behind"] is not None]
    behind = [row for row in known if row["falls_behind"] == _CLEARLY]
    empty = [row["group_id"] for row in rows if row["members"] == 0 and row["lag"]]
    sentences = [_say_who_kept_up(known, behind)]
    if known and (others := len(rows) - len(known)):
        sentences.append(f"The rates of {others:,} more are unknown.")
    if empty:
        more = f" and {len(empty) - 1:,} more" if empty[1:] else ""
        verbs = ("have", "lag") if more else ("has", "lags")
        sentences.append(f"{empty[0]}{more} {verbs[0]} no members now and {verbs[1]}.")
    if wrong is not None and not behind and not empty:
        sentences.append(wrong)
    return " ".join(sentences)


def _say_who_kept_up(known: list[dict[str, Any]], behind: list[dict[str, Any]]) -> str:
    if not known:
        return "The rates at which records arrive and are finished are unknown for every group."
    unclear = any(row["falls_behind"] == _MAYBE for row in known)
    if behind:
        worst = max(behind, key=lambda row: row["arrival_rate"] - row["completion_rate"])
        done, came = (
            number(worst[name], THOUSANDS) for name in ("completion_rate", "arrival_rate")
        )
        rates = f"{done} of {came} records/s"
        if len(known) == 1:
            return f"{worst['group_id']} fell behind: it finished {rates}."
        clearly = "clearly " if unclear else ""
        which = "the worst, " if len(behind) > 1 else ""
        return (
            f"{len(behind):,} of {pluralize(len(known), 'share group')} {clearly}fell behind: "
            f"{which}{worst['group_id']}, finished {rates}."
        )
    if unclear:
        if len(known) > 1:
            return f"None of {pluralize(len(known), 'share group')} clearly fell behind."
        return "The share group has not clearly fallen behind."
    return f"{f'All {len(known):,} share groups' if len(known) > 1 else 'The share group'} kept up."


def _falls_behind(
    arrival: float | None, completion: float | None, mine: list[dict[str, Any]]
) -> str | None:
    """Return how clearly a group finished less than arrived, by its share partitions that did."""
    if arrival is None or completion is None:
        return None
    if completion >= arrival:
        return _NO
    short = [one for one in mine if one["completion_rate"] < one["arrival_rate"]]
    if any(_is_clear(one) for one in short):
        return _CLEARLY
    # Where records of the state topic are missing, the completion rate is a lower bound.
    return None if any(one["breaks"] for one in short) else _MAYBE


def _is_clear(one: Mapping[str, Any]) -> bool:
    """Return whether the shortfall exceeds chance, and records were left to deliver."""
    if one["breaks"]:
        return False
    never_began = one["drain"] == UNKNOWN and one["oldest_offset"] is None
    return never_began or one["drain"] in (NEVER, NOBODY, STALLED)


@dataclass(frozen=True)
class Proposal:
    """The variants that would clear the lag of a group."""

    group: str
    clearing: Clearing
    words: str  # what clears the lag, if anything does, and the assumptions behind it
    seeds: int

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions of the simulations."""
        found = self.clearing.comparison
        return found.scenarios[found.baseline].assumed


def propose(
    case: Case,
    *,
    members: Sequence[int] = (),
    assignors: Sequence[str] = ASSIGNORS,
    minutes: float | None = None,
    seeds: int | None = None,
) -> Proposal:
    """Search for what would clear the lag of one group, of several the one with the largest lag.

    Without ``members``, more and more are tried until the lag clears; ``assignors`` are tried in
    addition to Kafka's own. By default ``minutes`` is the time that clearing takes by the rates,
    and ``seeds``, the simulations of each variant, as many as distinguish the variants.
    """
    given: tuple[tuple[str, Any, Any], ...]
    given = (("minutes", minutes, int | float), ("seeds", seeds, int))
    for name, value, kind in given:
        if value is not None and not (isinstance(value, kind) and value > 0):
            raise InputError(f"the parameter {name!r} must be a number above 0")
    group = _group(case)
    scenario = scenario_from(case.evidence, group)
    duration_ms = None if minutes is None else round(minutes * 60_000)
    most = search(scenario, assignors or (), members or (), duration_ms)
    less = "give fewer minutes, seeds or members, such as -p minutes 10"
    require_end([most.size], most.runs * (seeds or most.seeds), less)
    found = what_clears(
        scenario,
        assignors=assignors or (),
        members=members or (),
        duration_ms=duration_ms,
        seeds=None if seeds is None else range(seeds),
    )
    count = pc.count_distinct(found.comparison.runs.column("seed")).as_py()
    return Proposal(group, found, _words(group, found), count)


def _group(case: Case) -> str:
    lags = case.evidence.lag.group_by("group_id").aggregate([("lag", "sum")]).to_pylist()
    known = [row for row in lags if row["lag_sum"] is not None]
    if not known:
        raise InputError(
            "no group has a known lag: choose a group that has finished something (group)"
        )
    return str(max(known, key=lambda row: (row["lag_sum"], row["group_id"]))["group_id"])


def _words(group: str, found: Clearing) -> str:
    words, scenario = found.verdict(), found.comparison.scenarios[found.comparison.baseline]
    decides = [one for one in scenario.assumed if isinstance(one, Assumption)]
    if unknown_work(scenario) or not decides:  # as the verdict says
        return f"{group}: {words}."
    assumed = "; ".join(one.what for one in decides)
    return f"{group}: the result depends on an assumption ({assumed}). If it holds, {words}."
