"""Do the quick scenarios show on a live broker what their recordings show?

They are played at the same time, on one broker, and looked at while their members are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from sharelag.metrics.explain import explain
from sharelag.replay.moment import Choice
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka.config import ClientConfig
from sharelag.workbench import engine, investigate
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.scenarios import SCENARIOS
from tests.support.kafka.stage import Stage

QUICK = ("healthy", "no_members", "head_of_line")


@pytest.fixture(scope="module")
def stages(broker: KafkaBroker) -> Iterator[dict[str, Stage]]:
    """Stages by scenario, each at the end of its story."""
    with ExitStack() as stack, ThreadPoolExecutor(len(QUICK)) as threads:
        open_stages = {
            name: stack.enter_context(Stage(broker.bootstrap_servers, name)) for name in QUICK
        }
        played = [
            threads.submit(SCENARIOS[name].play, stage) for name, stage in open_stages.items()
        ]
        for story in played:
            story.result()
        yield open_stages


@pytest.mark.parametrize("name", QUICK)
def test_lag_is_what_kafka_prints(broker: KafkaBroker, stages: dict[str, Stage], name: str) -> None:
    rows = _lag(stages[name])
    described = parse_describe(broker.share_groups_describe(stages[name].group))
    places = ("topic", "partition", "start_offset", "lag")
    assert [tuple(row[place] for place in places) for row in rows] == [
        (row["topic"], row["partition"], row["start_offset"], row["lag"]) for row in described
    ]
    promised = SCENARIOS[name].lag
    assert promised is not None
    assert sum(row["lag"] for row in rows) in promised


@pytest.mark.parametrize("name", QUICK)
def test_explain_names_the_cause_while_it_lasts(stages: dict[str, Stage], name: str) -> None:
    source = KafkaInput(ClientConfig({"bootstrap.servers": stages[name].bootstrap}))
    evidence = investigate.gather(source, "local", choice=Choice(frozenset({stages[name].group})))
    found = explain(evidence, timedelta(seconds=2.5)).column("cause").to_pylist()
    expected = SCENARIOS[name].cause
    assert found[:1] == ([] if expected is None else [expected])
    assert evidence.settings.num_rows > 10
    # Ages are those of records that were read.
    aged = [row for row in evidence.progress.to_pylist() if row["age_ms"]]
    assert {row["oldest_from"] for row in aged} <= {"record"}
    assert bool(aged) == (expected is not None)


def test_healthy(stages: dict[str, Stage]) -> None:
    assert [row["effective_lag"] for row in _lag(stages["healthy"])] == [0, 0, 0, 0]


def test_no_members(stages: dict[str, Stage]) -> None:
    # All of it arrived after they had left, beyond the windows.
    assert [(row["effective_lag"], row["unread"]) for row in _lag(stages["no_members"])] == [
        (60, 60)
    ] * 4


def test_head_of_line(stages: dict[str, Stage]) -> None:
    stuck, other = _lag(stages["head_of_line"])
    # Given back, while all that came after it are finished.
    assert (stuck["effective_start_offset"], stuck["window_available"], stuck["unread"]) == (
        6,
        1,
        0,
    )
    assert stuck["window_complete"] == stuck["end_offset"] - 7
    assert other["lag"] == 0


def _lag(stage: Stage) -> list[dict[str, Any]]:
    """Lag of the stage's group, read from the broker."""
    source = KafkaInput(ClientConfig({"bootstrap.servers": stage.bootstrap}))
    choice = Choice(frozenset({stage.group}))
    rows: list[dict[str, Any]] = engine.lag(source, "local", choice=choice).table.to_pylist()
    return rows
