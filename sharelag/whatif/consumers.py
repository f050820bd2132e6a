"""Members of a group: how fast they are, what they do with records, and how they fail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sharelag.errors import InputError
from sharelag.whatif.partition.values import AcquireMode
from sharelag.whatif.settings import MOST_MEMBERS, require_members


@dataclass(frozen=True)
class Service:
    """How long a member takes to process a record.

    A record takes the same time in every delivery and whichever assignor is tried: its work is its
    own.

    Attributes
    ----------
    mean_ms
        Of one record.
    kind
        ``fixed``, ``exponential``, ``lognormal``, or ``measured``: one of the ``samples_ms``, as
        they are.
    sigma
        Of the logarithm, for ``lognormal``.
    samples_ms
    poll_ms
        What a poll that brings records takes on top.
    slow_share, slow_factor
        A share of the records takes this many times as long.
    by_partition
        Factors for single partitions: ``((topic, partition), factor)``.
    """

    mean_ms: float = 1.0
    kind: Literal["fixed", "exponential", "lognormal", "measured"] = "fixed"
    sigma: float = 1.0
    samples_ms: tuple[float, ...] = ()
    poll_ms: float = 0.0
    slow_share: float = 0.0
    slow_factor: float = 1.0
    by_partition: tuple[tuple[tuple[str, int], float], ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "measured" and not self.samples_ms:
            raise InputError("a measured service has no samples: give samples_ms, or another kind")
        if not all(
            value >= 0
            for value in (
                self.mean_ms,
                self.sigma,
                self.poll_ms,
                self.slow_factor,
                *self.samples_ms,
            )
        ):
            raise InputError("a service time is below 0: give times and factors of at least 0")


@dataclass(frozen=True)
class Behaviour:
    """What a member does with records, and what happens to it.

    Attributes
    ----------
    accept, release, reject, silent
        Shares of the records, together 1; ``silent`` ones are never acknowledged, so that their
        locks expire.
    crash, hang
        Chances for each poll that brings records: the process ends and its connections with it, or
        it stands still with open connections, and without heartbeats.
    hang_ms, restart_ms
        How long it hangs, and after which time a crashed one comes back as a new member; None: for
        ever, never.
    acknowledgement
        ``implicit`` accepts all with the next poll.
    commit
        When acknowledgements are sent: with the next ``poll``; at once after an ``error`` (a record
        released or rejected), whereupon the rest of the batch goes on in the same delivery; or
        after each ``record``.
    renew_ms
        How often it renews the locks of the records that it is still working on; None: never.
    """

    accept: float = 1.0
    release: float = 0.0
    reject: float = 0.0
    silent: float = 0.0
    crash: float = 0.0
    hang: float = 0.0
    hang_ms: int | None = None
    restart_ms: int | None = None
    acknowledgement: Literal["implicit", "explicit"] = "explicit"
    commit: Literal["poll", "error", "record"] = "poll"
    renew_ms: int | None = None

    def __post_init__(self) -> None:
        shares = (self.accept, self.release, self.reject, self.silent)
        if not all(
            0 <= share <= 1 for share in (*shares, self.crash, self.hang)
        ) or not math.isclose(sum(shares), 1):
            raise InputError(
                f"accept, release, reject and silent are {shares}: give shares that sum up to 1"
            )
        if self.acknowledgement == "implicit" and (self.accept < 1 or self.commit != "poll"):
            raise InputError(
                "implicit acknowledgement accepts all, with the next poll: "
                "choose explicit for anything else"
            )
        if self.renew_ms is not None and (self.renew_ms < 1 or self.acknowledgement == "implicit"):
            raise InputError(
                f"renew_ms is {self.renew_ms}: give at least 1 ms, and explicit acknowledgement"
            )


@dataclass(frozen=True)
class Member:
    """A member of the group, or ``count`` like it.

    Attributes
    ----------
    name
        Followed by a number when there are several.
    topics
        Subscribed to; all of the scenario when empty.
    max_poll_records, acquire_mode, fetch_max_wait_ms
        Of the consumer.
    join_ms, leave_ms
        When it subscribes and closes; None stays.
    assigned
        The partitions that it has when a settled scenario begins: ``(topic, partition)``.
    """

    name: str = "member"
    count: int = 1
    topics: tuple[str, ...] = ()
    rack: str | None = None
    service: Service = Service()
    behaviour: Behaviour = Behaviour()
    max_poll_records: int = 500
    acquire_mode: AcquireMode = "batch_optimized"
    fetch_max_wait_ms: int = 500
    join_ms: int = 0
    leave_ms: int | None = None
    assigned: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.count < 0 or self.max_poll_records < 1:
            raise InputError(
                f"member {self.name!r}: give a count of at least 0, "
                f"and max_poll_records of at least 1"
            )
        if self.count > MOST_MEMBERS:
            require_members(self.count)
