"""Killing the Python process of a following capture leaves none of its processes behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sharelag.sources.files import views
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.followed import compared, in_archive, in_topic
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

GROUP = "followed-and-killed"


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def may_follow(archive: Path) -> bool:
    """Whether no process holds the lock of those who follow into the archive."""
    with views.locked(archive / ".following", wait=0) as is_free:
        return is_free


@pytest.mark.parametrize("is_at_work", [True, False])
@pytest.mark.exhaustive
def test_killing_python_ends_its_jvm_and_workers(
    broker: KafkaBroker, tmp_path: Path, is_at_work: bool, injected: Inject
) -> None:
    servers, archive = broker.bootstrap_servers, tmp_path / "archive"
    topic = f"{GROUP}-{is_at_work}"
    create_topics(servers, {topic: 2})
    set_group_config(servers, topic, **{"share.auto.offset.reset": "earliest"})
    produce(servers, topic, numbered(20, 2))
    share_consume(servers, topic, [topic], accept, until=20)
    command = [sys.executable, "-c", "from sharelag.cli import main; main()", "capture"]
    command += ["--follow", "--bootstrap-server", servers, str(archive)]
    process = subprocess.Popen(
        [*command, "--every", "0s" if is_at_work else "1h"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: views.current(archive).batch >= 0, "a micro-batch is archived")
        ours = psutil.Process(process.pid).children(recursive=True)
        assert any("java" in child.name() for child in ours), ours
        assert not may_follow(archive)
        process.kill()
        process.wait()
        wait_until(lambda: not _alive(ours), "all of its processes have ended")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
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
