"""`sharelag lag` prints what kafka-share-groups.sh prints, after everything consumers do."""

import sharelag as api
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.model.versions import has_reached
from sharelag.tables.gaps import NO_COMPLETE_COUNT
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.oracles import ShareHolders
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
)


# ---- members that are Kafka's own consumers, which each version's brokers serve ----------------
def test_what_javas_members_did_is_the_lag_that_kafka_has(broker: KafkaBroker) -> None:
    """Some records are accepted, then some given back, then some accepted behind these."""
    servers, group, topic, records = broker.bootstrap_servers, "javas-members", "javas-orders", 60
    create_topics(servers, {topic: 1})
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    produce(servers, topic, numbered(records, 1), batch=5)
    with ShareHolders() as consumers:
        config = {"max.poll.records": "10", "share.acquire.mode": "record_limit"}
        for name in ("first", "second"):
            where = {"bootstrap": servers, "group": group, "topic": topic, "config": config}
            consumers.do("open", name, **where)
        accepted = consumers.poll("first")
        consumers.do("acknowledge", "first", type="ACCEPT")
        held = consumers.poll("first")
        accepted |= consumers.poll("second")
        consumers.do("acknowledge", "second", type="ACCEPT")
        consumers.do("acknowledge", "first", type="RELEASE")
        for name in ("first", "second"):
            consumers.do("close", name)
    (row,) = api.open(servers, engine="local", groups=group).lag().table.to_pylist()
    first = min(offset for _, offset, _ in held)
    assert 0 < first < max(offset for _, offset, _ in accepted) < records
    assert row["start_offset"] <= first
    (theirs,) = parse_offsets(broker.share_groups_describe(group)).to_pylist()
    assert (theirs["start_offset"], theirs["lag"]) == (row["start_offset"], row["lag"])
    if has_reached(KAFKA_VERSION, "4.2"):
        assert row["lag"] == records - len(accepted)
    else:  # until then coordinators do not write how many are finished, and Kafka prints no lag
        assert (row["lag"], row["lag_reason"]) == (None, NO_COMPLETE_COUNT)
