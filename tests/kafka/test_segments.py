"""A broker's own files give the records that the broker gives."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.inputs import KafkaInput, SegmentsInput
from sharelag.inputs.files.segments import read_segments
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support import readings
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
)


@dataclass
class Files:
    """A broker's answers and its files."""

    #: Records of the state topic, while it ran.
    raw: pa.Table
    lag: pa.Table
    #: The log directory of the broker, which was stopped in good order.
    folder: Path


@contextmanager
def at_work() -> Iterator[KafkaBroker]:
    """A broker with small segments, and a group that has read half of a topic."""
    with KafkaBroker(properties={"log.segment.bytes": "1048576"}) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"files": 3})
        produce(servers, "files", numbered(300, 3))
        set_group_config(servers, "files", share_auto_offset_reset="earliest")
        share_consume(servers, "files", ["files"], accept, until=150)
        yield broker


@pytest.fixture(scope="module", name="files")
def files_of_a_broker(tmp_path_factory: pytest.TempPathFactory) -> Files:
    with at_work() as broker:
        source = KafkaInput(client_config(broker.bootstrap_servers))
        raw, lag = records_of(broker), readings.lag(source, "local").table
        broker.stop()  # in good order: the checkpoints are written
        folder = tmp_path_factory.mktemp("files") / "log"
        return Files(raw, lag, Path(shutil.copytree(broker.log_dir, folder)))


def records_of(broker: KafkaBroker) -> pa.Table:
    config = client_config(broker.bootstrap_servers)
    return pa.Table.from_batches(kafka.read_topic(config, STATE_TOPIC), schemas.RAW)


def copied_at_work(broker: KafkaBroker, to: Path) -> list[Path]:
    """Copy the files again and again while the broker writes, until some have states."""
    servers, records = broker.bootstrap_servers, numbered(30_000, 2)
    create_topics(servers, {"copied": 2})
    set_group_config(servers, "copied", share_auto_offset_reset="earliest")
    copies: list[Path] = []
    enough, done = Event(), Event()

    def work() -> None:
        try:
            for begin in range(0, len(records), 300):
                # However fast this is: until it was copied several times meanwhile.
                if begin >= 1_500 and enough.is_set():
                    break
                produce(servers, "copied", records[begin : begin + 300], batch=20)
                share_consume(servers, "copied", ["copied"], accept, until=300)
        finally:
            done.set()

    worker = Thread(target=work)
    worker.start()
    while not done.wait(0.5):
        copies.append(copied(broker.log_dir, to / f"copy-{len(copies)}"))
        if sum(map(has_state, copies)) > 2:
            enough.set()
    worker.join()
    return copies


def test_the_records_are_the_brokers(files: Files) -> None:
    raw, folder = files.raw, files.folder
    order = [("partition", "ascending"), ("offset", "ascending")]
    ours = pa.Table.from_batches(read_segments(folder, STATE_TOPIC), schemas.RAW)
    assert ours.sort_by(order).equals(raw.sort_by(order))
    assert ours.num_rows > 3


def test_the_lag_is_the_brokers(files: Files) -> None:
    lag, folder = files.lag, files.folder
    ours = readings.lag(SegmentsInput((folder,)), "local").table
    apart = ["as_of"]
    assert ours.drop(apart).to_pylist() == lag.drop(apart).to_pylist()
    rows = ask("lag --segments", str(folder))
    assert [row["lag"] for row in rows] == lag.column("lag").to_pylist()
    assert all(row["as_of"] for row in ours.to_pylist())


def test_other_folders_than_log_directories_are_an_error(tmp_path: Path) -> None:
    for folder, said in ((tmp_path / "gone", "no folder"), (tmp_path, "has no topic partitions")):
        answer = sharelag("lag", "--segments", str(folder))
        assert (answer.returncode, len(answer.stderr.splitlines())) == (1, 1)
        assert said in answer.stderr


@pytest.mark.exhaustive
def test_a_directory_that_is_copied_while_the_broker_writes(tmp_path: Path) -> None:
    """Each copy has the first records of the log, and at most one reject per partition: a tail."""
    with at_work() as broker:
        copies, raw = copied_at_work(broker, tmp_path), records_of(broker)
    by_place = {(r["partition"], r["offset"]): (r["key"], r["value"]) for r in raw.to_pylist()}
    seen = 0
    for copy in copies:
        if not any(copy.glob(f"{STATE_TOPIC}-*/*.log")):
            continue
        raw = pa.Table.from_batches(read_segments(copy, STATE_TOPIC), schemas.RAW)
        found = decode_arrow(raw)
        partitions = [row["record_partition"] for row in found.rejects.to_pylist()]
        assert len(partitions) == len(set(partitions))
        for row in raw.to_pylist():
            place = (row["partition"], row["offset"])
            assert not row["key"] or by_place[place] == (row["key"], row["value"])
        if found.records.num_rows:
            seen += 1
            assert sharelag("windows", "--segments", str(copy)).returncode == 0
    assert seen >= 2


def has_state(copy: Path) -> bool:
    return any(log.stat().st_size for log in copy.glob(f"{STATE_TOPIC}-*/*.log"))


def copied(folder: Path, to: Path) -> Path:
    """Copy what is there while it changes, as a backup does: files may go meanwhile."""
    for place in [*folder.glob(f"{STATE_TOPIC}-*"), *folder.glob("*checkpoint")]:
        for file in place.glob("*") if place.is_dir() else [place]:
            target = to / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                shutil.copy(file, target)
    return to
