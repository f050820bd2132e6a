"""Tables of this process as an input: raw records and offsets, on either engine."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas.types import PLACE
from sharelag.sources.files.batches import rows_at_once
from sharelag.sources.inputs.contract import RecordsOnly
from sharelag.sources.inputs.offsets import of_topics, without_ends

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
        rows = of_topics(self._ends(), topic_ids)
        if isinstance(as_of, datetime):
            rows = rows.filter(pc.less_equal(rows.column("as_of"), as_of))
        # those without a time come first
        times = rows.column("as_of").cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
        rows = rows.take(pc.sort_indices(times)).append_column(
            "row", pa.array(np.arange(rows.num_rows))
        )
        last = rows.group_by(PLACE).aggregate([("row", "max")]).column("row_max")
        found = rows.select(schemas.OFFSETS.names).take(last)
        # Offsets of the state topic have no time, so no end offsets belong to them.
        return found if as_of is None or isinstance(as_of, datetime) else without_ends(found)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        if not moments:
            return schemas.OFFSETS.empty_table()
        rows = of_topics(self._ends(), topic_ids)
        time = rows.column("as_of")
        return rows.filter(
            pc.and_(pc.greater_equal(time, min(moments)), pc.less_equal(time, max(moments)))
        )

    def size(self) -> int:
        return int(self.raw.num_rows)

    def version(self) -> Hashable:
        return id(self.raw)  # which nobody can write to

    def describe(self) -> str:
        without = "" if self.given_offsets is not None else ", without offsets"
        return f"a table of raw records{without}"

    def _ends(self) -> pa.Table:
        return schemas.OFFSETS.empty_table() if self.given_offsets is None else self.given_offsets
