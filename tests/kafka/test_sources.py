"""We read all that a live broker has and nothing else, and give advice when we cannot."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

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
from sharelag.inputs.kafka import fetch, native
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.inputs.kafka.records import record_times
from sharelag.wire import STATE_TOPIC
from tests.support.kafka.access import add_rules, java_settings, rule
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    create_compacted,
    create_topics,
    delete_below,
    numbered,
    produce,
    start_transaction,
    wait_until,
)


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


both_clients = pytest.mark.usefixtures("amount")


def _config(broker: KafkaBroker, timeout: float = 10) -> ClientConfig:
    return client_config(broker.bootstrap_servers, timeout=timeout)


def _filled(broker: KafkaBroker, topic: str, partitions: int, count: int = 0) -> ClientConfig:
    """Make a topic of so many records; how to reach it."""
    create_topics(broker.bootstrap_servers, {topic: partitions})
    produce(broker.bootstrap_servers, topic, numbered(count, partitions))
    return _config(broker)


def _as_user(broker: KafkaBroker, user: str, password: str | None = None) -> ClientConfig:
    properties = java_settings(broker, user, password)
    return client_config(broker.secure_bootstrap_servers, None, properties, timeout=60)


def _read(config: ClientConfig, topic: str, **how: Any) -> list[dict[str, Any]]:
    batches = list(kafka.read_topic(config, topic, **how))
    assert all(batch.schema == schemas.RAW for batch in batches)
    return pa.Table.from_batches(batches, schemas.RAW).to_pylist()


def _offsets(rows: list[dict[str, Any]], partition: int = 0) -> list[int]:
    return [row["offset"] for row in rows if row["partition"] == partition]


# ---- what is read --------------------------------------------------------------------------------
@both_clients
def test_all_columns_of_all_records(broker: KafkaBroker, topic: str) -> None:
    """A tombstone has no value, and an empty value is one; a partition stays empty."""
    records = [*numbered(3000, 3), (0, None, b""), (1, b"", b"no key bytes"), (2, b"k", None)]
    config, before = _filled(broker, topic, 4), datetime.now(UTC) - timedelta(seconds=1)
    produce(broker.bootstrap_servers, topic, records)
    rows = _read(config, topic)
    for partition in range(4):
        produced = [(key, value) for p, key, value in records if p == partition]
        read = [row for row in rows if row["partition"] == partition]
        assert [(row["key"], row["value"]) for row in read] == produced
        assert _offsets(rows, partition) == list(range(len(produced)))
    assert {row["topic"] for row in rows} == {topic}
    assert {row["timestampType"] for row in rows} == {0}  # Spark's number for CreateTime
    assert all(before <= row["timestamp"] <= datetime.now(UTC) for row in rows)


@both_clients
def test_the_time_of_appending_is_distinguished(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1}, {"message.timestamp.type": "LogAppendTime"})
    produce(broker.bootstrap_servers, topic, numbered(1, 1))
    assert [row["timestampType"] for row in _read(_config(broker), topic)] == [1]


@both_clients
def test_ranges_and_what_is_written_meanwhile(broker: KafkaBroker, topic: str) -> None:
    config = _filled(broker, topic, 2)
    assert kafka.offset_ranges(config, topic) == {0: (0, 0), 1: (0, 0)}
    assert _read(config, topic) == []
    produce(broker.bootstrap_servers, topic, numbered(200, 2))
    now = kafka.offset_ranges(config, topic)
    produce(broker.bootstrap_servers, topic, numbered(200, 2))
    assert _offsets(_read(config, topic, ranges=now)) == list(range(100))
    for first, end in ((0, 1), (17, 18), (90, 100), (40, 40), (0, 100)):
        rows = _read(config, topic, ranges={1: (first, end)})
        assert (_offsets(rows, 0), _offsets(rows, 1)) == ([], list(range(first, end)))


@both_clients
def test_transactions_their_markers_and_what_was_aborted(broker: KafkaBroker, topic: str) -> None:
    config, servers = _filled(broker, topic, 1), broker.bootstrap_servers
    start_transaction(servers, topic, topic, [(0, b"k", b"a")]).commit_transaction(30)
    start_transaction(servers, topic, topic, [(0, b"k", b"b")]).abort_transaction(30)
    assert kafka.offset_ranges(config, topic) == {0: (0, 4)}  # the end offset is behind a marker
    assert _offsets(_read(config, topic)) == [0, 2]
    # Nothing but a marker before the end of the log, then before a record beyond the range.
    for first, end, found in ((3, 4, []), (1, 2, []), (1, 3, [2])):
        assert _offsets(_read(config, topic, ranges={0: (first, end)})) == found
    open_ = start_transaction(servers, topic, topic, [(0, b"k", b"open")])
    try:
        assert _offsets(_read(config, topic)) == [0, 2, 4]  # it does not hold us up
    finally:
        open_.abort_transaction(30)


def test_compacted_offsets_are_holes(broker: KafkaBroker, topic: str) -> None:
    create_compacted(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [(0, b"same", b"%d" % n) for n in range(50)])
    config = _config(broker)

    def cleaned() -> bool:
        produce(broker.bootstrap_servers, topic, [(0, b"same", b"newer")])  # rolls the segment
        return len(_read(config, topic)) < 40

    with broker.busy_cleaner():
        wait_until(cleaned, "the cleaner has been there", every=0.5)
    ((first, end),) = kafka.offset_ranges(config, topic).values()
    rows = _read(config, topic)
    assert first == 0 < rows[0]["offset"]
    assert rows[-1]["offset"] == end - 1


# ---- what is gone --------------------------------------------------------------------------------
@both_clients
@pytest.mark.parametrize(("below", "left"), [(30, range(30, 60)), (60, range(0)), (100, range(0))])
def test_a_range_pruned_before_it_is_read(
    broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture, below: int, left: range
) -> None:
    config = _filled(broker, topic, 1, 100)
    delete_below(broker.bootstrap_servers, topic, {0: below})
    assert _offsets(_read(config, topic, ranges={0: (0, 60)})) == list(left)
    assert f"{topic} partition 0: records were pruned before they were read" in caplog.text
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        _read(config, topic, ranges={0: (0, 60)}, fail_on_data_loss=True)


@both_clients
def test_pruned_under_the_reader(broker: KafkaBroker, topic: str) -> None:
    """More than the client fetches ahead, so that it comes to the gap only after the pruning."""
    config = _filled(broker, topic, 1)
    produce(broker.bootstrap_servers, topic, ((0, b"k", bytes(10_000)) for _ in range(20_000)))
    reading = kafka.read_topic(config, topic)
    offsets = next(reading).column("offset").to_pylist()
    delete_below(broker.bootstrap_servers, topic, {0: 19_990})
    for batch in reading:
        offsets += batch.column("offset").to_pylist()
    assert (offsets, offsets[0], offsets[-1]) == (sorted(set(offsets)), 0, 19_999)
    assert len(offsets) < 20_000


@both_clients
def test_a_slow_taker_is_no_silent_broker(broker: KafkaBroker, topic: str) -> None:
    _filled(broker, topic, 1, 20_000)
    count = 0
    for batch in kafka.read_topic(_config(broker, timeout=0.5), topic):
        count += batch.num_rows
        time.sleep(0.6)  # longer than the client may wait for the broker
    assert count == 20_000


@both_clients
def test_an_end_that_the_log_does_not_have(broker: KafkaBroker, topic: str) -> None:
    _filled(broker, topic, 1, 5)
    config = _config(broker, timeout=1)
    with pytest.raises(NoLeaderError, match=f"0 of {topic} ends at offset 5, before 100"):
        _read(config, topic, ranges={0: (0, 100)})
    with pytest.raises(DataLossError, match="the log ends at offset 5, before 100"):
        _read(config, topic, ranges={0: (0, 100)}, fail_on_data_loss=True)


# ---- topics --------------------------------------------------------------------------------------
def test_topic_ids_are_those_that_kafka_prints(broker: KafkaBroker, topic: str) -> None:
    config = _filled(broker, f"__{topic}", 1)
    ids = kafka.topic_ids(config)
    said = broker.ask_tool("TopicCommand", "--describe", "--topic", f"__{topic}")
    assert f"TopicId: {ids[f'__{topic}']}" in said
    assert not ids.keys() & {STATE_TOPIC, "__consumer_offsets", "__transaction_state"}


# ---- what to do when it does not work ------------------------------------------------------------
_ONE_RECORD = pa.Table.from_pylist(
    [{"topic": "t", "topic_id": "I" * 22, "partition": 0, "asked_offset": 0}], schemas.TIMES
)
_ASKING: dict[str, Callable[[ClientConfig], Any]] = {
    "read": lambda config: list(kafka.read_topic(config, STATE_TOPIC)),
    "names": lambda config: Connection(config).topic_names(),
    "ids": kafka.topic_ids,
    "cluster": kafka.cluster_id,
    "ranges": lambda config: kafka.offset_ranges(config, STATE_TOPIC),
    "logs": lambda config: kafka.logs(config, {"t": "I" * 22}),
    "past": lambda config: kafka.past_offsets(config, {"t": "I" * 22}, [datetime.now(UTC)]),
    "times": lambda config: record_times(config, _ONE_RECORD),
}


def each_refused(config: ClientConfig, error: type[ShareLagError], words: str) -> float:
    """Ask every question side by side; return the seconds until all were refused with an error."""

    def refused(name: str) -> None:
        with pytest.raises(error, match=words) as refusal:
            _ASKING[name](config.renew())
        assert "not-her-password" not in str(refusal.value), name

    begun = time.monotonic()
    with ThreadPoolExecutor(len(_ASKING)) as askers:
        list(askers.map(refused, _ASKING))
    return time.monotonic() - begun


def ours(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were printed, except the log of a test's own client whose broker is gone."""
    out, err = capfd.readouterr()
    theirs = re.compile(r"%\d\|[\d.]+\|\w+\|(?!sharelag#)\S+#")
    return [line for line in (out + err).splitlines() if not theirs.match(line)]


def test_nobody_there(capfd: pytest.CaptureFixture[str]) -> None:
    words = r"no broker answered at 127\.0\.0\.1:1 within 1 s.*refused.*check"
    nobody = client_config("127.0.0.1:1", timeout=1)
    assert each_refused(nobody, BrokerUnreachableError, words) < 11
    assert ours(capfd) == []  # the client library's own log stays quiet


def test_wrong_password(secure_broker: KafkaBroker, capfd: pytest.CaptureFixture[str]) -> None:
    config = _as_user(secure_broker, "alice", "not-her-password")
    # At once, not when the minute is up.
    assert each_refused(config, AuthenticationError, "refused our credentials") < 20
    assert ours(capfd) == []


@both_clients
def test_who_reads_known_ranges_is_refused_as_well(secure_broker: KafkaBroker, topic: str) -> None:
    _filled(secure_broker, topic, 1, 10)
    with pytest.raises(AuthenticationError, match="refused our credentials"):
        _read(_as_user(secure_broker, "alice", "wrong"), topic, ranges={0: (0, 10)})
    bob = _as_user(secure_broker, "bob")
    _allow(secure_broker, "bob", "DESCRIBE", topic)
    wait_until(lambda: topic in Connection(bob).topic_names(), "the permission has come through")
    with pytest.raises(AuthorizationError, match="grant READ"):
        _read(bob, topic, ranges={0: (0, 10)})
    with pytest.raises(BrokerUnreachableError, match="no broker answered"):
        _read(client_config("127.0.0.1:1", timeout=1), topic, ranges={0: (0, 10)})


def test_a_listener_that_speaks_otherwise(secure_broker: KafkaBroker) -> None:
    with pytest.raises(BrokerUnreachableError, match=r"security\.protocol"):
        kafka.cluster_id(client_config(secure_broker.secure_bootstrap_servers, timeout=1))


def test_asking_for_a_topic_does_not_create_it(secure_broker: KafkaBroker) -> None:
    config = _config(secure_broker)
    before = Connection(config).topic_names()
    for name, why in (("nowhere", "nowhere"), (STATE_TOPIC, "no share group was ever used")):
        with pytest.raises(TopicMissingError, match=why):
            _read(config, name)
        assert name not in before
    assert Connection(config).topic_names() == before


def test_rights_on_the_topic_are_all_that_is_needed(secure_broker: KafkaBroker, topic: str) -> None:
    _filled(secure_broker, topic, 1, 10)
    alice = _as_user(secure_broker, "alice")
    before = set(kafka.topic_ids(alice))  # other tests gave rights, too
    with pytest.raises(AuthorizationError, match=f"grant READ and DESCRIBE.*--topic {topic}"):
        _read(alice, topic)
    _allow(secure_broker, "alice", "DESCRIBE", topic)
    wait_until(
        lambda: topic in Connection(alice).topic_names(), "the first permission has come through"
    )
    with pytest.raises(AuthorizationError, match="grant READ and DESCRIBE"):
        _read(alice, topic)
    _allow(secure_broker, "alice", "READ", topic)
    wait_until(lambda: _may_read(alice, topic), "the second permission has come through")
    # No permission on any group, nor on the cluster.
    assert _offsets(_read(alice, topic)) == list(range(10))
    ids = kafka.topic_ids(alice)
    assert set(ids) - before == {topic}
    ends = kafka.list_offsets(alice, {topic: ids[topic]})
    assert ends.column("end_offset").to_pylist() == [10]


def _allow(broker: KafkaBroker, user: str, operation: str, topic: str) -> None:
    add_rules(broker, [rule(f"TOPIC {topic} {operation}", principal=f"User:{user}")])


def _may_read(config: ClientConfig, topic: str) -> bool:
    try:
        return bool(_read(config, topic))
    except ShareLagError:
        return False
