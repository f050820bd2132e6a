"""Write the table of ``docs/incidents.md``: predictions for incidents, and the played outcomes.

``python -m tools.incidents_page`` needs no broker: it reads ``data/incidents``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.page import with_part
from tools.record.incidents.judge import FOLDER, WITHIN, Judged, Outcome, judged, told
from tools.record.incidents.table import incidents

PAGE = Path(__file__).resolve().parent.parent / "docs" / "incidents.md"
BEGIN, END = "<!-- table: python -m tools.incidents_page -->", "<!-- end of table -->"
_COLUMNS = (
    "incident",
    "highest lag, at the end",
    "change",
    "drained after: predicted",
    "live",
    "off",
    "lag at the end: predicted",
    "live",
    "inside",
    "curve off: as it was",
    "changed",
    "load",
)
_HEAD = (f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|")


def table(found: Iterable[Judged]) -> str:
    """Return the generated part of the page."""
    return "\n".join(_lines(list(found)))


def _lines(found: list[Judged]) -> Iterator[str]:
    for is_later, heading in (
        (False, "## Used during development"),
        (True, "## Played after development"),
    ):
        mine = [one for one in found if one.incident.is_later == is_later]
        yield from (heading, "", _summed_up(mine), "", *_HEAD, *map(_row, mine), "")
    plays = [told(FOLDER / one.incident.name) for one in found]
    versions, dates = ({play[name] for play in plays} for name in ("kafka", "date"))
    yield f"Played on Kafka {', '.join(sorted(versions))} on {', '.join(sorted(dates))}."


def _summed_up(found: list[Judged]) -> str:
    outcomes = [one.outcome for one in found if one.outcome is not None]
    inside = sum(one.is_inside for one in outcomes)
    off = [abs(one.drain.off) for one in found if one.drain is not None]
    near = sum(one <= WITHIN for one in off)
    silent = len(found) - len(outcomes)
    left = f" For {silent} of {len(found)} no answer was given." if silent else ""
    return (
        f"**{inside} of {len(outcomes)} outcomes are inside their 95 % intervals; {near} of "
        f"{len(off)} drains are predicted within {100 * WITHIN:.0f} %, on average within "
        f"{100 * sum(off) / len(off):.1f} %.**{left}"
    )


def _row(one: Judged) -> str:
    drain, lag, outcome = one.drain, one.lag, one.outcome
    cells = [
        f"**{one.incident.name}**: {one.incident.scenario.about}",
        f"{one.was[0]:,}, {one.was[1]:,}",
        f"`{one.incident.change_text}`",
        "-" if drain is None else _seconds(drain),
        "-" if drain is None else f"{drain.live / 1000:.1f} s",
        "-" if drain is None else f"{100 * drain.off:+.1f} %",
        "-" if lag is None else f"{lag.foretold:,.0f} [{lag.low:,.0f} to {lag.high:,.0f}]",
        "-" if lag is None else f"{lag.live:,.0f}",
        "no answer" if outcome is None else "yes" if outcome.is_inside else "**no**",
        f"{100 * one.explained:.1f} %",
        "-" if one.curve is None else f"{100 * one.curve:.1f} %",
        f"{one.load[0]:.1f}, {one.load[1]:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _seconds(one: Outcome) -> str:
    mean, low, high = (value / 1000 for value in (one.foretold, one.low, one.high))
    return f"{mean:.1f} s [{low:.1f} to {high:.1f}]"


def main() -> None:
    """Update the page."""
    made = table(judged(one, FOLDER / name) for name, one in incidents().items())
    PAGE.write_text(with_part(PAGE.read_text(), BEGIN, END, made))


if __name__ == "__main__":
    main()
