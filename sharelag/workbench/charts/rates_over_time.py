"""Arrival and completion rates over time, from moment to moment of the timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag import schemas
from sharelag.metrics.columns import numbers
from sharelag.metrics.observed import BINS
from sharelag.metrics.regime import last_change
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import Theme, line

#: Spans that are drawn.
_MOST = 40
#: One share partition between two moments that follow each other.
RATES_OVER_TIME = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("begin", schemas.TIMESTAMP),
        ("as_of", schemas.TIMESTAMP),
        # offsets by which the end moved; null: an end is not known, or it fell
        ("arrived", pa.int64()),
        # by which start offset + delivery complete count moved; null likewise
        ("finished", pa.int64()),
        ("arrival_rate", pa.float64()),  # offsets a second
        ("completion_rate", pa.float64()),
    ]
)


def rates_over_time_records(timeline: Arrow) -> pa.Table:
    """What arrived and was finished from moment to moment.

    Parameters
    ----------
    timeline : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.TIMELINE`, sorted by share partition and moment.

    Returns
    -------
    pyarrow.Table
        `RATES_OVER_TIME`, a row for every two moments of a share partition that follow each other.
    """
    schemas.require(timeline, schemas.TIMELINE, "timeline")
    timeline = rows.at_known_ends(as_table(timeline))
    if timeline.num_rows < 2:
        return RATES_OVER_TIME.empty_table()
    code = rows.codes(timeline).indices.to_numpy()
    later = np.flatnonzero(np.diff(code) == 0) + 1
    time, _ = numbers(timeline, "as_of")
    end = rows.floats(timeline, "end_offset")
    done = rows.floats(timeline, "start_offset") + rows.floats(timeline, "delivery_complete_count")
    arrived, finished = (_moved(values, later) for values in (end, done))
    seconds = (time[later] - time[later - 1]) / 1000
    table = as_table(timeline)
    now, before = table.take(pa.array(later)), table.take(pa.array(later - 1))
    columns = rows.names_of(now) | {
        "begin": before.column("as_of"),
        "as_of": now.column("as_of"),
        "arrived": pa.array(arrived, from_pandas=True),
        "finished": pa.array(finished, from_pandas=True),
        "arrival_rate": pa.array(arrived / seconds, from_pandas=True),
        "completion_rate": pa.array(finished / seconds, from_pandas=True),
    }
    return rows.conformed(columns, RATES_OVER_TIME)


def rates_over_time_figure(records: pa.Table, theme: Theme = "light") -> Any:
    """Arrivals and completions of all share partitions together, with a gap where not known.

    Share partitions that are not known most of the time are left out altogether: a sum that some
    are missing from now and then would seem to fall.

    Parameters
    ----------
    records : pyarrow.Table
        `RATES_OVER_TIME`.
    theme : {"light", "dark"}
    """
    as_of = rows.latest(records)
    kept, out = _mostly_known(records)
    unit = (
        "Offsets a second: by which the end offset moved, and start offset + "
        "delivery complete count."
    )
    if not len(kept):
        return empty(
            "At no two moments are the offsets known", Story("No rate is known", as_of, unit), theme
        )
    moments, sums = _summed(kept)
    first = kept.column("begin").to_numpy().min()
    edges = np.concatenate([[first], moments]).astype("datetime64[ms]")
    edges, sums = _pooled(edges, sums, np.arange(0, len(moments), -(-len(moments) // _MOST)))
    middle = (edges[:-1] + (edges[1:] - edges[:-1]) / 2).astype(str)
    words = {"arrival_rate": "arrivals", "completion_rate": "completions"}
    traces = [
        plotly().Scatter(
            x=[one.replace("T", " ") for one in middle],
            y=rows.optional(sums[name]),
            mode="lines+markers",
            connectgaps=False,
            name=label,
            hovertext=[
                text.hover(
                    f"{label} {text.number(value)} offsets/s",
                    f"{begin} to {end}".replace("T", " ") + " UTC",
                )
                for value, begin, end in zip(
                    sums[name].tolist(), edges[:-1].astype(str), edges[1:].astype(str), strict=True
                )
            ],
            hoverinfo="text",
            **line(number, theme),
        )
        for number, (name, label) in enumerate(words.items())
    ]
    gaps = int(np.isnan(sums["arrival_rate"]).sum()), int(np.isnan(sums["completion_rate"]).sum())
    count = len(rows.codes(kept).dictionary)
    story = Story(
        title=_over_time_title(kept, sums, edges),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: {gaps[0]} arrival and {gaps[1]} completion rates of {len(middle)} "
        "each: gaps."
        if any(gaps)
        else "",
        facts=(f"Sum of {text.counted(count, 'share partition')}.",)
        + (
            (f"Left out: {text.counted(out, 'share partition')} not known most of the time.",)
            if out
            else ()
        ),
    )
    axis = {"title": {"text": "offsets a second"}, "rangemode": "tozero"}
    return figure(
        traces, story, theme, xaxis={"title": {"text": "time (UTC)"}, "type": "date"}, yaxis=axis
    )


def _moved(values: Any, later: Any) -> Any:
    """By how much a value grew since the row before; NaN where not known, or where it fell."""
    moved = values[later] - values[later - 1]
    return np.where(moved >= 0, moved, np.nan)


def _mostly_known(records: pa.Table) -> tuple[pa.Table, int]:
    """Rows of share partitions whose rates are known half of the time, and how many are not."""
    if not len(records):
        return records, 0
    code = rows.codes(records).indices.to_numpy()
    known = ~np.isnan(
        rows.floats(records, "arrival_rate") + rows.floats(records, "completion_rate")
    )
    mostly = np.bincount(code, known) * 2 >= np.maximum(np.bincount(code), 1)
    mostly &= np.bincount(code, known) > 0
    return records.filter(pa.array(mostly[code])), int((~mostly).sum())


def _summed(kept: pa.Table) -> tuple[Any, dict[str, Any]]:
    """The moments, and the sum of each rate at them; NaN where one share partition's is missing."""
    moments, at = np.unique(kept.column("as_of").to_numpy(), return_inverse=True)
    size = len(rows.codes(kept).dictionary)
    sums = {}
    for name in ("arrival_rate", "completion_rate"):
        rate = rows.floats(kept, name)
        complete = np.bincount(at, ~np.isnan(rate), len(moments)) == size
        sums[name] = np.where(complete, np.bincount(at, np.nan_to_num(rate), len(moments)), np.nan)
    return moments, sums


def _pooled(edges: Any, sums: dict[str, Any], first: Any) -> tuple[Any, dict[str, Any]]:
    """Means over spans that begin at some edges; NaN where less than half of a span is known."""
    seconds = np.diff(edges).astype(float)
    pooled = {}
    for name, rate in sums.items():
        known = np.add.reduceat(np.where(np.isnan(rate), 0, seconds), first)
        moved = np.add.reduceat(np.nan_to_num(rate) * seconds, first)
        enough = 2 * known >= np.add.reduceat(seconds, first)
        pooled[name] = np.divide(moved, known, out=np.full(len(first), np.nan), where=enough)
    return np.append(edges[first], edges[-1]), pooled


def _over_time_title(kept: pa.Table, sums: dict[str, Any], edges: Any) -> str:
    groups = rows.groups_of(kept)
    begin = _last_change(edges, sums)
    sums = {name: rate[begin:] for name, rate in sums.items()}
    known = ~np.isnan(sums["arrival_rate"] + sums["completion_rate"])
    if not known.any():
        return f"{groups}: at no moment are all rates known"
    seconds = (edges[begin + 1 :] - edges[begin:-1]).astype(float)[known]
    arrival, completion = (float(np.average(sums[name][known], weights=seconds)) for name in sums)
    # Always named: the forecast may go by another time.
    at: datetime = edges[begin + int(np.argmax(known))].item()
    when = f"since {text.moment(at.replace(tzinfo=UTC))}"
    arrive, finish = text.number(arrival), text.number(completion)
    if np.isclose(arrival, completion):
        return f"{groups}: as much arrives as is finished {when}, {arrive} offsets a second"
    if arrival > completion:
        return (
            f"{groups}: lag grows {when}: {arrive} offsets a second arrive, {finish} are finished"
        )
    return f"{groups}: lag shrinks {when}: {finish} offsets a second are finished, {arrive} arrive"


def _last_change(edges: Any, sums: dict[str, Any]) -> int:
    """The span with which the rates begin that the forecast goes by; 0 where nothing changed.

    As in the forecast, what lies before the first moment with known rates does not count.
    """
    known = ~np.isnan(sums["arrival_rate"] + sums["completion_rate"])
    begin = int(np.argmax(known))
    count = len(edges) - 1 - begin
    if count < BINS:
        return 0
    first = np.linspace(0, count, BINS, endpoint=False).astype(int)
    ends, parts = _pooled(edges[begin:], {name: rate[begin:] for name, rate in sums.items()}, first)
    seconds = np.diff(ends).astype(float) / 1000
    arrived, finished = (
        (parts[name] * seconds)[np.newaxis] for name in ("arrival_rate", "completion_rate")
    )
    change = int(first[last_change(finished, arrived)[0]])
    return begin + change if change else 0
