"""DataFrames of raw records to lag and progress on Spark, compared with simpler work on Spark.

The session is a user's: Spark's own settings, Java with 1 GB. A first query begins with new
DataFrames and, if it uses one, a new workbench.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import sharelag
from benchmarks.harness import Bench, Contest, Measured, Row, Side
from benchmarks.inputs import CAPTURES
from benchmarks.processes import command, cpu_seconds, own_python, peak_memory
from benchmarks.sessions import (
    MASTER,
    conform,
    in_one_process,
    keep_session,
    lag_by_frames,
    lag_by_function,
    living,
    offsets_of,
    progress_of,
    raw_of,
)
from benchmarks.spark_worker import Worker
from sharelag import schemas

#: Columns of raw records that lag needs, beside the topic's name.
NEEDED = ("key", "value", "partition", "offset", "timestamp")
#: A question about two DataFrames, of raw records and of end offsets.
Ask = Callable[[DataFrame, DataFrame], pa.Table]
#: Work of a rival on raw records.
Work = Callable[[DataFrame], object]
_BARE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).getOrCreate()
print(spark.read.parquet(sys.argv[2]).count())
spark.stop()
"""


def count(raw: DataFrame) -> int:
    """Count in Python the columns that lag needs, as Spark passes them, and do nothing else."""
    return _count(raw.select(*NEEDED))


def count_exchanged(raw: DataFrame) -> int:
    """Count the same after one exchange that brings each state partition to one task."""
    return _count(raw.select("topic", *NEEDED).repartition("topic", "partition"))


def _count(rows: DataFrame) -> int:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    found = rows.mapInArrow(task, "rows long").agg(F.sum("rows")).toArrow()
    return int(found.column(0)[0].as_py())


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


def lag_of_chosen_rows(raw: DataFrame, offsets: DataFrame) -> pa.Table:
    """Ask for the lag of rows selected by a comparison, which selects files to read."""
    return lag_by_function(raw.where("offset >= 0"), offsets)


def lag_of_scanned_rows(raw: DataFrame, offsets: DataFrame) -> pa.Table:
    """Ask for the lag of rows that only Spark can select, as in any other query."""
    return lag_by_function(raw.where("abs(offset) >= 0"), offsets)


def decode_by_udf(raw: DataFrame) -> pa.Table:
    """Decode start offset and complete count record by record, as in a first attempt."""
    decoded = F.udf(start_and_count, "struct<start long, complete int>", useArrow=False)
    rows = raw.select(
        F.substring("key", 3, 999).alias("share"), decoded("key", "value").alias("of")
    )
    return rows.groupBy("share").agg(F.max("of.start").alias("start")).toArrow()


# ---- first query ---------------------------------------------------------------------------------


@contextmanager
def against_rows(
    bench: Bench, ask: Ask, work: Work = count, schema: pa.Schema = schemas.LAG
) -> Iterator[Contest]:
    """Query a new DataFrame of Parquet; the rival only counts its records."""
    spark, records = keep_session(bench), bench.size(1_000_000, 20_000)
    folder = bench.inputs.capture("light", records)
    wanted = in_one_process(folder, schema)

    def ours() -> pa.Table:
        return ask(raw_of(spark, folder), offsets_of(spark, folder))

    def check(found: pa.Table, counted: int) -> None:
        assert conform(found, schema) == wanted, "Spark and one process give different answers"
        assert counted == records, counted

    yield Contest(
        Side(_name(ask), ours, records, living=living(spark)),
        Side(_name(work), lambda: work(raw_of(spark, folder)), records, living=living(spark)),
        check,
    )


@contextmanager
def against_udf(bench: Bench, ask: Ask) -> Iterator[Contest]:
    """Compare with a UDF over a part of the work, which is equally slow at any length."""
    spark, records = keep_session(bench), bench.size(1_000_000, 20_000)
    folder = bench.inputs.capture("light", records)
    part = bench.size(100_000, 10_000)
    some = bench.inputs.capture("light", part)
    wanted = in_one_process(folder)
    starts = in_one_process(some).column("start_offset").fill_null(-1).to_pylist()

    def ours() -> pa.Table:
        return ask(raw_of(spark, folder), offsets_of(spark, folder))

    def check(found: pa.Table, rival: pa.Table) -> None:
        assert conform(found) == wanted, "Spark and one process give different answers"
        # Start offsets of these records only grow.
        assert sorted(rival.column("start").to_pylist()) == sorted(starts), "other start offsets"

    yield Contest(
        Side(_name(ask), ours, records, living=living(spark)),
        Side(
            "per-record Python UDF", lambda: decode_by_udf(raw_of(spark, some)), part,
            living=living(spark),
        ),
        check,
    )  # fmt: skip


@contextmanager
def of_folder(bench: Bench, kind: str) -> Iterator[Contest]:
    """Open a folder, a capture or a Delta table, and ask for the lag.

    A Delta table comes without end offsets: its lag is unknown, all other terms are known.
    """
    spark, records = keep_session(bench), bench.size(1_000_000, 20_000)
    captured = bench.inputs.capture("light", records)
    folder = captured if kind == "capture" else bench.inputs.delta("light", records)
    wanted = in_one_process(folder)

    def files() -> DataFrame:
        if kind == "capture":
            return raw_of(spark, folder)
        return spark.read.parquet(*DeltaTable(folder).file_uris())

    def ours() -> pa.Table:
        with sharelag.open(folder, spark=spark) as opened:
            return opened.frames.lag.toArrow()

    def check(found: pa.Table, counted: int) -> None:
        assert conform(found) == wanted, "Spark and one process give different answers"
        assert counted == records, counted

    yield Contest(
        Side("sharelag.open(folder).frames.lag", ours, records, living=living(spark)),
        Side("its files, only counted", lambda: count(files()), records, living=living(spark)),
        check,
    )


# ---- second query --------------------------------------------------------------------------------


@contextmanager
def second_ask(
    bench: Bench, ask: Callable[[sharelag.Workbench], pa.Table], schema: pa.Schema = schemas.LAG
) -> Iterator[Contest]:
    """Ask a workbench of a new DataFrame for `frames.lag`, and time the following query."""
    spark, records = keep_session(bench), bench.size(1_000_000, 20_000)
    folder = bench.inputs.capture("light", records)
    wanted = in_one_process(folder, schema)
    pids = living(spark)

    def ours() -> Measured:
        raw, offsets = raw_of(spark, folder), offsets_of(spark, folder)
        with sharelag.open(raw=raw, offsets=offsets) as opened:
            opened.frames.lag.toArrow()
            begin, cpu = perf_counter(), cpu_seconds(pids())
            found = ask(opened)
            wall, spent = perf_counter() - begin, cpu_seconds(pids()) - cpu
        return Measured(found, wall=wall, cpu=spent or 1e-9)

    def check(found: pa.Table, counted: int) -> None:
        assert conform(found, schema) == wanted, "Spark and one process give different answers"
        assert counted == records, counted

    yield Contest(
        Side(_name(ask), ours, records),
        Side(_name(count), lambda: count(raw_of(spark, folder)), records, living=pids),
        check,
    )


def lag_frame_again(opened: sharelag.Workbench) -> pa.Table:
    """Ask for the same table."""
    return opened.frames.lag.toArrow()


def progress_answer(opened: sharelag.Workbench) -> pa.Table:
    """Ask for the answer with the lag's age, which needs the history."""
    return opened.progress().table


# ---- scale ---------------------------------------------------------------------------------------


@contextmanager
def two_workers(bench: Bench) -> Iterator[Contest]:
    """Compare two Spark processes: the number of workers is fixed when one starts."""
    records = bench.size(10_000_000, 20_000)
    folder = bench.inputs.capture("light", records)

    def check(ours: object, rival: object) -> None:
        assert ours == rival, (ours, rival)
        assert isinstance(ours, tuple)
        assert ours[0] == 10_000, ours

    with Worker("local[2]", folder) as two, Worker("local[1]", folder) as one:
        yield Contest(
            Side("frames.progress, two workers", two.progress, records, living=two.pids),
            Side("frames.progress, one worker", one.progress, records, living=one.pids),
            check,
        )


@contextmanager
def cold(_: Bench) -> Iterator[Contest]:
    folder = CAPTURES / "demo"
    ours = [sys.executable, "-m", "sharelag", "lag", "--capture", str(folder)]
    bare = own_python(_BARE, MASTER, str(folder / "records"))
    records = ds.dataset(folder / "records").count_rows()
    rows = in_one_process(folder).num_rows

    def check(found: str, rival: str) -> None:
        assert len(found.splitlines()) == 1 + rows, found
        assert rival.strip() == str(records), rival

    yield Contest(
        Side("sharelag lag --engine spark", lambda: command([*ours, "--engine", "spark"]),
             unit="runs"),
        Side("bare Spark job that counts", lambda: command(bare), unit="runs"),
        check,
    )  # fmt: skip


@contextmanager
def at_scale(
    bench: Bench, large: tuple[int, int, int], small: tuple[int, int, int], shape: str = "light"
) -> Iterator[Contest]:
    """Compare the cost per record of a large and a small input: (records, in a quick run, keys)."""
    spark = keep_session(bench)

    def ask(folder: Path) -> pa.Table:
        return lag_by_function(raw_of(spark, folder), offsets_of(spark, folder))

    sides = []
    for full, quick, keys in (large, small):
        records = bench.size(full, quick)
        folder = bench.inputs.capture(shape, records, keys)
        name = f"{records:,} records of {keys:,} share partitions"
        sides.append(Side(name, partial(ask, folder), records, living=living(spark)))

    def check(ours: pa.Table, rival: pa.Table) -> None:
        assert (ours.num_rows, rival.num_rows) == (large[2], small[2])
        assert not pc.any(pc.is_null(ours.column("end_offset"))).as_py()

    yield Contest(sides[0], sides[1], check)


@contextmanager
def memory(bench: Bench) -> Iterator[Contest]:
    """Measure the peak memory of the JVM and its workers, in a separate session."""
    records = bench.size(3_400_000, 20_000)
    folder = bench.inputs.capture("heavy", records)
    size = sum(
        len(data.as_py())
        for batch in bench.inputs.stream("heavy", 1000)
        for name in ("key", "value")
        for data in batch.column(name)
    ) / 1000 * records  # fmt: skip
    with Worker(MASTER, folder) as worker:

        def run() -> Measured:
            answer, peak = peak_memory(lambda: worker.pids()[0], worker.lag)
            return Measured(answer, peak=peak)

        def check(ours: object, _: object) -> None:
            assert ours == 10_000, ours

        yield Contest(
            Side("sharelag.lag(raw, offsets)", run, 1, "runs"),
            Side("bytes of keys and values", lambda: Measured(None, peak=size), 1, "runs"),
            check,
        )


_NAMES: dict[Callable[..., object], str] = {
    lag_by_function: "sharelag.lag(raw, offsets)",
    lag_by_frames: "sharelag.open(raw=, offsets=).frames.lag",
    lag_of_chosen_rows: "sharelag.lag(raw.where(...), offsets)",
    lag_of_scanned_rows: "sharelag.lag(raw.where(a function of Spark's), offsets)",
    progress_of: "sharelag.open(raw=, offsets=).frames.progress",
    lag_frame_again: "frames.lag again",
    progress_answer: "bench.progress() after frames.lag",
    count: "mapInArrow that only counts",
    count_exchanged: "the same after one exchange",
}


def _name(work: Callable[..., object]) -> str:
    return _NAMES[work]


def _scale(
    large: tuple[int, int, int], small: tuple[int, int, int], shape: str = "light"
) -> Callable[[Bench], AbstractContextManager[Contest]]:
    return partial(at_scale, large=large, small=small, shape=shape)


_WAYS = (("sharelag.lag", lag_by_function), ("frames.lag", lag_by_frames))
_COUNTS = "mapInArrow that only counts the same columns"
_HISTORY = (
    "a history decodes and compares every record, where windows take those since the last "
    "snapshot. Next: the summary of a share partition without the table of its changes."
)
_PACKING = (
    "rows that more than comparisons choose are left to Spark to scan: of a million, "
    "scanning takes 1.7 CPU-seconds, packing 0.5 (0.35 of them zstd), the exchange 0.2, unpacking "
    "and replay 0.45, planning and the end offsets 0.4, and Java's compiler has the rest. Done: no "
    "garbage collection of imports after each task (1.3), no column of topics (0.3), windows and "
    "lag in one Python node (0.3). Tried: lz4, and smaller rows (no gain)."
)
_WORKERS = (
    "tasks read and replay whole state partitions by themselves; side by side they take 9 % more "
    "CPU time, since they share the processors' caches and memory, and as much is lost while the "
    "last tasks end."
)
_LARGE, _SMALL = (10_000_000, 40_000, 10_000), (100_000, 20_000, 10_000)
_MANY, _FEW = (1_000_000, 20_000, 10_000), (1_000_000, 20_000, 100)
ROWS = (
    *(
        row
        for way, ask in _WAYS
        for row in (
            Row("P6", "DataFrame of Parquet to lag, first ask", _COUNTS, 0.5, 0.8,
                partial(against_rows, ask=ask), way),
            Row("P6", "DataFrame of Parquet to lag, first ask",
                "counting after one exchange of the same columns", 0.7, 1,
                partial(against_rows, ask=ask, work=count_exchanged), f"{way}, exchange"),
            Row("P7", "DataFrame of Parquet to lag, first ask", "per-record Python UDF", 2.5, 4,
                partial(against_udf, ask=ask), way),
        )
    ),
    *(
        Row("P6", f"folder of {what} to lag on Spark, first ask", _COUNTS, 0.5, 0.8,
            partial(of_folder, kind=kind), kind)
        for kind, what in (("capture", "a capture"), ("delta", "a Delta table"))
    ),
    Row("P6", "chosen rows of a DataFrame of Parquet to lag, first ask", _COUNTS, 0.5, 0.8,
        partial(against_rows, ask=lag_of_chosen_rows), "rows chosen"),
    Row("P6", "another query of a DataFrame of Parquet to lag, first ask", _COUNTS, 0.5, 0.8,
        partial(against_rows, ask=lag_of_scanned_rows), "other query", note=_PACKING),
    Row("P12", "progress of a DataFrame of Parquet, two workers", "one worker", 1.7, 1.9,
        two_workers, by=("wall",), note=_WORKERS),
    Row("P13", "Spark: cost per record, 10 M records, Java with 1 GB", "100,000 records", 1.2, 1.05,
        _scale(_LARGE, _SMALL), "spark records", within=True),
    Row("P13", "Spark: cost per record, 10,000 share partitions", "100", 1.2, 1.05,
        _scale(_MANY, _FEW, "updates"), "spark keys", within=True),
    Row("P14", "Spark: peak memory of a DataFrame of Parquet to lag", "bytes of the records", 0.5,
        0.25, memory, "spark", by=("peak",), within=True),
    Row("P15", "sharelag lag --engine spark, cold", "bare Spark job that counts", 1.5, 1.2, cold,
        by=("wall",), within=True),
    Row("P16", "DataFrame of Parquet to progress, the history summarized, first ask", _COUNTS, 0.3,
        0.5, partial(against_rows, ask=progress_of, schema=schemas.PROGRESS), note=_HISTORY),
    Row("P17", "second ask: frames.lag again", _COUNTS, 5, 20,
        partial(second_ask, ask=lag_frame_again), "frames.lag"),
    Row("P17", "second ask: bench.progress(), with the age, after frames.lag", _COUNTS, 0.3, 0.5,
        partial(second_ask, ask=progress_answer, schema=schemas.PROGRESS), "answer"),
)  # fmt: skip
