"""Damaged captures and texts of every kind: an answer, or one sentence; never a traceback."""

import json
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag.cli.output import one_line
from sharelag.errors import ConfigError, InputError, ShareLagError
from sharelag.inputs.files import parquet
from sharelag.inputs.files.printed import read_printed
from sharelag.inputs.files.request_log import ConsumedLog, RequestLog
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.described import parse_groups, parse_offsets
from sharelag.inputs.measured import read_metrics
from sharelag.monitoring.checks.rules import parse_rules, read_rules
from sharelag.tables.lines import lines, plain_rows
from sharelag.whatif import from_json, named, names, to_json
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC, decode_arrow
from sharelag.wire.formatter import kafka_json
from sharelag.wire.requests.tables import spread
from tests.support.captures import describe
from tests.support.command import refused
from tests.support.command import sharelag as sharelag_command
from tests.support.damaged_texts import BINARY, damaged
from tests.support.memory import peak_of
from tests.support.mutations import corpus
from tests.support.parquet import flip_in_a_page, with_bytes_as_topic, without_checksums
from tests.support.records import with_column
from tests.support.reliability import Inject
from tests.support.request_lines import described, fetch, state_call
from tools.page_checksums import rewrite

DATA = Path(__file__).parents[3] / "data"
CAPTURE = DATA / "captures" / "scenarios" / "window_full"
RECORDS_FILE = "records/part-0.parquet"
EARLIEST, LATEST = -(1 << 63) + 1, (1 << 63) - 1
RULES = Path(__file__).parents[3] / "data" / "examples" / "rules.yaml"
METRICS = Path(__file__).parents[2] / "data" / "metrics"
#: Processor seconds that no file of a few kilobytes takes.
MOST_SECONDS = 5.0
#: What SECURITY.md says of memory.
MOST_BYTES_A_BYTE, LEAST_BYTES = 512, 16 << 20
#: Texts of 8 KiB with as many values as fit.
HOSTILE = [
    b"[" + b"[]," * 2_700 + b"[]]",
    b"[" + b"7," * 4_000 + b"7]",
    b"{" + b",".join(b'"%d":0' % n for n in range(1_000)) + b"}",
    b'{"topics":[' + b"{}," * 2_500 + b'{}],"members":[]}',
    b"version: 1\nrules:\n" + b"- {}\n" * 1_500,
    b"a: b\n" * 1_500,
    b"".join(b"a%d=b\n" % n for n in range(1_000)),
    b"\n" * 8_000,
]
CONFIG = rb"""bootstrap.servers=b:1
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="u" \
  password="hunter2";
ssl.endpoint.identification.algorithm=https
request.timeout.ms=30000
# a comment \u0041
client.id = x\u00e9
"""

CONSUMED = b"""CreateTime:1732000000000\tPartition:0\tOffset:110\tDelivery:2\tEpoch:0\tNO_HEADERS\tk\tv
{"timestamp":1732000000000,"name":"offsets_acknowledged","count":1,"partitions":[{"topic":"orders",\
"partition":0,"count":1,"offsets":[3]}],"success":true}
"""
OFFSETS = b"""
GROUP  TOPIC   PARTITION  LEADER-EPOCH  START-OFFSET  LAG
crowd  orders  0          1             2             7
crowd  orders  1          -             -             -
"""
GROUPS = b"""
GROUP  COORDINATOR (ID)      STATE   GROUP-EPOCH  ASSIGNMENT-EPOCH  #MEMBERS
crowd  127.0.0.1:33711  (1)  Stable  5            5                 3
GROUP  CONSUMER-ID  HOST        CLIENT-ID  #PARTITIONS  MEMBER-EPOCH  ASSIGNMENT
crowd  2FsTHSlGR56  /127.0.0.1  idle       3            5             o:0,2;r:0
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CAPTURE, tmp_path / "capture"))


def answer(capture: Path) -> list[int]:
    """Ask what reads every table of a capture; return lag."""
    with sharelag.open(str(capture), engine="local") as bench:
        bench.explain()
        return list(bench.lag().table.column("lag").to_pylist())


def set_value(path: Path, column: str, value: Any) -> None:
    """Put a value into the middle row of a Parquet file."""
    table = pq.read_table(path)
    values = table.column(column).to_pylist()
    values[len(values) // 2] = value
    nullable = pa.field(column, table.schema.field(column).type)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, nullable, pa.array(values, nullable.type)), path)


def test_a_page_that_cannot_be_decompressed_names_the_file(capture: Path) -> None:
    path = capture / RECORDS_FILE
    group = pq.ParquetFile(path).metadata.row_group(0)
    value = group.column(group.num_columns - 1)
    begin = value.dictionary_page_offset or value.data_page_offset
    octets = bytearray(path.read_bytes())
    octets[begin : begin + value.total_compressed_size] = b"\xaa" * value.total_compressed_size
    path.write_bytes(octets)
    with pytest.raises(InputError, match=r"part-0\.parquet is damaged .*: restore it"):
        answer(capture)


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("offsets.parquet", "end_offset", LATEST, "end_offset has 9223372036854775807"),
        ("offsets.parquet", "as_of", EARLIEST, "not a possible time"),
        ("offsets.parquet", "partition", None, "has 1 row without partition"),
        ("times.parquet", "topic_id", None, "has 1 row without topic_id"),
        ("logs.parquet", "last_stable_offset", LATEST, "not a possible offset"),
    ],
)
def test_impossible_values(capture: Path, name: str, column: str, value: Any, message: str) -> None:
    set_value(capture / name, column, value)
    with pytest.raises(InputError, match=message) as caught:
        answer(capture)
    assert name in str(caught.value)


@pytest.mark.parametrize("length", [100, 5_000_000])
def test_bytes_of_another_file_are_not_shown(capture: Path, length: int) -> None:
    (capture / "capture.json").write_bytes(b"password=hunter2 " + b"\xff" * length)
    with pytest.raises(InputError, match=r"capture\.json") as caught:
        answer(capture)
    assert "hunter2" not in "".join(format_exception(caught.value))
    assert len(str(caught.value)) < 400


def test_times_may_be_finer(capture: Path) -> None:
    path = capture / "offsets.parquet"
    table = pq.read_table(path)
    times = table.column("as_of").cast(pa.timestamp("us", "UTC"))
    pq.write_table(with_column(table, "as_of", pc.add(times, timedelta(microseconds=7))), path)
    assert _shown(capture) == _shown(CAPTURE)


def test_a_wrong_checksum_is_damage_and_a_missing_one_none(capture: Path) -> None:
    path = capture / "capture.json"
    path.write_text(path.read_text().replace("v79R6", "v79R7"))
    with pytest.raises(InputError, match=r"capture\.json is damaged .* or remove the line crc32"):
        answer(capture)
    describe(capture)
    assert _shown(capture) == _shown(CAPTURE)


@pytest.mark.parametrize("time", [EARLIEST, LATEST])
def test_an_impossible_time_is_unknown_and_counts(capture: Path, time: int) -> None:
    set_value(capture / RECORDS_FILE, "timestamp", time)
    assert answer(capture) == answer(CAPTURE)
    assert sharelag_command("health", "--capture", str(capture)).returncode == 0


def test_a_row_of_nulls_is_a_reject_wherever_it_is_counted(capture: Path) -> None:
    path = capture / RECORDS_FILE
    table = pq.read_table(path)
    nothing = pa.Table.from_pylist([dict.fromkeys(table.schema.names)], schema=table.schema)
    pq.write_table(pa.concat_tables([table, nothing]), path)
    with sharelag.open(str(capture), engine="local") as bench:
        assert len(bench.lag()) == 1
    for command in ("lag", "windows"):
        answered = sharelag_command(command, "--capture", str(capture))
        said = answered.stdout + answered.stderr
        assert "unexpected" not in said
        assert "1 record that could not be decoded" in said, said


def test_spark_names_the_file_with_a_time_that_it_cannot_read() -> None:
    said = (
        "An error occurred while calling o3171.getResult.\norg.apache.spark.SparkException: "
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/c1/records/"
        "part-0.parquet.  SQLSTATE: KD001\nCaused by: java.lang.ArithmeticException: long overflow"
    )
    assert one_line(RuntimeError(said)).startswith("/data/c1/records/part-0.parquet is damaged")


def _shown(folder: Path) -> dict[str, str]:
    """What commands print of a capture, each row of it."""
    with sharelag.open(str(folder), engine="local") as bench:
        return {
            name: "\n".join(lines(plain_rows(getattr(bench, name)().table), "json"))
            for name in ("lag", "windows", "health", "explain")
        }


def _outcome(folder: Path, path: Path, whole: dict[str, str]) -> str:
    """What came of a damaged file: a refusal names it, and fits in a line."""
    try:
        shown = _shown(folder)
    except InputError as error:
        said = str(error)
        assert "\n" not in said
        assert path.name in said or "offset order" in said, said
        return "refused, with the file"
    return "the same answers" if shown == whole else "other answers"


@pytest.mark.parametrize(
    ("fault", "few", "many", "least"),
    [
        ("a file of a capture is damaged", 15, 5000, 1 / 2),
        ("a bit of a capture's pages is flipped", 8, 2000, 1 / 3),
    ],
    ids=["files", "pages"],
)
def test_damaged_captures_are_the_same_answers_or_sentences(
    fault: str, few: int, many: int, least: float, tmp_path: Path, cases: Any, injected: Inject
) -> None:
    is_bit = "flipped" in fault
    files = [path for path in CAPTURE.rglob("*.parquet" if is_bit else "*") if path.is_file()]
    whole, told = _shown(CAPTURE), Counter[str]()
    count, others = cases(few, many), []
    for seed in range(count):
        chance = random.Random(f"page {seed}" if is_bit else seed)
        folder = Path(shutil.copytree(CAPTURE, tmp_path / str(seed)))
        path = folder / chance.choice(sorted(files)).relative_to(CAPTURE)
        if is_bit:
            flip_in_a_page(path, chance)
        else:
            path.write_bytes(damaged(path.read_bytes(), chance, BINARY))
        outcome = _outcome(folder, path, whole)
        told[outcome] += 1
        if outcome == "other answers":
            others.append((seed, path.name))
        shutil.rmtree(folder)
    assert count * least < told["refused, with the file"] < count
    injected("records", fault, count, told, wrong=len(others))
    assert others == []


def test_captures_without_checksums_are_read_as_they_are(capture: Path) -> None:
    for path in capture.rglob("*.parquet"):
        without_checksums(path)
    assert _shown(capture) == _shown(CAPTURE)


@pytest.mark.parametrize("row", [0, -1])
@pytest.mark.parametrize("command", ["lag", "explain", "groups"])
def test_a_topic_that_is_no_text_is_damage(capture: Path, command: str, row: int) -> None:
    """Of files without checksums; nothing is left to find when the row is printed."""
    with_bytes_as_topic(capture / RECORDS_FILE, row, b"__consumer_offset\xe1")
    said = refused(command, "--capture", str(capture), "--engine", "local")
    assert "part-0.parquet is damaged" in said
    assert "UTF8" in said


def _is_compared(path: Path, aside: Path) -> bool:
    """Return whether a file with a damaged page is refused for its checksum, compared first."""
    group = pq.read_metadata(path).row_group(0)
    column, octets = group.column(group.num_columns - 1), bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    octets[begin + column.total_compressed_size - 1] ^= 1
    aside.write_bytes(octets)
    try:
        with parquet.open_parquet(aside) as file:
            file.read_row_group(0)
    except (OSError, pa.ArrowException) as error:
        return "CRC" in str(error)
    return False


def test_all_recorded_files_have_checksums(tmp_path: Path) -> None:
    paths = [path for path in DATA.rglob("*.parquet") if pq.read_metadata(path).num_rows]
    assert len(paths) > 140
    assert [path for path in paths if not _is_compared(path, tmp_path / "damaged")] == []


def test_files_of_older_versions_get_checksums_and_stay_the_same(tmp_path: Path) -> None:
    for path in (DATA / "captures" / "chapters").glob("*.parquet"):
        old = Path(shutil.copy(path, tmp_path))
        with parquet.open_parquet(path) as file:
            pq.write_table(file.read(), old, row_group_size=3)
        before, groups = pq.read_table(old), pq.read_metadata(old).num_row_groups
        assert not _is_compared(old, tmp_path / "damaged")
        rewrite(old)
        assert _is_compared(old, tmp_path / "damaged")
        assert pq.read_table(old).equals(before, check_metadata=True)
        assert pq.read_metadata(old).num_row_groups == groups


def _printed(topic: str) -> bytes:
    """Return records as `sharelag decode -o json` prints them, with topic and offset."""
    records = decode_arrow(corpus(topic).slice(0, 12), topic).records
    return "\n".join(json.dumps(row) for row in kafka_json(records)).encode()


def _dumped() -> bytes:
    place = b"Dumping /logs/__share_group_state-3/00000000000000000000.log\n"
    key = b'{"type":"0","data":{"groupId":"G1","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":0}}'
    value = (
        b'{"version":"0","data":{"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":2,"startOffset":100,'
        b'"deliveryCompleteCount":0,"createTimestamp":5,"writeTimestamp":5,"stateBatches":[]}}'
    )
    begin = b"| offset: %d CreateTime: 1732000000000 keySize: 26 sequence: -1 headerKeys: [] key: "
    return place + b"".join(begin % n + key + b" payload: " + value + b"\n" for n in range(3))


def _lines() -> bytes:
    begun = state_call("InitializeShareGroupState", 0, stateEpoch=1, startOffset=-1)
    acquired = fetch(1_000, "m-7", 0, [(680, 699, 1)])
    return "\n".join([begun, acquired, described(3_000, "Stable", 4, members=2)]).encode()


def _read_printed(path: Path) -> int:
    """Return how many records are in none of the places where each has to be."""
    batch, lost = read_printed(path), 0
    for topic in (STATE_TOPIC, GROUP_TOPIC):
        found = decode_arrow(batch, topic)
        rows = found.records.num_rows + found.rejects.num_rows + found.skipped
        lost += abs(batch.num_rows - rows)
    return lost


def _read_lines(path: Path) -> int:
    log = RequestLog(path)
    total, skipped = log.line_counts
    rows = log.tables["requests"].num_rows + log.tables["rejects"].num_rows + skipped
    return abs(total - rows)


def _read_consumed(path: Path) -> int:
    log = ConsumedLog(path)
    total, skipped = log.line_counts
    return max(skipped + log.tables["rejects"].num_rows - total, 0)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


#: How each text with records is read, which returns how many it has lost, and one that is whole.
RECORDS: dict[str, tuple[Callable[[Path], int], Callable[[], bytes]]] = {
    "state records as JSON": (_read_printed, lambda: _printed(STATE_TOPIC)),
    "group records as JSON": (_read_printed, lambda: _printed(GROUP_TOPIC)),
    "a dumped log": (_read_printed, _dumped),
    "a request log": (_read_lines, _lines),
    "what consumers print": (_read_consumed, lambda: CONSUMED),
}
#: The same of texts without records.
READERS: dict[str, tuple[Callable[[Path], Any], Callable[[], bytes]]] = RECORDS | {
    "described offsets": (lambda path: parse_offsets(_text(path)), lambda: OFFSETS),
    "described groups": (lambda path: parse_groups(_text(path)), lambda: GROUPS),
    **{
        f"metrics in {name}": (lambda path: read_metrics([path]), (METRICS / name).read_bytes)
        for name in ("example.prom", "second.csv", "second.properties")
    },
    "rules": (read_rules, RULES.read_bytes),
    "client properties": (lambda path: client_config("b:1", path), lambda: CONFIG),
    "a scenario": (
        lambda path: from_json(path.read_bytes()),
        lambda: to_json(named(next(iter(names()))), indent=1).encode(),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_texts_are_read_or_refused(
    name: str, tmp_path: Path, cases: Any, injected: Inject
) -> None:
    read, made = READERS[name]
    whole, path = made(), tmp_path / "file"
    path.write_bytes(whole)
    lost = read(path) if name in RECORDS else None
    seen, said, count = Counter[str](), [], cases(30, 20_000)
    for seed in range(count):
        path.write_bytes(damaged(whole, random.Random(f"{name} {seed}")))
        begun = time.process_time()
        try:
            found = read(path)
            lost = None if lost is None else lost + found
            seen["texts read"] += 1
        except ShareLagError as error:
            said.append(str(error))
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
        if time.process_time() - begun > MOST_SECONDS:
            # A kernel may have been compiled, which happens once in a process.
            begun = time.process_time()
            with suppress(ShareLagError):
                read(path)
            assert time.process_time() - begun < MOST_SECONDS, seed
    assert [text for text in said if "hunter2" in text or "\n" in text] == []
    assert seen["texts read"] > 0
    assert said or name in ("a request log", "what consumers print")  # which have rejects
    seen["refusals with the reason"] = len(said)
    # Many a damaged text is another valid one: there is nothing to compare what it says with.
    kind = "without" if lost is None else "with"
    injected("records", f"a text {kind} records is damaged", count, seen, lost=lost)
    assert not lost


# ---- what this found -----------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["client.id=a\\u0000b", "client.id=\\ud800"])
def test_settings_that_are_not_text_are_refused(text: str, tmp_path: Path) -> None:
    """Half a character in a name was a segmentation fault of librdkafka; names are ignored."""
    (tmp_path / "client.properties").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="not text"):
        client_config("b:1", tmp_path / "client.properties")
    (tmp_path / "client.properties").write_text("ssl.\\ud800=x", encoding="utf-8")
    assert client_config("b:1", tmp_path / "client.properties").is_public


def test_numbers_of_thousands_of_digits_are_refused() -> None:
    """Python itself refuses to read them."""
    for name in ("request.timeout.ms", "fetch.max.wait.ms"):
        with pytest.raises(ConfigError, match="outside allowed range"):
            client_config("b:1", None, {name: "9" * 5000})
    with pytest.raises(ConfigError, match="invalid broker address"):
        client_config("b:" + "9" * 5000)


def test_a_broken_line_of_a_password_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text('sasl.jaas.config=X required username="u" password=\n"hunter2";\n')
    with pytest.raises(ConfigError, match="broken in two") as caught:
        client_config("b:1", path)
    assert "hunter2" not in str(caught.value)


def test_rules_of_aliases_of_aliases_are_refused_before_they_are_billions() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    merged = ["a0: &a0 {k: 1}"]
    merged += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    for text in (lines, merged):
        with pytest.raises(InputError, match="more than 100,000 values"):
            parse_rules("\n".join(text))
    with pytest.raises(InputError, match="nested too deeply"):
        parse_rules("[" * 5000)


def test_a_rule_file_of_nothing_but_mistakes_is_one_short_message() -> None:
    with pytest.raises(InputError, match="and 1,980 more") as caught:
        parse_rules("version: 1\nrules:\n" + "- {}\n" * 1000)
    assert len(str(caught.value)) < 2_000


def _tried(read: Callable[[Path], object], path: Path) -> None:
    with suppress(ShareLagError):
        read(path)


@pytest.mark.parametrize("name", READERS)
def test_memory_is_bounded_by_the_bytes_of_a_text(name: str, tmp_path: Path) -> None:
    read, made = READERS[name]
    path = tmp_path / "file"
    path.write_bytes(made())
    read(path)  # what is imported now, once
    for text in HOSTILE:
        path.write_bytes(text)
        peak = peak_of(partial(_tried, read, path))
        assert peak < MOST_BYTES_A_BYTE * len(text) + LEAST_BYTES, text[:20]


@pytest.mark.parametrize("value", ["!!bool x", "!!timestamp x", "!!int ''", "1" + ":59" * 3000])
def test_values_that_are_not_of_the_type_of_their_tag_are_refused(value: str) -> None:
    with pytest.raises(InputError, match=r"rules: invalid YAML|version"):
        parse_rules(f"version: {value}")


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [
        *((r'"totalTimeMs":[\d.]+', f'"totalTimeMs":{total}') for total in ("NaN", "1e300", "-1")),
        (r":\{", ":null{"),  # that was a segmentation fault of Arrow
    ],
)
def test_a_damaged_request_is_a_reject(sound: str, damaged: str, tmp_path: Path) -> None:
    lines = [fetch(1_000, "m-7", 0, [(680, 699, 1)]), fetch(2_000, "m-8", 0, [(700, 709, 1)])]
    damaged_line = re.sub(sound, damaged, lines[0], count=1)
    assert damaged_line != lines[0]
    (tmp_path / "log").write_text(f"{damaged_line}\n{lines[1]}\n")
    tables = RequestLog(tmp_path / "log").tables
    assert tables["rejects"].num_rows == 1
    assert tables["acquisitions"].column("member_id").to_pylist() == ["m-8"]


def test_an_acknowledgement_without_a_first_offset_is_of_unknown_offsets() -> None:
    types = pa.array([[1, 1, 2], [1]], pa.list_(pa.int8()))
    _, runs, kinds = spread(pa.array([None, 7], pa.int64()), types)
    found = [(run["first"], run["last"]) for run in runs.to_pylist()]
    assert found == [(None, None), (None, None), (7, 7)]
    assert kinds.to_pylist() == [1, 2, 1]


@pytest.mark.parametrize("row", ['{"offset": "x"}', '{"partition": 9e99}', '{"offset": %s}'])
def test_printed_places_that_are_none_are_refused(row: str, tmp_path: Path) -> None:
    reject = '{"key": "00", "value": null}'
    path = tmp_path / "printed"
    path.write_text(row.replace("%s", "9" * 30).replace("}", f', "reject": {reject}}}'))
    with pytest.raises(InputError, match="not what Kafka's formatters print"):
        read_printed(path)


def test_an_event_with_an_offset_that_is_null_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "console.txt"
    path.write_bytes(CONSUMED + CONSUMED.splitlines()[1].replace(b"[3]", b"[3,null]") + b"\n")
    log = ConsumedLog(path)
    counts = {name: table.num_rows for name, table in log.tables.items()}
    assert counts == {"deliveries": 1, "outcomes": 1, "rejects": 1}


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 30, "\u0663", "-1"])
@pytest.mark.parametrize("place", [b" 0 ", b" 1 ", b" 7"])
def test_numbers_that_kafka_does_not_print_are_refused(number: str, place: bytes) -> None:
    text = OFFSETS.replace(place, f" {number} ".encode(), 1).decode()
    assert text != OFFSETS.decode()
    with pytest.raises(InputError, match="line 3 has no share group offset") as caught:
        parse_offsets(text)
    assert len(str(caught.value)) < 500
