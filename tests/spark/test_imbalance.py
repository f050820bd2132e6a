"""Spark finds the same members, groups and imbalance as one process does."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.engine import spark as pipeline
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.replay.members import groups_arrow, members_arrow
from sharelag.wire import GROUP_TOPIC, decode_arrow
from tests.support import readings
from tests.support.chapters import CAPTURE
from tests.support.columns import with_column

#: Two members of one group, one of which has just come.
MOMENT = datetime(2026, 11, 21, 11, 44, 30, 604_000, tzinfo=UTC)


@pytest.fixture(scope="module")
def records() -> pa.Table:
    batches = CaptureInput(CAPTURE).batches(GROUP_TOPIC)
    return pa.Table.from_batches([decode_arrow(batch, GROUP_TOPIC).records for batch in batches])


@pytest.fixture(scope="module")
def lag() -> pa.Table:
    return readings.lag(CaptureInput(CAPTURE), "local").table.select(schemas.LAG.names)


def frame(spark: SparkSession, table: pa.Table | pa.RecordBatch, pieces: int = 3) -> DataFrame:
    whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    return spark.createDataFrame(whole).repartition(pieces)


def local_rows(answer: DataFrame, schema: pa.Schema, *keys: str) -> list[dict[str, Any]]:
    table = answer.toArrow().cast(schema)
    return sorted(table.to_pylist(), key=lambda row: [str(row[key]) for key in keys])


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Spark adds in another order."""
    return {name: round(v, 9) if isinstance(v, float) else v for name, v in row.items()}


@pytest.mark.parametrize(
    "as_of",
    [
        pytest.param(None, id="now"),
        pytest.param(MOMENT, marks=pytest.mark.exhaustive, id="time"),
        pytest.param({0: 130, 1: 95, 2: 10}, marks=pytest.mark.exhaustive, id="offsets"),
    ],
)
def test_members_and_groups_are_equal(spark: SparkSession, records: pa.Table, as_of: Any) -> None:
    shuffled = records.take(Random(4).sample(range(records.num_rows), records.num_rows))
    answer = pipeline.members(frame(spark, shuffled, 5), as_of)
    found = local_rows(answer, schemas.MEMBERS, "group_id", "member_id")
    assert found == members_arrow(records, as_of).to_pylist()
    answer = pipeline.groups(frame(spark, shuffled, 5), as_of)
    expected = groups_arrow(records, as_of).to_pylist()
    assert local_rows(answer, schemas.GROUPS, "group_id") == expected
    assert expected


@pytest.mark.parametrize(
    ("given", "by"),
    [((), None), (("members",), "member"), (("members", "groups", "observed", "past"), None)],
    ids=["lag", "members", "all"],
)
def test_imbalance_is_the_same_of_whatever_is_given(
    spark: SparkSession, records: pa.Table, lag: pa.Table, given: tuple[str, ...], by: str | None
) -> None:
    observed = [
        {name: row[name] for name in ("group_id", "topic_id", "partition")}
        | {"begin": MOMENT, "end": MOMENT + timedelta(hours=2), "finished": n * n}
        for n, row in enumerate(lag.to_pylist())
    ]
    past = CaptureInput(CAPTURE).offsets(lag.column("topic_id").to_pylist())
    earlier = pa.array([n % 7 * 10 for n in range(past.num_rows)], pa.int64())
    every: dict[str, Any] = {
        "members": members_arrow(records, MOMENT),
        "groups": groups_arrow(records, MOMENT),
        "observed": pa.Table.from_pylist(observed, schema=schemas.OBSERVED),
        "past": with_column(past, "end_offset", earlier),
    }
    tables = {name: every[name] for name in given}
    ours = imbalance_arrow(lag, **tables, by=by).to_pylist()
    frames = {name: frame(spark, table) for name, table in tables.items()}
    answer = pipeline.imbalance(frame(spark, lag), **frames, by=by)
    keys = ("group_id", "topic_id", "over", "measure")
    theirs = local_rows(answer, schemas.IMBALANCE, *keys)
    by_keys = sorted(ours, key=lambda row: [str(row[key]) for key in keys])
    assert [rounded(row) for row in theirs] == [rounded(row) for row in by_keys]
    measures = {row["measure"] for row in ours}
    if by is None:
        added = {"members": {"members", "partitions"}, "groups": set()}
        added |= {"observed": {"finished"}, "past": {"arrived"}}
        assert measures == {"lag"}.union(*(added[name] for name in given))


def test_a_table_that_does_not_fit_is_refused_at_once(spark: SparkSession, lag: pa.Table) -> None:
    with pytest.raises(InputError, match="members: 3 of 3 columns do not fit"):
        pipeline.imbalance(frame(spark, lag), frame(spark, lag.select(["topic"])))
    with pytest.raises(InputError, match="raw records: "):
        pipeline.members(frame(spark, lag))
