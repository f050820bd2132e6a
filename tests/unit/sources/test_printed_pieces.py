"""Are printed records that are read a piece at once those that are read one after another?"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag.errors import InputError
from sharelag.schemas.arrow import one_batch, without_timestamps
from sharelag.sources.files import printed
from sharelag.sources.files.printed import read_printed
from sharelag.sources.files.printed_pieces import regular_lines, regular_records
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.encode_columns import encode_values
from sharelag.wire.fields import GROUP_KINDS, GROUP_TOPIC, STATE_KINDS, STATE_TOPIC, RecordKind
from sharelag.wire.formatter import kafka_json
from tests.support import generators
from tests.support.generations import raw_of
from tests.support.records import raw
from tests.support.walk import WALK

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


def read(path: Path) -> pa.RecordBatch | str:
    try:
        return read_printed(path)
    except InputError as error:
        return str(error)


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
    found = read(path)
    monkeypatch.setattr(printed, name, lambda *_, **__: None)
    expected = read(path)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected, seed
    else:
        assert found.equals(expected), seed
    return at_once


@pytest.mark.parametrize("is_dump", [False, True])
def test_both_ways_read_random_and_damaged_texts_alike(
    is_dump: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "printed.txt"
    at_once = sum(check(path, f"pieces {seed}", monkeypatch, is_dump) for seed in range(60))
    assert at_once > 60


@pytest.mark.parametrize("place", [False, True])
def test_no_record_of_regular_text_is_read_for_itself(
    place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_records("regular", 200)
    rows = [*kafka_json(decode_arrow(before).records)]
    if not place:
        rows = [{"key": row["key"], "value": row["value"]} for row in rows]
    path = tmp_path / "printed.txt"
    path.write_text("".join(map(json.dumps, rows)), "utf-8")
    monkeypatch.delattr(printed, "_row")
    found = read_printed(path)
    assert found.column("offset").to_pylist() == [n + 100 * place for n in range(200)]
    assert set(found.column("topic").to_pylist()) == {STATE_TOPIC}
    names = ["group_id", "start_offset", "state_batches", "delivery_complete_count", "tombstone"]
    records = decode_arrow(found).records
    assert records.select(names).equals(decode_arrow(before).records.select(names))


def test_no_line_of_a_regular_dump_is_read_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_records("dump", 200)
    text = dumped([json.dumps(row) for row in kafka_json(decode_arrow(before).records)])
    path = tmp_path / "printed.txt"
    path.write_text(text, "utf-8")
    monkeypatch.delattr(printed, "_of_line")
    found = read_printed(path)
    assert found.column("partition").to_pylist() == [3] * 5 + [4] * 195
    times = found.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [1732000000000 + n for n in range(200)]
    assert found.column("key").equals(before.column("key"))


@pytest.mark.parametrize("kind", STATE_KINDS, ids=lambda kind: kind.name)
def test_values_encoded_as_columns_are_those_encoded_one_by_one(kind: RecordKind) -> None:
    before = state_records(kind.name, 200)
    records = without_timestamps(decode_arrow(before).records)
    is_live = pc.invert(records.column("tombstone"))
    mine = records.filter(pc.and_(pc.equal(records.column("record_type"), kind.type), is_live))
    rows = one_batch(mine).to_struct_array()
    expected = [encode_record(kind, row | {"unknown_tags": None})[1] for row in mine.to_pylist()]
    assert len(expected) > 30
    assert encode_values(kind, rows).to_pylist() == expected
