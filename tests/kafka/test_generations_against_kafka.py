"""Is the older format of the state topic what Kafka 4.0, which wrote it, reads and writes?"""

from __future__ import annotations

from random import Random

from sharelag.wire import decode_arrow, encode
from sharelag.wire.formatter import kafka_json
from tests.support import generators
from tests.support.generations import records
from tests.support.kafka.oracles import share_values


def test_kafka_4_0_reads_and_writes_the_same() -> None:
    random = Random("4.0")
    rows = [
        batch
        for _ in range(60)
        for batch in [records([(0, []), *generators.ordered_sequence(random)], 3, 7)]
    ]
    with share_values("4.0.0") as oracle:
        for decoded in rows:
            raw = encode(decoded)
            read = decode_arrow(raw).records
            assert encode(read).equals(raw)
            assert set(read.column("generation").to_pylist()) == {3}
            kinds = decoded.column("record_type").to_pylist()
            values = [value.hex() for value in raw.column("value").to_pylist()]
            answers = oracle.ask_many(
                [{"type": kind, "v": value} for kind, value in zip(kinds, values, strict=True)]
            )
            assert [answer["v2"] for answer in answers] == values
            assert {answer["left"] for answer in answers} == {0}
            ours = [line["value"]["data"] for line in kafka_json(decoded)]
            assert [answer["value"] for answer in answers] == ours
