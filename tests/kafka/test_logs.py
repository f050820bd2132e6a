"""Answers of a cluster beyond its state topic are those of Kafka's tools, now and in the past."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import AcknowledgeType, Message

import sharelag as package
from sharelag import schemas
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.brokers import settings
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.inputs.kafka.records import record_times, scan
from sharelag.model import milliseconds
from sharelag.replay import replay_arrow
from sharelag.replay.moment import Choice
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, decode_arrow, encode_record
from sharelag.workbench.questions.timeline import lags_at
from tests.support import readings
from tests.support.command import ask, sharelag
from tests.support.kafka.access import add_rules, rule
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.workload import (
    create_topics,
    delete_below,
    numbered,
    produce,
    set_group_config,
    share_consume,
    start_transaction,
    wait_until,
)
from tests.support.records import KEY, raw, row

#: Milliseconds of the first record of the topics below; the next ones come a second later each.
BEGIN = 1_700_000_000_000
TOPIC, GROUPS = "past-orders", ("past-a", "past-b")
MOMENTS = 10


@pytest.fixture
def topic() -> str:
    return f"logs-{uuid4().hex[:8]}"


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_ENDS", {})


def _config(broker: KafkaBroker, timeout: float = 10) -> ClientConfig:
    return client_config(broker.bootstrap_servers, timeout=timeout)


def _ids(topic: str) -> dict[str, str]:
    return {topic: topic[-8:] * 2 + "I" * 6}


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGIN / 1000, UTC) + timedelta(seconds=seconds)


def _produce_by_second(broker: KafkaBroker, topic: str, seconds: range, partition: int = 0) -> None:
    records, times = [(partition, b"k", b"v")] * len(seconds), [BEGIN + 1000 * n for n in seconds]
    produce(broker.bootstrap_servers, topic, records, batch=3, times=times)


def _wait_until_stable(config: ClientConfig, topic: str, offsets: list[int]) -> None:
    """The markers of a transaction are written after its producer heard that it has ended."""

    def stable() -> bool:
        return bool(kafka.logs(config, _ids(topic))["last_stable_offset"].to_pylist() == offsets)

    wait_until(stable, f"the last stable offsets are {offsets}")


def _positions(*places: tuple[str, int, int | None]) -> pa.Table:
    names = [field for field in schemas.TIMES if field.name not in ("offset", "timestamp")]
    rows = [
        {"topic": t, "topic_id": "I" * 22, "partition": p, "asked_offset": o} for t, p, o in places
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(names))


def _kafkas_offsets(broker: KafkaBroker, topic: str, milliseconds: int) -> dict[int, int]:
    """First offset at or after a time, by Kafka's own tool; a partition without one is left out."""
    said = broker.ask_tool("GetOffsetShell", "--topic", topic, "--time", str(milliseconds))
    lines = [line.rsplit(":", 2) for line in said.split()]
    return {int(partition): int(offset) for _, partition, offset in lines if offset}


# ---- last stable offsets, retention --------------------------------------------------------------
def test_an_open_transaction_holds_the_last_stable_offset(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 2})
    produce(broker.bootstrap_servers, topic, numbered(6, 2))
    transaction = start_transaction(broker.bootstrap_servers, topic, topic, [(1, b"k", b"v")])
    produce(broker.bootstrap_servers, topic, numbered(2, 2))
    config, ids = _config(broker), _ids(topic)
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    table = kafka.logs(config, ids | {f"{topic}-gone": "J" * 22})
    assert (table.schema, table.column("last_stable_offset").to_pylist()) == (schemas.LOGS, [4, 3])
    assert kafka.list_offsets(config, ids).column("end_offset").to_pylist() == [4, 5]
    assert all(before <= at <= datetime.now(UTC) for at in table.column("as_of").to_pylist())
    transaction.abort_transaction(30)
    _wait_until_stable(config, topic, [4, 6])  # behind the marker


def test_retention_of_each_topic(broker: KafkaBroker, topic: str) -> None:
    kept, compacted = f"{topic}-kept", f"{topic}-compacted"
    create_topics(
        broker.bootstrap_servers, {kept: 1}, {"retention.ms": "-1", "retention.bytes": "12345"}
    )
    create_topics(broker.bootstrap_servers, {compacted: 1}, {"cleanup.policy": "compact,delete"})
    rows = kafka.logs(_config(broker), {kept: "K" * 22, compacted: "C" * 22}).to_pylist()
    found = {
        r["topic_id"]: (r["cleanup_policy"], r["retention_ms"], r["retention_bytes"]) for r in rows
    }
    week = 7 * 24 * 3_600_000
    assert found == {"K" * 22: ("delete", -1, 12345), "C" * 22: ("compact,delete", week, -1)}


# ---- ends of the past ----------------------------------------------------------------------------
def test_ends_of_the_past_are_those_of_kafkas_tool(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 3})
    _produce_by_second(broker, topic, range(10))
    _produce_by_second(broker, topic, range(5, 15), partition=1)
    moments = [_at(7), _at(3.5), _at(7), _at(99)]
    table = kafka.past_offsets(_config(broker), _ids(topic), moments)
    assert table.schema == schemas.OFFSETS
    assert table.column("log_start_offset").null_count == table.num_rows == 9
    ends: dict[datetime, dict[int, int]] = {}
    for line in table.to_pylist():
        ends.setdefault(line["as_of"], {})[line["partition"]] = line["end_offset"]
    lately = {_at(3.5): {0: 4, 1: 0, 2: 0}, _at(7): {0: 8, 1: 3, 2: 0}}
    assert ends == lately | {_at(99): {0: 10, 1: 10, 2: 0}}
    # Kafka's tool says where the first later record is; where there is none, the log ends.
    for moment in (_at(3.5), _at(7)):
        later = _kafkas_offsets(broker, topic, milliseconds(moment) + 1)
        assert later == {p: end for p, end in ends[moment].items() if p != 2}


def test_the_known_stays(broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    _produce_by_second(broker, topic, range(10))
    requests: list[int] = []

    def counted(connection: Any, specs: Any, *more: Any) -> Any:
        requests.append(len(specs))
        return ask(connection, specs, *more)

    ask = kafka.ask_offsets
    monkeypatch.setattr(kafka, "ask_offsets", counted)
    config, ids = _config(broker), _ids(topic)

    def ends(*seconds: float) -> list[int | None]:
        requests.clear()
        moments = [_at(second) for second in seconds]
        return kafka.past_offsets(config, ids, moments).column("end_offset").to_pylist()  # type: ignore[no-any-return]

    assert ends(2.5, 5.5, 9.5) == [3, 6, 10]
    assert requests == [1, 1, 1, 1, 1]  # the present ends, one a moment, the log starts
    assert (ends(5.5, 2.5), sum(requests)) == ([3, 6], 0)
    _produce_by_second(broker, topic, range(20, 21))
    assert ends(9.5, 15) == [10, 10]  # there was no later record: asked again
    assert sum(requests) == 4
    delete_below(broker.bootstrap_servers, topic, {0: 8})
    assert ends(2.5, 4.5, 6.5, 9.5) == [3, None, None, 10]  # what we did not ask in time is lost
    kafka._ENDS.clear()
    assert ends(2.5, 5.5, 8.5) == [None, None, 9]
    delete_below(broker.bootstrap_servers, topic, {0: 11})
    assert ends(2.5, 15, 99) == [None, None, None]  # nothing is left that could tell
    tomorrow = (datetime.now(UTC) - _at(0)).total_seconds() + 86_400
    assert ends(tomorrow) == [11]


def test_a_moment_needs_a_time_zone(broker: KafkaBroker) -> None:
    with pytest.raises(InputError, match="time zone"):
        kafka.past_offsets(_config(broker), {}, [datetime(2026, 11, 21)])


# ---- when records were produced ------------------------------------------------------------------
def _first(table: pa.Table) -> list[tuple[int, int | None, datetime | None]]:
    assert table.schema == schemas.TIMES
    return [(line["asked_offset"], line["offset"], line["timestamp"]) for line in table.to_pylist()]


def test_times_of_records(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 3})
    _produce_by_second(broker, topic, range(10))
    _produce_by_second(broker, topic, range(10, 20), partition=1)
    delete_below(broker.bootstrap_servers, topic, {1: 4})
    requests = [(0, 9), (0, 4), (1, 0), (0, 10), (0, 99), (2, 0), (1, 7), (0, 4)]
    places = [(topic, partition, offset) for partition, offset in requests]
    table = record_times(
        _config(broker), _positions(*places, (topic, 0, None), (f"{topic}-gone", 0, 0))
    )
    assert _first(table) == [
        (9, 9, _at(9)),
        (4, 4, _at(4)),
        (0, 4, _at(14)),  # the records below were deleted
        (10, None, None),  # the end
        (99, None, None),
        (0, None, None),  # nothing was ever written
        (7, 7, _at(17)),
        (4, 4, _at(4)),
    ]
    assert table.column("partition").to_pylist() == [partition for partition, _ in requests]
    assert _kafkas_offsets(broker, topic, milliseconds(_at(14))) == {1: 4}


def test_markers_hold_nobody_up_and_transactions_count(broker: KafkaBroker, topic: str) -> None:
    create_topics(broker.bootstrap_servers, {topic: 1})
    transaction = start_transaction(broker.bootstrap_servers, topic, topic, [(0, b"k", b"v")])
    transaction.abort_transaction(30)
    _wait_until_stable(_config(broker), topic, [2])
    places = [(topic, 0, offset) for offset in (0, 1)]
    (_, aborted, time), marker = _first(record_times(_config(broker), _positions(*places)))
    assert aborted == 0
    assert time is not None
    assert abs(datetime.now(UTC) - time) < timedelta(minutes=1)
    assert marker == (1, None, None)  # nothing but a marker follows
    produce(broker.bootstrap_servers, topic, [(0, b"k", b"v")])
    assert _first(record_times(_config(broker), _positions((topic, 0, 1))))[0][:2] == (1, 2)


@pytest.mark.exhaustive
def test_many_partitions_and_records_larger_than_a_fetch(broker: KafkaBroker, topic: str) -> None:
    many, large = f"{topic}-many", f"{topic}-large"
    create_topics(broker.bootstrap_servers, {many: 310, large: 3})
    produce(broker.bootstrap_servers, many, numbered(620, 310))
    produce(broker.bootstrap_servers, large, ((n % 3, b"k", os.urandom(300_000)) for n in range(9)))
    places = [(many, p, 1) for p in range(310)] + [
        (large, p, offset) for p in range(3) for offset in range(3)
    ]
    table = record_times(_config(broker), _positions(*places))
    assert [(r["topic"], r["partition"], r["offset"]) for r in table.to_pylist()] == places
    assert table.column("timestamp").null_count == 0


# ---- what we may see -----------------------------------------------------------------------------
def test_what_we_may_not_see_is_unknown(
    secure_broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    open_, hidden = f"{topic}-open", f"{topic}-hidden"
    servers = secure_broker.bootstrap_servers
    create_topics(servers, {open_: 1, hidden: 2, f"{hidden}-2": 2})
    for name in (open_, hidden, f"{hidden}-2"):
        produce(servers, name, numbered(4, 1))
    allowed = [f"TOPIC {open_} READ", f"TOPIC {open_} DESCRIBE_CONFIGS"]
    allowed += [f"TOPIC {name} DESCRIBE" for name in (hidden, f"{hidden}-2")]
    add_rules(secure_broker, [rule(text) for text in allowed])
    user = {name: str(value) for name, value in secure_broker.client_config("alice").items()}
    config = ClientConfig(user)
    rows = kafka.logs(config, {open_: "O" * 22, hidden: "H" * 22}).to_pylist()
    names = ("last_stable_offset", "cleanup_policy", "retention_bytes")
    found = [(r["topic_id"][0], *(r[name] for name in names)) for r in rows]
    assert found == [("O", 4, "delete", -1), ("H", 4, None, None), ("H", 0, None, None)]
    times = record_times(config, _positions((hidden, 0, 1), (open_, 0, 3), (hidden, 1, 0)))
    assert [(r["topic"], r["offset"]) for r in times.to_pylist()] == [(open_, 3), (hidden, None)]
    assert f"not authorized to read {hidden}" in caplog.text
    # However many topics and partitions may not be read, it is said once.
    caplog.clear()
    both = [(name, 0, n) for name in (hidden, f"{hidden}-2") for n in range(4)]
    assert record_times(config, _positions(*both)).num_rows == 0
    (once,) = (one.getMessage() for one in caplog.records)
    assert once.startswith(f"not authorized to read {hidden}: ")
    assert once.endswith(f" (and {hidden}-2 likewise); continuing without their timestamps")
    caplog.clear()
    assert settings(config, ["g1", "g2"], []).column("value").null_count
    told = [one.getMessage() for one in caplog.records if "of groups" in one.getMessage()]
    assert told == ["the settings of groups g1, g2 are unknown: grant DESCRIBE_CONFIGS on them"]
    # The scan of the records says what is missing, and counts what may be read.
    caplog.clear()
    windows = replay_arrow(decode_arrow(raw([encode_record(SHARE_SNAPSHOT, row(0, []))])).records)
    for name, records in ((hidden, None), (open_, 4)):
        offsets = kafka.list_offsets(config, {name: KEY.topic_id})
        (scanned,) = scan(config, windows, offsets).to_pylist()
        assert (scanned["topic"], scanned["records"]) == (name, records)
    said = [one.getMessage() for one in caplog.records]
    assert f"--operation Read --operation Describe --topic {hidden}" in " ".join(said)
    assert said[0].endswith("continuing without the records of its backlog")


def _decide(message: Message) -> AcknowledgeType:
    if message.offset() % 7 == 3 and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if message.offset() % 11 == 5 else AcknowledgeType.ACCEPT


@pytest.fixture(scope="module")
def ten_moments(broker: KafkaBroker) -> dict[datetime, list[Any]]:
    """Ten moments of a cluster at work, and what Kafka's command printed at each."""
    servers = broker.bootstrap_servers
    create_topics(servers, {TOPIC: 3})
    for group in GROUPS:
        set_group_config(servers, group, share_auto_offset_reset="earliest")
    moments: dict[datetime, list[Any]] = {}
    for n in range(MOMENTS):
        produce(servers, TOPIC, numbered(30 + 3 * n, 3), batch=5)
        group = GROUPS[n % 3 == 2]
        share_consume(
            servers, group, [TOPIC], _decide, until=25 + 2 * n, config={"max.poll.records": 5}
        )
        moments |= _note(broker)
    return moments


def _note(broker: KafkaBroker) -> dict[datetime, list[Any]]:
    """What the command prints, while nothing is written to the state topic."""
    config = client_config(broker.bootstrap_servers)
    seen: dict[datetime, list[Any]] = {}

    def quiet() -> bool:
        before, moment = kafka.offset_ranges(config, STATE_TOPIC), datetime.now(UTC)
        told = parse_describe(broker.share_groups_describe())
        if kafka.offset_ranges(config, STATE_TOPIC) != before:
            return False
        rows = sorted(tuple(row.values()) for row in told if row["group_id"] in GROUPS)
        # Kafka's times are whole milliseconds.
        seen[moment.replace(microsecond=moment.microsecond // 1000 * 1000)] = rows
        return True

    wait_until(quiet, "nothing is written to the state topic", every=0.2)
    return seen


def _source(broker: KafkaBroker) -> KafkaInput:
    return KafkaInput(client_config(broker.bootstrap_servers))


def _ours(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in rows)


def test_lag_as_of_ten_moments(broker: KafkaBroker, ten_moments: dict[datetime, list[Any]]) -> None:
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    for moment, theirs in ten_moments.items():
        rows = readings.lag(_source(broker), "local", moment).table.to_pylist()
        assert _ours([row for row in rows if row["group_id"] in GROUPS], names) == theirs
    assert len(ten_moments) == MOMENTS
    assert len({str(theirs) for theirs in ten_moments.values()}) == MOMENTS  # it was at work


def test_answers_of_the_past_say_by_whose_times_they_are(
    broker: KafkaBroker, ten_moments: dict[datetime, list[Any]]
) -> None:
    servers, moment = broker.bootstrap_servers, max(ten_moments)
    said = f"earlier end offsets of {TOPIC} are estimated from timestamps that producers set"
    bench = package.open(servers, engine="local", groups=GROUPS)
    then = bench.at(moment)
    for answer in (then.lag(), then.progress(), then.group_states(), bench.timeline(every="1m")):
        assert [note[: len(said)] for note in answer.notes].count(said) == 1
    assert not [note for note in bench.lag().notes if said in note]
    options = ["--bootstrap-server", servers, "--group", GROUPS[0], "--as-of", moment.isoformat()]
    assert said in sharelag("lag", *options).stderr
    assert not any("what happened from" in one for one in then.lag().lacks)
    (unseen,) = bench.at(datetime.now(UTC) + timedelta(hours=1)).progress().lacks
    assert unseen.startswith("what happened from ")  # such as local time that was given as UTC
    by_brokers = f"{TOPIC}-by-brokers"
    create_topics(servers, {by_brokers: 1}, {"message.timestamp.type": "LogAppendTime"})
    assert _source(broker).timed_by_producers([TOPIC, by_brokers]) == [TOPIC]


def test_moments_from_one_reading(
    broker: KafkaBroker, ten_moments: dict[datetime, list[Any]]
) -> None:
    source = _source(broker)
    with engines.read(source, "local", None, Choice(frozenset(GROUPS))) as past:
        ends = source.past_offsets(past.topic_ids, list(ten_moments))
        timeline = lags_at(past, ends, list(ten_moments))
    names = ("group_id", "topic", "partition", "start_offset", "lag")
    for moment, theirs in ten_moments.items():
        then = timeline.filter(pc.equal(timeline["as_of"], pa.scalar(moment, schemas.TIMESTAMP)))
        without_epoch = sorted((*row[:3], *row[4:]) for row in theirs)
        assert _ours(then.to_pylist(), names) == without_epoch


def test_history_of_a_live_cluster(
    broker: KafkaBroker, ten_moments: dict[datetime, list[Any]]
) -> None:
    first = min(ten_moments)
    every = (max(ten_moments) - first) / 5
    span = f"--since {first.isoformat()} --every {every / timedelta(seconds=1):.6f}s"
    rows = ask(f"history --group past-a {span}", at=broker.bootstrap_servers)
    assert len(rows) >= 3 * 5
    assert all(row["lag"] is not None for row in rows)


@pytest.mark.exhaustive
def test_watch_shows_what_changed(
    broker: KafkaBroker, ten_moments: dict[datetime, list[Any]]
) -> None:
    """The second round begins with another heading and a change for each row."""
    arguments = ["lag", "--bootstrap-server", broker.bootstrap_servers]
    arguments += ["--group", "past-b", "--watch", "0.2s"]
    # A parent in the background may ignore SIGINT, and its children inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from sharelag.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        rounds: list[list[str]] = []
        for line in running.stdout:
            if line.startswith("GROUP"):
                rounds.append([])
            rounds[-1].append(line)
            if len(rounds) == 3:
                break
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait(timeout=30) == 130
    change = rounds[0][0].index("CHANGE")
    first, second = ([line[change:].split()[0] for line in lines[1:]] for lines in rounds[:2])
    assert (first, second) == (["-"] * 3, ["0"] * 3)
