"""Record the chapters of a small shop from a real broker, with Kafka's own answers beside it.

``python -m tools.record.chapters data/captures/chapters`` takes about two minutes and writes
the capture, ``expected/`` in it, and ``golden/state_records.jsonl`` two folders up.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pyarrow.parquet as pq

from sharelag.inputs.kafka.config import ClientConfig
from sharelag.workbench.capture import capture_kafka
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.jvm import RigError, java_version
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.workload import end_offsets
from tools.record.chapters_story import CHAPTERS, TOPICS, Shop
from tools.record.golden import write_golden
from tools.record.promises import check_promises
from tools.record.state_tail import STATE_TOPIC

GROUP_TOPIC = "__consumer_offsets"
_PROPERTIES = {
    # A snapshot after every eighth update, and one of each key without one for 10 s.
    "share.coordinator.snapshot.update.records.per.snapshot": "8",
    "share.coordinator.cold.partition.snapshot.interval.ms": "10000",
    # Keep the whole history.
    "share.coordinator.state.topic.prune.interval.ms": "86400000",
    "log.cleaner.enable": "false",
}
_TRIES = 10


class Moment(NamedTuple):
    """A quiet moment: nothing was written while Kafka described its groups."""

    as_of_ms: int
    ends: dict[tuple[str, int], int]
    described: str


def record(folder: Path) -> None:
    """Play the story on a separate broker and write the capture to ``folder``, replacing any."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".recording-", dir=folder.parent) as scratch:
        draft = Path(scratch) / folder.name
        with (
            KafkaBroker(properties=_PROPERTIES, heap="768m") as broker,
            Oracle("RecordJsonOracle") as oracle,
        ):
            shop = Shop(broker, oracle)
            moments: list[dict[str, Any]] = []
            for chapter in CHAPTERS:
                started = time.monotonic()
                chapter(shop)
                moments.append(_told(chapter.__name__, chapter.__doc__, _quiet_moment(broker)))
                print(f"{chapter.__name__:20} {time.monotonic() - started:6.1f} s")
            last = _capture_quietly(broker, draft)
            _check_complete(draft, last)
            _write_expected(draft / "expected", moments, last)
            print(json.dumps(check_promises(draft, oracle), indent=1))
            write_golden(draft, folder.parent.parent / "golden" / "state_records.jsonl", oracle)
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)


def _quiet_moment(broker: KafkaBroker) -> Moment:
    """Have Kafka describe its groups, again if anything was written meanwhile."""
    topics = [STATE_TOPIC, GROUP_TOPIC, *TOPICS]
    for _ in range(_TRIES):
        before = end_offsets(broker.bootstrap_servers, topics)
        moment = Moment(time.time_ns() // 1_000_000, before, broker.share_groups_describe())
        if end_offsets(broker.bootstrap_servers, topics) == before:
            return moment
    raise RigError(f"something was written each of {_TRIES} times that Kafka described its groups")


def _capture_quietly(broker: KafkaBroker, folder: Path) -> Moment:
    """Capture between two equal descriptions."""
    for _ in range(_TRIES):
        before = _quiet_moment(broker)
        capture_kafka(ClientConfig({"bootstrap.servers": broker.bootstrap_servers}), folder)
        after = _quiet_moment(broker)
        if (after.ends, after.described) == (before.ends, before.described):
            return before
        shutil.rmtree(folder)
    raise RigError(f"something was written each of {_TRIES} times that a capture was taken")


def _check_complete(folder: Path, moment: Moment) -> None:
    """Check that the capture has every record of the state topic, from the first to the last."""
    table = pq.read_table(folder / "records", columns=["topic", "partition", "offset"]).to_pylist()
    captured = {(row["partition"], row["offset"]) for row in table if row["topic"] == STATE_TOPIC}
    written = {
        (partition, offset)
        for (topic, partition), end in moment.ends.items()
        if topic == STATE_TOPIC
        for offset in range(end)
    }
    if captured != written:
        raise RigError(
            f"the capture has {len(captured)} of {len(written)} records of {STATE_TOPIC}"
        )


def _told(name: str, doc: str | None, moment: Moment) -> dict[str, Any]:
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), end in sorted(moment.ends.items()):
        ends.setdefault(topic, {})[str(partition)] = end
    about = {"chapter": name, "about": doc, "as_of_ms": moment.as_of_ms, "end_offsets": ends}
    return {"about": about, "described": moment.described}


def _write_expected(folder: Path, moments: list[dict[str, Any]], last: Moment) -> None:
    (folder / "moments").mkdir(parents=True)
    for number, moment in enumerate(moments, start=1):
        stem = folder / "moments" / f"{number:02}"
        stem.with_suffix(".txt").write_text(moment["described"])
        stem.with_suffix(".json").write_text(json.dumps(moment["about"], indent=1) + "\n")
    (folder / "describe.txt").write_text(last.described)
    versions = {
        "kafka": KAFKA_VERSION,
        "java": java_version(),
        "confluent-kafka": confluent_kafka.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record the chapters from a real broker.")
    parser.add_argument("folder", type=Path)
    record(parser.parse_args().folder)
