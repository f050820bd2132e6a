"""The suite has the four kinds of tests that KIP-932 plans, and says how each is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def counted(folder: str, decorator: str = "") -> int:
    """Count the test functions of a folder, or their decorators of a name."""
    line = re.compile(rf"^ *@{decorator}\(" if decorator else r"^ *def test_", re.MULTILINE)
    return sum(
        len(line.findall(path.read_text("utf-8"))) for path in (ROOT / folder).rglob("test_*.py")
    )


@pytest.mark.row("CMP-03")
def test_unit_property_whole_way_and_performance_tests_are_there_and_run() -> None:
    assert counted("tests/unit") > 1_000
    assert counted("tests", "given") >= 10
    assert counted("tests/kafka") > 100
    measured = json.loads((ROOT / "docs" / "benchmarks.json").read_text("utf-8"))
    assert measured
    # What runs them: make test has all of tests/, make bench the performance.
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == "make test"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\ntest: " in makefile
    assert "\nbench:" in makefile
    listed = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("Four kinds:")[2][:400]
    for kind in ("examples", "properties", "whole ways", "performance", "make bench"):
        assert kind in listed
