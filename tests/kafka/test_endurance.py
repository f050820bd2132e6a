"""`capture --follow` for long: its heap, handles and threads stay what they were."""

from __future__ import annotations

import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
import pytest

from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.bystanders import Bystander
from tests.support.kafka.followed import caught_up
from tests.support.kafka.jvm import find_java
from tests.support.kafka.troubled import PARTITIONS, Busy
from tests.support.kafka.workload import create_topics, set_group_config, wait_until
from tests.support.reliability import Inject

#: How long: `make reliability` takes half an hour, `make test-exhaustive` a few minutes.
MINUTES = float(os.environ.get("SHARELAG_ENDURANCE_MINUTES", "4"))
#: Seconds between two looks, of which the first quarter are of a job that still warms up.
_EVERY = 10.0
_MIB = 1 << 20


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
    said = subprocess.run(
        [str(find_java("jcmd")), str(java.pid), "GC.class_histogram"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout  # of what is left after a collection
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


@pytest.mark.exhaustive
@pytest.mark.timeout(MINUTES * 60 + 600)
def test_following_for_long_holds_no_more_and_more(tmp_path: Path, injected: Inject) -> None:
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"busy": PARTITIONS})
        set_group_config(servers, "busy", **{"share.auto.offset.reset": "earliest"})
        archive = tmp_path / "archive"
        follow = ["capture", "--follow", "--every", "1s", "--bootstrap-server", servers]
        with Busy(servers) as busy:
            wait_until(lambda: busy.finished > 0, "the topic of share state is there")
            with Bystander([*follow, str(archive)], tmp_path / "follow.txt") as follower:
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
    early = [median(column) for column in zip(*looks[quarter : 2 * quarter], strict=True)]
    late = [median(column) for column in zip(*looks[-quarter:], strict=True)]
    before, after = Look(*early), Look(*late)  # type: ignore[arg-type]
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
