"""Arrival against completion rates, a point a share partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.rates import DRAINS_OF
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import (
    Story,
    empty,
    figure,
    note,
    plotly,
    row_axis,
    rows_height,
)
from sharelag.workbench.charts.palette import PAPER, Theme, line

_MARKED = ("arrival_rate", "completion_rate", "redelivery_rate")
#: One share partition over the span that was observed of it: columns of
#: `sharelag.schemas.PROGRESS`.
RATES = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        *[
            schemas.PROGRESS.field(name)
            for name in (
                "observed_ms",
                "breaks",
                "arrival_rate",
                "completion_rate",
                "redelivery_rate",
                "drain",
                "as_of",
            )
        ],
    ]
)


def rates_records(progress: Arrow) -> pa.Table:
    """The rates of each share partition.

    Parameters
    ----------
    progress : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.PROGRESS`.

    Returns
    -------
    pyarrow.Table
        `RATES`, a row a row of progress.
    """
    schemas.require(progress, schemas.PROGRESS, "progress")
    return as_table(progress).select(RATES.names).cast(RATES)


def rates_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Any:
    """How fast records arrive, are finished and are redelivered, for each share partition.

    Parameters
    ----------
    records : pyarrow.Table
        `RATES`.
    theme : {"light", "dark"}
    most : int
        Share partitions to draw: those with the most arrivals.
    """
    as_of = rows.latest(records)
    unit = "Offsets a second of each share partition, since its rates last changed."
    if not len(records):
        return empty(
            "There is no share partition: choose other groups",
            Story("No rate is known", as_of, unit),
            theme,
        )
    chosen, others = rows.largest(records, "arrival_rate", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    plain = chosen.to_pylist()
    hovers = [text.hover(whole[one["row"]], *_hover(one)) for one in plain]
    arrival, completion, redelivery = (
        rows.floats(chosen, f"{n}_rate") for n in ("arrival", "completion", "redelivery")
    )
    both = np.stack([arrival, completion, np.full(len(arrival), np.nan)], axis=1).ravel()
    go, place = plotly(), chosen.column("row").to_numpy()
    link = {"color": PAPER[theme]["soft"], "width": 2}
    traces = [
        go.Scatter(
            x=rows.optional(both),
            y=np.repeat(place, 3),
            mode="lines",
            line=link,
            hoverinfo="skip",
            showlegend=False,
        )
    ]
    for number, (words, rate) in enumerate(
        (("arrivals", arrival), ("completions", completion), ("redeliveries", redelivery))
    ):
        look = line(number, theme)["marker"] | {"size": 11}
        if number == 0:  # so that what lies upon it shows
            look |= {"symbol": "circle-open", "size": 15, "line": {"width": 2.5}}
        traces.append(
            go.Scatter(
                x=rows.optional(rate),
                y=place,
                mode="markers",
                name=words,
                cliponaxis=False,
                marker=look,
                hovertext=hovers,
                hoverinfo="text",
            )
        )
    # A rate of 0 is drawn at the left edge; one that is not known has words, where no mark is.
    furthest = max((one[name] or 0 for one in plain for name in _MARKED), default=0)
    notes = [
        note(_free(one, furthest), one["row"], f"? {missing}", 14)
        for one in plain
        if (missing := _missing(one))
    ]
    partial = pc.sum(pc.greater(records.column("breaks"), 0)).as_py() or 0
    gaps = text.counted(partial, "share partition")
    story = Story(
        title=_rates_title(records),
        as_of=as_of,
        unit=unit,
        unknown=_unknown(records),
        facts=rows.left_out(others, "share partition", "with fewer arrivals")
        + ((f"Records are missing for {gaps}, so the rates are at least these.",) * bool(partial)),
    )
    return figure(
        traces,
        story,
        theme,
        rows_height(len(names)),
        xaxis={"title": {"text": "offsets a second"}, "rangemode": "tozero"},
        yaxis=row_axis(names) | {"showgrid": len(names) <= 30},
        annotations=notes,
    )


def _hover(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"arrivals {text.number(one['arrival_rate'])} offsets/s",
        f"completions {text.number(one['completion_rate'])} offsets/s",
        f"redeliveries {text.number(one['redelivery_rate'])} offsets/s",
        f"observed {text.span(one['observed_ms'])}",
        f"{one['drain']}: {DRAINS_OF.get(one['drain'], '')}" if one["drain"] else "",
    )


def _missing(one: dict[str, Any]) -> str:
    names = [name for name in ("arrival", "completion") if one[f"{name}_rate"] is None]
    return f"{' and '.join(names)} rate not known" if names else ""


def _free(one: dict[str, Any], furthest: float) -> float:
    """Where a row has the most room between its marks."""
    marks: list[float] = sorted({0.0, *(one[name] for name in _MARKED if one[name] is not None)})
    ends = [*marks[1:], furthest]
    widest: int = max(range(len(marks)), key=lambda place: ends[place] - marks[place])
    return marks[widest]


def _unknown(records: pa.Table) -> str:
    counts = {name: records.column(f"{name}_rate").null_count for name in ("arrival", "completion")}
    missing = [
        f"{name} rate of {text.counted(count, 'share partition')}"
        for name, count in counts.items()
        if count
    ]
    return f"Not known: {' and '.join(missing)}; marked with ?." if missing else ""


def _rates_title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    arrival, completion = (
        rows.floats(records, f"{name}_rate") for name in ("arrival", "completion")
    )
    known = int((~np.isnan(arrival + completion)).sum())
    if not known:
        ways = {"arrive": arrival, "are finished": completion}
        lost = [words for words, rate in ways.items() if np.isnan(rate).all()]
        return f"{groups}: how fast records {' and '.join(lost or ways)} is not known"
    behind = int((arrival > completion).sum())
    if not behind:
        return (
            f"{groups}: in none of {text.counted(known, 'share partition')} more arrives "
            "than is finished"
        )
    of = text.counted(known, "share partition")
    return f"{groups}: more arrives than is finished in {text.number(behind)} of {of}"
