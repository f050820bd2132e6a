"""Files as Spark DataFrames: Parquet, also for a remote Spark, and broker log segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.errors import InputError, first_line
from sharelag.inputs.files.parquet import COMPARED_BY_SPARK, TABLE_BYTES
from sharelag.inputs.files.pieces import parquet_batches, plan, read_pieces
from sharelag.inputs.files.raw_files import MARKS, RawFile, of_paths, refusal
from sharelag.inputs.files.segments import (
    control_segments,
    partitions,
    read_control_segment,
    read_partition,
)
from sharelag.inputs.spark.frames import frame_of
from sharelag.inputs.spark.sessions import is_connect
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.tables.arrow import for_spark

#: Maximum bytes of files sent to a remote Spark, and of their decoded content.
_MOST_SENT, _MOST_DECODED = 256 << 20, TABLE_BYTES
#: Options of Spark's reader that override the session, so that no file is silently skipped.
_READ_BY_SPARK = COMPARED_BY_SPARK | {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}


def raw_frame(
    spark: SparkSession, files: Sequence[str | RawFile], schema: pa.Schema = schemas.RAW
) -> DataFrame:
    """Read raw records from Parquet files of this machine.

    Spark's tasks read them as the local engine does, with the same errors, whatever the session's
    settings for Parquet. Files that Spark cannot access are sent to it, unless they are too large.
    """
    given = of_paths(files)
    paths = [file.path for file in given]
    if not are_in_reach(spark, given):
        # The same path may be on another file system, such as a volume of a service.
        is_seen = not any(file.known for file in given) and bool(_seen(spark, paths))
        return _by_spark(spark, paths, schema) if is_seen else _send(spark, given, schema)
    tasks = plan(given, None, schema).tasks or [[]]

    def read(number: int) -> Iterator[pa.RecordBatch]:
        return read_pieces(tasks[number], schema.names, schema=schema)

    return _frame_by_number(spark, len(tasks), read, schema)


def _frame_by_number(
    spark: SparkSession,
    count: int,
    read: Callable[[int], Iterable[pa.RecordBatch]],
    schema: pa.Schema = schemas.RAW,
) -> DataFrame:

    def read_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for rows in read(number):
                    yield for_spark(rows, schema)

    return map_in_arrow(spark.range(0, count, 1, max(count, 1)), read_task, schema)


def address(spark: SparkSession, place: str) -> DataFrame:
    """Read raw records from Parquet at an address that only Spark knows.

    The session's settings for Parquet have no effect. It is an InputError if there are no Parquet
    files, or for a table of which only some files are current.
    """
    try:
        for mark, kind in MARKS.items():
            if _is_at(spark, f"{place}/{mark}"):
                raise InputError(refusal(place, kind, place))
        return _by_spark(spark, [place], schemas.RAW)
    except InputError:
        raise
    except Exception as error:  # Java's error about the address, wrapped in one of Spark's
        # The text of Java's error, without the names of its classes.
        parts = str(error).removeprefix("An error occurred while calling").partition("\n: ")
        words = first_line(Exception(parts[2] or parts[0])).rpartition("Exception: ")[2].rstrip(".")
        raise InputError(
            f"cannot read Parquet from {place}: {words}. Check the address, and that "
            "Spark has the package that reads such ones"
        ) from error


def _by_spark(spark: SparkSession, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
    frame = spark.read.options(**_READ_BY_SPARK).parquet(*paths)
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    for field in schemas.spark_schema(schema).fields:
        # The session may read binary as text, or values in folder names not as numbers.
        is_text = kinds.get(field.name) == "string"
        if is_text and field.dataType.simpleString() in ("binary", "int"):
            frame = frame.withColumn(field.name, frame[field.name].cast(field.dataType))
    return frame


def _is_at(spark: SparkSession, pattern: str) -> bool:
    try:
        spark.read.format("binaryFile").load(pattern).schema  # noqa: B018  # looks for it
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return True


def files_in_reach(spark: SparkSession, source: Any, topic: str) -> Sequence[str | RawFile] | None:
    """Return Parquet files with all records of a topic, if Spark's tasks see the same files.

    An input has records in local files if it has a method ``parquet_files(topic)``.
    """
    files = source.parquet_files(topic) if hasattr(source, "parquet_files") else None
    return files if files and are_in_reach(spark, of_paths(files)) else None


def are_in_reach(spark: SparkSession, files: Sequence[RawFile]) -> bool:
    """Return whether Spark's tasks see the same files as this process."""
    paths = [file.path for file in files]
    master = spark.conf.get("spark.master", "") or ""
    if not paths or (not is_connect(spark) and master.startswith("local")):
        return True
    seen = _seen(spark, paths)
    return bool(seen) and all(path.startswith("file:") for path in seen)


def _seen(spark: SparkSession, paths: Sequence[str]) -> Sequence[str]:
    """Return the paths at which Spark finds all of these files; none if it lacks any."""
    try:
        # With a schema, Spark lists files without opening them: the reader says what is wrong.
        return spark.read.schema("key binary").parquet(*paths).inputFiles()
    except AnalysisException:  # a Connect server on another machine
        return []


def is_table_of(spark: SparkSession, name: str) -> bool:
    """Return whether Spark has a table or a view of this name."""
    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # its first part is not a catalog of this Spark
        return False


def segments(spark: SparkSession, folder: Path, topic: str, control: bool = False) -> DataFrame:
    """Read a topic from a broker's log directory, with a task per partition or control segment.

    All workers need access to it. With ``control``, control records in users' topics count, too.
    """
    places = sorted(number for name, number in partitions(folder) if name == topic)
    found = control_segments(folder) if control else []

    def read(number: int) -> Iterator[pa.RecordBatch]:
        if number < len(places):
            yield from read_partition(folder, topic, places[number])
        else:  # a segment of another topic
            yield read_control_segment(folder, *found[number - len(places)])

    return _frame_by_number(spark, len(places) + len(found), read)


def _send(spark: SparkSession, files: Sequence[RawFile], schema: pa.Schema) -> DataFrame:
    folder = Path(files[0].path).parent
    advice = "send: copy the folder to a place that Spark can read, and give that path"
    size = sum(Path(file.path).stat().st_size for file in files)
    if size > _MOST_SENT:
        raise InputError(
            f"Spark cannot access {folder}, and its {size >> 20:,} MiB are too large to {advice}"
        )
    batches, total = [], 0
    # Dictionaries repeat values: decoded records may be much larger than their files.
    for batch in parquet_batches(files, schema=schema):
        batches.append(batch)
        total += batch.nbytes
        if total > _MOST_DECODED:
            raise InputError(
                f"Spark cannot access {folder}, and its records have more than "
                f"{_MOST_DECODED >> 20:,} MiB, too many to {advice}"
            )
    return frame_of(spark, pa.Table.from_batches(batches, schema))
