"""The past of a live cluster, read afterwards, is what Kafka's command printed at the time."""

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import AcknowledgeType, Message

import sharelag as package
from sharelag import schemas
from sharelag.engine import engines
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.replay.moment import Choice
from sharelag.wire import STATE_TOPIC
from sharelag.workbench.questions.timeline import lags_at
from tests.support import readings
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

TOPIC, GROUPS = "past-orders", ("past-a", "past-b")
MOMENTS = 10


def _decide(message: Message) -> AcknowledgeType:
    if message.offset() % 7 == 3 and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if message.offset() % 11 == 5 else AcknowledgeType.ACCEPT


@pytest.fixture(scope="module")
def noted(broker: KafkaBroker) -> dict[datetime, list[Any]]:
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


def test_lag_as_of_ten_moments(broker: KafkaBroker, noted: dict[datetime, list[Any]]) -> None:
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    for moment, theirs in noted.items():
        rows = readings.lag(_source(broker), "local", moment).table.to_pylist()
        assert _ours([row for row in rows if row["group_id"] in GROUPS], names) == theirs
    assert len(noted) == MOMENTS
    assert len({str(theirs) for theirs in noted.values()}) == MOMENTS  # it was at work


def test_answers_of_the_past_say_by_whose_times_they_are(
    broker: KafkaBroker, noted: dict[datetime, list[Any]]
) -> None:
    servers, moment = broker.bootstrap_servers, max(noted)
    said = f"earlier end offsets of {TOPIC} are estimated from timestamps that producers set"
    bench = package.open(servers, engine="local", groups=GROUPS)
    then = bench.at(moment)
    for answer in (then.lag(), then.progress(), then.group_states(), bench.timeline(every="1m")):
        assert [note[: len(said)] for note in answer.notes].count(said) == 1
    assert not [note for note in bench.lag().notes if said in note]
    options = ["--bootstrap-server", servers, "--group", GROUPS[0], "--as-of", moment.isoformat()]
    assert said in sharelag("lag", *options).stderr
    by_brokers = f"{TOPIC}-by-brokers"
    create_topics(servers, {by_brokers: 1}, {"message.timestamp.type": "LogAppendTime"})
    assert _source(broker).timed_by_producers([TOPIC, by_brokers]) == [TOPIC]


def test_moments_from_one_reading(broker: KafkaBroker, noted: dict[datetime, list[Any]]) -> None:
    source = _source(broker)
    with engines.read(source, "local", None, Choice(frozenset(GROUPS))) as past:
        ends = source.past_offsets(past.topic_ids, list(noted))
        timeline = lags_at(past, ends, list(noted))
    names = ("group_id", "topic", "partition", "start_offset", "lag")
    for moment, theirs in noted.items():
        then = timeline.filter(pc.equal(timeline["as_of"], pa.scalar(moment, schemas.TIMESTAMP)))
        without_epoch = sorted((*row[:3], *row[4:]) for row in theirs)
        assert _ours(then.to_pylist(), names) == without_epoch


def test_history_of_a_live_cluster(broker: KafkaBroker, noted: dict[datetime, list[Any]]) -> None:
    first = min(noted)
    every = (max(noted) - first) / 5
    span = f"--since {first.isoformat()} --every {every / timedelta(seconds=1):.6f}s"
    rows = ask(f"history --group past-a {span}", at=broker.bootstrap_servers)
    assert len(rows) >= 3 * 5
    assert all(row["lag"] is not None for row in rows)


@pytest.mark.exhaustive
def test_watch_shows_what_changed(broker: KafkaBroker, noted: dict[datetime, list[Any]]) -> None:
    """The second round begins with another heading and a change for each row."""
    arguments = ["lag", "--bootstrap-server", broker.bootstrap_servers]
    arguments += ["--group", "past-b", "--watch", "0.2s"]
    with subprocess.Popen(
        [sys.executable, "-c", "from sharelag.cli import main; main()", *arguments],
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
