"""The strip says and paints what the windows say, to eyes, keyboard and screen readers."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import expect

from sharelag.charts.palette import KINDS as LOOKS
from sharelag.charts.palette import LAST, Theme
from sharelag.model import DeliveryState
from sharelag_widgets import WindowStrip
from sharelag_widgets.window_strip import KINDS
from tests.support.browser.desk import Button, Desk, OpenDesk, box_of
from tests.support.browser.strip_page import PICTURE, counted, go_to, legend
from tests.support.cases import few_of
from tests.support.widgets.samples import TOPIC_ID, moving, run, window, windows

SAMPLES = 20
# CSS pixels of the picture: the band of states, the height of the carets, and what stands for an
# unread tail.
STATES, CARETS, STUB = (18, 76), 14, 96
INK = (0x1C, 0x23, 0x30)
# The colours in rectangles of the picture, given in CSS pixels: [red, green, blue, how many
# pixels], most first.
COLOURS = """boxes => { const canvas = document.querySelector('.sl-strip canvas[role=slider]');
    const [scale, context] = [canvas.width / canvas.clientWidth, canvas.getContext('2d')];
    return boxes.map(([left, top, right, bottom]) => {
        const [x0, y0] = [Math.ceil(left * scale), Math.ceil(top * scale)];
        const [x1, y1] = [Math.floor(right * scale), Math.floor(bottom * scale)];
        const { data } = context.getImageData(x0, y0, x1 - x0, y1 - y0);
        const found = new Map();
        for (let n = 0; n < data.length; n += 4) {
            const colour = [data[n], data[n + 1], data[n + 2]].join();
            found.set(colour, (found.get(colour) ?? 0) + 1);
        }
        const most = [...found].sort((a, b) => b[1] - a[1]);
        return most.map(([colour, count]) => [...colour.split(',').map(Number), count]);
    }); }"""


def test_every_moment_shows_what_was(open_desk: OpenDesk) -> None:
    rows = moving(40, 1)
    strip = WindowStrip.of(rows)
    desk = open_desk(strip)
    for moment in (39, 0, 17, 5, 33):
        strip.moment = moment
        desk.settle()
        row = rows.slice(moment, 1).to_pylist()[0]
        assert desk.data("moment") == moment
        assert counted(desk) == legend(desk) == strip.counts(moment)
        result = desk.page.inner_text(".sl-told")
        assert (
            f"SPSO {row['start_offset']}, SPEO {row['window_end_offset']}, log end "
            f"{row['end_offset']}" in result
        )
        assert result.startswith(f"{row['record_timestamp']:%Y-%m-%d %H:%M:%S}.000 UTC")


def test_the_keyboard_reaches_everything_and_is_let_go_again(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(40, 1))
    desk = open_desk(strip)
    first = strip.rows.column("start_offset")[39].as_py()
    desk.page.focus(PICTURE)
    outline = desk.page.eval_on_selector(
        PICTURE, "picture => getComputedStyle(picture).outlineWidth"
    )
    assert float(outline.removesuffix("px")) >= 2
    desk.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert strip.cursor == first + 1
    desk.press("PageDown")
    assert strip.cursor > first + 10
    desk.press("Home")
    assert strip.cursor == first
    desk.press("End")
    assert strip.cursor == strip.rows.column("end_offset")[39].as_py() - 1
    assert desk.data("span")[1] > strip.cursor  # the picture followed
    desk.press("0", "[", "[")
    assert (strip.moment, strip.fit) == (37, "window")
    desk.press("]")
    assert strip.moment == 38
    span = desk.data("span")
    desk.press("+", "+")
    assert strip.span[1] - strip.span[0] == (span[1] - span[0]) / 4
    seen = []
    for _ in range(12):
        desk.press("Tab")
        seen.append(
            desk.page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.tagName")
        )
    assert "Moment" in seen
    assert "BODY" in seen  # no trap


def test_keys_that_are_not_ours_go_on(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(3, 1))
    desk = open_desk(strip)
    desk.page.evaluate("""window.seen = [];
        document.addEventListener('keydown', event => {
            seen.push(event.key);
            event.preventDefault(); })""")
    desk.page.focus(PICTURE)
    desk.press("ArrowRight", "[", "q", "Escape", "F2")
    # The browser's own stay the browser's.
    desk.press("Control+p", "Control+g", "Control++", "Control+0", "Control+ArrowRight")
    seen = [key for key in desk.page.evaluate("seen") if key != "Control"]
    assert (seen, strip.fit) == (["q", "F2", "p", "g", "+", "0"], "window")
    assert desk.find_unprotected() == []


def test_picks_by_key_and_mouse_come_back_to_python(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window(end_offset=120)))
    desk = open_desk(strip)
    desk.page.focus(PICTURE)
    desk.press("ArrowRight", *["ArrowRight"] * 8, "Enter")
    assert (strip.cursor, strip.selection.offsets) == (108, (107, 112))
    assert strip.selection.keys == (("payments", TOPIC_ID, 0),)
    assert "picked 107 to 112" in desk.page.inner_text(".sl-spot")
    desk.press("Escape")
    assert strip.selection.offsets is None
    desk.press("Home", "Shift+ArrowRight", "Shift+ArrowRight")
    assert strip.selection.offsets == (100, 102)
    desk.press("Shift+ArrowLeft")
    assert strip.selection.offsets == (100, 101)
    desk.press("Control+ArrowRight", "Control+ArrowRight")
    assert strip.cursor == 105
    box = box_of(desk.page.locator(PICTURE))
    each = box["width"] / 20
    desk.page.mouse.move(box["x"] + 3.5 * each, box["y"] + 40)
    desk.settle()
    spot = "Offset 103: Available, delivery count 3; run 103 to 104"
    assert desk.page.inner_text(".sl-spot").startswith(spot)
    assert desk.page.get_attribute(PICTURE, "aria-valuetext", strict=True)
    y = box["y"] + 40
    desk.drag((box["x"] + 3.5 * each, y), (box["x"] + 9.5 * each, y))
    assert strip.selection.offsets == (103, 109)
    assert "offsets=(103, 109)" in strip.to_code()


def test_time_travel_needs_no_kernel_and_says_that_it_is_gone(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(40, 1))
    desk = open_desk(strip)
    desk.page.focus(".sl-strip input[type=range]")
    desk.press("ArrowLeft")
    assert strip.moment == 38
    assert desk.page.locator(".sl-kernel").is_hidden()
    desk.silence()
    before = desk.data("counts")
    desk.press(*["ArrowLeft"] * 10)
    assert desk.data("moment") == 28
    assert desk.data("counts") != before
    assert (counted(desk), strip.moment) == (strip.counts(28), 38)
    desk.page.locator(".sl-kernel").wait_for()
    assert "Python does not answer" in desk.page.inner_text(".sl-kernel")
    desk.page.evaluate("window.kernelGone = false")
    desk.press("ArrowLeft")
    desk.page.locator(".sl-kernel").wait_for(state="hidden")
    assert strip.moment == 27


def test_a_scrub_is_announced_once(open_desk: OpenDesk) -> None:
    desk = open_desk(WindowStrip.of(moving(40, 1)))
    result = desk.page.locator(".sl-strip [aria-live]")
    desk.page.wait_for_function(
        "document.querySelector('.sl-strip [aria-live]').dataset.told === '1'"
    )
    desk.page.focus(".sl-strip input[type=range]")
    desk.press(*["ArrowLeft"] * 15)
    desk.page.wait_for_function(
        "document.querySelector('.sl-strip [aria-live]').dataset.told === '2'"
    )
    assert "03:02:48.000 UTC: Available" in result.inner_text()


@pytest.mark.exhaustive  # playing: `test_strip_read_again.py`
def test_playing_goes_to_the_end_and_stops(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(5, 1))
    desk = open_desk(strip)
    desk.page.get_by_role("button", name="Play").click()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.moment === '4'")
    desk.page.get_by_role("button", name="Play").wait_for()
    assert strip.moment == 4


def test_two_views_of_one_strip_stay_in_step_and_leave_nothing(open_desk: OpenDesk) -> None:
    desk = open_desk(WindowStrip.of(moving(10, 1)))
    alone = desk.listeners()
    desk.show_again()
    desk.page.locator(".sl-strip").nth(1).locator("input[type=range]").focus()
    desk.page.wait_for_function("document.querySelectorAll('.sl-strip[data-moment]').length === 2")
    desk.press("Home")
    assert (desk.data("moment", 0), desk.data("moment", 1), desk.listeners()) == (0, 0, 2 * alone)
    desk.stop_last()
    assert (desk.listeners(), desk.page.locator(".sl-strip").count()) == (alone, 1)
    for _ in range(20):
        desk.show_again()
        desk.stop_last()
    assert desk.listeners() == alone


def test_empty_and_unknown_are_words(open_desk: OpenDesk) -> None:
    unset: dict[str, Any] = {"start_offset": None, "effective_start_offset": None}
    unset |= {"window_end_offset": 0, "runs": []}
    empty = open_desk(WindowStrip.of(windows()))
    assert "the table has no rows" in empty.root().inner_text()
    assert empty.root().locator("canvas:visible").count() == 0
    unknown = WindowStrip.of(windows(window(**unset)))
    desk = open_desk(unknown)
    said = "The start offset is not known yet: the group has not fetched"
    assert said in desk.root().inner_text()
    expect(go_to(desk, "5")).to_have_text(
        "The start offset is not known yet, so there is no offset to go to."
    )
    assert unknown.cursor is None
    endless = open_desk(WindowStrip.of(windows(window(end_offset=None))))
    assert "log end not known" in endless.root().inner_text()
    desk.page.emulate_media(media="print")
    expect(desk.page.get_by_text("Go to offset")).to_be_hidden()


def test_what_is_picked_is_said_with_and_without_a_cursor(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = open_desk(strip)
    spot = desk.page.locator(".sl-spot")
    expect(spot).to_have_text("No offset chosen: use the arrow keys, or point at one.")
    for offsets, words in (((104, 104), "You picked 104."), ((104, 109), "You picked 104 to 109.")):
        strip.selection.offsets = offsets
        desk.settle()
        expect(spot).to_have_text(words)
        expect(desk.page.locator(PICTURE)).to_have_attribute("aria-valuetext", words)
    strip.cursor, strip.selection.offsets = 113.0, (104, 104)
    desk.settle()
    expect(spot).to_have_text(
        "Offset 113: Archived, delivery count 5; run 113 to 113 \u2014 picked 104"
    )


def test_after_a_failure_the_next_good_data_is_shown(open_desk: OpenDesk) -> None:
    strip, other = WindowStrip.of(moving(3, 1)), WindowStrip.of(windows(window()))
    desk = open_desk(strip)
    strip.data = b"not ours, whatever it is"
    desk.settle()
    words = "of another version of sharelag: restart the kernel and run the cell again"
    expect(desk.page.get_by_role("alert")).to_contain_text(words)
    expect(desk.page.locator(PICTURE)).to_be_hidden()
    strip.moment = 1  # nothing to show it in
    desk.settle()
    expect(desk.page.get_by_role("alert")).to_be_visible()
    strip.data = other.data
    desk.settle()
    expect(desk.page.get_by_role("alert")).to_have_count(0)
    expect(desk.page.locator(PICTURE)).to_be_visible()
    assert (counted(desk), desk.root().get_attribute("data-failed")) == (other.counts(), None)


@pytest.mark.exhaustive  # in each run: `test_after_a_failure_the_next_good_data_is_shown`
def test_after_a_message_that_cannot_be_painted_the_next_is(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(3, 1))
    desk = open_desk(strip)
    broken = (
        "value => { const model = Object.values(window.models)[0]; model.set('offsets', value); }"
    )
    desk.page.evaluate(broken, None)
    desk.settle()
    alert = desk.page.get_by_role("alert")
    expect(alert).to_contain_text("This view cannot be drawn")
    desk.page.evaluate(
        """() => { window.paints = 0; const all = CanvasRenderingContext2D.prototype, { clearRect } = all;
        all.clearRect = function (...box) { window.paints += 1; return clearRect.apply(this, box); }; }"""
    )
    desk.page.set_viewport_size({"width": 800, "height": 700})  # no reason to try again and again
    desk.settle()
    desk.settle()
    assert desk.page.evaluate("paints") == 0
    desk.page.evaluate(broken, [])
    desk.settle()
    expect(alert).to_have_count(0)
    assert counted(desk) == strip.counts()
    assert 300 < desk.page.eval_on_selector(PICTURE, "picture => picture.clientWidth") < 800


def test_a_history_is_numbers(open_desk: OpenDesk) -> None:
    rows = moving(2, 1).drop_columns(["runs"]).to_pandas()
    rows = rows.assign(window_available=5, window_complete=9)
    desk = open_desk(WindowStrip.of(rows))
    assert "In the window: available 5, complete 9" in desk.page.inner_text(".sl-told")
    assert "window" in counted(desk)
    assert json.dumps(desk.data("counts"))


def test_it_paints_when_it_is_seen_and_fits_any_width(open_desk: OpenDesk) -> None:
    desk = open_desk(WindowStrip.of(moving(10, 2)))
    desk.page.evaluate("""() => {
        window.kept = document.querySelector('main > div');
        window.kept.remove();
        window.kept.style.display = 'none';
        document.querySelector('main').append(window.kept); }""")
    desk.settle()
    desk.page.evaluate("window.kept.style.display = ''")
    desk.page.wait_for_function(f"document.querySelector('{PICTURE}').width > 500")
    assert counted(desk)
    for width in (1600, 700, 320):
        desk.page.set_viewport_size({"width": width, "height": 800})
        desk.settle()
        assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert desk.page.eval_on_selector(
            PICTURE, "picture => Math.abs(picture.width - picture.clientWidth) <= 1"
        )


@pytest.mark.parametrize("button", few_of(["left", "middle"], ["left"]))
def test_zoomed_in_the_mouse_moves_the_picture_along(button: Button, open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window(window_end_offset=10_100, end_offset=10_100)))
    desk = open_desk(strip)
    box = box_of(desk.page.locator(PICTURE))

    def drag(by: float, *keys: str) -> None:
        x, y = box["x"] + 400, box["y"] + 40
        desk.drag((x, y), (x + by, y), *keys, button=button)

    held = ["Shift"] if button == "left" else []
    drag(-200, *held)
    assert (strip.fit, desk.data("span")) == ("window", [100, 10_100])  # all is in sight
    desk.page.focus(PICTURE)
    strip.cursor = 5_100.0
    desk.settle()
    desk.press("+", "+")
    assert desk.data("span") == [3_850, 6_350]
    drag(-200, *held)
    each = 2_500 / box["width"]
    assert strip.span == pytest.approx([3_850 + 200 * each, 6_350 + 200 * each])
    assert desk.data("span") == strip.span
    drag(5_000, *held)
    drag(5_000, *held)
    assert strip.span == pytest.approx([100, 2_600])  # no further than there is something
    assert (strip.selection.offsets, strip.cursor) == (None, pytest.approx(100 + 400 * each, abs=1))
    if button == "left":
        drag(100)  # without shift it picks, as ever
        picked = (100 + int(400 * each), 100 + int(500 * each))
        assert (strip.selection.offsets, strip.span) == (picked, pytest.approx([100, 2_600]))


def test_what_is_held_stays_under_the_mouse_where_the_tail_gives_way(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = open_desk(strip)
    box = box_of(desk.page.locator(PICTURE))
    assert desk.data("tail") == 1000
    at = (box["width"] - 96) / 2  # offset 110, of 100 to 120
    x, y = box["x"] + at, box["y"] + 40
    desk.drag((x, y), (x - 300, y), "Shift")
    assert (strip.fit, desk.data("tail")) == ("fixed", 0)
    low, high = strip.span
    assert low + (at - 300) / box["width"] * (high - low) == pytest.approx(110)


@pytest.mark.exhaustive
def test_playing_has_a_speed(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(200, 1))
    desk = open_desk(strip)
    page, model = desk.page, "Object.values(window.models)[0]"
    speeds = page.get_by_role("group", name="Speed of playing").get_by_role("button")
    assert speeds.all_inner_texts() == [f"{times}\u00d7" for times in (1, 2, 5, 10)]
    page.focus(PICTURE)
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))
    found = {}
    for key in ("<", ">", ">", ">"):  # there is none below
        page.keyboard.press(key)
        page.evaluate(f"{model}.set('moment', 0)")
        page.keyboard.press("p")
        page.clock.run_for(1_200)
        page.keyboard.press("p")
        found[page.evaluate(f"{model}.get('speed')")] = page.evaluate(f"{model}.get('moment')")
    assert found == {1: 10, 2: 20, 5: 50, 10: 100}
    page.clock.run_for(1_000)
    told = [one.get_attribute("aria-pressed") for one in speeds.all()]
    assert told == ["false", "false", "false", "true"]
    page.keyboard.press("<")
    page.clock.run_for(1_000)
    expect(page.locator(".sl-strip [aria-live=polite]")).to_have_text("Speed of playing: 5 times")
    speeds.nth(1).click()
    page.clock.resume()
    desk.settle()
    assert strip.speed == 2
    expect(speeds.nth(1)).to_have_attribute("aria-pressed", "true")


class Shown(NamedTuple):
    """A part of the log, and how many CSS pixels it is wide."""

    first: float
    end: float
    width: float

    def x(self, offset: float) -> float:
        return (offset - self.first) / (self.end - self.first) * self.width


def width_of(desk: Desk) -> float:
    return float(desk.page.eval_on_selector(PICTURE, "one => one.clientWidth"))


def every_state(moments: int, seed: int = 5) -> list[dict[str, Any]]:
    """Windows of some ninety offsets that move on, with every state of Kafka's, and holes."""
    random, rows, start = Random(seed), [], 3_000
    for moment in range(moments):
        start += random.randrange(1, 9)
        head = at = start + random.choice([0, 3])
        runs = []
        while at < start + 80:
            length = random.randrange(1, 9)
            state = random.choice([None, *DeliveryState])
            if state is not None:
                runs.append(run(at, at + length - 1, int(state), random.randrange(1, 6)))
            at += length
        changes = {"start_offset": start, "effective_start_offset": head, "runs": runs}
        changes["window_end_offset"] = at
        rows.append(window(**changes, end_offset=at + 20 + moment))
    return rows


def kind_at(row: dict[str, Any], offset: int) -> str:
    """What the table says of an offset between start offset and log end."""
    if offset < row["effective_start_offset"]:
        return "finished"
    if offset >= row["window_end_offset"]:
        return "unread"
    runs = (one for one in row["runs"] if one["first_offset"] <= offset <= one["last_offset"])
    states = [one["delivery_state"] for one in runs]
    return DeliveryState(states[0]).name.lower() if states else "unknown"


def sample_offsets(row: dict[str, Any], first: int, end: int, random: Random) -> list[int]:
    """Offsets on both sides of where the kind changes, and some anywhere."""
    edges = [n for n in range(first + 1, end) if kind_at(row, n - 1) != kind_at(row, n)]
    chosen = [o for at in random.sample(edges, min(len(edges), SAMPLES // 3)) for o in (at - 1, at)]
    return chosen + random.choices(range(first, end), k=SAMPLES - len(chosen))


def find_kind(colours: list[list[int]]) -> str:
    """The kind whose colour a cell is filled with; its pattern covers only a part of it."""
    fills = {tuple(bytes.fromhex(look.fill["light"][1:])): name for name, look in LOOKS.items()}
    pixels: Counter[str] = Counter()
    for *colour, count in colours:
        pixels[fills.get(tuple(colour), "")] += count
    del pixels[""]
    return pixels.most_common(1)[0][0] if pixels else f"no kind: {colours[:3]}"


def assert_painted(desk: Desk, row: dict[str, Any], shown: Shown, random: Random) -> set[str]:
    """Twenty cells have the colours of their states, and the carets stand at the window's ends."""
    edge = 2 if shown.x(1) - shown.x(0) > 7 else 0.5  # there are lines between wide cells
    offsets = sample_offsets(row, int(shown.first), int(shown.end), random)
    boxes = [
        (shown.x(n) + edge, STATES[0] + 2, shown.x(n + 1) - edge, STATES[1] - 2) for n in offsets
    ]
    kinds = [kind_at(row, offset) for offset in offsets]
    found = [find_kind(colours) for colours in desk.page.evaluate(COLOURS, boxes)]
    assert dict(zip(offsets, found, strict=True)) == dict(zip(offsets, kinds, strict=True))
    marks = [
        n for n in (row["start_offset"], row["window_end_offset"]) if shown.first <= n <= shown.end
    ]
    at = [max(4, min(shown.width - 4, shown.x(offset))) for offset in marks]
    carets = desk.page.evaluate(COLOURS, [(x - 1, CARETS, x + 1, CARETS + 1) for x in at])
    assert all(tuple(colours[0][:3]) == INK for colours in carets), (marks, carets)
    return set(kinds)


@pytest.mark.parametrize("scale", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_each_offset_has_the_colour_of_its_state(scale: int, open_desk: OpenDesk) -> None:
    rows, random = every_state(60), Random(11)
    strip = WindowStrip.of(windows(*rows))
    desk = open_desk(strip, device_scale_factor=scale)
    desk.page.set_viewport_size({"width": 1300, "height": 700})
    wide = width_of(desk)
    seen: set[str] = set()
    for moment in (0, 59, *random.sample(range(1, 59), 3)):
        row = rows[moment]
        start, window_end, end = row["start_offset"], row["window_end_offset"], row["end_offset"]
        strip.moment = moment
        for fit, shown in {
            "window": Shown(start, window_end, wide - STUB),
            "fixed": Shown(window_end - 12, window_end + 12, wide),
        }.items():
            strip.span = [shown.first, shown.end] if fit == "fixed" else []
            strip.fit = fit
            desk.settle()
            assert (desk.data("moment"), desk.data("span")) == (moment, [shown.first, shown.end])
            seen |= assert_painted(desk, row, shown, random)
        counts = Counter(kind_at(row, offset) for offset in range(start, end))
        assert {
            name: count for name, count in zip(KINDS, desk.data("counts"), strict=True) if count
        } == counts
        result = desk.page.inner_text(".sl-told")
        assert f"SPSO {start}, SPEO {window_end}, log end {end}." in result
    assert seen == {*KINDS} - {"other", "window"}


def is_last(row: dict[str, Any], offset: int, limit: int) -> bool:
    """What the table says of an offset's next delivery."""
    return any(
        one["first_offset"] <= offset <= one["last_offset"]
        and one["delivery_state"] == DeliveryState.AVAILABLE
        and one["delivery_count"] >= limit - 1
        for one in row["runs"]
    )


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def test_only_offsets_on_their_last_delivery_are_marked(theme: Theme, open_desk: OpenDesk) -> None:
    rows, limit = every_state(3), 5
    strip = WindowStrip.of(windows(*rows), limit=limit)
    paper = "background: #fff" if theme == "light" else "background: #111; color: #eee"
    desk = open_desk(strip, paper=paper)
    colour = tuple(bytes.fromhex(LAST.fill[theme][1:]))
    wide = width_of(desk)
    row = rows[-1]
    start, end = row["start_offset"], row["window_end_offset"]
    marked = [offset for offset in range(start, end) if is_last(row, offset, limit)]
    assert 0 < len(marked) < end - start
    seen = Shown(start, end, wide - STUB)
    boxes = [
        (seen.x(n) + 2, STATES[1] - 8, seen.x(n + 1) - 2, STATES[1] - 2) for n in range(start, end)
    ]
    found = [
        o
        for o, colours in zip(range(start, end), desk.page.evaluate(COLOURS, boxes), strict=True)
        if any(tuple(pixel[:3]) == colour for pixel in colours)
    ]
    assert found == marked
    entry = desk.page.locator('.sl-legend [data-kind="last"]')
    assert entry.inner_text().split() == [*LAST.words.split(), str(len(marked))]
    strip.limit = None
    desk.settle()
    assert entry.count() == 0


@pytest.mark.exhaustive
def test_one_of_thousands_on_its_last_delivery_is_still_marked(open_desk: OpenDesk) -> None:
    runs = [run(103, 20_000, 2), run(20_001, 20_001, 0, 4), run(20_002, 39_999, 2)]
    row = window(runs=runs, window_end_offset=40_000, end_offset=40_000)
    desk = open_desk(WindowStrip.of(windows(row), limit=5))
    colour = tuple(bytes.fromhex(LAST.fill["light"][1:]))
    wide = width_of(desk)
    at = Shown(100, 40_000, wide).x(20_001)
    at_it = (at - 3, STATES[1] - 7, at + 3, STATES[1] - 2)
    near, far = desk.page.evaluate(COLOURS, [at_it, (2, STATES[1] - 7, 90, STATES[1] - 2)])
    assert colour in {tuple(pixel[:3]) for pixel in near}
    assert colour not in {tuple(pixel[:3]) for pixel in far}


@pytest.mark.parametrize("done", [pytest.param(600, marks=pytest.mark.exhaustive), 6_000])
def test_a_lone_offset_with_lag_is_seen_among_thousands(done: int, open_desk: OpenDesk) -> None:
    """One record given back, all after it finished: less than a pixel would be its true width."""
    runs = [run(100, 100, 0, 3), run(101, 100 + done, 2, 1)]
    row = {"start_offset": 100, "effective_start_offset": 100, "runs": runs}
    row["window_end_offset"] = 101 + done
    strip = WindowStrip.of(windows(window(**row, end_offset=101 + done)))
    desk = open_desk(strip)
    desk.page.set_viewport_size({"width": 700, "height": 700})
    head, rest = desk.page.evaluate(
        COLOURS, [(1, STATES[0] + 2, 3.5, STATES[1] - 2), (8, STATES[0] + 2, 60, STATES[1] - 2)]
    )
    assert (find_kind(head), find_kind(rest)) == ("available", "acknowledged")
