"""The contents of the report notebooks: one function per cell.

case = cells.read(capture="incident-42")
verdict = cells.verdict(case)
cells.headline(verdict)
cells.causes(verdict)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sharelag import charts
from sharelag.durations import duration, parse_duration
from sharelag.metrics.explain import explain
from sharelag.metrics.lag import rollup_arrow
from sharelag.reports import capacity, incident
from sharelag.reports.blocks import (
    VERDICT_MIME,
    Block,
    Chart,
    block,
    group_findings,
    sentence_block,
    table,
)
from sharelag.reports.capacity import Proposal
from sharelag.reports.capacity import propose as proposal  # noqa: F401
from sharelag.reports.case import Case
from sharelag.reports.case import read as read
from sharelag.reports.case import verdict as verdict
from sharelag.reports.incident import Tried
from sharelag.reports.incident import otherwise as otherwise
from sharelag.tables import render, report_views
from sharelag.tables.arrow import ascending
from sharelag.tables.lines import plain_rows
from sharelag.tables.words import pluralize, sentence, terminal
from sharelag.workbench.base import delivery_limit
from sharelag.workbench.questions.forecasts import keep_forecasts
from sharelag.workbench.result import chart, load_view

#: Number of share partitions to show offset by offset: those with the largest lag.
MOST_WINDOWS = 8


def headline(outcome: Mapping[str, Any]) -> Block:
    """Show the verdict in a sentence, and carry the verdict for `sharelag report`."""
    words = f"{outcome['level'].upper()}: {terminal(outcome['headline'])}"
    return block("headline", words, {VERDICT_MIME: outcome}, verdict=outcome)


def happened(case: Case, outcome: Mapping[str, Any]) -> Block:
    """Show what is wrong since when as the headline, and what happened; carry the verdict."""
    what, story = incident.headline(case, outcome), incident.describe_events(case, outcome)
    return headline({**outcome, "headline": what, "story": story})


def changes(outcome: Mapping[str, Any]) -> Block:
    """Show what changed since the previous report."""
    return block("changes", "What changed since the previous report.", changes=outcome["changes"])


def groups(outcome: Mapping[str, Any]) -> Block:
    """Show the groups, worst first."""
    return block("groups", "Share groups, worst first.", groups=outcome["groups"])


def causes(outcome: Mapping[str, Any]) -> Block:
    """Show why the groups lag: causes with evidence and advice."""
    found = group_findings(outcome["groups"], outcome["rules"])
    return block("causes", "Why the groups lag.", found=found)


def unknown(outcome: Mapping[str, Any]) -> Block:
    """Show what the report cannot know."""
    return block("unknown", "\n".join(outcome["unknown"]), sentences=outcome["unknown"])


def progress(case: Case) -> Block:
    """Show age, rates and time to drain of each share partition, oldest first."""

    def oldest_first(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return -(row["age_ms"] or 0), row["group_id"], row["topic"] or "", row["partition"]

    rows = sorted(plain_rows(case.evidence.progress), key=oldest_first)
    caption = (
        "Rates are records per second; margin is the time until the oldest unfinished record may "
        "be deleted."
    )
    return table(rows, report_views.PROGRESS.columns, caption, "There are no share partitions.")


def lag_over_time(case: Case) -> Chart:
    """Chart the share partitions with the largest lag over time."""
    return _chart("lag_over_time", incident.timeline(case))


def parts(case: Case) -> Chart:
    """Chart what the lag consists of."""
    return _chart("decomposition", case.evidence.lag)


def drain(case: Case) -> Chart | Block:
    """Chart when each share partition will have caught up; sentences where no time is known."""
    drawn = _chart("drain", case.evidence.progress)
    if drawn.light.data:
        return drawn
    meta = drawn.light.layout.meta
    return sentence_block(" ".join([f"{meta['title']}.", *meta["reading"]]))


def forecasts(case: Case, ledger: str | None) -> Block | None:
    """Store forecasts in the ledger, score those due, and show how often they came true."""
    if ledger is None:
        return None
    kept = keep_forecasts(case.bench.reading, ledger)
    return sentence_block(" ".join(map(sentence, kept.sentences)))


def windows(case: Case, most: int = MOST_WINDOWS) -> Any:
    """Show the windows with the largest lag, offset by offset, now and in the past."""
    lag = case.evidence.lag
    order = sorted(
        lag.to_pylist(),
        key=lambda row: (row["effective_lag"] is None, -(row["effective_lag"] or 0)),
    )
    chosen = [(row["group_id"], row["topic_id"], row["partition"]) for row in order[:most]]
    return load_view("WindowStrip").of(
        _sort_moments(incident.windows_at(case, chosen), chosen),
        ends=lag,
        title="Windows, offset by offset",
        limit=_common_limit(case, [group for group, _, _ in chosen]),
    )


def rates(case: Case) -> Chart:
    """Chart how fast records arrive and are finished, by share partition."""
    return _chart("rates", case.evidence.progress)


def rates_over_time(case: Case) -> Chart:
    """Chart how fast records arrived and were finished over time."""
    return _chart("rates_over_time", incident.timeline(case))


def cause_spans(case: Case) -> Chart:
    """Chart since when each cause holds."""
    at = case.evidence.as_of
    return _chart("cause", explain(case.evidence), at, as_of=at)


def window_heat(case: Case) -> Chart:
    """Chart the width of each window over time."""
    return _in_both_themes(charts.window_heat_figure, incident.window_heat(case))


def spans(case: Case) -> Chart:
    """Chart how full the windows are."""
    return _chart("window_span", case.evidence.lag, case.evidence.settings)


def deliveries(case: Case) -> Chart:
    """Chart how often offsets were delivered."""
    records = charts.delivery_count_records(case.evidence.windows, case.evidence.as_of)
    limit = _common_limit(case, records.column("group_id").to_pylist())
    return _in_both_themes(charts.delivery_count_figure, records, limit=limit)


def _common_limit(case: Case, groups: Sequence[str]) -> int | None:
    """Return the delivery limit of these groups, if all have the same."""
    limits = {delivery_limit(case.evidence.settings, group) for group in groups}
    return limits.pop() if len(limits) == 1 else None


def lorenz(case: Case) -> Chart:
    """Chart how unevenly the lag is spread."""
    return _chart("lorenz", case.evidence.lag)


def assignments(case: Case) -> Chart | Block:
    """Chart the assignment of the group with the largest lag among those with members."""
    lags = rollup_arrow(case.evidence.lag, "group").to_pylist()
    peopled = set(case.evidence.members.column("group_id").to_pylist())
    chosen = [row for row in lags if row["group_id"] in peopled]
    if not chosen:
        is_known = case.evidence.groups.num_rows
        unknown = "The members of the groups are unknown."
        return sentence_block("None of the groups has members." if is_known else unknown)
    # The chart shows one group.
    of = case.evidence.of_group(max(chosen, key=lambda row: row["lag"] or 0)["group_id"])
    return _chart("assigned", of.members, of.lag)


def signs(case: Case) -> Block:
    """Show what happened to each share partition, the earliest sign of trouble first."""
    found = incident.signs(case)
    rows, is_whole = plain_rows(found), incident.is_whole(case, found)
    shown = [row for row in rows if any(row[name] for name in incident.FIRST)]
    caption = (
        "The first time each happened, and how many offsets were released, archived or finished "
        "since the beginning."
    )
    count = len(rows) - len(shown)
    others = f"None of this happened in {pluralize(count, 'other share partition')}."
    nothing = incident.as_far_as_known(others, is_whole) if shown and count else ""
    empty = incident.as_far_as_known(
        "No offset was released or archived, and no share partition was reset.", is_whole
    )
    return table(shown, report_views.SIGNS.columns, f"{caption} {nothing}".strip(), empty)


def moved(case: Case) -> Block:
    """Compare the share partitions at the beginning and now."""
    rows = plain_rows(case.bench.diff(case.begin).table)
    moving = [row for row in rows if row["change"] not in ("same", "unknown")]
    caption = "Finished: offsets that were finished in between."
    if unknown := sum(row["change"] == "unknown" for row in rows):
        caption += f" The earlier state of {pluralize(unknown, 'share partition')} is unknown."
    empty = f"No known changes since then. {caption}"
    return table(moving, report_views.MOVED.columns, caption, empty)


def headroom(case: Case) -> Block:
    """Compare what each group finishes with what arrives."""
    caption = (
        "Records per second over the time of the report. A group that keeps up finishes what "
        "arrives; only a backlog or a simulation shows how much more it could finish."
    )
    rows = capacity.headroom(case)
    return table(rows, report_views.HEADROOM.columns, caption, "There are no share groups.")


def reclaimable(case: Case) -> Block:
    """Show which parts of the logs no share group needs any longer."""
    rows = [row for row in capacity.reclaimable(case) if row["reclaimable"] != 0]
    caption = (
        "Offsets from the log start to the lowest start offset of the share groups, and the group "
        "that has it; unknown if one has fetched nothing yet. Kafka deletes by retention "
        "only. Consumer groups and other readers are not considered: use this for topics that only "
        "share groups read."
    )
    if case.bench.choice.groups:
        caption += " Only the chosen groups are considered: another one may be further back."
    empty = "Share groups still need every log from its start."
    return table(rows, report_views.RECLAIMABLE.columns, caption, empty)


def archived(case: Case, age: str | float) -> Block:
    """Show which records a limit of their age (``7d``, or seconds) would archive."""
    ttl = parse_duration(age)
    caption = (
        "Unfinished offsets whose records are at least "
        f"{duration(ttl / timedelta(milliseconds=1))} old. Kafka has no such setting yet. An "
        "unknown age is bounded by those of neighbouring records and of log ends."
    )
    rows = capacity.estimate_archived(case, ttl)
    return table(rows, report_views.ARCHIVED.columns, caption, "There are no share groups.")


def keeping_up(case: Case, outcome: Mapping[str, Any]) -> Block:
    """Show whether the groups keep up as the headline; carry the verdict as well."""
    wrong = outcome["headline"] if outcome["level"] in ("warning", "critical") else None
    return headline({**outcome, "headline": capacity.keeping_up(capacity.headroom(case), wrong)})


def only(case: Case, group: str) -> Case:
    """Restrict a case to one group, without the previous verdict."""
    return replace(case, evidence=case.evidence.of_group(group), previous=None)


def compared(made: Proposal) -> Block:
    """Show the variants side by side, with all measures folded away below."""
    comparison = made.clearing.comparison
    # The headline is about what clears the lag.
    found = replace(comparison.presentation(), notes=tuple(comparison.sentences()))
    return Block(render.as_html(found, len(found.table)), render.as_text(found))


def clearing(made: Proposal) -> Chart:
    """Show which assignor clears the lag with how many members."""
    return _in_both_themes(charts.clearing_figure, made.clearing.cells)


def otherwise_table(tried: Tried) -> Block:
    """Show what happened, its simulation, and the simulation with a change."""
    if isinstance(tried, str):
        return sentence_block(tried)
    rows = [tried.for_people(row) for row in tried.rows]
    return table(rows, report_views.OTHERWISE.columns, tried.verdict(), "Nothing was simulated.")


def otherwise_conditions(tried: Tried) -> Block | None:
    """Show the conditions and the assumptions of the simulations."""
    if isinstance(tried, str):
        return None
    sentences = [sentence(one) for one in tried.conditions()]
    return block("unknown", "\n".join(sentences), sentences=sentences)


def otherwise_chart(tried: Tried) -> Chart | None:
    """Chart what happened, its simulation, and the simulation with a change."""
    if isinstance(tried, str):
        return None
    return _in_both_themes(charts.otherwise_figure, tried)


def assumptions(made: Proposal) -> Block:
    """Show the assumptions of a proposal."""
    return block("unknown", "\n".join(made.assumed), sentences=made.assumed)


def _chart(name: str, *about: Any, **looks: Any) -> Chart:
    draw = chart(name, *about, **looks)
    return Chart(draw("light"), draw("dark"))


def _in_both_themes(figure: Callable[..., Any], records: Any, **looks: Any) -> Chart:
    return Chart(figure(records, "light", **looks), figure(records, "dark", **looks))


def _sort_moments(moments: pa.Table, chosen: list[tuple[str, str, int]]) -> pa.Table:
    """Sort moments by the lag of their share partition, because the strip starts with the first."""
    names = (moments.column(name).to_pylist() for name in ("group_id", "topic_id", "partition"))
    place = {one: number for number, one in enumerate(chosen)}
    order = pa.array([place[one] for one in zip(*names, strict=True)], pa.int64())
    return moments.append_column("place", order).sort_by(ascending("place", "as_of"))
