"""What a field of a request or an answer is, and the Arrow type of its JSON in a broker's log."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

#: Arrow's type of each of Kafka's, as ``kafka.request.logger`` prints it: bytes as base64 texts.
_ARROW = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "records": pa.string(),
    "string": pa.string(),
    "uuid": pa.string(),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One field, as Kafka's message schemas describe it."""

    name: str  # Kafka's
    type: str  # of Kafka, or struct; [] before it for an array
    parts: tuple[Part, ...] = ()  # of a struct
    versions: str = "0+"  # of the request or answer that have it
    nullable: bool = False
    default: int | str = 0

    @property
    def json_name(self) -> str:
        """The name in the JSON of a request log."""
        return self.name[0].lower() + self.name[1:]

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of its JSON."""
        name = self.type.removeprefix("[]")
        kind = struct_of(self.parts) if name == "struct" else _ARROW[name]
        return pa.list_(kind) if self.type.startswith("[]") else kind


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request, with what it asks and what is answered."""

    name: str
    key: int
    versions: str  # that a broker of Kafka 4.3 takes
    request: tuple[Part, ...]
    response: tuple[Part, ...]


def struct_of(parts: tuple[Part, ...]) -> pa.DataType:
    """Return the Arrow type of an object with these fields, called as in JSON."""
    return pa.struct([(part.json_name, part.arrow) for part in parts])
