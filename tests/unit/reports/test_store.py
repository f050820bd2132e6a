"""The folder of reports: many nights, retention, index, comparisons, two at once, killed runs."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from select import select
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from sharelag.model import iso
from sharelag.reports import store
from sharelag.reports.execute import execute
from sharelag.reports.store import write_index
from sharelag.version import __version__
from tests.support import nightly
from tests.support.captures import describe
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.made_runs import groups, kept, made_run
from tests.support.nightly import HELD_FROM, HELD_TO, NIGHTS, daily, lag_of, night

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow
KEEP = 7


def test_retention_by_days_and_by_number(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, number) for number in range(6)]
    gone = store.retain(tmp_path / "daily", night(5), None, 2.5)
    assert (gone, kept(tmp_path)) == (runs[:3][::-1], [run.run_id for run in runs[3:]])
    store.retain(tmp_path / "daily", night(5), 2, None)
    assert kept(tmp_path) == [run.run_id for run in runs[4:]]
    store.retain(tmp_path / "daily", night(300), None, 1)
    assert (kept(tmp_path), len(store.read(tmp_path))) == ([runs[5].run_id], 6)


def test_the_last_that_did_not_fail_is_never_removed(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, number, "no broker" if number else None) for number in range(4)]
    store.retain(tmp_path / "daily", night(9), 1, 1)
    assert kept(tmp_path) == [runs[0].run_id, runs[3].run_id]


def test_retention_counts_runs_with_the_same_parameters(tmp_path: Path) -> None:
    """Of a second group, and of another cluster, as many stay."""
    requests: list[dict[str, Any]] = [{"group": ["billing"]}, {"group": ["shipping"]}, {}]
    runs = [made_run(tmp_path, n, cluster="a", as_of=str(n), **requests[n % 3]) for n in range(9)]
    runs += [made_run(tmp_path, 9, cluster="b", capture="/b"), made_run(tmp_path, 10, "no broker")]
    store.retain(tmp_path / "daily", night(10), 2, None)
    # The failed one was asked as the last of cluster b, and the last good one of each stays anyway.
    assert kept(tmp_path) == [run.run_id for run in runs[3:]]
    store.retain(tmp_path / "daily", night(10), 1, None)
    assert kept(tmp_path) == [run.run_id for run in runs[6:]]


def test_a_clock_that_was_set_back_leaves_latest_whole(tmp_path: Path) -> None:
    for number in (5, 2):
        made_run(tmp_path, number)
        store.retain(tmp_path / "daily", night(number), 1, None)
    latest = tmp_path / "daily" / "latest"
    assert latest.exists()
    assert latest.resolve().name == kept(tmp_path)[0]
    # The next run does not turn it to the later clock.
    with store.reserve(tmp_path, "daily", False, print):
        assert latest.resolve().name == kept(tmp_path)[0]


def test_nobody_else_looks_into_a_run_that_is_not_whole(tmp_path: Path) -> None:
    """A notebook holds what its cells said until it is searched for secrets."""
    (tmp_path / "daily" / "runs").mkdir(parents=True)
    with store.scratch(tmp_path / "daily") as half:
        assert half.stat().st_mode & 0o777 == 0o700
    run = made_run(tmp_path, 1)
    assert (tmp_path / "daily" / "runs" / run.run_id).stat().st_mode & 0o777 == 0o755


def test_what_a_killed_run_left_is_put_in_order(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, number) for number in range(3)]
    (tmp_path / "daily" / ".half-gone").mkdir()
    (tmp_path / "daily" / ".half-gone" / "report.html").write_text("<html>")
    store.point_latest(tmp_path / "daily", runs[1].run_id)
    lines = (tmp_path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:20])
    assert store.read(tmp_path) == runs[:2]
    with store.reserve(tmp_path, "daily", False, print):
        assert store.read(tmp_path) == runs
        assert (tmp_path / "daily" / "latest").resolve().name == runs[2].run_id
        assert not list((tmp_path / "daily").glob(".half-*"))


def test_an_index_of_nothing(tmp_path: Path) -> None:
    assert "There are no reports yet" in write_index(tmp_path).read_text()
    assert sharelag("report", "index", "--out", str(tmp_path / "none")).returncode == 1


def test_a_run_is_compared_to_one_with_the_same_parameters(tmp_path: Path) -> None:
    capture = nightly.record_nights(tmp_path / "capture")

    def made(number: int, of: Path = capture, **more: Any) -> Any:
        given = {"as_of": night(number).isoformat(), **more}
        return daily(of, tmp_path, given=given, now=lambda: night(number)).verdict

    first = made(3)
    assert made(4, group=["billing"])["changes"] is None
    assert made(5)["changes"]["since"] == first["as_of"]
    assert not made(2)["changes"]["comparable"], "the one before is of a later moment"
    assert daily(tmp_path / "none", tmp_path).run.error is not None
    other = Path(shutil.copytree(capture, tmp_path / "other"))
    describe(other, cluster_id="another")
    assert made(6, other)["changes"] is None, "the same names in another cluster"
    named = min((tmp_path / "daily" / "runs").iterdir())
    result = made(6, other, previous=f"{named}/verdict.json")["changes"]
    assert (result["comparable"], result["why"]) == (False, "it is about another cluster")
    assert made(6)["changes"]["since"] == f"{night(5):%Y-%m-%dT%H:%M:%S}.000Z"


def test_the_verdict_before_has_to_be_one(tmp_path: Path) -> None:
    capture = nightly.record_nights(tmp_path / "capture")
    made = daily(capture, tmp_path)
    failed = daily(capture, tmp_path, given={"previous": str(made.folder / "run.json")})
    assert (failed.run.error or "").startswith("previous is not a verdict of this version")


# ---- two at once ---------------------------------------------------------------------------------
_HOLDER = """
import sys
from pathlib import Path
from tests.support.nightly import daily, without_kernel
def held(*given):
    print("begun", flush=True)
    sys.stdin.readline()
    return without_kernel(*given)
made = daily(Path(sys.argv[1]), Path(sys.argv[2]), run=held)
print(made.run.run_id, flush=True)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of a report into ``tmp_path/out``."""
    capture = nightly.record_nights(tmp_path / "capture")
    command = [sys.executable, "-c", _HOLDER, str(capture), str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        yield run
        run.kill()


def test_while_a_report_is_under_way(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """The same one fails or waits, as is chosen; another one does neither."""
    capture, out = tmp_path / "capture", tmp_path / "out"
    command = ("report", "daily", "--capture", str(capture), "--out", str(out))
    done = sharelag(*command, "--overlap", "fail")
    assert done.returncode == 1
    assert "another run of report 'daily' is under way" in done.stderr
    assert "Traceback" not in done.stderr
    other = daily(capture, out, "incident", wait=False)
    assert other.run.error is None
    said: list[str] = []

    def tell(words: str) -> None:
        said.append(words)
        holder.communicate("go on\n")

    made = daily(capture, out, tell=tell)
    assert said == [f"waiting for another run of report 'daily', which is under way in {out}"]
    runs = store.read(out)
    assert ([run.report for run in runs], runs[2]) == (["incident", "daily", "daily"], made.run)


# One that has imported everything, and makes each report in a fork: it is killed while it works,
# not while it imports.
_MAKER = """
import os, shutil, sys
import css_inline, nbformat, papermill
from sharelag.reports import report
import sharelag.reports.page
from sharelag.reports.execute import Executed, execute
capture, out, how = sys.argv[1:]
def copied(path, out, *_):
    shutil.copy(how, out)
    return Executed(nbformat.read(out, as_version=4), None)
for _ in sys.stdin:
    child = os.fork()
    if not child:
        os.setsid()  # a kernel must not outlive what it works for
        print(os.getpid(), flush=True)
        given, run = {"capture": capture, "engine": "local"}, execute if how == "real" else copied
        report("daily", given, out, keep=2, figures=False, run=run)
        os._exit(0)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""
WHOLE = {"report.html", "notebook.ipynb", "verdict.json", "mail.html", "run.json"}


class Runner:
    """Makes reports in other processes, and kills them."""

    def __init__(self, folder: Path, how: str) -> None:
        self.out = folder / "out"
        self.capture = nightly.record_nights(folder / "capture")
        first = daily(self.capture, self.out)
        # Quick: a notebook that was executed before.
        how = how or str(shutil.copy(first.folder / "notebook.ipynb", folder / "executed.ipynb"))
        command = [sys.executable, "-c", _MAKER, str(self.capture), str(self.out), how]
        self.maker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def run(self, seconds: float | None = None) -> float:
        """Make a report, killed after so many seconds; how long it took."""
        assert self.maker.stdin is not None
        assert self.maker.stdout is not None
        self.maker.stdin.write(b"go\n")
        child = int(self.maker.stdout.readline())
        begun = time.monotonic()
        if not select([self.maker.stdout], [], [], seconds)[0]:
            os.killpg(child, signal.SIGKILL)
        assert self.maker.stdout.readline() == b"ended\n"
        return time.monotonic() - begun

    def latest(self) -> str:
        """The newest report, whole."""
        place = (self.out / "daily" / "latest").resolve()
        check_whole(place)
        return place.name

    def check(self) -> None:
        """Everything that a reader can see is whole."""
        for place in (self.out / "daily" / "runs").iterdir():
            check_whole(place)
        assert (self.out / "index.html").read_text().endswith("</html>\n")
        assert self.latest()


def check_whole(place: Path) -> None:
    assert {path.name for path in place.iterdir()} == WHOLE
    page = (place / "report.html").read_text()
    assert page.endswith("</html>\n")
    assert f"run <bdi>{place.name}</bdi>" in page
    assert (place / "mail.html").read_text().rstrip().endswith("</html>")
    result: dict[str, Any] = json.loads((place / "verdict.json").read_text())
    assert result["run_id"] == json.loads((place / "run.json").read_text())["run_id"] == place.name
    assert json.loads((place / "notebook.ipynb").read_text())["cells"]


@pytest.fixture
def runner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Runner]:
    made = Runner(tmp_path, "real" if request.config.getoption("--exhaustive") else "")
    with made.maker:
        yield made


@pytest.mark.exhaustive
def test_a_run_killed_at_random_moments(runner: Runner) -> None:
    chance = random.Random(932)
    longest = (runner.run(), runner.run())[1]  # the first one finds nothing ready
    old, outcomes = runner.latest(), set()
    for _ in range(12):
        runner.run(chance.uniform(0, longest))
        new = runner.latest()
        outcomes.add("old" if new == old else "new")
        runner.check()
        old = new
    runs = sorted(run.run_id for run in store.read(runner.out))
    made = daily(runner.capture, runner.out, keep=2)
    # The next run finds all that was published, once, and leaves no scraps.
    noted = [run.run_id for run in store.read(runner.out)]
    assert len(noted) == len(set(noted))
    assert set(runs) | {made.run.run_id} <= set(noted)
    assert {place.name for place in (runner.out / "daily" / "runs").iterdir()} <= set(noted)
    there = sorted(path.name for path in (runner.out / "daily").iterdir())
    assert there == [".lock", "latest", "runs"]
    assert made.verdict is not None
    assert made.verdict["changes"] is not None
    assert "old" in outcomes


@pytest.mark.parametrize(
    "step", ["publish", "rename", "append", "point_latest", "write_index", "retain"]
)
def test_a_run_ended_at_a_step(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moments that chance hits too seldom: just before each of the last steps."""
    from sharelag.reports import run as running

    capture, out = nightly.record_nights(tmp_path / "capture"), tmp_path / "out"
    old = daily(capture, out)

    class Ended(BaseException):
        pass

    def end(*_: Any, **__: Any) -> None:
        raise Ended

    home: Any = {"rename": Path, "append": store, "write_index": running}.get(step, store)
    with monkeypatch.context() as patched:
        patched.setattr(home, step, end)
        with pytest.raises(Ended):
            daily(capture, out)
    latest = (out / "daily" / "latest").resolve()
    check_whole(latest)
    found = latest == old.folder.resolve()
    assert found == (step in ("publish", "rename", "append", "point_latest"))
    new = daily(capture, out)
    noted = [run.run_id for run in store.read(out)]
    assert len(noted) == len(set(noted)) == len(list((out / "daily" / "runs").iterdir()))
    assert noted[-1] == new.run.run_id
    assert (out / "daily" / "latest").resolve() == new.folder.resolve()


def _five_past(number: int) -> datetime:
    return night(number) + timedelta(minutes=5)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Where the reports of many nights on a growing archive lie, and what each of them was."""
    folder = tmp_path_factory.mktemp("month")
    archive, out, made = nightly.begin_archive(folder / "archive"), folder / "reports", []
    for number in range(NIGHTS):
        nightly.add_night(archive, number)
        made.append(daily(archive, out, keep=KEEP, now=partial(_five_past, number)))
    return out, made


@pytest.mark.exhaustive  # the ledger of these nights is read in each run
def test_every_night_has_kafkas_lag(month: tuple[Path, list[Any]]) -> None:
    for number, made in enumerate(month[1]):
        assert made.run.error is None
        found = {name: group["lag"] for name, group in groups(made.verdict).items()}
        assert found == {name: lag_of(name, number) for name in nightly.FINISHED}


def test_what_changed_since_the_night_before(month: tuple[Path, list[Any]]) -> None:
    assert month[1][0].verdict["changes"] is None
    for number, made in enumerate(month[1][1:], 1):
        changes = made.verdict["changes"]
        assert changes["since"] == month[1][number - 1].verdict["as_of"]
        rows = {row["group_id"]: row for row in changes["groups"]}
        for name in nightly.FINISHED:
            assert rows[name]["lag_change"] == lag_of(name, number) - lag_of(name, number - 1)
            # What arrived and is not lag was finished.
            assert rows[name]["finished"] == nightly.DAILY - rows[name]["lag_change"]
        told = [cause["cause"] for cause in changes["new_causes"]]
        assert told == ["head_of_line"] * (number == HELD_FROM)
        seen = [cause["cause"] for cause in changes["gone_causes"]]
        assert seen == ["head_of_line"] * (number == HELD_TO)
        assert len(changes["lasting_causes"]) == (HELD_FROM < number < HELD_TO)
    levels = [groups(made.verdict)["billing"]["level"] for made in month[1]]
    found = {number for number, level in enumerate(levels) if level == "warning" and number}
    assert found == set(range(HELD_FROM, HELD_TO))


def test_the_ledger_has_every_night_by_the_clock(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    runs = store.read(out)
    assert runs == [one.run for one in made]
    for number, run in enumerate(runs):
        assert run.started == iso(night(number) + timedelta(minutes=5))
        assert run.as_of == iso(night(number))
        assert (run.version, run.seconds > 0, len(run.notebook)) == (__version__, True, 64)
    assert len({run.run_id for run in runs}) == NIGHTS


def test_retention_keeps_the_newest_whole(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    there = sorted(place.name for place in (out / "daily" / "runs").iterdir())
    assert there == sorted(one.run.run_id for one in made[-KEEP:])
    assert (out / "daily" / "latest").resolve() == made[-1].folder.resolve()
    for one in made[-KEEP:]:
        names = {path.name for path in one.folder.iterdir()}
        assert names == {"report.html", "notebook.ipynb", "verdict.json", "mail.html", "run.json"}
        assert json.loads((one.folder / "verdict.json").read_text())["headline"] == one.run.headline
    assert not list((out / "daily").glob(".half-*"))


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name in ("href", "src")]


def test_the_index_has_every_night_and_links_what_is_there(month: tuple[Path, list[Any]]) -> None:
    out, made = month
    text = (out / "index.html").read_text()
    links = Links(text[text.index('id="runs"') :]).found
    assert links == [f"daily/runs/{one.run.run_id}/report.html" for one in made[::-1][:KEEP]]
    assert all((out / link).is_file() for link in links)
    assert text.count('<th scope="row">') == NIGHTS
    assert "<script" not in text


@pytest.mark.exhaustive  # `test_run.py` has a report by papermill in each run
def test_papermill_and_this_process_agree(month: tuple[Path, list[Any]], tmp_path: Path) -> None:
    last = partial(_five_past, NIGHTS - 1)
    real: Any = daily(month[0].parent / "archive", tmp_path, now=last, run=execute)
    assert real.verdict["groups"] == month[1][-1].verdict["groups"]
    text = (real.folder / "notebook.ipynb").read_text()
    assert '"papermill"' in text
    assert nightly.TOPIC in text


def test_the_listing_has_reports_and_runs(month: tuple[Path, list[Any]]) -> None:
    done = sharelag("report", "list", "--out", str(month[0]))
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()[1:]]
    assert names == ["capacity", "daily", "incident", "proposal"]
    rows = sharelag("report", "list", "--out", str(month[0]), "-o", "json").stdout.splitlines()
    assert [json.loads(row)["kept"] for row in rows] == [True] * KEEP + [False] * (NIGHTS - KEEP)


def test_a_group_that_is_not_there_is_worded_as_by_other_commands(tmp_path: Path) -> None:
    """Only the requested one was read; seven others are there."""
    made = daily(CAPTURE, tmp_path, given={"group": ["nobody"]})
    assert "there is no state of share group 'nobody' in" in (made.run.error or "")
    said = sharelag("lag", "--capture", str(CAPTURE), "--group", "nobody").stderr
    assert (made.run.error or "").endswith(said.strip()[said.index(": its groups are ") :])
    made = daily(CAPTURE, tmp_path, given={"group": ["billing", "nobody"]})
    assert "there are billing" not in (made.run.error or "")


def test_kernels_leave_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has its sockets in a separate folder, so that two runs do not share them."""
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(place)
    cells = [
        new_code_cell("import os; print(os.listdir()); print(os.getcwd())"),
        new_code_cell(
            "import json, ipykernel; file = ipykernel.get_connection_file(); told = "
            "json.load(open(file))\n"
            "print(told['transport'], os.path.dirname(file) == os.path.dirname(told['ip']), "
            "os.path.dirname(file), "
            "oct(os.stat(os.path.dirname(file)).st_mode))"
        ),
    ]
    nbformat.write(new_notebook(cells=cells), tmp_path / "x.ipynb")
    ran = execute(tmp_path / "x.ipynb", tmp_path / "out" / "x.ipynb", {}, {}, frozenset())
    assert ran.error is None
    assert ran.notebook.cells[-2].outputs[0].text == f"[]\n{place}\n"
    transport, together, folder, mode = ran.notebook.cells[-1].outputs[0].text.split()
    # No port that everybody could connect to.
    assert (transport, together, mode[-3:]) == ("ipc", "True", "700")
    assert Path(folder).name.startswith(".k-")
    assert [*place.iterdir()] == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x.ipynb"]


def test_a_ledger_line_of_another_version_is_passed_over(tmp_path: Path) -> None:
    run = replace(made_run(tmp_path, 0), run_id="x")
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"run_id": "y", "of": "another version"}\nnot json\n')
    store.append(tmp_path, run)
    assert ([one.run_id for one in store.read(tmp_path)][-1], len(store.read(tmp_path))) == ("x", 2)
