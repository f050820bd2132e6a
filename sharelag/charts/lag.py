"""Parts of lag, spans of windows against their limit, and imbalance of lag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    Figure,
    Story,
    axis,
    bar,
    empty,
    figure,
    hovers,
    note,
    plotly,
    row_figure,
)
from sharelag.charts.palette import KINDS, MOST_LINES, PAPER, WARN, Theme, line
from sharelag.errors import InputError
from sharelag.metrics.imbalance import spread_columns
from sharelag.metrics.lag import ROLLUP_KEYS, rollup_arrow
from sharelag.model.settings import each_in_force
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table, flat, table_of
from sharelag.tables.gaps import REASONS
from sharelag.tables.words import NOT_KNOWN, percent

# ---- decomposition -------------------------------------------------------------------------------

#: Parts in the order of a bar: column, kind, and name in the legend.
PARTS = {
    "unread": ("unread", KINDS["unread"], "Unread"),
    "available": ("window_available", KINDS["available"], "Available"),
    "unknown": ("window_unknown", KINDS["unknown"], "Unknown"),
    "complete": ("window_complete", KINDS["finished"], "Complete (no lag)"),
}
#: One part of the distance from start to end of a share partition, topic or group.
DECOMPOSITION = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,  # null where summed over
        ("part", pa.string()),  # one of PARTS; all except complete are lag
        ("offsets", pa.int64()),  # null: unknown
        ("lag", pa.int64()),  # of all parts, as Kafka counts it; null: unknown
        ("lag_reason", pa.string()),  # why it is unknown
        ("unknown_lags", pa.int64()),  # share partitions missing from the sum
        ("as_of", schemas.TIMESTAMP),
    ]
)


def decomposition_records(lag: Arrow, by: str = "partition") -> pa.Table:
    """Return the parts of lag by partition, topic or group: four rows of `DECOMPOSITION` each."""
    schemas.require(lag, schemas.LAG, "lag")
    if by == "partition":
        table = as_table(lag)
        unknown = pc.is_null(table.column("lag")).cast(pa.int64())
        table = table.append_column("unknown_lags", unknown)
    else:
        table = as_table(rollup_arrow(lag, by))
        missing = [name for name, _ in schemas.NAMED_SHARE_PARTITION if name not in ROLLUP_KEYS[by]]
        for name in [*missing, "lag_reason"]:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(len(table)))
    parts = [rows.floats(table, column) for column, *_ in PARTS.values()]
    wide = table.take(pa.array(np.repeat(np.arange(len(table)), len(PARTS))))
    columns = {name: wide.column(name) for name in DECOMPOSITION.names if name in wide.column_names}
    columns |= {
        "part": pa.array([*PARTS] * len(table), pa.string()),
        "offsets": pa.array(np.stack(parts, axis=1).ravel(), from_pandas=True),
    }
    return table_of(columns, DECOMPOSITION)


def decomposition_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw one stacked bar per share partition, topic or group.

    Parameters
    ----------
    records : pyarrow.Table
        `DECOMPOSITION`.
    theme : {"light", "dark"}
    most : int
        Rows to draw: those with the most lag.
    """
    as_of = rows.latest(records)
    if not len(records):
        why = "There is no share partition: choose other groups or topics"
        return empty(why, Story("There is no lag", as_of, ""), theme)
    chosen, others = rows.largest(records, "lag", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    unread = chosen.filter(pc.equal(chosen.column("part"), "unread")).to_pylist()
    one_each = chosen.column("partition").null_count == 0
    traces = []
    for part, (_, kind, label) in PARTS.items():
        plain = chosen.filter(pc.equal(chosen.column("part"), part)).to_pylist()
        traces.append(
            bar(
                kind,
                theme,
                (
                    (
                        whole[one["row"]],
                        f"{part} {text.offsets(one['offsets'])}: {kind.means}",
                        *_lag_lines(one),
                    )
                    for one in plain
                ),
                name=label,
                orientation="h",
                x=rows.optional(one["offsets"] for one in plain),
                y=[one["row"] for one in plain],
                # Sums over share partitions have no key.
                customdata=[rows.key(one) for one in plain] if one_each else None,
            )
        )
    once = records.filter(pc.equal(records.column("part"), "unread"))
    count = pc.sum(once.column("unknown_lags")).as_py() or 0
    lags = text.pluralize(count, "share partition")
    story = Story(
        title=_decomposition_title(records),
        as_of=as_of,
        unit="Offsets between start offset and end offset; all but finished ones are lag.",
        unknown=f"Not known: the lag of {lags}; marked with ?, never counted as 0." * bool(count),
        facts=rows.left_out(others, "bar", "with less lag"),
    )
    without = {
        one["row"]: REASONS.get(one["lag_reason"] or "", NOT_KNOWN)
        for one in unread
        if one["offsets"] is None
    }
    notes = [note(0, row, f"? {words}") for row, words in without.items()]
    lengths = np.nansum(rows.floats(chosen, "offsets").reshape(-1, len(PARTS)), axis=1)
    across = axis("offsets", lengths.max())
    return row_figure(traces, story, theme, names, across, barmode="stack", annotations=notes)


def _lag_lines(one: dict[str, Any]) -> tuple[str, ...]:
    lag = f"lag {text.offsets(one['lag'])}"
    if one["lag_reason"]:
        lag += f": {REASONS.get(one['lag_reason'], one['lag_reason'])}"
    unknown = f"{text.pluralize(one['unknown_lags'], 'share partition')} of unknown lag left out"
    return (lag, unknown) if one["unknown_lags"] and one["partition"] is None else (lag,)


def _decomposition_title(records: pa.Table) -> str:
    groups = rows.groups_of(records)
    if records.column("lag").null_count == len(records):
        return f"What the lag of {groups} consists of is not known"
    parts = records.group_by("part").aggregate([("offsets", "sum")]).to_pylist()
    sums = {one["part"]: one["offsets_sum"] for one in parts}
    behind = {part: sums.get(part) or 0 for part in ("unread", "available", "unknown")}
    total = sum(behind.values())
    if total == 0:
        return f"{groups}: nothing is unread, available or without a state"
    part = max(behind, key=lambda one: behind[one])
    words = {
        "unread": "unread: beyond the windows, no delivery persisted",
        "available": "available: delivered before, waiting for another delivery",
        "unknown": "in the windows without a persisted state: acquired, or never persisted",
    }[part]
    lag, share = text.pluralize(total, "offset"), percent(behind[part], total)
    return f"{groups}: {lag} of lag, {share} of it {words}"


# ---- windows against their limit -----------------------------------------------------------------

#: The setting that limits the window: there, delivery stops until the head moves.
LIMIT = "share.partition.max.record.locks"
#: The window of one share partition.
WINDOW_SPANS = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("head_offset", pa.int64()),  # the effective start offset
        ("span", pa.int64()),  # from it to the window's end, in offsets; null: unknown
        ("limit", pa.int64()),  # share.partition.max.record.locks; null: unknown
        ("limit_from", pa.string()),  # group, broker, default, or assumed
        ("unread", pa.int64()),  # offsets behind the window
        ("as_of", schemas.TIMESTAMP),
    ]
)


def window_span_records(lag: Arrow, settings: pa.Table) -> pa.Table:
    """Return the span of each window of a `schemas.LAG` with its limit, as `WINDOW_SPANS`."""
    schemas.require(lag, schemas.LAG, "lag")
    schemas.require(settings, schemas.SETTINGS, "settings")
    groups = flat(lag.column("group_id")).dictionary_encode()
    names = groups.dictionary.to_pylist()
    each = each_in_force(settings, names)
    limits = [each[name][LIMIT] for name in names]
    values = [value.value if isinstance(value.value, int) else None for value in limits]
    sources = pa.array([value.source for value in limits], pa.string())
    columns = rows.names_of(lag) | {
        "head_offset": lag.column("effective_start_offset"),
        "span": pa.array(rows.spans(lag), from_pandas=True),
        "limit": pa.array(values, pa.int64()).take(groups.indices),
        "limit_from": sources.take(groups.indices),
        "unread": lag.column("unread"),
        "as_of": lag.column("as_of"),
    }
    return table_of(columns, WINDOW_SPANS)


def window_span_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw one bar per window, with a mark at its limit.

    Parameters
    ----------
    records : pyarrow.Table
        `WINDOW_SPANS`.
    theme : {"light", "dark"}
    most : int
        Windows to draw: the widest.
    """
    as_of = rows.latest(records)
    if not len(records):
        why = "There is no window: choose other groups or topics"
        return empty(why, Story("There is no window", as_of, ""), theme)
    chosen, others = rows.largest(records, "span", most)
    names, whole = rows.labels(chosen), rows.labels(chosen, None)
    plain = chosen.to_pylist()
    lines = [(whole[row["row"]], *_span_lines(row)) for row in plain]
    place = chosen.column("row").to_numpy()
    mark = {"symbol": "line-ns", "size": 18, "line": {"width": 3, "color": WARN[theme]}}
    spans = rows.optional(rows.floats(chosen, "span"))
    limits = rows.optional(rows.floats(chosen, "limit"))
    traces = [
        bar(KINDS["window"], theme, lines, name="window span", orientation="h", x=spans, y=place),
        plotly().Scatter(
            x=limits, y=place, mode="markers", name=LIMIT, marker=mark, **hovers(lines)
        ),
    ]
    notes = [note(0, row["row"], "? no start offset yet") for row in plain if row["span"] is None]
    assumed = pc.sum(pc.equal(records.column("limit_from"), "assumed")).as_py()
    unknown, unlimited = (records.column(name).null_count for name in ("span", "limit"))
    story = Story(
        title=_span_title(records),
        as_of=as_of,
        unit="Window span in offsets: from the effective start offset to the window's end, as "
        "persisted.",
        unknown=text.not_known(
            f"the span of {text.pluralize(unknown, 'window')}, marked with ?" * bool(unknown),
            f"the limit of {text.pluralize(unlimited, 'window')}, without a mark" * bool(unlimited),
        ),
        facts=rows.left_out(others, "window", "with fewer offsets")
        + ("The limit is Kafka's default: the settings in force are not known.",) * bool(assumed),
    )
    return row_figure(traces, story, theme, names, axis("offsets"), annotations=notes)


def _span_lines(row: dict[str, Any]) -> tuple[str, ...]:
    known = row["limit"] is not None and row["span"] is not None
    of = percent(row["span"], row["limit"]) if known else NOT_KNOWN
    limit = f"{LIMIT} {text.number(row['limit'])} ({row['limit_from']})"
    return (
        f"window span {text.offsets(row['span'])}, {of} of {limit}",
        f"effective start offset {text.number(row['head_offset'])}",
        f"unread behind the window {text.number(row['unread'])}",
    )


def _span_title(records: pa.Table) -> str:
    share = rows.floats(records, "span") / rows.floats(records, "limit")
    if np.isnan(share).all():
        return f"{rows.groups_of(records)}: how full the windows are is not known"
    (row,) = records.slice(int(np.nanargmax(share)), 1).to_pylist()
    place, span = text.share_partition(row, True), text.number(row["span"])
    if row["span"] >= row["limit"]:
        return (
            f"{place}: the window is full, {span} of {text.number(row['limit'])} offsets; "
            f"{text.number(row['unread'])} unread wait for offset {row['head_offset']}"
        )
    limit, part = text.pluralize(row["limit"], "offset"), percent(row["span"], row["limit"])
    return f"No window is full; the fullest is {place} with {span} of {limit} ({part})"


# ---- the Lorenz curve ----------------------------------------------------------------------------

#: One share partition on the curve of its group, smallest first, without unknown ones.
LORENZ = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,
        ("measure", pa.string()),  # such as lag
        ("value", pa.float64()),
        ("item_share", pa.float64()),  # share of the share partitions up to this one
        # their share of the total; null: the total is 0
        ("value_share", pa.float64()),
        ("gini", pa.float64()),  # of the group; null: the total is 0
        ("items", pa.int64()),  # share partitions of the group
        ("unknown", pa.int64()),  # those whose measure is unknown
        ("as_of", schemas.TIMESTAMP),
    ]
)


def lorenz_records(loads: Arrow, measure: str = "lag") -> pa.Table:
    """Return the points of each group's Lorenz curve, as `LORENZ` sorted by group and value.

    ``loads`` are `schemas.LAG` or loads of `sharelag.metrics.imbalance`; ``measure`` is one of
    their numeric columns.
    """
    if measure not in loads.schema.names:
        raise InputError(
            f"the table has no column {measure!r}: give lag or partition loads, and one of its "
            "columns"
        )
    groups = flat(loads.column("group_id")).dictionary_encode()
    code = groups.indices.to_numpy().astype(np.int64)
    value = rows.floats(loads, measure)
    spread = spread_columns(value, code, len(groups.dictionary))
    order = np.lexsort((value, code))
    order = order[~np.isnan(value[order])]
    code, value = code[order], value[order]
    known = (spread["items"] - spread["unknown"])[code]
    begins = np.searchsorted(code, code, side="left")
    rank = np.arange(len(code)) - begins + 1
    running = np.cumsum(value)
    so_far = running - np.where(begins > 0, running[begins - 1], 0)
    total = np.where(spread["total"][code] > 0, spread["total"][code], np.nan)
    wide = as_table(loads).take(pa.array(order))
    columns = rows.names_of(wide) | {
        "measure": measure,
        "value": pa.array(value),
        "item_share": pa.array(rank / np.maximum(known, 1)),
        "value_share": pa.array(so_far / total, from_pandas=True),
        "gini": pa.array(spread["gini"][code], from_pandas=True),
        "items": pa.array(spread["items"][code]),
        "unknown": pa.array(spread["unknown"][code]),
        "as_of": wide.column("as_of"),
    }
    names = pc.rank(groups.dictionary).to_numpy()
    curve = table_of(columns, LORENZ)
    return curve.take(pa.array(np.argsort(names[code], kind="stable")))


def lorenz_figure(records: pa.Table, theme: Theme = "light", most: int = MOST_LINES) -> Figure:
    """Draw one Lorenz curve per group, below the diagonal of an even spread.

    Parameters
    ----------
    records : pyarrow.Table
        `LORENZ`.
    theme : {"light", "dark"}
    most : int
        Groups to draw: the most uneven.
    """
    ginis = records.group_by("group_id").aggregate(
        [("gini", "max"), ("items", "max"), ("unknown", "max")]
    )
    uneven = ginis.filter(ginis.column("gini_max").is_valid()).sort_by(
        [("gini_max", "descending"), ("group_id", "ascending")]
    )
    measure = records.column("measure")[0].as_py() if len(records) else "lag"
    unknown = text.pluralize(sum(ginis.column("unknown_max").to_pylist()), "share partition")
    all_known = not any(ginis.column("unknown_max").to_pylist())
    story = Story(
        title=_lorenz_title(records, uneven.to_pylist(), measure),
        as_of=rows.latest(records),
        unit=f"Part of the {measure} in the share partitions with the least of it. "
        "The diagonal is an even spread.",
        unknown="" if all_known else f"Not known: the {measure} of {unknown}; not on the curves.",
        facts=rows.left_out(max(len(uneven) - most, 0), "group", "with a more even share")
        + rows.left_out(len(ginis) - len(uneven), "group", f"without any {measure}"),
    )
    if not len(uneven):
        return empty(f"There is no {measure} to spread", story, theme)
    even = {"x": [0, 1], "y": [0, 1], "name": "even", "hoverinfo": "skip"}
    look = {"color": PAPER[theme]["soft"], "width": 1}
    traces = [plotly().Scatter(**even, mode="lines", line=look)]
    for number, one in enumerate(uneven.slice(0, most).to_pylist()):
        mine = records.filter(pc.equal(records.column("group_id"), one["group_id"])).to_pylist()
        traces.append(_curve(mine, number, theme))
    ticks = [fifth / 5 for fifth in range(6)]
    parts = {"range": [0, 1.02], "tickvals": ticks, "ticktext": [*map(percent, ticks)]}
    across = {"title": {"text": "share partitions, least first"}} | parts
    up = {"title": {"text": measure}} | parts
    return figure(traces, story, theme, 380, xaxis=across, yaxis=up)


def _curve(mine: list[dict[str, Any]], number: int, theme: Theme) -> Any:
    lines = (
        (
            text.share_partition(row, True, None),
            f"{row['measure']} {text.number(row['value'])}",
            (
                f"{percent(row['item_share'])} of the share partitions have "
                f"{percent(row['value_share'])} of the {row['measure']}"
            ),
        )
        for row in mine
    )
    return plotly().Scatter(
        x=[0, *(row["item_share"] for row in mine)],
        y=[0, *(row["value_share"] for row in mine)],
        mode="lines+markers" if len(mine) <= 60 else "lines",
        name=text.escape(f"{text.name(mine[0]['group_id'])} (Gini {mine[0]['gini']:.2f})"),
        **hovers([(), *lines]),
        **line(number, theme),
    )


#: The share from which on a title says "nearly all".
_NEARLY = 0.95


def _lorenz_title(records: pa.Table, uneven: list[dict[str, Any]], measure: str) -> str:
    if not uneven:
        return f"There is no {measure} to spread"
    group = uneven[0]
    mine = records.filter(pc.equal(records.column("group_id"), group["group_id"]))
    value = mine.column("value").to_numpy()[::-1]
    upto, some = np.cumsum(value) / value.sum(), int(np.sum(value > 0))
    count = min(int(np.searchsorted(upto, 0.5)) + 1, some)
    part = "all" if count == some else "nearly all" if upto[count - 1] >= _NEARLY else "half"
    return (
        f"{text.name(group['group_id'])}: {part} of the {measure} is in {text.number(count)} of "
        f"{text.pluralize(group['items_max'], 'share partition')} (Gini {group['gini_max']:.2f})"
    )
