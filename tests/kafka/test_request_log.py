"""A live broker's log of requests against what its eight share consumers know themselves."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.engine.local import QuickReading
from sharelag.inputs import KafkaInput
from sharelag.inputs.files.request_log import RequestLog
from sharelag.inputs.kafka.config import client_config
from sharelag.replay.holds import held_at
from sharelag.schemas import INSTANT
from sharelag.workbench.beside import Requests
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import Oracle, share_holders
from tests.support.kafka.workload import (
    create_topics,
    numbered,
    produce,
    set_group_config,
    wait_until,
)

pytestmark = pytest.mark.exhaustive
GROUP, TOPIC, LOCK_MS = "holders", "held-orders", 6_000


# ---- eight members, and what they know of themselves --------------------------------------------
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
#: One record at one member: its partition, offset and delivery count.
Given = tuple[int, int, int]
#: Microseconds before and after the end of a lock in which a member cannot say whether it still has
#: it: the broker's timer is late on a busy machine.
_BEFORE, _AFTER = 300_000, 2_500_000


@dataclass
class Moment:
    """Who holds what, as the members know it: microseconds since the epoch, records by member."""

    at: int
    held: dict[str, set[Given]]


@dataclass
class Ledger:
    """The deliveries and acknowledgements that members of a run wrote down."""

    given: dict[str, list[Given]] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)


@dataclass
class _Member:
    name: str
    does: str | None
    has: set[Given] = field(default_factory=set)
    renewed: bool = False
    lost: bool = False
    #: When its last poll was called, if it returned nothing: its fetch may have been under way.
    asked: int | None = None
    #: When its lock ends at the earliest and at the latest, in microseconds.
    lock: tuple[int, int] = (0, 0)


def run_members(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    rounds: int,
    lock_ms: int,
    produce: Callable[[], object],
    seed: int = 1,
) -> Ledger:
    """Let the members of `MEMBERS` work for some rounds at least, and write down who has what.

    ``produce``: called when all members have joined, so that none takes everything.
    """
    ledger, chance = Ledger(), random.Random(seed)
    with share_holders() as clients:
        members = [_Member(name, does) for name, does in MEMBERS.items()]
        config = {"max.poll.records": "10", "share.acquire.mode": "record_limit"}
        config["fetch.max.wait.ms"] = "100"
        where = {"bootstrap": bootstrap, "group": group, "topic": topic, "config": config}
        for one in members:
            _ask(clients, one, "open", **where)
        joined: set[str] = set()

        def all_joined() -> bool:
            # Groups are assigned with heartbeats, which polls begin.
            joined.update(one.name for one in members if not _poll(clients, one, 300)[0])
            return len(joined) == len(members)

        wait_until(all_joined, "all members have joined")
        produce()
        end, lost = time.monotonic() + 150, False
        # So long that the one who hangs has lost its records at least once.
        while len(ledger.moments) < rounds or not lost:
            lost = lost or any(one.lost for one in members)
            if time.monotonic() > end:
                raise RigError("no lock was seen to end within 150 s")
            for one in members:
                _take(clients, one, ledger, lock_ms * 1000)
            moment = _moment(members, chance)
            if moment is not None:
                ledger.moments.append(moment)
            for one in members:
                _settle(clients, one, ledger, lock_ms * 1000)
        for one in members:
            _ask(clients, one, "close")
    return ledger


def _take(clients: Oracle, one: _Member, ledger: Ledger, lock: int) -> None:
    """Poll, unless the member hangs on what it has; renewed records come once more."""
    if one.does is None and one.has:
        return
    before = time.monotonic()
    while True:
        polled, (first, last) = _poll(clients, one, 2_000)
        records = {(int(p), int(o), int(c)) for p, o, c in polled}
        if records:
            break
        if time.monotonic() - before > 60:
            raise RigError(f"{one.name} got no records within a minute")
    if one.renewed:
        if records != one.has:
            raise RigError(f"{one.name} renewed {one.has} and was given {records}")
        return
    one.has = records
    one.lock = (first + lock, last + lock)
    ledger.given.setdefault(one.name, []).extend(sorted(records))


def _moment(members: list[_Member], chance: random.Random) -> Moment | None:
    """Choose a moment at random while nobody does anything, if all can say what they have.

    A busy broker writes the line of a request some time after the client has its answer, and the
    line's time is that of writing.
    """
    time.sleep(0.5 + 0.2 * chance.random())
    at = _now()
    if any(_is_unsure(one, at) for one in members):
        time.sleep(0.3)
        return None
    time.sleep(0.02)
    held = {one.name: set(one.has) for one in members if one.has and at < one.lock[0]}
    return Moment(at, held)


def _is_unsure(one: _Member, now: int) -> bool:
    return bool(one.has) and one.lock[0] - _BEFORE <= now <= one.lock[1] + _AFTER


def _settle(clients: Oracle, one: _Member, ledger: Ledger, lock: int) -> None:
    if one.does is None:
        if _now() > one.lock[1] + _AFTER:
            # The broker has taken the records back. Where the client does not report that, the member
            # cannot say what it had since.
            if not _ask(clients, one, "acknowledge", type="ACCEPT")["refused"]:
                _forget(one, ledger)
            one.has, one.lost = set(), True
        return
    lock_before = one.lock
    if one.does == "RENEW" and not one.renewed:
        done = _ask(clients, one, "acknowledge", type="RENEW")
        one.renewed, one.lock = True, (done["called"] + lock, done["returned"] + lock)
    else:
        one.renewed = False
        done = _ask(clients, one, "acknowledge", type="ACCEPT" if one.does == "RENEW" else one.does)
        one.has = set()
    if done["refused"]:
        one.lock = lock_before
        if done["called"] < one.lock[0] - _BEFORE:
            raise RigError(f"{one.name}: {one.does} was refused")
        # On a machine so busy that a round takes longer than a lock.
        _forget(one, ledger)
        one.has, one.renewed = set(), False


def _forget(one: _Member, ledger: Ledger) -> None:
    """Drop the moments at which a member may have lost what it thought it had."""
    ledger.moments = [moment for moment in ledger.moments if moment.at < one.lock[0] - _BEFORE]


def _poll(clients: Oracle, one: _Member, ms: int) -> tuple[list[Any], tuple[int, int]]:
    """Poll; return records, and when the broker gave them at the earliest and at the latest."""
    answer = _ask(clients, one, "poll", ms=ms)
    called, returned = answer["called"], answer["returned"]
    earliest = one.asked or called
    one.asked = None if answer["records"] else called
    return answer["records"], (earliest, returned)


def _ask(clients: Oracle, one: _Member, do: str, **more: Any) -> dict[str, Any]:
    answer = clients.ask({"do": do, "member": one.name, **more})
    if "error" in answer:
        raise RigError(f"{one.name} could not {do}: {answer['error']}")
    return answer


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
        duration = {"share_record_lock_duration_ms": str(LOCK_MS)}
        set_group_config(servers, GROUP, share_auto_offset_reset="earliest", **duration)
        records = numbered(8_000, 4)
        ledger = run_members(
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
    updates = [at for at, k in enumerate(run.history["record_kind"].to_pylist()) if k == "update"]
    # Locks that end together are written together, and a record of each may stand for the others.
    without = run.history.take([at for at in range(run.history.num_rows) if at not in updates[5:]])
    found = requests.findings(without).column("finding").to_pylist()
    assert "write without a record" in found
