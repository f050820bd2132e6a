"""The exporter while its only broker hangs: quick scrapes, and no numbers that are old."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.bystanders import SCRAPE, Exporter
from tests.support.kafka.cluster import frozen
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

#: Seconds after which the exporter shows the numbers of a cluster no more that has just hung: those
#: of `gathered`, for a collection every two seconds with a timeout of two, and what a busy machine
#: adds.
OLD = 40.0


@pytest.mark.exhaustive
def test_the_numbers_of_a_broker_that_hangs_end_and_come_back(
    tmp_path: Path, injected: Inject
) -> None:
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"still": 2})
        set_group_config(servers, "still", **{"share.auto.offset.reset": "earliest"})
        produce(servers, "still", numbered(20, 2))
        share_consume(servers, "still", ["still"], accept, until=20)
        options = ["--bootstrap-server", servers, "--timeout", "2000"]
        with Exporter(options, tmp_path, {0: 0, 1: 0}) as exporter:

            def has_numbers() -> bool:
                return "kafka_share_group_lag{" in exporter.scrape()

            wait_until(has_numbers, "the exporter has collected", 120)
            with frozen(broker):
                hung = time.monotonic()
                wait_until(lambda: not has_numbers(), "no numbers are shown any more", OLD)
                ended = time.monotonic() - hung
                # Old numbers must not come back while the broker hangs: looked at for 5 s.
                for _ in range(10):
                    assert not has_numbers()
                    time.sleep(0.5)
            wait_until(has_numbers, "numbers are shown again", 120)
    injected(
        "brokers",
        "the only broker is stopped while the exporter is scraped (SIGSTOP)",
        1,
        exporter.happened,
        wrong=len(exporter.wrong),
        measured={
            "seconds until no numbers are shown": round(ended, 1),
            "seconds for a scrape": exporter.slowest,
        },
    )
    assert exporter.wrong == []
    assert exporter.ends == []
    assert exporter.slowest < SCRAPE
