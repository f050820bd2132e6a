"""Lag, its age and rates over time, and rates and drain forecasts of share partitions.

The age is that of the oldest unfinished offset, interpolated between known end offsets of its topic
partition. The age of records from before the first known end has only a lower bound.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
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
    interval,
    note,
    plotly,
    row_figure,
    shade,
)
from sharelag.charts.palette import MOST_LINES, PAPER, Theme, line
from sharelag.metrics.age import first_time, known_ends, time_of
from sharelag.metrics.columns import numbers
from sharelag.metrics.observed import BINS
from sharelag.metrics.rates import (
    DRAINED,
    DRAINS,
    DRAINS_OF,
    NEVER,
    NOBODY,
    PAUSED,
    STALLED,
    UNCERTAIN,
    UNKNOWN,
    last_change,
)
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, ascending, table_of
from sharelag.tables.gaps import REASONS

# ---- lag and age ---------------------------------------------------------------------------------

#: One share partition at one moment.
LAG_OVER_TIME = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("as_of", schemas.TIMESTAMP),
        ("lag", pa.int64()),
        ("lag_reason", pa.string()),  # why lag is null
        ("age_ms", pa.int64()),  # null: unknown
        # lower bound of an unknown age, whose record is older than the first known end
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
    return table_of(columns, LAG_OVER_TIME)


def lag_over_time_figure(
    records: pa.Table, theme: Theme = "light", most: int = MOST_LINES
) -> Figure:
    """Draw lag above age, one line per share partition, as steps between known moments.

    An unknown moment is a shaded gap.

    Parameters
    ----------
    records : pyarrow.Table
        `LAG_OVER_TIME`.
    theme : {"light", "dark"}
    most : int
        Maximum number of share partitions: those with the most lag now, worst of each group first.
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
            f"{text.pluralize(lag, 'lag')} of {text.number(len(records))}: shaded" * bool(lag),
            f"{text.pluralize(age - older, 'age')}: a gap" * bool(age - older),
            f"{text.pluralize(older, 'age')} older than the first known end offset: the dotted "
            "line is the lower bound" * bool(older),
        ),
        facts=rows.left_out(others, "share partition", _why_not(records, chosen, others, most)),
    )
    return figure(
        traces,
        story,
        theme,
        420,
        xaxis=TIME_AXIS | {"anchor": "y2"},
        yaxis=axis("lag (offsets)", pc.max(chosen.column("lag")).as_py() or 0, domain=[0.55, 1]),
        yaxis2=axis(f"age ({unit})", domain=[0, 0.45]),
        hovermode="closest",
        shapes=_dark_times(chosen, theme),
    )


def _dark_times(chosen: pa.Table, theme: Theme) -> list[dict[str, Any]]:
    """Return the spans between known moments in which the lag of any line is unknown."""
    times = chosen.column("as_of").cast(pa.int64()).to_numpy()
    at, known = chosen.column("row").to_numpy(), chosen.column("lag").is_valid().to_numpy()
    dark = np.flatnonzero(~known)
    goes_on = np.append(np.diff(at) == 0, False)  # in the next row
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
    """Return the lines of lag, age, and the lower bound of unknown ages."""
    plain = mine.to_pylist()
    shared = hovers((whole, text.moment(one["as_of"]), *_lag_lines(one)) for one in plain) | {
        "x": [text.axis_time(one["as_of"]) for one in plain],
        "mode": "lines+markers",
        "connectgaps": False,
        "name": text.escape(label),
        "legendgroup": str(row),
    }
    steps, look, faint = (line(row, theme) for _ in range(3))
    steps["line"] |= {"shape": "hv"}  # lag stays until the next known value
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
        most = f"{text.pluralize(peak['lag'], 'offset')}, {where}"
        return f"{groups}: no lag {f'was left{at}' if at else 'is left'}; the most was {most}"
    since = (now["as_of"] - before["as_of"]).total_seconds() * 1000
    ago = f", {text.change(now['lag'] - before['lag'], since)}" if since else ""
    who = names[0] if rows.has_several_groups(chosen) else f"{groups}: {names[0]}"
    verb = "had" if at else "has"
    return f"{who} {verb} the most lag, {text.pluralize(now['lag'], 'offset')}{at}{ago}"


# ---- rates from moment to moment -----------------------------------------------------------------

#: Number of spans in the chart.
_MOST_SPANS = 40
#: One share partition between two consecutive moments.
RATES_OVER_TIME = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("begin", schemas.TIMESTAMP),
        ("as_of", schemas.TIMESTAMP),
        # increase of the end offset; null: an end is unknown, or it fell
        ("arrived", pa.int64()),
        # increase of start offset + delivery complete count; null likewise
        ("finished", pa.int64()),
        ("arrival_rate", pa.float64()),  # offsets per second
        ("completion_rate", pa.float64()),
    ]
)
_MOVED = {"arrival_rate": "arrivals", "completion_rate": "completions"}


def rates_over_time_records(timeline: Arrow) -> pa.Table:
    """Return arrivals and completions between the moments of a `schemas.TIMELINE`.

    The timeline is sorted by share partition and moment; each pair of consecutive moments of a
    share partition is a row of `RATES_OVER_TIME`.
    """
    schemas.require(timeline, schemas.TIMELINE, "timeline")
    table = rows.at_known_ends(as_table(timeline))
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
    return table_of(columns, RATES_OVER_TIME)


def rates_over_time_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw the sums of arrivals and completions over all share partitions, with gaps if unknown.

    Share partitions whose rates are unknown most of the time are left out, because a sum that
    sometimes lacks some of them would seem to fall.

    Parameters
    ----------
    records : pyarrow.Table
        `RATES_OVER_TIME`.
    theme : {"light", "dark"}
    """
    as_of = rows.latest(records)
    kept, out = _mostly_known(records)
    unit = (
        "Offsets per second by which the end offset moved, and start offset + delivery complete "
        "count."
    )
    if not len(kept):
        why = "The offsets are not known at any two moments"
        return empty(why, Story("No rate is known", as_of, unit), theme)
    count = len(rows.codes(kept).dictionary)
    moments, sums = _sum_rates(kept, count)
    first = kept.column("begin").to_numpy().min()
    edges = np.concatenate([[first], moments]).astype("datetime64[ms]")
    edges, sums = _pool(edges, sums, np.arange(0, len(moments), -(-len(moments) // _MOST_SPANS)))
    middle = rows.axis_times(edges[:-1] + (edges[1:] - edges[:-1]) / 2)
    times = rows.axis_times(edges)
    traces = []
    for number, (name, label) in enumerate(_MOVED.items()):
        lines = [
            (f"{label} {text.number(value)} offsets/s", f"{begin} to {end} UTC")
            for value, begin, end in zip(sums[name].tolist(), times[:-1], times[1:], strict=True)
        ]
        traces.append(
            plotly().Scatter(
                x=middle,
                y=rows.optional(sums[name]),
                mode="lines+markers",
                connectgaps=False,
                name=label,
                **hovers(lines),
                **line(number, theme),
            )
        )
    gaps = [int(np.isnan(sums[name]).sum()) for name in _MOVED]
    story = Story(
        title=_moved_title(kept, sums, edges),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: {gaps[0]} arrival and {gaps[1]} completion rates of {len(middle)} "
        "each: gaps." * any(gaps),
        facts=(f"Sum of {text.pluralize(count, 'share partition')}.",)
        + (f"Left out: {text.pluralize(out, 'share partition')} not known most of the time.",)
        * bool(out),
    )
    return figure(traces, story, theme, xaxis=TIME_AXIS, yaxis=axis("offsets per second"))


def _mostly_known(records: pa.Table) -> tuple[pa.Table, int]:
    """Return rows of share partitions with rates known half of the time, and count the others."""
    code = rows.codes(records).indices.to_numpy()
    known = ~np.isnan(sum(rows.floats(records, name) for name in _MOVED))
    mostly = np.bincount(code, known) * 2 >= np.maximum(np.bincount(code), 1)
    mostly &= np.bincount(code, known) > 0
    return records.filter(pa.array(mostly[code])), int((~mostly).sum())


def _sum_rates(kept: pa.Table, count: int) -> tuple[Any, dict[str, Any]]:
    """Return the moments and the sum of each rate; NaN if a share partition's is missing."""
    moments, at = np.unique(kept.column("as_of").to_numpy(), return_inverse=True)
    sums = {}
    for name in _MOVED:
        rate = rows.floats(kept, name)
        complete = np.bincount(at, ~np.isnan(rate), len(moments)) == count
        sums[name] = np.where(complete, np.bincount(at, np.nan_to_num(rate), len(moments)), np.nan)
    return moments, sums


def _pool(edges: Any, sums: dict[str, Any], first: Any) -> tuple[Any, dict[str, Any]]:
    """Return means over the spans between edges; NaN if less than half of a span is known."""
    seconds = np.diff(edges).astype(float)
    pooled = {}
    for name, rate in sums.items():
        known = np.add.reduceat(np.where(np.isnan(rate), 0, seconds), first)
        moved = np.add.reduceat(np.nan_to_num(rate) * seconds, first)
        enough = 2 * known >= np.add.reduceat(seconds, first)
        pooled[name] = np.divide(moved, known, out=np.full(len(first), np.nan), where=enough)
    return np.append(edges[first], edges[-1]), pooled


def _moved_title(kept: pa.Table, sums: dict[str, Any], edges: Any) -> str:
    groups = rows.groups_of(kept)
    begin = _last_change(edges, sums)
    sums = {name: rate[begin:] for name, rate in sums.items()}
    known = ~np.isnan(sum(sums.values()))
    if not known.any():
        return f"{groups}: at no moment are all rates known"
    seconds = (edges[begin + 1 :] - edges[begin:-1]).astype(float)[known]
    arrival, completion = (float(np.average(sums[name][known], weights=seconds)) for name in sums)
    # Always say the span, as the forecast may use another.
    at: datetime = edges[begin + int(np.argmax(known))].item()
    when = f"since {text.moment(at.replace(tzinfo=UTC))}"
    arrive, finish = text.number(arrival), text.number(completion)
    if np.isclose(arrival, completion):
        return f"{groups}: as much arrives as is finished {when}, {arrive} offsets per second"
    if arrival > completion:
        return (
            f"{groups}: lag grows {when}: {arrive} offsets per second arrive, {finish} are finished"
        )
    return (
        f"{groups}: lag shrinks {when}: {finish} offsets per second are finished, {arrive} arrive"
    )


def _last_change(edges: Any, sums: dict[str, Any]) -> int:
    """Return the first span whose rates the forecast uses; 0 without a change.

    As in the forecast, spans before the first known rates do not count.
    """
    begin = int(np.argmax(~np.isnan(sum(sums.values()))))
    count = len(edges) - 1 - begin
    if count < BINS:
        return 0
    first = np.linspace(0, count, BINS, endpoint=False).astype(int)
    ends, parts = _pool(edges[begin:], {name: rate[begin:] for name, rate in sums.items()}, first)
    seconds = np.diff(ends).astype(float) / 1000
    arrived, finished = ((parts[name] * seconds)[np.newaxis] for name in _MOVED)
    change = int(first[last_change(finished, arrived)[0]])
    return begin + change if change else 0


_NO_PARTITION = "There is no share partition: choose other groups"


def _progress(*names: str) -> list[Any]:
    return [*schemas.NAMED_SHARE_PARTITION, *map(schemas.PROGRESS.field, names)]


# ---- rates ---------------------------------------------------------------------------------------

_RATES = ("arrival_rate", "completion_rate", "redelivery_rate")
#: One share partition over its observed span: columns of `schemas.PROGRESS`.
RATES = pa.schema(_progress("observed_ms", "breaks", *_RATES, "drain", "as_of"))


def rates_records(progress: Arrow) -> pa.Table:
    """Return the rates in each row of a `schemas.PROGRESS`, as `RATES`."""
    schemas.require(progress, schemas.PROGRESS, "progress")
    return as_table(progress).select(RATES.names).cast(RATES)


def rates_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw arrival, completion and redelivery rates per share partition.

    Parameters
    ----------
    records : pyarrow.Table
        `RATES`.
    theme : {"light", "dark"}
    most : int
        Maximum number of share partitions: those with the most arrivals.
    """
    as_of = rows.latest(records)
    unit = "Offsets per second of each share partition, since its rates last changed."
    if not len(records):
        return empty(_NO_PARTITION, Story("No rate is known", as_of, unit), theme)
    chosen, others = rows.largest(records, "arrival_rate", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    plain = chosen.to_pylist()
    shown = hovers((whole[one["row"]], *_rate_lines(one)) for one in plain)
    each = [rows.floats(chosen, name) for name in _RATES]
    both = np.stack([*each[:2], np.full(len(chosen), np.nan)], axis=1).ravel()
    scatter, place = plotly().Scatter, chosen.column("row").to_numpy()
    link: dict[str, Any] = {"mode": "lines", "line": {"color": PAPER[theme]["soft"], "width": 2}}
    link |= {"hoverinfo": "skip", "showlegend": False}
    traces = [scatter(x=rows.optional(both), y=np.repeat(place, 3), **link)]
    for number, words in enumerate(("arrivals", "completions", "redeliveries")):
        look = line(number, theme)["marker"] | {"size": 11}
        if number == 0:  # so that marks on top of it are visible
            look |= {"symbol": "circle-open", "size": 15, "line": {"width": 2.5}}
        points = {"x": rows.optional(each[number]), "y": place, "mode": "markers", "marker": look}
        traces.append(scatter(**points, name=words, cliponaxis=False, **shown))
    # A rate of 0 is drawn at the left edge; an unknown one is a note in the free space.
    furthest = max((one[name] or 0 for one in plain for name in _RATES), default=0)
    notes = [
        note(_free(one, furthest), one["row"], f"? {' and '.join(missing)} rate not known", 14)
        for one in plain
        if (missing := [n for n in ("arrival", "completion") if one[f"{n}_rate"] is None])
    ]
    partial = pc.sum(pc.greater(records.column("breaks"), 0)).as_py() or 0
    gaps = text.pluralize(partial, "share partition")
    unknown = [
        f"{name} rate of {text.pluralize(count, 'share partition')}"
        for name in ("arrival", "completion")
        if (count := records.column(f"{name}_rate").null_count)
    ]
    story = Story(
        title=_rates_title(records),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: {' and '.join(unknown)}; marked with ?." if unknown else "",
        facts=rows.left_out(others, "share partition", "with fewer arrivals")
        + (f"Records are missing for {gaps}, so the rates are lower bounds.",) * bool(partial),
    )
    down = {"showgrid": len(names) <= 30}
    across = axis("offsets per second")
    return row_figure(traces, story, theme, names, across, yaxis=down, annotations=notes)


def _rate_lines(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"arrivals {text.number(one['arrival_rate'])} offsets/s",
        f"completions {text.number(one['completion_rate'])} offsets/s",
        f"redeliveries {text.number(one['redelivery_rate'])} offsets/s",
        f"observed {text.span(one['observed_ms'])}",
        f"{one['drain']}: {DRAINS_OF.get(one['drain'], '')}" if one["drain"] else "",
    )


def _free(one: dict[str, Any], furthest: float) -> float:
    """Return the middle of the widest space between the marks of a row."""
    marks: list[float] = sorted({0.0, *(one[name] for name in _RATES if one[name] is not None)})
    ends = [*marks[1:], furthest]
    widest: int = max(range(len(marks)), key=lambda place: ends[place] - marks[place])
    return marks[widest]


def _rates_title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    arrival, completion = (rows.floats(records, name) for name in _RATES[:2])
    known = int((~np.isnan(arrival + completion)).sum())
    of = text.pluralize(known, "share partition")
    if not known:
        ways = {"arrive": arrival, "are finished": completion}
        lost = [words for words, rate in ways.items() if np.isnan(rate).all()]
        return f"{groups}: how fast records {' and '.join(lost or ways)} is not known"
    behind = int((arrival > completion).sum())
    if not behind:
        return f"{groups}: in none of {of} more arrives than is finished"
    return f"{groups}: more arrives than is finished in {text.number(behind)} of {of}"


# ---- time to drain -------------------------------------------------------------------------------

_DRAIN = ("drain", "drain_ms", "drain_low_ms", "drain_high_ms")
#: Columns of `schemas.PROGRESS`, and the urgency by which rows are sorted, highest first.
DRAIN_FORECAST = pa.schema(
    [*_progress(*_DRAIN, "arrival_rate", "completion_rate", "as_of"), ("urgency", pa.int8())]
)
#: Forecasts by urgency, most urgent first, with their words in a title.
_URGENCY = {
    NOBODY: "there are no members in",
    STALLED: "nothing is finished in",
    NEVER: "at these rates it never drains in",
    PAUSED: "nothing was finished lately in",
    UNCERTAIN: "it is uncertain whether the lag goes away in",
    DRAINS: "",
    UNKNOWN: "",
    DRAINED: "",
}
#: Sentences on forecasts without a time.
_MOST_SENTENCES = 6


def drain_records(progress: Arrow) -> pa.Table:
    """Return the forecast in each row of a `schemas.PROGRESS`, as `DRAIN_FORECAST`.

    Rows are sorted: groups without members, stalled, growing, nothing finished lately, uncertain,
    draining (longest first), unknown, drained.
    """
    schemas.require(progress, schemas.PROGRESS, "progress")
    table = as_table(progress)
    urgent = {kind: place for place, kind in enumerate(reversed(_URGENCY))}
    urgency = [urgent.get(kind, urgent[UNKNOWN]) for kind in table.column("drain").to_pylist()]
    columns = {name: table.column(name) for name in DRAIN_FORECAST.names[:-1]}
    columns["urgency"] = pa.array(urgency, pa.int8())
    order = [("urgency", "descending"), ("drain_ms", "descending")]
    names = ascending("group_id", "topic", "topic_id", "partition")
    return table_of(columns, DRAIN_FORECAST).sort_by([*order, *names])


def drain_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw one point per share partition that drains, with its 95 % interval.

    A forecast without a time is only a sentence below the title.

    Parameters
    ----------
    records : pyarrow.Table
        `DRAIN_FORECAST`, as sorted.
    theme : {"light", "dark"}
    most : int
        Maximum number of share partitions, from the first on.
    """
    as_of = rows.latest(records)
    unit = "Time until nothing is left, at the observed rates."
    if not len(records):
        return empty(_NO_PARTITION, Story("There is no forecast", as_of, unit), theme)
    timed = [one for one in records.to_pylist() if _has_time(one)]
    unknown = pc.sum(pc.equal(records.column("drain"), UNKNOWN)).as_py() or 0
    story = Story(
        title=_drain_title(records),
        as_of=as_of,
        unit=unit,
        unknown=f"Not known: the forecast of {text.pluralize(unknown, 'share partition')}."
        * bool(unknown),
        facts=(
            *_drain_sentences(records),
            *rows.left_out(max(len(timed) - most, 0), "share partition", "with less urgency"),
        ),
    )
    if not timed:
        return empty("No share partition has a time to drain", replace(story, unit=""), theme)
    story = replace(story, unit=f"{unit[:-1]}; lines are 95 % confidence intervals.")
    several, draining = rows.has_several_groups(records), timed[:most]
    names = [text.share_partition(one, several) for one in draining]
    longest = max(one[name] or 0 for one in draining for name in _DRAIN[1:])
    scale, words = text.time_unit(longest)
    right = longest * 1.12 / scale or 1.0
    look = line(0, theme)["marker"]
    shown = hovers((name, *_drain_lines(one)) for name, one in zip(names, draining, strict=True))
    low = [_reach(one, "drain_low_ms", one["drain_ms"]) / scale for one in draining]
    high = [_reach(one, "drain_high_ms", right * scale) / scale for one in draining]
    scatter = plotly().Scatter
    points = scatter(
        x=[one["drain_ms"] / scale for one in draining],
        y=list(range(len(draining))),
        mode="markers",
        name="drains in",
        marker=look | {"size": 10},
        error_x=interval(low, high, {"color": look["color"], "thickness": 2, "width": 6}),
        **shown,
    )
    never = [row for row, one in enumerate(draining) if one["drain_high_ms"] is None]
    open_end = scatter(
        x=[right] * len(never),
        y=never,
        mode="markers",
        name="may be never",
        marker={"symbol": "triangle-right", "size": 13, "color": look["color"]},
        hoverinfo="skip",
    )
    across = {"title": {"text": f"time to drain ({words})"}, "range": [0, right * 1.04]}
    return row_figure([points, open_end] if never else [points], story, theme, names, across)


def _drain_sentences(records: pa.Table) -> tuple[str, ...]:
    """Return the forecasts without a time in words, once for all share partitions of a group."""
    several = rows.has_several_groups(records)
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records.to_pylist():
        if not _has_time(row):
            kind = row["drain"] or UNKNOWN
            words, low = f"{kind}, {DRAINS_OF.get(kind, '')}", row["drain_low_ms"]
            if kind == UNCERTAIN and low is not None:
                words += f" (at best in {text.span(low)})"
            together.setdefault((row["group_id"], words), []).append(row)
    sentences = []
    for (group, words), mine in together.items():
        who = text.pluralize(len(mine), "share partition")
        if len(mine) == 1:
            who = text.share_partition(mine[0], several)
        elif several:
            who = f"{text.name(group)}: {who}"
        sentences.append(f"{who}: {words}.")
    others = sum(map(len, list(together.values())[_MOST_SENTENCES:]))
    more = f"And {text.pluralize(others, 'more share partition')} without a time to drain."
    return (*sentences[:_MOST_SENTENCES], *([more] if others else []))


def _has_time(row: dict[str, Any]) -> bool:
    return row["drain"] == DRAINS and row["drain_ms"] is not None


def _reach(one: dict[str, Any], name: str, otherwise: float) -> float:
    """Return the length of the interval to one side; without an end, to the edge of the figure."""
    if one[name] is None:
        return max(otherwise - one["drain_ms"], 0) if name == "drain_high_ms" else 0.0
    return float(abs(one[name] - one["drain_ms"]))


def _drain_lines(one: dict[str, Any]) -> tuple[str, ...]:
    at = one["as_of"] + timedelta(milliseconds=min(one["drain_ms"], 1e14))
    high = "never" if one["drain_high_ms"] is None else text.span(one["drain_high_ms"])
    arrivals, completions = (text.number(one[name]) for name in _RATES[:2])
    return (
        f"drains in {text.span(one['drain_ms'])}, at {text.moment(at)}",
        f"interval of 95 % confidence: {text.span(one['drain_low_ms'])} to {high}",
        f"arrivals {arrivals}/s, completions {completions}/s",
    )


def _drain_title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    kinds = records.column("drain").to_pylist()
    of = text.pluralize(len(kinds), "share partition")
    for kind, words in _URGENCY.items():
        if words and kind in kinds:
            return f"{groups}: {words} {text.number(kinds.count(kind))} of {of}"
    spans = rows.floats(records.filter(pc.equal(records.column("drain"), DRAINS)), "drain_ms")
    if len(spans) and not np.isnan(spans).all():
        longest = text.span(float(np.nanmax(spans)))
        return f"{groups}: nothing will be left in {longest}, at the rates observed"
    if DRAINED in kinds:
        rest = f"; {kinds.count(UNKNOWN)} not known" if UNKNOWN in kinds else ""
        return f"{groups}: {text.number(kinds.count(DRAINED))} of {of} drained{rest}"
    return f"{groups}: no forecast can be made"
