"""Are the options of the Spark source understood as Spark's own Kafka source understands them?"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.errors import ConfigError, DataLossError, TopicMissingError
from sharelag.sources import spark_kafka
from sharelag.sources.spark_kafka import OffsetRange, plan, split
from sharelag.sources.spark_options import read_options

#: What the cluster of these tests holds: the first and the end offset of each partition.
CLUSTER = {"orders": {0: (5, 100), 1: (0, 40)}, "orders-eu": {0: (0, 10)}, "empty": {0: (0, 0)}}


def _options(**options: str) -> dict[str, str]:
    """Options as Spark hands them over: their names in lower case."""
    dotted = {name.replace("_", "."): value for name, value in options.items()}
    return {name.lower(): value for name, value in {"kafka.bootstrap.servers": "b:1", **dotted}.items()}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def offset_ranges(_: object, topic: str) -> dict[int, tuple[int, int]]:
        return CLUSTER[topic]

    def offsets_for_times(_: object, topic: str, times: dict[int, int]) -> dict[int, int]:
        # One record a millisecond, the first at 1000.
        return {p: min(max(time - 1000, CLUSTER[topic][p][0]), CLUSTER[topic][p][1]) for p, time in times.items()}

    monkeypatch.setattr(spark_kafka.kafka, "offset_ranges", offset_ranges)
    monkeypatch.setattr(spark_kafka.kafka, "offsets_for_times", offsets_for_times)
    monkeypatch.setattr(spark_kafka.kafka, "topic_names", lambda _: sorted(CLUSTER))


def _planned(**options: str) -> list[tuple[str, int, int, int]]:
    return [(r.topic, r.partition, r.first, r.end) for r in plan(read_options(_options(**options)))]


def test_defaults() -> None:
    found = read_options(_options(subscribe="orders"))
    assert (found.topics, found.pattern, found.assigned) == (["orders"], None, {})
    assert (found.starting, found.ending, found.fail_on_data_loss) == ("earliest", "latest", True)
    assert found.config.bootstrap_servers == "b:1"


@pytest.mark.parametrize("name", ["minPartitions", "minpartitions", "MINPARTITIONS"])
def test_names_in_any_case(name: str) -> None:
    assert read_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", name: "7"}).min_partitions == 7


@pytest.mark.parametrize("name", ["kafka.Client.Id", "KAFKA.CLIENT.ID"])
def test_client_settings_in_any_case(name: str) -> None:
    config = read_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", name: "me"}).config
    assert config.librdkafka()["client.id"] == "me"


ORDERS_0, ORDERS_1, EU = ("orders", 0, 5, 100), ("orders", 1, 0, 40), ("orders-eu", 0, 0, 10)


def _all(value: Any) -> str:
    return json.dumps({"orders": value})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "orders"}, [ORDERS_0, ORDERS_1]),
        ({"subscribe": " orders , orders-eu,"}, [ORDERS_0, ORDERS_1, EU]),
        ({"subscribe": "orders,orders"}, [ORDERS_0, ORDERS_1]),
        ({"subscribe": "empty"}, []),
        ({"subscribePattern": "orders.*"}, [ORDERS_0, ORDERS_1, EU]),
        ({"subscribePattern": "orders"}, [ORDERS_0, ORDERS_1]),
        ({"subscribePattern": ".*-eu"}, [EU]),
        ({"assign": _all([1])}, [ORDERS_1]),
        ({"assign": _all([1, 0, 1])}, [ORDERS_0, ORDERS_1]),
        ({"assign": '{"orders": [0], "orders-eu": [0]}'}, [ORDERS_0, EU]),
        ({"subscribe": "orders", "startingOffsets": "Earliest", "endingOffsets": "LATEST"}, [ORDERS_0, ORDERS_1]),
        ({"subscribe": "orders", "startingOffsets": _all({"0": 7, "1": -2})}, [("orders", 0, 7, 100), ORDERS_1]),
        ({"subscribe": "orders", "endingOffsets": _all({"0": 7, "1": -1})}, [("orders", 0, 5, 7), ORDERS_1]),
        ({"assign": _all([1]), "startingOffsets": _all({"1": 3})}, [("orders", 1, 3, 40)]),
        ({"subscribe": "orders", "startingOffsets": _all({"0": 100, "1": 40})}, []),
        ({"subscribe": "orders", "startingOffsetsByTimestamp": _all({"0": 1010, "1": 1})},
         [("orders", 0, 10, 100), ORDERS_1]),
        ({"subscribe": "orders", "endingOffsetsByTimestamp": _all({"0": 1010, "1": 9999})},
         [("orders", 0, 5, 10), ORDERS_1]),
        # A time wins over a position, as in Spark.
        ({"subscribe": "orders-eu", "startingOffsets": '{"orders-eu": {"0": 1}}',
          "startingOffsetsByTimestamp": '{"orders-eu": {"0": 1004}}'}, [("orders-eu", 0, 4, 10)]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("cluster")
def test_what_is_read(options: dict[str, str], expected: list[tuple[str, int, int, int]]) -> None:
    assert _planned(**options) == expected


@pytest.mark.parametrize(
    ("starting", "ending", "left"),
    [
        ({"0": 0, "1": 0}, None, [ORDERS_0, ORDERS_1]),
        (None, {"0": 101, "1": 40}, [ORDERS_0, ORDERS_1]),
        ({"0": 101, "1": 0}, None, [ORDERS_1]),
        (None, {"0": 3, "1": 40}, [ORDERS_1]),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_offsets_outside_of_the_log(
    starting: dict[str, int] | None, ending: dict[str, int] | None, left: list[tuple[str, int, int, int]]
) -> None:
    options = {"subscribe": "orders"}
    options |= {"startingOffsets": _all(starting)} if starting else {"endingOffsets": _all(ending)}
    with pytest.raises(DataLossError, match="orders partition 0 holds offsets 5 to 100") as lost:
        _planned(**options)
    assert "failOnDataLoss" in str(lost.value)
    assert _planned(**options, failOnDataLoss="False") == left


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of subscribe, subscribePattern and assign"),
        ({"subscribe": "a", "subscribePattern": "b"}, "not subscribe and subscribePattern"),
        ({"subscribe": "a", "assign": "{}"}, "not subscribe and assign"),
        ({"subscribe": ""}, "subscribe is empty"),
        ({"subscribe": " , "}, "subscribe is empty"),
        ({"assign": "{}"}, "assign is empty"),
        ({"subscribePattern": ""}, "subscribePattern is empty"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": '{"orders": []}'}, "assign is empty"),
        ({"assign": '{"orders": 0}'}, "assign cannot be read"),
        ({"assign": '{"orders": "01"}'}, "assign cannot be read"),
        ({"assign": '{"orders": [0.5]}'}, "assign cannot be read"),
        ({"assign": '["orders"]'}, "assign cannot be read"),
        ({"assign": "orders"}, "assign cannot be read"),
        ({"assign": '{"orders": [2]}'}, "orders has no partition 2: it has 0 to 1"),
        ({"assign": '{"orders": [-1]}'}, "orders has no partition -1"),
        ({"subscribe": "orders", "startOffsets": "earliest"}, "option 'startoffsets' is unknown"),
        ({"subscribe": "orders", "includeHeaders": "true"}, "includeHeaders"),
        ({"subscribe": "orders", "startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"subscribe": "orders", "endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"subscribe": "orders", "startingOffsets": _all({"0": -1, "1": -2})}, "startingOffsets cannot be -1"),
        ({"subscribe": "orders", "endingOffsets": _all({"0": -2, "1": -1})}, "endingOffsets cannot be -2"),
        ({"subscribe": "orders", "startingOffsets": _all({"0": -3, "1": 0})}, "below -2"),
        ({"subscribe": "orders", "startingOffsetsByTimestamp": _all({"0": -1, "1": 0})}, "below 0"),
        ({"subscribe": "orders", "startingOffsets": "first"}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": "{"}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": "[0]"}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": _all([0, 1])}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": _all({"0": None, "1": 0})}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": _all({"0": 1.5, "1": 0})}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": _all({"zero": 1})}, "startingOffsets cannot be read"),
        ({"subscribe": "orders", "startingOffsets": _all({"0": 5})}, "orders leave out partition 1"),
        ({"subscribe": "orders", "startingOffsets": "{}"}, "orders leave out partition 0"),
        ({"subscribe": "orders", "endingOffsetsByTimestamp": _all({"1": 5})}, "orders leave out partition 0"),
        ({"subscribe": "orders", "endingOffsets": _all({"0": 9, "1": 9, "2": 9})}, "partition 2, which is not read"),
        ({"subscribe": "orders-eu", "endingOffsets": '{"orders-eu": {"0": 9}, "order": {"0": 9}}'},
         "'order', which is not read"),
        ({"subscribe": "orders", "minPartitions": "many"}, "minPartitions is 'many'"),
        ({"subscribe": "orders", "minPartitions": "-1"}, "minPartitions is '-1'"),
        ({"subscribe": "orders", "minPartitions": "²"}, "minPartitions is '²'"),
        ({"subscribe": "orders", "failOnDataLoss": "no"}, "failOnDataLoss is 'no'"),
        ({"subscribe": "orders", "kafka_default.api.timeout.ms": "soon"}, "give milliseconds"),
        ({"subscribe": "orders", "kafka_isolation.level": "read_committed"}, "read_uncommitted"),
        ({"subscribe": "orders", "kafka_sasl.mechanism": "GSSAPI"}, "Kerberos"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("cluster")
def test_options_that_cannot_be_meant(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _planned(**options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("cluster")
def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(TopicMissingError, match="no topic matches subscribePattern 'x\\+'"):
        _planned(subscribePattern="x+")


def test_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(ConfigError, match="no cluster is named"):
        read_options({"subscribe": "t"})


# ---- minPartitions --------------------------------------------------------------------------------------

ranges = st.lists(
    st.builds(
        lambda partition, first, size: OffsetRange("t", partition, first, first + size),
        st.integers(0, 50),
        st.integers(0, 1 << 62),
        st.integers(1, 1 << 40) | st.integers(1, 5),
    ),
    max_size=20,
    unique_by=lambda one: one.partition,
)


@given(ranges, st.integers(1, 200))
def test_pieces_cover_each_range_exactly(whole: list[OffsetRange], at_least: int) -> None:
    pieces = split(whole, at_least)
    assert all(piece.end > piece.first for piece in pieces)
    for one in whole:
        mine = sorted((p.first, p.end) for p in pieces if p.partition == one.partition)
        assert mine[0][0] == one.first
        assert mine[-1][1] == one.end
        assert all(left[1] == right[0] for left, right in pairwise(mine))


@given(ranges, st.integers(1, 200))
def test_there_are_at_least_as_many_pieces_as_asked(whole: list[OffsetRange], at_least: int) -> None:
    pieces = split(whole, at_least)
    total = sum(one.end - one.first for one in whole)
    assert len(pieces) >= min(at_least, total)
    assert len(pieces) <= at_least + len(whole)
    assert max((p.end - p.first for p in pieces), default=0) <= max(1, -(-total // at_least))


def test_no_option_no_cut() -> None:
    whole = [OffsetRange("t", 0, 0, 1 << 40), OffsetRange("t", 1, 0, 1)]
    assert split(whole, read_options(_options(subscribe="t")).min_partitions) == whole
