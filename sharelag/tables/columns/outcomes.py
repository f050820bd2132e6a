"""Columns of checks, of reports and of what they look at."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "level": Column(Format.TEXT, "ok, unknown, warning, critical, or failed"),
    "rule": Column(Format.TEXT, "rule that was judged"),
    "at_this_level": Column(
        Format.COUNT, "share partitions of the group at this level or worse", "#PARTITIONS"
    ),
    "due": Column(Format.TIME, "when it gets worse if it goes on like this"),
    "silenced_until": Column(Format.TIME, "end of the silence; until then the rule does not count"),
    "started": Column(Format.TIME, "when the report was made", "MADE"),
    "report": Column(Format.TEXT, "name of the report"),
    "notebook": Column(Format.TEXT, "where its notebook is"),
    "run_id": Column(Format.TEXT, "name of the run's folder", "RUN"),
    "kept": Column(Format.FLAG, "whether the run is still there"),
    "headline": Column(Format.TEXT, "what the report found, in a sentence", "HEADLINE"),
    "per_member": Column(Format.RATE, "offsets finished a second by each member on average"),
    "skew": Column(Format.TEXT, "where the lag is concentrated"),
    "groups": Column(Format.COUNT, "share groups that read the topic"),
    "reclaimable": Column(Format.OFFSETS, "offsets that every share group has finished"),
    "archived_low": Column(Format.OFFSETS, "lower bound of the archived offsets"),
    "archived_high": Column(Format.OFFSETS, "upper bound of the archived offsets"),
    "drained": Column(Format.COUNT, "runs in which nothing was left"),
    "lag_p95_difference": Column(
        Format.TEXT, "95th percentile of the lag, minus that of the group as it is"
    ),
    "age_p95_difference": Column(
        Format.TEXT, "95th percentile of the age, minus that of the group as it is"
    ),
    "last_offset": Column(Format.OFFSET, "last offset"),
    "offsets": Column(Format.OFFSETS, "number of offsets"),
    "delivery_count": Column(
        Format.COUNT,
        "how often it was given to a consumer; not known where no state is persisted",
    ),
    "left": Column(Format.COUNT, "deliveries until the limit (share.delivery.count.limit)"),
    "trend": Column(Format.LIST, "lag at moments of the span; a gap where it is not known"),
    "gone": Column(Format.TEXT, "when the lag will be gone, at the rates seen"),
    "why": Column(Format.TEXT, "why it is listed"),
}
