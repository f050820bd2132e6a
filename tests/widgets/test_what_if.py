"""The what-if lab stays with one group as of one moment, and keeps edits made by hand."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import traitlets

from sharelag import charts
from sharelag.charts import text
from sharelag.metrics.evidence import Evidence
from sharelag.tables import render
from sharelag.whatif import assignor_descriptions
from sharelag.whatif.comparison.intervals import enough_seeds
from sharelag.whatif.simulation.clock import cancellable
from sharelag.workbench import Workbench
from sharelag_widgets import AssignmentEditor, Selection
from sharelag_widgets.assignment_editor import new_edit
from sharelag_widgets.dashboards import WhatIfLab
from sharelag_widgets.dashboards.dashboard import _parts
from sharelag_widgets.dashboards.what_if import assign, partitions_of
from tests.support.cases import few_of
from tests.support.command import rows_of
from tests.support.command import sharelag as sharelag_command
from tests.support.records import with_column

GROUP, TOPIC = "hot-partition", "hot-partition-orders"
#: Of a thread that is not stuck.
_SECONDS = 120


def lab_of(
    bench: Workbench, group: str = GROUP, kind: type[WhatIfLab] = WhatIfLab, **given: Any
) -> Any:
    lab = kind(bench, group, **given)
    lab.seconds.value, lab.runs.value = 5, 2
    assert lab.header.failure == ""
    return lab


def editor_of(lab: WhatIfLab) -> AssignmentEditor:
    _, editor = lab.editor.children
    assert isinstance(editor, AssignmentEditor)
    return editor


def assigned_in(lab: WhatIfLab) -> list[int]:
    """The partitions that members have in the editor."""
    return sorted(n for topics in editor_of(lab).assignment.values() for n in topics[TOPIC])


def changed(bench: Workbench, **changes: Any) -> Workbench:
    """The same, read again, with other tables."""
    known, fresh = bench.evidence(), replace(bench)  # a copy has not been asked anything yet
    fresh._once("evidence", lambda: replace(known, **changes))
    return fresh


def later(bench: Workbench, **changes: Any) -> Workbench:
    """The same half a minute later."""
    return changed(bench, as_of=bench.evidence().as_of + timedelta(seconds=30), **changes)


def began(bench: Workbench) -> str:
    return f"Simulated from the state of {text.moment(bench.evidence().as_of)}."


def having(known: Evidence, **assigned: list[int] | None) -> pa.Table:
    """Members by the first letter of their ids, with partitions of the topic; null: not known."""
    rows = known.members.to_pylist()
    topic_id = known.lag.column("topic_id")[0].as_py()
    for row in rows:
        numbers = assigned[row["member_id"][0]]
        held = [{"topic_id": topic_id, "partitions": numbers}] if numbers else []
        row["assigned_partitions"] = None if numbers is None else held
    return pa.Table.from_pylist(rows, schema=known.members.schema)


# ---- threads -------------------------------------------------------------------------------------
class Meets(WhatIfLab):
    """Goes on to show only once a pick has come as far as here."""

    is_meeting = False

    def _make(self) -> Any:
        self.shows, self.hears = threading.Event(), threading.Event()
        return super()._make()

    def _show(self) -> None:
        if self.is_meeting:
            self.shows.set()
            assert self.hears.wait(_SECONDS)
        super()._show()

    def _on_pick(self, change: Any) -> None:
        self.hears.set()
        super()._on_pick(change)


@pytest.mark.parametrize("field", ["bench", "group"])
def test_a_pick_and_a_refresh_do_not_wait_for_each_other(field: str, demo: Workbench) -> None:
    lab = lab_of(demo, "billing", Meets)
    editor = editor_of(lab)
    data = {"method": "update", "state": {}, "buffer_paths": [["picked"]]}
    data["state"] = {"picked": ""}
    buffers = [memoryview(np.array([1], np.uint32).tobytes())]
    message = {"content": {"data": data}, "buffers": buffers}
    lab.is_meeting = True
    changed_to = later(demo) if field == "bench" else "shipping"
    refresh = threading.Thread(target=setattr, args=(lab, field, changed_to), daemon=True)
    refresh.start()
    assert lab.shows.wait(_SECONDS)  # the dashboard is locked
    lab.is_meeting = False
    browser = threading.Thread(target=editor._handle_msg, args=(message,), daemon=True)
    browser.start()  # the editor gets a pick, and the dashboard hears of it
    for thread in (refresh, browser):
        thread.join(_SECONDS)
        assert not thread.is_alive()
    row = editor.rows.to_pylist()[1]
    assert lab.selection.keys == ((row["group_id"], row["topic_id"], row["partition"]),)
    assert lab.header.failure == ""


# ---- a refresh -----------------------------------------------------------------------------------
class Held:
    """Instead of the simulation: begins, and ends when it is let."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.was_cancelled = True

    def __call__(self, _: Any, __: Any, *, cancelled: Callable[[], bool], **___: Any) -> pa.Table:
        self.began.set()
        assert self.go_on.wait(_SECONDS)
        self.was_cancelled = cancelled()
        return pa.table({"measure": ["Lag, largest"], "baseline": [2.0], "edited": [1.0]})


def test_a_refresh_keeps_edits_and_run(uneven: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, held = lab_of(uneven), Held()
    monkeypatch.setattr("sharelag_widgets.dashboards.what_if.what_if", held)
    editor = editor_of(lab)
    first, second, third = editor.assignment
    editor.edits = [new_edit("move", rows="0", **{"from": first}, to=second)]
    editor.at = 1
    editor.run()
    assert held.began.wait(_SECONDS)
    more = uneven.evidence().lag
    lags = pa.array([lag + 1000 for lag in more.column("lag").to_pylist()], pa.int64())
    more = with_column(more, "lag", lags)
    lab.bench = later(uneven, lag=more)
    assert editor_of(lab) is editor
    assert (editor.state, len(editor.edits), editor.at) == ("running", 1, 1)
    moved = {first: {TOPIC: [3]}, second: {TOPIC: [0, 1, 4]}}
    assert editor.assignment == moved | {third: {TOPIC: [2, 5]}}
    assert sorted(editor.rows.column("lag").to_pylist()) == sorted(lags.to_pylist())
    found = {one.end_offset for one in lab.scenario.topics[0].starts}
    assert found <= set(more.column("end_offset").to_pylist())
    held.go_on.set()
    assert editor.wait(_SECONDS)
    assert (editor.state, held.was_cancelled) == ("done", False)
    # It says of when it is; and the edits are still those that it is of.
    assert (editor.result["about"], editor.result["of"]) == (began(uneven), editor.edits[0]["id"])
    # The next one goes on from what there is now.
    editor.run()
    assert editor.wait(_SECONDS)
    assert editor.result["about"] == began(lab.bench) != began(uneven)


def test_members_that_come_while_a_run_goes_on_make_it_one_of_another_assignment(
    uneven: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, held = lab_of(uneven), Held()
    monkeypatch.setattr("sharelag_widgets.dashboards.what_if.what_if", held)
    editor = editor_of(lab)
    first, second, third = editor.assignment
    editor.edits, editor.at = [new_edit("move", rows="0", **{"from": first}, to=second)], 1
    editor.run()
    assert held.began.wait(_SECONDS)
    members = uneven.evidence().members
    rows = [row for row in members.to_pylist() if row["member_id"] != third]
    new = rows[0] | {"member_id": "new", "assigned_partitions": []}
    lab.bench = later(uneven, members=pa.Table.from_pylist([*rows, new], schema=members.schema))
    assert editor.state == "running"
    assert editor.assignment == {first: {TOPIC: [3]}, second: {TOPIC: [0, 1, 4]}, "new": {}}
    held.go_on.set()
    assert editor.wait(_SECONDS)
    assert editor.state == "done"
    assert editor.result["of"] != editor.edits[0]["id"]
    # A result from before is of another assignment, too.
    editor.run()
    assert editor.wait(_SECONDS)
    assert editor.result["of"] == editor.edits[0]["id"]
    lab.bench = later(lab.bench, members=members)
    assert editor.result["of"] != editor.edits[0]["id"]


# ---- one group as of one moment ------------------------------------------------------------------
def test_a_comparison_is_shown_with_its_group_only(demo: Workbench) -> None:
    lab = lab_of(demo, "billing")
    lab.run()
    assert lab.join(60)
    assert (lab.state, lab.results.layout.display, lab.bar.description) == ("done", None, "Done")
    assert lab.projection.header.notes == [began(demo)]
    lab.group = "shipping"
    assert (lab.results.layout.display, lab.bar.value) == ("none", 0)
    assert lab.bar.description == "Not run yet"
    lab.header.theme = "dark"
    assert lab.results.layout.display == "none"
    lab.members.value = "0"
    lab.run()
    assert (lab.state, lab.bar.description) == ("failed", "Not run")  # nothing of before is shown
    lab.group = "billing"
    assert (lab.results.layout.display, lab.bar.description) == (None, "Done")
    before = lab.table.view.rows
    lab.bench = later(demo)
    assert lab.header.as_of == lab.bench.evidence().as_of.timestamp() * 1000
    assert lab.table.view.rows.equals(before)
    expected = [f"{began(demo)} Other parts show another moment: run it again to compare that one."]
    assert lab.projection.header.notes == expected


def test_a_left_groups_run_is_cancelled(demo: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        entered.set()
        assert go_on.wait(_SECONDS)

    monkeypatch.setattr("sharelag_widgets.dashboards.trials.compare", slow)
    selection = Selection()
    lab = lab_of(demo, "billing", selection=selection)
    lab.run()
    assert entered.wait(_SECONDS)
    trial = lab._trial
    other = demo.lag("shipping").table.to_pylist()[0]
    keys: Any = [(other["group_id"], other["topic_id"], other["partition"])]
    selection.keys = keys  # in a linked view
    assert lab.header.title == "What if: shipping"
    assert (lab.state, lab.header.busy, lab.start.disabled) == ("cancelled", False, False)
    assert lab.bar.description == "Cancelled: another group was chosen"
    go_on.set()
    assert trial.join(_SECONDS)
    assert (lab.state, lab.comparison, lab.results.layout.display) == ("cancelled", None, "none")


# ---- the assignment to begin with ----------------------------------------------------------------
def test_it_begins_with_what_the_members_have(uneven: Workbench) -> None:
    known = uneven.evidence()
    odd = changed(uneven, members=having(known, F=[0, 1, 2, 3, 4], Z=[5], o=[]))
    lab = lab_of(odd)
    first, second, third = known.members.column("member_id").to_pylist()
    held = {first: {TOPIC: [0, 1, 2, 3, 4]}, second: {TOPIC: [5]}}
    assert editor_of(lab).assignment == held | {third: {}}
    assert lab.editor.header.notes == ["It begins with the partitions that the members have."]
    editor = editor_of(lab)
    assert editor.member_labels == dict.fromkeys((first, second, third), "rdkafka at /127.0.0.1")
    editor.run()
    assert editor.wait(60)
    assert editor.state == "done"
    moved = {row["measure"]: row["edited"] for row in editor.difference.rows.to_pylist()}  # type: ignore[union-attr]
    assert moved["Partitions taken from members that stay"] == 0


def test_what_the_members_have_need_not_be_known(uneven: Workbench) -> None:
    known = uneven.evidence()

    def found(members: pa.Table) -> tuple[dict[str, Any], str]:
        scenario = changed(uneven, members=members).scenario(GROUP)
        return assign(scenario, members, partitions_of(known.lag, scenario))

    ids = known.members.column("member_id").to_pylist()
    held, words = found(having(known, F=None, Z=None, o=None))
    said = "Which partitions the members have is not known: it begins with what simple gives"
    assert words == f"{said} them."
    assert sorted(n for topics in held.values() for n in topics[TOPIC]) == list(range(6))
    held, words = found(having(known, F=[0], Z=None, o=[]))
    assert words.endswith("Of 1 member that is not known: without any here.")
    assert held == {ids[0]: {TOPIC: [0]}, ids[1]: {}, ids[2]: {}}
    held, words = found(having(known, F=[], Z=[], o=[]))  # known: nothing
    assert held == {one: {} for one in ids}
    held, words = found(known.members.slice(0, 0))
    assert (held, words) == ({}, "The group has no members: add members, and give them partitions.")


def test_partitions_that_are_not_simulated_are_not_there_to_move(uneven: Workbench) -> None:
    known = uneven.evidence()
    unknown = pc.if_else(pc.equal(known.lag["partition"], 5), None, known.lag["end_offset"])
    lag = with_column(known.lag, "end_offset", unknown)
    lab = lab_of(changed(uneven, lag=lag))
    assert editor_of(lab).rows.column("partition").to_pylist() == [0, 1, 2, 3, 4]
    assert assigned_in(lab) == [0, 1, 2, 3, 4]
    # A member has it, but the group has no state of it.
    without = known.lag.filter(pc.not_equal(known.lag.column("partition"), 4))
    lab = lab_of(changed(uneven, lag=without))
    assert assigned_in(lab) == [0, 1, 2, 3, 5]


def test_as_many_members_as_there_are_is_nothing_else(uneven: Workbench) -> None:
    lab = lab_of(uneven)
    lab.assignors.value, lab.members.value = (), "3"
    lab.run()
    assert lab.state == "failed"
    assert "nothing differs from the group as it is" in lab.assignors.error


# ---- the verdict and the curves ------------------------------------------------------------------
def test_the_verdict_and_the_curves_come_first_and_the_table_is_folded(uneven: Workbench) -> None:
    lab = lab_of(uneven)
    assert lab.verdict.sentence == (
        "Find what clears the lag; or change members, lock duration or assignors, and run it: "
        "what would happen to the lag?"
    )
    assert (lab.verdict.copies, lab.projection.layout.display) == ([], "none")
    lab.members.value = "6"
    lab.run()
    assert lab.join(60)
    said = lab.comparison.verdict()
    assert lab.verdict.sentence == f"{said}."  # it begins with the name of an assignor
    assert "the group as it is: " in lab.verdict.sentence
    assert lab.projection.layout.display is None
    curves = lab.projection.view.figure["data"]
    lines = [one for one in curves if one.mode == "lines"]
    assert [one.yaxis for one in lines] == ["y", "y", "y2", "y2"]  # lag, and age below it
    assert (lab.grid.layout.display, lab.advanced.content.layout.display) == ("none", "none")
    for shown in (lab.table, lab.chart):
        assert not any(shown is part for part in _parts(lab.body))
    differ = {row["measure"] for row in lab.comparison.differences.to_pylist() if row["difference"]}
    assert differ & {"lag_end", "archived"} == {"lag_end"}
    lab.advanced.is_open = True
    assert lab.advanced.content.layout.display == ""
    assert any(lab.table is part for part in _parts(lab.body))
    assert len(set(lab.table.view.rows.column("measure").to_pylist())) > 15
    lab.close()


def test_one_button_finds_what_clears_the_lag(uneven: Workbench) -> None:
    lab = lab_of(uneven)
    lab.members.value = "many"
    lab.find.click()
    assert (lab.state, lab.bar.description) == ("failed", "Not run")
    lab.members.value, lab.assignors.value = "9", ("balanced",)
    lab.find.click()
    assert lab.join(120)
    assert (lab.state, lab.header.failure) == ("done", "")
    found = lab.clearing
    assert found.cells["members"].unique().to_pylist() == [3, 9]
    assert (found.horizon_ms, found.cells["runs"].unique().to_pylist()) == (5_000, [2])
    assert len(found.cells["assignor"].unique()) == 4  # simple, those of the search, the chosen one
    said = found.verdict()
    assert lab.verdict.sentence.startswith(f"{said[:1].upper()}{said[1:]}.")
    assert lab.grid.layout.display is None
    title = lab.grid.header.finding
    assert title == charts.clearing_figure(found.cells).layout.meta["title"]
    assert lab.comparison is found.comparison
    # The table of notebooks and reports, with the baseline first.
    shown = replace(found.comparison.presentation(), notes=(), more=None)
    assert lab.decided.value == render.as_html(shown, len(shown.table))
    assert lab.decided.value in lab.still()
    variants = shown.table.column("variant").to_pylist()
    assert variants == list(dict.fromkeys(found.cells["variant"].to_pylist()))
    displayed: list[Any] = []
    names: dict[str, Any] = {"bench": uneven, "display": lambda *given: displayed.extend(given)}
    exec(lab.verdict.copies[-1][1], names)
    assert displayed == [names["found"], names["curves"]]
    assert names["found"].cells.equals(found.cells)
    lab.members.value, lab.assignors.value = "4", ()
    for begin in (lab.search, lab.run):  # of what would take hours
        lab.seconds.value, lab.members.value, before = 86_400, "500", lab.comparison
        begin()
        assert lab.join(120)
        assert "record batches, polls and timeline rows, more than the l" in lab.header.failure
        assert (lab.state, lab.comparison) == ("failed", before)
    lab.runs.value, editor = 100, editor_of(lab)
    editor.run()
    assert editor.wait(_SECONDS)
    assert "more than the limit of" in str(editor.error)
    lab.seconds.value, lab.members.value, lab.runs.value = 5, "4", 2
    lab.run()
    assert lab.join(120)
    assert (lab.clearing, lab.grid.layout.display) == (None, "none")


def test_every_assignor_is_described(uneven: Workbench) -> None:
    lab = lab_of(uneven)
    about = assignor_descriptions()
    assert (lab.assignors.about, set(about)) == (about, set(lab.assignors.options))
    assert ["sticky", about["sticky"]] in lab.header.help


def test_the_default_number_of_runs_is_enough_for_any_choice(uneven: Workbench) -> None:
    lab = WhatIfLab(uneven, GROUP)
    lab.seconds.value, lab.assignors.value = 5, ("simple", "sticky", "balanced")
    lab.members.value, lab.limits.value = "3, 4", "2"
    lab.run()
    assert lab.join(120)
    found = lab.comparison
    assert found is not None
    seeds = set(found.runs.column("seed").to_pylist())
    assert len(seeds) == enough_seeds(len(found.scenarios)) > 7
    assert not any("too few" in one for one in found.sentences())


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        pytest.param(
            *({"members": "6, 8", "locks": "10.5", "limits": "2"}, ["lag-aware-sticky", "10500"]),
            marks=pytest.mark.exhaustive,
        ),
        ({"assignors": ("simple", "sticky"), "members": "3"}, ["['simple', 'sticky']"]),
    ],
)
def test_its_python_finds_it(given: dict[str, Any], lines: list[str], uneven: Workbench) -> None:
    lab = lab_of(uneven)
    lab.seed.value = 3
    for name, value in given.items():
        getattr(lab, name).value = value
    lab.run()
    assert lab.join(60)
    assert lab.state == "done"
    (_, code) = lab.verdict.copies[-1]
    assert all(one in code for one in lines)
    shown: list[Any] = []
    names: dict[str, Any] = {"bench": uneven, "display": lambda *given: shown.extend(given)}
    exec(code, names)
    assert shown == [names["comparison"], names["curves"]]
    found = names["comparison"]
    assert found.runs.equals(lab.comparison.runs)
    assert found.projected.equals(lab.comparison.projected)
    assert names["curves"].layout.meta["title"] == lab.projection.header.finding


@pytest.mark.exhaustive  # its Python finds the same in each run
def test_the_command_line_finds_the_same_with_its_defaults(uneven: Workbench) -> None:
    lab = WhatIfLab(uneven, GROUP)
    lab.run()
    assert lab.join(300)
    assert lab.comparison is not None
    command = ["simulate", "--capture", "hot_partition", "--group", GROUP, "--engine", "local"]
    command += ["--assignor", "simple", "--assignor", "lag-aware-sticky", "--compare"]
    run = sharelag_command(*command, "-o", "json")
    printed = rows_of(run)
    called = {"the group as it is": "simple"}
    names, rows = ("variant", "baseline"), lab.comparison.rows()
    mine = [row | {name: called.get(row[name], row[name]) for name in names} for row in rows]
    assert len(mine) == len(printed) > 40
    for row, other in zip(mine, printed, strict=True):
        assert {name: row[name] for name in other} == pytest.approx(other)
    verdict = lab.comparison.verdict().replace("the group as it is", "simple")
    assert f"sharelag: {verdict}" in run.stderr


def test_enter_runs_it_and_steps_begin_at_the_members_there_are(uneven: Workbench) -> None:
    lab = lab_of(uneven)
    assert (lab.members.start, lab.members.hint) == (3, "as they are: 3")
    assert (lab.locks.hint, lab.limits.hint) == ("as it is: 30 s", "as it is: 5")
    assert lab.assignors.now == "simple"
    lab.members._handle_custom_msg({"act": "enter"}, [])
    assert lab.join(60)
    assert lab.state == "done"
    lab.members.disabled = True
    lab.members._handle_custom_msg({"act": "enter"}, [])
    assert lab.state == "done"
    with pytest.raises(traitlets.TraitError, match="unknown choice 'none of these'"):
        lab.assignors.value = ("none of these",)


# ---- cancelled in the middle of a simulation -----------------------------------------------------
@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set once a simulation has asked whether anybody waits for it: it is in its middle."""
    asked, is_over = threading.Event(), threading.Event()

    def heard(cancelled: Callable[[], bool], progress: Callable[[int, int], object]) -> Any:
        def note() -> bool:
            asked.set()
            return cancelled() or is_over.is_set()

        return cancellable(note, progress)

    for place in ("sharelag_widgets.dashboards.trials", "sharelag.whatif.fixed"):
        monkeypatch.setattr(f"{place}.cancellable", heard)
    yield asked
    is_over.set()  # no run of a failed test goes on beside later ones


@pytest.mark.parametrize("how", few_of(["cancel", "close", "by hand"], ["cancel"]))
def test_long_runs_end_when_cancelled(how: str, uneven: Workbench, looks: threading.Event) -> None:
    lab = lab_of(uneven)
    lab.seconds.value, lab.runs.value = 7_200, 5  # minutes of work
    editor = editor_of(lab)
    (editor if how == "by hand" else lab).run()
    assert looks.wait(_SECONDS)
    looks.clear()
    assert looks.wait(_SECONDS)  # before the first of 10 runs is done
    going = editor._run if how == "by hand" else lab._trial
    assert going is not None
    editor.cancel() if how == "by hand" else getattr(lab, how)()
    assert going.join(_SECONDS)
    assert editor.result.get("of") is None
    if how != "by hand":
        assert (lab.state, lab.comparison, lab.bar.value) == ("cancelled", None, 0)
