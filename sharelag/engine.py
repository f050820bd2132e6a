"""Where does the work run? The same tables from one process without a JVM, or from Spark.

`local` streams Arrow batches through the kernels and keeps only what later records have not superseded: a
terminal's quick look. `spark` distributes the same kernels. `auto` counts the records first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.arrow import as_table, one_batch
from sharelag.errors import InputError
from sharelag.metrics.diff import diff_arrow
from sharelag.metrics.health import COUNTS, health_arrow, health_counts
from sharelag.metrics.lag import lag_arrow, rollup_arrow
from sharelag.metrics.observed import observe
from sharelag.replay.history import HISTORY_KEY, missing_offsets, next_history
from sharelag.replay.moment import Moment, of_groups, up_to
from sharelag.replay.state import latest, replay_arrow
from sharelag.schemas import Arrow
from sharelag.sources.inputs import Input
from sharelag.wire.decode import Decoded, decode_arrow, of_topic
from sharelag.wire.fields import STATE_TOPIC

ENGINES = ("auto", "local", "spark")
#: From this many records on Spark's start-up is worth its price.
SPARK_FROM_RECORDS = 5_000_000


#: Records that are replayed in one step, at least.
_STEP = 250_000


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
        chosen = [self.has(name or topic_id, partition) for name, topic_id, partition in zip(*columns, strict=True)]
        return table.filter(pa.array(chosen, pa.bool_()))

    def has(self, topic: str, partition: int) -> bool:
        """Whether a partition of a topic is chosen."""
        partitions = self.topics.get(topic)
        return not self.topics or (partitions is not None and (not partitions or partition in partitions))


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
    table, rejected, chosen = state_of(source, engine, as_of, choice)
    table = named(table, source.offsets(_topic_ids(table), as_of))
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
    state, rejected, chosen = state_of(source, engine, as_of, choice)
    # The state has been read before the end offsets: the other way round the lag could seem negative. A row a
    # share partition is little, so what remains is done here on either engine.
    lag = lag_arrow(state, source.offsets(_topic_ids(state), as_of))
    table = choice.of(pa.Table.from_batches([lag]))
    return Answer(pa.Table.from_batches([rollup_arrow(table, by)]) if by else table, rejected, chosen)


def history(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    since: datetime | None = None,
) -> Answer:
    """The state of the chosen share partitions after each of their records, from a time on.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.HISTORY` with the topic's name in ``topic``, sorted by group, topic, partition
        and record.
    """
    choice = choice or Choice()
    with reading(source, engine, as_of, choice) as past:
        table = past.history()
        if since is not None:
            table = table.filter(pc.greater_equal(table.column("record_timestamp"), pa.scalar(since)))
        table = named(table, source.offsets(_topic_ids(table), as_of))
        order = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition", "record_offset")]
        return Answer(choice.of(table.sort_by(order)), past.rejected, past.engine)


def diff(
    source: Input, before: Moment, engine: str = "auto", as_of: Moment = None, choice: Choice | None = None
) -> Answer:
    """What changed in the chosen share partitions between two moments.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.DIFF`, sorted.
    """
    choice = choice or Choice()
    old, rejected, chosen = state_of(source, engine, before, choice)
    new, *_ = state_of(source, engine, as_of, choice)
    table = diff_arrow(old, new).drop_columns("topic")
    table = named(table, source.offsets(_topic_ids(table))).select(schemas.DIFF.names)
    order = [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
    return Answer(choice.of(table.sort_by(order)), rejected, chosen)


@dataclass(frozen=True)
class Past:
    """What one reading of the state topic tells of the chosen groups."""

    windows: pa.Table  # sharelag.schemas.WINDOWS
    gaps: pa.Table  # sharelag.schemas.GAPS
    first: datetime | None  # when the first of these records was written
    last: datetime | None
    rejected: int
    engine: str
    history: Callable[[], pa.Table]  # sharelag.schemas.HISTORY
    observe: Callable[[datetime, timedelta], pa.Table]  # sharelag.schemas.OBSERVED
    health: Callable[[int | None], pa.Table]  # sharelag.schemas.HEALTH, given how many state partitions there are


@contextmanager
def reading(source: Input, engine: str, as_of: Moment, choice: Choice, with_health: bool = False) -> Iterator[Past]:
    """Read the state topic once, and keep what more can be asked of it until the end of the ``with`` block.

    The health of the topic only ``with_health``: it takes another decoding of every record.
    """
    read = _past_on_spark if choose(engine, source) == "spark" else _past_locally
    with read(source, as_of, choice, with_health) as past:
        yield past


def named(table: pa.Table, offsets: pa.Table) -> pa.Table:
    """Put the topic's name beside its id, null where it is not known."""
    position = pc.index_in(table.column("topic_id"), offsets.column("topic_id").combine_chunks())
    return table.append_column("topic", offsets.column("topic").combine_chunks().take(position))


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


def state_of(source: Input, engine: str, as_of: Moment, choice: Choice) -> tuple[pa.Table, int, str]:
    """The windows of the chosen groups, how many records could not be decoded, and the engine that read them."""
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


@contextmanager
def _past_locally(source: Input, as_of: Moment, choice: Choice, with_health: bool) -> Iterator[Past]:
    rejected, counts, steps = 0, [COUNTS.empty_table()], [pa.RecordBatch.from_pylist([], schema=schemas.HISTORY)]
    gaps, ends, known = schemas.GAPS.empty_table(), None, None
    fresh: list[pa.RecordBatch] = []
    for batch in source.batches(STATE_TOPIC):
        raw = batch.filter(of_topic(batch, STATE_TOPIC))
        places = as_table(raw).select(["topic", "partition", "offset"])
        found, ends = _followed(ends, places)
        gaps = pa.concat_tables([gaps, found])
        if with_health:
            counts.append(health_counts(raw))
        records, rejects, _ = decode_arrow(raw)
        rejected += rejects.num_rows
        fresh.append(up_to(of_groups(records, choice.groups), as_of))
        # Each step replays what is known, too: it has to bring at least as much that is new.
        if sum(rows.num_rows for rows in fresh) > max(_STEP, known.num_rows if known is not None else 0):
            step, known = next_history(known, one_batch(pa.Table.from_batches(fresh)), gaps)
            steps.append(step)
            fresh = []
    step, known = next_history(known, one_batch(pa.Table.from_batches(fresh, schemas.RECORDS)), gaps)
    history = pa.Table.from_batches([*steps, step]).sort_by([(name, "ascending") for name in HISTORY_KEY])
    span = pc.min_max(history.column("record_timestamp")).as_py()

    def health(partitions: int | None) -> pa.Table:
        return pa.Table.from_batches([health_arrow(pa.concat_tables(counts), partitions, history)])

    yield Past(
        pa.Table.from_batches([replay_arrow(known)]),
        gaps,
        span["min"],
        span["max"],
        rejected,
        "local",
        lambda: history,
        lambda end, over: pa.Table.from_batches([observe(history, end, over)]),
        health if with_health else _not_counted,
    )


def _not_counted(_: int | None) -> pa.Table:
    raise ValueError("the health was not asked for when the reading began: reading(..., with_health=True)")


def _followed(ends: pa.Table | None, places: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The gaps between what was read before and a batch, and where each partition ends now.

    Raises
    ------
    InputError
        When records come that should have come before.
    """
    places = places if ends is None else pa.concat_tables([ends, places])
    spans = places.group_by(["topic", "partition"], use_threads=False).aggregate(
        [("offset", "first"), ("offset", "min")]
    )
    if pc.any(pc.less(spans.column("offset_min"), spans.column("offset_first"))).as_py():
        raise InputError(
            "the records of a state partition are not in the order of its offsets (several files, or some twice?): "
            "use --engine spark, which sorts them"
        )
    last = places.group_by(["topic", "partition"]).aggregate([("offset", "max")])
    return missing_offsets(places), last.rename_columns(places.column_names)


@contextmanager
def _past_on_spark(source: Input, as_of: Moment, choice: Choice, with_health: bool) -> Iterator[Past]:
    from sharelag import pipeline
    from sharelag.sources.spark import session

    spark = session()
    rejected = spark.sparkContext.accumulator(0)
    # Asked several times: of a cluster, each time would be another moment.
    raw = source.frame(spark, STATE_TOPIC).select(schemas.RAW.names).persist()
    try:
        gaps = pipeline.missing_offsets(raw).toArrow().cast(schemas.GAPS)
        windows = pipeline.windows_of_raw(raw, as_of, choice.groups, rejected).toArrow().cast(schemas.WINDOWS)
        records = pipeline.chosen(pipeline.decode(raw).records, as_of, choice.groups)
        history = pipeline.history(records, gaps)
        span = records.agg({"timestamp": "min"}).toArrow().column(0).cast(schemas.TIMESTAMP)
        last = pc.max(windows.column("record_timestamp")).as_py()

        def health(partitions: int | None) -> pa.Table:
            return pipeline.health(raw, partitions, history).toArrow().cast(schemas.HEALTH)

        yield Past(
            windows,
            gaps,
            span[0].as_py(),
            last,
            int(rejected.value),
            "spark",
            lambda: history.toArrow().cast(schemas.HISTORY),
            lambda end, over: pipeline.observed(history, end, over).toArrow().cast(schemas.OBSERVED),
            health if with_health else _not_counted,
        )
    finally:
        raw.unpersist()
