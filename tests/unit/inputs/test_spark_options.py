"""The options of the Spark source mean what they mean to Spark's own Kafka source."""

import json
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.errors import ConfigError, DataLossError
from sharelag.inputs.kafka import topics
from sharelag.inputs.spark.data_source import (
    Gap,
    OffsetRange,
    StreamReader,
    advance,
    between,
    plan,
    read_options,
)

#: What the cluster of these tests holds: the first and the end offset of each partition.
CLUSTER = {"orders": {0: (5, 100), 1: (0, 40)}, "orders-eu": {0: (0, 10)}, "empty": {0: (0, 0)}}


def _options(**options: str) -> dict[str, str]:
    """Options as Spark hands them over: their names in lower case."""
    named = {name.replace("_", ".").lower(): value for name, value in options.items()}
    return {"kafka.bootstrap.servers": "b:1"} | named


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def offset_ranges(
        _: object, topic: str, only: Collection[int] | None = None
    ) -> dict[int, tuple[int, int]]:
        return {p: CLUSTER[topic][p] for p in topics.choose_partitions(topic, CLUSTER[topic], only)}

    monkeypatch.setattr(topics, "offset_ranges", offset_ranges)


def _planned(**options: str) -> list[tuple[str, int, int, int]]:
    return [(r.topic, r.partition, r.first, r.end) for r in plan(read_options(_options(**options)))]


def test_defaults() -> None:
    found = read_options(_options(subscribe="orders"))
    assert found.topics == {"orders": None}
    assert (found.starting, found.ending, found.fail_on_data_loss) == ("earliest", "latest", True)
    assert found.config.bootstrap_servers == "b:1"


def test_names_in_any_case() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    for name in ("failOnDataLoss", "failondataloss", "FAILONDATALOSS"):
        assert not read_options(given | {name: "false"}).fail_on_data_loss
    for name in ("kafka.Client.Id", "KAFKA.CLIENT.ID"):
        assert read_options(given | {name: "me"}).config.settings["client.id"] == "me"


ORDERS_0, ORDERS_1, EU = ("orders", 0, 5, 100), ("orders", 1, 0, 40), ("orders-eu", 0, 0, 10)


def _all(value: Any) -> str:
    return json.dumps({"orders": value})


#: Options, and what is read: partitions of orders, by name or with a span; @ is of orders.
READ = """
subscribe=orders | 0 1
subscribe= orders , orders-eu, | 0 1 eu
subscribe=orders,orders | 0 1
subscribe=empty |
assign=@[1] | 1
assign=@[1, 0, 1] | 0 1
assign={"orders": [0], "orders-eu": [0]} | 0 eu
subscribe=orders; startingOffsets=Earliest; endingOffsets=LATEST | 0 1
subscribe=orders; startingOffsets=@{"0": 7, "1": -2} | 0:7-100 1
subscribe=orders; endingOffsets=@{"0": 7, "1": -1} | 0:5-7 1
assign=@[1]; startingOffsets=@{"1": 3} | 1:3-40
subscribe=orders; startingOffsets=@{"0": 100, "1": 40} |
"""


def _table(text: str) -> list[tuple[dict[str, str], str]]:
    """Read lines of options, and of what is expected of them."""
    rows = []
    for line in text.strip("\n").splitlines():
        given, _, expected = line.rpartition("|")
        pairs = (part.partition("=") for part in given[:-1].split("; ") if part)
        options = {name: value for name, _, value in pairs}
        for name, value in options.items():
            if value.startswith("@"):
                options[name] = f'{{"orders": {value[1:]}}}'
        rows.append((options, expected.strip()))
    return rows


def _range(text: str) -> tuple[str, int, int, int]:
    place, _, span = text.partition(":")
    if not span:
        return {"0": ORDERS_0, "1": ORDERS_1, "eu": EU}[place]
    first, _, end = span.partition("-")
    return "orders", int(place), int(first), int(end)


@pytest.mark.parametrize(
    ("options", "expected"),
    [(o, list(map(_range, e.split()))) for o, e in _table(READ)],
)
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
    starting: dict[str, int] | None,
    ending: dict[str, int] | None,
    left: list[tuple[str, int, int, int]],
) -> None:
    options = {"subscribe": "orders"}
    options |= {"startingOffsets": _all(starting)} if starting else {"endingOffsets": _all(ending)}
    with pytest.raises(DataLossError, match="orders partition 0 has offsets 5 to 100") as lost:
        _planned(**options)
    assert "failOnDataLoss" in str(lost.value)
    assert _planned(**options, failOnDataLoss="False") == left


ODD = """
 | one of subscribe and assign, not none
subscribe=orders; subscribePattern=orders.* | unknown option 'subscribepattern'
subscribe=a; assign={} | not subscribe and assign
subscribe= | subscribe is empty
subscribe= ,  | subscribe is empty
assign={} | assign is empty
assign=@[] | assign is empty
assign=@0 | assign is invalid
assign=@"01" | assign is invalid
assign=@[0.5] | assign is invalid
assign=["orders"] | assign is invalid
assign=orders | assign is invalid
assign=@[2] | orders has no partition 2: it has 0 to 1
assign=@[-1] | orders has no partition -1
subscribe=orders; startOffsets=earliest | unknown option 'startoffsets'
subscribe=orders; startingOffsets=latest | startingOffsets cannot be latest
subscribe=orders; endingOffsets=earliest | endingOffsets cannot be earliest
subscribe=orders; startingOffsets=@{"0": -1, "1": -2} | startingOffsets cannot be -1
subscribe=orders; endingOffsets=@{"0": -2, "1": -1} | endingOffsets cannot be -2
subscribe=orders; startingOffsets=@{"0": -3, "1": 0} | below -2
subscribe=orders; startingOffsets=first | startingOffsets is invalid
subscribe=orders; startingOffsets={ | startingOffsets is invalid
subscribe=orders; startingOffsets=[0] | startingOffsets is invalid
subscribe=orders; startingOffsets=@[0, 1] | startingOffsets is invalid
subscribe=orders; startingOffsets=@{"0": null, "1": 0} | startingOffsets is invalid
subscribe=orders; startingOffsets=@{"0": 1.5, "1": 0} | startingOffsets is invalid
subscribe=orders; startingOffsets=@{"zero": 1} | startingOffsets is invalid
subscribe=orders; startingOffsets=@{"0": 5} | orders lack partition 1
subscribe=orders; startingOffsets={} | orders lack partition 0
subscribe=orders; endingOffsets=@{"0": 9, "1": 9, "2": 9} | partition 2, which is not read
subscribe=orders-eu; endingOffsets={"orders-eu": {"0": 9}, "order": {"0": 9}} | 'order', which is not
subscribe=orders; failOnDataLoss=no | failOnDataLoss is 'no'
subscribe=orders; kafka_default.api.timeout.ms=soon | give milliseconds
subscribe=orders; kafka_isolation.level=read_committed | read_uncommitted
subscribe=orders; kafka_sasl.mechanism=GSSAPI | Kerberos
"""


@pytest.mark.parametrize(("options", "words"), _table(ODD))
@pytest.mark.usefixtures("cluster")
def test_options_that_cannot_be_meant(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _planned(**options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_cluster() -> None:
    with pytest.raises(ConfigError, match="no cluster given"):
        read_options({"subscribe": "t"})


# ---- streams -------------------------------------------------------------------------------------
def _stream(**options: str) -> StreamReader:
    return StreamReader(read_options(_options(**options), stream=True))


def test_defaults_of_a_stream() -> None:
    found = read_options(_options(subscribe="orders"), stream=True)
    assert (found.starting, found.max_offsets, found.include_gaps) == ("latest", None, False)
    assert found.fail_on_data_loss


@pytest.mark.parametrize(
    ("options", "orders"),
    [
        ({}, {"0": 100, "1": 40}),
        ({"startingOffsets": "earliest"}, {"0": 5, "1": 0}),
        ({"startingOffsets": "latest"}, {"0": 100, "1": 40}),
        ({"startingOffsets": _all({"0": -1, "1": -2})}, {"0": 100, "1": 0}),
        ({"startingOffsets": _all({"0": 0, "1": 7})}, {"0": 0, "1": 7}),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_where_a_stream_begins(options: dict[str, str], orders: dict[str, int]) -> None:
    assert _stream(subscribe="orders", **options).initialOffset() == {"orders": orders}


@pytest.mark.usefixtures("cluster")
def test_what_a_stream_says_about_itself() -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    reader = _stream(subscribe="orders-eu,orders", maxOffsetsPerTrigger="9", includeGaps="TRUE")
    assert reader.getDefaultReadLimit() == ReadMaxRows(9)
    assert _stream(subscribe="orders").getDefaultReadLimit() == ReadAllAvailable()
    assert reader.reportLatestOffset() is None
    start = reader.initialOffset()
    assert list(start) == ["orders", "orders-eu"]  # sorted: Spark compares texts
    assert reader.latestOffset(start, ReadMaxRows(9)) == start
    assert reader.partitions(start, start) == []
    assert reader.reportLatestOffset() == {"orders": {"0": 100, "1": 40}, "orders-eu": {"0": 10}}


@pytest.mark.usefixtures("cluster")
def test_what_comes_later_is_beyond_a_stream_until_now(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = _stream(subscribe="orders", startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    monkeypatch.setitem(CLUSTER, "orders", {0: (5, 200), 1: (0, 99)})
    assert reader.latestOffset(start, ReadAllAvailable()) == {"orders": {"0": 100, "1": 40}}


@pytest.mark.parametrize(
    ("start", "logs", "limit", "end"),
    [
        ({"0": 0, "1": 0}, {0: (0, 90), 1: (0, 10)}, None, {"0": 90, "1": 10}),
        ({"0": 0, "1": 0}, {0: (0, 90), 1: (0, 10)}, 100, {"0": 90, "1": 10}),
        ({"0": 0, "1": 0}, {0: (0, 90), 1: (0, 10)}, 10, {"0": 9, "1": 1}),
        ({"0": 0, "1": 0}, {0: (0, 990), 1: (0, 10)}, 10, {"0": 9, "1": 1}),  # nobody starves
        ({"0": 9, "1": 1}, {0: (0, 90), 1: (0, 1)}, 10, {"0": 19, "1": 1}),
        # What is pruned does not count.
        ({"0": 0}, {0: (70, 90), 1: (0, 0)}, 10, {"0": 80, "1": 0}),
        ({"0": 0}, {0: (90, 90)}, 10, {"0": 90}),
        ({"0": 4}, {0: (0, 4), 1: (3, 9)}, None, {"0": 4, "1": 9}),  # a new partition
        ({"0": 4, "7": 5}, {0: (0, 6)}, None, {"0": 6, "7": 5}),  # one that is gone
        ({"0": 0}, {0: (0, 1 << 62)}, (1 << 61) + 1, {"0": (1 << 61) + 1}),  # no float on the way
    ],
)
def test_how_far_a_micro_batch_goes(
    start: dict[str, int], logs: dict[int, tuple[int, int]], limit: int | None, end: dict[str, int]
) -> None:
    assert advance({"t": start}, {"t": logs}, limit) == {"t": end}


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 20), st.integers(0, 1 << 40)),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 1 << 20),
)
def test_micro_batches_keep_to_their_limit(spans: list[tuple[int, int, int]], limit: int) -> None:
    logs = {"t": {p: (first, first + size) for p, (first, size, _) in enumerate(spans)}}
    at = {"t": {str(p): first + min(size, ahead) for p, (first, size, ahead) in enumerate(spans)}}
    end = advance(at, logs, limit)
    gaps, pieces = between(at, end, logs)
    assert gaps == []
    read = sum(piece.end - piece.first for piece in pieces)
    assert read <= limit + len(spans)
    left = sum(log[1] - at["t"][str(p)] for p, log in logs["t"].items())
    assert read >= min(left, max(1, limit - len(spans)))
    covered = {str(piece.partition): (piece.first, piece.end) for piece in pieces}
    moved = {p: (at["t"][p], offset) for p, offset in end["t"].items() if offset > at["t"][p]}
    assert covered == moved


@pytest.mark.parametrize(
    ("logs", "gaps", "ranges"),
    [
        ({0: (0, 50)}, [], [(10, 30)]),
        ({0: (10, 50)}, [], [(10, 30)]),
        ({0: (20, 50)}, [(10, 20)], [(20, 30)]),
        ({0: (30, 50)}, [(10, 30)], []),
        ({0: (45, 50)}, [(10, 30)], []),
    ],
)
def test_what_of_a_micro_batch_is_left(
    logs: dict[int, tuple[int, int]], gaps: list[tuple[int, int]], ranges: list[tuple[int, int]]
) -> None:
    found = between({"t": {"0": 10}}, {"t": {"0": 30}}, {"t": logs})
    assert found == ([Gap("t", 0, *g) for g in gaps], [OffsetRange("t", 0, *r) for r in ranges])


def test_a_log_that_ends_before_the_position_is_another_log() -> None:
    ended = "t partition 0 ends at offset 9, before the read position 10"
    with pytest.raises(DataLossError, match=ended):
        advance({"t": {"0": 10}}, {"t": {0: (0, 9)}}, None)
    with pytest.raises(DataLossError, match="deleted and created again"):
        between({"t": {"0": 3}}, {"t": {"0": 10}}, {"t": {0: (0, 9)}})


def test_a_first_micro_batch_whose_beginning_has_moved(caplog: pytest.LogCaptureFixture) -> None:
    assert between({"t": {"0": 40}}, {"t": {"0": 30}}, {"t": {0: (40, 50)}}) == ([], [])
    assert "now starts at 40, after 30" in caplog.text


@pytest.mark.usefixtures("cluster")
def test_records_pruned_before_a_stream_are_an_error_unless_allowed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    start, end = {"orders": {"0": 0, "1": 0}}, {"orders": {"0": 100, "1": 40}}

    def parts(**options: str) -> Sequence[object]:
        return _stream(subscribe="orders", **options).partitions(start, end)

    pruned = r"orders partition 0: offsets 0 to 5 .* were pruned before"
    with pytest.raises(DataLossError, match=pruned):
        parts()
    ranges = [OffsetRange("orders", 0, 5, 100), OffsetRange("orders", 1, 0, 40)]
    assert parts(failOnDataLoss="false") == ranges
    assert "offsets 0 to 5 (exclusive) were pruned; continuing with" in caplog.text
    assert parts(failOnDataLoss="false", includeGaps="true") == [Gap("orders", 0, 0, 5), *ranges]


OF_ONE_KIND = """
endingOffsets=latest | endingOffsets is for a batch query, and this is a stream
maxOffsetsPerTrigger=0 | maxOffsetsPerTrigger is '0'
maxOffsetsPerTrigger=many | maxOffsetsPerTrigger is 'many'
maxOffsetsPerTrigger=² | maxOffsetsPerTrigger is '²'
includeGaps=yes | includeGaps is 'yes'
maxOffsetsPerTrigger=9 | maxOffsetsPerTrigger is for a stream, and this is a batch query
includeGaps=true | includeGaps is for a stream
"""


@pytest.mark.parametrize(("options", "words"), _table(OF_ONE_KIND))
def test_options_of_the_other_kind_of_query(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_options(_options(subscribe="orders", **options), stream="for a stream" not in words)
