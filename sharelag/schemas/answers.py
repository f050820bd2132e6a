"""Answers: lag and its sums, age and rates, causes, imbalance, health of the state topic."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import NAMED_SHARE_PARTITION, STATE_BATCH, TIMESTAMP

#: One share partition: every term of its lag. See ``sharelag.metrics.lag`` for the identities
#: between them.
LAG = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        # as persisted and as kafka-share-groups.sh prints it: null without a start offset
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        # past finished offsets, and not below the log start
        ("effective_start_offset", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("window_end_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("lag", pa.int64()),  # end - start - count, never negative (KIP-1226)
        # unfinished offsets still in the log, by the batches themselves
        ("effective_lag", pa.int64()),
        ("unread", pa.int64()),  # beyond the window: never persisted
        ("window_available", pa.int64()),  # released or timed out: waiting for another delivery
        ("window_unknown", pa.int64()),  # acquired, or never persisted: Kafka does not write which
        # acknowledged or archived, but not yet passed by the start offset
        ("window_complete", pa.int64()),
        ("lag_reason", pa.string()),  # why lag is null
        ("notes", pa.list_(pa.string())),  # what to know about this row
        ("as_of", TIMESTAMP),  # when the end offset was read
    ]
)

#: Many share partitions together: those of a group, or of one topic in a group.
ROLLUP = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),  # null when summed up by group
        ("topic_id", pa.string()),
        ("partitions", pa.int64()),  # share partitions
        ("unknown_lags", pa.int64()),  # those among them whose lag is null
        ("lag", pa.int64()),  # of the others
        ("max_lag", pa.int64()),
        ("effective_lag", pa.int64()),
        ("unread", pa.int64()),
        ("window_available", pa.int64()),
        ("window_unknown", pa.int64()),
        ("window_complete", pa.int64()),
        ("as_of", TIMESTAMP),
    ]
)

#: One share partition at one moment of the past.
TIMELINE = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("as_of", TIMESTAMP),
        ("start_offset", pa.int64()),
        ("effective_start_offset", pa.int64()),
        ("window_end_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("lag", pa.int64()),
        ("unread", pa.int64()),
        ("window_available", pa.int64()),
        ("window_complete", pa.int64()),
        ("max_delivery_count", pa.int16()),
        ("lag_reason", pa.string()),  # why lag is null
    ]
)

#: What happened to a share partition, or to its whole group: topic and partition are null then.
EVENTS = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("happened_at", TIMESTAMP),  # the first of `occurrences` within a step
        ("event", pa.string()),
        ("occurrences", pa.int64()),  # records archived; else how often within the step
        # of a new leader; of several within a step, before the first and of the last
        ("leader_epoch_before", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("leader_id", pa.int32()),  # the broker, where it leads still; else null
        ("member_id", pa.string()),  # who joined or left; else null
    ]
)

#: One share partition at two moments.
DIFF = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        # new, gone, reset (initialised anew or altered), moved, same, or unknown (pruned)
        ("change", pa.string()),
        # offsets finished between them; null where the states cannot be compared
        ("finished", pa.int64()),
        ("start_offset_before", pa.int64()),
        ("start_offset_after", pa.int64()),
        ("effective_start_offset_before", pa.int64()),
        ("effective_start_offset_after", pa.int64()),
        ("window_end_offset_before", pa.int64()),
        ("window_end_offset_after", pa.int64()),
        ("delivery_complete_count_before", pa.int32()),
        ("delivery_complete_count_after", pa.int32()),
        ("runs_before", pa.list_(STATE_BATCH)),
        ("runs_after", pa.list_(STATE_BATCH)),
        # of the leader that wrote last; another one: the leader changed in between
        ("leader_epoch_before", pa.int32()),
        ("leader_epoch_after", pa.int32()),
    ]
)

#: How old is the lag of one share partition, is it growing, and how long will its records be kept?
PROGRESS = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("as_of", TIMESTAMP),
        ("oldest_offset", pa.int64()),  # the first that is not finished; null: none, or not known
        ("oldest_timestamp", TIMESTAMP),
        # record: read from it; interpolated: between known times of its neighbours
        ("oldest_from", pa.string()),
        ("age_ms", pa.int64()),  # lag in time; 0 when nothing is left to do
        ("observed_ms", pa.int64()),  # the span that the rates cover: since they last changed
        # places in it where records are missing: with any, the rates are lower bounds
        ("breaks", pa.int64()),
        ("arrival_rate", pa.float64()),  # records a second
        ("completion_rate", pa.float64()),
        ("redelivery_rate", pa.float64()),
        # drained, drains, never (arrivals win), stalled (nothing finishes), paused (nothing
        # lately), nobody (is in the group), or unknown
        ("drain", pa.string()),
        ("drain_ms", pa.int64()),
        ("drain_low_ms", pa.int64()),  # from the observed variation of the rates
        ("drain_high_ms", pa.int64()),  # null where it may be never
        ("retention_ms", pa.int64()),  # of the topic; -1 keeps for ever
        # until the oldest unfinished record may be deleted; null: never, or not known
        ("margin_ms", pa.int64()),
        ("lost", pa.int64()),  # unfinished offsets that the log has deleted already
    ]
)

#: One reason for a lag, with what shows it.
CAUSES = pa.schema(
    [
        *NAMED_SHARE_PARTITION,  # partition is null where the reason concerns the whole group
        ("rank", pa.int32()),  # 1 comes first in the group
        ("cause", pa.string()),
        ("severity", pa.string()),  # critical, warning or note
        ("held", pa.int64()),  # how many offsets of lag it explains; null: unknown
        ("since", TIMESTAMP),  # null: not known
        ("summary", pa.string()),
        ("advice", pa.string()),
        ("evidence", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
    ]
)

#: What a reset of its start offset would do to one share partition.
RESET_PLAN = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("start_offset", pa.int64()),
        ("new_start_offset", pa.int64()),  # null: not known
        ("lag", pa.int64()),
        ("new_lag", pa.int64()),  # null: not known, or the new start is beyond the log's end
        ("again", pa.int64()),  # finished offsets that would be delivered again
        ("skipped", pa.int64()),  # unfinished offsets that would never be delivered (again)
        ("skipped_unread", pa.int64()),  # those among them that lie beyond the window
        # median of simulations at today's rates; null: not simulated, or not done in one of them
        ("new_drain_ms", pa.int64()),
        # from the new start offset on, before the broker's own disk begins; null: not known
        ("remote", pa.int64()),
    ]
)

#: One share group, judged.
OVERVIEW = pa.schema(
    [
        ("group_id", pa.string()),
        ("level", pa.string()),  # of `sharelag.tables.level.LEVELS`
        ("lag", pa.int64()),  # known lag of its share partitions; null: none is known
        ("unknown_lags", pa.int64()),  # share partitions with an unknown lag
        ("age_ms", pa.int64()),  # of the oldest unfinished record; null: unknown
        ("arrival_rate", pa.float64()),  # records a second, of all share partitions together
        ("completion_rate", pa.float64()),
        ("gone", pa.string()),  # when the lag will be gone, in words
        ("members", pa.int32()),  # null: not known
        ("cause", pa.string()),  # the first; null: none was found
        ("why", pa.string()),  # the main finding; null: no problem
    ]
)

#: How unevenly one measure is spread. Null where it cannot be said: nothing to spread, or nothing
#: known.
IMBALANCE = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),  # null: over the whole group
        ("topic_id", pa.string()),
        ("over", pa.string()),  # partition, topic, member or broker: what it is spread over
        ("measure", pa.string()),  # lag, arrived, finished, members, partitions: what is spread
        ("items", pa.int64()),  # partitions, topics or members
        ("unknown", pa.int64()),  # those among them whose measure is not known
        ("total", pa.float64()),
        ("mean", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("max_mean", pa.float64()),  # 1 is even, `items` is all on one
        ("gini", pa.float64()),  # 0 is even, 1 - 1/items is all on one
        ("cv", pa.float64()),  # population standard deviation over mean
        ("top_share", pa.float64()),  # of the largest one
        ("top3_share", pa.float64()),  # of the three largest together
        ("jain", pa.float64()),  # 1 is even, 1/items is all on one
        ("as_of", TIMESTAMP),
    ]
)

#: One partition of the state topic.
HEALTH = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("first_timestamp", TIMESTAMP),
        ("last_timestamp", TIMESTAMP),
        ("records", pa.int64()),
        ("snapshots", pa.int64()),
        ("updates", pa.int64()),
        ("tombstones", pa.int64()),
        ("rejects", pa.int64()),
        ("bytes", pa.int64()),  # of keys and values
        # offsets between the first and the last that were not among the records
        ("missing", pa.int64()),
        ("share_partitions", pa.int64()),  # alive
        ("updates_per_snapshot", pa.float64()),
        ("finished", pa.int64()),  # offsets finished by these records, where known
        ("bytes_per_finished", pa.float64()),
        ("misplaced", pa.int64()),  # records whose key hashes to another partition
        # the oldest last snapshot: what is below, the coordinator may prune
        ("needed_from", pa.int64()),
        ("prunable", pa.int64()),  # records below that are still there
        # the share partition that snapshot is of: group:topic id:partition
        ("pinned_by", pa.string()),
        # kinds of records seen, such as "update v0 with count"
        ("generations", pa.list_(pa.string())),
    ]
)
