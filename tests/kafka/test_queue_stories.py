"""What three live brokers of Kafka 4.4.0 write to dead-letter queues is what `sharelag dlq` says.

Each story knows what its consumers gave up. The letters are read from the queue by a plain consumer,
and the ledger has each of them once, missing or twice as they are there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import sharelag
from sharelag.metrics.dead_letter_ledger import EITHER, LIMIT, REJECTED
from sharelag.model import DeliveryState
from tests.support.command import sharelag as command
from tests.support.dead_letters import EXCEEDED
from tests.support.dead_letters import REJECTED as SAID_REJECTED
from tests.support.kafka.access import rule, set_rules, settings_file
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import share_holders
from tests.support.kafka.workload import (
    Decide,
    Delivery,
    accept,
    create_topics,
    end_offsets,
    numbered,
    produce,
    set_group_config,
    share_consume,
    start_transaction,
    wait_until,
)

ENABLED = {"errors.deadletterqueue.group.enable": "true"}
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
#: What a letter says, as the ledger calls it.
REASONS = {SAID_REJECTED: REJECTED, EXCEEDED: LIMIT}
Place = tuple[int, int]  # a partition of the source topic, and an offset


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers of which each may be away; users come without a password, or as alice."""
    settings = {
        "auto.leader.rebalance.enable": "false",  # leaders move when a test says so
        "broker.session.timeout.ms": "6000",  # until a broker that was killed leads no more
        # What archived an offset stays, however long a story takes.
        "share.coordinator.state.topic.prune.interval.ms": "3600000",
    }
    with KafkaCluster(
        properties=settings, all_control=True, secure=True, version="4.4.0"
    ) as running:
        yield running


class Story:
    """A group with a topic and a queue."""

    def __init__(self, servers: str, name: str, queue: str = "", **settings: str) -> None:
        self.servers, self.group, self.topic = servers, name, f"of-{name}"
        self.queue = queue or f"dlq.{name}"
        given = {f"errors.deadletterqueue.{key}": value for key, value in settings.items()}
        self.settings = given | {"errors.deadletterqueue.topic.name": self.queue}

    def begin(self, partitions: int = 2, queues: int = 2, **group: str) -> Story:
        """Create both topics, and set the group up; ``group`` has underscores for dots."""
        create_topics(self.servers, {self.topic: partitions}, copies=3)
        if queues:
            create_topics(self.servers, {self.queue: queues}, ENABLED, copies=3)
        first = {"share.auto.offset.reset": "earliest"}
        set_group_config(self.servers, self.group, **first, **self.settings, **group)
        return self

    def consume(self, decide: Decide, until: int, **more: Any) -> list[Delivery]:
        return share_consume(self.servers, self.group, [self.topic], decide, until=until, **more)

    def letters(self) -> dict[Place, list[str | None]]:
        """What the letters of the group in the queue say, read by a plain consumer."""
        ends = end_offsets(self.servers, [self.queue])
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": "reader-of-letters"})
        reader.assign([TopicPartition(*place, 0) for place in ends])
        left, found = sum(ends.values()), dict[Place, list[str | None]]()
        try:
            while left:
                for message in reader.consume(left, 10):
                    left -= 1
                    told = {name: value.decode() for name, value in message.headers() or ()}
                    prefix = "__dlq.errors."
                    if told[f"{prefix}group"] != self.group:
                        continue
                    assert told[f"{prefix}topic"] == self.topic
                    place = int(told[f"{prefix}partition"]), int(told[f"{prefix}offset"])
                    found.setdefault(place, []).append(told.get(f"{prefix}message"))
        finally:
            reader.close()
        return found

    def rows(self, *options: str) -> list[dict[str, Any]]:
        done = self.dlq(*options, "-o", "json")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def dlq(self, *options: str) -> Any:
        at = ("--bootstrap-server", self.servers, "--group", self.group)
        done = command("dlq", *at, *options)
        assert done.returncode == 0, done.stderr
        return done

    def ledger(self, *options: str) -> dict[Place, tuple[str, str]]:
        """Status and reason of each offset."""
        return {
            place: (row["status"], row["reason"])
            for row in self.rows(*options)
            for place in places(row)
        }

    def wait(self, wanted: dict[Place, tuple[str, str]], timeout: float = 60) -> None:
        try:
            wait_until(lambda: self.ledger() == wanted, "the ledger has what was given up", timeout)
        except RigError:
            assert self.ledger() == wanted
            raise

    def windows(self) -> list[dict[str, Any]]:
        """The window of each share partition, as the state topic has it."""
        with sharelag.open(self.servers, engine="local", groups=self.group) as bench:
            rows: list[dict[str, Any]] = bench.reading.table("windows").to_pylist()
        return rows

    def persisted(self) -> dict[Place, tuple[int, int]]:
        """State and delivery count of the offsets in the windows."""
        return {
            (row["partition"], offset): (batch["delivery_state"], batch["delivery_count"])
            for row in self.windows()
            for batch in row["batches"]
            for offset in range(batch["first_offset"], batch["last_offset"] + 1)
        }

    def wait_for_locks(self, held: list[Delivery]) -> None:
        """Wait until the locks of these deliveries have ended, by what their leader writes."""

        def have_ended() -> bool:
            start = {row["partition"]: row["start_offset"] for row in self.windows()}
            known = self.persisted()
            return all(
                one.offset < (start[one.partition] or 0)  # not known before the first lock ends
                or known.get((one.partition, one.offset), (0, 0))[1] >= one.delivery_count
                for one in held
            )

        wait_until(have_ended, f"{len(held)} locks of {self.group} have ended", 60)


def places(row: dict[str, Any]) -> list[Place]:
    offsets = range(row["first_offset"], row["last_offset"] + 1)
    return [(row["partition"], offset) for offset in offsets]


def assert_alike(story: Story, given_up: dict[Place, str], *options: str) -> None:
    """Letters, ledger and plan have each offset that was given up, once, for its reason."""
    story.wait({place: ("written", reason) for place, reason in given_up.items()})
    letters = story.letters()
    assert {
        place: [REASONS[said or ""] for said in all_said] for place, all_said in letters.items()
    } == {place: [reason] for place, reason in given_up.items()}
    sums = Counter(given_up.values())
    said = ", ".join(f"{reason} {sums[reason]}" for reason in sorted(sums))
    assert f"{sum(sums.values())} written ({said})" in story.dlq().stderr
    assert planned(story) == sorted(given_up)


def planned(story: Story, *options: str) -> list[Place]:
    """The offsets that the commands of the plan read, in order."""
    found: list[Place] = []
    for row in story.rows("--redrive", *options):
        read = re.search(r"--partition (\d+) --offset (\d+) --max-messages (\d+) ", row["command"])
        assert read is not None
        partition, begin, count = map(int, read.groups())
        assert f"--topic {story.topic} " in row["command"].partition(" | ")[0]
        found += [(partition, offset) for offset in range(begin, begin + count)]
    return sorted(found)


def test_what_is_rejected_and_what_fails_too_often(cluster: KafkaCluster) -> None:
    """Two fates lead to letters, and a record that fails once does not."""
    servers = cluster.bootstrap_servers
    story = Story(servers, "fates").begin(share_delivery_count_limit="2")
    produce(servers, story.topic, numbered(40, 2), batch=1)
    fates = {0: REJECT, 3: RELEASE, 4: RELEASE}

    def decide(message: Message) -> AcknowledgeType:
        fate = fates.get((message.offset() or 0) % 10, ACCEPT)
        if (message.offset() or 0) % 10 == 4 and message.delivery_count() == 2:
            return ACCEPT
        return fate

    story.consume(decide, until=40 + 8)
    reasons = {0: REJECTED, 3: LIMIT}
    given_up = {
        (partition, offset): reasons[offset % 10]
        for partition in range(2)
        for offset in range(20)
        if offset % 10 in reasons
    }
    assert_alike(story, given_up)
    # Those at the limit have no copies: they could be of markers, as far as anybody knows.
    assert "which letters without key and value belong to markers" in story.dlq().stderr


def of_transactions(story: Story, count: int, each: int) -> set[Place]:
    """Produce so many transactions of so many records to one partition; where their markers are."""
    for number in range(count):
        name = f"{story.group}-{number}"
        records = [(0, None, b"record")] * each
        start_transaction(story.servers, name, story.topic, records).commit_transaction(60)
    return {(0, each + number * (each + 1)) for number in range(count)}


def test_locks_that_expire_and_markers_of_transactions(cluster: KafkaCluster) -> None:
    """Nobody answers twice: all records become letters, and so do the markers between them."""
    story = Story(cluster.bootstrap_servers, "expired", **{"copy.record.enable": "true"})
    story.begin(1, 1, share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
    markers = of_transactions(story, 4, 3)
    every = {(0, offset) for offset in range(16)}
    with share_holders() as members:
        for count in (1, 2):
            member = {"member": f"hangs-{count}"}
            asked = {"bootstrap": story.servers, "group": story.group, "topic": story.topic}
            members.ask({"do": "open", **member, **asked, "config": {}})
            held: list[Delivery] = []
            while len(held) < len(every - markers):
                polled = members.ask({"do": "poll", **member, "ms": 500})
                held += [Delivery._make((story.topic, *given, None)) for given in polled["records"]]
            assert {one.delivery_count for one in held} == {count}
            story.wait_for_locks(held)
            members.ask({"do": "close", **member})
    story.wait(
        dict.fromkeys(every - markers, ("written", LIMIT))
        | dict.fromkeys(markers, ("marker", LIMIT))
    )
    assert story.letters() == {at: [EXCEEDED] for at in every}
    assert planned(story) == sorted(every - markers)
    assert "which letters without key and value" not in story.dlq().stderr


def test_markers_that_clients_acknowledge_as_gaps(cluster: KafkaCluster) -> None:
    """They are archived without a letter, which nothing tells from a letter that is missing."""
    story = Story(cluster.bootstrap_servers, "gaps").begin(1, 1)
    markers = of_transactions(story, 2, 3)
    records = {(0, offset) for offset in range(8)} - markers
    story.consume(lambda _: REJECT, until=len(records))
    story.wait(
        dict.fromkeys(records, ("written", REJECTED)) | dict.fromkeys(markers, ("missing", EITHER))
    )
    assert story.letters() == {at: [SAID_REJECTED] for at in records}
    assert "was rejected, or was a gap" in story.dlq().stderr
    assert planned(story, "--status", "written") == sorted(records)
    beyond = "reads as many records after the run"
    assert beyond in story.dlq("--redrive").stderr
    # Nobody rejects a marker.
    assert "which letters without key and value" not in story.dlq().stderr
    assert beyond not in story.dlq("--redrive", "--status", "written").stderr


def test_groups_that_share_a_queue(cluster: KafkaCluster) -> None:
    """Each group has its own letters, and a look at all groups has both."""
    servers = cluster.bootstrap_servers
    one, two = (Story(servers, name, "dlq.shared") for name in ("sharing", "sharing-too"))
    two.topic = one.topic
    one.begin()
    set_group_config(servers, two.group, **{"share.auto.offset.reset": "earliest"}, **two.settings)
    produce(servers, one.topic, numbered(20, 2), batch=1)
    for story, rejected in ((one, 3), (two, 5)):
        story.consume(
            lambda message, rejected=rejected: (  # type: ignore[misc]
                ACCEPT if (message.offset() or 0) % rejected else REJECT
            ),
            until=20,
        )
    for story, rejected in ((one, 3), (two, 5)):
        mine = {(p, offset): REJECTED for p in range(2) for offset in range(0, 10, rejected)}
        assert_alike(story, mine)
    options = ("--bootstrap-server", servers, "--queue", "dlq.shared", "-o", "json")
    rows = [json.loads(line) for line in command("dlq", *options).stdout.splitlines()]
    counted = Counter(row["group_id"] for row in rows for _ in places(row))
    assert {group: counted[group] for group in (one.group, two.group)} == {
        one.group: 8,
        two.group: 4,
    }


def test_a_queue_that_one_may_not_read(cluster: KafkaCluster, tmp_path: Path) -> None:
    servers, broker = cluster.bootstrap_servers, cluster.brokers[0]
    story = Story(servers, "closed").begin()
    produce(servers, story.topic, numbered(4, 2), batch=1)
    story.consume(lambda message: ACCEPT if message.offset() else REJECT, until=4)
    story.wait({(0, 0): ("written", REJECTED), (1, 0): ("written", REJECTED)})
    config = settings_file(tmp_path, broker.client_config("alice"))
    rights = ["TOPIC __share_group_state READ", f"TOPIC {story.topic} DESCRIBE"]
    rights += [f"GROUP {story.group} DESCRIBE_CONFIGS", f"GROUP {story.group} DESCRIBE"]
    asked = ("--bootstrap-server", broker.secure_bootstrap_servers, "--command-config", config)

    def ask(*more: str) -> Any:
        set_rules(broker, [rule(text) for text in (*rights, *more)])
        return command("dlq", *map(str, asked), "--group", story.group)

    refused = ask()
    assert refused.returncode == 1
    assert story.queue in refused.stderr
    assert "READ" in refused.stderr
    done = ask(f"TOPIC {story.queue} READ", f"TOPIC {story.queue} DESCRIBE")
    assert done.returncode == 0, done.stderr
    assert "2 written (rejected 2)" in done.stderr
    assert "brokers write no letters" not in done.stderr  # nobody may know that


def test_a_queue_that_is_deleted_and_created_again(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    story = Story(servers, "deleted").begin(1, 1)
    produce(servers, story.topic, numbered(3, 1), batch=1)
    story.consume(lambda message: ACCEPT if message.offset() else REJECT, until=3)
    story.wait({(0, 0): ("written", REJECTED)})
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([story.queue])[story.queue].result(30)
    story.wait({(0, 0): ("missing", EITHER)})
    assert f"the topic {story.queue} does not exist" in story.dlq().stderr
    create_topics(servers, {story.queue: 1}, ENABLED, copies=3)
    said = story.dlq().stderr
    assert "1 missing" in said
    assert "or a queue that was deleted, takes them away" in said  # that it was there nothing tells
    assert planned(story) == [(0, 0)]


def test_letters_that_the_queue_keeps_no_longer(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    story = Story(servers, "purged").begin(1, 1)
    produce(servers, story.topic, numbered(6, 1), batch=1)
    story.consume(lambda _: REJECT, until=6)
    story.wait({(0, offset): ("written", REJECTED) for offset in range(6)})
    admin = AdminClient({"bootstrap.servers": servers})
    before = TopicPartition(story.queue, 0, 4)
    admin.delete_records([before])[before].result(30)
    found = story.ledger()
    assert Counter(status for status, _ in found.values()) == {"missing": 4, "written": 2}
    said = story.dlq().stderr
    assert f"{story.queue} has no records before offset 4 of partition 0 any more" in said
    assert planned(story) == [(0, offset) for offset in range(6)]


@pytest.mark.exhaustive
def test_leaders_that_die_while_records_are_archiving(cluster: KafkaCluster) -> None:
    """The queue's only replica is away, and then the leader of the source is killed, too."""
    servers = cluster.bootstrap_servers
    story = Story(servers, "killed").begin(1, 0)
    admin = AdminClient({"bootstrap.servers": servers})
    leader = admin.list_topics(story.topic, timeout=10).topics[story.topic].partitions[0].leader
    keeper = leader % 3 + 1
    placed = NewTopic(story.queue, 1, replica_assignment=[[keeper]], config=ENABLED)
    admin.create_topics([placed])[story.queue].result(30)
    produce(servers, story.topic, numbered(8, 1), batch=1)
    rejected = {(0, offset): REJECTED for offset in (0, 3, 4)}
    alive = cluster.brokers[(leader + 1) % 3]
    cluster.brokers[keeper - 1].kill()
    story.servers = cluster.brokers[leader - 1].bootstrap_servers

    def decide(message: Message) -> AcknowledgeType:
        return REJECT if (0, message.offset()) in rejected else ACCEPT

    story.consume(decide, until=8)
    archiving = (int(DeliveryState.ARCHIVING), 1)
    wait_until(
        lambda: (
            [at for at, state in story.persisted().items() if state == archiving] == list(rejected)
        ),
        "records are archiving",
        30,
    )
    cluster.brokers[leader - 1].kill()
    story.servers = alive.bootstrap_servers
    cluster.start([cluster.brokers[keeper - 1], cluster.brokers[leader - 1]])
    story.servers = servers
    # Its next leader goes on with what was archiving when a member asks for records.
    produce(servers, story.topic, numbered(1, 1), batch=1)
    story.consume(accept, until=1)
    assert_alike(story, rejected)
