"""Members of a group of either kind, as its coordinator knows them, and their assignments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Generic, Protocol, TypeVar

from sharelag.whatif.simulation.clock import MS, Clock


class GroupMember(Protocol):
    """A member as a coordinator knows it."""

    subscribed: Any
    last_heartbeat: int  # microseconds since the start
    target: Any  # its target assignment


J = TypeVar("J", bound=GroupMember)


class Membership(ABC, Generic[J]):
    """The members of one group by member id, and rows of all target assignments in order.

    Each change of members increments the group epoch. ``group_epoch``, ``assignment_epoch`` and
    ``rebalances`` (the ``rebalance-count``) are Kafka's.
    """

    _partitions: Collection[int]  # the partitions to assign, by place

    def __init__(self, clock: Clock, session_timeout_ms: int, assignment_interval_ms: int) -> None:
        self._clock, self._session = clock, session_timeout_ms * MS
        self._between = assignment_interval_ms * MS  # shortest time between target assignments
        self.group_epoch = self.assignment_epoch = 0
        self.rebalances = 0
        self.members: dict[str, J] = {}
        self.assignments: list[dict[str, float]] = []  # as `tables.ASSIGNMENTS`
        self._assigned_at: int | None = None

    def start(self, joined: Mapping[str, J]) -> None:
        """Start with members that have joined before."""
        for member, known in joined.items():
            self._join(member, known)
        self._assign()

    def leave(self, member: str) -> None:
        """Remove a member that leaves, or whose session has expired."""
        if self.members.pop(member, None):
            self.group_epoch += 1

    @abstractmethod
    def _target(self) -> Mapping[str, Any]:
        """Compute a target assignment, by member id."""

    @abstractmethod
    def _pairs(self, target: Any) -> AbstractSet[object]:
        """Return the partitions of a member's target."""

    def _assign(self) -> None:
        now, last = self._clock.now, self._assigned_at
        is_early = last is not None and now < last + self._between
        if self.group_epoch > self.assignment_epoch and not is_early:
            self._install(self._target())

    def _install(self, target: Mapping[str, Any]) -> None:
        self.assignment_epoch, self._assigned_at = self.group_epoch, self._clock.now
        changes = []
        for id_, known in self.members.items():
            before, known.target = known.target, target.get(id_, type(known.target)())
            changes.append((self._pairs(before), self._pairs(known.target)))
        served = set().union(*(after for _, after in changes))
        row = {
            "time_ms": self._clock.now / MS,
            "assignment_epoch": self.assignment_epoch,
            "members": len(changes),
            "pairs": sum(len(after) for _, after in changes),
            "added": sum(len(after - before) for before, after in changes),
            "revoked": sum(len(before - after) for before, after in changes),
            "idle": sum(not after for _, after in changes),
            "unserved": len(self._partitions) - len(served),
            "rebalances": self.rebalances,
        }
        self.assignments.append(row)

    def _handle_heartbeat(
        self, member: str, subscribed: Any, join: Callable[[], J] | None
    ) -> J | None:
        """Handle a heartbeat, by which a member may join; return None if it is not in the group."""
        known = self.members.get(member)
        if known is None:
            if join is None:
                return None
            known = self._join(member, join())
        elif known.subscribed != subscribed:
            known.subscribed = subscribed
            self._change()
        known.last_heartbeat = self._clock.now
        return known

    def _join(self, member: str, joined: J) -> J:
        self.members[member] = joined
        self._change()
        self._clock.after(self._session, self._check_session, member)
        return joined

    def _change(self) -> None:
        """Count a change by a heartbeat; Kafka's ``rebalance-count`` excludes members who leave."""
        self.group_epoch += 1
        self.rebalances += 1

    def _check_session(self, member: str) -> None:
        known = self.members.get(member)
        if known is None:
            return
        ends = known.last_heartbeat + self._session
        if ends <= self._clock.now:
            self.leave(member)
        else:
            self._clock.at(ends, self._check_session, member)
