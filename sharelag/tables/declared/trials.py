"""Simulations: what a run measures, and comparisons between runs."""

from __future__ import annotations

from sharelag.tables.table import Column, declare
from sharelag.tables.table import Format as F

declare(
    Column("scenario", F.TEXT, "what was simulated"),
    Column("about", F.TEXT, "what the scenario shows"),
    Column("variant", F.TEXT, "variant of the scenario"),
    Column("assignor", F.TEXT, "how partitions are assigned to members"),
    Column("seed", F.ORDINAL, "random seed of the run"),
    Column("error", F.TEXT, "why the run failed"),
    Column("time_ms", F.DURATION, "from the beginning of the run", "TIME"),
    Column("in_flight", F.OFFSETS, "offsets that members hold"),
    Column("fetching", F.COUNT, "members that fetch the partition"),
    Column("lag_p50", F.OFFSETS, "median of all share partitions together, over the run"),
    Column("lag_p95", F.OFFSETS, "95th percentile of all share partitions together, over the run"),
    Column("lag_max", F.OFFSETS, "largest of all share partitions together, over the run"),
    Column("age_p95_ms", F.DURATION, "95th percentile of the oldest record's age, over the run",
           "AGE-P95"),
    Column("lag_end", F.OFFSETS, "of all share partitions together, at the last moment; "
           "simulated, the mean of all runs", "LAG-AT-END"),
    Column("age_max_ms", F.DURATION, "highest age of the oldest unfinished record", "OLDEST"),
    Column("alert_at", F.DURATION, "when the alert first fired; simulated, that of the mean"),
    Column("alert_share", F.RATIO, "share of the runs in which the alert fired", "ALERTED"),
    Column("completed", F.OFFSETS, "offsets finished: acknowledged or archived"),
    Column("redeliveries", F.COUNT, "deliveries beyond the first of their record"),
    Column("wasted", F.COUNT, "deliveries that finished nothing"),
    Column("moves", F.COUNT, "partitions taken from members that stayed"),
    Column("busy_share", F.RATIO, "share of the members' time in which they worked", "BUSY"),
    Column("member_hours", F.RATIO, "hours of all members together"),
    Column("by", F.TEXT, "what is measured of a run; times of a run that never drained are not "
           "known", "MEASURE"),
    Column("low", F.RATIO, "lower bound of the mean", "FROM"),
    Column("high", F.RATIO, "upper bound of the mean", "TO"),
    Column("median", F.RATIO, "of the runs"),
    Column("difference", F.RATIO, "mean of variant - baseline, run for run"),
    Column("difference_low", F.RATIO, "lower bound of the difference", "DIFF-FROM"),
    Column("difference_high", F.RATIO, "upper bound of the difference", "DIFF-TO"),
    Column("ratio", F.RATIO, "geometric mean of variant / baseline, run for run"),
    Column("met", F.TEXT, "whether the goal is met, at the given confidence"),
    Column("answer", F.TEXT, "the fewest members that meet the goal"),
    Column("consumer_group", F.RATIO, "mean over the runs as a consumer group"),
    Column("share_group", F.RATIO, "mean over the same runs as a share group"),
    Column("better", F.TEXT, "which of the two; null where the runs do not show it"),
    Column("baseline", F.RATIO, "mean over the runs of the group as it is"),
    Column("tried", F.RATIO, "the same of the variant, with the same seeds"),
    Column("interval", F.TEXT, "of the difference, by Student's t; all variants' together hold "
           "with 95 % confidence"),
)  # fmt: skip
