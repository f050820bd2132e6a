"""All groups: their table in words, how their lag went, and what is copied about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.tables.words import moment, terminal
from sharelag.workbench import Workbench
from sharelag.workbench.next_steps import input_name

RATES = ("arrival_rate", "completion_rate")
#: Of the groups, what decides first.
COLUMNS = ("level", "group_id", "lag", "trend", "age_ms", "cause", *RATES, "gone", "members")
#: ... and what is left out first where there is no room.
OPTIONAL = ("completion_rate", "arrival_rate", "members", "trend")
HEADINGS = {
    "group_id": "Group",
    "age_ms": "Oldest",
    "arrival_rate": "In/s",
    "completion_rate": "Out/s",
    "gone": "Gone in",
}
#: Of the groups, what is hidden until somebody asks for it.
FOLDED = {"column": "level", "value": "ok", "words": "healthy"}
#: Groups that are copied for the incident channel, the worst first.
COPIED = 20


def with_trends(groups: pa.Table, sums: pa.Table) -> pa.Table:
    """Groups with their lag over time; null where that of some share partition is not known."""
    moments = sorted(pc.unique(sums.column("as_of")).to_pylist())
    known = {(row["group_id"], row["as_of"]): row["lag"] for row in sums.to_pylist()}
    trends = [
        [known.get((group, moment)) for moment in moments]
        for group in groups.column("group_id").to_pylist()
    ]
    return groups.append_column("trend", pa.array(trends, pa.list_(pa.int64())))


def in_words(groups: pa.Table) -> pa.Table:
    """Groups with their causes as words, and rates in as many digits as people compare."""
    columns = {"cause": pc.replace_substring(groups.column("cause"), "_", " ")}
    columns |= {name: pc.round(groups.column(name), 2) for name in RATES}
    for name, column in columns.items():
        groups = groups.set_column(groups.schema.get_field_index(name), name, column)
    return groups


def incident_text(bench: Workbench) -> str:
    """What is wrong where, as of when and since when, and what to do: one line per group."""
    overview = bench.overview()
    source = input_name(bench.source) or bench.describe()
    lines = [f"{overview.title} ({source}, as of {moment(bench.evidence().as_of)})"]
    causes = bench.explain().table.sort_by([("rank", "descending")]).to_pylist()
    first = {row["group_id"]: row for row in causes}
    level = overview.table.column("level")
    bad = overview.table.filter(pc.is_in(level, pa.array(["critical", "warning"])))
    for row in bad.slice(0, COPIED).to_pylist():
        lag = "unknown" if row["lag"] is None else f"{row['lag']:,}"
        old = "" if row["age_ms"] is None else f", oldest {duration(row['age_ms'])}"
        line = f"- {row['group_id']}: lag {lag}{old}: {row['why']}"
        if (cause := first.get(row["group_id"])) and cause["summary"] == row["why"]:
            since = f", since {moment(cause['since'])}" if cause["since"] else ""
            line += f"{_place_of(cause)}{since}. To do: {cause['advice']}"
        lines.append(line)
    if len(bad) > COPIED:
        lines.append(f"and {len(bad) - COPIED:,} more share groups need attention")
    return "\n".join(map(terminal, lines))


def _place_of(cause: Mapping[str, Any]) -> str:
    """The share partition and the record that a cause is about, where it is about one."""
    if cause["partition"] is None:
        return ""
    offset = next((one["value"] for one in cause["evidence"] if one["name"] == "offset"), None)
    record = f", offset {offset}" if offset else ""
    return f" ({cause['topic'] or cause['topic_id']}:{cause['partition']}{record})"
