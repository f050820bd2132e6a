"""Settings of the sessions that we make, each with its reason, and those that the user has made before."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import javaproperties

from sharelag.sources.spark import class_data

#: What a running session takes, on a cluster and through Spark Connect as well.
RUNTIME = {
    # Kafka's timestamps are UTC, and so is everything we print.
    "spark.sql.session.timeZone": "UTC",
    # toArrow and createDataFrame move columns, not rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
#: What whoever starts Spark has to say, on a cluster as well.
STARTED = {
    # How long the JVM and Python wait for each other to take a result or to answer, 15 s unless
    # told otherwise: too short where both share few cores with others. Who has ended is noticed at
    # once, however long this is.
    "spark.python.authenticate.socketTimeout": "180s",
}
_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
#: Java's second compiler begins ten times later than it would: on two cores it costs a short
#: question a quarter of its time, and what runs for minutes still gets it.
_LATER = {"InvocationThreshold": 50_000, "MinInvocationThreshold": 6_000}
_LATER |= {"CompileThreshold": 150_000, "BackEdgeThreshold": 400_000}
_COMPILER = [f"-XX:Tier4{name}={count}" for name, count in _LATER.items()]
_LOCAL = {
    # Spark's default, said aloud: state records are 150 bytes, seldom a few thousand, so a batch is
    # a few megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # A laptop's tables are small: 200 shuffle partitions would cost more than the work in them.
    "spark.sql.shuffle.partitions": "8",
    # Where there is little in them, also in what is cached, one task does the work of eight: each
    # task with Python in it costs a worker's round trip. A few megabytes of records keep a core
    # busy for a second.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
    # A port that nobody asked for.
    "spark.ui.enabled": "false",
    # Progress bars and informational lines would mix with the tables we print.
    "spark.ui.showConsoleProgress": "false",
}


def local() -> dict[str, str]:
    """All that a session on this machine gets."""
    java = [_LOGGING, *_COMPILER, *class_data.options()]
    chosen = RUNTIME | STARTED | _LOCAL | {"spark.driver.extraJavaOptions": " ".join(java)}
    if (
        sys.platform == "linux"
        and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    ):
        # Workers begin with what we need imported: on two cores the first task with Python in it
        # comes in half the time. Elsewhere than on Linux it cannot be told whether a process may be
        # forked then.
        chosen["spark.python.daemon.module"] = "sharelag.sources.spark.daemon"
    return chosen


def given(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the user has set for every session: in ``spark-defaults.conf``, for ``spark-submit``, as ``MASTER``."""
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
    """The folder with Spark's jars and scripts."""
    import pyspark

    return Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _submitted(arguments: list[str]) -> Iterator[tuple[str, str]]:
    for name, value in pairwise(arguments):
        if name == "--master":
            yield "spark.master", value
        elif name in ("--conf", "-c"):
            setting, _, text = value.partition("=")
            yield setting, text
