"""Imbalance of a share group over partitions, topics, members and brokers, now and in the past.

Each measure is spread over some items:

    lag         over partitions, topics, members and brokers; a partition's lag is divided equally
                among its members
    arrived     over partitions, topics and brokers: the advance of the end offset since an earlier
                moment
    finished    over partitions, topics and brokers: work done, offsets per hour
    members     over partitions: members assigned to each
    partitions  over members: partitions assigned to each; over brokers: those that each leads

The load of a broker is that of the share partitions that it leads. Brokers that lead none of a
group are not items of it. `skew_arrow` interprets the figures together.

For the n known numbers x of a segment, sorted, with mean m and total t:

    max_mean    max(x) / m
    gini        sum over i of (2 i - n - 1) x[i] / (n t); the mean absolute difference over 2 m
    cv          square root of the mean of (x - m) ** 2, over m
    top_share   the largest (top3_share: the three largest together) / t
    jain        t ** 2 / (n times the sum of x ** 2), after R. Jain et al., DEC-TR-301
    hoover      sum of |x - m| / (2 t): the part that would have to move to make all equal

All are invariant under changes of unit and order, and (except the shares) under repetition of all
numbers.

`skew_arrow` explains uneven lag. Each of three reasons concerns partitions (or members) that differ
in something other than lag, and applies if the lag concentrates there: their share of the lag
exceeds their share of the partitions (or members) by `EXCESS` or more.

    data_skew        partitions that received more than the average one
    starvation       partitions with fewer members than the average one
    assignment_skew  members with more partitions than the average one, by two or more

An uneven lag that concentrates in none of these is only `uneven`: look at single partitions and at
the causes that block their start offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import PARTITION, floats, mask
from sharelag.metrics.observed import unambiguous
from sharelag.schemas import SHARE_PARTITION, TIMESTAMP, Arrow, Bools, Floats, Ints
from sharelag.tables.arrow import (
    as_table,
    ascending,
    batch_of,
    beside,
    flat,
    keys,
    lists_of,
    one_batch,
    table_of,
    with_columns,
)
from sharelag.tables.words import pluralize

#: The figures of `spread_columns` for the known numbers of a segment; all but ``min`` may be NaN.
FIGURES = (
    *("total", "mean", "min", "max", "max_mean", "gini", "cv", "top_share", "top3_share", "jain"),
    "hoover",
)


def spread_columns(values: Floats, segment: Ints, segments: int) -> dict[str, NDArray[Any]]:
    """Return the imbalance of the numbers in each segment, one row per segment.

    ``values`` are at least 0 (else ValueError), NaN where unknown; ``segment`` has the segment of
    each, from 0 to ``segments - 1``, in any order. The result has ``items`` (the count of numbers),
    ``unknown`` (of those that are NaN), and `FIGURES` of the known ones: NaN if there are none.
    Total, mean and max are also NaN if all known numbers are 0 and others are unknown, because the
    sum may not be 0; ratios to the total are NaN if it is 0.
    """
    known = ~np.isnan(values)
    if (values[known] < 0).any() or np.isinf(values).any():
        raise ValueError("values must be finite and at least 0")
    items = np.bincount(segment, minlength=segments)
    numbers = np.bincount(segment[known], minlength=segments)
    order = np.lexsort((values, segment))
    order = order[known[order]]
    ends = np.cumsum(numbers)
    figures = {name: np.full(segments, np.nan) for name in FIGURES}
    some = np.flatnonzero(numbers)
    if len(some):
        sorted_figures = _figures(values[order], (ends - numbers)[some], numbers[some])
        for name, figure in sorted_figures.items():
            figures[name][some] = figure
    is_open = (figures["total"] == 0) & (items > numbers)
    for name in ("total", "mean", "max"):
        figures[name][is_open] = np.nan
    return {"items": items, "unknown": items - numbers, **figures}


def _figures(values: Floats, begins: Ints, numbers: Ints) -> dict[str, Floats]:
    """Return the figures of non-empty, contiguous segments, each ascending."""
    largest = values[begins + numbers - 1]
    which = np.repeat(np.arange(len(numbers)), numbers)
    rank = np.arange(len(values)) - begins[which] + 1
    # Divide by the largest so that squares and sums stay within a float.
    unit = np.where(largest > 0, largest, 1.0)
    part = values / unit[which]

    def total(of: Floats) -> Floats:
        return np.asarray(np.add.reduceat(of, begins))

    whole = total(part)
    mean = whole / numbers
    has_total = np.where(whole > 0, whole, np.nan)
    away = part - mean[which]
    top3 = total(np.where(rank > numbers[which] - 3, part, 0.0))
    return {
        "total": total(values),
        "mean": mean * unit,
        "min": values[begins],
        "max": largest,
        "max_mean": numbers / has_total,
        "gini": total((2 * rank - numbers[which] - 1) * part) / (numbers * has_total),
        "cv": np.sqrt(total(away**2) / numbers) * numbers / has_total,
        "top_share": 1 / has_total,
        "top3_share": top3 / has_total,
        "jain": has_total**2 / (numbers * total(part**2)),
        "hoover": total(np.abs(away)) / (2 * has_total),
    }


# ---- the load of each partition, topic, member and broker ----------------------------------------

# Each measure is a column of float64, null where unknown. Members come from the group records, the
# others from the lag table, the history and the offsets.

#: Key columns of `partition_loads`.
KEYS = ["group_id", "topic", "topic_id", "partition"]


def _columns(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


#: The columns that are read from each table; the others may be missing.
NEEDED = {
    "lag": _columns(schemas.LAG, *KEYS, "as_of", "lag", "end_offset"),
    "members": _columns(schemas.MEMBERS, "group_id", "member_id", "assigned_partitions"),
    "groups": _columns(schemas.GROUPS, "group_id", "initialized_topics"),
    "observed": _columns(schemas.OBSERVED, *SHARE_PARTITION, "begin", "end", "finished"),
    "brokers": _columns(schemas.BROKERS, *SHARE_PARTITION, "leader_id"),
    "past": _columns(schemas.OFFSETS, *PARTITION, "end_offset"),
}
#: Measures of partitions that are summed over those of a topic or a broker.
_SUMMED = ("lag", "arrived", "finished")
_MS_AN_HOUR = 3_600_000


def partition_loads(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
) -> pa.Table:
    """Return the load of each share partition.

    ``groups`` adds the initialized partitions without a lag row; members of groups that it lacks
    are unknown. ``past`` has earlier ends by ``topic_id`` and ``partition``, from `OFFSETS` or an
    earlier lag table. The result has `KEYS`, ``as_of``, and as float64: ``lag``; ``arrived`` since
    ``past``; ``finished`` per hour, as observed; ``members``, the number assigned. Null: unknown.
    """
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed, "past": past}
    for name, rows in given.items():
        if rows is not None:
            schemas.require(rows, NEEDED[name], name)
    # Arrow neither sorts nor joins categories.
    table = as_table(lag).select(NEEDED["lag"].names).cast(NEEDED["lag"], safe=False)
    if groups is not None:
        table = _with_initialized(table, as_table(groups))
    place = keys(table, SHARE_PARTITION)
    columns = {name: table.column(name) for name in (*KEYS, "as_of")}
    lags = table.column("lag").cast(pa.float64(), safe=False)  # approximate beyond 2^53
    columns |= {"lag": lags, "arrived": _arrivals(table, past)}
    assigned = _member_counts(place, flat(table.column("group_id")), members, groups)
    return pa.table(columns | {"finished": _finish_rate(place, observed), "members": assigned})


def member_loads(partitions: pa.Table, members: Arrow) -> pa.Table:
    """Return the load of each member from `partition_loads` of the same members.

    The columns are ``group_id``, ``member_id``, ``as_of`` of its group, and as float64
    ``partitions`` assigned to it and ``lag``, where a partition's lag is divided equally among its
    members. An idle member has lag 0; null if no lag of its partitions is known.
    """
    table, size = as_table(members), members.num_rows
    row, place, _ = explode_partitions(table, "assigned_partitions")
    lags, shared_by = (floats(partitions.column(name)) for name in ("lag", "members"))
    position = pc.index_in(place, keys(partitions, SHARE_PARTITION))
    part = np.append(lags / np.maximum(shared_by, 1), np.nan)[position.fill_null(-1).to_numpy()]
    lag, counts = known_sums(part, row, size), np.bincount(row, minlength=size)
    lag[(lag == 0) & (np.bincount(row[np.isnan(part)], minlength=size) > 0)] = np.nan
    moments = partitions.group_by("group_id").aggregate([("as_of", "min")])
    moments = beside(flat(table.column("group_id")), moments, ["group_id"])
    columns = {name: table.column(name) for name in ("group_id", "member_id")} | {
        "as_of": moments.column("as_of_min"),
        "partitions": pa.array(counts, pa.float64()),
        "lag": pa.array(np.where(counts == 0, 0.0, lag), from_pandas=True),
    }
    return pa.table(columns)


def topic_loads(partitions: pa.Table) -> pa.Table:
    """Return the load of each topic of a group: sums over its known partitions.

    A sum of 0 beside unknown values is unknown. Columns are ``group_id``, ``topic``, ``topic_id``,
    ``as_of``, and as float64 ``lag``, ``arrived`` and ``finished``.
    """
    return _sum_groups(partitions, "topic_id").drop_columns("partitions")


def _sum_groups(partitions: pa.Table, by: str) -> pa.Table:
    """Sum loads within groups; a sum of 0 beside unknown numbers is unknown."""
    known = pc.ScalarAggregateOptions(min_count=1)
    summed = partitions.group_by(["group_id", by]).aggregate(
        [
            *(("topic", "max"), ("as_of", "min"), ("partition", "count")),
            *((name, "sum", known) for name in _SUMMED),
            *((name, "count") for name in _SUMMED),
        ]
    )
    columns = {name: summed.column(name) for name in ("group_id", by)}
    columns |= {"topic": summed.column("topic_max"), "as_of": summed.column("as_of_min")}
    count = summed.column("partition_count")
    columns["partitions"] = count.cast(pa.float64())
    for name in _SUMMED:
        sums = summed.column(f"{name}_sum")
        is_open = pc.and_(pc.equal(sums, 0), pc.less(summed.column(f"{name}_count"), count))
        columns[name] = pc.if_else(is_open.fill_null(False), None, sums)
    return pa.table(columns)


def broker_loads(partitions: pa.Table, brokers: Arrow) -> pa.Table:
    """Return the load of each broker: sums over the known partitions that it leads.

    ``brokers`` has ``leader_id`` by share partition. The columns are those of `topic_loads`, with
    ``leader_id`` and ``partitions`` in place of the topic. Share partitions without a known leader
    are left out.
    """
    schemas.require(brokers, NEEDED["brokers"], "brokers")
    led = beside(keys(partitions, SHARE_PARTITION), brokers, SHARE_PARTITION)
    table = partitions.append_column("leader_id", led.column("leader_id"))
    led_by_some = table.filter(table.column("leader_id").is_valid())
    return _sum_groups(led_by_some, "leader_id").drop_columns("topic")


def known_sums(values: Floats, code: Ints, size: int) -> Floats:
    """Return sums of the known values of each code; NaN if none is known."""
    known = ~np.isnan(values)
    sums = np.bincount(code[known], values[known], size)
    return np.where(np.bincount(code[known], minlength=size) > 0, sums, np.nan)


def explode_partitions(table: pa.Table, column: str) -> tuple[Ints, pa.Array, pa.Array]:
    """Return each partition in the lists of a column such as ``assigned_partitions``.

    Each list has topics with ``topic_id`` and ``partitions``. The result is the table row that
    lists each partition, a key for each share partition, and the topic's fields, with ``partition``
    in place of ``partitions``.
    """
    lists = flat(table.column(column))
    topics = pc.list_flatten(lists)
    partitions = pc.struct_field(topics, "partitions")
    topic = pc.list_parent_indices(partitions)
    row = pc.list_parent_indices(lists).take(topic)
    names = [field.name for field in topics.type if field.name != "partitions"]
    fields = {name: pc.struct_field(topics, name).take(topic) for name in names}
    fields["partition"] = pc.list_flatten(partitions)
    each = pa.table({"group_id": flat(table.column("group_id")).take(row), **fields})
    found = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return row.to_numpy(), keys(each, SHARE_PARTITION), found


def count_stateless(groups: pa.Table, states: Arrow) -> int:
    """Return the number of share partitions that are initialized but have no state.

    A group coordinator marks a share partition as initialized after its state was written, so
    records of the state topic are missing. ``states`` has ``group_id topic_id partition``.
    """
    _, place, _ = explode_partitions(groups, "initialized_topics")
    return int(pc.sum(pc.invert(pc.is_in(place, keys(states, SHARE_PARTITION)))).as_py() or 0)


def name_topics(table: pa.Table, groups: pa.Table) -> pa.Table:
    """Add topic names to share partitions that only their groups' records know."""
    _, place, topics = explode_partitions(groups, "initialized_topics")
    names = names_of(topics).take(pc.index_in(keys(table, SHARE_PARTITION), place))
    topic = pc.coalesce(flat(table.column("topic")), names)
    return with_columns(table, {"topic": topic})


def names_of(topics: pa.StructArray) -> pa.Array:
    """Return the names of topics in a group's record; null where its coordinator knew none."""
    names = pc.struct_field(topics, "topic_name")
    return pc.if_else(pc.equal(names, "<UNKNOWN>"), None, names)


def _with_initialized(table: pa.Table, groups: pa.Table) -> pa.Table:
    """Add initialized partitions without a state, and topic names known only from the group."""
    row, place, topics = explode_partitions(groups, "initialized_topics")
    names, have = names_of(topics), keys(table, SHARE_PARTITION)
    table = name_topics(table, groups)
    new = {name: pc.struct_field(topics, name) for name in ("topic_id", "partition")}
    new |= {"group_id": flat(groups.column("group_id")).take(pa.array(row)), "topic": names}
    missing = pc.invert(pc.is_in(place, have))
    return pa.concat_tables([table, table_of(new, table.schema, pad=True).filter(missing)])


def _arrivals(table: pa.Table, past: Arrow | None) -> pa.Array:
    if past is None:
        return pa.nulls(table.num_rows, pa.float64())
    now = flat(table.column("end_offset"))
    before = beside(keys(table, PARTITION), past, PARTITION).column("end_offset")
    growth = pc.subtract(now, flat(before)).cast(pa.float64(), safe=False)
    # An end offset that went back is from a truncated log or another topic: do not count it.
    return pc.if_else(pc.less(growth, 0), pa.scalar(None, pa.float64()), growth)


def _finish_rate(place: pa.Array, observed: Arrow | None) -> pa.Array:
    """Return finished offsets per hour over the observed span."""
    if observed is None:
        return pa.nulls(len(place), pa.float64())
    table = unambiguous(observed)
    begin, end, finished = (floats(table.column(name)) for name in ("begin", "end", "finished"))
    hours = np.where(end > begin, end - begin, np.nan) / _MS_AN_HOUR
    rate = pa.array(finished / hours, from_pandas=True)
    return rate.take(pc.index_in(place, keys(table, SHARE_PARTITION)))


def _member_counts(
    place: pa.Array, group_id: pa.Array, members: Arrow | None, groups: Arrow | None
) -> pa.Array:
    if members is None:
        return pa.nulls(len(place), pa.float64())
    encoded = place.dictionary_encode()
    _, assigned, _ = explode_partitions(as_table(members), "assigned_partitions")
    at = pc.index_in(assigned, encoded.dictionary).drop_null().to_numpy()
    counts = np.bincount(at, minlength=len(encoded.dictionary))[encoded.indices.to_numpy()]
    known = np.ones(len(place), bool)
    if groups is not None:
        known = mask(pc.is_in(group_id, flat(groups.column("group_id"))))
    return pa.array(counts.astype(np.float64), mask=~known)


# ---- how it is spread ----------------------------------------------------------------------------

OVER = ("partition", "topic", "member", "broker")


def require_over(by: str | None, over_time: bool = False) -> None:
    """Raise `InputError` unless imbalance is measured ``by`` this, or it is None."""
    if by is not None and by not in OVER:
        raise InputError(f"cannot show an imbalance by {by!r}: choose one of {', '.join(OVER)}")
    if over_time and by in ("member", "broker"):
        raise InputError(
            f"cannot show an imbalance over time by {by}: past members and leaders are not "
            "recorded; choose partition or topic"
        )


def imbalance_arrow(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
    by: str | None = None,
    brokers: Arrow | None = None,
) -> pa.RecordBatch:
    """Return the imbalance of each measure in each group and topic, as `IMBALANCE`.

    Rows are sorted by group, topic (the whole group first), ``over`` and ``measure``; ``by``
    restricts them to those over partition, topic, member or broker. Tables are as for
    `partition_loads`. Measures without their table have no rows; neither have brokers without
    `BROKERS` or a known leader.
    """
    require_over(by)
    partitions = partition_loads(lag, members, groups, observed, past)
    given = {"lag": lag, "arrived": past, "finished": observed, "members": members}
    measures = [name for name, table in given.items() if table is not None]
    summed = [name for name in measures if name != "members"]
    found = [schemas.IMBALANCE.empty_table()]
    if by in (None, "partition"):
        found += _spreads(partitions, "partition", measures)
        found += _spreads(partitions, "partition", measures, "topic_id")
    if by in (None, "topic"):
        found += _spreads(topic_loads(partitions), "topic", summed)
    if by in (None, "member") and members is not None:
        found += _spreads(member_loads(partitions, members), "member", ["lag", "partitions"])
    if by in (None, "broker") and brokers is not None:
        found += _spreads(broker_loads(partitions, brokers), "broker", [*summed, "partitions"])
    rows = pa.concat_tables(found)
    rows = rows.append_column("of_topic", rows.column("topic_id").is_valid().cast(pa.int8()))
    rows = rows.sort_by(ascending("group_id", "of_topic", "topic", "topic_id", "over", "measure"))
    return one_batch(rows.select(schemas.IMBALANCE.names))


def trend(timeline: pa.Table, by: str | None = None) -> pa.Table:
    """Return the imbalance at each moment of a `sharelag.schemas.TIMELINE`, as `IMBALANCE`.

    Arrivals are counted since the previous moment. ``by`` (partition or topic) restricts the rows,
    which are sorted by moment, then as `imbalance_arrow`.
    """
    require_over(by, over_time=True)
    found, past = [schemas.IMBALANCE.empty_table()], None
    for moment in sorted(pc.unique(timeline.column("as_of")).to_pylist()):
        lag = timeline.filter(pc.equal(timeline.column("as_of"), pa.scalar(moment, TIMESTAMP)))
        rows = as_table(imbalance_arrow(lag, past=past, by=by))
        found.append(with_columns(rows, {"as_of": moment}))
        past = lag
    return pa.concat_tables(found)


def _spreads(
    loads: pa.Table, over: str, measures: Sequence[str], *within: str
) -> Iterator[pa.Table]:
    """Yield each measure of a load table, one row per group, or per group and ``within``."""
    names = ["group_id", *within]
    encoded = keys(loads, names).dictionary_encode()
    code, size = np.asarray(encoded.indices.to_numpy(), np.int64), len(encoded.dictionary)
    of_topic = "topic_id" in within
    about = {name: loads.column(name) for name in (*names, "as_of")} | {
        "code": code,
        "topic": loads.column("topic") if of_topic else pa.nulls(len(code), pa.string()),
    }
    each = pa.table(about).group_by(["code", *names])
    each = each.aggregate([("as_of", "min"), ("topic", "max")]).sort_by("code")
    place = {name: each.column(name) for name in names}
    place |= {"as_of": each.column("as_of_min"), "topic": each.column("topic_max")}
    for measure in measures:
        figures = spread_columns(floats(loads.column(measure)), code, size)
        columns = place | {name: pa.array(figures[name], from_pandas=True) for name in figures}
        columns |= {"over": pa.repeat(over, size), "measure": pa.repeat(measure, size)}
        yield table_of(columns, schemas.IMBALANCE, pad=True)


NO_MEMBERS = "no_members"  # lag without members: not a matter of balance
STARVATION = "starvation"
ASSIGNMENT_SKEW = "assignment_skew"
DATA_SKEW = "data_skew"
UNEVEN = "uneven"
EVEN = "even"
NO_LAG = "no_lag"
VERDICTS = {
    NO_MEMBERS: "there is lag but no member: start consumers before balancing anything",
    STARVATION: "the lag is on partitions with fewer members than average",
    ASSIGNMENT_SKEW: "the lag is on members with more partitions than the others",
    DATA_SKEW: "the lag is on partitions that receive more records than the others",
    UNEVEN: "the lag is uneven, but neither known arrivals nor members explain it",
    EVEN: "the lag is spread evenly",
    NO_LAG: "there is no lag",
}

#: Minimum excess of the share of the lag: one in five offsets would have to move to make it even.
EXCESS = 0.2
#: Minimum excess of the share of arrivals that counts as uneven.
_ARRIVALS_EXCESS = 0.1

#: Where the lag of one group concentrates, with the figures. All shares are between 0 and 1.
SKEW = pa.schema(
    [
        ("group_id", pa.string()),
        ("verdict", pa.string()),  # one of `VERDICTS`; null: no lag is known
        ("findings", pa.list_(pa.string())),  # those of the three that apply, strongest first
        ("lag", pa.float64()),
        ("lag_gini", pa.float64()),
        ("lag_max_mean", pa.float64()),
        ("lag_hoover", pa.float64()),  # share of the lag that would have to move to make it even
        ("partitions", pa.int64()),
        ("unknown_lags", pa.int64()),
        ("busy_partitions", pa.float64()),  # share with more arrivals than the average one
        ("busy_arrived", pa.float64()),  # their share of the arrivals
        ("busy_lag", pa.float64()),  # their share of the lag
        ("finished_gini", pa.float64()),  # inequality of finished offsets
        ("members", pa.int64()),
        ("idle_members", pa.int64()),  # without assigned partitions
        ("unattended_partitions", pa.int64()),  # without members
        ("starved_partitions", pa.float64()),  # share with fewer members than the average one
        ("starved_lag", pa.float64()),
        ("max_partitions", pa.int64()),  # of one member
        ("loaded_members", pa.float64()),  # share with more partitions than the average one
        ("loaded_lag", pa.float64()),
        ("as_of", TIMESTAMP),
    ]
)


def verdict_words(row: Mapping[str, Any]) -> str:
    """Say where the lag of a group is concentrated (a row of `SKEW`)."""
    words = VERDICTS.get(row["verdict"], "no lag is known")
    if row["verdict"] is None or not row["unknown_lags"]:
        return words
    of = pluralize(row["partitions"], "share partition")
    return f"{words} (it is unknown in {row['unknown_lags']:,} of {of})"


def skew_arrow(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
) -> pa.RecordBatch:
    """Return where the lag of each group is concentrated, as `SKEW`, sorted by group.

    Parameters are those of `partition_loads`. Data skew needs
    ``past``, the others need ``members``.
    """
    partitions = partition_loads(lag, members, groups, observed, past)
    if partitions.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=SKEW)
    encoded = flat(partitions.column("group_id")).dictionary_encode()
    ids, code = encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
    columns = _skew_of_partitions(partitions, code, len(ids))
    if members is not None:
        is_known = ~np.isnan(columns["unattended_partitions"])
        columns |= _skew_of_members(member_loads(partitions, members), ids, is_known)
    moments = partitions.group_by("group_id").aggregate([("as_of", "min")])
    unknown = np.full(len(ids), np.nan)
    figure = {field.name: columns.get(field.name, unknown) for field in SKEW}
    is_uneven = columns.get("uneven_partitions", unknown) >= 2
    is_busy = figure["busy_arrived"] - figure["busy_partitions"] >= _ARRIVALS_EXCESS
    loaded = figure["loaded_lag"] - figure["loaded_members"]
    crowding = {
        STARVATION: figure["starved_lag"] - figure["starved_partitions"],
        ASSIGNMENT_SKEW: np.where(is_uneven, loaded, np.nan),
        DATA_SKEW: np.where(is_busy, figure["busy_lag"] - figure["busy_partitions"], np.nan),
    }
    excess = np.stack(list(crowding.values()), axis=1)
    excess = np.where(excess >= EXCESS - 1e-9, excess, -np.inf)  # NaN, too
    order = np.argsort(-excess, axis=1, kind="stable")
    holds = np.take_along_axis(excess, order, axis=1) > 0
    named = np.array(list(crowding))[order]
    cases: list[tuple[Bools, Any]] = [
        (figure["lag"] == 0, NO_LAG),
        (figure["members"] == 0, NO_MEMBERS),
        (holds[:, 0], named[:, 0]),
        (figure["lag_hoover"] >= EXCESS, UNEVEN),
    ]
    verdict = np.select([case for case, _ in cases], [name for _, name in cases], EVEN)
    arrays = {name: pa.array(values, from_pandas=True) for name, values in figure.items()}
    arrays |= {
        "group_id": ids,
        "findings": lists_of(holds.sum(axis=1), pa.array(named[holds], pa.string())),
        "verdict": pa.array(verdict, pa.string(), mask=np.isnan(figure["lag"])),
        "as_of": beside(ids, moments, ["group_id"]).column("as_of_min"),
    }
    return batch_of(arrays, SKEW).sort_by("group_id")


def _skew_of_partitions(partitions: pa.Table, code: Ints, size: int) -> dict[str, Floats | Ints]:
    lag, arrived, finished, members = (
        floats(partitions.column(name)) for name in ("lag", "arrived", "finished", "members")
    )
    spread = spread_columns(lag, code, size)
    # Shares are among partitions with a lag, so that they are comparable.
    one = np.where(np.isnan(lag), np.nan, 1.0)
    unattended = np.where(np.isnan(members), np.nan, members == 0)
    busy = {"busy_partitions": one, "busy_arrived": arrived * one, "busy_lag": lag}
    starved = {"starved_partitions": one, "starved_lag": lag}
    return {
        "lag": spread["total"],
        **{f"lag_{name}": spread[name] for name in ("gini", "max_mean", "hoover")},
        "partitions": spread["items"],
        "unknown_lags": spread["unknown"],
        "finished_gini": spread_columns(finished, code, size)["gini"],
        "unattended_partitions": known_sums(unattended, code, size),
        **_shares_above_mean(arrived, busy, code, size),
        **_shares_above_mean(-members, starved, code, size),
    }


def _skew_of_members(loads: pa.Table, ids: pa.Array, is_known: Bools) -> dict[str, Floats | Ints]:
    position = pc.index_in(flat(loads.column("group_id")), ids)
    code, size = position.drop_null().to_numpy().astype(np.int64), len(ids)
    known = loads.filter(position.is_valid())
    partitions, lag = floats(known.column("partitions")), floats(known.column("lag"))
    spread = spread_columns(partitions, code, size)
    idle = np.bincount(code[partitions == 0], minlength=size)
    loaded = {"loaded_members": np.where(np.isnan(lag), np.nan, 1.0), "loaded_lag": lag}
    return {
        "members": np.where(is_known, spread["items"], np.nan),
        "idle_members": np.where(is_known, idle, np.nan),
        "max_partitions": spread["max"],
        "uneven_partitions": spread["max"] - spread["min"],
        **_shares_above_mean(partitions, loaded, code, size),
    }


def _shares_above_mean(
    values: Floats, weights: Mapping[str, Floats], code: Ints, size: int
) -> dict[str, Floats]:
    """Return the share of each weight in the rows whose value exceeds the mean of their group.

    By more than rounding errors, and among the rows of which both are known.
    """
    known = ~np.isnan(values)
    number = np.bincount(code[known], minlength=size)
    mean = (known_sums(values, code, size) / np.maximum(number, 1))[code]
    is_above, shares = values - mean > 1e-9 * np.abs(mean), {}
    for name, weight in weights.items():
        weight = np.where(known, weight, np.nan)
        whole, part = (known_sums(one, code, size) for one in (weight, weight * is_above))
        shares[name] = part / np.where(whole > 0, whole, np.nan)
    return shares
