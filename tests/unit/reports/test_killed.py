"""A run killed at any moment leaves the old report or the new one, never half a one."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import Any

import pytest

from sharelag.reports import store
from tests.support import nightly
from tests.support.nightly import daily

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow

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
def test_killed_at_random_moments(runner: Runner) -> None:
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
    assert sorted(path.name for path in (runner.out / "daily").iterdir()) == [
        ".lock",
        "latest",
        "runs",
    ]
    assert made.verdict is not None
    assert made.verdict["changes"] is not None
    assert "old" in outcomes


@pytest.mark.parametrize(
    "step", ["publish", "rename", "append", "point_latest", "write_index", "retain"]
)
def test_ended_right_at_each_step(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (latest == old.folder.resolve()) == (
        step in ("publish", "rename", "append", "point_latest")
    )
    new = daily(capture, out)
    noted = [run.run_id for run in store.read(out)]
    assert len(noted) == len(set(noted)) == len(list((out / "daily" / "runs").iterdir()))
    assert noted[-1] == new.run.run_id
    assert (out / "daily" / "latest").resolve() == new.folder.resolve()
