"""Settings of a session of Spark, for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def set_for(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Set the session as somebody else would, who finds it so afterwards; None unsets."""
    before = {name: spark.conf.get(name, None) for name in settings}
    _put(spark, settings)
    try:
        yield
        assert {name: spark.conf.get(name, None) for name in settings} == settings
    finally:
        _put(spark, before)


def _put(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
