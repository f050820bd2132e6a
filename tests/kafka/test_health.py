"""A coordinator prunes up to where we say, and share partitions go where Kafka's hash says."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag import schemas
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.health import findings, gather, health_arrow, state_partitions
from sharelag.model import SharePartition, topic_id_text
from sharelag.schemas import SHARE_PARTITION
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, encode_record
from sharelag.wire.placement import missing_partitions
from tests.support import readings
from tests.support.cases import Cases
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.oracles import Oracle, hexed
from tests.support.kafka.workload import (
    accept,
    create_topics,
    log_start_offsets,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)
from tests.support.records import assert_fields, row

GROUPS = ["health-a", "health-b", "health <c>"]


def test_needed_from_is_what_the_coordinator_counts(oracle_replayer: Oracle, cases: Cases) -> None:
    random = Random("pruning")
    logs = [log(random) for _ in range(cases(20, 5000))]
    answers = oracle_replayer.ask_many(
        hexed([(one["key"], one["value"]) for one in log], begin=log[0]["offset"]) for log in logs
    )
    result = 0
    for records, answer in zip(logs, answers, strict=True):
        mixed = random.sample(records, len(records))  # in any order, cut anywhere
        cut = random.randint(0, len(mixed))
        pieces = (mixed[:cut], mixed[cut:])
        counts = gather(pa.RecordBatch.from_pylist(piece, schemas.RAW) for piece in pieces)
        (health,) = health_arrow(counts).to_pylist()
        kafkas = answer["lastRedundantOffset"]
        # Kafka says nothing where there is nothing below to delete.
        assert (health["needed_from"] or None) == kafkas, records
        assert health["share_partitions"] == len(answer["states"])
        result += kafkas is not None
    assert result > len(logs) / 3


def log(random: Random) -> list[dict[str, Any]]:
    """A state partition's log of a few share partitions, which come, go, and come back."""
    records = []
    first = random.choice([0, 0, 1000])
    for offset in range(first, first + random.randint(1, 30)):
        kind = random.choice([SHARE_SNAPSHOT, SHARE_UPDATE, SHARE_UPDATE])
        key, value = encode_record(kind, row(offset, [], partition=random.randint(0, 3)))
        gone = kind is SHARE_SNAPSHOT and random.random() < 0.3
        place = {"topic": STATE_TOPIC, "partition": 0, "offset": offset, "timestamp": offset}
        records.append(place | {"key": key, "value": None if gone else value})
    return records


@pytest.mark.parametrize("partitions", [4, 50, 64])
def test_keys_tell_how_many_there_are(oracle_record_json: Oracle, partitions: int) -> None:
    """Where Kafka puts the keys, the first half of the partitions is half, and all are all."""
    random = Random(partitions)
    keys = [
        {"group": f"group {n % 7}", "topicId": topic_id_text(random.randbytes(16)), "partition": p}
        for n in range(150)
        for p in range(2)
    ]
    answers = oracle_record_json.ask_many(
        [{"partitionFor": key, "numPartitions": partitions} for key in keys]
    )
    columns = [[key[name] for key in keys] for name in ("group", "topicId", "partition")]
    place = [answer["partition"] for answer in answers]
    names = [*SHARE_PARTITION, "record_topic", "record_partition"]
    whole = pa.table([*columns, [STATE_TOPIC] * len(keys), place], names=names)
    half = whole.filter(pc.less(whole.column("record_partition"), partitions // 2))
    for all_of_it in (None, set(range(partitions))):
        assert missing_partitions(whole, all_of_it) is None
    for folders in (None, set(range(partitions // 2))):
        told = missing_partitions(half, folders)
        assert told is not None
        assert told.possible == (partitions,)
        there = folders or set(half.column("record_partition").to_pylist())
        assert told.missing == set(range(partitions)) - there


@pytest.mark.row("PSC-05")
def test_the_hash_is_kafkas(oracle_record_json: Oracle) -> None:
    random = Random("hash")
    topic_id = "Ap-hxn36QfS8yCM8wHVUiA"
    groups = [
        *("G1", "", "a:b", "ünï", "日本", "😀 beyond 16 bits"),
        *("x" * 300, "polygenelubricants", "\x00"),
    ]
    groups += [
        "".join(
            chr(random.choice([random.randint(32, 0xD7FF), random.randint(0x10000, 0x10FFFF)]))
            for _ in range(9)
        )
        for _ in range(300)
    ]
    keys = [SharePartition(group, topic_id, random.choice([0, 7, 2**31 - 1])) for group in groups]
    keys[0] = SharePartition("G1", topic_id, 0)
    counts = [random.choice([1, 4, 50, 1000]) for _ in keys]
    ours = state_partitions(pa.array(map(str, keys)), pa.array(counts, pa.int32())).to_pylist()
    questions = [
        {
            "partitionFor": {"group": k.group_id, "topicId": k.topic_id, "partition": k.partition},
            "numPartitions": n,
        }
        for k, n in zip(keys, counts, strict=True)
    ]
    answers = oracle_record_json.ask_many(questions)
    assert ours == [answer["partition"] for answer in answers]
    assert [str(key) for key in keys] == [answer["coordinatorKey"] for answer in answers]
    assert answers[0]["coordinatorKey"] == f"G1:{topic_id}:0"
    assert state_partitions(pa.array([None, "a"]), pa.array([3, None], pa.int32())).null_count == 2


@pytest.fixture(scope="module")
def pruned() -> Iterator[KafkaBroker]:
    """A broker that prunes every second, and renews cold snapshots too late for this test."""
    properties = {
        "share.coordinator.state.topic.prune.interval.ms": "1000",
        "share.coordinator.cold.partition.snapshot.interval.ms": "3600000",
        "share.coordinator.snapshot.update.records.per.snapshot": "5",
        "share.coordinator.state.topic.num.partitions": "2",
    }
    with KafkaBroker(properties=properties) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"health": 3})
        produce(servers, "health", numbered(300, 3), batch=5)
        for group in GROUPS:
            set_group_config(servers, group, share_auto_offset_reset="earliest")
            share_consume(
                servers, group, ["health"], accept, until=300, config={"max.poll.records": 5}
            )
        yield broker


def health_of(broker: KafkaBroker) -> list[dict[str, Any]]:
    config = client_config(broker.bootstrap_servers)
    table = health_arrow(gather(kafka.read_topic(config, STATE_TOPIC)), 2)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.exhaustive  # `test_needed_from_is_what_the_coordinator_counts`
def test_the_log_start_after_pruning_is_where_we_say_it_is_needed_from(pruned: KafkaBroker) -> None:
    def start() -> dict[int, int]:
        found = log_start_offsets(pruned.bootstrap_servers, [STATE_TOPIC])
        return {partition: offset for (_, partition), offset in found.items()}

    def has_settled() -> bool:
        """Pruned as far as it goes: what is needed now is what the log begins with."""
        needed = {line["partition"]: line["needed_from"] for line in health_of(pruned)}
        return start() == needed

    wait_until(has_settled, "the coordinator has pruned up to what we say is needed", every=0.5)
    assert all(offset > 0 for offset in start().values())
    before = start()
    rows = health_of(pruned)
    for line in rows:
        assert_fields(line, first_offset=before[line["partition"]], prunable=0, missing=0)
        assert line["pinned_by"].startswith(("health-a:", "health-b:", "health <c>:"))
        assert line["rejects"] == line["misplaced"] == 0
    assert sum(line["share_partitions"] for line in rows) == 9
    windows = readings.windows(KafkaInput(client_config(pruned.bootstrap_servers)), "local").table
    health = health_arrow(
        gather(kafka.read_topic(client_config(pruned.bootstrap_servers), STATE_TOPIC)), 2
    )
    assert findings(health, windows, 2).num_rows == 0
    swapped = findings(health, windows, 3).to_pylist()
    assert {line["finding"] for line in swapped} == {"misplaced"}
    assert all(line["belongs"] != line["record_partition"] for line in swapped)
