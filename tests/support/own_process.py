"""Python in processes of its own, which find no Spark of this one, and what these print."""

import subprocess
import sys

from tests.support.connect import no_session

#: Settings of a session, and code that prints what it has of them.
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
    """Run Python with what is changed of this environment; the caller checks the exit code."""
    command, env = [sys.executable, *arguments], no_session() | environment
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)


def run_code(code: str, **environment: str) -> str:
    """Return what code prints, in this environment and what is changed of it."""
    done = run_python("-c", code, **environment)
    assert not done.returncode, done.stderr
    return done.stdout


def run_by_any_hashes(code: str) -> str:
    """Return what code prints, which has to be the same however texts are hashed."""
    one, other = (run_code(code, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one == other
    return one
