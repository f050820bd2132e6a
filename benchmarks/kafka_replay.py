"""Kafka's own deserializer and replay as a rival: the same records, in a warm JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.kafka.jvm import TIMED_JVM
from tests.support.kafka.oracles import Oracle

_SOURCES = Path(__file__).with_name("java")


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one run: wall clock, all threads, and the thread that worked."""

    wall: float
    cpu: float
    thread: float


@dataclass(frozen=True, slots=True)
class KafkaReplay:
    """Kafka's classes with some records in memory."""

    oracle: Oracle
    folder: Path

    def deserialize(self) -> Took:
        """Deserialize every record with ``ShareCoordinatorRecordSerde``, and drop it."""
        return self._timed("deserialize")

    def replay(self) -> Took:
        """Deserialize every record and pass it to ``ShareCoordinatorShard.replay``."""
        return self._timed("replay")

    def states(self, after: Sequence[int] = ()) -> tuple[list[dict[str, Any]], dict[int, Any]]:
        """Return the final states, and states of share partitions directly after some records.

        Parameters
        ----------
        after
            Indices of records, counted from 0.

        Returns
        -------
        final, then
            Lines with ``group_id topic_id partition``, the numbers of the state and ``batches`` as
            ``[first, last, state, count]``; without numbers if a tombstone removed the state.
        """
        to = self.folder / "states.json"
        question = {"folder": str(self.folder), "work": "dump", "to": str(to), "after": list(after)}
        self._ask(question)
        lines = [json.loads(line) for line in to.read_text().splitlines()]
        final = [line for line in lines if "after" not in line]
        return final, {line.pop("after"): line for line in lines if "after" in line}

    def _timed(self, work: str) -> Took:
        answer = self._ask({"folder": str(self.folder), "work": work})
        return Took(answer["wall"], answer["cpu"], answer["thread"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        answer = self.oracle.ask(question)
        if "error" in answer:
            raise RuntimeError(f"Kafka's replay of {self.folder} failed: {answer['error']}")
        return answer


@contextmanager
def kafka_replay(batches: Iterable[pa.RecordBatch]) -> Iterator[KafkaReplay]:
    """Give records (`sharelag.schemas.RAW`, in the order of the log) to Kafka's classes."""
    with (
        TemporaryDirectory(prefix="records-") as folder,
        Oracle("TimedReplay", heap="6g", flags=TIMED_JVM, sources=_SOURCES) as oracle,
    ):
        write(batches, Path(folder))
        yield KafkaReplay(oracle, Path(folder))


def write(batches: Iterable[pa.RecordBatch], folder: Path) -> None:
    """Write keys and values in the format of ``TimedReplay.java``."""
    sizes = {"key": 0, "value": 0}
    with (
        (folder / "keys").open("wb") as keys,
        (folder / "key_ends").open("wb") as key_ends,
        (folder / "values").open("wb") as values,
        (folder / "value_ends").open("wb") as value_ends,
    ):
        for batch in batches:
            for name, bytes_to, ends_to in (
                ("key", keys, key_ends),
                ("value", values, value_ends),
            ):
                column = batch.column(name)
                offsets = np.frombuffer(column.buffers()[1], np.int32)
                offsets = offsets[column.offset : column.offset + len(column) + 1]
                if column.buffers()[2] is not None:
                    bytes_to.write(memoryview(column.buffers()[2])[offsets[0] : offsets[-1]])
                ends = offsets[1:].astype(np.int64) - offsets[0] + sizes[name]
                sizes[name] = int(ends[-1]) if len(ends) else sizes[name]
                missing = column.is_null().to_numpy(zero_copy_only=False)
                ends_to.write(np.where(missing, ~ends, ends).astype("<i8").tobytes())
