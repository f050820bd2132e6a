"""Columns of JSON texts are what each record gives on its own, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sharelag.tables.lines import json_text
from sharelag.wire import decode_arrow, formatter
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import (
    GROUP_KINDS,
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    STATE_KINDS,
    STATE_TOPIC,
    RecordKind,
)
from sharelag.wire.formatter import kafka_json, kafka_texts, reject_json, reject_texts
from tests.support import generators
from tests.support.command import sharelag
from tests.support.formatted import formatted, formatted_rejects
from tests.support.generations import raw_of
from tests.support.records import raw, raw_file, row
from tests.support.walk import WALK


def texts(some: Iterator[pa.StringArray]) -> list[str]:
    return [text for column in some for text in column.to_pylist()]


def records(random: Random, kinds: tuple[RecordKind, ...], count: int) -> list[generators.Record]:
    made = [generators.record(random, random.choice(kinds)) for _ in range(count)]
    return [generators.damaged(random, one) if random.random() < 0.2 else one for one in made]


@pytest.mark.parametrize(
    ("topic", "kinds"), [(STATE_TOPIC, STATE_KINDS), (GROUP_TOPIC, GROUP_KINDS)]
)
def test_columns_are_formatted_as_each_record(
    topic: str, kinds: tuple[RecordKind, ...], monkeypatch: pytest.MonkeyPatch, cases: Any
) -> None:
    random, seen = Random(topic), 0
    for _ in range(cases(12, 1000)):
        monkeypatch.setattr(formatter, "_ROWS", random.choice([1, 7, 1000]))
        found = decode_arrow(raw(records(random, kinds, random.randrange(40)), topic), topic)
        whole = [*formatted(found.records)]
        assert texts(kafka_texts(found.records)) == [json_text(one) for one in whole]
        assert [*kafka_json(found.records)] == whole
        wrong = [*formatted_rejects(found.rejects)]
        assert texts(reject_texts(found.rejects)) == [json_text(one) for one in wrong]
        assert [*reject_json(found.rejects)] == wrong
        seen += len(whole) * len(wrong)
    assert seen


def test_records_of_all_generations_keep_their_order() -> None:
    older = [decode_arrow(raw_of(WALK.values(), number)).records for number in range(4)]
    today = decode_arrow(raw(records(Random(3), STATE_KINDS, 20))).records
    mixed = pa.Table.from_batches([*older, today]).combine_chunks().to_batches()[0]
    order = [*range(len(mixed))]
    Random(5).shuffle(order)
    mixed = mixed.take(pa.array(order))
    whole = [*formatted(mixed)]
    assert {one["key"].get("generation") for one in whole} == {None, 0, 1, 2, 3}
    assert texts(kafka_texts(mixed)) == [json_text(one) for one in whole]


def test_hostile_names_are_escaped_and_stay_whole(tmp_path: Any) -> None:
    names = ["a\nb", "\x1b[2J", '"},', "\u202e", "\U000e0041", "\\n", "é", "\ud7ff", " "]
    made = [
        encode_record(SHARE_SNAPSHOT, row(5, [(5, 9, 0, 1)]) | {"group_id": one}) for one in names
    ]
    lines = sharelag("decode", "--raw", raw_file(tmp_path, raw(made)), "-o", "json").stdout
    assert lines.replace("\n", "").isprintable()
    found = [json.loads(line)["key"]["data"]["groupId"] for line in lines.splitlines()]
    assert found == names
