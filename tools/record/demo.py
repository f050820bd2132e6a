"""Record the shop from a cluster of three brokers, while its members work.

``python -m tools.record.demo data/captures/demo`` takes forty minutes; ``--minute 6`` plays the
same story in four minutes, which is enough for a trial but too fast for the expected results.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka

import sharelag
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.workbench.capture import capture_kafka
from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.jvm import RigError, java_version
from tools.record.shop import GROUPS, Shop

_PROPERTIES = {
    # Keep the whole history.
    "share.coordinator.state.topic.prune.interval.ms": "86400000",
    # Kafka's own defaults; brokers of tests have others.
    "share.coordinator.snapshot.update.records.per.snapshot": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "1000",
    "group.share.max.record.lock.duration.ms": "600000",
}


def record(folder: Path, minute: float) -> None:
    """Play the story on a separate cluster and write the capture to ``folder``, replacing any."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".recording-", dir=folder.parent) as scratch,
        KafkaCluster(3, _PROPERTIES) as cluster,
    ):
        shop = Shop(cluster, minute)
        shop.play()
        draft = Path(scratch) / folder.name
        take(cluster.bootstrap_servers, cluster.brokers[0].share_groups_describe, draft, minute)
        shop.leave()
        if minute >= 60:
            check(draft)
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)


def take(servers: str, describe: Callable[[], str], folder: Path, minute: float) -> None:
    """Capture while members work, between two descriptions by Kafka."""
    before = describe()
    capture_kafka(ClientConfig({"bootstrap.servers": servers}), folder)
    after = describe()
    about = {
        "kafka": KAFKA_VERSION,
        "java": java_version(),
        "confluent-kafka": confluent_kafka.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds_a_minute": minute,
        "groups": {name: {"cause": it.cause, "story": it.story} for name, it in GROUPS.items()},
    }
    (folder / "expected.json").write_text(json.dumps(about, indent=1) + "\n")
    (folder / "describe_before.txt").write_text(before)
    (folder / "describe_after.txt").write_text(after)


def check(folder: Path) -> None:
    """Check that each group ends as in its story.

    Raises
    ------
    RigError
        A group does not.
    """
    first: dict[str, str] = {}
    for row in sharelag.open(folder, engine="local").explain().table.to_pylist():
        first.setdefault(row["group_id"], row["cause"])
    wrong = {name: first.get(name) for name, it in GROUPS.items() if first.get(name) != it.cause}
    if wrong:
        raise RigError(f"the stories of these groups came out differently: {wrong}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record the shop from three brokers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--minute", type=float, default=60.0, help="seconds that a minute of the story takes"
    )
    options = parser.parse_args()
    record(options.folder, options.minute)
