"""Records of each partition of the state topic, and how many the coordinator may prune."""

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

#: One partition of the state topic and kind of record.
STATE_RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.string()),  # a key of `KINDS`
        ("records", pa.int64()),
        ("prunable", pa.int64()),  # of all kinds together, the same in each row; null: not known
        ("as_of", schemas.TIMESTAMP),  # of the partition's last record
    ]
)
#: Kinds of records, by the column of `sharelag.schemas.HEALTH` that counts them.
KINDS = {
    "snapshots": Kind(
        "Snapshots", {"light": "#3F6CA3", "dark": "#74A0C8"}, "", "hold a whole state"
    ),
    "updates": Kind("Updates", {"light": "#C6D8EA", "dark": "#2F4468"}, "/", "hold a change"),
    "tombstones": Kind(
        "Tombstones", {"light": "#4A1A5C", "dark": "#C77BA5"}, "x", "delete a share partition"
    ),
    "rejects": Kind(
        "Rejects", {"light": "#A33B20", "dark": "#C05A3E"}, "+", "could not be decoded"
    ),
}


def state_record_records(health: Arrow) -> pa.Table:
    """How many records of each kind there are.

    Parameters
    ----------
    health : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HEALTH`.

    Returns
    -------
    pyarrow.Table
        `STATE_RECORDS`, kind by kind for each partition, in the order of partitions.
    """
    schemas.require(health, schemas.HEALTH, "health")
    table = as_table(health).sort_by([("topic", "ascending"), ("partition", "ascending")])
    each = [
        table.select(["topic", "partition", "prunable"])
        .append_column("kind", pa.array([kind] * len(table), pa.string()))
        .append_column("records", table.column(kind))
        .append_column("as_of", table.column("last_timestamp"))
        .append_column("place", pa.array(range(len(table)), pa.int64()))
        for kind in KINDS
    ]
    return pa.concat_tables(each).sort_by("place").select(STATE_RECORDS.names).cast(STATE_RECORDS)


def state_record_figure(records: pa.Table, theme: Theme = "light", most: int = 50) -> Any:
    """A bar a partition of the state topic, whose parts are kinds of records.

    Parameters
    ----------
    records : pyarrow.Table
        `STATE_RECORDS`.
    theme : {"light", "dark"}
    most : int
        Partitions to draw: the first ones that have records.
    """
    whole = records.group_by(["topic", "partition"], use_threads=False).aggregate(
        [("records", "sum"), ("prunable", "max")]
    )
    held = whole.filter(pc.greater(whole.column("records_sum"), 0)).to_pylist()
    as_of = rows.latest(records)
    if not held:
        return empty(
            "No record is there: has any group consumed?",
            Story("The state topic is empty", as_of, ""),
            theme,
        )
    shown = {(one["topic"], one["partition"]): row for row, one in enumerate(held[:most])}
    several = len({one["topic"] for one in held}) > 1
    traces = []
    for name, kind in KINDS.items():
        mine = [
            one
            for one in records.filter(pc.equal(records.column("kind"), name)).to_pylist()
            if one["records"] and (one["topic"], one["partition"]) in shown
        ]
        if not mine:
            continue
        traces.append(
            plotly().Bar(
                orientation="h",
                x=[one["records"] for one in mine],
                y=[shown[one["topic"], one["partition"]] for one in mine],
                name=kind.words,
                marker=marker(kind, theme),
                hovertext=[text.hover(_place(one, True), _hover(one, kind)) for one in mine],
                hoverinfo="text",
            )
        )
    unknown = sum(one["prunable_max"] is None for one in held)
    story = Story(
        title=_title(held),
        as_of=as_of,
        unit="Records in each partition of the state topic, by what they hold.",
        unknown=f"Not known: what may be pruned of {text.counted(unknown, 'partition')}."
        if unknown
        else "",
        facts=rows.left_out(max(len(held) - most, 0), "partition", "with higher numbers"),
    )
    return figure(
        traces,
        story,
        theme,
        rows_height(len(shown)),
        barmode="stack",
        xaxis={"title": {"text": "records"}, "rangemode": "tozero"},
        yaxis=row_axis(
            [_place(one, several) for one in held[:most]], "" if several else "partition"
        ),
    )


def _place(one: dict[str, Any], with_topic: bool) -> str:
    return f"{text.name(one['topic'])}-{one['partition']}" if with_topic else str(one["partition"])


def _hover(one: dict[str, Any], kind: Kind) -> str:
    return (
        f"{text.counted(one['records'], kind.words.lower().removesuffix('s'))}, which {kind.means}"
    )


def _title(held: list[dict[str, Any]]) -> str:
    total = sum(one["records_sum"] for one in held)
    partitions = text.counted(len(held), "partition")
    where = f"{text.counted(total, 'record')} in {partitions} of the state topic"
    known = [one["prunable_max"] for one in held if one["prunable_max"] is not None]
    if not known:
        return where
    if not sum(known):
        return f"{where}; the coordinator has pruned all that it may"
    return f"{where}; the coordinator may prune {text.number(sum(known))} of them"
