"""Shared fixtures: the number of random cases, and the requirement rows that tests show."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.rows import ROWS
from tests.support.cases import Cases
from tests.support.reliability import FaultRecorder, Inject, noting
from tests.support.seen_ways import WaysRecorder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sharelag.workbench import Workbench
    from tests.support.packages import Packages

# jsonschema imports it to judge IRIs, which no test has: it makes parsers for 2.5 seconds.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

settings.register_profile("quick", max_examples=20, derandomize=True, deadline=None)
settings.register_profile("exhaustive", max_examples=2000, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="what a usual run leaves out, and the full number of random cases",
    )
    parser.addoption(
        "--faults",
        action="store_true",
        help="the tests alone that inject faults, as often as --exhaustive does",
    )
    choices = ["classic", "connect"]
    parser.addoption(
        "--spark", choices=choices, default="classic", help="what the Spark of the tests is"
    )
    parser.addoption(
        "--delta",
        action="store_true",
        help="the Spark of the tests has Delta's package, if one fits it",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--faults"):
        config.option.exhaustive = True
    exhaustive = config.getoption("--exhaustive")
    settings.load_profile("exhaustive" if exhaustive else "quick")
    if exhaustive:  # the full numbers take their time
        config.option.timeout = 24 * 3600
    gc.disable()  # what is imported and collected stays: see pytest_collection_finish
    config.pluginmanager.register(_RowRecorder(), "sharelag-rows")
    config.pluginmanager.register(_Exhaustive(config), "sharelag-exhaustive")
    config.pluginmanager.register(FaultRecorder(), "sharelag-faults")
    config.pluginmanager.register(WaysRecorder(), "sharelag-ways")
    os.environ.pop("KAFKA_BOOTSTRAP_SERVERS", None)  # no test asks a cluster of the user's
    # Java's second compiler pays for itself after minutes, which no test's Spark lasts, and to
    # compile a query costs more than a test's few rows take without.
    brief = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.sql.codegen.wholeStage=false"
    brief += " -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", brief)


def pytest_collection_finish() -> None:
    # Going through all tests and modules again and again is an eighth of what unit tests take.
    gc.enable()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.distribution import ByRoom

    return ByRoom(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput"):
        from tests.support.distribution import give_way

        give_way(item.location[0])


@pytest.fixture(scope="session")
def cases(request: pytest.FixtureRequest) -> Cases:
    """Return a function that says how many random cases: ``cases(quick, exhaustive)``."""
    return Cases(bool(request.config.getoption("--exhaustive")))


@pytest.fixture(scope="session")
def poison() -> Workbench:
    """Return a recorded group with a record that fails at every delivery."""
    from tests.support.readings import open_once

    return open_once("poison")


@pytest.fixture
def registered() -> Iterator[None]:
    """Forget afterwards which assignors a test has registered."""
    from sharelag.whatif import ASSIGNORS

    with patch.dict(ASSIGNORS):
        yield


@pytest.fixture
def injected(request: pytest.FixtureRequest) -> Inject:
    """Writes a fault that the test injected, and what came of it, for `docs/reliability.md`."""
    return noting(request.node)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The one Spark session of a test run: a cold start costs ten seconds and more."""
    from sharelag.inputs.spark import session
    from tests.support.kafka.jars import connector_jars, delta_jars

    with ExitStack() as ends:
        lake = delta_jars() if request.config.getoption("--delta") else []
        extensions = "io.delta.sql.DeltaSparkSessionExtension"
        if request.config.getoption("--spark") == "connect":
            from tests.support.connect import connect_server

            settings = ends.enter_context(pytest.MonkeyPatch.context())
            jars = {"spark.jars": ",".join(map(str, [*connector_jars(), *lake]))}
            jars |= {"spark.sql.extensions": extensions} if lake else {}
            settings.setenv("SPARK_REMOTE", ends.enter_context(connect_server(settings=jars)))
            running = session("sharelag-tests")
        else:
            plain = {"spark_master": "local[2]"}
            if lake:
                plain |= {"spark_jars": ",".join(map(str, lake))}
                plain |= {"spark_sql_extensions": extensions}
            running = session("sharelag-tests", **plain)
        ends.callback(running.stop)
        if lake:
            catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
            running.conf.set("spark.sql.catalog.spark_catalog", catalog)
        yield running


@pytest.fixture(scope="session")
def remote() -> Iterator[str]:
    """Return the address of one Spark Connect server that kernels and commands share."""
    from tests.support.connect import QUICK, connect_server

    with connect_server(settings=QUICK) as address:
        yield address


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    """A place for packages that plug in by their entry points."""
    from tests.support.packages import Packages

    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = Packages(folder)
    yield made
    made.forget()


class _Exhaustive:
    """Shares tests between ``make test`` and ``make test-exhaustive``, and says what is left.

    The second runs those that take a minute or more, and those with random cases, whose number it
    raises; it does not repeat what is the same in both.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.left = config, 0
        self.exhaustive: bool = config.getoption("--exhaustive")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if any("::" in argument for argument in self.config.args):
            return  # those that somebody named
        kept = [item for item in items if self._belongs(item)]
        self.left = len(items) - len(kept)
        items[:] = kept
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["left"] = self.left

    def _belongs(self, item: pytest.Item) -> bool:
        if self.config.getoption("--faults"):
            return "injected" in getattr(item, "fixturenames", ())
        long = item.get_closest_marker("exhaustive") is not None
        if not self.exhaustive:
            return not long
        is_random = is_hypothesis_test(getattr(item, "obj", None))
        return long or is_random or "cases" in getattr(item, "fixturenames", ())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left = max(self.left, getattr(node, "workeroutput", {}).get("left", 0))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.left:
            return
        if self.config.getoption("--faults"):
            said = "make test and make test-exhaustive: they inject no faults"
        elif self.exhaustive:
            said = "make test: they are the same there"
        else:
            said = "make test-exhaustive: they take long"
        terminalreporter.line(f"{self.left} tests are left to {said}")


class _RowRecorder:
    """Writes which rows' tests passed and failed in this run, for ``make rows``."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, bool]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # What a report carries along reaches this process also when another one ran the test.
        for item in items:
            item.user_properties += [
                ("row", row) for marker in item.iter_markers("row") for row in marker.args
            ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, row in report.user_properties:
            if name == "row":
                tests = self.outcomes.setdefault(str(row), {})
                tests[report.nodeid] = tests.get(report.nodeid, True) and report.passed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return  # one of several processes, which knows its own tests only
        chosen = (
            session.config.option.keyword
            or session.config.option.markexpr
            or session.config.option.collectonly
            or getattr(session.config.option, "lf", False)
        )
        if chosen or session.config.args != session.config.getini("testpaths"):
            return  # a part of the tests says nothing about the rows of the others
        ROWS.parent.mkdir(exist_ok=True)
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        ROWS.write_text(json.dumps({"as_of": moment, "rows": self.outcomes}, indent=1) + "\n")
