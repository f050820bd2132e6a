"""What a plan of a reset says is what kafka-share-groups.sh then does, reset after reset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message

import sharelag
from sharelag.sources.files.printed_offsets import read_printed_offsets
from sharelag.sources.kafka.described import described_offsets
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
)

GROUP, TOPIC, RESETS = "reset-plans", "reset-plan-orders", 20


@pytest.fixture(scope="module", name="worked")
def group_at_work(broker: KafkaBroker) -> KafkaBroker:
    """A group that finished some records, gave some back, and has no members any more."""
    servers = broker.bootstrap_servers
    create_topics(servers, {TOPIC: 3})
    set_group_config(servers, GROUP, share_auto_offset_reset="earliest")
    produce(servers, TOPIC, numbered(90, 3), batch=5)
    work(broker, 40, mixed)
    return broker


def mixed(message: Message) -> AcknowledgeType:
    """Give every fourth record back at first."""
    again = (message.offset() or 0) % 4 == 1 and message.delivery_count() == 1
    return AcknowledgeType.RELEASE if again else AcknowledgeType.ACCEPT


def work(broker: KafkaBroker, records: int, how: Any = accept) -> None:
    share_consume(broker.bootstrap_servers, GROUP, [TOPIC], how, until=records)


def described(broker: KafkaBroker) -> dict[int, tuple[int | None, int | None]]:
    rows = described_offsets(broker.share_groups_describe(GROUP)).to_pylist()
    return {row["partition"]: (row["start_offset"], row["lag"]) for row in rows}


def test_twenty_resets_do_what_their_plans_say(worked: KafkaBroker) -> None:
    servers, random = worked.bootstrap_servers, Random("resets")
    times = [datetime.now(UTC)]
    moved = 0
    for number in range(RESETS):
        if number % 3 == 2:
            produce(servers, TOPIC, numbered(random.randrange(3, 30), 3), batch=3)
            times.append(datetime.now(UTC))
        kind = random.choice(["earliest", "latest", "datetime"])
        to: Any = kind
        if kind == "datetime":
            to = random.choice(times) + timedelta(milliseconds=random.randrange(-500, 500))
            to = to.replace(microsecond=to.microsecond // 1000 * 1000)
        bench = sharelag.open(servers, engine="local", groups=GROUP)
        plan = bench.plan_reset(GROUP, to, topic=TOPIC)
        rows = plan.table.to_pylist()
        (command,) = [note for note in plan.notes if note.endswith("--execute")]
        words = command.split("--group", 1)[1].split()
        worked.share_groups("--group", *words)
        found = described(worked)
        planned = {row["partition"]: (row["new_start_offset"], row["new_lag"]) for row in rows}
        assert found == planned, (number, to)
        moved += sum(row["new_start_offset"] != row["start_offset"] for row in rows)
        if number % 4 == 0 and any(lag for _, lag in found.values()):
            work(worked, 5)
    assert moved > RESETS


def test_what_is_planned_to_come_again_comes_again(worked: KafkaBroker) -> None:
    servers = worked.bootstrap_servers
    worked.share_groups(
        "--group", GROUP, "--topic", TOPIC, "--reset-offsets", "--to-earliest", "--execute"
    )
    work(worked, 30, mixed)
    bench = sharelag.open(servers, engine="local", groups=GROUP)
    rows = bench.plan_reset(GROUP, "earliest").table.to_pylist()
    lag = bench.lag(GROUP).table.to_pylist()
    again = sum(row["again"] for row in rows)
    assert again == sum(row["end_offset"] for row in lag) - sum(row["lag"] for row in lag) > 0
    worked.share_groups(
        "--group", GROUP, "--topic", TOPIC, "--reset-offsets", "--to-earliest", "--execute"
    )
    count = sum(row["end_offset"] for row in lag)
    seen = share_consume(servers, GROUP, [TOPIC], accept, until=count)
    assert {(one.partition, one.offset) for one in seen} >= {
        (row["partition"], offset) for row in lag for offset in range(row["end_offset"])
    }


def test_what_kafkas_command_prints_of_local_offsets_is_read(
    worked: KafkaBroker, tmp_path: Path
) -> None:
    done = worked.run_tool(
        "org.apache.kafka.tools.GetOffsetShell",
        *("--bootstrap-server", worked.bootstrap_servers, "--topic", TOPIC),
        *("--time", "earliest-local"),
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "local.txt").write_text(done.stdout)
    found = read_printed_offsets(tmp_path / "local.txt").to_pylist()
    assert [(row["topic"], row["partition"]) for row in found] == [(TOPIC, n) for n in range(3)]
    # Without remote storage all of a log is on the broker's own disk.
    bench = sharelag.open(worked.bootstrap_servers, engine="local")
    plan = bench.plan_reset(GROUP, "earliest", local_offsets=tmp_path / "local.txt")
    assert plan.table.column("remote").to_pylist() == [0, 0, 0]
