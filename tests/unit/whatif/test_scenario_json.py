"""A scenario is the same after it was written as JSON, and its text identifies it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Behaviour,
    Burst,
    Costs,
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
    from_json,
    named,
    names,
    simulate,
    to_json,
)
from sharelag.whatif.autoscale import Fixed, Hpa, Keda, Pods, Policy, Rules, TargetAge
from sharelag.whatif.comparison.rows import unknown_work
from sharelag.whatif.estimates import Assumption

_texts = st.text(max_size=6)
_counts = st.integers(0, 2**40)
_some = st.integers(1, 10**6)
_times = st.floats(0, 1e9, allow_nan=False) | st.integers(0, 1000)
_shares = st.floats(0, 1, allow_nan=False)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def tuples(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=most).map(tuple)


_batches = st.builds(StateBatch, _counts, _counts, st.integers(0, 127), st.integers(0, 32767))
_windows = st.builds(
    Window, *[st.integers(-1, 2**31 - 1)] * 3, *[st.integers(-1, 2**63 - 1)] * 4, tuples(_batches)
)
_starts = st.builds(
    PartitionStart, _counts, _counts, maybe(_windows), _some, _times, tuples(_counts)
)
_services = st.builds(
    Service,
    mean_ms=_times,
    kind=st.sampled_from(["fixed", "exponential", "lognormal"]),
    sigma=_times,
    poll_ms=_times,
    slow_share=_shares,
    slow_factor=_times,
    by_partition=tuples(st.tuples(st.tuples(_texts, _counts), _times)),
) | st.builds(
    Service,
    kind=st.just("measured"),
    samples_ms=st.lists(_times, min_size=1, max_size=3).map(tuple),
)
_behaviours = st.builds(
    lambda share, **more: Behaviour(accept=1 - share, release=share, **more),
    _shares,
    crash=_shares,
    hang=_shares,
    hang_ms=maybe(_counts),
    restart_ms=maybe(_counts),
    commit=st.sampled_from(["poll", "error", "record"]),
    renew_ms=maybe(_some),
) | st.just(Behaviour(acknowledgement="implicit"))
_settings = st.builds(
    Settings,
    st.builds(Limits, _some, _some, _some, st.booleans()),
    *[_some] * 3,
    st.sampled_from(["read_uncommitted", "read_committed"]),
    st.sampled_from(["latest", "earliest"]),
    maybe(_some),
)
_rules = st.builds(
    Rules,
    _counts,
    st.lists(
        st.builds(Policy, st.sampled_from(["pods", "percent"]), _some, _some),
        min_size=1,
        max_size=2,
    ).map(tuple),
    st.sampled_from(["max", "min"]),
)
_hpas = st.builds(Hpa, scale_up=_rules, scale_down=_rules) | st.just(
    Hpa(scale_up=None, scale_down=None)
)
_autoscalers = (
    st.builds(
        Keda, lag_threshold=_some, metric=st.sampled_from(["lag", "lag_excluding_stuck"]), hpa=_hpas
    )
    | st.builds(TargetAge, _some, hpa=_hpas, pods=st.builds(Pods, _counts, _counts))
    | st.builds(Fixed, st.integers(1, 9))
)
_costs = st.builds(Costs, _times, _times, _times, _times, _some, _some)


@st.composite
def _scenarios(draw: st.DrawFn) -> Scenario:
    found = []
    for name in draw(st.lists(_texts, min_size=1, max_size=2, unique=True)):
        count = draw(st.integers(1, 3))
        more: dict[str, Any] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "id": _texts,
                    "backlog": _counts | st.tuples(*[_counts] * count),
                    "batch_records": _some,
                    "starts": st.tuples(*[_starts] * count),
                    "racks": tuples(tuples(_texts)),
                    "retention_ms": maybe(_some),
                    "segment_records": _some,
                    "compact_ms": maybe(_some),
                },
            )
        )
        found.append(Topic(name, count, **more))
    topics = st.sampled_from([topic.name for topic in found])
    scaled = draw(maybe(_autoscalers))
    stays = (
        {"join_ms": st.just(0), "leave_ms": st.none()}
        if scaled
        else {"join_ms": _counts, "leave_ms": maybe(_some)}
    )
    members = st.builds(
        Member,
        count=st.integers(0, 3),
        topics=tuples(topics),
        rack=maybe(_texts),
        service=_services,
        behaviour=_behaviours,
        max_poll_records=_some,
        acquire_mode=st.sampled_from(["batch_optimized", "record_limit"]),
        **stays,
    )
    people = tuple(
        replace(draw(members), name=f"{draw(_texts)}/{number}")
        for number in range(draw(st.integers(0, 2)))
    )
    each = [member.name for member in people if member.count == 1]
    bursts = st.builds(Burst, _counts, _counts, _times)
    producers = st.builds(
        Producer,
        topics,
        _times,
        st.sampled_from(["poisson", "steady"]),
        batch_records=_some,
        keys=_counts,
        key_skew=_times,
        bursts=tuples(bursts),
        day=st.just(()) | st.tuples(*[_times] * 24),
        abort_share=_shares,
        end_ms=maybe(_counts),
    )
    faults = st.builds(
        Fault, _counts, st.just("leader_change"), topic=topics, topics=tuples(topics)
    )
    if each:
        faults |= st.builds(Fault, _counts, st.just("hang"), st.sampled_from(each), maybe(_counts))
    poison = st.builds(
        Poison, topics, st.just(0), _counts, st.sampled_from(["release", "crash"]), _some
    ) | st.builds(Poison, topics, st.just(0), _counts, st.just("hold"), _some, hold_ms=_counts)
    return draw(
        st.builds(
            Scenario,
            st.just(tuple(found)),
            st.just(people),
            tuples(producers),
            _settings,
            _costs,
            _texts,
            tuples(poison),
            tuples(faults),
            duration_ms=_some,
            step_ms=_some,
            brokers=_some,
            group_id=_texts,
            begins_ms=_counts,
            initialized=st.booleans(),
            autoscaler=st.just(scaled),
            name=_texts,
            about=_texts,
            assumed=tuples(_texts),
        )
    )


@given(_scenarios())
def test_a_scenario_is_the_same_after_it_was_written_down(scenario: Scenario) -> None:
    text = to_json(scenario)
    assert text.isascii()
    assert from_json(text) == scenario
    assert from_json(to_json(scenario, indent=2)) == scenario
    assert to_json(from_json(text)) == text
    assert to_json(replace(scenario, begins_ms=scenario.begins_ms + 1)) != text


@pytest.mark.parametrize("name", names())
def test_a_named_scenario_runs_the_same_from_its_text(name: str) -> None:
    scenario = named(name)
    assert from_json(to_json(scenario)) == scenario
    if scenario.duration_ms <= 60_000:
        assert simulate(from_json(to_json(scenario)), 3).timeline.equals(
            simulate(scenario, 3).timeline
        )


def test_numbers_that_are_equal_have_one_text() -> None:
    one, other = (Scenario((Topic("t", 1),), (Member(service=Service(mean)),)) for mean in (8, 8.0))
    assert one == other
    assert to_json(one) == to_json(other)
    assert list(json.loads(to_json(one))) == sorted(
        json.loads(to_json(one))
    )  # however the fields are declared


def test_every_field_is_written() -> None:
    """So that a new one cannot be forgotten, wherever it is."""
    starts = (PartitionStart(5, window=Window(0, 0, 0, 0, 0, 0, 0, (StateBatch(0, 1, 2, 1),))),)
    scenario = Scenario(
        (Topic("t", 1, "an id", starts=starts),),
        (Member("m", edited=(("t", 0),)),),
        (Producer("t", 1, bursts=(Burst(0, 1, 2),)),),
        poison=(Poison("t", 0, 0),),
        faults=(Fault(0, "crash", "m"),),
        autoscaler=Keda(),
    )
    _require_fields(scenario, json.loads(to_json(scenario)))


def _require_fields(value: Any, result: Any) -> None:
    if is_dataclass(value):
        assert (
            set(result) == {one.name for one in fields(value)} == set(get_type_hints(type(value)))
        )
        for name, one in result.items():
            _require_fields(getattr(value, name), one)
    elif isinstance(value, tuple):
        assert len(result) == len(value)
        for one, other in zip(value, result, strict=True):
            _require_fields(one, other)


def test_people_write_as_much_as_they_need() -> None:
    text = """{"topics": [{"name": "orders", "partitions": 4, "backlog": 1000}],
               "members": [{"count": 3, "service": {"mean_ms": 5},
                           "behaviour": {"accept": 0.9, "release": 0.1}}],
               "assignor": "sticky", "duration_ms": 10000}"""
    assert from_json(text) == Scenario(
        (Topic("orders", 4, backlog=1000),),
        (Member(count=3, service=Service(5), behaviour=Behaviour(accept=0.9, release=0.1)),),
        assignor="sticky",
        duration_ms=10_000,
    )


def test_a_backlog_can_be_edited() -> None:
    """What follows from it is not written beside it."""
    result = json.loads(to_json(Scenario((Topic("orders", 2, backlog=7),), ())))
    assert {"starts", "id"}.isdisjoint(result["topics"][0])
    result["topics"][0]["backlog"] = 9
    assert from_json(json.dumps(result)).topics[0].starts[0].end_offset == 9


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{", "it is not valid JSON"),
        ("{}", "topics: .*; members: "),
        ("[1]", "all of it: "),
        (
            '{"topics": [{"name": "t", "partitions": 1}], "members": [], "assigner": "x"}',
            "assigner: unknown key",
        ),
        (
            (
                '{"topics": [{"name": "t", "partitions": 1, "back_log": 1}], '
                '"members": [{"service": {"mean": 1}}]}'
            ),
            (
                r"topics\.0\.back_log: unknown key; "
                r"members\.0\.service\.mean: unknown key"
            ),
        ),
        (
            '{"topics": [{"name": "t", "partitions": "many"}], "members": []}',
            r"topics\.0\.partitions: ",
        ),
        (
            (
                '{"topics": [{"name": "t", "partitions": 1}], '
                '"members": [{"service": {"kind": "odd"}}]}'
            ),
            "service.kind: ",
        ),
        (
            '{"topics": [{"name": "t", "partitions": 1}], "members": [], "duration_ms": NaN}',
            "NaN is not a number",
        ),
        ('{"topics": [], "members": []}', "a scenario needs topics"),
        ('{"topics": 7, "members": []}', "topics: Input should be"),
        (
            '{"topics": [{"name": "t", "partitions": 1000000000}], "members": []}',
            "1,000,000,000 partitions are more than 1,000,000",
        ),
        (
            json.dumps({"topics": [{"name": "t", "partitions": 900_000}] * 2, "members": []}),
            "1,800,000 partitions are more than",
        ),
        (
            '{"topics": [{"name": "t", "partitions": 1}], "members": [{"count": 1000000000}]}',
            "1,000,000,000 members are too many: give at most 1,000",
        ),
        (
            json.dumps(
                {"topics": [{"name": "t", "partitions": 1}], "members": [{"count": 1000}] * 11}
            ),
            "has 11,000 members: give at most 10,000",
        ),
        (json.dumps({"topics": [{}] * 9, "members": []}), "and 13 more"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, result: str) -> None:
    with pytest.raises(InputError, match=result):
        from_json(text)


def test_a_topic_of_more_partitions_than_any_cluster_has_is_refused() -> None:
    with pytest.raises(InputError, match="1,000,001 partitions: give at most 1,000,000"):
        Topic("t", 1_000_001)


def test_numbers_without_end_are_not_written() -> None:
    with pytest.raises(InputError, match="number without end"):
        to_json(Scenario((Topic("t", 1),), (), (Producer("t", float("inf")),)))


def test_what_nothing_is_known_of_stays_marked() -> None:
    """Where nobody knows how long a record takes, no time that a simulation takes means anything."""
    guess = Assumption("service", "1 ms of work for each record", "nothing was finished")
    scenario = replace(named("slow-work"), assumed=("one broker", guess))
    said = unknown_work(scenario)
    assert said.startswith("not known: nothing was finished")
    text = to_json(scenario)
    read = from_json(text)
    assert (unknown_work(read), read, to_json(read)) == (said, scenario, text)
    for wrong in ({"code": "service"}, {"code": 1, "what": "a", "why": ""}):
        with pytest.raises(InputError, match=r"assumed\.0: "):
            from_json(json.dumps(json.loads(text) | {"assumed": [wrong]}))
