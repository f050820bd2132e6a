"""Is the brief lag that of the whole answer, however it is found?"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import Result
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
from sharelag.wire import STATE_TOPIC
from sharelag.workbench import Workbench
from tests.support import readings
from tests.support.cases import Cases
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag as command
from tests.support.written_input import TOPIC, TOPIC_ID, Write, WrittenInput

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
