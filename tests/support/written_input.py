"""An input made of writes to share partitions, and of topics with steady arrivals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.inputs import RecordsOnly
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from tests.support.records import row

NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
TOPIC, TOPIC_ID = "orders", "A" * 22
#: The first record of each topic partition is so old, in seconds.
OLDEST = 7200


@dataclass(frozen=True)
class Write:
    """What a share partition is after a write, so many seconds ago."""

    ago: float
    start: int
    batches: tuple[tuple[int, int, int, int], ...] = ()
    group: str = "billing"
    partition: int = 0
    count: int = 0
    made_ago: float = OLDEST


@dataclass
class WrittenInput(RecordsOnly):
    """Record ``n`` of each topic partition came ``n / rate`` seconds after the first."""

    writes: Sequence[Write]
    rate: float = 1.0  # records a second
    partitions_of_topic: int = 1
    unreachable: frozenset[int] = frozenset()
    retention: timedelta | None = None
    group_settings: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # for how many times something was read

    def end(self, ago: float) -> int:
        return int(self.rate * (OLDEST - ago))

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        self.asked.append(topic)
        rows: list[dict[str, Any]] = []
        for offset, write in enumerate(sorted(self.writes, key=lambda write: -write.ago)):
            made, written = (_ms(NOW - timedelta(seconds=s)) for s in (write.made_ago, write.ago))
            state = row(
                *(write.start, write.batches),
                group_id=write.group,
                topic_id=TOPIC_ID,
                partition=write.partition,
                snapshot_epoch=offset,
                state_epoch=0,
                leader_epoch=0,
                create_timestamp=made,
                write_timestamp=written,
                delivery_complete_count=write.count,
            )
            key, value = encode_record(SHARE_SNAPSHOT, state)
            place = {"topic": STATE_TOPIC, "partition": 0, "offset": offset, "timestampType": 0}
            rows.append({"key": key, "value": value, "timestamp": written, **place})
        if topic == STATE_TOPIC:
            yield pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return self._offsets([NOW], log_start=0)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        return self._offsets(moments, log_start=None)

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        keeps = -1 if self.retention is None else self.retention // timedelta(milliseconds=1)
        kept = {"topic": TOPIC, "topic_id": TOPIC_ID, "cleanup_policy": "delete"}
        rows = [
            kept | {"partition": p, "retention_ms": keeps} for p in range(self.partitions_of_topic)
        ]
        return pa.Table.from_pylist(rows, schema=schemas.LOGS)

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        rows = [
            row | {"offset": row["asked_offset"], "timestamp": self._time(row["asked_offset"])}
            for row in positions.to_pylist()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.TIMES)

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        rows = [
            {"scope": "group", "entity": group, "name": name, "value": value, "source": "group"}
            for group in groups
            for name, value in self.group_settings.items()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.SETTINGS)

    def size(self) -> int:
        return len(self.writes)

    def describe(self) -> str:
        return "what a test wrote"

    def frame(self, spark: Any, topic: str) -> Any:
        from sharelag.inputs.spark.frames import frame_of

        return frame_of(spark, pa.Table.from_batches(self.batches(topic), schemas.RAW))

    def _time(self, offset: int) -> datetime:
        return NOW - timedelta(seconds=OLDEST - offset / self.rate)

    def _offsets(self, moments: Sequence[datetime], log_start: int | None) -> pa.Table:
        place: dict[str, Any] = {"topic": TOPIC, "topic_id": TOPIC_ID}
        place["log_start_offset"] = log_start
        rows = [
            place | {"partition": partition, "end_offset": self._known(partition, at), "as_of": at}
            for at in moments
            for partition in range(self.partitions_of_topic)
        ]
        return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)

    def _known(self, partition: int, at: datetime) -> int | None:
        is_known = partition not in self.unreachable
        return self.end((NOW - at).total_seconds()) if is_known else None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
