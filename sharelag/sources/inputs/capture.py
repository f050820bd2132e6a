"""A folder that ``sharelag capture`` wrote, as an input."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.sources.files.pieces import parquet_batches
from sharelag.sources.inputs.contract import version_of
from sharelag.sources.inputs.offsets import is_noted, latest_until, of_moment, of_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sharelag.sources.files.captures import Capture


@dataclass(frozen=True)
class CaptureInput:
    """A folder that ``sharelag capture`` wrote."""

    folder: Path

    @property
    def holds_both(self) -> bool:
        return True

    @property
    def rereadable(self) -> bool:
        return True

    @property
    def patience(self) -> timedelta | None:
        return self._capture.info.patience

    @cached_property
    def _capture(self) -> Capture:
        from sharelag.sources.files.captures import read_capture

        return read_capture(self.folder)

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return parquet_batches(self._capture.records_paths, topic)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.files import raw_frame

        return raw_frame(spark, self._capture.records_paths)

    def parquet_files(self, topic: str) -> list[str]:
        """Files with the raw records of a topic, which tasks may read themselves."""
        return self._capture.records_paths

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        if isinstance(as_of, datetime) and as_of > self.as_of():
            raise InputError(
                f"the capture {self.folder} ends at {iso(self.as_of())}, before {iso(as_of)}: "
                "name that moment or an earlier one"
            )
        offsets = of_moment(self._capture.offsets, topic_ids, self.as_of(), as_of)
        past = of_topics(self._capture.extras["past_offsets"], topic_ids)
        return (
            latest_until(offsets, past, as_of)
            if isinstance(as_of, datetime) and as_of < self.as_of()
            else offsets
        )

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        past = of_topics(self._capture.extras["past_offsets"], topic_ids)
        times = past.column("as_of")
        if not moments:
            return past.slice(0, 0)
        # From the last known end before the first moment on: between two known ends it lies.
        begin = pc.max(times.filter(pc.less_equal(times, min(moments)))).as_py() or min(moments)
        return past.filter(
            pc.and_(pc.greater_equal(times, begin), pc.less_equal(times, max(moments)))
        )

    def logs(self, topic_ids: Sequence[str]) -> pa.Table:
        return of_topics(self._capture.extras["logs"], topic_ids)

    def leaders(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return self._known("leaders", as_of)

    def nodes(self, as_of: object = None) -> pa.Table:
        return self._known("nodes", as_of)

    def _known(self, name: str, as_of: object) -> pa.Table:
        """Return a table of the moment of the capture, without rows for an earlier one."""
        table = self._capture.extras[name]
        return table if is_noted(self.as_of(), as_of) else table.slice(0, 0)

    def times(self, positions: pa.Table, read_committed: bool = False) -> pa.Table:
        noted = self._capture.extras["committed_times" if read_committed else "times"]
        return of_topics(noted, positions.column("topic_id").to_pylist())

    def settings(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        return self._capture.extras["settings"]

    def partitions(self, topic: str) -> int | None:
        return self._capture.info.topics.get(topic)

    def size(self) -> int:
        # Only footers: what brings pandas along waits until the engine is chosen.
        from sharelag.sources.files.captures import count_records

        return count_records(self.folder)

    def version(self) -> Hashable:
        return version_of(self.folder.rglob("*"))

    def as_of(self) -> datetime:
        """When the end offsets were read."""
        return self._capture.info.as_of

    @property
    def kafka_version(self) -> str | None:
        """The release of the brokers that were captured; None where that is not noted."""
        return self._capture.info.kafka_version

    def describe(self) -> str:
        info = self._capture.info
        return f"capture of {info.cluster_id} at {info.as_of.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
