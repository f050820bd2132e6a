"""End offsets for joins with a stream: read again for each micro-batch, or explicitly constant."""

from __future__ import annotations

import inspect
import io
import logging
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

from sharelag import schemas
from sharelag.errors import InputError, ShareLagError, first_line
from sharelag.inputs.files.parquet import open_table
from sharelag.inputs.files.raw_files import absolute
from sharelag.inputs.spark.files import is_table_of
from sharelag.inputs.spark.frames import as_frame, is_of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sharelag.inputs.spark.frames import Tabular

#: A source that can be read again: a folder, a table's name, or a function that returns rows.
Ends: TypeAlias = "str | Path | Callable[[], Tabular]"

_LOG = logging.getLogger(__name__)
# Number of attempts to list a folder whose files are replaced between listing and reading.
_ATTEMPTS = 10
# Leaves of a plan that do not change: files, which Spark lists once, and local rows. Another kind
# of file index, such as Delta's, lists its files again.
_FILES = re.compile(r"^\W*Relation \S*\[.*\] (parquet|orc|csv|json|text|avro)\s*$", re.MULTILINE)
_LISTED = re.compile(r"InMemoryFileIndex")
_ROWS = re.compile(r"^\W*(LocalRelation|LogicalRDD|ExternalRDD)\b", re.MULTILINE)
_INSTEAD = (
    "give the path of the folder, the name of a table, or a function that gives the rows (or in "
    "foreachBatch, sharelag.stream.lag(changes, offsets) with what was read there)"
)


def ends_beside_stream(
    offsets: Ends | Tabular, windows: DataFrame
) -> DataFrame | Callable[[], pa.Table]:
    """Return a DataFrame that Spark reads again, or a function for tasks to call per micro-batch.

    ``offsets`` as for `sharelag.stream.lag`; ``windows`` is the other side of the join. It is an
    InputError if offsets cannot be read again, or lack columns.
    """
    found = _found(offsets, windows.sparkSession)
    if callable(found):
        _require_portable(found)
    elif windows.isStreaming:
        _require_current(found)
    return found


def read_ends(offsets: Ends | Tabular, spark: SparkSession) -> pa.Table:
    """Read `sharelag.schemas.OFFSETS` now, in the driver, where a function may use the session.

    Parameters and errors as for `ends_beside_stream`; a function may return a DataFrame, too.
    """
    found = _found(offsets, spark)
    if callable(found):
        return found()
    _require_current(found)
    return found.select(schemas.OFFSETS.names).toArrow().cast(schemas.OFFSETS, safe=False)


def _found(offsets: Ends | Tabular, spark: SparkSession) -> DataFrame | partial[pa.Table]:
    if isinstance(offsets, str | Path):
        path = str(offsets)
        if "://" in path or Path(absolute(path)).exists():
            return partial(_read_folder, absolute(path))
        if not is_table_of(spark, path):
            raise InputError(f"there are no offsets at {path}: neither a path nor a table of Spark")
        folder = _folder_of(spark, path)
        if folder is not None:
            return partial(_read_folder, folder)
        return as_frame(spark.read.table(path), schemas.OFFSETS, path, spark)
    if callable(offsets):
        return partial(_call, offsets)
    if is_of_spark(offsets) and getattr(offsets, "isStreaming", False):
        raise InputError(f"offsets cannot be a stream: write them to a table, and {_INSTEAD}")
    return as_frame(offsets, schemas.OFFSETS, "offsets", spark)


def _folder_of(spark: SparkSession, table: str) -> str | None:
    """Return the folder of a Parquet table, whose files Spark lists once; None for other tables."""
    rows = spark.sql(f"describe extended {table}").toArrow().to_pylist()
    about = {row["col_name"]: row["data_type"] for row in rows}
    if about.get("Provider", "").lower() != "parquet" or "Location" not in about:
        return None
    return str(about["Location"]).removeprefix("file:")


def _call(function: Callable[[], Any]) -> pa.Table:
    try:
        given = function()
    except ShareLagError:
        raise
    except Exception as error:  # the user's own code may raise anything
        raise InputError(
            f"the function that gives the offsets raised {type(error).__name__}: "
            f"{first_line(error)}; it must return rows whenever it is called"
        ) from error
    if is_of_spark(given):
        schemas.require_conformable(given.schema, schemas.OFFSETS, "offsets")
        given = given.select(schemas.OFFSETS.names).toArrow()
    return schemas.conform_given(given, schemas.OFFSETS, "offsets")


def _read_folder(path: str) -> pa.Table:
    for _ in range(_ATTEMPTS):
        try:
            # Only deltalake can tell whether another address is a Delta table.
            is_here = "://" not in path
            may_be = (Path(path) / "_delta_log").is_dir() if is_here else find_spec("deltalake")
            if may_be and (table := open_table(path)) is not None:
                dataset = table.to_pyarrow_dataset()
            else:
                dataset = ds.dataset(path, format="parquet", partitioning="hive")
                if not dataset.files:  # an overwrite has removed them, and new ones will follow
                    return schemas.OFFSETS.empty_table()
            schemas.require_conformable(dataset.schema, schemas.OFFSETS, path)
            rows = dataset.to_table(schemas.OFFSETS.names)
            return schemas.conform_given(rows, schemas.OFFSETS, path)
        except FileNotFoundError as error:  # replaced since they were listed
            gone = error
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"cannot read the offsets at {path} ({first_line(error)}): it must be a folder of "
                "Parquet files, or of a Delta table"
            ) from error
    raise InputError(
        f"the offsets at {path} are gone: write them there again, or give another place"
    ) from gone


def _require_portable(function: partial[pa.Table]) -> None:
    from pyspark import cloudpickle

    (inner,) = function.args
    try:
        cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        refused = "it uses the session" if _uses_session(inner) else ""
    except Exception as error:
        refused = first_line(error)
    if refused:
        raise InputError(
            f"offsets: Spark cannot send {inner!r} to its workers ({refused}). It must give rows "
            f"of pandas or Arrow without the session; else {_INSTEAD}"
        )


def _uses_session(function: Callable[[], Any]) -> bool:
    """Return whether a function refers to a session or DataFrame; on Connect these are pickled."""
    if not inspect.isfunction(function):
        return False
    named = inspect.getclosurevars(function)
    values = [*named.nonlocals.values(), *named.globals.values()]
    return any(hasattr(one, "sparkSession") or hasattr(one, "createDataFrame") for one in values)


def _require_current(frame: DataFrame) -> None:
    """Reject files that Spark has listed once; warn that local rows do not change."""
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain("extended")
    text = plan.getvalue()
    analyzed = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
    if _FILES.search(analyzed) and _LISTED.search(text):
        raise InputError(
            "the offsets are a DataFrame of files, which Spark lists once: beside a stream they "
            f"would stay as they are, or be missing. Instead, {_INSTEAD}"
        )
    if _ROWS.search(analyzed):
        _LOG.warning(
            "the offsets beside this stream are rows in hand, which stay as they are: lag does not "
            "grow as records arrive. To keep it current, %s",
            _INSTEAD,
        )
