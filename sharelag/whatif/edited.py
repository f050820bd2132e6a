"""Compare a group as it is with the same under an assignment made by hand.

    what_if(scenario, {"member-0": {"orders": [0, 1]}, "member-1": {}}, seeds=range(5))

The same scenario, assignment and seeds give the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from sharelag.whatif.compare import Comparison, compare
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.fixed import ByName, with_assignment
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import interruptible

#: What `what_if` says about each measure: what people call it, and what it means when it is not
#: known.
_TOLD = {
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
    seeds: Iterable[int] = range(5),
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
        Both sides meet the same luck in each.
    cancelled : callable, optional
        Called before each run and now and then within it: whether to give up.
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Returns
    -------
    pyarrow.Table or None
        A row a measure: ``baseline`` and ``edited`` (means over the seeds), ``low`` and ``high`` of
        their difference (95 %), ``verdict`` (``better``, ``worse``, ``same``, ``unclear``),
        ``unit``; None when cancelled.
    """
    chosen = list(seeds)

    def check() -> None:
        if cancelled is not None and cancelled():
            raise _CancelledError

    def report(done: int, total: int) -> None:
        check()
        if progress is not None:
            progress(done, total)

    try:
        with interruptible(check):
            sides = {"baseline": scenario, "edited": with_assignment(scenario, assignment, chosen)}
            comparison = compare(sides, seeds=chosen, baseline="baseline", progress=report)
    except _CancelledError:
        return None
    return pa.Table.from_pylist(
        [_row(comparison, measure) for measure in _TOLD], schema=_DIFFERENCE
    )


class _CancelledError(Exception):
    """Nobody waits any more."""


def _row(comparison: Comparison, measure: str) -> dict[str, Any]:
    words, unknown = _TOLD[measure]
    means = {row["variant"]: row["mean"] for row in _of(comparison.measures, measure)}
    (found,) = _of(comparison.differences, measure)
    about = MEASURED[measure]
    return {
        "measure": words,
        "unit": about.unit,
        "better": {"lower": "less", "higher": "more"}.get(about.better or ""),
        "unknown": unknown,
        "verdict": _verdict(found),
        "baseline": means["baseline"],
        "edited": means["edited"],
        "low": found["low"],
        "high": found["high"],
    }


def _of(table: pa.Table, measure: str) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["measure"] == measure]


def _verdict(found: Mapping[str, Any]) -> str:
    if found["better"] is not None:
        return "better" if found["better"] else "worse"
    is_same = found["difference"] == 0 and found["low"] == found["high"]
    return "same" if is_same else "unclear"
