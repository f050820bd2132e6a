"""Spark's own Kafka source in a session of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from sharelag.inputs.spark import is_connect
from sharelag.tables.gaps import KAFKA_SETTING
from tests.support.kafka.jars import connector_jars


def add_connector(spark: SparkSession) -> SparkSession:
    """Add the source to a session; a server of Connect has it from the start."""
    if not is_connect(spark):
        for jar in connector_jars():
            spark.sql(f"ADD JAR '{jar}'")
    return spark


@contextmanager
def internal_topics_read(spark: SparkSession, value: str) -> Iterator[None]:
    """Set for a while whether the source reads internal topics: ``true`` or ``false``."""
    spark.conf.set(KAFKA_SETTING, value)
    try:
        yield
    finally:
        spark.conf.unset(KAFKA_SETTING)
