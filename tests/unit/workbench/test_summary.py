"""Comparisons, searches and moves as tables and charts; a brief lag is that of a whole answer."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import Result, charts
from sharelag.charts.simulations import COMPARED
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, Input, KafkaInput, PrintedInput, RawInput, SegmentsInput
from sharelag.inputs.files.printed import is_printed
from sharelag.inputs.kafka import topics
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.recorded import folder_of
from sharelag.monitoring.checks.judge import check
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.replay.moment import Choice
from sharelag.schemas import BRIEF_LAG as BRIEF
from sharelag.whatif import (
    Comparison,
    Goal,
    Limits,
    Member,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    compared,
    consumer_group_twin,
    fewest_members,
    grid,
    named,
    should_move,
    simulate,
)
from sharelag.whatif.comparison.rows import for_people, measure_words
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.estimates import Assumption
from sharelag.wire import STATE_TOPIC
from sharelag.workbench import Workbench
from tests.support import readings
from tests.support.cases import Cases
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag as command
from tests.support.drawn_comparisons import runs
from tests.support.readings import open_once
from tests.support.written_input import TOPIC, TOPIC_ID, Write, WrittenInput

HOSTILE = "<img src=x onerror=alert(1)>\u202e🦜"


def comparison(**values: Mapping[str, Any]) -> Comparison:
    """Of variants by name, for each measure one value a seed; the first is the baseline."""
    return compared(runs(**values))


AGES = comparison(
    now={"age_p95_ms": [9000, 9100, 8900], "drain_ms": [1000, 1000, 1000]},
    more={"age_p95_ms": [4000, 4200, 3900], "drain_ms": [900, None, 950]},
    other={"age_p95_ms": [9050, 9000, 8990], "drain_ms": [1000, 1000, 1000]},
)


# ---- the chart -----------------------------------------------------------------------------------
def test_a_difference_is_a_point_with_its_interval() -> None:
    records = charts.compared_records(AGES, "age_p95_ms")
    assert (records.schema, records.column("seeds").to_pylist()) == (COMPARED, [3, 3])
    more, other = records.to_pylist()
    assert (more["variant"], round(more["difference"]), more["better"]) == ("more", -4967, True)
    assert (other["variant"], round(other["difference"]), other["better"]) == ("other", 13, None)
    figure = charts.compared_figure(records)
    (points,) = figure.data
    assert list(points.x) == pytest.approx([more["difference"] / 1000, other["difference"] / 1000])
    assert points.error_x.array[0] == pytest.approx((more["high"] - more["difference"]) / 1000)
    assert points.error_x.arrayminus[0] == pytest.approx((more["difference"] - more["low"]) / 1000)
    assert figure.layout.meta["title"] == "p95 age: more better than now"
    assert figure.layout.meta["facts"] == [
        (
            "Simulated. Variant less baseline, in seconds, with intervals of 95 % together; left "
            "of 0 is better."
        ),
        "3 runs of each, with the same seeds.",
    ]
    assert points.hovertext[0].startswith("more<br>-4.97 s (")


def test_a_difference_that_is_not_known_is_no_point() -> None:
    figure = charts.compared_figure(charts.compared_records(AGES, "drain_ms"))
    assert (list(figure.data[0].x), figure.layout.yaxis.ticktext) == ([0], ("other",))
    said = figure.layout.meta["facts"]
    assert "Not known: more; a run of it or of the baseline has no such value." in said
    assert figure.layout.meta["title"].startswith(
        "drain: the runs do not show that anything is better or worse"
    )
    lost = comparison(now={"drain_ms": [None, None]}, more={"drain_ms": [1, 2]})
    nothing = charts.compared_figure(charts.compared_records(lost, "drain_ms"), "dark")
    assert not nothing.data
    assert nothing.layout.annotations[0].text == "No difference of drain is known"
    guess = replace(named("idle-members"), assumed=(Assumption("service", "1 ms", "it is new"),))
    unknown = replace(AGES, scenarios={"now": guess})
    figure = charts.compared_figure(charts.compared_records(unknown, "age_p95_ms"))
    assert figure.layout.meta["title"].startswith("p95 age: not known: it is new, so the time that")


def test_what_is_worse_is_said_and_one_variant_is_nothing_to_compare() -> None:
    worse = comparison(now={"lag_max": [10, 11, 12]}, less={"lag_max": [110, 113, 111]})
    figure = charts.compared_figure(charts.compared_records(worse, "lag_max"))
    assert figure.layout.meta["title"] == "lag max: less worse than now"
    assert figure.layout.xaxis.title.text == "difference, offsets"
    alone = comparison(now={"lag_max": [10, 11, 12]})
    figure = charts.compared_figure(charts.compared_records(alone, "lag_max"))
    assert figure.layout.annotations[0].text == "Nothing is compared: give two variants or more"


def test_a_variants_name_is_text() -> None:
    named = comparison(now={"lag_max": [9, 9, 8]}, **{HOSTILE: {"lag_max": [1, 2, 1]}})
    figure = charts.compared_figure(charts.compared_records(named, "lag_max"))
    (label,) = figure.layout.yaxis.ticktext
    assert label.startswith("&lt;img src=x onerro…")
    assert "<img" not in figure.data[0].hovertext[0] + figure.layout.title.text
    assert "\u202e" not in label


@pytest.mark.parametrize("measure", list(MEASURED))
def test_every_measure_has_words_with_one_unit(measure: str) -> None:
    words = measure_words(measure)
    assert not words.endswith("_ms")
    unit = MEASURED[measure].unit
    assert not unit or unit == "ms" or " per " in words or words.endswith((f"({unit})", unit))


# ---- as results ----------------------------------------------------------------------------------
def test_a_comparison_names_its_winner_and_what_is_unknown() -> None:
    result = sharelag.summarize(AGES)
    rows = {row["variant"]: row for row in result.table.to_pylist()}
    assert set(result.columns.values()) == set(result.table.column_names)
    assert (rows["now"]["verdict"], rows["now"]["age_p95_ms"]) == ("baseline", "9 s")
    assert rows["more"]["verdict"] == "best by p95 age"
    assert rows["more"]["age_p95_difference"].startswith("-4.97 s ± ")
    assert (rows["more"]["drain_ms"], rows["more"]["drained"]) == (None, "2 of 3")
    assert result.notes[0] == AGES.verdict()
    assert "3 variants, 3 seeds, compared seed by seed with now" in result.notes[1]
    assert list(result.charts) == ["age_p95_ms", "drain_ms"]
    assert result.figure("age_p95_ms").layout.meta["title"] == "p95 age: more better than now"
    for words in (result.to_html(), result.to_text()):
        assert "simulated" in words
        assert "As of" not in words
        assert "best by p95 age" in words
    assert result.to_text().count("simulated") == 1
    # As the comparison shows itself: the best in bold, a bar of each difference, all measures.
    page = result.to_html()
    assert '<bdi class="best">4.03 s</bdi>' in page
    assert page.count("<svg") == 2
    assert "<summary>All measures</summary>" in page


def test_amounts_stand_at_the_right_as_numbers_do() -> None:
    found = comparison(now={"lag_p95": [12_000, 12_001, 12_002]}, more={"lag_p95": [900, 901, 902]})
    page = sharelag.summarize(found).to_html()
    right = set(re.findall(r'<td class="n"[^>]*><bdi>(.*?)</bdi>', page))
    assert {"12,001", "901"} <= right
    assert not {"now", "more", "lag_p95"} & right
    assert "12,001" in sharelag.summarize(found).to_text()


def test_what_is_the_same_in_every_run_has_no_interval() -> None:
    values = {"drain_ms": [None, 9000, 9000], "lag_max": [7, 7, 7]}
    found = comparison(now=values, more={"drain_ms": [8000] * 3, "lag_max": [5, 5, 5]})
    rows = [for_people(row) for row in found.rows()]
    # What is known comes first.
    assert [row["by"] for row in rows] == [*["lag_max"] * 2, *["drain_ms"] * 2]
    now, more = rows[:2]
    assert (now["mean"], now["low"], now["high"]) == ("7 in every run", None, None)
    assert (more["mean"], more["difference"]) == ("5 in every run", "-2")
    assert more["difference_low"] is None
    equal = comparison(now={"lag_max": [7] * 6}, more={"lag_max": [5] * 6})
    _, same = (for_people(row) for row in equal.rows())
    assert (same["difference"], same["verdict"]) == ("-2 in every run", "better, winner")
    assert same["difference_low"] is None


def test_a_search_reports_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    topics, people = (Topic("orders", 4),), (Member(service=Service(40)),)
    work = Scenario(topics, people, (Producer("orders", 90),), duration_ms=9000)

    def answer(planned: Any, _: object) -> dict[str, Any]:
        count = len(planned.scenario.each_member())
        return {"run": planned.id, "members": count, "age_p95_ms": 6000.0 / count + planned.seed}

    monkeypatch.setattr(grid, "run", answer)
    found = fewest_members(work, goal=Goal("age_p95_ms", 1600), seeds=range(3), between=(1, 9))
    result = sharelag.summarize(found)
    said = "4 members keep p95 age <= 1.6s, with 95 % confidence, over 9 s"
    assert result.title == f"Fewest members: {said}"
    rows = {row["members"]: row for row in result.table.to_pylist()}
    assert (rows[found.members]["answer"], rows[found.members]["met"]) == ("fewest", "yes")
    assert {row["met"] for members, row in rows.items() if members < found.members} == {"no"}
    assert "VARIANT" not in result.columns


def test_a_move_is_shown_side_by_side_with_its_assumptions() -> None:
    moving = should_move(replace(named("uneven"), duration_ms=4000), seeds=range(2))
    result = sharelag.summarize(moving)
    assert "a consumer retries a failing record in place" in result.notes[0]
    assert len(result.table) == len(moving.answers)
    lag = next(row for row in result.table.to_pylist() if row["by"] == "lag_end")
    assert lag["consumer_group"]
    assert lag["share_group"]


def test_one_run_is_shown_as_its_summary() -> None:
    run = simulate(replace(named("uneven"), duration_ms=2000), 7)
    result = sharelag.summarize(run)
    assert result.title == "One run, with seed 7"
    values = {row["by"]: row["value"] for row in result.table.to_pylist()}
    (summary,) = run.summary.to_pylist()
    assert values == {name: None if v is None else str(v) for name, v in summary.items()}


def test_each_shows_itself_as_its_summary() -> None:
    """In a notebook: a table, and the same as text for who does not see it."""
    scenario = replace(named("uneven"), duration_ms=2000, assumed=(f"{HOSTILE} is fast",))
    run = simulate(scenario)
    evidence = open_once("chapters").evidence()
    for one in (
        *(scenario, run, consumer_group_twin(scenario)),
        *(AGES, should_move(scenario, range(2)), evidence),
    ):
        shown = one._repr_mimebundle_()
        assert shown["text/plain"] == sharelag.summarize(one).to_text()
        assert shown["text/html"].count("<tr") > 3
        assert "<img" not in shown["text/html"]
    words = scenario._repr_mimebundle_()["text/plain"]
    assert words.startswith("Scenario uneven (simulated)")
    assert scenario.about in words
    assert "assumed: <img src=x" in words
    assert "\u202e" not in words
    assert re.search(
        rf"^lag +{len(evidence.lag)}$", evidence._repr_mimebundle_()["text/plain"], re.MULTILINE
    )


def test_of_a_scenario_what_is_not_as_in_kafka() -> None:
    settings = Settings(limits=Limits(delivery_count_limit=3), session_timeout_ms=9000)
    rows = sharelag.summarize(replace(named("uneven"), settings=settings)).table.to_pylist()
    outcome = {row["by"]: row["value"] for row in rows}
    differs = outcome["settings that differ from Kafka's"]
    assert differs == "session_timeout_ms 9000, delivery_count_limit 3"
    assert outcome["members"] == f"{len(named('uneven').each_member())}"


def test_what_no_simulation_found_is_refused() -> None:
    said = r"Table cannot be shown as a result: give what compare, fewest_members"
    with pytest.raises(InputError, match=said):
        sharelag.summarize(AGES.runs)  # type: ignore[arg-type]


CHAPTERS = str(CAPTURE)
CAPTURES = sorted(
    path.parent for path in Path(__file__).parents[3].glob("data/captures/**/capture.json")
)


def equal(source: Input, choice: Choice | None = None) -> Result:
    """Assert that the brief answer is the same columns of the whole one; return it."""
    bench = Workbench(source, choice=choice or Choice(), engine="local", asks_once=True)
    brief, whole = bench.lag(brief=True), bench.refresh().lag()
    assert brief.table.equals(whole.table.select(BRIEF.names))
    assert (brief.rejected, brief.engine) == (whole.rejected, whole.engine)
    return brief


def test_a_recording_has_the_same_lag_in_brief() -> None:
    whole = readings.lag(CaptureInput(CAPTURES[0]), "local").table
    group, topic = (whole.column(name)[0].as_py() for name in ("group_id", "topic"))
    found = equal(CaptureInput(CAPTURES[0]), Choice(frozenset({group})))
    assert set(found.table.column("group_id").to_pylist()) == {group}
    assert equal(CaptureInput(CAPTURES[0]), Choice(topics={topic: frozenset()})).table.num_rows


def test_a_check_of_lag_alone_says_what_one_of_everything_says(cases: Cases) -> None:
    some = CAPTURES[: cases(3, len(CAPTURES))]
    lag = "{name: lag, measure: lag, warn: 1, critical: 100}"
    age = "{name: age, measure: age, warn: 1s}"
    for path in some:
        both = (parse_rules(f"version: 1\nrules: [{rules}]") for rules in (lag, f"{lag}, {age}"))
        alone, beside = (check(CaptureInput(path), rules, "local").table for rules in both)
        assert alone.equals(beside.filter(pc.equal(beside.column("rule"), "lag")))


def test_an_export_of_lag_alone_leaves_out_what_is_unknown(tmp_path: Path) -> None:
    texts = []
    for options in ((), ("--brief",)):
        file = tmp_path / "lag.prom"
        command(
            "export", "prometheus", "--textfile", str(file), *options, "--capture", CHAPTERS, code=0
        )
        lines = file.read_text("utf-8").splitlines()
        texts.append({line for line in lines if line.startswith("kafka_share_group_")})
    whole, brief = ({line for line in one if "_collect_" not in line} for one in texts)
    brief = {line for line in brief if "last_success" not in line}
    assert brief < whole
    names = {re.split("[{ ]", line)[0].removeprefix("kafka_share_group_") for line in brief}
    assert names == {
        *("as_of_timestamp_seconds", "lag", "start_offset", "delivery_complete_count"),
        *("sum_lag", "max_lag", "imbalance_ratio", "unknown_lags"),
    }


# ---- lag before Spark has started: of what, and what it leaves for the reading that follows ------
@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Write]:
    """What is written to a cluster, which may be more from one request to the next."""
    writes = [Write(500, 10)]
    records = WrittenInput(writes)

    def read(_: object, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[Any]:
        for first, end in spans.values() if topic == STATE_TOPIC else ():
            for batch in records.batches(topic):
                yield batch.slice(first, end - first)

    monkeypatch.setattr(topics, "offset_ranges", lambda *_: {0: (0, len(writes))})
    monkeypatch.setattr(topics, "read_topic", read)
    monkeypatch.setattr(topics, "topic_ids", lambda _: {TOPIC: TOPIC_ID})
    monkeypatch.setattr(topics, "list_offsets", lambda *_: records.offsets([TOPIC_ID]))
    return writes


def starts(lag: pa.Table) -> list[int]:
    found: list[int] = lag.column("start_offset").to_pylist()
    return found


def test_what_is_read_later_has_the_records_that_came_meanwhile(written: list[Write]) -> None:
    """End offsets are asked late: with an old end of the state, lag would be too much."""
    bench = Workbench(KafkaInput(client_config("localhost:9")), engine="local")
    here = bench.here()
    assert here is not None
    assert starts(here.lag().table) == [10]
    assert not {"state_ranges", "_ranges_for_size"} & set(vars(bench.source))
    written.append(Write(3, 6_000))
    assert starts(bench.reading.table("lag")) == [6_000]


def test_how_many_records_a_cluster_has_does_not_settle_what_is_read(written: list[Write]) -> None:
    """As where `auto` counts them, and Spark then takes its time to start."""
    source = KafkaInput(client_config("localhost:9"))
    assert (engines.choose("auto", source), source.size()) == ("local", 1)
    written.append(Write(3, 6_000))
    assert source.state_ranges == {0: (0, 2)}
    other = KafkaInput(client_config("localhost:9"))
    assert other.state_ranges == {0: (0, 2)}
    written.append(Write(2, 6_001))
    assert other.size() == 2  # of what is read, once that is known
    assert KafkaInput(client_config("localhost:9"), {0: (1, 8)}).size() == 7


@pytest.mark.parametrize(
    "name", ["catalog.lake.state", "share_state", "s3a://lake/state", "hdfs://lake/state"]
)
def test_what_only_spark_knows_waits_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def read(_: object, engine: str, *__: object) -> WrittenInput:
        asked.append(engine)
        raise InputError("read on Spark")

    monkeypatch.setattr("sharelag.inputs.local.list_raw", lambda path: asked.append(path))
    monkeypatch.setattr(engines, "read", read)
    bench = Workbench(RawInput(name), engine="spark")
    assert bench.here() is None
    with pytest.raises(InputError, match="read on Spark"):
        bench.lag()
    assert asked == ["spark"]


def test_only_known_few_are_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = folder_of("chapters")
    written, records = WrittenInput([Write(5, 1)]), tmp_path / "records.parquet"
    pq.write_table(pa.Table.from_batches(written.batches(STATE_TOPIC)), records)
    few: list[Input] = [CaptureInput(sample), RawInput(str(records)), written]
    assert [engines.is_faster_here(source) for source in few] == [True] * 3
    monkeypatch.setattr(engines, "FEW_RECORDS", 0)
    assert [engines.is_faster_here(source) for source in few] == [False] * 3


def test_records_that_nobody_has_counted_are_not_read_twice(tmp_path: Path) -> None:
    """A log directory and what tools printed may be of any size."""
    log = tmp_path / f"{STATE_TOPIC}-0"
    log.mkdir()
    (log / "00000000000000000000.log").touch()
    printed = tmp_path / "printed.txt"
    printed.write_text('{"key":{"version":0},"value":null}\n')
    assert is_printed(printed)
    for source in (SegmentsInput((tmp_path,)), PrintedInput(printed)):
        assert not engines.is_faster_here(source)
