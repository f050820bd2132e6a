"""A simulation is the same in a Spark worker, and its records are read like a cluster's."""

from pathlib import Path

from pyspark.sql import SparkSession

import sharelag
from sharelag.inputs import RawInput
from sharelag.metrics.lag import lag_arrow
from sharelag.replay.state import window_items
from sharelag.whatif import simulate
from tests.support import readings
from tests.support.records import raw_file
from tests.support.simulation_scenarios import EVERYTHING


def test_what_it_writes_is_read_by_either_engine(spark: SparkSession, tmp_path: Path) -> None:
    """Its records and the ends of its logs give the state that its coordinator has, and its lag."""
    seen = simulate(EVERYTHING, 3)
    source = RawInput(raw_file(tmp_path, seen.records()))
    answers = [readings.windows(source, name) for name in ("local", "spark")]
    assert [answer.engine for answer in answers] == ["local", "spark"]
    assert answers[0].table.equals(answers[1].table)
    kept = dict(window_items(answers[1].table))
    assert kept == {key: seen._states.window(place) for place, key in enumerate(seen._states.keys)}
    lag = lag_arrow(answers[1].table.combine_chunks(), seen.offsets()).to_pylist()
    on_spark = sharelag.lag(
        spark.createDataFrame(answers[1].table), spark.createDataFrame(seen.offsets())
    )
    found = {(row["topic"], row["partition"]): row["lag"] for row in on_spark.toArrow().to_pylist()}
    assert (found, len(found)) == ({(row["topic"], row["partition"]): row["lag"] for row in lag}, 5)
