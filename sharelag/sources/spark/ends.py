"""End offsets beside a stream: read anew for each micro-batch, or said to stay as they are."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError, first_line
from sharelag.schemas.arrow import as_table
from sharelag.sources.spark.files import is_table_of
from sharelag.sources.spark.tabular import as_arrow, as_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sharelag.sources.spark.tabular import Tabular

#: What is read anew: a folder, the name of a table, or a function that gives the rows.
Ends: TypeAlias = "str | Path | Callable[[], Tabular]"

_LOG = logging.getLogger(__name__)
# How often to list a folder again whose files were replaced between listing and reading.
_ATTEMPTS = 10
# What the leaves of a plan are: files without a table around them, which Spark lists once, and rows
# that came with it. A file index of another kind, such as Delta's, looks again.
_FILES = re.compile(r"^\W*Relation \[.*\] (parquet|orc|csv|json|text|avro)\s*$", re.MULTILINE)
_LISTED = re.compile(r"InMemoryFileIndex")
_ROWS = re.compile(r"^\W*(LocalRelation|LogicalRDD|ExternalRDD)\b", re.MULTILINE)
_INSTEAD = (
    "give the path of the folder, the name of a table, or a function that gives the rows (or in "
    "foreachBatch, sharelag.stream.lag(changes, offsets) with what was read there)"
)


def ends_beside_stream(
    offsets: Ends | Tabular, windows: DataFrame
) -> DataFrame | Callable[[], pa.Table]:
    """Return what is read anew by Spark, or a function that a task calls for each micro-batch.

    Parameters
    ----------
    offsets
        As for `sharelag.stream.lag`.
    windows : pyspark.sql.DataFrame
        What they are to stand beside; if it is no stream, any DataFrame will do.

    Raises
    ------
    InputError
        When they cannot be read anew, or have other columns.
    """
    spark = windows.sparkSession
    if isinstance(offsets, str) and not Path(offsets).exists() and is_table_of(spark, offsets):
        offsets = spark.read.table(offsets)
    if isinstance(offsets, str | Path) or callable(offsets):
        return ends_function(offsets)
    frame = as_frame(cast("Tabular", offsets), schemas.OFFSETS, "offsets", spark)
    if frame.isStreaming:
        raise InputError(f"offsets cannot be a stream: write them to a table, and {_INSTEAD}")
    if windows.isStreaming:
        _require_current(frame)
    return frame


def ends_function(offsets: Ends) -> Callable[[], pa.Table]:
    """Return a function that reads the latest ends of a folder or of the user's function.

    Raises
    ------
    InputError
        When there is no such folder, or a worker cannot get the function.
    """
    if callable(offsets):
        _require_portable(offsets)
        return _Called(offsets)
    path = str(offsets)
    if "://" not in path:
        if not Path(path).exists():
            raise InputError(f"there are no offsets at {path}: neither a path nor a table of Spark")
        path = str(Path(path).absolute())
    return _Folder(path)


def latest_rows(offsets: schemas.Arrow) -> pa.Table:
    """Return the last row of each topic partition; rows without a time come first."""
    table = as_table(offsets)
    place = ["topic_id", "partition"]
    order = [(name, "ascending") for name in place]
    table = table.take(
        pa.compute.sort_indices(table, [*order, ("as_of", "ascending")], null_placement="at_start")
    )
    rows = table.append_column("row", pa.array(range(len(table)), pa.int64()))
    last = rows.group_by(place, use_threads=False).aggregate([("row", "max")]).column("row_max")
    return table.take(last)


@dataclass(frozen=True)
class _Called:
    function: Callable[[], Any]

    def __call__(self) -> pa.Table:
        given = self.function()
        if hasattr(given, "sparkSession"):
            raise InputError(f"offsets: a worker cannot read a DataFrame of Spark; {_INSTEAD}")
        return latest_rows(as_arrow(given, schemas.OFFSETS, "offsets"))


@dataclass(frozen=True)
class _Folder:
    path: str

    def __call__(self) -> pa.Table:
        for attempt in range(_ATTEMPTS):
            try:
                return latest_rows(self._read())
            except FileNotFoundError as error:
                if attempt == _ATTEMPTS - 1:
                    raise InputError(f"cannot read offsets: {first_line(error)}") from error
        raise AssertionError

    def _read(self) -> pa.Table:
        if _is_delta(self.path):
            try:
                from deltalake import DeltaTable
            except ImportError as error:
                raise InputError(
                    "Delta tables need deltalake: pip install 'sharelag[lake]'"
                ) from error
            dataset = DeltaTable(self.path).to_pyarrow_dataset()
        else:
            import pyarrow.dataset as ds

            dataset = ds.dataset(self.path, format="parquet", partitioning="hive")
            if not dataset.files:  # an overwrite has removed them, and the others are to come
                return schemas.OFFSETS.empty_table()
        schemas.require(dataset.schema, schemas.OFFSETS, self.path)
        return dataset.to_table(schemas.OFFSETS.names).cast(schemas.OFFSETS, safe=False)


def _is_delta(path: str) -> bool:
    if "://" not in path:
        return (Path(path) / "_delta_log").is_dir()
    try:
        from deltalake import DeltaTable
    except ImportError:
        return False
    return bool(DeltaTable.is_deltatable(path))


def _require_portable(function: Callable[[], Any]) -> None:
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(function)
    except Exception as error:
        raise InputError(
            f"offsets: Spark cannot send {function!r} to its workers ({first_line(error)}). It "
            f"must give rows of pandas or Arrow without the session; else {_INSTEAD}"
        ) from error


def _require_current(frame: DataFrame) -> None:
    """Refuse files that Spark has listed once; say of rows in hand that they stay."""
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain("extended")
    text = plan.getvalue()
    analyzed = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
    if _FILES.search(analyzed) and _LISTED.search(text):
        raise InputError(
            "the offsets are a DataFrame of files, which Spark lists once: beside a stream they "
            f"would never change. Instead, {_INSTEAD}"
        )
    if _ROWS.search(analyzed):
        _LOG.warning(
            "the offsets beside this stream are rows in hand, which stay as they are: lag does not "
            "grow as records arrive. To keep it current, %s",
            _INSTEAD,
        )
