"""Kafka's own schemas of the requests that are read, and the Arrow types of their JSON.

The JSON files in this folder are Kafka 4.4's, unchanged (see ``NOTICE``); each is read when a log
has the first request of its kind.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

#: Requests for share groups only, by their API keys ...
SHARE_APIS = {
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
#: ... and with those for groups of all types.
APIS = {**SHARE_APIS, 16: "ListGroups", 42: "DeleteGroups"}
#: Arrow types by Kafka's types, as ``kafka.request.logger`` prints them: bytes as base64 texts.
_ARROW = {
    **{name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64")},
    **dict.fromkeys(("records", "string", "uuid"), pa.string()),
    "bool": pa.bool_(),
}
#: Standard JSON has no comments.
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


class Api(NamedTuple):
    """One kind of request, with the Arrow types of request and response."""

    name: str
    request: pa.StructType
    response: pa.StructType
    is_draft: bool = False


@cache
def api(key: int) -> Api:
    """Return the request with a key of `APIS`, with the fields of all its versions."""
    name = APIS[key]
    return Api(name, *(_body(f"{name}{end}") for end in ("Request", "Response")))


def _body(name: str) -> pa.StructType:
    text = Path(__file__).with_name(f"{name}.json").read_text("utf-8")
    schema = json.loads(_COMMENT.sub("", text))
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}

    def arrow(field: dict[str, Any]) -> pa.DataType:
        name = field["type"].removeprefix("[]")
        inner = field.get("fields") or common.get(name)
        kind = of(inner) if inner else _ARROW[name]
        return pa.list_(kind) if field["type"].startswith("[]") else kind

    def of(fields: list[dict[str, Any]]) -> pa.StructType:
        return pa.struct([(one["name"][0].lower() + one["name"][1:], arrow(one)) for one in fields])

    return of(schema["fields"])
