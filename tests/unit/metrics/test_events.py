"""Histories: what happened to a group, and the last snapshot of each share partition."""

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sharelag
from sharelag import schemas
from sharelag.metrics import events
from sharelag.metrics.health import snapshots_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.repeats import LogOrder
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, encode_record
from sharelag.workbench import Workbench
from tests.support import older_records
from tests.support.captures import with_mirror
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused
from tests.support.readings import open_once
from tests.support.records import assert_fields, decode, raw, raw_file, row

MINUTE = timedelta(minutes=1)
SCENARIOS = CAPTURE.parent / "scenarios"
_COUNTS = ("snapshot_offset", "updates_since", "rejected_since", "from_snapshot", "record_offset")


def test_every_archived_offset_and_new_leader_of_the_history_is_an_event(demo: Workbench) -> None:
    for group in demo.groups:
        table, history = demo.events(group).table, demo.history(group).table
        assert table.schema.equals(schemas.EVENTS)
        later = history.filter(history.column("follows"))
        times = {
            events.ARCHIVED: pc.sum(later.column("archived")).as_py() or 0,
            events.NEW_LEADER: pc.sum(later.column("leader_changed")).as_py() or 0,
        }
        for event, count in times.items():
            mine = table.filter(pc.equal(table.column("event"), event))
            assert (pc.sum(mine.column("occurrences")).as_py() or 0) == count, (group, event)
            written = set(later.column("record_timestamp").to_pylist())
            assert set(mine.column("happened_at").to_pylist()) <= written


def test_members_join_when_the_group_says_so(demo: Workbench) -> None:
    table = demo.events().table
    joined = table.filter(pc.equal(table.column("event"), events.JOINED))
    members = demo.members().table
    known = {(row["member_id"], row["joined"]) for row in members.to_pylist()}
    assert {(row["member_id"], row["happened_at"]) for row in joined.to_pylist()} == known
    gone = table.filter(pc.equal(table.column("event"), events.EMPTIED))
    assert gone.column("group_id").to_pylist() == ["returns-desk"]


def test_members_leave_when_the_group_says_so(demo: Workbench) -> None:
    """In the shop two of four analysts leave at minute 18, both of returns-desk at minute 25."""
    table = demo.events().table
    left = table.filter(pc.equal(table.column("event"), events.DEPARTED)).to_pylist()
    begin = min(row["joined"] for row in demo.members().table.to_pylist())
    minutes = [(row["group_id"], round((row["happened_at"] - begin) / MINUTE)) for row in left]
    assert minutes == [("analytics", 18)] * 2 + [("returns-desk", 25)] * 2
    gone = {row["member_id"] for row in left}
    assert len(gone) == 4
    assert gone.isdisjoint(demo.members().table.column("member_id").to_pylist())
    assert demo.events("analytics").table.column("event").to_pylist().count(events.DEPARTED) == 2


def test_resets_and_deletions_are_events_and_the_first_state_is_none() -> None:
    shop = open_once("chapters")
    table = shop.events().table
    resets = table.filter(pc.equal(table.column("event"), events.RESET))
    history = shop.history().table
    again = history.filter(pc.and_(history.column("replaced"), history.column("follows")))
    again = again.filter(pc.greater(again.column("snapshot_epoch"), 0))
    assert pc.sum(resets.column("occurrences")).as_py() == len(again) > 0
    deleted = table.filter(pc.equal(table.column("event"), events.DELETED))
    gone = history.filter(pc.equal(history.column("record_kind"), "tombstone"))
    assert set(deleted.column("group_id").to_pylist()) == {"trial"}  # deleted in its last chapter
    assert deleted.column("happened_at").to_pylist() == gone.column("record_timestamp").to_pylist()


def test_a_mirrored_state_topic_makes_nothing_happen_twice(tmp_path: Path) -> None:
    story = SCENARIOS / "poison"
    alone, beside = (
        sharelag.open(folder, engine="local").ask("events", since="1h", every=MINUTE).table
        for folder in (story, with_mirror(story, tmp_path / "mirrored"))
    )
    assert beside.equals(alone)
    assert events.ARCHIVED in alone.column("event").to_pylist()


def test_many_within_a_step_are_one_row_at_the_time_of_the_first() -> None:
    history = open_once("poison").history().table
    history = history.select(schemas.HISTORY.names)
    begin = pc.min(history.column("record_timestamp")).as_py()
    fine = events.events_arrow(history, begin, timedelta(milliseconds=1))
    coarse = events.events_arrow(history, begin, timedelta(days=1))
    assert len(coarse) < len(fine)
    for table in (fine, coarse):
        archived = table.filter(pc.equal(table.column("event"), events.ARCHIVED))
        total = pc.sum(history.column("archived")).as_py()
        assert pc.sum(archived.column("occurrences")).as_py() == total > 0
    assert pc.min(fine.column("happened_at")) == pc.min(coarse.column("happened_at"))


def test_a_new_leader_has_its_epochs_and_the_broker_where_it_leads_still() -> None:
    states = [
        row(10 + n, [(12 + n, 13 + n, 2, 1)], leader_epoch=epoch, write_timestamp=9)
        for n, epoch in enumerate((4, 4, 5, 5, 7))
    ]
    written = [encode_record(SHARE_UPDATE, state) for state in states[1:]]
    history = history_arrow(decode([encode_record(SHARE_SNAPSHOT, states[0]), *written]))
    begin = pc.min(history.column("record_timestamp")).as_py()
    steps = (timedelta(milliseconds=1), timedelta(days=1))
    fine, coarse = (events.events_arrow(history, begin, every) for every in steps)
    names = ("leader_epoch_before", "leader_epoch", "occurrences")

    def told(table: pa.Table) -> list[tuple[int, ...]]:
        mine = table.filter(pc.equal(table.column("event"), events.NEW_LEADER))
        return [tuple(one[name] for name in names) for one in mine.to_pylist()]

    assert (told(fine), told(coarse)) == ([(4, 5, 1), (5, 7, 1)], [(4, 7, 2)])
    key = {name: fine.column(name)[0].as_py() for name in schemas.SHARE_PARTITION}
    around = {"current_leader_epoch": 7, "leader_id": 3}
    brokers = pa.Table.from_pylist([key | around], schema=schemas.BROKERS)
    known = events.add_leaders(fine, brokers)
    assert known.schema.equals(schemas.EVENTS)
    assert known.column("leader_id").to_pylist() == [None, 3]


@pytest.mark.row("PSS-04")
def test_a_state_epoch_that_rises_with_no_batches_is_a_reset(tmp_path: Path) -> None:
    written = [
        encode_record(SHARE_SNAPSHOT, row(0, [], snapshot_epoch=0, state_epoch=3)),
        encode_record(SHARE_UPDATE, row(-1, [(0, 4, 0, 1)], snapshot_epoch=0)),
        encode_record(SHARE_SNAPSHOT, row(5, [], snapshot_epoch=1, state_epoch=3)),
        encode_record(SHARE_SNAPSHOT, row(7, [], snapshot_epoch=2, state_epoch=4)),
    ]
    asked = ("--raw", raw_file(tmp_path, raw(written)), "--engine", "local")
    (event,) = ask("history --events", *asked)
    assert_fields(event, event="reset", happened_at="1970-01-01T00:00:00.003Z")
    (now,) = ask("windows", *asked)
    assert_fields(now, state_epoch=4, start_offset=7, batches=[])


def _snapshot(partition: int, **changes: Any) -> tuple[bytes, bytes | None]:
    return encode_record(SHARE_SNAPSHOT, row(0, [], partition=partition) | changes)


def _update(partition: int, **changes: Any) -> tuple[bytes, bytes | None]:
    return encode_record(SHARE_UPDATE, row(-1, [], partition=partition) | changes)


def _found(*written: tuple[bytes, bytes | None], gaps: pa.Table | None = None) -> dict[int, Any]:
    rows = snapshots_arrow(history_arrow(decode(list(written)), gaps)).to_pylist()
    return {one["partition"]: [one[name] for name in _COUNTS] for one in rows}


def test_a_worked_example() -> None:
    gone = (_snapshot(3)[0], None)
    delta_gone = (_update(0)[0], None)
    found = _found(
        *(_snapshot(0), _update(0), _snapshot(0), _update(0), _update(0), delta_gone),
        *(_update(1), _update(1)),  # its snapshot was pruned
        *(_snapshot(2), _snapshot(2)),
        *(_snapshot(3), _update(3), gone),
        *(_snapshot(4), _update(4), (_snapshot(4)[0], None), _update(4)),
    )
    assert found == {
        0: [102, 2, 1, True, 105],
        1: [None, 2, 0, False, 107],
        2: [109, 0, 0, True, 109],
        4: [None, 1, 0, False, 116],  # what was before the tombstone is gone
    }


def test_a_gap_since_the_snapshot_is_told() -> None:
    written = [_snapshot(0), _update(0)]
    records = decode(written).set_column(2, "offset", pa.array([0, 5]))
    assert records.schema.names[2] == "offset"
    places = records.select(["topic", "offset"]).append_column(
        "partition", records.column("record_partition")
    )
    order = LogOrder()
    assert order.continues(places)
    history = history_arrow(records, order.gaps)
    (line,) = snapshots_arrow(history).to_pylist()
    assert [line[name] for name in _COUNTS] == [0, 1, 0, False, 5]


def test_no_records_have_no_snapshots() -> None:
    assert snapshots_arrow(schemas.HISTORY.empty_table()).schema == schemas.SNAPSHOTS


def test_random_histories_give_what_a_walk_through_their_rows_does() -> None:
    random = Random("snapshots")
    with_rejected = 0
    for _ in range(40):
        written = []
        for _ in range(random.randrange(1, 120)):
            partition, leader = random.randrange(6), random.randrange(3)
            made = random.choice([_snapshot, _update, _update])(partition, leader_epoch=leader)
            written.append((made[0], None if random.random() < 0.1 else made[1]))
        history = history_arrow(decode(written))
        expected: dict[int, Any] = {}
        for one in history.to_pylist():
            place = one["partition"]
            offset, updates, rejected = expected.get(place, (None, 0, 0))[:3]
            if one["snapshot_epoch"] is None:
                expected.pop(place, None)
                continue
            if one["record_kind"] == "snapshot":
                offset, updates, rejected = one["record_offset"], 0, 0
            updates += one["record_kind"] == "update"
            rejected += one["record_kind"] == "rejected"
            whole, last = one["from_snapshot"], one["record_offset"]
            expected[place] = [offset, updates, rejected, whole, last]
        assert _found(*written) == expected
        with_rejected += any(one[2] for one in expected.values())
    assert with_rejected > 0


# ---- what people see -----------------------------------------------------------------------------
def _seen(path: str, *more: str) -> list[Any]:
    lines = ask("health", "--snapshots", "--raw", path, *more)
    return [(one["group_id"], one["snapshot_offset"], one["updates_since"]) for one in lines]


@pytest.mark.row("PCR-12", "PCR-15")
@pytest.mark.parametrize("generation", [0, 1])
def test_the_share_checkpoint_offset_and_the_deltas_since(tmp_path: Path, generation: int) -> None:
    """GL-03, GL-05 and GL-23: 130 with seven deltas, then 137 with none."""
    by_deltas = older_records.control(generation)
    by_checkpoint = [*by_deltas[:-1], older_records.row(generation, 137, 0, 120, [], epoch=2)]
    other = older_records.row(generation, 90, 0, 80, []) | {"group_id": "G2"}
    assert _seen(raw_file(tmp_path, older_records.raw(by_deltas))) == [("G1", 130, 7)]
    bench = sharelag.open(tmp_path / "raw.parquet", engine="local")
    (line,) = bench.snapshots().table.to_pylist()
    assert_fields(line, snapshot_offset=130, updates_since=7, snapshot_epoch=1)
    assert "130" in bench.snapshots()._repr_html_()
    whole = raw_file(tmp_path, older_records.raw([other, *by_checkpoint]))
    assert _seen(whole) == [("G1", 137, 0), ("G2", 90, 0)]
    stale = older_records.row(generation, 138, 1, None, [(120, 121, 2, 1)], epoch=1)
    late = older_records.raw([*by_checkpoint, stale])  # of epoch 1
    assert _seen(raw_file(tmp_path, late)) == [("G1", 137, 0)]


def test_findings_and_snapshots_are_not_asked_for_together(tmp_path: Path) -> None:
    path = raw_file(tmp_path, older_records.raw(older_records.control(1)))
    said = refused("health", "--raw", path, "--findings", "--snapshots", code=2)
    assert "--findings and --snapshots are two tables: choose one" in said
