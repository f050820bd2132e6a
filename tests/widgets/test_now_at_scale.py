"""Many share partitions: what a pick computes and sends is about the group that is picked alone."""

import cProfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

import sharelag
from sharelag.metrics import explain
from sharelag.workbench import Workbench
from sharelag.workbench.questions import timeline
from sharelag.workbench.verdicts import summary_lines
from sharelag_widgets.dashboards import Now, past
from tests.support.synthetic import capture_of

PARTITIONS = 50  # of each group
FEW, MANY = 2, 24


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return open_groups(tmp_path_factory.mktemp("capture"), MANY)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    """How many bytes were sent to each widget in the browser."""
    found: dict[Any, int] = {}
    send = ipywidgets.Widget.send_state

    def count(widget: Any, key: Any = None) -> None:
        for value in widget.get_state(key=key).values():
            size = len(value if isinstance(value, bytes | str) else repr(value))
            found[widget] = found.get(widget, 0) + size
        send(widget, key)

    monkeypatch.setattr(ipywidgets.Widget, "send_state", count)
    return found


def open_groups(folder: Path, groups: int) -> Workbench:
    return sharelag.open(capture_of(folder / "many", groups, PARTITIONS, 6), engine="local")


def calls_of(act: Callable[[], Any]) -> int:
    """How many functions are called: unlike time, the same on a busy machine."""
    profile = cProfile.Profile()
    profile.runcall(act)
    return sum(one.callcount for one in profile.getstats())


def test_a_pick_costs_as_its_group(bench: Workbench, tmp_path: Path, sent: dict[Any, int]) -> None:
    cost = []
    for groups in (open_groups(tmp_path, FEW), replace(bench)):
        board = groups.dashboard("group-00000")
        sent.clear()
        calls = calls_of(partial(setattr, board, "group", "group-00001"))
        assert (board.group, board.header.failure) == ("group-00001", "")
        assert {board.cards, board.over_time.view, board.strip.view} < set(sent)
        assert board.header not in sent
        assert sent[board.grid] < 1000  # the name of the group, to mark it
        cost.append((calls, sum(sent.values())))
    (few, little), (many, much) = cost
    assert many < 1.5 * few
    assert much < little + 20_000  # what is copied for the incident channel names twenty groups


def test_a_group_of_many_topics_has_its_worst_causes_and_few_sentences(tmp_path: Path) -> None:
    many = sharelag.open(capture_of(tmp_path / "one", 60, 1, 6, of_one=True), engine="local")
    explained, scenario = many.explain(), many.scenario()
    assert (len(explained.table), len(explained.summaries[0].causes)) == (60, 60)
    assert explained.to_html().count("<li>") == explained.to_text().count("warning: ") == 20
    for shown in (explained.to_html(), explained.to_text()):
        assert "and 40 more causes in .table" in shown
    lines = [*summary_lines(explained.summaries)]
    assert "".join(lines).count("warning: ") == 20
    assert lines[-1] == "  and 40 more causes: see -o json"
    cards = Now(many).cards
    ranked = explained.summaries[0].causes[:20]
    assert [card["where"] for card in cards.cards] == [cause.where for cause in ranked]
    assert cards.state.endswith("; and 40 more causes in bench.explain()")
    (arrivals,) = (said for said in scenario.assumed if "keep arriving" in said)
    assert "topic-00009 (0.785 per second) and 50 more keep arriving at random" in arrivals
    assert "topic-00009 (1) and 50 more" in repr(scenario.presentation().table.to_pylist())


def test_the_group_in_sight_moves_first(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "AT_ONCE", 1000)
    board, end = Now(bench, "group-00001"), bench.evidence().as_of
    before, shown = board.verdict.sentence, []

    def show(*_: Any) -> None:
        Now.show(board)
        views = (board.table.view, board.rows_of_group.view)
        lags = [view.rows.column("lag") for view in views if view is not None]
        shown.append((board.seen.groups, board.cards.state, board.verdict.sentence, *lags))

    monkeypatch.setattr(board, "show", show)
    board.selection.moment = end - timedelta(seconds=70)
    assert board.join(300)
    then = bench.at(end - timedelta(seconds=70))
    explained = then.explain("group-00001").summaries[0].state
    mine = then.lag("group-00001").table.column("lag")
    assert mine != bench.lag("group-00001").table.column("lag")
    assert [one[0] for one in shown] == [("group-00001",), then.groups]
    assert ([one[1] for one in shown], [one[4] for one in shown]) == ([explained] * 2, [mine] * 2)
    assert [one[2] for one in shown] == [before, then.overview().title]
    assert shown[0][3] == bench.overview().table.column("lag")
    assert shown[1][3] == then.overview().table.column("lag")
    assert not {"sharelag-moves", "sharelag-follows"} & set(board._dom_classes)


def test_causes_are_ranked_once_for_all(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []
    rank = explain._rank

    def count(facts: Any, *others: Any) -> Any:
        ranked.append(len(facts.groups))
        return rank(facts, *others)

    monkeypatch.setattr(explain, "_rank", count)
    fresh = bench.at(bench.evidence().as_of)
    board = Now(fresh)
    for group in fresh.groups[:3]:
        board.group = group
        assert board.header.failure == ""
    everything = len(fresh.lag().table)
    assert ranked in ([everything], [everything] * 2)  # once more for what is only suspected


def test_each_group_is_told_as_if_it_were_alone(bench: Workbench) -> None:
    """A reading of all groups and one of a single group find the same of it."""
    everything = bench.explain()
    for number, group in enumerate(bench.groups[:2]):
        alone = Workbench(bench.source, engine="local").only(group)
        for answer in (bench.explain(group), alone.explain()):
            assert answer.table.num_rows > 0
            mine = [name == group for name in everything.table["group_id"].to_pylist()]
            assert answer.table.equals(everything.table.filter(mine))
            assert answer.summaries == alone.explain(group).summaries
            assert answer.summaries[0] in everything.summaries, number


def test_trends_are_sums_of_the_timeline(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    order = [("group_id", "ascending"), ("as_of", "ascending")]
    few = bench.trends().sort_by(order)
    assert few.num_rows > len(bench.groups)
    rows = bench.timeline("group-00001").table.to_pylist()
    fresh = bench.at(bench.evidence().as_of)
    monkeypatch.setattr(timeline, "MOST_TIMELINE_ROWS", 0)
    assert fresh.trends().sort_by(order).equals(few)
    its = {row["as_of"]: row["lag"] for row in few.to_pylist() if row["group_id"] == "group-00001"}
    for at in {row["as_of"] for row in rows}:
        lags = [row["lag"] for row in rows if row["as_of"] == at]
        assert its[at] == (None if None in lags else sum(lags))


def test_what_is_copied_names_the_worst_groups_and_counts_the_rest(bench: Workbench) -> None:
    words = dict(Now(bench).verdict.copies)["Copy for the incident channel"].splitlines()
    assert len([line for line in words if line.startswith("- group-")]) == 20
    assert words[-1] == f"and {MANY - 20} more share groups need attention"
