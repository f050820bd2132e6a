import ast
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from subprocess import Popen

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from benchmarks import __main__ as command
from benchmarks import harness, results, supervisor, yardsticks
from benchmarks.figures import AIM, LEAST, SHORT, Spread, poorest, ratio, spread, verdict
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side, run_row, told
from benchmarks.inputs import Inputs
from benchmarks.processes import command as run_command
from benchmarks.processes import cpu_seconds
from benchmarks.yardsticks import Yardstick
from sharelag import schemas
from sharelag.wire import decode_arrow


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
    assert (turns, found.ratios["wall"]) == (["a", "b"] * 6, (5, 5, 5))
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
    run = run_row(row_of(Contest(ours, rival, equal), 0.5, 0.25, within=True, by=("peak",)), bench)
    assert run.ratios["peak"].median == pytest.approx(0.3)


def test_wrong_answers_have_no_ratio(bench: Bench) -> None:
    contest = Contest(Side("a", lambda: 1), Side("b", lambda: 2), equal)
    found = run_row(row_of(contest), bench)
    assert (found.error, found.ratios, found.verdict) == ("GateError: 1 is not 2", {}, "")
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


def test_results_of_others_stay_and_the_page_has_shortfalls(bench: Bench, tmp_path: Path) -> None:
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
def test_what_crashes_or_hangs_costs_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_ratio_is_that_of_medians_and_ranges_over_the_rounds() -> None:
    assert spread([4.0, 1.0, 3.0, 2.0]) == (2.5, 1.0, 4.0)
    # Rounds: 10/1, 20/4, 60/5; one slow round moves the range, not the ratio.
    assert ratio([10.0, 20.0, 60.0], [1.0, 4.0, 5.0]) == (5.0, 5.0, 12.0)
    found = ratio([1.0, 10.0, 11.0], [10.0, 11.0, 1.0])
    assert found.low <= found.median <= found.high


def test_goals_are_reached_at_their_limit_and_the_poorest_measure_decides() -> None:
    assert [verdict(x, 2, 4) for x in (1.99, 2.0, 3.99, 4.0)] == [SHORT, LEAST, LEAST, AIM]
    assert [verdict(x, 5, 3, within=True) for x in (5.01, 5, 3.01, 3)] == [SHORT, LEAST, LEAST, AIM]
    assert (poorest([AIM, SHORT, LEAST]), poorest([AIM, LEAST])) == (SHORT, LEAST)


FOLDER = Path(__file__).parents[3] / "benchmarks"
FILES = sorted(FOLDER.rglob("*.py"))
#: Modules whose names are public: all that they list, or else all that do not begin with `_`.
PUBLIC = {
    *("sharelag", "sharelag.model", "sharelag.engine.spark", "sharelag.replay", "sharelag.schemas"),
    *("sharelag.stream", "sharelag.whatif", "sharelag_widgets", "sharelag_widgets.dashboards"),
}
#: Of this module only these are.
WIRE = {"decode_arrow", "encode", "state_partition"}
#: What else a file imports; none of it is measured.
_SHORTCUT = "the rival is the measured command without one of its shortcuts"
EXCEPTIONS = {
    ("rows/interactive.py", "sharelag.cli"): _SHORTCUT,
    ("rows/interactive.py", "sharelag.cli.output"): _SHORTCUT,
    ("rows/scale.py", "sharelag.cli.main"): "the command itself, in one process of which memory is",
    ("rows/cluster.py", "sharelag.cli.main"): "the command itself",
    ("sessions.py", "._gateway"): "pyspark's, which alone knows the process of its JVM",
}
#: Private by their names alone.
DOCUMENTED = {"._asdict", "._fields", "._repr_html_"}
#: Attributes of a workbench that are the engines behind it.
BEHIND = {".reading", ".evidence"}


def test_only_public_names_are_called_and_every_exception_is_still_one() -> None:
    found = {
        (str(path.relative_to(FOLDER)), used)
        for path in FILES
        for used in uses(path.read_text())
        if not is_public(used)
    }
    assert found == set(EXCEPTIONS)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from sharelag.engine.spark.reading import SparkReading", "sharelag.engine.spark.reading"),
        ("import sharelag.engine.local", "sharelag.engine.local"),
        ("import sharelag\nsharelag.engine.local.QuickReading", "sharelag.engine"),
        ("import sharelag\nsharelag.open('demo').reading", ".reading"),
        ("def f():\n    from sharelag.wire import decode_columns", "sharelag.wire.decode_columns"),
        ("CODE = 'from sharelag.cli import output'", "sharelag.cli.output"),
        ("board._read(1)", "._read"),
    ],
)
def test_internals_are_found_wherever_they_are(code: str, found: str) -> None:
    assert [used for used in uses(code) if used.startswith(found) and not is_public(used)]


def is_public(name: str) -> bool:
    """Return whether a dotted name, or an attribute with its point, is one for users."""
    if name.startswith("."):
        return name in DOCUMENTED or not (name in BEHIND or name.startswith("._"))
    module, _, last = name.rpartition(".")
    if name in PUBLIC or not module:
        return True
    if module == "sharelag.wire":
        return last in WIRE
    return module in PUBLIC and last in names_of(module)


def names_of(module: str) -> set[str]:
    if module == "sharelag.stream":
        module = "sharelag.engine.spark.stream"
    found = import_module(module)
    listed = getattr(found, "__all__", None)
    if module == "sharelag" or listed is None:
        listed = [name for name in dir(found) if not name.startswith("_")]
    return {*listed, "__file__", "__version__"}


def uses(code: str) -> Iterator[str]:
    """Yield what code uses of ours, and private attributes; also of code in its texts."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if _is_ours(module):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Import():
                yield from (alias.name for alias in node.names if _is_ours(alias.name))
            case ast.Attribute(value=ast.Name(id="sharelag"), attr=name):
                yield f"sharelag.{name}"
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if not name.startswith("__"):
                yield f".{name}"
            case ast.Constant(value=str(text)) if "import" in text or "._" in text:
                yield from _of_text(text)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("sharelag", "sharelag_widgets")


def _of_text(text: str) -> Iterator[str]:
    """Yield what a text uses if it is Python."""
    try:
        ast.parse(text.replace("{change}", ""))
    except SyntaxError:
        return
    yield from uses(text.replace("{change}", ""))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize(
    ("shape", "batches", "size"), [("light", (3.5, 4.5), 160), ("heavy", (50, 70), 1400)]
)
def test_seeded_records_are_such_as_a_coordinator_writes(
    inputs: Inputs, shape: str, batches: tuple[float, float], size: int
) -> None:
    raw = pa.Table.from_batches(inputs.batches(shape, 3_000, 200))
    records, rejects, skipped = decode_arrow(raw.combine_chunks().to_batches()[0])
    assert (records.num_rows, rejects.num_rows, skipped) == (3_000, 0, 0)
    mean = len(records.column("state_batches").flatten()) / 3_000
    assert batches[0] < mean < batches[1]
    assert raw.select(["key", "value"]).nbytes / 3_000 < size
    seen = records.to_pylist()
    assert len({(r["group_id"], r["topic_id"], r["partition"]) for r in seen}) == 200


def test_the_same_seed_gives_the_same_bytes(inputs: Inputs) -> None:
    first, second = (inputs.batches("light", 1_000, 50) for _ in range(2))
    assert first == second


def test_offsets_of_a_state_partition_go_on_without_gaps(inputs: Inputs) -> None:
    raw = pa.Table.from_batches(inputs.batches("light", 120_000, 400))
    for state in range(8):
        mine = raw.filter(pc.equal(raw.column("partition"), state))
        assert np.array_equal(mine.column("offset").to_numpy(), np.arange(len(mine)))


def test_recorded_records_are_laid_end_to_end(inputs: Inputs) -> None:
    raw = pa.Table.from_batches(inputs.batches("recorded", 60_000))
    assert raw.schema == schemas.RAW
    assert np.array_equal(raw.column("offset").to_numpy(), np.arange(60_000))
    found = decode_arrow(raw.combine_chunks().to_batches()[0])
    assert found.records.num_rows == 60_000


def test_files_have_the_same_records(inputs: Inputs) -> None:
    whole = pa.Table.from_batches(inputs.batches("light", 2_000, 100))
    files = sorted(inputs.parquet("light", 2_000, 100).glob("*.parquet"))
    assert pa.concat_tables([pq.read_table(path) for path in files]).cast(schemas.RAW) == whole
    stem: Path = inputs.flat("light", 2_000, 100)
    for letter, name in (("k", "key"), ("v", "value")):
        data = stem.with_suffix(f".{letter}b").read_bytes()
        at = np.fromfile(stem.with_suffix(f".{letter}o"), "<i8")
        assert [data[a:b] for a, b in pairwise(at)] == whole.column(name).to_pylist()


@pytest.mark.slow
def test_a_capture_is_one_that_sharelag_opens(inputs: Inputs) -> None:
    with sharelag.open(str(inputs.capture("light", 2_000, 100)), engine="local") as bench:
        lag = bench.lag().table
    assert lag.num_rows == 100
    assert pc.all(pc.greater(lag.column("lag"), 0)).as_py()
    assert lag.column("lag").null_count < 10  # the few whose last record has no count
