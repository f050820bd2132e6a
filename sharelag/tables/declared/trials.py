"""Simulations: what a run measures, and comparisons between runs."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.table import Column, Own, Table, declare
from sharelag.tables.table import Format as F

_FLOAT, _INT = pa.float64(), pa.int32()
_UNKNOWN = Own("unknown", "runs without it, such as the drain time of one that never drained", _INT)

declare(
    Column("scenario", F.TEXT, "what was simulated"),
    Column("about", F.TEXT, "what the scenario shows"),
    Column("assignor", F.TEXT, "how partitions are assigned to members"),
    Column("fetching", F.COUNT, "members that fetch the partition"),
    Column("alert_at", F.DURATION, "when the alert first fired; simulated, that of the mean"),
    Column("alert_share", F.RATIO, "share of the runs in which the alert fired", "ALERTED"),
    Column("by", F.TEXT, "what is measured of a run; times of a run that never drained are not "
           "known", "MEASURE"),
    Column("difference_low", F.RATIO, "lower bound of the difference", "DIFF-FROM"),
    Column("difference_high", F.RATIO, "upper bound of the difference", "DIFF-TO"),
    Column("answer", F.TEXT, "the fewest members that meet the goal"),
    Column("tried", F.RATIO, "the same of the variant, with the same seeds"),
    Column("interval", F.TEXT, "of the difference, by Student's t; all variants' together hold "
           "with 95 % confidence"),
    Column("baseline", F.RATIO, "mean over the runs of the group as it is"),
    Column("better", F.TEXT, "which of the two is better; null if the runs do not show it"),
    Column("met", F.TEXT, "whether the goal is met, at the given confidence"),
)  # fmt: skip

#: One simulation in one row.
SUMMARY = Table(
    "simulated", "a simulation",
    "scenario assignor",
    Own("members", "that the scenario names", _INT),
    Column("seed", F.ORDINAL, "random seed of the run", type=pa.int64()),
    Column("duration_ms", F.DURATION, "how long was simulated"),
    Own("drain_ms", "until nothing was left, for the first time after the largest lag; null: never",
        _FLOAT),
    Column("lag_p50", F.OFFSETS, "median of all share partitions together, over the run",
           "P50-LAG", _FLOAT),
    Column("lag_p95", F.OFFSETS, "95th percentile of all share partitions together, over the run",
           "P95-LAG", _FLOAT),
    Column("lag_max", F.OFFSETS, "largest of all share partitions together, over the run"),
    Column("lag_end", F.OFFSETS, "of all share partitions together, at the end of the run"),
    Column("age_p50_ms", F.DURATION, "median of the oldest record's age, over the run",
           "P50-AGE", _FLOAT),
    Column("age_p95_ms", F.DURATION, "95th percentile of the oldest record's age, over the run",
           "P95-AGE", _FLOAT),
    Column("age_max_ms", F.DURATION, "largest age of the oldest record, over the run", "AGE-MAX",
           _FLOAT),
    Column("latency_p50_ms", F.DURATION, "median of the records' time from append to finish; null "
           "where none was finished", "P50-LATENCY", _FLOAT),
    Column("latency_p95_ms", F.DURATION, "95th percentile of the records' time from append to "
           "finish; null where none was finished", "P95-LATENCY", _FLOAT),
    Column("arrived", F.OFFSETS, "offsets that were appended during the run"),
    Column("completed", F.OFFSETS, "offsets finished: acknowledged or archived"),
    Column("acknowledged", F.OFFSETS, "offsets that members accepted"),
    Own("archived", "rejected, at the delivery limit, or without a record"),
    Own("lost", "deleted before they were finished"),
    Column("deliveries", F.COUNT, "deliveries of records to members, including repeated ones"),
    Column("redeliveries", F.COUNT, "deliveries beyond the first of their record"),
    Column("redelivered_share", F.RATIO, "share of the deliveries that were not the first of their "
           "record; null without any"),
    Column("expired", F.COUNT, "deliveries whose lock expired"),
    Column("wasted", F.COUNT, "deliveries that finished nothing"),
    Column("wasted_share", F.RATIO, "share of the deliveries that finished nothing; null without "
           "any"),
    Column("assignments", F.COUNT, "target assignments that were computed", type=_INT),
    Column("moves", F.COUNT, "partitions taken from members that stayed", type=_INT),
    Column("moves_per_minute", F.RATIO, "partitions taken from members that stayed, a minute"),
    Column("pairs", F.COUNT, "partitions of all members together, the most at one time", type=_INT),
    Own("idle_members", "members without a single record", _INT),
    Column("fairness", F.RATIO, "Jain's index of the members' shares of busy time: 1 is even; null "
           "if nobody was busy"),
    Column("busy_share", F.RATIO, "share of the members' time in which they worked", "BUSY"),
    Column("member_hours", F.RATIO, "hours of all members together"),
)  # fmt: skip

#: Additional columns for a run of a comparison, on request. The assignor `optimal` optimizes its
#: prediction, so others can do better, below 1.
OVER_OPTIMAL = Table(
    "over_optimal", "the same run against that with the assignor optimal",
    Column("drain_over_optimal", F.RATIO, "time until nothing was left / the same of the run with "
           "the assignor optimal; null where one is not known"),
    Column("age_p95_over_optimal", F.RATIO, "p95 age / the same of the run with the assignor "
           "optimal; null where one is not known"),
)  # fmt: skip

#: One run of any variant; its id is that of `sharelag.whatif.grid`: the same scenario, seed and
#: version of sharelag. After a failure the summary is null.
MADE = Table(
    "made", "a run",
    Column("run", F.TEXT, "id of the run"),
    Column("error", F.TEXT, "why the run failed"),
    SUMMARY,
)  # fmt: skip
RUNS = Table(
    "runs", "a run of a variant", Column("variant", F.TEXT, "variant of the scenario"), MADE
)

TIMELINE = Table(
    "simulated_timeline", "a share partition at one moment of a simulation",
    Column("time_ms", F.DURATION, "from the beginning of the run", "TIME"),
    # start offset, end of the window, count and offsets in flight are those in the leader's memory
    "topic partition log_start_offset start_offset window_end_offset",
    Own("delivery_complete_count", type=pa.int64()),
    Column("in_flight", F.OFFSETS, "offsets that members hold"),
    "end_offset lag age_ms",
    Own("members", "that fetch it", _INT),
)  # fmt: skip

MEASURES = Table(
    "measures", "a variant and a measure of its runs",
    "variant",
    Own("measure", "a column of the runs"),
    Column("n", F.COUNT, "runs in which it is known", type=_INT),
    _UNKNOWN,
    Column("failed", F.COUNT, "runs with an error; they count nowhere else", type=_INT),
    # the mean of the others would be biased
    Own("mean", "null where any run is unknown"),
    Column("low", F.RATIO, "lower bound of the mean", "FROM"),  # by Student's t; null: one run
    Column("high", F.RATIO, "upper bound of the mean", "TO"),
    # known when most runs are, where unknown means later than the end
    Column("median", F.RATIO, "of the runs"),
    Column("confidence", F.RATIO, "of the interval"),
)  # fmt: skip

DIFFERENCES = Table(
    "differences", "a variant and a measure against the baseline, with the same seeds",
    "variant",
    Own("baseline", "variant that it is compared with", pa.string()),
    Own("measure", "a column of the runs"),
    Own("n", "pairs in which both are known"),
    Own("unknown", "pairs in which one or both are not", _INT),
    Column("difference", F.RATIO, "mean of variant - baseline, run for run"),
    Own("low", "lower bound of the difference; null if the pairs are too few to give one"),
    Own("high", "upper bound of the difference; null if the pairs are too few to give one"),
    # null where one of the two is unknown or not above 0
    Column("ratio", F.RATIO, "geometric mean of variant / baseline, run for run"),
    Column("ratio_low", F.RATIO, "lower bound of the ratio"),
    Column("ratio_high", F.RATIO, "upper bound of the ratio"),
    Own("confidence", "of all variants' intervals of this measure together"),
    Own("better", "than the baseline; null: the interval does not say", pa.bool_()),
)  # fmt: skip

#: Bounds of the mean, with the goal's confidence; null: too few runs, or all with the same value.
PROBES = Table(
    "probes", "a number of members that was tried",
    Own("members", "that were tried", _INT),
    "n",
    _UNKNOWN,
    Own("mean", "null where any run is unknown"),
    "low high",
    Own("met", "null: the runs do not say", pa.bool_()),
)  # fmt: skip

ANSWERS = Table(
    "answers", "a measure of a group as a consumer group and as a share group",
    Own("measure", "of both"),
    Column("unit", F.TEXT, "of the measure"),
    Own("n", "seeds"),
    Column("consumer_group", F.RATIO, "mean over the runs as a consumer group"),
    Column("share_group", F.RATIO, "mean over the same runs as a share group"),
    Own("difference", "the share group's less the consumer group's, seed by seed"),
    "low high better",
)  # fmt: skip

TUNED = Table(
    "tuned", "a setting that was tuned",
    Column("setting", F.TEXT, "as Kafka names it; members; renew: whether members renew locks"),
    Column("whose", F.TEXT, "where it is set: group, broker, consumer, application or deployment"),
    Column("now", F.TEXT, "value as it is; null: members differ", "NOW"),
    Column("recommended", F.TEXT, "value with which the goals are met for the fewest member-hours"),
    Column("safe_from", F.TEXT, "the least value tried that keeps the goals, all else as "
           "recommended; null: not a number, or no goals are kept"),
    Column("safe_to", F.TEXT, "the greatest value tried that keeps the goals, all else as "
           "recommended; null: not a number, or no goals are kept"),
    Column("cliff", F.TEXT, "what no longer holds beyond that, and from which value; null: all "
           "that may be set keeps the goals"),
    "duration_ms",
)  # fmt: skip
#: For the current and the recommended variant, runs are those that the tuner did not see; for the
#: front, those of the search.
TRADED = Table(
    "traded", "a goal and settings between which to choose",
    Own("variant", "as it is, recommended, or the settings of one on the front: no other one tried "
        "is as good by all goals for as few member-hours"),
    Own("members", "that the group has then", _INT),
    Own("member_hours", "mean over the runs"),
    Column("goal", F.TEXT, "what is to be kept"),
    "n",
    _UNKNOWN,
    "mean low high",
    Column("difference_from", F.RATIO, "lower bound of the difference to the group as it is",
           "DIFF-FROM"),
    Column("difference_to", F.RATIO, "upper bound of the difference to the group as it is",
           "DIFF-TO"),
    Own("met", "null: the runs do not say", pa.bool_()),
    "duration_ms",
)  # fmt: skip

WANTED = Table(
    "wanted", "how many members a group wants",
    "group_id",
    Column("members_wanted", F.COUNT, "the fewest that keep the goal; null: not known", type=_INT),
    Own("goal", "age that records are to stay below"),
    "arrival_rate",
    Column("member_rate", F.RATE, "records that a busy member finishes per second; null: not "
           "known"),
    Column("waiting", F.OFFSETS, "unfinished offsets that members can finish; null: not known"),
    Column("stuck", F.OFFSETS, "unfinished offsets that no number of members finishes; null: not "
           "known"),
    Own("why", "this number, or why it is not known"),
)  # fmt: skip

#: Ratios are to the same scenarios with the baseline; a time below a second counts as one, and a
#: lag that never drained as drained at the end.
RANKED = Table(
    "ranked", "an assignor over the scenarios of the suite",
    Column("family", F.TEXT, "of the scenarios; all: the whole suite"),
    "assignor",
    Column("scenarios", F.COUNT, "that it was simulated in", type=_INT),
    Column("drain_ratio", F.RATIO, "time to drain / the same with the baseline, geometric mean",
           "DRAIN-RATIO"),
    Column("drain_ratio_low", F.RATIO, "lower bound of the ratio of the times to drain, by "
           "Student's t on their logarithms, 95 %; null: one scenario"),
    Column("drain_ratio_high", F.RATIO, "upper bound of the ratio of the times to drain"),
    Column("drain_better", F.COUNT, "scenarios drained in less time by more than 5 %", type=_INT),
    Column("drain_same", F.COUNT, "scenarios drained in the same time, within 5 %", type=_INT),
    Column("drain_worse", F.COUNT, "scenarios drained in more time by more than 5 %", type=_INT),
    Column("age_p95_ratio", F.RATIO, "p95 age / the same with the baseline, geometric mean",
           "P95-AGE-RATIO"),
    Column("age_p95_ratio_low", F.RATIO, "lower bound of the ratio of the p95 ages, by "
           "Student's t on their logarithms, 95 %; null: one scenario"),
    Column("age_p95_ratio_high", F.RATIO, "upper bound of the ratio of the p95 ages"),
    Column("age_p95_better", F.COUNT, "scenarios with a p95 age less by more than 5 %", type=_INT),
    Column("age_p95_same", F.COUNT, "scenarios with the same p95 age, within 5 %", type=_INT),
    Column("age_p95_worse", F.COUNT, "scenarios with a p95 age more by more than 5 %", type=_INT),
    Column("never_drained", F.COUNT, "scenarios that still had lag at the end", type=_INT),
    Own("moves_per_minute", "partitions taken from members that stayed, a minute, mean"),
    Column("pairs_share", F.RATIO, "share of the pairs of member and partition that there can be, "
           "as all-to-all assigns them; a member that is back before it is missed counts twice",
           "OF-ALL-PAIRS"),
)  # fmt: skip
