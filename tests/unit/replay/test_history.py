"""The history has the state after each record; what a sink wrote more than once counts once."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.model import TERMINAL_STATES, StateBatch, Window
from sharelag.replay import combine, replay, replay_arrow
from sharelag.replay.history import history_arrow, next_history
from sharelag.replay.repeats import LogOrder, drop_repeats
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, encode_record
from tests.support import generators
from tests.support.cases import Cases
from tests.support.command import ask
from tests.support.records import (
    KEY,
    assert_fields,
    decode,
    raw,
    raw_file,
    row,
    state_records,
    with_column,
)

#: Columns that a history and windows have in common.
STATE = ["snapshot_epoch", "state_epoch", "leader_epoch", "start_offset"]
STATE += ["effective_start_offset", "window_end_offset", "delivery_complete_count"]


def story(
    *writes: tuple[int, list[tuple[int, int, int, int]]], **changes: Any
) -> list[tuple[bytes, bytes | None]]:
    """A first snapshot, then an update for each further write."""
    kinds = [SHARE_SNAPSHOT] + [SHARE_UPDATE] * (len(writes) - 1)
    both = zip(kinds, writes, strict=True)
    return [encode_record(kind, row(*write, **changes)) for kind, write in both]


def offsets_of(runs: list[dict[str, int]], states: Collection[int]) -> int:
    """How many offsets are in some states."""
    mine = (run for run in runs if run["delivery_state"] in states)
    return sum(run["last_offset"] - run["first_offset"] + 1 for run in mine)


def column(history: pa.RecordBatch, name: str) -> list[Any]:
    values: list[Any] = history.column(name).to_pylist()
    return values


def test_each_row_is_the_state_that_replay_leaves_then(cases: Any) -> None:
    random = Random("history")
    for _ in range(cases(20, 600)):
        records = decode(generators.sequence(random))
        for one in history_arrow(records).to_pylist():
            then = replay_arrow(
                records.filter(pc.less_equal(records.column("offset"), one["record_offset"]))
            )
            window = next((w for w in then.to_pylist() if w["partition"] == one["partition"]), None)
            if window is None:
                assert one["record_kind"] == "tombstone"
                assert one["snapshot_epoch"] is None
                continue
            assert_fields(one, **{name: window[name] for name in STATE})
            runs = window["runs"]
            unfinished = [run for run in runs if run["delivery_state"] not in TERMINAL_STATES]
            if one["start_offset"] is not None:
                assert one["runs"] == len(runs)
                found = one["max_delivery_count"]
                assert found == max((run["delivery_count"] for run in unfinished), default=0)
                assert one["window_available"] == offsets_of(runs, {0})


def per_offset(window: Window) -> dict[int, tuple[int, int]]:
    """State and delivery count of each offset of the window: the highest (count, state) wins."""
    offsets: dict[int, tuple[int, int]] = {}
    for first, last, state, count in window.batches:
        for offset in range(max(first, window.start_offset), last + 1):
            count_state = max((count, state), offsets.get(offset, (0, -1))[::-1])
            offsets[offset] = count_state[::-1]
    return offsets


def test_what_changed_is_what_two_states_differ_in(cases: Any) -> None:
    """The witness compares two replayed states offset by offset."""
    random, seen = Random("changes"), 0
    for _ in range(cases(30, 800)):
        raw_records = generators.sequence(random, keys=1, length=14)
        numbered = [(100 + n, *record) for n, record in enumerate(raw_records)]
        history = {r["record_offset"]: r for r in history_arrow(decode(raw_records)).to_pylist()}
        for n in range(1, len(numbered)):
            before, after = replay(numbered[:n]), replay(numbered[: n + 1])
            line = history[100 + n]
            if line["finished"] is None:
                continue
            seen += 1
            ((_, old),), ((_, new),) = before.items(), after.items()
            was, now = per_offset(old), per_offset(new)
            done = [
                sum(s in TERMINAL_STATES for s, _ in offsets.values()) for offsets in (was, now)
            ]
            begin = new.start_offset if old.start_offset == -1 else old.start_offset
            assert line["finished"] == new.start_offset + done[1] - begin - done[0]
            found = line["archived"]
            assert found == sum(s == 4 and was.get(o, (0, 0))[0] != 4 for o, (s, _) in now.items())
            rises = {
                o: (s, c, was.get(o, (0, 0))[1])
                for o, (s, c) in now.items()
                if c > was.get(o, (0, 0))[1]
            }
            assert line["released"] == sum(s == 0 for s, _, _ in rises.values())
            told = line["redelivered"]
            assert told == sum(c - max(earlier, 1) for _, c, earlier in rises.values())
    assert seen > cases(15, 400)


def test_deliveries_are_distinguished() -> None:
    history = history_arrow(
        decode(
            story(
                (100, []),
                (100, [(100, 109, 2, 1)]),  # ten accepted
                (110, [(110, 112, 0, 1)]),  # three given back
                (-1, [(110, 110, 4, 1), (111, 112, 0, 2)]),  # one archived, two given back again
                (-1, [(111, 112, 2, 3)]),
            )
        )
    )
    assert column(history, "finished") == [None, 10, 0, 1, 2]
    assert column(history, "released") == [None, 0, 3, 2, 0]
    assert column(history, "archived") == [None, 0, 0, 1, 0]
    assert column(history, "redelivered") == [None, 0, 0, 2, 2]
    assert column(history, "head_delivery_count") == [0, 0, 1, 2, 0]
    assert column(history, "effective_start_offset") == [100, 110, 110, 111, 113]


def test_a_reset_is_a_new_state_and_a_later_snapshot_is_not() -> None:
    first = story((100, []), (100, [(100, 109, 2, 1)]))
    later = encode_record(
        SHARE_SNAPSHOT, row(100, [(100, 119, 2, 1)], snapshot_epoch=1, create_timestamp=9)
    )
    reset = encode_record(
        SHARE_SNAPSHOT, row(20, [], snapshot_epoch=2, state_epoch=7, leader_epoch=0)
    )
    state = row(10, [], snapshot_epoch=3, state_epoch=7, leader_epoch=0, create_timestamp=12)
    twice = encode_record(SHARE_SNAPSHOT, state)
    history = history_arrow(decode([*first, later, reset, twice]))
    assert column(history, "replaced") == [True, False, False, True, True]
    assert column(history, "finished") == [None, 10, 10, None, None]
    assert column(history, "follows") == [True] * 5


@pytest.mark.parametrize(("leader_epoch", "is_another"), [(0, True), (1, False), (2, False)])
def test_an_empty_snapshot_of_nobody_is_another_state(leader_epoch: int, is_another: bool) -> None:
    """A leader also writes a snapshot without batches: all that its window had is finished."""
    first = story((100, []), (100, [(100, 109, 2, 1)]))
    empty = row(110, [], snapshot_epoch=1, create_timestamp=9, leader_epoch=leader_epoch)
    history = history_arrow(decode([*first, encode_record(SHARE_SNAPSHOT, empty)]))
    assert column(history, "replaced") == [True, False, is_another]
    assert column(history, "finished") == [None, 10, None if is_another else 0]
    assert column(history, "leader_epoch") == [2, 2, leader_epoch]


def test_a_start_offset_that_falls_without_a_reset_finishes_nothing() -> None:
    history = history_arrow(decode(story((100, [(100, 109, 2, 1)]), (90, []))))
    assert column(history, "start_offset") == [100, 90]
    assert column(history, "finished") == [None, None]


def test_what_is_missing_is_never_bridged() -> None:
    records = decode(
        [
            *story((100, []), (100, [(100, 109, 2, 1)]), (110, [(110, 119, 2, 1)])),
            encode_record(SHARE_SNAPSHOT, row(120, [], snapshot_epoch=1)),
            encode_record(SHARE_UPDATE, row(120, [(120, 121, 2, 1)])),
        ]
    )
    kept = records.filter(pa.array([True, True, False, False, True])).append_column(
        "x", pa.array([0, 0, 0])
    )
    order = LogOrder()
    assert order.continues(kept.rename_columns({"record_partition": "partition", "partition": "_"}))
    gaps = order.gaps
    (gap,) = gaps.to_pylist()
    topic, partition = (kept[name][0].as_py() for name in ("topic", "record_partition"))
    assert_fields(gap, topic=topic, partition=partition, first_offset=102, end_offset=104)
    history = history_arrow(kept, gaps)
    assert column(history, "follows") == [True, True, False]
    assert column(history, "from_snapshot") == [True, True, False]
    assert column(history, "finished") == [None, 10, None]
    # A snapshot makes the state whole again, whatever was lost before it.
    healed = records.filter(pa.array([True, True, False, True, True]))
    lost = gaps.slice(0, 1).set_column(3, "end_offset", pa.array([103], pa.int64()))
    assert column(history_arrow(healed, lost), "from_snapshot") == [True] * 4
    assert column(history_arrow(healed, lost), "finished") == [None, 10, None, 2]


def test_what_a_snapshot_adds_to_a_partial_state_was_not_finished_by_it() -> None:
    partial = encode_record(SHARE_UPDATE, row(-1, [(105, 109, 2, 1)]))
    whole = encode_record(SHARE_SNAPSHOT, row(100, [(100, 119, 2, 1)], snapshot_epoch=1))
    later = encode_record(SHARE_UPDATE, row(100, [(120, 121, 2, 1)]))
    history = history_arrow(decode([partial, whole, later]))
    assert column(history, "from_snapshot") == [False, True, True]
    assert column(history, "finished") == [None, None, 2]


def test_the_first_write_after_an_unknown_start_is_counted() -> None:
    history = history_arrow(decode(story((-1, []), (40, [(40, 44, 2, 1)]), (45, [(45, 46, 4, 1)]))))
    assert column(history, "finished") == [None, 5, 2]
    assert column(history, "archived") == [None, 0, 2]


def test_a_history_that_begins_in_the_middle_says_so() -> None:
    history = history_arrow(decode(story((100, []), (100, [(100, 109, 2, 1)]))[1:]))
    assert (column(history, "follows"), column(history, "from_snapshot")) == ([False], [False])
    assert column(history, "finished") == [None]


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_history_made_piece_by_piece_has_the_same_rows(size: int, cases: Cases) -> None:
    random = Random(f"stream {size}")
    order = [(n, "ascending") for n in ("group_id", "topic_id", "partition", "record_offset")]
    for _ in range(cases(8, 100)):
        records = decode(generators.sequence(random, length=30))
        pieces = [records.slice(at, size) for at in range(0, records.num_rows, size)]
        made = _in_log_order(pieces)
        whole = pa.Table.from_batches([history_arrow(records)])
        assert pa.Table.from_batches(made).sort_by(order).equals(whole.sort_by(order))


def _in_log_order(pieces: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    known, made = None, []
    for piece in pieces:
        history, known = next_history(known, piece)
        made.append(history)
    return made


def test_nothing_gives_an_empty_history() -> None:
    assert history_arrow(schemas.RECORDS.empty_table()).schema == schemas.HISTORY


def test_another_leader_is_an_event() -> None:
    """Records of the group coordinator have leader epoch 0, as those of a topic's first leader."""

    def write(kind: Any, epoch: int, number: int, **changes: Any) -> tuple[bytes, bytes | None]:
        fields = {"leader_epoch": epoch, "snapshot_epoch": number} | changes
        return encode_record(kind, row(10 + number, [(12, 13, 2, 1)], **fields))

    records = decode(
        [
            write(SHARE_SNAPSHOT, 0, 0, start_offset=-1, state_batches=[]),  # initialised
            write(SHARE_UPDATE, 4, 0),  # who led before is not known
            write(SHARE_UPDATE, 4, 0),
            write(SHARE_SNAPSHOT, 5, 1, write_timestamp=9),
            write(SHARE_UPDATE, 5, 1),
            # a reset, which no leader wrote, and its first write
            write(SHARE_SNAPSHOT, 0, 2, create_timestamp=20, write_timestamp=20, state_epoch=2),
            write(SHARE_UPDATE, 5, 2),
            write(SHARE_UPDATE, 6, 2),
        ]
    )
    expected = [None, None, False, True, False, None, None, True]
    assert column(history_arrow(records), "leader_changed") == expected
    known, pieces = None, []
    for n in range(records.num_rows):  # the same, a record at a time
        history, known = next_history(known, records.slice(n, 1))
        pieces += column(history, "leader_changed")
    assert pieces == expected
    # A topic's first leader has epoch 0, too: it renews a snapshot later than it was created.
    first = decode([write(SHARE_UPDATE, 0, 1), write(SHARE_SNAPSHOT, 0, 2, write_timestamp=9)])
    assert column(history_arrow(first), "leader_changed") == [None, False]


# ---- a snapshot that says again what was known is told from one that changes something -----------
BATCHES = [(110, 110, 0, 1), (119, 119, 2, 1)]
CREATED, LATER = 1_000, 301_000


def snapshot(written: int, epoch: int, start: int = 110, batches: Any = BATCHES, **own: Any) -> Any:
    times = {"create_timestamp": CREATED, "write_timestamp": written, "snapshot_epoch": epoch}
    return encode_record(SHARE_SNAPSHOT, row(start, batches, **(times | own)))


def rewritten(*records: Any) -> list[bool | None]:
    found: list[bool | None] = history_arrow(decode(list(records))).column("rewritten").to_pylist()
    return found


@pytest.mark.row("PSS-06")
def test_two_snapshots_with_the_same_batches_are_a_rewrite(tmp_path: Path) -> None:
    records = [snapshot(CREATED, 0), snapshot(LATER, 1)]
    file = raw_file(tmp_path, raw(records))
    said = ask("history", "--raw", file)
    assert [one["rewritten"] for one in said] == [None, True]
    assert [one["record_kind"] for one in said] == ["snapshot", "snapshot"]
    # Both times are timestamps in UTC; a state that was rewritten is as fresh as its last write.
    (window,) = open_workbench(file, engine="local").windows().table.to_pylist()
    assert window["write_timestamp"] - window["create_timestamp"] == timedelta(minutes=5)
    assert str(window["write_timestamp"].tzinfo) == "UTC"


@pytest.mark.parametrize(
    "second",
    [
        snapshot(LATER, 1, 111, [(119, 119, 2, 1)]),
        snapshot(LATER, 1, batches=[(110, 110, 0, 2), (119, 119, 2, 1)]),
        snapshot(LATER, 1, batches=[*BATCHES, (120, 120, 0, 1)]),
        snapshot(LATER, 1, leader_epoch=7),
        snapshot(CREATED, 1),  # not written later
        snapshot(LATER, 1, create_timestamp=LATER),  # another state
    ],
)
def test_a_snapshot_that_changes_something_is_none(second: Any) -> None:
    assert rewritten(snapshot(CREATED, 0), second)[-1] in (False, None)


def test_an_update_between_counts_for_the_snapshot_after_it() -> None:
    update = encode_record(SHARE_UPDATE, row(-1, [(110, 110, 2, 1)], leader_epoch=2))
    after = snapshot(LATER, 1, 111, [(119, 119, 2, 1)], delivery_complete_count=0)
    found = rewritten(snapshot(CREATED, 0), update, after, snapshot(LATER + 1, 2, 111, BATCHES[1:]))
    assert found == [None, False, False, True]


def _raw(places: Sequence[tuple[str | None, int | None, int | None]]) -> pa.Table:
    """Records whose bytes follow from their places."""
    rows = [
        {
            "key": f"{topic}-{partition}".encode(),
            "value": f"{offset}".encode() if offset is None or offset % 7 else None,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": 1_700_000_000_000 + (offset or 0),
            "timestampType": 0,
        }
        for topic, partition, offset in places
    ]
    return pa.Table.from_pylist(rows, schema=schemas.RAW)


_PLACES = [
    (t, p, o) for t in (GROUP_TOPIC, STATE_TOPIC) for p in (0, 3, 49) for o in range(3, 40, 2)
]


def test_records_in_order_are_given_back_as_they_are() -> None:
    # partitions may alternate; only the offsets of each have to ascend
    raw = _raw(sorted(_PLACES, key=lambda place: place[2] or 0))
    kept, repeats = drop_repeats(raw)
    assert kept is raw
    assert (repeats, drop_repeats(raw.slice(0, 0))[1]) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_repeats_are_dropped_in_any_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(_PLACES), 200)
    rows = random.permutation(np.append(np.arange(len(_PLACES)), drawn))
    raw = _raw(_PLACES).take(pa.array(rows))
    kept, repeats = drop_repeats(raw)
    assert repeats == 200
    assert kept.equals(_raw(_PLACES))
    batch, repeats = drop_repeats(raw.combine_chunks().to_batches()[0])
    assert repeats == 200
    assert batch.equals(_raw(_PLACES).combine_chunks().to_batches()[0])


@pytest.mark.parametrize("name", ["key", "value", "timestamp"])
def test_different_records_at_one_place_are_an_error_that_names_it(name: str) -> None:
    raw = _raw(_PLACES)
    other = with_column(raw.slice(30, 1), name, [None])
    offset = raw.column("offset")[30].as_py()
    with pytest.raises(InputError) as caught:
        drop_repeats(pa.concat_tables([raw, other]))
    assert f"offset {offset} of partition 3 of {GROUP_TOPIC}" in str(caught.value)
    assert "Give the records of one cluster" in str(caught.value)


def test_records_without_a_place_repeat_none() -> None:
    raw = _raw([(STATE_TOPIC, 1, None), (STATE_TOPIC, 1, None), (None, 1, 4), (None, 1, 4)])
    kept, repeats = drop_repeats(raw)
    assert (kept.num_rows, repeats) == (4, 0)


def test_names_of_topics_as_a_dictionary() -> None:
    raw = _raw(_PLACES[::-1] + _PLACES[:2])
    encoded = with_column(raw, "topic", raw.column("topic").dictionary_encode())
    kept, repeats = drop_repeats(encoded)
    assert repeats == 2
    assert kept.cast(schemas.RAW).equals(_raw(_PLACES))


def test_order_is_told_across_batches() -> None:
    def goes_on(*batches: list[tuple[str, int, int]]) -> bool:
        order = LogOrder()
        return all(order.continues(_raw(batch)) for batch in batches)

    assert goes_on([(STATE_TOPIC, 0, 1), (STATE_TOPIC, 1, 0)], [(STATE_TOPIC, 1, 1)])
    assert not goes_on([(STATE_TOPIC, 0, 1)], [(STATE_TOPIC, 0, 1)])
    assert not goes_on([(STATE_TOPIC, 0, 5), (STATE_TOPIC, 1, 9)], [(STATE_TOPIC, 0, 4)])
    assert goes_on([(STATE_TOPIC, 0, 5)], [(GROUP_TOPIC, 0, 4)])


# ---- merging around the new batches alone gives what merging whole lists gives -------------------
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0", None])
def test_long_sequences_merge_as_whole_lists_do(version: str | None, cases: Cases) -> None:
    """In every third of them some writes have batches out of order."""
    random, count = Random("merge"), cases(150, 400)
    unmerged = 0
    for number in range(count):
        disorder = 0.2 if number % 3 == 0 else 0
        writes = [
            (start, generators.state_batches(random) if random.random() < disorder else batches)
            for start, batches in generators.ordered_sequence(random)
        ]
        expected: list[StateBatch] = []
        start = 0
        for moved, batches in writes:
            start = start if moved == -1 else moved
            expected = combine(expected, batches, start, version)
        records = [(at, key, value) for at, (key, value) in enumerate(state_records(writes))]
        assert list(replay(records, kafka_version=version)[KEY].batches) == expected
        unmerged += _has_a_seam(expected)
    # Equal neighbours that Kafka 4.3 leaves apart were among them, and Kafka 4.4 leaves none.
    assert unmerged > count // 40 if version == "4.3.1" else unmerged == 0


def test_a_record_that_replay_refuses_changes_nothing() -> None:
    out_of_order = [(20, 29, 4, 1), (0, 9, 4, 2)]
    key, value = encode_record(SHARE_SNAPSHOT, row(0, out_of_order))
    update_tombstone = (b"\0\1" + key[2:], None)
    kept, refused = history_arrow(decode([(key, value), update_tombstone])).to_pylist()
    assert (kept["window_complete"], refused["window_complete"]) == (20, 20)
    assert refused["record_kind"] == "rejected"
    assert [refused[name] for name in ("finished", "archived", "redelivered")] == [0, 0, 0]


def _has_a_seam(batches: list[StateBatch]) -> bool:
    return any(a.last_offset + 1 == b.first_offset and a[2:] == b[2:] for a, b in pairwise(batches))
