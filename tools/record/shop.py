"""The story of the shop recording: eight share groups on three brokers, seven of them in trouble.

Records arrive and members work all the time, also during the recording. Times are minutes of the
story, each of which takes `Shop.minute` seconds.
"""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer

from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    create_topics,
    set_group_config,
    share_consumer,
    start_transaction,
)

#: Duration of the story.
MINUTES = 40.0
_ACCEPT, _RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
_LIMIT = "share.delivery.count.limit"
_LOCKS = "share.partition.max.record.locks"
_LOCK_MS = "share.record.lock.duration.ms"
#: Seconds between two rounds of the producer.
_TICK = 0.5
#: Seconds between two polls of a member, as in batch processing.
_PAUSE = 0.8
_SEED = 20


class Topic(NamedTuple):
    """The arrivals of a topic."""

    partitions: int
    rate: float
    """Records a second."""
    hot: int | None = None
    """The partition that most records go to from `HOT_FROM` on."""


class Group(NamedTuple):
    """A share group of the shop, and the end of its story."""

    topic: str
    cause: str | None
    """The first cause of `explain` at the end; None: nothing is wrong."""
    story: str
    config: Mapping[str, str] = {}


TOPICS = {
    "payments": Topic(4, 10),
    "orders": Topic(4, 8),
    "shipments": Topic(6, 12, hot=3),
    "emails": Topic(4, 8),
    "catalogue": Topic(2, 5),
    "clicks": Topic(4, 20),
    "invoices": Topic(2, 3),
    "returns": Topic(2, 1),
}
GROUPS = {
    "checkout": Group("payments", None, "Three members keep up; the third joined at minute 10."),
    "billing": Group(
        "orders",
        "head_of_line",
        "Since minute 35 no attempt gets through an order of orders-0 that names no currency; "
        "each takes 35 s.",
        {_LIMIT: "10", _LOCK_MS: "60000"},
    ),
    "fulfilment": Group(
        "shipments",
        "hot_partition",
        "From minute 12 on four of five shipments go to one of six partitions.",
    ),
    "notifications": Group(
        "emails",
        "redelivery_storm",
        "Since minute 28 the mail server refuses three of four e-mails, which are given back.",
        {_LIMIT: "10"},
    ),
    "search-index": Group(
        "catalogue",
        "window_full",
        "Since minute 33 a product without a currency takes 100 s an attempt; the window behind "
        "it is full.",
        {_LIMIT: "10", _LOCK_MS: "120000", _LOCKS: "200"},
    ),
    "analytics": Group(
        "clicks",
        "slow_consumers",
        "Two of four members left at minute 18, and clicks arrive faster than the others work.",
    ),
    "invoicing": Group(
        "invoices",
        "open_transaction",
        "A transaction has been open in invoices-0 since minute 33.",
        {"share.isolation.level": "read_committed"},
    ),
    "returns-desk": Group(
        "returns", "no_members", "Both members left at minute 25; returns keep arriving."
    ),
}
HOT_FROM, STORM_FROM = 12.0, 28.0
#: Minutes from which the next record of a partition has no currency: every attempt fails.
_STUCK_FROM = {
    8.0: ("orders", 1),
    21.0: ("orders", 2),
    33.0: ("catalogue", 1),
    35.0: ("orders", 0),
}
_NO_CURRENCY = b'"currency": null'


class Worker(threading.Thread):
    """A member: polls, processes each record, decides, and waits a little."""

    def __init__(self, shop: Shop, group: str, number: int, seconds: float, at_once: int) -> None:
        super().__init__(name=f"{group}-{number}", daemon=True)
        self.error: BaseException | None = None
        #: Number of decided records.
        self.decided = 0
        self.failed_commits = 0
        self._shop, self._group, self._seconds, self._at_once = shop, group, seconds, at_once
        self._leave = threading.Event()

    def run(self) -> None:
        """Work until stopped."""
        try:
            settings: dict[str, str | int] = {
                "client.id": self.name,
                "max.poll.records": self._at_once,
                "log_level": 0,
            }
            servers, topics = self._shop.cluster.bootstrap_servers, [GROUPS[self._group].topic]
            consumer = share_consumer(servers, self._group, topics, **settings)
            try:
                while not self._leave.is_set():
                    self._work(consumer)
                    self._leave.wait(_PAUSE)
            finally:
                consumer.close()
        except BaseException as error:
            self.error = error

    def leave(self) -> None:
        """Leave the group after the current poll; held records are released."""
        self._leave.set()

    def _work(self, consumer: ShareConsumer) -> None:
        messages = [it for it in consumer.poll(0.2) if it.error() is None]
        for message in messages:
            decision = self._shop.decide(self._group, message, self._leave)
            self._leave.wait(self._seconds)
            consumer.acknowledge(message, decision)
        try:
            consumer.commit_sync(10.0)
        except KafkaException:
            # The leader of a partition has gone: its records are delivered again.
            self.failed_commits += 1
        self.decided += len(messages)


class Shop:
    """Topics, groups and members, as long as the ``with`` block.

    Parameters
    ----------
    cluster : KafkaCluster
    minute : float
        Seconds that a minute of the story takes.
    """

    def __init__(self, cluster: KafkaCluster, minute: float = 60) -> None:
        self.cluster = cluster
        self.minute = minute
        self._begun = time.monotonic()
        self._members: dict[str, list[Worker]] = {name: [] for name in GROUPS}
        self._all: list[Worker] = []
        self._dice = random.Random(_SEED)
        self._produced = dict.fromkeys(TOPICS, 0)
        self._stuck_from = dict(_STUCK_FROM)
        self._transaction: Producer | None = None
        self._ended = threading.Event()

    @property
    def now(self) -> float:
        """The minute of the story."""
        return (time.monotonic() - self._begun) / self.minute

    def play(self) -> None:
        """Play the story to its end; members continue after it.

        Raises
        ------
        RigError
            A member failed.
        """
        servers = self.cluster.bootstrap_servers
        create_topics(servers, {name: it.partitions for name, it in TOPICS.items()}, copies=3)
        for name, group in GROUPS.items():
            set_group_config(
                servers, name, **{"share.auto.offset.reset": "earliest"}, **group.config
            )
        for name, members, seconds, at_once in (
            ("checkout", 2, 0.01, 50),
            ("billing", 8, 0.01, 20),
            ("fulfilment", 3, 0.14, 10),
            ("notifications", 2, 0.05, 20),
            ("search-index", 4, 0.01, 20),
            ("analytics", 4, 0.1, 20),
            ("invoicing", 2, 0.02, 20),
            ("returns-desk", 2, 0.05, 10),
        ):
            self._join(name, members, seconds, at_once)
        self._begun = time.monotonic()
        events: list[tuple[float, Callable[[], None]]] = [
            (10, lambda: self._join("checkout", 1, 0.01, 50)),
            (15, self._restart_broker),
            (18, lambda: self._part("analytics", 2)),
            (25, lambda: self._part("returns-desk", 2)),
            (33, self._open_transaction),
            (MINUTES, lambda: None),
        ]
        produce = threading.Thread(target=self._produce, name="producer", daemon=True)
        produce.start()
        for minute, do in events:
            while self.now < minute:
                self._look()
                time.sleep(_TICK)
            do()

    def leave(self) -> None:
        """Have all members leave, and wait until they have."""
        for worker in self._all:
            worker.leave()
        for worker in self._all:
            worker.join(timeout=60)
        self._ended.set()
        if self._transaction is not None:
            self._transaction.abort_transaction()

    def decide(self, group: str, message: Message, leaving: threading.Event) -> AcknowledgeType:
        """Process a record: stuck ones take long and are released."""
        place = (str(message.topic()), int(message.partition() or 0))
        offset, attempt = int(message.offset() or 0), int(message.delivery_count() or 1)
        if _NO_CURRENCY in (message.value() or b""):
            leaving.wait(100 if group == "search-index" else 35)
            return _RELEASE
        if group == "notifications" and self.now >= STORM_FROM and attempt < 9:
            dice = zlib.crc32(f"{place} {offset} {attempt}".encode())
            return _RELEASE if dice % 4 else _ACCEPT
        return _ACCEPT

    def _join(self, group: str, members: int, seconds: float, at_once: int) -> None:
        for _ in range(members):
            number = sum(it.name.startswith(f"{group}-") for it in self._all) + 1
            worker = Worker(self, group, number, seconds, at_once)
            worker.start()
            self._members[group].append(worker)
            self._all.append(worker)

    def _part(self, group: str, members: int) -> None:
        """Have the latest members leave."""
        for worker in self._members[group][-members:]:
            worker.leave()
        del self._members[group][-members:]

    def _restart_broker(self) -> None:
        """Restart the third broker, which is away for a third of a minute."""
        broker = self.cluster.brokers[2]
        broker.stop()
        time.sleep(self.minute / 3)
        broker.start()

    def _open_transaction(self) -> None:
        self._transaction = start_transaction(
            self.cluster.bootstrap_servers,
            "invoice-run",
            "invoices",
            [(0, b"run", json.dumps({"invoice": n}).encode()) for n in range(5)],
        )

    def _produce(self) -> None:
        """Append the arrivals, until the end."""
        settings = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 20,
            "batch.num.messages": 5,
            "log_level": 0,
        }
        producer = Producer(settings)
        rounds = 0
        while not self._ended.is_set():
            for name, topic in TOPICS.items():
                due = int((rounds + 1) * topic.rate * _TICK) - int(rounds * topic.rate * _TICK)
                for _ in range(due):
                    self._send(producer, name, topic)
            producer.poll(0)
            rounds += 1
            time.sleep(max(0.0, self._begun + rounds * _TICK - time.monotonic()))

    def _send(self, producer: Producer, name: str, topic: Topic) -> None:
        number = self._produced[name]
        self._produced[name] += 1
        partition = self._dice.randrange(topic.partitions)
        if topic.hot is not None and self.now >= HOT_FROM and self._dice.random() < 0.76:
            partition = topic.hot
        value = {
            "id": f"{name}-{number}",
            "customer": f"c-{self._dice.randrange(900)}",
            "total": round(self._dice.uniform(3, 240), 2),
            "currency": None if self._is_stuck(name, partition) else "EUR",
        }
        producer.produce(name, json.dumps(value).encode(), str(value["customer"]), partition)

    def _is_stuck(self, topic: str, partition: int) -> bool:
        """Return whether this record is the first of its partition after a stuck one is due."""
        for minute, place in self._stuck_from.items():
            if place == (topic, partition) and self.now >= minute:
                del self._stuck_from[minute]
                return True
        return False

    def _look(self) -> None:
        failed: Sequence[Worker] = [it for it in self._all if it.error is not None]
        if failed:
            raise RigError(f"{failed[0].name} failed") from failed[0].error
