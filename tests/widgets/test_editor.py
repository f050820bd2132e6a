"""The editor keeps what people do and gives it back, and a run is reported as it went."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag.errors import InputError
from sharelag_widgets import AssignmentEditor, Difference, LagTable, Selection
from sharelag_widgets.assignment_editor import as_ranges, fold, new_edit, numbers_in
from tests.support.widgets.editors import BASE, Gate, editor, fails, partitions
from tests.support.widgets.samples import HOSTILE
from tests.support.widgets.unpacked import unpacked

KEYS = {
    (topic, number): ("payments", f"{n:022d}", number)
    for n, topic in enumerate(("orders", "refunds"))
    for number in range(5)
}


def found(view: AssignmentEditor, **message: Any) -> None:
    view._handle_custom_msg(message, [])


def place(topic: str, number: int) -> str:
    return str({"orders": 0, "refunds": 5}[topic] + number)


# ---- the assignment ----
def test_it_gives_back_what_it_was_given_and_what_became_of_it() -> None:
    view = editor()
    assert view.assignment == view.baseline == BASE
    view.edits = [
        new_edit("move", rows=place("orders", 0), **{"from": "member-0", "to": "member-3"})
    ]
    assert view.assignment == BASE  # it is not done until it holds
    view.at = 1
    assert view.assignment["member-3"] == {"orders": [0]}
    assert view.assignment["member-0"] == {"orders": [1, 2], "refunds": [0]}
    assert view.baseline == BASE


def test_undo_and_redo_go_as_far_as_there_are_edits() -> None:
    view = editor()
    view.assignment = {"member-0": {}, "new": {"refunds": [4, 3]}}
    assert view.assignment == {"member-0": {}, "new": {"refunds": [3, 4]}}
    for _ in range(9):
        view.undo()
    assert view.assignment == BASE
    for _ in range(9):
        view.redo()
    assert view.assignment == {"member-0": {}, "new": {"refunds": [3, 4]}}


def test_the_code_makes_the_assignment_again_whatever_its_names() -> None:
    assignment = {HOSTILE: {HOSTILE: [1, 0]}, "'\"\\": {"orders": [3]}}
    view = editor(partitions=partitions((HOSTILE, "orders")), assignment=assignment)
    names: dict[str, Any] = {}
    exec(view.to_code(), names)
    wanted = {HOSTILE: {HOSTILE: [0, 1]}, "'\"\\": {"orders": [3]}}
    assert names["assignment"] == view.assignment == wanted
    assert "\u202e" not in view.to_code()
    exec(view.to_code("mine"), names)
    assert names["mine"] == view.assignment


def test_a_thousand_partitions_of_two_hundred_members_cross_light() -> None:
    table = partitions(tuple(f"topic-{n}" for n in range(10)), 100)
    everybody = {f"member-{n}": {f"topic-{t}": range(100) for t in range(10)} for n in range(200)}
    view = editor(partitions=table, assignment=everybody)
    assert len(view.data) < 900_000
    view.assignment = everybody
    assert len(json.dumps(view.edits)) < 20_000  # as ranges


def test_columns_for_the_browser() -> None:
    columns = unpacked(editor().data)
    assert columns["_member"] == list(BASE)
    both = zip(columns["_pair_member"], columns["_pair_row"], strict=True)
    pairs = [(columns["_member"][m], columns["_label"][r]) for m, r in both]
    held = ("orders-0", "orders-1", "orders-2", "refunds-0")
    assert pairs[:4] == [("member-0", one) for one in held]
    assert ("member-1", "refunds-2") in pairs
    assert ("member-2", "refunds-2") in pairs
    assert columns["lag"] == [0, 1000, 2000, None, *range(4000, 10_000, 1000)]


def test_rows_are_sorted_and_other_rows_begin_anew_with_what_is_still_there() -> None:
    backwards = partitions().take(pa.array(range(9, -1, -1)))
    view = editor(partitions=backwards)
    assert view.rows.equals(partitions())
    assert view.assignment == BASE
    view.assignment = {"member-0": {}}
    view.rows = partitions().slice(1)
    assert view.edits == []
    assert view.assignment == BASE | {"member-0": {"orders": [1, 2], "refunds": [0]}}
    view.assignment = {"member-0": {}}
    # The same partitions, with other numbers: what people did stays.
    view.rows = partitions().slice(1)
    assert view.assignment == {"member-0": {}}


def test_what_it_begins_with_can_be_renewed_and_edits_stay() -> None:
    gate = Gate()
    view = editor(on_run=gate)
    view.edits = [
        new_edit("move", rows=place("refunds", 0), **{"from": "member-0", "to": "member-3"}),
        new_edit("assign", rows=f"{place('orders', 1)}-{place('orders', 2)}", to="member-2"),
        new_edit("set", all={"member-1": place("refunds", 4)}),
    ]
    view.at = 2
    ids = [edit["id"] for edit in view.edits]
    view.run()
    base = {"member-0": {"orders": [2, 3], "refunds": [0]}, "member-2": {}}
    base["member-3"] = {"refunds": [3]}
    view.renew(partitions().slice(2), base)  # two partitions are gone, and a member
    assert view.baseline == base
    assert (view.state, [edit["id"] for edit in view.edits], view.at) == ("running", ids, 2)
    assert view.assignment == {
        "member-0": {"orders": [2, 3]},
        "member-2": {"orders": [2]},
        "member-3": {"refunds": [0, 3]},
    }
    view.redo()
    assert view.assignment == {"member-0": {}, "member-2": {}, "member-3": {}}
    gate.let_go(4)
    assert view.wait(20)
    assert view.state == "done"
    assert view.result["of"] not in ids  # it was of another one
    said = "'a' has partition 0 of 'orders', which is not in the table"
    with pytest.raises(InputError, match=said):
        view.renew(partitions().slice(2), {"a": {"orders": [0]}})
    assert (view.baseline, len(view.rows)) == (base, 8)


def test_after_the_same_renewal_the_result_still_holds() -> None:
    view = editor()
    view.run()
    assert view.wait(20)
    assert view.result["of"] == ""
    view.renew(partitions(), BASE, on_run=fails)
    assert view.result["of"] == ""
    view.run()
    assert view.wait(20)
    assert view.state == "failed"


def test_what_is_picked_is_linked() -> None:
    selection = Selection()
    view, table = editor(selection=selection), LagTable.of(partitions(), selection=selection)
    table.picked = (6).to_bytes(4, "little")
    assert selection.keys == (KEYS["refunds", 1],)
    assert view.picked_rows.column("partition").to_pylist() == [1]
    view.picked = (0).to_bytes(4, "little")
    assert (selection.keys, table.picked) == ((KEYS["orders", 0],), view.picked)


def test_words_where_no_picture_is() -> None:
    view = editor()
    view.assignment = BASE | {"member-3": {"orders": [4]}, "member-0": {}}
    assert view.summary() == (
        "Assignment of payments: 4 members, 10 partitions, 5 pairs of them; 6 partitions "
        "without a member, "
        "1 member without a partition; edited: 1 pair added, 4 removed"
    )
    bundle, _ = view._repr_mimebundle_()
    assert bundle["text/plain"] == view.summary()
    assert "<img" not in editor(title=HOSTILE)._repr_mimebundle_()[0]["text/html"]
    said = editor(partitions=partitions().slice(0, 0), assignment={"a": {}}).summary()
    assert "There is no partition to assign" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"assignment": {"a": {"orders": [9]}}},
            "'a' has partition 9 of 'orders', which is not in the table",
        ),
        ({"assignment": {"": {}}}, "'' cannot name a member"),
        (
            {"partitions": pa.table({"topic": ["a"]}), "assignment": {}, "keys": ["topic"]},
            "no column partition; it has topic",
        ),
        ({"measure": "lagg"}, "no column lagg; it has group_id"),
        (
            {"partitions": pa.concat_tables([partitions()] * 2)},
            "is in the table twice: choose the rows of one group",
        ),
        ({"on_load": None}, "the choices cannot be loaded"),
    ],
)
def test_what_cannot_be_edited_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        editor(**changes)


def test_there_may_be_nothing_to_run() -> None:
    view = editor(on_run=None)
    assert not view.runs
    with pytest.raises(InputError, match="no what-if to run: give on_run"):
        view.run()


# ---- edits, as the browser has them ----
def test_ranges_are_numbers_and_back() -> None:
    assert (as_ranges([7, 0, 2, 1, 1]), as_ranges([]), as_ranges([5])) == ("0-2,7", "", "5")
    some = {n * n % 641 for n in range(500)}
    assert numbers_in(as_ranges(some)) == sorted(some)


def test_every_edit_does_what_it_is_called() -> None:
    base = {"a": {0, 1, 2}, "b": {2, 3}}

    def after(do: str, **about: Any) -> dict[str, set[int]]:
        return fold(base, [new_edit(do, **about)], 1)

    assert after("move", rows="0-1", **{"from": "a"}, to="b") == {"a": {2}, "b": {0, 1, 2, 3}}
    assert after("move", rows="2", **{"from": None}, to="a") == {"a": {0, 1, 2}, "b": {3}}
    assert after("move", rows="0", **{"from": "a"}, to="z") == base
    assert after("assign", rows="4", to="a") == {"a": {0, 1, 2, 4}, "b": {2, 3}}
    assert after("take", rows="2", **{"from": "b"}) == {"a": {0, 1, 2}, "b": {3}}
    assert (after("add", member="a"), after("add", member="c")["c"]) == (base, set())
    assert after("remove", member="a") == {"b": {2, 3}}
    assert after("set", all={"a": "4", "z": "1"}) == {"a": {4}, "b": set()}
    assert base == {"a": {0, 1, 2}, "b": {2, 3}}


# ---- runs ----
def test_a_run_gives_the_difference_of_what_was_edited() -> None:
    gate = Gate()
    view = editor(on_run=gate)
    view.assignment = BASE | {"member-3": {"orders": [4]}}
    last = view.edits[-1]["id"]
    view.run()
    assert (view.state, view.progress) == ("running", [])
    gate.let_go()
    assert view.progress == [1, 4]
    gate.let_go(3)
    assert view.wait(20)
    assert (view.state, view.progress) == ("done", [4, 4])
    assert (gate.given, view.result["of"]) == ([BASE | {"member-3": {"orders": [4]}}], last)
    assert view.result["seeds"] == [0, 1, 2, 7]
    assert view.result["rows"][0] == {
        "measure": "Time until drained",
        "unit": "ms",
        "better": "less",
        "unknown": "not drained",
        "verdict": "",
        "baseline": None,
        "edited": 600_000 / 9,
        "low": None,
        "high": None,
    }
    assert isinstance(view.difference, Difference)


def test_a_cancelled_run_leaves_the_result_before_it() -> None:
    gate = Gate()
    view = editor(on_run=gate)
    view.run()
    gate.let_go(4)
    assert view.wait(20)
    before = view.result
    view.undo()
    view.assignment = {"member-0": {}}
    view.run()
    gate.let_go(2)
    view.cancel()
    progress = view.progress
    assert (view.state, view.result) == ("cancelled", before)
    gate.release()
    assert view.wait(20)
    assert gate.saw_cancelled.is_set()
    assert (view.state, view.result, view.progress) == ("cancelled", before, progress)


def test_what_a_cancelled_run_gives_all_the_same_is_not_taken() -> None:
    gate = Gate()
    view = editor(on_run=lambda assignment, _, progress: gate(assignment, lambda: False, progress))
    view.run()
    gate.let_go(1)
    first = view._run
    assert first is not None
    view.cancel()
    other = Gate()
    view._on_run = other
    view.run()
    gate.let_go(3)
    assert first.join(20)
    assert (view.state, view.result, view.progress) == ("running", {}, [])
    other.let_go(4)
    assert view.wait(20)
    assert view.state == "done"


def test_a_failure_is_explained_and_the_exception_is_there() -> None:
    view = editor(on_run=fails)
    view.run()
    assert view.wait(20)
    assert (view.state, view.failure) == ("failed", "there is no such topic: <b>add</b> it")
    assert isinstance(view.error, InputError)
    for act, said in (
        (lambda *_: 1 / 0, "ZeroDivisionError: division by zero"),
        (
            lambda *_: {"measure": ["a"]},
            "what on_run gave has no column baseline, edited; it has measure",
        ),
        (lambda *_: None, "NoneType is not a table: give an Arrow table"),
    ):
        view._on_run = act
        view.run()
        assert view.wait(20)
        assert view.failure.startswith(said)
        assert view.result == {}


def test_a_run_from_the_browser_runs_what_is_on_the_screen() -> None:
    view = editor()
    edits = [new_edit("assign", rows=place("orders", 4), to="member-3")]
    found(view, run=True, edits=edits, at=1)
    assert view.wait(20)
    assert (view.result["of"], view.assignment["member-3"]) == (edits[0]["id"], {"orders": [4]})
    assert view.state == "done"


def test_the_same_twice_is_the_same_text() -> None:
    view = editor()
    results = []
    for _ in range(2):
        view.run()
        assert view.wait(20)
        results.append(json.dumps(view.result))
    assert results[0] == results[1]


def test_closing_cancels() -> None:
    gate = Gate()
    view = editor(on_run=gate)
    view.run()
    gate.let_go()
    view.cancel()
    view.close()
    gate.release()
    assert view.wait(20)
    assert gate.saw_cancelled.is_set()


# ---- what an assignor would do ----
def test_an_assignment_is_loaded_by_its_name_and_can_be_undone() -> None:
    view = editor()
    found(view, load="to-the-first", edits=[], at=0)
    assert view.assignment["member-0"] == {"orders": [0, 1, 2, 3, 4], "refunds": [0, 1, 2, 3, 4]}
    assert view.assignment["member-1"] == {}
    view.undo()
    assert view.assignment == BASE


def test_one_that_cannot_be_loaded_is_said() -> None:
    view = editor()
    found(view, load="broken", edits=[], at=0)
    assert view.failure == "broken cannot be loaded: ValueError: no answer of broken"
    assert view.assignment == BASE
    found(view, load="no such", edits=[], at=0)
    assert "choose one of to-the-first, broken" in view.failure


def test_it_knows_neither_kafka_nor_spark() -> None:
    folder = Path(__file__).parents[2] / "widgets/sharelag_widgets"
    for name in ("assignment_editor", "run"):
        text = (folder / f"{name}.py").read_text("utf-8")
        assert "import pyspark" not in text
        assert "sharelag.whatif." not in text.replace("`sharelag.whatif.assign`", "")
