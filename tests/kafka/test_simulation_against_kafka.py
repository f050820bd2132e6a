"""Kafka's own share coordinator loads what a simulation wrote, and would write the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from sharelag.model import SharePartition, Window
from sharelag.replay import replay_arrow
from sharelag.replay.state import window_items
from sharelag.whatif.partition.values import Write
from sharelag.whatif.records import StateTopic
from sharelag.whatif.scenario import PartitionStart, Scenario
from sharelag.whatif.simulate import SimulationResult, simulate
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.states import as_kafka
from tests.support.simulation_scenarios import EVERYTHING, random_scenario


def test_kafkas_coordinator_loads_what_a_simulation_wrote(
    oracle_replayer: Oracle, cases: Any
) -> None:
    """After each run it holds the states of the simulation's coordinator and of our replay."""
    runs = [simulate(EVERYTHING, seed) for seed in range(cases(1, 20))]
    runs += [simulate(random_scenario(Random(n), n % 2 == 0), n) for n in range(cases(16, 600))]
    requested = [(run, question) for run in runs for question in _by_partition(run)]
    answers = oracle_replayer.ask_many([question for _, question in requested])
    loaded: dict[int, dict[str, Any]] = {}
    for (run, _), answer in zip(requested, answers, strict=True):
        assert answer["loadFailedAt"] is None
        loaded.setdefault(id(run), {}).update(answer["states"])
    for run in runs:
        kept = {key: run._states.window(place) for place, key in enumerate(run._states.keys)}
        assert loaded[id(run)] == as_kafka(kept)
        records = decode_arrow(run.records(), STATE_TOPIC).records
        assert dict(window_items(replay_arrow(records))) == kept
    assert sum(len(question["records"]) for _, question in requested) > 5000


@pytest.mark.row("PSC-17")
def test_kafkas_coordinator_would_have_written_the_same(
    oracle_coordinator: Oracle, cases: Any
) -> None:
    """Given the simulated brokers' requests, it writes the same bytes, one partition at a time."""
    for n in range(cases(10, 200)):
        scenario = _new_group(random_scenario(Random(1000 + n), n % 2 == 0))
        with _requests() as requested:
            records = simulate(scenario, n).records().to_pylist()
        topics = {topic.id: topic.partitions for topic in scenario.topics}
        answer = oracle_coordinator.ask(
            {"topics": topics, "ops": requested, "updatesPerSnapshot": 500, "coldMs": 300_000}
        )
        assert {result.get("error", 0) for result in answer["results"]} == {0}
        theirs = [
            (record["k"], record["v"])
            for result in answer["results"]
            for record in result["records"]
        ]
        assert [(row["key"].hex(), row["value"].hex()) for row in records] == theirs


def _by_partition(run: SimulationResult) -> list[dict[str, Any]]:
    partitions: dict[int, list[dict[str, Any]]] = {}
    for row in run.records().to_pylist():
        record = {
            "o": row["offset"],
            "k": row["key"].hex(),
            "v": row["value"].hex() if row["value"] else None,
        }
        partitions.setdefault(row["partition"], []).append(record)
    return [{"records": records} for _, records in sorted(partitions.items())]


def _new_group(scenario: Scenario) -> Scenario:
    """The same, but the group knows none of its share partitions before."""
    topics = tuple(
        replace(
            topic,
            starts=tuple(
                PartitionStart(start.end_offset, batch_records=4) for start in topic.starts
            ),
        )
        for topic in scenario.topics
    )
    return replace(scenario, topics=topics)


@contextmanager
def _requests() -> Iterator[list[dict[str, Any]]]:
    """Note the requests to the share coordinator, in the form of the oracle."""
    requested: list[dict[str, Any]] = []
    initialize, write, read = StateTopic.initialize, StateTopic.write, StateTopic.read

    def of(key: SharePartition, op: str, now: int) -> dict[str, Any]:
        return {"op": op, "now": now, "g": key.group_id, "t": key.topic_id, "p": key.partition}

    def initialized(
        self: StateTopic, key: SharePartition, now: int, state_epoch: int, start_offset: int
    ) -> None:
        requested.append(
            of(key, "init", now) | {"stateEpoch": state_epoch, "startOffset": start_offset}
        )
        initialize(self, key, now, state_epoch, start_offset)

    def written(self: StateTopic, key: SharePartition, one: Write) -> None:
        requested.append(
            of(key, "write", one.time_ms)
            | {
                "leaderEpoch": one.leader_epoch,
                "stateEpoch": one.state_epoch,
                "startOffset": one.start_offset,
            }
            | {
                "dcc": one.delivery_complete_count,
                "batches": [list(batch) for batch in one.batches],
            }
        )
        write(self, key, one)

    def was_read(self: StateTopic, key: SharePartition, leader_epoch: int, now: int) -> Window:
        requested.append(of(key, "read", now) | {"leaderEpoch": leader_epoch})
        return read(self, key, leader_epoch, now)

    with (
        patch.object(StateTopic, "initialize", initialized),
        patch.object(StateTopic, "write", written),
        patch.object(StateTopic, "read", was_read),
    ):
        yield requested
