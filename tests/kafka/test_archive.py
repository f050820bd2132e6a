"""An archive holds every record exactly once, whenever its job is killed or topics are pruned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sharelag import schemas
from sharelag.errors import InputError, TopicMissingError
from sharelag.replay.moment import Choice
from sharelag.sources.files import views
from sharelag.sources.files.archive import GAP, ArchiveInput, compact
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import client_config
from sharelag.sources.spark import follow as job
from sharelag.sources.spark.follow import follow
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench import engine
from tests.support.cases import Cases
from tests.support.descriptions import describe
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.reliability import Inject

#: Partitions of the topics here; the last is written to by the tests alone.
PARTITIONS = 3


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"archive-{uuid4().hex[:8]}"
    create_topics(broker.bootstrap_servers, {name: PARTITIONS})
    return name


def _follow(broker: KafkaBroker, folder: Path, topic: str, **options: Any) -> None:
    """Archive what is there now, in this process."""
    config = client_config(broker.bootstrap_servers)
    query = follow(config, folder, topics=[topic], every=0.0, until_now=True, **options)
    query.awaitTermination()


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    order = [(name, "ascending") for name in ("topic", "partition", "offset")]
    rows: list[dict[str, Any]] = (
        table.select(schemas.RAW.names).cast(schemas.RAW).sort_by(order).to_pylist()
    )
    return rows


def _in_topic(broker: KafkaBroker, topic: str) -> list[dict[str, Any]]:
    batches = kafka.read_topic(client_config(broker.bootstrap_servers), topic)
    return _rows(pa.Table.from_batches(batches, schemas.RAW))


def _archived(folder: Path, topic: str) -> list[dict[str, Any]]:
    return _rows(pa.Table.from_batches(ArchiveInput(folder).batches(topic), schemas.RAW))


def _plainly(folder: Path) -> pa.Table:
    place = folder / "data" / "records"
    return pq.read_table(place.resolve()) if place.exists() else schemas.RAW.empty_table()


def _delete_below(broker: KafkaBroker, topic: str, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(timeout=30)


def _gaps(folder: Path) -> list[tuple[object, ...]]:
    return [tuple(row.values())[:4] for row in ArchiveInput(folder).gaps().to_pylist()]


# ---- killed --------------------------------------------------------------------------------------


@contextmanager
def _produced_meanwhile(broker: KafkaBroker, topic: str) -> Iterator[None]:
    """Records keep coming to all partitions but the last, some hundred a second."""
    ended, random = threading.Event(), Random("values")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "linger.ms": 5}
    )

    def work() -> None:
        number = 0
        while not ended.wait(0.02):
            for _ in range(20):
                number += 1
                producer.produce(
                    topic,
                    random.randbytes(random.randint(0, 200)),
                    b"%d" % number,
                    number % (PARTITIONS - 1),
                )
            producer.poll(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


@contextmanager
def _job(broker: KafkaBroker, folder: Path, topic: str) -> Iterator[subprocess.Popen[str]]:
    """The job in separate processes, all of which are killed at the end."""
    command = [
        sys.executable,
        "-m",
        "tests.support.kafka.archive_job",
        broker.bootstrap_servers,
        str(folder),
        "2000",
        topic,
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "following\n"
        yield process
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
    folder, random = tmp_path / "archive", Random("kills")
    produce(
        broker.bootstrap_servers, topic, [(PARTITIONS - 1, b"k", b"v%d" % n) for n in range(300)]
    )
    seen = 0
    at_kill: list[int] = []
    gap: tuple[str, int, int, int] | None = None
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
            # Whoever reads now, knowing nothing of the job, finds each partition's records once,
            # and none missing.
            found = _plainly(folder)
            assert found.num_rows >= seen
            seen = found.num_rows
            for partition in range(PARTITIONS):
                offsets = (
                    found.filter(pc.equal(found.column("partition"), partition))
                    .column("offset")
                    .to_pylist()
                )
                lost = range(gap[2], gap[3]) if gap and partition == PARTITIONS - 1 else ()
                assert sorted(offsets) == [
                    n for n in range(len(offsets) + len(lost)) if n not in lost
                ]
            at_kill.append(views.current(folder).number)
            if kill == 0:
                have = sum(row["partition"] == PARTITIONS - 1 for row in _archived(folder, topic))
                produce(
                    broker.bootstrap_servers,
                    topic,
                    [(PARTITIONS - 1, b"k", b"w%d" % n) for n in range(200)],
                )
                _delete_below(broker, topic, PARTITIONS - 1, 400)
                gap = (topic, PARTITIONS - 1, have, 400)
    _follow(broker, folder, topic)
    expected = _in_topic(broker, topic)
    kept = [
        row
        for row in _archived(folder, topic)
        if row["partition"] < PARTITIONS - 1 or row["offset"] >= 400
    ]
    assert gap is not None
    assert len(_archived(folder, topic)) == len(expected) + gap[2]
    assert _gaps(folder) == [gap]
    # The same to anybody who opens the folder, before and after small files are merged.
    for _ in range(2):
        assert _rows(_plainly(folder)) == _archived(folder, topic)
        on_spark = spark.read.parquet(str(folder / "data" / "records"))
        assert (
            on_spark.count()
            == on_spark.select("partition", "offset").distinct().count()
            == seen_now(folder)
        )
        assert ArchiveInput(folder).frame(spark, topic).count() == seen_now(folder)
        compact(folder)
    by_partition: dict[int, list[int]] = {}
    for row in (
        pa.Table.from_batches(ArchiveInput(folder).batches(topic))
        .select(["partition", "offset"])
        .to_pylist()
    ):
        by_partition.setdefault(row["partition"], []).append(row["offset"])
    assert all(offsets == sorted(offsets) for offsets in by_partition.values())
    print(f"\nkilled at views {at_kill}, {seen_now(folder)} records")
    told = {"records in the archive": seen_now(folder)}
    have, topics = ({_place(row): row for row in rows} for rows in (kept, expected))
    injected(
        "processes",
        "a growing archive is killed (kill -9)",
        len(at_kill),
        told,
        lost=len(topics.keys() - have.keys()),
        wrong=sum(topics.get(_place(row)) != row for row in kept) + len(kept) - len(have),
    )
    assert kept == expected


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["partition"], row["offset"]


def seen_now(folder: Path) -> int:
    return int(_plainly(folder).num_rows)


class _KilledError(Exception):
    pass


def _fails_before(real: Callable[..., bool]) -> Callable[..., bool]:
    def commit(*args: Any, batch: int = -1, **kwargs: Any) -> bool:
        if batch >= 1:
            raise _KilledError
        return real(*args, batch=batch, **kwargs)

    return commit


def _fails_after(real: Callable[..., bool]) -> Callable[..., bool]:
    def commit(*args: Any, batch: int = -1, **kwargs: Any) -> bool:
        done = real(*args, batch=batch, **kwargs)
        if batch >= 1:
            raise _KilledError
        return done

    return commit


@pytest.mark.exhaustive
@pytest.mark.parametrize("fails", [_fails_before, _fails_after], ids=["before", "after"])
def test_pruned_under_a_stopped_archive_and_then_killed(
    broker: KafkaBroker,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[Any], Any],
) -> None:
    folder = tmp_path / "archive"
    produce(broker.bootstrap_servers, topic, numbered(300, PARTITIONS))
    _follow(broker, folder, topic)
    produce(broker.bootstrap_servers, topic, numbered(600, PARTITIONS))
    _delete_below(broker, topic, 1, 250)
    _delete_below(broker, topic, 2, 300)  # nothing is left of it
    with monkeypatch.context() as patch:
        patch.setattr(views, "commit", fails(views.commit))
        with pytest.raises(StreamingQueryException, match="_KilledError"):
            _follow(broker, folder, topic)
    gaps = [(topic, 1, 100, 250), (topic, 2, 100, 300)]
    assert _gaps(folder) == (gaps if fails is _fails_after else [])
    # What is pruned now belongs to the same gap when the micro-batch had not been added; else its
    # records are there.
    _delete_below(broker, topic, 1, 260)
    if fails is _fails_before:
        gaps[0] = (topic, 1, 100, 260)
    _follow(broker, folder, topic)
    assert _gaps(folder) == gaps
    rows = pa.concat_tables(
        [pq.read_table(path) for path in views.current(folder).files("gaps")]
    ).cast(GAP)
    assert rows.num_rows == 2
    have = {
        p: [r["offset"] for r in _archived(folder, topic) if r["partition"] == p]
        for p in range(PARTITIONS)
    }
    first = gaps[0][3]
    assert have == {0: list(range(300)), 1: [*range(100), *range(first, 300)], 2: list(range(100))}
    # It goes on as if nothing had been, and a gap stays one.
    produce(broker.bootstrap_servers, topic, numbered(30, PARTITIONS))
    _follow(broker, folder, topic)
    assert _gaps(folder) == gaps
    assert len(_archived(folder, topic)) == 300 + 100 + (300 - first) + 100 + 30


# ---- the real topics -----------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_state_and_members_as_they_are_and_lag_of_the_past(
    broker: KafkaBroker, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    bootstrap, folder, group = (
        broker.bootstrap_servers,
        tmp_path / "archive",
        f"archive-{uuid4().hex[:8]}",
    )
    config = client_config(bootstrap)
    set_group_config(bootstrap, group, share_auto_offset_reset="earliest")
    produce(bootstrap, topic, numbered(90, PARTITIONS))
    share_consume(bootstrap, group, [topic], accept, until=90)
    _commit_as_others_do(bootstrap, topic)
    query = follow(config, folder, every=0.0, until_now=True)
    query.awaitTermination()
    source, cluster = ArchiveInput(folder), KafkaInput(config)
    choice = Choice(frozenset([group]))
    for where in ("local", "spark"):
        got, wanted = (
            engine.lag(one, where, None, choice).table.drop_columns("as_of")
            for one in (source, cluster)
        )
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
    produce(bootstrap, topic, numbered(30, PARTITIONS))
    share_consume(bootstrap, group, [topic], accept, until=30)
    follow(config, folder, every=0.0, until_now=True).awaitTermination()
    ids = [kafka.topic_ids(config)[topic]]
    assert source.offsets(ids).column("end_offset").to_pylist() == [40] * PARTITIONS
    assert source.past_offsets(ids, [first]).column("end_offset").to_pylist() == [30] * PARTITIONS
    then = engine.lag(source, "local", first, choice).table
    assert then.column("lag").to_pylist() == [0] * PARTITIONS
    assert then.column("end_offset").to_pylist() == [30] * PARTITIONS


def _commit_as_others_do(bootstrap: str, topic: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"classic-{topic}",
            "enable.auto.commit": False,
        }
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()


def test_end_offsets_are_sampled_while_no_records_come(
    broker: KafkaBroker,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "archive"
    create_topics(broker.bootstrap_servers, {f"{topic}-idle": 1})
    query = follow(
        client_config(broker.bootstrap_servers),
        folder,
        topics=[f"{topic}-idle"],
        every=0.0,
        compact_every=2,
    )
    try:
        produce(broker.bootstrap_servers, topic, numbered(3, PARTITIONS))
        ids = [kafka.topic_ids(client_config(broker.bootstrap_servers))[topic]]
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
        monkeypatch.setattr(job, "_LET_GO", 0.0)
        with pytest.raises(InputError, match="another job is writing"):
            follow(client_config(broker.bootstrap_servers), folder, topics=[f"{topic}-idle"])
    finally:
        query.stop()


# ---- what is refused, and what is unknown --------------------------------------------------------


def test_what_cannot_be_followed(
    broker: KafkaBroker, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    config, folder = client_config(broker.bootstrap_servers), tmp_path / "archive"
    with pytest.raises(TopicMissingError):
        follow(config, folder, topics=[f"{topic}-gone"])
    assert not folder.exists()
    produce(broker.bootstrap_servers, topic, numbered(3, PARTITIONS))
    _follow(broker, folder, topic)
    with pytest.raises(InputError, match="give the same topics"):
        follow(config, folder, topics=[topic, f"{topic}-gone"])
    (folder / "checkpoint").rename(tmp_path / "checkpoint")
    with pytest.raises(InputError, match=r"checkpoint of the archive .* is missing"):
        _follow(broker, folder, topic)
    assert len(_archived(folder, topic)) == 3
    describe(folder, cluster_id="another-cluster")
    with pytest.raises(InputError, match="an archive of cluster another-cluster"):
        _follow(broker, folder, topic)


def test_no_secret_comes_into_the_folder(
    broker: KafkaBroker, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    produce(broker.bootstrap_servers, topic, numbered(3, PARTITIONS))
    config = client_config(broker.bootstrap_servers, None, {"ssl.key.password": "hunter2"})
    follow(config, tmp_path / "archive", topics=[topic], until_now=True).awaitTermination()
    files = [path for path in (tmp_path / "archive").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []
