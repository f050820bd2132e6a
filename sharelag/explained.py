"""How are causes told to people on a terminal?"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.lag import REASONS, rollup_arrow
from sharelag.model import iso
from sharelag.schemas import Arrow
from sharelag.show import duration, terminal

_STYLES = {"critical": "bold red", "warning": "yellow", "note": "cyan"}


def explained(evidence: Evidence, causes: Arrow) -> Iterator[str]:
    """Why the groups lag, in words: for each group how it is, then its causes with what shows them.

    Parameters
    ----------
    evidence : Evidence
    causes : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.CAUSES` of it.

    Yields
    ------
    str
        Lines, with colours where standard output is a terminal. Names are escaped.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=sys.stdout.isatty(),
        width=None if sys.stdout.isatty() else 120,
        highlight=False,
    )
    rows = causes.to_pylist()
    for group in rollup_arrow(evidence.lag, "group").to_pylist():
        mine = [row for row in rows if row["group_id"] == group["group_id"]]
        console.print(_heading(evidence, group, bool(mine)))
        for row in mine:
            _cause(console, row)
    yield from (line.rstrip() for line in out.getvalue().splitlines())


def _heading(evidence: Evidence, group: dict[str, Any], has_causes: bool) -> Text:
    progress = evidence.progress.filter(pc.equal(evidence.progress.column("group_id"), group["group_id"]))
    ages = [age for age in progress.column("age_ms").to_pylist() if age is not None]
    lag = "-" if group["lag"] is None else f"{group['lag']:,}"
    unknown = f" (+{group['unknown_lags']} unknown)" if group["unknown_lags"] else ""
    count = group["partitions"]
    parts = [f"lag {lag}{unknown} in {count} share partition{'s' * (count != 1)}"]
    if ages and max(ages):
        parts.append(f"oldest {duration(max(ages))}")
    if drain := _drain(progress.to_pylist()):
        parts.append(drain)
    if not has_causes:
        parts.append(_nothing_found(evidence, group["group_id"]))
    return Text.assemble((terminal(group["group_id"]), "bold"), "  " + ", ".join(parts))


def _nothing_found(evidence: Evidence, group: str) -> str:
    """Nothing is wrong only where everything is known."""
    mine = evidence.lag.filter(pc.equal(evidence.lag.column("group_id"), group))
    empty = pc.less_equal(mine.column("end_offset"), mine.column("log_start_offset")).fill_null(False)
    unknown = mine.filter(pc.and_(mine.column("effective_lag").is_null(), pc.invert(empty)))
    reasons = sorted({REASONS[reason] for reason in unknown.column("lag_reason").to_pylist() if reason in REASONS})
    if unknown.num_rows:
        return "nothing found, but not all is known" + (f": {'; '.join(reasons)}" if reasons else "")
    return "nothing wrong"


def _drain(rows: list[dict[str, Any]]) -> str:
    """The slowest share partition decides; what chance may turn is not said."""
    if any(row["drain"] == "stalled" for row in rows):
        return "stalled"
    if any(row["drain"] == "never" and row["drain_low_ms"] is None for row in rows):
        return "does not drain at the rates seen"
    spans = [row for row in rows if row["drain"] == "drains" and row["drain_ms"] is not None]
    if not spans or any(row["drain"] in ("never", "unknown") for row in rows):
        return ""
    slowest = max(spans, key=lambda row: row["drain_ms"])
    high = "never" if slowest["drain_high_ms"] is None else duration(slowest["drain_high_ms"])
    return f"drains in {duration(slowest['drain_ms'])} ({duration(slowest['drain_low_ms'])} to {high})"


def _cause(console: Console, row: dict[str, Any]) -> None:
    evidence = {one["name"]: one["value"] for one in row["evidence"]}
    partitions = evidence.pop("partitions")
    where = f"{row['topic'] or row['topic_id']}:{partitions}"
    held = "" if row["held"] is None else f", holds {row['held']:,}"
    since = f", since {iso(row['since'])}" if row["since"] else ""
    console.print(
        Text.assemble(
            f"  {row['rank']}. ",
            (f"{row['severity']}: {row['cause']}", _STYLES[row["severity"]]),
            terminal(f"  {where}{held}{since}"),
        )
    )
    shown = [_shown(name, value) for name, value in evidence.items()]
    for line in (row["summary"], ", ".join(shown), f"-> {row['advice']}"):
        if line:
            console.print(Padding(Text(terminal(line)), (0, 0, 0, 5)))


def _shown(name: str, value: str) -> str:
    if name.endswith(" ms"):
        return f"{name.removesuffix(' ms')} {duration(float(value))}"
    return f"{name} {value}"
