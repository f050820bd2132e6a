"""Comparisons of runs that are made up: given value by value, or drawn at random."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag.whatif import Comparison, compared
from sharelag.whatif.comparison.tables import RUNS

#: How long the drawn runs last, in ms.
HORIZON_MS = 600_000


def runs(**values: Mapping[str, Any]) -> pa.Table:
    """A table of runs: by variant, for each measure one value a seed."""
    rows = [
        {"variant": variant, "seed": seed} | {name: column[seed] for name, column in names.items()}
        for variant, names in values.items()
        for seed in range(len(next(iter(names.values()))))
    ]
    schema = [RUNS.field(name) for name in rows[0]]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def drawn_comparisons(count: int) -> Iterator[Comparison]:
    """Comparisons with ``a`` of two to eight variants: some drain, some tie, some differ little."""
    chance = np.random.default_rng(4)
    for _ in range(count):
        centres = ([80, 95, 100, 120], [80])[chance.integers(2)]  # of the second, many tie
        names, seeds = "abcdefgh"[: chance.integers(2, 9)], int(chance.integers(3, 10))
        columns: dict[str, Any] = {}
        for name in names:
            centre = 100 if name == "a" else chance.choice(centres)
            ages = 1_000 * chance.normal(centre, chance.choice([0.1, 10]), seeds)
            drains = 1_000 * chance.normal(chance.choice([200, 300]), 20, seeds)
            drains[chance.random(seeds) < chance.choice([0, 0.5, 1])] = np.nan
            columns[name] = {"age_p95_ms": ages, "drain_ms": drains}
            columns[name]["duration_ms"] = [HORIZON_MS] * seeds
        yield compared(runs(**columns))
