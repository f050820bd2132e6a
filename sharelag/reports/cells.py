"""The story of the report notebooks: one function a part, short enough for a cell.

case = story.read(capture="incident-42")
told = story.verdict(case)
story.headline(told)
story.causes(told)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sharelag.durations import duration, parse_duration
from sharelag.metrics.explain import explain
from sharelag.metrics.lag import rollup_arrow
from sharelag.reports import capacity, incident, kept, past
from sharelag.reports.alike import troubles
from sharelag.reports.blocks import VERDICT_MIME, Block, Chart, block, table
from sharelag.reports.capacity import Proposal, propose
from sharelag.reports.case import Case, read
from sharelag.reports.verdict import verdict
from sharelag.tables import report_views
from sharelag.workbench import charts, show
from sharelag.workbench.answers import delivery_limit, of_group

__all__ = [
    "archived",
    "assignments",
    "assumptions",
    "cause_spans",
    "causes",
    "changes",
    "compared",
    "deliveries",
    "drain",
    "groups",
    "happened",
    "headline",
    "headroom",
    "keeping_up",
    "lag_over_time",
    "lorenz",
    "moved",
    "only",
    "parts",
    "progress",
    "proposal",
    "rates",
    "rates_over_time",
    "read",
    "reclaimable",
    "signs",
    "spans",
    "unknown",
    "verdict",
    "window_heat",
    "windows",
]
#: Whose windows are shown offset by offset: those with the largest lag.
MOST_WINDOWS = 8


def headline(told: Mapping[str, Any]) -> Block:
    """How it is, in a sentence; carries the verdict to `sharelag report`."""
    words = f"{told['level'].upper()}: {show.terminal(told['headline'])}"
    return block("headline", words, {VERDICT_MIME: told}, verdict=told)


def happened(case: Case, told: Mapping[str, Any]) -> Block:
    """What has happened since a moment, as the headline; carries the verdict to `sharelag report`."""
    return headline({**told, "headline": incident.happened(case, told)})


def changes(told: Mapping[str, Any]) -> Block:
    """What changed since the report before."""
    return block("changes", "What changed since the report before.", changes=told["changes"])


def groups(told: Mapping[str, Any]) -> Block:
    """The groups, the worst first."""
    return block("groups", "Share groups, the worst first.", groups=told["groups"])


def causes(told: Mapping[str, Any]) -> Block:
    """Why they lag: causes with their evidence, and what to do."""
    return block("causes", "Why the groups lag.", found=troubles(told["groups"], told["rules"]))


def unknown(told: Mapping[str, Any]) -> Block:
    """What the report cannot know."""
    return block("unknown", "\n".join(told["unknown"]), sentences=told["unknown"])


def progress(case: Case) -> Block:
    """Age, rates and time to drain of each share partition, the oldest first."""
    rows = sorted(
        show.plain_rows(case.evidence.progress),
        key=lambda row: (
            -(row["age_ms"] or 0),
            row["group_id"],
            row["topic"] or "",
            row["partition"],
        ),
    )
    caption = "Rates are records a second; margin is the time until the oldest unfinished record may be deleted."
    return table(rows, report_views.PROGRESS.columns, caption, "There is no share partition.")


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
    order = sorted(
        lag.to_pylist(),
        key=lambda row: (row["effective_lag"] is None, -(row["effective_lag"] or 0)),
    )
    chosen = [(row["group_id"], row["topic_id"], row["partition"]) for row in order[:most]]
    return WindowStrip.of(
        _shown(past.windows_at(case, chosen), chosen), ends=lag, title="Windows, offset by offset"
    )


def rates(case: Case) -> Chart:
    """How fast records arrive, and how fast they are finished, by share partition."""
    return _chart(charts.rates_figure, charts.rates_records(case.evidence.progress))


def rates_over_time(case: Case) -> Chart:
    """How fast records arrived and were finished, moment by moment."""
    return _chart(
        charts.rates_over_time_figure, charts.rates_over_time_records(past.timeline(case))
    )


def cause_spans(case: Case) -> Chart:
    """Since when each cause holds."""
    at = case.evidence.as_of
    return _chart(charts.cause_figure, charts.cause_records(explain(case.evidence), at), as_of=at)


def window_heat(case: Case) -> Chart:
    """How wide each window was, over time."""
    return _chart(charts.window_heat_figure, past.window_heat(case, past.signs(case)))


def spans(case: Case) -> Chart:
    """How full the windows are."""
    records = charts.window_span_records(case.evidence.lag, case.evidence.settings)
    return _chart(charts.window_span_figure, records)


def deliveries(case: Case) -> Chart:
    """How often offsets were delivered."""
    windows = case.evidence.windows
    records = charts.delivery_count_records(windows, case.evidence.as_of)
    limits = {
        delivery_limit(case.evidence, group) for group in records.column("group_id").to_pylist()
    }
    return _chart(
        charts.delivery_count_figure, records, limit=limits.pop() if len(limits) == 1 else None
    )


def lorenz(case: Case) -> Chart:
    """How unevenly the lag is spread."""
    return _chart(charts.lorenz_figure, charts.lorenz_records(case.evidence.lag))


def assignments(case: Case) -> Chart | Block:
    """Who may fetch what, in the group with members that has the most lag."""
    lags = rollup_arrow(case.evidence.lag, "group").to_pylist()
    peopled = set(case.evidence.members.column("group_id").to_pylist())
    chosen = [row for row in lags if row["group_id"] in peopled]
    if not chosen:
        words = (
            "Nobody is in any of the groups."
            if case.evidence.groups.num_rows
            else "Members are not known here."
        )
        return block("sentence", words, words=words)
    # A matrix is of one group.
    of = of_group(case.evidence, max(chosen, key=lambda row: row["lag"] or 0)["group_id"])
    return _chart(charts.assigned_figure, charts.assigned_records(of.members, of.lag))


def signs(case: Case) -> Block:
    """What happened to each share partition since the beginning, the first sign of trouble first."""
    found = past.signs(case)
    rows, is_whole = show.plain_rows(found), past.is_whole(case, found)
    shown = [row for row in rows if any(row[name] for name in past.FIRST)]
    caption = "When it happened first since then, and how many offsets were given back, archived or finished."
    others = f"Nothing of it happened in {len(rows) - len(shown)} other share partitions."
    nothing = past.as_far_as_known(others, is_whole) if shown else ""
    empty = past.as_far_as_known(
        "No offset was given back or archived since then, and nothing was reset.", is_whole
    )
    return table(shown, report_views.SIGNS.columns, f"{caption} {nothing}".strip(), empty)


def moved(case: Case) -> Block:
    """The share partitions then and now."""
    rows = show.plain_rows(case.bench.diff(case.evidence.as_of - case.known_span).table)
    moving = [row for row in rows if row["change"] not in ("same", "unknown")]
    caption = "Finished: offsets that were finished in between."
    if unknown := sum(row["change"] == "unknown" for row in rows):
        caption += f" Of {unknown} share partitions it is not known what they were then."
    return table(
        moving,
        report_views.MOVED.columns,
        caption,
        f"Nothing is known to have changed since then. {caption}",
    )


def headroom(case: Case) -> Block:
    """How each group's work compares to what arrives."""
    caption = (
        "Records a second over the time looked at. A group that keeps up finishes what arrives: what more it could do, "
        "only a backlog or a simulation shows."
    )
    return table(
        capacity.headroom(case), report_views.HEADROOM.columns, caption, "There is no share group."
    )


def reclaimable(case: Case) -> Block:
    """What of the logs no share group needs any more."""
    rows = [row for row in kept.reclaimable(case) if row["reclaimable"] != 0]
    caption = (
        "Offsets from the log start to the lowest start offset of the share groups, and whose that is; not known where "
        "one of them has fetched nothing yet. Kafka deletes by retention alone. Consumer groups and other readers are "
        "not known here: this is of use for topics that only share groups read."
    )
    if case.bench.choice.groups:
        caption += " Of the chosen groups only: another one may be further back."
    return table(
        rows,
        report_views.RECLAIMABLE.columns,
        caption,
        "Every log begins where a share group still needs it.",
    )


def archived(case: Case, age: str | float) -> Block:
    """List what would be archived if records were given up at an age (``7d``, or seconds)."""
    ttl = parse_duration(age, bare="s")
    caption = (
        f"Unfinished offsets whose records are {duration(ttl / timedelta(milliseconds=1))} old "
        "or older. Kafka has no such setting yet. Where the age of a record is not known, "
        "it lies between those of records and ends of logs that are."
    )
    return table(
        kept.archived(case, ttl),
        report_views.ARCHIVED.columns,
        caption,
        "There is no share group.",
    )


def keeping_up(case: Case, told: Mapping[str, Any]) -> Block:
    """Whether the groups keep up, as the headline; carries the verdict to `sharelag report`."""
    wrong = told["headline"] if told["level"] in ("warning", "critical") else None
    return headline({**told, "headline": capacity.keeping_up(capacity.headroom(case), wrong)})


def only(case: Case, group: str) -> Case:
    """The same of one group; what was said before was of others."""
    return replace(case, evidence=of_group(case.evidence, group), previous=None)


def proposal(case: Case, **tried: Any) -> Proposal:
    """What other numbers of members and other assignors would do; see `sharelag.reports.capacity.propose`."""
    return propose(case, **tried)


def compared(made: Proposal) -> Block:
    """The variants beside each other."""
    caption = (
        f"{made.group}, simulated: means of {made.seeds} runs. Against now: variant less the group as it is, run for "
        "run, and half of the interval of 95 % confidence."
    )
    return table(made.rows, report_views.COMPARED.columns, caption, "Nothing was tried.")


def assumptions(made: Proposal) -> Block:
    """What had to be assumed for it."""
    return block("unknown", "\n".join(made.assumed), sentences=made.assumed)


def _chart(figure: Callable[..., Any], records: pa.Table, **more: Any) -> Chart:
    return Chart(figure(records, "light", **more), figure(records, "dark", **more))


def _shown(moments: pa.Table, chosen: list[tuple[str, str, int]]) -> pa.Table:
    """The share partitions in the order of their lag: the strip begins with the first."""
    names = (moments.column(name).to_pylist() for name in ("group_id", "topic_id", "partition"))
    place = {one: number for number, one in enumerate(chosen)}
    order = pa.array([place[one] for one in zip(*names, strict=True)], pa.int64())
    return moments.append_column("place", order).sort_by(
        [("place", "ascending"), ("as_of", "ascending")]
    )
