"""Inputs and outputs of a share partition, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from sharelag.errors import InputError, ShareLagError
from sharelag.model import StateBatch

#: How a client wants its records (``share.acquire.mode``): whole record batches, or never more than
#: it requested.
AcquireMode: TypeAlias = Literal["batch_optimized", "record_limit"]


class AcknowledgeType(IntEnum):
    """What a client says of a record (``AcknowledgeType``; 0 is for an offset without a record)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of a group that rule its share partitions, with Kafka's defaults.

    Simulations may leave the ranges that brokers enforce, so only what is not positive is refused.
    """

    # share.partition.max.record.locks: a span of offsets, finished ones included
    max_record_locks: int = 2000
    delivery_count_limit: int = 5  # share.delivery.count.limit
    lock_duration_ms: int = 30_000  # share.record.lock.duration.ms
    renew_enabled: bool = True  # share.renew.acknowledge.enable

    def __post_init__(self) -> None:
        for name in ("max_record_locks", "delivery_count_limit", "lock_duration_ms"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: give a number of at least 1")

    @property
    def throttled_from(self) -> int:
        """The delivery count from which fewer records are delivered together."""
        return max(2, (self.delivery_count_limit + 1) // 2)


class LogBatch(NamedTuple):
    """One record batch of the log, offsets inclusive; compaction may have left fewer."""

    base_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """Offsets that a fetch acquired, inclusive (``ShareFetchResponseData.AcquiredRecords``)."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a client says of ``first_offset..last_offset``: one type for all, or one each."""

    first_offset: int
    last_offset: int
    types: int | Sequence[int] = AcknowledgeType.ACCEPT


class WrittenRun(NamedTuple):
    """Offsets written with one state and delivery count, as a state batch or one by one."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    per_offset: bool


class Write(NamedTuple):
    """What the broker hands to ``WriteShareGroupState``, and when."""

    time_ms: int
    start_offset: int
    delivery_complete_count: int
    leader_epoch: int
    state_epoch: int
    runs: tuple[WrittenRun, ...]

    @property
    def batches(self) -> list[StateBatch]:
        """The state batches exactly as Kafka lists them: split batches offset by offset."""
        batches: list[StateBatch] = []
        for run in self.runs:
            if run.per_offset:
                offsets = range(run.first_offset, run.last_offset + 1)
                batches += [
                    StateBatch(offset, offset, run.delivery_state, run.delivery_count)
                    for offset in offsets
                ]
            else:
                batches.append(StateBatch(*run[:4]))
        return batches

    @property
    def merged(self) -> list[StateBatch]:
        """The same states, those that went out offset by offset in runs again."""
        return [StateBatch(*run[:4]) for run in self.runs]


#: Takes what is written, and answers whether it was accepted.
Persist: TypeAlias = Callable[[Write], bool]


class AcknowledgeError(ShareLagError):
    """Kafka refuses an acknowledgement; nothing of it takes effect for this share partition."""

    code = "UNKNOWN_SERVER_ERROR"


class InvalidRecordStateError(AcknowledgeError):
    """Some offset is not acquired by this member: its lock expired, or it never was."""

    code = "INVALID_RECORD_STATE"


class InvalidAcknowledgementError(AcknowledgeError):
    """The acknowledgement is wrong: offsets that nobody fetched, or types that do not fit."""

    code = "INVALID_REQUEST"


class StateNotWrittenError(AcknowledgeError):
    """The share coordinator refused the write, so the records are acquired as before."""

    code = "COORDINATOR_NOT_AVAILABLE"


def written(runs: Iterable[WrittenRun]) -> tuple[WrittenRun, ...]:
    """Join neighbours written offset by offset into one run; Kafka gets the same states."""
    merged: list[WrittenRun] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last and run.per_offset and last[1:] == (run.first_offset - 1, *run[2:]):
            merged[-1] = last._replace(last_offset=run.last_offset)
        else:
            merged.append(run)
    return tuple(merged)


_T = TypeVar("_T")


def rotated(partitions: Sequence[_T], session_epoch: int) -> list[_T]:
    """The partitions of a share session in the order of one fetch (``PartitionRotateStrategy``).

    Each fetch of a session moves the order to the left by one, since the first partition may take
    the whole budget; epoch 0 opens a session, -1 ends it, and neither rotates.
    """
    at = session_epoch % len(partitions) if partitions and session_epoch > 0 else 0
    return [*partitions[at:], *partitions[:at]]
