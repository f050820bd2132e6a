"""Java uses the classes recorded for it, and a recording that does not fit does no harm."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from sharelag.inputs.spark import java
from tests.support.chapters import CAPTURE
from tests.support.connect import no_session
from tests.support.kafka.jvm import find_java

#: Says whether the archive is a part of Java's memory, and that Spark works.
_SESSION = """
import sys
from pathlib import Path
from sharelag.inputs.spark import java, session

archive = Path(sys.argv[1])
java.archive = lambda: archive
spark = session(spark_master="local[1]")
java = spark._jvm.java.lang.ProcessHandle.current().pid()
print(str(archive) in Path(f"/proc/{java}/maps").read_text(), spark.range(3).count())
"""


def session_with(archive: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _SESSION, str(archive)]
    return subprocess.run(
        command, env=no_session(), capture_output=True, text=True, check=False, timeout=200
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, where `make env` has recorded nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "archive", lambda: tmp_path / "share" / "spark-4-java-17.jsa")
    return tmp_path / "cache" / "sharelag"


def recording(cache: Path) -> Path:
    """The file that Java is told to write; the cache folder is this user's alone."""
    (option, silent) = java.archive_options()
    name, _, path = option.partition("=")
    assert (name, silent) == ("-XX:ArchiveClassesAtExit", "-Xlog:disable")
    assert Path(path).parent == cache
    assert cache.stat().st_mode & 0o777 == 0o700
    return Path(path)


def test_the_first_session_records_and_the_next_one_takes_it(cache: Path) -> None:
    part = recording(cache)
    part.write_bytes(b"\0\0\0\0 so far")  # Java begins with zeros, and writes these bytes last
    assert recording(cache) == part
    part.write_bytes(b"\xa8\xab\x0b\xf0 all")
    kept = cache / f"{part.name.split('.')[0]}.jsa"
    (cache / kept.name.replace("spark-4", "spark-3")).touch()
    other = cache / "spark-4-java-17-0123456789ab.jsa"
    other.touch()
    shared, *_ = java.archive_options()
    assert shared == f"-XX:SharedArchiveFile={kept}"
    # That of another environment stays, and of this one only the newest.
    assert sorted(cache.iterdir()) == sorted([kept, other])


def test_what_a_killed_java_left_is_removed(cache: Path) -> None:
    part = recording(cache)
    left = part.with_suffix(".1.part")
    left.write_bytes(bytes(8))
    os.utime(left, (0, 0))
    recording(cache)
    assert not list(cache.iterdir())


@pytest.mark.parametrize("of", ["folder", "file"])
def test_what_others_can_write_is_neither_taken_nor_written(cache: Path, of: str) -> None:
    part = recording(cache)
    part.write_bytes(b"\xa8\xab\x0b\xf0")
    (shared, *_) = java.archive_options()
    kept = Path(shared.partition("=")[2])
    (cache if of == "folder" else kept).chmod(0o777)
    assert java.archive_options() == []


def test_without_a_place_to_keep_it_nothing_is_recorded(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    assert java.archive_options() == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent / "with blanks"))
    assert java.archive_options() == []


@pytest.mark.exhaustive
def test_java_takes_what_a_session_recorded(tmp_path: Path) -> None:
    """Sessions as people have them, in an environment without an archive."""
    session = (
        "import sys; from pathlib import Path; from sharelag.inputs.spark import java, session\n"
        "java.archive = lambda: Path('nowhere', 'spark.jsa')\n"
        "spark = session(spark_master='local[1]'); spark.range(3).count()\n"
        "java = spark._jvm.java.lang.ProcessHandle.current().pid()\n"
        "print('.jsa' in Path(f'/proc/{java}/maps').read_text().replace('classes.jsa', ''), java)"
    )
    taken = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", session],
            env=no_session() | {"XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        is_taken, java = done.stdout.split()
        taken.append(is_taken)
        wait_for_end(int(java))
    assert taken == ["False", "True"]


def wait_for_end(process: int) -> None:
    """Wait until a process has ended, which writes what it recorded then."""
    descriptor = os.pidfd_open(process) if Path(f"/proc/{process}").exists() else None
    if descriptor is not None:
        select.select([descriptor], [], [], 120)
        os.close(descriptor)


@pytest.mark.exhaustive
def test_what_is_recorded_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "share" / "spark.jsa"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with blanks"))
    monkeypatch.setattr(java, "archive", lambda: archive)
    assert java.archive_options() == []
    assert java.record("lag", "--capture", str(CAPTURE), "--engine", "spark") == archive
    assert list(archive.parent.iterdir()) == [archive]
    done = session_with(archive)
    assert done.stdout == "True 3\n", done.stderr


def test_java_passes_over_what_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(b"of another Java")
    monkeypatch.setattr(java, "archive", lambda: archive)
    options = java.archive_options()
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
    command = tmp_path / "jdk" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.archive() is None
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.4"\n')
    monkeypatch.setattr(java, "version", lambda _: "4.0.9")
    assert java.archive() == Path(sys.prefix, "share", "sharelag", "spark-4.0.9-java-21.0.4.jsa")


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
    monkeypatch.setattr(java, "archive", lambda: tmp_path / "spark.jsa")
    assert java.record(*question) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_failed_job_has_recorded_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if Java had written the classes of a job that failed, which may be too few."""
    monkeypatch.setattr(java, "archive", lambda: tmp_path / "spark.jsa")
    writes = (
        "import os, sys; "
        "sys.exit(open(os.environ['SPARK_SUBMIT_OPTS'].split('=')[1].split()[0], 'w').close() or 1)"
    )
    monkeypatch.setattr(java, "_COMMAND", writes)
    assert java.record("lag") is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(java, "_COMMAND", writes.replace("or 1", "or 0"))
    assert java.record("lag") == tmp_path / "spark.jsa"
