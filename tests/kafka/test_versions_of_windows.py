"""Windows have the batches of the input's version of Kafka, to the boundary."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag import schemas
from sharelag.inputs.files.captures import CaptureInfo, write_capture
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, encode_record
from tests.support import generators
from tests.support.captures import describe
from tests.support.chapters import CAPTURE
from tests.support.command import ask
from tests.support.command import sharelag as command
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION, PREVIOUS_VERSION
from tests.support.kafka.oracles import Oracle, hexed
from tests.support.kafka.workload import OF_KAFKA, produce, read_in_part
from tests.support.records import NOW, raw, row

#: The batches of each share partition, as Kafka's classes write its key.
Held = dict[str, list[list[int]]]

ENGINES = ["local", "spark"]
#: The classes of both versions judge replays in test_wire_against_kafka.py, too.
PREVIOUS = pytest.param(PREVIOUS_VERSION, marks=pytest.mark.exhaustive)
BY_SPARK = pytest.param("spark", marks=pytest.mark.exhaustive)
#: The number of tagged fields of a value is negative: no broker writes that.
NEGATIVE = bytes.fromhex("ffffffff0f")


@pytest.fixture(scope="module", params=[PREVIOUS, KAFKA_VERSION])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    # A coordinator that cannot read a record does not load; what it can read shows all the same.
    with Oracle("ReplayOracle", "--keep-going", version=request.param) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def drawn() -> pa.RecordBatch:
    """Snapshots, updates and tombstones, and writes in order as a leader makes them."""
    random = Random("by version")
    records = generators.sequence(random, keys=60, length=2500)
    for n in range(120):
        kinds = [SHARE_SNAPSHOT] + [SHARE_UPDATE] * 30
        writes = [(0, []), *generators.ordered_sequence(random)]
        records += [
            encode_record(kind, row(start, batches, group_id=f"ordered-{n}"))
            for kind, (start, batches) in zip(kinds, writes, strict=False)
        ]
    return raw(records)


def captured(folder: Path, records: pa.RecordBatch, version: str | None) -> Path:
    info = CaptureInfo("cluster", NOW, {STATE_TOPIC: 4}, kafka_version=version)
    tables = {"offsets": schemas.OFFSETS.empty_table()}
    write_capture(folder, [records], lambda _: (tables, info))
    return folder


def held(windows: pa.Table) -> Held:
    rows = windows.select(["group_id", "topic_id", "partition", "batches"]).to_pylist()
    return {
        f"{one['group_id']}:{one['topic_id']}:{one['partition']}": [
            list(batch.values()) for batch in one["batches"]
        ]
        for one in rows
    }


def judged(oracle: Oracle, records: pa.RecordBatch) -> Held:
    """What the coordinator of the oracle's version holds, by state partition."""
    found: Held = {}
    places = records.column("partition").to_pylist()
    columns = (records.column(name).to_pylist() for name in ("offset", "key", "value"))
    rows = list(zip(places, *columns, strict=True))
    for place in sorted(set(places)):
        mine = sorted(one[1:] for one in rows if one[0] == place)
        question = hexed([one[1:] for one in mine], begin=mine[0][0])
        states = oracle.ask(question)["states"]
        found |= {key: state["batches"] for key, state in states.items()}
    return found


def equal_neighbours(batches: Held) -> int:
    return sum(
        a[1] + 1 == b[0] and a[2:] == b[2:] for mine in batches.values() for a, b in pairwise(mine)
    )


@pytest.mark.parametrize("engine", ["local", BY_SPARK])
def test_a_capture_has_the_boundaries_of_the_version_that_it_notes(
    engine: str, oracle: Oracle, drawn: pa.RecordBatch, tmp_path: Path, spark: SparkSession
) -> None:
    folder = captured(tmp_path / "noted", drawn, oracle.version)
    theirs = judged(oracle, drawn)
    with sharelag.open(folder, engine=engine, spark=spark) as bench:
        assert held(bench.windows().table) == theirs
        if engine == "spark":
            assert held(bench.frames.windows.toArrow()) == theirs
        # As of an offset of the past, and after each of some records.
        middle = drawn.num_rows // 2
        before = judged(oracle, drawn.slice(0, middle))
        assert held(bench.at({3: 99 + middle}).windows().table) == before
        moments = bench.moments("ordered-7").table
        assert moments.num_rows > 5
        place = drawn.column("timestamp").to_pylist()
        for at in moments.column("as_of").unique().to_pylist():
            then = moments.filter(pc.equal(moments.column("as_of"), at))
            so_far = judged(oracle, drawn.slice(0, place.index(at) + 1))
            assert held(then) == {key: so_far[key] for key in held(then)}


def test_an_unknown_version_is_like_the_newest(drawn: pa.RecordBatch, tmp_path: Path) -> None:
    found = {}
    for version in (PREVIOUS_VERSION, KAFKA_VERSION, None):
        folder = captured(tmp_path / str(version), drawn, version)
        found[version] = {
            f"{one['group_id']}:{one['topic_id']}:{one['partition']}": one["batches"]
            for one in ask("windows --capture", str(folder))
        }
    apart, joined = found[PREVIOUS_VERSION], found[KAFKA_VERSION]
    assert found[None] == joined
    assert sum(apart[key] != joined[key] for key in joined) > 3
    assert equal_neighbours(apart) > equal_neighbours(joined)


@pytest.mark.parametrize("engine", ["local", BY_SPARK])
def test_recorded_batches(engine: str, oracle: Oracle, tmp_path: Path, spark: SparkSession) -> None:
    recorded = [CAPTURE] if engine == "spark" else [CAPTURE, *CAPTURE.parent.glob("scenarios/*")]
    for number, capture in enumerate(recorded):
        folder = tmp_path / str(number)
        shutil.copytree(capture, folder)
        describe(folder, kafka_version=oracle.version)
        with sharelag.open(folder, engine=engine, spark=spark) as bench:
            records = pa.Table.from_batches(bench.source.batches(STATE_TOPIC))
            state = records.filter(pc.equal(records.column("topic"), STATE_TOPIC))
            theirs = judged(oracle, state.combine_chunks().to_batches()[0])
            assert held(bench.windows().table) == theirs
            assert theirs or capture.name == "not_started"


def negative(record: generators.Record, behind: int) -> generators.Record:
    """Return a record in whose value the empty section of tags so many bytes from its end is -1."""
    key, value = record
    assert value is not None
    at = len(value) - behind
    assert value[at] == 0
    return key, value[:at] + NEGATIVE + value[at + 1 :]


def many(record: generators.Record) -> generators.Record:
    """Return a record with 10,001 tags that nobody knows instead of none."""
    key, value = record
    assert value is not None
    assert value[-1] == 0
    tags = (bytes([128 | n & 127, 128 | n >> 7 & 127, n >> 14, 0]) for n in range(1, 10_002))
    return key, value[:-1] + b"\x91\x4e" + b"".join(tags)


@pytest.mark.parametrize("engine", ["local", BY_SPARK])
def test_number_of_tags(engine: str, oracle: Oracle, tmp_path: Path, spark: SparkSession) -> None:
    begun = encode_record(SHARE_SNAPSHOT, row(0, [(0, 9, 0, 1)]))
    unknown = {"delivery_complete_count": None}
    states = (row(start, [(start, start + 1, 2, 1)], **unknown) for start in (3, 5, 7, 9))
    updates = [encode_record(SHARE_UPDATE, state) for state in states]
    # Of the value, and of its only batch, behind which the value has its own.
    odd = [begun, updates[0], negative(updates[1], 1), negative(updates[2], 2), many(updates[3])]
    theirs = judged(oracle, raw(odd))
    refused = 3 if oracle.version == KAFKA_VERSION else 0
    # A large topic is read by compiled passes.
    whole = [*odd, *(encode_record(SHARE_UPDATE, row(-1, [])) for _ in range(12_000))]
    for name, records in (("few", odd), ("many", whole)):
        folder = captured(tmp_path / name, raw(records), oracle.version)
        with sharelag.open(folder, engine=engine, spark=spark) as bench:
            brief = bench.lag(brief=True).table.column("start_offset").to_pylist()
            assert (brief, held(bench.windows().table)) == ([3 if refused else 9], theirs)
            counted = "".join(bench.windows().unknown)
            assert f"{refused} records that could not be decoded" in counted or not refused
            assert bench.health().table.column("rejects").to_pylist() == [refused]
            if engine == "spark":
                frame = bench.frames.rejects.toArrow()
                assert frame.num_rows == refused
    lines = command("decode", "--capture", str(tmp_path / "few")).stdout.splitlines()
    said = [one["reject"]["reason"] for one in map(json.loads, lines) if "reject" in one]
    expected = [
        f"the value: the number of tags of {place} is negative, which Kafka before 4.4 reads as 0"
        for place in ("value", "state_batches")
    ]
    expected += ["the value: tags of value are more than 10000, which Kafka before 4.4 reads"]
    assert said == (expected if refused else [])


def check(windows: pa.Table, theirs: Held) -> None:
    """Check the windows of drawn records; a cluster has others, too."""
    mine = held(windows)
    assert {key: batches for key, batches in mine.items() if key in theirs} == theirs


@pytest.mark.exhaustive
def test_it_is_asked_versions(drawn: pa.RecordBatch, tmp_path: Path, spark: SparkSession) -> None:
    with KafkaBroker(version=PREVIOUS_VERSION) as broker:
        servers = broker.bootstrap_servers
        read_in_part(servers, "first", "first", read=10)
        keys, values = (drawn.column(name).to_pylist() for name in ("key", "value"))
        records = [(0, key, value) for key, value in zip(keys, values, strict=True)]
        produce(servers, STATE_TOPIC, records, client=OF_KAFKA)
        answers = {}
        for version in (PREVIOUS_VERSION, KAFKA_VERSION):
            if version != PREVIOUS_VERSION:
                broker.upgrade(version)
            with Oracle("ReplayOracle", "--keep-going", version=version) as oracle:
                answers[version] = theirs = judged(oracle, drawn)
            for engine in ENGINES:
                with sharelag.open(servers, engine=engine, spark=spark) as bench:
                    check(bench.windows().table, theirs)
            with sharelag.stream.watch(servers, spark=spark) as live:
                check(live.windows, theirs)
        assert answers[PREVIOUS_VERSION] != answers[KAFKA_VERSION]
