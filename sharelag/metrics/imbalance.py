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
group are not items of it.

`sharelag.metrics.spread` defines the figures, `sharelag.metrics.skew` interprets them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.loads import broker_loads, member_loads, partition_loads, topic_loads
from sharelag.metrics.spread import spread_columns
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat, keys, one_batch

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
    """Return how unevenly each measure is spread in each group and in each of its topics.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    members, groups, observed, past : pyarrow.RecordBatch or pyarrow.Table, optional
        As for `sharelag.metrics.loads.partition_loads`; measures that need a missing table have no
        rows.
    by : {"partition", "topic", "member", "broker"}, optional
        Only the rows over these.
    brokers : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.BROKERS` of all share partitions. Without it, and of groups without a
        known leader, there are no rows over brokers.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.IMBALANCE`, sorted by group, topic (the whole group first), ``over`` and
        ``measure``.

    Raises
    ------
    InputError
        When ``by`` is unknown, or a table has the wrong columns.
    """
    if by is not None and by not in OVER:
        raise InputError(f"cannot show an imbalance by {by!r}: choose one of {', '.join(OVER)}")
    partitions = partition_loads(lag, members, groups, observed, past)
    measures = [
        name
        for name, given in (
            ("lag", lag),
            ("arrived", past),
            ("finished", observed),
            ("members", members),
        )
        if given is not None
    ]
    whole = _Segments(partitions, "group_id")
    found = [schemas.IMBALANCE.empty_table()]
    if by in (None, "partition"):
        each_topic = _Segments(partitions, "group_id", "topic_id")
        found += [
            at.rows(partitions, "partition", measure)
            for at in (whole, each_topic)
            for measure in measures
        ]
    if by in (None, "topic"):
        topics = topic_loads(partitions)
        at = _Segments(topics, "group_id")
        found += [at.rows(topics, "topic", measure) for measure in measures if measure != "members"]
    if by in (None, "member") and members is not None:
        loads = member_loads(partitions, members)
        position = pc.index_in(loads.column("group_id"), flat(whole.keys["group_id"]))
        loads = loads.append_column("as_of", whole.keys["as_of"].take(position))
        at = _Segments(loads, "group_id")
        found += [at.rows(loads, "member", measure) for measure in ("lag", "partitions")]
    if by in (None, "broker") and brokers is not None:
        loads = broker_loads(partitions, brokers)
        at = _Segments(loads, "group_id")
        over_brokers = (*(name for name in measures if name != "members"), "partitions")
        found += [at.rows(loads, "broker", measure) for measure in over_brokers]
    rows = pa.concat_tables(found)
    rows = rows.append_column("of_topic", rows.column("topic_id").is_valid().cast(pa.int8()))
    keys = ("group_id", "of_topic", "topic", "topic_id", "over", "measure")
    return one_batch(
        rows.sort_by([(name, "ascending") for name in keys]).select(schemas.IMBALANCE.names)
    )


def trend(
    lags: Mapping[datetime, Arrow],
    members: Mapping[datetime, Arrow] | None = None,
    by: str | None = None,
) -> pa.RecordBatch:
    """Return the imbalance at several moments.

    Parameters
    ----------
    lags : mapping of datetime to pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` at each moment. Arrivals are counted since the previous moment, if
        there is one.
    members : mapping of datetime to pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.MEMBERS` at the same moments, or some of them.
    by : {"partition", "topic", "member"}, optional
        Only the rows over these.

    Returns
    -------
    pyarrow.RecordBatch
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


class _Segments:
    """The rows of a load table, split into segments that are compared within."""

    def __init__(self, table: pa.Table, *names: str) -> None:
        self.code = _codes(table, names)
        self.size = int(self.code.max(initial=-1)) + 1
        topic = (
            table.column("topic") if "topic_id" in names else pa.nulls(table.num_rows, pa.string())
        )
        about = {name: table.column(name) for name in (*names, "as_of")} | {
            "topic": topic,
            "code": self.code,
        }
        keys = (
            pa.table(about)
            .group_by(["code", *names])
            .aggregate([("as_of", "min"), ("topic", "max")])
        )
        keys = keys.sort_by("code")
        self.keys = {name: keys.column(name) for name in names}
        self.keys |= {"as_of": keys.column("as_of_min"), "topic": keys.column("topic_max")}

    def rows(self, table: pa.Table, over: str, measure: str) -> pa.Table:
        """Return one measure, one row per segment, as `sharelag.schemas.IMBALANCE`."""
        values = flat(table.column(measure)).to_numpy(zero_copy_only=False)
        figures = spread_columns(values, self.code, self.size)._asdict()
        columns = {
            "over": pa.repeat(over, self.size),
            "measure": pa.repeat(measure, self.size),
            **self.keys,
            **{name: pa.array(figure, from_pandas=True) for name, figure in figures.items()},
        }
        empty = pa.nulls(self.size)
        arrays = [columns.get(field.name, empty).cast(field.type) for field in schemas.IMBALANCE]
        return pa.Table.from_arrays(arrays, schema=schemas.IMBALANCE)


def _codes(table: pa.Table, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return a number, from 0, for each group or each topic of a group."""
    return np.asarray(keys(table, names).dictionary_encode().indices.to_numpy(), np.int64)
