"""Where does the work run? The same tables from one process without a JVM, or from Spark.

`local` streams Arrow batches through the kernels and keeps only what later records have not superseded: a
terminal's quick look. `spark` distributes the same kernels. `auto` counts the records first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow, rollup_arrow
from sharelag.replay.moment import Moment, up_to
from sharelag.replay.state import drop_superseded, replay_arrow
from sharelag.sources.inputs import Input
from sharelag.wire.decode import Decoded, decode_arrow, of_topic
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = ("auto", "local", "spark")
#: From this many records on Spark's start-up is worth its price.
SPARK_FROM_RECORDS = 5_000_000
#: How many decoded records the local engine gathers before it drops what is superseded among them.
_COMPACT_EVERY = 250_000


class Answer(NamedTuple):
    """A table, and what became of the records that are not in it."""

    table: pa.Table
    rejected: int  # records that could not be decoded
    engine: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Which share partitions are asked for; empty means all."""

    groups: frozenset[str] = frozenset()
    topics: dict[str, frozenset[int]] = field(default_factory=dict)  # no partitions: all of the topic

    def of(self, table: pa.Table) -> pa.Table:
        """Only the chosen rows of a table with ``group_id``, ``topic`` and ``partition``."""
        if self.groups:
            table = table.filter(pc.is_in(table.column("group_id"), pa.array(sorted(self.groups))))
        if self.topics:
            names, numbers = table.column("topic").to_pylist(), table.column("partition").to_pylist()
            table = table.filter(pa.array([self._has(*pair) for pair in zip(names, numbers, strict=True)], pa.bool_()))
        return table

    def _has(self, topic: str | None, partition: int) -> bool:
        partitions = self.topics.get(topic or "")
        return partitions is not None and (not partitions or partition in partitions)


def choose(asked: str, source: Input) -> str:
    """Turn ``"auto"`` into the engine that suits the number of records; check any other name."""
    if asked not in ENGINES:
        raise InputError(f"{asked!r} is no engine: choose one of {', '.join(ENGINES)}")
    if asked != "auto":
        return asked
    return "spark" if source.size() >= SPARK_FROM_RECORDS else "local"


def windows(source: Input, engine: str = "auto", as_of: Moment = None, choice: Choice | None = None) -> Answer:
    """The state of the chosen share partitions.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.WINDOWS` with the topic's name in ``topic``, null where not known.
    """
    choice = choice or Choice()
    chosen = choose(engine, source)
    if chosen == "spark":
        table, rejected = _spark_windows(source, as_of, choice)
    else:
        table, rejected = _local_windows(source, as_of, choice)
    names = source.offsets(_topic_ids(table), as_of).select(["topic_id", "topic"]).group_by(["topic_id", "topic"])
    names = names.aggregate([])
    position = pc.index_in(table.column("topic_id"), names.column("topic_id").combine_chunks())
    table = table.append_column("topic", names.column("topic").combine_chunks().take(position))
    return Answer(choice.of(table), rejected, chosen)


def lag(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    by: str | None = None,
) -> Answer:
    """The lag of the chosen share partitions, or its sum by ``"group"`` or ``"topic"``.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.LAG`, or `ROLLUP` with ``by``, sorted.
    """
    choice = choice or Choice()
    chosen = choose(engine, source)
    if chosen == "spark":
        table, rejected = _spark_lag(source, as_of, choice)
    else:
        state, rejected = _local_windows(source, as_of, choice)
        # The state is read before the end offsets: the other way round the lag could seem negative.
        table = pa.Table.from_batches([lag_arrow(state, source.offsets(_topic_ids(state), as_of))])
    table = choice.of(table)
    return Answer(pa.Table.from_batches([rollup_arrow(table, by)]) if by else table, rejected, chosen)


def decoded(source: Input, topic: str = STATE_TOPIC) -> Iterator[Decoded]:
    """Decode all records of a topic in this process, batch by batch, in the order they are read."""
    for batch in source.batches(topic):
        yield decode_arrow(batch.filter(of_topic(batch, topic)), topic)


def _topic_ids(table: pa.Table) -> list[str]:
    return sorted(pc.unique(table.column("topic_id")).to_pylist())


# ---- in this process ----------------------------------------------------------------------------------


def _local_windows(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    kept = schemas.RECORDS.empty_table()
    gathered: list[pa.RecordBatch] = []
    rejected = 0
    for records, rejects, _ in decoded(source):
        rejected += rejects.num_rows
        chosen = up_to(records, as_of)
        if choice.groups:
            chosen = chosen.filter(pc.is_in(chosen.column("group_id"), pa.array(sorted(choice.groups))))
        gathered.append(drop_superseded(chosen))
        if sum(batch.num_rows for batch in gathered) > _COMPACT_EVERY:
            kept, gathered = _latest(kept, gathered), []
    return pa.Table.from_batches([replay_arrow(_latest(kept, gathered))]), rejected


def _latest(kept: pa.Table, gathered: list[pa.RecordBatch]) -> pa.Table:
    together = pa.concat_tables([kept, pa.Table.from_batches(gathered, schemas.RECORDS)])
    return pa.Table.from_batches([drop_superseded(together)])


# ---- on Spark -----------------------------------------------------------------------------------------


def _spark_windows(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    frame, rejects = _spark_plan(source, as_of, choice)
    table = frame.toArrow()
    return _cast(
        table.sort_by([(n, "ascending") for n in ("group_id", "topic_id", "partition")]), schemas.WINDOWS
    ), rejects()


def _spark_lag(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    from sharelag import pipeline

    frame, rejects = _spark_plan(source, as_of, choice)
    state = frame.cache()  # read once, and before the end offsets
    ids = [row.topic_id for row in state.select("topic_id").distinct().collect()]
    offsets = frame.sparkSession.createDataFrame(source.offsets(sorted(ids), as_of))
    table = pipeline.lag(state, offsets).toArrow()
    rejected = rejects()
    state.unpersist()
    keys = ("group_id", "topic", "topic_id", "partition")
    return _cast(table.sort_by([(name, "ascending") for name in keys]), schemas.LAG), rejected


def _spark_plan(source: Input, as_of: Moment, choice: Choice) -> tuple[DataFrame, Any]:
    """The windows DataFrame, and a function that tells the number of rejects once it has been computed."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    from sharelag import pipeline

    seen = Observation()
    rows = pipeline.decoded_rows(source.frame(_session(), STATE_TOPIC))
    counted = rows.observe(seen, F.count_if(F.col("reason").isNotNull()).alias("rejected"))
    records = pipeline.split(counted).records
    if choice.groups:
        records = records.where(F.col("group_id").isin(sorted(choice.groups)))
    return pipeline.windows(records, as_of), lambda: int(seen.get["rejected"])


def _session() -> SparkSession:
    from sharelag.sources.spark import session

    return session()


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Spark's Arrow, with its microseconds and other names inside lists, as our own schema."""
    return table.select(schema.names).cast(schema)
