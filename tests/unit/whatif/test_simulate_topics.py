"""Topics of a simulated cluster: retention, deletions, producers, transactions, requests."""

from dataclasses import replace
from typing import Any

import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Burst,
    Fault,
    Limits,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    consumer_group_twin,
    simulate,
)
from sharelag.whatif.scenario import BEGINS_MS
from sharelag.whatif.simulation.loop import SimulationTables
from tests.support.own_process import run_code
from tests.support.simulations import at, only


# ---- logs ----
@pytest.mark.row("WIN-11", "WIN-12")
@pytest.mark.parametrize("acknowledged", [0, 10])
def test_retention_moves_the_start_and_loses_what_was_not_delivered(acknowledged: int) -> None:
    batches = (StateBatch(40, 49, 0, 1), StateBatch(50, 59, 2, 1)) if acknowledged else ()
    window = Window(0, 0, 0, 40, acknowledged, BEGINS_MS, BEGINS_MS, batches)
    log = PartitionStart(200, 0, window, oldest_age_ms=160_000)  # a record a second
    topic = Topic("t", 1, starts=(log,), retention_ms=100_500, segment_records=100)
    member = Member(service=Service(1), max_poll_records=1, join_ms=10)
    scenario = Scenario((topic,), (member,), duration_ms=50, step_ms=1)
    result = simulate(scenario)
    assert at(result, 10)["start_offset"] == 40
    assert at(result, 50)["start_offset"] >= 100
    row = only(result.summary)
    assert row["lost"] == 60 - acknowledged
    assert row["lag_end"] == 100 - row["completed"]


def test_deleted_records_are_lost_and_leave_the_lag() -> None:
    topic, member = Topic("t", 1, backlog=100), Member(service=Service(1), join_ms=2000)
    fault = Fault(1000, "delete_records", topic="t", offset=70)
    scenario = Scenario((topic,), (member,), faults=(fault,), duration_ms=10_000)
    row = only(simulate(scenario).summary)
    assert (row["lost"], row["completed"], row["lag_end"]) == (70, 30, 0)


@pytest.mark.row("WIN-05", "PSC-16")
@pytest.mark.parametrize(("reset", "start"), [("latest", 100), ("earliest", 0)])
def test_a_new_group_begins_where_its_settings_say(reset: Any, start: int) -> None:
    topic = Topic("t", 1, starts=(PartitionStart(100),))
    scenario = Scenario((topic,), (), settings=Settings(auto_offset_reset=reset), duration_ms=1)
    assert at(simulate(scenario), 0)["start_offset"] == start
    # Until the leader has decided that, no record says it, and lag is not known.
    rows = sharelag.open("not_started", engine="local").lag().table.to_pylist()
    assert {(row["start_offset"], row["lag"]) for row in rows} == {(None, None)}


def test_producers_produce_what_the_scenario_says() -> None:
    def ends(producer: Producer, seconds: int, partitions: int = 1) -> list[int]:
        topic = Topic("t", partitions)
        made = simulate(Scenario((topic,), (), (producer,), duration_ms=seconds * 1000), 4)
        last: list[int] = made.timeline.column("end_offset").to_pylist()[-partitions:]
        return last

    assert ends(Producer("t", 0.5, "steady"), 20) == [10]
    assert ends(Producer("t", 0.5, "steady"), 19) == [9]
    assert ends(Producer("t", 1000, batch_records=10), 100)[0] == pytest.approx(100_000, rel=0.03)
    assert ends(Producer("t", 10, "steady", bursts=(Burst(2000, 4000, 10),)), 10) == [280]
    day = (0.0, *(1.0,) * 23)  # simulations begin at midnight
    assert ends(Producer("t", 0.01, "steady", day=day), 2 * 3600) == [36]
    assert ends(Producer("t", 100, "steady"), 10, 4) == [250] * 4
    weighted = ends(Producer("t", 100, weights=(3, 1)), 100, 2)
    assert weighted[0] / sum(weighted) == pytest.approx(0.75, abs=0.02)
    skewed = ends(Producer("t", 100, keys=100, key_skew=1.5), 100, 4)
    assert max(skewed) > 2 * min(skewed)
    with pytest.raises(InputError, match="24"):
        Producer("t", 1, day=(1.0,))


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_transactions_take_offsets_and_time(level: Any) -> None:
    """Every second record aborted: readers of committed records get the rest, after the marker."""
    producer = Producer("t", 20, "steady", transaction_batches=2, transaction_ms=400)
    scenario = Scenario(
        (Topic("t", 1),),
        (Member(service=Service(0)),),
        (replace(producer, abort_share=0.5, end_ms=20_000),),
        settings=Settings(isolation_level=level),
        duration_ms=30_000,
        step_ms=50,
    )
    result = simulate(scenario)
    row = only(result.summary)
    assert (row["arrived"], row["lag_end"]) == (600, 0)  # with 200 markers
    if level == "read_uncommitted":
        assert (row["acknowledged"], row["archived"]) == (400, 200)
        assert row["latency_p50_ms"] < 50
    else:
        assert 140 < row["acknowledged"] < 260
        assert row["acknowledged"] % 2 == 0
        assert row["latency_p50_ms"] > 400
    early = next(line for line in result.timeline.to_pylist() if line["end_offset"] >= 4)
    assert (early["window_end_offset"] > 0) == (level == "read_uncommitted")


def test_services_have_the_mean_of_the_scenario() -> None:
    def busy(service: Service) -> float:
        topic = Topic("t", 1, backlog=20_000, batch_records=100)
        alone = Scenario((topic,), (Member(service=service),))
        return float(simulate(alone).members.column("busy_ms")[0].as_py()) / 20_000

    assert busy(Service(3)) == 3
    assert busy(Service(3, poll_ms=50)) == pytest.approx(3 + 50 / 500)
    assert busy(Service(3, "exponential")) == pytest.approx(3, rel=0.03)
    assert busy(Service(3, "lognormal", sigma=0.5)) == pytest.approx(3, rel=0.03)
    assert busy(Service(kind="measured", samples_ms=(1, 2, 6))) == pytest.approx(3, rel=0.03)
    assert busy(Service(3, slow_share=0.1, slow_factor=11)) == pytest.approx(6, rel=0.1)
    assert busy(Service(3, by_partition=((("t", 0), 2.0),))) == 6


def test_sessions_count_their_requests() -> None:
    topic = Topic("t", 2, backlog=100, batch_records=10)
    member = Member(max_poll_records=10, leave_ms=1000)
    scenario = Scenario((topic,), (member,), brokers=2, duration_ms=3000)
    made = simulate(scenario, requests=True).requests.to_pylist()
    for broker in (0, 1):
        epochs = [one["session_epoch"] for one in made if one["broker"] == broker]
        assert epochs[-1] == -1
        assert epochs[:-1] == list(range(len(epochs) - 1))
        assert len(epochs) > 5
    assert simulate(scenario).requests.num_rows == 0


# ---- long backlogs ----
def _tables(one: SimulationTables) -> list[Any]:
    kinds = ("timeline", "deliveries", "members", "summary")
    return [getattr(one, kind).to_pylist() for kind in kinds] + [one.finished().to_pylist()]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"producers": (Producer("t", rate=200, batch_records=7),)},
        {"faults": (Fault(50_000, "delete_records", topic="t", offset=250_000),)},
        {"poison": (Poison("t", 0, 65_530), Poison("t", 1, 65_541, how="reject"))},
    ],
    ids=["alone", "while records come", "deleted in part", "poison"],
)
@pytest.mark.parametrize("count", [2, 60])
def test_progress_in_a_backlog_makes_no_difference(count: int, more: dict[str, Any]) -> None:
    """A topic that is compacted, in years, has all of its records from the begin."""
    topic = Topic("t", 2, backlog=(300_000, 70_000), batch_records=3)
    member = Member(count=count, service=Service(2, "exponential"))
    scenario = Scenario((topic,), (member,), duration_ms=60_000, **more)
    whole = replace(scenario, topics=(replace(topic, compact_ms=10**12),))
    result, wanted = simulate(scenario, 3), simulate(whole, 3)
    assert _tables(result) == _tables(wanted)
    assert result.records() == wanted.records()
    assert result.in_flight(55_000).equals(wanted.in_flight(55_000))
    assert result.offsets().equals(wanted.offsets())
    assert only(result.summary)["completed"] > (130_000 if count == 60 else 5_000)
    as_consumers, wanted_ones = consumer_group_twin(scenario, 3), consumer_group_twin(whole, 3)
    assert _tables(as_consumers) == _tables(wanted_ones)


def test_how_far_members_got_is_not_forgotten_when_a_window_is_loaded_again() -> None:
    """They hold all from the deleted ones on when the leader goes: the next one has none of it."""
    topic, settings = Topic("t", 1, backlog=300_000), Limits(10_000, lock_duration_ms=300_000)
    deleted = Fault(1_000, "delete_records", topic="t", offset=58_000)
    scenario = Scenario(
        (topic,),
        (Member(count=20, service=Service(500)),),
        brokers=2,
        settings=Settings(limits=settings),
        faults=(deleted, Fault(15_000, "broker_down", broker=0)),
        duration_ms=20_000,
    )
    whole = replace(scenario, topics=(replace(topic, compact_ms=10**12),))
    assert _tables(simulate(scenario)) == _tables(simulate(whole))


def test_a_backlog_that_nobody_gets_through_costs_no_memory() -> None:
    """A table of a number for each of these records would take a petabyte."""
    member = Member(count=3, service=Service(5))
    few, many = (
        simulate(Scenario((Topic("t", 1, backlog=count),), (member,), duration_ms=10_000))
        for count in (50_000, 10**14)
    )
    assert many.finished().equals(few.finished())
    left = [only(one.summary)["lag_end"] for one in (few, many)]
    assert left[1] - left[0] == 10**14 - 50_000
    assert left[0] < 50_000


def test_thousands_of_share_partitions_take_the_memory_that_they_use() -> None:
    """A window has room for what may be in flight, of which a quiet share partition has little."""
    code = """
from resource import RUSAGE_SELF, getrusage
from sharelag.whatif import Member, Scenario, Topic, simulate
for count in (1, 3000):
    simulate(Scenario((Topic("t", count),), (Member(),), duration_ms=1000))
    print(getrusage(RUSAGE_SELF).ru_maxrss >> 10)
"""
    few, many = map(int, run_code(code).split())
    assert many - few < 200
