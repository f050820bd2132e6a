"""What would have been with other members: a section of the report on an incident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sharelag import whatif
from sharelag.errors import InputError
from sharelag.metrics.lag import rollup_arrow
from sharelag.reports.inputs import Case
from sharelag.whatif import Otherwise
from sharelag.whatif.otherwise import SEEDS
from sharelag.workbench.pasts import gather_past

#: What was found, or why nothing can be said.
Tried: TypeAlias = Otherwise | str


def otherwise(
    case: Case,
    members: int | Sequence[int] | None,
    alert: str | None = None,
    seeds: int = SEEDS,
) -> Tried:
    """Simulate the group with the largest lag over the time of a report, as it was and otherwise.

    It is a sentence where no members are given, or the past cannot be simulated.
    """
    if not members:
        return (
            "Nothing was simulated: -p members 12 says what would have been with 12 members, and "
            "-p alert 'age>30s' whether that alert would have fired."
        )
    groups = rollup_arrow(case.evidence.lag, "group").to_pylist()
    group = max(groups, key=lambda row: (row["lag"] or 0, row["group_id"]))["group_id"]
    begin = case.evidence.as_of - case.known_span
    try:
        past = gather_past(case.bench, group, begin)
        tried = whatif.variants(past.scenario, members=members)
        return whatif.otherwise(past, tried, alert=alert, seeds=range(seeds))
    except InputError as error:
        return f"The past of {group} cannot be simulated: {error}."
