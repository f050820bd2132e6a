"""Members of one group beside its share partitions, coloured by lag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.loads import exploded
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import (
    COLOUR_BAR,
    Story,
    colour_bar,
    empty,
    figure,
    plotly,
    row_axis,
    rows_height,
)
from sharelag.workbench.charts.palette import KINDS, Theme, ladder, marker

#: One member and share partition that belong together; a member or share partition without a
#: partner stands alone.
ASSIGNED = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,  # the group alone where the member is idle
        ("member_id", pa.string()),  # null: no member has the share partition
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("lag", pa.int64()),  # of the share partition; null: not known
        ("as_of", schemas.TIMESTAMP),  # of the lag
    ]
)
_NOBODY = "no member"
#: Cells with a line around each; of more, the heat map leaves gaps.
MOST_OUTLINES = 400


def assigned_records(members: Arrow, lag: Arrow) -> pa.Table:
    """Every share partition with each of its members.

    Parameters
    ----------
    members : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.MEMBERS`.
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.

    Returns
    -------
    pyarrow.Table
        `ASSIGNED`: a row a pair, then the share partitions of the lag table without a member, then
        idle members.
    """
    schemas.require(members, schemas.MEMBERS, "members")
    schemas.require(lag, schemas.LAG, "lag")
    people, lags = as_table(members), as_table(lag)
    member, _, partitions = exploded(people, "assigned_partitions")
    pairs = pa.table(
        {
            "group_id": flat(people.column("group_id")).take(pa.array(member)),
            "topic_id": pc.struct_field(partitions, "topic_id"),
            "partition": pc.struct_field(partitions, "partition"),
        }
    )
    assigned, known = (
        keys(pairs, SHARE_PARTITION),
        keys(lags, SHARE_PARTITION),
    )
    place = pc.index_in(assigned, known)
    alone = lags.filter(pc.invert(pc.is_in(known, assigned)))
    idle = people.filter(pa.array(~np.isin(np.arange(len(people)), member)))
    names = pc.index_in(pairs.column("topic_id"), flat(lags.column("topic_id")))
    about = ("member_id", "client_id", "client_host")
    together = pairs.append_column("topic", lags.column("topic").take(names))
    for name in ("lag", "as_of"):
        together = together.append_column(name, lags.column(name).take(place))
    for name in about:
        together = together.append_column(name, people.column(name).take(pa.array(member)))
    return pa.concat_tables(
        [_whole(together), _whole(alone), _whole(idle.select(["group_id", *about]))]
    )


def assigned_figure(records: pa.Table, theme: Theme = "light", most: int = 60) -> Any:
    """Members as rows, share partitions as columns; assigned ones are coloured by their lag.

    Parameters
    ----------
    records : pyarrow.Table
        `ASSIGNED` of one group.
    theme : {"light", "dark"}
    most : int
        Share partitions to draw, those with the most lag, and members, those with the most of
        these.

    Raises
    ------
    InputError
        The records have several groups.
    """
    groups = pc.unique(records.column("group_id")).to_pylist()
    if len(groups) > 1:
        raise InputError(
            f"a matrix shows one group, and these records belong to {len(groups)}: "
            "filter them by group_id"
        )
    as_of = rows.latest(records)
    placed = records.filter(records.column("topic_id").is_valid())
    if not len(placed):
        return empty(
            "There is no share partition",
            Story("There is no share partition to assign", as_of, ""),
            theme,
        )
    chosen, others = rows.largest(placed, "lag", most)
    columns = rows.labels(chosen)
    people = _members(records, chosen)
    shown = people[:most]
    labels = [text.name(label) for _, label in shown]
    row_of = {member: n for n, (member, _) in enumerate(shown)}
    cells = [
        one | {"y": row_of[one["member_id"]]}
        for one in chosen.to_pylist()
        if one["member_id"] in row_of
    ]
    hovers = [_hover(one) for one in cells]
    known = [n for n, one in enumerate(cells) if one["lag"] is not None]
    unknown = [n for n, one in enumerate(cells) if one["lag"] is None]
    lags = [cells[n]["lag"] for n in known]
    grid: list[list[float | None]] = [[None] * len(columns) for _ in shown]
    hover = [[""] * len(columns) for _ in shown]
    place: list[list[Any]] = [[None] * len(columns) for _ in shown]
    for n in known:
        place[cells[n]["y"]][cells[n]["row"]] = rows.key(cells[n])
        grid[cells[n]["y"]][cells[n]["row"]] = cells[n]["lag"]
        hover[cells[n]["y"]][cells[n]["row"]] = hovers[n]
    go = plotly()
    bar = colour_bar("lag (offsets)")
    heat = go.Heatmap(z=grid, x=list(range(len(columns))), y=list(range(len(shown))), colorbar=bar)
    heat.update(
        customdata=place,
        text=hover,
        hoverinfo="text",
        colorscale=ladder(theme),
        zmin=0,
        zmax=max([*lags, 1]),
    )
    outlines = [_cell(cells[n], theme) for n in known]
    if len(outlines) > MOST_OUTLINES:
        outlines = []
        heat.update(xgap=2, ygap=2)
    traces = [heat]
    if unknown:
        traces.append(
            go.Bar(
                x=[cells[n]["row"] for n in unknown],
                y=[1] * len(unknown),
                base=[cells[n]["y"] - 0.5 for n in unknown],
                width=1,
                name="assigned, lag not known",
                marker=marker(KINDS["unknown"], theme),
                hovertext=[hovers[n] for n in unknown],
                customdata=[rows.key(cells[n]) for n in unknown],
                hoverinfo="text",
            )
        )
    story = Story(
        title=_title(records, people),
        as_of=as_of,
        unit="Lag of each share partition in offsets, in the row of every member that has "
        "it assigned.",
        unknown=f"Not known: the lag of {text.counted(len(unknown), 'cell')}, hatched."
        if unknown
        else "",
        facts=rows.left_out(others, "share partition", "with less lag")
        + rows.left_out(len(people) - len(shown), "member", "with fewer share partitions"),
    )
    across = {
        "tickvals": list(range(len(columns))),
        "ticktext": [text.escaped(label) for label in columns],
    }
    return figure(
        traces,
        story,
        theme,
        rows_height(len(shown), COLOUR_BAR),
        legend=bool(unknown),
        xaxis={
            **across,
            "range": [-0.5, len(columns) - 0.5],
            "title": {"text": "share partition"},
            "showgrid": False,
            "zeroline": False,
        }
        | ({"tickangle": -40} if len(columns) > 6 else {}),
        yaxis=row_axis(labels),
        shapes=outlines,
        barmode="overlay",
    )


def _whole(table: pa.Table) -> pa.Table:
    empty_column = pa.nulls(len(table))
    names = set(table.column_names)
    return rows.conformed(
        {name: table.column(name) if name in names else empty_column for name in ASSIGNED.names},
        ASSIGNED,
    )


def _members(records: pa.Table, chosen: pa.Table) -> list[tuple[str | None, str]]:
    """Members with their labels, those with the most share partitions first; no member on top."""
    plain = records.select(["member_id", "client_id", "client_host"]).to_pylist()
    about = {one["member_id"]: one for one in plain if one["member_id"] is not None}
    counts = dict.fromkeys(about, 0)
    for member in chosen.column("member_id").to_pylist():
        if member is not None:
            counts[member] += 1
    ids = sorted(about, key=lambda one: (-counts[one], one))
    named = [
        (one, f"{about[one]['client_id'] or 'client not known'} {text.name(one, 11)}")
        for one in ids
    ]
    return ([(None, _NOBODY)] if chosen.column("member_id").null_count else []) + named


def _cell(one: dict[str, Any], theme: Theme) -> dict[str, Any]:
    edges = {
        "x0": one["row"] - 0.5,
        "x1": one["row"] + 0.5,
        "y0": one["y"] - 0.5,
        "y1": one["y"] + 0.5,
    }
    return {"type": "rect", **edges, "line": marker(KINDS["window"], theme)["line"]}


def _hover(one: dict[str, Any]) -> str:
    who = "no member has it"
    if one["member_id"] is not None:
        member, client = (text.name(one[name], None) for name in ("member_id", "client_id"))
        who = f"member {member}, client {client}"
        who += f" on {text.name(one['client_host'], None)}"
    return text.hover(
        text.share_partition(one, False, None), who, f"lag {text.number(one['lag'])} offsets"
    )


def _title(records: pa.Table, people: list[tuple[str | None, str]]) -> str:
    group = rows.groups_of(records)
    alone = records.filter(records.column("member_id").is_null())
    waiting = pc.sum(pc.greater(alone.column("lag"), 0)).as_py() or 0
    members = [member for member, _ in people if member is not None]
    if not members:
        return (
            f"{group}: no member is known, so no one fetches from "
            f"{text.counted(len(alone), 'share partition')}"
        )
    idle = len(records.filter(records.column("topic_id").is_null()))
    if waiting:
        return f"{group}: {text.counted(waiting, 'share partition')} with lag and no member"
    if idle:
        return (
            f"{group}: {text.number(idle)} of {text.counted(len(members), 'member')} have "
            "nothing to fetch"
        )
    pairs = records.filter(records.column("member_id").is_valid())
    counts = pc.value_counts(pairs.column("member_id")).field("counts").to_numpy()
    if counts.min() == counts.max():
        each = text.counted(int(counts.max()), "share partition")
        return f"{group}: each of {text.counted(len(members), 'member')} has {each}"
    return (
        f"{group}: {text.counted(len(members), 'member')} have from {counts.min()} to "
        f"{text.counted(int(counts.max()), 'share partition')} each"
    )
