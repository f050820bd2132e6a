"""What a history costs in each design is what the records of that design are."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag.whatif.designs import CHECKPOINTS_PREFERRED, DESIGNS, SNAPSHOTS_ALONE, design_costs
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support import generators
from tests.support.generations import TODAY, Written, raw_of, records
from tests.support.readings import open_once
from tests.support.walk import WALK

#: Bytes of a topic's id, which a control record's key has here and not in a user's log.
TOPIC_ID = 16


def costs(writes: Sequence[Written], most_updates: int = 500) -> dict[str, dict[str, Any]]:
    rows = design_costs(records(writes, TODAY, most_updates)).to_pylist()
    assert [row["design"] for row in rows] == [design.name for design in DESIGNS]
    return {row["design"]: row for row in rows}


def written(writes: Sequence[Written], generation: int, most_updates: int = 500) -> dict[str, int]:
    """Count what an encoder of a generation writes."""
    raw = raw_of(writes, generation, most_updates)
    at_state = pc.sum(pc.equal(raw.column("topic"), STATE_TOPIC)).as_py()
    at_user = raw.num_rows - at_state
    keys, values = (pc.sum(pc.binary_length(raw.column(name))).as_py() for name in ("key", "value"))
    kinds = decode_arrow(raw).records.column("record_type").to_pylist()
    return {
        "user_topic_records": at_user,
        "state_topic_records": at_state,
        "snapshots": kinds.count(0),
        "key_bytes": keys - TOPIC_ID * at_user,
        "value_bytes": values,
    }


def moving(writes: list[Written]) -> list[Written]:
    """Leave out start offsets that do not move."""
    start, found = -1, []
    for moved, batches in writes:
        found.append((-1 if moved == start else moved, batches))
        start = start if moved == -1 else moved
    return found


@pytest.mark.row("REJ-02")
@pytest.mark.parametrize("generation", range(5))
def test_the_walk_costs_what_its_records_are(generation: int) -> None:
    row = costs(list(WALK.values()))[f"G{generation}"]
    real = written(list(WALK.values()), generation)
    assert {name: row[name] for name in real} == real


@pytest.mark.exhaustive
def test_random_histories_cost_what_their_records_are() -> None:
    random = Random("designs")
    for _ in range(40):
        writes = moving([(0, []), *generators.ordered_sequence(random, updates=40)])
        found = costs(writes)
        real = {f"G{generation}": written(writes, generation) for generation in range(5)}
        real[SNAPSHOTS_ALONE] = written(writes, TODAY, most_updates=0)
        for design, counts in real.items():
            mine = {name: found[design][name] for name in counts}
            if design in ("G2", "G3", "G4"):
                assert mine == counts
                continue
            # Kafka's lists are not always merged as far as the runs that a checkpoint would have.
            assert mine.pop("value_bytes") <= counts.pop("value_bytes")
            assert mine == counts


def test_a_new_leader_replays_from_the_last_whole_window() -> None:
    found = costs(list(WALK.values())[:-1])
    replayed = {name: row["replayed_records"] for name, row in found.items()}
    kept = {SNAPSHOTS_ALONE: 1, CHECKPOINTS_PREFERRED: 6}
    assert replayed == {"G0": 6, "G1": 6, "G2": 7, "G3": 7, "G4": 7} | kept
    assert found["G1"]["scanned_from"] == 110
    assert found["G4"]["scanned_from"] is None


@pytest.mark.row("PSC-11")
def test_where_nothing_is_in_flight_a_checkpoint_is_preferred(tmp_path: Path) -> None:
    """GL-02: the writes after steps 2 and 11 have no batches; a history begins with one, too."""
    pq.write_table(pa.Table.from_batches([raw_of(WALK.values(), TODAY)]), tmp_path / "raw.parquet")
    table = sharelag.open(tmp_path / "raw.parquet", engine="local").designs().table
    found = {row["design"]: row for row in table.to_pylist()}
    counts = ("snapshots", "state_topic_records")
    assert [found[CHECKPOINTS_PREFERRED][name] for name in counts] == [3, 8]
    assert [found["G2"][name] for name in counts] == [1, 8]
    # Each step alone: up to it there is one more than up to the write before.
    steps = list(WALK)
    wholes = [
        costs([WALK[one] for one in steps[:count]])[CHECKPOINTS_PREFERRED]["snapshots"]
        for count in range(1, len(steps) + 1)
    ]
    grown = [step for step, was, now in zip(steps, [0, *wholes], wholes, strict=False) if now > was]
    assert grown == [0, 2, 11]


@pytest.mark.row("PSC-12")
def test_deltas_of_a_busy_window_take_fewer_bytes_than_checkpoints() -> None:
    """GL-02, the steps in which records are finished one after another."""
    busy: list[Written] = [write for step, write in WALK.items() if step <= 10]
    found = costs(busy)
    assert found["G4"]["value_bytes"] < found[SNAPSHOTS_ALONE]["value_bytes"]


def test_the_costs_of_a_group_are_those_of_its_share_partitions() -> None:
    bench = open_once("chapters")
    table = bench.designs("billing").table
    rows = {row["design"]: row for row in table.to_pylist()}
    assert {row["group_id"] for row in table.to_pylist()} == {"billing"}
    history = bench.history("billing").table
    assert rows["G4"]["state_topic_records"] == history.num_rows == rows["G0"]["user_topic_records"]
    snapshots = pc.sum(pc.equal(history.column("record_kind"), "snapshot")).as_py()
    assert rows["G4"]["snapshots"] == snapshots < rows["G1"]["snapshots"]
    ends = pc.sum(bench.lag("billing").table.column("end_offset")).as_py()
    assert 0 < rows["G1"]["scanned_offsets"] <= ends
    assert rows["G4"]["scanned_offsets"] == 0


def test_a_deleted_state_is_not_replayed() -> None:
    rows = records(list(WALK.values()), TODAY).to_pylist()
    gone = rows[-1] | {"offset": rows[-1]["offset"] + 1, "record_type": 0, "tombstone": True}
    gone |= {"start_offset": None, "state_batches": None, "snapshot_epoch": None}
    table = pa.Table.from_pylist([*rows, gone], schema=records([], TODAY).schema)
    found = {row["design"]: row for row in design_costs(table).to_pylist()}
    assert {row["replayed_records"] for row in found.values()} == {0}
    assert found["G4"]["snapshots"] == 1
    assert found["G4"]["value_bytes"] == costs(list(WALK.values()))["G4"]["value_bytes"]
