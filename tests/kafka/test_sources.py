"""We read all that a live broker has and nothing else, and give advice when we cannot."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from sharelag import schemas
from sharelag.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnreachableError,
    DataLossError,
    NoLeaderError,
    ShareLagError,
    TopicMissingError,
)
from sharelag.sources.kafka import fetch, native
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import ClientConfig, client_config
from sharelag.wire.fields import STATE_TOPIC
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import create_topics, numbered, produce, wait_until

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def topic() -> str:
    return f"sources-{uuid4().hex[:8]}"


@pytest.fixture(params=["few records", "many records"])
def amount(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by the client for few records, and by that for many."""
    is_many = request.param == "many records"
    monkeypatch.setattr(fetch, "is_worth_it", lambda _work, count: is_many and not count)
    monkeypatch.setattr(native, "is_logged", lambda: False)  # pytest adds handlers
    monkeypatch.delattr(*((fetch, "PlainMessages") if is_many else (native, "NativeMessages")))


def _config(broker: KafkaBroker, timeout: float = 10) -> ClientConfig:
    return client_config(broker.bootstrap_servers, timeout=timeout)


def _as_user(broker: KafkaBroker, user: str, password: str | None = None) -> ClientConfig:
    jaas = f'{_SCRAM} required username="{user}" password="{password or user + "-secret"}";'
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas,
    }
    return client_config(broker.secure_bootstrap_servers, None, properties, timeout=60)


def _read(config: ClientConfig, topic: str, **how: Any) -> list[dict[str, Any]]:
    batches = list(kafka.read_topic(config, topic, **how))
    assert all(batch.schema == schemas.RAW for batch in batches)
    return pa.Table.from_batches(batches, schemas.RAW).to_pylist()


def _offsets(rows: list[dict[str, Any]], partition: int = 0) -> list[int]:
    return [row["offset"] for row in rows if row["partition"] == partition]


def _delete_below(broker: KafkaBroker, topic: str, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(timeout=30)


# ---- what is read --------------------------------------------------------------------------------


@pytest.mark.usefixtures("amount")
def test_all_columns_of_all_records(broker: KafkaBroker, topic: str) -> None:
    records = [*numbered(3000, 3), (0, None, b""), (1, b"", b"no key bytes")]
    create_topics(broker.bootstrap_servers, {topic: 4})  # one partition stays empty
    before = datetime.now(UTC) - timedelta(seconds=1)
    produce(broker.bootstrap_servers, topic, records)
    rows = _read(_config(broker), topic)
    for partition in range(4):
        produced = [(key, value) for p, key, value in records if p == partition]
        read = [row for row in rows if row["partition"] == partition]
        assert [(row["key"], row["value"]) for row in read] == produced
        assert _offsets(rows, partition) == list(range(len(produced)))
    assert {row["topic"] for row in rows} == {topic}
    assert {row["timestampType"] for row in rows} == {0}  # Spark's number for CreateTime
    assert all(before <= row["timestamp"] <= datetime.now(UTC) for row in rows)


@pytest.mark.usefixtures("amount")
def test_a_tombstone_has_no_value_and_an_empty_value_is_one(
    broker: KafkaBroker, topic: str
) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, None, b"k")
    producer.produce(topic, b"", b"k")
    producer.flush(30)
    assert [row["value"] for row in _read(_config(broker), topic)] == [None, b""]


@pytest.mark.usefixtures("amount")
def test_the_time_of_appending_is_distinguished(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1}, {"message.timestamp.type": "LogAppendTime"})
    produce(broker.bootstrap_servers, topic, numbered(1, 1))
    assert [row["timestampType"] for row in _read(_config(broker), topic)] == [1]


def test_an_empty_topic(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 2})
    assert _read(_config(broker), topic) == []
    assert kafka.offset_ranges(_config(broker), topic) == {0: (0, 0), 1: (0, 0)}


@pytest.mark.usefixtures("amount")
def test_what_is_written_meanwhile_is_not_read(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    produce(broker.bootstrap_servers, topic, numbered(100, 1))
    ranges = kafka.offset_ranges(_config(broker), topic)
    produce(broker.bootstrap_servers, topic, numbered(100, 1))
    assert _offsets(_read(_config(broker), topic, ranges=ranges)) == list(range(100))


@pytest.mark.usefixtures("amount")
@pytest.mark.parametrize(("first", "end"), [(0, 1), (17, 18), (90, 100), (40, 40), (0, 100)])
def test_ranges(broker: KafkaBroker, topic: str, first: int, end: int) -> None:
    create_topics(broker.bootstrap_servers, {topic: 2})
    produce(broker.bootstrap_servers, topic, numbered(200, 2))
    rows = _read(_config(broker), topic, ranges={1: (first, end)})
    assert _offsets(rows, 1) == list(range(first, end))
    assert _offsets(rows, 0) == []


@pytest.mark.usefixtures("amount")
def test_transactions_their_markers_and_what_was_aborted(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(60)
    for name, end in ((b"a", producer.commit_transaction), (b"b", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, name, b"k", 0)
        producer.flush(30)  # an abort would take back what has not been sent
        end(30)
    config = _config(broker)
    assert kafka.offset_ranges(config, topic) == {0: (0, 4)}  # the end offset is behind a marker
    assert _offsets(_read(config, topic)) == [0, 2]
    assert (
        _read(config, topic, ranges={0: (3, 4)}) == []
    )  # nothing but a marker, and the end of the log
    assert (
        _read(config, topic, ranges={0: (1, 2)}) == []
    )  # nothing but a marker, and a record beyond
    assert _offsets(_read(config, topic, ranges={0: (1, 3)})) == [2]


@pytest.mark.usefixtures("amount")
def test_an_open_transaction_does_not_hold_us_up(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", b"k", 0)
    producer.flush(30)
    try:
        assert _offsets(_read(_config(broker), topic)) == [0]
    finally:
        producer.abort_transaction(30)


def test_compacted_offsets_are_holes(broker: KafkaBroker, topic: str) -> None:
    # The smallest delays there are: the cleaner looks every few hundred milliseconds and finds
    # closed segments.
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.ms": "100",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "100",
    }
    create_topics(broker.bootstrap_servers, {topic: 1}, compacted)
    produce(broker.bootstrap_servers, topic, [(0, b"same", b"%d" % n) for n in range(50)])

    def cleaned() -> bool:
        produce(broker.bootstrap_servers, topic, [(0, b"same", b"newer")])  # rolls the segment
        return len(_read(_config(broker), topic)) < 40

    with broker.busy_cleaner():
        wait_until(cleaned, "the cleaner has been there", every=0.5)
    ((first, end),) = kafka.offset_ranges(_config(broker), topic).values()
    rows = _read(_config(broker), topic)
    assert first == 0
    assert rows[0]["offset"] > 0
    assert rows[-1]["offset"] == end - 1


# ---- what is gone --------------------------------------------------------------------------------


@pytest.mark.usefixtures("amount")
def test_a_deleted_beginning(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 2})
    produce(broker.bootstrap_servers, topic, numbered(200, 2))
    _delete_below(broker, topic, 0, 30)
    config = _config(broker)
    assert kafka.offset_ranges(config, topic) == {0: (30, 100), 1: (0, 100)}
    rows = _read(config, topic)
    assert _offsets(rows, 0) == list(range(30, 100))
    assert _offsets(rows, 1) == list(range(100))


@pytest.mark.usefixtures("amount")
@pytest.mark.parametrize(("below", "left"), [(30, range(30, 60)), (60, range(0)), (100, range(0))])
def test_a_range_pruned_before_it_is_read(
    broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture, below: int, left: range
) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    produce(broker.bootstrap_servers, topic, numbered(100, 1))
    _delete_below(broker, topic, 0, below)
    config = _config(broker)
    assert _offsets(_read(config, topic, ranges={0: (0, 60)})) == list(left)
    assert f"{topic} partition 0: records were pruned before they were read" in caplog.text
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        _read(config, topic, ranges={0: (0, 60)}, fail_on_data_loss=True)


@pytest.mark.usefixtures("amount")
def test_pruned_under_the_reader(broker: KafkaBroker, topic: str) -> None:
    """More than the client fetches ahead, so that it comes to the gap only after the pruning."""
    create_topics(broker.bootstrap_servers, {topic: 1})
    produce(broker.bootstrap_servers, topic, ((0, b"k", bytes(10_000)) for _ in range(20_000)))
    reading = kafka.read_topic(_config(broker), topic)
    offsets = next(reading).column("offset").to_pylist()
    _delete_below(broker, topic, 0, 19_990)
    for batch in reading:
        offsets += batch.column("offset").to_pylist()
    assert offsets == sorted(set(offsets))
    assert offsets[0] == 0
    assert offsets[-1] == 19_999
    assert len(offsets) < 20_000


@pytest.mark.usefixtures("amount")
def test_a_slow_taker_is_no_silent_broker(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    produce(broker.bootstrap_servers, topic, numbered(20_000, 1))
    count = 0
    for batch in kafka.read_topic(_config(broker, timeout=0.5), topic):
        count += batch.num_rows
        time.sleep(0.6)  # longer than the client may wait for the broker
    assert count == 20_000


@pytest.mark.usefixtures("amount")
def test_an_end_that_the_log_does_not_have(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    produce(broker.bootstrap_servers, topic, numbered(5, 1))
    config = _config(broker, timeout=1)
    with pytest.raises(NoLeaderError, match=f"0 of {topic} ends at offset 5, before 100"):
        _read(config, topic, ranges={0: (0, 100)})
    with pytest.raises(DataLossError, match="the log ends at offset 5, before 100"):
        _read(config, topic, ranges={0: (0, 100)}, fail_on_data_loss=True)


# ---- topics and offsets --------------------------------------------------------------------------


def test_topic_ids_are_those_that_kafka_prints(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1, f"__{topic}": 1})
    ids = kafka.topic_ids(_config(broker))
    for name in (topic, f"__{topic}"):
        done = broker.run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", broker.bootstrap_servers, "--describe", "--topic", name),
        )
        assert f"TopicId: {ids[name]}" in done.stdout
    assert not ids.keys() & {STATE_TOPIC, "__consumer_offsets", "__transaction_state"}


def test_offsets_of_topics(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 2})
    produce(broker.bootstrap_servers, topic, numbered(10, 2))
    _delete_below(broker, topic, 1, 2)
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    table = kafka.list_offsets(_config(broker), {topic: "I" * 22})
    assert table.schema == schemas.OFFSETS
    rows = [
        {name: value for name, value in row.items() if name != "as_of"} for row in table.to_pylist()
    ]
    same = {"topic": topic, "topic_id": "I" * 22, "leader_epoch": 0, "end_offset": 5}
    assert rows == [
        {**same, "partition": 0, "log_start_offset": 0},
        {**same, "partition": 1, "log_start_offset": 2},
    ]
    assert all(before <= row["as_of"] <= datetime.now(UTC) for row in table.to_pylist())


def test_a_topic_that_vanishes_meanwhile_takes_no_other_with_it(
    broker: KafkaBroker, topic: str
) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    table = kafka.list_offsets(_config(broker), {topic: "I" * 22, f"{topic}-gone": "J" * 22})
    assert table.column("topic").to_pylist() == [topic]


def test_offsets_of_the_past(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 3}, {"retention.ms": "-1"})
    old, new = 1_700_000_000_000, 1_700_000_100_000
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for moment in (old, new):
        for partition in (0, 1):
            producer.produce(topic, b"v", b"k", partition, timestamp=moment)
    producer.flush(30)
    _delete_below(broker, topic, 1, 1)
    config, ids = _config(broker), {topic: "I" * 22}

    def ends(milliseconds: int) -> list[int | None]:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
        table = kafka.list_offsets(config, ids, at=at)
        assert table.column("as_of").to_pylist() == [at] * 3
        assert (
            table.column("log_start_offset").to_pylist() == [None] * 3
        )  # Kafka does not remember it
        return table.column("end_offset").to_pylist()

    # Partition 1 begins with the newer record: where it ended before is unknown. Partition 2 is
    # empty.
    assert ends(old - 1) == [0, None, 0]
    assert ends(old + 1) == [1, None, 0]
    assert ends(new + 1) == [2, 2, 0]
    assert kafka.offsets_for_times(config, topic, {0: old + 1, 1: new + 1, 2: old}) == {
        0: 1,
        1: 2,
        2: 0,
    }


def test_the_clusters_id(broker: KafkaBroker) -> None:
    assert len(kafka.cluster_id(_config(broker))) == 22


# ---- what to do when it does not work ------------------------------------------------------------

_ASKING: dict[str, Callable[[ClientConfig], Any]] = {
    "read": lambda config: list(kafka.read_topic(config, STATE_TOPIC)),
    "names": kafka.topic_names,
    "ids": kafka.topic_ids,
    "cluster": kafka.cluster_id,
    "ranges": lambda config: kafka.offset_ranges(config, STATE_TOPIC),
}


def ours(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were printed, except the log of a test's own client whose broker is gone."""
    out, err = capfd.readouterr()
    theirs = re.compile(r"%\d\|[\d.]+\|\w+\|(?!sharelag#)\S+#")
    return [line for line in (out + err).splitlines() if not theirs.match(line)]


@pytest.mark.parametrize("ask", _ASKING.values(), ids=_ASKING)
def test_nobody_there(
    ask: Callable[[ClientConfig], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    config = client_config("127.0.0.1:1", timeout=2)
    begun = time.monotonic()
    with pytest.raises(
        BrokerUnreachableError,
        match=r"no broker answered at 127\.0\.0\.1:1 within 2 s.*refused.*check",
    ):
        ask(config)
    assert time.monotonic() - begun < 12
    assert ours(capfd) == []  # the client library's own log stays quiet


@pytest.mark.parametrize("ask", _ASKING.values(), ids=_ASKING)
def test_wrong_password(
    secure_broker: KafkaBroker,
    ask: Callable[[ClientConfig], Any],
    capfd: pytest.CaptureFixture[str],
) -> None:
    begun = time.monotonic()
    with pytest.raises(AuthenticationError, match="refused our credentials") as refusal:
        ask(_as_user(secure_broker, "alice", "not-her-password"))
    assert time.monotonic() - begun < 20  # at once, not when the minute is up
    assert "not-her-password" not in str(refusal.value)
    assert ours(capfd) == []


@pytest.mark.usefixtures("amount")
def test_who_reads_known_ranges_is_refused_all_the_same(
    secure_broker: KafkaBroker, topic: str
) -> None:
    create_topics(secure_broker.bootstrap_servers, {topic: 1})
    produce(secure_broker.bootstrap_servers, topic, numbered(10, 1))
    with pytest.raises(AuthenticationError, match="refused our credentials"):
        _read(_as_user(secure_broker, "alice", "wrong"), topic, ranges={0: (0, 10)})
    bob = _as_user(secure_broker, "bob")
    _allow(secure_broker, "bob", AclOperation.DESCRIBE, topic)
    wait_until(lambda: topic in kafka.topic_names(bob), "the permission has come through")
    with pytest.raises(AuthorizationError, match="grant READ"):
        _read(bob, topic, ranges={0: (0, 10)})
    with pytest.raises(BrokerUnreachableError, match="no broker answered"):
        _read(client_config("127.0.0.1:1", timeout=1), topic, ranges={0: (0, 10)})


def test_a_listener_that_speaks_otherwise(secure_broker: KafkaBroker) -> None:
    with pytest.raises(BrokerUnreachableError, match=r"security\.protocol"):
        kafka.cluster_id(client_config(secure_broker.secure_bootstrap_servers, timeout=1))


def test_share_groups_were_never_used(secure_broker: KafkaBroker) -> None:
    with pytest.raises(TopicMissingError, match="no share group was ever used"):
        _read(_config(secure_broker), STATE_TOPIC)


def test_asking_for_a_topic_does_not_create_it(secure_broker: KafkaBroker) -> None:
    config = _config(secure_broker)
    before = kafka.topic_names(config)
    for name in ("nowhere", STATE_TOPIC):
        with pytest.raises(TopicMissingError):
            _read(config, name)
        assert name not in before
    assert kafka.topic_names(config) == before


def test_permissions_on_the_topic_are_all_that_is_needed(
    secure_broker: KafkaBroker, topic: str
) -> None:
    create_topics(secure_broker.bootstrap_servers, {topic: 1})
    produce(secure_broker.bootstrap_servers, topic, numbered(10, 1))
    alice = _as_user(secure_broker, "alice")
    before = set(kafka.topic_ids(alice))  # other tests gave rights, too
    with pytest.raises(AuthorizationError, match=f"grant READ and DESCRIBE.*--topic {topic}"):
        _read(alice, topic)
    _allow(secure_broker, "alice", AclOperation.DESCRIBE, topic)
    wait_until(lambda: topic in kafka.topic_names(alice), "the first permission has come through")
    with pytest.raises(AuthorizationError, match="grant READ and DESCRIBE"):
        _read(alice, topic)
    _allow(secure_broker, "alice", AclOperation.READ, topic)
    wait_until(lambda: _may_read(alice, topic), "the second permission has come through")
    # No permission on any group, nor on the cluster.
    assert _offsets(_read(alice, topic)) == list(range(10))
    ids = kafka.topic_ids(alice)
    assert set(ids) - before == {topic}
    ends = kafka.list_offsets(alice, {topic: ids[topic]})
    assert ends.column("end_offset").to_pylist() == [10]


def test_reading_leaves_no_group_behind(secure_broker: KafkaBroker, topic: str) -> None:
    create_topics(secure_broker.bootstrap_servers, {topic: 1})
    produce(secure_broker.bootstrap_servers, topic, numbered(10, 1))
    _read(_config(secure_broker), topic)
    admin = AdminClient({"bootstrap.servers": secure_broker.bootstrap_servers})
    assert admin.list_consumer_groups().result(timeout=30).valid == []


def _allow(broker: KafkaBroker, user: str, operation: AclOperation, topic: str) -> None:
    rule = AclBinding(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation),
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.create_acls([rule]).values():
        done.result(timeout=30)


def _may_read(config: ClientConfig, topic: str) -> bool:
    try:
        return bool(_read(config, topic))
    except ShareLagError:
        return False
