"""`sharelag lag` prints what kafka-share-groups.sh prints, after everything consumers do."""

from typing import Any

import sharelag as api
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.model.versions import has_reached
from sharelag.tables.gaps import NO_COMPLETE_COUNT
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
    (theirs,) = parse_offsets(broker.share_groups_describe(group)).to_pylist()
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
