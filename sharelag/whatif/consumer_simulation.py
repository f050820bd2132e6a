"""A consumer group in virtual time, with the logs, work, chance and faults of a share group.

It has the group coordinator of KIP-848 (``group.protocol=consumer``): members receive their part of
the target assignment with their own heartbeats, and receive a partition after its former owner has
given it up. Consumers follow the Java client's ``AsyncKafkaConsumer`` with ``enable.auto.commit``,
its ``FetchRequestManager`` and ``FetchCollector``: they prefetch, heartbeats continue while they
work, and polls revoke and assign partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from sharelag.model import TERMINAL_STATES
from sharelag.whatif.assignors.by_count import next_move
from sharelag.whatif.autoscale import Metric
from sharelag.whatif.consumers import ConsumerSettings
from sharelag.whatif.scenario import Fault, Member, PartitionStart, Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.life import Birth, Life
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.loop import Loop
from sharelag.whatif.simulation.membership import Membership
from sharelag.whatif.simulation.streams import ACCEPT, CRASH, HOLD, REJECT, RELEASE, Longs
from sharelag.whatif.simulation.tables import Tally

Places = frozenset[int]
_NONE: Places = frozenset()


def uniform(subscribed: Mapping[str, Places], current: Mapping[str, Places]) -> dict[str, Places]:
    """Assign partitions evenly, with as few moves as possible.

    As Kafka's ``UniformAssignor``, the default of ``group.consumer.assignors``: numbers differ by
    at most one if all members subscribe to the same topics, and members keep their partitions if
    that is even. Among several even assignments, Kafka's choice by the order of a hash map may
    differ. Both arguments are by member id; a partition without subscribers has no member.
    """
    members = sorted(subscribed)
    given: dict[str, set[int]] = {}
    free = set[int]().union(*subscribed.values())
    for member in members:
        given[member] = set(current.get(member, _NONE) & subscribed[member] & free)
        free -= given[member]

    def able(place: int) -> list[str]:
        return [member for member in members if may(member, place)]

    def size(member: str) -> int:
        return len(given[member])

    def may(member: str, place: int) -> bool:
        return place in subscribed[member]

    # The partitions with the fewest candidates come first.
    for place in sorted(free, key=lambda place: (len(able(place)), place)):
        given[min(able(place), key=size)].add(place)
    # Then single moves, from a member with at least two more than another one that may take it.
    while move := next_move(given, sorted(members, key=size, reverse=True), may, max):
        source, target, place = move
        given[source].discard(place)
        given[target].add(place)
    return {member: frozenset(places) for member, places in given.items()}


@dataclass(slots=True, eq=False)
class Joined:
    """A member as the coordinator knows it."""

    subscribed: Places
    last_heartbeat: int
    target: Places = _NONE
    held: Places = _NONE  # sent, and not yet given up
    sent: Places | None = None


class Coordinator(Membership[Joined]):
    """The group coordinator of one consumer group."""

    def __init__(self, clock: Clock, partitions: int, settings: ConsumerSettings) -> None:
        super().__init__(clock, settings.session_timeout_ms, settings.assignment_interval_ms)
        self._partitions = range(partitions)

    def heartbeat(
        self, member: str, subscribed: Places, owned: Places, joins: bool
    ) -> Places | bool | None:
        """Answer a heartbeat of a member that owns partitions with the ones to have now.

        None: unchanged; False: the member is not in the group.
        """
        join = partial(Joined, subscribed, self._clock.now) if joins else None
        known = self._handle_heartbeat(member, subscribed, join)
        if known is None:
            return False
        self._assign()
        if known.sent is not None and owned <= known.sent:
            known.held = known.sent  # it has given up what it had to
        others = frozenset().union(*(one.held for one in self.members.values() if one is not known))
        # A member gives up partitions before it gets new ones.
        assigned = known.held & known.target
        if known.held <= known.target:
            assigned = known.target - others
        if assigned == known.sent:
            return None
        known.sent = assigned
        known.held |= assigned
        return assigned

    def _pairs(self, target: Places) -> Places:
        return target

    def _target(self) -> dict[str, Places]:
        return uniform(
            {id_: known.subscribed for id_, known in self.members.items()},
            {id_: known.target for id_, known in self.members.items()},
        )


# ---- partitions, and the work of one poll ----


class Partition:
    """One topic partition, in the state in which a consumer group would take over.

    ``committed`` is None before the first commit. All offsets before ``done`` are done, in order,
    also if they are redelivered. ``delivered`` is the exclusive end of all deliveries. Offsets
    ``without`` work were finished by the share group before the simulation. ``retries`` counts the
    retries of each offset. The partition ``is_stuck`` if its committed offset had not moved from
    ``seen`` to the last check.
    """

    def __init__(self, place: int, log: Log, start: PartitionStart, from_earliest: bool) -> None:
        self.place, self.log, self.retries = place, log, Counter[int]()
        self.seen: int | None = None
        self.is_stuck = False
        self.committed: int | None = None
        self.without = frozenset[int]()
        window = start.window
        if window is None or window.start_offset < 0:
            self.done = log.start if from_earliest else log.end(0)
        else:
            first = max(window.start_offset, log.start)
            runs = (one for one in window.batches if one.delivery_state in TERMINAL_STATES)
            spans = (range(max(one.first_offset, first), one.last_offset + 1) for one in runs)
            self.without = frozenset(offset for span in spans for offset in span)
            self.done = next(offset for offset in count(first) if offset not in self.without)
            self.committed = self.done
        self.delivered = self.done

    @property
    def lag(self) -> int:
        """The unfinished offsets, up to the last known end offset."""
        done = self.done
        return max(self.log.known_end - done, 0) - sum(one >= done for one in self.without)

    def age_ms(self, now: int) -> int:
        """Return the age of the first unfinished record; 0 if there is none."""
        return max(now - self.log.append_time(self.done), 0) // MS if self.lag > 0 else 0

    def idle(self, first: int, last: int) -> frozenset[int]:
        """Return offsets in ``first..last`` without work: no record, aborted, or done before."""
        found = {*self.log.gaps(first, last), *self.without.intersection(range(first, last + 1))}
        for base, end in self.log.batches(first, last) if self.log.aborted else ():
            if base in self.log.aborted:
                found.update(range(max(base, first), min(end, last) + 1))
        return frozenset(found)

    def finish(self, part: Part, now: int, tally: Tally) -> int:
        """Finish records and all before them; return how many are new and not archived."""
        first, last = self.done, part.last
        if last < first:
            return 0
        self.done = last + 1
        tally.finished.append((self.place, first, last, now))
        without = sum(offset >= first for offset in part.archived) + len(self.idle(first, last))
        tally.archived[self.place] += without
        return last - first + 1 - without

    def position(self, now: int, from_earliest: bool) -> int:
        """Return the position at which a new owner starts."""
        if self.committed is None:  # auto.offset.reset
            self.committed = self.done if from_earliest else max(self.log.end(now), self.done)
            self.done = self.delivered = self.committed
        return self.committed

    def skip_to(self, offset: int, tally: Tally) -> None:
        """Continue at an offset, because earlier records were deleted."""
        if offset > self.done:
            tally.lost[self.place] += offset - self.done
            self.done = offset
        self.delivered = max(self.delivered, offset)


@dataclass(slots=True)
class Part:
    """Records ``first..last`` of one partition that a poll returned, with their outcomes.

    ``duration`` is the microseconds until all are done, or until the member ``crashes``.
    ``archived`` are offsets that are rejected, or given up after the last attempt.
    """

    partition: Partition
    first: int
    last: int
    duration: int = 0
    crashes: bool = False
    archived: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class Consumer(Life):
    """One life of a consumer, with positions by place and records prefetched beyond them."""

    _world: ConsumerGroupSimulation

    def __init__(self, world: ConsumerGroupSimulation, birth: Birth) -> None:
        super().__init__(world, birth, world.settings.heartbeat_interval_ms)
        self._settings = world.settings
        costs, member = world.scenario.costs, birth.member
        self._wait = round(member.fetch_max_wait_ms * MS)
        self._cost = round(costs.fetch_ms * MS)
        self._write = 2 * self._network + round(costs.write_ms * MS)
        limits = world.scenario.settings.limits
        self._attempts = world.settings.attempts or limits.delivery_count_limit
        self._most = max(self._settings.max_partition_fetch_bytes // max(costs.record_bytes, 1), 1)
        self._positions: dict[int, int] = {}
        # Exclusive ends of fetched records, in the order of arrival.
        self._buffered: dict[int, int] = {}
        self._asked: set[int] = set()  # brokers with a pending request
        self._target: Places | None = None  # from the coordinator, not applied yet
        self.returned: Sequence[Part] = ()  # records that it works on
        self._committed_at = self.joined
        self._overslept = False
        self._begin()

    # ---- membership ----

    def _is_at_work(self) -> bool:
        return bool(self.returned)

    def _is_member(self) -> bool:
        return super()._is_member() and not self._overslept

    def _heartbeat(self, owned: Places) -> Places | bool | None:
        known = self._world.there(self._topics)
        return self._world.coordinator.heartbeat(self.id, known, owned, not self._known)

    def _apply(self, answer: Any) -> None:
        if answer is False:  # fenced: its partitions belong to others
            self._drop(self.places)
            self._send_heartbeat(self._heartbeats)
        else:
            self._target = answer
            self._poll()

    def _reconcile(self) -> None:
        """Revoke and assign partitions, as a poll does."""
        target, self._target = self._target, None
        if target is None:
            return
        given_up = [place for place in self.places if place not in target]
        self._commit(given_up)
        self._drop(given_up)
        taken = [place for place in sorted(target) if place not in self.places]
        self.places += taken
        self._count_unassigned()
        # It needs the committed offsets before it can fetch.
        self._clock.after(2 * self._network, self._seek, taken)
        self._clock.after(self._write if given_up else 0, self._send_heartbeat, self._heartbeats)

    def _overslept_poll(self, polls: int) -> None:
        """Leave after ``max.poll.interval.ms``; the next poll joins again."""
        if self.ended is None and polls == self.polls and self.returned:
            self._overslept = True
            self._fall_out()

    def _leave_group(self) -> None:
        self._commit(self.places)
        self._fall_out()

    def _fall_out(self) -> None:
        self._drop(self.places)
        super()._leave_group()

    def close(self) -> None:
        """Close the consumer instead of polling again."""
        self._commit(self.places)
        self._clock.after(self._write, self._world.coordinator.leave, self.id)
        self._end("left")

    def _drop(self, places: Sequence[int]) -> None:
        for place in places:
            self._positions.pop(place, None)
            self._buffered.pop(place, None)
        self.places = [place for place in self.places if place not in places]
        self._count_unassigned()

    def _end(self, how: str) -> None:
        super()._end(how)
        self.returned = ()

    # ---- fetching ----

    def _seek(self, places: list[int]) -> None:
        """Start new partitions at their committed offsets."""
        if self._is_stopped(self._seek, places):
            return
        for place in places:
            if place in self.places and place not in self._positions:
                partition = self._world.partitions[place]
                self._positions[place] = partition.position(self._clock.now, self._world.earliest)
        self._fetch()

    def _collect(self, room: int) -> list[Part]:
        """Return at most ``room`` fetched records, partition by partition."""
        returned = []
        for place, end in list(self._buffered.items()):
            if not room:
                break
            first = self._positions[place]
            after = min(end, first + room)
            returned.append(Part(self._world.partitions[place], first, after - 1))
            room -= after - first
            self._positions[place] = after
            if after == end:
                del self._buffered[place]
        return returned

    def _fetch(self) -> None:
        """Fetch partitions without buffered records, with one request per broker at a time."""
        fetches: dict[int, dict[int, int]] = {}
        for place, position in sorted(self._positions.items()):
            if place not in self._buffered and self.ended is None:
                fetches.setdefault(self._world.leaders[place], {})[place] = position
        for broker, positions in sorted(fetches.items()):
            if broker not in self._asked:
                self._asked.add(broker)
                until = self._clock.now + self._network + self._wait
                self._clock.after(self._network, self._serve, broker, positions, until)

    def _serve(self, broker: int, positions: dict[int, int], until: int) -> None:
        """Answer a fetch when there are records, or after its maximum wait."""
        if self.ended is not None:
            return
        now = self._clock.now
        found: dict[int, tuple[int, int]] = {}
        for place, position in positions.items():
            log = self._world.partitions[place].log
            end = log.fetch_end(now)
            if position < log.start:  # out of range
                self._clock.after(2 * self._network, self._reset, place)
            elif position < end:
                found[place] = (position, min(end, position + self._most))
        if found or now >= until:
            takes = (self._cost if found else 0) + self._network
            self._clock.after(takes, self._fetch_answered, broker, found)
            return
        dues = [self._world.partitions[place].log.next_readable() for place in positions]
        due = min([until, *(due for due in dues if due is not None)])
        self._clock.at(due, self._serve, broker, positions, until)

    def _fetch_answered(self, broker: int, found: dict[int, tuple[int, int]]) -> None:
        self._asked.discard(broker)
        for place, (position, end) in found.items():
            if self._positions.get(place) == position and place not in self._buffered:
                self._buffered[place] = end
        self._fetch()
        if self._buffered:
            self._poll()

    def _reset(self, place: int) -> None:
        """Apply ``auto.offset.reset``, because the log starts after the position."""
        partition = self._world.partitions[place]
        start = partition.log.start
        if self.ended is None and self._positions.get(place, start) < start:
            position = start if self._world.earliest else partition.log.end(self._clock.now)
            self._positions[place] = position
            partition.skip_to(position, self._world.tally)
            self._world.note_drained()

    # ---- polling ----

    def _poll(self) -> None:
        """Poll, unless the consumer works on returned records."""
        if self.returned or self._is_stopped(self._poll):
            return
        if self._leaving:
            self.close()
            return
        self._reconcile()
        now = self._clock.now
        if now - self._committed_at >= self._settings.auto_commit_interval_ms * MS:
            self._committed_at = now
            self._commit(self.places)
        returned = self._collect(self.member.max_poll_records)
        self._fetch()
        if returned:
            self._work_on(returned)

    def _work_on(self, returned: Sequence[Part]) -> None:
        self.polls, self.returned = self.polls + 1, returned
        for part in returned:
            partition = part.partition
            # A record that crashes the member is the last one that it reaches.
            retries = 0 if any(one.crashes for one in returned) else self._foresee(part)
            again = max(min(part.last + 1, partition.delivered) - part.first, 0)
            self._counts(part).update(
                deliveries=part.size + retries, redeliveries=again + retries, released=retries
            )
            self._world.tally.given_back += retries
            partition.delivered = max(partition.delivered, part.last + 1)
        duration = round(self.member.service.poll_ms * MS) + sum(part.duration for part in returned)
        self._draw_accidents(duration)
        longest = self._settings.max_poll_interval_ms * MS
        if duration > longest:
            self._clock.after(longest, self._overslept_poll, self.polls)
        self._busy_since = self._clock.now
        self._clock.after(duration, self._work_done)

    def _foresee(self, part: Part) -> int:
        """Set the duration and outcomes of the records of a partition; return the retries.

        A record that the behaviour releases is retried at once, up to the configured number of
        attempts over all its deliveries, and then given up like a rejected one. A silent one counts
        as done. A held one delays all records behind it.
        """
        partition, first, last, retries = part.partition, part.first, part.last, 0
        work, outcomes = self.work[partition.place], self._world.outcomes[partition.place]
        idle, fresh = partition.idle(first, last), max(first, partition.delivered)

        def answers(first: int, last: int, attempt: int) -> list[int]:
            found = outcomes.of(first, last, attempt, self.member.behaviour)
            return [ACCEPT] if found is None else found.tolist()

        again = range(first, min(fresh, last + 1))
        partition.retries.update(again)
        of_fresh = answers(fresh, last, 1) if fresh <= last else ()
        odd = {*again, *(fresh + at for at, answer in enumerate(of_fresh) if answer != ACCEPT)}
        for offset in sorted(odd - idle):
            attempt = partition.retries[offset] + 1
            while (answer := answers(offset, offset, attempt)[0]) == RELEASE and (
                attempt < self._attempts
            ):
                attempt, retries = attempt + 1, retries + 1
                part.duration += work.total(offset, offset)
            partition.retries[offset] = attempt - 1
            if answer == HOLD:
                part.duration += outcomes.poison[offset][2]
            if answer == CRASH:
                last, part.crashes = offset, True
                break
            if answer in (REJECT, RELEASE):
                part.archived.append(offset)
        part.duration += work.total(first, last)
        part.duration -= sum(work.total(one, one) for one in idle if one <= last)
        return retries

    def _work_done(self) -> None:
        if self._is_stopped(self._work_done):
            return
        self._stop_work()
        if any(part.crashes for part in self.returned):
            self.crash()
            return
        now, tally = self._clock.now, self._world.tally
        for part in self.returned:
            done, rejected = part.partition.finish(part, now, tally), len(part.archived)
            refused = part.size - done - rejected
            self._counts(part).update(acknowledged=done, rejected=rejected, refused=refused)
        self.returned = ()
        self._world.note_drained()
        if self._overslept:
            self._overslept = False
            self._send_heartbeat(self._heartbeats)
        self._poll()

    def _commit(self, places: Sequence[int]) -> None:
        at_work = {part.partition.place: part.first for part in self.returned}
        positions = self._positions | at_work
        committed = {place: positions[place] for place in places if place in self._positions}
        if committed and self._known:
            self._clock.after(self._write - self._network, self._commit_arrives, committed)

    def _commit_arrives(self, committed: dict[int, int]) -> None:
        if self.id in self._world.coordinator.members:  # otherwise it is fenced
            for place, position in committed.items():
                self._world.partitions[place].committed = position

    def _counts(self, part: Part) -> Counter[str]:
        return self._world.tally.counts[part.partition.place, self.number]


class ConsumerGroupSimulation(Loop[Consumer]):
    """One simulation of a consumer group."""

    coordinator: Coordinator

    def __init__(
        self, scenario: Scenario, seed: int, settings: ConsumerSettings, **modelled: int
    ) -> None:
        super().__init__(scenario, seed, **modelled)
        self.assignor, self.settings = "consumer-group (uniform)", settings
        self.earliest = scenario.settings.auto_offset_reset == "earliest"
        starts, self.leaders = scenario.starts.values(), scenario.leaders
        self.partitions = [
            Partition(place, log, start, self.earliest)
            for place, (log, start) in enumerate(zip(self.logs, starts, strict=True))
        ]
        self._looked_at = -1  # the last check by an autoscaler
        self.coordinator = Coordinator(self.clock, len(self.names), settings)
        # The partitions of each topic, and the times from which they exist.
        self.topics: dict[str, list[tuple[int, int]]] = {}
        for topic in scenario.topics:
            begins = enumerate(topic.there_from(), self.first[topic.name])
            self.topics[topic.name] = [(place, begin * MS) for place, begin in begins]
        self._begin()

    def _join(self, member: Member) -> Joined:
        return Joined(self.there(member.topics), 0)

    def there(self, topics: Iterable[str]) -> Places:
        """Return the existing partitions of some topics."""
        of_topics = (place for topic in topics for place in self.topics[topic])
        return frozenset(place for place, begin in of_topics if begin <= self.clock.now)

    def _life(self, birth: Birth) -> Consumer:
        return Consumer(self, birth)

    def _fail(self, fault: Fault) -> None:
        """Ignore a new leader, which makes no difference to a consumer."""

    def _observe_places(self) -> Longs:
        now, rows = self.clock.now, []
        for one in self.partitions:
            end, lag, done = one.log.end(now), one.lag, one.done
            working, begin = max(one.delivered - done, 0), one.log.start
            ahead = end - done - lag
            rows.append((begin, done, one.delivered, ahead, working, end, lag, one.age_ms(now)))
        return np.array(rows, np.int64).reshape(-1, 8)

    def note_drained(self) -> None:
        """Record the time if nothing is left to finish."""
        for one in self.partitions:
            one.log.end(self.clock.now)
            if one.lag > 0:
                return
        self.tally.note_drained(self.clock.now)

    def _lag_and_age(self, metric: Metric) -> tuple[int | None, int]:
        """Return lag and age by committed offsets; ``lag_excluding_stuck`` skips stuck partitions.

        A partition is stuck if its committed offset has not moved since the previous check, as with
        ``excludePersistentLag``.
        """
        now, lags = self.clock.now, list[int]()
        for one in self.partitions:
            at = one.committed
            if now > self._looked_at:
                one.is_stuck, one.seen = at is not None and at == one.seen, at
            if at is not None:
                lag = max(one.log.end(now) - at, 0)
                lags.append(0 if one.is_stuck and metric == "lag_excluding_stuck" else lag)
        self._looked_at = now
        oldest = max(one.age_ms(now) for one in self.partitions)
        return sum(lags) if lags else None, oldest

    def _held(self) -> int:
        return sum(part.size for life in self.lives for part in life.returned)
