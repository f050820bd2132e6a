"""What do the report notebooks say? Each function is one part of the story, short enough for a cell.

case = story.read(capture="incident-42")
told = story.verdict(case)
story.headline(told)
story.causes(told)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sharelag import charts, show
from sharelag.metrics.explain import explain
from sharelag.reports import capacity, past
from sharelag.reports.blocks import VERDICT_MIME, Block, Chart, block, table
from sharelag.reports.capacity import Proposal, propose
from sharelag.reports.case import Case, read
from sharelag.reports.verdict import verdict

__all__ = [
    "assignments",
    "assumptions",
    "cause_spans",
    "causes",
    "changes",
    "compared",
    "deliveries",
    "drain",
    "groups",
    "headline",
    "headroom",
    "lag_over_time",
    "lorenz",
    "moved",
    "parts",
    "progress",
    "proposal",
    "rates",
    "rates_over_time",
    "read",
    "signs",
    "spans",
    "unknown",
    "verdict",
    "window_heat",
    "windows",
]
#: Whose windows are shown offset by offset: those with the largest lag.
MOST_WINDOWS = 8
_PROGRESS = {
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

_SIGNS = {
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
_MOVED = {
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
_HEADROOM = {
    "Group": "group_id",
    "Members": "members",
    "Share partitions": "partitions",
    "Arriving": "arrival_rate",
    "Finishing": "completion_rate",
    "Finishing a member": "per_member",
    "Lag": "lag",
    "What the lag crowds around": "skew",
}
_COMPARED = {
    "Variant": "variant",
    "Gone after": "drain_ms",
    "Runs that drain": "drained",
    "Lag p95": "lag_p95",
    "± to first": "lag_p95_difference",
    "Age p95": "age_p95_ms",
    "Age to first": "age_p95_difference",
    "Redeliveries": "redeliveries",
    "Member hours": "member_hours",
}


def headline(told: Mapping[str, Any]) -> Block:
    """How it is, in a sentence; carries the verdict to `sharelag report`."""
    words = f"{told['level'].upper()}: {show.terminal(told['headline'])}"
    return block("headline", words, {VERDICT_MIME: told}, verdict=told)


def changes(told: Mapping[str, Any]) -> Block:
    """What changed since the report before."""
    return block("changes", "What changed since the report before.", changes=told["changes"])


def groups(told: Mapping[str, Any]) -> Block:
    """The groups, the worst first."""
    return block("groups", "Share groups, the worst first.", groups=told["groups"])


def causes(told: Mapping[str, Any]) -> Block:
    """Why they lag: causes with their evidence, and what to do."""
    return block("causes", "Why the groups lag.", groups=told["groups"])


def unknown(told: Mapping[str, Any]) -> Block:
    """What the report cannot know."""
    return block("unknown", "\n".join(told["unknown"]), sentences=told["unknown"])


def progress(case: Case) -> Block:
    """Age, rates and time to drain of each share partition, the oldest first."""
    rows = sorted(
        show.plain_rows(case.evidence.progress),
        key=lambda row: (-(row["age_ms"] or 0), row["group_id"], row["topic"] or "", row["partition"]),
    )
    caption = "Rates are records a second; margin is the time until the oldest unfinished record may be deleted."
    return table(rows, _PROGRESS, caption, "There is no share partition.")


def lag_over_time(case: Case) -> Chart:
    """The lag of the share partitions with the largest, moment by moment."""
    return _chart(charts.lag_over_time_figure, charts.lag_over_time_records(past.timeline(case)))


def parts(case: Case) -> Chart:
    """What the lag consists of."""
    return _chart(charts.decomposition_figure, charts.decomposition_records(case.evidence.lag))


def drain(case: Case) -> Chart:
    """When each share partition has caught up."""
    return _chart(charts.drain_figure, charts.drain_records(case.evidence.progress))


def windows(case: Case, most: int = MOST_WINDOWS) -> Any:
    """The windows of the share partitions with the largest lag, offset by offset, now and back in time."""
    from sharelag_widgets import WindowStrip

    lag = case.evidence.lag
    order = sorted(lag.to_pylist(), key=lambda row: (row["effective_lag"] is None, -(row["effective_lag"] or 0)))
    chosen = [(row["group_id"], row["topic_id"], row["partition"]) for row in order[:most]]
    return WindowStrip.of(_shown(past.windows_at(case, chosen), chosen), ends=lag, title="Windows, offset by offset")


def rates(case: Case) -> Chart:
    """How fast records arrive, and how fast they are finished, by share partition."""
    return _chart(charts.rates_figure, charts.rates_records(case.evidence.progress))


def rates_over_time(case: Case) -> Chart:
    """How fast records arrived and were finished, moment by moment."""
    return _chart(charts.rates_over_time_figure, charts.rates_over_time_records(past.timeline(case)))


def cause_spans(case: Case) -> Chart:
    """Since when each cause holds."""
    at = case.evidence.as_of
    return _chart(charts.cause_figure, charts.cause_records(explain(case.evidence), at), as_of=at)


def window_heat(case: Case) -> Chart:
    """How wide each window was, over time."""
    return _chart(charts.window_heat_figure, charts.window_heat_records(past.history(case)))


def spans(case: Case) -> Chart:
    """How full the windows are."""
    records = charts.window_span_records(case.evidence.lag, case.evidence.settings)
    return _chart(charts.window_span_figure, records)


def deliveries(case: Case) -> Chart:
    """How often offsets were delivered."""
    return _chart(charts.delivery_count_figure, charts.delivery_count_records(case.evidence.windows))


def lorenz(case: Case) -> Chart:
    """How unevenly the lag is spread."""
    return _chart(charts.lorenz_figure, charts.lorenz_records(case.evidence.lag))


def assignments(case: Case) -> Chart | Block:
    """Who may fetch what."""
    members = case.evidence.members
    if not members.num_rows:
        words = "Members are not known here, or there are none."
        return block("sentence", words, words=words)
    return _chart(charts.assigned_figure, charts.assigned_records(members, case.evidence.lag))


def signs(case: Case) -> Block:
    """What happened to each share partition since the beginning, the first sign of trouble first."""
    caption = "When it happened first since then (UTC), and how many offsets were given back, archived or finished."
    return table(
        past.signs(past.history(case)), _SIGNS, caption, "No record of the state topic was written since then."
    )


def moved(case: Case) -> Block:
    """The share partitions then and now."""
    rows = show.plain_rows(case.bench.diff(case.evidence.as_of - case.known_span).table)
    moving = [row for row in rows if row["change"] not in ("same", "unknown")]
    caption = "Finished: offsets that were finished in between."
    if unknown := sum(row["change"] == "unknown" for row in rows):
        caption += f" Of {unknown} share partitions it is not known what they were then."
    return table(moving, _MOVED, caption, f"Nothing is known to have changed since then. {caption}")


def headroom(case: Case) -> Block:
    """How each group's work compares to what arrives."""
    caption = (
        "Records a second over the time looked at. A group that keeps up finishes what arrives: what more it could do, "
        "only a backlog or a simulation shows."
    )
    return table(capacity.headroom(case), _HEADROOM, caption, "There is no share group.")


def proposal(case: Case, **tried: Any) -> Proposal:
    """What other numbers of members and other assignors would do; see `sharelag.reports.capacity.propose`."""
    return propose(case, **tried)


def compared(made: Proposal) -> Block:
    """The variants beside each other."""
    caption = f"Means of {made.seeds} simulations; ± is half of the interval of 95 % confidence against the first row."
    return table(made.rows, _COMPARED, caption, "Nothing was tried.")


def assumptions(made: Proposal) -> Block:
    """What had to be assumed for it."""
    return block("unknown", "\n".join(made.assumed), sentences=made.assumed)


def _chart(figure: Callable[..., Any], records: pa.Table, **more: Any) -> Chart:
    return Chart(figure(records, "light", **more), figure(records, "dark", **more))


def _shown(moments: pa.Table, chosen: list[tuple[str, str, int]]) -> pa.Table:
    """The share partitions in the order of their lag: the strip begins with the first."""
    columns = (moments.column(name).to_pylist() for name in ("group_id", "topic_id", "partition"))
    place = {one: number for number, one in enumerate(chosen)}
    order = pa.array([place[one] for one in zip(*columns, strict=True)], pa.int64())
    return moments.append_column("place", order).sort_by([("place", "ascending"), ("as_of", "ascending")])
