"""We read records as Kafka's own generated classes do, good and damaged ones."""

import json
import re
from random import Random
from typing import Any

import numpy as np
import pytest

from sharelag.wire import GROUP_KINDS, GROUP_TOPIC, STATE_KINDS, STATE_TOPIC, decode_arrow, encode
from sharelag.wire.encode import encode_varint
from sharelag.wire.formatter import kafka_json
from sharelag.wire.generations import TODAY
from tests.support import generators
from tests.support.generations import records
from tests.support.kafka.oracles import Oracle, hexed
from tests.support.kafka.since import since
from tests.support.mutations import corpus, mutated
from tests.support.records import raw

COUNTS_TAGS = since("4.4", "Kafka took a negative number of tags for none, and any number of them")
HAS_COUNTS = since("4.2", "the state has counts of finished deliveries")
TOPICS = [
    pytest.param(STATE_TOPIC, marks=HAS_COUNTS),
    pytest.param(GROUP_TOPIC, marks=since("4.3", "target assignments have times")),
]
#: Tagged fields of a record, since Kafka 4.4.
MOST_TAGS = 10_000
_ORACLE_TOPICS = {STATE_TOPIC: "state", GROUP_TOPIC: "offsets"}


def ours(topic: str, records: list[generators.Record]) -> list[dict[str, Any] | str]:
    """For each record its key and value as Kafka prints them, "reject", or "skipped"."""
    decoded = decode_arrow(raw(records, topic, 0), topic, generation=TODAY)
    answers: list[dict[str, Any] | str] = ["skipped"] * len(records)
    for row in kafka_json(decoded.records):
        answers[row["offset"]] = {"key": row["key"], "value": row["value"]}
    for offset in decoded.rejects.column("offset").to_pylist():
        answers[offset] = "reject"
    return answers


def questions(topic: str, records: list[generators.Record]) -> list[dict[str, Any]]:
    return [{"topic": _ORACLE_TOPICS[topic]} | one for one in hexed(records)["records"]]


def kafkas(
    oracle: Oracle, topic: str, records: list[generators.Record]
) -> list[dict[str, Any] | str]:
    answers = [_as_ours(answer) for answer in oracle.ask_many(questions(topic, records))]
    return [
        "skipped" if _is_of_another_group(topic, key) else answer
        for (key, _), answer in zip(records, answers, strict=True)
    ]


def _is_of_another_group(topic: str, key: bytes) -> bool:
    """Kafka reads these kinds, too; they are not about share groups."""
    share_kinds = {kind.type for kind in GROUP_KINDS}
    is_of_groups = topic == GROUP_TOPIC and len(key) >= 2
    return is_of_groups and int.from_bytes(key[:2], "big", signed=True) not in share_kinds


def _written(answer: dict[str, Any] | str) -> str:
    """An answer as text, in which bytes that are not UTF-8 are one mark: Java may write fewer."""
    return re.sub("\ufffd+", "\ufffd", json.dumps(answer, ensure_ascii=False, sort_keys=True))


def _as_ours(answer: dict[str, Any]) -> dict[str, Any] | str:
    if "error" in answer:
        return "skipped" if "UnknownRecordType" in answer["error"] else "reject"
    value = answer["value"]
    return {
        "key": {"type": answer["type"], "data": answer["key"]},
        "value": None if value is None else {"version": answer["version"], "data": value},
    }


@pytest.mark.row("PSS-01", "PSS-02", "PSS-07", "PSS-08")
@pytest.mark.parametrize("topic", TOPICS)
def test_valid_ones_read_as_by_kafka(topic: str, oracle_record_json: Oracle, cases: Any) -> None:
    random = Random(f"valid {topic}")
    records = [generators.record(random) for _ in range(cases(300, 10_000))]
    theirs = kafkas(oracle_record_json, topic, records)
    assert ours(topic, records) == theirs
    assert sum(isinstance(answer, dict) for answer in theirs) > len(records) // 10


@pytest.mark.parametrize("topic", TOPICS)
def test_damaged_ones_are_refused_too(topic: str, oracle_record_json: Oracle, cases: Any) -> None:
    luck = Random(f"damaged {topic}")
    records = [generators.damaged(luck, generators.record(luck)) for _ in range(cases(300, 10_000))]
    theirs = kafkas(oracle_record_json, topic, records)
    mine = ours(topic, records)
    wrong = [(n, a, b) for n, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    assert wrong == []
    assert "reject" in theirs
    assert any(isinstance(answer, dict) for answer in theirs)


@COUNTS_TAGS
@pytest.mark.parametrize("topic", [STATE_TOPIC, GROUP_TOPIC])
def test_mutated_records_fail_in_kafka(topic: str, oracle_record_json: Oracle, cases: Any) -> None:
    recorded = corpus(topic)
    batch, _ = mutated(recorded, np.random.default_rng(22), cases(2000, 200_000))
    pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
    records = [(key, value) for key, value in pairs if key is not None]
    theirs = kafkas(oracle_record_json, topic, records)
    mine = ours(topic, records)
    both = enumerate(zip(mine, theirs, strict=True))
    wrong = [(n, a, b) for n, (a, b) in both if _written(a) != _written(b)]
    assert wrong == []
    assert theirs.count("reject") > len(records) // 10


@pytest.mark.parametrize("topic", [STATE_TOPIC, GROUP_TOPIC])
def test_they_are_written_as_by_kafka(topic: str, oracle_record_json: Oracle, cases: Any) -> None:
    random = Random(f"written {topic}")
    kinds = GROUP_KINDS if topic == GROUP_TOPIC else STATE_KINDS
    records = [generators.record(random, random.choice(kinds)) for _ in range(cases(120, 5000))]
    again = encode(decode_arrow(raw(records, topic, 0), topic).records, topic)
    ours = zip(again.column("key").to_pylist(), again.column("value").to_pylist(), strict=True)
    answers = oracle_record_json.ask_many(questions(topic, records))
    for (key, value), theirs in zip(ours, answers, strict=True):
        assert (key.hex(), None if value is None else value.hex()) == (theirs["k2"], theirs["v2"])


@HAS_COUNTS
@pytest.mark.parametrize(
    "varint", ["8180808010", "ffffffff0f", "808080808001", "8280808070", "80", "00", "8100", "ff7f"]
)
@pytest.mark.parametrize(
    "place", ["batches", pytest.param("tags", marks=COUNTS_TAGS), "tag", "size"]
)
def test_odd_lengths_are_read_as_kafka(varint: str, place: str, oracle_record_json: Oracle) -> None:
    key = bytes.fromhex("0001 0001") + b"g" + bytes(20)
    head = "0000 00000000 00000000 0000000000000007"
    batch = "0000000000000001 0000000000000002 02 0001 00"
    tails = {"batches": f"{varint} {batch} 00", "tags": f"02 {batch} {varint} 00 04 00000005"}
    tails |= {"tag": f"02 {batch} 01 {varint} 04 00000005"}
    tails |= {"size": f"02 {batch} 01 09 {varint} 00000005"}
    records: list[generators.Record] = [(key, bytes.fromhex(head + tails[place]))]
    assert ours(STATE_TOPIC, records) == kafkas(oracle_record_json, STATE_TOPIC, records)


@COUNTS_TAGS
@pytest.mark.parametrize("more", [0, 1])
def test_there_are_as_many_tags_as_kafka_allows(more: int, oracle_record_json: Oracle) -> None:
    key = bytes.fromhex("0001 0001") + b"g" + bytes(20)
    tags = b"".join(encode_varint(100 + tag) + bytes(1) for tag in range(MOST_TAGS + more))
    head = bytes.fromhex("0000 00000000 00000000 0000000000000007 01")
    records: list[generators.Record] = [(key, head + encode_varint(MOST_TAGS + more) + tags)]
    theirs = kafkas(oracle_record_json, STATE_TOPIC, records)
    assert (theirs == ["reject"]) is bool(more)
    assert ours(STATE_TOPIC, records) == theirs


@pytest.mark.exhaustive
def test_kafka_4_0_reads_and_writes_the_older_format_the_same(cases: Any) -> None:
    random = Random("4.0")
    rows = [
        batch
        for _ in range(cases(20, 200))
        for batch in [records([(0, []), *generators.ordered_sequence(random)], 3, 7)]
    ]
    with Oracle("ShareValueOracle", version="4.0.0") as oracle:
        for decoded in rows:
            encoded = encode(decoded)
            read = decode_arrow(encoded).records
            assert encode(read).equals(encoded)
            assert set(read.column("generation").to_pylist()) == {3}
            kinds = decoded.column("record_type").to_pylist()
            values = [value.hex() for value in encoded.column("value").to_pylist()]
            answers = oracle.ask_many(
                [{"type": kind, "v": value} for kind, value in zip(kinds, values, strict=True)]
            )
            assert [answer["v2"] for answer in answers] == values
            assert {answer["left"] for answer in answers} == {0}
            ours = [line["value"]["data"] for line in kafka_json(decoded)]
            assert [answer["value"] for answer in answers] == ours
