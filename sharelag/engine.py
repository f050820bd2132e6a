"""Where does the work run? The same tables from one process without a JVM, or from Spark.

`local` streams Arrow batches through the kernels and keeps only what later records have not superseded: a
terminal's quick look. `spark` distributes the same kernels. `auto` counts the records first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow, rollup_arrow
from sharelag.replay.moment import Moment, of_groups, up_to
from sharelag.replay.state import latest, replay_arrow
from sharelag.schemas import Arrow
from sharelag.sources.inputs import Input
from sharelag.wire.decode import Decoded, decode_arrow, of_topic
from sharelag.wire.fields import STATE_TOPIC

ENGINES = ("auto", "local", "spark")
#: From this many records on Spark's start-up is worth its price.
SPARK_FROM_RECORDS = 5_000_000


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

    def of(self, table: Arrow, names: str = "topic") -> Arrow:
        """Only the rows of the chosen topics; where a name is not known, the topic's id is what can be chosen."""
        if not self.topics:
            return table
        columns = (table.column(name).to_pylist() for name in (names, "topic_id", "partition"))
        chosen = [self._has(name or topic_id, partition) for name, topic_id, partition in zip(*columns, strict=True)]
        return table.filter(pa.array(chosen, pa.bool_()))

    def _has(self, topic: str, partition: int) -> bool:
        partitions = self.topics.get(topic)
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
    table, rejected, chosen = _state(source, engine, as_of, choice)
    offsets = source.offsets(_topic_ids(table), as_of)
    position = pc.index_in(table.column("topic_id"), offsets.column("topic_id").combine_chunks())
    table = table.append_column("topic", offsets.column("topic").combine_chunks().take(position))
    order = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
    return Answer(choice.of(table.sort_by(order)), rejected, chosen)


def lag(
    source: Input, engine: str = "auto", as_of: Moment = None, choice: Choice | None = None, by: str | None = None
) -> Answer:
    """The lag of the chosen share partitions, or its sum by ``"group"`` or ``"topic"``.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.LAG`, or `ROLLUP` with ``by``, sorted.
    """
    choice = choice or Choice()
    state, rejected, chosen = _state(source, engine, as_of, choice)
    # The state has been read before the end offsets: the other way round the lag could seem negative. A row a
    # share partition is little, so what remains is done here on either engine.
    lag = lag_arrow(state, source.offsets(_topic_ids(state), as_of))
    table = choice.of(pa.Table.from_batches([lag]))
    return Answer(pa.Table.from_batches([rollup_arrow(table, by)]) if by else table, rejected, chosen)


def decoded(
    source: Input, topic: str = STATE_TOPIC, as_of: Moment = None, choice: Choice | None = None
) -> Iterator[Decoded]:
    """Decode a topic in this process, batch by batch, in the order of reading.

    The moment and the choice leave out records, never rejects: of those nobody knows whose they are. Topics are
    chosen by their ids, and among state records only.
    """
    choice = choice or Choice()
    for batch in source.batches(topic):
        records, rejects, skipped = decode_arrow(batch.filter(of_topic(batch, topic)), topic)
        records = of_groups(records, choice.groups)
        if topic == STATE_TOPIC:
            records = choice.of(up_to(records, as_of), names="topic_id")
        yield Decoded(records, rejects, skipped)


def _state(source: Input, engine: str, as_of: Moment, choice: Choice) -> tuple[pa.Table, int, str]:
    chosen = choose(engine, source)
    compute = _on_spark if chosen == "spark" else _locally
    return *compute(source, as_of, choice), chosen


def _topic_ids(table: pa.Table) -> list[str]:
    return sorted(pc.unique(table.column("topic_id")).to_pylist())


def _locally(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    rejected = 0

    def chosen() -> Iterator[pa.RecordBatch]:
        nonlocal rejected
        for records, rejects, _ in decoded(source, STATE_TOPIC, as_of, Choice(choice.groups)):
            rejected += rejects.num_rows
            yield records

    return pa.Table.from_batches([replay_arrow(latest(chosen(), schemas.RECORDS))]), rejected


def _on_spark(source: Input, as_of: Moment, choice: Choice) -> tuple[pa.Table, int]:
    from sharelag import pipeline
    from sharelag.sources.spark import session

    spark = session()
    rejected = spark.sparkContext.accumulator(0)
    raw = source.frame(spark, STATE_TOPIC)
    table = pipeline.windows_of_raw(raw, as_of, choice.groups, rejected).toArrow()
    # Spark's Arrow has microseconds and other names inside lists.
    return table.select(schemas.WINDOWS.names).cast(schemas.WINDOWS), int(rejected.value)
