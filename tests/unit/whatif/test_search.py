"""The search finds the fewest members, and which assignor with how many clears a lag."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import charts
from sharelag.errors import InputError
from sharelag.whatif import (
    Clearing,
    Costs,
    Fault,
    Found,
    Goal,
    Keda,
    Limits,
    Member,
    PartitionStart,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    compare,
    fewest_members,
    grid,
    should_move,
    simulate,
    tune,
    what_clears,
)
from sharelag.whatif import search as fewest
from sharelag.whatif.clearing import CELLS, search
from sharelag.whatif.comparison.rows import amount
from sharelag.whatif.comparison.tables import RUNS
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.horizon import long_enough, rates
from sharelag.whatif.search import PROBES
from tests.support.readings import open_once
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
    for refused in searches:
        with pytest.raises(InputError, match=r"^an autoscaler decides .*: give the scenario with "):
            refused()


def test_one_goal_assignor_or_number_alone_is_taken_as_such() -> None:
    short = replace(WORK, duration_ms=7_000)
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
    said = "6 members keep age_p95 <= 1s, with 95 % confidence, over 20 s"
    assert f"{said}; these seeds do not decide: 5" in str(found)
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
    # WORK is 90 records per second, of which a busy member finishes 25.
    none = result(lambda *_: 1, between=(0, 9))
    assert none.members == 0
    assert str(none).endswith(
        "over 20 s; by the rates it takes at least 3 members to keep up with what arrives: fewer "
        "keep it for a while only"
    )
    assert "keep up" not in str(result(lambda *_: 1, between=(3, 9)))


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


def uneven(waiting: int = 3_000, rate: float = 12, mean_ms: float = 100) -> Scenario:
    """Two members, of which one has the partition with nearly all of the lag."""
    starts = (PartitionStart(end_offset=waiting, oldest_age_ms=60_000), PartitionStart())
    topic, producer = Topic("orders", 2, starts=starts), Producer("orders", rate, weights=(10, 1))
    member = Member("m", 2, service=Service(mean_ms), max_poll_records=20)
    settings = Settings(auto_offset_reset="earliest")
    return Scenario(topics=(topic,), members=(member,), producers=(producer,), settings=settings)


@pytest.fixture(scope="module")
def found() -> Clearing:
    return what_clears(uneven())


def test_members_grow_until_the_lag_clears(found: Clearing) -> None:
    cells = found.cells.to_pylist()
    assert found.cells.schema == CELLS
    members = list(dict.fromkeys(row["members"] for row in cells))
    assert members[0] == 2
    assert len(members) == 3  # three in any case
    fewest = min(row["members"] for row in cells if row["clears"])
    assert 2 < fewest <= members[-1]
    for row in cells:
        assert row["clears"] == (row["drained"] == row["runs"])
        assert row["answer"] <= row["clears"]
        assert not row["answer"] or row["members"] == fewest
        if row["clears"]:
            assert row["drain_ms"] < found.horizon_ms
    # Kafka's own assignor leaves the partition that has the lag to few members.
    assert "simple" not in {row["assignor"] for row in found.answers}
    assert found.answers


def test_the_verdict_is_that_of_the_cells_and_of_the_comparison(found: Clearing) -> None:
    said, answers = found.verdict(), found.answers
    assert all(row["assignor"] in said for row in answers)
    fewest = answers[0]["members"]
    assert f" with {fewest} members clear" in said
    # What is within a tenth of the soonest ties, as in the table of the comparison.
    clear = [row for row in found.cells.to_pylist() if row["clears"] and row["members"] == fewest]
    latest = 1.1 * min(row["drain_ms"] for row in clear)
    assert all(row["answer"] for row in clear if row["drain_ms"] < latest)
    left = amount("lag_end", found.comparison.cells["as it is", "lag_end"]["mean"])
    is_far = f"; as it is (simple, 2 members): not drained within 2m, lag grows to {left}, p95 age "
    assert is_far in said
    (usual,) = (row for row in found.comparison.decision() if row["variant"] == "as it is")
    assert usual["drained"] == f"0 of {found.cells['runs'][0].as_py()}"
    best = found.comparison.best("drain_ms")
    assert "as it is" not in best.names
    # Nobody has to give more seeds than were given.
    assert not any("too few" in one for one in found.sentences())
    assert "why: records arrive at" not in " ".join(found.sentences())  # two could finish 20


def test_one_row_per_assignor_and_one_column_per_number_of_members(found: Clearing) -> None:
    rows, view = found.grid()
    assert [row["assignor"] for row in rows] == ["simple", "all-to-all", "lag-aware-sticky"]
    headings = list(view.columns)
    assert headings[:2] == ["ASSIGNOR", "2-MEMBERS"]
    usual = rows[0][view.columns["2-MEMBERS"]]
    assert usual.startswith("not in 2m, age ")
    assert usual.endswith(" h")
    marked = [cell for row in rows for cell in row.values() if "*" in cell]
    assert len(marked) == len(found.answers)
    shown = found.presentation()
    assert shown.table.column("with_2")[0].as_py() == usual
    assert list(shown.columns)[:2] == ["Assignor", "2 members"]
    bold = [shown.table.column(name)[number].as_py() for number, name in sorted(shown.best)]
    assert sorted(bold) == sorted(marked)
    assert shown.notes[0] == found.verdict()


def test_a_figure_of_the_cells_fills_what_clears_and_frames_the_answer(found: Clearing) -> None:
    cells = found.cells.to_pylist()
    for theme in ("light", "dark"):
        figure = charts.clearing_figure(found.cells, theme)
        boxes = figure.layout.shapes
        assert len(boxes) == len(cells)
        framed = [box.line.width for box in boxes]
        assert [bool(width) for width in framed] == [row["answer"] for row in cells]
        fills = {box.fillcolor for box in boxes}
        assert len(fills) == 2
    assert figure.layout.meta["title"].count("clear") == 1
    assert str(found.answers[0]["members"]) in figure.layout.meta["title"]
    nothing = found.cells.filter(pc.equal(found.cells["members"], 2))
    assert charts.clearing_figure(nothing).layout.meta["title"].startswith("Nothing that was tried")
    assert not charts.clearing_figure(nothing.slice(0, 0)).data


#: What is to be done of each group of the demo, and what it says of it.
DECISIONS = {
    "analytics": "^lag-aware-sticky with 7 members clears the lag: .* does with 6 members$",
    "billing": (
        "^simple with 8 members clears the lag: .*; that is as it is .*; offset 4142 of orders:0 "
        "keeps failing until it is archived, about 1m 10s from now: finish or reject it"
    ),
    "checkout": "^all-to-all with 3 members clears the lag: .* drained within 2m in 9 of 10 runs, ",
    "fulfilment": (
        "^all-to-all and lag-aware-sticky with 9 members clear the lag: drained in 7m 4.*; as it "
        "is .*: not drained within 10m, .*; no assignor does with 7 members$"
    ),
    "invoicing": "^blocked by a transaction that is open in invoices:0 .*: members do not help",
    "notifications": "^lag-aware-sticky with 4 members clears the lag: drained in 1m ",
    "returns-desk": "^simple and lag-aware-sticky with 4 members clear the lag: drained in 5m ",
    "search-index": (
        "^all-to-all and lag-aware-sticky with 6 members clear the lag: .*; offset 4994 of "
        "catalogue:1 keeps failing until it is archived, about 10m 5s from now: finish or reject it"
    ),
}


@pytest.mark.exhaustive
def test_every_group_of_the_demo_gets_a_decision() -> None:
    bench = open_once("demo")
    assert set(bench.groups) == set(DECISIONS)
    for group, said in DECISIONS.items():
        found = what_clears(bench.scenario(group))
        assert re.search(said, found.verdict()), (group, found.verdict())
        assert len(found.cells) > 3 or "blocked" in said  # of which nothing more is tried
        drains = {name: found.comparison.cells[name, "drain_ms"] for name in found.comparison.names}
        for row in found.answers:  # not by chance
            assert drains[row["variant"]]["better"] or row["variant"] == "as it is", group


def test_members_begin_where_the_rates_say_that_they_can_clear_it() -> None:
    """Two members of which six keep up: up to six would be tried by halves of what there are."""
    scenario = open_once("idle_members").scenario("idle-members")
    assert rates(scenario).fewest() == 6
    # By quarters from the seven that clear it in this time.
    assert search(scenario).members == [2, 6, 7, 9, 11, 13, 14, 16]
    found = what_clears(scenario, seeds=range(5))
    assert found.answers
    assert found.answers[0]["members"] > 6


def test_what_no_group_can_clear_in_that_time_is_said_at_once() -> None:
    member = Member(count=4, service=Service(1000), max_poll_records=10)
    group = Scenario((Topic("t", 4, backlog=10**8),), (member,), producers=(Producer("t", 50),))
    found = what_clears(group, seeds=range(3))
    assert found.horizon_ms == 1_200_000  # few enough records arrive in it
    assert set(found.cells.column("members").to_pylist()) == {4}
    assert found.answers == []
    assert found.verdict() == (
        "as it is (simple, 4 members) does not clear the lag within 20m, nor do simple, "
        "all-to-all or lag-aware-sticky with up to 4 members; by the rates it takes at least "
        "333,384 members to clear the lag within 20m, and the group may have 200"
    )
    # Nobody has to work on what is deleted before.
    deleted = Fault(5_000, "delete_records", topic="t", offset=10**8 - 10)
    gone = replace(group, faults=tuple(replace(deleted, partition=n) for n in range(4)))
    assert len(search(gone, duration_ms=60_000).members) > 1


def test_what_clears_sooner_than_a_group_that_clears_its_lag_says_so() -> None:
    few = uneven(waiting=300, rate=3)
    found = what_clears(few, assignors=["all-to-all"], members=[2], seeds=range(8))
    assert {row["assignor"] for row in found.answers} == {"all-to-all"}
    assert found.verdict().startswith("all-to-all with 2 members clears the lag sooner: drained in")
    assert "; as it is (simple, 2 members): drained in " in found.verdict()
    assert "no assignor does" not in found.verdict()


def test_what_clears_as_often_by_chance_is_no_answer() -> None:
    """One of ten runs as it is ends before the record that fails is archived."""
    scenario = open_once("demo").scenario("billing")
    found = what_clears(scenario, members=[8, 12], duration_ms=120_000)
    clears = [row["variant"] for row in found.cells.to_pylist() if row["clears"]]
    assert clears
    assert "as it is" not in clears
    assert found.answers == []
    assert "*" not in found.presentation().table.to_string()
    assert re.search(
        r"^as it is \(simple, 8 members\): drained within 2m in \d of \d+ runs, p95 age .*; "
        "nothing that was tried is shown to clear the lag sooner or more often; offset 4142 of "
        "orders:0 ",
        found.verdict(),
    )


@pytest.mark.exhaustive
def test_the_assignor_alone_may_be_enough() -> None:
    few = what_clears(uneven(waiting=300), seeds=range(7))
    assert {row["members"] for row in few.answers} == {2}
    assert "no assignor does" not in few.verdict()
    # Where the group clears it as it is, and nothing is sooner, nothing else is proposed.
    idle = replace(uneven(waiting=1, rate=1), producers=(Producer("orders", 1),))
    same = what_clears(idle, assignors=["simple"], seeds=range(2))
    assert [row["variant"] for row in same.answers] == ["as it is"]
    assert same.verdict().endswith("; that is as it is (simple, 2 members)")


def test_numbers_of_members_and_a_time_may_be_given() -> None:
    seen: list[tuple[int, int]] = []
    few = what_clears(
        uneven(), assignors=[], members=[3], duration_ms=5_000, seeds=[1, 2], baseline="now",
        progress=lambda done, of: seen.append((done, of)),
    )  # fmt: skip
    assert few.cells["variant"].to_pylist() == ["now", "simple · 3 members"]
    assert few.horizon_ms == 5_000
    assert few.verdict() == (
        "now (simple, 2 members) does not clear the lag within 5 s, nor does simple with up to 3 "
        "members"
    )
    assert seen[0] == (0, 4)
    assert seen[-1] == (4, 4)
    with pytest.raises(InputError, match="unknown assignor 'nobody'"):
        what_clears(uneven(), assignors=["nobody"])


def test_a_group_without_members_begins_with_one() -> None:
    nobody = replace(uneven(), members=(replace(uneven().members[0], count=0),))
    found = what_clears(nobody, assignors=[], members=[1], duration_ms=5_000, seeds=[1, 2])
    assert found.cells["members"].to_pylist() == [1]
    assert "as it is (simple, 0 members)" in found.verdict()


def test_how_long_is_simulated_follows_from_the_rates() -> None:
    known = rates(uneven())
    assert known == (3_000, 12, 10)
    assert (known.fewest(), known.fewest(100_000)) == (2, 5)
    assert known.to_clear_ms(4) == pytest.approx(3_000 / 28 * 1000)
    assert known.to_clear_ms(1) == float("inf")
    assert long_enough(uneven()) == 120_000
    # Six members at their best take 625 s of 30,000 records, and 1.25 times as long is simulated.
    assert long_enough(uneven(waiting=30_000)) == 14 * 60_000
    # A busy group is not simulated for longer than what takes seconds.
    assert long_enough(uneven(waiting=10_000_000, rate=500, mean_ms=1)) == 2 * 60_000
    assert long_enough(uneven(mean_ms=0)) == 600_000
    # What arrives behind a record that goes on failing is cleared after it.
    stuck = open_once("demo").scenario("search-index")
    assert long_enough(stuck) > 15 * 60_000
    assert long_enough(replace(stuck, poison=())) == 120_000


def test_of_work_that_nobody_knows_nothing_is_said() -> None:
    unknown = Assumption("service", "1 ms of work per record", "nothing is known")
    scenario = replace(uneven(), assumed=(unknown,), duration_ms=5_000)
    found = what_clears(scenario, assignors=[], members=[3], seeds=[1, 2], duration_ms=5_000)
    assert found.verdict().startswith("not known: nothing is known")
    assert not found.answers
    assert set(found.cells.column("clears").to_pylist()) == {None}
    assert charts.clearing_figure(found.cells).layout.meta["title"].startswith("Not known: nothing")
    for assumed in ((), (unknown,)):
        usual = replace(WORK, assumed=assumed)
        between = compare({"as it is": usual, "more": usual.with_members(8)}, seeds=range(3))
        better = [row["verdict"] for row in between.decision()[1:]]
        better += [row["better"] for row in between.rows()]
        assert any(better) is not bool(assumed)
    ask: tuple[Callable[[], object], ...] = (
        lambda: fewest_members(scenario, goal=UNDER),
        lambda: tune(scenario, str(UNDER)),
        lambda: should_move(scenario),
    )
    for one in ask:
        with pytest.raises(InputError, match=r"is not known: nothing is known.*give it as --serv"):
            one()


def test_a_comparison_in_which_nothing_clears_says_what_would() -> None:
    slow = replace(uneven(waiting=6_000), duration_ms=120_000)
    three = {"as it is": slow, "3": slow.with_members(3)}
    said = compare(three, seeds=range(7)).verdict()
    assert said.endswith("; by the rates it takes at least 7 members to clear the lag within 2m")
    # As many are tried, and one that has less lag clears it.
    seven = three | {"7": slow.with_members(7)}
    assert "by the rates" not in compare(seven, seeds=range(7)).verdict()
    less = replace(uneven(waiting=10), duration_ms=120_000)
    assert "by the rates" not in compare({"as it is": less, "3": less.with_members(3)}).verdict()
    stuck = open_once("demo").scenario("search-index", duration_ms=60_000)
    tried = compare({"as it is": stuck, "8": stuck.with_members(8)}, seeds=range(7))
    assert tried.verdict().endswith(
        "; offset 4994 of catalogue:1 keeps failing until it is archived, about 10m 5s from now: "
        "finish or reject it, more members do not help before"
    )


def test_what_comes_for_a_while_only_counts_for_that_while() -> None:
    """Two members clear it, and the rate of the first ten seconds alone would take five."""
    topic, member = Topic("orders", 4, backlog=1_500), Member("m", service=Service(20))
    producer = Producer("orders", 200, "steady", batch_records=10, end_ms=10_000)
    begun = Scenario(
        topics=(topic,), members=(member,), producers=(producer,), duration_ms=120_000, settled=True
    )
    one = {"as it is": begun, "all": replace(begun, assignor="all-to-all")}
    said = compare(one, seeds=range(2)).verdict()
    assert said.endswith("; by the rates it takes at least 2 members to clear the lag within 2m")
    two = compare({"as it is": begun, "two": begun.with_members(2)}, seeds=range(2))
    assert two.cells["two", "drain_ms"]["n"] == 2


@pytest.mark.parametrize(
    "service",
    [
        Service(kind="measured", samples_ms=(5.0, 35.0)),
        Service(10, slow_share=0.25, slow_factor=5),
        Service(20, "exponential"),
    ],
)
def test_rates_are_those_of_the_work_that_members_do(service: Service) -> None:
    member = Member("m", 1, service=service, max_poll_records=1)
    scenario = replace(uneven(), members=(member,), duration_ms=20_000)
    assert rates(scenario).each == pytest.approx(50)
    (did,) = simulate(replace(scenario, costs=Costs(0, 0, 0)), seed=1).members.to_pylist()
    assert did["busy_ms"] / did["deliveries"] == pytest.approx(20, rel=0.15)


# ---- why ----
def test_a_comparison_says_that_the_members_cannot_keep_up() -> None:
    slow = uneven(rate=30)
    changed = compare({"as it is": slow, "6": slow.with_members(6)}, seeds=range(7))
    why = "records arrive at 30/s; 2 members can finish 20/s, 6 members 60/s"
    assert why in list(changed.reasons("6"))
    assert f"why: {why}" in list(changed.sentences())
    assert list(changed.reasons("as it is")) == []


def test_a_comparison_says_that_polls_take_longer_than_locks() -> None:
    short = replace(uneven(), settings=Settings(Limits(lock_duration_ms=1_500)), duration_ms=30_000)
    longer = replace(short, settings=Settings(Limits(lock_duration_ms=10_000)))
    found = compare({"as it is": short, "longer": longer}, seeds=range(7))
    (why,) = found.reasons("longer")
    assert why.startswith("a poll of 20 records x 100 ms takes 2 s: with locks of 1.5 s ")
    assert why.endswith(" deliveries expire, with 10 s 0")
    same = compare({"as it is": longer, "the same": longer}, seeds=range(7))
    assert list(same.reasons()) == []


def test_a_comparison_says_that_an_assignor_leaves_members_idle() -> None:
    scenario = replace(uneven(), duration_ms=30_000)
    others = replace(scenario, assignor="all-to-all")
    (why,) = compare({"as it is": scenario, "all": others}, seeds=range(7)).reasons()
    assert why.startswith("with simple members are busy ")
    assert re.search(
        r"busy 5\d % of the time, with all-to-all 9\d %: it lets more of them work where the lag "
        r"is$",
        why,
    )
