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
    assert [fault for fault in faults if fault["lost"] or fault["wrong"]] == []
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
    unknown = {"a": kept["a"] | {"faults": [fault(wrong=None), fault()]}}
    assert "| a \\| b | 4 |  | 0 | not measured |" in reliability_page.tables(unknown)
    with pytest.raises(SystemExit, match="unknown area 'brokes': choose one of brokers"):
        reliability_page.tables({"a": kept["a"] | {"faults": [fault("brokes")]}})


@pytest.mark.parametrize(
    ("happened", "measured", "text"),
    [
        ({"scrapes without numbers": 1}, {}, "1 scrape without numbers"),
        ({"whole answers": 1}, {}, "1 whole answer"),
        ({"answers like Kafka's": 1}, {}, "1 answer like Kafka's"),
        ({"refusals with what is missing": 2}, {}, "2 refusals with what is missing"),
        ({}, {"seconds after the timeout": 1}, "at most 1 second after the timeout"),
        ({}, {"seconds after the timeout": 1.2}, "at most 1.2 seconds after the timeout"),
        ({}, {"more threads": -8}, "no more threads"),
        ({}, {"more handles": 1}, "at most 1 more handle"),
        ({}, {"more KiB of memory": 0.5}, "at most 0.5 more KiB of memory"),
    ],
)
def test_counts_are_plain_english(
    happened: dict[str, int], measured: dict[str, float], text: str
) -> None:
    one = {"as_of": "2026-11-23", "passed": True}
    one |= {"faults": [fault(happened=happened, measured=measured)]}
    assert f"| 2 | {text} | 0 |" in reliability_page.tables({"a": one})


def ran(times: int, passed: bool = True, name: str = "a") -> dict[str, Any]:
    return {"as_of": "2026-11-23", "passed": passed, "faults": [fault(fault=name, times=times)]}


def test_a_shorter_run_replaces_no_longer_one() -> None:
    before = {"long": ran(30), "short": ran(4), "failed": ran(30, passed=False), "other": ran(30)}
    new = {"long": ran(4), "short": ran(30), "failed": ran(4), "other": ran(4, name="b")}
    kept = reliability_page.with_new(before, new | {"new": ran(1)})
    assert kept == new | {"long": before["long"], "new": ran(1)}
    failed = {"long": ran(4, passed=False)}
    assert reliability_page.with_new(before, failed)["long"] == failed["long"]
    nothing = {"long": ran(4, passed=False) | {"faults": []}}
    assert reliability_page.with_new(before, nothing)["long"] == nothing["long"]
