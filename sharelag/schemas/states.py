"""What records leave behind: the state of share partitions and groups, now or after each record."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.records import (
    NAMED_TOPIC_PARTITIONS,
    SHARE_PARTITION_COLUMNS,
    STATE_BATCH,
    TIMESTAMP,
    TOPIC_PARTITIONS,
)

#: One share partition as of one moment. Should its records stand in several state partitions or
#: topics (a mirror, another cluster's, a misplaced record), each of them is a separate state, as
#: it is to Kafka.
WINDOWS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),  # as persisted; null: not known yet
        # past the leading finished offsets; null: unknown
        ("effective_start_offset", pa.int64()),
        # exclusive: after the last persisted batch; a durable lower bound
        ("window_end_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),  # null: not known
        ("create_timestamp", TIMESTAMP),  # null: no snapshot seen
        ("write_timestamp", TIMESTAMP),
        ("batches", pa.list_(STATE_BATCH)),  # as coordinators of that version hold them
        ("runs", pa.list_(STATE_BATCH)),  # for people: clipped, sorted, neighbours merged
        ("from_snapshot", pa.bool_()),  # false: only updates were seen, so the state is partial
        # records of this share partition that could not be replayed
        ("rejected_records", pa.int32()),
        ("record_topic", pa.string()),  # the last record this state rests on ...
        ("record_partition", pa.int32()),
        ("record_offset", pa.int64()),
        ("record_timestamp", TIMESTAMP),
    ]
)

#: One share partition after one record: the numbers of its window. Sorted by share partition, then
#: offset.
HISTORY = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("record_topic", pa.string()),
        ("record_partition", pa.int32()),
        ("record_offset", pa.int64()),
        ("record_timestamp", TIMESTAMP),
        # snapshot, update, tombstone (no state after it), or rejected by replay
        ("record_kind", pa.string()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("effective_start_offset", pa.int64()),
        ("window_end_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("window_available", pa.int64()),  # offsets that were released or timed out
        ("window_complete", pa.int64()),  # offsets finished at or after the start offset
        ("runs", pa.int32()),  # how many, from the effective start offset on
        # of the offsets that are not finished; 0 when none was given back
        ("max_delivery_count", pa.int16()),
        # of the effective start offset; 0 when it was not given back
        ("head_delivery_count", pa.int16()),
        # What changed since the row before; null where that is not known (see `follows`) or the
        # state was replaced.
        ("finished", pa.int64()),  # offsets acknowledged, archived, or passed by the start offset
        # offsets archived in the batches: rejected, at the limit, or gaps
        ("archived", pa.int64()),
        ("released", pa.int64()),  # offsets given back: their delivery failed or timed out
        ("redelivered", pa.int64()),  # deliveries that ended, beyond the first of their offset
        ("replaced", pa.bool_()),  # the record replaced the state: created, reset or altered
        # a snapshot of the same state as before, written anew; null: not known, as above
        ("rewritten", pa.bool_()),
        # another leader wrote than before; null: not known, such as of the first that wrote
        ("leader_changed", pa.bool_()),
        # false: the state is partial, since no snapshot, or a gap after it, was seen
        ("from_snapshot", pa.bool_()),
        # false: records may be missing between the row before and this one
        ("follows", pa.bool_()),
    ]
)

#: What the history of one share partition says about a span of time: a row instead of thousands.
OBSERVED = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("begin", TIMESTAMP),  # the requested span, or what there is evidence of within it
        ("end", TIMESTAMP),
        ("records", pa.int64()),  # rows of history in the span
        # rows among them before which records may be missing, or whose state is partial
        ("breaks", pa.int64()),
        ("replacements", pa.int64()),  # times the state was created or reset
        ("finished", pa.int64()),  # sums over the rows where it is known
        ("archived", pa.int64()),
        ("released", pa.int64()),
        ("redelivered", pa.int64()),
        # finished in ten equal parts of the span, for its variation
        ("finished_bins", pa.list_(pa.int64())),
        ("released_bins", pa.list_(pa.int64())),  # likewise, for when it began
        # of the last row that finished anything; also before the span
        ("last_finished", TIMESTAMP),
        ("last_released", TIMESTAMP),
        # median time between rows that gave offsets back; null: fewer than three
        ("release_every_ms", pa.int64()),
        ("head_offset", pa.int64()),  # the effective start offset at the end
        ("head_since", TIMESTAMP),  # since when; also before the span; null without a head
        # true: it was so already in the first row seen, so since that or longer
        ("head_is_older", pa.bool_()),
        ("head_delivery_count", pa.int16()),
        ("max_delivery_count", pa.int16()),  # of the offsets not finished at the end
        # times the start offset fell although the state was not replaced
        ("start_back", pa.int64()),
        ("start_back_at", TIMESTAMP),  # the last of them
        ("start_back_record", pa.string()),  # its record: state partition:offset
        ("count_back", pa.int64()),  # times start offset + delivery complete count fell, likewise
        ("count_back_at", TIMESTAMP),
        ("count_back_record", pa.string()),
    ]
)

#: One share partition with its last snapshot, and what is replayed on top of it.
SNAPSHOTS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        ("record_topic", pa.string()),
        ("record_partition", pa.int32()),
        ("snapshot_offset", pa.int64()),  # in that partition; null: no snapshot was seen
        ("snapshot_timestamp", TIMESTAMP),
        ("snapshot_epoch", pa.int32()),
        ("updates_since", pa.int64()),
        ("rejected_since", pa.int64()),  # updates that do not count
        # false: no snapshot was seen, or a record may be missing since
        ("from_snapshot", pa.bool_()),
        ("record_offset", pa.int64()),  # of the last record of the share partition
        ("record_timestamp", TIMESTAMP),
    ]
)

#: One member of one share group.
MEMBERS = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rack_id", pa.string()),
        ("subscribed_topic_names", pa.list_(pa.string())),
        ("member_epoch", pa.int32()),
        ("previous_member_epoch", pa.int32()),
        ("assigned_partitions", TOPIC_PARTITIONS),  # what the member was assigned
        ("target_partitions", TOPIC_PARTITIONS),  # what the assignor wants it to fetch
        ("joined", TIMESTAMP),  # its first record seen; it may be older
        ("changed", TIMESTAMP),  # its last record
    ]
)

#: One share group, by its records in ``__consumer_offsets``.
GROUPS = pa.schema(
    [
        ("group_id", pa.string()),
        ("state", pa.string()),  # Stable or Empty, as Kafka calls a group with and without members
        ("group_epoch", pa.int32()),
        ("assignment_epoch", pa.int32()),
        ("assignment_timestamp", TIMESTAMP),  # since 4.3
        ("members", pa.int32()),
        ("initialized_topics", NAMED_TOPIC_PARTITIONS),  # what can be assigned
        ("initializing_topics", NAMED_TOPIC_PARTITIONS),
        (
            "deleting_topics",
            pa.list_(pa.struct([("topic_id", pa.string()), ("topic_name", pa.string())])),
        ),
        # when the last member left; null while there are members, or when not seen
        ("emptied", TIMESTAMP),
        # members that left and are gone, in that order, with epoch milliseconds (Spark would keep
        # microseconds here), as far as the topic still has the tombstones
        (
            "departures",
            pa.list_(pa.struct([("member_id", pa.string()), ("left_ms", pa.int64())])),
        ),
        ("changed", TIMESTAMP),  # its last record
    ]
)
