"""A start offset beyond the end of the log: a cause everywhere, and what is unknown is not 0."""

from __future__ import annotations

import pytest

import sharelag
from sharelag.workbench import Workbench
from sharelag.workbench.judged import headline, judge_groups
from tests.support.rules import outcome
from tests.support.written_input import Write, WrittenInput

CAUSE = "start_beyond_end"
SAYS = "the start offset is beyond the end of the log: records before it are never delivered"


def written() -> WrittenInput:
    """The log ends at 7200; five minutes ago the start offset was set to 50,000."""
    return WrittenInput([Write(600, 100), Write(300, 50_000)])


@pytest.fixture(name="bench")
def opened() -> Workbench:
    return sharelag.open(written(), engine="local")


def test_it_is_the_cause_in_answers_verdicts_checks_and_dashboards(bench: Workbench) -> None:
    (row,) = bench.explain().table.to_pylist()
    assert (row["cause"], row["severity"]) == (CAUSE, "critical")
    assert f"since {row['since']:%Y-%m-%d %H:%M:%S}" in bench.explain().to_text()
    assert headline(judge_groups(bench.evidence()), []) == f"billing: {SAYS}."
    found = outcome(written(), f"measure: cause, causes: [{CAUSE}], warn: 1, unknown: ok")
    assert found["level"] == "warning"
    board = bench.dashboard("billing")
    assert board.header.failure == ""
    assert all(SAYS in str(view.get_state()) for view in (board.verdict, board.cards))


def test_nothing_is_said_to_be_done(bench: Workbench) -> None:
    (lag,) = bench.lag().table.to_pylist()
    assert (lag["lag"], lag["effective_lag"], lag["lag_reason"]) == (None, None, "negative_lag")
    (progress,) = bench.progress().table.to_pylist()
    assert (progress["age_ms"], progress["drain"], progress["drain_ms"]) == (None, "unknown", None)
    (group,) = judge_groups(bench.evidence())
    assert (group["lag"], group["age_ms"], group["drain"]) == (None, None, "unknown")
