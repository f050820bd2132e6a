"""Results of other values: simulations, their inputs and outcomes, and evidence."""

from __future__ import annotations

from dataclasses import replace

from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.tables.displayable import Displayable
from sharelag.whatif.compare import Comparison
from sharelag.workbench.result import Result, chart

#: Measures with a chart.
_DRAWN = ("age_p95_ms", "drain_ms", "lag_p95", "lag_max", "redeliveries", "member_hours")


def summarize(found: Displayable) -> Result:
    """Return the inputs or outcome of simulations as a table that renders itself in a notebook.

    ``found`` is from `sharelag.whatif` (``compare``, ``fewest_members``, ``should_move``,
    ``simulate`` or a scenario), or the evidence behind a workbench's answers. The table is in
    words; the numbers are in the tables of ``found``.
    """
    if not isinstance(found, Displayable):
        raise InputError(
            f"{type(found).__name__} cannot be shown as a result: give what compare, "
            "fewest_members, should_move or simulate of sharelag.whatif return"
        )
    result = Result.of(found.presentation())
    if isinstance(found, Evidence):
        return replace(result, as_of=found.as_of, source=found.SOURCE, engine=found.engine)
    if isinstance(found, Comparison):
        rows = found.differences.to_pylist()
        known = {row["measure"] for row in rows if row["difference"] is not None}
        drawn = {name: chart("compared", found, name) for name in _DRAWN if name in known}
        return replace(result, charts=drawn)
    return result
