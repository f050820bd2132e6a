"""The measures of a run, and the tables of a comparison."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from sharelag.tables.declared import trials

#: One run, regardless of its variant; one run of one variant; and its optional columns.
MADE, RUNS = trials.MADE.schema, trials.RUNS.schema
OVER_OPTIMAL = trials.OVER_OPTIMAL.schema


class Measure(NamedTuple):
    """A column of `RUNS` by which variants are compared."""

    better: str | None  # "lower" or "higher"; None: neither
    unit: str  # ms, records, ...: "" is a number without a unit
    # unknown is more than any known value: it had not happened when the run ended
    censored: bool = False


#: Measures by column name.
MEASURED: dict[str, Measure] = {
    "drain_ms": Measure("lower", "ms", censored=True),
    "lag_p50": Measure("lower", "offsets"), "lag_p95": Measure("lower", "offsets"),
    "lag_max": Measure("lower", "offsets"), "lag_end": Measure("lower", "offsets"),
    "age_p50_ms": Measure("lower", "ms"), "age_p95_ms": Measure("lower", "ms"),
    "age_max_ms": Measure("lower", "ms"),
    "latency_p50_ms": Measure("lower", "ms"), "latency_p95_ms": Measure("lower", "ms"),
    "completed": Measure("higher", "offsets"), "archived": Measure("lower", "offsets"),
    "lost": Measure("lower", "offsets"),
    "redeliveries": Measure("lower", "records"), "redelivered_share": Measure("lower", ""),
    "expired": Measure("lower", "records"),
    "wasted": Measure("lower", "records"), "wasted_share": Measure("lower", ""),
    "moves": Measure("lower", "partitions"),
    "moves_per_minute": Measure("lower", "partitions/min"),
    "idle_members": Measure("lower", "members"), "fairness": Measure("higher", ""),
    "busy_share": Measure(None, ""),  # more is cheaper, less is safer
    "member_hours": Measure("lower", "h"),
    "drain_over_optimal": Measure("lower", ""), "age_p95_over_optimal": Measure("lower", ""),
}  # fmt: skip

#: One variant and one measure; the same compared with the baseline, seed by seed.
MEASURES, DIFFERENCES = trials.MEASURES.schema, trials.DIFFERENCES.schema
#: The lag of a whole group in one variant at one time, and the age of its oldest record.
PROJECTED = pa.schema(
    [
        ("variant", pa.string()),
        ("time_ms", pa.int64()),  # since the beginning of the scenario
        ("lag", pa.float64()),  # mean of the runs, in offsets
        ("low", pa.float64()),  # of its confidence interval; null with a single run
        ("high", pa.float64()),
        ("age_ms", pa.float64()),  # of the oldest unfinished record, mean of the runs
        ("age_low_ms", pa.float64()),
        ("age_high_ms", pa.float64()),
        # until nothing was left, mean of the runs, in all rows of a variant; null: one never
        # drained
        ("drain_ms", pa.float64()),
    ]
)

#: Columns of a variant's values by measure, with their bounds.
MEAN = ("mean", "low", "high")
DIFFERENCE = ("difference", "difference_low", "difference_high")
RATIOS = ("ratio", "ratio_high", "ratio_low")
