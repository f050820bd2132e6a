"""The answers of either engine: from one process without a JVM, or from Spark.

`local` streams records through the kernels in this process: a terminal's quick look, which answers
before Spark has started. `spark` runs the pipeline, and is what notebooks and reports use. `auto`
counts the records first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import ClusterError, InputError
from sharelag.metrics.holders import with_holders
from sharelag.metrics.in_flight import with_measured
from sharelag.reading import ORDER, OVER, Reading, named
from sharelag.reading.values import Brief
from sharelag.replay.moment import Choice, Moment, parse_moment, parse_since
from sharelag.sources.files.text_pieces import are_many
from sharelag.sources.inputs import Input
from sharelag.tables.gaps import of_missing, of_rejected
from sharelag.tables.reasons import KAFKA_SOURCE
from sharelag.tables.words import counted, decode_command
from sharelag.workbench.broker_metrics import BrokerMetrics, measure_beside
from sharelag.workbench.requests import Requests

ENGINES = ("auto", "local", "spark")
#: From this many records on Spark's start-up is worth its price.
SPARK_FROM_RECORDS = 5_000_000
#: Up to this many records, this process answers long before Spark does.
FEW_RECORDS = 1_000_000


@dataclass(frozen=True)
class Answer:
    """A table, and what is not in it."""

    table: pa.Table
    rejected: int  # records that could not be decoded
    engine: str
    left_out: int = 0  # rows that were too many to be brought here
    now: datetime | None = None  # the moment, where it is known
    holders: pa.Table | None = None  # `HOLDERS`, where a log of requests was read
    generation: int | None = None  # as which records were tried
    repeated: int = 0  # records that repeat another one and were left out
    lacks: tuple[str, ...] = ()  # what is missing in it, where that is known, in sentences

    @classmethod
    def of(cls, read: Reading, table: pa.Table, left_out: int = 0) -> Answer:
        """A table of a reading."""
        counted, generation = read.counted, read.choice.generation
        return cls(
            table, counted.rejected, read.engine, left_out, generation=generation,
            repeated=counted.repeated, lacks=rejects_of(read),
        )  # fmt: skip


def choose(requested: str, source: Input) -> str:
    """Turn ``"auto"`` into the engine that suits the number of records; check any other name."""
    if requested not in ENGINES:
        raise InputError(f"unknown engine {requested!r}: choose one of {', '.join(ENGINES)}")
    if requested != "auto":
        return requested
    return "spark" if source.size() >= SPARK_FROM_RECORDS else "local"


def is_sooner_here(source: Input) -> bool:
    """Whether this process answers questions about an input sooner than Spark.

    Only where its records can be counted without reading them, and without Spark.
    """
    from sharelag.sources.inputs import RawInput

    if isinstance(source, RawInput) and source.only_spark_knows:
        return False
    return 0 < source.size() <= FEW_RECORDS


def read(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    over: timedelta = OVER,
    **quick: Any,
) -> Reading:
    """Begin a reading of an input; nothing is read before its first question.

    Parameters
    ----------
    source : Input
    engine : {"auto", "local", "spark"}
    as_of : datetime, mapping of state partition to offset, or None
    choice : Choice, optional
    over : timedelta
        The span before that moment which rates are of.
    **quick
        What the local engine should keep while it reads; see `sharelag.quick.QuickReading`.
    """
    if choose(engine, source) == "spark":
        from sharelag.pipeline.reading import SparkReading

        return SparkReading(source, as_of, choice, over)
    from sharelag.quick import QuickReading

    return QuickReading(source, as_of, choice, over, **quick)


def group_names(source: Input, generation: int | None = None) -> list[str]:
    """Return all share groups with state now, for messages; none of an input that needs Spark."""
    if choose("auto", source) == "spark":
        return []
    with reading(source, "local", None, Choice(generation=generation), history=False) as begun:
        return sorted(pc.unique(begun.table("windows").column("group_id")).to_pylist())


def without_records(source: Input, moment: Moment = None) -> str:
    """Return what it means that an input has no record of the state topic, in a sentence."""
    from sharelag.sources.inputs import RawInput
    from sharelag.sources.spark.frames import FrameInput

    if moment is not None:
        return "nothing was written in that time, or it has been pruned since"
    if isinstance(source, RawInput | FrameInput):
        return f"there are no share-group state records among the raw ones. {KAFKA_SOURCE}"
    return "there are no share-group state records: no share group has consumed anything"


def only_rejects(rejected: int, generation: int | None = None) -> str:
    """Return what it means that not one record could be decoded, in a sentence."""
    records, shows = counted(rejected, "record"), decode_command(generation)
    them = "it" if rejected == 1 else "them"
    instead = "" if generation is None else "; try without --generation"
    return f"{records} could not be decoded, and there are no others: {shows} shows {them}{instead}"


def other_groups(source: Input) -> dict[str, str]:
    """Return the types of a running cluster's groups that are not share groups, for messages."""
    from sharelag.sources.inputs import KafkaInput

    if not isinstance(source, KafkaInput):
        return {}
    from sharelag.sources.kafka.topics import consumer_groups

    try:
        return consumer_groups(source.config)
    except ClusterError:  # the message goes without it
        return {}


@contextmanager
def reading(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    over: timedelta = OVER,
    **quick: Any,
) -> Iterator[Reading]:
    """The same until the end of a ``with`` block."""
    begun = read(source, engine, as_of, choice, over, **quick)
    try:
        yield begun
    finally:
        begun.close()


def windows(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    requests: Requests | None = None,
) -> Answer:
    """The state of the chosen share partitions.

    Parameters
    ----------
    requests : Requests, optional
        A broker's log of requests, which tells who holds what.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.WINDOWS` with the topic's name in ``topic``, null where not
        known; with ``requests`` also ``notes``, empty without a log of the moment.
    """
    with reading(source, engine, as_of, choice, history=False) as begun:
        table = named(begun.table("windows"), begun.table("offsets"))
        now = holders = None
        if requests is not None:
            lag, now = begun.table("lag"), begun.now
            holders = requests.holders(lag, begun.table("windows"), now)
            table = with_holders(table, holders)
        answer = Answer.of(begun, begun.choice.of(table.sort_by(ORDER)))
        lacks = (*lacks_of(begun), *(requests.lacks if requests else ()))
        return replace(answer, now=now, holders=holders, lacks=lacks)


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
    with reading(source, engine, as_of, choice, history=False) as begun:
        answer = Answer.of(begun, begun.rollup(by) if by else begun.table("lag"))
        return replace(answer, lacks=lacks_of(begun))


def lag_beside(
    source: Input,
    requests: Requests | None = None,
    metrics: BrokerMetrics | None = None,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
) -> Answer:
    """The lag of the chosen share partitions, beside what brokers log or measure.

    Parameters
    ----------
    requests : Requests, optional
        A broker's log of requests: the notes say who holds what, where it covers the moment.
    metrics : BrokerMetrics, optional
        What brokers measure, as columns of `sharelag.schemas.MEASURED`.
    """
    with reading(source, engine, as_of, choice, history=False) as begun:
        found, now = begun.table("lag"), begun.now
        if requests is not None:
            found = with_holders(found, requests.holders(found, begun.table("windows"), now))
        if metrics is not None:
            found = with_measured(found, measure_beside(found, metrics, now, source))
        lacks = (*lacks_of(begun), *(requests.lacks if requests else ()))
        return replace(Answer.of(begun, found), now=now, lacks=lacks)


def brief(
    source: Input, engine: str = "auto", as_of: Moment = None, choice: Choice | None = None
) -> Answer:
    """The lag of the chosen share partitions and what Kafka computes it from, no other term.

    Many records of now are scanned for where share partitions stand, which needs no windows.

    Returns
    -------
    Answer
        ``table`` is `sharelag.metrics.lag.BRIEF`: columns of the table of `lag`.
    """
    with reading(source, engine, as_of, choice, history=False) as begun:
        found = begun.brief
        return Answer(
            found.table, found.rejected, begun.engine, generation=begun.choice.generation,
            repeated=found.repeated, lacks=lacks_of(begun, found),
        )  # fmt: skip


def rejects_of(begun: Reading, brief: Brief | None = None) -> tuple[str, ...]:
    """Say that records could not be decoded, where they are so many that any answer is partial.

    Parameters are those of `lacks_of`.
    """
    rejected = begun.counted.rejected if brief is None else brief.rejected
    records = begun.counted.records if brief is None else begun.source.size() - rejected
    # Rejects are counted whenever they were written, so those of an earlier moment are not known.
    has_many = begun.as_of is None and are_many(rejected, max(records, 0))
    return of_rejected(rejected, begun.choice.generation) if has_many else ()


def lacks_of(begun: Reading, brief: Brief | None = None) -> tuple[str, ...]:
    """Say what is missing: many records that could not be decoded, and what files lack.

    Parameters
    ----------
    begun : Reading
    brief : Brief, optional
        Where share partitions stand and are stored, where their windows were not replayed.
    """
    from sharelag.metrics.loads import count_stateless
    from sharelag.sources.inputs import PrintedInput, RawInput, SegmentsInput
    from sharelag.wire.placement import missing_in_words

    source, said = begun.source, rejects_of(begun, brief)
    # A cluster and a capture have all or raise an error; nobody has put these together as a whole.
    if not isinstance(source, PrintedInput | RawInput | SegmentsInput):
        return said
    known = begun.table("windows") if brief is None else brief.table
    stateless = count_stateless(begun.table("groups"), known)
    # A log directory says itself which partitions it has.
    elsewhere = (
        ""
        if isinstance(source, SegmentsInput)
        else missing_in_words(begun.table("windows") if brief is None else brief.places)
    )
    return (*said, *of_missing(begun.table("gaps").num_rows, stateless, elsewhere))


def history_of(begun: Reading, since: datetime | None = None, most: int | None = None) -> Answer:
    """The state of the chosen share partitions after each of their records, from a time on.

    Returns
    -------
    Answer
        ``table`` is `sharelag.schemas.HISTORY` with the topic's name in ``topic``, sorted by group,
        topic, partition and record; with ``most``, so many of the latest rows.
    """
    rows = begun.history(since, most)
    return Answer.of(begun, rows.table, rows.left_out)


def diff_of(begun: Reading, before: str | Moment) -> pa.Table:
    """What changed since an earlier moment, as `sharelag.schemas.DIFF`, sorted."""
    if isinstance(before, str):
        before = parse_since(before, lambda: begun.now, parse_moment)
    table = begun.diff(begun.then(before)).drop_columns("topic")
    ids = sorted(set(table.column("topic_id").to_pylist()))
    table = named(table, begun.source.offsets(ids)).select(schemas.DIFF.names)
    return begun.choice.of(table.sort_by(ORDER))
