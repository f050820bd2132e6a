"""The difference that a what-if found: baseline and edited assignment, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sharelag.errors import InputError

from .columns import Rows, table_of

_NEEDED = ("measure", "baseline", "edited")
_WORDS = ("unit", "better", "unknown", "verdict")
_RANGE = ("low", "high")


@dataclass(frozen=True)
class Difference:
    """What an ``on_run`` gives back.

    Attributes
    ----------
    rows
        A table with a row a measure: ``measure`` (its name for people), ``baseline`` and ``edited``
        (numbers, null where there is none), and if wanted ``unit`` (``ms`` is shown as a duration),
        ``better`` (``less`` or ``more``; else neither is), ``low`` and ``high`` (the change, edited
        less baseline, over the seeds), ``unknown`` (what null means, such as ``not drained``; it is
        worse than any number), ``verdict`` (``better``, ``worse``, ``same``, ``unclear``; else it
        follows from the others).
    seeds
        Random seeds, the same for both sides.
    assumed
        Sentences for people.
    range
        What ``low`` and ``high`` are, such as ``95 % interval``.
    about
        What both sides begin with, as a sentence.
    """

    rows: Rows
    seeds: tuple[int, ...] = ()
    assumed: tuple[str, ...] = ()
    range: str = "Over the seeds"
    about: str = ""


def difference_of(given: Any) -> Difference:
    """What an ``on_run`` gave back, a bare table included.

    Raises
    ------
    InputError
        It is not a table, or lacks a column.
    """
    found = given if isinstance(given, Difference) else Difference(given)
    names = table_of(found.rows).schema.names
    if missing := [name for name in _NEEDED if name not in names]:
        raise InputError(
            f"what on_run gave has no column {', '.join(missing)}; it has {', '.join(names)}"
        )
    return found


def difference_state(difference: Difference, of: str) -> dict[str, Any]:
    """The same as the browser takes it; ``of`` is the last edit that it is of."""
    table = table_of(difference.rows)
    rows = [
        {name: str(row.get(name) or "") for name in ("measure", *_WORDS)}
        | {name: _number(row.get(name)) for name in ("baseline", "edited", *_RANGE)}
        for row in table.to_pylist()
    ]
    parts = {
        "seeds": list(difference.seeds),
        "assumed": list(difference.assumed),
        "range": difference.range,
    }
    return {"of": of, "rows": rows, "about": difference.about} | parts


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
