"""A topic as a Spark DataFrame, through our own client: no connector, no jar.

``spark.read.format("sharelag_kafka")`` has the columns and the options of Spark's own Kafka source: one of
``subscribe``, ``subscribePattern`` or ``assign``; ``startingOffsets``, ``endingOffsets`` and their
``...ByTimestamp`` forms, ``minPartitions``, ``failOnDataLoss``, and ``kafka.*`` for the client.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sharelag import schemas
from sharelag.errors import ConfigError, DataLossError
from sharelag.sources import kafka
from sharelag.sources.config import ClientConfig, from_spark_options

FORMAT = "sharelag_kafka"
EARLIEST, LATEST = -2, -1

_OPTIONS = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "endingOffsets",
        "startingOffsetsByTimestamp",
        "endingOffsetsByTimestamp",
        "minPartitions",
        "failOnDataLoss",
    )
}

#: Topic -> partition -> an offset, `EARLIEST` or `LATEST`.
Positions = Mapping[str, Mapping[int, int]]


def read_kafka(spark: SparkSession, config: ClientConfig, topic: str) -> DataFrame:
    """Read all that a topic holds now; what is pruned meanwhile is left out.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.RAW`.
    """
    register(spark)
    options = {f"kafka.{name}": str(value) for name, value in config.librdkafka().items()}
    reader = spark.read.format(FORMAT).options(subscribe=topic, failOnDataLoss="false", **options)
    return reader.load()


def register(spark: SparkSession) -> None:
    """Make ``format("sharelag_kafka")`` known to a session."""
    spark.dataSource.register(ShareLagKafka)


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """What one Spark task reads."""

    topic: str
    partition: int
    first: int
    end: int


class ShareLagKafka(DataSource):
    """The source; Spark makes one for each read."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(...)``."""
        return FORMAT

    def schema(self) -> StructType:
        """Columns and types of Spark's own Kafka source."""
        return schemas.spark_schema(schemas.RAW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Make the reader of one batch query."""
        return _Reader(read_options(self.options))


@dataclass(frozen=True)
class ReadOptions:
    """A query's options, checked."""

    config: ClientConfig
    topics: Sequence[str]
    pattern: str | None
    assigned: Mapping[str, Sequence[int]]
    starting: str | Positions
    ending: str | Positions
    starting_at: Mapping[str, Mapping[int, int]] | None  # milliseconds
    ending_at: Mapping[str, Mapping[int, int]] | None
    min_partitions: int
    fail_on_data_loss: bool


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Check a query's options; Spark hands their names over in lower case.

    Raises
    ------
    ConfigError
        When an option is unknown, malformed, or contradicts another.
    """
    given = {_OPTIONS.get(name.lower(), name): value for name, value in options.items()}
    clients = {name: value for name, value in given.items() if name.lower().startswith("kafka.")}
    for name in given.keys() - clients.keys() - set(_OPTIONS.values()):
        raise ConfigError(f"the option {name!r} is unknown to {FORMAT}: it has {', '.join(_OPTIONS.values())}, kafka.*")
    which = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if len(which) != 1:
        raise ConfigError(f"give one of subscribe, subscribePattern and assign, not {' and '.join(which) or 'none'}")
    return ReadOptions(
        config=from_spark_options(clients),
        topics=[name.strip() for name in given.get("subscribe", "").split(",") if name.strip()],
        pattern=given.get("subscribePattern"),
        assigned=_json(given, "assign") or {},
        starting=_positions(given, "startingOffsets", "earliest"),
        ending=_positions(given, "endingOffsets", "latest"),
        starting_at=_by_partition(_json(given, "startingOffsetsByTimestamp")),
        ending_at=_by_partition(_json(given, "endingOffsetsByTimestamp")),
        min_partitions=int(given.get("minPartitions", "0")),
        fail_on_data_loss=given.get("failOnDataLoss", "true").lower() == "true",
    )


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return split(plan(self.options), self.options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        one = partition
        assert isinstance(one, OffsetRange)  # noqa: S101  (Spark hands back what `partitions` made)
        loss = self.options.fail_on_data_loss
        for batch in kafka.read_topic(self.options.config, one.topic, {one.partition: (one.first, one.end)}, loss):
            yield batch.set_column(5, "timestamp", batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")))


def plan(options: ReadOptions) -> list[OffsetRange]:
    """What is to be read, asked of the cluster once, in the driver."""
    config = options.config
    topics = list(options.topics) or list(options.assigned)
    if options.pattern is not None:
        topics = [name for name in kafka.topic_names(config) if re.fullmatch(options.pattern, name)]
    ranges = []
    for topic in topics:
        there = kafka.offset_ranges(config, topic)
        chosen = options.assigned.get(topic, list(there))
        first = _resolve(options, topic, there, options.starting, options.starting_at)
        end = _resolve(options, topic, there, options.ending, options.ending_at)
        for partition in chosen:
            if partition not in there:
                raise ConfigError(f"{topic} has no partition {partition}: it has 0 to {max(there)}")
            begin = first[partition]
            if begin < there[partition][0] and options.fail_on_data_loss:
                raise DataLossError(
                    f"{topic} partition {partition} begins at {there[partition][0]}, {begin} is gone: start from "
                    "earliest, or set failOnDataLoss to false to go on without what is gone"
                )
            ranges.append(OffsetRange(topic, partition, max(begin, there[partition][0]), end[partition]))
    return [one for one in ranges if one.end > one.first]


def split(ranges: Sequence[OffsetRange], at_least: int) -> list[OffsetRange]:
    """Cut long ranges so that there are about ``at_least`` of them, of about equal size."""
    total = sum(one.end - one.first for one in ranges)
    pieces = []
    for one in ranges:
        size = one.end - one.first
        count = min(size, max(1, math.ceil(at_least * size / total)))
        cuts = [one.first + size * n // count for n in range(count + 1)]
        pieces += [OffsetRange(one.topic, one.partition, a, b) for a, b in pairwise(cuts)]
    return pieces


def _resolve(
    options: ReadOptions,
    topic: str,
    there: Mapping[int, tuple[int, int]],
    positions: str | Positions,
    times: Mapping[str, Mapping[int, int]] | None,
) -> dict[int, int]:
    """The offset for every partition; a time wins over a position, as in Spark's own source."""
    if times is not None and topic in times:
        return kafka.offsets_for_times(options.config, topic, times[topic]) | {
            partition: span[1] for partition, span in there.items() if partition not in times[topic]
        }
    if isinstance(positions, str):
        return {partition: span[positions == "latest"] for partition, span in there.items()}
    named = positions.get(topic, {})
    if missing := there.keys() - named.keys():
        raise ConfigError(f"the offsets for {topic} leave out partition {min(missing)}: name all of them (-2, -1 too)")
    return {p: {EARLIEST: there[p][0], LATEST: there[p][1]}.get(offset, offset) for p, offset in named.items()}


def _positions(given: Mapping[str, str], name: str, default: str) -> str | Positions:
    text = given.get(name, default).strip()
    if text.lower() in ("earliest", "latest"):
        if (name, text.lower()) in (("startingOffsets", "latest"), ("endingOffsets", "earliest")):
            raise ConfigError(f"{name} cannot be {text} in a batch query: nothing would be read")
        return text.lower()
    return _by_partition(_json(given, name)) or {}


def _by_partition(found: Any) -> dict[str, dict[int, int]] | None:
    if found is None:
        return None
    try:
        return {topic: {int(p): int(offset) for p, offset in each.items()} for topic, each in found.items()}
    except (AttributeError, ValueError) as error:
        raise ConfigError('offsets are JSON such as {"topic": {"0": 23, "1": -2}}') from error


def _json(given: Mapping[str, str], name: str) -> Any:
    if name not in given:
        return None
    try:
        return json.loads(given[name])
    except ValueError as error:
        raise ConfigError(f"{name} is no JSON ({error})") from error
