"""Stories of records that hold a share group back: stuck, poison, slow, transactional, gone."""

from __future__ import annotations

import time
import zlib

from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import delivery_of, wait_until
from tools.record.stage import Stage, steps

_ACCEPT, _RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
_LIMIT = "share.delivery.count.limit"
_LOCKS = "share.partition.max.record.locks"
_LOCK_MS = "share.record.lock.duration.ms"
_COMMITTED = {"share.isolation.level": "read_committed"}


def head_of_line(stage: Stage) -> None:
    """One early record is given back after each attempt; all that came after it are finished."""

    def stuck(message: Message) -> AcknowledgeType:
        if (message.partition(), message.offset()) != (0, 6):
            return _ACCEPT
        time.sleep(2)  # what it asks answers no more
        return _RELEASE

    stage.open(2, {_LIMIT: "10"})
    stage.join(4, stuck)
    for _ in steps(24):
        stage.produce(10)
    stage.wait_finished(but=1)
    stage.rest()


def held_head(stage: Stage) -> None:
    """One member holds an early record under a long lock; another finishes all later ones."""
    _hold(stage)
    stage.join()
    for _ in steps(24):
        stage.produce(5)
    stage.wait_finished(but=1)
    stage.rest()


def window_full(stage: Stage) -> None:
    """One record is held; the window behind it is at its limit, and nothing new is acquired."""
    _hold(stage, {_LOCKS: "100"})
    stage.join()
    for _ in steps(30):
        stage.produce(15)
    stage.rest()


def poison(stage: Stage, lock_ms: int | None = None) -> None:
    """Some records always fail: three were archived, the last attempt at a fourth is under way."""
    archived, last = {(0, 13), (1, 25), (1, 60)}, (1, 104)

    def poisoned(message: Message) -> AcknowledgeType | None:
        place = delivery_of(message, None)
        if (place.partition, place.offset) == last and place.delivery_count == 5:
            return None
        return _RELEASE if (place.partition, place.offset) in {*archived, last} else _ACCEPT

    stage.open(2, None if lock_ms is None else {_LOCK_MS: str(lock_ms)})
    stage.join(3, poisoned)
    for _ in steps(24):
        stage.produce(10)
    stage.wait_finished(but=len(archived) + 1)
    stage.wait(
        lambda: any(it.decision is None for it in tuple(stage.deliveries)),
        "the last attempt is made",
    )
    stage.rest()


def redelivery_storm(stage: Stage) -> None:
    """Three of four deliveries fail, and their records are given back."""

    def fails(message: Message) -> AcknowledgeType:
        place = delivery_of(message, None)
        dice = zlib.crc32(f"{place.partition} {place.offset} {place.delivery_count}".encode())
        return _RELEASE if dice % 4 and place.delivery_count < 7 else _ACCEPT

    stage.open(4, {_LIMIT: "10"})
    stage.join(2, fails, seconds=0.02)
    for _ in steps(30):
        stage.produce(16)
    stage.rest()


def lock_expiry(stage: Stage) -> None:
    """Processing is slower than the locks last: they expire, and records are delivered again."""
    stage.open(2, {_LOCK_MS: "2000", _LIMIT: "10"})
    stage.join(2)
    for step in steps(34):
        stage.produce(10)
        if step == 7:
            stage.wait_finished()
            stage.leave()
            stage.join(2, seconds=0.22, too_late=True)
    stage.rest()


def open_transaction(stage: Stage) -> None:
    """A transaction stays open in a partition: a group that reads committed records is stuck."""
    stage.open(2, _COMMITTED)
    stage.join(2)
    for step in steps(24):
        stage.produce(10)
        if step == 7:
            stage.at_end(stage.transaction(5, partition=0).abort_transaction)
    stage.rest()


def markers(stage: Stage) -> None:
    """Each partition ends with a transaction committed after its records were finished."""
    stage.open(2)
    stage.join(2)
    for _ in steps(16):
        stage.produce(10)
    transactions = [stage.transaction(5, partition) for partition in range(2)]
    stage.wait_finished()
    for transaction in transactions:
        transaction.commit_transaction()
    time.sleep(4)
    stage.rest()


def pinned_by_marker(stage: Stage) -> None:
    """Each transaction is committed late: the first marker pins the start offset."""
    stage.open(2)
    stage.join(2)
    for step in steps(10, every=1):
        transaction = stage.transaction(5, partition=step % 2)
        stage.wait_finished()
        transaction.commit_transaction()
    time.sleep(3)
    stage.rest()


def aborted(stage: Stage) -> None:
    """All is finished, but partitions end with an aborted transaction: its offsets are lag."""
    stage.open(2, _COMMITTED)
    stage.join(2)
    for _ in steps(16):
        stage.produce(10)
    stage.wait_finished()
    for partition in range(2):
        stage.transaction(3, partition).abort_transaction()
    time.sleep(4)
    stage.rest()


def compaction_holes(stage: Stage) -> None:
    """A member far behind on a compacted topic: most offsets before it hold no record."""
    stage.open(1, cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01")
    stage.join(seconds=1, at_once=1)
    for _ in steps(40):
        stage.produce(1, batch=1)
        stage.produce(24, batch=1, key="price")
    for _ in steps(2, every=1.2):
        stage.produce(1)  # rolls the segment, so that it can be compacted
    wait_until(lambda: _stored(stage.bootstrap, stage.topic) < 100, "the topic is compacted")
    stage.rest()


def _hold(stage: Stage, settings: dict[str, str] | None = None) -> None:
    """Open with one partition, of which a member has finished twenty records and holds the next."""
    stage.open(1, {_LOCK_MS: "60000", **(settings or {})})
    stage.join(decide=lambda message: None if message.offset() == 20 else _ACCEPT, at_once=1)
    stage.produce(20, batch=1)
    stage.wait(
        lambda: any(it.decision is None for it in tuple(stage.deliveries)), "a record is held"
    )


def _stored(bootstrap: str, topic: str, timeout: float = 30) -> int:
    """Count the records that a topic holds: fewer than its offsets where it was compacted."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "stored-records", "enable.partition.eof": True}
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    count, ended, deadline = 0, 0, time.monotonic() + timeout
    try:
        while ended < len(partitions):
            if time.monotonic() > deadline:
                raise RigError(f"the end of {topic} was not reached within {timeout:g} s")
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                count, ended = count + (error is None), ended + (error is not None)
    finally:
        consumer.close()
    return count
