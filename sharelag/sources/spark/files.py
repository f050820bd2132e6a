"""Files as Spark DataFrames: Parquet, also for a remote Spark, and a broker's segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.schemas.arrow import for_spark
from sharelag.sources.files.batches import gathered
from sharelag.sources.files.bounds import AT_ONCE, TABLE_BYTES, batches_within, check_footer
from sharelag.sources.files.control import control_segments, read_control_segment
from sharelag.sources.files.damage import reading_parquet
from sharelag.sources.files.parquet import COMPARED_BY_SPARK, opened
from sharelag.sources.files.segments import partitions, read_partition
from sharelag.sources.spark.sessions import is_connect
from sharelag.sources.spark.workers import map_in_arrow
from sharelag.wire.fields import STATE_TOPIC

#: Maximum size in bytes of files that are sent to a remote Spark, and of what is in them.
_MOST_SENT, _MOST_DECODED = 256 << 20, TABLE_BYTES


def parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read raw records from Parquet.

    If a Connect server cannot access the files of this machine, they are sent to it.

    Raises
    ------
    InputError
        When they would have to be sent but are too large.
    """
    frame = spark.read.options(**COMPARED_BY_SPARK).parquet(*paths)
    try:
        frame.schema  # noqa: B018  # asks whether the paths are there
    except AnalysisException as error:
        files = [file for path in paths for file in _parquet_files(Path(path))]
        if "PATH_NOT_FOUND" not in str(error) or not files:
            raise
        return _sent(spark, files)
    return frame


def files_in_reach(spark: SparkSession, source: object, topic: str) -> list[str] | None:
    """Return Parquet files with all records of a topic, if Spark's tasks see the same files.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    source : Input
        One with ``parquet_files(topic)`` has its records in files of this machine.
    topic : str

    Returns
    -------
    list of str or None
        None where only Spark itself can read the records.
    """
    listed = getattr(source, "parquet_files", None)
    paths: list[str] | None = None if listed is None else listed(topic)
    if not paths or (not is_connect(spark) and _master(spark).startswith("local")):
        return paths
    try:
        seen = spark.read.parquet(*paths).inputFiles()
    except AnalysisException:  # a Connect server elsewhere
        return None
    return paths if all(path.startswith("file:") for path in seen) else None


def _master(spark: SparkSession) -> str:
    return spark.conf.get("spark.master", "") or ""


def is_table_of(spark: SparkSession, name: str) -> bool:
    """Whether Spark has a table or a view of this name."""
    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # the name has parts that no catalog of this Spark has
        return False


def segments(spark: SparkSession, folder: Path, topic: str, control: bool = False) -> DataFrame:
    """Read a topic from a broker's log directory, with one task per partition.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    folder : pathlib.Path
        Must be accessible for all Spark workers.
    topic : str
    control : bool
        Control records in users' topics count although there is a ``__share_group_state``.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.RAW`.
    """
    places = sorted(number for name, number in partitions(folder) if name == topic)
    found = control_segments(folder, control) if topic == STATE_TOPIC else []
    if found and not places:
        return _control(spark, folder, found)

    def read_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for rows in read_partition(folder, topic, places[index]):
                    yield for_spark(rows, schemas.RAW)

    numbers = spark.range(0, len(places), 1, max(len(places), 1))
    frame = map_in_arrow(numbers, read_task, schemas.RAW)
    return frame.unionByName(_control(spark, folder, found)) if found else frame


def _control(
    spark: SparkSession, folder: Path, control: Sequence[tuple[tuple[str, int], Path]]
) -> DataFrame:
    """Read control records, with one task per segment."""

    def read_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                place, segment = control[index]
                yield for_spark(read_control_segment(folder, place, segment), schemas.RAW)

    numbers = spark.range(0, len(control), 1, len(control))
    return map_in_arrow(numbers, read_task, schemas.RAW)


def _parquet_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet")) if path.is_dir() else [path] if path.is_file() else []


def _sent(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    size = sum(file.stat().st_size for file in files)
    if size > _MOST_SENT:
        raise InputError(
            f"Spark cannot access {files[0].parent}, and its {size >> 20:,} MiB are too large to "
            "send: copy the folder to a place that Spark can read, and give that path"
        )
    return sent(spark, [pa.RecordBatch.from_pylist([], schemas.RAW), *_decoded(files)])


def _decoded(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """Yield the raw records of files as they are sent: a repeated value is in each of its rows."""
    total = 0
    for path in files:
        with reading_parquet(path), opened(path) as file:
            schemas.require_conformable(file.schema_arrow, schemas.RAW, str(path))
            check_footer(path, file.metadata)
            names = [name for name in schemas.RAW.names if name in file.schema_arrow.names]
            for batch in gathered(batches_within(path, file, names), AT_ONCE):
                found = schemas.conform(batch, schemas.RAW, str(path))
                total += found.nbytes
                if total > _MOST_DECODED:
                    raise InputError(
                        f"Spark cannot access {files[0].parent}, and its records have more than "
                        f"{_MOST_DECODED >> 20:,} MiB, too many to send: copy the folder to a "
                        "place that Spark can read, and give that path"
                    )
                yield found


def sent(spark: SparkSession, batches: Iterable[pa.RecordBatch]) -> DataFrame:
    """Return raw records of this process as a DataFrame."""
    rows = [pa.Table.from_batches([for_spark(batch, schemas.RAW)]) for batch in batches]
    return spark.createDataFrame(pa.concat_tables(rows))
