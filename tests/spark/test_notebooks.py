"""Notebooks run on every kind of group when only their parameters change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import sharelag
from sharelag import whatif
from tests.support.cases import few_of
from tests.support.notebooks.shipped import read

#: What is read here is read by the Spark of this process, which all its tests share.
pytestmark = pytest.mark.usefixtures("spark")

#: Run with other parameters by no test.
AS_THEY_ARE = ("05_imbalance", "08_consumer_group_or_share_group", "10_your_own_cluster")
LONG_AGO = "2020-01-01T00:00:00Z"


def run(name: str, **parameters: Any) -> dict[str, Any]:
    """A notebook's code in this process; what it would show is made, but not shown."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(cell for cell in read(name).cells if cell.cell_type == "code"):
        exec(compile(cell.source, f"{name}, code cell {number}", "exec"), names)
        if number == 0:
            names.update(parameters)
    return names


#: Those that take long.
LONG = ("05_imbalance", "08_consumer_group_or_share_group", "10_your_own_cluster")


@pytest.mark.parametrize("name", few_of(AS_THEY_ARE, {*AS_THEY_ARE} - {*LONG}))
def test_it_runs_as_it_is(name: str) -> None:
    assert run(name)["sharelag"] is sharelag


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("02_inside_a_window", "analytics"),  # not begun
        pytest.param("02_inside_a_window", "billing", marks=pytest.mark.exhaustive),  # healthy
        ("04_poison_and_stuck_records", "refunds"),  # without records
        pytest.param("02_inside_a_window", "refunds", marks=pytest.mark.exhaustive),
        pytest.param("04_poison_and_stuck_records", "analytics", marks=pytest.mark.exhaustive),
        pytest.param("04_poison_and_stuck_records", "billing", marks=pytest.mark.exhaustive),
    ],
)
def test_it_runs_where_there_is_no_window(name: str, group: str) -> None:
    names = run(name, where="chapters", group=group)
    if name.startswith("02"):
        start = dict.fromkeys(names["bench"].lag(group).table.column("start_offset").to_pylist())
        assert (
            names["selection"].offsets is None
            if set(start) == {None}
            else names["selection"].offsets[0] in start
        )
    else:
        assert set(names["runs"]["delivery_count"]) <= {1}


@pytest.mark.exhaustive
def test_runs_delivered_again_are_listed() -> None:
    runs = run("04_poison_and_stuck_records")["runs"]
    assert runs["delivery_count"].max() > 1
    assert set(runs["delivery_state"]) <= {"available", "acknowledged", "archived"}


@pytest.mark.parametrize(
    ("name", "as_of"),
    [
        ("01_lag_today", None),
        ("03_back_in_time", LONG_AGO),
        pytest.param("09_state_topic", None, marks=pytest.mark.exhaustive),
        pytest.param("01_lag_today", LONG_AGO, marks=pytest.mark.exhaustive),
        pytest.param("03_back_in_time", None, marks=pytest.mark.exhaustive),
        pytest.param("09_state_topic", LONG_AGO, marks=pytest.mark.exhaustive),
    ],
)
def test_it_runs_on_a_cluster_without_a_past(name: str, as_of: str | None) -> None:
    assert run(name, where="not_started", as_of=as_of)["bench"].lag().table.num_rows >= 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, whatif.Scenario]]:
    """What is compared, for five seconds of it and with two seeds."""
    compared: list[dict[str, whatif.Scenario]] = []
    compare, fewest, clear = whatif.compare, whatif.fewest_members, whatif.what_clears

    def compare_quickly(variants: Mapping[str, whatif.Scenario], **given: Any) -> whatif.Comparison:
        compared.append(dict(variants))
        short = {name: replace(one, duration_ms=5000) for name, one in variants.items()}
        return compare(short, **given | {"seeds": range(2)})

    def search_quickly(scenario: whatif.Scenario, **given: Any) -> whatif.Found:
        short = {"goal": whatif.Goal.parse("age_p95 <= 4s"), "seeds": range(2)}
        return fewest(replace(scenario, duration_ms=5000), **given | short)

    def clear_quickly(scenario: whatif.Scenario) -> whatif.Clearing:
        return clear(scenario, members=[2], duration_ms=5000, seeds=range(2))

    monkeypatch.setattr(whatif, "compare", compare_quickly)
    monkeypatch.setattr(whatif, "what_clears", clear_quickly)
    monkeypatch.setattr(whatif, "fewest_members", search_quickly)
    return compared


#: How many members there are, and for how long they hold locks.
GROUPS = [
    ("hot_partition", "hot-partition", 3),
    pytest.param("head_of_line", "head-of-line", 4, marks=pytest.mark.exhaustive),
    pytest.param("chapters", "billing", 0, marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("where", "group", "members"), GROUPS)
def test_members_and_settings_are_those_of_the_group(
    where: str,
    group: str,
    members: int,
    quick: list[dict[str, whatif.Scenario]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(whatif.ASSIGNORS, "all-hands", whatif.ASSIGNORS["simple"])  # the notebook's
    names = run("06_what_if", where=where, group=group)
    now, lock = max(members, 1), names["scenario"].settings.limits.lock_duration_ms
    _, settings, _ = quick
    assert {len(one.each_member()) for one in settings.values()} == {now, 2 * now}
    for name, one in settings.items():
        is_as_now = one.settings.limits.lock_duration_ms == lock
        assert name.endswith("locks as they are") == is_as_now
        assert is_as_now or name.endswith(
            f"locks of {one.settings.limits.lock_duration_ms // 1000} s"
        )
    assert len({one.settings.limits.lock_duration_ms for one in settings.values()}) == 2
    assert {one.group_id for one in settings.values()} == {group}


@pytest.mark.parametrize(("where", "group", "members"), GROUPS)
def test_an_autoscaler_is_tried_on_the_group(
    where: str, group: str, members: int, quick: list[dict[str, whatif.Scenario]]
) -> None:
    names = run("07_capacity_and_autoscaling", where=where, group=group)
    (scaled,) = quick
    now = max(members, 1)
    assert (len(scaled), {one.group_id for one in scaled.values()}) == (5, {group})
    assert {one.topics for one in scaled.values()} == {names["scenario"].topics}
    every = [one.autoscaler for one in scaled.values()]
    fixed = [one.replicas for one in every if isinstance(one, whatif.Fixed)]
    assert fixed == [2 * now, 4 * now]
    (some, *_) = scaled.values()
    rate = sum(one.rate for one in some.producers if one.begin_ms)
    assert rate == pytest.approx(4 * now * 1000 / some.members[0].service.mean_ms)
    assert [one for one in some.producers if not one.begin_ms] == list(names["scenario"].producers)
