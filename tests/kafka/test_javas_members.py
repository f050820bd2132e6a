"""The lag of a group whose members are Kafka's own consumers, which each version's brokers serve."""

from __future__ import annotations

from typing import Any

import sharelag
from sharelag.model.versions import has_reached
from sharelag.sources.kafka.described import described_offsets
from sharelag.tables.reasons import NO_COMPLETE_COUNT
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.oracles import Oracle, share_holders
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    wait_until,
)

GROUP, TOPIC, RECORDS = "javas-members", "javas-orders", 60


def test_what_they_did_is_the_lag_that_kafka_has(broker: KafkaBroker) -> None:
    """Some records are accepted, then some given back, then some accepted behind these."""
    servers = broker.bootstrap_servers
    create_topics(servers, {TOPIC: 1})
    set_group_config(servers, GROUP, share_auto_offset_reset="earliest")
    produce(servers, TOPIC, numbered(RECORDS, 1), batch=5)
    with share_holders() as consumers:
        config = {"max.poll.records": "10", "share.acquire.mode": "record_limit"}
        for name in ("first", "second"):
            where = {"bootstrap": servers, "group": GROUP, "topic": TOPIC, "config": config}
            ask(consumers, "open", name, **where)
        accepted = polled(consumers, "first")
        ask(consumers, "acknowledge", "first", type="ACCEPT")
        held = polled(consumers, "first")
        accepted |= polled(consumers, "second")
        ask(consumers, "acknowledge", "second", type="ACCEPT")
        ask(consumers, "acknowledge", "first", type="RELEASE")
        for name in ("first", "second"):
            ask(consumers, "close", name)
    (row,) = sharelag.open(servers, engine="local", groups=GROUP).lag().table.to_pylist()
    assert 0 < min(held) < max(accepted) < RECORDS
    assert row["start_offset"] <= min(held)
    (theirs,) = described_offsets(broker.share_groups_describe(GROUP)).to_pylist()
    assert (theirs["start_offset"], theirs["lag"]) == (row["start_offset"], row["lag"])
    if has_reached(KAFKA_VERSION, "4.2"):
        assert row["lag"] == RECORDS - len(accepted)
    else:  # until then coordinators do not write how many are finished, and Kafka prints no lag
        assert (row["lag"], row["lag_reason"]) == (None, NO_COMPLETE_COUNT)


def ask(consumers: Oracle, do: str, member: str, **more: Any) -> dict[str, Any]:
    answer = consumers.ask({"do": do, "member": member, **more})
    assert "error" not in answer, answer
    assert not answer.get("refused"), answer
    return answer


def polled(consumers: Oracle, member: str) -> set[int]:
    """Offsets of the next records that a member gets."""
    found: set[int] = set()

    def has_some() -> bool:
        found.update(o for _, o, _ in ask(consumers, "poll", member, ms=500)["records"])
        return bool(found)

    wait_until(has_some, f"{member} has records")
    return found
