"""What the strip paints is true: each offset at its place, in the colour of its state."""

from collections import Counter
from random import Random
from typing import Any, NamedTuple

import pytest

from sharelag.charts.palette import KINDS as LOOKS
from sharelag.charts.palette import LAST, Theme
from sharelag.model import DeliveryState
from sharelag_widgets import WindowStrip
from sharelag_widgets.window_strip import KINDS
from tests.support.browser.desk import Desk, OpenDesk
from tests.support.browser.strip_page import PICTURE
from tests.support.widgets.samples import run, window, windows

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


def sampled(row: dict[str, Any], first: int, end: int, random: Random) -> list[int]:
    """Offsets on both sides of where the kind changes, and some anywhere."""
    edges = [n for n in range(first + 1, end) if kind_at(row, n - 1) != kind_at(row, n)]
    chosen = [o for at in random.sample(edges, min(len(edges), SAMPLES // 3)) for o in (at - 1, at)]
    return chosen + random.choices(range(first, end), k=SAMPLES - len(chosen))


def painted(colours: list[list[int]]) -> str:
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
    offsets = sampled(row, int(shown.first), int(shown.end), random)
    boxes = [
        (shown.x(n) + edge, STATES[0] + 2, shown.x(n + 1) - edge, STATES[1] - 2) for n in offsets
    ]
    kinds = [kind_at(row, offset) for offset in offsets]
    found = [painted(colours) for colours in desk.page.evaluate(COLOURS, boxes)]
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
    assert (painted(head), painted(rest)) == ("available", "acknowledged")
