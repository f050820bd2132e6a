"""Columns of what happened over time: histories, spans, and two moments side by side."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

_WINDOW_END = "offset after the window's last"
_RUNS = "offsets in the window as first-last:state/delivery count"

COLUMNS = {
    "new_start_offset": Column(Format.OFFSET, "start offset after the reset", "NEW-START"),
    "new_lag": Column(Format.OFFSETS, "lag after the reset", "NEW-LAG"),
    "again": Column(Format.OFFSETS, "finished offsets that would be delivered again"),
    "skipped": Column(Format.OFFSETS, "unfinished offsets that would not be delivered any more"),
    "skipped_unread": Column(
        Format.OFFSETS, "those among them that were never in the window", "NEVER-READ"
    ),
    "remote": Column(
        Format.OFFSETS,
        "offsets from the new start offset on that are in remote storage alone; null: not known",
    ),
    "new_drain_ms": Column(
        Format.DURATION, "time until the new lag is done, simulated at today's rates", "NEW-DRAIN"
    ),
    "record_timestamp": Column(Format.TIME, "when the state record was written", "TIME"),
    "record_kind": Column(
        Format.TEXT, "snapshot, update, or tombstone of a deleted share partition", "RECORD"
    ),
    "max_delivery_count": Column(
        Format.COUNT,
        "highest delivery count of an offset in the window, approximate",
        "MAX-DELIVERIES",
    ),
    "head_delivery_count": Column(
        Format.COUNT, "deliveries of the first unfinished offset; 0: none has ended yet"
    ),
    "finished": Column(
        Format.OFFSETS,
        "offsets that the record finished: acknowledged, archived, or passed by the start offset",
    ),
    "released": Column(Format.OFFSETS, "offsets given back: released, or their lock expired"),
    "archived": Column(
        Format.OFFSETS, "offsets archived: rejected, at the delivery limit, or gaps"
    ),
    "redelivered": Column(Format.COUNT, "deliveries that ended, beyond the first of their offset"),
    "partial": Column(Format.TEXT, "the state is partial: its snapshot was not seen"),
    "replaced": Column(
        Format.FLAG, "true: the record replaced the state: created, reset or altered"
    ),
    "rewritten": Column(
        Format.FLAG,
        "true: a snapshot that changed nothing, such as Kafka writes of states that are long "
        "unchanged; null where that is not known",
    ),
    "leader_changed": Column(
        Format.FLAG,
        "true: another leader wrote this record than the one before; null where a leader did not "
        "write both, or one is not known",
    ),
    "event": Column(
        Format.TEXT,
        "new leader: another leader wrote than before; reset: the state was replaced; records "
        "archived; member joined; last member left",
    ),
    "happened_at": Column(Format.TIME, "when it happened; of several, the first"),
    "occurrences": Column(Format.COUNT, "records archived, or how often it happened"),
    "follows": Column(
        Format.FLAG, "false: records may be missing before this one; changes are null then"
    ),
    "begin": Column(Format.TIME, "first moment of the span"),
    "end": Column(Format.TIME, "last moment of the span"),
    "breaks": Column(
        Format.COUNT, "records before which others may be missing, or whose state is partial"
    ),
    "replacements": Column(Format.COUNT, "times the state was created or reset"),
    "finished_bins": Column(Format.LIST, "`finished` in ten equal parts of the span"),
    "released_bins": Column(Format.LIST, "`released` in ten equal parts of the span"),
    "last_finished": Column(Format.TIME, "when anything was finished last"),
    "last_released": Column(Format.TIME, "when anything was given back last"),
    "first_released": Column(Format.TIME, "when anything was given back first"),
    "first_archived": Column(Format.TIME, "when anything was archived first"),
    "first_reset": Column(Format.TIME, "when the state was replaced first"),
    "release_every_ms": Column(
        Format.DURATION,
        "median time between records that gave offsets back; null: fewer than three",
    ),
    "head_offset": Column(Format.OFFSET, "first offset that is not finished, at the end"),
    "head_since": Column(Format.TIME, "since when this offset is the first"),
    "head_is_older": Column(Format.FLAG, "true: it may have been so for longer"),
    "start_back": Column(
        Format.COUNT, "times the start offset fell although the state was not replaced"
    ),
    "start_back_at": Column(Format.TIME, "the last of these times"),
    "start_back_record": Column(
        Format.TEXT, "its record, as state partition:offset; --as-of takes it"
    ),
    "count_back": Column(
        Format.COUNT,
        "times start offset + delivery complete count fell although the state was not replaced",
    ),
    "count_back_at": Column(Format.TIME, "the last of these times"),
    "count_back_record": Column(
        Format.TEXT, "its record, as state partition:offset; --as-of takes it"
    ),
    "change": Column(Format.TEXT, "new, gone, reset, moved, same, or unknown (pruned)"),
    "start_offset_before": Column(
        Format.OFFSET, "first offset of the window (SPSO), at the first moment", "START-BEFORE"
    ),
    "start_offset_after": Column(
        Format.OFFSET, "first offset of the window (SPSO), at the second moment", "START-AFTER"
    ),
    "effective_start_offset_before": Column(
        Format.OFFSET, "first offset that was not finished, at the first moment"
    ),
    "effective_start_offset_after": Column(
        Format.OFFSET, "first offset that was not finished, at the second moment"
    ),
    "delivery_complete_count_before": Column(
        Format.COUNT, "delivery complete count at the first moment"
    ),
    "delivery_complete_count_after": Column(
        Format.COUNT, "delivery complete count at the second moment"
    ),
    "window_end_offset_before": Column(
        Format.OFFSET, f"{_WINDOW_END}, at the first moment", "WINDOW-END-BEFORE"
    ),
    "window_end_offset_after": Column(
        Format.OFFSET, f"{_WINDOW_END}, at the second moment", "WINDOW-END-AFTER"
    ),
    "runs_before": Column(Format.RUNS, f"{_RUNS}, at the first moment"),
    "runs_after": Column(Format.RUNS, f"{_RUNS}, at the second moment"),
    "leader_epoch_before": Column(
        Format.ORDINAL,
        "of the leader that had written last, at the first moment or before",
        "EPOCH-BEFORE",
    ),
    "leader_epoch_after": Column(
        Format.ORDINAL, "of the leader that had written last, at the second moment", "EPOCH-AFTER"
    ),
}
