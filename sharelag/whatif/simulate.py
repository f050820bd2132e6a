"""Run a scenario in virtual time, with Kafka's brokers and clients, and chance from a seed.

The same scenario and seed give the same tables, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from numbers import Integral

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.whatif.compiled.outcome import Writes
from sharelag.whatif.compiled.run import Simulation
from sharelag.whatif.compiled.support import use_compiled
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation import tables
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.loop import SimulationTables, run_to_end


@dataclass(frozen=True)
class SimulationResult(SimulationTables):
    """The results of a simulation as tables, and further queries.

    Attributes
    ----------
    requests
        One row per request if they were recorded; otherwise empty.
    """

    requests: pa.Table
    _states: Writes
    _logs: tuple[Log, ...]
    _modelled: int

    def records(self) -> pa.RecordBatch:
        """Return the records of ``__share_group_state`` that the share coordinator would write.

        Returns
        -------
        pyarrow.RecordBatch
            `sharelag.schemas.RAW`.
        """
        return self._states.records()

    def in_flight(self, at_ms: int | None = None) -> pa.Table:
        """Return the state of every offset in flight at a moment, equal neighbours in one row.

        Only leaders know this state; `records` does not show the holders. The simulation runs again
        until that moment.

        Parameters
        ----------
        at_ms : int, optional
            Since the start; by default the end.

        Returns
        -------
        pyarrow.Table
            `sharelag.whatif.simulation.tables.IN_FLIGHT`, by share partition and offset.

        Raises
        ------
        InputError
            The moment is not within the simulation.
        """
        scenario, end_ms = self.scenario, self.scenario.duration_ms
        at_ms = end_ms if at_ms is None else at_ms
        if not 0 <= at_ms <= end_ms:
            raise InputError(f"{at_ms} ms is not within the simulation: give 0 to {end_ms}")
        compiled = use_compiled(scenario)
        run = Simulation(scenario, self.seed, False, compiled, modelled=self._modelled)
        run.clock.run(at_ms * MS)
        members, rows = {life.id: life.member.name for life in run.lives}, []
        for name, parts in zip(run.names, run.in_flight(), strict=True):
            for first, last, state, count, id_, ends_ms in parts:
                left_ms = None if ends_ms is None else ends_ms - scenario.begins_ms
                who = None if id_ is None else members[id_]
                rows.append((*name, first, last, state.name.lower(), count, who, left_ms))
        return tables.table(rows, tables.IN_FLIGHT)

    def offsets(self) -> pa.Table:
        """Return the final end offsets of the logs, as `sharelag.schemas.OFFSETS`."""
        as_of = self.scenario.begins_ms + self.scenario.duration_ms
        names, partitions = zip(*self.scenario.starts, strict=True)
        ids = {topic.name: topic.id for topic in self.scenario.topics}
        columns = {
            "topic": names,
            "topic_id": [ids[name] for name in names],
            "partition": partitions,
            "log_start_offset": [log.start for log in self._logs],
            "end_offset": [log.known_end for log in self._logs],
            "leader_epoch": [0] * len(names),
            "as_of": pa.array([as_of] * len(names), pa.int64()).view(schemas.TIMESTAMP),
        }
        return pa.table(columns, schema=schemas.OFFSETS)


def simulate(scenario: Scenario, seed: int = 0, *, requests: bool = False) -> SimulationResult:
    """Run a scenario once.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    seed : int
        Random seed. Arrivals, the work of each record, the outcome of each delivery, faults, and
        ids have their own streams, so that chance is the same for two assignors with the same seed.
    requests : bool
        Also record every request.

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
    compiled = use_compiled(scenario)
    run, ended = run_to_end(partial(Simulation, scenario, seed, requests, compiled))
    return SimulationResult(
        **vars(ended),
        requests=tables.requests(run.requests, run.lives),
        _states=run.states,
        _logs=tuple(run.logs),
        _modelled=run.modelled,
    )


def require_seed(seed: object) -> int:
    """Return a random seed as an int."""
    if not isinstance(seed, Integral) or int(seed) < 0:
        raise InputError(f"{seed!r} cannot be a seed: give a whole number from 0 on")
    return int(seed)
