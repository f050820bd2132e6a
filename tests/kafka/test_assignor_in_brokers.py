"""The jar of assignors inside brokers, which call it whenever a group changes."""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from itertools import chain

import pytest
from confluent_kafka import ShareConsumer

from sharelag.whatif import assign
from tests.support.command import rows_of, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import COMPARED
from tests.support.kafka.since import SHARE_CONSUMERS
from tests.support.kafka.workload import create_topics, share_consumer, wait_until
from tools.assignors import assignors_jar

pytestmark = SHARE_CONSUMERS
PARTITIONS = 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", COMPARED)
def test_brokers_assign_by_sticky_spread(version: str) -> None:
    settings = {"group.share.assignors": "sharelag.assignor.StickySpreadAssignor"}
    broker = KafkaBroker(properties=settings, version=version, libraries=[assignors_jar()])
    with broker, ExitStack() as consumers:
        servers = broker.bootstrap_servers
        create_topics(servers, {"orders": PARTITIONS})
        crowd: list[ShareConsumer] = []
        held: dict[str, list[int]] = {}
        for _ in range(4):
            new = share_consumer(servers, "crowd", ["orders"])
            crowd.append(consumers.enter_context(closing(new)))
            before = held

            def has_settled(before: dict[str, list[int]] = before) -> bool:
                nonlocal held
                for consumer in crowd:
                    consumer.poll(0.2)
                held = _held(servers)
                return len(held) == len(crowd) and held == _expected(held, before)

            wait_until(has_settled, f"{len(crowd)} members have what sticky-spread gives them")
        # Kafka's own assignor gives each of five partitions one of four members.
        assert min(Counter(chain(*held.values())).values()) >= 2


def _expected(members: Iterable[str], before: dict[str, list[int]]) -> dict[str, list[int]]:
    group = [
        {"id": member, "subscribed": ["orders"], "current": {"orders": before.get(member, [])}}
        for member in members
    ]
    answer = assign("sticky-spread", group, {"orders": {"partitions": PARTITIONS}})
    return {member: topics.get("orders", []) for member, topics in answer.items()}


def _held(servers: str) -> dict[str, list[int]]:
    done = sharelag("members", "--bootstrap-server", servers, "-o", "json")
    if done.returncode:  # no group has been written yet, or its topic has no leader yet
        return {}
    rows = rows_of(done)
    return {
        r["member_id"]: sorted(p for topic in r["assigned_partitions"] for p in topic["partitions"])
        for r in rows
    }
