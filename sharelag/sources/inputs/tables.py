"""Tables of this process as an input: raw records and offsets, on either engine."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from sharelag import schemas
from sharelag.sources.files.batches import rows_at_once
from sharelag.sources.inputs.contract import RecordsOnly
from sharelag.sources.inputs.offsets import ends_as_of, ends_between

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class TableInput(RecordsOnly):
    """Raw records and end offsets as Arrow tables.

    Parameters
    ----------
    raw : pyarrow.Table
        `sharelag.schemas.RAW`; records of both topics may be mixed.
    given_offsets : pyarrow.Table, optional
        `sharelag.schemas.OFFSETS`, one row per topic partition, or several at different moments:
        then the last one up to the moment is the end, and all of them are past ends.
    """

    raw: pa.Table
    given_offsets: pa.Table | None = None

    @property
    def holds_both(self) -> bool:
        return True

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        rows = rows_at_once(_BATCH_ROWS, self.raw.num_rows, self.raw.nbytes)
        yield from self.raw.to_batches(max_chunksize=rows)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.sources.spark.tabular import as_frame

        return as_frame(self.raw, schemas.RAW, "raw records", spark)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        return ends_as_of(self._ends(), topic_ids, as_of)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        return ends_between(self._ends(), topic_ids, moments)

    def size(self) -> int:
        return int(self.raw.num_rows)

    def version(self) -> Hashable:
        return id(self.raw)  # which nobody can write to

    def describe(self) -> str:
        without = "" if self.given_offsets is not None else ", without offsets"
        return f"a table of raw records{without}"

    def _ends(self) -> pa.Table:
        return schemas.OFFSETS.empty_table() if self.given_offsets is None else self.given_offsets
