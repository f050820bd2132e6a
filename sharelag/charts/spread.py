"""The spread of share partitions over members, brokers, and partitions of the state topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.charts import rows, text
from sharelag.charts.figure import (
    COLOUR_BAR,
    Figure,
    Story,
    axis,
    bar,
    empty,
    figure,
    heat_map,
    label_axis,
    row_figure,
)
from sharelag.charts.palette import KINDS, Kind, Theme, marker
from sharelag.errors import InputError
from sharelag.metrics.imbalance import explode_partitions
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, flat, keys, table_of

# ---- members -------------------------------------------------------------------------------------

#: One share partition with a member that it is assigned to; either is null without the other.
ASSIGNED = pa.schema(
    [
        *schemas.NAMED_SHARE_PARTITION,  # only the group if the member is idle
        ("member_id", pa.string()),  # null: the share partition is not assigned
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("lag", pa.int64()),  # of the share partition; null: unknown
        ("as_of", schemas.TIMESTAMP),  # of the lag
    ]
)
_ABOUT = ("member_id", "client_id", "client_host")
#: Maximum number of cells with an outline; with more, the heat map has gaps.
MOST_OUTLINES = 400


def assigned_records(members: Arrow, lag: Arrow) -> pa.Table:
    """Return every share partition of ``lag`` with each of its members, as `ASSIGNED`.

    Rows are pairs, then share partitions without a member, then idle members.
    """
    schemas.require(members, schemas.MEMBERS, "members")
    schemas.require(lag, schemas.LAG, "lag")
    people, lags = as_table(members), as_table(lag)
    member, _, partitions = explode_partitions(people, "assigned_partitions")
    pairs = pa.table(
        {name: flat(people.column(name)).take(pa.array(member)) for name in ("group_id", *_ABOUT)}
        | {name: pc.struct_field(partitions, name) for name in ("topic_id", "partition")}
    )
    assigned, known = keys(pairs, SHARE_PARTITION), keys(lags, SHARE_PARTITION)
    names = pc.index_in(pairs.column("topic_id"), flat(lags.column("topic_id")))
    pairs = pairs.append_column("topic", lags.column("topic").take(names))
    place = pc.index_in(assigned, known)
    for name in ("lag", "as_of"):
        pairs = pairs.append_column(name, lags.column(name).take(place))
    alone = lags.filter(pc.invert(pc.is_in(known, assigned)))
    idle = people.filter(pa.array(~np.isin(np.arange(len(people)), member)))
    parts = []
    for part in (pairs, alone, idle.select(["group_id", *_ABOUT])):
        columns = {name: part.column(name) for name in ASSIGNED.names if name in part.column_names}
        parts.append(table_of(columns, ASSIGNED, pad=True))
    return pa.concat_tables(parts)


def assigned_figure(records: pa.Table, theme: Theme = "light", most: int = 30) -> Figure:
    """Draw members as rows and share partitions as columns; colours of assigned ones show lag.

    Parameters
    ----------
    records : pyarrow.Table
        `ASSIGNED` of one group.
    theme : {"light", "dark"}
    most : int
        Maximum number of share partitions, those with the most lag, and of members, those with the
        most of these.

    Raises
    ------
    InputError
        The records have several groups.
    """
    groups = len(pc.unique(records.column("group_id")))
    if groups > 1:
        raise InputError(
            f"a matrix shows one group, and these records belong to {groups}: "
            "filter them by group_id"
        )
    as_of = rows.latest(records)
    placed = records.filter(records.column("topic_id").is_valid())
    if not len(placed):
        story = Story("There is no share partition to assign", as_of, "")
        return empty("There is no share partition", story, theme)
    chosen, others = rows.largest(placed, "lag", most)
    columns = rows.labels(chosen)
    people = _members(records, chosen)
    count = pc.count_distinct(records.column("member_id")).as_py()
    row_of = {member: row for row, member in enumerate([*people][:most])}
    labels = [text.name(people[member]) for member in row_of]
    shape = len(row_of), len(columns)
    lags, hovers, place = (np.full(shape, blank, object) for blank in (None, "", None))
    unknown, outlines = [], []
    for one in chosen.to_pylist():
        if one["member_id"] not in row_of:
            continue
        at = row_of[one["member_id"]], one["row"]
        if one["lag"] is None:
            unknown.append((at, one))
        else:
            lags[at], place[at] = one["lag"], rows.key(one)
            hovers[at] = text.hover(*_assigned_lines(one))
            outlines.append(_cell(one["row"], at[0], theme))
    look = {"x": list(range(shape[1])), "text": hovers.tolist(), "customdata": place.tolist()}
    if len(outlines) > MOST_OUTLINES:
        outlines = []
        look |= {"xgap": 2, "ygap": 2}
    traces = [heat_map(lags.tolist(), theme, "lag (offsets)", **look)]
    if unknown:
        traces.append(
            bar(
                KINDS["unknown"],
                theme,
                (_assigned_lines(one) for _, one in unknown),
                x=[x for (_, x), _ in unknown],
                y=[1] * len(unknown),
                base=[y - 0.5 for (y, _), _ in unknown],
                width=1,
                name="assigned, lag not known",
                customdata=[rows.key(one) for _, one in unknown],
            )
        )
    cells = text.pluralize(len(unknown), "cell")
    story = Story(
        title=_assigned_title(records, count),
        as_of=as_of,
        unit="Lag of each share partition in offsets, in the row of every member that has "
        "it assigned.",
        unknown=f"Not known: the lag of {cells}, hatched." * bool(unknown),
        facts=rows.left_out(others, "share partition", "with less lag")
        + rows.left_out(
            count - len(row_of.keys() - {None}), "member", "with fewer share partitions drawn"
        ),
    )
    across = label_axis(columns, "share partition")
    return row_figure(
        traces,
        story,
        theme,
        labels,
        across | ({"tickangle": -40 if len(columns) <= 12 else -90} if len(columns) > 6 else {}),
        least=COLOUR_BAR,
        legend=bool(unknown),
        shapes=outlines,
        barmode="overlay",
    )


def _members(records: pa.Table, chosen: pa.Table) -> dict[str | None, str]:
    """Return labels by member: no member, then those with the most of the chosen, then idle ones.

    The row of a member that has only others would seem idle.
    """
    held = Counter(chosen.column("member_id").to_pylist())
    plain = records.select([*_ABOUT, "topic_id"]).to_pylist()
    shown = (one for one in plain if one["topic_id"] is None or held[one["member_id"]])
    clients = {one["member_id"]: one["client_id"] for one in shown if one["member_id"] is not None}
    ids = sorted(clients, key=lambda one: (-held[one], one))
    named = {one: f"{clients[one] or 'client not known'} {text.name(one, 11)}" for one in ids}
    return ({None: "no member"} if None in held else {}) | named


def _cell(x: int, y: int, theme: Theme) -> dict[str, Any]:
    edges = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    return {"type": "rect", **edges, "line": marker(KINDS["window"], theme)["line"]}


def _assigned_lines(one: dict[str, Any]) -> tuple[str, ...]:
    who = "no member has it"
    if one["member_id"] is not None:
        member, client, host = (text.name(one[name], None) for name in _ABOUT)
        who = f"member {member}, client {client} on {host}"
    lag = f"lag {text.offsets(one['lag'])}"
    return text.share_partition(one, False, None), who, lag


def _assigned_title(records: pa.Table, members: int) -> str:
    group = rows.groups_of(records)
    alone = records.filter(records.column("member_id").is_null())
    waiting = pc.sum(pc.greater(alone.column("lag"), 0)).as_py() or 0
    many = text.pluralize(members, "member")
    if not members:
        return (
            f"{group}: no member is known, so no one fetches from "
            f"{text.pluralize(len(alone), 'share partition')}"
        )
    if waiting:
        return f"{group}: {text.pluralize(waiting, 'share partition')} with lag and no member"
    if idle := records.column("topic_id").null_count:
        return f"{group}: {text.number(idle)} of {many} have nothing to fetch"
    pairs = records.filter(records.column("member_id").is_valid())
    counts = pc.value_counts(pairs.column("member_id")).field("counts").to_numpy()
    largest = text.pluralize(int(counts.max()), "share partition")
    if counts.min() == counts.max():
        return f"{group}: each of {many} has {largest}"
    return f"{group}: {many} have from {counts.min()} to {largest} each"


# ---- brokers -------------------------------------------------------------------------------------

_WHAT = "share partition"
#: One broker in one role.
BROKER_LOADS = pa.schema(
    [
        ("broker_id", pa.int32()),  # null: unknown
        ("role", pa.string()),  # a key of `ROLES`
        ("partitions", pa.int64()),  # share partitions
        ("lag", pa.int64()),  # sum of the known ones; null: none is known
        ("as_of", schemas.TIMESTAMP),  # of the leaders
    ]
)
#: Roles of brokers, by the column of `sharelag.schemas.BROKERS` that names the broker.
ROLES = {
    "leader_id": Kind("Leads", "#3F6CA3 #74A0C8", "", "led by the broker"),
    "share_coordinator": Kind(
        "Keeps state", "#C6D8EA #2F4468", "/", "kept by it in the state topic"
    ),
    "group_coordinator": Kind("Coordinates group", "#4A1A5C #C77BA5", "x", "of groups that it has"),
}


def broker_load_records(brokers: Arrow) -> pa.Table:
    """Count the share partitions of each broker by role, from a `schemas.BROKERS`.

    `BROKER_LOADS` are sorted by role, then broker; share partitions of an unknown broker have a row
    whose broker is null.
    """
    schemas.require(brokers, schemas.BROKERS, "brokers")
    table = as_table(brokers)
    known = pc.ScalarAggregateOptions(min_count=1)
    sums = [("partition", "count"), ("lag", "sum", known), ("as_of", "max")]
    found = [BROKER_LOADS.empty_table()]
    for role in ROLES:
        summed = table.group_by(role).aggregate(sums)
        columns = {
            "broker_id": summed.column(role),
            "role": role,
            "partitions": summed.column("partition_count"),
            "lag": summed.column("lag_sum"),
            "as_of": summed.column("as_of_max"),
        }
        found.append(table_of(columns, BROKER_LOADS).sort_by("broker_id"))
    return pa.concat_tables(found)


def broker_load_figure(records: pa.Table, theme: Theme = "light", most: int = 50) -> Figure:
    """Draw the number of share partitions per broker and role as bars.

    Parameters
    ----------
    records : pyarrow.Table
        `BROKER_LOADS`.
    theme : {"light", "dark"}
    most : int
        Brokers to draw: those with the lowest ids.
    """
    as_of, plain = rows.latest(records), records.to_pylist()
    known = [one for one in plain if one["broker_id"] is not None]
    brokers = sorted({one["broker_id"] for one in known})
    if not brokers:
        why = "Only a running cluster and its captures know who leads."
        return empty(why, Story("The brokers are not known", as_of, ""), theme)
    place = {broker: row for row, broker in enumerate(brokers[:most])}
    traces = []
    for role, kind in ROLES.items():
        if mine := [one for one in known if one["role"] == role and one["broker_id"] in place]:
            lines = (
                (
                    f"broker {one['broker_id']}",
                    (
                        f"{text.pluralize(one['partitions'], _WHAT)} {kind.means}, "
                        f"lag {text.number(one['lag'])}"
                    ),
                )
                for one in mine
            )
            length = [one["partitions"] for one in mine]
            row = [place[one["broker_id"]] for one in mine]
            traces.append(bar(kind, theme, lines, orientation="h", x=length, y=row))
    story = Story(
        title=_broker_title(known, len(brokers)),
        as_of=as_of,
        unit="Share partitions of each broker, by what it does for them.",
        unknown=" ".join(
            f"Not known: the {one['role'].removesuffix('_id').replace('_', ' ')} of "
            f"{text.pluralize(one['partitions'], _WHAT)}."
            for one in plain
            if one["broker_id"] is None
        ),
        facts=rows.left_out(max(len(brokers) - most, 0), "broker", "with higher ids"),
    )
    return row_figure(
        traces,
        story,
        theme,
        [str(broker) for broker in place],
        axis("share partitions", max(one["partitions"] for one in known)),
        "broker",
        lines=2,
        barmode="group",
    )


def _broker_title(known: list[dict[str, Any]], brokers: int) -> str:
    """Return the title, with the broker that coordinates the most states, if known."""
    kept = [one for one in known if one["role"] == "share_coordinator"]
    if not kept:
        return f"Share partitions of {text.pluralize(brokers, 'broker')}"
    most = max(kept, key=lambda one: one["partitions"])
    total = text.pluralize(sum(one["partitions"] for one in kept), _WHAT)
    count = text.number(most["partitions"])
    return f"Broker {most['broker_id']} keeps the state of {count} of {total}"


_NO_RECORD = "There are no records: has any group consumed?"

# ---- records -------------------------------------------------------------------------------------

#: One partition of the state topic and kind of record.
STATE_RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.string()),  # a key of `RECORD_KINDS`
        ("records", pa.int64()),
        ("prunable", pa.int64()),  # of all kinds together, equal in each row; null: unknown
        ("as_of", schemas.TIMESTAMP),  # of the partition's last record
    ]
)
#: Kinds of records, by the column of `sharelag.schemas.HEALTH` that counts them.
RECORD_KINDS = {
    "snapshots": Kind("Snapshots", "#3F6CA3 #74A0C8", "", "hold a whole state"),
    "updates": Kind("Updates", "#C6D8EA #2F4468", "/", "hold a change"),
    "tombstones": Kind("Tombstones", "#4A1A5C #C77BA5", "x", "delete a share partition"),
    "rejects": Kind("Rejects", "#A33B20 #C05A3E", "+", "could not be decoded"),
}


def state_record_records(health: Arrow) -> pa.Table:
    """Count the records of each partition by kind, from a `schemas.HEALTH`."""
    schemas.require(health, schemas.HEALTH, "health")
    table = as_table(health).sort_by([("topic", "ascending"), ("partition", "ascending")])
    wide = table.take(pa.array(np.repeat(np.arange(len(table)), len(RECORD_KINDS))))
    counts = np.stack([table.column(kind).to_numpy() for kind in RECORD_KINDS], axis=1)
    columns = {name: wide.column(name) for name in ("topic", "partition", "prunable")} | {
        "kind": pa.array([*RECORD_KINDS] * len(table), pa.string()),
        "records": pa.array(counts.ravel()),
        "as_of": wide.column("last_timestamp"),
    }
    return table_of(columns, STATE_RECORDS)


def state_record_figure(records: pa.Table, theme: Theme = "light", most: int = 50) -> Figure:
    """Draw one bar per partition of the state topic, stacked by kind of record.

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
    for name, kind in RECORD_KINDS.items():
        if mine := [one for one in drawn if one["kind"] == name]:
            what = kind.words.lower().removesuffix("s")
            lines = (
                (_place(one, True), f"{text.pluralize(one['records'], what)}, which {kind.means}")
                for one in mine
            )
            length, place = [one["records"] for one in mine], [one["row"] for one in mine]
            traces.append(bar(kind, theme, lines, orientation="h", x=length, y=place))
    unknown = text.pluralize(sum(one["prunable_max"] is None for one in held), "partition")
    all_known = all(one["prunable_max"] is not None for one in held)
    story = Story(
        title=_records_title(held),
        as_of=as_of,
        unit="Records in each partition of the state topic, by what they hold.",
        unknown="" if all_known else f"Not known: what may be pruned of {unknown}.",
        facts=rows.left_out(max(len(held) - most, 0), "partition", "with higher numbers"),
    )
    names = [_place(one, several) for one in held[:most]]
    across = axis("records", max(one["records_sum"] for one in held))
    down = "" if several else "partition"
    return row_figure(traces, story, theme, names, across, down, barmode="stack")


def _place(one: dict[str, Any], with_topic: bool) -> str:
    return f"{text.name(one['topic'])}-{one['partition']}" if with_topic else str(one["partition"])


def _records_title(held: list[dict[str, Any]]) -> str:
    total = text.pluralize(sum(one["records_sum"] for one in held), "record")
    where = f"{total} in {text.pluralize(len(held), 'partition')} of the state topic"
    known = [one["prunable_max"] for one in held if one["prunable_max"] is not None]
    if not known:
        return where
    if not sum(known):
        return f"{where}; the coordinator has pruned all that it may"
    return f"{where}; the coordinator may prune {text.number(sum(known))} of them"


# ---- keys ----------------------------------------------------------------------------------------

#: ``share.coordinator.state.topic.num.partitions`` of Kafka.
DEFAULT_PARTITIONS = 50
#: Maximum number of partitions with a label each.
_NUMBERED = 60
#: One partition of the state topic.
STATE_KEYS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("share_partitions", pa.int64()),  # 0: without records
        ("as_of", schemas.TIMESTAMP),  # of its last record; null: none
        ("assumed", pa.bool_()),  # whether the number of partitions is unknown
    ]
)


def state_key_records(health: Arrow, partitions: int | Mapping[str, int] | None) -> pa.Table:
    """Return the spread of share partitions over the state topic, from a `schemas.HEALTH`.

    There is one row of `STATE_KEYS` per partition from 0 on, including those without records. If
    their number is unknown, it is Kafka's default, or more if more were seen.
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
            "partition": numbers,
            "topic": topic,
            "share_partitions": mine.column("share_partitions").take(at).fill_null(0),
            "as_of": mine.column("last_timestamp").take(at),
            "assumed": known is None,
        }
        found.append(table_of(columns, STATE_KEYS))
    return pa.concat_tables(found)


def state_key_figure(records: pa.Table, theme: Theme = "light") -> Figure:
    """Draw the number of share partitions per partition of the state topic as bars.

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
    lines = [(at, text.pluralize(count, _WHAT)) for at, count in zip(places, counts, strict=True)]
    assumed = any(one["assumed"] for one in plain)
    used, most = sum(count > 0 for count in counts), max(counts)
    story = Story(
        title=f"The state of {text.pluralize(sum(counts), _WHAT)} is in {text.number(used)} of "
        f"{text.pluralize(len(plain), 'partition')}; partition {names[counts.index(most)]} has "
        f"{text.number(most)}",
        as_of=as_of,
        unit="Share partitions whose state is in each partition of the state topic.",
        unknown=f"Not known: how many partitions the state topic has; Kafka creates "
        f"{DEFAULT_PARTITIONS}." * assumed,
    )
    across: dict[str, Any] = {"title": {"text": "partition of the state topic"}}
    if not several:  # integer ticks, even if a few bars leave room for halves
        across |= {"tickformat": ",d", "dtick": 1 if len(plain) <= _NUMBERED else None}
    bars = bar(
        RECORD_KINDS["snapshots"], theme, lines, name=None, x=names, y=counts, showlegend=False
    )
    return figure([bars], story, theme, 260, xaxis=across, yaxis=axis("share partitions", most))
