"""Do older generations of the format replay to the same windows, each by its own rule?"""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.metrics.health import gather, health_arrow
from sharelag.metrics.lag import lag_arrow
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.wire import STATE_TOPIC, decode_arrow, encode
from tests.support import generators
from tests.support.generations import (
    FIRST_OFFSET,
    TODAY,
    raw_of,
    records,
    records_of_many,
    state,
    window,
)
from tests.support.older_records import DURABLE, control, keyed, raw, row
from tests.support.records import offsets, with_column
from tests.support.walk import WALK

ALL = [0, 1, 2, 3, TODAY]

#: Columns of a window that every generation holds.
SAME = ("start_offset", "effective_start_offset", "window_end_offset", "batches", "runs")
#: Terms of lag that do not need the delivery complete count, which only today's format holds.
SAME_OF_LAG = ("effective_lag", "unread", "window_available", "window_unknown", "window_complete")


def comparable(raw_records: pa.RecordBatch, asked: int | None = None) -> Any:
    found = window(raw_records, asked)
    assert found is not None
    return [found[name] for name in SAME]


def test_random_histories_have_the_same_windows_and_lag_in_every_generation(cases: Any) -> None:
    random = Random("generations")
    left = cases(50, 10_000)
    while left:
        some = [
            (
                [(0, []), *generators.ordered_sequence(random, updates=20)],
                random.choice([1, 5, 500]),
            )
            for _ in range(min(left, 500))
        ]
        left -= len(some)
        found = {generation: windows_and_lag(some, generation) for generation in ALL}
        assert [table.num_rows for table in found[TODAY]] == [len(some)] * 2
        for windows, lag in found.values():
            assert windows.equals(found[TODAY][0])
            assert lag.equals(found[TODAY][1])


def windows_and_lag(histories: Any, generation: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return what every generation holds of windows, and effective lag up to one log end offset."""
    decoded = decode_arrow(encode(records_of_many(histories, generation)))
    assert decoded.rejects.num_rows == 0
    windows = replay_arrow(decoded.records)
    lag = lag_arrow(windows, offsets(1_000))
    assert lag.column("effective_lag").null_count == 0
    return windows.select(["group_id", *SAME]), lag.select(["group_id", *SAME_OF_LAG])


def test_what_a_format_does_not_hold_is_unknown() -> None:
    writes = list(WALK.values())
    for generation in ALL[:-1]:
        found = window(raw_of(writes, generation))
        assert found is not None
        unknown = {name for name, value in found.items() if value is None}
        times = {"create_timestamp", "write_timestamp", "delivery_complete_count"}
        epochs = {"state_epoch", "leader_epoch"} if generation < 3 else set()
        assert unknown == times | epochs | {"record_timestamp"}


@pytest.mark.parametrize("generation", ALL)
def test_a_history_of_any_generation_has_its_states(generation: int) -> None:
    history = history_arrow(decode_arrow(raw_of(WALK.values(), generation)).records)
    assert history.column("window_end_offset").to_pylist() == [
        100, 110, 111, 120, 120, 120, 120, 120,
    ]  # fmt: skip
    assert history.column("effective_start_offset").to_pylist() == [
        100, 110, 110, 110, 110, 110, 111, 120,
    ]  # fmt: skip
    if generation < 3:
        assert history.column("leader_epoch").null_count == history.num_rows


# ---- control records -----------------------------------------------------------------------------
@pytest.mark.row("PCR-09")
@pytest.mark.parametrize("start", [100, 110])
@pytest.mark.parametrize("generation", [0, 1])
def test_the_printed_run_of_control_records(generation: int, start: int) -> None:
    """The drafts print 110 for the checkpoint where the state is at 100: both end the same."""
    rows = control(generation, start)
    for count, durable in enumerate(DURABLE, 1):
        if start == 100 or count > 1:
            assert state(raw(rows[:count])) == durable


@pytest.mark.row("PCR-11")
@pytest.mark.parametrize("generation", [0, 1, 2])
def test_deltas_of_another_epoch_do_not_count(generation: int) -> None:
    rows = control(generation)[:6]
    stale = row(generation, 136, 1, None, [(110, 112, 2, 5)], epoch=0)
    found = window(raw([*rows, stale]))
    assert found is not None
    assert (state(raw([*rows, stale])), found["rejected_records"]) == (DURABLE[5], 1)


def test_a_missing_link_ends_a_chain() -> None:
    rows = control(0)
    del rows[4]  # 134, which 135 goes back to
    found = window(raw(rows))
    assert found is not None
    assert (state(raw(rows)), found["rejected_records"]) == (DURABLE[3], 3)


def test_of_two_chains_the_last_counts() -> None:
    rows = control(0)[:3]
    aside = row(0, 133, 1, None, [(110, 110, 2, 1)])
    last = row(0, 134, 1, None, [(111, 118, 0, 0)]) | {"older_fields": [("back_offset", 132)]}
    assert state(raw([*rows, aside, last])) == (110, 119, [(110, 110, 0, 1), (111, 118, 0, 0)])


@pytest.mark.row("PCR-10", "PCR-13", "PCR-14")
@pytest.mark.parametrize("generation", [0, 1])
def test_cleaning_below_the_last_checkpoint_leaves_the_state(generation: int) -> None:
    """The checkpoint at 137 stands for the last delta."""
    rows = [*control(generation)[:-1], row(generation, 137, 0, 120, [], epoch=2)]
    health = health_arrow(gather([raw(rows)])).to_pylist()[0]
    assert health["needed_from"] == 137
    cleaned = [each for each in rows if each["offset"] >= health["needed_from"]]
    assert state(raw(cleaned)) == state(raw(rows)) == DURABLE[7]


@pytest.mark.row("PCR-13")
def test_a_group_that_is_behind_keeps_the_control_records_of_all() -> None:
    rows = [*control(1)[:-1], row(1, 137, 0, 120, [], epoch=2)]
    behind = row(1, 90, 0, 80, []) | {"group_id": "G2"}
    health = health_arrow(gather([raw([behind, *rows])])).to_pylist()[0]
    assert health["needed_from"] == 90
    assert health["pinned_by"].startswith("G2:")
    assert health["prunable"] is None or health["prunable"] == 0


# ---- checkpoints and deltas ----------------------------------------------------------------------
@pytest.mark.row("PSC-10")
def test_compaction_leaves_the_state() -> None:
    rows = keyed()
    compacted = [rows[2], *rows[3:]]
    expected = (7, 10, [(7, 7, 0, 1), (8, 9, 0, 2)])
    assert state(raw(rows)) == state(raw(compacted)) == expected
    # Alone, the delta of a checkpoint that compaction removed makes no state.
    assert window(raw(compacted[:1])) is None


def test_delta_indices_do_not_matter_to_replay() -> None:
    rows = keyed()
    for index in (5, 4):
        rows[index]["older_fields"] = [("delta_index", 0)]
    assert state(raw(rows)) == state(raw(keyed()))


def test_records_of_several_generations_follow_each_other() -> None:
    old = records([(0, []), (-1, [(0, 4, 0, 1)])], 2)
    new = records([(5, []), (-1, [(5, 9, 2, 1)])], TODAY)
    new = with_column(new, "offset", pc.add(new.column("offset"), 10))
    both = encode(pa.Table.from_batches([old, new]))
    assert state(both) == (10, 10, [])
    health = health_arrow(gather([both])).to_pylist()[0]
    assert "G2" in health["generations"]
    assert len(health["generations"]) > 1
    found = decode_arrow(both).records.column("offset").to_pylist()
    assert found == [FIRST_OFFSET, FIRST_OFFSET + 1, FIRST_OFFSET + 10, FIRST_OFFSET + 11]


# ---- what the documentation says that each generation costs is what its records are --------------
PAGE = Path(__file__).parents[3] / "docs" / "generations.md"
#: Bytes of a topic's id, which a control record's key has here and not in a user's log.
TOPIC_ID = 16


def test_control_records_are_written_into_the_users_topic_and_states_are_not() -> None:
    """GL-03 against GL-02: eight records in the user's log, or none."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| G")]
    for generation in range(5):
        records = raw_of(WALK.values(), generation)
        at_state = pc.sum(pc.equal(records.column("topic"), STATE_TOPIC)).as_py()
        at_user = records.num_rows - at_state
        values, keys = (
            pc.sum(pc.binary_length(records.column(name))).as_py() for name in ("value", "key")
        )
        counts = (at_user, at_state, values, keys - TOPIC_ID * at_user)
        assert counts[:2] == ((8, 0) if generation < 2 else (0, 8))
        assert f"| G{generation} | {' | '.join(map(str, counts))} |" in lines
