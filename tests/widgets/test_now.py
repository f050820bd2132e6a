"""The dashboard of how groups are now: its verdict, its table, and its what-ifs."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from IPython.core.events import EventManager, available_events

import sharelag
from sharelag.charts.text import axis_time
from sharelag.durations import duration
from sharelag.errors import SetupError
from sharelag.metrics.causes import HEADS, known_causes
from sharelag.reports.case import Case, verdict
from sharelag.tables.words import lag_sum, moment
from sharelag.workbench import Workbench
from sharelag_widgets import LagTable
from sharelag_widgets.dashboards import FleetView, GroupView, Now, past
from sharelag_widgets.dashboards.now import LAB_REFUSES, READING
from sharelag_widgets.dashboards.past import CLEARS, NONE_FITS, NOTHING_STUCK, RANGES, TRIALS
from sharelag_widgets.dashboards.pieces import TablePart
from tests.support.records import with_column
from tests.support.widgets.samples import HOSTILE
from tests.support.written_input import Write, WrittenInput


@pytest.fixture(scope="module", name="storm")
def opened_storm() -> Workbench:
    return sharelag.open("redelivery_storm", engine="local")


def press(board: Now, name: str) -> None:
    board.what_if._handle_custom_msg({"act": name}, [])
    assert board.join(300)


def rows_of(part: TablePart) -> LagTable:
    assert part.view is not None
    return part.view


def test_a_dashboard_that_cannot_be_made_says_so_alone(demo: Workbench) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'members'"):
        demo.dashboard(members=3)  # what is left of it is collected without an error of its own


def test_the_lab_opens_below_and_stays_with_the_group_in_sight(demo: Workbench) -> None:
    board = demo.dashboard()
    assert board.lab is None
    board.more_tries.is_open = True
    lab = board.lab
    assert lab is not None
    assert (lab.group, lab.header.failure) == (board.group, "")
    assert lab.header.above == lab.header.as_of  # which the bar says already
    board.header.theme = "dark"
    assert lab.theme == "dark"
    board.group = "billing"
    assert lab.scenario == demo.scenario("billing")
    board.more_tries.is_open = False
    board.group = "checkout"
    assert lab.group == "billing"  # nobody looks on
    board.bench = demo.refresh()
    board.more_tries.is_open = True
    assert (lab.group, lab.bench) == ("checkout", board.bench)
    board.close()
    assert lab.comm is None


def test_the_verdict_is_that_of_the_report_and_the_overview(demo: Workbench) -> None:
    board = demo.dashboard()
    assert board.header.title == "Now: chapters"
    said = verdict(Case(demo, demo.evidence()))
    assert board.verdict.sentence == demo.overview().title == said["headline"]
    assert board.verdict.level == said["level"] == "critical"
    rows = board.table.view
    assert rows is not None
    assert rows.rows.column("group_id").to_pylist() == [one["group_id"] for one in said["groups"]]
    assert rows.rows.column("level").to_pylist() == [one["level"] for one in said["groups"]]


def test_a_picked_group_is_shown_in_detail_and_all_stay_in_the_table(demo: Workbench) -> None:
    board = Now(demo)
    assert board.group == "notifications"
    table = board.table.view
    assert table is not None
    assert table.narrows is False
    assert table.folded == {}  # of so few groups all are in sight
    table.selection.keys = (("billing",),)
    assert board.group == board.groups.value == "billing"
    assert board.cards.group == "billing"
    found = [one["cause"] for one in board.cards.cards]
    assert found == demo.explain("billing").table["cause"].to_pylist()
    assert "billing" in board.over_time.header.finding
    assert table.rows.num_rows == len(demo.groups)
    board.verdict._handle_custom_msg({"act": "worst"}, [])
    assert (board.group, table.selection.keys) == ("notifications", (("notifications",),))


def test_what_is_copied_names_what_is_wrong_and_the_code_answers_it(demo: Workbench) -> None:
    board = Now(demo, "billing")
    texts = dict(board.verdict.copies)
    lines = texts["Copy for the incident channel"].splitlines()
    said = demo.overview()
    assert lines[0] == f"{said.title} (chapters, as of {moment(said.as_of)})"
    (billing,) = [line for line in lines if line.startswith("- billing: ")]
    assert billing.startswith(
        "- billing: lag 2,390, oldest 1m 38s: the group has no members, since 2026-11-21 "
    )
    first = demo.explain("billing").table.to_pylist()[0]
    assert billing.endswith(f"since {moment(first['since'])}. To do: {first['advice']}")
    stuck = Now(sharelag.open("head_of_line", engine="local")).verdict.copies[0][1]
    assert "(head-of-line-orders:0, offset " in stuck
    assert not any("refunds" in line for line in lines)
    shown = run_python(board)
    found = [one.title for one in (shown[0], shown[2], shown[5])]
    assert found == [one.title for one in (said, demo.explain("billing"), demo.lag("billing"))]
    assert shown[1].layout.meta["title"] == board.over_time.header.finding
    assert shown[3].note == board.parts.view.note
    assert shown[4].rows.equals(board.strip.view.rows)


def run_python(board: Now) -> list[Any]:
    """Run the Python behind a dashboard; return what it displays."""
    shown: list[Any] = []
    code = dict(board.verdict.copies)["Copy the Python behind this"]
    exec(code, {"bench": board.bench, "display": lambda *given: shown.extend(given)})
    return shown


def test_python_of_an_earlier_moment_gives_that_moment(demo: Workbench) -> None:
    board = Now(demo, "billing")
    board.selection.moment = demo.evidence().as_of - timedelta(seconds=60)
    assert board.join(300)
    overview, _, causes, *_, lag = run_python(board)
    assert overview.title == board.verdict.sentence != demo.overview().title
    assert causes.table.equals(board.seen.explain("billing").table)
    assert lag.table.equals(board.seen.lag("billing").table)


def test_python_begins_with_its_names(demo: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    shell: Any = SimpleNamespace(user_ns={})
    shell.events = EventManager(shell, available_events)
    monkeypatch.setattr("sharelag_widgets.dashboards.dashboard.get_ipython", lambda: shell)
    board = demo.dashboard()
    for names, line in (
        ({"_": board}, ""),  # soon another cell's result
        ({"_2": board}, "bench = _2.bench\n"),
        ({"_2": board, "shop": board}, "bench = shop.bench\n"),
        ({"mine": demo, "bench": demo.refresh()}, "bench = mine\n"),
        ({"mine": demo, "bench": demo}, ""),
    ):
        shell.user_ns = names
        shell.events.trigger("post_run_cell", None)
        assert board.header.names == line
    board.close()
    shell.user_ns = {"mine": demo}
    shell.events.trigger("post_run_cell", None)
    assert board.header.names == ""


def test_the_chip_is_about_the_cluster_and_gaps_of_charts_stand_above_it(varied: Workbench) -> None:
    """Whichever group is picked: what is unknown of any group, and nothing of charts."""
    board = Now(varied, "billing")
    assert any(one.startswith("Not drawn: ") for one in board.over_time.header.facts)
    assert not any("moment" in one for one in board.header.unknown)
    assert board.header.unknown == Now(varied, "checkout").header.unknown
    known = varied.overview()
    ageless = with_column(known.table, "age_ms", [None] * known.table.num_rows)
    said = board._unknown(replace(known, table=ageless, unknown=("a state partition",)))
    assert said[0] == "a state partition"
    assert said[-1].startswith("the age of the lag in returns-desk, search-index, ")
    assert said[-1].endswith(" and 3 more")


def row_of(board: Now, name: str) -> dict[str, Any]:
    (found,) = [row for row in board.what_if.rows if row["name"] == name]
    return dict(found)


def test_a_click_simulates_one_change_and_tells_it_in_three_numbers(storm: Workbench) -> None:
    board = Now(storm)
    assert [row["words"] for row in board.what_if.rows] == [*TRIALS.values(), CLEARS]
    assert not any(row["age"] for row in board.what_if.rows)
    press(board, "lag-aware")
    assert board.comparison is not None
    found = {
        (row["measure"], row["variant"]): row
        for row in board.comparison.rows()
        if row["measure"] in ("age_p95_ms", "drain_ms")
    }
    tried, said = found["age_p95_ms", "lag-aware assignor"], row_of(board, "lag-aware")
    assert tried["better"]
    interval = ("difference_low", "difference", "difference_high")
    assert said["span"] == [tried[name] for name in interval]
    assert said["difference"] == f"-{duration(-tried['difference'])}"
    assert said["age"] == duration(tried["mean"])
    assert said["drains"] == duration(found["drain_ms", "lag-aware assignor"]["mean"])
    assert said["verdict"] == "better"
    as_it_is = row_of(board, "")
    assert as_it_is["age"] == duration(found["age_p95_ms", "the group as it is"]["mean"])
    assert (board.header.busy, board.what_if.busy) == (False, "")
    # The verdict tries what fits the worst cause.
    board.verdict._handle_custom_msg({"act": "what if"}, [])
    assert board.join(300)
    assert list(board.found) == ["lag-aware", "members"]
    assert row_of(board, "lag-aware") == said  # what was found before stays beside it
    variants = {*board.comparison.runs["variant"].to_pylist()}
    assert variants == {"the group as it is", "+2 members"}
    members = [len(one.each_member()) for one in board.comparison.scenarios.values()]
    assert members == [2, 4]
    assert board.what_if.assumed == list(storm.scenario("redelivery-storm").assumed)
    # From the last moment on, lag goes on as it was simulated.
    names = [trace.name for trace in board.over_time.view.figure.data]
    assert {"the group as it is", "+2 members"} <= set(names)
    # After a refresh, outcomes stay and say what they began with; the next one begins anew, since
    # its baseline is another.
    at = storm.evidence().as_of
    board.bench = storm.at(at - timedelta(seconds=5))
    assert (row_of(board, "lag-aware"), moment(at) in board.what_if.begun) == (said, True)
    (curve,) = [one for one in board.over_time.view.figure.data if one.name == "+2 members"]
    assert axis_time(at)[:19] == str(curve.x[0])[:19]
    press(board, "members")
    assert (list(board.found), row_of(board, "lag-aware")["age"]) == (["members"], "")
    assert moment(at - timedelta(seconds=5)) in board.what_if.begun


@pytest.mark.exhaustive
def test_a_click_finds_what_clears_the_lag_with_the_grid_of_the_lab(storm: Workbench) -> None:
    board = Now(storm)
    assert board.lab is None
    press(board, "search")
    lab = board.lab
    assert lab is not None
    assert board.more_tries.is_open
    assert lab.grid.layout.display is None
    found = lab.clearing
    assert found is not None
    assert found is board.clearing
    assert found.answers
    # The decision stands where the button is, as in the lab.
    assert board.what_if.sentence == lab.verdict.sentence
    assert moment(storm.evidence().as_of) in board.what_if.begun
    assert f" with {found.answers[0]['members']} member" in board.what_if.sentence
    said, cell = row_of(board, "search"), found.answers[0]
    assert said["drains"] == duration(cell["drain_ms"])
    assert said["age"] == duration(cell["age_p95_ms"])
    assert said["difference"].startswith("-")
    assert (board.what_if.busy, board.header.busy) == ("", False)
    # The same once more, after another what-if has taken its sentence.
    press(board, "members")
    assert (board.what_if.sentence, row_of(board, "search")) == ("", said)
    press(board, "search")
    assert board.what_if.sentence == lab.verdict.sentence
    # What the lab cannot read is said, and nothing stays busy.
    lab.members.value = "many"
    press(board, "search")
    assert (board.what_if.sentence, board.what_if.busy) == (LAB_REFUSES, "")


@pytest.mark.parametrize(("act", "words"), [("search", CLEARS), ("members", "+2 members")])
def test_what_goes_on_can_be_cancelled(storm: Workbench, act: str, words: str) -> None:
    board = Now(storm)
    for _ in range(2):  # the second time it goes on already
        board.run(act)
        assert board.what_if.busy == words
    assert board.header.busy or act == "search"  # the lab that searches has a header of its own
    press(board, "cancel")
    assert (board.what_if.busy, board.header.busy) == ("", False)
    assert (board.clearing, board.comparison, row_of(board, act)["age"]) == (None, None, "")


def test_what_cannot_help_says_why_and_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = Now(sharelag.open("open_transaction", engine="local", patience="2s"))
    assert [one["cause"] for one in blocked.cards.cards] == ["open_transaction"]
    assert blocked.verdict.actions[0] == ["what if", "Simulate the fix", NONE_FITS]
    assert blocked.cards.cards[0]["why"] == NONE_FITS
    healthy = Now(sharelag.open("no_members", engine="local"))
    assert row_of(healthy, "heads")["why"] == NOTHING_STUCK
    press(healthy, "heads")
    assert healthy.comparison is None
    assert healthy.verdict.actions[0] == ["what if", "Simulate the fix", ""]
    # Also above all groups, where the worst has a cause that fits, but nothing is stuck.
    worst = healthy.bench.overview().table.column("cause")[0].as_py()
    fits = [replace(one, what_if=HEADS) for one in known_causes() if one.name == worst]
    monkeypatch.setattr(past, "known_causes", lambda: fits)
    healthy.show()
    assert healthy.verdict.actions[0] == ["what if", "Simulate the fix", NOTHING_STUCK]
    assert healthy.cards.cards[0]["why"] == NOTHING_STUCK


@pytest.mark.exhaustive
def test_a_what_if_of_another_group_is_not_shown(demo: Workbench) -> None:
    board = Now(demo, "billing")
    press(board, "members")
    assert row_of(board, "members")["age"]
    board.group = "shipping"
    assert not any(row["age"] for row in board.what_if.rows)


def test_a_closed_dashboard_gives_its_what_if_up(storm: Workbench) -> None:
    board = Now(storm)
    board.run("members")
    board.close()
    assert board.join(300)
    assert board.comparison is None


def test_hostile_names_are_plain_in_what_is_copied() -> None:
    writes = [Write(50, 10, group=HOSTILE), Write(3, 12, ((20, 24, 0, 3),), group=HOSTILE)]
    board = Now(Workbench(WrittenInput(writes), engine="local"))
    for _, words in board.verdict.copies:
        assert all(letter.isprintable() or letter == "\n" for letter in words)


def test_a_sum_that_lacks_share_partitions_says_how_many() -> None:
    writes = [Write(600, 10), Write(600, -1, partition=1)]  # of the second nothing is finished yet
    bench = Workbench(WrittenInput(writes, partitions_of_topic=2), engine="local")
    board = Now(bench)
    for part in (board.table, FleetView(bench).groups):
        assert "unknown_lags" in rows_of(part).names
        assert rows_of(part).rows.column("unknown_lags").to_pylist() == [1]
    assert (
        "- billing: lag 7,190 (+1 unknown): "
        in dict(board.verdict.copies)["Copy for the incident channel"]
    )


def test_linked_dashboards_show_the_same_group(demo: Workbench) -> None:
    board = Now(demo)
    view = GroupView(demo, selection=board.selection)
    first = demo.lag("shipping").table.select(["group_id", "topic_id", "partition"]).to_pylist()[0]
    view.selection.keys = (tuple(first.values()),)
    assert (board.group, view.group) == ("shipping", "shipping")


def test_a_card_says_what_explain_says_with_a_command_of_this_input(demo: Workbench) -> None:
    board = Now(demo, "billing")
    (said,) = demo.explain("billing").summaries
    assert (board.cards.group, board.cards.state) == (said.group, said.state)
    first = board.cards.cards[0]
    assert first["advice"] == said.causes[0].advice
    assert first["command"] == "sharelag members --capture chapters --group billing"


def test_a_range_cuts_the_chart(demo: Workbench) -> None:
    board = Now(demo, "billing")
    begin, end = map(datetime.fromisoformat, board.over_time.view.figure.layout.xaxis.range)
    board.range.value = 60
    later, same = map(datetime.fromisoformat, board.over_time.view.figure.layout.xaxis.range)
    assert (same, end - later) == (end, timedelta(minutes=1))
    assert begin < later


def test_what_belongs_to_the_group_before_is_dim_until_the_next_one_is_shown(
    demo: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Now(demo, "billing")
    dims: list[bool] = []
    look = board.bench.explain

    def explain(*given: Any, **more: Any) -> Any:
        dims.append("sharelag-waits" in board._dom_classes)
        return look(*given, **more)

    monkeypatch.setattr(Workbench, "explain", lambda _, *given, **more: explain(*given, **more))
    rows_of(board.table).selection.keys = (("shipping",),)
    assert board.cards.group == "shipping"
    assert dims
    assert all(dims)
    assert "sharelag-waits" not in board._dom_classes
    for part in (board.over_time, board.strip, board.rows_of_group, board.parts):
        assert "sharelag-mine" in part._dom_classes


def test_a_short_range_keeps_the_ages_that_are_known(varied: Workbench) -> None:
    """The oldest record of the group is older than the range; the ends before it date it."""
    board = Now(varied, "fulfilment")
    board.range.value = RANGES["last 15 min"]
    (age,) = [one for one in board.over_time.view.figure.data if one.name == "age"]
    (row,) = [one for one in varied.overview().table.to_pylist() if one["group_id"] == "fulfilment"]
    assert row["age_ms"] > 900_000
    assert age.y[-1] * 60_000 == pytest.approx(row["age_ms"], abs=10_000)
    assert np.isnan(np.array(age.y, float)).sum() <= 2


def test_all_panels_are_at_the_moment_that_is_picked(demo: Workbench) -> None:
    board = Now(demo, "billing")
    at = demo.evidence().as_of - timedelta(seconds=60)
    then = demo.at(at)
    assert then.overview().title != demo.overview().title
    for picked, seen in ((at, then), (None, demo)):
        board.selection.moment = picked
        assert board.join(300)
        as_of = seen.overview().as_of
        assert as_of is not None
        assert board.header.as_of == as_of.timestamp() * 1000
        assert board.header.earlier == (picked is not None)
        assert board.verdict.sentence == seen.overview().title
        said = seen.overview().table
        assert rows_of(board.table).rows.column("lag").equals(said.column("lag"))
        assert board.grid.rows.column("lag").equals(seen.lag().table.column("lag"))
        assert rows_of(board.rows_of_group).rows["lag"].equals(seen.lag("billing").table["lag"])
        causes = [one["cause"] for one in board.cards.cards]
        assert causes == seen.explain("billing").table["cause"].to_pylist()
    assert not {"sharelag-moves", "sharelag-waits"} & set(board._dom_classes)


def test_an_earlier_moment_says_what_is_known_now_of_its_cause(varied: Workbench) -> None:
    """A cause that began before that moment and was found after it; `explain` leaves it out."""
    board = Now(varied, "fulfilment")
    at = datetime(2026, 11, 23, 12, 4, tzinfo=UTC)
    (found,) = varied.at(at).explain("fulfilment").table.column("cause").to_pylist()
    assert found == "burst"
    assert "known now" not in board.cards.state
    board.selection.moment = at
    assert board.join(300)
    assert [card["cause"] for card in board.cards.cards] == ["burst"]
    said = "; known now: hot partition since 2026-11-23 12:02:11 UTC"
    assert board.cards.state.endswith(said)
    board.selection.moment = at - timedelta(minutes=4)
    assert board.join(300)
    assert "known now" not in board.cards.state
    board.close()


def test_of_many_moments_the_last_one_is_shown(demo: Workbench) -> None:
    """As where somebody drags: what is on the way is left out."""
    board, end = Now(demo, "billing"), demo.evidence().as_of
    for seconds in range(90, 50, -10):
        board.selection.moment = end - timedelta(seconds=seconds)
    assert board.join(300)
    assert board.seen.as_of == end - timedelta(seconds=60)
    board.group = "shipping"
    board.selection.clear()
    assert board.seen is demo


def test_lag_comes_first_then_the_verdict_the_past_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook on Spark, where everything takes ten times as long as lag."""
    monkeypatch.setattr(Now, "_is_slow", lambda _: True)
    judged, read, is_shown = threading.Event(), threading.Event(), threading.Event()
    overview, moments, show = Workbench.overview, Workbench.moments, Now.show

    def judge(bench: Workbench) -> Any:
        assert judged.wait(300)
        return overview(bench)

    def look_back(bench: Workbench, group: str) -> Any:
        assert read.wait(300)
        return moments(bench, group)

    monkeypatch.setattr(Workbench, "overview", judge)
    monkeypatch.setattr(Workbench, "moments", look_back)
    bench = sharelag.open("chapters", engine="local")
    lag = bench.reading.table("lag").column("lag")
    board = Now(bench)
    total = lag_sum(pc.sum(lag).as_py(), lag.null_count)
    assert board.verdict.sentence == f"Lag {total} of 7 share groups"
    assert board.header.busy
    assert board.columns.children[1].layout.display == "none"
    board.redraw()  # as a change of the theme does
    assert board.header.failure == ""
    judged.set()
    assert board._run is not None
    assert board._run.join(300)
    assert (board.verdict.sentence, board.verdict.level) == (bench.overview().title, "critical")
    assert (board.header.busy, board.verdict.busy) == (False, "")
    assert board.columns.children[1].layout.display is None
    for group in ("notifications", "billing"):  # the second is picked while that is read
        board.group = group
        found = [one["cause"] for one in board.cards.cards]
        assert found == bench.explain(group).table["cause"].to_pylist()
        assert rows_of(board.rows_of_group).rows.num_rows == len(bench.lag(group).table)
        for part in (board.over_time, board.strip):
            assert (part.header.busy, part.header.facts) == (True, [READING])
        assert "trend" not in rows_of(board.table).names

    def show_more(board: Now, *_: Any) -> None:
        is_shown.set()
        show(board)

    monkeypatch.setattr(Now, "show", show_more)
    read.set()
    assert is_shown.wait(300)  # the first group was read, and the next is about to be
    assert board.join(300)
    assert "trend" in rows_of(board.table).names
    whole = Now(bench, "billing")
    assert whole.join(300)
    assert board.summary() == whole.summary()
    assert board.over_time.view.data == whole.over_time.view.data
    assert board.strip.view.data == whole.strip.view.data
    assert not board.over_time.header.busy
    assert not board.strip.header.busy


def test_everything_is_shown_before_spark_starts_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the first cell of a notebook; of few records, this process knows the same."""

    def fail(*_: Any) -> None:
        assert may_start.wait(300)
        raise SetupError("Spark does not start")

    may_start, on_spark, overview = threading.Event(), threading.Event(), Workbench.overview

    def judge(bench: Workbench) -> Any:
        if bench.engine == "spark":
            on_spark.set()
        return overview(bench)

    monkeypatch.setattr(Workbench, "overview", judge)
    monkeypatch.setattr(Now, "_is_slow", lambda board: board._is_on_spark())
    monkeypatch.setattr("sharelag.inputs.spark.sessions._session", fail)
    board = Now(sharelag.open("chapters", engine="spark"))
    lag = sharelag.open("chapters", engine="local").reading.table("lag").column("lag")
    said = f"Lag {lag_sum(pc.sum(lag).as_py(), lag.null_count)} of 7 share groups"
    whole = Now(sharelag.open("chapters", engine="local"))
    assert board.verdict.sentence in (said, whole.verdict.sentence)
    assert board.header.busy
    assert on_spark.wait(300)
    assert board.summary() == whole.summary()
    may_start.set()
    assert board._run is not None
    assert board._run.join(300)
    assert board.header.failure.endswith("the earlier state is shown: Spark does not start")
    assert (board.header.busy, board.verdict.busy) == (False, "")
    assert board.verdict.sentence == whole.verdict.sentence
    board.group = "billing"
    assert board.cards.group == "billing"


def test_a_silent_cluster_is_a_sentence_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Now, "_is_slow", lambda _: True)
    board = Now(sharelag.open("127.0.0.1:1", timeout=1, engine="local"))
    assert "no broker answered at 127.0.0.1:1" in board.header.failure
    assert not board.header.busy
    board.redraw()
    assert board.header.failure
