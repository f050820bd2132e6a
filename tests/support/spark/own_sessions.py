"""Sessions of Spark in processes of their own, and what these print."""

import subprocess
import sys

from tests.support.connect import no_session

WAIT = "spark.python.authenticate.socketTimeout"
NAMES = (
    *("spark.master", "spark.sql.session.timeZone"),
    *("spark.sql.shuffle.partitions", "spark.ui.enabled", WAIT),
)
SCRIPT = f"""
from sharelag.inputs.spark import is_connect, session
made = session("ours", spark_sql_shuffle_partitions="5")
print("told:", is_connect(made), *(made.conf.get(name) for name in {NAMES}))
assert session("another") is made
made.stop()
"""


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that finds no Spark of this one; the caller checks the exit code."""
    command = [sys.executable, *arguments]
    env = no_session() | environment
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=500
    )
