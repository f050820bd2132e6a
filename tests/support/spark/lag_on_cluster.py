"""Compute the lag of a capture on a Spark cluster of two worker processes; print JSON lines.

A program of its own: a process has one Spark, and that of the tests is ``local[2]``.
"""

import json
import os
import sys
from pathlib import Path

from sharelag.inputs import CaptureInput
from sharelag.inputs.spark import session
from sharelag.tables.lines import plain_rows
from tests.support import readings


def main(capture: str) -> None:
    # No task before both executors are there: then tasks are dealt out to them in turn.
    both = {"spark_scheduler_minRegisteredResourcesRatio": "1.0"}
    both["spark_scheduler_maxRegisteredResourcesWaitingTime"] = "120s"
    spark = session("sharelag-cluster", spark_master="local-cluster[2,1,1024]", **both)
    try:
        rows = plain_rows(readings.lag(CaptureInput(Path(capture)), "spark").table)
        tasks = spark.sparkContext.parallelize(range(8), 8)
        result = tasks.map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"]).collect()
        told = {"master": spark.sparkContext.master, "executors": len(set(result))}
        print(json.dumps(told), file=sys.stderr)
        for row in rows:
            print(json.dumps(row))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
