"""Raw records in Parquet to lag and history on Spark, against what Spark needs for less."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness import Bench, Contest, Measured, Row, Side
from benchmarks.inputs import CAPTURES
from benchmarks.processes import command, own_python, peak_memory
from benchmarks.rows.scale import KEYS
from benchmarks.spark_worker import Worker
from sharelag import schemas
from sharelag.pipeline.reading import SparkReading
from sharelag.quick import QuickReading
from sharelag.sources.inputs import CaptureInput
from sharelag.sources.spark import session

_MASTER = "local[2]"
_BARE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).getOrCreate()
print(spark.read.parquet(sys.argv[2]).count())
spark.stop()
"""


@contextmanager
def _session() -> Iterator[SparkSession]:
    spark = session("sharelag-benchmarks", spark_master=_MASTER)
    yield spark
    spark.stop()


def keep_session(bench: Bench) -> SparkSession:
    """Return the session of the run."""
    return bench.keep("spark", _session)


def living(spark: SparkSession) -> Callable[[], Sequence[int]]:
    """Return the JVM, of which the workers descend."""
    return lambda: (spark.sparkContext._gateway.proc.pid,)  # type: ignore[union-attr]


def lag_of(spark: SparkSession, folder: Path) -> pa.Table:
    """Read everything once more: nothing is left of an earlier reading."""
    reading = SparkReading(CaptureInput(folder), spark=spark)
    try:
        return reading.table("lag")
    finally:
        reading.close()


def raw_of(spark: SparkSession, folder: Path) -> DataFrame:
    """The same records as Spark reads them, all columns."""
    return spark.read.parquet(str(folder / "records")).select(schemas.RAW.names)


def count(raw: DataFrame) -> int:
    """Count in Python what Spark hands over, and nothing else."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    return int(raw.mapInArrow(task, "rows long").agg(F.sum("rows")).toArrow().column(0)[0].as_py())


def start_and_count(key: bytes, value: bytes) -> tuple[int, int]:
    """Decode one value by hand."""
    at = 14 if key[1] == 0 else 10
    (start,) = struct.unpack_from(">q", value, at)
    at += 24 if key[1] == 0 else 8
    size = shift = 0
    while True:
        size |= (value[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if value[at - 1] < 128:
            break
    at += 20 * (size - 1)
    return start, struct.unpack_from(">i", value, at + 3)[0] if value[at] else -1


def decode_by_udf(raw: DataFrame) -> pa.Table:
    """Decode start offset and complete count record by record, as a first attempt would."""

    decoded = F.udf(start_and_count, "struct<start long, complete int>", useArrow=False)
    rows = raw.select(
        F.substring("key", 3, 999).alias("share"), decoded("key", "value").alias("of")
    )
    return rows.groupBy("share").agg(F.max("of.start").alias("start")).toArrow()


@contextmanager
def against_counting(bench: Bench) -> Iterator[Contest]:
    spark, records = keep_session(bench), bench.size(1_000_000, 200_000)
    folder = bench.inputs.capture("light", records)
    wanted = QuickReading(CaptureInput(folder), history=False).table("lag")

    def check(ours: pa.Table, rival: int) -> None:
        assert ours.equals(wanted), "Spark and one process do not give the same lag"
        assert rival == records, rival

    yield Contest(
        Side("raw Parquet to lag", lambda: lag_of(spark, folder), records, living=living(spark)),
        Side(
            "mapInArrow that only counts", lambda: count(raw_of(spark, folder)), records,
            living=living(spark),
        ),
        check,
    )  # fmt: skip


@contextmanager
def against_udf(bench: Bench) -> Iterator[Contest]:
    """The UDF does a part of the work: it is as slow at any length."""
    spark, records = keep_session(bench), bench.size(1_000_000, 200_000)
    folder = bench.inputs.capture("light", records)
    part = bench.size(100_000, 50_000)
    some = bench.inputs.capture("light", part)
    wanted = lag_of(spark, some)

    def check(ours: pa.Table, rival: pa.Table) -> None:
        assert ours.num_rows == 10_000, ours.num_rows
        starts = wanted.column("start_offset").fill_null(-1)
        # Start offsets of these records only grow.
        found = sorted(rival.column("start").to_pylist())
        assert sorted(starts.to_pylist()) == found, "the UDF finds other start offsets"

    yield Contest(
        Side("raw Parquet to lag", lambda: lag_of(spark, folder), records, living=living(spark)),
        Side(
            "per-record Python UDF", lambda: decode_by_udf(raw_of(spark, some)), part,
            living=living(spark),
        ),
        check,
    )  # fmt: skip


@contextmanager
def two_workers(bench: Bench) -> Iterator[Contest]:
    """Each side is a Spark of its own: the number of workers is fixed when it starts."""
    records = bench.size(10_000_000, 500_000)
    folder = bench.inputs.capture("light", records)

    def check(ours: object, rival: object) -> None:
        assert ours == rival, (ours, rival)
        assert isinstance(ours, tuple)
        assert ours[0] == records, ours

    with Worker("local[2]", folder) as two, Worker("local[1]", folder) as one:
        yield Contest(
            Side("history, two workers", two.history, records, living=two.pids),
            Side("history, one worker", one.history, records, living=one.pids),
            check,
        )


def lag_rows(folder: Path) -> int:
    """Return how many share partitions a capture has."""
    return int(QuickReading(CaptureInput(folder), history=False).table("lag").num_rows)


@contextmanager
def cold(_: Bench) -> Iterator[Contest]:
    folder = CAPTURES / "demo"
    sharelag = [sys.executable, "-m", "sharelag", "lag", "--capture", str(folder)]
    bare = own_python(_BARE, _MASTER, str(folder / "records"))
    records = CaptureInput(folder).size()
    rows = lag_rows(folder)

    def check(ours: str, rival: str) -> None:
        assert len(ours.splitlines()) == 1 + rows, ours
        assert rival.strip() == str(records), rival

    yield Contest(
        Side("sharelag lag --engine spark", lambda: command([*sharelag, "--engine", "spark"]),
             unit="runs"),
        Side("bare Spark job that counts", lambda: command(bare), unit="runs"),
        check,
    )  # fmt: skip


@contextmanager
def at_scale(
    bench: Bench, large: tuple[int, int, int], small: tuple[int, int, int], shape: str = "light"
) -> Iterator[Contest]:
    """Cost a record of a large input and of a small one: (records, in a quick run, keys)."""
    spark = keep_session(bench)
    sides = []
    for full, quick, keys in (large, small):
        records = bench.size(full, quick)
        folder = bench.inputs.capture(shape, records, keys)
        name = f"{records:,} records of {keys:,} share partitions"
        work = partial(lag_of, spark, folder)
        sides.append(Side(name, work, records, living=living(spark)))

    def check(ours: pa.Table, rival: pa.Table) -> None:
        assert (ours.num_rows, rival.num_rows) == (large[2], small[2])
        assert not pc.any(pc.is_null(ours.column("end_offset"))).as_py()

    yield Contest(sides[0], sides[1], check)


@contextmanager
def memory(bench: Bench) -> Iterator[Contest]:
    """The most memory of the JVM and its workers, in a session of its own."""
    records = bench.size(3_400_000, 100_000)
    folder = bench.inputs.capture("heavy", records)
    size = sum(
        len(data.as_py())
        for batch in bench.inputs.stream("heavy", 1000)
        for name in ("key", "value")
        for data in batch.column(name)
    ) / 1000 * records  # fmt: skip
    with Worker(_MASTER, folder) as worker:

        def run() -> Measured:
            answer, peak = peak_memory(lambda: worker.pids()[0], worker.lag)
            return Measured(answer, peak=peak)

        def check(ours: object, _: object) -> None:
            assert ours == 10_000, ours

        yield Contest(
            Side("raw Parquet to lag", run, 1, "runs"),
            Side("bytes of keys and values", lambda: Measured(None, peak=size), 1, "runs"),
            check,
        )


def _scale(
    large: tuple[int, int, int], small: tuple[int, int, int], shape: str = "light"
) -> Callable[[Bench], AbstractContextManager[Contest]]:
    return partial(at_scale, large=large, small=small, shape=shape)


_MEMORY = (
    "does not grow with the records: of some 1.7 GB Java holds 780 MB (of the gigabyte that it may "
    "have), the session's process 350 MB, each worker 240 MB and the process that forks them 124 "
    "MB, of which libraries are most. Tried: Java's serial collector, 100 MB less. Next: a "
    "smaller heap for Java, which holds no records."
)
_WORKERS = (
    "the work is halved, at 3 to 7 % more CPU time; but two cores also run Java, the session's "
    "process and whatever else the machine does. Four runs of the same code gave 1.28x (other "
    "tests beside it), 1.66x, 1.68x and 1.9x. Next: a run on four cores."
)
_LARGE, _SMALL = (10_000_000, 1_000_000, 10_000), (100_000, 100_000, 10_000)
_MANY, _FEW = (1_000_000, 200_000, 10_000), (1_000_000, 200_000, 100)
ROWS = (
    Row("P6", "Spark local[2]: raw Parquet to lag", "mapInArrow that only counts", 0.8, 1.5,
        against_counting),
    Row("P7", "Spark local[2]: raw Parquet to lag", "per-record Python UDF", 5, 10, against_udf),
    Row("P12", "history on Spark, two workers", "one worker", 1.7, 1.9, two_workers,
        by=("wall",), note=_WORKERS),
    Row("P13", "Spark: cost a record, large input", "small input", 1.2, 1.05,
        _scale(_LARGE, _SMALL), "spark records", within=True),
    Row("P13", "Spark: cost a record, 10,000 share partitions", "100", 1.2, 1.05,
        _scale(_MANY, _FEW, "updates"), "spark keys", within=True, note=KEYS),
    Row("P14", "Spark: peak memory of raw Parquet to lag", "bytes of the records", 0.5, 0.25,
        memory, "spark", by=("peak",), within=True, note=_MEMORY),
    Row("P15", "sharelag lag --engine spark, cold", "bare Spark job that counts", 1.5, 1.2, cold,
        by=("wall",), within=True),
)  # fmt: skip
