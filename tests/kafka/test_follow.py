"""`capture --follow`: its tables are current whenever it was killed, and it ends whole."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import uuid4

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sharelag.inputs.files import archive as views
from sharelag.tables.lines import plain_rows
from tests.support.command import ask, refused, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.bystanders import Bystander
from tests.support.kafka.followed import caught_up, compared, in_archive, in_topic
from tests.support.kafka.jvm import find_java
from tests.support.kafka.troubled import PARTITIONS as BUSY_PARTITIONS
from tests.support.kafka.troubled import Busy
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    read_in_part,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.reliability import Inject

pytestmark = pytest.mark.exhaustive
PARTITIONS = 3
#: How long: `make reliability` takes half an hour, `make test-exhaustive` a few minutes.
MINUTES = float(os.environ.get("SHARELAG_ENDURANCE_MINUTES", "4"))
#: Seconds between two looks, of which the first quarter are of a job that still warms up.
_EVERY = 10.0
_MIB = 1 << 20


@pytest.fixture
def group(broker: KafkaBroker) -> str:
    """A group that has taken 30 of the 60 records of a topic of the same name."""
    name, servers = f"kept-{uuid4().hex[:8]}", broker.bootstrap_servers
    read_in_part(servers, name, name, partitions=PARTITIONS, read=30)
    produce(servers, name, numbered(30, PARTITIONS))
    return name


def _following(broker: KafkaBroker, archive: Path, *more: str) -> Bystander:
    """The command in separate processes, all of which are killed at the end."""
    server = ("--bootstrap-server", broker.bootstrap_servers)
    follow = ["capture", "--follow", *server, str(archive), *more]
    return Bystander(follow, archive.with_suffix(".txt"))


# ---- the tables of --lag-to ----------------------------------------------------------------------
def _read(place: Path, name: str, group: str) -> pa.Table:
    table = DeltaTable(str(place / name)).to_pyarrow_table()
    return table.filter(pc.equal(table.column("group_id"), group)).sort_by("partition")


def _lags(place: Path, group: str) -> list[int | None]:
    is_there = DeltaTable.is_deltatable(str(place / "lag"))
    return _read(place, "lag", group).column("lag").to_pylist() if is_there else []


def _without_as_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "as_of"} for row in rows]


def test_killed_and_started_again(broker: KafkaBroker, group: str, tmp_path: Path) -> None:
    archive, place, servers = tmp_path / "archive", tmp_path / "now", broker.bootstrap_servers
    options = ("--every", "1s", "--lag-to", str(place))

    def are(lag: int) -> None:
        wait_until(lambda: _lags(place, group) == [lag] * PARTITIONS, f"a lag of {lag} each")

    def told(command: str) -> list[dict[str, Any]]:
        return ask(f"{command} --group {group} --capture", str(archive))

    with _following(broker, archive, *options) as running:
        are(10)
        produce(servers, group, numbered(6, PARTITIONS))  # no record of the state topic comes
        are(12)
        share_consume(servers, group, [group], accept, until=36)
        are(0)
        assert running.is_running(), running.text()  # it was at work until it was killed
    # Killed, they are whole, and what happens meanwhile they learn when it is started again.
    assert _read(place, "windows", group).num_rows == PARTITIONS
    produce(servers, group, numbered(21, PARTITIONS))
    share_consume(servers, group, [group], accept, until=21)
    produce(servers, group, numbered(9, PARTITIONS))
    before = [DeltaTable(str(place / name)).version() for name in ("windows", "lag")]
    with _following(broker, archive, *options) as running:
        are(3)
        now = _without_as_of(plain_rows(_read(place, "lag", group)))
        wait_until(lambda: _without_as_of(told("lag")) == now, "the archive says the same")
        assert running.is_running(), running.text()
        os.kill(running.process_id, signal.SIGINT)
        wait_until(lambda: not running.is_running(), "an interrupt ends it")
        assert "Traceback" not in running.text()
    assert [DeltaTable(str(place / name)).version() for name in ("windows", "lag")] > before
    names = ("topic", "partition", "start_offset")
    windows = _read(place, "windows", group).select(names).to_pylist()
    assert windows == [{name: row[name] for name in names} for row in told("windows")]


def test_until_now_and_what_is_refused(
    broker: KafkaBroker, spark: SparkSession, group: str, tmp_path: Path
) -> None:
    place, server = tmp_path / "now", ("--bootstrap-server", broker.bootstrap_servers)
    follow = ("capture", str(tmp_path / "archive"), "--follow", "--until-now", *server)
    sharelag(*follow, "--lag-to", str(place), code=0)
    assert _lags(place, group) == [10] * PARTITIONS
    assert list((tmp_path / "archive" / ".staging" / "lag").iterdir()) == []
    said = refused("capture", str(tmp_path / "plain"), "--lag-to", str(place), *server, code=2)
    assert "--lag-to needs --follow" in said
    sharelag("export", "--to", "delta", "--out", str(tmp_path / "lake"), *server, code=0)
    told = refused(*follow, "--lag-to", str(tmp_path / "lake"))
    assert "is a different table and would be replaced: choose another folder" in told


# ---- its processes -------------------------------------------------------------------------------
def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def may_follow(archive: Path) -> bool:
    """Return whether no process holds the lock of those who follow into the archive."""
    with views.hold_lock(archive / ".following", wait=0) as is_free:
        return is_free


@pytest.mark.parametrize("is_at_work", [True, False])
def test_killing_python_ends_its_jvm_and_workers(
    broker: KafkaBroker, tmp_path: Path, is_at_work: bool, injected: Inject
) -> None:
    servers, archive = broker.bootstrap_servers, tmp_path / "archive"
    name = f"followed-and-killed-{is_at_work}"
    read_in_part(servers, name, name, partitions=2, read=20)
    with _following(broker, archive, "--every", "0s" if is_at_work else "1h") as running:
        wait_until(lambda: views.current(archive).batch >= 0, "a micro-batch is archived")
        python = psutil.Process(running.process_id)
        ours = python.children(recursive=True)
        assert any("java" in child.name() for child in ours), ours
        assert not may_follow(archive)
        python.kill()
        wait_until(lambda: not running.is_running(), "it is killed")
        wait_until(lambda: not _alive(ours), "all of its processes have ended")
    assert may_follow(archive)
    of_topic = in_topic(servers)
    ends: dict[int, int] = {}
    for partition, offset, *_ in in_archive(archive):
        ends[partition] = max(ends.get(partition, offset), offset)
    # What came after the last micro-batch is nobody's yet.
    expected = {one for one in of_topic if one[1] <= ends.get(one[0], -1)}
    kept, lost, wrong = compared(expected, of_topic, archive)
    injected(
        "processes",
        "Python of capture --follow is killed (kill -9)",
        1,
        {"processes that ended with it": len(ours), "records in the archive": kept},
        lost=lost,
        wrong=wrong,
    )
    assert kept > 0
    assert (lost, wrong) == (0, 0)


class Look(NamedTuple):
    """What all processes of a command hold at one moment."""

    heap: float  # MiB that Java cannot free
    resident: float  # MiB of all processes, shared pages counted in each
    handles: int
    threads: int
    processes: int


def look(process: psutil.Process) -> Look:
    """Look at a command and all that it has started, which includes a JVM."""
    ours = [process, *process.children(recursive=True)]
    (java,) = [one for one in ours if one.name() == "java"]
    histogram = [str(find_java("jcmd")), str(java.pid), "GC.class_histogram"]
    # Of what is left after a collection.
    said = subprocess.run(histogram, capture_output=True, text=True, check=True).stdout
    (heap,) = re.findall(r"^Total +\d+ +(\d+)", said, re.MULTILINE)
    there = [one for one in ours if one.is_running()]
    return Look(
        int(heap) / _MIB,
        sum(one.memory_info().rss for one in there) / _MIB,
        sum(one.num_fds() for one in there),
        sum(_threads(one) for one in there),
        len(there),
    )


def _threads(process: psutil.Process) -> int:
    """Count threads but for Spark's two pools for blocks, which fill up to 100 within minutes."""
    count = 0
    for thread in process.threads():
        with suppress(OSError):  # it has ended meanwhile
            name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text()
            count += not name.startswith("block-manager")
    return count


@pytest.mark.timeout(MINUTES * 60 + 600)
def test_following_for_long_holds_no_more_and_more(tmp_path: Path, injected: Inject) -> None:
    """Its heap, handles and threads stay what they were."""
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"busy": BUSY_PARTITIONS})
        set_group_config(servers, "busy", share_auto_offset_reset="earliest")
        archive = tmp_path / "archive"
        with Busy(servers) as busy:
            wait_until(lambda: busy.finished > 0, "the topic of share state is there")
            with _following(broker, archive, "--every", "1s") as follower:
                wait_until(lambda: "archiving into" in follower.text(), "it follows")
                wait_until(lambda: (archive / "data").exists(), "it has archived")
                process, ends = psutil.Process(follower.process_id), time.monotonic() + MINUTES * 60
                looks: list[Look] = []
                while time.monotonic() < ends:
                    time.sleep(_EVERY)
                    looks.append(look(process))
                assert follower.is_running(), follower.text()[-2000:]
                finished = busy.finished
            busy.pause()
        kept, lost, wrong = caught_up(servers, ["--bootstrap-server", servers], archive)
    quarter = len(looks) // 4
    before, after = (
        Look(*[median(column) for column in zip(*part, strict=True)])  # type: ignore[arg-type]
        for part in (looks[quarter : 2 * quarter], looks[-quarter:])
    )
    print(f"{MINUTES:g} minutes, {finished} records: {before} {after}")
    injected(
        "load",
        "minutes of capture --follow",
        round(MINUTES),
        {"records that members finished": finished, "records in the archive": kept},
        lost=lost,
        wrong=wrong,
        measured={
            "more MiB of heap after a collection": round(after.heap - before.heap, 1),
            "more handles": after.handles - before.handles,
            "more threads": after.threads - before.threads,
        },
    )
    assert (lost, wrong) == (0, 0)
    assert finished > 100
    assert after.heap < before.heap * 1.1 + 8
    assert after.resident < before.resident * 1.15 + 32
    assert after.handles <= before.handles + 20
    # Java has a few more for its compiler while it is busy; one for each micro-batch would be 100.
    assert after.threads <= before.threads * 1.15 + 8
    assert after.processes <= before.processes + 2
