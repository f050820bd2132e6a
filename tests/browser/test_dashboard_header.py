"""Parts of a dashboard: how old its data is, verdicts, what-ifs, and the table that decides."""

import json
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from sharelag.tables import render
from sharelag.whatif import compared
from sharelag_widgets.dashboards.pieces import Header, Tries, Verdict
from tests.support.browser.desk import Desk, OpenDesk, axe_violations, faint_texts
from tests.support.browser.offline import OfflinePage
from tests.support.cases import few_of
from tests.support.drawn_comparisons import runs
from tests.support.widgets.samples import HOSTILE

PAPERS = few_of(["background: #fff", "background: #111; color: #eee"], ["background: #fff"])
STUCK = "nothing is stuck"
#: Where the text of a cell ends, in pixels.
_ENDS = """one => { const range = new Range(); range.selectNodeContents(one);
    return Math.round(range.getBoundingClientRect().right); }"""
VARIANTS = ("the group as it is", "lag-aware-sticky · 9 members", "all-to-all · 9 members")


def header(**changes: object) -> tuple[Header, list[str]]:
    """A header as of now, and what it requested."""
    requests: list[str] = []
    given: dict[str, object] = {"title": "Fleet", "level": 2, "live": True, "source": "broker:9092"}
    given |= {"about": "cluster at broker:9092"}
    given |= {"help": [["lag", "end offset - start offset - delivery complete count"]], "every": 30}
    given |= {"as_of": datetime.now(UTC).timestamp() * 1000} | changes
    return Header(lambda: requests.append("refresh"), **given), requests


def after(view: Header, **time: float) -> datetime:
    """So long after the moment of what is shown, however long the page took to open."""
    assert view.as_of is not None
    return datetime.fromtimestamp(view.as_of / 1000, UTC) + timedelta(**time)


def set_time(desk: Desk, moment: datetime) -> None:
    """Let the page take it for now; its timers go on, and other pages of the context do not know."""
    desk.page.evaluate("now => { Date.now = () => now; }", moment.timestamp() * 1000)


def test_it_turns_stale_before_ones_eyes(open_desk: OpenDesk) -> None:
    view, requests = header(paused=True, stale_after=120.0)
    desk = open_desk(view)
    badge = desk.page.locator(".sl-badge")
    expect(badge).to_be_hidden()
    set_time(desk, after(view, minutes=10, seconds=5))
    expect(badge).to_have_text("Stale: 10m old")
    expect(desk.page.locator(".sl-when")).to_contain_text("10m ago")
    assert requests == []  # it is paused
    view.as_of = after(view, minutes=10, seconds=5).timestamp() * 1000
    desk.settle()
    expect(badge).to_be_hidden()


def test_it_asks_again_while_it_is_looked_at_and_not_paused(open_desk: OpenDesk) -> None:
    view, requests = header()
    desk = open_desk(view)
    # The next is due by when the page was opened, which may be a while after `as_of`.
    set_time(desk, datetime.now(UTC) + timedelta(seconds=31))
    expect(desk.page.locator(".sl-when")).to_contain_text(re.compile(r"(\d0 s|\dm) ago"))
    deadline = datetime.now(UTC) + timedelta(seconds=60)
    while not requests and datetime.now(UTC) < deadline:
        desk.page.wait_for_timeout(100)
    assert requests == ["refresh"]
    desk.page.get_by_role("button", name="Pause").press("Enter")
    desk.settle()
    assert view.paused
    set_time(desk, after(view, minutes=5, seconds=5))
    expect(desk.page.locator(".sl-when")).to_contain_text("5m ago")
    assert requests == ["refresh"]
    desk.page.get_by_role("button", name="Go on").press("Enter")
    desk.page.get_by_role("button", name="Refresh").press("Enter")
    desk.settle()
    assert not view.paused
    assert len(requests) >= 2


@pytest.mark.parametrize("paper", PAPERS)
def test_all_it_says_is_text_with_contrast(paper: str, open_desk: OpenDesk) -> None:
    failure = f"no state of {HOSTILE}"
    view, _ = header(
        title=HOSTILE, unknown=[HOSTILE], notes=[HOSTILE], failure=failure, source=HOSTILE
    )
    desk = open_desk(view, paper=paper)
    desk.page.get_by_role("button", name="What does").press("Enter")
    desk.page.get_by_role("button", name="1 thing not known").press("Enter")
    desk.settle()
    assert desk.page.locator("img").count() == 0
    assert desk.page.inner_text("main").count("<img src=x") == 5
    assert (view.theme, axe_violations(desk.page)) == ("light" if "fff" in paper else "dark", [])
    assert faint_texts(desk.page) == []
    assert json.loads(str(desk.root().get_attribute("data-loaded"))) >= 1


def test_of_many_notes_the_rest_opens(open_desk: OpenDesk) -> None:
    notes = [f"note {n}" for n in range(9)]
    view = Header(title="State topic", notes=notes)
    desk = open_desk(view)
    facts = desk.root().locator(".sl-facts")
    assert facts.inner_text().split() == [*" ".join(notes[:5]).split(), "4", "more"]
    facts.locator("summary").click()
    expect(facts).to_contain_text("note 8")
    view.notes = [*notes[:-1], "news"]
    desk.settle()
    expect(facts).to_contain_text("news")
    assert facts.locator("details").get_attribute("open") is not None
    expect(facts.locator("summary")).to_be_focused()


@pytest.mark.exhaustive  # as of a strip: `test_widgets_strip.py`, two views
def test_a_header_that_is_gone_asks_for_nothing(open_desk: OpenDesk) -> None:
    view, requests = header()
    desk = open_desk(view)
    desk.page.evaluate("() => window.stops.forEach(stop => stop())")
    set_time(desk, after(view, minutes=5, seconds=5))
    desk.page.evaluate("() => new Promise(done => setTimeout(done, 2500))")
    assert (requests, desk.page.locator(".sl").count()) == ([], 0)


# From here on every change of the header's elements, texts and attributes is noted.
WATCH = """() => { window.changes = [];
    const words = ({ type, target }) => `${type} of ${target.className || target.nodeName}`;
    const note = found => changes.push(...found.map(words));
    const all = { attributes: true, characterData: true, childList: true, subtree: true };
    new MutationObserver(note).observe(document.querySelector('.sl-head'), all); }"""


@pytest.mark.exhaustive
def test_it_is_touched_only_where_something_is_new(open_desk: OpenDesk) -> None:
    view, _ = header(
        paused=True, unknown=["a", "b"], notes=["a note"], units="lag in offsets", stale_after=650.0
    )
    desk = open_desk(view, alone=True)
    now = after(view)
    page, when = desk.page, desk.page.locator(".sl-when")
    page.clock.install(time=now)
    page.clock.pause_at(now + timedelta(minutes=10))
    page.clock.run_for(2_000)
    expect(when).to_contain_text("10m ago")
    page.evaluate(WATCH)
    page.clock.run_for(45_000)
    assert page.evaluate("changes") == []
    page.clock.run_for(20_000)
    expect(when).to_contain_text("11m ago")
    expect(page.locator(".sl-badge")).to_have_text("Stale: 11m old")
    badge = {f"{change} of sl-badge sl-stale" for change in ("attributes", "childList")}
    found = set(page.evaluate("changes"))
    assert found == {"childList of BDI", "attributes of sl sl-head sl-level-2"} | badge
    assert page.locator(".sl-head [aria-live], .sl-head [role=alert]").all_inner_texts() == ["", ""]
    page.clock.resume()
    # A refresh with the same answers leaves what people opened, closed or marked.
    page.get_by_role("button", name="What does").press("Enter")
    chip = page.locator(".sl-chip")
    expect(chip).to_have_text("? 2 things not known")
    chip.press("Enter")
    page.evaluate("() => getSelection().selectAllChildren(document.querySelector('.sl-help dd'))")
    view.busy = True
    desk.settle()
    view.busy = False
    then = now + timedelta(minutes=12)
    view.tell(then, ["a", "b"], ["a note"], units="lag in offsets")
    desk.settle()
    expect(when).to_contain_text("just now")
    means = "end offset - start offset - delivery complete count"
    assert page.evaluate("String(getSelection())") == means
    expect(page.locator(".sl-gaps")).to_be_visible()
    expect(chip).to_have_attribute("aria-expanded", "true")
    view.tell(then, ["a", "b", "c"])
    desk.settle()
    expect(page.locator(".sl-gaps li")).to_have_count(3)
    chip.press("Escape")
    expect(page.locator(".sl-gaps")).to_be_hidden()
    view.tell(then, [])
    desk.settle()
    expect(chip).to_be_hidden()
    expect(when).not_to_contain_text("unknown")


def test_what_failed_is_reported_until_it_can_be_shown(open_desk: OpenDesk) -> None:
    view, _ = header(paused=True)
    desk = open_desk(view)
    model, alert = "Object.values(window.models)[0]", desk.page.get_by_role("alert")
    desk.page.evaluate(f"() => {model}.set('facts', null)")
    set_time(desk, datetime.now(UTC) + timedelta(minutes=1))
    expect(desk.page.locator(".sl-when")).to_contain_text("1m ago")  # the clock goes on
    expect(alert).to_contain_text("This view cannot be drawn")
    expect(desk.page.get_by_role("heading", name="Fleet")).to_be_visible()
    view.units = "lag in offsets"  # painted again, and the facts are still none
    desk.settle()
    expect(desk.page.locator(".sl-when")).to_contain_text("lag in offsets")
    expect(alert).to_contain_text("This view cannot be drawn")
    view.finding = "all is well"
    desk.page.evaluate(f"() => {model}.set('facts', ['every 30 s'])")
    expect(alert).to_have_count(0)
    desk.settle()
    expect(desk.page.locator(".sl-facts")).to_have_text("all is wellevery 30 s")
    # Where the clock fails too, a screen reader hears of it once and not every second.
    desk.page.evaluate(f"() => {model}.set('unknown', null)")
    expect(alert).to_contain_text("This view cannot be drawn")
    desk.page.evaluate(WATCH)
    desk.page.evaluate("() => new Promise(done => setTimeout(done, 2500))")
    assert desk.page.evaluate("changes") == []


# As JupyterLab's models do once the kernel has restarted.
ENDED = """() => { window.sends = 0;
    Object.values(window.models)[0].send = () => { window.sends += 1; throw new Error('Cannot send'); }; }"""
ENDED_SAID = "The kernel of this dashboard has ended: run the cell again"


def test_of_a_kernel_that_ended_it_says_so_and_asks_no_more(open_desk: OpenDesk) -> None:
    view, requests = header(every=2.0)
    desk = open_desk(view)
    page, when = desk.page, desk.page.locator(".sl-when")
    expect(when).to_contain_text("refreshes every 2 s")
    page.evaluate(ENDED)
    expect(when).to_contain_text(ENDED_SAID)
    expect(when).not_to_contain_text("refreshes every")
    expect(page.locator(".sl-head [aria-live]")).to_have_text(ENDED_SAID)
    sends, before = page.evaluate("sends"), len(requests)
    set_time(desk, datetime.now(UTC) + timedelta(minutes=3))
    expect(when).to_contain_text("3m ago")
    assert (page.evaluate("sends"), sends) == (1, 1)
    page.get_by_role("button", name="Refresh").click()
    desk.settle()
    assert page.evaluate("sends") == 2
    expect(when).to_contain_text(ENDED_SAID)
    # A connection that was only lost is there again.
    page.evaluate("""() => { const model = Object.values(window.models)[0];
        delete model.send; model.emit('comm_live_update'); }""")
    expect(when).to_contain_text("refreshes every 2 s")
    page.get_by_role("button", name="Refresh").click()
    desk.settle()
    assert len(requests) > before


@pytest.mark.exhaustive
def test_a_kernel_that_ends_while_it_reads_leaves_nothing_reading(open_desk: OpenDesk) -> None:
    view, requests = header(busy=True)
    desk = open_desk(view)
    page, badge = desk.page, desk.page.locator(".sl-badge")
    refresh = page.get_by_role("button", name="Refresh")
    set_time(desk, datetime.now(UTC) + timedelta(seconds=10))
    expect(page.locator(".sl-when")).to_contain_text("10 s ago")
    expect(badge).to_have_text("Working …")
    expect(refresh).to_be_disabled()
    page.evaluate(ENDED)
    set_time(desk, datetime.now(UTC) + timedelta(seconds=20))
    expect(page.locator(".sl-when")).to_contain_text(ENDED_SAID)
    expect(badge).to_be_hidden()
    expect(refresh).to_be_enabled()
    expect(desk.root()).to_have_attribute("aria-busy", "false")
    assert requests == []


# As a dashboard has them: the header in a separate element, controls of ipywidgets beside it.
CONTROLS = """() => { const board = document.querySelector('main'), style = document.createElement('style');
    board.className = 'sharelag-dashboard';
    const choice = '<div class="widget-dropdown"><select><option>billing</select></div>';
    board.insertAdjacentHTML('beforeend', `${choice}<input type="number">`);
    style.textContent = '.widget-dropdown > select { appearance: none; background: linear-gradient(#000, #000) }';
    document.head.append(style); }"""
LOOKS = """() => [...document.querySelectorAll('.widget-dropdown > select, input[type=number]')].map(control => {
    const { colorScheme, appearance, backgroundImage } = getComputedStyle(control);
    return [colorScheme, appearance, backgroundImage]; })"""


@pytest.mark.parametrize("paper", PAPERS)
def test_the_browsers_own_controls_have_the_theme_too(paper: str, open_desk: OpenDesk) -> None:
    view, _ = header()
    desk = open_desk(view, paper=paper)
    desk.page.evaluate(CONTROLS)
    scheme = "light" if "fff" in paper else "dark"
    assert desk.page.evaluate(LOOKS) == [[scheme, "auto", "none"], [scheme, "auto", "none"]]
    desk.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    desk.page.wait_for_function(f"({LOOKS})().every(([scheme]) => scheme === 'dark')")


# As ipywidgets mark what has lost its kernel, all of a dashboard and itself.
LOST = """() => { const board = document.querySelector('main'), style = document.createElement('style');
    board.className = 'sharelag-dashboard jupyter-widgets-disconnected';
    board.insertAdjacentHTML('beforeend', '<div class="jupyter-widgets-disconnected"></div>'.repeat(3));
    style.textContent = '.jupyter-widgets-disconnected::before { content: "lost"; }';
    document.head.prepend(style);
    return [...document.querySelectorAll('.jupyter-widgets-disconnected')].filter(one =>
        getComputedStyle(one, '::before').display !== 'none').map(one => one.nodeName); }"""


def test_a_dashboard_that_has_lost_its_kernel_is_marked_once(open_desk: OpenDesk) -> None:
    view, _ = header()
    page = open_desk(view).page
    assert page.evaluate(LOST) == ["MAIN"]
    # Menus leave the box of their widget, whose style of Lumino would cut them off in Voila.
    page.add_style_tag(content=".lm-Widget { overflow: hidden; }")
    box = page.locator(":has(> .sl)").last
    box.evaluate("one => one.classList.add('lm-Widget')")
    expect(box).to_have_css("overflow", "visible")


def test_moment_and_unknowns_stand_in_the_dashboards_header_alone(open_desk: OpenDesk) -> None:
    at = datetime(2026, 11, 21, 8, 22, 50, tzinfo=UTC).timestamp() * 1000
    main, _ = header(live=False, as_of=at, unknown=["in 'Windows': the age of 3 offsets"])
    part = Header(title="Windows", as_of=at, above=at, unknown=["the age of 3 offsets"])
    earlier = Header(title="Records", as_of=at - 9000, above=at, units="lag in offsets")
    desk = open_desk(main, part, earlier)
    page = desk.page
    assert page.inner_text("main").count("As of 2026-11-21 08:22:50.000 UTC") == 1
    desk.root(0).locator(".sl-chip").press("Enter")
    assert page.inner_text("main").count("the age of 3 offsets") == 1
    expect(desk.root(0).locator(".sl-chip")).to_have_count(1)
    expect(desk.root(1).locator(".sl-when")).to_be_hidden()
    # A part of another moment says so.
    expect(desk.root(2).locator(".sl-when")).to_contain_text("As of 2026-11-21 08:22:41.000 UTC")
    assert "is unknown" not in desk.root(2).inner_text()
    part.above = at + 5000
    desk.settle()
    expect(desk.root(1).locator(".sl-when")).to_contain_text("As of 2026-11-21 08:22:50.000 UTC")


@pytest.mark.parametrize("there", [True, False])
def test_a_new_cell_is_offered_only_in_a_notebook(there: bool, open_desk: OpenDesk) -> None:
    """Voila has commands, too, but none that adds a cell."""
    view, _ = header()
    desk = open_desk(view)
    has = str(there).lower()
    desk.page.evaluate(f"window.jupyterapp = {{ commands: {{ hasCommand: () => {has} }} }}")
    view.code = "Selection([('billing', 'A', 0)])"
    desk.settle()
    about = desk.page.get_by_text("cluster at broker:9092")
    expect(about).to_be_hidden()  # its name is enough
    expect(desk.page.locator(".sl-when")).to_contain_text("broker:9092")
    desk.page.get_by_role("button", name="More").press("Enter")
    expect(about).to_be_visible()
    expect(
        desk.page.get_by_role("button", name="Copy the Python for what is picked")
    ).to_be_visible()
    into = desk.page.get_by_role("button", name="Python into a new cell")
    expect(into).to_have_count(int(there))


def test_a_fix_that_cannot_help_is_off_and_says_why(open_desk: OpenDesk) -> None:
    actions = [["what if", "Simulate the fix", STUCK], ["worst", "Show the worst", ""]]
    pressed: list[str] = []
    acts = {name: partial(pressed.append, name) for name, *_ in actions}
    desk = open_desk(Verdict(acts, level="critical", sentence="a", actions=actions))
    page = desk.page
    expect(page.get_by_role("button", name="Simulate the fix")).to_be_disabled()
    expect(page.get_by_text(STUCK, exact=True)).to_be_visible()
    page.get_by_role("button", name="Show the worst").press("Enter")
    desk.settle()
    assert pressed == ["worst"]


def test_nothing_is_urged_where_nothing_is_wrong(open_desk: OpenDesk) -> None:
    verdict = Verdict({}, level="critical", actions=[["worst", "Show the worst", ""]])
    desk = open_desk(verdict)
    for level, urged in (("critical", 1), ("ok", 0), ("warning", 1), ("unknown", 0)):
        verdict.level, verdict.sentence = level, "The same."
        desk.settle()
        expect(desk.page.locator(".sl-primary")).to_have_count(urged)
    expect(desk.page.get_by_role("status")).to_have_text("unknown The same.")


def test_forced_colours_are_dark_or_light_and_what_is_urged_is_read(open_desk: OpenDesk) -> None:
    """Chromium paints paper behind words, which were of the paper's colour."""
    view, _ = header()
    verdict = Verdict({}, level="critical", actions=[["worst", "Show the worst", ""]])
    desk = open_desk(view, verdict, forced_colors="active", color_scheme="dark")
    urged = desk.page.locator(".sl-primary")
    expect(urged).to_have_css("forced-color-adjust", "none")
    desk.settle()
    assert view.theme == "dark"  # of charts by Python
    desk.page.emulate_media(forced_colors="active", color_scheme="light")
    desk.page.wait_for_function("document.querySelector('.sl-head').dataset.paper === 'light'")
    desk.settle()
    assert view.theme == "light"


def row(name: str, **found: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("why", "age", "drains", "difference", "verdict"), "")
    return {"name": name, "words": f"try {name}", "span": []} | empty | found


def test_a_what_if_is_numbers_and_an_interval_and_can_be_cancelled(open_desk: OpenDesk) -> None:
    found = {"age": "15m 5s", "drains": "7m 42s", "difference": "-9m 39s", "verdict": "better"}
    tried = row("members", **found, span=[-600_000.0, -579_000.0, -540_000.0])
    rows = [tried, row("lag-aware"), row("heads", why=STUCK)]
    pressed: list[str] = []
    acts = {name: partial(pressed.append, name) for name in ("members", "lag-aware", "cancel")}
    view = Tries(acts, rows=rows, begun="Simulated from now.")
    desk = open_desk(view)
    page = desk.page
    expect(page.get_by_text(view.begun)).to_be_visible()  # nothing is assumed
    members, lag_aware, heads = (page.locator(f"[data-name={one['name']}]") for one in rows)
    expect(members.get_by_role("cell")).to_have_text(["15m 5s", "7m 42s", "-9m 39s better", ""])
    for place, name in enumerate(("P95 age", "Drains in")):  # numbers end where their headings do
        heading = page.get_by_role("columnheader", name=name, exact=True)
        assert heading.evaluate(_ENDS) == members.get_by_role("cell").nth(place).evaluate(_ENDS)
    low, mean, high = members.locator("svg").evaluate(
        """svg => { const [low, high] = svg.querySelector('.sl-range').getAttribute('d').match(/[\\d.]+/g)
            .filter((_, n) => n !== 1).map(Number);
            return [low, Number(svg.querySelector('circle').getAttribute('cx')), high]; }"""
    )
    zero = members.locator("svg").evaluate("svg => svg.viewBox.baseVal.width / 2")
    assert low < mean < high < zero
    expect(heads.get_by_role("button")).to_be_disabled()
    expect(heads).to_contain_text(STUCK)
    lag_aware.get_by_role("button").click()
    view.busy = "try lag-aware"
    desk.settle()
    expect(page.get_by_role("status").first).to_have_text("Simulating try lag-aware ...")
    expect(members.get_by_role("button")).to_be_disabled()
    cancel = lag_aware.get_by_role("button", name="Cancel")
    cancel.dispatch_event("click", {"detail": 2})  # of a double click that started the run
    desk.settle()
    assert pressed == ["lag-aware"]
    cancel.click()
    view.busy = ""
    desk.settle()
    lag_aware.get_by_role("button").dispatch_event("click", {"detail": 2})  # of one that cancelled
    desk.settle()
    assert pressed == ["lag-aware", "cancel"]


@pytest.fixture(scope="module")
def decision() -> str:
    """Three variants of eight runs each, as HTML."""
    variants = {
        variant: {
            "age_p95_ms": [1_493_000.0 - 250_000 * number + 1_000 * seed for seed in range(8)],
            "drain_ms": [460_000 + 2_000 * seed if number else None for seed in range(8)],
            "duration_ms": [600_000] * 8,
            "member_hours": [0.5 + number] * 8,
        }
        for number, variant in enumerate(VARIANTS)
    }
    return render.as_html(compared(runs(**variants)).presentation())


# All of a notebook's column at 1,010 pixels, or half.
@pytest.mark.parametrize(
    ("width", "theme"),
    [
        *((830, "light"), (420, "dark")),
        pytest.param(830, "dark", marks=pytest.mark.exhaustive),
        pytest.param(420, "light", marks=pytest.mark.exhaustive),
    ],
)
def test_it_fits_or_scrolls_beside_the_names_of_its_variants(
    decision: str, browser: Browser, tmp_path: Path, width: int, theme: str
) -> None:
    path = tmp_path / "decision.html"
    paper = f"color-scheme: {theme}; background: Canvas; color: CanvasText"
    frame = f'<main style="width: {width}px"><h1>Decision</h1>{decision}</main>'
    head = f'<!doctype html><html lang="en" style="{paper}"><meta charset="utf-8">'
    head += "<style>svg { max-width: 100%; }</style>"  # as JupyterLab has it
    path.write_text(f'{head}<title>Decision</title><body style="{paper}">{frame}', "utf-8")
    page = OfflinePage(browser, path, viewport={"width": 1010, "height": 600}).page
    table = page.locator(".scroll").first
    names, ends = (table.locator(f"tbody td:{which}-child") for which in ("first", "last"))
    for name, variant in zip(names.all(), VARIANTS, strict=True):
        expect(name).to_have_text(variant)
    before = names.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
    if table.evaluate("one => one.scrollWidth > one.clientWidth"):
        table.hover()
        page.mouse.wheel(2_000, 0)
        page.wait_for_function(
            "one => one.scrollLeft + one.clientWidth >= one.scrollWidth - 1",
            arg=table.element_handle(),
        )
    else:
        assert width > 800
    expect(ends.first).to_be_in_viewport(ratio=0.98)  # frames end within a pixel
    assert names.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)") == before
    # What scrolls goes below the names, and does not shine through.
    on_top = """all => all.every(one => { const { left, right, top, bottom } = one.getBoundingClientRect();
        return one.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2)); })"""
    assert names.evaluate_all(on_top)
    clear = "one => getComputedStyle(one).backgroundColor.includes(', 0)')"
    assert not names.first.evaluate(clear)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe_violations(page) == []
    cells = table.locator("td")
    assert cells.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
