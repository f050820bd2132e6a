"""A workbench on Spark gives the same answers, with progress bars, and its DataFrames."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag.errors import AuthorizationError
from sharelag.inputs import CaptureInput
from sharelag.inputs.recorded import folder_of
from tests.support.captures import with_newer_groups

#: Tasks that are done, and known ones, on a line of progress.
COUNTS = re.compile(r" \.\.\. (\d+) of (\d+) tasks")


def test_the_same_answers_and_a_bar(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    on_spark = sharelag.open("poison", engine="spark", bars=True)
    local = sharelag.open("poison", engine="local")
    assert on_spark.lag().table.equals(local.lag().table)
    shown = capsys.readouterr().err
    assert shown.startswith("\rreading lag ...\x1b[K")
    assert shown.endswith("\r\x1b[K")
    counts = [(int(done), int(known)) for done, known in COUNTS.findall(shown)]
    assert counts
    assert counts == sorted(counts)
    assert on_spark.moments("poison", most=9).table.equals(local.moments("poison", most=9).table)
    assert "\rreading moments ...\x1b[K" in capsys.readouterr().err
    assert repr(on_spark.lag()).replace("spark engine", "local engine") == repr(local.lag())


def test_undecoded_group_records_are_counted_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    capture = with_newer_groups(folder_of("no_members"), tmp_path / "newer")
    on_spark, local = (sharelag.open(capture, engine=one) for one in ("spark", "local"))
    for question in ("group_states", "members", "explain"):
        found, known = on_spark.ask(question), local.ask(question)
        assert found.table.equals(known.table), question
        assert found.unknown == known.unknown, question
        assert found.lacks == known.lacks, question
        assert "of groups and members that could not be decoded" in found.lacks[0]


class Refused(CaptureInput):
    group_records_refused = AuthorizationError("not authorized to read them")


def test_group_records_that_may_not_be_read_are_none_others_are_there(spark: SparkSession) -> None:
    frames = sharelag.open(Refused(folder_of("poison")), engine="spark").frames
    assert (frames.group_records.count(), frames.records.count() > 0) == (0, True)


def test_notebooks_alone_have_a_bar(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    sharelag.open("poison", engine="spark").lag()
    assert "tasks" not in capsys.readouterr().err


def test_all_rows_go_to_spark(spark: SparkSession) -> None:
    bench = sharelag.open("poison")
    for question in ("lag", "windows", "history", "progress", "explain", "imbalance", "members"):
        result = getattr(bench, question)()
        frame = result.to_spark(spark)
        assert frame.columns == result.table.column_names, question
        assert frame.count() == len(result), question


def test_lag_without_spark_is_sparks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = sharelag.open("demo")
    here = bench.here()
    assert here is not None
    at_once = here.lag().table
    assert "reading" not in bench._once
    monkeypatch.setattr("sharelag.engine.engines.FEW_RECORDS", 1_000)
    assert bench.here() is None  # of many records Spark is waited for
    assert bench.lag().table.equals(at_once)
    assert at_once.num_rows > 8
