"""Follow the state topic while a broker writes it, decoded by Kafka's own classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import Delivery, end_offsets

STATE_TOPIC = "__share_group_state"
_RELEASED_OR_ARCHIVED = (0, 4)


class StateRecord(NamedTuple):
    """A record of the state topic; ``value`` is ``None`` for a tombstone."""

    partition: int
    offset: int
    kind: int
    key: dict[str, Any]
    value: dict[str, Any] | None


class StateTail:
    """All records of the state topic, read on demand.

    Parameters
    ----------
    bootstrap
        Address of the broker. The state topic has to exist.
    oracle
        A ``record_json()`` oracle.
    """

    def __init__(self, bootstrap: str, oracle: Oracle) -> None:
        self.records: list[StateRecord] = []
        self._oracle = oracle
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "state-tail", "enable.auto.commit": False}
        )
        partitions = (
            self._consumer.list_topics(STATE_TOPIC, timeout=10).topics[STATE_TOPIC].partitions
        )
        self._bootstrap = bootstrap
        self._partitions = [TopicPartition(STATE_TOPIC, number) for number in partitions]
        self._consumer.assign(
            [TopicPartition(STATE_TOPIC, number, OFFSET_BEGINNING) for number in partitions]
        )

    def wait_for(
        self, found: Callable[[list[StateRecord]], bool], what: str, timeout: float = 60
    ) -> None:
        """Read until the records so far satisfy a condition.

        Raises
        ------
        RigError
            They did not in time.
        """
        deadline = time.monotonic() + timeout
        while not found(self.records):
            if time.monotonic() > deadline:
                raise RigError(
                    f"waited {timeout:g} s in vain until the state topic shows that {what}"
                )
            self._read()

    def read_to_end(self) -> None:
        """Read the current contents of the topic."""
        ends = end_offsets(self._bootstrap, [STATE_TOPIC])

        def at_end(_: list[StateRecord]) -> bool:
            position = {
                (at.topic, at.partition): at.offset
                for at in self._consumer.position(self._partitions)
            }
            return all(position[where] >= end or not end for where, end in ends.items())

        self.wait_for(at_end, "its end is reached")

    def wait_for_locks(
        self, held: Iterable[Delivery], group: str, topic_ids: dict[str, str]
    ) -> None:
        """Read until the broker has written the end of all these deliveries' locks.

        Records at the delivery limit become archived, the others available again.
        """
        open_locks = set(held)
        seen = 0

        def all_ended(records: list[StateRecord]) -> bool:
            nonlocal seen
            for record in records[seen:]:
                open_locks.difference_update(
                    [lock for lock in open_locks if _ends(record, lock, group, topic_ids)]
                )
            seen = len(records)
            return not open_locks

        self.wait_for(all_ended, "the locks have ended", timeout=90)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> None:
        messages = self._consumer.consume(1000, timeout=0.2)
        questions = []
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            key, value = message.key(), message.value()
            questions.append({"topic": "state", "k": hex_of(key), "v": hex_of(value)})
        for message, answer in zip(messages, self._oracle.ask_many(questions), strict=True):
            place = (message.partition() or 0, message.offset() or 0)
            self.records.append(StateRecord(*place, answer["type"], answer["key"], answer["value"]))


def _ends(record: StateRecord, lock: Delivery, group: str, topic_ids: dict[str, str]) -> bool:
    key = {"groupId": group, "topicId": topic_ids[lock.topic], "partition": lock.partition}
    if record.key != key or record.value is None:
        return False
    return any(
        batch["firstOffset"] <= lock.offset <= batch["lastOffset"]
        and batch["deliveryState"] in _RELEASED_OR_ARCHIVED
        and batch["deliveryCount"] >= lock.delivery_count
        for batch in record.value["stateBatches"]
    )


def hex_of(data: bytes | None) -> str | None:
    """Return bytes in an oracle's format; null is a tombstone's value."""
    return None if data is None else data.hex()
