"""The ledger of a queue that is filled as KIP-1191 says, from what a live group gave up.

Three brokers have the topic and the queue.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer
from pyspark.sql import SparkSession

import sharelag
from sharelag.metrics.dead_letter_ledger import EITHER, LIMIT, REJECTED
from tests.support.command import sharelag as command
from tests.support.dead_letters import EXCEEDED, Letter
from tests.support.dead_letters import REJECTED as SAID_REJECTED
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import kafka_jars
from tests.support.kafka.jvm import java_command
from tests.support.kafka.workload import (
    create_topics,
    end_offsets,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

GROUP, TOPIC, QUEUE = "letters-billing", "letters-orders", "dlq.letters"
LIMIT_OF_GROUP, RECORDS, PARTITIONS = 2, 60, 3
SECRET = "4111-1111"


def fate(offset: int) -> str:
    return {0: "rejects", 3: "fails"}.get(offset % 10, "accepts")


def decide(message: Message) -> AcknowledgeType:
    kinds = {"rejects": AcknowledgeType.REJECT, "fails": AcknowledgeType.RELEASE}
    return kinds.get(fate(message.offset() or 0), AcknowledgeType.ACCEPT)


@pytest.fixture(scope="module", name="worked")
def group_that_gave_up(first: KafkaBroker) -> KafkaBroker:
    """A group of 60 records, of which it rejects every tenth, and another tenth always fails."""
    servers = first.bootstrap_servers
    create_topics(servers, {TOPIC: PARTITIONS, QUEUE: 2}, copies=3)
    settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"}
    set_group_config(servers, GROUP, **settings)
    produce(servers, TOPIC, numbered(RECORDS, PARTITIONS, SECRET), batch=1)
    again = RECORDS // 10
    share_consume(servers, GROUP, [TOPIC], decide, until=RECORDS + again)
    bench = sharelag.open(servers, engine="local")
    wait_until(
        lambda: not any(bench.refresh().lag(GROUP).table.column("lag").to_pylist()),
        "all is finished",
        60,
    )
    return first


@pytest.fixture(scope="module", name="letters")
def filled_queue(worked: KafkaBroker) -> dict[tuple[int, int], int]:
    """Write the queue as a broker would, but for some records, and some twice; how often each."""
    producer = Producer({"bootstrap.servers": worked.bootstrap_servers})
    copies, written = cycle([1, 0, 2]), dict[tuple[int, int], int]()
    for partition in range(PARTITIONS):
        for offset in range(RECORDS // PARTITIONS):
            kind = fate(offset)
            if kind == "accepts":
                continue
            count, said = (1, SAID_REJECTED) if kind == "rejects" else (LIMIT_OF_GROUP, EXCEEDED)
            letter = Letter(GROUP, TOPIC, partition, offset, count, said)
            written[partition, offset] = next(copies)
            for _ in range(written[partition, offset]):
                producer.produce(QUEUE, None, None, partition % 2, headers=letter.headers)
    producer.produce(QUEUE, b"not a letter", None, 0)
    assert producer.flush(30) == 0
    return written


def expected(written: dict[tuple[int, int], int]) -> dict[tuple[int, int], tuple[str, str]]:
    names = ("missing", "written", "duplicate")
    return {
        (partition, offset): (
            names[count],
            LIMIT if fate(offset) == "fails" else REJECTED if count else EITHER,
        )
        for (partition, offset), count in written.items()
    }


def found(rows: list[dict[str, object]]) -> dict[tuple[int, int], tuple[str, str]]:
    return {
        (row["partition"], offset): (row["status"], row["reason"])  # type: ignore[misc]
        for row in rows
        if row["first_offset"] is not None
        for offset in range(row["first_offset"], row["last_offset"] + 1)  # type: ignore[operator,call-overload]
    }


def test_every_record_that_was_given_up_is_in_the_ledger(
    worked: KafkaBroker, letters: dict[tuple[int, int], int], spark: SparkSession
) -> None:
    servers = worked.bootstrap_servers
    local = sharelag.open(servers, engine="local").dead_letters(GROUP, QUEUE)
    assert found(local.table.to_pylist()) == expected(letters)
    counts = Counter(local.table.column("status").to_pylist())
    assert counts["unreadable"] == 1
    assert all(row["retained"] for row in local.table.to_pylist() if row["offsets"])
    on_spark = sharelag.open(servers, spark=spark).dead_letters(GROUP, QUEUE)
    assert on_spark.engine == "spark"
    assert found(on_spark.table.to_pylist()) == expected(letters)
    assert on_spark.notes == local.notes
    done = command("dlq", "--bootstrap-server", servers, "--group", GROUP, "--queue", QUEUE)
    assert done.returncode == 0
    assert local.notes[0] in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_redrive_sends_what_was_given_up_by_kafkas_own_tools(
    worked: KafkaBroker, letters: dict[tuple[int, int], int], tmp_path: Path
) -> None:
    """Each command reads just the records of its row, from the topic."""
    servers = worked.bootstrap_servers
    before = sum(end_offsets(servers, [TOPIC]).values())
    options = ("--group", GROUP, "--queue", QUEUE, "--redrive", "--status", "missing")
    done = command("dlq", "--bootstrap-server", servers, *options, "-o", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    missing = {place for place, count in letters.items() if not count}
    assert set(found(rows)) == missing
    assert {row["from"] for row in rows} == {"source"}
    assert sum(end_offsets(servers, [TOPIC]).values()) == before  # nothing was sent
    reader, writer = rows[0]["command"].split(" | ")
    given = reader.split()[1:]
    read = worked.run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *given)
    numbers = [line.split("\t")[0] for line in read.stdout.splitlines() if "\t" in line]
    first, partition = rows[0]["first_offset"], rows[0]["partition"]
    assert numbers == [str((first + n) * PARTITIONS + partition) for n in range(rows[0]["offsets"])]
    text = tmp_path / "records"
    text.write_text("".join(f"{line}\n" for line in read.stdout.splitlines() if "\t" in line))
    command_line = java_command(
        [kafka_jars() / "*"], "org.apache.kafka.tools.ConsoleProducer", *writer.split()[1:]
    )
    with text.open() as records:
        sent = subprocess.run(
            command_line, stdin=records, capture_output=True, text=True, check=False, timeout=120
        )
    assert sent.returncode == 0, sent.stderr
    assert sum(end_offsets(servers, [TOPIC]).values()) == before + rows[0]["offsets"]
