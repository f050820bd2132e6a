"""A span of a group's history: simulated as it was, and what it would have been otherwise."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from sharelag.errors import InputError
from sharelag.reports import cells
from sharelag.reports.blocks import Block, Chart
from sharelag.reports.case import read
from sharelag.whatif import Otherwise, Past, otherwise, simulate, variants
from sharelag.whatif.otherwise import AS_IT_WAS, HAPPENED_NAME
from tests.support.chapters import CAPTURE
from tests.support.command import rows_of
from tests.support.command import sharelag as command
from tests.support.readings import open_once

SCENARIOS = CAPTURE.parent / "scenarios"


@cache
def past(story: str, since: str) -> Past:
    return open_once(story).past(since=since)


@cache
def slow() -> Otherwise:
    """Two members that cannot keep up; with eight the same records are no trouble."""
    found = past("slow", "10s")
    return otherwise(found, variants(found.scenario, members=8), alert="age>5s", seeds=range(5))


def test_more_members_would_have_cleared_a_lag_that_grew() -> None:
    happened, as_it_was, otherwise_ = slow().rows
    assert [happened["variant"], as_it_was["variant"]] == [HAPPENED_NAME, AS_IT_WAS]
    assert happened["lag_end"] == 248
    assert as_it_was["low"] <= happened["lag_end"] <= as_it_was["high"]
    assert otherwise_["high"] < 60 < as_it_was["low"]
    assert [row["alert_share"] for row in slow().rows] == [1, 1, 0]
    said = slow().verdict()
    assert said.startswith("With 8 members the lag at 08:24:04 would have been ")
    assert "(at 08:24:04 it was 248); the alert age > 5 s, which fired at 08:2" in said
    assert "would not have fired (in 0 of 5 runs)" in said


def test_it_says_how_well_the_simulation_explains_what_happened() -> None:
    found = slow().explained
    assert found.mean is not None
    assert found.share is not None
    assert found.share < 0.1
    assert "% of the highest, and at 08:24:04" in slow().verdict()
    curve = slow().curves
    assert set(curve.column("variant").to_pylist()) == {HAPPENED_NAME, AS_IT_WAS, "8 members"}


def test_it_says_when_the_real_lag_was_last_known() -> None:
    known = slow().past.happened.slice(0, slow().past.happened.num_rows // 2)
    found = replace(slow(), past=replace(slow().past, happened=known))
    last = found.past.at(known.column("time_ms")[-1].as_py()).strftime("%H:%M:%S")
    lag = f"{known.column('lag')[-1].as_py():,.0f}"
    assert last < "08:24:04"
    assert f"the lag at 08:24:04 would have been {found.rows[2]['lag_end']:,.0f}" in found.verdict()
    assert f"(at {last} it was {lag})" in found.verdict()
    assert f"of the highest, and at {last} " in found.verdict()


def test_share_partitions_that_begin_within_the_span_are_there() -> None:
    """The hot partition of the demo has no state yet when this span begins."""
    # Of the other topic nobody knows a start offset in the first milliseconds.
    first = open_once("chapters").past("billing", since="2026-11-21T11:43:33.984Z")
    assert {topic.name for topic in first.scenario.topics} == {"orders", "payments"}
    found = open_once("demo").past("fulfilment", since="2026-11-23T11:50:06.500Z")
    said = "share partitions whose state begins within the span"
    assert said in " ".join(found.scenario.assumed)
    run = otherwise(found, variants(found.scenario, members=9), seeds=range(2))
    assert run.explained.is_close
    happened, as_it_was, with_nine = run.rows
    assert abs(as_it_was["lag_end"] / happened["lag_end"] - 1) < 0.05
    assert with_nine["high"] < happened["lag_end"]


def test_an_alert_may_have_fired_before_it_is_known_to_have() -> None:
    """Ages are not known at all moments of the past."""
    found = open_once("demo").past("fulfilment", since="20m")
    alarmed = otherwise(found, {}, alert="age>30s", seeds=range(1))
    assert "at the latest" in alarmed.for_people(alarmed.rows[0])["alert_at"]
    assert "at the latest" not in alarmed.for_people(alarmed.rows[1])["alert_at"]


def test_what_is_not_explained_is_not_told_otherwise() -> None:
    """The lag of a few records is chance, which the simulation does not know."""
    found = open_once("demo").past("billing", since="10m")
    run = otherwise(found, variants(found.scenario, members=9), seeds=range(2))
    assert not run.explained.is_close
    changed = run.rows[2]
    known = {name for name, value in changed.items() if value is not None}
    assert known == {"variant", "member_hours"}
    said = run.verdict()
    assert "so it does not explain what happened" in said
    assert said.endswith("The effect of 9 members is not known.")
    asked = ["--capture", "demo", "--group", "billing", "--since", "10m", "--members", "9"]
    assert said in command("simulate", *asked, "--seeds", "2", code=3).stderr


def test_the_records_come_that_came() -> None:
    found = past("slow", "10s")
    end = [row["end_offset"] for row in open_once("slow").lag().table.to_pylist()]
    run = simulate(found.scenario)
    last = run.timeline.filter(pc.equal(run.timeline.column("time_ms"), found.scenario.duration_ms))
    assert last.column("end_offset").to_pylist() == end
    assert simulate(found.scenario, 1).summary["arrived"] == run.summary["arrived"]


def test_a_poison_record_is_not_finished_as_it_is() -> None:
    found = past("poison", "3s")
    stuck = [one for one in found.scenario.poison if one.offset == 104 and one.partition == 1]
    assert [one.how for one in stuck] == ["release"]
    assert stuck[0].attempts > found.scenario.settings.limits.delivery_count_limit
    said = "offset 104 of poison-orders:1 fails at every delivery"
    assert said in " ".join(found.scenario.assumed)
    archived = simulate(found.scenario).summary["archived"][0].as_py()
    with_more = simulate(found.scenario.with_members(9)).summary["archived"][0].as_py()
    assert archived == with_more == 1, "more members do not cure it: it ends at the limit"


def test_an_open_transaction_blocks_the_past_as_it_did() -> None:
    found = past("open_transaction", "4s")
    starts = [start for topic in found.scenario.topics for start in topic.starts]
    blocked = sum(start.open_from is not None for start in starts)
    later = sum(one.transaction_batches > 0 for one in found.scenario.producers)
    assert blocked + later, "it began before the span, or within it"
    run = otherwise(found, variants(found.scenario, members=9), seeds=range(2))
    assert run.rows[2]["lag_end"] >= 0.9 * run.rows[0]["lag_end"], "members do not help"


def test_the_command_and_the_report_say_the_same(tmp_path: Path) -> None:
    chart = tmp_path / "otherwise.html"
    asked = ["--capture", str(SCENARIOS / "slow"), "--since", "10s", "--members", "8"]
    how = ["--seeds", "5", "--alert", "age>5s", "--chart", str(chart), "-o", "json"]
    answer = command("simulate", *asked, *how, code=0)
    assert rows_of(answer) == slow().rows
    assert slow().verdict() in answer.stderr
    assert "what happened" in chart.read_text()
    nowhere = [*asked, "--chart", str(tmp_path / "none" / "x.html")]
    assert "is in no existing folder" in command("simulate", *nowhere, code=2).stderr
    case = read(capture=str(SCENARIOS / "slow"), since="10s", engine="local")
    tried = cells.otherwise(case, 8, "age>5s", seeds=2)
    shown = cells.otherwise_table(tried)
    assert isinstance(shown, Block)
    assert "8 members" in shown.html
    assert isinstance(cells.otherwise_chart(tried), Chart)
    without = cells.otherwise_table(cells.otherwise(case, None))
    assert "-p members 12" in without.html
    endless = cells.otherwise(case, 8, seeds=10**7)
    assert "more than the limit of 1e+08: give a later since" in str(endless)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--alert", "age>30s"], "--alert needs --since"),
        (["--since", "10s", "--compare"], "cannot be combined"),
        (["--since", "10s", "--duration", "1m"], "remove --duration"),
        (["--since", "10s", "--alert", "age=30s"], "give age>30s or lag>1000"),
        (["--since", "1h"], "the group slow had no state at"),
        (["--since", "2020-01-01T00:00Z", "--until", "2020-01-02T00:00Z"], "no share group had st"),
    ],
)
def test_what_cannot_be_asked_says_why(arguments: list[str], said: str) -> None:
    answer = command("simulate", "--capture", str(SCENARIOS / "slow"), *arguments)
    assert (answer.returncode in (1, 2), said in answer.stderr) == (True, True), answer.stderr


def test_unknown_is_said_and_not_assumed() -> None:
    found = past("slow", "10s")
    with pytest.raises(InputError, match="not after"):
        open_once("slow").past(since="2026-11-21T09:00:00Z")
    known = found.happened.column("lag").to_numpy()
    assert not np.isnan(known).any()
    said = " ".join(slow().conditions())
    assert "the lag is known at" in said
    assert "unknown between them" in said
    assert "moments with known windows are not known" in said
