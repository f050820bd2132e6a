"""What a peeked record shows of its bytes, masked and not."""

import json
from typing import Any

import pytest

from sharelag.inputs.kafka.records import TopicRecord
from sharelag.workbench.peek import Mask, PeekedRecord

HIDDEN = "(hidden: it is not a JSON object, so no field can be masked)"
CARD = "4111111111111111"


def peeked(value: bytes | None, mask: Mask = ()) -> PeekedRecord:
    record = TopicRecord("orders", 0, 7, None, None, None, value, ())
    return PeekedRecord(record, "billing", "available", 3, mask)


@pytest.mark.parametrize(
    "value",
    [CARD, json.dumps(CARD), json.dumps([CARD]), json.dumps([[{"a": 1}, CARD]]), f"plain {CARD}"],
)
@pytest.mark.parametrize("form", ["auto", "text", "json", "hex"])
def test_without_fields_all_is_hidden_where_fields_are_to_be_masked(value: str, form: str) -> None:
    said = peeked(value.encode(), ["card.number"])
    assert said.fields(form)["value"] == HIDDEN
    assert CARD not in said.text(form)
    assert CARD.encode().hex(" ") not in said.text(form)
    assert said.not_found == ("card.number",)


@pytest.mark.parametrize("found", [{"card": {"number": CARD}}, [{"card": [{"number": CARD}]}]])
@pytest.mark.parametrize("form", ["auto", "text", "json", "hex"])
def test_a_field_is_masked_however_deep_and_in_any_form(found: Any, form: str) -> None:
    said = peeked(json.dumps(found).encode(), ["card.number"])
    assert CARD not in said.text(form)
    assert "***" in said.text(form)
    assert said.not_found == ()


def test_a_name_that_matches_nothing_is_told() -> None:
    said = peeked(json.dumps({"Card": {"number": CARD}}).encode(), ["card.number"])
    last = said.text().splitlines()[-1]
    assert last == "no field 'card.number' to mask: check its spelling, which is case-sensitive"
    assert said.fields()["value"] == "(hidden: it has none of the fields to mask)"
    assert CARD not in said.text("hex")
    assert said.fields()["not_found"] == ["card.number"]


def test_without_a_mask_it_is_as_it_is() -> None:
    assert peeked(b"12").fields()["value"] == "12"
    assert peeked(b"a\x1b[31m").text().splitlines()[-1] == "  a\\x1b[31m"
    assert peeked(b"\xff").fields()["value"] == "ff"
    assert peeked(None).fields()["value"] is None


@pytest.mark.parametrize(
    "written",
    [
        '{"card.number": "%s"}',
        '[{"a": {"card.number": {"deep": "%s"}}, "card": {"number": 1}}]',
        '{"card": {"number": 1}, "card": {"number": "%s"}}',
        '{"card": {"number": "%s", "number": "%s"}}',
    ],
)
def test_names_with_dots_and_names_that_are_there_twice_are_masked(written: str) -> None:
    value = written.replace("%s", CARD)
    said = peeked(value.encode(), ["card.number", "a.card.number"])
    assert CARD not in said.text()
    assert "***" in said.fields()["value"]


def test_json_is_shown_as_it_was_written() -> None:
    value = (
        '{"a":1,"a":2,"price":1.10,"big":12345678901234567890123,"e":1E400,"n":NaN,"l":[],"o":{}}'
    )
    shown = peeked(value.encode()).fields()["value"]
    assert shown.replace("\n", "").replace(" ", "") == value
    assert shown.splitlines()[:3] == ["{", '  "a": 1,', '  "a": 2,']
    deep = "[" * 500 + "]" * 500
    assert peeked(deep.encode()).fields()["value"] == deep
    assert peeked(deep.encode(), ["a"]).fields()["value"] == HIDDEN
    nested = {"x": [1, {"y": "\u00fc\u202e"}], "z": None, "t": True}
    again = peeked(json.dumps(nested).encode()).fields()["value"]
    assert again == json.dumps(nested, indent=2, ensure_ascii=False)


def test_json_in_a_header_is_one_line_without_gaps() -> None:
    record = TopicRecord("orders", 0, 7, None, None, None, None, (("card", b'{"a": {"b": 1}}'),))
    said = PeekedRecord(record, "billing", "available", 3)
    assert 'header card, 15 bytes: {"a": {"b": 1}}' in said.text().splitlines()
