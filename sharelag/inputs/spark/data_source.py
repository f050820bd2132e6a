"""A Spark data source for Kafka topics that uses our own client: no connector, no jar.

``spark.read.format("sharelag_kafka")`` has the columns of Spark's own Kafka source, and those of
its options that state topics need: one of ``subscribe`` or ``assign``; ``startingOffsets``,
``endingOffsets`` and ``failOnDataLoss``; ``kafka.*`` for the client. A stream takes no
``endingOffsets``; it also has ``maxOffsetsPerTrigger`` and our own ``includeGaps``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import __version__ as pyspark_version
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from sharelag import schemas
from sharelag.errors import ConfigError, DataLossError, SetupError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig, from_spark_options
from sharelag.inputs.kafka.fetch import Ranges, read_ranges
from sharelag.tables.arrow import for_spark

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

FORMAT = "sharelag_kafka"
EARLIEST, LATEST = -2, -1

#: Exactly one of these options selects the topics.
_TOPICS = ("subscribe", "assign")
#: Options of batch queries that streams do not have.
_BATCHES_ONLY = ("endingOffsets",)
#: Options of streams that batch queries do not have.
_STREAMS_ONLY = ("maxOffsetsPerTrigger", "includeGaps")
_OPTIONS = (*_TOPICS, "startingOffsets", "failOnDataLoss", *_BATCHES_ONLY, *_STREAMS_ONLY)

#: Topic -> partition -> an offset, `EARLIEST` or `LATEST`.
Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of a query."""

    config: ClientConfig
    topics: Mapping[str, Sequence[int] | None]  # partitions; None: all
    starting: str | Positions
    ending: str | Positions
    fail_on_data_loss: bool
    max_offsets: int | None = None  # per micro-batch
    include_gaps: bool = False  # whether pruned ranges are returned as rows


def read_options(options: Mapping[str, str], stream: bool = False) -> ReadOptions:
    """Check a query's options; Spark passes their names in lower case.

    A stream starts at the latest offset by default and has no end. An option that is unknown,
    malformed, or contradicts another is a ConfigError.
    """
    spelled = {name.lower(): name for name in _OPTIONS}
    given = {spelled.get(name.lower(), name.lower()): value for name, value in options.items()}
    clients = {name: value for name, value in given.items() if name.startswith("kafka.")}
    for name in given.keys() - clients.keys() - set(_OPTIONS):
        raise ConfigError(
            f"unknown option {name!r} of {FORMAT}: it has {', '.join(_OPTIONS)}, kafka.*"
        )
    kind, other = ("stream", "batch query") if stream else ("batch query", "stream")
    for name in _BATCHES_ONLY if stream else _STREAMS_ONLY:
        if name in given:
            raise ConfigError(f"{name} is for a {other}, and this is a {kind}: remove it")
    return ReadOptions(
        config=from_spark_options(clients),
        topics=_topics(given),
        starting=_positions(given, "startingOffsets", "latest" if stream else "earliest", stream),
        ending=_positions(given, "endingOffsets", "latest"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", "true"),
        max_offsets=_count(given, "maxOffsetsPerTrigger"),
        include_gaps=_flag(given, "includeGaps", "false"),
    )


def _topics(given: Mapping[str, str]) -> Mapping[str, Sequence[int] | None]:
    which = [name for name in _TOPICS if name in given]
    if len(which) != 1:
        got = " and ".join(which) or "none"
        raise ConfigError(f"give one of {' and '.join(_TOPICS)}, not {got}")
    if "subscribe" in given:
        names = (name.strip() for name in given["subscribe"].split(","))
        found = dict.fromkeys(filter(None, names))
        if not found:
            raise ConfigError("subscribe is empty: give at least one topic")
        return found
    try:
        assigned = {
            t: sorted({_whole(p) for p in each}) for t, each in json.loads(given["assign"]).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError('assign is invalid: give JSON such as {"topic": [0, 1]}') from error
    if not assigned or not all(assigned.values()):
        raise ConfigError("assign is empty: give at least one partition of each topic")
    return assigned


def _positions(
    given: Mapping[str, str], name: str, default: str, stream: bool = False
) -> str | Positions:
    text = given.get(name, default).strip()
    is_first = name == "startingOffsets"
    word, useless = ("latest", LATEST) if is_first else ("earliest", EARLIEST)
    found: str | Positions = text.lower()
    if found not in ("earliest", "latest"):
        found = _by_partition(name, text)
        is_useless = any(useless in each.values() for each in found.values())
        text = f"{useless} ({word})"
    else:
        is_useless = found == word
    if is_useless and not stream:
        raise ConfigError(f"{name} cannot be {text} in a batch query: nothing would be read")
    return found


def _by_partition(name: str, text: str) -> Positions:
    try:
        found = {
            t: {int(p): _whole(n) for p, n in each.items()} for t, each in json.loads(text).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f'{name} is invalid: give JSON such as {{"topic": {{"0": 23, "1": -2}}}}'
        ) from error
    if any(n < EARLIEST for each in found.values() for n in each.values()):
        raise ConfigError(
            f"{name} has a number below {EARLIEST}: give offsets of at least 0, -2 for earliest or "
            "-1 for latest"
        )
    return found


def _whole(number: object) -> int:
    """Return a JSON integer; ``int`` alone would also accept 1.5, "1" and true."""
    if type(number) is not int:
        raise TypeError(f"{number!r} is not an integer")
    return number


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{name} is {text!r}: give an integer of at least 1")
    return int(text)


def _flag(given: Mapping[str, str], name: str, default: str) -> bool:
    text = given.get(name, default).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is {text!r}: give true or false")
    return text == "true"


# ---- ranges of offsets --------------------------------------------------------------------------


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The offsets that one Spark task reads."""

    topic: str
    partition: int
    first: int
    end: int


def plan(options: ReadOptions) -> list[OffsetRange]:
    """Return the ranges to read, from one request to the cluster by the driver."""
    ranges = []
    for topic, there in logs(options).items():
        first = resolve(topic, there, options.starting)
        end = resolve(topic, there, options.ending)
        for p, (least, most) in there.items():
            is_there = least <= first[p] <= most and least <= end[p] <= most
            if options.fail_on_data_loss and not is_there:
                raise DataLossError(
                    f"{topic} partition {p} has offsets {least} to {most} (exclusive), not all of "
                    f"{first[p]} to {end[p]}: start from earliest and end at latest, or set "
                    "failOnDataLoss to false to read what is there"
                )
            ranges.append(OffsetRange(topic, p, max(first[p], least), min(end[p], most)))
    return [one for one in ranges if one.end > one.first]


def logs(options: ReadOptions) -> dict[str, dict[int, tuple[int, int]]]:
    """Return current first and end offsets of every selected partition, by topic."""
    config = options.config.renew()  # a stream asks repeatedly
    positions = (options.starting, options.ending)
    named = {topic for given in positions if isinstance(given, Mapping) for topic in given}
    if stray := named - options.topics.keys():
        raise ConfigError(
            f"offsets are given for topic {min(stray)!r}, which is not read: check its spelling"
        )
    return {
        topic: kafka.offset_ranges(config, topic, partitions)
        for topic, partitions in options.topics.items()
    }


def resolve(
    topic: str, there: Mapping[int, tuple[int, int]], positions: str | Positions
) -> dict[int, int]:
    """Return the offset of every partition."""
    if isinstance(positions, str):
        return {partition: span[positions == "latest"] for partition, span in there.items()}
    _require_exactly(topic, there, positions)
    ends = {EARLIEST: 0, LATEST: 1}
    return {p: there[p][ends[n]] if n in ends else n for p, n in positions[topic].items()}


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


#: Secret of this process: a cluster's name is the same for each read, and reveals no password.
_KEY = os.urandom(16)


def read_topic(
    spark: SparkSession, config: ClientConfig, topic: str, ranges: Ranges | None = None
) -> DataFrame:
    """Read a topic, or some ranges of its offsets, as `sharelag.schemas.RAW`.

    By default the end is that of the time when Spark reads; records pruned by then are left out.
    """
    options = {"subscribe": topic}
    if ranges:
        first, end = ({topic: {str(p): one[n] for p, one in ranges.items()}} for n in (0, 1))
        options = {
            "assign": json.dumps({topic: sorted(ranges)}),
            "startingOffsets": json.dumps(first),
            "endingOffsets": json.dumps(end),
        }
    reader = spark.read.format(register_cluster(spark, config))
    return reader.options(failOnDataLoss="false", **options).load()


def register(spark: SparkSession) -> None:
    """Register ``format("sharelag_kafka")`` with a session."""
    spark.dataSource.register(ShareLagKafka)


def register_cluster(spark: SparkSession, config: ClientConfig) -> str:
    """Register a source for one cluster whose options stay hidden from Spark; return its format."""
    settings = config.spark_options()
    described = repr(sorted(settings.items())).encode()
    format_name = f"{FORMAT}_{blake2b(described, key=_KEY, digest_size=4).hexdigest()}"

    class OfCluster(ShareLagKafka):
        def __init__(self, options: dict[str, str]) -> None:
            super().__init__({**options, **settings})

        @classmethod
        def name(cls) -> str:
            return format_name

    spark.dataSource.register(OfCluster)
    return format_name


class ShareLagKafka(DataSource):
    """The data source; Spark creates one for each read."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of Spark's own Kafka source; ``includeGaps`` adds ``gapEnd``."""
        has_gaps = self.options.get("includeGaps", "false").lower() == "true"
        return schemas.spark_schema(RAW_AND_GAPS if has_gaps else schemas.RAW)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(read_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(read_options(self.options, stream=True))


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return plan(self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OffsetRange):  # not Spark's placeholder for no partitions
            yield from _read(self.options, partition, None)


def _read(
    options: ReadOptions, one: OffsetRange, lost: list[tuple[int, int, int]] | None
) -> Iterator[pa.RecordBatch]:
    schema = RAW_AND_GAPS if options.include_gaps else schemas.RAW
    span = {one.partition: (one.first, one.end)}
    loss = options.fail_on_data_loss
    for batch in read_ranges(options.config, one.topic, span, loss, lost):
        yield for_spark(batch, schema)


# ---- streams ------------------------------------------------------------------------------------
# spark.readStream.format("sharelag_kafka") stores its progress like Spark's own Kafka source, as
# the next offset to read by topic and partition. maxOffsetsPerTrigger is divided among partitions
# in proportion to their unread offsets. With failOnDataLoss=false it continues after pruned
# ranges; with includeGaps=true it also returns one row for each range that it could not read, in
# the same micro-batch as the records after it, so that a sink with exactly-once records also has
# exactly-once gaps.
#
# A log that ends before the position was created again or truncated. That fails whatever
# failOnDataLoss says, because its offsets would be read a second time with other records.
#
# A query that is killed before its first micro-batch is done determines its start again and repeats
# that micro-batch. earliest and latest may have changed by then: give offsets if every record
# matters.


#: A row of ``includeGaps`` is a record, or a range of offsets that was pruned unread: then
#: ``offset`` is its first, ``gapEnd`` its end (exclusive), ``timestamp`` the time of detection, and
#: key and value are null.
RAW_AND_GAPS = schemas.RAW.append(pa.field("gapEnd", pa.int64()))
#: The next offset to read, by topic and partition; the partition is a string for Spark's JSON.
Progress = dict[str, dict[str, int]]
#: First and end offset of every partition, by topic.
Logs = Mapping[str, Mapping[int, tuple[int, int]]]

_LOG = logging.getLogger(__name__)


class Gap(OffsetRange):
    """A range that was pruned before its micro-batch was planned; it is read as one row."""


def require_admission_control() -> None:
    """Make sure that Spark supports admission control of Python sources (4.2 or later)."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise SetupError(
            f"streams of a topic need pyspark 4.2 or newer, and this is {pyspark_version}: "
            "install a newer one, or use `sharelag capture` without --follow, or spark.read "
            "instead of spark.readStream"
        )


class StreamReader(DataSourceStreamReader):
    """The reader of one stream: all methods but `read` run in one process next to the driver."""

    def __init__(self, options: ReadOptions) -> None:
        require_admission_control()
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

        # Not a base class: this module must be importable with older Sparks.
        SupportsTriggerAvailableNow.register(StreamReader)
        self.options = options
        self._target: Logs | None = None
        self._newest: Logs = {}

    def initialOffset(self) -> Progress:  # noqa: N802
        start = self.options.starting
        return _progress({t: resolve(t, of, start) for t, of in logs(self.options).items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that ``maxOffsetsPerTrigger`` sets."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self.options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Progress, limit: ReadLimit) -> Progress:  # noqa: N802
        self._newest = self._target or logs(self.options)
        return advance(start, self._newest, getattr(limit, "max_rows", None))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: records written after this are not part of it."""
        self._target = logs(self.options)

    def reportLatestOffset(self) -> Progress | None:  # noqa: N802
        ends = {
            topic: {p: end for p, (_, end) in there.items()}
            for topic, there in self._newest.items()
        }
        return _progress(ends) or None

    def partitions(self, start: Progress, end: Progress) -> Sequence[InputPartition]:
        """Return the partitions of one micro-batch; called again if it is repeated."""
        if start == end:
            return []
        gaps, ranges = between(start, end, logs(self.options))
        for gap in gaps:
            where = (
                f"{gap.topic} partition {gap.partition}: offsets {gap.first} to {gap.end} "
                "(exclusive) were pruned"
            )
            if self.options.fail_on_data_loss:
                raise DataLossError(
                    f"{where} before they were read; set failOnDataLoss to false to skip them, "
                    "and includeGaps to true to get them as rows"
                )
            _LOG.warning("%s; continuing with the remaining records", where)
        return [*gaps, *ranges] if self.options.include_gaps else ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Gap):
            yield _gap_rows([partition])
        elif isinstance(partition, OffsetRange):
            lost: list[tuple[int, int, int]] = []
            yield from _read(self.options, partition, lost)
            if lost and self.options.include_gaps:  # pruned since the micro-batch was planned
                yield _gap_rows([Gap(partition.topic, *one) for one in lost])


def advance(start: Progress, there: Logs, limit: int | None) -> Progress:
    """Return the end of a micro-batch of about ``limit`` offsets; None means all.

    As in Spark's own source, the limit is divided in proportion, with at least one offset per
    partition. Pruned offsets do not count. A log that ends before its position is a DataLossError.
    """
    spans = {}
    for topic, partitions in there.items():
        for partition, (first, end) in partitions.items():
            # A partition that was added later starts at its first offset, 0.
            position = start.get(topic, {}).get(str(partition), 0)
            _require_continuous(topic, partition, position, end)
            spans[topic, partition] = max(position, first), end
    total = sum(end - begin for begin, end in spans.values())
    # A deleted topic keeps its position.
    reached = {name: {int(p): offset for p, offset in of.items()} for name, of in start.items()}
    for (topic, partition), (begin, end) in spans.items():
        size = share = end - begin
        if limit is not None and total > limit:
            share = max(limit * size // total, min(size, 1))
        reached.setdefault(topic, {})[partition] = begin + share
    return _progress(reached)


def between(start: Progress, end: Progress, there: Logs) -> tuple[list[Gap], list[OffsetRange]]:
    """Return the pruned and the remaining ranges of a micro-batch."""
    gaps, ranges = [], []
    for topic, partitions in end.items():
        for text, upto in partitions.items():
            partition, position = int(text), start.get(topic, {}).get(text, 0)
            if position > upto:
                _LOG.warning(
                    "%s partition %d now starts at %d, after %d: records in between may be missing",
                    *(topic, partition, position, upto),
                )
            if position >= upto:
                continue
            first, log_end = there.get(topic, {}).get(partition, (upto, upto))
            _require_continuous(topic, partition, upto, log_end)
            begin = min(max(position, first), upto)
            if begin > position:
                gaps.append(Gap(topic, partition, position, begin))
            if upto > begin:
                ranges.append(OffsetRange(topic, partition, begin, upto))
    return gaps, ranges


def _progress(offsets: Mapping[str, Mapping[int, int]]) -> Progress:
    # Sorted, since Spark compares the JSON texts.
    return {t: {str(p): n for p, n in sorted(each.items())} for t, each in sorted(offsets.items())}


def _require_continuous(topic: str, partition: int, position: int, end: int) -> None:
    if end < position:
        raise DataLossError(
            f"{topic} partition {partition} ends at offset {end}, before the read position "
            f"{position}: it was deleted and created again, or truncated; start again with "
            "another checkpoint"
        )


def _gap_rows(gaps: Sequence[Gap]) -> pa.RecordBatch:
    found = {"timestamp": datetime.now(UTC), "timestampType": -1}
    rows = [
        {"topic": gap.topic, "partition": gap.partition, "offset": gap.first, "gapEnd": gap.end}
        | found
        for gap in gaps
    ]
    return for_spark(pa.RecordBatch.from_pylist(rows, schema=RAW_AND_GAPS), RAW_AND_GAPS)
