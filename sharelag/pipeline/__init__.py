"""The pipeline on Spark: raw Kafka records in, lag out, on a laptop or a cluster.

Every function takes and gives DataFrames, and only distributes what `wire`, `replay` and `metrics` compute
over Arrow. Nothing runs before an action is called.
"""

from sharelag.pipeline.answers import health, imbalance, lag, rollup
from sharelag.pipeline.membership import groups, members
from sharelag.pipeline.records import Decoded, chosen, decode, missing_offsets
from sharelag.pipeline.states import history, observed, windows, windows_of_raw

__all__ = [
    "Decoded",
    "chosen",
    "decode",
    "groups",
    "health",
    "history",
    "imbalance",
    "lag",
    "members",
    "missing_offsets",
    "observed",
    "rollup",
    "windows",
    "windows_of_raw",
]
