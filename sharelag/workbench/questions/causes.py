"""State of groups, causes of their lag, and its progress."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics import explain as ranking
from sharelag.metrics.measured import add_measured
from sharelag.tables import gaps, views
from sharelag.tables.arrow import as_table, rows_by_group, sum_known
from sharelag.workbench.ask import question
from sharelag.workbench.base import Tables
from sharelag.workbench.result import Result, chart
from sharelag.workbench.verdicts import headline, judge_groups, summarize_groups, worst_cause


@question("evidence")
def overview(t: Tables) -> Result:
    """Return the state of each group, worst first; the title summarizes it in a sentence."""
    evidence = t.bench.evidence()
    groups = judge_groups(evidence, t.bench.patience)
    progress = rows_by_group(evidence.progress, ["group_id", "arrival_rate", "completion_rate"])
    members = {row["group_id"]: row["members"] for row in evidence.groups.to_pylist()}
    rows = [
        group
        | {
            "arrival_rate": sum_known(progress[group["group_id"]], "arrival_rate"),
            "completion_rate": sum_known(progress[group["group_id"]], "completion_rate"),
            "gone": group["drain"],
            "members": members.get(group["group_id"]),
            "cause": worst_cause(group),
        }
        for group in groups
    ]
    names = schemas.OVERVIEW.names
    dark = sum(group["unknown_ages"] for group in groups)
    table = pa.Table.from_pylist(
        [{name: row[name] for name in names} for row in rows], schemas.OVERVIEW
    )
    unknown = (
        *gaps.of_lag(evidence.lag),
        *gaps.of_rows(dark, len(evidence.lag), "the age", [gaps.NO_AGE]),
    )
    notes = _grade_forecasts(t)
    base, title = t.bench.base_of(evidence), headline(groups, [])
    return base.answer(title, table, views.OVERVIEW, notes=notes, unknown=unknown)


def _grade_forecasts(t: Tables) -> tuple[str, ...]:
    """Save forecasts in the workbench's ledger; return their calibration in sentences."""
    if (ledger := t.bench.ledger) is None:
        return ()
    # Imported here, because it loads slowly and is only needed with a ledger.
    from sharelag.workbench.questions.forecasts import keep_forecasts

    read = t.bench.reading
    return read.once(("forecasts", ledger), lambda: keep_forecasts(read, ledger)).sentences


@question("evidence")
def explain(t: Tables, group: str | None = None, patience: timedelta | None = None) -> Result:
    """Return the causes of lag with their evidence, most severe first."""
    evidence, patience = t.bench.evidence(group), patience or t.bench.patience
    causes = as_table(ranking.explain(evidence, patience))
    return t.bench.base_of(evidence).answer(
        "Why is there lag?",
        causes,
        views.CAUSES,
        summaries=tuple(summarize_groups(evidence, causes, patience)),
        charts={"causes": chart("cause", causes, evidence.as_of, as_of=evidence.as_of)},
        notes=_grade_forecasts(t),
        unknown=gaps.of_lag(evidence.lag),
    )


@question("evidence")
def progress(t: Tables, group: str | None = None) -> Result:
    """Return the age, rates, time to drain and retention of the lag."""
    evidence = t.bench.evidence(group)
    table = add_measured(evidence.progress, evidence.measured)
    spans = table.column("observed_ms")
    over = pc.max(spans).as_py()
    notes = (f"rates are over the {duration(over)} before that moment",) if over else ()
    breaks = pc.sum(pc.greater(table.column("breaks"), 0)).as_py() or 0
    unknown = (
        *gaps.of_rows(table["age_ms"].null_count, len(table), "the age", [gaps.NO_AGE]),
        *gaps.of_column(table, "arrival_rate", "how fast records arrive"),
        *gaps.of_column(table, "completion_rate", "how fast they are finished"),
        *gaps.of_rows(
            breaks, len(table), "all changes", ["records are missing: the rates are lower bounds"]
        ),
    )
    return t.bench.base_of(evidence).answer(
        "Age, rates and forecast",
        table,
        views.progress(t.bench.metrics is not None),
        "age_ms",
        charts={"drain": chart("drain", table), "rates": chart("rates", table)},
        notes=(*notes, *_grade_forecasts(t)),
        unknown=unknown,
    )
