"""Charts draw what the tables say, mark what is unknown, and take every name as text."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag import schemas
from sharelag.errors import InputError, SetupError
from sharelag.metrics.explain import explain
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import DRAINED, DRAINS, NEVER, NOBODY, STALLED, UNKNOWN
from sharelag.workbench import charts
from sharelag.workbench.charts import palette, text
from tests.support.charts import (
    ARABIC,
    CAUSES,
    FIGURES,
    HOSTILE,
    LONG,
    NOW,
    ROOT,
    THEMES,
    TOPIC_ID,
    evidence,
    health,
    history,
    moments,
    records,
    renamed,
    timeline,
)

WIDGETS = ROOT / "widgets" / "sharelag_widgets" / "shared"


# ---- what there is to draw -----------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """Every text in a figure that plotly may read as HTML: not the plain one for screen readers."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (one for name, part in value.items() if name != "meta" for one in strings(part))
    elif isinstance(value, list | tuple | np.ndarray):
        yield from (one for part in value for one in strings(part))


def drawn_numbers(figure: Any, axis: str) -> list[Any]:
    return [
        value
        for trace in figure.data
        for value in (getattr(trace, axis) if trace[axis] is not None else ())
    ]


# ---- colours and words ---------------------------------------------------------------------------


def test_colours_and_patterns_are_those_of_the_widgets() -> None:
    source = (WIDGETS / "palette.js").read_text()
    names = re.findall(
        r'\{ name: "(\w+)", words: "([^"]+)", pattern: "\w+", means: "([^"]+)"', source
    )
    assert names == [(name, kind.words, kind.means) for name, kind in palette.KINDS.items()]
    fills, ladders = (
        re.search(rf"const {name} = \{{(.*?)\n\}};", source, re.DOTALL)[1]  # type: ignore[index]
        for name in ("FILLS", "LADDERS")
    )
    for theme, line in zip(THEMES, fills.strip().splitlines(), strict=True):
        assert re.findall("#[0-9A-F]{6}", line) == [
            kind.fill[theme] for kind in palette.KINDS.values()
        ]
    for theme, line in zip(THEMES, ladders.strip().splitlines(), strict=True):
        assert tuple(re.findall("#[0-9A-F]{6}", line)) == palette.LADDERS[theme]


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_lines_are_readable_on_their_paper(theme: palette.Theme) -> None:
    def contrast(colour: str) -> float:
        ends = sorted(map(palette.luminance, (colour, palette.PAPER[theme]["paper"])))
        return (ends[1] + 0.05) / (ends[0] + 0.05)

    assert min(contrast(palette.PAPER[theme][name]) for name in ("ink", "soft")) >= 4.5
    lines = [palette.line(n, theme) for n in range(palette.MOST_LINES)]
    assert min(contrast(line["line"]["color"]) for line in lines) >= 3
    assert (
        len({line["line"]["dash"] for line in lines})
        == len({line["marker"]["symbol"] for line in lines})
        == 6
    )


@pytest.mark.parametrize("theme", THEMES)
def test_no_two_states_that_touch_differ_by_colour_alone(theme: palette.Theme) -> None:
    touching = ("available", "acquired", "acknowledged", "archived", "unknown", "unread")
    looks = [palette.marker(palette.KINDS[name], theme)["pattern"] for name in touching]
    for one, other in combinations(looks, 2):
        assert (one["shape"], one["size"]) != (other["shape"], other["size"])


def test_names_cannot_act() -> None:
    shown = text.escaped(text.name(HOSTILE, None))
    assert "<" not in shown
    assert "%{" not in shown
    assert "$" not in shown
    assert shown.startswith("&lt;img src=x onerror=alert(1)&gt;&lt;b&gt;bold&lt;/b&gt;&amp;lt; ")
    assert shown.endswith("\\u202e🦜")
    assert text.name("a\nb\x00") == "a\\nb\\x00"
    assert text.name(ARABIC) == f"\u2068{ARABIC}\u2069"
    assert text.name("👩‍👩‍👧") == "👩‍👩‍👧"
    short = text.name("a" + LONG + "z")
    assert len(short) == text.LABEL
    assert (short[0], short[-1], "…" in short) == ("a", "z", True)


def test_numbers_and_lists_read_well() -> None:
    assert [text.number(value) for value in (None, float("nan"), 0, 1234567, 2.5)] == [
        "not known", "not known", "0", "1\u202f234\u202f567", "2.5",
    ]  # fmt: skip
    assert (
        text.counted(1, "delivery", "deliveries") + text.counted(2, "delivery", "deliveries")
        == "1 delivery2 deliveries"
    )
    assert [text.percent(part, 1000) for part in (1, 500, 999, 1000)] == [
        "under 1%",
        "50%",
        "over 99%",
        "100%",
    ]
    assert text.listed("abcde") == "a, b, c and 2 more"


def test_importing_the_charts_does_not_import_plotly() -> None:
    code = "import sys, sharelag.workbench.charts; print('plotly' in sys.modules, 'pyspark' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert answer.stdout == "False False\n"


def test_without_plotly_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(SetupError, match="pip install 'sharelag\\[notebook\\]'"):
        charts.decomposition_figure(charts.decomposition_records(evidence("healthy").lag))


# ---- every figure --------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_its_finding_and_as_of_when(name: str, theme: palette.Theme) -> None:
    table = records("hot_partition")[name]
    figure = FIGURES[name](table, theme)
    title, (facts, unknown, *_) = figure.layout.meta["title"], figure.layout.meta["facts"]
    assert len(title) > 20
    assert re.match(r"As of 2026-11-21 (08:2[134]:\d\d|03:10:00) UTC\. .{20}", facts)
    assert re.match(r"Not known: |Nothing is unknown\.", unknown)
    shown = re.sub("<.?b>", "", figure.layout.title.text).replace("<br>", " ")
    assert shown == text.escaped(title)
    assert figure.layout.title.subtitle.text.replace("<br>", " ").startswith(facts)
    assert figure.layout.template.layout.paper_bgcolor == palette.PAPER[theme]["paper"]
    for trace in figure.data:
        told = trace.text if trace.type == "heatmap" else trace.hovertext
        assert trace.hoverinfo == "skip" or told is not None


@pytest.mark.parametrize("name", FIGURES)
def test_names_are_text_in_every_figure(name: str) -> None:
    table = renamed(records("hot_partition")[name], HOSTILE)
    plain = FIGURES[name](table).to_plotly_json()
    for trace in plain["data"]:
        trace.pop("customdata", None)  # keys for views, which are shown nowhere
    texts = list(strings(plain))
    assert any("&lt;img" in one for one in texts)
    for one in texts:
        for line in re.split("<br>|<br />", one):
            assert "<" not in re.sub("^<b>|</b>$", "", line), (
                one
            )  # our titles are bold, line by line
        assert "%{" not in one
        assert "$" not in one


@pytest.mark.parametrize("name", FIGURES)
def test_an_empty_table_makes_a_figure_that_says_so(name: str) -> None:
    figure = FIGURES[name](records("hot_partition")[name].slice(0, 0))
    assert not figure.data
    assert len(figure.layout.annotations[0].text) > 10


def test_a_theme_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="unknown theme 'sepia': choose one of light, dark"):
        charts.drain_figure(records("hot_partition")["drain"], "sepia")  # type: ignore[arg-type]


# ---- lag and age over time -----------------------------------------------------------------------


def moment_row(second: int, head: int | None, end: int | None, **more: Any) -> dict[str, Any]:
    known = {
        "group_id": "g",
        "topic": "t",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "as_of": NOW + timedelta(seconds=second),
    }
    lag = None if head is None or end is None else end - head
    offsets = {
        "start_offset": head,
        "effective_start_offset": head,
        "end_offset": end,
        "delivery_complete_count": 0,
    }
    return dict.fromkeys(schemas.TIMELINE.names) | known | offsets | {"lag": lag} | more


def test_age_is_when_the_end_passed_the_oldest_unfinished_offset() -> None:
    table = pa.Table.from_pylist(
        [
            moment_row(0, 50, 100),
            moment_row(10, 100, 200),
            moment_row(20, 150, 200),
            moment_row(30, 200, 200),
            moment_row(40, None, 300, lag_reason="no_start_offset"),
        ],
        schema=schemas.TIMELINE,
    )
    made = charts.lag_over_time_records(table).to_pylist()
    assert [row["lag"] for row in made] == [50, 100, 50, 0, None]
    # 50 was there before the first moment; 100 came at 0 s, 150 half way between 0 s and 10 s.
    assert [row["age_ms"] for row in made] == [None, 10_000, 15_000, 0, None]
    assert [row["age_at_least_ms"] for row in made] == [0, None, None, None, None]
    figure = charts.lag_over_time_figure(charts.lag_over_time_records(table))
    assert list(figure.data[0].y) == [50, 100, 50, 0, None]
    assert list(figure.data[1].y) == [None, 10, 15, 0, None]
    assert (
        "1 lag of 5: shaded; 1 age: a gap; 1 age older than the first"
        in figure.layout.meta["facts"][1]
    )
    assert figure.layout.meta["title"] == (
        "g: no lag was left at 2026-11-21 03:10:30 UTC; the most was 100 offsets, t-0 at 2026-11-21 03:10:10 UTC"
    )
    assert (
        figure.data[0]
        .hovertext[4]
        .endswith(
            "lag not known: no record was fetched yet, so the start offset is unknown"
            "<br>age not known"
        )
    )


def test_lines_step_between_known_ends_and_are_shaded_where_nothing_is_known() -> None:
    """That the end was asked every second moment only is no gap; what is missing is one."""
    asked = {"lag_reason": "no_end_offset_then"}
    rows = [
        moment_row(0, 50, 100),
        moment_row(10, 60, None, **asked),
        moment_row(20, 60, 200),
        moment_row(30, 70, 250, lag=None, lag_reason="records_missing"),
        moment_row(40, 70, 260, lag=None, lag_reason="records_missing"),
        moment_row(50, 90, 300),
        moment_row(60, 90, None, **asked),  # nothing is known after it
    ]
    table = pa.Table.from_pylist(rows, schema=schemas.TIMELINE)
    figure = charts.lag_over_time_figure(charts.lag_over_time_records(table))
    assert list(figure.data[0].y) == [50, 140, None, None, 210, None]
    assert figure.data[0].line.shape == "hv"
    shaded = [(one.x0[11:19], one.x1[11:19]) for one in figure.layout.shapes]
    assert shaded == [("03:10:20", "03:10:50"), ("03:10:50", "03:11:00")]
    assert figure.layout.meta["facts"][1].startswith("Not known: 3 lags of 6: shaded;")
    found = charts.rates_over_time_records(table).to_pylist()
    assert (found[0]["arrived"], found[0]["finished"]) == (100, 10)
    whole = charts.lag_over_time_records(timeline("window_full"))
    figure = charts.lag_over_time_figure(whole)
    assert None not in figure.data[0].y
    assert not figure.layout.shapes
    assert "shaded" not in figure.layout.meta["facts"][1]


def test_no_lag_is_not_reported_as_the_most_lag() -> None:
    table = pa.Table.from_pylist(
        [moment_row(0, 5, 5), moment_row(1, 9, 9)], schema=schemas.TIMELINE
    )
    figure = charts.lag_over_time_figure(charts.lag_over_time_records(table))
    assert figure.layout.meta["title"] == "g: no lag at any of the moments at which it is known"


def test_lines_are_the_worst_of_each_group_by_their_lag_now() -> None:
    def lags(group: str, partition: int, *lags: int | None) -> list[dict[str, Any]]:
        rows = [
            moment_row(second, 0, lag, lag=lag, group_id=group) for second, lag in enumerate(lags)
        ]
        return [row | {"partition": partition} for row in rows]

    rows = (
        lags("a", 0, 900, 900, 500)
        + lags("a", 1, 5, 5, 600)
        + lags("b", 0, 1, 2, 3)
        + lags("b", 1, 99, 9, None)
    )
    rows += lags("gone", 0, 7777, 7777) + lags("dark", 0, None, None, None)
    table = charts.lag_over_time_records(pa.Table.from_pylist(rows, schema=schemas.TIMELINE))
    figure = charts.lag_over_time_figure(table, most=2)
    assert [trace.name for trace in figure.data[::3]] == ["a: t-1", "b: t-1"]
    assert list(figure.data[3].y) == [99, 9, None]
    assert (
        figure.layout.meta["title"]
        == "a: t-1 has the most lag, 600 offsets, 595 more than 2\u00a0s before"
    )
    assert (
        "Not drawn: 4 share partitions with less lag than another of their group, or of groups with less; "
        "2 of them are gone or without a known lag at the last moment."
        in figure.layout.meta["facts"]
    )
    names = [trace.name for trace in charts.lag_over_time_figure(table, most=4).data[::3]]
    assert names == ["a: t-1", "a: t-0", "b: t-1", "b: t-0"]


def test_lines_are_those_with_the_most_lag() -> None:
    table = charts.lag_over_time_records(timeline("hot_partition"))
    figure = charts.lag_over_time_figure(table, most=2)
    assert len(figure.data) == 6
    assert figure.data[0].name == "hot-partition-orders-3"
    known = [one for one in figure.data[0].y if one is not None]
    assert (
        known[-1]
        == pc.max(evidence("hot_partition").lag.column("lag")).as_py()
        == pytest.approx(702, abs=50)
    )
    assert "Not drawn: 4 share partitions with less lag." in figure.layout.meta["facts"]


# ---- decomposition -------------------------------------------------------------------------------


def test_parts_add_up_to_the_distance() -> None:
    lag = evidence("demo").lag
    parts = charts.decomposition_records(lag).column("offsets").to_pylist()
    for n, row in enumerate(lag.to_pylist()):
        mine = parts[4 * n : 4 * n + 4]
        if row["start_offset"] is None:
            assert mine == [None] * 4
        else:
            assert sum(mine) == row["end_offset"] - row["start_offset"]


@pytest.mark.parametrize("by", ["group", "topic"])
def test_sums_are_those_of_the_roll_up(by: str) -> None:
    lag = evidence("demo").lag
    table = charts.decomposition_records(lag, by)
    rolled = rollup_arrow(lag, by).to_pylist()
    unread = table.filter(pc.equal(table.column("part"), "unread")).to_pylist()
    assert [
        (row["group_id"], row["topic"], row["offsets"], row["unknown_lags"]) for row in unread
    ] == [(row["group_id"], row["topic"], row["unread"], row["unknown_lags"]) for row in rolled]
    figure = charts.decomposition_figure(table)
    assert len(figure.layout.yaxis.ticktext) == len(rolled)
    assert ("billing" in figure.layout.yaxis.ticktext) == (by == "group")
    assert (
        "Not known: the lag of 5 share partitions; marked with ?, never counted as 0."
        in figure.layout.meta["facts"]
    )
    assert len([note for note in figure.layout.annotations if note.text.startswith("?")]) == sum(
        row["lag"] is None and row["unread"] is None for row in rolled
    )


def test_of_ten_thousand_share_partitions_the_largest_are_drawn() -> None:
    one = dict.fromkeys(schemas.LAG.names) | {
        "group_id": "g",
        "topic": "t",
        "topic_id": TOPIC_ID,
        "as_of": NOW,
        "notes": [],
    }
    rows = [
        one
        | {
            "partition": n,
            "lag": n,
            "unread": n,
            "window_available": 0,
            "window_unknown": 0,
            "window_complete": 0,
        }
        for n in range(10_000)
    ]
    figure = charts.decomposition_figure(
        charts.decomposition_records(pa.Table.from_pylist(rows, schema=schemas.LAG))
    )
    assert list(figure.layout.yaxis.ticktext[:2]) == ["t-9999", "t-9998"]
    assert list(figure.data[0].x[:2]) == [9999, 9998]
    assert len(figure.layout.yaxis.ticktext) == 30
    assert "Not drawn: 9\u202f970 bars with less lag." in figure.layout.meta["facts"]
    assert "49\u202f995\u202f000 offsets of lag, 100% of it unread" in figure.layout.meta["title"]


def test_names_that_look_the_same_when_short_keep_their_own_rows() -> None:
    one = dict.fromkeys(schemas.LAG.names) | {
        "group_id": "g",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "as_of": NOW,
        "notes": [],
    }
    rows = [
        one
        | {"topic": "a" * 60 + middle + "a" * 60, "topic_id": middle * 22, "lag": 1, "unread": 1}
        for middle in "bc"
    ]
    figure = charts.decomposition_figure(
        charts.decomposition_records(pa.Table.from_pylist(rows, schema=schemas.LAG))
    )
    assert list(figure.data[0].y) == [0, 1]
    assert figure.layout.yaxis.ticktext[0] == figure.layout.yaxis.ticktext[1]
    assert "b" in figure.data[0].hovertext[0].replace("<br>", "")


# ---- windows -------------------------------------------------------------------------------------


def test_heat_ends_with_the_windows_as_they_are_now() -> None:
    table = charts.window_heat_records(history("poison"), "deliveries")
    last = {(row["topic_id"], row["partition"]): row["value"] for row in table.to_pylist()}
    observed = {
        (r["topic_id"], r["partition"]): r["max_delivery_count"]
        for r in evidence("poison").observed.to_pylist()
    }
    assert last == observed
    assert max(last.values()) == 4
    spans = charts.window_heat_records(history("demo"))
    known = {
        (r["group_id"], r["topic_id"], r["partition"]): r for r in evidence("demo").lag.to_pylist()
    }
    now = {(row["group_id"], row["topic_id"], row["partition"]): row for row in spans.to_pylist()}
    for place, row in known.items():
        if row["start_offset"] is None:
            assert now[place]["value"] is None
        else:
            assert now[place]["value"] == row["window_available"] + row["window_unknown"] + max(
                row["window_complete"] - (row["effective_start_offset"] - row["start_offset"]), 0
            )


def test_heat_is_not_known_before_the_first_record_and_after_a_tombstone() -> None:
    table = charts.window_heat_records(history("demo"))
    trial = table.filter(
        pc.and_(pc.equal(table.column("group_id"), "trial"), pc.equal(table.column("partition"), 0))
    )
    known = trial.slice(0, 120).column("value").is_valid().to_pylist()
    assert (known[0], any(known), known[-1]) == (False, True, False)
    figure = charts.window_heat_figure(table)
    heat, gaps = figure.data
    unknown = sum(value is None for line in heat.z for value in line)
    width = sum(gaps.x) / unknown
    step = (
        (
            pc.max(table.column("as_of")).as_py() - pc.min(table.column("begin")).as_py()
        ).total_seconds()
        * 1000
        / 120
    )
    assert width == pytest.approx(step, rel=0.01)
    assert gaps.marker.pattern.shape == "\\"
    assert "Not known: the hatched stretches" in figure.layout.meta["facts"][1]
    now = pc.max(table.column("as_of")).as_py() + timedelta(seconds=30)
    later = charts.window_heat_records(history("demo"), as_of=now)
    assert (
        charts.window_heat_figure(later)
        .layout.meta["facts"][0]
        .startswith(f"As of {text.moment(now)}. ")
    )
    last = slice(119, None, 120)
    assert later.column("value").to_pylist()[last] == table.column("value").to_pylist()[last]
    with pytest.raises(InputError, match="unknown measure 'width'"):
        charts.window_heat_records(history("demo"), "width")


def window_row(**changes: Any) -> dict[str, Any]:
    known = {
        "group_id": "g",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "record_timestamp": NOW,
        "runs": [],
    }
    return dict.fromkeys(schemas.WINDOWS.names) | known | changes


def run(first: int, last: int, state: int, count: int) -> dict[str, int]:
    return {
        "first_offset": first,
        "last_offset": last,
        "delivery_state": state,
        "delivery_count": count,
    }


WINDOW_TABLE = pa.Table.from_pylist(
    [
        window_row(
            effective_start_offset=10,
            window_end_offset=30,
            runs=[run(10, 12, 0, 2), run(20, 24, 2, 1), run(28, 29, 9, 1)],
        ),
        window_row(
            partition=1, effective_start_offset=5, window_end_offset=6, runs=[run(5, 5, 0, 2)]
        ),
        window_row(partition=2),
    ],
    schema=schemas.WINDOWS,
)


def test_delivery_counts_are_of_every_offset_in_the_windows() -> None:
    made = charts.delivery_count_records(WINDOW_TABLE).to_pylist()
    told = [
        (r["delivery_state"], r["delivery_count"], r["offsets"], r["share_partitions"])
        for r in made
    ]
    assert told == [(0, 2, 4, 2), (2, 1, 5, 1), (9, 1, 2, 1), (None, None, 10, 1)]
    figure = charts.delivery_count_figure(charts.delivery_count_records(WINDOW_TABLE), limit=5)
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in figure.data] == [
        ("Available", [2], [4]), ("Acknowledged", [1], [5]), ("Another state", [1], [2]),
    ]  # fmt: skip
    assert figure.layout.meta["title"] == (
        "g: 4 offsets given back and waiting; the highest delivery count is 2 (4 offsets), 3 deliveries below the limit"
    )
    assert "state and delivery count of 10 offsets" in figure.layout.meta["facts"][1]
    # Two states share the count 1; alone, a bar stands over its count.
    assert [(trace.offset[0], trace.width[0]) for trace in figure.data] == [
        (-0.4, 0.8),
        (-0.4, 0.4),
        (0, 0.4),
    ]
    known = evidence("lock_expiry")
    stateless = charts.delivery_count_records(known.windows).filter(
        pc.field("delivery_state").is_null()
    )
    assert (pc.sum(stateless.column("offsets")).as_py() or 0) == pc.sum(
        known.lag.column("window_unknown")
    ).as_py()


def test_window_states_cover_the_window_without_a_hole() -> None:
    made = charts.window_state_records(WINDOW_TABLE).to_pylist()
    first = [
        (r["first_offset"], r["last_offset"], r["delivery_state"])
        for r in made
        if r["partition"] == 0
    ]
    assert first == [(10, 12, 0), (13, 19, None), (20, 24, 2), (25, 27, None), (28, 29, 9)]
    assert [(r["first_offset"], r["last_offset"]) for r in made if r["partition"] == 1] == [(5, 5)]
    assert all(r["until"] - r["as_of"] == timedelta(seconds=1) for r in made)
    with pytest.raises(InputError, match="belong to 2: filter them"):
        charts.window_state_figure(charts.window_state_records(WINDOW_TABLE))


def test_window_states_follow_each_other_in_time() -> None:
    windows, at = moments("head_of_line")
    made = charts.window_state_records(windows, at)
    made = made.filter(pc.equal(made.column("partition"), 0))
    times = sorted(set(made.column("as_of").to_pylist()))
    assert {row["until"] for row in made.to_pylist() if row["as_of"] == times[0]} == {times[1]}
    figure = charts.window_state_figure(made)
    assert "its head, offset 6 (available)" in figure.layout.meta["title"]
    offsets = sum(trace.y.sum() for trace in figure.data)
    assert offsets == sum(r["last_offset"] - r["first_offset"] + 1 for r in made.to_pylist())


def test_a_full_window_reaches_its_limit() -> None:
    known = evidence("window_full")
    made = charts.window_span_records(known.lag, known.settings)
    (row,) = made.to_pylist()
    assert (row["span"] >= row["limit"] == 100, row["limit_from"]) == (True, "group")
    figure = charts.window_span_figure(made)
    assert "the window is full" in figure.layout.meta["title"]
    assert list(figure.data[1].x) == [100]
    assumed = charts.window_span_records(evidence("demo").lag, schemas.SETTINGS.empty_table())
    assert set(assumed.column("limit_from").to_pylist()) == {"assumed"}
    figure = charts.window_span_figure(assumed)
    assert "Not known: the span of 5 windows, marked with ?." in figure.layout.meta["facts"]
    assert (
        "The limit is Kafka's default: the settings in force are not known."
        in figure.layout.meta["facts"]
    )
    assert sum(value is None for value in figure.data[0].x) == len(figure.layout.annotations) > 0


# ---- spread, members, rates ----------------------------------------------------------------------


def test_the_area_above_the_curve_is_the_gini_coefficient() -> None:
    made = charts.lorenz_records(evidence("demo").lag)
    for group in pc.unique(made.column("group_id")).to_pylist():
        mine = made.filter(pc.equal(made.column("group_id"), group)).to_pylist()
        if mine[0]["gini"] is None:
            continue
        x, y = ([0.0, *(row[name] for row in mine)] for name in ("item_share", "value_share"))
        assert (x[-1], y[-1]) == (pytest.approx(1), pytest.approx(1))
        assert y == sorted(y)
        assert 1 - 2 * np.trapezoid(y, x) == pytest.approx(mine[0]["gini"])
    figure = charts.lorenz_figure(charts.lorenz_records(evidence("hot_partition").lag))
    assert (
        figure.layout.meta["title"]
        == "hot-partition: all of the lag is in 1 of 6 share partitions (Gini 0.83)"
    )
    figure = charts.lorenz_figure(made)
    assert (
        figure.layout.meta["title"]
        == "billing: half of the lag is in 3 of 10 share partitions (Gini 0.42)"
    )
    with pytest.raises(InputError, match="no column 'lags'"):
        charts.lorenz_records(evidence("demo").lag, "lags")


def test_share_partitions_of_unknown_lag_are_not_on_the_curve() -> None:
    lag = evidence("demo").lag
    made = charts.lorenz_records(lag)
    assert len(made) == len(lag) - lag.column("lag").null_count
    assert "analytics" not in made.column("group_id").to_pylist()


def member(name: str, *partitions: int) -> dict[str, Any]:
    assigned = [{"topic_id": TOPIC_ID, "partitions": list(partitions)}] if partitions else []
    known = {
        "group_id": "g",
        "member_id": name,
        "client_id": f"client-{name}",
        "assigned_partitions": assigned,
    }
    return dict.fromkeys(schemas.MEMBERS.names) | known


def test_members_stand_beside_their_share_partitions() -> None:
    one = dict.fromkeys(schemas.LAG.names) | {
        "group_id": "g",
        "topic": "t",
        "topic_id": TOPIC_ID,
        "as_of": NOW,
        "notes": [],
    }
    lag = pa.Table.from_pylist(
        [one | {"partition": n, "lag": lag} for n, lag in enumerate((5, None, 7))],
        schema=schemas.LAG,
    )
    people = pa.Table.from_pylist(
        [member("a", 0, 1), member("b", 0), member("idle")], schema=schemas.MEMBERS
    )
    made = charts.assigned_records(people, lag)
    told = [(r["member_id"], r["topic"], r["partition"], r["lag"]) for r in made.to_pylist()]
    assert told == [
        ("a", "t", 0, 5),
        ("a", "t", 1, None),
        ("b", "t", 0, 5),
        (None, "t", 2, 7),
        ("idle", None, None, None),
    ]
    figure = charts.assigned_figure(made)
    heat, unknown = figure.data
    assert list(figure.layout.yaxis.ticktext) == [
        "no member",
        "client-a a",
        "client-b b",
        "client-idle idle",
    ]
    assert list(figure.layout.xaxis.ticktext) == ["t-2", "t-0", "t-1"]
    assert [list(line) for line in heat.z] == [
        [7, None, None],
        [None, 5, None],
        [None, 5, None],
        [None, None, None],
    ]
    assert (list(unknown.x), unknown.marker.pattern.shape) == ([2], "\\")
    assert figure.layout.meta["title"] == "g: 1 share partition with lag and no member"
    assert figure.layout.meta["facts"][1] == "Not known: the lag of 1 cell, hatched."
    two_groups = pa.concat_tables([made, renamed(made, "other")])
    with pytest.raises(InputError, match="these records belong to 2"):
        charts.assigned_figure(two_groups)


def test_rates_over_time_add_up_to_what_moved() -> None:
    table = timeline("hot_partition")
    made = charts.rates_over_time_records(table)
    for partition in range(6):
        mine = table.filter(
            pc.and_(
                pc.equal(table.column("partition"), partition),
                table.column("end_offset").is_valid(),
            )
        )
        ends = mine.column("end_offset").to_pylist()
        moved = made.filter(pc.equal(made.column("partition"), partition))
        assert pc.sum(moved.column("arrived")).as_py() == ends[-1] - ends[0]
    figure = charts.rates_over_time_figure(made)
    assert "lag grows over this time" in figure.layout.meta["title"]
    gaps = [sum(value is None for value in trace.y) for trace in figure.data]
    assert figure.layout.meta["facts"][1].startswith(
        f"Not known: {gaps[0]} arrival and {gaps[1]} completion rates"
    )


def test_rates_over_many_moments_are_pooled_to_what_can_be_seen() -> None:
    """Two offsets arrive and one is finished every other span; the unknown is a gap."""
    known = [moment_row(n, n // 2, 2 * (n // 2)) for n in range(161)]
    gone = [row | {"end_offset": None} if 40 <= n <= 43 else row for n, row in enumerate(known)]
    for rows, gaps in ((known, 0), (gone, 1)):
        made = charts.rates_over_time_records(pa.Table.from_pylist(rows, schema=schemas.TIMELINE))
        arrivals, completions = (
            list(trace.y) for trace in charts.rates_over_time_figure(made).data
        )
        assert (len(arrivals), arrivals.count(None)) == (40, gaps)
        assert {rate for rate in arrivals if rate is not None} == {1.0} | (
            {2 / 3} if gaps else set()
        )
        assert set(completions) == {0.5}


def test_a_count_that_fell_is_not_a_rate() -> None:
    rows = [
        moment_row(0, 50, 100),
        moment_row(10, 80, 150),
        moment_row(20, 10, 160),
        moment_row(30, 20, 160),
    ]
    made = charts.rates_over_time_records(
        pa.Table.from_pylist(rows, schema=schemas.TIMELINE)
    ).to_pylist()
    assert [(row["arrival_rate"], row["completion_rate"]) for row in made] == [
        (5, 3),
        (1, None),
        (0, 1),
    ]


def test_points_name_their_share_partitions_for_picking() -> None:
    known = evidence("demo").lag
    bars = charts.decomposition_figure(charts.decomposition_records(known), most=3).data
    first = charts.decomposition_records(known).sort_by([("lag", "descending")]).to_pylist()[0]
    place = [first[name] for name in ("group_id", "topic_id", "partition")]
    assert [list(bar.customdata[0]) for bar in bars] == [place] * 4
    assert all(
        bar.customdata is None
        for bar in charts.decomposition_figure(charts.decomposition_records(known, "group")).data
    )
    held = evidence("slow")
    heat = charts.assigned_figure(charts.assigned_records(held.members, held.lag)).data[0]
    for places, lags in zip(heat.customdata, heat.z, strict=True):
        assert [one is None for one in places] == [lag is None for lag in lags]
    assert {one[2] for places in heat.customdata for one in places if one} == {
        *held.lag.column("partition").to_pylist()
    }


def progress_row(partition: int, drain: str, **more: Any) -> dict[str, Any]:
    known = {
        "group_id": "g",
        "topic": "t",
        "topic_id": TOPIC_ID,
        "partition": partition,
        "as_of": NOW,
        "drain": drain,
    }
    return dict.fromkeys(schemas.PROGRESS.names) | known | more


PROGRESS = pa.Table.from_pylist(
    [
        progress_row(0, DRAINED, arrival_rate=1.0, completion_rate=1.0),
        progress_row(
            1,
            DRAINS,
            drain_ms=60_000,
            drain_low_ms=30_000,
            drain_high_ms=180_000,
            arrival_rate=1.0,
            completion_rate=3.0,
        ),
        progress_row(
            2, DRAINS, drain_ms=120_000, drain_low_ms=60_000, arrival_rate=2.0, completion_rate=2.5
        ),
        progress_row(
            3, NEVER, drain_low_ms=90_000, arrival_rate=4.0, completion_rate=2.0, breaks=1
        ),
        progress_row(4, STALLED, arrival_rate=4.0, completion_rate=0.0),
        progress_row(5, UNKNOWN),
    ],
    schema=schemas.PROGRESS,
)


def test_the_forecast_has_its_interval_or_words() -> None:
    made = charts.drain_records(PROGRESS)
    assert made.column("partition").to_pylist() == [4, 3, 2, 1, 5, 0]
    figure = charts.drain_figure(made)
    points, never = figure.data
    assert (list(points.x), list(points.y)) == ([2, 1], [2, 3])  # minutes
    assert points.error_x.array[1] == pytest.approx(2)
    assert list(points.error_x.arrayminus) == [1, 0.5]
    assert (list(never.y), never.x[0]) == ([2], pytest.approx(2 + points.error_x.array[0]))
    words = [note.text for note in figure.layout.annotations]
    assert words[0] == "stalled: nothing is being finished"
    assert words[1] == "never: as much arrives as is finished, or more (at best in 1m\u00a030s)"
    assert words[2].startswith("? unknown: ")
    assert "at 2026-11-21 03:12:00 UTC" in points.hovertext[0]
    assert figure.layout.meta["title"] == "g: nothing is finished in 1 of 6 share partitions"


def test_share_partitions_without_a_forecast_are_reported_together() -> None:
    """Thirty times the same sentence says no more than once."""
    alone = [
        progress_row(n, NOBODY) | {"group_id": group} for group in ("a", "b") for n in range(40)
    ]
    alone += [
        progress_row(n, DRAINS, drain_ms=1000, drain_low_ms=500, drain_high_ms=9000)
        for n in range(2)
    ]
    figure = charts.drain_figure(
        charts.drain_records(pa.Table.from_pylist(alone, schema=schemas.PROGRESS)), most=3
    )
    assert list(figure.layout.yaxis.ticktext) == [
        "a: 40 share partitions",
        "b: 40 share partitions",
        "g: t-0",
    ]
    assert len(figure.layout.annotations) == 2
    assert "Not drawn: 1 share partition with less urgency." in figure.layout.meta["facts"]


def test_an_unknown_rate_is_no_point_at_zero() -> None:
    made = charts.rates_records(PROGRESS)
    figure = charts.rates_figure(made)
    assert [sum(value is None for value in trace.x) for trace in figure.data[1:]] == [1, 1, 6]
    assert [note.text for note in figure.layout.annotations] == [
        "? arrival and completion rate not known"
    ]
    assert (
        figure.layout.meta["title"] == "g: more arrives than is finished in 2 of 5 share partitions"
    )
    assert (
        "Records are missing for 1 share partition, so the rates are at least these."
        in figure.layout.meta["facts"]
    )


def test_words_for_an_unknown_rate_stand_where_no_mark_is() -> None:
    table = PROGRESS.set_column(
        PROGRESS.schema.get_field_index("arrival_rate"),
        "arrival_rate",
        pa.nulls(len(PROGRESS), pa.float64()),
    )
    rates = charts.rates_records(table).slice(0, 1)
    for completion, redelivery, place in ((9.0, 0.5, 0.5), (3.0, 2.5, 0.0), (0.0, None, 0.0)):
        for name, value in (("completion_rate", completion), ("redelivery_rate", redelivery)):
            rates = rates.set_column(
                rates.schema.get_field_index(name), name, pa.array([value], pa.float64())
            )
        figure = charts.rates_figure(rates)
        (note,) = figure.layout.annotations
        assert (note.text, note.x) == ("? arrival rate not known", place)
        assert figure.layout.meta["title"] == "g: how fast records arrive is not known"
        assert (
            "Not known: arrival rate of 1 share partition; marked with ?."
            in figure.layout.meta["facts"]
        )


def test_kinds_of_state_records_add_up_and_prunable_ones_are_reported() -> None:
    known = health("demo")
    made = charts.state_record_records(known)
    assert made.column("partition").to_pylist() == [n for n in range(4) for _ in range(4)]
    assert pc.sum(made.column("records")).as_py() == pc.sum(known.column("records")).as_py() > 100
    figure = charts.state_record_figure(made)
    assert [trace.name for trace in figure.data] == [
        "Snapshots",
        "Updates",
        "Tombstones",
    ]  # nothing was rejected
    assert list(figure.data[0].x) == known.sort_by("partition").column("snapshots").to_pylist()
    prunable = pc.sum(known.column("prunable")).as_py()
    assert figure.layout.meta["title"].endswith(f"may prune {text.number(prunable)} of them")
    unknown = made.set_column(4, "prunable", pa.nulls(len(made), pa.int64()))
    told = charts.state_record_figure(unknown).layout.meta
    assert (
        told["title"]
        == f"{text.number(pc.sum(known.column('records')).as_py())} records in 4 partitions of the state topic"
    )
    assert "Not known: what may be pruned of 4 partitions." in told["facts"]
    assert (
        "Not drawn: 2 partitions with higher numbers."
        in charts.state_record_figure(made, most=2).layout.meta["facts"]
    )
    assert (
        "has any group consumed?"
        in charts.state_record_figure(made.slice(0, 0)).layout.annotations[0].text
    )


# ---- causes --------------------------------------------------------------------------------------


def test_causes_last_from_their_beginning_and_are_open_where_it_is_not_known() -> None:
    figure = charts.cause_figure(charts.cause_records(CAUSES, NOW))
    bar, mark = figure.data
    assert (bar.name, list(bar.base), list(bar.x), list(bar.y)) == (
        "critical",
        ["2026-11-21 03:00:00.000"],
        [600_000],
        [0],
    )
    assert (mark.name, mark.marker.symbol, list(mark.x)) == (
        "note",
        "diamond-open",
        ["2026-11-21 03:10:00.000"],
    )
    assert list(figure.layout.yaxis.ticktext) == [
        "no members, g: orders:0,1",
        "not started, h: A-topic:3",
    ]
    assert [note.text for note in figure.layout.annotations] == [
        "holds 1\u202f234 offsets",
        "holds ? offsets",
    ]
    assert figure.layout.meta["title"] == "g: the group has no members, and 1 other cause"
    assert figure.layout.meta["facts"][1] == (
        "Not known: the beginning of 1 cause, an open mark at the moment of judging; how much 1 cause holds."
    )
    nothing = charts.cause_figure(
        charts.cause_records(schemas.CAUSES.empty_table(), NOW), as_of=NOW
    )
    assert nothing.layout.meta["title"] == "Nothing wrong was found"
    assert nothing.layout.meta["facts"][0].startswith("As of 2026-11-21 03:10:00 UTC.")


def test_causes_of_a_capture_are_all_drawn() -> None:
    known = evidence("demo")
    causes = explain(known)
    figure = charts.cause_figure(charts.cause_records(causes, known.as_of))
    assert len(figure.layout.yaxis.ticktext) == causes.num_rows > 0
    assert sum(len(trace.y) for trace in figure.data) == causes.num_rows
