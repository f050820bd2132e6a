"""Write the lag of every share partition of a cluster as Parquet, and print what causes it.

spark-submit job.py BROKER:PORT FOLDER [CLIENT.PROPERTIES]
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import sharelag


def main(address: str, folder: str, command_config: str | None = None) -> None:
    """Read a cluster as of now."""
    spark = SparkSession.builder.appName("share-group-lag").getOrCreate()
    # Records up to now, then the ends of their topics: in this order no lag seems negative.
    raw = sharelag.read_kafka(spark, address, command_config=command_config)
    offsets = sharelag.offsets(spark, address, command_config=command_config)
    with sharelag.open(raw=raw, offsets=offsets) as bench:
        bench.frames.lag.write.mode("overwrite").parquet(folder)
        print(bench.explain())


if __name__ == "__main__":
    main(*sys.argv[1:])
