"""The page of faults is what test runs wrote, and adds up what several tests injected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tools import reliability_page


def test_the_page_is_made_of_what_was_kept() -> None:
    kept = json.loads(reliability_page.KEPT.read_text("utf-8"))
    page = reliability_page.PAGE.read_text("utf-8")
    assert reliability_page.written(page, kept) == page, "run `python -m tools.reliability_page`"
    assert not [name for name, one in kept.items() if not one["passed"]]
    faults = [fault for one in kept.values() for fault in one["faults"]]
    assert sum(fault["lost"] + fault["wrong"] for fault in faults) == 0
    assert all(map(reliability_page._is_there, kept)), "run `python -m tools.reliability_page`"
    assert not reliability_page._is_there("tests/unit/test_docs_reliability.py::test_gone[1]")


def fault(area: str = "brokers", **more: Any) -> dict[str, Any]:
    plain = {"times": 2, "lost": 0, "wrong": 1, "happened": {}, "measured": {}}
    return plain | {"area": area, "fault": "a | b"} | more


def test_the_same_fault_of_two_tests_is_one_row() -> None:
    kept = {
        "a": {
            "as_of": "2026-11-23",
            "passed": True,
            "faults": [fault(happened={"whole answers": 1_000}, measured={"s": 0.5})],
        },
        "b": {
            "as_of": "2026-11-24",
            "passed": False,
            "faults": [fault(lost=3, happened={"whole answers": 2, "none": 0}, measured={"s": 2})],
        },
    }
    text = reliability_page.tables(kept)
    assert "| a \\| b | 4 | 1,002 whole answers; at most 2 s | 3 | 2 |" in text
    assert (
        "4 faults by 2 tests, which ran from 2026-11-23 to 2026-11-24; 1 of them failed: b." in text
    )
    with pytest.raises(SystemExit, match="unknown area 'brokes': choose one of brokers"):
        reliability_page.tables({"a": kept["a"] | {"faults": [fault("brokes")]}})
