"""Measures of one run, simulated or real: the same pipeline reads the state topic of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.replay.history import history_arrow
from sharelag.tables.arrow import one_batch
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import simulate
from sharelag.whatif.simulation.logs import logs
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tools.record.fidelity.experiments import START_MS

#: Interval of a lag curve.
STEP_MS = 50
Arrivals = Sequence[tuple[float, int]]


@dataclass(frozen=True)
class Run:
    """One run of a scenario.

    Attributes
    ----------
    drain_ms
        From the first arrival until everything was finished.
    deliveries, archived
        Records.
    lag
        Every `STEP_MS` since the first arrival, until everything was finished.
    poll_ms, commit_ms
        Median duration of polls that returned records, and mean duration of commits; None: not
        measured, or no commits.
    kafka, date
        The version of the brokers, and the date of the run; None: it was simulated.
    """

    drain_ms: float
    deliveries: int
    archived: int
    lag: tuple[int, ...]
    poll_ms: float | None = None
    commit_ms: float | None = None
    kafka: str | None = None
    date: str | None = None


def simulated(scenario: Scenario, seed: int) -> Run:
    """Run a scenario in the simulator."""
    result = simulate(scenario, seed)
    row = result.summary.to_pylist()[0]
    run = measured(
        result.records(),
        scenario.group_id,
        scenario.begins_ms + START_MS,
        [(scenario.begins_ms + at, size) for at, size in arrivals(scenario, seed)],
        row["deliveries"],
    )
    if run.archived != row["archived"]:
        raise AssertionError(
            f"{scenario.name}: {run.archived} archived by its records, "
            f"{row['archived']} by its counters"
        )
    return run


def arrivals(scenario: Scenario, seed: int) -> list[tuple[float, int]]:
    """Return when records are appended, in ms since the start, and how many."""
    found = []
    for topic in logs(scenario, seed):
        for log in topic:
            found += [
                (time / 1000, size)
                for time, size in zip(log.times, np.diff(log.bases).tolist(), strict=True)
            ]
    return sorted(found)


def measured(
    records: pa.RecordBatch, group: str, begin_ms: float, arrived: Arrivals, deliveries: int
) -> Run:
    """Measure a run by the records of the state topic.

    Parameters
    ----------
    records
        `sharelag.schemas.RAW`.
    group
        The group to measure.
    begin_ms
        Start of the time axis since the epoch, which the next parameter also uses.
    arrived
        When records were appended, and how many.
    deliveries
    """
    decoded = one_batch(decode_arrow(records, STATE_TOPIC).records)
    history = history_arrow(decoded.filter(pc.equal(decoded.column("group_id"), group)))
    times, finished = _finished(history, begin_ms)
    archived = int(pc.sum(history.column("archived")).as_py() or 0)
    left = sum(size for _, size in arrived) - int(finished.sum())
    if left:
        raise AssertionError(f"{left} records were not finished")
    drain = float(times[finished > 0].max())
    grid = np.arange(0, drain + STEP_MS, STEP_MS, dtype=np.float64)
    lag = lag_over_time(history, arrived, begin_ms, grid)
    return Run(drain, deliveries, archived, tuple(lag.astype(int).tolist()))


def lag_over_time(
    history: pa.RecordBatch, arrived: Arrivals, begin_ms: float, grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the number of unfinished records at times since the start.

    ``history`` is of a single group, the others as for `measured`.
    """
    came, sizes = (np.array(values, np.float64) for values in zip(*arrived, strict=True))
    return _until(came - begin_ms, sizes, grid) - _until(*_finished(history, begin_ms), grid)


def age_over_time(
    history: pa.RecordBatch, came: Mapping[int, NDArray[np.float64]], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the age of the oldest unfinished record, at times since the epoch.

    Parameters
    ----------
    history
        History of one group with one topic.
    came
        By partition, when each record was appended.
    grid
        Times in ms.
    """
    ages = np.zeros(len(grid))
    for partition, times in came.items():
        mine = history.filter(pc.equal(history.column("partition"), partition))
        written = mine.column("record_timestamp").cast(pa.int64()).to_numpy()
        known = pc.coalesce(mine.column("effective_start_offset"), mine.column("start_offset"))
        # Before the first member, a partition has no start offset, and nothing is finished.
        starts = np.concatenate([[0], np.maximum(pc.fill_null(known, 0).to_numpy(), 0)])
        first = starts[np.searchsorted(written, grid, side="right")]
        oldest = np.append(times, np.inf)[np.minimum(first, len(times))]
        ages = np.maximum(ages, grid - oldest)
    return ages


def _finished(history: pa.RecordBatch, begin_ms: float) -> tuple[NDArray[Any], NDArray[Any]]:
    times = history.column("record_timestamp").cast(pa.int64()).to_numpy() - begin_ms
    return times, history.column("finished").fill_null(0).to_numpy()


def _until(
    times: NDArray[Any], counts: NDArray[Any], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    order = np.argsort(times, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(counts[order])])
    return total[np.searchsorted(times[order], grid, side="right")]
