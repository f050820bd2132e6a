"""Fetches of a consumer: it asks brokers for what it lacks, while it processes the rest.

As ``FetchRequestManager`` and ``FetchCollector`` of the Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sharelag.whatif.consumer_groups.work import Returned
from sharelag.whatif.consumer_groups.world import World
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clock import MS


class Fetcher:
    """Positions of a consumer, and what it has fetched beyond them.

    Parameters
    ----------
    world : World
    member : Member
    ready : callable
        Is called when records came.

    Attributes
    ----------
    positions
        By place, the offset that the next poll returns.
    """

    def __init__(self, world: World, member: Member, ready: Callable[[], None]) -> None:
        self._world, self._wait, self._ready = world, member.fetch_max_wait_ms * MS, ready
        costs = world.scenario.costs
        self._clock, self._network = world.clock, round(costs.network_ms * MS)
        self._cost = round(costs.fetch_ms * MS)
        self._most = max(world.settings.max_partition_fetch_bytes // max(costs.record_bytes, 1), 1)
        self._earliest = world.scenario.settings.auto_offset_reset == "earliest"
        self.positions: dict[int, int] = {}
        self._buffered: dict[
            int, int
        ] = {}  # exclusive end of what was fetched; in the order in which it came
        self._asked: set[int] = set()  # brokers with a request under way
        self._closed = False

    def seek(self, places: Iterable[int]) -> None:
        """Begin with partitions where they were committed."""
        for place in places:
            if place not in self.positions:
                self.positions[place] = self._world.partitions[place].position(
                    self._clock.now, self._earliest
                )
        self.fetch()

    def drop(self, places: Iterable[int]) -> None:
        """Forget partitions."""
        for place in places:
            self.positions.pop(place, None)
            self._buffered.pop(place, None)

    def close(self) -> None:
        """Ask for nothing any more."""
        self._closed = True

    def collect(self, room: int) -> list[Returned]:
        """The records that a poll returns, at most ``room``, partition by partition."""
        returned = []
        for place in list(self._buffered):
            if not room:
                break
            first, end = self.positions[place], self._buffered[place]
            last = min(end, first + room) - 1
            returned.append(Returned(self._world.partitions[place], first, last))
            room -= last - first + 1
            self.positions[place] = last + 1
            if last + 1 == end:
                del self._buffered[place]
        return returned

    def fetch(self) -> None:
        """Ask each broker for the partitions without records here, one request at a time."""
        if self._closed:
            return
        wanted: dict[int, dict[int, int]] = {}
        for place, position in sorted(self.positions.items()):
            if place not in self._buffered:
                wanted.setdefault(place % self._world.scenario.brokers, {})[place] = position
        for broker, asked in sorted(wanted.items()):
            if broker not in self._asked:
                self._asked.add(broker)
                until = self._clock.now + self._network + self._wait
                self._clock.after(self._network, self._serve, broker, asked, until)

    def _serve(self, broker: int, asked: dict[int, int], until: int) -> None:
        """What the broker does: it answers when there is something, or when the wait is over."""
        if self._closed:
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
            self._clock.after(
                (self._cost if found else 0) + self._network, self._answered, broker, found
            )
            return
        dues = [self._world.partitions[place].log.next_readable() for place in asked]
        self._clock.at(
            min([until, *(due for due in dues if due is not None)]),
            self._serve,
            broker,
            asked,
            until,
        )

    def _answered(self, broker: int, found: dict[int, tuple[int, int]]) -> None:
        self._asked.discard(broker)
        for place, (position, end) in found.items():
            if self.positions.get(place) == position and place not in self._buffered:
                self._buffered[place] = end
        self.fetch()
        if self._buffered and not self._closed:
            self._ready()

    def _reset(self, place: int) -> None:
        """``auto.offset.reset``, since the log begins later than the position."""
        partition = self._world.partitions[place]
        if (
            not self._closed
            and self.positions.get(place, partition.log.start) < partition.log.start
        ):
            self.positions[place] = (
                partition.log.start if self._earliest else partition.log.end(self._clock.now)
            )
            partition.skip_to(self.positions[place], self._world.tally)
            self._world.note_drained()
