"""The past of a reading on Spark: histories, windows at earlier moments, and records themselves."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.metrics.sampling import evenly_spaced, evenly_spaced_indices
from sharelag.pipeline import states
from sharelag.pipeline.collecting import collected, frame_of, streamed
from sharelag.pipeline.frame_records import OnSpark
from sharelag.pipeline.frames import Frames
from sharelag.pipeline.tasks import FileRecords
from sharelag.reading import ORDER, Each, Rows, rows_of
from sharelag.replay.at_moments import WINDOWS_AT, replay_at
from sharelag.replay.moment import filter_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The times of so many records are sorted in this process; those of more of them by Spark.
_FEW_TIMES = 20_000
#: So many decoded records stay in Spark's cache, as every question of the past reads them again.
_MOST_KEPT = 200_000
_HISTORY = schemas.HISTORY.append(pa.field("topic", pa.string()))
_SHARE_PARTITION = ["group_id", "topic_id", "partition"]


class Past(OnSpark):
    """Answers that take the records of share partitions, not only where those stand."""

    @property
    @abstractmethod
    def frames(self) -> Frames:
        """All tables as DataFrames."""

    def history(
        self, since: datetime | None = None, most: int | None = None, group: str | None = None
    ) -> Rows:
        """The state after each record; of too many rows the latest."""
        frame = self.history_frame(since, group)
        is_cut = most is not None and self.counted.records > most
        if is_cut:
            frame = frame.orderBy(F.desc("record_timestamp"), F.desc("record_offset")).limit(
                int(most or 0)
            )
        table = collected(frame, _HISTORY).sort_by([*ORDER, ("record_offset", "ascending")])
        total = table.num_rows
        if is_cut and total == most:
            records = _of_group(_since(self.frames.records, "timestamp", since), group)
            total = self._named(records).count()
        return Rows(table, total)

    def history_tables(self, since: datetime | None = None) -> Iterator[pa.Table]:
        """All rows of the history, one task's after another."""
        order = [name for name, _ in ORDER]
        for batch in streamed(self.history_frame(since).orderBy(*order, "record_offset"), _HISTORY):
            yield pa.Table.from_batches([batch])

    def history_frame(self, since: datetime | None = None, group: str | None = None) -> DataFrame:
        """The whole history from a time on, of one group or all, with the topics' names beside."""
        frame = states.history(self._records_of(), self.table("gaps"))
        return self._named(_of_group(_since(frame, "record_timestamp", since), group))

    def over_history(self, each: Each, schema: pa.Schema, keys: pa.Table | None = None) -> pa.Table:
        """Apply a function to the history of share partitions in the tasks that replay it."""
        records = self._records_of(keys)
        return collected(states.summarized(records, each, schema, self.table("gaps")), schema)

    def timeline_frame(self, each: Each, group: str | None = None) -> DataFrame:
        """Return `sharelag.schemas.TIMELINE`, computed by ``each`` from the history."""
        files = self.frames.file_records
        if files is not None and group is not None:
            files = files.where(partial(filter_groups, groups=frozenset([group])))
        records = files or _of_group(self._records, group)
        frame = states.summarized(records, each, schemas.TIMELINE, self.table("gaps"))
        return self._named(frame).select(schemas.TIMELINE.names)

    def over_records(self, each: Each, schema: pa.Schema, keys: pa.Table) -> pa.Table:
        """Apply a function to all records of share partitions in the tasks that have them."""
        return collected(states.replayed_by(self._records_of(keys), each, schema), schema)

    def windows_at(self, keys: pa.Table, moments: Sequence[int] | int) -> pa.Table:
        """The windows of some share partitions at moments of the past."""
        records = self._records_of(keys)
        at = self._times_of(keys, moments) if isinstance(moments, int) else moments
        frame = states.replayed_by(
            records, partial(replay_at, moments=np.array(at, np.int64)), WINDOWS_AT
        )
        order = ("as_of", "group_id", "topic_id", "partition")
        return collected(frame, WINDOWS_AT).sort_by([(name, "ascending") for name in order])

    # ---- behind it -------------------------------------------------------------------------------

    def _named(self, frame: DataFrame) -> DataFrame:
        """Rows of the chosen topics with their names beside, null where those are not known."""
        names = (
            self.table("offsets")
            .select(["topic_id", "topic"])
            .group_by(["topic_id", "topic"])
            .aggregate([])
        )
        known = F.broadcast(frame_of(self.spark, names))
        columns = [name for name in frame.columns if name != "topic"]
        joined = frame.select(columns).join(known, "topic_id", "left")
        return self.frames.chosen(joined.select(*columns, "topic"))

    @property
    def _records(self) -> DataFrame:
        """Decoded records."""
        few = self.counted.records <= _MOST_KEPT
        return self.frames.kept_records if few else self.frames.records

    def _records_of(self, keys: pa.Table | None = None) -> DataFrame | FileRecords:
        """Records of some share partitions, or of all, as it costs least to replay them."""
        files = self.frames.file_records
        if files is None:
            return self._records if keys is None else self._of_keys(keys)
        return files if keys is None else files.where(partial(rows_of, wanted=keys))

    def _of_keys(self, keys: pa.Table) -> DataFrame:
        wanted = frame_of(self.spark, keys.select(_SHARE_PARTITION))
        return self._records.join(F.broadcast(wanted), _SHARE_PARTITION, "left_semi")

    def _times_of(self, keys: pa.Table, most: int) -> list[int]:
        """Return evenly spaced times, in ms, of records of share partitions."""
        if self.counted.records <= _FEW_TIMES:
            times = self.once("times", lambda: _times(self._records, *_SHARE_PARTITION).toArrow())
            mine = times.join(
                keys.select(_SHARE_PARTITION), _SHARE_PARTITION, join_type="left semi"
            )
            return evenly_spaced(pc.unique(mine.column("time")).to_numpy(), most)
        times = _times(self._of_keys(keys))
        # A summary of few columns fits one task; named as a partition, Connect does not warn of it.
        place = F.row_number().over(Window.partitionBy(F.lit(0)).orderBy("time")) - 1
        wanted = F.col("place").isin(evenly_spaced_indices(times.count(), most).tolist())
        return sorted(
            times.withColumn("place", place).where(wanted).toArrow().column("time").to_pylist()
        )


def _since(frame: DataFrame, column: str, since: datetime | None) -> DataFrame:
    return frame if since is None else frame.where(F.col(column) >= F.lit(since))


def _of_group(frame: DataFrame, group: str | None) -> DataFrame:
    return frame if group is None else frame.where(F.col("group_id") == group)


def _times(records: DataFrame, *beside: str) -> DataFrame:
    """The milliseconds at which records were written, each once."""
    return (
        records.where("timestamp is not null")
        .select(*beside, F.unix_millis("timestamp").alias("time"))
        .distinct()
    )
