"""The answer is the same on every engine: recorded stories, random topics, users' DataFrames."""

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sharelag
from sharelag import charts, explain, schemas
from sharelag.cli.output import one_line
from sharelag.engine import engines
from sharelag.engine import spark as pipeline
from sharelag.engine.local import QuickReading
from sharelag.engine.spark.packing import REPLAYED
from sharelag.engine.spark.reading import SparkReading
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, RawInput
from sharelag.inputs.files import pieces
from sharelag.inputs.spark.files import raw_frame
from sharelag.metrics.health import gather, health_arrow
from sharelag.metrics.imbalance import imbalance_arrow
from sharelag.replay import replay_arrow
from sharelag.replay.columns import KEY, cut_by_share_partition
from sharelag.replay.history import history_arrow
from sharelag.replay.members import groups_arrow, members_arrow
from sharelag.replay.moment import Choice
from sharelag.tables.lines import plain_rows
from sharelag.whatif.designs import DESIGN_COSTS, design_costs
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_TOPIC, decode_arrow, encode_record
from tests.support import generators, readings
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.command import rows_of
from tests.support.own_process import run_python
from tests.support.parquet import flip_in_a_page
from tests.support.records import offsets, raw, raw_file, row, with_column

STORIES = sorted(path.parent.name for path in CAPTURE.parent.glob("scenarios/*/capture.json"))
#: Of each kind of trouble one; the others with --exhaustive.
FEW = ("aborted", "no_members", "poison", "window_full")
PATIENCE = timedelta(seconds=2.5)
#: How rows of health are sorted.
PLACE = (schemas.HEALTH, "topic", "partition")
#: What Spark raises for its workers, and its own reader through Py4J, which knows some errors only.
SPARK_FAILED = (PySparkException, Py4JError)


def tables(read: Any) -> dict[str, list[Any]]:
    """Return all tables of a reading, as plain rows in their order."""
    evidence = read.evidence
    each = ((name, one) for name, one in vars(evidence).items() if isinstance(one, pa.Table))
    found = {name: table.to_pylist() for name, table in each}
    found["causes"] = explain(evidence, PATIENCE).to_pylist()
    found["history"] = read.history().table.to_pylist()
    found["imbalance"] = read.imbalance().to_pylist()
    found["skew"] = read.skew().to_pylist()
    costs = read.over_records(design_costs, DESIGN_COSTS, evidence.lag)
    found["designs"] = costs.sort_by([(n, "ascending") for n in costs.schema.names]).to_pylist()
    found["counted"] = [read.record_counts]
    return found


def test_recorded_stories_are_the_same(spark: SparkSession, cases: Any) -> None:
    assert set(FEW) < set(STORIES)
    random = Random("moments of the stories")
    for story in cases(FEW, STORIES):
        source = CaptureInput(CAPTURE.parent / "scenarios" / story)
        counted = QuickReading(source).record_counts
        assert counted.first
        assert counted.last
        then = counted.first + random.uniform(0.3, 0.9) * (counted.last - counted.first)
        # With the full numbers, each story as of both moments.
        moments = cases([random.choice([None, then])], [None, then])
        for moment in moments:
            ours, theirs = QuickReading(source, moment), SparkReading(source, moment, spark=spark)
            found, wanted = tables(theirs), tables(ours)
            for name, table in wanted.items():
                assert found[name] == table, (story, moment, name)
            assert wanted["windows"], (story, moment)
            theirs.close()


def test_the_evidence_of_some_groups_is_the_same(spark: SparkSession) -> None:
    choice = Choice(frozenset({"billing", "fraud-check", "notifications"}))
    source, moment = CaptureInput(CAPTURE), dict.fromkeys(range(4), 200)
    theirs = SparkReading(source, moment, choice, spark=spark)
    found, wanted = tables(theirs), tables(QuickReading(source, moment, choice))
    for name, table in wanted.items():
        assert found[name] == table, name
    assert len(wanted["observed"]) > 10
    theirs.close()


def test_the_span_of_rates_does_not_depend_on_the_chosen_group(spark: SparkSession) -> None:
    source, choice = CaptureInput(CAPTURE), Choice(frozenset({"clickstream"}))
    whole = QuickReading(source).record_counts
    mine = SparkReading(source, None, choice, spark=spark)
    assert (mine.record_counts.first, mine.record_counts.last) == (whole.first, whole.last)
    assert 0 < mine.record_counts.records < whole.records
    assert mine.table("progress").equals(QuickReading(source, None, choice).table("progress"))
    mine.close()


def test_random_topics_are_the_same_then(spark: SparkSession, cases: Any, tmp_path: Path) -> None:
    random, rows = Random("topics on Spark"), 0
    for number in range(cases(1, 25)):
        made = generators.sequence(random, keys=5, length=60)
        made = [generators.damaged(random, one) if random.random() < 0.1 else one for one in made]
        batch = raw(made)
        if random.random() < 0.5:  # some of them are lost
            batch = batch.filter(pa.array([random.random() < 0.9 for _ in made]))
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), path)
        written = random.choice(batch.column("timestamp").drop_null().to_pylist())
        for moment in (None, {3: 100 + random.randrange(len(made))}, written):
            ours, theirs = (
                engines.read(RawInput(str(path)), name, moment) for name in ("local", "spark")
            )
            # Only the clock says when an input without offsets was read, so not all is the same.
            assert theirs.history().table.to_pylist() == ours.history().table.to_pylist()
            for name in ("windows", "gaps", "lag"):
                found, wanted = (read.table(name).to_pylist() for read in (theirs, ours))
                assert found == wanted, (number, moment, name)
            assert theirs.record_counts == ours.record_counts
            rows += theirs.table("windows").num_rows
            theirs.close()
    assert rows


@pytest.mark.parametrize("largest", few_of([0.0, 1.0], [0.0]), ids=["in parts", "whole"])
def test_windows_do_not_depend_on_how_files_are_divided_among_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, largest: float, cases: Any
) -> None:
    monkeypatch.setattr(pieces, "_TASK_BYTES", 1)
    monkeypatch.setattr(pieces, "_LARGEST_PART", largest)
    demo = pq.read_table(CAPTURE / "records")
    places = demo.group_by(["topic", "partition"]).aggregate([]).to_pylist()
    for number, place in enumerate(places):
        mine = [pc.equal(demo.column(name), value) for name, value in place.items()]
        path = tmp_path / f"{number:02d}.parquet"
        pq.write_table(demo.filter(pc.and_(*mine)), path, row_group_size=200)
    source = RawInput(str(tmp_path))
    planned = pieces.plan(source.parquet_files(STATE_TOPIC) or [], STATE_TOPIC)
    assert planned.whole == bool(largest)
    assert len(planned.tasks) > (1 if largest else 5)
    written = sorted(demo.column("timestamp").to_pylist())
    then = written[len(written) // 2]
    for moment in cases([then], [then, None, {0: 200, 1: 200}]):
        ours, theirs = (engines.read(source, name, moment) for name in ("local", "spark"))
        assert theirs.table("windows").to_pylist() == ours.table("windows").to_pylist()
        assert theirs.record_counts == ours.record_counts
        assert theirs.record_counts.records
        assert theirs.history().table.to_pylist() == ours.history().table.to_pylist()
        theirs.close()


def test_parts_of_records_have_whole_share_partitions() -> None:
    records = decode_arrow(pq.read_table(CAPTURE / "records")).records.select(
        REPLAYED[STATE_TOPIC].names
    )
    for most in (1, 40, 500, records.num_rows):
        parts = list(cut_by_share_partition(records, most))
        assert sum(part.num_rows for part in parts) == records.num_rows
        shares = [
            set(map(tuple, zip(*(p[name].to_pylist() for name in KEY), strict=True))) for p in parts
        ]
        assert sum(map(len, shares)) == len(set.union(*shares))
        assert (len(parts) > 1) == (most < records.num_rows)


def test_local_and_spark_give_the_same_health(spark: SparkSession) -> None:
    batches = list(CaptureInput(CAPTURE).batches(STATE_TOPIC))
    history = history_arrow(decode_arrow(pa.Table.from_batches(batches)).records)
    ours = health_arrow(gather(batches), 4, history)
    frame = spark.read.parquet(str(CAPTURE / "records")).repartition(7)
    theirs = pipeline.health(frame, 4)
    assert rows(theirs, *PLACE) == ours.to_pylist()
    assert min(ours.column("finished").to_pylist()) > 0
    plain = rows(pipeline.health(frame, {STATE_TOPIC: 3}), *PLACE)
    assert plain == health_arrow(gather(batches), {STATE_TOPIC: 3}, history).to_pylist()
    assert any(row["misplaced"] for row in plain)


def test_damaged_records_and_no_records_are_counted_the_same(spark: SparkSession) -> None:
    random = Random("spark health")
    records = [generators.record(random) for _ in range(300)]
    batch = raw([generators.damaged(random, r) if random.random() < 0.4 else r for r in records])
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).repartition(3)
    history = history_arrow(decode_arrow(batch).records)
    (ours,) = health_arrow(gather([batch]), history=history).to_pylist()
    assert rows(pipeline.health(frame), *PLACE) == [ours]
    assert ours["rejects"] > 0
    assert pipeline.health(frame.limit(0)).count() == 0


# ---- members, groups and imbalance ---------------------------------------------------------------
#: Two members of one group, one of which has just come.
MOMENT = datetime(2026, 11, 21, 11, 44, 30, 604_000, tzinfo=UTC)


@pytest.fixture(scope="module")
def records() -> pa.Table:
    batches = CaptureInput(CAPTURE).batches(GROUP_TOPIC)
    return pa.Table.from_batches([decode_arrow(batch, GROUP_TOPIC).records for batch in batches])


@pytest.fixture(scope="module")
def lag() -> pa.Table:
    return readings.lag(CaptureInput(CAPTURE), "local").table.select(schemas.LAG.names)


def frame(spark: SparkSession, table: pa.Table | pa.RecordBatch, pieces: int = 3) -> DataFrame:
    whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    return spark.createDataFrame(whole).repartition(pieces)


def rows(answer: DataFrame, schema: pa.Schema, *keys: str) -> list[dict[str, Any]]:
    table = answer.toArrow().cast(schema)
    return sorted(table.to_pylist(), key=lambda row: [str(row[key]) for key in keys])


def round_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Spark adds in another order."""
    return {name: round(v, 9) if isinstance(v, float) else v for name, v in row.items()}


@pytest.mark.parametrize(
    "as_of",
    [
        pytest.param(None, id="now"),
        pytest.param(MOMENT, marks=pytest.mark.exhaustive, id="time"),
        pytest.param({0: 130, 1: 95, 2: 10}, marks=pytest.mark.exhaustive, id="offsets"),
    ],
)
def test_members_and_groups_are_equal(spark: SparkSession, records: pa.Table, as_of: Any) -> None:
    shuffled = records.take(Random(4).sample(range(records.num_rows), records.num_rows))
    answer = pipeline.members(frame(spark, shuffled, 5), as_of)
    found = rows(answer, schemas.MEMBERS, "group_id", "member_id")
    assert found == members_arrow(records, as_of).to_pylist()
    answer = pipeline.groups(frame(spark, shuffled, 5), as_of)
    expected = groups_arrow(records, as_of).to_pylist()
    assert rows(answer, schemas.GROUPS, "group_id") == expected
    assert expected


@pytest.mark.parametrize(
    ("given", "by"),
    [((), None), (("members",), "member"), (("members", "groups", "observed", "past"), None)],
    ids=["lag", "members", "all"],
)
def test_imbalance_is_the_same_of_whatever_is_given(
    spark: SparkSession, records: pa.Table, lag: pa.Table, given: tuple[str, ...], by: str | None
) -> None:
    observed = [
        {name: row[name] for name in ("group_id", "topic_id", "partition")}
        | {"begin": MOMENT, "end": MOMENT + timedelta(hours=2), "finished": n * n}
        for n, row in enumerate(lag.to_pylist())
    ]
    past = CaptureInput(CAPTURE).offsets(lag.column("topic_id").to_pylist())
    earlier = pa.array([n % 7 * 10 for n in range(past.num_rows)], pa.int64())
    every: dict[str, Any] = {
        "members": members_arrow(records, MOMENT),
        "groups": groups_arrow(records, MOMENT),
        "observed": pa.Table.from_pylist(observed, schema=schemas.OBSERVED),
        "past": with_column(past, "end_offset", earlier),
    }
    tables = {name: every[name] for name in given}
    ours = imbalance_arrow(lag, **tables, by=by).to_pylist()
    frames = {name: frame(spark, table) for name, table in tables.items()}
    answer = pipeline.imbalance(frame(spark, lag), **frames, by=by)
    keys = ("group_id", "topic_id", "over", "measure")
    theirs = rows(answer, schemas.IMBALANCE, *keys)
    by_keys = sorted(ours, key=lambda row: [str(row[key]) for key in keys])
    assert [round_numbers(row) for row in theirs] == [round_numbers(row) for row in by_keys]
    measures = {row["measure"] for row in ours}
    if by is None:
        added = {"members": {"members", "partitions"}, "groups": set()}
        added |= {"observed": {"finished"}, "past": {"arrived"}}
        assert measures == {"lag"}.union(*(added[name] for name in given))


@pytest.fixture(scope="module")
def local_lag() -> list[dict[str, Any]]:
    return plain_rows(readings.lag(CaptureInput(CAPTURE), "local").table)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("empty", marks=pytest.mark.exhaustive),
        "rejects only",
        "nobody",
        pytest.param("long ago", marks=pytest.mark.exhaustive),
    ],
)
def test_empty_answers_are_equal_on_both(spark: SparkSession, case: str, tmp_path: Path) -> None:
    source: Any = CaptureInput(CAPTURE)
    moment = {0: -1} if case == "long ago" else None
    if case in ("empty", "rejects only"):
        records = [] if case == "empty" else [(b"\0\0", None), (b"\0\1x", b"")]
        source = RawInput(raw_file(tmp_path, raw(records)))
    for run in (readings.lag, readings.windows):
        if case == "nobody":
            for engine in ("local", "spark"):
                with pytest.raises(InputError, match="there is no state of share group 'nobody'"):
                    run(source, engine, choice=Choice(frozenset(["nobody"])))
            continue
        ours, theirs = run(source, "local", moment), run(source, "spark", moment)
        assert (ours.table.num_rows, ours.rejected) == (theirs.table.num_rows, theirs.rejected)
        assert (ours.table.num_rows, ours.rejected) == (0, 2 if case == "rejects only" else 0)


#: No task begins before both executors are there: then tasks are dealt out to them in turn.
_ON_CLUSTER = """
import json, os, sys
import sharelag
from sharelag.inputs.spark import session
from sharelag.tables.lines import plain_rows

both = {"spark_scheduler_minRegisteredResourcesRatio": "1.0"}
both["spark_scheduler_maxRegisteredResourcesWaitingTime"] = "120s"
spark = session("sharelag-cluster", spark_master="local-cluster[2,1,1024]", **both)
for row in plain_rows(sharelag.open("chapters", engine="spark").lag().table):
    print(json.dumps(row))
tasks = spark.sparkContext.parallelize(range(8), 8)
folders = tasks.map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"]).collect()
told = {"master": spark.sparkContext.master, "executors": len(set(folders))}
print(json.dumps(told), file=sys.stderr)
spark.stop()
"""


@pytest.mark.exhaustive  # on one machine: `test_equal.py`
def test_a_cluster_of_two_workers_gives_the_same_lag(local_lag: list[dict[str, Any]]) -> None:
    done = run_python("-c", _ON_CLUSTER)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert said == [{"master": "local-cluster[2,1,1024]", "executors": 2}]
    assert rows_of(done) == local_lag


def test_records_rejects_and_skipped_are_all_there_is(spark: SparkSession) -> None:
    random = Random("spark rejects")
    records = [generators.record(random) for _ in range(300)]
    records = [generators.damaged(random, r) if random.random() < 0.4 else r for r in records]
    batch = raw(records)
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).repartition(3)
    decoded, ours = sharelag.decode(frame), decode_arrow(batch)
    found = sorted(row.offset for row in decoded.records.select("offset").collect())
    assert found == sorted(ours.records["offset"].to_pylist())
    got = {row.offset: (row.reason, bytes(row.key), row.value) for row in decoded.rejects.collect()}
    want = {r["offset"]: (r["reason"], r["key"], r["value"]) for r in ours.rejects.to_pylist()}
    assert got == want
    # Some are of times that no calendar has.
    assert sharelag.windows(decoded.records).count() == replay_arrow(ours.records).num_rows
    groups = sharelag.decode(frame, GROUP_TOPIC)
    assert groups.records.count() == groups.rejects.count() == 0
    assert groups.records.columns == schemas.GROUP_RECORDS.names


@pytest.mark.row("FND-11")
def test_a_lag_of_ten_thousand_million_goes_through_spark_exactly(spark: SparkSession) -> None:
    snapshot = encode_record(SHARE_SNAPSHOT, row(7, []))
    frame = spark.createDataFrame(pa.Table.from_batches([raw([snapshot])]))
    ends = spark.createDataFrame(offsets(10**10 + 7))
    lag = sharelag.lag(sharelag.windows(sharelag.decode(frame).records), ends).toArrow()
    (plain,) = lag.to_pylist()
    assert (plain["lag"], plain["unread"]) == (10**10, 10**10)
    drawn = charts.decomposition_figure(charts.decomposition_records(lag))
    assert [list(bar.x) for bar in drawn.data if bar.name == "Unread"] == [[10**10]]
    assert "10,000,000,000" in drawn.layout.title.text


def test_a_time_without_its_zone_is_refused(spark: SparkSession) -> None:
    records = spark.createDataFrame([], schemas.spark_schema(schemas.RECORDS))
    of_groups = spark.createDataFrame([], schemas.spark_schema(schemas.GROUP_RECORDS))
    requested = {sharelag.windows: records, sharelag.members: of_groups, sharelag.groups: of_groups}
    for ask, frame in requested.items():
        said = "2026-11-21 00:00:00 has no time zone: add tzinfo=UTC"
        with pytest.raises(InputError, match=said):
            ask(frame, as_of=datetime(2026, 11, 21))
        with pytest.raises(InputError, match="'2026-11-21' has no time zone: add Z for UTC"):
            ask(frame, as_of="2026-11-21")


@pytest.mark.parametrize(
    "name", ["demoo", "no.such.table", "none.of.these.tables", "report.parquet"]
)
def test_a_mistyped_name_is_an_error_that_lists_the_names(spark: SparkSession, name: str) -> None:
    said = rf"^there is nothing at '{name}': .*Spark table.*samples: demo, "
    with pytest.raises(InputError, match=said):
        sharelag.open(name, spark=spark).lag()


def test_the_name_of_a_table_is_read_from_spark(spark: SparkSession) -> None:
    raw = spark.read.parquet(str(CAPTURE / "records")).limit(20)
    raw.createOrReplaceTempView("records_of_mine")
    try:
        assert sharelag.open("records_of_mine", spark=spark).frames.raw.count() == 20
    finally:
        spark.catalog.dropTempView("records_of_mine")


@pytest.fixture
def one_bit_off(tmp_path: Path) -> Path:
    """A capture with one flipped bit, by which it would be another one without checksums."""
    story = CAPTURE.parent / "scenarios" / "window_full"
    folder = Path(shutil.copytree(story, tmp_path / "flipped"))
    (path,) = folder.glob("records/*.parquet")
    whole, octets = pq.read_table(path), path.read_bytes()
    for seed in range(1000):
        path.write_bytes(octets)
        flip_in_a_page(path, Random(seed))
        with suppress(OSError, pa.ArrowException):
            found = pq.read_table(path)
            if not found.column("value").equals(whole.column("value")):
                return folder
    raise AssertionError("no flipped bit makes other values")


def test_spark_and_its_tasks_compare_checksums(spark: SparkSession, one_bit_off: Path) -> None:
    (path,) = map(str, one_bit_off.glob("records/*.parquet"))
    assert spark.read.parquet(path).toArrow().num_rows  # nobody asked it to
    with pytest.raises(SPARK_FAILED) as caught:
        raw_frame(spark, [path]).toArrow()
    assert f"{path} is damaged" in one_line(caught.value)
    with sharelag.open(str(one_bit_off), spark=spark) as bench:
        for ask in (bench.windows, bench.lag):
            with pytest.raises((InputError, *SPARK_FAILED)) as caught:
                ask()
            assert f"{path} is damaged" in one_line(caught.value)
            assert "CRC" in one_line(caught.value)
