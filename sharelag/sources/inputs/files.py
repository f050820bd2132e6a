"""Files with raw records, and no more than those, as inputs."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError, first_line
from sharelag.sources.files.damage import DAMAGE
from sharelag.sources.inputs.contract import RecordsOnly
from sharelag.sources.inputs.offsets import of_moment
from sharelag.sources.inputs.parquet import parquet_batches, parquet_dataset, version_of
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

#: How the names of Spark's tables look.
SPARK_TABLE = re.compile(r"\w+(\.\w+)*")


@dataclass(frozen=True)
class RawInput(RecordsOnly):
    """Parquet files with the columns of Spark's Kafka source; on Spark also the name of any table.

    ``not_there`` is what to say of a name that is neither; without it, what reading it as Parquet
    says.
    """

    path: str
    not_there: str = field(default="", repr=False, compare=False)

    @property
    def holds_both(self) -> bool:
        return True

    @property
    def only_spark_knows(self) -> bool:
        """Whether this may be the name of a table or an address, which only Spark can look up."""
        return "://" in self.path or SPARK_TABLE.fullmatch(self.path) is not None

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        return parquet_batches(self._dataset(), what=self.path)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.files import is_table_of, parquet
        from sharelag.sources.spark.tabular import as_frame

        is_there = Path(self.path).exists()
        is_table = not is_there and "/" not in self.path and is_table_of(spark, self.path)
        if not is_table and "://" not in self.path:
            if self.not_there and not is_there:
                raise InputError(self.not_there)
            self._dataset()  # tells what is wrong with a path in one line
        frame = spark.read.table(self.path) if is_table else parquet(spark, [self.path])
        return as_frame(frame, schemas.RAW, self.path)

    def parquet_files(self, topic: str) -> list[str] | None:
        """Files with the raw records, which tasks may read themselves; None: Spark knows them."""
        return list(self._dataset().files) if Path(self.path).exists() else None

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return schemas.OFFSETS.empty_table()

    def size(self) -> int:
        return int(self._dataset().count_rows())

    def version(self) -> Hashable:
        path = Path(self.path)
        return version_of([path, *path.rglob("*")]) if path.exists() else None

    def describe(self) -> str:
        return f"raw records of {self.path}, without topic names and end offsets"

    def _dataset(self) -> ds.Dataset:
        try:
            dataset = parquet_dataset(self.path)
        except DAMAGE as error:
            first = first_line(error).rstrip(".")
            raise InputError(
                f"cannot read Parquet from {self.path}: {first}. Give a Parquet file, a folder of "
                'them, or the name of a Spark table with --engine spark (engine="spark")'
            ) from error
        schemas.require_conformable(dataset.schema, schemas.RAW, self.path)
        return dataset


@dataclass(frozen=True)
class PrintedInput(RecordsOnly):
    """A file of what Kafka's tools print of records, which must be on this machine."""

    path: Path

    @property
    def holds_both(self) -> bool:
        return True

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        from sharelag.sources.files.printed import read_printed

        yield read_printed(self.path)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.files.printed import read_printed
        from sharelag.sources.spark.files import sent

        return sent(spark, [read_printed(self.path)])

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return schemas.OFFSETS.empty_table()

    def size(self) -> int:
        # read in this process whatever the engine
        return 0

    def version(self) -> Hashable:
        return version_of([self.path])

    def describe(self) -> str:
        return f"records that Kafka's tools printed to {self.path}, without end offsets"


@dataclass(frozen=True)
class SegmentsInput(RecordsOnly):
    """A broker's log directory, which must be on this machine.

    ``control``: control records in users' topics count although there is a ``__share_group_state``.
    """

    folder: Path
    control: bool = False

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        from sharelag.sources.files.control import read_control
        from sharelag.sources.files.segments import read_segments

        yield from read_segments(self.folder, topic)
        if topic == STATE_TOPIC:
            yield from read_control(self.folder, self.control)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.files import segments

        return segments(spark, self.folder, topic, self.control)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        from sharelag.sources.files.segments import segment_offsets

        offsets = segment_offsets(self.folder)
        noted = offsets.column("as_of")[0].as_py() or datetime.now(UTC)
        return of_moment(offsets, topic_ids, noted, as_of)

    def size(self) -> int:
        # its files are read in this process whatever the engine, so that `auto` had better stay
        # here
        return 0

    def describe(self) -> str:
        return f"log directory {self.folder}"
