"""Results as JSON values for agents: rows, their moment, and what is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from sharelag.schemas import SCHEMA_VERSION
from sharelag.tables.columns import meanings_of
from sharelag.tables.lines import plain_rows
from sharelag.workbench.result import Result

#: Rows of an answer; of more, those with the largest values of the column that orders them.
MOST_ROWS = 200


def answer_of(result: Result, summary: Iterable[str] = ()) -> dict[str, Any]:
    """Convert a result into JSON values.

    Parameters
    ----------
    result : Result
    summary : iterable of str
        Sentences that stand before the rows.

    Returns
    -------
    dict
        ``question``, ``as_of`` (ISO 8601; of a simulation: of the state it begins with),
        ``source``, ``engine``, ``summary``, ``rows``, ``rows_left_out``, ``columns`` (what each
        means, and its unit), ``unknown`` and ``notes`` (sentences), ``schema_version``.
    """
    table = result.table
    if table.num_rows > MOST_ROWS and result.order in table.schema.names:
        table = table.sort_by([(result.order, "descending")])
    shown: pa.Table = table.slice(0, MOST_ROWS)
    return {
        "schema_version": SCHEMA_VERSION,
        "question": result.title,
        "as_of": None if result.as_of is None else result.as_of.isoformat(timespec="milliseconds"),
        "source": result.source,
        "engine": result.engine,
        "summary": list(summary),
        "rows": plain_rows(shown),
        "rows_left_out": table.num_rows - shown.num_rows,
        "columns": meanings_of(shown.schema.names) | dict(result.means),
        "unknown": list(result.unknown),
        "notes": list(result.notes),
    }


def causes_in_words(result: Result) -> list[str]:
    """Return the sentences of an explanation: each group, then its causes, the worst first."""
    sentences = []
    for group in result.summaries:
        sentences.append(f"{group.group}: {group.state}")
        sentences += [
            f"{group.group}: {cause.rank}. {cause.severity}: {cause.cause} ({cause.where}): "
            f"{cause.summary}; {cause.advice}"
            for cause in group.causes
        ]
    return sentences
