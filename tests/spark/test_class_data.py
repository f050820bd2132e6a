"""Java uses the classes recorded for it, and a recording that does not fit does no harm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sharelag.sources.spark import class_data
from tests.support.chapters import CAPTURE
from tests.support.connect import no_session
from tests.support.kafka.jvm import find_java

#: Says whether the archive is a part of Java's memory, and that Spark works.
_SESSION = """
import sys
from pathlib import Path
from sharelag.sources.spark import class_data, session

archive = Path(sys.argv[1])
class_data.archive = lambda: archive
spark = session(spark_master="local[1]")
java = spark._jvm.java.lang.ProcessHandle.current().pid()
print(str(archive) in Path(f"/proc/{java}/maps").read_text(), spark.range(3).count())
"""


def session_with(archive: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _SESSION, str(archive)]
    return subprocess.run(
        command, env=no_session(), capture_output=True, text=True, check=False, timeout=200
    )


@pytest.mark.exhaustive
def test_what_is_recorded_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "share" / "spark.jsa"
    monkeypatch.setattr(class_data, "archive", lambda: archive)
    assert class_data.options() == []
    assert class_data.record("lag", "--capture", str(CAPTURE), "--engine", "spark") == archive
    assert list(archive.parent.iterdir()) == [archive]
    done = session_with(archive)
    assert done.stdout == "True 3\n", done.stderr


def test_java_passes_over_what_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(b"of another Java")
    monkeypatch.setattr(class_data, "archive", lambda: archive)
    options = class_data.options()
    assert f"-XX:SharedArchiveFile={archive}" in options
    done = subprocess.run(
        [find_java(), *options, "-version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "rchive" not in done.stdout + done.stderr


@pytest.mark.exhaustive
def test_spark_passes_over_what_does_not_fit(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(b"of another Java")
    done = session_with(archive)
    assert done.stdout == "False 3\n", done.stderr
    assert "rchive" not in done.stderr


def test_it_is_bound_to_the_versions_of_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert class_data.archive() is None
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.4"\n')
    monkeypatch.setattr(class_data, "version", lambda _: "4.0.9")
    assert class_data.archive() == Path(
        sys.prefix, "share", "sharelag", "spark-4.0.9-java-21.0.4.jsa"
    )


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(("lag", "--no-such-option"), id="usage"),
        pytest.param(
            ("lag", "--capture", "nowhere", "--engine", "spark"),
            id="after Spark has started",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_nothing_is_recorded_where_the_job_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: tuple[str, ...]
) -> None:
    monkeypatch.setattr(class_data, "archive", lambda: tmp_path / "spark.jsa")
    assert class_data.record(*question) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_failed_job_has_recorded_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if Java had written the classes of a job that failed, which may be too few."""
    monkeypatch.setattr(class_data, "archive", lambda: tmp_path / "spark.jsa")
    writes = (
        "import os, sys; "
        "sys.exit(open(os.environ['SPARK_SUBMIT_OPTS'].split('=')[1].split()[0], 'w').close() or 1)"
    )
    monkeypatch.setattr(class_data, "_COMMAND", writes)
    assert class_data.record("lag") is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(class_data, "_COMMAND", writes.replace("or 1", "or 0"))
    assert class_data.record("lag") == tmp_path / "spark.jsa"
