"""What three live brokers of Kafka 4.4.0 write to dead-letter queues is what `sharelag dlq` says.

Each story knows what its consumers gave up. The letters are read from the queue by a plain consumer,
and the ledger has each of them once, missing or twice as they are there.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

import sharelag
from sharelag.errors import TopicMissingError
from sharelag.metrics.dead_letters import EITHER, LIMIT, REJECTED
from sharelag.model import DeliveryState
from tests.support.command import ask
from tests.support.command import sharelag as command
from tests.support.dead_letters import EXCEEDED
from tests.support.dead_letters import REJECTED as SAID_REJECTED
from tests.support.kafka.access import java_settings, rule, set_rules, settings_file
from tests.support.kafka.broker import KafkaBroker, KafkaCluster
from tests.support.kafka.jars import kafka_jars
from tests.support.kafka.jvm import RigError, java_command
from tests.support.kafka.oracles import ShareHolders
from tests.support.kafka.workload import (
    Decide,
    Delivery,
    accept,
    create_placed,
    create_topics,
    delete_below,
    end_offsets,
    leaders,
    numbered,
    produce,
    set_group_config,
    set_topic_config,
    share_consume,
    start_transaction,
    wait_until,
)

IS_QUEUE = "errors.deadletterqueue.group.enable"
ENABLED = {IS_QUEUE: "true"}
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
#: What a letter says, as the ledger calls it.
REASONS = {SAID_REJECTED: REJECTED, EXCEEDED: LIMIT}
#: In each record: commands that print no payloads do not show it.
SECRET = "4111-1111"
Place = tuple[int, int]  # a partition of the source topic, and an offset


class Story:
    """A group with a topic and a queue, on three brokers or on one."""

    def __init__(self, servers: str, name: str, queue: str = "", **settings: str) -> None:
        self.servers, self.group, self.topic = servers, name, f"of-{name}"
        self.queue = queue or f"dlq.{name}"
        given = {f"errors.deadletterqueue.{key}": value for key, value in settings.items()}
        self.settings = given | {"errors.deadletterqueue.topic.name": self.queue}

    def begin(self, partitions: int = 2, queues: int = 2, copies: int = 3, **group: str) -> Self:
        """Create both topics, and set the group up; ``group`` has underscores for dots."""
        create_topics(self.servers, {self.topic: partitions}, copies=copies)
        if queues:
            create_topics(self.servers, {self.queue: queues}, ENABLED, copies=copies)
        first = {"share.auto.offset.reset": "earliest"}
        set_group_config(self.servers, self.group, **first, **self.settings, **group)
        return self

    def consume(self, decide: Decide, until: int, **more: Any) -> list[Delivery]:
        return share_consume(self.servers, self.group, [self.topic], decide, until=until, **more)

    def letters(self) -> dict[Place, list[str | None]]:
        """Return the letters of the group in the queue, read by a plain consumer."""
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
        return ask("dlq --group", self.group, *options, at=self.servers)

    def dlq(self, *options: str) -> Any:
        at = ("--bootstrap-server", self.servers, "--group", self.group)
        return command("dlq", *at, *options, code=0)

    def ledger(self, *options: str) -> dict[Place, tuple[str, str]]:
        """Status and reason of each offset."""
        return {at: (r["status"], r["reason"]) for r in self.rows(*options) for at in places(r)}

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


@pytest.mark.exhaustive  # rejected alone: `dlq` of `test_every_command.py`
def test_what_is_rejected_and_what_fails_too_often(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Two fates lead to letters, and a record that fails once does not.

    Another group shares topic and queue: each has its own letters, and a look at both has all.
    """
    servers = cluster.bootstrap_servers
    story = Story(servers, "fates").begin(share_delivery_count_limit="2")
    other = Story(servers, "sharing", story.queue)
    other.topic = story.topic
    set_group_config(servers, other.group, share_auto_offset_reset="earliest", **other.settings)
    produce(servers, story.topic, numbered(40, 2, SECRET), batch=1)
    fates = {0: REJECT, 3: RELEASE, 4: RELEASE}

    def decide(message: Message) -> AcknowledgeType:
        fate = fates.get((message.offset() or 0) % 10, ACCEPT)
        if (message.offset() or 0) % 10 == 4 and message.delivery_count() == 2:
            return ACCEPT
        return fate

    story.consume(decide, until=40 + 8)
    reasons = {0: REJECTED, 3: LIMIT}
    given_up = {(p, o): reasons[o % 10] for p in range(2) for o in range(20) if o % 10 in reasons}
    other.consume(lambda message: REJECT if message.offset() in (1, 3) else ACCEPT, until=40)
    assert_alike(story, given_up)
    assert_alike(other, {(p, offset): REJECTED for p in range(2) for offset in (1, 3)})
    rows = ask("dlq --queue", story.queue, at=servers)
    counted = Counter(row["group_id"] for row in rows for _ in places(row))
    assert (counted[story.group], counted[other.group]) == (8, 4)
    # Those at the limit have no copies: they could be of markers, as far as anybody knows.
    done = story.dlq()
    assert "which letters without key and value belong to markers" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    see_a_redrive_by_kafkas_tools(cluster.brokers[0], story, tmp_path / "records")


def see_a_redrive_by_kafkas_tools(broker: KafkaBroker, story: Story, records: Path) -> None:
    """A command of the plan reads just the records of its row from the topic, and sends them."""

    def written() -> int:
        return sum(end_offsets(story.servers, [story.topic]).values())

    before, rows = written(), story.rows("--redrive")
    assert {row["from"] for row in rows} == {"source"}
    assert written() == before  # nothing was sent
    row = rows[0]
    reader, writer = row["command"].split(" | ")
    read = broker.run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *reader.split()[1:])
    lines = [line for line in read.stdout.splitlines() if "\t" in line]
    assert [line.split("\t")[0] for line in lines] == [
        str((row["first_offset"] + n) * 2 + row["partition"]) for n in range(row["offsets"])
    ]
    records.write_text("".join(f"{line}\n" for line in lines))
    producer = "org.apache.kafka.tools.ConsoleProducer"
    with records.open() as given:
        sent = subprocess.run(
            java_command([kafka_jars() / "*"], producer, *writer.split()[1:]),
            stdin=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert sent.returncode == 0, sent.stderr
    assert written() == before + row["offsets"]


def of_transactions(story: Story, count: int, each: int) -> set[Place]:
    """Produce so many transactions of so many records to one partition; where their markers are."""
    for number in range(count):
        name = f"{story.group}-{number}"
        records = [(0, None, b"record")] * each
        start_transaction(story.servers, name, story.topic, records).commit_transaction(60)
    return {(0, each + number * (each + 1)) for number in range(count)}


@pytest.mark.exhaustive
def test_locks_that_expire_and_markers_of_transactions(cluster: KafkaCluster) -> None:
    """Nobody answers twice: all records become letters, and so do the markers between them."""
    story = Story(cluster.bootstrap_servers, "expired", **{"copy.record.enable": "true"})
    story.begin(1, 1, share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
    markers = of_transactions(story, 4, 3)
    every = {(0, offset) for offset in range(16)}
    with ShareHolders() as members:
        for count in (1, 2):
            name = f"hangs-{count}"
            where = {"bootstrap": story.servers, "group": story.group, "topic": story.topic}
            members.do("open", name, **where, config={})
            held: list[Delivery] = []
            while len(held) < len(every - markers):
                held += [Delivery(story.topic, *given, None) for given in members.poll(name)]
            assert {one.delivery_count for one in held} == {count}
            story.wait_for_locks(held)
            members.do("close", name)
    story.wait(
        dict.fromkeys(every - markers, ("written", LIMIT))
        | dict.fromkeys(markers, ("marker", LIMIT))
    )
    assert story.letters() == {at: [EXCEEDED] for at in every}
    assert planned(story) == sorted(every - markers)
    assert "which letters without key and value" not in story.dlq().stderr


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_a_queue_that_one_may_not_read(secured: KafkaBroker, tmp_path: Path) -> None:
    servers = secured.bootstrap_servers
    story = Story(servers, "closed").begin(copies=1)
    produce(servers, story.topic, numbered(4, 2), batch=1)
    story.consume(lambda message: ACCEPT if message.offset() else REJECT, until=4)
    story.wait({(0, 0): ("written", REJECTED), (1, 0): ("written", REJECTED)})
    config = settings_file(tmp_path, java_settings(secured, "alice"))
    rights = ["TOPIC __share_group_state READ", f"TOPIC {story.topic} DESCRIBE"]
    rights += [f"GROUP {story.group} DESCRIBE_CONFIGS", f"GROUP {story.group} DESCRIBE"]

    def said(*more: str) -> Any:
        set_rules(secured, [rule(text) for text in (*rights, *more)])
        return command("dlq", "--command-config", config, "--group", story.group)

    refused = said()
    assert refused.returncode == 1
    assert story.queue in refused.stderr
    assert "READ" in refused.stderr
    done = said(f"TOPIC {story.queue} READ", f"TOPIC {story.queue} DESCRIBE")
    assert done.returncode == 0, done.stderr
    assert "2 written (rejected 2)" in done.stderr
    assert "brokers write no letters" not in done.stderr  # nobody may know that


@pytest.mark.exhaustive
def test_letters_that_a_queue_has_no_longer(cluster: KafkaCluster) -> None:
    """It is purged in part, then deleted, and created again."""
    servers = cluster.bootstrap_servers
    story = Story(servers, "purged").begin(1, 1)
    produce(servers, story.topic, numbered(6, 1), batch=1)
    story.consume(lambda _: REJECT, until=6)
    every = [(0, offset) for offset in range(6)]
    story.wait(dict.fromkeys(every, ("written", REJECTED)))
    delete_below(servers, story.queue, {0: 4})
    assert Counter(status for status, _ in story.ledger().values()) == {"missing": 4, "written": 2}
    said = f"{story.queue} has no records before offset 4 of partition 0 any more"
    assert said in story.dlq().stderr
    assert planned(story) == every
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([story.queue])[story.queue].result(30)
    story.wait(dict.fromkeys(every, ("missing", EITHER)))
    assert f"the topic {story.queue} does not exist" in story.dlq().stderr
    create_topics(servers, {story.queue: 1}, ENABLED, copies=3)
    said = story.dlq().stderr
    assert "6 missing" in said
    assert "or a queue that was deleted, removes them" in said  # that it was there nothing tells
    assert planned(story) == every


@pytest.mark.exhaustive
def test_leaders_that_die_while_records_are_archiving() -> None:
    """The queue's only replica is away, and then the leader of the source is killed, too."""
    settings = {"auto.leader.rebalance.enable": "false", "broker.session.timeout.ms": "6000"}
    settings |= {"share.coordinator.state.topic.prune.interval.ms": "3600000"}
    with KafkaCluster(properties=settings, all_control=True) as cluster:
        see_letters_after_two_deaths(cluster)


def see_letters_after_two_deaths(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    story = Story(servers, "killed").begin(1, 0)
    leader = leaders(servers, story.topic)[0]
    keeper = leader % 3 + 1
    create_placed(servers, story.queue, [[keeper]], ENABLED)
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
        lambda: [at for at, s in story.persisted().items() if s == archiving] == list(rejected),
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


# ---- what brokers write no letters of ------------------------------------------------------------
@pytest.fixture(scope="module")
def unwritten(broker: KafkaBroker) -> Story:
    """A group whose queue is named by its setting, and does not exist."""
    story = Story(broker.bootstrap_servers, "unwritten", **{"copy.record.enable": "true"})
    return story.begin(queues=0, copies=1)


def reject_four(story: Story) -> None:
    """Produce twenty records, of which the group rejects four."""
    produce(story.servers, story.topic, numbered(20, 2))
    story.consume(lambda message: ACCEPT if (message.offset() or 0) % 5 else REJECT, until=20)


def wait_until_they_are(story: Story, **wanted: int) -> None:
    """Wait until the ledger has so many offsets of each status."""

    def are_there() -> bool:
        return Counter(status for status, _ in story.ledger().values()) == wanted

    wait_until(are_there, f"the ledger has {wanted}", timeout=60)


def every_face_says(story: Story, said: str) -> bool:
    """Return whether `explain` and `settings` say it, as commands and in Python: all or none."""
    servers, group = story.servers, story.group
    printed = ask("settings --group", group, at=servers)
    with sharelag.open(servers, engine="local") as bench:
        rows = [*bench.settings(group).table.to_pylist(), *printed]
        explained = command("explain", "--bootstrap-server", servers, "--group", group).stdout
        texts = [bench.explain(group).to_text(), explained]
    problems = [f"{row['problem']}: {row['hint']}" for row in rows if row["problem"]]
    assert len(problems) in (0, 2)
    found = {said in " ".join(text.split()) for text in (*texts, *problems)}
    assert len(found) == 1, (texts, problems)
    return found.pop()


@pytest.mark.exhaustive
def test_letters_that_brokers_do_not_write_and_why(unwritten: Story, tmp_path: Path) -> None:
    servers, group, queue = unwritten.servers, unwritten.group, unwritten.queue
    reject_four(unwritten)
    wait_until_they_are(unwritten, missing=4)
    done = unwritten.dlq()
    assert "4 missing" in done.stderr
    said = f"the topic {queue} does not exist: create it with {IS_QUEUE}=true"
    assert said in done.stderr
    assert every_face_says(unwritten, said)
    command("capture", str(tmp_path / "queues"), "--bootstrap-server", servers, code=0)
    told = command("explain", "--capture", str(tmp_path / "queues"), "--group", group).stdout
    assert said in " ".join(told.split())
    with pytest.raises(TopicMissingError, match=r"no topic 'dlq\.ordres'"):
        sharelag.open(servers, engine="local").dead_letters(group, "dlq.ordres")

    create_topics(servers, {queue: 1})
    reject_four(unwritten)
    wait_until_they_are(unwritten, missing=8)
    said = f"brokers write no letters to {queue}: set its {IS_QUEUE} to true"
    assert said in unwritten.dlq().stderr
    assert every_face_says(unwritten, said)

    set_topic_config(servers, queue, **ENABLED)
    reject_four(unwritten)
    wait_until_they_are(unwritten, missing=8, written=4)
    done = unwritten.dlq()
    assert "brokers write no letters" not in done.stderr
    assert not every_face_says(unwritten, said)
    assert "4 written (rejected 4)" in done.stderr


@pytest.mark.exhaustive
def test_names_that_brokers_accept_and_what_is_said_of_them(unwritten: Story) -> None:
    """Kafka refuses names of its own topics alone; what else does not work is said before."""
    servers, name = unwritten.servers, "errors.deadletterqueue.topic.name"
    wrong = {
        "letters": "letters does not begin with errors.deadletterqueue.topic.name.prefix = dlq.",
        "dlq.no name": "no topic can be called dlq.no name",
        "dlq.other": "the topic dlq.other does not exist",
    }
    create_topics(servers, {"dlq.made": 1}, ENABLED)
    for topic, why in (*wrong.items(), ("dlq.made", None)):
        given = ("--group", "new", "--set", f"{name}={topic}")
        done = command("settings", "--bootstrap-server", servers, *given)
        (row,) = [row for row in ask("settings", *given, at=servers) if row["name"] == name]
        assert (row["problem"] or "").startswith(f"Kafka accepts it, but {why}" if why else "")
        assert bool(row["problem"]) == bool(why)
        assert done.returncode == 0  # Kafka sets them all
        assert ("Kafka's command: " in done.stderr) is (why is None)
        set_group_config(servers, "new", **{name: topic})
        set_group_config(servers, unwritten.group, **{name: topic})
        unwritten.dlq()
    set_group_config(servers, unwritten.group, **{name: unwritten.queue})
    with pytest.raises(KafkaException, match="must not start with '__'"):
        set_group_config(servers, "new", **{name: "__letters"})
    done = command("settings", "--set", f"{name}=__letters", "-o", "json")
    assert "Kafka's own" in done.stdout


@pytest.mark.exhaustive
def test_a_cluster_whose_brokers_are_new_and_its_features_are_not() -> None:
    """An upgrade of brokers leaves the level of the feature, and nobody writes letters then."""
    with KafkaBroker() as broker:
        see_no_letters_at_an_old_level(broker)


def see_no_letters_at_an_old_level(broker: KafkaBroker) -> None:
    story = Story(broker.bootstrap_servers, "upgraded").begin(copies=1)
    broker.ask_tool("FeatureCommand", "downgrade", "--feature", "share.version=1")
    reject_four(story)
    said = "brokers write no letters while share.version is 1: turn them on with"

    def explained() -> str:
        at = ("--bootstrap-server", story.servers, "--group", story.group)
        return " ".join(command("explain", *at).stdout.split())

    wait_until(lambda: said in explained(), "the feature is said", timeout=60)
    done = story.dlq()
    assert "missing" in done.stderr
    assert said in done.stderr
