"""Lag over time, in offsets and as an age.

The age is that of the oldest unfinished offset, by the straight line between the moments at which
the end of its topic partition is known. What had been produced before the first of them is older
than we can say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import first_time, known_ends, time_of
from sharelag.schemas import Arrow
from sharelag.tables.reasons import REASONS
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import MOST_LINES, PAPER, Theme, line

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
    """Lag and age of each share partition, moment by moment.

    Parameters
    ----------
    timeline : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.TIMELINE`.

    Returns
    -------
    pyarrow.Table
        `LAG_OVER_TIME`, a row a row of the timeline, in its order.
    """
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
    return rows.conformed(columns, LAG_OVER_TIME)


def lag_over_time_figure(records: pa.Table, theme: Theme = "light", most: int = MOST_LINES) -> Any:
    """Lag above age, a line a share partition: steps between the moments at which both are known.

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
    traces = [
        trace
        for row, label in enumerate(names)
        for trace in _traces(
            chosen.filter(pa.array(at == row)), row, label, whole[row], scale, theme
        )
    ]
    story = Story(
        title=_title(chosen, names),
        as_of=as_of,
        unit="Above: lag in offsets (end offset - start offset - delivery complete count). "
        "Below: age of the oldest unfinished offset.",
        unknown=_unknown(records),
        facts=rows.left_out(others, "share partition", _why_not(records, chosen, others, most)),
    )
    return figure(
        traces,
        story,
        theme,
        420,
        xaxis={"title": {"text": "time (UTC)"}, "anchor": "y2", "type": "date"},
        yaxis={"title": {"text": "lag (offsets)"}, "domain": [0.55, 1], "rangemode": "tozero"},
        yaxis2={"title": {"text": f"age ({unit})"}, "domain": [0, 0.45], "rangemode": "tozero"},
        hovermode="closest",
        shapes=_shades(chosen, theme),
    )


def _shades(chosen: pa.Table, theme: Theme) -> list[dict[str, Any]]:
    """The times at which the lag of any line is unknown, from known moment to known moment."""
    times = chosen.column("as_of").cast(pa.int64()).to_numpy()
    at, known = chosen.column("row").to_numpy(), chosen.column("lag").is_valid().to_numpy()
    dark = np.flatnonzero(~known)
    goes_on = np.append(np.diff(at) == 0, False)  # with the next row
    begins = np.where(np.roll(goes_on, 1), np.roll(times, 1), times)[dark]
    ends = np.where(goes_on, np.roll(times, -1), times)[dark]
    look = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "opacity": 0.12}
    look |= {"line": {"width": 0}, "fillcolor": PAPER[theme]["soft"]}
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(set(zip(begins.tolist(), ends.tolist(), strict=True))):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        elif end > begin:
            spans.append((begin, end))
    edges = pa.array([edge for span in spans for edge in span], schemas.TIMESTAMP)
    words = [text.axis_time(edge) for edge in edges.to_pylist()]
    return [look | {"x0": words[n], "x1": words[n + 1]} for n in range(0, len(words), 2)]


def _traces(
    mine: pa.Table, row: int, label: str, whole: str, scale: float, theme: Theme
) -> list[Any]:
    hovers = [
        text.hover(whole, text.moment(one["as_of"]), *_hover(one)) for one in mine.to_pylist()
    ]
    shared: dict[str, Any] = {
        "x": [text.axis_time(at) for at in mine.column("as_of").to_pylist()],
        "mode": "lines+markers",
    }
    shared |= {
        "hovertext": hovers,
        "hoverinfo": "text",
        "connectgaps": False,
        "name": text.escaped(label),
    }
    shared |= {"legendgroup": str(row)}
    look, faint = line(row, theme), line(row, theme)
    faint["line"] |= {"dash": "dot", "width": 1}
    faint["marker"] |= {"size": 6, "symbol": f"{faint['marker']['symbol']}-open"}
    scatter = plotly().Scatter
    lag, age, least = (rows.floats(mine, name) for name in ("lag", "age_ms", "age_at_least_ms"))
    return [
        scatter(**shared, **_stepped(look), y=rows.optional(lag)),
        scatter(**shared, **look, y=rows.optional(age / scale), yaxis="y2", showlegend=False),
        scatter(**shared, **faint, y=rows.optional(least / scale), yaxis="y2", showlegend=False),
    ]


def _stepped(look: dict[str, Any]) -> dict[str, Any]:
    """Lag stays until it is known to be another."""
    return look | {"line": look["line"] | {"shape": "hv"}}


def _hover(one: dict[str, Any]) -> list[str]:
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
    dark = others - _known_at_last(records, records) + _known_at_last(chosen, records)
    if dark == others:
        return "that are gone or have no known lag at the last moment"
    if not dark:
        return less
    are = "are" if dark > 1 else "is"
    return (
        f"{less}; {text.number(dark)} of them {are} gone or without a known lag at the last moment"
    )


def _known_at_last(some: pa.Table, records: pa.Table) -> int:
    """Of how many share partitions the lag is known at the last moment of all."""
    at_last = pc.equal(some.column("as_of"), pa.scalar(rows.latest(records), schemas.TIMESTAMP))
    return int(pc.sum(pc.and_(at_last, some.column("lag").is_valid())).as_py() or 0)


def _title(chosen: pa.Table, names: list[str]) -> str:
    groups = rows.groups_of(chosen)
    known = chosen.filter(chosen.column("lag").is_valid())
    if not len(known):
        return f"No lag of {groups} is known at any of these moments"
    (peak,) = known.slice(int(np.argmax(known.column("lag").to_numpy())), 1).to_pylist()
    if peak["lag"] == 0:
        return f"{groups}: no lag at any of the moments at which it is known"
    first = known.filter(pc.equal(known.column("row"), 0)).to_pylist()
    several = len(pc.unique(chosen.column("group_id"))) > 1
    prefix = "" if several else f"{groups}: "
    now, before = first[-1], first[0]
    at = "" if now["as_of"] == rows.latest(chosen) else f" at {text.moment(now['as_of'])}"
    if now["lag"] == 0:
        where = f"{names[peak['row']]} at {text.moment(peak['as_of'])}"
        most = f"{text.counted(peak['lag'], 'offset')}, {where}"
        return f"{groups}: no lag {f'was left{at}' if at else 'is left'}; the most was {most}"
    since = (now["as_of"] - before["as_of"]).total_seconds() * 1000
    change = now["lag"] - before["lag"]
    moved = (
        "as much as"
        if change == 0
        else f"{text.number(abs(change))} {'more' if change > 0 else 'less'} than"
    )
    ago = f", {moved} {text.span(since)} before" if since else ""
    verb = "had" if at else "has"
    return f"{prefix}{names[0]} {verb} the most lag, {text.counted(now['lag'], 'offset')}{at}{ago}"


def _unknown(records: pa.Table) -> str:
    lag, age = (records.column(name).null_count for name in ("lag", "age_ms"))
    older = len(records) - records.column("age_at_least_ms").null_count
    return text.not_known(
        f"{text.counted(lag, 'lag')} of {text.number(len(records))}: shaded" if lag else "",
        f"{text.counted(age - older, 'age')}: a gap" if age - older else "",
        f"{text.counted(older, 'age')} older than the first known end offset: the dotted line "
        "is the least"
        if older
        else "",
    )
