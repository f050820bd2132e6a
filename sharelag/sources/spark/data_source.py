"""A topic as a Spark DataFrame, through our own client: no connector, no jar.

``spark.read.format("sharelag_kafka")`` has the columns and the options of Spark's own Kafka source:
one of ``subscribe``, ``subscribePattern`` or ``assign``; ``startingOffsets``, ``endingOffsets`` and
their ``...ByTimestamp`` forms, ``minPartitions``, ``failOnDataLoss``, and ``kafka.*`` for the
client. ``spark.readStream`` also has ``maxOffsetsPerTrigger`` and our own ``includeGaps``; see
`sharelag.sources.spark.data_source_stream`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from sharelag import schemas
from sharelag.errors import ConfigError, DataLossError, TopicMissingError
from sharelag.schemas.arrow import for_spark
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.spark.data_source_options import (
    EARLIEST,
    FORMAT,
    LATEST,
    Positions,
    ReadOptions,
    read_options,
)


def read_kafka(spark: SparkSession, config: ClientConfig, topic: str) -> DataFrame:
    """Read all records of a topic up to now; records pruned meanwhile are left out.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.RAW`.
    """
    register(spark)
    reader = spark.read.format(FORMAT).options(
        subscribe=topic, failOnDataLoss="false", **config.spark_options()
    )
    return reader.load()


def register(spark: SparkSession) -> None:
    """Register ``format("sharelag_kafka")`` with a session."""
    spark.dataSource.register(ShareLagKafka)


#: A row of ``includeGaps`` is a record, or a range of offsets that was pruned unread: then
#: ``offset`` is its first, ``gapEnd`` its end (exclusive), ``timestamp`` the time of detection, and
#: key and value are null.
RAW_AND_GAPS = schemas.RAW.append(pa.field("gapEnd", pa.int64()))


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The offsets that one Spark task reads."""

    topic: str
    partition: int
    first: int
    end: int


class ShareLagKafka(DataSource):
    """The data source; Spark creates one for each read."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of Spark's own Kafka source; ``includeGaps`` adds ``gapEnd``."""
        has_gaps = self.options.get("includeGaps", "false").lower() == "true"
        return schemas.spark_schema(RAW_AND_GAPS if has_gaps else schemas.RAW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return the reader of a batch query."""
        return _Reader(read_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader of a stream."""
        from sharelag.sources.spark.data_source_stream import StreamReader

        return StreamReader(read_options(self.options, stream=True))


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return split(plan(self.options), self.options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OffsetRange):
            return  # Spark's placeholder for no partitions: there is nothing to read
        span = {partition.partition: (partition.first, partition.end)}
        loss = self.options.fail_on_data_loss
        for batch in kafka.read_topic(self.options.config, partition.topic, span, loss):
            yield for_spark(batch, schemas.RAW)


def plan(options: ReadOptions) -> list[OffsetRange]:
    """Return the ranges to read, from one request to the cluster in the driver."""
    ranges = []
    for topic, there in logs(options).items():
        first = resolve(options, topic, there, options.starting, options.starting_at)
        end = resolve(options, topic, there, options.ending, options.ending_at)
        asked = [
            OffsetRange(topic, partition, first[partition], end[partition]) for partition in there
        ]
        ranges += [_in_log(options, one, there) for one in asked]
    return [one for one in ranges if one.end > one.first]


def logs(options: ReadOptions) -> dict[str, dict[int, tuple[int, int]]]:
    """Return current first and end offsets of every selected partition, by topic."""
    config = options.config
    topics = list(options.topics) or list(options.assigned)
    if options.pattern is not None:
        topics = [name for name in kafka.topic_names(config) if re.fullmatch(options.pattern, name)]
        if not topics:
            raise TopicMissingError(
                f"no topic matches subscribePattern {options.pattern!r}: check pattern and cluster"
            )
    _require_read(options, topics)
    found = {}
    for topic in topics:
        there = kafka.offset_ranges(config, topic)
        chosen = options.assigned.get(topic, list(there))
        if unknown := set(chosen) - there.keys():
            raise ConfigError(f"{topic} has no partition {min(unknown)}: it has 0 to {max(there)}")
        found[topic] = {partition: there[partition] for partition in sorted(chosen)}
    return found


def split(ranges: Sequence[OffsetRange], at_least: int) -> list[OffsetRange]:
    """Split long ranges into about ``at_least`` ranges of about equal size."""
    total = sum(one.end - one.first for one in ranges)
    pieces = []
    for one in ranges:
        size = one.end - one.first
        count = min(size, max(1, math.ceil(at_least * size / total)))
        cuts = [one.first + size * n // count for n in range(count + 1)]
        pieces += [OffsetRange(one.topic, one.partition, a, b) for a, b in pairwise(cuts)]
    return pieces


def resolve(
    options: ReadOptions,
    topic: str,
    there: Mapping[int, tuple[int, int]],
    positions: str | Positions,
    times: Positions | None,
) -> dict[int, int]:
    """Return the offset of every partition; a time overrides a position, as in Spark's source."""
    if times is not None:
        _require_exactly(topic, there, times)
        found = kafka.offsets_for_times(options.config, topic, times[topic])
        # Records written after the ends were fetched are not part of this query.
        return {p: min(offset, there[p][1]) for p, offset in found.items()}
    if isinstance(positions, str):
        return {partition: span[positions == "latest"] for partition, span in there.items()}
    _require_exactly(topic, there, positions)
    return {
        p: {EARLIEST: there[p][0], LATEST: there[p][1]}.get(n, n)
        for p, n in positions[topic].items()
    }


def _in_log(
    options: ReadOptions, one: OffsetRange, there: Mapping[int, tuple[int, int]]
) -> OffsetRange:
    """Cut a range to the log, if data loss is allowed."""
    first, end = there[one.partition]
    if options.fail_on_data_loss and not (first <= one.first <= end and first <= one.end <= end):
        raise DataLossError(
            f"{one.topic} partition {one.partition} has offsets {first} to {end} (exclusive), not "
            f"all of {one.first} to {one.end}: start from earliest and end at latest, or set "
            "failOnDataLoss to false to read what is there"
        )
    return OffsetRange(one.topic, one.partition, max(one.first, first), min(one.end, end))


def _require_read(options: ReadOptions, topics: Sequence[str]) -> None:
    """Reject offsets of topics that are not read: they are probably misspelled."""
    given = (options.starting, options.ending, options.starting_at, options.ending_at)
    named = {topic for positions in given if isinstance(positions, Mapping) for topic in positions}
    if stray := named - set(topics):
        raise ConfigError(
            f"offsets are given for topic {min(stray)!r}, which is not read: check its spelling"
        )


def _require_exactly(topic: str, there: Mapping[int, object], positions: Positions) -> None:
    named = positions.get(topic, {})
    if missing := there.keys() - named.keys():
        raise ConfigError(
            f"the offsets for {topic} lack partition {min(missing)}: give all partitions to read"
        )
    if stray := named.keys() - there.keys():
        raise ConfigError(
            f"the offsets for {topic} include partition {min(stray)}, which is not read: remove it"
        )
