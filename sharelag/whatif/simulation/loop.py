"""The event loop of share groups and consumer groups.

Common to both kinds of group: virtual time, logs and producers, lives of members, faults, retention
and compaction, the autoscaler, and the rows of the timeline. Simultaneous events happen in the
order in which they were scheduled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from sharelag.tables import views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.whatif.autoscale import Metric
from sharelag.whatif.presenting import pairs, present
from sharelag.whatif.scenario import Fault, Member, Scenario, Service
from sharelag.whatif.simulation import streams, tables
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.life import Birth, Life
from sharelag.whatif.simulation.logs import logs
from sharelag.whatif.simulation.membership import Membership
from sharelag.whatif.simulation.scaling import SCALING, Observed, Scaling
from sharelag.whatif.simulation.streams import CRASH, HOLD, REJECT, RELEASE, SILENT, Longs
from sharelag.whatif.simulation.tables import Tally, summary

L = TypeVar("L", bound=Life)
R = TypeVar("R", bound="Loop[Any]")
#: The processing times of a partition's records, by place.
Works = dict[int, streams.Work]
#: The longest interval between two runs of the log cleaner.
CLEAN_MS = 300_000
#: The backlog records of a partition with which a run starts, and the factor by which the next run
#: has more if members get near the last one. A hundred million would take gigabytes, mostly unread.
_MODELLED, _FURTHER = 1 << 16, 16
_POISON = {"release": RELEASE, "reject": REJECT, "silent": SILENT, "crash": CRASH, "hold": HOLD}


@dataclass(frozen=True)
class SimulationTables(Displayable):
    """The results of a simulation, as tables of `sharelag.whatif.simulation.tables`.

    Attributes
    ----------
    timeline
        One row per share partition and step.
    deliveries
        One row per share partition and member.
    members
        One row per life of a member.
    assignments
        One row per target assignment.
    summary
        One row.
    scaling
        One row per decision of the autoscaler; empty without one.
    """

    scenario: Scenario
    seed: int
    timeline: pa.Table
    deliveries: pa.Table
    members: pa.Table
    assignments: pa.Table
    summary: pa.Table
    scaling: pa.Table
    _tally: Tally

    def presentation(self) -> Presentation:
        """Return the table that is displayed."""
        (row,) = self.summary.to_pylist()
        values = {name: None if value is None else str(value) for name, value in row.items()}
        return present(f"One run, with seed {self.seed}", pairs(values), views.RUN)

    def finished(self) -> pa.Table:
        """Return the finished offsets in the order of time (`tables.FINISHED`)."""
        names, rows = list(self.scenario.starts), self._tally.list_finished().tolist()
        found = [(time / MS, *names[place], first, last) for place, first, last, time in rows]
        return tables.table(found, tables.FINISHED)

    @property
    def duplicates(self) -> int:
        """Redeliveries without a release by a member: records that may be processed twice."""
        return self._tally.duplicates


def run_to_end(begin: Callable[..., R]) -> tuple[R, SimulationTables]:
    """Run a simulation, again with more backlog if members get near its modelled end."""
    run = begin()
    while True:
        ended = run.end()
        if not run.needs_more:
            return run, ended
        run = begin(modelled=run.modelled * _FURTHER)


class Loop(ABC, Generic[L]):
    """One run of a scenario, for either kind of group.

    ``names`` are topic and partition by place, ``first`` the first place of each topic, ``each``
    the members of the scenario and those that an autoscaler adds, ``lives`` all of their lives.
    """

    coordinator: Membership[Any]

    def __init__(self, scenario: Scenario, seed: int, modelled: int = _MODELLED) -> None:
        self.scenario, self.seed, self.assignor = scenario, seed, scenario.assignor
        self.modelled = modelled
        self.clock = Clock(scenario.begins_ms)
        self.names = list(scenario.starts)
        self.first = {name: place for place, (name, number) in enumerate(self.names) if number == 0}
        self.tally = Tally(len(self.names), scenario.step_ms * MS)
        self.logs = [log for topic in logs(scenario, seed, modelled) for log in topic]
        self.each = scenario.each_member()
        self.lives: list[L] = []
        # By place and offset: how a record fails, and how long each of its deliveries takes.
        poison: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = {}
        lasting: dict[tuple[str, int], dict[int, int]] = {}
        for one in scenario.poison:
            place = (one.topic, one.partition)
            known = (_POISON[one.how], one.attempts, (one.hold_ms or 0) * MS)
            poison.setdefault(place, {})[one.offset] = known
            if one.work_ms is not None:
                lasting.setdefault(place, {})[one.offset] = one.work_ms * MS
        failing = (poison.get(name, {}) for name in self.names)
        self.outcomes = [streams.Outcomes(seed, place, one) for place, one in enumerate(failing)]
        # None for all places if no record has its own processing time.
        self._lasting = [lasting.get(name, {}) if lasting else None for name in self.names]
        self.scaling: Scaling | None = None
        self._works: dict[Service, Works] = {}
        self._rows: list[Longs] = []

    def end(self) -> SimulationTables:
        """Run to the end of the scenario, and return the results."""
        scenario, clock, tally = self.scenario, self.clock, self.tally
        clock.run(scenario.duration_ms * MS)
        self._settle()
        timeline = self._timeline()
        members = tables.members(tally, self.lives, clock.now)
        assigned = pa.Table.from_pylist(self.coordinator.assignments, tables.ASSIGNMENTS)
        # The largest end counts: the end of a window decreases when another leader loads it.
        near = self.modelled // 16 + scenario.settings.limits.max_record_locks
        ends = [inf if log.modelled_until is None else log.modelled_until for log in self.logs]
        window_ends = [*(rows[:, 3] for rows in self._rows), self._observe_places()[:, 2]]
        self.needs_more = bool((np.max(window_ends, axis=0) > np.array(ends) - near).any())
        return SimulationTables(
            scenario,
            self.seed,
            timeline,
            tables.deliveries(tally, self.names, self.lives),
            members,
            assigned,
            summary(self, timeline, members, assigned, self._held()),
            self.scaling.table() if self.scaling else SCALING.empty_table(),
            tally,
        )

    # ---- what each kind of group implements ----

    @abstractmethod
    def _join(self, member: Member) -> Any:
        """Return an initial member as its coordinator knows it."""

    @abstractmethod
    def _life(self, birth: Birth) -> L: ...

    @abstractmethod
    def _fail(self, fault: Fault) -> None:
        """Apply a fault of brokers."""

    @abstractmethod
    def _observe_places(self) -> Longs:
        """Return the columns of the timeline from the log start offset to the age, by place."""

    @abstractmethod
    def note_drained(self) -> None:
        """Record the time if nothing is left to finish."""

    @abstractmethod
    def _lag_and_age(self, metric: Metric) -> tuple[int | None, int]:
        """Return lag and age as in `Observed`, for an autoscaler with this metric."""

    @abstractmethod
    def _held(self) -> int:
        """Return the number of records that members work on."""

    def _settle(self) -> None:
        for log in self.logs:
            log.end(self.clock.now)
        for life in self.lives:
            life.finish()

    def _schedule_upkeep(self) -> None:
        """Schedule recurring tasks of the brokers."""
        return

    # ---- events ----

    def _begin(self) -> None:
        """Schedule all events; called last in ``__init__``."""
        clock, scenario = self.clock, self.scenario
        clock.at(0, self._sample)
        for which, member in enumerate(self.each):
            clock.at(member.join_ms * MS, self.spawn, which, 0)
        if scenario.settled:
            there = [one for one in enumerate(self.each) if not one[1].join_ms]
            ids = [self.member_id(which, 0) for which, _ in there]
            joined = [self._join(member) for _, member in there]
            self.coordinator.start(dict(zip(ids, joined, strict=True)))
        for fault in scenario.faults:
            clock.at(fault.at_ms * MS, self._apply_fault, fault)
        self._schedule_upkeep()
        for topic in scenario.topics:
            places = range(self.first[topic.name], self.first[topic.name] + topic.partitions)
            if topic.retention_ms is not None:
                clock.at(0, self._retain, places, topic.retention_ms, topic.segment_records)
            if topic.compact_ms is not None:
                clock.at(topic.compact_ms * MS, self._compact, places, topic.compact_ms)
        if scenario.autoscaler:
            self.scaling = Scaling(self, scenario.autoscaler)

    def spawn(self, which: int, life: int) -> None:
        """Start a life of a member, unless it would have left by now."""
        if self.scaling and which in self.scaling.retired:
            return  # it crashed, and has been scaled down since
        member = self.each[which]
        if life and member.leave_ms is not None and self.clock.now >= member.leave_ms * MS:
            return
        service = member.service
        if service not in self._works:
            factors = dict(service.by_partition)
            self._works[service] = {
                place: streams.Work(self.seed, place, service, factors.get(name, 1.0), lasting)
                for place, (name, lasting) in enumerate(zip(self.names, self._lasting, strict=True))
            }
        birth = Birth(member, len(self.lives), life, which, self._works[service])
        self.lives.append(self._life(birth))

    def member_id(self, which: int, life: int) -> str:
        """Return the id of a life: the name of a member that is there with its partitions."""
        member = self.each[which]
        if self.scenario.settled and member.assigned and not life:
            return member.name
        return streams.member_id(self.seed, which, life)

    def observe(self, metric: Metric) -> Observed:
        """Return the state of the group for an autoscaler with this metric."""
        lag, age_ms = self._lag_and_age(metric)
        begins = sum(start.end_offset for start in self.scenario.starts.values())
        arrived = sum(log.known_end for log in self.logs) - begins
        rows = self.tally.list_finished()
        return Observed(lag, age_ms, arrived, int(np.sum(rows[:, 2] - rows[:, 1] + 1)))

    def _apply_fault(self, fault: Fault) -> None:
        if not fault.member:
            if fault.kind == "delete_records":
                self._delete(self.first[fault.topic] + fault.partition, fault.offset)
            else:
                self._fail(fault)
            return
        given: dict[str, tuple[Any, ...]] = {"crash": (), "subscribe": (fault.topics,)}
        for life in list(self.lives):  # faults of members have the names of methods of a life
            if life.member.name == fault.member and life.ended is None:
                getattr(life, fault.kind)(*given.get(fault.kind, (fault.for_ms,)))

    def _retain(self, places: Sequence[int], kept_ms: int, segment: int) -> None:
        """Delete segments whose last record is too old, like the log cleaner."""
        for place in places:
            end = self.logs[place].end_then(self.clock.now - kept_ms * MS)
            self._delete(place, end // segment * segment)
        self.clock.after(min(kept_ms, CLEAN_MS) * MS, self._retain, places, kept_ms, segment)

    def _delete(self, place: int, offset: int) -> None:
        """Delete the records of a partition before an offset; fetches notice it."""
        log = self.logs[place]
        log.start = min(max(log.start, offset), log.end(self.clock.now))

    def _compact(self, places: Sequence[int], every_ms: int) -> None:
        for place in places:
            self.logs[place].compact(self.clock.now)
        self.clock.after(every_ms * MS, self._compact, places, every_ms)

    # ---- the timeline ----

    def _sample(self) -> None:
        now, step = self.clock.now, self.scenario.step_ms * MS
        rows = np.empty((len(self.names), 10), np.int64)
        rows[:, 0], rows[:, 1:9] = now // MS, self._observe_places()
        held = np.array([place for life in self.lives for place in life.places], np.int64)
        rows[:, 9] = np.bincount(held, minlength=len(self.names))
        self._rows.append(rows)
        self.note_drained()
        if now + step <= self.scenario.duration_ms * MS:
            self.clock.after(step, self._sample)

    def _timeline(self) -> pa.Table:
        values, places = np.concatenate(self._rows), zip(*self.names, strict=True)
        names, numbers = (list(one) * len(self._rows) for one in places)
        columns = [values[:, 0], names, numbers, *values[:, 1:].T]
        return pa.table(columns, schema=tables.TIMELINE)
