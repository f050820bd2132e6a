"""The cost of keeping records from getting old: member-hours against age, over autoscalers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag.errors import InputError
from sharelag.whatif.comparison.intervals import mean_interval

#: One variant; means over its runs, with bounds. Failed runs and those without an age are left out.
COST_AGAINST_AGE = pa.schema(
    [
        ("variant", pa.string()),
        ("n", pa.int32()),  # runs that are in it
        ("member_hours", pa.float64()),
        ("member_hours_low", pa.float64()),  # null: there are not two runs
        ("member_hours_high", pa.float64()),
        ("age_p95_ms", pa.float64()),
        ("age_p95_low_ms", pa.float64()),
        ("age_p95_high_ms", pa.float64()),
        # runs in which nothing was left at some time after the largest lag
        ("drained", pa.int32()),
        # no other variant costs no more and keeps no more age, one of both less
        ("is_on_front", pa.bool_()),
    ]
)


def cost_against_age(runs: pa.Table, confidence: float = 0.95) -> pa.Table:
    """Member-hours against the 95th percentile of the age of the oldest unfinished record.

    Parameters
    ----------
    runs : pyarrow.Table
        ``variant`` and the columns of `sharelag.whatif.simulation.summary.SUMMARY`, such as
        ``Comparison.runs``.
    confidence : float
        Of the bounds (Student's t).

    Returns
    -------
    pyarrow.Table
        `COST_AGAINST_AGE`, the cheapest first. Member-hours count from when members join until they
        are gone; what they take to start is not in it.

    Raises
    ------
    InputError
        A column is missing.
    """
    names = ("variant", "member_hours", "age_p95_ms", "drain_ms")
    if missing := [name for name in names if name not in runs.column_names]:
        raise InputError(
            f"these runs have no column {missing[0]!r}: give those of a comparison or a sweep"
        )
    variant, hours, age, drain = (
        runs.column(name).to_numpy(zero_copy_only=False) for name in names
    )
    hours, age, drain = (np.asarray(values, np.float64) for values in (hours, age, drain))
    known = ~np.isnan(hours) & ~np.isnan(age)
    rows = []
    for name in dict.fromkeys(variant[known].tolist()):
        mine = known & (variant == name)
        cost, old = mean_interval(hours[mine], confidence), mean_interval(age[mine], confidence)
        drained = int((~np.isnan(drain[mine])).sum())
        rows.append((name, int(mine.sum()), *cost, *old, drained))
    rows.sort(key=lambda row: (row[2], row[5]))
    costs, ages = (
        np.array([row[2] for row in rows], float),
        np.array([row[5] for row in rows], float),
    )
    no_more = (costs <= costs[:, None]) & (ages <= ages[:, None])
    less = (costs < costs[:, None]) | (ages < ages[:, None])
    on_front = [not beaten for beaten in np.any(no_more & less, axis=1)]
    columns: list[Sequence[Any]] = (
        [*zip(*rows, strict=True)] if rows else [()] * (len(COST_AGAINST_AGE) - 1)
    )
    columns.append(on_front)
    return pa.table(
        dict(zip(COST_AGAINST_AGE.names, columns, strict=True)), schema=COST_AGAINST_AGE
    )
