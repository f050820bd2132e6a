"""The brokers' answers to share fetches and acknowledgements, and when they come.

As ``SharePartitionManager`` and ``DelayedShareFetch``: a fetch locks the share partitions that it
can acquire from, spends one budget of records on them in the order of its session, and waits while
there is nothing: for records, for a start offset that moves or a lock that ends, for another fetch
to unlock, or until ``fetch.max.wait.ms``. Records that are given back wake up nobody (Kafka 4.3.1
looks after waiting fetches when the acknowledgement comes, which is before it is written, and then
only if the start offset has moved).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharelag.whatif.partition.values import AcknowledgeError, Acknowledgement
from sharelag.whatif.records import StateLog
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.served import RECONNECT, Fetch, Leaders, Loader, Served
from sharelag.whatif.simulation.tables import NOBODY, Delivered, Tally


class Brokers:
    """All brokers of the cluster, since a share partition is with one of them at a time."""

    def __init__(
        self, scenario: Scenario, clock: Clock, logs: Sequence[Log], states: StateLog, tally: Tally
    ) -> None:
        self._clock, self._states, self._tally = clock, states, tally
        self._loader = Loader(scenario, clock, states, tally)
        costs = scenario.costs
        self._network, self._fetch = round(costs.network_ms * MS), round(costs.fetch_ms * MS)
        self._write = round(costs.write_ms * MS)
        self._records_a_fetch = max(costs.fetch_max_bytes // max(costs.record_bytes, 1), 1)
        self.leaders = Leaders(scenario.brokers, clock, round(costs.failover_ms * MS))
        self.served = self._loader.all(logs)

    # ---- requests, as they arrive ----

    def fetch(
        self, fetch: Fetch, acknowledgements: Mapping[int, list[Acknowledgement]], wait: int
    ) -> None:
        """Take a ``ShareFetch``; without places it only acknowledges. ``wait`` is microseconds."""
        if any(
            self.served[place].leader in self.leaders.dead
            for place in fetch.places or acknowledgements
        ):
            for place, given in acknowledgements.items():
                self.refuse(place, fetch.number, given)
            self._clock.after(RECONNECT, fetch.answer, [])
            return
        accepted = {
            place: given
            for place, given in acknowledgements.items()
            if self._is_held(fetch, place, given)
        }
        if accepted:
            fetch.answer_from = self._clock.now + self._write
            self._clock.after(self._write, self._acknowledge, fetch, accepted)
            for place in accepted:
                self._wake(self.served[place])
        if not fetch.places:
            self._answer(fetch, [])
        elif not self._try(fetch):
            for place in fetch.places:
                self.served[place].waiting[fetch] = None
                self._await(self.served[place])
            self._clock.after(wait, self._give_up, fetch)

    def close(self, number: int, member: str) -> None:
        """End the share sessions of a member: release what it holds, forget what it waits for."""
        for served in self.served:
            for fetch in [fetch for fetch in served.waiting if fetch.member == member]:
                self._forget(fetch)
            self._expire(served)
            self._wake(served)
            start = served.share.start_offset
            self._tally.because("closed", number)
            served.share.release_session(member, self._clock.now_ms)
            self._written(served, start)

    def refuse(self, place: int, number: int, given: Sequence[Acknowledgement]) -> None:
        """Count acknowledgements of a member that no leader takes."""
        self._tally.refused(place, number, given)

    def add(self, place: int) -> None:
        """The group hears of a partition that was added to a topic; its state is created."""
        self.served[place] = self._loader.started(place, self.served[place].log)

    def change_leader(self, place: int) -> None:
        """Another broker leads: it knows what was written, and no more."""
        old = self.served[place]
        if self._states.window(place) is None:
            return  # the group does not know it yet
        self._expire(old)
        epoch = old.leader_epoch + 1
        window = self._states.read(place, epoch, self._clock.now_ms)
        share = self._loader.loaded(place, old.log, window, epoch)
        new = Served(place, old.log, share, self.leaders.after(old.leader), epoch)
        self.served[place] = new
        for fetch in list(old.waiting):
            new.waiting[fetch] = None
        self._wake(new)

    def change_leader_of(self, broker: int) -> None:
        """Others lead what a broker led."""
        for place in [place for place, served in enumerate(self.served) if served.leader == broker]:
            self.change_leader(place)

    def stop(self, broker: int, for_ms: int | None) -> None:
        """Stop a broker: it answers nothing, and forgets what it did not write."""
        if not self.leaders.stop(broker, for_ms, self.change_leader_of):
            return
        for place, old in enumerate(self.served):
            window = self._states.window(place)
            if old.leader == broker and window is not None:
                for fetch in list(old.waiting):
                    self._forget(fetch)
                    self._clock.after(RECONNECT, fetch.answer, [])
                share = self._loader.loaded(place, old.log, window, old.leader_epoch)
                self.served[place] = Served(place, old.log, share, broker, old.leader_epoch)

    def note_drained(self, served: Served) -> None:
        """Note the time if nothing is left to finish, neither there nor elsewhere."""
        now = self._clock.now
        if (
            served.log.end(now) - served.share.start_offset - served.share.delivery_complete_count
            > 0
        ):
            return
        for other in self.served:
            other.log.end(now)
            if other.lag > 0:
                return
        self._tally.drained(now)

    # ---- fetches ----

    def _try(self, fetch: Fetch, last_chance: bool = False) -> bool:
        ready = []
        for place in fetch.places:
            served = self.served[place]
            offset = self._offset_ready(served)
            if offset is not None:
                ready.append((served, offset))
        if not ready and not last_chance:
            return False
        self._forget(fetch)
        delivered: list[Delivered] = []
        room = fetch.max_records
        for served, offset in ready:
            served.locked_until = self._clock.now + self._fetch
            if room > 0:
                taken = self._acquire(fetch, served, offset, room, len(ready))
                room -= sum(one.last_offset - one.first_offset + 1 for one in taken)
                delivered += taken
        self._answer(fetch, delivered)
        for served, _ in ready:
            if served.waiting:
                self._await(served)
        return True

    def _offset_ready(self, served: Served) -> int | None:
        """Where a fetch of a share partition can begin now; None: locked, full, or empty."""
        now = self._clock.now
        if served.locked_until > now:
            return None
        self._expire(served)
        offset = self._fetch_offset(served)
        return offset if served.share.can_fetch() and offset < served.log.fetch_end(now) else None

    def _fetch_offset(self, served: Served) -> int:
        share, log = served.share, served.log
        offset = share.next_fetch_offset()
        if offset < log.start:
            before = served.lag
            share.log_start_moved(log.start, self._clock.now_ms)
            self._tally.lost[served.place] += before - served.lag
            offset = share.next_fetch_offset()
        return offset

    def _acquire(
        self, fetch: Fetch, served: Served, offset: int, room: int, sharing: int
    ) -> list[Delivered]:
        # What lies beyond can not be acquired, so leaving it out changes nothing.
        last = min(
            max(served.share.end_offset, offset) + room, offset + self._records_a_fetch // sharing
        )
        batches = served.log.batches(offset, last)
        aborted = (
            [batch for batch in batches if batch.base_offset in served.log.aborted]
            if served.log.aborted
            else ()
        )
        now, size = self._clock.now_ms, fetch.max_records
        acquired = served.share.acquire(
            fetch.member, now, batches, room, size, fetch.mode, fetch_offset=offset, aborted=aborted
        )
        self._watch_locks(served)
        delivered = [Delivered(served.place, *one) for one in acquired]
        self._tally.delivered(fetch.number, delivered)
        return delivered

    def _answer(self, fetch: Fetch, delivered: list[Delivered]) -> None:
        at = self._clock.now + (self._fetch if delivered else 0)
        self._clock.at(max(at, fetch.answer_from) + self._network, fetch.answer, delivered)

    def _give_up(self, fetch: Fetch) -> None:
        if not fetch.done:
            self._try(fetch, last_chance=True)

    def _forget(self, fetch: Fetch) -> None:
        fetch.done = True
        for place in fetch.places:
            self.served[place].waiting.pop(fetch, None)

    # ---- what lets a waiting fetch go on ----

    def _wake(self, served: Served) -> None:
        """Let the fetches that wait for a share partition have it, the first comer first."""
        self.note_drained(served)
        while served.waiting and self._offset_ready(served) is not None:
            self._try(next(iter(served.waiting)))
        if served.waiting:
            self._await(served)

    def _await(self, served: Served) -> None:
        """Try again when it is unlocked or when records come; all else wakes it by itself."""
        if served.locked_until > self._clock.now:
            if not served.unlock_due:
                served.unlock_due = True
                self._clock.at(served.locked_until, self._unlocked, served.place)
        elif not served.append_due and served.share.can_fetch():
            due = served.log.next_readable()
            if due is not None:
                served.append_due = True
                self._clock.at(due, self._appended, served.place)

    def _appended(self, place: int) -> None:
        served = self.served[place]
        served.append_due = False
        served.log.fetch_end(self._clock.now)
        self._wake(served)

    def _unlocked(self, place: int) -> None:
        served = self.served[place]
        served.unlock_due = False
        self._wake(served)

    # ---- acknowledgements and locks ----

    def _acknowledge(
        self, fetch: Fetch, acknowledgements: Mapping[int, list[Acknowledgement]]
    ) -> None:
        for place, given in acknowledgements.items():
            served = self.served[place]
            if self._expire(served):
                self._wake(served)
            start = served.share.start_offset
            self._tally.because("acknowledged", fetch.number)
            try:
                served.share.acknowledge(fetch.member, self._clock.now_ms, given)
            except AcknowledgeError:
                self._tally.refused(place, fetch.number, given)
            self._written(served, start)

    def _written(self, served: Served, start: int) -> None:
        """Wake fetches for a moved start offset only; released records wait for the next fetch."""
        if served.share.start_offset > start:
            self._wake(served)
        else:
            self.note_drained(served)

    def _is_held(self, fetch: Fetch, place: int, given: list[Acknowledgement]) -> bool:
        """Whether a leader takes acknowledgements, which it checks before it fetches and writes."""
        self._expire(self.served[place])
        try:
            self.served[place].share.check_held(fetch.member, self._clock.now_ms, given)
        except AcknowledgeError:
            self.refuse(place, fetch.number, given)
            return False
        return True

    def _watch_locks(self, served: Served) -> None:
        ends = served.share.next_lock_ends_ms
        if ends is not None and served.expiry_due is None:
            served.expiry_due = (ends - self._clock.begins_ms) * MS
            self._clock.at(served.expiry_due, self._locks_end, served)

    def _locks_end(self, served: Served) -> None:
        if served is self.served[served.place]:  # not of a leader that is over
            released = self._expire(served)
            served.expiry_due = None
            self._watch_locks(served)
            if released:
                self._wake(served)

    def _expire(self, served: Served) -> bool:
        if served.expiry_due is None or served.expiry_due > self._clock.now:
            return False
        self._tally.because("expired", NOBODY)
        before = self._tally.expired[served.place]
        served.share.expire_locks(self._clock.now_ms)
        return self._tally.expired[served.place] > before
