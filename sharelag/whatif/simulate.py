"""Run a scenario in virtual time: brokers and clients as Kafka has them, chance from a seed.

    result = simulate(scenario, seed=0)
    result.summary, result.timeline      # Arrow tables
    result.records()                     # what the share coordinator would have written

The same scenario and seed give the same tables, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.whatif import presented
from sharelag.whatif.compiled.support import RecordsLostError, use_compiled
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation import tables
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.run import Run
from sharelag.whatif.simulation.state_log import StateLog
from sharelag.whatif.simulation.tally import Tally


@dataclass(frozen=True)
class SimulationResult(Displayable):
    """What happened, as tables of `sharelag.whatif.simulation.tables` and `summary`.

    Attributes
    ----------
    timeline
        One row a share partition and step.
    deliveries
        One row a share partition and member.
    members
        One row a life of a member.
    assignments
        One row a target assignment.
    summary
        One row.
    requests
        One row a request, when they were requested; else empty.
    scaling
        One row a decision of the autoscaler; empty without one.
    """

    scenario: Scenario
    seed: int
    timeline: pa.Table
    deliveries: pa.Table
    members: pa.Table
    assignments: pa.Table
    summary: pa.Table
    requests: pa.Table
    scaling: pa.Table
    _states: StateLog
    _logs: tuple[Log, ...]
    _tally: Tally

    def presented(self) -> Presentation:
        """The table that people are shown of it."""
        return presented.run(self.summary, self.seed)

    def records(self) -> pa.RecordBatch:
        """The records of ``__share_group_state`` that the share coordinator would have written.

        Returns
        -------
        pyarrow.RecordBatch
            `sharelag.schemas.RAW`.
        """
        return self._states.records()

    def finished(self) -> pa.Table:
        """What was finished and when, in the order of time (`tables.FINISHED`)."""
        return tables.finished(self._tally, self.scenario)

    @property
    def duplicates(self) -> int:
        """Redeliveries that no member requested: records that may have been processed twice."""
        return tables.duplicates(self._tally)

    def offsets(self) -> pa.Table:
        """The ends of the logs when the simulation ended, as `sharelag.schemas.OFFSETS`."""
        as_of = self.scenario.begins_ms + self.scenario.duration_ms
        keys = [
            (topic.name, topic.id, number)
            for topic in self.scenario.topics
            for number in range(topic.partitions)
        ]
        names, ids, partitions = zip(*keys, strict=True)
        columns = {
            "topic": names,
            "topic_id": ids,
            "partition": partitions,
            "log_start_offset": [log.start for log in self._logs],
            "end_offset": [log.known_end for log in self._logs],
            "leader_epoch": [0] * len(keys),
            "as_of": pa.array([as_of] * len(keys), pa.int64()).view(schemas.TIMESTAMP),
        }
        return pa.table(columns, schema=schemas.OFFSETS)


def simulate(scenario: Scenario, seed: int = 0, *, requests: bool = False) -> SimulationResult:
    """Run a scenario once.

    Parameters
    ----------
    scenario : Scenario
    seed : int
        Random seed. Arrivals, the work in each record, what becomes of each delivery, and faults
        have their own streams, so that two assignors with the same seed meet the same luck.
    requests : bool
        Note every request, too.

    Raises
    ------
    InputError
        The seed is not a whole number from 0 on.
    """
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"cannot simulate {scenario!r}: give a Scenario, such as "
            "sharelag.whatif.named('uneven') or bench.scenario('billing')"
        )
    seed = require_seed(seed)
    run = _run(scenario, seed, requests)
    try:
        ended = run.end()
    except RecordsLostError:
        run = Run(scenario, seed, requests)
        ended = run.end()
    return SimulationResult(
        scenario,
        seed,
        ended.timeline,
        ended.deliveries,
        ended.members,
        ended.assignments,
        ended.summary,
        tables.requests(run.requests or (), run.lives),
        ended.scaling,
        run.states,
        tuple(run.logs),
        run.tally,
    )


def require_seed(seed: object) -> int:
    """Return a random seed as an int.

    Raises
    ------
    InputError
        It is not a whole number from 0 on.
    """
    if not isinstance(seed, Integral) or int(seed) < 0:
        raise InputError(f"{seed!r} cannot be a seed: give a whole number from 0 on")
    return int(seed)


def _run(scenario: Scenario, seed: int, requests: bool) -> Run:
    """The loop for a scenario: both give the same, to the last byte."""
    if not use_compiled(scenario):
        return Run(scenario, seed, requests)
    # Only here: numba takes its time to load.
    from sharelag.whatif.compiled.run import CompiledRun

    return CompiledRun(scenario, seed, requests)
