"""Columns of answers about lag: its age and forecast, its causes, and how it is spread."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "oldest_offset": Column(
        Format.OFFSET,
        "first offset that is not finished; null when there is none, or it is not known",
    ),
    "oldest_timestamp": Column(Format.TIME, "when that record was produced"),
    "oldest_from": Column(
        Format.TEXT, "record: read from it; interpolated: between known times of its neighbours"
    ),
    "age_ms": Column(
        Format.DURATION,
        "time that the oldest unfinished record has been waiting; 0 when nothing is left to do",
        "AGE",
    ),
    "observed_ms": Column(Format.DURATION, "span of the rates: since they last changed"),
    "arrival_rate": Column(
        Format.RATE, "records that arrive a second, since the rates last changed", "ARRIVE/S"
    ),
    "completion_rate": Column(
        Format.RATE, "offsets finished a second, since the rates last changed", "FINISH/S"
    ),
    "redelivery_rate": Column(
        Format.RATE, "deliveries a second beyond the first of their offset", "REDELIVER/S"
    ),
    "drain": Column(
        Format.TEXT,
        "drained, drains, never (more arrives than is finished), uncertain (arrivals and finished "
        "records differ by no more than chance), stalled (nothing is finished), paused (nothing "
        "was finished lately), nobody (the group has no members), or unknown",
    ),
    "drain_ms": Column(Format.DURATION, "time until the lag is gone at these rates", "ABOUT"),
    "drain_low_ms": Column(Format.DURATION, "lower bound of drain_ms (95 % confidence)", "FROM"),
    "drain_high_ms": Column(
        Format.DURATION,
        "upper bound of drain_ms (95 % confidence); null where the lag may never be gone",
        "TO",
    ),
    "margin_ms": Column(
        Format.DURATION,
        "time until the oldest unfinished record may be deleted; null for never, or when not known",
        "MARGIN",
    ),
    "lost": Column(Format.OFFSETS, "unfinished offsets that the log has deleted already"),
    "rank": Column(Format.COUNT, "1 is the most severe cause of the group"),
    "cause": Column(Format.TEXT, "why there is lag"),
    "severity": Column(Format.TEXT, "critical, warning or note"),
    "held": Column(
        Format.OFFSETS, "offsets of lag that the cause explains; null where not known", "HOLDS"
    ),
    "since": Column(Format.TIME, "when it began; null where not known"),
    "advice": Column(Format.TEXT, "what to do"),
    "evidence": Column(Format.LIST, "what shows it"),
    "over": Column(
        Format.TEXT, "what the measure is spread over: partitions, topics, members or brokers"
    ),
    "measure": Column(Format.TEXT, "what is spread"),
    "items": Column(Format.COUNT, "partitions, topics or members"),
    "unknown": Column(Format.COUNT, "how many of them have an unknown measure"),
    "total": Column(Format.RATIO, "sum of the measure"),
    "mean": Column(Format.RATIO, "of the measure"),
    "min": Column(Format.RATIO, "smallest of the measure"),
    "max": Column(Format.RATIO, "largest of the measure"),
    "max_mean": Column(Format.RATIO, "largest / mean: 1 is even", "MAX/MEAN"),
    "gini": Column(Format.RATIO, "Gini coefficient: 0 is even, 1 - 1/items is all on one"),
    "cv": Column(Format.RATIO, "standard deviation / mean: 0 is even"),
    "top_share": Column(Format.RATIO, "share of the total that the largest has"),
    "top3_share": Column(Format.RATIO, "share of the total that the three largest have together"),
    "jain": Column(Format.RATIO, "Jain's index: 1 is even, 1/items is all on one"),
    "verdict": Column(Format.TEXT, "where the lag is concentrated"),
    "findings": Column(Format.LIST, "all kinds of skew that were found, the clearest first"),
    "lag_gini": Column(Format.RATIO, "Gini coefficient of the lag: 0 is even", "GINI"),
    "lag_max_mean": Column(Format.RATIO, "largest lag / mean lag: 1 is even", "MAX/MEAN"),
    "unattended_partitions": Column(
        Format.COUNT, "share partitions without a member", "UNATTENDED"
    ),
    "idle_members": Column(Format.COUNT, "members without work", "IDLE"),
}
