"""Answers about lag: its age, forecasts, causes, spread, resets, and lag by other definitions."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.table import Column, Own, Table, declare, view
from sharelag.tables.table import Format as F

declare(
    Column("why", F.TEXT, "why it is listed"),
    Column("measure", F.TEXT, "what is spread"),
)  # fmt: skip

PROGRESS = Table(
    "progress", "a share partition with age, rates and forecast",
    "group_id topic topic_id partition as_of",
    Column("oldest_offset", F.OFFSET, "first offset that is not finished; null when there is "
           "none, or it is not known"),
    Column("oldest_timestamp", F.TIME, "when that record was produced"),
    Column("oldest_from", F.TEXT, "record: read from it; interpolated: between the known times of "
           "its neighbours"),
    Column("age_ms", F.DURATION, "time that the oldest unfinished record has been waiting; 0 "
           "when nothing is left to do", "AGE"),
    Column("observed_ms", F.DURATION, "span of the rates: since they last changed"),
    Own("breaks", "gaps in it where records are missing; if there are any, rates are lower bounds"),
    Column("arrival_rate", F.RATE, "records that arrive per second, since the rates last changed",
           "IN/S"),
    Column("completion_rate", F.RATE, "offsets finished per second, since the rates last changed",
           "OUT/S"),
    Column("redelivery_rate", F.RATE, "deliveries per second beyond the first of each offset",
           "REDELIVER/S"),
    Column("drain", F.TEXT, "drained, drains, never (more arrives than is finished), uncertain "
           "(arrivals and finished records differ by no more than chance), stalled (nothing is "
           "finished), paused (nothing was finished lately), nobody (the group has no members), "
           "or unknown"),
    Column("drain_ms", F.DURATION, "time until the lag is gone at these rates", "DRAINS-IN"),
    Column("drain_low_ms", F.DURATION, "lower bound of drain_ms (95 % confidence)", "FROM"),
    Column("drain_high_ms", F.DURATION, "upper bound of drain_ms (95 % confidence); null where "
           "the lag may never be gone", "TO"),
    "retention_ms",
    Column("margin_ms", F.DURATION, "time until the oldest unfinished record may be deleted; "
           "null for never, or when not known", "MARGIN"),
    Column("lost", F.OFFSETS, "unfinished offsets that the log has deleted already"),
    view="group_id topic partition oldest_offset age_ms arrival_rate completion_rate "
         "redelivery_rate drain drain_low_ms drain_ms drain_high_ms margin_ms lost",
)  # fmt: skip

CAUSES = Table(
    "causes", "a cause of lag with its evidence",
    "group_id topic topic_id",
    Own("partition", "partition of the topic; null where the cause concerns the whole group"),
    Column("rank", F.COUNT, "1 is the most severe cause of the group", type=pa.int32()),
    Column("cause", F.TEXT, "why there is lag"),
    Column("severity", F.TEXT, "critical, warning or note"),
    Column("held", F.OFFSETS, "offsets of lag that the cause explains; null where not known",
           "HOLDS"),
    Column("since", F.TIME, "when it began; null where not known"),
    "summary",
    Column("advice", F.TEXT, "what to do"),
    Column("evidence", F.LIST, "what supports it",
           type=pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
    view="group_id rank cause held since",
)  # fmt: skip

OVERVIEW = Table(
    "overview", "a share group, judged",
    "group_id",
    # of `sharelag.tables.level.LEVELS`
    Column("level", F.TEXT, "ok, unknown, warning, critical, or failed"),
    Own("lag", "known lag of its share partitions; null: none is known"),
    "unknown_lags age_ms",
    Own("arrival_rate", "records that arrive per second, in all share partitions together"),
    Own("completion_rate", "offsets finished per second, in all share partitions together"),
    Column("gone", F.TEXT, "when the lag will be gone, at the observed rates", "DRAIN"),
    "members",
    Own("cause", "the most severe; null: none was found"),
    Own("why", "the main finding; null: no problem"),
    view=view("level group_id lag age_ms arrival_rate completion_rate gone members why",
              {"why": "main finding; - if there is no problem"}),
)  # fmt: skip

EVENTS = Table(
    "events",
    "an event of a share partition, or of its whole group: topic and partition are null then",
    "group_id topic topic_id partition",
    Column("happened_at", F.TIME, "when it happened; if several times, the first"),
    Column("event", F.TEXT, "new leader: a different leader wrote than before; reset: the state "
           "was replaced; state deleted; records archived; member joined; last member left"),
    Column("occurrences", F.COUNT, "records archived, or how often it happened"),
    Own("leader_epoch_before", "epoch before a new leader; if several within a step, before the "
        "first"),
    Own("leader_epoch", "epoch of a new leader; if several within a step, of the last"),
    Own("leader_id", "new leader, if it still leads; else null"),
    Own("member_id", "who joined or left; else null"),
    view="happened_at group_id topic partition event occurrences leader_epoch_before "
         "leader_epoch leader_id member_id",
)  # fmt: skip

#: Null if there is nothing to spread, or nothing known.
IMBALANCE = Table(
    "imbalance", "a measure and how it is spread over a group or a topic of it",
    "group_id",
    Own("topic", "null: over the whole group", in_view=True),
    Own("topic_id", "null: over the whole group"),
    Column("over", F.TEXT, "what the measure is spread over: partitions, topics, members or "
           "brokers"),
    Own("measure", "what is spread: lag, arrived, finished, members or partitions", in_view=True),
    Column("items", F.COUNT, "partitions, topics or members"),
    Column("unknown", F.COUNT, "how many of them have an unknown measure"),
    Column("total", F.RATIO, "sum of the measure"),
    Column("mean", F.RATIO, "mean of the measure"),
    Column("min", F.RATIO, "smallest value of the measure"),
    Column("max", F.RATIO, "largest value of the measure"),
    Column("max_mean", F.RATIO, "largest / mean: 1 is even", "MAX/MEAN"),
    Column("gini", F.RATIO, "Gini coefficient: 0 is even, 1 - 1/items is all on one item"),
    Column("cv", F.RATIO, "standard deviation / mean: 0 is even", "STD-DEV/MEAN"),
    Column("top_share", F.RATIO, "share of the total that the largest has"),
    Column("top3_share", F.RATIO, "share of the total that the three largest have together"),
    Column("jain", F.RATIO, "Jain's index: 1 is even, 1/items is all on one item"),
    "as_of",
    view="group_id topic over measure items total max max_mean gini cv top_share jain",
)  # fmt: skip

RESET_PLAN = Table(
    "reset_plan", "a share partition, and what a reset of its start offset would do to it",
    "group_id topic topic_id partition start_offset",
    Column("new_start_offset", F.OFFSET, "start offset after the reset", "NEW-START"),
    "lag",
    # null: not known, or the new start is beyond the log's end
    Column("new_lag", F.OFFSETS, "lag after the reset"),
    Column("again", F.OFFSETS, "finished offsets that would be delivered again"),
    Column("skipped", F.OFFSETS, "unfinished offsets that would no longer be delivered"),
    Column("skipped_unread", F.OFFSETS, "skipped offsets that were never in the window",
           "NEVER-READ"),
    # a median; null: not simulated, or not done in one of the runs
    Column("new_drain_ms", F.DURATION, "time until the new lag is gone, simulated at current rates",
           "NEW-DRAIN"),
    Column("remote", F.OFFSETS, "offsets from the new start offset on that are only in remote "
           "storage; null: not known"),
    view="group_id topic partition start_offset new_start_offset lag new_lag again skipped "
         "skipped_unread new_drain_ms remote",
)  # fmt: skip

DESCRIBED = Table(
    "described",
    "a line that kafka-share-groups.sh --describe --offsets printed; null for a dash",
    "group_id topic partition",
    Own("leader_epoch", "as printed with --verbose"),
    "start_offset",
    Own("lag", "as printed, since Kafka 4.2"),
    Own("as_of", "when it was printed; null: not known"),
)  # fmt: skip

#: The five kinds add up to ``unfinished``. Null where the start or end offset is not known, or the
#: partition's leader does not answer.
SCANNED = Table(
    "scanned", "a share partition with what the log holds at its unfinished offsets",
    "group_id topic topic_id partition",
    Column("unfinished", F.OFFSETS, "offsets that are not finished, as in the effective lag"),
    Own("records", "records that are committed, or not part of a transaction"),
    Column("undecided", F.COUNT, "records at or beyond the last stable offset, held by an open "
           "transaction"),
    Column("aborted", F.COUNT, "records of aborted transactions, delivered with read_uncommitted "
           "only"),
    Column("no_record", F.OFFSETS, "offsets of transaction markers and of compacted records; the "
           "log does not say which"),
    Column("deleted", F.OFFSETS, "offsets that are now below the log start"),
    Own("last_stable_offset", "when the log was read"),
    Own("as_of", "when the end offset was read"),
)  # fmt: skip

RECONCILED = Table(
    "reconciled", "a share partition with its lag by five definitions, and why they differ",
    "group_id topic",
    Own("topic_id", "id of the topic; null: described by Kafka, but not among the lag"),
    "partition",
    Column("described_lag", F.OFFSETS, "lag as kafka-share-groups.sh printed it, in offsets",
           "DESCRIBED"),
    "lag",
    Column("naive_lag", F.OFFSETS, "end offset - start offset, in offsets: the lag of a consumer "
           "group at the start offset", "NAIVE"),
    "effective_lag",
    Column("true_lag", F.OFFSETS, "records that exist, without transaction markers, aborted "
           "records and compacted offsets", "TRUE"),
    Column("matches", F.FLAG, "whether Kafka's lag equals the recomputed one; null if Kafka "
           "printed none"),
    Column("differences", F.DIFFERENCES, "why the numbers differ, as number:reason:offsets"),
    "as_of",
    view="group_id topic partition described_lag lag naive_lag effective_lag true_lag "
         "differences",
)  # fmt: skip

RECLAIMABLE = Table(
    "reclaimable", "a topic partition, and what its share groups have finished",
    Own("topic", "name of the topic; null where it is not known"),
    "topic_id partition",
    Column("groups", F.COUNT, "share groups that read the topic"),
    "log_start_offset",
    Own("start_offset", "lowest of its share groups; null: not known for one of them"),
    Own("group_id", "group with that start offset; if several, the first by name"),
    Column("reclaimable", F.OFFSETS, "offsets that every share group has finished"),
    "as_of",
)  # fmt: skip

CHECKED = Table(
    "checked", "a rule and a group that it judges",
    Column("rule", F.TEXT, "rule that was judged"),
    Own("level", "ok, warning, critical or unknown"),
    Own("measure", "what the rule compares; null: nothing, because the check itself failed"),
    Own("group_id", "share group; null: the rule concerns no group, or matches none"),
    Own("topic", "topic of the worst share partition; null: the whole group is judged"),
    Own("partition", "its partition; null likewise"),
    Own("value", "in the unit of the measure, times in milliseconds; null: unknown or infinite",
        pa.float64()),
    Column("at_least", F.FLAG, "true: the value is a lower bound, since part of it is unknown"),
    Column("warn", F.RATIO, "threshold of a warning, in the unit of the value; null: none"),
    Column("critical", F.RATIO, "critical threshold, in the unit of the value; null: none"),
    Own("since", "latest start of the level; null: none, or not known"),
    Column("due", F.TIME, "when it will get worse if nothing changes; null: not soon"),
    Column("at_this_level", F.COUNT, "share partitions of the group at this level or worse",
           "#PARTITIONS"),
    Column("silenced_until", F.TIME, "end of the silence; until then the rule does not count"),
    "summary as_of",
    view="level rule group_id topic partition at_this_level summary silenced_until",
)  # fmt: skip

ARCHIVED = Table(
    "archived", "a share partition, and what a share.record.ttl would have archived",
    "group_id topic topic_id partition effective_lag",
    Own("archived", "estimate of those at least as old as the TTL; null: no earlier end is known"),
    Column("archived_low", F.OFFSETS, "lower bound of the archived offsets"),
    Column("archived_high", F.OFFSETS, "upper bound of the archived offsets"),
    "as_of",
)  # fmt: skip

declare(
    Column("verdict", F.TEXT, "where the lag is concentrated"),
    Column("findings", F.LIST, "all kinds of skew that were found, clearest first"),
    Column("lag_gini", F.RATIO, "Gini coefficient of the lag: 0 is even", "GINI"),
    Column("lag_max_mean", F.RATIO, "largest lag / mean lag: 1 is even", "MAX/MEAN"),
    Column("unattended_partitions", F.COUNT, "share partitions without a member", "UNATTENDED"),
    Column("idle_members", F.COUNT, "members without work", "IDLE"),
    Column("started", F.TIME, "when the report was made", "MADE"),
    Column("report", F.TEXT, "name of the report"),
    Column("notebook", F.TEXT, "where its notebook is"),
    Column("run_id", F.TEXT, "name of the run's folder", "RUN"),
    Column("kept", F.FLAG, "whether the run is still there"),
    Column("headline", F.TEXT, "what the report found, in a sentence"),
    Column("per_member", F.RATE, "offsets finished per second by each member on average"),
    Column("skew", F.TEXT, "where the lag is concentrated"),
    Column("drained", F.TEXT, "runs in which nothing was left, out of all"),
    Column("age_p95_difference", F.TEXT, "95th percentile of the age, minus that of the baseline, "
           "with half of the interval"),
    Column("left", F.COUNT, "deliveries until the limit (share.delivery.count.limit)"),
    Column("trend", F.LIST, "lag at moments of the span; gaps where it is not known"),
)  # fmt: skip


declare(
    Column("forecast", F.TEXT, "age: that of the oldest unfinished record when due; drain: time "
           "until at most a twentieth of the lag is left"),
)  # fmt: skip

FORECASTS = Table(
    "forecasts", "a forecast for one share partition, and its outcome",
    "group_id topic topic_id partition",
    Own("as_of", "when it was made"),
    "forecast",
    Column("due_at", F.TIME, "when its outcome is due", "DUE"),
    "drain",
    Own("effective_lag", "unfinished offsets when it was made"),
    Column("rate_ms", F.DURATION, "forecast of lag / rate; for an age, lag then / arrival rate",
           "LAG/RATE"),
    Column("trend_ms", F.DURATION, "centre of the interval: for an age, its current value and its "
           "growth at the current rates; for a drain, lag / rate"),
    Column("low_ms", F.DURATION, "lower end of an interval that should contain 80 % of such "
           "outcomes; null: too few similar forecasts have been scored", "FROM"),
    Column("middle_ms", F.DURATION, "median: half of such outcomes should lie below it; null "
           "likewise", "ABOUT"),
    Column("high_ms", F.DURATION, "upper end of that interval; null likewise", "TO"),
    Column("actual_ms", F.DURATION, "actual value; for a drain that took longer, the time until "
           "the forecast was due; null: not due, or not known"),
    Column("outcome", F.TEXT, "came true, missed, not known, or no interval; null: not due"),
    Own("reason", "why the outcome is not known"),
    Column("scored_at", F.TIME, "moment of the reading that scored it; null: not due"),
    view="group_id topic partition forecast drain due_at low_ms middle_ms high_ms rate_ms",
)  # fmt: skip

CALIBRATION = Table(
    "calibration", "forecasts of one kind, and how often they came true",
    "forecast",
    Column("scored", F.COUNT, "forecasts with an interval whose outcome is known"),
    Column("came_true", F.COUNT, "those of them whose outcome lay in the interval"),
    Column("covered", F.RATIO, "came true / scored, which should be 0.8; null: none scored"),
    Column("crps_ms", F.RATIO, "mean continuous ranked probability score (CRPS), from the 10, 50 "
           "and 90 % points; smaller is better", "CRPS-MS"),
    Column("rate_crps_ms", F.RATIO, "the same for lag / rate, on the same forecasts; for a single "
           "number it is the absolute error", "LAG/RATE-CRPS-MS"),
    Column("interval_score_ms", F.RATIO, "mean interval (Winkler) score of the 80 % intervals"),
    Column("shown", F.FLAG, "whether it beats lag / rate by CRPS; otherwise it is not shown"),
    Column("untold", F.COUNT, "due forecasts whose outcome is not known"),
    Column("not_due", F.COUNT, "forecasts whose outcome is not due"),
    view="forecast scored came_true covered crps_ms rate_crps_ms interval_score_ms shown untold "
         "not_due",
)  # fmt: skip
