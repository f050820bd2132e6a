"""Named scenarios show what they are about; one from a cluster begins where the cluster is."""

import pickle
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.metrics.evidence import Evidence
from sharelag.model import StateBatch
from sharelag.model.settings.catalogue import find
from sharelag.replay.moment import Choice
from sharelag.whatif import (
    Behaviour,
    Burst,
    Costs,
    Fault,
    Hpa,
    Keda,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Rules,
    Scenario,
    Service,
    SimulationResult,
    Topic,
    compare,
    from_json,
    named,
    simulate,
    to_json,
    variants,
    what_clears,
)
from sharelag.whatif.consumers import MOST_MEMBERS
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.from_cluster import scenario_from
from sharelag.whatif.simulation.logs import logs
from tests.support.chapters import CAPTURE
from tests.support.readings import open_once
from tests.support.records import with_column
from tests.support.simulations import at, only

RECORDED = CAPTURE.parent / "scenarios"


def of_members(result: SimulationResult) -> dict[str, dict[str, Any]]:
    return {row["member"]: row for row in result.deliveries.to_pylist()}


def evidence(name: str, group: str | None = None) -> Evidence:
    choice = Choice(frozenset({group})) if group else None
    return engines.gather(CaptureInput(RECORDED / name), "local", choice=choice)


# ---- by name ----
def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(InputError, match="window-full"):
        named("nothing")


@pytest.mark.parametrize(
    ("name", "summary", "moments"),
    [
        ("in-flight", {}, {0: {"start_offset": 2, "delivery_complete_count": 2, "lag": 5, "in_flight": 0}}),
        ("delivery-limit", {"deliveries": 5, "redeliveries": 4, "archived": 1, "lag_end": 0}, {}),
        ("gaps", {"acknowledged": 8, "archived": 2, "lag_end": 0},
         {400: {"in_flight": 10, "lag": 10}, 5000: {"start_offset": 10}}),
        ("stop-at-error", {"acknowledged": 9, "archived": 1, "redeliveries": 0},
         {700: {"start_offset": 5, "in_flight": 5, "lag": 5}}),
        ("walk", {"expired": 2}, {20_000: {"window_end_offset": 121}}),  # what c1 had beside
        ("window-full", {"expired": 3}, {}),
        ("crash-loop", {"archived": 1, "lag_end": 0}, {}),
        # Nobody remembers the first deliveries.
        ("leader-change", {"redeliveries": 0, "completed": 1000}, {}),
    ],
)  # fmt: skip
def test_a_named_scenario_comes_to_what_it_shows(
    name: str, summary: dict[str, int], moments: dict[int, dict[str, int]]
) -> None:
    result = simulate(named(name))
    row = only(result.summary)
    assert {key: row[key] for key in summary} == summary
    for time, found in moments.items():
        assert {key: at(result, time)[key] for key in found} == found


def test_walk() -> None:
    result = simulate(named("walk"))
    of = of_members(result)
    assert {name: of[name]["deliveries"] for name in of} == {"c0": 10, "c1": 5, "c2": 6, "c3": 3}
    assert {name: of[name]["acknowledged"] for name in of} == {"c0": 10, "c1": 2, "c2": 6, "c3": 3}
    assert of["c1"]["released"] == 1
    starts = list(dict.fromkeys(row["start_offset"] for row in result.timeline.to_pylist()))
    assert starts == [100, 110, 111, 121]


@pytest.mark.row("CLI-10")
def test_slow_producer() -> None:
    """Ten records at half a record a second: 18 s from first to last, 2 s from each to the next."""
    result = simulate(named("slow-producer"))
    ends = [(row["time_ms"], row["end_offset"]) for row in result.timeline.to_pylist()]
    came = [next(time for time, end in ends if end == number) for number in range(1, 11)]
    assert came[-1] - came[0] == 18_000
    assert {after - before for before, after in pairwise(came)} == {2000}
    assert ends[-1][1] == 10


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 1.5, 7.25])
def test_any_fraction_of_a_record_a_second(rate: float) -> None:
    producer = Producer("orders", rate, "steady")
    slow = replace(named("slow-producer"), producers=(producer,), duration_ms=600_000)
    ((log,),) = logs(slow, 0)
    assert log.end(600_000_000) == int(600 * rate)  # microseconds
    apart = [after - before for before, after in pairwise(log.times)]
    assert all(abs(one - 1_000_000 / rate) <= 1 for one in apart)
    assert len(apart) == int(600 * rate) - 1


def test_crash_loop() -> None:
    result = simulate(named("crash-loop"))
    lives = [life["ended"] for life in result.members.to_pylist()]
    assert lives.count("crashed") == 5
    assert only(result.summary)["wasted"] > 250


def test_slow_work() -> None:
    row = only(simulate(named("slow-work")).summary)
    assert row["wasted_share"] > 0.3
    assert row["expired"] >= row["redeliveries"] > 1000
    members = tuple(replace(one, max_poll_records=100) for one in named("slow-work").members)
    fewer = replace(named("slow-work"), members=members)
    assert only(simulate(fewer).summary)["wasted"] == 0


def test_uneven() -> None:
    uneven = replace(named("uneven"), duration_ms=120_000)
    by_count, by_lag = (
        simulate(replace(uneven, assignor=one)) for one in ("simple", "lag-aware-sticky")
    )
    assert only(by_lag.summary)["lag_end"] < only(by_count.summary)["lag_end"] / 5
    # The others join the hot partition: nobody loses anything for it, and far from everybody is
    # everywhere.
    assert only(by_lag.summary)["moves"] == 0
    hot, *cold = (row["members"] for row in by_lag.timeline.to_pylist()[-8:])
    assert hot == 8
    assert max(cold) <= 4
    assert by_lag.assignments.to_pylist()[-1]["pairs"] < 8 * 8 / 2


def test_burst() -> None:
    """Not asked again for the lag, the lag-aware assignor keeps what it gave at first."""
    burst = named("burst")
    assert burst.settings.rebalance_interval_ms is None
    by_count, by_lag = (
        only(simulate(replace(burst, assignor=one)).summary)
        for one in ("simple", "lag-aware-sticky")
    )
    assert by_lag["drain_ms"] < 1.1 * by_count["drain_ms"] < burst.duration_ms
    # Four or five on a partition that could each have four: no better than Kafka's two on each, and
    # that is said.
    assert by_count["age_p95_ms"] < by_lag["age_p95_ms"] < 1.3 * by_count["age_p95_ms"]


def test_retention_loss() -> None:
    row = only(simulate(named("retention-loss")).summary)
    assert row["lost"] > 1000
    assert row["arrived"] > row["completed"] + row["lag_end"]


def test_leader_change() -> None:
    result = simulate(named("leader-change"))
    row = only(result.summary)
    refused = sum(result.deliveries.column("refused").to_pylist())
    assert refused == row["wasted"] == row["deliveries"] - 1000 > 0


# ---- from a cluster ----
@pytest.mark.parametrize(
    "name", ["hot_partition", "slow", "head_of_line", "window_full", "no_members"]
)
def test_a_scenario_begins_with_the_lag_of_the_cluster(name: str) -> None:
    known = evidence(name)
    scenario = scenario_from(known, duration_ms=1000)
    result = simulate(scenario)
    lags = {(row["topic"], row["partition"]): row["lag"] for row in known.lag.to_pylist()}
    begin = [row for row in result.timeline.to_pylist() if row["time_ms"] == 0]
    assert {(row["topic"], row["partition"]): row["lag"] for row in begin} == lags
    assert len(scenario.each_member()) == known.members.num_rows
    assert scenario.begins_ms == round(known.as_of.timestamp() * 1000)
    assert any("record batches of 1 and polls of" in sentence for sentence in scenario.assumed)


@pytest.mark.parametrize("racks", [("east", "west"), ("west", "east")])
def test_racks_of_replicas_and_members_are_those_of_the_cluster(racks: tuple[str, str]) -> None:
    known = evidence("slow")
    members = with_column(known.members, "rack_id", pa.array(racks))
    rows = known.lag.select(["group_id", "topic", "topic_id", "partition"]).to_pylist()
    for row in rows:
        row["racks"] = ["east", None, "east"] if row["partition"] < 2 else ["west"]
        row["leader_id"], row["replicas"] = 7 - row["partition"] % 2, [6, 7, 9]
        row["as_of"], row["share_coordinator"], row["group_coordinator"] = known.as_of, 9, 6
    around = pa.Table.from_pylist(rows, schema=schemas.BROKERS)
    scenario = scenario_from(replace(known, members=members, brokers=around), duration_ms=60_000)
    (topic,) = scenario.topics
    assert topic.racks == (("east",), ("east",), ("west",), ("west",))
    rack_of = {member.name: member.rack for member in scenario.members}
    assert sorted(map(str, rack_of.values())) == ["east", "west"]
    assert "without racks" not in " ".join(scenario.assumed)
    assert scenario.brokers == 3
    # Its brokers are numbered from 0 on.
    assert topic.leaders == (1, 0, 1, 0)
    assert (topic.coordinators, scenario.coordinator) == ((2, 2, 2, 2), 0)
    led = f"; 3 brokers, leaders as of {known.as_of:%Y-%m-%d %H:%M:%S}"
    assert led in " ".join(scenario.assumed)
    assert "placed by number" not in " ".join(scenario.assumed)
    # What is not known is led by brokers with replicas, and its coordinator is placed.
    for row in rows:
        row["replicas"] = [6, 7]
    rows[2]["leader_id"] = rows[0]["share_coordinator"] = None
    some = pa.Table.from_pylist(rows, schema=schemas.BROKERS)
    unknown = scenario_from(replace(known, brokers=some))
    assert (unknown.brokers, unknown.topics[0].coordinators) == (3, ())
    assert unknown.topics[0].leaders == (1, 0, 0, 0)
    assert "(not all are known: placed by number)" in " ".join(unknown.assumed)
    copied = "write_ms is that of one broker, and 3 replicas make writes slower"
    assert copied in " ".join(scenario.assumed)
    said = " ".join(scenario_from(known).assumed)
    assert "write_ms" not in said
    assert "; one broker without racks" in said
    assert scenario_from(known).brokers == 1

    # The first that joins has all partitions until the other comes; then each has those nearby.
    ran = simulate(replace(scenario, assignor="rack-aware", settled=False)).deliveries.to_pylist()
    near = [row for row in ran if rack_of[row["member"]] in topic.racks[row["partition"]]]
    assert len(near) == 4
    total = sum(row["deliveries"] for row in ran)
    assert sum(row["deliveries"] for row in near) > 0.9 * total


def test_rates_and_windows_go_on() -> None:
    known = evidence("hot_partition")
    scenario = scenario_from(known)
    arriving = sum(rate or 0 for rate in known.progress.column("arrival_rate").to_pylist())
    assert sum(producer.rate for producer in scenario.producers) == pytest.approx(arriving)
    row = only(simulate(scenario).summary)
    assert row["arrived"] / 600 == pytest.approx(arriving, rel=0.1)
    # One partition is behind and one of three members has it: what that one does is what a member
    # can do.
    rates = {row["partition"]: row["completion_rate"] or 0 for row in known.progress.to_pylist()}
    behind = max(rates, key=lambda partition: rates[partition])
    theirs = [set(row["assigned_partitions"][0]["partitions"]) for row in known.members.to_pylist()]
    (held,) = (one for one in theirs if behind in one)
    found = scenario.members[0].service.mean_ms
    assert found == pytest.approx(1000 / sum(rates[one] for one in held), rel=0.01)
    assert any(": 1 member busy " in sentence for sentence in scenario.assumed)
    window = scenario.topics[0].starts[0].window
    assert window is not None
    assert window.start_offset == known.windows.column("start_offset")[0].as_py()


def test_a_full_window_moves_on_once_its_head_is_finished() -> None:
    """A leader has in memory what members hold; only one that has just begun finds a hole there."""
    (topic,) = (scenario := scenario_from(evidence("window_full"))).topics
    assert (window := topic.starts[0].window) is not None
    assert window.batches == (StateBatch(20, 20, 0, 0), StateBatch(21, 120, 2, 1))
    ran = simulate(replace(scenario, duration_ms=60_000)).timeline.to_pylist()
    assert ran[-1]["start_offset"] > 300


def test_locks_do_not_run_out_for_an_assumption() -> None:
    """Where the history shows no release, a guess of 500 records a poll must not cause one."""
    known = evidence("hot_partition")
    assert sum(known.observed.column("released").to_pylist()) == 0
    assert only(simulate(scenario_from(known, duration_ms=120_000)).summary)["expired"] == 0
    guessed = scenario_from(known, duration_ms=120_000, max_poll_records=500)
    assert only(simulate(guessed).summary)["expired"] > 0


def test_members_that_keep_up_are_not_taken_to_be_busy() -> None:
    known = evidence("keeping_up")
    scenario = scenario_from(known)
    done = sum(rate or 0 for rate in known.progress.column("completion_rate").to_pylist())
    done += sum(rate or 0 for rate in known.progress.column("redelivery_rate").to_pylist())
    members = len(scenario.each_member())
    assert scenario.members[0].service.mean_ms == pytest.approx(500 * members / done)
    assert any("(they keep up)" in sentence for sentence in scenario.assumed)
    row = only(simulate(replace(scenario, duration_ms=120_000)).summary)
    assert row["lag_end"] < 10 * done


def test_settings_and_retention_are_taken_over() -> None:
    full = scenario_from(evidence("window_full"))
    rows = evidence("window_full").settings.to_pylist()
    found = {row["name"]: row["value"] for row in rows if row["scope"] == "group"}
    assert full.settings.limits.max_record_locks == int(found["share.partition.max.record.locks"])
    assert full.settings.limits.lock_duration_ms == int(found["share.record.lock.duration.ms"])
    assert full.topics[0].retention_ms == 604_800_000


def test_what_is_not_known_is_assumed_and_said() -> None:
    nothing = {
        name: getattr(schemas, name.upper()).empty_table()
        for name in ("members", "groups", "progress", "observed", "settings")
    }
    bare = scenario_from(replace(evidence("slow"), **nothing))
    said = "\n".join(bare.assumed)
    for words in (
        "members of the group are not known",
        "no completion rate",
        "defaults for share.record.lock",
        "nothing arrives",
        "arrived just now",
    ):
        assert words in said
    assert not bare.producers
    assert only(simulate(replace(bare, duration_ms=60_000)).summary)["lag_end"] == 0
    mine = scenario_from(evidence("slow"), service=Service(7), behaviour=Behaviour())
    assert mine.members[0].service == Service(7)
    assert not any("of work" in sentence for sentence in mine.assumed)


def test_members_begin_with_what_they_have() -> None:
    known = evidence("hot_partition")
    scenario = scenario_from(known, duration_ms=30_000)
    held = {
        (topic["topic_id"], number)
        for row in known.members.to_pylist()
        for topic in row["assigned_partitions"]
        for number in topic["partitions"]
    }
    ids = {topic.name: topic.id for topic in scenario.topics}
    taken = [member.assigned for member in scenario.members]
    assert {(ids[topic], number) for mine in taken for topic, number in mine} == held
    assert only(simulate(scenario).summary)["moves"] == 0
    wider = scenario.with_members(5)
    assert [member.assigned for member in wider.members] == [*taken, (), ()]


def test_members_are_called_by_their_ids_and_that_changes_nothing_else() -> None:
    known = evidence("hot_partition")
    scenario = scenario_from(known, duration_ms=10_000)
    ids = known.members.column("member_id").to_pylist()
    assert [member.name for member in scenario.members] == sorted(ids)
    rows = known.members.to_pylist()
    held = {row["member_id"]: row["assigned_partitions"][0]["partitions"] for row in rows}
    taken = {one.name: [number for _, number in one.assigned] for one in scenario.members}
    assert taken == held
    names = [f"member-{n}" for n in range(6)]
    members = zip(scenario.members, names, strict=False)
    numbered = replace(scenario, members=tuple(replace(one, name=name) for one, name in members))
    for seed in (0, 1):
        named_, plain = simulate(scenario, seed), simulate(numbered, seed)
        assert named_.summary.equals(plain.summary)
        assert named_.timeline.equals(plain.timeline)
    # Of those whose records were never seen nobody knows a name.
    unknown = replace(known, members=known.members.slice(0, 0), groups=known.groups.slice(0, 0))
    assert [member.name for member in scenario_from(unknown).members] == names


def test_more_members_are_those_there_are_and_others() -> None:
    def names(of: Scenario, count: int) -> list[str]:
        return [member.name for member in of.with_members(count).members]

    scenario = scenario_from(evidence("hot_partition"))
    ids = [member.name for member in scenario.members]
    assert scenario.with_members(3) == scenario
    assert names(scenario, 2) == ids[:2]
    assert names(scenario, 5) == [*ids, "member-3", "member-4"]
    one, other, _ = scenario.members
    taken = replace(scenario, members=(replace(one, name="member-2"), other))
    assert names(taken, 4) == ["member-2", ids[1], "member-3", "member-4"]


def test_who_joins_a_group_without_members_is_like_what_was_given() -> None:
    empty = scenario_from(evidence("no_members"), service=Service(500), duration_ms=60_000)
    assert empty.each_member() == []
    assert only(simulate(empty).summary)["completed"] == 0
    two = only(simulate(empty.with_members(2)).summary)
    assert 0 < two["completed"] <= 2 * 60_000 / 500


def test_what_is_not_taken_over_is_said() -> None:
    said = " ".join(scenario_from(evidence("held_head")).assumed)
    assert "1 offset that may be acquired can be delivered at once" in said
    said = " ".join(scenario_from(evidence("compaction_holes")).assumed)
    assert "although topics are compacted" in said
    slow = evidence("slow")
    entry = {"scope": "group", "entity": "slow", "name": "share.auto.offset.reset"}
    entry |= {"value": "by_duration:PT1H", "source": "group"}
    since = pa.Table.from_pylist([entry], schema=schemas.SETTINGS)
    changed = replace(slow, settings=pa.concat_tables([slow.settings, since]))
    assert "not at by_duration:PT1H" in " ".join(scenario_from(changed).assumed)


def test_a_group_has_to_be_chosen() -> None:
    many = engines.gather(CaptureInput(CAPTURE), "local", over=timedelta(minutes=1))
    with pytest.raises(InputError, match=r"choose one share group: .*billing"):
        scenario_from(many)
    with pytest.raises(InputError, match="no state of share group 'x'"):
        scenario_from(many, "x")
    assert scenario_from(many, "billing").group_id == "billing"
    nothing = replace(many, lag=many.lag.slice(0, 0))
    with pytest.raises(InputError, match="none has consumed anything yet"):
        scenario_from(nothing)


def test_an_assumption_is_a_sentence_with_a_code_also_elsewhere() -> None:
    made = Assumption("members", "3 members", "the members of the group are not known")
    assert made == "3 members, since the members of the group are not known"
    for other in (pickle.loads(pickle.dumps(made)), deepcopy(made)):
        assert (other, other.code, other.what) == (made, "members", "3 members")


# ---- mistakes ----
def fields_with_values(part: Any, where: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each number and each choice of a scenario: where it is, its type, what it is."""
    for one in fields(part):
        value, path = getattr(part, one.name), f"{where}{one.name}"
        held = value if isinstance(value, tuple) else (value,)
        inner = [each for each in held if is_dataclass(each)]
        for each in inner[:1]:
            yield from fields_with_values(each, f"{path}.")
        is_choice = "Literal" in str(one.type) or one.type == "AcquireMode"
        if is_choice or one.type in ("int", "int | None", "float", "float | None"):
            yield path, str(one.type), value


def with_value(part: Any, path: str, value: Any) -> Any:
    """Return a part of a scenario where one value, however deep within, is another one."""
    name, _, rest = path.partition(".")
    if not rest:
        return replace(part, **{name: value})
    held = getattr(part, name)
    first, *others = held if isinstance(held, tuple) else (held,)
    changed = with_value(first, rest, value)
    return replace(part, **{name: (changed, *others) if isinstance(held, tuple) else changed})


#: Something in every field that holds parts.
FULL = Scenario(
    topics=(Topic("t", 2, starts=(PartitionStart(20), PartitionStart(20))),),
    members=(Member("m", 2),),
    producers=(Producer("t", 20.0, bursts=(Burst(1000, 3000, 2.0),)),),
    poison=(Poison("t", 0, 3),),
    faults=(Fault(1000, "leader_change", topic="t"),),
    duration_ms=5000,
    autoscaler=Keda(hpa=Hpa(scale_up=Rules())),
)


def test_what_is_no_value_is_refused_wherever_it_stands() -> None:
    """A misspelt choice would pass for a default, and a strange number end a run in its middle."""
    found = {path: (kind, value) for path, kind, value in fields_with_values(FULL)}
    assert len(found) > 95
    result = {"settings.isolation_level", "faults.kind", "autoscaler.hpa.scale_up.policies.value"}
    assert result <= {*found}
    for path, (kind, value) in found.items():
        wrong = ["nonsense"] if isinstance(value, str) else [float("nan"), float("inf"), -2]
        for one in wrong:
            with pytest.raises(InputError, match=r": (give|choose|round it|name) ?"):
                print(path, one, with_value(FULL, path, one))
        name = path.rpartition(".")[2]
        if kind.startswith("int") and name not in (
            "partitions",
            "hold_ms",
        ):  # which others contradict
            of_texts = (1500.0, "1500", True) if "." not in path else ()
            said = rf"^\w+\.{name} must be a whole number, .*: round it$"
            for one in ((value or 10) + 0.5, *of_texts):
                with pytest.raises(InputError, match=said):
                    print(path, one, with_value(FULL, path, one))
    given, levels = "READ_COMMITTED", "read_uncommitted, read_committed"
    said = f"^Settings.isolation_level cannot be '{given}': choose one of {levels}$"
    with pytest.raises(InputError, match=said):
        with_value(FULL, "settings.isolation_level", given)


def test_an_interval_of_nothing_is_refused_and_no_endless_run() -> None:
    for path in (
        *("settings.heartbeat_interval_ms", "settings.session_timeout_ms"),
        *("settings.rebalance_interval_ms", "step_ms"),
        *("topics.retention_ms", "topics.segment_records", "topics.compact_ms"),
    ):
        said = rf"^{path.rpartition('.')[2]} of .* is 0: give at least 1$"
        with pytest.raises(InputError, match=said):
            print(path, with_value(FULL, path, 0))


def test_producers_that_no_machine_can_hold_are_refused() -> None:
    many = replace(FULL, producers=(Producer("t", 1e12),))
    said = "some 5,000,000,000,000 record batches: give a lower rate"
    with pytest.raises(InputError, match=said):
        simulate(many)
    for weights in ((0.0, 0.0), (-1.0, 2.0), (float("nan"), 1.0)):
        with pytest.raises(InputError, match=r"weight.*: give "):
            replace(FULL, producers=(Producer("t", 1, weights=weights),))


def test_whole_numbers_of_numpy_are_taken() -> None:
    fetch: Any = np.float32(2.5)  # the types do not name numpy's numbers
    span: Any = np.int64(5000)
    scenario = replace(named("uneven"), duration_ms=span, costs=Costs(fetch_ms=fetch))
    assert (type(scenario.duration_ms), type(scenario.costs.fetch_ms)) == (int, float)
    assert only(simulate(scenario).summary)["duration_ms"] == 5000
    assert from_json(to_json(scenario)) == scenario
    # Those in tuples and lists, too, where fractions are refused likewise.
    whole, half = np.arange(2), np.array([0.5, 0.5])
    given: dict[str, Any] = {"weights": list(half), "samples_ms": tuple(whole), "leaders": [0, 1]}
    service = Service(kind="measured", samples_ms=given["samples_ms"])
    scenario = Scenario(
        (Topic("t", 2, backlog=tuple(whole), leaders=given["leaders"], added_ms=tuple(whole[1:])),),
        (Member(service=service, assigned=(("t", whole[1]),)),),
        (Producer("t", 1.0, weights=given["weights"]),),
        brokers=2,
    )
    assert from_json(to_json(scenario)) == scenario
    with pytest.raises(InputError, match=r"^Topic.added_ms must be a whole number, not .*0.5"):
        Scenario((Topic("t", 3, added_ms=tuple(half)),), ())


def test_no_more_members_than_a_broker_lets_join() -> None:
    scenario, setting = named("uneven"), find("group.share.max.size")
    assert setting is not None
    assert setting.greatest == MOST_MEMBERS
    assert len(scenario.with_members(MOST_MEMBERS).each_member()) == MOST_MEMBERS
    for ask in (
        scenario.with_members,
        lambda count: variants(scenario, members=[count]),
        lambda count: what_clears(scenario, members=[8, count]),
    ):
        with pytest.raises(InputError, match="100,000 members are too many: give at most 1,000"):
            ask(100_000)
        for wrong in (-1, 2.5, "3", None):
            with pytest.raises(InputError, match="cannot be a number of members"):
                ask(wrong)  # type: ignore[arg-type]


def test_an_open_transaction_blocks_the_group_as_it_is_in_a_simulation() -> None:
    found = evidence("open_transaction")
    scenario = scenario_from(found, duration_ms=60_000)
    places = {(row["topic"], row["partition"]): row for row in found.logs.to_pylist()}
    stable = places["open-transaction-orders", 0]["last_stable_offset"]
    blocked, free = scenario.topics[0].starts
    assert (blocked.open_from, free.open_from) == (stable, None)
    assert stable < blocked.end_offset
    assert blocked.oldest_age_ms > 2_000  # since it began
    said = f"open-transaction-orders:0 from offset {stable}: the transaction there stays open"
    assert said in " ".join(scenario.assumed)
    for tried in (scenario, scenario.with_members(8)):
        last = simulate(tried).timeline.to_pylist()[-2:]
        waits, other = (row["lag"] for row in last)
        assert waits >= blocked.end_offset - stable
        assert other < waits / 5
    # One that began a moment ago is what every transactional producer has.
    patient = replace(found, patience=timedelta(hours=1))
    lately = scenario_from(patient)
    assert lately.topics[0].starts[0].open_from is None
    said = "open transactions, in 1 of 2 partitions, are committed at once"
    assert said in " ".join(lately.assumed)


def test_the_work_of_a_group_without_members_is_that_of_those_who_left() -> None:
    bench = open_once("demo")
    found = bench.evidence("returns-desk")
    scenario = scenario_from(found)
    # 1500 records in the 25 minutes before, by 2 members that kept up: half of the time.
    assert scenario.members[0].service.mean_ms == pytest.approx(1000, rel=0.01)
    (told,) = [one for one in scenario.assumed if "2 members busy 50 % of the time" in one]
    assert "until they left, 2026-11-23 12:15:05" in told
    again = compare({"as it is": scenario, "+2": scenario.with_members(2)}, seeds=range(3))
    assert "not drained within 10m, lag falls to 306, p95 age 15m" in again.verdict()
    # Who left, and when, is not known: nor is the work.
    column = pa.nulls(found.groups.num_rows, found.groups.schema.field("emptied").type)
    unknown = scenario_from(replace(found, groups=with_column(found.groups, "emptied", column)))
    again = compare({"as it is": unknown, "+2": unknown.with_members(2)}, seeds=range(3))
    assert again.verdict() == (
        "not known: the group has no members to measure, so the time that a record takes is not "
        "known; give it as --service 20ms, or service=Service(20) in Python"
    )
