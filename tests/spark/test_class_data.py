"""Java uses the classes recorded for it, and a recording that does not fit does no harm."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sharelag.inputs.spark import java
from tests.support.kafka.jvm import find_java
from tests.support.kafka.workload import wait_until
from tests.support.own_process import run_python


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, where `make env` has recorded nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "archive", lambda: tmp_path / "share" / "spark-4-java-17.jsa")
    return tmp_path / "cache" / "sharelag"


@pytest.fixture
def prepared(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Path]]:
    """Prepare with a Java that writes at once; return what is in the cache then."""
    writes = "open(os.environ['SPARK_SUBMIT_OPTS'].split('=')[1].split()[0], 'w').write('all')"
    monkeypatch.setattr(java, "_COMMAND", f"import os; {writes}")

    def prepare() -> list[Path]:
        java.prepare()
        return sorted(cache.iterdir())

    return prepare


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What the end of this process would do."""
    registered: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", registered.append)
    return registered


def test_the_end_of_a_first_session_prepares_later_ones(
    cache: Path, prepared: Callable[[], list[Path]], at_exit: list[Callable[[], None]]
) -> None:
    assert (java.archive_options(), cache.stat().st_mode & 0o777) == ([], 0o700)
    java.prepare_at_exit()
    assert len(at_exit) == 1
    (kept,) = prepared()
    shared, *_ = java.archive_options()
    assert shared == f"-XX:SharedArchiveFile={kept}"
    java.prepare_at_exit()
    assert len(at_exit) == 1


def test_only_an_environments_newest_stay(cache: Path, prepared: Callable[[], list[Path]]) -> None:
    (kept,) = prepared()
    kept.rename(cache / kept.name.replace("spark-4", "spark-3"))
    other = cache / "spark-4-java-17-0123456789ab.jsa"
    other.touch()
    assert prepared() == sorted([kept, other])


def test_one_process_prepares_at_a_time(cache: Path, prepared: Callable[[], list[Path]]) -> None:
    (kept,) = prepared()
    kept.unlink()
    at_it = kept.with_suffix(".1.part")
    at_it.touch()
    assert prepared() == [at_it]
    os.utime(at_it, (0, 0))
    assert prepared() == [kept]


@pytest.mark.parametrize("of", ["folder", "file"])
def test_what_others_can_write(cache: Path, prepared: Callable[[], list[Path]], of: str) -> None:
    (kept,) = prepared()
    (cache if of == "folder" else kept).chmod(0o777)
    assert java.archive_options() == []
    kept.unlink()
    assert bool(prepared()) == (of == "file")


def test_without_a_place_to_keep_it_nothing_is_recorded(
    cache: Path, at_exit: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    java.prepare_at_exit()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent / "with blanks"))
    java.prepare_at_exit()
    assert java.archive_options() == at_exit == []


@pytest.mark.exhaustive
def test_java_takes_what_was_recorded_after_a_session(tmp_path: Path) -> None:
    """Sessions as people have them, in an environment without an archive."""
    nowhere = (
        "from pathlib import Path; from sharelag.inputs.spark import java\n"
        "java.archive = lambda: Path('nowhere', 'spark.jsa')\n"
    )
    session = nowhere + (
        f"java._LATER = {nowhere + 'java.prepare()'!r}\n"
        "from sharelag.inputs.spark import session\n"
        "spark = session(spark_master='local[1]'); spark.range(3).count()\n"
        "java = spark._jvm.java.lang.ProcessHandle.current().pid()\n"
        "print('.jsa' in Path(f'/proc/{java}/maps').read_text().replace('classes.jsa', ''))"
    )

    def takes() -> str:
        return run_python("-c", session, XDG_CACHE_HOME=str(tmp_path)).stdout

    assert takes() == "False\n"
    wait_until(lambda: any(tmp_path.glob("sharelag/*.jsa")), "classes are recorded", timeout=400)
    assert takes() == "True\n"


def test_java_passes_over_what_doesnt_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(b"of another Java")
    monkeypatch.setattr(java, "archive", lambda: archive)
    options = java.archive_options()
    assert f"-XX:SharedArchiveFile={archive}" in options
    done = subprocess.run([find_java(), *options, "-version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "rchive" not in done.stdout + done.stderr


def test_it_is_bound_to_versions_of_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = tmp_path / "jdk" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.touch(mode=0o755)
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


def test_what_a_failed_job_records_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Java had written the classes of a job that failed, which may be too few."""
    monkeypatch.setattr(java, "archive", lambda: tmp_path / "spark.jsa")
    writes = (
        "import os, sys; part = os.environ['SPARK_SUBMIT_OPTS'].split('=')[1].split()[0]; "
        "sys.exit(open(part, 'w').write('all') * 0 or 1)"
    )
    monkeypatch.setattr(java, "_COMMAND", writes)
    assert java.record("lag") is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(java, "_COMMAND", writes.replace("or 1", "or 0"))
    assert java.record("lag") == tmp_path / "spark.jsa"
