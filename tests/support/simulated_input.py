"""An input that a simulation left: the group as a cluster has it when the simulation ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.inputs import RecordsOnly
from sharelag.whatif import SimulationResult
from sharelag.whatif.simulation.logs import Log
from sharelag.wire import STATE_TOPIC


@dataclass
class SimulatedInput(RecordsOnly):
    """The records that were written, and the logs as brokers would report them."""

    result: SimulationResult

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        if topic == STATE_TOPIC:
            yield self.result.records()

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return self.result.offsets()

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        rows = [
            place
            | {"log_start_offset": None, "end_offset": log.end_then(self._micros(at)), "as_of": at}
            for at in moments
            for place, log in self._logs()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        ended = self.result.scenario.duration_ms * 1000
        topics = self.result.scenario.topics
        compacted = {one.name for one in topics if any(start.missing for start in one.starts)}
        rows = [
            place
            | {
                "cleanup_policy": "compact" if place["topic"] in compacted else "delete",
                "retention_ms": -1,
            }
            | {"last_stable_offset": log.bases[sum(time <= ended for time in log.readable)]}
            for place, log in self._logs()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.LOGS)

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        logs = {(place["topic"], place["partition"]): log for place, log in self._logs()}
        rows = []
        for row in positions.to_pylist():
            log = logs[row["topic"], row["partition"]]
            offset = self._next(log, row["asked_offset"], read_committed)
            when = None if offset is None else self._moment(log.append_time(offset))
            rows.append(row | {"offset": offset, "timestamp": when})
        return pa.Table.from_pylist(rows, schema=schemas.TIMES)

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        settings = self.result.scenario.settings
        values = {
            "share.record.lock.duration.ms": settings.limits.lock_duration_ms,
            "share.delivery.count.limit": settings.limits.delivery_count_limit,
            "share.partition.max.record.locks": settings.limits.max_record_locks,
            "share.isolation.level": settings.isolation_level,
        }
        rows = [
            {"scope": "group", "entity": group, "source": "group"} | {"name": name, "value": str(v)}
            for group in groups
            for name, v in values.items()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.SETTINGS)

    def size(self) -> int:
        return int(self.result.records().num_rows)

    def describe(self) -> str:
        return "what a simulation left"

    def frame(self, spark: Any, topic: str) -> Any:
        return spark.createDataFrame(pa.Table.from_batches(self.batches(topic)))

    def _logs(self) -> Iterator[tuple[dict[str, Any], Log]]:
        each = iter(self.result._logs)
        for topic in self.result.scenario.topics:
            for number in range(topic.partitions):
                yield {"topic": topic.name, "topic_id": topic.id, "partition": number}, next(each)

    def _next(self, log: Log, offset: int, read_committed: bool) -> int | None:
        """What a consumer that seeks to an offset gets first."""
        ended = self.result.scenario.duration_ms * 1000
        times = log.readable if read_committed else log.times
        end = log.bases[sum(time <= ended for time in times)]
        aborted = {
            one
            for base, after in zip(log.bases, log.bases[1:], strict=False)
            if base in log.aborted and read_committed
            for one in range(base, after)
        }
        without = aborted | set(log.missing)
        return next((one for one in range(max(offset, log.start), end) if one not in without), None)

    def _micros(self, at: datetime) -> int:
        return round(at.timestamp() * 1_000_000) - self.result.scenario.begins_ms * 1000

    def _moment(self, micros: int) -> datetime:
        return datetime.fromtimestamp(
            self.result.scenario.begins_ms / 1000 + micros / 1_000_000, UTC
        )
