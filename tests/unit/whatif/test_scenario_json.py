"""A scenario is the same after it was written as JSON, and its text identifies it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from random import Random
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Behaviour,
    Burst,
    Fault,
    Fixed,
    Hpa,
    Keda,
    Member,
    PartitionStart,
    Poison,
    Policy,
    Producer,
    Rules,
    Scenario,
    Service,
    TargetAge,
    Topic,
    from_json,
    named,
    names,
    simulate,
    to_json,
)
from sharelag.whatif.comparison.rows import unknown_work
from sharelag.whatif.estimates import Assumption
from tests.support.simulation_scenarios import EVERYTHING, drawn_scenario

FILLED = Window(0, 0, 0, 0, 0, 0, 0, (StateBatch(0, 1, 2, 1),))
#: Something in every part that a scenario can have.
FULL = Scenario(
    (
        Topic("t", 1, "an id", starts=(PartitionStart(5, 0, FILLED),), racks=(("a", "b"),)),
        Topic("u", 2, backlog=(3, 4), added_ms=(5,)),
    ),
    (Member("m", rack="r", topics=("t",), assigned=(("t", 0),), edited=(("t", 0),)),),
    (Producer("t", 1, weights=(1.0,), bursts=(Burst(0, 1, 2),), day=(1.0,) * 24),),
    poison=(Poison("t", 0, 0), Poison("t", 0, 1, "hold", hold_ms=7)),
    faults=(Fault(0, "crash", "m"),),
    autoscaler=Keda(),
    assumed=("one broker",),
)


def change_each(value: Any, hint: Any = None) -> Iterator[Any]:
    """The same but for one number, text or choice in it, whichever may be another."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        for one in fields(value):
            for other in change_each(getattr(value, one.name), hints[one.name]):
                with suppress(InputError):  # what does not go with the rest
                    yield replace(value, **{one.name: other})
    elif isinstance(value, StateBatch):
        yield from (value._replace(**{name: 9}) for name in value._fields)
    elif isinstance(value, tuple):
        for n, one in enumerate(value):
            yield from ((*value[:n], other, *value[n + 1 :]) for other in change_each(one))
    elif get_origin(hint) is Literal:
        yield from (other for other in get_args(hint) if other != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value + 2**40)
    elif isinstance(value, float):
        yield from (value + 0.1 + 0.2, 1e-9, 1e300)
    elif isinstance(value, str):
        yield f"{value}\u00e9\x1b<b>"
    elif get_args(hint) == (int, NoneType):
        yield 7


SCALERS = (
    *(TargetAge(3), Fixed(2), Keda(hpa=Hpa(scale_up=None, scale_down=None))),
    TargetAge(9, utilization=None, hpa=Hpa(scale_up=Rules(1, (Policy("pods", 2),), "min"))),
)


@pytest.mark.parametrize("scenario", [EVERYTHING, FULL], ids=["everything", "full"])
def test_a_scenario_is_the_same_after_it_was_written_down(scenario: Scenario) -> None:
    """Whatever one changes in it, to other numbers, words and choices."""
    texts = {to_json(scenario)}
    others = list(dict.fromkeys(change_each(scenario)))
    assert len(others) > 100
    for other in (*others, *(replace(FULL, autoscaler=one) for one in SCALERS)):
        text = to_json(other)
        assert text.isascii()
        assert from_json(text) == from_json(to_json(other, indent=2)) == other
        assert to_json(from_json(text)) == text
        assert text not in texts
        texts.add(text)


def test_drawn_scenarios_are_the_same_after_they_were_written_down() -> None:
    for scenario in (drawn_scenario(Random(seed)) for seed in range(40)):
        assert from_json(to_json(scenario)) == scenario


@pytest.mark.parametrize("name", names())
def test_a_named_scenario_runs_the_same_from_its_text(name: str) -> None:
    scenario = named(name)
    assert from_json(to_json(scenario)) == scenario
    if scenario.duration_ms <= 60_000:
        again, ran = (simulate(one, 3) for one in (from_json(to_json(scenario)), scenario))
        assert again.timeline.equals(ran.timeline)


def test_numbers_that_are_equal_have_one_text() -> None:
    one, other = (Scenario((Topic("t", 1),), (Member(service=Service(mean)),)) for mean in (8, 8.0))
    assert one == other
    assert to_json(one) == to_json(other)
    names_ = list(json.loads(to_json(one)))
    assert names_ == sorted(names_)  # however the fields are declared


def test_every_field_is_written() -> None:
    """So that a new one cannot be forgotten, wherever it is."""
    scenario = replace(FULL, topics=FULL.topics[:1])  # of the other one starts and id follow
    _require_fields(scenario, json.loads(to_json(scenario)))


def _require_fields(value: Any, result: Any) -> None:
    if is_dataclass(value):
        named_ = {one.name for one in fields(value)}
        assert set(result) == named_ == set(get_type_hints(type(value)))
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
    with pytest.raises(InputError, match="1,000,001 partitions: give at most 1,000,000"):
        Topic("t", 1_000_001)  # more than any cluster has


TOPIC = {"name": "t", "partitions": 1}
PRODUCER, SPAN = {"topic": "t", "rate": 1}, {"begin_ms": "2s", "end_ms": "1s"}


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("{", "it is not valid JSON"),
        ("{}", "topics: .*; members: "),
        ("[1]", "all of it: "),
        ({"assigner": "x"}, "assigner: unknown key"),
        (
            {"topics": [TOPIC | {"back_log": 1}], "members": [{"service": {"mean": 1}}]},
            r"topics\.0\.back_log: unknown key; members\.0\.service\.mean: unknown key",
        ),
        ({"topics": [TOPIC | {"partitions": "many"}]}, r"topics\.0\.partitions: "),
        ({"members": [{"service": {"kind": "odd"}}]}, "service.kind: "),
        ({"duration_ms": float("nan")}, "NaN is not a number"),
        ({"topics": []}, "a scenario needs topics"),
        ({"topics": 7}, "topics: Input should be"),
        ({"topics": [TOPIC | {"partitions": 10**9}]}, "1,000,000,000 partitions are more than 1,0"),
        ({"topics": [TOPIC | {"partitions": 900_000}] * 2}, "1,800,000 partitions are more than"),
        ({"members": [{"count": 10**9}]}, "1,000,000,000 members are too many: give at most 1,000"),
        ({"topics": [TOPIC | {"backlog": 1 << 63}]}, "9223372036854775808 is more than any offset"),
        ({"members": [{"count": 1000}] * 11}, "has 11,000 members: give at most 10,000"),
        ({"topics": [{}] * 9}, "and 13 more"),
        ('{"members": [], "topics": [], "members": []}', "key 'members' is there more than once"),
        ({"producers": [PRODUCER | SPAN]}, "end_ms of Producer 't' is 1000, before begin_ms 2000"),
        (
            {"producers": [PRODUCER | {"bursts": [SPAN | {"factor": 2}]}]},
            "of Burst is 1000, before",
        ),
        ({"members": [{"join_ms": 9, "leave_ms": 8}]}, "of Member 'member' is 8, before join_ms 9"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(given: Any, result: str) -> None:
    whole = {"topics": [TOPIC], "members": []}
    with pytest.raises(InputError, match=result):
        from_json(given if isinstance(given, str) else json.dumps(whole | given))


def test_what_nothing_is_known_of_stays_marked() -> None:
    """If it is not known how long a record takes, simulated times mean nothing."""
    guess = Assumption("service", "1 ms of work per record", "nothing was finished")
    scenario = replace(named("slow-work"), assumed=("one broker", guess))
    said = unknown_work(scenario)
    assert said.startswith("not known: nothing was finished")
    text = to_json(scenario)
    read = from_json(text)
    assert (unknown_work(read), read, to_json(read)) == (said, scenario, text)
    for wrong in ({"code": "service"}, {"code": 1, "what": "a", "why": ""}):
        with pytest.raises(InputError, match=r"assumed\.0: "):
            from_json(json.dumps(json.loads(text) | {"assumed": [wrong]}))
