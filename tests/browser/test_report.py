"""The daily report in a browser: offline, in every theme, on paper, and after a failure."""

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import nbformat
import pyarrow.parquet as pq
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Browser

from sharelag.reports import blocks, cells, report
from sharelag.reports.blocks import DARK_MIME, PLOTLY_MIME
from sharelag.reports.page import draw, mail, page
from sharelag.reports.store import write_index
from sharelag.version import __version__
from tests.support.browser.desk import ROOT, axe_violations, faint_texts
from tests.support.browser.offline import OfflinePage
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.nightly import without_kernel

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e🦜" + "x" * 200
_SCRIPTS = (ROOT / f"tests/support/browser/report_{name}.js" for name in ("boxes", "words"))
BOXES, BROKEN_WORDS = (path.read_text("utf-8") for path in _SCRIPTS)
COLOUR_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The daily report of the recorded cluster, with all that belongs to it."""
    found = report(
        "daily", {"capture": str(CAPTURE), "engine": "local"}, tmp_path_factory.mktemp("reports")
    )
    assert found.run.error is None
    return found


class Opened(OfflinePage):
    """A report from disk, whose scripts have run."""

    def __init__(self, browser: Browser, path: Path, scripted: bool = True, **more: Any) -> None:
        super().__init__(browser, path.resolve(), viewport={"width": 1200, "height": 900}, **more)
        if scripted:
            self.page.wait_for_selector("html[data-ready]", timeout=60_000)
        self.address = path.resolve().as_uri()

    def assert_quiet(self) -> None:
        outside = [
            url for url in self.requests if url != self.address and not url.startswith("blob:null/")
        ]
        assert (outside, self.complaints) == ([], [])

    def eventually(self, expression: str, wanted: Any = True) -> None:
        """Wait for a value; our policy forbids Playwright's own way, which evaluates text."""
        end = time.monotonic() + 60
        while (found := self.page.evaluate(expression)) != wanted:
            assert time.monotonic() < end, f"{expression} is {found}, not {wanted}"
            self.page.wait_for_timeout(30)


@pytest.fixture(scope="module")
def opened(made: Any, browser: Browser) -> Opened:
    """Open the daily report once; each test finds it light and as wide as a screen."""
    return Opened(browser, made.html)


def outputs(made: Any) -> list[Any]:
    """Outputs of the cells of a report's notebook."""
    cells = nbformat.read(made.folder / "notebook.ipynb", as_version=4).cells
    return [output for cell in cells for output in cell.get("outputs", [])]


# ---- U11: size, paint, facts, paper --------------------------------------------------------------
def test_it_opens_from_disk_with_the_network_off(made: Any, opened: Opened) -> None:
    seen = opened
    assert (
        seen.page.locator("[data-chart]").count() == seen.page.locator("[data-drawn]").count() == 2
    )
    # Nobody works on most of it, so there is no time that a chart could show.
    assert "there are no members in 23 of 32 share partitions" in seen.page.inner_text("body")
    assert seen.page.locator("[data-shown] .sl-strip[data-loaded]").count() == 1
    # What stands in for it in a saved notebook is not there as well.
    assert any(one.get("metadata") == {"sharelag": "still"} for one in outputs(made))
    assert seen.page.locator("[class^=sharelag-still]").count() == 0
    assert seen.page.locator(".sr-missing:visible").count() == 0
    policy = seen.page.get_attribute("meta[http-equiv]", "content") or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    paint = seen.page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    )
    assert paint < 3000
    assert made.html.stat().st_size < 1_500_000
    seen.assert_quiet()


def test_the_head_says_what_the_report_is_about(made: Any, opened: Opened) -> None:
    seen = opened
    result = seen.page.inner_text("#about")
    for group in list({group["group_id"] for group in made.verdict["groups"][:6]}):
        assert group in result
    for moment in (made.verdict["as_of"], made.verdict["begin"], made.run.started):
        assert f"{moment[:10]} {moment[11:19]} UTC" in result
    assert re.search(r"data as of:?\s*\S+ \S+ UTC \(\d+ \w+ ago\)", result)
    assert f"sharelag {__version__}" in result
    assert f"capture={CAPTURE.name}" in result  # readers elsewhere have no such folder
    assert str(CAPTURE.parent) not in seen.page.content()
    assert made.verdict["source"] in result
    assert made.run.headline in seen.page.inner_text("#verdict")
    assert seen.page.title() == f"{made.run.level.upper()}: Daily lag"


def test_the_tables_say_what_the_verdict_says(made: Any, opened: Opened) -> None:
    page = opened.page
    rows = page.eval_on_selector_all(
        ".sr-groups tbody tr",
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))",
    )
    plain = [[cell.replace(",", "") for cell in row] for row in rows]
    assert [row[1] for row in plain] == [group["group_id"] for group in made.verdict["groups"]]
    for row, group in zip(plain, made.verdict["groups"], strict=True):
        assert row[0].endswith(group["level"])
        assert row[2].split()[0] == ("-" if group["lag"] is None else str(group["lag"]))
    # So do charts: each point in the words of its label, once, whatever traces have it.
    fold = page.locator(".sr-chart details").first
    fold.locator("summary").click()
    opened.eventually("document.querySelectorAll('.sr-chart table').length", 1)
    said = fold.locator("td").all_inner_texts()
    assert len({*said}) == len(said) > 10
    assert [one for one in said if not re.search(r", \S+ \S+ UTC, lag .+, age ", one)] == []
    fold.locator("summary").click()


def test_time_travel_works_without_python(opened: Opened) -> None:
    seen = opened
    strip = seen.page.locator(".sl-strip")
    slider = strip.locator("input[type=range]")
    result = strip.inner_text()
    last = int(slider.input_value())
    assert last > 5
    slider.focus()
    for _ in range(3):
        seen.page.keyboard.press("ArrowLeft")
    seen.eventually("Number(document.querySelector('.sl-strip input[type=range]').value)", last - 3)
    seen.eventually(f"document.querySelector('.sl-strip').innerText !== {json.dumps(result)}")
    slider.press("Home")
    seen.eventually("Number(document.querySelector('.sl-strip input[type=range]').value)", 0)
    seen.page.wait_for_timeout(4500)  # longer than the view waits for a kernel to answer
    assert not seen.page.locator(".sl-kernel").is_visible()
    seen.assert_quiet()


@pytest.mark.exhaustive
def test_on_paper_it_is_white_and_nothing_is_missing(opened: Opened) -> None:
    """The browser prints while the page is still as wide as the screen, and does not wait."""
    seen = opened
    seen.page.emulate_media(color_scheme="dark")
    seen.eventually(
        "[...document.querySelectorAll('.sr-chart')].every(one => one.dataset.theme === 'dark')"
    )
    seen.page.evaluate(
        "() => addEventListener('afterprint', () => { window.drawn = "
        "[...document.querySelectorAll('.sr-chart')]"
        ".map(one => [one.querySelector('.main-svg').clientWidth <= 690, one.dataset.theme]); })"
    )
    pages = seen.page.pdf(print_background=True, format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) >= 3
    assert len(pages) > 50_000
    assert seen.page.evaluate("window.drawn") == [[True, "light"]] * 2
    seen.eventually(
        "[...document.querySelectorAll('.sr-chart')].every(one => "
        "one.querySelector('.main-svg').clientWidth > 690"
        " && one.dataset.theme === 'dark')"
    )
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.eventually("document.querySelector('.sl-strip').dataset.theme", "light")
    assert not seen.page.locator("summary:visible").count()  # what nobody can open there
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    found = {one.get_attribute("data-theme") for one in seen.page.locator("[data-chart]").all()}
    assert found == {"light"}
    assert faint_texts(seen.page, within="body") == []
    seen.page.emulate_media(media="screen", color_scheme="light")


# ---- U8: themes ----------------------------------------------------------------------------------
def test_in_both_themes_every_text_is_readable_and_axe_finds_nothing(opened: Opened) -> None:
    seen = opened
    seen.page.locator(".sr-chart summary").first.click()
    seen.page.locator(".sr-chart tbody tr").first.wait_for()
    # Hundreds of rows are alike, and axe takes five seconds for them.
    seen.page.eval_on_selector_all(
        ".sr-chart tbody tr:nth-child(n + 10)", "rows => rows.forEach(row => row.remove())"
    )
    for scheme in COLOUR_SCHEMES:  # the theme follows while the page is open
        seen.page.emulate_media(color_scheme=scheme)
        seen.eventually(
            "[...document.querySelectorAll('[data-chart], .sl-strip')]"
            f".every(one => one.dataset.theme === '{scheme}')"
        )
        assert faint_texts(seen.page, within="body") == []
        fills = seen.page.eval_on_selector_all(
            ".gtitle, .xtick text", "texts => texts.map(text => getComputedStyle(text).fill)"
        )
        bright = [sum(map(int, re.findall(r"\d+", fill)[:3])) > 380 for fill in fills]
        assert bright
        assert set(bright) == {scheme == "dark"}
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe_violations(seen.page) == []
    boxes = seen.page.eval_on_selector_all(
        ".main-svg .bglayer rect, .sr-stage > *",
        "boxes => boxes.map(box => getComputedStyle(box).backgroundColor)",
    )
    assert "rgb(255, 255, 255)" not in boxes
    seen.page.emulate_media(color_scheme="light")
    seen.page.locator(".sr-chart summary").first.click()


# ---- the other reports ---------------------------------------------------------------------------
SHOWN = {
    "incident": (
        "redelivery_storm",
        {},
        5,
        ["Group", "Topic", "Partition", "First released", "Released"],
    ),
    "capacity": ("hot_partition", {}, 5, ["Group", "Members", "Share partitions", "In/s", "Out/s"]),
    "proposal": (
        "slow",
        {"minutes": 1, "seeds": 2},
        2,
        ["Variant", "Drains in", "Drained", "P95 age", "Against the first row"],
    ),
}


@pytest.mark.exhaustive  # what they share is shown by the daily report
@pytest.mark.parametrize("name", SHOWN)
def test_every_report_is_whole_and_readable(name: str, browser: Browser, tmp_path: Path) -> None:
    scenario, more, charts, headings = SHOWN[name]
    capture = str(CAPTURE.parent / "scenarios" / scenario)
    found = report(name, {"capture": capture, "engine": "local", **more}, tmp_path, figures=False)
    assert found.run.error is None
    assert found.html.stat().st_size < 1_500_000
    for scheme in ("light", "dark"):
        seen = Opened(browser, found.html, color_scheme=scheme)
        assert (
            seen.page.locator("[data-chart]").count()
            == seen.page.locator("[data-drawn]").count()
            == charts
        )
        assert seen.page.locator("[data-shown] .sl-strip[data-loaded]").count() == 1
        assert seen.page.locator(".sr-missing:visible").count() == 0
        assert faint_texts(seen.page, within="body") == []
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        seen.assert_quiet()
    assert axe_violations(seen.page) == []
    tables = seen.page.eval_on_selector_all(
        ":is(.sr-table, .sharelag-result table) thead",
        "heads => heads.map(head => [...head.querySelectorAll('th')].map(one => one.innerText))",
    )
    assert headings in [heads[: len(headings)] for heads in tables]
    nothing_is_cut(seen)


def nothing_is_cut(seen: Opened) -> None:
    """Neither a narrow screen nor paper can scroll: the whole table has to fit."""
    assert seen.page.evaluate(BOXES) == []
    media: Literal["screen", "print"]
    for width, media in ((400, "screen"), (690, "print")):  # A4 between its margins
        seen.page.set_viewport_size({"width": width, "height": 975})
        seen.page.emulate_media(media=media)
        seen.eventually(
            "[...document.querySelectorAll('.sr-chart .main-svg:first-child')]"
            f".every(one => one.clientWidth <= {width})"
        )
        seen.eventually(BOXES, [])
    seen.eventually(
        "[...document.querySelectorAll('.sr-scroll')].every(one => one.scrollWidth <= "
        "one.clientWidth + 1)"
    )
    # A word of ordinary length is broken nowhere: each lies in one line.
    assert seen.page.evaluate(BROKEN_WORDS) == []


@pytest.mark.exhaustive
def test_the_table_of_groups_needs_no_scrolling_and_nothing_is_cut(opened: Opened) -> None:
    for width in (1000, 1440):
        opened.page.set_viewport_size({"width": width, "height": 900})
        table = opened.page.locator(".sr-scroll:has(> .sr-groups)")
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
        # A name and a level are whole, and the sentence beside them has lines of some length.
        row = "one => [...one.querySelectorAll('tbody tr > *')].map(cell => cell.offsetHeight)"
        assert max(table.evaluate(row)) < 140
    nothing_is_cut(opened)  # and leaves the page narrow, as on paper


@pytest.mark.exhaustive
def test_a_headline_of_many_words_is_whole(made: Any, browser: Browser, tmp_path: Path) -> None:
    """A chart's own title would be cut where it is longer than the chart is wide."""
    notebook = nbformat.read(made.folder / "notebook.ipynb", as_version=4)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if any(DARK_MIME in output.get("data", {}) for output in cell.get("outputs", []))
    ][-1:]
    charts = [one.data for one in notebook.cells[0].outputs if DARK_MIME in one.data]
    long = " ".join(["there are no members in shipping"] * 9)
    for form in (PLOTLY_MIME, DARK_MIME):
        charts[-1][form]["layout"]["meta"] = {"title": long, "facts": [long, "8,582 offsets"]}
        charts[-1][form]["layout"]["title"]["text"] = long
        for note in charts[-1][form]["layout"]["annotations"]:
            note["text"] = long[:90]
    (tmp_path / "report.html").write_text(page(notebook, made.run, made.verdict), "utf-8")
    seen = Opened(browser, tmp_path / "report.html")
    assert long in seen.page.locator(".sr-finding").last.inner_text()
    assert "8,582 offsets" in seen.page.locator(".sr-fact").last.inner_text()
    nothing_is_cut(seen)


# ---- what lies beside the page -------------------------------------------------------------------
def test_pictures_of_every_chart(made: Any) -> None:
    assert made.run.figures is None
    names = {path.name for path in (made.folder / "figures").iterdir()}
    assert names == {f"chart-{number}.{form}" for number in (1, 2) for form in ("svg", "png")}
    for path in (made.folder / "figures").iterdir():
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg")
        assert len(content) > 3000


@pytest.mark.exhaustive
def test_pictures_in_a_folder(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        draw(nbformat.read(made.folder.resolve() / "notebook.ipynb", as_version=4), Path("figures"))
        is None
    )
    assert (tmp_path / "figures" / "chart-1.png").stat().st_size > 3000


def test_the_mail_needs_no_style_sheet_and_no_script(made: Any, browser: Browser) -> None:
    text = (made.folder / "mail.html").read_text()
    assert len(text) < 100_000
    assert "<script" not in text
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?!#)""", text)
    body = text[text.index("<body") :]
    assert re.search(r'<td[^>]*class="n"[^>]*style="[^"]*text-align: ?right', body)
    seen = Opened(browser, made.folder / "mail.html", scripted=False)
    assert faint_texts(seen.page, within="body") == []
    assert made.run.headline in seen.page.inner_text("body")
    seen.assert_quiet()


@pytest.mark.exhaustive
def test_the_index_is_readable(made: Any, browser: Browser) -> None:
    seen = Opened(browser, write_index(made.folder.parents[2]), scripted=False)
    for scheme in COLOUR_SCHEMES:
        seen.page.emulate_media(color_scheme=scheme)
        assert faint_texts(seen.page, within="body") == []
    assert axe_violations(seen.page) == []
    seen.page.locator("#runs a").first.click()
    seen.page.wait_for_selector("html[data-ready]")
    assert seen.page.title().endswith("Daily lag")


def test_a_long_name_leaves_the_reasons_in_sight(
    made: Any, browser: Browser, tmp_path: Path
) -> None:
    result = json.loads(json.dumps(made.verdict))
    result["groups"][0]["group_id"] = "x" * 200
    outputs = [new_output("execute_result", cells.groups(result)._repr_mimebundle_())]
    notebook = new_notebook(cells=[new_code_cell("x", outputs=outputs)])
    (tmp_path / "report.html").write_text(page(notebook, made.run, result), "utf-8")
    table = Opened(browser, tmp_path / "report.html").page.locator(".sr-scroll")
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")


# ---- hostile names -------------------------------------------------------------------------------
def test_hostile_names_are_text_everywhere(made: Any, browser: Browser, tmp_path: Path) -> None:
    result = json.loads(json.dumps(made.verdict))
    result["groups"][0] |= {"group_id": HOSTILE, "drain": HOSTILE}
    cause: dict[str, Any] = {"topic": HOSTILE, "summary": HOSTILE, "advice": HOSTILE}
    cause |= {"evidence": {HOSTILE: HOSTILE}, "cause": "x"}
    cause |= {"severity": "critical", "topic_id": HOSTILE, "partition": 0, "held": 1, "since": None}
    result["groups"][0]["causes"] = [cause]
    result |= {"headline": HOSTILE, "source": HOSTILE}
    listed = [{"group_id": HOSTILE, **cause}]
    change = {"group_id": HOSTILE, "level_before": None, "level": "ok", "lag_before": 1, "lag": 2}
    change |= {"lag_change": 1}
    change |= {"finished": None, "resets": 0}
    result["changes"] = {"since": result["as_of"], "comparable": True}
    result["changes"] |= {"groups": [change], "new_causes": listed}
    result["changes"] |= {"gone_causes": [], "lasting_causes": []}
    row = {"group_id": HOSTILE, "lag": 1}
    parts = [cells.headline(result), cells.changes(result), cells.groups(result)]
    parts += [cells.causes(result), cells.unknown(result)]
    parts.append(blocks.table([row], {HOSTILE: "group_id", "Lag": "lag"}, HOSTILE, HOSTILE))
    outputs = [new_output("execute_result", part._repr_mimebundle_()) for part in parts]
    shown = {"text/html": HOSTILE}
    outputs += [
        new_output("stream", name="stdout", text=HOSTILE),
        new_output("display_data", shown),
    ]
    text = f"{HOSTILE}\n\n{HOSTILE}"
    texts = [new_markdown_cell(f"# T {text}"), new_markdown_cell(f"## {text}")]
    notebook = new_notebook(cells=[*texts, new_code_cell("x", outputs=outputs)])
    run = replace(
        made.run, report=HOSTILE, headline=HOSTILE, parameters={HOSTILE: HOSTILE}, error=HOSTILE
    )
    (tmp_path / "report.html").write_text(page(notebook, run, result), "utf-8")
    (tmp_path / "mail.html").write_text(mail(HOSTILE, run, result), "utf-8")
    for name, scripted in (("report.html", True), ("mail.html", False)):
        seen = Opened(browser, tmp_path / name, scripted)
        assert not [said for said in seen.complaints if "Content Security Policy" not in said], (
            seen.complaints
        )
        images = seen.page.locator("img").count()
        # What a notebook shows as HTML stays HTML; nothing in it may run or be requested.
        assert images == (1 if name == "report.html" else 0)
        assert [url for url in seen.requests if url.startswith("http")] == []
        assert "alert(2)" in seen.page.inner_text("body")


# ---- U12: failures -------------------------------------------------------------------------------
def whole(_: Path) -> None:
    pass


def empty(folder: Path) -> None:
    for path in (folder / "records").glob("*.parquet"):
        pq.write_table(pq.read_table(path).slice(0, 0), path)


def truncated(folder: Path) -> None:
    path = next((folder / "records").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:5000])


FAILURES: dict[str, tuple[Callable[[Path], None], dict[str, Any], str]] = {
    "unknown group": (whole, {"group": ["nobody"]}, "nobody"),
    "empty": (empty, {}, "no share group has state"),
    "truncated": (truncated, {}, "is not a Parquet file"),
    "nothing there": (shutil.rmtree, {}, "no capture"),
    "a moment after": (whole, {"as_of": "2031-01-01T00:00:00Z"}, "name that moment or an earlier"),
}


# What is found before anything is read, and what is found in a file.
@pytest.mark.parametrize("name", few_of(FAILURES, ["unknown group", "truncated"]))
def test_a_failure_says_why_and_what_next(name: str, browser: Browser, tmp_path: Path) -> None:
    damage, parameters, why = FAILURES[name]
    capture = Path(shutil.copytree(CAPTURE, tmp_path / "capture"))
    damage(capture)
    failed = report(
        "daily",
        {"capture": str(capture), "engine": "local", **parameters},
        tmp_path / "out",
        figures=False,
        run=without_kernel,
    )
    assert failed.run.level == "failed"
    assert why in (failed.run.error or "")
    assert (tmp_path / "out" / "daily" / "latest").resolve() == failed.folder.resolve()
    assert json.loads((failed.folder / "verdict.json").read_text())["level"] == "failed"
    seen = Opened(browser, failed.html)
    result = seen.page.inner_text("#verdict")
    assert "failed" in result
    assert "could not be made" in result
    assert why in result
    assert "Traceback" not in seen.page.inner_text("body")
    assert seen.page.title() == "FAILED: daily"
    assert "could not be made" in (failed.folder / "mail.html").read_text()
    assert (faint_texts(seen.page, within="body"), axe_violations(seen.page)) == ([], [])
    seen.assert_quiet()


def test_the_drawing_library_is_that_of_plotly() -> None:
    import gzip

    from plotly.offline import get_plotlyjs_version

    folder = Path(blocks.__file__).parent / "vendor"
    head = gzip.decompress((folder / "plotly-cartesian.min.js.gz").read_bytes())[:200].decode()
    assert f"v{get_plotlyjs_version()}" in head
    assert "MIT" in (folder / "plotly-LICENSE").read_text()
    readme = (folder / "README.md").read_text()
    assert f"plotly.js-cartesian-dist-min@{get_plotlyjs_version()}" in readme
