"""The numbers of a live cluster differ for the reasons we give, as Kafka's tools confirm."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import AcknowledgeType, Consumer, TopicPartition

import sharelag
from sharelag.errors import BrokerUnreachableError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig, client_config
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.inputs.kafka.records import scan
from sharelag.metrics import reconcile as why
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.reconcile import reconcile_arrow
from sharelag.replay import replay_arrow
from sharelag.schemas import SCANNED
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    accept,
    create_compacted,
    create_topics,
    delete_below,
    numbered,
    produce,
    set_group_config,
    share_consume,
    start_transaction,
    wait_until,
)

RESET = "reconcile-reset"
COMMITTED, UNCOMMITTED = "reconcile-committed", "reconcile-uncommitted"
PLAIN, MIXED, OPEN = "reconcile-plain", "reconcile-mixed", "reconcile-open"
PASSED = "reconcile-passed"
KINDS = ("records", "undecided", "aborted", "no_record", "deleted")


class Answers(NamedTuple):
    """What we say of some topics, and what Kafka does."""

    scanned: pa.Table
    rows: dict[tuple[str, str, int], dict[str, Any]]  # reconciled, by group, topic, partition

    def kinds(self, group: str, topic: str, partition: int = 0) -> dict[str, int]:
        for row in self.scanned.to_pylist():
            if (row["group_id"], row["topic"], row["partition"]) == (group, topic, partition):
                return {kind: row[kind] for kind in KINDS if row[kind]}
        raise AssertionError(f"{group} {topic} {partition} was not scanned")


def states(config: ClientConfig, topics: list[str]) -> pa.RecordBatch:
    """The windows of all groups on some topics."""
    read = (decode_arrow(b).records for b in kafka.read_topic(config, STATE_TOPIC))
    windows = replay_arrow(pa.Table.from_batches(list(read)))
    ids = [id_ for name, id_ in kafka.topic_ids(config).items() if name in topics]
    return windows.filter(pc.is_in(windows.column("topic_id"), pa.array(ids)))


def answers(
    broker: KafkaBroker, config: ClientConfig, topics: list[str], at: datetime | None = None
) -> Answers:
    windows = states(config, topics)
    ids = {name: id_ for name, id_ in kafka.topic_ids(config).items() if name in topics}
    offsets = kafka.past_offsets(config, ids, [at]) if at else kafka.list_offsets(config, ids)
    lag = lag_arrow(windows, offsets)
    scanned = scan(config, windows, offsets)
    assert scanned.schema == SCANNED
    described = parse_offsets(broker.share_groups_describe(), datetime.now(UTC))
    described = described.filter(pc.is_in(described.column("topic"), pa.array(topics)))
    rows = reconcile_arrow(lag, described, scanned).to_pylist()
    for row in rows:
        adds_up(row)
    return Answers(scanned, {(r["group_id"], r["topic"], r["partition"]): r for r in rows})


def adds_up(row: dict[str, Any]) -> None:
    """Check that the differences explain every number to the last offset."""
    sums: Counter[str] = Counter()
    for (number, _), offsets in reasons(row).items():
        sums[number] += offsets
    assert row["described_lag"] == row["lag"] + sums[why.DESCRIBED_LAG]
    assert row["naive_lag"] == row["lag"] + sums[why.NAIVE]
    assert row["effective_lag"] == row["lag"] + sums[why.EFFECTIVE]
    assert row["true_lag"] == row["effective_lag"] + sums[why.TRUE]
    assert not [reason for _, reason in reasons(row) if reason == why.UNKNOWN]


def reasons(row: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(d["number"], d["reason"]): d["offsets"] for d in row["differences"]}


def reset(broker: KafkaBroker, *topics: str) -> None:
    """Put a group at the beginning of topics: all their offsets are its lag."""
    names = [word for topic in topics for word in ("--topic", topic)]
    broker.share_groups("--reset-offsets", "--group", RESET, *names, "--to-earliest", "--execute")


def wait_for_end(config: ClientConfig, topic: str, end: int) -> None:
    """The markers of a transaction are written after its producer heard that it has ended."""
    wait_until(lambda: kafka.offset_ranges(config, topic)[0][1] == end, f"{topic} ends at {end}")


def witness(broker: KafkaBroker, topic: str, end: int) -> Counter[str]:
    """What the offsets of partition 0 hold, from what Kafka's DumpLogSegments prints of its log."""
    done = broker.dump_log(topic)
    assert done.returncode == 0, done.stderr
    kinds: Counter[str] = Counter()
    open_: Counter[str] = Counter()  # by producer
    for line in done.stdout.splitlines():
        if found := re.search(r"^baseOffset: .* count: (\d+) .* producerId: (-?\d+) ", line):
            count, producer = int(found[1]), found[2]
            if "isTransactional: true" in line and "isControl: true" not in line:
                open_[producer] += count
            elif "isControl: true" not in line:
                kinds["records"] += count
        elif found := re.search(r"endTxnMarker: (\w+)", line):
            kinds["aborted" if found[1] == "ABORT" else "records"] += open_.pop(producer)
    kinds["open"] = open_.total()
    kinds["no_record"] = end - kinds.total()
    return +kinds


@pytest.fixture(scope="module")
def config(broker: KafkaBroker) -> ClientConfig:
    return client_config(broker.bootstrap_servers)


# ---- transactions --------------------------------------------------------------------------------
@pytest.mark.row("LAG-06", "LAG-11")
def test_markers_and_aborted_are_lag_to_kafka(broker: KafkaBroker, config: ClientConfig) -> None:
    servers = broker.bootstrap_servers
    create_topics(servers, {MIXED: 1, PLAIN: 2})
    produce(servers, PLAIN, numbered(4000, 2))
    produce(servers, MIXED, [(0, b"0", b"plain")])
    aborted, committed = [(0, b"k", b"aborted")] * 2, [(0, b"k", b"committed")] * 3
    start_transaction(servers, "reconcile-a", MIXED, aborted).abort_transaction(30)
    wait_for_end(config, MIXED, 4)
    start_transaction(servers, "reconcile-c", MIXED, committed).commit_transaction(30)
    wait_for_end(config, MIXED, 8)
    produce(servers, MIXED, numbered(2, 1))
    open_ = start_transaction(servers, "reconcile-b", MIXED, aborted)
    produce(servers, MIXED, numbered(1, 1))
    reset(broker, MIXED, PLAIN)

    found = answers(broker, config, [MIXED, PLAIN])
    row = found.rows[RESET, MIXED, 0]
    assert found.kinds(RESET, MIXED) == {"records": 6, "undecided": 3, "aborted": 2, "no_record": 2}
    # The last one is in no transaction, and yet held by one.
    assert witness(broker, MIXED, 13) == {"records": 7, "open": 2, "aborted": 2, "no_record": 2}
    assert (row["described_lag"], row["lag"], row["matches"], row["true_lag"]) == (13, 13, True, 9)
    assert reasons(row) == {(why.TRUE, why.MARKERS_OR_COMPACTED): -2, (why.TRUE, why.ABORTED): -2}
    for partition in (0, 1):
        assert found.kinds(RESET, PLAIN, partition) == {"records": 2000}
        row = found.rows[RESET, PLAIN, partition]
        names = ("described_lag", "lag", "effective_lag", "true_lag")
        assert ({row[name] for name in names}, row["differences"]) == ({2000}, [])

    open_.abort_transaction(30)
    wait_for_end(config, MIXED, 14)
    found = answers(broker, config, [MIXED])
    row = found.rows[RESET, MIXED, 0]
    counts = {"records": 7, "aborted": 4, "no_record": 3}
    assert found.kinds(RESET, MIXED) == witness(broker, MIXED, 14) == counts
    # The last offset is a marker, beyond all windows: it is counted.
    assert (row["described_lag"], row["matches"], row["true_lag"]) == (14, True, 7)

    # As of before the first transaction had ended, with markers far beyond what is looked at.
    windows = states(config, [MIXED])
    offsets = kafka.list_offsets(config, {MIXED: kafka.topic_ids(config)[MIXED]})
    for end, kinds in ((3, (1, 2, 0)), (6, (3, 2, 1)), (14, (7, 4, 3))):
        then = offsets.set_column(4, "end_offset", pa.array([end], pa.int64()))
        (row,) = scan(config, windows, then).to_pylist()
        assert (row["records"], row["aborted"], row["no_record"], row["undecided"]) == (*kinds, 0)


@pytest.mark.row("WIN-16", "WIN-17")
def test_what_each_isolation_is_given(broker: KafkaBroker, config: ClientConfig) -> None:
    servers = broker.bootstrap_servers
    create_topics(servers, {OPEN: 1})
    produce(servers, OPEN, [(0, b"0", b"plain")])
    start_transaction(servers, "reconcile-d", OPEN, [(0, b"k", b"aborted")] * 2).abort_transaction(
        30
    )
    wait_for_end(config, OPEN, 4)
    open_ = start_transaction(servers, "reconcile-e", OPEN, [(0, b"k", b"open")] * 2)
    for group, isolation in ((COMMITTED, "read_committed"), (UNCOMMITTED, "read_uncommitted")):
        set_group_config(
            servers, group, share_auto_offset_reset="earliest", share_isolation_level=isolation
        )
    given = share_consume(servers, UNCOMMITTED, [OPEN], accept, until=5)
    assert [delivery.offset for delivery in given] == [0, 1, 2, 4, 5]  # aborted and open ones, too
    given = share_consume(servers, COMMITTED, [OPEN], accept, until=1)
    assert [delivery.offset for delivery in given] == [0]

    (log,) = kafka.logs(config, {OPEN: "I" * 22}).to_pylist()
    assert log["last_stable_offset"] == 4
    found = answers(broker, config, [OPEN])
    row = found.rows[COMMITTED, OPEN, 0]
    # Nothing beyond the last stable offset was taken in, and so the lag cannot come to zero.
    assert row["matches"]
    assert row["lag"] >= 2
    assert found.kinds(COMMITTED, OPEN)["undecided"] == 2
    ends = {w["group_id"]: w["window_end_offset"] for w in states(config, [OPEN]).to_pylist()}
    assert ends[COMMITTED] <= 4 < ends[UNCOMMITTED]
    assert found.rows[UNCOMMITTED, OPEN, 0]["matches"]
    open_.commit_transaction(30)
    given = share_consume(servers, COMMITTED, [OPEN], accept, until=2)
    assert [delivery.offset for delivery in given] == [4, 5]


def test_aborted_wait_for_no_committed_reader(broker: KafkaBroker, config: ClientConfig) -> None:
    """Brokers write no batch of them, but count them as finished: nothing is left, or old."""
    servers = broker.bootstrap_servers
    create_topics(servers, {PASSED: 1})
    set_group_config(
        servers, PASSED, share_auto_offset_reset="earliest", share_isolation_level="read_committed"
    )
    produce(servers, PASSED, numbered(5, 1))
    aborted = start_transaction(servers, "reconcile-f", PASSED, numbered(10, 1))
    aborted.abort_transaction(30)
    produce(servers, PASSED, numbered(5, 1))
    share_consume(servers, PASSED, [PASSED], accept, until=10)
    found = answers(broker, config, [PASSED])
    (window,) = states(config, [PASSED]).to_pylist()
    assert not any(run["first_offset"] <= 9 <= run["last_offset"] for run in window["runs"])
    row = found.rows[PASSED, PASSED, 0]
    assert (row["described_lag"], row["effective_lag"], row["true_lag"]) == (0, 0, 0)
    assert found.kinds(PASSED, PASSED) == {}
    with sharelag.open(servers, groups=[PASSED], engine="local") as bench:
        (line,) = bench.progress().table.to_pylist()
        assert (line["age_ms"], line["drain"]) == (0, "drained")
    before = datetime.now(UTC) - timedelta(seconds=1)
    produce(servers, PASSED, numbered(3, 1))
    with sharelag.open(servers, groups=[PASSED], engine="local") as bench:
        (line,) = bench.progress().table.to_pylist()
    assert line["oldest_offset"] == 21
    assert line["oldest_timestamp"] >= before


# ---- the classic lag -----------------------------------------------------------------------------
@pytest.mark.row("LAG-03", "LAG-05")
def test_a_consumer_groups_lag_is_the_naive_one(broker: KafkaBroker, config: ClientConfig) -> None:
    """Eleven records, start offset 2, offsets 5 and 6 complete."""
    topic, group = "reconcile-classic", "reconcile-classic"
    servers = broker.bootstrap_servers
    create_topics(servers, {topic: 1})
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    produce(servers, topic, numbered(2, 1))
    share_consume(servers, group, [topic], accept, until=2)
    produce(servers, topic, numbered(9, 1), batch=1)
    decisions = {5: AcknowledgeType.ACCEPT, 6: AcknowledgeType.REJECT}
    share_consume(
        *(
            servers,
            group,
            [topic],
            lambda one: decisions.get(one.offset(), AcknowledgeType.RELEASE),
        ),
        until=lambda deliveries: decisions.keys() <= {delivery.offset for delivery in deliveries},
    )
    row = answers(broker, config, [topic]).rows[group, topic, 0]
    assert (row["described_lag"], row["lag"], row["effective_lag"], row["true_lag"]) == (7, 7, 7, 7)
    assert reasons(row) == {(why.NAIVE, why.COMPLETE_IN_WINDOW): 2}

    classic = Consumer({"bootstrap.servers": servers, "group.id": f"{group}-consumers"})
    classic.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    classic.close()
    words = ("--describe", "--group", f"{group}-consumers")
    said = broker.ask_tool("consumer.group.ConsumerGroupCommand", *words)
    (line,) = [line.split() for line in said.splitlines() if topic in line and "GROUP" not in line]
    assert line[3:6] == ["2", "11", "9"]  # committed, end, lag
    assert row["naive_lag"] == 9


# ---- what is not there any more ------------------------------------------------------------------
@pytest.mark.row("LAG-07", "WIN-15")
def test_compacted_offsets_are_lag_until_known(broker: KafkaBroker, config: ClientConfig) -> None:
    """Offsets 0 to 9, of which 3 and 4 are compacted away."""
    topic, keys = "reconcile-compacted", b"a b c x y d e x y f".split()
    create_compacted(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [(0, key, b"v") for key in keys])
    written, end = datetime.now(UTC), len(keys)

    def cleaned() -> bool:
        nonlocal end
        # Rolls the segment.
        end += produce(broker.bootstrap_servers, topic, [(0, b"%d" % end, b"v")])
        batches = kafka.read_topic(config, topic)
        offsets = [offset for one in batches for offset in one.column("offset").to_pylist()]
        return offsets[:8] == [0, 1, 2, 5, 6, 7, 8, 9]

    with broker.busy_cleaner():
        wait_until(cleaned, "the cleaner has been there", every=0.2)
    reset(broker, topic)
    # Of the ten offsets that the example is about, Kafka counts each.
    then = answers(broker, config, [topic], at=written)
    assert then.kinds(RESET, topic) == {"records": 8, "no_record": 2}
    row = then.rows[RESET, topic, 0]
    assert (row["lag"], row["true_lag"]) == (10, 8)
    assert (row["described_lag"], row["matches"]) == (end, False)
    moved = {(why.DESCRIBED_LAG, why.ANOTHER_MOMENT): end - 10}
    assert reasons(row) == {(why.TRUE, why.MARKERS_OR_COMPACTED): -2} | moved
    assert witness(broker, topic, end)["no_record"] >= 2


def test_what_was_deleted_since_they_were_asked(broker: KafkaBroker, config: ClientConfig) -> None:
    topic = "reconcile-deleted"
    create_topics(broker.bootstrap_servers, {topic: 1})
    produce(broker.bootstrap_servers, topic, numbered(10, 1))
    reset(broker, topic)
    ids = {topic: kafka.topic_ids(config)[topic]}
    windows = states(config, [topic])
    offsets = kafka.list_offsets(config, ids)
    delete_below(broker.bootstrap_servers, topic, {0: 4})
    scanned = scan(config, windows, offsets)
    (row,) = scanned.to_pylist()
    counts = dict.fromkeys(KINDS, 0) | {"records": 6, "deleted": 4}
    assert {kind: row[kind] for kind in KINDS} == counts
    (row,) = reconcile_arrow(lag_arrow(windows, offsets), None, scanned).to_pylist()
    assert reasons(row) == {(why.TRUE, why.BELOW_LOG_START): -4}
    (row,) = scan(config, windows, kafka.list_offsets(config, ids)).to_pylist()
    assert (row["unfinished"], row["records"], row["deleted"]) == (6, 6, 0)
    # What is not known stays so, and costs nothing.
    unknown = offsets.set_column(4, "end_offset", pa.nulls(1, pa.int64()))
    (row,) = scan(config, windows, unknown).to_pylist()
    assert (row["unfinished"], *(row[kind] for kind in KINDS)) == (None,) * 6
    (row,) = scan(config, windows, offsets.slice(0, 0)).to_pylist()
    assert (row["topic"], row["unfinished"], row["records"]) == (None, None, None)
    with pytest.raises(BrokerUnreachableError):
        scan(client_config("127.0.0.1:1", timeout=0.5), windows, offsets)
