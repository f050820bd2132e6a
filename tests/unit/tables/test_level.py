"""There is one order of levels, and it has what checks, causes and reports need."""

from __future__ import annotations

import pytest

from sharelag.charts import palette
from sharelag.metrics.causes import CAUSES
from sharelag.monitoring.checks.judge import CODES
from sharelag.tables import level


def test_the_order() -> None:
    assert list(level.LEVELS) == ["ok", "note", "unknown", "warning", "critical", "failed"]
    assert level.worst(["ok", "warning", "unknown"]) == "warning"
    assert level.worst([]) == "ok"


def test_all_that_judge_use_it() -> None:
    assert list(CODES) == ["ok", "warning", "critical", "unknown"]
    assert [CODES[name] for name in CODES] == [0, 1, 2, 3]
    assert {cause.severity for cause in CAUSES} <= set(level.SEVERITIES)
    assert tuple(palette.SEVERITIES) == level.SEVERITIES
    assert list(level.CHECKED) == sorted(CODES, key=level.rank, reverse=True)


@pytest.mark.parametrize(
    ("severity", "expected"), [("note", "ok"), ("warning", "warning"), ("critical", "critical")]
)
def test_a_note_needs_nobody(severity: str, expected: str) -> None:
    assert level.outcome(severity) == expected


def test_rule_files_call_a_warning_otherwise() -> None:
    assert level.of_rule("warn") == "warning"
    assert level.of_rule("ok") == "ok"
