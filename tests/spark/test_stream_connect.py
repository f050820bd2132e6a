"""Spark Connect: sessions with our settings, and streams that its server reads and writes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.wire import SHARE_SNAPSHOT, encode_record
from tests.support.own_process import SCRIPT, run_python
from tests.support.records import offsets, raw, row


@pytest.mark.exhaustive
def test_streams_on_spark_connect(tmp_path: Path, remote: str) -> None:
    """Windows, lag and Delta tables are made on the server, from what it reads again."""
    (tmp_path / "ends").mkdir()
    (tmp_path / "records").mkdir()
    snapshot = pa.Table.from_batches([raw([encode_record(SHARE_SNAPSHOT, row(7, []))])])
    pq.write_table(snapshot, tmp_path / "records" / "0.parquet")
    pq.write_table(offsets(107), tmp_path / "ends" / "0.parquet")
    done = run_python("-c", _ON_CONNECT, str(tmp_path), SPARK_REMOTE=remote)
    assert done.stdout.splitlines() == [
        "[{'topic': 'orders', 'lag': 100}]",
        "[{'topic': 'orders', 'lag': 100}]",
        "which Spark lists once",
        "it uses the session",
        "without access to this process",
    ], done.stderr[-3000:]


_ON_CONNECT = """
import re, sys
from deltalake import DeltaTable
import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.spark import session
spark, folder = session(), sys.argv[1]
spark.conf.set("spark.sql.shuffle.partitions", "2")
raw = spark.readStream.schema(schemas.spark_schema(schemas.RAW)).parquet(f"{folder}/records")
windows, ends = sharelag.stream.windows(raw), f"{folder}/ends"
def run(changes, name):
    writer = changes.outputMode("update").option("checkpointLocation", f"{folder}/{name}")
    writer.trigger(availableNow=True).start().awaitTermination()
lag = sharelag.open(raw=raw, offsets=ends).frames.lag
run(lag.writeStream.format("memory").queryName("lag_of_now"), "first")
print(spark.sql("select topic, lag from lag_of_now").toArrow().to_pylist())
run(windows.writeStream.foreachBatch(sharelag.stream.to_delta(f"{folder}/now", ends)), "second")
print(DeltaTable(f"{folder}/now/lag").to_pyarrow_table(columns=["topic", "lag"]).to_pylist())
def refused(ask, said):
    try:
        ask()
    except InputError as error:
        print(re.search(said, str(error))[0])
files = spark.read.parquet(ends)
refused(lambda: sharelag.stream.lag(windows, files), "which Spark lists once")
refused(lambda: sharelag.stream.lag(windows, lambda: files), "it uses the session")
refused(lambda: sharelag.stream.watch(raw), "without access to this process")
"""


@pytest.mark.exhaustive  # a Spark Connect server of its own
def test_spark_remote_says_where_spark_is(remote: str) -> None:
    """The server's master, UI address and the rest stay; it gets what a session may set."""
    code = SCRIPT.replace('session("ours"', 'session("ours", spark_master="local[7]"')
    done = run_python("-c", code, SPARK_REMOTE=remote)
    assert "told: True local[2] UTC 5 false 180s" in done.stdout, done.stderr[-2000:]
    assert "Failed to set" not in done.stderr


@pytest.mark.exhaustive
def test_a_session_of_spark_connect_is_returned_as_it_is(remote: str) -> None:
    code = (
        "from pyspark.sql import SparkSession\n"
        "from sharelag.inputs.spark import is_connect, session\n"
        f"theirs = SparkSession.builder.remote({remote!r}).getOrCreate()\n"
        "theirs.conf.set('spark.sql.session.timeZone', 'Asia/Tokyo')\n"
        "print('told:', session() is theirs, is_connect(theirs), "
        "theirs.conf.get('spark.sql.session.timeZone'))\n"
    )
    done = run_python("-c", code)
    assert done.stdout == "told: True True Asia/Tokyo\n", done.stderr[-2000:]
