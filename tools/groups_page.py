"""Write the tables of ``docs/live.md``: groups played with a change, compared with predictions.

``python -m tools.groups_page`` needs no broker: it reads ``data/live``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sharelag.whatif import Scenario
from sharelag.whatif.comparison.intervals import Floats, Interval, mean_interval, ratio_interval
from sharelag.whatif.search import Goal
from tools.page import with_part
from tools.record.incidents.groups import ASSIGNORS, BACKLOG, DEFAULTS, GOALS, GROUPS, TUNED, kept

PAGE = Path(__file__).resolve().parent.parent / "docs" / "live.md"
BEGIN, END = "<!-- table: python -m tools.groups_page -->", "<!-- end of table -->"
_LEVEL = 0.95
_MEASURES = {"drain_ms": "drain time", "age_p95_ms": "p95 age"}
_SOURCES = {"foretold": "predicted", "live": "**live**", "afterwards": "simulated afterwards"}
_Runs = Sequence[Mapping[str, float | None]]


def table() -> str:
    """Return the generated part of the page."""
    return "\n".join((*_assignors(), "", *_tuned()))


def _assignors() -> Iterator[str]:
    known = kept("assignors")
    one = known[BACKLOG.name]
    simple, other = ASSIGNORS
    played = len(one["live"][other])
    yield "## Assignors"
    yield ""
    yield (
        f"{BACKLOG.about}. {played} runs of each assignor on brokers, and as many simulated with "
        "the same arrivals and work, before the first was played."
    )
    yield ""
    yield f"| measure | | `{simple}` | `{other}` | ratio |"
    yield "|---|---|---|---|---|"
    for measure, words in _MEASURES.items():
        for source, heading in _SOURCES.items():
            values = {name: _values(one[source][name], measure)[:played] for name in ASSIGNORS}
            means = " | ".join(_seconds(mean_interval(each, _LEVEL)) for each in values.values())
            ratio = ratio_interval(values[other], values[simple], _LEVEL)
            yield f"| {words} | {heading} | {means} | {_span(ratio, 1, '.2f')} |"
    yield ""
    yield _machine(known, [one])


def _tuned() -> Iterator[str]:
    known = kept("tuned")
    each = [known[group.name] for group in GROUPS]
    won = [_beats(*pair) for pair in zip(GROUPS, each, strict=True)]
    played = min(len(one["live"][name]) for one in each for name in (DEFAULTS, TUNED))
    yield "## Settings of the tuner"
    yield ""
    yield (
        f"Goals: {' and '.join(f'`{goal}`' for goal in GOALS)}. **Live, the tuned settings beat "
        f"Kafka's defaults in {sum(won)} of {len(won)} groups**: they miss the goals by less, or "
        f"keep them for fewer members. Runs of each: {played}, predicted with the same arrivals "
        "and work."
    )
    yield ""
    columns = ["group", "settings", "members"]
    for goal in map(Goal.parse, GOALS):
        columns += [f"{goal.measure.removesuffix('_ms')}: predicted", "live", "afterwards"]
    columns += ["drained live", "goals kept live"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for group, one in zip(GROUPS, each, strict=True):
        changed = ", ".join(f"`{name}={value}`" for name, value in one["changed"].items())
        for name, settings in ((DEFAULTS, "Kafka's defaults"), (TUNED, changed)):
            cells = [f"**{group.name}**: {group.about}" if name == DEFAULTS else ""]
            cells += [settings, str(_members(group, one, name))]
            for goal in map(Goal.parse, GOALS):
                for source in _SOURCES:
                    mean = float(np.mean(_values(one[source][name], goal.measure)[:played]))
                    cells.append(
                        f"{100 * mean:.1f} %"
                        if goal.measure.endswith("share")
                        else f"{mean / 1000:.1f} s"
                    )
            drains = _values(one["live"][name], "drain_ms")
            cells.append(
                "not in every run" if np.isnan(drains).any() else f"{drains.mean() / 1000:.1f} s"
            )
            cells.append("no" if _missed(one["live"][name]) else "yes")
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield _machine(known, each)


def _members(group: Scenario, one: Mapping[str, Any], name: str) -> int:
    now = len(group.each_member())
    return int(one["changed"].get("members", now)) if name == TUNED else now


def _missed(runs: _Runs) -> float:
    """Return how far the means miss the goals, relative to their limits."""
    return sum(
        max(float(np.mean(_values(runs, goal.measure))) / goal.limit - 1, 0.0)
        for goal in map(Goal.parse, GOALS)
    )


def _beats(group: Scenario, one: Mapping[str, Any]) -> bool:
    """Return whether tuned settings were better live."""
    tuned, usual = (_missed(one["live"][name]) for name in (TUNED, DEFAULTS))
    fewer = _members(group, one, TUNED) < _members(group, one, DEFAULTS)
    return tuned < usual or (tuned == usual and fewer)


def _values(runs: _Runs, measure: str) -> Floats:
    return np.array([np.nan if run[measure] is None else run[measure] for run in runs], np.float64)


def _seconds(one: Interval) -> str:
    return "not in every run" if one.mean is None else f"{_span(one, 1000, '.1f')} s"


def _span(one: Interval, unit: float, digits: str) -> str:
    if one.mean is None or one.low is None or one.high is None:
        return "not known"
    mean, low, high = (format(value / unit, digits) for value in (one.mean, one.low, one.high))
    return f"{mean} [{low} to {high}]"


def _machine(known: Mapping[str, Any], each: Sequence[Mapping[str, Any]]) -> str:
    loads = [run["load"] for one in each for runs in one["live"].values() for run in runs]
    return (
        f"Played on Kafka {known['played']['kafka']} on {known['played']['date']}, at a load of "
        f"{min(loads):.1f} to {max(loads):.1f} on two cores."
    )


def main() -> None:
    """Update the page."""
    PAGE.write_text(with_part(PAGE.read_text(), BEGIN, END, table()))


if __name__ == "__main__":
    main()
