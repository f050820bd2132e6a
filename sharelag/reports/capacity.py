"""Capacity: whether groups keep up, and what more members or another assignor would do, simulated from now on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import NEVER, NOBODY, STALLED, UNKNOWN
from sharelag.reports.case import Case
from sharelag.whatif.compare import Comparison, compare, variants
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.scenario import Scenario
from sharelag.workbench.charts.text import number
from sharelag.workbench.show import verdict

#: By what it is decided.
_DECISIVE = "age_p95_ms"
#: What the variants are compared to.
_NOW = "as it is"
#: How sure it is that less was finished than arrived.
_NO, _MAYBE, _CLEARLY = "no", "maybe", "clearly"
#: Assumptions of `sharelag.whatif.from_cluster` without which nobody could say what is better.
_DECIDES = re.compile(
    r"^1 ms of work for each record, since|since the members of the group are not known$|rates are not known$"
)


def headroom(case: Case) -> list[dict[str, Any]]:
    """Of each group its rates, members and what its lag crowds around; None where that is not known.

    Returns
    -------
    list of dict
        The group with the highest arrivals first. Rates are records a second, sums over the share
        partitions; unknown where one of them is. ``falls_behind`` is "no", "maybe" (by chance, or
        what arrived cannot be delivered), "clearly", or None where the rates do not tell it.
    """
    evidence = case.evidence
    members = {row["group_id"]: row["members"] for row in evidence.groups.to_pylist()}
    skew = {row["group_id"]: row for row in case.bench.skew().to_pylist()}
    progress = defaultdict(list)
    for one in evidence.progress.to_pylist():
        progress[one["group_id"]].append(one)
    rows = []
    for row in rollup_arrow(evidence.lag, "group").to_pylist():
        group, mine = row["group_id"], progress[row["group_id"]]
        completion, count = _sum([one["completion_rate"] for one in mine]), members.get(group)
        arrival = _sum([one["arrival_rate"] for one in mine])
        rows.append(
            {
                "group_id": group,
                "members": count,
                "partitions": row["partitions"],
                "arrival_rate": arrival,
                "completion_rate": completion,
                "falls_behind": _falls_behind(arrival, completion, mine),
                "per_member": completion / count if count and completion is not None else None,
                "lag": row["lag"],
                "skew": verdict(skew[group]) if group in skew else None,
            }
        )
    return sorted(rows, key=lambda row: (-(row["arrival_rate"] or 0), row["group_id"]))


def keeping_up(rows: list[dict[str, Any]], wrong: str | None = None) -> str:
    """Who finished less than arrived, and where nobody works: the headline of a review of capacity.

    Parameters
    ----------
    rows : list of dict
        As `headroom` gives them.
    wrong : str, optional
        What else is wrong, in a sentence: told where the review itself finds nothing.
    """
    known = [row for row in rows if row["falls_behind"] is not None]
    behind = [row for row in known if row["falls_behind"] == _CLEARLY]
    empty = [row["group_id"] for row in rows if row["members"] == 0 and row["lag"]]
    sentences = [_kept_up(known, behind)]
    if known and (others := len(rows) - len(known)):
        sentences.append(f"Of {others} more the rates are not known.")
    if empty:
        more = f" and {len(empty) - 1} more" if empty[1:] else ""
        sentences.append(f"Now nobody is in {empty[0]}{more}, which {'lag' if more else 'lags'}.")
    if wrong is not None and not behind and not empty:
        sentences.append(wrong)
    return " ".join(sentences)


def _kept_up(known: list[dict[str, Any]], behind: list[dict[str, Any]]) -> str:
    if not known:
        return "How fast records arrive and are finished is not known of any share group."
    unclear = any(row["falls_behind"] == _MAYBE for row in known)
    if behind:
        worst = max(behind, key=lambda row: row["arrival_rate"] - row["completion_rate"])
        rates = f"{worst['completion_rate']:.3g} of {worst['arrival_rate']:.3g} records a second"
        if len(known) == 1:
            return f"{worst['group_id']} finished less than arrived: {rates}."
        more = " at worst" if len(behind) > 1 else ""
        less = f"{'clearly ' if unclear else ''}finished less than arrived"
        return f"{len(behind)} of {_counted(len(known))} {less}: {worst['group_id']} {rates}{more}."
    if unclear:
        who = (
            f"None of {_counted(len(known))} clearly fell"
            if len(known) > 1
            else "1 share group did not clearly fall"
        )
        return f"{who} behind what arrived."
    return (
        f"{'All ' if len(known) > 1 else ''}{_counted(len(known))} finished no less than arrived."
    )


def _counted(groups: int) -> str:
    return f"{groups} share group{'s' * (groups != 1)}"


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _falls_behind(
    arrival: float | None, completion: float | None, mine: list[dict[str, Any]]
) -> str | None:
    """Whether a group finished less than arrived, by the share partitions of it that did."""
    if arrival is None or completion is None:
        return None
    if completion >= arrival:
        return _NO
    short = [one for one in mine if one["completion_rate"] < one["arrival_rate"]]
    if any(_is_clear(one) for one in short):
        return _CLEARLY
    # Where records of the state topic are missing, at least so much was finished.
    return None if any(one["breaks"] for one in short) else _MAYBE


def _is_clear(one: Mapping[str, Any]) -> bool:
    """Less was finished by more than chance may turn, and not since nothing was left to deliver."""
    if one["breaks"]:
        return False
    never_began = one["drain"] == UNKNOWN and one["oldest_offset"] is None
    grows = one["drain"] == NEVER and one["drain_low_ms"] is None
    return grows or never_began or one["drain"] in (NOBODY, STALLED)


@dataclass(frozen=True)
class Proposal:
    """Variants of a group, the first being as it is."""

    group: str
    rows: list[dict[str, Any]]
    words: str  # which is better, if the runs say so, and what has to be assumed for that
    assumed: tuple[str, ...]
    seeds: int


def propose(
    case: Case,
    *,
    members: Sequence[int] = (),
    assignors: Sequence[str] = (),
    minutes: float = 10,
    seeds: int = 5,
) -> Proposal:
    """Simulate variants of the group of a case.

    Parameters
    ----------
    case : Case
        Of several groups the one with the largest lag is taken.
    members : sequence of int
        Numbers of members to try; without any, half more and twice as many.
    assignors : sequence of str
        Others to try than Kafka's.
    minutes : float
        How long each simulation goes on.
    seeds : int
        How many simulations of each variant.

    Raises
    ------
    InputError
        There is nothing to simulate from.
    """
    group = _group(case)
    scenario = scenario_from(case.evidence, group, duration_ms=round(minutes * 60_000))
    now = len(scenario.each_member())
    tried = list(members) or sorted({max(now + 1, round(now * 1.5)), max(now * 2, 2)})
    made = {_NOW: scenario}
    made |= variants(scenario, members=tried)
    if now:  # else there is nothing that an assignor could assign
        made |= variants(
            scenario, assignors=[name for name in assignors if name != scenario.assignor]
        )
    found = compare(made, seeds=range(seeds), baseline=_NOW)
    rows = [_row(name, one, found) for name, one in made.items()]
    decides = [one for one in scenario.assumed if _DECIDES.search(one)]
    return Proposal(
        group, rows, _words(group, rows, found, minutes, decides), scenario.assumed, seeds
    )


def _group(case: Case) -> str:
    lags = case.evidence.lag.group_by("group_id").aggregate([("lag", "sum")]).to_pylist()
    known = [row for row in lags if row["lag_sum"] is not None]
    if not known:
        raise InputError(
            "of no group the lag is known: choose a group that has finished something (group)"
        )
    return str(max(known, key=lambda row: (row["lag_sum"], row["group_id"]))["group_id"])


def _row(name: str, scenario: Scenario, found: Comparison) -> dict[str, Any]:
    measured = {row["measure"]: row for row in _of(found.measures, name)}
    differs = {row["measure"]: row for row in _of(found.differences, name)}
    drain = measured["drain_ms"]
    return {
        "variant": name,
        "members": len(scenario.each_member()),
        "drain_ms": None if drain["mean"] is None else round(drain["mean"]),
        "drained": f"{drain['n']} of {drain['n'] + drain['unknown']}",
        "lag_p95": measured["lag_p95"]["mean"],
        "lag_p95_difference": _interval(differs.get("lag_p95"), number),
        "age_p95_ms": None
        if measured[_DECISIVE]["mean"] is None
        else round(measured[_DECISIVE]["mean"]),
        "age_p95_difference": _interval(differs.get(_DECISIVE), duration),
        "redeliveries": measured["redeliveries"]["mean"],
        "member_hours": measured["member_hours"]["mean"],
    }


def _of(table: pa.Table, variant: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(
        pc.equal(table.column("variant"), variant)
    ).to_pylist()
    return rows


def _interval(row: dict[str, Any] | None, told: Callable[[float], str]) -> str | None:
    if row is None or row["difference"] is None or row["low"] is None:
        return None
    if row["difference"] == row["low"] == row["high"] == 0:
        return "the same"
    difference, half = row["difference"], (row["high"] - row["low"]) / 2
    return f"{'+' if difference > 0 else '-' if difference < 0 else ''}{told(abs(difference))} ± {told(half)}"


def _words(
    group: str, rows: list[dict[str, Any]], found: Comparison, minutes: float, decides: list[str]
) -> str:
    best = found.winner(_DECISIVE)
    if best is None:
        said = "no variant is better than all others by the age of the oldest record: the runs do not say so of any"
    else:
        by_name = {row["variant"]: row for row in rows}
        won, now = by_name[best], by_name[_NOW]
        ages = f"the p95 age of its oldest record is {_span(won)}" + (
            f" instead of {_span(now)}" if won != now else ""
        )
        even = (
            ""
            if won["drained"][0] != "0"
            else f". In none of its runs is the lag gone within {minutes:g} min: try more"
        )
        said = f"{'leave it as it is' if best == _NOW else f'take {best}'}, better than all others tried: {ages}{even}"
    if not decides:
        return f"{group}: {said}."
    assumed = "; ".join(one.partition(", since")[0] for one in decides)
    return f"{group}: what is best rests on an assumption ({assumed}). If it holds, {said}."


def _span(row: dict[str, Any]) -> str:
    return "not known" if row["age_p95_ms"] is None else duration(row["age_p95_ms"])
