"""Results of other values: simulations, what they take and find, and evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import pyarrow as pa

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.schemas import AMOUNT
from sharelag.tables import views
from sharelag.tables.views import View
from sharelag.whatif.compare import Comparison
from sharelag.whatif.consumer_group import ConsumerGroupResult, Moving
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.search import Found
from sharelag.whatif.simulate import SimulationResult
from sharelag.workbench import charts
from sharelag.workbench import trial_rows as trials
from sharelag.workbench.charts.comparison import measure_words
from sharelag.workbench.result import Result

#: Columns of words that are amounts.
_AMOUNTS = frozenset({*trials.AMOUNTS, "value", "consumer_group", "share_group"})
#: Measures whose chart is worth having.
_DRAWN = ("age_p95_ms", "drain_ms", "lag_p95", "lag_max", "redeliveries", "member_hours")


def told(
    found: Comparison
    | Found
    | Moving
    | SimulationResult
    | ConsumerGroupResult
    | Scenario
    | Evidence,
) -> Result:
    """What simulations take and find, as a table that shows itself in a notebook.

    Parameters
    ----------
    found
        From `sharelag.whatif`: ``compare``, ``fewest_members``, ``should_move``, ``simulate`` or a
        scenario; or the evidence behind a workbench's answers.

    Returns
    -------
    Result
        Its table is in words; the numbers are in the tables of ``found``.

    Raises
    ------
    InputError
        It is none of these.
    """
    if isinstance(found, Comparison):
        return _compared(found)
    if isinstance(found, Found):
        rows = [trials.probe_for_people(row) for row in trials.probe_rows("", found)]
        measure = found.goal.measure
        title = f"Fewest members: {str(found).replace(measure, measure_words(measure))}"
        return _result(title, rows, views.PROBES.without("variant"))
    if isinstance(found, Moving):
        rows = [trials.moving_for_people(row) for row in trials.moving_rows("", found)]
        view = views.MOVING.without("variant")
        return _result("Consumer group or share group?", rows, view, (trials.MOVING,))
    if isinstance(found, SimulationResult | ConsumerGroupResult):
        (row,) = found.summary.to_pylist()
        rows = [
            {"by": name, "value": None if value is None else str(value)}
            for name, value in row.items()
        ]
        return _result(f"One run, with seed {found.seed}", rows, views.RUN)
    if isinstance(found, Scenario):
        return _scenario(found)
    if isinstance(found, Evidence):
        return _evidence(found)
    raise InputError(
        f"{type(found).__name__} is nothing that simulations find: give what compare, fewest_members, should_move or "
        "simulate of sharelag.whatif return"
    )


def _scenario(scenario: Scenario) -> Result:
    members, given = (
        scenario.each_member(),
        [*_unlike(scenario.settings), *_unlike(scenario.settings.limits)],
    )
    kinds = Counter(fault.kind.replace("_", " ") for fault in scenario.faults)
    values = {
        "group": scenario.group_id,
        "topics": ", ".join(f"{one.name} ({one.partitions})" for one in scenario.topics),
        "members": f"{len(members):,}",
        "producers": ", ".join(f"{one.topic}: {one.rate:,.3g}/s" for one in scenario.producers)
        or "none",
        "assignor": scenario.assignor,
        "settings that differ from Kafka's": ", ".join(given) or "none",
        "poison records": f"{len(scenario.poison):,}",
        "faults": ", ".join(f"{kind} ({count})" for kind, count in kinds.items()) or "none",
        "autoscaler": "none" if scenario.autoscaler is None else type(scenario.autoscaler).__name__,
        "lasts": duration(scenario.duration_ms),
    }
    rows = [{"by": name, "value": value} for name, value in values.items()]
    notes = (
        *((scenario.about,) if scenario.about else ()),
        *(f"assumed: {one}" for one in scenario.assumed),
    )
    title = f"Scenario {scenario.name}" if scenario.name else f"Scenario of {scenario.group_id}"
    return _result(title, rows, views.SCENARIO, notes)


def _unlike(given: Any) -> list[str]:
    """What is not as it would be if nobody had set it."""
    usual = type(given)()
    return [
        f"{one.name} {getattr(given, one.name)}"
        for one in fields(given)
        if one.name != "limits" and getattr(given, one.name) != getattr(usual, one.name)
    ]


def _evidence(evidence: Evidence) -> Result:
    tables = {name: table for name, table in vars(evidence).items() if isinstance(table, pa.Table)}
    rows = pa.table(
        {"by": pa.array(list(tables)), "value": pa.array([len(table) for table in tables.values()])}
    )
    return Result(
        title="What was read",
        table=rows,
        columns=views.EVIDENCE.columns,
        as_of=evidence.as_of,
        source="a workbench",
        engine=evidence.engine,
        means=views.EVIDENCE.means,
    )


def _compared(found: Comparison) -> Result:
    known = {
        row["measure"] for row in found.differences.to_pylist() if row["difference"] is not None
    }
    rows = [trials.for_people(row) for row in trials.compared_rows(found, trials.SHOWN)]
    drawn = {name: partial(_difference, found, name) for name in _DRAWN if name in known}
    return _result(
        f"Compared to {found.baseline}",
        rows,
        views.COMPARED,
        tuple(trials.sentences(found)),
        drawn,
    )


def _difference(found: Comparison, measure: str, theme: charts.Theme) -> Any:
    return charts.compared_figure(charts.compared_records(found, measure), theme)


def _result(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    view: View,
    notes: tuple[str, ...] = (),
    drawn: Mapping[str, Any] | None = None,
) -> Result:
    """Cells are words already, but for numbers that were counted."""
    made = {name: pa.array([row.get(name) for row in rows]) for name in view.names}
    fields = [
        pa.field(name, cells.type, metadata=AMOUNT if name in _AMOUNTS else None)
        for name, cells in made.items()
    ]
    table = pa.table(list(made.values()), schema=pa.schema(fields))
    return Result(
        title=title,
        table=table,
        columns=view.columns,
        as_of=None,
        source="simulated",
        engine="what-if",
        notes=notes,
        charts=drawn or {},
        means=view.means,
    )
