"""How many share partitions each partition of the state topic has, those with none included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table
from sharelag.workbench.charts import rows, text
from sharelag.workbench.charts.layout import Story, empty, figure, plotly
from sharelag.workbench.charts.palette import Theme, marker
from sharelag.workbench.charts.state_topic import KINDS

#: ``share.coordinator.state.topic.num.partitions`` of Kafka.
DEFAULT_PARTITIONS = 50
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
    """How share partitions are spread over the state topic.

    Parameters
    ----------
    health : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HEALTH`.
    partitions : int, mapping of topic to int, or None
        How many the topic has; None: not known, then as many as Kafka creates, or as were seen.

    Returns
    -------
    pyarrow.Table
        `STATE_KEYS`, a row a partition from 0 on, also those without records.
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


def state_key_figure(records: pa.Table, theme: Theme = "light") -> Any:
    """A bar a partition of the state topic, as high as its share partitions are many.

    Parameters
    ----------
    records : pyarrow.Table
        `STATE_KEYS`.
    theme : {"light", "dark"}
    """
    as_of = rows.latest(records)
    if not records.num_rows:
        story = Story("The state topic is empty", as_of, "")
        return empty("No record is there: has any group consumed?", story, theme)
    bars = records.to_pylist()
    several = len({one["topic"] for one in bars}) > 1
    places = [f"{text.name(one['topic'])}-{one['partition']}" for one in bars]
    names = places if several else [one["partition"] for one in bars]
    bar = plotly().Bar(
        x=names,
        y=[one["share_partitions"] for one in bars],
        marker=marker(KINDS["snapshots"], theme),
        hovertext=[
            text.hover(place, text.counted(one["share_partitions"], _WHAT))
            for place, one in zip(places, bars, strict=True)
        ],
        hoverinfo="text",
        showlegend=False,
    )
    assumed = any(one["assumed"] for one in bars)
    story = Story(
        title=_title(bars, names),
        as_of=as_of,
        unit="Share partitions whose state is in each partition of the state topic.",
        unknown=f"Not known: how many partitions the state topic has; Kafka creates "
        f"{DEFAULT_PARTITIONS}."
        if assumed
        else "",
    )
    return figure(
        [bar],
        story,
        theme,
        260,
        # Partitions are whole numbers, also where a few bars leave room for halves.
        xaxis={"title": {"text": "partition of the state topic"}}
        | ({} if several else {"tickformat": ",d", "dtick": 1 if len(bars) <= _NUMBERED else None}),
        yaxis={"title": {"text": "share partitions"}, "rangemode": "tozero"},
    )


_WHAT = "share partition"
#: So many partitions have room for a number each.
_NUMBERED = 60


def _title(bars: list[dict[str, Any]], names: list[Any]) -> str:
    counts = [one["share_partitions"] for one in bars]
    used = sum(count > 0 for count in counts)
    most = max(counts)
    return (
        f"The state of {text.counted(sum(counts), _WHAT)} is in {text.number(used)} of "
        f"{text.counted(len(bars), 'partition')}; partition {names[counts.index(most)]} has "
        f"{text.number(most)}"
    )
