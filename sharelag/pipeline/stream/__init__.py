"""Windows and lag while records come in: as streams, to build on, and as tables that a running cluster moves.

with sharelag.stream.watch("broker:9092") as live:  # live.lag is a table, as of now
    for lag in live.updates(seconds=30):            # each time that it has moved
        ...
"""

from sharelag.pipeline.stream.changes import LAG, WINDOWS, lag, updated, windows

__all__ = ["LAG", "WINDOWS", "lag", "updated", "windows"]
