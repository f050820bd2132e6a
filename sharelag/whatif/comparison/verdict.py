"""One sentence on a comparison: which variant is better, by which measure, and by how much.

Two measures decide: the 95th percentile of the age of the oldest record, and the time until the
lag is gone. The sentence names the one that shows a difference, or both, and where they disagree
it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from sharelag.durations import duration
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.scenario import Scenario

#: The measures that decide, in this order, and their words.
DECISIVE = {"age_p95_ms": "p95 age", "drain_ms": "drain time"}
#: Variants of which a sentence has the figures; the table has those of all.
_MOST = 4


class Compared(Protocol):
    """What a sentence needs of a `sharelag.whatif.comparison.outcome.Comparison`."""

    @property
    def runs(self) -> pa.Table:
        """One row a run."""

    @property
    def baseline(self) -> str:
        """The variant that others are compared with."""

    @property
    def scenarios(self) -> Mapping[str, Scenario]:
        """What was compared, as far as it is at hand."""

    def winner(self, measure: str) -> str | None:
        """The variant that is better than all others by a measure."""


def verdict(found: Compared) -> str:
    """Return the sentence on a comparison, without a full stop.

    Nothing is said of which variant is better where nobody knows how long a record takes, and that
    no change helps where an open transaction holds what decides.
    """
    scenario = found.scenarios.get(found.baseline)
    if scenario is not None and (unknown := unknown_work(scenario)):
        return unknown
    measures = [name for name in DECISIVE if name in found.runs.column_names]
    winners = {name: found.winner(name) for name in measures}
    best = list(dict.fromkeys(name for name in winners.values() if name))
    held = "" if scenario is None else blocked(scenario)
    names = _in_order(found, best)
    # Who alone is named before the colon is not named again after it.
    is_one = len(best) == 1 or (not best and not held and len(names) == 2)
    subject = names[0] if is_one else None
    figures = "; ".join(
        _course(found, name) if name == subject else f"{name}: {_course(found, name)}"
        for name in names
    )
    if held and not best:
        return f"{held}: members do not help there, nor do assignors or locks; {figures}"
    if held:
        figures += f"; {found.baseline} is {held}"
    return f"{_who(found, winners, names)}{_horizon(found)}: {figures}"


def unknown_work(scenario: Scenario) -> str:
    """Say why nothing can be said of how long a scenario takes; empty where it can.

    A simulation needs the processing time of a record. Where nothing was measured of it, any
    number would only be the one that was assumed.
    """
    for one in scenario.assumed:
        if isinstance(one, Assumption) and one.code == "service":
            why = str(one).removeprefix(one.what).removeprefix(", since ")
            return (
                f"not known: {why}, so nobody knows how long a record takes; give it as "
                "--service 20ms, or service=Service(20) in Python"
            )
    return ""


def blocked(scenario: Scenario) -> str:
    """Say which open transaction holds the lag of a scenario; empty where none does."""
    if scenario.settings.isolation_level != "read_committed":
        return ""
    held = [
        (f"{topic.name}:{number}", start.open_from, start.end_offset)
        for topic in scenario.topics
        for number, start in enumerate(topic.starts)
        if start.open_from is not None and start.open_from < start.end_offset
    ]
    if not held:
        return ""
    offsets = sum(end - begin for _, begin, end in held)
    places = ", ".join(f"{name} from offset {begin}" for name, begin, _ in held[:_MOST])
    more = f" and {len(held) - _MOST} more partitions" if len(held) > _MOST else ""
    return f"blocked by a transaction that is open in {places}{more} ({offsets} offsets so far)"


def _who(found: Compared, winners: dict[str, str | None], names: list[str]) -> str:
    """Say who is better by which of the measures that decide."""
    by_name: dict[str, list[str]] = {}
    for measure, name in winners.items():
        by_name.setdefault(name or "", []).append(DECISIVE[measure])
    by_name.pop("", None)
    is_pair = len(set(found.runs.column("variant").to_pylist())) == 2
    if not by_name:
        by = " or ".join(DECISIVE[measure] for measure in winners)
        who = f"{names[0]} is not" if is_pair else "no variant is"
        return f"{who} shown to be better{'' if is_pair else ' than all others'} by {by}"
    said = [f"{name} by {' and '.join(by)}" for name, by in by_name.items()]
    first = next(iter(by_name))
    said[0] = f"{first} is {'better' if is_pair else 'best'}{said[0].removeprefix(first)}"
    return ", but ".join(said)


def _horizon(found: Compared) -> str:
    """The simulated time, on which the age of a growing lag depends."""
    if "duration_ms" not in found.runs.column_names:
        return ""
    spans = found.runs.column("duration_ms").drop_null().to_pylist()
    return f" over {duration(spans[0])}" if spans else ""


def _in_order(found: Compared, best: list[str]) -> list[str]:
    """The variants whose figures it has: the best, others as far as they fit, the baseline."""
    names = list(dict.fromkeys(found.runs.column("variant").to_pylist()))
    told = names if len(names) <= _MOST else []
    others = [name for name in told if name not in (*best, found.baseline)]
    return list(dict.fromkeys([*best, *others, found.baseline]))


def _course(found: Compared, variant: str) -> str:
    """Say how the lag of a variant went on average."""
    runs = [row for row in found.runs.to_pylist() if row["variant"] == variant]
    runs = [row for row in runs if row.get("error") is None]
    if not runs:
        return "all of its runs failed"
    drained = [row["drain_ms"] for row in runs if row.get("drain_ms") is not None]
    ages = [row["age_p95_ms"] for row in runs if row.get("age_p95_ms") is not None]
    if len(drained) == len(runs):
        said = f"drained in {duration(sum(drained) / len(drained))}"
    else:
        often = f" in {len(runs) - len(drained)} of {len(runs)} runs" if drained else ""
        said = f"not drained within {duration(runs[0]['duration_ms'])}{often}"
    old = f", p95 age {duration(sum(ages) / len(ages))}" if ages else ""
    return said + old
