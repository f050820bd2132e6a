"""The columns of a report's tables, by heading, in their order."""

from __future__ import annotations

PROGRESS = {
    "Group": "group_id",
    "Topic": "topic",
    "Partition": "partition",
    "Age": "age_ms",
    "Arriving": "arrival_rate",
    "Finishing": "completion_rate",
    "Redelivered": "redelivery_rate",
    "Drain": "drain",
    "Gone in about": "drain_ms",
    "At the latest": "drain_high_ms",
    "Margin": "margin_ms",
}
SIGNS = {
    "Group": "group_id",
    "Topic": "topic",
    "Partition": "partition",
    "First given back": "first_released",
    "First archived": "first_archived",
    "First reset": "first_reset",
    "Given back": "released",
    "Archived": "archived",
    "Finished": "finished",
    "Last finished": "last_finished",
}
MOVED = {
    "Group": "group_id",
    "Topic": "topic",
    "Partition": "partition",
    "Change": "change",
    "Finished": "finished",
    "Start before": "start_offset_before",
    "Start now": "start_offset_after",
    "Window end before": "window_end_offset_before",
    "Window end now": "window_end_offset_after",
}
HEADROOM = {
    "Group": "group_id",
    "Members": "members",
    "Share partitions": "partitions",
    "Arriving": "arrival_rate",
    "Finishing": "completion_rate",
    "Finishing a member": "per_member",
    "Lag": "lag",
    "What the lag crowds around": "skew",
}
RECLAIMABLE = {
    "Topic": "topic",
    "Partition": "partition",
    "Share groups": "groups",
    "Log start": "log_start_offset",
    "Lowest start": "start_offset",
    "Of group": "group_id",
    "Offsets below": "reclaimable",
}
ARCHIVED = {
    "Group": "group_id",
    "Unfinished": "effective_lag",
    "Archived, about": "archived",
    "At least": "archived_low",
    "At most": "archived_high",
}
COMPARED = {
    "Variant": "variant",
    "Gone after": "drain_ms",
    "Runs that drain": "drained",
    "Lag p95": "lag_p95",
    "Lag against now": "lag_p95_difference",
    "Age p95": "age_p95_ms",
    "Age against now": "age_p95_difference",
    "Redeliveries": "redeliveries",
    "Member hours": "member_hours",
}
