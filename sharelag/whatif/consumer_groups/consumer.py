"""A consumer of a consumer group: it fetches ahead, processes polls, and commits at intervals.

As the ``AsyncKafkaConsumer`` of the Java client with ``enable.auto.commit``, its
``FetchRequestManager`` and ``FetchCollector``: heartbeats go on while it works, and partitions are
given up and taken within a poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sharelag.whatif.consumer_groups.coordinator import ConsumerSettings, Coordinator, Places
from sharelag.whatif.consumer_groups.work import Batch, Partition, Returned, process
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.life import Birth, Life, Surroundings
from sharelag.whatif.simulation.streams import Outcomes
from sharelag.whatif.simulation.tables import COUNTS, Tally


@dataclass(frozen=True)
class World(Surroundings):
    """What all members of a consumer group have in common."""

    settings: ConsumerSettings
    coordinator: Coordinator
    partitions: Sequence[Partition]
    # The partitions of each topic, and from when on they are there.
    topics: dict[str, list[tuple[int, int]]]
    outcomes: Sequence[Outcomes]
    tally: Tally
    note_drained: Callable[[], None]


class Fetcher:
    """Positions of a consumer (by place, what the next poll returns), and what it has beyond them.

    It calls ``ready`` when records came, and asks for nothing any more once it is ``closed``.
    """

    def __init__(self, world: World, member: Member, ready: Callable[[], None]) -> None:
        costs = world.scenario.costs
        self._world, self._clock, self._ready = world, world.clock, ready
        self._wait, self._network, self._cost = (
            round(span * MS)
            for span in (member.fetch_max_wait_ms, costs.network_ms, costs.fetch_ms)
        )
        self._most = max(world.settings.max_partition_fetch_bytes // max(costs.record_bytes, 1), 1)
        self._earliest = world.scenario.settings.auto_offset_reset == "earliest"
        self.positions: dict[int, int] = {}
        # Exclusive end of what was fetched, in the order in which it came.
        self._buffered: dict[int, int] = {}
        self._asked: set[int] = set()  # brokers with a request under way
        self.closed = False

    def seek(self, places: Iterable[int]) -> None:
        """Begin with partitions where they were committed."""
        for place in places:
            if place not in self.positions:
                partition = self._world.partitions[place]
                self.positions[place] = partition.position(self._clock.now, self._earliest)
        self.fetch()

    def drop(self, places: Iterable[int]) -> None:
        """Forget partitions."""
        for place in places:
            self.positions.pop(place, None)
            self._buffered.pop(place, None)

    def collect(self, room: int) -> list[Returned]:
        """Return the records that a poll returns, at most ``room``, partition by partition."""
        returned = []
        for place, end in list(self._buffered.items()):
            if not room:
                break
            first = self.positions[place]
            after = min(end, first + room)
            returned.append(Returned(self._world.partitions[place], first, after - 1))
            room -= after - first
            self.positions[place] = after
            if after == end:
                del self._buffered[place]
        return returned

    def fetch(self) -> None:
        """Ask each broker for the partitions without records here, one request at a time."""
        wanted: dict[int, dict[int, int]] = {}
        for place, position in sorted(self.positions.items()):
            if place not in self._buffered and not self.closed:
                wanted.setdefault(place % self._world.scenario.brokers, {})[place] = position
        for broker, asked in sorted(wanted.items()):
            if broker not in self._asked:
                self._asked.add(broker)
                until = self._clock.now + self._network + self._wait
                self._clock.after(self._network, self._serve, broker, asked, until)

    def _serve(self, broker: int, asked: dict[int, int], until: int) -> None:
        """What the broker does: it answers when there is something, or when the wait is over."""
        if self.closed:
            return
        now = self._clock.now
        found: dict[int, tuple[int, int]] = {}
        for place, position in asked.items():
            log = self._world.partitions[place].log
            end = log.fetch_end(now)
            if position < log.start:  # out of range
                self._clock.after(2 * self._network, self._reset, place)
            elif position < end:
                found[place] = (position, min(end, position + self._most))
        if found or now >= until:
            takes = (self._cost if found else 0) + self._network
            self._clock.after(takes, self._answered, broker, found)
            return
        dues = [self._world.partitions[place].log.next_readable() for place in asked]
        due = min([until, *(due for due in dues if due is not None)])
        self._clock.at(due, self._serve, broker, asked, until)

    def _answered(self, broker: int, found: dict[int, tuple[int, int]]) -> None:
        self._asked.discard(broker)
        for place, (position, end) in found.items():
            if self.positions.get(place) == position and place not in self._buffered:
                self._buffered[place] = end
        self.fetch()
        if self._buffered and not self.closed:
            self._ready()

    def _reset(self, place: int) -> None:
        """``auto.offset.reset``, since the log begins later than the position."""
        partition = self._world.partitions[place]
        start = partition.log.start
        if not self.closed and self.positions.get(place, start) < start:
            position = start if self._earliest else partition.log.end(self._clock.now)
            self.positions[place] = position
            partition.skip_to(position, self._world.tally)
            self._world.note_drained()


_DELIVERIES, _REDELIVERIES, _ACKNOWLEDGED, _RELEASED, _REJECTED, _REFUSED = range(len(COUNTS))


class Consumer(Life):
    """One life of a consumer."""

    def __init__(self, world: World, birth: Birth) -> None:
        super().__init__(world, birth)
        self._world, self._settings = world, world.settings
        self._fetcher = Fetcher(world, birth.member, self._fetched)
        self._write = 2 * self._network + round(world.scenario.costs.write_ms * MS)
        self._target: Places | None = None  # sent by the coordinator, not yet taken over
        self._batch: Batch | None = None
        self._committed_at = self.joined
        self._overslept = False
        self._begin()

    @property
    def held(self) -> int:
        """Records that it works on."""
        returned = self._batch.returned if self._batch else ()
        return sum(last - first + 1 for _, first, last in returned)

    # ---- membership ----

    @property
    def _interval(self) -> int:
        return self._settings.heartbeat_interval_ms * MS

    def _is_at_work(self) -> bool:
        return self._batch is not None

    def _is_member(self) -> bool:
        return super()._is_member() and not self._overslept

    def _send_beat(self) -> None:
        self._clock.after(self._network, self._beat_arrives, frozenset(self.places))

    def _beat_arrives(self, owned: Places) -> None:
        if self.ended is not None or not self._is_member():
            return
        now, topics = self._clock.now, self._world.topics
        known = frozenset(
            place for topic in self._topics for place, begin in topics[topic] if begin <= now
        )
        answer = self._world.coordinator.heartbeat(self.id, known, owned, not self._known)
        self._clock.after(self._network, self._heartbeat_answered, answer)

    def _heartbeat_answered(self, answer: Places | bool | None) -> None:
        if self._is_stopped(self._heartbeat_answered, answer) or not self._is_member():
            return
        self._known = answer is not False
        if answer is False:  # fenced: what it had is another one's
            self._drop(self.places)
            self._beat(self._beats)
        elif isinstance(answer, frozenset):
            self._target = answer
            if self._batch is None:
                self._reconcile()
                self._poll()

    def _reconcile(self) -> None:
        """Give up and take partitions, which a poll does."""
        target, self._target = self._target, None
        if target is None:
            return
        given_up = [place for place in self.places if place not in target]
        self._commit(given_up)
        self._drop(given_up)
        taken = [place for place in sorted(target) if place not in self.places]
        self.places += taken
        self._count_unassigned()
        # It has to know the committed offsets before it can fetch.
        self._clock.after(2 * self._network, self._seek, taken)
        self._clock.after(self._write if given_up else 0, self._beat, self._beats)

    def _seek(self, places: list[int]) -> None:
        if not self._is_stopped(self._seek, places):
            self._fetcher.seek([place for place in places if place in self.places])

    def _overslept_poll(self, polls: int) -> None:
        """Leave when ``max.poll.interval.ms`` is over; the next poll joins again."""
        if self.ended is None and polls == self.polls and self._batch is not None:
            self._overslept = True
            self._fall_out()

    def _depart(self) -> None:
        self._commit(self.places)
        self._fall_out()

    def _fall_out(self) -> None:
        self._clock.after(self._network, self._world.coordinator.leave, self.id)
        self._known = False
        self._drop(self.places)

    # ---- polling ----

    def _poll(self) -> None:
        if self.ended is not None or self._batch is not None:
            return
        if self._leaving:
            self._close()
            return
        self._reconcile()
        now = self._clock.now
        if now - self._committed_at >= self._settings.auto_commit_interval_ms * MS:
            self._committed_at = now
            self._commit(self.places)
        returned = self._fetcher.collect(self.member.max_poll_records)
        self._fetcher.fetch()
        if returned:
            self._work_on(returned)

    def _fetched(self) -> None:
        """Records came: who waits in a poll gets them."""
        if self._batch is None and not self._is_stopped(self._fetched):
            self._poll()

    def _work_on(self, returned: list[Returned]) -> None:
        self.polls += 1
        world, member = self._world, self.member
        limits = world.scenario.settings.limits
        attempts = self._settings.attempts or limits.delivery_count_limit
        work = self.work.__getitem__
        batch = self._batch = process(returned, member.behaviour, attempts, work, world.outcomes)
        batch.duration += round(member.service.poll_ms * MS)
        for partition, first, last in returned:
            counts = self._counts(partition.place)
            retries = batch.retries.get(partition.place, 0)
            again = max(min(last + 1, partition.delivered) - first, 0)
            counts[_DELIVERIES] += last - first + 1 + retries
            counts[_REDELIVERIES] += again + retries
            counts[_RELEASED] += retries
            world.tally.given_back += retries
            partition.delivered = max(partition.delivered, last + 1)
        self._draw_accidents(batch.duration)
        longest = self._settings.max_poll_interval_ms * MS
        if batch.duration > longest:
            self._clock.after(longest, self._overslept_poll, self.polls)
        self._busy_since = self._clock.now
        self._clock.after(batch.duration, self._work_done, batch)

    def _work_done(self, batch: Batch) -> None:
        if self._is_stopped(self._work_done, batch):
            return
        self._stop_work()
        if batch.crashes:
            self.crash()
            return
        self._batch = None
        for partition, first, last in batch.returned:
            archived = batch.archived.get(partition.place, ())
            first_time = partition.finish(last, archived, self._clock.now, self._world.tally)
            counts = self._counts(partition.place)
            counts[_ACKNOWLEDGED] += first_time
            counts[_REJECTED] += sum(offset >= first for offset in archived)
            counts[_REFUSED] += last - first + 1 - first_time - len(archived)
        self._world.note_drained()
        if self._overslept:
            self._overslept = False
            self._beat(self._beats)
        self._poll()

    def _commit(self, places: Sequence[int]) -> None:
        positions = self._fetcher.positions
        committed = {place: positions[place] for place in places if place in positions}
        for partition, first, _ in self._batch.returned if self._batch else ():
            if partition.place in committed:
                committed[partition.place] = first
        if committed and self._known:
            self._clock.after(self._write - self._network, self._commit_arrives, committed)

    def _commit_arrives(self, committed: dict[int, int]) -> None:
        if self.id in self._world.coordinator.members:  # else it is fenced
            for place, position in committed.items():
                self._world.partitions[place].committed = position

    def _close(self) -> None:
        self._commit(self.places)
        self._clock.after(self._write, self._world.coordinator.leave, self.id)
        self._end("left")

    def _drop(self, places: Sequence[int]) -> None:
        self._fetcher.drop(places)
        self.places = [place for place in self.places if place not in places]
        self._count_unassigned()

    def _end(self, how: str) -> None:
        self._fetcher.closed = True
        super()._end(how)
        self._batch = None

    def _counts(self, place: int) -> list[int]:
        return self._world.tally.counts.setdefault((place, self.number), [0] * len(COUNTS))
