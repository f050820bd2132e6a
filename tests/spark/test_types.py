"""Raw records and offsets as libraries and sinks write them give equal rows, or a sentence.

Each way of writing is tried on both engines, as a table of this process, as a DataFrame of Spark and
as Parquet files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sharelag
from sharelag.engine.spark.packing import collect
from sharelag.errors import InputError
from sharelag.schemas import LAG
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.records import with_column
from tests.support.spark.settings import set_for

RAW = pq.read_table(CAPTURE / "records")
ENDS = pq.read_table(CAPTURE / "offsets.parquet")
UTC = "UTC"
Change = Callable[[pa.Table], pa.Table]


def cast(**kinds: pa.DataType) -> Change:
    """Give columns other types."""

    def change(table: pa.Table) -> pa.Table:
        for name, kind in kinds.items():
            if name in table.schema.names:
                column = table.column(name).combine_chunks()
                made = column.dictionary_encode() if kind is None else converted(column, kind)
                table = with_column(table, name, made)
        return table

    return change


def converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in another type."""
    return pa.nulls(len(column)) if pa.types.is_null(kind) else column.cast(kind)


def mixed_up(table: pa.Table) -> pa.Table:
    """The columns in another order, with some more among them."""
    more = table.select(sorted(table.schema.names, reverse=True))
    more = more.append_column("headers", pa.nulls(len(table), pa.list_(HEADER)))
    return more.add_column(0, "loaded at", pa.array(["today"] * len(table)))


HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: What is taken, of raw records and offsets where both have the column.
TAKEN: dict[str, Change] = {
    "as they are": lambda table: table,
    "another order, more columns": mixed_up,
    "bigint": cast(partition=pa.int64(), timestampType=pa.int64(), leader_epoch=pa.int64()),
    "smallint": cast(partition=pa.int16(), timestampType=pa.int8(), leader_epoch=pa.int8()),
    "unsigned": cast(partition=pa.uint16(), offset=pa.uint64(), end_offset=pa.uint32()),
    "decimal": cast(partition=pa.decimal128(20, 0), offset=pa.decimal128(22, 2)),
    "double": cast(partition=pa.float64(), offset=pa.float64(), end_offset=pa.float64()),
    "large": cast(key=pa.large_binary(), value=pa.large_binary(), topic=pa.large_string()),
    "dictionary": cast(topic=None, topic_id=None),
    "without a zone": cast(timestamp=pa.timestamp("us"), as_of=pa.timestamp("us")),
    "nanoseconds": cast(timestamp=pa.timestamp("ns", UTC), as_of=pa.timestamp("ns")),
    "another zone": cast(timestamp=pa.timestamp("us", "Europe/Berlin"), as_of=pa.timestamp("ms")),
    "without timestampType": lambda table: table.select(
        [name for name in table.schema.names if name != "timestampType"]
    ),
    "nulls alone": cast(timestampType=pa.null(), timestamp=pa.null()),
}

#: What Spark has no type of its own for, or one that behaves as another of these.
LIKE_OTHERS = {"bigint", "smallint", "unsigned", "large", "dictionary", "another zone"}
LIKE_OTHERS |= {"another order, more columns", "double", "as they are"}
ON_SPARK = few_of(TAKEN, TAKEN.keys() - LIKE_OTHERS)


def changed(column: str, values: Callable[[pa.ChunkedArray], Any]) -> Change:
    """Raw records with other values in a column."""

    def change(table: pa.Table) -> pa.Table:
        if column not in table.schema.names:
            return table
        return with_column(table, column, values(table.column(column)))

    return change


BYTES = (
    "key: expected binary, got string. Where Spark read bytes as texts, "
    "spark.sql.parquet.binaryAsString is true: set it to false, or cast the column to binary; "
    "texts in base64 or hex become bytes by unbase64 or unhex."
)
#: What is not, and what is said of it.
REFUSED: dict[str, tuple[Change, str]] = {
    "texts for bytes": (changed("key", lambda key: pa.array(["k"] * len(key))), BYTES),
    "dates": (
        changed("timestamp", lambda time: time.cast(pa.date32(), safe=False)),
        "timestamp: expected timestamp, got date32[day]",
    ),
    "numbers for times": (
        changed("timestamp", lambda time: time.cast(pa.int64())),
        "timestamp: expected timestamp, got int64. Milliseconds become times by timestamp_millis",
    ),
    "texts for numbers": (
        changed("offset", lambda offset: offset.cast(pa.string())),
        "offset: expected int64, got string",
    ),
    "bytes for texts": (
        changed("topic", lambda topic: topic.cast(pa.binary())),
        "topic: expected string, got binary",
    ),
    "no offset": (lambda table: table.drop_columns(["offset"]), "offset: expected int64, got no"),
    "too large a partition": (
        changed("partition", lambda found: pc.add(found.cast(pa.int64()), 1 << 40)),
        "partition has values that int32 cannot hold: give whole numbers in its range",
    ),
    "fractions": (
        changed("offset", lambda found: pc.add(found.cast(pa.float64()), 0.5)),
        "offset has values that int64 cannot hold",
    ),
}

#: Refused for the reason of another one, whose rows are looked at, too.
REFUSED_LIKE = {"fractions", "numbers for times", "bytes for texts"}


def of_polars(table: pa.Table) -> Any:
    """The same rows in polars, texts as categories."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.col("topic").cast(pl.Categorical))


#: Tables of this process.
WRITERS: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "pandas": lambda table: table.to_pandas(),
    "pandas indexed": lambda table: table.to_pandas().set_index("partition", drop=False),
    "pandas nullable": lambda table: table.to_pandas().convert_dtypes(),
    "pandas arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda table: table.to_pandas().astype({"topic": "category"}),
    "polars": of_polars,
    "a stream": lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
}


@pytest.fixture(scope="module")
def wanted() -> list[dict[str, Any]]:
    """Lag of the recorded cluster, in one process."""
    lag: pa.Table = sharelag.open("chapters", engine="local").reading.table("lag")
    return lag.to_pylist()


def lag_of(raw: Any, ends: Any, **options: Any) -> list[dict[str, Any]]:
    lag: pa.Table = sharelag.open(raw=raw, offsets=ends, **options).reading.table("lag")
    return lag.to_pylist()


#: Each type by one library, and one type of each library.
BY_ANY = [
    pytest.param(writer, kind, marks=[pytest.mark.exhaustive] * (kind != "as they are"))
    if writer != "arrow"
    else (writer, kind)
    for writer in WRITERS
    for kind in TAKEN
]


@pytest.mark.parametrize(("writer", "kind"), BY_ANY)
def test_tables_of_any_library(writer: str, kind: str, wanted: list[dict[str, Any]]) -> None:
    raw, ends = (WRITERS[writer](TAKEN[kind](table)) for table in (RAW, ENDS))
    assert lag_of(raw, ends, engine="local") == wanted
    if kind == "as they are":
        raw, ends = (WRITERS[writer](table) for table in (RAW, ENDS))
        assert lag_of(raw, ends, engine="auto") == wanted


def test_nulls_alone_are_nulls_whatever_pandas_calls_them(wanted: list[dict[str, Any]]) -> None:
    raw = RAW.to_pandas().assign(timestamp=float("nan"))  # a column of float64
    assert lag_of(raw, ENDS, engine="local") == wanted
    nothing = (pd.DataFrame(columns=table.schema.names) for table in (RAW, ENDS))
    assert lag_of(*nothing, engine="local") == []


def on_spark(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The same rows as a DataFrame of Spark, of types that it has."""
    unsigned = {pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    kinds = {field.name: unsigned.get(field.type, field.type) for field in table.schema}
    plain = cast(**kinds)(table)
    nothing = [field.name for field in table.schema if pa.types.is_null(field.type)]
    frame = spark.createDataFrame(plain.drop_columns(nothing))
    others = {name: F.lit(None) for name in nothing}
    for field in table.schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            others[field.name] = F.col(field.name).cast("timestamp_ntz")
    return (frame.withColumns(others) if others else frame).select(table.schema.names)


@pytest.mark.parametrize("kind", ON_SPARK)
def test_frames_give_the_same(kind: str, spark: SparkSession, wanted: list[dict[str, Any]]) -> None:
    # Which counts for nothing.
    with set_for(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        raw, ends = (on_spark(spark, TAKEN[kind](table)) for table in (RAW, ENDS))
        if kind == "without a zone":
            assert dict(raw.dtypes)["timestamp"] == "timestamp_ntz"
        assert lag_of(raw, ends, spark=spark) == wanted


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        pytest.param(engine, kind, marks=[pytest.mark.exhaustive] * is_left)
        for kind in TAKEN
        for engine, is_left in (("local", False), ("spark", kind in LIKE_OTHERS))
        if kind != "nulls alone"
    ],
)
def test_files_give_the_same(engine: str, kind: str, spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(TAKEN[kind](RAW), tmp_path / "part-0.parquet")
    here = sharelag.open(CAPTURE, engine="local").reading.table("windows")
    found = sharelag.open(tmp_path, engine=engine, spark=spark).reading.table("windows")
    assert found.to_pylist() == here.to_pylist()


@pytest.mark.parametrize("name", ["raw.parquet of polars", "raw.parquet of pandas"])
def test_files_of_other_libraries_give_the_same_rows(name: str, tmp_path: Path) -> None:
    path = tmp_path / "raw.parquet"
    if "polars" in name:
        of_polars(RAW).write_parquet(path)
    else:
        RAW.to_pandas().to_parquet(path)
    here = sharelag.open(CAPTURE, engine="local").reading.table("windows")
    assert sharelag.open(path, engine="local").reading.table("windows").equals(here)


@pytest.mark.parametrize("kind", few_of(REFUSED, REFUSED.keys() - REFUSED_LIKE))
def test_every_path_refuses_by_one_sentence(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    change, said = REFUSED[kind]
    raw = change(RAW)
    pq.write_table(raw, tmp_path / "part-0.parquet")
    frame = spark.read.parquet(str(tmp_path))
    ways: dict[str, Callable[[], Any]] = {
        "arrow": lambda: lag_of(raw, ENDS, engine="local"),
        "pandas": lambda: lag_of(raw.to_pandas(), ENDS, engine="local"),
        "polars": lambda: lag_of(pl.from_arrow(raw), ENDS, engine="local"),
        "frame": lambda: lag_of(frame, ENDS, spark=spark),
        "functions": lambda: collect(
            sharelag.lag(sharelag.windows(sharelag.decode(frame).records), ENDS), LAG
        ),
        "file": lambda: sharelag.open(tmp_path, engine="local").reading.table("windows"),
        "file on Spark": lambda: sharelag.open(tmp_path, spark=spark).reading.table("windows"),
    }
    sentences = {}
    for way, ask in ways.items():
        with pytest.raises(InputError) as found:
            ask()
        told = str(found.value).replace("/part-0.parquet", "")
        sentences[way] = told.replace(str(tmp_path), "raw records")
    assert said in sentences["arrow"]
    assert set(sentences.values()) == {sentences["arrow"]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", None),
        pytest.param("partition", None, marks=pytest.mark.exhaustive),
        pytest.param("offset", None, marks=pytest.mark.exhaustive),
        pytest.param("partition", -1, marks=pytest.mark.exhaustive),
        ("offset", -1),
    ],
)
def test_records_without_a_place_are_rejects_that_answers_count(
    name: str, value: int | None, spark: SparkSession, wanted: list[dict[str, Any]]
) -> None:
    lost = with_column(RAW.slice(0, 3), name, [value] * 3)
    raw = pa.concat_tables([RAW, lost])
    as_floats = cast(partition=pa.float64(), offset=pa.float64())(raw).to_pandas()
    assert as_floats[name].isna().sum() == (3 if value is None else 0)
    answers = {}
    for engine, given in (("local", raw), ("local", as_floats), ("spark", raw)):
        seen = sharelag.open(raw=given, offsets=ENDS, engine=engine, spark=spark).lag()
        assert any("3 records that could not be decoded" in str(one) for one in seen.unknown), seen
        answers[engine] = seen.table.num_rows
    assert set(answers.values()) == {len(wanted)}
    rejects = collect(sharelag.decode(raw).rejects, pa.schema([("reason", pa.string())]))
    reason = "the record has no topic, no partition or no offset"
    assert rejects.to_pylist() == [{"reason": reason}] * 3


@pytest.mark.parametrize(
    "name", [pytest.param("topic_id", marks=pytest.mark.exhaustive), "partition"]
)
def test_offsets_of_no_topic_partition_are_refused(name: str, spark: SparkSession) -> None:
    lost = with_column(ENDS.slice(0, 1), name, [None])
    ends = pa.concat_tables([ENDS, lost])
    said = "offsets: rows without a topic_id or a partition belong to no topic partition"
    ways = {
        "local": lambda: lag_of(RAW, ends, engine="local"),
        "table": lambda: lag_of(RAW, ends, spark=spark),
        "frame": lambda: lag_of(RAW, on_spark(spark, ends), spark=spark),
    }
    for ask in ways.values():
        with pytest.raises(InputError, match=said):
            ask()


def test_casts_leave_the_scan_with_the_columns_that_are_needed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = cast(partition=pa.int64(), timestamp=pa.timestamp("us"))(RAW)
    pq.write_table(mixed_up(raw), tmp_path / "part-0.parquet")
    frame = spark.read.parquet(str(tmp_path))
    sharelag.decode(frame).records.explain("formatted")
    (scan,) = [line for line in capsys.readouterr().out.splitlines() if "ReadSchema" in line]
    assert "partition:bigint" in scan
    assert "loaded" not in scan
    assert "headers" not in scan
