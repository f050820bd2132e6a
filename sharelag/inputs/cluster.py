"""A running cluster as an input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import AuthorizationError, ClusterError, NoLeaderError
from sharelag.inputs.contract import RecordsOnly
from sharelag.inputs.kafka import brokers
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.records import record_times
from sharelag.inputs.offsets import is_noted, without_ends
from sharelag.model.versions import Version
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class KafkaInput(RecordsOnly):
    """A running cluster.

    ``state`` has the first and end offset of each state partition to read, by default those of the
    first request; ``unread`` gives the reason for missing partitions: their leaders did not answer.
    """

    rereadable = False
    config: ClientConfig
    state: Mapping[int, tuple[int, int]] | None = None
    unread: NoLeaderError | None = None

    @property
    def cluster_id(self) -> str | None:
        return kafka.cluster_id(self.config)

    @property
    def kafka_version(self) -> Version:
        return partial(_release, self.config)

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return kafka.read_topic(self.config, topic, self._ranges(topic))

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.spark.data_source import read_topic

        return read_topic(spark, self.config, topic, self._ranges(topic))

    def _ranges(self, topic: str) -> dict[int, tuple[int, int]] | None:
        return self.state_ranges if topic == STATE_TOPIC else None

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        if isinstance(as_of, datetime):
            return self.past_offsets(topic_ids, [as_of])
        offsets = kafka.list_offsets(self.config, self._names(topic_ids))
        # Offsets of the state topic do not determine a time, so no end offsets match them.
        return offsets if as_of is None else without_ends(offsets)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        return kafka.past_offsets(self.config, self._names(topic_ids), moments)

    def timed_by_producers(self, topics: Sequence[str]) -> Sequence[str]:
        return kafka.timed_by_producers(self.config, topics)

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        return kafka.logs(self.config, self._names(topic_ids))

    def leaders(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        if not is_noted(datetime.now(UTC), as_of):
            return schemas.LEADERS.empty_table()
        return brokers.leaders(self.config, [*self._names(topic_ids), STATE_TOPIC, GROUP_TOPIC])

    def nodes(self, as_of: object = None) -> pa.Table:
        if not is_noted(datetime.now(UTC), as_of):
            return schemas.NODES.empty_table()
        return brokers.nodes(self.config)

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        return record_times(self.config, positions, read_committed)

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        return brokers.settings(self.config, groups, topics)

    def partitions(self, topic: str) -> int | None:
        if topic != STATE_TOPIC:
            return len(kafka.offset_ranges(self.config, topic))
        return len(self.state_ranges) + (len(self.unread.silent) if self.unread else 0)

    def without(self, error: NoLeaderError) -> KafkaInput | None:
        """Return the input without the state partitions of an error; None if none is left.

        A share partition has all of its records in one state partition, so those of the others are
        complete. Aggregates over several share partitions are not.
        """
        if error.topic != STATE_TOPIC or not error.silent:
            return None
        ranges = error.answered if error.answered is not None else self.state_ranges
        left = {p: span for p, span in ranges.items() if p not in error.silent}
        if self.unread is not None:
            error.silent |= self.unread.silent
        return replace(self, state=left, unread=error) if left else None

    @cached_property
    def group_records_refused(self) -> AuthorizationError | None:
        """The error with which reading group records would fail; None if they may be read."""
        return brokers.refusal(self.config, GROUP_TOPIC)

    def _names(self, topic_ids: Sequence[str]) -> dict[str, str]:
        chosen = set(topic_ids)
        return {topic: found for topic, found in self._topics.items() if found in chosen}

    @cached_property
    def _topics(self) -> dict[str, str]:
        return kafka.topic_ids(self.config)

    @cached_property
    def state_ranges(self) -> dict[int, tuple[int, int]]:
        """First and end offset of each state partition at the first request."""
        if self.state is not None:
            return dict(self.state)
        return kafka.offset_ranges(self.config, STATE_TOPIC)

    @cached_property
    def _ranges_for_size(self) -> dict[int, tuple[int, int]]:
        return vars(self).get("state_ranges") or replace(self).state_ranges

    def size(self) -> int:
        # Estimate only: Spark may take a while to start, and then reads up to a later end.
        return sum(end - first for first, end in self._ranges_for_size.values())

    def describe(self) -> str:
        return f"cluster at {self.config.bootstrap_servers}"


def _release(config: ClientConfig) -> str | None:
    """Ask brokers for their release; None if they do not answer, which other requests report."""
    try:
        return brokers.broker_features(config).release
    except ClusterError:
        return None
