"""Archives: what the topics held, also what Kafka has pruned since. `sharelag.sources.spark.follow` writes them.

    capture.json                                  of which cluster, which topics, by what: no secrets
    data/records/source=TOPIC/day=DAY/*.parquet   raw records, with the columns of Spark's own Kafka source
    data/gaps/*.parquet                           ranges of offsets that were pruned before they could be read
    data/offsets/day=DAY/*.parquet                log start and end offset of every topic partition, again and again
    checkpoint/                                   Spark's: how far the job has come

``data`` is a link that one step moves (`sharelag.sources.files.views`), so whoever opens
``data/records`` with pyarrow, Spark or anything else sees every record once, at any instant. A day
is that of the archiving, not of the record: so files, in the order of their paths, are in the order
of the log whatever clocks say.
"""

from __future__ import annotations

import shutil
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.sources.files import samples, views
from sharelag.sources.files.archive_info import ArchiveInfo, read_info
from sharelag.sources.inputs import RecordsOnly, of_topics
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS, GAPS, OFFSETS = "records", "gaps", "offsets"

#: A range of offsets that was pruned before it could be read; touching ranges are one.
GAP = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),  # exclusive
        ("found_at", schemas.TIMESTAMP),
    ]
)

# Records to gather for a row group: Parquet is slow to read in smaller ones.
_ROW_GROUP_ROWS, _ROW_GROUP_BYTES = 100_000, 32 << 20


@dataclass(frozen=True)
class ArchiveInput(RecordsOnly):
    """An archive; each question is answered by what it holds when it is asked."""

    folder: Path

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Raw records of a topic (`sharelag.schemas.RAW`); those of one partition come in the order of the log."""
        for path in self._files(f"{RECORDS}/source={topic}"):
            yield from _open(path).iter_batches(50_000, columns=schemas.RAW.names)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Read the same as a Spark DataFrame."""
        paths = self._files(f"{RECORDS}/source={topic}")
        if not paths:
            return spark.createDataFrame([], schemas.spark_schema(schemas.RAW))
        return spark.read.parquet(*map(str, paths)).select(schemas.RAW.names)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """`sharelag.schemas.OFFSETS` of these topics; those that were never seen are not in it.

        Offsets of a moment between two samples are null where the samples differ, and so is their
        ``as_of``.
        """
        newest, last = self._newest(topic_ids)
        if as_of is None or last is None or (isinstance(as_of, datetime) and as_of >= last):
            return newest
        if isinstance(as_of, datetime):
            return samples.without_moments(self.past_offsets(topic_ids, [as_of]))
        return samples.without_offsets(newest)  # offsets of the state topic tell no time

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """Offsets at moments of the past.

        Parameters
        ----------
        topic_ids : sequence of str
        moments : sequence of datetime

        Returns
        -------
        pyarrow.Table
            `sharelag.schemas.OFFSETS`, a row a moment and partition that was ever sampled;
            ``as_of`` is the moment. An offset is known where the samples before and after the
            moment agree, for it only grows; it is null where they differ, and before the first and
            after the last sample.
        """
        tables = [of_topics(_open(path).read(), topic_ids) for path in self._files(OFFSETS)]
        return samples.at(pa.concat_tables([schemas.OFFSETS.empty_table(), *tables]), moments)

    def gaps(self) -> pa.Table:
        """Ranges of offsets that were pruned before they could be read, as `GAP`; sorted, touching ones as one."""
        self.info()
        rows = pa.concat_tables(
            [_open(p).read() for p in self._files(GAPS)] or [GAP.empty_table()]
        ).cast(GAP)
        rows = rows.sort_by(
            [(name, "ascending") for name in ("topic", "partition", "first_offset")]
        )
        if rows.num_rows == 0:
            return rows
        topic = rows.column("topic").combine_chunks().dictionary_encode().indices.to_numpy()
        partition, first, end = (
            rows.column(name).to_numpy() for name in ("partition", "first_offset", "end_offset")
        )
        apart = (np.diff(topic) != 0) | (np.diff(partition) != 0) | (first[1:] > end[:-1])
        number = np.concatenate([[0], np.cumsum(apart)])
        wanted = [
            ("topic", "min"),
            ("partition", "min"),
            ("first_offset", "min"),
            ("end_offset", "max"),
            ("found_at", "min"),
        ]
        merged = (
            rows.append_column("number", pa.array(number))
            .group_by("number", use_threads=False)
            .aggregate(wanted)
        )
        return pa.table(
            [merged.column(f"{name}_{how}") for name, how in wanted], names=GAP.names
        ).cast(GAP)

    def version(self) -> Hashable:
        """The view of the archive: another one after each commit."""
        return str(views.current(self.folder).folder)

    def partitions(self, topic: str) -> int | None:
        """How many partitions the topic had when the archive was begun."""
        return len(self.info().topics.get(topic, ())) or None

    def size(self) -> int:
        """How many records of the state topic there are."""
        return sum(
            _open(path).metadata.num_rows for path in self._files(f"{RECORDS}/source={STATE_TOPIC}")
        )

    def as_of(self) -> datetime | None:
        """When the end offsets were last asked; None before the first time."""
        return self._newest([])[1]

    def describe(self) -> str:
        """Where the records come from and as of when."""
        moment = self.as_of()
        upto = (
            f"up to {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            if moment
            else "that holds nothing yet"
        )
        return f"archive of {self.info().cluster_id} {upto}"

    def info(self) -> ArchiveInfo:
        """What the archive is of.

        Raises
        ------
        InputError
            When there is no archive, or one of a format that this version does not know.
        """
        info = read_info(self.folder)
        if info is None:
            raise InputError(
                f"there is no archive at {self.folder}: make one with `sharelag capture --follow`"
            )
        return info

    def _files(self, table: str) -> list[Path]:
        self.info()
        return views.current(self.folder).files(table)

    def _newest(self, topic_ids: Sequence[str]) -> tuple[pa.Table, datetime | None]:
        """The last sample, and when it was taken. A topic that is not in it is not there any more."""
        paths = self._files(OFFSETS)[-1:]
        table = _open(paths[0]).read() if paths else schemas.OFFSETS.empty_table()
        last = pc.max(table.column("as_of"))
        table = table.filter(pc.equal(table.column("as_of"), last))
        return of_topics(table, topic_ids), last.as_py()


def compact(folder: Path, target_bytes: int = 128 << 20) -> int:
    """Merge small files, whether or not a job is adding to the archive.

    Parameters
    ----------
    folder : pathlib.Path
    target_bytes : int
        Files of this size are left alone, and merged ones are about as large.

    Returns
    -------
    int
        How many files were merged into fewer.

    Raises
    ------
    InputError
        When there is no archive, or it cannot be written.
    """
    ArchiveInput(folder).info()
    with views.locked(folder / ".compacting"):
        view = views.current(folder)
        if view.folder is None:
            return 0
        scratch = views.staging(folder, "compact")
        add: dict[str, Path] = {}
        drop: list[str] = []
        for number, group in enumerate(_small_files(view, target_bytes)):
            first, last = group[0].stem.partition("-to-")[0], group[-1].stem.rpartition("-to-")[2]
            merged = scratch / f"{number}.parquet"
            schema = pq.read_schema(group[0])
            write_parquet(
                merged, schema, (b for path in group for b in _open(path).iter_batches(50_000))
            )
            add[str(group[0].with_name(f"{first}-to-{last}.parquet").relative_to(view.folder))] = (
                merged
            )
            drop += [str(path.relative_to(view.folder)) for path in group]
        # Nobody else drops files, so all are still there.
        done = bool(add) and views.commit(folder, add, drop)
        shutil.rmtree(scratch)
        return len(drop) if done else 0


def write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write one file, holding no more than a row group at a time."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            gathered.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(gathered, schema))
                gathered, rows, size = [], 0, 0
        if rows:
            writer.write_table(pa.Table.from_batches(gathered, schema))


def _small_files(view: views.View, target_bytes: int) -> list[list[Path]]:
    """Neighbours, each below the target size, that are to become one file."""
    groups: list[list[Path]] = [[]]
    size = 0
    for path in view.files(""):
        length = path.stat().st_size
        if (
            length >= target_bytes
            or size >= target_bytes
            or (groups[-1] and groups[-1][-1].parent != path.parent)
        ):
            groups.append([])
            size = 0
        if length < target_bytes:
            groups[-1].append(path)
            size += length
    return [group for group in groups if len(group) > 1]


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{path} was merged with others while it was waited for: read the archive again"
        ) from error
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{path} is no Parquet file ({str(error).splitlines()[0]}): restore it"
        ) from error
