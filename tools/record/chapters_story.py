"""The story of the demo recording: a shop's topics, its share groups, and their problems.

At the end of each chapter all members have left, so that Kafka's own description of the groups is
exact there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import AcknowledgeType, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import (
    Decide,
    Delivery,
    accept,
    create_topics,
    delivery_of,
    numbered,
    produce,
    set_group_config,
    share_consume,
    topic_ids,
)
from tools.record.state_tail import StateTail

TOPICS = {"orders": 6, "payments": 4, "shipments": 4, "clicks": 3, "returns": 2}
GROUPS = (
    "billing",
    "shipping",
    "fraud-check",
    "notifications",
    "analytics",
    "refunds",
    "trial",
    "clickstream",
)
#: The record that fails in every attempt of fraud-check: topic, partition, offset.
POISON = ("payments", 2, 33)
#: Where locks expire, and nothing is released otherwise: both have the same bytes.
STUCK = (("fraud-check", 0), ("fraud-check", 1))
_ACCEPT, _RELEASE, _REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
_SMALL_POLLS = {"max.poll.records": 10}


class Shop:
    """The broker, and the actions of the chapters on it."""

    def __init__(self, broker: KafkaBroker, oracle: Oracle) -> None:
        self.broker = broker
        self.oracle = oracle
        self.topic_ids: Mapping[str, str] = {}

    @property
    def bootstrap(self) -> str:
        """Address of the broker."""
        return self.broker.bootstrap_servers

    def produce(self, topic: str, count: int) -> None:
        """Append records in batches of ten, so that share groups acquire few at a time."""
        produce(self.bootstrap, topic, numbered(count, TOPICS[topic], topic.rstrip("s")), batch=10)

    def work(
        self,
        group: str,
        topics: Sequence[str],
        finish: int,
        decide: Decide = accept,
        members: int = 1,
        hang: Callable[[list[Delivery]], None] | None = None,
    ) -> None:
        """Let members work until they have finished that many records (accepted or rejected)."""
        finished: set[tuple[str, int, int]] = set()

        def note(message: Message) -> AcknowledgeType | None:
            decision = decide(message)
            if decision in (_ACCEPT, _REJECT):
                delivery = delivery_of(message, decision)
                finished.add((delivery.topic, delivery.partition, delivery.offset))
            return decision

        def member() -> None:
            share_consume(
                self.bootstrap,
                group,
                topics,
                note,
                until=lambda _: len(finished) >= finish,
                timeout=180,
                wait_for_locks=hang or self.wait_for_locks(group),
                config=_SMALL_POLLS,
            )

        with ThreadPoolExecutor(members) as threads:
            for done in [threads.submit(member) for _ in range(members)]:
                done.result()

    def wait_for_locks(self, group: str) -> Callable[[list[Delivery]], None]:
        """Return a function that waits until the broker has written the end of a member's locks."""

        def wait(held: list[Delivery]) -> None:
            with StateTail(self.bootstrap, self.oracle) as tail:
                tail.wait_for_locks(held, group, dict(self.topic_ids))

        return wait


def open_the_shop(shop: Shop) -> None:
    """Topics with their first records, and groups that begin at the first record."""
    create_topics(shop.bootstrap, TOPICS)
    shop.topic_ids = topic_ids(shop.bootstrap, list(TOPICS))
    for group in GROUPS:
        set_group_config(shop.bootstrap, group, share_auto_offset_reset="earliest")
    # Locks of the group that hangs expire soon; analytics is new and starts with later records
    # only.
    set_group_config(shop.bootstrap, "fraud-check", share_record_lock_duration_ms="2000")
    set_group_config(shop.bootstrap, "analytics", share_auto_offset_reset="latest")
    for topic, count in {
        "orders": 4800,
        "payments": 1600,
        "shipments": 2400,
        "clicks": 900,
    }.items():
        shop.produce(topic, count)
    shop.work("shipping", ["orders"], 1500)


def billing_begins(shop: Shop) -> None:
    """Two members of billing take two topics: most is accepted, some released, some rejected."""

    def decide(message: Message) -> AcknowledgeType:
        place = _place(message)
        if place.offset % 17 == 3 and place.delivery_count == 1:
            return _RELEASE
        return _REJECT if place.offset % 41 == 7 else _ACCEPT

    shop.work("billing", ["orders", "payments"], 3600, decide, members=2)


def fraud_check_hangs(shop: Shop) -> None:
    """A member of fraud-check gets stuck on some records; their locks end and others take them."""

    def decide(message: Message) -> AcknowledgeType | None:
        place = _place(message)
        stuck = ("fraud-check", place.partition) in STUCK and place.offset in (12, 13, 14, 27)
        return None if stuck and place.delivery_count == 1 else _poisoned(place)

    shop.work("fraud-check", ["payments"], 400, decide)


def poison(shop: Shop) -> None:
    """One payment is released each time, until its deliveries are used up and Kafka archives it."""
    shop.work("fraud-check", ["payments"], 600, lambda message: _poisoned(_place(message)))


def notifications_lag(shop: Shop) -> None:
    """Notifications does part of its work; a member leaves and its unfinished records return."""
    shop.work("notifications", ["shipments"], 100, _all_but_the_last_three, hang=_leave)
    shop.work("notifications", ["shipments"], 500)


def nothing_to_do(shop: Shop) -> None:
    """Refunds waits for its first record, and analytics for a new one: unknown start offsets."""
    for group, topic in {"refunds": "returns", "analytics": "clicks"}.items():

        def never(seen: list[Delivery], group: str = group, topic: str = topic) -> bool:
            if seen:
                raise RigError(f"{group} was to find nothing in {topic}, and found {seen}")
            return _initialized(shop, group, topic)

        share_consume(shop.bootstrap, group, [topic], accept, until=never)


def trial_comes(shop: Shop) -> None:
    """A short-lived group works on two topics."""
    shop.work("trial", ["shipments", "clicks"], 600)


def trial_goes(shop: Shop) -> None:
    """It is deleted, and Kafka writes tombstones for each of its share partitions."""
    shop.broker.share_groups("--delete", "--group", "trial")


def start_again(shop: Shop) -> None:
    """Shipping was wrong: its start offsets are set back to the beginning."""
    reset = (
        "--reset-offsets",
        "--group",
        "shipping",
        "--topic",
        "orders",
        "--to-earliest",
        "--execute",
    )
    shop.broker.share_groups(*reset)


def restart(shop: Shop) -> None:
    """The broker restarts; shipping works on the partitions under their new leader epoch."""
    shop.broker.restart()
    shop.work("shipping", ["orders"], 1600, members=3)


def old_clicks_expire(shop: Shop) -> None:
    """Old records are deleted below a group that has begun: its start lies before the log's."""
    shop.work("clickstream", ["clicks"], 200)
    admin = AdminClient({"bootstrap.servers": shop.bootstrap, "log_level": 3})
    requested = admin.delete_records(
        [TopicPartition("clicks", partition, 200) for partition in range(TOPICS["clicks"])]
    )
    for done in requested.values():
        done.result(timeout=30)


def new_records(shop: Shop) -> None:
    """More is produced to every topic but returns, and nobody works: lag grows."""
    for topic, count in {"orders": 1800, "payments": 400, "shipments": 1200, "clicks": 120}.items():
        shop.produce(topic, count)


def catching_up(shop: Shop) -> None:
    """Billing and shipping go on, notifications hardly, and leaves unfinished work behind again."""
    shop.work("billing", ["orders", "payments"], 2600, members=2)
    shop.work("shipping", ["orders"], 3000, members=2)
    shop.work("fraud-check", ["payments"], 500)
    shop.work("notifications", ["shipments"], 100, _all_but_the_last_three, hang=_leave)


CHAPTERS: tuple[Callable[[Shop], None], ...] = (
    open_the_shop,
    billing_begins,
    fraud_check_hangs,
    poison,
    notifications_lag,
    nothing_to_do,
    trial_comes,
    trial_goes,
    start_again,
    restart,
    old_clicks_expire,
    new_records,
    catching_up,
)


def _place(message: Message) -> Delivery:
    return delivery_of(message, None)


def _poisoned(place: Delivery) -> AcknowledgeType:
    return _RELEASE if (place.topic, place.partition, place.offset) == POISON else _ACCEPT


def _all_but_the_last_three(message: Message) -> AcknowledgeType | None:
    place = _place(message)
    return None if place.offset % 10 >= 7 and place.delivery_count == 1 else _ACCEPT


def _leave(_: list[Delivery]) -> None:
    """Do not wait: a member that leaves at once releases its unfinished records."""


def _initialized(shop: Shop, group: str, topic: str) -> bool:
    """Return whether the state topic has the first record of each of the group's partitions."""
    key = {"groupId": group, "topicId": shop.topic_ids[topic]}
    keys = [{**key, "partition": partition} for partition in range(TOPICS[topic])]
    with StateTail(shop.bootstrap, shop.oracle) as tail:
        tail.read_to_end()
        return all(any(record.key == wanted for record in tail.records) for wanted in keys)
