"""Do the groups keep up with what arrives? What would more members, or another assignor, do, simulated from now on?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import investigate
from sharelag.errors import InputError
from sharelag.metrics.lag import rollup_arrow
from sharelag.reports.case import Case
from sharelag.scenarios_from import scenario_from
from sharelag.show import verdict
from sharelag.whatif.compare import Comparison, compare, variants
from sharelag.whatif.scenario import Scenario

#: By what it is decided.
_DECISIVE = "age_p95_ms"


def headroom(case: Case) -> list[dict[str, Any]]:
    """Of each group its rates, members and what its lag crowds around; None where that is not known.

    Returns
    -------
    list of dict
        The group with the highest arrivals first. Rates are records a second, sums over the share partitions; unknown
        where one of them is.
    """
    evidence = case.evidence
    members = {row["group_id"]: row["members"] for row in evidence.groups.to_pylist()}
    skew = {row["group_id"]: row for row in investigate.skew(evidence).to_pylist()}
    progress = defaultdict(list)
    for one in evidence.progress.to_pylist():
        progress[one["group_id"]].append(one)
    rows = []
    for row in rollup_arrow(evidence.lag, "group").to_pylist():
        group, mine = row["group_id"], progress[row["group_id"]]
        completion, count = _sum([one["completion_rate"] for one in mine]), members.get(group)
        rows.append(
            {
                "group_id": group,
                "members": count,
                "partitions": row["partitions"],
                "arrival_rate": _sum([one["arrival_rate"] for one in mine]),
                "completion_rate": completion,
                "per_member": completion / count if count and completion is not None else None,
                "lag": row["lag"],
                "skew": verdict(skew[group]) if group in skew else None,
            }
        )
    return sorted(rows, key=lambda row: (-(row["arrival_rate"] or 0), row["group_id"]))


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


@dataclass(frozen=True)
class Proposal:
    """Variants of a group, the first being as it is."""

    group: str
    rows: list[dict[str, Any]]
    words: str  # which is better, if the runs say so
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
    now = len(scenario.members)
    tried = list(members) or sorted({max(now + 1, round(now * 1.5)), max(now * 2, 2)})
    made = {"as it is": scenario}
    made |= variants(scenario, members=tried)
    made |= variants(scenario, assignors=[name for name in assignors if name != scenario.assignor])
    found = compare(made, seeds=range(seeds), baseline="as it is")
    rows = [_row(name, one, found) for name, one in made.items()]
    return Proposal(group, rows, _words(found, minutes), scenario.assumed, seeds)


def _group(case: Case) -> str:
    lags = case.evidence.lag.group_by("group_id").aggregate([("lag", "sum")]).to_pylist()
    known = [row for row in lags if row["lag_sum"] is not None]
    if not known:
        raise InputError("of no group the lag is known: choose a group that has finished something (group)")
    return str(max(known, key=lambda row: (row["lag_sum"], row["group_id"]))["group_id"])


def _row(name: str, scenario: Scenario, found: Comparison) -> dict[str, Any]:
    measured = {row["measure"]: row for row in _of(found.measures, name)}
    differs = {row["measure"]: row for row in _of(found.differences, name)}
    drain = measured["drain_ms"]
    return {
        "variant": name,
        "members": len(scenario.members),
        "drain_ms": None if drain["mean"] is None else round(drain["mean"]),
        "drained": f"{drain['n']} of {drain['n'] + drain['unknown']}",
        "lag_p95": measured["lag_p95"]["mean"],
        "lag_p95_difference": _interval(differs.get("lag_p95"), 1, ""),
        "age_p95_ms": None if measured[_DECISIVE]["mean"] is None else round(measured[_DECISIVE]["mean"]),
        "age_p95_difference": _interval(differs.get(_DECISIVE), 1000, " s"),
        "redeliveries": measured["redeliveries"]["mean"],
        "member_hours": measured["member_hours"]["mean"],
    }


def _of(table: pa.Table, variant: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.equal(table.column("variant"), variant)).to_pylist()
    return rows


def _interval(row: dict[str, Any] | None, unit: float, name: str) -> str | None:
    if row is None or row["difference"] is None or row["low"] is None:
        return None
    return f"{_told(row['difference'] / unit, '+')} ± {_told((row['high'] - row['low']) / 2 / unit)}{name}"


def _told(value: float, sign: str = "") -> str:
    return format(value, f"{sign},.0f" if abs(value) >= 100 else f"{sign}.3g")


def _words(found: Comparison, minutes: float) -> str:
    best = found.winner(_DECISIVE)
    if best is None:
        return "No variant is better than all others by the age of the oldest record: the runs do not say so of any."
    advice = "Leave it as it is" if best == "as it is" else f"Take {best}"
    (drain,) = [row for row in _of(found.measures, best) if row["measure"] == "drain_ms"]
    even = "" if drain["n"] else f" In none of its runs is the lag gone within {minutes:g} min: try more."
    return f"{advice}: by the age of the oldest record it is better than all others that were tried.{even}"
