"""A topic as a Spark DataFrame, through our own client: no connector, no jar.

``spark.read.format("sharelag_kafka")`` has the columns and the options of Spark's own Kafka source:
one of ``subscribe``, ``subscribePattern`` or ``assign``; ``startingOffsets``, ``endingOffsets`` and
their ``...ByTimestamp`` forms, ``minPartitions``, ``failOnDataLoss``, and ``kafka.*`` for the
client. ``spark.readStream`` also has ``maxOffsetsPerTrigger`` and our own ``includeGaps``; see
`sharelag.sources.spark.data_source_stream`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b

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
from sharelag.schemas.arrow import for_spark
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.fetch import Ranges
from sharelag.sources.spark.data_source_options import FORMAT, ReadOptions, read_options
from sharelag.sources.spark.data_source_ranges import OffsetRange, plan, split
from sharelag.sources.spark.data_source_stream import RAW_AND_GAPS, StreamReader

#: The same cluster has the same name in this process, and no name tells a password.
_KEY = os.urandom(16)


def read_topic(
    spark: SparkSession, config: ClientConfig, topic: str, ranges: Ranges | None = None
) -> DataFrame:
    """Read all records of a topic up to now; records pruned meanwhile are left out.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    config : ClientConfig
    topic : str
    ranges : mapping of partition to (first offset, end offset), optional
        Only these; by default everything up to the end when Spark reads.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.RAW`.
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
    """Register the source of one cluster, which needs no ``kafka.*`` options; return its format.

    A server of Spark Connect writes options into its event log and shows them in its UI.
    """
    settings = config.spark_options()
    told = repr(sorted(settings.items())).encode()
    format_name = f"{FORMAT}_{blake2b(told, key=_KEY, digest_size=4).hexdigest()}"

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
