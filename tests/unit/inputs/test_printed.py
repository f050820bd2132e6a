"""Is what Kafka's tools and consumers print of records read back as the records it was?"""

import bz2
import gzip
import json
import lzma
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import open as open_workbench
from sharelag.errors import InputError
from sharelag.inputs.files import printed
from sharelag.inputs.files.printed import is_printed, read_printed, regular_lines, regular_records
from sharelag.inputs.files.request_log import ConsumedLog, read_output
from sharelag.inputs.files.text_pieces import pieces_of
from sharelag.wire import GROUP_KINDS, GROUP_TOPIC, STATE_KINDS, STATE_TOPIC, decode_arrow
from sharelag.wire.formatter import kafka_json
from tests.support import generators
from tests.support.cases import Cases
from tests.support.command import ask, refused, sharelag
from tests.support.generations import raw_of
from tests.support.records import raw
from tests.support.request_lines import acknowledge, log_of, rows
from tests.support.walk import WALK, walk_records

#: Printed by ConsoleShareConsumer of Kafka 4.3.1 with all of its properties, and with few.
FULL = "CreateTime:1732000000000\tPartition:0\tOffset:110\tDelivery:2\tEpoch:0\tNO_HEADERS\tk\tv"
FEW = "Partition:1\tOffset:7\tDelivery:1\tpayload"
#: By ConsoleConsumer, in a consumer group.
OF_A_CONSUMER_GROUP = "Partition:0\tOffset:110\tDelivery:NOT_PRESENT\tpayload"
FAILED = "The record state is invalid: the acknowledgement of delivery could not be completed."
#: Printed by ShareGroupStateMessageFormatter of Kafka 4.3.1.
FORMATTED = (
    '{"key":{"type":0,"data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}},'
    '"value":{"version":0,"data":{"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":2,'
    '"startOffset":100,"deliveryCompleteCount":0,"createTimestamp":5,"writeTimestamp":5,'
    '"stateBatches":[]}}}{"key":{"type":1,"data":{"groupId":"G1","topicId":'
    '"AAAAAAAAAAAAAAAAAAAAAA","partition":0}},"value":{"version":0,"data":{"snapshotEpoch":0,'
    '"leaderEpoch":2,"startOffset":110,"deliveryCompleteCount":0,"stateBatches":[]}}}{"key":'
    '{"type":1,"data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}},'
    '"value":{"version":0,"data":{"snapshotEpoch":0,"leaderEpoch":2,"startOffset":-1,'
    '"deliveryCompleteCount":0,"stateBatches":[{"firstOffset":110,"lastOffset":110,'
    '"deliveryState":0,"deliveryCount":1}]}}}{"key":{"type":0,"data":{"groupId":"G1","topicId":'
    '"AAAAAAAAAAAAAAAAAAAAAA","partition":0}},"value":null}'
)
#: Printed by kafka-dump-log.sh --share-group-state-decoder of Kafka 4.3.1.
DUMPED = """\
Dumping /logs/__share_group_state-3/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 3 count: 4 baseSequence: -1 lastSequence: -1 producerId: -1 \
producerEpoch: -1 partitionLeaderEpoch: 0 isTransactional: false isControl: false \
deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1732000000003 size: 313 magic: 2 \
compresscodec: none crc: 3684767567 isvalid: true
| offset: 0 CreateTime: 1732000000000 keySize: 26 valueSize: 46 sequence: -1 headerKeys: [] \
key: {"type":"0","data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}} \
payload: {"version":"0","data":{"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":2,"startOffset":100,\
"deliveryCompleteCount":0,"createTimestamp":5,"writeTimestamp":5,"stateBatches":[]}}
| offset: 1 CreateTime: 1732000000001 keySize: 26 valueSize: 26 sequence: -1 headerKeys: [] \
key: {"type":"1","data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}} \
payload: {"version":"0","data":{"snapshotEpoch":0,"leaderEpoch":2,"startOffset":110,\
"deliveryCompleteCount":0,"stateBatches":[]}}
| offset: 2 CreateTime: 1732000000002 keySize: 26 valueSize: 46 sequence: -1 headerKeys: [] \
key: {"type":"1","data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}} \
payload: {"version":"0","data":{"snapshotEpoch":0,"leaderEpoch":2,"startOffset":-1,\
"deliveryCompleteCount":0,"stateBatches":[{"firstOffset":110,"lastOffset":110,"deliveryState":0,\
"deliveryCount":1}]}}
| offset: 3 CreateTime: 1732000000003 keySize: 26 valueSize: -1 sequence: -1 headerKeys: [] \
key: {"type":"0","data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}} \
payload: <DELETE>
"""


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


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_text_is_refused_by_name(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    packed = tmp_path / "printed.txt"
    packed.write_bytes(pack(b"Share group 'a' has no active members.\n"))
    for given in (["lag", "--raw"], ["groups", "--kafka-output"], ["check", "--rules"]):
        code = 3 if given[0] == "check" else 1
        done = sharelag(*given, str(packed), code=code)
        assert f"{packed} is compressed: decompress it first" in done.stdout + done.stderr
    packed.write_bytes(b"")
    assert "it is empty. Give a Parquet file, a folder of them, one file that Kafka's" in refused(
        "lag", "--raw", str(packed)
    )


def test_a_packed_file_is_read_up_to_where_it_is_cut(tmp_path: Path) -> None:
    lines = [f"Partition:0\tOffset:{n}\tDelivery:1\n" for n in range(3)]
    (tmp_path / "out.gz").write_bytes(gzip.compress("".join(lines).encode())[:-8])
    log = ConsumedLog(tmp_path)
    assert log.tables["deliveries"].column("offset").to_pylist() == [0, 1, 2]
    (reject,) = log.tables["rejects"].to_pylist()
    assert reject["source"] == "out.gz"
    assert reject["reason"] == "it is cut off, and what follows was not read"
    assert log.line_counts == (4, 0)


def file(folder: Path, text: str) -> Path:
    path = folder / "printed.txt"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("text", [FORMATTED, DUMPED])
def test_the_bytes_are_those_that_were_printed(tmp_path: Path, text: str) -> None:
    path = file(tmp_path, text)
    assert is_printed(path)
    found = read_printed(path)
    records = [record[1:] for record in walk_records(4)]
    expected = [*records, (records[0][0], None)]
    pairs = zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True)
    assert list(pairs) == expected
    assert found.column("offset").to_pylist() == [0, 1, 2, 3]
    assert set(found.column("topic").to_pylist()) == {STATE_TOPIC}


@pytest.mark.parametrize(
    "name",
    [
        "/my logs/a b-1/__share_group_state-7/00000000000000000000.log",
        "C:\\kafka logs\\__share_group_state-7\\00000000000000000000.log",
        "__share_group_state-7/00000000000000000000.log",
    ],
)
def test_a_log_dump_of_any_folder_has_its_place_and_times(tmp_path: Path, name: str) -> None:
    second = DUMPED.replace("/logs/__share_group_state-3/00000000000000000000.log", name)
    found = read_printed(file(tmp_path, DUMPED + second))
    assert found.column("partition").to_pylist() == [3] * 4 + [7] * 4
    assert found.column("timestamp").cast("int64").to_pylist()[0] == 1732000000000
    assert set(found.column("topic").to_pylist()) == {STATE_TOPIC}


def test_a_log_dump_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not name a segment"):
        read_printed(file(tmp_path, DUMPED + "Dumping /logs/meta.properties\n"))


@pytest.mark.parametrize("text", [FORMATTED, DUMPED])
def test_a_group_id_may_have_any_character(tmp_path: Path, text: str) -> None:
    named = text.replace("G1", "a\u2028b\x85c").replace("\n", "\r\n")
    path = tmp_path / "printed.txt"
    path.write_bytes(("\n " + named).encode())
    assert is_printed(path)
    records = decode_arrow(read_printed(path)).records
    assert records.column("group_id").to_pylist() == ["a\u2028b\x85c"] * 4


@pytest.mark.parametrize("text", [FORMATTED, DUMPED])
def test_any_input_option_takes_it(tmp_path: Path, text: str) -> None:
    # All but the last record, which is a tombstone.
    path = file(tmp_path, text[: max(text.rfind('{"key"'), text.rfind("| offset"))])
    sharelag("windows", "--raw", str(path), "-o", "json", code=0)
    windows = open_workbench(path, engine="local").windows().table.to_pylist()
    assert [(row["start_offset"], row["window_end_offset"]) for row in windows] == [(110, 111)]


@pytest.mark.parametrize("topic", [STATE_TOPIC, GROUP_TOPIC])
def test_random_records_come_back_from_our_json(tmp_path: Path, topic: str) -> None:
    random = Random(f"printed {topic}")
    records = [generators.record(random) for _ in range(300)]
    path = tmp_path / "raw.parquet"
    before = raw(records, topic)
    pq.write_table(pa.Table.from_batches([before]), path)
    printed = sharelag("decode", "--raw", str(path)).stdout
    found = decode_arrow(read_printed(file(tmp_path, printed)), topic).records
    names = [name for name in found.schema.names if name not in ("timestamp", "unknown_tags")]
    assert found.select(names).equals(decode_arrow(before, topic).records.select(names))


@pytest.mark.parametrize("generation", range(4))
def test_older_generations_come_back_from_our_json(tmp_path: Path, generation: int) -> None:
    before = raw_of(WALK.values(), generation)
    pq.write_table(pa.Table.from_batches([before]), tmp_path / "raw.parquet")
    printed = sharelag("decode", "--raw", str(tmp_path / "raw.parquet")).stdout
    found = read_printed(file(tmp_path, printed))
    assert found.select(["key", "value", "topic"]).equals(before.select(["key", "value", "topic"]))


def test_what_is_cut_is_one_reject(tmp_path: Path) -> None:
    cut = FORMATTED[: len(FORMATTED) // 2]
    decoded = decode_arrow(read_printed(file(tmp_path, cut)))
    assert (decoded.records.num_rows, decoded.rejects.num_rows) == (cut.count('{"key"') - 1, 1)
    assert decoded.rejects.column("value")[0].as_py().decode() in cut
    # Those that stand within ones that are cut off are read.
    begin = '{"key":'
    found = decode_arrow(read_printed(file(tmp_path, (begin * 20 + FIRST) * 50)))
    assert (found.records.num_rows, found.rejects.num_rows) == (50, 50 * 20)


@pytest.mark.parametrize("asked", [None, 3])
@pytest.mark.parametrize("text", [FORMATTED, DUMPED])
def test_snapshots_without_timestamps(tmp_path: Path, text: str, asked: int | None) -> None:
    expected = decode_arrow(read_printed(file(tmp_path, text))).records
    fields = r'"(createTimestamp|writeTimestamp|deliveryCompleteCount)":-?\d+,'
    path = file(tmp_path, re.sub(fields, "", text))
    decoded = decode_arrow(read_printed(path), generation=asked)
    assert decoded.rejects.num_rows == 0
    # A tombstone is the same in both.
    assert decoded.records.column("generation").to_pylist() == [3, 3, 3, asked]
    for name in ("group_id", "state_epoch", "leader_epoch", "start_offset", "state_batches"):
        assert decoded.records.column(name).equals(expected.column(name))
    health = open_workbench(path, engine="local").health().table.to_pylist()
    assert ["G3" in row["generations"] for row in health] == [True]


FIRST, *OTHERS = FORMATTED.replace("}{", "}\n{").split("\n")
ODD = [
    '{"key":null,"value":{"version":0,"data":{}}}',
    '{"key":{"type":0,"data":null},"value":null}',
    '{"key":{"type":"x","data":{}},"value":null}',
    '{"key":{"type":99999,"data":{}},"value":null}',
    '{"a":1}',
    FIRST.replace("100", "10000000000000000000000"),
    FIRST.replace("100", '"100"'),
    FIRST.replace("100", "true"),
    FIRST.replace("100", "100,"),
    FIRST.replace('"G1"', "7"),
    FIRST.replace("AAAA", "A", 1),
    FIRST.replace("[]", "[[]]"),
    FIRST.replace("[]", "7"),
    FIRST.replace('"value":{', '"value":"unknown","x":{'),
    FIRST[:-1] + ',"partition":"3"}',
    FIRST[:-1] + ',"offset":1e99}',
    FIRST[:-1] + ',"topic":5}',
    FIRST[:-1] + ',"topic":"\\ud800"}',
    FIRST.replace('"G1"', '"\\ud800"'),
    FIRST[:50],
    FIRST[50:],
    '{"key":' + "[" * 100_000,
    FIRST.replace("100", "1" * 5_000),
    FIRST.replace('"type":0', '"type":"' + "1" * 5_000 + '"'),
    '{"reject":{"key":"zz","value":null}}',
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_one_odd_object_is_one_reject(tmp_path: Path, odd: str) -> None:
    found = read_printed(file(tmp_path, FIRST + odd + "".join(OTHERS)))
    decoded = decode_arrow(found)
    assert decoded.rejects.column("offset").to_pylist() == [1]
    assert decoded.rejects.column("value")[0].as_py().decode() == odd
    assert decoded.records.column("offset").to_pylist() == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("good", "odd"),
    [
        ('"startOffset":110', '"startOffset":9999999999999999999999'),
        ('"startOffset":110', '"startOffset":110,,'),
        ('"startOffset":110,', ""),
        ("1732000000001 keySize", "173200000000100000000 keySize"),
        (
            ' payload: {"version":"0","data":{"snapshotEpoch":0,"leaderEpoch":2,"startOffset":110',
            "",
        ),
    ],
)
def test_one_odd_line_of_a_dump_is_one_reject(tmp_path: Path, good: str, odd: str) -> None:
    assert good in DUMPED
    decoded = decode_arrow(read_printed(file(tmp_path, DUMPED.replace(good, odd))))
    assert decoded.rejects.column("offset").to_pylist() == [1]
    assert decoded.records.column("offset").to_pylist() == [0, 2, 3]


LOG_LINE = "[2026-11-24 07:00:00,000] WARN It has {brackets} (org.apache.kafka.tools)\n"


#: Lines of other programs, with braces.
BRACES = """\
Picked up JAVA_TOOL_OPTIONS: -Dlabels={"a":1}
SLF4J: provider {x}
WARNING: A {x}
Defaulted container "kafka" out of: {kafka}
"""
BEGINS = ["\ufeff", LOG_LINE, "\n" + LOG_LINE * 2, "\ufeff" + LOG_LINE, *BRACES.splitlines(True)]


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("text", [FORMATTED, DUMPED])
def test_log_lines_and_marks_are_passed_over(tmp_path: Path, text: str, begin: str) -> None:
    expected = read_printed(file(tmp_path, text))
    path = file(tmp_path, begin + text + "\n" + LOG_LINE + "Processed a total of 4 messages\n")
    assert is_printed(path)
    assert read_printed(path).equals(expected)


@pytest.mark.parametrize("text", [FORMATTED, DUMPED])
def test_lines_that_docker_wrote_as_json_are_read(tmp_path: Path, text: str) -> None:
    expected = read_printed(file(tmp_path, text))
    lines = [{"log": f"{line}\n", "stream": "stdout"} for line in text.split("\n")]
    path = file(tmp_path, "\n".join(map(json.dumps, lines)))
    assert is_printed(path)
    assert read_printed(path).equals(expected)


@pytest.mark.parametrize("between", ["", LOG_LINE])
def test_the_keys_of_an_object_may_have_any_order(tmp_path: Path, between: str) -> None:
    turned = [json.dumps(dict(reversed(json.loads(one).items()))) for one in OTHERS]
    expected = read_printed(file(tmp_path, FORMATTED))
    path = file(tmp_path, FIRST + between + "".join(turned))
    assert read_printed(path).equals(expected)


def test_a_log_line_within_the_objects_is_passed_over(tmp_path: Path) -> None:
    expected = read_printed(file(tmp_path, FORMATTED))
    assert read_printed(file(tmp_path, FIRST + LOG_LINE + "".join(OTHERS))).equals(expected)


def test_where_a_consumer_prints_the_place_it_is_that_of_the_record(tmp_path: Path) -> None:
    path = file(tmp_path, f"Partition:3\tOffset:17\t{FIRST}\nPartition:4\tOffset:2\t{OTHERS[0]}\n")
    assert is_printed(path)
    found = read_printed(path)
    assert found.column("partition").to_pylist() == [3, 4]
    assert found.column("offset").to_pylist() == [17, 2]
    assert decode_arrow(found).records.num_rows == 2


#: What stands before each line of a program, of its own and of others.
LED: dict[str, str] = {
    "compose": "kafka-1  | ",
    "compose with colours off": "broker-1-1 | ",
    "stern": "broker-0 kafka ",
    "kubectl with a prefix": "[pod/broker-0/kafka] ",
    "syslog": "Nov 21 10:00:00 host kafka[7]: ",
    "syslog with a year": "2026-11-21T10:00:00.123456+01:00 host kafka[7]: ",
    "syslog of RFC 5424": "<7>1 2026-11-21T10:00:00.123456Z host kafka 7 - - ",
    "journal": "Nov 21 10:00:00.123456 host kafka[7]: ",
    "CRI": "2026-11-21T09:00:00.1+01:00 stdout F ",
    "kubectl with times": "2026-11-21T09:00:00.123456789Z ",
    "compose with times": "kafka-1  | 2026-11-21T09:00:00.123456789Z ",
}
OF_OTHERS = [
    "SLF4J: Class path contains multiple SLF4J bindings.",
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
    "[2026-11-24 07:00:00,000] WARN no such setting (org.apache.kafka.tools)",
    '[2026-11-24 07:00:00,000] WARN It has {"key": 1} (org.apache.kafka.tools)',
    "Processed a total of 4 messages",
]


def led(folder: Path, begin: str, lines: list[str]) -> Path:
    return file(folder, "".join(f"{begin}{line}\n" for line in lines))


@pytest.mark.parametrize("name", LED)
def test_what_stands_before_lines_is_nothing_of_records(name: str, tmp_path: Path) -> None:
    expected = read_printed(file(tmp_path, FORMATTED))
    path = led(tmp_path, LED[name], [*OF_OTHERS[:3], FIRST, OF_OTHERS[3], *OTHERS, OF_OTHERS[4]])
    assert is_printed(path)
    assert read_printed(path).equals(expected)
    placed = [f"CreateTime:5\tPartition:3\tOffset:{n}\t{one}" for n, one in enumerate(OTHERS)]
    assert read_printed(led(tmp_path, LED[name], placed)).column("partition").to_pylist() == [3] * 3
    dumped = read_printed(file(tmp_path, DUMPED))
    path = led(tmp_path, LED[name], DUMPED.splitlines())
    assert is_printed(path)
    assert read_printed(path).equals(dumped)


@pytest.mark.parametrize("name", LED)
def test_what_is_cut_behind_a_prefix_is_a_reject(name: str, tmp_path: Path) -> None:
    for cut in (FIRST[50:], FIRST[:50], OTHERS[1][90:]):
        found = decode_arrow(read_printed(led(tmp_path, LED[name], [FIRST, cut, OTHERS[0]])))
        assert found.rejects.num_rows == 1
        assert found.records.num_rows == 2


@pytest.mark.parametrize("name", LED)
def test_what_stands_before_lines_is_nothing_of_deliveries(name: str, tmp_path: Path) -> None:
    deliveries = [f"Partition:0\tOffset:{n}\tDelivery:1\tv" for n in range(3)]
    log = ConsumedLog(led(tmp_path, LED[name], [*OF_OTHERS, *deliveries]))
    assert log.tables["deliveries"].column("offset").to_pylist() == [0, 1, 2]
    logged = log.path.read_text("utf-8").replace("Partition:", "INFO got Partition:")
    log.path.write_text(logged, "utf-8")
    assert ConsumedLog(log.path).tables["deliveries"].num_rows == 0


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"key": {"type": 0, "data": {"topicId": "A"}}, "value": null}', "{}"]
)
def test_other_json_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="is not what Kafka's formatters print"):
        read_printed(file(tmp_path, text))


def test_records_of_other_groups_are_skipped(tmp_path: Path) -> None:
    other = '{"key":{"type":3,"data":{"groupId":"c"}},"value":{"version":0,"data":{"epoch":1}}}'
    decoded = decode_arrow(read_printed(file(tmp_path, other + "\n" + other)), GROUP_TOPIC)
    assert (decoded.records.num_rows, decoded.rejects.num_rows, decoded.skipped) == (0, 0, 2)


# ---- texts that somebody made to take long -------------------------------------------------------
DUMP = DUMPED.splitlines(keepends=True)
#: What took minutes, or more with the square of its length, each of less than 1.5 MB.
LONG = {
    "a path without an end": DUMP[0] + "Dumping " + "a" * 400_000,
    "a line of blanks": FIRST + "\n" + " " * 400_000 + "x\n",
    "a place of tabs": FIRST + "\nCreateTime:" + "\t" * 400_000 + "x\n",
    "marks of keys": f"{DUMP[0]}| offset: 1 CreateTime: 1 {' key: {} payload: {' * 9999}",
    "objects in objects": '{"key":' * 150_000,
    "lists of objects": '{"key":[1,' * 100_000,
}


@pytest.mark.parametrize("name", LONG)
def test_the_time_grows_with_the_text_and_no_faster(name: str, tmp_path: Path) -> None:
    path = file(tmp_path, LONG[name])
    begun = time.process_time()
    try:
        said = f"{read_printed(path).num_rows} rows"
    except InputError as error:
        said = str(error)
    assert said == "2 rows" or "formatters" in said or "does not name a segment" in said
    assert len(said) < 600
    assert time.process_time() - begun < 15


@pytest.mark.parametrize("name", [" key: {} payload: {", "} payload: <DELETE>", 'a"} key: {"x'])
def test_a_group_that_is_called_like_the_marks_of_a_line(name: str, tmp_path: Path) -> None:
    dumped = DUMPED.replace('"G1"', json.dumps(name))
    found = decode_arrow(read_printed(file(tmp_path, dumped)))
    assert set(found.records.column("group_id").to_pylist()) == {name}
    assert found.records.num_rows == 4
    assert found.rejects.num_rows == 0


#: What is put between objects, or into them.
PIECES = (
    *("null", '"value":null', "NaN", "{", "}", "[]", ",", '"', "\\", "\\u0041", "\\ud800", "é"),
    *("\n[2026-11-24 07:00:00,000] WARN {x}\n", "\nPartition:3\tOffset:17\t", "\0", " \t\r\n"),
    *("-0", "1.0", "true", "9" * 30, '"topic":"",', '"topic":null,', '"offset":7,', '{"a":1}'),
    *('{"key":', '{"key":{"type":0,"data":null},"value":null}', "Processed a total of 4\n"),
    *("} payload: {", " key: {", "} payload: <DELETE>", "<DELETE>", "\n| offset: 5 CreateTime: "),
    *("\nDumping /x/__share_group_state-9/00000000000000000001.log\n", ':{"', "}}", "\r"),
    *('{"reject":{"key":"zz","value":null}}', '"deliveryCompleteCount":null,', '"type":70000,'),
)


def state_records(seed: str, count: int) -> pa.RecordBatch:
    random = Random(seed)
    return raw([generators.record(random, random.choice(STATE_KINDS)) for _ in range(count)])


def objects(random: Random, count: int) -> list[str]:
    """Return records as formatters print them: mostly of one kind and shape, some of others."""
    rows = [*kafka_json(decode_arrow(state_records(f"{random.random()}", count)).records)]
    if random.random() < 0.3:
        group = raw([generators.record(random, one) for one in GROUP_KINDS], GROUP_TOPIC)
        rows += kafka_json(decode_arrow(group, GROUP_TOPIC).records)
    if random.random() < 0.3:
        rows += kafka_json(decode_arrow(raw_of(WALK.values(), random.randrange(4))).records)
    random.shuffle(rows)
    if random.random() < 0.5:  # as Kafka prints them, without a place
        rows = [{"key": row["key"], "value": row["value"]} for row in rows]
    for row in rows:
        if row["value"] and "generation" not in row["key"] and random.random() < 0.02:
            for name in ("createTimestamp", "writeTimestamp", "deliveryCompleteCount"):
                row["value"]["data"].pop(name, None)
    apart = random.choice([(",", ":"), (", ", ": ")])
    return [json.dumps(row, separators=apart) for row in rows]


def damaged(random: Random, text: str) -> str:
    for _ in range(random.randrange(4)):
        at = random.randrange(len(text) + 1)
        end = at + random.choice([0, 0, 1, random.randrange(40)])
        text = text[:at] + random.choice(("", *PIECES)) + text[end:]
    return text


def dumped(parts: list[str]) -> str:
    """Return objects as lines of a log dump."""
    lines = ["Dumping /logs/__share_group_state-3/00000000000000000000.log"]
    for n, one in enumerate(parts):
        if n == 5:
            lines += [
                "Dumping /logs/__share_group_state-4/00000000000000000007.log",
                "baseOffset: 0",
            ]
        row = json.loads(one)
        row["key"]["type"] = str(row["key"]["type"])
        value = row["value"] and {**row["value"], "version": "0"}
        key, value = (json.dumps(part, separators=(",", ":")) for part in (row["key"], value))
        payload = "<DELETE>" if value == "null" else value
        head = f"| offset: {n} CreateTime: {1732000000000 + n} keySize: 26 headerKeys: []"
        lines.append(f"{head} key: {key} payload: {payload}")
    return "\n".join(lines)


def try_read(path: Path) -> tuple[str, pa.RecordBatch | None]:
    try:
        return "", read_printed(path)
    except InputError as error:
        return str(error), None


def check(path: Path, seed: str, monkeypatch: pytest.MonkeyPatch, is_dump: bool = False) -> int:
    """Compare both ways to read one text; return how many pieces were read at once."""
    random, at_once = Random(seed), 0
    name = "regular_lines" if is_dump else "regular_records"
    reading: Any = regular_lines if is_dump else regular_records

    def counted(*given: Any, **more: Any) -> pa.RecordBatch | None:
        nonlocal at_once
        found: pa.RecordBatch | None = reading(*given, **more)
        at_once += found is not None
        return found

    parts = objects(random, random.choice([2, 4, 12]))
    between = random.choice(["", "\n"])
    text = damaged(random, dumped(parts) if is_dump else between.join(parts))
    path.write_text(text, "utf-8", newline="")
    monkeypatch.setattr(printed, "_PIECE", random.choice([1, 2000, 9000, 1 << 20]))
    monkeypatch.setattr(printed, "_LINES", random.choice([1, 3, 4096]))
    monkeypatch.setattr(printed, name, counted)
    found = try_read(path)
    monkeypatch.setattr(printed, name, lambda *_, **__: None)
    assert found == try_read(path), seed
    return at_once


@pytest.mark.parametrize("is_dump", [False, True])
def test_both_ways_read_random_and_damaged_texts_alike(
    is_dump: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: Cases
) -> None:
    path, count = tmp_path / "printed.txt", cases(10, 200)
    at_once = sum(check(path, f"pieces {seed}", monkeypatch, is_dump) for seed in range(count))
    assert at_once > count


@pytest.mark.parametrize("place", [False, True])
def test_texts_go_as_one(place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_records("regular", 200)
    rows = [*kafka_json(decode_arrow(before).records)]
    if not place:
        rows = [{"key": row["key"], "value": row["value"]} for row in rows]
    path = file(tmp_path, "".join(map(json.dumps, rows)))
    monkeypatch.delattr(printed, "_row")
    found = read_printed(path)
    assert found.column("offset").to_pylist() == [n + 100 * place for n in range(200)]
    assert set(found.column("topic").to_pylist()) == {STATE_TOPIC}
    names = ["group_id", "start_offset", "state_batches", "delivery_complete_count", "tombstone"]
    records = decode_arrow(found).records
    assert records.select(names).equals(decode_arrow(before).records.select(names))


def test_regular_dumps_are_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_records("dump", 200)
    text = dumped([json.dumps(row) for row in kafka_json(decode_arrow(before).records)])
    path = file(tmp_path, text)
    monkeypatch.delattr("sharelag.inputs.files.printed.Printed.encode")
    found = read_printed(path)
    assert found.column("partition").to_pylist() == [3] * 5 + [4] * 195
    times = found.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [1732000000000 + n for n in range(200)]
    assert found.column("key").equals(before.column("key"))
