"""Charts draw what the tables say, mark what is unknown, and take every name as text."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sharelag
from sharelag import charts, schemas
from sharelag.charts import palette, text
from sharelag.charts.story import GROUP_STORY
from sharelag.errors import InputError, SetupError
from sharelag.tables.words import percent
from sharelag.whatif.compare import PROJECTED
from sharelag.wire import SHARE_SNAPSHOT, encode_record, state_partition
from sharelag.workbench import Workbench
from tests.support.charts import (
    ARABIC,
    FIGURES,
    HOSTILE,
    LONG,
    ROOT,
    THEMES,
    evidence,
    health,
    lag_rows,
    records,
    renamed,
)
from tests.support.own_process import run_code
from tests.support.readings import open_once
from tests.support.records import KEY, raw, raw_file, row, with_column

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


# ---- colours and words ---------------------------------------------------------------------------
def test_colours_and_patterns_are_those_of_the_widgets() -> None:
    source = (WIDGETS / "palette.js").read_text()
    names = re.findall(
        r'\{ name: "(\w+)", words: "([^"]+)", pattern: "\w+", means: "([^"]+)"', source
    )
    assert names == [(name, kind.words, kind.means) for name, kind in palette.KINDS.items()]
    last = re.search(r'LAST = \{ name: "last", words: "([^"]+)", means: "([^"]+)"', source)
    assert last is not None
    assert last.groups() == (palette.LAST.words, palette.LAST.means)
    assert [f'{theme}: "{palette.LAST.fill[theme]}"' in source for theme in THEMES] == [True, True]
    fills, ladders = (
        re.search(rf"const {name} = \{{(.*?)\n\}};", source, re.DOTALL)[1]  # type: ignore[index]
        for name in ("FILLS", "LADDERS")
    )
    for theme, line in zip(THEMES, fills.strip().splitlines(), strict=True):
        found = re.findall("#[0-9A-F]{6}", line)
        assert found == [kind.fill[theme] for kind in palette.KINDS.values()]
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
    assert len({line["line"]["dash"] for line in lines}) == 6
    assert len({line["marker"]["symbol"] for line in lines}) == 6


@pytest.mark.parametrize("theme", THEMES)
def test_no_two_states_that_touch_differ_by_colour_alone(theme: palette.Theme) -> None:
    touching = ("available", "acquired", "acknowledged", "archived", "unknown", "unread")
    looks = [palette.marker(palette.KINDS[name], theme)["pattern"] for name in touching]
    for one, other in combinations(looks, 2):
        assert (one["shape"], one["size"]) != (other["shape"], other["size"])


def test_names_cannot_act() -> None:
    shown = text.escape(text.name(HOSTILE, None))
    assert "<" not in shown
    assert "%{" not in shown
    assert "$" not in shown
    assert shown.startswith("&lt;img src=x onerror=alert(1)&gt;&lt;b&gt;bold&lt;/b&gt;&amp;lt; ")
    assert shown.endswith("\\u202e🦜")
    assert (text.name("a\nb\x00"), text.name(ARABIC)) == ("a\\nb\\x00", f"\u2068{ARABIC}\u2069")
    assert text.name("👩‍👩‍👧") == "👩‍👩‍👧"
    short = text.name("a" + LONG + "z")
    assert (len(short), short[0], short[-1], "…" in short) == (text.LABEL, "a", "z", True)


def test_numbers_and_lists_read_well() -> None:
    assert [text.number(value) for value in (None, float("nan"), 0, 1234567, 2.5)] == [
        "not known", "not known", "0", "1,234,567", "2.5",
    ]  # fmt: skip
    counted = [text.pluralize(number, "delivery", "deliveries") for number in (1, 2)]
    assert counted == ["1 delivery", "2 deliveries"]
    shares = [percent(part, 1000) for part in (1, 500, 999, 1000)]
    assert shares == ["under 1 %", "50 %", "over 99 %", "100 %"]
    assert text.list_names("abcde") == "a, b, c and 2 more"


def test_importing_the_charts_does_not_import_plotly() -> None:
    code = "import sys, sharelag.charts; print('plotly' in sys.modules, 'pyspark' in sys.modules)"
    assert run_code(code) == "False False\n"


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
    title, (facts, *others) = figure.layout.meta["title"], figure.layout.meta["facts"]
    assert len(title) > 20
    drawn = bool(figure.data)  # a sentence in place of a chart has no units
    assert re.fullmatch(
        rf"As of 2026-11-21 (08:2[134]:\d\d|03:10:00) UTC\.{' .{20,}' * drawn}", facts
    )
    assert all(others)
    shown = re.sub("<.?b>", "", figure.layout.title.text).replace("<br>", " ")
    assert shown == text.escape(title)
    assert figure.layout.title.subtitle.text.replace("<br>", " ").startswith(facts)
    assert figure.layout.template.layout.paper_bgcolor == palette.PAPER[theme]["paper"]
    for trace in figure.data:
        result = trace.text if trace.type == "heatmap" else trace.hovertext
        assert trace.hoverinfo == "skip" or result is not None


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
            # Our titles are bold, line by line.
            assert "<" not in re.sub("^<b>|</b>$", "", line), one
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


def test_of_ten_thousand_share_partitions_the_largest_are_drawn() -> None:
    none = dict.fromkeys(("window_available", "window_unknown", "window_complete"), 0)
    rows = ({"partition": n, "lag": n, "unread": n} | none for n in range(10_000))
    figure = charts.decomposition_figure(charts.decomposition_records(lag_rows(*rows)))
    assert list(figure.layout.yaxis.ticktext[:2]) == ["t-9999", "t-9998"]
    assert (list(figure.data[0].x[:2]), len(figure.layout.yaxis.ticktext)) == ([9999, 9998], 30)
    assert "Not drawn: 9,970 bars with less lag." in figure.layout.meta["facts"]
    assert "49,995,000 offsets of lag, 100 % of it unread" in figure.layout.meta["title"]


def test_names_that_look_the_same_when_short_keep_their_own_rows() -> None:
    names = {middle: "a" * 60 + middle + "a" * 60 for middle in "bc"}
    rows = ({"topic": names[m], "topic_id": m * 22, "lag": 1, "unread": 1} for m in names)
    figure = charts.decomposition_figure(charts.decomposition_records(lag_rows(*rows)))
    assert list(figure.data[0].y) == [0, 1]
    assert figure.layout.yaxis.ticktext[0] == figure.layout.yaxis.ticktext[1]
    assert "b" in figure.data[0].hovertext[0].replace("<br>", "")


def test_points_name_their_share_partitions_for_picking() -> None:
    known = evidence("chapters").lag
    bars = charts.decomposition_figure(charts.decomposition_records(known), most=3).data
    first = charts.decomposition_records(known).sort_by([("lag", "descending")]).to_pylist()[0]
    place = [first[name] for name in ("group_id", "topic_id", "partition")]
    assert [list(bar.customdata[0]) for bar in bars] == [place] * 4
    groups = charts.decomposition_figure(charts.decomposition_records(known, "group"))
    assert all(bar.customdata is None for bar in groups.data)
    held = evidence("slow")
    heat = charts.assigned_figure(charts.assigned_records(held.members, held.lag)).data[0]
    for places, lags in zip(heat.customdata, heat.z, strict=True):
        assert [one is None for one in places] == [lag is None for lag in lags]
    found = {one[2] for places in heat.customdata for one in places if one}
    assert found == {*held.lag.column("partition").to_pylist()}


# ---- the chart of brokers counts share partitions by role, and says whose broker is not known ----
ROLES = ("leader_id", "share_coordinator", "group_coordinator")


@pytest.fixture(scope="module")
def brokers() -> pa.Table:
    return open_once("demo").brokers().table


def test_each_role_counts_every_share_partition_once(brokers: pa.Table) -> None:
    made = charts.broker_load_records(brokers).to_pylist()
    for role in ROLES:
        counted = {row["broker_id"]: row["partitions"] for row in made if row["role"] == role}
        assert counted == Counter(brokers.column(role).to_pylist())
    figure = charts.broker_load_figure(charts.broker_load_records(brokers))
    assert [trace.name for trace in figure.data] == ["Leads", "Keeps state", "Coordinates group"]
    assert all(sum(trace.x) == len(brokers) for trace in figure.data)
    most = Counter(brokers.column("share_coordinator").to_pylist()).most_common(1)[0]
    expected = f"Broker {most[0]} keeps the state of {most[1]} of {len(brokers)} share partitions"
    assert figure.layout.meta["title"] == expected
    few = charts.broker_load_figure(charts.broker_load_records(brokers.slice(0, 3)))
    assert [one.layout.xaxis.dtick for one in (figure, few)] == [None, 1]  # without halves


def test_a_broker_that_is_not_known_is_no_bar(brokers: pa.Table) -> None:
    leaders = [None, None, *brokers.column("leader_id").to_pylist()[2:]]
    made = charts.broker_load_records(with_column(brokers, "leader_id", leaders))
    figure = charts.broker_load_figure(made)
    assert sum(figure.data[0].x) == len(brokers) - 2
    assert "Not known: the leader of 2 share partitions." in figure.layout.meta["facts"]
    fewer = charts.broker_load_figure(made, most=1).layout.meta["facts"]
    assert "Not drawn: 2 brokers with higher ids." in fewer


def test_nothing_is_drawn_where_nobody_is_known() -> None:
    made = charts.broker_load_records(schemas.BROKERS.empty_table())
    assert "running cluster" in charts.broker_load_figure(made).layout.annotations[0].text


# The spread of share partitions over the state topic: those partitions included that have none


@pytest.mark.row("PSC-03", "CFG-22")
def test_the_spread_of_keys_over_all_partitions_of_the_state_topic(tmp_path: Path) -> None:
    """Files do not tell how many partitions there are: Kafka creates 50; a capture tells it."""
    keys = [KEY._replace(partition=partition) for partition in range(40)]
    states = [encode_record(SHARE_SNAPSHOT, row(5, [], partition=key.partition)) for key in keys]
    at = [state_partition(key, 50) for key in keys]
    records = with_column(raw(states), "partition", at)
    bench = sharelag.open(raw_file(tmp_path, records), engine="local")
    figure = bench.health().charts["keys"]("light")
    (bar,) = figure.data
    assert (list(bar.x), list(bar.y)) == (list(range(50)), [at.count(place) for place in range(50)])
    assert 0 in bar.y
    used, most = len(set(at)), max(at.count(place) for place in at)
    assert figure.layout.meta["title"].startswith(
        f"The state of 40 share partitions is in {used} of 50 partitions; partition "
    )
    assert figure.layout.meta["title"].endswith(f" has {most}")
    assert "Not known: how many partitions the state topic has" in figure.layout.meta["facts"][1]
    capture = open_once("chapters").health().charts["keys"]("dark")
    assert list(capture.data[0].x) == list(range(4))
    assert not any(fact.startswith("Not known") for fact in capture.layout.meta["facts"])


def test_keys_of_a_topic_with_more_partitions_than_were_thought() -> None:
    known = health("chapters")
    made = charts.state_key_records(known, 2)
    assert made.column("partition").to_pylist() == [0, 1, 2, 3]
    order = known.sort_by("partition").column("share_partitions")
    assert made.column("share_partitions").to_pylist() == order.to_pylist()


# ---- the story of a group in one chart: lag, age, causes, events, and what may follow ------------
def story(bench: Workbench, group: str, **given: Any) -> Any:
    records = charts.group_story_records(bench.timeline(group).table)
    causes, events = bench.explain(group).table, bench.events(group).table
    return charts.group_story_figure(records, causes, events, **given)


def test_its_lag_is_the_sum_of_all_and_ends_with_what_lag_says(demo: Workbench) -> None:
    for group in demo.groups:
        timeline = demo.timeline(group).table
        records = charts.group_story_records(timeline)
        last = records.to_pylist()[-1]
        assert last["lag"] == pc.sum(demo.lag(group).table.column("lag")).as_py()
        assert last["partitions"] == len(demo.lag(group).table)
        for one in records.to_pylist():
            then = timeline.filter(pc.equal(timeline.column("as_of"), one["as_of"]))
            lags = then.column("lag").to_pylist()
            assert one["lag"] is None or one["lag"] == sum(lag for lag in lags if lag is not None)


def test_unknown_lag_of_one_share_partition_makes_the_sum_unknown(demo: Workbench) -> None:
    timeline = demo.timeline("billing").table
    rows = timeline.to_pylist()
    rows[-1] |= {"lag": None, "lag_reason": "no_end_offset"}
    records = charts.group_story_records(pa.Table.from_pylist(rows, timeline.schema))
    assert records.to_pylist()[-1]["lag"] is None


def test_a_shade_begins_with_its_cause_and_is_named_there(demo: Workbench) -> None:
    drawn = story(demo, "search-index")
    (cause, *_) = demo.explain("search-index").table.to_pylist()
    shade, words = drawn.layout.shapes[0], drawn.layout.annotations[0]
    assert words.text == cause["cause"].replace("_", " ")
    assert shade.x0 == words.x == text.axis_time(cause["since"])
    # Above the lag, which is highest there where nothing is finished.
    (highest,) = drawn.layout.yaxis.autorangeoptions.include
    assert highest > 1.1 * max(lag for lag in drawn.data[0].y if lag is not None)


def test_a_cause_that_began_late_is_named_where_there_is_room(demo: Workbench) -> None:
    for group, side in (("returns-desk", "left"), ("search-index", "right")):
        assert story(demo, group).layout.annotations[0].xanchor == side


@pytest.mark.parametrize(
    ("unknown", "drawn", "said"),
    [
        (["age_ms"], ["lag"], "Not known: the age at any moment."),
        (["lag", "age_ms"], [], "Not known: the lag at any moment; the age at any moment."),
    ],
)
def test_what_is_unknown_has_no_axis(
    demo: Workbench, unknown: list[str], drawn: list[str], said: str
) -> None:
    records = charts.group_story_records(demo.timeline("checkout").table)
    nothing = pa.nulls(len(records), pa.int64())
    for name in unknown:
        records = records.set_column(records.column_names.index(name), name, nothing)
    no_events = demo.events("checkout").table.slice(0, 0)
    figure = charts.group_story_figure(records, demo.explain("checkout").table, no_events)
    assert [trace.name for trace in figure.data] == drawn
    assert not drawn or not figure.layout.yaxis2.visible
    assert figure.layout.meta["unknown"] == said


def test_every_event_is_in_the_hover_of_a_mark(demo: Workbench) -> None:
    drawn = {trace.name: trace for trace in story(demo, "billing").data}
    begin = demo.timeline("billing").table.column("as_of")[0].as_py()
    events = demo.events("billing").table.to_pylist()
    later = [one for one in events if one["happened_at"] >= begin]
    assert later
    for one in later:
        hovers = " ".join(drawn[one["event"]].hovertext)
        if one["topic"]:
            assert f"{one['topic']}-{one['partition']}" in hovers


def test_a_projection_goes_on_from_the_last_moment(demo: Workbench) -> None:
    times = np.arange(0, 60_001, 10_000, dtype=np.float64)
    columns = {"variant": ["as it is"] * len(times), "time_ms": times, "lag": times / 100}
    columns |= {"low": times / 120, "high": times / 80}
    ages = ("age_ms", "age_low_ms", "age_high_ms", "drain_ms")
    columns |= dict.fromkeys(ages, pa.nulls(len(times), pa.float64()))
    projected = pa.table({name: columns[name] for name in PROJECTED.names}).cast(PROJECTED)
    drawn = story(demo, "billing", projected=projected)
    as_of = demo.timeline("billing").table.column("as_of")[-1].as_py()
    curve = next(trace for trace in drawn.data if trace.name == "as it is")
    assert curve.x[0] == text.axis_time(as_of)
    assert curve.x[-1] == text.axis_time(as_of + timedelta(minutes=1))
    begin, end = (datetime.fromisoformat(one) for one in drawn.layout.xaxis.range)
    assert end - begin == timedelta(minutes=5)  # not so long a past that the future is a hair


def test_without_moments_it_is_a_sentence(demo: Workbench) -> None:
    nothing = GROUP_STORY.empty_table()
    drawn = charts.group_story_figure(
        nothing, demo.explain("billing").table, demo.events("billing").table
    )
    assert not drawn.data
    assert drawn.layout.meta["title"] == "No moment of this group is known"
