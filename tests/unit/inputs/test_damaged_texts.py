"""Damaged texts of every kind are read, or refused by one sentence; none takes long."""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag.errors import ConfigError, InputError, ShareLagError
from sharelag.inputs.files.printed import read_printed
from sharelag.inputs.files.request_log import ConsumedLog, RequestLog
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.described import parse_groups, parse_offsets
from sharelag.inputs.measured import read_metrics
from sharelag.monitoring.checks.rules import parse_rules, read_rules
from sharelag.whatif import from_json, named, names, to_json
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC, decode_arrow
from sharelag.wire.formatter import kafka_json
from sharelag.wire.requests.tables import spread
from tests.support.damaged_texts import damaged
from tests.support.memory import peak_of
from tests.support.mutations import corpus
from tests.support.reliability import Inject
from tests.support.request_lines import described, fetch, state_call

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
