"""The demo agrees with Kafka, on the terminal and on a page that opens without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from sharelag.cli.demo import CAPTURE
from sharelag.schemas import LAG, ROLLUP
from sharelag.tables.reasons import NOTES, REASONS
from sharelag.workbench.page import lag_page
from tests.support.browser.offline import OfflinePage
from tests.support.command import sharelag
from tests.support.kafka.describe import parse_describe

HOSTILE = "<img src=x onerror=alert(1)>\u202e🦜" + "x" * 200


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The demo as `make demo` runs it, on Spark: what it printed, and its page."""
    out = tmp_path_factory.mktemp("demo")
    done = sharelag("demo", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return done.stdout, out / "lag.html"


def recorded() -> list[tuple[str, ...]]:
    """Kafka's own words at the moment of the recording, sorted as we sort."""
    lines = (CAPTURE / "expected" / "describe.txt").read_text().splitlines()
    rows = [tuple(line.split()) for line in lines if line and not line.startswith("GROUP")]
    assert len(rows) == len(parse_describe("\n".join(lines))) >= 24
    return sorted(rows, key=lambda row: (row[0], row[1], int(row[2])))


def test_the_demo_prints_what_kafka_printed_row_for_row(demo: tuple[str, Path]) -> None:
    heading, *lines = demo[0].split("\n\n")[0].splitlines()
    assert heading.split()[:6] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "START-OFFSET",
        "LAG",
    ]
    assert [tuple(line.split()[:6]) for line in lines] == recorded()


def test_the_page_says_the_same_with_the_network_off(
    demo: tuple[str, Path], browser: Browser
) -> None:
    seen = OfflinePage(browser, demo[1])
    rows = [(*row[:5], row[6]) for row in seen.table("lag")]
    assert rows == recorded()
    assert (seen.requests, seen.complaints) == ([demo[1].as_uri()], [])
    assert seen.page.title() == "Share-partition lag of a recorded cluster"
    assert "as of" in seen.page.inner_text("dl.facts")
    totals = {row[0]: row[2] for row in seen.table("groups")}
    assert totals["shipping"] == str(sum(int(row[5]) for row in recorded() if row[0] == "shipping"))


def lag_row(**changes: Any) -> dict[str, Any]:
    known = {
        "group_id": "g",
        "topic": "t",
        "topic_id": "A" * 22,
        "partition": 0,
        "start_offset": 100,
        "notes": [],
    }
    return (
        dict.fromkeys(LAG.names) | known | {"end_offset": 1000, "lag": 900, "unread": 900} | changes
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    rows = [
        lag_row(
            group_id=HOSTILE,
            topic=HOSTILE,
            window_available=100,
            window_complete=5,
            notes=list(NOTES),
        ),
        lag_row(lag=None, unread=None, start_offset=None, lag_reason="no_start_offset", topic=None),
        lag_row(lag=1_234_567, unread=0, window_unknown=300),
    ]
    group = dict.fromkeys(ROLLUP.names) | {"group_id": HOSTILE, "partitions": 3, "unknown_lags": 1}
    page = tmp_path / "lag.html"
    page.write_text(lag_page(HOSTILE, rows, [group], {HOSTILE: HOSTILE}), encoding="utf-8")
    return page


def test_hostile_names_are_text(hostile: Path, browser: Browser) -> None:
    seen = OfflinePage(browser, hostile)
    assert seen.table("lag")[0][:2] == [HOSTILE, HOSTILE]
    assert seen.page.locator("img").count() == 0
    assert (seen.requests, seen.complaints) == ([hostile.as_uri()], [])


def test_what_is_unknown_is_a_dash_with_its_reason(hostile: Path, browser: Browser) -> None:
    first, unknown, large = OfflinePage(browser, hostile).table("lag")
    assert all(sentence in first[7] for sentence in NOTES.values())
    assert (unknown[1], unknown[4], unknown[6]) == ("A" * 22, "-", "-")
    assert unknown[7] == REASONS["no_start_offset"]
    assert large[6] == "1234567"


def test_bars_are_to_scale_and_say_what_they_show(hostile: Path, browser: Browser) -> None:
    seen = OfflinePage(browser, hostile)
    bars = seen.page.eval_on_selector_all(
        ".bar",
        "bars => bars.map(bar => [bar.getAttribute('aria-label'), bar.clientWidth, bar.children[0].offsetWidth])",
    )
    assert [bar[0] for bar in bars] == ["unread 900, available 100, complete 5", "unknown 300"]
    (_, width, whole), (_, _, third) = bars
    assert whole == pytest.approx(width * 900 / 1005, abs=2)
    assert third == pytest.approx(width * 300 / 1005, abs=2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_themes(scheme: str, hostile: Path, browser: Browser) -> None:
    page = OfflinePage(browser, hostile, color_scheme=scheme).page
    luminance = """c => { const [r, g, b] = c.match(/\\d+/g).map(v => { v /= 255;
        return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126*r + .7152*g + .0722*b; }"""
    contrast = f"""() => {{ const l = {luminance}; const paper = l(getComputedStyle(document.body).backgroundColor);
        return ['td.n', 'thead th', '.details', 'caption', 'dt', 'ul.key span'].map(s => {{
            const ink = l(getComputedStyle(document.querySelector(s)).color);
            return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05); }}); }}"""
    ratios = page.evaluate(contrast)
    assert min(ratios) >= 4.5, ratios
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
