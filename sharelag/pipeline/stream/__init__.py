"""Windows and lag of arriving records: as streams, and as tables that are kept current.

with sharelag.stream.watch("broker:9092") as live:  # live.lag is a table, as of now
    for lag in live.updates(seconds=30):            # each time that it has moved
        ...
"""

from sharelag.pipeline.stream.changes import LAG, WINDOWS, lag, updated, windows
from sharelag.pipeline.stream.live import Live
from sharelag.pipeline.stream.watching import watch

__all__ = ["LAG", "WINDOWS", "Live", "lag", "updated", "watch", "windows"]
