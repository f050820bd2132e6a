"""The Spark session that sharelag makes when there is none, each setting with its reason."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sharelag.errors import SetupError

_SETTINGS = {
    # Kafka's timestamps are UTC, and so is everything we print.
    "spark.sql.session.timeZone": "UTC",
    # Spark's default, said aloud: state records are 150 bytes, seldom a few thousand, so a batch is a few megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # toArrow and createDataFrame move columns, not rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A laptop's tables are small: 200 shuffle partitions would cost more than the work in them.
    "spark.sql.shuffle.partitions": "8",
    # A port that nobody asked for.
    "spark.ui.enabled": "false",
    # Progress bars and informational lines would mix with the tables we print.
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
}


def session(app_name: str = "sharelag", **settings: str) -> SparkSession:
    """Return the active Spark session, or make one for this machine.

    Parameters
    ----------
    app_name : str
    **settings : str
        Spark settings with ``_`` for ``.`` (``spark_master="local[4]"``); they win over ours.

    Raises
    ------
    SetupError
        When there is no Java, or Spark does not start; with what to do.

    Notes
    -----
    A session that is active already is returned as it is: on a cluster, or in a notebook of the user's own.
    Workers run this interpreter (``PYSPARK_PYTHON``), which has the packages they need.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    wanted = {name.replace("_", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.appName(app_name)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit runs us: the JVM is there already, and its master and settings are the user's choice.
        SparkContext._ensure_initialized()  # connects to it, so that SparkConf knows them
        given = SparkConf()
        wanted = {name: value for name, value in _SETTINGS.items() if not given.contains(name)} | wanted
    else:
        _require_java()
        master = wanted.get("spark.master") or os.environ.get("MASTER", "local[*]")
        _set_environment(master)
        wanted = _SETTINGS | wanted | {"spark.master": master}
    for name, value in wanted.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise SetupError(
            f"Spark does not start ({str(error).splitlines()[0]}): Java 17 or newer with all its modules is needed; "
            "`sharelag doctor` checks it, and --engine local needs no Java"
        ) from error


def _set_environment(master: str) -> None:
    # Workers default to the system's python3, which has none of our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        # Otherwise Spark binds to whatever address the host name has, or fails where it has none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        raise SetupError(
            "Spark needs Java 17 or newer, and there is no java on the PATH or in JAVA_HOME: install one "
            "(on Debian: apt install openjdk-17-jdk-headless), or use --engine local"
        )
