"""A simulation keeps the promises of share groups, whatever happens to the group."""

from dataclasses import replace
from hashlib import sha256
from random import Random

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharelag.metrics.lag import lag_arrow
from sharelag.replay import drop_superseded, replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.state import window_items
from sharelag.whatif import (
    Behaviour,
    Fault,
    Limits,
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    SimulationResult,
    Topic,
    named,
    simulate,
)
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support.own_process import run_by_any_hashes
from tests.support.share_partition import Acquired
from tests.support.simulation_ledger import TERMINAL, Ledger, audited
from tests.support.simulation_scenarios import random_scenario
from tests.support.simulations import TABLES, only

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow

seeds = st.integers(0, 10**9)


@pytest.mark.row("FND-12")
@settings(max_examples=settings().max_examples * 2 // 5)
@given(seeds)
def test_each_record_is_delivered_to_one_at_a_time_until_it_is_finished(seed: int) -> None:
    """Members crash, hang, renew, resubscribe; brokers fail. The ledger checks each step."""
    scenario = random_scenario(Random(seed), plain=True)
    result, ledgers = audited(scenario, seed, plain=True)
    row = only(result.summary)
    assert row["lost"] == 0
    for line, ledger in zip(result.offsets().to_pylist(), ledgers, strict=True):
        # The group began with the first record: all that was there is finished, or it is lag.
        assert _lag(ledger, line["end_offset"]) == line["end_offset"] - len(ledger.finished)
        # At least once: nothing is finished that was not delivered.
        assert all(ledger.counts[offset] >= 1 for offset in ledger.finished)
    assert row["deliveries"] == sum(ledger.delivered for ledger in ledgers)
    _replays(result, ledgers, plain=True)


@given(seeds)
@pytest.mark.exhaustive  # the one above is tried in each run
def test_while_records_are_deleted_and_compacted_none_is_delivered_to_two(seed: int) -> None:
    scenario = random_scenario(Random(seed), plain=False)
    result, ledgers = audited(scenario, seed, plain=False)
    if not any(producer.abort_share for producer in scenario.producers):
        # Of aborted record batches Kafka counts what lies before the start offset, too.
        assert pc.min(result.timeline.column("lag")).as_py() >= 0
    _replays(result, ledgers, plain=False)


def _replays(result: SimulationResult, ledgers: list[Ledger], plain: bool) -> None:
    """What was written is the coordinator's state, by every way to replay it, and gives the lag."""
    decoded = decode_arrow(result.records(), STATE_TOPIC)
    assert decoded.rejects.num_rows == 0
    windows = replay_arrow(decoded.records)
    kept = dict(window_items(windows))
    keys = enumerate(result._states.keys)
    assert kept == {key: result._states.window(place) for place, key in keys}
    assert dict(window_items(replay_arrow(drop_superseded(decoded.records)))) == kept
    after, lag = (
        {(row["topic_id"], row["partition"]): row for row in table.to_pylist()}
        for table in (history_arrow(decoded.records), lag_arrow(windows, result.offsets()))
    )
    for key, ledger in zip(result._states.keys, ledgers, strict=True):
        found = lag[key.topic_id, key.partition]
        assert after[key.topic_id, key.partition]["start_offset"] == found["start_offset"]
        if found["lag"] is None:
            assert not ledger.finished  # nothing was ever written of it
        elif plain:
            assert found["lag"] == found["effective_lag"] == _lag(ledger, found["end_offset"])


def _lag(ledger: Ledger, end: int) -> int:
    return end - ledger.share.start_offset - ledger.share.delivery_complete_count


@settings(max_examples=settings().max_examples // 5)
@given(seeds)
def test_nothing_is_left_when_one_member_stays_that_accepts_all(seed: int) -> None:
    """However it went before: no record is lost, and none is stuck where Kafka's would not be."""
    scenario = random_scenario(Random(seed), plain=True)
    members = tuple(replace(one, leave_ms=one.leave_ms or 14_000) for one in scenario.members)
    # Who hangs for good never leaves, and keeps what is assigned.
    hung = [
        replace(one, for_ms=one.for_ms or 1000) for one in scenario.faults if one.kind == "hang"
    ]
    longer = replace(
        scenario,
        faults=(*(one for one in scenario.faults if one.kind != "hang"), *hung),
        members=(*members, Member("last", join_ms=16_000, max_poll_records=100)),
        producers=tuple(replace(one, end_ms=14_000) for one in scenario.producers),
        poison=(),
        duration_ms=120_000,
    )
    result, ledgers = audited(longer, seed, plain=True)
    for line, ledger in zip(result.offsets().to_pylist(), ledgers, strict=True):
        # Stands still after a load, as Kafka's own class does: see its tests.
        if not ledger.share.can_fetch():
            assert {run.delivery_state for run in ledger.share.in_flight()} <= set(TERMINAL)
            continue
        assert ledger.finished == set(range(line["end_offset"]))
        assert _lag(ledger, line["end_offset"]) == 0


def test_the_ledger_sees_what_is_wrong() -> None:
    """A promise that cannot be broken would not be one."""
    ledger = Ledger(Limits(delivery_count_limit=2))
    ledger.acquired("a", 0, [Acquired(0, 4, 1)])
    with pytest.raises(AssertionError, match="held by a"):
        ledger.acquired("b", 1, [Acquired(4, 4, 2)])
    ledger.expire(30_000)
    with pytest.raises(AssertionError):
        ledger.acquired("b", 30_001, [Acquired(0, 0, 1)])
    ledger.acquired("b", 30_001, [Acquired(1, 1, 2)])
    ledger.released("b")
    with pytest.raises(AssertionError, match="finished"):
        ledger.acquired("c", 30_002, [Acquired(1, 1, 3)])


# ---- the same again ----
def test_everything_at_once_is_the_same_in_every_process() -> None:
    code = (
        "from random import Random; from sharelag.whatif.simulate import simulate\n"
        "from tests.support.simulation_scenarios import *; from tests.support.simulations import digest\n"
        "print(digest(simulate(EVERYTHING, 1, requests=True)))\n"
        "for n in range(4): "
        "print(digest(simulate(random_scenario(Random(n), n % 2 == 0), n, requests=True)))"
    )
    assert len(set(run_by_any_hashes(code).split())) == 5


#: Work and arrivals by chance, records that fail, a member that dies: all streams of chance are
#: asked.
CHANCE = Scenario(
    (Topic("t", 3, backlog=(200, 50, 0), batch_records=10),),
    (
        Member(
            count=3,
            service=Service(30, "lognormal", 0.8, slow_share=0.05, slow_factor=10),
            behaviour=Behaviour(0.9, 0.06, 0.02, 0.02, crash=0.02, restart_ms=1000),
            max_poll_records=20,
        ),
    ),
    (
        Producer(
            "t", 40, batch_records=4, keys=50, key_skew=1.1, transaction_batches=3, abort_share=0.2
        ),
    ),
    Settings(
        Limits(lock_duration_ms=3000), session_timeout_ms=6000, isolation_level="read_committed"
    ),
    poison=(Poison("t", 0, 30), Poison("t", 1, 7, "silent")),
    faults=(Fault(9000, "crash", "member-1"), Fault(12_000, "leader_change", topic="t")),
    brokers=2,
    duration_ms=20_000,
)


def values(result: SimulationResult) -> str:
    """A digest of every value of every table, however pyarrow keeps them."""
    tables = [*(getattr(result, name) for name in TABLES), result.records()]
    return sha256(repr([table.to_pylist() for table in tables]).encode()).hexdigest()


@pytest.mark.parametrize(
    ("scenario", "committed"),
    [
        (
            replace(named("uneven"), duration_ms=20_000),
            "0669f9f317b24f00da0049db9419dbe75cd6de838c65f487d4a0f25dd30f29e7",
        ),
        (CHANCE, "da56ca8e9709f6997c8a1edcb5821e5c2e2c15058eb3bc9a84ab50b7f8f76443"),
    ],
    ids=["uneven", "chance"],
)
def test_a_seed_gives_the_same_on_any_machine(scenario: Scenario, committed: str) -> None:
    """When it fails, simulations have changed: on purpose, or by a library or a machine."""
    assert values(simulate(scenario, 7, requests=True)) == committed
