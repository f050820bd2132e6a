"""Where a run writes what its tests saw of the ways from raw records to lag.

The rows go to ``out/ways.json``, and replace those of the same combinations of earlier runs;
``python -m tools.ways_page`` makes the table of ``docs/frames.md`` of that.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.reliability import keep
from tools.ways_page import FAILED, with_new

WRITTEN = Path("out/ways.json")
#: The property of a test that has a row, as JSON.
WAY = "way"


class WaysRecorder:
    """Writes what the tests of this run saw, beside what others of earlier runs did."""

    def __init__(self) -> None:
        self._seen: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == WAY:
                one = json.loads(str(value))
                self._seen.append(one if report.passed else one | {"saw": FAILED})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._seen:
            keep(session, WRITTEN, lambda before: with_new(before or [], self._seen))
