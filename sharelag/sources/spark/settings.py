"""Settings of the sessions that we create, each with its reason, and the user's own settings."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import javaproperties

from sharelag.sources.spark import class_data

#: Settings for any running session, also on a cluster and through Spark Connect.
RUNTIME = {
    # Kafka's timestamps are in UTC, and so is everything that we print.
    "spark.sql.session.timeZone": "UTC",
    # toArrow and createDataFrame move columns, not rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A row can hold many records as bytes: rows alone would not bound a batch.
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
}
#: Settings that must be set when Spark starts, also on a cluster.
STARTED = {
    # How long the JVM and Python wait for each other, 15 s by default: too short on a busy machine
    # with few cores. A process that has ended is noticed at once, whatever the timeout.
    "spark.python.authenticate.socketTimeout": "180s",
}
_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
#: Start Java's second compiler ten times later: on two cores it costs a short query a quarter of
#: its time, and jobs that run for minutes still get it.
_LATER = {"InvocationThreshold": 50_000, "MinInvocationThreshold": 6_000}
_LATER |= {"CompileThreshold": 150_000, "BackEdgeThreshold": 400_000}
_COMPILER = [f"-XX:Tier4{name}={count}" for name, count in _LATER.items()]
_LOCAL = {
    # Spark's default, made explicit: state records have 150 bytes, rarely a few thousand, so a
    # batch has a few megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # A laptop's tables are small: 200 shuffle partitions would cost more than their work.
    "spark.sql.shuffle.partitions": "8",
    # Merge small partitions, cached ones included: each task with Python costs a round trip to a
    # worker. A few megabytes of records keep a core busy for a second.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
    # Do not open the port of the web UI.
    "spark.ui.enabled": "false",
    # Progress bars and log lines would mix with the tables that we print.
    "spark.ui.showConsoleProgress": "false",
    # Java keeps what a web UI would show, by default of 1,000 jobs and 100,000 tasks: a job a
    # second would need more and more memory for a quarter of an hour.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "5000",
    "spark.sql.ui.retainedExecutions": "50",
}


def local() -> dict[str, str]:
    """Return the settings of a local session."""
    java = [_LOGGING, *_COMPILER, *class_data.options()]
    chosen = RUNTIME | STARTED | _LOCAL | {"spark.driver.extraJavaOptions": " ".join(java)}
    if os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
        # Workers start with our imports done: on two cores the first task with Python takes half
        # the time. They print nothing where a query needs no more rows.
        chosen["spark.python.daemon.module"] = "sharelag.sources.spark.daemon"
    return chosen


def given(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the user's settings: ``spark-defaults.conf``, ``spark-submit`` and ``MASTER``."""
    found = {"spark.master": environment["MASTER"]} if environment.get("MASTER") else {}
    file = _folder(environment) / "spark-defaults.conf"
    if file.is_file():
        found |= javaproperties.loads(file.read_text())
    return found | dict(_submitted(shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", ""))))


def _folder(environment: Mapping[str, str]) -> Path:
    if "SPARK_CONF_DIR" in environment:
        return Path(environment["SPARK_CONF_DIR"])
    return home(environment) / "conf"


def home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with Spark's jars and scripts."""
    import pyspark

    return Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _submitted(arguments: list[str]) -> Iterator[tuple[str, str]]:
    for name, value in pairwise(arguments):
        if name == "--master":
            yield "spark.master", value
        elif name in ("--conf", "-c"):
            setting, _, text = value.partition("=")
            yield setting, text
