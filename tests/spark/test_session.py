"""A session that we make has our settings, unless the user has set others anywhere."""

import gc
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Semaphore, Thread
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from sharelag.errors import SetupError
from sharelag.inputs.spark import daemon, is_connect, java, session, sessions
from sharelag.inputs.spark.sessions import spark_home, user_settings
from tests.support.connect import no_session
from tests.support.own_process import SCRIPT, WAIT, run_python


def test_two_threads_start_one_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a dashboard starts it, and the next cell asks for it meanwhile."""
    made: list[object] = []
    looked, go_on = Semaphore(0), Event()

    def there() -> object:
        looked.release()
        return made[0] if made else None

    def own(*_: object) -> object:
        assert go_on.wait(120)
        made.append(object())
        return made[-1]

    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sessions, "existing", there)
    monkeypatch.setattr(sessions, "_only_connect", lambda _: False)
    monkeypatch.setattr(sessions, "_own", own)
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(session)]
        assert looked.acquire(timeout=120)
        asked.append(both.submit(session))
        # While the first one starts Spark, the other one does not even look for it.
        assert not looked.acquire(timeout=0.3)
        go_on.set()
        assert [one.result(120) for one in asked] == [made[0]] * 2
    assert len(made) == 1


def test_an_active_session_is_returned_as_it_is(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    found = [session("another", spark_sql_shuffle_partitions="77")]
    run = Thread(target=lambda: found.append(session("another", spark_sql_shuffle_partitions="78")))
    run.start()
    run.join()
    assert all(one is spark for one in found)
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_our_own_session(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert str(spark.conf.get("spark.master")).startswith("local[")
    assert is_connect(spark) == (request.config.getoption("--spark") == "connect")
    if not is_connect(spark):
        assert spark.sparkContext.pythonExec == sys.executable
        assert spark.sparkContext.uiWebUrl is None


@pytest.mark.exhaustive
def test_what_was_submitted_with_settings_keeps_them(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    env = no_session() | {"PYTHONPATH": str(Path.cwd()), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [
            *(f"{spark_home()}/bin/spark-submit", "--master", "local[1]"),
            *("--conf", "spark.sql.session.timeZone=Asia/Tokyo"),
            *("--conf", "spark.sql.shuffle.partitions=9"),
            *("--conf", "spark.ui.enabled=false", str(script)),
        ],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    # The script's own argument wins over --conf, --conf over what we would choose.
    assert "told: False local[1] Asia/Tokyo 5 false 180s" in done.stdout, done.stderr[-2000:]


@pytest.mark.exhaustive
def test_the_users_defaults_stay_and_the_rest_is_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        f"# of the user\nspark.master  local[3]\nspark.sql.session.timeZone=Asia/Tokyo\n"
        f"{WAIT} 99s\n"
    )
    done = run_python("-c", SCRIPT, SPARK_CONF_DIR=str(tmp_path))
    assert "told: False local[3] Asia/Tokyo 5 false 99s" in done.stdout, done.stderr[-2000:]


def test_where_the_user_says_what_a_session_is(tmp_path: Path) -> None:
    assert user_settings({"SPARK_CONF_DIR": str(tmp_path)}) == {}
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\nspark.a  b c\n")
    result = user_settings({"SPARK_CONF_DIR": str(tmp_path), "MASTER": "local[1]"})
    assert result == {"spark.master": "yarn", "spark.a": "b c"}
    submitted = "--master local[5] --conf spark.a='x y' -c spark.b=1=2 pyspark-shell"
    result = user_settings({"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": submitted})
    assert result == {"spark.master": "local[5]", "spark.a": "x y", "spark.b": "1=2"}


@pytest.mark.parametrize(
    ("environment", "settings", "wait"),
    [
        ({"MASTER": "spark://one:7077"}, {}, "180s"),
        ({"MASTER": "spark://one:7077"}, {"spark_python_authenticate_socketTimeout": "60s"}, "60s"),
        ({"MASTER": "spark://one:7077", "PYSPARK_SUBMIT_ARGS": f"--conf {WAIT}=99s"}, {}, "99s"),
        ({"SPARK_REMOTE": "local[2]"}, {}, "180s"),
        ({"SPARK_REMOTE": "local[2]"}, {"spark_python_authenticate_socketTimeout": "60s"}, "60s"),
        ({"SPARK_REMOTE": "local[2]", "PYSPARK_SUBMIT_ARGS": f"--conf {WAIT}=99s"}, {}, "99s"),
        ({"SPARK_REMOTE": "sc://server"}, {}, None),
        ({"PYSPARK_GATEWAY_PORT": "1"}, {}, "180s"),
        ({"PYSPARK_GATEWAY_PORT": "2"}, {}, None),
    ],
)
def test_workers_are_waited_for_on_every_spark_that_we_start(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    settings: dict[str, str],
    wait: str | None,
) -> None:
    """None: Spark gets no setting from us or the user, and uses those it was started with."""
    requests: list[str | None] = []

    def made(_: str, wanted: dict[str, str]) -> SimpleNamespace:
        # A server that pyspark starts here refuses it of a session, so there it is an argument.
        requests.append((user_settings(os.environ) | wanted).get(WAIT))
        return SimpleNamespace(conf=SimpleNamespace(getAll=sessions.RUNTIME))

    submitted = {WAIT: "99s"} if environment.get("PYSPARK_GATEWAY_PORT") == "2" else {}
    monkeypatch.setattr(os, "environ", {"PATH": os.environ["PATH"]} | environment)
    monkeypatch.setattr(sessions, "existing", lambda: None)
    monkeypatch.setattr(sessions, "_require_java", lambda: None)
    monkeypatch.setattr(sessions, "_make_session", made)
    monkeypatch.setattr(sessions, "_read_submitted", lambda: submitted)
    monkeypatch.setattr(sessions, "user_settings", lambda: user_settings(environment))
    session(**settings)
    assert requests == [wait]
    assert os.environ.get("PYSPARK_SUBMIT_ARGS") == environment.get("PYSPARK_SUBMIT_ARGS")


def test_nothing_says_where_spark_connect_is() -> None:
    code = "from sharelag.inputs.spark import session; session()"
    done = run_python("-c", code, SPARK_CONNECT_MODE_ENABLED="1")
    assert "SetupError: only Spark Connect is installed here" in done.stderr
    assert "set SPARK_REMOTE" in done.stderr


@pytest.mark.parametrize("trouble", ["a thread", "an import"])
def test_without_forks_it_is_sparks_daemon(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []

    def become(_: str, command: list[str]) -> None:
        became.append(command)
        raise SystemExit

    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(daemon, "_part_random_numbers", lambda: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setenv("JE_ARROW_MALLOC_CONF", "")
    if trouble == "a thread":
        monkeypatch.setattr(daemon, "_threads", lambda: 2)
    else:
        monkeypatch.setitem(sys.modules, "sharelag.engine.spark", None)
    with pytest.raises(SystemExit):
        daemon.main()
    ((python, *command),) = became
    assert (python, command) == (sys.executable, ["-c", daemon._BARE, "pyspark.worker"])


def test_workers_that_import_for_themselves_are_forked() -> None:
    """What becomes of a daemon that cannot be forked is one that Spark can use."""
    command = [sys.executable, "-c", daemon._BARE, "pyspark.worker"]
    # Spark ends it by closing its standard input.
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=120)
    assert (len(done.stdout), done.stderr) == (4, b"")  # the port that it listens on


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SetupError, match=r"pip install 'sharelag\[spark\]'.*engine=\"local\""):
        session()


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SetupError, match=r"Java 17 or newer.*--engine local"):
        sessions._require_java()


def test_a_java_that_spark_does_not_start_on(tmp_path: Path) -> None:
    """As Java 11 does, this one ends with an error instead of running Spark's classes."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n")
    java.chmod(0o755)
    code = "from sharelag.inputs.spark import session; session()"
    done = run_python("-c", code, JAVA_HOME=str(tmp_path))
    assert "SetupError: Spark did not start" in done.stderr
    assert "Java 17 or newer" in done.stderr
    # What Java says stays, before what we say of it.
    said = done.stderr.index("UnsupportedClassVersionError")
    assert said < done.stderr.index("SetupError: Spark did not start")


_WORKERS = """
import os, time
import pyarrow as pa

def told(batches):
    import os, sys, time
    import numpy as np, pyarrow as pa
    for _ in batches:
        time.sleep(1)  # so that the other task gets another worker
        threads = open(f"/proc/{os.getppid()}/status").read().partition("Threads:")[2].split()[0]
        random, there = float(np.random.random()), "sharelag.wire.decode" in sys.modules
        yield pa.RecordBatch.from_pylist(
            [{"pid": os.getpid(), "threads": threads, "random": random, "there": there}]
        )

made = session(spark_master="local[2]")
kinds = "pid long, threads string, random double, there boolean"
rows = made.range(0, 2, 1, 2).mapInArrow(told, kinds).collect()
print({row.threads for row in rows}, {row.there for row in rows}, len({row.pid for row in rows}),
      len({row.random for row in rows}))

def endless(batches):
    for _ in batches:
        while True:
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()] * 10_000})

(row,) = made.range(1).mapInArrow(endless, "pid long").limit(1).collect()
while os.path.exists(f"/proc/{row.pid}"):
    time.sleep(0.1)
made._jvm.java.lang.System.err.println("a line of Java")
made.stop()
"""


@pytest.fixture(scope="module")
def workers() -> subprocess.CompletedProcess[str]:
    """A process that asks its workers what they are, and takes one row of a worker's many."""
    done = run_python("-c", f"from sharelag.inputs.spark import session\n{_WORKERS}")
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.exhaustive  # a Spark of its own
def test_workers_are_forked_with_imports(workers: subprocess.CompletedProcess[str]) -> None:
    assert workers.stdout == "{'1'} {True} 2 2\n", workers.stderr[-2000:]


@pytest.mark.exhaustive  # the same Spark
def test_nothing_is_written_but_what_is_wrong(workers: subprocess.CompletedProcess[str]) -> None:
    """Java's warning of incubator modules is left out; the rest of its words are passed on.

    So is the traceback of a worker that had more rows than its query needed.
    """
    assert workers.stderr == "a line of Java\n"


def test_a_worker_that_starts_too_late_prints_nothing() -> None:
    """What Spark's own worker of a stream writes when nobody listens; a stream tries again."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    worker = [sys.executable, "-m", "pyspark.sql.streaming.python_streaming_source_runner"]
    of_spark = {"PYTHON_WORKER_FACTORY_PORT": f"{port}", "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    late = subprocess.run(
        worker, env=os.environ | of_spark, capture_output=True, check=False, timeout=120
    ).stderr.splitlines(keepends=True)
    assert (late[0], len(late) > 3) == (b"Traceback (most recent call last):\n", True)
    other = [b"Traceback (most recent call last):\n", b"  File one\n", b"ValueError: of a user\n"]
    lines = [b"before\n", *late, *other, java.NOISE, *late, b"after\n", other[0]]
    assert list(java.of_use(lines)) == [b"before\n", *other, b"after\n", other[0]]


def test_other_errors_of_workers_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (BrokenPipeError(32, "Broken pipe"), EOFError(), ImportError("no such module")):
        try:
            raise error
        except Exception:
            daemon.print_unless_closed()
    said = capsys.readouterr().err
    assert said.count("Traceback") == 1
    assert said.endswith("ImportError: no such module\n")
