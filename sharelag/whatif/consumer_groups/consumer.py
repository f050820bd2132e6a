"""A consumer of a consumer group: it fetches ahead, processes polls, and commits at intervals.

As the ``AsyncKafkaConsumer`` of the Java client with ``enable.auto.commit``: heartbeats go on while
it works, and partitions are given up and taken within a poll.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharelag.whatif.consumer_groups.coordinator import Places
from sharelag.whatif.consumer_groups.fetcher import Fetcher
from sharelag.whatif.consumer_groups.work import Batch, Returned, process
from sharelag.whatif.consumer_groups.world import World
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.life import Life
from sharelag.whatif.simulation.streams import Work

_DELIVERIES, _REDELIVERIES, _ACKNOWLEDGED, _RELEASED, _REJECTED, _REFUSED = range(6)


class Consumer(Life):
    """One life of a consumer."""

    def __init__(
        self,
        world: World,
        member: Member,
        number: int,
        life: int,
        which: int,
        work: dict[int, Work],
    ) -> None:
        super().__init__(world, member, number, life, which, work)
        self._world = world
        self._fetcher = Fetcher(world, member, self._fetched)
        self._target: Places | None = None  # sent by the coordinator, not yet taken over
        self._batch: Batch | None = None
        self._committed_at = self.joined
        self._overslept = False
        self._begin()

    @property
    def held(self) -> int:
        """Records that it works on."""
        return (
            0
            if self._batch is None
            else sum(one.last - one.first + 1 for one in self._batch.returned)
        )

    # ---- membership ----

    @property
    def _interval(self) -> int:
        return self._world.settings.heartbeat_interval_ms * MS

    def _is_at_work(self) -> bool:
        return self._batch is not None

    def _is_member(self) -> bool:
        return super()._is_member() and not self._overslept

    def _send_beat(self) -> None:
        self._clock.after(self._network, self._beat_arrives, frozenset(self.places))

    def _beat_arrives(self, owned: Places) -> None:
        if self.ended is not None or not self._is_member():
            return
        known = [
            place
            for topic in self._topics
            for place, begin in self._world.topics[topic]
            if begin <= self._clock.now
        ]
        answer = self._world.coordinator.heartbeat(
            self.id, frozenset(known), owned, not self._known
        )
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
        written = self._write if given_up else 0
        self._clock.after(written, self._beat, self._beats)

    def _seek(self, places: list[int]) -> None:
        if self._is_stopped(self._seek, places):
            return
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
        if now - self._committed_at >= self._world.settings.auto_commit_interval_ms * MS:
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
        world, behaviour, attempts = (
            self._world,
            self.member.behaviour,
            self._world.settings.attempts,
        )
        limit = (
            world.scenario.settings.limits.delivery_count_limit if attempts is None else attempts
        )
        batch = self._batch = process(
            returned, behaviour, limit, self.work.__getitem__, world.outcomes
        )
        batch.duration += round(self.member.service.poll_ms * MS)
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
        longest = world.settings.max_poll_interval_ms * MS
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
            counts[_REJECTED] += len([offset for offset in archived if offset >= first])
            counts[_REFUSED] += last - first + 1 - first_time - len(archived)
        self._world.note_drained()
        if self._overslept:
            self._overslept = False
            self._beat(self._beats)
        self._poll()

    @property
    def _write(self) -> int:
        return 2 * self._network + round(self._world.scenario.costs.write_ms * MS)

    def _commit(self, places: Sequence[int]) -> None:
        """Commit what is done."""
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
        given_up = frozenset(places)
        self.places = [place for place in self.places if place not in given_up]
        self._fetcher.drop(given_up)
        self._count_unassigned()

    def _end(self, how: str) -> None:
        self._fetcher.close()
        super()._end(how)
        self._batch = None

    def _counts(self, place: int) -> list[int]:
        return self._world.tally.counts.setdefault((place, self.number), [0] * 6)
