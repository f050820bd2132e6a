"""What is computed from states and offsets: lag, imbalance, the health of the state topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.arrow import flat, for_spark, one_batch
from sharelag.metrics.health import COUNTS, gather, health_arrow
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, ROLLUP_KEYS, ROLLUP_SUMS, lag_columns
from sharelag.metrics.loads import NEEDED
from sharelag.metrics.placement import Partitions
from sharelag.pipeline.records import map_arrow


def lag(windows: DataFrame, offsets: DataFrame) -> DataFrame:
    """The lag of every share partition, term by term.

    Parameters
    ----------
    windows : pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, read before the offsets.
    offsets : pyspark.sql.DataFrame
        `sharelag.schemas.OFFSETS`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.LAG`; see `sharelag.metrics.lag` for what the terms mean.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    ends = offsets.select(OFFSET_COLUMNS).dropDuplicates(OFFSET_KEYS)
    joined = windows.select(schemas.WINDOWS.names).drop("batches").join(ends, OFFSET_KEYS, "left")
    return map_arrow(joined, lambda batch: [lag_columns(batch)], schemas.LAG)


def rollup(lag: DataFrame, by: str) -> DataFrame:
    """Sum a lag table up by ``"group"`` or ``"topic"``; see `sharelag.metrics.lag.rollup_arrow`."""
    counted = lag.withColumn("unknown_lags", F.col("lag").isNull().cast("long"))
    sums = [getattr(F, how)(F.col(column)).alias(name) for name, column, how in ROLLUP_SUMS]
    rolled = counted.groupBy(*ROLLUP_KEYS[by]).agg(F.count("partition").alias("partitions"), *sums)
    wanted = schemas.spark_schema(schemas.ROLLUP).fields
    columns = [
        F.col(f.name) if f.name in rolled.columns else F.lit(None).cast(f.dataType).alias(f.name) for f in wanted
    ]
    return rolled.select(columns)


def imbalance(
    lag: DataFrame,
    members: DataFrame | None = None,
    groups: DataFrame | None = None,
    observed: DataFrame | None = None,
    past: DataFrame | None = None,
    by: str | None = None,
) -> DataFrame:
    """How unevenly the load of each group is spread.

    Parameters
    ----------
    lag, members, groups, observed, past : pyspark.sql.DataFrame
        As for `sharelag.metrics.imbalance.imbalance_arrow`; all but the first are optional.
    by : {"partition", "topic", "member"}, optional
        Only the rows over these.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.IMBALANCE`; all tables of a group meet in one task.
    """
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed, "past": past}
    frames = {name: frame for name, frame in given.items() if frame is not None}
    for name, frame in frames.items():
        schemas.require(frame, NEEDED[name], name)
    frames = {name: frame.select(NEEDED[name].names) for name, frame in frames.items()}
    if past is not None:  # offsets are of no group, so they go with the lag
        then = frames.pop("past").dropDuplicates(OFFSET_KEYS).withColumnRenamed("end_offset", "past_end_offset")
        frames["lag"] = frames["lag"].join(then, OFFSET_KEYS, "left")

    names, has_past = list(frames), past is not None  # no DataFrame may travel to a task

    def spread_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = list(batches)
        if gathered:
            tables = {name: _of_kind(gathered, name) for name in names}
            if has_past:
                then = tables["lag"].select([*OFFSET_KEYS, "past_end_offset"])
                tables["past"] = then.rename_columns([*OFFSET_KEYS, "end_offset"])
            tables = {name: table.select(NEEDED[name].names).cast(NEEDED[name]) for name, table in tables.items()}
            yield for_spark(imbalance_arrow(**tables, by=by), schemas.IMBALANCE)

    # One column a table, so that rows of all of them can travel together.
    tagged = [frame.select("group_id", F.struct("*").alias(name)) for name, frame in frames.items()]
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    return union.repartition("group_id").mapInArrow(spread_task, schemas.spark_schema(schemas.IMBALANCE))


def health(raw: DataFrame, partitions: Partitions = None, history: DataFrame | None = None) -> DataFrame:
    """The health of every partition of the state topic, counted in the tasks that read it.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame
        `sharelag.schemas.RAW`, each record once.
    partitions : int, mapping of topic to int, or None
        How many partitions the state topic has; without it nobody knows which records are misplaced.
    history : pyspark.sql.DataFrame, optional
        `sharelag.schemas.HISTORY` of the same records, for the bytes that a finished offset costs.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HEALTH`; see `sharelag.metrics.health` for what the figures mean.
    """
    schemas.require(raw, schemas.RAW, "raw records")

    def count_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(one_batch(gather(batches)), COUNTS)

    def health_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = [batch.cast(COUNTS) for batch in batches]
        yield for_spark(health_arrow(pa.Table.from_batches(counts, COUNTS), partitions), schemas.HEALTH)

    counted = raw.select(schemas.RAW.names).mapInArrow(count_task, schemas.spark_schema(COUNTS))
    if history is not None:
        places = [F.col("record_topic").alias("topic"), F.col("record_partition").alias("partition")]
        finished = history.groupBy(*places).agg(F.sum("finished").alias("finished"))
        counted = counted.unionByName(finished, allowMissingColumns=True)
    # A row a share partition and task, so that one task judges each partition of the state topic.
    by_partition = counted.repartition("topic", "partition")
    return by_partition.mapInArrow(health_task, schemas.spark_schema(schemas.HEALTH))


def _of_kind(batches: list[pa.RecordBatch], name: str) -> pa.Table:
    column = flat(pa.Table.from_batches(batches).column(name))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column.filter(column.is_valid()))])
