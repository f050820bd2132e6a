"""Membership in either kind of group: members join, send heartbeats, and leave or time out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from sharelag.whatif.simulation.clock import MS, Clock


class Heard(Protocol):
    """A member, with the time of its last heartbeat in microseconds from the begin."""

    last_beat: int


J = TypeVar("J", bound=Heard)


class Membership(ABC, Generic[J]):
    """The members of one group, by member id; each change of them raises the group epoch."""

    def __init__(self, clock: Clock, session_timeout_ms: int) -> None:
        self._clock, self._session = clock, session_timeout_ms * MS
        self.group_epoch = 0
        self.rebalances = 0
        self.members: dict[str, J] = {}

    def gather(self, joined: Mapping[str, J]) -> None:
        """Begin with members that have joined before."""
        for member, known in joined.items():
            self._join(member, known)
        self._assign()

    def leave(self, member: str) -> None:
        """A member leaves, or its session has ended."""
        if self.members.pop(member, None):
            self.group_epoch += 1

    @abstractmethod
    def _assign(self) -> None:
        """Compute a target assignment if that is due."""

    def _join(self, member: str, joined: J) -> J:
        self.members[member] = joined
        self._change()
        self._clock.after(self._session, self._check_session, member)
        return joined

    def _change(self) -> None:
        """A change by a heartbeat; Kafka's ``rebalance-count`` counts these, and not leaves."""
        self.group_epoch += 1
        self.rebalances += 1

    def _check_session(self, member: str) -> None:
        known = self.members.get(member)
        if known is None:
            return
        ends = known.last_beat + self._session
        if ends <= self._clock.now:
            self.leave(member)
        else:
            self._clock.at(ends, self._check_session, member)
