"""A session has our settings unless the user set others; Java's classes; what is stopped."""

import gc
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
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
from tests.support.kafka.jvm import find_java
from tests.support.kafka.workload import wait_until
from tests.support.own_process import SCRIPT, WAIT, run_python

INTERRUPTED = """
import os, signal, threading, time
import pyarrow as pa
from py4j.protocol import Py4JNetworkError
from sharelag.engine.spark.packing import collect
from sharelag.inputs.spark import session
from tests.support.kafka.workload import wait_until

spark = session()
tasks = spark.sparkContext.statusTracker()

def endless(batches):
    time.sleep(400)
    yield from batches

def runs():
    try:
        return bool(tasks.getActiveStageIds())
    except Py4JNetworkError:  # of the first connection after an interrupt
        return None

def interrupt():
    wait_until(runs, "a job runs")
    os.kill(os.getpid(), signal.SIGINT)

waiting = spark.range(1).mapInArrow(endless, "id long")
rows = lambda: collect(waiting, pa.schema([("id", pa.int64())]))
for name, ask, error in (
    ("ours", rows, KeyboardInterrupt),
    ("pyspark's", waiting.collect, (KeyboardInterrupt, Py4JNetworkError)),
):
    threading.Thread(target=interrupt).start()
    try:
        ask()
    except error:
        wait_until(lambda: runs() is False, "the job is cancelled")
        print(f"{name}: interrupted", spark.range(3).count())
"""
STOPPED = """
import gc
import sharelag
from sharelag.errors import InputError, SetupError
from sharelag.inputs.spark import session

def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return str(error)
    raise AssertionError("answered")

bench, closed, cached, lost = (sharelag.open("chapters", cache=n > 0) for n in range(4))
rows = [sorted(map(str, bench.frames.lag.collect())), len(bench.history().table)]
closed.explain(), cached.lag(), lost.lag()
raw, offsets = bench.frames.raw, bench.frames.offsets
theirs = sharelag.open(raw=raw, offsets=offsets)
named = sharelag.open("chapters", spark=session())
known = theirs.lag()
session().stop()

del lost  # what is gone leaves the cache when the next one asks
gc.collect()
print("frames:", sorted(map(str, bench.frames.lag.collect())) == rows[0])
print("history:", bench.sql("select * from history").count() == rows[1])
closed.close()
print("kept:", closed.lag().table.equals(bench.lag().table))
print("read again:", cached.history().table.num_rows == bench.frames.history.count() == rows[1])
print("collected:", theirs.lag().table.equals(known.table))
print(refused(SetupError, lambda: theirs.frames.lag))
print(refused(SetupError, named.lag))
print(refused(InputError, lambda: sharelag.open(raw=raw)))
print(refused(InputError, lambda: sharelag.lag(raw, offsets)))
"""
SAID = """\
frames: True
history: True
kept: True
read again: True
collected: True
the Spark session of this workbench was stopped: open it again, with DataFrames or spark= of a \
running session
the Spark session of this workbench was stopped: open it again, with DataFrames or spark= of a \
running session
raw records: the Spark session of this DataFrame was stopped: make it again in one that runs
offsets: the Spark session of this DataFrame was stopped: make it again in one that runs
"""


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
    monkeypatch.setattr(sessions, "_require_server", lambda _: None)
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


#: Its Connect server ends after the first answer.
DEAD = """
import os
import sharelag
from sharelag.errors import SetupError
from tests.support.connect import QUICK, connect_server

with connect_server(settings=QUICK) as os.environ["SPARK_REMOTE"]:
    bench = sharelag.open("chapters", engine="spark")
    bench.lag()
try:
    bench.history()
except SetupError as error:
    print(error)
session = sharelag.open("chapters", engine="spark").lag
"""


@pytest.mark.parametrize(
    "code",
    [
        "from sharelag.inputs.spark import session",
        pytest.param(DEAD, marks=pytest.mark.exhaustive),
    ],
    ids=["when it starts", "later"],
)
def test_a_dead_server_of_spark_connect_is_named_soon(code: str) -> None:
    """pyspark alone would retry for minutes, also at the end of the process."""
    begin = time.monotonic()
    remote = "sc://127.0.0.1:1/;token=secret"
    done = run_python("-c", f"{code}\nsession()", SPARK_REMOTE=remote)
    assert time.monotonic() - begin < (30 if code != DEAD else 180)
    said = "no Spark Connect server answers at 127.0.0.1:"
    assert f"SetupError: {said}" in done.stderr
    assert (said in done.stdout) == (code == DEAD)
    assert "secret" not in done.stderr


def test_a_wrong_address_of_spark_connect_is_refused_without_its_token() -> None:
    code = """
import os
from sharelag.errors import SetupError
from sharelag.inputs.spark import session
for remote in ("h:1/;token=SECRET==", "/;token=SECRET", "h:1;token=SECRET", "me:SECRET@h:x"):
    os.environ["SPARK_REMOTE"] = f"sc://{remote}"
    try:
        session()
    except SetupError as error:
        print(error, error.__cause__)
"""
    said = run_python("-c", code).stdout.splitlines()
    rest = "with what follows is not an address of Spark Connect: give sc://HOST:PORT/;token=TOKEN"
    begins = [line.partition(f" {rest}")[0] for line in said]
    assert begins == ["sc://h:1", "sc:", "sc://h:1", "sc://h:x"]
    assert "SECRET" not in str(said)


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


def test_a_spark_of_the_main_thread_is_interrupted_and_its_workbench_goes_on_in_the_next() -> None:
    """Neither pyspark's own handler, which Java does not always hear, nor Java's error is seen."""
    done = run_python("-c", INTERRUPTED + STOPPED)
    interrupts = "ours: interrupted 3\npyspark's: interrupted 3\n"
    assert done.stdout == interrupts + SAID, done.stderr[-2000:]
    assert "reentrant" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["stop()", "client.release_session()"])
def test_a_workbench_goes_on_in_the_session_of_spark_connect_that_follows(
    remote: str, end: str
) -> None:
    """The user has stopped it, or its server has closed it, as one that was not used for long."""
    done = run_python("-c", STOPPED.replace("stop()", end), SPARK_REMOTE=remote)
    assert done.stdout == SAID, done.stderr[-2000:]
