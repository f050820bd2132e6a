"""Windows of thousands of runs, and groups of as many members as Kafka allows."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag.model import StateBatch
from sharelag.replay import replay
from sharelag.replay.members import members_arrow
from tests.support.command import sharelag
from tests.support.group_records import join, log
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.states import as_kafka
from tests.support.records import KEY, raw, state_records
from tests.support.reliability import Inject

#: The most offsets that a window may hold: each is a run where no neighbours fare the same.
RUNS = 4_000
#: The most members of a share group, by default.
MEMBERS = 200
_AVAILABLE, _ACKNOWLEDGED = 0, 2


def _written(random: Random) -> list[tuple[int, list[StateBatch]]]:
    """Return what is written of a window of single offsets: every second one is finished."""
    first = [
        StateBatch(n, n, _ACKNOWLEDGED if n % 2 else _AVAILABLE, 1 + n % 5) for n in range(RUNS)
    ]
    later = [[StateBatch(n, n, _AVAILABLE, 6)] for n in random.sample(range(0, RUNS, 2), 40)]
    return [(0, first), *((-1, batches) for batches in later)]


def test_a_window_of_4000_runs_is_the_coordinators(
    oracle_replayer: Oracle, tmp_path: Path, injected: Inject
) -> None:
    records = state_records(_written(Random("runs")))
    question = [
        {"o": offset, "k": key.hex(), "v": value.hex() if value else None}
        for offset, (key, value) in enumerate(records)
    ]
    theirs = oracle_replayer.ask({"records": question})
    assert theirs["loadFailedAt"] is None
    ours = replay([(offset, key, value) for offset, (key, value) in enumerate(records)])
    assert as_kafka(ours) == theirs["states"]
    (state,) = theirs["states"].values()
    assert len(state["batches"]) == RUNS
    file = tmp_path / "state.parquet"
    pq.write_table(pa.Table.from_batches([raw(records)]), file)
    answer = sharelag("windows", "--raw", str(file), "-o", "json")
    assert answer.returncode == 0, answer.stderr
    (row,) = [json.loads(line) for line in answer.stdout.splitlines()]
    assert (row["group_id"], len(row["batches"]), len(row["runs"])) == (KEY.group_id, RUNS, RUNS)
    drawn = sharelag("windows", "--raw", str(file), "--picture")
    assert drawn.returncode == 0, drawn.stderr
    assert len(drawn.stdout) < 20_000  # for people, whatever the window
    injected("load", f"a window of {RUNS:,} runs of one offset", 1, {"states like Kafka's": 1})


def test_a_group_of_200_members_is_read_whole(injected: Inject) -> None:
    rows = [
        record for n in range(MEMBERS) for record in join("large", f"member-{n:03d}", n + 1, n % 50)
    ]
    found = members_arrow(log(rows).combine_chunks().to_batches()[0])
    assert found.num_rows == MEMBERS
    assert len(set(found.column("member_id").to_pylist())) == MEMBERS
    injected("load", f"a group of {MEMBERS} members", 1, {"members": MEMBERS})
