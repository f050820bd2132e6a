"""Dashboards follow their controls, each other and time, and say what went wrong."""

import html
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import ipywidgets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import schemas
from sharelag.charts import text
from sharelag.errors import BrokerUnreachableError, InputError
from sharelag.inputs.recorded import folder_of
from sharelag.whatif import Comparison, compared, what_if
from sharelag.whatif.simulation.clock import CancelledError
from sharelag.workbench import Workbench
from sharelag_widgets import Selection
from sharelag_widgets.assignment_editor import numbers_in
from sharelag_widgets.dashboards import (
    FleetView,
    GroupView,
    ImbalanceView,
    Now,
    PoisonHunt,
    StateTopicHealth,
    WhatIfLab,
    WindowExplorer,
)
from sharelag_widgets.dashboards.dashboard import Dashboard, _parts
from sharelag_widgets.dashboards.fleet import generations
from sharelag_widgets.dashboards.group import PINS
from sharelag_widgets.dashboards.pieces import ChartPart, TablePart
from sharelag_widgets.dashboards.trials import (
    difference_rows,
    numbers,
    settings_of,
    shorter,
    simulate_options,
    watch_comparison,
)
from sharelag_widgets.view import SHARE_PARTITION, key_text
from tests.support.cases import few_of
from tests.support.drawn_comparisons import runs
from tests.support.readings import open_once
from tests.support.records import assert_fields
from tests.support.widgets.panels import view_of
from tests.support.widgets.samples import HOSTILE
from tests.support.written_input import Write, WrittenInput

ALL = (
    *(FleetView, GroupView, WindowExplorer, PoisonHunt, ImbalanceView, StateTopicHealth),
    *(WhatIfLab, Now),
)
OF_A_GROUP = (GroupView, WindowExplorer, PoisonHunt, ImbalanceView, WhatIfLab, Now)


class GoesOn(WrittenInput):
    """A share partition that changes, unless its cluster is gone."""

    gone = False
    hold: threading.Event | None = None

    def batches(self, topic: str) -> Any:
        if self.hold is not None:
            assert self.hold.wait(30)
        if self.gone:
            raise BrokerUnreachableError("no broker answered within 10 s: is the address right?")
        return super().batches(topic)


def bars(board: Any) -> int:
    """How many bars are drawn of what the lag consists of."""
    return len(board.parts.view.figure.data[0].hovertext)


def going_on(**changes: Any) -> tuple[Workbench, GoesOn]:
    source = GoesOn([Write(60, 10), Write(5, 30, ((40, 44, 0, 2),))])
    vars(source).update(changes)
    # The dashboards read the same input again, so that a test can change what happens to it.
    return SameBench(source, engine="local"), source


class SameBench(Workbench):
    def refresh(self) -> Self:
        return replace(self)


def widgets_in(root: Any) -> list[Any]:
    found = [root]
    for child in getattr(root, "children", ()):
        found += widgets_in(child)
    return found


@pytest.mark.parametrize("kind", ALL)
def test_every_part_says_moment_and_unit(kind: type[Dashboard], poison: Workbench) -> None:
    board = kind(poison)
    assert board.header.failure == ""
    assert board.header.title.startswith(kind.TITLE)
    at = (poison.health() if kind is StateTopicHealth else poison.lag()).as_of
    assert at is not None
    assert board.header.as_of == at.timestamp() * 1000
    assert len(board.header.help) >= 2
    # The moment is said once, and so is the input: by its name here, in full behind "More".
    assert board.header.source == ("" if board.header.title == "Now: poison" else "poison")
    assert board.header.about == poison.describe()
    for part in widgets_in(board.body):
        if isinstance(part, ChartPart | TablePart):
            assert part.header.help, part.header.title
            assert not {*part.header.notes} & {*board.header.notes}  # which are said once
        if isinstance(part, TablePart) and part.view is not None:
            assert part.view.title == part.header.title  # by which screen readers call it
        if isinstance(part, ChartPart) and part.view.data:
            assert part.header.finding == part.view.figure.layout.meta["title"]
            said = " ".join(part.header.facts)
            assert said
            assert "As of" not in said  # the header says moment and unknowns for all parts
            assert "nknown." not in said
            assert "Not known" not in said
            assert part.header.above == board.header.as_of
            assert {*part.unknown} <= {*board.header.unknown}
            is_of_records = part.header.title == "Records of the state topic"
            assert is_of_records or part.header.as_of in (None, board.header.as_of)
    board.close()


@pytest.mark.parametrize("kind", ALL)
def test_where_no_view_can_be_shown_it_is_text(kind: type[Dashboard]) -> None:
    """As of when, what each chart found, and what is not known; a hostile name stays text."""
    writes = [Write(50, 10, group=HOSTILE), Write(3, 12, ((20, 24, 0, 3),), group=HOSTILE)]
    board: Any = kind(Workbench(WrittenInput(writes), engine="local"))
    assert board.header.failure == ""
    data, _ = board._repr_mimebundle_()
    head, *lines = data["text/plain"].splitlines()
    assert head.startswith(f"{kind.TITLE}")
    assert " UTC" in head
    heads = [part.header for part in _parts(board.body) if part.header.finding]
    found = {f"{head.title}: {head.finding}" for head in heads}
    assert len(lines) == len(found) + len(board.header.unknown)
    told = [line.startswith("not known: ") for line in lines]
    assert told == [False] * len(found) + [True] * len(board.header.unknown)
    saved = data["text/html"]
    for line in (head, *lines[len(found) :]):
        assert f"<p>{html.escape(line)}</p>" in saved
    for part in _parts(board.body):  # beside its picture, or what there is instead of one
        said = [html.escape(one) for one in (part.header.finding, *part.header.facts)]
        assert not part.header.finding or any(f"<p>{one.rstrip('.')}" in saved for one in said)
    assert "<img src=x" not in saved
    assert "application/vnd.jupyter.widget-view+json" in data
    wrong = GroupView(board.bench, "nobody").summary()
    assert "there is no state of share group 'nobody'" in wrong
    for widget in widgets_in(board):
        if isinstance(widget, ipywidgets.HTML):
            assert "<img" not in widget.value
            assert "\u202e" not in widget.value
        if isinstance(widget, ipywidgets.Dropdown):
            labels = [label for label, _ in widget._options_full]
            assert not [label for label in labels if "\u202e" in label or len(label) > 62]
    board.close()


def test_a_hunt_begins_with_the_group_that_has_something_to_find(varied: Workbench) -> None:
    """Not with the most lag, of which nothing was delivered twice."""
    hunt = PoisonHunt(varied)
    assert hunt.header.title == "Poison records: billing"
    assert hunt.found.column("delivery_count").to_pylist() == [8]
    assert GroupView(varied).header.title.endswith("fulfilment")


def test_a_control_changes_what_it_is_about(demo: Workbench) -> None:
    fleet = FleetView(demo)
    before = bars(fleet)
    fleet.by.value = "group"
    assert (before, bars(fleet)) == (30, 7)
    hunt = PoisonHunt(open_once("redelivery_storm"))
    before = len(hunt.found)
    hunt.least.value = 3
    assert 0 < len(hunt.found) < before
    few = {r["why"]: r["delivery_count"] for r in hunt.found.to_pylist() if r["delivery_count"] < 3}
    assert {*few} <= {PINS}
    balance = ImbalanceView(demo, "billing")
    balance.over.value = "topic"
    assert set(view_of(balance.table).rows.column("over").to_pylist()) == {"topic"}
    text, filled = balance.curve.view.alt, view_of(balance.table).rows
    balance.measure.value = "window_available"
    assert balance.curve.view.alt != text
    assert view_of(balance.table).rows is filled, "only the curve is of that measure"
    explorer = WindowExplorer(demo, "billing")
    title = explorer.heat.view.alt
    explorer.measure.value = list(explorer.measure.options)[3]
    assert explorer.heat.view.alt != title


def test_a_point_picks_its_share_partition_everywhere(demo: Workbench) -> None:
    """As the browser sends it: the key of the point, as JSON."""
    selection = Selection()
    fleet, group = FleetView(demo, selection=selection), GroupView(demo, selection=selection)
    key = next(one.customdata[3] for one in fleet.parts.view.figure.data)
    fleet.parts.view.picked_keys = [key_text(tuple(key))]
    assert (selection.keys, group.group, bars(fleet), bars(group)) == ((tuple(key),), key[0], 1, 1)
    fleet.parts.view.picked_keys = []
    assert bars(fleet) == 30
    balance = ImbalanceView(open_once("slow"))
    assert view_of(balance.table).headings["cv"] == "Std dev/mean"
    heat = balance.who.view.figure.data[0]
    key = next(one for row in heat.customdata for one in row if one)
    balance.who.view.picked_keys = [key_text(tuple(key))]
    assert balance.selection.keys == (tuple(key),)
    heat = balance.who.view.figure.data[0]
    assert [[*map(list, row)] for row in heat.customdata] == [[list(key)]]
    assert "not known" not in " ".join(balance.who.header.facts)


def test_the_group_with_the_most_lag_comes_first_and_another_can_be_chosen(demo: Workbench) -> None:
    view = GroupView(demo)
    assert view.group == "notifications"
    view.groups.value = "billing"
    assert view.header.title == "Share group: billing"
    assert set(view_of(view.table).rows.column("group_id").to_pylist()) == {"billing"}
    assert view.cards.group == "billing"
    view.group = "shipping"
    assert (view.groups.value, view.header.failure) == ("shipping", "")


def test_picking_a_group_in_the_fleet_shows_it_everywhere(demo: Workbench) -> None:
    selection = Selection()
    fleet, group, explorer = (
        kind(demo, selection=selection) for kind in (FleetView, GroupView, WindowExplorer)
    )
    fleet._groups.keys = (("billing",),)
    assert ({key[0] for key in selection.keys}, len(selection.keys)) == ({"billing"}, 10)
    assert (group.group, explorer.group, bars(fleet)) == ("billing", "billing", 10)
    selection.keys = selection.keys[:1]
    assert bars(fleet) == bars(group) == 1
    assert len(set(view_of(explorer.history).rows.column("partition").to_pylist())) == 1
    selection.clear()
    assert (bars(fleet), group.group) == (30, "billing")


def test_what_is_left_of_an_unknown_limit_is_unknown(poison: Workbench) -> None:
    (row,) = PoisonHunt(poison).found.to_pylist()
    assert_fields(row, first_offset=104, state="available", delivery_count=4, left=1)
    tables = {"raw": "records", "offsets": "offsets.parquet"}
    given = {name: pq.read_table(folder_of("poison") / place) for name, place in tables.items()}
    hunt = PoisonHunt(sharelag.open(**given, engine="local"))
    (row,) = hunt.found.to_pylist()
    assert_fields(row, first_offset=104, delivery_count=4, left=None)
    assert hunt.counts.header.finding.endswith("the highest delivery count is 4 (1 offset)")
    assert "the delivery limit, and so how many deliveries are left" in hunt.header.unknown


def test_what_a_figure_says_stands_above_it_and_is_no_part_of_it(poison: Workbench) -> None:
    part = PoisonHunt(poison).counts
    assert part.header.finding.startswith(
        "poison: 1 offset given back and waiting; the highest delivery count is 4"
    )
    assert part.header.facts[0] == "Offsets in the windows, by how often they were delivered."
    drawn = part.view.figure
    assert drawn.layout.title.text is None
    whole = open_once("poison").windows("poison").figure("deliveries")
    assert drawn.layout.height < whole.layout.height
    assert drawn.layout.height - drawn.layout.margin.t - drawn.layout.margin.b == 320


def test_a_chart_of_nothing_says_why_and_of_what(demo: Workbench) -> None:
    part = WindowExplorer(demo, "billing").counts
    assert part.view.layout.display == "none"
    assert part.header.facts[0] == "No offset in these windows has a persisted state."
    assert part.header.finding == "No offset in these windows has a persisted delivery count"
    assert part.header.facts[1] == "Offsets in the windows, by how often they were delivered."


def test_a_forecast_stands_in_a_column_and_without_a_time_is_no_chart(demo: Workbench) -> None:
    view = GroupView(demo, "billing")
    names = view_of(view.table).names
    at = names.index("age_ms")
    assert names[at + 1 : at + 3] == ["drain", "drain_ms"]
    assert {*view_of(view.table).rows.column("drain").to_pylist()} == {"drained", "nobody"}
    assert not view.drain.view.figure.data
    assert view.drain.view.layout.display == "none"
    assert view.drain.header.facts[0] == "No share partition has a time to drain."
    assert view.parts.view.layout.display is None
    assert any("nobody, the group has no members" in one for one in view.drain.header.facts)


def test_tables_say_their_units_and_what_columns_mean(demo: Workbench) -> None:
    view = GroupView(demo, "billing")
    assert view.table.header.units == "lag and its parts in offsets"
    assert "group_id" not in view_of(view.table).names
    assert view_of(view.table).hints["lag"] == dict(view.table.header.help)["lag"]
    assert "KIP-1226" in view_of(view.table).hints["lag"]
    assert view.members.header.notes == ["The group has no members."]
    result = GroupView(Workbench(WrittenInput([Write(5, 10)]), engine="local"))
    assert result.members.header.notes == []
    assert "members of the groups" in result.members.header.unknown


def test_the_last_snapshot_of_each_share_partition_is_shown(demo: Workbench) -> None:
    shown = view_of(StateTopicHealth(demo).snapshots).rows.to_pylist()
    wanted = demo.snapshots().table.to_pylist()
    assert len(shown) == len(wanted) == demo.lag().table.num_rows
    for name in ("group_id", "partition", "snapshot_offset", "updates_since"):
        assert [one[name] for one in shown] == [one[name] for one in wanted]


def test_columns_mean_what_they_mean_in_their_table(demo: Workbench, poison: Workbench) -> None:
    offsets = view_of(PoisonHunt(poison).table)
    assert offsets.hints["state"].startswith("available: waits for another delivery; archived: ")
    assert offsets.hints["state"] in html.unescape(offsets.still())
    board = StateTopicHealth(demo)
    assert view_of(board.table).hints["partition"] == "partition of the state topic"
    assert "KIP-1226" in view_of(board.generations).hints["generation"]


def test_of_the_state_topic_it_is_said_what_is_wrong_and_nothing_else(demo: Workbench) -> None:
    assert StateTopicHealth(demo).header.notes == ["Nothing is wrong with the state topic."]
    # A lock, which Kafka writes nowhere.
    odd = Workbench(WrittenInput([Write(5, 10, ((10, 14, 1, 1),))]), engine="local")
    (note,) = StateTopicHealth(odd).header.notes
    assert "non-durable state code 1" in note


def test_generations_are_known_by_the_partitions_they_are_in(demo: Workbench) -> None:
    board = StateTopicHealth(demo)
    listed = view_of(board.generations).rows.to_pylist()
    rows = {row["generation"]: (row["partitions"], row["in"]) for row in listed}
    known = demo.health().table.select(["partition", "generations"]).to_pylist()
    there = {row["partition"]: row["generations"] for row in known}
    for kind, (count, where) in rows.items():
        found = numbers_in(where.replace(" ", ""))
        assert found == sorted(n for n, kinds in there.items() if kind in kinds)
        assert count == len(numbers_in(where.replace(" ", "")))
    assert rows["snapshot v0 with count"] == (4, "0-3")
    older = [{"partition": 3, "generations": ["update v0", "unknown tags", "G3", "G2"]}]
    shown = generations(pa.Table.from_pylist(older, schemas.HEALTH)).column("generation")
    assert set(shown.to_pylist()) == {"update v0", "unknown tags", "G2", "G3"}
    assert generations(schemas.HEALTH.empty_table()).num_rows == 0
    records = {row["partition"]: row["records"] for row in demo.health().table.to_pylist()}
    total = text.number(sum(records.values()))
    assert f"{total} records in 4 partitions" in board.kinds.header.finding
    board.selection.keys = (("__share_group_state", 2),)
    assert f"{text.number(records[2])} records in 1 partition" in board.kinds.header.finding


# ---- time ----------------------------------------------------------------------------------------
def test_a_refresh_shows_what_is_new_and_keeps_the_old_until_then() -> None:
    bench, source = going_on()
    board = FleetView(bench, live=True)
    assert (board.header.live, board.header.every) == (True, 30)
    before = view_of(board.table).rows
    source.writes = [*source.writes, Write(1, 50)]
    source.hold = threading.Event()
    board.header._handle_custom_msg({"refresh": True}, [])
    assert board.header.busy
    assert view_of(board.table).rows.equals(before)
    board.refresh_soon()  # one at a time
    source.hold.set()
    assert board._run is not None
    board._run.join()
    assert not board.header.busy
    assert view_of(board.table).rows.column("start_offset").to_pylist() == [50]
    assert source.asked.count("__share_group_state") == 2


def test_a_recorded_cluster_is_not_live_and_a_running_one_is(poison: Workbench) -> None:
    assert (FleetView(poison).header.live, FleetView(poison).header.every) == (False, 0)
    gone = FleetView(sharelag.open("127.0.0.1:1", timeout=1, engine="local"))
    assert (gone.header.live, gone.header.every) == (True, 30)
    then = "2026-11-21T03:10:00Z"
    past = FleetView(sharelag.open("127.0.0.1:1", as_of=then, timeout=1, engine="local"))
    assert not past.header.live


def test_a_failed_refresh_keeps_what_was_there_and_says_so() -> None:
    bench, source = going_on()
    board = GroupView(bench, live=True)
    before = view_of(board.table).rows
    source.gone = True
    board.refresh()
    said = "Not refreshed; the earlier state is shown: no broker answered"
    assert board.header.failure.startswith(said)
    assert view_of(board.table).rows.equals(before)
    assert board.body.layout.display is None
    board.selection.keys = tuple(
        tuple(row) for row in zip(*before.select(SHARE_PARTITION).to_pydict().values(), strict=True)
    )
    assert "Not refreshed" in board.header.failure
    source.gone = False
    board.refresh()
    assert board.header.failure == ""


def test_what_is_read_for_a_closed_dashboard_is_thrown_away() -> None:
    bench, source = going_on()
    board = FleetView(bench)
    source.hold = threading.Event()
    board.refresh_soon()
    run, shown = board._run, board.bench
    board.close()
    source.hold.set()
    assert run is not None
    assert run.join(30)
    assert board.bench is shown


@pytest.mark.parametrize("kind", ALL)
def test_a_closed_dashboard_listens_to_nothing(kind: type[Dashboard], poison: Workbench) -> None:
    picks = Selection(columns=("topic", "partition")) if kind is StateTopicHealth else Selection()

    def listeners() -> int:
        return sum(len(acts) for k in picks._trait_notifiers.values() for acts in k.values())

    before = listeners()
    board = kind(poison, selection=picks)
    assert listeners() > before
    board.close()
    assert listeners() == before
    assert all(widget.comm is None for widget in widgets_in(board))
    board.close()  # once more is nothing


# ---- failures ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", few_of(ALL, (FleetView, GroupView)))
def test_a_cluster_that_does_not_answer_is_a_sentence(kind: type[Dashboard]) -> None:
    board = kind(sharelag.open("127.0.0.1:1", timeout=1, engine="local"))
    assert "127.0.0.1:1" in board.header.failure
    assert "Traceback" not in board.header.failure
    assert "\n" not in board.header.failure
    assert board.body.layout.display == "none"


@pytest.mark.parametrize("kind", OF_A_GROUP)
def test_an_unknown_group_is_an_error_that_lists_the_groups(kind: Any, poison: Workbench) -> None:
    board = kind(poison, "poisn")
    assert "no state of share group 'poisn'" in board.header.failure
    assert board.header.failure.endswith("its groups are poison; did you mean 'poison'?")
    board.groups.value = "poison"
    assert (board.header.failure, board.body.layout.display) == ("", None)


@pytest.mark.parametrize("kind", ALL)
def test_a_topic_without_records_is_an_error(kind: type[Dashboard], tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    pq.write_table(schemas.RAW.empty_table(), empty)
    board = kind(sharelag.open(empty, engine="local"))
    if kind in OF_A_GROUP:
        assert "no share group has any state in raw records" in board.header.failure
    else:
        assert board.header.failure == ""
        assert any(view.note for view in widgets_in(board.body) if hasattr(view, "note"))


# ---- what if -------------------------------------------------------------------------------------
def quick(bench: Workbench) -> WhatIfLab:
    lab = WhatIfLab(bench)
    lab.seconds.value, lab.runs.value = 5, 2
    return lab


def rows_of(lab: WhatIfLab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = view_of(lab.table).rows.to_pylist()
    return found


def test_the_same_seeds_give_the_same_words_and_others_do_not(uneven: Workbench) -> None:
    lab, again = quick(uneven), quick(uneven)
    for one in (lab, again):
        one.run()
        assert one.join(60)
    assert (lab.state, lab.header.failure, rows_of(lab)) == ("done", "", rows_of(again))
    assert lab.table.header.notes[0].startswith("Seeds 0 to 1. Baseline: the group as it is")
    assert lab.assumed.header.notes == list(lab.scenario.assumed)
    baseline = {row["measure"]: row["baseline"] for row in rows_of(lab)}
    lab.members.value, lab.assignors.value = "6", ("sticky",)
    lab.run()
    assert lab.join(60)
    assert {row["variant"] for row in rows_of(lab)} == {"sticky · 6 members"}
    assert {row["measure"]: row["baseline"] for row in rows_of(lab)} == baseline
    lab.seed.value = 7
    lab.run()
    assert lab.join(60)
    assert {row["measure"]: row["baseline"] for row in rows_of(lab)} != baseline


def test_controls_are_off_while_it_runs(uneven: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = quick(uneven)
    lab.run()
    assert lab.join(60)
    before, entered, go_on = rows_of(lab), threading.Event(), threading.Event()

    def slow(*_: Any, progress: Any, **__: Any) -> Comparison | None:
        progress(0, 2)
        entered.set()
        assert go_on.wait(30)
        return lab.comparison  # too late

    monkeypatch.setattr("sharelag_widgets.dashboards.trials.compare", slow)
    lab.run()
    assert entered.wait(30)
    assert (lab.state, lab.header.busy, lab.stop.disabled) == ("running", True, False)
    assert all(field.disabled for field in lab._fields)
    trial = lab._trial
    lab.cancel()
    assert (lab.state, lab.header.busy, lab.stop.disabled) == ("cancelled", False, True)
    assert not any(field.disabled for field in lab._fields)
    assert (lab.bar.description, rows_of(lab)) == ("Cancelled; the previous run is shown", before)
    go_on.set()
    assert trial is not None
    assert trial.join(30)
    assert lab.state == "cancelled"
    with pytest.raises(CancelledError):
        watch_comparison({}, (), lambda: True, lambda *_: None)


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("members", "many", "'many' cannot be read as members: type numbers above 0"),
        ("members", "0", "'0' cannot be read as members"),
        ("members", "4, 100000", "100,000 members are too many: give at most 1,000"),
        ("locks", "-1", "'-1' cannot be read as lock durations"),
        ("assignors", ("simple",), "nothing differs from the group as it is"),
    ],
)
def test_what_cannot_be_is_an_error(field: str, value: Any, what: str, uneven: Workbench) -> None:
    lab = quick(uneven)
    control = getattr(lab, field)
    control.value = value
    lab.run()
    assert (lab.state, lab.bar.description) == ("failed", "Not run")
    assert what in control.error
    others = {lab.members, lab.locks, lab.limits, lab.assignors} - {control}
    assert [one.error for one in others] == ["", "", ""]
    assert lab.header.failure == ""  # it stands beside the control that caused it
    assert not lab.start.disabled
    assert lab.body.layout.display is None
    control.value = {"members": "4", "locks": "20", "assignors": ("sticky",)}[field]
    assert control.error == ""


def test_settings_are_tried_by_kafkas_names(uneven: Workbench) -> None:
    scenario = uneven.scenario()
    made = simulate_options(scenario, {"settings": settings_of([15.0], [2, 8])})
    assert list(made) == ["the group as it is", "lock 15 s 2 deliveries", "lock 15 s 8 deliveries"]
    last = made["lock 15 s 8 deliveries"].settings.limits
    assert (last.lock_duration_ms, last.delivery_count_limit) == (15_000, 8)
    assert numbers(" 4, 8;16 ", "members") == [4, 8, 16]
    with pytest.raises(InputError):
        numbers("inf", "lock durations", float)


def test_a_comparison_is_shown_side_by_side() -> None:
    values: dict[str, list[Any]]
    values = {"lag_max": [10, 12, 11], "drain_ms": [1000, 1000, None], "lost": [None, None, None]}
    others: dict[str, list[Any]]
    others = {"lag_max": [2, 3, 1], "drain_ms": [1000, 1000, 1000], "lost": [None, None, None]}
    found = difference_rows(compared(runs(now=values, more=others, same=values)))
    said = [tuple(row.values()) for row in found.to_pylist()]
    # Of the lost nothing is known.
    assert {row[0] for row in said} == {"lag max (offsets)", "drain"}
    by = {(row[0], row[1]): row[2:] for row in said}
    verdict, baseline, tried_, difference, interval = by["lag max (offsets)", "more"]
    assert (verdict, baseline, tried_, difference) == ("better, winner", "11", "2", "-9")
    assert interval.startswith("-")
    assert by["lag max (offsets)", "same"] == ("same", "11", "11", "0", "in every run")
    assert by["drain", "more"] == ("not clear", "unknown in 1 of 3", "1 s", "-", "-")


def test_an_assignment_by_hand_is_tried_out(uneven: Workbench) -> None:
    lab = quick(uneven)
    editor = lab.editor.children[1]
    given = editor.assignment.values()
    assert sum(len(parts) for topics in given for parts in topics.values()) == 6
    everything = {t: list(range(6)) for topics in editor.assignment.values() for t in topics}
    editor.assignment = dict.fromkeys(editor.assignment, everything)
    editor.run()
    assert editor._run.join(60)
    assert editor.state == "done"
    assert editor.difference is not None
    assert editor.difference.seeds == (0, 1)
    found = editor.difference.rows
    rows = {row["measure"]: row for row in found.to_pylist()}
    assert rows["Lag, largest"]["edited"] > 0
    assert rows["Lag, largest"]["verdict"] in ("better", "worse", "same", "unclear")
    assert found.equals(what_if(shorter(lab.scenario, 5), editor.assignment, seeds=(0, 1)))
    assert editor.difference.assumed == lab.scenario.assumed
    assert "known" not in editor.difference.about
    unknown = quick(open_once("not_started")).editor.children[1]
    unknown.run()
    assert unknown._run.join(60)
    assert unknown.difference is not None
    assert ". Not known: no completion rate" in unknown.difference.about
