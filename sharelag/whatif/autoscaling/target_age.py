"""The members that keep records from getting too old (`sharelag.whatif.autoscale.TargetAge`)."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from sharelag.whatif.autoscale import TargetAge

_MS, _SECOND = 1000, 1_000_000


class Seen(Protocol):
    """What it looks at."""

    @property
    def age_ms(self) -> int:
        """Of the oldest unfinished record."""

    @property
    def arrived(self) -> int:
        """Offsets since the begin."""

    @property
    def finished(self) -> int:
        """Likewise."""


class AgeKeeper:
    """What is kept between two looks: counts of the last window, and how fast a member was."""

    def __init__(self, policy: TargetAge) -> None:
        self._policy = policy
        self._past: deque[tuple[int, int, int, int]] = deque()  # time, arrived, finished, busy
        self._rate: float | None = None  # of one member, records a second at work

    def recommended(self, now: int, lag: float, seen: Seen, busy: int) -> int | None:
        """How many members are wanted; None while nothing is known of how fast they are.

        Parameters
        ----------
        now, busy : int
            Microseconds; ``busy`` is what all members together were at work so far.
        lag : float
            Offsets.
        seen : Seen
        """
        policy = self._policy
        self._past.append((now, seen.arrived, seen.finished, busy))
        while len(self._past) > 1 and self._past[1][0] <= now - policy.window_ms * _MS:
            self._past.popleft()
        since, arrived, finished, was_busy = self._past[0]
        if busy > was_busy and seen.finished > finished:
            self._rate = (seen.finished - finished) / (busy - was_busy) * _SECOND
        if self._rate is None:
            return None if lag else policy.min_replica_count
        arrival = (seen.arrived - arrived) / (now - since) * _SECOND if now > since else 0.0
        left = max(policy.goal_ms - seen.age_ms - policy.pods.startup_ms, policy.goal_ms / 4) / 1000
        return max(
            math.ceil(max(arrival / policy.utilization, lag / left) / self._rate),
            policy.min_replica_count,
        )
