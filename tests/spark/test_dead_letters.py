"""The ledger of a dead-letter queue is the same on Spark, of tables, DataFrames and files."""

import json
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag.errors import InputError
from sharelag.metrics.dead_letters import archived_arrow
from sharelag.schemas import ARCHIVED_RUNS, LEDGER
from tests.support.command import rows_of
from tests.support.command import sharelag as command
from tests.support.dead_letters import EXCEEDED, Letter, queue_table

GROUP = "poison"
ORDER = [(name, "ascending") for name in ("status", "topic", "partition", "first_offset")]


@pytest.fixture(scope="module", name="queue")
def queue_of_a_recording() -> pa.Table:
    """Most of what a recorded group archived, some of it twice, and records of somebody else."""
    bench = sharelag.open("poison", engine="local")
    lag = bench.lag(GROUP).table
    archived = bench.reading.over_records(archived_arrow, ARCHIVED_RUNS, lag).to_pylist()
    names = dict(zip(*(lag[name].to_pylist() for name in ("topic_id", "topic")), strict=True))
    random, letters = Random("queue"), list[Any]()
    copies = cycle([0, 1, 2])
    for row in archived:
        for offset in range(row["first_offset"], row["last_offset"] + 1):
            place = (GROUP, names[row["topic_id"]], row["partition"], offset)
            one = Letter(*place, row["delivery_count"], EXCEEDED, value=b"secret payload")
            letters += [one] * next(copies)
    assert len(letters) >= 3
    letters += [Letter("other", "payments", 0, 3), Letter(GROUP, names[lag["topic_id"][0].as_py()],
                0, 10**6), {"headers": []}]  # fmt: skip
    random.shuffle(letters)
    return queue_table(letters, partitions=2)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.cast(LEDGER).sort_by(ORDER).to_pylist()


def test_both_engines_say_the_same(spark: SparkSession, queue: pa.Table, cases: Any) -> None:
    local = sharelag.open("poison", engine="local").dead_letters(GROUP, queue)
    said = {row["status"] for row in rows(local.table)}
    assert {"missing", "written", "duplicate", "unexpected", "unreadable"} <= said
    assert "other" not in local.table.column("group_id").to_pylist()
    bench = sharelag.open("poison", spark=spark)
    for given in (spark.createDataFrame(queue), queue.to_pandas(), queue)[: cases(1, 3)]:
        found = bench.dead_letters(GROUP, given)
        assert (found.engine, rows(found.table)) == ("spark", rows(local.table))
        assert found.notes == local.notes
    assert rows(found.to_spark().toArrow()) == rows(local.table)
    every = bench.dead_letters(queue=queue)
    assert "other" in every.table.column("group_id").to_pylist()


def test_any_engine_reads_its_files(spark: SparkSession, queue: pa.Table, tmp_path: Path) -> None:
    pq.write_table(queue.slice(0, 4), tmp_path / "a.parquet")
    pq.write_table(queue.slice(4), tmp_path / "b.parquet")
    local = sharelag.open("poison", engine="local")
    found = local.dead_letters(GROUP, tmp_path)
    assert rows(found.table) == rows(local.dead_letters(GROUP, queue).table)
    of_spark = sharelag.open("poison", spark=spark).dead_letters(GROUP, tmp_path)
    assert rows(of_spark.table) == rows(found.table)
    given = ("--capture", "poison", "--group", GROUP, "--queue", str(tmp_path), "-o", "json")
    done = command("dlq", *given, code=0)
    printed = rows_of(done)
    assert len(printed) == found.table.num_rows
    assert [one["status"] for one in printed] == found.table.column("status").to_pylist()
    assert found.notes[0] in done.stderr
    few = command("dlq", *given, "--status", "missing").stdout.splitlines()
    assert {json.loads(line)["status"] for line in few} == {"missing"}
    plan = command("dlq", *given[:-2], "--redrive")
    assert "kafka-console-consumer.sh --bootstrap-server HOST:PORT --topic" in plan.stdout
    assert "Nothing was sent." in plan.stderr
    # Nobody knows which of these are gaps, behind which Kafka's command reads on.
    beyond = "Where offsets without a copy are gaps"
    assert beyond in plan.stderr
    written = command("dlq", *given[:-2], "--redrive", "--status", "written", code=0)
    assert beyond not in written.stderr
    for text in (done.stdout, done.stderr, plan.stdout, plan.stderr, repr(found)):
        assert "secret payload" not in text


def test_what_is_not_a_queue_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    bench = sharelag.open("poison", engine="local")
    for wrong, words in (
        (None, r"not known \(errors\.deadletterqueue\.topic\.name: none is set\): .* --queue"),
        ("dlq.orders", "has no records of topics, by design"),
        (tmp_path / "no.parquet", "no Parquet files at"),
        (7, "7 is not a dead-letter queue"),
        (pa.table({"key": pa.array([], pa.binary())}), "the dead-letter queue: 6 of 8 columns"),
        (spark.createDataFrame([(1,)], "key int"), "needs the engine spark"),
    ):
        with pytest.raises(InputError, match=words):
            bench.dead_letters(GROUP, wrong)
