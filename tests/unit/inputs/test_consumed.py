"""What Kafka's consumers print, read as deliveries and as what became of acknowledgements."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sharelag.errors import InputError
from sharelag.inputs.files.request_log import ConsumedLog, read_output
from sharelag.inputs.files.text_pieces import pieces_of
from tests.support.cases import Cases
from tests.support.command import ask, refused
from tests.support.request_lines import acknowledge, log_of, rows

#: Printed by ConsoleShareConsumer of Kafka 4.3.1 with all of its properties, and with few.
FULL = "CreateTime:1732000000000\tPartition:0\tOffset:110\tDelivery:2\tEpoch:0\tNO_HEADERS\tk\tv"
FEW = "Partition:1\tOffset:7\tDelivery:1\tpayload"
#: By ConsoleConsumer, in a consumer group.
OF_A_CONSUMER_GROUP = "Partition:0\tOffset:110\tDelivery:NOT_PRESENT\tpayload"
FAILED = "The record state is invalid: the acknowledgement of delivery could not be completed."


def acknowledged(offsets: list[int], error: str | None = None) -> str:
    """An event of VerifiableShareConsumer, from its callback."""
    part = {"topic": "orders", "partition": 0, "count": len(offsets), "offsets": offsets}
    event: dict[str, Any] = {"timestamp": 1732000000000, "name": "offsets_acknowledged"}
    event |= {"count": len(offsets), "partitions": [part], "success": error is None}
    return json.dumps(event if error is None else event | {"error": error}, separators=(",", ":"))


CONSUMED = acknowledged([3, 4]).replace("offsets_acknowledged", "records_consumed")


def read(folder: Path, *lines: str, separator: str = "\t") -> ConsumedLog:
    path = folder / "console.txt"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return ConsumedLog(path, separator)


def shown(path: Path, *options: str) -> list[dict[str, Any]]:
    return ask("consumed", str(path), *options)


PLACE = ("partition", "offset", "delivery_count")


@pytest.mark.row("CLI-09")
def test_lines_of_console_consumers_are_deliveries(tmp_path: Path) -> None:
    found = shown(read(tmp_path, FULL, FEW, "Offset:5", "a payload\tOffset:5").path)
    places = [tuple(one[name] for name in PLACE) for one in found]
    assert places == [(0, 110, 2), (1, 7, 1), (None, 5, None)]
    assert found[0]["timestamp"] == "2024-11-19T07:06:40.000Z"
    assert not {"k", "v", "payload"} & {str(value) for one in found for value in one.values()}


@pytest.mark.row("CLT-08")
def test_a_consumer_group_counts_no_deliveries(tmp_path: Path) -> None:
    log = read(tmp_path, FULL, OF_A_CONSUMER_GROUP)
    assert [one["delivery_count"] for one in shown(log.path)] == [2, None]
    assert log.tables["deliveries"].schema.field("delivery_count").type == pa.int16()


@pytest.mark.row("ACK-11")
def test_a_failed_acknowledgement_is_known_from_a_callback_alone(tmp_path: Path) -> None:
    callback = [acknowledged([5, 6, 7]), acknowledged([8, 9, 20], FAILED)]
    path = read(tmp_path, FULL, CONSUMED, *callback).path
    (failed, far) = shown(path, "--show", "outcomes", "--failed")
    assert (failed["topic"], failed["partition"]) == ("orders", 0)
    assert (failed["first_offset"], failed["last_offset"]) == (8, 9)
    assert (failed["succeeded"], failed["error_message"]) == (False, FAILED)
    assert far["first_offset"] == 20
    assert [one["succeeded"] for one in shown(path, "--show", "outcomes")] == [True, False, False]
    # What the consumer printed of its records alone does not say how they fared.
    assert shown(read(tmp_path, FULL, CONSUMED).path, "--show", "outcomes") == []
    # A broker's log has the request, and what the broker answered; not what the callback heard.
    refused = log_of(tmp_path, acknowledge(0, "m", 1, [(8, 9, [1])], error=121)).log.path
    assert shown(refused, "--show", "outcomes") == []


def test_events_are_deliveries_without_a_count(tmp_path: Path) -> None:
    table = read(tmp_path, CONSUMED).tables["deliveries"]
    assert rows(table, "topic", *PLACE) == [("orders", 0, 3, None), ("orders", 0, 4, None)]


def test_another_separator(tmp_path: Path) -> None:
    line = FULL.replace("\t", " | ")
    assert read(tmp_path, line).tables["deliveries"].num_rows == 0
    table = read(tmp_path, line, separator=" | ").tables["deliveries"]
    assert rows(table, *PLACE) == [(0, 110, 2)]


def test_every_line_is_in_a_table_a_reject_or_skipped(tmp_path: Path) -> None:
    broken = [
        f"Offset:{10**18}",
        "Partition:-1\tOffset:5",
        "Partition:0\tOffset:5\tDelivery:70000\tx",
        acknowledged([1])[:-30],
        acknowledged([1]).replace('"success":true', '"success":null'),
        acknowledged([1]).replace('"offsets":[1]', '"offsets":"all"'),
        acknowledged([-1]),
    ]
    other = ['{"timestamp":1,"name":"startup_complete"}', "Processed a total of 3 messages", ""]
    log = read(tmp_path, FULL, *broken, *other, acknowledged([1, 2]))
    tables = log.tables
    assert (tables["deliveries"].num_rows, tables["outcomes"].num_rows) == (1, 1)
    assert tables["rejects"].num_rows == len(broken)
    assert log.line_counts == (12, 3)
    assert "12 lines: 2 with deliveries or outcomes, 7 that could not be read" in log.summary()


def test_the_tables_of_pieces_are_those_of_the_file(tmp_path: Path) -> None:
    random = Random("consumed")
    delivered = [f"Partition:{n}\tOffset:{n}\tDelivery:1\tv" for n in range(300)]
    lines = [
        random.choice([one, acknowledged([n, n + 1]), CONSUMED, "x"])
        for n, one in enumerate(delivered)
    ]
    log = read(tmp_path, *lines)
    pieces = [one for piece in pieces_of(log.path, 700, log.path) for one in read_output(piece)]
    for name, table in log.tables.items():
        assert pa.Table.from_batches([getattr(one, name) for one in pieces]).equals(table)
    assert sum(one.total for one in pieces) == 300


def test_a_log_cut_anywhere_is_read_up_to_there(tmp_path: Path, cases: Cases) -> None:
    log = read(tmp_path, *[acknowledged([n]) if n % 2 else FULL for n in range(20)])
    data = log.path.read_bytes()
    ends = [n + 1 for n, octet in enumerate(data) if octet == ord("\n")]
    for cut in Random(3).sample(range(len(data)), cases(50, 800)):
        path = tmp_path / "cut.txt"
        path.write_bytes(data[:cut])
        found = ConsumedLog(path).tables
        kept = found["deliveries"].num_rows + found["outcomes"].num_rows
        complete = sum(end <= cut for end in ends)
        # Of a line of the console what is cut may be all that counts.
        assert complete <= kept <= complete + 1


def test_no_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no output of consumers at"):
        ConsumedLog(tmp_path / "gone").tables  # noqa: B018
    refused("consumed", str(tmp_path / "gone"))
    refused("consumed", str(tmp_path), "--failed", code=2)


def test_a_packed_file_is_read_up_to_where_it_is_cut(tmp_path: Path) -> None:
    lines = [f"Partition:0\tOffset:{n}\tDelivery:1\n" for n in range(3)]
    (tmp_path / "out.gz").write_bytes(gzip.compress("".join(lines).encode())[:-8])
    log = ConsumedLog(tmp_path)
    assert log.tables["deliveries"].column("offset").to_pylist() == [0, 1, 2]
    (reject,) = log.tables["rejects"].to_pylist()
    assert reject["source"] == "out.gz"
    assert reject["reason"] == "it is cut off, and what follows was not read"
    assert log.line_counts == (4, 0)
