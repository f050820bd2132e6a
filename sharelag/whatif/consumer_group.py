"""A share group's producers, backlog, members and work, simulated as a consumer group.

    consumer_group_twin(scenario, seed=0).summary       # beside simulate(scenario, seed=0).summary
    should_move(scenario, seeds=range(20)).answers      # drain, age, parallelism, order ...

What is a consumer group's: a partition has one member at most (``UniformAssignor`` of
``group.protocol=consumer``), its records are worked on in order, and positions are committed every
``auto.commit.interval.ms``. A member that crashes is missed when its session times out; then
another one goes on from what was committed. Members that have no partition wait.

What has to be assumed, since a consumer group has no acknowledgement of single records: a record
that a member of the share group would release is tried again in place, at once,
``ConsumerSettings.attempts`` times in all, and is then given up like a rejected one (skipped, or
put into a dead letter queue: ``archived``). One that it would never acknowledge counts as done. A
record that crashes its member crashes the next one as well; nothing counts its
deliveries. Another leader of a partition, and a broker that is down, make no difference. Records
that the share group had finished beyond its start offset are not work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag.errors import InputError
from sharelag.tables import views
from sharelag.tables.declared import trials
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.whatif.compare import contrast
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.tables import MEASURED, Measure
from sharelag.whatif.consumer_groups.consumer import Consumer, World
from sharelag.whatif.consumer_groups.coordinator import ConsumerSettings, Coordinator, Joined
from sharelag.whatif.consumer_groups.work import Partition, started
from sharelag.whatif.grid import Progress
from sharelag.whatif.presented import presented
from sharelag.whatif.scenario import Fault, Member, Scenario
from sharelag.whatif.simulate import SimulationResult, simulate
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.life import Birth
from sharelag.whatif.simulation.loop import Loop, SimulationTables
from sharelag.whatif.simulation.scaling import Observed
from sharelag.whatif.simulation.streams import Longs
from sharelag.whatif.simulation.tables import SUMMARY, Tally

__all__ = [
    "ConsumerGroupResult",
    "ConsumerSettings",
    "Moving",
    "consumer_group_twin",
    "should_move",
]

CONSUMER, SHARE = "consumer group", "share group"
#: One run: the summary, and what only this comparison asks.
RUNS = pa.schema(
    [
        ("variant", pa.string()),  # consumer group or share group
        *SUMMARY,
        # members at work, on average while anything was left; null: nothing ever was
        ("parallelism", pa.float64()),
        # of the offsets finished, those with an earlier one unfinished then
        ("out_of_order_share", pa.float64()),
        # redeliveries that no member requested: work that may have been done twice
        ("duplicates", pa.int64()),
    ]
)
#: One measure.
ANSWERS = trials.ANSWERS.schema
_MEASURES = {
    "drain_ms": MEASURED["drain_ms"],
    "age_p95_ms": MEASURED["age_p95_ms"],
    "latency_p95_ms": MEASURED["latency_p95_ms"],
    "parallelism": Measure("higher", "members"),
    "idle_members": MEASURED["idle_members"],
    "out_of_order_share": Measure("lower", ""),
    "duplicates": Measure("lower", "records"),
    "archived": MEASURED["archived"],
    "lost": MEASURED["lost"],
    "lag_end": MEASURED["lag_end"],
}


@dataclass(frozen=True)
class Moving(Displayable):
    """What came of it.

    Attributes
    ----------
    runs
        One row per run: `RUNS`; `sharelag.whatif.compare.compared` takes it, too.
    answers
        One row per measure: `ANSWERS`.
    """

    runs: pa.Table
    answers: pa.Table

    def presented(self) -> Presentation:
        """Return the table that people are shown of it."""
        moved = [words.moving_for_people(row) for row in self.rows()]
        title = "Consumer group or share group?"
        return presented(title, moved, views.MOVING.without("variant"), (words.MOVING,))

    def rows(self, variant: str = "") -> list[dict[str, Any]]:
        """One row per measure, as a consumer group and as a share group."""
        return [{"variant": variant, **row} for row in self.answers.to_pylist()]


def consumer_group_twin(
    scenario: Scenario, seed: int = 0, settings: ConsumerSettings | None = None
) -> ConsumerGroupResult:
    """Run a scenario once, as a consumer group.

    Parameters
    ----------
    scenario : Scenario
        Of its settings only ``isolation_level``, ``auto_offset_reset`` and, as a limit of attempts,
        ``delivery_count_limit`` are used.
    seed : int
        With the seed of `simulate` arrivals are the same, and so are the work in each record and
        what it does in which attempt.
    settings : ConsumerSettings, optional
        Kafka's defaults when not given.

    Returns
    -------
    ConsumerGroupResult
        With the tables of a `SimulationResult`.
    """
    return ConsumerGroupSimulation(scenario, seed, settings or ConsumerSettings()).result()


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
    settings : ConsumerSettings, optional
        Of the consumer group.
    confidence : float
        Of each interval (Student's t, over the differences seed by seed).
    progress : callable, optional
        Called with the runs done and all runs.

    Raises
    ------
    InputError
        No seed is given, or one twice.
    """
    seeds = list(seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError("give at least one seed, and each of them once")
    rows = []
    for seed in seeds:
        rows.append(_row(CONSUMER, consumer_group_twin(scenario, seed, settings)))
        rows.append(_row(SHARE, simulate(scenario, seed)))
        if progress is not None:
            progress(len(rows), 2 * len(seeds))
    runs = pa.Table.from_pylist(rows, schema=RUNS)
    measures, differences = contrast(runs, _MEASURES, CONSUMER, confidence)
    means = {(row["variant"], row["measure"]): row["mean"] for row in measures}
    answers = [
        {
            **row,
            "unit": _MEASURES[row["measure"]].unit,
            "n": len(seeds),
            "consumer_group": means[CONSUMER, row["measure"]],
            "share_group": means[SHARE, row["measure"]],
            "better": {None: None, True: SHARE, False: CONSUMER}[row["better"]],
        }
        for row in differences
    ]
    return Moving(runs, pa.Table.from_pylist(answers, schema=ANSWERS))


def _row(variant: str, result: ConsumerGroupResult | SimulationResult) -> dict[str, object]:
    (row,) = result.summary.to_pylist()
    return {
        **row,
        "variant": variant,
        "parallelism": _parallelism(result.timeline, result.members),
        "out_of_order_share": _out_of_order(result.finished()),
        "duplicates": result.duplicates,
    }


def _parallelism(timeline: pa.Table, members: pa.Table) -> float | None:
    lag = timeline.group_by("time_ms").aggregate([("lag", "sum")]).sort_by("time_ms")
    times, behind = (lag.column(name).to_numpy() for name in ("time_ms", "lag_sum"))
    if not behind[:-1].any():
        return None
    spent = np.diff(times)[behind[:-1] > 0].sum()
    return float(np.sum(members.column("busy_ms").to_numpy()) / spent)


def _out_of_order(finished: pa.Table) -> float | None:
    """Of the offsets finished, those that were so before some earlier one of their partition."""
    if not finished.num_rows:
        return None
    names = ("topic", "partition", "first_offset")
    rows = finished.sort_by([(name, "ascending") for name in names])
    topic, partition, first, last, time = (
        rows.column(name).to_numpy() for name in (*names, "last_offset", "time_ms")
    )
    is_next = (topic[1:] != topic[:-1]) | (partition[1:] != partition[:-1])
    place = np.append(0, np.cumsum(is_next))
    # Microseconds that go on from partition to partition: none is late for another one's time.
    reached = np.rint(1000 * (time + place * (time.max() + 1))).astype(np.int64)
    is_early = reached < np.maximum.accumulate(reached)
    size = last - first + 1
    return float(size[is_early].sum() / size.sum())


# ---- one simulation, with the logs, work, chance and faults of the share group ----


class Watch:
    """Looks at a consumer group, and remembers the committed offsets of the look before.

    A partition is stuck when its committed offset has not moved since then, as
    ``excludePersistentLag`` has it.
    """

    def __init__(
        self, scenario: Scenario, clock: Clock, partitions: Sequence[Partition], tally: Tally
    ) -> None:
        self._clock, self._partitions, self._tally = clock, partitions, tally
        self._begins = sum(start.end_offset for topic in scenario.topics for start in topic.starts)
        self._stood: list[int | None] = [None] * len(partitions)
        self._persists, self._looked_at = [False] * len(partitions), -1

    def observe(self, without_stuck: bool) -> Observed:
        """Return the group now; its lag without that of stuck partitions, if wanted."""
        now = self._clock.now
        committed = [one.committed for one in self._partitions]
        lags = [
            None if at is None else max(one.log.end(now) - at, 0)
            for one, at in zip(self._partitions, committed, strict=True)
        ]
        if now > self._looked_at:
            stood = zip(self._stood, committed, strict=True)
            self._persists = [at is not None and at == before for before, at in stood]
            self._stood, self._looked_at = committed, now
        if without_stuck:
            persists = zip(lags, self._persists, strict=True)
            lags = [0 if is_stuck else lag for lag, is_stuck in persists]
        waiting = (one for one in self._partitions if one.lag > 0)
        ages = (max(now - one.log.appended(one.done), 0) // MS for one in waiting)
        ends = sum(one.log.known_end for one in self._partitions)
        finished = sum(last - first + 1 for _, first, last, _ in self._tally.finished)
        return Observed(lags, max(ages, default=0), ends - self._begins, finished)


#: What the summary has for an assignor.
ASSIGNOR = "consumer-group (uniform)"


@dataclass(frozen=True)
class ConsumerGroupResult(SimulationTables):
    """Tables of a simulated consumer group, as of `sharelag.whatif.simulate.SimulationResult`.

    In the timeline ``start_offset`` is where the work has got to, ``window_end_offset`` how far
    records were delivered; the committed offset, which Kafka's lag goes by, is up to
    ``auto.commit.interval.ms`` older.
    """


class ConsumerGroupSimulation(Loop[Consumer]):
    """One simulation of a consumer group."""

    def __init__(self, scenario: Scenario, seed: int, settings: ConsumerSettings) -> None:
        super().__init__(scenario, seed)
        starts = [start for topic in scenario.topics for start in topic.starts]
        earliest = scenario.settings.auto_offset_reset == "earliest"
        self.partitions = [
            started(place, log, starts[place], earliest) for place, log in enumerate(self.logs)
        ]
        self.coordinator = Coordinator(self.clock, len(self.names), settings)
        topics = {
            topic.name: [
                (place, begin * MS)
                for place, begin in enumerate(topic.there_from(), self.first[topic.name])
            ]
            for topic in scenario.topics
        }
        about = (scenario, seed, self.clock, self._spawn, settings, self.coordinator)
        found = (self.partitions, topics, self.outcomes, self.tally, self._note_drained)
        self.world = World(*about, *found)
        self._begin()

    def result(self) -> ConsumerGroupResult:
        """Run to the end of the scenario."""
        return ConsumerGroupResult(**vars(self.end()))

    def _joined(self, member: Member) -> Joined:
        topics = (self.world.topics[topic] for topic in member.topics)
        return Joined(frozenset(place for of in topics for place, begin in of if not begin), 0)

    def _life(self, birth: Birth) -> Consumer:
        return Consumer(self.world, birth)

    def _fail(self, fault: Fault) -> None:
        """Another leader of a partition makes no difference to a consumer."""

    def _observed(self) -> Longs:
        now, rows = self.clock.now, []
        for one in self.partitions:
            end, lag, done = one.log.end(now), one.lag, one.done
            age = max(now - one.log.appended(done), 0) // MS if lag > 0 else 0
            working = max(one.delivered - done, 0)
            rows.append(
                (one.log.start, done, one.delivered, end - done - lag, working, end, lag, age)
            )
        return np.array(rows, np.int64).reshape(-1, 8)

    def _note_drained(self) -> None:
        for one in self.partitions:
            one.log.end(self.clock.now)
            if one.lag > 0:
                return
        self.tally.drained(self.clock.now)

    def _observer(self) -> Callable[[bool], Observed]:
        return Watch(self.scenario, self.clock, self.partitions, self.tally).observe

    def _assignor(self) -> str:
        return ASSIGNOR

    def _held(self) -> int:
        return sum(life.held for life in self.lives)
