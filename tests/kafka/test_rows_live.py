"""What the KIPs say of consumers, tried on a live broker and read back from its topics."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Message, ShareConsumer
from confluent_kafka.admin import AdminClient, NewPartitions

import sharelag as package
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.request_log import ConsumedLog
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.model.versions import has_reached
from sharelag.replay.members import groups_arrow
from sharelag.whatif.compiled.clients import Client
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC, decode_arrow
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    poll_some,
    produce,
    set_group_config,
    share_consume,
    share_consumer,
    wait_until,
)
from tests.support.request_lines import rows as picked
from tools.releases import message

TOPIC, GROWS = "rows-orders", "rows-grows"


@pytest.fixture(scope="module")
def orders(broker: KafkaBroker) -> KafkaBroker:
    """A broker with ten records, as one record batch."""
    create_topics(broker.bootstrap_servers, {TOPIC: 1, GROWS: 1})
    produce(broker.bootstrap_servers, TOPIC, numbered(10, 1))
    return broker


@contextmanager
def consumer(broker: KafkaBroker, group: str, **config: Any) -> Iterator[ShareConsumer]:
    set_group_config(broker.bootstrap_servers, group, share_auto_offset_reset="earliest")
    with closing(share_consumer(broker.bootstrap_servers, group, [TOPIC], **config)) as one:
        yield one


def window(broker: KafkaBroker, group: str) -> dict[str, Any]:
    """What is persisted of the group's one share partition."""
    bench = package.open(broker.bootstrap_servers, engine="local", groups=group)
    (row,) = bench.windows().table.to_pylist()
    return dict(row)


def lag(broker: KafkaBroker, group: str) -> int | None:
    (row,) = ask("lag --group", group, at=broker.bootstrap_servers)
    return None if row["lag"] is None else int(row["lag"])


def states(row: dict[str, Any]) -> list[int]:
    """The states of the ten offsets, by what was written; -1: nothing was."""
    of = {
        n: b["delivery_state"]
        for b in row["batches"]
        for n in range(b["first_offset"], b["last_offset"] + 1)
    }
    return [of.get(n, -1) for n in range(10)]


@pytest.mark.row("ACK-03")
def test_implicit_acknowledgement_goes_with_the_next_poll(orders: KafkaBroker) -> None:
    """Nothing is written of ten delivered records until the member polls again."""
    with consumer(orders, "rows-implicit", **{"share.acknowledgement.mode": "implicit"}) as one:
        assert [message.offset() for message in poll_some(one)] == list(range(10))
        assert states(window(orders, "rows-implicit")) == [-1] * 10
        assert not list(one.poll(0.2))
        wait_until(lambda: lag(orders, "rows-implicit") == 0, "the acceptance is written")
    assert states(window(orders, "rows-implicit")) == [2] * 10


@pytest.mark.row("ACK-09", "ACK-14", "CLT-04")
def test_what_is_acknowledged_is_the_leaders_with_the_commit(orders: KafkaBroker) -> None:
    """One of ten is bad; a type that is not given is ACCEPT."""
    with consumer(orders, "rows-explicit") as one:
        for message in poll_some(one):
            if message.offset() == 6:
                one.acknowledge(message, AcknowledgeType.REJECT)
            elif message.offset() % 2:
                one.acknowledge(message)
            else:
                one.acknowledge(message, AcknowledgeType.ACCEPT)
        assert states(window(orders, "rows-explicit")) == [-1] * 10
        assert set(one.commit_sync(30.0).values()) == {None}
        assert states(window(orders, "rows-explicit")) == [2] * 6 + [4] + [2] * 3
        assert lag(orders, "rows-explicit") == 0


@pytest.mark.row("ACK-07")
def test_records_that_are_not_acknowledged_yet_stay_with_the_member(orders: KafkaBroker) -> None:
    """Committed up to an error at 4: the rest stays acquired until the member closes."""
    with consumer(orders, "rows-error") as one:
        messages = poll_some(one)
        for message in messages[:4]:
            one.acknowledge(message)
        one.acknowledge(messages[4], AcknowledgeType.REJECT)
        one.commit_sync(30.0)
        assert states(window(orders, "rows-error")) == [2] * 4 + [4] + [-1] * 5
        assert lag(orders, "rows-error") == 5
        with consumer(orders, "rows-error") as other:
            assert not list(other.poll(2.0))  # nobody else gets them
        for message in messages[5:]:
            one.acknowledge(message)
        one.commit_sync(30.0)
    assert lag(orders, "rows-error") == 0
    assert {run["delivery_count"] for run in window(orders, "rows-error")["batches"]} == {1}


def test_consumers_subscribe_before_they_poll_and_assign_nothing(orders: KafkaBroker) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": orders.bootstrap_servers, "log_level": 3}
    settings["group.id"] = "rows-nobody"
    with closing(ShareConsumer(settings)) as one:
        with pytest.raises(Exception, match="not subscribed") as raised:
            one.poll(0.1)
        assert type(raised.value).__name__ == "IllegalStateException"
        assert not [
            name
            for name in ("assign", "seek", "position")
            if hasattr(one, name) or hasattr(Client, name)
        ]


def _consumed(consumer: Consumer, into: list[Message]) -> bool:
    into += consumer.consume(1, 0.5)
    return bool(into)


@pytest.mark.row("FND-09")
def test_a_consumer_group_is_no_share_group_whoever_asks(orders: KafkaBroker) -> None:
    """Neither Kafka's command nor the groups show it, and its records have no delivery count."""
    servers = orders.bootstrap_servers
    for group, protocol in (("rows-consumer", "consumer"), ("rows-classic", "classic")):
        given = {"bootstrap.servers": servers, "group.id": group, "group.protocol": protocol}
        with closing(Consumer({**given, "auto.offset.reset": "earliest", "log_level": 2})) as usual:
            usual.subscribe([TOPIC])
            got: list[Message] = []
            wait_until(partial(_consumed, usual, got), "a record comes")
            assert got[0].delivery_count() is None
            usual.commit(asynchronous=False)
    refused = pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND")
    with closing(share_consumer(servers, "rows-consumer", [TOPIC], log_level=0)) as one, refused:
        wait_until(lambda: bool(one.poll(0.5)), "the group is refused")
    with pytest.raises(RigError, match="is not a share group"):
        orders.share_groups("--describe", "--group", "rows-consumer")
    for group, kind in (("rows-consumer", "Consumer"), ("rows-classic", "Classic")):
        said = rf"'{group}' is of type {kind}, not Share \(.*GROUP_ID_NOT_FOUND\)"
        done = sharelag("lag", "--bootstrap-server", servers, "--group", group)
        assert (done.returncode, re.search(said, done.stderr) is None) == (1, False)
        with pytest.raises(InputError, match=said):
            package.open(servers, engine="local").explain(group)
    with consumer(orders, "rows-shared") as one:
        poll_some(one)
        found = _groups(orders)
        assert "rows-shared" in found
        assert not {"rows-consumer", "rows-classic"} & set(found)


def _groups(broker: KafkaBroker) -> list[str]:
    read = kafka.read_topic(client_config(broker.bootstrap_servers), GROUP_TOPIC)
    decoded = [decode_arrow(b, GROUP_TOPIC) for b in read]
    assert sum(one.skipped for one in decoded) > 0  # the records of the others, which are counted
    table = pa.Table.from_batches([one.records for one in decoded], schemas.GROUP_RECORDS)
    return [str(group) for group in groups_arrow(table).column("group_id").to_pylist()]


def test_what_is_in_a_new_partition_before_the_group_knows_it(orders: KafkaBroker) -> None:
    """A group starts at 0, as KIP-932 says; until Kafka 4.4 at the end, where the reset says."""
    servers, group = orders.bootstrap_servers, "rows-grows"
    with closing(share_consumer(servers, group, [GROWS])) as one:
        wait_until(
            lambda: one.poll(0.2) is not None and group in _groups(orders), "the group is there"
        )
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
        admin.create_partitions([NewPartitions(GROWS, 2)])[GROWS].result(timeout=30)
        produce(servers, GROWS, [(1, b"k", b"early")] * 5)
        late: list[Message] = []

        def arrived() -> bool:
            produce(servers, GROWS, [(1, b"k", b"late")])
            for message in one.poll(0.5):
                one.acknowledge(message)
                late.append(message)
            return bool(late)

        wait_until(arrived, "the new partition is served")
        if has_reached(KAFKA_VERSION, "4.4"):
            assert (late[0].offset(), late[0].value()) == (0, b"early")
        else:
            assert min(message.offset() or 0 for message in late) >= 5
            assert {message.value() for message in late} == {b"late"}
        one.commit_sync(30.0)


@pytest.mark.exhaustive
def test_a_state_topic_with_more_partitions_has_the_states_that_kafka_reads() -> None:
    """A new state in another partition counts, as for the coordinator after a restart."""
    number = "share.coordinator.state.topic.num.partitions"
    with KafkaBroker(properties={number: "2"}) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {TOPIC: 6})
        produce(servers, TOPIC, numbered(240, 6))
        set_group_config(servers, TOPIC, share_auto_offset_reset="earliest")
        share_consume(servers, TOPIC, [TOPIC], accept, until=240)
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
        admin.create_partitions([NewPartitions(STATE_TOPIC, 7)])[STATE_TOPIC].result(timeout=30)
        broker.settings[number] = "7"
        broker.restart()
        broker.alter_share_group_offsets(TOPIC, TOPIC, dict.fromkeys(range(6), 10))
        rows = ask("lag", at=servers)
        assert 6 < len(ask("windows", at=servers)) <= 12
        described = parse_describe(broker.share_groups_describe(TOPIC))
        names = ("partition", "start_offset", "lag")
        for source in (rows, described):
            found = sorted([row[name] for name in names] for row in source)
            assert found == [[partition, 10, 30] for partition in range(6)]


@pytest.mark.row("FET-01")
def test_in_kafkas_protocol_a_fetch_names_partitions_and_no_offset(kafka_jars: Path) -> None:
    (path,) = kafka_jars.glob("kafka-clients-*.jar")
    with zipfile.ZipFile(path) as jar:
        schema, beat = (
            message(jar, f"{name}Request") for name in ("ShareFetch", "ShareGroupHeartbeat")
        )
    topics, forgotten = (_field(schema, name) for name in ("Topics", "ForgottenTopicsData"))
    partition = _field(topics, "Partitions")
    assert [field["name"] for field in topics["fields"]] == ["TopicId", "Partitions"]
    found = [field["name"] for field in partition["fields"]]
    assert found == ["PartitionIndex", "PartitionMaxBytes", "AcknowledgementBatches"]
    assert [field["name"] for field in forgotten["fields"]] == ["TopicId", "Partitions"]
    names = {field["name"] for field in beat["fields"]}
    assert not {"InstanceId", "RebalanceTimeoutMs", "ServerAssignor"} & names


def _field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return next(field for field in schema["fields"] if field["name"] == name)


CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
PRINTED, RECORDS = "printed-deliveries", 12
_PARTS = ("timestamp", "partition", "offset", "delivery", "key", "headers")
PRINTS = [word for name in _PARTS for word in ("--formatter-property", f"print.{name}=true")]


def printed(folder: Path, done: CompletedProcess[str]) -> ConsumedLog:
    path = folder / "printed.txt"
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout, "utf-8")
    return ConsumedLog(path)


@pytest.mark.exhaustive
def test_deliveries_and_outcomes_are_the_consumers(broker: KafkaBroker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    create_topics(servers, {PRINTED: 1})
    produce(servers, PRINTED, numbered(RECORDS, 1))
    groups = ("console-deliveries", "verified-deliveries")
    for group in groups:
        set_group_config(servers, group, share_auto_offset_reset="earliest")
    given: tuple[Any, ...] = ("--bootstrap-server", servers, "--topic", PRINTED)
    console = (*given, "--group", groups[0], *PRINTS, "--max-messages", str(RECORDS))
    for count, options in ((1, ("--release",)), (2, ())):
        done = broker.run_tool(SHARE_CONSOLE, *console, "--timeout-ms", "40000", *options)
        log = printed(tmp_path, done)
        table = log.tables["deliveries"]
        told = picked(table, "partition", "offset", "delivery_count")
        assert told == [(0, offset, count) for offset in range(RECORDS)]
        assert table.column("timestamp").null_count == log.tables["rejects"].num_rows == 0
    done = broker.run_tool(CONSOLE, *given, *PRINTS, "--from-beginning", "--max-messages", "3")
    table = printed(tmp_path, done).tables["deliveries"]
    assert picked(table, "offset", "delivery_count") == [(0, None), (1, None), (2, None)]
    done = broker.run_tool(
        *(VERIFIABLE, *given, "--group-id", groups[1], "--max-messages", str(RECORDS)),
        *("--acknowledgement-mode", "sync"),
    )
    tables = printed(tmp_path, done).tables
    assert tables["deliveries"].column("offset").to_pylist() == list(range(RECORDS))
    found = picked(tables["outcomes"], "topic", "partition", "succeeded", "error_message")
    assert found == [(PRINTED, 0, True, None)] * tables["outcomes"].num_rows
    heard = picked(tables["outcomes"], "first_offset", "last_offset")
    assert [o for first, last in heard for o in range(first, last + 1)] == list(range(RECORDS))
