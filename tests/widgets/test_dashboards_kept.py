"""A dashboard keeps its view when it is read or drawn again; the hunt lists what may be stuck."""

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import VBox
from traitlets.config import Config

import sharelag
from sharelag import schemas
from sharelag.whatif import Member, Poison, Scenario, Service, Topic, simulate
from sharelag.workbench import Workbench
from sharelag_widgets import Selection
from sharelag_widgets.dashboards import FleetView, GroupView, PoisonHunt, WindowExplorer
from sharelag_widgets.dashboards.dashboard import Dashboard
from sharelag_widgets.dashboards.group import (
    GIVEN_UP,
    NOT_PERSISTED,
    OFTEN,
    PINS,
    SUSPECTS,
    suspects,
)
from tests.support.readings import open_once
from tests.support.records import assert_fields
from tests.support.request_lines import TOPIC, fetch, log_of
from tests.support.simulated_input import SimulatedInput
from tests.support.widgets.panels import view_of
from tests.support.written_input import NOW, TOPIC_ID, Write, WrittenInput

WRITES = [
    Write(60 - n, 10 + n, ((12 + n, 14 + n, 0, 2), (20 + n, 20 + n, 2, 1)), partition=p)
    for p in range(2)
    for n in range(40)
]


def looking(kind: Any) -> tuple[Any, Any, WrittenInput]:
    """A dashboard, its strip as somebody left it, and what it reads."""
    source = WrittenInput(WRITES, partitions_of_topic=2)
    board = kind(Workbench(source, engine="local"))
    strip = board.strip.view
    strip.shown = 1
    strip.moment, strip.fit, strip.span, strip.cursor = 30, "fixed", [40.0, 52.0], 43.0
    return board, strip, source


def kept(strip: Any) -> tuple[Any, ...]:
    return strip._moments.keys[strip.shown], strip.time, strip.fit, strip.span, strip.cursor


# ---- a cell that runs again ----------------------------------------------------------------------
class Unread(list[Any]):
    """Its items are not asked for."""

    def __iter__(self) -> Any:
        raise AssertionError("a large collection was searched")


class Neighbour:
    """Changes its dict whenever it is looked at, as another thread may at that moment."""

    def __init__(self, among: dict[Any, Any]) -> None:
        self.among = among
        among[self] = self

    @property  # type: ignore[misc]  # isinstance asks for it, and so looks at the item
    def __class__(self) -> Any:
        self.among[len(self.among)] = None
        return Neighbour


VIEW, BOARD = "view = strip()\nview", "board = hunt()\nboard"


@pytest.mark.parametrize(
    ("before", "elsewhere", "again", "is_closed"),
    [
        ("strip()", "1", "strip()", True),
        (VIEW, "1", VIEW, True),
        (BOARD, "1", BOARD, True),
        ("strip()", "1", "1 / 0", True),
        (VIEW, "1", "view", False),
        (VIEW, "kept = view", VIEW, False),
        (VIEW, "kept = [view]", VIEW, False),
        (VIEW, "kept = {'a': ([{view}], 1)}", VIEW, False),
        (VIEW, "kept = []\nkept += [kept, {view: 1}]", VIEW, False),
        (VIEW, "kept = [VBox([view])]", VIEW, False),
        (VIEW, "kept = SimpleNamespace(view=view)", VIEW, True),
        (VIEW, "kept = [[view], [0] * 1_000]", VIEW, False),
        (VIEW, "kept = [view] * 1_001", VIEW, True),
        (VIEW, "kept = Unread(range(1_000_000))", VIEW, True),
        (VIEW, "kept = [Unread(range(900))] * 600", VIEW, True),
        (VIEW, "kept = {}\nNeighbour(kept)", VIEW, True),
        (BOARD, "kept = {1: board.strip}", BOARD, False),
        ("board = hunt()\ndisplay(board)\nboard.strip.view", "kept = board", "board = 1", False),
        (VIEW, "view", "view = None", False),
        (VIEW, "VBox([VBox([view])])", VIEW, False),
        (BOARD, "VBox([board.strip])", BOARD, False),
    ],
)
def test_what_a_cell_showed_is_closed_when_it_runs_again(
    before: str, elsewhere: str, again: str, is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of JupyterLab name the cell; where nothing does, as in papermill, nothing is closed."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    shell: Any = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    bench = Workbench(WrittenInput(WRITES, partitions_of_topic=2), engine="local")
    shell.push({"strip": partial(bench.strip, "billing"), "hunt": lambda: PoisonHunt(bench)})
    shell.push({one.__name__: one for one in (Neighbour, SimpleNamespace, Unread, VBox)})

    def run(cell: str, code: str) -> Any:
        header = {"msg_id": uuid4().hex}
        shell.get_parent = lambda: {"header": header, "metadata": {"cellId": cell} if cell else {}}
        return shell.run_cell(code, store_history=True).result

    try:
        for cell in ("", "mine"):
            first = run(cell, before)
            run(f"{cell} another", elsewhere)
            run(cell, again)
            assert (first.comm is None) == (is_closed and bool(cell))
            run("other", "1")
    finally:
        InteractiveShell.clear_instance()


# ---- the strip -----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [WindowExplorer, PoisonHunt])
def test_a_strip_stays_while_more_is_read(kind: Any) -> None:
    board, strip, source = looking(kind)
    before = kept(strip)
    assert before[1] == NOW - timedelta(seconds=30)
    source.writes = [*source.writes, Write(1, 50, partition=1), Write(1, 55, partition=0)]
    board.refresh()
    assert board.header.failure == ""
    assert board.strip.view is strip
    assert kept(strip) == before
    strip.moment = 40
    assert (strip.time, strip.counts()) == (NOW - timedelta(seconds=1), {})
    strip.moment = 41
    assert (strip.time, strip.counts()) == (NOW, {"unread": 7150})
    board.close()


@pytest.mark.parametrize("act", ["theme", "measure"])
def test_theme_and_heat_map_only_redraw(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    board, strip, _ = looking(WindowExplorer)
    before, data, drawn = kept(strip), strip.data, board.heat.view.figure
    monkeypatch.setattr(board, "_show", lambda: pytest.fail("filled anew"))
    if act == "theme":
        board.header.theme = "dark"
    else:
        board.measure.value = "available"
    assert board.header.failure == ""
    assert (board.strip.view, kept(strip), strip.data) == (strip, before, data)
    assert board.heat.view.figure != drawn


@pytest.mark.parametrize(("kind", "control"), [(FleetView, "by"), (GroupView, "step")])
def test_controls_of_charts_only_redraw(
    kind: Any, control: str, demo: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = kind(demo)
    monkeypatch.setattr(board, "_show", lambda: pytest.fail("filled anew"))
    field = getattr(board, control)
    field.index = 1
    assert board.header.failure == ""


def test_what_failed_is_filled_when_it_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    board, _, _ = looking(PoisonHunt)
    with monkeypatch.context() as broken:
        broken.setattr(board, "_show", lambda: 1 / 0)
        board.show()
        said = "unexpected ZeroDivisionError: division by zero; please report it"
        assert board.header.failure == said
        board.header.theme = "dark"
        assert board.header.failure == said
    board.header.theme = "light"
    assert board.header.failure == ""
    never = PoisonHunt(sharelag.open("127.0.0.1:1", timeout=1, engine="local"))
    never.header.theme = "dark"
    assert "127.0.0.1:1" in never.header.failure


@pytest.mark.parametrize("kind", [WindowExplorer, PoisonHunt, GroupView])
def test_what_takes_long_is_computed_by_the_thread_that_reads(kind: type[Dashboard]) -> None:
    board = kind(Workbench(WrittenInput(WRITES), engine="local"))
    fresh = board._read(lambda: False, lambda *_: None)
    assert isinstance(fresh.source, WrittenInput)
    asked = list(fresh.source.asked)
    board.bench = fresh
    assert (board.header.failure, fresh.source.asked) == ("", asked)


def test_a_group_that_is_gone_is_named_by_what_is_shown() -> None:
    board, _, source = looking(WindowExplorer)
    source.writes = [Write(5, 10, group="another")]
    board.refresh()
    assert "no state of share group 'billing'" in board.header.failure
    assert "Not refreshed" not in board.header.failure


# ---- the header ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [FleetView, GroupView, WindowExplorer, PoisonHunt])
def test_a_header_knows_no_more_than_its_parts(kind: Any, demo: Workbench) -> None:
    board = kind(demo)
    said = " ".join(board.header.unknown)
    for part in board.body.children:
        assert {*part.unknown} <= {*board.header.unknown}
        for one in part.unknown:
            assert one in said
    assert len(board.header.unknown) == len({*board.header.unknown})


def test_what_a_chart_does_not_know(demo: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    board = WindowExplorer(demo, "analytics")
    heat = [one for one in board.header.unknown if board.heat.header.title in one]
    assert heat
    board.redraw()
    assert [one for one in board.header.unknown if board.heat.header.title in one] == heat
    board.heat.header.unknown = []
    monkeypatch.setattr(board, "_draw", lambda: None)
    board.redraw()
    assert not [one for one in board.header.unknown if board.heat.header.title in one]
    assert board.header.unknown == board.header.own_unknown


# ---- groups and their share partitions -----------------------------------------------------------
def test_groups_are_picked_while_all_their_share_partitions_are(demo: Workbench) -> None:
    selection = Selection()
    fleet = FleetView(demo, selection=selection)
    table = view_of(fleet.groups)

    def rows() -> list[str]:
        found: list[str] = table.picked_rows.column("group_id").to_pylist()
        return found

    names = table.rows.column("group_id").to_pylist()
    table.picked = np.array([names.index("billing")], np.uint32).tobytes()
    assert (len(selection.keys), rows()) == (10, ["billing"])
    selection.keys = selection.keys[:3]
    assert rows() == []
    table.picked = np.array([names.index("billing")], np.uint32).tobytes()  # once more
    assert (len(selection.keys), rows()) == (10, ["billing"])
    selection.clear()
    assert rows() == []
    table.picked = np.array([names.index("billing"), names.index("shipping")], np.uint32).tobytes()
    assert sorted({key[0] for key in selection.keys}) == sorted(rows()) == ["billing", "shipping"]
    fleet.show()
    assert sorted(rows()) == ["billing", "shipping"]
    table.picked = b""
    assert selection.keys == ()


#: Acknowledged, given back often, archived at once, given back often: all in one share partition.
BATCHES = ((12, 13, 2, 1), (14, 14, 0, 3), (16, 16, 4, 1), (18, 19, 0, 4))


def hunt_of(**options: Any) -> PoisonHunt:
    writes = [Write(60, 10, ((12, 13, 2, 1),)), Write(5, 10, BATCHES)]
    return PoisonHunt(Workbench(WrittenInput(writes), engine="local"), **options)


def pick(hunt: PoisonHunt, *firsts: int) -> None:
    """As the browser does it: numbers of rows."""
    rows = view_of(hunt.table).rows.column("first_offset").to_pylist()
    numbers = sorted(rows.index(first) for first in firsts)
    view_of(hunt.table).picked = np.array(numbers, np.uint32).tobytes()


def picked(hunt: PoisonHunt) -> list[int]:
    found: list[int] = view_of(hunt.table).picked_rows.column("first_offset").to_pylist()
    return sorted(found)


def window(runs: list[tuple[int, int, int, int]], **changes: Any) -> pa.Table:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    row = dict.fromkeys(schemas.WINDOWS.names) | {"group_id": "g", "topic_id": "t", "partition": 3}
    row |= {"runs": [dict(zip(names, run, strict=True)) for run in runs]} | changes
    table = pa.Table.from_pylist([row], schemas.WINDOWS)
    return table.append_column("topic", pa.array([None], pa.string()))


def said(found: pa.Table) -> list[tuple[Any, ...]]:
    assert found.schema == SUSPECTS
    return [tuple(row.values())[4:] for row in found.to_pylist()]


ENDS = {"start_offset": 5, "effective_start_offset": 5, "window_end_offset": 14}


# ---- which are listed ----------------------------------------------------------------------------
def test_a_head_without_a_state_pins_the_start_offset() -> None:
    runs = [(7, 9, 2, 1), (12, 12, 4, 1), (13, 13, 0, 1)]
    found = suspects(window(runs, **ENDS), 2, 5)
    wanted = [(12, 12, 1, "archived", 1, None, GIVEN_UP)]
    assert said(found) == [*wanted, (5, 5, 1, NOT_PERSISTED, None, None, PINS)]


def test_a_head_with_a_state_says_how_often_it_was_delivered() -> None:
    rare, often = (suspects(window([(5, 6, 0, n), (9, 13, 2, 1)], **ENDS), 3, 5) for n in (1, 4))
    assert said(rare) == [(5, 6, 2, "available", 1, 4, PINS)]
    assert said(often) == [(5, 6, 2, "available", 4, 1, f"{PINS}, {OFTEN}")]


@pytest.mark.parametrize(
    "ends",
    [
        {"start_offset": 5, "effective_start_offset": 5, "window_end_offset": 5},  # empty
        {"start_offset": None, "effective_start_offset": None, "window_end_offset": 0},  # not begun
    ],
)
def test_a_window_without_a_head_lists_nothing(ends: dict[str, Any]) -> None:
    assert said(suspects(window([], **ends), 1, 5)) == []


def test_what_was_delivered_often_and_not_acknowledged_is_listed() -> None:
    runs = [(5, 7, 0, 3), (8, 9, 2, 4), (10, 10, 4, 5), (11, 11, 0, 1)]
    found = suspects(window(runs), 3, 5)
    assert [(row[0], row[2], row[3], row[5]) for row in said(found)] == [
        *((10, 1, "archived", None), (5, 3, "available", 2))
    ]


def test_a_held_head_and_what_was_given_up_at_once_are_in_the_hunt() -> None:
    hunt = hunt_of()
    listed = {row["first_offset"]: row["why"] for row in hunt.found.to_pylist()}
    assert listed == {10: PINS, 14: OFTEN, 16: GIVEN_UP, 18: OFTEN}
    assert hunt.table.header.notes[0].startswith(
        "3 offsets delivered at least 2 times and not acknowledged; 1 start offset waits for "
        "an offset listed here; "
    )
    hunt.least.value = 10
    assert hunt.found.column("first_offset").to_pylist() == [16, 10]
    for sample in ("held_head", "window_full"):
        (row,) = PoisonHunt(sharelag.open(sample, engine="local")).found.to_pylist()
        assert_fields(row, first_offset=20, delivery_count=None, left=None, why=PINS)


def test_the_strip_of_the_hunt_goes_back_in_time() -> None:
    hunt = hunt_of()
    strip = hunt.strip.view
    assert strip.rows.num_rows == 2
    strip.moment = 0
    assert strip.counts() == {"unknown": 2, "acknowledged": 2}


# ---- what is picked ------------------------------------------------------------------------------
def test_the_row_that_is_picked_is_the_one_that_is_marked() -> None:
    hunt = hunt_of()
    for first, last in ((18, 19), (16, 16), (10, 10), (14, 14)):
        pick(hunt, first)
        assert hunt.selection.keys == (("billing", TOPIC_ID, 0),)
        assert (hunt.selection.offsets, hunt.strip.view.offsets) == ((first, last), [first, last])
        assert picked(hunt) == [first]


def test_several_rows_pick_their_share_partitions_and_no_offsets() -> None:
    hunt = hunt_of()
    pick(hunt, 14, 18)
    assert (hunt.selection.keys, hunt.selection.offsets) == ((("billing", TOPIC_ID, 0),), None)
    hunt.show()
    assert picked(hunt) == [14, 18]
    pick(hunt)
    assert (hunt.selection.keys, hunt.selection.offsets) == ((), None)


def test_offsets_picked_on_the_strip_stay_picked() -> None:
    hunt = hunt_of()
    pick(hunt, 14)
    for offsets, rows in (((16, 18), [16, 18]), ((40, 41), [])):
        hunt.strip.view.offsets = [float(offset) for offset in offsets]
        for act in (hunt.redraw, hunt.show, lambda: setattr(hunt.header, "theme", "dark")):
            act()
            assert (hunt.selection.offsets, picked(hunt)) == (offsets, rows)


def test_a_pick_in_a_linked_view_is_followed_and_sets_no_offsets() -> None:
    selection = Selection()
    hunt = hunt_of(selection=selection)
    selection.keys = (("billing", TOPIC_ID, 0),)
    assert (selection.offsets, picked(hunt)) == (None, [])
    selection.offsets = (17, 18)
    assert (selection.offsets, picked(hunt)) == ((17, 18), [18])
    hunt.close()
    selection.offsets = (14, 14)
    assert hunt._rows.keys == (("billing", TOPIC_ID, 0, 18),)


@pytest.mark.row("RST-12")
def test_what_was_given_up_at_the_limit_is_in_the_list_with_its_count() -> None:
    """Of three records the first is never acknowledged, the second always released."""
    member = Member(service=Service(10), max_poll_records=1)
    poison = (Poison("t", 0, 0, "silent"), Poison("t", 0, 1, "release"))
    scenario = Scenario((Topic("t", 1, backlog=3),), (member,), poison=poison, duration_ms=20_000)
    bench = Workbench(SimulatedInput(simulate(scenario)), engine="local")
    hunt = PoisonHunt(bench, "what-if")
    listed, head = hunt.found.to_pylist()
    assert (listed["first_offset"], listed["last_offset"], listed["delivery_count"]) == (1, 1, 5)
    assert (listed["state"], listed["left"]) == ("archived", None)
    # The first one has no persisted state, so how often it was delivered is not known; it pins the
    # start offset.
    assert_fields(head, first_offset=0, delivery_count=None, why="pins the start offset")
    (why,) = [r for r in hunt.bench.explain().table.to_pylist() if r["cause"] == "poison_records"]
    result = {one["name"]: one["value"] for one in why["evidence"]}
    assert (result["archived at the limit"], result["limit"]) == ("1", "5")
    assert any("archived at the limit" in str(card) for card in hunt.cards.cards)


#: Topic `orders` of the recorded demo.
ORDERS = "sKsPW6TOQnKQg0plb_HCDA"


@pytest.mark.parametrize("kind", [WindowExplorer, PoisonHunt])
def test_the_strip_names_holders(kind: type[WindowExplorer | PoisonHunt], tmp_path: Path) -> None:
    lines = [fetch(1_000, "m-<b>7</b>", 0, [(680, 699, 1)]), fetch(50_000, "m-8", 0)]
    text = "\n".join(lines).replace("2026-11-23 00:00:", "2026-11-21 11:45:")
    text = text.replace(TOPIC, ORDERS).replace('"groupId":"g"', '"groupId":"billing"')
    log = log_of(tmp_path, *text.split("\n")).log.path
    known = kind(sharelag.open("chapters", engine="local", requests=log), "billing")
    (said,) = known.strip.header.notes
    assert said.startswith("orders:0: 680-699 acquired by m-<b>7</b> since 2026-11-21 11:45:00 UTC")
    without = kind(open_once("chapters"), "billing")
    assert without.strip.header.notes == []
