"""The tables of requests against the message schemas that Kafka's own jar has."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sharelag.wire.requests import APIS, Api, Part
from sharelag.wire.requests.lines import LIST_GROUPS
from tests.support.kafka.since import since


def kafkas(jar: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """A message schema without its comments, which JSON has none of."""
    text = jar.read(f"common/message/{name}.json").decode()
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    found: dict[str, Any] = json.loads(re.sub(r"(?<=[,\]}\s])//.*$", "", text, flags=re.MULTILINE))
    return found


def fields(schema: dict[str, Any]) -> list[Any]:
    """What Kafka says of each field: name, type, versions, whether it may be null, its fields."""
    common = {one["name"]: one["fields"] for one in schema.get("commonStructs", [])}

    def of(field: dict[str, Any]) -> tuple[Any, ...]:
        array, name = field["type"].startswith("[]"), field["type"].removeprefix("[]")
        inner = field.get("fields") or common.get(name, [])
        kind = ("[]" if array else "") + ("struct" if inner else name)
        is_null = bool(field.get("nullableVersions"))
        return field["name"], kind, field["versions"], is_null, [of(one) for one in inner]

    return [of(one) for one in schema["fields"]]


def ours(parts: tuple[Part, ...]) -> list[Any]:
    return [
        (part.name, part.type, part.versions, part.nullable, ours(part.parts)) for part in parts
    ]


@since("4.2", "the first version with all versions of these requests")
@pytest.mark.parametrize("api", [*APIS, LIST_GROUPS], ids=lambda api: api.name)
def test_a_request_has_kafkas_fields(kafka_jars: Path, api: Api) -> None:
    with zipfile.ZipFile(next(kafka_jars.glob("kafka-clients-*.jar"))) as jar:
        request, response = (kafkas(jar, f"{api.name}{end}") for end in ("Request", "Response"))
    assert (request["apiKey"], request["validVersions"]) == (api.key, api.versions)
    assert ours(api.request) == fields(request)
    assert ours(api.response) == fields(response)


def test_no_request_about_share_groups_is_left_out(kafka_jars: Path) -> None:
    with zipfile.ZipFile(next(kafka_jars.glob("kafka-clients-*.jar"))) as jar:
        names = {Path(name).stem for name in jar.namelist() if name.endswith("Request.json")}
    shared = {name.removesuffix("Request") for name in names if "Share" in name}
    assert shared == {api.name for api in APIS}
