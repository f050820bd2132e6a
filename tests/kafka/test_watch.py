"""Lag moves in a process that watches a live broker, and it is Kafka's."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, RichOutput, capture_output
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from traitlets.config import Config

import sharelag as api
from sharelag.engine.spark import stream
from sharelag.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ClusterError,
    InputError,
    NoLeaderError,
    ShareLagError,
    TopicMissingError,
)
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark.data_source import register
from sharelag.tables.lines import plain_rows
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from tests.support.command import ask
from tests.support.kafka.broker import KafkaBroker, frozen
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.workload import (
    accept,
    create_topics,
    delete_below,
    numbered,
    produce,
    read_in_part,
    share_consume,
    wait_until,
)
from tests.support.notebooks.shipped import read
from tests.support.records import row
from tests.support.reliability import Inject

PARTITIONS = 2


@pytest.fixture
def group(broker: KafkaBroker) -> str:
    return _lagging(broker.bootstrap_servers)


def _lagging(servers: str) -> str:
    """A group that has taken 20 of the 30 records of a topic of the same name."""
    name = f"watched-{uuid4().hex[:8]}"
    read_in_part(servers, name, name, partitions=PARTITIONS, read=20)
    produce(servers, name, numbered(10, PARTITIONS))
    return name


def _total(lag: pa.Table) -> int:
    assert lag.column("lag").null_count == 0
    return sum(lag.column("lag").to_pylist())


def _until(live: stream.Live, total: int) -> list[int]:
    """The lags of the group in their order, up to the one that is waited for."""
    seen = []
    for lag in live.updates(seconds=60):
        seen.append(_total(lag))
        if seen[-1] == total:
            return seen
    raise AssertionError(f"{total} never came: {seen}")


def _without_as_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "as_of"} for row in rows]


def test_lag_moves_with_what_is_done(broker: KafkaBroker, spark: SparkSession, group: str) -> None:
    servers, heard = broker.bootstrap_servers, []
    before = spark.conf.get("spark.sql.shuffle.partitions")
    register(spark)  # as who reads a cluster otherwise has done
    with stream.watch(
        servers, groups=group, every=0.5, spark=spark, on_update=lambda _, lag: heard.append(lag)
    ) as live:
        assert _total(live.lag) == 10
        produce(servers, group, numbered(6, PARTITIONS))  # no state record comes of that
        assert _until(live, 16) == [10, 16]
        share_consume(servers, group, [group], accept, until=16)
        assert _until(live, 0)[0] == 16
        assert group in live._repr_mimebundle_()["text/html"]
        found = _without_as_of(plain_rows(live.lag))
        assert found == _without_as_of(ask("lag --group", group, at=servers))
        told = broker.share_groups_describe(group)
        assert {(r["topic"], r["partition"]): r["lag"] for r in live.lag.to_pylist()} == _lags(told)
    assert ([_total(lag) for lag in heard][-1], list(live.updates(seconds=60))) == (0, [])
    assert "no longer current" in live._repr_mimebundle_()["text/html"]
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


@pytest.mark.exhaustive  # of files: `tests/spark/test_stream.py`, restarted
def test_a_query_of_our_source_goes_on_after_a_restart(
    broker: KafkaBroker, spark: SparkSession, group: str, tmp_path: Path
) -> None:
    """Windows as a stream with a checkpoint, into Delta tables with the ends of that moment."""
    servers = broker.bootstrap_servers
    register(spark)
    source = spark.readStream.format("sharelag_kafka").option("subscribe", STATE_TOPIC)
    source = source.option("startingOffsets", "earliest")
    raw = source.option("kafka.bootstrap.servers", servers).load()
    sink = stream.to_delta(tmp_path / "now", lambda: api.offsets(spark, servers))
    writer = stream.windows(raw, groups=[group]).writeStream.outputMode("update")
    writer = writer.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    for total in (10, 0):
        writer.trigger(availableNow=True).start().awaitTermination()
        lag = DeltaTable(str(tmp_path / "now" / "lag")).to_pyarrow_table()
        assert _total(lag) == total
        found = {(r["topic"], r["partition"]): r["lag"] for r in lag.to_pylist()}
        assert found == _lags(broker.share_groups_describe(group))
        if total:
            share_consume(servers, group, [group], accept, until=total)


def _lags(described: str) -> dict[tuple[str, int], int | None]:
    return {(row["topic"], row["partition"]): row["lag"] for row in parse_describe(described)}


@pytest.mark.exhaustive
def test_pruned_unread_is_no_loss(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """As if a machine slept for longer than Kafka keeps records: it starts from what is left."""
    servers, topic = broker.bootstrap_servers, f"{uuid4().hex[:8]}{STATE_TOPIC}"
    create_topics(servers, {topic: 1})
    records = [encode_record(SHARE_SNAPSHOT, row(n, [], partition=n)) for n in range(3)]
    produce(servers, topic, [(0, *record) for record in records[:2]])
    asleep, awake = threading.Event(), threading.Event()

    def heed(windows: pa.Table, _: pa.Table) -> None:
        if windows.num_rows == 3:
            asleep.set()
            assert awake.wait(60)

    said: list[str | None] = []  # each time that the topic begins to be read

    class Noted(stream.Live):
        def _start(self) -> StreamingQuery:
            said.append(self.stale)
            if len(said) == 2:
                raise TopicMissingError("it is being restored")
            return super()._start()

    with Noted(client_config(servers), spark, frozenset(), 0.5, heed, tmp_path, topic) as live:
        live.wait()
        assert _partitions(live) == [0, 1]
        produce(servers, topic, [(0, *records[2])])
        assert asleep.wait(60)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(topic, None, records[0][0], 0)
        assert producer.flush(30) == 0
        produce(servers, topic, [(0, *records[1]), (0, *records[2])])
        delete_below(servers, topic, {0: 4})
        awake.set()
        number = 0
        while _partitions(live) != [1, 2] or live.stale is not None:
            number = live.wait(number, until=time.monotonic() + 300)
            assert number, f"the deleted one stayed: {live.stale}"
    # On a busy machine it takes more than one attempt.
    none, pruned, missing = dict.fromkeys(said)
    assert missing == "it is being restored. It continues as soon as the topic is there"
    assert none is None
    assert "were pruned before they were read" in (pruned or "")
    assert list(tmp_path.iterdir()) == []  # of checkpoints, too


def _partitions(live: stream.Live) -> list[int]:
    return sorted(live.windows.column("partition").to_pylist())


@pytest.mark.exhaustive
def test_no_lag_until_there_is_a_record(broker: KafkaBroker, spark: SparkSession) -> None:
    servers, topic = broker.bootstrap_servers, f"{uuid4().hex[:8]}{STATE_TOPIC}"
    create_topics(servers, {topic: 1})
    with stream.Live(client_config(servers), spark, frozenset(), 0.5, None, None, topic) as live:
        live.wait()
        assert live.lag.num_rows == 0
        produce(servers, topic, [(0, *encode_record(SHARE_SNAPSHOT, row(7, [])))])
        came = next(lag for lag in live.updates(seconds=60) if lag.num_rows)
        assert came.column("lag_reason").to_pylist() == ["unknown_topic"]


@pytest.mark.exhaustive
def test_why_lag_cannot_be_computed_is_said_as_long_as_that_holds(
    broker: KafkaBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reason once, whatever it is; only where brokers are away does it promise to go on."""
    servers, topic = broker.bootstrap_servers, f"{uuid4().hex[:8]}{STATE_TOPIC}"
    create_topics(servers, {topic: 1})
    reasons: list[tuple[ShareLagError, str]] = [
        (
            NoLeaderError("broker 1 is away"),
            "broker 1 is away. It continues as soon as brokers answer",
        ),
        (BrokerUnreachableError("2 is, too"), "2 is, too. It continues as soon as brokers answer"),
        (AuthorizationError("topic t may not be described"), "topic t may not be described"),
    ]
    raised: list[ShareLagError] = []
    wrong: list[ShareLagError] = []

    def offsets(self: KafkaInput, *given: Any) -> pa.Table:
        if wrong:
            raised.append(wrong[-1])
            raise wrong[-1]
        return real(self, *given)

    def heed(*_: pa.Table) -> None:
        if raised:
            raise InputError("the table is full: make room")

    real = KafkaInput.offsets
    monkeypatch.setattr(KafkaInput, "offsets", offsets)
    with stream.Live(client_config(servers), spark, frozenset(), 0.5, heed, None, topic) as live:
        number = live.wait()
        for error, why in reasons:
            wrong.append(error)
            while live.stale != why:
                number = live.wait(number, until=time.monotonic() + 60)
                assert number, f"{live.stale} is not {why}"
            wait_until(lambda: raised.count(wrong[-1]) > 1, "it was raised again")
            assert live.wait(number, until=time.monotonic()) == 0
            assert f"no longer current: {why}" in repr(live)
        wrong.clear()
        while live.stale is not None:
            number = live.wait(number, until=time.monotonic() + 60)
            assert number, live.stale
        assert "no longer current" not in repr(live)


@pytest.mark.exhaustive
def test_what_goes_wrong_is_reported(
    broker: KafkaBroker, spark: SparkSession, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = broker.bootstrap_servers

    def refuse(*_: pa.Table) -> None:
        raise InputError("the table is full: make room")

    with pytest.raises(InputError, match="the table is full"):
        stream.watch(servers, groups=group, on_update=refuse)
    gone = stream.Live(client_config(servers), spark, frozenset(), 1.0, None, None, f"{group}-gone")
    with pytest.raises(TopicMissingError):
        gone.wait()
    with stream.watch(servers, groups=group, every=0.5) as live:
        (query,) = spark.streams.active
        query.stop()
        with pytest.raises(ClusterError, match="stopped from elsewhere: watch again"):
            list(live.updates(seconds=60))
        assert "no longer current: the stream was stopped" in live._repr_mimebundle_()["text/html"]
        assert _total(live.lag) == 10
    with stream.watch(servers, groups=group, every=0.5) as live:
        monkeypatch.setattr(kafka, "topic_ids", lambda _, names=(): dict.fromkeys(names, "other"))
        with pytest.raises(ClusterError, match=r"is another one now, .*watch again"):
            list(live.updates(seconds=60))
        assert _total(live.lag) == 10
    assert spark.streams.active == []


# ---- the cell of the notebook --------------------------------------------------------------
@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """What runs cells in a kernel; it takes the place of ``__main__`` meanwhile."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    yield InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    InteractiveShell.clear_instance()


def _cell() -> str:
    code = [cell.source for cell in read("10_your_own_cluster").cells if cell.cell_type == "code"]
    (source,) = [source for source in code if "stream.watch" in source]
    return source


def _shown(captured: CapturedIO) -> list[int]:
    """The lag that each table has in all, in the order in which they were shown."""
    return [_in_table(output.data["text/plain"]) for output in captured.outputs]


def _in_table(text: str) -> int:
    lines = [line.split() for line in text.splitlines()]
    (heads,) = [line for line in lines if line[:1] == ["GROUP"]]
    at = heads.index("LAG")
    return sum(int(line[at]) for line in lines if line and line[0].startswith("watched-"))


@pytest.mark.exhaustive
@pytest.mark.timeout(2400)  # eight waits of up to 200 s, and the start
def test_the_cell_shows_lag_that_moves(
    spark: SparkSession, shell: InteractiveShell, injected: Inject
) -> None:
    """As it is shipped, while records come in: each time that the lag shown has caught up.

    While the broker hangs it says that nothing is current, and then goes on.
    """
    with KafkaBroker() as alone, capture_output() as captured, ThreadPoolExecutor(1) as beside:
        servers = alone.bootstrap_servers
        group = _lagging(servers)
        # Whoever goes on stops it; what is waited for below takes less time even on a busy machine.
        shell.push({"sharelag": api, "bench": api.open(servers), "watch_seconds": 3600})

        def go_on() -> None:
            try:
                for lag in (10, 16, 22):
                    wait_until(_is_last(captured, lag), f"a lag of {lag} is shown")
                    produce(servers, group, numbered(6, PARTITIONS))
                wait_until(_is_last(captured, 28), "a lag of 28 is shown")
                with frozen(alone):
                    wait_until(lambda: _is_stale(captured), "it is not current")
                    wait_until(lambda: spark.streams.active == [], "its query has ended")
                    assert _is_stale(captured)
                wait_until(lambda: not _is_stale(captured), "it is current again")
                produce(servers, group, numbered(6, PARTITIONS))
                wait_until(_is_last(captured, 34), "a lag of 34 is shown")
            finally:
                shell.user_ns["live"].stop()  # as who has seen enough does

        producing = beside.submit(go_on)
        shell.run_cell(_cell()).raise_error()
        producing.result()
    shown = _shown(captured)
    # The lag only grows, and never beyond what was produced.
    wrong = sum(not before <= lag <= 34 for before, lag in pairwise([0, *shown]))
    # Half of what is produced at once may be seen before the other half.
    assert [lag for lag in dict.fromkeys(shown) if lag % 6 == 4] == [10, 16, 22, 28, 34]
    first, *updates = captured._outputs
    place = first["transient"]
    assert all(update["transient"] == place for update in updates)
    assert all(update["update"] for update in updates)  # in place
    assert "no longer current: it was stopped" in updates[-1]["data"]["text/html"]
    assert (captured.stdout, spark.streams.active) == ("", [])
    assert captured.stderr.count("the lag is not current") <= 1  # none if nothing handles logs
    injected(
        "brokers",
        "the only broker is stopped while a notebook watches it (SIGSTOP)",
        1,
        {"tables marked as not current, with the reason": sum(map(_says_stale, captured.outputs))},
        wrong=wrong,
    )
    assert wrong == 0, shown


def _is_stale(captured: CapturedIO) -> bool:
    """Return whether the table that is shown says that brokers are away."""
    return _says_stale(captured.outputs[-1])


def _says_stale(shown: RichOutput) -> bool:
    text = shown.data["text/plain"]
    return "no longer current: no broker answered at 127.0.0.1" in text


def _is_last(captured: CapturedIO, lag: int) -> Callable[[], bool]:
    return lambda: _shown(captured)[-1:] == [lag]


@pytest.mark.parametrize(
    ("where", "said"),
    [("demo", "This needs a running cluster"), ("127.0.0.1:1", "Nothing is watched: set `watch")],
)
def test_the_cell_says_why_it_shows_nothing(where: str, said: str, shell: InteractiveShell) -> None:
    shell.push({"sharelag": api, "bench": api.open(where), "watch_seconds": 0})
    with capture_output() as captured:
        shell.run_cell(_cell()).raise_error()
    assert captured.stdout.startswith(said)
    assert (captured.outputs, captured.stderr) == ([], "")
