"""Results as JSON values for agents: rows, their moment, and what is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.settings import NO_CONFLICT
from sharelag.schemas import SCHEMA_VERSION
from sharelag.tables.declared import meanings_of
from sharelag.tables.lines import cell, plain_rows
from sharelag.tables.words import MISSING, counted, lag_sum, shown_name, terminal
from sharelag.workbench.result import Result

#: Rows of an answer; of more, those with the largest values of the column that orders them.
MOST_ROWS = 200
#: Runs of a window that a sentence has; the rows have all.
_RUNS = 6
#: What names of evidence end with, and the unit that it says.
_UNITS = {" ms": "ms", " a second": "1/s"}
#: Evidence that is text although it may look like a number: lists of partitions, and places.
_TEXTS = frozenset({"partitions", "record", "state_partition"})


def answer_of(
    result: Result, question: str, verdict: str, summary: Iterable[str] = ()
) -> dict[str, Any]:
    """Convert a result into JSON values, with the question in words and the answer in a sentence.

    The values are ``question``, ``verdict``, ``as_of`` (ISO 8601; of a simulation: of the state it
    begins with), ``source``, ``engine``, ``summary`` (what else to say before the rows), ``rows``,
    ``rows_left_out``, ``columns`` (what each means, and its unit), ``unknown`` and ``notes``
    (sentences), ``schema_version``. Each evidence of a cause has ``name``, ``value`` (a number
    where it is one) and ``unit``.
    """
    table = result.table
    if table.num_rows > MOST_ROWS and result.order in table.schema.names:
        table = table.sort_by([(result.order, "descending")])
    shown: pa.Table = table.slice(0, MOST_ROWS)
    rows = plain_rows(shown)
    for row in rows:
        if "evidence" in row:
            row["evidence"] = [_evidence(**one) for one in row["evidence"]]
    return {
        "schema_version": SCHEMA_VERSION,
        "question": question,
        "verdict": verdict,
        "as_of": None if result.as_of is None else result.as_of.isoformat(timespec="milliseconds"),
        "source": result.source,
        "engine": result.engine,
        "summary": list(summary),
        "rows": rows,
        "rows_left_out": table.num_rows - shown.num_rows,
        "columns": meanings_of(shown.schema.names) | dict(result.means),
        "unknown": list(result.unknown),
        "notes": list(result.notes),
    }


def _evidence(name: str, value: str) -> dict[str, Any]:
    """Give a number as one, with the unit that its name ends with."""
    end = next((end for end in _UNITS if name.endswith(end)), "")
    words, unit = name.removesuffix(end), _UNITS.get(end)
    number: str | int | float = value
    if name not in _TEXTS:
        with suppress(ValueError):
            number = float(value.replace(",", ""))
            number = int(number) if number.is_integer() else number
    return {"name": words, "value": number, "unit": unit}


def groups_in_words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on each group: how it is, and the main finding."""
    return _first(
        f"{shown_name(row['group_id'])}: {row['level']}, "
        f"lag {lag_sum(row['lag'], row['unknown_lags'])}, "
        f"oldest {MISSING if row['age_ms'] is None else duration(row['age_ms'])}"
        + (f": {terminal(row['why'])}" if row["why"] else "")
        for row in rows
    )


def _first(sentences: Iterable[str]) -> list[str]:
    """Return the first of many sentences, as many as rows, and how many more there are."""
    said = list(sentences)
    more = [f"and {len(said) - MOST_ROWS:,} more"] if len(said) > MOST_ROWS else []
    return said[:MOST_ROWS] + more


def lags_in_words(table: pa.Table) -> tuple[str, list[str]]:
    """Return a sentence on the lag of all share partitions, and one on each group's."""
    groups = rollup_arrow(table, "group").to_pylist()
    each = _first(
        f"{shown_name(one['group_id'])}: lag {lag_sum(one['lag'], one['unknown_lags'])} in "
        f"{counted(one['partitions'], 'share partition')}"
        for one in sorted(groups, key=lambda one: -(one["lag"] or 0))
    )
    known = [one["lag"] for one in groups if one["lag"] is not None]
    unknown = sum(one["unknown_lags"] for one in groups)
    total = lag_sum(sum(known) if known else None, unknown)
    return f"lag {total} in {counted(table.num_rows, 'share partition')}", each


def window_in_words(row: Mapping[str, Any]) -> str:
    """Return a sentence on what the coordinator holds of one share partition."""
    runs = row["runs"] or []
    begin, end = row["start_offset"], row["window_end_offset"]
    if not runs or begin is None or end is None:
        return f"no offsets in flight from offset {MISSING if begin is None else begin} on"
    shown = cell({"runs": runs[:_RUNS]}, "runs")
    more = len(runs) - _RUNS
    rest = f" and {counted(more, 'more run')}" if more > 0 else ""
    return (
        f"offsets {begin} to {end - 1} are in the window, as offsets:state/delivery count: "
        f"{shown}{rest}"
    )


def settings_in_words(table: pa.Table) -> tuple[str, list[str]]:
    """Return a sentence on how many settings conflict, and one on each of these."""
    wrong = table.filter(table.column("problem").is_valid()).to_pylist()
    each = _first(
        ("" if row["group_id"] is None else f"{shown_name(row['group_id'])}: ")
        + terminal(f"{row['name']} = {row['value']}: {row['problem']}")
        + (f"; {terminal(row['hint'])}" if row["hint"] else "")
        for row in wrong
    )
    if not wrong:
        return NO_CONFLICT, []
    return f"{counted(len(wrong), 'setting')} with a problem", each


def plan_in_words(table: pa.Table) -> str:
    """Return a sentence on what a plan would leave of all share partitions."""

    def total(name: str) -> str:
        column = table.column(name)
        return lag_sum(pc.sum(column).as_py(), column.null_count)

    return (
        f"in {counted(table.num_rows, 'share partition')}: lag {total('new_lag')} instead of "
        f"{total('lag')}, {total('again')} finished offsets delivered again, {total('skipped')} "
        "unfinished ones skipped"
    )


def causes_in_words(result: Result) -> tuple[str, list[str]]:
    """Return a sentence on the worst group, and those on each group and its causes."""
    sentences, verdict = [], "there is no share group"
    for nth, group in enumerate(result.summaries):
        state = f"{group.group}: {group.state}"
        sentences.append(state)
        if nth == 0:
            worst = group.causes[:1]
            verdict = state + "".join(f"; {one.cause}: {one.summary}" for one in worst)
        sentences += [
            f"{group.group}: {cause.rank}. {cause.severity}: {cause.cause} ({cause.where}): "
            f"{cause.summary}; {cause.advice}"
            for cause in group.causes
        ]
    return verdict, _first(sentences)
