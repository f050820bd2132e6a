"""Records of dead-letter queues, with headers: from a cluster, Parquet files, or a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError, TopicMissingError
from sharelag.inputs import KafkaInput
from sharelag.inputs.files.pieces import parquet_batches
from sharelag.inputs.files.raw_files import RawFile, is_raw, list_raw
from sharelag.inputs.kafka import brokers
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.fetch import read_ranges
from sharelag.model.settings.queues import MISSING, Queues, is_topic_name
from sharelag.schemas import WITH_HEADERS

_WHAT = "the dead-letter queue"
_NEEDED = "give the name of its topic, Parquet files, or a table with Spark's columns of Kafka"


@dataclass(frozen=True)
class Queue:
    """A dead-letter queue: a topic of a cluster, paths of Parquet files, or a table.

    Files and tables have `sharelag.schemas.WITH_HEADERS`. With ``of_group``, a group's setting
    names the topic, which then need not exist before the first letter.
    """

    topic: str = ""
    config: ClientConfig | None = None
    given: Any = None
    of_group: bool = False

    @cached_property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """First and end offset of each partition at the first request."""
        if self.config is None or (self.of_group and not is_topic_name(self.topic)):
            return {}
        try:
            return kafka.offset_ranges(self.config, self.topic)
        except TopicMissingError:
            if not self.of_group:
                raise
            return {}

    @cached_property
    def refusal(self) -> str | None:
        """Why brokers cannot write letters to a topic of a running cluster; None if unknown."""
        if self.config is None:
            return None
        topics = [self.topic] if is_topic_name(self.topic) else []
        known = Queues.of(brokers.settings(self.config, [], topics))
        if why := known.refusal(self.topic):
            return why
        if known.topics.get(self.topic, ("", ""))[1] != MISSING:
            return None
        return f"the topic {self.topic} does not exist: brokers create it with the first letter"

    @property
    def paths(self) -> list[RawFile] | None:
        """Its Parquet files; None for a topic or a table."""
        return self.given if isinstance(self.given, list) else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its records in this process; InputError if a column is missing."""
        if self.config is not None:
            yield from read_queue(self.config, self.topic, self.ranges)
        elif self.paths is not None:
            yield from parquet_batches(self.paths, schema=WITH_HEADERS)
        else:
            if not isinstance(self.given, pa.Table):
                raise InputError("a DataFrame of Spark needs the engine spark: open it with that")
            yield from self.given.to_batches()


def read_queue(
    config: ClientConfig, topic: str, ranges: dict[int, tuple[int, int]]
) -> Iterator[pa.RecordBatch]:
    """Read ranges of a queue with a consumer that joins no group and commits nothing."""
    yield from read_ranges(config, topic, ranges, lost=[], with_headers=True)


def queue_of(source: Any, queue: Any) -> Queue:
    """Return the queue that a user names.

    That is a topic if ``source`` is a running cluster, a path, or a table of Arrow, Spark, pandas
    or polars. Any other value, and a path without files, is an InputError.
    """
    kind = type(queue)  # a Spark Column seems to have every attribute, as names of its fields
    if hasattr(kind, "sparkSession"):
        return Queue(given=queue)
    if hasattr(kind, "iloc") or hasattr(kind, "__arrow_c_stream__"):
        return Queue(given=schemas.conform_given(queue, WITH_HEADERS, _WHAT))
    if not isinstance(queue, str | Path) or not str(queue):
        raise InputError(f"{queue!r} is not a dead-letter queue: {_NEEDED}")
    path = Path(queue)
    is_path = isinstance(queue, Path) or "/" in str(queue) or path.suffix == ".parquet"
    if is_path:
        if not path.is_file() and not (path.is_dir() and is_raw(path)):
            raise InputError(f"there are no Parquet files at {path}: {_NEEDED}")
        return Queue(given=list_raw(str(path)))
    if not isinstance(source, KafkaInput):
        raise InputError(
            f"{source.describe()} has no records of topics, by design: give the running cluster, "
            "or records of the queue as Parquet files or a table"
        )
    return Queue(str(queue), source.config)
