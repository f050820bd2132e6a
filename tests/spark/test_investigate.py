"""Every answer is the same from Spark as from one process."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import sharelag as api
from sharelag import explain, schemas
from sharelag.engine import engines
from sharelag.inputs import CaptureInput
from sharelag.metrics.evidence import Evidence
from sharelag.replay.moment import Choice
from sharelag.wire import STATE_TOPIC
from tests.support.chapters import CAPTURE
from tests.support.recorded_moments import all_ids

SOURCE = CaptureInput(CAPTURE)
THEN = datetime(2026, 11, 21, 11, 44, 31, tzinfo=UTC)


def tables(evidence: Evidence) -> dict[str, Any]:
    """Every table, sorted, so that no engine's order matters."""
    found = {name: table for name, table in vars(evidence).items() if isinstance(table, pa.Table)}
    return {name: sorted(map(repr, table.to_pylist())) for name, table in found.items()}


def test_the_evidence_of_some_groups_is_the_same(spark: SparkSession) -> None:
    as_of = {0: 200, 1: 200, 2: 200, 3: 200}
    choice = Choice(frozenset({"billing", "fraud-check", "notifications"}))
    local = engines.gather(SOURCE, "local", as_of, choice)
    on_spark = engines.gather(SOURCE, "spark", as_of, choice)
    assert (local.engine, on_spark.engine, local.as_of) == ("local", "spark", on_spark.as_of)
    assert tables(local) == tables(on_spark)
    assert local.observed.num_rows > 10
    patience = timedelta(seconds=2)
    assert explain(local, patience).to_pylist() == explain(on_spark, patience).to_pylist()


def test_public_functions_over_data_frames(spark: SparkSession) -> None:
    raw = SOURCE.frame(spark, STATE_TOPIC)
    records = api.decode(raw).records
    history = api.history(records)
    assert [field.name for field in history.schema.fields] == schemas.HISTORY.names
    end = datetime(2100, 1, 1, tzinfo=UTC)
    observed = api.pipeline.observed(records, end, end - THEN).toArrow()
    assert observed.num_rows == 32
    lag = api.lag(api.windows(records), spark.createDataFrame(SOURCE.offsets(all_ids()))).toArrow()
    found = set(api.imbalance(spark.createDataFrame(lag)).toArrow().column("measure").to_pylist())
    assert found == {"lag"}
