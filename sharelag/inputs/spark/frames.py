"""The user's DataFrames as an input: raw records and offsets from any connector or table."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.contract import IN_PARTS, RecordsOnly
from sharelag.inputs.files.pieces import parquet_batches
from sharelag.inputs.files.raw_files import Condition, RawFile, local_path
from sharelag.inputs.offsets import ends_as_of, ends_between, fold_ends
from sharelag.inputs.spark import session
from sharelag.inputs.spark.data_source import FORMAT
from sharelag.inputs.spark.sessions import has_stopped, is_connect
from sharelag.inputs.spark.workers import explain_failures, map_in_arrow
from sharelag.tables.arrow import as_table, for_spark, one_batch
from sharelag.tables.conform import PLACE, not_whole, without_place
from sharelag.tables.gaps import KAFKA_SETTING

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

    class ArrowStream(Protocol):
        """A table of any library that exports Arrow streams, such as polars."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            """Return the rows in a PyCapsule."""

    #: Rows in a table of the user's.
    Tabular: TypeAlias = DataFrame | pd.DataFrame | pa.Table | pa.RecordBatch | ArrowStream


#: The setting for the number of rows that Spark sends to Python at once.
_MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def is_of_spark(given: Any) -> bool:
    """Return whether a table is a DataFrame of Spark, classic or Connect."""
    # Look at the type: a Spark Column seems to have every attribute, as names of its fields.
    return hasattr(type(given), "sparkSession")


def as_frame(
    given: Tabular, schema: pa.Schema, what: str, spark: SparkSession | None = None
) -> DataFrame:
    """Convert a Spark DataFrame, or a table of this process, to the types of a schema.

    A Spark DataFrame with these types is returned unchanged; in another one, a value that does not
    fit raises when its row is read. A table that `sharelag.tables.conform.conform` rejects is an
    InputError that calls it ``what``. ``spark`` is by default the active session, or a local one.
    """
    if is_of_spark(given):
        if has_stopped(cast("DataFrame", given).sparkSession):
            raise InputError(
                f"{what}: the Spark session of this DataFrame was stopped: make it again in one "
                "that runs"
            )
        return _with_types(cast("DataFrame", given), schema, what)
    return frame_of(spark or session(), schemas.conform_given(given, schema, what))


def frame_of(spark: SparkSession, table: schemas.Arrow) -> DataFrame:
    """Make a DataFrame of a local table, with its columns even if it has no rows."""
    batch = one_batch(table)
    if not batch.num_rows:  # Spark cannot infer types without rows
        return spark.createDataFrame([], schemas.spark_schema(batch.schema))
    rows = for_spark(batch, batch.schema)
    if int(spark.conf.get(_MOST_ROWS, "1") or 1) <= 0:  # no limit, which pyspark rejects for tables
        return map_in_arrow(spark.range(0, 1, 1, 1), lambda _: iter([rows]), batch.schema)
    return spark.createDataFrame(as_table(rows))


def _with_types(frame: DataFrame, schema: pa.Schema, what: str) -> DataFrame:
    schemas.require_conformable(frame.schema, schema, what)
    _require_distinct(frame, schema, what)
    there = {field.name: field for field in frame.schema.fields}
    casts = {
        column.name: made
        for column in schemas.spark_schema(schema).fields
        if (made := _cast(there.get(column.name), column, schema, what)) is not None
    }
    if not casts:
        return frame
    return frame.select([casts.get(name, name) for name in schema.names])


def _require_distinct(frame: DataFrame, schema: pa.Schema, what: str) -> None:
    """Reject columns whose names are equal for Spark, such as ``key`` and ``Key``."""
    there = frame.schema.names
    for name in schema.names:
        alike = [other for other in there if other.lower() == name.lower()]
        if len(alike) > 1 and frame.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            raise InputError(
                f"{what}: Spark does not distinguish the columns {' and '.join(alike)}: drop or "
                "rename those that are not meant, or set spark.sql.caseSensitive to true"
            )


def _cast(
    got: StructField | None, field: StructField, schema: pa.Schema, what: str
) -> Column | None:
    """Return a column cast to its type in a schema; None if it has that type already."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    name, kind = field.name, field.dataType
    if got is None:
        return f.lit(None).cast(kind).alias(name)
    is_same = got.dataType.simpleString() == kind.simpleString()
    is_place = schema is schemas.OFFSETS and name in PLACE and got.nullable
    if is_same and not is_place:
        return None  # creating a column takes a dozen messages to Java
    column = f.col(name)
    if isinstance(got.dataType, t.TimestampNTZType):
        # A cast would apply the session's time zone.
        column = f.concat(column.cast("string"), f.lit("Z")).cast(kind)
    elif isinstance(got.dataType, t.NumericType) and not is_same:
        column = _whole(column, got.dataType, kind, not_whole(what, schema.field(name)))
    elif not is_same:
        column = column.cast(kind)
    if is_place:
        column = f.coalesce(column, _refuse(without_place(what), kind))
    return column.alias(name)


def _whole(column: Column, got: Any, kind: Any, advice: str) -> Column:
    """Cast numbers to an integer type; a value out of its range is an error, NaN becomes null."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if not isinstance(kind, t.IntegralType):
        return column.cast(kind)
    if isinstance(got, t.FloatType | t.DoubleType):
        column = f.when(~f.isnan(column), column)
    number = column.try_cast(kind)
    fits = column.isNull() | (number.isNotNull() & (number == column))
    return f.when(fits, number).otherwise(_refuse(advice, kind))


def _refuse(advice: str, kind: Any) -> Column:
    """Return a column that raises when a row is read; its line becomes the error of the answer."""
    from pyspark.sql import functions as f

    return f.raise_error(f.lit(f"{InputError.__name__}: {advice}\n")).cast(kind)


@dataclass(frozen=True, eq=False)
class FrameInput(RecordsOnly):
    """Raw records and end offsets as Spark DataFrames.

    ``raw`` has `sharelag.schemas.RAW`, as `as_frame` returns it; other columns are ignored, and
    records of both topics may be mixed. ``given_offsets`` has `sharelag.schemas.OFFSETS`, one row
    per topic partition, or several at different moments: then the last one up to a moment is the
    end at that moment, and all of them are past ends. Beside a stream it is anything that
    `sharelag.stream.lag` accepts. A column that is missing or of another type is an InputError.
    """

    holds_both = True
    may_lack = IN_PARTS
    raw: DataFrame
    given_offsets: Any = None

    def __post_init__(self) -> None:
        schemas.require(self.raw, schemas.RAW, "raw records")
        if is_of_spark(self.given_offsets):
            schemas.require_conformable(self.given_offsets.schema, schemas.OFFSETS, "offsets")
            if self.given_offsets.isStreaming:
                raise InputError(
                    "offsets cannot be a stream: write them to a table, and give its name or path"
                )

    def as_of(self) -> datetime | None:
        return self._last_ends

    @cached_property
    def _last_ends(self) -> datetime | None:
        """The time of the last end offsets, which may run a query; None without end offsets."""
        from pyspark.sql import functions as f

        if self.given_offsets is None:
            return None
        if (known := read_here(self.given_offsets)) is not None:
            return cast("datetime | None", pc.max(known.column("as_of")).as_py())
        with explain_failures():
            last = self.given_offsets.agg(f.max("as_of").alias("as_of")).toArrow().column("as_of")
        return cast("datetime | None", last.cast(schemas.TIMESTAMP, safe=False)[0].as_py())

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        raise InputError("a DataFrame is read on Spark: use engine='spark'")

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        names = schemas.RAW.names
        # Unchanged if possible: a DataFrame derived from it hides its source.
        return self.raw if self.raw.columns == names else self.raw.select(names)

    def parquet_files(self, topic: str) -> list[RawFile] | None:
        """Parquet files that the DataFrame merely scans; None if it does more, or reads others."""
        return find_files(self.raw)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        until = as_of if isinstance(as_of, datetime) else None
        find = partial(ends_as_of, topic_ids=topic_ids, as_of=as_of)
        return self._find_ends(find, None, until)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        if not moments:
            return schemas.OFFSETS.empty_table()
        find = partial(ends_between, topic_ids=topic_ids, moments=moments)
        return self._find_ends(find, min(moments), max(moments))

    def _find_ends(
        self, find: Callable[[pa.Table], pa.Table], first: datetime | None, last: datetime | None
    ) -> pa.Table:
        """Apply a function to the offsets of a span in each task, then to the combined results."""
        from pyspark.sql import functions as f

        rows = self.given_offsets
        if rows is None:
            return schemas.OFFSETS.empty_table()
        if (known := read_here(rows)) is not None:
            return find(known)
        rows = rows.select(schemas.OFFSETS.names)
        if first is not None:
            rows = rows.where(f.col("as_of") >= f.lit(first))
        if last is not None:  # Kafka has milliseconds
            rows = rows.where(f.col("as_of") < f.lit(last + timedelta(milliseconds=1)))

        def find_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield for_spark(one_batch(fold_ends(batches, find)), schemas.OFFSETS)

        with explain_failures():
            found = map_in_arrow(rows, find_task, schemas.OFFSETS).toArrow()
        return find(found.cast(schemas.OFFSETS))

    def size(self) -> int:
        return sys.maxsize

    def describe(self) -> str:
        without = "" if self.given_offsets is not None else ", without offsets"
        return f"a DataFrame of raw records{without}"


def read_here(offsets: Any, later: bool = False) -> pa.Table | None:
    """Read end offsets here if a DataFrame merely scans a few small files; None otherwise.

    ``later`` as for `find_files`.
    """
    files = find_files(offsets, later, schemas.OFFSETS)
    if files is None:
        return None
    try:
        if sum(Path(file.path).stat().st_size for file in files) > _READ_HERE:
            return None
        batches = parquet_batches(files, schema=schemas.OFFSETS)
        found = pa.Table.from_batches(batches, schemas.OFFSETS)
    except (InputError, OSError):
        return None  # Spark reports the fault when it reads the rows
    return schemas.conform_given(found, schemas.OFFSETS, "offsets")


def find_files(
    frame: Any, later: bool = False, schema: pa.Schema = schemas.RAW
) -> list[RawFile] | None:
    """Return the local Parquet files that a DataFrame scans, with the conditions on their rows.

    For a union they are the files of all its parts. None if Spark must read it: cached rows, rows
    selected by more than comparisons of a column with values, computed columns, and tables whose
    files hold more than the current rows; with ``later``, also files that Spark may list again
    before it reads them: those of a catalog table, after an insert.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if is_connect(frame.sparkSession) or frame.isStreaming:
        return None
    query = frame._jdf.queryExecution()
    try:
        # Check this first: planning may take long, and for a Delta table it runs jobs.
        for leaf in _items(query.withCachedData().collectLeaves()):
            if leaf.relation().location().getClass().getSimpleName() != "InMemoryFileIndex":
                return None
        return list(_list_files(query.sparkPlan(), later, schema))
    # Another kind of plan or condition; or an error that Spark would raise while reading.
    except (Py4JError, LookupError, PySparkException):
        return None


def _list_files(plan: Any, later: bool, schema: pa.Schema) -> Iterator[RawFile]:
    """Yield the files that a Java plan merely scans, with their conditions; raise otherwise."""
    if plan.nodeName() == "Union":  # columns match by position, not by name
        for part in _items(plan.children()):
            if _names(part) != _names(plan):
                raise LookupError("columns of other names")
            yield from _list_files(part, later, schema)
        return
    columns = plan.outputSet()
    where: list[Condition] = []
    while plan.nodeName() in _CHOOSING:
        if plan.nodeName() == "Filter":
            where += _conditions(plan.condition())
        plan = plan.child()
    relation = plan.relation()
    folders = {name.lower() for name in relation.partitionSchema().fieldNames()}
    is_scan = (
        relation.fileFormat().getClass().getSimpleName() == "ParquetFileFormat"
        and set(schema.names) <= set(relation.dataSchema().fieldNames())
        and folders.isdisjoint(name.lower() for name in schema.names)
        and columns.subsetOf(plan.outputSet())
        and not (later and plan.tableIdentifier().isDefined())
    )
    if not is_scan:
        raise LookupError("more than a scan of Parquet files")
    listed = relation.location().listFiles(plan.partitionFilters(), plan.dataFilters())
    for folder in _items(listed):
        for file in _items(folder.files()):
            path = local_path(file.getPath().toUri().toString())
            if path is None:
                raise LookupError("a file elsewhere")
            yield RawFile(path, where=tuple(where))


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(at) for at in range(sequence.size()))


def _names(plan: Any) -> list[str]:
    return [column.name() for column in _items(plan.output())]


#: Spark's names of comparisons of a column with a value.
_COMPARISONS = {
    "EqualTo": "==",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
#: Columns whose conditions are applied while files are read.
_COMPARED = ("topic", "partition", "offset", "timestamp")
#: Functions that convert a literal in a Spark plan, by type.
_VALUES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "string": str,
    "timestamp": lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros),
}


def _conditions(condition: Any) -> list[Condition]:
    """Return the comparisons of which a Java condition consists; raise for any other condition."""
    found = list(_comparisons(condition))
    compared = {name for name, comparison, _ in found if comparison}
    if any(name not in compared for name, *_ in found):
        raise LookupError("a column that is only to have a value")
    return [one for one in found if one[1]]


def _comparisons(part: Any) -> Iterator[Condition]:
    """Yield the comparisons in a Java condition; that of IsNotNull is an empty text."""
    kind = part.getClass().getSimpleName()
    if kind == "And":
        yield from _comparisons(part.left())
        yield from _comparisons(part.right())
    elif kind == "IsNotNull":  # Spark adds it to every compared column
        yield part.child().name(), "", None
    elif kind in ("In", "InSet"):
        column = part.value() if kind == "In" else part.child()
        given = _items(part.list() if kind == "In" else part.hset().toSeq())
        values = (one.value() if kind == "In" else one for one in given)
        yield column.name(), "in", tuple(_value(column, one) for one in values)
    else:
        column = part.left()
        yield column.name(), _COMPARISONS[kind], _value(column, part.right().value())


def _value(column: Any, value: Any) -> Any:
    """Return the literal that a Java condition compares with a column of a record's position."""
    if value is None or column.name() not in _COMPARED:
        raise LookupError("a column that is not read for all answers, or a null")
    return _VALUES[column.dataType().simpleString()](value)


def latest_offsets(offsets: DataFrame) -> DataFrame:
    """Return the last row of each topic partition, as `latest_ends` does for local tables."""
    from pyspark.sql import functions as f

    when = f.coalesce("as_of", f.lit(datetime(1970, 1, 1, tzinfo=UTC)))
    last = f.max_by(f.struct(*schemas.OFFSETS.names), f.struct(when, "end_offset")).alias("last")
    # Kafka has milliseconds; Spark has microseconds.
    rows = offsets.withColumn("as_of", f.date_trunc("millisecond", "as_of"))
    rows = rows.groupBy("topic_id", "partition").agg(last)
    return rows.select("last.*").select(schemas.OFFSETS.names)


# ---- Spark's own Kafka source -------------------------------------------------------------------


_LOG = logging.getLogger(__name__)
#: End offsets in files up to this size are read in this process; a Spark query would take 0.25 s.
_READ_HERE = 4 << 20
#: Nodes of Spark's plans that select columns and rows.
_CHOOSING = {"Project", "Filter", "SubqueryAlias"}
#: Options of Spark's source that divide a partition among several tasks.
_SPLITTING = ("minPartitions", "maxRecordsPerPartition")


def reads_internal_topics(spark: SparkSession) -> bool:
    """Return whether a session has Spark's Kafka source, with the setting for internal topics."""
    from pyspark.errors import AnalysisException

    if not _is_set(spark):
        return False
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "none"}
    try:  # brokers are contacted when rows are read, not here
        spark.read.format("kafka").options(**options).load().schema  # noqa: B018
    except AnalysisException:
        return False
    return True


def leaves_out_internal_topics(frame: Any) -> bool:
    """Return whether a DataFrame reads Spark's Kafka source in a session without the setting."""
    if _is_set(frame.sparkSession):
        return False
    if is_connect(frame.sparkSession):
        return "format='kafka'" in frame._plan.print()
    plan = frame._jdf.queryExecution().analyzed().toString()
    return "KafkaRelation(" in plan or "KafkaSourceProvider" in plan


def _is_set(spark: SparkSession) -> bool:
    return (spark.conf.get(KAFKA_SETTING, "false") or "").lower() == "true"


def holds_whole_partitions(frame: DataFrame) -> bool:
    """Return whether each task that scans a DataFrame reads whole Kafka partitions.

    That is so for Spark's own Kafka source and for ours, and for columns and rows selected from
    them, unless an option splits partitions.
    """
    scan = _connect_scan(frame) if is_connect(frame.sparkSession) else _classic_scan(frame)
    return scan is not None and not any(scan(option) for option in _SPLITTING)


def _connect_scan(frame: Any) -> Callable[[str], bool] | None:
    """Return a function that says whether an option is set; None unless it merely scans Kafka."""
    plan = frame._plan
    while type(plan).__name__ in _CHOOSING:
        plan = plan._child
    if type(plan).__name__ != "DataSource" or not _is_of_kafka(plan._format or ""):
        return None
    options = {name.lower() for name in plan._options}
    return lambda option: option.lower() in options


def _classic_scan(frame: Any) -> Any:
    from py4j.protocol import Py4JError

    plan = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() in _CHOOSING:
        plan = plan.children().head()
    try:
        if plan.nodeName() == "DataSourceV2Relation" and _is_of_kafka(plan.table().name()):
            return plan.options().containsKey
        if plan.nodeName() == "LogicalRelation" and "KafkaRelation(" in plan.toString():
            relation = plan.relation()  # it does not expose its options
            options = relation.getClass().getDeclaredField("sourceOptions")
            options.setAccessible(True)
            return options.get(relation).contains
    except Py4JError:
        _LOG.debug("this Spark's Kafka source has no options to look at", exc_info=True)
    return None


def _is_of_kafka(name: str) -> bool:
    return name == "kafka" or name.startswith(FORMAT)
