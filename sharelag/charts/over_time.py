"""Lag, its age, and the rates of arrivals and completions, from moment to moment.

The age is that of the oldest unfinished offset, by the straight line between the moments at which
the end of its topic partition is known. What had been produced before the first of them is older
than we can say.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    TIME_AXIS,
    Figure,
    Story,
    axis,
    empty,
    figure,
    hovers,
    plotly,
    shade,
)
from sharelag.charts.palette import MOST_LINES, PAPER, Theme, line
from sharelag.metrics.age import first_time, known_ends, time_of
from sharelag.metrics.columns import numbers
from sharelag.metrics.observed import BINS
from sharelag.metrics.rates import last_change
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table
from sharelag.tables.gaps import REASONS

# ---- lag and age ---------------------------------------------------------------------------------

#: One share partition at one moment.
LAG_OVER_TIME = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("as_of", schemas.TIMESTAMP),
        ("lag", pa.int64()),
        ("lag_reason", pa.string()),  # why lag is null
        ("age_ms", pa.int64()),  # null: not known
        # where the age is not known, as its record is older than the first known end
        ("age_at_least_ms", pa.int64()),
    ]
)


def lag_over_time_records(timeline: Arrow) -> pa.Table:
    """Return lag and age for each row of a `schemas.TIMELINE`, as `LAG_OVER_TIME`."""
    schemas.require(timeline, schemas.TIMELINE, "timeline")
    now, _ = numbers(timeline, "as_of")
    ends = known_ends(timeline, schemas.OFFSETS.empty_table(), int(now.max(initial=0)))
    head, has_head = numbers(timeline, "effective_start_offset")
    end, has_end = numbers(timeline, "end_offset")
    produced, dated = time_of(ends, head)
    first, has_first = first_time(ends)
    sized = has_head & has_end
    drained = sized & (head >= end)
    aged = sized & (drained | dated)
    columns = rows.names_of(timeline) | {
        "as_of": timeline.column("as_of"),
        "lag": timeline.column("lag"),
        "lag_reason": timeline.column("lag_reason"),
        "age_ms": pa.array(np.where(drained, 0, np.maximum(now - produced, 0)), mask=~aged),
        "age_at_least_ms": pa.array(np.maximum(now - first, 0), mask=~(sized & ~aged & has_first)),
    }
    return rows.conform(columns, LAG_OVER_TIME)


def lag_over_time_figure(
    records: pa.Table, theme: Theme = "light", most: int = MOST_LINES
) -> Figure:
    """Draw lag above age, one line per share partition: steps between moments that are known.

    Where one is unknown the line has a gap, which is shaded.

    Parameters
    ----------
    records : pyarrow.Table
        `LAG_OVER_TIME`.
    theme : {"light", "dark"}
    most : int
        Share partitions to draw: those with the most lag now, first the worst of each group.
    """
    as_of, records = rows.latest(records), rows.at_known_ends(records)
    if not len(records):
        story = Story("No moment of any share partition is known", as_of, "")
        return empty("The timeline is empty: choose another time, or other groups", story, theme)
    chosen, others = rows.largest_at_last(records, "lag", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    at = chosen.column("row").to_numpy()
    ages = np.concatenate([rows.floats(chosen, name) for name in ("age_ms", "age_at_least_ms")])
    scale, unit = text.time_unit(float(np.nanmax(ages, initial=0)))
    traces: list[Any] = []
    for row, label in enumerate(names):
        mine = chosen.filter(pa.array(at == row))
        traces += _lines(mine, row, label, whole[row], scale, theme)
    lag, age = (records.column(name).null_count for name in ("lag", "age_ms"))
    older = len(records) - records.column("age_at_least_ms").null_count
    story = Story(
        title=_lag_title(chosen, names),
        as_of=as_of,
        unit="Above: lag in offsets (end offset - start offset - delivery complete count). "
        "Below: age of the oldest unfinished offset.",
        unknown=text.not_known(
            f"{text.counted(lag, 'lag')} of {text.number(len(records))}: shaded" * bool(lag),
            f"{text.counted(age - older, 'age')}: a gap" * bool(age - older),
            f"{text.counted(older, 'age')} older than the first known end offset: the dotted "
            "line is the least" * bool(older),
        ),
        facts=rows.left_out(others, "share partition", _why_not(records, chosen, others, most)),
    )
    return figure(
        traces,
        story,
        theme,
        420,
        xaxis=TIME_AXIS | {"anchor": "y2"},
        yaxis=axis("lag (offsets)", domain=[0.55, 1]),
        yaxis2=axis(f"age ({unit})", domain=[0, 0.45]),
        hovermode="closest",
        shapes=_dark_times(chosen, theme),
    )


def _dark_times(chosen: pa.Table, theme: Theme) -> list[dict[str, Any]]:
    """Return when the lag of any line is unknown, from known moment to known moment."""
    times = chosen.column("as_of").cast(pa.int64()).to_numpy()
    at, known = chosen.column("row").to_numpy(), chosen.column("lag").is_valid().to_numpy()
    dark = np.flatnonzero(~known)
    goes_on = np.append(np.diff(at) == 0, False)  # with the next row
    begins = np.where(np.roll(goes_on, 1), np.roll(times, 1), times)[dark]
    ends = np.where(goes_on, np.roll(times, -1), times)[dark]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(set(zip(begins.tolist(), ends.tolist(), strict=True))):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        elif end > begin:
            spans.append((begin, end))
    edges = pa.array([edge for span in spans for edge in span], schemas.TIMESTAMP)
    words = [text.axis_time(edge) for edge in edges.to_pylist()]
    colour = PAPER[theme]["soft"]
    return [shade(words[n], words[n + 1], colour, 0.12) for n in range(0, len(words), 2)]


def _lines(
    mine: pa.Table, row: int, label: str, whole: str, scale: float, theme: Theme
) -> list[Any]:
    """Lag, age, and the least age where no more is known."""
    plain = mine.to_pylist()
    shared = hovers((whole, text.moment(one["as_of"]), *_lag_lines(one)) for one in plain) | {
        "x": [text.axis_time(one["as_of"]) for one in plain],
        "mode": "lines+markers",
        "connectgaps": False,
        "name": text.escape(label),
        "legendgroup": str(row),
    }
    steps, look, faint = (line(row, theme) for _ in range(3))
    steps["line"] |= {"shape": "hv"}  # lag stays until it is known to be another
    faint["line"] |= {"dash": "dot", "width": 1}
    faint["marker"] |= {"size": 6, "symbol": f"{faint['marker']['symbol']}-open"}
    lag, age, least = (rows.floats(mine, name) for name in ("lag", "age_ms", "age_at_least_ms"))
    below = {"yaxis": "y2", "showlegend": False}
    scatter = plotly().Scatter
    return [
        scatter(**shared, **steps, y=rows.optional(lag)),
        scatter(**shared, **look, **below, y=rows.optional(age / scale)),
        scatter(**shared, **faint, **below, y=rows.optional(least / scale)),
    ]


def _lag_lines(one: dict[str, Any]) -> list[str]:
    lag = f"lag {text.number(one['lag'])}"
    if one["lag"] is None:
        lag += f": {REASONS.get(one['lag_reason'], one['lag_reason'])}"
    if one["age_at_least_ms"] is not None:
        return [lag, f"age at least {text.span(one['age_at_least_ms'])}"]
    return [lag, f"age {text.span(one['age_ms'])}"]


def _why_not(records: pa.Table, chosen: pa.Table, others: int, most: int) -> str:
    groups = len(pc.unique(records.column("group_id")))
    less = "with less lag" if groups == 1 else "with less lag than another of their group"
    less += ", or of groups with less" if groups > most else ""
    last = pa.scalar(rows.latest(records), schemas.TIMESTAMP)
    known, drawn = (
        pc.sum(pc.and_(pc.equal(some.column("as_of"), last), some.column("lag").is_valid())).as_py()
        for some in (records, chosen)
    )
    dark = others - (known or 0) + (drawn or 0)
    if dark == others:
        return "that are gone or have no known lag at the last moment"
    if not dark:
        return less
    are = "are" if dark > 1 else "is"
    return (
        f"{less}; {text.number(dark)} of them {are} gone or without a known lag at the last moment"
    )


def _lag_title(chosen: pa.Table, names: list[str]) -> str:
    groups = rows.groups_of(chosen)
    known = chosen.filter(chosen.column("lag").is_valid())
    if not len(known):
        return f"No lag of {groups} is known at any of these moments"
    (peak,) = known.slice(int(np.argmax(known.column("lag").to_numpy())), 1).to_pylist()
    if peak["lag"] == 0:
        return f"{groups}: no lag at any of the moments at which it is known"
    first = known.filter(pc.equal(known.column("row"), 0)).to_pylist()
    now, before = first[-1], first[0]
    at = "" if now["as_of"] == rows.latest(chosen) else f" at {text.moment(now['as_of'])}"
    if now["lag"] == 0:
        where = f"{names[peak['row']]} at {text.moment(peak['as_of'])}"
        most = f"{text.counted(peak['lag'], 'offset')}, {where}"
        return f"{groups}: no lag {f'was left{at}' if at else 'is left'}; the most was {most}"
    since = (now["as_of"] - before["as_of"]).total_seconds() * 1000
    ago = f", {text.change(now['lag'] - before['lag'], since)}" if since else ""
    who = names[0] if rows.has_several_groups(chosen) else f"{groups}: {names[0]}"
    verb = "had" if at else "has"
    return f"{who} {verb} the most lag, {text.counted(now['lag'], 'offset')}{at}{ago}"


# ---- rates ---------------------------------------------------------------------------------------

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
_RATES = {"arrival_rate": "arrivals", "completion_rate": "completions"}


def rates_over_time_records(timeline: Arrow) -> pa.Table:
    """Return what arrived and was finished from moment to moment of a `schemas.TIMELINE`.

    That is sorted by share partition and moment; there is one row of `RATES_OVER_TIME` per two
    moments of a share partition that follow each other.
    """
    schemas.require(timeline, schemas.TIMELINE, "timeline")
    table = rows.at_known_ends(as_table(timeline))
    if table.num_rows < 2:
        return RATES_OVER_TIME.empty_table()
    later = np.flatnonzero(np.diff(rows.codes(table).indices.to_numpy()) == 0) + 1
    time, _ = numbers(table, "as_of")
    done = rows.floats(table, "start_offset") + rows.floats(table, "delivery_complete_count")
    moved = []
    for values in (rows.floats(table, "end_offset"), done):
        by = values[later] - values[later - 1]
        moved.append(np.where(by >= 0, by, np.nan))
    seconds = (time[later] - time[later - 1]) / 1000
    now, before = table.take(pa.array(later)), table.take(pa.array(later - 1))
    columns = rows.names_of(now) | {
        "begin": before.column("as_of"),
        "as_of": now.column("as_of"),
        "arrived": pa.array(moved[0], from_pandas=True),
        "finished": pa.array(moved[1], from_pandas=True),
        "arrival_rate": pa.array(moved[0] / seconds, from_pandas=True),
        "completion_rate": pa.array(moved[1] / seconds, from_pandas=True),
    }
    return rows.conform(columns, RATES_OVER_TIME)


def rates_over_time_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw arrivals and completions of all share partitions together, with gaps where not known.

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
        why = "At no two moments are the offsets known"
        return empty(why, Story("No rate is known", as_of, unit), theme)
    count = len(rows.codes(kept).dictionary)
    moments, sums = _sum_rates(kept, count)
    first = kept.column("begin").to_numpy().min()
    edges = np.concatenate([[first], moments]).astype("datetime64[ms]")
    edges, sums = _pool(edges, sums, np.arange(0, len(moments), -(-len(moments) // _MOST)))
    middle = (edges[:-1] + (edges[1:] - edges[:-1]) / 2).astype(str)
    times = [one.replace("T", " ") for one in edges.astype(str)]
    traces = []
    for number, (name, label) in enumerate(_RATES.items()):
        lines = [
            (f"{label} {text.number(value)} offsets/s", f"{begin} to {end} UTC")
            for value, begin, end in zip(sums[name].tolist(), times[:-1], times[1:], strict=True)
        ]
        traces.append(
            plotly().Scatter(
                x=[one.replace("T", " ") for one in middle],
                y=rows.optional(sums[name]),
                mode="lines+markers",
                connectgaps=False,
                name=label,
                **hovers(lines),
                **line(number, theme),
            )
        )
    gaps = [int(np.isnan(sums[name]).sum()) for name in _RATES]
    story = Story(
        title=_rates_title(kept, sums, edges),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: {gaps[0]} arrival and {gaps[1]} completion rates of {len(middle)} "
        "each: gaps." * any(gaps),
        facts=(f"Sum of {text.counted(count, 'share partition')}.",)
        + (f"Left out: {text.counted(out, 'share partition')} not known most of the time.",)
        * bool(out),
    )
    return figure(traces, story, theme, xaxis=TIME_AXIS, yaxis=axis("offsets a second"))


def _mostly_known(records: pa.Table) -> tuple[pa.Table, int]:
    """Rows of share partitions whose rates are known half of the time, and how many are not."""
    if not len(records):
        return records, 0
    code = rows.codes(records).indices.to_numpy()
    known = ~np.isnan(sum(rows.floats(records, name) for name in _RATES))
    mostly = np.bincount(code, known) * 2 >= np.maximum(np.bincount(code), 1)
    mostly &= np.bincount(code, known) > 0
    return records.filter(pa.array(mostly[code])), int((~mostly).sum())


def _sum_rates(kept: pa.Table, count: int) -> tuple[Any, dict[str, Any]]:
    """Return the moments, and each rate's sum at them; NaN where a share partition's is missing."""
    moments, at = np.unique(kept.column("as_of").to_numpy(), return_inverse=True)
    sums = {}
    for name in _RATES:
        rate = rows.floats(kept, name)
        complete = np.bincount(at, ~np.isnan(rate), len(moments)) == count
        sums[name] = np.where(complete, np.bincount(at, np.nan_to_num(rate), len(moments)), np.nan)
    return moments, sums


def _pool(edges: Any, sums: dict[str, Any], first: Any) -> tuple[Any, dict[str, Any]]:
    """Means over spans that begin at some edges; NaN where less than half of a span is known."""
    seconds = np.diff(edges).astype(float)
    pooled = {}
    for name, rate in sums.items():
        known = np.add.reduceat(np.where(np.isnan(rate), 0, seconds), first)
        moved = np.add.reduceat(np.nan_to_num(rate) * seconds, first)
        enough = 2 * known >= np.add.reduceat(seconds, first)
        pooled[name] = np.divide(moved, known, out=np.full(len(first), np.nan), where=enough)
    return np.append(edges[first], edges[-1]), pooled


def _rates_title(kept: pa.Table, sums: dict[str, Any], edges: Any) -> str:
    groups = rows.groups_of(kept)
    begin = _last_change(edges, sums)
    sums = {name: rate[begin:] for name, rate in sums.items()}
    known = ~np.isnan(sum(sums.values()))
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
    """Return the first span of the rates that the forecast goes by; 0 where nothing changed.

    As in the forecast, what lies before the first moment with known rates does not count.
    """
    begin = int(np.argmax(~np.isnan(sum(sums.values()))))
    count = len(edges) - 1 - begin
    if count < BINS:
        return 0
    first = np.linspace(0, count, BINS, endpoint=False).astype(int)
    ends, parts = _pool(edges[begin:], {name: rate[begin:] for name, rate in sums.items()}, first)
    seconds = np.diff(ends).astype(float) / 1000
    arrived, finished = ((parts[name] * seconds)[np.newaxis] for name in _RATES)
    change = int(first[last_change(finished, arrived)[0]])
    return begin + change if change else 0
