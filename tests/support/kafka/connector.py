"""Spark's own Kafka source in a session of the tests."""

from pyspark.sql import SparkSession

from sharelag.inputs.spark import is_connect
from tests.support.kafka.jars import connector_jars


def add_connector(spark: SparkSession) -> SparkSession:
    """Add the source to a session; a server of Connect has it from the start."""
    if not is_connect(spark):
        for jar in connector_jars():
            spark.sql(f"ADD JAR '{jar}'")
    return spark
