"""A live broker's log of requests against what its eight share consumers know themselves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.quick import QuickReading
from sharelag.replay.holds import held_at
from sharelag.schemas.requests import INSTANT
from sharelag.sources.files.request_log import RequestLog
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka.config import client_config
from sharelag.workbench.requests import Requests
from tests.support.kafka import holders
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.holders import Ledger
from tests.support.kafka.workload import create_topics, numbered, produce, set_group_config

GROUP, TOPIC, LOCK_MS = "holders", "held-orders", 6_000


@dataclass
class Run:
    """What the members and the broker wrote down."""

    ledger: Ledger
    log: Path
    history: pa.Table


@pytest.fixture(scope="module", name="run")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with KafkaBroker(log_requests=True) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {TOPIC: 4})
        duration = {"share_record_lock_duration_ms": str(LOCK_MS)}
        set_group_config(servers, GROUP, share_auto_offset_reset="earliest", **duration)
        records = numbered(8_000, 4)
        ledger = holders.run(
            servers,
            GROUP,
            TOPIC,
            rounds=10,
            lock_ms=LOCK_MS,
            produce=lambda: produce(servers, TOPIC, records, batch=10),
        )
        source = KafkaInput(client_config(servers))
        history = QuickReading(source).history().table
        broker.stop()
        log = tmp_path_factory.mktemp("requests") / "kafka-request.log"
        shutil.copy(broker.request_log, log)
        yield Run(ledger, log, history)


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
    acquired = requests.table("acquisitions")
    moments = run.ledger.moments
    assert len(moments) >= 10
    told = 0
    for one in moments:
        # A broker that is very busy writes a line long after its client was answered.
        later = pc.greater(acquired.column("timestamp"), pa.scalar(one.at).cast(INSTANT))
        late = by_member(requests, acquired.filter(later))
        if not any(late.get(name, set()) & held for name, held in one.held.items()):
            assert by_member(requests, held_at(requests.holds, one.at)) == one.held
            told += 1
    assert told >= 5
    ends = set(requests.holds.column("ended_by").to_pylist())
    assert ends >= {"accept", "release", "reject"}
    # The broker writes that a lock has expired, by its own clock: that may come first in the log.
    assert ends & {"lock expired", "state written"}


def test_memberships_and_batching_are_those_of_the_members(run: Run) -> None:
    requests = Requests(RequestLog(run.log))
    members = requests.table("memberships").to_pylist()
    named = requests.table("requests").select(["member_id", "client_id"]).to_pylist()
    clients = {row["member_id"]: row["client_id"] for row in named}
    assert {clients[row["member_id"]] for row in members} == set(run.ledger.given)
    for member in {row["member_id"] for row in members}:
        spans = [row for row in members if row["member_id"] == member]
        # Each joined in this log, was given partitions of the topic, and left in good order.
        assert spans[0]["since"] == spans[0]["joined"]
        assert all(row["until"] == after["since"] for row, after in pairwise(spans))
        assert {row["ended_by"] for row in spans[:-1]} <= {"changed"}
        assert spans[-1]["ended_by"] == "left"
        assert any(row["assigned_partitions"] for row in spans)
        assert all(row["subscribed_topic_names"] == [TOPIC] for row in spans)
    sessions = requests.table("sessions").to_pylist()
    assert {clients[row["member_id"]] for row in sessions} == set(run.ledger.given)
    assert {row["partition"] for row in sessions} == {0, 1, 2, 3}
    assert all(row["until"] for row in sessions)
    batched = requests.table("batching")
    given = sum(len(records) for records in run.ledger.given.values())
    assert pc.sum(batched.column("acquired_offsets")).as_py() == given
    assert pc.sum(batched.column("whole_runs")).as_py() > 0


def test_a_broker_keeps_kafkas_rules(run: Run) -> None:
    requests = Requests(RequestLog(run.log))
    assert requests.findings(run.history).to_pylist() == []


def test_a_write_whose_record_is_gone_is_found(run: Run) -> None:
    requests = Requests(RequestLog(run.log))
    updates = [
        at
        for at, kind in enumerate(run.history.column("record_kind").to_pylist())
        if kind == "update"
    ]
    # Locks that end together are written together, and a record of each may stand for the others.
    without = run.history.take([at for at in range(run.history.num_rows) if at not in updates[5:]])
    found = requests.findings(without).column("finding").to_pylist()
    assert "write without a record" in found
