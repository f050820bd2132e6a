"""An archive holds every record exactly once, whenever its job is killed or topics are pruned."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sharelag import schemas
from sharelag.errors import InputError, TopicMissingError
from sharelag.inputs import KafkaInput
from sharelag.inputs.files import archive as views
from sharelag.inputs.files.archive import GAP, ArchiveInput, compact
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark import follow as job
from sharelag.inputs.spark.follow import follow
from sharelag.replay.moment import Choice
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support import readings
from tests.support.captures import describe
from tests.support.cases import Cases
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    accept,
    create_topics,
    delete_below,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.reliability import Inject

#: The commands that need Spark find that of this process.
pytestmark = pytest.mark.usefixtures("spark")
#: Partitions of the topics here; the last is written to by the tests alone.
PARTITIONS = 3
LAST = PARTITIONS - 1
GROUP = "archived"


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"archive-{uuid4().hex[:8]}"
    create_topics(broker.bootstrap_servers, {name: PARTITIONS})
    return name


def _follow(broker: KafkaBroker, folder: Path, topic: str) -> None:
    """Archive what is there now, in this process."""
    config = client_config(broker.bootstrap_servers)
    follow(config, folder, topics=[topic], every=0.0, until_now=True).awaitTermination()


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    order = [(name, "ascending") for name in ("topic", "partition", "offset")]
    return table.select(schemas.RAW.names).cast(schemas.RAW).sort_by(order).to_pylist()  # type: ignore[no-any-return]


def _in_topic(broker: KafkaBroker, topic: str) -> list[dict[str, Any]]:
    batches = kafka.read_topic(client_config(broker.bootstrap_servers), topic)
    return _rows(pa.Table.from_batches(batches, schemas.RAW))


def _archived(folder: Path, topic: str) -> list[dict[str, Any]]:
    return _rows(pa.Table.from_batches(ArchiveInput(folder).batches(topic), schemas.RAW))


def _plainly(folder: Path) -> pa.Table:
    """What anybody finds who opens the folder and knows nothing of the job."""
    place = folder / "data" / "records"
    return pq.read_table(place.resolve()) if place.exists() else schemas.RAW.empty_table()


def _places(rows: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Offsets by partition, in their order."""
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for row in rows:
        found[row["partition"]].append(row["offset"])
    return found


def _gaps(folder: Path) -> list[tuple[object, ...]]:
    return [tuple(row.values())[:4] for row in ArchiveInput(folder).gaps().to_pylist()]


# ---- killed --------------------------------------------------------------------------------------
@contextmanager
def _produced_meanwhile(broker: KafkaBroker, topic: str) -> Iterator[None]:
    """Records keep coming to all partitions but the last, some hundred a second."""
    ended, random = threading.Event(), Random("values")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "linger.ms": 5}
    producer = Producer(settings)

    def work() -> None:
        number = 0
        while not ended.wait(0.02):
            for _ in range(20):
                number += 1
                value = random.randbytes(random.randint(0, 200))
                producer.produce(topic, value, b"%d" % number, number % LAST)
            producer.poll(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


#: Says when it has begun. Small files are merged after every other commit, so that it is killed at
#: that, too.
_JOB = """
import sys
from pathlib import Path
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark import session
from sharelag.inputs.spark.follow import follow

servers, folder, topic = sys.argv[1:]
session("sharelag-archive", spark_master="local[2]")
limits = {"max_offsets_per_trigger": 2000, "compact_every": 2}
query = follow(client_config(servers), Path(folder), topics=[topic], every=0.0, **limits)
print("following", flush=True)
query.awaitTermination()
"""


@contextmanager
def _job(broker: KafkaBroker, folder: Path, topic: str) -> Iterator[None]:
    """The job in separate processes, all of which are killed at the end."""
    command = [sys.executable, "-c", _JOB, broker.bootstrap_servers, str(folder), topic]
    stderr = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "following\n"
        yield
        assert process.poll() is None  # it was at work until it was killed
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.exhaustive
def test_killed_at_random_moments(
    broker: KafkaBroker,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    cases: Cases,
    injected: Inject,
) -> None:
    servers, folder, random = broker.bootstrap_servers, tmp_path / "archive", Random("kills")
    produce(servers, topic, [(LAST, b"k", b"v%d" % n) for n in range(300)])
    seen, gap = 0, range(0)
    at_kill: list[int] = []
    with _produced_meanwhile(broker, topic):
        for kill in range(cases(3, 20)):
            with _job(broker, folder, topic):
                # Most moments are between writes, since so is most of the time; the first may be
                # before any.
                if at_kill:
                    wait_until(
                        lambda: views.current(folder).number > at_kill[-1], "it writes", every=0.01
                    )
                time.sleep(random.uniform(0, 3))
            # Each partition's records are there once, and none is missing.
            found = _plainly(folder)
            assert found.num_rows >= seen
            seen = found.num_rows
            for partition, offsets in _places(_rows(found)).items():
                lost = gap if partition == LAST else range(0)
                whole = range(len(offsets) + len(lost))
                assert offsets == [n for n in whole if n not in lost]
            at_kill.append(views.current(folder).number)
            if kill == 0:
                have = len(_places(_archived(folder, topic))[LAST])
                produce(servers, topic, [(LAST, b"k", b"w%d" % n) for n in range(200)])
                delete_below(servers, topic, {LAST: 400})
                gap = range(have, 400)
    _follow(broker, folder, topic)
    expected, archived = _in_topic(broker, topic), _archived(folder, topic)
    kept = [row for row in archived if row["partition"] < LAST or row["offset"] >= 400]
    assert len(archived) == len(expected) + gap.start
    assert _gaps(folder) == [(topic, LAST, gap.start, gap.stop)]
    # The same to anybody who opens the folder, before and after small files are merged.
    for _ in range(2):
        assert _rows(_plainly(folder)) == archived
        on_spark = spark.read.parquet(str(folder / "data" / "records"))
        distinct = on_spark.select("partition", "offset").distinct().count()
        assert on_spark.count() == distinct == len(archived)
        assert ArchiveInput(folder).frame(spark, topic).count() == len(archived)
        compact(folder)
    in_their_order = pa.Table.from_batches(ArchiveInput(folder).batches(topic)).to_pylist()
    assert all(offsets == sorted(offsets) for offsets in _places(in_their_order).values())
    print(f"\nkilled at views {at_kill}, {len(archived)} records")
    have_, topics = ({(r["partition"], r["offset"]): r for r in rows} for rows in (kept, expected))
    injected(
        "processes",
        "a growing archive is killed (kill -9)",
        len(at_kill),
        {"records in the archive": len(archived)},
        lost=len(topics.keys() - have_.keys()),
        wrong=sum(topics.get(place) != r for place, r in have_.items()) + len(kept) - len(have_),
    )
    assert kept == expected


class _KilledError(Exception):
    pass


@pytest.mark.exhaustive
@pytest.mark.parametrize("fails", ["before", "after"])
def test_pruned_under_a_stopped_archive_and_then_killed(
    broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    servers, folder, real = broker.bootstrap_servers, tmp_path / "archive", views.commit

    def commit(*args: Any, batch: int = -1, **kwargs: Any) -> bool:
        if batch >= 1 and fails == "before":
            raise _KilledError
        done = real(*args, **kwargs | {"batch": batch})
        if batch >= 1:
            raise _KilledError
        return done

    produce(servers, topic, numbered(300, PARTITIONS))
    _follow(broker, folder, topic)
    produce(servers, topic, numbered(600, PARTITIONS))
    delete_below(servers, topic, {1: 250, 2: 300})  # nothing is left of the last
    with monkeypatch.context() as patch:
        patch.setattr("sharelag.inputs.spark.follow.commit", commit)
        with pytest.raises(StreamingQueryException, match="_KilledError"):
            _follow(broker, folder, topic)
    first, end = (topic, 1, 100, 250), (topic, 2, 100, 300)
    assert _gaps(folder) == ([first, end] if fails == "after" else [])
    # What is pruned now belongs to the same gap when the micro-batch had not been added; else its
    # records are there.
    delete_below(servers, topic, {1: 260})
    begins = 250 if fails == "after" else 260
    gaps = [(topic, 1, 100, begins), end]
    _follow(broker, folder, topic)
    assert _gaps(folder) == gaps
    files = views.current(folder).files("gaps")
    assert pa.concat_tables([pq.read_table(path) for path in files]).cast(GAP).num_rows == 2
    expected = {0: [*range(300)], 1: [*range(100), *range(begins, 300)], 2: [*range(100)]}
    assert _places(_archived(folder, topic)) == expected
    # It goes on as if nothing had been, and a gap stays one.
    produce(servers, topic, numbered(30, PARTITIONS))
    _follow(broker, folder, topic)
    assert _gaps(folder) == gaps
    assert len(_archived(folder, topic)) == sum(map(len, expected.values())) + 30


# ---- the real topics -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def archived(
    broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Any], list[Any]]:
    """An archive that was added to twice, and the live lag at both times."""
    servers, folder = broker.bootstrap_servers, tmp_path_factory.mktemp("cli") / "archive"
    create_topics(servers, {f"{GROUP}-orders": 2})
    set_group_config(servers, GROUP, share_auto_offset_reset="earliest")
    follow = ("capture", str(folder), "--follow", "--until-now", "--bootstrap-server", servers)
    lives = []
    for _ in range(2):
        produce(servers, f"{GROUP}-orders", numbered(40, 2), batch=5)
        few = {"max.poll.records": 5}
        share_consume(servers, GROUP, [f"{GROUP}-orders"], accept, until=20, config=few)
        sharelag(*follow, code=0)
        lives.append(ask("lag --group", GROUP, at=servers))
    return folder, lives[0], lives[1]


def _lag(folder: Path, *more: str) -> list[dict[str, Any]]:
    return ask(f"lag --group {GROUP} --capture", str(folder), *more)


def test_its_lag_is_that_of_the_cluster(archived: tuple[Path, list[Any], list[Any]]) -> None:
    folder, _, now = archived
    names = ("topic", "partition", "start_offset", "end_offset", "lag")
    found, live = ([[row[name] for name in names] for row in rows] for rows in (_lag(folder), now))
    assert found == live
    assert all(row["lag"] is not None for row in now)


def test_the_archive_knows_the_past(archived: tuple[Path, list[Any], list[Any]]) -> None:
    """As of the first sample of end offsets, which is known exactly."""
    folder, before, _ = archived
    first = min(datetime.fromisoformat(row["as_of"]) for row in before)
    assert first.isoformat() < min(row["as_of"] for row in _lag(folder))
    rows = _lag(folder, "--as-of", first.isoformat())
    assert [row["start_offset"] for row in rows] == [row["start_offset"] for row in before]
    assert {row["lag_reason"] for row in rows} <= {None, "no_end_offset_then"}


def test_it_is_neither_overwritten_nor_mixed(
    archived: tuple[Path, list[Any], list[Any]], broker: KafkaBroker, tmp_path: Path
) -> None:
    folder = str(archived[0])
    (tmp_path / "mine.txt").write_text("work")
    for words, code, said in (
        ((folder, "--follow", "--overwrite"), 2, ""),
        ((folder, "--until-now"), 2, ""),
        ((folder, "--overwrite"), 1, "exists already"),
        ((str(tmp_path), "--follow", "--until-now"), 1, "is not an archive and not empty"),
    ):
        done = sharelag("capture", *words, "--bootstrap-server", broker.bootstrap_servers)
        assert (done.returncode, said in done.stderr) == (code, True)


@pytest.mark.exhaustive  # in part: `test_its_lag_is_that_of_the_cluster`
def test_state_members_and_lag_of_the_past(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    servers, folder, group = broker.bootstrap_servers, tmp_path / "archive", f"of-{topic}"
    config = client_config(servers)
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    produce(servers, topic, numbered(90, PARTITIONS))
    share_consume(servers, group, [topic], accept, until=90)
    settings = {"bootstrap.servers": servers, "group.id": f"classic-{topic}"}
    other = Consumer({**settings, "enable.auto.commit": False})
    other.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    other.close()
    follow(config, folder, every=0.0, until_now=True).awaitTermination()
    source, cluster = ArchiveInput(folder), KafkaInput(config)
    choice = Choice(frozenset([group]))
    for where in ("local", "spark"):
        tables = (readings.lag(one, where, None, choice).table for one in (source, cluster))
        got, wanted = (table.drop_columns("as_of") for table in tables)
        assert got.to_pylist() == wanted.to_pylist()
        assert got.column("end_offset").to_pylist() == [30] * PARTITIONS
    first = source.as_of()
    assert first is not None
    assert {row["topic"] for row in _rows(_plainly(folder))} == {STATE_TOPIC, GROUP_TOPIC}
    kinds = {row["key"][:2] for row in _archived(folder, GROUP_TOPIC)}
    assert kinds <= {kind.to_bytes(2, "big") for kind in range(10, 16)}
    kept = [row for row in _in_topic(broker, GROUP_TOPIC) if row["key"][:2] in kinds]
    assert [row for row in _archived(folder, GROUP_TOPIC) if row in kept] == kept
    # Later the end is another, and that of the first moment is still known.
    produce(servers, topic, numbered(30, PARTITIONS))
    share_consume(servers, group, [topic], accept, until=30)
    follow(config, folder, every=0.0, until_now=True).awaitTermination()
    ids = [kafka.topic_ids(config)[topic]]
    then = readings.lag(source, "local", first, choice).table
    for found, ends in (
        (source.offsets(ids), [40] * PARTITIONS),
        (source.past_offsets(ids, [first]), [30] * PARTITIONS),
        (then, [30] * PARTITIONS),
    ):
        assert found.column("end_offset").to_pylist() == ends
    assert then.column("lag").to_pylist() == [0] * PARTITIONS


@pytest.mark.exhaustive
def test_end_offsets_are_sampled_while_no_records_come(
    broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, config = tmp_path / "archive", client_config(broker.bootstrap_servers)
    create_topics(broker.bootstrap_servers, {f"{topic}-idle": 1})
    query = follow(config, folder, topics=[f"{topic}-idle"], every=0.0, compact_every=2)
    try:
        produce(broker.bootstrap_servers, topic, numbered(3, PARTITIONS))
        ids = [kafka.topic_ids(config)[topic]]
        source = ArchiveInput(folder)
        wait_until(
            lambda: source.offsets(ids).column("end_offset").to_pylist() == [1] * PARTITIONS,
            "the new ends are sampled",
        )
        wait_until(
            lambda: any("-to-" in p.name for p in views.current(folder).files("offsets")),
            "samples are merged",
        )
        assert source.size() == 0
        monkeypatch.setattr(job, "_LOCK_WAIT", 0.0)
        with pytest.raises(InputError, match="another job is writing"):
            follow(config, folder, topics=[f"{topic}-idle"])
    finally:
        query.stop()


def test_a_topic_created_again_is_noticed(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    servers, folder = broker.bootstrap_servers, tmp_path / "archive"
    produce(servers, topic, numbered(3, PARTITIONS))
    _follow(broker, folder, topic)
    before = _archived(folder, topic)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(timeout=30)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "it is gone")
    create_topics(servers, {topic: PARTITIONS})
    produce(servers, topic, numbered(30, PARTITIONS))
    with pytest.raises(InputError, match=f"{topic} was deleted and created again since"):
        _follow(broker, folder, topic)
    assert _archived(folder, topic) == before


def test_what_is_not_followed_no_secret(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    secret = {"ssl.key.password": "hunter2"}
    config, folder = client_config(broker.bootstrap_servers, None, secret), tmp_path / "archive"
    with pytest.raises(TopicMissingError):
        follow(config, folder, topics=[f"{topic}-gone"])
    assert not folder.exists()
    produce(broker.bootstrap_servers, topic, numbered(3, PARTITIONS))
    follow(config, folder, topics=[topic], until_now=True).awaitTermination()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []
    with pytest.raises(InputError, match="give the same topics"):
        follow(config, folder, topics=[topic, f"{topic}-gone"])
    (folder / "checkpoint").rename(tmp_path / "checkpoint")
    with pytest.raises(InputError, match=r"checkpoint of the archive .* is missing"):
        _follow(broker, folder, topic)
    assert len(_archived(folder, topic)) == 3
    describe(folder, cluster_id="another-cluster")
    with pytest.raises(InputError, match="an archive of cluster another-cluster"):
        _follow(broker, folder, topic)
