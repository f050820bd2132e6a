"""Our share partition acts as Kafka's class does, and our coordinator writes what it writes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from sharelag.model import SharePartition, Window
from sharelag.replay import replay_arrow
from sharelag.replay.state import window_items
from sharelag.whatif import PartitionStart, Scenario, SimulationResult, simulate
from sharelag.whatif.records import StateTopic, Write, WrittenRun
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support import generators
from tests.support.kafka.oracles import Oracle, as_kafka, hexed
from tests.support.share_partition import fetch_orders, state_batches
from tests.support.share_schedules import lives
from tests.support.simulation_scenarios import EVERYTHING, random_scenario

TOPIC = "A" * 22
#: Where Kafka's class fails within, a fetch of ours gets nothing, and an acknowledgement is
#: refused.
INTERNAL = {
    "acquire": {"IllegalArgumentException", "IllegalStateException"},
    "acknowledge": {"NullPointerException"},
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("SharePartitionOracle") as running:
        yield running


def test_a_share_partition_does_what_kafkas_does(oracle: Oracle, cases: Any) -> None:
    count = cases(8, 1600)
    each = ((seed, Random(f"schedule False {seed}")) for seed in range(count))
    played = [(seed, life) for seed, random in each for life in lives(random)]
    answers = oracle.ask_many([life.question for _, life in played])
    seen: dict[str, int] = {}
    for (seed, life), theirs in zip(played, answers, strict=True):
        assert theirs["loaded"] == life.loaded, f"schedule {seed}: {life.question}"
        for step, answer in zip(life.steps, theirs["steps"], strict=True):
            assert step["answer"] == _as_ours(step, answer, seen), f"schedule {seed}: {step['op']}"
    assert seen["acquire"] > 5 * count
    assert seen["written"] > 5 * count
    assert seen["refused"] > count / 2


def _as_ours(step: dict[str, Any], answer: dict[str, Any], seen: dict[str, int]) -> dict[str, Any]:
    kind, error, ours = step["op"]["op"], answer.get("error"), step["answer"]
    for name, happened in {kind: True, "written": answer["writes"], "refused": error}.items():
        seen[name] = seen.get(name, 0) + bool(happened)
    if error not in INTERNAL.get(kind, set()):
        return answer
    if kind == "acknowledge":
        assert ours.get("error") == "InvalidRecordStateException"
        return answer | {"error": ours["error"]}
    assert ours["acquired"] == []
    return {name: value for name, value in answer.items() if name != "error"}


def test_kafka_itself_stands_still_after_a_load(oracle: Oracle) -> None:
    """All in flight is finished, yet the start offset does not move and no fetch may go on."""
    settings = {"maxRecordLocks": 15, "deliveryCountLimit": 5, "lockDurationMs": 30_000}
    settings["renewEnabled"] = True
    window = {"startOffset": 0, "stateEpoch": 0, "leaderEpoch": 1, "batches": [[10, 19, 2, 1]]}
    fetch = {"op": "acquire", "now": 0, "member": "c", "maxRecords": 10, "batchSize": 10}
    fetch |= {"mode": "batch_optimized"}
    fetched = [[0, 9, False], [10, 19, False], [20, 29, False]]
    said = [[[0, 4, [1]], [5, 5, [2]], [6, 9, [1]]], [[5, 5, [1]]]]
    ops: list[dict[str, Any]] = []
    for batches in said:
        done = {"op": "acknowledge", "now": 0, "member": "c", "batches": batches}
        ops += [fetch | {"fetched": fetched}, done]
    ops.append(fetch | {"fetched": fetched[2:]})
    answer = oracle.ask(settings | window | {"ops": ops})
    acquired = [step.get("acquired") for step in answer["steps"]]
    assert acquired == [[[0, 9, 1]], None, [[5, 5, 2]], None, []]
    last = answer["steps"][-1]
    assert not last["canFetch"]
    assert (last["state"]["startOffset"], last["state"]["dcc"]) == (5, 15)
    assert {run[2] for batch in last["state"]["inFlight"] for run in batch[3]} == {2}


@pytest.mark.row("FET-04")
def test_partitions_rotate_as_kafka_rotates_them(oracle: Oracle) -> None:
    for n in range(1, 5):
        answers = oracle.ask_many([{"rotate": n, "sessionEpoch": epoch} for epoch in range(9)])
        assert fetch_orders(n, 9) == [answer["order"] for answer in answers]


@pytest.mark.row("PSC-17")
def test_the_coordinator_writes_what_kafkas_writes(oracle_coordinator: Oracle, cases: Any) -> None:
    random = Random("coordinator")
    for _ in range(cases(10, 600)):
        limit = random.choice([0, 1, 3, 500])
        ops = _requests(random)
        theirs = oracle_coordinator.ask(
            {"topics": {TOPIC: 9}, "ops": ops, "updatesPerSnapshot": limit, "coldMs": 1000}
        )["results"]
        topic = StateTopic(partitions=1, updates_per_snapshot=limit, cold_ms=1000)
        done = 0
        for op, result in zip(ops, theirs, strict=True):
            if result.get("error"):  # refused, which changes nothing: no simulation asks for it
                assert not result["records"]
                continue
            assert _answer(topic, op) == result.get("answer"), op
            made = topic.records().to_pylist()
            ours = [(r["key"].hex(), r["value"].hex() if r["value"] else None) for r in made[done:]]
            written = [(record["k"], record["v"]) for record in result["records"]]
            if op["op"] == "cold":  # in no order
                ours, written = sorted(ours), sorted(written)
            assert ours == written, op
            assert [row["offset"] for row in made] == list(range(len(made)))
            done = len(made)


def _requests(random: Random) -> list[dict[str, Any]]:
    now, ops = 1_000_000, []
    for _ in range(40):
        now += random.choice([0, 5, 400, 1100])
        kind = random.choices(["init", "write", "read", "cold"], [2, 12, 2, 2])[0]
        op: dict[str, Any] = {"op": kind, "now": now}
        if kind != "cold":
            op |= {"g": "G1", "t": TOPIC, "p": random.choice([0, 0, 1])}
        if kind in ("init", "write"):
            op |= {
                "stateEpoch": random.choice([-1, 0, 0, 1, 1, 2, 3]),
                "startOffset": random.choice([-1, 0, 7, 20]),
            }
        if kind in ("write", "read"):
            op["leaderEpoch"] = random.randint(-1, 4)
        if kind == "write":
            op |= {
                "dcc": random.randint(-1, 9),
                "batches": [list(batch) for batch in generators.state_batches(random)],
            }
            if random.random() < 0.4:  # as a split batch is written
                first = random.randint(0, 30)
                states = [
                    [random.choice([0, 2, 2]), random.choice([1, 1, 2])]
                    for _ in range(random.randint(1, 9))
                ]
                op["batches"] = [[first + n, first + n, *state] for n, state in enumerate(states)]
        ops.append(op)
    return ops


def _joined(runs: Iterable[WrittenRun]) -> tuple[WrittenRun, ...]:
    """Join neighbours written offset by offset into one run; Kafka gets the same states."""
    merged: list[WrittenRun] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last and run.per_offset and last[1:] == (run.first_offset - 1, *run[2:]):
            merged[-1] = last._replace(last_offset=run.last_offset)
        else:
            merged.append(run)
    return tuple(merged)


def _answer(topic: StateTopic, op: dict[str, Any]) -> dict[str, Any] | None:
    key, now = SharePartition(op.get("g", ""), op.get("t", ""), op.get("p", 0)), op["now"]
    if op["op"] == "init":
        topic.initialize(key, now, op["stateEpoch"], op["startOffset"])
    elif op["op"] == "write":
        runs = _joined(
            WrittenRun(first, last, state, count, per_offset=first == last)
            for first, last, state, count in op["batches"]
        )
        assert [list(batch) for batch in state_batches(Write(0, 0, 0, 0, 0, runs))] == op["batches"]
        topic.write(
            key, Write(now, op["startOffset"], op["dcc"], op["leaderEpoch"], op["stateEpoch"], runs)
        )
    elif op["op"] == "read":
        window = topic.read(key, op["leaderEpoch"], now)
        return {
            "startOffset": window.start_offset,
            "stateEpoch": window.state_epoch,
            "batches": [list(b) for b in window.batches],
        }
    else:
        topic.snapshot_cold(now)
    return None


def test_the_coordinator_loads_what_a_simulation_wrote(oracle_replayer: Oracle, cases: Any) -> None:
    """After each run it holds the states of the simulation's coordinator and of our replay."""
    runs = [simulate(EVERYTHING, seed) for seed in range(cases(1, 20))]
    runs += [simulate(random_scenario(Random(n), n % 2 == 0), n) for n in range(cases(2, 600))]
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
    assert sum(len(question["records"]) for _, question in requested) > cases(1_000, 5_000)


@pytest.mark.row("PSC-17")
def test_coordinators_would_have_written_the_same(oracle_coordinator: Oracle, cases: Any) -> None:
    """Given the simulated brokers' requests, it writes the same bytes, one partition at a time."""
    for n in range(cases(4, 200)):
        scenario = _new_group(random_scenario(Random(1000 + n), n % 2 == 0))
        with _noted() as requested:
            records = simulate(scenario, n).records().to_pylist()
        topics = {topic.id: topic.partitions for topic in scenario.topics}
        answer = oracle_coordinator.ask(
            {"topics": topics, "ops": requested, "updatesPerSnapshot": 500, "coldMs": 300_000}
        )
        assert {result.get("error", 0) for result in answer["results"]} == {0}
        theirs = [(r["k"], r["v"]) for result in answer["results"] for r in result["records"]]
        assert [(row["key"].hex(), row["value"].hex()) for row in records] == theirs


def _by_partition(run: SimulationResult) -> list[dict[str, Any]]:
    partitions: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for row in run.records().to_pylist():
        partitions.setdefault(row["partition"], []).append((row["key"], row["value"]))
    return [hexed(records) for _, records in sorted(partitions.items())]


def _new_group(scenario: Scenario) -> Scenario:
    """The same, but the group knows none of its share partitions before."""
    topics = tuple(
        replace(
            t, starts=tuple(PartitionStart(start.end_offset, batch_records=4) for start in t.starts)
        )
        for t in scenario.topics
    )
    return replace(scenario, topics=topics)


@contextmanager
def _noted() -> Iterator[list[dict[str, Any]]]:
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
            | {"dcc": one.delivery_complete_count, "batches": list(map(list, state_batches(one)))}
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
