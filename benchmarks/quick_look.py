"""`sharelag lag` on the local engine against kafka-share-groups.sh, on the same broker."""

from __future__ import annotations

import subprocess

from benchmarks.sides import in_turn
from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.jars import kafka_jars
from tests.support.kafka.jvm import find_java
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
)

# What kafka-run-class.sh starts Java with.
_SCRIPT_OPTIONS = [
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]


def kafka_share_groups(servers: str) -> None:
    """The command as its script starts it; the script's own bash is left out, in its favour."""
    tool = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    options = [
        "--bootstrap-server",
        servers,
        "--describe",
        "--all-groups",
        "--offsets",
        "--verbose",
    ]
    command = [str(find_java()), *_SCRIPT_OPTIONS, "-cp", f"{kafka_jars()}/*", tool, *options]
    subprocess.run(command, check=True, capture_output=True)


def run() -> None:
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"bench": 12})
        produce(servers, "bench", numbered(2400, 12))
        set_group_config(servers, "bench", **{"share.auto.offset.reset": "earliest"})
        share_consume(servers, "bench", ["bench"], accept, until=1500)
        ours = [
            line.split()[:6]
            for line in sharelag("lag", "--bootstrap-server", servers).stdout.splitlines()[1:]
        ]
        theirs = [
            line.split()
            for line in broker.share_groups_describe().splitlines()
            if line.startswith("bench")
        ]
        if ours != theirs or len(parse_describe(broker.share_groups_describe())) != 12:
            raise SystemExit(f"the rows differ, so the times mean nothing:\n{ours}\n{theirs}")
        in_turn(
            {
                "kafka-share-groups.sh --describe --offsets": lambda: kafka_share_groups(servers),
                "sharelag lag --engine local": lambda: sharelag(
                    "lag", "--bootstrap-server", servers, "--engine", "local"
                ),
            }
        )
