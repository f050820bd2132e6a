"""What Kafka's own consumers print is read as the deliveries that they had."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from sharelag.sources.files.consumed import ConsumedLog
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import create_topics, numbered, produce, set_group_config
from tests.support.request_lines import rows

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
TOPIC, RECORDS = "printed-deliveries", 12
PRINTS = [
    word
    for name in ("timestamp", "partition", "offset", "delivery", "key", "headers")
    for word in ("--formatter-property", f"print.{name}=true")
]


def printed(folder: Path, done: CompletedProcess[str]) -> ConsumedLog:
    path = folder / "printed.txt"
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout, "utf-8")
    return ConsumedLog(path)


def test_deliveries_and_outcomes_are_those_of_kafkas_consumers(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create_topics(servers, {TOPIC: 1})
    produce(servers, TOPIC, numbered(RECORDS, 1))
    groups = ("console-deliveries", "verified-deliveries")
    for group in groups:
        set_group_config(servers, group, **{"share.auto.offset.reset": "earliest"})
    given: tuple[Any, ...] = ("--bootstrap-server", servers, "--topic", TOPIC)
    console = (*given, "--group", groups[0], *PRINTS, "--max-messages", str(RECORDS))
    for count, options in ((1, ("--release",)), (2, ())):
        done = broker.run_tool(SHARE_CONSOLE, *console, "--timeout-ms", "40000", *options)
        log = printed(tmp_path, done)
        table = log.tables["deliveries"]
        assert rows(table, "partition", "offset", "delivery_count") == [
            (0, offset, count) for offset in range(RECORDS)
        ]
        assert table.column("timestamp").null_count == log.tables["rejects"].num_rows == 0
    done = broker.run_tool(CONSOLE, *given, *PRINTS, "--from-beginning", "--max-messages", "3")
    table = printed(tmp_path, done).tables["deliveries"]
    assert rows(table, "offset", "delivery_count") == [(0, None), (1, None), (2, None)]
    done = broker.run_tool(
        *(VERIFIABLE, *given, "--group-id", groups[1], "--max-messages", str(RECORDS)),
        *("--acknowledgement-mode", "sync"),
    )
    tables = printed(tmp_path, done).tables
    assert tables["deliveries"].column("offset").to_pylist() == list(range(RECORDS))
    assert (
        rows(tables["outcomes"], "topic", "partition", "succeeded", "error_message")
        == [(TOPIC, 0, True, None)] * tables["outcomes"].num_rows
    )
    heard = rows(tables["outcomes"], "first_offset", "last_offset")
    assert [offset for first, last in heard for offset in range(first, last + 1)] == list(
        range(RECORDS)
    )
