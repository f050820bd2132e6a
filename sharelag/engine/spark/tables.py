"""The tables that `sharelag.engine.spark.frames.Frames` has, by name: their schemas and rows."""

from __future__ import annotations

from sharelag.tables.declared import answers, groups, lag, records, windows

TABLES = {
    table.name: table
    for table in (
        *(records.RAW, records.RECORDS, records.REJECTS),
        *(windows.WINDOWS, windows.HISTORY, windows.OBSERVED, windows.SNAPSHOTS),
        *(records.GROUP_RECORDS, groups.MEMBERS, groups.GROUPS),
        *(records.OFFSETS, records.PAST_OFFSETS, records.LOGS, groups.LEADERS, groups.NODES),
        *(groups.BROKERS, records.TIMES, groups.SETTINGS, records.GAPS, records.HEALTH),
        *(lag.LAG, lag.BRIEF_LAG, answers.PROGRESS, answers.IMBALANCE),
    )
}
