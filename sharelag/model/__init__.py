"""Kafka's terms as frozen values, with Kafka's names in snake_case.

A *share partition* is one topic partition in one share group. Its *window* is the state that the
share coordinator persists: where delivery starts, and the delivery states of the offsets beyond.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from sharelag.errors import InputError

#: ``ShareSnapshotValue.StartOffset`` before the first fetch; in an update it means *unchanged*.
UNINITIALIZED_START_OFFSET = -1
#: ``DeliveryCompleteCount`` of brokers before 4.2, and before the first write.
UNINITIALIZED_DELIVERY_COMPLETE_COUNT = -1
#: ``CreateTimestamp`` and ``WriteTimestamp`` of a state that started with an update.
NO_TIMESTAMP = 0


class DeliveryState(IntEnum):
    """The states a record of a share partition can have (KIP-932, ``RecordState``)."""

    AVAILABLE = 0
    ACQUIRED = 1  # in memory only; Kafka never writes it
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # KIP-1191: being written to a dead letter queue, still counts as lag
    ARCHIVED = 4
    TX_PENDING = 5  # KIP-1289 draft: acknowledged by a transaction that is still open


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Kafka does not deliver records in these states again.
TERMINAL_STATES = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


class SharePartition(NamedTuple):
    """One partition of one topic in one share group (Kafka's ``SharePartitionKey``)."""

    group_id: str
    topic_id: str  # 22 characters of URL-safe base64, as Kafka prints it
    partition: int

    def __str__(self) -> str:
        """Kafka's coordinator key, which also decides the state partition."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class StateBatch(NamedTuple):
    """Offsets ``first_offset..last_offset`` (inclusive) with one state and one delivery count.

    ``delivery_state`` is the number on the wire, so that states of future Kafka versions are kept.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Window:
    """The persisted state of one share partition, as Kafka's ``ShareGroupOffset`` holds it.

    All fields are raw: -1 and 0 are Kafka's sentinels (``UNINITIALIZED_START_OFFSET``,
    ``NO_TIMESTAMP``), timestamps are milliseconds, and ``batches`` are listed exactly as the
    coordinator lists them.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    batches: tuple[StateBatch, ...] = ()

    @property
    def effective_start_offset(self) -> int | None:
        """First unfinished offset from the start offset on; None if unknown.

        The topic lags behind the broker: the start offset moves in memory after the write that
        finished its records, and only a later write persists it.
        """
        if self.start_offset == UNINITIALIZED_START_OFFSET:
            return None
        start = self.start_offset
        for batch in _coalesce(self.batches, start):
            if batch.first_offset > start or batch.delivery_state not in TERMINAL_STATES:
                break
            start = batch.last_offset + 1
        return start

    @property
    def runs(self) -> tuple[StateBatch, ...]:
        """Batches from the effective start offset on, sorted, with equal neighbours merged."""
        start = self.effective_start_offset
        return tuple(_coalesce(self.batches, self.start_offset if start is None else start))


def counts_all(count: Any, size: Any, available: Any) -> Any:
    """Return whether brokers count all offsets of a window as finished; numbers or whole columns.

    A read_committed group skips records of aborted transactions. Brokers count them as finished and
    write no batch, so by the batches alone they would wait until the start offset moves on.

    Parameters
    ----------
    count
        The delivery complete count.
    size, available
        Offsets in the window, and how many of them wait for another delivery.
    """
    return (size > 0) & (count == size) & (available == 0)


def _coalesce(batches: Iterable[StateBatch], start: int) -> list[StateBatch]:
    """Return disjoint, sorted runs from ``start`` on; overlaps get the highest (count, state)."""
    kept = sorted(
        b._replace(first_offset=max(b.first_offset, start))
        for b in batches
        if b.last_offset >= start
    )
    cuts = sorted({b.first_offset for b in kept} | {b.last_offset + 1 for b in kept})
    runs: list[StateBatch] = []
    covering: list[StateBatch] = []
    for first, end in pairwise(cuts):
        while kept and kept[0].first_offset <= first:
            covering.append(kept.pop(0))
        covering = [b for b in covering if b.last_offset >= first]
        if not covering:
            continue
        count, state = max((b.delivery_count, b.delivery_state) for b in covering)
        if runs and runs[-1].last_offset + 1 == first and runs[-1][2:] == (state, count):
            first = runs.pop().first_offset
        runs.append(StateBatch(first, end - 1, state, count))
    return runs


def topic_id_text(raw: bytes) -> str:
    """Format a 16-byte topic id as Kafka prints it: 22 characters of unpadded URL-safe base64."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def topic_id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a printed topic id; a ValueError unless it has 22 characters."""
    if len(text) != 22:
        raise ValueError(f"a topic id has 22 characters, {text!r} has {len(text)}")
    return base64.b64decode(text + "==", altchars=b"-_", validate=True)


def derive_topic_id(name: str) -> str:
    """Return the id that stands for that of a topic of which only the name is known."""
    return topic_id_text(uuid5(NAMESPACE_OID, name).bytes)


def iso(moment: datetime) -> str:
    """Format a time as ISO 8601 in UTC, to the millisecond, Kafka's resolution."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(moment: datetime) -> int:
    """Convert a time to epoch milliseconds, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


#: The only resource name of the type CLUSTER.
CLUSTER = "kafka-cluster"


class Right(NamedTuple):
    """A right on a resource; the operation is one of Kafka's ``AclOperation``.

    The type is TOPIC, GROUP or CLUSTER; without a resource the right covers all of them.
    """

    operation: str
    resource_type: str
    resource: str | None


class GroupState(StrEnum):
    """The states a share group can have (KIP-932, ``ShareGroupState``)."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    UNKNOWN = "Unknown"  # any other name

    @classmethod
    def parse(cls, name: str) -> GroupState:
        """Parse a name in any case, as Kafka does; an unknown name becomes `UNKNOWN`."""
        known = {state.lower(): state for state in cls}
        return known.get(name.strip().lower(), cls.UNKNOWN)


def parse_states(names: Iterable[str]) -> frozenset[GroupState]:
    """Parse states to filter by; each text can be several states separated by commas."""
    each = [name.strip() for text in names for name in text.split(",")]
    found = {name: GroupState.parse(name) for name in each}
    if wrong := [name for name, state in found.items() if state is GroupState.UNKNOWN]:
        valid = ", ".join(state for state in GroupState if state is not GroupState.UNKNOWN)
        raise InputError(f"unknown state {wrong[0]!r} of share groups: choose one of {valid}")
    return frozenset(found.values())
