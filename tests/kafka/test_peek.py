"""The record at an offset of a topic of three brokers: what it holds; nobody notices who looked."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import AcknowledgeType, Message, Producer
from confluent_kafka.admin import AdminClient

import sharelag
from sharelag.errors import InputError
from sharelag.workbench import Workbench
from tests.support.command import refused
from tests.support.command import sharelag as command
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    create_topics,
    delete_below,
    end_offsets,
    produce,
    read_in_part,
    set_group_config,
    share_consume,
    start_transaction,
    wait_until,
)

GROUP, TOPIC = "peek-billing", "peek-orders"
SECRET = "4111-1111-1111-1111"
ORDER = json.dumps({"id": 7, "card": {"number": SECRET, "name": "Ann"}, "lines": [{"sku": "a"}]})
STUCK, BINARY, EMPTY, HOSTILE, OPEN, MARKER = 1, 2, 3, 4, 5, 6
VALUES = [b"first", ORDER.encode(), b"\xff\x00\x1b[31mred", None]


@pytest.fixture(scope="module", name="broker_with_records")
def records_that_stick(first: KafkaBroker) -> KafkaBroker:
    servers = first.bootstrap_servers
    create_topics(servers, {TOPIC: 1}, copies=3)
    set_group_config(servers, GROUP, share_auto_offset_reset="earliest")
    produce(servers, TOPIC, [(0, b"key", value) for value in VALUES], batch=1)
    producer = Producer({"bootstrap.servers": servers})
    hostile = [("a\x1b]8;;", b"<img src=x>\n"), ("empty", None)]
    producer.produce(TOPIC, "\u202etext", None, 0, headers=hostile)
    assert producer.flush(30) == 0
    start_transaction(servers, "peek", TOPIC, [(0, None, b"paid")]).commit_transaction(30)
    ends = (TOPIC, 0)
    wait_until(lambda: end_offsets(servers, [TOPIC])[ends] == MARKER + 1, "the marker is written")
    produce(servers, TOPIC, [(0, None, b"last")])
    return first


@pytest.fixture(scope="module", name="deliveries")
def delivered(broker_with_records: KafkaBroker) -> int:
    """How often the stuck record was delivered; all others are done."""

    def decide(message: Message) -> AcknowledgeType:
        return AcknowledgeType.RELEASE if message.offset() == STUCK else AcknowledgeType.ACCEPT

    done = share_consume(
        broker_with_records.bootstrap_servers,
        GROUP,
        [TOPIC],
        decide,
        until=lambda sofar: len({one.offset for one in sofar}) == len(VALUES) + 3,
    )
    return sum(one.offset == STUCK for one in done)


@pytest.fixture(name="bench")
def opened(broker_with_records: KafkaBroker, deliveries: int) -> Workbench:
    bench = sharelag.open(broker_with_records.bootstrap_servers, engine="local").only(GROUP)

    def is_written() -> bool:
        found = bench.refresh().peek(GROUP, TOPIC, 0, STUCK)
        return found.state == "available" and found.delivery_count == deliveries

    wait_until(is_written, "the state of the released record is written", 60)
    return bench.refresh()


def test_a_stuck_record_with_its_state(bench: Workbench, deliveries: int) -> None:
    found = bench.peek(GROUP, TOPIC, 0, STUCK)
    assert (found.state, found.delivery_count) == ("available", deliveries)
    assert (found.record.key, found.record.value) == (b"key", ORDER.encode())
    lines = found.text().splitlines()
    assert lines[0] == f"{TOPIC}:0:{STUCK} in {GROUP}: available, delivery count {deliveries}"
    assert f"value, {len(ORDER)} bytes:" in lines
    assert f'      "number": "{SECRET}",' in lines
    assert SECRET not in repr(found.record)
    assert bench.peek(GROUP, TOPIC, 0, 0).state == "finished"
    assert bench.peek(GROUP, TOPIC, 0, BINARY).state == "acknowledged"


def test_bytes_that_are_no_text_are_digits_and_nothing_acts_on_a_terminal(bench: Workbench) -> None:
    binary = bench.peek(GROUP, TOPIC, 0, BINARY)
    assert (VALUES[BINARY] or b"").hex(" ") in binary.text()
    assert "\x1b" not in binary.text("text")
    assert "value, null:" in bench.peek(GROUP, TOPIC, 0, EMPTY).text()
    hostile = bench.peek(GROUP, TOPIC, 0, HOSTILE)
    said = hostile.text()
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert "header a\\x1b]8;;, 12 bytes: <img src=x>" in said
    assert "<img" not in hostile._repr_html_()
    with pytest.raises(InputError, match="is not JSON: choose the form text or hex"):
        binary.text("json")


def test_a_function_may_choose_what_is_shown(bench: Workbench) -> None:
    by_function = bench.peek(GROUP, TOPIC, 0, STUCK, mask=lambda order: order["id"])
    assert by_function.fields()["value"] == "7"
    masked = bench.peek(GROUP, TOPIC, 0, STUCK, mask=["card.number", "lines.sku"])
    assert SECRET not in masked.text() + json.dumps(masked.fields()) + masked._repr_html_()


def test_the_command_prints_the_same(bench: Workbench, broker_with_records: KafkaBroker) -> None:
    servers = broker_with_records.bootstrap_servers
    asked = ("peek", "--bootstrap-server", servers, GROUP, f"{TOPIC}:0:{STUCK}")
    found = bench.peek(GROUP, TOPIC, 0, STUCK)
    assert command(*asked).stdout == found.text() + "\n"
    assert json.loads(command(*asked, "-o", "json").stdout) == found.fields()
    masked = command(*asked, "--mask", "card.number", code=0)
    assert SECRET not in masked.stdout
    said = refused(*asked[:-1], "orders-0-1", code=2)
    assert "'orders-0-1' is not TOPIC:PARTITION:OFFSET" in said


@pytest.mark.parametrize(
    ("partition", "offset", "why"),
    [
        (0, 1000, "no record at peek-orders:0:1000 yet: the log ends at 8"),
        (0, MARKER, "it is the marker of a transaction, or .*; the next record is at 7"),
        (5, 0, "no state of share group 'peek-billing' in partition 5 of 'peek-orders'"),
    ],
)
def test_without_one_it_says_why(bench: Workbench, partition: int, offset: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        bench.peek(GROUP, TOPIC, partition, offset)


def test_a_record_that_was_deleted_is_gone(first: KafkaBroker) -> None:
    servers = first.bootstrap_servers
    read_in_part(servers, "peek-gone", "peek-gone", read=5, copies=3)
    delete_below(servers, "peek-gone", {0: 3})
    bench = sharelag.open(servers, engine="local").only("peek-gone")
    with pytest.raises(InputError, match="is gone: the log begins at 3"):
        bench.peek("peek-gone", "peek-gone", 0, 1)


@pytest.mark.exhaustive
def test_nobody_notices(bench: Workbench, broker_with_records: KafkaBroker, tmp_path: Path) -> None:
    before = bench.windows().table.drop_columns("batches").to_pylist()
    bench.peek(GROUP, TOPIC, 0, STUCK)
    servers = broker_with_records.bootstrap_servers
    asking = AdminClient({"bootstrap.servers": servers})  # one that nobody holds drops its answers
    groups = asking.list_consumer_groups().result()
    assert "sharelag" not in {one.group_id for one in groups.valid}
    fresh = bench.refresh()
    assert fresh.windows().table.drop_columns("batches").to_pylist() == before
    assert fresh.members(GROUP).table.num_rows == 0
    folder = tmp_path / "kept"
    command("capture", "--bootstrap-server", servers, str(folder), code=0)
    for path in folder.rglob("*.parquet"):
        assert SECRET not in str(pq.read_table(path).to_pylist())
    kept = sharelag.open(folder, engine="local").only(GROUP)
    with pytest.raises(InputError, match="payloads are in no capture"):
        kept.peek(GROUP, TOPIC, 0, STUCK)
    assert kept.dashboard().record.about == ""


def test_it_is_shown_and_saved_nowhere(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    board = bench.dashboard(GROUP)
    assert board.header.failure == ""
    sent: list[dict[str, dict[str, str]]] = []
    monkeypatch.setattr(board.record, "send", sent.append)
    strip = board.strip.view
    seen = strip.shown_key, strip.offsets, bench.lag(GROUP).table.to_pylist()
    assert board.record.about == f"{TOPIC}:0:{STUCK}", seen
    board.record._handle_custom_msg({"peek": True}, [])
    assert sent == [{"peeked": {"text": bench.peek(GROUP, TOPIC, 0, STUCK).text()}}]
    board.strip.view.cursor = float(MARKER)
    board.record._handle_custom_msg({"peek": True}, [])
    assert "no record at peek-orders:0:6" in sent[-1]["peeked"]["failure"]
    assert board.record.about == f"{TOPIC}:0:{MARKER}"
    assert SECRET not in str([one.get_state() for one in (board, board.record, board.strip.view)])
