"""`sharelag lag` prints what kafka-share-groups.sh prints, after everything consumers do."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message

import sharelag as api
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.described import described_offsets
from sharelag.model.versions import has_reached
from sharelag.tables.gaps import NO_COMPLETE_COUNT
from sharelag.wire.fields import STATE_TOPIC
from tests.support import readings
from tests.support.command import sharelag
from tests.support.kafka.ask import ask
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.oracles import Oracle, share_holders
from tests.support.kafka.since import SHARE_CONSUMERS
from tests.support.kafka.workload import (
    Delivery,
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

ORDERS, PAYMENTS = "live-orders", "live-payments"
MIXED, LOCKED, HOSTILE = "live-mixed", "live-locked", "live_<b>&'quoted'"


@pytest.fixture(scope="module")
def worked(broker: KafkaBroker) -> KafkaBroker:
    """A broker whose groups accepted, released, rejected, let locks expire, lag, or never began."""
    servers = broker.bootstrap_servers
    create_topics(servers, {ORDERS: 12, PAYMENTS: 2})
    produce(servers, ORDERS, numbered(1200, 12))
    produce(servers, PAYMENTS, numbered(200, 2))
    for group in (MIXED, LOCKED, HOSTILE):
        lock = {"share_record_lock_duration_ms": "6000"} if group == LOCKED else {}
        set_group_config(servers, group, share_auto_offset_reset="earliest", **lock)
    share_consume(servers, MIXED, [ORDERS], _mixed, until=900)
    share_consume(servers, HOSTILE, [PAYMENTS], accept, until=50)
    left: list[int] = []

    def decide(message: Message) -> AcknowledgeType | None:
        if len(left) < 5:
            left.append(message.offset() or 0)
            return None
        return AcknowledgeType.ACCEPT

    def wait(_: list[Delivery]) -> None:
        """A lock that ends is written: released batches appear in the state topic."""
        wait_until(lambda: _has_released(servers), "the locks have ended")

    share_consume(servers, LOCKED, [PAYMENTS], decide, until=120, wait_for_locks=wait)
    _quiet(broker)
    return broker


def _mixed(message: Message) -> AcknowledgeType:
    if message.offset() % 10 == 3 and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if message.offset() % 10 == 7 else AcknowledgeType.ACCEPT


def _has_released(servers: str) -> bool:
    windows = readings.windows(KafkaInput(client_config(servers)), "local").table.to_pylist()
    runs = [run for window in windows if window["group_id"] == LOCKED for run in window["runs"]]
    return any(run["delivery_state"] == 0 and run["delivery_count"] == 1 for run in runs)


def _quiet(broker: KafkaBroker) -> None:
    """Wait until the command prints the same twice, with the state topic unchanged in between."""
    config = client_config(broker.bootstrap_servers)

    def unchanged() -> bool:
        before, text = kafka.offset_ranges(config, STATE_TOPIC), broker.share_groups_describe()
        is_same = broker.share_groups_describe() == text
        return is_same and kafka.offset_ranges(config, STATE_TOPIC) == before

    wait_until(unchanged, "the state topic is quiet", every=1)


@pytest.mark.exhaustive  # `test_every_command.py` compares it, too
@SHARE_CONSUMERS
def test_every_row_is_kafkas(worked: KafkaBroker) -> None:
    rows = ask("lag", at=worked.bootstrap_servers)
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    theirs = parse_describe(worked.share_groups_describe())
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(
        tuple(row.values()) for row in theirs
    )
    assert {row["group_id"] for row in rows} >= {MIXED, LOCKED, HOSTILE}
    live = [row for row in rows if row["topic"] in (ORDERS, PAYMENTS)]
    assert any(row["lag"] for row in live)
    assert any(row["window_available"] for row in live)


@pytest.mark.exhaustive
@SHARE_CONSUMERS
def test_people_see_the_same_lines(worked: KafkaBroker) -> None:
    said = sharelag("lag", "--bootstrap-server", worked.bootstrap_servers, "--group", MIXED).stdout
    lines = [line.split()[:6] for line in said.splitlines()]
    theirs = worked.share_groups_describe(MIXED).splitlines()
    assert lines[0] == ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    wanted = [line.split() for line in theirs if line.startswith(MIXED)]
    assert sorted(lines[1:], key=lambda line: int(line[2])) == wanted  # numbers, not texts
    worst_first = [-1 if line[5] == "-" else int(line[5]) for line in lines[1:]]
    assert worst_first == sorted(worst_first, reverse=True)


@pytest.mark.exhaustive
@SHARE_CONSUMERS
def test_describe_without_a_sub_action_is_that_of_offsets(worked: KafkaBroker) -> None:
    plain, offsets, verbose = (
        described_offsets(worked.share_groups("--describe", "--group", MIXED, *more))
        for more in ((), ("--offsets",), ("--offsets", "--verbose"))
    )
    assert plain.num_rows > 0
    assert plain.equals(offsets)
    assert plain.drop_columns("leader_epoch").equals(verbose.drop_columns("leader_epoch"))


# ---- members that are Kafka's own consumers, which each version's brokers serve ----------------


def test_what_javas_members_did_is_the_lag_that_kafka_has(broker: KafkaBroker) -> None:
    """Some records are accepted, then some given back, then some accepted behind these."""
    servers, group, topic, records = broker.bootstrap_servers, "javas-members", "javas-orders", 60
    create_topics(servers, {topic: 1})
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    produce(servers, topic, numbered(records, 1), batch=5)
    with share_holders() as consumers:
        config = {"max.poll.records": "10", "share.acquire.mode": "record_limit"}
        for name in ("first", "second"):
            where = {"bootstrap": servers, "group": group, "topic": topic, "config": config}
            _do(consumers, "open", name, **where)
        accepted = _polled(consumers, "first")
        _do(consumers, "acknowledge", "first", type="ACCEPT")
        held = _polled(consumers, "first")
        accepted |= _polled(consumers, "second")
        _do(consumers, "acknowledge", "second", type="ACCEPT")
        _do(consumers, "acknowledge", "first", type="RELEASE")
        for name in ("first", "second"):
            _do(consumers, "close", name)
    (row,) = api.open(servers, engine="local", groups=group).lag().table.to_pylist()
    assert 0 < min(held) < max(accepted) < records
    assert row["start_offset"] <= min(held)
    (theirs,) = described_offsets(broker.share_groups_describe(group)).to_pylist()
    assert (theirs["start_offset"], theirs["lag"]) == (row["start_offset"], row["lag"])
    if has_reached(KAFKA_VERSION, "4.2"):
        assert row["lag"] == records - len(accepted)
    else:  # until then coordinators do not write how many are finished, and Kafka prints no lag
        assert (row["lag"], row["lag_reason"]) == (None, NO_COMPLETE_COUNT)


def _do(consumers: Oracle, what: str, member: str, **more: Any) -> dict[str, Any]:
    answer = consumers.ask({"do": what, "member": member, **more})
    assert "error" not in answer, answer
    assert not answer.get("refused"), answer
    return answer


def _polled(consumers: Oracle, member: str) -> set[int]:
    """Offsets of the next records that a member gets."""
    found: set[int] = set()

    def has_some() -> bool:
        found.update(o for _, o, _ in _do(consumers, "poll", member, ms=500)["records"])
        return bool(found)

    wait_until(has_some, f"{member} has records")
    return found
