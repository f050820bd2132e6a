"""A live broker's log of requests against what its eight share consumers know themselves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from sharelag.replay.holds import held_at
from sharelag.sources.files.request_log import RequestLog
from sharelag.workbench.requests import Requests
from tests.support.kafka import holders
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.holders import Ledger
from tests.support.kafka.workload import create_topics, numbered, produce, set_group_config

GROUP, TOPIC, LOCK_MS = "holders", "held-orders", 4_000


@dataclass
class Run:
    """What the members and the broker wrote down."""

    ledger: Ledger
    log: Path


@pytest.fixture(scope="module", name="run")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with KafkaBroker(log_requests=True) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {TOPIC: 4})
        duration = {"share_record_lock_duration_ms": str(LOCK_MS)}
        set_group_config(servers, GROUP, share_auto_offset_reset="earliest", **duration)
        records = numbered(2_000, 4)
        ledger = holders.run(
            servers,
            GROUP,
            TOPIC,
            rounds=10,
            lock_ms=LOCK_MS,
            produce=lambda: produce(servers, TOPIC, records, batch=10),
        )
        broker.stop()
        log = tmp_path_factory.mktemp("requests") / "kafka-request.log"
        shutil.copy(broker.request_log, log)
        yield Run(ledger, log)


def by_member(requests: Requests, rows: pa.Table) -> dict[str, set[tuple[int, int, int]]]:
    """Records by the client.id of who has them."""
    named = requests.table("requests").select(["member_id", "client_id"]).to_pylist()
    clients = {row["member_id"]: row["client_id"] for row in named}
    found: dict[str, set[tuple[int, int, int]]] = {}
    for row in rows.to_pylist():
        records = found.setdefault(clients[row["member_id"]], set())
        for offset in range(row["first_offset"], row["last_offset"] + 1):
            records.add((row["partition"], offset, row["delivery_count"]))
    return found


def test_every_acquisition_of_a_run_is_found(run: Run) -> None:
    requests = Requests(RequestLog(run.log))
    assert not requests.table("rejects").num_rows
    found = by_member(requests, requests.table("acquisitions"))
    assert found == {name: set(records) for name, records in run.ledger.given.items()}


def test_who_holds_what_at_random_moments_is_what_the_members_say(run: Run) -> None:
    requests = Requests(RequestLog(run.log))
    moments = run.ledger.moments
    assert len(moments) >= 10
    for one in moments:
        assert by_member(requests, held_at(requests.holds, one.at)) == one.held
    ends = set(requests.holds.column("ended_by").to_pylist())
    assert ends >= {"accept", "release", "reject", "lock expired"}


def test_a_broker_keeps_kafkas_rules(run: Run) -> None:
    assert Requests(RequestLog(run.log)).findings().to_pylist() == []
