"""The user's Spark session or a local one, and the progress of its jobs."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Event, RLock, Thread, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import javaproperties

from sharelag.errors import SetupError, first_line
from sharelag.inputs.spark import java
from sharelag.java import find_java
from sharelag.tables.level import can_redraw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return bool(getattr(shell, "kernel", None))


#: The lines that the terminal currently shows.
_SHOWN: list[str] = []


def is_shown() -> bool:
    """Return whether a terminal currently shows a line of `notice`."""
    return bool(_SHOWN)


@contextmanager
def notice(words: str) -> Iterator[Callable[[str], None]]:
    """Show a line during the ``with`` block in a notebook or terminal, never on standard output.

    Yield a function that appends other text to it. A notebook shows it only while a cell runs: a
    thread may be unable to clear it later. A widget would leave a dead view in a saved notebook.
    """
    line = f"{words} ..."
    if in_notebook() and current_thread() is main_thread():
        from IPython.display import display

        shown = display(  # type: ignore[no-untyped-call]  # IPython has no types
            {"text/plain": line}, raw=True, display_id=True
        )
        try:
            yield lambda more: shown.update({"text/plain": line + more}, raw=True)
        finally:
            shown.update({"text/plain": ""}, raw=True)
    elif not in_notebook() and can_redraw():
        _SHOWN.append(line)
        _write(line)
        try:
            yield lambda more: _write(line + more)
        finally:
            _SHOWN.remove(line)
            _write("")
    else:
        yield lambda _: None


def _write(line: str) -> None:
    """Replace the current line of the terminal."""
    sys.stderr.write(f"\r{line}\x1b[K")
    sys.stderr.flush()


#: Settings for any running session, also on a cluster and through Spark Connect.
RUNTIME = {
    # Kafka's timestamps are in UTC, and so are all times that we print.
    "spark.sql.session.timeZone": "UTC",
    # Let toArrow and createDataFrame transfer columns instead of rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Bound batches by bytes, too: a row may hold many records.
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
}
#: Settings that must be set when Spark starts, also on a cluster.
STARTED = {
    # How long the JVM and Python wait for each other, 15 s by default: too short on a busy machine
    # with few cores. A process that has ended is noticed at once, whatever the timeout.
    "spark.python.authenticate.socketTimeout": "180s",
}
_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
#: Delay Java's second compiler tenfold: on two cores it takes a quarter of the time of a short
#: query, and jobs that run for minutes still get it.
_LATER = {"InvocationThreshold": 50_000, "MinInvocationThreshold": 6_000}
_LATER |= {"CompileThreshold": 150_000, "BackEdgeThreshold": 400_000}
_COMPILER = [f"-XX:Tier4{name}={count}" for name, count in _LATER.items()]
#: Whether Spark may merge small partitions of cached rows, as it merges others. Without it, a job
#: on them has a task for each shuffle partition of the session, 200 by default.
MERGES_CACHED = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
_LOCAL = {
    # Spark's default, made explicit: state records have 150 bytes, rarely a few thousand, so that a
    # batch has a few megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # A laptop's tables are small: 200 shuffle partitions would cost more than their work.
    "spark.sql.shuffle.partitions": "8",
    # Merge small partitions, cached ones included: each task with Python costs a round trip to a
    # worker. A few megabytes of records keep a core busy for a second.
    MERGES_CACHED: "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
    # Do not open the port of the web UI.
    "spark.ui.enabled": "false",
    # Progress bars and log lines would mix with the tables that we print.
    "spark.ui.showConsoleProgress": "false",
    # Java keeps the data of the web UI, by default for 1,000 jobs and 100,000 tasks: with a job per
    # second, memory would grow for a quarter of an hour.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "5000",
    "spark.sql.ui.retainedExecutions": "50",
}


def local_settings() -> dict[str, str]:
    """Return the settings of a local session."""
    flags = [_LOGGING, *_COMPILER, *java.archive_options()]
    chosen = RUNTIME | STARTED | _LOCAL | {"spark.driver.extraJavaOptions": " ".join(flags)}
    if os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
        # Import our modules before workers fork: on two cores that halves the time of the first
        # Python task. Such workers also stay silent if a query needs no more of their rows.
        chosen["spark.python.daemon.module"] = "sharelag.inputs.spark.daemon"
    return chosen


def user_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the user's settings: ``spark-defaults.conf``, ``spark-submit`` and ``MASTER``."""
    found = {"spark.master": environment["MASTER"]} if environment.get("MASTER") else {}
    folder = environment.get("SPARK_CONF_DIR") or spark_home(environment) / "conf"
    file = Path(folder, "spark-defaults.conf")
    if file.is_file():
        found |= javaproperties.loads(file.read_text())
    submitted = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    for name, value in pairwise(submitted):
        if name == "--master":
            found["spark.master"] = value
        elif name in ("--conf", "-c"):
            setting, _, text = value.partition("=")
            found[setting] = text
    return found


def spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with Spark's jars and scripts."""
    import pyspark

    return Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)


_STARTING = RLock()
#: How many seconds a server of Spark Connect has for its first answer.
_ANSWER = 10


def session(app_name: str = "sharelag", **settings: str) -> SparkSession:
    """Return the active Spark session, or create one.

    Parameters
    ----------
    app_name : str
        Name of a new session.
    **settings : str
        Spark settings of a new session, with ``_`` for ``.`` (``spark_master="local[4]"``).

    Raises
    ------
    SetupError
        When pyspark or Java is missing, or Spark does not start.

    Notes
    -----
    An active session is returned unchanged. Otherwise ``SPARK_REMOTE`` (Spark Connect),
    ``spark-submit``, ``MASTER`` and ``spark-defaults.conf`` determine where Spark is; their
    settings take precedence, and the master and other static settings of such a Spark are not
    changed. Without any of these, Spark starts on this machine with settings for it.

    Workers run this interpreter, which has the packages they need, unless ``PYSPARK_PYTHON`` names
    another one.
    """
    require_pyspark()
    with _STARTING:  # a cell may need Spark while a dashboard's thread is starting it
        found = _session(app_name, settings)
    java.cancel_jobs()
    return found


def _session(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    there = existing()
    if there is not None and not (is_connect(there) and has_stopped(there)):
        return there
    asked = {name.replace("_", "."): value for name, value in settings.items()}
    remote = asked.get("spark.remote") or os.environ.get("SPARK_REMOTE", "")
    if remote:
        asked.pop("spark.master", None)  # a Connect server has its own
    try:
        if "PYSPARK_GATEWAY_PORT" in os.environ or remote or _only_connect(asked):
            made = _elsewhere(app_name, asked, remote)
        else:
            made = _own(app_name, asked)
    except PySparkException as error:
        raise SetupError(_advice(error, _address(remote))) from error
    if not is_connect(made):
        java.note_start()
    return made


def require_pyspark() -> None:
    """Raise an error that says what to do if pyspark cannot be imported."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise SetupError(
            "Spark is not installed here: pip install 'sharelag[spark]', or 'sharelag[connect]' "
            'for Spark Connect; or use --engine local (engine="local"), which needs neither'
        ) from error


def tasks_at_once(spark: SparkSession) -> int | None:
    """Return how many tasks a session can run at once; None if that varies or is unknown."""
    if is_connect(spark) or spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return None
    return spark.sparkContext.defaultParallelism


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect, which has no ``sparkContext``."""
    return any(base.__module__.startswith("pyspark.sql.connect.") for base in type(spark).__mro__)


@contextmanager
def set_meanwhile(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting of a session during the ``with`` block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def has_stopped(spark: SparkSession) -> bool:
    """Return whether a session has stopped, so that it and its DataFrames are unusable.

    A server of Spark Connect closes sessions after an hour without requests; a request shows it.
    """
    if not is_connect(spark):
        return spark.sparkContext._jsc is None
    from pyspark.errors import PySparkException

    if not spark.is_stopped:  # type: ignore[attr-defined]
        builder = spark.client._builder
        try:
            _require_answer(spark.client._channel, getattr(builder, "endpoint", builder.host))
            spark.conf.get("spark.sql.session.timeZone")
        except PySparkException as error:
            if "INVALID_HANDLE.SESSION_" not in str(error):
                raise
            spark.client.close()  # so that pyspark makes another one
        except SetupError:
            # At the end of the process, pyspark would ask it again for minutes. Where it has no
            # such function, None is not registered either.
            atexit.unregister(getattr(spark.client, "_on_exit", None))  # type: ignore[arg-type]
            raise
    return bool(spark.is_stopped)  # type: ignore[attr-defined]


def _require_answer(channel: Any, address: str) -> None:
    """Refuse a server of Spark Connect that does not answer: pyspark would retry for minutes."""
    import grpc

    ready = grpc.channel_ready_future(channel)
    try:
        ready.result(timeout=_ANSWER)
    except grpc.FutureTimeoutError:
        raise SetupError(
            f"no Spark Connect server answers at {address}: start it again, or check SPARK_REMOTE, "
            "or use --engine local"
        ) from None
    finally:
        ready.cancel()


def existing() -> SparkSession | None:
    """Return the active session; None if there is none, or it has stopped or not yet started."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession, is_remote

    if not is_remote():
        from pyspark import SparkContext

        # A session with a stopped context still counts as active, and a context exists before it
        # has started.
        if getattr(SparkContext._active_spark_context, "_jsc", None) is None:
            return None
    try:
        return SparkSession.active()
    except PySparkException:  # raised if there is no session
        return None


def _only_connect(asked: dict[str, str]) -> bool:
    """Return whether pyspark only supports Spark Connect, although no address is given."""
    from pyspark.util import default_api_mode, is_remote_only

    mode = asked.get("spark.api.mode") or os.environ.get("SPARK_API_MODE") or default_api_mode()
    return is_remote_only() or "SPARK_CONNECT_MODE_ENABLED" in os.environ or mode == "connect"


def _elsewhere(app_name: str, asked: dict[str, str], remote: str) -> SparkSession:
    arguments = ""
    if not remote.startswith("sc:"):  # pyspark may start Spark or a Connect server here
        _set_environment(remote or "local")
        is_server = bool(remote) or _only_connect(asked)
        settings = user_settings() | asked if is_server else _read_submitted()
        more = {name: value for name, value in STARTED.items() if name not in settings}
        if is_server:
            arguments = "".join(f"--conf {name}={value} " for name, value in more.items())
        else:
            asked = more | asked
    words = f"connecting to Spark {_address(remote)}".rstrip()
    with notice(words), _pass_arguments(arguments):
        if remote.startswith("sc:"):
            _require_server(remote)
        made = _make_session(app_name, asked)
        before = made.conf.getAll
        for name, value in RUNTIME.items():
            if name not in before and name not in asked:
                made.conf.set(name, value)
    return made


@contextmanager
def _pass_arguments(arguments: str) -> Iterator[None]:
    """Pass arguments to a server that pyspark starts locally; it ignores those of the session."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{arguments}{before or 'pyspark-shell'}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def _read_submitted() -> dict[str, str]:
    """Return the settings of ``spark-submit`` (files and arguments) from the waiting JVM."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _own(app_name: str, asked: dict[str, str]) -> SparkSession:
    _require_java()
    given = user_settings()
    master = asked.get("spark.master") or given.get("spark.master", "local[*]")
    here = master.startswith("local")
    _set_environment(master)
    suits = local_settings() if here else RUNTIME | STARTED
    chosen = {name: value for name, value in suits.items() if name not in given}
    with notice("starting Spark on this machine" if here else f"starting Spark on {master}"):
        if here:
            java.prepare_at_exit()
        java.start({"spark.app.name": app_name} | chosen | asked)
        return _make_session(app_name, chosen | asked)


def _make_session(app_name: str, asked: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for name, value in asked.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _require_server(remote: str) -> None:
    """Refuse an address of Spark Connect that is malformed, or where no server answers."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        place = DefaultChannelBuilder(remote)
    except ValueError:  # its message, like any part of the address, may have a token
        raise SetupError(
            f"{_address(remote)} with what follows is not an address of Spark Connect: give "
            "sc://HOST:PORT/;token=TOKEN, with %3D for = in the token"
        ) from None
    with place.toChannel() as channel:
        _require_answer(channel, place.endpoint)


def _address(remote: str) -> str:
    """Return an address of Spark Connect without its parameters, user and password."""
    return re.sub(r"//.*@", "//", remote.partition(";")[0].rstrip("/"))


def _set_environment(master: str) -> None:
    # Workers default to the system's python3, which does not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        # Otherwise Spark binds to the address of the host name, or fails if it has none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _require_java() -> None:
    if find_java() is None:
        raise SetupError(
            "Spark needs Java 17 or newer, but there is none in JAVA_HOME, or on the PATH where "
            "that is not set: install it (on Debian: apt install openjdk-17-jdk-headless), "
            "or use --engine local"
        )


def _advice(error: Exception, remote: str) -> str:
    message = first_line(error)
    if isinstance(error, ImportError):
        advice = f"Spark Connect lacks a package ({message}): pip install 'sharelag[connect]'"
    elif "CONNECT_URL_NOT_SET" in message:
        advice = (
            "only Spark Connect is installed here, but no server is given: set SPARK_REMOTE "
            "(sc://HOST:PORT), or pip install 'sharelag[spark]' and restart"
        )
    elif remote.startswith("sc:"):
        advice = f"no Spark Connect server answered at {remote} ({message}): check SPARK_REMOTE"
    else:
        return (
            f"Spark did not start ({message}): Java 17 or newer with all its modules is needed; "
            "`sharelag doctor` checks it, and --engine local needs no Java"
        )
    return f"{advice}, or use --engine local"


# ---- progress and cancellation of Spark's jobs ---------------------------------------------------
# Classic Spark has a status tracker for the tasks of jobs; Spark Connect reports the progress of
# queries to a callback. `Tasks` counts all of a session, which `spark_bar` shows in notebooks;
# `Own` counts those of one thread.


class Count(NamedTuple):
    """Numbers of completed and known tasks."""

    done: int
    all: int


class Tasks:
    """Counter of all tasks that start from now on, in the current or a future session."""

    def __init__(self) -> None:
        self._source: _Classic | _Connect | None = None
        self._attach(fresh=False)

    def count(self) -> Count:
        """Return the numbers of tasks, including those of finished jobs; thread-safe."""
        self._attach(fresh=True)
        return self._source.count() if self._source else Count(0, 0)

    def close(self) -> None:
        """Stop counting."""
        if self._source:
            self._source.close()

    def _attach(self, fresh: bool) -> None:
        """Find the session, which may start later; all jobs of a new session count."""
        spark = None if self._source else existing()
        if spark is not None:
            self._source = _Connect(spark) if is_connect(spark) else _Classic(spark, fresh=fresh)


class Own:
    """Counter of the tasks that one thread starts in the block of `counting`."""

    def __init__(self, spark: SparkSession, words: str) -> None:
        self._spark, self._words = spark, words
        self._name = f"sharelag-{uuid4().hex}"
        self._source: _Classic | _Connect | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the jobs that this thread starts in the ``with`` block, its last use of Spark."""
        if is_connect(self._spark):
            self._spark.addTag(self._name)
            self._source = _Connect(self._spark, get_ident())
        else:
            self._spark.sparkContext.setJobGroup(self._name, self._words)
            self._source = _Classic(self._spark, self._name)
        try:
            yield
        finally:
            self._source.close()

    def count(self) -> Count:
        """Return the numbers of tasks; thread-safe."""
        return self._source.count() if self._source else Count(0, 0)

    def stop(self) -> None:
        """Cancel the running jobs of the thread."""
        if is_connect(self._spark):
            self._spark.interruptTag(self._name)
        else:  # a tag does not reach jobs of toArrow, which collects in a separate thread
            self._spark.sparkContext.cancelJobGroup(self._name)


class _Classic:
    def __init__(self, spark: SparkSession, group: str | None = None, fresh: bool = True) -> None:
        self._tracker, self._group = spark.sparkContext.statusTracker(), group
        self._before = set() if fresh else set(self._jobs())
        self._seen: dict[int, Count] = {}

    def count(self) -> Count:
        jobs = [self._tracker.getJobInfo(job) for job in self._jobs() if job not in self._before]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        infos = {stage: self._tracker.getStageInfo(stage) for stage in stages}
        for stage, one in infos.items():
            if one:
                self._seen[stage] = Count(one.numCompletedTasks, one.numTasks)
        return _total(self._seen)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _jobs(self) -> Iterable[int]:
        """Return the jobs of the group; without a group, active jobs and past ones in no group."""
        ours = self._tracker.getJobIdsForGroup(self._group)
        return ours if self._group else {*ours, *self._tracker.getActiveJobsIds()}


class _Connect:
    def __init__(self, spark: Any, thread: int | None = None) -> None:
        self._spark, self._thread = spark, thread
        self._seen: dict[tuple[str | None, int], Count] = {}
        spark.registerProgressHandler(self._report)

    def count(self) -> Count:
        return _total(dict(self._seen))

    def close(self) -> None:
        self._spark.removeProgressHandler(self._report)

    def _report(self, stages: Iterable[Any] | None, operation_id: str | None, **_: object) -> None:
        # The session calls this in the thread that waits for the query.
        if self._thread in (None, get_ident()):
            for one in stages or ():
                found = Count(one.num_completed_tasks, one.num_tasks)
                self._seen[operation_id, one.stage_id] = found


def _total(seen: Mapping[Any, Count]) -> Count:
    return Count(sum(one.done for one in seen.values()), sum(one.all for one in seen.values()))


_EVERY = 0.2  # seconds between updates


@contextmanager
def spark_bar(words: str, shown: bool | None = None) -> Iterator[None]:
    """Show the progress of Spark's tasks, after a label, in the ``with`` block.

    By default, show it only in a notebook where Spark Connect draws no bar itself, and only for the
    work of a running cell: views that a thread fills show their own progress.
    """
    if shown is None:
        by_spark = os.environ.get("SPARK_CONNECT_PROGRESS_BAR_ENABLED") == "1"
        shown = in_notebook() and not by_spark and current_thread() is main_thread()
    if not shown:
        yield
        return
    ended = Event()
    with notice(words) as show:
        what = (show, Tasks(), ended)
        watcher = Thread(target=_watch, args=what, name="sharelag-spark-bar", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _watch(show: Callable[[str], None], tasks: Tasks, ended: Event) -> None:
    known, last = Count(0, 0), False
    try:
        while not last:
            last = ended.wait(_EVERY)
            if (count := tasks.count()) != known:
                known = count
                show(f" {count.done} of {count.all} tasks")
    finally:
        tasks.close()
