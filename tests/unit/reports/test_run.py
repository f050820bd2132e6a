"""Reports by the command and by papermill, of archives and captures; and how a run fails."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from sharelag import reports
from sharelag.errors import SetupError
from sharelag.inputs.recorded import folder_of
from sharelag.reports import report, store
from sharelag.reports.blocks import PLOTLY_MIME, VERDICT_MIME
from sharelag.reports.execute import Executed, execute
from sharelag.reports.notebooks import notebook
from sharelag.reports.schedules import absolute
from tests.support import nightly
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.connect import no_session
from tests.support.nightly import lag_of, night

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-c", "from sharelag.cli import main; main()"]
PAPERMILL = [sys.executable, "-m", "papermill", "--no-progress-bar", "-k", "python3"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two nights."""
    folder = nightly.begin_archive(tmp_path_factory.mktemp("nights") / "archive")
    for number in range(2):
        nightly.add_night(folder, number)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked somewhere else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    zipfile.ZipFile(wheel).extractall(site)
    # What numba made of the same sources: by their times it knows that they are the same.
    for path in (ROOT / "sharelag").rglob("*.py"):
        copy = site / path.relative_to(ROOT)
        assert copy.read_bytes() == path.read_bytes()
        os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    for path in (ROOT / "sharelag").rglob("*.nb[ci]"):
        place = site / path.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(path, place)
    return site


def verdict_in(path: Path) -> dict[str, Any]:
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    (result,) = [data[VERDICT_MIME] for data in outputs if VERDICT_MIME in data]
    return dict(result)


def lags(result: dict[str, Any]) -> dict[str, int]:
    return {group["group_id"]: group["lag"] for group in result["groups"]}


# ---- by the command, by papermill ----------------------------------------------------------------
def test_of_an_archive_by_the_command(archive: Path, tmp_path: Path) -> None:
    """With a file of parameters, over which the command line wins."""
    (tmp_path / "p.yaml").write_text("over: 48h\ngroup: [nobody]\n")
    at = night(0).isoformat()
    given = ("--capture", str(archive), "-f", str(tmp_path / "p.yaml"), "--as-of", at)
    out = ("--engine", "local", "--out", str(tmp_path), "--no-figures")
    done = sharelag("report", "daily", *given, "-p", "group", "[billing, shipping]", *out)
    assert done.returncode == 0, done.stdout + done.stderr
    place = tmp_path / "daily" / "latest"
    assert done.stdout.splitlines()[1] == str(place.resolve() / "report.html")
    result = json.loads((place / "verdict.json").read_text())
    assert lags(result) == {name: lag_of(name, 0) for name in nightly.FINISHED}
    (run,) = store.read(tmp_path)
    expected = {"capture": str(archive), "engine": "local", "over": "48h", "as_of": at}
    assert run.parameters == expected | {"group": ["billing", "shipping"]}


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
def test_of_an_archive_by_papermill(archive: Path, tmp_path: Path, remote: str) -> None:
    given = (str(notebook("daily")), "out.ipynb", "-p", "capture", str(archive))
    run(tmp_path, *PAPERMILL, *given, **no_session() | {"SPARK_REMOTE": remote})
    result = lags(verdict_in(tmp_path / "out.ipynb"))
    assert result == {name: lag_of(name, 1) for name in nightly.FINISHED}


@pytest.mark.exhaustive
def test_of_a_capture_out_of_the_wheel_by_either(installed: Path, tmp_path: Path) -> None:
    there = partial(run, tmp_path, **os.environ | {"PYTHONPATH": str(installed)})
    homes = "import sharelag, sharelag_widgets as w; print(sharelag.__file__, w.__file__)"
    assert all(
        home.startswith(f"{installed}/") for home in there(sys.executable, "-c", homes).split()
    )
    path = installed / "sharelag" / "reports" / "notebooks" / "daily.ipynb"
    assert str(path) in there(*COMMAND, "report", "list")
    there(*PAPERMILL, str(path), "out.ipynb", "-p", "capture", str(CAPTURE))
    there(*COMMAND, "report", "daily", "--capture", str(CAPTURE), "--no-figures")
    place = tmp_path / "reports" / "daily" / "latest"
    result = json.loads((place / "verdict.json").read_text())
    assert result["groups"] == verdict_in(tmp_path / "out.ipynb")["groups"]
    # The examples that help and documentation name are there, too.
    examples = ROOT / "data" / "examples"
    assert there(*COMMAND, "check", "--example") == (examples / "rules.yaml").read_text()
    names = {path.name for path in (installed / "sharelag" / "examples").iterdir()}
    assert names == {path.name for path in examples.iterdir()}
    page = (place / "report.html").read_text()
    assert page.endswith("</html>\n")
    assert 'id="sr-plotly"' in page
    assert "data-widget=" in page


# ---- how a run fails -----------------------------------------------------------------------------
def own(folder: Path, *sources: str) -> str:
    cells = [new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), folder / "own.ipynb")
    return str(folder / "own.ipynb")


def test_it_says_which_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as it was silent for a while, which is no time at all here."""
    monkeypatch.setattr("sharelag.reports.execute.QUIET_SECONDS", 0.0)
    cells = [new_code_cell(f"print({n})") for n in range(3)]
    nbformat.write(new_notebook(cells=cells), tmp_path / "in.ipynb")
    said: list[str] = []
    ran = execute(tmp_path / "in.ipynb", tmp_path / "o.ipynb", {}, {}, (), progress=said.append)
    assert ran.error is None
    named = dict.fromkeys(line.rpartition(",")[0] for line in said if line.startswith("cell"))
    assert list(named) == [f"cell {n} of 3" for n in (1, 2, 3)]
    said.clear()
    monkeypatch.setattr("sharelag.reports.execute.QUIET_SECONDS", 600.0)
    execute(tmp_path / "in.ipynb", tmp_path / "o.ipynb", {}, {}, (), progress=said.append)
    assert said == []


def test_a_cell_that_lasts_is_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell ends when it was named for the second time, and fails otherwise."""
    monkeypatch.setattr("sharelag.reports.execute.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("sharelag.reports.execute.AGAIN_SECONDS", 0.1)
    go = tmp_path / "go"
    path = own(
        tmp_path, "", "import pathlib, time", f"while not pathlib.Path({str(go)!r}).exists():\n"
        "    time.sleep(0.05)",
    )  # fmt: skip
    said: list[str] = []

    def say(words: str) -> None:
        said.append(words.rpartition(",")[0])
        if said.count("cell 3 of 3") == 2:
            go.touch()

    ran = execute(Path(path), tmp_path / "o.ipynb", {}, {}, (), cell_seconds=60, progress=say)
    assert ran.error is None, ran.error
    assert said.count("cell 3 of 3") >= 2


def test_a_sample_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute({"capture": "demo"})["capture"] == str(folder_of("demo").resolve())
    (tmp_path / "demo").mkdir()  # which is no capture
    assert absolute({"capture": "demo"})["capture"] == str(folder_of("demo").resolve())
    # A capture of that name comes first, as for every command.
    (tmp_path / "demo" / "capture.json").write_text("{}")
    assert absolute({"capture": "demo"})["capture"] == str(tmp_path / "demo")


#: What ends otherwise, each in a kernel of its own.
_WHOLE = ("BrokerUnreachableError", 1), (None, 0)


def test_a_cell_that_does_not_end_fails(tmp_path: Path) -> None:
    path = own(tmp_path, "seconds = 30", "import time; time.sleep(seconds)")
    made = report(path, out=tmp_path / "out", figures=False, run=partial(execute, cell_seconds=1))
    assert made.run.level == "failed"
    assert (made.run.error or "").startswith("a cell took more than 1 s: ")
    assert "a cell took more than 1 s" in made.html.read_text()


@pytest.mark.parametrize(
    ("kind", "status"),
    [("NoLeaderError", 3), *(pytest.param(*one, marks=pytest.mark.exhaustive) for one in _WHOLE)],
)
def test_a_report_on_a_part_ends_with_3(kind: str | None, status: int, tmp_path: Path) -> None:
    raised = f"from sharelag.errors import {kind}\nraise {kind}('partition 3 is away')"
    path = own(tmp_path, "a = 1", raised if kind else "a")
    done = sharelag("report", str(path), "--out", str(tmp_path / "out"), "--no-figures")
    assert done.returncode == status, done.stderr
    assert ("FAILED: partition 3 is away" in done.stdout) == (kind is not None)


@pytest.mark.parametrize(
    ("mime", "shown"), [(PLOTLY_MIME, {}), (VERDICT_MIME, {"level": "ok"}), ("application/json", 1)]
)
def test_what_a_page_cannot_show(mime: str, shown: Any, tmp_path: Path) -> None:
    """A user's notebook may show anything: the report says so and keeps the notebook."""

    def shown_by(path: Path, out: Path, *_: Any) -> Executed:
        ran = nbformat.read(path, as_version=4)
        ran.cells[-1].outputs = [new_output("display_data", {mime: shown})]
        nbformat.write(ran, out)
        return Executed(ran, None)

    path = own(tmp_path, "a = []", "display(shown)")
    given = {"a": [8, None, "x"]}
    made = report(path, given, tmp_path / "out", figures=False, run=shown_by)
    assert "a=8, None, x" in (made.folder / "report.html").read_text()
    assert mime in (made.folder / "notebook.ipynb").read_text()
    if mime == "application/json":
        assert made.run.error is None
        return
    written = json.loads((made.folder / "verdict.json").read_text())
    assert made.run.level == written["level"] == "failed"
    assert "cannot be put on a page" in (made.run.error or "")
    for name in ("report.html", "mail.html"):
        assert "This report could not be made." in (made.folder / name).read_text()
    assert store.read(tmp_path / "out") == [made.run]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "papermill", None)
        said = r"reports need papermill: pip install 'sharelag\[report\]'"
        with pytest.raises(SetupError, match=said):
            importlib.reload(reports)
    importlib.reload(reports)
