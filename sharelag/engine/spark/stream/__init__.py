"""Windows and lag of arriving records: as streams, and as tables that are kept current.

with sharelag.stream.watch("broker:9092") as live:  # live.lag is a table, as of now
    for lag in live.updates(seconds=30):            # whenever it changes
        ...

changes = sharelag.stream.windows(raw)              # from any stream of raw records
changes.writeStream.foreachBatch(sharelag.stream.to_delta("tables", offsets)) ...
"""

from sharelag.engine.spark.stream.changes import LAG, WINDOWS, lag, to_delta, updated, windows
from sharelag.engine.spark.stream.live import Live, watch

__all__ = ["LAG", "WINDOWS", "Live", "lag", "to_delta", "updated", "watch", "windows"]
