"""Reports by the command and by papermill: of archives and captures, parameters, and failures."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from sharelag import reports
from sharelag.errors import InputError, SetupError
from sharelag.inputs.recorded import folder_of
from sharelag.reports import notebooks, report, store
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


# ---- which notebooks, which parameters -----------------------------------------------------------
def test_every_notebook_is_clean_and_takes_the_common_parameters() -> None:
    for name in notebooks.names():
        path = notebooks.notebook(name)
        cells = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path
        common = {"bootstrap_server", "command_config", "capture", "as_of", "over", "previous"}
        assert set(notebooks.read_parameters(path)) >= common
        assert notebooks.names()[name]


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"sasl_password": "hunter22"}, "looks like a secret"),
        ({"lag": 3}, "has no parameter 'lag'"),
        ({"over": float("nan")}, "'over' cannot be written as JSON"),
        ({"as_of": date(2026, 6, 1)}, "'as_of' cannot be written as JSON"),
        ({"over": "abc"}, "'over' must be a duration"),
        ({"over": True}, "'over' must be a duration"),
        ({"over": "366000d"}, "'over' must be a duration"),
        *(({name: 7}, f"'{name}' must be a text") for name in ("capture", "ledger", "as_of")),
    ],
)
def test_parameters_that_are_not_given(given: dict[str, Any], result: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=result) as raised:
        report("daily", given, tmp_path)
    assert "hunter22" not in str(raised.value)
    with pytest.raises(InputError, match="too long"):
        report("daily", {}, tmp_path, keep_days=1e12)
    assert not list(tmp_path.iterdir())


def test_a_moment_is_a_time() -> None:
    """Offsets of state partitions, which other commands take, belong to one topic."""
    said = sharelag("report", "make", "--help").stdout
    assert "As of this moment: a time with its zone" in said
    assert "offsets of state" not in said


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    done = sharelag("report", "weekly", "--engine", "local", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "choose one of capacity, daily, incident, proposal" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--capture", "nope"], "nope: create one with `sharelag capture`"),
        (["--raw", "no/such.parquet"], "cannot read Parquet from no/such.parquet"),
        (["--segments", "nope"], "give a broker's log directory"),
        ([], "choose one input: --bootstrap-server, --capture, --raw or --segments"),
        (["--capture", str(CAPTURE), "--as-of", "noon"], "invalid time 'noon': give one such as"),
        (["--capture", str(CAPTURE), "-p", "since", "3x"], "or a duration such as 30s, 5m or 2h"),
        (
            ["--capture", str(CAPTURE), "-p", "over", "90"],
            "the parameter 'over' is a duration and needs a",
        ),
        (["--capture", str(CAPTURE), "-p", "rules", "nope.yaml"], "nope.yaml"),
        (
            ["--capture", str(CAPTURE), "-p", "previous", "nope.json"],
            "not the verdict of an earlier report",
        ),
        (
            ["--capture", str(CAPTURE), "-p", "group", "a", "-p", "group", "b"],
            "the parameter 'group' is given twice: give it once, as -p or as an option",
        ),
        (
            ["--capture", str(CAPTURE), "-p", "capture", "saved"],
            "the parameter 'capture' is given twice: give it once, as -p or as an option",
        ),
    ],
)
def test_parameters_are_checked_before_a_kernel_starts(
    given: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharelag.reports.execute.execute", lambda *_, **__: pytest.fail("started"))
    done = sharelag("report", "incident", *given, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "report incident [OPTIONS]" in done.stderr
    assert not (tmp_path / "out").exists()


def test_parameters_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    from sharelag.cli.report import _read_given
    from sharelag.reports.schedules import as_word, from_word

    (tmp_path / "p.yaml").write_text("over: 60\ngroup: [a, b]\n")
    named = notebooks.texts(notebooks.notebook("daily"))
    typed = (("ledger", "7"), ("group", "2026"), ("topic", "[1]"), ("over", "30"))
    found = {"ledger": "7", "group": "2026", "topic": [1], "over": 30}
    assert _read_given(None, typed, named) == found
    found = _read_given(tmp_path / "p.yaml", (("over", "30"), ("as_of", "2026-06-01T00:00:00Z")))
    assert found == {"over": 30, "group": ["a", "b"], "as_of": "2026-06-01T00:00:00Z"}
    texts = ("orders", "123", "null", "'", "a: b", "- x", '"q"', "2026-06-01T00:00:00Z")
    odd = ("2026-02-30", "[" * 700, "9" * 5000, "!!bool x", "!!timestamp x", "!!int x")
    for value in (*texts, *odd, ["a", "1"], 3, 2.5, True):
        assert from_word(as_word(value)) == value
    (tmp_path / "p.yaml").write_text("as_of: 2026-06-01T02:00:00+02:00\n")
    daily = notebooks.notebook("daily")
    known = notebooks.check_parameters(daily, _read_given(tmp_path / "p.yaml", ()))
    assert known["as_of"] == "2026-06-01T00:00:00.000Z"
    assert notebooks.check_parameters(daily, {"group": ("a", "b")})["group"] == ["a", "b"]
    (tmp_path / "p.yaml").write_text("group: a\nover: 60\ngroup: b\n")
    with pytest.raises(InputError, match=r"'group' is given twice: give it once, in .*p\.yaml"):
        _read_given(tmp_path / "p.yaml", ())
    for end in ("{hunter22", "2026-02-30", "[" * 700, "9" * 5000, "!!bool hunter22"):
        (tmp_path / "p.yaml").write_text(f"password: {end}")
        with pytest.raises(InputError, match="is not valid YAML") as raised:
            _read_given(tmp_path / "p.yaml", ())
        assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"x"', '{"a": [1,', "\x00"])
def test_a_previous_verdict_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(text)
    given = ("--capture", str(CAPTURE), "--engine", "local", "-p", "previous", str(file))
    done = sharelag("report", "daily", *given, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"{file} is not the verdict of an earlier report" in said
    assert "report it" not in said


@pytest.mark.parametrize(
    "cell", ['{"tags": null}, "source": "x=1"', '{"tags": ["parameters"]}, "source": 5']
)
def test_a_notebook_of_odd_cells_is_no_defect_of_ours(cell: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.ipynb"
    file.write_text(
        f'{{"cells": [{{"cell_type": "code", "outputs": [], "metadata": {cell}}}],'
        '"nbformat": 4, "nbformat_minor": 5, "metadata": {}}'
    )
    done = sharelag("report", str(file), "-p", "x", "2", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "odd" in done.stderr
    assert "report it" not in done.stderr


# ---- a notebook of one's own ---------------------------------------------------------------------
#: As people got it from papermill, whose parameters may have annotations.
ANNOTATED = """tenant: str = "x"
country: str = "x"
window: str = "x"
filter: str = "a=b"
release: str = "1.0"
"""
SOURCES = {
    "own": (ANNOTATED, {"tenant", "country", "window", "filter", "release"}),
    "commented": ("n: int = 3  # how many\nrate = 0.5  # type: float a rate", {"n", "rate"}),
    "over lines": ("names = [\n    'a',  # first\n    'b, c',\n]\nx = 1", {"names", "x"}),
    "optional": (
        "from typing import Optional\nwho: Optional[str] = None\nm: dict[str, int] | None = None",
        {"who", "m"},
    ),
    "quoted types": ("n: 'int' = 3\nd: \"dict[str, list[int]]\" = {'a': [1, 2]}", {"n", "d"}),
    "computed": ("import os\nday = 24 * 3600\nhome = os.environ.get('HOME', '')", {"day", "home"}),
    "with magics": ("%load_ext autoreload\nn = 1\n!true", {"n"}),
    "in a block": ("if True:\n    n = 1\nelse:\n    n = 2", {"n"}),
    "bare": ("tenant: str\nn: int = -1", {"tenant", "n"}),
    "of two targets": ("a = b = 'x'", {"a", "b"}),
    "of a tuple": ("a, (b, *c) = 1, (2, 3)", {"a", "b", "c"}),
    "on one line": ("y = 1; x = 2", {"y", "x"}),
    "timed": ("%%time\nn = 3", {"n"}),
    "captured": ("%%capture out\nn = 3\nm: int = 4", {"n", "m"}),
    "literal": ("from typing import Literal\nwho: Literal['a', 'b'] = 'a'", {"who"}),
    "with dots": ("import datetime\nday: datetime.date | None = None", {"day"}),
    "with an equals sign": ("query = 'a=b'  # as in c=d", {"query"}),
    "of an element": ("d = {}\nd['x'] = 3", {"d"}),
    "lines of Windows": ("n = 3\r\nm = 4\r\n", {"n", "m"}),
    "another alphabet": ("gr\u00f6\u00dfe = 3", {"gr\u00f6\u00dfe"}),
}


def annotated(folder: Path, source: str, shows: str = "") -> Path:
    """Write a notebook whose parameters are assigned by this source."""
    cells = [new_code_cell(source, metadata={"tags": ["parameters"]}), new_code_cell(shows)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path = folder / "mine.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=kernel), path)
    return path


@pytest.mark.parametrize("name", SOURCES)
def test_parameters_are_those_of_papermill(name: str, tmp_path: Path) -> None:
    source, expected = SOURCES[name]
    path = annotated(tmp_path, source)
    assert set(notebooks.read_parameters(path)) == expected
    assert set(papermill.inspect_notebook(path)) <= expected
    for one in expected:
        same = notebooks.read_parameters(path)[one]
        given = 7 if isinstance(same, int) else 0.25 if isinstance(same, float) else ["other"]
        assert notebooks.check_parameters(path, {one: given}) == {one: given}
    with pytest.raises(InputError, match="has no parameter 'none': choose from"):
        notebooks.check_parameters(path, {"none": 1})


def test_what_is_typed_for_a_text_stays_a_text(tmp_path: Path) -> None:
    shows = "print(repr((tenant, country, window, filter, release)))"
    path, out = annotated(tmp_path, ANNOTATED, shows), tmp_path / "out"
    pairs = {"tenant": "abc", "country": "NO", "window": "1:30", "filter": "c=d", "release": "1.10"}
    typed = [word for name, text in pairs.items() for word in ("-p", name, text)]
    done = sharelag("report", str(path), *typed, "--no-figures", "--out", str(out))
    assert done.returncode == 0, done.stderr
    (ran,) = out.rglob("notebook.ipynb")
    assert "('abc', 'NO', '1:30', 'c=d', '1.10')" in ran.read_text()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("n = (", "is not Python"),
        ("pass", "has no parameter 'n': its cell tagged parameters assigns none"),
    ],
)
def test_a_notebook_without_what_was_given(source: str, says: str, tmp_path: Path) -> None:
    done = sharelag(
        "report", str(annotated(tmp_path, source)), "-p", "n", "1", "--out", str(tmp_path)
    )
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
