"""The settings of a simulated group, and those of a real one by Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Literal

from sharelag.errors import InputError
from sharelag.whatif.partition.values import Limits

#: The largest group.share.max.size that brokers take.
MOST_MEMBERS = 1_000


@dataclass(frozen=True)
class Settings:
    """Of the group, with Kafka's defaults.

    ``rebalance_interval_ms`` is not Kafka's: how often an assignor that goes by lag is called again
    although no member joined or left. None asks only when Kafka would.
    """

    limits: Limits = field(default_factory=Limits)
    heartbeat_interval_ms: int = 5000  # share.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # share.session.timeout.ms
    assignment_interval_ms: int = 1000  # share.assignment.interval.ms
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    auto_offset_reset: Literal["latest", "earliest"] = "latest"
    rebalance_interval_ms: int | None = None
    max_size: int = 200  # group.share.max.size of the brokers: members beyond it are refused


def require_members(count: object) -> int:
    """A number of members that can be in a group.

    Raises
    ------
    InputError
        It is not a number from 0 to what a broker lets join at most.
    """
    if not isinstance(count, Integral) or int(count) < 0:
        raise InputError(f"{count!r} cannot be a number of members: give one from 0 on")
    if (count := int(count)) > MOST_MEMBERS:
        raise InputError(
            f"{count:,} members are too many: give at most {MOST_MEMBERS:,}, the largest "
            "group.share.max.size that a broker takes"
        )
    return count


def settings_named(given: Iterable[tuple[str, object]]) -> Settings:
    """Settings by Kafka's names for groups, such as ``share.record.lock.duration.ms``.

    Others are ignored.
    """
    values = {
        name.removeprefix("share.").replace(".", "_"): value
        for name, value in given
        if name.startswith("share.")
    }
    limits = {name: values[ours] for name, ours in _LIMITS.items() if values.get(ours) is not None}
    own = {
        one.name: values[one.name] for one in fields(Settings) if values.get(one.name) is not None
    }
    if own.get("auto_offset_reset") not in ("latest", "earliest"):
        own.pop("auto_offset_reset", None)
    return Settings(**(own | {"limits": Limits(**limits)}))  # type: ignore[arg-type]


_LIMITS = {
    "max_record_locks": "partition_max_record_locks",
    "delivery_count_limit": "delivery_count_limit",
    "lock_duration_ms": "record_lock_duration_ms",
    "renew_enabled": "renew_acknowledge_enable",
}
