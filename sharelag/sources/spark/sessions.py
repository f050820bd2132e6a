"""The user's Spark session, whichever it is; without one, a local session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from sharelag.errors import SetupError
from sharelag.sources.spark import interrupts, jvm
from sharelag.sources.spark import settings as ours
from sharelag.sources.spark.notice import notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTING = RLock()


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
    with _STARTING:  # a dashboard starts Spark in a thread, and a cell may ask for it meanwhile
        found = _session(app_name, settings)
    interrupts.cancel_jobs()
    return found


def _session(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    there = existing()
    if there is not None:
        return there
    wanted = {name.replace("_", "."): value for name, value in settings.items()}
    remote = wanted.get("spark.remote") or os.environ.get("SPARK_REMOTE", "")
    if remote:
        wanted.pop("spark.master", None)  # a Connect server has its own
    try:
        if "PYSPARK_GATEWAY_PORT" in os.environ or remote or _only_connect(wanted):
            made = _elsewhere(app_name, wanted, remote)
        else:
            made = _own(app_name, wanted)
    except PySparkException as error:
        raise SetupError(_advice(error, remote)) from error
    if not is_connect(made):
        interrupts.started()
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


def is_connect(spark: SparkSession) -> bool:
    """Whether a session uses Spark Connect, which has no ``sparkContext``."""
    return any(base.__module__.startswith("pyspark.sql.connect.") for base in type(spark).__mro__)


def existing() -> SparkSession | None:
    """Return the active session; None if there is none, or it was stopped or has not started."""
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


def _only_connect(wanted: dict[str, str]) -> bool:
    """Whether pyspark only supports Spark Connect, although no address is given."""
    from pyspark.util import default_api_mode, is_remote_only

    mode = wanted.get("spark.api.mode") or os.environ.get("SPARK_API_MODE") or default_api_mode()
    return is_remote_only() or "SPARK_CONNECT_MODE_ENABLED" in os.environ or mode == "connect"


def _elsewhere(app_name: str, wanted: dict[str, str], remote: str) -> SparkSession:
    """Return a session of an existing Spark: through Spark Connect or spark-submit."""
    arguments = ""
    if not remote.startswith("sc:"):  # pyspark may start Spark or a Connect server here
        _set_environment(remote or "local")
        if remote or _only_connect(wanted):
            said = ours.given() | wanted
            missing = (
                f"--conf {name}={value} "
                for name, value in ours.STARTED.items()
                if name not in said
            )
            arguments = "".join(missing)
        else:
            said = _submitted()
            wanted = {
                name: value for name, value in ours.STARTED.items() if name not in said
            } | wanted
    with (
        notice(f"connecting to Spark {remote.partition('/;')[0]}".rstrip()),
        _started_with(arguments),
    ):
        made = _made(app_name, wanted)
        before = made.conf.getAll
        for name, value in ours.RUNTIME.items():
            if name not in before and name not in wanted:
                made.conf.set(name, value)
    return made


@contextmanager
def _started_with(arguments: str) -> Iterator[None]:
    """Pass arguments to a server that pyspark starts here; it ignores those of the session."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{arguments}{before or 'pyspark-shell'}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def _submitted() -> dict[str, str]:
    """Return the settings of ``spark-submit``, from files and arguments, from the waiting JVM."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _own(app_name: str, wanted: dict[str, str]) -> SparkSession:
    """Return a session by the user's Spark configuration, or else on this machine."""
    _require_java()
    given = ours.given()
    master = wanted.get("spark.master") or given.get("spark.master", "local[*]")
    here = master.startswith("local")
    _set_environment(master)
    suits = ours.local() if here else ours.RUNTIME | ours.STARTED
    chosen = {name: value for name, value in suits.items() if name not in given}
    with notice("starting Spark on this machine" if here else f"starting Spark on {master}"):
        jvm.start({"spark.app.name": app_name} | chosen | wanted)
        return _made(app_name, chosen | wanted)


def _made(app_name: str, wanted: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _set_environment(master: str) -> None:
    # Workers default to the system's python3, which does not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        # Otherwise Spark binds to the address of the host name, or fails if it has none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        raise SetupError(
            "Spark needs Java 17 or newer, but there is no java on the PATH or in JAVA_HOME: "
            "install it (on Debian: apt install openjdk-17-jdk-headless), or use --engine local"
        )


def _advice(error: Exception, remote: str) -> str:
    said = next(iter(str(error).splitlines()), type(error).__name__)
    if isinstance(error, ImportError):
        return (
            f"Spark Connect lacks a package ({said}): pip install 'sharelag[connect]', "
            "or use --engine local"
        )
    if "CONNECT_URL_NOT_SET" in said:
        return (
            "only Spark Connect is installed here, but no server is given: set SPARK_REMOTE "
            "(sc://HOST:PORT), or pip install 'sharelag[spark]' and restart, or use --engine local"
        )
    if remote.startswith("sc:"):
        return (
            f"no Spark Connect server answered at {remote} ({said}): "
            "check SPARK_REMOTE, or use --engine local"
        )
    return (
        f"Spark does not start ({said}): Java 17 or newer with all its modules is needed; "
        "`sharelag doctor` checks it, and --engine local needs no Java"
    )
