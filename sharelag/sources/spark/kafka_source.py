"""Spark's own Kafka source: whether a session has it, and whether it sees internal topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sharelag.sources.spark.sessions import is_connect
from sharelag.tables.reasons import KAFKA_SETTING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def reads_internal_topics(spark: SparkSession) -> bool:
    """Whether a session has Spark's own Kafka source, with the setting for internal topics."""
    return _is_set(spark) and _has_connector(spark)


def leaves_out_internal_topics(frame: DataFrame) -> bool:
    """Whether a DataFrame reads Spark's own Kafka source, in a session without the setting."""
    return not _is_set(frame.sparkSession) and _reads_kafka(frame)


def _is_set(spark: SparkSession) -> bool:
    return (spark.conf.get(KAFKA_SETTING, "false") or "").lower() == "true"


def _has_connector(spark: SparkSession) -> bool:
    from pyspark.errors import AnalysisException

    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "none"}
    try:  # brokers are contacted when rows are read, not here
        spark.read.format("kafka").options(**options).load().schema  # noqa: B018
    except AnalysisException:
        return False
    return True


def _reads_kafka(frame: Any) -> bool:
    if is_connect(frame.sparkSession):
        return "format='kafka'" in frame._plan.print()
    plan = frame._jdf.queryExecution().analyzed().toString()
    return "KafkaRelation(" in plan or "KafkaSourceProvider" in plan
