"""Answers on either engine: from this process without a JVM, or from Spark.

`local` streams records through the kernels in this process: a terminal's quick look, which answers
before Spark has started. `spark` runs the pipeline, and is what notebooks and reports use. `auto`
counts the records first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.engine import OVER, Reading
from sharelag.errors import NO_STATE, RIGHTS, ClusterError, InputError, list_names, unknown_group
from sharelag.inputs import Input
from sharelag.inputs.contract import IN_PARTS
from sharelag.metrics.evidence import Evidence
from sharelag.model import iso
from sharelag.replay.moment import Choice, Moment
from sharelag.tables import gaps
from sharelag.tables.words import pluralize

ENGINES = ("auto", "local", "spark")
#: From this many records on Spark's start-up is worth its price.
SPARK_FROM_RECORDS = 5_000_000
#: Up to this many records, this process answers long before Spark does.
FEW_RECORDS = 1_000_000


def choose(requested: str, source: Input) -> str:
    """Turn ``"auto"`` into the engine that suits the number of records; check any other name."""
    if requested not in ENGINES:
        raise InputError(f"unknown engine {requested!r}: choose one of {', '.join(ENGINES)}")
    if requested != "auto":
        return requested
    return "spark" if source.size() >= SPARK_FROM_RECORDS else "local"


def is_faster_here(source: Input) -> bool:
    """Return whether this process answers sooner than Spark.

    It does only if records can be counted without reading them, and without Spark.
    """
    from sharelag.inputs import RawInput

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
    """Return a reading of an input, to be closed or used in a ``with`` block.

    Nothing is read before the first question. ``quick`` says what the local engine stores while
    reading; see `sharelag.engine.local.QuickReading`.
    """
    if choose(engine, source) == "spark":
        from sharelag.engine.spark.reading import SparkReading

        return SparkReading(source, as_of, choice, over)
    from sharelag.engine.local import QuickReading

    return QuickReading(source, as_of, choice, over, **quick)


def group_names(source: Input, generation: int | None = None) -> list[str]:
    """Return all share groups with state, for messages; none of an input that needs Spark."""
    if choose("auto", source) == "spark":
        return []
    with read(source, "local", None, Choice(generation=generation), history=False) as reading:
        return sorted(pc.unique(reading.table("windows").column("group_id")).to_pylist())


def past_by_records(source: Input, lag: pa.Table) -> tuple[str, ...]:
    """Return notes about topics of an input whose past ends rest on producers' times."""
    topics = sorted(set(lag.column("topic").drop_null().to_pylist()))
    return gaps.of_record_times(source.timed_by_producers(topics)) if topics else ()


def without_records(source: Input, moment: Moment = None) -> str:
    """Return a sentence about an input without any record of the state topic."""
    from sharelag.inputs import RawInput, TableInput
    from sharelag.inputs.files.archive import ArchiveInput
    from sharelag.inputs.spark.frames import FrameInput

    if moment is not None:
        return "nothing was written in that time, or it has been deleted or pruned since"
    if isinstance(source, RawInput | TableInput | FrameInput):
        return f"no share group has state in the raw records. {gaps.KAFKA_SOURCE}"
    late = ", or capture --follow has not archived it yet"
    return NO_STATE + (late if isinstance(source, ArchiveInput) else "")


def without_group(
    group: str,
    choice: Choice,
    known: Collection[str],
    where: str = "",
    kinds: Mapping[str, str] | None = None,
) -> str:
    """Return a sentence about a share group without any selected share partition.

    ``known`` are all groups with state at the end of the input; see `sharelag.errors.unknown_group`
    for ``where`` and ``kinds``.
    """
    topics = choice.topic_names()
    where = f"in {list_names(topics)}" if topics else where
    if group not in known:
        return unknown_group(group, known, where, kinds)
    if topics:
        return unknown_group(group, [], where) + RIGHTS
    return f"share group {group!r} had no state at that moment: choose a later one"


def only_rejects(rejected: int, generation: int | None = None) -> str:
    """Return a sentence about an input of which no record could be decoded."""
    records, shows = pluralize(rejected, "record"), gaps.decode_command(generation)
    them = "it" if rejected == 1 else "them"
    instead = "" if generation is None else "; try without --generation"
    return f"{records} could not be decoded, and there are no others: {shows} shows {them}{instead}"


def other_groups(source: Input) -> dict[str, str]:
    """Return the types of a running cluster's groups that are not share groups, for messages."""
    from sharelag.inputs import KafkaInput

    if not isinstance(source, KafkaInput):
        return {}
    from sharelag.inputs.kafka.topics import consumer_groups

    try:
        return consumer_groups(source.config)
    except ClusterError:  # the message does without
        return {}


def rejects_of(reading: Reading) -> tuple[str, ...]:
    """Return notes about rejects, if there are so many that any answer is partial."""
    counts = reading.record_counts
    # Rejects are counted regardless of write time, so those of an earlier moment are unknown.
    has_many = reading.as_of is None and gaps.are_many(counts.rejected, counts.records)
    return gaps.of_rejected(counts.rejected, reading.choice.generation) if has_many else ()


def group_rejects_of(reading: Reading) -> tuple[str, ...]:
    """Return notes about rejects among the groups' own records."""
    counts = reading.group_record_counts
    has_many = reading.as_of is None and gaps.are_many(counts.rejected, counts.records)
    return gaps.of_rejected_groups(counts.rejected) if has_many else ()


def lacks_of(reading: Reading, of_groups: bool, of_times: bool) -> tuple[str, ...]:
    """Return what is missing: many undecodable records, and other gaps.

    ``of_groups`` includes the groups' own records, which answers about members need, and
    ``of_times`` when records were written.
    """
    from sharelag.metrics.imbalance import count_stateless
    from sharelag.wire.placement import missing_in_words

    lacks, of = (*rejects_of(reading), *_note_unseen(reading)), reading.source.may_lack
    if of_times:
        lacks += gaps.of_times(reading.table("windows"))
    if of_groups:
        lacks += group_rejects_of(reading)
    if not of:
        return lacks
    known = reading.table("states")
    stateless = count_stateless(reading.table("groups"), known) if "groups" in of else 0
    elsewhere = missing_in_words(known) if "partitions" in of else ""
    return (*lacks, *gaps.of_missing(reading.table("gaps").num_rows, stateless, elsewhere))


def _note_unseen(reading: Reading) -> tuple[str, ...]:
    """Return a note if the moment is later than all data of the input, or than now."""
    from sharelag.inputs import KafkaInput

    moment, is_live = reading.as_of, isinstance(reading.source, KafkaInput)
    ends = datetime.now(UTC) if is_live else reading.source.as_of()
    is_told = ends is not None or reading.source.may_lack == IN_PARTS
    if not (isinstance(moment, datetime) and is_told):
        return ()
    known = max(filter(None, (ends, reading.record_counts.last)), default=moment)
    if known >= moment:
        return ()
    last = f"{iso(known)}, the time of the last end offset or record that was given"
    return (f"what happened from {last}, to {iso(moment)}",)


def gather(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    over: timedelta = OVER,
    brief: bool = False,
) -> Evidence:
    """Return everything that is known of some share groups, or only their lag with ``brief``.

    Other parameters as for `read`.
    """
    with read(source, engine, as_of, choice, over, history=not brief) as reading:
        return reading.lag_evidence if brief else reading.evidence
