"""How many share partitions each broker leads, keeps the state of, and has the group of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly, row_axis, rows_height
from sharelag.workbench.charts.palette import Kind, Theme, marker

#: One broker in one role.
BROKER_LOADS = pa.schema(
    [
        ("broker_id", pa.int32()),  # null: not known
        ("role", pa.string()),  # a key of `ROLES`
        ("partitions", pa.int64()),  # share partitions
        ("lag", pa.int64()),  # of them, as far as it is known; null: of none
        ("as_of", schemas.TIMESTAMP),  # when the leaders were read
    ]
)
#: Roles of brokers, by the column of `sharelag.schemas.BROKERS` that names the broker.
ROLES = {
    "leader_id": Kind("Leads", {"light": "#3F6CA3", "dark": "#74A0C8"}, "", "led by the broker"),
    "share_coordinator": Kind(
        "Keeps state", {"light": "#C6D8EA", "dark": "#2F4468"}, "/", "kept by it in the state topic"
    ),
    "group_coordinator": Kind(
        "Coordinates group", {"light": "#4A1A5C", "dark": "#C77BA5"}, "x", "of groups that it has"
    ),
}


def broker_load_records(brokers: Arrow) -> pa.Table:
    """How many share partitions each broker has, role by role.

    Parameters
    ----------
    brokers : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.BROKERS`.

    Returns
    -------
    pyarrow.Table
        `BROKER_LOADS`, in the order of roles, then of brokers; share partitions of which the
        broker is not known are in a row whose broker is null.
    """
    schemas.require(brokers, schemas.BROKERS, "brokers")
    table = as_table(brokers)
    found = [BROKER_LOADS.empty_table()]
    for role in ROLES:
        summed = table.group_by(role).aggregate(
            [
                ("partition", "count"),
                ("lag", "sum", pc.ScalarAggregateOptions(min_count=1)),
                ("as_of", "max"),
            ]
        )
        columns = {
            "broker_id": summed.column(role),
            "role": pa.repeat(role, len(summed)),
            "partitions": summed.column("partition_count"),
            "lag": summed.column("lag_sum"),
            "as_of": summed.column("as_of_max"),
        }
        found.append(pa.table(columns).cast(BROKER_LOADS).sort_by("broker_id"))
    return pa.concat_tables(found)


def broker_load_figure(records: pa.Table, theme: Theme = "light", most: int = 50) -> Any:
    """A bar a broker and role, as long as the share partitions are many.

    Parameters
    ----------
    records : pyarrow.Table
        `BROKER_LOADS`.
    theme : {"light", "dark"}
    most : int
        Brokers to draw: those with the lowest ids.
    """
    known = records.filter(records.column("broker_id").is_valid())
    brokers = sorted(set(known.column("broker_id").to_pylist()))
    as_of = rows.latest(records)
    if not brokers:
        why = "Only a running cluster and its captures know who leads."
        return empty(why, Story("The brokers are not known", as_of, ""), theme)
    place = {broker: row for row, broker in enumerate(brokers[:most])}
    traces = []
    for name, kind in ROLES.items():
        mine = [
            one
            for one in known.filter(pc.equal(known.column("role"), name)).to_pylist()
            if one["broker_id"] in place
        ]
        if mine:
            traces.append(
                plotly().Bar(
                    orientation="h",
                    x=[one["partitions"] for one in mine],
                    y=[place[one["broker_id"]] for one in mine],
                    name=kind.words,
                    marker=marker(kind, theme),
                    hovertext=[
                        text.hover(f"broker {one['broker_id']}", _hover(one, kind)) for one in mine
                    ],
                    hoverinfo="text",
                )
            )
    unknown = records.filter(records.column("broker_id").is_null()).to_pylist()
    story = Story(
        title=_title(known, brokers),
        as_of=as_of,
        unit="Share partitions of each broker, by what it does for them.",
        unknown=" ".join(
            f"Not known: the {one['role'].removesuffix('_id').replace('_', ' ')} of "
            f"{text.counted(one['partitions'], 'share partition')}."
            for one in unknown
        ),
        facts=rows.left_out(max(len(brokers) - most, 0), "broker", "with higher ids"),
    )
    return figure(
        traces,
        story,
        theme,
        rows_height(2 * len(place)),
        barmode="group",
        xaxis={"title": {"text": "share partitions"}, "rangemode": "tozero"},
        yaxis=row_axis([str(broker) for broker in place], "broker"),
    )


def _hover(one: dict[str, Any], kind: Kind) -> str:
    lag = "lag not known" if one["lag"] is None else f"lag {text.number(one['lag'])}"
    return f"{text.counted(one['partitions'], 'share partition')} {kind.means}, {lag}"


def _title(known: pa.Table, brokers: list[int]) -> str:
    """The broker that keeps the most states, where that is known."""
    kept = known.filter(pc.equal(known.column("role"), "share_coordinator")).to_pylist()
    if not kept:
        return f"Share partitions of {text.counted(len(brokers), 'broker')}"
    most = max(kept, key=lambda one: one["partitions"])
    total = sum(one["partitions"] for one in kept)
    return (
        f"Broker {most['broker_id']} keeps the state of {text.number(most['partitions'])} of "
        f"{text.counted(total, 'share partition')}"
    )
