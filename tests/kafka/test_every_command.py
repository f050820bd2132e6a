"""Every command that takes a cluster, on three brokers, beside what Kafka's own commands say."""

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import click
import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from sharelag.cli import cli
from sharelag.inputs.kafka.described import parse_groups
from sharelag.schemas import DESCRIBED
from tests.support.cases import few_of
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.bystanders import Exporter
from tests.support.kafka.describe import (
    DescribedOffset,
    DescribedPartition,
    parse_describe,
    parse_topics,
)
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    share_consumer,
    topic_ids,
    wait_until,
)
from tools.docs.reference import commands

ORDERS, RETURNS, QUEUE = "every-orders", "every-returns", "dlq.every"
STEADY, MIXED, JOINED, RESET, CONSOLE, HOSTILE = GROUPS = (
    *("every-steady", "every-mixed", "every-joined", "every-reset", "every-console"),
    "every-<b>&'x':0",
)
#: Records of orders in each partition; the last ten came when most groups had read the others.
EACH, LATE = 50, 10
_STATE = "__share_group_state"
_STATE_FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"


class Kafka:
    """What Kafka's own commands print of a cluster, each asked once."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._broker = cluster.brokers[0]
        self.servers = cluster.bootstrap_servers
        self._ends: dict[tuple[str, int], dict[int, int]] = {}

    def run(self, tool: str, *args: str) -> str:
        """Return what a command printed on standard output."""
        said = self._broker.ask_tool(tool, *args)
        assert not said.lstrip().startswith("Error"), said
        return said

    def groups(self, *args: str) -> str:
        """Return what ``kafka-share-groups.sh`` printed."""
        return self._broker.share_groups(*args)

    @cached_property
    def described(self) -> str:
        return self.groups("--describe", "--all-groups", "--offsets", "--verbose")

    @cached_property
    def offsets(self) -> dict[tuple[str, str, int], DescribedOffset]:
        return keyed(_of_ours(parse_describe(self.described)))

    @cached_property
    def states(self) -> dict[str, dict[str, Any]]:
        text = self.groups("--describe", "--all-groups", "--state", "--verbose")
        return {row["group_id"]: row for row in _of_ours(parse_groups(text).groups.to_pylist())}

    @cached_property
    def members(self) -> list[dict[str, Any]]:
        text = self.groups("--describe", "--all-groups", "--members", "--verbose")
        return _of_ours(parse_groups(text).members.to_pylist())

    @cached_property
    def topics(self) -> dict[tuple[str, int], DescribedPartition]:
        return parse_topics(self.run("TopicCommand", "--describe"))

    @cached_property
    def cluster_id(self) -> str:
        said = self.run("MetadataQuorumCommand", "describe", "--status")
        return re.findall(r"ClusterId:\s+(\S+)", said)[0]

    def ends(self, topic: str, time: int = -1) -> dict[int, int]:
        """Return the end of each partition's log, or with -2 its start; of our topics once."""
        if (topic, time) in self._ends and topic != _STATE:
            return self._ends[topic, time]
        text = self.run("GetOffsetShell", "--topic", topic, "--time", str(time))
        found = re.findall(r"^.*:(\d+):(\d+)$", text, re.MULTILINE)
        self._ends[topic, time] = {int(partition): int(offset) for partition, offset in found}
        return self._ends[topic, time]

    def records(self, topic: str, *args: str, count: int) -> str:
        """Return what ``kafka-console-consumer.sh`` printed of so many records."""
        words = ("--topic", topic, "--max-messages", str(count), "--timeout-ms", "20000")
        return self.run("consumer.ConsoleConsumer", *words, *args)

    @cached_property
    def state_records(self) -> Counter[str]:
        """The records of the state topic about our groups, as Kafka's formatter prints them."""
        count = sum(self.ends(_STATE).values()) - sum(self.ends(_STATE, -2).values())
        out = self.records(_STATE, "--from-beginning", "--formatter", _STATE_FORMATTER, count=count)
        decoder, found, at = json.JSONDecoder(), [], 0
        while at < len(out.rstrip()):
            record, at = decoder.raw_decode(out, at)
            found.append(record)
        return Counter(map(_as_text, (record for record in found if _is_of_ours(record))))

    def settings(self, kind: str, name: str) -> dict[str, tuple[str, str]]:
        """Return value and source of each setting of a group, a topic or a broker."""
        text = self.run(
            "ConfigCommand", "--describe", "--entity-type", kind, "--entity-name", name, "--all"
        )
        sources = {"DEFAULT_CONFIG": "default", f"DYNAMIC_{kind[:-1].upper()}_CONFIG": kind[:-1]}
        return {
            name: (value, sources.get(source, "broker"))
            for name, value, source in re.findall(
                r"^ +(\S+?)=(.*) sensitive=\w+ synonyms=\{([A-Z_]+)", text, re.MULTILINE
            )
        }


def _of_ours(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows about the groups of this module: other tests share the cluster."""
    return [row for row in rows if row["group_id"] in GROUPS]


def _is_of_ours(record: dict[str, Any]) -> bool:
    return record["key"]["data"]["groupId"] in GROUPS


def _as_text(record: dict[str, Any]) -> str:
    return json.dumps({name: record[name] for name in ("key", "value")}, sort_keys=True)


@dataclass(frozen=True)
class Live:
    """The cluster: what Kafka says of it, and our commands."""

    kafka: Kafka
    folder: Path
    #: Partition and offset that Kafka's console consumer printed as it rejected them.
    rejected: frozenset[tuple[int, int]]

    def run(self, *words: str, status: int = 0) -> str:
        """Return what one of our commands printed about the cluster."""
        done = sharelag(*words, "--bootstrap-server", self.kafka.servers, code=status)
        # Whoever may do everything lacks no right.
        assert not re.search(r"\btakes (Read|Describe)|\bgrant\b", done.stderr), done.stderr
        return done.stdout

    def rows(self, *words: str, status: int = 0) -> list[dict[str, Any]]:
        """Return the rows of one of our commands about our groups."""
        lines = self.run(*words, "-o", "json", status=status).splitlines()
        found = [json.loads(line) for line in lines]
        return [row for row in found if row.get("group_id", STEADY) in GROUPS]


@pytest.fixture(scope="module")
def live(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Groups that lag, were reset, rejected, never began in part, or have members now."""
    kafka = Kafka(cluster)
    servers = kafka.servers
    create_topics(servers, {ORDERS: 6, RETURNS: 3}, copies=3)
    create_topics(servers, {QUEUE: 1}, {"errors.deadletterqueue.group.enable": "true"}, copies=3)
    produce(servers, ORDERS, numbered(6 * (EACH - LATE), 6))
    produce(servers, RETURNS, numbered(60, 3))
    more = {
        STEADY: {"share.record.lock.duration.ms": "20000", "share.delivery.count.limit": "7"},
        CONSOLE: {
            "errors.deadletterqueue.topic.name": QUEUE,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    }
    for group in GROUPS:
        settings = {"share.auto.offset.reset": "earliest", **more.get(group, {})}
        set_group_config(servers, group, **settings)
    share_consume(servers, STEADY, [ORDERS], accept, until=6 * (EACH - LATE))
    share_consume(servers, MIXED, [ORDERS, RETURNS], _mixed, until=150)
    share_consume(servers, HOSTILE, [RETURNS], accept, until=20)
    printed = kafka.run(
        "consumer.ConsoleShareConsumer",
        *("--topic", RETURNS, "--group", CONSOLE, "--max-messages", "60", "--reject"),
        *("--timeout-ms", "20000", "--formatter-property", "print.partition=true"),
        *("--formatter-property", "print.offset=true"),
    )
    rejected = re.findall(r"Partition:(\d+)\tOffset:(\d+)", printed)
    kafka.groups(
        *("--reset-offsets", "--group", RESET, "--topic", RETURNS, "--to-earliest", "--execute")
    )
    produce(servers, ORDERS, numbered(6 * LATE, 6))
    with ExitStack() as ends:
        members = [
            ends.enter_context(closing(share_consumer(servers, JOINED, topics)))
            for topics in ([ORDERS], [ORDERS, RETURNS], [ORDERS])
        ]
        kafka_says = {(int(partition), int(offset)) for partition, offset in rejected}
        found = Live(kafka, tmp_path_factory.mktemp("every"), frozenset(kafka_says))
        wait_until(lambda: _is_quiet(found, members), "all was read, written and sent")
        yield found


def _mixed(message: Message) -> AcknowledgeType:
    if (message.offset() or 0) % 10 == 3 and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    is_bad = (message.offset() or 0) % 10 == 7
    return AcknowledgeType.REJECT if is_bad else AcknowledgeType.ACCEPT


def _is_quiet(live: Live, members: list[ShareConsumer]) -> bool:
    """Return whether the members have read all, and letters of rejected records are written."""
    for consumer in members:
        for message in consumer.poll(0.2):
            consumer.acknowledge(message)
        consumer.commit_sync(30.0)
    rows = live.rows("lag", "--group", JOINED, "--group", CONSOLE)
    letters = live.rows("dlq", "--group", CONSOLE)
    written = sum(row["offsets"] for row in letters if row["status"] == "written")
    return (
        sum(row["group_id"] == JOINED and row["lag"] == 0 for row in rows) == 9
        and all(row["lag"] == 0 for row in rows if row["group_id"] == CONSOLE)
        and written == len(live.rejected)
    )


#: By the words of a command, what compares it.
CHECKS: dict[str, Callable[[Live], None]] = {}


def check(words: str) -> Callable[[Callable[[Live], None]], Callable[[Live], None]]:
    """Name the command that a function compares."""

    def note(function: Callable[[Live], None]) -> Callable[[Live], None]:
        CHECKS[words] = function
        return function

    return note


def lags(live: Live, group: str) -> list[int | None]:
    return [row["lag"] for key, row in live.kafka.offsets.items() if key[0] == group]


def waiting(live: Live, group: str) -> int:
    """All lags of a group; of a partition never fetched its log, as all begin at earliest."""
    return sum(
        live.kafka.ends(topic)[partition] - live.kafka.ends(topic, -2)[partition]
        if row["start_offset"] is None
        else row["lag"] or 0
        for (whose, topic, partition), row in live.kafka.offsets.items()
        if whose == group
    )


def keyed(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    found = {(row["group_id"], row["topic"], row["partition"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def as_described(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], DescribedOffset]:
    """Our rows of lag as Kafka's command has them."""
    names = [name for name in DESCRIBED.names if name != "as_of"]
    return {key: {name: row[name] for name in names} for key, row in keyed(rows).items()}


@check("lag")
def lag(live: Live) -> None:
    rows = live.rows("lag")
    assert as_described(rows) == live.kafka.offsets
    assert as_described(live.rows("lag", "--brief")) == live.kafka.offsets
    ends = {topic: live.kafka.ends(topic) for topic in (ORDERS, RETURNS)}
    assert all(row["end_offset"] == ends[row["topic"]][row["partition"]] for row in rows)
    # People see the same first columns, in their order.
    heading, *lines = (line.split()[:6] for line in live.run("lag", "--group", MIXED).splitlines())
    printed = live.kafka.groups("--describe", "--group", MIXED, "--offsets", "--verbose")
    theirs = [line.split() for line in printed.splitlines() if line]
    assert [heading, *sorted(lines)] == [theirs[0], *sorted(theirs[1:])]
    # What is compared has all that there is: lag, none, and what is not known.
    assert {None, 0, LATE} <= {row["lag"] for row in rows}


@check("groups")
def groups(live: Live) -> None:
    rows = {row["group_id"]: row for row in live.rows("groups")}
    listed = live.kafka.groups("--list", "--state").splitlines()
    by_list = dict(line.rsplit(maxsplit=1) for line in listed if line.split(" ")[0] in GROUPS)
    assert {group: row["state"] for group, row in rows.items()} == by_list
    assert set(by_list) == set(GROUPS)
    for group, row in rows.items():
        theirs = live.kafka.states[group]
        names = ("state", "group_epoch", "assignment_epoch", "members", "coordinator")
        # A group that was only reset has no record of its own; its coordinator begins with 1.
        found = [row[name] or (1 if "epoch" in name else row[name]) for name in names]
        assert found == [theirs[name] for name in names]
        known = [one for one in lags(live, group) if one is not None]
        assert row["unknown_lags"] == len(lags(live, group)) - len(known)
        assert row["lag"] == (sum(known) or (None if row["unknown_lags"] else 0))
        assert row["partitions"] == len(lags(live, group))


@check("members")
def members(live: Live) -> None:
    topics = {id_: name for name, id_ in topic_ids(live.kafka.servers, [ORDERS, RETURNS]).items()}
    names = ("group_id", "member_id", "client_host", "client_id", "assigned", "member_epoch")
    kafkas = {
        tuple(row[name] for name in names): sorted(row["assignment"].split(";"))
        for row in live.kafka.members
    }
    ours = {
        tuple(row[name] for name in names): sorted(
            f"{topics[one['topic_id']]}:{','.join(map(str, sorted(one['partitions'])))}"
            for one in row["assigned_partitions"]
        )
        for row in live.rows("members")
    }
    assert (ours, len(ours)) == (kafkas, 3)


@check("progress")
def progress(live: Live) -> None:
    rows = keyed(live.rows("progress"))
    assert rows.keys() == live.kafka.offsets.keys()
    for key, row in rows.items():
        theirs = live.kafka.offsets[key]["lag"]
        assert (row["drain"] == "drained") == (theirs == 0), key
        assert (row["age_ms"] is None) == (theirs is None), key
        assert (row["age_ms"] == 0) == (theirs == 0), key


@check("forecasts")
def forecasts(live: Live) -> None:
    rows = live.rows("forecasts", "--ledger", str(live.folder / "ledger"))
    lags = {key: row["lag"] for key, row in live.kafka.offsets.items() if row["lag"]}
    found = {(row["group_id"], row["topic"], row["partition"]): row for row in rows}
    assert found
    assert all(row["effective_lag"] == lags[key] for key, row in found.items())


@check("imbalance")
def imbalance(live: Live) -> None:
    rows = live.rows("imbalance", "--by", "broker", "--group", STEADY)
    (row,) = (row for row in rows if row["measure"] == "lag")
    led: Counter[int | None] = Counter()
    for (group, topic, partition), described in live.kafka.offsets.items():
        if group == STEADY:
            leader = live.kafka.topics[topic, partition]["leader_id"]
            led[leader] += described["lag"] or 0
    least, most = min(led.values()), max(led.values())
    assert (row["total"], row["max"], row["min"]) == (led.total(), most, least)
    assert led.total() == 6 * LATE


@check("brokers")
def brokers(live: Live) -> None:
    rows = keyed(live.rows("brokers"))
    assert rows.keys() == live.kafka.offsets.keys()
    for (group, topic, partition), row in rows.items():
        theirs = live.kafka.topics[topic, partition]
        ours = {name: row[name] for name in ("leader_id", "replicas")}
        assert ours | {"in_sync_replicas": sorted(row["in_sync_replicas"])} == theirs
        keeper = live.kafka.topics[_STATE, row["state_partition"]]
        assert row["share_coordinator"] == keeper["leader_id"]
        assert live.kafka.states[group]["coordinator"].endswith(f"({row['group_coordinator']})")


@check("health")
def health(live: Live) -> None:
    before = live.kafka.ends(_STATE)
    rows = [row for row in live.rows("health") if row["topic"] == _STATE]
    after, starts = live.kafka.ends(_STATE), live.kafka.ends(_STATE, -2)
    assert {row["partition"] for row in rows} == {p for p in after if after[p] > 0}
    for row in rows:
        # Others' groups may be written meanwhile, and what nobody needs may be pruned.
        assert before[row["partition"]] <= row["end_offset"] <= after[row["partition"]]
        assert row["first_offset"] <= starts[row["partition"]]
        assert row["records"] == row["end_offset"] - row["first_offset"]
        assert (row["rejects"], row["misplaced"], row["missing"]) == (0, 0, 0)


@check("reconcile")
def reconcile(live: Live) -> None:
    file = live.folder / "described.txt"
    file.write_text(live.kafka.described, "utf-8")
    rows = keyed(live.rows("reconcile", "--described", str(file), "--true"))
    assert rows.keys() == live.kafka.offsets.keys()
    for key, row in rows.items():
        theirs = live.kafka.offsets[key]["lag"]
        assert (row["described_lag"], row["lag"]) == (theirs, theirs)
        assert row["matches"] is (None if theirs is None else True)
        assert row["true_lag"] == theirs  # there are neither transactions nor compacted records


@check("windows")
def windows(live: Live) -> None:
    rows = keyed(live.rows("windows"))
    assert rows.keys() == live.kafka.offsets.keys()
    ends = {topic: live.kafka.ends(topic) for topic in (ORDERS, RETURNS)}
    for key, row in rows.items():
        theirs = live.kafka.offsets[key]
        found = row["start_offset"]
        assert found == (-1 if theirs["start_offset"] is None else theirs["start_offset"])
        if theirs["lag"] is not None:
            # KIP-1226's lag: all after the start offset but what is complete.
            end = ends[key[1]][key[2]]
            assert end - row["start_offset"] - row["delivery_complete_count"] == theirs["lag"]


@check("decode")
def decode(live: Live) -> None:
    lines = map(json.loads, live.run("decode", "--records", "state").splitlines())
    assert Counter(map(_as_text, filter(_is_of_ours, lines))) == live.kafka.state_records
    assert live.kafka.state_records.total() > len(live.kafka.offsets)


@check("history")
def history(live: Live) -> None:
    rows = live.rows("history", "--group", MIXED)
    theirs = [json.loads(one) for one in live.kafka.state_records.elements()]
    mine = [one for one in theirs if one["key"]["data"]["groupId"] == MIXED]
    kinds = Counter("snapshot" if one["key"]["type"] == 0 else "update" for one in mine)
    assert Counter(row["record_kind"] for row in rows) == kinds
    last = {(row["topic_id"], row["partition"]): row["start_offset"] for row in rows}
    names = topic_ids(live.kafka.servers, [ORDERS, RETURNS])
    assert last == {
        (names[topic], partition): described["start_offset"]
        for (group, topic, partition), described in live.kafka.offsets.items()
        if group == MIXED
    }


@check("settings")
def settings(live: Live) -> None:
    rows = live.rows("settings", "--group", STEADY)
    ours = {row["name"]: (row["value"], row["source"]) for row in rows if row["group_id"] == STEADY}
    theirs = live.kafka.settings("groups", STEADY)
    assert ours == {name: theirs[name] for name in ours}
    shared = {name for name in theirs if name.startswith(("share.", "errors.deadletter"))}
    assert shared <= ours.keys()
    assert ours["share.record.lock.duration.ms"] == ("20000", "group")
    assert ours["share.heartbeat.interval.ms"][1] == "broker"
    of_brokers = ask("settings --group", STEADY, at=live.kafka.servers)
    mine = {row["name"]: row["value"] for row in of_brokers if row["group_id"] is None}
    kafkas = live.kafka.settings("brokers", "1")
    known = mine.keys() & kafkas.keys()
    assert {name: mine[name] for name in known} == {name: kafkas[name][0] for name in known}
    assert {name for name in kafkas if name.startswith(("group.share", "share."))} <= known


@check("explain")
def explain(live: Live) -> None:
    # By itself it waits for as long as a lock lasts, and this cluster may be younger.
    found = live.rows("explain", "--patience", "1ms")
    rows = [row for row in found if row["cause"] == "no_members"]
    held: Counter[str] = Counter()
    for row in rows:
        held[row["group_id"]] += row["held"] or 0
    empty = (group for group in GROUPS if live.kafka.states[group]["members"] == 0)
    lagging = {group: sum(one or 0 for one in lags(live, group)) for group in empty}
    assert held == {group: count for group, count in lagging.items() if count}


@check("capture")
def capture(live: Live) -> None:
    folder = live.folder / "capture"
    live.run("capture", str(folder))
    rows = [row for row in ask("lag --capture", str(folder)) if row["group_id"] in GROUPS]
    assert as_described(rows) == live.kafka.offsets


@check("check")
def rules(live: Live) -> None:
    file = live.folder / "rules.yaml"
    rule = {"name": "lag", "measure": "lag", "groups": ["every-*"], "warn": 20}
    file.write_text(json.dumps({"version": 1, "rules": [rule]}), "utf-8")
    found = live.rows("check", "--rules", str(file), status=1)
    warned = {row["group_id"]: row["value"] for row in found if row["level"] == "warning"}
    sums = {group: waiting(live, group) for group in GROUPS}
    assert warned == {group: total for group, total in sums.items() if total >= 20}
    assert warned[STEADY] == 6 * LATE


@check("doctor")
def doctor(live: Live) -> None:
    said = live.run("doctor")
    assert f"cluster {live.kafka.cluster_id} at" in said
    told = live.kafka.run("FeatureCommand", "describe")
    features = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", told))
    assert re.search(rf"share\.version: {features['share.version']}$", said, re.MULTILINE)
    release = features["metadata.version"].partition("-")[0]
    assert f"Kafka {release}" in said
    topics = [topic for topic, _ in live.kafka.topics]
    assert f"{_STATE}: {topics.count(_STATE)} partitions" in said
    assert not re.search("^fail", said, re.MULTILINE)


def exported(text: str) -> dict[tuple[str, str, int], float]:
    """The lags of our groups in Prometheus text."""
    found = re.findall(
        r'^kafka_share_group_lag\{group="(.*?)",partition="(\d+)",topic="(.*?)"\} (\S+)$',
        text,
        re.MULTILINE,
    )
    return {
        (group, t, int(p)): float(v) for group, p, t, v in found if group in GROUPS and v != "NaN"
    }


def known_lags(live: Live) -> dict[tuple[str, str, int], float]:
    found = ((key, row["lag"]) for key, row in live.kafka.offsets.items())
    return {key: lag for key, lag in found if lag is not None}


@check("export prometheus")
def textfile(live: Live) -> None:
    file = live.folder / "lag.prom"
    live.run("export", "prometheus", "--textfile", str(file))
    assert exported(file.read_text("utf-8")) == known_lags(live)


@check("export serve")
def serve(live: Live) -> None:
    with Exporter(["--bootstrap-server", live.kafka.servers], live.folder, {}) as server:
        wait_until(lambda: bool(exported(server.scrape())), "the server has collected")
        assert exported(server.scrape()) == known_lags(live)


@check("mcp")
def mcp(live: Live) -> None:
    from mcp import Client, StdioServerParameters

    words = ["-c", "from sharelag.cli import main; main()", "mcp", "--bootstrap-server"]
    server = StdioServerParameters(command=sys.executable, args=[*words, live.kafka.servers])

    async def ask() -> Any:
        async with Client(server) as client:
            answer = await client.call_tool("lag", {"group": STEADY})
            return json.loads(answer.content[0].text)  # type: ignore[union-attr]

    found = anyio.run(ask)
    rows = {(row["topic"], row["partition"]): row["lag"] for row in found["rows"]}
    assert rows == {
        (topic, partition): described["lag"]
        for (group, topic, partition), described in live.kafka.offsets.items()
        if group == STEADY
    }


@check("peek")
def peek(live: Live) -> None:
    # All of the one is finished, and nothing has read the last ten of the other.
    places = {(CONSOLE, RETURNS, 7): "finished", (STEADY, ORDERS, EACH - 5): "unread"}
    for (group, topic, offset), state in places.items():
        said = live.run("peek", group, f"{topic}:1:{offset}")
        words = f"--partition 1 --offset {offset} --formatter-property print.key=true"
        printed = live.kafka.records(topic, *words.split(), count=1)
        key, value = printed.strip().split("\t")
        assert f"{topic}:1:{offset} in {group}: {state}, " in said
        assert f"key, {len(key)} bytes:\n  {key}\n" in said
        assert f"value, {len(value)} bytes:\n  {value}\n" in said


@check("dlq")
def dlq(live: Live) -> None:
    rows = live.rows("dlq", "--group", CONSOLE)
    given_up = [
        (row["partition"], offset)
        for row in rows
        for offset in range(row["first_offset"], row["last_offset"] + 1)
        if (row["topic"], row["status"], row["reason"]) == (RETURNS, "written", "rejected")
    ]
    assert len(given_up) == len(live.rejected) == 60
    assert set(given_up) == live.rejected
    words = ("--from-beginning", "--formatter-property", "print.headers=true")
    printed = live.kafka.records(QUEUE, *words, count=len(live.rejected))
    letters = re.findall(r"errors\.partition:(\d+),.*?errors\.offset:(\d+)", printed)
    assert {(int(partition), int(offset)) for partition, offset in letters} == live.rejected


def starts_and_lags(rows: Mapping[tuple[str, str, int], Any], group: str = "") -> dict[Any, Any]:
    chosen = {key: row for key, row in rows.items() if key[0] == group or not group}
    return {key: (row["start_offset"], row["lag"]) for key, row in chosen.items()}


@check("plan-reset")
def plan_reset(live: Live) -> None:
    rows = live.rows("plan-reset", "--group", RESET, "--to-latest")
    words = ("--reset-offsets", "--group", RESET, "--all-topics", "--to-latest", "--dry-run")
    theirs = re.findall(rf"^{RESET}\s+(\S+)\s+(\d+)\s+(\d+)", live.kafka.groups(*words), re.M)
    found = {(row["topic"], row["partition"], row["new_start_offset"]) for row in rows}
    assert found == {(topic, int(partition), int(offset)) for topic, partition, offset in theirs}
    assert len(theirs) == 3
    assert starts_and_lags(keyed(rows)) == starts_and_lags(live.kafka.offsets, RESET)


@check("plan-delete")
def plan_delete(live: Live) -> None:
    rows = keyed(live.rows("plan-delete", "--group", STEADY))
    assert starts_and_lags(rows) == starts_and_lags(live.kafka.offsets, STEADY)
    # The group begins at the earliest record, as kafka-configs.sh says.
    assert live.kafka.settings("groups", STEADY)["share.auto.offset.reset"][0] == "earliest"
    starts = live.kafka.ends(ORDERS, -2)
    assert all(row["new_start_offset"] == starts[key[2]] for key, row in rows.items())


@check("simulate")
def simulate(live: Live) -> None:
    words = ("--service", "10ms", "--duration", "20s", "--members", "3")
    (row,) = ask("simulate --group", STEADY, *words, at=live.kafka.servers)
    # It begins with the lag of the cluster, and three members finish that and what arrives.
    assert (row["lag_max"], row["lag_end"]) == (6 * LATE, 0)
    assert (row["completed"], row["scenario"]) == (row["arrived"] + 6 * LATE, STEADY)


@check("report make")
def report(live: Live) -> None:
    folder = live.folder / "reports"
    words = ("--group", STEADY, "--engine", "local", "--no-figures", "--out", str(folder))
    live.run("report", "make", "daily", *words)
    (verdict,) = folder.rglob("verdict.json")
    found = json.loads(verdict.read_text("utf-8"))
    assert found["cluster_id"] == live.kafka.cluster_id
    told = {row["group_id"]: row["lag"] for row in found["groups"]}
    assert told == {STEADY: sum(one or 0 for one in lags(live, STEADY))}


@check("report schedule")
def schedule(live: Live) -> None:
    printed = live.run("report", "schedule", "daily", "--cron", "30 6 * * *", "--group", HOSTILE)
    line = next(line for line in printed.splitlines() if line.startswith("30 6 * * * "))
    words = shlex.split(line.removeprefix("30 6 * * * "))
    assert words[1:3] == ["report", "daily"]
    given = dict(pairwise(words))
    assert given["bootstrap_server"] == live.kafka.servers
    assert json.loads(given["group"]) == [HOSTILE]


#: Those that take ten seconds or more, and those that other tests compare on a broker in each run.
LONG = {"mcp", "report make", "peek", "export serve"}


def of_clusters() -> set[str]:
    """The commands that take a cluster, by the command line's own list."""
    return {
        path.removeprefix("sharelag ")
        for path, command in commands(cli, "sharelag")
        if not isinstance(command, click.Group)
        and any(one.name == "bootstrap_server" for one in command.params)
    }


def test_no_command_is_left_out() -> None:
    assert set(CHECKS) == of_clusters()


@pytest.mark.parametrize("command", few_of(CHECKS, CHECKS.keys() - LONG))
def test_a_command_says_what_kafka_says(live: Live, command: str) -> None:
    CHECKS[command](live)
