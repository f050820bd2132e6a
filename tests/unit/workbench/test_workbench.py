"""One line opens any input; each answer shows the numbers of its table as HTML and text."""

import configparser
import gc
import json
import re
import sys
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
import sharelag_widgets
from sharelag import charts, schemas
from sharelag.engine.engines import read
from sharelag.errors import BrokerUnreachableError, ConfigError, InputError, SetupError
from sharelag.inputs import CaptureInput, KafkaInput, RawInput, SegmentsInput
from sharelag.inputs.recorded import folder_of
from sharelag.model import iso
from sharelag.schemas import SHARE_PARTITION, WINDOWS
from sharelag.tables.gaps import KAFKA_SETTING
from sharelag.tables.table import COLUMNS
from sharelag.tables.words import moment
from sharelag.wire import STATE_TOPIC
from sharelag.workbench import Result, Workbench
from sharelag.workbench.base import worst_first
from sharelag.workbench.result import load_view
from sharelag_widgets import dashboards
from tests.support import readings
from tests.support.command import ask
from tests.support.readings import open_once
from tests.support.widgets.samples import HOSTILE
from tests.support.written_input import Write, WrittenInput

DEMO = folder_of("chapters")
SECRET = "correct-horse-battery"
QUESTIONS = ["lag", "windows", "history", "timeline", "explain", "progress", "imbalance"]
QUESTIONS += ["members", "health", "reconcile", "settings"]


@pytest.fixture(scope="module")
def demo() -> Workbench:
    return open_once("chapters")


class Cells(HTMLParser):
    """The texts of a table's cells, row by row, and everything that is an element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data


# ---- what is opened ------------------------------------------------------------------------------
def test_what_is_there_decides_what_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharelag.inputs.spark.existing", lambda: None)
    raw = tmp_path / "raw.parquet"
    pq.write_table(schemas.RAW.empty_table(), raw)
    log = tmp_path / "log" / "__share_group_state-0"
    log.mkdir(parents=True)
    (log / "00000000000000000000.log").touch()
    kinds = {str(DEMO): CaptureInput, "poison": CaptureInput, str(raw): RawInput}
    kinds |= {str(tmp_path / "log"): SegmentsInput, "broker-1:9092,broker-2:9092": KafkaInput}
    kinds |= {"[::1]:9092": KafkaInput, "s3a://lake/state": RawInput}
    assert {where: type(sharelag.open(where, engine="local").source) for where in kinds} == kinds
    assert sharelag.open("lake.state", engine="spark").source == RawInput("lake.state")
    assert sharelag.open(DEMO, engine="local").source == CaptureInput(DEMO)
    assert sharelag.open(engine="local").source == CaptureInput(folder_of("demo"))


@pytest.mark.parametrize(
    ("where", "options", "what"),
    [
        ("nope", {"engine": "spark"}, "nothing at 'nope'.*HOST:PORT.*Spark table.*samples: demo"),
        (3, {}, "cannot open 3: give a cluster as HOST:PORT, a folder .*samples: demo"),
        (pa.table({}), {}, "cannot open a Table: give .*raw=DataFrame"),
        ("no-such-thing", {}, "nothing at 'no-such-thing'.*HOST:PORT.*poison"),
        (Path("no/such/folder"), {}, None),
        (
            "poison",
            {"properties": {"sasl.mechanism": "PLAIN"}},
            "only apply to a cluster, and poison is not one",
        ),
        ("poison", {"engine": "flink"}, "unknown engine 'flink': choose one of auto, local, spark"),
        ("poison", {"as_of": "yesterday"}, "invalid time 'yesterday'"),
        ("poison", {"as_of": datetime(2026, 11, 21)}, "has no time zone: add tzinfo=UTC"),
        ("broker:99999", {}, "invalid broker address"),
    ],
)
def test_unopened_says_what_to_give(where: Any, options: dict[str, Any], what: str | None) -> None:
    with pytest.raises((InputError, ConfigError), match=what):
        sharelag.open(where, **({"engine": "local"} | options)).lag()


def test_a_folder_of_something_else_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no capture, no archive, no Parquet files"):
        sharelag.open(tmp_path, engine="local")


def test_samples_are_named_with_what_happens_in_them() -> None:
    samples = sharelag.samples()
    assert (next(iter(samples)), len(samples)) == ("demo", 23)
    assert samples["burst"].startswith("Members keep up until a burst arrives")


def test_a_cluster_that_does_not_answer_is_a_sentence_without_any_client_setting() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    given["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{SECRET}";'
    )
    bench = sharelag.open("127.0.0.1:1", properties=given, timeout=0.5, engine="local")
    bundle = bench._repr_mimebundle_()
    assert bundle["text/plain"].startswith("cluster at 127.0.0.1:1: ")
    assert 'class="unknown"' in bundle["text/html"]
    shown = repr(bench) + repr(bench.source) + "".join(bundle.values())
    with pytest.raises(BrokerUnreachableError) as raised:
        bench.lag()
    assert SECRET not in shown + str(raised.value)
    assert "127.0.0.1:1" in shown
    assert "Traceback" not in shown


def test_clients_of_a_cluster_that_does_not_answer_are_released() -> None:
    def look_again() -> int:
        with pytest.raises(BrokerUnreachableError):
            sharelag.open("127.0.0.1:1", timeout=0.5, engine="local").lag()
        gc.collect()
        names = (file.read_text() for file in Path("/proc/self/task").glob("*/comm"))
        return sum(name.startswith("rdk:") for name in names)  # threads of librdkafka

    assert look_again() >= look_again()


def test_a_capture_that_is_not_there_can_be_looked_at(tmp_path: Path) -> None:
    bench = sharelag.open(tmp_path / "gone", engine="local")
    assert "no capture at" in repr(bench)
    assert "no capture at" in bench._repr_mimebundle_()["text/html"]


# ---- what is answered ----------------------------------------------------------------------------
def test_answers_are_those_of_the_functions(demo: Workbench) -> None:
    source = CaptureInput(DEMO)
    lag = demo.lag().table
    with read(source, "local") as begun:
        assert lag.equals(begun.table("lag"))
        windows = demo.windows().table.sort_by([(name, "ascending") for name in SHARE_PARTITION])
        assert windows.select(WINDOWS.names).equals(begun.table("windows"))
    assert demo.history().table.equals(readings.history(source, "local").table)
    sums = demo.lag(by="group").table
    assert {row["group_id"]: row["lag"] for row in sums.to_pylist()} == {
        group: pc.sum(lag.filter(pc.equal(lag.column("group_id"), group)).column("lag")).as_py()
        for group in demo.groups
    }
    assert demo.groups == tuple(sums.column("group_id").to_pylist())
    assert demo.lag("billing").table.equals(lag.filter(pc.equal(lag.column("group_id"), "billing")))


def test_a_moment_of_the_past_is_another_workbench(demo: Workbench) -> None:
    at = demo.history().table.column("record_timestamp")
    first, last = pc.min(at).as_py(), pc.max(at).as_py()
    middle = (first + (last - first) / 2).replace(microsecond=0)
    then = demo.at(iso(middle))
    assert then.lag().as_of == middle
    changed = {row["change"] for row in demo.diff(iso(middle)).table.to_pylist()}
    assert changed >= {"moved", "same"}
    assert then.windows().table != demo.windows().table
    assert (
        any("settings, retention" in one for one in then.explain().unknown)
        or not demo.evidence().settings.num_rows
    )
    assert demo.at({0: 10}).windows().table.num_rows < demo.windows().table.num_rows
    with pytest.raises(InputError, match="has no time zone: add tzinfo=UTC"):
        demo.at(middle.replace(tzinfo=None))


def test_a_time_of_any_zone_is_that_time(demo: Workbench) -> None:
    records = demo.history("billing").table.column("record_timestamp")
    utc, here = records[len(records) // 2].as_py(), ZoneInfo("Asia/Tokyo")
    questions: list[Callable[[datetime], Result]] = [
        lambda at: demo.at(at).lag(),
        lambda at: demo.at(at).explain("billing"),
        demo.diff,
        lambda at: demo.history("billing", since=at),
        lambda at: demo.events("billing", since=at),
        lambda at: demo.timeline("billing", since=at),
        lambda at: demo.plan_reset("billing", to=at),
    ]
    for question in questions:
        first = question(utc)
        for at in (utc.astimezone(here), pd.Timestamp(utc), pd.Timestamp(utc).tz_convert(here)):
            found = question(at)
            assert (found.table, repr(found)) == (first.table, repr(first))


def test_each_question_is_read_once_and_anew_after_a_refresh() -> None:
    found = WrittenInput([Write(5, 10), Write(3, 12)])
    bench = Workbench(found, engine="local")
    for _ in range(2):
        bench.lag()
        bench.explain()
        bench.progress("billing")
        bench.windows()
        bench.group_states()  # without any record of them, they are not read again for that
    assert found.asked == ["__share_group_state", "__consumer_offsets"]
    bench.refresh().explain()
    assert len(found.asked) == 4


def test_windows_of_many_moments_end_with_the_last(demo: Workbench) -> None:
    moments = demo.moments("fraud-check", most=np.int64(25)).table  # type: ignore[arg-type]
    times = sorted(set(moments.column("as_of").to_pylist()))
    assert len(times) == 25
    last = moments.filter(pc.equal(moments["as_of"], pa.scalar(times[-1], schemas.TIMESTAMP)))
    names = ["partition", "start_offset", "window_end_offset", "runs"]
    order = [("partition", "ascending")]
    now = demo.windows("fraud-check").table
    assert last.sort_by(order).select(names).equals(now.sort_by(order).select(names))
    at = times[10]
    then = demo.at(at).windows("fraud-check").table.sort_by(order)
    shown = moments.filter(pc.field("as_of") == pa.scalar(at, schemas.TIMESTAMP)).sort_by(order)
    assert shown.select(names).equals(then.select(names))


def test_a_young_group_among_old_ones_has_a_timeline_of_its_own_span() -> None:
    """Its step is short, and the records of the others begin long before."""
    young = [Write(4 - n, n, group="young", partition=1, made_ago=4) for n in range(4)]
    source = WrittenInput([Write(500, 1, group="old"), *young], partitions_of_topic=2)
    bench = Workbench(source, engine="local").only("young")
    times = bench.timeline("young").table.column("as_of").to_pylist()
    assert 55 <= len(set(times)) <= 61
    assert max(times) - min(times) <= timedelta(seconds=5)
    # Since long before it began, moments are further apart, not more.
    assert bench.timeline("young", since=max(times) - timedelta(seconds=400)).table.num_rows
    assert bench.dashboard("young").header.failure == ""


def test_a_timeline_has_sixty_steps_over_the_span_of_the_rates(poison: Workbench) -> None:
    result = poison.timeline()
    times = sorted(set(result.table.column("as_of").to_pylist()))
    assert 50 <= len(times) <= 61
    assert result.as_of == poison.evidence().as_of
    assert len(set(poison.timeline(every="1s").table.column("as_of").to_pylist())) < len(times)


def test_between_two_equal_ends_a_timeline_knows_them_as_a_moment_does(demo: Workbench) -> None:
    ends = demo.source.offsets(demo.reading.topic_ids)
    times = ends.column("as_of")
    before = pc.subtract(times, pa.scalar(timedelta(minutes=1), pa.duration("ms")))
    ends = pa.concat_tables(
        [ends.set_column(ends.column_names.index("as_of"), "as_of", before), ends]
    )
    raw = pa.Table.from_batches(demo.source.batches(STATE_TOPIC))
    bench = sharelag.open(raw=raw, offsets=ends, engine="local")
    last = pc.max(times).as_py()
    timeline = bench.timeline(every="20s", since=last - timedelta(minutes=1))
    assert timeline.unknown == ()
    for at in (last - timedelta(seconds=40), last - timedelta(seconds=20)):
        then = timeline.table.filter(pc.equal(timeline.table.column("as_of"), pa.scalar(at)))
        same = bench.at(at).lag().table.select(["end_offset", "lag"]).to_pylist()
        assert then.num_rows
        assert then.select(["end_offset", "lag"]).to_pylist() == same
        assert bench.at(at).timeline(every="5s", since="15s").unknown == ()


def test_a_sample_is_judged_by_its_own_patience(poison: Workbench) -> None:
    (cause,) = poison.explain().table.to_pylist()
    assert cause["cause"] == "poison_records"
    assert "warning: poison records " in repr(poison.explain())


def test_a_group_whose_age_is_known_in_part_has_none() -> None:
    writes = [Write(50, 10), Write(50, 10, partition=1)]
    bench = Workbench(
        WrittenInput(writes, partitions_of_topic=2, unreachable=frozenset({1})), engine="local"
    )
    rows = bench.progress().table.to_pylist()
    ages = {row["partition"]: row["age_ms"] for row in rows}
    assert ages[0] > 0
    assert ages[1] is None
    overview = bench.overview()  # the one of unknown age may be the oldest
    assert overview.table.column("age_ms").to_pylist() == [None]
    lag, age, *_ = overview.unknown
    assert lag.startswith("the lag in 1 of 2 share partitions (the end offset could not be read")
    assert age.startswith("the age in 1 of 2 share partitions (a start or end offset, or")


def test_what_is_known_in_part_is_said_to_be_of_every_group() -> None:
    writes = [Write(50, 10), Write(50, 10, partition=1), Write(50, 10, partition=2)]
    source = WrittenInput(writes, partitions_of_topic=3, unreachable=frozenset({2}))
    bench = Workbench(source, engine="local")
    (group,) = bench.explain().summaries
    assert "lag 14,380 (+1 unknown) in 3 share partitions, oldest 1h 59m or more" in group.state
    (verdict,) = bench.imbalance().notes
    assert verdict.endswith("evenly (it is unknown in 1 of 3 share partitions)")
    partial = bench.imbalance()
    lacking = sum(row["unknown"] > 0 for row in partial.table.to_pylist())
    said = f"a part of the load in {lacking} of {len(partial.table)} rows"
    assert lacking > 0
    assert said in partial.unknown
    said = "the lag in 1 of 3 share partitions (the end offset could not be read from"
    for answer in ("lag", "explain", "imbalance", "skew", "group_states", "brokers", "overview"):
        assert any(one.startswith(said) for one in bench.ask(answer).unknown), answer


def test_a_group_that_lags_is_not_fine_where_nothing_tells_whether_its_lag_grows() -> None:
    """Files of records and end offsets alone tell neither what came before nor when."""
    behind = [Write(ago, 3000 - ago, group="behind") for ago in range(2000, 0, -100)]
    told = WrittenInput([*behind, Write(1000, 10, group="done"), Write(10, 7200, group="done")])
    raw = pa.Table.from_batches(told.batches(STATE_TOPIC), schemas.RAW)
    ends = told.offsets([]).set_column(4, "end_offset", pa.array([7200], pa.int64()))
    bench = sharelag.open(raw=raw, offsets=ends, engine="local")
    levels = {row["group_id"]: row["level"] for row in bench.overview().table.to_pylist()}
    assert levels == {"behind": "unknown", "done": "ok"}
    assert bench.overview().title.endswith("in 2 share groups, but 1 could not be fully judged.")
    lags, done = (group.state for group in bench.explain().summaries)
    assert lags == (
        "lag 4,300 in 1 share partition, age unknown, nothing found, but not all is known: how "
        "fast records arrive or are finished is unknown"
    )
    assert done.endswith("nothing wrong")


def test_a_moment_later_than_all_that_was_given_is_answered_in_part(demo: Workbench) -> None:
    """Nothing was recorded of the span between, so nothing says that it was quiet."""
    records, ends = (pq.read_table(DEMO / name) for name in ("records", "offsets.parquet"))
    last = pc.max(ends.column("as_of")).as_py()
    for later, given in ((0, ends), (1, ends), (1, ends.slice(0, 0))):
        moment = last + timedelta(seconds=later)
        bench = sharelag.open(raw=records, offsets=given, engine="local", as_of=moment)
        said = [one for one in bench.lag().lacks if one.startswith("what happened from ")]
        assert len(said) == later
        for one in said:
            assert one.endswith(f", to {iso(moment)}")
            assert (iso(last) in one) == bool(len(given))  # else the last record is named
    assert "what happened from" not in " ".join(demo.at(last).lag().lacks)
    current = [["current" in one for one in on.explain().unknown] for on in (bench, demo.at(last))]
    assert [any(one) for one in current] == [False, True]  # records alone have no settings at all


def test_topics_that_are_not_there_are_named(demo: Workbench) -> None:
    for topics, lacking in (
        (["nope"], "nope"),
        (["clicks", "nope"], "nope"),
        ({"clicks": [0, 9], "emails": []}, "clicks:9"),
    ):
        bench = sharelag.open("demo", engine="local", topics=topics)
        for answer in (bench.lag(), bench.explain(), bench.members()):
            assert any(f"no share partition of {lacking} was found" in one for one in answer.notes)
    assert not demo.lag().notes
    # A group has no state of each topic, and none of any had some at each moment.
    both = sharelag.open("chapters", engine="local", topics=["orders", "clicks"])
    then = both.at("2026-11-21T11:40:00Z")
    for answer in (both.explain("billing"), both.only("billing").lag(), then.lag()):
        assert not any("was found" in one for one in answer.notes)


def test_a_group_that_was_deleted_has_a_past() -> None:
    bench = sharelag.open("chapters", engine="local")
    every: dict[str, dict[str, Any]] = {"history": {}, "events": {}, "timeline": {"every": "1s"}}
    for name, given in every.items():
        for asked, chosen in ((bench, {"group": "trial"}), (bench.only("trial"), {})):
            mine = getattr(asked, name)(**chosen, **given).table
            assert mine.num_rows >= 7
            assert {*mine.column("topic").to_pylist()} == {"clicks", "shipments"}
        for answer in (partial(getattr(bench, name), "tril"), getattr(bench.only("tril"), name)):
            with pytest.raises(InputError, match="no state of share group 'tril'"):
                answer()
    assert bench.only("trial").reading.now == bench.reading.now
    assert {*bench.moments("trial").table.column("topic").to_pylist()} == {"clicks", "shipments"}
    gone = bench.only("trial").diff("2026-11-21T11:44:00Z").table
    assert gone.column("change").to_pylist() == ["gone"] * 7


def test_members_that_joined_before_there_was_state_are_events() -> None:
    then = open_once("demo").at("2026-11-23T11:50:06.5Z")
    for mine in (then.events("notifications"), then.only("notifications").events()):
        assert mine.table.column("event").to_pylist() == ["member joined"] * 2


# ---- how it looks --------------------------------------------------------------------------------
def test_tab_completes_what_people_ask_and_nothing_of_the_inside(demo: Workbench) -> None:
    names = {name for name in dir(demo) if not name.startswith("_")}
    assert names >= {"lag", "explain", "plan_reset", "frames", "sql", "at", "source"}
    assert names.isdisjoint({"ask", "base", "keep", "asks_once", "require_group", "state_of"})
    assert {name for name in names if not hasattr(demo, name)} == set()


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["demo", "poison"])
def test_html_and_text_say_one(name: str, question: str, request: pytest.FixtureRequest) -> None:
    result: Result = getattr(request.getfixturevalue(name), question)()
    html, text = result._repr_html_(), repr(result)
    cells = Cells(html)
    said = [cell for row in cells.rows for cell in row]
    for cell in said:
        assert " ".join(cell.split()) in " ".join(text.split())
    assert (len(cells.rows) > 1) == (len(result) > 0 and not result.summaries)
    assert moment(result.as_of) in html
    assert moment(result.as_of) in text
    assert not cells.tags & {"script", "img", "iframe", "link"}
    for one in result.unknown:
        assert one in text
    assert set(result.columns.values()) <= set(COLUMNS)


def test_offsets_units_and_what_is_unknown_are_there(demo: Workbench) -> None:
    result, found = demo.lag(), json.loads((DEMO / "capture.json").read_text("utf-8"))
    text = repr(result)
    row = max((one for one in result.table.to_pylist() if one["lag"]), key=lambda one: one["lag"])
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    assert re.search(" +".join(str(row[name]) for name in names) + " ", text)
    assert "not known: the lag in 5 of 32 share partitions (no record has been finished or" in text
    assert text.endswith(
        f"capture of {found['cluster_id']} at {found['as_of'][:19]}Z, local engine"
    )
    html = result._repr_html_()
    assert "1100" in html  # an offset, as commands take it
    assert "1,100" not in html
    assert "end offset - start offset - delivery complete count (KIP-1226), in offsets" in html
    assert "<summary>What the columns mean</summary>" in html


def test_a_dash_says_why(demo: Workbench) -> None:
    html = demo.lag("analytics")._repr_html_()
    assert 'released yet, so the start offset is unknown"><bdi>-</bdi>' in html


def test_long_tables_say_what_is_left_out(demo: Workbench) -> None:
    result = demo.lag()
    assert "and 22 more rows in .table; shown are those with the largest LAG" in result.to_text(10)
    cells = Cells(result.to_html(10)).rows[1:]
    largest = sorted(
        (lag for lag in result.table.column("lag").to_pylist() if lag is not None), reverse=True
    )[:10]
    assert [int(row[5].replace(",", "")) for row in cells] == largest
    assert "more" not in result.to_text(32)


def test_a_window_of_many_runs_stays_readable(demo: Workbench) -> None:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    runs = [dict(zip(names, (n, n, n % 2 * 2, 1), strict=True)) for n in range(5000)]
    window = demo.windows("billing").table.slice(0, 1).to_pylist()[0] | {"runs": runs}
    table = pa.Table.from_pylist([window], demo.windows("billing").table.schema)
    result = replace(demo.windows("billing"), table=table)
    assert "5:acknowledged/1 and 4,994 more" in repr(result)
    assert len(repr(result)) < 1500


def test_hostile_names_are_text_everywhere() -> None:
    writes = [Write(5, 10, group=HOSTILE), Write(3, 12, ((12, 14, 0, 1),), group=HOSTILE)]
    bench = Workbench(WrittenInput(writes), engine="local")
    assert bench.groups == (HOSTILE,)
    for question in QUESTIONS:
        result: Result = getattr(bench, question)()
        cells = Cells(result._repr_html_())
        assert not cells.tags & {"img", "script"}
        assert not [name for name, _ in cells.attributes if name.startswith("on")]
        assert "\u202e" not in result._repr_html_() + repr(result)
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e" in bench.lag(HOSTILE)._repr_html_()
    assert "\\u202e" in repr(bench.explain())


def test_nothing_there_is_said(tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    pq.write_table(schemas.RAW.empty_table(), empty)
    bench = sharelag.open(empty, engine="local")
    for question in (
        *("lag", "windows", "history", "timeline", "explain", "progress"),
        *("imbalance", "events", "members", "reconcile", "health", "snapshots"),
    ):
        result: Result = getattr(bench, question)()
        assert "nothing to show" in repr(result), question
        assert KAFKA_SETTING in repr(result), question  # Spark's source may have left them out
        assert "Nothing to show." in result._repr_html_(), question
    with pytest.raises(InputError, match=re.escape(KAFKA_SETTING)):
        bench.explain("billing")
    of_table = sharelag.open(raw=schemas.RAW.empty_table(), engine="local")
    assert KAFKA_SETTING in repr(of_table.lag())
    before = repr(bench.at("2020-01-01T00:00:00Z").lag())
    assert KAFKA_SETTING not in before
    assert "nothing was written in that time" in before
    elsewhere = repr(Workbench(WrittenInput([]), engine="local").lag())
    assert KAFKA_SETTING not in elsewhere
    assert "none has consumed anything yet" in elsewhere


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_chart_can_be_drawn_in_both_themes(question: str, poison: Workbench) -> None:
    result: Result = getattr(poison, question)()
    for kind in result.charts:
        for theme in ("light", "dark"):
            assert result.figure(kind, theme).layout.meta["title"]


def test_a_simulation_begins_where_the_group_is(poison: Workbench) -> None:
    scenario = poison.scenario("poison", duration_ms=1000)
    assert (scenario.group_id, scenario.duration_ms) == ("poison", 1000)
    assert scenario.assumed


def test_settings_are_those_of_the_command(demo: Workbench) -> None:
    name = "share.delivery.count.limit"
    here = ("settings", "--capture", str(DEMO), "--engine", "local")
    checked = demo.settings(given={name: 1})
    assert checked.table.to_pylist() == ask(*here, "--set", f"{name}=1", code=1)
    shown = checked.to_text(3).splitlines()
    assert all(name in line for line in shown[2:5])
    assert "more rows in .table; shown are those with a PROBLEM" in checked.to_text(3)
    both = {"share.delivery.count.limit": 7, "share.isolation.level": "read_committed"}
    assumed, *refusals, note = demo.settings("billing", given=both).notes
    assert assumed.startswith("Checked as Kafka ")
    assert all(" would refuse that (share.delivery.count.limit: " in one for one in refusals)
    assert note.startswith("Kafka's command: kafka-configs.sh --bootstrap-server HOST:PORT ")
    values = "share.delivery.count.limit=7,share.isolation.level=read_committed"
    assert note.endswith(f"--entity-name billing --alter --add-config {values}")
    assert "Settings of 1 share group and" in demo.settings("billing").title
    drift = demo.settings_drift(open_once("slow"))
    assert drift.table.to_pylist() == ask(*here, "--before", "slow") != []
    unread = Workbench(WrittenInput([Write(5, 10)]), engine="local")
    assumed = "the settings (Kafka's defaults are assumed)"
    assert assumed in demo.settings_drift(unread).unknown
    assert assumed not in drift.unknown
    of_one = demo.settings("billing").table
    assert set(of_one.column("group_id").to_pylist()) == {"billing", None}
    assert not of_one.column("problem").drop_null().to_pylist()


def test_results_flow_on_into_pandas_and_pictures(demo: Workbench) -> None:
    lag = demo.lag()
    assert lag["lag"].tolist()[-1] == lag.df["lag"].tolist()[-1]
    assert lag["lag"].sum() == sum(filter(None, lag.table.column("lag").to_pylist()))
    drawn = lag.plot("spans")
    assert drawn.figure.to_dict() == lag.figure("spans").to_dict()
    assert drawn.alt == lag.figure("spans").layout.meta["title"]


def test_a_strip_is_of_one_group_and_marks_last_deliveries() -> None:
    bench = open_once("poison")
    group, topic = "poison", "poison-orders"
    strip = bench.strip(group)
    assert (strip.limit, bench.strip(group, topic, title="mine").title) == (5, "mine")


def test_windows_begin_with_what_the_first_cause_names() -> None:
    """One order of orders-0 is stuck; other partitions have as much lag, and nothing wrong."""
    bench = open_once("demo")
    (cause,) = bench.explain("billing").table.to_pylist()
    lag = bench.lag("billing").table.sort_by([("lag", "descending")]).to_pylist()
    assert (cause["cause"], cause["topic"], cause["partition"]) == ("head_of_line", "orders", 0)
    assert lag[0]["partition"] != 0
    ordered = worst_first(bench.lag().table, bench.evidence(), "billing").to_pylist()
    found = [row["partition"] for row in ordered[:4]]
    assert found == [0, *(row["partition"] for row in lag if row["partition"])]


ROOT = Path(__file__).parents[3]


def test_the_widgets_register_the_views_that_a_workbench_asks_for() -> None:
    assert load_view("PlotView") is sharelag_widgets.PlotView
    assert load_view("WindowStrip") is sharelag_widgets.WindowStrip
    assert load_view("Now") is dashboards.Now


def test_a_checkout_registers_what_the_wheel_does() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    checkout = configparser.ConfigParser()
    checkout.optionxform = str  # type: ignore[assignment,method-assign]  # names have capitals
    checkout.read(ROOT / "widgets" / "sharelag_widgets.dist-info" / "entry_points.txt", "utf-8")
    assert {"sharelag.views": dict(checkout["sharelag.views"])} == wheel


@pytest.mark.parametrize("missing", ["sharelag_widgets", "anywidget"])
def test_without_the_widgets_there_is_advice(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "sharelag_widgets":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SetupError, match=r"the widgets are not installed here: pip install"):
        load_view("PlotView")


def test_a_view_that_nothing_registers_is_no_view() -> None:
    with pytest.raises(SetupError, match="the widgets are not installed here"):
        load_view("PlotViews")


def test_the_former_name_of_the_charts_says_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    former = ".".join(["sharelag", "workbench", "charts"])
    monkeypatch.delitem(sys.modules, former, raising=False)
    with pytest.warns(DeprecationWarning, match=r"is now sharelag\.charts$"):
        found = import_module(former)
    assert found is charts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(callable(getattr(charts, name)) for name in charts.__all__)
