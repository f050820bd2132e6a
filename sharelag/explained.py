"""How are causes told to people? In the same words on a terminal and in a notebook."""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class ToldCause:
    """One cause in words; nothing in them acts on a terminal."""

    rank: int
    cause: str
    severity: str
    where: str  # topic and partitions, how much it holds, since when
    summary: str
    evidence: str  # what shows it
    advice: str


@dataclass(frozen=True)
class Told:
    """One group in words: how it is, and why."""

    group: str
    state: str
    causes: tuple[ToldCause, ...]


def told(evidence: Evidence, causes: Arrow) -> Iterator[Told]:
    """Why the groups lag: for each group how it is, then its causes with what shows them.

    Parameters
    ----------
    evidence : Evidence
    causes : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.CAUSES` of it.

    Yields
    ------
    Told
        Names are escaped for a terminal, not for HTML.
    """
    of: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in causes.to_pylist():
        of[row["group_id"]].append(row)
    for group in rollup_arrow(evidence.lag, "group").to_pylist():
        mine = of[group["group_id"]]
        state = _state(evidence, group, bool(mine))
        yield Told(terminal(group["group_id"]), state, tuple(map(_told_cause, mine)))


def explained(evidence: Evidence, causes: Arrow) -> Iterator[str]:
    """The same as lines for a terminal, with colours where standard output is one.

    Parameters
    ----------
    evidence, causes
        As for `told`.

    Yields
    ------
    str
    """
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=sys.stdout.isatty(),
        width=None if sys.stdout.isatty() else 120,
        highlight=False,
    )
    for group in told(evidence, causes):
        console.print(Text.assemble((group.group, "bold"), f"  {group.state}"))
        for cause in group.causes:
            _print(console, cause)
    yield from (line.rstrip() for line in out.getvalue().splitlines())


def _state(evidence: Evidence, group: dict[str, Any], has_causes: bool) -> str:
    progress = evidence.progress.filter(pc.equal(evidence.progress.column("group_id"), group["group_id"]))
    ages = [age for age in progress.column("age_ms").to_pylist() if age is not None]
    lag = "-" if group["lag"] is None else f"{group['lag']:,}"
    unknown = f" (+{group['unknown_lags']} unknown)" if group["unknown_lags"] else ""
    count = group["partitions"]
    parts = [f"lag {lag}{unknown} in {count} share partition{'s' * (count != 1)}"]
    if ages and max(ages):
        parts.append(f"oldest {duration(max(ages))}")
    if not _nobody(evidence, group["group_id"]) and (drain := _drain(progress.to_pylist())):
        parts.append(drain)  # the rates seen are of those who have left
    if not has_causes:
        parts.append(_nothing_found(evidence, group["group_id"]))
    return ", ".join(parts)


def _nothing_found(evidence: Evidence, group: str) -> str:
    """Nothing is wrong only where everything is known, and somebody works on what there is."""
    mine = evidence.lag.filter(pc.equal(evidence.lag.column("group_id"), group))
    empty = pc.less_equal(mine.column("end_offset"), mine.column("log_start_offset")).fill_null(False)
    unknown = mine.filter(pc.and_(mine.column("effective_lag").is_null(), pc.invert(empty)))
    reasons = sorted({REASONS[reason] for reason in unknown.column("lag_reason").to_pylist() if reason in REASONS})
    waits = pc.any(pc.greater(mine.column("effective_lag"), 0)).as_py()
    nobody = _nobody(evidence, group) if waits or unknown.num_rows else ""
    if unknown.num_rows:
        return f"{nobody or 'nothing found'}, but not all is known" + (f": {'; '.join(reasons)}" if reasons else "")
    return nobody or "nothing wrong"


def _nobody(evidence: Evidence, group: str) -> str:
    """That nobody is in the group, also where that is so new that it is no cause yet."""
    mine = evidence.groups.filter(pc.equal(evidence.groups.column("group_id"), group))
    if not mine.num_rows or mine.column("members")[0].as_py() != 0:
        return ""
    since = mine.column("emptied")[0].as_py()
    return "nobody is in the group" + (f" since {iso(since)}" if since else "")


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


def _told_cause(row: dict[str, Any]) -> ToldCause:
    evidence = {one["name"]: one["value"] for one in row["evidence"]}
    partitions = evidence.pop("partitions")
    where = f"{row['topic'] or row['topic_id']}:{partitions}"
    held = "" if row["held"] is None else f", holds {row['held']:,}"
    since = f", since {iso(row['since'])}" if row["since"] else ""
    return ToldCause(
        rank=row["rank"],
        cause=row["cause"],
        severity=row["severity"],
        where=terminal(f"{where}{held}{since}"),
        summary=terminal(row["summary"]),
        evidence=terminal(", ".join(_shown(name, value) for name, value in evidence.items())),
        advice=terminal(row["advice"]),
    )


def _shown(name: str, value: str) -> str:
    if name.endswith(" ms"):
        return f"{name.removesuffix(' ms')} {duration(float(value))}"
    return f"{name} {value}"


def _print(console: Console, cause: ToldCause) -> None:
    console.print(
        Text.assemble(
            f"  {cause.rank}. ",
            (f"{cause.severity}: {cause.cause}", _STYLES[cause.severity]),
            f"  {cause.where}",
        )
    )
    for line in (cause.summary, cause.evidence, f"-> {cause.advice}"):
        if line:
            console.print(Padding(Text(line), (0, 0, 0, 5)))
