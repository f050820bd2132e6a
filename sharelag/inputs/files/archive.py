"""Archives: topic records, including those that Kafka has pruned since.

`sharelag.inputs.spark.follow` writes them.

    capture.json                                  cluster, topics, versions; no secrets
    data/records/source=TOPIC/day=DAY/*.parquet   raw records, as Spark's own Kafka source has them
    data/gaps/*.parquet                           offset ranges that were pruned before being read
    data/offsets/day=DAY/*.parquet                repeated samples of log start and end offsets
    checkpoint/                                   Spark's checkpoint of the job

``data`` is a link that is replaced atomically (see below), so that every reader of
``data/records``, such as pyarrow or Spark, sees every record exactly once. A day is that of
archiving, not of the record: files sorted by path are in log order even if clocks disagree.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.contract import RecordsOnly
from sharelag.inputs.files.captures import (
    check_fields,
    describing,
    read_description,
    write_description,
)
from sharelag.inputs.files.parquet import (
    AT_ONCE,
    batches_within,
    check_footer,
    check_values,
    open_parquet,
    read_table,
    reading_parquet,
    writer,
)
from sharelag.inputs.files.pieces import gather_batches, group_batches
from sharelag.inputs.files.raw_files import files_below
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.offsets import (
    ends_around,
    fold_ends,
    of_topics,
    offsets_at,
    without_ends,
    without_moments,
)
from sharelag.tables.arrow import as_table, ascending, keys
from sharelag.version import __version__
from sharelag.wire.fields import STATE_TOPIC

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

FORMAT, KIND = 1, "archive"
_ABOUT = "capture.json"


@dataclass(frozen=True)
class ArchiveInfo:
    """The metadata of an archive."""

    cluster_id: str
    # first offset of each partition at creation; empty if the topic did not exist
    topics: Mapping[str, Sequence[int]]
    options: Mapping[str, Any]
    tool_version: str = __version__
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # those known at creation


def is_archive(folder: Path) -> bool:
    """Return whether a directory is an archive."""
    path = folder / _ABOUT
    try:
        return path.is_file() and bool(read_description(path).get("kind") == KIND)
    except (ValueError, AttributeError):
        return False


def read_info(folder: Path) -> ArchiveInfo | None:
    """Return an archive's metadata; None if nothing is there, InputError if it is anything else."""
    path = folder / _ABOUT
    if not path.exists():
        there = {one.name for one in folder.iterdir()} if folder.is_dir() else {""}
        if folder.exists() and there - {f"{_ABOUT}.new"}:
            raise InputError(f"{folder} is not an archive and not empty: choose another folder")
        return None
    with describing(path, "an archive", "choose another folder"):
        about = read_description(path)
        if about.get("kind") != KIND:
            raise InputError(
                f"{folder} is a capture, which cannot be continued: choose another folder"
            )
        check_fields(path, about, KIND, FORMAT)
        topics = {name: list(topic["first_offsets"]) for name, topic in about["topics"].items()}
        ids = {name: topic["id"] for name, topic in about["topics"].items() if "id" in topic}
        options, version = about["options"], about["tool_version"]
        return ArchiveInfo(about["cluster_id"], topics, options, version, ids)


def begin(
    folder: Path,
    cluster_id: str,
    topics: Mapping[str, Sequence[int]],
    config: ClientConfig,
    topic_ids: Mapping[str, str] | None = None,
) -> ArchiveInfo:
    """Create an archive, or check that the existing one can be continued; return its metadata.

    ``topics`` maps names to the current first offset of every partition, ``topic_ids`` to topic
    ids. An archive of another cluster or of other topics is an InputError, as is any other content.
    """
    ids = topic_ids or {}
    found = read_info(folder)
    if found is None:
        found = ArchiveInfo(cluster_id, topics, config.public(), topic_ids=ids)
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / f"{_ABOUT}.new"
        write_description(half, _to_json(found))
        half.replace(folder / _ABOUT)
    if found.cluster_id != cluster_id:
        raise InputError(
            f"{folder} is an archive of cluster {found.cluster_id}, not of {cluster_id}: "
            "choose another folder"
        )
    if found.topics.keys() != topics.keys():
        raise InputError(
            f"{folder} is an archive of {', '.join(found.topics)}: "
            "give the same topics or choose another folder"
        )
    if topic_ids is not None:
        require_same_topics(folder, found, ids)
    return found


def require_same_topics(folder: Path, info: ArchiveInfo, topic_ids: Mapping[str, str]) -> None:
    """Reject topics that were deleted, and maybe created again: offsets mean other records."""
    for name, known in info.topic_ids.items():
        if (now := topic_ids.get(name)) != known:
            what = "is gone" if now is None else "was deleted and created again"
            raise InputError(
                f"{name} {what} since the archive {folder} was created (its id was {known}, and is "
                f"{now or 'none'} now): choose another folder (this one can still be read)"
            )


def _to_json(info: ArchiveInfo) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": KIND,
        "cluster_id": info.cluster_id,
        "tool_version": info.tool_version,
        "options": dict(info.options),
        "topics": {
            name: {"partitions": len(first), "first_offsets": list(first)}
            | ({"id": info.topic_ids[name]} if name in info.topic_ids else {})
            for name, first in info.topics.items()
        },
    }


RECORDS, GAPS, OFFSETS = "records", "gaps", "offsets"

#: A range of offsets that was pruned before it could be read; adjacent ranges are merged.
GAP = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),  # exclusive
        ("found_at", schemas.TIMESTAMP),
    ]
)

# Records per row group: Parquet with smaller ones is slow to read.
_ROW_GROUP_ROWS, _ROW_GROUP_BYTES = 100_000, 32 << 20


@dataclass(frozen=True)
class ArchiveInput(RecordsOnly):
    """An archive; each method reads its current contents."""

    folder: Path

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        for path in self._files(f"{RECORDS}/source={topic}"):
            with _open(path) as file, reading_parquet(path):
                schemas.require(file.schema_arrow, schemas.RAW, str(path))
                yield from gather_batches(batches_within(path, file, schemas.RAW.names), AT_ONCE)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        from sharelag.inputs.spark.files import raw_frame

        return raw_frame(spark, self.parquet_files(topic))

    def parquet_files(self, topic: str) -> list[str]:
        return [str(path) for path in self._files(f"{RECORDS}/source={topic}")]

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """Return `sharelag.schemas.OFFSETS` of topics, without those never sampled.

        Offsets at a moment between two samples are null if the samples differ, and so is their
        ``as_of``.
        """
        newest, last = self._newest(topic_ids)
        if as_of is None or last is None or (isinstance(as_of, datetime) and as_of >= last):
            return newest
        if isinstance(as_of, datetime):
            return without_moments(self.past_offsets(topic_ids, [as_of]))
        return without_ends(newest)  # offsets of the state topic have no time

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        if not moments:
            return schemas.OFFSETS.empty_table()
        find = partial(ends_around, topic_ids=topic_ids, moments=moments)
        return offsets_at(fold_ends(_samples(self._files(OFFSETS)), find), moments)

    def gaps(self) -> pa.Table:
        """Return ranges of offsets pruned before they were read, as sorted, merged `GAP`."""
        self.info()
        tables = [_read(path, GAP) for path in self._files(GAPS)]
        rows = pa.concat_tables([GAP.empty_table(), *tables])
        order = ("topic", "partition", "first_offset")
        rows = rows.sort_by(ascending(*order))
        if rows.num_rows == 0:
            return rows
        place = keys(rows, ("topic", "partition")).dictionary_encode().indices.to_numpy()
        first, end = (rows.column(name).to_numpy() for name in ("first_offset", "end_offset"))
        apart = (np.diff(place) != 0) | (first[1:] > end[:-1])
        number = np.append(0, np.cumsum(apart))
        sums = [(name, "max" if name == "end_offset" else "min") for name in GAP.names]
        groups = rows.append_column("number", pa.array(number)).group_by("number", False)
        merged = groups.aggregate(sums)
        columns = [merged.column(f"{name}_{how}") for name, how in sums]
        return pa.table(columns, names=GAP.names).cast(GAP)

    def version(self) -> Hashable:
        return str(current(self.folder).folder)

    @property
    def cluster_id(self) -> str | None:
        return self.info().cluster_id

    def partitions(self, topic: str) -> int | None:
        return len(self.info().topics.get(topic, ())) or None  # at creation

    def size(self) -> int:
        files = self._files(f"{RECORDS}/source={STATE_TOPIC}")
        return sum(_open(path).metadata.num_rows for path in files)

    def as_of(self) -> datetime | None:
        """Return the time of the last sample of end offsets; None before the first."""
        return self._newest([])[1]

    def describe(self) -> str:
        moment = self.as_of()
        upto = f"up to {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if moment else "(still empty)"
        return f"archive of {self.info().cluster_id} {upto}"

    def info(self) -> ArchiveInfo:
        """Return the metadata; InputError if there is no archive."""
        info = read_info(self.folder)
        if info is None:
            raise InputError(
                f"no archive at {self.folder}: create one with `sharelag capture --follow`"
            )
        return info

    def _files(self, table: str) -> list[Path]:
        self.info()
        return current(self.folder).files(table)

    def _newest(self, topic_ids: Sequence[str]) -> tuple[pa.Table, datetime | None]:
        """Return the last sample and its time; deleted topics are missing from it."""
        files = self._files(OFFSETS)
        rows = _last_sample(files[-1]) if files else schemas.OFFSETS.empty_table()
        last = rows.column("as_of")[-1].as_py() if rows.num_rows else None
        return of_topics(rows, topic_ids), last


def _samples(paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """Yield end offsets in the order of sampling: those of a day may not fit into memory."""
    for path in paths:
        with _reading_samples(path) as file:
            yield from _sampled(path, file)


def _last_sample(path: Path) -> pa.Table:
    """Return the last sample of a file, which may have a whole day: from its end, and no more."""
    found = schemas.OFFSETS.empty_table()
    with _reading_samples(path) as file:
        for number in reversed(range(file.num_row_groups)):
            rows, size = found[:0], len(found) + file.metadata.row_group(number).num_rows
            for batch in _sampled(path, file, [number]):
                rows = _newest_of(pa.concat_tables([rows, as_table(batch)]))
            found = _newest_of(pa.concat_tables([rows, found]))
            if len(found) < size:
                break
    return found


def _newest_of(rows: pa.Table) -> pa.Table:
    """Return the rows of the last sample, not of the latest: clocks can go back."""
    at = rows.column("as_of")
    return rows.filter(pc.equal(at, at[-1])) if len(rows) else rows


@contextmanager
def _reading_samples(path: Path) -> Iterator[pq.ParquetFile]:
    with _open(path) as file, reading_parquet(path):
        schemas.require(file.schema_arrow, schemas.OFFSETS, str(path))
        yield file


def _sampled(
    path: Path, file: pq.ParquetFile, groups: Iterable[int] | None = None
) -> Iterator[pa.RecordBatch]:
    for batch in batches_within(path, file, schemas.OFFSETS.names, ("topic", "topic_id"), groups):
        check_values(as_table(batch), path)
        yield batch


def compact(folder: Path, target_bytes: int = 128 << 20) -> int:
    """Merge small files, even while a job is writing; return how many were merged.

    Merged files have about ``target_bytes``. It is an InputError if there is no archive, it is
    read-only, or a file is damaged; then no file has been changed.
    """
    ArchiveInput(folder).info()
    with hold_lock(folder / ".compacting"):
        view = current(folder)
        if view.folder is None:
            return 0
        scratch, add, drop = staging(folder, "compact"), dict[str, Path](), list[str]()
        try:
            for number, group in enumerate(_small_files(view, target_bytes)):
                first = group[0].stem.partition("-to-")[0]
                last = group[-1].stem.rpartition("-to-")[2]
                merged = scratch / f"{number}.parquet"
                with _open(group[0]) as file, reading_parquet(group[0]):
                    schema = file.schema_arrow
                write_parquet(merged, schema, _rows_of(group, schema))
                place = group[0].with_name(f"{first}-to-{last}.parquet")
                add[str(place.relative_to(view.folder))] = merged
                drop += [str(path.relative_to(view.folder)) for path in group]
            # Only `compact` drops files, so all still exist.
            return len(drop) if add and commit(folder, add, drop) else 0
        finally:
            shutil.rmtree(scratch)


def _rows_of(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    texts = [field.name for field in schema if field.type in (pa.string(), pa.binary())]
    for path in paths:
        with _open(path) as file, reading_parquet(path):
            if file.schema_arrow != schema:
                raise pa.ArrowInvalid(f"it has other columns than {paths[0].name}")
            yield from batches_within(path, file, texts=texts)


def write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write one file, with at most one row group in memory."""
    with writer(path, schema) as file:
        filled = (batch for batch in batches if batch.num_rows)
        for group in group_batches(filled, _ROW_GROUP_ROWS, _ROW_GROUP_BYTES):
            file.write_table(pa.Table.from_batches(group, schema))


def _small_files(view: View, target_bytes: int) -> list[list[Path]]:
    groups: list[list[Path]] = [[]]
    size = 0
    for path in view.files(""):
        length = path.stat().st_size
        is_of_other = groups[-1] and groups[-1][-1].parent != path.parent
        if max(length, size) >= target_bytes or is_of_other:
            groups.append([])
            size = 0
        if length < target_bytes:
            groups[-1].append(path)
            size += length
    return [group for group in groups if len(group) > 1]


def _open(path: Path) -> pq.ParquetFile:
    try:
        with reading_parquet(path):
            file = open_parquet(path)
            check_footer(path, file.metadata)
            return file
    except FileNotFoundError as error:
        raise InputError(
            f"{path} was merged with other files in the meantime: read the archive again"
        ) from error


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    _open(path)
    return read_table(path, schema)


# ---- views: how files appear atomically ----------------------------------------------------------
# Files appear atomically through directories of hard links and one symbolic link:
#
#     data -> .views/000000000042     the view that readers open; replaced atomically
#     .views/000000000041/...         earlier views, for readers that still use them
#     .staging/...                    files being written; readers do not look there
#
# A view never changes. Every change creates the next view, of the remaining and the new files, and
# then replaces the link. So a process can be killed at any time: the link points to a whole view,
# and the next process removes files that are in no view. Any reader follows a link, but only Spark
# understands the file list of Spark's file sink; other readers would see incomplete files.


DATA, VIEWS, STAGING = "data", ".views", ".staging"
#: Seconds that a replaced view is kept: longer than it takes to read one.
KEEP = 900.0
_NOTE = "view.json"


@dataclass(frozen=True)
class View:
    """One state of the archive's files."""

    folder: Path | None  # None if nothing has been committed
    number: int = 0
    batch: int = -1  # its last micro-batch
    day: str = ""  # of the last commit, UTC

    def files(self, table: str) -> list[Path]:
        """Return the files of one table sorted by path, which is the order of their rows."""
        return files_below(self.folder / table, ".parquet") if self.folder else []


def current(archive: Path) -> View:
    """Return the current view; its files are kept for `KEEP` seconds after it is replaced."""
    try:
        folder = archive / VIEWS / (archive / DATA).readlink().name
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        # Use only the name, a number: the link of a damaged archive may point anywhere.
        return View(folder, int(folder.name), int(note["batch"]), str(note["day"]))
    except FileNotFoundError:
        return View(None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{archive} is a damaged archive ({DATA} and {VIEWS} do not name a view, {error!r}): "
            "restore it from a copy"
        ) from error


def commit(
    archive: Path,
    add: Mapping[str, Path],
    drop: Collection[str] = (),
    batch: int = -1,
    day: str = "",
    keep: float = KEEP,
) -> bool:
    """Create the next view; return False if there is nothing to do.

    That is the case if the micro-batch has been committed before, or a file to drop is gone. A file
    system that is full or has no hard links is an InputError.

    ``add`` maps paths in the view to the new files, which must be in the archive, because hard
    links do not cross file systems. ``drop`` are the paths that they replace, ``batch`` is the
    number of the micro-batch (-1: none), ``day`` the UTC day of the commit. Replaced views are kept
    for ``keep`` seconds.
    """
    with hold_lock(archive / ".lock"):
        before = current(archive)
        paths = before.files("")
        there = {str(path.relative_to(before.folder or "")): path for path in paths}
        if 0 <= batch <= before.batch or not set(drop) <= there.keys():
            return False
        stay = {name: path for name, path in there.items() if name not in drop}
        note = {"batch": max(batch, before.batch), "day": max(day, before.day)}
        try:
            for path in add.values():
                _flush(path)
            _make(archive, f"{before.number + 1:012d}", {**stay, **add}, note)
        except OSError as error:
            raise InputError(
                f"cannot write to the archive {archive} ({error.strerror or error}): "
                "it needs space and a file system with hard links"
            ) from error
        _remove_old(archive, before.number + 1, keep)
        return True


@contextmanager
def hold_lock(path: Path, wait: float = math.inf) -> Iterator[bool]:
    """Hold a lock that ends with this process; yield whether it was acquired in time."""
    import fcntl  # not on Windows, where archives can still be read

    until = time.monotonic() + wait
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    yield False
                    return
                time.sleep(0.05)
            else:
                yield True
                return


def staging(archive: Path, who: str) -> Path:
    """Return an empty staging directory, without files of earlier processes."""
    folder = archive / STAGING / who
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _make(archive: Path, name: str, files: Mapping[str, Path], note: Mapping[str, object]) -> None:
    folder = archive / VIEWS / name
    shutil.rmtree(folder, ignore_errors=True)  # of a process killed before it replaced the link
    folder.mkdir(parents=True)
    made = {folder}
    for relative, path in files.items():
        place = folder / relative
        if place.parent not in made:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.add(place.parent)
        place.hardlink_to(path)
    (folder / _NOTE).write_text(json.dumps(note), encoding="utf-8")
    _flush(folder / _NOTE)
    link = archive / VIEWS / "next"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(VIEWS, name))  # relative: an archive may be moved
    link.replace(archive / DATA)


def _remove_old(archive: Path, newest: int, keep: float) -> None:
    """Remove views replaced long ago; a file is deleted with the last view that links to it."""
    # A view was replaced when the next one was created.
    numbered = (path for path in (archive / VIEWS).iterdir() if path.name.isdecimal())
    views = sorted(path for path in numbered if int(path.name) <= newest)
    for path, following in pairwise(views):
        if following.stat().st_mtime < time.time() - keep:
            shutil.rmtree(path)


def _flush(path: Path) -> None:
    # The checkpoint must not be ahead of the records, even after a power failure.
    with path.open("rb") as file:
        os.fsync(file.fileno())
