"""Whose settings hold: ours for a session that we make, the user's wherever there are any?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sharelag.errors import SetupError
from sharelag.sources import spark as spark_module
from sharelag.sources.spark import session

_SCRIPT = """
from sharelag.sources.spark import session
conf = session("ours", spark_sql_shuffle_partitions="5").conf
names = ("spark.master", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.ui.enabled")
print("told:", *(conf.get(name) for name in names))
"""


def test_an_active_session_is_returned_as_it_is(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert session("another", spark_sql_shuffle_partitions="77") is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_our_own_session(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.sparkContext.uiWebUrl is None


def test_what_was_submitted_with_settings_keeps_them(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(_SCRIPT)
    submit = [sys.executable, "-m", "pyspark.find_spark_home"]
    home = subprocess.run(submit, capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        [f"{home}/bin/spark-submit", "--master", "local[1]", "--conf", "spark.sql.session.timeZone=Asia/Tokyo",
         "--conf", "spark.sql.shuffle.partitions=9", str(script)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    # The script's own argument wins over --conf, --conf over what we would choose.
    assert "told: local[1] Asia/Tokyo 5 false" in done.stdout, done.stderr[-2000:]


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SetupError, match=r"Java 17 or newer.*--engine local"):
        spark_module._require_java()


def test_a_java_that_spark_does_not_start_on(tmp_path: Path) -> None:
    """As Java 11 does, this one ends with an error instead of running Spark's classes."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n")
    java.chmod(0o755)
    code = "from sharelag.sources.spark import session; session()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "SetupError: Spark does not start" in done.stderr
    assert "Java 17 or newer" in done.stderr
