"""Columns of simulations: what a run measures, and comparisons between runs."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

_TIME_LEFT = "of all share partitions together, over the run"

COLUMNS = {
    "scenario": Column(Format.TEXT, "what was simulated"),
    "about": Column(Format.TEXT, "what the scenario shows"),
    "variant": Column(Format.TEXT, "variant of the scenario"),
    "assignor": Column(Format.TEXT, "how partitions are assigned to members"),
    "seed": Column(Format.ORDINAL, "random seed of the run"),
    "error": Column(Format.TEXT, "why the run failed"),
    "time_ms": Column(Format.DURATION, "from the beginning of the run", "TIME"),
    "in_flight": Column(Format.OFFSETS, "offsets that members hold"),
    "fetching": Column(Format.COUNT, "members that fetch the partition"),
    "lag_p50": Column(Format.OFFSETS, f"median {_TIME_LEFT}"),
    "lag_p95": Column(Format.OFFSETS, f"95th percentile {_TIME_LEFT}"),
    "lag_max": Column(Format.OFFSETS, f"largest {_TIME_LEFT}"),
    "age_p95_ms": Column(
        Format.DURATION, "95th percentile of the oldest record's age, over the run", "AGE-P95"
    ),
    "completed": Column(Format.OFFSETS, "offsets finished: acknowledged or archived"),
    "redeliveries": Column(Format.COUNT, "deliveries beyond the first of their record"),
    "wasted": Column(Format.COUNT, "deliveries that finished nothing"),
    "moves": Column(Format.COUNT, "partitions taken from members that stayed"),
    "busy_share": Column(Format.RATIO, "share of the members' time in which they worked", "BUSY"),
    "member_hours": Column(Format.RATIO, "hours of all members together"),
    "by": Column(
        Format.TEXT,
        "what is measured of a run; times of a run that never drained are not known",
        "MEASURE",
    ),
    "low": Column(Format.RATIO, "lower bound of the mean", "FROM"),
    "high": Column(Format.RATIO, "upper bound of the mean", "TO"),
    "median": Column(Format.RATIO, "of the runs"),
    "difference": Column(Format.RATIO, "mean of variant - baseline, run for run"),
    "difference_low": Column(Format.RATIO, "lower bound of the difference", "AT-LEAST"),
    "difference_high": Column(Format.RATIO, "upper bound of the difference", "AT-MOST"),
    "ratio": Column(Format.RATIO, "geometric mean of variant / baseline, run for run"),
    "met": Column(Format.TEXT, "whether the goal is met, at the given confidence"),
    "answer": Column(Format.TEXT, "the fewest members that meet the goal"),
    "consumer_group": Column(Format.RATIO, "mean over the runs as a consumer group"),
    "share_group": Column(Format.RATIO, "mean over the same runs as a share group"),
    "better": Column(Format.TEXT, "which of the two; null where the runs do not show it"),
    "baseline": Column(Format.RATIO, "mean over the runs of the group as it is"),
    "tried": Column(Format.RATIO, "the same of the variant, with the same seeds"),
    "interval": Column(
        Format.TEXT,
        "of the difference, by Student's t; all variants' together hold with 95 % confidence",
    ),
}
