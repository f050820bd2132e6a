"""A share group's producers, backlog, members and work, simulated as a consumer group.

As in a consumer group, a partition has at most one member (``UniformAssignor`` of
``group.protocol=consumer``), its records are processed in order, and positions are committed every
``auto.commit.interval.ms``. A crash is noticed when the session times out; then another member
continues from the committed position. Members without a partition wait.

Assumptions, since a consumer group does not acknowledge single records: a record that a member of
the share group would release is retried in place, at once, up to ``ConsumerSettings.attempts``
attempts, and then given up like a rejected one (skipped, or sent to a dead-letter queue:
``archived``). A record that would never be acknowledged counts as done. A record that crashes its
member crashes the next one as well, since deliveries are not counted. New leaders and stopped
brokers make no difference. Records that the share group finished beyond its start offset are not
work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.metrics.columns import series
from sharelag.tables import views
from sharelag.tables.declared import trials
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.intervals import contrast
from sharelag.whatif.comparison.tables import MEASURED, Measure
from sharelag.whatif.consumer_simulation import ConsumerGroupSimulation
from sharelag.whatif.consumers import ConsumerSettings
from sharelag.whatif.grid import Progress, require_seeds
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import simulate
from sharelag.whatif.simulation.loop import SimulationTables, run_to_end
from sharelag.whatif.simulation.tables import SUMMARY

CONSUMER, SHARE = "consumer group", "share group"
#: One run: the summary, and columns of this comparison.
RUNS = pa.schema(
    [
        ("variant", pa.string()),  # consumer group or share group
        *SUMMARY,
        # members at work, on average while anything was left; null: nothing was
        ("parallelism", pa.float64()),
        # share of the finished offsets with an earlier unfinished one
        ("out_of_order_share", pa.float64()),
        # redeliveries without a release by a member: work that may be done twice
        ("duplicates", pa.int64()),
    ]
)
#: One measure.
ANSWERS = trials.ANSWERS.schema
_OWN = {
    "parallelism": Measure("higher", "members"),
    "out_of_order_share": Measure("lower", ""),
    "duplicates": Measure("lower", "records"),
}
_MEASURES = {
    name: (MEASURED | _OWN)[name]
    for name in (
        *("drain_ms", "age_p95_ms", "latency_p95_ms", "parallelism", "idle_members"),
        *("out_of_order_share", "duplicates", "archived", "lost", "lag_end"),
    )
}


@dataclass(frozen=True)
class Moving(Displayable):
    """A comparison of a consumer group and a share group.

    Attributes
    ----------
    runs
        One row per run: `RUNS`; `sharelag.whatif.compare.compared` takes it, too.
    answers
        One row per measure: `ANSWERS`.
    """

    runs: pa.Table
    answers: pa.Table

    def presentation(self) -> Presentation:
        """Return the table that is displayed."""
        moved = [words.moving_for_people(row) for row in self.rows()]
        title = "Consumer group or share group?"
        return present(title, moved, views.MOVING.without("variant"), (words.MOVING,))

    def rows(self, variant: str = "") -> list[dict[str, Any]]:
        """Return one row per measure, as a consumer group and as a share group."""
        about = {"variant": variant, "duration_ms": pc.max(self.runs.column("duration_ms")).as_py()}
        return [about | row for row in self.answers.to_pylist()]


def consumer_group_twin(
    scenario: Scenario, seed: int = 0, settings: ConsumerSettings | None = None
) -> SimulationTables:
    """Run a scenario once, as a consumer group.

    Parameters
    ----------
    scenario : Scenario
        Of its settings, only ``isolation_level``, ``auto_offset_reset`` and, as a limit of
        attempts, ``delivery_count_limit`` are used.
    seed : int
        With the seed of `simulate`, arrivals, the work of each record and the outcome of each
        attempt are the same.
    settings : ConsumerSettings, optional
        Kafka's defaults if omitted.

    Returns
    -------
    SimulationTables
        The tables of a `SimulationResult`. In the timeline, ``start_offset`` is the first
        unfinished offset and ``window_end_offset`` the end of deliveries; the committed offset,
        which Kafka's lag uses, is up to ``auto.commit.interval.ms`` older.
    """
    begin = partial(ConsumerGroupSimulation, scenario, seed, settings or ConsumerSettings())
    return run_to_end(begin)[1]


def should_move(
    scenario: Scenario,
    seeds: Iterable[int] = range(10),
    settings: ConsumerSettings | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Moving:
    """Compare a scenario run as a consumer group and as a share group, with the same seeds.

    Parameters
    ----------
    scenario : Scenario
    seeds : iterable of int
        Random seeds.
    settings : ConsumerSettings, optional
        Settings of the consumer group.
    confidence : float
        Confidence of each interval (Student's t, over the differences seed by seed).
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Raises
    ------
    InputError
        No seed is given, a seed is given twice, the processing time is unknown, or a broker stops.
    """
    if unknown := words.unknown_work(scenario):
        raise InputError(f"which kind of group is better is {unknown}")
    if any(fault.kind == "broker_down" for fault in scenario.faults):
        raise InputError(
            "a broker that stops is simulated for share groups only: leave out the broker_down "
            "faults of the scenario"
        )
    seeds, rows = require_seeds(seeds), []
    if not seeds:
        raise InputError("there is nothing to compare: give at least one seed")
    for seed in seeds:
        rows.append(_row(CONSUMER, consumer_group_twin(scenario, seed, settings)))
        rows.append(_row(SHARE, simulate(scenario, seed)))
        if progress is not None:
            progress(len(rows), 2 * len(seeds))
    runs = pa.Table.from_pylist(rows, schema=RUNS)
    cells = contrast(runs, _MEASURES, CONSUMER, confidence)
    known = {(cell["variant"], cell["measure"]): cell for cell in cells}
    answers = [
        {
            **(cell := known[SHARE, name]),
            "unit": about.unit,
            "n": len(seeds),
            "consumer_group": known[CONSUMER, name]["mean"],
            "share_group": cell["mean"],
            "low": cell["difference_low"],
            "high": cell["difference_high"],
            "better": {None: None, True: SHARE, False: CONSUMER}[cell["better"]],
        }
        for name, about in _MEASURES.items()
    ]
    return Moving(runs, pa.Table.from_pylist(answers, schema=ANSWERS))


def _row(variant: str, result: SimulationTables) -> dict[str, object]:
    (row,) = result.summary.to_pylist()
    lag = result.timeline.group_by("time_ms").aggregate([("lag", "sum")]).sort_by("time_ms")
    times, behind = (lag.column(name).to_numpy() for name in ("time_ms", "lag_sum"))
    spent, busy = np.diff(times)[behind[:-1] > 0].sum(), result.members.column("busy_ms")
    return {
        **row,
        "variant": variant,
        "parallelism": float(np.sum(busy.to_numpy()) / spent) if spent else None,
        "out_of_order_share": _out_of_order(result.finished()),
        "duplicates": result.duplicates,
    }


def _out_of_order(finished: pa.Table) -> float | None:
    """Return the share of finished offsets that precede an unfinished one of their partition."""
    if not finished.num_rows:
        return None
    rows, is_first = series(finished, ("topic", "partition"), ("first_offset",))
    first, last, time = (
        rows.column(name).to_numpy() for name in ("first_offset", "last_offset", "time_ms")
    )
    # Microseconds that increase from partition to partition, so that no two partitions interfere.
    reached = np.rint(1000 * (time + np.cumsum(is_first) * (time.max() + 1))).astype(np.int64)
    is_early = reached < np.maximum.accumulate(reached)
    size = last - first + 1
    return float(size[is_early].sum() / size.sum())
