"""Faults that tests injected, what came of each, and where a run writes that down.

A test takes the fixture ``injected`` and calls it once for each kind of fault. The numbers of a run go
to ``out/reliability.json``, by test, so that a run of some tests replaces theirs alone;
``python -m tools.reliability_page`` makes the page of them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from tools.reliability_page import with_new

WRITTEN = Path("out/reliability.json")
_NAME, _INJECTS = "fault", "injects"


@dataclass(frozen=True)
class Fault:
    """A kind of fault, and what happened each time.

    ``area``: what it hits: ``brokers``, ``rights``, ``records``, ``processes``, ``clients``,
    ``load``. ``fault``: in words, such as ``a broker is killed (kill -9)``. ``times``: how often.
    ``happened``: how many of what: ``{"whole answers": 30}``. ``lost``: records that were there and
    that no answer or archive has; null: the test counts none. ``wrong``: answers that were wrong,
    or that seemed whole and were not; null: the test compares none. ``measured``: the largest of
    each, such as ``{"seconds after the timeout": 0.4}``.
    """

    area: str
    fault: str
    times: int
    happened: Mapping[str, int] = field(default_factory=dict)
    lost: int | None = None
    wrong: int | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


class Inject(Protocol):
    """Writes down a kind of fault that a test has injected."""

    def __call__(
        self,
        area: str,
        fault: str,
        times: int,
        happened: Mapping[str, int] = ...,
        lost: int | None = None,
        wrong: int | None = None,
        measured: Mapping[str, float] = ...,
    ) -> None: ...


def noting(item: Any) -> Inject:
    """Return what writes down faults of a test, whichever process runs it."""
    item.user_properties.append((_INJECTS, "yes"))  # one that fails first is to be seen, too

    def inject(
        area: str,
        fault: str,
        times: int,
        happened: Mapping[str, int] | None = None,
        lost: int | None = None,
        wrong: int | None = None,
        measured: Mapping[str, float] | None = None,
    ) -> None:
        if not any((happened or {}).values()) and not measured:
            raise ValueError(f"nothing is said to have happened: {fault}")
        one = Fault(area, fault, times, dict(happened or {}), lost, wrong, dict(measured or {}))
        item.user_properties.append((_NAME, json.dumps(asdict(one))))

    return inject


class FaultRecorder:
    """Writes what the tests of this run injected, beside what others of earlier runs did."""

    def __init__(self) -> None:
        self._by_test: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        faults = [json.loads(str(value)) for name, value in report.user_properties if name == _NAME]
        if (_INJECTS, "yes") in map(tuple, report.user_properties):
            told = {"passed": report.passed, "faults": faults}
            self._by_test[report.nodeid] = {"as_of": datetime.now(UTC).date().isoformat()} | told

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._by_test:
            keep(session, WRITTEN, lambda before: with_new(before or {}, self._by_test))


def keep(session: pytest.Session, file: Path, added: Callable[[Any], Any]) -> None:
    """Write what a run saw beside what a file has of earlier ones, which is None without any."""
    if hasattr(session.config, "workerinput"):
        return  # one of several processes: the first has it all
    before = json.loads(file.read_text("utf-8")) if file.exists() else None
    file.parent.mkdir(exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(added(before), indent=1, sort_keys=True) + "\n")
    draft.rename(file)
