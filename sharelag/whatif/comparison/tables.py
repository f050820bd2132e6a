"""The measures of a run, and the tables of a comparison."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from sharelag.whatif.simulation.tables import SUMMARY

#: One run, whatever variant it is of.
MADE = pa.schema(
    [
        # the id of `sharelag.whatif.grid`: the same scenario, seed and version of sharelag
        ("run", pa.string()),
        ("error", pa.string()),  # why there is no summary; null: the run went through
        *SUMMARY,  # null where the run failed
    ]
)
#: One run of one variant.
RUNS = pa.schema([("variant", pa.string()), *MADE])
#: What a run of `RUNS` has further, where requested: ratios to the run of the same scenario
#: and seed with the assignor `optimal`. That one goes by what it predicts, so that others can do
#: better, below 1. Null: unknown.
OVER_OPTIMAL = pa.schema(
    [("drain_over_optimal", pa.float64()), ("age_p95_over_optimal", pa.float64())]
)


class Measure(NamedTuple):
    """A column of `RUNS` by which variants are compared."""

    better: str | None  # "lower" or "higher"; None: neither is
    unit: str  # ms, records, ...: "" is a number without one
    # unknown is more than any known value: it had not happened when the run ended
    censored: bool = False


#: By name of the column.
MEASURED: dict[str, Measure] = {
    "drain_ms": Measure("lower", "ms", censored=True),
    "lag_p50": Measure("lower", "offsets"),
    "lag_p95": Measure("lower", "offsets"),
    "lag_max": Measure("lower", "offsets"),
    "lag_end": Measure("lower", "offsets"),
    "age_p50_ms": Measure("lower", "ms"),
    "age_p95_ms": Measure("lower", "ms"),
    "age_max_ms": Measure("lower", "ms"),
    "latency_p50_ms": Measure("lower", "ms"),
    "latency_p95_ms": Measure("lower", "ms"),
    "completed": Measure("higher", "offsets"),
    "archived": Measure("lower", "offsets"),
    "lost": Measure("lower", "offsets"),
    "redeliveries": Measure("lower", "records"),
    "expired": Measure("lower", "records"),
    "wasted": Measure("lower", "records"),
    "wasted_share": Measure("lower", ""),
    "moves": Measure("lower", "partitions"),
    "moves_per_minute": Measure("lower", "partitions/min"),
    "idle_members": Measure("lower", "members"),
    "fairness": Measure("higher", ""),
    "busy_share": Measure(None, ""),  # much is cheap, little is safe
    "member_hours": Measure("lower", "h"),
    "drain_over_optimal": Measure("lower", ""),
    "age_p95_over_optimal": Measure("lower", ""),
}

#: One variant and one measure.
MEASURES = pa.schema(
    [
        ("variant", pa.string()),
        ("measure", pa.string()),  # a key of `MEASURED`
        ("n", pa.int32()),  # runs in which it is known
        # runs in which it is not, such as the drain time of a run that never drained
        ("unknown", pa.int32()),
        ("failed", pa.int32()),  # runs with an error; they count nowhere else
        # null where any run is unknown: the mean of the others would be of other luck
        ("mean", pa.float64()),
        ("low", pa.float64()),  # of the mean, by Student's t; null for a single run, too
        ("high", pa.float64()),
        # known when most runs are, where unknown means later than the end
        ("median", pa.float64()),
        ("confidence", pa.float64()),  # of this interval alone
    ]
)
#: One variant and one measure against the baseline: run for run with the same seed.
DIFFERENCES = pa.schema(
    [
        ("variant", pa.string()),
        ("baseline", pa.string()),
        ("measure", pa.string()),
        ("n", pa.int32()),  # pairs in which both are known
        ("unknown", pa.int32()),  # pairs in which one or both are not
        ("difference", pa.float64()),  # mean of variant - baseline; null where any pair is unknown
        # of the difference; null where the spread of the pairs does not tell
        ("low", pa.float64()),
        ("high", pa.float64()),
        # geometric mean of variant / baseline; null where one is unknown or not above 0
        ("ratio", pa.float64()),
        ("ratio_low", pa.float64()),
        ("ratio_high", pa.float64()),
        ("confidence", pa.float64()),  # of all variants' intervals of this measure together
        ("better", pa.bool_()),  # than the baseline; null: the interval does not say
    ]
)
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
        # until nothing was left, mean of the runs, in all rows of a variant; null: one never did
        ("drain_ms", pa.float64()),
    ]
)
