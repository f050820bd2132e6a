"""The pipeline on Spark: raw Kafka records in, lag out; local or cluster, classic or Connect.

Every function takes and gives DataFrames, and only distributes what `wire`, `replay` and `metrics`
compute over Arrow. Nothing runs before an action is called. `Frames` puts them together for one
input.
"""
# ruff: noqa: E402

from sharelag.sources.spark import require_pyspark

# Everything on Spark is imported through this package, so an error here says what to do without
# pyspark.
require_pyspark()

from sharelag.pipeline.answers import (
    diff,
    health,
    imbalance,
    lag,
    progress,
    reconcile,
    rollup,
    skew,
)
from sharelag.pipeline.cluster import offsets, read_kafka
from sharelag.pipeline.membership import groups, members
from sharelag.pipeline.printed import consumed
from sharelag.pipeline.records import Decoded, decode, missing_offsets
from sharelag.pipeline.states import history, observed, windows

__all__ = [
    "Decoded",
    "consumed",
    "decode",
    "diff",
    "groups",
    "health",
    "history",
    "imbalance",
    "lag",
    "members",
    "missing_offsets",
    "observed",
    "offsets",
    "progress",
    "read_kafka",
    "reconcile",
    "rollup",
    "skew",
    "windows",
]
