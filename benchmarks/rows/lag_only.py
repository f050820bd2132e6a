"""Kafka's columns of lag only, by the command, compared with Kafka's deserializer alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import sharelag
from benchmarks.harness import Bench, Contest, Measured, Row, Side
from benchmarks.kafka_replay import KafkaReplay, kafka_replay
from benchmarks.processes import command


@contextmanager
def against_deserialiser(bench: Bench, shape: str, full: int) -> Iterator[Contest]:
    """The rival makes a Java object of each record in memory, and drops it."""
    records = bench.size(full, full // 5)
    folder = bench.inputs.capture(shape, records)
    with sharelag.open(folder, engine="local") as opened:
        whole = opened.lag().table
    names = ("group_id", "topic_id", "partition")
    wanted = dict(zip(zip(*(whole.column(n).to_pylist() for n in names), strict=True),
                      whole.column("lag").to_pylist(), strict=True))  # fmt: skip
    line = [sys.executable, "-m", "sharelag", "lag", "--brief", "--engine", "local", "-o", "json"]

    def check(found: str, _: object) -> None:
        rows = map(json.loads, found.splitlines())
        assert {tuple(row[n] for n in names): row["lag"] for row in rows} == wanted

    with kafka_replay(bench.inputs.stream(shape, records)) as kafka:
        yield Contest(
            Side("sharelag lag --brief", lambda: command([*line, "--capture", str(folder)]),
                 units=records),
            Side("ShareCoordinatorRecordSerde", lambda: _deserialised(kafka), units=records),
            check,
        )  # fmt: skip


def _deserialised(kafka: KafkaReplay) -> Measured:
    took = kafka.deserialize()
    return Measured(None, took.wall, took.thread)


def _shape(shape: str, full: int) -> Callable[[Bench], AbstractContextManager[Contest]]:
    return partial(against_deserialiser, shape=shape, full=full)


_NOTE = (
    "Our side is a command from its start to its end, which reads files, the Java side a warm "
    "thread over records in memory, without the garbage collector's time."
)
ROWS = (
    Row("P5", "`sharelag lag --brief` of a capture", "Kafka's deserialiser", 1, 3,
        _shape("light", 1_000_000), "light", note=_NOTE),
    Row("P5", "`sharelag lag --brief` of a capture", "Kafka's deserialiser", 1, 3,
        _shape("heavy", 100_000), "heavy", note=_NOTE),
)  # fmt: skip
