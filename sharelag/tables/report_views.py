"""Views of a report's tables, with headings in words."""

from __future__ import annotations

from dataclasses import replace

from sharelag.tables import views
from sharelag.tables.views import in_words

PROGRESS = in_words(
    "group_id topic partition age_ms arrival_rate completion_rate redelivery_rate drain drain_ms "
    "drain_high_ms margin_ms",
    drain_high_ms="At the latest",
)
SIGNS = in_words(
    "group_id topic partition first_released first_archived first_reset released archived finished "
    "last_finished",
    first_released="First released",
    released="Released",
)
MOVED = in_words(
    "group_id topic partition change finished start_offset_before start_offset_after "
    "window_end_offset_before window_end_offset_after",
    start_offset_after="Start now",
    window_end_offset_after="Window end now",
)
HEADROOM = in_words(
    "group_id members partitions arrival_rate completion_rate per_member lag skew",
    partitions="Share partitions",
    per_member="Out/s per member",
    skew="Where the lag is",
)
RECLAIMABLE = in_words(
    "topic partition groups log_start_offset start_offset group_id reclaimable",
    groups="Share groups",
    start_offset="Lowest start",
    group_id="Of group",
    reclaimable="Offsets below",
)
ARCHIVED = in_words(
    "group_id effective_lag archived archived_low archived_high",
    effective_lag="Unfinished",
    archived="Archived, about",
    archived_low="At least",
    archived_high="At most",
)
_DECISION = in_words(" ".join(views.DECISION.names), age_p95_difference="Against the first row")
DECISION = replace(_DECISION, meanings=views.DECISION.meanings)
COMPARED = replace(in_words(" ".join(views.COMPARED.names)), meanings=views.COMPARED.meanings)
OTHERWISE = in_words(
    " ".join(views.OTHERWISE.names),
    lag_end="Lag at the end",
    lag_max="Highest lag",
    age_max_ms="Highest age",
    alert_share="Alerted",
)
