"""A live broker's request log against what its eight share consumers know themselves."""

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.engine.local import QuickReading
from sharelag.inputs import KafkaInput
from sharelag.inputs.files.request_log import RequestLog
from sharelag.inputs.kafka.config import client_config
from sharelag.replay.holds import held_at
from sharelag.schemas import INSTANT
from sharelag.workbench.side_inputs import Requests
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.oracles import ShareHolders
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    wait_until,
)

pytestmark = pytest.mark.exhaustive
GROUP, TOPIC = "holders", "held-orders"
#: What each member does with what it was given.
MEMBERS = {
    "accepts-1": "ACCEPT",
    "accepts-2": "ACCEPT",
    "releases-1": "RELEASE",
    "releases-2": "RELEASE",
    "rejects": "REJECT",
    "renews-1": "RENEW",
    "renews-2": "RENEW",
    "hangs": None,
}
#: An even number: who renews accepts in the next one.
ROUNDS = 10
#: One record at one member: its partition, offset and delivery count.
Given = tuple[int, int, int]
#: Microseconds of a lock, which by default is longer than a round on any machine; and those before
#: and after its end in which a member cannot say whether it still has it: the broker's timer is
#: late on a busy machine.
_LOCK, _BEFORE, _AFTER = 30_000_000, 300_000, 2_500_000


@dataclass
class Ledger:
    """The deliveries that members wrote down, and who had what at some moments."""

    given: dict[str, set[Given]] = field(default_factory=lambda: {name: set() for name in MEMBERS})
    #: Microseconds since the epoch, and records by member.
    moments: list[tuple[int, dict[str, set[Given]]]] = field(default_factory=list)


def run_members(servers: str) -> Ledger:
    """Let the members work for some rounds, and until the lock of the one that hangs has ended."""
    ledger, chance, holds = Ledger(), random.Random(1), dict[str, set[Given]]()
    config = {"max.poll.records": "10", "share.acquire.mode": "record_limit"}
    config["fetch.max.wait.ms"] = "100"
    with ShareHolders() as clients:

        def note() -> None:
            """Note who has what while nobody does anything, if all can say what they have.

            A busy broker writes the line of a request some time after the client has its answer,
            and the line's time is that of writing.
            """
            time.sleep(0.5 + 0.2 * chance.random())
            at = _now()
            if at > taken + _LOCK + _AFTER:
                holds.pop("hangs", None)
            elif at > begun + _LOCK - _BEFORE:
                return
            time.sleep(0.02)
            ledger.moments.append((at, dict(holds)))

        for name in MEMBERS:
            clients.do("open", name, bootstrap=servers, group=GROUP, topic=TOPIC, config=config)
        seen: set[str] = set()

        def all_joined() -> bool:
            # Groups are assigned with heartbeats, which polls begin.
            seen.update(name for name in MEMBERS if not clients.do("poll", name, ms=300)["records"])
            return len(seen) == len(MEMBERS)

        wait_until(all_joined, "all members have joined")  # so that none takes everything
        begun = _now()
        produce(servers, TOPIC, numbered(8_000, 4), batch=10)
        ledger.given["hangs"] = holds["hangs"] = clients.poll("hangs")
        taken = _now()
        working = {name: does for name, does in MEMBERS.items() if does}
        for number in range(ROUNDS):
            for name in working:
                found = clients.poll(name)
                assert holds.setdefault(name, found) == found  # what is renewed comes once more
                ledger.given[name] |= found
            note()
            for name, does in working.items():
                is_renewed = does == "RENEW" and number % 2 == 0
                clients.do(
                    "acknowledge", name, type="ACCEPT" if does == "RENEW" and number % 2 else does
                )
                if not is_renewed:
                    del holds[name]
        wait_until(lambda: _now() > taken + _LOCK + _AFTER, "the lock of the one that hangs ends")
        note()
        for name in MEMBERS:
            clients.do("close", name)
    return ledger


def _now() -> int:
    return time.time_ns() // 1000


# ---- what the broker logged of them --------------------------------------------------------------
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
        set_group_config(servers, GROUP, share_auto_offset_reset="earliest")
        ledger = run_members(servers)
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
    assert found == run.ledger.given


def test_who_holds_what_at_random_moments_is_what_the_members_say(run: Run) -> None:
    requests = Requests(RequestLog(run.log))
    acquired = requests.table("acquisitions")
    told = 0
    for at, members in run.ledger.moments:
        # A broker that is very busy writes a line long after its client was answered.
        later = pc.greater(acquired.column("timestamp"), pa.scalar(at).cast(INSTANT))
        late = by_member(requests, acquired.filter(later))
        if not any(late.get(name, set()) & held for name, held in members.items()):
            assert by_member(requests, held_at(requests.holds, at)) == members
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
    updates = [at for at, k in enumerate(run.history["record_kind"].to_pylist()) if k == "update"]
    # Locks that end together are written together, and a record of each may stand for the others.
    without = run.history.take([at for at in range(run.history.num_rows) if at not in updates[5:]])
    found = requests.findings(without).column("finding").to_pylist()
    assert "write without a record" in found
