"""Columns of checks, of reports and of what they look at."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "level": Column(Format.TEXT, "ok, unknown, warning, critical, or failed"),
    "rule": Column(Format.TEXT, "rule that was judged"),
    "at_this_level": Column(
        Format.COUNT, "share partitions of the group that are no better", "#PARTITIONS"
    ),
    "silenced_until": Column(Format.TIME, "until when it does not count"),
    "started": Column(Format.TIME, "when the report was made", "MADE"),
    "report": Column(Format.TEXT, "name of the report"),
    "notebook": Column(Format.TEXT, "where its notebook is"),
    "run_id": Column(Format.TEXT, "name of the run's folder", "RUN"),
    "kept": Column(Format.FLAG, "whether the run is still there"),
    "headline": Column(Format.TEXT, "what the report says, in a sentence", "SAYS"),
    "per_member": Column(Format.RATE, "offsets finished a second by each member on average"),
    "skew": Column(Format.TEXT, "what the lag crowds around"),
    "groups": Column(Format.COUNT, "share groups that read the topic"),
    "reclaimable": Column(Format.OFFSETS, "offsets that every share group has finished"),
    "archived_low": Column(Format.OFFSETS, "archived at the least"),
    "archived_high": Column(Format.OFFSETS, "archived at the most"),
    "drained": Column(Format.COUNT, "runs in which nothing was left"),
    "lag_p95_difference": Column(
        Format.TEXT, "95th percentile of the lag, less that of the group as it is"
    ),
    "age_p95_difference": Column(
        Format.TEXT, "95th percentile of the age, less that of the group as it is"
    ),
    "last_offset": Column(Format.OFFSET, "last of them"),
    "offsets": Column(Format.OFFSETS, "how many they are"),
    "delivery_count": Column(
        Format.COUNT,
        "how often it was given to a consumer; not known where no state is persisted",
    ),
    "left": Column(Format.COUNT, "deliveries until the limit (share.delivery.count.limit)"),
    "why": Column(Format.TEXT, "why it is listed"),
}
