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
group are not items of it. `sharelag.metrics.skew` interprets the figures together.

For the n known numbers x of a segment, sorted, with mean m and total t:

    max_mean    max(x) / m
    gini        sum over i of (2 i - n - 1) x[i] / (n t); the mean absolute difference over 2 m
    cv          square root of the mean of (x - m) ** 2, over m
    top_share   the largest (top3_share: the three largest together) / t
    jain        t ** 2 / (n times the sum of x ** 2), after R. Jain et al., DEC-TR-301
    hoover      sum of |x - m| / (2 t): the part that would have to move to make all equal

All are invariant under changes of unit and order, and (except the shares) under repetition of all
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import ascending, floats, table_of
from sharelag.metrics.load_per_item import broker_loads, member_loads, partition_loads, topic_loads
from sharelag.schemas import Arrow
from sharelag.tables.arrow import keys, one_batch

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


class Spread(NamedTuple):
    """The measures of every segment; NaN where undefined."""

    items: _Ints  # numbers, known or not
    unknown: _Ints  # unknown ones among them
    # Of the known ones, as are mean, min and max; NaN if there are none. All but min are NaN, too,
    # where all known ones are 0 and others are unknown: the sum may not be 0 then.
    total: _Floats
    mean: _Floats
    min: _Floats
    max: _Floats
    max_mean: _Floats  # this and the following: NaN also if the total is 0
    gini: _Floats
    cv: _Floats
    top_share: _Floats
    top3_share: _Floats
    jain: _Floats
    hoover: _Floats


def spread_columns(values: _Floats, segment: _Ints, segments: int) -> Spread:
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


def _figures(values: _Floats, begins: _Ints, numbers: _Ints) -> dict[str, _Floats]:
    """Return the measures of non-empty, contiguous segments, each ascending."""
    largest = values[begins + numbers - 1]
    which = np.repeat(np.arange(len(numbers)), numbers)
    rank = np.arange(len(values)) - begins[which] + 1
    # Divide by the largest so that squares and sums stay within a float; all 0 without a total.
    unit = np.where(largest > 0, largest, 1.0)
    part = values / unit[which]

    def total(of: _Floats) -> _Floats:
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
