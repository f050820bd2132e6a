"""A dashboard keeps its view when it is refreshed, drawn in another theme, or linked."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import sharelag
from sharelag.workbench import Workbench
from sharelag_widgets import Selection
from sharelag_widgets.dashboards import FleetView, GroupView, PoisonHunt, WindowExplorer
from sharelag_widgets.dashboards.dashboard import Dashboard
from tests.support.widgets.panels import view_of
from tests.support.written_input import NOW, Write, WrittenInput

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
