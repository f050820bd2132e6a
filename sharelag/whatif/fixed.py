"""Try an assignment made by hand.

It holds from the first heartbeat to the end: a member that is not named gets nothing, a member that
restarts gets its partitions again, and the partitions of an absent member are served by their other
members, if any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.whatif.compare import Comparison, compare
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.scenario import EDITED, Member, Scenario
from sharelag.whatif.simulation.clock import CancelledError, cancellable

#: Partitions by member name in the scenario and topic.
ByName: TypeAlias = Mapping[str, Mapping[str, Iterable[int]]]


def with_assignment(scenario: Scenario, assignment: ByName) -> Scenario:
    """Return the scenario with the members of an assignment, which keep exactly its partitions.

    Parameters
    ----------
    scenario : Scenario
    assignment : mapping
        For each member, by topic, its partitions. Members that the scenario does not have are
        added, modelled on its members in turn, and stay from beginning to end; members that are not
        named are left out, with their faults.

    Returns
    -------
    Scenario
        ``assumed`` says on which members the new ones are modelled.

    Raises
    ------
    InputError
        A topic or a partition is not in the scenario.
    """
    held = dict[str, tuple[tuple[str, int], ...]]()
    for name, topics in assignment.items():
        held[name] = tuple(
            (topic, one) for topic, given in topics.items() for one in sorted(map(int, set(given)))
        )
        if wrong := [place for place in held[name] if place not in scenario.starts]:
            raise InputError(
                f"{name!r} has partition {wrong[0][1]} of {wrong[0][0]!r}, "
                "which the scenario does not have: correct it, or add it"
            )
    there = {member.name: member for member in scenario.each_member()}
    like = list(there.values()) or [Member(topics=tuple(topic.name for topic in scenario.topics))]
    new = [name for name in assignment if name not in there]
    models = {name: like[number % len(like)] for number, name in enumerate(new)}
    kept = [member for name, member in there.items() if name in assignment]
    added = [replace(model, name=name, join_ms=0, leave_ms=None) for name, model in models.items()]
    faults = (one for one in scenario.faults if not one.member or one.member in assignment)
    return replace(
        scenario,
        members=tuple(replace(one, edited=held[one.name]) for one in (*kept, *added)),
        faults=tuple(faults),
        assignor=EDITED,
        assumed=scenario.assumed
        + tuple(f"{name} is like {one.name}" for name, one in models.items()),
    )


#: The label of each measure, and the meaning of an unknown value.
_SENTENCES = {
    "drain_ms": ("Time until drained", "not drained in every run"),
    "age_p95_ms": ("Age of the oldest record, p95", ""),
    "lag_max": ("Lag, largest", ""),
    "redeliveries": ("Redeliveries", ""),
    "moves": ("Partitions taken from members that stay", ""),
    "idle_members": ("Members without a delivery", ""),
}
_DIFFERENCE = pa.schema(
    [(name, pa.string()) for name in ("measure", "unit", "better", "unknown", "verdict")]
    + [(name, pa.float64()) for name in ("baseline", "edited", "low", "high")]
)


def what_if(
    scenario: Scenario,
    assignment: ByName,
    *,
    seeds: Iterable[int] = range(7),
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pa.Table | None:
    """Compare a scenario with the same under an assignment made by hand.

    Parameters
    ----------
    scenario : Scenario
        The baseline, with its own assignor.
    assignment : mapping
        As for `sharelag.whatif.fixed.with_assignment`.
    seeds : iterable of int
        Random seeds, the same for both sides.
    cancelled : callable, optional
        Called before each run and regularly during it; True cancels.
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Returns
    -------
    pyarrow.Table or None
        One row per measure: ``baseline`` and ``edited`` (means over the seeds), ``low`` and
        ``high`` of their difference (95 %), ``verdict`` (``better``, ``worse``, ``same``,
        ``unclear``), ``unit``; None if cancelled.
    """
    sides = {"baseline": scenario, "edited": with_assignment(scenario, assignment)}
    try:
        with cancellable(cancelled or (lambda: False), progress or (lambda *_: None)) as report:
            comparison = compare(sides, seeds=seeds, progress=report)
    except CancelledError:
        return None
    return pa.Table.from_pylist([_row(comparison, one) for one in _SENTENCES], schema=_DIFFERENCE)


def _row(comparison: Comparison, measure: str) -> dict[str, Any]:
    usual, found = (comparison.cells[name, measure] for name in ("baseline", "edited"))
    about, (words, unknown) = MEASURED[measure], _SENTENCES[measure]
    is_same = found["difference"] == 0 and found["difference_low"] == found["difference_high"]
    verdicts = {True: "better", False: "worse", None: "same" if is_same else "unclear"}
    return {
        "measure": words,
        "unit": about.unit,
        "better": {"lower": "less", "higher": "more"}.get(about.better or ""),
        "unknown": unknown,
        "verdict": verdicts[found["better"]],
        "baseline": usual["mean"],
        "edited": found["mean"],
        "low": found["difference_low"],
        "high": found["difference_high"],
    }
