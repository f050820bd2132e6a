"""The tables of ``capture --follow --lag-to`` are current, whenever the command was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sharelag.tables.lines import plain_rows
from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

PARTITIONS = 3


@pytest.fixture
def group(broker: KafkaBroker) -> str:
    """A group that has taken 30 of the 60 records of a topic of the same name."""
    name, servers = f"kept-{uuid4().hex[:8]}", broker.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    set_group_config(servers, name, share_auto_offset_reset="earliest")
    produce(servers, name, numbered(30, PARTITIONS))
    share_consume(servers, name, [name], accept, until=30)
    produce(servers, name, numbered(30, PARTITIONS))
    return name


def _read(place: Path, name: str, group: str) -> pa.Table:
    table = DeltaTable(str(place / name)).to_pyarrow_table()
    return table.filter(pc.equal(table.column("group_id"), group)).sort_by("partition")


def _lags(place: Path, group: str) -> list[int | None]:
    if not DeltaTable.is_deltatable(str(place / "lag")):
        return []
    found: list[int | None] = _read(place, "lag", group).column("lag").to_pylist()
    return found


def _told(command: str, archive: Path, group: str) -> list[dict[str, Any]]:
    answer = sharelag(command, "--capture", str(archive), "--group", group, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def _without_as_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "as_of"} for row in rows]


@contextmanager
def _following(broker: KafkaBroker, archive: Path, place: Path) -> Iterator[None]:
    """The command in separate processes, all of which are killed at the end."""
    code = "from sharelag.cli import main; main()"
    options = [
        "--every",
        "1s",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--lag-to",
        str(place),
    ]
    command = [sys.executable, "-c", code, "capture", str(archive), "--follow", *options]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "MASTER": "local[2]"},
    )
    try:
        yield
        assert process.poll() is None  # it was at work until it was killed
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        print(process.communicate()[1])


@pytest.mark.exhaustive
def test_killed_and_started_again(broker: KafkaBroker, group: str, tmp_path: Path) -> None:
    archive, place, servers = tmp_path / "archive", tmp_path / "now", broker.bootstrap_servers
    with _following(broker, archive, place):
        wait_until(
            lambda: _lags(place, group) == [10] * PARTITIONS, "the tables are there", timeout=120
        )
        produce(
            servers, group, numbered(6, PARTITIONS)
        )  # of which no record of the state topic comes
        wait_until(lambda: _lags(place, group) == [12] * PARTITIONS, "new records are lag")
        share_consume(servers, group, [group], accept, until=36)
        wait_until(lambda: _lags(place, group) == [0] * PARTITIONS, "what was taken is no lag")
    # Killed, they are whole, and what happens meanwhile they learn when it is started again.
    assert _read(place, "windows", group).num_rows == PARTITIONS
    produce(servers, group, numbered(21, PARTITIONS))
    share_consume(servers, group, [group], accept, until=21)
    produce(servers, group, numbered(9, PARTITIONS))
    before = [DeltaTable(str(place / name)).version() for name in ("windows", "lag")]
    with _following(broker, archive, place):
        wait_until(lambda: _lags(place, group) == [3] * PARTITIONS, "it has gone on", timeout=120)
        now = _without_as_of(plain_rows(_read(place, "lag", group)))
        wait_until(
            lambda: _without_as_of(_told("lag", archive, group)) == now, "the archive says the same"
        )
    assert [DeltaTable(str(place / name)).version() for name in ("windows", "lag")] > before
    result = [
        (row["topic"], row["partition"], row["start_offset"])
        for row in _told("windows", archive, group)
    ]
    windows = _read(place, "windows", group)
    assert [
        tuple(row.values())
        for row in windows.select(["topic", "partition", "start_offset"]).to_pylist()
    ] == result


@pytest.mark.exhaustive
def test_until_now_and_what_is_refused(
    broker: KafkaBroker, spark: SparkSession, group: str, tmp_path: Path
) -> None:
    place, servers = tmp_path / "now", broker.bootstrap_servers
    follow = [
        "capture",
        str(tmp_path / "archive"),
        "--follow",
        "--until-now",
        "--bootstrap-server",
        servers,
    ]
    done = sharelag(*follow, "--lag-to", str(place))
    assert done.returncode == 0, done.stderr
    assert _lags(place, group) == [10] * PARTITIONS
    assert list((tmp_path / "archive" / ".staging" / "lag").iterdir()) == []
    plain = sharelag(
        "capture", str(tmp_path / "plain"), "--lag-to", str(place), "--bootstrap-server", servers
    )
    assert (plain.returncode, "--lag-to needs --follow" in plain.stderr) == (2, True)
    exported = sharelag(
        "export", "--to", "delta", "--out", str(tmp_path / "lake"), "--bootstrap-server", servers
    )
    assert exported.returncode == 0, exported.stderr
    other = sharelag(*follow, "--lag-to", str(tmp_path / "lake"))
    assert other.returncode == 1
    assert "is a different table and would be replaced: choose another folder" in other.stderr
