"""Planned deletions, and how long a group takes after a reset or a deletion, simulated."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.metrics.reset import delete_command
from sharelag.whatif.horizon import Drained, after_reset, simulate_drain
from sharelag.workbench.questions.planned import deletion_of
from tests.support.command import refused
from tests.support.command import sharelag as command
from tests.support.readings import open_once

RESET = "share.auto.offset.reset"


def begins(value: str | None) -> tuple[list[int | None], str]:
    """New start offsets of the first group of a recording that has this setting."""
    bench = open_once("chapters")
    evidence = bench.evidence("billing")
    rows = [row for row in evidence.settings.to_pylist() if row["name"] != RESET]
    if value is not None:
        row = {"scope": "group", "entity": "billing", "name": RESET, "value": value}
        rows.append(row | {"source": "group"})
    settings = pa.Table.from_pylist(rows, schema=schemas.SETTINGS)
    changed = replace(evidence, settings=settings)
    plan, words = deletion_of(bench.reading, changed, "billing", ["payments"])
    assert set(plan.column("topic").to_pylist()) == {"payments"}
    return plan.column("new_start_offset").to_pylist(), words


def test_a_deleted_group_begins_where_its_setting_says() -> None:
    ends = open_once("chapters").lag("billing").table.to_pylist()
    last = [row["end_offset"] for row in ends if row["topic"] == "payments"]
    first = [row["log_start_offset"] for row in ends if row["topic"] == "payments"]
    assert begins("earliest") == (first, f"{RESET}=earliest")
    assert begins("latest") == (last, f"{RESET}=latest")
    assumed = f"{RESET}=latest, Kafka's default, as the group's own setting is not known"
    assert begins(None) == (last, assumed)
    back, words = begins("by_duration:PT1M30S")
    assert words == f"{RESET}=by_duration:PT1M30S"
    assert all(new is None or new <= end for new, end in zip(back, last, strict=True))
    soon, _ = begins("by_duration:PT0.001S")
    assert (soon, begins("by_duration:pt1m30,s")[0]) == (last, back)
    # To before 1970, and by more than Python's times reach: no record is older.
    for long in ("P25000D", "P1000000D", f"P9{'9' * 400}D", "PT700000000H1M1.5S"):
        assert begins(f"by_duration:{long}") == (first, f"{RESET}=by_duration:{long}")
    with pytest.raises(InputError, match="'billing' is not a value of Kafka's"):
        begins("by_duration:soon")


@pytest.mark.row("CLI-03")
def test_a_deletion_is_planned_with_kafkas_command() -> None:
    """GL-19b, and what it does: the start offset is that of a group that begins."""
    given = ("plan-delete", "--capture", "chapters", "--group", "billing")
    done = command(*given, "--topic", "payments", code=0)
    assert done.stderr.count("--group billing --topic payments --delete-offsets") == 1
    plan = open_once("chapters").plan_delete("billing", "payments")
    said = f"start where {RESET}="
    assert said in plan.notes[0]
    assert said in done.stderr
    assert plan.table.column("start_offset").to_pylist() == [490] * 4
    assert plan.table.column("new_start_offset").to_pylist() == [0] * 4  # it is earliest
    whole = command(*given)
    assert whole.stderr.count("--group billing --delete\n") == 1
    assert "The group's settings stay" in whole.stderr
    assert "did you mean 'payments'" in refused(*given, "--topic", "paymnets")
    assert delete_command("a b", ["t 1", "u"], "b:1").endswith(
        "--bootstrap-server b:1 --group 'a b' --topic 't 1' --topic u --delete-offsets"
    )


@pytest.mark.exhaustive
def test_the_time_after_a_reset_is_simulated_at_todays_rates() -> None:
    bench = open_once("demo")
    far = bench.plan_reset("billing", "earliest", simulate=True)
    (words,) = [note for note in far.notes if note.startswith("At current rates")]
    found = re.fullmatch(
        r"At current rates, simulated with 8 members: the new lag takes (.+) to (.+) "
        r"\(5 of 5 runs\)\.",
        words,
    )
    assert found, words
    first, last = (parse_duration(text.replace(" ", "")) for text in found.groups())
    rows = far.table.to_pylist()
    # 19,300 records by members that were busy half of their time: minutes, and not weeks.
    assert timedelta(minutes=5) < first <= last < timedelta(hours=1)
    longest = timedelta(milliseconds=max(row["new_drain_ms"] for row in rows))
    assert all(row["new_drain_ms"] > 60_000 for row in rows)
    assert first - timedelta(seconds=1) <= longest <= last + timedelta(seconds=1)
    near = bench.plan_reset("billing", "latest", simulate=True)
    (soon,) = [note for note in near.notes if note.startswith("At current rates")]
    assert soon.endswith("the new lag takes 0 s (5 of 5 runs).")
    assert near.table.column("new_drain_ms").to_pylist() == [0] * 4
    asked = bench.plan_reset("billing", "earliest")
    assert asked.table.column("new_drain_ms").to_pylist() == [None] * 4
    assert any("--simulate (simulate=True) simulates it" in note for note in asked.notes)
    printed = command("plan-reset", "--capture", "demo", "--group", "billing", "--to-earliest",
                      "--simulate")  # fmt: skip
    assert words in printed.stderr
    alone = command("plan-reset", "--capture", "demo", "--group", "billing", "--to-latest",
                    "--members", "3")  # fmt: skip
    assert alone.returncode == 2
    assert "--members needs --simulate: add it" in alone.stderr


def test_a_reset_leaves_nothing_but_a_start_offset() -> None:
    bench = open_once("demo")
    plan = bench.plan_reset("billing", 100).table
    scenario = bench.scenario("billing")
    after = after_reset(scenario, plan, members=3)
    starts = [start for topic in after.topics for start in topic.starts]
    assert {start.window.start_offset for start in starts if start.window} == {100}
    assert not any(start.window.batches for start in starts if start.window)
    found = [start.end_offset for start in starts]
    assert found == [start.end_offset for topic in scenario.topics for start in topic.starts]
    assert (sum(one.count for one in after.members), after.producers) == (3, scenario.producers)
    # Who comes is like those that are there, in turn.
    pair = tuple(replace(one, rack=one.name) for one in scenario.each_member()[:2])
    like = after_reset(replace(scenario, members=pair), plan, members=3)
    assert [one.rack for one in like.members] == [pair[0].rack, pair[1].rack, pair[0].rack]
    # All of it comes again: more than what lags now.
    some = simulate_drain(after, seeds=[1])
    assert isinstance(some, Drained)
    assert some.duration_ms == 6 * 3_600_000  # an hour was too short for three members
    assert all(time is not None for times in some.times_ms.values() for time in times)


def test_a_group_without_members_has_to_be_told_with_how_many() -> None:
    bench = open_once("no_members")
    (group,) = set(bench.lag().table.column("group_id").to_pylist())
    with pytest.raises(InputError, match="the group has no members now: say with how many"):
        bench.plan_reset(group, "earliest", simulate=True)
    plan = bench.plan_reset(group, "earliest", simulate=True, members=2)
    assert any("simulated with 2 members" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([(None, None), (5, 6)], "the new lag is not done within 10m in any of 2 runs"),
        ([(None, 1000), (None, 500)], "the new lag takes 1 s (1 of 2 runs)"),
        ([(1000, 2000), (61_000, 500)], "the new lag takes 2 s to 1m 1s (2 of 2 runs)"),
    ],
)
def test_words(times: list[Any], words: str) -> None:
    found = Drained({("orders", n): one for n, one in enumerate(times)}, 2, 600_000, 1)
    assert found.words() == f"simulated with 1 member: {words}"
    done = [one for one in times[0] if one is not None]
    median = sum(done) / 2 if len(done) == 2 else None
    assert found.of_partition("orders", 0) == median
    assert found.of_partition("payments", 0) is None
