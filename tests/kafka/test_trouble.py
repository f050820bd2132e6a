"""Three secured brokers in trouble while sharelag captures, follows, watches, checks and exports."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable

from sharelag.sources.files.archive import ArchiveInput
from sharelag.wire.fields import STATE_TOPIC
from tests.support.command import sharelag, sharelag_process
from tests.support.kafka.broker import parse_describe
from tests.support.kafka.bystanders import SCRAPE, Bystander, Exporter, Watcher
from tests.support.kafka.cluster import KafkaCluster, frozen
from tests.support.kafka.jars import EARLIER_VERSION, KAFKA_VERSION
from tests.support.kafka.troubled import (
    KNOWN,
    SESSION,
    Asker,
    Busy,
    leads,
    troubled,
)
from tests.support.kafka.workload import (
    accept,
    create_topics,
    end_offsets,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.reliability import Inject

#: Seconds after which a command that outlasts its timeout hangs, and what it takes undisturbed, so
#: often: on a busy machine everything takes longer.
HANGS, SO_OFTEN = 8.0, 3
#: Requests a second, of those that all commands send undisturbed, which would be a storm.
STORM = 3
Record = tuple[int, int, bytes | None, bytes | None]


def in_topic(servers: str) -> set[Record]:
    """Return every record of the state topic, as a plain client reads them."""
    ends = {p: end for (_, p), end in end_offsets(servers, [STATE_TOPIC]).items()}
    settings = {"bootstrap.servers": servers, "group.id": "plain", "enable.auto.commit": False}
    reader = Consumer(settings)
    reader.assign([TopicPartition(STATE_TOPIC, p, OFFSET_BEGINNING) for p in ends])
    found: set[Record] = set()
    begun = time.monotonic()
    try:
        while any(
            at.offset < ends[at.partition]
            for at in reader.position(
                [TopicPartition(STATE_TOPIC, p) for p, n in ends.items() if n]
            )
        ):
            assert time.monotonic() - begun < 120
            for one in reader.consume(1000, timeout=0.5):
                assert one.error() is None
                found.add((one.partition() or 0, one.offset() or 0, one.key(), one.value()))
    finally:
        reader.close()
    return {one for one in found if one[1] < ends[one[0]]}


def in_archive(folder: Path) -> list[Record]:
    """Return every record of the state topic that an archive has."""
    table = pa.Table.from_batches(ArchiveInput(folder).batches(STATE_TOPIC))
    columns = [table.column(name).to_pylist() for name in ("partition", "offset", "key", "value")]
    return list(zip(*columns, strict=True))


def lags_of(text: str) -> dict[tuple[str, str, int], int | None]:
    rows = [json.loads(line) for line in text.splitlines()]
    return {(row["group_id"], row["topic"], row["partition"]): row["lag"] for row in rows}


def kept_in(folder: Path) -> dict[tuple[str, str, int], int | None]:
    """Return the lags of the Delta table that `capture --follow --lag-to` keeps."""
    columns = ["group_id", "topic", "partition", "lag"]
    rows = DeltaTable(str(folder / "lag")).to_pyarrow_table(columns=columns).to_pylist()
    return {(row["group_id"], row["topic"], row["partition"]): row["lag"] for row in rows}


def kafkas(cluster: KafkaCluster) -> dict[tuple[str, str, int], int | None]:
    """Return the lags that Kafka's own command shows."""
    rows = parse_describe(cluster.brokers[0].share_groups_describe())
    return {(row["group"], row["topic"], row["partition"]): row["lag"] for row in rows}


def told(asker: Asker) -> dict[tuple[str, str, int], int | None]:
    answer = sharelag("lag", *asker.options, "-o", "json", "--timeout", "30000")
    assert answer.returncode == 0, answer.stderr
    return lags_of(answer.stdout)


class Story:
    """Faults one after another, each with what came of it, while everything goes on.

    Parameters
    ----------
    cluster, folder
        As of `tests.support.kafka.troubled`.
    injected
        Where it is written down.
    keeps_tables
        Whether the follower also keeps windows and lag in Delta tables.
    """

    def __init__(
        self, cluster: KafkaCluster, folder: Path, injected: Inject, keeps_tables: bool = False
    ) -> None:
        self.cluster, self.injected = cluster, injected
        self.asker = Asker(cluster, folder)
        options = self.asker.options
        self.archive = folder / "archive"
        self.tables = folder / "tables"
        follow = ["capture", "--follow", "--every", "1s", str(self.archive), *options]
        if keeps_tables:
            follow += ["--lag-to", str(self.tables)]
        self.follower = Bystander(follow, folder / "follow.txt")
        self.exporter = Exporter(options, folder, KNOWN)
        self.watcher = Watcher(options, folder, KNOWN)
        self.wrong: list[str] = []
        self.calm = 0.0  # requests a second

    def be_calm(self) -> None:
        """Learn how many requests all commands send while nothing is wrong."""
        before, begun = self.asker.requests(), time.monotonic()
        self.look()
        assert self.asker.ask_one() == "whole answers"
        sent = (self.asker.requests() - before).total()
        self.calm = sent / (time.monotonic() - begun)

    def look(self) -> None:
        """Ask everybody once."""
        self.asker.ask()
        self.exporter.scrape()
        self.follower.look()
        self.watcher.look()

    def tell(self, fault: str, inject: Callable[[], object], times: int = 1) -> None:
        """Inject a fault, and ask until answers are whole again."""
        asker, exporter = self.asker, self.exporter
        for counted in (asker.happened, exporter.happened):
            counted.clear()
        asker.most_over, before = 0.0, asker.requests()
        begun = time.monotonic()
        inject()
        for _ in range(20):
            self.look()
            asked = asker.ask_one()
            if asked == "whole answers":
                break
        else:
            raise AssertionError(f"no whole answer after: {fault}")
        healed = time.monotonic() - begun
        sent = asker.requests() - before
        requests = sent.total() / healed
        self.injected(
            "brokers",
            fault,
            times,
            asker.happened + exporter.happened,
            wrong=len(asker.wrong) + len(exporter.wrong) - len(self.wrong),
            measured={
                "seconds after the timeout": max(asker.most_over, 0.0),
                "requests a second by all commands": round(requests),
            },
        )
        self.wrong = [*asker.wrong, *exporter.wrong]
        print(f"{fault}: {dict(asker.happened)}, whole after {healed:.0f} s")
        assert not self.wrong, self.wrong[0]
        # One broker at least was there all the time.
        assert not asker.happened["errors that no broker answered"], fault
        assert asker.most_over < HANGS + SO_OFTEN * max(asker.alone.values()), fault
        assert requests < STORM * self.calm, (self.calm, sent)

    def kill(self, number: int) -> None:
        """Kill a broker, ask while its partitions have no leader and then another one; start it."""
        broker = self.cluster.brokers[number - 1]
        broker.kill()
        self.ask_for(2 * SESSION)
        broker.start()
        self.cluster.wait_until_whole()

    def stop(self, number: int) -> None:
        """Stop a broker's process for 20 s, and let it go on."""
        with frozen(self.cluster.brokers[number - 1]):
            self.ask_for(20)

    def restart_all(self) -> None:
        """Restart the brokers one after another, as an upgrade does."""
        for broker in self.cluster.brokers:
            broker.stop()
            self.look()
            broker.start()
            self.cluster.wait_until_whole()
            self.look()

    def lose_min_isr(self) -> None:
        """Leave one broker of three: nothing can be written, and no leader elected."""
        first, second = self.cluster.brokers[:2]
        first.kill()
        second.kill()
        self.ask_for(20)
        self.cluster.start([first, second])

    def move_leaders(self) -> None:
        """Let the first replica of each partition lead it again, as Kafka's own command does."""
        before = leads(self.cluster)
        where = ("--bootstrap-server", self.cluster.bootstrap_servers)
        done = self.cluster.brokers[0].run_tool(
            "org.apache.kafka.tools.LeaderElectionCommand",
            *(*where, "--election-type", "preferred", "--all-topic-partitions"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert leads(self.cluster) != before

    def ask_for(self, seconds: float) -> None:
        """Ask again and again for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.look()


def judged_archive(story: Story) -> tuple[int, int]:
    """Return how many records an archive has lost, and how many it has wrong or twice.

    Brokers write snapshots of idle share partitions at any time: what is there before the archive
    catches up must be in it, and what is in it must be there afterwards.
    """
    story.follower.kill()
    expected = in_topic(story.cluster.bootstrap_servers)
    assert len(expected) > 50
    caught_up = ("capture", "--follow", "--until-now", *story.asker.options, str(story.archive))
    done = sharelag_process(*caught_up)
    assert done.returncode == 0, done.stderr[-3000:]
    kept = in_archive(story.archive)
    there = expected | in_topic(story.cluster.bootstrap_servers)
    return len(expected - set(kept)), len(kept) - len(there & set(kept))


@pytest.mark.exhaustive
def test_brokers_go_and_come_back(tmp_path: Path, injected: Inject) -> None:
    with troubled(tmp_path) as cluster, Busy(cluster.bootstrap_servers) as busy:
        story = Story(cluster, tmp_path, injected, keeps_tables=True)
        story.asker.begin()
        with story.follower, story.exporter, story.watcher:
            wait_until(lambda: "up to date" in story.follower.text(), "it follows", 600)
            story.be_calm()
            for number in (1, 2, 3):
                story.tell("a broker is killed (kill -9)", partial(story.kill, number))
            for number in (1, 2, 3):
                story.tell("a broker is stopped for 20 s (SIGSTOP)", partial(story.stop, number))
            story.tell("leaders move", story.move_leaders)
            story.tell("all brokers are restarted, one by one", story.restart_all)
            story.tell("two of three brokers are killed: no min ISR", story.lose_min_isr)
            assert busy.finished > 500
            busy.pause()
            wait_until(
                lambda: told(story.asker) == kafkas(cluster), "nothing arrives any more", every=1
            )
            wait_until(lambda: kept_in(story.tables) == kafkas(cluster), "tables as well", every=1)
            lines, wrong = story.watcher.judged()
            lost, twice = judged_archive(story)
            happened = Counter(
                {
                    "lines of lag --watch": lines,
                    "ends of capture --follow": len(story.follower.ends),
                    "ends of lag --watch": len(story.watcher.ends),
                }
            )
            said = story.follower.text()
            assert f"archiving into {story.archive} again" in said
            assert not re.search(
                r"^\s+at |\bERROR\b|\bTraceback\b|sharelag\.errors", said, re.MULTILINE
            ), said
            injected(
                "processes",
                "commands that go on for long, through all of these",
                3,
                happened,
                lost=lost,
                wrong=len(wrong) + twice,
                measured={"seconds for a scrape": story.exporter.slowest},
            )
            assert (lost, twice, wrong) == (0, 0, [])
            assert story.exporter.slowest < SCRAPE
            assert story.follower.ends == []
            assert story.watcher.ends == []


def agreed(story: Story, what: str) -> None:
    """Wait until sharelag and Kafka's command show the same lags, and no others."""
    wait_until(lambda: told(story.asker) == kafkas(story.cluster), f"both agree: {what}", every=1)


def windows_of(*arguments: str) -> dict[tuple[str, str, int], tuple[int, int, str]]:
    answer = sharelag("windows", "-o", "json", *arguments)
    assert answer.returncode == 0, answer.stderr
    return {
        (row["group_id"], row["topic_id"], row["partition"]): (
            row["state_epoch"],
            row["start_offset"],
            str(row["batches"]),
        )
        for row in map(json.loads, answer.stdout.splitlines())
    }


@pytest.mark.exhaustive
def test_topics_and_groups_change_while_they_are_followed(tmp_path: Path, injected: Inject) -> None:
    with troubled(tmp_path) as cluster:
        servers, story = cluster.bootstrap_servers, Story(cluster, tmp_path, injected)
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        commands = cluster.brokers[0].share_groups
        where = ("--group", "moved")

        def read(count: int) -> None:
            produce(servers, "moved", numbered(count, count_of("moved")))
            share_consume(servers, "moved", ["moved"], accept, until=count)
            produce(servers, "moved", numbered(2 * count_of("moved"), count_of("moved"), "left"))

        def count_of(topic: str) -> int:
            # The number that was there before it was created again may be none for a moment.
            found: dict[int, object] = {}

            def is_known() -> bool:
                found.update(admin.list_topics(topic, timeout=10).topics[topic].partitions)
                return bool(found)

            wait_until(is_known, "the topic is known")
            return len(found)

        def add_partitions() -> None:
            admin.create_partitions([NewPartitions("moved", 5)])["moved"].result(timeout=30)
            wait_until(lambda: count_of("moved") == 5, "the topic has five partitions")
            produce(servers, "moved", numbered(50, 5))
            share_consume(
                *(servers, "moved", ["moved"], accept),
                until=lambda found: {one.partition for one in found} == set(range(5)),
            )

        def reset() -> None:
            commands("--reset-offsets", *where, "--topic", "moved", "--to-earliest", "--execute")

        def recreate() -> None:
            admin.delete_topics(["moved"])["moved"].result(timeout=30)
            wait_until(lambda: "moved" not in admin.list_topics(timeout=10).topics, "it is gone")
            create_topics(servers, {"moved": 2}, copies=3)
            read(20)

        def delete_group() -> None:
            commands("--delete", *where)

        with story.follower:
            wait_until(lambda: "archiving into" in story.follower.text(), "it follows")
            for round_ in range(2):
                if not round_:
                    create_topics(servers, {"moved": 2}, copies=3)
                set_group_config(servers, "moved", **{"share.auto.offset.reset": "earliest"})
                read(20)
                agreed(story, "a group has read")
                for fault, change in (
                    ("partitions are added to a topic", add_partitions),
                    ("offsets of a group are reset", reset),
                    ("a topic is deleted and created again", recreate),
                    ("a group is deleted", delete_group),
                ):
                    change()
                    agreed(story, fault)
                    injected("brokers", fault, 1, {"answers like Kafka's": 1})
            assert "moved" not in {group for group, *_ in told(story.asker)}
            lost, twice = judged_archive(story)
        injected("processes", "capture --follow through these changes", 1, lost=lost, wrong=twice)
        assert (lost, twice) == (0, 0)
        live = windows_of(*story.asker.options)
        assert windows_of("--capture", str(story.archive)) == live
        assert {partition for group, _, partition in live if group == "still"} == set(KNOWN)


@pytest.mark.exhaustive
def test_an_upgrade_keeps_every_answer(tmp_path: Path, injected: Inject) -> None:
    with (
        troubled(tmp_path, version=EARLIER_VERSION) as cluster,
        Busy(cluster.bootstrap_servers) as busy,
    ):
        story = Story(cluster, tmp_path, injected)
        story.asker.begin()
        with story.follower, story.exporter, story.watcher:
            wait_until(lambda: "archiving into" in story.follower.text(), "it follows")
            story.be_calm()

            def upgrade() -> None:
                for broker in cluster.brokers:
                    broker.upgrade(KAFKA_VERSION)
                    cluster.wait_until_whole()
                    story.look()

            story.tell(f"Kafka is upgraded from {EARLIER_VERSION} to {KAFKA_VERSION}", upgrade, 3)
            busy.pause()
            agreed(story, "upgraded")
            lost, twice = judged_archive(story)
        injected("processes", "capture --follow through an upgrade", 1, lost=lost, wrong=twice)
        assert (lost, twice) == (0, 0)
        live = windows_of(*story.asker.options)
        assert windows_of("--capture", str(story.archive)) == live
