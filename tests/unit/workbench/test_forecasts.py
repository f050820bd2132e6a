"""What becomes of a lag, told alike everywhere, also after a planned reset or deletion."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

import sharelag
from sharelag import schemas
from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.inputs.files.parquet import append_rows
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.forecasts import LEAST, calibration
from sharelag.metrics.rates import (
    DRAINED,
    DRAINS,
    NEVER,
    NOBODY,
    PAUSED,
    STALLED,
    UNCERTAIN,
    UNKNOWN,
)
from sharelag.metrics.reset import delete_command
from sharelag.monitoring.checks.judge import check
from sharelag.monitoring.checks.rules import read_rules
from sharelag.reports import cells
from sharelag.whatif.horizon import Drained, after_reset, simulate_drain
from sharelag.workbench.questions.forecasts import calibration_sentences, read_ledger
from sharelag.workbench.questions.planned import deletion_of
from sharelag.workbench.verdicts import COLUMNS, forecast
from tests.support.charts import SCENARIOS
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.command import sharelag as sharelag_command
from tests.support.readings import open_once
from tests.support.rules import EXAMPLES
from tools import forecasts_page

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
    assumed = f"{RESET}=latest (Kafka's default; the group's own setting is not known)"
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
    said = f"start by {RESET}="
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


def test_a_group_of_unknown_work_has_no_new_drain() -> None:
    plan = open_once("not_started").plan_reset("not-started", "earliest", simulate=True, members=2)
    assert set(plan.table.column("new_drain_ms").to_pylist()) == {None}
    assert any("How long the new lag takes is not known: " in note for note in plan.notes)


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


def row(drain: str, **more: Any) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {"drain": drain} | more


def drains(point: int, high: int | None) -> dict[str, Any]:
    return row(DRAINS, drain_ms=point, drain_low_ms=1000, drain_high_ms=high)


def test_the_slowest_share_partition_decides() -> None:
    grows = row(NEVER, arrival_rate=9.0, completion_rate=2.5)
    more = row(NEVER, arrival_rate=1.0, completion_rate=0.5)
    fast = row(DRAINS, drain_ms=1000, arrival_rate=0.0, completion_rate=50.0)
    some = [
        ([], "unknown"),
        ([row(DRAINED)] * 2, "no lag"),
        ([grows, row(NOBODY)], "the group is empty"),
        ([grows, row(STALLED)], "stalled"),
        ([grows, more, fast, row(UNCERTAIN)], "grows 7/s"),
        ([grows, row(UNKNOWN)], "grows at least 6.5/s"),
        ([grows, row(NEVER, arrival_rate=1234.0, completion_rate=0.5)], "grows 1,240/s"),
        ([row(PAUSED), row(UNKNOWN), row(DRAINED)], "paused"),
        ([row(UNCERTAIN), row(UNKNOWN)], "unknown"),
        ([row(UNCERTAIN), drains(2000, None), row(DRAINED)], "uncertain whether it drains"),
        ([drains(90_000, 120_000), drains(2000, 3000)], "gone in 1m 30s (1 s to 2m)"),
        ([drains(2000, None), row(DRAINED)], "gone in 2 s (1 s to never)"),
    ]
    assert [forecast(rows).sentence() for rows, _ in some] == [words for _, words in some]


# What the recorded demo says of its last minutes, where four groups have changed for the worse


@pytest.fixture(scope="module")
def bench() -> Any:
    return open_once("demo")


def rows(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.table.to_pylist()
    return found


@pytest.fixture(scope="module")
def progress(bench: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in bench.reading.table("progress").to_pylist():
        found.setdefault(row["group_id"], []).append(row)
    return found


@pytest.mark.parametrize(
    ("group", "growth"), [("fulfilment", 6.3), ("analytics", 5.7), ("notifications", 0.6)]
)
def test_lag_grows_as_it_did_lately(bench: Any, progress: Any, group: str, growth: float) -> None:
    """As fast as between two moments of the timeline, of which the forecast knows nothing."""
    ahead = forecast(progress[group])
    assert ahead.kind == "never"
    told = sum(row["arrival_rate"] - row["completion_rate"] for row in progress[group])
    assert told == pytest.approx(growth, rel=0.1)
    moments: dict[datetime, int] = {}
    for row in rows(bench.timeline(group)):
        if row["lag"] is not None:
            moments[row["as_of"]] = moments.get(row["as_of"], 0) + row["lag"]
    late = sorted(moments)[-13:]
    seconds = (late[-1] - late[0]).total_seconds()
    assert told == pytest.approx((moments[late[-1]] - moments[late[0]]) / seconds, rel=0.15)


def test_who_has_left_finishes_nothing(progress: Any) -> None:
    assert [row["completion_rate"] for row in progress["returns-desk"]] == [0, 0]
    assert {row["drain"] for row in progress["returns-desk"]} == {"nobody"}


def test_an_open_transaction_has_one_age_everywhere(bench: Any, progress: Any) -> None:
    """The records of it have waited for seven minutes, and nothing is finished meanwhile."""
    row = next(row for row in progress["invoicing"] if row["partition"] == 0)
    assert (row["drain"], row["drain_ms"], row["oldest_from"]) == ("stalled", None, "interpolated")
    assert 400_000 < row["age_ms"] < 460_000
    (line,) = (one for one in rows(bench.overview()) if one["group_id"] == "invoicing")
    assert line["age_ms"] == row["age_ms"]
    state = next(one for one in bench.explain().to_text().splitlines() if "invoicing" in one)
    assert "oldest 7m 1" in state
    assert "stalled" in state


def test_the_example_of_rules_names_the_open_transaction() -> None:
    found = check(CaptureInput(folder_of("demo")), read_rules(EXAMPLES / "rules.yaml"), "local")
    critical = {row["rule"]: row["group_id"] for row in rows(found) if row["level"] == "critical"}
    assert critical == {
        "no working members": "returns-desk",
        "open transaction": "invoicing",
        "window full": "search-index",
    }


def test_causes_are_dated_from_when_the_lag_began_and_what_has_healed_is_none(bench: Any) -> None:
    causes = {row["cause"]: row for row in rows(bench.explain())}
    assert "count_regressed" not in causes

    def at(minute: int) -> datetime:
        return datetime(2026, 11, 23, 12, minute, tzinfo=UTC)

    assert at(1) < causes["hot_partition"]["since"] < at(4)
    assert at(5) < causes["slow_consumers"]["since"] < at(10)


_FIRST = datetime(2026, 11, 23, 12, 20, tzinfo=UTC)
_HORIZON = timedelta(minutes=2)


def _run(ledger: Path, minutes: int, **options: object) -> sharelag.workbench.Result:
    at = _FIRST + timedelta(minutes=minutes)
    with sharelag.open(engine="local", as_of=at, **options) as bench:  # type: ignore[arg-type]
        return bench.forecasts(ledger, _HORIZON)


def test_a_later_run_scores_what_is_due_once(tmp_path: Path) -> None:
    ledger = tmp_path / "told"
    made = _run(ledger, 0)
    assert made.table.schema == schemas.FORECASTS
    assert made.table.num_rows == read_ledger(str(ledger)).num_rows > 5
    assert "no forecast of age with an interval has been scored yet" in made.notes
    # The same moment again: nothing is made twice, and nothing is due.
    again = _run(ledger, 0)
    assert again.notes[-1] == "in this run 0 new forecasts, 0 scored"
    later = _run(ledger, 4)
    assert later.notes[-1].endswith(f", {made.table.num_rows} scored")
    kept = read_ledger(str(ledger))
    assert kept.num_rows == made.table.num_rows + later.table.num_rows
    told = kept.filter(pc.is_valid(kept.column("outcome")))
    assert told.num_rows == made.table.num_rows
    # Nobody works on returns: its age grew by the two minutes. Ends of logs were noted every 40 s.
    row = next(one for one in told.to_pylist() if one["group_id"] == "returns-desk")
    assert (row["drain"], row["outcome"]) == ("nobody", "no interval")
    assert row["actual_ms"] == pytest.approx(row["trend_ms"], abs=40_000)
    # The ledger is only appended to: the forecast is there as it was made, and with its outcome.
    found = DeltaTable(str(ledger)).to_pyarrow_dataset().count_rows()
    assert found == kept.num_rows + told.num_rows
    assert _run(ledger, 4).notes[-1] == "in this run 0 new forecasts, 0 scored"


def test_a_ledger_goes_on_without_its_oldest_forecasts(tmp_path: Path) -> None:
    _run(tmp_path, 0)
    later = _run(tmp_path, 4)
    page = (Path(__file__).parents[3] / "docs/forecasts.md").read_text()
    (code,) = re.findall(r"^```python\n(from deltalake.*?)^```", page, re.MULTILINE | re.DOTALL)
    removal = code.replace("/var/lib/sharelag/forecasts", str(tmp_path))
    until = (_FIRST + timedelta(minutes=4)).isoformat()
    exec(removal.replace("2026-11-01T00:00:00Z", until))
    assert read_ledger(str(tmp_path)).num_rows == later.table.num_rows
    assert set(read_ledger(str(tmp_path))["as_of"].to_pylist()) == {_FIRST + timedelta(minutes=4)}
    # What is there is not made again, and is scored when it is due.
    assert _run(tmp_path, 4).notes[-1] == "in this run 0 new forecasts, 0 scored"
    assert _run(tmp_path, 8).notes[-1].endswith(f", {later.table.num_rows} scored")


def test_a_relative_path_is_of_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = sharelag.open(engine="local", as_of=_FIRST)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        told = bench.forecasts("ledger", _HORIZON).notes
        assert read_ledger("ledger").num_rows
        assert "in this run 0 new" not in told[-1]


def test_only_what_is_chosen_is_scored(tmp_path: Path) -> None:
    _run(tmp_path, 0)
    _run(tmp_path, 4, groups="analytics")
    kept = read_ledger(str(tmp_path))
    told = kept.filter(pc.is_valid(kept.column("outcome")))
    assert set(told.column("group_id").to_pylist()) == {"analytics"}


def test_the_command_prints_what_the_method_returns(tmp_path: Path) -> None:
    place = ("--capture", "demo", "--as-of", "2026-11-23T12:20:00Z", "--engine", "local")
    rows = ask("forecasts", "--ledger", str(tmp_path / "a"), "--horizon", "2m", *place)
    told = _run(tmp_path / "b", 0).table.select(["group_id", "partition", "trend_ms"])
    assert [{name: row[name] for name in told.column_names} for row in rows] == (told.to_pylist())


def test_other_tables_are_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), schemas.OFFSETS.empty_table().select(["topic"]))
    said = "is not a table of forecasts of share groups: choose another folder"
    with pytest.raises(InputError, match=said):
        _run(tmp_path, 0)


def test_a_ledger_of_another_cluster_is_refused_and_kept_as_it_is(tmp_path: Path) -> None:
    made = _run(tmp_path, 0)
    with (
        sharelag.open(SCENARIOS / "burst", engine="local") as other,
        pytest.raises(
            InputError,
            match=r"has the forecasts of share groups of cluster \S+, not of \S+: choose",
        ),
    ):
        other.forecasts(tmp_path, _HORIZON)
    assert read_ledger(str(tmp_path)).column("outcome").null_count == made.table.num_rows
    # A ledger that an earlier version made says nothing of its cluster.
    write_deltalake(
        str(tmp_path / "older"), made.table.slice(0, 1), name="forecasts of share groups"
    )
    assert _run(tmp_path / "older", 0).notes[-1].startswith("in this run ")


def test_processes_that_create_a_ledger_at_once_all_write_to_it(tmp_path: Path) -> None:
    together = Barrier(8)

    def append(place: Path, number: int) -> None:
        together.wait()
        append_rows(place, pa.table({"number": [number]}), "forecasts", {})

    for place in map(tmp_path.joinpath, "abcdef"):  # in the first, they wait for their imports
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(append, [place] * 8, range(8)))
        numbers = DeltaTable(place).to_pyarrow_table().column("number").to_pylist()
        assert sorted(numbers) == [*range(8)]


def test_reports_say_how_often_forecasts_came_true(tmp_path: Path) -> None:
    case = cells.read(capture="demo", engine="local", as_of=_FIRST.isoformat())
    assert cells.forecasts(case, None) is None
    shown = cells.forecasts(case, str(tmp_path))
    assert shown is not None
    assert shown.text.startswith("No forecast of age with an interval has been scored yet.")
    assert read_ledger(str(tmp_path)).num_rows


def test_what_answers_and_dashboards_foretell_is_kept(tmp_path: Path) -> None:
    def opened(minutes: int) -> sharelag.workbench.Workbench:
        at = _FIRST + timedelta(minutes=minutes)
        return sharelag.open(engine="local", as_of=at, ledger=tmp_path)

    untold = "no forecast of age with an interval has been scored yet"
    bench = opened(0)
    for answer in (bench.overview(), bench.explain(), bench.progress()):
        assert untold in answer.notes
    made = read_ledger(str(tmp_path))
    assert made.num_rows > 5
    assert not pc.any(pc.is_valid(made.column("outcome"))).as_py()
    # What is looked back at is not foretold, and an answer that foretells nothing keeps nothing.
    bench.at(_FIRST - timedelta(minutes=5)).progress()
    opened(2).lag()
    assert read_ledger(str(tmp_path)).num_rows == made.num_rows

    dashboard = opened(6).dashboard()
    assert untold in dashboard.header.notes
    kept = read_ledger(str(tmp_path))
    assert pc.sum(pc.is_valid(kept.column("outcome"))).as_py() == made.num_rows
    found = sharelag.open(engine="local", as_of=_FIRST).progress().notes
    assert found == bench.progress().notes[:2]


def test_a_check_keeps_forecasts_and_says_how_often_they_came_true(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules:\n- {name: lag, measure: lag, warn: 1}\n")
    place = ("--capture", "demo", "--engine", "local", "--rules", str(rules))
    for at in ("2026-11-23T12:20:00Z", "2026-11-23T12:26:00Z"):
        ledger = ("--as-of", at, "--ledger", str(tmp_path / "told"))
        done = sharelag_command("check", *place, *ledger, code=1)
        assert "no forecast of age with an interval has been scored yet" in done.stderr
    kept = read_ledger(str(tmp_path / "told"))
    assert len(set(kept.column("as_of").to_pylist())) == 2
    assert pc.any(pc.is_valid(kept.column("outcome"))).as_py()
    silent = sharelag_command("check", *place, "--as-of", "2026-11-23T12:26:00Z")
    assert "forecast" not in silent.stderr
    # A table that is no ledger takes nothing from what was judged.
    write_deltalake(str(tmp_path / "other"), schemas.OFFSETS.empty_table().select(["topic"]))
    failed = sharelag_command("check", *place, "--ledger", str(tmp_path / "other"), code=1)
    assert "no forecast was kept: " in failed.stderr
    assert "is not a table of forecasts of share groups" in failed.stderr


def test_sentences_say_what_is_shown_and_why_not() -> None:
    each = {"forecast": "age", "scored": 212, "came_true": 168, "covered": 168 / 212}
    better = each | {"crps_ms": 3200.0, "rate_crps_ms": 5100.0, "shown": True}
    worse = each | {"crps_ms": 5100.0, "rate_crps_ms": 3200.0, "shown": False}
    few = better | {"scored": 2, "shown": False}
    rows = [dict.fromkeys(schemas.CALIBRATION.names) | row for row in (better, worse, few)]
    said = calibration_sentences(pa.Table.from_pylist(rows, schema=schemas.CALIBRATION))
    begin = "forecasts of age at 80 %, 79 % came true; "
    assert [one.partition(begin)[2] for one in said] == [
        "they were off by 3.2 s (CRPS), lag / rate by 5.1 s",
        "not shown: lag / rate was off by 3.2 s (CRPS), they by 5.1 s",
        "not shown yet: too few to compare with lag / rate",
    ]
    assert said[0].startswith(f"of 212 {begin}")


@pytest.mark.exhaustive
def test_a_thousand_forecasts_come_true_as_often_as_they_say() -> None:
    """Recorded and simulated histories; each forecast knows nothing later than its moment."""
    histories = map(forecasts_page.simulate_group, range(forecasts_page.SIMULATED))
    given = [forecasts_page.open_recorded()], histories
    ledgers = [forecasts_page.make_forecasts(some) for some in given]
    kept = pa.concat_tables(ledgers)
    assert len(kept) - kept.column("actual_ms").null_count >= 1000
    graded = [row for row in calibration(kept).to_pylist() if row["scored"] >= LEAST]
    assert 0.75 <= sum(r["came_true"] for r in graded) / sum(r["scored"] for r in graded) <= 0.85
    assert all(row["crps_ms"] < row["rate_crps_ms"] for row in graded)
