"""Computes the lag of a capture on a Spark cluster of two worker processes; prints it as JSON lines.

A program of its own: a process has one Spark, and that of the tests is ``local[2]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sharelag import engine, show
from sharelag.sources.inputs import CaptureInput
from sharelag.sources.spark import session


def main(capture: str) -> None:
    spark = session("sharelag-cluster", spark_master="local-cluster[2,1,1024]")
    try:
        # Both executors have to take part, so each key goes somewhere else than its neighbour.
        print(json.dumps({"master": spark.sparkContext.master}), file=sys.stderr)
        for row in show.lag_rows(engine.lag(CaptureInput(Path(capture)), "spark").table):
            print(json.dumps(row))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
