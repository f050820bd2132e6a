"""Legend colours, or else their patterns, differ for every kind of colour vision."""

import io
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from sharelag_widgets import PartitionGrid, WindowStrip
from tests.support.browser.desk import Desk, OpenDesk
from tests.support.widgets.samples import lag, moving, run, window, windows

PAPERS = {"light": "background: #fff", "dark": "background: #111; color: #eee"}
DEFICIENCIES = ("none", "protanopia", "deuteranopia", "tritanopia", "achromatopsia")
#: Difference of two colours (CIE76) from which on they differ at a glance.
APART = 20
#: How much of a swatch is ink in one of two patterns, and not in the other.
OTHER_PATTERN = 0.05
DELIVERY_STATES = ("available", "acquired", "acknowledged", "archived")
_TO_LAB = ImageCms.buildTransform(
    ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
)
# Swatches without their borders: the view, the name in the legend, left, top, right, bottom.
SWATCHES = """() => [...document.querySelectorAll('.sl-swatch')].map(one => { const box = one.getBoundingClientRect();
    const [item, views] = [one.closest('li'), [...document.querySelectorAll('.sl')]];
    const edges = [box.left + scrollX + 1, box.top + scrollY + 1, box.right + scrollX - 1, box.bottom + scrollY - 1];
    return [views.indexOf(one.closest('.sl')), item.dataset.kind ?? item.innerText, ...edges.map(Math.round)]; })"""


class Seen(NamedTuple):
    """A swatch as seen: the ground's colour as L*, a*, b*, and each pixel's ink from 0 to 1."""

    ground: NDArray[np.float64]
    ink: NDArray[np.float64]


def views() -> list[Any]:
    """Every kind of offsets, steps of a number with some unknown, and verdicts."""
    runs = [run(103 + n, 103 + n, state) for n, state in enumerate((0, 1, 2, 3, 4, 5, 99))]
    history = moving(2, 1).drop_columns(["runs"])
    table = lag(60)
    return [
        WindowStrip.of(windows(window(runs=runs)), limit=2),
        WindowStrip.of(history),
        PartitionGrid.of(table, title="Lag"),
        PartitionGrid.of(table, measures=["verdict"], title="Verdicts"),
    ]


def seen(desk: Desk, deficiency: str) -> list[dict[str, Seen]]:
    """The swatches of every view's legend with that colour vision, by what stands beside them."""
    session = desk.context.new_cdp_session(desk.page)
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": deficiency})
    desk.settle()
    picture = Image.open(io.BytesIO(desk.page.screenshot(full_page=True))).convert("RGB")
    found: list[dict[str, Seen]] = [{} for _ in desk.views]
    for number, name, *box in desk.page.evaluate(SWATCHES):
        part = ImageCms.applyTransform(picture.crop(box), _TO_LAB)
        stored = np.asarray(part, np.uint8).reshape(-1, 3)
        colours, counts = np.unique(stored, axis=0, return_counts=True)
        ground = lab_of(colours[counts.argmax()])
        away = np.linalg.norm(lab_of(stored) - ground, axis=-1)
        found[number][name] = Seen(ground, away / max(away.max(), APART))
    return found


def lab_of(stored: NDArray[np.uint8]) -> NDArray[np.float64]:
    """L* lies in a byte from 0 to 255 for 0 to 100, the others with a sign."""
    ground, ink = stored[..., :1] * (100 / 255), stored[..., 1:].astype(np.uint8).view(np.int8)
    return np.concatenate([ground, ink], axis=-1, dtype=np.float64)


def difference(one: Seen, other: Seen) -> float:
    return float(np.linalg.norm(one.ground - other.ground))


def alike(one: Seen, other: Seen) -> bool:
    """Neither colour nor pattern distinguishes them."""
    return (
        difference(one, other) < APART and float(np.abs(one.ink - other.ink).mean()) < OTHER_PATTERN
    )


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def test_no_two_colours_of_a_legend_look_the_same(theme: str, open_desk: OpenDesk) -> None:
    desk = open_desk(*views(), paper=PAPERS[theme])
    for deficiency in DEFICIENCIES:
        legends = seen(desk, deficiency)
        assert [len(legend) for legend in legends] == [11, 6, 8, 3]
        grounds = np.array([swatch.ground for legend in legends for swatch in legend.values()])
        is_grey = np.abs(grounds[:, 1:]).max() < 4
        assert is_grey == (deficiency == "achromatopsia")  # it is in force
        pairs = [pair for legend in legends for pair in combinations(legend.items(), 2)]
        assert [(one, other, deficiency) for (one, a), (other, b) in pairs if alike(a, b)] == []
        if deficiency != "achromatopsia":  # these differ by colour alone
            states = combinations([legends[0][name] for name in DELIVERY_STATES], 2)
            assert min(difference(one, other) for one, other in states) >= APART
