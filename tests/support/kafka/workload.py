"""Small pieces of a workload: make topics, produce, and consume as a member of a share group."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from confluent_kafka import (
    AcknowledgeType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.kafka.jvm import RigError

#: The one client from which brokers take records for their own topics.
OF_KAFKA = "__admin_client"

#: What to do with a delivered record; ``None`` keeps it until its lock has ended.
Decide = Callable[[Message], AcknowledgeType | None]


class Delivery(NamedTuple):
    """One delivery of a record to a share consumer, and what was decided about it."""

    topic: str
    partition: int
    offset: int
    delivery_count: int
    decision: AcknowledgeType | None


def create_topics(
    bootstrap: str,
    partitions: Mapping[str, int],
    config: Mapping[str, str] | None = None,
    copies: int = 1,
) -> None:
    """Create topics with the given numbers of partitions, and wait until they have leaders."""
    admin = _admin(bootstrap)
    given = dict(config or {})
    topics = [NewTopic(name, count, copies, config=given) for name, count in partitions.items()]
    for done in admin.create_topics(topics).values():
        done.result(timeout=30)

    def are_led(name: str, count: int) -> bool:
        led = [leader > 0 for leader in _leaders(admin, name).values()]
        return led == [True] * count

    wait_until(lambda: all(are_led(*t) for t in partitions.items()), "the new topics have leaders")


def create_compacted(bootstrap: str, topic: str) -> None:
    """Create a topic of one partition that the log cleaner compacts as soon as it looks."""
    times = ("segment.ms", "max.compaction.lag.ms", "delete.retention.ms")  # the least there are
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
    create_topics(bootstrap, {topic: 1}, settings | dict.fromkeys(times, "100"))


def create_placed(
    bootstrap: str,
    topic: str,
    replicas: Sequence[list[int]],
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with these replicas, and wait until the first of each leads."""
    admin = _admin(bootstrap)
    placed = NewTopic(
        topic, len(replicas), replica_assignment=list(replicas), config=dict(config or {})
    )
    admin.create_topics([placed])[topic].result(timeout=30)
    first = {number: brokers[0] for number, brokers in enumerate(replicas)}
    wait_until(
        lambda: _leaders(admin, topic) == first, f"brokers {first} lead the partitions of {topic}"
    )


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the leader of each partition of a topic; -1: it has none."""
    return _leaders(_admin(bootstrap), topic)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[int, bytes | None, bytes | None]],
    batch: int = 10_000,
    times: Iterable[int] | None = None,
    client: str = "rdkafka",
) -> int:
    """Produce ``(partition, key, value)`` records, wait for all, and return how many there were.

    ``batch`` is the size of the log batches: the broker hands them to share consumers whole,
    whatever the ``max.poll.records`` of these. ``times`` are those of the records in milliseconds,
    by default that of producing. ``client`` is the id of the client, such as `OF_KAFKA`.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client,
            "acks": "all",
            "max.in.flight": 1,
            "linger.ms": 50,
            "batch.num.messages": batch,
            # Their order survives where the leader of a new topic is not ready.
            "enable.idempotence": times is not None,
        }
    )
    failures: list[KafkaError] = []
    count = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for (partition, key, value), time_ms in zip(records, times or repeat(0), strict=False):
        producer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=time_ms)
        producer.poll(0)
        count += 1
    if producer.flush(60):
        raise RigError(f"producing to {topic} did not finish within 60 s")
    if failures:
        raise KafkaException(failures[0])
    return count


def start_transaction(
    bootstrap: str, name: str, topic: str, records: Iterable[tuple[int, bytes | None, bytes]]
) -> Producer:
    """Append ``(partition, key, value)`` records in a named transaction; the caller ends it.

    It stays open as long as the producer is kept, for ten minutes at most.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 600_000,
            "linger.ms": 5,
            # errors only: it notes that the transaction coordinator is still starting
            "log_level": 3,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition, key, value in records:
        producer.produce(topic, value, key, partition)
    if producer.flush(60):
        raise RigError(f"producing to {topic} in the transaction {name} did not finish within 60 s")
    return producer


def numbered(
    count: int, partitions: int, text: str = "record"
) -> list[tuple[int, bytes | None, bytes]]:
    """Make ``count`` records, dealt to the partitions in turn, with their number as key."""
    return [(n % partitions, str(n).encode(), f"{text} {n}".encode()) for n in range(count)]


def set_group_config(bootstrap: str, group: str, **settings: str) -> None:
    """Set a group up, with underscores for dots: ``share_auto_offset_reset="earliest"``."""
    _set_config(bootstrap, ResourceType.GROUP, group, settings)


def set_topic_config(bootstrap: str, topic: str, **settings: str) -> None:
    """Change settings of a topic, named as those of a group."""
    _set_config(bootstrap, ResourceType.TOPIC, topic, settings)


def end_offsets(bootstrap: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """Return the end offset (high watermark) of every partition of the topics."""
    return _offsets(bootstrap, topics, OffsetSpec.latest())


def topic_ids(bootstrap: str, topics: Sequence[str]) -> dict[str, str]:
    """Return the id of each topic, as Kafka prints it."""
    admin = _admin(bootstrap)
    requested = admin.describe_topics(TopicCollection(list(topics)))
    # confluent-kafka writes ids in plain base64; Kafka's own alphabet has - and _ for + and /.
    kafkas = str.maketrans("+/", "-_")
    ids = {name: str(found.result(timeout=30).topic_id) for name, found in requested.items()}
    return {name: topic_id.translate(kafkas) for name, topic_id in ids.items()}


def log_start_offsets(bootstrap: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    return _offsets(bootstrap, topics, OffsetSpec.earliest())


def share_consumer(
    bootstrap: str, group: str, topics: Sequence[str], **config: str | int
) -> ShareConsumer:
    """Make a share consumer with explicit acknowledgement, subscribed to the topics."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "log_level": 3,  # errors only: each consumer warns that this client is a preview
    }
    consumer = ShareConsumer(settings | config)
    consumer.subscribe(list(topics))
    return consumer


def poll_some(consumer: ShareConsumer, count: int = 1) -> list[Message]:
    """Poll until a share consumer has so many records at least."""
    found: list[Message] = []

    def has_enough() -> bool:
        found.extend(consumer.poll(0.5))
        return len(found) >= count

    wait_until(has_enough, f"{count} records are delivered")
    return found


def accept(_: Message) -> AcknowledgeType:
    """Decide in the simplest way."""
    return AcknowledgeType.ACCEPT


def release_at_first(message: Message) -> AcknowledgeType:
    """Give every fourth record back at its first delivery, and accept all others."""
    again = (message.offset() or 0) % 4 == 1 and message.delivery_count() == 1
    return AcknowledgeType.RELEASE if again else AcknowledgeType.ACCEPT


def share_consume(
    bootstrap: str,
    group: str,
    topics: Sequence[str],
    decide: Decide,
    *,
    until: int | Callable[[list[Delivery]], bool],
    timeout: float = 200,
    wait_for_locks: Callable[[list[Delivery]], None] | None = None,
    config: Mapping[str, str | int] | None = None,
) -> list[Delivery]:
    """Consume as a member of a share group, acknowledging each record as decided.

    ``decide``: called with each delivered record. ``None`` leaves the record alone until
    ``wait_for_locks`` returns, with the consumer alive: were it closed earlier, its records would
    be released at once. ``until``: number of deliveries to stop at, or a function of the deliveries
    so far. Looked at after each poll, of which every record is decided: so there can be more.
    ``timeout``: seconds until the end has to be reached. ``wait_for_locks``: returns when the locks
    of the given deliveries have ended; needed when ``decide`` may return ``None``.
    """
    deliveries: list[Delivery] = []

    def reached() -> bool:
        return len(deliveries) >= until if isinstance(until, int) else until(deliveries)

    deadline = time.monotonic() + timeout
    while not reached():
        consumer = share_consumer(bootstrap, group, topics, **(config or {}))
        try:
            while not reached():
                if time.monotonic() > deadline:
                    raise RigError(
                        f"group {group}: not done after {timeout:g} s "
                        f"and {len(deliveries)} deliveries"
                    )
                held = _poll(consumer, decide, deliveries)
                if held:
                    if wait_for_locks is None:
                        raise ValueError(
                            "decide() left records alone, "
                            "but nothing says when their locks have ended"
                        )
                    wait_for_locks(held)
                    # a consumer with undecided records cannot poll again: the next one goes on
                    break
        finally:
            consumer.close()
    return deliveries


def some_of_each(count: int, partitions: int) -> Callable[[list[Delivery]], bool]:
    """Return when a consumer has enough: so many deliveries, and some of each share partition.

    With several leaders a consumer may have all records of some partitions before the first of
    another, whose state says nothing until then.
    """

    def enough(sofar: list[Delivery]) -> bool:
        return len(sofar) >= count and len({(o.topic, o.partition) for o in sofar}) == partitions

    return enough


def wait_until(
    condition: Callable[[], bool], what: str, timeout: float = 200, every: float = 0.1
) -> None:
    """Ask until the condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise RigError(f"waited {timeout:g} s in vain until {what}")
        time.sleep(every)


def _poll(consumer: ShareConsumer, decide: Decide, deliveries: list[Delivery]) -> list[Delivery]:
    """Poll, decide and commit; return the deliveries that were left alone."""
    held: list[Delivery] = []
    for message in consumer.poll(0.5):
        if message.error() is not None:
            raise KafkaException(message.error())
        decision = decide(message)
        delivery = delivery_of(message, decision)
        deliveries.append(delivery)
        if decision is None:
            held.append(delivery)
        else:
            consumer.acknowledge(message, decision)
    for place, error in consumer.commit_sync(30.0).items():
        if error is not None:
            raise RigError(f"acknowledgements of {place} were refused: {error}")
    return held


def delivery_of(message: Message, decision: AcknowledgeType | None) -> Delivery:
    """Note a delivered message together with what was decided about it."""
    topic, partition = message.topic(), message.partition()
    offset, count = message.offset(), message.delivery_count()
    if topic is None or partition is None or offset is None or count is None:
        raise RigError(
            f"a delivered record without its place: {topic} {partition} {offset}, delivery {count}"
        )
    return Delivery(topic, partition, offset, count, decision)


def _admin(bootstrap: str) -> AdminClient:
    # Errors only: it notes its own end. Whoever asks has to keep it until the answer is there.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def _set_config(bootstrap: str, kind: ResourceType, name: str, settings: Mapping[str, str]) -> None:
    wanted = {key.replace("_", "."): value for key, value in settings.items()}
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in wanted.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = _admin(bootstrap)  # kept: what it was asked dies with it
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(timeout=30)

    # The controller has them; a group that starts before the broker has them takes the defaults.
    def in_force() -> bool:
        (described,) = admin.describe_configs([ConfigResource(kind, name)]).values()
        found = described.result(timeout=30)
        return all(key in found and found[key].value == wanted[key] for key in wanted)

    wait_until(in_force, f"the settings of {name} are in force")


def _leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    found = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return {number: one.leader for number, one in found.items()}


def _offsets(bootstrap: str, topics: Sequence[str], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    admin = _admin(bootstrap)
    wanted = {
        TopicPartition(name, partition): spec
        for name in topics
        for partition in admin.list_topics(name, timeout=10).topics[name].partitions
    }
    requested = admin.list_offsets(wanted)
    return {(at.topic, at.partition): f.result(timeout=30).offset for at, f in requested.items()}


def read_in_part(
    servers: str,
    group: str,
    topic: str,
    *,
    partitions: int = 1,
    read: int,
    left: int = 0,
    copies: int = 1,
    batch: int = 10_000,
    **settings: str,
) -> None:
    """Make a topic that a share group has read but for the last records of partition 0."""
    create_topics(servers, {topic: partitions}, copies=copies)
    produce(servers, topic, numbered(read, partitions), batch=batch)
    set_group_config(servers, group, share_auto_offset_reset="earliest", **settings)
    share_consume(servers, group, [topic], accept, until=read)
    produce(servers, topic, numbered(left, 1))


def delete_below(servers: str, topic: str, offsets: Mapping[int, int]) -> None:
    admin = _admin(servers)
    below = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    for done in admin.delete_records(below).values():
        done.result(timeout=30)
