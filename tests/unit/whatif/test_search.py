"""The search finds the fewest members, and says when it cannot."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.errors import InputError
from sharelag.whatif import (
    Found,
    Goal,
    Keda,
    Member,
    Producer,
    Scenario,
    Service,
    Topic,
    fewest_members,
    grid,
    simulate,
    tune,
    what_clears,
)
from sharelag.whatif import search as fewest
from sharelag.whatif.comparison.tables import RUNS
from sharelag.whatif.search import PROBES
from tests.support.simulations import only

WORK = Scenario(
    (Topic("orders", 4),),
    (Member(service=Service(40, "exponential"), max_poll_records=5),),
    (Producer("orders", 90, begin_ms=6000),),  # when all have joined
    duration_ms=20_000,
)
UNDER = Goal("age_p95_ms", 1000)


def test_members_that_an_autoscaler_decides_on_are_not_searched_for() -> None:
    """All numbers would be those that it scales to, and the answer the least one tried."""
    scaled = replace(WORK, autoscaler=Keda(10))
    searches: tuple[Callable[[], object], ...] = (
        lambda: fewest_members(scaled, goal=UNDER, seeds=range(2)),
        lambda: what_clears(scaled, seeds=range(2)),
        lambda: tune(scaled, "age_p95<1s"),
    )
    for search in searches:
        with pytest.raises(InputError, match=r"^an autoscaler decides .*: give the scenario with "):
            search()


def test_one_goal_assignor_or_number_alone_is_taken_as_such() -> None:
    short = replace(WORK, duration_ms=2_000)
    found = what_clears(short, assignors="sticky", members=2, seeds=[1])
    assert set(found.cells.column("assignor").to_pylist()) == {"simple", "sticky"}
    assert found.cells.column("members").to_pylist() == [1, 1, 2, 2]
    tuned = tune(short, "age_p95<1s", trials=1, seeds=2, margins=False)
    assert [str(goal) for goal in tuned.goals] == ["age_p95 <= 1s"]
    seeds: Any = 3
    for ask in (
        lambda: what_clears(short, seeds=seeds),
        lambda: fewest_members(short, goal=UNDER, seeds=seeds),
    ):
        with pytest.raises(InputError, match=r"^seeds are several numbers: give range\(3\)"):
            ask()
    with pytest.raises(InputError, match=r"^-1 cannot be a seed: give a whole number from 0 on$"):
        tune(short, "age_p95<1s", seed=-1)


@pytest.mark.parametrize("limit", [-5, float("nan"), float("inf")])
def test_a_limit_that_no_measure_has_is_refused(limit: float) -> None:
    with pytest.raises(InputError, match=r"^the limit of age_p95_ms cannot be .*: give at least 0"):
        Goal("age_p95_ms", limit)


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Found]:
    """Searches whose runs come from a function of members and seed instead of a simulation."""

    def search(ages: Callable[[int, int], float | None], goal: Goal = UNDER, **more: Any) -> Found:
        def answer(planned: Any, _: object) -> dict[str, Any]:
            count = len(planned.scenario.each_member())
            return {"run": planned.id, "members": count, goal.measure: ages(count, planned.seed)}

        monkeypatch.setattr(grid, "run", answer)
        return fewest_members(WORK, goal=goal, **more)

    return search


def tried(found: Found) -> list[tuple[int, bool | None]]:
    return [(row["members"], row["met"]) for row in found.probes.to_pylist()]


def test_the_fewest_are_what_trying_all_of_them_says() -> None:
    found = fewest_members(WORK, goal=UNDER, seeds=range(4), between=(1, 12))
    each = {
        count: [only(simulate(WORK.with_members(count), seed).summary) for seed in range(4)]
        for count in range(1, 7)
    }
    ages = {count: [row["age_p95_ms"] for row in rows] for count, rows in each.items()}
    most = {n: np.mean(one) + 2.353 * np.std(one, ddof=1) / 2 for n, one in ages.items()}
    good = [count for count, age in most.items() if age <= 1000]
    assert found.members == good[0]
    assert 2 < good[0] < 6
    assert found.monotone
    probes = {row["members"]: row for row in found.probes.to_pylist()}
    assert probes[good[0]]["mean"] == pytest.approx(np.mean(ages[good[0]]))
    assert {good[0] - 1, good[0], good[0] + 1} <= set(probes)
    assert found.probes.schema.equals(PROBES)
    assert found.runs.schema.equals(RUNS)
    assert found.runs.num_rows == 4 * len(probes)


@given(least=st.integers(0, 5), span=st.integers(0, 60), enough=st.integers(-3, 70))
def test_few_numbers_are_tried_and_always_neighbours(least: int, span: int, enough: int) -> None:
    requests: list[int] = []

    def meets(count: int) -> bool:
        requests.append(count)
        return count >= enough

    most = least + span
    answer = fewest._search(meets, least, most)
    assert answer == (max(enough, least) if enough <= most else None)
    assert all(least <= count <= most for count in requests)
    assert len(set(requests)) <= 14
    if answer is not None and answer > least:
        assert answer - 1 in requests


def test_a_number_is_enough_only_if_the_runs_say_so(result: Callable[..., Found]) -> None:
    """At 5 members the mean is below the limit, but that may be luck."""

    def age(count: int, seed: int) -> float:
        few = {4: 1500, 5: 900 + 400 * (seed % 2 * 2 - 1)}
        return few.get(count, 1000 * 3 / count) + seed % 3

    found = result(age)
    assert (5, None) in tried(found)
    assert (found.members, found.undecided) == (6, (5,))
    said = "6 members keep age_p95 <= 1s, with 95 % confidence; these seeds do not decide: 5"
    assert said in str(found)
    row = next(row for row in found.probes.to_pylist() if row["members"] == 5)
    assert row["mean"] < 1000 < row["high"]


@pytest.mark.parametrize(("confidence", "enough"), [(0.6, 2), (0.95, 5), (0.99, 7)])
def test_enough_runs_are_sure(result: Callable[..., Found], confidence: float, enough: int) -> None:
    """Student's t has no spread to judge by there, and would be sure of anything after two runs."""
    goal = Goal("redeliveries", 0, confidence=confidence)
    found = result(lambda *_: 0, goal, seeds=range(enough), between=(1, 4))
    assert (found.members, found.undecided, found.identical) == (1, (), ())
    assert f"with {100 * confidence:g} % confidence" in str(found)
    if enough == 2:
        return
    found = result(lambda *_: 0, goal, seeds=range(enough - 1), between=(1, 4))
    assert (found.members, found.undecided, found.identical) == (None, (1, 2, 4), (1, 2, 4))
    assert "% confidence" not in str(found)
    assert f"all runs with 1, 2, 4 are equal; a verdict needs {enough} seeds then" in str(found)
    row = found.probes.to_pylist()[0]
    assert (row["mean"], row["low"], row["high"], row["met"]) == (0, None, None, None)
    # A miss takes as many; what never drained is a miss however few they are.
    missed = result(lambda *_: 5, goal, seeds=range(enough - 1), between=(1, 2))
    assert missed.undecided == (1, 2)
    late = Goal("drain_ms", 10_000, confidence=confidence)
    assert result(lambda *_: None, late, seeds=range(2), between=(1, 2)).undecided == ()
    assert result(lambda *_: 9000, late, seeds=range(2), between=(1, 2)).undecided == (1, 2)


def test_more_confidence_asks_for_more(result: Callable[..., Found]) -> None:
    ages = lambda count, seed: 4000 / count + 200 * (seed % 2 * 2 - 1)  # noqa: E731
    few, many = (
        result(ages, Goal("age_p95_ms", 1000, confidence=level), seeds=range(6)).members or 0
        for level in (0.6, 0.99)
    )
    assert 0 < few < many


def test_there_may_be_none(result: Callable[..., Found]) -> None:
    found = result(lambda *luck: 5000 + luck[1], between=(2, 20))
    assert (found.members, found.monotone) == (None, True)
    assert tried(found) == [(2, False), (4, False), (8, False), (16, False), (20, False)]
    assert str(found) == "no number of members tried, from 2 to 20, reliably keeps age_p95 <= 1s"


def test_more_members_may_do_worse(result: Callable[..., Found]) -> None:
    found = result(lambda count, seed: 500 if count == 4 else 2000 + seed)
    assert (found.members, found.monotone) == (4, False)
    assert (5, False) in tried(found)
    assert "more members are not always better here" in str(found)


def test_the_least_and_the_most_can_be_the_answer(result: Callable[..., Found]) -> None:
    assert result(lambda *_: 1, between=(3, 9)).members == 3
    assert result(lambda count, _: 1 if count == 9 else 5000, between=(3, 9)).members == 9
    assert tried(result(lambda *_: 1, between=(3, 3))) == [(3, True)]
    assert result(lambda *_: 1, between=(0, 9)).members == 0


def test_a_run_that_never_drained_misses_every_goal(result: Callable[..., Found]) -> None:
    goal = Goal("drain_ms", 10_000)
    found = result(lambda count, seed: None if count < 6 and seed == 3 else 100 + seed, goal)
    assert found.members == 6
    assert {row["members"]: row["unknown"] for row in found.probes.to_pylist()}[4] == 1
    with pytest.raises(InputError, match="ends after 20s, before drain <= 30s"):
        fewest_members(WORK, goal=Goal("drain_ms", 30_000))
    # Nothing finished: nobody knows how late.
    assert result(lambda *_: None, Goal("latency_p95_ms", 10), between=(1, 2)).undecided == (1, 2)


def test_a_goal_can_be_a_lower_limit(result: Callable[..., Found]) -> None:
    found = result(lambda count, seed: 100.0 * count + seed, Goal("completed", 700, above=True))
    assert found.members == 7
    assert "completed >= 700" in str(found)
    # At 7 members the mean is above the limit, but that may be luck.
    luck = lambda count, seed: 100.0 * count + 50 + 400 * (count == 7) * (seed % 2 * 2 - 1)  # noqa: E731
    unsure = result(luck, Goal("completed", 700, above=True))
    assert (7, None) in tried(unsure)
    assert (unsure.members, unsure.undecided) == (8, (7,))
    # The limit itself is fine; a little below it is not.
    goal = Goal("completed", 700, above=True)
    assert result(lambda *_: 700, goal).members == 1
    assert result(lambda *_: 699, goal).members is None


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("age_p95<30s", Goal("age_p95_ms", 30_000)),
        (" age_p95_ms <= 1.5 m ", Goal("age_p95_ms", 90_000)),
        ("age_p95_ms<1m30s", Goal("age_p95_ms", 90_000)),
        ("drain<2h", Goal("drain_ms", 7_200_000)),
        ("latency_p50_ms<250ms", Goal("latency_p50_ms", 250)),
        ("lag_p95<1000", Goal("lag_p95", 1000)),
        ("fairness>=0.9", Goal("fairness", 0.9, above=True)),
    ],
)
def test_goals_are_read(text: str, goal: Goal) -> None:
    assert Goal.parse(text) == goal
    assert Goal.parse(str(goal)) == goal


@pytest.mark.parametrize(
    ("limit", "result"),
    [
        *((0, "0ms"), (250, "250ms"), (1600, "1.6s"), (90_000, "1.5m"), (7_200_000, "2h")),
        (100 / 3, "33.3333333333ms"),
    ],
)
def test_a_time_has_a_unit_that_people_read(limit: float, result: str) -> None:
    assert str(Goal("drain_ms", limit)) == f"drain <= {result}"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("30s", "invalid goal .*: write a measure and its limit"),
        ("age_p95_ms", "invalid goal"),
        ("lag_p95<30s", "the limit of lag_p95 is a number, such as lag_p95<1000"),
        ("age_p95_ms<5", "the limit needs a unit, such as age_p95<5ms"),
        ("age_p95<5 parsecs", "invalid goal .*: invalid duration '5 parsecs'"),
        ("age<30s", "unknown measure 'age': choose one of drain_ms"),
        ("drain_over_optimal<2", "unknown measure 'drain_over_optimal'"),
    ],
)
def test_what_is_no_goal_is_said(text: str, result: str) -> None:
    with pytest.raises(InputError, match=result):
        Goal.parse(text)


@pytest.mark.parametrize(
    ("more", "result"),
    [
        ({"seeds": [1]}, "give at least two seeds"),
        ({"between": (5, 4)}, "range of 5 to 4 members is empty"),
        ({"between": (-1, 4)}, "range of -1 to 4 members is empty"),
        ({"goal": replace(UNDER), "seeds": [1, 1]}, "duplicate seeds"),
    ],
)
def test_what_cannot_be_searched_is_said(more: dict[str, Any], result: str) -> None:
    with pytest.raises(InputError, match=result):
        fewest_members(WORK, **({"goal": UNDER} | more))
    with pytest.raises(InputError, match=r"confidence must be above .* not 0\.5"):
        Goal("age_p95_ms", 1, confidence=0.5)


def test_progress_counts_runs(result: Callable[..., Found]) -> None:
    seen: list[tuple[int, int]] = []
    given: Any = {"seeds": range(3), "progress": lambda *done: seen.append(done)}
    found = result(lambda count, _: 1000 * 2 / count, **given)
    assert seen[:6] == [(0, 3), (1, 3), (2, 3), (3, 3), (3, 6), (4, 6)]
    assert seen[-1] == (3 * found.probes.num_rows,) * 2
