"""Where share partitions stand, without their windows, against Kafka's deserialiser alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pyarrow as pa

from benchmarks.harness import Bench, Contest, Measured, Row, Side
from benchmarks.kafka_replay import KafkaReplay, kafka_replay
from sharelag.replay import replay_arrow
from sharelag.replay.positions import POSITIONS, Positions, latest_positions
from sharelag.wire import decode_arrow


@contextmanager
def against_deserialiser(bench: Bench, shape: str, full: int) -> Iterator[Contest]:
    """One thread on both sides; the rival makes a Java object of each record, and drops it."""
    batches = bench.inputs.batches(shape, bench.size(full, full // 5))
    count = sum(batch.num_rows for batch in batches)
    expected = replay_arrow(decode_arrow(pa.Table.from_batches(batches)).records)

    def check(ours: Positions | None, _: object) -> None:
        assert ours is not None
        assert ours.table.equals(expected.select(POSITIONS.names))

    with kafka_replay(batches) as kafka:
        yield Contest(
            Side("latest_positions", lambda: latest_positions(batches, 1), units=count),
            Side("ShareCoordinatorRecordSerde", lambda: _deserialised(kafka), units=count),
            check,
        )


def _deserialised(kafka: KafkaReplay) -> Measured:
    took = kafka.deserialize()
    return Measured(None, took.wall, took.thread)


def _shape(shape: str, full: int) -> Callable[[Bench], AbstractContextManager[Contest]]:
    return partial(against_deserialiser, shape=shape, full=full)


_NOTE = (
    "Of a light record's time a quarter each is numbering its key, walking its batches to be sure "
    "that none is tagged or reversed, folding it into the state, and sharing records out by state "
    "partition. The Java side counts its working thread alone, without the garbage collector's."
)
ROWS = (
    Row("P5", "lag only, one thread", "Kafka's deserialiser", 1, 3, _shape("light", 1_000_000),
        "light", note=_NOTE),
    Row("P5", "lag only, one thread", "Kafka's deserialiser", 1, 3, _shape("heavy", 100_000),
        "heavy", note=_NOTE),
)  # fmt: skip
