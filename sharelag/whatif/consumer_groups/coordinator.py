"""Members of a consumer group, and who may have which partition now.

The group coordinator of KIP-848 (``group.protocol=consumer``): members get their part of the
target assignment with their own heartbeats, and get a partition when its former owner has given it
up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sharelag.errors import InputError
from sharelag.whatif.simulation.clock import Clock
from sharelag.whatif.simulation.membership import Membership


@dataclass(frozen=True)
class ConsumerSettings:
    """Of the consumers and their group.

    Attributes
    ----------
    attempts
        How often a record is tried in place before it is given up (skipped, or put into a dead
        letter queue); None: as often as ``share.delivery.count.limit`` of the scenario allows, so
        that both groups give up at the same attempt.
    """

    auto_commit_interval_ms: int = 5000  # auto.commit.interval.ms
    max_poll_interval_ms: int = 300_000  # max.poll.interval.ms
    max_partition_fetch_bytes: int = 1_048_576  # max.partition.fetch.bytes
    heartbeat_interval_ms: int = 5000  # group.consumer.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    assignment_interval_ms: int = 1000  # group.consumer.assignment.interval.ms
    attempts: int | None = None

    def __post_init__(self) -> None:
        whole = (
            *(self.auto_commit_interval_ms, self.max_poll_interval_ms, self.heartbeat_interval_ms),
            *(self.session_timeout_ms, self.max_partition_fetch_bytes),
        )
        if min(whole) < 1:
            raise InputError("intervals, timeouts and max_partition_fetch_bytes must be at least 1")
        if self.attempts is not None and self.attempts < 1:
            raise InputError(f"a record is tried {self.attempts} times: give at least 1, or None")


Places = frozenset[int]
_NONE: Places = frozenset()


def uniform(subscribed: Mapping[str, Places], current: Mapping[str, Places]) -> dict[str, Places]:
    """Even numbers of partitions, with as few moves as that takes.

    As Kafka's ``UniformAssignor``, the default of ``group.consumer.assignors``: numbers differ by
    one at most where all members subscribe to the same, and members keep their partitions where
    that is even. Of several even assignments it may choose another one than Kafka's, which goes by
    the order of a hash map. Both arguments are by member id; a partition that nobody subscribes to
    has no member.
    """
    members = sorted(subscribed)
    given: dict[str, set[int]] = {}
    free = set[int]().union(*subscribed.values())
    for member in members:
        given[member] = set(current.get(member, _NONE) & subscribed[member] & free)
        free -= given[member]

    def able(place: int) -> list[str]:
        return [member for member in members if place in subscribed[member]]

    def size(member: str) -> int:
        return len(given[member])

    # The partitions with the fewest to choose from come first.
    for place in sorted(free, key=lambda place: (len(able(place)), place)):
        given[min(able(place), key=size)].add(place)
    # Then, one at a time, from whom has at least two more than another one that may get it.
    while move := next(
        (
            (source, target, max(movable))
            for source in sorted(members, key=size, reverse=True)
            for target in sorted(members, key=size)
            if size(source) - size(target) > 1 and (movable := given[source] & subscribed[target])
        ),
        None,
    ):
        source, target, place = move
        given[source].discard(place)
        given[target].add(place)
    return {member: frozenset(places) for member, places in given.items()}


@dataclass(slots=True, eq=False)
class Joined:
    """A member as the coordinator knows it."""

    subscribed: Places
    last_beat: int
    target: Places = _NONE
    held: Places = _NONE  # sent, and not yet given up
    sent: Places | None = None


class Coordinator(Membership[Joined]):
    """The group coordinator of one consumer group."""

    def __init__(self, clock: Clock, partitions: int, settings: ConsumerSettings) -> None:
        super().__init__(clock, settings.session_timeout_ms, settings.assignment_interval_ms)
        self._count = partitions

    def heartbeat(
        self, member: str, subscribed: Places, owned: Places, joins: bool
    ) -> Places | bool | None:
        """Answer a heartbeat of a member that has the partitions ``owned``.

        Returns
        -------
        frozenset, None or False
            What to have from now on; None: as before; False: this member is not in the group (any
            more).
        """
        known = self.members.get(member)
        if known is None:
            if not joins:
                return False
            known = self._join(member, Joined(subscribed, self._clock.now))
        elif known.subscribed != subscribed:
            known.subscribed = subscribed
            self._change()
        known.last_beat = self._clock.now
        self._assign()
        if known.sent is not None and owned <= known.sent:
            known.held = known.sent  # what it had to give up it has given up
        others = frozenset().union(*(one.held for one in self.members.values() if one is not known))
        # First it gives up, then it gets.
        wanted = known.held & known.target
        if known.held <= known.target:
            wanted = known.target - others
        if wanted == known.sent:
            return None
        known.sent = wanted
        known.held |= wanted
        return wanted

    @property
    def _partitions(self) -> int:
        return self._count

    def _pairs(self, target: Places) -> Places:
        return target

    def _target(self) -> dict[str, Places]:
        return uniform(
            {id_: known.subscribed for id_, known in self.members.items()},
            {id_: known.target for id_, known in self.members.items()},
        )
