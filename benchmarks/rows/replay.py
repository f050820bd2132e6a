"""Replay, from bytes to states, compared with the classes of Kafka's own coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import sharelag
from benchmarks.harness import Bench, Contest, Measured, Row, Side
from benchmarks.kafka_replay import KafkaReplay, kafka_replay
from sharelag.replay import replay_arrow
from sharelag.wire import decode_arrow
from tests.support.kafka.jars import PREVIOUS_VERSION

#: Number of records whose states are compared with Kafka's.
_SAMPLE = 200
_KEY = ("group_id", "topic_id", "partition")
_NUMBERS: tuple[str, ...] = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset")
_NUMBERS += ("delivery_complete_count", "create_timestamp", "write_timestamp")


def decoded(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return the decoded records of raw ones."""
    return pa.Table.from_batches([decode_arrow(batch).records for batch in batches])


def final_windows(batches: list[pa.RecordBatch]) -> int:
    """Decode and replay; return the number of share partitions with a final state."""
    return int(replay_arrow(decoded(batches)).num_rows)


def every_state(batches: list[pa.RecordBatch]) -> int:
    """Open the records and iterate over the state after each; return their number."""
    with sharelag.open(raw=pa.Table.from_batches(batches), engine="local") as opened:
        found = opened.over_history("rows", _rows, _ROWS)
    return sum(found.column("rows").to_pylist())


_ROWS = pa.schema([("rows", pa.int64())])


def _rows(history: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"rows": [history.num_rows]}, _ROWS)


@contextmanager
def against_kafka(
    bench: Bench,
    shape: str,
    full: int,
    ours: Callable[[list[pa.RecordBatch]], int],
    keys: int = 10_000,
) -> Iterator[Contest]:
    batches = bench.inputs.batches(shape, bench.size(full, full // 10), keys)
    count = sum(batch.num_rows for batch in batches)
    with kafka_replay(batches) as kafka:
        expected = {count, check_states(batches, kafka)}
        yield Contest(
            Side(ours.__name__, lambda: ours(batches), units=count),
            Side("ShareCoordinatorShard.replay, warm", lambda: timed(kafka), units=count),
            lambda mine, _: check_rows(mine, expected),
        )


def timed(kafka: KafkaReplay) -> Measured:
    """Return the times of Kafka's deserializer and replay, by its own clocks."""
    took = kafka.replay()
    return Measured(None, took.wall, took.cpu)


def check_rows(mine: int, expected: set[int]) -> None:
    """Check that a timed answer is complete: one row per share partition, or per record."""
    assert mine in expected, (mine, expected)


def check_states(batches: list[pa.RecordBatch], kafka: KafkaReplay) -> int:
    """Compare all final states with Kafka's, and those after some records: numbers and batches.

    Returns how many share partitions have a state.
    """
    count = sum(batch.num_rows for batch in batches)
    sample = np.unique(np.random.default_rng(3).integers(0, count, _SAMPLE)).tolist()
    final, then = kafka.states(sample)
    records = decoded(batches)
    theirs = {_key(line): line for line in final}
    ours = _states(replay_arrow(records, PREVIOUS_VERSION))
    assert set(ours) == set(theirs)
    for key, window in ours.items():
        assert window == _state(theirs[key]), key
    place = {_key(line): at for at, line in then.items()}
    codes = records.select(_KEY).to_pylist()
    mine = [at for at, row in enumerate(codes) if _key(row) in place]
    for at, line in then.items():
        until = [row for row in mine if row <= at and _key(codes[row]) == _key(line)]
        windows = _states(replay_arrow(records.take(pa.array(until)), PREVIOUS_VERSION))
        expected = [_state(line)] if "batches" in line else []  # a tombstone leaves no state
        assert list(windows.values()) == expected, at
    return len(ours)


def _key(line: dict[str, Any]) -> str:
    return ":".join(str(line[name]) for name in _KEY)


def _state(line: dict[str, Any]) -> tuple[Any, ...]:
    return *(line[name] for name in _NUMBERS), line["batches"]


def _states(windows: pa.RecordBatch) -> dict[str, tuple[Any, ...]]:
    """Return the states by share partition, with Kafka's -1 in place of nulls."""
    found = {}
    for row in windows.select([*_KEY, *_NUMBERS, "batches"]).to_pylist():
        numbers = (-1 if row[name] is None else _number(row[name]) for name in _NUMBERS)
        found[_key(row)] = *numbers, [list(batch.values()) for batch in row["batches"]]
    return found


def _number(value: Any) -> int:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else int(value)


def _row(name: str, work: str, goals: tuple[float, float], shape: str, full: int, ours: Any) -> Row:
    make: Callable[[Bench], AbstractContextManager[Contest]] = partial(
        against_kafka, shape=shape, full=full, ours=ours
    )
    return Row(name, work, "Kafka's deserialise and replay", *goals, make, shape)


ROWS = tuple(
    _row(name, work, goals, shape, full, ours)
    for name, work, goals, ours in (
        ("P3", "final windows, Kafka's exact batch lists", (8, 12), final_windows),
        ("P4", "workbench of records: state after every one", (4, 8), every_state),
    )
    for shape, full in (("light", 1_000_000), ("heavy", 200_000), ("recorded", 200_000))
)
