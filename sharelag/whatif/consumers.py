"""Members of a group, with their speed, behaviour and failures, and the group's settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any, Literal, TypeAlias

from sharelag.errors import InputError

#: ``share.acquire.mode``: whole record batches, or at most the requested number of records.
AcquireMode: TypeAlias = Literal["batch_optimized", "record_limit"]
#: The largest group.share.max.size that brokers accept.
MOST_MEMBERS = 1_000


def require_members(count: object) -> int:
    """Return a valid number of members as an int, or refuse it."""
    if not isinstance(count, Integral) or int(count) < 0:
        raise InputError(f"{count!r} cannot be a number of members: give a whole number from 0 on")
    if (count := int(count)) > MOST_MEMBERS:
        raise InputError(
            f"{count:,} members are too many: give at most {MOST_MEMBERS:,}, the largest "
            "group.share.max.size that a broker accepts"
        )
    return count


def require_least(part: object, least: int, *names: str) -> None:
    """Refuse a part of a scenario with a number that is too small; None is accepted."""
    for name in names:
        value = getattr(part, name)
        if value is not None and not value >= least:
            raise InputError(f"{name} of {_named(part)} is {value}: give at least {least}")


def require_order(part: object, first: str, last: str) -> None:
    """Refuse a part of a scenario that ends before it begins; None is accepted."""
    begin, end = getattr(part, first), getattr(part, last)
    if end is not None and end < begin:
        raise InputError(
            f"{last} of {_named(part)} is {end}, before {first} {begin}: give a later time"
        )


def _named(part: object) -> str:
    whose = getattr(part, "name", "") or getattr(part, "topic", "")
    return f"{type(part).__name__}{f' {whose!r}' if whose else ''}"


#: Kafka's names of the settings that simulations use, and the names in `Limits` or `Settings`.
KAFKA_NAMES = {
    "share.record.lock.duration.ms": "lock_duration_ms",
    "share.delivery.count.limit": "delivery_count_limit",
    "share.partition.max.record.locks": "max_record_locks",
    "share.renew.acknowledge.enable": "renew_enabled",
    "share.session.timeout.ms": "session_timeout_ms",
    "share.heartbeat.interval.ms": "heartbeat_interval_ms",
    "share.assignment.interval.ms": "assignment_interval_ms",
    "share.isolation.level": "isolation_level",
    "share.auto.offset.reset": "auto_offset_reset",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of a group that limit its share partitions, with Kafka's defaults.

    Simulations may exceed the ranges that brokers enforce, so only non-positive values are refused.
    """

    # share.partition.max.record.locks: a span of offsets, finished ones included
    max_record_locks: int = 2000
    delivery_count_limit: int = 5  # share.delivery.count.limit
    lock_duration_ms: int = 30_000  # share.record.lock.duration.ms
    renew_enabled: bool = True  # share.renew.acknowledge.enable

    def __post_init__(self) -> None:
        require_least(self, 1, "max_record_locks", "delivery_count_limit", "lock_duration_ms")

    @property
    def throttled_from(self) -> int:
        """The delivery count from which fewer records are delivered in one fetch."""
        return max(2, (self.delivery_count_limit + 1) // 2)


@dataclass(frozen=True)
class Settings:
    """Settings of a share group, with Kafka's defaults.

    ``rebalance_interval_ms`` is not Kafka's: the interval at which an assignor that uses the lag is
    called again although no member joined or left. None calls it only when Kafka would.
    """

    limits: Limits = field(default_factory=Limits)
    heartbeat_interval_ms: int = 5000  # share.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # share.session.timeout.ms
    assignment_interval_ms: int = 1000  # share.assignment.interval.ms
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    auto_offset_reset: Literal["latest", "earliest"] = "latest"
    rebalance_interval_ms: int | None = None
    max_size: int = 200  # group.share.max.size of the brokers: further members are refused

    def __post_init__(self) -> None:
        # Virtual time would stand still with an interval of 0.
        intervals = ("heartbeat_interval_ms", "session_timeout_ms", "rebalance_interval_ms")
        require_least(self, 1, *intervals)


@dataclass(frozen=True)
class ConsumerSettings:
    """Settings of a consumer group and its consumers.

    Attributes
    ----------
    attempts
        How often a record is tried in place before it is given up (skipped, or sent to a
        dead-letter queue); None: ``share.delivery.count.limit`` of the scenario, so that both
        groups give up at the same attempt.
    """

    auto_commit_interval_ms: int = 5000  # auto.commit.interval.ms
    max_poll_interval_ms: int = 300_000  # max.poll.interval.ms
    max_partition_fetch_bytes: int = 1_048_576  # max.partition.fetch.bytes
    heartbeat_interval_ms: int = 5000  # group.consumer.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    assignment_interval_ms: int = 1000  # group.consumer.assignment.interval.ms
    attempts: int | None = None

    def __post_init__(self) -> None:
        names = {one.name for one in fields(self)} - {"assignment_interval_ms"}
        require_least(self, 1, *sorted(names))


def settings_named(given: Iterable[tuple[str, object]]) -> Settings:
    """Return settings by Kafka's names; names that are not in `KAFKA_NAMES` are ignored."""
    values = {KAFKA_NAMES[key]: one for key, one in given if key in KAFKA_NAMES and one is not None}
    if values.get("auto_offset_reset") not in ("latest", "earliest"):
        values.pop("auto_offset_reset", None)
    return with_values(Settings(), values)


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return settings with some values replaced, by their names here, limits included."""
    limits = {one.name: values[one.name] for one in fields(Limits) if one.name in values}
    own = {name: value for name, value in values.items() if name not in limits}
    return replace(settings, limits=replace(settings.limits, **limits), **own)


@dataclass(frozen=True)
class Service:
    """The time a member takes to process a record.

    A record takes the same time in every delivery and with every assignor.

    Attributes
    ----------
    mean_ms
        Mean of one record, except for ``measured``.
    kind
        ``fixed``, ``exponential``, ``lognormal``, or ``measured``: one of the ``samples_ms``,
        unchanged.
    sigma
        Standard deviation of the logarithm, for ``lognormal``.
    samples_ms
        Measured times of single records.
    poll_ms
        Additional time of a poll that returns records.
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
            raise InputError("a measured service needs samples: give samples_ms, or another kind")
        require_least(self, 0, "mean_ms", "sigma", "poll_ms", "slow_factor")
        if not 0 <= self.slow_share <= 1:
            raise InputError(f"slow_share is {self.slow_share}: give a share from 0 to 1")

    @property
    def expected_ms(self) -> float:
        """Mean time of a record, including slow ones, in a partition without a factor."""
        is_measured = self.kind == "measured"
        usual = sum(self.samples_ms) / len(self.samples_ms) if is_measured else self.mean_ms
        return usual * (1 + self.slow_share * (self.slow_factor - 1))


@dataclass(frozen=True)
class Behaviour:
    """How a member treats records, and how it fails.

    Attributes
    ----------
    accept, release, reject, silent
        Shares of the records, which sum up to 1; ``silent`` ones are never acknowledged, so their
        locks expire.
    crash, hang
        Probabilities per poll that returns records: the process ends with its connections, or stops
        with open connections and without heartbeats.
    hang_ms, restart_ms
        How long it hangs, and when it restarts as a new member after a crash; None: forever, never.
    acknowledgement
        ``implicit`` accepts all records with the next poll.
    commit
        When acknowledgements are sent: with the next ``poll``; at once after an ``error`` (a
        released or rejected record), after which the rest of the batch continues in the same
        delivery; or after each ``record``.
    renew_ms
        Interval at which it renews the locks of records that it still works on; None: never.
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
        chances = (*shares, self.crash, self.hang)
        if not all(0 <= one <= 1 for one in chances) or not math.isclose(sum(shares), 1):
            raise InputError(
                f"accept, release, reject and silent are {shares}: give shares that sum up to 1"
            )
        if self.acknowledgement == "implicit" and (self.accept < 1 or self.commit != "poll"):
            raise InputError(
                "implicit acknowledgement accepts all records with the next poll: "
                "choose explicit for anything else"
            )
        if self.renew_ms is not None and (self.renew_ms < 1 or self.acknowledgement == "implicit"):
            raise InputError(
                f"renew_ms is {self.renew_ms}: give at least 1 ms, and explicit acknowledgement"
            )


@dataclass(frozen=True)
class Member:
    """A member of the group, or ``count`` similar ones.

    Attributes
    ----------
    name
        Followed by a number if there are several.
    topics
        Subscribed topics; if empty, all topics of the scenario.
    max_poll_records, acquire_mode, fetch_max_wait_ms
        Settings of the consumer.
    poll_timeout_ms
        How long a ``poll`` waits for records. In Kafka's client a poll whose fetch got offsets
        without a record, such as a transaction marker, fetches no more, and waits to its end.
    join_ms, leave_ms
        When it subscribes and closes; None: it stays.
    assigned
        Its initial partitions in a settled scenario: ``(topic, partition)``. The name of a member
        with some is then its member id, by which Kafka's assignor orders members.
    edited
        Its fixed partitions with the assignor ``edited``.
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
    poll_timeout_ms: int = 100
    join_ms: int = 0
    leave_ms: int | None = None
    assigned: tuple[tuple[str, int], ...] = ()
    edited: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        require_least(self, 1, "max_poll_records", "poll_timeout_ms")
        require_order(self, "join_ms", "leave_ms")
        require_least(self, 0, "count")
        if self.count > MOST_MEMBERS:
            require_members(self.count)
