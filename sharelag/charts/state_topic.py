"""Records of the state topic, and how its partitions share the share partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import Figure, Story, axis, bar, empty, figure, row_figure
from sharelag.charts.palette import Kind, Theme
from sharelag.schemas import Arrow
from sharelag.tables.arrow import as_table

_NO_RECORD = "No record is there: has any group consumed?"

# ---- records -------------------------------------------------------------------------------------

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
    """Return how many records of each kind each partition has, by a `schemas.HEALTH`."""
    schemas.require(health, schemas.HEALTH, "health")
    table = as_table(health).sort_by([("topic", "ascending"), ("partition", "ascending")])
    wide = table.take(pa.array(np.repeat(np.arange(len(table)), len(KINDS))))
    counts = np.stack([table.column(kind).to_numpy() for kind in KINDS], axis=1)
    columns = {name: wide.column(name) for name in ("topic", "partition", "prunable")} | {
        "kind": pa.array([*KINDS] * len(table), pa.string()),
        "records": pa.array(counts.ravel()),
        "as_of": wide.column("last_timestamp"),
    }
    return rows.conform(columns, STATE_RECORDS)


def state_record_figure(records: pa.Table, theme: Theme = "light", most: int = 50) -> Figure:
    """Draw one bar per partition of the state topic, whose parts are kinds of records.

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
        return empty(_NO_RECORD, Story("The state topic is empty", as_of, ""), theme)
    shown = {(one["topic"], one["partition"]): row for row, one in enumerate(held[:most])}
    several = len({one["topic"] for one in held}) > 1
    drawn = [
        one | {"row": shown[one["topic"], one["partition"]]}
        for one in records.to_pylist()
        if one["records"] and (one["topic"], one["partition"]) in shown
    ]
    traces = []
    for name, kind in KINDS.items():
        if mine := [one for one in drawn if one["kind"] == name]:
            what = kind.words.lower().removesuffix("s")
            lines = (
                (_place(one, True), f"{text.counted(one['records'], what)}, which {kind.means}")
                for one in mine
            )
            length, place = [one["records"] for one in mine], [one["row"] for one in mine]
            traces.append(bar(kind, theme, lines, orientation="h", x=length, y=place))
    unknown = text.counted(sum(one["prunable_max"] is None for one in held), "partition")
    all_known = all(one["prunable_max"] is not None for one in held)
    story = Story(
        title=_records_title(held),
        as_of=as_of,
        unit="Records in each partition of the state topic, by what they hold.",
        unknown="" if all_known else f"Not known: what may be pruned of {unknown}.",
        facts=rows.left_out(max(len(held) - most, 0), "partition", "with higher numbers"),
    )
    names = [_place(one, several) for one in held[:most]]
    down = "" if several else "partition"
    return row_figure(traces, story, theme, names, axis("records"), down, barmode="stack")


def _place(one: dict[str, Any], with_topic: bool) -> str:
    return f"{text.name(one['topic'])}-{one['partition']}" if with_topic else str(one["partition"])


def _records_title(held: list[dict[str, Any]]) -> str:
    total = text.counted(sum(one["records_sum"] for one in held), "record")
    where = f"{total} in {text.counted(len(held), 'partition')} of the state topic"
    known = [one["prunable_max"] for one in held if one["prunable_max"] is not None]
    if not known:
        return where
    if not sum(known):
        return f"{where}; the coordinator has pruned all that it may"
    return f"{where}; the coordinator may prune {text.number(sum(known))} of them"


# ---- keys ----------------------------------------------------------------------------------------

#: ``share.coordinator.state.topic.num.partitions`` of Kafka.
DEFAULT_PARTITIONS = 50
#: So many partitions have room for a number each.
_NUMBERED = 60
_WHAT = "share partition"
#: One partition of the state topic.
STATE_KEYS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("share_partitions", pa.int64()),  # 0: it has no records
        ("as_of", schemas.TIMESTAMP),  # of its last record; null: it has none
        ("assumed", pa.bool_()),  # true: how many partitions there are is not known
    ]
)


def state_key_records(health: Arrow, partitions: int | Mapping[str, int] | None) -> pa.Table:
    """Return how share partitions are spread over the state topic, by a `schemas.HEALTH`.

    There is one row of `STATE_KEYS` per partition from 0 on, also of those without records. Where
    it is not known how many there are, they are as many as Kafka creates, or as were seen.
    """
    schemas.require(health, schemas.HEALTH, "health")
    table = as_table(health)
    found = [STATE_KEYS.empty_table()]
    for topic in sorted(pc.unique(table.column("topic")).to_pylist()):
        mine = table.filter(pc.equal(table.column("topic"), topic))
        known = partitions.get(topic) if isinstance(partitions, Mapping) else partitions
        seen = pc.max(mine.column("partition")).as_py() + 1
        numbers = pa.array(range(max(known or DEFAULT_PARTITIONS, seen)), pa.int32())
        at = pc.index_in(numbers, mine.column("partition").combine_chunks())
        columns = {
            "topic": pa.repeat(topic, len(numbers)),
            "partition": numbers,
            "share_partitions": mine.column("share_partitions").take(at).fill_null(0),
            "as_of": mine.column("last_timestamp").take(at),
            "assumed": pa.repeat(known is None, len(numbers)),
        }
        found.append(pa.table(columns).cast(STATE_KEYS))
    return pa.concat_tables(found)


def state_key_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw one bar per partition of the state topic, as high as its share partitions are many.

    Parameters
    ----------
    records : pyarrow.Table
        `STATE_KEYS`.
    theme : {"light", "dark"}
    """
    as_of = rows.latest(records)
    if not records.num_rows:
        return empty(_NO_RECORD, Story("The state topic is empty", as_of, ""), theme)
    plain = records.to_pylist()
    several = len({one["topic"] for one in plain}) > 1
    places = [_place(one, True) for one in plain]
    names = places if several else [one["partition"] for one in plain]
    counts = [one["share_partitions"] for one in plain]
    lines = [
        (place, text.counted(count, _WHAT)) for place, count in zip(places, counts, strict=True)
    ]
    assumed = any(one["assumed"] for one in plain)
    used, most = sum(count > 0 for count in counts), max(counts)
    story = Story(
        title=f"The state of {text.counted(sum(counts), _WHAT)} is in {text.number(used)} of "
        f"{text.counted(len(plain), 'partition')}; partition {names[counts.index(most)]} has "
        f"{text.number(most)}",
        as_of=as_of,
        unit="Share partitions whose state is in each partition of the state topic.",
        unknown=f"Not known: how many partitions the state topic has; Kafka creates "
        f"{DEFAULT_PARTITIONS}." * assumed,
    )
    across: dict[str, Any] = {"title": {"text": "partition of the state topic"}}
    if not several:  # whole numbers, also where a few bars leave room for halves
        across |= {"tickformat": ",d", "dtick": 1 if len(plain) <= _NUMBERED else None}
    bars = bar(KINDS["snapshots"], theme, lines, name=None, x=names, y=counts, showlegend=False)
    return figure([bars], story, theme, 260, xaxis=across, yaxis=axis("share partitions"))
