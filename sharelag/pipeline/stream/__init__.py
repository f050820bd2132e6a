"""Windows and lag while records come in: as streams, to build on, and as tables that a running cluster moves.

with sharelag.stream.watch("broker:9092") as live:  # live.lag is a table, as of now
    for lag in live.updates(seconds=30):            # each time that it has moved
        ...
"""

from sharelag.pipeline.stream.changes import LAG, WINDOWS, lag, updated, windows
from sharelag.pipeline.stream.live import Live
from sharelag.pipeline.stream.watching import watch

__all__ = ["LAG", "WINDOWS", "Live", "lag", "updated", "watch", "windows"]
