"""The records that a share coordinator writes during a simulation.

`StateTopic` handles the valid requests of a simulation like Kafka's ``ShareCoordinatorShard`` (one
for each partition of ``__share_group_state``). It keeps the records as bytes, so that decoding,
replay, history and lag treat them like those of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import pyarrow as pa

from sharelag import schemas
from sharelag.model import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    SharePartition,
    StateBatch,
    Window,
)
from sharelag.replay import combine
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, RecordKind
from sharelag.wire.placement import state_partition


class WrittenRun(NamedTuple):
    """Offsets written with one state and delivery count, as a state batch or one by one."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    per_offset: bool


class Write(NamedTuple):
    """Content of a ``WriteShareGroupState`` request, and the time when it is sent."""

    time_ms: int
    start_offset: int
    delivery_complete_count: int
    leader_epoch: int
    state_epoch: int
    runs: tuple[WrittenRun, ...]


@dataclass(slots=True)
class _Known:
    """The state of one share partition in a shard."""

    window: Window
    leader_fence: int  # the latest leader epoch read or written
    updates: int | None = None  # since the last due snapshot; None before the first


class StateTopic:
    """The share coordinator, and the topic that it writes.

    Its settings in Kafka begin with ``share.coordinator.``: ``state.topic.num.partitions``,
    ``snapshot.update.records.per.snapshot`` (the write after this many updates is a snapshot) and
    ``cold.partition.snapshot.interval.ms``.
    """

    def __init__(
        self, partitions: int = 50, updates_per_snapshot: int = 500, cold_ms: int = 300_000
    ) -> None:
        self._partitions, self._limit, self._cold_ms = partitions, updates_per_snapshot, cold_ms
        self._known: dict[SharePartition, _Known] = {}
        self._rows: list[tuple[bytes, bytes | None, int, int, int]] = []
        self._ends: dict[int, int] = {}  # the next offset of each partition of the topic

    def initialize(self, key: SharePartition, now: int, state_epoch: int, start: int) -> None:
        """Create or reset the state by a snapshot (``InitializeShareGroupState``); -1: unknown."""
        known = self._known.get(key)
        unknown = start == UNINITIALIZED_START_OFFSET
        count = UNINITIALIZED_DELIVERY_COMPLETE_COUNT if unknown else 0
        epoch = known.window.snapshot_epoch + 1 if known else 0
        self._snapshot(key, Window(epoch, state_epoch, 0, start, count, now, now), now)

    def adopt(self, key: SharePartition, window: Window, now: int) -> None:
        """Start with a state from elsewhere, as a snapshot."""
        self._snapshot(key, replace(window, write_timestamp=now), now)

    def write(self, key: SharePartition, write: Write) -> None:
        """Handle a write of a share partition's leader (``WriteShareGroupState``)."""
        # Not the leader epoch of the request: only reads of the state raise it.
        epoch = self._known[key].window.leader_epoch
        # Single offsets and runs of them combine to the same batches; runs are faster.
        batches = [StateBatch(*run[:4]) for run in write.runs]
        start, count = write.start_offset, write.delivery_complete_count
        self._append(key, batches, start, count, epoch, write.time_ms)

    def read(self, key: SharePartition, leader_epoch: int, now: int) -> Window:
        """Return the state to a new leader (``ReadShareGroupState``), and write a new epoch."""
        window = self._known[key].window
        if leader_epoch != self._known[key].leader_fence:
            start, count = window.start_offset, window.delivery_complete_count
            self._append(key, (), start, count, leader_epoch, now)
        return window

    def snapshot_cold(self, now: int) -> None:
        """Write snapshots of states without a recent one, in shards with changes since."""
        shards: dict[int, list[SharePartition]] = {}
        for key in self._known:
            shards.setdefault(state_partition(key, self._partitions), []).append(key)
        for keys in shards.values():
            windows = {key: self._known[key].window for key in keys}
            if all(one.create_timestamp != one.write_timestamp for one in windows.values()):
                continue
            for key, window in windows.items():
                if now - window.write_timestamp >= self._cold_ms:
                    epoch = window.snapshot_epoch + 1
                    cold = replace(window, snapshot_epoch=epoch, write_timestamp=now)
                    self._snapshot(key, cold, now)

    def window(self, key: SharePartition) -> Window | None:
        """Return the current state, or None."""
        known = self._known.get(key)
        return known.window if known else None

    def records(self) -> pa.RecordBatch:
        """Return all records in the order of writing, as `sharelag.schemas.RAW`."""
        keys, values, partitions, offsets, times = (
            zip(*self._rows, strict=True) if self._rows else ((),) * 5
        )
        columns = {
            "key": keys,
            "value": values,
            "topic": [STATE_TOPIC] * len(keys),
            "partition": partitions,
            "offset": offsets,
            "timestamp": pa.array(times, pa.int64()).view(schemas.TIMESTAMP),
            "timestampType": [0] * len(keys),
        }
        return pa.RecordBatch.from_pydict(columns, schema=schemas.RAW)

    # ---- writing, with immediate replay ----

    def _append(
        self,
        key: SharePartition,
        batches: Iterable[StateBatch],
        start: int,
        count: int,
        leader_epoch: int,
        now: int,
    ) -> None:
        known = self._known[key]
        window = known.window
        # A late write moves nothing back.
        if start <= window.start_offset:
            so_far = window.delivery_complete_count
            count = so_far if start < window.start_offset else max(count, so_far)
            start = window.start_offset
        news = combine((), batches, start)
        window = replace(
            window,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=count,
            batches=tuple(combine(window.batches, news, start)),
        )
        if (known.updates or 0) >= self._limit:
            epoch = window.snapshot_epoch + 1
            window = replace(
                window, snapshot_epoch=epoch, create_timestamp=now, write_timestamp=now
            )
            self._snapshot(key, window, now)
            return
        self._record(key, SHARE_UPDATE, _row(window, news), now)
        known.window, known.updates = window, (known.updates or 0) + 1
        known.leader_fence = max(known.leader_fence, leader_epoch)

    def _snapshot(self, key: SharePartition, window: Window, now: int) -> None:
        self._record(key, SHARE_SNAPSHOT, _row(window, window.batches), now)
        known = self._known.get(key)
        if known is None:
            self._known[key] = _Known(window, window.leader_epoch)
            return
        known.window = window
        known.leader_fence = max(known.leader_fence, window.leader_epoch)
        if known.updates is not None and known.updates >= self._limit:
            known.updates = 0

    def _record(self, key: SharePartition, kind: RecordKind, row: dict[str, Any], now: int) -> None:
        partition = state_partition(key, self._partitions)
        offset = self._ends.get(partition, 0)
        self._ends[partition] = offset + 1
        self._rows.append((*encode_record(kind, key._asdict() | row), partition, offset, now))


_WINDOW_FIELDS = tuple(one.name for one in fields(Window) if one.name != "batches")


def _row(window: Window, batches: Iterable[StateBatch]) -> dict[str, Any]:
    own = {name: getattr(window, name) for name in _WINDOW_FIELDS}
    return own | {"state_batches": [batch._asdict() for batch in batches]}
