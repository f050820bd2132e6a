from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import psutil
import pytest

from benchmarks import __main__ as command
from benchmarks import harness, results, supervisor, yardsticks
from benchmarks.figures import AIM, SHORT, Spread
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side, run_row, told
from benchmarks.processes import command as run_command
from benchmarks.processes import cpu_seconds
from benchmarks.yardsticks import Yardstick


def costing(seconds: float, turns: list[str] | None = None, name: str = "") -> Side:
    def run() -> Measured:
        if turns is not None:
            turns.append(name)
        return Measured(42, wall=seconds, cpu=seconds)

    return Side(name or f"{seconds} s", run, units=10)


def equal(ours: object, rival: object) -> None:
    if ours != rival:
        raise GateError(f"{ours} is not {rival}")


def row_of(contest: Contest, at_least: float = 2, aim: float = 4, **options: object) -> Row:
    @contextmanager
    def make(_: Bench) -> Iterator[Contest]:
        yield contest

    return Row("P1", "work", "rival", at_least, aim, make, **options)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_sides_run_in_turn_after_a_round_that_does_not_count(bench: Bench) -> None:
    turns: list[str] = []
    contest = Contest(costing(1, turns, "a"), costing(5, turns, "b"), equal)
    found = run_row(row_of(contest), bench)
    assert turns == ["a", "b"] * 6
    assert found.ratios["wall"] == (5, 5, 5)
    assert (found.verdict, found.error) == (AIM, "")
    assert {len(costs) for taken in found.sides for costs in taken.costs.values()} == {5}


def test_the_cost_is_per_unit(bench: Bench) -> None:
    ours = Side("all", lambda: Measured(42, wall=10, cpu=10), units=1000)
    rival = Side("a part", lambda: Measured(42, wall=1, cpu=1, units=10))
    found = run_row(row_of(Contest(ours, rival, equal)), bench)
    assert found.ratios["wall"].median == pytest.approx(10)


def test_within_turns_the_ratio_round(bench: Bench) -> None:
    contest = Contest(costing(6), costing(2), equal)
    assert run_row(row_of(contest, 5, 3, within=True), bench).verdict == AIM
    assert run_row(row_of(contest, 2.5, 2, within=True), bench).verdict == SHORT


def test_the_poorer_of_wall_and_cpu_decides_by_default(bench: Bench) -> None:
    ours = Side("ours", lambda: Measured(42, wall=1, cpu=4))
    rival = Side("rival", lambda: Measured(42, wall=4, cpu=4))
    row = row_of(Contest(ours, rival, equal))
    assert run_row(row, bench).verdict == SHORT
    assert run_row(replace(row, by=("wall",)), bench).verdict == AIM


def test_memory_is_compared_if_the_sides_measure_it(bench: Bench) -> None:
    ours = Side("ours", lambda: Measured(42, peak=30))
    rival = Side("input", lambda: Measured(42, peak=100))
    found = run_row(
        row_of(Contest(ours, rival, equal), 0.5, 0.25, within=True, by=("peak",)), bench
    )
    assert found.ratios["peak"].median == pytest.approx(0.3)


def test_wrong_answers_have_no_ratio(bench: Bench) -> None:
    contest = Contest(Side("a", lambda: 1), Side("b", lambda: 2), equal)
    found = run_row(row_of(contest), bench)
    assert found.error == "GateError: 1 is not 2"
    assert (found.ratios, found.verdict) == ({}, "")
    assert "FAILED" in "\n".join(told(found))


def test_answers_that_turn_wrong_in_the_last_round_count(bench: Bench) -> None:
    answers = iter([1, 1, 1, 1, 1, 2])
    contest = Contest(Side("a", lambda: next(answers)), Side("b", lambda: 1), equal)
    assert run_row(row_of(contest), bench).error == "GateError: 2 is not 1"


def test_fewer_than_five_rounds_are_refused(bench: Bench) -> None:
    contest = Contest(costing(1), costing(2), equal, rounds=4)
    assert "at least 5 rounds" in run_row(row_of(contest), bench).error


def test_what_is_kept_is_opened_once_and_closed_at_the_end(tmp_path: Path) -> None:
    log: list[str] = []

    @contextmanager
    def session() -> Iterator[str]:
        log.append("open")
        yield "session"
        log.append("closed")

    bench = Bench(tmp_path)
    make: Callable[[], AbstractContextManager[str]] = session
    assert (bench.keep("spark", make), bench.keep("spark", make)) == ("session", "session")
    bench.close()
    assert log == ["open", "closed"]


_BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_cpu_time_includes_children_that_have_ended() -> None:
    before = cpu_seconds()
    run_command([sys.executable, "-c", _BURN])
    assert cpu_seconds() - before > 0.29


def test_cpu_time_includes_living_processes_that_are_named_and_no_others() -> None:
    code = f"{_BURN}\nprint(flush=True)\ninput()"
    with Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as process:
        assert process.stdout
        process.stdout.readline()
        alone, with_it = cpu_seconds(), cpu_seconds([process.pid])
        assert with_it - alone > 0.28
        process.communicate(b"\n")


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        run_command([sys.executable, "-c", "raise SystemExit('no such thing')"])


def test_results_of_other_rows_are_kept_and_the_page_shows_shortfalls(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    good = run_row(row_of(Contest(costing(1), costing(5), equal)), bench)
    short = run_row(row_of(Contest(costing(1), costing(1.5), equal), note="the disk binds"), bench)
    wrong = run_row(row_of(Contest(Side("a", int), Side("b", str), equal)), bench)
    wrong = replace(wrong, row=replace(wrong.row, id="P10"))
    short = replace(short, row=replace(short.row, id="P2", case="heavy"))
    stick = Yardstick("memcpy", "GB/s", Spread(5.0, 4.0, 6.0))
    results.merged(file, [results.entry(wrong), results.entry(good)], [])
    kept = results.merged(file, [results.entry(short)], [stick])
    assert kept == json.loads(file.read_text())
    assert [one["id"] for one in kept["rows"]] == ["P1", "P2", "P10"]
    text = results.page(kept)
    assert "| P1 | work | rival | 5x [5..5] | 5x [5..5] | at least 2x, aim 4x | reaches" in text
    assert "| P10 | work | rival | | | at least 2x, aim 4x | **failed** |" in text
    assert "* **P2 heavy**: the disk binds" in text
    assert "| memcpy | 5 GB/s | 4..6 |" in text


def test_the_readme_has_figures_of_measured_rows_between_its_marks(bench: Bench) -> None:
    found = run_row(row_of(Contest(costing(1), costing(5), equal)), bench)
    kept = {"rows": [results.entry(replace(found, row=replace(found.row, id="P11", case="poll")))]}
    before = "# top\n<!-- figures -->\nold\n<!-- end of figures -->\nbottom\n"
    after = results.with_figures(before, kept)
    assert "| work, poll | rival | 5x | 5x |" in after
    assert after.startswith("# top\n<!-- figures -->\n")
    assert after.endswith("-->\nbottom\n")
    assert "old" not in after
    assert results.with_figures(after, kept) == after
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert readme.count("<!-- figures -->") == readme.count("<!-- end of figures -->") == 1


def test_every_row_has_a_goal_worth_its_aim_and_its_own_name() -> None:
    rows = command.every_row()
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    for row in rows:
        assert row.aim <= row.at_least if row.within else row.aim >= row.at_least, row.name
        assert set(row.by) <= {"cpu", "wall", "peak"}


def test_a_failed_row_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = row_of(Contest(Side("a", int), Side("b", str), equal))
    right = replace(row_of(Contest(costing(1), costing(5), equal)), id="P2")
    (tmp_path / "docs").mkdir()
    marks = "<!-- figures -->\n<!-- end of figures -->\n"
    (tmp_path / "README.md").write_text(marks)
    monkeypatch.setattr(command, "every_row", lambda: [wrong, right])
    monkeypatch.setattr(command, "_ROOT", tmp_path)
    monkeypatch.setattr(command, "_OUT", tmp_path / "out")
    monkeypatch.setattr(yardsticks, "measured", lambda _: [])
    monkeypatch.setattr(
        command,
        "supervised",
        lambda rows, _, quick: command.main(
            ["--here", json.dumps([row.name for row in rows]), *(["--quick"] if quick else [])]
        ),
    )
    assert command.main(["--quick", "P2"]) == 0
    assert "| P2 (quick) |" in (tmp_path / "out" / "benchmarks.md").read_text()
    assert not (tmp_path / "docs" / "benchmarks.md").exists()
    assert command.main(["P1", "P2"]) == 1
    assert "FAILED" in capsys.readouterr().out
    page = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "| P1 | work | rival | | | at least 2x, aim 4x | **failed** |" in page
    assert "| P2 | work | rival | 5x" in page
    with pytest.raises(SystemExit):
        command.main(["P99"])


_WORKER = """
import json, os, signal, subprocess, sys, time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from benchmarks import results
from benchmarks.harness import Bench, Contest, Measured, Row, Side, run_row
file, names = Path(sys.argv[1]), sys.argv[2:]
@contextmanager
def make(_):
    side = Side("s", lambda: Measured(1, wall=1, cpu=1))
    yield Contest(side, side, lambda *_: None)
for name in names:
    if name == "P2":
        broker = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (file.parent / "broker").write_text(str(broker.pid))
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "P4":
        time.sleep(600)
    row = Row(name, "work", "rival", 1, 1, make)
    results.merged(file, [results.entry(run_row(row, Bench(file.parent)))], [])
"""


@pytest.mark.exhaustive
def test_rows_that_crash_or_hang_cost_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LIMIT", 20.0)  # also on a busy machine
    file, started = tmp_path / "found.json", []

    def start(rows: Sequence[Row]) -> Popen[bytes]:
        started.append([row.name for row in rows])
        return Popen([sys.executable, "-c", _WORKER, str(file), *started[-1]])

    one = row_of(Contest(costing(1), costing(5), equal))
    rows = [replace(one, id=f"P{number}") for number in (1, 2, 3, 4)]
    supervisor.supervised(rows, file, False, start)
    assert started == [["P1", "P2", "P3", "P4"], ["P3", "P4"]]
    errors = {row["id"]: row["error"] for row in json.loads(file.read_text())["rows"]}
    assert errors == {
        "P1": "",
        "P2": "the process of this row ended with code -9",
        "P3": "",
        "P4": "no result within 20 s",
    }
    assert not psutil.pid_exists(int((tmp_path / "broker").read_text()))  # it outlived its parent


def test_results_have_the_words_and_goals_that_rows_have_now(bench: Bench) -> None:
    row = row_of(Contest(costing(1), costing(5), equal))
    kept = {"rows": [results.entry(run_row(row, bench))]}
    [now] = results.current(kept, [replace(row, note="what binds")])["rows"]
    assert (now["note"], now["ratios"]) == ("what binds", kept["rows"][0]["ratios"])
    assert results.current(kept, [replace(row, id="P2")])["rows"] == []


def test_a_note_of_several_rows_is_printed_once(bench: Bench, tmp_path: Path) -> None:
    short = row_of(Contest(costing(1), costing(1.5), equal), note="the disk binds")
    both = [run_row(replace(short, id=name), bench) for name in ("P1", "P2")]
    text = results.page(results.merged(tmp_path / "f.json", map(results.entry, both), []))
    assert "* **P1, P2**: the disk binds" in text


def test_a_measure_of_zero_is_not_compared(bench: Bench) -> None:
    goal = Side("the goal", lambda: Measured(42, wall=2, cpu=0))
    row = row_of(Contest(costing(1), goal, equal), 1, 0.5, within=True, by=("wall",))
    assert set(run_row(row, bench).ratios) == {"wall"}


def test_the_documented_example_is_of_this_interface() -> None:
    assert harness.__doc__
    assert 'Row("P1", "decode everything", "struct in a loop", 35, 50, decoding)' in harness.__doc__
