"""What a plan of a deletion says is what a group finds that comes back, on three brokers."""

from typing import Any

import pytest

import sharelag
from sharelag.inputs.kafka.described import parse_offsets
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    Delivery,
    accept,
    create_topics,
    numbered,
    produce,
    release_at_first,
    set_group_config,
    share_consume,
    share_consumer,
    some_of_each,
    wait_until,
)

TOPICS = ("delete-plan-a", "delete-plan-b")


def topics_of(group: str) -> list[str]:
    return [f"{topic}-{group.rpartition('-')[2]}" for topic in TOPICS]


@pytest.fixture(name="group")
def group_at_work(first: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """A group of two topics that has finished some records of both, and has no members."""
    begins = str(request.param)
    group, servers = f"delete-plans-{begins.partition(':')[0]}", first.bootstrap_servers
    topics = topics_of(group)
    create_topics(servers, dict.fromkeys(topics, 2), copies=3)
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    for topic in topics:
        produce(servers, topic, numbered(40, 2), batch=5)
    share_consume(servers, group, topics, release_at_first, until=some_of_each(60, 4))
    set_group_config(servers, group, share_auto_offset_reset=begins)
    return group


def describe(first: KafkaBroker, group: str) -> dict[tuple[str, int], Any]:
    rows = parse_offsets(first.share_groups_describe(group)).to_pylist()
    return {(row["topic"], row["partition"]): row["start_offset"] for row in rows}


def run(first: KafkaBroker, notes: tuple[str, ...]) -> str:
    (line,) = [note.partition(": ")[2] for note in notes if "Kafka's command" in note]
    return first.run_line(line)


def seen_again(first: KafkaBroker, group: str, topics: list[str], count: int) -> set[Any]:
    seen = share_consume(first.bootstrap_servers, group, topics, accept, until=count)
    return {(one.topic, one.partition, one.offset) for one in seen}


@pytest.mark.parametrize("group", ["earliest"], indirect=True)
def test_deleted_offsets_of_a_topic_begin_anew(first: KafkaBroker, group: str) -> None:
    servers = first.bootstrap_servers
    topics = topics_of(group)
    plan = sharelag.open(servers, engine="local", groups=group).plan_delete(group, topics[0])
    rows = plan.table.to_pylist()
    assert [(row["topic"], row["new_start_offset"]) for row in rows] == [(topics[0], 0)] * 2
    assert sum(row["again"] for row in rows) > 0
    before = describe(first, group)
    run(first, plan.notes)
    after = describe(first, group)
    assert after == {place: start for place, start in before.items() if place[0] == topics[1]}
    planned = sum(row["new_lag"] for row in rows)
    seen = seen_again(first, group, [topics[0]], planned)
    assert seen == {
        (topics[0], row["partition"], offset)
        for row in rows
        for offset in range(row["new_start_offset"], row["new_start_offset"] + row["new_lag"])
    }


@pytest.mark.parametrize("group", ["latest"], indirect=True)
def test_a_deleted_group_begins_at_the_end(first: KafkaBroker, group: str) -> None:
    servers = first.bootstrap_servers
    topics = topics_of(group)
    plan = sharelag.open(servers, engine="local", groups=group).plan_delete(group)
    rows = plan.table.to_pylist()
    assert {(r["topic"], r["partition"]) for r in rows} == {(t, p) for t in topics for p in (0, 1)}
    assert {row["new_lag"] for row in rows} == {0}
    assert sum(row["skipped"] for row in rows) == sum(
        row["lag"] for row in sharelag.open(servers, engine="local").lag(group).table.to_pylist()
    )
    run(first, plan.notes)
    assert group not in first.share_groups("--list").split()
    # It comes back, and gets nothing but what comes from then on.
    starts = {(row["topic"], row["partition"]): row["new_start_offset"] for row in rows}

    def every_partition(sofar: list[Delivery]) -> bool:
        seen = {(one.topic, one.partition) for one in sofar}
        for topic, partition in starts.keys() - seen:
            produce(servers, topic, [(partition, None, b"new")])
        return seen == starts.keys()

    seen = share_consume(servers, group, topics, accept, until=every_partition)
    assert all(one.offset >= starts[one.topic, one.partition] for one in seen)


@pytest.mark.exhaustive  # the two before run the commands of plans, too
@pytest.mark.parametrize("group", ["by_duration:PT1H"], indirect=True)
def test_kafka_refuses_while_the_group_has_members(first: KafkaBroker, group: str) -> None:
    servers, topics = first.bootstrap_servers, topics_of(group)
    member = share_consumer(servers, group, topics)
    try:
        wait_until(lambda: member.poll(0.5) is not None and has_members(first, group), "it is in")
        bench = sharelag.open(servers, engine="local", groups=group)
        for chosen in ([], topics):
            plan = bench.plan_delete(group, chosen)
            assert any("while the group has members (NON_EMPTY_GROUP)" in n for n in plan.notes)
            with pytest.raises(RigError):
                run(first, plan.notes)
        assert describe(first, group)
    finally:
        member.close()
    wait_until(lambda: not has_members(first, group), "it has left")
    again = sharelag.open(servers, engine="local", groups=group).plan_delete(group, topics)
    assert not any("NON_EMPTY_GROUP" in note for note in again.notes)
    # All records are younger than an hour.
    assert set(again.table.column("new_start_offset").to_pylist()) == {0}
    run(first, again.notes)
    total = sum(again.table.column("new_lag").to_pylist())
    assert len(seen_again(first, group, topics, total)) == total


def has_members(first: KafkaBroker, group: str) -> bool:
    return "CONSUMER-ID" in first.share_groups("--describe", "--group", group, "--members")
