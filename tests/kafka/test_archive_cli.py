"""An archive made by the command line is an input like any other, and knows the past."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message
from pyspark.sql import SparkSession

from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
)

#: The commands that need Spark find that of this process.
pytestmark = pytest.mark.usefixtures("spark")
TOPIC, GROUP = "archived-orders", "archived"


def _accept(_: Message) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT


def lag(*arguments: str) -> list[dict[str, Any]]:
    answer = sharelag("lag", *arguments, "--group", GROUP, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.fixture(scope="module")
def archived(
    broker: KafkaBroker, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Any], list[Any]]:
    """An archive that was added to twice, and the live lag at both times."""
    servers, folder = broker.bootstrap_servers, tmp_path_factory.mktemp("cli") / "archive"
    create_topics(servers, {TOPIC: 2})
    set_group_config(servers, GROUP, **{"share.auto.offset.reset": "earliest"})
    lives = []
    for _ in range(2):
        produce(servers, TOPIC, numbered(40, 2), batch=5)
        share_consume(servers, GROUP, [TOPIC], _accept, until=20, config={"max.poll.records": 5})
        answer = sharelag(
            "capture", str(folder), "--follow", "--until-now", "--bootstrap-server", servers
        )
        assert answer.returncode == 0, answer.stderr
        lives.append(lag("--bootstrap-server", servers))
    return folder, lives[0], lives[1]


def numbers(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        tuple(row[name] for name in ("topic", "partition", "start_offset", "end_offset", "lag"))
        for row in rows
    ]


def test_lag_of_the_archive_is_that_of_the_cluster(
    archived: tuple[Path, list[Any], list[Any]],
) -> None:
    folder, _, now = archived
    assert numbers(lag("--capture", str(folder))) == numbers(now)
    assert all(row["lag"] is not None for row in now)


def test_the_archive_knows_the_past(archived: tuple[Path, list[Any], list[Any]]) -> None:
    """As of the first sample of end offsets, which is known exactly."""
    folder, before, _ = archived
    sampled = sorted(row["as_of"] for row in lag("--capture", str(folder)))
    first = min(datetime.fromisoformat(row["as_of"]) for row in before)
    assert first.isoformat() < sampled[0]
    rows = lag("--capture", str(folder), "--as-of", first.isoformat())
    assert [row["start_offset"] for row in rows] == [row["start_offset"] for row in before]
    assert {row["lag_reason"] for row in rows} <= {None, "no_end_offset_then"}


def test_other_commands_take_it(archived: tuple[Path, list[Any], list[Any]]) -> None:
    folder = str(archived[0])
    for command in ("explain", "history", "imbalance", "windows"):
        answer = sharelag(command, "--capture", folder, "--group", GROUP)
        assert answer.returncode == 0, answer.stderr
        assert GROUP in answer.stdout
    assert sharelag("health", "--capture", folder).returncode == 0


def test_it_is_neither_overwritten_nor_mixed(
    archived: tuple[Path, list[Any], list[Any]], broker: KafkaBroker, tmp_path: Path
) -> None:
    folder, servers = str(archived[0]), broker.bootstrap_servers
    assert (
        sharelag(
            "capture", folder, "--follow", "--overwrite", "--bootstrap-server", servers
        ).returncode
        == 2
    )
    assert sharelag("capture", folder, "--until-now", "--bootstrap-server", servers).returncode == 2
    plain = sharelag("capture", folder, "--overwrite", "--bootstrap-server", servers)
    assert plain.returncode == 1
    assert "exists already" in plain.stderr
    (tmp_path / "mine.txt").write_text("work")
    other = sharelag(
        "capture", str(tmp_path), "--follow", "--until-now", "--bootstrap-server", servers
    )
    assert other.returncode == 1
    assert "is not an archive and not empty" in other.stderr
