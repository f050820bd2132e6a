"""Three secured brokers in trouble while sharelag captures, watches, checks and exports."""

import json
import re
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable

from sharelag.wire import STATE_TOPIC
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaCluster, frozen
from tests.support.kafka.bystanders import SCRAPE, Bystander, Exporter, Watcher
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.followed import caught_up
from tests.support.kafka.jars import EARLIER_VERSION, KAFKA_VERSION
from tests.support.kafka.troubled import KNOWN, SESSION, STATE_PARTITIONS, Asker, Busy, troubled
from tests.support.kafka.workload import (
    accept,
    create_topics,
    leaders,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.reliability import Inject

#: Seconds by which one command of a story may outlast its timeout and what it takes undisturbed,
#: and no other by more than the second: now and then a busy machine leaves a broker too little.
HANGS, LATE = 8.0, 2.0
#: Requests a second, of those that all commands send undisturbed, which would be a storm.
STORM = 3
Lags = dict[tuple[str, str, int], int | None]


def lags_of(rows: Iterable[Any]) -> Lags:
    return {(row["group_id"], row["topic"], row["partition"]): row["lag"] for row in rows}


def kept_in(folder: Path) -> Lags:
    """Return the lags of the Delta table that `capture --follow --lag-to` keeps."""
    columns = ["group_id", "topic", "partition", "lag"]
    return lags_of(DeltaTable(str(folder / "lag")).to_pyarrow_table(columns=columns).to_pylist())


def kafkas(cluster: KafkaCluster) -> Lags:
    """Return the lags that Kafka's own command shows."""
    return lags_of(parse_describe(cluster.brokers[0].share_groups_describe()))


def told(asker: Asker) -> Lags:
    answer = sharelag("lag", *asker.options, "-o", "json", "--timeout", "30000", code=0)
    return lags_of(map(json.loads, answer.stdout.splitlines()))


class Story:
    """Faults one after another, each with what came of it, while everything goes on.

    ``cluster``, ``folder``: as of `tests.support.kafka.troubled`. ``injected``: where it is written
    down. ``keeps_tables``: whether the follower also keeps windows and lag in Delta tables.
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
        self._begins = "up to date" if keeps_tables else "archiving into"
        if keeps_tables:
            follow += ["--lag-to", str(self.tables)]
        self.follower = Bystander(follow, folder / "follow.txt")
        self.exporter = Exporter(options, folder, KNOWN)
        self.watcher = Watcher(options, folder, KNOWN, STATE_PARTITIONS)
        self.bystanders = (self.follower, self.exporter, self.watcher)
        self.wrong: list[str] = []
        self.calm = 0.0  # requests a second

    def __enter__(self) -> Self:
        """Let everybody begin, and learn what each does while nothing is wrong."""
        with ExitStack() as ends:
            for one in self.bystanders:
                ends.enter_context(one)
            wait_until(lambda: self._begins in self.follower.text(), "it follows", 600)
            wait_until(lambda: "kafka_share_group_lag{" in self.exporter.scrape(), "it exports")
            self.asker.begin()
            before, begun = self.asker.requests(), time.monotonic()
            self.look()
            assert self.asker.ask_one() == "whole answers"
            sent = (self.asker.requests() - before).total()
            self.calm = sent / (time.monotonic() - begun)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

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
        asked_before, before = len(asker.over), asker.requests()
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
        requests, over = sent.total() / healed, max(asker.over[asked_before:])
        wrong = len(asker.wrong) + len(exporter.wrong) - len(self.wrong)
        self.injected(
            "brokers",
            fault,
            times,
            asker.happened + exporter.happened,
            wrong=wrong,
            measured={
                "seconds after the timeout": max(over, 0.0),
                "requests per second by all commands": round(requests),
            },
        )
        self.wrong = [*asker.wrong, *exporter.wrong]
        print(f"{fault}: {dict(asker.happened)}, whole after {healed:.0f} s, {over} s late")
        assert not self.wrong, self.wrong[0]
        # One broker at least was there all the time.
        assert not asker.happened["errors that no broker answered"], fault
        assert over < HANGS, fault
        assert sum(one > LATE for one in asker.over) <= 1, asker.over
        assert requests < STORM * self.calm, (self.calm, sent)

    def end(self, through: str) -> None:
        """Judge what commands that went on all the time have printed and archived."""
        happened, wrong = self.watcher.judged()
        ended = [code for one in self.bystanders for code in one.ends]
        self.follower.kill()
        servers = self.cluster.bootstrap_servers
        kept, lost, other = caught_up(servers, self.asker.options, self.archive)
        self.injected(
            "processes",
            f"commands that go on for long, through {through}",
            len(self.bystanders),
            happened | {"records in the archive": kept, "ends of a command": len(ended)},
            lost=lost,
            wrong=len(wrong) + other,
            measured={"seconds for a scrape": self.exporter.slowest},
        )
        assert (lost, other, wrong, ended) == (0, 0, [], [])
        assert happened["whole answers of lag --watch"] > 0
        assert self.exporter.slowest < SCRAPE

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
        servers = self.cluster.bootstrap_servers
        before = leaders(servers, STATE_TOPIC)
        words = ("--election-type", "preferred", "--all-topic-partitions")
        self.cluster.brokers[0].ask_tool("LeaderElectionCommand", *words)
        assert leaders(servers, STATE_TOPIC) != before

    def ask_for(self, seconds: float) -> None:
        """Ask again and again for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.look()


@pytest.mark.exhaustive
def test_brokers_go_and_come_back(tmp_path: Path, injected: Inject) -> None:
    with (
        troubled(tmp_path) as cluster,
        Busy(cluster.bootstrap_servers) as busy,
        Story(cluster, tmp_path, injected, keeps_tables=True) as story,
    ):
        for number in (1, 2, 3):
            story.tell("a broker is killed (kill -9)", partial(story.kill, number))
        for number in (1, 2, 3):
            story.tell("a broker is stopped for 20 s (SIGSTOP)", partial(story.stop, number))
        story.tell("leaders move", story.move_leaders)
        story.tell("all brokers are restarted, one by one", story.restart_all)
        story.tell("two of three brokers are killed: no min ISR", story.lose_min_isr)
        assert busy.finished > 500
        busy.pause()
        agreed(story, "nothing arrives any more")
        wait_until(lambda: kept_in(story.tables) == kafkas(cluster), "tables as well", every=1)
        said = story.follower.text()
        assert f"archiving into {story.archive} again" in said
        assert not re.search(r"^\s+at |\bERROR\b|\bTraceback\b|sharelag\.errors", said, re.M), said
        story.end("brokers that go and come back")


def agreed(story: Story, what: str) -> None:
    """Wait until sharelag and Kafka's command show the same lags, and no others."""
    wait_until(lambda: told(story.asker) == kafkas(story.cluster), f"both agree: {what}", every=1)


def windows_of(*arguments: str) -> dict[tuple[str, str, int], tuple[int, int, str]]:
    return {
        (row["group_id"], row["topic_id"], row["partition"]): (
            row["state_epoch"],
            row["start_offset"],
            str(row["batches"]),
        )
        for row in ask("windows", *arguments)
    }


@pytest.mark.exhaustive
def test_topics_and_groups_change_while_they_are_followed(tmp_path: Path, injected: Inject) -> None:
    with troubled(tmp_path) as cluster, Story(cluster, tmp_path, injected) as story:
        servers = cluster.bootstrap_servers
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

        def changed(change: Callable[[], object], fault: str) -> None:
            change()
            agreed(story, fault)
            story.asker.happened["answers like Kafka's"] += 1

        for round_ in range(2):
            if not round_:
                create_topics(servers, {"moved": 2}, copies=3)
            set_group_config(servers, "moved", share_auto_offset_reset="earliest")
            read(20)
            agreed(story, "a group has read")
            for fault, change in (
                ("partitions are added to a topic", add_partitions),
                ("offsets of a group are reset", reset),
                ("a topic is deleted and created again", recreate),
                ("a group is deleted", delete_group),
            ):
                story.tell(fault, partial(changed, change, fault))
        assert "moved" not in {group for group, *_ in told(story.asker)}
        story.end("changes of topics and groups")
        live = windows_of(*story.asker.options)
        assert windows_of("--capture", str(story.archive)) == live
        assert {partition for group, _, partition in live if group == "still"} == set(KNOWN)


@pytest.mark.exhaustive
def test_an_upgrade_keeps_every_answer(tmp_path: Path, injected: Inject) -> None:
    with (
        troubled(tmp_path, version=EARLIER_VERSION) as cluster,
        Busy(cluster.bootstrap_servers) as busy,
        Story(cluster, tmp_path, injected) as story,
    ):

        def upgrade() -> None:
            for broker in cluster.brokers:
                broker.upgrade(KAFKA_VERSION)
                cluster.wait_until_whole()
                story.look()

        story.tell(f"Kafka is upgraded from {EARLIER_VERSION} to {KAFKA_VERSION}", upgrade, 3)
        busy.pause()
        agreed(story, "upgraded")
        story.end("an upgrade")
        live = windows_of(*story.asker.options)
        assert windows_of("--capture", str(story.archive)) == live
