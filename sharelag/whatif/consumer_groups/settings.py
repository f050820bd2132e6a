"""Settings of a consumer group: Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from sharelag.errors import InputError


@dataclass(frozen=True)
class ConsumerSettings:
    """Of the consumers and their group.

    Attributes
    ----------
    attempts
        How often a record is tried in place before it is given up (skipped, or put into a dead
        letter queue); None: as often as ``share.delivery.count.limit`` of the scenario allows, so
        that both groups give up at the same attempt.
    """

    auto_commit_interval_ms: int = 5000  # auto.commit.interval.ms
    max_poll_interval_ms: int = 300_000  # max.poll.interval.ms
    max_partition_fetch_bytes: int = 1_048_576  # max.partition.fetch.bytes
    heartbeat_interval_ms: int = 5000  # group.consumer.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    assignment_interval_ms: int = 1000  # group.consumer.assignment.interval.ms
    attempts: int | None = None

    def __post_init__(self) -> None:
        spans = (
            self.auto_commit_interval_ms,
            self.max_poll_interval_ms,
            self.heartbeat_interval_ms,
        )
        if min(*spans, self.session_timeout_ms, self.max_partition_fetch_bytes) < 1:
            raise InputError("intervals, timeouts and max_partition_fetch_bytes must be at least 1")
        if self.attempts is not None and self.attempts < 1:
            raise InputError(f"a record is tried {self.attempts} times: give at least 1, or None")
