"""Members of a consumer group, and who may have which partition now.

The group coordinator of KIP-848 (``group.protocol=consumer``): members get their part of the
target assignment with their own heartbeats, and get a partition when its former owner has given it
up.
"""

from __future__ import annotations

from dataclasses import dataclass

from sharelag.whatif.consumer_groups.uniform import uniform
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.coordinator import Assigned
from sharelag.whatif.simulation.membership import Membership

Places = frozenset[int]
_NONE: Places = frozenset()


@dataclass(slots=True, eq=False)
class Joined:
    """A member as the coordinator knows it."""

    subscribed: Places
    last_beat: int
    target: Places = _NONE
    held: Places = _NONE  # sent, and not yet given up
    sent: Places | None = None


class Coordinator(Membership[Joined]):
    """The group coordinator of one consumer group.

    Parameters
    ----------
    clock : Clock
    partitions : int
        Of all topics.
    session_timeout_ms, assignment_interval_ms : int

    Attributes
    ----------
    members
        By member id.
    assignments
        All target assignments, in order.
    """

    def __init__(
        self, clock: Clock, partitions: int, session_timeout_ms: int, assignment_interval_ms: int
    ) -> None:
        super().__init__(clock, session_timeout_ms)
        self._partitions, self._interval = partitions, assignment_interval_ms * MS
        self._assignment_epoch = 0
        self._assigned_at: int | None = None
        self.assignments: list[Assigned] = []

    def heartbeat(
        self, member: str, subscribed: Places, owned: Places, joins: bool
    ) -> Places | bool | None:
        """Answer a heartbeat.

        Parameters
        ----------
        member : str
        subscribed, owned : frozenset of int
            The partitions that it may get, and those that it has.
        joins : bool

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

    def _assign(self) -> None:
        now = self._clock.now
        early = self._assigned_at is not None and now < self._assigned_at + self._interval
        if self.group_epoch == self._assignment_epoch or early:
            return
        target = uniform(
            {id_: known.subscribed for id_, known in self.members.items()},
            {id_: known.target for id_, known in self.members.items()},
        )
        changes = [(known.target, target[id_]) for id_, known in self.members.items()]
        self._assignment_epoch, self._assigned_at = self.group_epoch, now
        for id_, known in self.members.items():
            known.target = target[id_]
        pairs = sum(len(after) for _, after in changes)
        self.assignments.append(
            Assigned(
                now,
                self._assignment_epoch,
                len(changes),
                pairs,
                sum(len(after - before) for before, after in changes),
                sum(len(before - after) for before, after in changes),
                sum(not after for _, after in changes),
                self._partitions - pairs,
                self.rebalances,
            )
        )
