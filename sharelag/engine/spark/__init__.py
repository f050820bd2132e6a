"""The pipeline on Spark: raw Kafka records in, lag out; local or cluster, classic or Connect.

Every function takes and returns DataFrames, and only distributes what `wire`, `replay` and
`metrics` compute over Arrow. Nothing runs before an action is called. `Frames` combines them for
one input.
"""
# ruff: noqa: E402

from sharelag.inputs.spark import require_pyspark

# Everything on Spark is imported through this package, so this error says what to do without
# pyspark.
require_pyspark()

from sharelag.engine.spark.answers import (
    Decoded,
    decode,
    diff,
    groups,
    health,
    history,
    imbalance,
    lag,
    members,
    missing_offsets,
    observed,
    progress,
    reconcile,
    rollup,
    skew,
    windows,
)
from sharelag.engine.spark.cluster import offsets, read_kafka
from sharelag.engine.spark.text_files import consumed

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
