"""The state of share partitions: now, in the past, and after each record."""

from __future__ import annotations

import pyarrow as pa

from sharelag.tables.table import Column, Own, Table, declare, view
from sharelag.tables.table import Format as F

declare(
    Column("record_topic", F.TEXT, "topic of the record"),
    Column("record_partition", F.ORDINAL, "its partition there, which is not the share "
           "partition's"),
    Column("record_offset", F.OFFSET, "offset of the record"),
    Column("record_timestamp", F.TIME, "when the state record was written", "TIME"),
    Column("records", F.COUNT, "records of the state topic"),
)  # fmt: skip

#: If records of a share partition are in several state partitions or topics (a mirror, another
#: cluster, a misplaced record), each of these has a separate state, as for Kafka. Lag has one row.
WINDOWS = Table(
    "windows", "a share partition with its state",
    "group_id topic_id partition",
    Column("snapshot_epoch", F.ORDINAL, "epoch of the last snapshot"),
    Column("state_epoch", F.ORDINAL, "epoch of the state: grows when the share partition is "
           "initialised again or its offsets are reset"),
    "leader_epoch start_offset",
    Own("effective_start_offset", "first offset that is not finished; null where not known"),
    # a durable lower bound
    Own("window_end_offset", "offset after the last persisted batch"),
    "delivery_complete_count",
    Column("create_timestamp", F.TIME, "when the state was created; null where no snapshot was "
           "seen"),
    Column("write_timestamp", F.TIME, "when the last snapshot was written"),
    Column("batches", F.RUNS, "state batches as the coordinator holds them; where the version of "
           "Kafka is not known, as that of 4.4 does, and a boundary between equal neighbours "
           "means nothing"),
    # clipped, sorted, neighbours merged
    Column("runs", F.RUNS, "offsets in the window as first-last:state/delivery count; counts are "
           "approximate: they are written when a delivery ends, and one may be lost"),
    Column("from_snapshot", F.FLAG, "false: only updates were seen, so that the state is partial"),
    Column("rejected_records", F.COUNT, "records of the share partition that could not be replayed",
           type=pa.int32()),
    Own("record_topic", "topic of the last record that the state rests on"),
    Own("record_partition", "partition of that record"),
    Own("record_offset", "offset of that record"),
    Own("record_timestamp", "when that record was written"),
    view="group_id topic partition state_epoch leader_epoch start_offset "
         "effective_start_offset window_end_offset runs",
)  # fmt: skip

#: Sorted by share partition, then offset.
HISTORY = Table(
    "history", "a share partition after one record, and what that changed",
    "group_id topic_id partition record_topic",
    Own("record_partition", "partition of the record"),
    "record_offset record_timestamp",
    Column("record_kind", F.TEXT, "snapshot, update, or tombstone of a deleted share partition",
           "RECORD"),
    "snapshot_epoch state_epoch leader_epoch start_offset",
    Own("effective_start_offset", "first offset that is not finished; null where not known"),
    Own("window_end_offset", "offset after the last persisted batch"),
    "delivery_complete_count window_available window_complete",
    Own("runs", "runs of offsets with the same state and delivery count in the window",
        type=pa.int32(), in_view=True),
    # 0 if none was released
    Column("max_delivery_count", F.COUNT, "highest delivery count of an offset in the window, "
           "approximate", "MAX-DELIVERIES", type=pa.int16()),
    Column("head_delivery_count", F.COUNT, "deliveries of the first unfinished offset; 0: none "
           "has ended yet", type=pa.int16()),
    # from here on: changes since the previous row; null, too, if the state was replaced
    Column("finished", F.OFFSETS, "offsets that the record finished: acknowledged, archived, or "
           "passed by the start offset"),
    Column("archived", F.OFFSETS, "offsets archived: rejected, at the delivery limit, or gaps"),
    Column("released", F.OFFSETS, "offsets given back: released, or their lock expired"),
    Column("redelivered", F.COUNT, "deliveries that ended, beyond the first of their offset"),
    Column("replaced", F.FLAG, "true: the record replaced the state: created, reset or altered"),
    Column("rewritten", F.FLAG, "true: a snapshot that changed nothing, such as Kafka writes for "
           "states that have not changed for long; null where that is not known"),
    Column("leader_changed", F.FLAG, "true: different leaders wrote this record and the previous "
           "one; null if a leader did not write one of them, or is not known"),
    "from_snapshot",
    Column("follows", F.FLAG, "false: records may be missing before this one; changes are null "
           "then"),
    view="record_timestamp group_id topic partition record_kind leader_epoch event "
         "start_offset effective_start_offset window_end_offset window_complete "
         "window_available runs max_delivery_count finished released archived partial",
)  # fmt: skip

OBSERVED = Table(
    "observed", "a share partition, summed up over the span before the moment",
    "group_id topic_id partition",
    # or the part of the span with evidence
    Column("begin", F.TIME, "first moment of the span"),
    Column("end", F.TIME, "last moment of the span"),
    Own("records", "state records in the span"),
    Column("breaks", F.COUNT, "records before which others may be missing, or whose state is "
           "partial"),
    Column("replacements", F.COUNT, "times the state was created or reset"),
    Own("finished", "offsets finished in the span: acknowledged, archived, or passed by the "
        "start offset"),
    Own("archived", "offsets archived in the span"),
    Own("released", "offsets given back in the span"),
    "redelivered",
    Column("finished_bins", F.LIST, "`finished` in ten equal parts of the span",
           type=pa.list_(pa.int64())),
    Column("released_bins", F.LIST, "`released` in ten equal parts of the span",
           type=pa.list_(pa.int64())),
    # also before the span
    Column("last_finished", F.TIME, "when something was last finished"),
    Column("last_released", F.TIME, "when something was last given back"),
    Column("release_every_ms", F.DURATION, "median time between records that gave offsets back; "
           "null: fewer than three"),
    Column("head_offset", F.OFFSET, "first offset that is not finished, at the end"),
    # also before the span; null without a head
    Column("head_since", F.TIME, "since when this offset is the first"),
    Column("head_is_older", F.FLAG, "true: it may have been so for longer"),
    "head_delivery_count max_delivery_count",
    Column("start_back", F.COUNT, "times the start offset went back although the state was not "
           "replaced"),
    Column("start_back_at", F.TIME, "the last of these times"),
    Column("start_back_record", F.TEXT, "its record, as state partition:offset; --as-of takes it"),
    Column("count_back", F.COUNT, "times start offset + delivery complete count went back although "
           "the state was not replaced"),
    Column("count_back_at", F.TIME, "the last of these times"),
    Column("count_back_record", F.TEXT, "its record, as state partition:offset; --as-of takes it"),
)  # fmt: skip

SNAPSHOTS = Table(
    "snapshots", "a share partition with its last snapshot, and how many updates followed",
    "group_id topic_id partition",
    Own("record_topic", "topic of its state records"),
    Own("record_partition", "partition of the state topic that its records are in", in_view=True),
    Column("snapshot_offset", F.OFFSET, "offset of the last snapshot in the state partition; "
           "null: none was seen"),
    Column("snapshot_timestamp", F.TIME, "when that snapshot was written", "SNAPSHOT"),
    Own("snapshot_epoch", "of that snapshot"),
    Column("updates_since", F.COUNT, "updates after it, which are replayed on top of it"),
    Column("rejected_since", F.COUNT, "updates after it that do not count"),
    Own("from_snapshot", "false: no snapshot was seen, or a record may be missing since"),
    Own("record_offset", "offset of its last record there", in_view=True),
    Own("record_timestamp", "when that record was written", in_view=True),
    view=view("group_id topic partition record_partition snapshot_offset snapshot_timestamp "
              "updates_since rejected_since record_offset record_timestamp",
              record_partition="STATE-PARTITION", record_offset="LAST-OFFSET",
              record_timestamp="LAST-RECORD"),
)  # fmt: skip

TIMELINE = Table(
    "timeline", "a share partition at one moment of the past",
    "group_id topic topic_id partition as_of start_offset effective_start_offset",
    "window_end_offset end_offset delivery_complete_count lag unread window_available",
    "window_complete max_delivery_count lag_reason",
    view="as_of group_id topic partition start_offset lag end_offset unread window_available "
         "window_complete lag_reason",
)  # fmt: skip

DIFF = Table(
    "diff", "a share partition at two moments",
    "group_id topic topic_id partition",
    Column("change", F.TEXT, "new, gone, reset, moved, same, or unknown (pruned)"),
    Own("finished", "offsets finished in between; null where the states cannot be compared"),
    Column("start_offset_before", F.OFFSET, "first offset of the window (SPSO), at the first "
           "moment", "START-BEFORE"),
    Column("start_offset_after", F.OFFSET, "first offset of the window (SPSO), at the second "
           "moment", "START-AFTER"),
    Column("effective_start_offset_before", F.OFFSET, "first offset that was not finished, at "
           "the first moment"),
    Column("effective_start_offset_after", F.OFFSET, "first offset that was not finished, at the "
           "second moment"),
    Column("window_end_offset_before", F.OFFSET, "offset after the window's last, at the first "
           "moment", "WINDOW-END-BEFORE"),
    Column("window_end_offset_after", F.OFFSET, "offset after the window's last, at the second "
           "moment", "WINDOW-END-AFTER"),
    Column("delivery_complete_count_before", F.COUNT, "delivery complete count at the first moment",
           type=pa.int32()),
    Column("delivery_complete_count_after", F.COUNT, "delivery complete count at the second moment",
           type=pa.int32()),
    Column("runs_before", F.RUNS, "offsets in the window as first-last:state/delivery count, at "
           "the first moment"),
    Column("runs_after", F.RUNS, "offsets in the window as first-last:state/delivery count, at "
           "the second moment"),
    Column("leader_epoch_before", F.ORDINAL, "epoch of the leader that last wrote, at the first "
           "moment or before", "EPOCH-BEFORE"),
    Column("leader_epoch_after", F.ORDINAL, "epoch of the leader that last wrote, at the second "
           "moment", "EPOCH-AFTER"),
    view=view("group_id topic partition change finished start_offset_before start_offset_after "
              "window_end_offset_before window_end_offset_after leader_epoch_before "
              "leader_epoch_after runs_before runs_after",
              {"finished": "offsets finished in between"}),
)  # fmt: skip

declare(
    Column("partial", F.TEXT, "the state is partial: its snapshot was not seen"),
    Column("first_released", F.TIME, "when something was first given back"),
    Column("first_archived", F.TIME, "when something was first archived"),
    Column("first_reset", F.TIME, "when the state was first replaced"),
)  # fmt: skip
