"""The state topic is as healthy on Spark as in this process."""

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sharelag import schemas
from sharelag.engine import spark as pipeline
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.metrics.health import gather, health_arrow
from sharelag.replay.history import history_arrow
from sharelag.wire import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support import generators
from tests.support.chapters import CAPTURE
from tests.support.records import raw


def test_local_and_spark_give_the_same_health(spark: SparkSession) -> None:
    batches = list(CaptureInput(CAPTURE).batches(STATE_TOPIC))
    history = history_arrow(decode_arrow(pa.Table.from_batches(batches)).records)
    ours = health_arrow(gather(batches), 4, history)
    frame = spark.read.parquet(str(CAPTURE / "records")).repartition(7)
    theirs = pipeline.health(frame, 4)
    assert rows(theirs.toArrow()) == ours.to_pylist()
    assert min(ours.column("finished").to_pylist()) > 0
    plain = rows(pipeline.health(frame, {STATE_TOPIC: 3}).toArrow())
    assert plain == health_arrow(gather(batches), {STATE_TOPIC: 3}, history).to_pylist()
    assert any(row["misplaced"] for row in plain)


def test_damaged_records_and_no_records_are_counted_the_same(spark: SparkSession) -> None:
    random = Random("spark health")
    records = [generators.record(random) for _ in range(300)]
    batch = raw([generators.damaged(random, r) if random.random() < 0.4 else r for r in records])
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).repartition(3)
    history = history_arrow(decode_arrow(batch).records)
    (ours,) = health_arrow(gather([batch]), history=history).to_pylist()
    assert rows(pipeline.health(frame).toArrow()) == [ours]
    assert ours["rejects"] > 0
    assert pipeline.health(frame.limit(0)).count() == 0
    with pytest.raises(InputError, match=r"raw records: .*value"):
        pipeline.health(frame.drop("value"))


def rows(table: pa.Table) -> list[dict[str, object]]:
    order = [("topic", "ascending"), ("partition", "ascending")]
    found: list[dict[str, object]] = table.cast(schemas.HEALTH).sort_by(order).to_pylist()
    return found
