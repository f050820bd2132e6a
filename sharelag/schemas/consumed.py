"""What consumers print: deliveries, and how their acknowledgements fared."""

from __future__ import annotations

import pyarrow as pa

from sharelag.schemas.requests import INSTANT

_LINE = [
    ("source", pa.string()),  # the file
    ("position", pa.int64()),  # the byte of the file at which the line begins
    ("timestamp", INSTANT),
]

#: One record that a consumer was given.
DELIVERIES = pa.schema(
    [
        *_LINE,  # the record's own time, or when it was consumed; null: not printed
        ("topic", pa.string()),  # null: console consumers do not print it
        ("partition", pa.int32()),  # null: not printed
        ("offset", pa.int64()),
        # null: not printed, or by a consumer group, which counts none
        ("delivery_count", pa.int16()),
    ]
)

#: One run of offsets of which a consumer's callback heard how their acknowledgement fared.
OUTCOMES = pa.schema(
    [
        *_LINE,  # when the callback was called
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("succeeded", pa.bool_()),
        ("error_message", pa.string()),  # of the exception; null: none
    ]
)

#: One line that says what it is, and cannot be read. Its text may hold a payload, and is not kept.
OUTPUT_REJECTS = pa.schema([*_LINE[:2], ("reason", pa.string())])

#: By name.
CONSUMED_TABLES = {"deliveries": DELIVERIES, "outcomes": OUTCOMES, "rejects": OUTPUT_REJECTS}
