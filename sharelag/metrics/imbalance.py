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

Why lag is spread unevenly, `skew_arrow` tells. Each of three reasons is about partitions (or
members) that differ in something other than lag, and applies if the lag concentrates there: their
share of the lag exceeds their share of the partitions (or members) by `EXCESS` or more.

    data_skew        partitions that received more than the average one
    starvation       partitions with fewer members than the average one
    assignment_skew  members with more partitions than the average one, by two or more

An uneven lag that does not concentrate in any of these is only `uneven`: then look at single
partitions and at what blocks their start offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import floats
from sharelag.metrics.load_per_item import (
    broker_loads,
    known_sums,
    member_loads,
    partition_loads,
    topic_loads,
)
from sharelag.schemas import TIMESTAMP, Arrow, Bools, Floats, Ints
from sharelag.tables.arrow import ascending, batch_of, flat, keys, lists_of, one_batch, table_of
from sharelag.tables.words import counted


class Spread(NamedTuple):
    """The measures of every segment; NaN where undefined."""

    items: Ints  # numbers, known or not
    unknown: Ints  # unknown ones among them
    # Of the known ones, as are mean, min and max; NaN if there are none. All but min are NaN, too,
    # where all known ones are 0 and others are unknown: the sum may not be 0 then.
    total: Floats
    mean: Floats
    min: Floats
    max: Floats
    max_mean: Floats  # this and the following: NaN also if the total is 0
    gini: Floats
    cv: Floats
    top_share: Floats
    top3_share: Floats
    jain: Floats
    hoover: Floats


def spread_columns(values: Floats, segment: Ints, segments: int) -> Spread:
    """Return how unevenly the numbers of each segment are spread, one row per segment.

    ``values`` are at least 0 (else it is a ValueError), and NaN where unknown; ``segment`` says
    which segment each belongs to, from 0 to ``segments - 1``, in any order.
    """
    known = ~np.isnan(values)
    if (values[known] < 0).any() or np.isinf(values).any():
        raise ValueError("values must be finite and at least 0")
    items = np.bincount(segment, minlength=segments)
    numbers = np.bincount(segment[known], minlength=segments)
    order = np.lexsort((values, segment))
    order = order[known[order]]
    ends = np.cumsum(numbers)
    figures = {name: np.full(segments, np.nan) for name in Spread._fields[2:]}
    some = np.flatnonzero(numbers)
    if len(some):
        sorted_figures = _figures(values[order], (ends - numbers)[some], numbers[some])
        for name, figure in sorted_figures.items():
            figures[name][some] = figure
    is_open = (figures["total"] == 0) & (items > numbers)
    for name in ("total", "mean", "max"):
        figures[name][is_open] = np.nan
    return Spread(items, items - numbers, **figures)


def _figures(values: Floats, begins: Ints, numbers: Ints) -> dict[str, Floats]:
    """Return the measures of non-empty, contiguous segments, each ascending."""
    largest = values[begins + numbers - 1]
    which = np.repeat(np.arange(len(numbers)), numbers)
    rank = np.arange(len(values)) - begins[which] + 1
    # Divide by the largest so that squares and sums stay within a float; all 0 without a total.
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


OVER = ("partition", "topic", "member", "broker")


def imbalance_arrow(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
    by: str | None = None,
    brokers: Arrow | None = None,
) -> pa.RecordBatch:
    """Return how unevenly each measure is spread in each group and topic, as `IMBALANCE`.

    Rows are sorted by group, topic (the whole group first), ``over`` and ``measure``; ``by``
    chooses those over partition, topic, member or broker. Tables are as for
    `sharelag.metrics.load_per_item`: measures that need a missing one have no rows, nor have
    brokers without `BROKERS` or a known leader.
    """
    if by is not None and by not in OVER:
        raise InputError(f"cannot show an imbalance by {by!r}: choose one of {', '.join(OVER)}")
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


def trend(
    lags: Mapping[datetime, Arrow],
    members: Mapping[datetime, Arrow] | None = None,
    by: str | None = None,
) -> pa.RecordBatch:
    """Return the imbalance at several moments.

    Arrivals are counted since the previous moment; ``members`` may be known of some of the moments.
    With ``by`` (partition, topic or member) only the rows over these. The result is
    `sharelag.schemas.IMBALANCE` with the moments as ``as_of``; sorted by it, then as
    `imbalance_arrow`.
    """
    found = [pa.RecordBatch.from_pylist([], schema=schemas.IMBALANCE)]
    past = None
    for moment in sorted(lags):
        rows = imbalance_arrow(lags[moment], (members or {}).get(moment), past=past, by=by)
        as_of = pa.repeat(pa.scalar(moment, schemas.TIMESTAMP), rows.num_rows)
        found.append(rows.set_column(rows.schema.get_field_index("as_of"), "as_of", as_of))
        past = lags[moment]
    return one_batch(pa.Table.from_batches(found))


def _spreads(
    loads: pa.Table, over: str, measures: Sequence[str], *within: str
) -> Iterator[pa.Table]:
    """Yield each measure of a load table, one row per group, or per group and what is named."""
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
        figures = spread_columns(floats(loads.column(measure)), code, size)._asdict()
        columns = place | {name: pa.array(figures[name], from_pandas=True) for name in figures}
        columns |= {"over": pa.repeat(over, size), "measure": pa.repeat(measure, size)}
        yield table_of(columns, schemas.IMBALANCE, pad=True)


NO_MEMBERS = "no_members"  # there is lag but no member: not a matter of balance
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
    of = counted(row["partitions"], "share partition")
    return f"{words} (it is unknown in {row['unknown_lags']:,} of {of})"


def skew_arrow(
    lag: Arrow,
    members: Arrow | None = None,
    groups: Arrow | None = None,
    observed: Arrow | None = None,
    past: Arrow | None = None,
) -> pa.RecordBatch:
    """Return where the lag of each group concentrates, as `SKEW`, sorted by group.

    Parameters are those of `sharelag.metrics.load_per_item.partition_loads`. Data skew needs
    ``past``, the others need ``members``.
    """
    partitions = partition_loads(lag, members, groups, observed, past)
    if partitions.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=SKEW)
    g = _Groups(partitions)
    columns = g.of_partitions()
    if members is not None:
        columns |= g.of_members(member_loads(partitions, members))
    unknown = np.full(g.size, np.nan)
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
        "group_id": g.ids,
        "findings": lists_of(holds.sum(axis=1), pa.array(named[holds], pa.string())),
        "verdict": pa.array(verdict, pa.string(), mask=np.isnan(figure["lag"])),
        "as_of": g.as_of,
    }
    return batch_of(arrays, SKEW).sort_by("group_id")


class _Groups:
    """Sums and shares for each group."""

    def __init__(self, partitions: pa.Table) -> None:
        encoded = flat(partitions.column("group_id")).dictionary_encode()
        self.ids, self.size = encoded.dictionary, len(encoded.dictionary)
        self.code: Ints = encoded.indices.to_numpy().astype(np.int64)
        first = pa.table({"code": self.code, "as_of": partitions.column("as_of")}).group_by("code")
        self.as_of = flat(first.aggregate([("as_of", "min")]).sort_by("code").column("as_of_min"))
        self.lag, self.arrived, self.finished, self.members = (
            floats(partitions.column(name)) for name in ("lag", "arrived", "finished", "members")
        )

    def of_partitions(self) -> dict[str, Floats | Ints]:
        spread = spread_columns(self.lag, self.code, self.size)
        busy = self._above(self.arrived, self.code)
        starved = self._above(-self.members, self.code)
        # Shares are among partitions with a lag, so that they are comparable.
        one = np.where(np.isnan(self.lag), np.nan, 1.0)
        unattended = np.where(np.isnan(self.members), np.nan, self.members == 0)
        return {
            "lag": spread.total,
            "lag_gini": spread.gini,
            "lag_max_mean": spread.max_mean,
            "lag_hoover": spread.hoover,
            "partitions": spread.items,
            "unknown_lags": spread.unknown,
            "busy_partitions": self._part(busy, one, self.arrived, self.code),
            "busy_arrived": self._part(busy, self.arrived * one, self.arrived, self.code),
            "busy_lag": self._part(busy, self.lag, self.arrived, self.code),
            "finished_gini": spread_columns(self.finished, self.code, self.size).gini,
            "unattended_partitions": known_sums(unattended, self.code, self.size),
            "starved_partitions": self._part(starved, one, self.members, self.code),
            "starved_lag": self._part(starved, self.lag, self.members, self.code),
        }

    def of_members(self, loads: pa.Table) -> dict[str, Floats | Ints]:
        position = pc.index_in(flat(loads.column("group_id")), self.ids)
        code = position.drop_null().to_numpy().astype(np.int64)
        known = loads.filter(position.is_valid())
        partitions, lag = floats(known.column("partitions")), floats(known.column("lag"))
        one = np.where(np.isnan(lag), np.nan, 1.0)
        spread = spread_columns(partitions, code, self.size)
        loaded = self._above(partitions, code)
        is_known = ~np.isnan(known_sums(self.members, self.code, self.size))
        idle = np.bincount(code[partitions == 0], minlength=self.size)
        return {
            "members": np.where(is_known, spread.items, np.nan),
            "idle_members": np.where(is_known, idle, np.nan),
            "max_partitions": spread.max,
            "uneven_partitions": spread.max - spread.min,
            "loaded_members": self._part(loaded, one, partitions, code),
            "loaded_lag": self._part(loaded, lag, partitions, code),
        }

    def _above(self, values: Floats, code: Ints) -> Bools:
        """Whether values exceed the mean of their group by more than rounding errors."""
        number = np.bincount(code[~np.isnan(values)], minlength=self.size)
        mean = known_sums(values, code, self.size) / np.maximum(number, 1)
        return np.asarray(values - mean[code] > 1e-9 * np.abs(mean[code]))

    def _part(self, chosen: Bools, weight: Floats, shown_by: Floats, code: Ints) -> Floats:
        """Return the share of the weight of the chosen, among those with a known choice."""
        known = ~np.isnan(shown_by) & ~np.isnan(weight)
        whole = known_sums(np.where(known, weight, np.nan), code, self.size)
        part = known_sums(np.where(known, weight * chosen, np.nan), code, self.size)
        return part / np.where(whole > 0, whole, np.nan)
