"""Sessions of Spark in processes of their own, and what these print."""

from __future__ import annotations

import subprocess
import sys

from tests.support.connect import no_session

WAIT = "spark.python.authenticate.socketTimeout"
NAMES = (
    "spark.master",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
    "spark.ui.enabled",
    WAIT,
)
SCRIPT = f"""
from sharelag.inputs.spark import is_connect, session
made = session("ours", spark_sql_shuffle_partitions="5")
print("told:", is_connect(made), *(made.conf.get(name) for name in {NAMES}))
assert session("another") is made
made.stop()
"""


def run(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run code in a separate process: this one has its Spark."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=no_session() | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
